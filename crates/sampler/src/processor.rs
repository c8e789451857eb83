//! What the sources have in common that are sampled by processors: all but what they are and how they read.

use std::fmt;
use std::os::fd::BorrowedFd;

use numad_core::{Record, Time};
use topology::{CpuSet, Pid};

use crate::live::{Live, Range, Reading};
use crate::open::OpenError;
use crate::rate::RateChange;
use crate::source::{AttachRefused, Drained, Losses, RateStatus, Source, SourceStatus, Spending};

/// A source that does what [`Live`] does.
pub(crate) trait OnProcessors: Send + fmt::Debug {
    /// How its samples are read.
    type Reading: Reading;

    fn live(&self) -> &Live<Self::Reading>;

    fn live_mut(&mut self) -> &mut Live<Self::Reading>;

    /// See [`Source::describe`].
    fn status(&self) -> SourceStatus;

    /// See [`Source::drain`].
    fn read(&mut self, out: &mut dyn FnMut(&Record)) -> Drained {
        self.live_mut().drain(out).drained
    }
}

impl<S: OnProcessors> Source for S {
    fn attach(&mut self, pid: Pid) -> Result<(), AttachRefused> {
        self.live_mut().attach(pid)
    }

    fn detach(&mut self, pid: Pid) {
        self.live_mut().detach(pid);
    }

    fn drain(&mut self, out: &mut dyn FnMut(&Record)) -> Drained {
        self.read(out)
    }

    fn losses(&self) -> Losses {
        self.live().losses()
    }

    fn describe(&self) -> SourceStatus {
        self.status()
    }

    fn wait_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.live().wait_fd())
    }

    fn provoke(&mut self, _now: Time, _enough: u32) -> Option<Time> {
        // Those who joined need nothing done to be seen.
        self.live_mut().take_joined();
        None
    }

    fn refresh(&mut self, online: &CpuSet) -> Vec<OpenError> {
        self.live_mut().refresh(online)
    }

    fn regulate(&mut self, now: Time, spending: &Spending) -> Option<RateChange> {
        self.live_mut().regulate(now, spending)
    }

    fn rate(&self) -> Option<RateStatus> {
        Some(self.live().rate())
    }

    fn set_mappings(&mut self, pid: Pid, ranges: &[Range]) {
        self.live_mut().set_mappings(pid, ranges);
    }

    fn wants_mappings(&self) -> bool {
        self.live().doubts_addresses()
    }
}
