//! Experiments on running programs: the daemon carries out what [`experiment::Trial`] says, so that
//! whoever asked may go.
//!
//! Each has a file on the shelf, written slice by slice. What was changed is in the undo journal as
//! always: a daemon that is killed in the middle undoes it at its next start, and tells the
//! experiment as interrupted with what there is.

mod balanced;
mod counted;
mod energy;
mod limits;
mod target;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use control::experiment::{
    Ending, Experiment, ExperimentRequest, ExperimentRow, KeptExperiment, Moved, ReadingRequest,
    Sight, is_machine_wide,
};
use control::rows::{AttachRequest, Attachment, NodeAccesses, Target};
use control::{ErrorKind, Failure};
use experiment::metric::Reading;
use experiment::{Left, Step, Totals, Trial, plan};
use numad_core::{AttachmentId, Time};
use procfs::EnergyMeter;
use tokio::sync::watch;
use topology::{NodeSet, Pid, StartTicks};

use super::{MatrixDraft, ProcessFacts, Steward};
use crate::log::Log;
use crate::peer::Peer;
use crate::shelf::{Room, Shelf};

/// How long numbers of commands are waited for: what the daemon takes, and for each command what it
/// may take.
const ASK_WAIT: Duration = Duration::from_secs(30);
const ASK_WAIT_EACH: Duration = Duration::from_secs(10);

/// What is written into files that this daemon makes.
const MADE_BY: &str = concat!("numad ", env!("CARGO_PKG_VERSION"));

/// All experiments: those that run or wait, and those that are kept.
#[derive(Debug)]
pub struct Experiments {
    shelf: Shelf,
    live: BTreeMap<u32, Live>,
    /// Those that are over.
    over: BTreeMap<u32, ExperimentRow>,
    /// The one that is being carried out: its own program is not in its way.
    pub(super) at_work: Option<u32>,
    /// Grows whenever something happens to any of them.
    news: watch::Sender<u64>,
}

/// An experiment that runs or waits.
#[derive(Debug)]
struct Live {
    peer: Peer,
    target: Target,
    trial: Trial,
    /// Processes that were named, each with its start.
    starts: BTreeMap<Pid, StartTicks>,
    /// Their users.
    users: BTreeSet<u32>,
    /// Nodes that its program may run on.
    nodes: NodeSet,
    /// When it began; none while it waits.
    began: Option<Time>,
    due: Time,
    attachment: Option<AttachmentId>,
    /// The reading that waits for numbers of commands.
    asked: Option<Step>,
    turn: u64,
    /// Whether its file tells how long slices are.
    timed: bool,
    /// What the packages use in this slice, where a metric needs it; begins anew with each.
    energy: Option<EnergyMeter>,
}

/// An experiment, or where it is kept.
#[derive(Debug)]
pub enum Found {
    /// It is not over.
    Here(Box<Experiment>),
    /// It is in this file.
    Kept(PathBuf),
}

impl Found {
    /// The experiment with its results. Reads, and computes for a second at most of a user's.
    ///
    /// # Errors
    /// When the file cannot be read, or is damaged.
    pub fn look_up(self) -> Result<Experiment, Failure> {
        let mut experiment = match self {
            Self::Here(experiment) => *experiment,
            Self::Kept(path) => {
                let bytes = fs::read(&path).map_err(|error| {
                    let message = format!("`{}` cannot be read: {error}", path.display());
                    Failure::new(ErrorKind::Kernel, message)
                })?;
                KeptExperiment::read(&bytes)?.experiment
            }
        };
        experiment.results = experiment::results::results(&experiment);
        Ok(experiment)
    }
}

impl Experiments {
    /// Those on a shelf. What was not over when a daemon ended is interrupted now.
    #[must_use]
    pub fn new(mut shelf: Shelf, log: &Log) -> Self {
        let mut over = BTreeMap::new();
        let files: Vec<(u32, u32)> = shelf.files().collect();
        for (id, uid) in files {
            match taken_over(&mut shelf, id) {
                Ok(experiment) => {
                    over.insert(id, row_of(id, uid, &experiment));
                }
                Err(why) => log.warn(format_args!("experiment {id} is lost: {why}")),
            }
        }
        let (news, _) = watch::channel(0);
        Self {
            shelf,
            live: BTreeMap::new(),
            over,
            at_work: None,
            news,
        }
    }

