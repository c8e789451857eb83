//! A machine that is not there, behind the steward's seams.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use actuator::{Balancing, Breathe, ProcessKey};
use config::{Config, Loaded, Paths};
use control::rows::{Finding, JournalMemory, JournalReport, JournalRow, Target, UndoReport};
use control::{ErrorKind, Failure};
use numad_core::{
    AccessKind, Action, AttachmentId, Host, Lifecycle, Observation, ObservedProgram,
    ObservedSharing, ObservedTask, Outcome, PageOutcome, Record, Refusal, Sample, Sent, ServedBy,
    Time,
};
use procfs::{Rank, Rights};
use sampler::Source;
use sampler::counters::{
    Counter, CounterOpener, CounterRefused, CounterSpec, EventCode, Flow, Gauge, Plan, Planned,
    Reading, Whom,
};
use tokio::sync::watch;
use topology::{CpuId, CpuSet, NodeId, NodeSet, Pid, StartTicks, TaskKey, Tid, Topology};

use crate::clock;
use crate::log::{Level, Log};
use crate::scratch::Scratch;
use crate::server::Gate;
use crate::shelf::Shelf;
use crate::steward::{
    Asked, Experiments, Finder, Hand, Machine, Meters, Named, Opener, OwnUsage, Parts,
    ProcessFacts, Scope, Steward, Stories, Survey, Unfit, gate_of,
};

mod source;

use source::FakeSource;

pub(crate) const PAGE_BYTES: u64 = 4096;

/// The fake machine; copies are the same machine.
#[derive(Clone, Debug)]
pub(crate) struct World(Arc<Mutex<State>>);

#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) now: Time,
    pub(crate) processes: BTreeMap<Pid, ProcessFacts>,
    /// When they began.
    pub(crate) born: BTreeMap<Pid, Time>,
    /// Threads of each process.
    pub(crate) threads: BTreeMap<Pid, Vec<ObservedTask>>,
    /// Waits to be drained.
    pub(crate) records: VecDeque<Record>,
    /// What is recorded while the next drain goes on, too late for it.
    pub(crate) during_drain: Vec<Record>,
    pub(crate) fill_permille: u16,
    /// How often the source makes programs fault, if it does, and records that were not read then.
    pub(crate) provokes_every: Option<Duration>,
    pub(crate) unread: Vec<usize>,
    pub(crate) source_refused: bool,
    /// What the source was told that it costs.
    pub(crate) told: Vec<sampler::Spending>,
    /// Processes of which it was told that something was worth changing.
    pub(crate) stirred: Vec<Pid>,
    /// Processor time that the steward's thread used, what each look at programs adds, and what clients took beside.
    pub(crate) used: Duration,
    pub(crate) look_costs: Duration,
    pub(crate) clients_used: Duration,
    pub(crate) source_open: bool,
    /// Threads that wait for their own mask until the journal is tidied.
    pub(crate) waiting: usize,
    /// What is recorded while the next undo goes on.
    pub(crate) during_undo: Vec<Record>,
    /// Undos that gave up.
    pub(crate) unfinished: usize,
    /// Programs that a user pays for.
    pub(crate) charged: Vec<(AttachmentId, u32)>,
    /// How long an undo takes, and how long by the clock of the machine that is not there.
    pub(crate) undo_takes: Duration,
    pub(crate) undo_passes: Duration,
    /// How the kernel balances, if it does.
    pub(crate) balancing: Option<Balancing>,
    /// Rows of the journal that say that it was switched on: one, or none.
    pub(crate) balancing_rows: usize,
    /// Pages that the kernel moved so far: ten between two looks.
    pub(crate) balanced: u64,
    pub(crate) followed: BTreeSet<Pid>,
    pub(crate) follow_max: Option<usize>,
    pub(crate) done: Vec<Action>,
    /// Processes that joined programs.
    pub(crate) joined: Vec<ProcessKey>,
    /// Processes that began another program, each with the undos before.
    pub(crate) began_another: Vec<(Pid, usize)>,
    /// Processes that were looked at one by one, and those that the source was told to forget.
    pub(crate) looked_at: Vec<Pid>,
    pub(crate) detached: BTreeSet<Pid>,
    /// The processes of each undo but of everything, with the starts that are meant.
    pub(crate) undone_starts: Vec<Named>,
    /// The processes of each undo; none for everything.
    pub(crate) undone: Vec<Option<Vec<Pid>>>,
    pub(crate) forgotten: Vec<AttachmentId>,
    pub(crate) named: Vec<Pid>,
    /// How much of a processor it takes to find them.
    pub(crate) search_takes: Duration,
    /// What processes say of themselves.
    pub(crate) ranks: BTreeMap<Pid, Rank>,
    /// What each of these sends in each window.
    pub(crate) sent: Vec<Sent>,
    pub(crate) children: BTreeMap<Pid, Vec<Pid>>,
    pub(crate) unfit: Vec<(AttachmentId, Pid, Unfit)>,
    /// Counters of the hardware are there.
    pub(crate) hardware: bool,
    /// Where the machine's one package counts what it uses, 50 W, in a directory like a root.
    pub(crate) package: Option<PathBuf>,
    pub(crate) counters_open: usize,
    /// How often programs were looked at.
    pub(crate) looks: usize,
    /// How often threads were listed, and a thread that is born right after the next look.
    pub(crate) listed: usize,
    pub(crate) newborn: Option<ObservedTask>,
    /// What it is, where that is not two nodes of two cores.
    pub(crate) machine: Option<&'static str>,
    /// The same with what was measured of it since.
    pub(crate) measured: Option<Arc<Topology>>,
}

