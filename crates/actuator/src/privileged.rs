//! Real threads of real processes on the kernel that runs the tests.
//!
//! The other processes are this test binary, started again with a role in its environment.

use std::collections::BTreeMap;
use std::env;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Write as _};
use std::ops::Range;
use std::os::fd::AsRawFd as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Instant;

use nix::unistd::Uid;
use numad_core::{Host as _, Outcome, PageOutcome, Refusal, SharedRange, Time};
use procfs::{Presence, ReadError, Reader};
use topology::{CpuId, CpuSet, NodeId, Pid, StartTicks, TaskKey, Tid};

use crate::fake::{bind_action, move_action, scratch, set};
use crate::residency::residencies;
use crate::{
    Census, Durability, Journal, JournalLimits, Kernel as _, Linux, Live, Mask, PageStatus, Scope,
    Seen, residency, thread_processor_time,
};

/// Distance of the pages looked at: a multiple of the page size of every architecture.
const STRIDE: usize = 64 << 10;
const STRIDE_COUNT: usize = 64;

/// What the daemon does as well: answers from `/proc`.
#[derive(Debug)]
pub(crate) struct Machine(Reader);

/// An answer in three kinds, as the daemon gives it.
fn seen<T>(read: Result<Presence<T>, ReadError>) -> Seen<T> {
    match read {
        Ok(Presence::Here(value)) => Seen::Here(value),
        Ok(Presence::Gone) => Seen::Gone,
        Err(error) => Seen::Hidden(error.errno()),
    }
}

impl Census for Machine {
    fn process(&self, pid: Pid) -> Seen<StartTicks> {
        seen(self.0.process_start(pid))
    }

    fn thread(&self, pid: Pid, tid: Tid) -> Seen<StartTicks> {
        seen(self.0.start(pid, tid))
    }

    fn threads(&self, pid: Pid) -> Seen<Vec<Tid>> {
        seen(self.0.tids(pid))
    }

    fn allowed(&self, pid: Pid, tid: Tid) -> Seen<CpuSet> {
        seen(self.0.allowed(&mut Vec::new(), pid, tid))
    }

    fn whole_affinity(&self, pid: Pid, tid: Tid) -> Seen<CpuSet> {
        seen(self.0.affinity(pid, tid))
    }

    fn parent(&self, pid: Pid) -> Seen<Pid> {
        seen(self.0.stat(pid).map(|stat| stat.map(|stat| stat.parent)))
    }

    fn processes(&self) -> Seen<Vec<(Pid, Pid)>> {
        seen(self.0.parents().map(Presence::Here))
    }

    /// The processes here share nothing; the scenario `shared-memory` has some that do.
    fn shared(&self, _pid: Pid) -> Seen<Vec<SharedRange>> {
        Seen::Here(Vec::new())
    }

    fn chosen(&self, pid: Pid) -> Seen<Vec<Range<u64>>> {
        seen(self.0.chosen(pid))
    }

    fn now(&self) -> Seen<StartTicks> {
        Seen::Here(self.0.now().unwrap())
    }
}

pub(crate) fn live(directory: &Path) -> Live<Linux, Machine> {
    live_with(directory, Durability::Disk)
}

fn live_with(directory: &Path, durability: Durability) -> Live<Linux, Machine> {
    let reader = Reader::new("/");
    let boot = reader.boot_id().unwrap();
    let limits = JournalLimits {
        durability,
        ..JournalLimits::default()
    };
    let journal = Journal::open(directory, &boot, limits).unwrap();
    let begin = Instant::now();
    let clock = move || Time(u64::try_from(begin.elapsed().as_nanos()).unwrap());
    Live::new(journal, Linux, Machine(reader), clock)
}

