//! Puts back what was. docs/undo.md is the rule for people, [`rule`] for threads; detach, stop, the next start after a
//! crash and `numad --undo` all come through [`Live::undo`].

use std::collections::{BTreeMap, BTreeSet};

use numad_core::AttachmentId;
use topology::{Pid, StartTicks};

use crate::census::{Census, Seen};
use crate::journal::UNKNOWN;
use crate::journal::rows::ProcessKey;
use crate::kernel::Kernel;
use crate::live::Live;

pub(crate) use pages::AT_ONCE;

#[cfg(test)]
mod kept_tests;
mod pages;
mod rule;
mod threads;
#[cfg(test)]
mod threads_tests;

/// What to put back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Everything.
    All,
    /// Everything of these processes, each with its start where that is known: another process that has the number by
    /// now is not meant.
    Processes(BTreeMap<Pid, Option<StartTicks>>),
    /// The same, and all other processes of the attachment that were ever seen.
    Program(AttachmentId, BTreeMap<Pid, Option<StartTicks>>),
    /// Processes that leave the attachment, which goes on: they may have masks of ours from any process of it, though
    /// the journal knows nothing of them.
    Leavers(AttachmentId, BTreeMap<Pid, Option<StartTicks>>),
}

impl Scope {
    /// These processes, whoever has their numbers now.
    #[must_use]
    pub fn of(pids: &[Pid]) -> Self {
        Self::Processes(pids.iter().map(|&pid| (pid, None)).collect())
    }

    /// The processes that it names, each with its start where that is known.
    fn named(&self) -> BTreeMap<Pid, Option<StartTicks>> {
        match self {
            Self::All => BTreeMap::new(),
            Self::Processes(pids) | Self::Program(_, pids) | Self::Leavers(_, pids) => pids.clone(),
        }
    }

    /// Leaves a process out; false where none is left.
    pub(crate) fn leave_out(&mut self, process: ProcessKey) -> bool {
        let meant = self.has(process);
        match self {
            Self::All => true,
            Self::Processes(pids) | Self::Program(_, pids) | Self::Leavers(_, pids) => {
                if meant {
                    pids.remove(&process.pid);
                }
                !pids.is_empty()
            }
        }
    }

    /// The scope without what will be changed later: of everything, the processes that the journal
    /// knows of now.
    fn as_it_is_now(&self, recorded: &BTreeSet<ProcessKey>) -> Self {
        if *self != Self::All {
            return self.clone();
        }
        let recorded = recorded.iter().map(|&ProcessKey { pid, start }| {
            let start = (start != UNKNOWN).then_some(start);
            (pid, start)
        });
        Self::Processes(recorded.collect())
    }

    fn has(&self, process: ProcessKey) -> bool {
        match self {
            Self::All => true,
            Self::Processes(pids) | Self::Program(_, pids) | Self::Leavers(_, pids) => {
                match pids.get(&process.pid) {
                    Some(Some(start)) => process.start == UNKNOWN || process.start == *start,
                    Some(None) => true,
                    None => false,
                }
            }
        }
    }
}

/// What was put back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UndoReport {
    /// Threads that have their earlier affinity again, those included that had ours from their maker.
    pub threads_restored: u64,
    /// Threads that were gone.
    pub threads_gone: u64,
    /// Threads left alone because someone else changed them since.
    pub threads_left: u64,
    /// Threads that have no affinity for now, because their cpuset has none of the processors of their own. They stay in
    /// the journal, and get it back when the cpuset has one of them again.
    pub threads_parked: u64,
    /// Pages that are where they were.
    pub pages_restored: u64,
    /// Pages that are gone.
    pub pages_gone: u64,
    /// Pages of shared memory that no process has in its page table now, so that nobody can move them. They stay in
    /// the journal as long as somebody maps the memory.
    pub pages_left: u64,
    /// What could not be put back and stays in the journal, one sentence each; at most 33.
    pub failed: Vec<String>,
}

impl UndoReport {
    /// Whether everything that still exists is as it was, or as someone else wanted it.
    #[must_use]
    pub const fn is_complete(&self) -> bool {
        self.failed.is_empty()
    }

    pub(crate) fn fail(&mut self, sentence: String) {
        if self.failed.len() < FAILED_MAX {
            self.failed.push(sentence);
        } else if self.failed.len() == FAILED_MAX {
            self.failed.push("and more".to_owned());
        }
    }
}

/// Called again and again while an undo goes on, at most some milliseconds of work apart, so that whoever waits can be
/// answered meanwhile.
pub type Breathe<'a> = &'a mut dyn FnMut();

impl<K: Kernel, C: Census> Live<K, C> {
    /// [`Self::undo_breathing`] in one go.
    pub fn undo(&mut self, scope: &Scope) -> UndoReport {
        self.undo_breathing(scope, &mut || {})
    }

