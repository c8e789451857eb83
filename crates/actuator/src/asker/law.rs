//! Of which processes the kernel is asked something, and for how long not: a law in values, without
//! clock or thread.
//!
//! A process of which a question took too long is left alone for a time, twice as long each time
//! that it does again: who was slow by chance is asked again soon, and who always is costs nothing
//! to speak of. And since a user may have thousands of processes, what they make us wait is counted
//! by user, too.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use topology::Pid;

/// How long a call may take: in all until it is given up, and of that without working or waiting for
/// a processor, for the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    /// It is given up after this.
    pub wait: Duration,
    /// Its process is left alone from here on.
    pub slow: Duration,
    /// What is shorter is not counted to its user.
    pub counted: Duration,
}

/// A question about memory. 512 pages take 100 to 400 us, and a hundred times as much under
/// emulation; a thread waits some 45 ms for its turn on a machine with a dozen ready ones for each
/// processor, and now and then several turns.
pub const QUESTION: Bound = Bound {
    wait: Duration::from_secs(1),
    slow: Duration::from_millis(50),
    counted: Duration::from_millis(5),
};

/// A call that moves pages: it waits itself, until every processor has let go of pages that it kept
/// aside, which took 12 ms in guests of an idle machine, and for memory on a node that is full. That
/// is no reason to leave pages where we put them.
pub(crate) const MOVE: Bound = Bound {
    wait: Duration::from_secs(10),
    slow: Duration::from_secs(10),
    counted: Duration::from_secs(1),
};

/// Longest that a slow machine waits for a call.
const WAIT_MOST: Duration = Duration::from_secs(30);

/// How long a process is left alone at first, and at most, as in the sampler's law of clears.
const ALONE_FIRST: Duration = Duration::from_secs(10);
const ALONE_MOST: Duration = Duration::from_secs(600);

/// Threads that may hang: of the processes of one user, and in all.
const USER_STUCK_MAX: usize = 4;
pub(super) const STUCK_MAX: usize = 64;

/// What a user makes us wait is made up for by so many times as much in which none of its processes
/// is asked; a part of that may be borrowed, two seconds of waiting.
const MADE_UP_TIMES: u32 = 10;
const BORROWED_MAX: Duration = Duration::from_secs(20);

/// Processes, and users, that are remembered; the ones whose time is over are forgotten first.
const REMEMBERED_MAX: usize = 1024;

/// One question that hangs.
pub(super) type Question = u64;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Law {
    alone: BTreeMap<Pid, Alone>,
    /// When each user has made up for what was waited.
    even_at: BTreeMap<u32, Instant>,
    stuck: BTreeMap<Question, (Pid, Option<u32>)>,
}

/// A process that is left alone.
#[derive(Clone, Copy, Debug)]
struct Alone {
    time: Duration,
    until: Instant,
    /// Questions that were given up one after the other.
    given_up: u32,
}

impl Bound {
    /// The same on a machine that is so many times as slow as usual.
    pub(super) fn on_slower(self, times: u32) -> Self {
        Self {
            wait: (self.wait * times).min(WAIT_MOST.max(self.wait)),
            slow: self.slow * times,
            counted: self.counted * times,
        }
    }
}

impl Law {
    /// Whether a call hangs in a process, so that another would as well, or as many hang as may.
    pub(super) fn hangs(&self, pid: Pid) -> bool {
        self.stuck.len() >= STUCK_MAX || self.stuck.values().any(|(of, _)| *of == pid)
    }

    /// Whether something may be asked of a process. Its user is looked up if that matters.
    pub(super) fn admits(
        &self,
        now: Instant,
        pid: Pid,
        user: impl FnOnce() -> Option<u32>,
    ) -> bool {
        let alone = self.alone.get(&pid).is_some_and(|alone| now < alone.until);
        if alone || self.hangs(pid) {
            return false;
        }
        if self.stuck.is_empty() && self.even_at.is_empty() {
            return true;
        }
        let user = user();
        let stuck = self.stuck.values().filter(|(_, of)| *of == user);
        let owed = user.map_or(Duration::ZERO, |user| self.owed(now, user));
        stuck.count() < USER_STUCK_MAX && owed < BORROWED_MAX
    }

