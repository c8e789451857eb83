//! Latency and bandwidth of a machine at rest, for every pair of nodes, known or estimated.

use crate::figures::whole;
use topology::{Distances, Figure, NodeId, Origin, Topology};

/// Latency of a local access where the machine does not tell: 80 to 100 ns on two-socket servers of
/// the last ten years.
pub const LOCAL_LATENCY_NS: f64 = 90.0;

/// Bytes that one access to memory moves: a cache line on every machine we know but a few.
pub const ACCESS_BYTES: f64 = 64.0;

/// Accesses that one core keeps in flight: the 10 to 12 line-fill buffers of server cores.
pub const OVERLAP: f64 = 10.0;

/// Share of a node's cores that saturate its controller: PTB (section 4.1) reaches the plateau with
/// three to four of eight.
const SATURATING_SHARE: f64 = 3.5 / 8.0;

/// What one core takes from idle local memory, in bytes per nanosecond: 64 * 10 / 90, about 7.
const CORE_BANDWIDTH: f64 = ACCESS_BYTES * OVERLAP / LOCAL_LATENCY_NS;

/// How fast every node reaches the memory of every other when nobody else does. Nodes are named by
/// position in `Topology::nodes`.
///
/// Figures that the machine tells (HMAT, measurement) are taken. The others are estimated:
/// latency from the distance, which the SLIT defines as relative latency; a controller from the
/// cores of its node; a link as a local path that is slower in proportion to the distance.
#[derive(Clone, Debug, PartialEq)]
pub struct MachineModel {
    nodes: usize,
    latency_ns: Vec<f64>,
    /// Bytes per nanosecond, which is GB/s; the diagonal is the controller's.
    link: Vec<f64>,
    controller: Vec<f64>,
    controller_origins: Vec<Origin>,
    /// What others take of each controller, in GB/s.
    background: Vec<f64>,
}

/// Share of a controller that others can take at most: what is left is small, and not nothing.
const BACKGROUND_MAX: f64 = 0.98;

impl MachineModel {
    /// The model of a machine.
    #[must_use]
    pub fn new(topology: &Topology) -> Self {
        let ids: Vec<NodeId> = topology.nodes().iter().map(|node| node.id).collect();
        let nodes = ids.len();
        let controllers: Vec<Guess> = (0..nodes)
            .map(|memory| controller(topology, &ids, memory))
            .collect();
        let mut model = Self {
            nodes,
            latency_ns: Vec::with_capacity(nodes * nodes),
            link: Vec::with_capacity(nodes * nodes),
            controller: controllers.iter().map(|guess| guess.value).collect(),
            controller_origins: controllers.iter().map(|guess| guess.origin).collect(),
            background: vec![0.0; nodes],
        };
        for from in 0..nodes {
            for to in 0..nodes {
                let latency = latency(topology, ids[from], ids[to]).unwrap_or(
                    LOCAL_LATENCY_NS * relative_distance(topology.distances(), from, to),
                );
                let link = link(topology, ids[from], ids[to]).map_or(
                    controllers[to].value / relative_distance(topology.distances(), from, to),
                    |link| link.value,
                );
                model.latency_ns.push(latency);
                model.link.push(link);
            }
        }
        model
    }

    /// How many nodes there are.
    #[must_use]
    pub const fn nodes(&self) -> usize {
        self.nodes
    }

    /// Latency of an access from the processors of one node to the memory of another, when the
    /// machine is idle.
    #[must_use]
    pub fn latency_ns(&self, from: usize, to: usize) -> f64 {
        self.latency_ns[from * self.nodes + to]
    }

    /// Bandwidth from the processors of one node to the memory of another, in GB/s, when nobody
    /// else uses it.
    #[must_use]
    pub fn link_gbps(&self, from: usize, to: usize) -> f64 {
        self.link[from * self.nodes + to]
    }

    /// Bandwidth of the memory of a node, in GB/s.
    #[must_use]
    pub fn controller_gbps(&self, memory: usize) -> f64 {
        self.controller[memory]
    }

