//! Oracles that share no code with the engine: what it orders is checked against what it was told.

use std::collections::{BTreeMap, BTreeSet};

use numad_core::action::MOVE_BATCH_MAX;
use numad_core::{Action, AttachOptions, AttachmentId, Observation};
use topology::{CpuSet, NodeId, Pid, TaskKey, Topology};

use crate::stage::View;

/// Watches one run.
#[derive(Debug, Default)]
pub(crate) struct Judge {
    /// By attachment.
    windows: BTreeMap<AttachmentId, Window>,
    violations: Vec<String>,
    /// Violations beyond the first [`VIOLATIONS_MAX`].
    more: u64,
}

/// What is known and was ordered in an attachment's present window.
#[derive(Debug)]
struct Window {
    /// Processes that were seen.
    pids: BTreeSet<Pid>,
    /// Where each thread was seen.
    seen: BTreeMap<TaskKey, Option<NodeId>>,
    bound: BTreeSet<TaskKey>,
    moved_tasks: usize,
    /// Each with its process.
    moved_pages: BTreeSet<(Pid, u64)>,
    targets: BTreeSet<NodeId>,
}

/// Violations that are kept word for word.
const VIOLATIONS_MAX: usize = 20;

impl Judge {
    /// A window of some programs is about to be closed with this observation.
    pub(crate) fn open(&mut self, topology: &Topology, observation: &Observation) {
        self.windows.clear();
        for program in &observation.programs {
            let seen = program.tasks.iter();
            let window = Window {
                pids: seen.clone().map(|task| task.key.pid).collect(),
                seen: seen
                    .map(|task| (task.key, topology.node_of(task.cpu)))
                    .collect(),
                bound: BTreeSet::new(),
                moved_tasks: 0,
                moved_pages: BTreeSet::new(),
                targets: BTreeSet::new(),
            };
            self.windows.insert(program.attachment, window);
        }
    }

    /// The engine orders something.
    pub(crate) fn order(&mut self, world: &impl View, options: &AttachOptions, action: &Action) {
        let faults = match action {
            Action::Bind {
                attachment,
                task,
                node,
                cpus,
                ..
            } => match self.windows.get_mut(attachment) {
                Some(window) => window.bind(world, options, (*task, *node, cpus)),
                None => vec!["ordered for a program whose window is not over".to_owned()],
            },
            Action::MovePages {
                attachment,
                pid,
                pages,
                node,
                ..
            } => match self.windows.get_mut(attachment) {
                Some(window) => window.move_pages(world, options, (*pid, pages, *node)),
                None => vec!["ordered for a program whose window is not over".to_owned()],
            },
        };
        for fault in faults {
            self.note(world, &format!("{fault}: {action:?}"));
        }
    }

    /// All orders of the window were carried out, and none was refused: nodes must not hold more
    /// than they have cores for, as long as there is a core for everyone.
    pub(crate) fn close(&mut self, world: &impl View) {
        let topology = world.topology();
        let masks = world.masks();
        let usable = world.allowed();
        if masks.len() > topology.cores_in(&usable) {
            return;
        }
        let targets: BTreeSet<NodeId> = self
            .windows
            .values()
            .flat_map(|window| window.targets.iter().copied())
            .collect();
        for node in topology
            .nodes()
            .iter()
            .filter(|node| targets.contains(&node.id))
        {
            let on = |mask: &Option<CpuSet>| mask.as_ref().is_some_and(|m| m.is_subset(&node.cpus));
            let bound = masks.iter().filter(|(_, mask)| on(mask)).count();
            let cores = topology.cores_in(&node.cpus.intersection(&usable));
            if bound > cores {
                let id = node.id;
                self.note(
                    world,
                    &format!("node {id} has {cores} cores for {bound} bound threads"),
                );
            }
        }
    }

    /// Something else that must not be.
    pub(crate) fn note(&mut self, world: &impl View, text: &str) {
        if self.violations.len() < VIOLATIONS_MAX {
            let seconds = world.elapsed().as_millis() as f64 / 1000.0;
            self.violations.push(format!("at {seconds:.2} s: {text}"));
        } else {
            self.more += 1;
        }
    }

    /// What was found.
    pub(crate) fn into_violations(mut self) -> Vec<String> {
        if self.more > 0 {
            self.violations.push(format!("and {} more", self.more));
        }
        self.violations
    }
}

impl Window {
    fn bind(
        &mut self,
        world: &impl View,
        options: &AttachOptions,
        (task, node, cpus): (TaskKey, NodeId, &CpuSet),
    ) -> Vec<String> {
        let mut faults = Vec::new();
        let mut must = |holds: bool, text: &str| {
            if !holds {
                faults.push(text.to_owned());
            }
        };
        let of_node = world.topology().node(node).map(|node| &node.cpus);
        must(
            of_node.is_some_and(|all| cpus.is_subset(all)),
            "binds to processors of another node",
        );
        must(!cpus.is_empty(), "binds to no processor");
        must(
            cpus.is_subset(&world.allowed()),
            "binds to a processor that is not allowed",
        );
        must(self.moved_pages.is_empty(), "moves pages before threads");
        must(
            self.bound.insert(task),
            "binds a thread twice in one window",
        );
        match self.seen.get(&task) {
            None => must(false, "binds a thread that was not observed"),
            Some(&seen) if seen != Some(node) => self.moved_tasks += 1,
            Some(_) => {}
        }
        must(
            self.moved_tasks <= options.task_moves_max,
            "moves more threads than its budget",
        );
        must(options.move_threads, "moves threads although it must not");
        self.targets.insert(node);
        faults
    }

