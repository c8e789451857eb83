//! What is true now, as far as attached programs are concerned: from `/proc`, `/sys`, and the
//! kernel's answer to where pages are.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use actuator::{Asker, Seen};
use config::Config;
use control::rows::Target;
use control::{ErrorKind, Failure};
use numad_core::{
    AttachmentId, Observation, ObservedProgram, ObservedTask, PageKey, Sent, WantedPage,
};
use procfs::cgroup::Mount;
use procfs::{CgroupError, Cpuset, Presence, Process, Rank, ReadError, Reader, Resident};
use topology::{CpuSet, NodeId, NodeSet, Pid, StartTicks, TaskKey, Tid, Topology};

use super::findings;
use super::maps::{Maps, kernel_devices};
use super::ranks::Ranks;
use super::rows::Rows;
use super::sharing::{Present, Sharing};
use crate::clock;
use crate::log::Log;
use crate::steward::{Asked, Finder, Machine, Messages, OwnUsage, ProcessFacts, Survey, Unfit};

/// Asks the kernel where pages of a process are, by their first addresses, and if it is wanted
/// whether they are part of larger ones; one answer for each.
pub type Residency = Box<dyn FnMut(Pid, &[u64], bool) -> Vec<(Option<NodeId>, bool)> + Send>;

/// Threads by process and number, in this order; none in the place of one that was taken.
type Threads = Vec<((Pid, Tid), Option<ObservedTask>)>;

/// Times that questions about a process's memory may be given up, one after the other, before it
/// leaves a program that a user attached: 10 and 20 s lie between them, and nobody does that by
/// chance.
const GIVEN_UP_MAX: u32 = 3;

/// Looks at this machine.
pub struct Look {
    reader: Reader,
    topology: Arc<Topology>,
    residency: Residency,
    asker: Asker,
    maps: Maps,
    page_bytes: u64,
    log: Log,
    /// What was seen of each program's threads the last time.
    seen: BTreeMap<AttachmentId, Threads>,
    /// Where control groups are mounted, as far as known.
    mounts: Vec<Mount>,
    sharing: Sharing,
    ranks: Ranks,
    rows: Rows,
    unfit: Vec<(AttachmentId, Pid, Unfit)>,
}

impl fmt::Debug for Look {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Look")
            .field("reader", &self.reader)
            .finish_non_exhaustive()
    }
}

impl Look {
    /// Looks through `reader`, and asks `residency` where pages are, and `asker` about other things
    /// of memory.
    #[must_use]
    pub fn new(
        reader: Reader,
        topology: Arc<Topology>,
        (residency, asker): (Residency, Asker),
        page_bytes: u64,
        log: Log,
    ) -> Self {
        // One for both: who hangs in one is not asked by the other, and threads that hang are few.
        let ranks = Ranks::new(reader.clone());
        Self {
            rows: Rows::new(reader.clone(), ranks.clone()),
            ranks,
            maps: Maps::new(reader.clone(), asker.clone(), kernel_devices()),
            reader,
            topology,
            residency,
            asker,
            page_bytes,
            log,
            seen: BTreeMap::new(),
            mounts: Vec::new(),
            sharing: Sharing::default(),
            unfit: Vec::new(),
        }
    }

    /// The rows that MPI programs count in.
    pub(crate) fn rows(&self) -> Rows {
        self.rows.clone()
    }

