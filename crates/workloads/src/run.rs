//! Carrying out a plan with real threads.

use std::hint::black_box;
use std::io::{self, Write};
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

use crate::memory::{self, Layout, Region};
use crate::plan::{Kind, LINES_PER_ROUND, Manner, Plan, splitmix};
use crate::processes;

/// How a workload is carried out.
#[derive(Clone, Debug)]
pub struct Options {
    /// Pattern of sharing.
    pub kind: Kind,
    /// Number of worker threads.
    pub threads: usize,
    /// Size of a region in KiB.
    pub region_kib: usize,
    /// How long to run; for ever if absent.
    pub length: Option<Duration>,
    /// How long a phase is.
    pub phase: Duration,
    /// Decides who shares with whom.
    pub seed: u64,
    /// Give a region's pages back after every so many rounds, as programs do that free their
    /// buffers; 0 keeps them, and `slices` always keeps them.
    pub release_rounds: u64,
    /// How regions are laid out.
    pub layout: Layout,
    /// Processors of each node, if threads shall place themselves and their memory as well as can be
    /// done by one who knows the plan.
    pub oracle: Vec<Vec<usize>>,
}

/// Most sweeps over a region in a round: work between two releases, as a solver reads what it exchanged.
const SWEEPS_MAX: usize = 64;

/// Parts in which memory grows.
const GROWN_IN: u64 = 8;

/// Most bytes that regions may have in all.
const TOTAL_BYTES_MAX: usize = 64 << 30;

/// What all threads see.
#[derive(Debug)]
struct Shared {
    options: Options,
    regions: Vec<Region>,
    phase: AtomicU64,
    stop: AtomicBool,
    rounds: Vec<AtomicU64>,
    /// Threads that are ready for their first round; told then, and after every round of a thread
    /// that others wait for.
    stepped: (Mutex<usize>, Condvar),
    tids: Vec<AtomicI32>,
}

/// Runs a workload and writes what is true about it to `out`:
///
/// - `workload KIND pid PID threads N seed S`, then `threads TID TID ...` in the order of the plan,
/// - `partners TID+TID TID+TID ...` at the start and after every change of phase,
/// - `rounds PER_SECOND` about every second.
///
/// # Errors
/// When memory cannot be mapped, a thread cannot be started, or `out` cannot be written.
pub fn run(options: Options, out: &mut dyn Write) -> io::Result<()> {
    check(&options.oracle)?;
    if let Kind::Made(_) = options.kind
        && !options.oracle.is_empty()
    {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "nobody knows how a program that was drawn is best placed",
        ));
    }
    if options.kind == Kind::SharedProcesses {
        return processes::run(&options, out);
    }
    let plan = options.kind.plan(options.threads, options.seed, 0);
    let regions = map_regions(&options, &plan.eighths)?;
    let shared = Shared::new(options, regions);
    let options = &shared.options;
    if options.kind.is_prepared() && options.oracle.is_empty() {
        shared
            .regions
            .iter()
            .for_each(|region| region.touch_part(0, 1));
    }
    thread::scope(|scope| {
        let started = (0..options.threads).try_for_each(|index| {
            let shared = &shared;
            let name = format!("{}-{index}", kind_name(options.kind));
            thread::Builder::new()
                .name(name)
                .spawn_scoped(scope, move || work(shared, index))
                .map(drop)
        });
        let ended = started.and_then(|()| watch(&shared, out));
        shared.end();
        ended
    })
}

impl Shared {
    fn new(options: Options, regions: Vec<Region>) -> Self {
        Self {
            regions,
            phase: AtomicU64::new(0),
            stop: AtomicBool::new(false),
            rounds: (0..options.threads).map(|_| AtomicU64::new(0)).collect(),
            stepped: (Mutex::new(0), Condvar::new()),
            tids: (0..options.threads).map(|_| AtomicI32::new(0)).collect(),
            options,
        }
    }

    /// Ends all threads, those that wait too.
    fn end(&self) {
        self.stop.store(true, Ordering::Relaxed);
        wait_for(self, 0, |_| false);
    }
}

