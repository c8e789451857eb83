//! The sampler's budgets: ring to decoded sample at most 20 ns at 8 fields, ring to record through
//! the whole source, and records into a recording.
//!
//! `sampler/decode` reads page faults that this kernel has just written into a ring, with our
//! reader and, in the same run, with the iterators of the pinned crate `perf-event-open`. It needs no
//! hardware counters and, for the process's own faults, no privilege.

#![deny(unsafe_code)]

use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use nix::time::{ClockId, clock_gettime};
use numad_core::{AccessKind, Record, Sample, ServedBy, Time};
use perf_event_open::config::{Cpu, Opts, Proc, RecordIdFormat, SampleFormat, SampleOn};
use perf_event_open::count::Counter;
use perf_event_open::event::sw::Software;
use perf_event_open::sample::record::Record as CrateRecord;
use sampler::decode::{
    Body, Decoded, Field, HEADER_BYTES, Layout, SampleView, Trailer, Visitor, decode, stream,
};
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

/// Times `read` on batches of fresh faults; it says how many it read.
fn timed(rounds: u64, memory: &mut Memory, mut read: impl FnMut() -> usize) -> Duration {
    let mut spent = Duration::ZERO;
    for _ in 0..rounds {
        read();
        memory.fault();
        let start = Instant::now();
        let count = read();
        spent += start.elapsed();
        assert!((FAULTS..FAULTS + 64).contains(&count), "{count} faults");
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

criterion_group!(benches, decoding, draining, recording);
criterion_main!(benches);
