//! The six metrics of `DeLocProf`, and the class that follows from them.

use control::profile::{Class, Group, Metrics, Thresholds};

/// The thresholds of the policy `auto`; the paper prints none.
pub const THRESHOLDS: Thresholds = Thresholds {
    comm_min: 0.02,
    dram_min: 0.02,
    changes_max: 5,
};

/// What is known of the accesses of all tasks together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Volume {
    /// Bytes accessed; none where only messages are known.
    pub memory_bytes: Option<u64>,
    /// Bytes that memory answered, and no cache; none where the source does not tell.
    pub dram_bytes: Option<u64>,
}

/// The metrics of these groups, with the symmetric matrix that is their sum.
#[must_use]
pub fn metrics(
    matrix: &[Vec<u64>],
    groups: &[Group],
    volume: Volume,
    changes: Option<u64>,
) -> Metrics {
    let sum = matrix.iter().flatten();
    let comm_bytes = sum.fold(0_u64, |sum, &bytes| sum.saturating_add(bytes));
    let memory = volume.memory_bytes.filter(|&bytes| bytes > 0);
    let of_memory = |bytes: u64| memory.map(|memory| bytes as f64 / memory as f64);
    let times = groups.iter().all(|group| group.from_s.is_some());
    Metrics {
        comm_bytes,
        comm_ratio: of_memory(comm_bytes),
        concurrency: (times && !groups.is_empty()).then(|| concurrency(matrix.len(), groups)),
        dram_ratio: volume.dram_bytes.and_then(of_memory),
        locality: locality(matrix),
        changes,
    }
}

fn concurrency(tasks: usize, groups: &[Group]) -> f64 {
    let tasks_of = |group: &Group| {
        let mut tasks: Vec<usize> = group
            .pairs
            .iter()
            .flat_map(|pair| [pair.low, pair.high])
            .collect();
        tasks.sort_unstable();
        tasks.dedup();
        tasks.len()
    };
    let sum: usize = groups.iter().map(tasks_of).sum();
    sum as f64 / (tasks * groups.len()).max(1) as f64
}

fn locality(matrix: &[Vec<u64>]) -> f64 {
    let most = matrix.iter().flatten().max().copied().unwrap_or(0);
    if most == 0 {
        return 0.0;
    }
    let variance = |row: &Vec<u64>| {
        let count = row.len() as f64;
        let part = |bytes: &u64| *bytes as f64 / most as f64;
        let mean = row.iter().map(part).sum::<f64>() / count;
        let squares = row
            .iter()
            .map(|bytes| (part(bytes) - mean) * (part(bytes) - mean));
        squares.sum::<f64>() / count
    };
    matrix.iter().map(variance).sum::<f64>() / matrix.len() as f64
}

/// The class; none where a metric that decides is unknown.
#[must_use]
pub fn class(metrics: &Metrics, thresholds: &Thresholds) -> Option<Class> {
    let matters = match (metrics.comm_ratio, metrics.dram_ratio) {
        (Some(comm), _) if comm >= thresholds.comm_min => true,
        (_, Some(dram)) if dram >= thresholds.dram_min => true,
        (Some(_), Some(_)) => false,
        (None, _) | (_, None) => return None,
    };
    if !matters {
        return Some(Class::NonMapping);
    }
    metrics
        .changes
        .map(|changes| match changes > thresholds.changes_max {
            true => Class::Dynamic,
            false => Class::Static,
        })
}

#[cfg(test)]
mod tests {
    use control::profile::Pair;

    use super::*;

    fn group(pairs: &[(usize, usize)]) -> Group {
        let pair = |&(low, high): &(usize, usize)| Pair {
            low,
            high,
            bytes: 8,
            events: 1,
        };
        Group {
            from_s: Some(0.0),
            to_s: Some(1.0),
            pairs: pairs.iter().map(pair).collect(),
        }
    }

    #[test]
    fn the_definitions() {
        let matrix = vec![
            vec![0, 8, 0, 0],
            vec![8, 0, 0, 0],
            vec![0, 0, 0, 4],
            vec![0, 0, 4, 0],
        ];
        let groups = [group(&[(0, 1)]), group(&[(0, 1), (2, 3)])];
        let volume = Volume {
            memory_bytes: Some(240),
            dram_bytes: Some(60),
        };
        let found = metrics(&matrix, &groups, volume, Some(2));
        // Rows of 0, 1, 0, 0 have a variance of 3/16, of 0, 0.5, 0, 0 a quarter of that.
        let locality = (2.0 * 0.1875 + 2.0 * 0.046_875) / 4.0;
        let expected = Metrics {
            comm_bytes: 24,
            comm_ratio: Some(0.1),
            concurrency: Some(6.0 / 8.0),
            dram_ratio: Some(0.25),
            locality,
            changes: Some(2),
        };
        assert_eq!(found, expected);
    }

    #[track_caller]
    fn check(comm: Option<f64>, dram: Option<f64>, changes: Option<u64>, expected: Option<Class>) {
        let metrics = Metrics {
            comm_ratio: comm,
            dram_ratio: dram,
            changes,
            ..Metrics::default()
        };
        assert_eq!(class(&metrics, &THRESHOLDS), expected);
    }

    #[test]
    fn classes_follow_the_decision_tree() {
        check(Some(0.01), Some(0.01), Some(9), Some(Class::NonMapping));
        check(Some(0.01), Some(0.5), Some(5), Some(Class::Static));
        check(Some(0.5), None, Some(6), Some(Class::Dynamic));
        check(Some(0.01), None, Some(6), None);
        check(None, None, Some(6), None);
        check(Some(0.5), Some(0.5), None, None);
    }
}
