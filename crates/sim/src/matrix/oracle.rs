//! The best placement that a search finds which knows everything: who uses what, and what the machine
//! would make of any placement.
//!
//! Threads start from the mapping kernels over the true matrix, filled node by node and spread evenly,
//! and from where the kernel started them; pages from the nodes of those who use them. Then threads
//! change places, regions move, and pages spill over to other nodes, as long as the model gets more
//! done. It is a search: a policy can find something better, and then the table shows more than 100 %.

use std::collections::BTreeMap;

use numad_core::cost::MachineModel;
use policies::kernel::{Edges, Effort, Problem, Workspace, map};

use crate::random::Random;
use crate::world::{Imagined, Layout, World, WorldSpec, pages_at};

/// The best that was found: means over the phases of the workload.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Best {
    /// Work done, as part of what an idle machine with everything local would do.
    pub speed: f64,
    /// Part of accesses that is local.
    pub local_share: f64,
    /// The busiest controller's traffic over the mean.
    pub imbalance: f64,
}

/// Layouts that are looked at for a machine of 64 threads and 8 nodes; fewer on larger ones, so that
/// all take about as long.
const LOOKS: usize = 2_000;
const LOOKS_MIN: usize = 150;

/// Parts of all pages that are tried elsewhere than with their users, in hundredths.
const SPILLS: [u64; 9] = [5, 10, 20, 30, 40, 50, 60, 70, 80];

/// Looks for the best placement of a world's programs.
pub(crate) fn search(spec: &WorldSpec) -> Best {
    let phases = World::new(spec).blueprint().phases.len();
    // A run sees as many phases as fit; ours see two.
    let seen = phases.min(2);
    let mut best = Best::default();
    for phase in 0..seen {
        let mut search = Search::new(spec, phase);
        let found = search.run();
        best.speed += found.speed / seen as f64;
        best.local_share += found.local / seen as f64;
        best.imbalance += found.imbalance / seen as f64;
    }
    best
}

struct Search {
    world: World,
    phase: usize,
    random: Random,
    /// How many threads each node takes.
    room: Vec<usize>,
    /// Pages that each node takes.
    memory: Vec<u64>,
    gbps: Vec<f64>,
    looks: usize,
    best: (f64, Layout, Imagined),
}

impl Search {
    fn new(spec: &WorldSpec, phase: usize) -> Self {
        let mut world = World::new(spec);
        world.skip_to(phase);
        let topology = world.topology();
        let usable = if spec.cgroup_cpus.is_empty() {
            topology.usable()
        } else {
            topology.usable().intersection(&spec.cgroup_cpus)
        };
        let nodes = topology.nodes();
        let model = MachineModel::new(topology);
        let room = nodes
            .iter()
            .map(|node| topology.cores_in(&node.cpus.intersection(&usable)));
        let memory = nodes
            .iter()
            .map(|node| node.memory_bytes / crate::world::PAGE_BYTES);
        let size = (spec.threads * nodes.len()).max(1);
        let layout = world.layout();
        let mut search = Self {
            phase,
            random: Random::new(spec.seed, 5),
            room: room.collect(),
            memory: memory.collect(),
            gbps: (0..nodes.len())
                .map(|node| model.controller_gbps(node))
                .collect(),
            looks: (LOOKS * 512 / size).clamp(LOOKS_MIN, LOOKS),
            best: (f64::MIN, layout.clone(), Imagined::default()),
            world,
        };
        search.look(layout);
        search
    }

    fn run(&mut self) -> Imagined {
        for nodes in self.starts() {
            let layout = self.pages_with_users(nodes);
            self.look(layout);
        }
        for spill in SPILLS {
            let (layout, all) = (self.best.1.clone(), self.everyone());
            let spilled = self.spill(layout, spill, &all);
            self.look(spilled);
        }
        for _ in 0..self.looks {
            let layout = self.changed();
            self.look(layout);
        }
        self.best.2
    }

    /// Judges a layout and keeps it if it is the best so far. Where all wait for the slowest, most
    /// steps on the way change nothing but the latency, so that counts a little.
    fn look(&mut self, layout: Layout) {
        if !self.fits(&layout) {
            return;
        }
        let found = self.world.imagine(&layout);
        let worth = found.speed + 0.1 / (100.0 + found.latency_ns);
        if worth > self.best.0 {
            self.best = (worth, layout, found);
        }
    }

