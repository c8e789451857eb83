//! What is copied from node to node, how long memory and links take for that, and who waits for it.

use std::collections::BTreeMap;

use numad_core::cost::MachineModel;

/// Bytes from each node to each other, and nanoseconds that threads wait.
#[derive(Debug)]
pub(super) struct Copied {
    nodes: usize,
    bytes: Vec<u64>,
    held_up_ns: BTreeMap<usize, f64>,
}

impl Copied {
    pub(super) fn new(nodes: usize) -> Self {
        Self {
            nodes,
            bytes: vec![0; nodes * nodes],
            held_up_ns: BTreeMap::new(),
        }
    }

    pub(super) fn clear(&mut self) {
        self.bytes.fill(0);
        self.held_up_ns.clear();
    }

    pub(super) fn hold_up(&mut self, thread: usize, ns: f64) {
        *self.held_up_ns.entry(thread).or_default() += ns;
    }

    /// Threads that wait, and how long each.
    pub(super) fn held_up(&self) -> impl Iterator<Item = (usize, f64)> {
        self.held_up_ns.iter().map(|(&thread, &ns)| (thread, ns))
    }

    pub(super) fn note(&mut self, bytes: u64, (from, to): (usize, usize)) {
        self.bytes[from * self.nodes + to] += bytes;
    }

    fn between(&self, from: usize, to: usize) -> u64 {
        self.bytes[from * self.nodes + to]
    }

    /// Bytes that the memory of a node is read and written for it.
    fn of(&self, node: usize) -> u64 {
        let each =
            (0..self.nodes).map(|other| self.between(node, other) + self.between(other, node));
        each.sum()
    }

    /// How many nodes something comes from or goes to.
    pub(super) fn nodes(&self) -> usize {
        (0..self.nodes).filter(|&node| self.of(node) > 0).count()
    }

    /// How long it takes at the least, in nanoseconds: at full bandwidth of each link and each
    /// memory, as if nobody else used them. Who copies runs where the copy is.
    pub(super) fn least_ns(&self, model: &MachineModel) -> f64 {
        let mut least = 0.0_f64;
        for node in 0..self.nodes {
            least = least.max(self.of(node) as f64 / model.controller_gbps(node));
            for from in (0..self.nodes).filter(|&from| from != node) {
                let link = model.link_gbps(node, from);
                least = least.max(self.between(from, node) as f64 / link);
            }
        }
        least
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How long 8 GB take on each of these ways, in milliseconds, and how many nodes take part.
    #[track_caller]
    fn check(ways: &[(usize, usize)], expected_ms: f64, nodes: usize) {
        let topology = topology::synthetic::parse("4x18@10,20").expect("a machine");
        let model = MachineModel::new(&topology);
        assert!((model.controller_gbps(0) - 56.0).abs() < 1e-9);
        let mut copied = Copied::new(4);
        for &way in ways {
            copied.note(8_000_000_000, way);
        }
        assert!((copied.least_ns(&model) / 1e6 - expected_ms).abs() < 0.1);
        assert_eq!(copied.nodes(), nodes);
    }

    #[test]
    fn links_and_memory_bound_what_is_copied() {
        check(&[], 0.0, 0);
        // A link has half of what memory gives.
        check(&[(0, 1)], 8000.0 / 28.0, 2);
        check(&[(0, 1), (2, 3)], 8000.0 / 28.0, 4);
        // One memory is read for all three.
        check(&[(0, 1), (0, 2), (0, 3)], 24_000.0 / 56.0, 4);
        check(&[(0, 1), (1, 0)], 8000.0 / 28.0, 2);
    }
}
