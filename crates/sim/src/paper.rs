//! A machine on paper: threads and pages where a recording, and what was ordered since, say they are.
//!
//! A thread is where its samples were taken. One that was bound elsewhere is there instead; on another
//! machine than the recorded one all are where a scheduler that knows nothing of memory spreads them.
//! A page is at home on the node of the thread that was seen to use it first, as the kernel does it by
//! default; where a sample tells that the own node's memory answered, or on two nodes the other's, that
//! counts instead. Every thread counts as busy from its first sample to its last, since a recording does not tell.

use std::collections::BTreeMap;
use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

use numad_core::{
    Action, Host, Lifecycle, Observation, ObservedProgram, ObservedSharing, ObservedTask, Outcome,
    PageOutcome, Record, Refusal, Sample, ServedBy, Time,
};
use sampler::recording::{SeenThread, Survey};
use sampler::{Replay, Source};
use topology::{CpuId, CpuSet, NodeId, NodeSet, Pid, StartTicks, TaskKey, Tid, Topology};

use crate::scheduler::{Runnable, Scheduler};
use crate::stage::{Asked, Figures, Stage, View};

/// Pages whose home is remembered; 16 GiB of small ones. More are counted and have none.
const PAGES_MAX: usize = 1 << 22;

/// Where it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ground {
    /// On the machine that was recorded: processors are those of the samples.
    Recorded,
    /// On another: threads are spread anew.
    Other,
}

/// See the module.
pub(crate) struct Paper<R> {
    topology: Arc<Topology>,
    ground: Ground,
    page_bytes: u64,
    feed: Replay<R>,
    began: Time,
    now: Time,
    /// What the whole recording says of each thread.
    seen: BTreeMap<(Pid, Tid), SeenThread>,
    threads: BTreeMap<(Pid, Tid), Thread>,
    next_start: u64,
    scheduler: Scheduler,
    /// Who is seated changed since seats were given.
    stale: bool,
    homes: BTreeMap<(Pid, u64), Home>,
    /// Memory in use on each node, by position.
    used_bytes: Vec<u64>,
    /// Uses of pages that were too many to be remembered.
    pages_untold: u64,
    tally: Tally,
    /// The tally when it was asked for the last time.
    reading: Tally,
}

/// A thread that lives.
#[derive(Debug)]
struct Thread {
    key: TaskKey,
    name: String,
    /// Where its last sample was taken.
    sampled_on: Option<CpuId>,
    /// The mask that was ordered; none where nothing was.
    mask: Option<CpuSet>,
    /// Where it is put when it is not where it was sampled, as an index among processors.
    seat: Runnable,
    /// Where it would be had nothing been ordered; on another machine alone.
    free_seat: Runnable,
}

/// Where a page is.
#[derive(Clone, Copy, Debug)]
struct Home {
    /// Position of its node; none where that is not known.
    node: Option<u16>,
    /// The same had nothing been ordered.
    untouched: Option<u16>,
    moved: bool,
}

/// Uses of pages, each counted for what it stands for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Whose page and thread had a place.
    pub(crate) placed: u64,
    /// On one node, as ordered.
    pub(crate) local: u64,
    /// On one node had nothing been ordered.
    pub(crate) untouched: u64,
}

impl Tally {
    fn since(self, earlier: Self) -> Self {
        Self {
            placed: self.placed.saturating_sub(earlier.placed),
            local: self.local.saturating_sub(earlier.local),
            untouched: self.untouched.saturating_sub(earlier.untouched),
        }
    }

    /// Parts that were local: as ordered, and had nothing been ordered. None of nothing.
    pub(crate) fn shares(self) -> Option<(f64, f64)> {
        let part = |some: u64| some as f64 / self.placed as f64;
        (self.placed > 0).then(|| (part(self.local), part(self.untouched)))
    }
}

