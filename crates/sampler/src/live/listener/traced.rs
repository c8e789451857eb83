//! The trace of one processor, read: pieces of memory that hardware filled, to samples.
//!
//! The trace says what and when, the ring says who ran when and which pieces are complete. Both are
//! read in one order that must not change: up to where the trace is complete, then the ring, then the
//! trace up to there. So whatever explains the trace is known before it is read.

use std::ops::Range;
use std::os::fd::AsFd;

use super::super::delivery::{Delivery, Reading, Unusable};
use super::Listener;
use crate::decode::trace::{PIECE_COLLISION, PIECE_PARTIAL, PIECE_TRUNCATED, TraceRecord};
use crate::decode::{Body, Decoded, Layout, Visitor};
use crate::open::{Kernel, Order};
use crate::ring::UnreadTrace;
use crate::spe::clock::Conversion;
use crate::spe::record::{SpeRecord, records};
use crate::spe::timeline::{Timeline, Who};

/// What is known about the trace of a processor.
#[derive(Debug)]
pub(super) struct Tracer {
    timeline: Timeline,
    /// Pieces that were told of and not read yet.
    pieces: Vec<Piece>,
    /// What the ring says about the trace; kept to allocate once.
    told: Vec<Told>,
    /// The threads that ran last, to find the process of one that a sample names; a ring of its own.
    recent: [(u32, u32); RECENT],
    next_recent: usize,
}

/// A piece of the trace that is complete.
#[derive(Clone, Copy, Debug)]
struct Piece {
    offset: u64,
    size: u64,
    /// Its last record is cut off.
    partial: bool,
    time: u64,
}

impl Default for Tracer {
    fn default() -> Self {
        Self {
            timeline: Timeline::default(),
            pieces: Vec::new(),
            told: Vec::new(),
            recent: [(0, 0); RECENT],
            next_recent: 0,
        }
    }
}

/// What the ring said, in its order.
#[derive(Clone, Copy, Debug)]
enum Told {
    Record(TraceRecord),
    Gap,
}

/// Keeps what is about the trace, and hands on the rest.
pub(super) struct Listening<'a, V> {
    inner: &'a mut V,
    told: &'a mut Vec<Told>,
}

impl<V: Visitor> Visitor for Listening<'_, V> {
    #[inline]
    fn record<B: Body>(&mut self, record: &Decoded<'_, B>) {
        if matches!(record, Decoded::Lost(_)) {
            self.told.push(Told::Gap);
        }
        self.inner.record(record);
    }

    fn trace(&mut self, _kind: u32, record: &TraceRecord) {
        self.told.push(Told::Record(*record));
    }
}

impl Listener {
    /// Delivers what ring and trace hold; says how full the fuller was, in per mille.
    pub(super) fn drain_traced<R: Reading>(
        &mut self,
        kernel: &dyn Kernel,
        layout: &Layout,
        delivery: &mut Delivery<'_, R>,
    ) -> u16 {
        let until = self.events.ring.trace_published();
        // What was refused while the ring was read the last time comes after what is read now.
        let was_full = self.was_full;
        let ring_fill = self.drain_ring(kernel, layout, delivery);
        let Some(mut tracer) = self.tracer.take() else {
            return ring_fill;
        };
        // The ring will say what it refused only when something else finds room in it.
        if was_full || self.was_full {
            tracer.told.push(Told::Gap);
        }
        let mut stopped = tracer.listen(delivery);
        let conversion = Conversion::read(&self.events.ring);
        let mut fill = 0;
        if let Some(unread) = self.events.ring.trace_unread(until) {
            fill = u16::try_from(unread.length() * 1000 / unread.capacity()).unwrap_or(1000);
            self.heard |= unread.length() > 0;
            delivery.cpu = self.events.cpu;
            delivery.scale_permille = self.scale_permille;
            tracer.read(&unread, conversion.as_ref(), delivery);
            unread.take();
        }
        // Hardware that found no room has stopped, even if it found none to say so.
        stopped |= fill >= FULL_PERMILLE;
        let crowded = tracer.timeline.fill_permille() >= CROWDED_PERMILLE;
        self.tracer = Some(tracer);
        if !self.retiring && (stopped || crowded) {
            self.restart(kernel, crowded);
        }
        ring_fill.max(fill)
    }

    /// Has the hardware go on; before that, if wanted, publish what it has so far. An event that cannot
    /// be told is found silent with the next check, and opened anew.
    fn restart(&self, kernel: &dyn Kernel, publish: bool) {
        let Some(owner) = self.events.members.first() else {
            return;
        };
        if publish {
            let stopped = kernel.order(owner.file.as_fd(), Order::Disable);
            stopped.unwrap_or(());
        }
        let resumed = kernel.order(owner.file.as_fd(), Order::Enable);
        resumed.unwrap_or(());
    }
}

impl Tracer {
    /// Where what the ring says about the trace is put.
    pub(super) fn listening<'a, V>(&'a mut self, inner: &'a mut V) -> Listening<'a, V> {
        Listening {
            inner,
            told: &mut self.told,
        }
    }

