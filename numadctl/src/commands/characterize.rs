//! `characterize`.

use std::fs::DirBuilder;
use std::io::{self, IsTerminal as _, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use characterize::{Effort, Observer, Plan, PlanError, Progress, Run, RunError};
use control::{ErrorKind, Failure};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::{TimeVal, TimeValLike as _};
use procfs::{ProcessorTime, ReadError, Reader};
use serde_json::json;
use topology::{CpuSet, Measured, NodeId, Pid, Tid, Topology};

use super::state_directory;
use crate::cli::Characterize;
use crate::fresh::{Fresh, cannot_write};
use crate::output::Output;
use crate::render;

/// Share of all processors' time that others may take: one in ten is what daemons of an idle server take
/// at worst, and more changes figures by more than runs differ.
const BUSY_MAX: f64 = 0.1;
/// Processors' time that others may take of a machine that is idle: less than a thread that never
/// stops.
const IDLE_PROCESSORS: f64 = 1.0;
/// How long a machine has to have been idle.
const IDLE_FOR: Duration = Duration::from_secs(10);
/// How long it is looked whether others are busy; 30 ticks of each processor.
const LOOK: Duration = Duration::from_millis(300);
/// How often, while measuring.
const LOOK_EVERY: Duration = Duration::from_secs(3);
/// How long a quiet machine is waited for, in all.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often progress is told where nobody watches a line change.
const TELL_EVERY: Duration = Duration::from_secs(5);
/// The same where it may go on for days.
const TELL_EVERY_IDLE: Duration = Duration::from_secs(600);

pub(super) fn characterize(
    arguments: &Characterize,
    out: &mut Output<'_>,
    err: &mut Output<'_>,
) -> Result<(), Failure> {
    let topology = topology::load("this").map_err(|error| super::topo::refused(&error))?;
    let fingerprint = topology.fingerprint();
    let directory = state_directory(arguments.directory.as_deref())?;
    if directory.exists() && !directory.is_dir() {
        let text = format!("`{}` is there and is no directory", directory.display());
        return Err(Failure::new(ErrorKind::Conflict, text).remedy("name another `--directory`"));
    }
    let known = if arguments.again {
        None
    } else {
        Measured::read(&directory, fingerprint).map_err(|error| {
            super::topo::refused(&error).remedy("measure `--again`, as root if need be")
        })?
    };
    if let Some(known) = known {
        let remedy = "it holds until the hardware changes; `--again` measures anew";
        return show(arguments, topology, &known, (&directory, remedy), out);
    }
    let reader = Reader::new("/");
    // Before the work: what cannot be kept need not be measured.
    let path = Measured::path(&directory, fingerprint);
    drop(begin(&directory, &path)?);
    let mut watch = Watch::new(&reader, arguments, topology.online().len(), err);
    let mut measured = measure(&topology, &mut watch)?;
    measured.busy_percent = watch.busy_percent();
    keep(begin(&directory, &path)?, &measured)?;
    let remedy = "a daemon whose state directory that is goes by it from `numadctl reload` on, or from the \
        next program that is attached alone";
    show(arguments, topology, &measured, (&directory, remedy), out)
}

/// All figures: in one go, or, where others come first, in as many as they leave time for.
fn measure(topology: &Topology, watch: &mut Watch<'_, '_>) -> Result<Measured, Failure> {
    if watch.manner == Manner::WhenIdle {
        characterize::run_when_idle().map_err(|errno| {
            let text = format!("cannot run behind others: {}", errno.desc());
            Failure::new(ErrorKind::Kernel, text).remedy("measure without `--when-idle`")
        })?;
    }
    let mut run = Run::new(topology.fingerprint());
    loop {
        watch.begin()?;
        let gone_on = plan(topology, watch).and_then(|plan| {
            let ended = run.go_on(&plan, watch);
            watch.end()?;
            ended.map_err(|error| watch.why(&error))
        });
        match gone_on {
            Ok(()) => return Ok(run.into_measured()),
            Err(failure) if failure.kind == ErrorKind::Busy && watch.manner == Manner::WhenIdle => {
                watch.tell(&format!("waits: {}", failure.message))?;
            }
            Err(failure) => return Err(failure),
        }
    }
}

fn plan(topology: &Topology, watch: &Watch<'_, '_>) -> Result<Plan, Failure> {
    let free = watch.reader.node_memory();
    let free = free.map_err(|error| unreadable(&error))?;
    let free_of = |node: NodeId| {
        let found = free.iter().find(|memory| memory.node == node);
        // A kernel without nodes tells of none; then the allocator has to say.
        found.map_or(u64::MAX, |memory| match watch.manner {
            // What others have read from files may be wanted again.
            Manner::WhenIdle => memory.free_bytes,
            Manner::Patient | Manner::Forced => {
                memory.free_bytes.saturating_add(memory.file_bytes / 2)
            }
        })
    };
    let mask = own_processors(watch.reader, std::process::id())?;
    let allowed = topology.online().intersection(&mask);
    Plan::new(topology, &allowed, free_of, Effort::default()).map_err(|error| {
        let (kind, remedy) = match error {
            PlanError::NoProcessor => (ErrorKind::Prerequisite, "run it outside of the cpuset"),
            PlanError::TooLittleMemory { .. } => (ErrorKind::Busy, "free some, and try again"),
        };
        Failure::new(kind, error.to_string()).remedy(remedy)
    })
}

/// Processors that this process may use, as /proc tells them: the sets of glibc and nix end at
/// 1,024, and the kernel of a machine with more fills none.
fn own_processors(reader: &Reader, own: u32) -> Result<CpuSet, Failure> {
    let mask = reader.affinity(Pid(own), Tid(own));
    let mask = mask.map_err(|error| unreadable(&error))?;
    Ok(mask.here().unwrap_or_default())
}

/// Begins the file, in a directory that is made if need be as the daemon makes it. What that lies
/// in has to be there: a slip of the pen makes no path.
fn begin(directory: &Path, path: &Path) -> Result<Fresh, Failure> {
    if !directory.is_dir() {
        let made = DirBuilder::new().mode(0o700).create(directory);
        made.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                let text = format!("`{}` would lie in no directory", directory.display());
                Failure::new(ErrorKind::NotFound, text)
                    .remedy("name a `--directory` of which at most the last part is missing")
            }
            _ => not_kept(&cannot_write(directory, &error)),
        })?;
    }
    Fresh::replacing(path).map_err(|failure| not_kept(&failure))
}

