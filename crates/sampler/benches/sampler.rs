//! The sampler's budgets: ring to decoded sample at most 20 ns at 8 fields, ring to folded table at most
//! 80 ns, ring to record through the whole source, and records into a recording.
//!
//! `sampler/decode` reads page faults that this kernel has just written into a ring, with our
//! reader and, in the same run, with the iterators of the pinned crate `perf-event-open`. It needs no
//! hardware counters and, for the process's own faults, no privilege.

#![deny(unsafe_code)]

use std::fs::File;
use std::hint::black_box;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use nix::time::{ClockId, clock_gettime};
use numad_core::{
    AccessKind, AttachOptions, AttachSpec, Engine, EngineOptions, Policy, Program, Proposal,
    Record, Sample, ServedBy, Time,
};
use perf_event_open::config::{Cpu, Opts, Proc, RecordIdFormat, SampleFormat, SampleOn};
use perf_event_open::count::Counter;
use perf_event_open::event::sw::Software;
use perf_event_open::sample::record::Record as CrateRecord;
use sampler::decode::{
    Body, Decoded, Field, HEADER_BYTES, Layout, SampleView, Trailer, Visitor, decode, stream,
};
use sampler::filter::Filter;
use sampler::recording::{Header, RecordingWriter};
use sampler::ring::{Ring, page_bytes};
use sampler::{FaultOptions, Faults, Source};
use topology::{CpuId, CpuSet, Pid, Tid};

/// Faults in one batch.
const FAULTS: usize = 4096;
/// Log2 of the ring's pages: at 72 bytes a sample, the batch takes three fifths of 512 KiB.
const RING_PAGES_EXPONENT: u8 = 7;

/// What is decoded: everything that a memory sample of ours has.
const FIELDS: [Field; 8] = [
    Field::Ip,
    Field::Tid,
    Field::Time,
    Field::Addr,
    Field::Id,
    Field::StreamId,
    Field::Cpu,
    Field::Period,
];

fn layout() -> Layout {
    let sample_type = FIELDS.iter().fold(0, |bits, field| bits | field.bit());
    Layout::new(sample_type, Trailer::Absent).expect("known fields")
}

/// An event on our own page faults with the same eight fields.
fn counter() -> Counter {
    let options = Opts {
        enable: true,
        sample_on: SampleOn::Count(1),
        sample_format: SampleFormat {
            code_addr: true,
            data_addr: true,
            period: true,
            ..SampleFormat::default()
        },
        record_id_format: RecordIdFormat {
            id: true,
            stream_id: true,
            cpu: true,
            task: true,
            time: true,
        },
        ..Opts::default()
    };
    let target = (Proc::CURRENT, Cpu::ALL);
    Counter::new(Software::PageFault, target, options).expect("a process may watch its own faults")
}

/// Memory whose every page faults again and again.
struct Memory(Vec<u8>);

impl Memory {
    fn new() -> Self {
        Self(vec![0; (FAULTS + 1) * page_bytes()])
    }

    /// Makes each page fault once.
    #[expect(unsafe_code, reason = "no safe call gives pages back")]
    fn fault(&mut self) {
        let page = page_bytes();
        let start = self.0.as_ptr().align_offset(page);
        let pages = &mut self.0[start..start + FAULTS * page];
        // SAFETY: the pages belong to a slice that is borrowed mutably, and hold nothing but zeros, which
        // is what they hold again afterwards.
        unsafe {
            nix::sys::mman::madvise(
                std::ptr::NonNull::from_mut(pages).cast(),
                pages.len(),
                nix::sys::mman::MmapAdvise::MADV_DONTNEED,
            )
        }
        .expect("our own memory");
        for byte in pages.iter_mut().step_by(page) {
            *byte = black_box(0);
        }
    }
}

/// Reads eight fields and makes a sample of them.
fn to_sample<B: Body>(view: &SampleView<'_, B>) -> Option<(Sample, u64)> {
    let (pid, tid) = view.pid_tid()?;
    let rest = view.number(Field::Ip)? ^ view.number(Field::Id)? ^ view.number(Field::StreamId)?;
    let sample = Sample {
        time: Time(view.number(Field::Time)?),
        pid: Pid(pid),
        tid: Tid(tid),
        address: view.number(Field::Addr)?,
        physical: 0,
        cpu: CpuId(view.cpu()?),
        kind: AccessKind::Unknown,
        served: ServedBy::Unknown,
        weight: 0,
        period: view.number(Field::Period)?,
    };
    Some((sample, rest))
}

