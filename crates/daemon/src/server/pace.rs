//! How fast one user is served: so many requests a second, and so much processor time.
//!
//! Each request makes its user's next ones wait: for the time that one request has at the allowed rate,
//! and for the time in which its processor time is the allowed share. Two seconds of that may be
//! borrowed, so that people notice nothing. A user who asks too much waits for answers, one on each
//! connection; nobody else does.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What may be borrowed.
const BURST: Duration = Duration::from_secs(2);
/// The longest that anyone waits for what was taken before.
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
        even_at.insert(uid, now + owed.min(DEBT_MAX + BURST));
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u32, Instant>> {
        // A map of times is never half changed.
        self.even_at.lock().unwrap_or_else(PoisonError::into_inner)
    }
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
        assert_eq!(pace.request(7, now, &limits), DEBT_MAX);
        assert_eq!(pace.request(8, now, &limits), Duration::ZERO);
        assert_eq!(
            pace.request(7, now + DEBT_MAX + BURST, &limits),
            Duration::ZERO
        );
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
