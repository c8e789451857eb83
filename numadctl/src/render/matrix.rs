//! The communication matrix as a picture for the terminal, and as comma-separated values.

use control::rows::Matrix;

use super::units::count;

/// Shades from nothing to most.
pub const SHADES: [char; 5] = [' ', '░', '▒', '▓', '█'];

/// Narrowest picture: a frame, a label and a few cells.
const WIDTH_MIN: usize = 30;

/// Whether there is a row, a name, a node and a row of samples for each task, and rows are as long.
#[must_use]
pub fn is_square(matrix: &Matrix) -> bool {
    let count = matrix.tids.len();
    matrix.nodes.len() == count
        && (matrix.ranks.is_empty() || matrix.ranks.len() == count)
        && matrix.rows.len() == count
        && matrix.rows.iter().all(|row| row.len() == count)
        && matrix.support.len() == count
        && matrix.support.iter().all(|row| row.len() == count)
}

/// Tasks of one node that are drawn as one cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bin {
    /// Positions in the matrix.
    pub(crate) tasks: Vec<usize>,
    /// Their node.
    pub(crate) node: Option<u32>,
}

/// Puts tasks of a node together, nodes ascending and unknown last, those that share memory next to
/// each other, and makes bins of them until there are at most `bins_max`. A bin has tasks of one node, unless there are more nodes than
/// bins: then nodes are given up and every bin's node is unknown.
pub(crate) fn bins(matrix: &Matrix, bins_max: usize) -> Vec<Bin> {
    let mut order: Vec<usize> = (0..matrix.tids.len()).collect();
    order.sort_by_key(|&task| {
        let node = matrix.nodes[task];
        (node.is_none(), node, matrix.tids[task])
    });
    for node in order.chunk_by_mut(|&one, &other| matrix.nodes[one] == matrix.nodes[other]) {
        put_partners_together(matrix, node);
    }
    let mut groups: Vec<&[usize]> = order
        .chunk_by(|&one, &other| matrix.nodes[one] == matrix.nodes[other])
        .collect();
    let by_node = groups.len() <= bins_max;
    if !by_node {
        groups = vec![&order];
    }
    let needed =
        |size: usize| -> usize { groups.iter().map(|group| group.len().div_ceil(size)).sum() };
    let size = (1..=order.len())
        .find(|&size| needed(size) <= bins_max)
        .unwrap_or(order.len().max(1));
    let chunks = groups.iter().flat_map(|group| group.chunks(size));
    chunks
        .map(|tasks| Bin {
            tasks: tasks.to_vec(),
            node: matrix.nodes[tasks[0]].filter(|_| by_node),
        })
        .collect()
}

/// Begins with the first task; then always the task that shares most with one of those before it.
/// A group of tasks that share more with each other than with the rest is therefore together.
fn put_partners_together(matrix: &Matrix, tasks: &mut [usize]) {
    let between = |one: usize, other: usize| matrix.rows[one][other].max(matrix.rows[other][one]);
    // How much each task shares at most with one of those that have their position.
    let mut strongest = vec![0; matrix.tids.len()];
    for position in 1..tasks.len() {
        let last = tasks[position - 1];
        let rest = &mut tasks[position..];
        for &task in &*rest {
            strongest[task] = strongest[task].max(between(last, task));
        }
        let most = rest.iter().map(|&task| strongest[task]).max();
        let next = rest.iter().position(|&task| Some(strongest[task]) == most);
        // The others keep their order, so that equal amounts leave the tasks as they were.
        rest[..=next.unwrap_or(0)].rotate_right(1);
    }
}

/// Mean amount between the tasks of two bins; a task's talk with itself is not counted.
pub(crate) fn mean(matrix: &Matrix, one: &Bin, other: &Bin) -> u64 {
    let pairs = one
        .tasks
        .iter()
        .flat_map(|&task| other.tasks.iter().map(move |&partner| (task, partner)))
        .filter(|(task, partner)| task != partner);
    let (mut sum, mut pairs_seen) = (0u128, 0u128);
    for (task, partner) in pairs {
        sum += u128::from(matrix.rows[task][partner]);
        pairs_seen += 1;
    }
    u64::try_from(sum / pairs_seen.max(1)).unwrap_or(u64::MAX)
}

