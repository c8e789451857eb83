//! What the source `faults` costs a program that faults 20,000 times a second, at the default budget.
//!
//! A child process works and touches fresh pages at that pace. It is timed in pairs, with the source
//! open and attached, and without, in turns that swap order from pair to pair. Printed is the ratio of
//! its throughput with to that without, with a 95 % confidence interval, by wall time and by the
//! processor time of the child; on a busy machine only the latter means something. The source is read and told
//! its costs as the daemon does it, on another processor if there is one; the engine is left out.
//! Needs root. `FAULT_OVERHEAD_PAIRS` sets how many pairs, 20 by default.
//! What is measured is the settled state: the first seconds after the source was opened are left out.

#![deny(unsafe_code)]
#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a measurement: it prints, and there is nobody to hand an error to"
)]

use std::hint::black_box;
use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nix::sys::mman::{MmapAdvise, madvise};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Uid;
use numad_core::Time;
use sampler::ring::page_bytes;
use sampler::{FaultOptions, Faults, Source, Spending};
use topology::{CpuSet, Pid};

/// Set in the environment of the child; its value is the work between two faults.
const ROLE: &str = "NUMAD_FAULT_OVERHEAD_WORK";
/// Faults a second that are aimed at.
const PACE: f64 = 20_000.0;
/// How long one measurement takes.
const SPAN: Duration = Duration::from_millis(1200);
/// Measurements that are thrown away after the source was opened, while its rate settles.
const SETTLING: usize = 4;
/// Pages that are touched in turn, then given back all together.
const PAGES: usize = 2_000;

fn main() {
    if let Ok(work) = std::env::var(ROLE) {
        return child(work.parse().unwrap());
    }
    if !Uid::effective().is_root() {
        println!("skipped: needs root");
        return;
    }
    let pairs = std::env::var("FAULT_OVERHEAD_PAIRS").ok();
    let pairs: usize = pairs.and_then(|text| text.parse().ok()).unwrap_or(20);
    let mut program = Program::start(calibrate());
    program.throughput();
    let mut ratios = [Vec::with_capacity(pairs), Vec::with_capacity(pairs)];
    let mut seen = Seen::default();
    for pair in 0..pairs {
        let (with, alone) = if pair % 2 == 0 {
            let with = sampled(&mut program, &mut seen);
            (with, program.throughput())
        } else {
            let alone = program.throughput();
            (sampled(&mut program, &mut seen), alone)
        };
        seen.pace += alone[1] / pairs as f64;
        for (ratios, (with, alone)) in ratios.iter_mut().zip(with.iter().zip(&alone)) {
            ratios.push((with / alone).ln());
        }
    }
    println!(
        "{:.0} faults a second, {pairs} pairs, {} samples, {} lost, one for each {} faults at the rarest",
        seen.pace, seen.samples, seen.lost, seen.period,
    );
    for (name, ratios) in ["wall time", "processor time"].iter().zip(&ratios) {
        let (mean, half) = interval(ratios);
        println!(
            "throughput with sampling, by {name}: {:.4} of that without, 95 % of {:.4} to {:.4}",
            mean.exp(),
            (mean - half).exp(),
            (mean + half).exp()
        );
    }
}

/// What the measurements with the source saw.
#[derive(Default)]
struct Seen {
    pace: f64,
    samples: u64,
    lost: u64,
    period: u64,
}

/// Throughput with the source open and attached.
fn sampled(program: &mut Program, seen: &mut Seen) -> [f64; 2] {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap();
    let cpus = CpuSet::parse_list(&text).unwrap();
    let mut source = Faults::open(FaultOptions::new(cpus.clone(), Box::new(now))).unwrap();
    source.attach(Pid(program.child.id())).unwrap();
    let stop = AtomicBool::new(false);
    let throughput = std::thread::scope(|scope| {
        scope.spawn(|| drain(&mut source, cpus.len(), &stop));
        for _ in 0..SETTLING {
            program.throughput();
        }
        let throughput = program.throughput();
        stop.store(true, Ordering::Relaxed);
        throughput
    });
    let rate = source.rate().unwrap();
    seen.samples += rate.taken;
    seen.period = seen.period.max(rate.period);
    seen.lost += source.losses().lost;
    throughput
}

