//! A communication matrix for the terminal, threads ordered by node.

use std::fmt::Write as _;

use topology::NodeId;

use crate::driver::Snapshot;

/// From nothing to the most.
const SHADES: [char; 5] = [' ', '░', '▒', '▓', '█'];

/// Most rows and columns; beyond that neighbours are drawn together.
pub(crate) const SIDE_MAX: usize = 64;

/// Sides up to this are drawn two letters wide, which makes cells square.
const WIDE_MAX: usize = 32;

/// The matrix in shades of the largest amount. Lines between nodes.
pub(crate) fn shades(snapshot: &Snapshot) -> String {
    let order = by_node(snapshot);
    let bin = order.len().div_ceil(SIDE_MAX).max(1);
    let bins: Vec<&[usize]> = order.chunks(bin).collect();
    let width = if bins.len() <= WIDE_MAX { 2 } else { 1 };
    let amount = |row: &[usize], column: &[usize]| -> u64 {
        let pairs = row
            .iter()
            .flat_map(|&one| column.iter().map(move |&other| (one, other)));
        pairs
            .map(|(one, other)| snapshot.matrix.between(one, other))
            .sum()
    };
    let cells: Vec<Vec<u64>> = bins
        .iter()
        .map(|row| bins.iter().map(|column| amount(row, column)).collect())
        .collect();
    let most = cells.iter().flatten().copied().max().unwrap_or(0);
    let mut picture = String::new();
    for (index, row) in cells.iter().enumerate() {
        picture.push_str("  ");
        for (column, &amount) in row.iter().enumerate() {
            if column > 0 && node_changes(snapshot, bins[column - 1], bins[column]) {
                picture.push('│');
            }
            let shade = if index == column && bin == 1 {
                '·'
            } else {
                shade(amount, most)
            };
            picture.extend(std::iter::repeat_n(shade, width));
        }
        let first = bins[index].first().copied().unwrap_or(0);
        let node = node_text(snapshot.threads[first].1);
        picture.push_str(&line(&format!(
            "  {} on node {node}",
            snapshot.threads[first].0.tid
        )));
    }
    picture.push_str(&line(&format!(
        "  scale: '{}' below {} to '{}' {most}; each row is {}",
        SHADES[0],
        most.div_ceil(2 * (SHADES.len() as u64 - 1)),
        SHADES[SHADES.len() - 1],
        if bin == 1 {
            "a thread".to_owned()
        } else {
            format!("{bin} threads")
        },
    )));
    picture
}

/// Which threads are on which node.
pub(crate) fn places(snapshot: &Snapshot) -> String {
    let mut text = String::new();
    let mut nodes: Vec<Option<NodeId>> = snapshot.threads.iter().map(|(_, node)| *node).collect();
    nodes.sort_unstable();
    nodes.dedup();
    for node in nodes {
        let mut on = format!("  node {}:", node_text(node));
        for (key, _) in snapshot.threads.iter().filter(|(_, place)| *place == node) {
            // Writing to a string cannot fail.
            if write!(on, " {}", key.tid).is_err() {
                break;
            }
        }
        text.push_str(&line(&on));
    }
    text
}

fn line(text: &str) -> String {
    format!("{text}\n")
}

fn by_node(snapshot: &Snapshot) -> Vec<usize> {
    let mut order: Vec<usize> = (0..snapshot.threads.len()).collect();
    order.sort_by_key(|&thread| (snapshot.threads[thread].1, thread));
    order
}

fn node_changes(snapshot: &Snapshot, one: &[usize], other: &[usize]) -> bool {
    let node = |bin: &[usize]| bin.first().and_then(|&thread| snapshot.threads[thread].1);
    node(one) != node(other)
}

fn node_text(node: Option<NodeId>) -> String {
    node.map_or_else(|| "?".to_owned(), |node| node.to_string())
}

/// To the nearest shade: below an eighth of the most it is blank, so that noise does not hide who
/// talks to whom.
fn shade(amount: u64, most: u64) -> char {
    let last = SHADES.len() - 1;
    let most = u128::from(most.max(1));
    let step = (u128::from(amount) * 2 * (last as u128) + most) / (2 * most);
    SHADES[usize::try_from(step).unwrap_or(last).min(last)]
}

#[cfg(test)]
mod tests {
    use numad_core::{Certainty, CommMatrix};
    use topology::{Pid, StartTicks, TaskKey, Tid};

    use super::*;

    fn snapshot(nodes: &[Option<u32>], pairs: &[(usize, usize, u64)]) -> Snapshot {
        let mut matrix = CommMatrix::new(nodes.len());
        for &(one, other, amount) in pairs {
            matrix.add(one, other, amount);
        }
        let thread = |(tid, node): (u32, &Option<u32>)| {
            let key = TaskKey {
                pid: Pid(1),
                tid: Tid(tid),
                start: StartTicks(1),
            };
            (key, node.map(NodeId))
        };
        Snapshot {
            program: 1,
            threads: (1..).zip(nodes).map(thread).collect(),
            matrix,
            certainty: Certainty::of(0.9),
            per_amount: 1.0,
        }
    }

    #[test]
    fn threads_are_ordered_by_node_and_amounts_are_shades() {
        let snapshot = snapshot(
            &[Some(1), Some(0), Some(1)],
            &[(0, 2, 100), (0, 1, 12), (1, 2, 50)],
        );
        let picture = "  ··│  ▒▒  2 on node 0\n    │··██  1 on node 1\n  ▒▒│██··  3 on node 1\n  \
                       scale: ' ' below 13 to '█' 100; each row is a thread\n";
        assert_eq!(shades(&snapshot), picture);
        assert_eq!(places(&snapshot), "  node 0: 2\n  node 1: 1 3\n");
    }

    #[test]
    fn many_threads_are_drawn_together_and_none_is_fine() {
        let many = snapshot(&[None; 1000], &[(0, 999, 7)]);
        let picture = shades(&many);
        assert_eq!(picture.lines().count(), 64);
        assert!(picture.contains("each row is 16 threads"), "{picture}");
        assert!(shades(&snapshot(&[], &[])).starts_with("  scale"));
    }
}
