//! What a journal holds, for people: which threads had what and got what, and how many pages were moved. Addresses of
//! pages are not in here.

use std::collections::BTreeMap;
use std::time::Duration;

use control::rows::{JournalMask, JournalMemory, JournalReport, JournalRow};
use numad_core::ObjectId;
use topology::{CpuSet, StartTicks};

use super::records::{Records, is_every};
use super::rows::{Owner, ProcessKey, Switch, object_words};
use crate::affinity::{Kind, Origin};

/// Everything that is changed and not undone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// By process, ascending.
    pub processes: Vec<OfProcess>,
    /// By memory that processes share, ascending.
    pub shared: Vec<OfObject>,
    /// How the kernel's own balancing is switched, if it is.
    pub balancing: Option<Switch>,
}

/// What is changed of one process. Of a mere member of a program it may be nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfProcess {
    /// Which; the start is 0 where a journal of an earlier version does not say it.
    pub process: ProcessKey,
    /// What its threads had and what they got last, most threads first. Threads that have ended are counted too, until
    /// the journal is tidied.
    pub masks: Vec<MaskChange>,
    /// Private pages that were moved.
    pub pages: usize,
    /// When the first of its threads got a mask.
    pub since: Option<StartTicks>,
}

/// Threads that had the same affinity, and got the same mask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MaskChange {
    /// What they had.
    pub had: Origin,
    /// What they got last. None where they have none for now and wait for their own, of which their cpuset has nothing.
    pub got: Option<CpuSet>,
    /// How many.
    pub threads: usize,
}

/// Moved pages of memory that processes share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OfObject {
    /// Which memory.
    pub object: ObjectId,
    /// How many.
    pub pages: usize,
}

impl MaskChange {
    /// What they had, as a list of processors; none where they had no mask of their own.
    #[must_use]
    pub fn had_list(&self) -> Option<String> {
        (self.had.kind == Kind::User).then(|| self.had.mask.to_string())
    }
}

impl OfObject {
    /// The memory in the words of the journal: kind, device and inode.
    #[must_use]
    pub fn name(&self) -> String {
        object_words(self.object)
    }

    fn row(&self) -> JournalMemory {
        JournalMemory {
            memory: self.name(),
            pages: number(self.pages),
        }
    }
}

impl Contents {
    pub(super) fn of(records: &Records) -> Self {
        let mut processes: BTreeMap<ProcessKey, Tally> = BTreeMap::new();
        for process in records.recorded() {
            processes.entry(process).or_default();
        }
        for (key, record) in records.threads() {
            let process = ProcessKey {
                pid: key.pid,
                start: record.process,
            };
            let tally = processes.entry(process).or_default();
            for (at, _) in &record.set {
                tally.since = Some(tally.since.map_or(*at, |since| since.min(*at)));
            }
            let got = record.set.last().map(|(_, set)| set);
            let got = got.filter(|set| !is_every(set));
            let words = |set: &CpuSet| set.words().to_vec();
            let origin = &record.origin;
            let kind = (origin.kind, words(&origin.mask), got.map(words));
            let change = tally.masks.entry(kind).or_insert_with(|| MaskChange {
                had: origin.clone(),
                got: got.cloned(),
                threads: 0,
            });
            change.threads += 1;
        }
        let shared = records.objects().into_iter().map(|object| OfObject {
            object,
            pages: records.pages_of(Owner::Object(object)),
        });
        Self {
            balancing: records.balancing(),
            shared: shared.collect(),
            processes: processes
                .into_iter()
                .map(|(process, tally)| tally.told(process, records))
                .collect(),
        }
    }

    /// As rows, without the names of processes and of the directory. `age` tells how long ago a time on the clock of
    /// starts was.
    #[must_use]
    pub fn report(&self, age: &dyn Fn(StartTicks) -> Option<Duration>) -> JournalReport {
        JournalReport {
            processes: self.processes.iter().map(|of| of.row(age)).collect(),
            shared: self.shared.iter().map(OfObject::row).collect(),
            switches: self.balancing.iter().map(Switch::told).collect(),
            ..JournalReport::default()
        }
    }
}

impl OfProcess {
    fn row(&self, age: &dyn Fn(StartTicks) -> Option<Duration>) -> JournalRow {
        let masks = self.masks.iter().map(|change| JournalMask {
            had: change.had_list(),
            got: change.got.as_ref().map(ToString::to_string),
            threads: number(change.threads),
        });
        let key = (self.process.pid.0, self.process.start.0);
        JournalRow {
            pages: number(self.pages),
            since_s: self.since.and_then(age).map(|age| age.as_secs_f64()),
            ..JournalRow::new(key, masks.collect())
        }
    }
}

fn number(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

/// A change by the words of its masks, which have no order of their own.
type ChangeKey = (Kind, Vec<u64>, Option<Vec<u64>>);

/// What is counted of a process.
#[derive(Debug, Default)]
struct Tally {
    masks: BTreeMap<ChangeKey, MaskChange>,
    since: Option<StartTicks>,
}

impl Tally {
    fn told(self, process: ProcessKey, records: &Records) -> OfProcess {
        let mut masks: Vec<MaskChange> = self.masks.into_values().collect();
        masks.sort_by_key(|change| std::cmp::Reverse(change.threads));
        let owner = Owner::Process(process.pid, process.start);
        OfProcess {
            process,
            masks,
            pages: records.pages_of(owner),
            since: self.since,
        }
    }
}
