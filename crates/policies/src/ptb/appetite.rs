//! What threads would ask for if memory let them.
//!
//! Samples tell what memory delivered. Of a saturated controller that is all it has, however much its threads
//! wait for: shared out evenly it would leave them to wait again, for less, window after window. So what a
//! thread is seen to ask is multiplied by how much faster it would be with all its memory near and idle:
//! of the time that an access takes it, the wait beyond that goes away. What it would ask then hardly
//! depends on where its pages are, so that moving them does not change the plan.
//!
//! How long an access takes is the thread's time on a processor over its accesses; how much of that is
//! waiting, the cost model says. No thread asks for more than its core can keep in flight. Where
//! accesses are few beside the time, as page faults are taken to be, there is nothing to gain and nothing
//! changes.

use numad_core::Program;
use numad_core::cost::{ACCESS_BYTES, MachineModel, OVERLAP, queue};

/// What tasks ask of memory, and what they would ask.
#[derive(Clone, Debug)]
pub(super) struct Appetite {
    /// By how much more each task would ask than it does, from 1 on.
    pub(super) factors: Vec<f64>,
    /// GB/s that each memory was seen to be asked for.
    pub(super) seen_gbps: Vec<f64>,
}

/// The appetite of a program, one unit of a page's weight asking for so many GB/s now.
pub(super) fn of(program: &Program<'_>, model: &MachineModel, gbps_per_weight: f64) -> Appetite {
    let seen = Seen::of(program, model, gbps_per_weight);
    let factor = |(task, asked): (usize, &f64)| {
        let Some(node) = program.tasks[task].node.filter(|&node| node < seen.nodes) else {
            return 1.0;
        };
        let accesses_per_ns = asked / ACCESS_BYTES;
        if accesses_per_ns <= 0.0 || seen.wait_ns[task] <= 0.0 {
            return 1.0;
        }
        let each_ns = program.tasks[task].busy / accesses_per_ns;
        let near_ns = (0..seen.nodes)
            .map(|memory| model.latency_ns(node, memory))
            .fold(f64::INFINITY, f64::min);
        let wait_ns = seen.wait_ns[task] / seen.located[task] - near_ns;
        let at_least = (each_ns - wait_ns.max(0.0) / OVERLAP).max(near_ns / OVERLAP);
        (each_ns / at_least).max(1.0)
    };
    let factors = seen.asked.iter().enumerate().map(factor);
    Appetite {
        factors: factors.collect(),
        seen_gbps: seen.memories,
    }
}

/// What tasks ask for and how long they wait, as things are.
struct Seen {
    nodes: usize,
    /// GB/s of each task.
    asked: Vec<f64>,
    /// The same of pages whose home is known, and times their latency.
    located: Vec<f64>,
    wait_ns: Vec<f64>,
    /// GB/s of each memory.
    memories: Vec<f64>,
}

impl Seen {
    fn of(program: &Program<'_>, model: &MachineModel, gbps_per_weight: f64) -> Self {
        let (nodes, tasks) = (model.nodes(), program.tasks.len());
        let mut seen = Self {
            nodes,
            asked: vec![0.0; tasks],
            located: vec![0.0; tasks],
            wait_ns: vec![0.0; tasks],
            memories: vec![0.0; nodes],
        };
        let mut table = vec![0.0; tasks * nodes];
        for page in program.pages {
            let home = page.home.map(usize::from).filter(|&home| home < nodes);
            for user in page.accessors() {
                let task = user.task as usize;
                let gbps = f64::from(user.weight) * gbps_per_weight;
                if let Some(asked) = seen.asked.get_mut(task) {
                    *asked += gbps;
                    if let Some(home) = home {
                        table[task * nodes + home] += gbps;
                        seen.memories[home] += gbps;
                    }
                }
            }
        }
        let latency_ns = latencies(program, model, (&table, &seen.memories));
        for (task, row) in table.chunks_exact(nodes.max(1)).enumerate() {
            let Some(node) = program.tasks[task].node.filter(|&node| node < nodes) else {
                continue;
            };
            for (memory, gbps) in row.iter().enumerate() {
                seen.located[task] += gbps;
                seen.wait_ns[task] += gbps * latency_ns[node * nodes + memory];
            }
        }
        seen
    }
}

