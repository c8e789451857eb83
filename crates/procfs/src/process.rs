//! Processes and threads.

use std::io;
use std::iter;
use std::ops::Range;
use std::time::Duration;

use topology::{CpuId, CpuSet, Pid, StartTicks, TaskKey, Tid};

use crate::environ::{self, ENVIRON_BYTES_MAX, Rank};
use crate::error::{Presence, ReadError};
use crate::maps::{self, Mapping};
use crate::numa_maps::{self, NumaMapping};
use crate::reader::{self, Reader};
use crate::rights::Rights;
use crate::stat::{self, Stat, TaskRun};
use crate::status::{self, Resident};

/// A process, as those need it who want to attach to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its number.
    pub pid: Pid,
    /// When it began.
    pub start: StartTicks,
    /// The process that made it, or took it over; 0 for none.
    pub parent: Pid,
    /// On whose behalf it acts, and who may look into it.
    pub rights: Rights,
    /// Its threads; 0 where the kernel does not say.
    pub threads: u32,
    /// Memory that it has mapped: while this is the same, so are most likely its maps.
    pub mapped_bytes: u64,
    /// Its name, lossily decoded; at most 15 bytes.
    pub name: String,
    /// Whether it is part of the kernel.
    pub kernel_thread: bool,
    /// Its memory that is there and no file's.
    pub resident: Resident,
    /// Its first thread, and where that may run; none where it has ended before the others.
    pub first: Option<(Thread, CpuSet)>,
}

/// A thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thread {
    /// Who.
    pub key: TaskKey,
    /// Its name, lossily decoded; at most 15 bytes.
    pub name: String,
    /// The processor it ran on last.
    pub cpu: CpuId,
    /// Processor time used since it began, in steps of 10 ms; [`Reader::wanted_time`] is finer.
    pub cpu_time: Duration,
}

impl Thread {
    /// What a line of `stat` tells of a thread, unless that it has ended.
    fn of(pid: Pid, tid: Tid, stat: Stat) -> Option<Self> {
        let key = TaskKey {
            pid,
            tid,
            start: stat.start,
        };
        (stat.run != TaskRun::Ended).then_some(Self {
            key,
            name: stat.name,
            cpu: stat.cpu,
            cpu_time: stat.cpu_time,
        })
    }
}

impl Reader {
    /// A process. One that has ended and waits for its parent counts as gone; one whose first thread
    /// alone has ended does not.
    ///
    /// # Errors
    /// When it exists and its files cannot be read.
    pub fn process(&self, pid: Pid) -> Result<Presence<Process>, ReadError> {
        let Presence::Here(stat) = self.stat(pid)? else {
            return Ok(Presence::Gone);
        };
        // What is left of a first thread that has ended has no memory, so nobody but root may look into it.
        let Some(alive) = self.first_alive(&stat, pid)? else {
            return Ok(Presence::Gone);
        };
        let folder = match alive.0 == pid.0 {
            true => format!("proc/{pid}"),
            false => format!("proc/{pid}/task/{alive}"),
        };
        let status = self.record(format!("{folder}/status"), status::parse)?;
        // After the ids: whoever takes other rights in between is not dumpable any more.
        let owner = self.owner(format!("{folder}/status"))?;
        Ok(match (status, owner) {
            (Presence::Here(status), Presence::Here(owner)) if status.pid == pid => {
                Presence::Here(Process {
                    pid,
                    start: stat.start,
                    parent: stat.parent,
                    rights: Rights::new(&status, owner),
                    resident: status.resident,
                    threads: status.threads,
                    mapped_bytes: stat.mapped_bytes,
                    name: stat.name.clone(),
                    kernel_thread: stat.kernel_thread,
                    first: Thread::of(pid, Tid(pid.0), stat)
                        .map(|thread| (thread, status.cpus_allowed)),
                })
            }
            _ => Presence::Gone,
        })
    }

