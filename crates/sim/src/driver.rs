//! Runs the real engine against a world.

use std::collections::BTreeMap;
use std::sync::Arc;

use config::Config;
use numad_core::cost::{ACCESSES_PER_BUSY_SECOND, Prices, with_estimates};
use numad_core::event::WindowSummary;
use numad_core::{
    Action, AttachError, AttachOptions, AttachSpec, AttachmentId, Certainty, CommMatrix, Engine,
    EngineOptions, Event, EventKind, Observation, Outcome, PageOutcome, Policy, PolicyFactory,
    SettingsError, published,
};
use sampler::Lively;
use topology::{BandwidthGraph, NodeId, Origin, Pid, TaskKey, Topology};

use crate::conditions::Source;
use crate::judge::Judge;
use crate::scenario::Bandwidth;
use crate::stage::{Asked, Stage};
use crate::story::Story;
use crate::world::PAGE_BYTES;

/// Pages whose place is looked up per window and program, as a daemon on a budget would.
const WANTED_PAGES_MAX: usize = 4096;

/// What a run needs beside a stage.
pub(crate) struct Setup<'a> {
    /// The machine.
    pub(crate) topology: Arc<Topology>,
    /// Bytes in its pages.
    pub(crate) page_bytes: u64,
    /// The processes of each program.
    pub(crate) programs: Vec<Vec<Pid>>,
    pub(crate) options: AttachOptions,
    /// Whether programs are looked at when they are attached, as the daemon does, so that the first
    /// window knows how busy threads are.
    pub(crate) look_first: bool,
    /// Makes the policy of each program.
    pub(crate) policy: &'a dyn Fn() -> Box<dyn Policy>,
}

/// What came of a run.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) windows: Vec<WindowRow>,
    pub(crate) before: Vec<Snapshot>,
    pub(crate) after: Vec<Snapshot>,
    pub(crate) story: Story,
    pub(crate) violations: Vec<String>,
}

/// One window of one program.
#[derive(Clone, Debug, PartialEq)]
pub struct WindowRow {
    /// When it ended, in milliseconds since the beginning.
    pub time_ms: u64,
    /// Which program, from 1.
    pub program: u32,
    /// What the engine says of it.
    pub summary: WindowSummary,
    /// Threads that were bound.
    pub bound: u64,
    /// Pages that were moved.
    pub moved_pages: u64,
    /// Changes that the world refused.
    pub refused: u64,
    /// Part of all accesses since this program's last window that was local, what the engine can only
    /// estimate; none while nothing is known of any.
    pub local_share: Option<f64>,
    /// The same, had nothing been changed; none where that is not known.
    pub untouched_share: Option<f64>,
    /// Work done since this program's last window, as part of what an idle machine with everything
    /// local would have done; none of a recording, which does not tell.
    pub speed: Option<f64>,
}

/// What was seen of a program, and where its threads were then.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// Which program, from 1.
    pub program: u32,
    /// Threads that take part and their nodes.
    pub threads: Vec<(TaskKey, Option<NodeId>)>,
    /// What they say to each other, older windows counting less.
    pub matrix: CommMatrix,
    /// How sure the engine wants to be, and samples that an amount of 1 stands for.
    pub certainty: Certainty,
    /// See `certainty`.
    pub per_amount: f64,
}

struct Driver<'a, S> {
    stage: &'a mut S,
    engine: Engine,
    options: AttachOptions,
    /// Numbers of the programs with the engine, by position.
    programs: Vec<AttachmentId>,
    judge: Judge,
    story: Story,
    windows: Vec<WindowRow>,
    before: Vec<Snapshot>,
    /// By position.
    lively: Vec<Lively>,
}

/// What was carried out in one round, by attachment.
#[derive(Clone, Copy, Default)]
struct Carried {
    bound: u64,
    moved_pages: u64,
    refused: u64,
}

/// Lets a stage run under an engine.
///
/// # Errors
/// When the engine does not take a program.
pub(crate) fn run<S: Stage>(stage: &mut S, setup: &Setup<'_>) -> Result<Run, AttachError> {
    let mut engine = Engine::new(
        Arc::clone(&setup.topology),
        EngineOptions::for_pages_of(setup.page_bytes),
    );
    engine.map_within_nodes(policies::within_nodes());
    let mut driver = Driver {
        stage,
        engine,
        options: setup.options.clone(),
        programs: Vec::new(),
        judge: Judge::default(),
        story: Story::default(),
        windows: Vec::new(),
        before: Vec::new(),
        lively: vec![Lively::default(); setup.programs.len()],
    };
    driver.attach(setup)?;
    let mut records = Vec::new();
    loop {
        records.clear();
        if !driver.stage.step(&mut records) {
            return Ok(driver.finish());
        }
        driver.engine.handle_records(&records);
        let now = driver.stage.now();
        if driver
            .engine
            .deadline()
            .is_some_and(|deadline| deadline <= now)
        {
            driver.close_windows();
        }
    }
}