fn map_regions(options: &Options, eighths: &[usize]) -> io::Result<Vec<Region>> {
    let whole = region_bytes(options, eighths.iter().sum::<usize>().div_ceil(8))?;
    eighths
        .iter()
        .map(|&eighths| {
            let bytes = NonZeroUsize::MIN.saturating_add(whole.get() / 8 * eighths - 1);
            Region::map(bytes, options.layout)
        })
        .collect()
}

/// The size of a region as large as is asked for, of which there are so many.
pub(crate) fn region_bytes(options: &Options, count: usize) -> io::Result<NonZeroUsize> {
    let bytes = options.region_kib.saturating_mul(1024);
    if bytes.saturating_mul(count) > TOTAL_BYTES_MAX {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "more than 64 GiB in all",
        ));
    }
    NonZeroUsize::new(bytes)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "a region of no size"))
}

/// One worker: rounds of sweeping what the plan of the present phase gives it.
fn work(shared: &Shared, index: usize) {
    shared.tids[index].store(memory::own_tid(), Ordering::Release);
    let options = &shared.options;
    let (mut phase, mut plan) = (0, plan_of(options, 0));
    if !options.oracle.is_empty() {
        settle(shared, &plan, index);
        touch_own(shared, &plan, index);
        wait_for_all(shared);
    } else if plan.touchers.iter().any(Option::is_some) {
        touch_first(shared, &plan, index);
        wait_for_all(shared);
    }
    let mut walk = Walk::new(options, shared.regions.len(), index);
    while !shared.stop.load(Ordering::Relaxed) {
        let now = shared.phase.load(Ordering::Relaxed);
        if now != phase {
            (phase, plan) = (now, plan_of(options, now));
            settle(shared, &plan, index);
        }
        for &(region, manner) in &plan.uses[index] {
            walk.round((region, &shared.regions[region]), manner, now);
        }
        for count in 0..plan.idle[index] {
            black_box(count);
        }
        let round = shared.rounds[index].fetch_add(1, Ordering::Relaxed) + 1;
        let releases = options.kind != Kind::Slices && options.release_rounds > 0;
        if releases && round.is_multiple_of(options.release_rounds) {
            for region in plan.regions(index) {
                // Advice that the kernel will not take leaves the pages: less to see, nothing wrong.
                drop(shared.regions[region].release());
            }
        }
        if let Some(step) = plan.steps[index] {
            wait_for(shared, round, |other| plan.steps[other] == Some(step));
        }
    }
}

/// Waits until all threads are ready for their first round. When one cannot be started, they stop.
fn wait_for_all(shared: &Shared) {
    let (lock, told) = &shared.stepped;
    let mut ready = lock.lock().unwrap_or_else(PoisonError::into_inner);
    *ready += 1;
    told.notify_all();
    while !shared.stop.load(Ordering::Relaxed) && *ready < shared.options.threads {
        ready = told.wait(ready).unwrap_or_else(PoisonError::into_inner);
    }
}

/// Waits until such others have done so many rounds, and lets others that wait look again.
fn wait_for(shared: &Shared, round: u64, is_waited_for: impl Fn(usize) -> bool) {
    let (lock, told) = &shared.stepped;
    let behind = |(other, rounds): (usize, &AtomicU64)| {
        is_waited_for(other) && rounds.load(Ordering::Relaxed) < round
    };
    let mut guard = lock.lock().unwrap_or_else(PoisonError::into_inner);
    told.notify_all();
    while !shared.stop.load(Ordering::Relaxed) && shared.rounds.iter().enumerate().any(behind) {
        guard = told.wait(guard).unwrap_or_else(PoisonError::into_inner);
    }
}

/// Touches what the plan has this thread touch first.
fn touch_first(shared: &Shared, plan: &Plan, index: usize) {
    let regions = shared.regions.iter().zip(&plan.touchers);
    let own = regions.filter(|(_, toucher)| **toucher == Some(index));
    own.for_each(|(region, _)| region.touch_part(0, 1));
}

/// Touches what is this thread's first, so that it lies where the thread is.
fn touch_own(shared: &Shared, plan: &Plan, index: usize) {
    for &(region, manner) in &plan.uses[index] {
        match manner {
            // Pieces of whole pages; smaller ones lie on pages of all.
            Manner::Dealt {
                lines, index, of, ..
            } if lines * 64 >= 4096 => {
                shared.regions[region].touch_dealt(lines, index, of);
            }
            _ => {
                let (part, of) = plan.share(index, region);
                shared.regions[region].touch_part(part, of);
            }
        }
    }
}