    /// When the next step is due.
    pub(super) fn due(&self) -> Option<Time> {
        let going = self.live.values().filter(|live| live.began.is_some());
        going.map(|live| live.due).min()
    }

    /// The experiment with this very process, but for the one that is being carried out.
    pub(super) fn with(&self, process: &ProcessFacts) -> Option<u32> {
        let mut others = self.live.iter();
        let found = others.find(|(id, live)| {
            Some(**id) != self.at_work && live.starts.get(&process.pid) == Some(&process.start)
        });
        found.map(|(id, _)| *id)
    }

    /// The experiment that has the kernel balance under some of its arms, with its program. There is one at a time, as it
    /// takes all nodes.
    pub(super) fn machine_wide(&self) -> Option<(u32, Option<AttachmentId>)> {
        let mut going = self.live.iter().filter(|(_, live)| live.began.is_some());
        let found = going.find(|(_, live)| is_machine_wide(&live.trial.experiment().arms))?;
        Some((*found.0, found.1.attachment))
    }

    /// The experiment before this one that shares a node with it.
    fn behind(&self, id: u32) -> Option<u32> {
        let own = &self.live.get(&id)?.nodes;
        let mut before = self.live.range(..id);
        before
            .find(|(_, live)| live.nodes.intersects(own))
            .map(|(id, _)| *id)
    }

    fn turned(&mut self, id: u32) {
        if let Some(live) = self.live.get_mut(&id) {
            live.turn += 1;
        }
        self.news.send_modify(|count| *count += 1);
    }

    fn row(&self, id: u32) -> Option<ExperimentRow> {
        let Some(live) = self.live.get(&id) else {
            return self.over.get(&id).cloned();
        };
        let state = match live.began {
            None => "waiting",
            Some(_) if live.trial.is_pilot() => "pilot",
            Some(_) => "running",
        };
        Some(ExperimentRow {
            state: state.to_owned(),
            behind: live.began.is_none().then(|| self.behind(id)).flatten(),
            turn: live.turn,
            asks: live.asked.is_some(),
            left_s: left_s(live.trial.experiment()),
            ..row_of(id, live.peer.uid, live.trial.experiment())
        })
    }

    /// Writes to the file of an experiment; a text that could not be made is not written.
    fn write(&mut self, id: u32, text: Result<String, serde_json::Error>) -> Result<(), Failure> {
        let written = text.map_err(std::io::Error::from);
        written
            .and_then(|text| self.shelf.append(id, &text))
            .map_err(|error| unkept(&error))
    }
}

/// Reads what a daemon before this one kept, and ends it if that one could not.
fn taken_over(shelf: &mut Shelf, id: u32) -> Result<Experiment, Failure> {
    let path = shelf.path(id).unwrap_or_default();
    let bytes = fs::read(path).map_err(|error| unkept(&error))?;
    let mut experiment = KeptExperiment::read(&bytes)?.experiment;
    if experiment.ending == Ending::Running {
        let why = "the daemon ended in the middle of it";
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').unwrap_or(0) as u64 + 1;
        let line = KeptExperiment::ended(Ending::Interrupted, why);
        let line = line.map_err(|error| unkept(&error.into()))?;
        shelf
            .cut(id, whole)
            .and_then(|()| shelf.append(id, &line))
            .map_err(|error| unkept(&error))?;
        experiment.ending = Ending::Interrupted;
        why.clone_into(&mut experiment.why);
    }
    Ok(experiment)
}

