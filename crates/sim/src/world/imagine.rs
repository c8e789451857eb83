//! What a placement would be worth, without living through it, and what the present one asks of memory:
//! for whoever looks for the best one.

use super::World;

/// Where threads and pages are put in thought.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Layout {
    /// Position of the node of each thread.
    pub(crate) nodes: Vec<usize>,
    /// Pages of each region on each node, by position.
    pub(crate) pages: Vec<Vec<u64>>,
}

/// What a layout is worth.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Imagined {
    /// Work done as part of what an idle machine with everything local would do.
    pub(crate) speed: f64,
    /// Part of accesses that is local.
    pub(crate) local: f64,
    /// Mean latency of accesses.
    pub(crate) latency_ns: f64,
    /// The busiest controller's traffic over the mean.
    pub(crate) imbalance: f64,
}

impl World {
    /// Where everything is.
    pub(crate) fn layout(&self) -> Layout {
        Layout {
            nodes: self.threads.iter().map(|thread| thread.node).collect(),
            pages: self
                .regions
                .iter()
                .map(|region| region.on.clone())
                .collect(),
        }
    }

    /// Goes to a phase at once, for [`Self::imagine`].
    pub(crate) fn skip_to(&mut self, phase: usize) {
        self.phase = phase;
        self.enter_phase();
    }

    /// What a layout is worth in the present phase when every thread has a processor of its own, and those
    /// that share something on a node a cache. The
    /// world is of no other use afterwards.
    pub(crate) fn imagine(&mut self, layout: &Layout) -> Imagined {
        for (thread, &node) in self.threads.iter_mut().zip(&layout.nodes) {
            thread.node = node;
        }
        for (region, pages) in self.regions.iter_mut().zip(&layout.pages) {
            // Whichever they are: of pages that are not used alike, a mixture.
            for (heat, &pages) in region.heat.iter_mut().zip(pages) {
                *heat = pages as f64;
            }
        }
        let threads = layout.nodes.len();
        self.settle_with(&vec![1.0; threads], &vec![0.0; threads]);
        let (mut work, mut accesses, mut local, mut latency) = (0.0, 0.0, 0.0, 0.0);
        for pace in &self.pace {
            work += pace.rate * pace.ideal_ns;
            accesses += pace.rate;
            local += pace.rate * pace.local;
            latency += pace.rate * pace.latency_ns;
        }
        let most = self.controller_rate.iter().copied().fold(0.0, f64::max);
        let sum: f64 = self.controller_rate.iter().sum();
        Imagined {
            speed: work / self.pace.len().max(1) as f64,
            local: local / f64::max(accesses, f64::MIN_POSITIVE),
            latency_ns: latency / f64::max(accesses, f64::MIN_POSITIVE),
            imbalance: most * self.controller_rate.len() as f64 / sum.max(f64::MIN_POSITIVE),
        }
    }

    /// Share of its bandwidth that the most used controller delivers now.
    pub(crate) fn busiest_controller(&self) -> f64 {
        let rates = self.controller_rate.iter().enumerate();
        let used = rates.map(|(node, rate)| rate / self.model.controller_gbps(node));
        used.fold(0.0, f64::max)
    }
}