    /// A process with the numbers of its threads, as of [`Self::process`] and [`Self::tids`], but
    /// of at most [`THREADS_MAX`].
    ///
    /// # Errors
    /// When it exists and its files cannot be read.
    pub fn process_and_tids(&self, pid: Pid) -> Result<Presence<(Process, Vec<Tid>)>, ReadError> {
        let tids = self.numbered(format!("proc/{pid}/task"), "", THREADS_MAX)?;
        // Asked after: who began before they were listed had the number then.
        Ok(match (self.process(pid)?, tids) {
            (Presence::Here(process), Presence::Here(tids)) => {
                Presence::Here((process, tids.into_iter().map(Tid).collect()))
            }
            _ => Presence::Gone,
        })
    }

    /// The line of a process's first thread in `stat`, whatever state it is in. The number of a mere thread answers in
    /// `/proc` too, but is no process: here and in all that follows from it that is gone.
    ///
    /// Reading it takes as long for a process of 10,000 threads as for one of a single thread: the line of the
    /// process itself holds sums over all of them.
    ///
    /// # Errors
    /// When it exists and cannot be read.
    pub fn stat(&self, pid: Pid) -> Result<Presence<Stat>, ReadError> {
        let first = self.record(format!("proc/{pid}/task/{pid}/stat"), stat::parse)?;
        Ok(match first {
            Presence::Here(stat) if stat.mere_thread => Presence::Gone,
            first => first,
        })
    }

    /// When a process began; gone as in [`Self::process`], and cheaper.
    ///
    /// # Errors
    /// When it exists and cannot be read.
    pub fn process_start(&self, pid: Pid) -> Result<Presence<StartTicks>, ReadError> {
        Ok(match self.stat(pid)? {
            Presence::Here(stat) if self.first_alive(&stat, pid)?.is_some() => {
                Presence::Here(stat.start)
            }
            _ => Presence::Gone,
        })
    }

    /// The user that started a process, whether or not any thread of it still lives.
    ///
    /// # Errors
    /// When it exists and cannot be read.
    pub fn user(&self, pid: Pid) -> Result<Presence<u32>, ReadError> {
        let status = self.record(format!("proc/{pid}/status"), status::parse)?;
        Ok(status.map(|status| status.uids.real))
    }

    /// The first thread of a process that lives, if one does: it outlives those that have ended.
    ///
    /// # Errors
    /// Also where [`ENDED_MAX`] have ended and there are more, as when threads are traced and not
    /// collected: such a process may live, and a search would take as long as it likes.
    fn first_alive(&self, first: &Stat, pid: Pid) -> Result<Option<Tid>, ReadError> {
        if first.run != TaskRun::Ended {
            return Ok(Some(Tid(pid.0)));
        }
        let folder = format!("proc/{pid}/task");
        let tids = self.some_numbered(&folder, ENDED_MAX + 1)?;
        // Asked after: see `tids`.
        let (Presence::Here(tids), Presence::Here(_)) = (tids, self.stat(pid)?) else {
            return Ok(None);
        };
        for tid in tids.iter().take(ENDED_MAX).copied().map(Tid) {
            if self.start(pid, tid)? != Presence::Gone {
                return Ok(Some(tid));
            }
        }
        match tids.len() > ENDED_MAX {
            true => Err(reader::failed(self.path(folder), too_many_ended())),
            false => Ok(None),
        }
    }

    /// Numbers of the threads of a process, ascending, however many: whoever asks takes those that
    /// are not among them for ended. Some may have ended.
    ///
    /// # Errors
    /// When it exists and cannot be read.
    pub fn tids(&self, pid: Pid) -> Result<Presence<Vec<Tid>>, ReadError> {
        let tids = self.numbered(format!("proc/{pid}/task"), "", usize::MAX)?;
        // Asked after: the number may have become that of somebody else's thread before they were listed.
        Ok(match self.stat(pid)? {
            Presence::Here(_) => tids.map(|tids| tids.into_iter().map(Tid).collect()),
            Presence::Gone => Presence::Gone,
        })
    }

