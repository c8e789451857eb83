//! The one way to the terminal.

use std::io::{self, Write};

use control::{ErrorKind, Failure};

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
        let steers = |c: char| c.is_control() && c != '\n' && c != '\t';
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
        self.raw(&text)?;
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