/// How often a region is swept in a round.
pub(crate) fn sweeps_per_round(region: &Region) -> usize {
    (LINES_PER_ROUND / region.lines().max(1)).clamp(1, SWEEPS_MAX)
}

/// What a worker remembers from round to round.
#[derive(Debug)]
struct Walk {
    /// Partners come from opposite ends, so that each touches some pages first.
    backwards: bool,
    /// Where it has come to in each region.
    at: Vec<usize>,
    random: u64,
}

impl Walk {
    fn new(options: &Options, regions: usize, index: usize) -> Self {
        Self {
            backwards: index % 2 == 1,
            at: vec![0; regions],
            random: options.seed ^ (index as u64) << 32,
        }
    }

    fn round(&mut self, (number, region): (usize, &Region), manner: Manner, phase: u64) {
        let lines = region.lines();
        let at = &mut self.at[number];
        match manner {
            Manner::Sweep => region.sweep(sweeps_per_round(region), self.backwards),
            Manner::Stream => region.sweep(1, self.backwards),
            Manner::Chase(steps) => *at = region.chase(*at, steps),
            Manner::Zipf(count) => {
                for _ in 0..count {
                    region.add(zipf(&mut self.random, lines));
                }
            }
            Manner::Grow => region.sweep_first(grown(lines, phase), 1, self.backwards),
            Manner::Dealt {
                lines: piece,
                index,
                of,
                count,
            } => *at = region.sweep_dealt(*at, count, (piece, index, of)),
        }
    }
}

/// Lines that have grown by this phase.
fn grown(lines: usize, phase: u64) -> usize {
    let parts = usize::try_from((phase + 1).min(GROWN_IN)).unwrap_or(1);
    (lines * parts).div_ceil(8)
}

/// A line by Zipf's law with exponent 1, to a factor of two: each power of two of lines is as likely as any other.
fn zipf(random: &mut u64, lines: usize) -> usize {
    let drawn = splitmix(random);
    let powers = u64::from(lines.max(1).ilog2()) + 1;
    let power = drawn % powers;
    let within = (drawn >> 32) & ((1 << power) - 1);
    let line = usize::try_from((1 << power) - 1 + within).unwrap_or(0);
    line % lines
}

/// Binds the calling thread to where the oracle wants it.
fn settle(shared: &Shared, plan: &Plan, index: usize) {
    let nodes = &shared.options.oracle;
    let Some(cpus) = nodes.get(plan.place(index, nodes.len())) else {
        return;
    };
    let bound = mask_of(cpus).and_then(|mask| sched_setaffinity(Pid::from_raw(0), &mask));
    debug_assert_eq!(bound, Ok(()), "`run` tried these processors");
}

fn mask_of(cpus: &[usize]) -> nix::Result<CpuSet> {
    let mut mask = CpuSet::new();
    cpus.iter().try_for_each(|&cpu| mask.set(cpu))?;
    Ok(mask)
}

/// Whether the oracle's processors are there.
fn check(oracle: &[Vec<usize>]) -> io::Result<()> {
    let allowed = sched_getaffinity(Pid::from_raw(0))?;
    let missing = |cpu: &&usize| !allowed.is_set(**cpu).unwrap_or(false);
    match oracle.iter().flatten().find(missing) {
        None => Ok(()),
        Some(cpu) => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("processor {cpu} is not there or not allowed"),
        )),
    }
}

fn plan_of(options: &Options, phase: u64) -> Plan {
    options.kind.plan(options.threads, options.seed, phase)
}

