//! Requests and answers.
//!
//! | request | body | answer |
//! | --- | --- | --- |
//! | `GET /v1/status` | | [`Status`] |
//! | `GET /v1/attachments` | | a list of [`Attachment`] |
//! | `POST /v1/attachments` | [`AttachRequest`] | [`Attachment`] |
//! | `GET /v1/attachments/{id}` | | [`AttachmentDetail`] |
//! | `DELETE /v1/attachments/{id}` | | [`UndoReport`] |
//! | `GET /v1/attachments/{id}/matrix?window=live` or `decayed` | | [`Matrix`] |
//! | `GET /v1/attachments/{id}/events?last=N` | | a list of [`EventRow`], oldest first |
//! | `GET /v1/recordings` | | a list of [`RecordingRow`] |
//! | `POST /v1/recordings` | [`RecordRequest`] | the recording as it is made, until it ends |
//! | `DELETE /v1/recordings/{id}` | | [`RecordingRow`] |
//! | `GET /v1/experiments` | | a list of [`ExperimentRow`](crate::experiment::ExperimentRow) |
//! | `POST /v1/experiments` | [`ExperimentRequest`](crate::experiment::ExperimentRequest) | [`ExperimentRow`](crate::experiment::ExperimentRow) |
//! | `GET /v1/experiments/{id}` | | [`Experiment`](crate::experiment::Experiment) |
//! | `GET /v1/experiments/{id}/turn?after=N` | | [`ExperimentRow`](crate::experiment::ExperimentRow), when something happened since turn N, or after 10 s |
//! | `POST /v1/experiments/{id}/readings` | [`ReadingRequest`](crate::experiment::ReadingRequest) | [`ExperimentRow`](crate::experiment::ExperimentRow) |
//! | `DELETE /v1/experiments/{id}` | | [`Experiment`](crate::experiment::Experiment) |
//! | `GET /v1/history` | | a list of [`StoryRow`](crate::story::StoryRow) |
//! | `GET /v1/history/{id}` | | [`Story`](crate::story::Story) |
//! | `GET /v1/policies` | | a list of [`PolicyRow`] |
//! | `POST /v1/undo` | [`UndoRequest`] | [`UndoReport`] |
//! | `GET /v1/journal` | | [`JournalReport`] |
//! | `POST /v1/reload` | | [`ReloadReport`] |
//! | `GET /v1/doctor` | | a list of [`Finding`] |
//! | `GET /v1/config` | | [`ConfigText`] |
//! | `GET /v1/openapi.json` | | the description of all this |
//! | `GET /metrics` | | Prometheus text |

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What to put under which policy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AttachRequest {
    /// Which program.
    pub target: Target,
    /// Name of the policy; the default policy of the settings when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// Settings of the policy by name, and of the engine for this program by full name, such as
    /// `engine.hold_ms`, as text; absent ones are as in the settings file.
    #[serde(default)]
    pub set: BTreeMap<String, String>,
    /// Decide and tell, but change nothing.
    #[serde(default)]
    pub dry_run: bool,
    /// Detach after so many milliseconds by itself, for whoever may not be there to do it; never
    /// when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub for_ms: Option<u64>,
}

/// How a program is named.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// These processes.
    Pids(Vec<u32>),
    /// Every process in this control group and below, by path under the cgroup file system.
    Cgroup(String),
    /// Every process of this systemd unit.
    Unit(String),
    /// Every process whose command has this name; exactly as in `/proc/PID/comm`.
    Command(String),
    /// Every process that says it is a rank of this MPI job, and those that it spawns later.
    Job(String),
}