#[derive(Default)]
struct Count(usize);

impl Visitor for Count {
    fn record<B: Body>(&mut self, record: &Decoded<'_, B>) {
        if let Decoded::Sample(view) = record {
            black_box(to_sample(view));
            self.0 += 1;
        }
    }
}

/// Rounds that may be spoiled in a row.
const ROUNDS_TRIED: usize = 1000;

/// Processor time of this thread: what a busy machine takes from it in between does not count.
fn own_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)
        .expect("every Linux has it")
        .into()
}

/// Times `read` on batches of fresh faults; it says how many it read.
fn timed(rounds: u64, memory: &mut Memory, mut read: impl FnMut() -> usize) -> Duration {
    let mut spent = Duration::ZERO;
    for _ in 0..rounds {
        // On a busy machine others' faults may fill the ring in between; such a round does not count.
        let whole = (0..ROUNDS_TRIED).find_map(|_| {
            read();
            memory.fault();
            let start = own_time();
            let count = read();
            let time = own_time() - start;
            (FAULTS..FAULTS + 64).contains(&count).then_some(time)
        });
        spent += whole.expect("a machine that is not too busy to measure on");
    }
    spent
}

fn decoding(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("sampler/decode");
    group.throughput(Throughput::Elements(FAULTS as u64));
    let mut memory = Memory::new();

    group.bench_function("own ring, 8 fields", |bencher| {
        let counter = counter();
        let mut ring = Ring::map(counter.file(), 1 << RING_PAGES_EXPONENT).expect("ring memory");
        let layout = layout();
        bencher.iter_custom(|rounds| {
            timed(rounds, &mut memory, || {
                let mut count = Count::default();
                let unread = ring.unread();
                let (first, second) = unread.pieces();
                stream(&layout, first, second, &mut count).expect("whole records");
                unread.take();
                count.0
            })
        });
    });

    group.bench_function("crate's CowIter, our decoding, 8 fields", |bencher| {
        let counter = counter();
        let sampler = counter.sampler(RING_PAGES_EXPONENT).expect("ring memory");
        let mut records = sampler.iter().expect("the only iterator").into_cow();
        let layout = layout();
        bencher.iter_custom(|rounds| {
            timed(rounds, &mut memory, || {
                let mut count = Count::default();
                while let Some(record) = records.lending_next() {
                    let bytes = record.as_raw().as_bytes();
                    let kind = bytes.first_chunk().map(|kind| u32::from_ne_bytes(*kind));
                    let body = bytes.get(HEADER_BYTES..).unwrap_or_default();
                    count.record(&decode(&layout, kind.unwrap_or_default(), 0, body));
                }
                count.0
            })
        });
    });

    group.bench_function("crate's Iter, 8 fields", |bencher| {
        let counter = counter();
        let sampler = counter.sampler(RING_PAGES_EXPONENT).expect("ring memory");
        let mut records = sampler.iter().expect("the only iterator");
        bencher.iter_custom(|rounds| {
            timed(rounds, &mut memory, || {
                let samples = records.by_ref().filter(|(_, record)| {
                    black_box(record);
                    matches!(record, CrateRecord::Sample(_))
                });
                samples.count()
            })
        });
    });
    group.finish();
}

fn now() -> Time {
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("every Linux has it");
    let (seconds, rest) = (
        time.tv_sec().cast_unsigned(),
        time.tv_nsec().cast_unsigned(),
    );
    Time(seconds * 1_000_000_000 + rest)
}

/// The whole source on all processors: ring, decoding, filter, callback.
fn draining(criterion: &mut Criterion) {
    let online = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    let cpus = CpuSet::parse_list(&online).unwrap_or_default();
    let options = FaultOptions {
        ring_pages: 1 << RING_PAGES_EXPONENT,
        ..FaultOptions::new(cpus, Box::new(now))
    };
    // Without the right to listen to whole processors there is nothing to measure.
    let Ok(mut source) = Faults::open(options) else {
        return;
    };
    if source.attach(Pid(std::process::id())).is_err() {
        return;
    }
    let mut group = criterion.benchmark_group("sampler/drain");
    group.throughput(Throughput::Elements(FAULTS as u64));
    let mut memory = Memory::new();
    group.bench_function("source `faults`", |bencher| {
        bencher.iter_custom(|rounds| {
            timed(rounds, &mut memory, || {
                let mut count = 0;
                source.drain(&mut |record| {
                    black_box(record);
                    count += usize::from(matches!(record, Record::Sample(_)));
                });
                count
            })
        });
    });
    group.finish();
}

