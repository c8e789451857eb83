//! Carries out actions on this machine: journal first, then the call, then a look whether it took.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use numad_core::{Action, AttachmentId, Host, ObjectId, Outcome, Refusal, SharedRange, Time};
use topology::{CpuSet, Pid, StartTicks, TaskKey, Tid};

use crate::affinity::{Kind, Origin};
use crate::census::{Census, Seen};
use crate::heritage::Heritage;
use crate::journal::rows::{Owner, ProcessKey, Row};
use crate::journal::{Journal, ThreadRecord, UNKNOWN, WriteError};
use crate::kernel::{Kernel, Mask};
use crate::pacer::{Movers, Pacer};
use crate::refusal;
use crate::undo::{AT_ONCE, Scope};

/// The host that is this machine.
///
/// Every error of the kernel becomes a [`Refusal`]; nothing is retried, because the engine decides
/// anew in every window. A thread or process is known by its start, which is compared before each
/// change. Between the comparison and the call a number may change hands, so whose it was is asked
/// again afterwards ([`Kernel::has`]).
pub struct Live<K, C> {
    pub(crate) kernel: K,
    pub(crate) census: C,
    pub(crate) journal: Journal,
    pub(crate) pacer: Pacer,
    pub(crate) movers: Movers,
    pub(crate) clock: Box<dyn FnMut() -> Time + Send>,
    /// Processes whose pages were moved, with their starts.
    pub(crate) processes: BTreeMap<Pid, StartTicks>,
    /// Programs that something was changed of, with all their processes that were ever seen.
    pub(crate) programs: BTreeMap<AttachmentId, BTreeSet<ProcessKey>>,
    /// Users who pay for what is recorded of their programs; admins do not.
    pub(crate) payers: BTreeMap<AttachmentId, u32>,
    /// The processes above each of those when it was first seen, the nearest first.
    lineages: BTreeMap<ProcessKey, Vec<ProcessKey>>,
    /// Threads that could not be given their own mask back yet, because their cpuset has none of
    /// it.
    pub(crate) parked: BTreeSet<TaskKey>,
    /// Undos that have something left to do, the one that waits longest first; none is of
    /// everything.
    pub(crate) unfinished: Vec<Scope>,
    /// Processes whose rows an undo has kept because others may have masks from them that it could
    /// not look at.
    pub(crate) owed: BTreeSet<ProcessKey>,
    /// Masks of ours that processes of programs may have handed on that are undone: of the last,
    /// and of those that have leavers among the unfinished.
    pub(crate) undone: BTreeMap<AttachmentId, Heritage>,
    /// A process that mapped shared memory when it was looked for last.
    mappers: BTreeMap<ObjectId, (Pid, StartTicks)>,
    pub(crate) pause_max: Duration,
    /// Processor time that threads took beside the one that calls, at most.
    pub(crate) beside: Duration,
    write_error: Option<WriteError>,
    /// Pages that an undo has on their way at once.
    pub(crate) at_once: usize,
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
            movers: Movers::new(1),
            clock: Box::new(clock),
            processes: BTreeMap::new(),
            programs: BTreeMap::new(),
            payers: BTreeMap::new(),
            lineages: BTreeMap::new(),
            parked: BTreeSet::new(),
            unfinished: Vec::new(),
            owed: BTreeSet::new(),
            undone: BTreeMap::new(),
            mappers: BTreeMap::new(),
            pause_max: Duration::ZERO,
            beside: Duration::ZERO,
            write_error: None,
            at_once: AT_ONCE,
        }
    }

    /// How long one call that moves pages may take; 5 ms if nothing is said.
    pub fn pause_at_most(&mut self, pause: Duration) {
        self.pacer = Pacer::new(pause);
    }

    /// How many calls that move pages may go on side by side; one if nothing is said. As many do as
    /// move more than half as many did.
    pub fn move_side_by_side(&mut self, most: usize) {
        self.movers = Movers::new(most);
    }

    /// Actions that move pages and are worth having together: as many as may go side by side. How
    /// many do is learned from them.
    #[must_use]
    pub const fn actions_at_once(&self) -> usize {
        self.movers.most()
    }

    /// The journal, to ask what is open and what was found.
    #[must_use]
    pub const fn journal(&self) -> &Journal {
        &self.journal
    }

    /// Threads that wait for their own mask: [`Self::prune`] gives it back once their cpusets have
    /// some of it.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.parked.len()
    }

    /// The longest single call that moved pages since this was asked the last time. The target's
    /// threads that touch those pages wait that long at most.
    pub fn take_pause_max(&mut self) -> Duration {
        std::mem::take(&mut self.pause_max)
    }

    /// Processor time that moves took in threads of their own since this was asked the last time.
    pub fn take_beside(&mut self) -> Duration {
        std::mem::take(&mut self.beside)
    }

    /// The last failure to write the journal since this was asked the last time. Changes were
    /// refused with [`Refusal::Journal`] because of it.
    pub const fn take_write_error(&mut self) -> Option<WriteError> {
        self.write_error.take()
    }

    /// Drops what can never be undone because the process has ended, or nobody maps it any more;
    /// tries again what had to wait; and writes the journal anew if that made it much smaller. For
    /// a daemon that runs for months; undo does not need it.
    pub fn prune(&mut self) {
        self.unpark();
        let recorded = self.journal.records().recorded();
        let followed = self.programs.values().flatten().chain(&self.owed);
        let followed: BTreeSet<ProcessKey> = followed.copied().collect();
        let mut ended = Vec::new();
        for process in recorded {
            match self.census.process(process.pid) {
                Seen::Here(start) if process.start == UNKNOWN || process.start == start => {
                    self.prune_threads(process);
                }
                // What cannot be looked at may be there.
                Seen::Hidden(_) => {}
                Seen::Here(_) | Seen::Gone => ended.push(process),
            }
        }
        // Children that outlive their makers have masks of ours, and their makers' rows say what
        // they had before.
        let (heard, unheard): (Vec<_>, Vec<_>) = ended
            .into_iter()
            .partition(|process| followed.contains(process));
        self.journal.records_mut().condense(&heard, |_| true);
        for process in &heard {
            if self.journal.records().heritage(*process).is_none() {
                self.journal.records_mut().forget_process(*process);
                self.lineages.remove(process);
                self.owed.remove(process);
                for program in self.programs.values_mut() {
                    program.remove(process);
                }
            }
        }
        for process in &unheard {
            self.journal.records_mut().forget_all_threads(*process);
            self.journal.records_mut().forget_process(*process);
        }
        for process in heard.iter().chain(&unheard) {
            let owner = Owner::Process(process.pid, process.start);
            self.journal.records_mut().forget_owner(owner);
        }
        let census = &self.census;
        self.processes
            .retain(|&pid, &mut start| match census.process(pid) {
                Seen::Here(now) => now == start,
                Seen::Hidden(_) => true,
                Seen::Gone => false,
            });
        self.prune_objects();
        if self.journal.wants_rewrite() {
            let written = self.journal.rewrite();
            self.note(written);
        }
    }

    /// Drops rows of threads of a living process that have ended, but for one of each kind: newer
    /// threads may have their masks.
    fn prune_threads(&mut self, process: ProcessKey) {
        let Seen::Here(tids) = self.census.threads(process.pid) else {
            return;
        };
        let ended = |key: TaskKey| tids.binary_search(&key.tid).is_err();
        self.journal.records_mut().condense(&[process], ended);
    }

    /// Drops shared memory that nobody maps. One who maps it stands for all until it ends; only
    /// then all processes are looked at.
    fn prune_objects(&mut self) {
        let mut lost = self.journal.records().objects();
        self.mappers.retain(|object, _| lost.contains(object));
        lost.retain(|object| match self.mappers.get(object) {
            Some(&(pid, start)) => match self.census.process(pid) {
                Seen::Here(now) => now != start,
                Seen::Hidden(_) => false,
                Seen::Gone => true,
            },
            None => true,
        });
        if lost.is_empty() {
            return;
        }
        let (found, all) = self.mappings(None, &lost);
        for (object, mappings) in found {
            if let Some(first) = mappings.first() {
                self.mappers.insert(object, (first.pid, first.start));
            }
            lost.retain(|&other| other != object);
        }
        if all {
            for object in lost {
                self.journal
                    .records_mut()
                    .forget_owner(Owner::Object(object));
            }
        }
    }

    /// Where these processes, or all of the machine, map these objects, the oldest process first:
    /// it has most of the pages. And whether all of them could be asked.
    pub(crate) fn mappings(
        &self,
        among: Option<&BTreeSet<Pid>>,
        objects: &[ObjectId],
    ) -> (BTreeMap<ObjectId, Vec<Mapped>>, bool) {
        let mut mappings: BTreeMap<ObjectId, Vec<Mapped>> = BTreeMap::new();
        if objects.is_empty() {
            return (mappings, true);
        }
        let mut all = true;
        let pids: Vec<Pid> = match (among, self.census.processes()) {
            (Some(pids), _) => pids.iter().copied().collect(),
            (None, Seen::Here(processes)) => processes.into_iter().map(|(pid, _)| pid).collect(),
            // Where not even we are listed nothing is known.
            (None, _) => return (mappings, false),
        };
        for pid in pids {
            let (start, ranges) = match (self.census.process(pid), self.census.shared(pid)) {
                (Seen::Here(start), Seen::Here(ranges)) => (start, ranges),
                (Seen::Hidden(_), _) | (_, Seen::Hidden(_)) => {
                    all = false;
                    continue;
                }
                _ => continue,
            };
            for range in ranges {
                if objects.contains(&range.object) {
                    let mapped = Mapped { start, pid, range };
                    mappings.entry(range.object).or_default().push(mapped);
                }
            }
        }
        for mappings in mappings.values_mut() {
            mappings.sort_by_key(|mapped| (mapped.start, mapped.pid, mapped.range.start));
        }
        (mappings, all)
    }

    /// Takes processes for part of a program that something is changed of, and writes that down, so
    /// that the next start finds their threads even if their parents have ended by then. Costs
    /// nothing for those that are known.
    pub fn follow(&mut self, attachment: AttachmentId, processes: &[ProcessKey]) {
        let Some(program) = self.programs.get(&attachment) else {
            return;
        };
        let fresh = processes.iter().filter(|known| !program.contains(known));
        let fresh: Vec<ProcessKey> = fresh.copied().collect();
        if fresh.is_empty() {
            return;
        }
        let rows = fresh.iter().copied().map(Row::Process).collect();
        // A change that cannot be written down is not made; these were made by the program itself.
        if self.write(rows).is_ok() {
            for process in fresh {
                self.join(attachment, process);
            }
        }
    }

    /// Processes began another program. Pages of their own that were moved are gone, and what lies
    /// at the same addresses by now was never elsewhere because of us.
    pub fn began_another(&mut self, pids: &[Pid]) {
        let moved = self.journal.records().with_private_pages();
        let rows = moved.filter(|process| pids.contains(&process.pid));
        let rows: Vec<Row> = rows.map(Row::Anew).collect();
        if !rows.is_empty() {
            let written = self.journal.void(rows);
            self.note(written);
        }
    }

    /// Has a user pay for what is recorded of a program, until that is undone: one user takes not
    /// all the room.
    pub fn charge(&mut self, attachment: AttachmentId, payer: u32) {
        self.payers.insert(attachment, payer);
    }

    /// Notes that a process is part of a program, and which processes are above it. An undo that
    /// goes on leaves it to the undo of that program.
    pub(crate) fn join(&mut self, attachment: AttachmentId, process: ProcessKey) {
        self.unfinished.retain_mut(|scope| scope.leave_out(process));
        self.programs.entry(attachment).or_default().insert(process);
        if !self.lineages.contains_key(&process) {
            let lineage = self.lineage_now(process.pid);
            self.lineages.insert(process, lineage);
        }
    }

    /// The processes above one, as it was first seen or else as it is now.
    pub(crate) fn lineage(&self, process: ProcessKey) -> Vec<ProcessKey> {
        let known = self.lineages.get(&process).cloned();
        known.unwrap_or_else(|| self.lineage_now(process.pid))
    }

    fn lineage_now(&self, pid: Pid) -> Vec<ProcessKey> {
        let mut lineage = Vec::new();
        let mut below = pid;
        while lineage.len() < ANCESTORS_MAX
            && let Seen::Here(pid) = self.census.parent(below)
            && pid.0 > 1
            && let Seen::Here(start) = self.census.process(pid)
        {
            lineage.push(ProcessKey { pid, start });
            below = pid;
        }
        lineage
    }

    /// Forgets that processes are part of programs; their rows are forgotten as they are undone.
    pub(crate) fn forget_processes(&mut self, over: impl Fn(ProcessKey) -> bool) {
        self.programs.retain(|_, program| {
            program.retain(|&process| !over(process));
            !program.is_empty()
        });
        self.lineages.retain(|&process, _| !over(process));
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

    fn bind(
        &mut self,
        attachment: AttachmentId,
        key: TaskKey,
        cpus: &CpuSet,
    ) -> Result<(), Refusal> {
        let held = self.kernel.hold(key.pid).map_err(refusal::of_affinity)?;
        let start = self.census.process(key.pid).known()?;
        self.check(key)?;
        let now = self.mask(key.tid)?;
        let allowed = self.census.allowed(key.pid, key.tid).known()?;
        let wanted = cpus.intersection(&allowed);
        if wanted.is_empty() {
            return Err(Refusal::NotAllowed);
        }
        let process = ProcessKey {
            pid: key.pid,
            start,
        };
        self.join(attachment, process);
        self.write_bind((attachment, process), key, &now, (&allowed, &wanted))?;
        // The disk takes its time, in which the number may change hands, or someone may set another
        // mask.
        self.check(key)?;
        if self.mask(key.tid)? != now {
            return Err(Refusal::ChangedByOther);
        }
        self.parked.remove(&key);
        self.set(key, held.as_ref(), Mask::These(&wanted), &now)?;
        if self.mask(key.tid)? == wanted {
            Ok(())
        } else {
            Err(Refusal::ChangedByOther)
        }
    }

    /// Whether the thread is still the one that is meant.
    fn check(&self, key: TaskKey) -> Result<(), Refusal> {
        if self.census.thread(key.pid, key.tid).known()? == key.start {
            Ok(())
        } else {
            Err(Refusal::Gone)
        }
    }

    pub(crate) fn mask(&mut self, tid: Tid) -> Result<CpuSet, Refusal> {
        self.kernel.affinity(tid).map_err(refusal::of_affinity)
    }

    /// Gives a thread, which was compared with its start just now, a mask. Puts it right if it was
    /// another thread that had got the number in that moment: `before` is the mask that was read
    /// last.
    pub(crate) fn set(
        &mut self,
        key: TaskKey,
        held: Option<&K::Hold>,
        mask: Mask<'_>,
        before: &CpuSet,
    ) -> Result<(), Refusal> {
        self.kernel
            .set_affinity(key.tid, mask)
            .map_err(refusal::of_affinity)?;
        let held = held.and_then(|held| self.kernel.has(held, key.pid, key.tid).ok());
        let meant = match held {
            Some(meant) => meant,
            None => match self.census.thread(key.pid, key.tid) {
                Seen::Here(start) => start == key.start,
                Seen::Gone => false,
                // Whose it was cannot be told: most likely the one that is meant.
                Seen::Hidden(errno) => return Err(Refusal::Hidden(errno)),
            },
        };
        if meant {
            return Ok(());
        }
        if let Mask::These(set) = mask
            && self.mask(key.tid).is_ok_and(|now| now == *set)
        {
            // A failure means that it has ended as well.
            let _ended = self.kernel.set_affinity(key.tid, Mask::These(before));
        }
        Err(Refusal::Gone)
    }

    fn write_bind(
        &mut self,
        (attachment, process): (AttachmentId, ProcessKey),
        key: TaskKey,
        now: &CpuSet,
        (allowed, wanted): (&CpuSet, &CpuSet),
    ) -> Result<(), Refusal> {
        let at = self.census.now().known()?;
        let set = wanted.clone();
        let mut rows = Vec::new();
        match self.journal.records().thread(key) {
            Some(record) if !is_known(record, now, allowed) => {
                // It may have another thread's mask of ours: it was made by that one, and we died
                // or failed before it got its own.
                if self
                    .inherited((attachment, process), key, now, allowed)
                    .is_none()
                {
                    return Err(Refusal::ChangedByOther);
                }
                rows.push(Row::Again { key, at, set });
            }
            Some(record) if record.set_exactly(wanted) => return Ok(()),
            Some(record) if record.set.len() >= MASKS_MAX => return Err(Refusal::Journal),
            Some(_) => rows.push(Row::Again { key, at, set }),
            None => {
                if !self.journal.records().knows(process) {
                    rows.push(Row::Process(process));
                }
                let origin = self.origin((attachment, process), key, now, allowed);
                rows.push(Row::Bind {
                    key,
                    at,
                    origin,
                    set,
                });
            }
        }
        self.write(rows)
    }

    pub(crate) fn write(&mut self, rows: Vec<Row>) -> Result<(), Refusal> {
        let written = self.journal.record(rows);
        if self.note(written) {
            Ok(())
        } else {
            Err(Refusal::Journal)
        }
    }

    /// What a thread had before us: its mask, or its maker's if it has its mask from us. A mask
    /// that is the whole cpuset may be ours, but is more likely none at all.
    fn origin(
        &self,
        of: (AttachmentId, ProcessKey),
        key: TaskKey,
        mask: &CpuSet,
        allowed: &CpuSet,
    ) -> Origin {
        let mut judged = Origin::judge(mask.clone(), allowed);
        if judged.kind == Kind::Unset {
            return judged;
        }
        if let Some(inherited) = self.inherited(of, key, mask, allowed) {
            return inherited;
        }
        // Those offline come back, and then it may run there again.
        if let Seen::Here(whole) = self.census.whole_affinity(key.pid, key.tid)
            && mask.is_subset(&whole)
        {
            judged.mask = whole;
        }
        judged
    }

    /// What a thread's maker had, if the thread has its mask from us through its maker: a thread of
    /// its process, of a process above, or, where its maker's process has ended, of any process of
    /// the program. And what a thread had that goes on as this one by exec.
    fn inherited(
        &self,
        (attachment, process): (AttachmentId, ProcessKey),
        key: TaskKey,
        mask: &CpuSet,
        allowed: &CpuSet,
    ) -> Option<Origin> {
        let program = self.programs.get(&attachment).into_iter().flatten();
        let lineage = self.lineage(process);
        let makers = std::iter::once(&process).chain(&lineage).chain(program);
        let mut heritages = makers.filter_map(|&maker| self.journal.records().heritage(maker));
        let inherited = heritages.find_map(|heritage| {
            let shown = heritage.shown_in(allowed);
            shown.origin_for(key.start, mask).cloned()
        });
        if inherited.is_some() || key.tid.0 != key.pid.0 {
            return inherited;
        }
        let alive = self.census.threads(key.pid).known().ok()?;
        self.lost_to_exec((process, &alive), key, mask, allowed)
    }

    /// What a thread had that called exec: it goes on with the number and the start of the first
    /// thread, and all others have ended. So the first thread has a mask that another got, and of
    /// those that were recorded by then none lives.
    pub(crate) fn lost_to_exec(
        &self,
        (process, alive): (ProcessKey, &[Tid]),
        key: TaskKey,
        mask: &CpuSet,
        allowed: &CpuSet,
    ) -> Option<Origin> {
        if key.tid.0 != key.pid.0 {
            return None;
        }
        let records = self.journal.records();
        let others = || {
            let others = records.threads_of(process);
            others.filter(|(other, _)| other.tid != key.tid)
        };
        let lives = |other: TaskKey| alive.binary_search(&other.tid).is_ok();
        let ended = others().filter(|(other, _)| !lives(*other));
        let (_, caller) = ended
            .filter(|(_, record)| record.set_exactly(mask) || record.set_within(mask, allowed))
            .max_by_key(|(_, record)| record.set.last().map(|(at, _)| *at))?;
        let (began, _) = caller.set.first()?;
        let survivor = others().any(|(other, _)| lives(other) && other.start < *began);
        (!survivor).then(|| caller.origin.clone())
    }
}

