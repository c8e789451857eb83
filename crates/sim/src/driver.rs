//! Runs the real engine against a world.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use numad_core::event::WindowSummary;
use numad_core::{
    Action, AttachError, AttachOptions, AttachSpec, AttachmentId, CommMatrix, Engine,
    EngineOptions, Event, EventKind, Host, NodeTraffic, Observation, Outcome, PageOutcome, Policy,
    PolicyFactory, Progress,
};
use topology::{NodeId, Pid, TaskKey};

use crate::fault::Fault;
use crate::judge::Judge;
use crate::story::Story;
use crate::world::{PAGE_BYTES, Totals, World, WorldSpec, whole};

/// Pages whose place is looked up per window and program, as a daemon on a budget would.
const WANTED_PAGES_MAX: usize = 16_384;

/// What a run needs.
pub(crate) struct Setup<'a> {
    pub(crate) world: WorldSpec,
    pub(crate) options: AttachOptions,
    pub(crate) duration: Duration,
    /// Observations say how far programs got and what memory carries.
    pub(crate) counters: bool,
    /// Makes the policy of each program.
    pub(crate) policy: &'a dyn Fn() -> Box<dyn Policy>,
}

/// What came of a run.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) windows: Vec<WindowRow>,
    pub(crate) totals: Totals,
    pub(crate) threads: usize,
    pub(crate) before: Vec<Snapshot>,
    pub(crate) after: Vec<Snapshot>,
    pub(crate) story: Story,
    pub(crate) undo_complete: bool,
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
    /// Part of all accesses since this program's last window that was local; what the engine can only
    /// estimate.
    pub local_share: f64,
    /// Work done since this program's last window, as part of what an idle machine with everything
    /// local would have done.
    pub speed: f64,
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
}

struct Driver {
    world: World,
    engine: Engine,
    options: AttachOptions,
    programs: Vec<Attached>,
    judge: Judge,
    story: Story,
    windows: Vec<WindowRow>,
    before: Vec<Snapshot>,
    /// First home of every page, for judging undo.
    first_homes: BTreeMap<(usize, usize), NodeId>,
    phase: usize,
    threads: usize,
    counters: Option<Counters>,
}

/// What the counters of the machine said the last time.
#[derive(Default)]
struct Counters {
    at: Duration,
    controller_bytes: Vec<f64>,
}

struct Attached {
    id: AttachmentId,
    pid: Pid,
    reading: Totals,
    reading_at: Duration,
    /// What its threads did when it was observed the last time.
    progress: Progress,
}

/// What was carried out in one round, by attachment.
#[derive(Clone, Copy, Default)]
struct Carried {
    bound: u64,
    moved_pages: u64,
    refused: u64,
}

/// Lets a world run under an engine.
///
/// # Errors
/// When the engine does not take a program, which is a mistake of ours.
pub(crate) fn run(setup: &Setup<'_>) -> Result<Run, AttachError> {
    let world = World::new(&setup.world);
    let engine = Engine::new(
        Arc::clone(world.topology()),
        EngineOptions::for_pages_of(PAGE_BYTES),
    );
    let mut driver = Driver {
        first_homes: world.placement().homes.into_iter().collect(),
        phase: world.phase(),
        threads: setup.world.threads,
        world,
        engine,
        options: setup.options.clone(),
        programs: Vec::new(),
        judge: Judge::default(),
        story: Story::default(),
        windows: Vec::new(),
        before: Vec::new(),
        counters: setup.counters.then(Counters::default),
    };
    driver.attach(setup)?;
    let mut records = Vec::new();
    while driver.world.elapsed() < setup.duration {
        records.clear();
        driver.world.step(&mut records);
        driver.note_first_homes();
        for record in &records {
            driver.engine.handle_record(record);
        }
        let now = driver.world.now();
        if driver
            .engine
            .deadline()
            .is_some_and(|deadline| deadline <= now)
        {
            driver.close_windows();
        }
    }
    Ok(driver.finish())
}

