//! The six metrics of `DeLocProf`, and the class that follows from them.

use control::profile::{Class, Group, Level, Metrics, Thresholds, Unknown};

/// Least number of samples: with it 1 % of the classes are wrong at most, with half of it more are (`tests/it/samples.rs`).
pub const SAMPLES_MIN: u64 = 256;

/// Least number of events in a second, by the same measure: with fewer, chance changes the order of tasks.
pub const EVENTS_MIN: u64 = 128;

/// The thresholds of the policy `auto`; the paper prints none.
pub const THRESHOLDS: Thresholds = Thresholds {
    comm_min: 0.02,
    dram_min: 0.02,
    changes_max: 5,
    samples_min: SAMPLES_MIN,
    events_min: EVENTS_MIN,
};

/// How much a class rests on.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Evidence {
    /// Sampled accesses; none where everything was counted.
    pub samples: Option<u64>,
    /// Events.
    pub events: u64,
    /// Seconds that they are spread over.
    pub length_s: f64,
}

/// What is known of the accesses of all tasks together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Volume {
    /// Bytes accessed; none where only messages are known.
    pub memory_bytes: Option<u64>,
    /// Bytes that memory answered, and no cache; none where the source does not tell.
    pub dram_bytes: Option<u64>,
    /// Sampled accesses that this was seen by; none where everything was counted.
    pub samples: Option<u64>,
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

/// Why metrics are not known.
#[must_use]
pub fn unknown(metrics: &Metrics, level: Level, times: bool) -> Vec<Unknown> {
    let messages = level == Level::Message;
    let no_times = "the source has no times";
    let of_memory = match messages {
        true => "messages do not tell how much memory is accessed beside them",
        false => "no access to memory was seen",
    };
    let dram = match messages {
        true => {
            "messages do not tell what memory answers, and what caches; counters would (`perf stat`)"
        }
        false => "the source does not tell what memory answered, and what caches",
    };
    let together = match times {
        true => "nothing was communicated",
        false => no_times,
    };
    let rows = [
        ("CommR", metrics.comm_ratio.is_none(), of_memory),
        ("CommC", metrics.concurrency.is_none(), together),
        ("DramR", metrics.dram_ratio.is_none(), dram),
        ("CommDyn", metrics.changes.is_none(), no_times),
    ];
    let missing = rows.into_iter().filter(|(_, missing, _)| *missing);
    missing
        .map(|(metric, _, why)| Unknown {
            metric: metric.to_owned(),
            why: why.to_owned(),
        })
        .collect()
}

/// The class.
///
/// # Errors
/// Why it cannot be told: a metric that decides is unknown, or there are too few samples.
pub fn class(
    metrics: &Metrics,
    thresholds: &Thresholds,
    evidence: Evidence,
) -> Result<Class, String> {
    if let Some(samples) = evidence.samples.filter(|&it| it < thresholds.samples_min) {
        return Err(format!(
            "too few samples to tell: {samples}, at least {} needed",
            thresholds.samples_min
        ));
    }
    let not_known = match mapping_helps(metrics, thresholds) {
        Some(true) => return by_changes(metrics, thresholds, evidence),
        Some(false) => return Ok(Class::NonMapping),
        None if metrics.dram_ratio.is_some() => "CommR is not known",
        None if metrics.comm_ratio.is_some() => "DramR is not known",
        None => "CommR and DramR are not known",
    };
    Err(not_known.to_owned())
}

/// The class if mapping can help, where nothing but that is unknown.
#[must_use]
pub fn class_if_mapping_helps(
    metrics: &Metrics,
    thresholds: &Thresholds,
    evidence: Evidence,
) -> Option<Class> {
    let few = |samples| samples < thresholds.samples_min;
    if mapping_helps(metrics, thresholds).is_some() || evidence.samples.is_some_and(few) {
        return None;
    }
    // Without an event there is no order of tasks that could change.
    let seen = evidence.events > 0;
    by_changes(metrics, thresholds, evidence)
        .ok()
        .filter(|_| seen)
}

/// The first step of the decision tree (2.4.3, figure 2.10).
fn mapping_helps(metrics: &Metrics, thresholds: &Thresholds) -> Option<bool> {
    match (metrics.comm_ratio, metrics.dram_ratio) {
        (Some(comm), _) if comm >= thresholds.comm_min => Some(true),
        (_, Some(dram)) if dram >= thresholds.dram_min => Some(true),
        (Some(_), Some(_)) => Some(false),
        (None, _) | (_, None) => None,
    }
}

