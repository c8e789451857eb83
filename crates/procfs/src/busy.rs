//! How busy the processors are.

use crate::error::{Cause, ParseError, ReadError};
use crate::reader::Reader;

/// Time that all processors together have spent, in ticks since the machine began; two of these tell how
/// busy it was in between.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessorTime {
    /// Running something, interrupts and the work of other guests included.
    pub busy: u64,
    /// All of it.
    pub all: u64,
}

impl ProcessorTime {
    /// Share of the time since `before` that processors were busy, 0 to 1; none when no time passed.
    #[must_use]
    pub fn share_since(&self, before: &Self) -> Option<f64> {
        let all = self.all.saturating_sub(before.all);
        let busy = self.busy.saturating_sub(before.busy).min(all);
        #[expect(clippy::cast_precision_loss, reason = "ticks of a few seconds")]
        let share = busy as f64 / all as f64;
        (all > 0).then_some(share)
    }
}

impl Reader {
    /// Time that processors have spent so far.
    ///
    /// # Errors
    /// When it cannot be read or understood, or is not there: every Linux has it.
    pub fn processor_time(&self) -> Result<ProcessorTime, ReadError> {
        const PATH: &str = "proc/stat";
        let time = self.parsed(PATH, parse_processor_time)?;
        match time.here() {
            Some(time) => Ok(time),
            None => Err(ReadError {
                path: self.path(PATH),
                cause: Cause::Text(ParseError::new(1, b"", "is not there")),
            }),
        }
    }
}

/// Reads the first line of `/proc/stat`: `cpu`, then user, nice, system, idle, iowait, irq, softirq, steal.
///
/// # Errors
/// When the line is something else.
pub fn parse_processor_time(bytes: &[u8]) -> Result<ProcessorTime, ParseError> {
    let line = bytes
        .split(|&byte| byte == b'\n')
        .next()
        .unwrap_or_default();
    let wrong = || ParseError::new(1, line, "is not the time of all processors");
    let text = std::str::from_utf8(line).map_err(|_no_text| wrong())?;
    let mut words = text.split_ascii_whitespace();
    if words.next() != Some("cpu") {
        return Err(wrong());
    }
    let mut time = ProcessorTime::default();
    let mut count = 0;
    // What follows steal is time of guests, which is in user time already.
    for (place, word) in words.take(8).enumerate() {
        let ticks: u64 = word.parse().map_err(|_no_number| wrong())?;
        time.all = time.all.saturating_add(ticks);
        let idle = place == 3 || place == 4;
        time.busy = time.busy.saturating_add(if idle { 0 } else { ticks });
        count += 1;
    }
    if count < 4 {
        return Err(wrong());
    }
    Ok(time)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::Tree;

    #[test]
    fn the_share_is_that_of_the_time_between() {
        let tree = Tree::new("busy");
        let read = |line: &str| {
            tree.file("proc/stat", line);
            tree.reader().processor_time().unwrap()
        };
        let before = read("cpu  10 0 10 80 0 0 0 0 0 0\ncpu0 1 2 3 4\n");
        assert_eq!((before.busy, before.all), (20, 100));
        let after = read("cpu  30 10 10 100 40 0 5 5 99 99\nintr 5\n");
        assert_eq!(after.share_since(&before), Some(0.4));
        assert_eq!(after.share_since(&after), None);
        // A counter that went back is no time, and never a share beyond all.
        assert_eq!(before.share_since(&after), None);
    }

    #[test]
    fn damage_is_refused() {
        for text in [
            "",
            "cpu",
            "cpu 1 2 3",
            "cpu0 1 2 3 4",
            "cpu 1 2 x 4",
            "cpu 1 2 3 -4",
        ] {
            assert!(parse_processor_time(text.as_bytes()).is_err(), "{text}");
        }
        parse_processor_time(b"cpu \xff 1 2 3 4").unwrap_err();
        let huge = parse_processor_time(b"cpu 18446744073709551615 1 1 1").unwrap();
        assert_eq!(huge.all, u64::MAX);
        let none = Tree::new("busy-none");
        none.reader().processor_time().unwrap_err();
    }
}
