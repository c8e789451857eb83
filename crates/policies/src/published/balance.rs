//! Balance, as DeLoc's dissertation compares itself with it: one mapping that makes the nodes' communication even,
//! here after a profile of the start, whatever the placement is.

use std::collections::BTreeMap;

use numad_core::{Bind, Policy, Program, Proposal, Published, Reason, Time};
use topology::TaskKey;

use super::{Once, PROFILE_LAW, place};
use crate::balance::from_nothing;
use crate::history::Count;

pub(crate) const PUBLISHED: Published = Published {
    paper: "the baseline of DeLoc (dissertation, section 2.2)",
    interval: PROFILE_LAW,
    bind: Bind::Core,
    takes: &[],
    build: |_, _| Ok(Box::new(Balance::default())),
};

#[derive(Debug, Default)]
struct Balance {
    once: Once,
    /// What each task said in the profile.
    said: BTreeMap<TaskKey, u64>,
}

impl Policy for Balance {
    fn propose(&mut self, now: Time, program: &Program<'_>, out: &mut Vec<Proposal>) {
        let said = &mut self.said;
        let nodes = self.once.nodes(now, program, |history| {
            let groups = history.groups(program, Count::Criterion);
            let matrix = history.matrix(&groups, program.tasks.len());
            let tasks = program.tasks.iter().enumerate();
            *said = tasks
                .map(|(at, task)| (task.key, matrix.row_sum(at)))
                .collect();
            from_nothing(program, &matrix)
        });
        place(&nodes, out, |task| Reason::Load {
            amount: said.get(&program.tasks[task].key).copied().unwrap_or(0),
        });
    }
}
