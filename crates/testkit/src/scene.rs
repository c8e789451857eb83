//! One program at the end of a window, owned, so that tests can build it, show it and change it.

use std::time::Duration;

use numad_core::cost::{MachineModel, Prices};
use numad_core::{
    Accessor, CommMatrix, Page, PageKey, PageRecord, Program, Proposal, SpaceId, Task,
};
use topology::{CpuSet, Pid, StartTicks, TaskKey, Tid, Topology};

/// What a policy sees, with a builder for each part. Tasks come before what names them.
///
/// Capacities are the machine's cores, scaled up evenly when there are more tasks; memory is
/// plentiful; nothing communicates and no page is known until the test says so.
#[derive(Clone, Debug, PartialEq)]
pub struct Scene {
    /// The machine.
    pub topology: Topology,
    /// What its memory delivers.
    pub model: MachineModel,
    /// The tasks, by ascending thread id.
    pub tasks: Vec<Task>,
    /// How many tasks each node takes.
    pub capacity: Vec<usize>,
    /// Free memory of each node.
    pub free_bytes: Vec<u64>,
    /// Communication in this window.
    pub live: CommMatrix,
    /// Communication in all windows.
    pub decayed: CommMatrix,
    /// Pages in use.
    pub pages: Vec<Page>,
    /// What papers keep of pages, by position; empty unless a test of a method as published fills it.
    pub records: Vec<PageRecord>,
    /// Samples behind all this.
    pub samples: u64,
    /// What moves cost, and what a unit of weight stands for.
    pub prices: Prices,
    /// Communication that other cores' caches answered; none where the source does not tell.
    pub handed: Option<CommMatrix>,
    /// Instructions per cycle; none where they are not counted.
    pub ipc: Option<f64>,
    /// How often it began to do something else.
    pub era: u32,
}

/// Bytes in a page of every scene; not 4096, so that nobody relies on that.
const PAGE_BYTES: u64 = 1 << 16;

/// Free memory of a node unless a test says otherwise.
const FREE_BYTES: u64 = 1 << 30;

/// The process that all tasks of a scene belong to, and the thread id of its first task.
const FIRST: u32 = 1000;

impl Scene {
    /// A program without tasks on a machine in the short form (`4x16@10,21`).
    ///
    /// # Panics
    /// When the text is no machine: the test that wrote it is wrong.
    #[must_use]
    pub fn new(topology: &str) -> Self {
        Self::on(topology::synthetic::parse(topology).expect("the text of a test is a machine"))
    }

    /// A program without tasks on this machine.
    #[must_use]
    pub fn on(topology: Topology) -> Self {
        let free_bytes = topology.nodes().iter();
        let free_bytes = free_bytes
            .map(|node| FREE_BYTES.min(node.memory_bytes))
            .collect();
        let mut scene = Self {
            model: MachineModel::new(&topology),
            topology,
            tasks: Vec::new(),
            capacity: Vec::new(),
            free_bytes,
            live: CommMatrix::new(0),
            decayed: CommMatrix::new(0),
            pages: Vec::new(),
            records: Vec::new(),
            samples: 1000,
            prices: Prices::default(),
            handed: None,
            ipc: None,
            era: 0,
        };
        scene.fit_capacity();
        scene
    }

    /// Gives it tasks, on these nodes now, allowed on every node that has processors.
    #[must_use]
    pub fn with_tasks(mut self, nodes: &[Option<usize>]) -> Self {
        let allowed = self.nodes_with_cpus();
        self.tasks = (FIRST..)
            .zip(nodes)
            .map(|(tid, &node)| Task {
                key: TaskKey {
                    pid: Pid(FIRST),
                    tid: Tid(tid),
                    start: StartTicks(u64::from(tid)),
                },
                node,
                allowed: allowed.clone(),
                busy: 1.0,
                samples: 100,
            })
            .collect();
        self.live = CommMatrix::new(nodes.len());
        self.decayed = CommMatrix::new(nodes.len());
        self.handed = None;
        self.fit_capacity();
        self
    }

    /// As [`Self::with_tasks`], with every node known.
    #[must_use]
    pub fn with_tasks_on(self, nodes: &[usize]) -> Self {
        let nodes: Vec<Option<usize>> = nodes.iter().copied().map(Some).collect();
        self.with_tasks(&nodes)
    }

    /// Lets tasks communicate, in this window and before: `(one, other, amount)`.
    #[must_use]
    pub fn with_talk(mut self, pairs: &[(usize, usize, u64)]) -> Self {
        for &(one, other, amount) in pairs {
            self.live.add(one, other, amount);
            self.decayed.add(one, other, amount);
        }
        self
    }

    /// Adds a page that these tasks used, the most recent first, at most as many as a page remembers.
    #[must_use]
    pub fn with_page(mut self, home: Option<u16>, accessors: &[u32]) -> Self {
        let slot = u32::try_from(self.pages.len()).expect("a test has few pages");
        let mut recent = [Accessor::default(); numad_core::policy::ACCESSORS_MAX];
        for (place, &task) in recent.iter_mut().zip(accessors) {
            *place = Accessor { task, weight: 1 };
        }
        self.pages.push(Page {
            key: PageKey {
                space: SpaceId(0),
                page: 0x1000 + u64::from(slot),
            },
            slot,
            home,
            recent,
            accessor_count: u8::try_from(accessors.len()).expect("a page remembers few"),
            samples: 1,
            forgotten: 0,
            span: 1,
        });
        self
    }

