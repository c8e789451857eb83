//! Puts affinities back, process by process.
//!
//! Of most threads the mask alone is read, which tells that they have nothing from us. The rest,
//! with a call and a second look, takes as long for each of many threads as of few. When a thread
//! began, which takes longer to read than all else together, is read only where something depends
//! on it (docs/measurements.md).

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

use numad_core::{AttachmentId, Refusal};
use topology::{CpuSet, Pid, StartTicks, TaskKey, Tid};

use super::rule::{Case, Verdict, judge};
use super::{Breathe, Scope, UndoReport, number};
use crate::affinity::{Kind, Origin};
use crate::census::{Census, Seen};
use crate::heritage::{Heritage, Shown};
use crate::journal::rows::{ProcessKey, Row};
use crate::journal::{UNKNOWN, every};
use crate::kernel::{Kernel, Mask};
use crate::live::Live;
use crate::refusal;

/// What an undo knows of threads while it goes on.
#[derive(Debug, Default)]
struct Round {
    /// Threads that are dealt with, and the mask that each had then: one that calls exec goes on
    /// with the number and the start of the first thread, and with its own mask.
    done: BTreeMap<TaskKey, CpuSet>,
    /// How often a thread was dealt with.
    steps: u64,
    /// Threads whose rows stay.
    kept: BTreeSet<TaskKey>,
    /// Whether a thread without rows of its own could not be put back: the rows of whoever made it
    /// say what it gets.
    owes_newborn: bool,
    /// Whether there may be threads that no list showed yet: others made some of late, or bound
    /// ones ended meanwhile, as they do when one of them calls exec.
    unsettled: bool,
    /// Processes that could not be looked at, which was said.
    hidden: BTreeSet<Pid>,
    /// When processes were listed the last time. One that began later has the number of a listed
    /// one.
    listed: Option<StartTicks>,
    /// Whether all were found: no more were made, or ended, while it was looked for them.
    settled: bool,
    /// What any process of those that are undone may have handed on, and how it shows in a cpuset.
    everyone: Heritage,
    shown: BTreeMap<Vec<u64>, Rc<Shown>>,
}

impl Round {
    fn shown_in(&mut self, allowed: &CpuSet) -> Rc<Shown> {
        let shown = self.shown.entry(allowed.words().to_vec());
        Rc::clone(shown.or_insert_with(|| Rc::new(self.everyone.shown_in(allowed))))
    }
}

/// How putting threads back ended.
#[derive(Debug, Default)]
pub(super) struct Done {
    /// Threads whose rows stay.
    pub(super) kept: BTreeSet<TaskKey>,
    /// Whether there is nothing more to be found.
    pub(super) settled: bool,
    /// Whether threads could not be put back, or looked at, of which only the rows of others may
    /// say what they had.
    pub(super) owes: bool,
    /// Masks of ours that whoever belongs to these threads may have.
    pub(super) everyone: Heritage,
}

/// A process whose threads are looked through.
struct Patient<'a, H> {
    process: ProcessKey,
    held: Option<H>,
    allowed: CpuSet,
    /// Masks that its threads may have from us: from threads of its own, of the nearest process
    /// above, and so on.
    heritages: Vec<Rc<Shown>>,
    /// Its threads that live.
    alive: &'a [Tid],
}

impl<H> Patient<'_, H> {
    /// Whether a thread with this mask may have it from another.
    fn may_be_ours(&self, mask: &CpuSet) -> bool {
        self.heritages.iter().any(|shown| shown.has(mask))
    }

    /// Whether a thread that has this mask from any other gets this back.
    fn gives_only(&self, mask: &CpuSet, origin: &Origin) -> bool {
        let mut having = self.heritages.iter().filter(|shown| shown.has(mask));
        having.all(|shown| shown.gives_only(mask, origin))
    }

    fn passed_on(&self, born: TaskKey, mask: &CpuSet) -> Option<&Origin> {
        let mut heritages = self.heritages.iter();
        heritages.find_map(|shown| shown.origin_for(born.start, mask))
    }
}

