//! What the journal says, in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use numad_core::ObjectId;
use topology::{CpuId, CpuSet, NodeId, Pid, StartTicks, TaskKey, Tid};

use super::rows::{Owner, ProcessKey, Row, Switch};
use crate::affinity::{Kind, Origin, clipped};
use crate::heritage::Heritage;

/// Everything that is changed and not undone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Records {
    threads: BTreeMap<TaskKey, ThreadRecord>,
    /// Processes of programs that something is changed of, whether it was changed of them or not.
    processes: BTreeSet<ProcessKey>,
    /// The process that had a number last, while rows are read.
    last_with: BTreeMap<Pid, StartTicks>,
    /// What threads of a process may hand on, by the process; follows from `threads`.
    heritage: BTreeMap<ProcessKey, Heritage>,
    pages: BTreeMap<Owner, BTreeMap<u64, Home>>,
    page_count: usize,
    /// Rows of pages that were taken.
    page_rows: u32,
    /// The kernel's balancing, while it is switched.
    balancing: Option<Switch>,
}

/// Where a page was before we first moved it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Home {
    pub node: NodeId,
    /// Greater than that of any page in an earlier row.
    pub order: u32,
}

/// A thread that we bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ThreadRecord {
    /// When its process began; 0 where a journal of an earlier version does not say.
    pub process: StartTicks,
    /// What it had before.
    pub origin: Origin,
    /// Masks that we gave it, each with the first time; never empty. All of them, because the
    /// kernel may have refused the last.
    pub set: Vec<(StartTicks, CpuSet)>,
}

impl ThreadRecord {
    /// Whether a mask is one that we gave this thread.
    pub(crate) fn set_exactly(&self, mask: &CpuSet) -> bool {
        self.set.iter().any(|(_, set)| set == mask)
    }

    /// Whether a mask is one that we gave this thread, clipped by the cpuset that it is in.
    pub(crate) fn set_within(&self, mask: &CpuSet, allowed: &CpuSet) -> bool {
        self.set
            .iter()
            .any(|(_, set)| clipped(set, allowed) == *mask)
    }
}

impl Records {
    /// Takes a row for true. The first original of a thread or page stays.
    pub(crate) fn fold(&mut self, row: Row) {
        match row {
            Row::Bind {
                key,
                at,
                origin,
                set,
            } => {
                let fresh = ThreadRecord {
                    process: self.process_start(key),
                    origin,
                    set: Vec::new(),
                };
                self.threads.entry(key).or_insert(fresh);
                self.add_mask(key, at, set);
            }
            Row::Again { key, at, set } => self.add_mask(key, at, set),
            Row::Process(process) => {
                self.last_with.insert(process.pid, process.start);
                self.processes.insert(process);
            }
            Row::Pages { owner, node, pages } => {
                let homes = self.pages.entry(owner).or_default();
                let before = homes.len();
                let order = self.page_rows;
                for page in pages {
                    homes.entry(page).or_insert(Home { node, order });
                }
                self.page_rows = order.saturating_add(1);
                self.page_count += homes.len() - before;
            }
            Row::Balancing(switch) => {
                self.balancing.get_or_insert(switch);
            }
        }
    }

    fn add_mask(&mut self, key: TaskKey, at: StartTicks, set: CpuSet) {
        // Without its first row, which was damaged, there is no original to put back.
        let Some(record) = self.threads.get_mut(&key) else {
            return;
        };
        if !record.set_exactly(&set) {
            let process = ProcessKey {
                pid: key.pid,
                start: record.process,
            };
            if !is_every(&set) {
                let heritage = self.heritage.entry(process).or_default();
                heritage.add(&record.origin, at, &set);
            }
            record.set.push((at, set));
        }
    }

    /// When the process of a thread of a new row began, as far as the rows tell.
    fn process_start(&self, key: TaskKey) -> StartTicks {
        match self.last_with.get(&key.pid) {
            Some(&start) => start,
            None if key.tid.0 == key.pid.0 => key.start,
            None => UNKNOWN,
        }
    }

