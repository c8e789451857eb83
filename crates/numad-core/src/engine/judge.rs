//! What the policy wants and what it gets.

use std::collections::BTreeMap;

use topology::TaskKey;

use super::attachment::Attachment;
use super::orders::{PageGrant, TaskGrant};
use super::pieces::Pieces;
use super::traffic;
use super::trial::{Measure, Verdict, measure};
use super::window::{Context, Scratch};
use crate::capacity::spread;
use crate::cost::{self, Prices};
use crate::event::EventKind;
use crate::evidence::{Certainty, Evidence};
use crate::guard::{self, Standing, TaskWish, ThreadCase, ThreadVerdicts};
use crate::matrix::CommMatrix;
use crate::policy::{Fate, Program, Proposal, Reason, Veto};
use crate::pressure::Pressure;
use crate::tables::tasks::{Bond, Record};
use crate::time::Time;

/// What was decided, before it is ordered.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(super) struct Decision {
    pub threads: Vec<TaskGrant>,
    pub pages: Vec<PageGrant>,
    pub measure: Measure,
    /// Instructions per cycle in the window.
    pub ipc: Option<f64>,
    /// Enough samples stand behind the window.
    pub evidence: bool,
    pub reverting: bool,
    pub undecided: bool,
    /// Pages go that are worth mentioning.
    pub arriving: bool,
    /// Pages that may go, and are too many for this window.
    pub pages_left: u64,
    /// How sure the thread moves are that were wanted.
    pub plan: Option<Evidence>,
    /// They could be chance, and more windows may tell.
    pub plan_is_open: bool,
}

/// Where tasks go back to, and why.
struct Remedy {
    wishes: Vec<TaskWish>,
    reason: Reason,
}

