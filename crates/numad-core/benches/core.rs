//! `core/fold`: one sample into the tables. `core/window`: one decision. Budgets: 60 ns and 20 ms.
#![expect(
    clippy::unwrap_used,
    missing_docs,
    reason = "a bench fails loudly, and criterion's macros document nothing"
)]

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use numad_core::{
    AccessKind, AttachOptions, AttachSpec, AttachmentId, Engine, EngineOptions, IntervalLaw,
    Observation, ObservedProgram, ObservedTask, Policy, Program, Proposal, Reason, Record, Sample,
    ServedBy, Time,
};
use topology::{CpuId, CpuSet, NodeSet, Pid, StartTicks, TaskKey, Tid, Topology};

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
    const BATCH: usize = 1 << 20;
    let mut group = criterion.benchmark_group("core");
    group.throughput(Throughput::Elements(BATCH as u64));
    group.sample_size(20);
    let records = samples(256, 1_000_000, 4 * BATCH);
    for (name, slots) in [("fold", 65_536), ("fold/all-tracked", 1 << 21)] {
        let (mut engine, _) = engine("8x32@10,21", slots);
        records
            .iter()
            .for_each(|record| engine.handle_record(record));
        let mut batches = records.chunks(BATCH).cycle();
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                for record in batches.next().unwrap() {
                    engine.handle_record(black_box(record));
                }
            });
        });
    }
    group.finish();
}

fn observation(
    id: AttachmentId,
    tasks: u32,
    now: Time,
    homes: Vec<(numad_core::PageKey, Option<topology::NodeId>)>,
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
        }],
        free_bytes: (0..64)
            .map(|node| (topology::NodeId(node), 8 << 30))
            .collect(),
        online: CpuSet::new(),
        lost: 0,
    }
}

fn window(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("core");
    group.sample_size(20);
    let sizes = [
        ("window", "8x128@10,21", 1000, 200_000),
        ("window/largest", "64x16@10,21", 10_000, 200_000),
    ];
    for (name, machine, tasks, pages) in sizes {
        let ready = || {
            let (mut engine, id) = engine(machine, 1 << 18);
            let look = observation(id, tasks, Time(0), Vec::new());
            engine.handle_observation(Time(0), &look);
            samples(tasks, pages, 800_000)
                .iter()
                .for_each(|record| engine.handle_record(record));
            let wanted = engine.wanted_pages(id, 16_384);
            let homes = wanted
                .into_iter()
                .map(|page| (page, Some(topology::NodeId(0))))
                .collect();
            let now = Time(0).after(WINDOW);
            (engine, observation(id, tasks, now, homes), now)
        };
        group.bench_function(name, |bencher| {
            bencher.iter_batched_ref(
                ready,
                |(engine, look, now)| engine.handle_observation(*now, look),
                BatchSize::PerIteration,
            );
        });
    }
    group.finish();
}

criterion_group!(benches, fold, window);
criterion_main!(benches);
