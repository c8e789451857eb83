//! What the policy wants and what it gets.

use std::collections::BTreeMap;

use topology::TaskKey;

use super::attachment::Attachment;
use super::orders::{PageGrant, TaskGrant};
use super::traffic;
use super::trial::{Measure, Verdict, measure};
use super::window::{Context, Scratch};
use crate::event::EventKind;
use crate::evidence::{Certainty, Evidence};
use crate::guard::{
    self, PAGES_WAIT_MAX, PageCase, PageWish, Standing, TaskWish, ThreadCase, ThreadVerdicts,
};
use crate::policy::{Fate, PageKey, Program, Proposal, Reason, Veto};
use crate::pressure::Pressure;
use crate::tables::tasks::Bond;
use crate::time::Time;

/// What was decided, before it is ordered.
#[derive(Debug, Default)]
pub(super) struct Decision {
    pub threads: Vec<TaskGrant>,
    pub pages: Vec<PageGrant>,
    pub measure: Measure,
    /// Instructions per cycle in the window.
    pub ipc: Option<f64>,
    pub reverting: bool,
    pub undecided: bool,
    /// How sure the thread moves are that were wanted.
    pub plan: Option<Evidence>,
}

/// Where tasks go back to, and why.
struct Remedy {
    wishes: Vec<TaskWish>,
    reason: Reason,
}

/// Dropped threads that are told of in one window for one reason; `Totals::vetoes` counts them all.
const TOLD_MAX: u32 = 64;
/// Proposals of a policy that are looked at.
const PROPOSALS_MAX: usize = 1 << 20;

impl Attachment {
    /// Asks the policy and judges its wishes.
    pub(super) fn decide(
        &mut self,
        context: &mut Context<'_>,
        scratch: &mut Scratch,
        evidence: bool,
    ) -> Decision {
        let mut proposals = std::mem::take(&mut scratch.proposals);
        proposals.clear();
        let ipc = self.pace.close();
        let mut program = Program {
            topology: context.topology,
            tasks: &scratch.tasks,
            capacity: &scratch.capacity,
            free_bytes: &scratch.free_bytes,
            live: &scratch.live,
            decayed: &scratch.decayed,
            pages: &scratch.pages,
            page_bytes: context.page_bytes,
            window: context.now.since(self.live_since),
            samples: self.live_samples,
            prices: self.options.prices,
            handed: scratch.tells_handed.then_some(&scratch.handed),
            ipc,
        };
        let prices = guard::prices(&self.options, &program);
        program.prices = self.totals.measured(prices);
        let nodes: Vec<Option<usize>> = scratch.tasks.iter().map(|task| task.node).collect();
        let measure = measure(&program, &nodes);
        let remedy = self.judge_trial(context.now, &program, (&measure, ipc), evidence);
        let per_amount = traffic::per_amount(&program, self.live_memory);
        let pressure = context.memory.pressure(&program, &prices, per_amount);
        self.takes_gbps = traffic::takes_gbps(&program, per_amount);
        // Nothing new was seen: a policy that goes by samples has nothing to say.
        if self.window_samples > 0 || !self.options.require_gain {
            self.policy.propose(context.now, &program, &mut proposals);
            proposals.truncate(PROPOSALS_MAX);
        }
        let mut decision = Decision {
            measure,
            ipc,
            ..Decision::default()
        };
        let mut judge = Judge {
            program: &program,
            slots: &scratch.slots,
            evidence,
            certainty: Certainty::of(self.options.confidence_min),
            proposals: &proposals,
            pressure: pressure.as_ref(),
            decision: &mut decision,
        };
        self.judge_threads(context, &mut judge, remedy);
        self.judge_pages(context, &mut judge, &scratch.nodes_allowed);
        self.totals.proposals += proposals.len() as u64;
        scratch.proposals = proposals;
        decision
    }

