//! Nodes for tasks of a program that does not run yet: what is known of it comes from an earlier run.

use std::time::Duration;

use numad_core::cost::{MachineModel, Prices};
use numad_core::{CommMatrix, Program, Proposal, Settings, SettingsError, Task, Time};
use topology::{Pid, StartTicks, TaskKey, Tid, Topology};

use crate::history::{Group, Spoken};
use crate::published::deloc;
use crate::rounds;
use crate::seats::Seats;

/// What two tasks said in a span of time: the lower position, the higher one, and how much.
pub type Pair = (usize, usize, u64);

/// The policies of the registry that place by order or by one matrix, without asking what the program does meanwhile.
const OF_ONE_LOOK: [&str; 3] = ["packed", "scatter", "balance"];

/// `DeLocMap`, for groups of pairs that talk at the same time and so many cores on each node. Tasks that say
/// nothing go to the node with the fewest tasks; none for one that finds no core.
#[must_use]
pub fn deloc_map(tasks: usize, groups: &[Vec<Pair>], cores: &[usize]) -> Vec<Option<usize>> {
    let spoken = |&(low, high, amount): &Pair| Spoken {
        low,
        high,
        amount: amount as f64,
        windows: 1.0,
    };
    let group = |pairs: &Vec<Pair>| pairs.iter().filter(|pair| pair.2 > 0).map(spoken).collect();
    let mut groups: Vec<Group> = groups.iter().map(group).collect();
    let tasks = unknown(tasks, cores.len());
    let mut nodes = deloc::deloc_map(&tasks, Seats::of(cores), &mut groups);
    rounds::fill(&mut nodes, cores, |_, _| true);
    nodes
}

/// What a policy of the registry does with a program at its first look; none for one that needs more than a look.
///
/// # Errors
/// As its maker.
pub fn at_first_look(
    name: &str,
    topology: &Topology,
    matrix: &CommMatrix,
    cores: &[usize],
) -> Result<Option<Vec<Option<usize>>>, SettingsError> {
    let factory = crate::registry().iter().find(|it| it.name == name);
    let Some(factory) = factory.filter(|_| OF_ONE_LOOK.contains(&name)) else {
        return Ok(None);
    };
    let mut policy = (factory.build)(&Settings::defaults(factory.settings), 0)?;
    let program = Program {
        topology,
        model: &MachineModel::new(topology),
        tasks: &unknown(matrix.count(), cores.len()),
        capacity: cores,
        free_bytes: &vec![0; cores.len()],
        live: matrix,
        decayed: matrix,
        pages: &[],
        page_bytes: 1,
        window: Duration::from_secs(1),
        samples: 0,
        prices: Prices::default(),
        handed: None,
        ipc: None,
        memory_per_weight: 1.0,
        era: 0,
        records: &[],
    };
    let mut proposals = Vec::new();
    policy.propose(Time(0), &program, &mut proposals);
    let mut nodes = vec![None; matrix.count()];
    for (task, node) in proposals.iter().filter_map(Proposal::place) {
        nodes[task] = Some(node);
    }
    rounds::fill(&mut nodes, cores, |_, _| true);
    Ok(Some(nodes))
}

/// Tasks of which nothing is known but that they may run anywhere.
fn unknown(tasks: usize, nodes: usize) -> Vec<Task> {
    let task = |number: u32| Task {
        key: TaskKey {
            pid: Pid(1),
            tid: Tid(number),
            start: StartTicks(0),
        },
        node: None,
        allowed: vec![true; nodes],
        busy: 1.0,
        samples: 0,
    };
    (1..).take(tasks).map(task).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The golden case of `DeLocMap`, and what follows from its text.
    #[test]
    fn golden() {
        let pairs = vec![(0, 1, 8), (2, 3, 7), (4, 5, 6), (6, 7, 5)];
        let found = deloc_map(8, &[pairs], &[4, 4]);
        assert_eq!(found, [0, 0, 1, 1, 0, 0, 1, 1].map(Some));
        // The louder group first, in it the louder pair, though another group has a louder one.
        let groups = [vec![(0, 1, 9)], vec![(2, 3, 5), (4, 5, 6)]];
        let found = deloc_map(6, &groups, &[2, 2, 2]);
        assert_eq!(found, [2, 2, 1, 1, 0, 0].map(Some));
        // Pairs of the same time are apart though one node could take all.
        let found = deloc_map(4, &[vec![(0, 1, 9), (2, 3, 5)]], &[4, 4]);
        assert_eq!(found, [0, 0, 1, 1].map(Some));
        // Who says nothing goes where the fewest are; a pair of nothing is none.
        let found = deloc_map(6, &[vec![(0, 1, 9), (2, 3, 0)]], &[3, 3]);
        assert_eq!(found, [0, 0, 1, 1, 0, 1].map(Some));
        assert_eq!(deloc_map(2, &[], &[1]), [Some(0), None]);
    }

    #[test]
    fn baselines_are_those_of_the_registry() {
        let topology = topology::synthetic::parse("2x2@10,21").unwrap();
        let mut matrix = CommMatrix::new(4);
        matrix.add(0, 1, 9);
        let of = |name: &str| at_first_look(name, &topology, &matrix, &[2, 2]).unwrap();
        assert_eq!(of("packed").unwrap(), [0, 0, 1, 1].map(Some));
        assert_eq!(of("scatter").unwrap(), [0, 1, 0, 1].map(Some));
        assert_eq!(of("balance").unwrap(), [0, 1, 0, 1].map(Some));
        for name in ["lapt", "interleave", "none", "nonsense"] {
            assert_eq!(of(name), None);
        }
    }
}
