//! The machine as a picture: a card per node, and distances and bandwidths as maps of heat.

use std::fmt::Write as _;

use crate::distance::{LOCAL, Origin};
use crate::machine::{Node, Topology};

use super::{cache_name, counted, gigabytes, size};

/// Width and height of a node's card, and the space around it, in pixels.
const CARD: (usize, usize) = (230, 86);
const GAP: usize = 16;
/// Side of a field of the map.
const FIELD: usize = 34;
/// Longer lists of processors are cut; the text form has them whole.
const LIST_CHARS_MAX: usize = 30;

/// A self-contained picture: no script, no font, no reference to anything outside.
#[must_use]
pub fn svg(topology: &Topology) -> String {
    let count = topology.nodes().len();
    let columns = (1..=8).find(|side| side * side >= count).unwrap_or(8);
    let cards_width = columns * (CARD.0 + GAP) + GAP;
    let cards_height = count.div_ceil(columns) * (CARD.1 + GAP);
    let map_side = (count + 2) * FIELD;
    let has_bandwidth = bandwidths(topology).is_some();
    let maps = if has_bandwidth { 2 } else { 1 };
    let width = cards_width + map_side + GAP;
    let height = (cards_height + GAP).max(maps * (map_side + FIELD)) + 40;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         width=\"{width}\" height=\"{height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n"
    );
    label(&mut out, (GAP, 26), "font-size=\"16\"", &topology.summary());
    for (index, node) in topology.nodes().iter().enumerate() {
        let x = GAP + index % columns * (CARD.0 + GAP);
        let y = 40 + index / columns * (CARD.1 + GAP);
        card(&mut out, topology, node, (x, y));
    }
    if count > 1 {
        map(&mut out, topology, (cards_width, 40));
    }
    if has_bandwidth {
        bandwidth_map(&mut out, topology, (cards_width, 40 + map_side + FIELD));
    }
    out.push_str("</svg>\n");
    out
}

fn card(out: &mut String, topology: &Topology, node: &Node, (x, y): (usize, usize)) {
    let memory_only = node.cpus.is_empty();
    let fill = if memory_only { "#eef3ea" } else { "#e8eef7" };
    rect(
        out,
        (x, y),
        CARD,
        &format!("rx=\"6\" fill=\"{fill}\" stroke=\"#556677\""),
    );
    let line = |row: usize| (x + 10, y + 20 + row * 18);
    let title = format!("node {}", node.id);
    label(out, line(0), "font-weight=\"bold\"", &title);
    label(
        out,
        line(1),
        "",
        &format!("memory {}", size(node.memory_bytes)),
    );
    if memory_only {
        label(out, line(2), "", "no processors");
        return;
    }
    let cores = topology.cores_in(&node.cpus);
    let counts = format!(
        "{} on {}",
        counted(node.cpus.len(), "cpu"),
        counted(cores, "core")
    );
    label(out, line(2), "", &counts);
    label(
        out,
        line(3),
        "fill=\"#445566\"",
        &shortened(&node.cpus.to_string()),
    );
    if let Some(cache) = last_level(topology, node) {
        label(out, (x + 110, y + 20), "fill=\"#445566\"", &cache);
    }
}

/// The outermost cache of a node, as in `2 x L3 16 MiB`.
fn last_level(topology: &Topology, node: &Node) -> Option<String> {
    let inside = || {
        let caches = topology.caches().iter();
        caches.filter(|cache| cache.cpus.intersects(&node.cpus))
    };
    let last = inside().max_by_key(|cache| cache.level)?;
    let count = inside().filter(|cache| cache.level == last.level).count();
    let name = cache_name(last.level, last.kind);
    Some(format!("{count} x {name} {}", size(last.size_bytes)))
}

fn shortened(list: &str) -> String {
    if list.len() <= LIST_CHARS_MAX {
        return list.to_owned();
    }
    let kept: String = list.chars().take(LIST_CHARS_MAX).collect();
    format!("{kept}…")
}

