//! What is true now, as far as attached programs are concerned: from `/proc`, `/sys`, and the
//! kernel's answer to where pages are.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use config::Config;
use control::rows::{Finding, Target};
use control::{ErrorKind, Failure};
use numad_core::{AttachmentId, Observation, ObservedProgram, ObservedTask, PageKey, WantedPage};
use procfs::{CgroupError, Cpuset, Presence, ReadError, Reader, Thread};
use topology::{CpuSet, NodeId, NodeSet, Pid, TaskKey, Tid, Topology};

use super::findings;
use super::sharing::Sharing;
use crate::clock;
use crate::log::Log;
use crate::steward::{Asked, Machine, OwnUsage, ProcessFacts};

/// Asks the kernel where pages of a process are, by their first addresses; one answer for each.
pub type Residency = Box<dyn FnMut(Pid, &[u64]) -> Vec<Option<NodeId>> + Send>;

/// Looks at this machine.
pub struct Look {
    reader: Reader,
    topology: Arc<Topology>,
    residency: Residency,
    page_bytes: u64,
    log: Log,
    /// What was seen of each program's threads the last time.
    seen: BTreeMap<AttachmentId, BTreeMap<(Pid, Tid), ObservedTask>>,
    sharing: Sharing,
}

impl fmt::Debug for Look {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Look")
            .field("reader", &self.reader)
            .finish_non_exhaustive()
    }
}

impl Look {
    /// Looks through `reader`, and asks `residency` where pages are.
    #[must_use]
    pub fn new(
        reader: Reader,
        topology: Arc<Topology>,
        residency: Residency,
        page_bytes: u64,
        log: Log,
    ) -> Self {
        Self {
            reader,
            topology,
            residency,
            page_bytes,
            log,
            seen: BTreeMap::new(),
            sharing: Sharing::default(),
        }
    }

    fn program(&mut self, asked: &Asked) -> ObservedProgram {
        let mut before = self.seen.remove(&asked.attachment).unwrap_or_default();
        let mut tasks = Vec::new();
        let mut nodes_allowed = NodeSet::new();
        let mut present = Vec::new();
        for &(pid, start) in &asked.members {
            let process = self.reader.process(pid).ok().and_then(Presence::here);
            // Gone, another of the same number, or not (any more) the one user's who attached it.
            let Some(process) = process.filter(|process| {
                start.is_none_or(|start| start == process.start)
                    && asked.only_of.is_none_or(|uid| process.uids.all(uid))
            }) else {
                continue;
            };
            present.push((pid, process.start));
            let cpuset = self.cpuset(process.pid);
            nodes_allowed = nodes_allowed.union(&cpuset.mems);
            match self.reader.threads(pid) {
                Ok(Presence::Here(threads)) => tasks.extend(
                    threads
                        .into_iter()
                        .filter_map(|thread| self.task(thread, &cpuset, &mut before)),
                ),
                Ok(Presence::Gone) => {}
                Err(error) => self.unreadable(&error),
            }
        }
        let remembered = tasks
            .iter()
            .map(|task| ((task.key.pid, task.key.tid), task.clone()));
        self.seen.insert(asked.attachment, remembered.collect());
        ObservedProgram {
            attachment: asked.attachment,
            tasks,
            homes: self.homes(&asked.pages),
            nodes_allowed,
            sharing: self.sharing.of(&self.reader, asked.attachment, &present),
        }
    }

    /// A thread. One that has not run since the last time is as it was then, which spares reading
    /// most files of programs with many idle threads.
    fn task(
        &self,
        thread: Thread,
        cpuset: &Cpuset,
        before: &mut BTreeMap<(Pid, Tid), ObservedTask>,
    ) -> Option<ObservedTask> {
        let key = thread.key;
        // Wanted, not used: on a crowded machine every thread uses little, and those that would
        // use more are the ones to place. A kernel that keeps no such record may say zero.
        let wanted = self.reader.wanted_time(key.pid, key.tid);
        let wanted = wanted.ok().and_then(Presence::here).unwrap_or_default();
        let cpu_time = wanted.max(thread.cpu_time);
        if let Some(known) = before.remove(&(key.pid, key.tid))
            && known.key == key
            && known.cpu_time == cpu_time
            && known.cgroup_cpus == cpuset.cpus
        {
            return Some(known);
        }
        match self.reader.thread_status(key.pid, key.tid) {
            Ok(Presence::Here(status)) => Some(ObservedTask {
                key,
                name: thread.name,
                cpu: thread.cpu,
                cpu_time,
                affinity: status.cpus_allowed,
                cgroup_cpus: cpuset.cpus.clone(),
            }),
            Ok(Presence::Gone) => None,
            Err(error) => {
                self.unreadable(&error);
                None
            }
        }
    }

    /// The limits of a process's first thread; threads of one process share them but for the rare
    /// threaded groups, and there the kernel refuses what is not allowed.
    fn cpuset(&self, pid: Pid) -> Cpuset {
        match self.reader.cpuset(pid, Tid(pid.0)) {
            Ok(Presence::Here(cpuset)) => cpuset,
            Ok(Presence::Gone) => Cpuset::default(),
            Err(error) => {
                self.unreadable(&error);
                Cpuset::default()
            }
        }
    }

    /// Where pages are, asked process by process.
    fn homes(&mut self, pages: &[WantedPage]) -> Vec<(PageKey, Option<NodeId>)> {
        let mut of_process: BTreeMap<Pid, (Vec<PageKey>, Vec<u64>)> = BTreeMap::new();
        for wanted in pages {
            let (keys, addresses) = of_process.entry(wanted.pid).or_default();
            keys.push(wanted.page);
            addresses.push(wanted.address);
        }
        let mut homes = Vec::with_capacity(pages.len());
        for (pid, (keys, addresses)) in of_process {
            homes.extend(keys.into_iter().zip((self.residency)(pid, &addresses)));
        }
        homes
    }

