//! A machine that is not there: threads that run where they are allowed, pages that lie somewhere.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use numad_core::{
    AccessKind, Action, AttachOptions, AttachSpec, AttachmentId, CommMatrix, Engine, EngineOptions,
    Event, EventKind, Fate, Host, IntervalLaw, Lifecycle, NodeTraffic, Observation,
    ObservedProgram, ObservedSharing, ObservedTask, Outcome, PageKey, PageOutcome, Plan, Policy,
    Program, Progress, Proposal, Reason, Record, Sample, ServedBy, Time, Veto, WindowSummary,
};
use topology::{CpuId, CpuSet, NodeId, NodeSet, Pid, StartTicks, TaskKey, Tid, Topology};

pub(crate) const PAGE: u64 = 4096;
pub(crate) const WINDOW: Duration = Duration::from_millis(500);

/// What a scripted policy wants, by thread number and by page number; shared with the test.
#[derive(Debug, Default)]
pub(crate) struct Script {
    pub(crate) threads: Vec<(u32, usize)>,
    pub(crate) pages: Vec<(u64, usize)>,
    pub(crate) fates: Vec<(Proposal, Fate)>,
    /// What it wanted of threads stands.
    pub(crate) stands: bool,
    pub(crate) asked: u32,
    pub(crate) capacity: Vec<usize>,
    /// What other cores' caches answered, and the pace, as the policy saw them.
    pub(crate) handed: Option<CommMatrix>,
    pub(crate) ipc: Option<f64>,
    pub(crate) tasks: Vec<u32>,
    /// Where each of them may be, by node.
    pub(crate) allowed: Vec<Vec<bool>>,
    /// What the memory of each node gives and what others take of it, as the policy saw it.
    pub(crate) memory: Vec<(f64, f64)>,
    /// Pages of which no user was remembered, by the first of each piece, with how many they stand
    /// for.
    pub(crate) anyones: Vec<(u64, u64)>,
    /// What part of all uses of pages is of threads on the node that the page is on.
    pub(crate) beside: f64,
}

#[derive(Debug)]
struct Scripted(Arc<Mutex<Script>>);

impl Policy for Scripted {
    fn propose(&mut self, _now: Time, program: &Program<'_>, out: &mut Vec<Proposal>) {
        let mut script = self.0.lock().unwrap();
        script.asked += 1;
        script.capacity = program.capacity.to_vec();
        script.handed = program.handed.cloned();
        script.ipc = program.ipc;
        script.tasks = program.tasks.iter().map(|task| task.key.tid.0).collect();
        script.allowed = program
            .tasks
            .iter()
            .map(|task| task.allowed.clone())
            .collect();
        let pages = program.pages.iter().filter(|page| page.remembered() == 0.0);
        script.anyones = pages.map(|page| (page.key.page, page.span)).collect();
        script.beside = beside(program);
        let model = program.model;
        let memory =
            (0..model.nodes()).map(|at| (model.controller_gbps(at), model.background_gbps(at)));
        script.memory = memory.collect();
        let position = |tid: u32| program.tasks.iter().position(|task| task.key.tid.0 == tid);
        for &(tid, node) in &script.threads {
            if let Some(task) = position(tid) {
                out.push(Proposal::PlaceTask {
                    task,
                    node,
                    reason: Reason::Order,
                });
            }
        }
        script.propose_pages(program, out);
    }

    fn page_moves(&mut self, _now: Time, program: &Program<'_>, out: &mut Plan) -> bool {
        let script = self.0.lock().unwrap();
        script.propose_pages(program, out);
        script.stands
    }

    fn on_fate(&mut self, _now: Time, proposal: &Proposal, fate: Fate) {
        self.0.lock().unwrap().fates.push((proposal.clone(), fate));
    }
}

fn beside(program: &Program<'_>) -> f64 {
    let (mut near, mut all) = (0.0, 0.0);
    for page in program.pages {
        for user in page.accessors() {
            let node = program.tasks[user.task as usize].node;
            all += f64::from(user.weight);
            if node == page.home.map(usize::from) {
                near += f64::from(user.weight);
            }
        }
    }
    near / f64::max(all, 1.0)
}

