//! Numbers of the kernel, and where what they name is kept.

use crate::policy::SpaceId;
use crate::tables::index::Index;

/// Threads and processes of all attachments.
#[derive(Debug, Default)]
pub(super) struct Registry {
    /// Slots are those of the attachment's task table.
    pub threads: Index,
    /// Slots are local numbers of address spaces.
    pub processes: Index,
    /// The last number that was given to an address space.
    last_space: u32,
}

impl Registry {
    /// A number for an address space, or for an object that processes share, never given again.
    pub(super) const fn open(&mut self) -> SpaceId {
        self.last_space += 1;
        SpaceId(self.last_space)
    }
}
