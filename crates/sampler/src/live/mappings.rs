//! Which addresses processes have.

use std::collections::BTreeMap;

use topology::Pid;

/// Addresses from the first up to the second, which is not one of them.
pub type Range = (u64, u64);

/// What processes have mapped, as far as somebody told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mappings {
    /// Ascending, none touching the next.
    of: BTreeMap<Pid, Vec<Range>>,
}

impl Mappings {
    /// What a process has mapped, in any order; empty ranges count for nothing. More than
    /// `RANGES_MAX` are taken as not known: then any address may be the process's.
    pub fn set(&mut self, pid: Pid, ranges: &[Range]) {
        if ranges.len() > RANGES_MAX {
            self.of.remove(&pid);
            return;
        }
        let mut sorted: Vec<Range> = ranges
            .iter()
            .filter(|(from, to)| from < to)
            .copied()
            .collect();
        sorted.sort_unstable();
        let mut joined: Vec<Range> = Vec::with_capacity(sorted.len());
        for (from, to) in sorted {
            match joined.last_mut() {
                Some(last) if from <= last.1 => last.1 = last.1.max(to),
                _ => joined.push((from, to)),
            }
        }
        self.of.insert(pid, joined);
    }

    /// Forgets a process.
    pub fn forget(&mut self, pid: Pid) {
        self.of.remove(&pid);
    }

    /// Whether an address may be the process's: nobody told of the process, or it is mapped.
    #[must_use]
    pub fn may_have(&self, pid: Pid, address: u64) -> bool {
        let Some(ranges) = self.of.get(&pid) else {
            return true;
        };
        let behind = ranges.partition_point(|(from, _)| *from <= address);
        behind > 0 && address < ranges[behind - 1].1
    }
}

/// As many mappings as the kernel allows a process by default (`vm.max_map_count`).
const RANGES_MAX: usize = 65_530;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_mapped_passes_where_that_is_known() {
        let mut mappings = Mappings::default();
        assert!(mappings.may_have(Pid(7), 5));
        mappings.set(Pid(7), &[(30, 40), (9, 9), (10, 20), (20, 25), (12, 14)]);
        let inside: Vec<u64> = (0..50)
            .filter(|at| mappings.may_have(Pid(7), *at))
            .collect();
        let expected: Vec<u64> = (10..25).chain(30..40).collect();
        assert_eq!(inside, expected);
        assert!(mappings.may_have(Pid(8), 5));
        mappings.set(Pid(7), &[]);
        assert!(!mappings.may_have(Pid(7), 12));
        mappings.forget(Pid(7));
        assert!(mappings.may_have(Pid(7), 5));
        mappings.set(Pid(7), &vec![(1, 2); RANGES_MAX + 1]);
        assert!(mappings.may_have(Pid(7), 5));
    }
}
