//! A kernel for tests: affinities with cpusets, pages on nodes, and a death at a chosen call.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::Range;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use numad_core::{
    Action, AttachmentId, Host, ObjectId, ObjectKind, Outcome, Reach, Reason, SharedRange, SpaceId,
    Time,
};
use topology::{CpuId, CpuSet, NodeId, Pid, StartTicks, TaskKey, Tid};

use crate::affinity::clipped;
use crate::{Census, Errno, Journal, JournalLimits, Kernel, Live, Mask, MoveCall, Seen};

/// A thread. Two masks: what it has, and what it would have without us.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FakeTask {
    pub key: TaskKey,
    pub mask: Option<CpuSet>,
    pub natural: Option<CpuSet>,
    /// Whether it was made after the first change.
    pub newborn: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hold {
    Free,
    Busy,
    Shared,
    /// Of a file that others map as well.
    OfFile,
    /// In a huge page that moves with the first page of it; the kernel calls it busy.
    Follows,
    /// Moves, and then its program copies it on writing where it was: once.
    Copied,
    /// Isolated, but its migration fails: the kernel gives up there and tells nothing of the rest.
    Stuck,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FakePage {
    pub node: NodeId,
    pub natural: NodeId,
    pub hold: Hold,
}

/// When to die.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Death {
    /// Changes that still succeed.
    pub after: u32,
    /// Whether the last one, at which we die, still takes effect.
    pub applied: bool,
}

/// What is thrown at death, like `kill -9` caught at no other place.
pub(crate) struct Killed;

#[derive(Debug, Default)]
pub(crate) struct World {
    pub tasks: BTreeMap<Tid, FakeTask>,
    pub cpusets: BTreeMap<Pid, CpuSet>,
    /// Processors that are offline.
    pub offline: CpuSet,
    pub parents: BTreeMap<Pid, Pid>,
    pub pages: BTreeMap<(Pid, u64), FakePage>,
    /// Blocks of 2 MiB that are one page.
    pub huge: Vec<(Pid, u64)>,
    /// Addresses at which these processes have the same page.
    pub shared: Vec<(u64, Vec<Pid>)>,
    /// Where processes map memory that can be shared; what several have of one place in it is one page.
    pub maps: BTreeMap<Pid, Vec<SharedRange>>,
    /// Memory with a policy of its own.
    pub chosen: BTreeMap<Pid, Vec<Range<u64>>>,
    pub now: u64,
    pub death: Option<Death>,
    /// Error of every changing call, if it is to fail.
    pub errno: Option<Errno>,
    /// Bytes of the journal when the last change was made.
    pub settled: u64,
    pub journal: PathBuf,
    clock: Arc<AtomicU64>,
    /// After so many masks were read or set a number changes hands: the thread that has it then.
    pub heir: Option<(u32, FakeTask)>,
    /// Threads that have their masks from their makers and that nobody can see yet.
    pub unborn: Vec<FakeTask>,
    /// Threads that a list still names and that have ended.
    pub ghosts: BTreeSet<(Pid, Tid)>,
    /// When processes began.
    pub starts: BTreeMap<Pid, StartTicks>,
    /// The error that reading a mask ends in.
    pub masks_hidden: Option<Errno>,
    /// The error that reading what a process maps ends in.
    pub maps_hidden: Option<i32>,
    /// The error that looking at anything ends in.
    pub hidden: Option<i32>,
    /// Nanoseconds that every call waits that moves pages, before it does.
    pub call_ns: u64,
    pub calls: u64,
    /// Whether calls that are made together take no longer than the longest.
    pub has_processors: bool,
    /// How many calls were made together at most.
    pub together_max: usize,
    /// What the switch of the kernel's balancing says; [`NO_SWITCH`] where there is none.
    pub balancing: u32,
    /// Pages that nodes have room for, where that is not all.
    pub room: BTreeMap<NodeId, usize>,
}

pub(crate) const NO_SWITCH: u32 = u32::MAX;

pub(crate) const NODES: u32 = 2;

/// Memory that processes share.
pub(crate) const OBJECT: ObjectId = ObjectId {
    kind: ObjectKind::Memory,
    device: (0, 1),
    inode: 77,
};

pub(crate) fn set(text: &str) -> CpuSet {
    CpuSet::parse_list(text).unwrap()
}

