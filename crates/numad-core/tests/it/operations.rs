//! Whatever happens in whatever order: no panic, nothing ordered that is not allowed, no limit passed,
//! and the same again from the same.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use numad_core::action::MOVE_BATCH_MAX;
use numad_core::{
    AccessKind, Action, AttachOptions, AttachSpec, AttachmentId, Bind, Engine, EngineOptions,
    EventKind, IntervalLaw, Lifecycle, Observation, ObservedProgram, ObservedSharing, ObservedTask,
    Outcome, PageKey, PageOutcome, Policy, Program, Proposal, Reason, Record, Refusal, Sample,
    ServedBy, SpaceId, Time,
};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use topology::{CpuId, CpuSet, NodeId, NodeSet, Pid, StartTicks, TaskKey, Tid, Topology};

use crate::world::{self, PAGE, World};

/// A policy that wants anything, within reason and beyond it.
#[derive(Debug)]
struct Wild(u64);

impl Wild {
    fn next(&mut self, below: u64) -> u64 {
        // A linear congruence is wild enough.
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }

    fn small(&mut self, below: usize) -> usize {
        usize::try_from(self.next(below as u64)).unwrap()
    }
}

impl Policy for Wild {
    fn propose(&mut self, _now: Time, program: &Program<'_>, out: &mut Vec<Proposal>) {
        let nodes = program.topology.nodes().len();
        assert_eq!(
            (program.capacity.len(), program.free_bytes.len()),
            (nodes, nodes)
        );
        assert_eq!(
            (program.live.count(), program.decayed.count()),
            (program.tasks.len(), program.tasks.len())
        );
        assert!(program.tasks.is_sorted_by_key(|task| task.key.tid));
        assert!(program.pages.is_sorted_by(|a, b| a.slot < b.slot));
        for page in program.pages {
            assert!(
                page.accessors()
                    .iter()
                    .all(|user| (user.task as usize) < program.tasks.len())
            );
            assert!(page.samples > 0 && page.home.is_none_or(|home| usize::from(home) < nodes));
        }
        for _ in 0..self.next(12) {
            let (task, node) = (self.small(program.tasks.len() + 2), self.small(nodes + 1));
            out.push(Proposal::PlaceTask {
                task,
                node,
                reason: Reason::Shuffle,
            });
        }
        for _ in 0..self.next(12) {
            let node = self.small(nodes + 1);
            let page = if program.pages.is_empty() || self.next(10) == 0 {
                PageKey {
                    space: SpaceId(1),
                    page: self.next(1 << 60),
                }
            } else {
                program.pages[self.small(program.pages.len())].key
            };
            out.push(Proposal::MovePage {
                page,
                node,
                reason: Reason::Shuffle,
            });
        }
    }
}

#[derive(Clone, Debug)]
enum Operation {
    Attach {
        pid: u32,
        core: bool,
        gain: bool,
    },
    Detach(u32),
    Sample {
        pid: u32,
        tid: u32,
        page: u64,
        kind: u8,
    },
    Fork {
        pid: u32,
        tid: u32,
        parent: u32,
    },
    Exit {
        pid: u32,
        tid: u32,
    },
    Exec {
        pid: u32,
        tid: u32,
    },
    Lost,
    Look {
        after_ms: u64,
        missing: u32,
        wild: u64,
    },
}

fn operation() -> impl Strategy<Value = Operation> {
    let pid = || 1u32..6;
    // Thread numbers of several processes on purpose: a number may turn up anywhere.
    let tid = || 0u32..24;
    prop_oneof![
        2 => (pid(), any::<bool>(), any::<bool>()).prop_map(|(pid, core, gain)| Operation::Attach { pid, core, gain }),
        1 => pid().prop_map(Operation::Detach),
        30 => (pid(), tid(), prop_oneof![9 => 0u64..40, 1 => any::<u64>()], 0u8..3)
            .prop_map(|(pid, tid, page, kind)| Operation::Sample { pid, tid, page, kind }),
        2 => (pid(), tid(), pid()).prop_map(|(pid, tid, parent)| Operation::Fork { pid, tid, parent }),
        2 => (pid(), tid()).prop_map(|(pid, tid)| Operation::Exit { pid, tid }),
        1 => (pid(), tid()).prop_map(|(pid, tid)| Operation::Exec { pid, tid }),
        1 => Just(Operation::Lost),
        6 => (0u64..2000, any::<u32>(), any::<u64>())
            .prop_map(|(after_ms, missing, wild)| Operation::Look { after_ms, missing, wild }),
    ]
}

/// What the test itself knows of the machine; shares no code with the engine.
struct Run {
    topology: Arc<Topology>,
    engine: Engine,
    now: Time,
    online: CpuSet,
    limits: BTreeMap<u32, CpuSet>,
    trace: Vec<String>,
}

