//! What counters say, in lines for `status` and `explain`.

use control::rows::{Counts, MemoryRow, Status};

use super::units::seconds;

/// One line for each node, link and meter that is counted; nothing where none is.
#[must_use]
pub fn machine(status: &Status) -> String {
    let mut text = String::new();
    for row in &status.memory {
        if let Some(flows) = flows(row) {
            text.push_str(&format!("memory   {}: {flows}{}\n", nodes(row), waits(row)));
        }
    }
    for row in &status.links {
        let (link, package, sent) = (&row.link, row.package, rate(row.sent));
        text.push_str(&format!(
            "link     {link} of package {package}: {sent} sent\n"
        ));
    }
    for row in &status.power {
        let whose = match row.domain.as_str() {
            "memory" => "memory of package",
            _ => "package",
        };
        text.push_str(&format!(
            "power    {whose} {}: {:.1} W\n",
            row.package, row.watts
        ));
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
        parts.push(format!("{faults} page faults"));
    }
    if let Some(switches) = counts.switches {
        parts.push(format!("{switches} context switches"));
    }
    if !parts.is_empty() && counts.coverage < 0.995 {
        parts.push(format!(
            "counted {:.0} % of the time",
            counts.coverage * 100.0
        ));
    }
    (!parts.is_empty()).then(|| parts.join(", "))
}
