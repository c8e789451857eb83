//! The steward owns the engine, the source, the host and the journal, on one thread, and is the only
//! one that touches them. It does what it is asked over its [`Line`], and whatever is due.
//!
//! With nothing attached the source is closed and the thread sleeps until it is asked something.

mod attach;
mod batch;
mod history;
mod line;
mod meters;
mod metrics;
mod overhead;
mod program;
mod record;
mod recording;
mod seams;
mod view;

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use config::{Config, Difference, Effect, LogLevel, Users};
use control::rows::{ReloadReport, UndoReport, UndoRequest};
use control::{ErrorKind, Failure};
use numad_core::{Action, AttachmentId, Engine, EventKind, Outcome, Record, Refusal, Time};
use sampler::Source;
use tokio::sync::watch;
use topology::{Pid, Topology};

use crate::clock::Clock;
use crate::log::{Level, Log};
use crate::peer::{self, Access, Peer};
use crate::server::Gate;

use batch::Batch;
pub use history::HISTORY_MAX;
pub use line::{Line, Orders, line};
pub use meters::Meters;
pub use metrics::{CONNECTIONS_EVICTED, CONNECTIONS_REFUSED, Metric, write_metric};
use overhead::{Measured, Overhead};
use program::Program;
pub use record::{Begun, RECORDINGS_MAX};
use recording::Recording;
pub use seams::{Asked, Hand, Loader, Machine, Opener, OwnUsage, ProcessFacts, Scope};
pub use view::MatrixWindow;

/// Least and most time between two readings of the source's buffers.
///
/// A buffer of 64 pages holds about 5,000 samples; at 20 ms that is 250,000 page faults per second
/// and processor, more than a processor can take. At 100 ms the thread wakes ten times a second.
const DRAIN_LEAST: Duration = Duration::from_millis(20);
const DRAIN_MOST: Duration = Duration::from_millis(100);
/// The latter while the budget is overdrawn. Buffers that are half full are read at once even so.
const DRAIN_STRAINED: Duration = Duration::from_secs(1);

/// Pages whose place is asked for in one window.
///
/// Measured here, `move_pages` as a question takes 0.1 to 0.3 us a page: 2 ms of a window of 500.
const WANTED_PAGES_MAX: usize = 8192;

/// How often the journal is tidied while something is attached.
const TIDY_EVERY: Duration = Duration::from_secs(60);

/// Programs that have ended and can still be asked about.
const ENDED_MAX: usize = 16;
/// How long they can be.
const ENDED_KEPT: Duration = Duration::from_secs(600);

/// Everything the steward needs from elsewhere.
pub struct Parts {
    /// The machine.
    pub topology: Arc<Topology>,
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
    /// Settings at the start; those of sampling stay in force until the next.
    at_start: Config,
    engine: Engine,
    programs: BTreeMap<AttachmentId, Program>,
    ended: VecDeque<Ended>,
    recordings: BTreeMap<u32, Recording>,
    /// The number of the last recording.
    last_recording: u32,
    source: Option<OpenSource>,
    /// When others that place threads were looked for, and what was found.
    rivals_seen: (Option<Time>, Vec<String>),
    began: Time,
    counters: Counters,
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
    /// What it costs.
    overhead: Overhead,
}

