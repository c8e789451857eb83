//! Every call of a whole story fails once: of changes, undo and journal, each with the errors that
//! it can end in, and with the threads and processes of the story ending at that moment. Nothing is
//! lost, and what is not back is named.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nix::fcntl::Flock;
use numad_core::{AttachmentId, Host as _, Outcome, Reach, Refusal, SharedRange, Time};
use topology::{CpuSet, NodeId, Pid, StartTicks, Tid};

use crate::crash::assert_natural;
use crate::fake::{Bench, Fake, World, bind, bind_other, move_first, move_shared, set};
use crate::journal::rows::Row;
use crate::journal::{Disk, FileSystem, Open};
use crate::pacer::Movers;
use crate::{
    Census, Errno, Journal, JournalLimits, Kernel, Live, Mask, MoveCall, ProcessKey, Scope, Seen,
};

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// The call fails.
    Error(Errno),
    /// The call succeeds, and before it this thread ends.
    ThreadEnds(Tid),
    /// The call succeeds, and before it this process ends.
    ProcessEnds(Pid),
}

/// Counts calls, and lets one go wrong.
#[derive(Debug, Default)]
struct Plan {
    made: Vec<&'static str>,
    at: Option<(usize, Fault)>,
    /// A call that fails each time, as on a disk that is full, after some that succeed.
    refused: Option<(&'static str, usize)>,
}

/// What the calls of one story share.
#[derive(Clone, Debug, Default)]
struct Calls(Arc<Mutex<Plan>>);

impl Calls {
    /// Notes a call; tells what goes wrong with it.
    fn strike(&self, call: &'static str) -> Option<Fault> {
        let mut plan = self.0.lock().unwrap();
        let index = plan.made.len();
        plan.made.push(call);
        if let Some((refused, left)) = &mut plan.refused
            && *refused == call
        {
            if *left == 0 {
                return Some(Fault::Error(Errno::ENOSPC));
            }
            *left -= 1;
        }
        plan.at
            .filter(|(at, _)| *at == index)
            .map(|(_, fault)| fault)
    }

    /// Every such call fails from now on, but for the first ones.
    fn refuse(&self, call: &'static str, but: usize) {
        self.0.lock().unwrap().refused = Some((call, but));
    }

    /// Nothing goes wrong from now on.
    fn relent(&self) {
        let mut plan = self.0.lock().unwrap();
        (plan.at, plan.refused) = (None, None);
    }
}

/// Errors that looking at files of `/proc` can end in.
const LOOKS: &[Errno] = &[Errno::EMFILE, Errno::EPERM, Errno::EIO];
const MASKS: &[Errno] = &[Errno::EPERM, Errno::ENOMEM];
/// Calls of a journal.
const DISK: &[&str] = &[
    "make directory",
    "open",
    "lock",
    "read",
    "is at",
    "write",
    "sync",
    "rename",
];
const WRITES: &[Errno] = &[Errno::ENOSPC, Errno::EIO, Errno::EROFS, Errno::EINTR];

/// Errors that a call can end in.
fn errors(call: &str) -> &'static [Errno] {
    match call {
        "hold" => &[Errno::EMFILE],
        "has" => &[Errno::ENOMEM],
        "get affinity" => MASKS,
        // The kernel's answer to a cpuset that moves between look and call.
        "set affinity" => &[Errno::EPERM, Errno::ENOMEM, Errno::EBUSY, Errno::EINVAL],
        "query pages" => MASKS,
        "move pages" => &[Errno::EPERM, Errno::ENOMEM, Errno::ENODEV, Errno::EACCES],
        "make directory" | "open" => &[Errno::ENOSPC, Errno::EMFILE, Errno::EACCES, Errno::EROFS],
        "lock" => &[Errno::ENOLCK],
        "read" => &[Errno::EIO],
        "is at" => &[Errno::EACCES],
        "write" | "sync" | "rename" => WRITES,
        _ => LOOKS,
    }
}

/// The world, in which one call fails.
#[derive(Clone, Debug)]
struct Faulty {
    fake: Fake,
    calls: Calls,
}

impl Faulty {
    fn strike(&self, call: &'static str) -> Result<(), Errno> {
        match self.calls.strike(call) {
            None => Ok(()),
            Some(Fault::Error(errno)) => Err(errno),
            Some(Fault::ThreadEnds(tid)) => {
                drop(self.fake.0.borrow_mut().tasks.remove(&tid));
                Ok(())
            }
            Some(Fault::ProcessEnds(pid)) => {
                self.fake.0.borrow_mut().end(pid);
                Ok(())
            }
        }
    }

