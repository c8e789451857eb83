//! The world by itself, without an engine.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use numad_core::cost::ACCESS_BYTES;
use numad_core::{
    Action, AttachmentId, Host, Outcome, PageOutcome, Reach, Reason, Record, Refusal, SpaceId,
};
use topology::{CpuSet, Figure, NodeId, Origin, Tid, Topology};

use super::{World, WorldSpec};
use crate::conditions::Conditions;
use crate::fault::Faults;

fn spec(topology: &str, workload: &str, threads: usize, seed: u64) -> WorldSpec {
    WorldSpec {
        topology: Arc::new(topology::synthetic::parse(topology).unwrap()),
        workload: workload.parse().unwrap(),
        threads,
        faults: Faults::NONE,
        cgroup_cpus: CpuSet::new(),
        seed,
        conditions: Conditions::default(),
        balancing: false,
    }
}

fn run(world: &mut World, steps: usize) -> Vec<Record> {
    let mut all = Vec::new();
    for _ in 0..steps {
        let mut records = Vec::new();
        world.step(&mut records);
        all.append(&mut records);
    }
    all
}

/// Binds a thread of the blueprint to a node.
fn bind(world: &mut World, thread: usize, node: u32) -> Outcome {
    let task = world.thread_keys()[thread].unwrap();
    let node = NodeId(node);
    let cpus = world.topology().node(node).unwrap().cpus.clone();
    world.perform(&Action::Bind {
        attachment: AttachmentId(0),
        task,
        node,
        cpus,
        reason: Reason::Order,
        evidence: None,
    })
}

/// Moves pages that have a home, by region and page, and panics if any stays.
fn move_pages(world: &mut World, node: u32, wanted: impl Fn(usize, u64) -> bool) {
    let pid = world.pids()[0];
    let pages: Vec<u64> = world
        .placement()
        .homes
        .iter()
        .flat_map(|(region, pages, _)| pages.clone().map(move |page| (*region, page)))
        .filter(|&(region, page)| wanted(region, page))
        .map(|(region, page)| world.space.address(&world.plan, region, page))
        .collect();
    let node = NodeId(node);
    let outcome = world.perform(&Action::MovePages {
        attachment: AttachmentId(0),
        pid,
        space: SpaceId(0),
        pages,
        node,
        reason: Reason::Order,
        evidence: None,
        reach: Reach::Alone,
        object: None,
    });
    let Outcome::Moved { pages, .. } = outcome else {
        panic!("{outcome:?}");
    };
    let there = [PageOutcome::On(node), PageOutcome::Stood(node)];
    assert!(pages.iter().all(|page| there.contains(page)));
}

fn work_in(world: &mut World, steps: usize) -> f64 {
    let before = world.totals().clone();
    run(world, steps);
    world.totals().since(&before).work()
}

#[test]
fn the_same_seed_is_the_same_world() {
    let again = |seed| {
        let mut spec = spec("4x4@10,21", "phases:1", 16, seed);
        spec.faults = Faults::all();
        let mut world = World::new(&spec);
        let records = run(&mut world, 300);
        (records, world.totals().clone(), world.placement())
    };
    assert_eq!(again(5), again(5));
    assert_ne!(again(5).0, again(6).0);
}

#[test]
fn what_goes_wrong_is_the_same_whatever_is_done() {
    let mut spec = spec("4x4@10,21", "pairs", 16, 5);
    spec.faults = Faults::all();
    let (mut left, mut worked_on) = (World::new(&spec), World::new(&spec));
    for step in 0..1000 {
        run(&mut left, 1);
        run(&mut worked_on, 1);
        let same = left.online() == worked_on.online() && left.now() == worked_on.now();
        assert!(same, "not after step {step}");
        if worked_on.thread_keys()[step % 16].is_some() {
            bind(&mut worked_on, step % 16, 1);
        }
    }
}

#[test]
fn memory_delivers_what_threads_get() {
    let mut world = World::new(&spec("4x4@10,21", "slices", 16, 7));
    run(&mut world, 5);
    move_pages(&mut world, 1, |_, _| true);
    run(&mut world, 5);
    let delivered: f64 = world.totals().controller_bytes.iter().sum();
    let got = world.totals().accesses * ACCESS_BYTES;
    assert!(
        (delivered / got - 1.0).abs() < 1e-9,
        "{delivered} for {got}"
    );
}