/// An attached program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Attachment {
    /// Its number.
    pub id: u32,
    /// Its processes.
    pub pids: Vec<u32>,
    /// Name of its first process.
    pub command: String,
    /// User that owns it.
    pub uid: u32,
    /// Name of its policy.
    pub policy: String,
    /// Whether nothing is changed.
    pub dry_run: bool,
    /// Seconds since it was attached.
    pub attached_s: f64,
    /// The source of its samples, as in `faults (soft-dirty)`.
    pub source: String,
    /// Windows judged so far.
    pub windows: u64,
    /// Length of the present window in milliseconds.
    pub window_ms: u64,
    /// Threads alive, and of these the ones that take part in mapping.
    pub threads: u32,
    /// Threads that take part.
    pub tasks: u32,
    /// Samples taken so far.
    pub samples: u64,
    /// Samples in the last window.
    pub samples_window: u64,
    /// Samples lost so far, on the whole machine.
    pub lost: u64,
    /// Pages tracked.
    pub pages: u32,
    /// How sure the last window was.
    pub evidence: Evidence,
    /// What was changed and not yet undone, and what was refused.
    pub ledger: Ledger,
    /// How far memory is that goes on moving from window to window; none where all that is to move
    /// fits into one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moving: Option<Moving>,
    /// Mean distance of communication in the last window, 10 is all local; none without
    /// communication.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub distance: Option<f64>,
    /// Share of tracked accesses that are local, 0 to 1; none while unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub local_share: Option<f64>,
    /// What is counted of it; none where nothing is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counts: Option<Counts>,
    /// How its external policy does; none for a policy of numad's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external: Option<External>,
    /// Those of its processes that say they are ranks of MPI jobs, by job and rank.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ranks: Vec<RankRow>,
    /// Why its policy cannot do here what it is for; none where it can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_vain: Option<String>,
    /// What the kernel's own balancing does beside numad; none while it is off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<KernelMoves>,
    /// Share of its memory, that of files apart, of which nothing is known because nothing but
    /// writes is seen, 0 to 1; none where reads are seen as well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unseen_share: Option<f64>,
}

/// What the kernel's own balancing does beside numad.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelMoves {
    /// Pages that it moved since the attach, of all programs; none where the kernel does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine_pages: Option<u64>,
    /// Times that a page of this program was found elsewhere than numad had put it.
    pub pages_elsewhere: u64,
    /// Wishes for threads and pages that were left to it.
    pub left: u64,
}

/// A process that says it is a rank of an MPI job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankRow {
    /// The job, as its launcher names it.
    pub job: String,
    /// The number in `MPI_COMM_WORLD`.
    pub rank: u32,
    /// How many ranks that has, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u32>,
    /// The process.
    pub pid: u32,
    /// `openmpi`, `pmix`, `slurm` or `hydra`: whose variables say so.
    pub launcher: String,
}

/// How an external policy does. Whatever is not an answer in time stands for no proposal in that
/// window.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct External {
    /// What it is doing, in words.
    pub state: String,
    /// Windows that it was asked about.
    pub asked: u64,
    /// Of these, the ones that it answered in time.
    pub answered: u64,
    /// Windows it was not asked about, because it was busy or did not run.
    pub passed_over: u64,
    /// How often it ended by itself, or could not be started.
    pub crashes: u64,
    /// Lines that were no answer, or too long.
    pub garbage: u64,
    /// How often it did not answer in time.
    pub silences: u64,
    /// How often it was started.
    pub starts: u64,
    /// What went wrong last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_fault: Option<String>,
}

/// What is counted of a program; what is absent is not counted here, see `doctor`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Counts {
    /// Instructions per cycle in the last window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ipc: Option<f64>,
    /// Processor time since it was attached, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_s: Option<f64>,
    /// Instructions since then, without the kernel's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<u64>,
    /// Cycles since then, without the kernel's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cycles: Option<u64>,
    /// Page faults since then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub faults: Option<u64>,
    /// Context switches since then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub switches: Option<u64>,
    /// Share of the last window that counters ran, 0 to 1: less than 1 when they took turns.
    pub coverage: f64,
    /// What is not counted, one sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub absent: Vec<String>,
}

/// What the memory of a node, or of several that are not told apart, carries for everyone.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MemoryRow {
    /// The nodes.
    pub nodes: Vec<u32>,
    /// Bytes read per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read: Option<f64>,
    /// Bytes written per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written: Option<f64>,
    /// Bytes per second, where reads are not told from writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub both: Option<f64>,
    /// Clocks of the controller that a read waits in its queue on average.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_wait_clocks: Option<f64>,
    /// The same for writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_wait_clocks: Option<f64>,
}