impl<K: Kernel, C: Census> Live<K, C> {
    /// Puts threads back.
    ///
    /// While that goes on, threads that are still bound may make others; so it is repeated until
    /// none is found. A thread that was in the midst of making another when it was put back has
    /// handed on our mask to one that nobody can see yet: so undo rests, and looks once more; twice
    /// where threads are being made. Where they are made without end that is given up for now.
    pub(super) fn undo_threads(
        &mut self,
        scope: &Scope,
        recorded: &BTreeSet<ProcessKey>,
        report: &mut UndoReport,
        breathe: Breathe<'_>,
    ) -> Done {
        let patience = (*scope != Scope::All).then(|| (self.clock)().after(PATIENCE));
        let mut round = Round {
            everyone: self.handed_on(scope, recorded),
            ..Round::default()
        };
        let mut quiet = 0;
        for number in 0..ROUNDS_MAX {
            let before = round.steps;
            let family = self.family(scope, recorded);
            round.listed = self.census.now().known().ok();
            if family.is_err() && round.hidden.insert(Pid(0)) {
                report.fail(
                    "not all processes can be looked at, and children of programs may have masks of ours; raise the \
                     limit of open files, or run as root, and undo again"
                        .to_owned(),
                );
            }
            for pid in family.unwrap_or_else(|known| known) {
                breathe();
                if let Err(refusal) = self.undo_process(pid, &mut round, report, breathe)
                    && refusal != Refusal::Gone
                    && round.hidden.insert(pid)
                {
                    let remedy = refusal::remedy(refusal);
                    report.fail(format!("process `{pid}` {refusal}{remedy}"));
                }
            }
            let found = round.steps > before;
            quiet = if found { 0 } else { quiet + 1 };
            round.unsettled |= self.some_unseen(recorded, &round);
            let rests = match round.steps {
                _ if round.unsettled => RESTS_UNSETTLED,
                0 => 0,
                _ => RESTS,
            };
            round.settled = quiet > rests;
            // What the first round finds was there before.
            let more_come = found && number > 0;
            let is_over = |end| more_come && (self.clock)() >= end;
            if round.settled || patience.is_some_and(is_over) {
                break;
            }
            if quiet > 0 {
                breathe();
                self.kernel.rest();
            }
        }
        self.keep_asked_for(recorded, &mut round, report);
        Done {
            kept: round.kept,
            settled: round.settled,
            owes: round.owes_newborn || !round.hidden.is_empty(),
            everyone: round.everyone,
        }
    }

    /// Masks of ours that threads of a scope may have from any process.
    pub(super) fn handed_on(&self, scope: &Scope, recorded: &BTreeSet<ProcessKey>) -> Heritage {
        let mut all = Heritage::default();
        let records = self.journal.records();
        let mut makers: BTreeSet<ProcessKey> = recorded.clone();
        let left: Vec<AttachmentId> = match scope {
            Scope::Leavers(attachment, _) => vec![*attachment],
            Scope::All => self.left_unfinished().collect(),
            Scope::Processes(_) | Scope::Program(..) => Vec::new(),
        };
        for attachment in left {
            makers.extend(self.programs.get(&attachment).into_iter().flatten());
            let undone = self.undone.get(&attachment);
            undone.into_iter().for_each(|heritage| all.merge(heritage));
        }
        let heritages = makers.iter().filter_map(|&maker| records.heritage(maker));
        heritages.for_each(|heritage| all.merge(heritage));
        all
    }

    /// Counts those that have ended, and keeps rows that are still asked for.
    fn keep_asked_for(
        &self,
        recorded: &BTreeSet<ProcessKey>,
        round: &mut Round,
        report: &mut UndoReport,
    ) {
        if !round.settled {
            report.fail(
                "threads or processes are made faster than they are put back; the daemon goes on with that while it \
                 runs, or undo again"
                    .to_owned(),
            );
        }
        for &process in recorded {
            let threads = self.journal.records().threads_of(process);
            let unseen = threads.map(|(key, _)| key);
            let unseen: Vec<TaskKey> = unseen.filter(|key| !round.done.contains_key(key)).collect();
            // Of those that could not be looked at nothing is known.
            let all_seen = round.hidden.is_empty() && round.settled;
            if all_seen {
                report.threads_gone += number(unseen.len());
            }
            if round.owes_newborn || !all_seen {
                // What any of the others had may be asked for by the next undo.
                let all = self.journal.records().threads_of(process);
                round.kept.extend(all.map(|(key, _)| key));
            }
        }
    }

