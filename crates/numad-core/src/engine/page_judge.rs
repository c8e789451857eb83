//! Pages that a policy wants elsewhere: which of them go, and which of those beside them.
//!
//! *Blocks.* Memory is used by the block ([`super::pieces`]). What a single sample cannot say of one page, a few say of
//! all of its block, and pages that nobody has seen in use go with the others. A policy that seeks no gain gets what it
//! wants, page by page, and no more.
//!
//! *Too little.* Each time pages move, the program is held up and its translations are thrown away. So of a
//! program that stands what would bring less than [`LITTLE`] of all access distance waits until there is more
//! of it. In [`SWEEPS`] windows after pages or threads went the rest follows.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::attachment::Attachment;
use super::judge::{Judge, wished};
use super::orders::{PageGrant, TaskGrant};
use super::pieces::Pieces;
use super::window::Context;
use crate::event::EventKind;
use crate::evidence;
use crate::guard::{self, PAGES_WAIT_MAX, PageCase, PageGain, PageWish};
use crate::policy::{Fate, Page, PageKey, Program, Proposal, Reason, Veto};
use crate::published::Method;
use crate::tables::pages::Tag;

/// Share of the distance of all accesses that moves must save together. Even where a program does nothing but
/// wait for memory it gets on slower by less without them. What of pages that all use alike seems to be gained by
/// chance is 1 to 3 % in a window (the simulator's `all-shared`).
const LITTLE: f64 = 0.03;

/// How many times less than who uses it most a task must use memory for it not to wait until the task is placed.
const STRAYED: u32 = 8;

/// Windows after pages or threads went in which other pages may follow for less.
const SWEEPS: u32 = 2;

/// Judged windows without a move of a thread in which pages wait for what comes of a plan of threads that could
/// still be chance.
const STARTING: u32 = 2;

/// A wish of the policy for a page.
struct Asked<'a> {
    proposal: &'a Proposal,
    page: PageKey,
    wish: PageWish<'a>,
    /// The pages that it is about, but for those that rest.
    ranges: Vec<Range<u64>>,
}

impl Attachment {
    pub(super) fn judge_pages(
        &mut self,
        context: &mut Context<'_>,
        judge: &mut Judge<'_, '_>,
        nodes_allowed: &[bool],
    ) {
        let moves = |grant: &TaskGrant| grant.from != Some(grant.node);
        let moving = judge.decision.threads.iter().any(moves);
        let settles = self.options.method == Method::Ours;
        let wait = settles && moving && self.pages_waited < PAGES_WAIT_MAX;
        let unsettled = self.unsettled(judge);
        let mut asked: Vec<Asked<'_>> = Vec::new();
        for proposal in judge.proposals {
            if let Proposal::MovePage { page, node, reason } = proposal {
                let (wish, ranges) = self.page_wish(context, judge, (*page, *node), reason);
                asked.push(Asked {
                    proposal,
                    page: *page,
                    wish,
                    ranges,
                });
            }
        }
        for one in &mut asked {
            let users = one.wish.page.map_or(&[][..], Page::accessors);
            let most = users.iter().map(|user| user.weight).max().unwrap_or(0);
            // Who strayed into a block that is another's does not hold it up.
            let mut users = users.iter().filter(|user| user.weight >= most / STRAYED);
            one.wish.unconfirmed |= users.any(|user| unsettled.contains(&(user.task as usize)));
        }
        let moves_max = self
            .totals
            .page_moves_max(&self.options, (judge.program.window, context.page_bytes));
        let case = PageCase {
            program: judge.program,
            prices: judge.prices,
            options: &self.options,
            moves_max,
            aside_max: self.totals.by_one(moves_max),
            allowed: nodes_allowed,
            evidence: judge.evidence,
            wait,
            pressure: judge.pressure,
            certainty: judge.certainty,
        };
        self.back_by_blocks(&case, judge.pieces, &mut asked);
        let nodes = context.topology.nodes().iter();
        let kept = nodes.map(|node| share(node.memory_bytes, self.options.headroom));
        let free = context.free.iter().zip(kept);
        let before: Vec<u64> = free.map(|(free, kept)| free.saturating_sub(kept)).collect();
        let mut room = before.clone();
        let mut verdicts = case.judge(asked.iter().map(|one| &one.wish), &mut room);
        let little = is_too_little(judge.program, &verdicts);
        if self.options.require_gain && little && self.sweeps == 0 {
            room.clone_from(&before);
            for verdict in verdicts.iter_mut().filter(|verdict| verdict.is_ok()) {
                *verdict = Err(Veto::DoesNotPay);
            }
        }
        for ((free, before), room) in context.free.iter_mut().zip(before).zip(room) {
            *free = free.saturating_sub(before - room);
        }
        if judge.evidence {
            self.note_page_wishes(judge.pieces, &asked);
        }
        self.pages_waited = match wait && !asked.is_empty() {
            true => self.pages_waited + 1,
            false => 0,
        };
        judge.decision.pages_left = left_over(&asked, &verdicts);
        let goes = verdicts.iter().any(Result::is_ok);
        judge.decision.arriving = goes && !little;
        self.sweeps = match self.sweeps {
            // Those of threads that went follow, however few.
            _ if moving => SWEEPS,
            _ if goes && !little => SWEEPS,
            left if judge.evidence => left.saturating_sub(1),
            left => left,
        };
        self.grant_pages(context, judge, asked, verdicts);
    }

