//! The real engine and policies, judged by oracles that share no code with them.

use std::sync::Arc;
use std::time::Duration;

use numad_core::policy::{PageKey, SpaceId};
use numad_core::{AttachOptions, Bind, Policy, Program, Proposal, Reason, Time};
use topology::CpuSet;

use crate::conditions::{Conditions, Source, Touch};
use crate::driver::{self, Setup};
use crate::fault::{Fault, Faults};
use crate::random::Random;
use crate::report::{Report, run};
use crate::scenario::{Bandwidth, SCENARIOS, Scenario, named};
use crate::stage::Simulation;
use crate::workload::Workload;
use crate::world::{PAGE_BYTES, World, WorldSpec};

#[track_caller]
fn report(scenario: &Scenario) -> Report {
    let report = run(scenario).unwrap();
    let seed = scenario.seed;
    assert!(
        report.violations.is_empty(),
        "seed {seed}: {:#?}",
        report.violations
    );
    assert!(report.is_sound(), "seed {seed}: undo is incomplete");
    report
}

fn scenario(topology: &str, workload: &str, policy: &str, seed: u64) -> Scenario {
    Scenario {
        topology: topology.to_owned(),
        workload: workload.parse().unwrap(),
        policy: policy.to_owned(),
        seed,
        // Half as long as when people look at it: what happens, happens in the first two seconds.
        seconds: 5,
        ..SCENARIOS[0].scenario(policy, seed)
    }
}

/// Whether all threads that share memory are on one node in the end.
fn partners_are_together(report: &Report) -> bool {
    let threads = report.scenario.threads.unwrap();
    let workload: Workload = report.scenario.workload;
    let plan = workload.blueprint(
        threads,
        &report.scenario.conditions,
        &mut Random::new(report.scenario.seed, 1),
    );
    let after = &report.after[0].threads;
    let place = |thread: usize| after[thread].1;
    assert_eq!(after.len(), threads, "not all threads take part");
    (0..threads).all(|thread| {
        let partners = plan.partners(0, thread);
        partners
            .iter()
            .all(|&partner| place(partner) == place(thread))
    })
}

#[test]
fn deloc_brings_true_partners_together() {
    for seed in 1..=20 {
        let report = report(&scenario("4x4@10,21", "pairs", "deloc", seed));
        assert!(partners_are_together(&report), "seed {seed}");
        let gain = report.gain_percent();
        assert!(gain > 3.0, "seed {seed}: {gain:.1} %");
        assert!(report.undo_complete);
        // Most pairs need one of their two threads moved; all sixteen would be a thoughtless plan.
        assert!(report.outcome.task_moves <= 12, "seed {seed}");
    }
}

#[test]
fn a_node_of_many_caches_has_something_to_gain_and_nothing_to_lose() {
    for (workload, least) in [
        ("pairs", 5.0),
        ("groups:8", 4.0),
        ("phases:4", 3.0),
        ("all-shared", -0.1),
        ("slices", -0.1),
    ] {
        let report = report(&scenario("1x64:8", workload, "deloc", 1));
        let gain = report.gain_percent();
        assert!(gain >= least, "{workload}: {gain:.1} %");
        assert!(report.undo_complete, "{workload}");
    }
}

/// Whatever its memory is like, and although chance shows other partners in each window.
#[test]
fn a_program_that_stands_still_is_looked_at_ever_less() {
    for workload in ["slices", "pairs", "zipf", "all-shared", "hog"] {
        let one = Scenario {
            seconds: 60,
            conditions: Conditions {
                memory: "8M".parse().unwrap(),
                ..Conditions::default()
            },
            ..scenario("4x4@10,21", workload, "auto", 1)
        };
        let windows = report(&one).windows;
        let late = windows.iter().filter(|window| window.time_ms > 40_000);
        let late = late.count();
        assert!(late <= 12, "{workload}: {late} windows in the last 20 s");
    }
}

#[test]
fn groups_of_a_node_s_size_end_up_on_a_node() {
    for (topology, workload) in [("4x4@10,21", "groups:4"), ("2x8@10,21", "groups:8")] {
        let together = (1..=6)
            .map(|seed| report(&scenario(topology, workload, "deloc", seed)))
            .filter(partners_are_together)
            .count();
        // OnDeLocMap+ is greedy: a node that two groups began to fill leaves one of them torn.
        assert!(together >= 3, "{workload}: {together} of 6");
    }
}

