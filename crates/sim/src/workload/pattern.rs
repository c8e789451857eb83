//! Who talks to whom in numerical kernels, as data.
//!
//! Ranks stand on a grid that is as near to a square or cube as their number allows; which thread is
//! which rank is shuffled. Every pair that talks shares a small region, and so does every row that
//! talks as a whole. The weights are those of the messages of the NAS parallel benchmarks, as far as
//! they are known from their sources; absolute amounts are those of all our workloads.

use std::collections::BTreeMap;

use super::{Builder, SHARED_PART, TRANSFER_PART};
use crate::random::Random;

/// A numerical kernel, as far as memory sees it.
#[derive(Debug, PartialEq, Eq)]
pub struct Pattern {
    /// The word that names it.
    pub name: &'static str,
    /// What it is like.
    pub about: &'static str,
    /// Axes of the grid: 2 or 3.
    axes: usize,
    /// Whether the last rank of an axis is a neighbour of the first.
    wraps: bool,
    /// Whether nobody begins the next round before all have ended this one.
    in_step: bool,
    links: &'static [Link],
}

/// Whom every rank talks to, and how much compared to the other links of the pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// The rank so many steps away along each axis.
    Step([usize; 3], u32),
    /// Those 1, 2, 4, ... away along an axis, as sums over all ranks of a row are made.
    Doubling(usize, u32),
    /// The rank with the first two coordinates exchanged.
    Transpose(u32),
    /// Everyone along an axis.
    Everyone(usize, u32),
}

/// All patterns.
pub const PATTERNS: &[Pattern] = &[
    Pattern {
        name: "stencil",
        about: "a plane cut into tiles that exchange their borders",
        axes: 2,
        wraps: false,
        in_step: false,
        links: &[Link::Step([1, 0, 0], 1), Link::Step([0, 1, 0], 1)],
    },
    Pattern {
        name: "cg",
        about: "sums over rows, and an exchange with the transposed rank",
        axes: 2,
        wraps: false,
        in_step: true,
        links: &[Link::Doubling(1, 2), Link::Transpose(2)],
    },
    Pattern {
        name: "mg",
        about: "neighbours in space on finer and coarser grids",
        axes: 3,
        wraps: true,
        in_step: true,
        links: &[
            Link::Step([1, 0, 0], 8),
            Link::Step([0, 1, 0], 8),
            Link::Step([0, 0, 1], 8),
            Link::Step([2, 0, 0], 2),
            Link::Step([0, 2, 0], 2),
            Link::Step([0, 0, 2], 2),
        ],
    },
    Pattern {
        name: "ft",
        about: "all rows, then all columns, exchange everything",
        axes: 2,
        wraps: false,
        in_step: true,
        links: &[Link::Everyone(0, 1), Link::Everyone(1, 1)],
    },
    Pattern {
        name: "lu",
        about: "wavefronts over a plane, mostly along one axis",
        axes: 2,
        wraps: false,
        in_step: true,
        links: &[Link::Step([1, 0, 0], 1), Link::Step([0, 1, 0], 3)],
    },
    Pattern {
        name: "sp",
        about: "successors along rows, columns and diagonals of a torus",
        axes: 2,
        wraps: true,
        in_step: true,
        links: &[
            Link::Step([1, 0, 0], 1),
            Link::Step([0, 1, 0], 1),
            Link::Step([1, 1, 0], 1),
        ],
    },
];

/// Pages that two ranks share; a row shares as many for each of its ranks.
const BORDER_PAGES: u64 = 8;

/// The pattern of this name.
pub(super) fn named(name: &str) -> Option<&'static Pattern> {
    PATTERNS.iter().find(|pattern| pattern.name == name)
}

impl Builder {
    pub(super) fn pattern(&mut self, pattern: &Pattern, random: &mut Random) {
        let threads = self.plan.threads.len();
        let mut thread_of: Vec<usize> = (0..threads).collect();
        random.shuffle(&mut thread_of);
        let groups = pattern.groups(threads);
        let mut said = vec![0; threads];
        for (ranks, weight) in &groups {
            for &rank in ranks {
                said[rank] += weight;
            }
        }
        self.private(0..threads);
        self.begin_phase();
        for (ranks, weight) in &groups {
            let members = || ranks.iter().map(|&rank| thread_of[rank]);
            let pages = BORDER_PAGES * (ranks.len() as u64 - 1);
            let region = self.region(pages, members().min().unwrap_or(0), TRANSFER_PART);
            for &rank in ranks {
                let part = SHARED_PART * f64::from(*weight) / f64::from(said[rank]);
                self.use_region(thread_of[rank], region, part);
            }
        }
        for (rank, &thread) in thread_of.iter().enumerate() {
            let phase = &mut self.plan.phases[0];
            if said[rank] == 0 {
                phase.uses[thread][0].1 = 1.0;
            }
            phase.barriers[thread] = pattern.in_step.then_some(0);
        }
    }
}