/// The bits do not depend on how it was compiled: this figure was written down by an unoptimized
/// build and holds in optimized ones.
#[test]
fn figures_are_the_same_bits_in_every_build() {
    let mut world = World::new(&spec("4x4@10,21", "pairs", 16, 7));
    let records = run(&mut world, 100);
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut mix = |bits: u64| hash = (hash ^ bits).wrapping_mul(0x100_0000_01b3);
    for record in &records {
        if let Record::Sample(sample) = record {
            mix(sample.address ^ sample.time.0 ^ u64::from(sample.tid.0));
        }
    }
    world
        .totals()
        .work_ns
        .iter()
        .for_each(|work| mix(work.to_bits()));
    assert_eq!(hash, 0xe1dc_7741_9cd6_47f0, "{hash:#x}");
}

#[test]
fn partners_on_one_node_get_more_done() {
    let mut apart = World::new(&spec("4x4@10,21", "pairs", 16, 3));
    let mut together = World::new(&spec("4x4@10,21", "pairs", 16, 3));
    let mut placed = [false; 16];
    let mut order = 0;
    for thread in 0..16 {
        let partner = together.blueprint().partners(0, thread)[0];
        if !placed[thread] {
            for one in [thread, partner] {
                assert_eq!(bind(&mut together, one, order / 2), Outcome::Bound);
                placed[one] = true;
            }
            order += 1;
        }
    }
    run(&mut together, 1);
    for thread in 0..16 {
        let partner = together.blueprint().partners(0, thread)[0];
        assert_eq!(
            together.thread_nodes()[thread],
            together.thread_nodes()[partner]
        );
    }
    // Threads alone leave their pages behind; pages have to follow.
    let nodes = together.thread_nodes();
    let touchers: Vec<usize> = together
        .blueprint()
        .regions
        .iter()
        .map(|r| r.toucher)
        .collect();
    for node in 0..4 {
        move_pages(&mut together, node, |region, _| {
            nodes[touchers[region]] == Some(NodeId(node))
        });
    }
    assert!(work_in(&mut together, 200) > work_in(&mut apart, 200) * 1.1);
    assert!(together.totals().local_share() > 0.98);
}

#[test]
fn undo_brings_back_exactly_what_was() {
    let mut world = World::new(&spec("4x4@10,21", "pairs", 16, 3));
    bind(&mut world, 5, 1);
    let before = World::new(&spec("4x4@10,21", "pairs", 16, 3)).placement();
    for thread in 0..16 {
        bind(&mut world, thread, 3);
        bind(&mut world, thread, 2);
    }
    move_pages(&mut world, 2, |region, _| region % 3 == 0);
    move_pages(&mut world, 0, |region, page| region % 2 == 0 && page < 9);
    run(&mut world, 10);
    assert_ne!(world.placement(), before);
    world.undo();
    assert_eq!(world.placement(), before);
}

#[test]
fn what_cannot_be_is_refused_and_changes_nothing() {
    let mut spec = spec("2x2@10,20", "pairs", 4, 1);
    spec.cgroup_cpus = [2, 3].map(topology::CpuId).into_iter().collect();
    let mut world = World::new(&spec);
    let before = world.placement();
    assert_eq!(
        bind(&mut world, 0, 0),
        Outcome::Refused(Refusal::NotAllowed)
    );
    let mut gone = world.thread_keys()[0].unwrap();
    gone.start.0 += 1;
    let action = Action::Bind {
        attachment: AttachmentId(0),
        task: gone,
        node: NodeId(1),
        cpus: spec.cgroup_cpus.clone(),
        reason: Reason::Order,
        evidence: None,
    };
    assert_eq!(world.perform(&action), Outcome::Refused(Refusal::Gone));
    let pid = world.pids()[0];
    let nowhere = |pages, node| Action::MovePages {
        attachment: AttachmentId(0),
        pid,
        space: SpaceId(0),
        pages,
        node: NodeId(node),
        reason: Reason::Order,
        evidence: None,
        reach: Reach::Alone,
        object: None,
    };
    assert_eq!(
        world.perform(&nowhere(vec![], 7)),
        Outcome::Refused(Refusal::NoSuchNode)
    );
    for address in [0, 4096, 0x7f00_0000_0000 + (1 << 23), !4095] {
        let outcome = world.perform(&nowhere(vec![address], 1));
        let refused = vec![PageOutcome::Refused(Refusal::Gone)];
        assert_eq!(
            outcome,
            Outcome::Moved {
                pages: refused,
                spent_ns: 0,
                took_ns: 0
            }
        );
    }
    assert_eq!(world.placement(), before);
}

