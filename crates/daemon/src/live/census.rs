//! What the actuator must know of processes, answered from `/proc`.

use actuator::{Census, Moment};
use numad_core::SharedRange;
use procfs::{Presence, ReadError, Reader};
use topology::{CpuSet, Pid, StartTicks, TaskKey, Tid};

use super::sharing;

/// See the module.
#[derive(Debug)]
pub(super) struct LiveCensus {
    reader: Reader,
}

impl LiveCensus {
    pub(super) const fn new(reader: Reader) -> Self {
        Self { reader }
    }
}

/// What cannot be read is not touched, as [`Census`] asks.
fn here<T>(read: Result<Presence<T>, ReadError>) -> Option<T> {
    read.ok().and_then(Presence::here)
}

impl Census for LiveCensus {
    fn process(&self, pid: Pid) -> Option<StartTicks> {
        here(self.reader.process_start(pid))
    }

    fn thread(&self, pid: Pid, tid: Tid) -> Option<StartTicks> {
        here(self.reader.start(pid, tid))
    }

    fn threads(&self, pid: Pid) -> Vec<TaskKey> {
        let threads = here(self.reader.threads(pid)).unwrap_or_default();
        threads.into_iter().map(|thread| thread.key).collect()
    }

    fn allowed(&self, pid: Pid, tid: Tid) -> Option<CpuSet> {
        here(self.reader.allowed(pid, tid))
    }

    fn parent(&self, pid: Pid) -> Option<Pid> {
        here(self.reader.stat(pid)).map(|stat| stat.parent)
    }

    fn processes(&self) -> Vec<(Pid, Pid)> {
        self.reader.parents().unwrap_or_default()
    }

    fn shared(&self, pid: Pid) -> Vec<SharedRange> {
        let maps = here(self.reader.shared_maps(pid)).unwrap_or_default();
        maps.mappings.iter().filter_map(sharing::range).collect()
    }

    /// The latest moment there is when the clock cannot be read, so that every thread counts as older:
    /// none is then taken to have inherited what it may have set itself.
    fn now(&self) -> Moment {
        Moment {
            ticks: self.reader.now().unwrap_or(StartTicks(u64::MAX)),
            newest: self.reader.newest().unwrap_or(Tid(u32::MAX)),
        }
    }
}