/// Mean amounts of all pairs of bins, and the largest.
pub(crate) fn amounts(matrix: &Matrix, bins: &[Bin]) -> (Vec<Vec<u64>>, u64) {
    let rows: Vec<Vec<u64>> = bins
        .iter()
        .map(|one| bins.iter().map(|other| mean(matrix, one, other)).collect())
        .collect();
    let most = rows.iter().flatten().copied().max().unwrap_or(0);
    (rows, most)
}

/// The shade of an amount: blank is nothing at all, the darkest the upper quarter below `most`.
#[must_use]
pub fn shade(amount: u64, most: u64) -> char {
    if amount == 0 || most == 0 {
        return SHADES[0];
    }
    let quarter = (u128::from(amount) * 4)
        .div_ceil(u128::from(most))
        .clamp(1, 4);
    SHADES[usize::try_from(quarter).unwrap_or(4)]
}

/// What is in it, and what it was seen by: ranks send messages, threads access what is sampled.
pub(crate) fn nouns(matrix: &Matrix) -> (&'static str, &'static str) {
    match matrix.window.as_str() {
        "messages" | "modelled" => ("rank", "message"),
        _ => ("thread", "sample"),
    }
}

/// The picture: one row and column for each task (or for a few tasks of one node, where the width
/// does not suffice), ordered by node, lines between nodes, and the scale below.
///
/// `matrix` must be square; `width` in columns, at least 30 are used.
#[must_use]
pub fn picture(matrix: &Matrix, width: usize) -> String {
    let (who, seen) = nouns(matrix);
    let mut text = format!(
        "communication, {}: {}, {}\n",
        matrix.window,
        count(u64::try_from(matrix.tids.len()).unwrap_or(u64::MAX), who),
        count(matrix.samples, seen)
    );
    if matrix.tids.is_empty() {
        text.push_str(match who {
            "rank" => "no rank of an MPI job is known; `numadctl run --mpi` counts messages\n",
            _ => "no thread takes part yet\n",
        });
        return text;
    }
    let (label, room) = layout(matrix, width.max(WIDTH_MIN));
    let bins = bins(matrix, room);
    let cell = if bins.len() * 2 <= room { 2 } else { 1 };
    let (rows, most) = amounts(matrix, &bins);
    let rule = |left, between, right| {
        let mut line = " ".repeat(label);
        line.push(left);
        for (column, bin) in bins.iter().enumerate() {
            if column > 0 && bins[column - 1].node != bin.node {
                line.push(between);
            }
            line.extend(std::iter::repeat_n('─', cell));
        }
        line.push(right);
        line.push('\n');
        line
    };
    text.push_str(&rule('┌', '┬', '┐'));
    for (index, (bin, row)) in bins.iter().zip(&rows).enumerate() {
        let first = index == 0 || bins[index - 1].node != bin.node;
        if first && index > 0 {
            text.push_str(&rule('├', '┼', '┤'));
        }
        text.push_str(&format!("{:<label$}│", row_label(matrix, bin, first)));
        for (column, &amount) in row.iter().enumerate() {
            if column > 0 && bins[column - 1].node != bins[column].node {
                text.push('│');
            }
            text.extend(std::iter::repeat_n(shade(amount, most), cell));
        }
        text.push_str("│\n");
    }
    text.push_str(&rule('└', '┴', '┘'));
    text.push_str(&scale(&bins, most, who));
    text.push_str(&sureness(matrix));
    text
}

/// How many threads have a partner of whom it is sure; nothing where nobody says anything.
fn sureness(matrix: &Matrix) -> String {
    let sure: Vec<_> = matrix
        .partners
        .iter()
        .filter(|partner| partner.sure)
        .collect();
    let (Some(least), Some(most)) = (
        matrix.partners.iter().map(|partner| partner.samples).min(),
        matrix.partners.iter().map(|partner| partner.samples).max(),
    ) else {
        return String::new();
    };
    let mut text = format!(
        "sure: {} of {} threads share more with one other than chance explains, at {:.0} %\n\
         samples behind a thread's largest cell: {least} to {most}\n",
        sure.len(),
        matrix.tids.len(),
        matrix.confidence * 100.0,
    );
    let weakest = sure.iter().min_by(|a, b| a.low.total_cmp(&b.low));
    if let Some(partner) = weakest {
        text.push_str(&format!(
            "least of these: {} with {}, {:.0} % of what it shares ({:.0} to {:.0} %)\n",
            partner.tid,
            partner.with,
            partner.share * 100.0,
            partner.low * 100.0,
            partner.high * 100.0
        ));
    }
    text
}