#[test]
fn a_cgroup_and_processors_going_offline_are_obeyed() {
    let mut spec = spec("4x4@10,21", "all-shared", 8, 1);
    spec.cgroup_cpus = (4..12).map(topology::CpuId).collect();
    spec.faults = "offline".parse().unwrap();
    let mut world = World::new(&spec);
    for _ in 0..50 {
        run(&mut world, 20);
        assert!(
            world
                .thread_nodes()
                .iter()
                .flatten()
                .all(|node| (1..=2).contains(&node.0))
        );
    }
}

#[test]
fn samples_tell_who_shares() {
    let mut world = World::new(&spec("4x4@10,21", "groups:4", 16, 2));
    let records = run(&mut world, 100);
    let tid = |thread: usize| world.thread_keys()[thread].unwrap().tid;
    let mut pages = BTreeMap::new();
    for record in &records {
        if let Record::Sample(sample) = record {
            let users: &mut Vec<_> = pages.entry(sample.address >> 12).or_default();
            users.push(sample.tid);
        }
    }
    for thread in 0..16 {
        let partners = world.blueprint().partners(0, thread);
        let met = |other: usize| {
            let both =
                |users: &&Vec<_>| users.contains(&tid(thread)) && users.contains(&tid(other));
            pages.values().filter(both).count()
        };
        let strangers = (0..16).filter(|one| *one != thread && !partners.contains(one));
        let most = strangers.map(met).max().unwrap();
        assert!(
            partners.iter().all(|&one| met(one) > 2 * most),
            "thread {thread}"
        );
    }
}

#[test]
fn phases_change_partners_on_time() {
    let mut world = World::new(&spec("4x4@10,21", "phases:1", 16, 2));
    let mut phases = Vec::new();
    for _ in 0..7 {
        run(&mut world, 50);
        phases.push(world.phase());
    }
    // The step that begins at a full second is the first of the next phase.
    assert_eq!(phases, [0, 0, 1, 1, 2, 2, 0]);
}

#[test]
fn threads_go_at_the_pace_of_the_slowest_they_wait_for() {
    let mut world = World::new(&spec("4x4@10,21", "slices", 16, 2));
    run(&mut world, 100);
    let work = &world.totals().work_ns;
    let (least, most) = (
        work.iter().copied().fold(f64::INFINITY, f64::min),
        work.iter().copied().fold(0.0, f64::max),
    );
    assert!(most < least * 1.01, "{work:?}");
}

/// Eight threads on one node, all memory there, then more and more of it spread over the three other
/// nodes, on PTB's machine: the fact of its section 4.3, in the whole world instead of the formula.
#[test]
fn bandwidth_rises_until_two_thirds_are_moved_away_and_falls_after() {
    let mut spec = spec("4x8@10,16", "slices", 8, 1);
    spec.topology = Arc::new(ptb_machine());
    let mut world = World::new(&spec);
    for thread in 0..8 {
        assert_eq!(bind(&mut world, thread, 0), Outcome::Bound);
    }
    let bandwidth: Vec<f64> = (0..=10)
        .map(|tenths| {
            for node in 1..4 {
                // A slice has 128 pages: 12 of every 120 are one tenth.
                move_pages(&mut world, node, |_, page| {
                    page % 10 < tenths && page / 10 % 3 + 1 == u64::from(node)
                });
            }
            // What moving cost is over after a while.
            run(&mut world, 20);
            work_in(&mut world, 10)
        })
        .collect();
    let best = (0..=10)
        .max_by(|&a, &b| bandwidth[a].total_cmp(&bandwidth[b]))
        .unwrap();
    assert!((6..=7).contains(&best), "best at {best}0 %: {bandwidth:?}");
    assert!(bandwidth[..=best].is_sorted(), "{bandwidth:?}");
    assert!(bandwidth[best..].iter().rev().is_sorted(), "{bandwidth:?}");
}