/// Another process, killed when dropped.
pub(crate) struct Other {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Other {
    pub(crate) fn start(role: &str, arguments: &[(&str, String)], uid: Option<u32>) -> Self {
        // By a descriptor: another user may not be let into the folder, as into root's home.
        let program = File::open(env::current_exe().unwrap()).unwrap();
        let mut command = Command::new(format!("/proc/self/fd/{}", program.as_raw_fd()));
        command
            .args(["--exact", "privileged::plays_a_role", "--nocapture"])
            .env("NUMAD_TEST_ROLE", role)
            .envs(arguments.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        if let Some(uid) = uid {
            command.uid(uid);
        }
        let mut child = command.spawn().unwrap();
        let stdin = child.stdin.take().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let mut other = Self {
            child,
            stdin,
            stdout,
        };
        other.wait_for("ready");
        other
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid(self.child.id())
    }

    /// The rest of the next line that begins with a word.
    pub(crate) fn wait_for(&mut self, word: &str) -> String {
        loop {
            let mut line = String::new();
            assert!(
                self.stdout.read_line(&mut line).unwrap() > 0,
                "it ended before `{word}`"
            );
            // The test harness writes its own words before ours on the first line.
            if let Some(at) = line.find(word) {
                return line[at + word.len()..].trim().to_owned();
            }
        }
    }

    fn tell(&mut self, word: &str) -> String {
        writeln!(self.stdin, "{word}").unwrap();
        self.wait_for("done")
    }

    fn threads(&self) -> Vec<TaskKey> {
        keys_of(self.pid())
    }

    fn masks(&self) -> BTreeMap<TaskKey, String> {
        let threads = self.threads().into_iter();
        threads.map(|key| (key, mask(key.tid))).collect()
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

pub(crate) fn keys_of(pid: Pid) -> Vec<TaskKey> {
    let reader = Reader::new("/");
    let tids = reader.tids(pid).unwrap().here().unwrap_or_default();
    let threads = tids.into_iter().map(|tid| reader.thread(pid, tid).unwrap());
    threads
        .filter_map(|thread| Some(thread.here()?.key))
        .collect()
}

fn mask(tid: Tid) -> String {
    Linux.affinity(tid).unwrap().to_string()
}

/// The processors that this process may use, one by one; root and at least two are needed.
pub(crate) fn ground() -> Option<Vec<CpuId>> {
    if !Uid::effective().is_root() {
        println!("skipped: needs root");
        return None;
    }
    let own = Pid(std::process::id());
    let allowed = Machine(Reader::new("/")).allowed(own, Tid(own.0));
    let allowed = allowed.known().unwrap();
    if allowed.len() < 2 {
        println!("skipped: needs two processors");
        return None;
    }
    Some(allowed.iter().collect())
}

pub(crate) fn only(cpu: CpuId) -> CpuSet {
    [cpu].into_iter().collect()
}

/// Not a test: what the other processes do. Without a role it does nothing.
#[test]
fn plays_a_role() {
    match env::var("NUMAD_TEST_ROLE").as_deref() {
        Ok("threads") => role_threads(),
        Ok("mover") => role_mover(),
        Ok("stranger") => role_stranger(),
        Ok(role) => crate::chaos::play(role),
        Err(_) => {}
    }
}

/// 64 threads that wait, or as many as are wanted, and more on demand.
fn role_threads() {
    let mut kept = Vec::new();
    let mut spawn = || {
        let (sender, receiver) = mpsc::channel::<()>();
        let small = thread::Builder::new().stack_size(64 << 10);
        small.spawn(move || receiver.recv()).unwrap();
        kept.push(sender);
    };
    let count = env::var("NUMAD_TEST_THREADS").map_or(64, |count| count.parse().unwrap());
    (1..count).for_each(|_| spawn());
    let buffer = vec![1_u8; STRIDE_COUNT * STRIDE];
    println!("ready");
    let mut children = Vec::new();
    for line in std::io::stdin().lines() {
        match line.unwrap().as_str() {
            "spawn" => spawn(),
            "fork" => children.push(Command::new("sleep").arg("100").spawn().unwrap()),
            _ => {}
        }
        let child = children.last().map_or(0, Child::id);
        println!("done {child} {:x}", buffer.as_ptr().addr());
    }
    for child in &mut children {
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

/// Binds the threads of another process round and round until it is killed.
fn role_mover() {
    let target = Pid(env::var("NUMAD_TEST_TARGET").unwrap().parse().unwrap());
    let directory = PathBuf::from(env::var("NUMAD_TEST_JOURNAL").unwrap());
    let cpus = set(&env::var("NUMAD_TEST_CPUS").unwrap());
    let mut live = live(&directory);
    println!("ready");
    let cpus: Vec<CpuId> = cpus.iter().collect();
    for &cpu in cpus.iter().cycle() {
        for key in keys_of(target) {
            assert_eq!(live.perform(&bind_action(key, &only(cpu))), Outcome::Bound);
            println!("bound");
        }
    }
}

/// Tries, as another user, what only the owner may.
fn role_stranger() {
    let target = Pid(env::var("NUMAD_TEST_TARGET").unwrap().parse().unwrap());
    println!("ready");
    let set = Linux.set_affinity(Tid(target.0), Mask::Every);
    let query = residency(&mut Linux, target, &[4096]);
    println!(
        "told {:?} {query:?}",
        set.map_err(crate::refusal::of_affinity)
    );
}

/// Half of the threads get a mask of their own.
/// Gives every other thread a mask of its own, and waits until the clock of starts has gone on: a thread that got its mask
/// in the tick in which we give another the same could have it from that one.
fn pin_some(other: &Other, cpu: CpuId) {
    for key in other.threads().iter().step_by(2) {
        Linux
            .set_affinity(key.tid, Mask::These(&only(cpu)))
            .unwrap();
    }
    let now = || Reader::new("/").now().unwrap();
    let then = now();
    while now() <= then {
        thread::yield_now();
    }
}

#[test]
fn privileged_64_threads_are_put_back_at_the_next_start() {
    let Some(cpus) = ground() else { return };
    let directory = scratch("privileged");
    let other = Other::start("threads", &[], None);
    pin_some(&other, cpus[0]);
    let before = other.masks();
    assert!(before.len() >= 64);
    let mut first = live(&directory);
    for (key, &cpu) in before.keys().zip(cpus.iter().rev().cycle()) {
        assert_eq!(
            first.perform(&bind_action(*key, &only(cpu))),
            Outcome::Bound
        );
        assert_eq!(mask(key.tid), cpu.to_string());
    }
    drop(first);
    let mut second = live(&directory);
    let begin = Instant::now();
    let report = second.undo(&Scope::All);
    println!(
        "undo of {} threads took {:?}",
        before.len(),
        begin.elapsed()
    );
    let restored = usize::try_from(report.threads_restored);
    assert_eq!(restored, Ok(before.len()), "{report:?}");
    assert!(report.is_complete(), "{report:?}");
    assert_eq!(other.masks(), before);
    fs::remove_dir_all(directory).unwrap();
}

#[test]
fn privileged_a_mover_killed_at_any_moment_is_undone() {
    let Some(cpus) = ground() else { return };
    let directory = scratch("privileged");
    let other = Other::start("threads", &[], None);
    pin_some(&other, cpus[0]);
    let before = other.masks();
    let all: CpuSet = cpus.iter().copied().collect();
    for bound in [1, 2, 10, 40, 63, 64, 65, 100, 200, 300] {
        let arguments = [
            ("NUMAD_TEST_TARGET", other.pid().to_string()),
            ("NUMAD_TEST_JOURNAL", directory.display().to_string()),
            ("NUMAD_TEST_CPUS", all.to_string()),
        ];
        let mut mover = Other::start("mover", &arguments, None);
        for _ in 0..bound {
            mover.wait_for("bound");
        }
        // SIGKILL, while it is somewhere in the next bind.
        drop(mover);
        let report = live(&directory).undo(&Scope::All);
        assert!(
            report.is_complete() && report.threads_left == 0,
            "{report:?}"
        );
        assert_eq!(other.masks(), before, "after {bound}");
    }
    fs::remove_dir_all(directory).unwrap();
}

#[test]
fn privileged_newborns_of_bound_threads_are_put_back() {
    let Some(cpus) = ground() else { return };
    let directory = scratch("privileged");
    let mut other = Other::start("threads", &[], None);
    let whole = mask(Tid(other.pid().0));
    let old = other.threads();
    let mut live = live(&directory);
    for key in &old {
        live.perform(&bind_action(*key, &only(cpus[1])));
    }
    other.tell("spawn");
    let told = other.tell("fork");
    let child = Tid(told.split(' ').next().unwrap().parse().unwrap());
    let born: Vec<TaskKey> = other
        .threads()
        .into_iter()
        .filter(|key| !old.contains(key))
        .collect();
    assert_eq!(born.len(), 1);
    // The kernel hands our mask on to both.
    assert_eq!(
        (mask(born[0].tid), mask(child)),
        (cpus[1].to_string(), cpus[1].to_string())
    );
    let report = live.undo(&Scope::All);
    assert_eq!((mask(born[0].tid), mask(child)), (whole.clone(), whole));
    assert_eq!(usize::try_from(report.threads_restored), Ok(old.len() + 2));
    drop(other.stdin.flush());
    fs::remove_dir_all(directory).unwrap();
    // Ends the child, whose maker is killed.
    nix::sys::signal::kill(
        nix::unistd::Pid::from_raw(i32::try_from(child.0).unwrap()),
        nix::sys::signal::Signal::SIGKILL,
    )
    .unwrap();
}

/// Half of the threads are bound, with rows; the others have their masks from their maker, without. A cost that grows with
/// the square of the threads would show as four times as much for each.
#[test]
fn privileged_an_undo_takes_as_long_for_each_of_many_threads() {
    let Some(cpus) = ground() else { return };
    let mut each = Vec::new();
    for count in [1000, 4000] {
        let directory = scratch("privileged");
        let environment = [("NUMAD_TEST_THREADS", (count / 2).to_string())];
        let mut other = Other::start("threads", &environment, None);
        let before = mask(Tid(other.pid().0));
        let mut live = live_with(&directory, Durability::Kernel);
        for key in other.threads() {
            live.perform(&bind_action(key, &only(cpus[1])));
        }
        for _ in 0..count / 2 {
            other.tell("spawn");
        }
        let began = thread_processor_time();
        let report = live.undo(&Scope::All);
        let spent = thread_processor_time() - began;
        each.push(spent / count);
        println!(
            "undo of {count} threads: {:?} of a processor for each",
            spent / count
        );
        assert!(report.threads_restored >= u64::from(count), "{report:?}");
        assert!(other.masks().values().all(|mask| *mask == before));
        fs::remove_dir_all(directory).unwrap();
    }
    assert!(each[1] < each[0] * 2, "{each:?}");
}

/// A cpuset of the mounted version, removed when dropped.
pub(crate) struct Group(PathBuf);

impl Group {
    pub(crate) fn new(cpus: &str) -> Option<Self> {
        let top = Path::new("/sys/fs/cgroup/cpuset");
        let unified = Path::new("/sys/fs/cgroup");
        let controllers = fs::read_to_string(unified.join("cgroup.subtree_control"));
        let top = match controllers {
            _ if top.is_dir() => top,
            Ok(controllers) if controllers.split_whitespace().any(|name| name == "cpuset") => {
                unified
            }
            _ => {
                println!("skipped: needs a cpuset hierarchy");
                return None;
            }
        };
        // Numbers of processes are the same again in another namespace.
        let (own, now) = (std::process::id(), Reader::new("/").now().unwrap().0);
        let group = Self(top.join(format!("numad-test-{own}-{now}")));
        fs::create_dir(&group.0).unwrap();
        let above = ["cpuset.mems", "cpuset.mems.effective"];
        let mems = above
            .iter()
            .find_map(|name| fs::read_to_string(top.join(name)).ok());
        group.write("cpuset.mems", mems.unwrap().trim());
        group.write("cpuset.cpus", cpus);
        Some(group)
    }

    pub(crate) fn write(&self, file: &str, text: &str) {
        fs::write(self.0.join(file), text).unwrap();
    }
}

impl Group {
    /// Whether no process is in it.
    pub(crate) fn is_empty(&self) -> bool {
        let members = fs::read_to_string(self.0.join("cgroup.procs"));
        members.is_ok_and(|members| members.is_empty())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Members go back to the top when their processes end, which is before this.
        fs::remove_dir(&self.0).unwrap();
    }
}

/// docs/decisions/0003 rests on this.
#[test]
fn privileged_a_thread_without_a_mask_follows_its_cpuset_again() {
    let Some(cpus) = ground() else { return };
    let (narrow, wide) = (cpus[0].to_string(), format!("{},{}", cpus[0], cpus[1]));
    let Some(group) = Group::new(&narrow) else {
        return;
    };
    let directory = scratch("privileged");
    let other = Other::start("threads", &[], None);
    group.write("cgroup.procs", &other.pid().to_string());
    let keys = other.threads();
    let mut live = live(&directory);
    for key in &keys {
        assert_eq!(
            live.perform(&bind_action(*key, &only(cpus[0]))),
            Outcome::Bound
        );
    }
    // Outside of the cpuset: refused before the call, and the kernel would refuse as well.
    let outside = bind_action(keys[0], &only(cpus[1]));
    assert_eq!(
        live.perform(&outside),
        Outcome::Refused(Refusal::NotAllowed)
    );
    let error = Linux
        .set_affinity(keys[0].tid, Mask::These(&only(cpus[1])))
        .unwrap_err();
    assert_eq!(error, crate::Errno::EINVAL);
    group.write("cpuset.cpus", &wide);
    // Bound: the remembered mask holds (since Linux 6.2).
    let bound = mask(keys[0].tid);
    group.write("cpuset.cpus", &narrow);
    assert!(live.undo(&Scope::All).is_complete());
    group.write("cpuset.cpus", &wide);
    let expected = set(&wide).to_string();
    for key in &keys {
        assert_eq!(mask(key.tid), expected, "{key}");
    }
    println!("while bound the cpuset grew and the thread had `{bound}`");
    drop(other);
    drop(group);
    fs::remove_dir_all(directory).unwrap();
}

#[test]
fn privileged_errors_of_this_kernel_are_told_apart() {
    let Some(cpus) = ground() else { return };
    let directory = scratch("privileged");
    let mut other = Other::start("threads", &[], None);
    let told = other.tell("where");
    let address = told.split(' ').nth(1).unwrap();
    let first = u64::from_str_radix(address, 16).unwrap() & !(STRIDE as u64 - 1);
    let pages: Vec<u64> = (1..STRIDE_COUNT as u64 - 1)
        .map(|page| first + page * STRIDE as u64)
        .collect();
    let places = residency(&mut Linux, other.pid(), &pages).unwrap();
    let home = places[0].node().unwrap();
    assert!(
        places.iter().all(|place| place.node().is_some()),
        "{places:?}"
    );
    let mut live = live(&directory);
    let stay = live.perform(&move_action(other.pid(), pages.clone(), home.0));
    let Outcome::Moved { pages: moved, .. } = stay else {
        panic!("{stay:?}")
    };
    assert!(moved.iter().all(|page| *page == PageOutcome::Stood(home)));
    let many: Vec<u64> = pages.iter().copied().cycle().take(5_000).collect();
    let (found, _) = residencies(&mut Linux, &[(other.pid(), &many), (Pid(0), &many)], 4);
    let expected = places.iter().copied().cycle().take(5_000).collect();
    assert_eq!(found, [Ok(expected), Err(Refusal::Gone)]);
    // A page that nobody touched, and an address that nobody mapped.
    assert_eq!(
        residency(&mut Linux, other.pid(), &[0x1000]).unwrap(),
        [PageStatus::Absent]
    );
    let nowhere = live.perform(&move_action(other.pid(), pages.clone(), 1023));
    assert_eq!(nowhere, Outcome::Refused(Refusal::NoSuchNode));
    let stranger = [("NUMAD_TEST_TARGET", other.pid().to_string())];
    let mut stranger = Other::start("stranger", &stranger, Some(65534));
    assert_eq!(
        stranger.wait_for("told"),
        "Err(NotPermitted) Err(NotPermitted)"
    );
    let key = other.threads()[0];
    let pid = other.pid();
    drop(other);
    assert_eq!(
        live.perform(&bind_action(key, &only(cpus[0]))),
        Outcome::Refused(Refusal::Gone)
    );
    let gone = live.perform(&move_action(pid, pages, home.0));
    assert_eq!(gone, Outcome::Refused(Refusal::Gone));
    assert_eq!(residency(&mut Linux, pid, &[0x1000]), Err(Refusal::Gone));
    fs::remove_dir_all(directory).unwrap();
}

/// On a machine with several nodes: pages leave their node and are put back at the next start.
#[test]
fn privileged_pages_are_put_back_where_there_are_nodes() {
    let Some(cpus) = ground() else { return };
    let nodes = Reader::new("/").node_memory().unwrap();
    let nodes: Vec<NodeId> = nodes
        .iter()
        .filter(|node| node.free_bytes > 0)
        .map(|n| n.node)
        .collect();
    let directory = scratch("privileged");
    let mut other = Other::start("threads", &[], None);
    let told = other.tell("where");
    let first =
        u64::from_str_radix(told.split(' ').nth(1).unwrap(), 16).unwrap() & !(STRIDE as u64 - 1);
    let pages: Vec<u64> = (1..STRIDE_COUNT as u64 - 1)
        .map(|page| first + page * STRIDE as u64)
        .collect();
    let before = residency(&mut Linux, other.pid(), &pages).unwrap();
    let Some(&away) = nodes.iter().find(|&&node| before[0].node() != Some(node)) else {
        println!("skipped: needs two nodes with memory");
        fs::remove_dir_all(directory).unwrap();
        return;
    };
    let mut first = live(&directory);
    first.perform(&bind_action(other.threads()[0], &only(cpus[0])));
    first.perform(&move_action(other.pid(), pages.clone(), away.0));
    let moved = residency(&mut Linux, other.pid(), &pages).unwrap();
    assert!(
        moved.iter().all(|place| *place == PageStatus::On(away)),
        "{moved:?}"
    );
    drop(first);
    let report = live(&directory).undo(&Scope::All);
    assert_eq!(
        usize::try_from(report.pages_restored),
        Ok(pages.len()),
        "{report:?}"
    );
    assert_eq!(residency(&mut Linux, other.pid(), &pages).unwrap(), before);
    fs::remove_dir_all(directory).unwrap();
}

/// A file system that cannot be written: what its journal says is undone even so, and the journal says it still.
#[test]
fn privileged_a_read_only_disk_does_not_stop_undo() {
    let Some(cpus) = ground() else { return };
    let directory = scratch("privileged");
    let mount = |options: &str| {
        let mut command = Command::new("mount");
        command.args(["-t", "tmpfs", "-o", options, "none"]);
        let status = command.arg(&directory).status();
        status.is_ok_and(|status| status.success())
    };
    if !mount("size=64k") {
        println!("skipped: needs to mount a tmpfs");
        fs::remove_dir_all(directory).unwrap();
        return;
    }
    let other = Other::start("threads", &[], None);
    let before = other.masks();
    let mut first = live(&directory);
    for key in other.threads() {
        assert_eq!(
            first.perform(&bind_action(key, &only(cpus[1]))),
            Outcome::Bound
        );
    }
    drop(first);
    assert!(mount("remount,ro"));
    let (reader, limits) = (Reader::new("/"), JournalLimits::default());
    let boot = reader.boot_id().unwrap();
    let error = Journal::open(&directory, &boot, limits).unwrap_err();
    assert!(matches!(error, crate::OpenError::Io(..)), "{error}");
    for _ in 0..2 {
        let journal = Journal::open_for_undo(&directory, &boot, limits).unwrap();
        let mut live = Live::new(journal, Linux, Machine(reader.clone()), || Time(0));
        let report = live.undo(&Scope::All);
        assert!(report.is_complete(), "{report:?}");
        assert_eq!(usize::try_from(report.threads_restored), Ok(before.len()));
        assert_eq!(other.masks(), before);
        let error = live.take_write_error().unwrap();
        assert_eq!(error.source.raw_os_error(), Some(libc::EROFS));
    }
    assert!(mount("remount,rw"));
    assert!(live(&directory).undo(&Scope::All).is_complete());
    assert_eq!(live(&directory).journal().open_rows(), 0);
    let unmounted = Command::new("umount").arg(&directory).status();
    assert!(unmounted.is_ok_and(|status| status.success()));
    fs::remove_dir_all(directory).unwrap();
}

/// A file system that is full: the change is refused, and the undo of what was done still works.
#[test]
fn privileged_a_full_disk_refuses_changes_and_does_not_stop_undo() {
    let Some(cpus) = ground() else { return };
    let directory = scratch("privileged");
    let mount = |program: &str, arguments: &[&str]| {
        let status = Command::new(program)
            .args(arguments)
            .arg(&directory)
            .status();
        status.is_ok_and(|status| status.success())
    };
    if !mount("mount", &["-t", "tmpfs", "-o", "size=64k", "none"]) {
        println!("skipped: needs to mount a tmpfs");
        fs::remove_dir_all(directory).unwrap();
        return;
    }
    let other = Other::start("threads", &[], None);
    let before = other.masks();
    let keys = other.threads();
    let mut live = live(&directory);
    let mut bind = |key: TaskKey, cpu| live.perform(&bind_action(key, &only(cpu)));
    assert_eq!(bind(keys[0], cpus[1]), Outcome::Bound);
    fs::write(directory.join("filler"), vec![1; 1 << 20]).unwrap_err();
    // The page that the file has already takes some rows yet.
    let both = [cpus[1], cpus[0]];
    let mut attempts = both
        .iter()
        .flat_map(|&cpu| keys.iter().map(move |&key| (key, cpu)));
    let refused = attempts.find_map(|(key, cpu)| {
        let had = mask(key.tid);
        let refused = bind(key, cpu) == Outcome::Refused(Refusal::Journal);
        refused.then_some((key, had))
    });
    let (key, had) = refused.unwrap();
    assert_eq!(mask(key.tid), had);
    assert!(live.take_write_error().is_some());
    let report = live.undo(&Scope::All);
    assert!(report.is_complete(), "{report:?}");
    assert_eq!(other.masks(), before);
    drop(live);
    assert_eq!(self::live(&directory).journal().open_rows(), 0);
    assert!(mount("umount", &[]));
    fs::remove_dir_all(directory).unwrap();
}
