//! How fast one user is served: so many requests a second, and so much processor time.
//!
//! Each request makes its user's next ones wait: for the time that one request has at the allowed rate,
//! and for the time in which its processor time is the allowed share. Two seconds of that may be
//! borrowed, so that people notice nothing. A user who asks too much waits for answers, one on each
//! connection; nobody else does.
//!
//! What a request takes is known when it ends. So a user's requests are let in one after the other:
//! many at once would all begin before the first is counted.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Mutex as Entrance, OwnedMutexGuard};

use crate::clock::thread_processor_time;

/// What may be borrowed.
const BURST: Duration = Duration::from_secs(2);
/// How long a request is held back before it is given up.
const WAIT_MAX: Duration = Duration::from_secs(5);
/// The longest that a user makes up for what was taken: at 5 % of a processor for three seconds of
/// it. Only an undo takes more, and who undoes is not shut out for long.
const OWED_MAX: Duration = Duration::from_secs(60);
/// What a user may owe and still get a row for an MPI program.
pub(crate) const DEBT_MAX: Duration = Duration::from_secs(10);
/// Users that are remembered; those who owe nothing are forgotten first.
const USERS_MAX: usize = 1024;

/// Connections that a user may make for each request: those who make one for each have some to spare.
const CONNECTIONS_PER_REQUEST: u32 = 5;

/// Connections that are turned away for their haste between two rests: 4,000 a second. Each takes
/// 25 to 50 us of a processor, so that 10,000 took 25 to 55 % of one.
const HURRIED_AT_ONCE: u32 = 100;
/// The time that these take, rest included.
const HURRIED_TIME: Duration = Duration::from_millis(25);

/// Those who are turned away for their haste. To rest after each of them would let the next ones
/// wait who are not in a hurry.
#[derive(Debug)]
pub(crate) struct Hurried {
    count: u32,
    since: Instant,
}

impl Hurried {
    /// None yet.
    pub(crate) const fn new(now: Instant) -> Self {
        Self {
            count: 0,
            since: now,
        }
    }

    /// Counts one more, and says how long nobody is accepted then.
    pub(crate) fn turned_away(&mut self, now: Instant) -> Duration {
        self.count += 1;
        if self.count < HURRIED_AT_ONCE {
            return Duration::ZERO;
        }
        let rest = HURRIED_TIME.saturating_sub(now.saturating_duration_since(self.since));
        *self = Self::new(now + rest);
        rest
    }
}

/// When each user has made up for what was taken.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    even_at: Mutex<BTreeMap<u32, Instant>>,
    entrances: Mutex<Entrances>,
}

type Entrances = BTreeMap<(u32, Kind), Arc<Entrance<()>>>;

/// Requests of one kind are let in one after the other. Those that only look do not wait for the
/// end of an undo, which is a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// Only looks.
    Look,
    /// Anything else.
    Change,
    /// A change that puts back what was changed: it waits for as long as it takes.
    Undo,
}

/// While this is held no other request of its user and kind is let in.
pub(super) type Entered = OwnedMutexGuard<()>;

/// A user asks more than one may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TooMuch;

/// Whose processor time a piece of work is; nobody's, where it is an admin's.
#[derive(Clone, Debug)]
pub(super) struct Account(Option<(Arc<Pace>, u32, config::Limits)>);

impl Account {
    /// Nobody's.
    pub(super) const NOBODYS: Self = Self(None);

    /// A user's.
    pub(super) const fn of(pace: Arc<Pace>, uid: u32, limits: config::Limits) -> Self {
        Self(Some((pace, uid, limits)))
    }

    /// Does a piece of work and counts its time, on the thread that does it: who asked for it may
    /// have given it up by then. What is done for others in the midst of it, as in that of an undo,
    /// is theirs.
    pub(super) fn charge<T>(&self, work: impl FnOnce() -> T) -> T {
        let (began, counted) = (thread_processor_time(), COUNTED.get());
        let answer = work();
        let took = thread_processor_time().saturating_sub(began);
        let of_others = COUNTED.get().saturating_sub(counted);
        COUNTED.set(counted.saturating_add(took));
        if let Some((pace, uid, limits)) = &self.0 {
            let took = took.saturating_sub(of_others);
            pace.took(*uid, Instant::now(), took, limits);
        }
        answer
    }
}

