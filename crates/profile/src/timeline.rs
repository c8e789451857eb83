//! Events in time: who communicated how much with whom in each short span, in bounded memory.

use std::collections::BTreeMap;

use control::profile::{Group, Moment, Pair};
use policies::clusters::{Bin, Clusters};

use crate::Event;

/// Spans that are told apart. When more are needed, two neighbours become one.
const BINS_MAX: u64 = 1024;

/// Pairs in all spans together: some 50 MiB. One span of the most tasks of a profile has half as many.
const CELLS_MAX: usize = 1 << 20;

/// Length of a span at first.
const BIN_NS: u64 = 1_000;

/// Groups that are looked for.
const GROUPS_MAX: usize = 16;

/// Moments that a profile shows.
const MOMENTS_MAX: usize = 128;

/// Interval of `CommDyn`, as in the paper.
const INTERVAL_NS: u64 = 1_000_000_000;

/// Intervals that events may still come for: sources deliver almost in order.
const INTERVALS_OPEN: usize = 8;

/// Bytes and events.
type Amount = (u64, u64);

/// What each pair did.
type Pairs = BTreeMap<(u32, u32), Amount>;

/// One span of time.
#[derive(Debug, Default)]
struct Span {
    pairs: Pairs,
    /// Events, and the sum of their times since the start. A span stands where its events are on average, not at its
    /// start: so a burst over the border of two spans is near itself, and no cut goes through it.
    events: u64,
    times_ns: u128,
}

impl Span {
    /// Where its events are, in spans of that length.
    fn at(&self, bin_ns: u64) -> f64 {
        self.times_ns as f64 / self.events.max(1) as f64 / bin_ns as f64
    }
}

/// Events in time.
#[derive(Debug)]
pub struct Timeline {
    tasks: usize,
    bin_ns: u64,
    origin_ns: Option<u64>,
    last_ns: u64,
    bins: BTreeMap<u64, Span>,
    cells: usize,
    order: Order,
}

impl Timeline {
    /// Of so many tasks.
    #[must_use]
    pub fn new(tasks: usize) -> Self {
        Self {
            tasks,
            bin_ns: BIN_NS,
            origin_ns: None,
            last_ns: 0,
            bins: BTreeMap::new(),
            cells: 0,
            order: Order::default(),
        }
    }

    /// Notes that time went by; the first call, or event, is the start.
    pub fn see(&mut self, at_ns: u64) {
        let origin = *self.origin_ns.get_or_insert(at_ns);
        self.last_ns = self.last_ns.max(at_ns.saturating_sub(origin));
    }

    /// Adds an event. One that a task has with itself is none.
    ///
    /// # Panics
    /// When a task does not exist.
    pub fn add(&mut self, event: Event) {
        let (low, high) = (event.from.min(event.to), event.from.max(event.to));
        assert!(
            (high as usize) < self.tasks,
            "task {high} of {}",
            self.tasks
        );
        if low == high {
            return;
        }
        self.see(event.at_ns);
        let at = event.at_ns.saturating_sub(self.origin_ns.unwrap_or(0));
        self.order
            .add(self.tasks, at / INTERVAL_NS, (low, high), event.bytes);
        let bin = self.bins.entry(at / self.bin_ns).or_default();
        let before = bin.pairs.len();
        add(bin.pairs.entry((low, high)).or_default(), (event.bytes, 1));
        bin.events += 1;
        bin.times_ns += u128::from(at);
        self.cells += bin.pairs.len() - before;
        while self.last_ns / self.bin_ns >= BINS_MAX || self.cells > CELLS_MAX {
            self.widen();
        }
    }

    /// Makes one bin of every two.
    fn widen(&mut self) {
        self.bin_ns *= 2;
        let bins = std::mem::take(&mut self.bins);
        for (number, span) in bins {
            let bin = self.bins.entry(number / 2).or_default();
            bin.events += span.events;
            bin.times_ns += span.times_ns;
            for (pair, amount) in span.pairs {
                add(bin.pairs.entry(pair).or_default(), amount);
            }
        }
        self.cells = self.bins.values().map(|bin| bin.pairs.len()).sum();
    }

    /// How long it was, in nanoseconds.
    #[must_use]
    pub const fn length_ns(&self) -> u64 {
        self.last_ns
    }

    /// Changes of the order of tasks from one second to the next (`CommDyn`).
    #[must_use]
    pub fn changes(&self) -> u64 {
        self.order.clone().finish(self.last_ns / INTERVAL_NS)
    }

