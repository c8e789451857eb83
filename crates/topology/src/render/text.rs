//! The machine as a text for a terminal.

use std::collections::BTreeMap;

use crate::bandwidth::Figure;
use crate::machine::{CacheKind, Node, Topology};

use super::{cache_name, counted, size};

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

fn bandwidth(topology: &Topology, out: &mut String) {
    if topology.bandwidth().is_empty() {
        return;
    }
    out.push('\n');
    let rows = topology.bandwidth().iter().map(|((from, to), link)| {
        vec![
            from.to_string(),
            to.to_string(),
            figure(link.read_mbps, "MB/s"),
            figure(link.write_mbps, "MB/s"),
            figure(link.latency_ns, "ns"),
        ]
    });
    let heads = ["cpus of", "memory of", "read", "write", "latency"];
    table(&heads, rows.collect(), out);
}

fn figure(figure: Option<Figure>, unit: &str) -> String {
    match figure {
        Some(Figure { value, origin }) => format!("{value} {unit} ({origin})"),
        None => "-".to_owned(),
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