impl<S: Stage> Driver<'_, S> {
    fn attach(&mut self, setup: &Setup<'_>) -> Result<(), AttachError> {
        let now = self.stage.now();
        for pids in &setup.programs {
            let spec = AttachSpec {
                pids: pids.clone(),
                policy: (setup.policy)(),
                options: setup.options.clone(),
            };
            let id = self.engine.handle_attach(now, spec)?;
            self.programs.push(id);
        }
        if setup.look_first {
            let all = self.programs.clone();
            let observation = self.observe(&all);
            self.engine.handle_observation(now, &observation);
        }
        Ok(())
    }

    fn close_windows(&mut self) {
        let now = self.stage.now();
        let due = self.engine.due(now);
        let observation = self.observe(&due);
        self.judge.open(self.stage.topology(), &observation);
        self.engine.handle_observation(now, &observation);
        self.take_first_snapshots(&due);
        let carried = self.carry_out();
        self.tell(&carried);
    }

    fn position(&self, id: AttachmentId) -> Option<usize> {
        self.programs.iter().position(|&program| program == id)
    }

    /// Programs are numbered from 1 for people.
    fn number(&self, id: AttachmentId) -> u32 {
        self.position(id)
            .and_then(|position| u32::try_from(position + 1).ok())
            .unwrap_or(0)
    }

    fn observe(&mut self, due: &[AttachmentId]) -> Observation {
        let ask = |&id: &AttachmentId| {
            let wanted = self.engine.wanted_places(id, WANTED_PAGES_MAX);
            Some(Asked {
                attachment: id,
                program: self.position(id)?,
                pages: wanted
                    .iter()
                    .map(|wanted| (wanted.page, wanted.pid))
                    .collect(),
            })
        };
        let asked = due.iter().filter_map(ask).collect();
        self.stage.observe(asked)
    }

    /// What was seen before anything was changed: in the first window in which threads talked.
    fn take_first_snapshots(&mut self, due: &[AttachmentId]) {
        for &id in due {
            let number = self.number(id);
            let taken = |snapshot: &Snapshot| snapshot.program == number;
            if self.before.iter().any(taken) {
                continue;
            }
            if let Some(snapshot) = self.snapshot(id)
                && snapshot.matrix.pairs().next().is_some()
            {
                self.before.push(snapshot);
            }
        }
    }

    fn snapshot(&self, id: AttachmentId) -> Option<Snapshot> {
        let (keys, _, matrix) = self.engine.matrices(id)?;
        let places = self.stage.nodes();
        let place = |key: &TaskKey| places.get(key).copied().flatten();
        Some(Snapshot {
            program: self.number(id),
            threads: keys.iter().map(|key| (*key, place(key))).collect(),
            matrix,
            certainty: self.engine.certainty(id)?,
            per_amount: self.engine.samples_per_amount(id),
        })
    }

    fn carry_out(&mut self) -> BTreeMap<AttachmentId, Carried> {
        let mut carried: BTreeMap<AttachmentId, Carried> = BTreeMap::new();
        loop {
            let actions = self.engine.poll_actions(usize::MAX);
            if actions.is_empty() {
                break;
            }
            for action in &actions {
                self.judge.order(&*self.stage, &self.options, action);
            }
            let outcomes = self.stage.perform_all(&actions);
            for (action, outcome) in actions.iter().zip(&outcomes) {
                let carried = carried.entry(attachment_of(action)).or_default();
                carried.count(outcome);
                self.engine
                    .handle_outcome(self.stage.now(), action, outcome);
            }
        }
        let refused = carried.values().any(|carried| carried.refused > 0);
        if !refused && self.stage.is_calm() {
            self.judge.close(&*self.stage);
        }
        carried
    }

    fn tell(&mut self, carried: &BTreeMap<AttachmentId, Carried>) {
        while let Some(event) = self.engine.poll_event() {
            let number = self.number(event.attachment);
            self.story.add(self.stage.elapsed(), number, &event);
            if let Some(program) = self.position(event.attachment) {
                self.lively[program].note(&event.kind);
            }
            if let Event {
                attachment,
                kind: EventKind::Window(summary),
                ..
            } = event
            {
                let carried = carried.get(&attachment).copied().unwrap_or_default();
                self.row(attachment, summary, carried);
            }
        }
        for (program, lively) in self.lively.iter_mut().enumerate() {
            if lively.take() {
                self.stage.stir(program);
            }
        }
    }

    fn row(&mut self, id: AttachmentId, summary: WindowSummary, carried: Carried) {
        let Some(position) = self.position(id) else {
            return;
        };
        let figures = self.stage.measure(position);
        let elapsed = self.stage.elapsed();
        self.windows.push(WindowRow {
            time_ms: u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX),
            program: self.number(id),
            summary,
            bound: carried.bound,
            moved_pages: carried.moved_pages,
            refused: carried.refused,
            local_share: figures.local_share,
            untouched_share: figures.untouched_share,
            speed: figures.speed,
        });
    }

    fn finish(mut self) -> Run {
        let ids = self.programs.clone();
        let after = ids.iter().filter_map(|&id| self.snapshot(id)).collect();
        for id in ids {
            self.engine.handle_detach(self.stage.now(), id);
        }
        if self.engine.poll_action().is_some() {
            self.judge.note(
                &*self.stage,
                "orders something after everything was detached",
            );
        }
        Run {
            windows: self.windows,
            before: self.before,
            after,
            story: self.story,
            violations: self.judge.into_violations(),
        }
    }
}