    /// When a thread began; gone also if it has ended or belongs to another process.
    ///
    /// # Errors
    /// When it exists and cannot be read.
    pub fn start(&self, pid: Pid, tid: Tid) -> Result<Presence<StartTicks>, ReadError> {
        Ok(self.thread(pid, tid)?.map(|thread| thread.key.start))
    }

    /// One thread of a process; gone if it has ended.
    ///
    /// # Errors
    /// When it exists and cannot be read.
    pub fn thread(&self, pid: Pid, tid: Tid) -> Result<Presence<Thread>, ReadError> {
        let path = format!("proc/{pid}/task/{tid}/stat");
        let stat = self.record(path, stat::parse)?.here();
        let thread = stat.and_then(|stat| Thread::of(pid, tid, stat));
        Ok(thread.map_or(Presence::Gone, Presence::Here))
    }

    /// Processors that a thread may run on, as in [`crate::Status::cpus_allowed`].
    ///
    /// # Errors
    /// When it exists and cannot be read.
    pub fn affinity(&self, pid: Pid, tid: Tid) -> Result<Presence<CpuSet>, ReadError> {
        let path = format!("proc/{pid}/task/{tid}/status");
        self.record(path, status::parse_affinity)
    }

    /// Processor time of a thread together with the time it was ready to run and waited for a
    /// processor, in nanoseconds: what it would have used with the machine to itself. Gone also where
    /// the kernel keeps no such record (`CONFIG_SCHED_INFO`), and [`Thread::cpu_time`] is all there is.
    ///
    /// # Errors
    /// When it exists and cannot be read.
    pub fn wanted_time(&self, pid: Pid, tid: Tid) -> Result<Presence<Duration>, ReadError> {
        let path = self.of_thread((pid, tid), "schedstat");
        let both = self.record_within::<SCHEDSTAT_BYTES, _>(path, |bytes| {
            let numbers = bytes.split(|&byte| byte == b' ');
            let mut numbers = numbers.map_while(|text| stat::number(text).ok());
            Ok(numbers.next().zip(numbers.next()))
        })?;
        let sum = |(ran, waited): (u64, u64)| Duration::from_nanos(ran.saturating_add(waited));
        let wanted = both.here().flatten().map(sum);
        Ok(wanted.map_or(Presence::Gone, Presence::Here))
    }

    /// Whether a process says that it is a rank of an MPI job; gone also if it says no such thing.
    ///
    /// Its environment is its own memory: where a page of it is on a file system that its owner serves, the read
    /// takes as long as the owner likes. So this is for a thread that nobody waits for without an end.
    ///
    /// # Errors
    /// When it exists and cannot be read.
    pub fn rank(&self, pid: Pid) -> Result<Presence<Rank>, ReadError> {
        let Presence::Here(stat) = self.stat(pid)? else {
            return Ok(Presence::Gone);
        };
        let bytes = self.head(format!("proc/{pid}/environ"), ENVIRON_BYTES_MAX)?;
        let rank = bytes
            .here()
            .and_then(|bytes| environ::parse(&bytes, stat.parent));
        Ok(rank.map_or(Presence::Gone, Presence::Here))
    }

    /// Processes that a process made and that are its children, ascending; gone also where the kernel keeps no such
    /// list (`CONFIG_PROC_CHILDREN`). Each thread has a list of its own: those of the first 64
    /// threads are read.
    ///
    /// # Errors
    /// When it exists and cannot be read.
    pub fn children(&self, pid: Pid) -> Result<Presence<Vec<Pid>>, ReadError> {
        let mut children = Vec::new();
        let tids = self.some_numbered(format!("proc/{pid}/task"), MAKERS_MAX)?;
        // Asked after: see `tids`.
        let (Presence::Here(tids), Presence::Here(_)) = (tids, self.stat(pid)?) else {
            return Ok(Presence::Gone);
        };
        for tid in tids {
            let text = self.text(format!("proc/{pid}/task/{tid}/children"))?;
            let text = text.here().unwrap_or_default();
            let numbers = text.split_whitespace().filter_map(|word| word.parse().ok());
            children.extend(numbers.map(Pid).take(CHILDREN_MAX - children.len()));
        }
        children.sort_unstable();
        Ok(Presence::Here(children))
    }