impl Script {
    fn propose_pages(&self, program: &Program<'_>, out: &mut Plan) {
        for &(number, node) in &self.pages {
            let page = program.pages.iter().find(|page| page.key.page == number);
            let space = program.pages.first().map(|page| page.key.space);
            if let Some(space) = space {
                let page = page.map_or(
                    PageKey {
                        space,
                        page: number,
                    },
                    |page| page.key,
                );
                out.push(Proposal::MovePage {
                    page,
                    node,
                    reason: Reason::Order,
                });
            }
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Thread {
    pub(crate) program: AttachmentId,
    pub(crate) key: TaskKey,
    pub(crate) cpu: CpuId,
    pub(crate) cpu_time: Duration,
    /// Share of a processor it uses.
    pub(crate) busy: f64,
    pub(crate) affinity: CpuSet,
    pub(crate) cgroup: CpuSet,
}

/// What one window gave.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) actions: Vec<Action>,
    pub(crate) events: Vec<Event>,
}

pub(crate) struct World {
    pub(crate) topology: Arc<Topology>,
    pub(crate) engine: Engine,
    pub(crate) now: Time,
    pub(crate) threads: Vec<Thread>,
    /// Where pages are, by page number; others are on node 0.
    pub(crate) homes: BTreeMap<u64, NodeId>,
    pub(crate) free: Vec<(NodeId, u64)>,
    /// What counters say of every program in every window.
    pub(crate) progress: Option<Progress>,
    /// What the memory of nodes is counted to carry.
    pub(crate) traffic: Vec<NodeTraffic>,
    pub(crate) online: CpuSet,
    pub(crate) nodes_allowed: NodeSet,
    /// What is told of shared memory with every look.
    /// Pages that are part of larger ones.
    pub(crate) large: Option<std::ops::Range<u64>>,
    pub(crate) sharing: ObservedSharing,
    pub(crate) resident_bytes: u64,
    /// Answers in place of the truth, in order.
    pub(crate) answers: Vec<Outcome>,
    /// Whether actions change anything.
    pub(crate) dry: bool,
    pub(crate) kernel_balances: bool,
}

pub(crate) fn cpus(text: &str) -> CpuSet {
    CpuSet::parse_list(text).unwrap()
}

pub(crate) fn options() -> AttachOptions {
    AttachOptions {
        interval: IntervalLaw::OnDeLoc {
            min: WINDOW,
            max: WINDOW,
            factor: 2.0,
        },
        samples_min: 4,
        hold: Duration::from_secs(2),
        require_gain: false,
        ..AttachOptions::default()
    }
}

impl World {
    pub(crate) fn new(machine: &str) -> Self {
        Self::of(topology::synthetic::parse(machine).unwrap())
    }

    pub(crate) fn of(topology: Topology) -> Self {
        let topology = Arc::new(topology);
        let limits = EngineOptions {
            page_slots: 4096,
            ..EngineOptions::for_pages_of(PAGE)
        };
        let free = topology
            .nodes()
            .iter()
            .map(|node| (node.id, node.memory_bytes))
            .collect();
        Self {
            engine: Engine::new(Arc::clone(&topology), limits),
            now: Time(1_000_000_000),
            threads: Vec::new(),
            homes: BTreeMap::new(),
            free,
            progress: None,
            traffic: Vec::new(),
            online: CpuSet::new(),
            nodes_allowed: NodeSet::new(),
            large: None,
            sharing: ObservedSharing::default(),
            resident_bytes: 0,
            answers: Vec::new(),
            dry: false,
            kernel_balances: false,
            topology,
        }
    }

    /// Attaches process `pid` with threads `pid`, `pid + 1`, ... on these processors, all busy.
    pub(crate) fn attach(
        &mut self,
        pid: u32,
        on: &[u32],
        options: AttachOptions,
    ) -> (AttachmentId, Arc<Mutex<Script>>) {
        let script = Arc::new(Mutex::new(Script::default()));
        let spec = AttachSpec {
            pids: vec![Pid(pid)],
            policy: Box::new(Scripted(Arc::clone(&script))),
            options,
        };
        let id = self.engine.handle_attach(self.now, spec).unwrap();
        for (tid, &cpu) in (pid..).zip(on) {
            self.add_thread(id, pid, tid, cpu);
        }
        let observation = self.observe(&[id]);
        self.engine.handle_observation(self.now, &observation);
        (id, script)
    }

    pub(crate) fn add_thread(&mut self, program: AttachmentId, pid: u32, tid: u32, cpu: u32) {
        self.threads.push(Thread {
            program,
            key: TaskKey {
                pid: Pid(pid),
                tid: Tid(tid),
                start: StartTicks(u64::from(tid) * 7),
            },
            cpu: CpuId(cpu),
            cpu_time: Duration::ZERO,
            busy: 1.0,
            affinity: self.topology.online(),
            cgroup: CpuSet::new(),
        });
    }

    pub(crate) fn thread(&mut self, tid: u32) -> &mut Thread {
        self.threads
            .iter_mut()
            .find(|thread| thread.key.tid.0 == tid)
            .unwrap()
    }

    /// An access by a thread to a page.
    pub(crate) fn sample(&self, tid: u32, page: u64) -> Sample {
        let thread = self
            .threads
            .iter()
            .find(|thread| thread.key.tid.0 == tid)
            .unwrap();
        Sample {
            time: self.now,
            pid: thread.key.pid,
            tid: Tid(tid),
            address: page * PAGE + 8,
            physical: 0,
            cpu: thread.cpu,
            kind: AccessKind::Unknown,
            served: ServedBy::Unknown,
            weight: 0,
            period: 1,
        }
    }

    pub(crate) fn feed(&mut self, sample: Sample) {
        self.engine.handle_record(&Record::Sample(sample));
    }

    pub(crate) fn tell(&mut self, change: Lifecycle) {
        self.engine.handle_record(&Record::Lifecycle(change));
    }

    /// Two threads use one page in turns.
    pub(crate) fn talk(&mut self, one: u32, other: u32, times: u64) {
        let page = 1_000_000 + u64::from(one) * 1000 + u64::from(other);
        for _ in 0..times {
            self.feed(self.sample(one, page));
            self.feed(self.sample(other, page));
        }
    }

    /// One thread uses a page.
    pub(crate) fn touch(&mut self, tid: u32, page: u64, times: u32) {
        for _ in 0..times {
            self.feed(self.sample(tid, page));
        }
    }

    pub(crate) fn observe(&self, programs: &[AttachmentId]) -> Observation {
        let program = |&id: &AttachmentId| ObservedProgram {
            large: self.large_of(id),
            attachment: id,
            tasks: self
                .threads
                .iter()
                .filter(|thread| thread.program == id)
                .map(observed)
                .collect(),
            homes: self.homes_of(id),
            nodes_allowed: self.nodes_allowed.clone(),
            sharing: self.sharing.clone(),
            resident_bytes: self.resident_bytes,
        };
        Observation {
            programs: programs.iter().map(program).collect(),
            free_bytes: self.free.clone(),
            online: self.online.clone(),
            lost: 0,
            progress: programs
                .iter()
                .filter_map(|&id| Some((id, self.progress?)))
                .collect(),
            traffic: self.traffic.clone(),
            kernel_balances: self.kernel_balances,
        }
    }

    /// Wanted pages that are part of larger ones.
    fn large_of(&self, id: AttachmentId) -> Vec<PageKey> {
        let wanted = self.engine.wanted_places(id, 10_000).into_iter();
        let wanted = wanted.map(|wanted| wanted.page);
        let is_large = |page: &PageKey| {
            self.large
                .as_ref()
                .is_some_and(|large| large.contains(&page.page))
        };
        wanted.filter(is_large).collect()
    }

    fn homes_of(&self, id: AttachmentId) -> Vec<(PageKey, Option<NodeId>)> {
        let first = self.topology.nodes()[0].id;
        let home = |page: &PageKey| self.homes.get(&page.page).copied().unwrap_or(first);
        let wanted = self.engine.wanted_places(id, 10_000).into_iter();
        let wanted = wanted.map(|wanted| wanted.page);
        wanted.map(|page| (page, Some(home(&page)))).collect()
    }

    /// Lets time pass until a window ends, closes what is due, and carries out what is ordered.
    pub(crate) fn window(&mut self) -> Seen {
        let mut due = Vec::new();
        while due.is_empty() {
            let deadline = self.engine.deadline().unwrap();
            self.pass(deadline.since(self.now));
            due = self.engine.due(self.now);
        }
        let observation = self.observe(&due);
        self.engine.handle_observation(self.now, &observation);
        self.settle()
    }

    /// Lets threads run.
    pub(crate) fn pass(&mut self, time: Duration) {
        self.now = self.now.after(time);
        for thread in &mut self.threads {
            thread.cpu_time += time.mul_f64(thread.busy);
        }
    }

    /// Carries out what is ordered and collects events.
    pub(crate) fn settle(&mut self) -> Seen {
        let mut seen = Seen::default();
        while let Some(action) = self.engine.poll_action() {
            let outcome = self.perform(&action);
            self.engine.handle_outcome(self.now, &action, &outcome);
            seen.actions.push(action);
        }
        while let Some(event) = self.engine.poll_event() {
            seen.events.push(event);
        }
        seen
    }
}

impl Host for World {
    fn perform(&mut self, action: &Action) -> Outcome {
        if !self.answers.is_empty() {
            return self.answers.remove(0);
        }
        match action {
            Action::Bind { task, cpus, .. } if !self.dry => {
                let thread = self.thread(task.tid.0);
                thread.affinity = cpus.clone();
                thread.cpu = cpus.first().unwrap();
                Outcome::Bound
            }
            Action::Bind { .. } => Outcome::Bound,
            Action::MovePages { pages, node, .. } => {
                if !self.dry {
                    self.homes
                        .extend(pages.iter().map(|address| (address / PAGE, *node)));
                }
                Outcome::Moved {
                    pages: vec![PageOutcome::On(*node); pages.len()],
                    spent_ns: 1000,
                    took_ns: 1000,
                }
            }
        }
    }
}

fn observed(thread: &Thread) -> ObservedTask {
    ObservedTask {
        key: thread.key,
        name: "worker".to_owned(),
        cpu: thread.cpu,
        cpu_time: thread.cpu_time,
        affinity: thread.affinity.clone(),
        cgroup_cpus: thread.cgroup.clone(),
    }
}

impl Seen {
    /// Binds as `thread>node` and page moves as `pages>node`, in order.
    pub(crate) fn orders(&self) -> String {
        let text = |action: &Action| match action {
            Action::Bind { task, node, .. } => format!("{}>{node}", task.tid),
            Action::MovePages { pages, node, .. } => {
                let pages: Vec<String> = pages.iter().map(|at| (at / PAGE).to_string()).collect();
                format!("p{}>{node}", pages.join("+"))
            }
        };
        self.actions.iter().map(text).collect::<Vec<_>>().join(" ")
    }

    /// Vetoes of threads as `thread:veto`, of pages as `count pages:veto`.
    pub(crate) fn vetoes(&self) -> Vec<(String, Veto)> {
        let text = |event: &Event| match &event.kind {
            EventKind::TaskDropped { task, veto, .. } => Some((task.tid.to_string(), *veto)),
            EventKind::PagesDropped { count, veto, .. } => Some((format!("{count} pages"), *veto)),
            _ => None,
        };
        self.events.iter().filter_map(text).collect()
    }

    pub(crate) fn summary(&self) -> WindowSummary {
        let summary = |event: &Event| match &event.kind {
            EventKind::Window(summary) => Some(summary.clone()),
            _ => None,
        };
        self.events
            .iter()
            .find_map(summary)
            .expect("a window was judged")
    }

    pub(crate) fn hands_off(&self) -> Vec<u32> {
        let tid = |event: &Event| match &event.kind {
            EventKind::HandsOff { task } => Some(task.tid.0),
            _ => None,
        };
        self.events.iter().filter_map(tid).collect()
    }
}