    /// The nodes to put tasks back on when the last placement was a mistake.
    fn judge_trial(
        &mut self,
        now: Time,
        program: &Program<'_>,
        (measure, ipc): (&Measure, Option<f64>),
        evidence: bool,
    ) -> Option<Remedy> {
        if !evidence {
            return None;
        }
        let trial = self.trial.as_mut()?;
        let mut old: Vec<Option<usize>> = program.tasks.iter().map(|task| task.node).collect();
        let mut remedy = Vec::new();
        for (position, task) in program.tasks.iter().enumerate() {
            let before = trial.old.iter().find(|(key, _)| *key == task.key);
            if let Some(&(_, node)) = before.filter(|(_, node)| old[position] != Some(*node)) {
                old[position] = Some(node);
                remedy.push((position, node));
            }
        }
        let in_old = self::measure(program, &old).figure();
        let before = trial.pace();
        let verdict = trial.judge(measure.figure(), in_old, ipc);
        match verdict {
            Verdict::Wait => None,
            Verdict::Keep => {
                self.trial = None;
                self.revert_strikes = self.revert_strikes.saturating_sub(1);
                None
            }
            Verdict::Revert | Verdict::Slower => {
                self.trial = None;
                self.pace.begin_anew();
                let rest = self
                    .options
                    .hold
                    .saturating_mul(1 << self.revert_strikes.min(10));
                self.threads_held_until = now.after(rest);
                self.revert_strikes += 1;
                self.totals.reverts += 1;
                let reason = match (verdict, before, ipc) {
                    (Verdict::Slower, Some(before), Some(ipc)) => Reason::Slower {
                        before_milli: milli(before.ipc),
                        now_milli: milli(ipc),
                    },
                    _ => Reason::Revert,
                };
                Some(Remedy {
                    wishes: remedy,
                    reason,
                })
            }
        }
    }

    fn judge_threads(
        &mut self,
        context: &mut Context<'_>,
        judge: &mut Judge<'_, '_>,
        remedy: Option<Remedy>,
    ) {
        let mut standings = self.standings(context.now, judge.slots, remedy.is_some());
        self.agree_about_partners(judge, &mut standings);
        let wished = |proposal: &Proposal| match proposal {
            Proposal::PlaceTask { task, node, .. } => Some((*task, *node)),
            Proposal::MovePage { .. } => None,
        };
        let wishes: Vec<TaskWish> = judge.proposals.iter().filter_map(wished).collect();
        let case = |reverting| ThreadCase {
            program: judge.program,
            standings: &standings,
            options: &self.options,
            evidence: judge.evidence,
            reverting,
            pressure: judge.pressure,
            certainty: judge.certainty,
        };
        let ThreadVerdicts {
            each: verdicts,
            plan,
            kept,
            each_sure,
        } = case(false).judge(&wishes);
        judge.decision.plan = plan;
        if let Some(remedy) = remedy {
            let verdicts = case(true).judge(&remedy.wishes).each;
            for (&wish, _) in remedy
                .wishes
                .iter()
                .zip(&verdicts)
                .filter(|(_, verdict)| verdict.is_ok())
            {
                judge.grant(wish, remedy.reason.clone(), None);
            }
            judge.decision.reverting = true;
        }
        if judge.evidence {
            self.note_wishes(judge, &wishes);
        }
        for wish in kept {
            judge.grant(wish, Reason::Stay, None);
        }
        let mut told = BTreeMap::new();
        let placements = judge
            .proposals
            .iter()
            .filter(|proposal| wished(proposal).is_some());
        let judged = wishes.iter().zip(verdicts);
        for (proposal, (&wish, verdict)) in placements.zip(judged) {
            let Proposal::PlaceTask { reason, .. } = proposal else {
                continue;
            };
            match verdict {
                Ok(()) => {
                    let sure = each_sure.get(wish.0).copied().flatten();
                    judge.grant(wish, reason.clone(), sure);
                }
                Err(veto) => {
                    judge.decision.undecided |= veto == Veto::Unconfirmed;
                    *self.totals.vetoes.entry(veto).or_default() += 1;
                    let fate = Fate::Dropped(veto);
                    self.policy.on_fate(context.now, proposal, fate);
                    let told: &mut u32 = told.entry(veto).or_default();
                    *told += 1;
                    // That a task stays where it is was not dropped but granted long ago; telling
                    // it in every window would bury the rest.
                    if veto != Veto::AlreadyThere && *told <= TOLD_MAX {
                        self.tell_dropped_task(context, judge.program, proposal, veto);
                    }
                }
            }
        }
    }

