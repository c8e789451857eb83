//! CDSM (Diener and others 2015): the matrix of the whole run, which never forgets, and groups from the leaves of the
//! machine up; every thread counts, pages stay.

use numad_core::{Bind, Policy, Program, Proposal, Published, Time};
use topology::{CoreId, TaskKey};

use super::{WholeRun, every};
use crate::kernel::treematch;

pub(crate) const PUBLISHED: Published = Published {
    paper: "CDSM (Diener, Cruz, Navaux, Busse, Heiss 2015)",
    interval: every(std::time::Duration::from_millis(500)),
    bind: Bind::Core,
    takes: &[],
    build: |_, _| Ok(Box::new(Cdsm::default())),
};

#[derive(Debug, Default)]
struct Cdsm(WholeRun);

impl Policy for Cdsm {
    fn propose(&mut self, _: Time, program: &Program<'_>, out: &mut Vec<Proposal>) {
        self.0.map(program, treematch, out);
    }

    fn core_of(&self, task: TaskKey) -> Option<CoreId> {
        self.0.cores.get(&task).copied()
    }
}
