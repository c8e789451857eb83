//! How busy the processors are.

use std::collections::BTreeMap;

use topology::CpuId;

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

impl Reader {
    /// Time that each processor has spent so far; those that are offline are missing.
    ///
    /// # Errors
    /// As [`Self::processor_time`].
    pub fn processor_times(&self) -> Result<BTreeMap<CpuId, ProcessorTime>, ReadError> {
        let times = self.parsed("proc/stat", parse_processor_times)?;
        Ok(times.here().unwrap_or_default())
    }
}

/// Reads the lines of `/proc/stat` that are of one processor each, as in `cpu3 10 0 ...`.
///
/// # Errors
/// When such a line is something else.
pub fn parse_processor_times(bytes: &[u8]) -> Result<BTreeMap<CpuId, ProcessorTime>, ParseError> {
    let mut times = BTreeMap::new();
    for (line, number) in bytes.split(|&byte| byte == b'\n').zip(1..) {
        let Some(rest) = line
            .strip_prefix(b"cpu")
            .filter(|rest| rest.first() != Some(&b' '))
        else {
            continue;
        };
        let wrong = || ParseError::new(number, line, "is not the time of a processor");
        let text = std::str::from_utf8(rest).map_err(|_no_text| wrong())?;
        let mut words = text.split_ascii_whitespace();
        let cpu = words.next().and_then(|word| word.parse().ok());
        let cpu = cpu
            .filter(|&cpu| cpu <= topology::set::ID_MAX)
            .ok_or_else(wrong)?;
        times.insert(CpuId(cpu), spent(words).ok_or_else(wrong)?);
    }
    Ok(times)
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
    spent(words).ok_or_else(wrong)
}

/// The sum of user, nice, system, idle, iowait, irq, softirq and steal; none where it is not that.
fn spent<'a>(words: impl Iterator<Item = &'a str>) -> Option<ProcessorTime> {
    let mut time = ProcessorTime::default();
    let mut count = 0;
    // What follows steal is time of guests, which is in user time already.
    for (place, word) in words.take(8).enumerate() {
        let ticks: u64 = word.parse().ok()?;
        time.all = time.all.saturating_add(ticks);
        let idle = place == 3 || place == 4;
        time.busy = time.busy.saturating_add(if idle { 0 } else { ticks });
        count += 1;
    }
    (count >= 4).then_some(time)
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
    fn each_processor_has_its_line() {
        let tree = Tree::new("busy-each");
        tree.file(
            "proc/stat",
            "cpu  9 9 9 9\ncpu0 1 0 1 8\ncpu10 5 0 0 5 0 0 0 0\nintr 5\n",
        );
        let times = tree.reader().processor_times().unwrap();
        let seen: Vec<(u32, u64, u64)> = times
            .iter()
            .map(|(cpu, time)| (cpu.0, time.busy, time.all))
            .collect();
        assert_eq!(seen, [(0, 2, 10), (10, 5, 10)]);
        for damaged in [
            "cpux 1 2 3 4",
            "cpu0 1 2",
            "cpu99999999 1 2 3 4",
            "cpu1 a b c d",
        ] {
            parse_processor_times(damaged.as_bytes()).unwrap_err();
        }
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
