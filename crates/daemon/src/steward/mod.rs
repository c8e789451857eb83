//! The steward owns the engine, the source, the host and the journal, on one thread, and is the only
//! one that touches them. It does what it is asked over its [`Line`], and whatever is due.
//!
//! With nothing attached the source is closed and the thread sleeps until it is asked something.

mod attach;
mod away;
mod balancing;
mod batch;
mod carry;
mod counters;
mod ending;
mod experiments;
mod fit;
mod history;
mod line;
mod members;
mod meters;
mod metrics;
mod overhead;
mod program;
mod ranks;
mod record;
mod recording;
mod reload;
mod seams;
mod stories;
mod undo_text;
mod view;

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use actuator::Balancing;
use config::{Config, LogLevel, Users};
use numad_core::{AttachmentId, Engine, EventKind, Lifecycle, Observation, Record, Refusal, Time};
use sampler::Source;
use tokio::sync::watch;
use topology::{Pid, Tid, Topology};

use crate::clock::Clock;
use crate::descriptors;
use crate::external::Running;
use crate::log::{Level, Log};
use crate::peer::{self, Access};
use crate::server::{Gate, REFUSED_MAX};

pub use away::Between;
use batch::Batch;
pub(crate) use counters::Counters;
pub use experiments::{Experiments, Found};
pub use history::HISTORY_MAX;
pub use line::{Lane, Line, Orders, line};
use members::Members;
pub use meters::Meters;
pub use metrics::{CONNECTIONS_EVICTED, CONNECTIONS_REFUSED, Metric, write_metric};
use overhead::{Measured, Overhead};
use program::Program;
pub use record::{Begun, RECORDINGS_MAX};
use recording::Recording;
pub use seams::{
    Asked, Finder, Hand, Job, Loader, Machine, Measurements, Messages, Named, Opener, OwnUsage,
    ProcessFacts, Scope, Survey, Unfit, finding,
};
pub use stories::{Stories, read_story};
pub use undo_text::undo_text;
pub use view::{Checkup, MatrixDraft, MatrixWindow};

/// Least and most time between two readings of the source's buffers.
///
/// A buffer of 64 pages holds about 5,000 samples; at 20 ms that is 250,000 page faults per second
/// and processor, more than a processor can take. Buffers that are half full wake the thread, so
/// those that stay empty may be left alone; the longest is that of the other work.
const DRAIN_LEAST: Duration = Duration::from_millis(20);
const DRAIN_MOST: Duration = Duration::from_secs(1);
/// The latter of a source that does not wake.
const DRAIN_UNTOLD: Duration = Duration::from_millis(100);

/// Pages whose place is asked for in one window.
///
/// Two for each piece of memory that a policy is given. Measured here, `move_pages` as a question takes 0.1 to 0.3 us a
/// page: 1 ms of a window of 500.
const WANTED_PAGES_MAX: usize = 4096;

/// How often the journal is tidied while something is attached.
const TIDY_EVERY: Duration = Duration::from_secs(60);

/// Everything the steward needs from elsewhere.
pub struct Parts {
    /// The machine.
    pub topology: Arc<Topology>,
    /// Tells what is measured of it later.
    pub measured: Measurements,
    /// Bytes in a page.
    pub page_bytes: u64,
    /// Looks.
    pub machine: Box<dyn Machine>,
    /// Changes.
    pub hand: Box<dyn Hand>,
    /// Opens sources.
    pub opener: Box<dyn Opener>,
    /// Counts beside them.
    pub meters: Meters,
    /// Settings at the start, and the files they come from.
    pub config: Config,
    /// Those files.
    pub files: Vec<PathBuf>,
    /// Reads them again.
    pub loader: Loader,
    /// Tells the time.
    pub clock: Clock,
    /// Where to tell.
    pub log: Log,
    /// Where the server learns of settings that concern it.
    pub gate: watch::Sender<Gate>,
}