impl World {
    pub(crate) fn effective(&self, pid: Pid, mask: Option<&CpuSet>) -> CpuSet {
        let online = self.cpusets[&pid].difference(&self.offline);
        mask.map_or_else(|| online.clone(), |mask| clipped(mask, &online))
    }

    pub(crate) fn add_process(&mut self, pid: u32, parent: u32, cpuset: &str) -> TaskKey {
        self.cpusets.insert(Pid(pid), set(cpuset));
        self.parents.insert(Pid(pid), Pid(parent));
        self.add_task(pid, pid, None)
    }

    pub(crate) fn add_task(&mut self, pid: u32, tid: u32, mask: Option<&str>) -> TaskKey {
        self.now += 1;
        let key = TaskKey {
            pid: Pid(pid),
            tid: Tid(tid),
            start: StartTicks(self.now),
        };
        let mask = mask.map(set);
        let task = FakeTask {
            key,
            natural: mask.clone(),
            mask,
            newborn: false,
        };
        if tid == pid {
            self.starts.insert(Pid(pid), key.start);
        }
        self.tasks.insert(Tid(tid), task);
        key
    }

    /// A thread makes another, of a process of its own or not.
    pub(crate) fn spawn(&mut self, maker: Tid, pid: u32, tid: u32) -> TaskKey {
        self.now += 1;
        let maker = self.tasks[&maker].clone();
        if maker.key.pid != Pid(pid) && !self.cpusets.contains_key(&Pid(pid)) {
            self.cpusets
                .insert(Pid(pid), self.cpusets[&maker.key.pid].clone());
            self.parents.insert(Pid(pid), maker.key.pid);
            self.inherit_memory(maker.key.pid, Pid(pid));
        }
        let key = TaskKey {
            pid: Pid(pid),
            tid: Tid(tid),
            start: StartTicks(self.now),
        };
        let task = FakeTask {
            key,
            newborn: true,
            ..maker
        };
        if tid == pid {
            self.starts.insert(Pid(pid), key.start);
        }
        self.tasks.insert(Tid(tid), task);
        key
    }

    pub(crate) fn add_pages(&mut self, pid: u32, count: u64, node: u32) {
        for index in 0..count {
            let node = NodeId(node);
            let page = FakePage {
                node,
                natural: node,
                hold: Hold::Free,
            };
            self.pages.insert((Pid(pid), index * 4096), page);
        }
    }

    fn is_full(&self, node: NodeId) -> bool {
        let there = self.pages.values().filter(|page| page.node == node);
        self.room
            .get(&node)
            .is_some_and(|&room| there.count() >= room)
    }

    /// A page goes, and with it what else has it.
    fn take_along(&mut self, pid: Pid, page: u64, node: NodeId) {
        for (address, sharers) in &self.shared {
            if *address == page && sharers.contains(&pid) {
                for &sharer in sharers {
                    if let Some(same) = self.pages.get_mut(&(sharer, page)) {
                        same.node = node;
                    }
                }
            }
        }
        for same in self.same_in_object(pid, page) {
            if let Some(same) = self.pages.get_mut(&same) {
                same.node = node;
            }
        }
    }

    /// Maps `count` pages of an object at an address of a process, and gives it those, all on one node.
    pub(crate) fn share(&mut self, pid: u32, address: u64, count: u64, node: u32) {
        let range = SharedRange {
            start: address,
            end: address + count * 4096,
            object: OBJECT,
            offset: 4096,
        };
        self.maps.entry(Pid(pid)).or_default().push(range);
        let node = NodeId(node);
        for index in 0..count {
            let page = FakePage {
                node,
                natural: node,
                hold: Hold::Shared,
            };
            self.pages.insert((Pid(pid), address + index * 4096), page);
        }
    }

    /// A forked process has of shared memory what its maker has.
    fn inherit_memory(&mut self, maker: Pid, child: Pid) {
        let maps = self.maps.get(&maker).cloned().unwrap_or_default();
        for range in &maps {
            let pages = self
                .pages
                .range((maker, range.start)..(maker, range.end))
                .map(|(&(_, address), &page)| ((child, address), page));
            let pages: Vec<_> = pages.collect();
            self.pages.extend(pages);
        }
        self.maps.insert(child, maps);
    }

