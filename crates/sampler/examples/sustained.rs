//! A million samples per second from a ring to the folded table: how many are lost, and at what share of
//! a core. `cargo run --release -p sampler --example sustained [SECONDS] [PER_SECOND]`
//!
//! A thread writes page-fault samples of 64 threads on 16,384 pages into a memory file that is laid out as
//! the kernel lays out a ring, a thousandth of a second's worth at a time, and keeps to the kernel's
//! rules: what finds no room is lost and counted. The ring is read every five milliseconds as the
//! daemon does it: decoded where it lies, filtered by process, folded into the engine's tables. Counted
//! is the processor time of the reading thread alone, so that it does not matter how busy the machine
//! is otherwise.

#![forbid(unsafe_code)]
#![expect(
    clippy::print_stdout,
    reason = "an example that measures says what it found"
)]

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::time::{ClockId, clock_gettime};
use numad_core::{
    AccessKind, AttachOptions, AttachSpec, Engine, EngineOptions, Policy, Program, Proposal,
    Record, Sample, ServedBy, Time,
};
use sampler::decode::{Body, Decoded, Field, Layout, SampleView, Trailer, Visitor, stream};
use sampler::filter::Filter;
use sampler::ring::{Ring, page_bytes};
use topology::{CpuId, Pid, Tid};

/// Room for a tenth of a second of a million samples.
const RING_BYTES: usize = 4 << 20;
const RECORD_BYTES: usize = 40;
const PAGES: u64 = 16_384;
const DRAIN_EVERY: Duration = Duration::from_millis(5);

/// Offsets of `data_head` and `data_tail` in the ring's header page.
const HEAD: u64 = 1024;
const TAIL: u64 = 1032;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let seconds = arguments.next().map_or(Ok(5), |text| text.parse())?;
    let per_second = arguments
        .next()
        .map_or(Ok(1_000_000), |text| text.parse())?;
    let file = Arc::new(File::from(memfd_create("ring", MFdFlags::MFD_CLOEXEC)?));
    let pages = RING_BYTES / page_bytes();
    file.set_len(((pages + 1) * page_bytes()) as u64)?;
    let mut ring = Ring::map(&*file, pages)?;
    let fields = [Field::Tid, Field::Time, Field::Addr, Field::Cpu];
    let layout = Layout::new(sampler::attr::fields(&fields), Trailer::Present)?;
    let mut filter = Filter::new();
    filter.add(Pid(1));
    let mut engine = engine()?;
    let writer = thread::spawn(move || write(&file, seconds, per_second));
    let (mut folded, mut spent) = (0u64, Duration::ZERO);
    let mut batch = Vec::with_capacity(256);
    let began = Instant::now();
    loop {
        let last = writer.is_finished();
        let start = own_time();
        let unread = ring.unread();
        let (first, second) = unread.pieces();
        let mut folding = Folding {
            filter: &mut filter,
            engine: &mut engine,
            folded: &mut folded,
            batch: &mut batch,
        };
        stream(&layout, first, second, &mut folding)?;
        unread.take();
        spent += own_time() - start;
        if last {
            break;
        }
        thread::sleep(DRAIN_EVERY);
    }
    let elapsed = began.elapsed();
    let lost = writer.join().map_err(|_panic| "the writer failed")??;
    let each = spent.as_nanos() as f64 / folded as f64;
    let rate = folded as f64 / elapsed.as_secs_f64();
    println!("{rate:.0} samples per second for {seconds} s, {lost} lost of {folded}");
    println!(
        "{each:.1} ns each from ring to table: {:.1} % of a core, {:.1} % at a million per second",
        spent.as_secs_f64() / elapsed.as_secs_f64() * 100.0,
        each / 10.0
    );
    Ok(())
}