const TASK_MOVES_MAX: usize = 5;
const PAGE_MOVES_MAX: usize = 6;

impl Run {
    fn new() -> Self {
        let topology = Arc::new(topology::synthetic::parse("3x2@10,20").unwrap());
        let limits = EngineOptions {
            page_slots: 64,
            page_bytes: PAGE,
            tasks_max: 6,
            events_max: 100_000,
        };
        Self {
            engine: Engine::new(Arc::clone(&topology), limits),
            online: topology.online(),
            topology,
            now: Time(1_000_000_000),
            limits: BTreeMap::new(),
            trace: Vec::new(),
        }
    }

    fn step(&mut self, operation: &Operation) {
        let time = self.now;
        match *operation {
            Operation::Attach { pid, core, gain } => self.attach(pid, core, gain),
            Operation::Detach(pid) => {
                if let Some(id) = self.engine.attachment_of(Pid(pid)) {
                    assert!(self.engine.handle_detach(time, id));
                }
            }
            Operation::Sample {
                pid,
                tid,
                page,
                kind,
            } => {
                let kind =
                    [AccessKind::Unknown, AccessKind::Load, AccessKind::Store][usize::from(kind)];
                self.engine.handle_record(&Record::Sample(Sample {
                    time,
                    pid: Pid(pid),
                    tid: Tid(tid),
                    address: page.wrapping_mul(PAGE),
                    physical: 0,
                    cpu: CpuId(tid % 6),
                    kind,
                    served: ServedBy::Unknown,
                    weight: 0,
                    period: page | 1,
                }));
            }
            Operation::Fork { pid, tid, parent } => self.tell(Lifecycle::Fork {
                time,
                pid: Pid(pid),
                tid: Tid(tid),
                parent: Pid(parent),
            }),
            Operation::Exit { pid, tid } => {
                self.tell(Lifecycle::Exit {
                    time,
                    pid: Pid(pid),
                    tid: Tid(tid),
                });
            }
            Operation::Exec { pid, tid } => self.tell(Lifecycle::Renamed {
                time,
                pid: Pid(pid),
                tid: Tid(tid),
                name: "x".into(),
                exec: true,
            }),
            Operation::Lost => self.engine.handle_record(&Record::Lost(3)),
            Operation::Look {
                after_ms,
                missing,
                wild,
            } => {
                self.now = self.now.after(Duration::from_millis(after_ms));
                self.look(missing, &mut Wild(wild));
            }
        }
        self.now = self.now.after(Duration::from_micros(10));
    }

    fn tell(&mut self, change: Lifecycle) {
        self.engine.handle_record(&Record::Lifecycle(change));
    }

    fn attach(&mut self, pid: u32, bind_core: bool, require_gain: bool) {
        let options = AttachOptions {
            interval: IntervalLaw::LAPT,
            samples_min: 3,
            page_moves_max: PAGE_MOVES_MAX,
            task_moves_max: TASK_MOVES_MAX,
            hold: Duration::from_millis(700),
            bind: match bind_core {
                true => Bind::Core,
                false => Bind::Cache,
            },
            require_gain,
            ..AttachOptions::default()
        };
        let spec = AttachSpec {
            pids: vec![Pid(pid)],
            policy: Box::new(Wild(u64::from(pid))),
            options,
        };
        let known = self.engine.attachment_of(Pid(pid));
        assert_eq!(
            self.engine.handle_attach(self.now, spec).is_err(),
            known.is_some()
        );
    }

    /// Looks at the machine: some threads are gone, masks and limits differ, nodes are full.
    fn look(&mut self, missing: u32, wild: &mut Wild) {
        let cpus: CpuSet = (0..6).filter(|_| wild.next(8) > 0).map(CpuId).collect();
        self.online = if cpus.is_empty() {
            self.topology.online()
        } else {
            cpus
        };
        let free = (0..3).map(|node| (NodeId(node), wild.next(2) * (1 << 34)));
        let free_bytes: Vec<(NodeId, u64)> = free.collect();
        let nodes_allowed: NodeSet = (0..3).filter(|_| wild.next(5) > 0).map(NodeId).collect();
        let ids = self.engine.attachments();
        let programs = ids.iter().map(|&id| ObservedProgram {
            attachment: id,
            tasks: self.threads(id, missing, wild),
            homes: self.homes(id, wild),
            nodes_allowed: nodes_allowed.clone(),
            large: Vec::new(),
            sharing: ObservedSharing::default(),
            resident_bytes: 0,
        });
        let programs: Vec<ObservedProgram> = programs.collect();
        for program in &programs {
            for task in &program.tasks {
                self.limits.insert(task.key.tid.0, task.cgroup_cpus.clone());
            }
        }
        let online = self.online.clone();
        let observation = Observation {
            programs,
            free_bytes: free_bytes.clone(),
            online,
            lost: 1,
            ..Observation::default()
        };
        self.engine.handle_observation(self.now, &observation);
        self.carry_out(&free_bytes, &nodes_allowed, wild);
        assert!(
            self.engine.due(self.now).is_empty(),
            "everything due was looked at"
        );
    }

