//! Carries out actions on this machine: journal first, then the call, then a look whether it took.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use numad_core::{Action, Host, ObjectId, Outcome, PageOutcome, Reach, Refusal, Time};
use topology::{CpuSet, NodeId, Pid, StartTicks, TaskKey};

use crate::affinity::{Kind, Origin};
use crate::census::Census;
use crate::journal::rows::{Owner, Row};
use crate::journal::{Journal, ThreadRecord, WriteError, page_rows};
use crate::kernel::{Kernel, Mask};
use crate::pacer::Pacer;
use crate::refusal;
use crate::residency::{PageStatus, residency};

/// The host that is this machine.
///
/// Every error of the kernel becomes a [`Refusal`]; nothing is retried, because the engine decides anew
/// in every window. A thread or process is known by its start, which is compared before each change.
/// No process descriptor (pidfd) is held: neither call takes one, so that it could only tell
/// afterwards what the comparison tells before.
pub struct Live<K, C> {
    pub(crate) kernel: K,
    pub(crate) census: C,
    pub(crate) journal: Journal,
    pub(crate) pacer: Pacer,
    clock: Box<dyn FnMut() -> Time + Send>,
    /// Processes whose pages were moved, with their starts.
    pub(crate) processes: BTreeMap<Pid, StartTicks>,
    /// A process that mapped shared memory when it was looked for last.
    mappers: BTreeMap<ObjectId, (Pid, StartTicks)>,
    pause_max: Duration,
    write_error: Option<WriteError>,
}

impl<K: fmt::Debug, C: fmt::Debug> fmt::Debug for Live<K, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Live")
            .field("kernel", &self.kernel)
            .field("census", &self.census)
            .field("journal", &self.journal)
            .field("pacer", &self.pacer)
            .finish_non_exhaustive()
    }
}

impl<K: Kernel, C: Census> Live<K, C> {
    /// A host on an open journal. `clock` never goes back; it times the calls that move pages.
    ///
    /// What an earlier run left in the journal stays until [`Self::undo`].
    pub fn new(
        journal: Journal,
        kernel: K,
        census: C,
        clock: impl FnMut() -> Time + Send + 'static,
    ) -> Self {
        Self {
            kernel,
            census,
            journal,
            pacer: Pacer::default(),
            clock: Box::new(clock),
            processes: BTreeMap::new(),
            mappers: BTreeMap::new(),
            pause_max: Duration::ZERO,
            write_error: None,
        }
    }

    /// How long one call that moves pages may take; 5 ms if nothing is said.
    pub fn pause_at_most(&mut self, pause: Duration) {
        self.pacer = Pacer::new(pause);
    }

    /// The journal, to ask what is open and what was found.
    #[must_use]
    pub const fn journal(&self) -> &Journal {
        &self.journal
    }

    /// The longest single call that moved pages since this was asked the last time. The target's
    /// threads that touch those pages wait that long at most.
    pub fn take_pause_max(&mut self) -> Duration {
        std::mem::take(&mut self.pause_max)
    }

    /// The last failure to write the journal since this was asked the last time. Changes were
    /// refused with [`Refusal::Journal`] because of it.
    pub const fn take_write_error(&mut self) -> Option<WriteError> {
        self.write_error.take()
    }

    /// Drops what can never be undone because the process has ended, or nobody maps it any more, and writes the
    /// journal anew if that made it much smaller. For a daemon that runs for months; undo does not need it.
    pub fn prune(&mut self) {
        for pid in self.journal.records().pids() {
            let start = self.census.process(pid);
            let threads: Vec<TaskKey> = self.keys_of(pid);
            // Threads of a living process stay, even those that ended: newer ones may have their masks.
            if start.is_none() {
                for key in threads {
                    self.journal.records_mut().forget_thread(key);
                }
            }
            for (owner, began) in self.journal.records().page_owners(pid) {
                if start != Some(began) {
                    self.journal.records_mut().forget_owner(owner);
                }
            }
        }
        let census = &self.census;
        self.processes
            .retain(|&pid, _| census.process(pid).is_some());
        self.prune_objects();
        if self.journal.wants_rewrite() {
            let written = self.journal.rewrite();
            self.note(written);
        }
    }

