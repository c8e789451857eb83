//! Reads which memory processes map, with bounded patience: the kernel needs the lock of their
//! memory maps for it.

use std::time::Duration;

use actuator::{Asker, Errno, QUESTION, Seen};
use procfs::{Mapping, Presence, ReadError, Reader, SharedMaps};
use sampler::provoke::{Clock, fault_cost};
use topology::Pid;

use crate::clock;

/// The error number of a question that nobody answered in time. Reading `/proc` never ends in it.
pub(super) const UNANSWERED: i32 = Errno::ETIMEDOUT as i32;

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct Maps {
    reader: Reader,
    asker: Asker,
}

impl Maps {
    pub(super) const fn new(reader: Reader, asker: Asker) -> Self {
        Self { reader, asker }
    }

    /// Everything that a process maps.
    pub(super) fn all(&self, pid: Pid) -> Seen<Vec<Mapping>> {
        self.ask(pid, Reader::maps)
    }

    /// What it maps of memory that can be shared.
    pub(super) fn shared(&self, pid: Pid) -> Seen<SharedMaps> {
        self.ask(pid, Reader::shared_maps)
    }

    fn ask<T: Send + 'static>(
        &self,
        pid: Pid,
        read: impl FnOnce(&Reader, Pid) -> Result<Presence<T>, ReadError> + Send + 'static,
    ) -> Seen<T> {
        let reader = self.reader.clone();
        let answer = self.asker.ask(pid, QUESTION, move || read(&reader, pid));
        answer.map_or(Seen::Hidden(UNANSWERED), seen)
    }

    /// The numbers of all processes; none where they cannot be listed.
    pub(super) fn pids(&self) -> Vec<Pid> {
        self.reader.pids().unwrap_or_default()
    }
}

/// The three answers, kept apart.
pub(super) fn seen<T>(read: Result<Presence<T>, ReadError>) -> Seen<T> {
    match read {
        Ok(Presence::Here(value)) => Seen::Here(value),
        Ok(Presence::Gone) => Seen::Gone,
        Err(error) => Seen::Hidden(error.errno()),
    }
}

/// Asks about memory of processes by the user whose they are.
pub(super) fn asker(reader: &Reader) -> Asker {
    let reader = reader.clone();
    Asker::new(Box::new(move |pid| {
        let process = reader.process(pid).ok()?.here()?;
        Some(process.rights.uids.real)
    }))
    .on_slower(times_as_slow())
}

/// How many times as slow as usual this machine is, by what a page fault takes.
fn times_as_slow() -> u32 {
    let clock: Clock = Box::new(clock::monotonic);
    let times = fault_cost(&clock).as_nanos() / USUAL_FAULT.as_nanos();
    u32::try_from(times)
        .unwrap_or(u32::MAX)
        .clamp(1, SLOWER_MAX)
}

/// A first touch of a page, with its part of the kernel's work (`sampler::provoke`).
const USUAL_FAULT: Duration = Duration::from_nanos(1_400);
/// What no machine is, and no clock should make it.
const SLOWER_MAX: u32 = 1_000;