#[test]
fn pages_go_to_those_who_use_them() {
    for policy in ["data-only", "deloc"] {
        for seed in 1..=5 {
            let report = report(&scenario("4x4@10,21", "slices", policy, seed));
            let gain = report.gain_percent();
            assert!(gain > 40.0, "{policy}, seed {seed}: {gain:.1} %");
            assert!(report.outcome.local_share > 0.7 && report.none.local_share < 0.3);
            assert!(report.none.imbalance > 3.9 && report.outcome.imbalance < 2.0);
        }
    }
}

/// The promise is three percent. Where communication has no place that is best, nothing can be
/// gained, and moving must not cost more than that.
#[test]
fn nothing_gets_much_worse_where_nothing_can_be_gained() {
    for policy in ["deloc", "data-only"] {
        for seed in 1..=10 {
            let report = report(&scenario("4x4@10,21", "all-shared", policy, seed));
            let gain = report.gain_percent();
            assert!(gain > -3.0, "{policy}, seed {seed}: {gain:.1} %");
        }
    }
}

/// A piece of it that is too much for a node cannot be spread. Most accesses of 128 threads go to
/// memory that all use, which one of them touched first.
#[test]
fn memory_that_all_use_is_spread_evenly() {
    let imbalance = |memory: &str, seed| {
        let mut scenario = Scenario {
            seconds: 12,
            threads: None,
            ..scenario("16x8@10,21", "all-shared", "deloc", seed)
        };
        scenario.conditions.memory = memory.parse().expect("a size");
        let report = report(&scenario);
        assert!(report.none.imbalance > 5.9, "{:.2}", report.none.imbalance);
        report.outcome.imbalance
    };
    for memory in ["512K", "8M"] {
        let each = [1, 2, 3].map(|seed| imbalance(memory, seed));
        let mean = each.iter().sum::<f64>() / 3.0;
        assert!(mean < 1.2, "{memory}: {each:.2?}");
    }
}

/// What a move costs grows with memory, and what it saves does not. So 64 GiB a thread wait until a
/// program that is not expected to go on for long has stood for long enough to earn it, and where
/// one ends too soon for that the kernel's balancing loses more; of memory that all use, what few
/// samples say of a part of it moves nothing.
#[test]
fn memory_of_any_size_is_moved_where_that_pays() {
    let gain_of = |topology: &str, workload: &str, policy: &str, memory: &str| {
        let mut scenario = Scenario {
            seconds: 12,
            threads: None,
            ..scenario(topology, workload, policy, 1)
        };
        scenario.conditions.memory = memory.parse().expect("a size");
        report(&scenario).gain_percent()
    };
    let gain = |topology, workload, memory| gain_of(topology, workload, "deloc", memory);
    let slices = ["32M", "1G", "16G", "64G"].map(|memory| gain("4x2@10,20", "slices", memory));
    assert!(slices[0] > 90.0 && slices[1] > 40.0, "{slices:.1?}");
    assert!(slices[3] > -3.0, "{slices:.1?}");
    // It moves pages in all threads at once.
    for (ours, memory) in slices[1..].iter().zip(["1G", "16G"]) {
        let kernel = gain_of("4x2@10,20", "slices", "linux", memory);
        assert!(ours + 3.0 > kernel, "{slices:.1?} {kernel:.1}");
    }
    let shared = ["8M", "1G"].map(|memory| gain("4x18@10,21", "all-shared", memory));
    assert!(shared.iter().all(|&gain| gain > 0.0), "{shared:.1?}");
}

/// Of eight slices of 4 GiB six are misplaced: 26 GB, for which the memory that they come from
/// takes 3.6 s. A program that is expected to go on for long enough has them nearly all, by the
/// oracle's share of accesses, within half as long again and three windows.
#[test]
fn much_memory_comes_home_nearly_as_fast_as_it_can_be_copied() {
    let mut scenario = Scenario {
        seconds: 8,
        threads: None,
        settings: vec![("engine.horizon_s".to_owned(), "600".to_owned())],
        ..scenario("4x2@10,20", "slices", "deloc", 1)
    };
    scenario.conditions.memory = "4G".parse().expect("a size");
    scenario.conditions.samples_per_s = Some(5000);
    let report = report(&scenario);
    let is_home = |share: Option<f64>| share.is_some_and(|share| share >= 0.95);
    let first = report.windows.iter().find(|row| is_home(row.local_share));
    let home_ms = first.map(|row| row.time_ms);
    assert!(home_ms.is_some_and(|ms| ms < 5_850), "{home_ms:?}");
}