impl State {
    fn found(&self, pid: Pid) -> Option<ProcessFacts> {
        let born = self.born.get(&pid).copied().unwrap_or_default();
        Some(ProcessFacts {
            age: self.now.since(born),
            ..self.processes.get(&pid)?.clone()
        })
    }

    fn unfit_of(&self, asked: &Asked) -> Vec<(AttachmentId, Pid, Unfit)> {
        let Some(whom) = asked.only_of.or(asked.shown_to) else {
            return Vec::new();
        };
        let processes = asked
            .members
            .iter()
            .filter_map(|(pid, _)| self.processes.get(pid));
        let closed =
            processes.filter_map(|process| Some((process.pid, whom.refused(&process.rights)?)));
        closed
            .map(|(pid, why)| (asked.attachment, pid, Unfit::Closed(why)))
            .collect()
    }
}

impl World {
    /// A machine with a process of four threads, `100`, of user 7; `200` of user 8; and `2`, the
    /// kernel's.
    pub(crate) fn new() -> Self {
        let world = Self(Arc::default());
        world.state().now = Time(1_000_000_000);
        world.add_process(100, 7, 4);
        world.add_process(200, 8, 2);
        world.add_process(2, 0, 1);
        world.add_process(1, 0, 1);
        world.add_process(std::process::id(), 0, 2);
        if let Some(kernel) = world.state().processes.get_mut(&Pid(2)) {
            kernel.kernel = true;
        }
        world
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    pub(crate) fn add_process(&self, pid: u32, uid: u32, threads: u32) {
        let start = StartTicks(u64::from(pid) * 10);
        let facts = ProcessFacts {
            pid: Pid(pid),
            start,
            age: Duration::ZERO,
            command: format!("program{pid}"),
            uid,
            rights: Rights::ordinary(uid, uid),
            threads,
            kernel: false,
        };
        let tasks = (0..threads).map(|number| ObservedTask {
            key: TaskKey {
                pid: Pid(pid),
                tid: Tid(pid + number),
                start,
            },
            name: format!("worker{number}"),
            cpu: CpuId(number % 4),
            cpu_time: Duration::ZERO,
            affinity: CpuSet::parse_list("0-3").unwrap(),
            cgroup_cpus: CpuSet::new(),
        });
        let mut state = self.state();
        let now = state.now;
        state.born.insert(Pid(pid), now);
        state.threads.insert(Pid(pid), tasks.collect());
        state.processes.insert(Pid(pid), facts);
    }

    /// Lets time pass, with every thread busy and sharing a page with its neighbour.
    pub(crate) fn pass(&self, time: Duration) {
        let mut state = self.state();
        state.now = state.now.after(time);
        let now = state.now;
        for tasks in state.threads.values_mut() {
            for task in tasks {
                task.cpu_time += time;
            }
        }
        let followed = state.followed.clone();
        for pid in followed {
            let tids: Vec<Tid> = state
                .threads
                .get(&pid)
                .into_iter()
                .flatten()
                .map(|task| task.key.tid)
                .collect();
            for page in 0..64 {
                for (number, &tid) in (0u64..).zip(&tids) {
                    let address = (0x100 + number / 2 * 64 + page) * PAGE_BYTES;
                    state.records.push_back(sample(now, pid, tid, address));
                }
            }
        }
    }

    /// From now on these may look into a process.
    pub(crate) fn set_rights(&self, pid: u32, rights: Rights) {
        if let Some(process) = self.state().processes.get_mut(&Pid(pid)) {
            process.rights = rights;
        }
    }

    /// One process makes another.
    pub(crate) fn fork(&self, parent: u32, pid: u32) {
        let mut state = self.state();
        // No two forks of one process and its child are at once.
        state.now = state.now.after(Duration::from_micros(1));
        let fork = Lifecycle::Fork {
            time: state.now,
            pid: Pid(pid),
            tid: Tid(pid),
            parent: Pid(parent),
        };
        state.records.push_back(Record::Lifecycle(fork));
    }

    /// A process and its threads are gone.
    pub(crate) fn end_process(&self, pid: u32) {
        let mut state = self.state();
        state.processes.remove(&Pid(pid));
        state.threads.remove(&Pid(pid));
    }

    /// A steward of this machine, with these settings, read again from `file` on reload.
    pub(crate) fn steward(&self, settings: &Settings) -> (Steward, watch::Receiver<Gate>) {
        self.steward_with_clock(settings, {
            let world = self.clone();
            Box::new(move || world.state().now)
        })
    }

    pub(crate) fn steward_with_clock(
        &self,
        settings: &Settings,
        clock: clock::Clock,
    ) -> (Steward, watch::Receiver<Gate>) {
        let loaded = settings.load().unwrap();
        let (sender, gate) = watch::channel(gate_of(&loaded.config));
        let (paths, world) = (settings.paths(), self.clone());
        let machine = self.state().machine.unwrap_or("2x2@10,21");
        let topology = topology::synthetic::parse(machine).unwrap();
        let log = Log::to_stderr(Level::Error);
        let shelf = Shelf::open(settings.experiments()).unwrap();
        let experiments = Experiments::new(shelf, &log);
        let stories = Stories::new(Shelf::open(settings.stories()).unwrap(), &log);
        let parts = Parts {
            topology: Arc::new(topology),
            measured: Box::new(move || world.state().measured.take()),
            page_bytes: PAGE_BYTES,
            machine: Box::new(self.clone()),
            hand: Box::new(self.clone()),
            opener: Box::new(self.clone()),
            meters: Meters::new(Box::new(self.clone()), plan(), Vec::new()),
            config: loaded.config,
            files: loaded.files,
            loader: Box::new(move || config::load(&paths)),
            clock,
            log,
            gate: sender,
        };
        (Steward::new(parts, experiments, stories), gate)
    }
}

/// A settings file of a test.
#[derive(Debug)]
pub(crate) struct Settings {
    scratch: Scratch,
}

impl Settings {
    pub(crate) fn new(name: &str, text: &str) -> Self {
        let settings = Self {
            scratch: Scratch::new(name),
        };
        settings.write(text);
        settings
    }