    /// All processes, by ascending number, however many: that nobody else maps some memory, and
    /// which are below others, is told by them.
    ///
    /// # Errors
    /// When `/proc` cannot be read.
    pub fn pids(&self) -> Result<Vec<Pid>, ReadError> {
        let numbers = self.numbered("proc", "", usize::MAX)?;
        let numbers = numbers.here().unwrap_or_default();
        Ok(numbers.into_iter().map(Pid).collect())
    }

    /// Every process with the process that made it, or took it over.
    ///
    /// # Errors
    /// When `/proc` or one of them cannot be read.
    pub fn parents(&self) -> Result<Vec<(Pid, Pid)>, ReadError> {
        let mut parents = Vec::new();
        for pid in self.pids()? {
            if let Presence::Here(stat) = self.stat(pid)? {
                parents.push((pid, stat.parent));
            }
        }
        Ok(parents)
    }

    /// Every process with exactly this name, by ascending number; none of the kernel's.
    ///
    /// The kernel keeps 15 bytes of a name, so a longer one is compared by its first 15 bytes.
    ///
    /// # Errors
    /// When `/proc` cannot be read.
    pub fn pids_by_name(&self, name: &str) -> Result<Vec<Pid>, ReadError> {
        let kept = &name.as_bytes()[..name.len().min(NAME_BYTES)];
        let kept = String::from_utf8_lossy(kept);
        let named = |pid: &Pid| {
            let stat = self.stat(*pid).ok().and_then(Presence::here);
            stat.is_some_and(|stat| {
                let lives = || self.first_alive(&stat, *pid).is_ok_and(|tid| tid.is_some());
                stat.name == kept && !stat.kernel_thread && lives()
            })
        };
        Ok(self.pids()?.into_iter().filter(named).collect())
    }

    /// The mappings of a process with the nodes of their pages.
    ///
    /// Costly: the kernel walks every page under the process's memory lock. Not for every window.
    ///
    /// # Errors
    /// When it exists and cannot be read or understood.
    pub fn numa_maps(&self, pid: Pid) -> Result<Presence<Vec<NumaMapping>>, ReadError> {
        self.parsed(format!("proc/{pid}/numa_maps"), numa_maps::parse)
    }

    /// The addresses of a process's memory of which someone said where it is to be.
    ///
    /// The policy of its first mapping is that of its first thread, for what lies there, its
    /// program, hardly has one of its own; and one mapping is walked for it. Of a process with many
    /// pages no more is looked at.
    ///
    /// # Errors
    /// When it exists and cannot be read or understood.
    pub fn chosen(&self, pid: Pid) -> Result<Presence<Vec<Range<u64>>>, ReadError> {
        let head = self.head(format!("proc/{pid}/numa_maps"), POLICY_BYTES)?;
        let Presence::Here(bytes) = head else {
            return Ok(Presence::Gone);
        };
        if numa_maps::begins_with_a_choice(&bytes) {
            return Ok(Presence::Here(iter::once(0..u64::MAX).collect()));
        }
        let stat = self.stat(pid)?.here();
        if stat.is_none_or(|stat| stat.resident_pages > WALKED_MAX) {
            return Ok(Presence::Here(Vec::new()));
        }
        let all = self.numa_maps(pid)?;
        Ok(all.map(|mappings| numa_maps::chosen(&mappings)))
    }

    /// The address ranges of a process.
    ///
    /// # Errors
    /// When it exists and cannot be read or understood.
    pub fn maps(&self, pid: Pid) -> Result<Presence<Vec<Mapping>>, ReadError> {
        self.parsed(format!("proc/{pid}/maps"), maps::parse)
    }
}

fn too_many_ended() -> io::Error {
    io::Error::other(format!(
        "{ENDED_MAX} of its threads have ended, nobody collects them, and there are more"
    ))
}

