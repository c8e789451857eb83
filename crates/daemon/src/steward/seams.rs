//! What the engine thread needs from the rest of the house. The live parts are in [`crate::live`];
//! tests have their own.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub use actuator::Scope;
use actuator::{Balancing, Breathe, ProcessKey};
use config::{Config, ConfigError, Loaded};
use control::Failure;
use control::rows::{Finding, JournalReport, Target, UndoReport};
use numad_core::{AttachmentId, Host, Observation, Refusal, Sent, WantedPage};
use procfs::{Closed, Rank, Rights};
use sampler::Source;
use topology::{CpuSet, Pid, StartTicks, TaskKey, Tid, Topology};

use crate::peer::Credentials;

/// A process, as far as the rules of attaching care.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessFacts {
    /// Its number.
    pub pid: Pid,
    /// When it began.
    pub start: StartTicks,
    /// How long ago that was, at the end of the look.
    pub age: Duration,
    /// Its name, lossily decoded.
    pub command: String,
    /// User that started it.
    pub uid: u32,
    /// Who may look into it.
    pub rights: Rights,
    /// Its threads.
    pub threads: u32,
    /// Whether it is a part of the kernel.
    pub kernel: bool,
}

/// What ranks sent each other, by job and rank.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Messages {
    /// Their processes.
    pub pids: Vec<Pid>,
    /// Their ranks.
    pub ranks: Vec<u32>,
    /// What each sent to each: bytes, messages, and those that collective calls are taken to have sent.
    pub peers: Vec<Vec<[u64; 4]>>,
}

/// A program to look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// Which.
    pub attachment: AttachmentId,
    /// Its processes; a process that began at another time is another.
    pub members: Vec<(Pid, StartTicks)>,
    /// Leave out processes that these may not look into.
    pub only_of: Option<Credentials>,
    /// Whom else the program is shown to: processes that these may not look into are named by
    /// [`Machine::unfit`].
    pub shown_to: Option<Credentials>,
    /// Most threads that it may have; further processes are left out and named by [`Machine::unfit`].
    pub threads_max: Option<usize>,
    /// Pages whose place is wanted, and where to ask for it.
    pub pages: Vec<WantedPage>,
}

/// What the daemon itself uses.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct OwnUsage {
    /// Processor time so far, in seconds.
    pub cpu_s: f64,
    /// Resident memory.
    pub resident_bytes: u64,
}

/// Looks at the machine; changes nothing.
pub trait Machine: Send + fmt::Debug {
    /// What is known of a process; none when it is not there.
    ///
    /// # Errors
    /// When it is there and cannot be read.
    fn process(&mut self, pid: Pid) -> Result<Option<ProcessFacts>, Failure>;

    /// A search for the processes of a control group, unit or command name, or for those that are named
    /// by number.
    fn finder(&mut self, target: &Target) -> Finder;

    /// What is true of these programs now.
    fn observe(&mut self, programs: &[Asked]) -> Observation;

    /// The threads of these processes, by number alone: far cheaper than [`Self::observe`].
    fn threads(&mut self, pids: &[Pid]) -> Vec<Tid>;

    /// Processes that did not fit into their program at the last look.
    fn unfit(&mut self) -> Vec<(AttachmentId, Pid, Unfit)>;

    /// Those of these processes that say they are ranks of an MPI job.
    fn ranks(&mut self, _pids: &[Pid]) -> BTreeMap<Pid, Rank> {
        BTreeMap::new()
    }

    /// What these processes sent each other by explicit messages since this was asked last.
    fn sent(&mut self, _members: &[(Pid, StartTicks)]) -> Vec<Sent> {
        Vec::new()
    }

    /// The same since they began.
    fn messages(&mut self, _members: &[(Pid, StartTicks)]) -> Messages {
        Messages::default()
    }

    /// The process that made a process, or took it over.
    fn parent(&mut self, _pid: Pid) -> Option<Pid> {
        None
    }

    /// Processes that a process made, and has.
    fn children(&mut self, _pid: Pid) -> Vec<Pid> {
        Vec::new()
    }

    /// A program is not looked at any more.
    fn forget(&mut self, attachment: AttachmentId);

    /// A thread's affinity was changed by us: what was seen of it before is not true any more.
    fn rebound(&mut self, attachment: AttachmentId, task: TaskKey);

    /// Others that place threads or memory, one sentence each.
    fn rivals(&mut self) -> Vec<String>;

    /// What the daemon itself uses.
    fn own_usage(&mut self) -> OwnUsage;

    /// Processor time that all threads of the daemon have taken so far.
    fn own_processor_time(&mut self) -> Duration;

    /// Processor time that this thread has taken so far: the steward's, without the server's.
    fn own_time(&mut self) -> Duration;

    /// Processors that the first thread of a process may run on; none when it is gone or cannot be asked.
    fn allowed(&mut self, pid: Pid) -> CpuSet;

    /// What has disturbed the machine so far, and neighbours of a process.
    fn totals(&mut self, _pid: Pid) -> experiment::Totals {
        experiment::Totals::default()
    }

    /// What the processor packages have used.
    ///
    /// # Errors
    /// When nothing here tells.
    fn energy(&mut self) -> Result<procfs::Energy, Failure> {
        Err(experiment::metric::no_energy())
    }

    /// Whether the kernel balances now, whoever has it do so.
    fn kernel_balances(&mut self) -> bool {
        false
    }

    /// Pages that it has moved so far, on the whole machine; none where nobody tells.
    fn moved_by_kernel(&mut self) -> Option<u64> {
        None
    }