impl Driver {
    fn attach(&mut self, setup: &Setup<'_>) -> Result<(), AttachError> {
        for pid in self.world.pids() {
            let spec = AttachSpec {
                pids: vec![pid],
                policy: (setup.policy)(),
                options: setup.options.clone(),
            };
            let id = self.engine.handle_attach(self.world.now(), spec)?;
            self.programs.push(Attached {
                id,
                pid,
                reading: self.world.totals().clone(),
                reading_at: Duration::ZERO,
                progress: Progress::default(),
            });
        }
        Ok(())
    }

    /// Pages that were touched in this step, in which a phase began, are where they are by themselves.
    fn note_first_homes(&mut self) {
        if self.phase != self.world.phase() {
            self.phase = self.world.phase();
            for (page, home) in self.world.placement().homes {
                self.first_homes.entry(page).or_insert(home);
            }
        }
    }

    fn close_windows(&mut self) {
        let now = self.world.now();
        let due = self.engine.due(now);
        let observation = self.observe(&due);
        let pids: Vec<Pid> = due.iter().filter_map(|&id| self.pid_of(id)).collect();
        self.judge.open(self.world.topology(), &observation, &pids);
        self.engine.handle_observation(now, &observation);
        self.take_first_snapshots(&due);
        let carried = self.carry_out();
        self.tell(&carried);
    }

    /// Programs are numbered from 1 for people.
    fn number(&self, id: AttachmentId) -> u32 {
        let position = self.programs.iter().position(|program| program.id == id);
        position
            .and_then(|position| u32::try_from(position + 1).ok())
            .unwrap_or(0)
    }

    fn pid_of(&self, id: AttachmentId) -> Option<Pid> {
        let program = self.programs.iter().find(|program| program.id == id)?;
        Some(program.pid)
    }

    fn observe(&mut self, due: &[AttachmentId]) -> Observation {
        let (traffic, progress) = self.count(due);
        let programs = due
            .iter()
            .filter_map(|&id| {
                let pid = self.pid_of(id)?;
                let wanted = self.engine.wanted_pages(id, WANTED_PAGES_MAX);
                let home = |key: numad_core::PageKey| {
                    let pid = self.engine.process_of(key)?;
                    self.world.home(pid, key.page.saturating_mul(PAGE_BYTES))
                };
                let homes = wanted.into_iter().map(|key| (key, home(key))).collect();
                Some(self.world.observe(id, pid, homes))
            })
            .collect();
        Observation {
            programs,
            free_bytes: self.world.free_memory(),
            online: self.world.online().clone(),
            lost: 0,
            traffic,
            progress,
        }
    }

    /// What counters would say, if the machine has any.
    fn count(&mut self, due: &[AttachmentId]) -> (Vec<NodeTraffic>, Vec<(AttachmentId, Progress)>) {
        let Some(counters) = &mut self.counters else {
            return (Vec::new(), Vec::new());
        };
        let elapsed = self.world.elapsed();
        let span = (elapsed - counters.at).as_secs_f64();
        counters.at = elapsed;
        let now = self.world.totals().controller_bytes.clone();
        counters.controller_bytes.resize(now.len(), 0.0);
        let nodes = self.world.topology().nodes().iter();
        let bytes = now.iter().zip(&counters.controller_bytes);
        let traffic = nodes.zip(bytes).map(|(node, (now, before))| NodeTraffic {
            node: node.id,
            read_bytes_per_s: whole((now - before) / span.max(1e-9)),
            written_bytes_per_s: 0,
        });
        let traffic = traffic.collect();
        counters.controller_bytes = now;
        let mut progress = Vec::new();
        for program in self
            .programs
            .iter_mut()
            .filter(|program| due.contains(&program.id))
        {
            let now = self.world.progress(program.pid);
            let before = std::mem::replace(&mut program.progress, now);
            let since = Progress {
                instructions: now.instructions.saturating_sub(before.instructions),
                cycles: now.cycles.saturating_sub(before.cycles),
            };
            progress.push((program.id, since));
        }
        (traffic, progress)
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
        let places: BTreeMap<TaskKey, Option<NodeId>> = self
            .world
            .thread_keys()
            .into_iter()
            .zip(self.world.thread_nodes())
            .filter_map(|(key, node)| Some((key?, node)))
            .collect();
        let place = |key: &TaskKey| places.get(key).copied().flatten();
        Some(Snapshot {
            program: self.number(id),
            threads: keys.iter().map(|key| (*key, place(key))).collect(),
            matrix,
        })
    }