    pub(crate) fn write(&self, text: &str) {
        std::fs::write(self.file(), text).unwrap();
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.scratch.path().join("numad.toml")
    }

    /// Where experiments are kept.
    pub(crate) fn experiments(&self) -> PathBuf {
        self.scratch.path().join("experiments")
    }

    /// Where stories are kept.
    pub(crate) fn stories(&self) -> PathBuf {
        self.scratch.path().join("history")
    }

    fn paths(&self) -> Paths {
        Paths::named(&self.file())
    }

    fn load(&self) -> Result<Loaded, config::ConfigError> {
        config::load(&self.paths())
    }
}

pub(crate) fn sample(time: Time, pid: Pid, tid: Tid, address: u64) -> Record {
    Record::Sample(Sample {
        time,
        pid,
        tid,
        address,
        physical: 0,
        cpu: CpuId(0),
        kind: AccessKind::Unknown,
        served: ServedBy::Unknown,
        weight: 0,
        period: 1,
    })
}

/// One controller, on the first of two nodes.
fn plan() -> Plan {
    let planned = |flow, config| Planned {
        gauge: Gauge::Memory {
            nodes: vec![NodeId(0)],
            flow,
        },
        spec: CounterSpec {
            event: EventCode {
                pmu: 20,
                config,
                ..EventCode::default()
            },
            whom: Whom::Machine(CpuId(0)),
            user_only: false,
        },
        unit: 64.0,
        name: "uncore_imc_0/made-up/".to_owned(),
    };
    Plan {
        planned: vec![planned(Flow::Read, 2), planned(Flow::Written, 3)],
        lacks: Vec::new(),
    }
}

/// Counts `config` plus one millions a second.
#[derive(Debug)]
struct FakeCounter {
    world: World,
    config: u64,
    since: Time,
}

impl CounterOpener for World {
    fn open(&mut self, spec: &CounterSpec) -> Result<Box<dyn Counter>, CounterRefused> {
        let mut state = self.state();
        if spec.event.pmu != 1 && !state.hardware {
            return Err(CounterRefused::NoHardware);
        }
        state.counters_open += 1;
        Ok(Box::new(FakeCounter {
            world: self.clone(),
            config: spec.event.config,
            since: state.now,
        }))
    }
}

impl Counter for FakeCounter {
    fn read(&mut self) -> std::io::Result<Reading> {
        let span = self.world.state().now.since(self.since);
        let ns = u64::try_from(span.as_nanos()).unwrap();
        Ok(Reading {
            value: ns / 1000 * (self.config + 1),
            enabled_ns: ns,
            running_ns: ns,
        })
    }
}

impl Drop for FakeCounter {
    fn drop(&mut self) {
        self.world.state().counters_open -= 1;
    }
}

impl Machine for World {
    fn process(&mut self, pid: Pid) -> Result<Option<ProcessFacts>, Failure> {
        let mut state = self.state();
        state.looked_at.push(pid);
        Ok(state.found(pid))
    }