/// Pages alone may go to where most of a split group is, and then the others of it hold up the
/// rest: `data-only` in `octets` is at -5.3 % in the worst of 20 seeds, and at +0.9 % in their
/// mean. So of it the mean is asked, and that no seed is far below.
#[test]
fn policies_that_seek_gain_do_no_harm_in_any_scenario() {
    for (policy, least) in [("deloc", -3.0), ("data-only", -6.0)] {
        for named in SCENARIOS.iter().filter(|named| named.faults.is_empty()) {
            // The wide one takes as long as all others together.
            let (seeds, seconds) = if named.name == "wide" { (1, 2) } else { (4, 5) };
            let gains: Vec<f64> = (1..=seeds)
                .map(|seed| Scenario {
                    seconds,
                    ..named.scenario(policy, seed)
                })
                .map(|scenario| report(&scenario).gain_percent())
                .collect();
            let mean = gains.iter().sum::<f64>() / gains.len() as f64;
            let sound = mean > -3.0 && gains.iter().all(|&gain| gain > least);
            assert!(sound, "{policy} in {}: {gains:.1?}", named.name);
        }
    }
}

/// Eight threads of a second program hold all cores of one node, not all its hardware threads. The
/// other program's 24 once went to the other node, all of them, and lost a fifth of their speed.
#[test]
fn a_program_beside_another_is_not_crowded_onto_what_is_left() {
    for seed in [1, 2, 7] {
        let mut scenario = scenario("2x8x2@10,21", "hog", "deloc", seed);
        scenario.threads = None;
        let gain = report(&scenario).gain_percent();
        assert!(gain > -3.0, "seed {seed}: {gain:.1} %");
    }
}

/// Pairs that take all the bandwidth they get, on half of the cores: gathered on two of four nodes
/// they once lost a fifth, and on eight 43 %.
#[test]
fn where_bandwidth_is_unknown_threads_are_not_gathered_on_a_few_nodes() {
    for (topology, threads) in [("4x18@10,21", 36), ("2x16@10,21", 16)] {
        for policy in ["locality", "lapt", "deloc"] {
            let mut scenario = scenario(topology, "stream", policy, 1);
            scenario.threads = Some(threads);
            scenario.bandwidth = Bandwidth::Unknown;
            let gain = report(&scenario).gain_percent();
            assert!(gain > -3.0, "{policy} on {topology}: {gain:.1} %");
        }
    }
}

/// A few samples name the wrong thread. They made four users of memory that one had for himself, and
/// four are half of seven.
#[test]
fn memory_of_one_thread_is_not_spread_for_the_sake_of_strays() {
    for seed in 1..4 {
        let mut scenario = scenario("16x2@10,22", "all-shared", "auto", seed);
        scenario.threads = Some(7);
        scenario.conditions.memory = "2M".parse().unwrap();
        scenario.bandwidth = Bandwidth::Unknown;
        let gain = report(&scenario).gain_percent();
        assert!(gain > -3.0, "seed {seed}: {gain:.1} %");
    }
}

/// Where five share each processor none runs much. One of them once took no part for that, and all
/// waited for it.
#[test]
fn more_threads_than_cores_all_take_part() {
    let mut scenario = scenario("2x4@10,20", "slices", "auto", 3);
    scenario.threads = Some(40);
    let gain = report(&scenario).gain_percent();
    assert!(gain > 40.0, "{gain:.1} %");
}

/// Each thread has four samples between two clearings, and of what it shares with its partner one of
/// the two is seen each time. 40 s were not enough when half of that was forgotten with each window.
#[test]
fn memory_in_huge_pages_comes_together_soon() {
    for (workload, least) in [("pairs", 15.0), ("groups:4", 20.0)] {
        let mut scenario = scenario("4x8@10,21", workload, "auto", 1);
        scenario.conditions = Conditions {
            huge: true,
            source: Source::Faults,
            memory: "8M".parse().unwrap(),
            ..scenario.conditions
        };
        (scenario.bandwidth, scenario.seconds) = (Bandwidth::Unknown, 15);
        scenario.threads = None;
        let gain = report(&scenario).gain_percent();
        assert!(gain > least, "{workload}: {gain:.1} %");
    }
}

/// Each huge page has pieces of all threads in it, and goes whole: to each in turn, without end, when
/// pieces of it were decided about.
#[test]
fn what_lies_in_one_huge_page_goes_once() {
    for workload in ["strided", "all-shared"] {
        let mut scenario = scenario("4x4@10,21", workload, "auto", 1);
        scenario.conditions.memory = "32M".parse().unwrap();
        scenario.conditions.huge = true;
        scenario.conditions.touch = Touch::One;
        let report = report(&scenario);
        let gain = report.gain_percent();
        assert!(gain > 30.0, "{workload}: {gain:.1} %");
        let moves = report.outcome.page_moves;
        assert!(moves < 16 * (32 << 8) * 2, "{workload}: {moves} pages");
    }
}