/// Dropped threads that are told of in one window for one reason; `Totals::vetoes` counts them all.
const TOLD_MAX: u32 = 64;
/// How much of what a plan gains the plan of the window before must still gain for the two to agree.
const AGREES: f64 = 0.5;
/// The same, of what a plan gains by this window, by all windows.
const AGREES_IN_ALL: f64 = 0.1;
/// Judged windows in a row without a move of a thread from which a program is at rest.
const REST_MIN: u32 = 3;
/// The same from which it stands still, so that a window that shows something else is believed. After fewer the
/// windows are so short that a change within one leaves a plan that fits neither what was nor what is.
const STILL_MIN: u32 = 6;
/// Cosine of what is said now and what was said before below which the program does something else.
const ALIKE: f64 = 0.98;
/// The same below which it does next to nothing that it did before. A window in which a change fell half-way is as
/// like the one before as to that, and shows enough of what is new to go by.
const OTHER: f64 = 0.7;
/// Holds that a program is left alone after threads were put back, unless it does something else before, and twice as
/// long after each time: the same plan would be found again. As many as forgive a thread its going back and forth.
const REST_HOLDS: u32 = 16;
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
            others_gbps: &[],
            era: 0,
            records: &scratch.records,
        };
        if evidence {
            self.era.note(&program, self.weight_per_sample());
        }
        program.era = self.era.number();
        let prices = self.prices(&program);
        program.prices = self.totals.measured(prices);
        let nodes: Vec<Option<usize>> = scratch.tasks.iter().map(|task| task.node).collect();
        let measure = measure(&program, &nodes);
        let remedy = self.judge_trial(context.now, &program, (&measure, ipc), evidence);
        let per_amount = traffic::per_amount(&program, self.live_memory);
        let pressure = context.memory.pressure(&program, &prices, per_amount);
        self.takes_gbps = traffic::takes_gbps(&program, per_amount);
        let others_gbps = pressure
            .as_ref()
            .map_or_else(Vec::new, Pressure::others_gbps);
        program.others_gbps = &others_gbps;
        // A policy that was chosen for what it does has all places.
        let spread = spread(&scratch.capacity, &nodes);
        if pressure.is_none() && self.options.require_gain {
            program.capacity = &spread;
        }
        // Nothing new was seen: a policy that goes by samples has nothing to say.
        if self.window_samples > 0 || !self.options.require_gain {
            self.policy.propose(context.now, &program, &mut proposals);
            proposals.truncate(PROPOSALS_MAX);
        }
        let mut decision = Decision {
            measure,
            ipc,
            evidence,
            ..Decision::default()
        };
        let mut judge = Judge {
            program: &program,
            prices,
            likeness: likeness(&program),
            slots: &scratch.slots,
            pieces: &scratch.pieces,
            evidence,
            certainty: self.certainty,
            said: &scratch.said,
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

    pub(super) fn prices(&self, program: &Program<'_>) -> Prices {
        guard::prices(&self.options, program, self.interval.calm())
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
        let in_old = self::measure(program, &old);
        let before = trial.pace();
        let verdict = trial.judge(measure, &in_old, ipc);
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
                    .saturating_mul(REST_HOLDS << self.revert_strikes.min(10));
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
        let changed = self.does_something_else(context.now, judge.likeness);
        let mut standings = self.standings(context.now, judge.slots, remedy.is_some());
        self.agree_about_partners(judge, &mut standings);
        let wishes: Vec<TaskWish> = judge.proposals.iter().filter_map(wished).collect();
        let agreed = self.agrees(judge, &wishes);
        let case = |reverting| ThreadCase {
            program: judge.program,
            standings: &standings,
            prices: judge.prices,
            options: &self.options,
            evidence: judge.evidence,
            reverting,
            agreed,
            at_rest: self.still >= REST_MIN && !changed,
            pressure: judge.pressure,
            certainty: judge.certainty,
            said: judge.said,
        };
        let ThreadVerdicts {
            each: verdicts,
            plan,
            is_open,
            kept,
            each_sure,
        } = case(false).judge(&wishes);
        (judge.decision.plan, judge.decision.plan_is_open) = (plan, is_open);
        if let Some(remedy) = remedy {
            let verdicts = case(true).judge(&remedy.wishes).each;
            let judged = remedy.wishes.iter().zip(&verdicts);
            for (&wish, _) in judged.filter(|(_, verdict)| verdict.is_ok()) {
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

    /// Whether the program does something else than it did; what was put back is no lesson for that.
    const fn does_something_else(&mut self, now: Time, likeness: f64) -> bool {
        let changed = likeness < OTHER;
        if changed {
            self.threads_held_until = now;
        }
        changed
    }

    /// What is known of tasks, by position. While an earlier placement is put back, and until the program does
    /// something else or a long time has gone by, nobody moves.
    fn standings(&self, now: Time, slots: &[u32], reverting: bool) -> Vec<Standing> {
        let all_held = reverting || now < self.threads_held_until;
        let records = slots.iter().filter_map(|&slot| self.tasks.record(slot));
        records
            .map(|record| Standing {
                // One on another core than the policy wants is not yet where it should be.
                placed: record.placed().filter(|_| !self.wants_another_core(record)),
                hands_off: record.bond == Bond::HandsOff,
                held: all_held || !record.stay.is_over(now),
                wanted: record.wanted,
            })
            .collect()
    }

    fn wants_another_core(&self, record: &Record) -> bool {
        let named = record.key().and_then(|task| self.policy.core_of(task));
        named.is_some() && record.binding().and_then(|binding| binding.core) != named
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

    /// Whether windows agree that threads are misplaced, if not about the node of each.
    fn agrees(&mut self, judge: &Judge<'_, '_>, wishes: &[TaskWish]) -> bool {
        if judge.evidence {
            self.note_change(judge.likeness);
        }
        self.agrees_with_last(judge, wishes) || self.outweighs(judge, wishes)
    }

    /// Whether what the last judged window wanted would still gain, at least [`AGREES`] of what is to be
    /// gained by what is wanted now.
    fn agrees_with_last(&self, judge: &Judge<'_, '_>, wishes: &[TaskWish]) -> bool {
        let program = judge.program;
        let now: Vec<Option<usize>> = program.tasks.iter().map(|task| task.node).collect();
        let (mut then, wanted) = (now.clone(), wished_nodes(program, wishes));
        let nodes = program.capacity.len();
        for (task, place) in program.tasks.iter().zip(&mut then) {
            if let Some(&node) = self.planned.get(&task.key).filter(|&&node| node < nodes) {
                *place = Some(node);
            }
        }
        if then == now || wanted == now {
            return false;
        }
        let far = |nodes: &[Option<usize>]| {
            cost::placement_distance(program.live, nodes, program.topology.distances())
        };
        let (stay, then, wanted) = (far(&now), far(&then), far(&wanted));
        wanted < stay && stay - then >= AGREES * (stay - wanted)
    }

    /// Whether of a program that stood still what is wanted now needs no second window: because it does next to
    /// nothing that it did before, so that what is known of it is what this window shows, as of a new program; or
    /// because it gains even by all that was seen, [`AGREES_IN_ALL`] of what it gains by this window. A window in
    /// which the program changed on the way has shown half of the new already, and counts as the first of two.
    fn outweighs(&self, judge: &Judge<'_, '_>, wishes: &[TaskWish]) -> bool {
        let program = judge.program;
        if self.still < STILL_MIN {
            return false;
        }
        let now: Vec<Option<usize>> = program.tasks.iter().map(|task| task.node).collect();
        let wanted = wished_nodes(program, wishes);
        let gain = |matrix: &CommMatrix| {
            let far = |nodes: &[Option<usize>]| {
                cost::placement_distance(matrix, nodes, program.topology.distances())
            };
            far(&now) - far(&wanted)
        };
        let live = gain(program.live);
        let by_all = || self.changing > 1 && gain(program.decayed) >= AGREES_IN_ALL * live;
        live > 0.0 && (judge.likeness < OTHER || by_all())
    }

    /// Counts windows in a row in which the program does not do what it did before.
    const fn note_change(&mut self, likeness: f64) {
        self.changing = match likeness < ALIKE {
            true => self.changing.saturating_add(1),
            false => 0,
        };
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
        let keyed = |&(task, node): &TaskWish| Some((judge.program.tasks.get(task)?.key, node));
        self.planned = wishes.iter().rev().filter_map(keyed).collect();
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
}

/// Wishes being judged.
pub(super) struct Judge<'a, 'p> {
    pub(super) program: &'a Program<'p>,
    pub(super) prices: Prices,
    /// Cosine of what is said now and what was said before.
    likeness: f64,
    pub(super) slots: &'a [u32],
    pub(super) pieces: &'a Pieces,
    pub(super) evidence: bool,
    pub(super) certainty: Certainty,
    /// Messages, as samples.
    said: &'a CommMatrix,
    pub(super) proposals: &'a [Proposal],
    pub(super) pressure: Option<&'a Pressure>,
    pub(super) decision: &'a mut Decision,
}

impl Judge<'_, '_> {
    fn grant(&mut self, (position, node): TaskWish, reason: Reason, evidence: Option<Evidence>) {
        self.decision.threads.push(TaskGrant {
            slot: self.slots[position],
            position,
            node,
            cache: None,
            from: self.program.tasks[position].node,
            reason,
            evidence,
        });
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "instructions per cycle are few and not negative; `as` saturates"
)]
pub(super) fn milli(figure: f64) -> u32 {
    (figure * 1000.0 + 0.5) as u32
}

/// Cosine of what was said in this window and what remains of the windows before; 1 where nothing does.
fn likeness(program: &Program<'_>) -> f64 {
    let (mut product, mut now, mut before) = (0.0, 0.0, 0.0);
    for (one, other, all) in program.decayed.pairs() {
        let live = program.live.between(one, other);
        let (live, past) = (live as f64, all.saturating_sub(live) as f64);
        product += live * past;
        now += live * live;
        before += past * past;
    }
    let lengths: f64 = now * before;
    if lengths > 0.0 {
        product / lengths.sqrt()
    } else {
        1.0
    }
}

/// Nodes of all tasks when each is where it is wanted.
fn wished_nodes(program: &Program<'_>, wishes: &[TaskWish]) -> Vec<Option<usize>> {
    let mut nodes: Vec<Option<usize>> = program.tasks.iter().map(|task| task.node).collect();
    let count = program.capacity.len();
    for &(task, node) in wishes.iter().filter(|wish| wish.1 < count) {
        if let Some(place) = nodes.get_mut(task) {
            *place = Some(node);
        }
    }
    nodes
}

/// The task and the node of a wish for a thread.
pub(super) const fn wished(proposal: &Proposal) -> Option<TaskWish> {
    match proposal {
        Proposal::PlaceTask { task, node, .. } => Some((*task, *node)),
        Proposal::MovePage { .. } => None,
    }
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
