//! CDSM (Diener and others 2015): the matrix of the whole run, which never forgets, and groups from the leaves of the
//! machine up; every thread counts, pages stay.

use numad_core::{Bind, Policy, Program, Proposal, Published, Time};
use topology::{CoreId, TaskKey};

use super::{Places, WholeRun, every};
use crate::kernel::treematch;

pub(crate) const PUBLISHED: Published = Published {
    paper: "CDSM (Diener, Cruz, Navaux, Busse, Heiss 2015)",
    interval: every(std::time::Duration::from_millis(500)),
    bind: Bind::Core,
    takes: &[],
    build: |_, _| Ok(Box::new(Cdsm::default())),
};

#[derive(Debug, Default)]
struct Cdsm {
    all: WholeRun,
    places: Places,
}

impl Policy for Cdsm {
    fn propose(&mut self, _: Time, program: &Program<'_>, out: &mut Vec<Proposal>) {
        let matrix = self.all.with(program);
        if matrix.pairs().next().is_some() {
            self.places.map(program, &matrix, treematch, out);
        }
    }

    fn core_of(&self, task: TaskKey) -> Option<CoreId> {
        self.places.core_of(task)
    }
}
