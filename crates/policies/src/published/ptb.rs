//! PTB (dissertation, chapter 5): Algorithms 3 to 7 to the letter, in cycles of one second.
//!
//! Similarity is the cosine of the histograms of all threads (eq. 5.1), C1 = 1. Recursive Kernighan-Lin cuts threads into
//! a part for each node; Algorithm 4 gives each part to the free node that runs most of it. Pages by total accesses, the
//! most used first; one with fewer than 16 is skipped; the best score takes it, times C2 = 1.5 where it is. What is
//! left of the bandwidth is taken off the row of the node that takes the page (Algorithm 5, line 30); when all is used up
//! the rest is interleaved.
//!
//! The listing's line 30 reads `B_n*[n] <- max(B_n*[n] - b_n[p], 0)`, from the memory to the threads, while the graph
//! and Algorithm 7 read from threads to memory: the second is meant, `B_n[n*]`.

use std::cmp::Reverse;
use std::time::Duration;

use numad_core::cost::{ACCESS_BYTES, MachineModel};
use numad_core::{
    Bind, Policy, Program, Proposal, Published, Reason, Settings, SettingsError, Time,
};

use super::{every, place};
use crate::figures::rounded;
use crate::kernel::{Edges, Effort, Problem, Workspace, kl};
use crate::seats::may_run_everywhere;

pub(crate) const PUBLISHED: Published = Published {
    paper: "PTB (dissertation, chapters 4 and 5)",
    interval: every(Duration::from_secs(1)),
    bind: Bind::Node,
    takes: &["c1", "c2", "min_acc"],
    build,
};

fn build(settings: &Settings, _: u64) -> Result<Box<dyn Policy>, SettingsError> {
    let number = |name: &str, published: f64| match settings.text(name) {
        "auto" => Ok(published),
        text => text.parse().map_err(|error: std::num::ParseFloatError| {
            SettingsError::new(name, format!("is `{text}`, must be a number: {error}"))
        }),
    };
    Ok(Box::new(Ptb {
        c1: settings.float("c1"),
        c2: number("c2", 1.5)?,
        min_acc: number("min_acc", 16.0)?,
        workspace: Workspace::default(),
    }))
}

#[derive(Debug)]
struct Ptb {
    c1: f64,
    c2: f64,
    /// Samples.
    min_acc: f64,
    workspace: Workspace,
}

/// Amounts of the cut for a cosine of 1.
const ONE: f64 = 65_536.0;

/// A row of the histogram: the page's home and its accesses by task.
pub(crate) type Row<'a> = (Option<usize>, &'a [(u32, u64)]);

/// Eq. 5.1 and 5.2 for all pairs: `[one * tasks + other]`.
pub(crate) fn similarity(rows: &[Row<'_>], node_of: &[Option<usize>], c1: f64) -> Vec<f64> {
    let tasks = node_of.len();
    let mut dots = vec![0.0; tasks * tasks];
    for (_, uses) in rows {
        for &(one, a) in *uses {
            for &(other, b) in *uses {
                dots[one as usize * tasks + other as usize] += a as f64 * b as f64;
            }
        }
    }
    let mut all = vec![0.0; tasks * tasks];
    for one in 0..tasks {
        for other in 0..tasks {
            let length = (dots[one * tasks + one] * dots[other * tasks + other]).sqrt();
            let together = node_of[one].is_some() && node_of[one] == node_of[other];
            let factor = if together { c1 } else { 1.0 };
            if one != other && length > 0.0 {
                all[one * tasks + other] = factor * dots[one * tasks + other] / length;
            }
        }
    }
    all
}

/// Algorithm 4: each part to the free node that runs most of it, the first of equals.
pub(crate) fn allocate(
    parts: &[Vec<usize>],
    node_of: &[Option<usize>],
    nodes: usize,
) -> Vec<usize> {
    let mut free: Vec<usize> = (0..nodes).collect();
    let mut given = Vec::new();
    for part in parts {
        let held = |node| {
            part.iter()
                .filter(|&&task| node_of[task] == Some(node))
                .count()
        };
        let best = free
            .iter()
            .copied()
            .max_by_key(|&node| (held(node), Reverse(node)));
        let node = best.expect("there are as many nodes as parts");
        free.retain(|&other| other != node);
        given.push(node);
    }
    given
}

/// What Algorithm 5 goes by.
#[derive(Clone, Debug)]
pub(crate) struct Bandwidth {
    pub(crate) nodes: usize,
    /// `left[n * nodes + m]`: from the threads of n to the memory of m, in GB/s.
    pub(crate) left: Vec<f64>,
    /// GB/s of one access, `ls / tau`.
    pub(crate) each: f64,
    pub(crate) c2: f64,
    /// Accesses below which a page is skipped.
    pub(crate) min_acc: f64,
}

/// Where a page goes, and why.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Choice {
    Skipped,
    /// With what is left there and at its home, per GB/s asked for.
    Best(usize, f64, f64),
    Interleaved(usize),
}

