//! The machine as a text for a terminal.

use std::collections::BTreeMap;

use crate::bandwidth::{Figure, Link};
use crate::distance::Origin;
use crate::machine::{CacheKind, Node, Topology};

use super::{cache_name, counted, gigabytes, size};

/// Nodes with their processors, memory and packages, caches, distances, bandwidths with their
/// origin, and notes. Ends in a newline; holds no colours.
#[must_use]
pub fn text(topology: &Topology) -> String {
    let mut out = format!(
        "{}\nfingerprint {}\n\n",
        topology.summary(),
        topology.fingerprint()
    );
    nodes(topology, &mut out);
    caches(topology, &mut out);
    distances(topology, &mut out);
    bandwidth(topology, &mut out);
    if !topology.notes().is_empty() {
        out.push_str("\nnotes\n");
        for note in topology.notes() {
            out.push_str(&format!("  {note}\n"));
        }
    }
    out
}

fn nodes(topology: &Topology, out: &mut String) {
    let rows = topology.nodes().iter().map(|node| {
        let cpus = if node.cpus.is_empty() {
            "none".to_owned()
        } else {
            node.cpus.to_string()
        };
        vec![
            node.id.to_string(),
            size(node.memory_bytes),
            cores(topology, node),
            packages(topology, node),
            cpus,
        ]
    });
    table(
        &["node", "memory", "cores", "package", "cpus"],
        rows.collect(),
        out,
    );
    let homeless = topology.cpus().iter().filter(|cpu| cpu.node.is_none());
    let offline = topology.cpus().iter().filter(|cpu| !cpu.online);
    let sets = [
        ("cpus without a node", homeless.map(|cpu| cpu.id).collect()),
        ("cpus offline", offline.map(|cpu| cpu.id).collect()),
        ("cpus isolated", topology.isolated()),
    ];
    for (what, set) in sets.iter().filter(|(_, set)| !set.is_empty()) {
        out.push_str(&format!("{what}: {set}\n"));
    }
}

fn cores(topology: &Topology, node: &Node) -> String {
    match topology.cores_in(&node.cpus) {
        0 => "-".to_owned(),
        cores if cores == node.cpus.len() => cores.to_string(),
        cores => format!("{cores} ({} cpus)", node.cpus.len()),
    }
}

fn packages(topology: &Topology, node: &Node) -> String {
    let mut packages: Vec<u32> = node
        .cpus
        .iter()
        .filter_map(|cpu| topology.cpu(cpu))
        .map(|cpu| cpu.package.0)
        .collect();
    packages.sort_unstable();
    packages.dedup();
    if packages.is_empty() {
        return "-".to_owned();
    }
    let packages: Vec<String> = packages.iter().map(u32::to_string).collect();
    packages.join(",")
}

fn caches(topology: &Topology, out: &mut String) {
    let mut alike: BTreeMap<(u8, CacheKind, u64, usize), usize> = BTreeMap::new();
    for cache in topology.caches() {
        let key = (cache.level, cache.kind, cache.size_bytes, cache.cpus.len());
        *alike.entry(key).or_default() += 1;
    }
    if alike.is_empty() {
        return;
    }
    out.push('\n');
    let rows = alike
        .into_iter()
        .map(|((level, kind, bytes, cpus), count)| {
            vec![
                cache_name(level, kind),
                size(bytes),
                count.to_string(),
                counted(cpus, "cpu"),
            ]
        });
    table(
        &["cache", "size", "count", "shared by"],
        rows.collect(),
        out,
    );
}

fn distances(topology: &Topology, out: &mut String) {
    let distances = topology.distances();
    if distances.count() < 2 {
        return;
    }
    out.push_str(&format!("\ndistances ({})\n", distances.origin()));
    let ids: Vec<String> = topology.nodes().iter().map(|n| n.id.to_string()).collect();
    out.push_str("    ");
    for id in &ids {
        out.push_str(&format!(" {id:>3}"));
    }
    for (from, id) in ids.iter().enumerate() {
        out.push_str(&format!("\n{id:>4}"));
        for value in distances.row(from) {
            out.push_str(&format!(" {value:>3}"));
        }
    }
    out.push('\n');
}

