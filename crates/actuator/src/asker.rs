//! Questions about the memory of processes, which may never be answered.
//!
//! The kernel takes the lock of a process's memory map for them, and nothing ends its wait for
//! that, not even the end of whoever asks. A program that changes its own map all the time holds
//! the lock as long as it likes. So a thread asks that is given up when it takes too long; [`law`]
//! says of whom nothing is asked then, and for how long.

mod law;

use std::fmt;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use topology::Pid;

use crate::kernel::thread_processor_time;
pub(crate) use law::MOVE;
pub use law::{Bound, QUESTION};
use law::{Law, Question};

/// Threads that are kept for the next questions.
const IDLE_MAX: usize = 8;
/// Most threads of one asker: those that hang, and those that are kept.
pub const ASKING_MAX: usize = law::STUCK_MAX + IDLE_MAX;
/// Their stacks: they make system calls and read short files.
const STACK_BYTES: usize = 512 << 10;

/// No answer came, or the process is left alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unanswered;

/// A process that is left alone from now on, for the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeftAlone {
    /// Which.
    pub pid: Pid,
    /// Whose it is, where that is known.
    pub user: Option<u32>,
    /// For how long.
    pub time: Duration,
    /// How long an answer waited for the process, or was waited for.
    pub waited: Duration,
}

impl fmt::Display for LeftAlone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            pid, time, waited, ..
        } = self;
        let (time, waited) = (time.as_secs(), waited.as_millis());
        write!(
            f,
            "process {pid} keeps its memory map locked: a question waited {waited} ms; its memory is left alone for {time} s"
        )
    }
}

/// News that nobody asked for are dropped beyond this.
const NEWS_MAX: usize = 64;

/// Says who a process is of.
pub type Owner = Box<dyn Fn(Pid) -> Option<u32> + Send + Sync>;

type Job = Box<dyn FnOnce() + Send>;

/// See the module. Copies are the same one.
#[derive(Clone)]
pub struct Asker {
    owner: Arc<Owner>,
    /// How many times as slow as usual this machine is.
    slower: u32,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    law: Law,
    /// Even who was slow is asked, and whose user made us wait: what was changed is put back.
    insists: bool,
    asked: Question,
    idle: Vec<Sender<Job>>,
    /// Processor time of all questions.
    spent: Duration,
    news: Vec<LeftAlone>,
}

impl fmt::Debug for Asker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.locked();
        f.debug_tuple("Asker").field(&state.law).finish()
    }
}

impl Asker {
    /// With everyone; `owner` says who a process is of.
    #[must_use]
    pub fn new(owner: Owner) -> Self {
        Self {
            owner: Arc::new(owner),
            slower: 1,
            state: Arc::default(),
        }
    }

    /// On a machine that is so many times as slow as usual, such as an emulated one.
    #[must_use]
    pub fn on_slower(mut self, times: u32) -> Self {
        self.slower = times.max(1);
        self
    }

    /// Whether even those are asked that are left alone, if no call hangs in them.
    pub(crate) fn insist(&self, insists: bool) {
        self.locked().insists = insists;
    }

    /// Asks something about the memory of a process, on another thread, and waits for the answer as
    /// long as this may take. That it is another thread costs 10 us.
    ///
    /// # Errors
    /// When none came in time, or the process is left alone, or there is no thread to be had.
    pub fn ask<T: Send + 'static>(
        &self,
        pid: Pid,
        bound: Bound,
        question: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Unanswered> {
        let owner = || (self.owner)(pid);
        let bound = bound.on_slower(self.slower);
        let (number, thread) = {
            let mut state = self.locked();
            let admitted = match state.insists {
                true => !state.law.hangs(pid),
                false => state.law.admits(Instant::now(), pid, owner),
            };
            if !admitted {
                return Err(Unanswered);
            }
            state.asked += 1;
            (state.asked, state.idle.pop())
        };
        let thread = thread.or_else(fresh_thread).ok_or(Unanswered)?;
        let (tell, told) = channel();
        let asker = self.clone();
        let job = move || {
            let (began, before, ready) = (Instant::now(), thread_processor_time(), time_ready());
            let answer = question();
            let spent = thread_processor_time().saturating_sub(before);
            asker.locked().spent += spent;
            // That processors are busy is no fault of the process.
            let ready = time_ready().saturating_sub(ready);
            let waited = began.elapsed().saturating_sub(spent.max(ready));
            // Whoever has given up by now does not hear it.
            drop(tell.send((answer, waited)));
            asker.locked().law.ended(number);
        };
        thread.send(Box::new(job)).map_err(|_ended| Unanswered)?;
        let answer = told.recv_timeout(bound.wait);
        if matches!(answer, Err(RecvTimeoutError::Disconnected)) {
            return Err(Unanswered);
        }
        let mut state = self.locked();
        let now = Instant::now();
        // It may have come while this thread had no turn.
        let Some((answer, waited)) = answer.ok().or_else(|| told.try_recv().ok()) else {
            let user = owner();
            let time = state.law.gave_up(now, (number, pid), bound.wait, user);
            state.tell(pid, user, (time, bound.wait));
            return Err(Unanswered);
        };
        if let Some(time) = state.law.answered(now, pid, (waited, bound), owner) {
            state.tell(pid, owner(), (time, waited));
        }
        if state.idle.len() < IDLE_MAX {
            state.idle.push(thread);
        }
        Ok(answer)
    }

