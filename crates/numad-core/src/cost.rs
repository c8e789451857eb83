//! What a placement costs and what it costs to change it. One implementation for the guard, for
//! ranking candidate plans, and for the simulator.
//!
//! Two views of the same machine:
//!
//! - [`placement_distances`] with [`Prices`] is the cheap one, asked for every window:
//!   communication times distance, against the price of moving.
//! - [`MachineModel`] with [`solve`] is the full one: where accesses go decides how long each takes,
//!   how long each takes decides how many there are, until both agree. [`Demand`] asks it about a
//!   program as policies see it.
//!
//! Only `+ - * /` and comparisons on `f64`, so that results are the same bits on every platform.

mod congestion;
mod machine;
mod program;
mod worth;

use std::time::Duration;

use topology::Distances;

use crate::matrix::CommMatrix;

pub use congestion::{BUSY, Congestion, TRANSFER_WITHIN, TaskLoad, queue, solve};
pub use machine::{ACCESS_BYTES, LOCAL_LATENCY_NS, MachineModel, OVERLAP, with_estimates};
pub use program::{Demand, PlacementCost, asked_gbps};
pub use worth::Worth;
pub(crate) use worth::{uses_by_node, way};

/// Amount of communication times distance, summed over all pairs, for each of several placements:
/// lower is better. Most of the work is to find out who talks.
///
/// Distances are those of the SLIT, so that all-local communication costs 10 per unit. A pair whose
/// two directions differ costs their mean. A placement names the node of each task by position; a
/// task whose node is not known counts with the mean distance to all nodes, as if it were put
/// anywhere.
///
/// # Panics
/// When a placement is not as long as the matrix, or a node is not in `distances`.
#[must_use]
pub fn placement_distances<const COUNT: usize>(
    matrix: &CommMatrix,
    placements: [&[Option<usize>]; COUNT],
    distances: &Distances,
) -> [f64; COUNT] {
    let table = PairDistances::new(distances);
    let mut sums = [0.0; COUNT];
    matrix.pairs().for_each(|(one, other, amount)| {
        for (sum, nodes) in sums.iter_mut().zip(placements) {
            *sum += amount as f64 * table.between(nodes[one], nodes[other]);
        }
    });
    sums
}

/// Symmetric distances with one more row for "anywhere".
struct PairDistances {
    side: usize,
    values: Vec<f64>,
}

impl PairDistances {
    fn new(distances: &Distances) -> Self {
        let count = distances.count();
        let side = count + 1;
        let mut values = vec![0.0; side * side];
        let mut total = 0.0;
        for one in 0..count {
            let mut row = 0.0;
            for other in 0..count {
                let there = f64::from(distances.between(one, other));
                let back = f64::from(distances.between(other, one));
                values[one * side + other] = (there + back) / 2.0;
                row += (there + back) / 2.0;
            }
            let mean = row / count as f64;
            values[one * side + count] = mean;
            values[count * side + one] = mean;
            total += mean;
        }
        values[count * side + count] = total / count.max(1) as f64;
        Self { side, values }
    }

    fn between(&self, one: Option<usize>, other: Option<usize>) -> f64 {
        let anywhere = self.side - 1;
        let (one, other) = (one.unwrap_or(anywhere), other.unwrap_or(anywhere));
        assert!(
            one <= anywhere && other <= anywhere,
            "node position out of range"
        );
        self.values[one * self.side + other]
    }
}

/// What moving costs, and what a shorter distance saves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prices {
    /// Time that moving one page takes from its program, in nanoseconds.
    pub page_move_ns: f64,
    /// Time that passes for each page while many move, in nanoseconds: less where calls go on side
    /// by side, more where they wait.
    pub page_takes_ns: f64,
    /// Time that a task loses when it moves to another node, in nanoseconds.
    pub task_move_ns: f64,
    /// Time that one access saves for each unit of SLIT distance it gets nearer, in nanoseconds.
    pub access_saving_ns_per_distance: f64,
    /// How many accesses one unit of communication in the matrix, or of weight of a page, stands
    /// for; at least, where `accesses_per_busy_second` is above 0.
    pub accesses_per_amount: f64,
    /// For sources whose samples stand for no known number of accesses, such as page faults: what a
    /// processor that is busy for a second is taken to ask of memory, shared out evenly over the
    /// samples of the window. 0 for sources with a true period. See [`Self::of_window`].
    pub accesses_per_busy_second: f64,
    /// How long a plan has to earn its price back, in nanoseconds: at first, and as long as it is
    /// not known how long the program goes on as it does.
    pub horizon_ns: f64,
}

/// Moving a 4 KiB page: unmapping, one flush of remote translations, copying at about 5 GB/s, and
/// mapping again add up to 1 to 3 us on the machines of the papers. An expectation, to be replaced by
/// what the host measures.
const PAGE_MOVE_NS: f64 = 2_000.0;

/// Four calls side by side. An expectation as well.
const PAGE_TAKES_NS: f64 = PAGE_MOVE_NS / 4.0;

/// Cache that a task fills again after it moved: the second-level cache of a server core.
const REFILL_BYTES: f64 = 1_048_576.0;

/// The scheduler's part of moving a task: stopping it, waking the other processor.
const RESCHEDULE_NS: f64 = 5_000.0;

/// At first as little is staked on a program as one that soon ends can spare; later what it is
/// expected to go on for grows with how long it has. Where a program of 16 GiB a thread ends after
/// 12 s, half as much loses 36 %, this 38 and double 51 (docs/measurements.md).
const HORIZON_NS: f64 = 5_000_000_000.0;

