//! Numbers of the kernel, and where what they name is kept.

use std::collections::BTreeMap;

use topology::Pid;

use crate::policy::SpaceId;
use crate::tables::index::Index;

/// Threads and processes of all attachments.
#[derive(Debug, Default)]
pub(super) struct Registry {
    /// Slots are those of the attachment's task table.
    pub threads: Index,
    /// Slots are local numbers of address spaces.
    pub processes: Index,
    spaces: BTreeMap<SpaceId, Pid>,
    /// The last number that was given to one.
    last_space: u32,
}

impl Registry {
    /// A number for an address space, never given again.
    pub(super) fn open(&mut self, pid: Pid) -> SpaceId {
        let id = self.open_object();
        self.spaces.insert(id, pid);
        id
    }

    /// A number for an object that processes share, never given again.
    pub(super) const fn open_object(&mut self) -> SpaceId {
        self.last_space += 1;
        SpaceId(self.last_space)
    }

    pub(super) fn shut(&mut self, space: SpaceId) {
        self.spaces.remove(&space);
    }

    pub(super) fn process_of(&self, space: SpaceId) -> Option<Pid> {
        self.spaces.get(&space).copied()
    }
}
