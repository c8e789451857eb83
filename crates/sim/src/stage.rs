//! What the engine runs against: a world, or a recording. One driver runs both.

use std::collections::BTreeMap;
use std::time::Duration;

use numad_core::{
    Action, AttachmentId, Host, NodeTraffic, Observation, ObservedProgram, Outcome, PageKey,
    Progress, Record, Time,
};
use topology::{CpuSet, NodeId, Pid, TaskKey, Topology};

use crate::fault::Fault;
use crate::world::{Totals, World, whole};

/// A machine as an oracle sees it.
pub(crate) trait View {
    /// The machine.
    fn topology(&self) -> &Topology;
    /// Time since the beginning.
    fn elapsed(&self) -> Duration;
    /// Masks of threads that live; none where nobody set one.
    fn masks(&self) -> Vec<(TaskKey, Option<CpuSet>)>;
    /// Processors that any program may use.
    fn allowed(&self) -> CpuSet;
}

/// A machine that an engine is run against.
pub(crate) trait Stage: View + Host {
    /// What its clock shows.
    fn now(&self) -> Time;

    /// Lets time pass and appends what a source delivers meanwhile; false when it is over.
    fn step(&mut self, records: &mut Vec<Record>) -> bool;

    /// What is true of these programs.
    fn observe(&mut self, asked: Vec<Asked>) -> Observation;

    /// The node that each thread that lives is on, where it is on one.
    fn nodes(&self) -> BTreeMap<TaskKey, Option<NodeId>>;

    /// How a program got on since this was asked the last time.
    fn measure(&mut self, program: usize) -> Figures;

    /// Something of a program is worth looking at sooner.
    fn stir(&mut self, _program: usize) {}

    /// Whether nothing but the engine changes anything, so that what was ordered can be found.
    fn is_calm(&self) -> bool;
}

/// A program to look at.
#[derive(Debug)]
pub(crate) struct Asked {
    /// Its number with the engine.
    pub(crate) attachment: AttachmentId,
    /// Its position among the programs.
    pub(crate) program: usize,
    /// Pages whose home is wanted, each with its process.
    pub(crate) pages: Vec<(PageKey, Pid)>,
}

/// How a program got on.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Figures {
    /// Part of its accesses that was local.
    pub(crate) local_share: Option<f64>,
    /// The same had nothing been changed.
    pub(crate) untouched_share: Option<f64>,
    /// Work done, as part of what an idle machine with everything local would have done.
    pub(crate) speed: Option<f64>,
}

impl View for World {
    fn topology(&self) -> &Topology {
        self.topology()
    }

    fn elapsed(&self) -> Duration {
        self.elapsed()
    }

    fn masks(&self) -> Vec<(TaskKey, Option<CpuSet>)> {
        self.placement().masks
    }

    fn allowed(&self) -> CpuSet {
        if self.cgroup_cpus().is_empty() {
            self.online().clone()
        } else {
            self.online().intersection(self.cgroup_cpus())
        }
    }
}

/// A world that runs for a while.
#[derive(Debug)]
pub(crate) struct Simulation {
    pub(crate) world: World,
    duration: Duration,
    threads: usize,
    pids: Vec<Pid>,
    /// What each program had done when it was measured, and when that was.
    readings: Vec<(Totals, Duration)>,
    counters: Option<Counters>,
}

/// What the counters of the machine said the last time.
#[derive(Debug, Default)]
struct Counters {
    at: Duration,
    controller_bytes: Vec<f64>,
    /// What the threads of each program did when it was observed, by position.
    progress: Vec<Progress>,
}

impl Simulation {
    pub(crate) fn new(world: World, threads: usize, duration: Duration) -> Self {
        let pids = world.pids();
        Self {
            readings: vec![(world.totals().clone(), Duration::ZERO); pids.len()],
            pids,
            threads,
            duration,
            world,
            counters: None,
        }
    }

    /// The same, with observations that say how far programs got and what memory carries, or without.
    pub(crate) fn counted(mut self, counts: bool) -> Self {
        let progress = vec![Progress::default(); self.pids.len()];
        self.counters = counts.then(|| Counters {
            progress,
            ..Counters::default()
        });
        self
    }