impl Steward {
    /// Begins an experiment, or has it wait for those before it on the same nodes.
    ///
    /// # Errors
    /// Names what is in the way. Nothing has changed then.
    pub fn experiment(
        &mut self,
        peer: Peer,
        request: &ExperimentRequest,
        found: Option<Vec<ProcessFacts>>,
    ) -> Result<ExperimentRow, Failure> {
        let processes = self.processes(peer, &request.target, found)?;
        for process in &processes {
            self.must_be_free(process)?;
        }
        for arm in request.arms.iter().filter(|arm| arm.policy.is_some()) {
            let asked = attach_request(&request.target, arm);
            self.policy(&asked)?;
            self.options(&asked)?;
            self.balancing_for(peer, &asked)?;
        }
        self.must_tell_balancing_apart(&request.arms)?;
        let machine = self.parts.topology.summary();
        let planned = plan::slices(request, MADE_BY, machine)?;
        self.must_be_within_limits(peer, request, &planned)?;
        let energy = self.energy_for(peer, &planned)?;
        self.must_be_counted(&planned)?;
        let id = self.experiments.shelf.last() + 1;
        let kept = KeptExperiment {
            id,
            uid: peer.uid,
            experiment: planned,
        };
        let text = kept.begun().map_err(|error| unkept(&error.into()))?;
        self.experiments
            .shelf
            .create(id, peer.uid, &text)
            .map_err(|error| unkept(&error))?;
        let timed = kept.experiment.slice_ms.is_some();
        let live = Live {
            peer,
            target: request.target.clone(),
            trial: Trial::new(kept.experiment, request.slice_ms, request.max_harm),
            starts: processes.iter().map(|it| (it.pid, it.start)).collect(),
            users: processes.iter().map(|it| it.uid).collect(),
            nodes: match is_machine_wide(&request.arms) {
                true => self.all_nodes(),
                false => self.nodes_of(&processes),
            },
            began: None,
            due: self.now(),
            attachment: None,
            asked: None,
            turn: 0,
            timed,
            energy,
        };
        self.experiments.live.insert(id, live);
        self.parts.log.info_by(
            peer.confinement().map(|user| user.uid),
            format_args!("experiment {id} on `{}`", processes[0].command),
        );
        self.conduct();
        self.experiments.row(id).ok_or_else(|| no_experiment(id))
    }

    /// The experiments that a peer may see, oldest first.
    #[must_use]
    pub fn experiment_rows(&self, peer: Peer) -> Vec<ExperimentRow> {
        let ids = self.experiments.over.keys();
        let ids = ids.chain(self.experiments.live.keys());
        let rows = ids.filter_map(|id| self.experiments.row(*id));
        rows.filter(|row| peer.owns(row.uid)).collect()
    }

    /// One of them.
    ///
    /// # Errors
    /// When there is none of this number, or it is someone else's.
    pub fn experiment_row(&self, peer: Peer, id: u32) -> Result<ExperimentRow, Failure> {
        let row = self.experiments.row(id).ok_or_else(|| no_experiment(id))?;
        match peer.owns(row.uid) {
            true => Ok(row),
            false => Err(not_yours(id)),
        }
    }

    /// What there is of an experiment.
    ///
    /// # Errors
    /// As [`Self::experiment_row`].
    pub fn find_experiment(&self, peer: Peer, id: u32) -> Result<Found, Failure> {
        self.experiment_row(peer, id)?;
        if let Some(live) = self.experiments.live.get(&id) {
            return Ok(Found::Here(Box::new(live.trial.experiment().clone())));
        }
        let path = self.experiments.shelf.path(id);
        path.map(Found::Kept).ok_or_else(|| no_experiment(id))
    }

    /// Ends an experiment: its arm is left, everything put back.
    ///
    /// # Errors
    /// As [`Self::experiment_row`]; `Conflict` if it is over.
    pub fn stop_experiment(&mut self, peer: Peer, id: u32) -> Result<Found, Failure> {
        self.experiment_row(peer, id)?;
        // Whoever started the program may know before us that it has ended.
        self.look_after(id);
        if !self.experiments.live.contains_key(&id) {
            let message = format!("experiment `{id}` is over");
            return Err(Failure::new(ErrorKind::Conflict, message)
                .remedy(format!("`numadctl ab show {id}` shows it")));
        }
        self.interrupt(id, "");
        self.find_experiment(peer, id)
    }