#[test]
fn partners_that_change_are_followed() {
    let gains: Vec<f64> = (1..=3)
        .map(|seed| {
            let named = named("partners-change").unwrap();
            report(&named.scenario("deloc", seed)).gain_percent()
        })
        .collect();
    assert!(gains.iter().sum::<f64>() / 3.0 > 10.0, "{gains:.1?}");
}

/// Windows are short as long as the program changes, whatever law the papers have; on two nodes
/// they once came so late that 6 % were lost.
#[test]
fn partners_that_change_fast_are_followed_better_than_by_the_papers_law() {
    let with = |settings: &[(&str, &str)]| {
        let mut scenario = scenario("2x8@10,21", "phases:2", "deloc", 1);
        let given = settings
            .iter()
            .map(|&(name, text)| (name.to_owned(), text.to_owned()));
        (scenario.seconds, scenario.settings) = (20, given.collect());
        report(&scenario).gain_percent()
    };
    let (ours, papers) = (
        with(&[]),
        with(&[
            ("engine.interval", "ondeloc"),
            ("engine.interval_min_ms", "500"),
        ]),
    );
    assert!(
        ours > 3.0 && ours > papers + 3.0,
        "{ours:.1} and {papers:.1} %"
    );
}

#[test]
fn doing_nothing_is_none_to_the_bit() {
    let report = report(&scenario("4x4@10,21", "hog", "none", 3));
    assert_eq!(report.outcome, report.none);
    assert!(report.story.lines().is_empty());
}

#[test]
fn the_kernel_s_balancing_helps_where_pages_are_far_and_is_not_ours_to_undo() {
    for seed in 1..=4 {
        let report = report(&scenario("4x4@10,21", "slices", "linux", seed));
        assert!(report.outcome.page_moves > 500, "{:?}", report.outcome);
        let gain = report.gain_percent();
        assert!(gain > 10.0, "seed {seed}: {gain:.1} %");
        assert!(report.story.lines().is_empty());
    }
}

