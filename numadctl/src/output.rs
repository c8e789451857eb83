//! The one way to the terminal.

use std::io::{self, Write};

use control::{ErrorKind, Failure, changes_display};

/// Writes for people and pipes: a reader that went away is quiet, and characters that would steer
/// the terminal are shown as `?`, because names of threads and processes are chosen by anyone.
pub(crate) struct Output<'a> {
    to: &'a mut dyn Write,
    closed: bool,
}

impl std::fmt::Debug for Output<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Output")
            .field("closed", &self.closed)
            .finish_non_exhaustive()
    }
}

impl<'a> Output<'a> {
    pub(crate) fn new(to: &'a mut dyn Write) -> Self {
        Self { to, closed: false }
    }

    /// Writes text, and flushes it.
    pub(crate) fn text(&mut self, text: &str) -> Result<(), Failure> {
        let steers = |c: char| changes_display(c) && c != '\n' && c != '\t';
        if text.contains(steers) {
            return self.raw(&text.replace(steers, "?"));
        }
        self.raw(text)
    }

    /// Writes JSON on one line.
    pub(crate) fn json(&mut self, value: &impl serde::Serialize) -> Result<(), Failure> {
        let text = serde_json::to_string(value).map_err(|error| {
            Failure::new(
                ErrorKind::Internal,
                format!("cannot put the answer into JSON: {error}"),
            )
        })?;
        if !text.contains(changes_display) {
            self.raw(&text)?;
            return self.raw("\n");
        }
        // serde_json escapes the first 32 alone. The others only stand within strings, where JSON
        // takes an escape for them.
        let escaped = text.chars().fold(String::new(), |mut escaped, c| {
            if changes_display(c) {
                escaped.push_str(&format!("\\u{:04x}", u32::from(c)));
            } else {
                escaped.push(c);
            }
            escaped
        });
        self.raw(&escaped)?;
        self.raw("\n")
    }

    /// Writes as it is.
    pub(crate) fn raw(&mut self, text: &str) -> Result<(), Failure> {
        if self.closed {
            return Ok(());
        }
        match self
            .to
            .write_all(text.as_bytes())
            .and_then(|()| self.to.flush())
        {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                self.closed = true;
                Ok(())
            }
            Err(error) => Err(Failure::new(
                ErrorKind::Kernel,
                format!("cannot write to standard output: {error}"),
            )),
        }
    }

    /// Whether nobody reads any more.
    pub(crate) const fn closed(&self) -> bool {
        self.closed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_steers_the_terminal() {
        let mut bytes = Vec::new();
        let mut out = Output::new(&mut bytes);
        out.text("a\u{1b}[2J\tb\u{9b}c\u{202e}d\u{61c}\u{2028}\n")
            .unwrap();
        out.json(&"a\u{1b}b\u{9b}c\u{202e}\u{7f}d\u{e9}").unwrap();
        let told = String::from_utf8(bytes).unwrap();
        assert_eq!(
            told,
            "a?[2J\tb?c?d??\n\"a\\u001bb\\u009bc\\u202e\\u007fd\u{e9}\"\n"
        );
        let back: String = serde_json::from_str(told.lines().last().unwrap()).unwrap();
        assert_eq!(back, "a\u{1b}b\u{9b}c\u{202e}\u{7f}d\u{e9}");
    }
}