/// The dissertation, 2.4.4 and 3.4.1.2: all on one node is as local as can be, and loses to threads
/// spread evenly with their memory as soon as the controller saturates.
#[test]
fn locality_loses_to_balance_when_controllers_saturate() {
    let with_threads = |threads: usize| {
        let run_on = |nodes: usize| {
            let mut world = World::new(&spec("4x16@10,21", "all-shared", threads, 1));
            for thread in 0..threads {
                bind(&mut world, thread, u32::try_from(thread % nodes).unwrap());
            }
            run(&mut world, 1);
            let places = world.thread_nodes();
            let regions = world.blueprint().regions.clone();
            for node in 0..4 {
                move_pages(&mut world, node, |region, page| {
                    let shared = regions[region].transfer > 0.0;
                    let own = places[regions[region].toucher] == Some(NodeId(node));
                    if shared {
                        page % nodes as u64 == u64::from(node)
                    } else {
                        own
                    }
                });
            }
            run(&mut world, 20);
            work_in(&mut world, 50)
        };
        run_on(4) / run_on(1)
    };
    assert!(with_threads(4) < 0.95, "few: {}", with_threads(4));
    assert!(with_threads(64) > 1.05, "many: {}", with_threads(64));
}

/// PTB 4.1: 2.82 GB/s from node 1 to the memory of node 0, 3.93 GB/s the other way.
#[test]
fn one_direction_can_be_faster_than_the_other() {
    let remote = |threads: u32, memory: u32| {
        let mut spec = spec("4x8@10,16", "slices", 8, 1);
        spec.topology = Arc::new(ptb_machine());
        let mut world = World::new(&spec);
        for thread in 0..8 {
            bind(&mut world, thread, threads);
        }
        move_pages(&mut world, memory, |_, _| true);
        run(&mut world, 20);
        work_in(&mut world, 10)
    };
    let factor = remote(0, 1) / remote(1, 0);
    // Threads also think, so that work differs a little less than bandwidth, which is 1.39.
    assert!((1.3..1.4).contains(&factor), "{factor}");
}

/// Bandwidth of PTB's machine in GB/s: 4 locally, 2.8 to 3.9 elsewhere, not the same both ways.
fn ptb_machine() -> Topology {
    let topology = topology::synthetic::parse("4x8@10,16").unwrap();
    let mut graph = topology.bandwidth().clone();
    let rows = [
        [4000, 3930, 2820, 2800],
        [2820, 4000, 2800, 3930],
        [3930, 2820, 4000, 2800],
        [2820, 3930, 2820, 4000],
    ];
    for (from, row) in (0..).zip(rows) {
        for (to, value) in (0..).zip(row) {
            graph.link_mut(NodeId(from), NodeId(to)).read_mbps = Some(Figure {
                value,
                origin: Origin::Measured,
            });
        }
    }
    topology.with_bandwidth(graph)
}

fn sized(workload: &str, memory: &str, huge: bool) -> WorldSpec {
    let mut spec = spec("4x4@10,21", workload, 16, 3);
    spec.conditions = Conditions {
        memory: memory.parse().unwrap(),
        huge,
        ..Conditions::default()
    };
    spec.topology = spec.conditions.machine(&spec.topology);
    spec
}

const EVERY: [&str; 16] = [
    "slices",
    "pairs",
    "groups:4",
    "all-shared",
    "phases:1",
    "hog",
    "two",
    "stream",
    "flood",
    "zipf",
    "strided",
    "growing",
    "heap",
    "stencil",
    "mg",
    "ft",
];

