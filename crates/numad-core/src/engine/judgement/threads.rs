//! Which threads of those that a policy wants elsewhere go.

use super::super::orders::TaskGrant;
use super::super::wishes::Wishes;
use super::{Decision, Judgement, Limits, Regime};
use crate::cost;
use crate::evidence::Evidence;
use crate::guard::{Standing, TaskWish, ThreadCase, WeighedPlacement, granted};
use crate::matrix::CommMatrix;
use crate::policy::{Plan, Program, Proposal, Reason, Veto};
use crate::time::Time;

/// How much of what a plan gains the plan of the window before must still gain for the two to agree.
const AGREES: f64 = 0.5;

impl Judgement {
    /// Which of several plans is worth most, and what is known of them, see
    /// [`ThreadCase::best`]. Windows need not agree on it yet.
    pub(in super::super) fn best(
        &self,
        program: &Program<'_>,
        plans: &[Plan],
        (mut standings, said): (Vec<Standing>, &CommMatrix),
        limits: &Limits<'_>,
    ) -> (usize, Vec<WeighedPlacement>) {
        for standing in &mut standings {
            standing.held |= self.is_held(limits.now);
        }
        let case = ThreadCase {
            program,
            standings: &standings,
            options: limits.options,
            evidence: limits.evidence,
            reverting: false,
            agreed: true,
            pressure: limits.pressure,
            said,
            weighed: &[],
        };
        case.best(plans)
    }

    pub(super) fn judge_threads(
        &mut self,
        program: &Program<'_>,
        wanted: &Wishes<'_>,
        limits: &Limits<'_>,
        decision: &mut Decision,
    ) {
        self.release(limits.now);
        let all_held = decision.remedy.is_some() || self.is_held(limits.now);
        let standings = self.standings(program, &wanted.standings, all_held);
        let wishes = wanted.proposals.iter().filter_map(Proposal::place);
        let wishes: Vec<TaskWish> = wishes.collect();
        let agreed = self.agrees(program, &wishes);
        let case = |reverting| ThreadCase {
            program,
            standings: &standings,
            options: limits.options,
            evidence: limits.evidence,
            reverting,
            agreed,
            pressure: limits.pressure,
            said: wanted.said,
            weighed: &wanted.weighed,
        };
        let judged = case(false).judge(&wishes);
        (decision.plan, decision.plan_is_open) = (judged.plan, judged.is_open);
        if let Some(remedy) = decision.remedy.clone() {
            let verdicts = case(true).judge(&remedy.wishes).each;
            for wish in granted(&remedy.wishes, &verdicts) {
                decision.grant(program, wish, remedy.reason.clone(), None);
            }
        }
        if limits.evidence {
            self.note_wishes(program, &wishes);
        }
        for wish in judged.kept {
            decision.grant(program, wish, Reason::Stay, None);
        }
        for wish in judged.relieved {
            decision.grant(program, wish, Reason::Crowded, None);
        }
        let placements = wanted.proposals.iter().enumerate();
        let placements =
            placements.filter_map(|(number, proposal)| Some((number, proposal, proposal.place()?)));
        for ((number, proposal, wish), verdict) in placements.zip(judged.each) {
            match (verdict, proposal) {
                (Ok(()), Proposal::PlaceTask { reason, .. }) => {
                    let sure = judged.each_sure.get(wish.0).copied().flatten();
                    decision.grant(program, wish, reason.clone(), sure);
                }
                (Err(veto), _) => {
                    decision.undecided |= veto == Veto::Unconfirmed;
                    decision.dropped.push((number, veto));
                }
                _ => {}
            }
        }
    }

    /// Lets go of threads that were put back when their time is over, or the program does something else: what was put
    /// back is no lesson for that.
    fn release(&mut self, now: Time) {
        if matches!(self.regime, Regime::Held(_)) && !self.is_held(now) {
            self.regime = Regime::Settled;
        }
    }

    const fn is_held(&self, now: Time) -> bool {
        matches!(self.regime, Regime::Held(until) if now.0 < until.0) && !self.era.begins()
    }

    /// What is known of tasks, by position. While an earlier placement is put back, and until the program does
    /// something else or a long time has gone by, nobody moves.
    fn standings(
        &self,
        program: &Program<'_>,
        known: &[Standing],
        all_held: bool,
    ) -> Vec<Standing> {
        let tasks = program.tasks.iter().zip(known);
        tasks
            .map(|(task, known)| Standing {
                held: all_held || known.held,
                wanted: self.planned.get(&task.key).copied(),
                ..*known
            })
            .collect()
    }

    /// Whether windows agree that threads are misplaced, if not about the node of each: what is
    /// wanted gains, and what the last judged window wanted would still gain at least [`AGREES`] of
    /// that. For an era that begins in a program that was settled one window is enough, as for a
    /// new program: what is known of it is what that window shows.
    fn agrees(&self, program: &Program<'_>, wishes: &[TaskWish]) -> bool {
        let now = program.nodes();
        let (mut then, wanted) = (now.clone(), wished_nodes(program, wishes));
        let nodes = program.capacity.len();
        for (task, place) in program.tasks.iter().zip(&mut then) {
            let planned = self.planned.get(&task.key).copied();
            *place = planned.filter(|&node| node < nodes).or(*place);
        }
        let placements = [&now[..], &then, &wanted];
        let distances = program.topology.distances();
        let [stay, then, wanted] = cost::placement_distances(program.live, placements, distances);
        let is_new = matches!(self.regime, Regime::Settled) && self.era.is_young();
        wanted < stay && (is_new || stay - then >= AGREES * (stay - wanted))
    }

    /// Keeps where tasks were wanted, so that the next window can agree.
    fn note_wishes(&mut self, program: &Program<'_>, wishes: &[TaskWish]) {
        let keyed = |&(task, node): &TaskWish| Some((program.tasks.get(task)?.key, node));
        self.planned = wishes.iter().rev().filter_map(keyed).collect();
    }
}

impl Decision {
    fn grant(
        &mut self,
        program: &Program<'_>,
        (position, node): TaskWish,
        reason: Reason,
        evidence: Option<Evidence>,
    ) {
        self.threads.push(TaskGrant {
            position,
            node,
            cache: None,
            from: program.tasks[position].node,
            reason,
            evidence,
        });
    }
}

/// Nodes of all tasks when each is where it is wanted.
fn wished_nodes(program: &Program<'_>, wishes: &[TaskWish]) -> Vec<Option<usize>> {
    let mut nodes = program.nodes();
    let count = program.capacity.len();
    for &(task, node) in wishes.iter().filter(|wish| wish.1 < count) {
        if let Some(place) = nodes.get_mut(task) {
            *place = Some(node);
        }
    }
    nodes
}
