//! Where pages go: near who uses them, or where bandwidth is left.
//!
//! LAPT's data mapping ([`crate::data_mapping`]) knows distance alone. Where a memory is asked for much of what it
//! gives, the page phase of `ptb` ([`crate::ptb`]) is asked as well, and the cost model says which of the two has the
//! program get on faster; but only where samples tell how often memory is used,
//! which page faults do not. Both go by where threads are now: while these move, pages wait.

use std::collections::BTreeMap;

use numad_core::cost::{BUSY, Demand, asked_gbps};
use numad_core::{Page, PageKey, Policy, Program, Proposal, Settings, Time};

use crate::amounts::can_be_modelled;
use crate::data_mapping::DataMapping;
use crate::even::EVEN;
use crate::ptb::PagePhase;

/// Both ways, and which of them is taken.
#[derive(Debug)]
pub(crate) struct PageChoice {
    /// It alone remembers what became of proposals.
    pub(crate) near: DataMapping,
    wide: PagePhase,
    goes_wide: bool,
}

impl PageChoice {
    /// By the settings of the data mapping and [`EVEN`].
    pub(crate) fn new(settings: &Settings) -> Self {
        let mut near = DataMapping::new(settings);
        near.even = settings.bool(EVEN.name);
        Self {
            near,
            wide: PagePhase::default(),
            goes_wide: false,
        }
    }

    /// Appends page moves, behind the places of threads.
    pub(crate) fn propose(&mut self, now: Time, program: &Program<'_>, out: &mut Vec<Proposal>) {
        let first = out.len();
        self.near.propose(now, program, out);
        let tells = program.prices.tell_how_often();
        if !(tells && (self.goes_wide || is_busy(program))) {
            return;
        }
        let nodes = program.nodes();
        let mut wide = Vec::new();
        self.wide.propose(program, &nodes, &mut wide);
        self.goes_wide = is_faster_wide(program, &out[first..], &wide);
        if self.goes_wide {
            out.truncate(first);
            out.append(&mut wide);
        }
    }
}

/// Whether a program is faster with its pages where bandwidth is left. Threads that have but one
/// node can do nothing else. Where the program is too large for the model, pages stay near.
fn is_faster_wide(program: &Program<'_>, near: &[Proposal], wide: &[Proposal]) -> bool {
    if program.capacity.iter().filter(|&&room| room > 0).count() == 1 {
        return true;
    }
    if !can_be_modelled(program) {
        return false;
    }
    let demand = Demand::of_memory(program.model, *program);
    let nodes = program.nodes();
    let time_ns = |moves: &[Proposal]| {
        let moves: BTreeMap<PageKey, usize> =
            moves.iter().filter_map(Proposal::page_move).collect();
        let home = |page: &Page| {
            let to = moves.get(&page.key).copied();
            to.or(page.node())
        };
        demand.cost(&nodes, home).sum_ns()
    };
    time_ns(wide) < time_ns(near)
}

/// Whether the memory of a node is asked for much of what it gives, by the program and others.
fn is_busy(program: &Program<'_>) -> bool {
    let model = program.model;
    let mut asked = asked_gbps(program).into_iter().enumerate();
    asked
        .any(|(node, gbps)| gbps + model.background_gbps(node) > BUSY * model.controller_gbps(node))
}
