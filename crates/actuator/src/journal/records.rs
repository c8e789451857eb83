//! What the journal says, in memory.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use numad_core::ObjectId;
use topology::{CpuSet, NodeId, Pid, StartTicks, TaskKey, Tid};

use super::rows::{Owner, Row};
use crate::affinity::{Kind, Origin, clipped};
use crate::census::Moment;

/// Everything that is changed and not undone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Records {
    threads: BTreeMap<TaskKey, ThreadRecord>,
    pages: BTreeMap<Owner, BTreeMap<u64, Home>>,
    page_count: usize,
    /// Rows of pages that were taken.
    page_rows: u32,
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
    /// What it had before.
    pub origin: Origin,
    /// Masks that we gave it, each with the first time; never empty. All of them, because the
    /// kernel may have refused the last.
    pub set: Vec<(Moment, CpuSet)>,
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

    /// Whether a thread may have this mask from this one.
    fn may_have_passed_on(&self, born: TaskKey, mask: &CpuSet, allowed: &CpuSet) -> bool {
        self.set
            .iter()
            .any(|(at, set)| at.is_before(born) && (set == mask || clipped(set, allowed) == *mask))
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
                    origin,
                    set: Vec::new(),
                };
                add_mask(self.threads.entry(key).or_insert(fresh), at, set);
            }
            Row::Again { key, at, set } => {
                // Without its first row, which was damaged, there is no original to put back.
                if let Some(record) = self.threads.get_mut(&key) {
                    add_mask(record, at, set);
                }
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
        }
    }

    /// Everything as rows, to write a file anew; pages in the order of their rows.
    pub(crate) fn rows(&self) -> impl Iterator<Item = Row> + '_ {
        let threads = self
            .threads
            .iter()
            .flat_map(|(&key, record)| thread_rows(key, record));
        threads.chain(rows_in_order(&self.pages))
    }

    /// Threads and pages that are changed and not undone.
    pub(crate) fn open_rows(&self) -> u64 {
        u64::try_from(self.threads.len() + self.page_count).unwrap_or(u64::MAX)
    }

    pub(crate) const fn page_count(&self) -> usize {
        self.page_count
    }

    /// Processes that something is recorded of, ascending.
    pub(crate) fn pids(&self) -> Vec<Pid> {
        let threads = self.threads.keys().map(|key| key.pid);
        let owners = self.pages.keys().filter_map(|&owner| match owner {
            Owner::Process(pid, _) => Some(pid),
            Owner::Object(_) => None,
        });
        let mut pids: Vec<Pid> = threads.chain(owners).collect();
        pids.sort_unstable();
        pids.dedup();
        pids
    }

    pub(crate) fn thread(&self, key: TaskKey) -> Option<&ThreadRecord> {
        self.threads.get(&key)
    }

    /// Bound threads of a process, ascending; of every process that ever had the number.
    pub(crate) fn threads_of(&self, pid: Pid) -> impl Iterator<Item = (TaskKey, &ThreadRecord)> {
        self.threads
            .range(keys_of(pid))
            .map(|(&key, record)| (key, record))
    }

    /// Processes that ever had the number and of which pages were moved.
    pub(crate) fn page_owners(&self, pid: Pid) -> Vec<(Owner, StartTicks)> {
        let owner = |start| Owner::Process(pid, StartTicks(start));
        let starts = self.pages.range(owner(0)..=owner(u64::MAX));
        let starts = starts.filter_map(|(&owner, _)| match owner {
            Owner::Process(_, start) => Some((owner, start)),
            Owner::Object(_) => None,
        });
        starts.collect()
    }

    /// Shared memory of which pages were moved.
    pub(crate) fn objects(&self) -> Vec<ObjectId> {
        let objects = self.pages.keys().filter_map(|&owner| match owner {
            Owner::Object(object) => Some(object),
            Owner::Process(..) => None,
        });
        objects.collect()
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

    /// The origin of the thread of `pid` from which another may have its mask.
    ///
    /// Among several that had different ones: none if one of them had none, because too wide does less
    /// harm than too narrow; else what most of them had; among as many, what the lowest had. A thread
    /// that began before the mask was set has it from elsewhere.
    pub(crate) fn origin_passed_on(
        &self,
        pid: Pid,
        born: TaskKey,
        mask: &CpuSet,
        allowed: &CpuSet,
    ) -> Option<&Origin> {
        let mut origins: Vec<(usize, &Origin)> = Vec::new();
        for (_, record) in self.threads_of(pid) {
            if record.may_have_passed_on(born, mask, allowed) {
                match origins
                    .iter_mut()
                    .find(|(_, known)| **known == record.origin)
                {
                    Some((votes, _)) => *votes += 1,
                    None => origins.push((1, &record.origin)),
                }
            }
        }
        // Of several that are equal `max_by_key` gives the last, and the first is wanted.
        let rank = |(votes, origin): &&(usize, &Origin)| (origin.kind == Kind::Unset, *votes);
        let most = origins.iter().rev().max_by_key(rank);
        most.map(|&(_, origin)| origin)
    }

    pub(crate) fn forget_thread(&mut self, key: TaskKey) {
        self.threads.remove(&key);
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

fn add_mask(record: &mut ThreadRecord, at: Moment, set: CpuSet) {
    if !record.set_exactly(&set) {
        record.set.push((at, set));
    }
}

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
            at: Moment {
                ticks: StartTicks(at),
                newest: Tid(60),
            },
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
        let (_, thread) = records.threads_of(Pid(5)).next().unwrap();
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

    #[test]
    fn a_mask_is_passed_on_to_those_born_later_alone() {
        let records = records(vec![
            bind(5, 9, "0-3", "0-1"),
            bind(6, 9, "0-2", "0-1"),
            bind(7, 9, "0-2", "0-1"),
        ]);
        let passed = |start, tid, mask| {
            let born = TaskKey {
                pid: Pid(5),
                tid: Tid(tid),
                start: StartTicks(start),
            };
            let origin = records.origin_passed_on(Pid(5), born, &set(mask), &set("0-3"));
            origin.map(|origin| origin.mask.to_string())
        };
        assert_eq!(passed(10, 8, "0-1").as_deref(), Some("0-2"));
        assert_eq!(passed(9, 61, "0-1").as_deref(), Some("0-2"));
        assert_eq!(passed(9, 60, "0-1"), None);
        assert_eq!(passed(8, 61, "0-1"), None);
        assert_eq!(passed(10, 61, "0-2"), None);
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
        assert!(records.open_rows() == 0 && records.pids().is_empty());
    }
}