    /// Takes the numbers that an experiment waits for.
    ///
    /// # Errors
    /// As [`Self::experiment_row`]; `Conflict` when it does not wait for these.
    pub fn give_reading(
        &mut self,
        peer: Peer,
        id: u32,
        request: ReadingRequest,
    ) -> Result<ExperimentRow, Failure> {
        self.experiment_row(peer, id)?;
        // Numbers of a program that has ended are none.
        self.look_after(id);
        let live = self.experiments.live.get_mut(&id);
        let live = live.filter(|live| live.asked.is_some() && live.turn == request.turn);
        let Some(live) = live else {
            self.conduct();
            let message = format!(
                "experiment `{id}` does not wait for numbers of turn {}",
                request.turn
            );
            return Err(Failure::new(ErrorKind::Conflict, message));
        };
        let metrics = &live.trial.experiment().metrics;
        let fits = request.values.len() == metrics.len();
        if let Some(why) = request.failed {
            live.asked = None;
            let why = why.chars().filter(|c| !c.is_control()).take(300).collect();
            live.trial.stop(Ending::Failed, why);
        } else if fits {
            let step = live.asked.take().unwrap_or(Step::Read);
            let finite = |value: Option<f64>| value.filter(|value| value.is_finite());
            let printed = request.values.into_iter().map(finite).collect();
            self.read(id, step, printed);
        } else {
            let message = format!("`values` must have {} entries", metrics.len());
            return Err(Failure::new(ErrorKind::Usage, message));
        }
        self.conduct();
        self.experiments.row(id).ok_or_else(|| no_experiment(id))
    }

    /// Told whenever something happens to an experiment.
    pub(super) fn experiment_news(&mut self, news: watch::Sender<u64>) {
        self.experiments.news = news;
    }

    /// Does what experiments have due, and lets begin what waits for nobody any more.
    pub(super) fn conduct(&mut self) {
        loop {
            let now = self.now();
            for id in self.experiments.live.keys().copied().collect::<Vec<_>>() {
                let waits = self
                    .experiments
                    .live
                    .get(&id)
                    .is_some_and(|live| live.began.is_none());
                if waits && self.experiments.behind(id).is_some() {
                    continue;
                }
                if waits && let Some(live) = self.experiments.live.get_mut(&id) {
                    live.began = Some(now);
                    self.experiments.turned(id);
                }
                self.carry_on(id);
            }
            // Who is over makes room for others.
            let begins = self.experiments.live.iter();
            if !begins
                .filter(|(_, live)| live.began.is_none())
                .any(|(id, _)| self.experiments.behind(*id).is_none())
            {
                return;
            }
        }
    }

    /// Ends all experiments, as the daemon does when it stops.
    pub(super) fn abandon_experiments(&mut self) {
        for id in self.experiments.live.keys().copied().collect::<Vec<_>>() {
            self.interrupt(id, "the daemon was stopped");
        }
    }

    fn interrupt(&mut self, id: u32, why: &str) {
        let now = self.now();
        if let Some(live) = self.experiments.live.get_mut(&id) {
            live.asked = None;
            live.began.get_or_insert(now);
            live.trial.stop(Ending::Interrupted, why.to_owned());
            self.carry_on(id);
        }
    }

