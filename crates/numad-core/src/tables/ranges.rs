//! Ranges of pages, in ascending order.

use std::ops::Range;

/// What of these ranges lies within another.
pub(crate) fn cut(ranges: &[Range<u64>], within: &Range<u64>) -> impl Iterator<Item = Range<u64>> {
    let (start, end) = (within.start, within.end);
    let from = ranges.partition_point(|range| range.end <= start);
    let inside = ranges[from..].iter();
    let inside = inside.take_while(move |range| range.start < end);
    inside.map(move |range| range.start.max(start)..range.end.min(end))
}

/// Appends what of ranges, ascending, lies in none of others.
pub(crate) fn without(ranges: &[Range<u64>], others: &[Range<u64>], left: &mut Vec<Range<u64>>) {
    for range in ranges {
        let mut at = range.start;
        for other in cut(others, range) {
            if at < other.start {
                left.push(at..other.start);
            }
            at = other.end;
        }
        if at < range.end {
            left.push(at..range.end);
        }
    }
}

/// How many pages these are.
pub(crate) fn count(ranges: &[Range<u64>]) -> u64 {
    ranges.iter().map(|range| range.end - range.start).sum()
}

/// Makes of the ranges from one on as few as can be, with the same pages.
pub(crate) fn join(ranges: &mut Vec<Range<u64>>, begin: usize) {
    ranges[begin..].sort_unstable_by_key(|range| range.start);
    let mut end = begin;
    for at in begin..ranges.len() {
        let range = ranges[at].clone();
        if range.is_empty() {
            continue;
        }
        match ranges[begin..end].last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => {
                ranges[end] = range;
                end += 1;
            }
        }
    }
    ranges.truncate(end);
}