impl Bandwidth {
    /// Algorithms 5 to 7, for threads on these nodes; rows in the order in which they are looked at.
    pub(crate) fn distribute(mut self, rows: &[Row<'_>], node_of: &[Option<usize>]) -> Vec<Choice> {
        let nodes = self.nodes;
        let mut choices = Vec::with_capacity(rows.len());
        let mut turn = 0;
        for (home, uses) in rows {
            let total: u64 = uses.iter().map(|&(_, accesses)| accesses).sum();
            if self.left.iter().all(|&left| left <= 0.0) {
                choices.push(Choice::Interleaved(turn % nodes.max(1)));
                turn += 1;
                continue;
            }
            if (total as f64) < self.min_acc {
                choices.push(Choice::Skipped);
                continue;
            }
            let mut asked = vec![0.0; nodes];
            for &(task, accesses) in *uses {
                if let Some(node) = node_of[task as usize] {
                    asked[node] += accesses as f64 * self.each;
                }
            }
            let plain = |memory: usize| -> f64 {
                (0..nodes)
                    .map(|node| self.left[node * nodes + memory] * asked[node])
                    .sum()
            };
            let mut best = (f64::NEG_INFINITY, 0);
            for memory in 0..nodes {
                let sticky = if *home == Some(memory) { self.c2 } else { 1.0 };
                if plain(memory) * sticky > best.0 {
                    best = (plain(memory) * sticky, memory);
                }
            }
            // Equal scores leave a page where it is.
            let stays = home.filter(|&home| plain(home) * self.c2 >= best.0);
            let to = stays.unwrap_or(best.1);
            let all: f64 = asked.iter().sum::<f64>().max(f64::MIN_POSITIVE);
            let here = home.map_or(0.0, plain);
            choices.push(Choice::Best(to, plain(to) / all, here / all));
            for (row, asked) in self.left.chunks_mut(nodes).zip(&asked) {
                row[to] = (row[to] - asked).max(0.0);
            }
        }
        choices
    }
}

impl Ptb {
    /// Parts by recursive Kernighan-Lin, and a node for each thread; threads that are kept from some node stay.
    fn threads(&mut self, program: &Program<'_>, rows: &[Row<'_>]) -> Vec<Option<usize>> {
        let now = program.nodes();
        let open = (0..program.capacity.len()).filter(|&node| program.capacity[node] > 0);
        let open: Vec<usize> = open.collect();
        let is_free = |&task: &usize| may_run_everywhere(program, &program.tasks[task]);
        let tasks: Vec<usize> = (0..now.len()).filter(is_free).collect();
        let all = similarity(rows, &now, self.c1);
        let mut pairs = Vec::new();
        for (one, &task) in (0_u32..).zip(&tasks) {
            for (other, &partner) in (0_u32..).zip(&tasks).skip(one as usize + 1) {
                let amount = rounded(all[task * now.len() + partner] * ONE);
                if amount > 0 {
                    pairs.push((one, other, amount));
                }
            }
        }
        // |T| / |N| threads to each part.
        let each = tasks.len().div_ceil(open.len().max(1));
        let capacity = vec![u32::try_from(each).unwrap_or(u32::MAX); open.len()];
        let far = |pair: usize| u32::from(pair / open.len() != pair % open.len());
        let distance: Vec<u32> = (0..open.len() * open.len()).map(far).collect();
        let edges = Edges::from_pairs(tasks.len(), &pairs);
        let Ok(problem) = Problem::new(&edges, &distance, &capacity) else {
            return now;
        };
        let cut = kl(&problem, Effort::ONLINE, &mut self.workspace);
        let mut parts = vec![Vec::new(); open.len()];
        for (&task, &part) in tasks.iter().zip(cut) {
            parts[usize::from(part)].push(task);
        }
        let place = |node: &Option<usize>| open.iter().position(|&other| Some(other) == *node);
        let places: Vec<Option<usize>> = now.iter().map(place).collect();
        let mut nodes = now;
        for (part, given) in parts.iter().zip(allocate(&parts, &places, open.len())) {
            for &task in part {
                nodes[task] = Some(open[given]);
            }
        }
        nodes
    }
}

impl Policy for Ptb {
    fn propose(&mut self, _: Time, program: &Program<'_>, out: &mut Vec<Proposal>) {
        let mut order: Vec<usize> = (0..program.records.len().min(program.pages.len())).collect();
        let total = |page: usize| program.records[page].total();
        order.sort_by_key(|&page| (Reverse(total(page)), page));
        order.retain(|&page| total(page) > 0);
        let row = |&page: &usize| (program.pages[page].node(), &program.records[page].uses[..]);
        let rows: Vec<Row<'_>> = order.iter().map(row).collect();
        if rows.is_empty() {
            return;
        }
        let nodes = self.threads(program, &rows);
        place(&nodes, out, |_| Reason::Order);
        let model = MachineModel::new(program.topology);
        let count = program.capacity.len();
        let seconds = program.window.as_secs_f64().max(f64::MIN_POSITIVE);
        let accesses: u64 = order.iter().map(|&page| total(page)).sum();
        // Min_Acc is of samples, accesses are samples times their period.
        let period = accesses as f64 / program.samples.max(1) as f64;
        let bandwidth = Bandwidth {
            nodes: count,
            left: (0..count * count)
                .map(|pair| model.link_gbps(pair / count, pair % count))
                .collect(),
            each: program.prices.accesses_per_amount * ACCESS_BYTES / seconds / 1e9,
            c2: self.c2,
            min_acc: self.min_acc * period,
        };
        let mut free = program.free_bytes.to_vec();
        for (&page, choice) in order.iter().zip(bandwidth.distribute(&rows, &nodes)) {
            let (node, reason) = match choice {
                Choice::Skipped => continue,
                Choice::Best(node, there, here) => (
                    node,
                    Reason::Bandwidth {
                        there_mbps: rounded(there * 1000.0),
                        here_mbps: rounded(here * 1000.0),
                    },
                ),
                Choice::Interleaved(node) => (node, Reason::Interleave),
            };
            let page = &program.pages[page];
            if page.node().is_some_and(|home| home != node) && free[node] >= program.page_bytes {
                free[node] -= program.page_bytes;
                out.push(Proposal::move_page(page.key, node, reason));
            }
        }
    }
}