    /// Who told what the controllers of this machine deliver: of all that have memory the one whose
    /// word counts least.
    #[must_use]
    pub fn controllers_origin(&self, topology: &Topology) -> Origin {
        let nodes = self.controller_origins.iter().zip(topology.nodes());
        let told = nodes.filter(|(_, node)| node.memory_bytes > 0);
        told.map(|(&origin, _)| origin)
            .min()
            .unwrap_or(Origin::Estimated)
    }

    /// A controller was seen to deliver this much, in GB/s: it can deliver at least that, whatever was
    /// estimated.
    pub fn saw(&mut self, memory: usize, gbps: f64) {
        if gbps.is_finite() {
            self.controller[memory] = self.controller[memory].max(gbps);
        }
    }

    /// The same machine with what others take of each controller, in GB/s, by position. They are taken to
    /// go on whatever we do.
    ///
    /// # Panics
    /// When there is not one figure for each node.
    #[must_use]
    pub fn with_background(mut self, gbps: &[f64]) -> Self {
        assert_eq!(gbps.len(), self.nodes, "one figure for each node");
        let most = self.controller.iter().map(|all| all * BACKGROUND_MAX);
        self.background = gbps
            .iter()
            .zip(most)
            .map(|(&gbps, most)| gbps.max(0.0).min(most))
            .collect();
        self
    }

    /// The same machine when nobody else takes anything.
    #[must_use]
    pub fn alone(&self) -> Self {
        self.clone().with_background(&vec![0.0; self.nodes])
    }

    /// What others take of a controller, in GB/s; 0 unless [`Self::with_background`] told.
    #[must_use]
    pub fn background_gbps(&self, memory: usize) -> f64 {
        self.background[memory]
    }
}

#[derive(Clone, Copy)]
struct Guess {
    value: f64,
    origin: Origin,
}

/// A machine with estimates where neither measurement nor firmware tells of bandwidth or latency between
/// a node with processors and one with memory: what [`MachineModel::new`] goes by, for showing.
#[must_use]
pub fn with_estimates(topology: Topology) -> Topology {
    let model = MachineModel::new(&topology);
    let mut graph = topology.bandwidth().clone();
    for (from, asks) in topology.nodes().iter().enumerate() {
        for (to, answers) in topology.nodes().iter().enumerate() {
            if asks.cpus.is_empty() || answers.memory_bytes == 0 {
                continue;
            }
            let link = graph.link_mut(asks.id, answers.id);
            let estimated = |figure: f64| {
                let (value, origin) = (whole(figure + 0.5), Origin::Estimated);
                Some(Figure { value, origin })
            };
            if told(link.read_mbps)
                .or_else(|| told(link.write_mbps))
                .is_none()
            {
                link.read_mbps = estimated(model.link_gbps(from, to) * 1000.0);
            }
            if told(link.latency_ns).is_none() {
                link.latency_ns = estimated(model.latency_ns(from, to));
            }
        }
    }
    topology.with_bandwidth(graph)
}

/// A controller gives its own node's figure, else the best that anybody gets from it, else an
/// estimate from the cores beside it; a memory-only node is estimated like the largest node.
fn controller(topology: &Topology, ids: &[NodeId], memory: usize) -> Guess {
    if let Some(local) = link(topology, ids[memory], ids[memory]) {
        return local;
    }
    let best = ids
        .iter()
        .filter_map(|&from| link(topology, from, ids[memory]))
        .max_by(|a, b| a.value.total_cmp(&b.value));
    best.unwrap_or_else(|| Guess {
        value: estimated_controller(topology, memory),
        origin: Origin::Estimated,
    })
}

fn estimated_controller(topology: &Topology, memory: usize) -> f64 {
    let cores = |node: usize| topology.cores_in(&topology.nodes()[node].cpus);
    let own = match cores(memory) {
        0 => (0..topology.nodes().len()).map(cores).max().unwrap_or(0),
        some => some,
    };
    // Even a node of one core has a controller that one core cannot saturate twice.
    (own as f64 * SATURATING_SHARE).max(1.0) * CORE_BANDWIDTH
}

/// Reads outnumber writes by far, so their figure speaks for the link. Firmware that knows nothing
/// sometimes says 0, which is no bandwidth but silence.
fn link(topology: &Topology, from: NodeId, to: NodeId) -> Option<Guess> {
    let link = topology.bandwidth().link(from, to);
    let figure = told(link.read_mbps).or_else(|| told(link.write_mbps))?;
    Some(Guess {
        value: figure.value as f64 / 1000.0,
        origin: figure.origin,
    })
}

