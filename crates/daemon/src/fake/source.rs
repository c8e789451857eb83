//! What the fake machine has to tell of its processes.

use numad_core::{Record, Time};
use sampler::{AttachRefused, Coverage, Covers, Drained, Losses, Source, SourceStatus};
use topology::Pid;

use super::World;

/// See the module.
#[derive(Debug)]
pub(super) struct FakeSource(World);

impl FakeSource {
    pub(super) const fn new(world: World) -> Self {
        Self(world)
    }
}

impl Drop for FakeSource {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.source_open = false;
        state.followed.clear();
    }
}

impl Source for FakeSource {
    fn attach(&mut self, pid: Pid) -> Result<(), AttachRefused> {
        let mut state = self.0.state();
        let limit = state.follow_max.unwrap_or(usize::MAX);
        if state.followed.len() >= limit {
            return Err(AttachRefused { pid, limit });
        }
        state.followed.insert(pid);
        state.detached.remove(&pid);
        Ok(())
    }

    fn detach(&mut self, pid: Pid) {
        let mut state = self.0.state();
        state.followed.remove(&pid);
        state.detached.insert(pid);
    }

    fn drain(&mut self, out: &mut dyn FnMut(&Record)) -> Drained {
        let (records, fill_permille) = {
            let mut state = self.0.state();
            let late = std::mem::take(&mut state.during_drain).into();
            (
                std::mem::replace(&mut state.records, late),
                state.fill_permille,
            )
        };
        records.iter().for_each(out);
        Drained {
            records: u64::try_from(records.len()).unwrap(),
            fill_permille,
            ..Drained::default()
        }
    }

    fn losses(&self) -> Losses {
        Losses::default()
    }

    fn counts_accesses(&self) -> bool {
        false
    }

    fn provoke(&mut self, now: Time, _enough: u32) -> Option<Time> {
        let mut state = self.0.state();
        let every = state.provokes_every?;
        let unread = state.records.len();
        state.unread.push(unread);
        Some(now.after(every))
    }

    fn stirred(&mut self, _now: Time, pid: Pid) {
        self.0.state().stirred.push(pid);
    }

    fn regulate(
        &mut self,
        _now: Time,
        spending: &sampler::Spending,
    ) -> Option<sampler::RateChange> {
        self.0.state().told.push(*spending);
        None
    }

    fn describe(&self) -> SourceStatus {
        SourceStatus {
            name: "faults",
            provocation: "made up",
            coverage: Coverage {
                loads: Covers::Yes,
                stores: Covers::Yes,
                latency: Covers::No("made up"),
                levels: Covers::No("made up"),
                physical: Covers::No("made up"),
            },
            notes: Vec::new(),
            cpus: 4,
            ring_bytes: 0,
        }
    }
}