impl<K: Kernel, C: Census> Host for Live<K, C> {
    fn perform(&mut self, action: &Action) -> Outcome {
        let mut all = self.perform_all(std::slice::from_ref(action));
        all.pop().unwrap_or(Outcome::Refused(Refusal::Unsupported))
    }

    /// Threads one after the other; pages of actions that follow each other side by side.
    fn perform_all(&mut self, actions: &[Action]) -> Vec<Outcome> {
        let mut outcomes = Vec::with_capacity(actions.len());
        let moves = |action: &Action| matches!(action, Action::MovePages { .. });
        for run in actions.chunk_by(|one, next| moves(one) && moves(next)) {
            match &run[0] {
                Action::MovePages { .. } => outcomes.append(&mut self.move_all(run)),
                Action::Bind {
                    attachment,
                    task,
                    cpus,
                    ..
                } => outcomes.push(match self.bind(*attachment, *task, cpus) {
                    Ok(()) => Outcome::Bound,
                    Err(refusal) => Outcome::Refused(refusal),
                }),
            }
        }
        outcomes
    }
}

/// Shared memory in a process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mapped {
    /// When the process began.
    pub start: StartTicks,
    pub pid: Pid,
    pub range: SharedRange,
}

impl Mapped {
    pub(crate) const fn process(&self) -> ProcessKey {
        ProcessKey {
            pid: self.pid,
            start: self.start,
        }
    }
}

/// Whether a thread's mask is ours or what it had, so that nobody else changed it.
pub(crate) fn is_known(record: &ThreadRecord, mask: &CpuSet, allowed: &CpuSet) -> bool {
    record.set_exactly(mask)
        || record.origin.mask == *mask
        || record.set_within(mask, allowed)
        || record.origin.within(allowed) == *mask
}

/// How far up a mask is looked for.
const ANCESTORS_MAX: usize = 32;
/// Different masks of one thread: twice the cores of the largest machine. Beyond it something is
/// wrong, and the thread is left where it is.
const MASKS_MAX: usize = 2048;