    /// Takes in what the ring said; true if the event has stopped for lack of room.
    fn listen<R: Reading>(&mut self, delivery: &mut Delivery<'_, R>) -> bool {
        let mut stopped = false;
        let mut lost = 0;
        for told in self.told.drain(..) {
            match told {
                Told::Gap => self.timeline.gap(),
                Told::Record(TraceRecord::Runs { pid, tid, time }) => {
                    let follows = |pid| delivery.filter.passes(pid);
                    self.timeline.runs(time, (pid, tid), follows);
                    if delivery.filter.passes(pid) {
                        self.recent[self.next_recent % RECENT] = (pid, tid);
                        self.next_recent = self.next_recent.wrapping_add(1);
                    }
                }
                Told::Record(TraceRecord::Piece {
                    offset,
                    size,
                    flags,
                    time,
                }) => {
                    stopped |= flags & PIECE_TRUNCATED != 0;
                    // How many samples it was, nobody knows: at least one.
                    lost += u64::from(flags & (PIECE_TRUNCATED | PIECE_COLLISION) != 0);
                    if self.pieces.len() < PIECES_MAX {
                        self.pieces.push(Piece {
                            offset,
                            size,
                            partial: flags & PIECE_PARTIAL != 0,
                            time,
                        });
                    }
                }
            }
        }
        delivery.lost(lost);
        stopped
    }

    /// Reads the trace piece by piece. What lies between the pieces that the ring told of is read too:
    /// padding, or a piece whose record was lost.
    fn read<R: Reading>(
        &mut self,
        unread: &UnreadTrace<'_>,
        conversion: Option<&Conversion>,
        delivery: &mut Delivery<'_, R>,
    ) {
        delivery.losses.damaged += u64::from(unread.is_overrun());
        let length = unread.length() as u64;
        let mut reader = Reader {
            unread,
            conversion,
            delivery,
            unknown: 0,
        };
        let mut pieces = std::mem::take(&mut self.pieces);
        let mut done = 0;
        pieces.retain(|piece| {
            // Places from the tail on: what is before it, and was read, is negative.
            let from = piece.offset.wrapping_sub(unread.tail());
            let to = from.wrapping_add(piece.size);
            if piece.size > unread.capacity() as u64 || to.cast_signed() <= 0 {
                return false;
            }
            // What is complete since we looked is read the next time.
            if to > length {
                return true;
            }
            if from >= done && from <= to {
                self.piece(done..from, None, &mut reader);
                self.piece(from..to, Some(piece), &mut reader);
                done = to;
            }
            false
        });
        self.pieces = pieces;
        self.piece(done..length, None, &mut reader);
        let unknown = reader.unknown;
        delivery.lost(unknown);
    }

    /// Reads one piece of the trace, of places counted from its tail.
    fn piece<R: Reading>(
        &mut self,
        place: Range<u64>,
        piece: Option<&Piece>,
        reader: &mut Reader<'_, '_, R>,
    ) {
        let tail = reader.unread.tail();
        let [from, to] = [place.start, place.end].map(|place| tail.wrapping_add(place));
        // The hardware fills the area in one direction and begins anew at its end with a new record.
        for (origin, bytes) in reader.unread.between(from, to) {
            let time = piece.map(|piece| piece.time);
            let tally = records(bytes, origin, &mut |record| {
                self.sample(record, time, reader);
            });
            reader.delivery.tally.seen += tally.records;
            // The record that was cut off was counted as lost.
            let expected = u64::from(piece.is_some_and(|piece| piece.partial));
            reader.delivery.losses.damaged += tally.damaged.saturating_sub(expected);
        }
    }

    /// Makes a sample of a record. `complete` is when its piece was.
    #[inline]
    fn sample<R: Reading>(
        &mut self,
        record: &SpeRecord,
        complete: Option<u64>,
        reader: &mut Reader<'_, '_, R>,
    ) {
        let access = match reader.delivery.trace_access(record) {
            Err(Unusable::NotAnAccess) => return,
            access => access,
        };
        let converted = record.timestamp.zip(reader.conversion);
        let time = converted
            .map(|(count, conversion)| conversion.nanoseconds(count))
            // A time after its piece was complete is that of bytes that look like a record.
            .filter(|time| {
                complete.is_none_or(|complete| *time <= complete.saturating_add(SLACK_NS))
            });
        let who = time.map_or(Who::Unknown, |time| self.timeline.at(time));
        let context = record.context.filter(|_| reader.delivery.trusts_context());
        match (self.named(who, context), time.or(complete)) {
            (Who::Task { pid, tid }, Some(time)) => {
                reader.delivery.traced((pid, tid), time, access);
            }
            (Who::Other, _) => {}
            (Who::Task { .. } | Who::Unknown, _) => reader.unknown += 1,
        }
    }

    /// Who it was, if the sample names its thread: the processor knows better than the times of records.
    fn named(&self, who: Who, context: Option<u32>) -> Who {
        match (who, context) {
            (Who::Task { tid, .. }, Some(context)) if tid == context => who,
            (Who::Task { .. } | Who::Unknown, Some(context)) => self
                .recent
                .iter()
                .find(|(_, tid)| *tid == context && context != 0)
                .map_or(Who::Unknown, |&(pid, tid)| Who::Task { pid, tid }),
            _ => who,
        }
    }
}

/// What the pieces of one trace are read with.
struct Reader<'a, 'b, R> {
    unread: &'a UnreadTrace<'a>,
    conversion: Option<&'a Conversion>,
    delivery: &'a mut Delivery<'b, R>,
    /// Samples of nobody knows whom.
    unknown: u64,
}

/// Threads remembered for each processor.
const RECENT: usize = 64;

/// Pieces told of and not read. The ring tells of a piece when the hardware stops for it, at most once
/// for each page of the trace, of which there are fewer.
const PIECES_MAX: usize = 4096;

/// From here on the hardware may have found no room: the kernel stops it a record before the end.
const FULL_PERMILLE: u16 = 900;

/// From here on it is better to have the trace at once than to forget who ran.
const CROWDED_PERMILLE: u16 = 500;

/// A piece's record is written after the piece, on the same clock; rounding makes some nanoseconds.
const SLACK_NS: u64 = 1_000;
