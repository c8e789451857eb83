//! What was ordered of a program and what came of it: which affinities are ours, where memory was put, and how long it
//! stays there. What was ordered of a thread is in its own record.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use topology::{CpuSet, Pid};

use super::wishes::Asked;
use crate::action::PageOutcome;
use crate::hold::Stay;
use crate::policy::{PageKey, Reason, SpaceId};
use crate::tables::runs::Runs;
use crate::time::Time;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Ordered {
    /// Affinities that we set and what stood there before, for threads that inherit ours.
    masks: Vec<(CpuSet, CpuSet)>,
    moves: Runs<PageMove>,
    /// Where pages were put, or found when they were to be moved.
    placed: Runs<Placed>,
    /// Pages that are not answered yet by their action, with what they were granted for.
    batches: BTreeMap<Batch, Vec<(Range<u64>, u32)>>,
    granted: Vec<PageOrder>,
    /// Runs that were forgotten since that was told last.
    forgotten: u64,
}

/// The space, process and first address of an action.
pub(super) type Batch = (SpaceId, Pid, u64);

/// What is remembered of a page that was moved, or could not be.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct PageMove {
    pub stay: Stay,
    /// Node another than its own that the last judged window wanted it on.
    pub wanted: Option<u16>,
    /// The kernel's balancing moved it last.
    pub by_kernel: bool,
}

/// Where a page is since it was moved, or found when it was to be moved.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Placed {
    /// None if it was not there.
    pub home: Option<u16>,
    /// Where it was taken to be before.
    pub from: Option<u16>,
}

/// Pages that were granted together.
#[derive(Clone, Debug)]
pub(super) struct PageOrder {
    /// The page that the policy called them by.
    pub page: PageKey,
    pub node: usize,
    pub from: Option<usize>,
    pub reason: Reason,
    /// Pages of it that are not answered yet.
    pub open: u64,
    /// Whether any of them is where it was to go.
    pub is_done: bool,
}

/// Pages side by side that were granted together and ended alike.
#[derive(Debug)]
pub(super) struct Answer {
    pub pages: Range<u64>,
    pub grant: u32,
    /// None if the host gave up before it came to them.
    pub result: Option<PageOutcome>,
}

/// Affinities of ours that are remembered. Nodes times kinds of threads; further ones replace the oldest.
const MASKS_MAX: usize = 256;
/// Runs of pages whose moves are remembered; the ones that rest shortest are forgotten first.
const PAGE_MOVES_MAX: usize = 8192;

impl Ordered {
    pub(super) fn masks(&self) -> &[(CpuSet, CpuSet)] {
        &self.masks
    }

    /// Remembers an affinity of ours and what it replaced. Where that was several, whoever inherits
    /// ours may be of any of them: it is what all had.
    pub(super) fn remember_mask(&mut self, ours: &CpuSet, original: &CpuSet) {
        if let Some((_, before)) = self.masks.iter_mut().find(|(known, _)| known == ours) {
            let both = before.intersection(original);
            if ours.is_subset(&both) {
                *before = both;
            }
            return;
        }
        if self.masks.len() >= MASKS_MAX {
            self.masks.remove(0);
        }
        self.masks.push((ours.clone(), original.clone()));
    }

    pub(super) const fn placed(&self) -> &Runs<Placed> {
        &self.placed
    }