/// Samples into a recording, without the disk.
fn recording(criterion: &mut Criterion) {
    let samples: Vec<Record> = (0..FAULTS as u64)
        .map(|number| {
            Record::Sample(Sample {
                time: Time(1_000_000 + number * 812),
                pid: Pid(4242),
                tid: Tid(4243),
                address: 0x7f3a_1000_0000 + number % 700 * 4096,
                physical: 0,
                cpu: CpuId(3),
                kind: AccessKind::Unknown,
                served: ServedBy::Unknown,
                weight: 0,
                period: 1,
            })
        })
        .collect();
    let mut group = criterion.benchmark_group("sampler/record");
    group.throughput(Throughput::Elements(FAULTS as u64));
    group.bench_function("to a sink", |bencher| {
        let mut writer =
            RecordingWriter::new(std::io::sink(), Path::new("sink"), &Header::default())
                .expect("a sink takes everything");
        bencher.iter(|| {
            for record in &samples {
                writer.record(record).expect("a sink takes everything");
            }
        });
    });
    group.finish();
}

/// Records of one trace of Arm's profiling extension: 64 bytes each, as Neoverse writes a load.
fn trace_decoding(criterion: &mut Criterion) {
    let one = [
        0xb0, 0x00, 0xb6, 0xa9, 0xe4, 0xaa, 0xaa, 0x00, 0x80, 0x49, 0x00, 0x52, 0x16, 0x00, 0x99,
        0x04, 0x00, 0x98, 0x08, 0x00, 0xb2, 0x43, 0xda, 0x5d, 0xe6, 0xaa, 0xaa, 0x00, 0x00, 0x9a,
        0x01, 0x00, 0xb3, 0x43, 0x5a, 0x95, 0x2c, 0x03, 0x08, 0x00, 0x80, 0x43, 0x00, 0, 0, 0, 0,
        0, 0, 0, 0, 0, 0, 0, 0, 0x71, 0xaf, 0xf9, 0x04, 0x81, 0x00, 0x0c, 0x00, 0x00,
    ];
    let bytes = one.repeat(FAULTS);
    let mut group = criterion.benchmark_group("sampler/decode");
    group.throughput(Throughput::Elements(FAULTS as u64));
    group.bench_function("trace of spe, 11 packets", |bencher| {
        bencher.iter(|| {
            let tally = sampler::spe::record::records(black_box(&bytes), 0, &mut |record| {
                black_box(record.data_address());
            });
            assert_eq!(tally.records, FAULTS as u64);
        });
    });
    group.finish();
}

/// A ring in a memory file, written as the kernel would, by writing to the file.
struct Written {
    file: File,
    ring: Ring,
    head: u64,
}

impl Written {
    fn new(pages: usize) -> Self {
        let file = nix::sys::memfd::memfd_create("ring", nix::sys::memfd::MFdFlags::MFD_CLOEXEC);
        let file = File::from(file.expect("memory files"));
        let bytes = (pages + 1) * page_bytes();
        file.set_len(bytes as u64).expect("memory");
        let ring = Ring::map(&file, pages).expect("memory");
        let head = 0;
        Self { file, ring, head }
    }

    fn write(&mut self, records: &[u8]) {
        let size = self.ring.data_bytes();
        let start = usize::try_from(self.head).expect("64 bits") % size;
        let (first, second) = records.split_at(records.len().min(size - start));
        let data = page_bytes() as u64;
        let to = |bytes: &[u8], at: u64| self.file.write_all_at(bytes, at).expect("memory");
        to(first, data + start as u64);
        to(second, data);
        self.head += records.len() as u64;
        to(&self.head.to_ne_bytes(), 1024);
    }
}

/// Page faults of 256 threads on as many pages as wanted, as the source `faults` asks for them.
fn faults_of_many(wild: &mut u64, pages: u64, out: &mut Vec<u8>) {
    out.clear();
    for _ in 0..FAULTS {
        *wild ^= *wild << 13;
        *wild ^= *wild >> 7;
        *wild ^= *wild << 17;
        let page = *wild % pages;
        // Each page is used by its owner and a few neighbours.
        let thread = u32::try_from(1 + (page + (*wild >> 40) % 4) % 256).expect("small");
        out.extend(9u32.to_ne_bytes());
        out.extend([2, 0, 40, 0]);
        out.extend(1u32.to_ne_bytes());
        out.extend(thread.to_ne_bytes());
        out.extend((*wild >> 20).to_ne_bytes());
        out.extend((0x7f00_0000_0000 + page * 4096).to_ne_bytes());
        out.extend([3, 0, 0, 0, 0, 0, 0, 0]);
    }
}