    /// Everything as rows, to write a file anew; pages in the order of their rows.
    pub(crate) fn rows(&self) -> impl Iterator<Item = Row> + '_ {
        let mut threads: BTreeMap<ProcessKey, Vec<Row>> = BTreeMap::new();
        for &process in &self.processes {
            threads.insert(process, vec![Row::Process(process)]);
        }
        for (&key, record) in &self.threads {
            let process = ProcessKey {
                pid: key.pid,
                start: record.process,
            };
            let rows = threads.entry(process).or_default();
            rows.extend(thread_rows(key, record));
        }
        let threads = threads.into_values().flatten();
        let balancing = self.balancing.map(Row::Balancing);
        balancing
            .into_iter()
            .chain(threads)
            .chain(rows_in_order(&self.pages))
    }

    /// Whether there is nothing to write down.
    pub(crate) fn is_empty(&self) -> bool {
        self.open_rows() == 0 && self.processes.is_empty()
    }

    /// Threads, pages and switches that are changed and not undone.
    pub(crate) fn open_rows(&self) -> u64 {
        let switches = usize::from(self.balancing.is_some());
        u64::try_from(self.threads.len() + self.page_count + switches).unwrap_or(u64::MAX)
    }

    /// How the kernel's balancing is switched, if we did.
    pub(crate) const fn balancing(&self) -> Option<Switch> {
        self.balancing
    }

    /// Forgets that the kernel's balancing was switched.
    pub(crate) const fn forget_balancing(&mut self) {
        self.balancing = None;
    }

    pub(crate) const fn page_count(&self) -> usize {
        self.page_count
    }

    /// Processes that something is recorded of, ascending.
    pub(crate) fn recorded(&self) -> BTreeSet<ProcessKey> {
        let threads = self.heritage.keys().copied();
        let owners = self.pages.keys().filter_map(|&owner| match owner {
            Owner::Process(pid, start) => Some(ProcessKey { pid, start }),
            Owner::Object(_) => None,
        });
        let processes = self.processes.iter().copied();
        threads.chain(owners).chain(processes).collect()
    }

    /// Whether a process is recorded as part of a program.
    pub(crate) fn knows(&self, process: ProcessKey) -> bool {
        self.processes.contains(&process)
    }

    /// What threads of a process may hand on; none if nothing was set for them.
    pub(crate) fn heritage(&self, process: ProcessKey) -> Option<&Heritage> {
        self.heritage.get(&process)
    }

    /// All bound threads, ascending.
    pub(crate) fn threads(&self) -> impl Iterator<Item = (TaskKey, &ThreadRecord)> {
        self.threads.iter().map(|(&key, record)| (key, record))
    }

    pub(crate) fn thread(&self, key: TaskKey) -> Option<&ThreadRecord> {
        self.threads.get(&key)
    }

    /// Bound threads of a process, ascending.
    pub(crate) fn threads_of(
        &self,
        process: ProcessKey,
    ) -> impl Iterator<Item = (TaskKey, &ThreadRecord)> {
        self.threads
            .range(keys_of(process.pid))
            .filter(move |(_, record)| record.process == process.start)
            .map(|(&key, record)| (key, record))
    }

    /// Shared memory of which pages were moved.
    pub(crate) fn objects(&self) -> Vec<ObjectId> {
        let objects = self.pages.keys().filter_map(|&owner| match owner {
            Owner::Object(object) => Some(object),
            Owner::Process(..) => None,
        });
        objects.collect()
    }

    /// How many pages of an owner were moved.
    pub(crate) fn pages_of(&self, owner: Owner) -> usize {
        self.pages.get(&owner).map_or(0, BTreeMap::len)
    }

    /// Moved pages with where they were.
    pub(crate) fn homes(&self, owner: Owner) -> impl Iterator<Item = (u64, Home)> + '_ {
        let homes = self.pages.get(&owner).into_iter().flatten();
        homes.map(|(&page, &home)| (page, home))
    }

    /// Where a page was before we first moved it.
    pub(crate) fn home(&self, owner: Owner, page: u64) -> Option<NodeId> {
        let home = self.pages.get(&owner)?.get(&page)?;
        Some(home.node)
    }

    /// Corrects where a page was that is recorded.
    pub(crate) fn rehome(&mut self, owner: Owner, page: u64, node: NodeId) {
        let homes = self.pages.get_mut(&owner);
        if let Some(home) = homes.and_then(|homes| homes.get_mut(&page)) {
            home.node = node;
        }
    }

    /// Forgets threads of a process, and what they alone may have handed on.
    pub(crate) fn forget_threads(
        &mut self,
        process: ProcessKey,
        threads: impl Iterator<Item = TaskKey>,
    ) {
        for key in threads {
            self.threads.remove(&key);
        }
        let mut heritage = Heritage::default();
        for (_, record) in self.threads_of(process) {
            for (at, set) in record.set.iter().filter(|(_, set)| !is_every(set)) {
                heritage.add(&record.origin, *at, set);
            }
        }
        if heritage.is_empty() {
            self.heritage.remove(&process);
        } else {
            self.heritage.insert(process, heritage);
        }
    }

    /// Forgets all threads of a process.
    pub(crate) fn forget_all_threads(&mut self, process: ProcessKey) {
        let keys: Vec<TaskKey> = self.threads_of(process).map(|(key, _)| key).collect();
        self.forget_threads(process, keys.into_iter());
    }

    /// Drops threads that have ended, of all of these processes together, but for one of each kind: the first that got
    /// a mask in the place of an affinity stands for all later ones, of which what was made later has the same.
    pub(crate) fn condense(&mut self, processes: &[ProcessKey], ended: impl Fn(TaskKey) -> bool) {
        let mut known: BTreeMap<(bool, Vec<u64>, Vec<u64>), StartTicks> = BTreeMap::new();
        for &process in processes {
            for (_, record) in self.threads_of(process) {
                for (at, set) in &record.set {
                    let since = known.entry(kind_of(&record.origin, set)).or_insert(*at);
                    *since = (*since).min(*at);
                }
            }
        }
        let mut stands = BTreeSet::new();
        for &process in processes {
            let mut over = Vec::new();
            for (key, record) in self.threads_of(process) {
                // Whoever lives stays. Of the others those that are the first of a kind, once.
                let mut handed_on = record.set.iter().filter(|(_, set)| !is_every(set));
                let needed = handed_on.any(|(at, set)| {
                    let kind = kind_of(&record.origin, set);
                    known.get(&kind) == Some(at) && stands.insert(kind)
                });
                if ended(key) && !needed {
                    over.push(key);
                }
            }
            if !over.is_empty() {
                self.forget_threads(process, over.into_iter());
            }
        }
    }

    /// Forgets that a process is part of a program. Rows of its threads and pages stay.
    pub(crate) fn forget_process(&mut self, process: ProcessKey) {
        self.processes.remove(&process);
    }

    /// Forgets these pages of an owner.
    pub(crate) fn forget_pages(&mut self, owner: Owner, pages: impl Iterator<Item = u64>) {
        let Some(homes) = self.pages.get_mut(&owner) else {
            return;
        };
        let before = homes.len();
        for page in pages {
            homes.remove(&page);
        }
        self.page_count -= before - homes.len();
        if homes.is_empty() {
            self.pages.remove(&owner);
        }
    }

    /// Forgets an owner with all its pages; how many there were.
    pub(crate) fn forget_owner(&mut self, owner: Owner) -> usize {
        let count = self.pages.remove(&owner).map_or(0, |homes| homes.len());
        self.page_count -= count;
        count
    }
}