    /// Takes note of an answer. Gives how long the process is left alone, if it is.
    pub(super) fn answered(
        &mut self,
        now: Instant,
        pid: Pid,
        (took, bound): (Duration, Bound),
        user: impl FnOnce() -> Option<u32>,
    ) -> Option<Duration> {
        if took >= bound.counted {
            self.charge(now, user(), took);
        }
        if took < bound.slow {
            self.alone.remove(&pid);
            return None;
        }
        Some(self.leave_alone(now, pid, 0))
    }

    /// Takes note of a question that was given up after a time, and hangs. Gives how long its
    /// process is left alone.
    pub(super) fn gave_up(
        &mut self,
        now: Instant,
        (question, pid): (Question, Pid),
        waited: Duration,
        user: Option<u32>,
    ) -> Duration {
        self.stuck.insert(question, (pid, user));
        self.charge(now, user, waited);
        self.leave_alone(now, pid, 1)
    }

    /// A question has come to its end, whether anybody waits for it or not.
    pub(super) fn ended(&mut self, question: Question) {
        self.stuck.remove(&question);
    }

    /// Questions of a process that were given up one after the other, for as long as it is left
    /// alone.
    pub(super) fn given_up(&self, now: Instant, pid: Pid) -> u32 {
        let alone = self.alone.get(&pid).filter(|alone| now < alone.until);
        alone.map_or(0, |alone| alone.given_up)
    }

    /// Processes that are left alone now, and questions that hang.
    pub(super) fn counts(&self, now: Instant) -> (usize, usize) {
        let alone = self.alone.values().filter(|alone| now < alone.until);
        (alone.count(), self.stuck.len())
    }

    fn owed(&self, now: Instant, user: u32) -> Duration {
        let even_at = self.even_at.get(&user);
        even_at.map_or(Duration::ZERO, |at| at.saturating_duration_since(now))
    }

    fn charge(&mut self, now: Instant, user: Option<u32>, waited: Duration) {
        self.even_at.retain(|_, at| *at > now);
        if let Some(user) = user.filter(|_| self.even_at.len() < REMEMBERED_MAX) {
            let owed = self.owed(now, user) + waited * MADE_UP_TIMES;
            self.even_at.insert(user, now + owed);
        }
    }