    fn carry_out(&mut self) -> BTreeMap<AttachmentId, Carried> {
        let mut carried: BTreeMap<AttachmentId, Carried> = BTreeMap::new();
        while let Some(action) = self.engine.poll_action() {
            self.judge.order(&self.world, &self.options, &action);
            let outcome = self.world.perform(&action);
            carried
                .entry(attachment_of(&action))
                .or_default()
                .count(&outcome);
            self.engine
                .handle_outcome(self.world.now(), &action, &outcome);
        }
        let refused = carried.values().any(|carried| carried.refused > 0);
        let faults = self.world.faults();
        let disturbed = [Fault::Vanish, Fault::Refuse, Fault::Offline, Fault::Rival];
        if !refused && !disturbed.iter().any(|&fault| faults.has(fault)) {
            self.judge.close(&self.world);
        }
        carried
    }

    fn tell(&mut self, carried: &BTreeMap<AttachmentId, Carried>) {
        while let Some(event) = self.engine.poll_event() {
            let number = self.number(event.attachment);
            self.story.add(self.world.elapsed(), number, &event);
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
    }

    fn row(&mut self, id: AttachmentId, summary: WindowSummary, carried: Carried) {
        let elapsed = self.world.elapsed();
        let (threads, number) = (self.threads, self.number(id));
        let Some(program) = self.programs.iter_mut().find(|program| program.id == id) else {
            return;
        };
        let done = self.world.totals().since(&program.reading);
        let ideal = (elapsed - program.reading_at).as_nanos() as f64 * threads as f64;
        program.reading = self.world.totals().clone();
        program.reading_at = elapsed;
        self.windows.push(WindowRow {
            time_ms: u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX),
            program: number,
            summary,
            bound: carried.bound,
            moved_pages: carried.moved_pages,
            refused: carried.refused,
            local_share: done.local_share(),
            speed: if ideal > 0.0 {
                done.work() / ideal
            } else {
                0.0
            },
        });
    }

    fn finish(mut self) -> Run {
        let ids: Vec<AttachmentId> = self.programs.iter().map(|program| program.id).collect();
        let after = ids.iter().filter_map(|&id| self.snapshot(id)).collect();
        let totals = self.world.totals().clone();
        for id in ids {
            self.engine.handle_detach(self.world.now(), id);
        }
        if self.engine.poll_action().is_some() {
            self.judge.note(
                &self.world,
                "orders something after everything was detached",
            );
        }
        self.world.undo();
        Run {
            windows: self.windows,
            totals,
            threads: self.threads,
            before: self.before,
            after,
            story: self.story,
            undo_complete: undo_complete(&self.world, &self.first_homes),
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
                        PageOutcome::Refused(_) => self.refused += 1,
                    }
                }
            }
        }
    }
}

/// Whether everything is where it would be had the engine never been. Nobody sets masks in a world
/// but the engine and rivals; whose masks stay is the rivals' business.
fn undo_complete(world: &World, first_homes: &BTreeMap<(usize, usize), NodeId>) -> bool {
    let placement = world.placement();
    let rivals = world.faults().has(Fault::Rival);
    let masks = rivals || placement.masks.iter().all(|(_, mask)| mask.is_none());
    let homes = |(page, home): &((usize, usize), NodeId)| first_homes.get(page) == Some(home);
    masks && placement.homes.iter().all(homes)
}

const fn attachment_of(action: &Action) -> AttachmentId {
    match action {
        Action::Bind { attachment, .. } | Action::MovePages { attachment, .. } => *attachment,
    }
}

/// The daemon's defaults for a policy.
pub(crate) fn attach_options(factory: &dyn PolicyFactory) -> AttachOptions {
    AttachOptions {
        require_gain: factory.seeks_gain(),
        ..AttachOptions::default()
    }
}