/// An address, and the kind of a policy.
const POLICY_BYTES: usize = 64;
/// Most pages that the kernel walks for an answer, 80 ns each: 5 ms, as long as a pause may be.
/// Huge pages of `hugetlbfs` are not counted, and no more than those of one mapping are.
const WALKED_MAX: u64 = 65_536;
/// Three numbers of up to twenty digits, blanks between them, and one byte more.
const SCHEDSTAT_BYTES: usize = 64;
/// Most threads that are read in search of one that lives. Ended threads stay only where they are
/// traced, and a debugger collects them at once. A recording looks at 1,024 processes a second.
const ENDED_MAX: usize = 16;
/// Threads of one process that are asked for their children, the oldest. Launchers of MPI jobs have
/// a handful, and one with 4,000, of whoever likes, takes a tenth of a second.
const MAKERS_MAX: usize = 64;
/// Most threads of one process that are looked at one by one; four times what the product promises
/// to carry.
pub const THREADS_MAX: usize = 40_000;
/// Most children of one process that are looked at.
const CHILDREN_MAX: usize = 131_072;
/// `TASK_COMM_LEN` less the final NUL.
const NAME_BYTES: usize = 15;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Closed;
    use crate::tree::Tree;

    fn stat(id: u32, name: &str, state: char, parent: u32, start: u64) -> String {
        format!(
            "{id} ({name}) {state} {parent} 1 1 0 -1 4194304 0 0 0 0 3 4 0 0 20 0 1 0 {start} 0 5 0 \
             0 0 0 0 0 0 0 0 0 0 0 0 17 6 0 0 0 0 0\n"
        )
    }

    fn tree() -> Tree {
        let tree = Tree::new("process");
        for (pid, name, state, parent) in [
            (7, "a b) (c", 'S', 1),
            (9, "solver", 'Z', 7),
            (11, "solver", 'R', 7),
        ] {
            tree.file(
                &format!("proc/{pid}/task/{pid}/stat"),
                &stat(pid, name, state, parent, 50),
            );
            tree.file(
                &format!("proc/{pid}/status"),
                &format!("Tgid:\t{pid}\nUid:\t5\t5\t5\t5\n"),
            );
        }
        tree.file("proc/7/task/8/stat", &stat(8, "b", 'R', 1, 51));
        tree.file("proc/7/task/10/stat", &stat(10, "c", 'X', 1, 52));
        tree.file("proc/13/status", "Tgid:\t13\nUid:\t5\t5\t5\t5\n");
        tree.file("proc/13/task/13/stat", &stat(13, "a", 'Z', 1, 60));
        tree.file("proc/13/task/14/stat", &stat(14, "a", 'S', 1, 61));
        tree.file("proc/13/task/14/status", "Tgid:\t13\nUid:\t5\t5\t5\t5\n");
        tree.file("proc/7/task/8/schedstat", "123456789 5 1\n");
        // As the number of a thread answers: all of its process's threads, and no signal for a parent.
        tree.file("proc/8/status", "Tgid:\t7\nUid:\t5\t5\t5\t5\n");
        tree.file("proc/8/task/7/stat", &stat(7, "b", 'S', 1, 50));
        let thread = stat(8, "b", 'R', 1, 51).replace(" 17 6 ", " -1 6 ");
        tree.file("proc/8/task/8/stat", &thread);
        tree
    }

    #[test]
    fn of_many_pages_only_the_first_policy_is_looked_at() {
        let tree = tree();
        let reader = tree.reader();
        let ask = |text: &str, resident: u64| {
            let stat = stat(7, "a", 'S', 1, 50).replace(" 50 0 5 ", &format!(" 50 0 {resident} "));
            tree.file("proc/7/task/7/stat", &stat);
            tree.file("proc/7/stat", &stat);
            tree.file("proc/7/numa_maps", text);
            reader.chosen(Pid(7)).unwrap()
        };
        let (own, all) = ("1000 default\n2000 bind:0 anon=1 N0=1\n", "1000 bind:0\n");
        let from = |start: u64| Presence::Here(iter::once(start..u64::MAX).collect());
        assert_eq!(ask(own, WALKED_MAX), from(0x2000));
        assert_eq!(ask(own, WALKED_MAX + 1), Presence::Here(Vec::new()));
        assert_eq!(ask(all, WALKED_MAX + 1), from(0));
        assert_eq!(reader.chosen(Pid(9)).unwrap(), Presence::Gone);
    }

    #[track_caller]
    fn is_no_process(reader: &Reader, pid: Pid) {
        assert_eq!(reader.process(pid).unwrap(), Presence::Gone);
        assert_eq!(reader.process_start(pid).unwrap(), Presence::Gone);
        assert_eq!(reader.stat(pid).unwrap(), Presence::Gone);
        assert_eq!(reader.tids(pid).unwrap(), Presence::Gone);
        assert_eq!(reader.process_and_tids(pid).unwrap(), Presence::Gone);
        assert_eq!(reader.children(pid).unwrap(), Presence::Gone);
    }

    /// The number of a process that has ended may be that of somebody else's thread soon after.
    #[test]
    fn the_number_of_a_mere_thread_is_no_process() {
        is_no_process(&tree().reader(), Pid(8));
        let thread = std::thread::spawn(|| {
            let own = std::fs::read_link("/proc/thread-self").unwrap();
            let own = own.file_name().unwrap().to_str().unwrap().to_owned();
            is_no_process(&Reader::new("/"), Pid(own.parse().unwrap()));
        });
        thread.join().unwrap();
    }

    #[test]
    fn a_process_and_its_threads_read() {
        let tree = tree();
        let reader = tree.reader();
        let process = reader.process(Pid(7)).unwrap().here().unwrap();
        assert_eq!(process.name, "a b) (c");
        assert!(process.rights.uids.all(5) && !process.kernel_thread);
        let both = reader.process_and_tids(Pid(7)).unwrap();
        let tids = [7, 8, 10].map(Tid).to_vec();
        assert_eq!(both, Presence::Here((process, tids)));
        assert_eq!(reader.thread(Pid(7), Tid(10)).unwrap(), Presence::Gone);
        let thread = reader.thread(Pid(7), Tid(8)).unwrap().here().unwrap();
        assert_eq!((thread.key.start, thread.cpu), (StartTicks(51), CpuId(6)));
        assert_eq!(thread.cpu_time, Duration::from_millis(70));
        let wanted = reader.wanted_time(Pid(7), Tid(8)).unwrap();
        assert_eq!(wanted, Presence::Here(Duration::from_nanos(123_456_794)));
        assert_eq!(reader.wanted_time(Pid(7), Tid(7)).unwrap(), Presence::Gone);
    }

    #[test]
    fn the_gone_and_the_ended_are_gone() {
        let tree = tree();
        let reader = tree.reader();
        assert_eq!(reader.process(Pid(6)).unwrap(), Presence::Gone);
        assert_eq!(reader.process(Pid(9)).unwrap(), Presence::Gone);
        assert_eq!(reader.tids(Pid(6)).unwrap(), Presence::Gone);
        assert_eq!(reader.start(Pid(7), Tid(10)).unwrap(), Presence::Gone);
        assert_eq!(reader.numa_maps(Pid(7)).unwrap(), Presence::Gone);
    }

    #[test]
    fn a_process_outlives_its_first_thread() {
        let tree = tree();
        let reader = tree.reader();
        assert!(reader.process(Pid(13)).unwrap() != Presence::Gone);
        let start = reader.process_start(Pid(13)).unwrap();
        assert_eq!(start, Presence::Here(StartTicks(60)));
        assert_eq!(reader.process_start(Pid(9)).unwrap(), Presence::Gone);
        assert_eq!(reader.start(Pid(13), Tid(13)).unwrap(), Presence::Gone);
    }

    /// As those are that are traced and not waited for.
    #[test]
    fn a_process_of_endless_ended_threads_is_not_gone_but_unreadable() {
        for (threads, unreadable) in [(3, false), (1_000, true)] {
            let tree = Tree::new("ended");
            for tid in 13..13 + threads {
                let line = stat(tid, "a", 'Z', 1, 60);
                tree.file(&format!("proc/13/task/{tid}/stat"), &line);
            }
            let reader = tree.reader();
            let (process, start) = (reader.process(Pid(13)), reader.process_start(Pid(13)));
            assert_eq!(process.is_err(), unreadable, "{process:?}");
            assert_eq!(start.is_err(), unreadable, "{start:?}");
            assert!(process.is_err() || process.unwrap() == Presence::Gone);
        }
    }

    #[test]
    fn the_user_of_a_process_is_known_whatever_became_of_its_threads() {
        let tree = tree();
        let reader = tree.reader();
        assert_eq!(reader.user(Pid(13)).unwrap(), Presence::Here(5));
        assert_eq!(reader.user(Pid(9)).unwrap(), Presence::Here(5));
        assert_eq!(reader.user(Pid(6)).unwrap(), Presence::Gone);
    }

    #[test]
    fn names_and_parents_are_found() {
        let tree = tree();
        let reader = tree.reader();
        assert_eq!(reader.pids_by_name("solver").unwrap(), [Pid(11)]);
        assert_eq!(reader.pids_by_name("solve").unwrap(), []);
        // Whose first thread has ended, and another lives.
        assert_eq!(reader.pids_by_name("a").unwrap(), [Pid(13)]);
        assert!(reader.parents().unwrap().contains(&(Pid(11), Pid(7))));
    }

    #[test]
    fn damage_names_the_file() {
        let tree = tree();
        tree.file("proc/7/task/7/stat", "7 (a");
        let error = tree.reader().process(Pid(7)).unwrap_err();
        assert!(error.to_string().contains("task/7/stat"), "{error}");
    }

    #[test]
    fn this_process_reads_on_the_live_machine() {
        let reader = Reader::new("/");
        let own = Pid(std::process::id());
        let process = reader.process(own).unwrap().here().unwrap();
        assert!(!process.kernel_thread);
        let gids = process.rights.gids.unwrap();
        let (uid, gid) = (process.rights.uids.real, gids.real);
        // A process with capabilities is nobody's but root's.
        let refused = process.rights.closed_to(uid, gid);
        assert!(
            matches!(refused, None | Some(Closed::Capabilities)),
            "{refused:?}"
        );
        assert!(reader.maps(own).unwrap().here().unwrap().len() > 5);
        let affinity = reader.affinity(own, Tid(own.0)).unwrap().here().unwrap();
        assert!(!affinity.is_empty());
        let (first, its_affinity) = process.first.unwrap();
        assert_eq!((first.key.start, its_affinity), (process.start, affinity));
        // Absent on kernels without NUMA; where it is there, it must be understood.
        reader.numa_maps(own).unwrap();
    }

    #[test]
    fn of_a_process_with_thousands_of_threads_few_are_asked_for_children() {
        let tree = tree();
        for tid in 7..7 + 2 * MAKERS_MAX {
            let child = 1000 + tid;
            tree.file(&format!("proc/7/task/{tid}/children"), &format!("{child} "));
        }
        let children = tree.reader().children(Pid(7)).unwrap().here().unwrap();
        assert_eq!(children.len(), MAKERS_MAX);
    }

    #[test]
    fn none_of_very_many_threads_counts_as_ended() {
        let tree = tree();
        let threads = tree.reader().path("proc/7/task");
        for tid in 100..=100 + THREADS_MAX {
            std::fs::File::create(threads.join(tid.to_string())).unwrap();
        }
        let tids = tree.reader().tids(Pid(7)).unwrap().here().unwrap();
        assert!(tids.len() > THREADS_MAX, "{}", tids.len());
    }

    /// Whose shared memory is moved is told by looking at everybody.
    #[test]
    fn nobody_is_left_out_for_their_number() {
        let tree = tree();
        let processes = tree.reader().path("proc");
        for pid in 100..100 + 140_000 {
            std::fs::File::create(processes.join(pid.to_string())).unwrap();
        }
        let pids = tree.reader().pids().unwrap();
        assert!(pids.contains(&Pid(100 + 139_999)), "{}", pids.len());
    }
}