    /// Forbids a task a node.
    #[must_use]
    pub fn with_ban(mut self, task: usize, node: usize) -> Self {
        self.tasks[task].allowed[node] = false;
        self
    }

    /// Sets how many tasks each node takes.
    #[must_use]
    pub fn with_capacity(mut self, capacity: &[usize]) -> Self {
        self.capacity = capacity.to_vec();
        self
    }

    /// Sets the free memory of each node.
    #[must_use]
    pub fn with_free_bytes(mut self, free_bytes: &[u64]) -> Self {
        self.free_bytes = free_bytes.to_vec();
        self
    }

    /// What a policy is given.
    #[must_use]
    pub fn as_program(&self) -> Program<'_> {
        Program {
            topology: &self.topology,
            model: &self.model,
            tasks: &self.tasks,
            capacity: &self.capacity,
            free_bytes: &self.free_bytes,
            live: &self.live,
            decayed: &self.decayed,
            pages: &self.pages,
            page_bytes: PAGE_BYTES,
            window: Duration::from_millis(500),
            samples: self.samples,
            prices: self.prices,
            handed: self.handed.as_ref(),
            ipc: self.ipc,
            memory_per_weight: self.prices.accesses_per_amount,
            era: self.era,
            records: &self.records,
        }
    }

    /// Does what proposals ask for, memory included, and says how many of them changed something.
    ///
    /// # Panics
    /// When a proposal names a task that is not there.
    pub fn apply(&mut self, proposals: &[Proposal]) -> usize {
        let changing = proposals.iter().filter(|proposal| self.changes(proposal));
        let count = changing.count();
        for proposal in proposals {
            match *proposal {
                Proposal::PlaceTask { task, node, .. } => self.tasks[task].node = Some(node),
                Proposal::MovePage { page, node, .. } => {
                    let home = u16::try_from(node).ok();
                    let found = self.pages.iter_mut().find(|found| found.key == page);
                    let Some(found) = found else { continue };
                    let before = std::mem::replace(&mut found.home, home);
                    let taken = &mut self.free_bytes[node];
                    *taken = taken.saturating_sub(PAGE_BYTES);
                    if let Some(before) = before {
                        self.free_bytes[usize::from(before)] += PAGE_BYTES;
                    }
                }
            }
        }
        count
    }

    /// Whether doing what a proposal asks for would change anything.
    #[must_use]
    pub fn changes(&self, proposal: &Proposal) -> bool {
        match *proposal {
            Proposal::PlaceTask { task, node, .. } => {
                self.tasks.get(task).and_then(|task| task.node) != Some(node)
            }
            Proposal::MovePage { page, node, .. } => {
                let home = self.pages.iter().find(|found| found.key == page);
                home.and_then(|page| page.home).map(usize::from) != Some(node)
            }
        }
    }

    /// Where the tasks are.
    #[must_use]
    pub fn placement(&self) -> Vec<Option<usize>> {
        self.tasks.iter().map(|task| task.node).collect()
    }

    /// How many tasks are on each node.
    #[must_use]
    pub fn occupancy(&self) -> Vec<usize> {
        let mut counts = vec![0; self.topology.nodes().len()];
        for node in self.tasks.iter().filter_map(|task| task.node) {
            counts[node] += 1;
        }
        counts
    }

    /// Which nodes have processors, by position.
    #[must_use]
    pub fn nodes_with_cpus(&self) -> Vec<bool> {
        let nodes = self.topology.nodes().iter();
        nodes.map(|node| !node.cpus.is_empty()).collect()
    }

    /// Makes the capacities what an engine gives a program that is alone on the machine.
    pub fn fit_capacity(&mut self) {
        let usable: CpuSet = self.topology.usable();
        let nodes = self.topology.nodes().iter();
        self.capacity = nodes
            .map(|node| self.topology.cores_in(&node.cpus.intersection(&usable)))
            .collect();
        let cores: usize = self.capacity.iter().sum();
        if cores > 0 && self.tasks.len() > cores {
            let factor = self.tasks.len().div_ceil(cores);
            for capacity in &mut self.capacity {
                *capacity *= factor;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Shape, machine};

    #[test]
    fn capacities_are_cores_scaled_up_evenly() {
        let shapes = [(0, 1, 1), (3, 3, 1), (7, 0, 1)].map(|(id, cores, memory_bytes)| Shape {
            id,
            cores,
            memory_bytes,
        });
        let scene = Scene::on(machine(&shapes));
        assert_eq!(scene.capacity, [1, 3, 0]);
        let scene = scene.with_tasks(&[None; 9]);
        assert_eq!(scene.capacity, [3, 9, 0]);
        assert_eq!(scene.tasks[0].allowed, [true, true, false]);
    }

    #[test]
    fn applying_a_proposal_changes_what_it_names_once() {
        let mut scene = Scene::new("2x2")
            .with_tasks_on(&[0, 1])
            .with_page(Some(0), &[1]);
        let page = scene.pages[0].key;
        let reason = numad_core::Reason::Order;
        let proposals = [
            Proposal::PlaceTask {
                task: 0,
                node: 1,
                reason: reason.clone(),
            },
            Proposal::MovePage {
                page,
                node: 1,
                reason,
            },
        ];
        assert_eq!(scene.apply(&proposals), 2);
        assert_eq!(
            (scene.placement(), scene.pages[0].home),
            (vec![Some(1); 2], Some(1))
        );
        assert_eq!(scene.apply(&proposals), 0);
    }
}