/// What a package sends over a link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LinkRow {
    /// The package.
    pub package: u32,
    /// The link.
    pub link: String,
    /// Bytes per second.
    pub sent: f64,
}

/// What a package or its memory takes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PowerRow {
    /// The package.
    pub package: u32,
    /// `package` or `memory`.
    pub domain: String,
    /// Joules per second.
    pub watts: f64,
}

/// How sure a window is of what it shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    /// Samples that it rests on, those included of windows before that had too few and were joined
    /// to it.
    pub samples: u64,
    /// Of these, for each thread that takes part.
    pub samples_per_task: f64,
    /// Of these, for each page tracked.
    pub samples_per_page: f64,
    /// Share of samples that was lost, 0 to 1; at most, for what other programs lost counts too.
    pub lost_share: f64,
    /// Share of the processor time of threads that take part which is of threads that were sampled,
    /// 0 to 1.
    pub coverage: f64,
    /// Least confidence that a move needs.
    pub confidence_min: f64,
    /// Whether it was enough to decide by.
    pub confident: bool,
}

/// What was done to a program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ledger {
    /// Threads whose affinity is ours now.
    pub threads_bound: u32,
    /// Times a thread was given another affinity.
    pub thread_moves: u64,
    /// Pages moved.
    pub pages_moved: u64,
    /// Bytes moved.
    pub bytes_moved: u64,
    /// Pages that the kernel refused to move.
    pub pages_refused: u64,
    /// Nanoseconds of processor time in system calls that moved pages.
    pub spent_ns: u64,
    /// The longest that one of them took.
    pub pause_max_ns: u64,
}

/// Memory that takes more than one window to move.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Moving {
    /// Bytes moved so far.
    pub bytes_moved: u64,
    /// Bytes that the last window left for the next.
    pub bytes_left: u64,
    /// Seconds that they take as fast as it went so far; none before the first were moved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds_left: Option<f64>,
}

/// An attached program with its threads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AttachmentDetail {
    /// The program.
    pub attachment: Attachment,
    /// Its threads, by ascending number.
    pub threads: Vec<ThreadRow>,
    /// Policy settings in force, as text.
    pub settings: BTreeMap<String, String>,
}

/// A thread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ThreadRow {
    /// Its process.
    pub pid: u32,
    /// Its number.
    pub tid: u32,
    /// Its name.
    pub name: String,
    /// The processor it ran on last.
    pub cpu: u32,
    /// The node of that processor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<u32>,
    /// The node we placed it on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placed: Option<u32>,
    /// Whether it takes part in mapping.
    pub takes_part: bool,
    /// Share of one processor that it used, or waited for, in the last window.
    pub busy: f64,
    /// Samples in the last window.
    pub samples: u64,
}

/// What was sampled on a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeAccesses {
    /// The node; absent for threads of which it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<u32>,
    /// Threads there.
    pub threads: u64,
    /// Their samples in the last window.
    pub samples: u64,
}

impl NodeAccesses {
    /// Those of some threads, by ascending node.
    #[must_use]
    pub fn of(threads: &[ThreadRow]) -> Vec<Self> {
        let mut nodes: BTreeMap<Option<u32>, Self> = BTreeMap::new();
        for thread in threads {
            let node = nodes.entry(thread.node).or_default();
            node.node = thread.node;
            node.threads += 1;
            node.samples += thread.samples;
        }
        nodes.into_values().collect()
    }
}

/// Who talks to whom.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Matrix {
    /// `live` or `decayed`.
    pub window: String,
    /// Threads, by position.
    pub tids: Vec<u32>,
    /// Node each thread is on, where known.
    pub nodes: Vec<Option<u32>>,
    /// The MPI rank each thread is of; empty where none is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ranks: Vec<Option<u32>>,
    /// One row per thread.
    pub rows: Vec<Vec<u64>>,
    /// Samples that stand behind it.
    pub samples: u64,
    /// Samples behind each cell: its amount over the mean period of samples.
    pub support: Vec<Vec<u64>>,
    /// Confidence of the bounds in `partners`.
    pub confidence: f64,
    /// For each thread that shares anything, with whom it shares most.
    pub partners: Vec<Partner>,
}

