//! Reads which memory processes map, with bounded patience: the kernel needs the lock of their
//! memory maps for it.

use std::collections::BTreeSet;
use std::iter;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use actuator::{Asker, Errno, QUESTION, Seen};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::stat::{fstat, major, minor};
use numad_core::{ObjectId, ObjectKind};
use procfs::{Device, Mapping, Presence, ReadError, Reader, SharedMaps};
use sampler::provoke::{Clock, fault_cost};
use topology::Pid;

use crate::clock;
use crate::subordinate::Subordinates;

/// The error number of a question that nobody answered in time. Reading `/proc` never ends in it.
pub(super) const UNANSWERED: i32 = Errno::ETIMEDOUT as i32;

/// Inodes of devices.
pub(super) type Inodes = BTreeSet<(Device, u64)>;

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct Maps {
    reader: Reader,
    asker: Asker,
    /// Devices that only the kernel gives its own memory.
    kernel: Vec<Device>,
}

impl Maps {
    pub(super) const fn new(reader: Reader, asker: Asker, kernel: Vec<Device>) -> Self {
        Self {
            reader,
            asker,
            kernel,
        }
    }

    /// Everything that a process maps.
    pub(super) fn all(&self, pid: Pid) -> Seen<Vec<Mapping>> {
        self.ask(pid, Reader::maps)
    }

    /// What it maps of memory that can be shared.
    pub(super) fn shared(&self, pid: Pid) -> Seen<SharedMaps> {
        let kernel = self.kernel.clone();
        self.ask(pid, move |reader, pid| reader.shared_maps(pid, &kernel))
    }

    /// Its memory of which someone said where it is to be.
    pub(super) fn chosen(&self, pid: Pid) -> Seen<Vec<Range<u64>>> {
        self.ask(pid, Reader::chosen)
    }

    /// What it maps of some such memory.
    pub(super) fn shared_among(&self, pid: Pid, wanted: &Arc<Inodes>) -> Seen<SharedMaps> {
        let (kernel, wanted) = (self.kernel.clone(), Arc::clone(wanted));
        self.ask(pid, move |reader, pid| {
            reader.shared_maps_among(pid, &kernel, &wanted)
        })
    }

    /// Where mappings of objects show: segments are numbered on any of the kernel's devices.
    pub(super) fn inodes<'a>(&self, objects: impl Iterator<Item = &'a ObjectId>) -> Inodes {
        let places = |object: &ObjectId| {
            let one = [object.device];
            let devices = match object.kind {
                ObjectKind::SystemV => &self.kernel[..],
                ObjectKind::Memory | ObjectKind::File => &one,
            };
            let inode = object.inode;
            let places = devices.iter().map(|device| (*device, inode));
            places.collect::<Vec<_>>()
        };
        objects.flat_map(places).collect()
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

/// Devices of memory without a file, which the kernel mounts for itself alone: of small pages, and
/// of each size of huge pages.
pub(super) fn kernel_devices() -> Vec<Device> {
    // By the power of two; a size that the machine does not have is refused.
    let huge =
        (16..=34).map(|power| MFdFlags::from_bits_retain(power << nix::libc::MFD_HUGE_SHIFT));
    let huge = huge.map(|size| size | MFdFlags::MFD_HUGETLB);
    let device = |kind: MFdFlags| {
        let file = memfd_create(c"numad", kind | MFdFlags::MFD_CLOEXEC).ok()?;
        let device = fstat(&file).ok()?.st_dev;
        let (major, minor) = (major(device), minor(device));
        Some((major.try_into().ok()?, minor.try_into().ok()?))
    };
    iter::once(MFdFlags::empty())
        .chain(huge)
        .filter_map(device)
        .collect()
}

/// The three answers, kept apart.
pub(super) fn seen<T>(read: Result<Presence<T>, ReadError>) -> Seen<T> {
    match read {
        Ok(Presence::Here(value)) => Seen::Here(value),
        Ok(Presence::Gone) => Seen::Gone,
        Err(error) => Seen::Hidden(error.errno()),
    }
}

/// Asks about memory of processes by the user that pays for them.
pub(super) fn asker(reader: &Reader) -> Asker {
    let reader = reader.clone();
    let subordinates = Subordinates::read();
    Asker::new(Box::new(move |pid| {
        let user = reader.user(pid).ok()?.here()?;
        Some(subordinates.payer(user))
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