fn latency(topology: &Topology, from: NodeId, to: NodeId) -> Option<f64> {
    told(topology.bandwidth().link(from, to).latency_ns).map(|figure| figure.value as f64)
}

fn told(figure: Option<Figure>) -> Option<Figure> {
    figure.filter(|figure| figure.value > 0)
}

fn relative_distance(distances: &Distances, from: usize, to: usize) -> f64 {
    f64::from(distances.between(from, to)) / f64::from(topology::distance::LOCAL)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(found: f64, expected: f64) -> bool {
        (found - expected).abs() < 1e-9 * expected.max(1.0)
    }

    #[test]
    fn what_nobody_told_is_estimated_from_cores_and_distance() {
        let model = MachineModel::new(&topology::synthetic::parse("2x8@10,20").unwrap());
        assert!(near(model.latency_ns(0, 0), 90.0) && near(model.latency_ns(0, 1), 180.0));
        let controller = 3.5 * 640.0 / 90.0;
        assert!(near(model.controller_gbps(1), controller));
        assert!(near(model.link_gbps(0, 1), controller / 2.0));
    }

    #[test]
    fn what_the_machine_tells_is_taken_and_zero_is_silence() {
        let topology = topology::synthetic::parse("2x8@10,20").unwrap();
        let mut graph = topology.bandwidth().clone();
        let told = |value| {
            Some(Figure {
                value,
                origin: Origin::Firmware,
            })
        };
        *graph.link_mut(NodeId(0), NodeId(1)) = topology::Link {
            read_mbps: told(3930),
            latency_ns: told(120),
            ..topology::Link::default()
        };
        graph.link_mut(NodeId(1), NodeId(0)).read_mbps = told(0);
        let model = MachineModel::new(&topology.with_bandwidth(graph));
        assert!(near(model.link_gbps(0, 1), 3.93) && near(model.latency_ns(0, 1), 120.0));
        assert!(near(model.controller_gbps(1), 3.93));
        assert_eq!(
            [0, 1].map(|memory| model.controller_origins[memory]),
            [Origin::Estimated, Origin::Firmware]
        );
        assert!(near(model.latency_ns(1, 0), 180.0));
    }

    #[test]
    fn estimates_fill_what_nobody_told_and_nothing_else() {
        let topology = topology::synthetic::parse("2x8+1@10,20").unwrap();
        let mut graph = topology.bandwidth().clone();
        let measured = Some(Figure {
            value: 31_000,
            origin: Origin::Measured,
        });
        graph.link_mut(NodeId(0), NodeId(1)).read_mbps = measured;
        let known = topology.with_bandwidth(graph);
        let model = MachineModel::new(&known);
        let filled = with_estimates(known);
        assert_eq!(filled.bandwidth().iter().count(), 6, "node 2 asks nobody");
        let link = filled.bandwidth().link(NodeId(0), NodeId(1));
        assert_eq!(link.read_mbps, measured);
        assert_eq!(
            link.latency_ns.map(|figure| (figure.value, figure.origin)),
            Some((180, Origin::Estimated))
        );
        // What is shown is what is gone by, to the MB/s that it is shown in.
        let again = MachineModel::new(&filled);
        for pair in 0..6 {
            let (from, to) = (pair / 3, pair % 3);
            assert!((again.link_gbps(from, to) - model.link_gbps(from, to)).abs() < 0.001);
        }
    }

    #[test]
    fn what_was_seen_corrects_what_was_estimated_and_others_never_take_all() {
        let mut model = MachineModel::new(&topology::synthetic::parse("2x2@10,20").unwrap());
        let estimated = model.controller_gbps(0);
        model.saw(0, estimated / 2.0);
        model.saw(0, f64::NAN);
        assert!(near(model.controller_gbps(0), estimated));
        model.saw(0, 40.0);
        assert!(near(model.controller_gbps(0), 40.0) && near(model.background_gbps(0), 0.0));
        let model = model.with_background(&[50.0, -1.0]);
        assert!(near(model.background_gbps(0), 39.2) && near(model.background_gbps(1), 0.0));
    }
}
