//! A machine as JSON; text and drawing come from the crate `topology` itself.

use serde_json::{Value, json};
use topology::{BandwidthGraph, Cache, CacheKind, Cpu, Figure, Topology};

/// Everything that is known of a machine.
#[must_use]
pub fn value(topology: &Topology) -> Value {
    let distances = topology.distances();
    let rows: Vec<&[u32]> = (0..distances.count())
        .map(|from| distances.row(from))
        .collect();
    let nodes: Vec<Value> = topology
        .nodes()
        .iter()
        .map(|node| {
            json!({
                "id": node.id.0,
                "cpus": node.cpus.to_string(),
                "memory_bytes": node.memory_bytes,
            })
        })
        .collect();
    let notes: Vec<String> = topology.notes().iter().map(ToString::to_string).collect();
    json!({
        "summary": topology.summary(),
        "fingerprint": topology.fingerprint().to_string(),
        "nodes": nodes,
        "cpus": topology.cpus().iter().map(cpu).collect::<Vec<_>>(),
        "caches": topology.caches().iter().map(cache).collect::<Vec<_>>(),
        "distances": { "origin": distances.origin().to_string(), "rows": rows },
        "bandwidth": bandwidth(topology.bandwidth()),
        "notes": notes,
    })
}

fn cpu(cpu: &Cpu) -> Value {
    json!({
        "id": cpu.id.0,
        "online": cpu.online,
        "isolated": cpu.isolated,
        "core": cpu.core.0,
        "package": cpu.package.0,
        "node": cpu.node.map(|node| node.0),
    })
}

fn cache(cache: &Cache) -> Value {
    json!({
        "level": cache.level,
        "kind": match cache.kind {
            CacheKind::Data => "data",
            CacheKind::Instruction => "instruction",
            CacheKind::Unified => "unified",
        },
        "size_bytes": cache.size_bytes,
        "cpus": cache.cpus.to_string(),
    })
}

fn bandwidth(graph: &BandwidthGraph) -> Vec<Value> {
    let figure = |figure: Option<Figure>| {
        figure.map(|figure| json!({ "value": figure.value, "origin": figure.origin.to_string() }))
    };
    graph
        .iter()
        .map(|((from, to), link)| {
            json!({
                "from": from.0,
                "to": to.0,
                "read_mbps": figure(link.read_mbps),
                "write_mbps": figure(link.write_mbps),
                "loaded_mbps": figure(link.loaded_mbps),
                "latency_ns": figure(link.latency_ns),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_told_whole() {
        let value = value(&topology::synthetic::parse("2x2@10,21").unwrap());
        assert_eq!(value["summary"], "2 nodes, 4 cpus, 2 packages, 32 GiB");
        assert_eq!(value["fingerprint"].as_str().map(str::len), Some(16));
        assert_eq!(value["nodes"][1]["cpus"], "2-3");
        assert_eq!(value["distances"]["rows"], json!([[10, 21], [21, 10]]));
        assert_eq!(value["cpus"][3]["node"], 1);
        assert_eq!(value["cpus"].as_array().unwrap().len(), 4);
    }
}
