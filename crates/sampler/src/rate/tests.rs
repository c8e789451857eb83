use proptest::prelude::*;

use super::*;

const SECOND: u64 = 1_000_000_000;

fn options() -> RateOptions {
    RateOptions {
        start: 1,
        least: 1,
        most: 1 << 30,
        step: 1,
        fixed: false,
        target_ns: 400,
    }
}

/// A second in which so many samples were taken; 100 ns of our own for each, 20 ms allowed.
fn second(samples: u64) -> RateInput {
    RateInput {
        elapsed: Duration::from_secs(1),
        samples,
        own_ns: samples * 100,
        allowed_ns: 20_000_000,
        ..RateInput::default()
    }
}

#[track_caller]
fn check(start: u64, seen: RateInput, expected: Option<(u64, Why)>) {
    let mut law = RateLaw::new(RateOptions { start, ..options() });
    let change = law.next(Time(SECOND), &seen);
    assert_eq!(change.map(|change| (change.to, change.why)), expected);
    assert_eq!(law.period(), expected.map_or(start, |(to, _)| to));
}

#[test]
fn enough_is_enough_until_something_asks_for_less() {
    let mut law = RateLaw::new(options());
    law.enough(8);
    assert_eq!(law.period(), 8);
    // With room there is nothing to gain.
    assert_eq!(law.next(Time(20 * SECOND), &second(10)), None);
    let change = law.next(Time(40 * SECOND), &second(60_000));
    assert_eq!(change.map(|change| (change.from, change.to)), Some((8, 16)));
    law.enough(2);
    assert_eq!(law.period(), 16, "what costs asked for stays");
    law.enough(64);
    assert_eq!(law.period(), 64);
    let mut fixed = RateLaw::new(RateOptions {
        fixed: true,
        ..options()
    });
    fixed.enough(8);
    assert_eq!(fixed.period(), 1);
}

#[test]
fn what_each_finding_leads_to() {
    // 40,000 samples of 500 ns are the 20 ms that are allowed.
    check(1, second(40_000), None);
    check(1, second(40_001), Some((2, Why::Cost)));
    check(1, second(400_000), Some((16, Why::Cost)));
    check(1, second(u64::MAX / 1_000), Some((64, Why::Cost)));
    check(8, second(15_000), Some((4, Why::Room)));
    check(8, second(15_001), None);
    check(1, second(0), None);
    check(
        8,
        RateInput {
            lost: 1,
            ..second(10)
        },
        Some((16, Why::Pressure)),
    );
    check(
        8,
        RateInput {
            throttled: 1,
            ..second(10)
        },
        Some((16, Why::Throttled)),
    );
    check(
        8,
        RateInput {
            fill_permille: 750,
            ..second(10)
        },
        Some((16, Why::Pressure)),
    );
    check(
        8,
        RateInput {
            fill_permille: 749,
            ..second(10)
        },
        None,
    );
    check(
        8,
        RateInput {
            fill_permille: 249,
            ..second(10)
        },
        Some((4, Why::Room)),
    );
}

/// Whoever renames a thread all the time fills the buffers, and no period is long enough for that.
#[test]
fn what_is_no_sample_makes_none_rarer_nor_more_frequent() {
    let crowd = |others| RateInput {
        lost: 1_000_000,
        fill_permille: 1_000,
        own_ns: 40_000_000,
        others,
        ..second(1_000)
    };
    check(8, crowd(0), Some((16, Why::Pressure)));
    check(8, crowd(1_000), Some((16, Why::Pressure)));
    check(8, crowd(100_000), None);
    let half = RateInput {
        lost: 0,
        fill_permille: 300,
        ..crowd(1_000)
    };
    check(8, half, Some((16, Why::Cost)));
}

/// 10,000 samples of 400 ns are 4 ms, a fifth of what the machine may pay.
#[test]
fn no_processor_pays_more_than_its_share() {
    let busiest = |allowed| RateInput {
        busiest: 10_000,
        busiest_allowed_ns: allowed,
        ..second(10_000)
    };
    check(8, busiest(4_000_000), None);
    check(8, busiest(3_999_999), Some((16, Why::Cost)));
    check(8, busiest(1_000_000), Some((64, Why::Cost)));
    check(8, busiest(20_000_000), Some((4, Why::Room)));
}

#[test]
fn what_is_too_little_to_judge() {
    let too_little = Duration::from_millis(199);
    check(
        8,
        RateInput {
            elapsed: too_little,
            lost: 9,
            ..second(10)
        },
        None,
    );
    check(
        1,
        RateInput {
            allowed_ns: 0,
            ..second(1)
        },
        Some((64, Why::Cost)),
    );
    check(
        1,
        RateInput {
            allowed_ns: 0,
            ..second(0)
        },
        None,
    );
}