/// What of a thread's rows matters to those that it made: what it had, and what it got.
fn kind_of(origin: &Origin, set: &CpuSet) -> (bool, Vec<u64>, Vec<u64>) {
    let words = |mask: &CpuSet| mask.words().to_vec();
    (origin.kind == Kind::Unset, words(&origin.mask), words(set))
}

/// The row of a thread that was given no mask at all for now, because its cpuset has none of its own.
pub(crate) fn every() -> CpuSet {
    let mut set = CpuSet::new();
    set.insert_range(CpuId(0), EVERY_LAST);
    set
}

/// Whether a mask is [`every`]: nothing that a child of the thread could have only from us.
pub(crate) fn is_every(set: &CpuSet) -> bool {
    set.last() == Some(EVERY_LAST) && set.len() == EVERY_LAST.index() + 1
}

/// Above every number of a processor that the kernel can be built for.
const EVERY_LAST: CpuId = CpuId(8191);

/// When a process began of which that is not known.
pub(crate) const UNKNOWN: StartTicks = StartTicks(0);

fn thread_rows(key: TaskKey, record: &ThreadRecord) -> impl Iterator<Item = Row> + '_ {
    record
        .set
        .iter()
        .enumerate()
        .map(move |(index, (at, set))| {
            if index == 0 {
                Row::Bind {
                    key,
                    at: *at,
                    origin: record.origin.clone(),
                    set: set.clone(),
                }
            } else {
                Row::Again {
                    key,
                    at: *at,
                    set: set.clone(),
                }
            }
        })
}

