//! `core/fold`: one sample into the tables. `core/window`: one decision. Budgets: 60 ns and 20 ms.
#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a bench fails loudly and reads the clock"
)]

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use numad_core::{
    AccessKind, AttachOptions, AttachSpec, AttachmentId, Engine, EngineOptions, Host, IntervalLaw,
    ObjectId, ObjectKind, Observation, ObservedMaps, ObservedProgram, ObservedSharing,
    ObservedTask, Policy, Program, Proposal, Reason, Record, Recorder, Sample, ServedBy,
    SharedRange, Time,
};
use topology::{CpuId, CpuSet, NodeId, NodeSet, Pid, StartTicks, TaskKey, Tid, Topology};

const PAGE: u64 = 4096;
const WINDOW: Duration = Duration::from_millis(500);

/// Wants every task on the node of its number, and some thousand pages moved.
#[derive(Debug)]
struct Simple;

impl Policy for Simple {
    fn propose(&mut self, _now: Time, program: &Program<'_>, out: &mut Vec<Proposal>) {
        let nodes = program.topology.nodes().len();
        for task in 0..program.tasks.len() {
            let node = task % nodes;
            out.push(Proposal::PlaceTask {
                task,
                node,
                reason: Reason::Order,
            });
        }
        for page in program
            .pages
            .iter()
            .filter(|page| page.home.is_some())
            .take(4096)
        {
            let node = usize::from(page.home.unwrap_or(0) + 1) % nodes;
            out.push(Proposal::MovePage {
                page: page.key,
                node,
                reason: Reason::Order,
            });
        }
    }
}

struct Wild(u64);

impl Wild {
    fn next(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % below
    }
}

fn engine(machine: &str, page_slots: usize) -> (Engine, AttachmentId) {
    let topology: Arc<Topology> = Arc::new(topology::synthetic::parse(machine).unwrap());
    let limits = EngineOptions {
        page_slots,
        ..EngineOptions::for_pages_of(PAGE)
    };
    let mut engine = Engine::new(topology, limits);
    let interval = IntervalLaw::OnDeLoc {
        min: WINDOW,
        max: WINDOW,
        factor: 2.0,
    };
    let spec = AttachSpec {
        pids: vec![Pid(1)],
        policy: Box::new(Simple),
        options: AttachOptions {
            interval,
            ..AttachOptions::default()
        },
    };
    let id = engine.handle_attach(Time(0), spec).unwrap();
    (engine, id)
}

fn sample(tid: u32, page: u64) -> Record {
    Record::Sample(Sample {
        time: Time(1),
        pid: Pid(1),
        tid: Tid(tid),
        address: 0x7f00_0000_0000 + page * PAGE,
        physical: 0,
        cpu: CpuId(0),
        kind: AccessKind::Unknown,
        served: ServedBy::Unknown,
        weight: 0,
        period: 1000,
    })
}

/// 256 tasks over a million pages: each page is used by its owner and two or three neighbours.
fn samples(tasks: u32, pages: u64, count: usize) -> Vec<Record> {
    let mut wild = Wild(88_172_645_463_325_252);
    (0..count)
        .map(|_| {
            let page = wild.next(pages);
            let owner = u32::try_from(page % u64::from(tasks)).unwrap();
            let tid = 1 + (owner + u32::try_from(wild.next(4)).unwrap()) % tasks;
            sample(tid, page)
        })
        .collect()
}