impl Carried {
    fn count(&mut self, outcome: &Outcome) {
        match outcome {
            Outcome::Bound => self.bound += 1,
            Outcome::Refused(_) => self.refused += 1,
            Outcome::Moved { pages, .. } => {
                for page in pages {
                    match page {
                        PageOutcome::On(_) => self.moved_pages += 1,
                        PageOutcome::Stood(_) => {}
                        PageOutcome::Refused(_) => self.refused += 1,
                    }
                }
            }
        }
    }
}

const fn attachment_of(action: &Action) -> AttachmentId {
    match action {
        Action::Bind { attachment, .. } | Action::MovePages { attachment, .. } => *attachment,
    }
}

/// A machine as the engine knows it.
pub(crate) fn known(topology: &Arc<Topology>, bandwidth: Bandwidth) -> Arc<Topology> {
    match bandwidth {
        Bandwidth::Measured => characterized(topology),
        Bandwidth::Unknown => unmeasured(topology),
    }
}

/// A machine as the engine knows it where nobody measured it: by what its firmware says.
fn unmeasured(topology: &Topology) -> Arc<Topology> {
    let mut graph = BandwidthGraph::default();
    for ((from, to), mut link) in topology.bandwidth().iter() {
        let figures = [
            &mut link.read_mbps,
            &mut link.write_mbps,
            &mut link.loaded_mbps,
            &mut link.latency_ns,
        ];
        for figure in figures {
            *figure = figure.filter(|figure| figure.origin != Origin::Measured);
        }
        *graph.link_mut(from, to) = link;
    }
    Arc::new(topology.clone().with_bandwidth(graph))
}

/// A machine as the engine knows it once `numadctl characterize` was run on it: what the model estimates
/// of a made-up machine is what is measured there.
fn characterized(topology: &Topology) -> Arc<Topology> {
    let filled = with_estimates(topology.clone());
    let mut graph = filled.bandwidth().clone();
    for ((from, to), _) in filled.bandwidth().iter() {
        let link = graph.link_mut(from, to);
        for figure in [&mut link.read_mbps, &mut link.latency_ns] {
            if let Some(figure) = figure
                .as_mut()
                .filter(|figure| figure.origin == Origin::Estimated)
            {
                figure.origin = Origin::Measured;
            }
        }
    }
    Arc::new(filled.with_bandwidth(graph))
}

/// Prices where a sample is a fault: it stands for the uses that it does not show, the page once all over,
/// line by line.
pub(crate) fn priced_by_faults(prices: &mut Prices, page_bytes: u64) {
    let lines = u32::try_from(page_bytes / LINE_BYTES).unwrap_or(u32::MAX);
    prices.accesses_per_amount = f64::from(lines);
    prices.accesses_per_busy_second = ACCESSES_PER_BUSY_SECOND;
}

/// Bytes in a cache line of every processor this runs on but a few; only an estimate rests on it.
const LINE_BYTES: u64 = 64;

/// What the daemon does around a policy where nothing is set but what is given, by full names such as
/// `engine.hold_ms`; settings of the policy itself are passed over.
///
/// # Errors
/// Names a setting that is not known, or has no such value.
pub(crate) fn attach_options(
    factory: &PolicyFactory,
    given: &[(String, String)],
) -> Result<AttachOptions, SettingsError> {
    let given = given.iter().filter(|(name, _)| is_of_engine(name));
    let given = given.map(|(name, text)| (name.as_str(), text.as_str()));
    let options = Config::default().attach_options_with(given)?;
    Ok(published::around(factory, &options))
}

/// The same for a made-up source.
///
/// # Errors
/// As [`attach_options`].
pub(crate) fn attach_options_for(
    factory: &PolicyFactory,
    given: &[(String, String)],
    source: Source,
) -> Result<AttachOptions, SettingsError> {
    let mut options = attach_options(factory, given)?;
    match source {
        Source::Period => {}
        Source::Faults => priced_by_faults(&mut options.prices, PAGE_BYTES),
    }
    Ok(options)
}

/// Whether a setting is one of the engine's around the policy, which go by their full names.
pub(crate) fn is_of_engine(name: &str) -> bool {
    name.contains('.')
}