/// Pages as rows, those of an earlier row first, of whomever: undo asks which of two that are one page was first.
fn rows_in_order(pages: &BTreeMap<Owner, BTreeMap<u64, Home>>) -> impl Iterator<Item = Row> {
    let mut by_order: BTreeMap<(u32, Owner), Vec<(u64, NodeId)>> = BTreeMap::new();
    for (&owner, homes) in pages {
        for (&page, home) in homes {
            let row = by_order.entry((home.order, owner)).or_default();
            row.push((page, home.node));
        }
    }
    by_order
        .into_iter()
        .flat_map(|((_, owner), homes)| page_rows(owner, homes.into_iter()))
}

/// Pages as rows, one or more for each node.
pub(crate) fn page_rows(owner: Owner, homes: impl Iterator<Item = (u64, NodeId)>) -> Vec<Row> {
    let mut by_node: BTreeMap<NodeId, Vec<u64>> = BTreeMap::new();
    for (page, node) in homes {
        by_node.entry(node).or_default().push(page);
    }
    let chunks = by_node.into_iter().flat_map(|(node, pages)| {
        let chunks: Vec<Vec<u64>> = pages.chunks(PAGES_PER_ROW).map(<[u64]>::to_vec).collect();
        chunks.into_iter().map(move |pages| (node, pages))
    });
    chunks
        .map(|(node, pages)| Row::Pages { owner, node, pages })
        .collect()
}

/// A damaged byte costs at most this many pages.
const PAGES_PER_ROW: usize = 64;

