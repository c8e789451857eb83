//! What came of what was ordered.

use topology::{Pid, TaskKey, Topology};

use super::attachment::Attachment;
use super::ordered::{Answer, Placed};
use super::registry::Registry;
use crate::action::{Action, Outcome, PageOutcome, Refusal};
use crate::hold::Stay;
use crate::policy::{Fate, Proposal, Reason, SpaceId};
use crate::tables::tasks::Bond;
use crate::time::Time;

impl Attachment {
    /// Takes the outcome of an action. Gives the task that turned out to be someone else's.
    pub(super) fn outcome(
        &mut self,
        now: Time,
        action: &Action,
        outcome: &Outcome,
        (registry, topology): (&Registry, &Topology),
    ) -> Option<TaskKey> {
        match action {
            Action::Bind { task, .. } => self.bound(now, *task, outcome, registry),
            Action::MovePages {
                space, pid, pages, ..
            } => {
                self.moved(now, (*space, *pid, pages), outcome, topology);
                None
            }
        }
    }

    fn bound(
        &mut self,
        now: Time,
        task: TaskKey,
        outcome: &Outcome,
        registry: &Registry,
    ) -> Option<TaskKey> {
        let done = *outcome == Outcome::Bound;
        let refusal = match outcome {
            Outcome::Refused(refusal) => Some(*refusal),
            _ => None,
        };
        if let Some(refusal) = refusal {
            *self.totals.refusals.entry(refusal).or_default() += 1;
        }
        let slot = self.seen.slot_of(registry, task.tid)?;
        let hold = self.options.hold;
        let record = self.seen.record_mut(slot)?;
        if record.key() != Some(task) {
            return None;
        }
        let order = *record.order.take()?;
        let (binding, from) = (order.binding, order.from);
        let (node, mut handed_off) = (binding.node, None);
        if done {
            self.totals.threads_bound += 1;
            if from != Some(node) {
                self.totals.threads_moved += 1;
                record.stay.moved(now, from, node, hold);
                record.stay_within = Stay::default();
            }
            if let Some(cache) = binding.cache {
                let before = match &record.bond {
                    Bond::Bound(before) if before.node == node => before.cache,
                    _ => None,
                };
                if before != Some(cache) {
                    record.stay_within.moved(now, before, cache, hold);
                }
            }
            let (ours, original) = (binding.cpus.clone(), record.original.clone());
            record.bond = Bond::Bound(Box::new(binding));
            self.ordered.remember_mask(&ours, &original);
        } else if refusal == Some(Refusal::ChangedByOther) {
            record.bond = Bond::HandsOff;
            handed_off = Some(task);
        } else {
            record.stay.refused(now, hold);
        }
        if !matches!(
            order.reason,
            Reason::Revert | Reason::Crowded | Reason::Wider | Reason::Cache { .. }
        ) {
            let proposal = Proposal::place_task(order.position, node, order.reason);
            let fate = if done { Fate::Done } else { Fate::Failed };
            self.policy.on_fate(now, &proposal, fate);
        }
        handed_off
    }

    fn moved(
        &mut self,
        now: Time,
        (space, pid, pages): (SpaceId, Pid, &[u64]),
        outcome: &Outcome,
        topology: &Topology,
    ) {
        let (tried, spent_ns, took_ns): (&[PageOutcome], u64, u64) = match outcome {
            Outcome::Moved {
                pages,
                spent_ns,
                took_ns,
            } => (pages, *spent_ns, *took_ns),
            _ => (&[], 0, 0),
        };
        // Pages that were refused took time as well, and say nothing of what one costs that moves.
        let moved = tried
            .iter()
            .filter(|page| matches!(page, PageOutcome::On(_)));
        let (moved, all) = (moved.count() as u64, tried.len().max(1) as u64);
        let totals = &mut self.totals;
        for (sum, ns) in [
            (&mut totals.spent_ns, spent_ns),
            (&mut totals.took_ns, took_ns),
        ] {
            *sum = sum.saturating_add(ns.saturating_mul(moved) / all);
        }
        let all = match outcome {
            Outcome::Refused(refusal) => Some(PageOutcome::Refused(*refusal)),
            _ => None,
        };
        // What it was called by may mean another program by now.
        let Some(&first) = pages.first().filter(|_| self.seen.has(space)) else {
            return;
        };
        let tried = tried.iter().copied().map(Some);
        let results = tried.chain(std::iter::repeat(all));
        for answer in self.ordered.answered((space, pid, first), results) {
            self.pages_ended(now, space, answer, topology);
        }
        self.ordered.forget_oldest();
    }

    /// Pages side by side that were granted together ended alike.
    fn pages_ended(&mut self, now: Time, space: SpaceId, answer: Answer, topology: &Topology) {
        let Answer { pages, .. } = answer;
        let Some(order) = self.ordered.order_mut(answer.grant) else {
            return;
        };
        let count = pages.end - pages.start;
        let hold = self.options.hold;
        order.open = order.open.saturating_sub(count);
        let (from, node) = (order.from, order.node);
        match answer.result {
            Some(end @ (PageOutcome::On(there) | PageOutcome::Stood(there))) => {
                let position = topology.position(there);
                let is_there = position == Some(node);
                order.is_done |= is_there;
                if is_there && end == PageOutcome::On(there) {
                    self.totals.pages_moved += count;
                }
                let home = position.and_then(|position| u16::try_from(position).ok());
                let was = from.and_then(|from| u16::try_from(from).ok());
                let placed = Placed { home, from: was };
                self.ordered.found(space, pages.clone(), placed);
                self.ordered.note_move(space, pages.clone(), |history| {
                    history.wanted = None;
                    history.by_kernel = false;
                    match is_there {
                        true => history.stay.moved(now, from, node, hold),
                        false => history.stay.refused(now, hold),
                    }
                });
                self.seen.set_homes(space, pages, home);
            }
            // Nothing was there: memory that was never touched, a gap between what was, or given back.
            Some(PageOutcome::Refused(Refusal::Gone)) => {
                self.ordered.found(space, pages.clone(), Placed::default());
                self.seen.set_homes(space, pages, None);
            }
            Some(PageOutcome::Refused(refusal)) => {
                *self.totals.refusals.entry(refusal).or_default() += count;
                self.ordered.note_move(space, pages, |history| {
                    history.stay.refused(now, hold);
                });
            }
            // The host gave up before it came to these: they may be wanted again at once.
            None => {}
        }
        let order = self.ordered.order_mut(answer.grant);
        let Some(order) = order.filter(|order| order.open == 0) else {
            return;
        };
        let done = order.is_done;
        let fate = if done { Fate::Done } else { Fate::Failed };
        let proposal = Proposal::move_page(order.page, order.node, order.reason.clone());
        self.policy.on_fate(now, &proposal, fate);
    }
}
