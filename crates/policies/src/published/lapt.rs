//! LAPT (Cruz, Diener, Navaux): threads to cores by dual recursive bipartitioning of the matrix (section III-B), pages by
//! the NUMA access table (III-C). The matrix is counted by eq. 1 to 3; the paper never clears it.

use std::collections::BTreeMap;
use std::time::Duration;

use numad_core::{
    Bind, Fate, IntervalLaw, PageKey, Policy, Program, Proposal, Published, Reason, Time,
};
use topology::{CoreId, TaskKey};

use super::WholeRun;
use crate::kernel::drb;

pub(crate) const PUBLISHED: Published = Published {
    paper: "LAPT (Cruz, Diener, Navaux)",
    interval: IntervalLaw::LAPT,
    bind: Bind::Core,
    takes: &[],
    build: |_, _| Ok(Box::new(Lapt::default())),
};

/// Longest time between two calls of the data mapping.
const PAGES_EVERY: Duration = Duration::from_millis(500);

#[derive(Debug, Default)]
struct Lapt {
    threads: WholeRun,
    /// The NUMA access table: one saturating byte for each page and node.
    table: BTreeMap<PageKey, Vec<u8>>,
    last: Option<Time>,
    nodes: BTreeMap<TaskKey, usize>,
}

impl Policy for Lapt {
    fn propose(&mut self, now: Time, program: &Program<'_>, out: &mut Vec<Proposal>) {
        self.threads.map(program, drb, out);
        let nodes = program.tasks.iter();
        let nodes: BTreeMap<TaskKey, usize> = nodes
            .filter_map(|task| Some((task.key, task.node?)))
            .collect();
        let moved = nodes != self.nodes;
        if moved || self.last.is_none_or(|last| now.since(last) >= PAGES_EVERY) {
            self.last = Some(now);
            self.nodes = nodes;
            self.map_pages(program, out);
        }
    }

    fn on_fate(&mut self, _: Time, proposal: &Proposal, fate: Fate) {
        if let (Proposal::MovePage { page, .. }, Fate::Done) = (proposal, fate) {
            self.table.entry(*page).and_modify(|row| age(row));
        }
    }

    fn core_of(&self, task: TaskKey) -> Option<CoreId> {
        self.threads.cores.get(&task).copied()
    }
}

/// Counts a vector of nodes (eq. 4) and says where the page goes (eq. 5 and 6): the node with the most if that has twice
/// the mean, the lowest of equals.
pub(crate) fn map_page(row: &mut [u8], vector: impl Iterator<Item = usize>) -> Option<usize> {
    for node in vector {
        row[node] = row[node].saturating_add(1);
    }
    let sum: u32 = row.iter().copied().map(u32::from).sum();
    let most = row.iter().copied().max().filter(|&most| most > 0)?;
    let nodes = u32::try_from(row.len()).unwrap_or(u32::MAX);
    let enough = u32::from(most) * nodes >= 2 * sum;
    row.iter()
        .position(|&count| count == most)
        .filter(|_| enough)
}

/// After a migration all are halved if their mean is one at least.
pub(crate) fn age(row: &mut [u8]) {
    let sum: usize = row.iter().copied().map(usize::from).sum();
    if sum >= row.len() {
        row.iter_mut().for_each(|count| *count /= 2);
    }
}

impl Lapt {
    fn map_pages(&mut self, program: &Program<'_>, out: &mut Vec<Proposal>) {
        let nodes = program.capacity.len();
        let mut free = program.free_bytes.to_vec();
        for (page, record) in program.pages.iter().zip(program.records) {
            let row = self.table.entry(page.key).or_insert_with(|| vec![0; nodes]);
            let at = |task: &u32| program.tasks[*task as usize].node;
            let to = map_page(row, record.vector.iter().filter_map(at));
            let Some((node, home)) = to.zip(page.node()) else {
                continue;
            };
            if node != home && free[node] >= program.page_bytes {
                free[node] -= program.page_bytes;
                let sum: u32 = row.iter().copied().map(u32::from).sum();
                let there = u32::from(row[node]);
                let mean = f64::from(sum) / nodes as f64;
                let reason = Reason::Accesses { there, mean };
                out.push(Proposal::move_page(page.key, node, reason));
            }
        }
    }
}
