//! The machine as a picture: a card per node, and distances and bandwidths as maps of heat.

use picture::Drawing;
use picture::colours::field;

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
    let summary = topology.summary();
    let description = "A card for each node; right of them how far the nodes are from each other, and how much flows \
                       between them, where that is known.";
    let mut out = Drawing::alone(
        pixels((width, height)),
        "Memory nodes of a machine",
        description,
    );
    label(&mut out, (GAP, 26), "font-size=\"16\"", &summary);
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
    out.finish()
}

/// Numbers of pixels are small.
fn pixels((one, other): (usize, usize)) -> (f64, f64) {
    let pixels = |count: usize| u32::try_from(count).map_or(f64::MAX, f64::from);
    (pixels(one), pixels(other))
}

fn rect(out: &mut Drawing, at: (usize, usize), size: (usize, usize), style: &str) {
    out.rect(pixels(at), pixels(size), style);
}

fn label(out: &mut Drawing, at: (usize, usize), style: &str, text: &str) {
    out.text(pixels(at), style, text);
}

fn card(out: &mut Drawing, topology: &Topology, node: &Node, (x, y): (usize, usize)) {
    let memory_only = node.cpus.is_empty();
    let class = if memory_only { "bare" } else { "card" };
    let style = format!("rx=\"6\" class=\"{class}\"");
    rect(out, (x, y), CARD, &style);
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
        "class=\"faint\"",
        &shortened(&node.cpus.to_string()),
    );
    if let Some(cache) = last_level(topology, node) {
        label(out, (x + 110, y + 20), "class=\"faint\"", &cache);
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

fn map(out: &mut Drawing, topology: &Topology, (x, y): (usize, usize)) {
    let distances = topology.distances();
    let title = format!("distances ({})", distances.origin());
    label(out, (x + FIELD, y + 12), "", &title);
    let (left, top) = (x + FIELD, y + FIELD);
    let values = (0..distances.count()).flat_map(|from| distances.row(from));
    let span = values.copied().max().unwrap_or(LOCAL).saturating_sub(LOCAL);
    let centred = "text-anchor=\"middle\"";
    for (index, node) in topology.nodes().iter().enumerate() {
        let middle = index * FIELD + FIELD / 2;
        let name = node.id.to_string();
        label(out, (left + middle, top - 6), centred, &name);
        label(out, (left - 14, top + middle + 4), centred, &name);
        for (to, &distance) in distances.row(index).iter().enumerate() {
            let at = (left + to * FIELD, top + index * FIELD);
            rect(
                out,
                at,
                (FIELD, FIELD),
                &heat(distance.saturating_sub(LOCAL).into(), span.into()),
            );
            let at = (at.0 + FIELD / 2, at.1 + FIELD / 2 + 4);
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
fn bandwidth_map(out: &mut Drawing, topology: &Topology, (x, y): (usize, usize)) {
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
            let at = (left + column * FIELD, top + index * FIELD);
            let style = if figure.origin == told {
                heat(most.saturating_sub(figure.value), most - least)
            } else {
                "class=\"unknown\"".to_owned()
            };
            rect(out, at, (FIELD, FIELD), &style);
            let at = (at.0 + FIELD / 2, at.1 + FIELD / 2 + 4);
            label(out, at, centred, &gigabytes(figure.value));
        }
    }
}

/// From pale at the nearest to red at the farthest; text stays readable on all, so the strongest red is left out.
fn heat(amount: u64, span: u64) -> String {
    field(
        "warm",
        amount.saturating_mul(2).saturating_add(1),
        span.saturating_mul(3).saturating_add(1),
    )
}
