//! The features of a file: what perf noted of the machine and the events beside the records.

use super::attr::{Event, NAME_BYTES_MAX};
use super::bytes::Cursor;
use super::events::Events;
use super::machine::{Machine, Node};

/// Largest section that is read. The nodes and processors of a machine with a thousand processors
/// take some 50 KiB, the ids of its events a few hundred.
pub(super) const SECTION_BYTES_MAX: u64 = 8 << 20;
/// Bits in the table of which features there are.
pub(super) const FEATURES: u64 = 256;

const ARCH: u64 = 6;
const EVENT_DESC: u64 = 12;
const CPU_TOPOLOGY: u64 = 13;
const NUMA_TOPOLOGY: u64 = 14;

/// Whether a feature is of use.
pub(super) const fn wanted(feature: u64) -> bool {
    matches!(feature, ARCH | EVENT_DESC | CPU_TOPOLOGY | NUMA_TOPOLOGY)
}

/// Reads a feature; none if it is cut off or cannot be.
pub(super) fn read(
    feature: u64,
    bytes: Cursor<'_>,
    machine: &mut Machine,
    events: &mut Events,
) -> Option<()> {
    match feature {
        ARCH => machine.architecture = arch(bytes)?,
        EVENT_DESC => name_events(bytes, events)?,
        CPU_TOPOLOGY => (machine.packages, machine.cores) = siblings(bytes)?,
        NUMA_TOPOLOGY => machine.nodes = nodes(bytes)?,
        _ => {}
    }
    Some(())
}

/// The name of the architecture; what is not made of the letters of one is none.
fn arch(mut bytes: Cursor<'_>) -> Option<String> {
    let name = bytes.text()?;
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    (name.len() <= 32 && name.chars().all(plain)).then_some(name)
}

/// Number of events, size of an attribute; then of each its attribute, how many ids, name, ids. They
/// stand in the order of the attributes.
fn name_events(mut bytes: Cursor<'_>, events: &mut Events) -> Option<()> {
    let count = bytes.u32()?;
    let attr_bytes = u64::from(bytes.u32()?);
    for position in 0..count {
        bytes.skip(1, attr_bytes)?;
        let ids = bytes.u32()?;
        let name = bytes.text()?;
        events.name_at(usize::try_from(position).ok()?, &short(&name));
        bytes.skip(u64::from(ids), 8)?;
    }
    Some(())
}

/// A name to show.
pub(super) fn short(name: &str) -> String {
    let name = name.trim_end_matches([',', ' ']);
    name[..name.floor_char_boundary(NAME_BYTES_MAX)].to_owned()
}

/// Two lists of texts, each text a list of processors: the packages, the cores.
fn siblings(mut bytes: Cursor<'_>) -> Option<(Vec<String>, Vec<String>)> {
    let packages = texts(&mut bytes)?;
    let cores = texts(&mut bytes)?;
    Some((packages, cores))
}

fn texts(bytes: &mut Cursor<'_>) -> Option<Vec<String>> {
    let count = bytes.u32()?;
    let mut texts = Vec::new();
    for _ in 0..count {
        texts.push(bytes.text()?);
    }
    Some(texts)
}

/// Number of nodes; of each its number, memory in KiB, free memory, processors.
fn nodes(mut bytes: Cursor<'_>) -> Option<Vec<Node>> {
    let count = bytes.u32()?;
    let mut nodes = Vec::new();
    for _ in 0..count {
        let id = bytes.u32()?;
        let memory_bytes = bytes.u64()?.saturating_mul(1024);
        bytes.u64()?;
        nodes.push(Node {
            id,
            memory_bytes,
            cpus: bytes.text()?,
        });
    }
    Some(nodes)
}

/// The name in an update of an event: kind, id, text.
pub(super) fn update(mut bytes: Cursor<'_>, events: &mut Events) -> Option<()> {
    const NAME: u64 = 2;
    if bytes.u64()? == NAME {
        let id = bytes.u64()?;
        let rest = bytes.take(bytes.left())?;
        let name = super::bytes::text(rest, NAME_BYTES_MAX);
        events.name(id, &short(&name));
    }
    Some(())
}

/// What a file calls its clock.
pub(super) fn clock(events: &[Event]) -> String {
    // Numbers of `clock_gettime`, which are the kernel's and the same everywhere.
    match events.first().and_then(|event| event.clock) {
        None => "perf".to_owned(),
        Some(0) => "CLOCK_REALTIME".to_owned(),
        Some(1) => "CLOCK_MONOTONIC".to_owned(),
        Some(4) => "CLOCK_MONOTONIC_RAW".to_owned(),
        Some(7) => "CLOCK_BOOTTIME".to_owned(),
        Some(11) => "CLOCK_TAI".to_owned(),
        Some(other) => format!("clock {other}"),
    }
}
