//! Where pages are.

use numad_core::Refusal;
use topology::{NodeId, Pid};

use crate::kernel::{Errno, Kernel};
use crate::refusal;

/// Where one page is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageStatus {
    /// On this node.
    On(NodeId),
    /// Not in memory: never touched, given back, or swapped out.
    Absent,
    /// The kernel does not tell, by error number.
    Unknown(i32),
}

impl PageStatus {
    /// The node, where there is one.
    #[must_use]
    pub const fn node(self) -> Option<NodeId> {
        match self {
            Self::On(node) => Some(node),
            Self::Absent | Self::Unknown(_) => None,
        }
    }

    /// Understands a status of `move_pages`.
    pub(crate) fn from_raw(status: i32) -> Self {
        match u32::try_from(status) {
            Ok(node) => Self::On(NodeId(node)),
            Err(_) if status == -(Errno::ENOENT as i32) || status == -(Errno::EFAULT as i32) => {
                Self::Absent
            }
            Err(_) => Self::Unknown(status.saturating_neg()),
        }
    }
}

/// Where pages of a process are: one answer for each address, in order. Changes nothing.
///
/// # Errors
/// Why nothing is told at all: the process is gone, or we may not look.
pub fn residency(
    kernel: &mut impl Kernel,
    pid: Pid,
    pages: &[u64],
) -> Result<Vec<PageStatus>, Refusal> {
    let mut answers = Vec::with_capacity(pages.len());
    let mut statuses = [0; QUERY_BATCH];
    for batch in pages.chunks(QUERY_BATCH) {
        let statuses = &mut statuses[..batch.len()];
        statuses.fill(-(Errno::ENOENT as i32));
        kernel
            .query_pages(pid, batch, statuses)
            .map_err(refusal::of_move)?;
        answers.extend(statuses.iter().map(|&status| PageStatus::from_raw(status)));
    }
    Ok(answers)
}

/// Pages asked about in one call. The kernel looks up 16 at a time and holds nothing in between, so
/// the size bounds only the buffer on our stack.
const QUERY_BATCH: usize = 512;
