//! The threads of one program: what every sample needs close together, the rest beside it.

use std::sync::Arc;
use std::time::Duration;

use topology::{CoreId, CpuId, CpuSet, Pid, StartTicks, TaskKey, Tid};

use super::Seat;
use super::spaces::LocalSpace;
use crate::hold::Stay;
use crate::time::Time;

/// Threads of one program that are known at a time; samples of further ones are counted and ignored.
pub(crate) const THREADS_MAX: usize = 8192;

/// What a sample needs of its thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hot {
    pub pid: Pid,
    pub space: LocalSpace,
    /// None while it takes no part, has ended, or no seat is free.
    pub seat: Option<Seat>,
    /// Whether it may take a seat when it has none.
    pub may_sit: bool,
    /// Position of the node that it was on when the window began, plus one; 0 while unknown.
    pub node_plus_one: u16,
    /// Samples in this window.
    pub samples: u32,
    pub ran: Ran,
}

/// The node that a thread was on in most of its samples, if there is such (the vote of Boyer and
/// Moore). Where it is when we look says less: we take the processor of one of them to look.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ran {
    /// As in [`Hot`].
    node_plus_one: u16,
    lead: u32,
}

impl Ran {
    /// One more sample.
    #[inline]
    pub(crate) const fn note(&mut self, node_plus_one: u16) {
        if self.node_plus_one == node_plus_one {
            self.lead += 1;
        } else if self.lead > 0 {
            self.lead -= 1;
        } else {
            (self.node_plus_one, self.lead) = (node_plus_one, 1);
        }
    }

    /// Its position; the window ends, and counts half in the next.
    pub(crate) fn turn_over(&mut self) -> Option<u16> {
        let node = self.node_plus_one.checked_sub(1).filter(|_| self.lead > 0);
        self.lead /= 2;
        node
    }
}

/// What is between a thread and us.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum Bond {
    /// Its affinity is not ours.
    #[default]
    Free,
    /// We bound it.
    Bound(Box<Binding>),
    /// Someone else changed what we had set. There is no way out of this.
    HandsOff,
}

/// An affinity that we set.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Binding {
    /// Position of the node.
    pub node: usize,
    pub cpus: CpuSet,
    /// When bound to one of the node's last-level caches: which, among those that its cores share.
    pub cache: Option<usize>,
    /// When bound to one core.
    pub core: Option<CoreId>,
    /// Whether an observation showed it in force. A dry run's never is.
    pub seen: bool,
}

/// A binding that was ordered and not yet answered.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Order {
    pub binding: Binding,
    /// Position in the program that the policy saw, and its reason: to tell it what became of it.
    pub position: usize,
    pub reason: crate::Reason,
    /// Node it was on.
    pub from: Option<usize>,
}

/// Everything else about a thread.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub tid: Tid,
    pub pid: Pid,
    /// Known once it was observed.
    pub start: Option<StartTicks>,
    pub name: String,
    pub cpu: Option<CpuId>,
    /// Position of the node that it ran on in most samples of the last window that had any.
    pub ran: Option<u16>,
    /// When its first record came.
    pub first_seen: Time,
    /// Position of the node that it was on when the program's memory came to be.
    pub began: Option<u16>,
    /// Windows in which it was taken to be where its memory is.
    pub homed: u8,
    /// Processor time at the beginning of the window, and when that was.
    pub base: Option<(Time, Duration)>,
    /// Processor time when last observed.
    pub cpu_time: Duration,
    pub busy: Option<f64>,
    pub takes_part: bool,
    pub samples_last: u32,
    /// When it ended. Samples of before may still come in.
    pub exited: Option<Time>,
    /// The observation that last showed it; the one before its first sample if none did.
    pub observed: u64,
    /// Its affinity before it was ours. Empty while unknown: all.
    pub original: Arc<CpuSet>,
    /// Whether that was all that its cgroup allowed at the time, so that it limits nothing: without
    /// us such a thread would use whatever its cgroup comes to allow.
    pub unlimited: bool,
    /// Empty while unknown: all.
    pub cgroup: Arc<CpuSet>,
    pub bond: Bond,
    pub order: Option<Box<Order>>,
    pub stay: Stay,
    /// The same among the last-level caches of its node.
    pub stay_within: Stay,
}

impl Record {
    /// Position of the node it is bound or about to be bound to.
    pub(crate) fn placed(&self) -> Option<usize> {
        self.binding().map(|binding| binding.node)
    }

    /// What it is bound or about to be bound to.
    pub(crate) const fn binding(&self) -> Option<&Binding> {
        match (&self.order, &self.bond) {
            (Some(order), _) => Some(&order.binding),
            (None, Bond::Bound(binding)) => Some(binding),
            (None, _) => None,
        }
    }

    pub(crate) fn key(&self) -> Option<TaskKey> {
        self.start.map(|start| TaskKey {
            pid: self.pid,
            tid: self.tid,
            start,
        })
    }
}

/// Threads by slot. A slot is used again as soon as its thread is gone: nothing but the index names it.
#[derive(Debug, Default)]
pub(crate) struct TaskTable {
    pub hot: Vec<Hot>,
    records: Vec<Option<Record>>,
    free: Vec<u32>,
}

impl TaskTable {
    /// Takes a slot; none when there are too many threads.
    pub(crate) fn add(&mut self, hot: Hot, record: Record) -> Option<u32> {
        if let Some(slot) = self.free.pop() {
            let at = slot as usize;
            self.hot[at] = hot;
            self.records[at] = Some(record);
            return Some(slot);
        }
        if self.records.len() >= THREADS_MAX {
            return None;
        }
        self.hot.push(hot);
        self.records.push(Some(record));
        u32::try_from(self.records.len() - 1).ok()
    }

    pub(crate) fn remove(&mut self, slot: u32) -> Option<(Hot, Record)> {
        let record = self.records.get_mut(slot as usize)?.take()?;
        self.free.push(slot);
        Some((self.hot[slot as usize], record))
    }

    pub(crate) fn record(&self, slot: u32) -> Option<&Record> {
        self.records.get(slot as usize)?.as_ref()
    }

    pub(crate) fn record_mut(&mut self, slot: u32) -> Option<&mut Record> {
        self.records.get_mut(slot as usize)?.as_mut()
    }

    /// All threads by ascending slot.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Hot, &Record)> {
        (0..)
            .zip(self.hot.iter().zip(&self.records))
            .filter_map(|(slot, (hot, record))| Some((slot, hot, record.as_ref()?)))
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &mut Hot, &mut Record)> {
        (0..)
            .zip(self.hot.iter_mut().zip(&mut self.records))
            .filter_map(|(slot, (hot, record))| Some((slot, hot, record.as_mut()?)))
    }
}
