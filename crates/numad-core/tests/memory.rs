//! What an attachment holds of memory when all that can be full is full.

#![deny(unsafe_code)]

use std::sync::Arc;
use std::time::Duration;

use numad_core::{
    AccessKind, Action, AttachOptions, AttachSpec, AttachmentId, Certainty, Engine, EngineOptions,
    IntervalLaw, ObjectId, ObjectKind, Observation, ObservedMaps, ObservedProgram, ObservedSharing,
    ObservedTask, Outcome, PageOutcome, Policy, Program, Proposal, Reason, Record, Refusal, Sample,
    Sent, ServedBy, SharedRange, Time,
};
use topology::{CpuId, CpuSet, NodeSet, Pid, StartTicks, TaskKey, Tid, Topology};

/// Counts the bytes that this thread holds, on top of the allocator of the system.
#[expect(
    unsafe_code,
    reason = "an allocator is an unsafe trait; every call is handed on as it came"
)]
mod counting {
    use std::alloc::{GlobalAlloc, Layout, System};
    use std::cell::Cell;

    thread_local! {
        static HELD: Cell<usize> = const { Cell::new(0) };
    }

    pub(super) struct Counting;

    fn count(more: usize, less: usize) {
        HELD.with(|held| held.set(held.get().wrapping_add(more).wrapping_sub(less)));
    }

    // SAFETY: all memory comes from and goes back to `System`, which keeps the trait's promises; counting
    // touches a `Cell` that has no destructor and is there from the start, so it neither allocates nor unwinds.
    unsafe impl GlobalAlloc for Counting {
        unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
            count(layout.size(), 0);
            // SAFETY: the caller keeps `System`'s conditions, which are those of this trait.
            unsafe { System.alloc(layout) }
        }

        unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
            count(layout.size(), 0);
            // SAFETY: as for `alloc`.
            unsafe { System.alloc_zeroed(layout) }
        }

        unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
            count(0, layout.size());
            // SAFETY: `memory` came from `System` with this layout, as the caller promises.
            unsafe { System.dealloc(memory, layout) }
        }

        unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
            count(size, layout.size());
            // SAFETY: as for `dealloc`; the caller answers for `size`.
            unsafe { System.realloc(memory, layout, size) }
        }
    }

    /// Bytes that this thread holds now.
    pub(super) fn held() -> usize {
        HELD.with(Cell::get)
    }
}

#[global_allocator]
static COUNTING: counting::Counting = counting::Counting;

const PAGE: u64 = 4096;
const WINDOW: Duration = Duration::from_millis(500);
const MIB: usize = 1 << 20;

/// Wants every page elsewhere.
#[derive(Debug)]
struct Restless(u64);

impl Policy for Restless {
    fn propose(&mut self, _now: Time, program: &Program<'_>, out: &mut Vec<Proposal>) {
        self.0 += 1;
        let nodes = program.capacity.len() as u64;
        out.extend(program.pages.iter().map(|page| Proposal::MovePage {
            page: page.key,
            node: usize::try_from((page.key.page + self.0) % nodes).unwrap_or(0),
            reason: Reason::Order,
        }));
    }
}

/// What fills a program's tables.
#[derive(Clone, Copy, Debug, Default)]
struct Fill {
    /// Threads that use memory, and those that do not.
    threads: u32,
    idle: u32,
    processes: u32,
    /// Shared mappings of each process.
    mappings: u64,
    /// Pages in use.
    pages: u64,
    samples: u64,
    by_blocks: bool,
    published: bool,
}

struct Stage {
    topology: Arc<Topology>,
    engine: Engine,
    now: Time,
    state: u64,
}

impl Stage {
    fn new() -> Self {
        let topology = Arc::new(topology::synthetic::parse("8x128@10,21").expect("a machine"));
        let engine = Engine::new(Arc::clone(&topology), EngineOptions::for_pages_of(PAGE));
        Self {
            topology,
            engine,
            now: Time(1_000_000_000),
            state: 1,
        }
    }