/// See the module.
pub struct Steward {
    parts: Parts,
    engine: Engine,
    programs: BTreeMap<AttachmentId, Program>,
    members: Members,
    ended: VecDeque<Ended>,
    recordings: BTreeMap<u32, Recording>,
    experiments: Experiments,
    stories: Stories,
    /// External policies that run.
    external_running: Running,
    /// The number of the last recording.
    last_recording: u32,
    source: Option<OpenSource>,
    /// Why the source is not a better one, as it was told last.
    told_passed_over: Vec<String>,
    /// When others that place threads were looked for, and what was found.
    rivals_seen: (Option<Time>, Vec<String>),
    /// What became of the wish that the kernel balance, while there is one.
    balancing_told: Option<Result<Balancing, Refusal>>,
    /// Somebody has switched it off since programs wanted it, and is right as long as any does.
    switched_off_by_other: bool,
    began: Time,
    counters: Counters,
    /// What is done while an undo goes on; none while one does, or where nobody waits.
    between: Option<Between>,
    /// When an undo goes on that had to give up, while there is one.
    undo_again: Option<Time>,
    /// Kept to allocate once; empty between drains.
    batch: Batch,
}

/// A program that has ended, or was detached, and can still be asked about.
struct Ended {
    id: AttachmentId,
    at: Time,
    program: Program,
}

/// The source, while something is attached.
struct OpenSource {
    source: Box<dyn Source>,
    next_drain: Time,
    drain_every: Duration,
    provoke_at: Option<Time>,
    next_tidy: Time,
    /// Throttlings that the engine was told of.
    throttled_told: u64,
    /// Children that it did not follow, as far as that was noted.
    unfollowed_told: u64,
    /// What it costs.
    overhead: Overhead,
}

impl fmt::Debug for Steward {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let programs: Vec<_> = self.programs.keys().collect();
        f.debug_struct("Steward")
            .field("programs", &programs)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parts")
            .field("machine", &self.machine)
            .finish_non_exhaustive()
    }
}

/// What the server has to know of settings; looks up the admin group.
#[must_use]
pub fn gate_of(config: &Config) -> Gate {
    let users = match config.access.users {
        Users::Own => peer::Users::Own,
        Users::None => peer::Users::Nobody,
    };
    let admin_group = config.access.admin_group.as_deref();
    let others = config.limits.admin_connections_max + REFUSED_MAX;
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let limit = descriptors::limit();
    Gate {
        access: Access::of(users, admin_group.unwrap_or_default()),
        connections_max: descriptors::connections_within(
            limit,
            config.daemon.connections_max,
            others,
            cpus,
        ),
        limits: config.limits,
    }
}

/// The level of the log that the settings ask for.
#[must_use]
pub const fn level_of(config: &Config) -> Level {
    match config.daemon.log_level {
        LogLevel::Error => Level::Error,
        LogLevel::Warn => Level::Warn,
        LogLevel::Info => Level::Info,
        LogLevel::Debug => Level::Debug,
    }
}

impl Steward {
    /// A steward with nothing attached.
    #[must_use]
    pub fn new(mut parts: Parts, experiments: Experiments, stories: Stories) -> Self {
        let subordinates = parts.gate.borrow().access.subordinates.clone();
        parts.log.count_by(subordinates);
        parts.meters = parts.meters.switched(parts.config.sampling.counters);
        let options = parts.config.engine_options(parts.page_bytes);
        let mut engine = Engine::new(Arc::clone(&parts.topology), options);
        engine.map_within_nodes(policies::within_nodes());
        engine.number_from(stories.last().saturating_add(1));
        let began = (parts.clock)();
        Self {
            parts,
            engine,
            programs: BTreeMap::new(),
            members: Members::default(),
            ended: VecDeque::new(),
            recordings: BTreeMap::new(),
            experiments,
            stories,
            external_running: Running::default(),
            last_recording: 0,
            source: None,
            told_passed_over: Vec::new(),
            rivals_seen: (None, Vec::new()),
            balancing_told: None,
            switched_off_by_other: false,
            began,
            counters: Counters::default(),
            between: None,
            undo_again: None,
            batch: Batch::new(),
        }
    }

    /// What time it is.
    #[must_use]
    pub fn now(&self) -> Time {
        (self.parts.clock)()
    }

    /// The user that pays for what this one takes.
    fn payer(&self, uid: u32) -> u32 {
        self.parts.gate.borrow().access.payer(uid)
    }

