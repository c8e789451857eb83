//! `doctor PID`: is it NUMA at all? Looks at a program under the policy `none`, and at what policies would do on paper.

use std::io::{self, Cursor};
use std::path::Path;
use std::time::{Duration, Instant};

use control::rows::{AttachRequest, Attachment, RecordRequest, Status, Target, UndoReport};
use control::{ErrorKind, Failure};
use serde_json::json;
use sim::ReplaySpec;

use crate::cli::{Doctor, Which};
use crate::client::{Client, tape::Over};
use crate::output::Output;
use crate::render::checkup::{self, Checkup};
use crate::render::wrap;
use crate::trial::command::interrupted;
use crate::waiting::Waiting;
use crate::{find, terminal};

/// Policies that do nothing, or nothing for a gain.
const NO_SHADOW: &[&str] = &["none", "linux", "random", "scatter", "packed", "auto"];

/// Between two looks at the daemon's figures.
const LOOK: Duration = Duration::from_millis(500);

/// How much longer than the look the attachment may stay, should numadctl be killed.
const LEASE_MS: u64 = 60_000;

/// Most bytes of the recording; a sample takes some 20.
const RECORDING_MAX: usize = 64 << 20;

pub(super) fn checkup(
    client: &Client,
    pid: u32,
    arguments: Doctor,
    out: &mut Output<'_>,
) -> Result<(), Failure> {
    let status: Status = client.get("/v1/status")?;
    if status.nodes < 2 {
        if !Path::new("/proc").join(pid.to_string()).exists() {
            let text = format!("there is no process `{pid}`");
            return Err(Failure::new(ErrorKind::NotFound, text).remedy("name a process that runs"));
        }
        let only = "this machine has one memory node: all memory is local to every thread, and \
                    there is nothing to place";
        if arguments.plain.json {
            return out.json(&json!({ "pid": pid, "sentences": [only] }));
        }
        return out.text(&(wrap::wrapped(only, terminal::prose()).join("\n") + "\n"));
    }
    let found = find::attachment(client, Which::Pid(pid));
    let own = match found {
        Ok(_) => None,
        Err(_) => Some(attach(client, pid, arguments.for_ms)?),
    };
    let id = match own {
        Some(id) => id,
        None => find::attachment(client, Which::Pid(pid))?,
    };
    let looked = look(client, id, pid, arguments.for_ms);
    if own.is_some() {
        // It may have ended meanwhile.
        drop(client.delete::<UndoReport>(&format!("/v1/attachments/{id}")));
    }
    let mut looked = looked?;
    looked.penalty = penalty()?;
    if arguments.plain.json {
        return out.json(&checkup::value(&looked));
    }
    out.text(&checkup::text(&looked, terminal::prose()))
}

fn attach(client: &Client, pid: u32, for_ms: u64) -> Result<u32, Failure> {
    let request = AttachRequest {
        target: Target::Pids(vec![pid]),
        policy: Some("none".to_owned()),
        set: std::collections::BTreeMap::new(),
        dry_run: true,
        for_ms: Some(for_ms + LEASE_MS),
    };
    let row: Attachment = client.post("/v1/attachments", &request)?;
    Ok(row.id)
}

/// Half of the time at the daemon's figures, half at what it records.
fn look(client: &Client, id: u32, pid: u32, for_ms: u64) -> Result<Checkup, Failure> {
    let mut waiting = Waiting::new(client.runtime())?;
    let half = Duration::from_millis(for_ms / 2);
    let (began, mut windows, mut remote) = (Instant::now(), 0, Vec::new());
    let mut row = row(client, id, pid)?;
    let samples = row.samples;
    while began.elapsed() < half {
        if !waiting.until(Instant::now() + LOOK) {
            return Err(interrupted());
        }
        row = self::row(client, id, pid)?;
        if row.windows > windows {
            windows = row.windows;
            remote.extend(row.local_share.map(|local| 1.0 - local));
        }
    }
    let mut tape = Tape(Vec::new());
    let request = RecordRequest {
        target: Target::Pids(row.pids.clone()),
        for_ms: Some(for_ms / 2),
    };
    let over = client.record(&request, &mut || Ok(()), &mut tape)?;
    if matches!(over, Over::Interrupted) {
        return Err(interrupted());
    }
    let last = self::row(client, id, pid).unwrap_or(row);
    Ok(Checkup {
        command: last.command,
        pid,
        looked_s: began.elapsed().as_secs_f64(),
        samples: last.samples.saturating_sub(samples),
        remote,
        penalty: 1.0,
        shadows: shadows(&tape.0),
    })
}

fn row(client: &Client, id: u32, pid: u32) -> Result<Attachment, Failure> {
    let rows: Vec<Attachment> = client.get("/v1/attachments")?;
    rows.into_iter().find(|row| row.id == id).ok_or_else(|| {
        let text = format!("process `{pid}` ended, or was detached, while it was looked at");
        Failure::new(ErrorKind::NotFound, text)
    })
}

/// What each policy would gain by the recording, largest first.
fn shadows(tape: &[u8]) -> Vec<(String, f64)> {
    let gain = |name: &str| {
        let spec = ReplaySpec {
            name: "what was recorded".to_owned(),
            policy: name.to_owned(),
            settings: Vec::new(),
            machine: None,
            window: None,
        };
        let report = sim::replay(&spec, &mut || Ok(Cursor::new(tape))).ok()?;
        let (replayed, untouched) = report.local_shares?;
        Some((name.to_owned(), replayed - untouched))
    };
    let names = policies::registry().iter().map(|policy| policy.name);
    let mut gains: Vec<(String, f64)> = names
        .filter(|name| !NO_SHADOW.contains(name))
        .filter_map(gain)
        .collect();
    gains.sort_by(|one, other| other.1.total_cmp(&one.1));
    gains
}

/// How many times a local access a remote one costs, as the mean over all pairs of nodes.
fn penalty() -> Result<f64, Failure> {
    let topology = topology::load("this")
        .map_err(|error| Failure::new(ErrorKind::Prerequisite, error.to_string()))?;
    let (distances, nodes) = (topology.distances(), topology.nodes().len());
    let pairs = (0..nodes).flat_map(|from| (0..nodes).map(move |to| (from, to)));
    let remote: Vec<f64> = pairs
        .filter(|(from, to)| from != to)
        .map(|(from, to)| f64::from(distances.between(from, to)) / 10.0)
        .collect();
    match remote.is_empty() {
        true => Ok(1.0),
        false => Ok(remote.iter().sum::<f64>() / remote.len() as f64),
    }
}

/// A recording in memory.
struct Tape(Vec<u8>);

impl io::Write for Tape {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > RECORDING_MAX {
            return Err(io::Error::other("it is too long; look for a shorter time"));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
