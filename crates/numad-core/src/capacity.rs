//! How many tasks each node takes.

use topology::{CpuSet, Topology};

/// Usable cores of each node within `allowed`, less those `held` by others; scaled up evenly when there
/// are more tasks than that.
///
/// When others hold every core, there is nothing to plan around and the cores are shared as if nobody
/// held them. A node without a usable core takes none, whatever the number of tasks.
pub(crate) fn capacities(
    topology: &Topology,
    allowed: &CpuSet,
    held: &[usize],
    tasks: usize,
) -> Vec<usize> {
    let cores: Vec<usize> = topology
        .nodes()
        .iter()
        .map(|node| topology.cores_in(&node.cpus.intersection(allowed)))
        .collect();
    let free = cores
        .iter()
        .zip(held)
        .map(|(cores, held)| cores.saturating_sub(*held));
    let mut capacity: Vec<usize> = free.collect();
    let mut total: usize = capacity.iter().sum();
    if total == 0 {
        capacity = cores;
        total = capacity.iter().sum();
    }
    if tasks > total && total > 0 {
        for room in &mut capacity {
            *room = (*room * tasks).div_ceil(total);
        }
    }
    capacity
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(machine: &str, allowed: &str, held: &[usize], tasks: usize, expected: &[usize]) {
        let topology = topology::synthetic::parse(machine).unwrap();
        let allowed = CpuSet::parse_list(allowed).unwrap();
        let found = capacities(&topology, &allowed, held, tasks);
        assert_eq!(found, expected, "{machine} {allowed} {held:?} {tasks}");
    }

    #[test]
    fn free_cores_are_capacity() {
        check("2x4", "0-7", &[0, 0], 3, &[4, 4]);
        check("2x4", "0-7", &[1, 4], 3, &[3, 0]);
        check("2x4", "0,1,6", &[0, 0], 3, &[2, 1]);
        check("2x4", "0,1", &[0, 0], 9, &[9, 0]);
    }

    #[test]
    fn more_tasks_than_cores_scale_it_evenly() {
        check("2x4", "0-7", &[0, 0], 9, &[5, 5]);
        check("2x4", "0-7", &[0, 0], 16, &[8, 8]);
        check("2x4", "0-7", &[2, 0], 12, &[4, 8]);
    }

    #[test]
    fn when_others_hold_all_the_cores_are_shared() {
        check("2x4", "0-7", &[4, 9], 4, &[4, 4]);
        check("2x4", "", &[0, 0], 4, &[0, 0]);
    }
}