    fn program(&mut self, asked: &Asked) -> ObservedProgram {
        let mut before = self.seen.remove(&asked.attachment).unwrap_or_default();
        let mut tasks = Vec::new();
        let mut nodes_allowed = NodeSet::new();
        let mut present = Vec::new();
        let mut threads = 0usize;
        let mut resident = Resident::default();
        for &(pid, start) in &asked.members {
            let found = match self.reader.process_and_tids(pid) {
                Ok(found) => found.here(),
                Err(error) => {
                    self.unreadable(&error);
                    tasks.extend(as_seen(&before, pid));
                    continue;
                }
            };
            // Gone, or another of the same number.
            let found = found.filter(|(process, _)| process.start == start);
            let Some((process, tids)) = found else {
                continue;
            };
            if !self.lets_in(asked, &process) {
                continue;
            }
            let others = threads;
            threads = threads.saturating_add(process.threads as usize);
            if let Some(most) = asked.threads_max.filter(|most| threads > *most) {
                threads = others;
                let crowded = Unfit::Crowded {
                    threads: process.threads,
                    most,
                };
                self.unfit.push((asked.attachment, pid, crowded));
                continue;
            }
            resident.join(process.resident);
            present.push(Present::of(&process));
            let cpuset = self.cpuset(pid);
            nodes_allowed = nodes_allowed.union(&cpuset.mems);
            let mut at = before.partition_point(|(key, _)| *key < (pid, Tid(0)));
            // Numbers rise.
            tasks.extend(tids.into_iter().filter_map(|tid| {
                while before.get(at).is_some_and(|(key, _)| *key < (pid, tid)) {
                    at += 1;
                }
                let known = before.get_mut(at).filter(|(key, _)| *key == (pid, tid));
                let mut known = known.and_then(|(_, task)| task.take());
                let task = self.task(&process, tid, &cpuset.cpus, &mut known);
                task.unwrap_or_else(|error| {
                    self.unreadable(&error);
                    known
                })
            }));
        }
        let known = |task: &ObservedTask| ((task.key.pid, task.key.tid), Some(task.clone()));
        let mut remembered: Threads = tasks.iter().map(known).collect();
        remembered.sort_unstable_by_key(|(key, _)| *key);
        self.seen.insert(asked.attachment, remembered);
        let (homes, large) = self.homes(&asked.pages);
        ObservedProgram {
            attachment: asked.attachment,
            tasks,
            homes,
            large,
            nodes_allowed,
            sharing: self.sharing.of(&self.maps, asked.attachment, &present),
            resident_bytes: resident.bytes(),
        }
    }

    /// Whether a process may stay in its program as far as those go who attached it; if not,
    /// [`Machine::unfit`] names it.
    fn lets_in(&mut self, asked: &Asked, process: &Process) -> bool {
        let whom = asked.only_of.or(asked.shown_to);
        let closed = whom.and_then(|whom| whom.refused(&process.rights));
        let hangs = asked.only_of.is_some() && self.asker.given_up(process.pid) >= GIVEN_UP_MAX;
        let unfit = closed.map(Unfit::Closed);
        let unfit = unfit.or(hangs.then_some(Unfit::Unanswering));
        let named = unfit.map(|unfit| (asked.attachment, process.pid, unfit));
        self.unfit.extend(named);
        unfit.is_none() || asked.only_of.is_none()
    }

    /// A thread. One that has not run since the last time is as it was then, which spares reading
    /// most files of programs with many idle threads: another of the same number would not have
    /// wanted the same time to the nanosecond.
    fn task(
        &self,
        process: &Process,
        tid: Tid,
        cgroup_cpus: &CpuSet,
        known: &mut Option<ObservedTask>,
    ) -> Result<Option<ObservedTask>, ReadError> {
        // Wanted, not used: on a crowded machine every thread uses little, and those that would
        // use more are the ones to place. A kernel that keeps no such record may say zero.
        let wanted = self.reader.wanted_time(process.pid, tid);
        let wanted = wanted.ok().and_then(Presence::here).unwrap_or_default();
        let idle = |known: &ObservedTask, cpu_time| {
            known.cpu_time == cpu_time && known.cgroup_cpus == *cgroup_cpus
        };
        if !wanted.is_zero() && known.as_ref().is_some_and(|known| idle(known, wanted)) {
            return Ok(known.take());
        }
        let first = process.first.as_ref();
        let first = first.filter(|(thread, _)| thread.key.tid == tid);
        let thread = match first {
            Some((thread, _)) => Presence::Here(thread.clone()),
            None => self.reader.thread(process.pid, tid)?,
        };
        let Presence::Here(thread) = thread else {
            return Ok(None);
        };
        let cpu_time = wanted.max(thread.cpu_time);
        let known = known.take_if(|known| known.key == thread.key && idle(known, cpu_time));
        if known.is_some() {
            return Ok(known);
        }
        let affinity = match first {
            Some((_, affinity)) => Presence::Here(affinity.clone()),
            None => self.reader.affinity(process.pid, tid)?,
        };
        Ok(affinity.here().map(|affinity| ObservedTask {
            key: thread.key,
            name: thread.name,
            cpu: thread.cpu,
            cpu_time,
            affinity,
            cgroup_cpus: cgroup_cpus.clone(),
        }))
    }