/// Latency from each node to each memory under what tasks ask of them.
fn latencies(
    program: &Program<'_>,
    model: &MachineModel,
    (table, controllers): (&[f64], &[f64]),
) -> Vec<f64> {
    let nodes = model.nodes();
    let mut links = vec![0.0; nodes * nodes];
    for (task, row) in program.tasks.iter().zip(table.chunks_exact(nodes.max(1))) {
        for (memory, gbps) in row.iter().enumerate() {
            if let Some(node) = task.node.filter(|&node| node < nodes && node != memory) {
                links[node * nodes + memory] += gbps;
            }
        }
    }
    let latency = |pair: usize| {
        let (node, memory) = (pair / nodes, pair % nodes);
        let waits = queue(controllers[memory] / model.controller_gbps(memory))
            + queue(links[pair] / model.link_gbps(node, memory));
        model.latency_ns(node, memory) * (1.0 + waits)
    };
    (0..nodes * nodes).map(latency).collect()
}

#[cfg(test)]
mod tests {
    use testkit::Scene;

    use super::*;

    /// Factors of tasks that are busy all the time and ask for so many GB/s each, all on node 0.
    fn of_each(tasks: usize, gbps: f64, homes: &[u16]) -> Vec<f64> {
        let mut scene = Scene::new("4x8@10,21").with_tasks_on(&vec![0; tasks]);
        for task in 0..u32::try_from(tasks).unwrap() {
            for &home in homes {
                scene = scene.with_page(Some(home), &[task]);
            }
        }
        let model = MachineModel::new(&scene.topology);
        of(&scene.as_program(), &model, gbps / homes.len() as f64).factors
    }

    #[track_caller]
    fn check(found: &[f64], expected: std::ops::Range<f64>) {
        assert!(
            found.iter().all(|factor| expected.contains(factor)),
            "{found:?}"
        );
    }

    #[test]
    fn who_does_not_wait_asks_for_what_it_gets() {
        check(&of_each(1, 0.01, &[0]), 1.0..1.001);
        check(&of_each(8, 1.0, &[0]), 1.0..1.001);
    }

    #[test]
    fn who_waits_would_ask_for_more_but_not_for_more_than_a_core_can() {
        // Eight cores could ask for 57 GB/s, the controller gives 24.9.
        check(&of_each(8, 2.85, &[0]), 2.0..2.5);
        // Far memory, nobody else there: ninety-nine of a hundred and eighty-nine nanoseconds are the way.
        check(&of_each(1, 3.38, &[1]), 2.0..2.2);
        // A tenth of that: the rest of the time is the thread's own.
        check(&of_each(1, 0.338, &[1]), 1.0..1.06);
    }

    #[test]
    fn the_plan_does_not_change_what_is_asked() {
        let whole = |gbps: f64, homes: &[u16]| gbps * of_each(8, gbps, homes)[0];
        // The same eight cores, before and after two thirds of their pages went away.
        let (before, after) = (whole(2.85, &[0]), whole(4.3, &[0, 1, 2]));
        assert!((before / after - 1.0).abs() < 0.2, "{before} {after}");
    }

    #[test]
    fn nothing_known_changes_nothing() {
        let scene = Scene::new("2x2")
            .with_tasks(&[None, Some(0)])
            .with_page(None, &[0, 1]);
        let model = MachineModel::new(&scene.topology);
        let found = of(&scene.as_program(), &model, 1.0);
        check(&found.factors, 1.0..1.001);
        assert_eq!(found.seen_gbps, [0.0; 2]);
    }
}
