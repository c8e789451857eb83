//! Which processes' records pass.
//!
//! The events listen to whole processors, so most records of a busy machine belong to programs that
//! nobody asked about. One look-up per record decides; it is a binary search in a sorted list, behind
//! a memory of the last answer, because neighbours in a ring mostly belong to one process.

use topology::Pid;

/// Most processes followed at a time. A fork bomb fills this and is counted, not followed.
pub const PROCESSES_MAX: usize = 65_536;

/// The attached processes and the processes they made.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Sorted by process.
    followed: Vec<Followed>,
    last: Option<(u32, bool)>,
    /// Set while a child may have no thread left.
    unswept: bool,
    unfollowed: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Followed {
    pid: u32,
    /// The attached process it descends from; itself if it was attached.
    root: u32,
    /// Threads known to live, of a process followed because of a fork. Rings are read one after the
    /// other, so an exit may be seen before the fork that it follows, and the number be negative
    /// for the rest of that drain.
    threads: i64,
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
        self.insert(Followed {
            pid: pid.0,
            root: pid.0,
            threads: 0,
        })
    }

    /// Forgets a process and those it made, and says which these are.
    pub fn remove(&mut self, pid: Pid) -> Vec<Pid> {
        self.forget(|followed| followed.root == pid.0 || followed.pid == pid.0)
    }

    /// Forgets a process that has ended, but none of those it made.
    pub fn remove_alone(&mut self, pid: Pid) {
        self.forget(|followed| followed.pid == pid.0);
    }

    /// Every process that is followed, ascending.
    pub fn pids(&self) -> impl Iterator<Item = Pid> + '_ {
        self.followed.iter().map(|followed| Pid(followed.pid))
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

    /// Follows a new process if its parent is followed; true if that is news. The fork itself is still
    /// to be noted with [`Filter::forked`].
    pub fn adopt(&mut self, pid: u32, parent: u32) -> bool {
        let Ok(at) = self.find(parent) else {
            return false;
        };
        let root = self.followed[at].root;
        self.find(pid).is_err()
            && self.insert(Followed {
                pid,
                root,
                threads: 0,
            })
    }

    /// Takes note of a thread that was made; true if its process is followed.
    pub fn forked(&mut self, pid: u32, parent: u32) -> bool {
        if let Ok(at) = self.find(pid) {
            self.followed[at].threads += 1;
            return true;
        }
        let Ok(at) = self.find(parent) else {
            return false;
        };
        let root = self.followed[at].root;
        let followed = self.insert(Followed {
            pid,
            root,
            threads: 1,
        });
        self.unfollowed += u64::from(!followed);
        followed
    }

    /// Takes note of a thread that ended; true if its process is followed.
    pub fn exited(&mut self, pid: u32) -> bool {
        let Ok(at) = self.find(pid) else {
            return false;
        };
        let followed = &mut self.followed[at];
        followed.threads -= 1;
        self.unswept |= followed.threads <= 0;
        true
    }

    /// Forgets children without a thread, and says which these are. To be called when all rings have
    /// been read, for only then are forks and exits even.
    pub fn sweep(&mut self) -> Vec<Pid> {
        if !std::mem::take(&mut self.unswept) {
            return Vec::new();
        }
        self.forget(|followed| followed.root != followed.pid && followed.threads <= 0)
    }

    fn forget(&mut self, gone: impl Fn(&Followed) -> bool) -> Vec<Pid> {
        self.last = None;
        let forgotten = self.followed.extract_if(.., |followed| gone(followed));
        forgotten.map(|followed| Pid(followed.pid)).collect()
    }

    fn find(&self, pid: u32) -> Result<usize, usize> {
        self.followed
            .binary_search_by_key(&pid, |followed| followed.pid)
    }

    fn insert(&mut self, new: Followed) -> bool {
        self.last = None;
        match self.find(new.pid) {
            Ok(at) => self.followed[at].root = new.root,
            Err(_) if self.followed.len() >= PROCESSES_MAX => return false,
            Err(at) => self.followed.insert(at, new),
        }
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
        assert!(filter.add(Pid(7)) && filter.add(Pid(3)));
        assert!(filter.passes(7) && filter.passes(7) && filter.passes(3));
        assert!(!filter.passes(5));
        assert_eq!(filter.remove(Pid(7)), [Pid(7)]);
        assert!(!filter.passes(7) && filter.passes(3));
    }

    #[test]
    fn children_follow_until_their_last_thread_ends() {
        let mut filter = Filter::new();
        filter.add(Pid(7));
        assert!(filter.forked(20, 7));
        assert!(filter.forked(20, 20), "a thread of the child");
        assert!(filter.forked(21, 20), "a grandchild");
        assert!(!filter.forked(30, 29));
        assert!(filter.exited(20));
        assert_eq!(filter.sweep(), []);
        assert!(filter.passes(20), "one thread is left");
        assert!(filter.exited(20));
        assert!(filter.passes(20), "until all rings have been read");
        assert_eq!(filter.sweep(), [Pid(20)]);
        assert!(!filter.passes(20) && filter.passes(21) && filter.passes(7));
        assert_eq!(filter.remove(Pid(7)), [Pid(7), Pid(21)]);
        assert!(filter.is_empty());
    }

    #[test]
    fn an_exit_read_before_its_fork_evens_out() {
        let mut filter = Filter::new();
        filter.add(Pid(7));
        filter.forked(20, 7);
        filter.exited(20);
        filter.exited(20);
        filter.forked(20, 20);
        filter.forked(20, 20);
        assert_eq!(filter.sweep(), []);
        assert!(filter.passes(20));
    }

    #[test]
    fn an_adopted_child_is_counted_with_its_fork() {
        let mut filter = Filter::new();
        filter.add(Pid(7));
        assert!(filter.adopt(20, 7) && !filter.adopt(20, 7) && !filter.adopt(30, 29));
        assert!(filter.adopt(21, 20), "a grandchild");
        filter.exited(20);
        filter.forked(20, 7);
        filter.forked(21, 20);
        assert_eq!(filter.sweep(), [Pid(20)]);
        assert_eq!(filter.remove(Pid(7)), [Pid(7), Pid(21)]);
    }

    #[test]
    fn the_attached_stay_whatever_ends() {
        let mut filter = Filter::new();
        filter.add(Pid(7));
        filter.exited(7);
        filter.exited(7);
        assert_eq!(filter.sweep(), []);
        assert!(filter.passes(7));
    }

    #[test]
    fn a_child_that_is_attached_outlives_its_parent() {
        let mut filter = Filter::new();
        filter.add(Pid(7));
        filter.forked(20, 7);
        filter.add(Pid(20));
        filter.remove(Pid(7));
        assert!(filter.passes(20));
    }

    #[test]
    fn one_that_ended_leaves_its_children() {
        let mut filter = Filter::new();
        filter.add(Pid(7));
        filter.forked(20, 7);
        filter.remove_alone(Pid(7));
        assert_eq!(filter.pids().collect::<Vec<_>>(), [Pid(20)]);
        assert!(!filter.passes(7) && filter.passes(20));
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