    /// The limits of a process's first thread; threads of one process share them but for the rare
    /// threaded groups, and there the kernel refuses what is not allowed.
    fn cpuset(&mut self, pid: Pid) -> Cpuset {
        let tid = Tid(pid.0);
        match self.reader.cpuset(&mut self.mounts, pid, tid) {
            Ok(Presence::Here(cpuset)) => cpuset,
            Ok(Presence::Gone) => Cpuset::default(),
            Err(error) => {
                self.unreadable(&error);
                Cpuset::default()
            }
        }
    }

    /// Where pages are, and which of them are part of larger ones, asked process by process.
    fn homes(&mut self, pages: &[WantedPage]) -> (Vec<(PageKey, Option<NodeId>)>, Vec<PageKey>) {
        let mut of_process: BTreeMap<Pid, (Vec<PageKey>, Vec<u64>)> = BTreeMap::new();
        for wanted in pages {
            let (keys, addresses) = of_process.entry(wanted.pid).or_default();
            keys.push(wanted.page);
            addresses.push(wanted.address);
        }
        let with_sizes = pages.iter().any(|wanted| wanted.with_size);
        let (mut homes, mut large) = (Vec::with_capacity(pages.len()), Vec::new());
        for (pid, (keys, addresses)) in of_process {
            let places = (self.residency)(pid, &addresses, with_sizes);
            for (key, (node, is_large)) in keys.into_iter().zip(places) {
                homes.push((key, node));
                large.extend(is_large.then_some(key));
            }
        }
        (homes, large)
    }

    fn free_bytes(&self) -> Vec<(NodeId, u64)> {
        let nodes = self.topology.nodes().iter().map(|node| node.id);
        match self.reader.memory_of(nodes) {
            Ok(nodes) => nodes
                .iter()
                .map(|memory| (memory.node, memory.free_bytes))
                .collect(),
            Err(error) => {
                self.unreadable(&error);
                Vec::new()
            }
        }
    }

    /// Processors online; empty, which stands for those of the topology, where nothing tells.
    fn online(&self) -> CpuSet {
        self.reader
            .online()
            .ok()
            .and_then(Presence::here)
            .unwrap_or_default()
    }

    fn unreadable(&self, error: &ReadError) {
        self.log.debug(format_args!("{}", told(error)));
    }
}

impl Machine for Look {
    fn process(&mut self, pid: Pid) -> Result<Option<ProcessFacts>, Failure> {
        let found = self
            .reader
            .process(pid)
            .map_err(|error| unreadable(&error))?;
        let found = found.here();
        found
            .map(|process| facts(&self.reader, process))
            .transpose()
    }

    fn finder(&mut self, target: &Target) -> Finder {
        let (reader, target) = (self.reader.clone(), target.clone());
        let ranks = self.ranks.clone();
        Box::new(move || {
            if let Target::Job(job) = &target {
                return of_job(&reader, &ranks, job);
            }
            readable(&reader, find(&reader, &target)?)
        })
    }