    fn look<T>(&self, call: &'static str, answer: impl FnOnce(&Fake) -> Seen<T>) -> Seen<T> {
        match self.strike(call) {
            Ok(()) => answer(&self.fake),
            Err(errno) => Seen::Hidden(errno as i32),
        }
    }
}

impl Kernel for Faulty {
    type Hold = (Pid, StartTicks);

    fn hold(&mut self, pid: Pid) -> Result<Option<Self::Hold>, Errno> {
        match self.strike("hold") {
            Ok(()) => self.fake.hold(pid),
            Err(_none_to_be_had) => Ok(None),
        }
    }

    fn has(&mut self, held: &Self::Hold, pid: Pid, tid: Tid) -> Result<bool, Errno> {
        self.strike("has")?;
        self.fake.has(held, pid, tid)
    }

    fn rest(&mut self) {
        self.fake.rest();
    }

    fn affinity(&mut self, tid: Tid) -> Result<CpuSet, Errno> {
        self.strike("get affinity")?;
        self.fake.affinity(tid)
    }

    fn set_affinity(&mut self, tid: Tid, mask: Mask<'_>) -> Result<(), Errno> {
        self.strike("set affinity")?;
        self.fake.set_affinity(tid, mask)
    }

    fn query_pages(&mut self, pid: Pid, pages: &[u64], statuses: &mut [i32]) -> Result<(), Errno> {
        self.strike("query pages")?;
        self.fake.query_pages(pid, pages, statuses)
    }

    fn of_files(&mut self, pid: Pid, pages: &[u64]) -> Vec<Option<bool>> {
        match self.strike("ask for files") {
            Ok(()) => self.fake.of_files(pid, pages),
            Err(_not_told) => vec![None; pages.len()],
        }
    }

    fn move_pages(
        &mut self,
        pid: Pid,
        pages: &[u64],
        to: (NodeId, Reach),
        statuses: &mut [i32],
    ) -> Result<(), Errno> {
        self.strike("move pages")?;
        self.fake.move_pages(pid, pages, to, statuses)
    }

    fn move_side_by_side(&mut self, calls: &mut [MoveCall<'_>], _movers: usize) -> Duration {
        for call in calls {
            call.ended = Some(self.move_pages(call.pid, call.pages, call.to, call.statuses));
        }
        Duration::ZERO
    }

    fn balancing(&mut self) -> Result<u32, Errno> {
        self.strike("get balancing")?;
        self.fake.balancing()
    }

    fn set_balancing(&mut self, mode: u32) -> Result<(), Errno> {
        self.strike("set balancing")?;
        self.fake.set_balancing(mode)
    }
}

impl Census for Faulty {
    fn process(&self, pid: Pid) -> Seen<StartTicks> {
        self.look("process", |fake| fake.process(pid))
    }

    fn thread(&self, pid: Pid, tid: Tid) -> Seen<StartTicks> {
        self.look("thread", |fake| fake.thread(pid, tid))
    }

    fn threads(&self, pid: Pid) -> Seen<Vec<Tid>> {
        self.look("threads", |fake| fake.threads(pid))
    }

    fn allowed(&self, pid: Pid, tid: Tid) -> Seen<CpuSet> {
        self.look("allowed", |fake| fake.allowed(pid, tid))
    }

    fn whole_affinity(&self, pid: Pid, tid: Tid) -> Seen<CpuSet> {
        self.look("whole affinity", |fake| fake.whole_affinity(pid, tid))
    }

    fn parent(&self, pid: Pid) -> Seen<Pid> {
        self.look("parent", |fake| fake.parent(pid))
    }

    fn processes(&self) -> Seen<Vec<(Pid, Pid)>> {
        self.look("processes", Census::processes)
    }

    fn shared(&self, pid: Pid) -> Seen<Vec<SharedRange>> {
        self.look("shared", |fake| fake.shared(pid))
    }

    fn chosen(&self, pid: Pid) -> Seen<Vec<Range<u64>>> {
        self.look("chosen", |fake| fake.chosen(pid))
    }

