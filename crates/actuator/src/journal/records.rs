//! What the journal says, in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use numad_core::ObjectId;
use topology::{CpuId, CpuSet, NodeId, Pid, StartTicks, TaskKey, Tid};

use super::homes::{Home, Homes, PageRun};
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
    pages: BTreeMap<Owner, Homes>,
    /// The user who pays for what is recorded of an owner; none for admins, and for what was read.
    payers: BTreeMap<Owner, u32>,
    /// Rows of pages that were taken.
    page_rows: u32,
    /// The kernel's balancing, while it is switched.
    balancing: Option<Switch>,
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
            Row::Pages { owner, node, runs } => {
                let homes = self.pages.entry(owner).or_default();
                let order = self.page_rows;
                for run in runs {
                    homes.insert(run, Home { node, order });
                }
                self.page_rows = order.saturating_add(1);
            }
            Row::Anew(ProcessKey { pid, start }) => {
                self.forget_owner(Owner::Process(pid, start));
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
        u64::try_from(self.threads.len() + self.page_count() + switches).unwrap_or(u64::MAX)
    }

    /// How the kernel's balancing is switched, if we did.
    pub(crate) const fn balancing(&self) -> Option<Switch> {
        self.balancing
    }

    /// Forgets that the kernel's balancing was switched.
    pub(crate) const fn forget_balancing(&mut self) {
        self.balancing = None;
    }

    /// Pages that were moved.
    pub(crate) fn page_count(&self) -> usize {
        self.pages.values().map(Homes::len).sum()
    }

    /// Runs of such pages: what they take of memory and of the file.
    pub(crate) fn page_runs(&self) -> usize {
        self.pages.values().map(Homes::runs).sum()
    }

    /// The same, of those alone that a user like this pays for.
    pub(crate) fn page_runs_of_users(&self, is_meant: impl Fn(u32) -> bool) -> usize {
        let meant = self.payers.iter().filter(|&(_, &payer)| is_meant(payer));
        let homes = meant.filter_map(|(owner, _)| self.pages.get(owner));
        homes.map(Homes::runs).sum()
    }

    /// Notes who pays for what is recorded of an owner: the last to have pages of it moved.
    pub(crate) fn pays(&mut self, owner: Owner, payer: Option<u32>) {
        match payer {
            Some(payer) => self.payers.insert(owner, payer),
            None => self.payers.remove(&owner),
        };
    }

    /// Processes that something is recorded of, ascending.
    pub(crate) fn recorded(&self) -> BTreeSet<ProcessKey> {
        let threads = self.heritage.keys().copied();
        let owners = self.with_private_pages();
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

    /// Processes of which private pages were moved.
    pub(crate) fn with_private_pages(&self) -> impl Iterator<Item = ProcessKey> + '_ {
        self.pages.keys().filter_map(|&owner| match owner {
            Owner::Process(pid, start) => Some(ProcessKey { pid, start }),
            Owner::Object(_) => None,
        })
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
        self.pages.get(&owner).map_or(0, Homes::len)
    }

    /// Moved pages from one place to before another, with where they were.
    pub(crate) fn homes_within(
        &self,
        owner: Owner,
        (from, to): (u64, u64),
    ) -> impl Iterator<Item = (u64, Home)> + '_ {
        let homes = self.pages.get(&owner).into_iter();
        homes.flat_map(move |homes| homes.within(from, to))
    }

    /// Runs of moved pages, ascending.
    pub(crate) fn runs_of(&self, owner: Owner) -> impl Iterator<Item = PageRun> + '_ {
        let homes = self.pages.get(&owner).into_iter();
        homes.flat_map(Homes::entries).map(|(run, _)| run)
    }

    /// Those pages of which it is not recorded where they were.
    pub(crate) fn without_home(&self, owner: Owner, pages: &[(u64, NodeId)]) -> Vec<(u64, NodeId)> {
        match self.pages.get(&owner) {
            Some(homes) => homes.without(pages),
            None => pages.to_vec(),
        }
    }

    /// Where a page was before we first moved it.
    #[cfg(test)]
    pub(crate) fn home(&self, owner: Owner, page: u64) -> Option<NodeId> {
        let home = self.pages.get(&owner)?.get(page)?;
        Some(home.node)
    }

    /// Corrects where a page was that is recorded.
    pub(crate) fn rehome(&mut self, owner: Owner, page: u64, node: NodeId) {
        if let Some(homes) = self.pages.get_mut(&owner) {
            homes.rehome(page, node);
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
        let mut pages: Vec<u64> = pages.collect();
        pages.sort_unstable();
        let step = PageRun::step_of(pages.iter().copied());
        for run in PageRun::of(&pages, step) {
            homes.remove(run);
        }
        if homes.len() == 0 {
            self.forget_owner(owner);
        }
    }

    /// Forgets an owner with all its pages; how many there were.
    pub(crate) fn forget_owner(&mut self, owner: Owner) -> usize {
        self.payers.remove(&owner);
        self.pages.remove(&owner).map_or(0, |homes| homes.len())
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
fn rows_in_order(pages: &BTreeMap<Owner, Homes>) -> impl Iterator<Item = Row> {
    let mut by_order: BTreeMap<(u32, Owner, NodeId), Vec<PageRun>> = BTreeMap::new();
    for (&owner, homes) in pages {
        for (run, home) in homes.entries() {
            let row = by_order.entry((home.order, owner, home.node)).or_default();
            row.push(run);
        }
    }
    by_order
        .into_iter()
        .flat_map(|((_, owner, node), runs)| rows_of(owner, node, &runs))
}

/// Pages as rows, one or more for each node.
pub(crate) fn page_rows(owner: Owner, mut homes: Vec<(u64, NodeId)>) -> Vec<Row> {
    homes.sort_unstable();
    let step = PageRun::step_of(homes.iter().map(|&(page, _)| page));
    let mut by_node: BTreeMap<NodeId, Vec<PageRun>> = BTreeMap::new();
    for together in homes.chunk_by(|one, next| one.1 == next.1) {
        let runs = by_node.entry(together[0].1).or_default();
        PageRun::extend(runs, together.iter().map(|&(page, _)| page), step);
    }
    let by_node = by_node.into_iter();
    by_node
        .flat_map(|(node, runs)| rows_of(owner, node, &runs))
        .collect()
}

fn rows_of(owner: Owner, node: NodeId, runs: &[PageRun]) -> impl Iterator<Item = Row> + use<> {
    let rows: Vec<Vec<PageRun>> = runs.chunks(RUNS_PER_ROW).map(<[_]>::to_vec).collect();
    rows.into_iter()
        .map(move |runs| Row::Pages { owner, node, runs })
}

/// A damaged byte costs at most this many runs.
const RUNS_PER_ROW: usize = 64;

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
            runs: PageRun::of(pages, Some(1)),
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
                runs: PageRun::of(&Vec::from_iter(0..200), Some(1)),
            },
            Row::Pages {
                owner: seven,
                node: NodeId(0),
                runs: PageRun::of(&[201, 0x1000], Some(1)),
            },
        ]);
        let second = records(first.rows().collect());
        assert_eq!(first.threads, second.threads);
        let nodes = |records: &Records| -> Vec<(u64, NodeId)> {
            let homes = records.homes_within(seven, (0, u64::MAX));
            homes.map(|(page, home)| (page, home.node)).collect()
        };
        assert_eq!(nodes(&first), nodes(&second));
        let last = second.pages[&seven].get(201).unwrap().order;
        let mut earlier = second.homes_within(seven, (0, 201));
        assert!(earlier.all(|(_, home)| home.order < last));
        assert_eq!(first.page_count(), second.page_count());
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
            runs: PageRun::of(&[1, 2, 3], Some(1)),
        }]);
        records.forget_pages(FIVE, [2, 9].into_iter());
        assert_eq!(records.open_rows(), 2);
        assert_eq!(records.forget_owner(FIVE), 2);
        assert!(records.is_empty() && records.recorded().is_empty());
    }
}
