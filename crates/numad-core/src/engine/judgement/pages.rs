//! Which pages of those that a policy wants elsewhere go.

use std::ops::Range;

use super::super::orders::{PageGrant, TaskGrant};
use super::super::wishes::Wishes;
use super::{Decision, Judgement, Limits, ally};
use crate::guard::{PAGES_WAIT_MAX, PageCase, PageGain, PageWish};
use crate::policy::{Page, Program, Proposal, Veto};
use crate::published::Method;

impl Judgement {
    pub(super) fn judge_pages(
        &mut self,
        program: &Program<'_>,
        wanted: &Wishes<'_>,
        limits: &Limits<'_>,
        decision: &mut Decision,
    ) {
        let moves = |grant: &TaskGrant| grant.from != Some(grant.node);
        let moving = decision.threads.iter().any(moves);
        let settles = limits.options.method == Method::Ours;
        let wait = settles && (moving || limits.has_news) && self.pages_waited < PAGES_WAIT_MAX;
        let wishes: Vec<&PageWish<'_>> = wanted.pages.iter().map(|asked| &asked.wish).collect();
        let case = PageCase {
            program,
            options: limits.options,
            moves_max: limits.page_moves_max,
            aside_max: limits.aside_max,
            allowed: limits.nodes_allowed,
            evidence: limits.evidence,
            wait,
            pressure: limits.pressure.filter(|pressure| pressure.is_known()),
        };
        let mut room = limits.room.clone();
        let verdicts = case.judge(wishes.iter().copied(), &mut room);
        let filled = limits.room.iter().zip(room);
        decision.filled = filled.map(|(before, left)| before - left).collect();
        self.pages_waited = match wait && !wishes.is_empty() {
            true => self.pages_waited + 1,
            false => 0,
        };
        decision.pages_left = left_over(&wishes, &verdicts);
        let few = ally::FEW * program.pages.iter().map(Page::weight).sum::<u64>() as f64;
        let accesses = |counts: fn(&Result<PageGain, Veto>) -> bool| {
            let each = wishes.iter().zip(&verdicts);
            let pages = each.filter(|(_, verdict)| counts(verdict));
            let pages = pages.filter_map(|(wish, _)| wish.page);
            pages.map(Page::weight).sum::<u64>() as f64
        };
        let going = accesses(|verdict| matches!(verdict, Ok(_) | Err(Veto::Budget)));
        let unsure = accesses(|verdict| matches!(verdict, Err(Veto::Evidence)));
        decision.arriving = going > few;
        decision.unsure = limits.more_tells && unsure > going.max(few);
        decision.grant_pages(wanted, verdicts);
    }
}

impl Decision {
    fn grant_pages(&mut self, wanted: &Wishes<'_>, verdicts: Vec<Result<PageGain, Veto>>) {
        for (asked, verdict) in wanted.pages.iter().zip(verdicts) {
            match (verdict, &wanted.proposals[asked.proposal]) {
                (Ok(gain), Proposal::MovePage { page, node, reason }) => {
                    self.pages.push(PageGrant {
                        page: *page,
                        node: *node,
                        from: asked.wish.page.and_then(|page| page.home).map(usize::from),
                        reason: reason.clone(),
                        scale: gain.scale,
                        ranges: first_of(asked.ranges.clone(), gain.pages),
                    });
                }
                (Err(veto), _) => self.dropped.push((asked.proposal, veto)),
                _ => {}
            }
        }
    }
}

/// Pages that may go, and that the budget of the window does not reach.
fn left_over(wishes: &[&PageWish<'_>], verdicts: &[Result<PageGain, Veto>]) -> u64 {
    let each = wishes.iter().zip(verdicts);
    let left = each.map(|(wish, verdict)| match verdict {
        Ok(gain) => wish.pages.saturating_sub(gain.pages),
        Err(Veto::Budget) => wish.pages,
        Err(_) => 0,
    });
    left.sum()
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