    /// What counters would say, if the machine has any.
    fn count(&mut self, asked: &[Asked]) -> (Vec<NodeTraffic>, Vec<(AttachmentId, Progress)>) {
        let Some(counters) = &mut self.counters else {
            return (Vec::new(), Vec::new());
        };
        let elapsed = self.world.elapsed();
        let span = (elapsed - counters.at).as_secs_f64();
        counters.at = elapsed;
        let now = self.world.totals().controller_bytes.clone();
        counters.controller_bytes.resize(now.len(), 0.0);
        let nodes = self.world.topology().nodes().iter();
        let bytes = now.iter().zip(&counters.controller_bytes);
        let traffic = nodes.zip(bytes).map(|(node, (now, before))| NodeTraffic {
            node: node.id,
            read_bytes_per_s: whole((now - before) / span.max(1e-9)),
            written_bytes_per_s: 0,
        });
        let traffic = traffic.collect();
        counters.controller_bytes = now;
        let mut progress = Vec::new();
        for asked in asked {
            let now = self.world.progress(self.pids[asked.program]);
            let before = std::mem::replace(&mut counters.progress[asked.program], now);
            let since = Progress {
                instructions: now.instructions.saturating_sub(before.instructions),
                cycles: now.cycles.saturating_sub(before.cycles),
            };
            progress.push((asked.attachment, since));
        }
        (traffic, progress)
    }

    /// The process of each program.
    pub(crate) fn programs(&self) -> Vec<Vec<Pid>> {
        self.pids.iter().map(|&pid| vec![pid]).collect()
    }

    /// Puts everything back; whether everything is where it would be had the engine never been. Nobody
    /// sets masks in a world but the engine and rivals; whose masks stay is the rivals' business, and pages
    /// that the kernel moves by itself are the kernel's.
    pub(crate) fn undo(&mut self) -> bool {
        self.world.undo();
        let masks = self.world.masks();
        let rivals = self.world.faults().has(Fault::Rival);
        let masks = rivals || masks.iter().all(|(_, mask)| mask.is_none());
        masks && (self.world.balances() || self.world.is_as_touched())
    }
}

impl View for Simulation {
    fn topology(&self) -> &Topology {
        self.world.topology()
    }

    fn elapsed(&self) -> Duration {
        self.world.elapsed()
    }

    fn masks(&self) -> Vec<(TaskKey, Option<CpuSet>)> {
        self.world.masks()
    }

    fn allowed(&self) -> CpuSet {
        self.world.allowed()
    }
}

impl Host for Simulation {
    fn perform(&mut self, action: &Action) -> Outcome {
        self.world.perform(action)
    }

    fn perform_all(&mut self, actions: &[Action]) -> Vec<Outcome> {
        self.world.perform_all(actions)
    }
}

impl Stage for Simulation {
    fn now(&self) -> Time {
        self.world.now()
    }

    fn step(&mut self, records: &mut Vec<Record>) -> bool {
        if self.world.elapsed() >= self.duration {
            return false;
        }
        self.world.step(records);
        true
    }

    fn stir(&mut self, program: usize) {
        self.world.stir(self.pids[program]);
    }

    fn observe(&mut self, asked: Vec<Asked>) -> Observation {
        let (traffic, progress) = self.count(&asked);
        let look = |asked: Asked| -> ObservedProgram {
            let homes = asked.pages.into_iter().map(|(key, pid)| {
                let address = key.page.saturating_mul(crate::world::PAGE_BYTES);
                (key, self.world.home(pid, address))
            });
            let homes = homes.collect();
            let pid = self.pids[asked.program];
            self.world.observe(asked.attachment, pid, homes)
        };
        Observation {
            programs: asked.into_iter().map(look).collect(),
            free_bytes: self.world.free_memory(),
            online: self.world.online().clone(),
            lost: 0,
            traffic,
            progress,
            kernel_balances: self.world.balances(),
        }
    }

    fn nodes(&self) -> BTreeMap<TaskKey, Option<NodeId>> {
        let keys = self.world.thread_keys().into_iter();
        keys.zip(self.world.thread_nodes())
            .filter_map(|(key, node)| Some((key?, node)))
            .collect()
    }

    fn measure(&mut self, program: usize) -> Figures {
        let elapsed = self.world.elapsed();
        let (reading, at) = &mut self.readings[program];
        let done = self.world.totals().since(reading);
        let ideal = (elapsed - *at).as_nanos() as f64 * self.threads as f64;
        *reading = self.world.totals().clone();
        *at = elapsed;
        let speed = if ideal > 0.0 {
            done.work() / ideal
        } else {
            0.0
        };
        Figures {
            local_share: Some(done.local_share()),
            untouched_share: None,
            speed: Some(speed),
        }
    }

    fn is_calm(&self) -> bool {
        let faults = self.world.faults();
        let disturbed = [Fault::Vanish, Fault::Refuse, Fault::Offline, Fault::Rival];
        !disturbed.iter().any(|&fault| faults.has(fault))
    }
}