    /// Does all steps of an experiment up to the next wait.
    fn carry_on(&mut self, id: u32) {
        self.look_after(id);
        self.meter_energy(id, false, false);
        let outer = self.experiments.at_work.replace(id);
        loop {
            let now = self.now();
            let Some(live) = self.experiments.live.get_mut(&id) else {
                break;
            };
            if live.asked.is_some() {
                break;
            }
            let Some(began) = live.began else {
                break;
            };
            match live.trial.next(now.since(began)) {
                Step::Enter { arm, .. } => self.enter(id, arm),
                Step::Wait { until_ms } => {
                    live.due = began.after(Duration::from_millis(until_ms));
                    if let Some(meter) = &live.energy {
                        // Its counters may go round while nobody reads them.
                        live.due = live.due.min(now.after(meter.pause()));
                    }
                    if live.due > now {
                        break;
                    }
                }
                step @ (Step::Begin | Step::Read | Step::Finish) => {
                    if live.trial.needs_commands() {
                        let commands = live.trial.experiment().metrics.len();
                        let commands = u32::try_from(commands).unwrap_or(u32::MAX);
                        live.asked = Some(step);
                        live.due = now.after(ASK_WAIT + ASK_WAIT_EACH * commands);
                        self.experiments.turned(id);
                    } else {
                        self.read(id, step, Vec::new());
                    }
                }
                Step::Leave => self.leave(id),
                Step::Over => {
                    self.finish(id);
                    break;
                }
            }
        }
        self.experiments.at_work = outer;
    }

    /// Notices what ends an experiment from outside.
    fn look_after(&mut self, id: u32) {
        let now = self.now();
        let Some(live) = self.experiments.live.get(&id) else {
            return;
        };
        let began = live.began.unwrap_or(now);
        let longest = self.parts.config.limits.user_experiment_h_max;
        let gone = live.attachment.filter(|id| !self.programs.contains_key(id));
        let by_number = matches!(live.target, Target::Pids(_));
        let starts: Vec<(Pid, StartTicks)> = live.starts.iter().map(|it| (*it.0, *it.1)).collect();
        let mut here = |&(pid, start): &(Pid, StartTicks)| match self.parts.machine.process(pid) {
            Ok(facts) => facts.is_some_and(|facts| facts.start == start),
            Err(_not_told) => true,
        };
        let stopped = if live.asked.is_some() && now >= live.due {
            let why = "whoever gave its numbers has gone";
            Some((Ending::Interrupted, why.to_owned()))
        } else if !live.peer.admin && now.since(began).as_secs() / 3600 >= longest {
            let why = "it took longer than `limits.user_experiment_h_max`";
            Some((Ending::Interrupted, why.to_owned()))
        } else if by_number && !starts.iter().any(&mut here) {
            // Under `off` nothing is attached whose end would be seen.
            Some((Ending::ProgramEnded, String::new()))
        } else {
            gone.map(|attachment| match starts.first().is_some_and(here) {
                true => {
                    let why = format!("attachment {attachment} was ended by someone else");
                    (Ending::Interrupted, why)
                }
                false => (Ending::ProgramEnded, String::new()),
            })
        };
        if let (Some((ending, why)), Some(live)) = (stopped, self.experiments.live.get_mut(&id)) {
            if gone.is_some() {
                live.attachment = None;
            }
            live.asked = None;
            live.trial.stop(ending, why);
        }
    }

    fn enter(&mut self, id: u32, arm: usize) {
        let Some(live) = self.experiments.live.get(&id) else {
            return;
        };
        let (peer, arm) = (live.peer, live.trial.experiment().arms[arm].clone());
        let (target, first) = (
            live.target.clone(),
            live.trial.experiment().slices.is_empty(),
        );
        let attached = match &arm.policy {
            None => {
                self.tend_balancing();
                Ok(None)
            }
            Some(_) => self
                .same_processes(id, &target)
                .and_then(|found| self.attach_found(peer, &attach_request(&target, &arm), found))
                .map(|row| Some(AttachmentId(row.id))),
        };
        let (totals, unlike) = (self.totals(id), self.unlike(&arm));
        let Some(live) = self.experiments.live.get_mut(&id) else {
            return;
        };
        match attached {
            Ok(attachment) => {
                live.attachment = attachment;
                live.trial.entered(totals);
                if let Some(why) = unlike {
                    live.trial.stop(Ending::Failed, why);
                }
            }
            // That it was never there is an error; that it has ended is not.
            Err(failure) if failure.kind == ErrorKind::NotFound && !first => {
                live.trial.stop(Ending::ProgramEnded, String::new());
            }
            Err(failure) => live.trial.stop(Ending::Failed, failure.message),
        }
    }