    /// Pairs that communicate at the same time: clusters in time of all events.
    #[must_use]
    pub fn groups(&self) -> Vec<Group> {
        let bins: Vec<(u64, &Span)> = self
            .bins
            .iter()
            .map(|(number, span)| (*number, span))
            .collect();
        if bins.is_empty() {
            return Vec::new();
        }
        let weighed: Vec<Bin> = bins
            .iter()
            .map(|(_, span)| Bin {
                at: span.at(self.bin_ns),
                weight: span.events as f64,
            })
            .collect();
        let ranges = Clusters::new(&weighed, GROUPS_MAX).by_criterion(1.0);
        let group = |range: std::ops::Range<usize>| {
            let bins = &bins[range];
            let mut sums: Pairs = BTreeMap::new();
            for (pair, amount) in bins.iter().flat_map(|(_, span)| &span.pairs) {
                add(sums.entry(*pair).or_default(), *amount);
            }
            let end = |number: u64| self.seconds(number).min(self.last_ns as f64 / 1e9);
            Group {
                from_s: bins.first().map(|(number, _)| self.seconds(*number)),
                to_s: bins.last().map(|(number, _)| end(*number + 1)),
                pairs: sums.into_iter().map(pair).collect(),
            }
        };
        ranges.into_iter().map(group).collect()
    }

    /// The run in time, for pictures.
    #[must_use]
    pub fn moments(&self) -> Vec<Moment> {
        if self.bins.is_empty() {
            return Vec::new();
        }
        let count = self.last_ns / self.bin_ns + 1;
        let together = count.div_ceil(MOMENTS_MAX as u64);
        let mut moments: Vec<Moment> = (0..count.div_ceil(together))
            .map(|number| Moment {
                at_s: self.seconds(number * together),
                events: 0,
                bytes: vec![0; self.tasks],
            })
            .collect();
        for (number, span) in &self.bins {
            let Some(moment) = usize::try_from(number / together)
                .ok()
                .and_then(|number| moments.get_mut(number))
            else {
                continue;
            };
            for ((low, high), (bytes, events)) in &span.pairs {
                moment.events = moment.events.saturating_add(*events);
                for task in [*low, *high] {
                    let sum = &mut moment.bytes[task as usize];
                    *sum = sum.saturating_add(*bytes);
                }
            }
        }
        moments
    }

    fn seconds(&self, bin: u64) -> f64 {
        bin as f64 * self.bin_ns as f64 / 1e9
    }
}

fn add(sum: &mut Amount, (bytes, events): Amount) {
    sum.0 = sum.0.saturating_add(bytes);
    sum.1 = sum.1.saturating_add(events);
}

pub(crate) fn pair(((low, high), (bytes, events)): ((u32, u32), Amount)) -> Pair {
    Pair {
        low: low as usize,
        high: high as usize,
        bytes,
        events,
    }
}

/// The order of tasks by communication, second by second.
#[derive(Clone, Debug, Default)]
struct Order {
    /// What each task communicated in the intervals that may still change.
    open: BTreeMap<u64, Vec<u64>>,
    /// The last interval that may not, and the order in it.
    closed: Option<(u64, Vec<usize>)>,
    changes: u64,
}

impl Order {
    fn add(&mut self, tasks: usize, interval: u64, (low, high): (u32, u32), bytes: u64) {
        // What comes too late counts where it still can.
        let first = self.closed.as_ref().map_or(0, |(number, _)| number + 1);
        let sums = self
            .open
            .entry(interval.max(first))
            .or_insert_with(|| vec![0; tasks]);
        for task in [low, high] {
            let sum = &mut sums[task as usize];
            *sum = sum.saturating_add(bytes);
        }
        if self.open.len() > INTERVALS_OPEN {
            self.close();
        }
    }

    /// Closes the first open interval. One without events has the order of the tasks' numbers.
    fn close(&mut self) {
        let Some((number, sums)) = self.open.pop_first() else {
            return;
        };
        let order = sorted(&sums);
        let next = self.closed.as_ref().map_or(0, |(before, _)| before + 1);
        if number > next {
            self.step(number - 1, sorted(&vec![0; sums.len()]));
        }
        self.step(number, order);
    }

    fn step(&mut self, number: u64, order: Vec<usize>) {
        if self
            .closed
            .as_ref()
            .is_some_and(|(_, before)| *before != order)
        {
            self.changes += 1;
        }
        self.closed = Some((number, order));
    }

    /// All changes, up to the interval that is the last.
    fn finish(mut self, last: u64) -> u64 {
        let tasks = self.open.values().next().map_or(0, Vec::len);
        while !self.open.is_empty() {
            self.close();
        }
        if self
            .closed
            .as_ref()
            .is_some_and(|(number, _)| *number < last)
        {
            self.step(last, sorted(&vec![0; tasks]));
        }
        self.changes
    }
}

