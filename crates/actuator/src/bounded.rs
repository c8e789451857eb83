//! The kernel that runs this process, asked about memory with [`Asker`].

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use numad_core::Reach;
use topology::{CpuSet, NodeId, Pid, Tid};

use crate::asker::{Asker, MOVE, QUESTION};
use crate::kernel::{
    Errno, Kernel, Linux, Mask, MoveCall, QueryCall, side_by_side, thread_processor_time,
};
use crate::refusal::UNANSWERED;

/// As [`Linux`], but calls that need the lock of a process's memory map are given up when they take
/// too long: their pages were not tried then, as far as is known, and may move yet. The journal has
/// them, and nothing more is asked of the process, nor undone in it, before the call has come back. Who was
/// slow is left alone for a time, but by undo.
#[derive(Clone, Debug)]
pub struct Bounded {
    linux: Linux,
    asker: Asker,
}

impl Bounded {
    /// With this asker, which others may share.
    #[must_use]
    pub const fn new(asker: Asker) -> Self {
        Self {
            linux: Linux,
            asker,
        }
    }

    /// Where pages are, as of [`Kernel::query_pages`].
    fn query(&self, pid: Pid, pages: &[u64], statuses: &mut [i32]) -> Result<(), Errno> {
        let (asked, mut found) = (pages.to_vec(), statuses.to_vec());
        let question = move || {
            let ended = Linux.query_pages(pid, &asked, &mut found);
            (ended, found)
        };
        let answer = self.asker.ask(pid, QUESTION, question);
        let (ended, found) = answer.map_err(|_given_up| UNANSWERED)?;
        statuses.copy_from_slice(&found);
        ended
    }

    /// Moves pages, and says which processor time that took, as of [`Kernel::move_pages`].
    fn send(
        &self,
        pid: Pid,
        pages: &[u64],
        to: (NodeId, Reach),
        statuses: &mut [i32],
    ) -> (Result<(), Errno>, Duration) {
        let (asked, mut found) = (pages.to_vec(), statuses.to_vec());
        let move_them = move || {
            let before = thread_processor_time();
            let ended = Linux.move_pages(pid, &asked, to, &mut found);
            let spent = thread_processor_time().saturating_sub(before);
            (ended, found, spent)
        };
        match self.asker.ask(pid, MOVE, move_them) {
            Ok((ended, found, spent)) => {
                statuses.copy_from_slice(&found);
                (ended, spent)
            }
            Err(_given_up) => (Err(UNANSWERED), Duration::ZERO),
        }
    }
}

impl Kernel for Bounded {
    type Hold = OwnedFd;

    fn hold(&mut self, pid: Pid) -> Result<Option<OwnedFd>, Errno> {
        self.linux.hold(pid)
    }

    fn has(&mut self, held: &OwnedFd, pid: Pid, tid: Tid) -> Result<bool, Errno> {
        self.linux.has(held, pid, tid)
    }

    fn rest(&mut self) {
        self.linux.rest();
    }

    fn insist(&mut self, insists: bool) {
        self.asker.insist(insists);
    }

    fn affinity(&mut self, tid: Tid) -> Result<CpuSet, Errno> {
        self.linux.affinity(tid)
    }

    fn set_affinity(&mut self, tid: Tid, mask: Mask<'_>) -> Result<(), Errno> {
        self.linux.set_affinity(tid, mask)
    }

    fn query_pages(&mut self, pid: Pid, pages: &[u64], statuses: &mut [i32]) -> Result<(), Errno> {
        self.query(pid, pages, statuses)
    }

    fn of_files(&mut self, pid: Pid, pages: &[u64]) -> Vec<Option<bool>> {
        let asked = pages.to_vec();
        let question = move || Linux.of_files(pid, &asked);
        let answer = self.asker.ask(pid, QUESTION, question);
        answer.unwrap_or_else(|_given_up| vec![None; pages.len()])
    }

    fn query_side_by_side(&mut self, calls: &mut [QueryCall<'_>], most: usize) -> Duration {
        side_by_side(calls, most, |call| {
            call.ended = Some(self.query(call.pid, call.pages, call.statuses));
        })
    }

    fn move_pages(
        &mut self,
        pid: Pid,
        pages: &[u64],
        to: (NodeId, Reach),
        statuses: &mut [i32],
    ) -> Result<(), Errno> {
        self.send(pid, pages, to, statuses).0
    }

    fn move_side_by_side(&mut self, calls: &mut [MoveCall<'_>], movers: usize) -> Duration {
        side_by_side(calls, movers, |call| {
            let began = Instant::now();
            let (ended, spent) = self.send(call.pid, call.pages, call.to, call.statuses);
            call.ended = Some(ended);
            call.took = began.elapsed();
            call.spent = spent;
        })
    }

    fn balancing(&mut self) -> Result<u32, Errno> {
        self.linux.balancing()
    }

    fn set_balancing(&mut self, mode: u32) -> Result<(), Errno> {
        self.linux.set_balancing(mode)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use numad_core::Refusal;

    use super::*;
    use crate::residency::residency;

    #[test]
    fn nothing_is_asked_of_a_process_in_which_a_thread_hangs() {
        let asker = Asker::new(Box::new(|_| Some(7)));
        let mut kernel = Bounded::new(asker.clone());
        let own = Pid(std::process::id());
        let here = 1_u8;
        let page = [&raw const here as u64 & !0xfff];
        let before = residency(&mut kernel, own, &page);
        if before == Err(Refusal::NotPermitted) {
            println!("skipped: not even our own pages may be asked for here");
            return;
        }
        assert!(before.is_ok(), "{before:?}");
        let (release, held) = channel::<()>();
        asker.ask(own, QUESTION, move || held.recv()).unwrap_err();
        let began = Instant::now();
        let asked = residency(&mut kernel, own, &page);
        assert_eq!(asked, Err(Refusal::Unanswered));
        let mut statuses = [0];
        let to = (NodeId(0), Reach::Alone);
        let moved = kernel.move_pages(own, &page, to, &mut statuses);
        assert_eq!(moved, Err(UNANSWERED));
        assert!(began.elapsed() < Duration::from_secs(1));
        // Others are asked as before: who is not there is gone.
        let gone = residency(&mut kernel, Pid(i32::MAX.unsigned_abs()), &page);
        assert_eq!(gone, Err(Refusal::Gone));
        drop(release);
    }
}
