//! Explicit messages between processes of a program (OnDeLoc-MPI), in the same matrix as shared memory: ranks by what
//! they send, and the threads within a rank by the memory they share.

use std::collections::BTreeMap;

use topology::Pid;

use super::Seen;
use crate::cost::Prices;
use crate::figures::whole;
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

/// Each two threads of the two processes that sent each other most share at least as much as so
/// many samples show, or by a source with few samples these would not be told from the others.
const LOUDEST_MIN: f64 = 8.0;

/// What processes sent each other since the live tables began.
#[derive(Debug, Default)]
pub(super) struct Messages {
    /// By pair of processes, the lower number first.
    pub sent: BTreeMap<(Pid, Pid), Lines>,
    /// Whether some of that is not counted yet.
    is_news: bool,
    /// Whether any was ever sent that was counted: so all are.
    pub are_counted: bool,
    /// Pairs that there was no room for.
    pub dropped: u64,
}

/// Lines that two processes sent each other, and the amount that each two of their threads were
/// given for them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lines {
    sent: u64,
    counted: u64,
}

impl Seen {
    /// What one process of this program sent to another.
    pub(in crate::engine) fn sent(&mut self, sent: &Sent) {
        let pair = (sent.from.min(sent.to), sent.from.max(sent.to));
        let messages = &mut self.messages;
        if messages.sent.len() >= PAIRS_MAX && !messages.sent.contains_key(&pair) {
            messages.dropped += 1;
            return;
        }
        let lines = (sent.bytes / LINE_BYTES)
            .saturating_add(sent.messages.saturating_mul(LINES_PER_MESSAGE));
        let sum = &mut messages.sent.entry(pair).or_default().sent;
        *sum = sum.saturating_add(lines).min(AMOUNT_MAX);
        messages.is_news = true;
        messages.are_counted = true;
    }

    /// Counts what was sent. It is known exactly, so it counts as many samples as would have shown
    /// as much sharing.
    ///
    /// A page fault shows that a page is used, not how often. So it is by the faults of the window
    /// that it is known how many accesses each of them stands for, and with them, how much lines
    /// that were sent are beside it.
    pub(in crate::engine) fn count_messages(&mut self, now: Time, prices: &Prices) {
        if !std::mem::take(&mut self.messages.is_news) {
            return;
        }
        let mut sent = std::mem::take(&mut self.messages.sent);
        let mut slots: BTreeMap<Pid, Vec<u32>> = BTreeMap::new();
        for (slot, hot, _) in self.tasks.iter() {
            slots.entry(hot.pid).or_default().push(slot);
        }
        let mut seats = BTreeMap::new();
        for &(one, other) in sent.keys() {
            for pid in [one, other] {
                let slots = slots.get(&pid).map(Vec::as_slice).unwrap_or_default();
                seats.entry(pid).or_insert_with(|| self.seats_in(slots));
            }
        }
        let pairs = |(one, other): &(Pid, Pid)| (seats[one].len() * seats[other].len()) as f64;
        let each = |(pair, lines): (&(Pid, Pid), &Lines)| lines.sent as f64 / pairs(pair).max(1.0);
        let loudest = sent.iter().map(each).fold(0.0, f64::max);
        let lines_each = (loudest / LOUDEST_MIN)
            .min(self.stands_for(now, prices))
            .max(prices.accesses_per_amount);
        for (pair, lines) in &mut sent {
            // Rounded up, so that few messages are not none.
            let amount = in_amounts(lines.sent, pairs(pair).max(1.0) * lines_each).max(1);
            let more = amount.saturating_sub(lines.counted);
            lines.counted += more;
            self.said_by(&seats[&pair.0], &seats[&pair.1], more);
        }
        self.messages.sent = sent;
    }

    /// How many accesses a sample of this window stands for.
    fn stands_for(&self, now: Time, prices: &Prices) -> f64 {
        let take_part = self.threads();
        let take_part = take_part.filter(|(record, sampled)| record.takes_part || *sampled);
        let busy: f64 = take_part
            .map(|(record, _)| record.busy.unwrap_or(1.0))
            .sum();
        let busy_s = busy * now.since(self.live.since).as_secs_f64();
        let samples = self.samples_to_judge() as f64 * self.sizes.mean;
        prices.of_window(busy_s, samples).accesses_per_amount
    }

    /// Each two threads of two processes said so much more to each other.
    fn said_by(&mut self, from: &[(u32, Seat)], to: &[(u32, Seat)], amount: u64) {
        if from.is_empty() || to.is_empty() || amount == 0 {
            return;
        }
        let each = in_amounts(1, 1.0 / self.weight_per_sample().max(1.0)).max(1);
        let samples = (amount / each).clamp(1, SAMPLES_MAX);
        for &(_, one) in from {
            for &(_, other) in to {
                self.comm.add(one, other, amount);
                self.said.add(one, other, samples);
            }
        }
        for (these, others) in [(from, to), (to, from)] {
            for &(slot, _) in these {
                let hot = &mut self.tasks.hot[slot as usize];
                let samples = samples.saturating_mul(others.len() as u64);
                let samples = u32::try_from(samples).unwrap_or(u32::MAX);
                hot.samples = hot.samples.saturating_add(samples);
            }
        }
        let samples = samples.saturating_mul((from.len() * to.len()) as u64);
        self.live.weight = self
            .live
            .weight
            .saturating_add(samples.saturating_mul(each));
        self.window.samples = self.window.samples.saturating_add(samples);
        self.window.kept = self.window.kept.saturating_add(samples);
    }

    /// Of a process's threads those that take part, or may, with their seats.
    fn seats_in(&mut self, slots: &[u32]) -> Vec<(u32, Seat)> {
        let mut found = Vec::new();
        for &slot in slots {
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
fn in_amounts(accesses: u64, per_amount: f64) -> u64 {
    match per_amount > 0.0 {
        true => whole((accesses as f64 / per_amount).ceil()),
        false => accesses,
    }
}