    fn observe(&mut self, programs: &[Asked]) -> Observation {
        if self.topology.nodes().len() > 1 {
            // Where there is one node nothing moves, and it need not be known whose memory is.
            self.sharing.scan(&self.maps);
        }
        self.unfit.clear();
        let programs = programs.iter().map(|asked| self.program(asked)).collect();
        for left_alone in self.asker.take_news() {
            self.log
                .info_by(left_alone.user, format_args!("{left_alone}"));
        }
        Observation {
            programs,
            free_bytes: self.free_bytes(),
            online: self.online(),
            lost: 0,
            kernel_balances: self.kernel_balances(),
            ..Observation::default()
        }
    }

    fn threads(&mut self, pids: &[Pid]) -> Vec<Tid> {
        let listed = pids.iter().filter_map(|&pid| self.reader.tids(pid).ok());
        listed.filter_map(Presence::here).flatten().collect()
    }

    fn unfit(&mut self) -> Vec<(AttachmentId, Pid, Unfit)> {
        std::mem::take(&mut self.unfit)
    }

    fn forget(&mut self, attachment: AttachmentId) {
        self.seen.remove(&attachment);
        self.sharing.forget(attachment);
    }

    fn rebound(&mut self, attachment: AttachmentId, task: TaskKey) {
        if let Some(seen) = self.seen.get_mut(&attachment) {
            let found = seen.binary_search_by_key(&(task.pid, task.tid), |(key, _)| *key);
            if let Ok(at) = found {
                seen[at].1 = None;
            }
        }
    }

    fn ranks(&mut self, pids: &[Pid]) -> BTreeMap<Pid, Rank> {
        self.ranks.of(pids)
    }

    fn sent(&mut self, members: &[(Pid, StartTicks)]) -> Vec<Sent> {
        self.rows.sent(members)
    }

    fn messages(&mut self, members: &[(Pid, StartTicks)]) -> Messages {
        self.rows.totals(members)
    }

    fn parent(&mut self, pid: Pid) -> Option<Pid> {
        let stat = self.reader.stat(pid).ok()?.here()?;
        Some(stat.parent)
    }

    fn children(&mut self, pid: Pid) -> Vec<Pid> {
        let children = self.reader.children(pid).ok().and_then(Presence::here);
        children.unwrap_or_default()
    }

    fn rivals(&mut self) -> Vec<String> {
        match self.reader.rivals(Pid(std::process::id())) {
            Ok(rivals) => rivals.iter().map(ToString::to_string).collect(),
            Err(error) => vec![told(&error)],
        }
    }

    fn own_usage(&mut self) -> OwnUsage {
        let stat = self.reader.stat(Pid(std::process::id())).ok();
        let stat = stat.and_then(Presence::here);
        let resident = stat.map_or(0, |stat| stat.resident_pages);
        OwnUsage {
            cpu_s: self.own_processor_time().as_secs_f64(),
            resident_bytes: resident.saturating_mul(self.page_bytes),
        }
    }

    fn own_processor_time(&mut self) -> Duration {
        clock::own_processor_time()
    }

    fn own_time(&mut self) -> Duration {
        clock::thread_processor_time() + self.asker.spent()
    }

    fn allowed(&mut self, pid: Pid) -> CpuSet {
        let affinity = self.reader.affinity(pid, Tid(pid.0)).ok();
        affinity.and_then(Presence::here).unwrap_or_default()
    }

    fn totals(&mut self, pid: Pid) -> experiment::Totals {
        let reader = &self.reader;
        let neighbours = reader.neighbours(pid).into_iter();
        let neighbours = neighbours.map(|(group, waited)| (group.display().to_string(), waited));
        experiment::Totals {
            cpu: reader.processor_pressure().ok().and_then(Presence::here),
            memory: reader.memory_pressure().ok().and_then(Presence::here),
            stolen: reader.stolen().ok().and_then(Presence::here),
            balanced_pages: reader.balanced_pages().ok().and_then(Presence::here),
            neighbours: neighbours.collect(),
        }
    }