    /// The date, in seconds since 1970. Nothing is decided by it.
    fn date_s(&mut self) -> u64;

    /// Which addresses a process has mapped; none when it is gone or cannot be asked.
    fn mapped(&mut self, _pid: Pid) -> Option<Vec<sampler::Range>> {
        None
    }

    /// What keeps it from seeing more, one sentence each; nothing of whose it is, for all users
    /// read them.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }

    /// A look at what this machine can and cannot give.
    fn findings(&mut self, config: &Config) -> Survey;
}

/// Why a process may not be, or stay, part of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// Those whom the program is shown to may not look into it.
    Closed(Closed),
    /// Its program would have more threads than it may.
    Crowded {
        /// Threads of the process.
        threads: u32,
        /// How many the program may have.
        most: usize,
    },
    /// Questions about its memory were given up again and again.
    Unanswering,
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed(closed) => closed.fmt(f),
            Self::Crowded { threads, most } => write!(
                f,
                "has {threads} threads, and with others more than the {most} that \
                 `limits.user_threads_max` leaves its program"
            ),
            Self::Unanswering => f.write_str("keeps its memory map locked again and again"),
        }
    }
}

/// Long work that needs nothing of the steward, for any thread to do.
pub type Job<T> = Box<dyn FnOnce() -> T + Send>;

/// A search for processes; fails when there is no such group or unit.
pub type Finder = Job<Result<Vec<ProcessFacts>, Failure>>;

/// A look at what the machine gives.
pub type Survey = Job<Vec<Finding>>;

/// Processes, each with its start where that is known.
pub type Named = BTreeMap<Pid, Option<StartTicks>>;

/// Changes the machine, and puts it back.
pub trait Hand: Host + Send + fmt::Debug {
    /// Puts back what was changed. What could not be is named in the report. Meanwhile `breathe` is called again and
    /// again, at most some milliseconds of work apart.
    fn undo(&mut self, scope: &Scope, breathe: Breathe<'_>) -> UndoReport;

    /// Whether an undo gave up for now, because threads or processes were made all the time.
    fn is_unfinished(&self) -> bool {
        false
    }

    /// Goes on with one of those, as [`Self::undo`] does; none where there is none.
    fn undo_more(&mut self, _breathe: Breathe<'_>) -> Option<UndoReport> {
        None
    }

    /// Has a user pay for what is written down of a program until it is put back. Of admins this is
    /// not said.
    fn charge(&mut self, _attachment: AttachmentId, _payer: u32) {}

    /// Takes processes for part of a program, so that their threads are found whoever of it ends first.
    fn follow(&mut self, attachment: AttachmentId, processes: &[ProcessKey]);

    /// These processes began another program: what was moved of their own memory is gone.
    fn began_another(&mut self, _pids: &[Pid]) {}

    /// Forgets what can never be undone because its process has ended. Called now and then.
    fn tidy(&mut self);

    /// Whether tidying has something to do though nothing is attached: to give threads their own
    /// mask that wait for it, or to write the journal anew without what is undone.
    fn waits(&self) -> bool {
        false
    }

    /// Has the kernel balance, if it does not.
    ///
    /// # Errors
    /// When it cannot be switched on; nothing is changed then.
    fn balance(&mut self) -> Result<Balancing, Refusal> {
        Err(Refusal::Unsupported)
    }

    /// Puts the switch of the kernel's balancing back as it was.
    ///
    /// # Errors
    /// What is in the way, in a sentence.
    fn leave_balancing(&mut self) -> Result<(), String> {
        Ok(())
    }

    /// How many rows of the journal are not undone.
    fn open_rows(&self) -> u64;

    /// What is not undone, of everyone, without names of processes; nothing where there is no journal.
    fn journal(&self) -> JournalReport {
        JournalReport::default()
    }

    /// Actions that it can do something with at once: see [`Host::perform_all`].
    fn at_once(&self) -> usize {
        1
    }

    /// Processor time that moving pages took in threads of its own since this was asked the last time.
    fn take_beside(&mut self) -> Duration {
        Duration::ZERO
    }

    /// The longest that one system call held a program since this was asked the last time, in
    /// nanoseconds.
    fn take_pause_max_ns(&mut self) -> u64;

    /// Whether changes can be made and written down.
    fn findings(&self) -> Vec<Finding>;
}

/// Opens sources of samples.
pub trait Opener: Send + fmt::Debug {
    /// Opens the source that the settings ask for.
    ///
    /// # Errors
    /// `Prerequisite`, with what to grant.
    fn open(&mut self, config: &Config) -> Result<Box<dyn Source>, Failure>;

    /// What would be opened, in a few words.
    fn describe(&mut self, config: &Config) -> String;

    /// Why the source that was opened last is not a better one; one sentence each.
    fn passed_over(&self) -> &[String] {
        &[]
    }

    /// Tries whether samples can be taken, and how good they would be.
    fn findings(&mut self, config: &Config) -> Survey;
}

/// The machine with what is measured of it, if that is news.
pub type Measurements = Box<dyn FnMut() -> Option<Arc<Topology>> + Send>;

/// What a machine can or cannot give, as `doctor` tells it.
pub fn finding(level: &str, subject: &str, text: impl Into<String>, remedy: &str) -> Finding {
    Finding {
        level: level.to_owned(),
        subject: subject.to_owned(),
        text: text.into(),
        remedy: remedy.to_owned(),
    }
}

/// Reads the settings files.
pub type Loader = Box<dyn FnMut() -> Result<Loaded, ConfigError> + Send>;