impl<R: Read + Send> Paper<R> {
    /// A machine at the beginning of a recording, with the threads that were there before it.
    pub(crate) fn new(
        topology: Arc<Topology>,
        ground: Ground,
        feed: Replay<R>,
        survey: &Survey,
    ) -> Self {
        let began = survey.span.map_or(Time(0), |(first, _)| first);
        let mut paper = Self {
            scheduler: Scheduler::new(&topology),
            used_bytes: vec![0; topology.nodes().len()],
            topology,
            ground,
            page_bytes: survey.header.page_bytes,
            feed,
            began,
            now: began,
            seen: survey.threads.clone(),
            threads: BTreeMap::new(),
            next_start: 0,
            stale: true,
            homes: BTreeMap::new(),
            pages_untold: 0,
            tally: Tally::default(),
            reading: Tally::default(),
        };
        for (&(pid, tid), seen) in &survey.threads {
            if seen.born.is_none() {
                paper.arrive(pid, tid);
            }
        }
        paper.give_seats();
        paper
    }

    /// What was delivered, for those who want to know how it ended.
    pub(crate) const fn feed(&self) -> &Replay<R> {
        &self.feed
    }

    /// Everything that was counted.
    pub(crate) const fn tally(&self) -> Tally {
        self.tally
    }

    /// Samples of pages that were too many to be remembered.
    pub(crate) const fn pages_untold(&self) -> u64 {
        self.pages_untold
    }

    fn arrive(&mut self, pid: Pid, tid: Tid) {
        if pid.0 == 0 || self.threads.contains_key(&(pid, tid)) {
            return;
        }
        self.next_start += 1;
        let usable = self.scheduler.members(&self.topology.usable());
        let seat = Runnable {
            cpu: None,
            allowed: usable,
        };
        let thread = Thread {
            key: TaskKey {
                pid,
                tid,
                start: StartTicks(self.next_start),
            },
            name: String::new(),
            sampled_on: self.seen.get(&(pid, tid)).and_then(|seen| seen.cpu),
            mask: None,
            free_seat: seat.clone(),
            seat,
        };
        self.threads.insert((pid, tid), thread);
        self.stale = true;
    }

    /// Seats those that are not where they were sampled.
    fn give_seats(&mut self) {
        if !std::mem::take(&mut self.stale) {
            return;
        }
        let (ground, scheduler) = (self.ground, &mut self.scheduler);
        let threads = self.threads.values_mut();
        let mut seated: Vec<&mut Runnable> = threads
            .filter(|thread| thread.is_seated(ground))
            .map(|thread| &mut thread.seat)
            .collect();
        scheduler.place(&mut seated);
        if ground == Ground::Other {
            let threads = self.threads.values_mut();
            let mut free: Vec<&mut Runnable> =
                threads.map(|thread| &mut thread.free_seat).collect();
            scheduler.place(&mut free);
        }
    }

    /// Position of the node that a thread is on, and of the one it would be on.
    fn nodes_of(&self, thread: &Thread) -> (Option<u16>, Option<u16>) {
        let of_cpu = |cpu: CpuId| {
            let node = self.topology.node_of(cpu)?;
            u16::try_from(self.topology.position(node)?).ok()
        };
        let of_seat = |seat: &Runnable| of_cpu(self.topology.cpus()[seat.cpu?].id);
        let sampled = thread.sampled_on.and_then(of_cpu);
        let now = if thread.is_seated(self.ground) {
            of_seat(&thread.seat)
        } else {
            sampled
        };
        match self.ground {
            Ground::Recorded => (now, sampled),
            Ground::Other => (now, of_seat(&thread.free_seat)),
        }
    }

