//! The machine as XML that [`crate::xml`] reads back as the same machine.

use std::fmt::Write as _;

use crate::distance::Origin;
use crate::machine::{CacheKind, Cpu, Topology};
use crate::set::CpuSet;
use crate::xml::objects::{INFO_ISOLATED, INFO_OFFLINE};

/// The machine as a text in hwloc's format 2, for [`crate::load_text`] and `numadctl topo`.
///
/// What is read back is equal but for notes, for figures that no firmware told, and for distances that
/// were believed only because nodes claim the same processors. Processors that are
/// offline or isolated stand in `info` elements of our own. The objects are a flat list, which our
/// reader takes and hwloc's library does not.
#[must_use]
pub fn xml(topology: &Topology) -> String {
    let mut text = String::from("<topology version=\"2.0\">\n");
    let put = |text: &mut String, line: std::fmt::Arguments<'_>| {
        text.write_fmt(line)
            .expect("writing to a string does not fail");
        text.push('\n');
    };
    let all: CpuSet = topology.cpus().iter().map(|cpu| cpu.id).collect();
    put(
        &mut text,
        format_args!("<object type=\"Machine\" cpuset=\"{}\">", mask(&all)),
    );
    let offline = all.difference(&topology.online());
    for (name, set) in [
        (INFO_OFFLINE, offline),
        (INFO_ISOLATED, topology.isolated()),
    ] {
        if !set.is_empty() {
            put(
                &mut text,
                format_args!("<info name=\"{name}\" value=\"{set}\"/>"),
            );
        }
    }
    for node in topology.nodes() {
        put(
            &mut text,
            format_args!(
                "<object type=\"NUMANode\" os_index=\"{0}\" gp_index=\"{0}\" cpuset=\"{1}\" \
                 local_memory=\"{2}\"/>",
                node.id,
                mask(&node.cpus),
                node.memory_bytes
            ),
        );
    }
    for (kind, key) in [
        ("Package", (|cpu: &Cpu| cpu.package.0) as fn(&Cpu) -> u32),
        ("Core", |cpu| cpu.core.0),
    ] {
        for set in groups(topology, key) {
            put(
                &mut text,
                format_args!("<object type=\"{kind}\" cpuset=\"{}\"/>", mask(&set)),
            );
        }
    }
    for cpu in topology.cpus() {
        let line = format_args!("<object type=\"PU\" os_index=\"{}\"/>", cpu.id);
        put(&mut text, line);
    }
    push_caches(&mut text, topology);
    text.push_str("</object>\n");
    push_distances(&mut text, topology);
    push_figures(&mut text, topology);
    text.push_str("</topology>\n");
    text
}

fn push_caches(text: &mut String, topology: &Topology) {
    for cache in topology.caches() {
        let kind = match cache.kind {
            CacheKind::Unified => 0,
            CacheKind::Data => 1,
            CacheKind::Instruction => 2,
        };
        let (level, size) = (cache.level, cache.size_bytes);
        text.push_str(&format!(
            "<object type=\"L{level}Cache\" depth=\"{level}\" cache_type=\"{kind}\" \
             cache_size=\"{size}\" cpuset=\"{}\"/>\n",
            mask(&cache.cpus)
        ));
    }
}

fn push_distances(text: &mut String, topology: &Topology) {
    let distances = topology.distances();
    if distances.origin() != Origin::Firmware {
        if distances.count() == 1 {
            // Without a word of it, the distance of one node counts as told.
            text.push_str(
                "<distances2 type=\"NUMANode\" nbobjs=\"0\" kind=\"5\" indexing=\"os\"/>\n",
            );
        }
        return;
    }
    let count = topology.nodes().len();
    let indexes: Vec<String> = topology
        .nodes()
        .iter()
        .map(|node| node.id.to_string())
        .collect();
    text.push_str(&format!(
        "<distances2 type=\"NUMANode\" nbobjs=\"{count}\" kind=\"5\" name=\"NUMALatency\" \
         indexing=\"os\">\n<indexes>{}</indexes>\n",
        indexes.join(" ")
    ));
    for from in 0..count {
        let row: Vec<String> = distances.row(from).iter().map(u32::to_string).collect();
        text.push_str(&format!("<u64values>{}</u64values>\n", row.join(" ")));
    }
    text.push_str("</distances2>\n");
}

/// What firmware told of bandwidth and latency.
fn push_figures(text: &mut String, topology: &Topology) {
    let figures = ["ReadBandwidth", "WriteBandwidth", "Latency"];
    for (at, name) in figures.iter().enumerate() {
        let mut values = String::new();
        for ((from, to), link) in topology.bandwidth().iter() {
            let figure = [link.read_mbps, link.write_mbps, link.latency_ns][at];
            let Some(figure) = figure.filter(|figure| figure.origin == Origin::Firmware) else {
                continue;
            };
            let Some(initiator) = topology.node(from) else {
                continue;
            };
            values.push_str(&format!(
                "<memattr_value target_obj_gp_index=\"{to}\" value=\"{}\" \
                 initiator_cpuset=\"{}\"/>\n",
                figure.value,
                mask(&initiator.cpus)
            ));
        }
        if !values.is_empty() {
            text.push_str(&format!("<memattr name=\"{name}\">\n{values}</memattr>\n"));
        }
    }
}

/// The processors of each group, in the order of its number.
fn groups(topology: &Topology, number: fn(&Cpu) -> u32) -> Vec<CpuSet> {
    let mut groups = std::collections::BTreeMap::<u32, CpuSet>::new();
    for cpu in topology.cpus() {
        groups.entry(number(cpu)).or_default().insert(cpu.id);
    }
    groups.into_values().collect()
}

/// hwloc's form of a set: groups of 32 bits, highest first.
fn mask(set: &CpuSet) -> String {
    let words = set.words().iter();
    let halves: Vec<u64> = words
        .flat_map(|word| [word & 0xffff_ffff, word >> 32])
        .collect();
    let used = halves.iter().rposition(|&half| half > 0).unwrap_or(0);
    let groups = halves.iter().take(used + 1).rev();
    let groups: Vec<String> = groups.map(|half| format!("0x{half:08x}")).collect();
    groups.join(",")
}