    fn threads(&self, id: AttachmentId, missing: u32, wild: &mut Wild) -> Vec<ObservedTask> {
        let pids = self.engine.pids(id);
        let own = pids
            .iter()
            .flat_map(|pid| (0..4).map(move |index| (*pid, pid.0 * 4 + index)));
        own.filter(|(_, tid)| missing & (1 << tid) == 0)
            .map(|(pid, tid)| {
                let one_in = |wild: &mut Wild, chance, otherwise: &str, set: &str| {
                    let text = if wild.next(chance) == 0 {
                        set
                    } else {
                        otherwise
                    };
                    CpuSet::parse_list(text).unwrap()
                };
                ObservedTask {
                    key: TaskKey {
                        pid,
                        tid: Tid(tid),
                        start: StartTicks(wild.next(20) / 19),
                    },
                    name: String::new(),
                    cpu: CpuId(u32::try_from(wild.next(7)).unwrap()),
                    cpu_time: Duration::from_nanos(self.now.0 / (1 + wild.next(4))),
                    affinity: one_in(wild, 9, "0-5", "2"),
                    cgroup_cpus: one_in(wild, 9, "", "1-4"),
                }
            })
            .collect()
    }

    fn homes(&self, id: AttachmentId, wild: &mut Wild) -> Vec<(PageKey, Option<NodeId>)> {
        let wanted = self.engine.wanted_places(id, 50);
        let home = |wild: &mut Wild| {
            Some(NodeId(u32::try_from(wild.next(4)).unwrap())).filter(|node| node.0 < 3)
        };
        wanted
            .into_iter()
            .map(|wanted| (wanted.page, home(wild)))
            .collect()
    }

    fn carry_out(&mut self, free: &[(NodeId, u64)], allowed: &NodeSet, wild: &mut Wild) {
        let mut granted: BTreeMap<AttachmentId, (BTreeSet<u32>, usize)> = BTreeMap::new();
        while let Some(action) = self.engine.poll_action() {
            self.trace.push(format!("{action:?}"));
            let (bound, moved) = granted.entry(action.attachment()).or_default();
            let outcome = match &action {
                Action::Bind {
                    task, node, cpus, ..
                } => {
                    assert!(*moved == 0, "threads go before pages");
                    assert!(bound.insert(task.tid.0), "once a window");
                    assert!(bound.len() <= TASK_MOVES_MAX, "budget of threads");
                    self.check_bind(*task, *node, cpus);
                    match wild.next(5) {
                        0 => Outcome::Refused(Refusal::ChangedByOther),
                        1 => Outcome::Refused(Refusal::Gone),
                        _ => Outcome::Bound,
                    }
                }
                Action::MovePages { pages, node, .. } => {
                    *moved += pages.len();
                    assert!(*moved <= PAGE_MOVES_MAX, "budget of pages");
                    assert!(!pages.is_empty() && pages.len() <= MOVE_BATCH_MAX);
                    assert!(pages.is_sorted_by(|a, b| a < b));
                    assert!(pages.iter().all(|at| at % PAGE == 0));
                    assert!(allowed.is_empty() || allowed.contains(*node));
                    assert!(
                        free.contains(&(*node, 1 << 34)),
                        "a full node takes no page"
                    );
                    let on = |wild: &mut Wild| match wild.next(3) {
                        0 => PageOutcome::Refused(Refusal::Busy),
                        _ => PageOutcome::On(*node),
                    };
                    let tried = pages.len() - usize::from(wild.next(4) == 0);
                    let pages = (0..tried).map(|_| on(wild)).collect();
                    Outcome::Moved {
                        pages,
                        spent_ns: 1,
                        took_ns: 1,
                    }
                }
            };
            // Now and then nobody tells what came of it.
            if wild.next(10) > 0 {
                self.engine.handle_outcome(self.now, &action, &outcome);
            }
        }
        while let Some(event) = self.engine.poll_event() {
            if let EventKind::Window(summary) = &event.kind {
                assert!(summary.tasks <= 6 && summary.pages <= 64, "{summary:?}");
                assert!(
                    summary.next_ms >= 50 && summary.next_ms <= 500,
                    "{summary:?}"
                );
            }
            self.trace.push(format!("{event:?}"));
        }
    }