    fn now(&self) -> Seen<StartTicks> {
        self.look("now", Census::now)
    }
}

/// The file system, of which one call fails.
#[derive(Debug)]
struct FaultyDisk {
    disk: FileSystem,
    calls: Calls,
}

impl FaultyDisk {
    fn strike(&self, call: &'static str) -> Result<(), Errno> {
        match self.calls.strike(call) {
            Some(Fault::Error(errno)) => Err(errno),
            _ => Ok(()),
        }
    }
}

impl Disk for FaultyDisk {
    fn make_directory(&mut self, path: &Path) -> io::Result<()> {
        self.strike("make directory")?;
        self.disk.make_directory(path)
    }

    fn open(&mut self, path: &Path, how: Open) -> io::Result<File> {
        self.strike("open")?;
        self.disk.open(path, how)
    }

    fn lock(&mut self, file: File) -> Result<Flock<File>, Errno> {
        self.strike("lock")?;
        self.disk.lock(file)
    }

    fn read(&mut self, file: &File, most: u64) -> io::Result<(Vec<u8>, bool)> {
        self.strike("read")?;
        self.disk.read(file, most)
    }

    fn is_at(&mut self, file: &File, path: &Path) -> io::Result<bool> {
        self.strike("is at")?;
        self.disk.is_at(file, path)
    }

    /// When it fails half of the bytes are there, as on a disk that is full.
    fn write(&mut self, file: &File, at: u64, bytes: &[u8]) -> io::Result<()> {
        if let Err(errno) = self.strike("write") {
            self.disk.write(file, at, &bytes[..bytes.len() / 2])?;
            return Err(errno.into());
        }
        self.disk.write(file, at, bytes)
    }

    /// When it fails the bytes are there, and the disk may have them or not.
    fn sync(&mut self, file: &File) -> io::Result<()> {
        self.strike("sync")?;
        self.disk.sync(file)
    }

    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        self.strike("rename")?;
        self.disk.rename(from, to)
    }
}

const FIRST: AttachmentId = AttachmentId(1);
/// Where processes map the memory that they share.
const SHARED_AT: u64 = 1 << 30;
const SHARED_PAGES: u64 = 3;

/// Two programs, one with a child; threads with masks of their own and without; private and shared
/// memory.
fn machine(world: &mut World) {
    for pid in [100, 200, 400] {
        world.add_process(pid, 1, "0-7");
    }
    world.add_task(100, 101, Some("1-2"));
    world.add_task(100, 102, None);
    world.add_task(100, 103, None);
    world.add_task(400, 401, Some("1-2"));
    world.add_pages(100, 4, 0);
    for pid in [100, 200] {
        world.share(pid, SHARED_AT, SHARED_PAGES, 0);
    }
}

/// One run of the story with one fault.
struct Story {
    bench: Bench,
    calls: Calls,
    name: String,
}

type Subject = Live<Faulty, Faulty>;

impl Story {
    fn new(at: Option<(usize, Fault)>) -> Self {
        let bench = Bench::new();
        machine(&mut bench.fake.0.borrow_mut());
        let calls = Calls::default();
        calls.0.lock().unwrap().at = at;
        Self {
            bench,
            calls,
            name: format!("{at:?}"),
        }
    }

    fn world<T>(&self, change: impl FnOnce(&mut World) -> T) -> T {
        change(&mut self.bench.fake.0.borrow_mut())
    }

    /// A daemon starts; one that cannot open its journal says which file it is, and the next start
    /// can.
    fn start(&self) -> Subject {
        let disk = || {
            Box::new(FaultyDisk {
                disk: FileSystem,
                calls: self.calls.clone(),
            })
        };
        let place = self.bench.directory.join("state");
        let open = || Journal::open_on(disk(), &place, "boot", JournalLimits::default());
        let journal = open().unwrap_or_else(|error| {
            let place = place.display().to_string();
            assert!(error.to_string().contains(&place), "{error}: {}", self.name);
            open().unwrap()
        });
        let faulty = Faulty {
            fake: self.bench.fake.clone(),
            calls: self.calls.clone(),
        };
        let mut live = Live::new(journal, faulty.clone(), faulty, || Time(0));
        live.movers = Movers::always(2);
        live
    }