    /// Takes what a batch says of who is there, then what it says of memory.
    fn apply(&mut self, records: &[Record]) {
        for record in records {
            match record {
                Record::Sample(Sample { pid, tid, .. })
                | Record::Lifecycle(
                    Lifecycle::Fork { pid, tid, .. } | Lifecycle::Renamed { pid, tid, .. },
                ) => self.arrive(*pid, *tid),
                Record::Lifecycle(Lifecycle::Exit { .. }) | Record::Lost(_) | Record::Sent(_) => {}
            }
        }
        self.give_seats();
        for record in records {
            match record {
                Record::Sample(sample) => self.touch(sample),
                Record::Lifecycle(change) => self.change(change),
                Record::Lost(_) | Record::Sent(_) => {}
            }
        }
    }

    fn change(&mut self, change: &Lifecycle) {
        match change {
            Lifecycle::Fork { pid, tid, .. } => {
                // A new process has other memory than the one that had its number before.
                if pid.0 == tid.0 {
                    self.forget_pages(*pid);
                }
                // The one that had this number may have ended in this batch.
                self.arrive(*pid, *tid);
            }
            Lifecycle::Exit { pid, tid, .. } => {
                self.stale |= self.threads.remove(&(*pid, *tid)).is_some();
            }
            Lifecycle::Renamed {
                pid,
                tid,
                name,
                exec,
                ..
            } => {
                if let Some(thread) = self.threads.get_mut(&(*pid, *tid)) {
                    thread.name.clone_from(name);
                }
                if *exec {
                    self.forget_pages(*pid);
                }
            }
        }
    }

    fn forget_pages(&mut self, pid: Pid) {
        let own: Vec<(Pid, u64)> = self
            .homes
            .range((pid, 0)..=(pid, u64::MAX))
            .map(|(&page, _)| page)
            .collect();
        for page in own {
            if let Some(Home {
                node: Some(node), ..
            }) = self.homes.remove(&page)
            {
                self.give_back(node);
            }
        }
    }

    fn give_back(&mut self, node: u16) {
        let used = &mut self.used_bytes[usize::from(node)];
        *used = used.saturating_sub(self.page_bytes);
    }

    /// A thread uses a page.
    fn touch(&mut self, sample: &Sample) {
        let Some(thread) = self.threads.get_mut(&(sample.pid, sample.tid)) else {
            return;
        };
        if thread.sampled_on != Some(sample.cpu) {
            let seated = thread.is_seated(self.ground);
            thread.sampled_on = Some(sample.cpu);
            self.stale |= seated != thread.is_seated(self.ground);
        }
        self.give_seats();
        let thread = &self.threads[&(sample.pid, sample.tid)];
        let (node, untouched) = self.nodes_of(thread);
        let page = (sample.pid, sample.address / self.page_bytes);
        let known = self.homes.get(&page).copied();
        if known.is_none() && self.homes.len() >= PAGES_MAX {
            self.pages_untold += 1;
            return;
        }
        let mut home = known.unwrap_or_else(|| {
            let home = node.and_then(|node| self.nearest_memory(node));
            if let Some(home) = home {
                self.used_bytes[usize::from(home)] += self.page_bytes;
            }
            Home {
                node: home,
                untouched: untouched.and_then(|node| self.nearest_memory(node)),
                moved: false,
            }
        });
        if let Some(told) = self.told_home(sample, untouched) {
            home.untouched = Some(told);
            if !home.moved && home.node != Some(told) {
                home.node.iter().for_each(|&node| self.give_back(node));
                self.used_bytes[usize::from(told)] += self.page_bytes;
                home.node = Some(told);
            }
        }
        self.homes.insert(page, home);
        if let (Some(at), Some(home_at)) = (node, home.node) {
            let uses = sample.period.max(1);
            let local = |local| if local { uses } else { 0 };
            let tally = &mut self.tally;
            tally.placed = tally.placed.saturating_add(uses);
            tally.local = tally.local.saturating_add(local(at == home_at));
            let untouched = untouched.is_some() && untouched == home.untouched;
            tally.untouched = tally.untouched.saturating_add(local(untouched));
        }
    }

