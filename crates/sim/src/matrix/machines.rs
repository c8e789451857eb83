//! Machines of the matrix, as data.

use std::sync::Arc;

use topology::{BandwidthGraph, Figure, NodeId, Origin, Parts, Topology};

/// A machine that is not there, and what was measured of it.
#[derive(Debug, PartialEq, Eq)]
pub struct Machine {
    /// The word that names it.
    pub name: &'static str,
    /// What it is like.
    pub about: &'static str,
    /// Nodes, cores and distances, as [`topology::load()`] reads them.
    pub text: &'static str,
    /// Nodes whose memory is not like that of the others.
    memory: &'static [Memory],
    /// What links carry, by distance; empty leaves the model's estimate.
    links: &'static [Links],
}

/// The memory of a node.
#[derive(Debug, PartialEq, Eq)]
struct Memory {
    node: u32,
    gbps: u64,
    latency_ns: u64,
    /// None leaves the 16 GiB of every made-up node.
    mebibytes: Option<u64>,
}

/// Links of a length, in both directions.
#[derive(Debug, PartialEq, Eq)]
struct Links {
    distance: u32,
    /// From the lower node to the memory of the higher.
    up_mbps: u64,
    down_mbps: u64,
}

const fn memory(node: u32, gbps: u64, latency_ns: u64, mebibytes: Option<u64>) -> Memory {
    Memory {
        node,
        gbps,
        latency_ns,
        mebibytes,
    }
}

/// All machines of the matrix. Where no figures stand, the cost model's estimates hold, as they do for
/// machines that nobody has measured.
pub const MACHINES: &[Machine] = &[
    Machine {
        name: "2x16",
        about: "two sockets of sixteen cores",
        text: "2x16@10,21",
        memory: &[],
        links: &[],
    },
    Machine {
        name: "4x18",
        about: "four sockets of eighteen cores, all connected",
        text: "4x18@10,21",
        memory: &[],
        links: &[],
    },
    Machine {
        name: "interlagos",
        about: "eight nodes of eight cores, a mesh whose links differ by direction",
        // As firmware of four-socket Opteron 6200 boards gives it.
        text: "8x8@10,16,16,22,16,22,16,22;16,10,22,16,16,22,22,16;16,22,10,16,16,16,16,16;\
               22,16,16,10,16,16,22,22;16,16,16,16,10,16,16,22;22,22,16,16,16,10,22,16;\
               16,22,16,22,16,22,10,16;22,16,16,22,22,16,16,10",
        memory: INTERLAGOS,
        // PTB 4.1: 4 GB/s at home, 3.93 there and 2.82 back, 1.6 to 2.8 over two hops, by single
        // accesses; here in the same proportions for streams, of which a node has 12 GB/s.
        links: &[
            Links {
                distance: 16,
                up_mbps: 9_800,
                down_mbps: 7_000,
            },
            Links {
                distance: 22,
                up_mbps: 7_000,
                down_mbps: 5_000,
            },
        ],
    },
    Machine {
        name: "4x72",
        about: "four nodes of seventy-two cores",
        text: "4x72@10,21",
        memory: &[],
        links: &[],
    },
    Machine {
        name: "16x8",
        about: "sixteen nodes of eight cores, four to a board, boards far apart",
        text: "16x8@\
               10,16,16,16,32,32,32,32,32,32,32,32,32,32,32,32;\
               16,10,16,16,32,32,32,32,32,32,32,32,32,32,32,32;\
               16,16,10,16,32,32,32,32,32,32,32,32,32,32,32,32;\
               16,16,16,10,32,32,32,32,32,32,32,32,32,32,32,32;\
               32,32,32,32,10,16,16,16,32,32,32,32,32,32,32,32;\
               32,32,32,32,16,10,16,16,32,32,32,32,32,32,32,32;\
               32,32,32,32,16,16,10,16,32,32,32,32,32,32,32,32;\
               32,32,32,32,16,16,16,10,32,32,32,32,32,32,32,32;\
               32,32,32,32,32,32,32,32,10,16,16,16,32,32,32,32;\
               32,32,32,32,32,32,32,32,16,10,16,16,32,32,32,32;\
               32,32,32,32,32,32,32,32,16,16,10,16,32,32,32,32;\
               32,32,32,32,32,32,32,32,16,16,16,10,32,32,32,32;\
               32,32,32,32,32,32,32,32,32,32,32,32,10,16,16,16;\
               32,32,32,32,32,32,32,32,32,32,32,32,16,10,16,16;\
               32,32,32,32,32,32,32,32,32,32,32,32,16,16,10,16;\
               32,32,32,32,32,32,32,32,32,32,32,32,16,16,16,10",
        memory: &[],
        links: &[],
    },
    Machine {
        name: "hbm",
        about: "two sockets of sixteen cores, each with a little fast memory beside the slow",
        text: "2x16+2@10,21,13,24;21,10,24,13;13,24,10,26;24,13,26,10",
        // As of a package with both: four to five times the bandwidth, a little later. It holds
        // half of what a program of this simulator uses.
        memory: &[
            memory(0, 25, 100, None),
            memory(1, 25, 100, None),
            memory(2, 110, 125, Some(5)),
            memory(3, 110, 125, Some(5)),
        ],
        links: &[],
    },
    Machine {
        name: "cxl",
        about: "two sockets of sixteen cores, and far memory on a bus",
        text: "2x16+1@10,21,26;21,10,30;26,30,10",
        memory: &[
            memory(0, 50, 100, None),
            memory(1, 50, 100, None),
            memory(2, 25, 250, None),
        ],
        links: &[],
    },
    Machine {
        name: "epyc",
        about: "one node of sixty-four cores, of which every eight share a last-level cache",
        text: "1x64:8",
        memory: &[],
        links: &[],
    },
    Machine {
        name: "kunpeng",
        about: "two packages of two nodes of thirty-two cores, in clusters of four",
        text: "4x32:8@10,12,20,22;12,10,22,24;20,22,10,12;22,24,12,10",
        memory: &[],
        links: &[],
    },
];

