//! What disturbed a slice beside the policies, from running totals before and after it.

use std::collections::BTreeMap;
use std::time::Duration;

use control::experiment::{Disturbed, Experiment};

use crate::plan::kept;
use crate::results::mean;

/// Totals since the machine began; each absent where the kernel does not tell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// How long some thread of the machine waited for a processor.
    pub cpu: Option<Duration>,
    /// And for memory.
    pub memory: Option<Duration>,
    /// Time that a hypervisor gave to others, and all processor time, in the same unit.
    pub stolen: Option<(u64, u64)>,
    /// Pages that the kernel's own balancing moved.
    pub balanced_pages: Option<u64>,
    /// By control groups beside the program's: how long some thread of it waited for a processor, and for memory.
    pub neighbours: BTreeMap<String, [Duration; 2]>,
}

impl Totals {
    /// The share of `length` in which some thread waited for a processor since `before`.
    #[must_use]
    pub fn waited_since(&self, before: &Self, length: Duration) -> Option<f64> {
        share(self.cpu, before.cpu, length)
    }

    /// What happened since `before`, which was so long ago; none where nothing is told.
    #[must_use]
    pub fn since(&self, before: &Self, length: Duration) -> Option<Disturbed> {
        let stolen = self.stolen.zip(before.stolen).and_then(|(now, then)| {
            let all = now.1.saturating_sub(then.1);
            let stolen = now.0.saturating_sub(then.0).min(all);
            (all > 0).then(|| kept(stolen as f64 / all as f64))
        });
        let pages = self.balanced_pages.zip(before.balanced_pages);
        // Groups that came or went meanwhile tell nothing.
        let both = self.neighbours.iter().filter_map(|(group, now)| {
            let then = before.neighbours.get(group)?;
            Some([0, 1].map(|which| share(Some(now[which]), Some(then[which]), length)))
        });
        let mut most = [None::<f64>; 2];
        for shares in both {
            for (most, share) in most.iter_mut().zip(shares) {
                *most = most.max_of(share);
            }
        }
        let disturbed = Disturbed {
            memory_pressure: share(self.memory, before.memory, length),
            stolen,
            balanced_pages: pages.map(|(now, then)| now.saturating_sub(then)),
            neighbour_cpu: most[0],
            neighbour_memory: most[1],
        };
        (disturbed != Disturbed::default()).then_some(disturbed)
    }
}

trait MaxOf {
    fn max_of(self, other: Self) -> Self;
}

impl MaxOf for Option<f64> {
    fn max_of(self, other: Self) -> Self {
        match (self, other) {
            (Some(one), Some(other)) => Some(one.max(other)),
            (one, other) => one.or(other),
        }
    }
}

fn share(now: Option<Duration>, then: Option<Duration>, length: Duration) -> Option<f64> {
    let more = now?.saturating_sub(then?);
    let share = more.as_secs_f64() / length.as_secs_f64();
    share.is_finite().then(|| kept(share.min(1.0)))
}

/// Means over the slices of an arm, of what is known of any: waiting for a processor, and the rest.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct OfArm {
    /// Share of time in which some thread of the machine waited for a processor.
    pub pressure: Option<f64>,
    /// For memory.
    pub memory_pressure: Option<f64>,
    /// Share of processor time that a hypervisor gave to others.
    pub stolen: Option<f64>,
    /// Pages that the kernel's own balancing moved, in a slice.
    pub balanced_pages: Option<f64>,
    /// Of the neighbour that waited most for a processor: the share of time.
    pub neighbour_cpu: Option<f64>,
    /// For memory.
    pub neighbour_memory: Option<f64>,
    /// Milliseconds that it took to undo what the arm did.
    pub undo_ms: Option<f64>,
}

/// What disturbed the slices of an arm.
#[must_use]
pub fn of_arm(experiment: &Experiment, arm: usize) -> OfArm {
    let slices = experiment.slices.iter();
    let slices: Vec<_> = slices
        .filter(|slice| usize::try_from(slice.arm) == Ok(arm))
        .collect();
    let of = |what: fn(&Disturbed) -> Option<f64>| {
        mean(
            slices
                .iter()
                .filter_map(|slice| what(slice.disturbed.as_ref()?)),
        )
    };
    OfArm {
        pressure: mean(slices.iter().filter_map(|slice| slice.pressure)),
        memory_pressure: of(|it| it.memory_pressure),
        stolen: of(|it| it.stolen),
        balanced_pages: of(|it| it.balanced_pages.map(|pages| pages as f64)),
        neighbour_cpu: of(|it| it.neighbour_cpu),
        neighbour_memory: of(|it| it.neighbour_memory),
        undo_ms: mean(
            slices
                .iter()
                .filter_map(|slice| Some(slice.moved?.undo_ms? as f64)),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(count: u64) -> Option<Duration> {
        Some(Duration::from_secs(count))
    }

    #[test]
    fn what_happened_is_the_growth_of_totals() {
        let group = |cpu, memory| [cpu, memory].map(Duration::from_secs);
        let before = Totals {
            cpu: seconds(10),
            memory: seconds(1),
            stolen: Some((5, 100)),
            balanced_pages: Some(7),
            neighbours: [
                ("a".to_owned(), group(1, 1)),
                ("gone".to_owned(), group(0, 0)),
            ]
            .into(),
        };
        let now = Totals {
            cpu: seconds(14),
            memory: seconds(2),
            stolen: Some((15, 200)),
            balanced_pages: Some(10),
            neighbours: [
                ("a".to_owned(), group(3, 1)),
                ("new".to_owned(), group(9, 9)),
            ]
            .into(),
        };
        let length = Duration::from_secs(10);
        assert_eq!(now.waited_since(&before, length), Some(0.4));
        let expected = Disturbed {
            memory_pressure: Some(0.1),
            stolen: Some(0.1),
            balanced_pages: Some(3),
            neighbour_cpu: Some(0.2),
            neighbour_memory: Some(0.0),
        };
        assert_eq!(now.since(&before, length), Some(expected));
        assert_eq!(Totals::default().since(&before, length), None);
        assert_eq!(
            now.since(&before, Duration::ZERO).unwrap().memory_pressure,
            None
        );
        // A counter that went backwards is no time at all.
        assert_eq!(
            before.since(&now, length).unwrap().memory_pressure,
            Some(0.0)
        );
    }
}