/// What happened since the start, for `/metrics`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counters {
    attached: u64,
    refused_attaches: u64,
    windows: u64,
    samples: u64,
    lost: u64,
    proposals_dropped: u64,
    hands_off: u64,
    thread_moves: u64,
    pages_moved: u64,
    refusals: u64,
    moving_ns: u64,
    reloads: u64,
    reloads_refused: u64,
    /// Samples in recordings that have ended.
    recorded: u64,
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
    Gate {
        access: Access::of(users, admin_group.unwrap_or_default()),
        connections_max: config.daemon.connections_max,
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
    pub fn new(mut parts: Parts) -> Self {
        parts.meters = parts.meters.switched(parts.config.sampling.counters);
        let options = parts.config.engine_options(parts.page_bytes);
        let engine = Engine::new(Arc::clone(&parts.topology), options);
        let began = (parts.clock)();
        Self {
            at_start: parts.config.clone(),
            parts,
            engine,
            programs: BTreeMap::new(),
            ended: VecDeque::new(),
            recordings: BTreeMap::new(),
            last_recording: 0,
            source: None,
            rivals_seen: (None, Vec::new()),
            began,
            counters: Counters::default(),
            batch: Batch::new(),
        }
    }

    /// What time it is.
    #[must_use]
    pub fn now(&self) -> Time {
        (self.parts.clock)()
    }

    /// Where to tell.
    #[must_use]
    pub const fn log(&self) -> &Log {
        &self.parts.log
    }

    /// How long nothing will be due; none while nothing is attached or recorded.
    #[must_use]
    pub fn wait(&self, now: Time) -> Option<Duration> {
        let source = self.source.as_ref()?;
        let due = [
            Some(source.next_drain),
            source.provoke_at,
            Some(source.overhead.due()),
            self.judging_due(),
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
        if self
            .source
            .as_ref()
            .is_some_and(|source| now >= source.next_drain)
        {
            self.drain(now);
        }
        if let Some(source) = &mut self.source
            && source.provoke_at.is_some_and(|at| now >= at)
        {
            source.provoke_at = source.source.provoke(now);
        }
        self.regulate(now);
        if self.judging_due().is_some_and(|due| now >= due) {
            self.drain(now);
            self.judge(now);
        }
        self.tend_recordings(now);
        if let Some(source) = &mut self.source
            && now >= source.next_tidy
        {
            source.next_tidy = now.after(TIDY_EVERY);
            self.parts.hand.tidy();
        }
        self.listen();
        let spent = self.parts.machine.own_time().saturating_sub(began);
        if let Some(open) = &mut self.source {
            open.overhead.worked(spent);
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
        let batch = &mut self.batch;
        let began = (self.parts.clock)();
        let recordings = &mut self.recordings;
        let drained = open.source.drain(&mut |record| {
            match record {
                Record::Sample(_) => counters.samples += 1,
                Record::Lost(count) => counters.lost = counters.lost.saturating_add(*count),
                Record::Lifecycle(_) => {}
            }
            for recording in recordings.values_mut() {
                recording.take(record);
            }
            batch.push(record, engine);
        });
        batch.hand_over(engine);
        open.overhead.drained((self.parts.clock)().since(began));
        for recording in recordings.values_mut() {
            recording.settle(now, &mut *self.parts.machine);
        }
        let most = match open.overhead.is_strained() {
            true => DRAIN_STRAINED,
            false => DRAIN_MOST,
        };
        open.drain_every = next_drain(open.drain_every, drained.fill_permille, most);
        open.next_drain = now.after(open.drain_every);
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
            own: own_processor_time(&mut *self.parts.machine),
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
        let pids = asked
            .iter()
            .flat_map(|asked| self.engine.pids(asked.attachment));
        for pid in pids {
            if let Some(ranges) = self.parts.machine.mapped(pid) {
                open.source.set_mappings(pid, &ranges);
            }
        }
    }

    /// Looks at a program that was just attached, so that its threads can be shown and its first
    /// window knows how busy they are.
    fn look_first(&mut self, id: AttachmentId) {
        let now = self.now();
        let asked: Vec<Asked> = self.question(id).into_iter().collect();
        self.observed(now, &asked);
    }

    /// Begins to count a program that was just attached.
    fn meter(&mut self, id: AttachmentId) {
        let now = self.now();
        let asked: Vec<Asked> = self.question(id).into_iter().collect();
        let Parts {
            machine, meters, ..
        } = &mut self.parts;
        meters.begin(now, id, &mut || {
            let seen = machine.observe(&asked).programs.into_iter();
            let tasks = seen.flat_map(|program| program.tasks);
            tasks.map(|task| task.key.tid).collect()
        });
    }

    /// Closes windows that have ended, and does what the policies want of it.
    fn judge(&mut self, now: Time) {
        let began = self.parts.machine.own_time();
        let due = self.engine.due(now);
        let asked: Vec<Asked> = due.iter().filter_map(|&id| self.question(id)).collect();
        self.observed(now, &asked);
        self.carry_out();
        let spent = self.parts.machine.own_time().saturating_sub(began);
        if let Some(open) = &mut self.source {
            open.overhead.judged(spent);
        }
    }

    /// Looks at programs and hands the engine what is true of them.
    fn observed(&mut self, now: Time, asked: &[Asked]) {
        let mut observation = self.parts.machine.observe(asked);
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
        self.parts.meters.observe(now, &mut observation);
        for seen in &mut observation.programs {
            if let Some(program) = self.programs.get_mut(&seen.attachment) {
                program.note_processes(&seen.tasks);
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
            members: program.members(&self.engine.pids(id)),
            only_of: program.confined_to,
            pages: self.engine.wanted_places(id, WANTED_PAGES_MAX),
        })
    }

    /// Does what the engine orders.
    fn carry_out(&mut self) {
        while let Some(action) = self.engine.poll_action() {
            let id = action.attachment();
            let Some(program) = self.programs.get_mut(&id) else {
                let gone = Outcome::Refused(Refusal::Gone);
                self.engine
                    .handle_outcome((self.parts.clock)(), &action, &gone);
                continue;
            };
            let outcome = program.perform(&mut *self.parts.hand, &action);
            if let Action::Bind { task, .. } = &action {
                self.parts.machine.rebound(id, *task);
            }
            let now = (self.parts.clock)();
            self.engine.handle_outcome(now, &action, &outcome);
            // A thousand threads, each with a row that goes to the disk first, take longer than
            // the source's buffers hold.
            if self
                .source
                .as_ref()
                .is_some_and(|source| now >= source.next_drain)
            {
                self.drain(now);
            }
        }
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
                self.stir(now, &self.engine.pids(id));
            }
        }
        for id in over {
            let report = self.release(id);
            self.parts.log.info(format_args!(
                "attachment {id} ended: {}",
                undo_text(&report)
            ));
        }
    }

    /// Ends an attachment: engine, source, undo, in this order, so that nothing moves after.
    fn release(&mut self, id: AttachmentId) -> UndoReport {
        let now = self.now();
        // Children that were made a moment ago have our masks too.
        self.drain(now);
        let Some(program) = self.programs.remove(&id) else {
            return UndoReport::default();
        };
        let pids = self.members_of(id, &program);
        self.engine.handle_detach(now, id);
        self.parts.machine.forget(id);
        self.parts.meters.end(id);
        self.let_go(&pids);
        self.close_if_idle();
        let report = if program.recorder.is_some() {
            UndoReport::default()
        } else {
            self.parts.hand.undo(&Scope::Processes(pids))
        };
        self.keep_ended(id, now, program);
        report
    }

    /// Every process that is or was part of a program, ascending.
    fn members_of(&self, id: AttachmentId, program: &Program) -> Vec<Pid> {
        let mut pids = self.engine.pids(id);
        pids.extend(program.pids.iter().copied());
        pids.extend(program.known_pids());
        pids.sort_unstable();
        pids.dedup();
        pids
    }

    fn keep_ended(&mut self, id: AttachmentId, now: Time, program: Program) {
        self.ended.retain(|ended| now.since(ended.at) < ENDED_KEPT);
        if self.ended.len() >= ENDED_MAX {
            self.ended.pop_front();
        }
        self.ended.push_back(Ended {
            id,
            at: now,
            program,
        });
    }

    fn close_if_idle(&mut self) {
        let idle = self.programs.is_empty() && self.recordings.is_empty();
        if idle && self.source.take().is_some() {
            self.parts.log.debug(format_args!(
                "nothing is attached or recorded; the source is closed"
            ));
        }
    }

    /// Takes a program from its policy and puts back what was changed.
    ///
    /// # Errors
    /// When there is no such attachment, or it is someone else's.
    pub fn detach(&mut self, peer: Peer, id: AttachmentId) -> Result<UndoReport, Failure> {
        self.visible(peer, id)?;
        let report = self.release(id);
        self.parts.log.info(format_args!(
            "attachment {id} detached: {}",
            undo_text(&report)
        ));
        Ok(report)
    }

    /// Puts back what was changed, of one process or of all, and detaches.
    ///
    /// # Errors
    /// When the process is someone else's, or all are meant and the peer is no admin.
    pub fn undo(&mut self, peer: Peer, request: &UndoRequest) -> Result<UndoReport, Failure> {
        let Some(pid) = request.pid.map(Pid) else {
            peer.must_be_admin("undo of everything")?;
            return Ok(self.undo_all());
        };
        self.must_own(peer, pid)?;
        if let Some(id) = self.attachment_with(pid) {
            return self.detach(peer, id);
        }
        let report = self.parts.hand.undo(&Scope::Processes(vec![pid]));
        self.parts.log.info(format_args!(
            "undo of process {pid}: {}",
            undo_text(&report)
        ));
        Ok(report)
    }

    /// Ends recordings, detaches all and puts everything back.
    pub fn stop(&mut self) -> UndoReport {
        self.drain(self.now());
        self.abandon_recordings();
        self.undo_all()
    }

    fn undo_all(&mut self) -> UndoReport {
        let now = self.now();
        self.drain(now);
        let (mut pids, mut followed) = (Vec::new(), Vec::new());
        while let Some((id, program)) = self.programs.pop_first() {
            followed.extend(self.members_of(id, &program));
            if program.recorder.is_none() {
                pids.extend(self.members_of(id, &program));
            }
            self.engine.handle_detach(now, id);
            self.parts.machine.forget(id);
            self.parts.meters.end(id);
            self.keep_ended(id, now, program);
        }
        self.let_go(&followed);
        self.close_if_idle();
        // By name first: the journal alone does not know children that were never bound themselves
        // and whose parents have ended.
        let mut report = UndoReport::default();
        if !pids.is_empty() {
            pids.sort_unstable();
            report = self.parts.hand.undo(&Scope::Processes(pids));
        }
        let rest = self.parts.hand.undo(&Scope::All);
        report.threads_restored += rest.threads_restored;
        report.threads_gone += rest.threads_gone;
        report.threads_left += rest.threads_left;
        report.pages_restored += rest.pages_restored;
        report.pages_gone += rest.pages_gone;
        // What stayed or failed the first time was tried once more.
        report.pages_left = rest.pages_left;
        report.failed = rest.failed;
        self.parts.log.info(format_args!(
            "everything was undone: {}",
            undo_text(&report)
        ));
        report
    }

    /// Reads the settings again. Bad ones change nothing.
    ///
    /// # Errors
    /// `NotPermitted`; `Configuration` with everything that is wrong, one after the other.
    pub fn reload(&mut self, peer: Peer) -> Result<ReloadReport, Failure> {
        peer.must_be_admin("reload")?;
        let loaded = match (self.parts.loader)() {
            Ok(loaded) => loaded,
            Err(error) => {
                self.counters.reloads_refused += 1;
                let text = error.to_string().replace('\n', "; ");
                self.parts
                    .log
                    .error(format_args!("settings not reloaded, old ones stay: {text}"));
                let message = format!("settings not reloaded: {text}");
                return Err(Failure::new(ErrorKind::Configuration, message)
                    .remedy("the old settings stay in force; correct the file and reload"));
            }
        };
        let report = report_of(&Config::differences(&self.parts.config, &loaded.config));
        self.counters.reloads += 1;
        self.parts.log.set_level(level_of(&loaded.config));
        self.parts.gate.send_replace(gate_of(&loaded.config));
        self.parts.config = loaded.config;
        self.parts.files = loaded.files;
        let (changed, later) = (report.changed.len(), report.at_restart.len());
        let log = &self.parts.log;
        log.info(format_args!(
            "settings reloaded: {changed} changed, {later} wait for a restart"
        ));
        Ok(report)
    }
}

