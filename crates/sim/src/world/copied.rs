//! What is copied from node to node, how long memory and links take for that, and who waits for it.
//!
//! A page is out of reach while it is copied, and with it those that the kernel takes off in the
//! same batch. So a thread waits for a move if it comes upon one of these meanwhile: in memory of a
//! few MiB always, in memory of many GiB seldom. Whoever copies asks memory for what it copies, and
//! accesses queue behind that. What the flush of translations costs others is left out.

use std::collections::BTreeMap;

use numad_core::cost::MachineModel;

use super::whole;

/// Bytes from each node to each other, how long threads wait, and what goes on of earlier turns.
#[derive(Debug)]
pub(super) struct Copied {
    nodes: usize,
    bytes: Vec<u64>,
    held_up_ns: BTreeMap<usize, f64>,
    going_on: Vec<Asks>,
}

/// What one turn asks of each memory, in GB/s, and until when.
#[derive(Debug)]
struct Asks {
    gbps: Vec<f64>,
    until_ns: u64,
}

/// Small pages that the kernel takes off, copies and puts back at a time
/// (`NR_MAX_BATCHED_MIGRATION`), which is also a huge one.
pub(super) const BATCH_PAGES: f64 = 512.0;

/// Part of the time of a batch that a thread waits in the mean, if it would come upon it so often.
pub(super) fn waits_for(times: f64) -> f64 {
    match times > 0.0 {
        true => 1.0 + f64::exp_m1(-times) / times,
        false => 0.0,
    }
}

impl Copied {
    pub(super) fn new(nodes: usize) -> Self {
        Self {
            nodes,
            bytes: vec![0; nodes * nodes],
            held_up_ns: BTreeMap::new(),
            going_on: Vec::new(),
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

    /// What was copied in this turn takes so long from now.
    pub(super) fn takes(&mut self, took_ns: f64, now_ns: u64) {
        if self.nodes() > 0 {
            let gbps = (0..self.nodes).map(|node| self.of(node) as f64 / took_ns.max(1.0));
            self.going_on.push(Asks {
                gbps: gbps.collect(),
                until_ns: now_ns.saturating_add(whole(took_ns)),
            });
        }
    }

    /// What memory is asked for by what is being copied, in GB/s by node; none where nothing is.
    pub(super) fn asks_gbps(&self) -> Option<Vec<f64>> {
        let asked = |node: usize| self.going_on.iter().map(|asks| asks.gbps[node]).sum();
        (!self.going_on.is_empty()).then(|| (0..self.nodes).map(asked).collect())
    }

    /// Ends what has taken its time; tells whether there was any.
    pub(super) fn end(&mut self, now_ns: u64) -> bool {
        let before = self.going_on.len();
        self.going_on.retain(|asks| asks.until_ns > now_ns);
        self.going_on.len() < before
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
    fn who_seldom_comes_upon_a_batch_hardly_waits_for_it() {
        let waits = [0.0, 0.01, 1.0, 100.0, f64::INFINITY].map(waits_for);
        let expected = [0.0, 0.005, 1.0 / std::f64::consts::E, 0.99, 1.0];
        for (found, expected) in waits.iter().zip(expected) {
            assert!((found - expected).abs() < 1e-4, "{waits:?}");
        }
    }

    #[test]
    fn memory_is_asked_for_what_is_copied_while_that_goes_on() {
        let mut copied = Copied::new(2);
        copied.takes(1e9, 5);
        assert_eq!(copied.asks_gbps(), None);
        copied.note(8_000_000_000, (0, 1));
        copied.takes(2e9, 5);
        copied.takes(4e9, 5);
        assert_eq!(copied.asks_gbps(), Some(vec![6.0, 6.0]));
        assert!(!copied.end(2_000_000_004) && copied.end(2_000_000_005));
        assert_eq!(copied.asks_gbps(), Some(vec![2.0, 2.0]));
        assert!(copied.end(4_000_000_005));
        assert_eq!(copied.asks_gbps(), None);
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