    fn energy(&mut self) -> Result<procfs::Energy, Failure> {
        match self.reader.energy() {
            Ok(Presence::Here(energy)) => Ok(energy),
            Ok(Presence::Gone) => Err(experiment::metric::no_energy()),
            Err(error) => Err(Failure::new(
                ErrorKind::Prerequisite,
                format!("{error}, which counts energy"),
            )
            .remedy("the daemon needs CAP_DAC_OVERRIDE for it, which the unit gives")),
        }
    }

    fn kernel_balances(&mut self) -> bool {
        let mode = self.reader.numa_balancing();
        mode.is_ok_and(procfs::BalancingMode::balances)
    }

    fn moved_by_kernel(&mut self) -> Option<u64> {
        self.reader.balanced_pages().ok().and_then(Presence::here)
    }

    fn date_s(&mut self) -> u64 {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        since.map_or(0, |since| since.as_secs())
    }

    fn mapped(&mut self, pid: Pid) -> Option<Vec<sampler::Range>> {
        let Seen::Here(maps) = self.maps.all(pid) else {
            return None;
        };
        Some(maps.iter().map(|map| (map.start, map.end)).collect())
    }

    fn notes(&self) -> Vec<String> {
        let (processes, hanging) = self.asker.counts();
        let note = || {
            format!(
                "processes that keep their memory maps locked, and are left alone for a time: {processes}; threads \
                 of numad that hang in them: {hanging}"
            )
        };
        (processes + hanging > 0).then(note).into_iter().collect()
    }

    fn findings(&mut self, config: &Config) -> Survey {
        let (reader, topology) = (self.reader.clone(), Arc::clone(&self.topology));
        let config = config.clone();
        Box::new(move || findings::all(&reader, &topology, &config))
    }
}

fn facts(reader: &Reader, process: Process) -> Result<ProcessFacts, Failure> {
    let now = reader.now().map_err(|error| unreadable(&error))?;
    Ok(ProcessFacts {
        pid: process.pid,
        start: process.start,
        age: procfs::age(process.start, now),
        command: process.name,
        uid: process.rights.uids.real,
        rights: process.rights,
        threads: process.threads,
        kernel: process.kernel_thread,
    })
}

fn find(reader: &Reader, target: &Target) -> Result<Vec<Pid>, Failure> {
    match target {
        Target::Pids(pids) => Ok(pids.iter().copied().map(Pid).collect()),
        Target::Cgroup(path) => reader.cgroup_pids(path).map_err(|error| no_group(&error)),
        Target::Unit(unit) => {
            let path = reader.unit_cgroup(unit).map_err(|error| no_group(&error))?;
            reader.cgroup_pids(&path).map_err(|error| no_group(&error))
        }
        Target::Command(name) => reader
            .pids_by_name(name)
            .map_err(|error| unreadable(&error)),
        // What says so of itself is asked one by one, see `of_job`.
        Target::Job(_) => Ok(Vec::new()),
    }
}

/// The processes that say they are ranks of this job.
fn of_job(reader: &Reader, ranks: &Ranks, job: &str) -> Result<Vec<ProcessFacts>, Failure> {
    let pids = reader.pids().map_err(|error| unreadable(&error))?;
    let mut ours = ranks.of(&pids);
    ours.retain(|_, rank| rank.job.as_str() == job);
    readable(reader, ours.into_keys())
}

/// What is known of processes that a search found, as far as they can be read: one that cannot,
/// such as one of which all threads have ended that were looked at, keeps nobody from the others.
fn readable(
    reader: &Reader,
    pids: impl IntoIterator<Item = Pid>,
) -> Result<Vec<ProcessFacts>, Failure> {
    let (mut found, mut failed) = (Vec::new(), None);
    for pid in pids {
        match reader.process(pid) {
            Ok(Presence::Here(process)) => found.push(facts(reader, process)?),
            Ok(Presence::Gone) => {}
            Err(error) => failed = Some(unreadable(&error)),
        }
    }
    match failed.filter(|_| found.is_empty()) {
        Some(failure) => Err(failure),
        None => Ok(found),
    }
}

