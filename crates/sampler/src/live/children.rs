//! New processes, known before any ring is delivered.

use numad_core::{Lifecycle, Record, Time};
use topology::{Pid, Tid};

use super::listener::Listener;
use crate::decode::{Body, Decoded, Layout, TaskRecord, Visitor, stream};
use crate::filter::Filter;

/// New processes, as their forks tell.
#[derive(Clone, Debug, Default)]
pub(super) struct Children {
    forks: Vec<TaskRecord>,
    /// Forks that found no room since this was asked the last time.
    overlooked: u64,
    /// Those handed on ahead of the rings, ascending.
    pub(super) announced: Vec<u32>,
}

impl Visitor for Children {
    #[inline]
    fn record<B: Body>(&mut self, record: &Decoded<'_, B>) {
        if let Decoded::Fork(task) = record
            && task.pid != task.parent_pid
        {
            if self.forks.len() < CHILDREN_MAX {
                self.forks.push(*task);
            } else {
                self.overlooked += 1;
            }
        }
    }
}

impl Children {
    pub(super) fn forget(&mut self) {
        self.forks.clear();
        self.announced.clear();
    }

    pub(super) const fn take_overlooked(&mut self) -> u64 {
        std::mem::replace(&mut self.overlooked, 0)
    }

    /// Takes note of the forks that lie in the rings, which stay unread.
    pub(super) fn gather(&mut self, listeners: &mut [Listener], layout: &Layout) {
        for listener in listeners {
            let unread = listener.events.ring.unread();
            let (first, second) = unread.pieces();
            // Damage is counted when the ring is delivered.
            stream(layout, first, second, self).unwrap_or(());
        }
    }

    /// Follows those whose parents are followed, and theirs, and tells of them before any ring is
    /// delivered; gives how many. Rings are delivered one after the other, and what a new process did
    /// on the first, its own children included, would otherwise be nobody's, for its fork lies in the
    /// last. Its first touches come only once.
    pub(super) fn adopt(&mut self, filter: &mut Filter, out: &mut dyn FnMut(&Record)) -> u64 {
        for _generation in 0..GENERATIONS_MAX {
            let before = self.announced.len();
            for task in &self.forks {
                if filter.adopt(task.pid, task.parent_pid) {
                    self.announced.push(task.pid);
                    out(&fork(task));
                }
            }
            if self.announced.len() == before {
                break;
            }
        }
        self.announced.sort_unstable();
        u64::try_from(self.announced.len()).unwrap_or(u64::MAX)
    }
}

pub(super) fn fork(task: &TaskRecord) -> Record {
    Record::Lifecycle(Lifecycle::Fork {
        time: Time(task.time),
        pid: Pid(task.pid),
        tid: Tid(task.tid),
        parent: Pid(task.parent_pid),
    })
}

/// New processes looked at in one drain; more are followed when their fork is delivered.
pub(super) const CHILDREN_MAX: usize = 4096;

/// Generations of new processes found in one drain, where each lies in a ring before its parent's.
const GENERATIONS_MAX: usize = 8;