fn not_kept(failure: &Failure) -> Failure {
    Failure::new(failure.kind, failure.message.clone())
        .remedy("run it as root, or name another `--directory`")
}

fn keep(mut fresh: Fresh, measured: &Measured) -> Result<(), Failure> {
    let path = fresh.path().to_owned();
    fresh
        .write_all(measured.to_text().as_bytes())
        .map_err(|error| cannot_write(&path, &error))?;
    fresh.keep()
}

fn show(
    arguments: &Characterize,
    topology: Topology,
    measured: &Measured,
    (directory, remark): (&Path, &str),
    out: &mut Output<'_>,
) -> Result<(), Failure> {
    let file = Measured::path(directory, measured.fingerprint());
    let known = topology.with_measured(measured);
    if arguments.plain.json {
        let mut value = render::topo::value(&known);
        return out.json(&json!({
            "fingerprint": measured.fingerprint().to_string(),
            "file": file.display().to_string(),
            "busy_percent": measured.busy_percent,
            "bandwidth": value["bandwidth"].take(),
        }));
    }
    let busy = measured.busy_percent.map_or_else(String::new, |busy| {
        format!(
            "\nmeasured while others used {busy} % of the processors: bandwidths are too low, latencies too high\n"
        )
    });
    out.text(&format!(
        "{}{busy}\nkept in `{}`; {remark}\n",
        topology::render::bandwidth_text(&known),
        file.display()
    ))
}

fn unreadable(error: &ReadError) -> Failure {
    Failure::new(ErrorKind::Prerequisite, error.to_string()).remedy("mount /proc and /sys")
}

/// What others on the machine are to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Manner {
    /// They may take a tenth; a quiet machine is waited for a minute.
    Patient,
    /// They are told of.
    Forced,
    /// They come first: it waits for as long as it takes, and what was measured while they were
    /// there does not count.
    WhenIdle,
}