/// Threads of a process as they were seen last: what cannot be read now, for want of descriptors, is not gone.
fn as_seen(before: &Threads, pid: Pid) -> impl Iterator<Item = ObservedTask> {
    let first = before.partition_point(|(key, _)| key.0 < pid);
    let of_process = before[first..].iter();
    let of_process = of_process.take_while(move |(key, _)| key.0 == pid);
    of_process.filter_map(|(_, task)| task.clone())
}

fn no_group(error: &CgroupError) -> Failure {
    let kind = match error {
        CgroupError::NotFound(_) => ErrorKind::NotFound,
        CgroupError::NotAPath(_) | CgroupError::TooMany(_) => ErrorKind::Usage,
        CgroupError::Read(error) => return unreadable(error),
    };
    Failure::new(kind, error.to_string())
}

fn unreadable(error: &ReadError) -> Failure {
    Failure::new(ErrorKind::Kernel, told(error))
}

/// An error with its cause, on one line.
pub(super) fn told(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text += &format!(": {error}");
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use procfs::Closed;
    use topology::StartTicks;

    use super::*;
    use crate::log::Level;
    use crate::peer::Credentials;

    fn look() -> Look {
        let topology = Arc::new(topology::synthetic::parse("1x2").unwrap());
        let residency: Residency =
            Box::new(|_, pages, with_sizes| vec![(Some(NodeId(3)), with_sizes); pages.len()]);
        let reader = Reader::new("/");
        let asker = super::super::maps::asker(&reader);
        Look::new(
            reader,
            topology,
            (residency, asker),
            4096,
            Log::to_stderr(Level::Error),
        )
    }

    /// This process, as it is asked about.
    fn asked(start: Option<StartTicks>, only_of: Option<Credentials>) -> Asked {
        let page = PageKey {
            space: numad_core::SpaceId(1),
            page: 16,
        };
        let own = Pid(std::process::id());
        let start = start.unwrap_or_else(|| look().process(own).unwrap().unwrap().start);
        Asked {
            attachment: AttachmentId(1),
            members: vec![(own, start)],
            only_of,
            shown_to: None,
            threads_max: None,
            pages: vec![WantedPage {
                page,
                pid: own,
                address: 16 * 4096,
                with_size: true,
            }],
        }
    }

    #[test]
    fn this_process_is_seen_with_its_threads() {
        let mut look = look();
        let own = Pid(std::process::id());
        let facts = look.process(own).unwrap().unwrap();
        assert!(facts.rights.uids.all(facts.uid) && !facts.kernel);
        for _ in 0..2 {
            let observation = look.observe(&[asked(Some(facts.start), None)]);
            let [program] = observation.programs.as_slice() else {
                panic!("one was asked about");
            };
            assert!(program.tasks.iter().any(|task| task.key.tid.0 == own.0));
            assert!(program.tasks.iter().all(|task| !task.affinity.is_empty()));
            let page = program.homes[0].0;
            assert_eq!(program.homes, [(page, Some(NodeId(3)))]);
            assert_eq!(program.large, [page]);
            assert!(!observation.online.is_empty());
        }
        look.forget(AttachmentId(1));
        assert!(look.seen.is_empty());
    }

    #[test]
    fn an_idle_thread_that_we_bound_is_looked_at_anew() {
        let (held, hold) = std::sync::mpsc::channel::<()>();
        let (tell, told) = std::sync::mpsc::channel();
        let idle = std::thread::spawn(move || {
            tell.send(nix::unistd::gettid()).unwrap();
            hold.recv().unwrap_err();
        });
        let tid = told.recv().unwrap();
        let mut look = look();
        let seen = |look: &mut Look| {
            let mut program = look.observe(&[asked(None, None)]).programs.remove(0);
            let raw = u32::try_from(tid.as_raw()).unwrap();
            program.tasks.retain(|task| task.key.tid.0 == raw);
            program.tasks.remove(0)
        };
        let before = seen(&mut look);
        let first = before.affinity.first().unwrap();
        let mut mask = nix::sched::CpuSet::new();
        mask.set(first.index()).unwrap();
        nix::sched::sched_setaffinity(tid, &mask).unwrap();
        look.rebound(AttachmentId(1), before.key);
        assert_eq!(seen(&mut look).affinity, CpuSet::from_iter([first]));
        drop(held);
        idle.join().unwrap();
    }

    #[test]
    fn what_cannot_be_read_is_as_it_was_seen_last() {
        let mut look = look();
        let own = std::process::id();
        let before = look.observe(&[asked(None, None)]).programs.remove(0).tasks;
        assert!(!before.is_empty());
        // A directory in the place of a file.
        let scratch = crate::scratch::Scratch::new("unreadable");
        let stat = scratch.path().join(format!("proc/{own}/task/{own}/stat"));
        std::fs::create_dir_all(stat).unwrap();
        look.reader = Reader::new(scratch.path());
        for _ in 0..2 {
            let after = look.observe(&[asked(None, None)]).programs.remove(0).tasks;
            assert_eq!(after.len(), before.len());
        }
    }

    #[test]
    fn another_of_the_same_number_is_left_out() {
        let mut look = look();
        let facts = look.process(Pid(std::process::id())).unwrap().unwrap();
        let stranger = Credentials {
            uid: facts.uid + 1,
            gid: 0,
        };
        let asked = [
            asked(Some(StartTicks(1)), None),
            asked(None, Some(stranger)),
        ];
        for (asked, closed) in asked.iter().zip([None, Some(Closed::User)]) {
            let observation = look.observe(std::slice::from_ref(asked));
            assert_eq!(observation.programs[0].tasks, []);
            let found = look.unfit().first().map(|(_, _, unfit)| *unfit);
            assert_eq!(found, closed.map(Unfit::Closed));
        }
    }

    #[test]
    fn who_has_more_threads_than_the_program_may_is_left_out() {
        let mut look = look();
        let mut asked = asked(None, None);
        for (most, seen) in [(0, false), (100_000, true)] {
            asked.threads_max = Some(most);
            let observation = look.observe(std::slice::from_ref(&asked));
            assert_eq!(!observation.programs[0].tasks.is_empty(), seen);
            let unfit = look.unfit();
            assert_eq!(unfit.is_empty(), seen, "{unfit:?}");
        }
    }

    #[test]
    fn one_that_cannot_be_read_keeps_nobody_from_others() {
        let scratch = crate::scratch::Scratch::new("unreadable-one");
        let (own, strange) = (std::process::id(), 4_194_303);
        let proc = scratch.path().join("proc");
        std::fs::create_dir_all(proc.join(format!("{strange}/task/{strange}/stat"))).unwrap();
        let read =
            |pids: &[u32]| readable(&Reader::new(scratch.path()), pids.iter().copied().map(Pid));
        assert_eq!(read(&[strange]).unwrap_err().kind, ErrorKind::Kernel);
        std::os::unix::fs::symlink(format!("/proc/{own}"), proc.join(own.to_string())).unwrap();
        std::os::unix::fs::symlink("/proc/uptime", proc.join("uptime")).unwrap();
        let found = read(&[strange, own, 4_194_302]).unwrap();
        assert_eq!(
            found.iter().map(|facts| facts.pid.0).collect::<Vec<_>>(),
            [own]
        );
    }

    #[test]
    fn what_is_not_there_is_told_apart() {
        let mut look = look();
        assert_eq!(look.process(Pid(4_194_303)).unwrap(), None);
        let group = Target::Cgroup("/no/such/group".to_owned());
        assert_eq!(look.finder(&group)().unwrap_err().kind, ErrorKind::NotFound);
        let outside = Target::Cgroup("../../etc".to_owned());
        assert_eq!(look.finder(&outside)().unwrap_err().kind, ErrorKind::Usage);
    }
}
