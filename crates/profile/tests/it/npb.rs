//! What the dissertation (Agung 2020, chapter 2) says of the NAS Parallel Benchmarks with MPI, on made-up runs that have
//! their communication patterns: who sends to whom in each iteration, as NPB 3.3 does, with the ranks of the paper (2.4.1).
//!
//! The paper prints no amounts, times or thresholds, only figures. So what is made up here is: the length of each run (in
//! the order of NPB's work: IS and MG are done in seconds, BT, SP and LU take the longest), the size of messages in units
//! of a face or block, and ranks that drift by up to half an iteration. Whether `CommR` and `DramR` are high is taken from
//! 2.4.2, as only counters tell. What follows from the pattern is then checked: groups in time, `CommC`, `CommLoc`,
//! `CommDyn`, classes.

use std::collections::BTreeMap;

use control::profile::{Class, Level, Profile};
use profile::Event;
use profile::build::{About, in_time};
use profile::metrics::{THRESHOLDS, Volume};
use profile::timeline::Timeline;

use crate::random::Random;

const SEEDS: std::ops::Range<u64> = 0..5;

/// Who sends how much to whom in one iteration.
type Messages = Vec<(u32, u32, u64)>;

/// One benchmark.
struct Npb {
    ranks: u32,
    length_s: f64,
    /// Parts of the run, by start and end as shares of it: iterations, and what is sent in each.
    phases: Vec<(f64, f64, u32, Messages)>,
    /// Whether `CommR` and `DramR` are high, by 2.4.2.
    high: (bool, bool),
}

/// Small messages of a collective operation: as Open MPI does an allreduce, by recursive doubling. Where ranks are no
/// power of two, those beyond give theirs to a neighbour first and get the sum back.
fn allreduce(ranks: u32) -> Messages {
    let power = 1 << ranks.ilog2();
    let beyond = ranks - power;
    let rank_of = |it: u32| if it < beyond { 2 * it + 1 } else { it + beyond };
    let folds = (0..beyond).flat_map(|it| [(2 * it, 2 * it + 1, 8), (2 * it + 1, 2 * it, 8)]);
    let rounds =
        (0..power.ilog2()).flat_map(|round| (0..power).map(move |it| (it, it ^ (1 << round))));
    folds
        .chain(rounds.map(|(from, to)| (rank_of(from), rank_of(to), 8)))
        .collect()
}

/// A broadcast along a binomial tree.
fn bcast(ranks: u32) -> Messages {
    let child = |rank: u32| {
        (1..ranks.next_power_of_two().ilog2() + 1).map(move |bit| (rank, rank + (1 << (bit - 1))))
    };
    let is_child = |&(rank, to): &(u32, u32)| to < ranks && rank < to - rank;
    (0..ranks)
        .flat_map(child)
        .filter(is_child)
        .map(|(from, to)| (from, to, 8))
        .collect()
}

fn all_to_all(ranks: u32, bytes: u64) -> Messages {
    let pairs = (0..ranks).flat_map(|from| (0..ranks).map(move |to| (from, to)));
    pairs
        .filter(|(from, to)| from != to)
        .map(|(from, to)| (from, to, bytes))
        .collect()
}

/// BT and SP: cells on diagonals of a square of ranks; neighbours in x, y and on the diagonal, both ways.
fn multi_partition(side: u32, bytes: u64) -> Messages {
    let rank = |row: u32, column: u32| (row % side) * side + column % side;
    let places = (0..side).flat_map(|row| (0..side).map(move |column| (row, column)));
    let neighbours = |(row, column): (u32, u32)| {
        let back = side - 1;
        let to = [(0, 1), (0, back), (1, 0), (back, 0), (1, back), (back, 1)];
        to.map(|(down, right)| (rank(row, column), rank(row + down, column + right), bytes))
    };
    places.flat_map(neighbours).collect()
}