/// Tells what is true, until the time is over.
fn watch(shared: &Shared, out: &mut dyn Write) -> io::Result<()> {
    const TICK: Duration = Duration::from_millis(50);
    let options = &shared.options;
    while shared
        .tids
        .iter()
        .any(|tid| tid.load(Ordering::Acquire) == 0)
    {
        thread::sleep(Duration::from_millis(1));
    }
    let tids: Vec<i32> = shared
        .tids
        .iter()
        .map(|tid| tid.load(Ordering::Acquire))
        .collect();
    let (pid, threads, seed) = (std::process::id(), options.threads, options.seed);
    writeln!(
        out,
        "workload {} pid {pid} threads {threads} seed {seed}",
        options.kind
    )?;
    writeln!(out, "threads {}", joined(&tids, " "))?;
    tell_partners(&plan_of(options, 0), &tids, out)?;
    let began = Instant::now();
    let (mut told, mut rounds_told) = (began, 0);
    while options.length.is_none_or(|length| began.elapsed() < length) {
        thread::sleep(TICK);
        let phase = began.elapsed().as_nanos() / options.phase.as_nanos().max(1);
        let phase = u64::try_from(phase).unwrap_or(u64::MAX);
        if options.kind == Kind::Growing && phase != shared.phase.load(Ordering::Relaxed) {
            grow(shared, phase);
        }
        if options.kind.has_phases() && shared.phase.swap(phase, Ordering::Relaxed) != phase {
            tell_partners(&plan_of(options, phase), &tids, out)?;
        }
        if told.elapsed() >= Duration::from_secs(1) {
            let rounds: u64 = shared
                .rounds
                .iter()
                .map(|rounds| rounds.load(Ordering::Relaxed))
                .sum();
            #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
            let rate = (rounds - rounds_told) as f64 / told.elapsed().as_secs_f64();
            writeln!(out, "rounds {rate:.0}")?;
            out.flush()?;
            (told, rounds_told) = (Instant::now(), rounds);
        }
    }
    Ok(())
}

/// The first thread fills what comes to be, as a loader does, and then the others learn of it.
fn grow(shared: &Shared, phase: u64) {
    if shared.options.oracle.is_empty() && phase < GROWN_IN {
        for region in &shared.regions {
            (grown(region.lines(), phase - 1)..grown(region.lines(), phase))
                .for_each(|line| region.add(line));
        }
    }
    shared.phase.store(phase, Ordering::Relaxed);
}

pub(crate) fn tell_partners(plan: &Plan, tids: &[i32], out: &mut dyn Write) -> io::Result<()> {
    let groups: Vec<String> = plan
        .groups()
        .iter()
        .map(|group| {
            joined(
                &group.iter().map(|&thread| tids[thread]).collect::<Vec<_>>(),
                "+",
            )
        })
        .collect();
    writeln!(out, "partners {}", groups.join(" "))?;
    out.flush()
}

pub(crate) fn joined(numbers: &[i32], between: &str) -> String {
    numbers
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(between)
}

