//! Pages that a policy wants elsewhere: which of them go, and which of those beside them.
//!
//! *Runs.* Memory is used by the piece. Pages side by side that are wanted on the same node are judged
//! together, and with those beside them that are there already: what a single sample cannot say of one page, a few
//! say of all ([`Run`]). So pages that are seldom seen go soon after the others. And pages between two that
//! go or are there already, which nobody has seen in use, go with them if none is farther from the next than
//! [`GAP_MAX`]: with a few thousand samples a second most of a program's memory is never seen. A policy that
//! seeks no gain gets what it wants, and no more.
//!
//! *Too little.* Each time pages move, the program is held up and its translations are thrown away. So of a
//! program that stands what would bring less than [`LITTLE`] of all access distance waits until there is more
//! of it. In [`SWEEPS`] windows after pages or threads went the rest follows.

use std::collections::{BTreeMap, BTreeSet};

use super::attachment::Attachment;
use super::judge::{Judge, wished};
use super::orders::{PageGrant, TaskGrant};
use super::window::Context;
use crate::cost;
use crate::event::EventKind;
use crate::evidence::{self, Scale};
use crate::guard::{self, PAGES_WAIT_MAX, PageCase, PageGain, PageWish};
use crate::policy::{Fate, Page, PageKey, Program, Proposal, Reason, Veto};

/// Most pages from one that is wanted on a node to the next that count as one piece with them: 64 KiB, less than
/// any allocator or runtime gives a thread at a time.
const GAP_MAX: u64 = 16;

/// Share of the distance of all accesses that moves must save together. Even where a program does nothing but
/// wait for memory it gets on slower by less without them. What of pages that all use alike seems to be gained by
/// chance is 1 to 3 % in a window (the simulator's `all-shared`).
const LITTLE: f64 = 0.03;

/// Windows after pages or threads went in which other pages may follow for less.
const SWEEPS: u32 = 2;

/// Judged windows without a move of a thread in which pages wait for what comes of a plan of threads that could
/// still be chance.
const STARTING: u32 = 2;

/// Wishes for pages side by side, or beside pages that are there already.
#[derive(Debug, Default)]
struct Run<'a> {
    /// Wishes by position, in order of page.
    wishes: Vec<usize>,
    /// Pages between and beside them that are where these are to go.
    there: Vec<&'a Page>,
    /// Pages between them that are not tracked.
    unseen: Vec<u64>,
}

/// What lies between two pages of a piece, or on one side of it.
#[derive(Debug, Default)]
struct Stretch<'a> {
    there: Vec<&'a Page>,
    unseen: Vec<u64>,
}