    fn fits(&self, layout: &Layout) -> bool {
        let on = |node: usize| layout.nodes.iter().filter(|&&one| one == node).count();
        let pages = |node: usize| -> u64 {
            let pages = layout.pages.iter();
            pages.map(|region| region[node]).sum()
        };
        (0..self.room.len())
            .all(|node| on(node) <= self.room[node] && pages(node) <= self.memory[node])
    }

    /// Threads by the mapping kernels: with all the room there is, and spread evenly.
    fn starts(&mut self) -> Vec<Vec<usize>> {
        let threads = self.best.1.nodes.len();
        let edges = self.edges();
        let topology = self.world.topology();
        let nodes = self.room.len();
        let distance: Vec<u32> = (0..nodes * nodes)
            .map(|link| topology.distances().between(link / nodes, link % nodes))
            .collect();
        let total: usize = self.room.iter().sum();
        let even = self
            .room
            .iter()
            .map(|room| (room * threads).div_ceil(total));
        let mut starts = vec![self.best.1.nodes.clone()];
        for room in [self.room.clone(), even.collect()] {
            let capacity: Vec<u32> = room
                .iter()
                .map(|&room| u32::try_from(room).unwrap_or(u32::MAX))
                .collect();
            if let Ok(problem) = Problem::new(&edges, &distance, &capacity) {
                let mut workspace = Workspace::default();
                let mapping = map(&problem, Effort::THOROUGH, &mut workspace);
                starts.push(mapping.iter().map(|&node| usize::from(node)).collect());
            }
        }
        starts
    }

    /// What every pair of threads shares, in millionths of their accesses.
    fn edges(&self) -> Edges {
        let plan = self.world.blueprint();
        let mut users: BTreeMap<usize, Vec<(usize, f64)>> = BTreeMap::new();
        for (thread, uses) in plan.phases[self.phase].uses.iter().enumerate() {
            for &(region, part) in uses {
                users.entry(region).or_default().push((thread, part));
            }
        }
        let mut pairs: BTreeMap<(usize, usize), f64> = BTreeMap::new();
        for users in users.values() {
            let others = (users.len().max(2) - 1) as f64;
            for (index, &(one, part)) in users.iter().enumerate() {
                for &(other, theirs) in &users[index + 1..] {
                    *pairs.entry((one, other)).or_default() += (part + theirs) / others * 1e6;
                }
            }
        }
        let number = |index: usize| u32::try_from(index).unwrap_or(u32::MAX);
        let pairs: Vec<(u32, u32, u64)> = pairs
            .into_iter()
            .map(|((one, other), amount)| (number(one), number(other), crate::world::whole(amount)))
            .collect();
        Edges::from_pairs(plan.threads.len(), &pairs)
    }

    /// Every region in equal parts with the nodes of its users; what has no room goes where there is.
    fn pages_with_users(&self, nodes: Vec<usize>) -> Layout {
        let plan = self.world.blueprint();
        let mut weights = vec![vec![0.0; self.room.len()]; plan.regions.len()];
        for (thread, uses) in plan.phases[self.phase].uses.iter().enumerate() {
            for &(region, part) in uses {
                weights[region][nodes[thread]] += part;
            }
        }
        let pages = plan.regions.iter().zip(&weights);
        // Of memory that grows what there is of it in the beginning, as everywhere in this world.
        let pages = pages.map(|(region, weights)| dealt(pages_at(region, 0), weights));
        let mut layout = Layout {
            nodes,
            pages: pages.collect(),
        };
        self.make_room(&mut layout);
        layout
    }

    /// Moves pages off nodes that cannot hold them.
    fn make_room(&self, layout: &mut Layout) {
        let mut free: Vec<i64> = self
            .memory
            .iter()
            .map(|&pages| i64::try_from(pages).unwrap_or(i64::MAX))
            .collect();
        for region in &layout.pages {
            for (free, &pages) in free.iter_mut().zip(region) {
                *free -= i64::try_from(pages).unwrap_or(i64::MAX);
            }
        }
        for region in &mut layout.pages {
            for node in 0..region.len() {
                while free[node] < 0 && region[node] > 0 {
                    let Some(to) = (0..free.len()).find(|&to| free[to] > 0) else {
                        return;
                    };
                    let pages = free[to].min(-free[node]).unsigned_abs().min(region[node]);
                    region[node] -= pages;
                    region[to] += pages;
                    let pages = i64::try_from(pages).unwrap_or(i64::MAX);
                    free[node] += pages;
                    free[to] -= pages;
                }
            }
        }
    }

    fn everyone(&self) -> Vec<usize> {
        (0..self.best.1.pages.len()).collect()
    }