impl Default for Prices {
    fn default() -> Self {
        Self {
            page_move_ns: PAGE_MOVE_NS,
            page_takes_ns: PAGE_TAKES_NS,
            // Lines come in [`OVERLAP`] at a time: 16,384 lines * 90 ns / 10, about 150 us.
            task_move_ns: RESCHEDULE_NS + REFILL_BYTES / ACCESS_BYTES * LOCAL_LATENCY_NS / OVERLAP,
            // SLIT distances are latencies with the local one at 10: 90 ns / 10.
            access_saving_ns_per_distance: LOCAL_LATENCY_NS / f64::from(topology::distance::LOCAL),
            // Amounts are samples times their period, which is an estimate of accesses.
            accesses_per_amount: 1.0,
            accesses_per_busy_second: 0.0,
            horizon_ns: HORIZON_NS,
        }
    }
}

/// One access beyond the caches per microsecond: a tenth of the time in local memory at 90 ns. A
/// program that asks less of memory gains little by placement and loses little by a move in vain.
pub const ACCESSES_PER_BUSY_SECOND: f64 = 1_000_000.0;

impl Prices {
    /// Prices of a window in which the tasks together were busy for that long and sampled so often.
    #[must_use]
    pub fn of_window(self, busy_s: f64, samples: f64) -> Self {
        let shared_out = self.accesses_per_busy_second * busy_s / samples.max(1.0);
        Self {
            accesses_per_amount: self.accesses_per_amount.max(shared_out),
            ..self
        }
    }

    /// Whether weights tell how often memory is used, and not only that it is.
    #[must_use]
    pub const fn tell_how_often(&self) -> bool {
        self.accesses_per_busy_second <= 0.0
    }

    /// What a plan saves over the horizon if every window is like this one, in nanoseconds.
    /// `saved` is accesses times distance per window; negative when the plan makes things worse.
    #[must_use]
    pub fn gain_ns(&self, saved: f64, window: Duration) -> f64 {
        if window.is_zero() {
            return 0.0;
        }
        saved * self.access_saving_ns_per_distance * self.windows(window)
    }

    /// How long a plan has to earn its price back.
    #[must_use]
    pub fn horizon(&self) -> Duration {
        Duration::try_from_secs_f64(self.horizon_ns / 1e9).unwrap_or(Duration::MAX)
    }

    /// The same of a program that has run for so long already: it is expected to run for as long
    /// again.
    #[must_use]
    pub fn expecting(self, age: Duration) -> Self {
        Self {
            horizon_ns: self.horizon_ns.max(age.as_secs_f64() * 1e9),
            ..self
        }
    }

    /// How often a window like this one comes within the horizon. One that is longer than that
    /// still promises itself once.
    pub(crate) fn windows(&self, window: Duration) -> f64 {
        (self.horizon_ns / (window.as_nanos() as f64).max(1.0)).max(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn distances(text: &str) -> Distances {
        topology::synthetic::parse(text)
            .unwrap()
            .distances()
            .clone()
    }

    fn matrix(count: usize, pairs: &[(usize, usize, u64)]) -> CommMatrix {
        let mut matrix = CommMatrix::new(count);
        for &(one, other, amount) in pairs {
            matrix.add(one, other, amount);
        }
        matrix
    }

    #[track_caller]
    fn check_distance(nodes: &[Option<usize>], expected: f64) {
        let matrix = matrix(4, &[(0, 1, 100), (2, 3, 10), (0, 3, 1)]);
        let [found] = placement_distances(&matrix, [nodes], &distances("2x2@10,20"));
        assert!((found - expected).abs() < 1e-9, "{found} != {expected}");
    }

    #[test]
    fn distance_is_amount_times_distance() {
        check_distance(&[Some(0), Some(0), Some(0), Some(0)], 1110.0);
        check_distance(&[Some(0), Some(0), Some(1), Some(1)], 1120.0);
        check_distance(&[Some(0), Some(1), Some(0), Some(1)], 2220.0);
        check_distance(&[Some(0), None, Some(1), Some(1)], 1500.0 + 100.0 + 20.0);
        check_distance(&[None, None, Some(1), Some(1)], 1500.0 + 100.0 + 15.0);
    }

    #[test]
    fn who_has_run_for_long_is_expected_to_go_on_for_long() {
        let seconds = |age| {
            let prices = Prices::default().expecting(Duration::from_secs(age));
            prices.horizon().as_secs()
        };
        assert_eq!([0, 4, 86_400].map(seconds), [5, 5, 86_400]);
    }

    #[test]
    fn a_fault_stands_for_its_share_of_what_busy_processors_ask() {
        let faults = Prices {
            accesses_per_amount: 64.0,
            accesses_per_busy_second: ACCESSES_PER_BUSY_SECOND,
            ..Prices::default()
        };
        let per_sample = |busy_s, samples| faults.of_window(busy_s, samples).accesses_per_amount;
        assert!((per_sample(2.0, 1e3) - 2_000.0).abs() < 1e-9);
        // Never less than a page swept once, however many faults there are, or however idle it is.
        assert!((per_sample(2.0, 1e6) - 64.0).abs() < 1e-9);
        assert!((per_sample(0.0, 0.0) - 64.0).abs() < 1e-9);
        // A source with a true period is taken at its word.
        let sampled = Prices::default().of_window(2.0, 10.0);
        assert!((sampled.accesses_per_amount - 1.0).abs() < 1e-9);
    }
}