    fn finder(&mut self, target: &Target) -> Finder {
        let state = self.state();
        let named = state.named.iter();
        let found: Vec<_> = named.filter_map(|&pid| state.found(pid)).collect();
        let (target, takes) = (target.clone(), state.search_takes);
        Box::new(move || {
            let began = clock::thread_processor_time();
            while clock::thread_processor_time().saturating_sub(began) < takes {}
            match target {
                Target::Unit(unit) => {
                    let message = format!("there is no control group or unit `{unit}`");
                    Err(Failure::new(ErrorKind::NotFound, message))
                }
                _ => Ok(found),
            }
        })
    }

    fn ranks(&mut self, pids: &[Pid]) -> BTreeMap<Pid, Rank> {
        let state = self.state();
        let known = pids.iter().filter_map(|pid| state.ranks.get_key_value(pid));
        known.map(|(pid, rank)| (*pid, rank.clone())).collect()
    }

    fn sent(&mut self, members: &[(Pid, StartTicks)]) -> Vec<Sent> {
        let of_these = |pid: Pid| members.iter().any(|(member, _)| *member == pid);
        let sent = self.state().sent.clone().into_iter();
        sent.filter(|sent| of_these(sent.from) && of_these(sent.to))
            .collect()
    }

    fn parent(&mut self, pid: Pid) -> Option<Pid> {
        let state = self.state();
        let mut families = state.children.iter();
        families.find_map(|(parent, of)| of.contains(&pid).then_some(*parent))
    }

    fn children(&mut self, pid: Pid) -> Vec<Pid> {
        self.state().children.get(&pid).cloned().unwrap_or_default()
    }

    fn observe(&mut self, programs: &[Asked]) -> Observation {
        let mut state = self.state();
        state.used = state.used + state.look_costs;
        state.looks += programs.len();
        let born = state.newborn.take();
        state.unfit = programs
            .iter()
            .flat_map(|asked| state.unfit_of(asked))
            .collect();
        let left_out = |asked: &Asked, pid: &Pid| {
            let unfit = state.unfit.iter();
            asked.only_of.is_some()
                && unfit
                    .clone()
                    .any(|(id, unfit, _)| (id, unfit) == (&asked.attachment, pid))
        };
        let programs = programs.iter().map(|asked| ObservedProgram {
            attachment: asked.attachment,
            tasks: asked
                .members
                .iter()
                .filter(|(pid, _)| !left_out(asked, pid))
                .filter_map(|(pid, _)| state.threads.get(pid))
                .flatten()
                .cloned()
                .collect(),
            homes: asked
                .pages
                .iter()
                .map(|wanted| (wanted.page, Some(NodeId(0))))
                .collect(),
            nodes_allowed: NodeSet::new(),
            large: Vec::new(),
            sharing: ObservedSharing::default(),
            resident_bytes: 1 << 20,
        });
        let programs = programs.collect();
        if let Some(born) = born {
            state.threads.entry(born.key.pid).or_default().push(born);
        }
        Observation {
            programs,
            free_bytes: vec![(NodeId(0), 1 << 33), (NodeId(1), 1 << 33)],
            online: CpuSet::new(),
            lost: 0,
            kernel_balances: state.balancing.is_some(),
            ..Observation::default()
        }
    }

