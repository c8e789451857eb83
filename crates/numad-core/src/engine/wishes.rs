//! What a policy wants, each wish with what is known of its thread or its page beside what the policy saw.
//!
//! Memory is used by the block ([`super::seen::pieces`]). What a single sample cannot say of one page, a few say of
//! all of its block, and pages that nobody has seen in use go with the others. A policy that seeks no gain gets what it
//! wants, page by page, and no more.

use std::collections::BTreeMap;
use std::ops::Range;
use std::slice;

use super::judgement::ally::Left;
use super::ordered::Ordered;
use super::seen::Seen;
use super::seen::pieces::Pieces;
use crate::evidence::Certainty;
use crate::guard::{PageWish, Standing, UnseenUse, WeighedPlacement};
use crate::matrix::CommMatrix;
use crate::policy::{Page, PageKey, Policy, Program, Proposal, Reason};
use crate::tables::pages::Tag;
use crate::tables::tasks::{Bond, Record};
use crate::time::Time;

/// See the module.
#[derive(Debug)]
pub(super) struct Wishes<'a> {
    pub proposals: &'a [Proposal],
    /// What is known of tasks, by position.
    pub standings: Vec<Standing>,
    /// The wishes for pages among the proposals, in order.
    pub pages: Vec<Asked<'a>>,
    /// Messages between tasks, as the samples that would have shown as much sharing.
    pub said: &'a CommMatrix,
    /// Placements that were weighed already.
    pub weighed: Vec<WeighedPlacement>,
}

/// A wish for a page.
#[derive(Debug)]
pub(super) struct Asked<'a> {
    /// The number of the proposal.
    pub proposal: usize,
    pub page: PageKey,
    pub wish: PageWish<'a>,
    /// All pages that it is about; none if it is the one.
    piece: Option<&'a [Range<u64>]>,
    only: Range<u64>,
    /// Those of them that neither rest nor wait.
    pub ranges: Vec<Range<u64>>,
}

impl Asked<'_> {
    /// All pages that it is about.
    pub(super) fn all(&self) -> &[Range<u64>] {
        self.piece.unwrap_or(slice::from_ref(&self.only))
    }
}

/// What wishes are looked up in.
#[derive(Debug)]
pub(super) struct Known<'k, 'a> {
    pub now: Time,
    pub seen: &'k Seen,
    pub ordered: &'k Ordered,
    pub policy: &'k dyn Policy,
    /// Slots of tasks, by position.
    pub slots: &'k [u32],
    pub pieces: &'a Pieces,
    pub certainty: Certainty,
    pub settles: bool,
    /// What is the kernel's.
    pub left: &'k Left,
    /// What each task is taken to do with memory that is in no sample, and whether that is most.
    pub unseen: Option<(f64, bool)>,
}

impl<'a> Wishes<'a> {
    pub(super) fn new(
        known: &Known<'_, 'a>,
        program: &Program<'a>,
        proposals: &'a [Proposal],
        (said, weighed): (&'a CommMatrix, Vec<WeighedPlacement>),
    ) -> Self {
        let mut backing = BTreeMap::new();
        let pages = proposals.iter().enumerate();
        let pages = pages.filter_map(|(number, proposal)| match proposal {
            Proposal::MovePage { page, node, reason } => {
                let mut asked = known.page(number, program, (*page, *node), reason);
                asked.wish.backed = known.backs(program, &asked, &mut backing);
                Some(asked)
            }
            Proposal::PlaceTask { .. } => None,
        });
        Self {
            proposals,
            standings: known.standings(),
            pages: pages.collect(),
            said,
            weighed,
        }
    }
}

impl<'a> Known<'_, 'a> {
    /// What is known of tasks, by position.
    pub(super) fn standings(&self) -> Vec<Standing> {
        let records = self.slots.iter();
        let records = records.filter_map(|&slot| self.seen.record(slot));
        let standing = |(task, record)| self.standing(task, record);
        records.enumerate().map(standing).collect()
    }

    fn standing(&self, task: usize, record: &Record) -> Standing {
        Standing {
            // One on another core than the policy wants is not yet where it should be.
            placed: record.placed().filter(|_| !self.wants_another_core(record)),
            hands_off: record.bond == Bond::HandsOff,
            left: self.left.has(task),
            held: !record.stay.is_over(self.now),
            wanted: None,
            unseen: self
                .unseen
                .zip(record.began)
                .map(|((weight, is_most), node)| UnseenUse {
                    node: usize::from(node),
                    weight,
                    is_most,
                }),
        }
    }

