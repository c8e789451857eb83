//! Explicit messages between processes of a program (OnDeLoc-MPI), in the same matrix as shared memory: ranks by what
//! they send, and the threads within a rank by the memory they share.

use std::collections::BTreeMap;

use topology::Pid;

use super::Seen;
use crate::cost::Prices;
use crate::sample::Sent;
use crate::tables::Seat;
use crate::tables::talk::PAIRS_MAX;
use crate::time::Time;

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

/// What the two that sent each other most said in a window is at least as much as so many samples, or of a source with
/// few samples it would not be told from the others.
const LOUDEST_MIN: f64 = 32.0;

/// What processes sent each other since messages were counted last.
#[derive(Debug, Default)]
pub(super) struct Messages {
    /// Lines by pair of processes, the lower number first.
    lines: BTreeMap<(Pid, Pid), u64>,
    /// Lines that stand for one sample of this window, once some were counted.
    lines_each: Option<f64>,
    /// Pairs that there was no room for.
    pub dropped: u64,
}

impl Messages {
    /// Begins a window.
    pub(super) fn begin(&mut self) {
        self.lines_each = None;
        self.dropped = 0;
    }
}

impl Seen {
    /// What one process of this program sent to another.
    pub(in crate::engine) fn sent(&mut self, sent: &Sent) {
        let pair = (sent.from.min(sent.to), sent.from.max(sent.to));
        let messages = &mut self.messages;
        if messages.lines.len() >= PAIRS_MAX && !messages.lines.contains_key(&pair) {
            messages.dropped += 1;
            return;
        }
        let lines = (sent.bytes / LINE_BYTES)
            .saturating_add(sent.messages.saturating_mul(LINES_PER_MESSAGE));
        let sum = messages.lines.entry(pair).or_default();
        *sum = sum.saturating_add(lines).min(AMOUNT_MAX);
    }

    /// Counts what was sent. It is known exactly, so it counts as many samples as would have shown as much sharing.
    ///
    /// A page fault shows that a page is used, not how often. So it is by the faults of the window that it is known how
    /// many accesses each of them stands for, and with them, how much lines that were sent are beside it.
    pub(in crate::engine) fn count_messages(&mut self, now: Time, prices: &Prices) {
        let sent = std::mem::take(&mut self.messages.lines);
        let Some(&loudest) = sent.values().max() else {
            return;
        };
        let lines_each = match self.messages.lines_each {
            Some(each) => each,
            None => self.lines_each(now, prices, loudest as f64),
        };
        self.messages.lines_each = Some(lines_each);
        let mut seats = BTreeMap::new();
        for (&(one, other), &lines) in &sent {
            for pid in [one, other] {
                seats.entry(pid).or_insert_with(|| self.seats_in(pid));
            }
            self.said_by(&seats[&one], &seats[&other], in_amounts(lines, lines_each));
        }
    }

    /// Lines for each sample: as many as each stands for, but few enough that pairs can be told apart.
    fn lines_each(&self, now: Time, prices: &Prices, loudest: f64) -> f64 {
        let take_part = self.threads();
        let take_part = take_part.filter(|(record, sampled)| record.takes_part || *sampled);
        let busy: f64 = take_part
            .map(|(record, _)| record.busy.unwrap_or(1.0))
            .sum();
        let busy_s = busy * now.since(self.live.since).as_secs_f64();
        let samples = self.samples_to_judge() as f64 * self.sizes.mean;
        let stands_for = prices.of_window(busy_s, samples).accesses_per_amount;
        (loudest / LOUDEST_MIN)
            .min(stands_for)
            .max(prices.accesses_per_amount)
    }

    /// Shares out among the threads of two processes what they said to each other.
    fn said_by(&mut self, from: &[(u32, Seat)], to: &[(u32, Seat)], amount: u64) {
        if from.is_empty() || to.is_empty() {
            return;
        }
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
