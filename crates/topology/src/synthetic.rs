//! Machines from a short text, for tests, the simulator and `--topology`.
//!
//! ```text
//! machine   = shape [ "@" distances ]
//! shape     = NODES "x" CORES [ "x" THREADS ] [ ":" CACHES ] [ "+" MEMORY ]
//! distances = "10," REMOTE           every other node equally far
//!           | row { ";" row }        one row per node, a figure per node in each
//! row       = FIGURE { "," FIGURE }
//! ```
//!
//! | text | machine |
//! | --- | --- |
//! | `4x16` | 4 nodes of 16 cores, 20 apart |
//! | `4x16@10,21` | the same, 21 apart |
//! | `2x8x2` | 2 nodes of 8 cores of 2 threads |
//! | `1x64:8` | one node of 64 cores, of which every eight share a last-level cache |
//! | `2x8+1` | 2 nodes of 8 cores, and node 2 that is memory alone |
//! | `2x4@10,21;31,10` | every distance given; node 1 to node 0 is 31 |
//!
//! Each node is a package and has 16 GiB. Processors are numbered node by node, core by core, thread
//! by thread; nodes of memory alone come last. Distances are in the scale of ACPI: local is 10,
//! remote from 11 to 254. There are no caches but those that are asked for, of which each node has so
//! many, and nothing is known of bandwidth.

use crate::bandwidth::BandwidthGraph;
use crate::distance::{LOCAL, REMOTE_DEFAULT, UNREACHABLE};
use crate::ids::{CoreId, CpuId, NodeId, PackageId};
use crate::machine::{Cache, CacheKind, Contradiction, Cpu, Node, Parts, Topology};
use crate::set::CpuSet;

/// Memory of each made-up node.
pub const NODE_BYTES: u64 = 16 << 30;
/// Each made-up last-level cache: what eight cores of a server share.
const CACHE_BYTES: u64 = 32 << 20;
/// The most nodes; four times what the product promises to serve, and a matrix that stays small.
const NODES_MAX: u32 = 256;
/// The most processors; sixteen times what the product promises to serve.
const CPUS_MAX: u32 = 16_384;

/// Whether a text is made of nothing but what the short form is made of.
#[must_use]
pub fn looks_like(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_digit())
        && text
            .bytes()
            .all(|byte| byte.is_ascii_digit() || b"x@,;+:".contains(&byte))
}

/// Reads the short form.
///
/// # Errors
/// Says which part of the text is wrong and how it should be.
pub fn parse(text: &str) -> Result<Topology, Contradiction> {
    let (shape, distances) = match text.split_once('@') {
        Some((shape, distances)) => (shape, Some(distances)),
        None => (text, None),
    };
    let shape = Shape::parse(shape)?;
    let distance_rows = shape.rows(distances)?;
    let mut parts = Parts {
        nodes: Vec::new(),
        cpus: Vec::new(),
        caches: Vec::new(),
        distance_rows,
        bandwidth: BandwidthGraph::default(),
        notes: Vec::new(),
    };
    let per_node = shape.cores * shape.threads;
    let per_cache = per_node / shape.caches.unwrap_or(1);
    if shape.caches.is_some() {
        let first = (0..shape.nodes * per_node).step_by(per_cache as usize);
        parts.caches.extend(first.map(|first| Cache {
            level: 3,
            kind: CacheKind::Unified,
            size_bytes: CACHE_BYTES,
            cpus: (first..first + per_cache).map(CpuId).collect(),
        }));
    }
    for node in 0..shape.all_nodes() {
        let cpus: CpuSet = if node < shape.nodes {
            (node * per_node..(node + 1) * per_node)
                .map(CpuId)
                .collect()
        } else {
            CpuSet::new()
        };
        parts.cpus.extend(cpus.iter().map(|id| Cpu {
            id,
            online: true,
            isolated: false,
            core: CoreId(id.0 / shape.threads),
            package: PackageId(node),
            node: Some(NodeId(node)),
        }));
        parts.nodes.push(Node {
            id: NodeId(node),
            cpus,
            memory_bytes: NODE_BYTES,
        });
    }
    Topology::new(parts)
}