#[test]
fn beside_the_kernel_s_balancing_it_is_at_least_as_good_as_either() {
    // What belongs to one thread alone, what pairs share, what one writes for others to read.
    for (workload, gains) in [
        ("slices", 0.99),
        ("pairs", 1.1),
        ("hog", 1.0),
        ("groups:4", 1.1),
    ] {
        for seed in 1..=3 {
            let alone = report(&scenario("4x4@10,21", workload, "linux", seed));
            let both = report(&Scenario {
                balancing: true,
                ..scenario("4x4@10,21", workload, "deloc", seed)
            });
            let ratio = both.outcome.speed / alone.outcome.speed;
            assert!(ratio >= gains, "{workload}, seed {seed}: {ratio:.3}");
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    for (policy, faults) in [("deloc", Faults::NONE), ("random", Faults::all())] {
        let scenario = Scenario {
            faults,
            seconds: 4,
            ..scenario("4x4@10,21", "phases:1", policy, 11)
        };
        assert_eq!(report(&scenario).json(), report(&scenario).json());
    }
}

/// A hundred fixed seeds through every kind of fault, workload and policy, each policy with others
/// each time.
#[test]
fn no_fault_breaks_a_rule() {
    let workloads = [
        "slices",
        "pairs",
        "groups:4",
        "all-shared",
        "phases:1",
        "hog",
    ];
    let policies: Vec<&str> = policies::registry()
        .iter()
        .map(|factory| factory.name)
        .collect();
    for seed in 0..100_u64 {
        let number = usize::try_from(seed).unwrap();
        // There are three times as many policies as workloads: by the number alone each would
        // always have the same.
        let round = number / policies.len();
        let faults = match Fault::ALL.get(number % 7) {
            Some(&fault) => Faults::NONE.with(fault),
            None => Faults::all(),
        };
        report(&Scenario {
            faults,
            seconds: 2,
            ..scenario(
                ["4x4@10,21", "2x3@10,40", "1x4"][(number + round / 2) % 3],
                workloads[(number + round) % 6],
                policies[number % policies.len()],
                seed,
            )
        });
    }
}

#[test]
fn a_cgroup_is_obeyed() {
    for policy in policies::registry() {
        let cpus = CpuSet::parse_list("2-5,12-14").unwrap();
        let scenario = Scenario {
            cgroup_cpus: cpus,
            threads: Some(6),
            seconds: 3,
            ..scenario("4x4@10,21", "pairs", policy.name, 2)
        };
        report(&scenario);
    }
}

/// Proposes whatever comes to mind.
#[derive(Debug)]
struct Madman(Random);

impl Policy for Madman {
    fn propose(&mut self, _now: Time, program: &Program<'_>, out: &mut Vec<Proposal>) {
        for _ in 0..self.0.below(200) {
            let node = self.0.below(program.topology.nodes().len() + 1);
            let page = program.pages.get(self.0.below(program.pages.len() + 1));
            out.push(if self.0.chance(0.5) {
                Proposal::PlaceTask {
                    task: self.0.below(program.tasks.len() + 2),
                    node,
                    reason: Reason::Shuffle,
                }
            } else {
                Proposal::MovePage {
                    page: page.map_or(
                        PageKey {
                            space: SpaceId(u32::try_from(self.0.below(8)).unwrap()),
                            page: self.0.bits(),
                        },
                        |page| page.key,
                    ),
                    node,
                    reason: Reason::Shuffle,
                }
            });
        }
    }
}

#[test]
fn no_policy_can_make_the_engine_break_a_rule() {
    for seed in 0..40 {
        let faults = if seed % 2 == 0 {
            Faults::NONE
        } else {
            Faults::all()
        };
        let world = WorldSpec {
            topology: Arc::new(topology::synthetic::parse("3x3@10,17").unwrap()),
            workload: Workload::Hog,
            threads: 3 + usize::try_from(seed).unwrap() % 10,
            faults,
            cgroup_cpus: CpuSet::new(),
            seed,
            conditions: Conditions::default(),
            balancing: false,
        };
        let duration = Duration::from_secs(6);
        let stage = Simulation::new(World::new(&world), world.threads, duration);
        let mut stage = stage.counted(seed % 2 == 1);
        let setup = Setup {
            topology: world.topology,
            page_bytes: PAGE_BYTES,
            programs: stage.programs(),
            look_first: false,
            options: AttachOptions {
                require_gain: seed % 3 == 0,
                task_moves_max: 3,
                page_moves_max: 20,
                bind: if seed % 5 == 0 {
                    Bind::Core
                } else {
                    Bind::Cache
                },
                ..AttachOptions::default()
            },
            policy: &|| Box::new(Madman(Random::new(seed, 9))),
        };
        let run = driver::run(&mut stage, &setup).unwrap();
        assert!(
            run.violations.is_empty(),
            "seed {seed}: {:#?}",
            run.violations
        );
    }
}

/// Machines that nobody here invented, down to those whose firmware is confused.
#[test]
fn real_machines_can_be_simulated() {
    let fixtures = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../tests/fixtures/topology/xml"
    );
    let mut paths: Vec<_> = std::fs::read_dir(fixtures)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "xml"))
        .collect();
    paths.sort();
    assert!(paths.len() >= 3, "{paths:?}");
    for path in paths {
        report(&Scenario {
            threads: Some(24),
            seconds: 2,
            ..scenario(path.to_str().unwrap(), "pairs", "deloc", 1)
        });
    }
}

#[test]
fn what_makes_no_sense_is_refused_in_one_line() {
    let check = |change: &dyn Fn(&mut Scenario), code: u8, words: &str| {
        let mut scenario = Scenario::default();
        change(&mut scenario);
        let error = run(&scenario).unwrap_err();
        assert_eq!(error.kind.exit_code(), code, "{error}");
        let text = error.to_string();
        assert!(text.contains(words) && !text.contains('\n'), "{text}");
    };
    check(&|s| s.topology = "4x".into(), 2, "`4x`");
    check(&|s| s.topology = "/no/such.xml".into(), 6, "`/no/such.xml`");
    check(
        &|s| s.topology = "4x9999999@10,21".into(),
        2,
        "`4x9999999@10,21`",
    );
    check(&|s| s.policy = "delock".into(), 6, "did you mean `deloc`?");
    check(&|s| s.threads = Some(0), 2, "`0` threads");
    check(&|s| s.threads = Some(20_000), 2, "`20000` threads");
    check(&|s| s.seconds = 0, 2, "`0` seconds");
    check(
        &|s| s.settings = vec![("refin".into(), "true".into())],
        3,
        "did you mean `refine`?",
    );
    check(
        &|s| s.settings = vec![("engine.hold".into(), "0".into())],
        3,
        "setting `engine.hold` is not known",
    );
    check(
        &|s| s.settings = vec![("refine".into(), "maybe".into())],
        3,
        "must be true or false",
    );
    check(
        &|s| s.cgroup_cpus = CpuSet::parse_list("99").unwrap(),
        2,
        "cpus `99`",
    );
}