    /// The home of a page, if the sample tells.
    fn told_home(&self, sample: &Sample, on: Option<u16>) -> Option<u16> {
        let on = on.filter(|_| self.ground == Ground::Recorded)?;
        match sample.served {
            ServedBy::LocalMemory => Some(on),
            ServedBy::RemoteMemory => {
                let nodes = self.topology.nodes();
                let others = (0u16..).zip(nodes);
                let mut others =
                    others.filter(|(position, node)| *position != on && node.memory_bytes > 0);
                let (other, _) = others.next()?;
                others.next().is_none().then_some(other)
            }
            _ => None,
        }
    }

    /// The node nearest to one that has memory left.
    fn nearest_memory(&self, from: u16) -> Option<u16> {
        let distances = self.topology.distances();
        (0u16..)
            .zip(self.topology.nodes())
            .filter(|(position, node)| {
                let used = self.used_bytes[usize::from(*position)];
                node.memory_bytes.saturating_sub(used) >= self.page_bytes
            })
            .map(|(position, _)| position)
            .min_by_key(|&to| (distances.between(from.into(), to.into()), to))
    }

    fn bind(&mut self, task: TaskKey, cpus: &CpuSet) -> Outcome {
        let allowed = self.scheduler.members(cpus);
        let thread = self.threads.get_mut(&(task.pid, task.tid));
        let Some(thread) = thread.filter(|thread| thread.key == task) else {
            return Outcome::Refused(Refusal::Gone);
        };
        if !allowed.contains(&true) {
            return Outcome::Refused(Refusal::NotAllowed);
        }
        thread.mask = Some(cpus.clone());
        thread.seat.allowed = allowed;
        self.stale = true;
        self.give_seats();
        Outcome::Bound
    }

    fn move_page(&mut self, page: (Pid, u64), to: u16) -> PageOutcome {
        let Some(home) = self.homes.get(&page).copied() else {
            return PageOutcome::Refused(Refusal::Gone);
        };
        let node = &self.topology.nodes()[usize::from(to)];
        if home.node != Some(to) {
            let used = self.used_bytes[usize::from(to)];
            if node.memory_bytes.saturating_sub(used) < self.page_bytes {
                return PageOutcome::Refused(Refusal::NoMemory);
            }
            home.node.iter().for_each(|&node| self.give_back(node));
            self.used_bytes[usize::from(to)] += self.page_bytes;
            let home = Home {
                node: Some(to),
                moved: true,
                ..home
            };
            self.homes.insert(page, home);
        }
        PageOutcome::On(self.topology.nodes()[usize::from(to)].id)
    }

    fn observed(&self, thread: &Thread) -> ObservedTask {
        let seat = |seat: &Runnable| Some(self.topology.cpus()[seat.cpu?].id);
        let cpu = if thread.is_seated(self.ground) {
            seat(&thread.seat)
        } else {
            thread.sampled_on
        };
        let all = || self.topology.cpus().iter().map(|cpu| cpu.id).collect();
        ObservedTask {
            key: thread.key,
            name: thread.name.clone(),
            cpu: cpu.unwrap_or(self.topology.cpus()[0].id),
            cpu_time: self.cpu_time(thread.key),
            affinity: thread.mask.clone().unwrap_or_else(all),
            cgroup_cpus: CpuSet::new(),
        }
    }

    /// Busy from the first sample to the last.
    fn cpu_time(&self, key: TaskKey) -> Duration {
        let seen = self.seen.get(&(key.pid, key.tid));
        let sampled = seen.and_then(|seen| seen.sampled);
        sampled.map_or(Duration::ZERO, |(first, last)| {
            self.now.min(last).since(first)
        })
    }
}

impl Thread {
    /// Whether it is elsewhere than where it was sampled.
    fn is_seated(&self, ground: Ground) -> bool {
        let outside = |mask: &CpuSet| self.sampled_on.is_none_or(|cpu| !mask.contains(cpu));
        ground == Ground::Other || self.mask.as_ref().is_some_and(outside)
    }
}

