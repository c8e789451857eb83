//! Puts back what was.

use std::collections::{BTreeMap, BTreeSet};

use nix::errno::Errno;
use numad_core::{PageOutcome, Reach, Refusal};
use topology::{CpuSet, NodeId, Pid, StartTicks, TaskKey};

use crate::affinity::{Kind, Origin};
use crate::census::Census;
use crate::journal::{Home, ThreadRecord};
use crate::kernel::{Kernel, Mask};
use crate::live::{Live, is_known};
use crate::refusal;
use crate::residency::{PageStatus, residency};

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
        if pids.is_empty() {
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
        self.join_shared(&pids);
        for &pid in &pids {
            self.undo_pages(pid, &mut report);
        }
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

    fn undo_pages(&mut self, pid: Pid, report: &mut UndoReport) {
        let spaces = self.journal.records().pages_of(pid).into_iter();
        let spaces: Vec<(StartTicks, BTreeMap<u64, Home>)> = spaces
            .map(|(start, homes)| (start, homes.clone()))
            .collect();
        for (start, homes) in spaces {
            let kept = if self.census.process(pid) == Some(start) {
                let waiting = self.untangle(pid, &homes);
                self.undo_space(pid, waiting, report)
            } else {
                report.pages_gone += number(homes.len());
                Vec::new()
            };
            self.journal.records_mut().keep_pages(pid, start, &kept);
        }
    }

    /// Gives pages that several processes share the home that was recorded first.
    ///
    /// Children of one process share memory at the same addresses, and each page is recorded by the process through
    /// which it is moved: what another had moved before was somewhere else in the beginning than the later row says.
    /// Whether two have the same page the kernel tells nobody who has no more rights than we have. So where rows of
    /// an address differ, it is tried as in [`Self::untangle`].
    fn join_shared(&mut self, pids: &[Pid]) {
        let groups = self.same_addresses(pids);
        let firsts: Vec<Recorded> = groups.iter().filter_map(|group| first(group)).collect();
        let lasts: Vec<Recorded> = groups.iter().filter_map(|group| last(group)).collect();
        let before = self.sent(&firsts, &firsts);
        let after = self.sent(&lasts, &firsts);
        for (index, group) in groups.iter().enumerate() {
            let (first, last) = (firsts[index], lasts[index]);
            let moved = (before[index], after[index]);
            if moved == (Some(first.home.node), Some(last.home.node)) {
                for other in group {
                    self.journal.records_mut().rehome(
                        other.pid,
                        other.start,
                        other.page,
                        first.home.node,
                    );
                }
            }
        }
    }

    /// Rows of living processes for the same address that say different homes, by address.
    fn same_addresses(&self, pids: &[Pid]) -> Vec<Vec<Recorded>> {
        if pids.len() < 2 {
            return Vec::new();
        }
        let mut all: Vec<Recorded> = Vec::new();
        for &pid in pids {
            for (start, homes) in self.journal.records().pages_of(pid) {
                if self.census.process(pid) == Some(start) {
                    all.extend(homes.iter().map(|(&page, &home)| Recorded {
                        pid,
                        start,
                        page,
                        home,
                    }));
                }
            }
        }
        all.sort_by_key(|one| (one.page, one.home.order, one.pid));
        all.chunk_by(|one, next| one.page == next.page)
            .filter(|group| last(group).is_some())
            .map(<[Recorded]>::to_vec)
            .collect()
    }

    /// Sends pages to the homes of their rows, and tells where those of `asked` are then.
    fn sent(&mut self, pages: &[Recorded], asked: &[Recorded]) -> Vec<Option<NodeId>> {
        let mut by_pid: BTreeMap<Pid, BTreeMap<u64, NodeId>> = BTreeMap::new();
        for one in pages {
            let homes = by_pid.entry(one.pid).or_default();
            homes.insert(one.page, one.home.node);
        }
        for (pid, homes) in by_pid {
            self.send_home(pid, &homes, Reach::Program);
        }
        let mut places = BTreeMap::new();
        let pids: BTreeSet<Pid> = asked.iter().map(|one| one.pid).collect();
        for pid in pids {
            let of_it = asked.iter().filter(|one| one.pid == pid);
            let pages: Vec<u64> = of_it.map(|one| one.page).collect();
            if let Ok(found) = residency(&mut self.kernel, pid, &pages) {
                let found = pages.into_iter().zip(found);
                places.extend(found.map(|(page, place)| ((pid, page), place.node())));
            }
        }
        let place = |one: &Recorded| places.get(&(one.pid, one.page)).copied().flatten();
        asked.iter().map(place).collect()
    }

    /// The node that each page goes back to.
    ///
    /// A huge page moves as a whole with any address in it, and each address is recorded when it is moved first: one
    /// that came along with another before was somewhere else in the beginning than its own row says. What is huge
    /// the kernel tells nobody who has no more rights than we have. So where rows of one block differ, the first
    /// address is sent home, then the last: if the first comes along, all of them are one page, at home where the
    /// first was. Small pages have to go there anyway.
    fn untangle(&mut self, pid: Pid, homes: &BTreeMap<u64, Home>) -> BTreeMap<u64, NodeId> {
        let mut waiting: BTreeMap<u64, NodeId> = homes
            .iter()
            .map(|(&page, home)| (page, home.node))
            .collect();
        let tangles = tangles(homes);
        if tangles.is_empty() {
            return waiting;
        }
        let firsts: Vec<u64> = tangles.iter().map(|tangle| tangle.first.0).collect();
        self.send_home(
            pid,
            &tangles.iter().map(|tangle| tangle.first).collect(),
            Reach::Alone,
        );
        let before = residency(&mut self.kernel, pid, &firsts);
        self.send_home(
            pid,
            &tangles.iter().map(|tangle| tangle.last).collect(),
            Reach::Alone,
        );
        let after = residency(&mut self.kernel, pid, &firsts);
        let (Ok(before), Ok(after)) = (before, after) else {
            return waiting;
        };
        for (tangle, (before, after)) in tangles.iter().zip(before.into_iter().zip(after)) {
            let ((first, home), (_, away)) = (tangle.first, tangle.last);
            if before == PageStatus::On(home) && after == PageStatus::On(away) {
                let block = first >> HUGE_BITS << HUGE_BITS;
                let end = block.saturating_add(1 << HUGE_BITS);
                for (_, node) in waiting.range_mut(block..end) {
                    *node = home;
                }
            }
        }
        waiting
    }

    /// Puts back the pages of one process; gives those that are not back.
    fn undo_space(
        &mut self,
        pid: Pid,
        mut waiting: BTreeMap<u64, NodeId>,
        report: &mut UndoReport,
    ) -> Vec<u64> {
        let mut refusal = Refusal::Busy;
        for round in 0..=PAGE_ROUNDS_MAX {
            if let Err(unreadable) = self.settle(pid, &mut waiting, report) {
                refusal = unreadable;
                break;
            }
            if waiting.is_empty() {
                return Vec::new();
            }
            if round < PAGE_ROUNDS_MAX {
                // What was moved together with all who map it goes back the same way, and so does what
                // came to be shared since: it was we who moved it.
                let reach = match refusal {
                    Refusal::Shared => Reach::Program,
                    _ => Reach::Alone,
                };
                refusal = self.send_home(pid, &waiting, reach).unwrap_or(refusal);
            }
        }
        if refusal == Refusal::Gone {
            report.pages_gone += number(waiting.len());
            return Vec::new();
        }
        let (pages, remedy) = (waiting.len(), refusal::remedy(refusal));
        report.fail(format!(
            "{pages} pages of process `{pid}` are not back: {refusal}{remedy}"
        ));
        waiting.into_keys().collect()
    }

    /// Counts the pages that are home or gone, and takes them out.
    fn settle(
        &mut self,
        pid: Pid,
        waiting: &mut BTreeMap<u64, NodeId>,
        report: &mut UndoReport,
    ) -> Result<(), Refusal> {
        let pages: Vec<u64> = waiting.keys().copied().collect();
        let places = residency(&mut self.kernel, pid, &pages)?;
        for (page, place) in pages.iter().zip(places) {
            match place {
                PageStatus::On(node) if waiting.get(page) == Some(&node) => {
                    report.pages_restored += 1;
                }
                PageStatus::Absent => report.pages_gone += 1,
                PageStatus::On(_) | PageStatus::Unknown(_) => continue,
            }
            waiting.remove(page);
        }
        Ok(())
    }

    /// Moves pages to the nodes they were on; gives the last reason why one did not move.
    fn send_home(
        &mut self,
        pid: Pid,
        waiting: &BTreeMap<u64, NodeId>,
        reach: Reach,
    ) -> Option<Refusal> {
        let mut by_node: BTreeMap<NodeId, Vec<u64>> = BTreeMap::new();
        for (&page, &node) in waiting {
            by_node.entry(node).or_default().push(page);
        }
        let mut refusal = None;
        for (node, pages) in by_node {
            let mut rest = pages.as_slice();
            while !rest.is_empty() {
                let (batch, after) = rest.split_at(self.pacer.size().min(rest.len()));
                let moved = self.move_batch(pid, batch, (node, reach));
                let refused = moved.pages.iter().rev().find_map(|page| match page {
                    PageOutcome::On(_) => None,
                    PageOutcome::Refused(refusal) => Some(*refusal),
                });
                refusal = moved.refusal.or(refused).or(refusal);
                rest = after;
            }
        }
        refusal
    }
}