thread_local! {
    /// What this thread has counted so far, whoever pays for it.
    static COUNTED: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

impl Pace {
    /// Counts a connection of a user at `now`; false when there were too many lately, and this one is
    /// not counted. For a pace of its own, apart from that of requests.
    pub(super) fn connection(&self, uid: u32, now: Instant, limits: &config::Limits) -> bool {
        if self.owed(uid, now) > BURST {
            return false;
        }
        let per_s = limits
            .user_requests_per_s
            .saturating_mul(CONNECTIONS_PER_REQUEST);
        self.add(uid, now, Duration::from_secs(1) / per_s.max(1));
        true
    }

    /// Counts a request of a user at `now`, and says how long it has to wait.
    pub(super) fn request(&self, uid: u32, now: Instant, limits: &config::Limits) -> Duration {
        let wait = self.owed(uid, now).saturating_sub(BURST);
        self.add(
            uid,
            now,
            Duration::from_secs(1) / limits.user_requests_per_s.max(1),
        );
        wait
    }

    /// Lets in a request of a user, once those before it of the same kind have ended and the user
    /// has made up for them.
    ///
    /// # Errors
    /// When that would take too long.
    pub(super) async fn enter(
        &self,
        uid: u32,
        kind: Kind,
        limits: &config::Limits,
    ) -> Result<Entered, TooMuch> {
        if kind == Kind::Undo {
            return Ok(self.enter_to_undo(uid, limits).await);
        }
        // Who owes too much need not queue to hear it.
        if self.owed(uid, now()) > BURST + WAIT_MAX {
            self.paced(uid, limits).await?;
        }
        let entrance = self.entrance(uid, kind).lock_owned();
        let entered = tokio::time::timeout(WAIT_MAX, entrance).await;
        let entered = entered.map_err(|_elapsed| TooMuch)?;
        if self.owed(uid, now()) > BURST + WAIT_MAX {
            return Err(TooMuch);
        }
        self.paced(uid, limits).await?;
        Ok(entered)
    }

    /// Lets in an undo after the changes before it, however long they take: whoever has two large
    /// programs put back at once would hear of the second that this is too much to ask.
    async fn enter_to_undo(&self, uid: u32, limits: &config::Limits) -> Entered {
        let entered = self.entrance(uid, Kind::Change).lock_owned().await;
        let wait = self.request(uid, now(), limits);
        tokio::time::sleep(wait).await;
        entered
    }

    /// Counts a request of a user, and holds it back for as long as it has to wait.
    ///
    /// # Errors
    /// When that is too long.
    pub(super) async fn paced(&self, uid: u32, limits: &config::Limits) -> Result<(), TooMuch> {
        let wait = self.request(uid, now(), limits);
        tokio::time::sleep(wait.min(WAIT_MAX)).await;
        match wait <= WAIT_MAX {
            true => Ok(()),
            false => Err(TooMuch),
        }
    }

    fn entrance(&self, uid: u32, kind: Kind) -> Arc<Entrance<()>> {
        let entrances = self.entrances.lock();
        let mut entrances = entrances.unwrap_or_else(PoisonError::into_inner);
        // Users have a bounded number of connections: this is how many are in use at the most.
        entrances.retain(|_, entrance| Arc::strong_count(entrance) > 1);
        Arc::clone(entrances.entry((uid, kind)).or_default())
    }

    /// Counts the processor time that a request took.
    pub(crate) fn took(&self, uid: u32, now: Instant, cost: Duration, limits: &config::Limits) {
        let whole = cost.saturating_mul(100) / limits.user_share_percent.max(1);
        self.add(uid, now, whole);
    }

    /// How long it takes until a user has made up for what was taken.
    pub(crate) fn owed(&self, uid: u32, now: Instant) -> Duration {
        let even_at = self.lock().get(&uid).copied();
        even_at.map_or(Duration::ZERO, |even_at| {
            even_at.saturating_duration_since(now)
        })
    }

    fn add(&self, uid: u32, now: Instant, time: Duration) {
        let owed = self.owed(uid, now).saturating_add(time);
        let mut even_at = self.lock();
        if even_at.len() >= USERS_MAX && !even_at.contains_key(&uid) {
            even_at.retain(|_, at| *at > now);
        }
        even_at.insert(uid, now + owed.min(OWED_MAX + BURST));
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u32, Instant>> {
        // A map of times is never half changed.
        self.even_at.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The time by the runtime's clock.
fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn limits(per_s: u32, percent: u32) -> config::Limits {
        config::Limits {
            admin_connections_max: 1,
            user_connections_max: 1,
            user_attachments_max: 1,
            user_threads_max: 1,
            user_experiments_max: 1,
            user_slice_min_ms: 1,
            user_experiment_h_max: 1,
            user_requests_per_s: per_s,
            user_share_percent: percent,
        }
    }

    #[test]
    fn so_many_requests_a_second_after_two_seconds_worth() {
        let (pace, limits) = (Pace::default(), limits(10, 100));
        let mut now = Instant::now();
        let began = now;
        for number in 0..100 {
            let wait = pace.request(7, now, &limits);
            assert_eq!(wait.is_zero(), number <= 20, "{number}: {wait:?}");
            now += wait;
            assert_eq!(pace.request(8 + number, now, &limits), Duration::ZERO);
        }
        let took = now - began;
        assert!((7.8..8.1).contains(&took.as_secs_f64()), "{took:?}");
    }

    #[test]
    fn connections_are_counted_and_those_too_many_are_not() {
        let (pace, limits) = (Pace::default(), limits(10, 5));
        let now = Instant::now();
        let made = (0..1000)
            .filter(|_| pace.connection(7, now, &limits))
            .count();
        assert_eq!(made, 101);
        assert!(pace.connection(7, now + Duration::from_secs(1), &limits));
        assert!(pace.connection(8, now, &limits));
    }

    #[test]
    fn those_turned_away_make_a_rest_by_the_hundred() {
        let began = Instant::now();
        let (mut hurried, mut now) = (Hurried::new(began), began);
        let mut rests = 0;
        for _ in 0..40_000 {
            now += Duration::from_micros(20);
            let rest = hurried.turned_away(now);
            rests += u32::from(!rest.is_zero());
            now += rest;
        }
        assert_eq!((rests, now - began), (400, Duration::from_secs(10)));
        // Those who come seldom let nobody wait.
        for _ in 0..1_000 {
            now += Duration::from_millis(1);
            assert_eq!(hurried.turned_away(now), Duration::ZERO);
        }
    }

    #[test]
    fn costly_requests_make_the_next_ones_wait_within_reason() {
        let (pace, limits) = (Pace::default(), limits(1000, 5));
        let now = Instant::now();
        pace.took(7, now, Duration::from_millis(200), &limits);
        let wait = pace.request(7, now, &limits);
        assert_eq!(wait, Duration::from_secs(2));
        pace.took(7, now, Duration::from_secs(60), &limits);
        assert_eq!(pace.request(7, now, &limits), OWED_MAX);
        assert_eq!(pace.request(8, now, &limits), Duration::ZERO);
        assert_eq!(
            pace.request(7, now + OWED_MAX + BURST, &limits),
            Duration::ZERO
        );
    }

    /// Each takes what it takes before it is known how much that is.
    #[tokio::test(start_paused = true)]
    async fn many_costly_requests_at_once_take_no_more_than_one_after_the_other() {
        const EACH: Duration = Duration::from_millis(300);
        let (pace, limits) = (Arc::new(Pace::default()), limits(20, 5));
        let spent = Arc::new(Mutex::new(Duration::ZERO));
        let end = now() + Duration::from_secs(60);
        let mut clients = Vec::new();
        for client in 0..16 {
            let (pace, spent) = (Arc::clone(&pace), Arc::clone(&spent));
            clients.push(tokio::spawn(async move {
                while now() < end {
                    let kind = [Kind::Look, Kind::Change][client % 2];
                    let Ok(_entered) = pace.enter(7, kind, &limits).await else {
                        continue;
                    };
                    tokio::time::sleep(EACH).await;
                    pace.took(7, now(), EACH, &limits);
                    *spent.lock().unwrap() += EACH;
                }
            }));
        }
        for client in clients {
            client.await.unwrap();
        }
        let spent = *spent.lock().unwrap();
        // A twentieth of a minute, what may be borrowed, and one more of each kind.
        let most = Duration::from_millis(3_100) + 2 * EACH;
        assert!((most / 2..=most).contains(&spent), "{spent:?}");
        assert!(pace.entrances.lock().unwrap().len() <= 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_long_change_keeps_nobody_from_looking() {
        let (pace, limits) = (Pace::default(), limits(20, 5));
        let _undo = pace.enter(7, Kind::Change, &limits).await.unwrap();
        let began = now();
        drop(pace.enter(7, Kind::Look, &limits).await.unwrap());
        drop(pace.enter(8, Kind::Change, &limits).await.unwrap());
        assert_eq!(now(), began);
    }

    #[tokio::test(start_paused = true)]
    async fn an_undo_waits_for_those_before_it() {
        const LONG: Duration = Duration::from_secs(600);
        let (pace, limits) = (Arc::new(Pace::default()), limits(20, 5));
        let began = now();
        let mut undos = Vec::new();
        for _ in 0..3 {
            let pace = Arc::clone(&pace);
            undos.push(tokio::spawn(async move {
                let _entered = pace.enter(7, Kind::Undo, &limits).await.unwrap();
                tokio::time::sleep(LONG).await;
                pace.took(7, now(), Duration::from_secs(10), &limits);
            }));
        }
        tokio::task::yield_now().await;
        pace.enter(7, Kind::Change, &limits).await.unwrap_err();
        for undo in undos {
            undo.await.unwrap();
        }
        let took = now() - began;
        assert!(
            (3 * LONG..3 * LONG + 3 * OWED_MAX).contains(&took),
            "{took:?}"
        );
        assert!(pace.entrances.lock().unwrap().len() <= 1);
    }

    #[test]
    fn work_is_counted_where_it_is_done() {
        let (pace, limits) = (Arc::new(Pace::default()), limits(20, 5));
        let work = || {
            let began = thread_processor_time();
            while thread_processor_time().saturating_sub(began) < Duration::from_millis(25) {}
        };
        Account::NOBODYS.charge(work);
        Account::of(Arc::clone(&pace), 7, limits).charge(work);
        assert!(pace.owed(7, Instant::now()) > Duration::from_millis(50));
        assert_eq!(pace.lock().len(), 1);
    }

    /// An undo takes long, and whoever looks is answered in the midst of it.
    #[test]
    fn what_is_done_for_others_meanwhile_is_theirs() {
        let (pace, limits) = (Arc::new(Pace::default()), limits(20, 5));
        let of = |uid| Account::of(Arc::clone(&pace), uid, limits);
        let takes = |time| {
            let began = thread_processor_time();
            while thread_processor_time().saturating_sub(began) < time {}
        };
        of(7).charge(|| {
            takes(Duration::from_millis(20));
            Account::NOBODYS.charge(|| takes(Duration::from_millis(100)));
            // The last, for what is owed gets less with time.
            of(8).charge(|| takes(Duration::from_millis(100)));
        });
        let [undoes, looks] = [7, 8].map(|uid| pace.owed(uid, Instant::now()));
        assert!(2 * undoes < looks, "{undoes:?}, {looks:?}");
        assert!(!undoes.is_zero());
    }

    #[test]
    fn those_who_owe_nothing_are_forgotten() {
        let (pace, limits) = (Pace::default(), limits(10, 5));
        let mut now = Instant::now();
        for uid in 0..5000 {
            pace.request(uid, now, &limits);
            now += Duration::from_millis(1);
        }
        assert!(pace.lock().len() <= USERS_MAX);
    }
}