/// Writes so many samples in each second; gives how many found no room.
fn write(file: &File, seconds: u64, per_second: u64) -> io::Result<u64> {
    let word = |at| {
        let mut bytes = [0; 8];
        file.read_exact_at(&mut bytes, at)?;
        Ok::<u64, io::Error>(u64::from_ne_bytes(bytes))
    };
    let began = Instant::now();
    let (mut head, mut written, mut lost) = (0u64, 0, 0);
    let mut wild = 88_172_645_463_325_252;
    let mut bytes = Vec::new();
    let size = RING_BYTES as u64;
    while written < seconds * per_second {
        thread::sleep(Duration::from_millis(1));
        let due = u128::from(per_second) * began.elapsed().as_micros() / 1_000_000;
        let due = u64::try_from(due).unwrap_or(u64::MAX);
        bytes.clear();
        let room = (size - (head - word(TAIL)?)) / RECORD_BYTES as u64;
        let count = due.min(seconds * per_second) - written;
        written += count;
        lost += count.saturating_sub(room);
        (0..count.min(room)).for_each(|_| sample(&mut wild, &mut bytes));
        let start = usize::try_from(head % size).unwrap_or_default();
        let (first, second) = bytes.split_at(bytes.len().min(RING_BYTES - start));
        let data = page_bytes() as u64;
        file.write_all_at(first, data + start as u64)?;
        file.write_all_at(second, data)?;
        head += bytes.len() as u64;
        file.write_all_at(&head.to_ne_bytes(), HEAD)?;
    }
    Ok(lost)
}

/// One page fault as the source `faults` asks for it: TID, TIME, ADDR, CPU.
fn sample(wild: &mut u64, out: &mut Vec<u8>) {
    *wild ^= *wild << 13;
    *wild ^= *wild >> 7;
    *wild ^= *wild << 17;
    let page = *wild % PAGES;
    // Each page is used by its owner and a few neighbours.
    let thread = 1 + (page + (*wild >> 40) % 4) % 64;
    out.extend(9u32.to_ne_bytes());
    out.extend([2, 0, 40, 0]);
    out.extend(1u32.to_ne_bytes());
    out.extend(u32::try_from(thread).unwrap_or(1).to_ne_bytes());
    out.extend((*wild >> 20).to_ne_bytes());
    out.extend((0x7f00_0000_0000 + page * 4096).to_ne_bytes());
    out.extend([3, 0, 0, 0, 0, 0, 0, 0]);
}

/// From the ring through the filter into the engine.
struct Folding<'a> {
    filter: &'a mut Filter,
    engine: &'a mut Engine,
    folded: &'a mut u64,
    batch: &'a mut Vec<Record>,
}

impl Visitor for Folding<'_> {
    #[inline]
    fn record<B: Body>(&mut self, record: &Decoded<'_, B>) {
        if let Decoded::Sample(view) = record
            && let Some(sample) = fault(view)
            && self.filter.passes(sample.pid.0)
        {
            *self.folded += 1;
            self.batch.push(Record::Sample(sample));
            if self.batch.len() == 256 {
                self.engine.handle_records(self.batch);
                self.batch.clear();
            }
        }
    }
}

fn fault<B: Body>(view: &SampleView<'_, B>) -> Option<Sample> {
    let (pid, tid) = view.pid_tid()?;
    Some(Sample {
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
    })
}

/// A policy that is never asked, for no window ends.
#[derive(Debug)]
struct Idle;

impl Policy for Idle {
    fn propose(&mut self, _now: Time, _program: &Program<'_>, _out: &mut Vec<Proposal>) {}
}

fn engine() -> Result<Engine, Box<dyn std::error::Error>> {
    let topology = topology::synthetic::parse("8x32@10,21")?;
    let mut engine = Engine::new(Arc::new(topology), EngineOptions::for_pages_of(4096));
    let spec = AttachSpec {
        pids: vec![Pid(1)],
        policy: Box::new(Idle),
        options: AttachOptions::default(),
    };
    engine.handle_attach(Time(0), spec)?;
    Ok(engine)
}

fn own_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)
        .expect("every Linux has it")
        .into()
}