    /// What is known of tasks, by position. While an earlier placement is put back, and for some time
    /// after, nobody moves.
    fn standings(&self, now: Time, slots: &[u32], reverting: bool) -> Vec<Standing> {
        let all_held = reverting || now < self.threads_held_until;
        let records = slots.iter().filter_map(|&slot| self.tasks.record(slot));
        records
            .map(|record| Standing {
                placed: record.placed(),
                hands_off: record.bond == Bond::HandsOff,
                held: all_held || !record.stay.is_over(now),
                wanted: record.wanted,
            })
            .collect()
    }

    /// A wish for a task agrees with the last window if that wanted it together with the same partner,
    /// whichever of the two was to move: of two exchanges that bring the same partners together one
    /// is as good as the other, and a policy may find now this one and now that.
    fn agree_about_partners(&self, judge: &Judge<'_, '_>, standings: &mut [Standing]) {
        for (task, node, pair) in partners(judge) {
            if self.sought.contains(&pair)
                && let Some(standing) = standings.get_mut(task)
            {
                standing.wanted = Some(node);
            }
        }
    }

    /// Keeps where tasks were wanted and with whom, so that the next window can agree.
    fn note_wishes(&mut self, judge: &Judge<'_, '_>, wishes: &[TaskWish]) {
        let apart = |&(task, node, _): &(usize, usize, Pair)| {
            let task = judge.program.tasks.get(task);
            task.is_some_and(|task| task.node != Some(node))
        };
        self.sought = partners(judge)
            .filter(apart)
            .map(|(_, _, pair)| pair)
            .collect();
        for &slot in judge.slots {
            if let Some(record) = self.tasks.record_mut(slot) {
                record.wanted = None;
            }
        }
        for &(task, node) in wishes.iter().rev() {
            let slot = judge.slots.get(task);
            if let Some(record) = slot.and_then(|&slot| self.tasks.record_mut(slot)) {
                record.wanted = Some(node).filter(|_| record.placed() != Some(node));
            }
        }
    }

    fn tell_dropped_task(
        &self,
        context: &mut Context<'_>,
        program: &Program<'_>,
        proposal: &Proposal,
        veto: Veto,
    ) {
        let Proposal::PlaceTask { task, node, reason } = proposal else {
            return;
        };
        let nodes = program.topology.nodes();
        if let (Some(task), Some(node)) = (program.tasks.get(*task), nodes.get(*node)) {
            let kind = EventKind::TaskDropped {
                task: task.key,
                node: node.id,
                reason: reason.clone(),
                veto,
            };
            context.events.push(context.now, self.id, kind);
        }
    }