/// Short enough that the kernel keeps the whole name of a thread (15 bytes) with its number.
const fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Slices => "slices",
        Kind::Pairs => "pairs",
        Kind::Groups(_) => "groups",
        Kind::AllShared => "shared",
        Kind::Phases => "phases",
        Kind::Hog => "hog",
        Kind::SharedProcesses => "process",
        Kind::Readers => "readers",
        Kind::Zipf => "zipf",
        Kind::Growing => "growing",
        Kind::Strided => "strided",
        Kind::Heap => "heap",
        Kind::Made(_) => "made",
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, mpsc};

    use super::*;
    use crate::memory::Pages;

    /// One that the tests may use.
    fn own_processor() -> usize {
        let allowed = sched_getaffinity(Pid::from_raw(0)).unwrap();
        let mut all = 0..CpuSet::count();
        all.find(|&cpu| allowed.is_set(cpu).unwrap()).unwrap()
    }

    #[test]
    fn a_short_run_tells_who_its_threads_and_partners_are() {
        let options = Options {
            kind: Kind::Pairs,
            threads: 4,
            region_kib: 64,
            length: Some(Duration::from_millis(1)),
            phase: Duration::from_secs(1),
            seed: 7,
            release_rounds: 1,
            layout: Layout::default(),
            oracle: vec![vec![own_processor()]],
        };
        let mut told = Vec::new();
        run(options, &mut told).unwrap();
        let told = String::from_utf8(told).unwrap();
        let lines: Vec<&str> = told.lines().collect();
        assert!(lines[0].starts_with("workload pairs pid "), "{told}");
        assert_eq!(lines[1].split(' ').count(), 5, "{told}");
        assert_eq!(lines[2].matches('+').count(), 2, "{told}");
    }

    #[test]
    fn threads_do_not_wait_for_one_that_cannot_be_started() {
        let options = Options {
            kind: Kind::Pairs,
            threads: 2,
            region_kib: 4,
            length: None,
            phase: Duration::from_secs(1),
            seed: 7,
            release_rounds: 0,
            layout: Layout::default(),
            oracle: Vec::new(),
        };
        let shared = Arc::new(Shared::new(options, Vec::new()));
        let (say, ended) = mpsc::channel();
        let first = Arc::clone(&shared);
        thread::spawn(move || {
            wait_for_all(&first);
            say.send(()).unwrap();
        });
        while *shared.stepped.0.lock().unwrap() == 0 {
            thread::yield_now();
        }
        shared.end();
        ended.recv_timeout(Duration::from_secs(10)).unwrap();
    }

    #[test]
    fn every_kind_works_on_memory_of_any_layout() {
        for kind in [
            "slices", "hog", "readers", "zipf", "growing", "strided", "heap", "made:1", "made:2",
            "made:3", "made:4",
        ] {
            for (pages, offset_pages) in [(Pages::Small, 3), (Pages::Huge, 0), (Pages::Any, 511)] {
                let options = Options {
                    kind: kind.parse().unwrap(),
                    threads: 3,
                    region_kib: 100,
                    length: Some(Duration::from_millis(60)),
                    phase: Duration::from_millis(5),
                    seed: 7,
                    release_rounds: 0,
                    layout: Layout {
                        pages,
                        offset_pages,
                    },
                    oracle: Vec::new(),
                };
                run(options, &mut Vec::new()).unwrap();
            }
        }
    }

    #[test]
    fn lines_that_were_dealt_out_come_round() {
        let bytes = NonZeroUsize::new(4096).unwrap();
        let counts = |count, rounds: usize| {
            let region = Region::map(bytes, Layout::default()).unwrap();
            // The second of three, by pieces of five lines: 5 to 9, 20 to 24, up to 50 to 54.
            (0..rounds).fold(0, |at, _| region.sweep_dealt(at, count, (5, 1, 3)));
            let lines = 0..region.lines();
            lines.map(|line| region.counted(line)).collect::<Vec<_>>()
        };
        let whole = counts(None, 2);
        let dealt = |line: &usize| line / 5 % 3 == 1;
        assert!((0..64).all(|line| whole[line] == if dealt(&line) { 2 } else { 0 }));
        assert_eq!(counts(Some(10), 4), whole, "20 lines, twice");
        assert_eq!(counts(Some(7), 1)[20..25], [1, 1, 0, 0, 0]);
    }

    #[test]
    fn few_lines_are_used_most() {
        let (mut random, lines) = (1, 1 << 16);
        let mut first = 0;
        for _ in 0..10_000 {
            let line = zipf(&mut random, lines);
            assert!(line < lines);
            first += u32::from(line < lines / 256);
        }
        assert!((4_000..6_500).contains(&first), "{first}");
        assert_eq!((grown(80, 0), grown(80, 7), grown(80, 99)), (10, 80, 80));
    }

    #[test]
    fn memory_beyond_reason_is_refused() {
        let options = Options {
            kind: Kind::Slices,
            threads: 1,
            region_kib: usize::MAX,
            length: None,
            phase: Duration::from_secs(1),
            seed: 0,
            release_rounds: 0,
            layout: Layout::default(),
            oracle: Vec::new(),
        };
        assert_eq!(
            run(options, &mut Vec::new()).unwrap_err().to_string(),
            "more than 64 GiB in all"
        );
    }
    #[test]
    fn a_process_with_several_threads_makes_no_others() {
        // The test's own threads are those.
        let options = Options {
            kind: Kind::SharedProcesses,
            threads: 2,
            region_kib: 4,
            length: Some(Duration::ZERO),
            phase: Duration::from_secs(1),
            seed: 0,
            release_rounds: 1,
            layout: Layout::default(),
            oracle: Vec::new(),
        };
        assert_eq!(
            run(options, &mut Vec::new()).unwrap_err().to_string(),
            "a process with several threads does not fork"
        );
    }
}