#[derive(Clone, Copy, Debug)]
struct Shape {
    nodes: u32,
    cores: u32,
    threads: u32,
    /// Last-level caches of each node, where they are told.
    caches: Option<u32>,
    memory_only: u32,
}

impl Shape {
    fn parse(text: &str) -> Result<Self, Contradiction> {
        let (shape, memory_only) = match text.split_once('+') {
            Some((shape, memory)) => (shape, number(memory, "number of memory nodes", NODES_MAX)?),
            None => (text, 0),
        };
        let (shape, caches) = match shape.split_once(':') {
            Some((shape, caches)) => (shape, Some(number(caches, "number of caches", CPUS_MAX)?)),
            None => (shape, None),
        };
        let fields: Vec<&str> = shape.split('x').collect();
        let (nodes, cores, threads) = match fields[..] {
            [nodes, cores] => (nodes, cores, "1"),
            [nodes, cores, threads] => (nodes, cores, threads),
            _ => {
                return Err(Contradiction(format!(
                    "`{shape}` is not NODESxCORES or NODESxCORESxTHREADS, as in `4x16`"
                )));
            }
        };
        let shape = Self {
            nodes: number(nodes, "number of nodes", NODES_MAX)?,
            cores: number(cores, "number of cores", CPUS_MAX)?,
            threads: number(threads, "number of threads", CPUS_MAX)?,
            caches,
            memory_only,
        };
        if caches.is_some_and(|caches| !shape.cores.is_multiple_of(caches)) {
            return Err(Contradiction(format!(
                "`{text}`: {} cores cannot share {} caches evenly",
                shape.cores,
                caches.unwrap_or(0)
            )));
        }
        if shape.all_nodes() > NODES_MAX {
            return Err(Contradiction(format!(
                "{} nodes are more than {NODES_MAX}",
                shape.all_nodes()
            )));
        }
        let cpus = [shape.cores, shape.threads]
            .iter()
            .try_fold(shape.nodes, |product, &factor| product.checked_mul(factor));
        if cpus.is_none_or(|cpus| cpus > CPUS_MAX) {
            return Err(Contradiction(format!(
                "`{text}` has more than {CPUS_MAX} processors"
            )));
        }
        Ok(shape)
    }

    const fn all_nodes(self) -> u32 {
        self.nodes + self.memory_only
    }

    /// The matrix that a text of distances describes.
    fn rows(self, text: Option<&str>) -> Result<Vec<Vec<u32>>, Contradiction> {
        let nodes = self.all_nodes() as usize;
        let Some(text) = text else {
            return Ok(uniform(nodes, REMOTE_DEFAULT));
        };
        let mut rows: Vec<Vec<u32>> = text.split(';').map(row).collect::<Result<_, _>>()?;
        if let [row] = &rows[..]
            && let [LOCAL, remote] = row[..]
        {
            check(&uniform(2, remote))?;
            rows = uniform(nodes, remote);
        }
        if rows.len() != nodes || rows.iter().any(|row| row.len() != nodes) {
            return Err(Contradiction(format!(
                "`{text}` is not {nodes} rows of {nodes} distances, nor `10,` and a remote one"
            )));
        }
        check(&rows)?;
        Ok(rows)
    }
}

fn uniform(nodes: usize, remote: u32) -> Vec<Vec<u32>> {
    let figure = |from, to| if from == to { LOCAL } else { remote };
    (0..nodes)
        .map(|from| (0..nodes).map(|to| figure(from, to)).collect())
        .collect()
}

fn row(text: &str) -> Result<Vec<u32>, Contradiction> {
    text.split(',')
        .map(|figure| number(figure, "distance", UNREACHABLE - 1))
        .collect()
}

/// What a user types is refused where the same from firmware would be replaced.
fn check(rows: &[Vec<u32>]) -> Result<(), Contradiction> {
    for (from, row) in rows.iter().enumerate() {
        for (to, &distance) in row.iter().enumerate() {
            if (from == to) != (distance == LOCAL) || distance < LOCAL {
                return Err(Contradiction(format!(
                    "distance {distance} of node {from} to node {to}: local is {LOCAL}, remote from \
                     {} to {}",
                    LOCAL + 1,
                    UNREACHABLE - 1
                )));
            }
        }
    }
    Ok(())
}