    fn check_bind(&self, task: TaskKey, node: NodeId, cpus: &CpuSet) {
        assert!(!cpus.is_empty());
        assert!(
            cpus.is_subset(&self.topology.node(node).unwrap().cpus),
            "{task} {cpus}"
        );
        assert!(
            cpus.is_subset(&self.online),
            "{task} {cpus} of {}",
            self.online
        );
        let limit = &self.limits[&task.tid.0];
        assert!(
            limit.is_empty() || cpus.is_subset(limit),
            "{task} {cpus} of {limit}"
        );
    }
}

fn run(operations: &[Operation]) -> Vec<String> {
    let mut run = Run::new();
    for operation in operations {
        run.step(operation);
    }
    run.trace
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn anything_in_any_order(operations in prop::collection::vec(operation(), 1..250)) {
        let first = run(&operations);
        prop_assert_eq!(first, run(&operations));
    }

    // Two programs with as many threads together as there are cores, whose policies want anything:
    // no core is planned for twice.
    #[test]
    fn no_node_is_planned_fuller_than_it_is(
        wishes in prop::collection::vec(prop::collection::vec((0u32..6, 0usize..3), 0..8), 1..30)
    ) {
        let mut world = World::new("3x2@10,20");
        let options = AttachOptions { hold: Duration::ZERO, ..world::options() };
        let (first, one) = world.attach(10, &[0, 2, 4], options.clone());
        let (second, other) = world.attach(20, &[1, 3, 5], options);
        for wish in wishes {
            let of = |base: u32, low: u32| -> Vec<(u32, usize)> {
                let mine = wish.iter().filter(|(task, _)| (low..low + 3).contains(task));
                mine.map(|(task, node)| (base + task - low, *node)).collect()
            };
            one.lock().unwrap().threads = of(10, 0);
            other.lock().unwrap().threads = of(20, 3);
            world.window();
            let mut on = [0; 3];
            for task in [first, second].iter().flat_map(|&id| world.engine.tasks(id)) {
                if let Some(node) = task.placed {
                    on[node.index()] += 1;
                }
            }
            prop_assert!(on.iter().all(|&count| count <= 2), "{:?}", on);
        }
    }
}

/// Reading ahead changes nothing but the time it takes.
#[test]
fn batches_fold_as_single_records_do() {
    let topology = Arc::new(topology::synthetic::parse("2x2").unwrap());
    let limits = EngineOptions {
        page_slots: 1 << 17,
        ..EngineOptions::for_pages_of(PAGE)
    };
    let engine = || {
        let mut engine = Engine::new(Arc::clone(&topology), limits);
        let spec = AttachSpec {
            pids: vec![Pid(1)],
            policy: Box::new(Wild(1)),
            options: AttachOptions::default(),
        };
        let id = engine.handle_attach(Time(0), spec).unwrap();
        (engine, id)
    };
    let mut wild = Wild(7);
    let mut record = |number: u32| {
        let (pid, tid, time) = (Pid(1), Tid(1 + number % 5), Time(u64::from(number)));
        match wild.next(20) {
            0 => Record::Lifecycle(Lifecycle::Exit { time, pid, tid }),
            1 => Record::Lost(1),
            _ => Record::Sample(Sample {
                time,
                pid,
                tid,
                address: wild.next(2000) * PAGE,
                physical: 0,
                cpu: CpuId(0),
                kind: AccessKind::Unknown,
                served: ServedBy::Unknown,
                weight: 0,
                period: 3,
            }),
        }
    };
    let records: Vec<Record> = (0..5000).map(&mut record).collect();
    let ((mut one, id), (mut other, _)) = (engine(), engine());
    records.iter().for_each(|record| one.handle_record(record));
    records
        .chunks(100)
        .for_each(|batch| other.handle_records(batch));
    assert_eq!(one.pages(id, usize::MAX), other.pages(id, usize::MAX));
    assert!(one.pages(id, usize::MAX).len() > 1500);
}

/// The random runs are worth something only if they get everywhere.
#[test]
fn random_runs_reach_every_corner() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let strategy = prop::collection::vec(operation(), 250);
    let mut trace = String::new();
    for _ in 0..40 {
        let operations = strategy.new_tree(&mut runner).unwrap().current();
        trace += &run(&operations).join(" ");
    }
    for word in [
        "Ordered(Bind",
        "Ordered(MovePages",
        "outcome: Bound",
        "outcome: Moved",
        "ProgramEnded",
        "HandsOff {",
        "AlreadyThere",
        "NotAllowed",
        "NoRoom",
        "DoesNotPay",
        "Budget",
        "MovedRecently",
        "Evidence",
        "Gone",
        "Unconfirmed",
        "veto: HandsOff",
        "lost: 4",
    ] {
        assert!(trace.contains(word), "no `{word}` in {} bytes", trace.len());
    }
}