    /// Questions of a process that were given up one after the other, for as long as it is left
    /// alone.
    #[must_use]
    pub fn given_up(&self, pid: Pid) -> u32 {
        self.locked().law.given_up(Instant::now(), pid)
    }

    /// Processes that are left alone now, and threads that hang.
    #[must_use]
    pub fn counts(&self) -> (usize, usize) {
        self.locked().law.counts(Instant::now())
    }

    /// Processor time that questions took so far.
    #[must_use]
    pub fn spent(&self) -> Duration {
        self.locked().spent
    }

    /// Who is left alone since this was asked last.
    #[must_use]
    pub fn take_news(&self) -> Vec<LeftAlone> {
        std::mem::take(&mut self.locked().news)
    }

    fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn tell(&mut self, pid: Pid, user: Option<u32>, (time, waited): (Duration, Duration)) {
        if self.news.len() < NEWS_MAX {
            self.news.push(LeftAlone {
                pid,
                user,
                time,
                waited,
            });
        }
    }
}

/// How long this thread has had a processor or was ready for one, so far; nothing where the kernel
/// does not tell.
fn time_ready() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let figures = text
        .split_whitespace()
        .map_while(|ns| ns.parse::<u64>().ok());
    Duration::from_nanos(figures.take(2).sum())
}

/// A thread that does what it is sent, until nobody can send it anything.
fn fresh_thread() -> Option<Sender<Job>> {
    let (give, jobs) = channel::<Job>();
    let named = thread::Builder::new().name("asks".to_owned());
    let work = move || jobs.into_iter().for_each(|job| job());
    named.stack_size(STACK_BYTES).spawn(work).ok()?;
    Some(give)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAIT: Duration = Duration::from_millis(200);
    const BOUND: Bound = Bound {
        wait: WAIT,
        ..QUESTION
    };

    fn asker() -> Asker {
        Asker::new(Box::new(|pid| Some(pid.0 / 100)))
    }

    #[test]
    fn answers_come_back_and_threads_are_used_again() {
        let asker = asker();
        for number in 0..100 {
            let answer = asker.ask(Pid(7), BOUND, move || (number, thread::current().id()));
            assert_eq!(answer.map(|(number, _)| number), Ok(number));
        }
        assert_eq!(asker.locked().idle.len(), 1);
        assert_eq!((asker.counts(), asker.take_news()), ((0, 0), vec![]));
    }

    #[test]
    fn who_never_answers_is_given_up_and_nobody_else_waits() {
        let asker = asker();
        let (release, held) = channel::<()>();
        let began = Instant::now();
        let given_up = asker.ask(Pid(7), BOUND, move || held.recv());
        assert_eq!(given_up, Err(Unanswered));
        assert_eq!(asker.ask(Pid(7), BOUND, || ()), Err(Unanswered));
        assert_eq!(asker.ask(Pid(8), BOUND, || 8), Ok(8));
        assert!(began.elapsed() < WAIT * 5);
        assert_eq!((asker.counts(), asker.given_up(Pid(7))), ((1, 1), 1));
        let news = asker.take_news();
        let [news] = news.as_slice() else {
            panic!("{news:?}");
        };
        assert_eq!(
            news.to_string(),
            "process 7 keeps its memory map locked: a question waited 200 ms; its memory is left alone for 10 s"
        );
        // It comes back, and is no longer counted.
        drop(release);
        let gone = || asker.counts() == (1, 0);
        assert!((0..500).any(|_| {
            thread::sleep(Duration::from_millis(10));
            gone()
        }));
    }

    #[test]
    fn a_question_that_panics_is_not_answered() {
        let asker = asker();
        let answer = asker.ask(Pid(7), BOUND, || assert!(it_is_so(), "on purpose"));
        assert_eq!(answer, Err(Unanswered));
    }

    #[test]
    fn what_is_slow_is_slower_on_a_slow_machine_and_undo_insists() {
        let waits = || thread::sleep(Duration::from_millis(60));
        let usual = asker();
        let slow = asker().on_slower(100);
        for (asker, expected) in [(usual, 1), (slow, 0)] {
            asker.ask(Pid(7), QUESTION, waits).unwrap();
            assert_eq!(asker.take_news().len(), expected);
            assert_eq!(asker.ask(Pid(7), QUESTION, || 7).is_err(), expected == 1);
            asker.insist(true);
            assert_eq!(asker.ask(Pid(7), QUESTION, || 7), Ok(7));
            asker.insist(false);
        }
    }

    #[test]
    fn who_has_work_to_do_is_not_slow() {
        let asker = asker();
        let works = |of: Duration| {
            let began = thread_processor_time();
            while thread_processor_time().saturating_sub(began) < of {}
        };
        let busy = Bound {
            wait: Duration::from_secs(20),
            slow: Duration::from_millis(60),
            ..BOUND
        };
        let long = Duration::from_millis(120);
        assert_eq!(asker.ask(Pid(7), busy, move || works(long)), Ok(()));
        assert_eq!(asker.take_news(), []);
        asker
            .ask(Pid(7), busy, move || thread::sleep(long))
            .unwrap();
        assert_eq!(asker.take_news().len(), 1);
    }

    fn it_is_so() -> bool {
        std::hint::black_box(false)
    }
}