/// Reads the source as the daemon does: every 20 to 100 ms; told each quarter of a second, because a
/// measurement is shorter than the daemon's second, that it may cost 1 % of the machine.
fn drain(source: &mut Faults, cpus: usize, stop: &AtomicBool) {
    let (mut told, mut own) = (now(), Duration::ZERO);
    let mut sum = 0u64;
    while !stop.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(50));
        let start = Instant::now();
        source
            .drain(&mut |record| sum ^= u64::from(matches!(record, numad_core::Record::Sample(_))));
        own += start.elapsed();
        let elapsed = now().since(told);
        if elapsed >= Duration::from_millis(250) {
            let allowed = elapsed.as_nanos() as f64 * cpus as f64 / 100.0;
            let spending = Spending {
                elapsed,
                own_ns: u64::try_from(own.as_nanos()).unwrap(),
                allowed_ns: allowed as u64,
                processor_allowed_ns: u64::try_from(elapsed.as_nanos()).unwrap() / 100,
            };
            source.regulate(now(), &spending);
            (told, own) = (now(), Duration::ZERO);
        }
    }
    black_box(sum);
}

fn now() -> Time {
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC).unwrap();
    Time(time.tv_sec().cast_unsigned() * 1_000_000_000 + time.tv_nsec().cast_unsigned())
}

fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).unwrap();
    Duration::new(
        time.tv_sec().cast_unsigned(),
        u32::try_from(time.tv_nsec()).unwrap(),
    )
}

/// The child, as its parent sees it.
struct Program {
    child: Child,
    tell: ChildStdin,
    hear: Lines<BufReader<ChildStdout>>,
}

impl Program {
    fn start(work: u64) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .env(ROLE, work.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let tell = child.stdin.take().unwrap();
        let hear = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, tell, hear }
    }

    /// Rounds of work, each with one fault, in a second of wall time and of processor time.
    fn throughput(&mut self) -> [f64; 2] {
        writeln!(self.tell, "go").unwrap();
        let line = self.hear.next().unwrap().unwrap();
        let (wall, busy) = line.split_once(' ').unwrap();
        [wall.parse().unwrap(), busy.parse().unwrap()]
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// Works and faults for a while each time it is told to, and says how many rounds a second it did.
fn child(work: u64) {
    let page = page_bytes();
    let mut memory = vec![0u8; (PAGES + 1) * page];
    let start = memory.as_ptr().align_offset(page);
    let pages = &mut memory[start..start + PAGES * page];
    advise(pages, MmapAdvise::MADV_NOHUGEPAGE);
    for _order in std::io::stdin().lines() {
        let (began, mut rounds) = (Instant::now(), 0u64);
        let busy = processor_time().as_secs_f64();
        while began.elapsed() < SPAN {
            advise(pages, MmapAdvise::MADV_DONTNEED);
            for byte in pages.iter_mut().step_by(page) {
                for step in 0..work {
                    black_box(step);
                }
                *byte = black_box(1);
                rounds += 1;
            }
        }
        let busy = processor_time().as_secs_f64() - busy;
        let rounds = rounds as f64;
        println!(
            "{} {}",
            rounds / began.elapsed().as_secs_f64(),
            rounds / busy
        );
    }
}

#[expect(unsafe_code, reason = "no safe call gives pages back")]
fn advise(pages: &mut [u8], advice: MmapAdvise) {
    // SAFETY: the pages belong to a slice that is borrowed mutably; what is given back reads as zeros
    // afterwards, which any byte may.
    unsafe { madvise(NonNull::from_mut(pages).cast(), pages.len(), advice) }.unwrap();
}

/// Work between two faults that gives the pace.
fn calibrate() -> u64 {
    let mut work = 20_000;
    for _ in 0..4 {
        let [_, pace] = Program::start(work).throughput();
        work = ((work as f64) * pace / PACE).round().max(1.0) as u64;
    }
    work
}

/// Mean and half of a 95 % interval.
fn interval(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let variance = values
        .iter()
        .map(|value| (value - mean).powi(2))
        .sum::<f64>()
        / (count - 1.0);
    // Student's t for 20 pairs or more is at most 2.09.
    (mean, 2.09 * (variance / count).sqrt())
}