/// A page as a process recorded it.
#[derive(Clone, Copy, Debug)]
struct Recorded {
    pid: Pid,
    start: StartTicks,
    page: u64,
    home: Home,
}

/// Of rows in their order, the first.
fn first(group: &[Recorded]) -> Option<Recorded> {
    group.first().copied()
}

/// The last of those that say another home than the first; none if all say the same.
fn last(group: &[Recorded]) -> Option<Recorded> {
    let home = group.first()?.home.node;
    let others = group.iter().rev();
    others.copied().find(|one| one.home.node != home)
}

/// Pages in one block of the size of a huge page that say different homes.
struct Tangle {
    /// The one that was moved first, and its home.
    first: (u64, NodeId),
    /// The one that was moved last of those with another home.
    last: (u64, NodeId),
}

fn tangles(homes: &BTreeMap<u64, Home>) -> Vec<Tangle> {
    let pages: Vec<(u64, Home)> = homes.iter().map(|(&page, &home)| (page, home)).collect();
    pages
        .chunk_by(|one, next| one.0 >> HUGE_BITS == next.0 >> HUGE_BITS)
        .filter_map(|block| {
            let order = |entry: &&(u64, Home)| entry.1.order;
            let &(first, home) = block.iter().min_by_key(order)?;
            let others = block.iter().filter(|(_, other)| other.node != home.node);
            let &(last, other) = others.max_by_key(order)?;
            Some(Tangle {
                first: (first, home.node),
                last: (last, other.node),
            })
        })
        .collect()
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

/// Huge pages are of 2 MiB on x86-64, and on aarch64 with pages of 4 KiB. Of larger ones no more than a block is
/// seen as one, and each of its rows goes back as it says.
const HUGE_BITS: u32 = 21;
/// Sentences of failure that are kept.
const FAILED_MAX: usize = 32;
/// Times that pages are asked to move. The second time the rest of a batch moves that the kernel gave
/// up at one page, and what was busy for a moment.
const PAGE_ROUNDS_MAX: usize = 3;
/// Times that threads are looked for which were made meanwhile.
const NEWBORN_ROUNDS_MAX: usize = 8;
/// Generations of processes that are followed.
const GENERATIONS_MAX: usize = 32;
