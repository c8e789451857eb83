//! Azimi, Tam, Soares and Stumm (2009): clusters of threads whose accesses other cores' caches answer, in every window,
//! whatever the placement is.

use numad_core::{
    Bind, CommMatrix, Difference, Policy, Program, Proposal, Published, Settings, SettingsError,
    Time,
};

use super::{differs, every, partner, place};

pub(crate) const PUBLISHED: Published = Published {
    paper: "Azimi, Tam, Soares, Stumm 2009",
    interval: every(std::time::Duration::from_secs(1)),
    bind: Bind::Node,
    takes: &["similar_min"],
    build,
    differences: &DIFFERENCES,
};

const DIFFERENCES: [Difference; 1] = [differs(
    "acceptance of a plan",
    "always",
    "if it is worth its moves, memory left behind included",
    "pages stay, and become remote",
)];

#[expect(clippy::unnecessary_wraps, reason = "the type that all methods have")]
fn build(settings: &Settings, _: u64) -> Result<Box<dyn Policy>, SettingsError> {
    Ok(Box::new(Azimi {
        similar_min: settings.float("similar_min"),
    }))
}

#[derive(Debug)]
struct Azimi {
    similar_min: f64,
}

/// Clusters in one pass: tasks by what they say, most first, each to the cluster to which it says most if that is this
/// share of all it says and the cluster is not full, else to a new one.
pub(crate) fn clusters(matrix: &CommMatrix, similar_min: f64, largest: usize) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..matrix.count())
        .filter(|&task| matrix.row_sum(task) > 0)
        .collect();
    order.sort_by_key(|&task| std::cmp::Reverse(matrix.row_sum(task)));
    let mut clusters: Vec<Vec<usize>> = Vec::new();
    for task in order {
        let said = |cluster: &Vec<usize>| -> u64 {
            cluster
                .iter()
                .map(|&other| matrix.between(task, other))
                .sum()
        };
        let mut best: Option<(u64, usize)> = None;
        for (at, cluster) in clusters
            .iter()
            .enumerate()
            .filter(|(_, one)| one.len() < largest)
        {
            if best.is_none_or(|(most, _)| said(cluster) > most) {
                best = Some((said(cluster), at));
            }
        }
        let enough = similar_min * matrix.row_sum(task) as f64;
        match best.filter(|&(most, _)| most > 0 && most as f64 >= enough) {
            Some((_, at)) => clusters[at].push(task),
            None => clusters.push(vec![task]),
        }
    }
    clusters
}

/// Clusters to nodes, the largest first, each to the node with the most places left.
pub(crate) fn deal(
    mut clusters: Vec<Vec<usize>>,
    mut free: Vec<usize>,
    tasks: usize,
) -> Vec<Option<usize>> {
    clusters.sort_by_key(|cluster| std::cmp::Reverse(cluster.len()));
    let mut nodes = vec![None; tasks];
    for cluster in clusters {
        let mut rest = cluster.as_slice();
        while !rest.is_empty() {
            let open = (0..free.len()).filter(|&node| free[node] > 0);
            let Some(node) = open.max_by_key(|&node| (free[node], std::cmp::Reverse(node))) else {
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
        let nodes = deal(clusters, program.capacity.to_vec(), program.tasks.len());
        place(&nodes, out, |task| partner(program, handed, task));
    }
}