impl<R: Read + Send> Host for Paper<R> {
    fn perform(&mut self, action: &Action) -> Outcome {
        match action {
            Action::Bind { task, cpus, .. } => self.bind(*task, cpus),
            Action::MovePages {
                pid, pages, node, ..
            } => {
                let to = self.topology.position(*node);
                let Some(to) = to.and_then(|to| u16::try_from(to).ok()) else {
                    return Outcome::Refused(Refusal::NoSuchNode);
                };
                let page = |&address: &u64| (*pid, address / self.page_bytes);
                let pages: Vec<(Pid, u64)> = pages.iter().map(page).collect();
                Outcome::Moved {
                    pages: pages
                        .into_iter()
                        .map(|page| self.move_page(page, to))
                        .collect(),
                    spent_ns: 0,
                    took_ns: 0,
                }
            }
        }
    }
}

impl<R: Read + Send> View for Paper<R> {
    fn topology(&self) -> &Topology {
        &self.topology
    }

    fn elapsed(&self) -> Duration {
        self.now.since(self.began)
    }

    fn masks(&self) -> Vec<(TaskKey, Option<CpuSet>)> {
        let threads = self.threads.values();
        threads
            .map(|thread| (thread.key, thread.mask.clone()))
            .collect()
    }

    fn allowed(&self) -> CpuSet {
        self.topology.usable()
    }
}

impl<R: Read + Send> Stage for Paper<R> {
    fn now(&self) -> Time {
        self.now
    }

    fn step(&mut self, records: &mut Vec<Record>) -> bool {
        let drained = self.feed.drain(&mut |record| records.push(record.clone()));
        self.now = self.feed.latest().unwrap_or(self.now).max(self.now);
        self.apply(records);
        !(drained.ended && records.is_empty())
    }

    fn observe(&mut self, asked: Vec<Asked>) -> Observation {
        let programs = asked.into_iter().map(|asked| ObservedProgram {
            attachment: asked.attachment,
            // All threads: a recording is one program.
            tasks: self
                .threads
                .values()
                .map(|thread| self.observed(thread))
                .collect(),
            homes: asked
                .pages
                .into_iter()
                .map(|(key, pid)| {
                    let home = self.homes.get(&(pid, key.page));
                    let home = home.and_then(|home| home.node);
                    let id = |home| self.topology.nodes()[usize::from(home)].id;
                    (key, home.map(id))
                })
                .collect(),
            nodes_allowed: NodeSet::new(),
            large: Vec::new(),
            sharing: ObservedSharing::default(),
            // Recordings do not tell.
            resident_bytes: 0,
        });
        let nodes = self.topology.nodes().iter().zip(&self.used_bytes);
        Observation {
            programs: programs.collect(),
            free_bytes: nodes
                .map(|(node, used)| (node.id, node.memory_bytes.saturating_sub(*used)))
                .collect(),
            online: self.topology.online(),
            // Nothing that counters said, which recordings do not have.
            ..Observation::default()
        }
    }

    fn nodes(&self) -> BTreeMap<TaskKey, Option<NodeId>> {
        let id = |position: u16| self.topology.nodes()[usize::from(position)].id;
        let threads = self.threads.values();
        threads
            .map(|thread| (thread.key, self.nodes_of(thread).0.map(id)))
            .collect()
    }

    fn measure(&mut self, _program: usize) -> Figures {
        let shares = self.tally.since(self.reading).shares();
        self.reading = self.tally;
        Figures {
            local_share: shares.map(|(local, _)| local),
            untouched_share: shares.map(|(_, untouched)| untouched),
            speed: None,
        }
    }

    /// Threads come and rest as they did: one that rests stays bound and needs no core, so that more
    /// may be bound to a node than it has cores for.
    fn is_calm(&self) -> bool {
        false
    }
}