    /// A process ends, with all that is its own.
    pub(crate) fn end(&mut self, pid: Pid) {
        self.tasks.retain(|_, task| task.key.pid != pid);
        self.pages.retain(|&(owner, _), _| owner != pid);
        self.maps.remove(&pid);
        self.cpusets.remove(&pid);
        self.parents.remove(&pid);
        self.starts.remove(&pid);
        // Whoever it made belongs to init now.
        for parent in self.parents.values_mut().filter(|parent| **parent == pid) {
            *parent = Pid(1);
        }
    }

    /// Where processes have the page of shared memory that one of them has there.
    fn same_in_object(&self, pid: Pid, address: u64) -> Vec<(Pid, u64)> {
        let own = self.maps.get(&pid).into_iter().flatten();
        let mut places = own.filter_map(|range| Some((range.object, range.offset_of(address)?)));
        let Some((object, offset)) = places.next() else {
            return Vec::new();
        };
        let all = self.maps.iter();
        let all = all.flat_map(|(&pid, ranges)| ranges.iter().map(move |range| (pid, range)));
        all.filter(|(_, range)| range.object == object)
            .filter_map(|(pid, range)| Some((pid, range.address_of(offset)?)))
            .collect()
    }

    /// A number changes hands, if it is time for that.
    fn pass_on(&mut self) {
        match self.heir.take() {
            Some((0, heir)) => drop(self.tasks.insert(heir.key.tid, heir)),
            heir => self.heir = heir.map(|(calls, heir)| (calls - 1, heir)),
        }
    }

    /// A thread calls exec: it goes on as the first of its process, and all others have ended.
    pub(crate) fn exec(&mut self, caller: Tid) {
        let mut task = self.tasks[&caller].clone();
        let pid = task.key.pid;
        let first = Tid(pid.0);
        task.key = self.tasks[&first].key;
        self.tasks.retain(|_, task| task.key.pid != pid);
        self.tasks.insert(first, task);
    }

    /// Lets time pass on the clock of calls.
    pub(crate) fn pass(&self, time: Duration) {
        let time = u64::try_from(time.as_nanos()).unwrap();
        self.clock.fetch_add(time, Ordering::Relaxed);
    }

    /// What was about to be born is.
    fn rest(&mut self) {
        for task in std::mem::take(&mut self.unborn) {
            self.tasks.insert(task.key.tid, task);
        }
    }

    /// Makes a change unless it is time to die.
    fn change(&mut self, make: impl FnOnce(&mut Self)) -> Result<(), Errno> {
        if let Some(errno) = self.errno {
            return Err(errno);
        }
        match &mut self.death {
            Some(Death { after: 0, applied }) => {
                if *applied {
                    make(self);
                    self.settle();
                }
                resume_unwind(Box::new(Killed))
            }
            death => {
                if let Some(death) = death {
                    death.after -= 1;
                }
                make(self);
                self.settle();
                Ok(())
            }
        }
    }

    fn settle(&mut self) {
        self.settled = fs::metadata(&self.journal).map_or(0, |file| file.len());
    }
}

/// The world as kernel and as census.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fake(pub Rc<RefCell<World>>);

impl Kernel for Fake {
    /// A process and when it began.
    type Hold = (Pid, StartTicks);

    fn hold(&mut self, pid: Pid) -> Result<Option<Self::Hold>, Errno> {
        let world = self.0.borrow();
        let start = world.starts.get(&pid).ok_or(Errno::ESRCH)?;
        Ok(Some((pid, *start)))
    }

    fn has(&mut self, held: &Self::Hold, pid: Pid, tid: Tid) -> Result<bool, Errno> {
        let world = self.0.borrow();
        let task = world.tasks.get(&tid);
        Ok(world.starts.get(&held.0) == Some(&held.1)
            && task.is_some_and(|task| task.key.pid == pid))
    }

    fn rest(&mut self) {
        self.0.borrow_mut().rest();
    }

    fn affinity(&mut self, tid: Tid) -> Result<CpuSet, Errno> {
        let mut world = self.0.borrow_mut();
        if let Some(errno) = world.masks_hidden {
            return Err(errno);
        }
        world.pass_on();
        let task = world.tasks.get(&tid).ok_or(Errno::ESRCH)?;
        Ok(world.effective(task.key.pid, task.mask.as_ref()))
    }

