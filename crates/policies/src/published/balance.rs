//! Balance, as DeLoc's dissertation compares itself with it: one mapping that makes the nodes' communication even,
//! here after a profile of the start, whatever the placement is.

use std::collections::BTreeMap;

use numad_core::{Bind, CommMatrix, Policy, Program, Proposal, Published, Reason, Time};
use topology::TaskKey;

use super::{PROFILE_LAW, Profile, differs, fill, place};
use crate::history::{Count, History};

pub(crate) const PUBLISHED: Published = Published {
    paper: "the baseline of DeLoc (dissertation, section 2.2)",
    interval: PROFILE_LAW,
    bind: Bind::Core,
    takes: &[],
    build: |_, _| Ok(Box::new(Balance::default())),
    differences: &[differs(
        "when",
        "once, after a profile of 2 s, whatever the placement",
        "when that lowers the highest load of a node by `tolerance`",
        "a placement that is even enough stays",
    )],
};

#[derive(Debug, Default)]
struct Balance {
    profile: Profile,
    history: History,
    plan: BTreeMap<TaskKey, (usize, u64)>,
}

impl Balance {
    fn decide(&mut self, program: &Program<'_>, matrix: &CommMatrix) {
        let placed = crate::balance::from_nothing(program, matrix);
        let mut nodes = vec![None; program.tasks.len()];
        for (task, node) in placed {
            nodes[task] = Some(node);
        }
        fill(program, &mut nodes);
        let tasks = program.tasks.iter().enumerate().zip(nodes);
        self.plan = tasks
            .filter_map(|((at, task), node)| Some((task.key, (node?, matrix.row_sum(at)))))
            .collect();
    }
}

impl Policy for Balance {
    fn propose(&mut self, now: Time, program: &Program<'_>, out: &mut Vec<Proposal>) {
        if !self.profile.done {
            self.history.note(now, program);
        }
        if self.profile.ends(now, program.window) {
            let groups = self.history.groups(program, Count::Criterion);
            let matrix = self.history.matrix(&groups, program.tasks.len());
            self.decide(program, &matrix);
        }
        let plan = |task: usize| self.plan.get(&program.tasks[task].key);
        let nodes = (0..program.tasks.len()).map(|task| Some(plan(task)?.0));
        let nodes: Vec<Option<usize>> = nodes.collect();
        place(&nodes, out, |task| Reason::Load {
            amount: plan(task).map_or(0, |planned| planned.1),
        });
    }
}
