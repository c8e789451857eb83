//! Fixed: each thread bound to one core, thread 0 to the first, thread 1 to the second, and so on: what
//! `GOMP_CPU_AFFINITY=0-63` does, and PTB's dissertation compares itself with as *fixed affinity* (section 6.4).
//!
//! Cores come in the order of their nodes; one where a thread may not run is passed over. A thread keeps its core as
//! long as it lives. Where there are more threads than cores the first core takes the next.

use std::collections::BTreeMap;

use numad_core::{Policy, PolicyFactory, Program, Proposal, Reason, Time};
use topology::{CoreId, CpuId, TaskKey, Topology};

use crate::seats::Seats;

/// Makes the policy `fixed`.
pub(crate) static FIXED: PolicyFactory = PolicyFactory {
    name: "fixed",
    summary: "Binds each thread to a core of its own, in order of their numbers, once and for all.",
    settings: &[],
    seeks_gain: false,
    goes_by_order: true,
    published: None,
    build: |_, _| Ok(Box::new(Pinned::default())),
};

/// The policy `fixed` and who has which core of which node.
#[derive(Debug, Default)]
struct Pinned {
    places: BTreeMap<TaskKey, (usize, CoreId)>,
}

impl Policy for Pinned {
    fn propose(&mut self, _now: Time, program: &Program<'_>, out: &mut Vec<Proposal>) {
        let known = |key: &TaskKey| program.tasks.iter().any(|task| task.key == *key);
        self.places.retain(|key, _| known(key));
        let mut seats = Seats::new(program);
        let cores = cores(program.topology);
        let mut taken: BTreeMap<CoreId, usize> = BTreeMap::new();
        for (position, task) in program.tasks.iter().enumerate() {
            let Some(&(node, core)) = self.places.get(&task.key) else {
                continue;
            };
            if seats.try_take(node, task) {
                *taken.entry(core).or_default() += 1;
                out.push(Proposal::place_task(position, node, Reason::Order));
            } else {
                self.places.remove(&task.key);
            }
        }
        for (position, task) in program.tasks.iter().enumerate() {
            if self.places.contains_key(&task.key) {
                continue;
            }
            let open = cores.iter().filter(|(node, ..)| seats.takes(*node, task));
            let held = |core: CoreId| taken.get(&core).copied().unwrap_or(0);
            let Some(&(node, core, _)) = open.min_by_key(|(_, core, _)| held(*core)) else {
                continue;
            };
            seats.take(node);
            *taken.entry(core).or_default() += 1;
            self.places.insert(task.key, (node, core));
            out.push(Proposal::place_task(position, node, Reason::Order));
        }
    }

    fn core_of(&self, task: TaskKey) -> Option<CoreId> {
        Some(self.places.get(&task)?.1)
    }
}

/// Cores in the order of their nodes, each with its node and its first processor.
pub(crate) fn cores(topology: &Topology) -> Vec<(usize, CoreId, CpuId)> {
    let mut all = Vec::new();
    for (position, node) in topology.nodes().iter().enumerate() {
        let mut cores: BTreeMap<CoreId, CpuId> = BTreeMap::new();
        for cpu in node.cpus.iter() {
            if let Some(known) = topology.cpu(cpu) {
                cores.entry(known.core).or_insert(cpu);
            }
        }
        all.extend(cores.into_iter().map(|(core, cpu)| (position, core, cpu)));
    }
    all
}

#[cfg(test)]
mod tests {
    use numad_core::Time;
    use testkit::Scene;

    use crate::tests::build;

    #[test]
    fn each_thread_has_a_core_of_its_own_and_keeps_it() {
        let mut scene = Scene::new("2x2").with_tasks(&[None; 4]);
        let mut policy = build("fixed", &[]);
        let mut out = Vec::new();
        policy.propose(Time(0), &scene.as_program(), &mut out);
        scene.apply(&out);
        assert_eq!(scene.placement(), [0, 0, 1, 1].map(Some));
        let core = |scene: &Scene, task: usize| policy.core_of(scene.tasks[task].key).unwrap();
        let mut all: Vec<_> = (0..4).map(|task| core(&scene, task)).collect();
        let first = all.clone();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 4);
        // The first ends: nobody else moves.
        let gone = scene.clone();
        scene.tasks.remove(0);
        scene.live = numad_core::CommMatrix::new(3);
        scene.decayed = scene.live.clone();
        out.clear();
        policy.propose(Time(1), &scene.as_program(), &mut out);
        for (task, core) in gone.tasks.iter().zip(first).skip(1) {
            assert_eq!(policy.core_of(task.key), Some(core));
        }
        assert_eq!(policy.core_of(gone.tasks[0].key), None);
    }
}