    fn set_affinity(&mut self, tid: Tid, mask: Mask<'_>) -> Result<(), Errno> {
        let mut world = self.0.borrow_mut();
        world.pass_on();
        let pid = world.tasks.get(&tid).ok_or(Errno::ESRCH)?.key.pid;
        let mask = match mask {
            Mask::These(mask) if !mask.intersects(&world.effective(pid, None)) => {
                return Err(Errno::EINVAL);
            }
            Mask::These(mask) => Some(mask.clone()),
            // The same in effect, and so compared in tests.
            Mask::Every => None,
        };
        world.change(|world| {
            world.tasks.get_mut(&tid).unwrap().mask = mask;
        })
    }

    fn query_pages(&mut self, pid: Pid, pages: &[u64], statuses: &mut [i32]) -> Result<(), Errno> {
        let world = self.0.borrow();
        if !world.tasks.values().any(|task| task.key.pid == pid) {
            return Err(Errno::ESRCH);
        }
        for (page, status) in pages.iter().zip(statuses) {
            *status = match world.pages.get(&(pid, *page)) {
                Some(page) => i32::try_from(page.node.0).unwrap(),
                None => -libc::ENOENT,
            };
        }
        Ok(())
    }

    fn of_files(&mut self, pid: Pid, pages: &[u64]) -> Vec<Option<bool>> {
        let world = self.0.borrow();
        let of_file = |page: &u64| {
            let there = world.pages.get(&(pid, *page))?;
            let mut shared = world.maps.get(&pid).into_iter().flatten();
            Some(there.hold == Hold::OfFile || shared.any(|range| range.offset_of(*page).is_some()))
        };
        pages.iter().map(of_file).collect()
    }

    fn move_pages(
        &mut self,
        pid: Pid,
        pages: &[u64],
        (node, reach): (NodeId, Reach),
        statuses: &mut [i32],
    ) -> Result<(), Errno> {
        if node.0 >= NODES {
            return Err(Errno::ENODEV);
        }
        let mut world = self.0.borrow_mut();
        // 10 µs for each page.
        let spent = world.call_ns + 10_000 * u64::try_from(pages.len()).unwrap();
        world.calls += 1;
        world.clock.fetch_add(spent, Ordering::Relaxed);
        let mut is_full = false;
        world.change(|world| {
            let mut told = true;
            for (page, status) in pages.iter().zip(statuses) {
                is_full = world.is_full(node);
                if is_full {
                    return;
                }
                let hold = world.pages.get(&(pid, *page)).map(|page| page.hold);
                let refused = matches!(hold, Some(Hold::Shared | Hold::OfFile));
                if !refused || reach == Reach::Program {
                    world.take_along(pid, *page, node);
                }
                let block = (pid, *page >> 21 << 21);
                if world.huge.contains(&block) {
                    let end = (pid, block.1 + (1 << 21));
                    world
                        .pages
                        .range_mut(block..end)
                        .for_each(|(_, page)| page.node = node);
                }
                let Some(page) = world.pages.get_mut(&(pid, *page)) else {
                    *status = -libc::ENOENT;
                    continue;
                };
                match page.hold {
                    Hold::Free => page.node = node,
                    Hold::Follows => {
                        page.node = node;
                        *status = -libc::EBUSY;
                    }
                    Hold::Busy => *status = -libc::EBUSY,
                    Hold::Copied => {
                        page.hold = Hold::Free;
                        *status = i32::try_from(node.0).unwrap();
                        continue;
                    }
                    Hold::Shared | Hold::OfFile if reach == Reach::Program => page.node = node,
                    Hold::Shared | Hold::OfFile => *status = -libc::EACCES,
                    Hold::Stuck => told = false,
                }
                if !told {
                    return;
                }
                let shared = matches!(page.hold, Hold::Shared | Hold::OfFile);
                if page.hold == Hold::Free || (shared && page.node == node) {
                    *status = i32::try_from(node.0).unwrap();
                }
            }
        })?;
        match is_full {
            true => Err(Errno::ENOMEM),
            false => Ok(()),
        }
    }