    fn threads(&mut self, pids: &[Pid]) -> Vec<Tid> {
        let mut state = self.state();
        state.listed += 1;
        let threads = pids.iter().filter_map(|pid| state.threads.get(pid));
        threads.flatten().map(|task| task.key.tid).collect()
    }

    fn unfit(&mut self) -> Vec<(AttachmentId, Pid, Unfit)> {
        std::mem::take(&mut self.state().unfit)
    }

    fn forget(&mut self, attachment: AttachmentId) {
        self.state().forgotten.push(attachment);
    }

    fn rebound(&mut self, _attachment: AttachmentId, _task: TaskKey) {}

    fn rivals(&mut self) -> Vec<String> {
        vec!["the kernel's own balancing is on".to_owned()]
    }

    fn own_usage(&mut self) -> OwnUsage {
        OwnUsage {
            cpu_s: self.own_processor_time().as_secs_f64(),
            resident_bytes: 1 << 20,
        }
    }

    fn own_processor_time(&mut self) -> Duration {
        let state = self.state();
        Duration::from_millis(250) + state.used + state.clients_used
    }

    fn own_time(&mut self) -> Duration {
        self.state().used
    }

    fn allowed(&mut self, pid: Pid) -> CpuSet {
        let state = self.state();
        let first = state.threads.get(&pid).and_then(|threads| threads.first());
        first.map(|task| task.affinity.clone()).unwrap_or_default()
    }

    fn kernel_balances(&mut self) -> bool {
        self.state().balancing.is_some()
    }

    fn moved_by_kernel(&mut self) -> Option<u64> {
        let mut state = self.state();
        state.balanced += 10;
        Some(state.balanced)
    }

    fn date_s(&mut self) -> u64 {
        1_700_000_000
    }

    fn totals(&mut self, _pid: Pid) -> experiment::Totals {
        experiment::Totals {
            cpu: Some(self.state().now.since(Time(0)) / 4),
            ..experiment::Totals::default()
        }
    }

    fn energy(&mut self) -> Result<procfs::Energy, Failure> {
        let (root, now) = {
            let state = self.state();
            (state.package.clone(), state.now)
        };
        let root = root.ok_or_else(experiment::metric::no_energy)?;
        let folder = root.join("sys/class/powercap/intel-rapl:0");
        std::fs::create_dir_all(&folder).unwrap();
        // Goes round every 20 s.
        let used = now.since(Time(0)).as_micros() * 50 % 1_000_000_000;
        for (file, text) in [
            ("name", "package-0".to_owned()),
            ("max_energy_range_uj", "1000000000".to_owned()),
            ("energy_uj", used.to_string()),
        ] {
            std::fs::write(folder.join(file), text).unwrap();
        }
        let energy = procfs::Reader::new(root).energy();
        energy
            .ok()
            .and_then(procfs::Presence::here)
            .ok_or_else(experiment::metric::no_energy)
    }