    fn chance(&mut self, below: u64) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state % below
    }

    fn tasks(&self, first: u32, fill: &Fill) -> Vec<ObservedTask> {
        let all = fill.threads + fill.idle;
        let tasks = (0..all).map(|at| ObservedTask {
            key: TaskKey {
                pid: Pid(first + at % fill.processes),
                tid: Tid(first + at),
                start: StartTicks(7),
            },
            name: "a thread's name".to_owned(),
            cpu: CpuId(at % 1024),
            cpu_time: match at < fill.threads {
                true => Duration::from_nanos(self.now.0),
                false => Duration::ZERO,
            },
            affinity: self.topology.online(),
            cgroup_cpus: CpuSet::new(),
        });
        tasks.collect()
    }

    fn sharing(first: u32, fill: &Fill) -> ObservedSharing {
        let range = |at: u64| SharedRange {
            start: (at * 16) << 20,
            end: (at * 16 + 8) << 20,
            object: ObjectId {
                kind: ObjectKind::Memory,
                device: (0, 1),
                inode: at,
            },
            offset: 0,
        };
        let ranges: Vec<SharedRange> = (0..fill.mappings).map(range).collect();
        let maps = (0..fill.processes).map(|process| ObservedMaps {
            pid: Pid(first + process),
            foreign: ranges.iter().map(|range| range.start..range.end).collect(),
            ranges: ranges.clone(),
        });
        ObservedSharing {
            maps: maps.collect(),
            ..ObservedSharing::default()
        }
    }

    fn attach(&mut self, first: u32, fill: &Fill) -> AttachmentId {
        let options = AttachOptions {
            interval: IntervalLaw::OnDeLoc {
                min: WINDOW,
                max: WINDOW,
                factor: 2.0,
            },
            require_gain: false,
            ..AttachOptions::default()
        };
        let options = AttachOptions {
            require_gain: fill.by_blocks,
            samples_min: 0,
            certainty: Certainty::of(0.5),
            method: match fill.published {
                true => numad_core::Method::Published,
                false => numad_core::Method::Ours,
            },
            ..options
        };
        let spec = AttachSpec {
            pids: (0..fill.processes).map(|at| Pid(first + at)).collect(),
            policy: Box::new(Restless(0)),
            options,
        };
        self.engine.handle_attach(self.now, spec).expect("room")
    }

    fn window(&mut self, id: AttachmentId, first: u32, fill: &Fill) {
        for _ in 0..fill.samples {
            let at = u32::try_from(self.chance(fill.threads.into())).unwrap_or(0);
            let sample = Sample {
                time: self.now,
                pid: Pid(first + at % fill.processes),
                tid: Tid(first + at),
                address: (1 << 46) + self.chance(fill.pages) * PAGE,
                physical: 0,
                cpu: CpuId(0),
                kind: AccessKind::Unknown,
                served: ServedBy::OtherCache,
                weight: 0,
                period: 1000,
            };
            self.engine.handle_record(&Record::Sample(sample));
        }
        let pairs = (0..fill.processes).flat_map(|from| (0..from).map(move |to| (from, to)));
        let sent = pairs.map(|(from, to)| Sent {
            from: Pid(first + from),
            to: Pid(first + to),
            bytes: 1 << 20,
            messages: 100,
        });
        self.engine.handle_messages(&sent.collect::<Vec<_>>());
        self.now = self.now.after(WINDOW);
        let nodes = self.topology.nodes();
        let wanted = self.engine.wanted_places(id, 16_384);
        let homes = wanted
            .into_iter()
            .map(|wanted| (wanted.page, Some(nodes[0].id)));
        let observation = Observation {
            programs: vec![ObservedProgram {
                attachment: id,
                tasks: self.tasks(first, fill),
                homes: homes.collect(),
                nodes_allowed: NodeSet::new(),
                large: Vec::new(),
                sharing: Self::sharing(first, fill),
                resident_bytes: 0,
            }],
            free_bytes: nodes.iter().map(|node| (node.id, 1 << 44)).collect(),
            ..Observation::default()
        };
        self.engine.handle_observation(self.now, &observation);
        while let Some(action) = self.engine.poll_action() {
            let outcome = match &action {
                Action::Bind { .. } => Outcome::Bound,
                Action::MovePages { pages, node, .. } => {
                    let moved = pages.iter().enumerate().map(|(at, _)| match at % 2 {
                        0 => PageOutcome::On(*node),
                        _ => PageOutcome::Refused(Refusal::Busy),
                    });
                    Outcome::Moved {
                        pages: moved.collect(),
                        spent_ns: 1000,
                        took_ns: 1000,
                    }
                }
            };
            self.engine.handle_outcome(self.now, &action, &outcome);
        }
        while self.engine.poll_event().is_some() {}
    }
}

/// The most that an attachment holds at the end of some windows. The first one brings what the engine holds for all;
/// the second is measured.
fn most(fill: &Fill) -> usize {
    let mut stage = Stage::new();
    let mut most = 0;
    for (first, is_measured) in [(100_000, false), (200_000, true)] {
        let before = counting::held();
        let id = stage.attach(first, fill);
        for _ in 0..4 {
            stage.window(id, first, fill);
            if is_measured {
                most = most.max(counting::held().saturating_sub(before));
            }
        }
    }
    most
}

const FULL: Fill = Fill {
    threads: 256,
    idle: 0,
    processes: 1,
    mappings: 0,
    pages: 1 << 28,
    samples: 20_000,
    by_blocks: true,
    published: false,
};

#[track_caller]
fn check(fill: &Fill) {
    let most = most(fill);
    assert!(most <= 16 * MIB, "{most} bytes: {fill:?}");
}

#[test]
fn a_terabyte() {
    check(&FULL);
}

#[test]
fn pages_that_are_used_by_all() {
    check(&Fill {
        threads: 1024,
        pages: 10_000,
        ..FULL
    });
}

#[test]
fn as_many_threads_as_take_part() {
    check(&Fill {
        threads: 1024,
        ..FULL
    });
    check(&Fill {
        threads: 1024,
        by_blocks: false,
        ..FULL
    });
}

#[test]
fn as_many_threads_as_are_known() {
    check(&Fill {
        idle: 16_384,
        ..FULL
    });
}

#[test]
fn as_many_processes_and_mappings_as_are_known() {
    check(&Fill {
        processes: 256,
        mappings: 1024,
        ..FULL
    });
}

#[test]
fn what_papers_keep() {
    check(&Fill {
        published: true,
        pages: 100_000,
        samples: 200_000,
        ..FULL
    });
}

#[test]
fn all_at_once() {
    check(&Fill {
        threads: 1024,
        idle: 16_384,
        processes: 256,
        mappings: 1024,
        by_blocks: false,
        ..FULL
    });
}