    /// Puts back what was, by kind: a thread without an affinity of its own gets none, another gets its
    /// own, a page goes back to the node it was on. Then forgets it, but for what failed or has to wait.
    ///
    /// - A thread whose mask is neither ours nor its own was changed by someone else, and is left alone.
    /// - Threads that were made by a bound thread have its mask, and their own children too. They get what
    ///   their maker had; see docs/undo.md for the rule.
    /// - What cannot be looked at is not taken for gone: its rows stay.
    /// - Doing it twice, or after dying at any moment of the first time, is as doing it once.
    ///
    /// Processes that are named and that the journal does not know are looked through for such threads.
    pub fn undo_breathing(&mut self, scope: &Scope, breathe: Breathe<'_>) -> UndoReport {
        self.kernel.insist(true);
        if self.journal.is_outdated() {
            // Threads that have to wait for their own mask need rows. When this fails again it is
            // told at the end.
            drop(self.journal.rewrite());
        }
        let mut report = UndoReport::default();
        let whole = match scope {
            Scope::Program(attachment, _) => Some(*attachment),
            _ => None,
        };
        let scope = &self.widened(scope);
        self.processes
            .retain(|&pid, &mut start| !scope.has(ProcessKey { pid, start }));
        let recorded = self.journal.records().recorded();
        let recorded: BTreeSet<ProcessKey> = recorded
            .into_iter()
            .filter(|&process| scope.has(process))
            .collect();
        let balancing = self.journal.records().balancing();
        let balancing = balancing.filter(|_| *scope == Scope::All);
        if let Some(switch) = balancing {
            self.undo_balancing(switch, &mut report);
        }
        let shared = !self.journal.records().objects().is_empty();
        let leaves = || !self.handed_on(scope, &recorded).is_empty();
        let (mut settled, mut over) = (true, true);
        if !recorded.is_empty() || shared || balancing.is_some() || leaves() {
            let done = self.undo_threads(scope, &recorded, &mut report, breathe);
            settled = done.settled;
            over = settled && !done.owes;
            if let Some(attachment) = whole {
                let left: BTreeSet<_> = self.left_unfinished().collect();
                self.undone.retain(|other, _| left.contains(other));
                self.undone.insert(attachment, done.everyone);
            }
            self.undo_pages(scope, &recorded, &mut report, breathe);
            for &process in &recorded {
                let threads = self.journal.records().threads_of(process);
                let back: Vec<_> = threads
                    .map(|(key, _)| key)
                    .filter(|key| !done.kept.contains(key))
                    .collect();
                let records = self.journal.records_mut();
                records.forget_threads(process, back.into_iter());
                if over && records.threads_of(process).next().is_none() {
                    records.forget_process(process);
                }
            }
            // When this fails the file still says more than is open, and a next undo finds it undone.
            let written = self.journal.rewrite();
            self.note(written);
        }
        let more = (!settled).then(|| scope.as_it_is_now(&recorded));
        let goes_on = *scope != Scope::All || !settled;
        self.unfinished
            .retain(|other| goes_on && other != scope && more.as_ref() != Some(other));
        self.payers.retain(|&attachment, _| match (&scope, whole) {
            (Scope::All, _) => false,
            (_, undone) => undone != Some(attachment),
        });
        self.owed.retain(|&process| !scope.has(process));
        match over {
            true => self.forget_processes(|process| scope.has(process)),
            false => self.owed.extend(recorded),
        }
        self.unfinished.extend(more);
        self.kernel.insist(false);
        report
    }

    /// Whether an undo left something to do for [`Self::undo_more`].
    #[must_use]
    pub fn is_unfinished(&self) -> bool {
        !self.unfinished.is_empty()
    }

    /// Goes on with the undo that waits longest because its processes made others all the time; none where none does.
    pub fn undo_more(&mut self, breathe: Breathe<'_>) -> Option<UndoReport> {
        let scope = self.unfinished.first()?.clone();
        Some(self.undo_breathing(&scope, breathe))
    }

    /// The programs that have leavers who are not all put back.
    fn left_unfinished(&self) -> impl Iterator<Item = AttachmentId> {
        self.unfinished.iter().filter_map(|scope| match scope {
            Scope::Leavers(attachment, _) => Some(*attachment),
            _ => None,
        })
    }

    /// The scope with all processes of its program, those that have ended included: their rows say what their children
    /// had.
    fn widened(&self, scope: &Scope) -> Scope {
        let Scope::Program(attachment, pids) = scope else {
            return scope.clone();
        };
        let mut wide = pids.clone();
        for process in self.programs.get(attachment).into_iter().flatten() {
            wide.entry(process.pid).or_insert(Some(process.start));
        }
        Scope::Processes(wide)
    }

    /// The living processes of the scope and all below them, but for those that have rows of their own outside of it.
    ///
    /// # Errors
    /// Those that are known, when not all processes could be looked at.
    fn family(
        &self,
        scope: &Scope,
        recorded: &BTreeSet<ProcessKey>,
    ) -> Result<BTreeSet<Pid>, BTreeSet<Pid>> {
        let named = match scope {
            Scope::All => self.unfinished.iter().flat_map(Scope::named).collect(),
            some => some.named(),
        };
        let named = named
            .into_iter()
            .map(|(pid, start)| (pid, start.unwrap_or(UNKNOWN)));
        let known = recorded.iter().map(|process| (process.pid, process.start));
        let mut family: BTreeSet<Pid> = known
            .chain(named)
            .filter(|&(pid, start)| match self.census.process(pid) {
                Seen::Here(now) => start == UNKNOWN || start == now,
                Seen::Hidden(_) => true,
                Seen::Gone => false,
            })
            .map(|(pid, _)| pid)
            .collect();
        let Seen::Here(processes) = self.census.processes() else {
            return Err(family);
        };
        let elsewhere: BTreeSet<Pid> = self
            .journal
            .records()
            .recorded()
            .into_iter()
            .filter(|&process| !scope.has(process))
            .map(|process| process.pid)
            .collect();
        for _ in 0..GENERATIONS_MAX {
            let before = family.len();
            let below = processes
                .iter()
                .filter(|(pid, parent)| family.contains(parent) && !elsewhere.contains(pid));
            let below: Vec<Pid> = below.map(|&(pid, _)| pid).collect();
            family.extend(below);
            if family.len() == before {
                break;
            }
        }
        Ok(family)
    }
}

fn number(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

/// Sentences of failure that are kept.
const FAILED_MAX: usize = 32;
/// Generations of processes that are followed.
const GENERATIONS_MAX: usize = 32;