fn map(out: &mut String, topology: &Topology, (x, y): (usize, usize)) {
    let distances = topology.distances();
    let title = format!("distances ({})", distances.origin());
    label(out, (x + FIELD, y + 12), "", &title);
    let (left, top) = (x + FIELD, y + FIELD);
    let values = (0..distances.count()).flat_map(|from| distances.row(from));
    let most = values.copied().max().unwrap_or(LOCAL);
    let centred = "text-anchor=\"middle\"";
    for (index, node) in topology.nodes().iter().enumerate() {
        let middle = index * FIELD + FIELD / 2;
        let name = node.id.to_string();
        label(out, (left + middle, top - 6), centred, &name);
        label(out, (left - 14, top + middle + 4), centred, &name);
        for (to, &distance) in distances.row(index).iter().enumerate() {
            let field = (left + to * FIELD, top + index * FIELD);
            let fill = format!("fill=\"{}\" stroke=\"#ffffff\"", colour(distance, most));
            rect(out, field, (FIELD, FIELD), &fill);
            let at = (field.0 + FIELD / 2, field.1 + FIELD / 2 + 4);
            label(out, at, centred, &distance.to_string());
        }
    }
}

/// The least and the most bandwidth that is known, and who told of the best known.
fn bandwidths(topology: &Topology) -> Option<(u64, u64, Origin)> {
    let links = || topology.bandwidth().iter();
    let figures = || links().filter_map(|(_, link)| link.read_mbps);
    let values = || figures().map(|figure| figure.value);
    let origin = figures().map(|figure| figure.origin).max()?;
    Some((values().min()?, values().max()?, origin))
}

/// Bandwidth of each pair in GB/s; the less, the redder. A pair that nobody told of stays empty, one
/// of another origin than the title says is grey.
fn bandwidth_map(out: &mut String, topology: &Topology, (x, y): (usize, usize)) {
    let Some((least, most, told)) = bandwidths(topology) else {
        return;
    };
    let title = format!("bandwidth, GB/s ({told})");
    label(out, (x + FIELD, y + 12), "", &title);
    let (left, top) = (x + FIELD, y + FIELD);
    let centred = "text-anchor=\"middle\"";
    for (index, node) in topology.nodes().iter().enumerate() {
        let middle = index * FIELD + FIELD / 2;
        let name = node.id.to_string();
        label(out, (left + middle, top - 6), centred, &name);
        label(out, (left - 14, top + middle + 4), centred, &name);
        for (column, to) in topology.nodes().iter().enumerate() {
            let Some(figure) = topology.bandwidth().link(node.id, to.id).read_mbps else {
                continue;
            };
            let field = (left + column * FIELD, top + index * FIELD);
            let span = (most - least).max(1);
            let heat = most.saturating_sub(figure.value).saturating_mul(150) / span;
            let fill = if figure.origin == told {
                format!("#f2{:02x}{:02x}", 242 - heat.min(150), 232 - heat.min(150))
            } else {
                "#dddddd".to_owned()
            };
            let style = format!("fill=\"{fill}\" stroke=\"#ffffff\"");
            rect(out, field, (FIELD, FIELD), &style);
            let at = (field.0 + FIELD / 2, field.1 + FIELD / 2 + 4);
            label(out, at, centred, &gigabytes(figure.value));
        }
    }
}

/// From pale at local to red at the farthest; black text stays readable on all.
fn colour(distance: u32, most: u32) -> String {
    let span = most.saturating_sub(LOCAL).max(1);
    let heat = distance.saturating_sub(LOCAL).min(span) * 150 / span;
    format!("#f2{:02x}{:02x}", 242 - heat, 232 - heat)
}

fn rect(out: &mut String, at: (usize, usize), size: (usize, usize), style: &str) {
    let written = writeln!(
        out,
        "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" {style}/>",
        at.0, at.1, size.0, size.1
    );
    debug_assert!(written.is_ok(), "a String takes every write");
}

fn label(out: &mut String, at: (usize, usize), style: &str, text: &str) {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    let written = writeln!(
        out,
        "<text x=\"{}\" y=\"{}\" {style}>{text}</text>",
        at.0, at.1
    );
    debug_assert!(written.is_ok(), "a String takes every write");
}