/// What one table is about, and which figure of a link it shows.
type View = (&'static str, fn(&Link) -> Option<Figure>, fn(u64) -> String);

/// The tables of bandwidth and latency alone, as in [`text`]; empty when nothing is known.
#[must_use]
pub fn bandwidth_text(topology: &Topology) -> String {
    let mut out = String::new();
    bandwidth(topology, &mut out);
    out.trim_start().to_owned()
}

/// A table for each kind of figure, a row for the processors of each node.
fn bandwidth(topology: &Topology, out: &mut String) {
    let views: [View; 4] = [
        ("bandwidth, GB/s", |link| link.read_mbps, gigabytes),
        (
            "bandwidth of writes, GB/s",
            |link| link.write_mbps,
            gigabytes,
        ),
        (
            "bandwidth when all nodes use that memory, GB/s each",
            |link| link.loaded_mbps,
            gigabytes,
        ),
        ("latency, ns", |link| link.latency_ns, |ns| ns.to_string()),
    ];
    for view in views {
        matrix(topology, view, out);
    }
}

/// Figures of one kind. Where they come from several sources each that is not the best has its mark.
fn matrix(topology: &Topology, (what, figure, shown): View, out: &mut String) {
    let graph = topology.bandwidth();
    let known = graph.iter().filter_map(|(_, link)| figure(&link));
    let mut origins: Vec<Origin> = known.map(|figure| figure.origin).collect();
    origins.sort_unstable();
    origins.dedup();
    let Some((&best, others)) = origins.split_last() else {
        return;
    };
    let legend: Vec<String> = others
        .iter()
        .map(|&origin| format!("{} {origin}", mark(origin)))
        .collect();
    let legend = [vec![best.to_string()], legend].concat().join(", ");
    out.push_str(&format!("\n{what} ({legend})\n"));
    let ids = || topology.nodes().iter().map(|node| node.id);
    let heads: Vec<String> = ids().map(|id| id.to_string()).collect();
    let mut rows = Vec::new();
    for from in ids() {
        let cells: Vec<Option<Figure>> = ids().map(|to| figure(&graph.link(from, to))).collect();
        if cells.iter().all(Option::is_none) {
            continue; // A node without processors asks nobody.
        }
        let cells = cells.into_iter().map(|cell| match cell {
            Some(Figure { value, origin }) if origin == best => shown(value),
            Some(Figure { value, origin }) => format!("{}{}", shown(value), mark(origin)),
            None => "-".to_owned(),
        });
        rows.push(std::iter::once(format!("{from:>4}")).chain(cells).collect());
    }
    let heads: Vec<&str> = std::iter::once("    ")
        .chain(heads.iter().map(String::as_str))
        .collect();
    table(&heads, rows, out);
}

const fn mark(origin: Origin) -> &'static str {
    match origin {
        Origin::Estimated => "~",
        Origin::Firmware => "*",
        Origin::Measured => "",
    }
}

/// Columns as wide as their widest cell, two spaces between.
fn table(heads: &[&str], rows: Vec<Vec<String>>, out: &mut String) {
    let heads: Vec<String> = heads.iter().map(|&head| head.to_owned()).collect();
    let all: Vec<Vec<String>> = std::iter::once(heads).chain(rows).collect();
    let width = |column: usize| {
        let cells = all.iter().filter_map(|row| row.get(column));
        cells.map(String::len).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..all[0].len()).map(width).collect();
    for row in &all {
        let line: String = row
            .iter()
            .zip(&widths)
            .map(|(cell, width)| format!("{cell:<width$}  "))
            .collect();
        out.push_str(line.trim_end());
        out.push('\n');
    }
}