/// The one that a thread shares most with.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Partner {
    /// The thread.
    pub tid: u32,
    /// The other.
    pub with: u32,
    /// Samples that show the two sharing.
    pub samples: u64,
    /// Their share of all that show the thread sharing, 0 to 1.
    pub share: f64,
    /// Lower bound of the true share.
    pub low: f64,
    /// Upper bound.
    pub high: f64,
    /// Whether it is more than chance would show if the thread shared with all alike.
    pub sure: bool,
}

/// Something the engine did or did not do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EventRow {
    /// Seconds since the program was attached.
    pub at_s: f64,
    /// Kind in one word: `window`, `ordered`, `done`, `failed`, `dropped`, `hands_off`, `ended`.
    pub kind: String,
    /// Thread it is about, if it is about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tid: Option<u32>,
    /// One sentence for people.
    pub text: String,
}

/// What to record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordRequest {
    /// Which program. It may be attached as well.
    pub target: Target,
    /// For how long, in milliseconds; until the program ends or someone says so, when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub for_ms: Option<u64>,
}

/// A recording that is being made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RecordingRow {
    /// Its number, as in the header `numad-recording` of the answer.
    pub id: u32,
    /// User that asked for it.
    pub uid: u32,
    /// Processes recorded now.
    pub pids: Vec<u32>,
    /// Seconds since it began.
    pub recorded_s: f64,
    /// Samples in it.
    pub samples: u64,
    /// Samples that are not in it: lost on the way here, or because it was not read fast enough.
    pub lost: u64,
}

/// A policy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PolicyRow {
    /// Its name.
    pub name: String,
    /// One sentence.
    pub summary: String,
    /// Its settings.
    pub settings: Vec<SettingRow>,
}

/// A setting of a policy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SettingRow {
    /// Its name.
    pub name: String,
    /// Type and bounds in words.
    pub expects: String,
    /// Its value in force.
    pub value: String,
    /// Its default.
    pub default: String,
    /// One sentence.
    pub help: String,
}

/// One policy, as `numadctl policies show --json` prints it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PolicyPage {
    /// Its row.
    #[serde(flatten)]
    pub policy: PolicyRow,
    /// Its method as its paper has it; absent where it is of no paper.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub as_published: Option<AsPublished>,
}

/// A method as its paper has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AsPublished {
    /// Which paper.
    pub paper: String,
    /// Its interval law.
    pub interval: String,
    /// Settings of the policy that it takes.
    pub settings: Vec<String>,
    /// Where it and the policy differ.
    pub differences: Vec<DifferenceRow>,
}

/// Where a method and the policy made of it differ.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DifferenceRow {
    /// In what.
    pub what: String,
    /// As published.
    pub as_published: String,
    /// By default.
    pub by_default: String,
    /// Why.
    pub why: String,
}

/// What to undo: one of the two.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UndoRequest {
    /// Everything of this process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// Everything of everyone (root alone).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub all: bool,
}

/// What was undone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UndoReport {
    /// Threads that have their earlier affinity again.
    pub threads_restored: u64,
    /// Threads that were gone.
    pub threads_gone: u64,
    /// Threads left alone because someone else changed them since.
    pub threads_left: u64,
    /// Threads that have no affinity for now, because their cpuset has none of the processors of
    /// their own. They stay in the journal, and get it back when the cpuset has one of them again.
    #[serde(default)]
    pub threads_parked: u64,
    /// Pages that are where they were.
    pub pages_restored: u64,
    /// Pages that are gone.
    pub pages_gone: u64,
    /// Pages of shared memory that no process has in use now, so that nobody can move them. They
    /// stay in the journal as long as somebody maps the memory.
    #[serde(default)]
    pub pages_left: u64,
    /// What could not be undone, one sentence each.
    pub failed: Vec<String>,
}

/// What the undo journal holds: everything that is changed and not undone.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JournalReport {
    /// Directory that it is kept in.
    pub directory: String,
    /// By process, ascending; of users who are no admins those that are theirs and live.
    pub processes: Vec<JournalRow>,
    /// By memory that processes share; for admins alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shared: Vec<JournalMemory>,
    /// Switches of the whole machine, one sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub switches: Vec<String>,
    /// Lines that are damaged.
    #[serde(default)]
    pub damaged: u64,
    /// Whether it is of an earlier boot of the machine: all that it could undo ended with that.
    #[serde(default)]
    pub stale: bool,
}