#[test]
fn a_fixed_rate_stays_whatever_happens() {
    let mut law = RateLaw::new(RateOptions {
        start: 5,
        fixed: true,
        ..options()
    });
    let bad = RateInput {
        lost: 100,
        throttled: 3,
        ..second(1_000_000)
    };
    for now in 1..100 {
        assert_eq!(law.next(Time(now * SECOND), &bad), None);
    }
    assert_eq!((law.period(), law.held_back_by()), (5, None));
}

#[test]
fn periods_stay_within_bounds_and_on_steps() {
    let bounds = RateOptions {
        start: 7,
        least: 100,
        most: 1_000,
        step: 16,
        ..options()
    };
    let mut law = RateLaw::new(bounds);
    assert_eq!(law.period(), 112, "100 up to a multiple of 16");
    for now in 1..100 {
        law.next(
            Time(now * SECOND),
            &RateInput {
                lost: 1,
                ..second(1)
            },
        );
    }
    assert_eq!(
        (law.period(), law.held_back_by()),
        (992, Some(Why::Pressure))
    );
    let mut absurd = RateLaw::new(RateOptions {
        start: 0,
        least: 0,
        most: 0,
        step: 0,
        ..options()
    });
    assert_eq!(absurd.period(), 1);
    assert_eq!(
        absurd.next(
            Time(9),
            &RateInput {
                lost: u64::MAX,
                ..second(u64::MAX / 200)
            }
        ),
        None
    );
}

#[test]
fn the_law_waits_between_changes() {
    let mut law = RateLaw::new(options());
    let pressed = RateInput {
        lost: 1,
        ..second(10)
    };
    assert!(law.next(Time(0), &pressed).is_some());
    assert_eq!(law.next(Time(SECOND - 1), &pressed), None);
    assert!(law.next(Time(SECOND), &pressed).is_some());
    assert_eq!(law.next(Time(11 * SECOND - 1), &second(10)), None);
    assert!(law.next(Time(11 * SECOND), &second(10)).is_some());
    assert_eq!(law.period(), 2);
    // Time that runs backwards is no time at all.
    assert_eq!(law.next(Time(0), &pressed), None);
}

/// A source under the law: so many events a second, a buffer that holds so many samples between two
/// readings. Gives the periods, one for each second.
fn simulate(events: impl Fn(u64) -> u64, capacity: u64, allowed_ns: u64, seconds: u64) -> Vec<u64> {
    let mut law = RateLaw::new(options());
    let mut periods = Vec::new();
    for now in 1..=seconds {
        let wanted = events(now) / law.period();
        // Read ten times a second.
        let taken = wanted.min(capacity * 10);
        let fill = (wanted * 100 / capacity).min(1000);
        law.next(
            Time(now * SECOND),
            &RateInput {
                samples: taken,
                own_ns: taken * 100,
                allowed_ns,
                fill_permille: u16::try_from(fill).unwrap(),
                lost: wanted - taken,
                ..second(0)
            },
        );
        periods.push(law.period());
    }
    periods
}

#[test]
fn a_burst_that_comes_now_and_then_is_remembered() {
    // Half of it is within three eighths of what is allowed, but for one second in 75.
    let events = |now: u64| 13_600 + 6_800 * u64::from(now.is_multiple_of(75));
    let periods = simulate(events, 100_000, 10_000_000, 1_200);
    assert!(
        periods[600..].iter().all(|period| *period == 2),
        "{periods:?}"
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// LESSONS 9: whatever the demand and the room, with noise of a fifth, the period stops changing,
    /// within the budget and without losses, and is not much longer than it must be.
    #[test]
    fn the_law_settles(
        demand in 0u64..50_000_000,
        capacity in 50u64..100_000,
        allowed_ns in 100_000u64..100_000_000,
        noise in proptest::collection::vec(80u64..=120, 64),
    ) {
        let events = |now: u64| demand / 100 * noise[usize::try_from(now % 64).unwrap()];
        let periods = simulate(events, capacity, allowed_ns, 1_200);
        let settled = periods[600];
        prop_assert!(periods[600..].iter().all(|period| *period == settled), "{periods:?}");
        let most = noise.iter().max().unwrap();
        let worst = demand / 100 * most / settled;
        prop_assert!(worst * 500 <= allowed_ns + 500, "over budget at {settled}");
        prop_assert!(worst / 10 <= capacity, "loses at {settled}");
        if settled > 1 {
            // At an eighth of the period it would be too much for the budget or press the buffer.
            let shorter = demand / 100 * most / (settled / 8).max(1);
            prop_assert!(shorter * 500 >= allowed_ns / 2 || shorter / 10 >= capacity / 4);
        }
    }

    /// A demand that falls lets the rate come back.
    #[test]
    fn the_law_comes_back(demand in 1_000_000u64..50_000_000) {
        let events = |now: u64| if now < 300 { demand } else { 1_000 };
        let periods = simulate(events, 10_000, 20_000_000, 900);
        prop_assert!(periods[299] > 1);
        prop_assert_eq!(periods[899], 1);
    }
}
