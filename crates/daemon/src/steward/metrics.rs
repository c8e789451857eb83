//! `/metrics`: counters as Prometheus reads them. Sums over all programs alone, so that nobody
//! learns what another's program does.

use std::fmt::Write;

use super::Steward;

/// One figure.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    name: &'static str,
    kind: &'static str,
    help: &'static str,
}

pub(super) const fn counter(name: &'static str, help: &'static str) -> Metric {
    Metric {
        name,
        kind: "counter",
        help,
    }
}

pub(super) const fn gauge(name: &'static str, help: &'static str) -> Metric {
    Metric {
        name,
        kind: "gauge",
        help,
    }
}

/// Connections closed to make room for others.
pub const CONNECTIONS_EVICTED: Metric = counter(
    "numad_connections_evicted_total",
    "Silent connections closed to make room for others.",
);
/// Connections refused.
pub const CONNECTIONS_REFUSED: Metric = counter(
    "numad_connections_refused_total",
    "Connections refused because all seats were taken.",
);

const ATTACHED: Metric = counter("numad_attached_total", "Programs attached.");
const ATTACHES_REFUSED: Metric = counter(
    "numad_attaches_refused_total",
    "Requests to attach that were refused.",
);
const WINDOWS: Metric = counter("numad_windows_total", "Windows judged.");
const SAMPLES: Metric = counter("numad_samples_total", "Samples taken.");
const LOST: Metric = counter("numad_samples_lost_total", "Samples lost.");
const THROTTLED: Metric = counter(
    "numad_sampling_throttled_total",
    "Times the kernel stopped an event since the source was opened.",
);
const INVALID: Metric = counter(
    "numad_samples_invalid_total",
    "Samples that could not be true since the source was opened.",
);
const BUDGET: Metric = gauge(
    "numad_budget_share",
    "Share of the machine's processor time that numad and its samples may take.",
);
const USED: Metric = gauge(
    "numad_budget_used_share",
    "Share of the machine's processor time that numad and its samples took in the last 30 s.",
);
const DROPPED: Metric = counter(
    "numad_proposals_dropped_total",
    "Proposals of policies that were dropped.",
);
const EVENTS_DROPPED: Metric = counter(
    "numad_events_dropped_total",
    "Events of the engine that came too fast to be kept.",
);
const HANDS_OFF: Metric = counter(
    "numad_hands_off_total",
    "Threads left alone because someone else placed them.",
);
const THREAD_MOVES: Metric = counter(
    "numad_thread_moves_total",
    "Times a thread was given another affinity.",
);
const PAGES_MOVED: Metric = counter("numad_pages_moved_total", "Pages moved.");
const REFUSALS: Metric = counter(
    "numad_refusals_total",
    "Threads and pages that were not moved as ordered.",
);
const MOVING: Metric = counter(
    "numad_moving_seconds_total",
    "Processor time in system calls that moved pages.",
);
const RELOADS: Metric = counter("numad_reloads_total", "Times the settings were read again.");
const RELOADS_REFUSED: Metric = counter(
    "numad_reloads_refused_total",
    "Times the settings were refused.",
);
const ATTACHMENTS: Metric = gauge("numad_attachments", "Programs attached now.");
const RECORDINGS: Metric = gauge("numad_recordings", "Recordings being made now.");
const RECORDED: Metric = counter(
    "numad_recorded_samples_total",
    "Samples in recordings that have ended.",
);
const JOURNAL: Metric = gauge("numad_journal_open_rows", "Rows of the journal not undone.");
const CPU: Metric = counter("process_cpu_seconds_total", "Processor time of the daemon.");
const RESIDENT: Metric = gauge(
    "process_resident_memory_bytes",
    "Resident memory of the daemon.",
);

/// Appends a whole number.
pub fn write_metric(text: &mut String, metric: &Metric, value: u64) {
    write(text, metric, format_args!("{value}"));
}

pub(super) fn write_seconds(text: &mut String, metric: &Metric, seconds: f64) {
    write(text, metric, format_args!("{seconds:.6}"));
}

/// Appends a figure for each set of labels; nothing where there are none.
pub(super) fn write_labelled(text: &mut String, metric: &Metric, values: &[(String, f64)]) {
    let Metric { name, kind, help } = metric;
    if values.is_empty() {
        return;
    }
    writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}").expect("a string takes any text");
    for (labels, value) in values {
        writeln!(text, "{name}{{{labels}}} {value:.3}").expect("a string takes any text");
    }
}

fn write(text: &mut String, metric: &Metric, value: std::fmt::Arguments<'_>) {
    let Metric { name, kind, help } = metric;
    writeln!(
        text,
        "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}"
    )
    .expect("a string takes any text");
}

impl Steward {
    /// All figures but the server's own.
    pub fn metrics(&mut self) -> String {
        let mut text = String::new();
        let counters = self.counters;
        let losses = self.source.as_ref().map(|open| open.source.losses());
        let losses = losses.unwrap_or_default();
        for (metric, value) in [
            (ATTACHED, counters.attached),
            (ATTACHES_REFUSED, counters.refused_attaches),
            (WINDOWS, counters.windows),
            (SAMPLES, counters.samples),
            (LOST, counters.lost),
            (THROTTLED, losses.throttled),
            (INVALID, losses.invalid),
            (DROPPED, counters.proposals_dropped),
            (EVENTS_DROPPED, self.engine.events_dropped()),
            (HANDS_OFF, counters.hands_off),
            (THREAD_MOVES, counters.thread_moves),
            (PAGES_MOVED, counters.pages_moved),
            (REFUSALS, counters.refusals),
            (RELOADS, counters.reloads),
            (RELOADS_REFUSED, counters.reloads_refused),
            (
                ATTACHMENTS,
                u64::try_from(self.programs.len()).unwrap_or(u64::MAX),
            ),
            (
                RECORDINGS,
                u64::try_from(self.recordings.len()).unwrap_or(u64::MAX),
            ),
            (RECORDED, counters.recorded),
            (JOURNAL, self.parts.hand.open_rows()),
        ] {
            write_metric(&mut text, &metric, value);
        }
        let usage = self.parts.machine.own_usage();
        let moving = std::time::Duration::from_nanos(counters.moving_ns);
        write_seconds(&mut text, &MOVING, moving.as_secs_f64());
        write_seconds(&mut text, &CPU, usage.cpu_s);
        let budget = self.parts.config.overhead.budget;
        write_seconds(&mut text, &BUDGET, budget);
        write_seconds(&mut text, &USED, self.used().unwrap_or_default());
        write_metric(&mut text, &RESIDENT, usage.resident_bytes);
        self.parts.meters.metrics(&mut text);
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_figure_has_its_three_lines() {
        let mut text = String::new();
        write_metric(&mut text, &WINDOWS, 7);
        assert_eq!(
            text,
            "# HELP numad_windows_total Windows judged.\n# TYPE numad_windows_total counter\n\
             numad_windows_total 7\n"
        );
    }
}