    /// Whether threads that have rows were not seen: they have ended, so that others may have been
    /// made.
    fn some_unseen(&self, recorded: &BTreeSet<ProcessKey>, round: &Round) -> bool {
        let records = self.journal.records();
        let mut keys = recorded
            .iter()
            .flat_map(|&process| records.threads_of(process));
        keys.any(|(key, _)| !round.done.contains_key(&key))
    }

    /// Puts back threads of one process, and all of those that it made of late.
    fn undo_process(
        &mut self,
        pid: Pid,
        round: &mut Round,
        report: &mut UndoReport,
        breathe: Breathe<'_>,
    ) -> Result<(), Refusal> {
        let held = self.kernel.hold(pid).map_err(refusal::of_affinity)?;
        let start = self.census.process(pid).known()?;
        if round.listed.is_some_and(|listed| listed < start) {
            round.unsettled = true;
            return Err(Refusal::Gone);
        }
        let process = ProcessKey { pid, start };
        let alive = self.census.threads(pid).known()?;
        let allowed = self.allowed_of_any(pid, &alive)?;
        let rows = self.rows_of(process);
        let mut heritages = self.heritages(process, &allowed);
        heritages.push(round.shown_in(&allowed));
        let patient = Patient {
            process,
            held,
            allowed,
            heritages,
            alive: &alive,
        };
        let mut parking = Vec::new();
        for (index, &tid) in alive.iter().enumerate() {
            if index % BREATHE_EVERY == BREATHE_EVERY - 1 {
                breathe();
            }
            let row = rows.get(&tid).copied();
            match self.visit(&patient, (tid, row), round, report) {
                Ok(waiting) => parking.extend(waiting),
                Err(Refusal::Gone) => round.unsettled |= row.is_some(),
                Err(refusal) => return Err(refusal),
            }
        }
        let written = self.write_parking(&patient, &parking);
        for (key, _, mask) in parking {
            let newborn = self.journal.records().thread(key).is_none();
            round.owes_newborn |= newborn;
            let fate = written.and_then(|()| self.park(&patient, key, &mask));
            count(key, (&fate, &patient.allowed), round, report);
        }
        Ok(())
    }

    /// Looks at a thread, and puts it back if it has something of ours; gives it if it has to wait
    /// for its own mask. `row` is the thread of this number that has rows, or none where there are
    /// several.
    fn visit(
        &mut self,
        patient: &Patient<'_, K::Hold>,
        (tid, row): (Tid, Option<Option<TaskKey>>),
        round: &mut Round,
        report: &mut UndoReport,
    ) -> Result<Option<(TaskKey, Origin, CpuSet)>, Refusal> {
        let mask = match self.mask(tid) {
            Ok(mask) => mask,
            // A mask that cannot be read is not someone else's: the rows stay.
            Err(refusal) if row.is_some() => return Err(refusal),
            Err(_) => return Ok(None),
        };
        let settled = match row {
            None => true,
            Some(key) => key.is_some_and(|key| round.done.get(&key) == Some(&mask)),
        };
        if settled && !patient.may_be_ours(&mask) {
            return Ok(None);
        }
        let key = self.key_of(patient, tid, row.flatten(), &mask)?;
        let done = round.done.get(&key) == Some(&mask);
        // The first thread may be another by exec, and show the same mask because its cpuset leaves
        // no other.
        if done && tid.0 != key.pid.0 {
            return Ok(None);
        }
        let newborn = self.journal.records().thread(key).is_none();
        let fate = self.undo_thread(patient, key, &mask);
        let failed = fate.as_ref().err();
        let failed = failed.filter(|why| !matches!(why, Refusal::Gone | Refusal::ChangedByOther));
        round.owes_newborn |= newborn && failed.is_some();
        if done && failed.is_none() {
            return Ok(None);
        }
        round.unsettled |= newborn && fate != Ok(Fate::NotOurs);
        if let Ok(Fate::Waits(origin)) = fate {
            // Its rows stay for long, so that they must be of this thread.
            let key = self.key_of(patient, tid, None, &mask)?;
            return Ok(Some((key, origin, mask)));
        }
        count(key, (&fate, &mask), round, report);
        Ok(None)
    }

