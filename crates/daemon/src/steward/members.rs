//! Who a program is: the processes that were named, those that joined, and when each began.
//!
//! The engine says who takes part now, since it sees forks and ends as they are recorded. This says which process is
//! meant by a number: looks, counters, messages and undo ask here, so that none of them takes a stranger for a member.

use std::collections::{BTreeMap, BTreeSet};

use numad_core::ObservedTask;
use topology::{Pid, StartTicks};

use super::seams::Named;

/// See the module.
#[derive(Debug)]
pub(super) struct Members {
    /// In the order in which they were named.
    named: Vec<Pid>,
    /// Of those named, for good; of others while they live.
    starts: BTreeMap<Pid, StartTicks>,
}

impl Members {
    /// Of processes that were named.
    pub(super) fn new(starts: BTreeMap<Pid, StartTicks>) -> Self {
        Self {
            named: starts.keys().copied().collect(),
            starts,
        }
    }

    /// Processes that were named.
    pub(super) fn named(&self) -> &[Pid] {
        &self.named
    }

    /// Whether it is known when a process of it began.
    pub(super) fn knows(&self, pid: Pid) -> bool {
        self.starts.contains_key(&pid)
    }

    /// A process that began then was taken in beside those that were named.
    pub(super) fn name_too(&mut self, pid: Pid, start: StartTicks) {
        self.named.push(pid);
        self.starts.insert(pid, start);
    }

    /// A process joined that began then.
    pub(super) fn join(&mut self, pid: Pid, start: StartTicks) {
        self.starts.insert(pid, start);
    }

    /// A process takes no further part.
    pub(super) fn part(&mut self, pid: Pid) {
        self.named.retain(|named| *named != pid);
        self.starts.remove(&pid);
    }

    /// Learns when processes began that joined on their own, and forgets those that are not among these threads: their
    /// numbers may come back. Those that were named stay, so that a stranger never takes their place.
    pub(super) fn keep(&mut self, tasks: &[ObservedTask]) {
        let alive: BTreeSet<Pid> = tasks.iter().map(|task| task.key.pid).collect();
        let named = &self.named;
        self.starts
            .retain(|pid, _| alive.contains(pid) || named.contains(pid));
        let first = |task: &&ObservedTask| task.key.tid.0 == task.key.pid.0;
        for task in tasks.iter().filter(first) {
            self.starts.entry(task.key.pid).or_insert(task.key.start);
        }
    }

    /// These of its processes, each with its start where that is known.
    pub(super) fn of(&self, pids: &[Pid]) -> Vec<(Pid, Option<StartTicks>)> {
        pids.iter()
            .map(|pid| (*pid, self.starts.get(pid).copied()))
            .collect()
    }

    /// Every process that is or was part of it, those included that take part now, to put them back.
    pub(super) fn everyone(&self, now: &[Pid]) -> Named {
        let named = self.named.iter().chain(now);
        let unknown = named.map(|pid| (*pid, None));
        let known = self.starts.iter().map(|(pid, start)| (*pid, Some(*start)));
        // Later ones win.
        unknown.chain(known).collect()
    }
}