    fn grant_pages(
        &mut self,
        context: &mut Context<'_>,
        judge: &mut Judge<'_, '_>,
        asked: Vec<Asked<'_>>,
        verdicts: Vec<Result<PageGain, Veto>>,
    ) {
        let mut dropped = BTreeMap::new();
        for (one, verdict) in asked.into_iter().zip(verdicts) {
            let (Ok(gain), Proposal::MovePage { reason, .. }) = (verdict, one.proposal) else {
                if let Err(veto) = verdict {
                    dropped.entry(veto).or_insert((0, one.page)).0 += 1;
                    let fate = Fate::Dropped(veto);
                    self.policy.on_fate(context.now, one.proposal, fate);
                }
                continue;
            };
            judge.decision.pages.push(PageGrant {
                page: one.page,
                node: one.wish.node,
                from: one.wish.page.and_then(|page| page.home).map(usize::from),
                reason: reason.clone(),
                scale: gain.scale,
                ranges: first_of(one.ranges, gain.pages),
            });
        }
        self.tell_dropped(context, dropped);
    }

    /// Notes which wishes the block that they are part of is sure of, whatever the samples of a page alone say.
    fn back_by_blocks(&self, case: &PageCase<'_>, pieces: &Pieces, asked: &mut [Asked<'_>]) {
        let nodes = evidence::ln_plans(1, 1, case.allowed.len());
        let mut known: BTreeMap<(Tag, usize, usize), bool> = BTreeMap::new();
        for one in asked {
            let home = one.wish.page.and_then(|page| page.home).map(usize::from);
            let (Some(tag), Some(home)) = (self.tag(one.page), home) else {
                continue;
            };
            let Some(block) = pieces
                .block_of(tag)
                .filter(|_| one.wish.node < case.allowed.len())
            else {
                continue;
            };
            let moved = (home, one.wish.node);
            let backed = *known.entry((block, moved.0, moved.1)).or_insert_with(|| {
                let scale = pieces.scale(tag, case.program, moved);
                case.certainty.weigh_chosen(&scale, nodes).convinces()
            });
            one.wish.backed = backed && pieces.own_saving(tag, case.program, moved) >= 0.0;
        }
    }

    /// A page as the policy saw it, if it is tracked.
    fn seen<'a>(&self, judge: &Judge<'a, '_>, page: PageKey) -> Option<&'a Page> {
        let program: &'a Program<'_> = judge.program;
        let tag = self.tag(page)?;
        let tracked = || Some(self.pages.entry(tag)?.0);
        let slot = judge.pieces.slot(tag).or_else(tracked)?;
        let pages: &'a [Page] = program.pages;
        let at = pages.binary_search_by_key(&slot, |page| page.slot).ok()?;
        pages.get(at)
    }

    fn tell_dropped(&mut self, context: &mut Context<'_>, dropped: BTreeMap<Veto, (u64, PageKey)>) {
        for (veto, (count, example)) in dropped {
            *self.totals.vetoes.entry(veto).or_default() += count;
            let kind = EventKind::PagesDropped {
                count,
                example,
                veto,
            };
            context.events.push(context.now, self.id, kind);
        }
    }

    /// Tasks that a plan would move that could be chance, while there is hope that the next windows tell.
    fn unsettled(&self, judge: &Judge<'_, '_>) -> BTreeSet<usize> {
        let unsure = judge.decision.plan_is_open;
        let wishes = judge.proposals.iter().filter_map(wished);
        let movers = wishes.filter(|&(task, node)| {
            let task = judge.program.tasks.get(task);
            unsure && self.still < STARTING && task.is_some_and(|task| task.node != Some(node))
        });
        movers.map(|(task, _)| task).collect()
    }

    fn page_wish<'a>(
        &self,
        context: &Context<'_>,
        judge: &Judge<'a, '_>,
        (page, node): (PageKey, usize),
        reason: &Reason,
    ) -> (PageWish<'a>, Vec<Range<u64>>) {
        let seen = self.seen(judge, page);
        let single = only(page);
        let piece = self.tag(page).and_then(|tag| judge.pieces.ranges(tag));
        let came = seen.and_then(|seen| self.user_came(judge, seen, node));
        let mut free = Vec::new();
        let (mut held, mut unconfirmed) = (false, false);
        for range in piece.unwrap_or(std::slice::from_ref(&single)) {
            let mut at = range.start;
            for (run, history) in self.page_moves.within(page.space, range.clone()) {
                let rests = !history.stay.is_over(context.now);
                let settles = self.options.method == Method::Ours;
                let agrees = history.wanted == Some(node) || came > Some(history.stay.last());
                let waits = settles && !agrees;
                held |= rests;
                unconfirmed |= waits;
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
            barred: self.is_barred(page.space),
            held: pages == 0 && held,
            unconfirmed: pages == 0 && unconfirmed,
            backed: false,
            is_part: self.tag(page).is_some_and(|tag| judge.pieces.has(tag)),
            evens: matches!(reason, Reason::Even { .. }),
        };
        (wish, free)
    }

    /// When the task that uses a page most came to the node, if it is there and came by our hand.
    fn user_came(&self, judge: &Judge<'_, '_>, page: &Page, node: usize) -> Option<crate::Time> {
        let user = page.accessors().iter().max_by_key(|user| user.weight)?;
        let position = usize::try_from(user.task).ok()?;
        let there = judge.program.tasks.get(position)?.node == Some(node);
        let record = self.tasks.record(*judge.slots.get(position)?)?;
        there.then(|| record.stay.last())
    }

    fn note_page_wishes(&mut self, pieces: &Pieces, asked: &[Asked<'_>]) {
        self.page_moves.each(|history| history.wanted = None);
        for one in asked {
            let single = only(one.page);
            let piece = self.tag(one.page).and_then(|tag| pieces.ranges(tag));
            for range in piece.unwrap_or(std::slice::from_ref(&single)) {
                let node = one.wish.node;
                self.page_moves
                    .change(one.page.space, range.clone(), |history| {
                        history.wanted = Some(node);
                    });
            }
        }
    }
}

/// A page that stands for itself.
const fn only(page: PageKey) -> Range<u64> {
    page.page..page.page.saturating_add(1)
}

/// The first `count` of these pages.
fn first_of(mut ranges: Vec<Range<u64>>, mut count: u64) -> Vec<Range<u64>> {
    for range in &mut ranges {
        range.end = range.end.min(range.start.saturating_add(count));
        count -= range.end - range.start;
    }
    ranges.retain(|range| !range.is_empty());
    ranges
}

/// Pages that may go, and that the budget of the window does not reach.
fn left_over(asked: &[Asked<'_>], verdicts: &[Result<PageGain, Veto>]) -> u64 {
    let each = asked.iter().zip(verdicts);
    let left = each.map(|(one, verdict)| match verdict {
        Ok(gain) => one.wish.pages.saturating_sub(gain.pages),
        Err(Veto::Budget) => one.wish.pages,
        Err(_) => 0,
    });
    left.sum()
}

/// Whether all that may go is not worth an interruption. What the budget held back counts as more.
fn is_too_little(program: &Program<'_>, verdicts: &[Result<PageGain, Veto>]) -> bool {
    if verdicts
        .iter()
        .any(|verdict| matches!(verdict, Err(Veto::Budget)))
    {
        return false;
    }
    let saved: f64 = verdicts.iter().flatten().map(|gain| gain.saved).sum();
    saved < LITTLE * guard::ways(program)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share of a size is no larger than it; `as` saturates"
)]
fn share(bytes: u64, part: f64) -> u64 {
    (bytes as f64 * part.clamp(0.0, 1.0)) as u64
}