/// The second step.
fn by_changes(
    metrics: &Metrics,
    thresholds: &Thresholds,
    evidence: Evidence,
) -> Result<Class, String> {
    let changes = metrics
        .changes
        .ok_or("mapping can help; CommDyn is not known")?;
    let a_second = evidence.events as f64 / evidence.length_s.max(1.0);
    if evidence.samples.is_some() && a_second < thresholds.events_min as f64 {
        return Err(format!(
            "mapping can help; too few samples to tell static from dynamic: {a_second:.1} events a second, at least {} needed",
            thresholds.events_min
        ));
    }
    Ok(match changes > thresholds.changes_max {
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
            samples: None,
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

    const ENOUGH: Evidence = Evidence {
        samples: Some(SAMPLES_MIN),
        events: 10 * EVENTS_MIN,
        length_s: 10.0,
    };

    #[track_caller]
    fn check(
        (comm, dram, changes): (Option<f64>, Option<f64>, Option<u64>),
        evidence: Evidence,
        expected: Result<Class, &str>,
    ) {
        let metrics = Metrics {
            comm_ratio: comm,
            dram_ratio: dram,
            changes,
            ..Metrics::default()
        };
        match (class(&metrics, &THRESHOLDS, evidence), expected) {
            (Err(found), Err(part)) => assert!(found.contains(part), "{found}"),
            (found, expected) => assert_eq!(found, expected.map_err(str::to_owned)),
        }
    }

    #[test]
    fn classes_follow_the_decision_tree() {
        let non_mapping = (Some(0.01), Some(0.01), Some(9));
        check(non_mapping, ENOUGH, Ok(Class::NonMapping));
        check((Some(0.01), Some(0.5), Some(5)), ENOUGH, Ok(Class::Static));
        check((Some(0.5), None, Some(6)), ENOUGH, Ok(Class::Dynamic));
        check((Some(0.01), None, Some(6)), ENOUGH, Err("DramR is not"));
        check((None, Some(0.01), Some(6)), ENOUGH, Err("CommR is not"));
        check(
            (None, None, Some(6)),
            ENOUGH,
            Err("CommR and DramR are not"),
        );
        check((Some(0.5), Some(0.5), None), ENOUGH, Err("CommDyn is not"));
    }

    #[test]
    fn no_class_is_told_by_a_handful_of_samples() {
        let few = Evidence {
            samples: Some(SAMPLES_MIN - 1),
            ..ENOUGH
        };
        for changes in [5, 6] {
            check(
                (Some(0.5), Some(0.5), Some(changes)),
                few,
                Err("too few samples to tell: 255"),
            );
        }
        check(
            (Some(0.01), Some(0.01), Some(0)),
            few,
            Err("too few samples to tell"),
        );
        // Enough for shares, not for the order of tasks in each second.
        let quiet = Evidence {
            events: 10 * EVENTS_MIN - 1,
            ..ENOUGH
        };
        check(
            (Some(0.5), None, Some(6)),
            quiet,
            Err("static from dynamic: 127.9 events"),
        );
        check(
            (Some(0.01), Some(0.01), Some(9)),
            quiet,
            Ok(Class::NonMapping),
        );
        // What was counted needs no least number.
        let counted = Evidence {
            samples: None,
            events: 1,
            length_s: 10.0,
        };
        check((Some(0.5), None, Some(6)), counted, Ok(Class::Dynamic));
    }

    #[test]
    fn messages_with_times_tell_a_class_but_for_whether_mapping_helps() {
        let counted = Evidence {
            samples: None,
            events: 1,
            length_s: 10.0,
        };
        let of = |changes, evidence| {
            let metrics = Metrics {
                changes,
                ..Metrics::default()
            };
            class_if_mapping_helps(&metrics, &THRESHOLDS, evidence)
        };
        assert_eq!(of(Some(5), counted), Some(Class::Static));
        assert_eq!(of(Some(6), counted), Some(Class::Dynamic));
        assert_eq!(of(None, counted), None, "no times");
        assert_eq!(of(Some(0), Evidence::default()), None, "nothing was sent");
        // Where it is known that mapping helps, or that it does not, the class itself says so.
        let metrics = Metrics {
            comm_ratio: Some(0.5),
            changes: Some(6),
            ..Metrics::default()
        };
        assert_eq!(class_if_mapping_helps(&metrics, &THRESHOLDS, ENOUGH), None);
    }

    #[test]
    fn each_metric_that_is_not_known_has_a_reason() {
        let names = |metrics: &Metrics, times| -> Vec<String> {
            let unknown = unknown(metrics, Level::Message, times);
            unknown.into_iter().map(|unknown| unknown.metric).collect()
        };
        assert_eq!(
            names(&Metrics::default(), false),
            ["CommR", "CommC", "DramR", "CommDyn"]
        );
        let recorded = Metrics {
            concurrency: Some(1.0),
            changes: Some(0),
            ..Metrics::default()
        };
        assert_eq!(names(&recorded, true), ["CommR", "DramR"]);
    }
}
