//! What every source of samples can do.

use std::borrow::Cow;
use std::fmt;
use std::os::fd::BorrowedFd;

use std::time::Duration;

use numad_core::{Record, Time};
use topology::{CpuSet, Pid};

use crate::live::Range;
use crate::open::OpenError;
use crate::rate::{RateChange, Why};

/// A stream of records about attached programs.
///
/// Calls come from one thread. A source that has nothing to say is silent; it never blocks.
pub trait Source: Send + fmt::Debug {
    /// Delivers records of this process, and of processes that it makes from now on. What the buffers
    /// still hold of its past comes too.
    ///
    /// # Errors
    /// When the source follows as many processes as it can; nothing has changed then.
    fn attach(&mut self, pid: Pid) -> Result<(), AttachRefused>;

    /// Delivers no more records of this process, which was attached, or made by one that was. Those it
    /// made itself stay. A source forgets nobody by itself: that a process has ended is told by whoever
    /// keeps who belongs to a program.
    fn detach(&mut self, pid: Pid);

    /// Hands over what has arrived since the last call, in the order of each processor.
    ///
    /// Bounded by the source's buffers even if samples arrive faster than they are taken. Records of
    /// programs that are not attached may be among them; the engine ignores those. Losses come as
    /// [`Record::Lost`] and count the samples that the whole machine lost: nobody knows whose they
    /// were. It counts none where most likely only word of who came and went is missing.
    fn drain(&mut self, out: &mut dyn FnMut(&Record)) -> Drained;

    /// What was lost since the source was opened.
    fn losses(&self) -> Losses;

    /// What the source is, covers, and does not.
    fn describe(&self) -> SourceStatus;

    /// Whether a sample, times its period, is a number of accesses. Of page faults it is not: how often a page is
    /// used after a fault nobody sees.
    fn counts_accesses(&self) -> bool {
        true
    }

    /// A descriptor that becomes readable when a buffer is half full; none if there is nothing to wait
    /// for. A hint: drain on a timer too, or small amounts wait for ever.
    fn wait_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Does what makes samples happen if it is time for that, and says when to call again; none if
    /// the source needs no such help. Takes at most one system call that a target can feel. More
    /// than `enough` samples tell nothing new of what it makes happen.
    fn provoke(&mut self, _now: Time, _enough: u32) -> Option<Time> {
        None
    }

    /// Tells that something was worth changing in a process. A source that costs programs something may ask less of
    /// one of which it did not hear so for long.
    fn stirred(&mut self, _now: Time, _pid: Pid) {}

    /// Follows processors that came or went. What the source could not open is returned, and it
    /// goes on without; nothing else stops.
    fn refresh(&mut self, _online: &CpuSet) -> Vec<OpenError> {
        Vec::new()
    }

    /// Tells what the source costs and may cost since it was told the last time; the source changes
    /// its rate if it must or may, and says so. To be called about once a second.
    fn regulate(&mut self, _now: Time, _spending: &Spending) -> Option<RateChange> {
        None
    }

    /// How often the source samples; none if it has no say in that.
    fn rate(&self) -> Option<RateStatus> {
        None
    }

    /// Tells which addresses a followed process has mapped. A source whose hardware may give wrong
    /// addresses drops samples elsewhere from then on, until the process starts another program.
    fn set_mappings(&mut self, _pid: Pid, _ranges: &[Range]) {}

    /// Whether [`Self::set_mappings`] is of any use to the source.
    fn wants_mappings(&self) -> bool {
        false
    }
}

/// What one drain gave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drained {
    /// Records handed over.
    pub records: u64,
    /// Share of the fullest buffer that was in use, in per mille; at 1000 something was lost. Drain
    /// more often when this grows.
    pub fill_permille: u16,
    /// The source has ended and will give nothing more (a recording that was read to its end).
    pub ended: bool,
    /// When a recorded batch was drained in the first place; none for live sources.
    pub mark: Option<Time>,
}

/// Why a process cannot be followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttachRefused {
    /// The process.
    pub pid: Pid,
    /// Most processes that the source follows.
    pub limit: usize,
}

impl fmt::Display for AttachRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "cannot follow process `{}`: {} processes are followed already, which is the limit",
            self.pid, self.limit
        )
    }
}

impl std::error::Error for AttachRefused {}

/// Counts since a source was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Samples that the kernel or the hardware dropped, of any program.
    pub lost: u64,
    /// Times that the kernel stopped an event for coming too often.
    pub throttled: u64,
    /// Records that could not be read. Always 0 unless the kernel or a file is at fault.
    pub damaged: u64,
    /// Processes that were made by attached ones and are not followed, for lack of room.
    pub unfollowed: u64,
    /// Processes of anybody that were made in one drain beyond those that are looked at before it: made
    /// by attached ones, they may not be followed.
    pub overlooked: u64,
    /// Samples of attached programs that were dropped because they could not be true: an address
    /// that is not mapped, a level that its own details contradict.
    pub invalid: u64,
    /// Samples taken in attached programs that were of the kernel's memory, and so were dropped.
    pub kernel: u64,
}

/// What sampling costs and may cost, over some time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spending {
    /// How long that was.
    pub elapsed: Duration,
    /// Our own processor time for samples, in nanoseconds.
    pub own_ns: u64,
    /// What sampling may cost, ourselves and programs together, in nanoseconds.
    pub allowed_ns: u64,
    /// What it may cost whatever runs on any one processor, in nanoseconds.
    pub processor_allowed_ns: u64,
}

/// How often a source samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateStatus {
    /// Events for each sample.
    pub period: u64,
    /// Whether that stays, as was asked for.
    pub fixed: bool,
    /// What a sample costs the program that is sampled, in nanoseconds, as estimated.
    pub target_ns: u32,
    /// Samples taken since the source was opened, of any program: all cost something.
    pub taken: u64,
    /// Why samples are rarer than they could be; none if they are not.
    pub held_back_by: Option<Why>,
    /// How many times longer the events were enabled than they ran, in per mille: above 1000 they take
    /// turns with other programs' events.
    pub turns_permille: u64,
}

/// What a source is and what it sees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceStatus {
    /// Its name in settings.
    pub name: &'static str,
    /// What makes samples happen, in a few words.
    pub provocation: &'static str,
    /// What it covers.
    pub coverage: Coverage,
    /// Why it is not better than it is, and what would help; one sentence each.
    pub notes: Vec<Cow<'static, str>>,
    /// Processors it listens on.
    pub cpus: usize,
    /// Buffer of each processor, in bytes; the smallest if they differ.
    pub ring_bytes: usize,
}

/// Which accesses a source sees and what it knows of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coverage {
    /// Reads.
    pub loads: Covers,
    /// Writes.
    pub stores: Covers,
    /// How long an access took.
    pub latency: Covers,
    /// Which cache or memory answered.
    pub levels: Covers,
    /// Physical addresses.
    pub physical: Covers,
}

/// Whether something is covered, with the reason where it is not or not wholly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Covers {
    /// Wholly.
    Yes,
    /// In part.
    Partly(&'static str),
    /// Not at all.
    No(&'static str),
}

impl fmt::Display for Covers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Yes => f.write_str("yes"),
            Self::Partly(why) => write!(f, "partly ({why})"),
            Self::No(why) => write!(f, "no ({why})"),
        }
    }
}