/// A wish of the policy for a page.
struct Asked<'a> {
    proposal: &'a Proposal,
    page: PageKey,
    wish: PageWish<'a>,
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
        let wait = moving && self.pages_waited < PAGES_WAIT_MAX;
        let unsettled = self.unsettled(judge);
        let mut asked: Vec<Asked<'_>> = Vec::new();
        for proposal in judge.proposals {
            if let Proposal::MovePage { page, node, reason } = proposal {
                asked.push(Asked {
                    proposal,
                    page: *page,
                    wish: self.page_wish(context, judge, (*page, *node), reason),
                });
            }
        }
        for one in &mut asked {
            let mut users = one.wish.page.into_iter().flat_map(Page::accessors);
            one.wish.unconfirmed |= users.any(|user| unsettled.contains(&(user.task as usize)));
        }
        let case = PageCase {
            program: judge.program,
            prices: guard::prices(&self.options, judge.program),
            options: &self.options,
            allowed: nodes_allowed,
            evidence: judge.evidence,
            wait,
            pressure: judge.pressure,
            certainty: judge.certainty,
        };
        let runs = self.find_runs(judge.program, &asked);
        back_each_other(&case, &runs, &mut asked);
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
        let filled = if self.options.require_gain {
            self.fill_gaps(&case, &runs, (&asked, &verdicts), &mut room)
        } else {
            Vec::new()
        };
        for ((free, before), room) in context.free.iter_mut().zip(before).zip(room) {
            *free = free.saturating_sub(before - room);
        }
        if judge.evidence {
            self.note_page_wishes(asked.iter().map(|one| (one.page, one.wish.node)));
        }
        self.pages_waited = match wait && !asked.is_empty() {
            true => self.pages_waited + 1,
            false => 0,
        };
        let goes = verdicts.iter().any(Result::is_ok);
        judge.decision.arriving = goes && !little;
        self.sweeps = match self.sweeps {
            // Those of threads that went follow, however few.
            _ if moving => SWEEPS,
            _ if goes && !little => SWEEPS,
            left if judge.evidence => left.saturating_sub(1),
            left => left,
        };
        judge.decision.pages.extend(filled);
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
            });
        }
        self.tell_dropped(context, dropped);
    }

    /// Wishes side by side for the same node, with no page between them that is elsewhere, and what is there
    /// already between and around them.
    fn find_runs<'a>(&self, program: &Program<'a>, asked: &[Asked<'a>]) -> Vec<Run<'a>> {
        let tracked = |&index: &usize| asked[index].wish.page.is_some();
        let mut order: Vec<usize> = (0..asked.len()).filter(tracked).collect();
        order.sort_unstable_by_key(|&index| asked[index].page);
        let mut runs: Vec<Run<'_>> = Vec::new();
        let mut last: Option<&Asked<'_>> = None;
        for index in order {
            let one = &asked[index];
            let between = last.and_then(|last| self.between(program, last, one));
            match (runs.last_mut(), between) {
                (Some(run), Some(between)) => {
                    run.wishes.push(index);
                    run.there.extend(between.there);
                    run.unseen.extend(between.unseen);
                }
                _ => runs.push(Run {
                    wishes: vec![index],
                    ..Run::default()
                }),
            }
            last = Some(one);
        }
        for run in &mut runs {
            let (first, last) = (
                &asked[run.wishes[0]],
                &asked[run.wishes[run.wishes.len() - 1]],
            );
            let below = first.page.page.saturating_sub(GAP_MAX)..first.page.page;
            let above = last.page.page + 1..=last.page.page.saturating_add(GAP_MAX);
            for beside in [
                self.beside(program, first, below.rev()),
                self.beside(program, last, above),
            ] {
                run.there.extend(beside.there);
                run.unseen.extend(beside.unseen);
            }
        }
        runs.retain(|run| run.wishes.len() > 1 || !run.there.is_empty());
        runs
    }

    /// What lies between two wishes; none if the two are no piece.
    fn between<'a>(
        &self,
        program: &Program<'a>,
        one: &Asked<'_>,
        next: &Asked<'_>,
    ) -> Option<Stretch<'a>> {
        let (low, high) = (one.page, next.page);
        let near = high.page.saturating_sub(low.page) <= GAP_MAX;
        if low.space != high.space || one.wish.node != next.wish.node || !near {
            return None;
        }
        let mut between = Stretch::default();
        for number in low.page + 1..high.page {
            let key = PageKey {
                space: low.space,
                page: number,
            };
            match self.seen(program, key) {
                Some(page) => match page.home.map(usize::from) {
                    Some(home) if home == one.wish.node => between.there.push(page),
                    Some(_) => return None,
                    None => {}
                },
                None if self.is_own(key) => between.unseen.push(number),
                None => {}
            }
        }
        Some(between)
    }

    /// Pages on one side of a wish, up to the first that is elsewhere, that are where it is to go; and those
    /// between them that are not tracked.
    fn beside<'a>(
        &self,
        program: &Program<'a>,
        one: &Asked<'_>,
        numbers: impl Iterator<Item = u64>,
    ) -> Stretch<'a> {
        let space = one.page.space;
        let (mut beside, mut unseen) = (Stretch::default(), Vec::new());
        for page in numbers {
            let key = PageKey { space, page };
            match self.seen(program, key) {
                Some(page) => match page.home.map(usize::from) {
                    Some(home) if home == one.wish.node => {
                        beside.there.push(page);
                        beside.unseen.append(&mut unseen);
                    }
                    Some(_) => break,
                    None => {}
                },
                None if self.is_own(key) => unseen.push(page),
                None => {}
            }
        }
        beside
    }

    /// Whether a page is memory that only this program can have.
    fn is_own(&self, key: PageKey) -> bool {
        let Some(local) = self.spaces.local_of(key.space) else {
            return false;
        };
        let space = self.spaces.at(local);
        space.is_some_and(|space| space.pid.is_some())
            && self.shares.translate(local, key.page) == (local, key.page)
    }

    /// A page as the policy saw it, if it is tracked.
    fn seen<'a>(&self, program: &Program<'a>, page: PageKey) -> Option<&'a Page> {
        let (slot, _) = self.pages.entry(self.tag(page)?)?;
        let pages: &'a [Page] = program.pages;
        let at = pages.binary_search_by_key(&slot, |page| page.slot).ok()?;
        pages.get(at)
    }

    /// Unseen pages that go with those around them, as far as budget and room allow.
    fn fill_gaps(
        &self,
        case: &PageCase<'_>,
        runs: &[Run<'_>],
        (asked, verdicts): (&[Asked<'_>], &[Result<PageGain, Veto>]),
        room: &mut [u64],
    ) -> Vec<PageGrant> {
        let granted = verdicts.iter().filter(|verdict| verdict.is_ok()).count();
        let mut budget = case.options.page_moves_max.saturating_sub(granted);
        let (mut filled, mut taken) = (Vec::new(), BTreeSet::new());
        for run in runs.iter().filter(|run| !run.unseen.is_empty()) {
            let gains = run.wishes.iter().map(|&index| verdicts[index]);
            let gains: Vec<PageGain> = gains.filter_map(Result::ok).collect();
            let saved: f64 = gains.iter().map(|gain| gain.saved).sum();
            let pages = gains.len() + run.unseen.len();
            let pays = cost::page_plan_pays(&case.prices, saved, pages, case.program.window);
            let first = &asked[run.wishes[0]];
            let Proposal::MovePage { reason, .. } = first.proposal else {
                continue;
            };
            // One that may not go says that not all is as it seems here.
            let relief = gains.iter().any(|gain| gain.is_relief);
            if gains.len() < run.wishes.len() || relief || !pays {
                continue;
            }
            for &number in &run.unseen {
                let page = PageKey {
                    space: first.page.space,
                    page: number,
                };
                // Two pieces may have the same gap between them and what is there.
                let known = self.page_moves.contains_key(&page) || taken.contains(&page);
                let Some(left) = room[first.wish.node].checked_sub(case.program.page_bytes) else {
                    break;
                };
                if known || budget == 0 {
                    continue;
                }
                (budget, room[first.wish.node]) = (budget - 1, left);
                taken.insert(page);
                filled.push(PageGrant {
                    page,
                    node: first.wish.node,
                    from: None,
                    reason: reason.clone(),
                    scale: Scale::default(),
                });
            }
        }
        filled
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
    ) -> PageWish<'a> {
        let program: &'a Program<'_> = judge.program;
        let seen = self.seen(program, page);
        let history = self.page_moves.get(&page);
        let follows = || {
            let moved = history.map(|history| history.stay.last());
            seen.and_then(|seen| self.user_came(judge, seen, node)) > moved
        };
        PageWish {
            page: seen,
            node,
            barred: self.is_barred(page.space),
            held: history.is_some_and(|history| !history.stay.is_over(context.now)),
            unconfirmed: history.is_some_and(|history| history.wanted != Some(node)) && !follows(),
            backed: false,
            evens: matches!(reason, Reason::Even { .. }),
        }
    }

    /// When the task that uses a page most came to the node, if it is there and came by our hand.
    fn user_came(&self, judge: &Judge<'_, '_>, page: &Page, node: usize) -> Option<crate::Time> {
        let user = page.accessors().iter().max_by_key(|user| user.weight)?;
        let position = usize::try_from(user.task).ok()?;
        let there = judge.program.tasks.get(position)?.node == Some(node);
        let record = self.tasks.record(*judge.slots.get(position)?)?;
        there.then(|| record.stay.last())
    }

    fn note_page_wishes(&mut self, wishes: impl Iterator<Item = (PageKey, usize)>) {
        for history in self.page_moves.values_mut() {
            history.wanted = None;
        }
        for (page, node) in wishes {
            if let Some(history) = self.page_moves.get_mut(&page) {
                history.wanted = Some(node);
            }
        }
    }
}

/// Notes which wishes the others of their run are sure of, together with the pages that are there already.
///
/// Of pages that all use alike some lie side by side that chance wants on the same node: of many pages, many runs.
fn back_each_other(case: &PageCase<'_>, runs: &[Run<'_>], asked: &mut [Asked<'_>]) {
    let chosen = evidence::ln_plans(asked.len(), 1, case.allowed.len());
    for run in runs {
        let mut all = Scale::default();
        let mut from = None;
        for &index in &run.wishes {
            let wish = &asked[index].wish;
            let known = wish.page.and_then(|page| Some((page, page.home?)));
            if let Some((page, home)) = known.filter(|_| wish.node < case.allowed.len()) {
                all.add(&case.scale(page, (usize::from(home), wish.node), None));
                from = Some((usize::from(home), wish.node));
            }
        }
        // What is there already would be as far from its users if it were where these are.
        for page in run.there.iter().filter(|page| page.samples > 0) {
            if let Some(moved) = from {
                all.add(&case.scale(page, moved, None));
            }
        }
        let sure = case.certainty.weigh_chosen(&all, chosen).convinces();
        for &index in run.wishes.iter().filter(|_| sure) {
            asked[index].wish.backed = true;
        }
    }
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
    let distances = program.topology.distances();
    let mut all = 0.0;
    for page in program.pages {
        let Some(home) = page.home.map(usize::from) else {
            continue;
        };
        for user in page.accessors() {
            let task = program.tasks.get(user.task as usize);
            if let Some(node) = task.and_then(|task| task.node) {
                all += f64::from(user.weight) * f64::from(distances.between(node, home));
            }
        }
    }
    saved < LITTLE * all
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share of a size is no larger than it; `as` saturates"
)]
fn share(bytes: u64, part: f64) -> u64 {
    (bytes as f64 * part.clamp(0.0, 1.0)) as u64
}
