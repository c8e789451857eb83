//! CDSM (Diener and others 2015): the matrix of the whole run, which never forgets, and groups from the leaves of the
//! machine up; every thread counts, pages stay.

use std::collections::BTreeMap;

use numad_core::{
    Bind, Difference, Policy, Program, Proposal, Published, Settings, SettingsError, Time,
};
use topology::{CoreId, TaskKey};

use super::{Cores, Tree, WholeRun, differs, every, partner};

pub(crate) const PUBLISHED: Published = Published {
    paper: "CDSM (Diener, Cruz, Navaux, Busse, Heiss 2015)",
    interval: every(std::time::Duration::from_millis(500)),
    bind: Bind::Core,
    takes: &[],
    build,
    differences: DIFFERENCES,
};

const DIFFERENCES: &[Difference] = &[
    differs(
        "matrix",
        "all windows, never forgotten",
        "all windows, older ones counting less",
        "what is long past would hold for ever",
    ),
    differs(
        "mapping",
        "to cores, by the tree of caches",
        "to nodes, if it is worth its moves",
        "the kernel balances within a node",
    ),
];

#[expect(clippy::unnecessary_wraps, reason = "the type that all methods have")]
fn build(_: &Settings, _: u64) -> Result<Box<dyn Policy>, SettingsError> {
    Ok(Box::new(Cdsm::default()))
}

#[derive(Debug, Default)]
struct Cdsm {
    all: WholeRun,
    places: BTreeMap<TaskKey, CoreId>,
}

impl Policy for Cdsm {
    fn propose(&mut self, _: Time, program: &Program<'_>, out: &mut Vec<Proposal>) {
        let key = |task: usize| program.tasks[task].key;
        let matrix = self.all.with(program);
        if matrix.pairs().next().is_none() {
            return;
        }
        let cores = Cores::of(program.topology);
        self.places.clear();
        let plan = cores.map(program, &matrix, Tree::Groups);
        for (task, core) in plan.into_iter().enumerate() {
            if let Some((node, core)) = core.map(|core| cores.all[core]) {
                self.places.insert(key(task), core);
                out.push(Proposal::PlaceTask {
                    task,
                    node,
                    reason: partner(program, &matrix, task),
                });
            }
        }
    }

    fn core_of(&self, task: TaskKey) -> Option<CoreId> {
        self.places.get(&task).copied()
    }
}