impl Pattern {
    /// Ranks that share something, ascending, and how much: every set of ranks once.
    fn groups(&self, ranks: usize) -> Vec<(Vec<usize>, u32)> {
        let grid = Grid::new(ranks, self.axes);
        let mut groups: BTreeMap<Vec<usize>, u32> = BTreeMap::new();
        let mut add = |mut members: Vec<usize>, weight: u32| {
            members.sort_unstable();
            members.dedup();
            if members.len() > 1 {
                *groups.entry(members).or_default() += weight;
            }
        };
        for &link in self.links {
            for rank in 0..ranks {
                let here = grid.place(rank);
                match link {
                    Link::Step(by, weight) => {
                        let there = grid.step(here, by, self.wraps);
                        there
                            .into_iter()
                            .for_each(|one| add(vec![rank, one], weight));
                    }
                    Link::Doubling(axis, weight) => {
                        for other in grid.doubling(here, axis) {
                            add(vec![rank, other], weight);
                        }
                    }
                    Link::Transpose(weight) => add(vec![rank, grid.transposed(here)], weight),
                    Link::Everyone(axis, weight) if here[axis] == 0 => {
                        add(grid.along(here, axis), weight);
                    }
                    Link::Everyone(..) => {}
                }
            }
        }
        groups.into_iter().collect()
    }
}

/// Ranks in rows, columns and layers.
struct Grid {
    sides: [usize; 3],
}

impl Grid {
    /// As near to equal sides as the number allows; the last axis is the longest.
    fn new(ranks: usize, axes: usize) -> Self {
        let mut sides = [1; 3];
        let mut left = ranks;
        for (axis, side) in sides.iter_mut().enumerate().take(axes) {
            let remaining = axes - axis;
            *side = if remaining == 1 {
                left
            } else {
                nearest_divisor(left, remaining)
            };
            left /= *side;
        }
        Self { sides }
    }

    fn place(&self, rank: usize) -> [usize; 3] {
        let [x, y, _] = self.sides;
        [rank % x, rank / x % y, rank / x / y]
    }

    fn rank(&self, place: [usize; 3]) -> usize {
        let [x, y, _] = self.sides;
        place[0] + x * (place[1] + y * place[2])
    }

    fn step(&self, here: [usize; 3], by: [usize; 3], wraps: bool) -> Option<usize> {
        let mut there = here;
        for axis in 0..3 {
            let moved = here[axis] + by[axis];
            if moved >= self.sides[axis] && !wraps {
                return None;
            }
            there[axis] = moved % self.sides[axis];
        }
        Some(self.rank(there))
    }

    fn doubling(&self, here: [usize; 3], axis: usize) -> Vec<usize> {
        let side = self.sides[axis];
        let mut found = Vec::new();
        let mut far = 1;
        while far < side {
            let other = here[axis] ^ far;
            if other < side {
                let mut there = here;
                there[axis] = other;
                found.push(self.rank(there));
            }
            far *= 2;
        }
        found
    }

    /// On a grid that is no square the place is scaled to the other sides, and meets itself at times.
    fn transposed(&self, here: [usize; 3]) -> usize {
        let [x, y, _] = self.sides;
        self.rank([here[1] * x / y, here[0] * y / x, here[2]])
    }

    fn along(&self, here: [usize; 3], axis: usize) -> Vec<usize> {
        let place = |at| {
            let mut there = here;
            there[axis] = at;
            self.rank(there)
        };
        (0..self.sides[axis]).map(place).collect()
    }
}

/// The largest divisor that is not above the root of this degree.
fn nearest_divisor(number: usize, degree: usize) -> usize {
    let power = |base: usize| (0..degree).fold(1_usize, |product, _| product.saturating_mul(base));
    (1..=number)
        .take_while(|&divisor| power(divisor) <= number)
        .filter(|&divisor| number.is_multiple_of(divisor))
        .max()
        .unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(name: &str, ranks: usize, sides: [usize; 3], of_rank_0: &[usize], count: usize) {
        let pattern = named(name).unwrap();
        assert_eq!(Grid::new(ranks, pattern.axes).sides, sides);
        let groups = pattern.groups(ranks);
        let mut partners: Vec<usize> = groups
            .iter()
            .filter(|(members, _)| members.contains(&0))
            .flat_map(|(members, _)| members.iter().copied().filter(|&one| one != 0))
            .collect();
        partners.sort_unstable();
        partners.dedup();
        assert_eq!(partners, of_rank_0, "{name}");
        assert_eq!(groups.len(), count, "{name}");
    }

    #[test]
    fn ranks_talk_as_the_kernels_do() {
        check("stencil", 12, [3, 4, 1], &[1, 3], 17);
        check("lu", 12, [3, 4, 1], &[1, 3], 17);
        check("cg", 16, [4, 4, 1], &[4, 8], 16 + 6);
        check(
            "mg",
            64,
            [4, 4, 4],
            &[1, 2, 3, 4, 8, 12, 16, 32, 48],
            3 * 64 + 3 * 32,
        );
        check("ft", 12, [3, 4, 1], &[1, 2, 3, 6, 9], 4 + 3);
        check("sp", 9, [3, 3, 1], &[1, 2, 3, 4, 6, 8], 27);
    }

    #[test]
    fn odd_numbers_of_ranks_stand_in_a_row() {
        assert_eq!(Grid::new(7, 2).sides, [1, 7, 1]);
        assert_eq!(Grid::new(1, 3).sides, [1, 1, 1]);
        assert_eq!(Grid::new(288, 3).sides, [6, 6, 8]);
        for pattern in PATTERNS {
            for (members, weight) in pattern.groups(7) {
                assert!(members.len() > 1 && weight > 0);
            }
        }
    }
}
