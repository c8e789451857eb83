//! Carrying out a plan with processes that share memory.

use std::ffi::CStr;
use std::io::{self, Write};
use std::num::NonZeroUsize;
use std::os::fd::OwnedFd;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::signal::{self, Signal};
use nix::sys::wait::waitpid;
use nix::unistd::Pid;

use crate::memory::{self, Layout, Region};
use crate::run::{Options, joined, region_bytes, sweeps_per_round, tell_partners};

/// Name of the objects, as it stands in the maps of those who map them.
const OBJECT: &CStr = c"numad-workload";

/// Memory of one pair.
#[derive(Debug)]
enum Memory {
    /// Mapped before the processes are made, so that they have it at the same address.
    Inherited(Region),
    /// Each maps it for itself.
    Object(OwnedFd),
}

/// Processes that end when this is dropped.
#[derive(Debug, Default)]
struct Children(Vec<Pid>);

impl Drop for Children {
    fn drop(&mut self) {
        for &child in &self.0 {
            // One that is gone already needs neither.
            let _gone = signal::kill(child, Signal::SIGKILL).is_err();
            let _waited_for = waitpid(child, None).is_err();
        }
    }
}

/// As [`crate::run()`], with processes for threads.
pub(crate) fn run(options: &Options, out: &mut dyn Write) -> io::Result<()> {
    if !options.oracle.is_empty() || options.layout != Layout::default() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "processes take neither an oracle nor pages of another kind",
        ));
    }
    let plan = options.kind.plan(options.threads, options.seed, 0);
    let bytes = region_bytes(options, plan.eighths.len())?;
    let memory: Vec<Memory> = (0..plan.eighths.len())
        .map(|region| match region % 2 {
            0 => Region::map_shared(bytes).map(Memory::Inherited),
            _ => object(bytes).map(Memory::Object),
        })
        .collect::<io::Result<_>>()?;
    prepare(&memory, bytes)?;
    let rounds = Region::map_shared(NonZeroUsize::MIN.saturating_add(options.threads * 64))?;
    let mut children = Children::default();
    for index in 0..options.threads {
        let swept: Vec<&Memory> = plan.regions(index).map(|region| &memory[region]).collect();
        let child = memory::in_child(|| work(options, index, &swept, &rounds))?;
        children.0.push(child);
    }
    let pids: Vec<i32> = children.0.iter().map(|child| child.as_raw()).collect();
    let (own, count, seed) = (std::process::id(), options.threads, options.seed);
    writeln!(
        out,
        "workload {} pid {own} threads {count} seed {seed}",
        options.kind
    )?;
    writeln!(out, "threads {}", joined(&pids, " "))?;
    tell_partners(&plan, &pids, out)?;
    watch(options, &rounds, out)
}

/// Touches all memory, in a process of its own that ends before the others begin: so it all lies on one node, and is in
/// no page table.
fn prepare(memory: &[Memory], bytes: NonZeroUsize) -> io::Result<()> {
    let child = memory::in_child(|| {
        for memory in memory {
            match memory {
                Memory::Inherited(region) => region.store_to_each_page(),
                Memory::Object(object) => {
                    if let Ok(region) = Region::map_object(object, bytes) {
                        region.store_to_each_page();
                    }
                }
            }
        }
    })?;
    waitpid(child, None)?;
    Ok(())
}

fn object(bytes: NonZeroUsize) -> io::Result<OwnedFd> {
    let object = memfd_create(OBJECT, MFdFlags::MFD_CLOEXEC)?;
    let length = i64::try_from(bytes.get()).map_err(io::Error::other)?;
    nix::unistd::ftruncate(&object, length)?;
    Ok(object)
}

/// One process: rounds of sweeping until it is ended.
fn work(options: &Options, index: usize, memory: &[&Memory], rounds: &Region) {
    // Else processes of one maker would map an object at the same address.
    let Some(gap) = NonZeroUsize::new((index + 1) << 20) else {
        return;
    };
    let Ok(_gap) = Region::map(gap, Layout::default()) else {
        return;
    };
    let bytes = NonZeroUsize::new(options.region_kib.saturating_mul(1024));
    let mut mapped = Vec::new();
    for memory in memory {
        if let (Memory::Object(object), Some(bytes)) = (memory, bytes) {
            // Without its memory it has nothing to do, and its rounds show that.
            let Ok(region) = Region::map_object(object, bytes) else {
                return;
            };
            mapped.push(region);
        }
    }
    let inherited = memory.iter().filter_map(|memory| match memory {
        Memory::Inherited(region) => Some(region),
        Memory::Object(_) => None,
    });
    let regions: Vec<&Region> = inherited.chain(&mapped).collect();
    for round in 1u64.. {
        for region in &regions {
            region.store_to_each_page();
            region.sweep(sweeps_per_round(region), index % 2 == 1);
        }
        rounds.count(index);
        if options.release_rounds > 0 && round.is_multiple_of(options.release_rounds) {
            // Of shared memory only our own view is given back: the next touch of each page is a fault.
            regions.iter().for_each(|region| drop(region.release()));
        }
    }
}

/// Tells how fast it goes, until the time is over.
fn watch(options: &Options, rounds: &Region, out: &mut dyn Write) -> io::Result<()> {
    const TICK: Duration = Duration::from_millis(50);
    let began = Instant::now();
    let (mut told, mut rounds_told) = (began, 0);
    while options.length.is_none_or(|length| began.elapsed() < length) {
        thread::sleep(TICK);
        if told.elapsed() >= Duration::from_secs(1) {
            let all: u64 = (0..options.threads)
                .map(|index| rounds.counted(index))
                .sum();
            #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
            let rate = (all - rounds_told) as f64 / told.elapsed().as_secs_f64();
            writeln!(out, "rounds {rate:.0}")?;
            out.flush()?;
            (told, rounds_told) = (Instant::now(), all);
        }
    }
    Ok(())
}