    fn wants_another_core(&self, record: &Record) -> bool {
        let named = record.key().and_then(|task| self.policy.core_of(task));
        named.is_some() && record.binding().and_then(|binding| binding.core) != named
    }

    fn page(
        &self,
        proposal: usize,
        program: &Program<'a>,
        (page, node): (PageKey, usize),
        reason: &Reason,
    ) -> Asked<'a> {
        let tag = self.seen.tag(page);
        let seen = tag.and_then(|tag| self.as_seen(program.pages, tag));
        let piece = tag.and_then(|tag| self.pieces.ranges(tag));
        let only = page.page..page.page.saturating_add(1);
        let came = seen.and_then(|seen| self.user_came(program, seen, node));
        let evens = matches!(reason, Reason::Even { .. });
        // Which of the nodes with too little takes such a page says nothing of the page.
        let is_anyones = evens && seen.is_some_and(|page| page.remembered() == 0.0);
        let mut free = Vec::new();
        let (mut held, mut unconfirmed, mut by_kernel) = (false, false, false);
        for range in piece.unwrap_or(slice::from_ref(&only)) {
            let mut at = range.start;
            for (run, history) in self.ordered.moves(page.space, range.clone()) {
                let rests = !history.stay.is_over(self.now);
                let kernel_did = self.left.balances && history.by_kernel;
                let agrees = !kernel_did && history.wanted.map(usize::from) == Some(node)
                    || came > Some(history.stay.last);
                let waits = self.settles && !agrees && !is_anyones;
                held |= rests;
                unconfirmed |= waits;
                by_kernel |= kernel_did && waits;
                // What rests or waits does so alone: the rest of a piece may go.
                if rests || waits {
                    free.push(at..run.start);
                    at = run.end;
                }
            }
            free.push(at..range.end);
        }
        free.retain(|range| !range.is_empty());
        let pages = free.iter().map(|range| range.end - range.start).sum();
        let wish = PageWish {
            page: seen,
            node,
            pages,
            barred: self.seen.is_barred(page.space),
            held: pages == 0 && held,
            unconfirmed: pages == 0 && unconfirmed,
            backed: false,
            is_part: tag.is_some_and(|tag| self.pieces.has(tag)),
            evens,
            by_kernel: pages == 0 && by_kernel
                || seen.is_some_and(|seen| self.left.has_page(seen, node, program.tasks)),
        };
        Asked {
            proposal,
            page,
            wish,
            piece,
            only,
            ranges: free,
        }
    }

    /// A page as the policy saw it, if it is tracked.
    fn as_seen(&self, pages: &'a [Page], tag: Tag) -> Option<&'a Page> {
        let tracked = || self.seen.slot_of_page(tag);
        let slot = self.pieces.slot(tag).or_else(tracked)?;
        let at = pages.binary_search_by_key(&slot, |page| page.slot).ok()?;
        pages.get(at)
    }

    /// When the task that uses a page most came to the node, if it is there and came by our hand.
    fn user_came(&self, program: &Program<'_>, page: &Page, node: usize) -> Option<Time> {
        let user = page.main_user()?;
        let position = usize::try_from(user.task).ok()?;
        let there = program.tasks.get(position)?.node == Some(node);
        let record = self.seen.record(*self.slots.get(position)?)?;
        there.then_some(record.stay.last)
    }

    /// Whether the block that a page is part of is sure that it goes, whatever the samples of the page alone say. What
    /// was found out of blocks so far is kept, by where they are and go.
    fn backs(
        &self,
        program: &Program<'_>,
        Asked { page, wish, .. }: &Asked<'_>,
        found: &mut BTreeMap<(Tag, usize, usize), bool>,
    ) -> bool {
        let home = wish.page.and_then(|page| page.home).map(usize::from);
        let (Some(tag), Some(home)) = (self.seen.tag(*page), home) else {
            return false;
        };
        let nodes = program.topology.nodes().len();
        let Some(block) = self.pieces.block_of(tag).filter(|_| wish.node < nodes) else {
            return false;
        };
        let how = (self.certainty, (home, wish.node));
        let asked = found.entry((block, home, wish.node));
        *asked.or_insert_with(|| self.pieces.backs(tag, self.seen.points(), program, how))
    }
}
