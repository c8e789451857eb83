//! What the engine thread needs from the rest of the house. The live parts are in [`crate::live`];
//! tests have their own.

use std::fmt;
use std::time::Duration;

use config::{Config, ConfigError, Loaded};
use control::Failure;
use control::rows::{Finding, Target, UndoReport};
use numad_core::{AttachmentId, Host, Observation, WantedPage};
use sampler::Source;
use topology::{Pid, StartTicks, TaskKey};

/// A process, as far as the rules of attaching care.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessFacts {
    /// Its number.
    pub pid: Pid,
    /// When it began.
    pub start: StartTicks,
    /// Its name, lossily decoded.
    pub command: String,
    /// User that started it.
    pub uid: u32,
    /// Whether it has, or can take, no other user's rights.
    pub sole: bool,
    /// Whether it is a part of the kernel.
    pub kernel: bool,
}

/// A program to look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// Which.
    pub attachment: AttachmentId,
    /// Its processes; where the start is known, a process that began at another time is another.
    pub members: Vec<(Pid, Option<StartTicks>)>,
    /// Leave out processes that are not this user's alone.
    pub only_of: Option<u32>,
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

    /// Processes of a control group, unit or command name. Those named by number are given back.
    ///
    /// # Errors
    /// When there is no such thing.
    fn find(&mut self, target: &Target) -> Result<Vec<Pid>, Failure>;

    /// What is true of these programs now.
    fn observe(&mut self, programs: &[Asked]) -> Observation;

    /// A program is not looked at any more.
    fn forget(&mut self, attachment: AttachmentId);

    /// A thread's affinity was changed by us: what was seen of it before is not true any more.
    fn rebound(&mut self, attachment: AttachmentId, task: TaskKey);

    /// Others that place threads or memory, one sentence each.
    fn rivals(&mut self) -> Vec<String>;

    /// What the daemon itself uses.
    fn own_usage(&mut self) -> OwnUsage;

    /// Processor time that this thread has taken so far: the steward's, without the server's.
    fn own_time(&mut self) -> Duration;

    /// Which addresses a process has mapped; none when it is gone or cannot be asked.
    fn mapped(&mut self, _pid: Pid) -> Option<Vec<sampler::Range>> {
        None
    }

    /// What this machine can and cannot give.
    fn findings(&mut self, config: &Config) -> Vec<Finding>;
}

/// What to put back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Everything.
    All,
    /// Everything of these processes.
    Processes(Vec<Pid>),
}

/// Changes the machine, and puts it back.
pub trait Hand: Host + Send + fmt::Debug {
    /// Puts back what was changed. What could not be is named in the report.
    fn undo(&mut self, scope: &Scope) -> UndoReport;

    /// Forgets what can never be undone because its process has ended. Called now and then.
    fn tidy(&mut self);

    /// How many rows of the journal are not undone.
    fn open_rows(&self) -> u64;

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

    /// Whether samples can be taken, and how good they would be.
    fn findings(&mut self, config: &Config) -> Vec<Finding>;
}

/// Reads the settings files.
pub type Loader = Box<dyn FnMut() -> Result<Loaded, ConfigError> + Send>;