    /// Changes this and that.
    fn act(&self, live: &mut Subject) {
        let key = |tid| self.world(|world| world.tasks.get(&Tid(tid)).map(|task| task.key));
        let child = |live: &mut Subject| {
            if let Some(key) = key(300) {
                let process = ProcessKey {
                    pid: key.pid,
                    start: key.start,
                };
                live.follow(FIRST, &[process]);
            }
        };
        // What is refused is not done; the undo that follows says what became of it.
        let _told = live.balance();
        for (tid, mask) in [(100, "0-3"), (101, "4-5"), (102, "0-3"), (103, "0-3")] {
            if let Some(key) = key(tid) {
                bind(live, key, mask);
            }
        }
        self.world(|world| {
            for (maker, pid, tid) in [(101, 100, 104), (102, 300, 300)] {
                if world.tasks.contains_key(&Tid(maker)) {
                    world.spawn(Tid(maker), pid, tid);
                }
            }
        });
        // With every window.
        child(live);
        child(live);
        if let Some(key) = key(300) {
            bind(live, key, "4-7");
        }
        move_first(live, 100, 4, 1);
        let pages = (0..SHARED_PAGES).map(|page| SHARED_AT + page * 4096);
        live.perform(&move_shared(Pid(100), pages.collect(), 1));
        for tid in [200, 401] {
            if let Some(key) = key(tid) {
                bind_other(live, key, "4-7");
            }
        }
        self.world(|world| drop(world.tasks.remove(&Tid(103))));
        live.prune();
    }

    /// Everything is as it would be without us, but for threads whose cpuset has none of their own
    /// mask.
    fn is_natural(&self) -> bool {
        self.world(|world| {
            let masks = world.tasks.values().all(|task| {
                task.mask == task.natural || (task.mask.is_none() && task.key.tid == Tid(401))
            });
            masks
                && world.balancing == 0
                && world.pages.values().all(|page| page.node == page.natural)
        })
    }

    /// What is not back is named, and what that says helps.
    fn check(&self, live: &mut Subject, report: &crate::UndoReport) {
        let words = report.failed.join("; ");
        if !self.is_natural() {
            let waits = report.threads_parked + report.pages_left > 0;
            assert!(!words.is_empty() || waits, "{}: {report:?}", self.name);
        }
        if words.contains("cannot be looked at") {
            assert!(words.contains("undo"), "{}: {words}", self.name);
        }
        if let Some(error) = live.take_write_error() {
            let place = self.bench.directory.display().to_string();
            assert!(error.to_string().contains(&place), "{}: {error}", self.name);
        }
    }

    /// The story: changes, detach, undo, and in the end an undo in which nothing goes wrong, by the
    /// same daemon or by the next.
    fn run(&self, restart: bool) -> Vec<&'static str> {
        let mut live = self.start();
        self.act(&mut live);
        drop(live.take_write_error());
        let first = BTreeMap::from([(Pid(100), None)]);
        live.undo(&Scope::Program(FIRST, first));
        // One that has to wait for its mask.
        self.world(|world| drop(world.cpusets.insert(Pid(400), set("4-7"))));
        let report = live.undo(&Scope::All);
        self.check(&mut live, &report);
        self.calls.relent();
        let made = self.calls.0.lock().unwrap().made.clone();
        if restart {
            drop(live);
            live = self.start();
            live.undo(&Scope::All);
        }
        self.world(|world| {
            if world.cpusets.contains_key(&Pid(400)) {
                world.cpusets.insert(Pid(400), set("0-7"));
            }
        });
        live.prune();
        let report = live.undo(&Scope::All);
        assert!(report.is_complete(), "{}: {report:?}", self.name);
        let rows: Vec<_> = live.journal().records().rows().collect();
        assert_eq!(live.journal().open_rows(), 0, "{}: {rows:?}", self.name);
        assert_natural(&self.bench);
        made
    }
}

