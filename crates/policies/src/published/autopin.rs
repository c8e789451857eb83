//! Autopin (Klug and others 2008), as LAPT's paper ran it (section V-D): a list of pinnings, each warmed up for 500 ms
//! and measured for 150 ms; the one with the most instructions per cycle stays for good.

use std::collections::BTreeMap;
use std::time::Duration;

use numad_core::{
    Bind, Policy, Program, Proposal, Published, Reason, Settings, SettingsError, Time,
};
use topology::{CoreId, CpuId, TaskKey};

use super::every;
use crate::history::began;

pub(crate) const PUBLISHED: Published = Published {
    paper: "Autopin (Klug, Ott, Weidendorfer, Trinitis 2008)",
    interval: every(Duration::from_millis(50)),
    bind: Bind::Core,
    takes: &["pinnings", "warm_up_ms", "measure_ms"],
    build,
};

fn build(settings: &Settings, _: u64) -> Result<Box<dyn Policy>, SettingsError> {
    let refused = |reason: String| SettingsError::new("pinnings", reason);
    let text = settings.text("pinnings");
    if text.is_empty() {
        let reason =
            "is empty; name processors by thread, pinnings with `/` between, as in 0,1,2,3/0,2,1,3";
        return Err(refused(reason.to_owned()));
    }
    let pinning = |part: &str| -> Result<Vec<CpuId>, SettingsError> {
        let cpus = part.split(',').map(|cpu| cpu.trim().parse().map(CpuId));
        cpus.collect::<Result<_, _>>()
            .map_err(|error: std::num::ParseIntError| {
                refused(format!("`{part}` is no list of processors: {error}"))
            })
    };
    let millis = |name: &str| Duration::from_millis(settings.integer(name).unsigned_abs());
    Ok(Box::new(Autopin {
        pinnings: text.split('/').map(pinning).collect::<Result<_, _>>()?,
        warm_up: millis("warm_up_ms"),
        measure: millis("measure_ms"),
        ..Autopin::default()
    }))
}

#[derive(Debug, Default)]
struct Autopin {
    /// A processor for each thread, by their numbers; beyond its end it begins again.
    pinnings: Vec<Vec<CpuId>>,
    warm_up: Duration,
    measure: Duration,
    /// Of those that were measured.
    paces: Vec<f64>,
    /// Since when the present one is in effect.
    since: Option<Time>,
    sum: f64,
    length: Duration,
    places: BTreeMap<TaskKey, CoreId>,
}

/// The fastest, the first of equals.
pub(crate) fn fastest(paces: &[f64]) -> usize {
    let faster = |best, at| if paces[at] > paces[best] { at } else { best };
    (0..paces.len()).reduce(faster).unwrap_or(0)
}

impl Policy for Autopin {
    fn propose(&mut self, now: Time, program: &Program<'_>, out: &mut Vec<Proposal>) {
        if self.paces.len() < self.pinnings.len() {
            let since = *self.since.get_or_insert(now);
            if began(now, program.window).0 >= since.after(self.warm_up).0
                && let Some(ipc) = program.ipc
            {
                self.sum += ipc * program.window.as_secs_f64();
                self.length += program.window;
            }
            if self.length >= self.measure && !self.length.is_zero() {
                self.paces.push(self.sum / self.length.as_secs_f64());
                (self.since, self.sum, self.length) = (Some(now), 0.0, Duration::ZERO);
            }
        }
        let at = match self.paces.len() {
            measured if measured < self.pinnings.len() => measured,
            _ => fastest(&self.paces),
        };
        let pinning = &self.pinnings[at];
        self.places.clear();
        for (position, (task, &cpu)) in program.tasks.iter().zip(pinning.iter().cycle()).enumerate()
        {
            let known = program.topology.cpu(cpu);
            let node = program.topology.node_of(cpu);
            let node = node.and_then(|node| program.topology.position(node));
            let (Some(known), Some(node)) = (known, node) else {
                continue;
            };
            self.places.insert(task.key, known.core);
            out.push(Proposal::place_task(position, node, Reason::Order));
        }
    }

    fn core_of(&self, task: TaskKey) -> Option<CoreId> {
        self.places.get(&task).copied()
    }
}
