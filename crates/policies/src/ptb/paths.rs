//! What is left of the ways from processors to memory.
//!
//! The listing of the paper keeps one figure for each pair of nodes: what the processors of n have left of
//! `BW[n][m]`. It was measured with the rest of the machine at rest, and what others take of the same
//! memory shows in no row but theirs. Where every node keeps its own memory busy every row still shows all its
//! links as unused, and the listing sends everyone's pages to everyone else. So each memory is kept account
//! of as well, and a node can have no larger part of what is left of a memory than its link carries of what the
//! memory gives:
//!
//! ```text
//! avail[n][m] = min(BW[n][m] - used[n][m], (BW[m][m] - sum over n of used[n][m]) * BW[n][m] / BW[m][m])
//! ```
//!
//! Where one node alone uses a memory the first is the smaller, and all is as in the listing. What is
//! overdrawn counts the other way round, `BW[m][m] / BW[n][m]` times as much: an equal want is worse over the
//! narrower link.

/// The least part of a memory that counts, so that what has no link is just very far.
const PART_MIN: f64 = 0.01;

/// Bandwidth that is left, in GB/s.
#[derive(Debug)]
pub(super) struct Paths {
    nodes: usize,
    /// Row by row, of the links from the processors of a node to each memory.
    links: Vec<f64>,
    /// Of each memory.
    memories: Vec<f64>,
    /// Row by row, which part of a memory's bandwidth the link carries.
    part: Vec<f64>,
    /// Row by row, what counts.
    avail: Vec<f64>,
}

impl Paths {
    /// Nothing is used. Links row by row, and what each memory delivers.
    pub(super) fn new(links: Vec<f64>, memories: Vec<f64>) -> Self {
        let nodes = memories.len();
        let part = links.iter().enumerate().map(|(pair, link)| {
            let part = link / memories[pair % nodes];
            if part.is_finite() {
                part.clamp(PART_MIN, 1.0)
            } else {
                1.0
            }
        });
        Self {
            nodes,
            part: part.collect(),
            avail: links.clone(),
            links,
            memories,
        }
    }

    /// What the processors of a node have left to each memory.
    #[inline]
    pub(super) fn row(&self, node: usize) -> &[f64] {
        &self.avail[node * self.nodes..][..self.nodes]
    }

    /// Takes off what is used, or gives it back if it is negative; [`Self::count`] has to follow.
    #[inline]
    pub(super) fn take(&mut self, node: usize, memory: usize, gbps: f64) {
        self.links[node * self.nodes + memory] -= gbps;
        self.memories[memory] -= gbps;
    }

    /// Takes off what others use of a memory, over whichever links; [`Self::count`] has to follow.
    pub(super) fn take_by_others(&mut self, memory: usize, gbps: f64) {
        self.memories[memory] -= gbps;
    }

    /// Makes the rows agree with what was taken of a memory.
    pub(super) fn count(&mut self, memory: usize) {
        let left = self.memories[memory];
        for pair in (memory..self.avail.len()).step_by(self.nodes) {
            self.avail[pair] = narrower(self.links[pair], left, self.part[pair]);
        }
    }

    /// Which part of what a memory gives is asked for; more than all where it is overdrawn.
    pub(super) fn used(&self, memory: usize, gives: f64) -> f64 {
        if gives > 0.0 {
            1.0 - self.memories[memory] / gives
        } else {
            1.0
        }
    }

    /// What would be left of a way if so much less were used of it, and of its memory in all.
    #[inline]
    pub(super) fn without(&self, (node, memory): (usize, usize), own: f64, all: f64) -> f64 {
        let pair = node * self.nodes + memory;
        narrower(
            self.links[pair] + own,
            self.memories[memory] + all,
            self.part[pair],
        )
    }
}

#[inline]
fn narrower(link: f64, memory: f64, part: f64) -> f64 {
    let share = if memory > 0.0 {
        memory * part
    } else {
        memory / part
    };
    link.min(share)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What two nodes have left, row by row, after this was used: memories of 10 GB/s, links of 5.
    #[track_caller]
    fn check(used: [f64; 4], expected: [f64; 4]) {
        let mut paths = Paths::new(vec![10.0, 5.0, 5.0, 10.0], vec![10.0, 10.0]);
        for (pair, gbps) in used.into_iter().enumerate() {
            paths.take(pair / 2, pair % 2, gbps);
        }
        for memory in 0..2 {
            paths.count(memory);
        }
        let found = [paths.row(0), paths.row(1)].concat();
        let near = |(one, other): (&f64, &f64)| (one - other).abs() < 1e-9;
        assert!(found.iter().zip(&expected).all(near), "{found:?}");
        // As if nothing had been used from the first node.
        let (own, all) = (used[0], used[0]);
        let left = paths.without((0, 0), own, all);
        let share = 10.0 - used[2];
        assert!((left - share.min(10.0)).abs() < 1e-9, "{left}");
    }

    #[test]
    fn who_uses_a_memory_alone_finds_what_the_listing_finds() {
        check([0.0; 4], [10.0, 5.0, 5.0, 10.0]);
        check([0.0, 3.0, 0.0, 0.0], [10.0, 2.0, 5.0, 7.0]);
    }

    #[test]
    fn what_others_take_of_a_memory_is_not_there_for_us() {
        check([0.0, 0.0, 0.0, 8.0], [10.0, 1.0, 5.0, 2.0]);
        check([8.0, 0.0, 0.0, 8.0], [2.0, 1.0, 1.0, 2.0]);
    }

    #[test]
    fn an_equal_want_is_worse_over_the_narrower_link() {
        check([12.0, 0.0, 0.0, 12.0], [-2.0, -4.0, -4.0, -2.0]);
    }

    #[test]
    fn where_there_is_no_bandwidth_there_is_none_left() {
        let mut paths = Paths::new(vec![0.0; 4], vec![0.0; 2]);
        paths.take(0, 1, 3.0);
        paths.count(1);
        assert_eq!(paths.row(0), [0.0, -3.0]);
    }
}
