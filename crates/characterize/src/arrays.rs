//! The triad.

use std::hint::black_box;
use std::num::NonZeroUsize;
use std::sync::RwLock;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use topology::{CpuId, NodeId};

use crate::bound;
use crate::run::RunError;

/// Steps through an array of a power of two elements in an order that defeats prefetchers and comes by
/// every element once: the paper's prime, which is odd.
const PRIME: usize = 302_400_041;

/// Elements that are visited before a thread looks whether it is to stop: about 100 us.
const STRIDE: usize = 4096;

/// Lines that one element of the triad moves: of a, b and c. The line of a is also written back later;
/// what samples count is accesses, and these are three.
const LINES: usize = 3;
const LINE_BYTES: usize = 64;

/// Three arrays on one node.
#[derive(Debug)]
pub(crate) struct Arrays {
    a: Vec<AtomicU64>,
    b: Vec<AtomicU64>,
    c: Vec<AtomicU64>,
}

impl Arrays {
    /// Three arrays of this many bytes together at most, a power of two of elements each.
    pub(crate) fn on(node: NodeId, bytes: u64) -> Result<Self, RunError> {
        let elements = usize::try_from(bytes / 3 / 8).unwrap_or(0).max(STRIDE);
        let elements = 1_usize << elements.ilog2();
        let make = |first: u64| -> Vec<AtomicU64> {
            (first..).take(elements).map(AtomicU64::new).collect()
        };
        bound::on_node(node, || Self {
            a: make(1),
            b: make(2),
            c: make(3),
        })
    }

    /// GB/s that each group of processors gets when all of them work at once.
    pub(crate) fn measure(
        &self,
        groups: &[&[CpuId]],
        length: Duration,
    ) -> Result<Vec<f64>, RunError> {
        let count = groups.iter().map(|group| group.len()).sum();
        let (gate, ready) = (RwLock::new(()), AtomicUsize::new(0));
        let stop = AtomicBool::new(false);
        let threads = NonZeroUsize::new(count).unwrap_or(NonZeroUsize::MIN);
        let rates = thread::scope(|scope| {
            let closed = gate.write();
            let mut workers = Vec::with_capacity(count);
            for (place, &cpu) in groups.iter().flat_map(|group| group.iter()).enumerate() {
                let (gate, ready, stop) = (&gate, &ready, &stop);
                let part = self.a.len() / threads * place;
                let work = move || {
                    // All of them come to the gate, bound or not.
                    let bound = bound::to_cpu(cpu);
                    ready.fetch_add(1, Ordering::Relaxed);
                    drop(gate.read());
                    bound.map(|()| self.work(part, stop))
                };
                // Where there are not enough threads, those that are there must not begin.
                let worker = bound::thread(scope, work)
                    .inspect_err(|_| stop.store(true, Ordering::Relaxed))?;
                workers.push(worker);
            }
            while ready.load(Ordering::Relaxed) < count {
                thread::sleep(Duration::from_millis(1));
            }
            drop(closed);
            thread::sleep(length);
            stop.store(true, Ordering::Relaxed);
            let ended = workers.into_iter();
            ended
                .map(|worker| worker.join().unwrap_or(Err(RunError::Broken)))
                .collect::<Result<Vec<f64>, RunError>>()
        })?;
        let mut rates = rates.into_iter();
        let sums = groups
            .iter()
            .map(|group| rates.by_ref().take(group.len()).sum());
        Ok(sums.collect())
    }

    /// One thread's part until it is told to stop; in GB/s.
    fn work(&self, first: usize, stop: &AtomicBool) -> f64 {
        let began = Instant::now();
        let mut at = first;
        while !stop.load(Ordering::Relaxed) {
            self.visit(at);
            at = at.wrapping_add(STRIDE);
        }
        let spent = began.elapsed().as_nanos().max(1);
        let bytes = at.wrapping_sub(first) * LINES * LINE_BYTES;
        #[expect(clippy::cast_precision_loss, reason = "a figure of three digits")]
        let rate = bytes as f64 / spent as f64;
        rate
    }

    /// Elements from this one on. Threads write the same sums over one another, as in the paper.
    fn visit(&self, first: usize) {
        let mask = self.a.len() - 1;
        let (a, b, c) = (&self.a[..], &self.b[..=mask], &self.c[..=mask]);
        for at in first..first.saturating_add(STRIDE) {
            let place = at.wrapping_mul(PRIME) & mask;
            let sum = b[place]
                .load(Ordering::Relaxed)
                .wrapping_add(c[place].load(Ordering::Relaxed).wrapping_mul(3));
            a[place].store(sum, Ordering::Relaxed);
        }
        black_box(a);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_element_is_visited_once_in_each_round() {
        let arrays = Arrays::on(NodeId(0), 3 * 8 * 10_000).unwrap();
        assert_eq!(arrays.a.len(), 8192);
        arrays.visit(0);
        arrays.visit(4096);
        for (place, sum) in (0_u64..).zip(&arrays.a) {
            assert_eq!(sum.load(Ordering::Relaxed), place + 2 + 3 * (place + 3));
        }
    }
}