fn keys_of(pid: Pid) -> RangeInclusive<TaskKey> {
    let key = |tid, start| TaskKey {
        pid,
        tid: Tid(tid),
        start: StartTicks(start),
    };
    key(0, 0)..=key(u32::MAX, u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIVE: Owner = Owner::Process(Pid(5), StartTicks(1));

    fn set(text: &str) -> CpuSet {
        CpuSet::parse_list(text).unwrap()
    }

    fn bind(tid: u32, at: u64, origin: &str, mask: &str) -> Row {
        Row::Bind {
            key: TaskKey {
                pid: Pid(5),
                tid: Tid(tid),
                start: StartTicks(1),
            },
            at: StartTicks(at),
            origin: Origin {
                kind: Kind::User,
                mask: set(origin),
            },
            set: set(mask),
        }
    }

    fn records(rows: Vec<Row>) -> Records {
        let mut records = Records::default();
        rows.into_iter().for_each(|row| records.fold(row));
        records
    }

    #[test]
    fn the_first_original_stays() {
        let pages = |node, pages: &[u64]| Row::Pages {
            owner: FIVE,
            node: NodeId(node),
            pages: pages.to_vec(),
        };
        let records = records(vec![
            bind(5, 9, "0-3", "0-1"),
            bind(5, 10, "0-1", "2-3"),
            pages(0, &[0x1000, 0x2000]),
            pages(1, &[0x2000, 0x3000]),
        ]);
        let (_, thread) = records.threads_of(PROCESS).next().unwrap();
        assert_eq!(thread.origin.mask, set("0-3"));
        assert!(thread.set_exactly(&set("2-3")) && thread.set_exactly(&set("0-1")));
        let home = |page| records.home(FIVE, page);
        assert_eq!(home(0x2000), Some(NodeId(0)));
        assert_eq!(home(0x3000), Some(NodeId(1)));
        assert_eq!(records.open_rows(), 4);
    }

    #[test]
    fn what_is_written_anew_says_the_same() {
        let seven = Owner::Process(Pid(7), StartTicks(2));
        let first = records(vec![
            bind(5, 9, "0-3", "0-1"),
            bind(5, 10, "0-1", "2-3"),
            bind(6, 11, "0", "2-3"),
            Row::Pages {
                owner: seven,
                node: NodeId(1),
                pages: (0..200).collect(),
            },
            Row::Pages {
                owner: seven,
                node: NodeId(0),
                pages: vec![201, 0x1000],
            },
        ]);
        let second = records(first.rows().collect());
        assert_eq!(first.threads, second.threads);
        let homes = |records: &Records| records.pages[&seven].clone();
        for ((page, was), (other, is)) in homes(&first).into_iter().zip(homes(&second)) {
            assert_eq!((page, was.node), (other, is.node));
        }
        let last = homes(&second)[&201].order;
        assert!(
            homes(&second)
                .range(..201)
                .all(|(_, home)| home.order < last)
        );
        assert_eq!(first.page_count, second.page_count);
    }

    const PROCESS: ProcessKey = ProcessKey {
        pid: Pid(5),
        start: StartTicks(1),
    };

    fn tids(records: &Records) -> Vec<u32> {
        let threads = records.threads_of(PROCESS);
        threads.map(|(key, _)| key.tid.0).collect()
    }

    #[test]
    fn of_ended_threads_the_first_of_each_kind_stays() {
        let mut records = records(vec![
            Row::Process(PROCESS),
            bind(6, 10, "0-3", "0-1"),
            bind(7, 9, "0-3", "0-1"),
            bind(8, 9, "0-3", "0-1"),
            bind(9, 11, "0-2", "0-1"),
            bind(10, 12, "0-3", "2-3"),
            bind(11, 13, "0-3", "2-3"),
        ]);
        records.condense(&[PROCESS], |key| key.tid != Tid(11));
        assert_eq!(tids(&records), [7, 9, 10, 11]);
        records.condense(&[PROCESS], |_| true);
        assert_eq!(tids(&records), [7, 9, 10]);
        records.forget_all_threads(PROCESS);
        assert!(records.heritage(PROCESS).is_none() && tids(&records).is_empty());
    }

    #[test]
    fn rows_are_of_the_process_that_had_the_number_last() {
        let later = ProcessKey {
            start: StartTicks(9),
            ..PROCESS
        };
        let first = records(vec![
            bind(4, 9, "0-3", "0-1"),
            Row::Process(PROCESS),
            bind(6, 9, "0-3", "0-1"),
            Row::Process(later),
            bind(7, 9, "0-3", "0-1"),
        ]);
        for records in [&first, &records(first.rows().collect())] {
            assert_eq!(tids(records), [6]);
            assert_eq!(records.threads_of(later).count(), 1);
            let unknown = ProcessKey {
                start: UNKNOWN,
                ..PROCESS
            };
            assert_eq!(records.threads_of(unknown).count(), 1);
            assert_eq!(records.recorded().len(), 3);
        }
    }

    #[test]
    fn pages_are_forgotten_one_by_one_or_with_their_owner() {
        let mut records = records(vec![Row::Pages {
            owner: FIVE,
            node: NodeId(0),
            pages: vec![1, 2, 3],
        }]);
        records.forget_pages(FIVE, [2, 9].into_iter());
        assert_eq!(records.open_rows(), 2);
        assert_eq!(records.forget_owner(FIVE), 2);
        assert!(records.is_empty() && records.recorded().is_empty());
    }
}
