//! What the actuator must know of processes, answered from `/proc`.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::time::{Duration, Instant};

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
    chosen: RefCell<BTreeMap<Pid, Chosen>>,
}

/// Memory of a process of which someone said where it is to be, and until when that counts.
#[derive(Debug)]
struct Chosen {
    ranges: Vec<Range<u64>>,
    until: Instant,
}

/// How long an answer counts at the least.
const CHOSEN_FOR: Duration = Duration::from_secs(1);
/// And at the least so many times as long as it took: half a per cent of the time for asking.
const CHOSEN_RESTS: u32 = 200;

impl LiveCensus {
    pub(super) const fn new(reader: Reader, maps: Maps) -> Self {
        Self {
            reader,
            maps,
            mounts: RefCell::new(Vec::new()),
            chosen: RefCell::new(BTreeMap::new()),
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

    fn whole_affinity(&self, pid: Pid, tid: Tid) -> Seen<CpuSet> {
        seen(self.reader.affinity(pid, tid))
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

    fn chosen(&self, pid: Pid) -> Seen<Vec<Range<u64>>> {
        let mut all = self.chosen.borrow_mut();
        let before = Instant::now();
        all.retain(|_, known| before < known.until);
        if let Some(known) = all.get(&pid) {
            return Seen::Here(known.ranges.clone());
        }
        let ranges = match self.maps.chosen(pid) {
            Seen::Here(ranges) => ranges,
            // No such process, or a kernel that knows of one node.
            Seen::Gone => Vec::new(),
            hidden @ Seen::Hidden(_) => return hidden,
        };
        let now = Instant::now();
        let rest = ((now - before) * CHOSEN_RESTS).max(CHOSEN_FOR);
        let (answer, until) = (ranges.clone(), now + rest);
        all.insert(pid, Chosen { ranges, until });
        Seen::Here(answer)
    }

    fn now(&self) -> Seen<StartTicks> {
        seen(self.reader.now().map(Presence::Here))
    }
}
