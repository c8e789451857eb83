//! Which processes' records pass.
//!
//! The events listen to whole processors, so most records of a busy machine belong to programs that
//! nobody asked about. One look-up per record decides; it is a binary search in a sorted list, behind
//! a memory of the last answer, because neighbours in a ring mostly belong to one process.

use topology::Pid;

/// Most processes followed at a time. A fork bomb fills this and is counted, not followed.
pub const PROCESSES_MAX: usize = 65_536;

/// The processes whose records pass: those that were named, and those that they make. Whoever follows
/// them decides when one leaves; a number alone does not tell.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Ascending.
    followed: Vec<u32>,
    /// Followed since this was asked the last time.
    joined: Vec<Pid>,
    last: Option<(u32, bool)>,
    unfollowed: u64,
}

impl Filter {
    /// Follows nobody.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether nobody is followed.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.followed.is_empty()
    }

    /// Processes followed.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.followed.len()
    }

    /// Children that were not followed for lack of room.
    #[must_use]
    pub const fn unfollowed(&self) -> u64 {
        self.unfollowed
    }

    /// Follows a process until [`Filter::remove`]; false if there is no room.
    pub fn add(&mut self, pid: Pid) -> bool {
        self.find(pid.0).is_ok() || self.insert(pid.0)
    }

    /// Forgets a process, but none of those it made.
    pub fn remove(&mut self, pid: Pid) {
        if let Ok(at) = self.find(pid.0) {
            self.followed.remove(at);
            self.joined.retain(|joined| *joined != pid);
            self.last = None;
        }
    }

    /// Every process that is followed, ascending.
    pub fn pids(&self) -> impl Iterator<Item = Pid> + '_ {
        self.followed.iter().copied().map(Pid)
    }

    /// Processes that joined since this was asked the last time, and have not left since.
    pub fn take_joined(&mut self) -> std::vec::Drain<'_, Pid> {
        self.joined.drain(..)
    }

    /// Whether a process is followed.
    #[inline]
    pub fn passes(&mut self, pid: u32) -> bool {
        match self.last {
            Some((last, answer)) if last == pid => answer,
            _ => {
                let answer = self.find(pid).is_ok();
                self.last = Some((pid, answer));
                answer
            }
        }
    }

    /// Follows a new process if its parent is followed; true if that is news.
    pub fn adopt(&mut self, pid: u32, parent: u32) -> bool {
        self.find(parent).is_ok() && self.find(pid).is_err() && self.insert(pid)
    }

    /// Takes note of a thread that was made; true if its process is followed.
    pub fn forked(&mut self, pid: u32, parent: u32) -> bool {
        if self.find(pid).is_ok() {
            return true;
        }
        let followed = self.adopt(pid, parent);
        self.unfollowed += u64::from(!followed && self.find(parent).is_ok());
        followed
    }

    fn find(&self, pid: u32) -> Result<usize, usize> {
        self.followed.binary_search(&pid)
    }

    fn insert(&mut self, pid: u32) -> bool {
        if self.followed.len() >= PROCESSES_MAX {
            return false;
        }
        self.last = None;
        let at = self.find(pid).unwrap_or_else(|at| at);
        self.followed.insert(at, pid);
        self.joined.push(Pid(pid));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_attached_pass() {
        let mut filter = Filter::new();
        assert!(!filter.passes(7));
        assert!(filter.add(Pid(7)) && filter.add(Pid(3)) && filter.add(Pid(7)));
        assert!(filter.passes(7) && filter.passes(7) && filter.passes(3));
        assert!(!filter.passes(5));
        filter.remove(Pid(7));
        assert!(!filter.passes(7) && filter.passes(3));
    }

    #[test]
    fn children_pass_until_they_are_removed() {
        let mut filter = Filter::new();
        filter.add(Pid(7));
        assert!(filter.forked(20, 7));
        assert!(filter.forked(20, 20), "a thread of the child");
        assert!(
            filter.adopt(21, 20) && !filter.adopt(21, 20),
            "a grandchild"
        );
        assert!(!filter.forked(30, 29) && !filter.adopt(30, 29));
        filter.remove(Pid(7));
        assert!(!filter.passes(7) && filter.passes(20) && filter.passes(21));
        assert_eq!(filter.pids().collect::<Vec<_>>(), [Pid(20), Pid(21)]);
    }

    #[test]
    fn who_joined_and_left_again_is_no_news() {
        let mut filter = Filter::new();
        filter.add(Pid(7));
        assert_eq!(filter.take_joined().as_slice(), [Pid(7)]);
        filter.forked(20, 7);
        filter.forked(21, 7);
        filter.remove(Pid(20));
        assert_eq!(filter.take_joined().as_slice(), [Pid(21)]);
        assert_eq!(filter.take_joined().as_slice(), []);
    }

    #[test]
    fn there_is_a_limit_and_a_count() {
        let mut filter = Filter::new();
        filter.add(Pid(1));
        for pid in 2..=65_536 {
            assert!(filter.forked(pid, 1));
        }
        assert!(!filter.forked(70_000, 1) && !filter.add(Pid(70_001)));
        assert_eq!((filter.len(), filter.unfollowed()), (PROCESSES_MAX, 1));
    }
}
