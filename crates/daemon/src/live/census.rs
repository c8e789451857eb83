//! What the actuator must know of processes, answered from `/proc`.

use std::cell::RefCell;

use actuator::{Census, Seen};
use numad_core::SharedRange;
use procfs::cgroup::Mount;
use procfs::{Presence, Reader};
use topology::{CpuSet, Pid, StartTicks, Tid};

use super::maps::{Maps, seen};
use super::sharing;

/// See the module.
#[derive(Debug)]
pub(super) struct LiveCensus {
    reader: Reader,
    maps: Maps,
    /// Where control groups are mounted, as far as known.
    mounts: RefCell<Vec<Mount>>,
}

impl LiveCensus {
    pub(super) const fn new(reader: Reader, maps: Maps) -> Self {
        Self {
            reader,
            maps,
            mounts: RefCell::new(Vec::new()),
        }
    }
}

impl Census for LiveCensus {
    fn process(&self, pid: Pid) -> Seen<StartTicks> {
        seen(self.reader.process_start(pid))
    }

    fn thread(&self, pid: Pid, tid: Tid) -> Seen<StartTicks> {
        seen(self.reader.start(pid, tid))
    }

    fn threads(&self, pid: Pid) -> Seen<Vec<Tid>> {
        seen(self.reader.tids(pid))
    }

    fn allowed(&self, pid: Pid, tid: Tid) -> Seen<CpuSet> {
        let mounts = &mut self.mounts.borrow_mut();
        seen(self.reader.allowed(mounts, pid, tid))
    }

    fn parent(&self, pid: Pid) -> Seen<Pid> {
        seen(
            self.reader
                .stat(pid)
                .map(|stat| stat.map(|stat| stat.parent)),
        )
    }

    fn processes(&self) -> Seen<Vec<(Pid, Pid)>> {
        seen(self.reader.parents().map(Presence::Here))
    }

    fn shared(&self, pid: Pid) -> Seen<Vec<SharedRange>> {
        match self.maps.shared(pid) {
            Seen::Here(maps) => {
                Seen::Here(sharing::ranges(&maps).map(|(range, _)| range).collect())
            }
            Seen::Gone => Seen::Gone,
            Seen::Hidden(errno) => Seen::Hidden(errno),
        }
    }

    fn now(&self) -> Seen<StartTicks> {
        seen(self.reader.now().map(Presence::Here))
    }
}