/// What is done is the same at every size, and so is what is known of it.
#[test]
fn size_changes_nothing_but_addresses_while_nothing_moves() {
    for workload in EVERY {
        let run = |memory: &str, huge: bool| {
            let mut world = World::new(&sized(workload, memory, huge));
            let samples = run(&mut world, 30).len();
            (world.totals().work(), world.totals().local_share(), samples)
        };
        let small = run("512K", false);
        for (memory, huge) in [("8M", false), ("1G", false), ("1G", true), ("64G", true)] {
            let large = run(memory, huge);
            let near = |one: f64, other: f64| (one - other).abs() <= 0.02 * other;
            let alike = near(large.0, small.0) && (large.1 - small.1).abs() < 0.02;
            assert!(
                alike && large.2.abs_diff(small.2) * 20 <= small.2,
                "{workload} {memory} {huge}: {large:?} {small:?}"
            );
        }
    }
}

/// Pieces of several threads lie in each, and whoever touches or moves one takes the others with it.
#[test]
fn a_huge_page_is_whole_on_one_node() {
    let mut spec = sized("strided", "8M", true);
    spec.conditions.touch = crate::conditions::Touch::Own;
    let world = World::new(&spec);
    spec.balancing = true;
    let mut balanced = World::new(&spec);
    run(&mut balanced, 4001);
    assert!(balanced.totals().page_moves > 0);
    for world in [&world, &balanced] {
        let unit = world.conditions.unit_pages();
        for (_, numbers) in world.space.pieces() {
            for first in numbers.step_by(512) {
                let runs = world.space.runs(&world.plan, first..first + unit);
                let homes = runs.into_iter().flat_map(|(region, pages)| {
                    let homes = world.regions[region].homes.within(pages);
                    homes.map(|(_, home)| home)
                });
                let homes: BTreeSet<u16> = homes.collect();
                assert_eq!(homes.len(), 1, "{first:x}: {homes:?}");
            }
        }
    }
}

#[test]
fn a_program_has_as_much_memory_in_huge_pages_as_in_small_ones() {
    let resident = |huge| {
        let world = World::new(&sized("slices", "1G", huge));
        let pid = world.pids()[0];
        world
            .observe(AttachmentId(0), pid, Vec::new())
            .resident_bytes
    };
    assert_eq!([resident(false), resident(true)], [16 << 30; 2]);
}

/// Terabytes take no more room than what was touched apart and moved.
#[test]
fn room_grows_with_moves_and_not_with_pages() {
    let extents = |world: &World| world.placement().homes.len();
    let mut world = World::new(&sized("slices", "256G", false));
    assert_eq!(extents(&world), 16);
    let pid = world.pids()[0];
    let at = world.mappings(pid);
    assert_eq!(at.len(), 16);
    assert!(
        at.iter()
            .all(|one| one.end - one.start == 256 << 30 && one.page_bytes == 4096)
    );
    let pages: Vec<u64> = (0..100).map(|page| at[3].start + page * 8192).collect();
    let action = |pages| Action::MovePages {
        attachment: AttachmentId(0),
        pid,
        space: SpaceId(0),
        pages,
        node: NodeId(2),
        reason: Reason::Order,
        evidence: None,
        reach: Reach::Alone,
        object: None,
    };
    world.perform(&action(pages));
    assert_eq!(
        (extents(&world), world.totals().page_moves),
        (16 + 199, 100)
    );
    world.undo();
    assert_eq!(extents(&world), 16);
    assert!(world.is_as_touched());
    // Of a huge page all goes where one of its pages goes.
    let mut world = World::new(&sized("slices", "1G", true));
    let pid = world.pids()[0];
    let start = world.mappings(pid)[3].start;
    world.perform(&action(vec![start + (5 << 20)]));
    assert_eq!(world.totals().page_moves, 512);
    assert_eq!(world.home(pid, start + (4 << 20)), Some(NodeId(2)));
    assert_eq!(world.home(pid, start + (6 << 20) - 1), Some(NodeId(2)));
    assert_eq!(world.home(pid, start + (6 << 20)), Some(NodeId(0)));
}