/// A look at the processors.
struct Look {
    at: Instant,
    all: ProcessorTime,
    /// What this process has used.
    own: Duration,
}

/// Shows how far it is, and sees to it that nobody else is busy.
struct Watch<'a, 'b> {
    reader: &'a Reader,
    manner: Manner,
    processors: usize,
    err: &'a mut Output<'b>,
    /// Whether somebody watches a line change.
    live: bool,
    told: Option<Instant>,
    /// The last, before a step.
    looked: Option<Look>,
    patience: Duration,
    /// The most that others used while figures were taken.
    busiest: f64,
    failure: Option<Failure>,
}

impl<'a, 'b> Watch<'a, 'b> {
    fn new(
        reader: &'a Reader,
        arguments: &Characterize,
        processors: usize,
        err: &'a mut Output<'b>,
    ) -> Self {
        Self {
            reader,
            manner: match (arguments.force, arguments.when_idle) {
                (true, _) => Manner::Forced,
                (false, true) => Manner::WhenIdle,
                (false, false) => Manner::Patient,
            },
            processors: processors.max(1),
            err,
            live: io::stderr().is_terminal(),
            told: None,
            looked: None,
            patience: PATIENCE,
            busiest: 0.0,
            failure: None,
        }
    }

    /// Refuses a busy machine, or waits until it is idle.
    fn begin(&mut self) -> Result<(), Failure> {
        if self.manner == Manner::WhenIdle {
            while self.others_for(IDLE_FOR)? > self.busy_max() {
                self.tell("waits until others leave the processors idle")?;
            }
            return Ok(());
        }
        let busy = self.others_for(LOOK)?;
        self.busiest = self.busiest.max(busy);
        if busy > BUSY_MAX && self.manner != Manner::Forced {
            return Err(busy_machine(busy));
        }
        Ok(())
    }