/// CG: sums within a row of ranks by halving distances, and an exchange with the transposed rank.
fn cg(rows: u32, columns: u32, bytes: u64) -> Messages {
    let mut messages = Messages::new();
    for rank in 0..rows * columns {
        let (row, column) = (rank / columns, rank % columns);
        let sums = (0..columns.ilog2()).map(|round| row * columns + (column ^ (1 << round)));
        // With twice as many columns as rows, as NPB has it for 32 ranks.
        let transposed = ((rank / 2 % rows) * rows + rank / 2 / rows) * 2 + rank % 2;
        messages.extend(sums.chain([transposed]).map(|to| (rank, to, bytes)));
    }
    messages.retain(|(from, to, _)| from != to);
    messages
}

/// MG: neighbours on a torus of 4 by 4 by 2 ranks, on grids that are coarser by half each; faces have a quarter then.
fn mg(bytes: u64) -> Messages {
    let rank = |x: u32, y: u32, z: u32| (z % 2) * 16 + (y % 4) * 4 + x % 4;
    let mut messages = Messages::new();
    for level in 0..4 {
        for (from, (x, y, z)) in (0..32).map(|it| (it, (it % 4, it / 4 % 4, it / 16))) {
            let to = [
                (1, 0, 0),
                (3, 0, 0),
                (0, 1, 0),
                (0, 3, 0),
                (0, 0, 1),
                (0, 0, 1),
            ];
            messages.extend(
                to.map(|(dx, dy, dz)| (from, rank(x + dx, y + dy, z + dz), bytes >> (2 * level))),
            );
        }
    }
    messages
}

/// LU: pencils on a grid without wrap; sweeps there and back give a neighbour a line of each plane.
fn lu(rows: u32, columns: u32, bytes: u64) -> Messages {
    let mut messages = Messages::new();
    for rank in 0..rows * columns {
        let (row, column) = (rank / columns, rank % columns);
        if column + 1 < columns {
            messages.extend([(rank, rank + 1, bytes), (rank + 1, rank, bytes)]);
        }
        if row + 1 < rows {
            messages.extend([(rank, rank + columns, bytes), (rank + columns, rank, bytes)]);
        }
    }
    messages
}

fn steady(iterations: u32, messages: Messages) -> Vec<(f64, f64, u32, Messages)> {
    vec![(0.0, 1.0, iterations, messages)]
}

fn npb(name: &str) -> Npb {
    let (ranks, length_s, phases, high) = match name {
        // 2.3.3, page 18: a broadcast at the beginning, sums at the end.
        "EP" => {
            let ends = allreduce(56);
            let phases = vec![(0.0, 0.002, 1, bcast(56)), (0.998, 1.0, 5, ends)];
            (56, 4.0, phases, (false, false))
        }
        "CG" => (32, 15.0, steady(740, cg(4, 8, 150_000)), (true, true)),
        "FT" => (
            32,
            20.0,
            steady(22, all_to_all(32, 2_000_000)),
            (true, true),
        ),
        // 2.3.3, page 18: most events between 30 % and 81 % of the run. The rest is a few small sums.
        "IS" => {
            let round = [allreduce(32), all_to_all(32, 4), all_to_all(32, 500_000)].concat();
            let phases = vec![
                (0.0, 0.3, 2, allreduce(32)),
                (0.3, 0.81, 10, round),
                (0.81, 1.0, 2, allreduce(32)),
            ];
            (32, 2.0, phases, (true, true))
        }
        // 2.3.3, page 18: over the whole run, the most at the beginning.
        "MG" => {
            let begin = (0.0, 0.1, 20, [allreduce(32), mg(65_536)].concat());
            (
                32,
                5.0,
                vec![begin, (0.1, 1.0, 40, mg(65_536))],
                (true, true),
            )
        }
        "BT" => (
            49,
            60.0,
            steady(200, multi_partition(7, 126_000)),
            (true, false),
        ),
        "SP" => (
            49,
            60.0,
            steady(400, multi_partition(7, 80_000)),
            (true, true),
        ),
        "LU" => (56, 60.0, steady(250, lu(7, 8, 1_000_000)), (false, false)),
        _ => panic!("{name} is none"),
    };
    Npb {
        ranks,
        length_s,
        phases,
        high,
    }
}