#[test]
fn addresses_lead_back_to_where_they_came_from() {
    for workload in EVERY {
        for (memory, sparse) in [
            ("512K", false),
            ("512K", true),
            ("64G", false),
            ("64G", true),
        ] {
            let mut spec = sized(workload, memory, false);
            spec.conditions.sparse = sparse;
            let mut world = World::new(&spec);
            let mut last = 0;
            for pid in world.pids() {
                for one in world.mappings(pid) {
                    assert!(
                        one.start >= last && one.end <= 0x7fff_0000_0000,
                        "{workload}"
                    );
                    last = one.end;
                }
            }
            for record in run(&mut world, 3) {
                if let Record::Sample(sample) = record {
                    let found = world.home(sample.pid, sample.address);
                    assert!(
                        found.is_some(),
                        "{workload} {memory}: {:#x}",
                        sample.address
                    );
                }
            }
        }
    }
}

#[test]
fn pieces_that_take_turns_lie_between_each_other() {
    let world = World::new(&sized("strided", "8M", false));
    let address = |region, page| world.space.address(&world.plan, region, page);
    assert_eq!(address(1, 0) - address(0, 0), 16 * 4096);
    assert_eq!(address(0, 16) - address(15, 0), 16 * 4096);
    let numbers = address(2, 8) / 4096..address(4, 2) / 4096;
    let runs = world.space.runs(&world.plan, numbers);
    assert_eq!(runs, [(2, 8..16), (3, 0..16), (4, 0..2)]);
}

#[test]
fn whoever_is_asked_for_touches_first() {
    let homes = |workload, touch| {
        let mut spec = sized(workload, "8M", false);
        spec.conditions.touch = touch;
        let world = World::new(&spec);
        let on = world.layout().pages.into_iter();
        on.fold(vec![0; 4], |mut sum, pages| {
            sum.iter_mut()
                .zip(pages)
                .for_each(|(sum, pages)| *sum += pages);
            sum
        })
    };
    use crate::conditions::Touch;
    let one = homes("pairs", Touch::One);
    assert_eq!(one[1..], [0, 0, 0]);
    assert_eq!(homes("all-shared", Touch::All), [one[0] * 33 / 40 / 4; 4]);
    assert!(homes("slices", Touch::Own)[1..] == [0, 0, 0]);
    assert_eq!(
        homes("slices", Touch::All),
        homes("pairs", Touch::Own)
            .iter()
            .map(|_| 8 * 4 * 256)
            .collect::<Vec<_>>()
    );
}

#[test]
fn memory_grows_and_threads_start_one_after_the_other() {
    let pages = |world: &World| -> u64 { world.layout().pages.iter().flatten().sum() };
    let mut world = World::new(&sized("growing", "8M", false));
    let whole = world.blueprint().pages();
    assert_eq!(pages(&world), whole / 8);
    run(&mut world, 401);
    assert!((whole / 2..whole * 2 / 3).contains(&pages(&world)));
    run(&mut world, 401);
    assert_eq!(pages(&world), whole);
    let mut spec = sized("pairs", "8M", false);
    spec.conditions.staggered = true;
    let mut world = World::new(&spec);
    let alive = |world: &World| world.thread_keys().iter().flatten().count();
    assert_eq!(alive(&world), 1);
    let records = run(&mut world, 201);
    assert_eq!(alive(&world), 16);
    let forks = records
        .iter()
        .filter(|one| matches!(one, Record::Lifecycle(_)));
    assert_eq!(forks.count(), 15);
    assert_eq!(pages(&world), world.blueprint().pages());
}

#[test]
fn threads_wander_that_nobody_has_bound_and_every_processor_keeps_one() {
    let mut spec = sized("slices", "8M", false);
    spec.conditions.wander = true;
    let mut world = World::new(&spec);
    let mut changed = 0;
    let before = world.thread_nodes();
    let node = before[0].unwrap();
    assert_eq!(bind(&mut world, 0, node.0), Outcome::Bound);
    for _ in 0..20 {
        let then = world.thread_nodes();
        run(&mut world, 100);
        let now = world.thread_nodes();
        assert_eq!(now[0], Some(node), "bound");
        let sorted = |nodes: &[Option<NodeId>]| {
            let mut nodes = nodes.to_vec();
            nodes.sort_unstable();
            nodes
        };
        assert_eq!(sorted(&now), sorted(&before));
        changed += usize::from(now != then);
    }
    assert!(changed > 10, "{changed}");
}

