//! Masks of ours that threads of a process may hand on to those they make, and what goes back for them.
//!
//! A thread has its maker's mask. So one that was made by a thread that we bound has a mask of ours without a row in
//! the journal. What it gets back is what its maker had.

use std::collections::BTreeMap;

use topology::{CpuSet, StartTicks};

use crate::affinity::{Kind, Origin, clipped};

/// The masks that were set for threads of one process, each with the affinities that those threads had before.
#[derive(Clone, Debug, Default)]
pub(crate) struct Heritage {
    /// By the words of the mask, which has no order of its own.
    of_mask: BTreeMap<Vec<u64>, Vec<Share>>,
}

/// Threads that had the same affinity before, and got the same mask.
#[derive(Clone, Debug)]
struct Share {
    origin: Origin,
    /// When the first of them got it.
    since: StartTicks,
    threads: usize,
}

impl Heritage {
    /// A thread with this affinity gets a mask.
    pub(crate) fn add(&mut self, origin: &Origin, since: StartTicks, mask: &CpuSet) {
        let shares = self.of_mask.entry(mask.words().to_vec()).or_default();
        let share = Share {
            origin: origin.clone(),
            since,
            threads: 1,
        };
        join(shares, &[share]);
    }

    /// Adds what another process may hand on.
    pub(crate) fn merge(&mut self, other: &Self) {
        for (mask, shares) in &other.of_mask {
            join(self.of_mask.entry(mask.clone()).or_default(), shares);
        }
    }

    /// Whether nothing was set.
    pub(crate) fn is_empty(&self) -> bool {
        self.of_mask.is_empty()
    }

    /// The same masks as threads of a cpuset show them, for quick answers.
    pub(crate) fn shown_in(&self, allowed: &CpuSet) -> Shown {
        let mut shown = Shown::default();
        for (mask, shares) in &self.of_mask {
            let mask = CpuSet::from_words(mask);
            let clipped = clipped(&mask, allowed);
            // Where both are the same the threads are counted once, or they would outweigh others.
            let whole = Some(&mask).filter(|mask| **mask != clipped);
            for appearance in [Some(&clipped), whole].into_iter().flatten() {
                let appearance = appearance.words().to_vec();
                join(shown.of_mask.entry(appearance).or_default(), shares);
            }
        }
        shown
    }
}

/// A process's [`Heritage`] in one cpuset.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shown {
    of_mask: BTreeMap<Vec<u64>, Vec<Share>>,
}

impl Shown {
    /// Whether a thread with this mask may have it from us.
    pub(crate) fn has(&self, mask: &CpuSet) -> bool {
        self.of_mask.contains_key(mask.words())
    }

    /// Whether whoever has this mask from a thread of the process gets back the same, whenever it began and whoever made it.
    pub(crate) fn gives_only(&self, mask: &CpuSet, origin: &Origin) -> bool {
        let shares = self.of_mask.get(mask.words());
        shares.is_some_and(|shares| shares.iter().all(|share| share.origin == *origin))
    }

    /// The affinity that goes back to a thread with this mask that began then, if a thread of the process had got it: in
    /// the same tick of 10 ms or before.
    ///
    /// Of several: none at all if one of the makers had none, because too wide does less harm than too narrow; else
    /// what most of them had; of as many, what was recorded first.
    pub(crate) fn origin_for(&self, born: StartTicks, mask: &CpuSet) -> Option<&Origin> {
        let shares = self.of_mask.get(mask.words())?;
        let older = shares.iter().rev().filter(|share| share.since <= born);
        let most = older.max_by_key(|share| (share.origin.kind == Kind::Unset, share.threads));
        most.map(|share| &share.origin)
    }
}

/// Adds threads to those that got the same mask.
fn join(known: &mut Vec<Share>, more: &[Share]) {
    for share in more {
        if let Some(known) = known.iter_mut().find(|known| known.origin == share.origin) {
            known.since = known.since.min(share.since);
            known.threads += share.threads;
        } else if known.len() < SHARES_MAX {
            known.push(share.clone());
        }
    }
}

/// Different affinities that threads of one process had before they got one mask. Which of them made another cannot
/// be known, so that more of them tell no more.
const SHARES_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::set;

    fn origin(kind: Kind, mask: &str) -> Origin {
        Origin {
            kind,
            mask: set(mask),
        }
    }

    /// What goes back to a thread that began then, as masks.
    fn passed(heritage: &Heritage, start: u64, mask: &str) -> Option<String> {
        let shown = heritage.shown_in(&set("0-3"));
        let origin = shown.origin_for(StartTicks(start), &set(mask));
        origin.map(|origin| origin.mask.to_string())
    }

    #[test]
    fn what_most_had_wins_unless_one_had_none() {
        let mut heritage = Heritage::default();
        for mask in ["1-2", "0-2", "0-2"] {
            heritage.add(&origin(Kind::User, mask), StartTicks(9), &set("0-1"));
        }
        assert_eq!(passed(&heritage, 10, "0-1").as_deref(), Some("0-2"));
        heritage.add(&origin(Kind::Unset, "0-3"), StartTicks(9), &set("0-1"));
        assert_eq!(passed(&heritage, 10, "0-1").as_deref(), Some("0-3"));
    }

    #[test]
    fn threads_count_alike_whether_the_cpuset_clips_their_mask_or_not() {
        let mut heritage = Heritage::default();
        for (origin_mask, set_mask, threads) in [("0-2", "0-1", 2), ("1-2", "0-3", 3)] {
            for _ in 0..threads {
                heritage.add(
                    &origin(Kind::User, origin_mask),
                    StartTicks(9),
                    &set(set_mask),
                );
            }
        }
        let shown = heritage.shown_in(&set("0-1"));
        let most = shown.origin_for(StartTicks(10), &set("0-1")).unwrap();
        assert_eq!(most.mask, set("1-2"));
    }

    #[test]
    fn of_as_many_the_first_wins() {
        let mut heritage = Heritage::default();
        heritage.add(&origin(Kind::User, "1-2"), StartTicks(9), &set("0-1"));
        heritage.add(&origin(Kind::User, "0-2"), StartTicks(9), &set("0-1"));
        assert_eq!(passed(&heritage, 10, "0-1").as_deref(), Some("1-2"));
    }

    #[test]
    fn a_thread_that_was_there_before_has_it_from_elsewhere() {
        let mut heritage = Heritage::default();
        heritage.add(&origin(Kind::User, "0-2"), StartTicks(9), &set("0-1"));
        assert_eq!(passed(&heritage, 9, "0-1").as_deref(), Some("0-2"));
        assert_eq!(passed(&heritage, 8, "0-1"), None);
        assert_eq!(passed(&heritage, 10, "0-2"), None);
    }

    #[test]
    fn a_mask_shows_as_its_cpuset_leaves_it() {
        let mut heritage = Heritage::default();
        heritage.add(&origin(Kind::User, "0-2"), StartTicks(9), &set("2-7"));
        assert_eq!(passed(&heritage, 10, "2-3").as_deref(), Some("0-2"));
        assert_eq!(passed(&heritage, 10, "2-7").as_deref(), Some("0-2"));
        assert_eq!(passed(&heritage, 10, "3"), None);
    }

    #[test]
    fn affinities_are_bounded() {
        let mut heritage = Heritage::default();
        for cpu in 0..SHARES_MAX * 2 {
            heritage.add(
                &origin(Kind::User, &cpu.to_string()),
                StartTicks(9),
                &set("0-1"),
            );
        }
        let shares: usize = heritage.of_mask.values().map(Vec::len).sum();
        assert_eq!(shares, SHARES_MAX);
    }
}