impl Counters {
    fn take(&mut self, kind: &EventKind) {
        match kind {
            EventKind::Window(_) => self.windows += 1,
            EventKind::TaskDropped { .. } => self.proposals_dropped += 1,
            EventKind::PagesDropped { count, .. } => self.proposals_dropped += count,
            EventKind::HandsOff { .. } => self.hands_off += 1,
            EventKind::Ended { action, outcome } => self.take_outcome(action, outcome),
            EventKind::Ordered(_) | EventKind::ProgramEnded => {}
        }
    }

    fn take_outcome(&mut self, action: &Action, outcome: &Outcome) {
        let (moves, tally, spent_ns) = program::tally(action, outcome);
        self.thread_moves += moves;
        self.pages_moved += tally.moved;
        self.refusals += tally.refused.values().sum::<u64>();
        self.moving_ns += spent_ns;
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

/// Our own processor time so far.
fn own_processor_time(machine: &mut dyn Machine) -> Duration {
    Duration::try_from_secs_f64(machine.own_usage().cpu_s).unwrap_or_default()
}

fn report_of(differences: &[Difference]) -> ReloadReport {
    let (later, now): (Vec<_>, Vec<_>) = differences
        .iter()
        .partition(|difference| difference.effect == Effect::Restart);
    let texts = |list: Vec<&Difference>| list.into_iter().map(ToString::to_string).collect();
    ReloadReport {
        changed: texts(now),
        at_restart: texts(later),
    }
}

/// A report in one line.
#[must_use]
pub fn undo_text(report: &UndoReport) -> String {
    let mut text = format!(
        "{} threads restored, {} gone, {} left to others; {} pages restored, {} gone, {} in \
         nobody's use",
        report.threads_restored,
        report.threads_gone,
        report.threads_left,
        report.pages_restored,
        report.pages_gone,
        report.pages_left
    );
    for failed in &report.failed {
        text += &format!("; {failed}");
    }
    text
}

#[cfg(test)]
mod recording_tests;
#[cfg(test)]
mod tests;