#[test]
fn faults_show_first_writes_and_only_where_protecting_is_short() {
    let seen = |memory: &str, huge: bool| {
        let mut spec = sized("slices", memory, huge);
        spec.conditions.source = crate::conditions::Source::Faults;
        let mut world = World::new(&spec);
        let records = run(&mut world, 250);
        let samples = records
            .iter()
            .filter(|one| matches!(one, Record::Sample(_)));
        (samples.count(), world.totals().lost)
    };
    // Two rounds, each page of 16 slices once.
    let (few, lost) = seen("512K", false);
    assert!(
        (3_900..=4_096).contains(&(few + usize::try_from(lost).unwrap())),
        "{few} {lost}"
    );
    // 16 GiB of small pages would take 100 ms; of huge ones it is 8,192 entries.
    assert_eq!(seen("1G", false), (0, 0));
    assert!(seen("1G", true).0 > 8_000);
}

/// After memory was protected whoever writes first faults, and of two that write alike that is now this one and now
/// that.
#[test]
fn pages_that_threads_share_fault_in_all_of_them() {
    let mut spec = sized("pairs", "8M", false);
    spec.conditions.source = crate::conditions::Source::Faults;
    let mut world = World::new(&spec);
    let mut users: BTreeMap<u64, BTreeSet<Tid>> = BTreeMap::new();
    for record in run(&mut world, 250) {
        if let Record::Sample(sample) = record {
            users
                .entry(sample.address >> 12)
                .or_default()
                .insert(sample.tid);
        }
    }
    let threads: BTreeSet<Tid> = users.values().flatten().copied().collect();
    assert_eq!(threads.len(), 16);
    let shared = users.values().filter(|users| users.len() == 2).count();
    assert!(shared > 500, "{shared} of {}", users.len());
    assert!(users.values().all(|users| users.len() <= 2));
}

#[test]
fn samples_come_as_often_as_asked() {
    let mut spec = sized("slices", "64G", true);
    spec.conditions.samples_per_s = Some(5_000);
    let mut world = World::new(&spec);
    for thread in 0..16 {
        let node = thread / 4;
        bind(&mut world, thread, u32::try_from(node).unwrap());
    }
    run(&mut world, 100);
    let samples = world.totals().samples + world.totals().lost;
    let speed = world.totals().work() / 16e9;
    let asked = 5_000.0 * speed;
    assert!(
        (samples as f64 - asked).abs() < asked * 0.02,
        "{samples} of {asked}"
    );
}

/// On a chip with many last-level caches, whom threads share theirs with is worth as much as the way to
/// memory; where a node has one, nothing.
#[test]
fn partners_that_share_a_cache_get_more_done() {
    let work = |machine: &str, together: bool| {
        let mut world = World::new(&spec(machine, "pairs", 8, 3));
        for thread in 0..8_usize {
            let partner = world.blueprint().partners(0, thread)[0];
            let group = thread.min(partner);
            // Processors 0 and 1 share a cache, and so on.
            let order = (0..8)
                .filter(|&one| one < group && one < world.blueprint().partners(0, one)[0])
                .count();
            let second = usize::from(thread > partner);
            let cpu = if together {
                2 * order + second
            } else {
                order + 4 * second
            };
            let task = world.thread_keys()[thread].unwrap();
            world.perform(&Action::Bind {
                attachment: AttachmentId(0),
                task,
                node: NodeId(0),
                cpus: [topology::CpuId(u32::try_from(cpu).unwrap())]
                    .into_iter()
                    .collect(),
                reason: Reason::Order,
                evidence: None,
            });
        }
        run(&mut world, 1);
        work_in(&mut world, 50)
    };
    let gain = work("1x8:4", true) / work("1x8:4", false);
    assert!((1.05..1.3).contains(&gain), "{gain}");
    assert!((work("1x8", true) / work("1x8", false) - 1.0).abs() < 1e-9);
    assert!((work("1x8:1", true) / work("1x8", true) - 1.0).abs() < 1e-9);
}
