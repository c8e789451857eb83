//! Explicit messages between processes of a program (OnDeLoc-MPI), in the same matrix as shared memory: ranks by what
//! they send, and the threads within a rank by the memory they share.

use std::collections::BTreeMap;

use topology::Pid;

use super::Seen;
use crate::sample::Sent;
use crate::tables::Seat;

/// Bytes of a line of memory, in which amounts of sharing are counted.
const LINE_BYTES: u64 = 64;

/// Lines that change hands with a message beside what is in it: its head, and the place in the queue.
const LINES_PER_MESSAGE: u64 = 2;

/// Most that two processes are taken to have said in one window: a petabyte. What stands in a row may be anything.
const AMOUNT_MAX: u64 = 1 << 44;
/// Most samples that it stands for.
const SAMPLES_MAX: u64 = 1 << 24;

/// Threads of a process that its messages are shared out to.
const THREADS_MAX: usize = 64;

impl Seen {
    /// What one process of this program sent to another in this window. The `seats` of processes are looked up once for
    /// all that is told together.
    ///
    /// It is known exactly, so it counts as many samples as would have shown as much sharing.
    pub(in crate::engine) fn sent(
        &mut self,
        sent: &Sent,
        seats: &mut BTreeMap<Pid, Vec<(u32, Seat)>>,
        accesses_per_amount: f64,
    ) {
        for pid in [sent.from, sent.to] {
            seats.entry(pid).or_insert_with(|| self.seats_in(pid));
        }
        let (from, to) = (&seats[&sent.from], &seats[&sent.to]);
        if sent.from == sent.to || from.is_empty() || to.is_empty() {
            return;
        }
        let lines = (sent.bytes / LINE_BYTES)
            .saturating_add(sent.messages.saturating_mul(LINES_PER_MESSAGE))
            .min(AMOUNT_MAX);
        let amount = in_amounts(lines, accesses_per_amount);
        let each = in_amounts(1, 1.0 / self.weight_per_sample().max(1.0)).max(1);
        let samples = (amount / each).clamp(1, SAMPLES_MAX);
        // Rounded up, so that few messages are not none.
        let pairs = u64::try_from(from.len() * to.len()).unwrap_or(u64::MAX);
        let share = amount.div_ceil(pairs.max(1)).max(1);
        for &(_, one) in from {
            for &(_, other) in to {
                self.comm.add(one, other, share);
                self.said.add(one, other, samples.div_ceil(pairs));
            }
        }
        for slot in from.iter().chain(to).map(|(slot, _)| *slot) {
            let hot = &mut self.tasks.hot[slot as usize];
            let samples = u32::try_from(samples).unwrap_or(u32::MAX);
            hot.samples = hot.samples.saturating_add(samples);
        }
        self.live.weight = self
            .live
            .weight
            .saturating_add(samples.saturating_mul(each));
        self.window.samples = self.window.samples.saturating_add(samples);
        self.window.kept = self.window.kept.saturating_add(samples);
    }

    /// Slots and seats of the threads of a process that take part, or may.
    fn seats_in(&mut self, pid: Pid) -> Vec<(u32, Seat)> {
        let mut found = Vec::new();
        for slot in self.slots_where(|record| record.pid == pid) {
            let hot = &mut self.tasks.hot[slot as usize];
            if hot.seat.is_none() && hot.may_sit {
                hot.seat = self.seats.take();
            }
            found.extend(hot.seat.map(|seat| (slot, seat)));
            if found.len() == THREADS_MAX {
                break;
            }
        }
        found
    }
}

/// Accesses as amounts of which each stands for so many.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "neither is negative; `as` saturates"
)]
fn in_amounts(accesses: u64, per_amount: f64) -> u64 {
    match per_amount > 0.0 {
        true => (accesses as f64 / per_amount).ceil() as u64,
        false => accesses,
    }
}