/// The profile of a run, in which ranks drift or all send at the same moment.
fn run(name: &str, seed: u64, drift: bool) -> Profile {
    let npb = npb(name);
    let events = events(&npb, seed, drift);
    let mut timeline = Timeline::new(npb.ranks as usize);
    timeline.see(0);
    events.iter().for_each(|event| timeline.add(*event));
    timeline.see(nanoseconds(npb.length_s));
    let sent: u64 = events.iter().map(|event| event.bytes).sum();
    // Both directions of a pair count, so twice of what was sent is `Lcomm`.
    let memory = 2 * sent * if npb.high.0 { 10 } else { 1000 };
    let about = About {
        made_by: String::new(),
        source: name.to_owned(),
        level: Level::Message,
        tasks: (0..npb.ranks).map(|rank| rank.to_string()).collect(),
        thresholds: THRESHOLDS,
        notes: Vec::new(),
    };
    let volume = Volume {
        memory_bytes: Some(memory),
        dram_bytes: Some(memory / if npb.high.1 { 10 } else { 1000 }),
        samples: None,
    };
    in_time(about, &timeline, volume)
}

fn nanoseconds(seconds: f64) -> u64 {
    let time = std::time::Duration::from_secs_f64(seconds);
    u64::try_from(time.as_nanos()).unwrap()
}

fn events(npb: &Npb, seed: u64, drift: bool) -> Vec<Event> {
    let mut random = Random::new(seed);
    let mut events = Vec::new();
    for (start, end, iterations, messages) in &npb.phases {
        let step = (end - start) * npb.length_s / f64::from(*iterations);
        for iteration in 0..*iterations {
            let begun = start * npb.length_s + step * f64::from(iteration);
            let most = if drift { step / 2.0 } else { 0.0 };
            let late: Vec<f64> = (0..npb.ranks).map(|_| random.between(0.0, most)).collect();
            for &(from, to, bytes) in messages {
                let at_s = begun + late[from as usize] + random.between(0.0, most);
                let at_ns = nanoseconds(at_s);
                events.push(Event {
                    at_ns,
                    from,
                    to,
                    bytes,
                });
            }
        }
    }
    events.sort_by_key(|event| event.at_ns);
    events
}

/// Start, end and events of each group, times as shares of the run.
fn groups(profile: &Profile) -> Vec<(f64, f64, u64)> {
    let length = profile.length_s.unwrap();
    let group = |group: &control::profile::Group| {
        let events = group.pairs.iter().map(|pair| pair.events).sum();
        (
            group.from_s.unwrap() / length,
            group.to_s.unwrap() / length,
            events,
        )
    };
    profile.groups.iter().map(group).collect()
}

const ALL: [&str; 8] = ["BT", "CG", "EP", "FT", "IS", "LU", "MG", "SP"];

/// Page 18 (2.3.3): events of EP "happen only at the beginning and the end", there are "only two clusters, and the
/// cluster shown at the end of the execution has the highest number".
#[test]
fn ep_has_two_groups_and_the_last_is_the_largest() {
    for seed in SEEDS {
        let found = groups(&run("EP", seed, true));
        let [(start, early, few), (late, end, many)] = found[..] else {
            panic!("seed {seed}: {found:?}");
        };
        assert!(
            start < 0.01 && early < 0.01 && late > 0.99 && end > 0.99,
            "seed {seed}: {found:?}"
        );
        assert!(few < many, "seed {seed}: {found:?}");
    }
}

/// Page 18 (2.3.3): events of IS are mostly "in between 30% and 81%"; the largest clusters "in the middle".
#[test]
fn is_has_its_largest_groups_in_the_middle() {
    for seed in SEEDS {
        let found = groups(&run("IS", seed, true));
        let middle = |&&(start, end, _): &&(f64, f64, u64)| start > 0.25 && end < 0.85;
        let sum = |events: &mut dyn Iterator<Item = u64>| events.sum::<u64>();
        let inside = sum(&mut found.iter().filter(middle).map(|it| it.2));
        assert!(
            inside * 10 > sum(&mut found.iter().map(|it| it.2)) * 9,
            "seed {seed}: {found:?}"
        );
        let least = found.iter().filter(middle).map(|it| it.2).min();
        let outside = found.iter().filter(|it| !middle(it)).map(|it| it.2).max();
        assert!(
            outside.is_some() && outside < least,
            "seed {seed}: {found:?}"
        );
    }
}

