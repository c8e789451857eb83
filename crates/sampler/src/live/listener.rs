//! The events of one processor, read.

mod traced;

use super::delivery::{Delivery, Mix, Reading, Until, time_of};
use crate::decode::{Body, Decoded, Layout, Visitor, stream};
use crate::open::{CpuEvents, Kernel};

use traced::Tracer;

/// One processor's events and their ring.
#[derive(Debug)]
pub(super) struct Listener {
    pub(super) events: CpuEvents,
    /// Losses told by records in the ring, and in total handed on.
    lost_in_ring: u64,
    lost_handed_on: u64,
    /// What the ring held when it was read the last time.
    mix: Mix,
    /// Read once more, then closed.
    pub(super) retiring: bool,
    /// Its successor has everything from this time on; none if there is no successor.
    pub(super) until: Option<u64>,
    /// Whether anything came since the last refresh.
    pub(super) heard: bool,
    /// The first event's times at the last check.
    times: Option<(u64, u64)>,
    /// How much longer it was enabled than it ran, in per mille.
    pub(super) scale_permille: u64,
    /// Samples taken since the law of rates was last told.
    taken: u64,
    /// Drains in a row that found the ring more than half full.
    pub(super) full_streak: u32,
    /// Of events whose hardware writes a trace by itself.
    tracer: Option<Box<Tracer>>,
    /// Whether the ring may have refused a record since it was read the last time.
    was_full: bool,
}

impl Listener {
    pub(super) fn new(events: CpuEvents) -> Self {
        Self {
            tracer: events.ring.trace_bytes().map(|_bytes| Box::default()),
            events,
            lost_in_ring: 0,
            lost_handed_on: 0,
            mix: Mix::default(),
            retiring: false,
            until: None,
            heard: false,
            times: None,
            scale_permille: 1000,
            taken: 0,
            full_streak: 0,
            was_full: false,
        }
    }

    /// Delivers what the ring holds, and the trace if there is one; says how full the fuller was, in per
    /// mille.
    pub(super) fn drain<R: Reading>(
        &mut self,
        kernel: &dyn Kernel,
        layout: &Layout,
        delivery: &mut Delivery<'_, R>,
    ) -> u16 {
        if self.tracer.is_some() {
            return self.drain_traced(kernel, layout, delivery);
        }
        self.drain_ring(kernel, layout, delivery)
    }

    /// Delivers what the ring holds; says how full it was, in per mille.
    fn drain_ring<R: Reading>(
        &mut self,
        kernel: &dyn Kernel,
        layout: &Layout,
        delivery: &mut Delivery<'_, R>,
    ) -> u16 {
        let unread = self.events.ring.unread();
        let length = unread.length();
        self.was_full = false;
        if length == 0 && !unread.is_overrun() && !self.retiring {
            self.full_streak = 0;
            return 0;
        }
        self.heard = true;
        delivery.cpu = self.events.cpu;
        delivery.lost_in_ring = self.lost_in_ring;
        delivery.lost_handed_on = self.lost_handed_on;
        delivery.scale_permille = self.scale_permille;
        delivery.kinds.clear();
        let members = self.events.members.iter();
        delivery
            .kinds
            .extend(members.map(|member| (member.id, member.kind)));
        let before = delivery.tally;
        delivery.mix = self.tracer.is_none().then_some(self.mix);
        let (first, second) = unread.pieces();
        let streamed = match (&mut self.tracer, self.until) {
            (Some(tracer), _) => {
                let mut listening = tracer.listening(delivery);
                stream(layout, first, second, &mut listening)
            }
            (None, Some(time)) => {
                let inner = &mut *delivery;
                stream(layout, first, second, &mut Until { inner, time })
            }
            (None, None) => stream(layout, first, second, delivery),
        };
        if unread.is_overrun() || streamed.is_err() {
            delivery.losses.damaged += 1;
        }
        self.mix = Mix {
            samples: delivery.tally.seen - before.seen,
            others: delivery.tally.others - before.others,
        };
        self.taken = self.taken.saturating_add(self.mix.samples);
        unread.take();
        let size = self.events.ring.data_bytes();
        // A ring with less room than that, with what came while it was read, may have refused a record
        // before it was taken. It will say so only when something else comes, so the events are asked;
        // all of them, for each counts its own.
        let meanwhile = self.events.ring.unread().length();
        self.was_full = size.saturating_sub(length + meanwhile) < ROOM_MIN;
        if self.was_full || self.retiring {
            let members = self.events.members.iter();
            let lost = members
                .filter_map(|member| member.counts(kernel).ok()?.lost)
                .fold(0, u64::saturating_add);
            delivery.lost_in_total(lost);
        }
        self.lost_in_ring = delivery.lost_in_ring;
        self.lost_handed_on = delivery.lost_handed_on;
        let fill = u16::try_from(length * 1000 / size).unwrap_or(1000);
        self.full_streak = if fill > 500 { self.full_streak + 1 } else { 0 };
        fill
    }

