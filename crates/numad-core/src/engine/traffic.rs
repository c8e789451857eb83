//! What is known of how busy the machine's memory is, kept for the programs that are judged.

use topology::{Origin, Topology};

use crate::cost::MachineModel;
use crate::observation::NodeTraffic;
use crate::policy::{Page, Program};
use crate::pressure::Pressure;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Traffic {
    /// Made when something is known for the first time; learns what controllers can deliver.
    model: Option<MachineModel>,
    /// GB/s by position of the node; empty when nothing is measured.
    gbps: Vec<Option<f64>>,
}

/// What a program is judged by.
#[derive(Debug)]
pub(super) enum Memory<'a> {
    /// The machine counts what its memory delivers, in GB/s by position.
    Counted(&'a MachineModel, &'a [Option<f64>]),
    /// It does not, but it is known what memory can deliver, and what other programs were last seen
    /// to take of it: a program whose samples tell what answers can be judged by those.
    Sampled(&'a MachineModel, Vec<f64>),
    /// Neither: everything is judged by distance, and what estimates find clearly slower is not done.
    Unknown(&'a MachineModel, Vec<f64>),
}

impl Traffic {
    /// Takes what an observation says; nothing said is nothing known.
    pub(super) fn take(&mut self, topology: &Topology, traffic: &[NodeTraffic]) {
        self.gbps.clear();
        if traffic.is_empty() {
            return;
        }
        let model = self
            .model
            .get_or_insert_with(|| MachineModel::new(topology));
        self.gbps.resize(topology.nodes().len(), None);
        for seen in traffic {
            if let Some(position) = topology.position(seen.node) {
                let bytes = seen
                    .read_bytes_per_s
                    .saturating_add(seen.written_bytes_per_s);
                let gbps = bytes as f64 / 1e9;
                model.saw(position, gbps);
                self.gbps[position] = Some(gbps);
            }
        }
    }

    /// What a program is judged by beside others that take so much.
    ///
    /// A controller that was never measured, nor told of by firmware, is no measure for samples: an
    /// estimate that is half of what it delivers would make every busy program look like one that
    /// saturates it.
    pub(super) fn memory(&mut self, topology: &Topology, others_gbps: Vec<f64>) -> Memory<'_> {
        let model = self
            .model
            .get_or_insert_with(|| MachineModel::new(topology));
        if !self.gbps.is_empty() {
            return Memory::Counted(model, &self.gbps);
        }
        match model.controllers_origin(topology) {
            Origin::Estimated => Memory::Unknown(model, others_gbps),
            Origin::Firmware | Origin::Measured => Memory::Sampled(model, others_gbps),
        }
    }
}

impl<'a> Memory<'a> {
    pub(super) const fn model(&self) -> &'a MachineModel {
        match self {
            Self::Counted(model, _) | Self::Sampled(model, _) | Self::Unknown(model, _) => model,
        }
    }

    /// What it means for a program, whose samples tell or do not what answered them.
    pub(super) fn pressure(&self, program: &Program<'_>, tells: bool) -> Option<Pressure> {
        match self {
            Self::Counted(model, gbps) => Some(Pressure::counted(model, gbps, program)),
            Self::Sampled(model, others) if tells => {
                Some(Pressure::sampled(model, others, program))
            }
            Self::Unknown(model, others) if tells => {
                Some(Pressure::guessed(model, others, program))
            }
            Self::Sampled(..) | Self::Unknown(..) => None,
        }
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
        let mut known = Traffic::default();
        known.take(topology, traffic);
        let name = match known.memory(topology, vec![1.0; 3]) {
            Memory::Counted(..) => "counted",
            Memory::Sampled(..) => "sampled",
            Memory::Unknown(..) => "unknown",
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