/// Page 18 (2.3.3): events of MG are "distributed over the execution", the largest clusters "at the beginning".
#[test]
fn mg_has_its_largest_group_at_the_beginning() {
    for seed in SEEDS {
        let found = groups(&run("MG", seed, true));
        let most = found.iter().map(|it| it.2).max();
        assert!(
            found.len() > 2 && Some(found[0].2) == most,
            "seed {seed}: {found:?}"
        );
        let gaps = found.windows(2).all(|pair| pair[1].0 - pair[0].1 < 0.05);
        assert!(gaps, "seed {seed}: {found:?}");
    }
}

/// 2.4.2, page 27 (figure 2.7 e): `CommLoc` of BT, CG, LU and SP "is higher than that of the other applications"; 3.4.1,
/// pages 52 and 53: that of BT, CG and SP is the highest. It hangs on amounts alone, not on times. LU is near MG here.
#[test]
fn locality_is_higher_where_ranks_have_few_partners() {
    let locality: BTreeMap<&str, f64> = ALL
        .map(|name| (name, run(name, 1, true).metrics.locality))
        .into();
    let least = |names: &[&str]| {
        names
            .iter()
            .map(|name| locality[name])
            .fold(f64::INFINITY, f64::min)
    };
    let most = |names: &[&str]| names.iter().map(|name| locality[name]).fold(0.0, f64::max);
    assert!(least(&["BT", "CG", "SP"]) > locality["LU"], "{locality:?}");
    assert!(
        locality["LU"] > most(&["EP", "FT", "IS", "MG"]),
        "{locality:?}"
    );
}

/// 2.4.2, page 27 (figure 2.7 a): the load of EP is low.
#[test]
fn ep_has_the_lowest_load() {
    let load: BTreeMap<&str, u64> = ALL
        .map(|name| (name, run(name, 1, true).metrics.comm_bytes))
        .into();
    assert!(
        load.iter()
            .all(|(name, bytes)| *name == "EP" || *bytes > 1000 * load["EP"]),
        "{load:?}"
    );
}

/// 2.4.3, pages 31 and 32 (figure 2.11): IS and MG are static, EP and LU non-mapping (2.4.2: low `CommR` and `DramR`),
/// the others dynamic.
#[test]
fn classes_are_those_of_figure_2_11() {
    for seed in SEEDS {
        for name in ALL {
            let expected = match name {
                "EP" | "LU" => Class::NonMapping,
                "IS" | "MG" => Class::Static,
                _ => Class::Dynamic,
            };
            let found = run(name, seed, true);
            assert_eq!(
                found.class,
                Some(expected),
                "seed {seed}, {name}: {:?}",
                found.metrics
            );
        }
    }
}

/// What the paper does not say: these patterns do not change. Ranks with equal amounts drift, the ends of seconds cut
/// iterations, and so the order of ranks is another in nearly every second. IS and MG are static because they end before
/// they could change six times. Without drift nothing is dynamic.
#[test]
fn dynamic_is_drift_and_length_and_not_another_pattern() {
    for name in ["BT", "CG", "FT", "SP"] {
        let still = run(name, 1, false);
        assert_eq!(
            still.class,
            Some(Class::Static),
            "{name}: {:?}",
            still.metrics
        );
        let drifting = run(name, 1, true).metrics.changes.unwrap() as f64;
        assert!(drifting > npb(name).length_s * 0.8, "{name}: {drifting}");
    }
}

/// Where this differs from the paper. Page 18: the events of LU are "distributed over all of the clusters", so there are
/// several; here a steady stream is one group, as no moment of it is other than the next. Page 27 (figure 2.7 b):
/// `CommC` of CG, FT, IS, MG and SP is higher than of BT, EP and LU; here all ranks take part in each group of them all,
/// and so it is 1. The paper's clusters of steady streams are shorter, which its criterion for their number makes;
/// it prints neither their number nor the criterion's terms.
#[test]
fn steady_streams_are_one_group_other_than_in_the_paper() {
    for name in ["LU", "BT", "CG", "SP"] {
        assert_eq!(groups(&run(name, 1, true)).len(), 1, "{name}");
    }
    for name in ALL {
        assert_eq!(run(name, 1, true).metrics.concurrency, Some(1.0), "{name}");
    }
}
