//! Puts back what was.

use std::collections::BTreeSet;

use nix::errno::Errno;
use numad_core::Refusal;
use topology::{CpuSet, Pid, TaskKey};

use crate::affinity::{Kind, Origin};
use crate::census::Census;
use crate::journal::ThreadRecord;
use crate::kernel::{Kernel, Mask};
use crate::live::{Live, is_known};
use crate::refusal;

mod pages;

/// What to put back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Everything.
    All,
    /// Everything of these processes.
    Pids(BTreeSet<Pid>),
}

impl Scope {
    fn has(&self, pid: Pid) -> bool {
        match self {
            Self::All => true,
            Self::Pids(pids) => pids.contains(&pid),
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

    fn fail(&mut self, sentence: String) {
        if self.failed.len() < FAILED_MAX {
            self.failed.push(sentence);
        } else if self.failed.len() == FAILED_MAX {
            self.failed.push("and more".to_owned());
        }
    }
}

/// How putting back one thread ended.
#[derive(Debug)]
enum Fate {
    Restored,
    Gone,
    Left,
}

impl<K: Kernel, C: Census> Live<K, C> {
    /// Puts back what was, by kind: a thread without an affinity of its own gets none, another gets its
    /// own, a page goes back to the node it was on. Then forgets it, but for what failed.
    ///
    /// - A thread whose mask is neither ours nor its own was changed by someone else, and is left alone.
    /// - Threads that were made by a bound thread have its mask, and their own children too. They get what
    ///   their maker had; see docs/decisions/0003 for the rule.
    /// - Doing it twice, or after dying at any moment of the first time, is as doing it once.
    ///
    /// Of `Scope::Pids`, processes that the journal does not know are looked through for such threads.
    pub fn undo(&mut self, scope: &Scope) -> UndoReport {
        let mut report = UndoReport::default();
        self.processes.retain(|&pid, _| !scope.has(pid));
        let mut pids = self.journal.records().pids();
        pids.retain(|&pid| scope.has(pid));
        if pids.is_empty() && self.journal.records().objects().is_empty() {
            return report;
        }
        let mut failed = BTreeSet::new();
        for &pid in &pids {
            for key in self.keys_of(pid) {
                if !self.undo_thread(key, &mut report) {
                    failed.insert(key);
                }
            }
        }
        self.undo_newborns(scope, &pids, &mut report);
        self.undo_pages(scope, &pids, &mut report);
        for &pid in &pids {
            for key in self.keys_of(pid) {
                if !failed.contains(&key) {
                    self.journal.records_mut().forget_thread(key);
                }
            }
        }
        // When this fails the file still says more than is open, and a next undo finds it undone.
        let written = self.journal.rewrite();
        self.note(written);
        report
    }

    /// Puts back one thread of the journal; false if it stays there.
    fn undo_thread(&mut self, key: TaskKey, report: &mut UndoReport) -> bool {
        let fate = match self.journal.records().thread(key).cloned() {
            Some(record) if self.census.thread(key.pid, key.tid) == Some(key.start) => {
                match self.is_ours(key, &record) {
                    Ok(true) => self.restore(key, &record.origin),
                    Ok(false) => Ok(Fate::Left),
                    Err(refusal) => Err(refusal),
                }
            }
            _ => Ok(Fate::Gone),
        };
        count(key, &fate, report)
    }

    /// Whether nobody but us changed a thread's mask.
    fn is_ours(&mut self, key: TaskKey, record: &ThreadRecord) -> Result<bool, Refusal> {
        let mask = self.mask(key)?;
        // Reading the cpuset takes a hundred times as long as reading the mask, and is mostly not needed.
        if record.set_exactly(&mask) || record.origin.mask == mask {
            return Ok(true);
        }
        let allowed = self.census.allowed(key.pid, key.tid);
        Ok(is_known(record, &mask, &allowed.ok_or(Refusal::Gone)?))
    }

    fn mask(&mut self, key: TaskKey) -> Result<CpuSet, Refusal> {
        let mask = self.kernel.affinity(key.tid);
        mask.map_err(refusal::of_affinity)
    }

    /// Gives a thread what it had, and looks whether it took.
    fn restore(&mut self, key: TaskKey, origin: &Origin) -> Result<Fate, Refusal> {
        let mask = match origin.kind {
            Kind::Unset => Mask::Every,
            Kind::User => Mask::These(&origin.mask),
        };
        let set = match self.kernel.set_affinity(key.tid, mask) {
            // Its cpuset has none of those processors any more. The kernel would have given it the
            // cpuset as a whole then.
            Err(Errno::EINVAL) => self.kernel.set_affinity(key.tid, Mask::Every),
            set => set,
        };
        set.map_err(refusal::of_affinity)?;
        let taken = self.mask(key)?;
        if taken == origin.mask {
            return Ok(Fate::Restored);
        }
        let allowed = self.census.allowed(key.pid, key.tid).ok_or(Refusal::Gone)?;
        if taken == origin.within(&allowed) || taken == allowed {
            Ok(Fate::Restored)
        } else {
            Err(Refusal::ChangedByOther)
        }
    }

    /// Puts back threads that are not in the journal and have a mask of ours from their maker.
    ///
    /// While that goes on they may make others; so it is repeated until none is found.
    fn undo_newborns(&mut self, scope: &Scope, pids: &[Pid], report: &mut UndoReport) {
        let mut seen = BTreeSet::new();
        for _ in 0..NEWBORN_ROUNDS_MAX {
            let before = seen.len();
            for pid in self.family(scope, pids) {
                let threads = self.census.threads(pid);
                let Some(first) = threads.first() else {
                    continue;
                };
                // Threads of one process share a cpuset but for rare threaded groups; reading it for
                // each of 10,000 threads would take longer than an undo may.
                let Some(allowed) = self.census.allowed(pid, first.tid) else {
                    continue;
                };
                for key in threads {
                    if self.journal.records().thread(key).is_none()
                        && !seen.contains(&key)
                        && self.undo_newborn(key, &allowed, pids, report)
                    {
                        seen.insert(key);
                    }
                }
            }
            if seen.len() == before {
                return;
            }
        }
    }

    /// Puts back one such thread; false if it is none.
    fn undo_newborn(
        &mut self,
        key: TaskKey,
        allowed: &CpuSet,
        pids: &[Pid],
        report: &mut UndoReport,
    ) -> bool {
        let Ok(mask) = self.mask(key) else {
            return false;
        };
        let origin = self.inherited(key, &mask, allowed).or_else(|| {
            // Its maker's process has ended, but both were named as one program.
            let records = self.journal.records();
            let passed = |&pid: &Pid| records.origin_passed_on(pid, key, &mask, allowed);
            pids.iter().find_map(passed).cloned()
        });
        // A whole cpuset may be ours, but is more likely no mask at all: never made narrower.
        let whole = allowed.is_subset(&mask);
        let origin = origin.map(|origin| match whole {
            true => Origin::judge(mask.clone(), allowed),
            false => origin,
        });
        match origin {
            None => false,
            Some(origin) if origin.within(allowed) != mask => {
                let fate = self.restore(key, &origin);
                count(key, &fate, report);
                true
            }
            // It looks right already, but one without a mask of its own would not follow its cpuset.
            Some(origin) => origin.kind == Kind::Unset && self.restore(key, &origin).is_ok(),
        }
    }

    /// The processes of the scope and all below them, but for those that have rows of their own outside of it.
    fn family(&self, scope: &Scope, pids: &[Pid]) -> BTreeSet<Pid> {
        let mut family: BTreeSet<Pid> = pids.iter().copied().collect();
        if let Scope::Pids(named) = scope {
            family.extend(named);
        }
        let recorded = self.journal.records().pids();
        let processes = self.census.processes();
        for _ in 0..GENERATIONS_MAX {
            let before = family.len();
            let below = processes.iter().filter(|(pid, parent)| {
                family.contains(parent) && (scope.has(*pid) || !recorded.contains(pid))
            });
            let below: Vec<Pid> = below.map(|&(pid, _)| pid).collect();
            family.extend(below);
            if family.len() == before {
                break;
            }
        }
        family
    }
}

/// Counts what became of a thread; false if it stays in the journal.
fn count(key: TaskKey, fate: &Result<Fate, Refusal>, report: &mut UndoReport) -> bool {
    match fate {
        Ok(Fate::Restored) => report.threads_restored += 1,
        Ok(Fate::Gone) | Err(Refusal::Gone) => report.threads_gone += 1,
        Ok(Fate::Left) | Err(Refusal::ChangedByOther) => report.threads_left += 1,
        Err(refusal) => {
            let remedy = refusal::remedy(*refusal);
            report.fail(format!(
                "thread `{key}` does not have its affinity back: {refusal}{remedy}"
            ));
            return false;
        }
    }
    true
}

fn number(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

/// Sentences of failure that are kept.
const FAILED_MAX: usize = 32;
/// Times that threads are looked for which were made meanwhile.
const NEWBORN_ROUNDS_MAX: usize = 8;
/// Generations of processes that are followed.
const GENERATIONS_MAX: usize = 32;
