//! Following pointers: the latency of one access after another.

use std::hint::black_box;
use std::thread;
use std::time::{Duration, Instant};

use topology::{CpuId, NodeId};

use crate::bound;
use crate::run::RunError;

/// A cache line that names the next one.
#[derive(Debug)]
#[repr(align(64))]
struct Line(usize);

/// Lines that are visited in disorder before going on: those of 16 pages of 4 KiB, few enough that the
/// translations of their addresses stay known, and latency is that of memory and not of page tables.
const GROUP: usize = 1024;

/// Steps between two looks at the clock: about 100 us.
const STEPS: usize = 1024;

/// A circle through memory of one node.
#[derive(Debug)]
pub(crate) struct Chase(Vec<Line>);

impl Chase {
    /// A circle of this many bytes.
    pub(crate) fn on(node: NodeId, bytes: u64) -> Result<Self, RunError> {
        let lines = usize::try_from(bytes).unwrap_or(0) / size_of::<Line>();
        let lines = lines.max(2 * GROUP);
        bound::on_node(node, || Self(circle(lines)))
    }

    /// Nanoseconds of one access by a processor.
    pub(crate) fn measure(&self, cpu: CpuId, length: Duration) -> Result<f64, RunError> {
        thread::scope(|scope| {
            let walker = bound::thread(scope, || bound::to_cpu(cpu).map(|()| self.walk(length)))?;
            walker.join().unwrap_or(Err(RunError::Broken))
        })
    }

    fn walk(&self, length: Duration) -> f64 {
        let (mut at, mut steps) = (0, 0_usize);
        let began = Instant::now();
        let mut spent = Duration::ZERO;
        while spent < length || steps == 0 {
            for _ in 0..STEPS {
                at = self.0[at].0;
            }
            steps += STEPS;
            spent = began.elapsed();
        }
        black_box(at);
        #[expect(clippy::cast_precision_loss, reason = "a figure of three digits")]
        let each = spent.as_nanos() as f64 / steps as f64;
        each
    }
}

/// Each line names the next, group by group, within a group in a made-up order.
fn circle(lines: usize) -> Vec<Line> {
    let mut order: Vec<usize> = (0..lines).collect();
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    for group in order.chunks_mut(GROUP) {
        for last in (1..group.len()).rev() {
            // Xorshift is random enough to be nothing that a prefetcher knows.
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let other = state % (last as u64 + 1);
            group.swap(last, usize::try_from(other).unwrap_or(0));
        }
    }
    let mut circle: Vec<Line> = order.iter().map(|_| Line(0)).collect();
    for (place, &line) in order.iter().enumerate() {
        circle[line].0 = order[(place + 1) % lines];
    }
    circle
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_circle_comes_by_every_line_before_it_closes() {
        for lines in [2 * GROUP, 5000] {
            let circle = circle(lines);
            let (mut at, mut steps) = (0, 0);
            while steps == 0 || at != 0 {
                at = circle[at].0;
                steps += 1;
            }
            assert_eq!(steps, lines);
        }
    }
}
