//! Azimi, Tam, Soares and Stumm (2009): clusters of threads whose accesses other cores' caches answer, in every window,
//! whatever the placement is.

use std::cmp::Reverse;

use numad_core::{Bind, CommMatrix, Policy, Program, Proposal, Published, Time};

use super::{every, partner, place};

pub(crate) const PUBLISHED: Published = Published {
    paper: "Azimi, Tam, Soares, Stumm 2009",
    interval: every(std::time::Duration::from_secs(1)),
    bind: Bind::Node,
    takes: &["similar_min"],
    build: |settings, _| {
        Ok(Box::new(Azimi {
            similar_min: settings.float("similar_min"),
        }))
    },
};

#[derive(Debug)]
struct Azimi {
    similar_min: f64,
}

/// The clusters of the tasks of a matrix that say anything: see [`grow`].
pub(crate) fn clusters(matrix: &CommMatrix, similar_min: f64, largest: usize) -> Vec<Vec<usize>> {
    let partners = |task: usize| {
        let row = matrix.row(task).iter().copied().enumerate();
        row.filter(move |&(other, amount)| other != task && amount > 0)
    };
    grow(matrix.count(), partners, similar_min, largest)
}

/// Clusters in one pass: tasks by what they say, most first, each to the cluster to which it says most if that is this
/// share of all it says and the cluster is not full, else to a new one.
pub(crate) fn grow<I: Iterator<Item = (usize, u64)>>(
    tasks: usize,
    partners: impl Fn(usize) -> I,
    similar_min: f64,
    largest: usize,
) -> Vec<Vec<usize>> {
    let said = |task: usize| -> u64 { partners(task).map(|(_, amount)| amount).sum() };
    let totals: Vec<u64> = (0..tasks).map(said).collect();
    let mut order: Vec<usize> = (0..tasks).filter(|&task| totals[task] > 0).collect();
    order.sort_by_key(|&task| Reverse(totals[task]));
    let mut cluster_of: Vec<Option<usize>> = vec![None; tasks];
    let mut clusters: Vec<Vec<usize>> = Vec::new();
    for task in order {
        let mut heard = vec![0_u64; clusters.len()];
        for (other, amount) in partners(task) {
            if let Some(cluster) = cluster_of[other] {
                heard[cluster] += amount;
            }
        }
        let open = (0..clusters.len()).filter(|&cluster| clusters[cluster].len() < largest);
        let loudest = open.max_by_key(|&cluster| (heard[cluster], Reverse(cluster)));
        let enough = similar_min * totals[task] as f64;
        let near = loudest.filter(|&cluster| heard[cluster] > 0 && heard[cluster] as f64 >= enough);
        let cluster = near.unwrap_or(clusters.len());
        if cluster == clusters.len() {
            clusters.push(Vec::new());
        }
        clusters[cluster].push(task);
        cluster_of[task] = Some(cluster);
    }
    clusters
}

/// Clusters to nodes, the largest first, each to the node with the most places left; of equals to the one that has most
/// `there` of those tasks. One that fits nowhere is dealt out.
pub(crate) fn deal(
    mut clusters: Vec<Vec<usize>>,
    mut free: Vec<usize>,
    tasks: usize,
    there: impl Fn(&[usize], usize) -> usize,
) -> Vec<Option<usize>> {
    clusters.sort_by_key(|cluster| Reverse(cluster.len()));
    let mut nodes = vec![None; tasks];
    for cluster in clusters {
        let mut rest = cluster.as_slice();
        while !rest.is_empty() {
            let open = (0..free.len()).filter(|&node| free[node] > 0);
            let key = |&node: &usize| (free[node], there(rest, node), Reverse(node));
            let Some(node) = open.max_by_key(key) else {
                break;
            };
            let (now, later) = rest.split_at(rest.len().min(free[node]));
            for &task in now {
                nodes[task] = Some(node);
            }
            free[node] -= now.len();
            rest = later;
        }
    }
    nodes
}

impl Policy for Azimi {
    fn propose(&mut self, _: Time, program: &Program<'_>, out: &mut Vec<Proposal>) {
        let Some(handed) = program.handed else {
            return;
        };
        let largest = program.capacity.iter().copied().max().unwrap_or(0);
        let clusters = clusters(handed, self.similar_min, largest);
        let nodes = deal(
            clusters,
            program.capacity.to_vec(),
            program.tasks.len(),
            |_, _| 0,
        );
        place(&nodes, out, |task| partner(program, handed, task));
    }
}
