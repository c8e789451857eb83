//! The order of time.

use std::convert::Infallible;

use proptest::prelude::*;

use super::super::order::Sorter;
use super::*;

#[derive(Clone, Debug)]
enum Step {
    Thing(u64),
    Mark,
}

/// What comes out of a sorter, and how much of it came late.
fn sorted(held_max: usize, steps: &[Step]) -> (Vec<u64>, u64) {
    let mut sorter = Sorter::new(held_max);
    let mut out = Vec::new();
    let mut push = |time: u64, place: usize| {
        out.push((time, place));
        Ok::<(), Infallible>(())
    };
    for (place, step) in steps.iter().enumerate() {
        let Ok(()) = match step {
            Step::Thing(time) => sorter.push(*time, place, &mut push),
            Step::Mark => sorter.round(&mut push),
        };
    }
    let Ok(()) = sorter.finish(&mut push);
    // What happened at the same time stays in its order.
    assert!(
        sorter.late() > 0 || out.windows(2).all(|pair| pair[0] < pair[1]),
        "{out:?}"
    );
    (
        out.into_iter().map(|(time, _)| time).collect(),
        sorter.late(),
    )
}

#[test]
fn a_mark_gives_out_what_was_old_at_the_mark_before() {
    use Step::{Mark, Thing};
    let steps = [
        Thing(3),
        Thing(1),
        Mark,
        Thing(2),
        Thing(5),
        Mark,
        Thing(4),
        Mark,
    ];
    assert_eq!(sorted(100, &steps), (vec![1, 2, 3, 4, 5], 0));
    // Older than what was newest two marks ago: perf promises that this is not so.
    let broken = [Thing(5), Mark, Mark, Thing(1)];
    assert_eq!(sorted(100, &broken), (vec![5, 1], 1));
    // Without marks, as much as is held.
    let unmarked = [9, 8, 7, 6, 5, 4, 3, 2, 1].map(Thing);
    assert_eq!(sorted(100, &unmarked).0, [1, 2, 3, 4, 5, 6, 7, 8, 9]);
    let (out, late) = sorted(4, &unmarked);
    assert_eq!(out.len(), 9);
    assert!(late > 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Rounds as perf makes them: each ring's records are in order, and each round ends at a time up
    /// to which every ring has been read.
    #[test]
    fn rounds_of_perf_come_out_in_order(
        rings in prop::collection::vec(prop::collection::vec(0u64..1000, 0..40), 1..6),
        rounds in 1usize..8,
    ) {
        let mut rings = rings;
        rings.iter_mut().for_each(|ring| ring.sort_unstable());
        let mut steps = Vec::new();
        let mut all: Vec<u64> = rings.concat();
        all.sort_unstable();
        for round in 0..rounds {
            // The first rings are read earlier in a round than the last ones, which go further.
            let until = 1000 * (round as u64 + 1) / rounds as u64;
            for (index, ring) in rings.iter_mut().enumerate() {
                let end = ring.partition_point(|time| *time < until + 10 * index as u64);
                steps.extend(ring.drain(..end).map(Step::Thing));
            }
            steps.push(Step::Mark);
        }
        prop_assert_eq!(sorted(1 << 20, &steps), (all, 0));
    }
}

/// Records without a time take that of what follows them; marks stand at every tenth of a second.
#[test]
fn a_replay_gets_marks_and_no_time_is_nothing() {
    let mut writer = Writer::new(Order::Little);
    writer.record(3, 0, |body| {
        body.u32(10);
        body.u32(11);
        body.bytes(b"solver\0\0");
        mem_event().trailer(body, (10, 11), 0, 0);
    });
    const MS: u64 = 1_000_000;
    mem_sample(&mut writer, (10, 11), 1030 * MS, 0x3000);
    mem_sample(&mut writer, (10, 11), 1000 * MS, 0x1000);
    mem_sample(&mut writer, (10, 11), 2055 * MS, 0x2000);
    let file = File {
        events: vec![(mem_event(), vec![])],
        ..File::default()
    };
    let (_, entries, _) = imported(&file.finish(Form::File, &writer), ImportOptions::default());
    let told: Vec<(char, u64)> = entries
        .iter()
        .map(|entry| match entry {
            Entry::Mark(time) => ('m', time.0 / MS),
            Entry::Record(Record::Sample(sample)) => ('s', sample.time.0 / MS),
            Entry::Record(Record::Lifecycle(Lifecycle::Renamed { time, .. })) => ('n', time.0 / MS),
            other => panic!("{other:?}"),
        })
        .collect();
    let expected = [
        ('n', 1000),
        ('s', 1000),
        ('s', 1030),
        ('m', 2000),
        ('s', 2055),
        ('m', 2055),
    ];
    assert_eq!(told, expected);
}