    /// Which thread of the process this is. `row` is the one thread of this number that has rows.
    ///
    /// When it began tells it from one that has got its number since. That takes longer to read
    /// than all else together, and is not read where both get back the same.
    fn key_of(
        &mut self,
        patient: &Patient<'_, K::Hold>,
        tid: Tid,
        row: Option<TaskKey>,
        mask: &CpuSet,
    ) -> Result<TaskKey, Refusal> {
        let pid = patient.process.pid;
        if let Some(held) = &patient.held
            && let Some(key) = row.filter(|&key| self.is_alike(patient, key, mask))
            && let Ok(there) = self.kernel.has(held, pid, tid)
        {
            return if there { Ok(key) } else { Err(Refusal::Gone) };
        }
        let start = self.census.thread(pid, tid).known()?;
        Ok(TaskKey { pid, tid, start })
    }

    /// Whether a thread with this mask gets back the same if it has these rows, and if it was made
    /// by any other thread and has the number by now. The first thread may be one that called exec.
    fn is_alike(&self, patient: &Patient<'_, K::Hold>, key: TaskKey, mask: &CpuSet) -> bool {
        let record = self.journal.records().thread(key);
        let record = record.filter(|record| {
            let (process, allowed) = (patient.process.start, &patient.allowed);
            let ours = record.set_exactly(mask) || record.set_within(mask, allowed);
            ours && record.process == process && !allowed.is_subset(mask)
        });
        key.tid.0 != key.pid.0
            && record.is_some_and(|record| patient.gives_only(mask, &record.origin))
    }

    /// Puts back one thread, unless that has to wait. What seems to be changed by someone else that
    /// very moment is looked at once more: another thread may have become the first by exec.
    fn undo_thread(
        &mut self,
        patient: &Patient<'_, K::Hold>,
        key: TaskKey,
        mask: &CpuSet,
    ) -> Result<Fate, Refusal> {
        match self.undo_once(patient, key, mask) {
            Err(Refusal::ChangedByOther) => {
                let mask = self.mask(key.tid)?;
                self.undo_once(patient, key, &mask)
            }
            fate => fate,
        }
    }

    fn undo_once(
        &mut self,
        patient: &Patient<'_, K::Hold>,
        key: TaskKey,
        mask: &CpuSet,
    ) -> Result<Fate, Refusal> {
        match self.judged(patient, key, mask)? {
            Verdict::NotOurs => Ok(Fate::NotOurs),
            Verdict::Leave => Ok(Fate::Left),
            Verdict::PutBack(origin) => self.restore(patient, key, origin, mask),
            Verdict::Park(origin) => Ok(Fate::Waits(origin)),
        }
    }

    /// What becomes of a thread with this mask.
    fn judged(
        &mut self,
        patient: &Patient<'_, K::Hold>,
        key: TaskKey,
        mask: &CpuSet,
    ) -> Result<Verdict, Refusal> {
        let verdict = self.judged_in(patient, key, mask, &patient.allowed);
        if verdict != Verdict::Leave {
            return Ok(verdict);
        }
        // Threads of one process share a cpuset but for rare threaded groups, and reading it takes
        // ten times as long as all else.
        let own = self.census.allowed(key.pid, key.tid).known()?;
        Ok(self.judged_in(patient, key, mask, &own))
    }

    fn judged_in(
        &self,
        patient: &Patient<'_, K::Hold>,
        key: TaskKey,
        mask: &CpuSet,
        allowed: &CpuSet,
    ) -> Verdict {
        let record = self.journal.records().thread(key);
        let by_exec = || self.lost_to_exec((patient.process, patient.alive), key, mask, allowed);
        let passed_on = patient.passed_on(key, mask).cloned().or_else(by_exec);
        judge(&Case {
            mask,
            allowed,
            record,
            passed_on: passed_on.as_ref(),
        })
    }