/// Tasks by amount, the largest first, the lower of equals.
fn sorted(sums: &[u64]) -> Vec<usize> {
    let mut tasks: Vec<usize> = (0..sums.len()).collect();
    tasks.sort_by_key(|&task| std::cmp::Reverse(sums[task]));
    tasks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timeline(events: &[(u64, u32, u32, u64)]) -> Timeline {
        let mut timeline = Timeline::new(8);
        for &(at_ms, from, to, bytes) in events {
            timeline.add(Event {
                at_ns: at_ms * 1_000_000,
                from,
                to,
                bytes,
            });
        }
        timeline
    }

    fn shown(groups: &[Group]) -> Vec<Vec<(usize, usize, u64, u64)>> {
        let pairs = |group: &Group| {
            let pairs = group.pairs.iter();
            pairs
                .map(|it| (it.low, it.high, it.bytes, it.events))
                .collect()
        };
        groups.iter().map(pairs).collect()
    }

    #[test]
    fn what_happens_at_another_time_is_another_group() {
        let early = (0..40).map(|at| (at, 0, 1, 8));
        let late = (0..40).map(|at| (59_985 + at / 2, 3, 2, 8));
        let events: Vec<_> = early.chain(late).collect();
        let timeline = timeline(&events);
        let expected = [vec![(0, 1, 320, 40)], vec![(2, 3, 320, 40)]];
        assert_eq!(shown(&timeline.groups()), expected);
        let moments = timeline.moments();
        assert!(moments.len() <= MOMENTS_MAX && moments.len() > MOMENTS_MAX / 4);
        assert_eq!(moments.iter().map(|it| it.events).sum::<u64>(), 80);
        assert_eq!(moments[0].bytes, [320, 320, 0, 0, 0, 0, 0, 0]);
    }

    /// Xorshift; the same numbers from the same seed everywhere.
    struct Random(u64);

    impl Random {
        fn below(&mut self, end: u64) -> u64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            self.0 % end
        }
    }

    #[test]
    fn a_burst_over_the_border_of_two_spans_is_one_group() {
        for seed in 1..=300_u64 {
            let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let mut timeline = Timeline::new(8);
            timeline.see(0);
            timeline.see(60_000_000_000);
            // Spans are 66 ms long then; bursts are up to that, seconds apart, and lie anywhere.
            let count = 2 + random.below(3);
            for number in 0..count {
                let start = (1 + number * 15) * 1_000_000_000 + random.below(5_000_000_000);
                let length = 1 + random.below(66_000_000);
                for _ in 0..200 + random.below(2000) {
                    timeline.add(Event {
                        at_ns: start + random.below(length),
                        from: u32::try_from(2 * number).unwrap(),
                        to: u32::try_from(2 * number + 1).unwrap(),
                        bytes: 8,
                    });
                }
            }
            assert!(
                (65_000_000..67_500_000).contains(&timeline.bin_ns),
                "{}",
                timeline.bin_ns
            );
            let groups = shown(&timeline.groups());
            assert_eq!(groups.len() as u64, count, "seed {seed}: {groups:?}");
            assert!(
                groups.iter().all(|pairs| pairs.len() == 1),
                "seed {seed}: {groups:?}"
            );
        }
    }

    #[test]
    fn a_steady_stream_is_one_group() {
        let events: Vec<_> = (0..2000).map(|at| (at * 10, 0, 1, 8)).collect();
        assert_eq!(shown(&timeline(&events).groups()), [[(0, 1, 16_000, 2000)]]);
    }

    #[test]
    fn changes_are_counted_from_second_to_second() {
        // The loudest: 0 and 1, again, then 2 and 3, nobody (the order of numbers), 2 and 3.
        let timeline = timeline(&[
            (0, 0, 1, 9),
            (1_100, 0, 1, 5),
            (2_100, 2, 3, 9),
            (4_100, 2, 3, 9),
        ]);
        assert_eq!(timeline.changes(), 3);
    }

    #[test]
    fn changes_do_not_depend_on_how_many_are_open() {
        let events: Vec<_> = (0..40_u32)
            .map(|at| (u64::from(at) * 1000, 2 * (at % 2), 1, 9))
            .collect();
        assert_eq!(timeline(&events).changes(), 39);
    }

    #[test]
    fn nothing_is_nothing() {
        let timeline = Timeline::new(3);
        assert!(timeline.groups().is_empty() && timeline.moments().is_empty());
        assert_eq!(timeline.changes(), 0);
    }
}