    /// One by one, but nobody knows which first; in time, each by the mover that is done first.
    fn move_side_by_side(&mut self, calls: &mut [MoveCall<'_>], movers: usize) -> Duration {
        let (began, has_processors, first, waits) = {
            let mut world = self.0.borrow_mut();
            world.together_max = world.together_max.max(movers.min(calls.len()));
            let first = usize::try_from(world.calls).unwrap() % calls.len().max(1);
            (
                world.clock.load(Ordering::Relaxed),
                world.has_processors,
                first,
                Duration::from_nanos(world.call_ns),
            )
        };
        let mut busy = vec![0; movers];
        calls.rotate_left(first);
        for call in &mut *calls {
            let before = self.0.borrow().clock.load(Ordering::Relaxed);
            call.ended = Some(self.move_pages(call.pid, call.pages, call.to, call.statuses));
            let took = self.0.borrow().clock.load(Ordering::Relaxed) - before;
            call.took = match has_processors {
                true => Duration::from_nanos(took),
                // They wait for each other.
                false => Duration::from_nanos(took) * u32::try_from(movers).unwrap(),
            };
            call.spent = Duration::from_nanos(took).saturating_sub(waits);
            *busy.iter_mut().min().unwrap() += took;
        }
        busy.sort_unstable();
        calls.rotate_right(first);
        if has_processors {
            self.0
                .borrow()
                .clock
                .store(began + busy[movers - 1], Ordering::Relaxed);
        }
        // This thread is the one that is done last.
        Duration::from_nanos(busy[..movers - 1].iter().sum())
    }

    fn balancing(&mut self) -> Result<u32, Errno> {
        match self.0.borrow().balancing {
            NO_SWITCH => Err(Errno::ENOENT),
            mode => Ok(mode),
        }
    }

    fn set_balancing(&mut self, mode: u32) -> Result<(), Errno> {
        self.0.borrow_mut().change(|world| world.balancing = mode)
    }
}

impl Fake {
    /// An answer, unless nothing can be looked at.
    fn seen<T>(&self, answer: Option<T>) -> Seen<T> {
        match (self.0.borrow().hidden, answer) {
            (Some(errno), _) => Seen::Hidden(errno),
            (None, Some(answer)) => Seen::Here(answer),
            (None, None) => Seen::Gone,
        }
    }

    fn keys(&self, pid: Pid) -> Vec<TaskKey> {
        let world = self.0.borrow();
        let keys = world.tasks.values().map(|task| task.key);
        keys.filter(|key| key.pid == pid).collect()
    }
}

impl Census for Fake {
    fn process(&self, pid: Pid) -> Seen<StartTicks> {
        let alive = !self.keys(pid).is_empty();
        let starts = &self.0.borrow().starts;
        self.seen(starts.get(&pid).copied().filter(|_| alive))
    }

    fn thread(&self, pid: Pid, tid: Tid) -> Seen<StartTicks> {
        let world = self.0.borrow();
        let task = world.tasks.get(&tid).map(|task| task.key);
        self.seen(task.filter(|key| key.pid == pid).map(|key| key.start))
    }

    fn threads(&self, pid: Pid) -> Seen<Vec<Tid>> {
        let world = self.0.borrow();
        let ghosts = world.ghosts.iter().filter(|(of, _)| *of == pid);
        let mut tids: Vec<Tid> = ghosts.map(|&(_, tid)| tid).collect();
        tids.extend(self.keys(pid).iter().map(|key| key.tid));
        tids.sort_unstable();
        self.seen(Some(tids).filter(|tids| !tids.is_empty()))
    }

    fn allowed(&self, pid: Pid, tid: Tid) -> Seen<CpuSet> {
        match self.thread(pid, tid) {
            Seen::Here(_) => self.seen(Some(self.0.borrow().effective(pid, None))),
            Seen::Gone => Seen::Gone,
            Seen::Hidden(errno) => Seen::Hidden(errno),
        }
    }

    fn whole_affinity(&self, pid: Pid, tid: Tid) -> Seen<CpuSet> {
        let world = self.0.borrow();
        let task = world.tasks.get(&tid).filter(|task| task.key.pid == pid);
        self.seen(task.map(|task| {
            let cpuset = &world.cpusets[&pid];
            let mask = task.mask.as_ref();
            mask.map_or_else(|| cpuset.clone(), |mask| clipped(mask, cpuset))
        }))
    }

    fn parent(&self, pid: Pid) -> Seen<Pid> {
        self.seen(self.0.borrow().parents.get(&pid).copied())
    }

    fn processes(&self) -> Seen<Vec<(Pid, Pid)>> {
        let world = self.0.borrow();
        let parents = world.parents.iter();
        self.seen(Some(parents.map(|(&pid, &parent)| (pid, parent)).collect()))
    }

    fn shared(&self, pid: Pid) -> Seen<Vec<SharedRange>> {
        let world = self.0.borrow();
        if let Some(errno) = world.maps_hidden {
            return Seen::Hidden(errno);
        }
        self.seen(Some(world.maps.get(&pid).cloned().unwrap_or_default()))
    }