const INTERLAGOS: &[Memory] = &[
    memory(0, 12, 90, None),
    memory(1, 12, 90, None),
    memory(2, 12, 90, None),
    memory(3, 12, 90, None),
    memory(4, 12, 90, None),
    memory(5, 12, 90, None),
    memory(6, 12, 90, None),
    memory(7, 12, 90, None),
];

impl Machine {
    /// The machine of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        MACHINES.iter().find(|machine| machine.name == name)
    }

    /// The machine in full, with its figures as if they had been measured.
    ///
    /// # Panics
    /// When its data make no machine, which a test excludes.
    #[must_use]
    pub fn topology(&self) -> Arc<Topology> {
        let plain = topology::load(self.text).expect("the tests load every machine");
        let mut nodes = plain.nodes().to_vec();
        for memory in self.memory {
            if let Some(mebibytes) = memory.mebibytes
                && let Some(position) = plain.position(NodeId(memory.node))
            {
                nodes[position].memory_bytes = mebibytes << 20;
            }
        }
        let count = nodes.len();
        let row = |from| (0..count).map(move |to| (from, to));
        let distance = |(from, to)| plain.distances().between(from, to);
        let parts = Parts {
            nodes,
            cpus: plain.cpus().to_vec(),
            caches: plain.caches().to_vec(),
            distance_rows: (0..count)
                .map(|from| row(from).map(distance).collect())
                .collect(),
            bandwidth: self.bandwidth(&plain),
            notes: Vec::new(),
        };
        Arc::new(Topology::new(parts).expect("the tests load every machine"))
    }

    fn bandwidth(&self, plain: &Topology) -> BandwidthGraph {
        let mut graph = BandwidthGraph::default();
        for (to, target) in plain.nodes().iter().enumerate() {
            let memory = self.memory.iter().find(|one| one.node == target.id.0);
            for (from, source) in plain.nodes().iter().enumerate() {
                let distance = plain.distances().between(from, to);
                let link = graph.link_mut(source.id, target.id);
                if let Some(memory) = memory {
                    // What is measured from afar is as much later as it is farther than from where
                    // the memory is nearest.
                    let near = nearest(plain, to);
                    let scaled =
                        |value: u64, by: u32, over: u32| value * u64::from(by) / u64::from(over);
                    link.latency_ns = told(scaled(memory.latency_ns, distance.max(near), near));
                    link.read_mbps = told(scaled(memory.gbps * 1000, near, distance.max(near)));
                }
                if let Some(links) = self.links.iter().find(|one| one.distance == distance) {
                    let up = from < to;
                    link.read_mbps = told(if up { links.up_mbps } else { links.down_mbps });
                }
            }
        }
        graph
    }
}

/// The distance of a node's memory from the nearest processors.
fn nearest(topology: &Topology, memory: usize) -> u32 {
    let nodes = topology.nodes().iter().enumerate();
    nodes
        .filter(|(_, node)| !node.cpus.is_empty())
        .map(|(from, _)| topology.distances().between(from, memory))
        .min()
        .unwrap_or(topology::distance::LOCAL)
}

fn told(value: u64) -> Option<Figure> {
    Some(Figure {
        value,
        origin: Origin::Measured,
    })
}

#[cfg(test)]
mod tests {
    use numad_core::cost::MachineModel;

    use super::*;

    #[test]
    fn every_machine_is_one_and_is_as_its_figures_say() {
        for machine in MACHINES {
            let topology = machine.topology();
            let model = MachineModel::new(&topology);
            assert!(Machine::named(machine.name) == Some(machine));
            for memory in machine.memory {
                let position = topology.position(NodeId(memory.node)).unwrap();
                let gbps = model.controller_gbps(position);
                assert!(
                    (gbps - memory.gbps as f64).abs() < 0.01,
                    "{}: {gbps}",
                    machine.name
                );
            }
        }
    }

    #[test]
    fn links_may_differ_by_direction_and_tiers_by_latency() {
        let model = |name| MachineModel::new(&Machine::named(name).unwrap().topology());
        let mesh = model("interlagos");
        assert!((mesh.link_gbps(0, 2) / mesh.link_gbps(2, 0) - 1.4).abs() < 0.01);
        let tiers = model("cxl");
        assert!((tiers.latency_ns(0, 2) - 250.0).abs() < 0.01);
        assert!(tiers.latency_ns(1, 2) > 280.0 && tiers.link_gbps(1, 2) < 25.0);
        assert!((tiers.latency_ns(0, 0) - 100.0).abs() < 0.01);
        let hbm = Machine::named("hbm").unwrap().topology();
        assert_eq!(hbm.nodes()[2].memory_bytes, 5 << 20);
        assert!(hbm.nodes()[2].cpus.is_empty());
    }
}