/// A thread's number, with its MPI rank if it is of one: `4243 r7`.
fn name(matrix: &Matrix, task: usize) -> String {
    let tid = matrix.tids[task];
    match matrix.ranks.get(task).copied().flatten() {
        Some(rank) => format!("{tid} r{rank}"),
        None => tid.to_string(),
    }
}

/// `node 0  4243`, the node on its first row alone.
fn row_label(matrix: &Matrix, bin: &Bin, first: bool) -> String {
    let node = match (first, bin.node) {
        (false, _) => String::new(),
        (true, Some(node)) => format!("node {node}"),
        (true, None) => "no node".to_owned(),
    };
    let (tid, more) = (name(matrix, bin.tasks[0]), bin.tasks.len() - 1);
    let more = if more == 0 {
        String::new()
    } else {
        format!(" +{more}")
    };
    format!("{node:<8} {tid}{more} ")
}

/// Columns of the labels, and columns left for cells beside them, the frame, and the lines between
/// nodes.
fn layout(matrix: &Matrix, width: usize) -> (usize, usize) {
    let mut nodes = matrix.nodes.clone();
    nodes.sort_unstable();
    nodes.dedup();
    let digits = |number: usize| number.to_string().len();
    let names = (0..matrix.tids.len()).map(|task| name(matrix, task).len());
    let tid = names.max().unwrap_or(1);
    let node = nodes.iter().flatten().max();
    let node = node.map_or(0, |node| format!("node {node}").len()).max(8);
    let alone = node + 1 + tid + 1;
    let beside = |label: usize| width.saturating_sub(label + 2).max(1);
    let lines = nodes.len() - 1;
    if matrix.tids.len() + lines <= beside(alone) {
        return (alone, beside(alone) - lines);
    }
    // Some will share a row, and their labels say how many.
    let shared = alone + 2 + digits(matrix.tids.len());
    match beside(shared).checked_sub(lines) {
        Some(room) if room >= nodes.len() => (shared, room),
        // More nodes than fit: they are given up, and with them the lines.
        _ => (shared, beside(shared).min(nodes.len() - 1).max(1)),
    }
}

fn scale(bins: &[Bin], most: u64, who: &str) -> String {
    let largest = bins.iter().map(|bin| bin.tasks.len()).max().unwrap_or(1);
    let unit = if largest > 1 { "mean amount" } else { "amount" };
    if most == 0 {
        return "no communication seen\n".to_owned();
    }
    let quarter = |part: u128| u128::from(most) * part / 4;
    let mut text = format!("{unit}: blank 0");
    for (part, shade) in (1u128..).zip(&SHADES[1..]) {
        text.push_str(&format!("  {shade} to {}", quarter(part)));
    }
    text.push('\n');
    if largest > 1 {
        text.push_str(&format!(
            "up to {largest} {who}s share a row; --csv and --svg show each\n"
        ));
    }
    text
}

/// Comma-separated values: a head line, then for each thread its number, its node and its amounts
/// in the order of the head line, then the samples behind each of them.
#[must_use]
pub fn csv(matrix: &Matrix) -> String {
    let mut text = String::from("tid,node");
    for tid in &matrix.tids {
        text.push_str(&format!(",{tid}"));
    }
    for tid in &matrix.tids {
        text.push_str(&format!(",samples:{tid}"));
    }
    text.push('\n');
    let rows = matrix.rows.iter().zip(&matrix.support);
    for ((tid, node), (row, support)) in matrix.tids.iter().zip(&matrix.nodes).zip(rows) {
        let node = node.map_or_else(String::new, |node| node.to_string());
        text.push_str(&format!("{tid},{node}"));
        for amount in row.iter().chain(support) {
            text.push_str(&format!(",{amount}"));
        }
        text.push('\n');
    }
    text
}