    /// A part of these regions' pages goes over all nodes by their bandwidth.
    fn spill(&self, mut layout: Layout, percent: u64, regions: &[usize]) -> Layout {
        let bandwidth: Vec<f64> = self
            .gbps
            .iter()
            .zip(&self.memory)
            .map(|(&gbps, &memory)| if memory > 0 { gbps } else { 0.0 })
            .collect();
        for &region in regions {
            let pages = &mut layout.pages[region];
            let mut spilled = 0;
            for on in pages.iter_mut() {
                let part = *on * percent / 100;
                *on -= part;
                spilled += part;
            }
            let dealt = dealt(spilled, &bandwidth);
            for (on, more) in pages.iter_mut().zip(dealt) {
                *on += more;
            }
        }
        self.make_room(&mut layout);
        layout
    }

    /// The best layout with one change, by chance.
    fn changed(&mut self) -> Layout {
        let mut layout = self.best.1.clone();
        let (threads, nodes) = (layout.nodes.len(), self.room.len());
        let (one, other) = (self.random.below(threads), self.random.below(threads));
        let region = self.random.below(layout.pages.len());
        let to = self.random.below(nodes);
        match self.random.below(5) {
            0 => {
                layout.nodes.swap(one, other);
                self.follow(&mut layout, &[one, other]);
            }
            1 => {
                layout.nodes[one] = to;
                self.follow(&mut layout, &[one]);
            }
            2 => {
                let pages: u64 = layout.pages[region].iter().sum();
                layout.pages[region].fill(0);
                layout.pages[region][to] = pages;
            }
            3 => {
                let from = (0..nodes).max_by_key(|&node| (layout.pages[region][node], node));
                if let Some(from) = from {
                    let part = layout.pages[region][from].div_ceil(2);
                    layout.pages[region][from] -= part;
                    layout.pages[region][to] += part;
                }
            }
            _ => layout = self.spill(layout, 25, &[region]),
        }
        layout
    }

    /// Regions of these threads go where their users are now.
    fn follow(&self, layout: &mut Layout, threads: &[usize]) {
        let uses = &self.world.blueprint().phases[self.phase].uses;
        let anew = self.pages_with_users(layout.nodes.clone());
        for &thread in threads {
            for &(region, _) in &uses[thread] {
                layout.pages[region].clone_from(&anew.pages[region]);
            }
        }
    }
}

/// Things dealt out by weight, in whole numbers: what is left over goes to the heaviest.
fn dealt(things: u64, weights: &[f64]) -> Vec<u64> {
    let sum: f64 = weights.iter().sum();
    let mut dealt: Vec<u64> = weights
        .iter()
        .map(|weight| {
            let part = if sum > 0.0 { weight / sum } else { 0.0 };
            crate::world::whole(things as f64 * part)
        })
        .collect();
    let given: u64 = dealt.iter().sum();
    let left = things.saturating_sub(given);
    let heaviest = (0..weights.len())
        .rev()
        .max_by(|&one, &other| weights[one].total_cmp(&weights[other]));
    if let Some(heaviest) = heaviest {
        dealt[heaviest] += left;
    }
    dealt
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use topology::CpuSet;

    use super::*;
    use crate::conditions::Conditions;
    use crate::fault::Faults;

    fn best(machine: &str, workload: &str, threads: usize, cpus: &str) -> Best {
        search(&WorldSpec {
            topology: Arc::new(topology::load(machine).unwrap()),
            workload: workload.parse().unwrap(),
            threads,
            faults: Faults::NONE,
            conditions: Conditions::default(),
            cgroup_cpus: CpuSet::parse_list(cpus).unwrap(),
            seed: 1,
            balancing: false,
        })
    }

    #[test]
    fn what_can_be_all_local_is() {
        for workload in ["pairs", "groups:4", "slices", "phases", "growing"] {
            let found = best("4x4@10,21", workload, 16, "");
            assert!(found.local_share > 0.999, "{workload}: {found:?}");
            assert!(found.speed > 0.97, "{workload}: {found:?}");
        }
    }

    #[test]
    fn a_saturated_node_spills_six_to_seven_tenths_of_its_pages() {
        let found = best("4x8@10,21", "flood", 8, "0-7");
        let remote = 1.0 - found.local_share;
        assert!((0.5..0.75).contains(&remote), "{found:?}");
    }

    #[test]
    fn things_are_dealt_by_weight() {
        assert_eq!(dealt(10, &[1.0, 0.0, 3.0]), [2, 0, 8]);
        assert_eq!(dealt(3, &[0.0, 0.0]), [3, 0]);
        assert_eq!(dealt(0, &[1.0]), [0]);
    }
}
