//! What came of what was ordered.

use topology::{Pid, TaskKey, Topology};

use super::attachment::{Attachment, PageOrder};
use super::registry::Registry;
use crate::action::{Action, Outcome, PageOutcome, Refusal};
use crate::policy::{Fate, Proposal, Reason, SpaceId};
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
        if !matches!(reason, Reason::Revert | Reason::Crowded) {
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
        let (tried, spent_ns): (&[PageOutcome], u64) = match outcome {
            Outcome::Moved { pages, spent_ns } => (pages, *spent_ns),
            _ => (&[], 0),
        };
        self.totals.spent_ns = self.totals.spent_ns.saturating_add(spent_ns);
        self.totals.longest_ns = self.totals.longest_ns.max(spent_ns);
        let all = match outcome {
            Outcome::Refused(refusal) => Some(PageOutcome::Refused(*refusal)),
            _ => None,
        };
        for (index, address) in pages.iter().enumerate() {
            let result = all.or_else(|| tried.get(index).copied());
            if let Some(order) = self.page_orders.remove(&(space, pid, *address)) {
                self.page_ended(now, order, result, topology);
            }
        }
    }

    fn page_ended(
        &mut self,
        now: Time,
        order: PageOrder,
        result: Option<PageOutcome>,
        topology: &Topology,
    ) {
        let page = order.page;
        let hold = self.options.hold;
        let mut fate = Fate::Failed;
        match result {
            Some(PageOutcome::On(node)) => {
                let position = topology.position(node);
                let home = position.and_then(|position| u16::try_from(position).ok());
                if let Some(tag) = self.tag(page) {
                    self.pages.set_home(tag, home);
                }
                let history = self.page_moves.entry(page).or_default();
                history.wanted = None;
                if position == Some(order.node) {
                    self.totals.pages_moved += 1;
                    history.stay.moved(now, order.from, order.node, hold);
                    fate = Fate::Done;
                } else {
                    history.stay.refused(now, hold);
                }
            }
            Some(PageOutcome::Refused(refusal)) => {
                *self.totals.refusals.entry(refusal).or_default() += 1;
                let history = self.page_moves.entry(page).or_default();
                history.stay.refused(now, hold);
            }
            // The host gave up before it came to this one: it may be wanted again at once.
            None => {}
        }
        let proposal = Proposal::MovePage {
            page,
            node: order.node,
            reason: order.reason,
        };
        self.policy.on_fate(now, &proposal, fate);
    }
}
