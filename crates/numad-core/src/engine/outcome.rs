//! What came of what was ordered.

use std::ops::Range;

use topology::{Pid, TaskKey, Topology};

use super::attachment::{Attachment, Placed};
use super::registry::Registry;
use crate::action::{Action, Outcome, PageOutcome, Refusal};
use crate::hold::Stay;
use crate::policy::{Fate, PageKey, Proposal, Reason, SpaceId};
use crate::tables::tasks::{Bond, Order};
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
        let slot = self.slot_of(registry, task.tid)?;
        let hold = self.options.hold;
        let record = self.tasks.record_mut(slot)?;
        if record.key() != Some(task) {
            return None;
        }
        let Order {
            binding,
            position,
            reason,
            from,
        } = record.order.take()?;
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
            record.bond = Bond::Bound(binding);
            self.remember_mask(&ours, &original);
        } else if refusal == Some(Refusal::ChangedByOther) {
            record.bond = Bond::HandsOff;
            handed_off = Some(task);
        } else {
            record.stay.refused(now, hold);
        }
        if !matches!(
            reason,
            Reason::Revert | Reason::Crowded | Reason::Cache { .. }
        ) {
            let proposal = Proposal::PlaceTask {
                task: position,
                node,
                reason,
            };
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
        self.totals.spent_ns = self.totals.spent_ns.saturating_add(spent_ns);
        self.totals.took_ns = self.totals.took_ns.saturating_add(took_ns);
        self.totals.longest_ns = self.totals.longest_ns.max(spent_ns);
        let all = match outcome {
            Outcome::Refused(refusal) => Some(PageOutcome::Refused(*refusal)),
            _ => None,
        };
        let Some(&first) = pages.first() else {
            return;
        };
        let Some(batch) = self.page_orders.batches.remove(&(space, pid, first)) else {
            return;
        };
        let result = |index: usize| all.or_else(|| tried.get(index).copied());
        let mut index = 0;
        while index < batch.len() {
            let (page, grant) = batch[index];
            let follows = |next: usize| {
                let beside = page + (next - index) as u64;
                batch.get(next) == Some(&(beside, grant)) && result(next) == result(index)
            };
            let end = (index + 1..)
                .find(|&next| !follows(next))
                .unwrap_or(index + 1);
            self.pages_ended(
                now,
                (space, page..page + (end - index) as u64),
                grant,
                (result(index), topology),
            );
            index = end;
        }
    }

    /// Pages side by side that were granted together ended alike.
    fn pages_ended(
        &mut self,
        now: Time,
        (space, pages): (SpaceId, Range<u64>),
        grant: u32,
        (result, topology): (Option<PageOutcome>, &Topology),
    ) {
        let Some(order) = self.page_orders.granted.get_mut(grant as usize) else {
            return;
        };
        let count = pages.end - pages.start;
        let hold = self.options.hold;
        order.open = order
            .open
            .saturating_sub(usize::try_from(count).unwrap_or(usize::MAX));
        let (from, node) = (order.from, order.node);
        match result {
            Some(end @ (PageOutcome::On(there) | PageOutcome::Stood(there))) => {
                let position = topology.position(there);
                let home = position.and_then(|position| u16::try_from(position).ok());
                order.is_done |= position == Some(node);
                if position == Some(node) && end == PageOutcome::On(there) {
                    self.totals.pages_moved += count;
                }
                let was = from.and_then(|from| u16::try_from(from).ok());
                self.placed
                    .set(space, pages.clone(), Placed { home, from: was });
                self.page_moves.update(space, pages.clone(), |history| {
                    let mut history = history.unwrap_or_default();
                    history.wanted = None;
                    match position == Some(node) {
                        true => history.stay.moved(now, from, node, hold),
                        false => history.stay.refused(now, hold),
                    }
                    history
                });
                for page in pages {
                    if let Some(tag) = self.tag(PageKey { space, page }) {
                        self.pages.set_home(tag, home);
                    }
                }
            }
            // Nothing was there: memory that was never touched, or a gap between what was.
            Some(PageOutcome::Refused(Refusal::Gone))
                if count > 1 || order.page.page != pages.start =>
            {
                self.placed.set(space, pages, Placed::default());
            }
            Some(PageOutcome::Refused(refusal)) => {
                *self.totals.refusals.entry(refusal).or_default() += count;
                self.page_moves.update(space, pages, |history| {
                    let mut history = history.unwrap_or_default();
                    history.stay.refused(now, hold);
                    history
                });
            }
            // The host gave up before it came to these: they may be wanted again at once.
            None => {}
        }
        let order = &self.page_orders.granted[grant as usize];
        if order.open == 0 {
            let fate = if order.is_done {
                Fate::Done
            } else {
                Fate::Failed
            };
            let proposal = Proposal::MovePage {
                page: order.page,
                node: order.node,
                reason: order.reason.clone(),
            };
            self.policy.on_fate(now, &proposal, fate);
        }
    }
}