    fn chosen(&self, pid: Pid) -> Seen<Vec<Range<u64>>> {
        let world = self.0.borrow();
        self.seen(Some(world.chosen.get(&pid).cloned().unwrap_or_default()))
    }

    fn now(&self) -> Seen<StartTicks> {
        self.seen(Some(StartTicks(self.0.borrow().now)))
    }
}

/// A world with a journal of its own, removed when dropped.
#[derive(Debug)]
pub(crate) struct Bench {
    pub fake: Fake,
    pub directory: PathBuf,
}

impl Bench {
    pub(crate) fn new() -> Self {
        let fake = Fake::default();
        let directory = scratch("bench");
        fake.0.borrow_mut().journal = directory.join("journal");
        Self { fake, directory }
    }

    /// A daemon starts.
    pub(crate) fn live(&self) -> Live<Fake, Fake> {
        self.live_with(JournalLimits {
            durability: crate::Durability::Kernel,
            ..JournalLimits::default()
        })
    }

    pub(crate) fn live_with(&self, limits: JournalLimits) -> Live<Fake, Fake> {
        let journal = Journal::open(&self.directory, "boot", limits).unwrap();
        let clock = Arc::clone(&self.fake.0.borrow().clock);
        self.fake.0.borrow_mut().settle();
        Live::new(journal, self.fake.clone(), self.fake.clone(), move || {
            Time(clock.load(Ordering::Relaxed))
        })
    }

    /// The mask of a thread as the kernel tells it.
    #[track_caller]
    pub(crate) fn mask(&self, key: TaskKey) -> String {
        self.fake.clone().affinity(key.tid).unwrap().to_string()
    }

    pub(crate) fn nodes(&self, pid: u32) -> Vec<u32> {
        let world = self.fake.0.borrow();
        let pages = world
            .pages
            .iter()
            .filter(|((owner, _), _)| *owner == Pid(pid));
        pages.map(|(_, page)| page.node.0).collect()
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.directory).unwrap();
    }
}

/// A fresh directory.
pub(crate) fn scratch(name: &str) -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    // Memory rather than disk where there is such a place: a thousand journals are written.
    let base = Path::new("/dev/shm");
    let base = if base.is_dir() {
        base.to_owned()
    } else {
        std::env::temp_dir()
    };
    let directory = base.join(format!(
        "numad-actuator-{name}-{}-{number}",
        std::process::id()
    ));
    fs::create_dir_all(&directory).unwrap();
    directory
}

pub(crate) fn bind(live: &mut impl Host, task: TaskKey, cpus: &str) -> Outcome {
    live.perform(&bind_action(task, &set(cpus)))
}

/// Binds a thread of another program.
pub(crate) fn bind_other(live: &mut impl Host, task: TaskKey, cpus: &str) -> Outcome {
    let mut action = bind_action(task, &set(cpus));
    if let Action::Bind { attachment, .. } = &mut action {
        *attachment = AttachmentId(2);
    }
    live.perform(&action)
}

pub(crate) fn bind_action(task: TaskKey, cpus: &CpuSet) -> Action {
    Action::Bind {
        attachment: AttachmentId(1),
        task,
        node: NodeId(cpus.first().unwrap_or(CpuId(0)).0 / 4),
        cpus: cpus.clone(),
        reason: Reason::Order,
        evidence: None,
    }
}

pub(crate) fn move_action(pid: Pid, pages: Vec<u64>, node: u32) -> Action {
    Action::MovePages {
        attachment: AttachmentId(1),
        pid,
        space: SpaceId(0),
        pages,
        node: NodeId(node),
        reason: Reason::Order,
        evidence: None,
        reach: Reach::Alone,
        object: None,
    }
}

/// Pages of the object, by their addresses in the process.
pub(crate) fn move_shared(pid: Pid, pages: Vec<u64>, node: u32) -> Action {
    let mut action = move_action(pid, pages, node);
    if let Action::MovePages { reach, object, .. } = &mut action {
        (*reach, *object) = (Reach::Program, Some(OBJECT));
    }
    action
}

pub(crate) fn move_first(live: &mut impl Host, pid: u32, count: u64, node: u32) -> Outcome {
    let pages = (0..count).map(|index| index * 4096).collect();
    live.perform(&move_action(Pid(pid), pages, node))
}
