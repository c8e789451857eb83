//! What is asked, what is answered, and what an answer costs.

use super::graph::Edges;

/// A mapping to be found: communication, distances, capacities, and what is there already.
///
/// Valid by construction: see [`Self::new`].
#[derive(Clone, Copy, Debug)]
pub struct Problem<'a> {
    pub(super) edges: &'a Edges,
    pub(super) distance: &'a [u32],
    pub(super) capacity: &'a [u32],
    pub(super) current: Option<&'a [u16]>,
    pub(super) move_price: u64,
}

impl<'a> Problem<'a> {
    /// A problem from scratch: nothing is placed yet.
    ///
    /// `capacity` says how many tasks each node takes; zero for a node without processors, or one
    /// that must not be used. `distance` has a row for each node, with its own distance in it.
    ///
    /// # Errors
    /// When the table is not square, the nodes together cannot take the tasks, or there are more
    /// nodes than fit a `u16`. With more tasks than processors, scale the capacities up first.
    pub fn new(edges: &'a Edges, distance: &'a [u32], capacity: &'a [u32]) -> Result<Self, String> {
        let nodes = capacity.len();
        if nodes >= usize::from(u16::MAX) {
            return Err(format!(
                "`{nodes}` nodes are too many; at most 65534 can be told apart"
            ));
        }
        let entries = distance.len();
        if entries != nodes * nodes {
            return Err(format!(
                "`{entries}` distances for `{nodes}` nodes; give a row for each node"
            ));
        }
        let tasks = edges.tasks();
        let room: u64 = capacity.iter().map(|&count| u64::from(count)).sum();
        if room < tasks as u64 {
            return Err(format!(
                "`{tasks}` tasks, room for `{room}`; scale the capacities up"
            ));
        }
        Ok(Self {
            edges,
            distance,
            capacity,
            current: None,
            move_price: 0,
        })
    }

    /// The same problem, starting from where tasks are now: the node of each task, and what moving
    /// one is worth, in amounts times distance.
    ///
    /// A task on a node that does not exist, takes no tasks or is over-full is moved in any case.
    ///
    /// # Errors
    /// When `current` is not one node for each task.
    pub fn warm(self, current: &'a [u16], move_price: u64) -> Result<Self, String> {
        let (tasks, entries) = (self.edges.tasks(), current.len());
        if entries != tasks {
            return Err(format!(
                "`{entries}` current nodes for `{tasks}` tasks; give one for each"
            ));
        }
        Ok(Self {
            current: Some(current),
            move_price,
            ..self
        })
    }

    /// How many tasks there are.
    #[must_use]
    pub const fn tasks(&self) -> usize {
        self.edges.tasks()
    }
}

/// How hard to try, and how many steps that may take at most.
///
/// A step is about one task looked at or one partner told: a few nanoseconds. The level decides what
/// is tried, the budget ends it early; a mapping is complete and within capacities in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort {
    pub(super) level: Level,
    pub(super) steps_max: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Level {
    Online,
    Thorough,
}

impl Effort {
    /// For every interval of a running program: about 1 ms for 256 tasks.
    pub const ONLINE: Self = Self {
        level: Level::Online,
        steps_max: u64::MAX,
    };
    /// For a plan that will stand: about 10 times the time, a percent or two better.
    pub const THOROUGH: Self = Self {
        level: Level::Thorough,
        steps_max: u64::MAX,
    };

    /// The same level with a budget. Zero steps give the start: the current mapping where it is
    /// within capacities, else tasks in their order, filling node by node.
    #[must_use]
    pub const fn within(self, steps_max: u64) -> Self {
        Self { steps_max, ..self }
    }
}