    /// Drops shared memory that nobody maps. One who maps it stands for all until it ends; only then all processes
    /// are looked at.
    fn prune_objects(&mut self) {
        let mut lost = self.journal.records().objects();
        self.mappers.retain(|object, _| lost.contains(object));
        lost.retain(|object| match self.mappers.get(object) {
            Some(&(pid, start)) => self.census.process(pid) != Some(start),
            None => true,
        });
        let processes = match lost.is_empty() {
            true => Vec::new(),
            false => self.census.processes(),
        };
        for &(pid, _) in &processes {
            let Some(start) = self.census.process(pid).filter(|_| !lost.is_empty()) else {
                continue;
            };
            for range in self.census.shared(pid) {
                if let Some(at) = lost.iter().position(|&object| object == range.object) {
                    self.mappers.insert(lost.swap_remove(at), (pid, start));
                }
            }
        }
        // Where not even we are listed nothing is known.
        if !processes.is_empty() {
            for object in lost {
                self.journal
                    .records_mut()
                    .forget_owner(Owner::Object(object));
            }
        }
    }

    pub(crate) fn keys_of(&self, pid: Pid) -> Vec<TaskKey> {
        let threads = self.journal.records().threads_of(pid);
        threads.map(|(key, _)| key).collect()
    }

    /// Keeps the error of a write for who asks.
    pub(crate) fn note(&mut self, written: Result<(), WriteError>) -> bool {
        match written {
            Ok(()) => true,
            Err(error) => {
                self.write_error = Some(error);
                false
            }
        }
    }

    fn bind(&mut self, key: TaskKey, cpus: &CpuSet) -> Result<(), Refusal> {
        self.check(key)?;
        let now = self
            .kernel
            .affinity(key.tid)
            .map_err(refusal::of_affinity)?;
        let allowed = self.census.allowed(key.pid, key.tid).ok_or(Refusal::Gone)?;
        let wanted = cpus.intersection(&allowed);
        if wanted.is_empty() {
            return Err(Refusal::NotAllowed);
        }
        self.write_bind(key, now, &allowed, &wanted)?;
        self.kernel
            .set_affinity(key.tid, Mask::These(&wanted))
            .map_err(refusal::of_affinity)?;
        let taken = self
            .kernel
            .affinity(key.tid)
            .map_err(refusal::of_affinity)?;
        // The number may have changed hands between the look and the call; then this was another's.
        self.check(key)?;
        if taken == wanted {
            Ok(())
        } else {
            Err(Refusal::ChangedByOther)
        }
    }

    /// Whether the thread is still the one that is meant.
    fn check(&self, key: TaskKey) -> Result<(), Refusal> {
        if self.census.thread(key.pid, key.tid) == Some(key.start) {
            Ok(())
        } else {
            Err(Refusal::Gone)
        }
    }

    fn write_bind(
        &mut self,
        key: TaskKey,
        now: CpuSet,
        allowed: &CpuSet,
        wanted: &CpuSet,
    ) -> Result<(), Refusal> {
        let row = match self.journal.records().thread(key) {
            Some(record) if !is_known(record, &now, allowed) => {
                return Err(Refusal::ChangedByOther);
            }
            Some(record) if record.set_exactly(wanted) => return Ok(()),
            Some(record) if record.set.len() >= MASKS_MAX => return Err(Refusal::Journal),
            Some(_) => Row::Again {
                key,
                at: self.census.now(),
                set: wanted.clone(),
            },
            None => Row::Bind {
                key,
                at: self.census.now(),
                origin: self.origin(key, now, allowed),
                set: wanted.clone(),
            },
        };
        self.write(vec![row])
    }

    fn write(&mut self, rows: Vec<Row>) -> Result<(), Refusal> {
        let written = self.journal.record(rows);
        if self.note(written) {
            Ok(())
        } else {
            Err(Refusal::Journal)
        }
    }