    /// Share of processors' time that others may take.
    fn busy_max(&self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "processors of a machine")]
        let one = IDLE_PROCESSORS / self.processors as f64;
        match self.manner {
            Manner::WhenIdle => BUSY_MAX.min(one),
            Manner::Patient | Manner::Forced => BUSY_MAX,
        }
    }

    /// What others used, in percent, if that was too much for good figures.
    fn busy_percent(&self) -> Option<u8> {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "clamped to 0..=100 first"
        )]
        let percent = (self.busiest * 100.0).round().clamp(0.0, 100.0) as u8;
        (self.busiest > BUSY_MAX).then_some(percent)
    }

    /// Leaves the line that changed.
    fn end(&mut self) -> Result<(), Failure> {
        if self.live && self.told.is_some() {
            self.err.raw("\r\x1b[K")?;
        }
        Ok(())
    }

    fn look(&self) -> Result<Look, Failure> {
        let own = getrusage(UsageWho::RUSAGE_SELF).map_err(|errno| {
            let text = format!("own use of processors is not known: {}", errno.desc());
            Failure::new(ErrorKind::Kernel, text)
        })?;
        let time = self.reader.processor_time();
        Ok(Look {
            at: Instant::now(),
            all: time.map_err(|error| unreadable(&error))?,
            own: span(own.user_time() + own.system_time()),
        })
    }

    /// Share of processors' time that others have taken since.
    fn others_since(&self, before: &Look) -> Result<f64, Failure> {
        let now = self.look()?;
        let share = now.all.share_since(&before.all).unwrap_or(0.0);
        #[expect(clippy::cast_precision_loss, reason = "processors of a machine")]
        let had = (now.at - before.at).as_secs_f64() * self.processors as f64;
        let own = now.own.saturating_sub(before.own).as_secs_f64();
        Ok((share - own / had).max(0.0))
    }

    /// Share of processors' time that others take from now on for so long, in which nothing else is
    /// done.
    fn others_for(&mut self, time: Duration) -> Result<f64, Failure> {
        let before = self.look()?;
        std::thread::sleep(time);
        let share = self.others_since(&before)?;
        self.looked = Some(self.look()?);
        Ok(share)
    }

    /// Waits until the machine is quiet, as long as patience lasts.
    fn yield_to_others(&mut self) -> Result<(), Failure> {
        let looked = self.looked.as_ref();
        let long_ago = looked.is_none_or(|look| look.at.elapsed() >= LOOK_EVERY);
        if !long_ago && self.manner != Manner::WhenIdle {
            return Ok(());
        }
        loop {
            let busy = self.others_for(LOOK)?;
            if self.manner == Manner::Forced {
                self.busiest = self.busiest.max(busy);
                return Ok(());
            }
            if busy <= self.busy_max() {
                return Ok(());
            }
            if self.patience.is_zero() || self.manner == Manner::WhenIdle {
                return Err(busy_machine(busy));
            }
            self.tell(&format!(
                "waits: others use {:.0} % of the processors",
                busy * 100.0
            ))?;
            std::thread::sleep(Duration::from_secs(1));
            self.patience = self.patience.saturating_sub(Duration::from_secs(1) + LOOK);
        }
    }

    /// Whether others left the machine alone since the look before this step.
    fn was_left_alone(&self) -> Result<(), Failure> {
        let (Manner::WhenIdle, Some(before)) = (self.manner, &self.looked) else {
            return Ok(());
        };
        let busy = self.others_since(before)?;
        if busy <= self.busy_max() {
            return Ok(());
        }
        Err(busy_machine(busy))
    }

    fn tell(&mut self, line: &str) -> Result<(), Failure> {
        let every = match self.manner {
            Manner::WhenIdle => TELL_EVERY_IDLE,
            Manner::Patient | Manner::Forced => TELL_EVERY,
        };
        let long_ago = self.told.is_none_or(|told| told.elapsed() >= every);
        if self.live {
            self.err.raw(&format!("\r\x1b[K{line}"))?;
        } else if long_ago {
            self.err.text(&format!("{line}\n"))?;
        } else {
            return Ok(());
        }
        self.told = Some(Instant::now());
        Ok(())
    }

    /// What is to be said about an end before the end.
    fn why(&mut self, error: &RunError) -> Failure {
        let (kind, remedy) = match error {
            RunError::Stopped => (ErrorKind::Busy, "try again"),
            RunError::Broken => (
                ErrorKind::Internal,
                "say so with the output of `numadctl topo`",
            ),
            RunError::NoThread => (
                ErrorKind::Kernel,
                "raise pids.max of its cgroup, or what `ulimit` allows",
            ),
            RunError::Processor { .. } | RunError::Memory { .. } => (
                ErrorKind::Kernel,
                "run it as root, outside of containers and cpusets",
            ),
        };
        let told = self.failure.take();
        told.unwrap_or_else(|| Failure::new(kind, error.to_string()).remedy(remedy))
    }
}

impl Observer for Watch<'_, '_> {
    fn may_go_on(&mut self, progress: Progress) -> bool {
        let remaining = match progress.remaining {
            Some(left) => format!(", about {} s left", left.as_secs() + 1),
            None => String::new(),
        };
        let Progress {
            step, done, all, ..
        } = progress;
        let line = format!("{done} of {all}{remaining}: {step}");
        let went_on = self.tell(&line).and_then(|()| self.yield_to_others());
        self.failure = went_on.err();
        self.failure.is_none()
    }

    fn counts(&mut self) -> bool {
        self.failure = self.was_left_alone().err();
        self.failure.is_none()
    }
}

/// Time as the kernel counts it for a process, which is never negative.
fn span(time: TimeVal) -> Duration {
    Duration::from_micros(u64::try_from(time.num_microseconds()).unwrap_or(0))
}

fn busy_machine(busy: f64) -> Failure {
    let text = format!(
        "the machine is busy: others use {:.0} % of its processors' time",
        busy * 100.0
    );
    Failure::new(ErrorKind::Busy, text)
        .remedy("try again when it is quiet, or measure worse figures all the same with `--force`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_1024_processors_are_known() {
        let root = std::env::temp_dir().join(format!("numadctl-cpus-{}", std::process::id()));
        let task = root.join("proc/7/task/7");
        std::fs::create_dir_all(&task).unwrap();
        std::fs::write(task.join("status"), "Cpus_allowed_list:\t0-2047\n").unwrap();
        let cpus = own_processors(&Reader::new(&root), 7);
        std::fs::remove_dir_all(&root).unwrap();
        assert_eq!(cpus.unwrap().to_string(), "0-2047");
    }
}
