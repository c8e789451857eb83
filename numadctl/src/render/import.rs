//! What `import` answers.

use std::path::Path;
use std::time::Duration;

use sampler::perf_data::Summary;
use serde_json::{Value, json};

use super::units::{bytes, count, nanoseconds, seconds};
use super::wrap::{WIDTH, labelled};

/// What went into the recording, what did not and why, for people.
#[must_use]
pub fn text(summary: &Summary, output: &Path, size_bytes: u64) -> String {
    let span = summary
        .span
        .map(|(first, last)| format!(" over {}", span(last.since(first))))
        .unwrap_or_default();
    let mut text = labelled(
        "samples",
        &format!(
            "{}{span} in `{}`, {}",
            summary.samples,
            output.display(),
            bytes(size_bytes)
        ),
        WIDTH,
    );
    for (name, samples) in summary.events.iter().filter(|(_, samples)| *samples > 0) {
        text.push_str(&labelled(
            "event",
            &format!("`{name}`: {}", count(*samples, "sample")),
            WIDTH,
        ));
    }
    let times = count(summary.lifecycle, "time");
    let lifecycle = format!("seen to come, go or take a name {times}");
    text.push_str(&labelled("threads", &lifecycle, WIDTH));
    let machine = if summary.machine {
        "nodes and processors are in the recording; perf notes no distances"
    } else {
        "not in the file"
    };
    text.push_str(&labelled("machine", machine, WIDTH));
    for line in left_out(summary) {
        text.push_str(&labelled("left out", &line, WIDTH));
    }
    for line in warnings(summary) {
        text.push_str(&labelled("note", &line, WIDTH));
    }
    text
}

fn left_out(summary: &Summary) -> Vec<String> {
    let skipped = summary.skipped;
    [
        (
            skipped.kernel,
            "of the kernel's own memory; `--keep-kernel` keeps them",
        ),
        (
            skipped.unaddressed,
            "without an address; `perf record --data` or `perf mem record` asks for it",
        ),
        (
            skipped.timeless,
            "without a time; `perf record --timestamp` asks for it",
        ),
        (skipped.taskless, "of no process"),
        (skipped.stray, "of events that the file does not describe"),
    ]
    .into_iter()
    .filter(|(samples, _)| *samples > 0)
    .map(|(samples, why)| format!("{} {why}", count(samples, "sample")))
    .collect()
}

fn warnings(summary: &Summary) -> Vec<String> {
    let mut lines = Vec::new();
    if summary.samples == 0 {
        lines.push(
            "without samples nothing can be replayed or profiled; `perf mem record` or `perf record --data` \
             notes their addresses"
                .to_owned(),
        );
    }
    if summary.lost > 0 {
        lines.push(format!("perf lost {}", count(summary.lost, "record")));
    }
    if summary.throttled > 0 {
        lines.push(format!(
            "the kernel held events back {} for coming too often",
            count(summary.throttled, "time")
        ));
    }
    if summary.without_cpu > 0 {
        lines.push(format!(
            "{} counted as of processor 0, for lack of the true one; `perf record --sample-cpu` asks for it",
            count(summary.without_cpu, "sample")
        ));
    }
    if summary.late > 0 {
        lines.push(format!(
            "{} came too late to be put in the order of time",
            count(summary.late, "record")
        ));
    }
    if let Some(offset) = summary.cut_off {
        lines.push(format!(
            "perf was stopped while it wrote: the file ends at offset {offset} in the middle of a record"
        ));
    }
    lines.extend(summary.notes.iter().cloned());
    lines
}

/// To the unit that says something: imports are of milliseconds as well as of hours.
fn span(span: Duration) -> String {
    if span < Duration::from_secs(1) {
        nanoseconds(u64::from(span.subsec_nanos()))
    } else {
        seconds(span.as_secs_f64())
    }
}

/// The same as JSON.
#[must_use]
pub fn value(summary: &Summary, output: &Path, size_bytes: u64) -> Value {
    let skipped = summary.skipped;
    let events: Vec<Value> = summary
        .events
        .iter()
        .map(|(name, samples)| json!({ "name": name, "samples": samples }))
        .collect();
    json!({
        "output": output.display().to_string(),
        "bytes": size_bytes,
        "samples": summary.samples,
        "first_ns": summary.span.map(|(first, _)| first.0),
        "last_ns": summary.span.map(|(_, last)| last.0),
        "events": events,
        "lifecycle": summary.lifecycle,
        "machine": summary.machine,
        "lost": summary.lost,
        "throttled": summary.throttled,
        "without_cpu": summary.without_cpu,
        "late": summary.late,
        "cut_off_at": summary.cut_off,
        "left_out": {
            "kernel": skipped.kernel,
            "unaddressed": skipped.unaddressed,
            "timeless": skipped.timeless,
            "taskless": skipped.taskless,
            "stray": skipped.stray,
        },
        "notes": summary.notes,
    })
}