/// From the ring through the filter into the engine: one record at a time, or in batches.
struct Folding<'a> {
    filter: &'a mut Filter,
    engine: &'a mut Engine,
    batch: Option<&'a mut Vec<Record>>,
    count: usize,
}

impl Visitor for Folding<'_> {
    #[inline]
    fn record<B: Body>(&mut self, record: &Decoded<'_, B>) {
        let Decoded::Sample(view) = record else {
            return;
        };
        let Some((sample, pid)) = fault(view) else {
            return;
        };
        if !self.filter.passes(pid) {
            return;
        }
        self.count += 1;
        let record = Record::Sample(sample);
        let Some(batch) = &mut self.batch else {
            self.engine.handle_record(&record);
            return;
        };
        batch.push(record);
        if batch.len() == BATCH {
            self.engine.handle_records(batch);
            batch.clear();
        }
    }
}

/// Records handed to the engine at once.
const BATCH: usize = 256;

fn fault<B: Body>(view: &SampleView<'_, B>) -> Option<(Sample, u32)> {
    let (pid, tid) = view.pid_tid()?;
    let sample = Sample {
        time: Time(view.number(Field::Time)?),
        pid: Pid(pid),
        tid: Tid(tid),
        address: view.number(Field::Addr)?,
        physical: 0,
        cpu: CpuId(view.cpu()?),
        kind: AccessKind::Unknown,
        served: ServedBy::Unknown,
        weight: 0,
        period: 1,
    };
    Some((sample, pid))
}

/// Ring to folded table: what the daemon does with a sample until a window ends.
fn folding(criterion: &mut Criterion) {
    let fields = [Field::Tid, Field::Time, Field::Addr, Field::Cpu];
    let sample_type = fields.iter().fold(0, |bits, field| bits | field.bit());
    let layout = Layout::new(sample_type, Trailer::Present).expect("known fields");
    let mut group = criterion.benchmark_group("sampler/table");
    group.throughput(Throughput::Elements(FAULTS as u64));
    for (name, pages, slots) in [
        ("20,000 pages, default table", 20_000, 65_536),
        ("1,000,000 pages, default table", 1_000_000, 65_536),
        ("1,000,000 pages, all tracked", 1_000_000, 1 << 20),
    ] {
        for batched in [false, true] {
            let how = if batched { "in batches" } else { "one by one" };
            let mut engine = engine(slots);
            let mut filter = Filter::new();
            assert!(filter.add(Pid(1)));
            let mut written = Written::new(1 << RING_PAGES_EXPONENT);
            let (mut wild, mut bytes) = (88_172_645_463_325_252, Vec::new());
            let mut batch = Vec::with_capacity(BATCH);
            let mut round = || {
                faults_of_many(&mut wild, pages, &mut bytes);
                written.write(&bytes);
                let start = own_time();
                let unread = written.ring.unread();
                let (first, second) = unread.pieces();
                let mut folding = Folding {
                    filter: &mut filter,
                    engine: &mut engine,
                    batch: batched.then_some(&mut batch),
                    count: 0,
                };
                stream(&layout, first, second, &mut folding).expect("whole records");
                assert_eq!(folding.count, FAULTS);
                unread.take();
                own_time() - start
            };
            // The table is full before anything is timed.
            (0..500).for_each(|_| {
                round();
            });
            group.bench_function(format!("{name}, {how}"), |bencher| {
                bencher.iter_custom(|rounds| (0..rounds).map(|_| round()).sum());
            });
        }
    }
    group.finish();
}

fn engine(page_slots: usize) -> Engine {
    let topology = topology::synthetic::parse("8x32@10,21").expect("a machine");
    let options = EngineOptions {
        page_slots,
        ..EngineOptions::for_pages_of(4096)
    };
    let mut engine = Engine::new(Arc::new(topology), options);
    let spec = AttachSpec {
        pids: vec![Pid(1)],
        policy: Box::new(Idle),
        options: AttachOptions::default(),
    };
    engine.handle_attach(Time(0), spec).expect("room for one");
    engine
}

/// A policy that is never asked, for no window ends.
#[derive(Debug)]
struct Idle;

impl Policy for Idle {
    fn propose(&mut self, _now: Time, _program: &Program<'_>, _out: &mut Vec<Proposal>) {}
}

criterion_group!(
    benches,
    decoding,
    trace_decoding,
    draining,
    folding,
    recording
);
criterion_main!(benches);