/// What is changed of one process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JournalRow {
    /// Its number.
    pub pid: u32,
    /// When it began, in clock ticks since the machine started; 0 where an earlier version wrote
    /// the journal.
    pub start: u64,
    /// Its name; absent when it has ended or cannot be looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Threads that got a mask; of those that have ended some are counted too.
    pub threads: u64,
    /// Those of them that have no mask for now, because their cpuset has none of the processors of
    /// their own.
    pub parked: u64,
    /// What they had and what they got, most threads first.
    pub masks: Vec<JournalMask>,
    /// Private pages that were moved.
    pub pages: u64,
    /// Seconds since the first of its threads got a mask; absent when none did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since_s: Option<f64>,
}

impl JournalRow {
    /// A row of these masks, without a name; a process that began at `start`.
    #[must_use]
    pub fn new((pid, start): (u32, u64), masks: Vec<JournalMask>) -> Self {
        let waiting = masks.iter().filter(|mask| mask.got.is_none());
        Self {
            pid,
            start,
            threads: masks.iter().map(|mask| mask.threads).sum(),
            parked: waiting.map(|mask| mask.threads).sum(),
            masks,
            ..Self::default()
        }
    }
}

/// Threads that had the same mask and got the same mask.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalMask {
    /// What they had; absent where they had no mask of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub had: Option<String>,
    /// What they got last; absent where they have none for now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub got: Option<String>,
    /// How many.
    pub threads: u64,
}

/// Moved pages of memory that processes share.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalMemory {
    /// The memory, as in `memory 0:1 2066`: its kind, device and inode.
    pub memory: String,
    /// How many.
    pub pages: u64,
}

/// What a reload changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReloadReport {
    /// Settings that have another value now, as `name: old -> new`.
    pub changed: Vec<String>,
    /// Settings that were changed but take effect at the next start.
    pub at_restart: Vec<String>,
}

/// What this machine can and cannot give.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// `ok`, `limited` or `missing`.
    pub level: String,
    /// What it is about, as in `page-fault samples`.
    pub subject: String,
    /// What was found.
    pub text: String,
    /// What to do about it; empty when there is nothing.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub remedy: String,
}

/// Settings in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfigText {
    /// Files they were read from, in order.
    pub files: Vec<String>,
    /// All of them, as a settings file.
    pub text: String,
    /// All of them by full name, as `engine.hold_ms`, as text.
    #[serde(default)]
    pub settings: BTreeMap<String, String>,
}

/// The daemon.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// Its version.
    pub version: String,
    /// Its process.
    pub pid: u32,
    /// Seconds since it began to serve.
    pub up_s: f64,
    /// The machine in one line.
    pub machine: String,
    /// Number of memory nodes.
    pub nodes: u32,
    /// The source of samples and what provokes them.
    pub source: String,
    /// Why the source is not better than it is, one sentence each; empty while nothing is attached.
    pub source_notes: Vec<String>,
    /// Events for each sample now; 0 while nothing is attached.
    pub sample_period: u64,
    /// Share of the machine's processor time that numad and its samples may take, in percent.
    pub budget_percent: f64,
    /// Share that they took in the last 30 s; none while nothing is attached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used_percent: Option<f64>,
    /// Processor time the daemon used so far, in seconds.
    pub cpu_s: f64,
    /// Its resident memory in bytes.
    pub resident_bytes: u64,
    /// Rows in the journal that are not undone.
    pub journal_open: u64,
    /// Attached programs that the caller may see.
    pub attachments: Vec<Attachment>,
    /// Other actors found that place threads or memory, one sentence each.
    pub rivals: Vec<String>,
    /// What memory carries, while something is attached and where it is counted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub memory: Vec<MemoryRow>,
    /// What links carry.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<LinkRow>,
    /// What packages take.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub power: Vec<PowerRow>,
}