    fn free_bytes(&self) -> Vec<(NodeId, u64)> {
        match self.reader.node_memory() {
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
        Ok(found.here().map(|process| ProcessFacts {
            pid: process.pid,
            start: process.start,
            command: process.name,
            uid: process.uids.real,
            sole: process.uids.all(process.uids.real),
            kernel: process.kernel_thread,
        }))
    }

    fn find(&mut self, target: &Target) -> Result<Vec<Pid>, Failure> {
        match target {
            Target::Pids(pids) => Ok(pids.iter().copied().map(Pid).collect()),
            Target::Cgroup(path) => self
                .reader
                .cgroup_pids(path)
                .map_err(|error| no_group(&error)),
            Target::Unit(unit) => {
                let path = self
                    .reader
                    .unit_cgroup(unit)
                    .map_err(|error| no_group(&error))?;
                self.reader
                    .cgroup_pids(&path)
                    .map_err(|error| no_group(&error))
            }
            Target::Command(name) => self
                .reader
                .pids_by_name(name)
                .map_err(|error| unreadable(&error)),
        }
    }

    fn observe(&mut self, programs: &[Asked]) -> Observation {
        if self.topology.nodes().len() > 1 {
            // Where there is one node nothing moves, and it need not be known whose memory is.
            self.sharing.scan(&self.reader);
        }
        let programs = programs.iter().map(|asked| self.program(asked)).collect();
        Observation {
            programs,
            free_bytes: self.free_bytes(),
            online: self.online(),
            lost: 0,
            ..Observation::default()
        }
    }

    fn forget(&mut self, attachment: AttachmentId) {
        self.seen.remove(&attachment);
        self.sharing.forget(attachment);
    }

    fn rebound(&mut self, attachment: AttachmentId, task: TaskKey) {
        if let Some(seen) = self.seen.get_mut(&attachment) {
            seen.remove(&(task.pid, task.tid));
        }
    }

    fn rivals(&mut self) -> Vec<String> {
        match self.reader.rivals(Pid(std::process::id())) {
            Ok(rivals) => rivals.iter().map(ToString::to_string).collect(),
            Err(error) => vec![told(&error)],
        }
    }

    fn own_usage(&mut self) -> OwnUsage {
        let usage = self
            .reader
            .usage(Pid(std::process::id()))
            .ok()
            .and_then(Presence::here);
        let resident = usage.map_or(0, |usage| usage.resident_pages);
        OwnUsage {
            cpu_s: clock::own_processor_time().as_secs_f64(),
            resident_bytes: resident.saturating_mul(self.page_bytes),
        }
    }

    fn own_time(&mut self) -> Duration {
        clock::thread_processor_time()
    }

    fn mapped(&mut self, pid: Pid) -> Option<Vec<sampler::Range>> {
        let maps = self.reader.maps(pid).ok()?.here()?;
        Some(maps.iter().map(|map| (map.start, map.end)).collect())
    }

    fn findings(&mut self, config: &Config) -> Vec<Finding> {
        findings::all(&self.reader, &self.topology, config)
    }
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
    use topology::StartTicks;

    use super::*;
    use crate::log::Level;

    fn look() -> Look {
        let topology = Arc::new(topology::synthetic::parse("1x2").unwrap());
        let residency: Residency = Box::new(|_, pages| vec![Some(NodeId(3)); pages.len()]);
        Look::new(
            Reader::new("/"),
            topology,
            residency,
            4096,
            Log::to_stderr(Level::Error),
        )
    }

    /// This process, as it is asked about.
    fn asked(start: Option<StartTicks>, only_of: Option<u32>) -> Asked {
        let page = PageKey {
            space: numad_core::SpaceId(1),
            page: 16,
        };
        let own = Pid(std::process::id());
        Asked {
            attachment: AttachmentId(1),
            members: vec![(own, start)],
            only_of,
            pages: vec![WantedPage {
                page,
                pid: own,
                address: 16 * 4096,
            }],
        }
    }

    #[test]
    fn this_process_is_seen_with_its_threads() {
        let mut look = look();
        let own = Pid(std::process::id());
        let facts = look.process(own).unwrap().unwrap();
        assert!(facts.sole && !facts.kernel);
        for _ in 0..2 {
            let observation = look.observe(&[asked(Some(facts.start), Some(facts.uid))]);
            let [program] = observation.programs.as_slice() else {
                panic!("one was asked about");
            };
            assert!(program.tasks.iter().any(|task| task.key.tid.0 == own.0));
            assert!(program.tasks.iter().all(|task| !task.affinity.is_empty()));
            assert_eq!(program.homes[0].1, Some(NodeId(3)));
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
    fn another_of_the_same_number_is_left_out() {
        let mut look = look();
        let uid = look.process(Pid(std::process::id())).unwrap().unwrap().uid;
        for asked in [asked(Some(StartTicks(1)), None), asked(None, Some(uid + 1))] {
            let observation = look.observe(&[asked]);
            assert_eq!(observation.programs[0].tasks, []);
        }
    }

    #[test]
    fn what_is_not_there_is_told_apart() {
        let mut look = look();
        assert_eq!(look.process(Pid(4_194_303)).unwrap(), None);
        let group = Target::Cgroup("/no/such/group".to_owned());
        assert_eq!(look.find(&group).unwrap_err().kind, ErrorKind::NotFound);
        let outside = Target::Cgroup("../../etc".to_owned());
        assert_eq!(look.find(&outside).unwrap_err().kind, ErrorKind::Usage);
    }
}