    pub(super) fn take_taken(&mut self) -> u64 {
        std::mem::take(&mut self.taken)
    }

    /// Has the events stop; what the ring holds is read once more.
    pub(super) fn stop(&mut self, kernel: &dyn Kernel) {
        self.retiring = true;
        // An event that cannot be stopped is closed at the next reading all the same.
        self.events.disable(kernel).unwrap_or(());
    }

    /// When the first record in the ring was written; none if it holds none. Takes nothing.
    pub(super) fn first_time(&mut self, layout: &Layout) -> Option<u64> {
        let mut first_time = FirstTime(None);
        let unread = self.events.ring.unread();
        let (first, second) = unread.pieces();
        // Damage is counted when the ring is delivered.
        stream(layout, first, second, &mut first_time).unwrap_or(());
        first_time.0
    }

    /// Asks the first event whether it runs at all, and how much of the time.
    pub(super) fn check(&mut self, kernel: &dyn Kernel) {
        let counts = self.events.members[0].counts(kernel).ok();
        let times = counts.map(|counts| (counts.enabled_ns, counts.running_ns));
        match (times, self.times) {
            (None, _) => self.retiring = true,
            (Some((enabled, _)), Some((before, _))) if enabled == before => self.retiring = true,
            (Some((enabled, running)), before) => {
                let (enabled_before, running_before) = before.unwrap_or((0, 0));
                self.scale_permille = turns(
                    enabled.saturating_sub(enabled_before),
                    running.saturating_sub(running_before),
                );
            }
        }
        self.times = times;
    }
}

/// How many times longer an event was enabled than it ran, in per mille.
fn turns(enabled_ns: u64, running_ns: u64) -> u64 {
    if running_ns >= enabled_ns {
        return 1000;
    }
    let enabled = enabled_ns.saturating_mul(1000);
    (enabled / running_ns.max(1)).min(SCALE_MAX_PERMILLE)
}

/// An event that ran less than a hundredth of the time has seen too little to stand for the rest.
const SCALE_MAX_PERMILLE: u64 = 100_000;

/// Finds the time of the first record that has one.
struct FirstTime(Option<u64>);

impl Visitor for FirstTime {
    fn record<B: Body>(&mut self, record: &Decoded<'_, B>) {
        if self.0.is_none() {
            self.0 = time_of(record);
        }
    }
}

/// Room in a ring with which any of our records fits: a loss record and the longest other, twice over.
const ROOM_MIN: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_that_takes_turns_stands_for_more() {
        assert_eq!(turns(0, 0), 1000);
        assert_eq!(turns(1_000, 1_000), 1000);
        assert_eq!(turns(3_000, 2_000), 1500);
        assert_eq!(turns(1_000, 0), SCALE_MAX_PERMILLE);
        assert_eq!(turns(u64::MAX, 1), SCALE_MAX_PERMILLE);
    }
}