    fn move_pages(
        &mut self,
        world: &impl View,
        options: &AttachOptions,
        (pid, pages, node): (Pid, &[u64], NodeId),
    ) -> Vec<String> {
        let mut faults = Vec::new();
        let mut must = |holds: bool, text: &str| {
            if !holds {
                faults.push(text.to_owned());
            }
        };
        let memory = world
            .topology()
            .node(node)
            .map_or(0, |node| node.memory_bytes);
        must(memory > 0, "moves pages to a node without memory");
        must(self.pids.contains(&pid), "moves pages of another program");
        must(!pages.is_empty(), "moves no pages");
        must(
            pages.len() <= MOVE_BATCH_MAX,
            "moves more pages at once than a batch may have",
        );
        must(
            pages.is_sorted_by(|a, b| a < b),
            "pages are not in ascending order",
        );
        let fresh = pages
            .iter()
            .filter(|&&page| self.moved_pages.insert((pid, page)))
            .count();
        must(fresh == pages.len(), "moves a page twice in one window");
        must(
            self.moved_pages.len() <= options.page_moves_max,
            "moves more pages than its budget",
        );
        must(options.move_pages, "moves pages although it must not");
        faults
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use numad_core::{Host, Reach, Reason, SpaceId};

    use super::*;
    use crate::conditions::Conditions;
    use crate::fault::Faults;
    use crate::workload::Workload;
    use crate::world::{World, WorldSpec};

    struct Court {
        world: World,
        judge: Judge,
        options: AttachOptions,
    }

    impl Court {
        fn new() -> Self {
            let world = World::new(&WorldSpec {
                topology: Arc::new(topology::synthetic::parse("2x2@10,20").unwrap()),
                workload: Workload::Pairs,
                threads: 4,
                faults: Faults::NONE,
                cgroup_cpus: CpuSet::parse_list("0,2-3").unwrap(),
                seed: 1,
                conditions: Conditions::default(),
                balancing: false,
            });
            let mut judge = Judge::default();
            let pid = world.pids()[0];
            let observation = Observation {
                programs: vec![world.observe(AttachmentId(0), pid, Vec::new())],
                ..Observation::default()
            };
            judge.open(world.topology(), &observation);
            let options = AttachOptions {
                task_moves_max: 2,
                page_moves_max: 3,
                ..AttachOptions::default()
            };
            Self {
                world,
                judge,
                options,
            }
        }

        fn bind(&mut self, thread: usize, node: u32, cpus: &str) -> &mut Self {
            self.order(&Action::Bind {
                attachment: AttachmentId(0),
                task: self.world.thread_keys()[thread].unwrap(),
                node: NodeId(node),
                cpus: CpuSet::parse_list(cpus).unwrap(),
                reason: Reason::Order,
                evidence: None,
            })
        }

        fn pages(&mut self, pages: &[u64]) -> &mut Self {
            self.order(&Action::MovePages {
                attachment: AttachmentId(0),
                pid: self.world.pids()[0],
                space: SpaceId(0),
                pages: pages.to_vec(),
                node: NodeId(0),
                reason: Reason::Order,
                evidence: None,
                reach: Reach::Alone,
                object: None,
            })
        }

        fn order(&mut self, action: &Action) -> &mut Self {
            self.judge.order(&self.world, &self.options, action);
            self.world.perform(action);
            self
        }

        #[track_caller]
        fn finds(&mut self, words: &[&str]) {
            self.judge.close(&self.world);
            let found = std::mem::take(&mut self.judge).into_violations();
            assert_eq!(found.len(), words.len(), "{found:#?}");
            for (found, words) in found.iter().zip(words) {
                assert!(found.contains(words), "`{words}` is not in {found}");
            }
        }
    }

    #[test]
    fn what_is_right_is_let_pass() {
        let mut court = Court::new();
        court
            .bind(1, 1, "2-3")
            .bind(0, 0, "0")
            .pages(&[0, 4096])
            .pages(&[8192])
            .finds(&[]);
    }

    #[test]
    fn what_is_wrong_is_found() {
        Court::new().bind(0, 0, "0-1").finds(&["not allowed"]);
        Court::new().bind(0, 0, "2").finds(&["another node"]);
        Court::new().bind(0, 7, "2").finds(&["another node"]);
        Court::new().bind(0, 0, "").finds(&["no processor"]);
        Court::new()
            .bind(0, 0, "0")
            .bind(0, 0, "0")
            .finds(&["twice"]);
        Court::new()
            .pages(&[0])
            .bind(0, 0, "0")
            .finds(&["before threads"]);
        Court::new().pages(&[4096, 0]).finds(&["ascending"]);
        Court::new().pages(&[0]).pages(&[0]).finds(&["twice"]);
        Court::new()
            .pages(&[0, 1, 2, 3])
            .finds(&["more pages than its budget"]);
        Court::new().pages(&[]).finds(&["no pages"]);
        let mut unknown = Court::new();
        unknown.judge.windows.clear();
        unknown.pages(&[0]).finds(&["window is not over"]);
    }

    #[test]
    fn a_node_with_more_threads_than_cores_is_found() {
        let mut court = Court::new();
        court.world = World::new(&WorldSpec {
            topology: Arc::new(topology::synthetic::parse("2x2@10,20").unwrap()),
            workload: Workload::Pairs,
            threads: 3,
            faults: Faults::NONE,
            cgroup_cpus: CpuSet::new(),
            seed: 1,
            conditions: Conditions::default(),
            balancing: false,
        });
        court.options.task_moves_max = 3;
        court.bind(0, 0, "0-1").bind(1, 0, "0-1").bind(2, 0, "0-1");
        court.finds(&["node 0 has 2 cores for 3"]);
    }
}