    /// What a thread had before us: its mask, or its maker's if it has its mask from us. A mask that is
    /// the whole cpuset may be ours, but is more likely none at all.
    fn origin(&self, key: TaskKey, mask: CpuSet, allowed: &CpuSet) -> Origin {
        let judged = Origin::judge(mask, allowed);
        match judged.kind {
            Kind::Unset => judged,
            Kind::User => self.inherited(key, &judged.mask, allowed).unwrap_or(judged),
        }
    }

    /// What a thread's maker had, if the thread has its mask from us through its maker: from a thread of
    /// its process, or of the nearest process above that we bound threads of.
    pub(crate) fn inherited(
        &self,
        key: TaskKey,
        mask: &CpuSet,
        allowed: &CpuSet,
    ) -> Option<Origin> {
        let mut pid = key.pid;
        for _ in 0..ANCESTORS_MAX {
            let records = self.journal.records();
            if let Some(origin) = records.origin_passed_on(pid, key, mask, allowed) {
                return Some(origin.clone());
            }
            pid = self.census.parent(pid).filter(|parent| parent.0 > 1)?;
        }
        None
    }

    fn move_pages(
        &mut self,
        (pid, object): (Pid, Option<ObjectId>),
        pages: &[u64],
        (node, reach): (NodeId, Reach),
    ) -> Result<Outcome, Refusal> {
        let start = self.census.process(pid).ok_or(Refusal::Gone)?;
        // The action knows the process by its number alone; the first start seen is the one meant.
        if *self.processes.entry(pid).or_insert(start) != start {
            return Err(Refusal::Gone);
        }
        let owner = object.map_or(Owner::Process(pid, start), Owner::Object);
        let names = self.names(pid, pages, object);
        let mut places = residency(&mut self.kernel, pid, pages)?;
        for (place, name) in places.iter_mut().zip(&names) {
            if name.is_none() {
                *place = PageStatus::Absent;
            }
        }
        let mut outcomes: Vec<PageOutcome> = places.iter().map(|&place| standing(place)).collect();
        let moving: Vec<usize> = (0..pages.len())
            .filter(|&index| places[index].node().is_some_and(|on| on != node))
            .collect();
        let leaving: Vec<(u64, NodeId)> = moving
            .iter()
            .filter_map(|&index| Some((names[index]?, places[index].node()?)))
            .collect();
        self.write_pages(owner, &leaving)?;
        let mut spent = Duration::ZERO;
        let mut rest = moving.as_slice();
        while !rest.is_empty() {
            let (batch, after) = rest.split_at(self.pacer.size().min(rest.len()));
            let addresses: Vec<u64> = batch.iter().map(|&index| pages[index]).collect();
            let moved = self.move_batch(pid, &addresses, (node, reach));
            spent += moved.spent;
            if let Some(refusal) = moved.refusal {
                if rest.len() == moving.len() && !moved.any_on(node) {
                    return Err(refusal);
                }
                outcomes.truncate(batch[0]);
                break;
            }
            for (&index, outcome) in batch.iter().zip(moved.pages) {
                outcomes[index] = outcome;
            }
            rest = after;
        }
        Ok(Outcome::Moved {
            pages: outcomes,
            spent_ns: u64::try_from(spent.as_nanos()).unwrap_or(u64::MAX),
        })
    }

    /// What pages are recorded as: their addresses, or where they are in the object. None where the process has
    /// something else there by now.
    fn names(&self, pid: Pid, pages: &[u64], object: Option<ObjectId>) -> Vec<Option<u64>> {
        let Some(object) = object else {
            return pages.iter().copied().map(Some).collect();
        };
        let mut ranges = self.census.shared(pid);
        ranges.retain(|range| range.object == object);
        let name = |&page| ranges.iter().find_map(|range| range.offset_of(page));
        pages.iter().map(name).collect()
    }

    /// Writes where pages are that leave their nodes, unless it is known where they were at first.
    fn write_pages(&mut self, owner: Owner, leaving: &[(u64, NodeId)]) -> Result<(), Refusal> {
        let records = self.journal.records();
        let fresh: Vec<(u64, NodeId)> = leaving
            .iter()
            .copied()
            .filter(|&(page, _)| records.home(owner, page).is_none())
            .collect();
        if fresh.is_empty() {
            return Ok(());
        }
        if !self.journal.has_room_for(fresh.len()) {
            return Err(Refusal::Journal);
        }
        self.write(page_rows(owner, fresh.into_iter()))
    }