    fn judge_pages(
        &mut self,
        context: &mut Context<'_>,
        judge: &mut Judge<'_, '_>,
        nodes_allowed: &[bool],
    ) {
        let moves = |grant: &TaskGrant| grant.from != Some(grant.node);
        let moving = judge.decision.threads.iter().any(moves);
        let wait = moving && self.pages_waited < PAGES_WAIT_MAX;
        let mut wishes = Vec::new();
        for proposal in judge.proposals {
            if let Proposal::MovePage { page, node, .. } = proposal {
                let wish = self.page_wish(context.now, judge.program, *page, *node);
                wishes.push((proposal, *page, wish));
            }
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
        let nodes = context.topology.nodes().iter();
        let kept = nodes.map(|node| share(node.memory_bytes, self.options.headroom));
        let free = context.free.iter().zip(kept);
        let before: Vec<u64> = free.map(|(free, kept)| free.saturating_sub(kept)).collect();
        let mut room = before.clone();
        let verdicts = case.judge(wishes.iter().map(|(_, _, wish)| wish), &mut room);
        for ((free, before), room) in context.free.iter_mut().zip(before).zip(room) {
            *free = free.saturating_sub(before - room);
        }
        if judge.evidence {
            self.note_page_wishes(wishes.iter().map(|(_, page, wish)| (*page, wish.node)));
        }
        self.pages_waited = match wait && !wishes.is_empty() {
            true => self.pages_waited + 1,
            false => 0,
        };
        let mut dropped = BTreeMap::new();
        for ((proposal, page, wish), verdict) in wishes.into_iter().zip(verdicts) {
            let (Ok(scale), Proposal::MovePage { reason, .. }) = (verdict, proposal) else {
                if let Err(veto) = verdict {
                    dropped.entry(veto).or_insert((0, page)).0 += 1;
                    let fate = Fate::Dropped(veto);
                    self.policy.on_fate(context.now, proposal, fate);
                }
                continue;
            };
            judge.decision.pages.push(PageGrant {
                page,
                node: wish.node,
                from: wish.page.and_then(|page| page.home).map(usize::from),
                reason: reason.clone(),
                scale,
            });
        }
        self.tell_dropped(context, dropped);
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

    fn page_wish<'a>(
        &self,
        now: Time,
        program: &Program<'a>,
        page: PageKey,
        node: usize,
    ) -> PageWish<'a> {
        let slot = self
            .tag(page)
            .and_then(|tag| self.pages.entry(tag))
            .map(|(slot, _)| slot);
        let seen = slot.and_then(|slot| {
            program
                .pages
                .binary_search_by_key(&slot, |page| page.slot)
                .ok()
        });
        let history = self.page_moves.get(&page);
        PageWish {
            page: seen.map(|at| &program.pages[at]),
            node,
            barred: self.is_barred(page.space),
            held: history.is_some_and(|history| !history.stay.is_over(now)),
            unconfirmed: history.is_some_and(|history| history.wanted != Some(node)),
        }
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

/// Wishes being judged.
struct Judge<'a, 'p> {
    program: &'a Program<'p>,
    slots: &'a [u32],
    evidence: bool,
    certainty: Certainty,
    proposals: &'a [Proposal],
    pressure: Option<&'a Pressure>,
    decision: &'a mut Decision,
}

impl Judge<'_, '_> {
    fn grant(&mut self, (position, node): TaskWish, reason: Reason, evidence: Option<Evidence>) {
        self.decision.threads.push(TaskGrant {
            slot: self.slots[position],
            position,
            node,
            from: self.program.tasks[position].node,
            reason,
            evidence,
        });
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share of a size is no larger than it; `as` saturates"
)]
fn share(bytes: u64, part: f64) -> u64 {
    (bytes as f64 * part.clamp(0.0, 1.0)) as u64
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "instructions per cycle are few and not negative; `as` saturates"
)]
pub(super) fn milli(figure: f64) -> u32 {
    (figure * 1000.0 + 0.5) as u32
}

/// Two tasks, in order.
type Pair = (TaskKey, TaskKey);

/// Tasks that are wished to a node for the sake of a partner, and the pair.
fn partners<'a, 'p>(
    judge: &Judge<'a, 'p>,
) -> impl Iterator<Item = (usize, usize, Pair)> + use<'a, 'p> {
    let tasks = judge.program.tasks;
    judge
        .proposals
        .iter()
        .filter_map(move |proposal| match proposal {
            Proposal::PlaceTask {
                task,
                node,
                reason: Reason::Partner { with, .. },
            } => {
                let own = tasks.get(*task)?.key;
                Some((*task, *node, (own.min(*with), own.max(*with))))
            }
            _ => None,
        })
}