    /// Where to tell.
    #[must_use]
    pub const fn log(&self) -> &Log {
        &self.parts.log
    }

    /// How long nothing will be due; none while nothing is attached, recorded or compared.
    #[must_use]
    pub fn wait(&self, now: Time) -> Option<Duration> {
        let source = self.source.as_ref();
        let due = [
            self.experiments.due(),
            self.undo_again,
            source.map(|source| source.next_drain),
            source.and_then(|source| source.provoke_at),
            source.map(|source| source.overhead.due()),
            self.judging_due().filter(|_| source.is_some()),
            self.programs
                .values()
                .filter_map(|program| program.until)
                .min(),
        ];
        let recordings = self.recordings.values().map(Recording::due);
        due.into_iter()
            .flatten()
            .chain(recordings)
            .min()
            .map(|due| due.since(now))
    }

    /// What becomes readable when samples wait; none while nothing is attached.
    #[must_use]
    pub fn source_fd(&self) -> Option<BorrowedFd<'_>> {
        self.source.as_ref()?.source.wait_fd()
    }

    /// Buffers are filling: they are read with the next turn.
    pub fn samples_wait(&mut self) {
        let now = self.now();
        if let Some(open) = &mut self.source {
            open.next_drain = open.next_drain.min(now);
        }
    }

    /// Does what is due: reads samples, provokes them, judges windows.
    pub fn turn(&mut self) {
        let now = self.now();
        let began = self.parts.machine.own_time();
        let is_due = |at: Time| now >= at;
        let source = self.source.as_ref();
        let provokes = source.is_some_and(|source| source.provoke_at.is_some_and(is_due));
        // Who became another program since must be known before it is made to fault.
        if provokes || source.is_some_and(|source| is_due(source.next_drain)) {
            self.drain(now);
        }
        if let Some(source) = self.source.as_mut().filter(|_| provokes) {
            let enough = self.engine.samples_enough();
            source.provoke_at = source.source.provoke(now, enough);
        }
        self.regulate(now);
        if self.judging_due().is_some_and(|due| now >= due) {
            // Before what was sampled, which ends with a mark: a replay closes its window at that.
            self.take_messages(now);
            self.drain(now);
            self.judge(now);
        }
        self.detach_what_is_over(now);
        self.tend_recordings(now);
        self.conduct();
        self.put_back_more(now);
        if let Some(source) = &mut self.source
            && now >= source.next_tidy
        {
            source.next_tidy = now.after(TIDY_EVERY);
            self.parts.hand.tidy();
        }
        self.listen();
        let spent = self.parts.machine.own_time().saturating_sub(began);
        if let Some(open) = &mut self.source {
            open.overhead.worked(spent + self.parts.hand.take_beside());
        }
    }

    /// When windows are judged next: when one has ended, and the budget allows it.
    fn judging_due(&self) -> Option<Time> {
        let end = self.engine.deadline()?;
        let overhead = self.source.as_ref().map(|open| &open.overhead);
        Some(overhead.map_or(end, |overhead| overhead.ready(end)))
    }

    /// Hands what the source has to the engine.
    fn drain(&mut self, now: Time) {
        let Some(open) = &mut self.source else {
            return;
        };
        let (engine, counters) = (&mut self.engine, &mut self.counters);
        let members = &mut self.members;
        let batch = &mut self.batch;
        let began = (self.parts.clock)();
        let recordings = &mut self.recordings;
        let mut started = Vec::new();
        let mut lost = false;
        let drained = open.source.drain(&mut |record| {
            if let Record::Lifecycle(change) = record {
                members.take(change);
            }
            match record {
                Record::Sample(_) => counters.samples += 1,
                Record::Lost(count) => {
                    lost = true;
                    counters.lost = counters.lost.saturating_add(*count);
                }
                Record::Lifecycle(Lifecycle::Renamed {
                    pid, exec: true, ..
                }) if started.len() < fit::RECHECKED_MAX => started.push(*pid),
                Record::Lifecycle(_) | Record::Sent(_) => {}
            }
            for recording in recordings.values_mut() {
                recording.take(record);
            }
            batch.push(record, engine);
        });
        batch.hand_over(engine);
        let losses = open.source.losses();
        let unfollowed = losses.unfollowed + losses.overlooked;
        if lost || unfollowed > open.unfollowed_told {
            members.lost(self.programs.keys().copied());
        }
        open.unfollowed_told = unfollowed;
        members
            .take_read()
            .into_iter()
            .for_each(|pid| open.source.detach(pid));
        open.overhead.drained((self.parts.clock)().since(began));
        for recording in recordings.values_mut() {
            recording.settle(now, &mut *self.parts.machine);
        }
        let most = match open.source.wait_fd() {
            Some(_) => DRAIN_MOST,
            None => DRAIN_UNTOLD,
        };
        open.drain_every = next_drain(open.drain_every, drained.fill_permille, most);
        open.next_drain = now.after(open.drain_every);
        self.parts.hand.began_another(&started);
        self.recheck(now, &started);
        self.settle_members();
        self.renamed(&started);
    }

    /// Tells the source what it costs and may cost, if it is time for that.
    fn regulate(&mut self, now: Time) {
        let Some(open) = &mut self.source else {
            return;
        };
        if now < open.overhead.due() {
            return;
        }
        let measured = Measured {
            now,
            own: self.parts.machine.own_processor_time(),
            rate: open.source.rate(),
            cpus: self.parts.topology.online().len(),
            budget: self.parts.config.overhead.budget,
        };
        let spending = open.overhead.spending(&measured);
        if let Some(change) = open.source.regulate(now, &spending) {
            self.parts.log.debug(format_args!("sampling: {change}"));
        }
        // Who records wants all that can be seen, however little there is to do about it.
        let recorded: Vec<Pid> = self.recordings.values().flat_map(Recording::pids).collect();
        self.stir(now, &recorded);
    }

    /// Tells the source that something is worth looking at in these processes.
    fn stir(&mut self, now: Time, pids: &[Pid]) {
        let Some(open) = self.source.as_mut().filter(|_| !pids.is_empty()) else {
            return;
        };
        for &pid in pids {
            open.source.stirred(now, pid);
        }
        // Their turn may be sooner now.
        open.provoke_at = open.provoke_at.map(|at| at.min(now));
    }

    /// Tells the source which addresses programs have, if it has a use for that.
    fn tell_mappings(&mut self, asked: &[Asked]) {
        let Some(open) = &mut self.source else {
            return;
        };
        if !open.source.wants_mappings() {
            return;
        }
        for pid in asked
            .iter()
            .flat_map(|asked| self.members.pids(asked.attachment))
        {
            if let Some(ranges) = self.parts.machine.mapped(pid) {
                open.source.set_mappings(pid, &ranges);
            }
        }
    }

    /// Looks at a program that was just attached, once for all who need it: so that its threads can be counted and
    /// shown, and its first window knows how busy they are.
    fn look_first(&mut self, id: AttachmentId) {
        let now = self.now();
        let asked: Vec<Asked> = self.question(id).into_iter().collect();
        let observation = self.parts.machine.observe(&asked);
        let pids: Vec<Pid> = self.members.pids(id).collect();
        let tasks = observation
            .programs
            .iter()
            .flat_map(|program| &program.tasks);
        let mut seen: Option<Vec<Tid>> = Some(tasks.map(|task| task.key.tid).collect());
        let Parts {
            machine, meters, ..
        } = &mut self.parts;
        meters.begin(now, id, &mut || {
            seen.take().unwrap_or_else(|| machine.threads(&pids))
        });
        self.observed(now, &asked, observation);
    }

    /// Closes windows that have ended, and does what the policies want of it.
    fn judge(&mut self, now: Time) {
        let began = self.parts.machine.own_time();
        let due = self.next_due(now);
        if due.is_empty() {
            // Their windows go on.
            return;
        }
        for &id in &due {
            self.spawned(id);
        }
        let asked: Vec<Asked> = due.iter().filter_map(|&id| self.question(id)).collect();
        for &id in &due {
            self.note_matrix(id);
        }
        let observation = self.parts.machine.observe(&asked);
        self.observed(now, &asked, observation);
        self.carry_out();
        let spent = self.parts.machine.own_time().saturating_sub(began);
        if let Some(open) = &mut self.source {
            open.overhead.judged(spent);
        }
    }

    /// Hands the engine what a look at programs found.
    fn observed(&mut self, now: Time, asked: &[Asked], mut observation: Observation) {
        if let Some(open) = &mut self.source {
            let throttled = open.source.losses().throttled;
            observation.lost += throttled.saturating_sub(open.throttled_told);
            open.throttled_told = throttled;
            if !observation.online.is_empty() {
                for refused in open.source.refresh(&observation.online) {
                    self.parts
                        .log
                        .warn(format_args!("falling back to fewer processors: {refused}"));
                }
            }
        }
        for unfit in self
            .parts
            .machine
            .unfit()
            .chunk_by(|one, next| one.0 == next.0)
        {
            let id = unfit[0].0;
            let unfit: Vec<_> = unfit.iter().map(|&(_, pid, why)| (pid, why)).collect();
            self.shut_out(now, id, &unfit);
        }
        self.parts.meters.observe(now, &mut observation);
        for seen in &mut observation.programs {
            if let Some(program) = self.programs.get_mut(&seen.attachment) {
                let id = seen.attachment;
                let alive = seen.tasks.iter().map(|task| task.key.pid).collect();
                let first = self.members.named(id).first().map(|(pid, _)| *pid);
                program.note_processes(first, &seen.tasks, &alive);
                self.members.seen(id, &alive);
                program.pretend(&mut seen.tasks);
            }
        }
        self.engine.handle_observation(now, &observation);
        self.tell_mappings(asked);
    }

    /// What is to be looked up for a program.
    fn question(&self, id: AttachmentId) -> Option<Asked> {
        let program = self.programs.get(&id)?;
        Some(Asked {
            attachment: id,
            members: self.members.of(id),
            only_of: program.confined_to,
            shown_to: program.owner,
            threads_max: program
                .confined_to
                .map(|user| self.threads_left(user.uid, Some(id))),
            pages: self.engine.wanted_places(id, WANTED_PAGES_MAX),
        })
    }

    /// Takes what the engine tells: history, counters, and programs that have ended.
    fn listen(&mut self) {
        let mut over = Vec::new();
        while let Some(event) = self.engine.poll_event() {
            self.counters.take(&event.kind);
            if matches!(event.kind, EventKind::ProgramEnded) {
                over.push(event.attachment);
            }
            let Some(program) = self.programs.get_mut(&event.attachment) else {
                continue;
            };
            let row = program.take(&event, self.parts.page_bytes);
            if self.parts.log.wants(Level::Debug) {
                let id = event.attachment;
                self.parts.log.debug(format_args!("attachment {id}: {row}"));
            }
        }
        let lively = self.programs.iter_mut();
        let lively = lively.filter_map(|(&id, program)| program.take_lively().then_some(id));
        let lively: Vec<AttachmentId> = lively.collect();
        if !lively.is_empty() {
            let now = self.now();
            for id in lively {
                let pids: Vec<Pid> = self.members.pids(id).collect();
                self.stir(now, &pids);
            }
        }
        for id in over {
            let user = self
                .programs
                .get(&id)
                .and_then(|program| program.confined_to);
            let report = self.release(id);
            self.parts.log.info_by(
                user.map(|user| user.uid),
                format_args!("attachment {id} ended: {}", undo_text(&report)),
            );
        }
    }
}

/// The reading after this one: sooner when buffers fill, later when they stay empty.
fn next_drain(every: Duration, fill_permille: u16, most: Duration) -> Duration {
    match fill_permille {
        500.. => (every / 2).max(DRAIN_LEAST),
        0..125 => (every + every / 4).min(most),
        _ => every.min(most),
    }
}

#[cfg(test)]
mod attach_tests;
#[cfg(test)]
mod ending_tests;
#[cfg(test)]
mod experiments_tests;
#[cfg(test)]
mod members_tests;
#[cfg(test)]
mod ranks_tests;
#[cfg(test)]
mod recording_tests;
#[cfg(test)]
mod stories_tests;
#[cfg(test)]
mod tests;