fn fold(criterion: &mut Criterion) {
    // As many as a source drains from its rings at a time.
    const BATCH: usize = 1 << 12;
    let mut group = criterion.benchmark_group("core");
    group.throughput(Throughput::Elements(BATCH as u64));
    let records = samples(256, 1_000_000, 1 << 21);
    // The default table holds some of the pages and drops the least used; the other holds all.
    for (name, slots) in [("fold", 65_536), ("fold/all-tracked", 1 << 20)] {
        let (mut engine, _) = engine("8x32@10,21", slots);
        engine.handle_records(&records);
        let mut batches = records.chunks(BATCH).cycle();
        group.bench_function(name, |bencher| {
            bencher.iter(|| engine.handle_records(black_box(batches.next().unwrap())));
        });
    }
    // All of it is memory that processes may share, in as many mappings as a program of 64 ranks has.
    let (mut engine, id) = engine("8x32@10,21", 65_536);
    let mut look = observation(id, 256, Time(0), Vec::new());
    look.programs[0].sharing.maps = vec![ObservedMaps {
        pid: Pid(1),
        ranges: (0..64)
            .map(|segment| shared(segment, 1_000_000 / 64))
            .collect(),
        foreign: Vec::new(),
    }];
    engine.handle_observation(Time(0), &look);
    engine.handle_records(&records);
    assert_eq!(
        engine.pages(id, 1)[0].0.key.page >> 20,
        0,
        "a page of an object"
    );
    let mut batches = records.chunks(BATCH).cycle();
    group.bench_function("fold/shared", |bencher| {
        bencher.iter(|| engine.handle_records(black_box(batches.next().unwrap())));
    });
    group.finish();
}

fn shared(segment: u64, pages: u64) -> SharedRange {
    let start = 0x7f00_0000_0000 + segment * pages * PAGE;
    SharedRange {
        start,
        end: start + pages * PAGE,
        object: ObjectId {
            kind: ObjectKind::Memory,
            device: (0, 1),
            inode: segment + 1,
        },
        offset: 0,
    }
}

fn observation(
    id: AttachmentId,
    tasks: u32,
    now: Time,
    homes: Vec<(numad_core::PageKey, Option<NodeId>)>,
) -> Observation {
    let task = |tid: u32| ObservedTask {
        key: TaskKey {
            pid: Pid(1),
            tid: Tid(tid),
            start: StartTicks(1),
        },
        name: "worker".to_owned(),
        cpu: CpuId(tid % 1024),
        cpu_time: Duration::from_nanos(now.0),
        affinity: CpuSet::from_words(&[u64::MAX; 16]),
        cgroup_cpus: CpuSet::from_words(&[u64::MAX; 16]),
    };
    Observation {
        programs: vec![ObservedProgram {
            attachment: id,
            tasks: (1..=tasks).map(task).collect(),
            homes,
            nodes_allowed: NodeSet::new(),
            large: Vec::new(),
            sharing: ObservedSharing::default(),
            resident_bytes: 0,
        }],
        free_bytes: (0..64).map(|node| (NodeId(node), 8 << 30)).collect(),
        online: CpuSet::new(),
        lost: 0,
        ..Observation::default()
    }
}

fn window(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("core");
    group.sample_size(20);
    let sizes = [
        ("window", "8x128@10,21", 1000),
        ("window/largest", "64x16@10,21", 10_000),
    ];
    for (name, machine, tasks) in sizes {
        let (mut engine, id) = engine(machine, 1 << 18);
        let mut now = Time(0);
        engine.handle_observation(now, &observation(id, tasks, now, Vec::new()));
        let records = samples(tasks, 200_000, 800_000);
        group.bench_function(name, |bencher| {
            bencher.iter_custom(|times| {
                let mut spent = Duration::ZERO;
                for _ in 0..times {
                    engine.handle_records(&records);
                    now = now.after(WINDOW);
                    let homes = engine.wanted_places(id, 16_384);
                    let homes = homes
                        .into_iter()
                        .map(|wanted| (wanted.page, Some(NodeId(0))));
                    let look = observation(id, tasks, now, homes.collect());
                    let begun = Instant::now();
                    engine.handle_observation(now, &look);
                    spent += begun.elapsed();
                    carry_out(&mut engine, now);
                }
                spent
            });
        });
        if name == "window" {
            let tracked = engine.pages(id, usize::MAX).len();
            assert!(tracked > 190_000, "only {tracked} pages are tracked");
        }
    }
    group.finish();
}

fn carry_out(engine: &mut Engine, now: Time) {
    let mut host = Recorder;
    while let Some(action) = engine.poll_action() {
        let outcome = host.perform(&action);
        engine.handle_outcome(now, &action, &outcome);
    }
    while engine.poll_event().is_some() {}
}

criterion_group!(benches, fold, window);
criterion_main!(benches);