    fn read(&mut self, id: u32, step: Step, printed: Vec<Option<f64>>) {
        let now = self.now();
        let Some(live) = self.experiments.live.get(&id) else {
            return;
        };
        let (attachment, began) = (live.attachment, live.began.unwrap_or(now));
        let row: Option<Attachment> = attachment.and_then(|id| self.shown(id).ok());
        let energy = self.meter_energy(id, step == Step::Begin, true);
        let reading = Reading {
            at: now.since(began),
            local: row.as_ref().and_then(|row| row.local_share),
            moved: row.as_ref().map_or_else(Moved::default, |row| Moved {
                threads: row.ledger.thread_moves,
                pages: row.ledger.pages_moved,
                undo_ms: None,
            }),
            energy,
            counts: row.and_then(|row| row.counts),
            printed,
        };
        if let Some(live) = self.experiments.live.get_mut(&id) {
            live.trial.read(step, reading);
        }
    }

    /// What has disturbed the machine, and the neighbours of an experiment's first process.
    fn totals(&mut self, id: u32) -> Totals {
        let live = self.experiments.live.get(&id);
        let first = live.and_then(|live| live.starts.keys().next().copied());
        first.map_or_else(Totals::default, |pid| self.parts.machine.totals(pid))
    }

    /// Undoes the arm that is entered, threads and pages, and keeps its slice if it counts.
    fn leave(&mut self, id: u32) {
        let at = self.now();
        self.take_sight(id);
        self.must_have_been_alike(id);
        let Some(live) = self.experiments.live.get_mut(&id) else {
            return;
        };
        if let Some(attachment) = live.attachment.take() {
            let report = self.release(attachment);
            if let (Some(first), Some(live)) =
                (report.failed.first(), self.experiments.live.get_mut(&id))
            {
                // An arm that could not be undone wholly would be in the next one's slices.
                let why = format!("attachment {attachment} could not be undone wholly: {first}");
                live.trial.stop(Ending::Failed, why);
            }
        }
        let (over, totals) = (self.now(), self.totals(id));
        let Some(live) = self.experiments.live.get_mut(&id) else {
            return;
        };
        let left = Left {
            at: at.since(live.began.unwrap_or(at)),
            undo: over.since(at),
            totals,
        };
        let slice = live.trial.left(&left).cloned();
        let experiment = live.trial.experiment();
        let timing = experiment.slice_ms.zip(experiment.washout_ms);
        let untold = timing.filter(|_| !live.timed);
        if let Some(slice) = slice {
            live.timed = true;
            let kept = self
                .experiments
                .write(id, KeptExperiment::slice(&slice, untold));
            if let (Err(failure), Some(live)) = (kept, self.experiments.live.get_mut(&id)) {
                live.trial.stop(Ending::Failed, failure.message);
            }
        }
        self.experiments.turned(id);
    }

    /// Takes down the program as it is under the arm that is entered.
    fn take_sight(&mut self, id: u32) {
        let live = self.experiments.live.get(&id);
        let entered = live.and_then(|live| live.attachment.zip(live.trial.arm()));
        let Some((attachment, arm)) = entered else {
            return;
        };
        let Ok(detail) = self.detail(Peer::DAEMON, attachment) else {
            return;
        };
        let sight = Sight {
            arm,
            accesses: NodeAccesses::of(&detail.threads),
            matrix: self.story_matrix(attachment).map(MatrixDraft::row),
        };
        if let Some(live) = self.experiments.live.get_mut(&id) {
            live.trial.saw(sight);
        }
    }