    /// Gives a thread what it had, and looks whether it took.
    fn restore(
        &mut self,
        patient: &Patient<'_, K::Hold>,
        key: TaskKey,
        origin: Origin,
        before: &CpuSet,
    ) -> Result<Fate, Refusal> {
        let mask = match origin.kind {
            Kind::Unset => Mask::Every,
            Kind::User => Mask::These(&origin.mask),
        };
        match self.set(key, patient.held.as_ref(), mask, before) {
            // Its cpuset has none of those processors, by now.
            Err(Refusal::NotAllowed) => return Ok(Fate::Waits(origin)),
            set => set?,
        }
        let taken = self.mask(key.tid)?;
        if taken == origin.mask {
            return Ok(Fate::Restored(taken));
        }
        let allowed = self.census.allowed(key.pid, key.tid).known()?;
        if taken == origin.within(&allowed) || taken == allowed {
            Ok(Fate::Restored(taken))
        } else {
            Err(Refusal::ChangedByOther)
        }
    }

    /// Writes down that threads are given no affinity of their own for now. Where that cannot be
    /// written they stay as they are: nothing would tell later that they are to get their own back.
    fn write_parking(
        &mut self,
        patient: &Patient<'_, K::Hold>,
        parking: &[(TaskKey, Origin, CpuSet)],
    ) -> Result<(), Refusal> {
        let (now, mut rows, every) = (self.census.now(), Vec::new(), every());
        for (key, origin, _) in parking {
            let (key, set) = (*key, every.clone());
            // Nothing is decided by this time, so that any will do where the clock cannot be read.
            let at = now.known().unwrap_or(key.start);
            match self.journal.records().thread(key) {
                Some(record) if record.set_exactly(&every) => {}
                Some(_) => rows.push(Row::Again { key, at, set }),
                None => {
                    let origin = origin.clone();
                    rows.push(Row::Process(patient.process));
                    rows.push(Row::Bind {
                        key,
                        at,
                        origin,
                        set,
                    });
                }
            }
        }
        if rows.is_empty() {
            return Ok(());
        }
        self.write(rows)
    }

    /// Gives a thread no affinity of its own for now: its cpuset has none of its processors, and
    /// the kernel takes only masks that have one. Without us it would have the whole cpuset now
    /// too, and its own again when that comes back.
    fn park(
        &mut self,
        patient: &Patient<'_, K::Hold>,
        key: TaskKey,
        before: &CpuSet,
    ) -> Result<Fate, Refusal> {
        self.set(key, patient.held.as_ref(), Mask::Every, before)?;
        self.parked.insert(key);
        Ok(Fate::Parked)
    }

    /// Gives threads their own affinity back whose cpusets had none of it, where they do by now.
    pub(crate) fn unpark(&mut self) {
        let parked = std::mem::take(&mut self.parked);
        let mut over: BTreeMap<ProcessKey, Vec<TaskKey>> = BTreeMap::new();
        for key in parked {
            let Some(record) = self.journal.records().thread(key) else {
                continue;
            };
            let process = ProcessKey {
                pid: key.pid,
                start: record.process,
            };
            match self.unpark_one(process, key) {
                Err(Refusal::Gone | Refusal::ChangedByOther) | Ok(true) => {
                    over.entry(process).or_default().push(key);
                }
                Err(_) | Ok(false) => {
                    self.parked.insert(key);
                }
            }
        }
        if over.is_empty() {
            return;
        }
        for (process, keys) in over {
            let attached = self
                .programs
                .values()
                .any(|program| program.contains(&process));
            let records = self.journal.records_mut();
            records.forget_threads(process, keys.into_iter());
            if !attached && records.threads_of(process).next().is_none() {
                records.forget_process(process);
            }
        }
        let written = self.journal.rewrite();
        self.note(written);
    }

    /// Gives one thread its own affinity back; false where its cpuset still has none of it.
    fn unpark_one(&mut self, process: ProcessKey, key: TaskKey) -> Result<bool, Refusal> {
        let held = self.kernel.hold(key.pid).map_err(refusal::of_affinity)?;
        if self.census.thread(key.pid, key.tid).known()? != key.start {
            return Err(Refusal::Gone);
        }
        let mask = self.mask(key.tid)?;
        let patient = Patient {
            process,
            held,
            allowed: self.census.allowed(key.pid, key.tid).known()?,
            heritages: Vec::new(),
            alive: &[],
        };
        match self.judged_in(&patient, key, &mask, &patient.allowed) {
            Verdict::Park(_) => Ok(false),
            Verdict::PutBack(origin) => {
                let fate = self.restore(&patient, key, origin, &mask)?;
                Ok(matches!(fate, Fate::Restored(_)))
            }
            Verdict::Leave | Verdict::NotOurs => Err(Refusal::ChangedByOther),
        }
    }

