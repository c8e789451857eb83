//! How many more tasks each node takes while a placement is being made.

use numad_core::{Program, Task};

/// The free places of every node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seats {
    free: Vec<usize>,
}

impl Seats {
    /// Every place that the program has.
    pub(crate) fn new(program: &Program<'_>) -> Self {
        Self::of(program.capacity)
    }

    /// These many on each node.
    pub(crate) fn of(places: &[usize]) -> Self {
        Self {
            free: places.to_vec(),
        }
    }

    /// The places that are left when some tasks stay where they are.
    pub(crate) fn without(program: &Program<'_>, staying: impl Iterator<Item = usize>) -> Self {
        let mut seats = Self::new(program);
        let nodes = staying.filter_map(|task| program.tasks[task].node);
        for node in nodes {
            if let Some(free) = seats.free.get_mut(node) {
                // More may stay than the node takes: the scheduler does not know our capacities.
                *free = free.saturating_sub(1);
            }
        }
        seats
    }

    /// How many nodes there are, those without a place included.
    pub(crate) fn nodes(&self) -> usize {
        self.free.len()
    }

    /// How many places each node has left, as kernels want it.
    pub(crate) fn capacity(&self) -> Vec<u32> {
        let places = |&free: &usize| u32::try_from(free).unwrap_or(u32::MAX);
        self.free.iter().map(places).collect()
    }

    /// Whether a node has at least this many places.
    pub(crate) fn has(&self, node: usize, places: usize) -> bool {
        self.free.get(node).is_some_and(|&free| free >= places)
    }

    /// Whether a task may be put on a node, and a place is left there.
    pub(crate) fn takes(&self, node: usize, task: &Task) -> bool {
        self.has(node, 1) && may_run(task, node)
    }

    /// The node with the most places of those where a task may be put; the first of equals.
    pub(crate) fn emptiest(&self, task: &Task) -> Option<usize> {
        let fit = (0..self.nodes()).filter(|&node| self.takes(node, task));
        fit.max_by_key(|&node| (self.free[node], std::cmp::Reverse(node)))
    }

    /// Uses up a place.
    ///
    /// # Panics
    /// When there is none: a wrong answer would crowd a node.
    pub(crate) fn take(&mut self, node: usize) {
        assert!(self.free[node] > 0, "node {node} has no place left");
        self.free[node] -= 1;
    }

    /// Uses up a place for a task if the node takes it; whether it does.
    pub(crate) fn try_take(&mut self, node: usize, task: &Task) -> bool {
        let takes = self.takes(node, task);
        if takes {
            self.take(node);
        }
        takes
    }

    /// Nodes from this one on, round and round, once each.
    pub(crate) fn round_from(&self, start: usize) -> impl Iterator<Item = usize> + use<> {
        let nodes = self.nodes();
        (0..nodes).map(move |step| (start + step) % nodes)
    }
}

/// Whether a task may run on every node that takes tasks of the program.
pub(crate) fn may_run_everywhere(program: &Program<'_>, task: &Task) -> bool {
    let mut places = program.capacity.iter().enumerate();
    places.all(|(node, &places)| places == 0 || may_run(task, node))
}

/// Whether a task may run on a node.
pub(crate) fn may_run(task: &Task, node: usize) -> bool {
    task.allowed.get(node) == Some(&true)
}

#[cfg(test)]
mod tests {
    use testkit::Scene;

    use super::*;

    #[test]
    fn tasks_that_stay_have_their_places() {
        let scene = Scene::new("2x2").with_tasks_on(&[0, 0, 0, 1]);
        let seats = Seats::without(&scene.as_program(), 0..4);
        assert_eq!(seats.free, [0, 1]);
        assert!(seats.takes(1, &scene.tasks[0]) && !seats.takes(2, &scene.tasks[0]));
        assert_eq!(seats.round_from(1).collect::<Vec<_>>(), [1, 0]);
    }
}