    fn finish(&mut self, id: u32) {
        self.experiments.turned(id);
        let Some(live) = self.experiments.live.remove(&id) else {
            return;
        };
        self.tend_balancing();
        let experiment = live.trial.experiment();
        let sights = KeptExperiment::sights(&experiment.sights);
        let ended = KeptExperiment::ended(experiment.ending, &experiment.why);
        let log = self.parts.log.clone();
        for lines in [sights, ended] {
            if let Err(failure) = self.experiments.write(id, lines) {
                log.warn(format_args!("experiment {id}: {failure}"));
            }
        }
        let mut row = row_of(id, live.peer.uid, experiment);
        row.turn = live.turn;
        log.info_by(
            live.peer.confinement().map(|user| user.uid),
            format_args!(
                "experiment {id} is over after {} of {} slices",
                row.slices, row.planned
            ),
        );
        let experiments = &mut self.experiments;
        experiments.over.insert(id, row);
        let live = &experiments.live;
        let room = Room::of(&self.parts.config);
        // The last one is shown to whoever waits for its end.
        let used = |other| other == id || live.contains_key(&other);
        let subordinates = self.parts.gate.borrow().access.subordinates.clone();
        for gone in experiments.shelf.fit(room, &subordinates, used) {
            experiments.over.remove(&gone);
        }
    }

    /// Nodes that a program may run on; all where that is not known.
    fn nodes_of(&mut self, processes: &[ProcessFacts]) -> NodeSet {
        let topology = &self.parts.topology;
        let mut nodes = NodeSet::new();
        for process in processes {
            let cpus = self.parts.machine.allowed(process.pid);
            for node in cpus.iter().filter_map(|cpu| topology.node_of(cpu)) {
                nodes.insert(node);
            }
        }
        match nodes.is_empty() {
            true => self.all_nodes(),
            false => nodes,
        }
    }

    fn all_nodes(&self) -> NodeSet {
        let nodes = self.parts.topology.nodes();
        nodes.iter().map(|node| node.id).collect()
    }
}

fn attach_request(target: &Target, arm: &control::experiment::Arm) -> AttachRequest {
    AttachRequest {
        target: target.clone(),
        policy: arm.policy.clone(),
        set: arm.set.clone(),
        dry_run: false,
        for_ms: None,
    }
}

/// The row of one that is over.
fn row_of(id: u32, uid: u32, experiment: &Experiment) -> ExperimentRow {
    let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    let (last, done) = (experiment.slices.last(), experiment.slices.len());
    let planned = experiment.arms.len() * experiment.blocks as usize;
    let arm = last.and_then(|last| experiment.arms.get(last.arm as usize));
    ExperimentRow {
        id,
        uid,
        state: "over".to_owned(),
        behind: None,
        subject: experiment.subject.clone(),
        arms: experiment.arms.iter().map(|arm| arm.name.clone()).collect(),
        metric: experiment.metrics[0].name.clone(),
        slices: count(done),
        planned: count(planned),
        last_arm: arm.map(|arm| arm.name.clone()),
        last_value: last.and_then(|last| last.values.first().copied()?),
        left_s: None,
        ending: experiment.ending,
        why: experiment.why.clone(),
        turn: 0,
        asks: false,
    }
}

/// Seconds that the rest of a running one takes if slices last as before; none before the first.
fn left_s(experiment: &Experiment) -> Option<f64> {
    let (last, done) = (experiment.slices.last()?, experiment.slices.len());
    let planned = experiment.arms.len() * experiment.blocks as usize;
    let each = (last.at_s + last.length_s) / done as f64;
    Some(each * planned.saturating_sub(done) as f64)
}

fn unkept(error: &std::io::Error) -> Failure {
    Failure::new(
        ErrorKind::Kernel,
        format!("the experiment cannot be kept in the state directory: {error}"),
    )
    .remedy("make room there")
}

fn no_experiment(id: u32) -> Failure {
    Failure::new(
        ErrorKind::NotFound,
        format!("there is no experiment `{id}`"),
    )
    .remedy("see `numadctl ab list`")
}

fn not_yours(id: u32) -> Failure {
    Failure::new(
        ErrorKind::NotPermitted,
        format!("experiment `{id}` belongs to someone else"),
    )
    .remedy("ask as root")
}