    /// What the cpuset allows that the threads of a process are in: of the first that has not ended
    /// meanwhile.
    fn allowed_of_any(&self, pid: Pid, alive: &[Tid]) -> Result<CpuSet, Refusal> {
        for &tid in alive {
            match self.census.allowed(pid, tid) {
                Seen::Here(allowed) => return Ok(allowed),
                Seen::Gone => {}
                Seen::Hidden(errno) => return Err(Refusal::Hidden(errno)),
            }
        }
        Err(Refusal::Gone)
    }

    /// Numbers of the threads of a process that have rows, each with its thread; with none where
    /// several had the number.
    fn rows_of(&self, process: ProcessKey) -> BTreeMap<Tid, Option<TaskKey>> {
        let records = self.journal.records();
        let unknown = ProcessKey {
            start: UNKNOWN,
            ..process
        };
        let threads = [process, unknown].into_iter();
        let mut rows = BTreeMap::new();
        for (key, _) in threads.flat_map(|process| records.threads_of(process)) {
            rows.entry(key.tid)
                .and_modify(|only| *only = None)
                .or_insert(Some(key));
        }
        rows
    }

    /// Masks of ours that threads of a process may have from others, nearest first: its own
    /// threads, then those of the processes above.
    fn heritages(&self, process: ProcessKey, allowed: &CpuSet) -> Vec<Rc<Shown>> {
        let records = self.journal.records();
        let unknown = ProcessKey {
            start: UNKNOWN,
            ..process
        };
        let makers = [process, unknown].into_iter().chain(self.lineage(process));
        let heritages = makers.filter_map(|maker| records.heritage(maker));
        heritages
            .map(|heritage| Rc::new(heritage.shown_in(allowed)))
            .collect()
    }
}

/// Counts what became of a thread with this mask.
fn count(
    key: TaskKey,
    (fate, seen): (&Result<Fate, Refusal>, &CpuSet),
    round: &mut Round,
    report: &mut UndoReport,
) {
    match fate {
        Ok(Fate::NotOurs) => return,
        Ok(Fate::Restored(_)) => report.threads_restored += 1,
        Ok(Fate::Parked | Fate::Waits(_)) => {
            report.threads_parked += 1;
            round.kept.insert(key);
        }
        Ok(Fate::Left) | Err(Refusal::ChangedByOther) => report.threads_left += 1,
        Err(Refusal::Gone) => report.threads_gone += 1,
        Err(refusal) => {
            let remedy = refusal::remedy(*refusal);
            report.fail(format!(
                "thread `{key}` does not have its affinity back: {refusal}{remedy}"
            ));
            round.kept.insert(key);
        }
    }
    let mask = match fate {
        Ok(Fate::Restored(mask)) => mask,
        _ => seen,
    };
    // Whoever has the mask already that it gets back hands on nothing of ours.
    let changed = mask != seen || !matches!(fate, Ok(Fate::Restored(_)));
    round.steps += u64::from(changed);
    round.done.insert(key, mask.clone());
}

/// How putting back one thread ended.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Fate {
    /// It has this mask now.
    Restored(CpuSet),
    /// It has no affinity of its own for now.
    Parked,
    /// It is to be parked, with what it gets back later.
    Waits(Origin),
    Left,
    NotOurs,
}

/// Times that threads are looked for which were made meanwhile.
const ROUNDS_MAX: usize = 12;
/// After so long no further round begins where more are found in each: others wait for their orders
/// meanwhile. Where none are, a slow machine may take longer.
const PATIENCE: Duration = Duration::from_secs(2);
/// Rounds without a find, each after a rest, before a program counts as done in which nothing was
/// seen being made or ending. Without that one, undo that took 2 ms missed a process in the midst
/// of being forked in 1 of 130 undos under chaos.
const RESTS: usize = 1;
/// The same where something was. Under chaos at a load of 5 on two processors, one such round of 20
/// ms missed a thread in 1 of 776 undos.
const RESTS_UNSETTLED: usize = 2;
/// Threads after which others may have their turn: about a millisecond.
const BREATHE_EVERY: usize = 64;