fn number(text: &str, what: &str, most: u32) -> Result<u32, Contradiction> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse()
        .ok()
        .filter(|number| digits && (1..=most).contains(number))
        .ok_or_else(|| {
            let shown: String = text.chars().take(40).collect();
            Contradiction(format!("{what} `{shown}` is not from 1 to {most}"))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caches_are_shared_by_as_many_cores_each() {
        let topology = parse("2x8x2:4@10,21").unwrap();
        let caches = topology.caches();
        assert_eq!(caches.len(), 8);
        assert_eq!(caches[5].cpus.to_string(), "20-23");
        assert!(looks_like("1x64:8") && parse("1x8").unwrap().caches().is_empty());
        for (text, words) in [
            ("1x8:3", "8 cores cannot share 3 caches"),
            ("1x8:0", "`0`"),
            ("1x8:", "``"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.0.contains(words), "{}", error.0);
        }
    }

    #[track_caller]
    fn check(text: &str, nodes: &[&str], cores: usize, rows: &[&[u32]]) {
        let topology = parse(text).unwrap();
        let cpus: Vec<String> = topology
            .nodes()
            .iter()
            .map(|n| n.cpus.to_string())
            .collect();
        assert_eq!(cpus, nodes);
        assert_eq!(topology.cores_in(&topology.online()), cores);
        for (from, &row) in rows.iter().enumerate() {
            assert_eq!(topology.distances().row(from), row);
        }
        assert_eq!(topology.notes(), []);
        assert!(looks_like(text), "{text}");
    }

    #[test]
    fn every_form_is_read() {
        check("1x4", &["0-3"], 4, &[&[10]]);
        check("2x4", &["0-3", "4-7"], 8, &[&[10, 20], &[20, 10]]);
        check("2x4@10,31", &["0-3", "4-7"], 8, &[&[10, 31], &[31, 10]]);
        check("2x2x2", &["0-3", "4-7"], 4, &[]);
        check("1x2+1", &["0-1", ""], 2, &[&[10, 20], &[20, 10]]);
        check("2x1@10,21;31,10", &["0", "1"], 2, &[&[10, 21], &[31, 10]]);
        let rows: &[&[u32]] = &[&[10, 20, 17], &[20, 10, 28], &[17, 28, 10]];
        check(
            "2x1x2+1@10,20,17;20,10,28;17,28,10",
            &["0-1", "2-3", ""],
            2,
            rows,
        );
    }

    #[test]
    fn the_promised_size_is_made() {
        let topology = parse("64x8x2").unwrap();
        assert_eq!((topology.nodes().len(), topology.cpus().len()), (64, 1024));
    }

    #[test]
    fn mistakes_are_named() {
        for (text, words) in [
            ("", "`` is not NODESxCORES"),
            ("4", "`4` is not NODESxCORES"),
            ("4x", "number of cores `` is not from 1"),
            ("0x4", "number of nodes `0` is not from 1 to 256"),
            ("257x1", "number of nodes `257`"),
            ("256x1+1", "257 nodes are more than 256"),
            ("+4x+4", "number of memory nodes `4x+4`"),
            ("256x100", "more than 16384 processors"),
            ("100x16384x16384", "more than 16384 processors"),
            ("2x2x2x2", "`2x2x2x2` is not"),
            ("2x2@", "distance `` is not"),
            ("2x2@10", "is not 2 rows of 2"),
            ("2x2@10,20;20", "is not 2 rows of 2"),
            ("3x2@10,20;20,10", "is not 3 rows of 3"),
            ("2x2@10,10", "distance 10 of node 0 to node 1"),
            ("2x2@11,21;21,10", "distance 11 of node 0 to node 0"),
            ("2x2@10,255", "distance `255`"),
            ("2x2@10,9", "distance 9 of node 0"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
