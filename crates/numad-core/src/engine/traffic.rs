//! What is known of how busy the machine's memory is, kept for the programs that are judged.

use topology::{Origin, Topology};

use crate::cost::MachineModel;
use crate::observation::NodeTraffic;
use crate::policy::{Page, Program};
use crate::pressure::Pressure;

/// See the module.
#[derive(Debug)]
pub(super) struct Traffic {
    /// Learns what controllers can deliver.
    pub model: MachineModel,
    /// Some controller was never measured, nor told of by firmware: it is no measure for samples.
    /// An estimate that is half of what it delivers would make every busy program look like one
    /// that saturates it.
    is_estimated: bool,
    /// GB/s by position of the node; empty when nothing is measured.
    gbps: Vec<Option<f64>>,
}

impl Traffic {
    pub(super) fn new(topology: &Topology) -> Self {
        let model = MachineModel::new(topology);
        Self {
            is_estimated: model.controllers_origin(topology) == Origin::Estimated,
            model,
            gbps: Vec::new(),
        }
    }

    /// Takes what an observation says; nothing said is nothing known.
    pub(super) fn take(&mut self, topology: &Topology, traffic: &[NodeTraffic]) {
        self.gbps.clear();
        if traffic.is_empty() {
            return;
        }
        self.gbps.resize(topology.nodes().len(), None);
        for seen in traffic {
            if let Some(position) = topology.position(seen.node) {
                let bytes = seen
                    .read_bytes_per_s
                    .saturating_add(seen.written_bytes_per_s);
                let gbps = bytes as f64 / 1e9;
                self.model.saw(position, gbps);
                self.gbps[position] = Some(gbps);
            }
        }
    }

    /// What a program is judged by beside others that were last seen to take so much, in GB/s by
    /// position: by what the machine counts, else by its samples, if they tell what answered them.
    /// None where everything is judged by distance.
    pub(super) fn pressure(
        &self,
        program: &Program<'_>,
        others_gbps: &[f64],
        tells: bool,
    ) -> Option<Pressure> {
        let model = &self.model;
        if !self.gbps.is_empty() {
            return Some(Pressure::counted(model, &self.gbps, program));
        }
        let mut sampled = tells.then(|| Pressure::sampled(model, others_gbps, program))?;
        sampled.guessed = self.is_estimated;
        Some(sampled)
    }
}

/// Accesses that each unit of weight of a program's pages stands for, when there were so many in
/// the window; none where nothing was seen.
///
/// Weights hold what was seen in earlier windows too, faded. Which pages memory answers more often
/// than caches is not known; all are taken to be alike.
pub(super) fn per_weight(program: &Program<'_>, accesses: f64) -> Option<f64> {
    let weight: u64 = program.pages.iter().map(Page::weight).sum();
    (accesses > 0.0 && weight > 0).then(|| accesses / weight as f64)
}

/// What several take together, by position.
pub(super) fn sum<'a>(takes: impl Iterator<Item = &'a [f64]>, nodes: usize) -> Vec<f64> {
    let mut all = vec![0.0; nodes];
    for one in takes {
        for (all, one) in all.iter_mut().zip(one) {
            *all += one;
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use topology::{BandwidthGraph, Figure, Link, NodeId};

    use super::*;

    fn machine(text: &str, measured: &[(u32, u32)]) -> Topology {
        let topology = topology::synthetic::parse(text).unwrap();
        let mut graph = BandwidthGraph::default();
        for &(from, to) in measured {
            *graph.link_mut(NodeId(from), NodeId(to)) = Link {
                read_mbps: Some(Figure {
                    value: 10_000,
                    origin: Origin::Measured,
                }),
                ..Link::default()
            };
        }
        topology.with_bandwidth(graph)
    }

    #[track_caller]
    fn check(topology: &Topology, traffic: &[NodeTraffic], expected: &str) {
        let mut known = Traffic::new(topology);
        known.take(topology, traffic);
        let name = match (known.gbps.is_empty(), known.is_estimated) {
            (false, _) => "counted",
            (true, false) => "sampled",
            (true, true) => "unknown",
        };
        assert_eq!(name, expected);
    }

    #[test]
    fn samples_are_held_against_what_was_measured_and_never_against_estimates() {
        let plain = machine("2x2+1@10,20", &[]);
        check(&plain, &[], "unknown");
        check(&machine("2x2+1@10,20", &[(0, 0), (1, 1)]), &[], "unknown");
        // What one node gets of the memory alone tells what that delivers at least.
        let known = machine("2x2+1@10,20", &[(0, 0), (1, 1), (0, 2)]);
        check(&known, &[], "sampled");
        let counted = NodeTraffic {
            node: NodeId(0),
            read_bytes_per_s: 1,
            written_bytes_per_s: 0,
        };
        check(&known, &[counted], "counted");
        check(&plain, &[counted], "counted");
    }

    #[test]
    fn what_several_take_is_summed_up_by_node() {
        let takes: [&[f64]; 3] = [&[1.0, 2.0], &[], &[0.5, 0.0, 4.0]];
        assert_eq!(sum(takes.into_iter(), 3), [1.5, 2.0, 4.0]);
    }
}
