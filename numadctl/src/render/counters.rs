//! What counters say, in lines for `status` and `explain`.

use control::rows::{Counts, MemoryRow, Status};

use super::units::{count, seconds};
use super::wrap::labelled;

/// One line for each node, link and meter that is counted; nothing where none is.
#[must_use]
pub fn machine(status: &Status, width: usize) -> String {
    let mut text = String::new();
    for row in &status.memory {
        if let Some(flows) = flows(row) {
            let flows = format!("{}: {flows}{}", nodes(row), waits(row));
            text.push_str(&labelled("memory", &flows, width));
        }
    }
    for row in &status.links {
        let (link, package, sent) = (&row.link, row.package, rate(row.sent));
        let sent = format!("{link} of package {package}: {sent} sent");
        text.push_str(&labelled("link", &sent, width));
    }
    for row in &status.power {
        let whose = match row.domain.as_str() {
            "memory" => "memory of package",
            _ => "package",
        };
        let watts = format!("{whose} {}: {:.1} W", row.package, row.watts);
        text.push_str(&labelled("power", &watts, width));
    }
    text
}

fn nodes(row: &MemoryRow) -> String {
    let numbers: Vec<String> = row.nodes.iter().map(u32::to_string).collect();
    let noun = if numbers.len() > 1 { "nodes" } else { "node" };
    format!("{noun} {}", numbers.join(","))
}

fn flows(row: &MemoryRow) -> Option<String> {
    let told =
        |value: Option<f64>, what: &str| value.map(|value| format!("{} {what}", rate(value)));
    let flows = [
        told(row.read, "read"),
        told(row.written, "written"),
        told(row.both, "read and written"),
    ];
    let flows: Vec<String> = flows.into_iter().flatten().collect();
    (!flows.is_empty()).then(|| flows.join(", "))
}

fn waits(row: &MemoryRow) -> String {
    match row.read_wait_clocks {
        Some(clocks) => format!("; reads wait {clocks:.0} clocks"),
        None => String::new(),
    }
}

fn rate(bytes_per_s: f64) -> String {
    format!("{:.1} GB/s", bytes_per_s / 1e9)
}

/// What a program did, in one line; none where nothing of it is counted.
#[must_use]
pub fn program(counts: &Counts) -> Option<String> {
    let mut parts = Vec::new();
    if let Some(ipc) = counts.ipc {
        parts.push(format!("IPC {ipc:.2}"));
    }
    if let Some(cpu_s) = counts.cpu_s {
        parts.push(format!("{} of processor time", seconds(cpu_s)));
    }
    if let Some(faults) = counts.faults {
        parts.push(count(faults, "page fault"));
    }
    if let Some(switches) = counts.switches {
        parts.push(count(switches, "context switch"));
    }
    if !parts.is_empty() && counts.coverage < 0.995 {
        parts.push(format!(
            "counted {:.0} % of the time",
            counts.coverage * 100.0
        ));
    }
    (!parts.is_empty()).then(|| parts.join(", "))
}