impl fmt::Debug for Story {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

#[test]
fn every_call_fails_once_and_nothing_is_lost() {
    let calls = Story::new(None).run(false);
    let mut tried = 0;
    for (index, call) in calls.iter().enumerate() {
        let failures = errors(call).iter().copied().map(Fault::Error);
        let threads = [101, 102].map(|tid| Fault::ThreadEnds(Tid(tid)));
        let processes = [100, 200, 300].map(|pid| Fault::ProcessEnds(Pid(pid)));
        let ends = threads.into_iter().chain(processes);
        let ends = ends.filter(|_| !DISK.contains(call));
        let faults: Vec<Fault> = failures.chain(ends).collect();
        for fault in faults {
            let story = Story::new(Some((index, fault)));
            println!("{call}, call {index}, {fault:?}");
            story.run(tried % 2 == 0);
            tried += 1;
        }
    }
    println!("{} calls, {tried} faults", calls.len());
    assert!(calls.len() > 100, "{}", calls.len());
}

/// The journal still lists what is undone: nothing is changed on top of that, and what somebody set
/// since is what the next undo gives back.
#[test]
fn what_is_undone_is_never_the_original_of_a_later_change() {
    let story = Story::new(None);
    let mut live = story.start();
    let key = story.world(|world| world.tasks[&Tid(101)].key);
    assert_eq!(bind(&mut live, key, "4-5"), Outcome::Bound);
    move_first(&mut live, 100, 4, 1);
    live.balance().unwrap();
    story.calls.refuse("rename", 0);
    // A program that stays keeps the file from being cut to its first line.
    let other = story.world(|world| world.tasks[&Tid(200)].key);
    assert_eq!(bind_other(&mut live, other, "4-7"), Outcome::Bound);
    live.undo(&Scope::of(&[Pid(100)]));
    live.leave_balancing().unwrap();
    assert!(live.take_write_error().is_some());
    story.world(|world| {
        world.tasks.get_mut(&Tid(101)).unwrap().mask = Some(set("6-7"));
        let pages = world
            .pages
            .iter_mut()
            .filter(|((pid, _), _)| *pid == Pid(100));
        pages.for_each(|(_, page)| page.node = NodeId(1));
        world.balancing = 2;
    });
    let refused = Outcome::Refused(Refusal::Journal);
    assert_eq!(bind(&mut live, key, "4-5"), refused);
    assert_eq!(live.balance(), Err(Refusal::Journal));
    story.calls.relent();
    live.prune();
    assert_eq!(bind(&mut live, key, "4-5"), Outcome::Bound);
    move_first(&mut live, 100, 4, 0);
    live.balance().unwrap();
    drop(live);
    let report = story.start().undo(&Scope::All);
    assert!(report.is_complete(), "{report:?}");
    assert_eq!(story.bench.mask(key), "6-7");
    assert_eq!(story.bench.nodes(100)[..4], [1; 4]);
    assert_eq!(story.world(|world| world.balancing), 2);
}

#[test]
fn a_journal_that_lists_what_is_undone_is_tidied_later() {
    let story = Story::new(None);
    let mut live = story.start();
    for (tid, attachment) in [(101, 1), (200, 2)] {
        let key = story.world(|world| world.tasks[&Tid(tid)].key);
        match attachment {
            1 => bind(&mut live, key, "4-5"),
            _ => bind_other(&mut live, key, "4-5"),
        };
    }
    story.calls.refuse("rename", 0);
    live.undo(&Scope::of(&[Pid(100)]));
    assert!(live.journal().is_outdated());
    let writes = || {
        let plan = story.calls.0.lock().unwrap();
        plan.made.iter().filter(|call| **call == "write").count()
    };
    let (key, before) = (story.world(|world| world.tasks[&Tid(102)].key), writes());
    let refused = Outcome::Refused(Refusal::Journal);
    assert_eq!(bind(&mut live, key, "4-5"), refused);
    assert_eq!(writes(), before, "not for each change");
    story.calls.relent();
    live.prune();
    assert!(!live.journal().is_outdated());
    drop(live);
    assert_eq!(story.start().journal().open_rows(), 1);
}

/// A journal of another boot, on a disk that is full for a while: the new file takes rows once it
/// has begun.
#[test]
fn a_journal_of_another_boot_leaves_nothing_in_front_of_rows() {
    for call in ["rename", "write"] {
        let story = Story::new(None);
        let place = story.bench.directory.join("state");
        let open = |boot: &str| {
            let disk = Box::new(FaultyDisk {
                disk: FileSystem,
                calls: story.calls.clone(),
            });
            Journal::open_on(disk, &place, boot, JournalLimits::default()).unwrap()
        };
        let row = |tid| {
            Row::Process(ProcessKey {
                pid: Pid(tid),
                start: StartTicks(1),
            })
        };
        open("earlier").record(vec![row(100), row(200)]).unwrap();
        // Of the calls of a start, that which begins the new file.
        story.calls.refuse(call, 1);
        let mut journal = open("boot");
        journal.record(vec![row(300)]).unwrap_err();
        story.calls.relent();
        journal.rewrite().unwrap();
        journal.record(vec![row(300)]).unwrap();
        journal.record(vec![row(400)]).unwrap();
        drop(journal);
        let journal = open("boot");
        assert_eq!(journal.records().rows().count(), 2, "{call}");
        assert_eq!(journal.found().damaged, 0, "{call}");
    }
}