    fn leave_alone(&mut self, now: Instant, pid: Pid, given_up: u32) -> Duration {
        if self.alone.len() >= REMEMBERED_MAX {
            self.alone.retain(|_, alone| now < alone.until);
        }
        let before = self.alone.get(&pid);
        let time = before.map_or(ALONE_FIRST, |alone| ALONE_MOST.min(alone.time * 2));
        let given_up = match given_up {
            0 => 0,
            more => before.map_or(0, |alone| alone.given_up) + more,
        };
        let alone = Alone {
            time,
            until: now + time,
            given_up,
        };
        self.alone.insert(pid, alone);
        time
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BAD: Pid = Pid(7);
    const GOOD: Pid = Pid(8);
    const SLOW: (Duration, Bound) = (QUESTION.slow, QUESTION);

    /// Processes below 100 are of user 1, others of user 2.
    fn admits(law: &Law, now: Instant, pid: Pid) -> bool {
        law.admits(now, pid, || Some(1 + u32::from(pid.0 >= 100)))
    }

    #[test]
    fn who_answers_slowly_each_time_is_asked_ever_more_rarely() {
        let (mut law, began) = (Law::default(), Instant::now());
        let mut asked = Vec::new();
        for second in 0..3_000 {
            let now = began + Duration::from_secs(second);
            if admits(&law, now, BAD) {
                law.answered(now, BAD, SLOW, || Some(1));
                asked.push(second);
            }
            assert!(admits(&law, now, GOOD), "{second}");
        }
        assert_eq!(asked[..6], [0, 10, 30, 70, 150, 310], "{asked:?}");
        assert_eq!(asked[6..], [630, 1_230, 1_830, 2_430], "{asked:?}");
        // One quick answer, and it is as before.
        let now = began + Duration::from_secs(4_000);
        law.answered(now, BAD, (Duration::from_millis(1), QUESTION), || Some(1));
        assert!(admits(&law, now, BAD));
        let time = law.answered(now, BAD, SLOW, || Some(1));
        assert_eq!(time, Some(ALONE_FIRST));
    }

    #[test]
    fn who_hangs_is_not_asked_until_it_comes_back() {
        let (mut law, now) = (Law::default(), Instant::now());
        law.gave_up(now, (1, BAD), Duration::from_millis(250), Some(1));
        assert_eq!((law.counts(now), law.given_up(now, BAD)), ((1, 1), 1));
        let later = now + 2 * ALONE_FIRST;
        assert!(!admits(&law, later, BAD));
        assert!(admits(&law, later, GOOD));
        assert_eq!((law.counts(later), law.given_up(later, BAD)), ((0, 1), 0));
        law.ended(1);
        assert!(admits(&law, later, BAD));
        law.gave_up(later, (2, BAD), Duration::from_millis(250), Some(1));
        assert_eq!(law.given_up(later, BAD), 2);
    }

    /// However many processes a user has.
    #[test]
    fn a_user_makes_us_wait_a_tenth_of_the_time() {
        for took in [6, 49, 250] {
            let took = Duration::from_millis(took);
            let (mut law, began) = (Law::default(), Instant::now());
            let (mut now, mut waited, mut pid) = (began, Duration::ZERO, 0);
            while now - began < Duration::from_secs(100) {
                pid = (pid + 1) % 100;
                if admits(&law, now, Pid(pid)) {
                    law.answered(now, Pid(pid), (took, QUESTION), || Some(1));
                    waited += took;
                    now += took;
                }
                assert!(admits(&law, now, Pid(200)), "another user waits");
                now += Duration::from_micros(100);
            }
            // And what may be borrowed.
            assert!(
                waited <= Duration::from_millis(12_300),
                "{waited:?} for {took:?}"
            );
        }
    }

    #[test]
    fn threads_that_hang_are_few_of_each_user_and_in_all() {
        let (mut law, now) = (Law::default(), Instant::now());
        let later = now + Duration::from_secs(3_600);
        let user = |pid: u32| pid / 100;
        let admits = |law: &Law, pid| law.admits(later, Pid(pid), || Some(user(pid)));
        let mut hanging = Vec::new();
        for pid in 0..10_000 {
            if admits(&law, pid) {
                law.gave_up(now, (pid.into(), Pid(pid)), SLOW.0, Some(user(pid)));
                hanging.push(pid);
            }
        }
        assert_eq!(hanging[..5], [0, 1, 2, 3, 100]);
        assert_eq!(hanging.len(), STUCK_MAX);
        law.ended(0);
        assert!(admits(&law, 4) && !admits(&law, 101));
    }

    #[test]
    fn moves_may_take_longer() {
        let (mut law, mut now) = (Law::default(), Instant::now());
        for _ in 0..1_000 {
            let took = Duration::from_millis(200);
            assert_eq!(law.answered(now, BAD, (took, MOVE), || Some(1)), None);
            assert!(admits(&law, now, BAD));
            now += took;
        }
        law.answered(now, BAD, (MOVE.slow, MOVE), || Some(1));
        assert!(!admits(&law, now, BAD));
    }

    #[test]
    fn it_does_not_remember_without_end() {
        let (mut law, mut now) = (Law::default(), Instant::now());
        for pid in 0..10_000 {
            law.answered(now, Pid(pid), SLOW, || Some(pid));
            now += Duration::from_millis(100);
        }
        assert!(law.alone.len() <= REMEMBERED_MAX && law.even_at.len() <= REMEMBERED_MAX);
    }
}