    /// Moves pages with one call, timed, and tells what became of each.
    pub(crate) fn move_batch(
        &mut self,
        pid: Pid,
        pages: &[u64],
        (node, reach): (NodeId, Reach),
    ) -> Moved {
        let mut statuses = vec![UNTRIED; pages.len()];
        let before = (self.clock)();
        let called = self
            .kernel
            .move_pages(pid, pages, (node, reach), &mut statuses);
        let spent = (self.clock)().since(before);
        self.pacer.note(pages.len(), spent);
        self.pause_max = self.pause_max.max(spent);
        // The kernel stops at the first page that it cannot move and tells nothing of the rest. And of
        // several addresses in one huge page it moves the first, and calls the others busy although
        // they came along. So it is asked.
        if statuses.iter().any(|&status| status < 0)
            && let Ok(places) = residency(&mut self.kernel, pid, pages)
            && let Ok(there) = i32::try_from(node.0)
        {
            for (status, place) in statuses.iter_mut().zip(places) {
                if place == PageStatus::On(node) {
                    *status = there;
                }
            }
        }
        let pages = statuses.into_iter().map(|status| match status {
            UNTRIED => PageOutcome::Refused(
                called
                    .map_err(refusal::of_move)
                    .err()
                    .unwrap_or(Refusal::Busy),
            ),
            status => page_outcome(status),
        });
        Moved {
            pages: pages.collect(),
            refusal: called.err().map(refusal::of_move),
            spent,
        }
    }
}

impl<K: Kernel, C: Census> Host for Live<K, C> {
    fn perform(&mut self, action: &Action) -> Outcome {
        match action {
            Action::Bind { task, cpus, .. } => match self.bind(*task, cpus) {
                Ok(()) => Outcome::Bound,
                Err(refusal) => Outcome::Refused(refusal),
            },
            Action::MovePages {
                pid,
                pages,
                node,
                reach,
                object,
                ..
            } => {
                let moved = self.move_pages((*pid, *object), pages, (*node, *reach));
                moved.unwrap_or_else(Outcome::Refused)
            }
        }
    }
}

/// What became of one call.
#[derive(Debug)]
pub(crate) struct Moved {
    /// One for each page.
    pub pages: Vec<PageOutcome>,
    /// Why the call as a whole failed, if it did.
    pub refusal: Option<Refusal>,
    /// How long it took.
    pub spent: Duration,
}

impl Moved {
    fn any_on(&self, node: NodeId) -> bool {
        self.pages.contains(&PageOutcome::On(node))
    }
}

/// Whether a thread's mask is ours or what it had, so that nobody else changed it.
pub(crate) fn is_known(record: &ThreadRecord, mask: &CpuSet, allowed: &CpuSet) -> bool {
    record.set_exactly(mask)
        || record.origin.mask == *mask
        || record.set_within(mask, allowed)
        || record.origin.within(allowed) == *mask
}

fn page_outcome(status: i32) -> PageOutcome {
    match u32::try_from(status) {
        Ok(node) => PageOutcome::On(NodeId(node)),
        Err(_) => PageOutcome::Refused(refusal::of_page(status)),
    }
}

/// What is said of a page that is not moved.
fn standing(place: PageStatus) -> PageOutcome {
    match place {
        PageStatus::On(node) => PageOutcome::On(node),
        PageStatus::Absent => PageOutcome::Refused(Refusal::Gone),
        PageStatus::Unknown(errno) => {
            PageOutcome::Refused(refusal::of_page(errno.saturating_neg()))
        }
    }
}

/// A status that the kernel never writes: no node and no error number.
const UNTRIED: i32 = i32::MIN;
/// How far up a mask is looked for.
const ANCESTORS_MAX: usize = 32;
/// Different masks of one thread: twice the cores of the largest machine. Beyond it something is wrong,
/// and the thread is left where it is.
const MASKS_MAX: usize = 2048;
