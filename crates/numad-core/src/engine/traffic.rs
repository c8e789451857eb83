//! What was measured of the machine's memory, kept for the programs that are judged.

use topology::Topology;

use crate::cost::MachineModel;
use crate::observation::NodeTraffic;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Traffic {
    /// Made when something is measured for the first time; learns what controllers can deliver.
    model: Option<MachineModel>,
    /// GB/s by position of the node; empty when nothing is measured.
    gbps: Vec<Option<f64>>,
}

/// What a program is judged by.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measured<'a> {
    pub model: &'a MachineModel,
    pub gbps: &'a [Option<f64>],
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

    pub(super) fn measured(&self) -> Option<Measured<'_>> {
        let model = self.model.as_ref()?;
        (!self.gbps.is_empty()).then_some(Measured {
            model,
            gbps: &self.gbps,
        })
    }
}
