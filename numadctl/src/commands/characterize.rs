//! `characterize`.

use std::fs::DirBuilder;
use std::io::{IsTerminal as _, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use characterize::{Effort, Observer, Plan, PlanError, Progress, RunError};
use control::{ErrorKind, Failure};
use nix::sched::sched_getaffinity;
use nix::unistd::Pid;
use procfs::{ProcessorTime, ReadError, Reader};
use serde_json::json;
use topology::{CpuSet, Measured, NodeId, Topology};

use super::state_directory;
use crate::cli::Characterize;
use crate::fresh::{Fresh, cannot_write};
use crate::output::Output;
use crate::render;

/// Share of all processors' time that others may take: one in ten is what daemons of an idle server take
/// at worst, and more changes figures by more than runs differ.
const BUSY_MAX: f64 = 0.1;
/// How long it is looked whether others are busy; 30 ticks of each processor.
const LOOK: Duration = Duration::from_millis(300);
/// How often, while measuring.
const LOOK_EVERY: Duration = Duration::from_secs(3);
/// How long a quiet machine is waited for, in all.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often progress is told where nobody watches a line change.
const TELL_EVERY: Duration = Duration::from_secs(5);

pub(super) fn characterize(
    arguments: &Characterize,
    out: &mut Output<'_>,
    err: &mut Output<'_>,
) -> Result<(), Failure> {
    let topology = topology::load("this").map_err(|error| super::topo::refused(&error))?;
    let fingerprint = topology.fingerprint();
    let directory = state_directory(arguments.directory.as_deref())?;
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
    let plan = plan(&topology, &reader)?;
    // Before the work: what cannot be kept need not be measured.
    let fresh = begin(&directory, &Measured::path(&directory, fingerprint))?;
    let mut watch = Watch::new(&reader, arguments, err);
    watch.begin()?;
    let measured = characterize::run(&plan, fingerprint, &mut watch);
    watch.end()?;
    let mut measured = measured.map_err(|error| watch.why(&error))?;
    measured.busy_percent = watch.busy_percent();
    keep(fresh, &measured)?;
    let remedy = "the daemon uses it from its next start on";
    show(arguments, topology, &measured, (&directory, remedy), out)
}

fn plan(topology: &Topology, reader: &Reader) -> Result<Plan, Failure> {
    let free = reader.node_memory().map_err(|error| unreadable(&error))?;
    let free_of = |node: NodeId| {
        let found = free.iter().find(|memory| memory.node == node);
        // A kernel without nodes tells of none; then the allocator has to say.
        found.map_or(u64::MAX, |memory| {
            memory.free_bytes.saturating_add(memory.file_bytes / 2)
        })
    };
    let mask = sched_getaffinity(Pid::from_raw(0)).map_err(|errno| {
        let text = format!("own processors are not known: {}", errno.desc());
        Failure::new(ErrorKind::Kernel, text)
    })?;
    let online = topology.online();
    let allowed: CpuSet = online
        .iter()
        .filter(|cpu| mask.is_set(cpu.index()).unwrap_or(false))
        .collect();
    Plan::new(topology, &allowed, free_of, Effort::default()).map_err(|error| {
        let (kind, remedy) = match error {
            PlanError::NoProcessor => (ErrorKind::Prerequisite, "run it outside of the cpuset"),
            PlanError::TooLittleMemory { .. } => (ErrorKind::Busy, "free some, and try again"),
        };
        Failure::new(kind, error.to_string()).remedy(remedy)
    })
}

/// Begins the file, in a directory that is made if need be as the daemon makes it.
fn begin(directory: &Path, path: &Path) -> Result<Fresh, Failure> {
    let made = DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory);
    made.map_err(|error| not_kept(&cannot_write(directory, &error)))?;
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
        format!("\nmeasured while others used {busy} % of the processors: figures are too low\n")
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

/// Shows how far it is, and sees to it that nobody else is busy.
struct Watch<'a, 'b> {
    reader: &'a Reader,
    force: bool,
    err: &'a mut Output<'b>,
    /// Whether somebody watches a line change.
    live: bool,
    told: Option<Instant>,
    looked: Instant,
    patience: Duration,
    /// The most that others used while figures were taken.
    busiest: f64,
    failure: Option<Failure>,
}

impl<'a, 'b> Watch<'a, 'b> {
    fn new(reader: &'a Reader, arguments: &Characterize, err: &'a mut Output<'b>) -> Self {
        Self {
            reader,
            force: arguments.force,
            err,
            live: std::io::stderr().is_terminal(),
            told: None,
            looked: Instant::now(),
            patience: PATIENCE,
            busiest: 0.0,
            failure: None,
        }
    }

    /// Refuses a busy machine.
    fn begin(&mut self) -> Result<(), Failure> {
        let busy = self.look()?;
        self.busiest = self.busiest.max(busy);
        if busy > BUSY_MAX && !self.force {
            return Err(busy_machine(busy));
        }
        Ok(())
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

    /// Share of processors' time that others take now.
    fn look(&mut self) -> Result<f64, Failure> {
        let time = |reader: &Reader| -> Result<ProcessorTime, Failure> {
            reader.processor_time().map_err(|error| unreadable(&error))
        };
        let before = time(self.reader)?;
        std::thread::sleep(LOOK);
        let share = time(self.reader)?.share_since(&before);
        self.looked = Instant::now();
        Ok(share.unwrap_or(0.0))
    }

    /// Waits until the machine is quiet, as long as patience lasts.
    fn yield_to_others(&mut self) -> Result<(), Failure> {
        if self.looked.elapsed() < LOOK_EVERY {
            return Ok(());
        }
        if self.force {
            let busy = self.look()?;
            self.busiest = self.busiest.max(busy);
            return Ok(());
        }
        loop {
            let busy = self.look()?;
            if busy <= BUSY_MAX {
                return Ok(());
            }
            if self.patience.is_zero() {
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

    fn tell(&mut self, line: &str) -> Result<(), Failure> {
        let long_ago = self.told.is_none_or(|told| told.elapsed() >= TELL_EVERY);
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
        let went_on = self.yield_to_others().and_then(|()| self.tell(&line));
        self.failure = went_on.err();
        self.failure.is_none()
    }
}

fn busy_machine(busy: f64) -> Failure {
    let text = format!(
        "the machine is busy: others use {:.0} % of its processors' time",
        busy * 100.0
    );
    Failure::new(ErrorKind::Busy, text)
        .remedy("try again when it is quiet, or `--force` it; figures will be too low")
}