    /// What is remembered of moves of these pages, in order.
    pub(super) fn moves(
        &self,
        space: SpaceId,
        pages: Range<u64>,
    ) -> impl Iterator<Item = (Range<u64>, PageMove)> + '_ {
        self.moves.within(space, pages)
    }

    /// Keeps where pages were wanted that were moved before, so that the next window can agree.
    pub(super) fn note_wanted(&mut self, wishes: &[Asked<'_>]) {
        self.moves.each(|history| history.wanted = None);
        for asked in wishes {
            let node = u16::try_from(asked.wish.node).ok();
            for pages in asked.all().iter().cloned() {
                self.moves.update(asked.page.space, pages, |history| {
                    let wanted = node;
                    history.map(|history| PageMove { wanted, ..history })
                });
            }
        }
    }

    /// What was ordered and not answered is void.
    pub(super) fn void(&mut self) {
        self.batches.clear();
        self.granted = Vec::new();
    }

    /// Pages were granted.
    pub(super) fn grant(&mut self, order: PageOrder) {
        self.granted.push(order);
    }

    /// Pages go by one action, with the numbers of their grants.
    pub(super) fn send(&mut self, batch: Batch, pages: Vec<(Range<u64>, u32)>) {
        for (pages, grant) in &pages {
            if let Some(order) = self.granted.get_mut(*grant as usize) {
                order.open += pages.end - pages.start;
            }
        }
        self.batches.insert(batch, pages);
    }

    /// An action was answered, page by page.
    pub(super) fn answered(
        &mut self,
        batch: Batch,
        mut results: impl Iterator<Item = Option<PageOutcome>>,
    ) -> Vec<Answer> {
        let mut answers: Vec<Answer> = Vec::new();
        for (pages, grant) in self.batches.remove(&batch).unwrap_or_default() {
            for page in pages {
                let result = results.next().flatten();
                match answers.last_mut() {
                    Some(last)
                        if last.pages.end == page
                            && last.grant == grant
                            && last.result == result =>
                    {
                        last.pages.end = page + 1;
                    }
                    _ => answers.push(Answer {
                        pages: page..page + 1,
                        grant,
                        result,
                    }),
                }
            }
        }
        answers
    }

    pub(super) fn order_mut(&mut self, grant: u32) -> Option<&mut PageOrder> {
        self.granted.get_mut(grant as usize)
    }

    /// Pages were found, or not.
    pub(super) fn found(&mut self, space: SpaceId, pages: Range<u64>, placed: Placed) {
        self.placed.set(space, pages, placed);
    }

    /// Pages were moved, or could not be.
    pub(super) fn note_move(
        &mut self,
        space: SpaceId,
        pages: Range<u64>,
        note: impl Fn(&mut PageMove),
    ) {
        self.moves.update(space, pages, |history| {
            let mut history = history.unwrap_or_default();
            note(&mut history);
            Some(history)
        });
    }

    /// A page was found on a node: the one where we put it, if that is another.
    pub(super) fn found_elsewhere(&mut self, key: PageKey, node: u16) -> Option<u16> {
        let placed = self.placed.at(key)?;
        let Some(ours) = placed.home else {
            // Memory that was not there has come, and what was to move with it may have come as well.
            self.placed.forget(key);
            return None;
        };
        if ours == node {
            return None;
        }
        let now = Placed {
            home: Some(node),
            ..placed
        };
        self.placed.set(key.space, key.page..key.page + 1, now);
        Some(ours)
    }

    /// It was the kernel that moved a page of ours.
    pub(super) fn note_kernel(
        &mut self,
        (now, hold): (Time, Duration),
        PageKey { space, page }: PageKey,
        (ours, node): (u16, u16),
    ) {
        self.note_move(space, page..page + 1, |history| {
            let ways = (Some(usize::from(ours)), usize::from(node));
            history.stay.moved(now, ways.0, ways.1, hold);
            history.wanted = None;
            history.by_kernel = true;
        });
    }

    /// Forgets spaces that are gone.
    pub(super) fn forget(&mut self, is_there: impl Fn(SpaceId) -> bool) {
        self.moves.retain(|of, _| is_there(of));
        self.placed.retain(|of, _| is_there(of));
    }

    /// Runs that were forgotten for lack of room since this was asked last.
    pub(super) const fn take_forgotten(&mut self) -> u64 {
        std::mem::replace(&mut self.forgotten, 0)
    }

    /// Forgets what is too much to remember, and what was granted once no answer is to come.
    pub(super) fn forget_oldest(&mut self) {
        if self.batches.is_empty() {
            self.granted = Vec::new();
        }
        if self.placed.count() > PAGE_MOVES_MAX {
            // What is not known is asked anew.
            self.forgotten += self.placed.count() as u64;
            self.placed = Runs::default();
        }
        let before = self.moves.count();
        if before <= PAGE_MOVES_MAX {
            return;
        }
        let ends = self.moves.values().map(|history| history.stay.until);
        let mut ends: Vec<Time> = ends.collect();
        ends.sort_unstable();
        let middle = ends[ends.len() / 2];
        self.moves.retain(|_, history| history.stay.until > middle);
        self.forgotten += (before - self.moves.count()) as u64;
    }
}
