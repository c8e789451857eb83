//! Gathering those who talk: what `locality`, `lapt` and `cdsm` have in common.

use std::borrow::Cow;

use numad_core::{CommMatrix, Fate, Plan, Policy, Program, Proposal, Time};

use crate::board::Board;
use crate::data_mapping::DataMapping;
use crate::kernel::{Kernel, Workspace, map};
use crate::matrix_choice::MatrixChoice;
use crate::stay::keep_the_silent;

/// Threads mapped by a kernel, and pages after them.
#[derive(Debug)]
pub(crate) struct Gather {
    pub(crate) matrix: MatrixChoice,
    /// What finds plans from nothing.
    pub(crate) kernel: Kernel,
    pub(crate) gain_min: f64,
    /// Share of a processor below which a thread is no task.
    pub(crate) busy_min: f64,
    pub(crate) pages: Option<DataMapping>,
    pub(crate) workspace: Workspace,
}

impl Gather {
    /// Threads by who shares memory with whom in all windows, and no pages.
    pub(crate) fn threads_alone() -> Self {
        Self {
            matrix: MatrixChoice::Decayed,
            kernel: map,
            gain_min: 0.05,
            busy_min: 0.0,
            pages: None,
            workspace: Workspace::default(),
        }
    }
}

impl Policy for Gather {
    /// Appends what is wanted: talkers, then silent tasks with pages, then pages.
    fn propose(&mut self, now: Time, program: &Program<'_>, out: &mut Vec<Proposal>) {
        out.extend(self.place(program));
        self.page_moves(now, program, out);
    }

    fn thread_plans(&mut self, _now: Time, program: &Program<'_>, out: &mut Vec<Plan>) {
        out.push(self.place(program));
    }

    fn page_moves(&mut self, now: Time, program: &Program<'_>, out: &mut Plan) -> bool {
        if let Some(pages) = &mut self.pages {
            pages.propose(now, program, out);
        }
        true
    }

    fn on_fate(&mut self, now: Time, proposal: &Proposal, fate: Fate) {
        if let Some(pages) = &mut self.pages {
            pages.on_fate(now, proposal, fate);
        }
    }
}

impl Gather {
    /// Places of talkers, then of silent tasks with pages.
    fn place(&mut self, program: &Program<'_>) -> Plan {
        let matrix = self.heard(program);
        let board = Board::new(program, &matrix);
        let board = match &self.pages {
            Some(_) => board.homed(program),
            None => board.anchored(program),
        };
        let plan = board.gathered(self.kernel, self.gain_min, &mut self.workspace);
        let mut places = board.propose(&plan);
        if self.pages.is_some() {
            keep_the_silent(program, &matrix, &mut places);
        }
        places
    }

    /// The communication of those who are busy enough.
    fn heard<'a>(&self, program: &Program<'a>) -> Cow<'a, CommMatrix> {
        let matrix = self.matrix.of(program);
        let idle = |task: usize| program.tasks[task].busy < self.busy_min;
        if !(0..matrix.count()).any(idle) {
            return Cow::Borrowed(matrix);
        }
        let mut heard = CommMatrix::new(matrix.count());
        for (one, other, amount) in matrix.pairs() {
            if !idle(one) && !idle(other) {
                heard.add(one, other, amount);
            }
        }
        Cow::Owned(heard)
    }
}
