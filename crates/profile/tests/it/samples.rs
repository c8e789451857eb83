//! How many samples a class needs: how often it is wrong with the least number, with half and with double of it.
//!
//! Programs of 8 threads in 4 pairs, made up from seeds. A thread's access goes to lines that its pair shares, by half
//! of a store, or to lines of its own. Shares and thresholds differ by a factor of two at least: nearer to them no
//! number of samples is enough.

use profile::Event;
use profile::metrics::{EVENTS_MIN, SAMPLES_MIN, THRESHOLDS};
use profile::sharing::Lines;
use profile::timeline::Timeline;

use crate::random::Random;

const PAIRS: u64 = 4;
const SECOND: u64 = 1_000_000_000;

/// Programs of each measurement; half of them are of each of two classes.
const PROGRAMS: u64 = 400;

/// One program.
struct Program {
    /// Share of accesses that go to shared lines, and of those that memory answers.
    shared: f64,
    dram: f64,
    /// Shared lines of a pair.
    lines: u64,
}

/// `CommR` and `DramR` of so many samples.
fn ratios(program: &Program, samples: u64, random: &mut Random) -> (f64, f64) {
    let mut lines = Lines::default();
    let (mut events, mut dram) = (0_u64, 0_u64);
    for number in 0..samples {
        let task = u32::try_from(random.below(2 * PAIRS)).unwrap();
        dram += u64::from(random.part() < program.dram);
        if random.part() >= program.shared {
            lines.store(task, (1 << 30) + 64 * number);
            continue;
        }
        let address = 64 * (u64::from(task / 2) * program.lines + random.below(program.lines));
        match random.below(2) {
            0 => lines.store(task, address),
            _ => events += u64::from(lines.load(task, address).is_some()),
        }
    }
    // Every pair counts in both directions.
    let all = samples as f64;
    (2.0 * events as f64 / all, dram as f64 / all)
}

/// A program and whether mapping can help it, by many samples.
fn program(helps: bool, random: &mut Random) -> Program {
    loop {
        let program = Program {
            shared: random.between(0.0, if helps { 0.6 } else { 0.03 }),
            dram: random.between(0.0, if helps { 0.15 } else { 0.01 }),
            lines: 1 + random.below(8),
        };
        let (comm, dram) = ratios(&program, 1 << 13, random);
        let (clear, nothing) = (THRESHOLDS.comm_min * 2.0, THRESHOLDS.comm_min / 2.0);
        let found = match helps {
            true => comm >= clear || dram >= clear,
            false => comm <= nothing && dram <= nothing,
        };
        if found {
            return program;
        }
    }
}

/// Of the programs, the shares that these numbers of samples take for the other kind.
fn wrong_by_samples(numbers: [u64; 3]) -> [f64; 3] {
    let mut wrong = [0.0; 3];
    for seed in 0..PROGRAMS {
        let mut random = Random::new(seed);
        let helps = seed % 2 == 0;
        let program = program(helps, &mut random);
        for (wrong, samples) in wrong.iter_mut().zip(numbers) {
            let (comm, dram) = ratios(&program, samples, &mut random);
            let found = comm >= THRESHOLDS.comm_min || dram >= THRESHOLDS.dram_min;
            *wrong += f64::from(u8::from(found != helps)) / PROGRAMS as f64;
        }
    }
    wrong
}

/// Of programs of 16 s, static and dynamic ones, the share that so many events a second take for the other kind. Each
/// pair communicates at least twice as much as the next one; in dynamic programs others do in each second.
fn wrong_by_events(events: u64) -> f64 {
    let wrong = (0..PROGRAMS).filter(|&seed| {
        let mut random = Random::new(seed);
        let dynamic = seed % 2 == 0;
        let factor = random.between(2.0, 4.0);
        let weights = [1.0, factor.recip(), factor.powi(-2), factor.powi(-3)];
        let total: f64 = weights.iter().sum();
        let mut timeline = Timeline::new(8);
        for second in 0..16 {
            let turn = if dynamic { random.below(PAIRS) } else { 0 };
            for _ in 0..events {
                let mut draw = random.part() * total;
                let mut place = 0;
                for weight in &weights[..weights.len() - 1] {
                    draw -= weight;
                    place += u64::from(draw >= 0.0);
                }
                let pair = u32::try_from((place + turn) % PAIRS).unwrap();
                timeline.add(Event {
                    at_ns: second * SECOND + random.below(SECOND),
                    from: 2 * pair,
                    to: 2 * pair + 1,
                    bytes: 8,
                });
            }
        }
        (timeline.changes() > THRESHOLDS.changes_max) != dynamic
    });
    wrong.count() as f64 / PROGRAMS as f64
}

/// With the least number at most one class in a hundred is wrong; half of it is not enough, double gains little.
#[track_caller]
fn justified(what: &str, [half, least, double]: [f64; 3]) {
    assert!(
        half > 0.01 && least <= 0.01 && double <= least,
        "seeds 0 to {PROGRAMS}, {what}: wrong are {half}, {least}, {double}"
    );
}

#[test]
fn fewer_samples_than_the_least_number_take_programs_for_others() {
    justified(
        "samples",
        wrong_by_samples([SAMPLES_MIN / 2, SAMPLES_MIN, SAMPLES_MIN * 2]),
    );
}

#[test]
fn fewer_events_than_the_least_number_take_programs_for_others() {
    justified(
        "events",
        [EVENTS_MIN / 2, EVENTS_MIN, EVENTS_MIN * 2].map(wrong_by_events),
    );
}