    fn findings(&mut self, _config: &Config) -> Survey {
        Box::new(|| {
            vec![Finding {
                level: "ok".to_owned(),
                subject: "kernel".to_owned(),
                text: "Linux 6.18".to_owned(),
                remedy: "none".to_owned(),
            }]
        })
    }
}

impl Host for World {
    fn perform(&mut self, action: &Action) -> Outcome {
        let mut state = self.state();
        state.done.push(action.clone());
        match action {
            Action::Bind { task, cpus, .. } => {
                for known in state.threads.values_mut().flatten() {
                    if known.key == *task {
                        known.affinity = cpus.clone();
                    }
                }
                Outcome::Bound
            }
            Action::MovePages { pages, node, .. } => Outcome::Moved {
                pages: pages.iter().map(|_| PageOutcome::On(*node)).collect(),
                spent_ns: 1_000,
                took_ns: 1_000,
            },
        }
    }
}

impl Hand for World {
    fn undo(&mut self, scope: &Scope, breathe: Breathe<'_>) -> UndoReport {
        let began = std::time::Instant::now();
        let takes = self.state().undo_takes;
        while {
            breathe();
            began.elapsed() < takes
        } {
            std::thread::sleep(takes / 16);
        }
        let mut state = self.state();
        state.now = state.now.after(state.undo_passes);
        if let Scope::Processes(pids) | Scope::Program(_, pids) | Scope::Leavers(_, pids) = scope {
            state.undone_starts.push(pids.clone());
        }
        state.undone.push(match scope {
            Scope::All => None,
            Scope::Processes(pids) | Scope::Program(_, pids) | Scope::Leavers(_, pids) => {
                Some(pids.keys().copied().collect())
            }
        });
        let recorded = std::mem::take(&mut state.during_undo);
        state.records.extend(recorded);
        let meant = |pid| match scope {
            Scope::All => true,
            Scope::Processes(pids) | Scope::Program(_, pids) | Scope::Leavers(_, pids) => {
                pids.contains_key(&pid)
            }
        };
        let undone = state.done.extract_if(.., |action| match action {
            Action::Bind { task, .. } => meant(task.pid),
            Action::MovePages { pid, .. } => meant(*pid),
        });
        let threads_restored = u64::try_from(undone.count()).unwrap();
        UndoReport {
            threads_restored,
            ..UndoReport::default()
        }
    }

    fn is_unfinished(&self) -> bool {
        self.state().unfinished > 0
    }

    fn undo_more(&mut self, _breathe: Breathe<'_>) -> Option<UndoReport> {
        let mut state = self.state();
        state.unfinished -= 1;
        state.now = state.now.after(state.undo_passes);
        Some(UndoReport::default())
    }

    fn charge(&mut self, attachment: AttachmentId, payer: u32) {
        self.state().charged.push((attachment, payer));
    }

    fn follow(&mut self, _attachment: AttachmentId, processes: &[ProcessKey]) {
        self.state().joined.extend(processes);
    }

    fn began_another(&mut self, pids: &[Pid]) {
        let mut state = self.state();
        let undone = state.undone.len();
        let began = pids.iter().map(|&pid| (pid, undone));
        state.began_another.extend(began);
    }

    fn tidy(&mut self) {
        self.state().waiting = 0;
    }

    fn balance(&mut self) -> Result<Balancing, Refusal> {
        let mut state = self.state();
        match (state.balancing.is_some(), state.balancing_rows > 0) {
            (true, true) => Ok(Balancing::Switched),
            (true, false) => Ok(Balancing::Already),
            (false, true) => {
                state.balancing_rows = 0;
                Err(Refusal::ChangedByOther)
            }
            (false, false) => {
                state.balancing_rows = 1;
                Ok(*state.balancing.insert(Balancing::Switched))
            }
        }
    }

    fn leave_balancing(&mut self) -> Result<(), String> {
        let mut state = self.state();
        if std::mem::take(&mut state.balancing_rows) > 0 {
            state.balancing.take_if(|how| *how == Balancing::Switched);
        }
        Ok(())
    }

    fn waits(&self) -> bool {
        self.state().waiting > 0
    }

    fn open_rows(&self) -> u64 {
        u64::try_from(self.state().done.len()).unwrap()
    }

    /// As if each process had got one change.
    fn journal(&self) -> JournalReport {
        let row = |pid| JournalRow {
            pages: 1,
            ..JournalRow::new((pid, 0), Vec::new())
        };
        JournalReport {
            directory: "/state".to_owned(),
            processes: self
                .state()
                .processes
                .keys()
                .map(|pid| row(pid.0))
                .collect(),
            shared: vec![JournalMemory::default()],
            ..JournalReport::default()
        }
    }

    fn take_pause_max_ns(&mut self) -> u64 {
        750
    }

    fn findings(&self) -> Vec<Finding> {
        Vec::new()
    }
}

impl Opener for World {
    fn open(&mut self, _config: &Config) -> Result<Box<dyn Source>, Failure> {
        let mut state = self.state();
        if state.source_refused {
            let message = "cannot sample page faults on cpu `0`: not permitted";
            return Err(Failure::new(ErrorKind::Prerequisite, message).remedy("grant CAP_PERFMON"));
        }
        state.source_open = true;
        Ok(Box::new(FakeSource::new(self.clone())))
    }

    fn describe(&mut self, _config: &Config) -> String {
        "faults (none yet)".to_owned()
    }

    fn findings(&mut self, _config: &Config) -> Survey {
        Box::new(Vec::new)
    }
}
