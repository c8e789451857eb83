//! Workloads of the matrix, as data.

use topology::Topology;

use crate::workload::{PATTERNS, Workload};

/// A workload and how much of a machine it fills.
#[derive(Debug, PartialEq, Eq)]
pub struct Row {
    /// The word that names it, which is that of the workload.
    pub name: &'static str,
    /// What it is like.
    pub about: &'static str,
    /// Threads for every hundred cores.
    percent: usize,
    /// The cgroup allows the processors of the first node alone, and its threads fill those.
    pub confined: bool,
}

/// All workloads of the matrix.
pub const ROWS: &[Row] = &[
    full(
        "slices",
        "a slice for each thread, all touched first by one",
    ),
    full("pairs", "pairs that share half of what they use"),
    full(
        "groups:4",
        "groups of four that share half of what they use",
    ),
    full(
        "groups:8",
        "groups of eight that share half of what they use",
    ),
    full(
        "stencil",
        "a plane cut into tiles that exchange their borders",
    ),
    full(
        "cg",
        "NPB CG: sums over rows, exchanges with the transposed rank",
    ),
    full(
        "mg",
        "NPB MG: neighbours in space on finer and coarser grids",
    ),
    full("ft", "NPB FT: rows, then columns, exchange everything"),
    full("lu", "NPB LU: wavefronts over a plane"),
    full("sp", "NPB SP: rows, columns and diagonals of a torus"),
    full("all-shared", "everyone shares with everyone"),
    full("phases", "pairs whose partners change once, half-way"),
    full(
        "hog",
        "pairs, and a second program that takes all the bandwidth it gets",
    ),
    full(
        "two",
        "two programs: pairs, and slices that one thread touched",
    ),
    full("zipf", "slices of which little is hot and most is cold"),
    full(
        "strided",
        "slices in pieces of 64 KiB that are dealt out in turn",
    ),
    full("growing", "pairs whose memory grows eightfold within 8 s"),
    full(
        "heap",
        "half of everything in a heap of small objects of all",
    ),
    full("phases:2", "pairs whose partners change every 2 s"),
    full("phases:4", "pairs whose partners change every 4 s"),
    full("phases:8", "pairs whose partners change every 8 s"),
    Row {
        percent: 50,
        ..full(
            "stream",
            "half as many threads as cores; pairs that take all the bandwidth they get",
        )
    },
    Row {
        confined: true,
        ..full(
            "flood",
            "threads of one node that ask for more than its memory gives",
        )
    },
];

const fn full(name: &'static str, about: &'static str) -> Row {
    Row {
        name,
        about,
        percent: 100,
        confined: false,
    }
}

/// Most programs that are drawn for one matrix.
const MADE_MAX: u32 = 1000;

impl Row {
    /// The workload of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        ROWS.iter().find(|row| row.name == name)
    }

    /// The programs of `made:1-40`, or the one of `made:7`; none of other names. They are kept until
    /// the end, as the others are.
    #[must_use]
    pub fn made(name: &str) -> Option<Vec<&'static Self>> {
        let numbers = name.strip_prefix("made:")?;
        let (first, last) = numbers.split_once('-').unwrap_or((numbers, numbers));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        let all = (first..=last).take(MADE_MAX as usize);
        let names = all.map(|number| Workload::Made(number).to_string());
        let rows: Vec<&'static Self> = names
            .filter(|name| name.parse::<Workload>().is_ok())
            .map(|name| &*Box::leak(Box::new(full(name.leak(), "a program that is drawn"))))
            .collect();
        (!rows.is_empty()).then_some(rows)
    }

    /// How many threads it has on a machine; never more than cores that they may use.
    #[must_use]
    pub fn threads(&self, topology: &Topology) -> usize {
        let usable = topology.usable();
        let cores = if self.confined {
            topology.cores_in(&topology.nodes()[0].cpus.intersection(&usable))
        } else {
            topology.cores_in(&usable)
        };
        (cores * self.percent / 100).max(1)
    }

    /// The workload in a run of this many seconds.
    #[must_use]
    pub fn workload(&self, seconds: f64) -> Workload {
        if self.changes() {
            // One change, half-way: a second one near the end would leave no window to follow it in.
            let mut phase = 1;
            while f64::from(phase) * 2.0 < seconds {
                phase += 1;
            }
            return Workload::Phases(phase);
        }
        self.name.parse().expect("the tests parse every name")
    }

    /// Whether it is a numerical kernel, as the papers measured.
    #[must_use]
    pub fn is_kernel(&self) -> bool {
        PATTERNS.iter().any(|pattern| pattern.name == self.name)
    }

    /// Whether what it does changes once, so that it can be followed.
    #[must_use]
    pub fn changes(&self) -> bool {
        self.name == "phases"
    }

    /// Whether it does the same all the time, so that what places it can come to rest.
    #[must_use]
    pub fn stands_still(&self) -> bool {
        let moves = ["phases", "growing", "made"];
        !moves.iter().any(|word| self.name.starts_with(word))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drawn_programs_are_named_by_their_numbers() {
        let names = |name| Row::made(name).map(|rows| rows.iter().map(|row| row.name).collect());
        assert_eq!(names("made:7"), Some(vec!["made:7"]));
        assert_eq!(
            names("made:9-11"),
            Some(vec!["made:9", "made:10", "made:11"])
        );
        for wrong in ["made:", "made:0", "made:3-2", "made:x", "pairs", "made:1-"] {
            assert_eq!(names(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn every_row_is_a_workload_that_fits() {
        let topology = topology::load("4x18@10,21").unwrap();
        for row in ROWS {
            assert!(Row::named(row.name) == Some(row));
            assert!(row.workload(21.5).to_string().starts_with(row.name));
        }
        let threads = |name| Row::named(name).unwrap().threads(&topology);
        assert_eq!(
            [threads("pairs"), threads("stream"), threads("flood")],
            [72, 36, 18]
        );
        assert_eq!(
            Row::named("phases").unwrap().workload(21.5),
            Workload::Phases(11)
        );
    }
}
