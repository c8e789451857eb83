//! Where pages are.

use std::time::Duration;

use numad_core::Refusal;
use topology::{NodeId, Pid};

use crate::kernel::{Errno, Kernel, QueryCall};
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
    let (mut found, _nobody_beside) = residencies(kernel, &[(pid, pages)], 1);
    found.pop().unwrap_or_else(|| Ok(Vec::new()))
}

/// The same of several lists, asked by so many threads at most, and the processor time of those
/// beside this one.
pub(crate) fn residencies(
    kernel: &mut impl Kernel,
    asked: &[(Pid, &[u64])],
    most: usize,
) -> (Vec<Result<Vec<PageStatus>, Refusal>>, Duration) {
    let absent = -(Errno::ENOENT as i32);
    let statuses = asked.iter().map(|(_, pages)| vec![absent; pages.len()]);
    let mut statuses: Vec<Vec<i32>> = statuses.collect();
    let mut calls = Vec::new();
    for ((pid, pages), statuses) in asked.iter().zip(&mut statuses) {
        let batches = pages.chunks(QUERY_BATCH);
        for (pages, statuses) in batches.zip(statuses.chunks_mut(QUERY_BATCH)) {
            calls.push(QueryCall {
                pid: *pid,
                pages,
                statuses,
                ended: None,
            });
        }
    }
    let beside = kernel.query_side_by_side(&mut calls, most);
    let mut ended = calls.into_iter().map(|call| call.ended.unwrap_or(Ok(())));
    let ended = asked.iter().map(|(_, pages)| {
        let of_one = ended.by_ref().take(pages.len().div_ceil(QUERY_BATCH));
        of_one.fold(Ok(()), Result::and)
    });
    let ended: Vec<Result<(), Errno>> = ended.collect();
    let found = ended.into_iter().zip(statuses).map(|(ended, statuses)| {
        ended.map_err(refusal::of_move)?;
        Ok(statuses.into_iter().map(PageStatus::from_raw).collect())
    });
    (found.collect(), beside)
}

/// Pages asked about in one call. The kernel looks up 16 at a time, each time under the lock of the
/// process's memory map, and holds nothing in between: the size bounds for how long one of several
/// threads is busy when the others are done, and how often one that cannot get the lock waits.
const QUERY_BATCH: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Bench;

    #[test]
    fn each_list_is_answered_by_itself() {
        let bench = Bench::new();
        {
            let mut world = bench.fake.0.borrow_mut();
            world.add_process(100, 1, "0-7");
            world.add_pages(100, 1_000, 1);
        }
        let pages: Vec<u64> = (0..1_100).map(|page| page * 4096).collect();
        let (here, gone) = (Pid(100), Pid(300));
        let asked: [(Pid, &[u64]); 4] = [
            (here, &pages),
            (gone, &pages),
            (here, &[]),
            (here, &pages[..1]),
        ];
        let (found, _) = residencies(&mut bench.fake.clone(), &asked, 8);
        let mut all = vec![PageStatus::On(NodeId(1)); 1_000];
        all.resize(1_100, PageStatus::Absent);
        assert_eq!(
            found,
            [
                Ok(all),
                Err(Refusal::Gone),
                Ok(Vec::new()),
                Ok(vec![PageStatus::On(NodeId(1))])
            ]
        );
        let none = residency(&mut bench.fake.clone(), gone, &pages[..1]);
        assert_eq!(none, Err(Refusal::Gone));
    }
}
