//! Records about a trace that hardware writes beside the ring, and about who ran meanwhile.

use super::{Body, Field, Layout, halves};

/// What such a record says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceRecord {
    /// A piece of the trace is complete (`PERF_RECORD_AUX`).
    Piece {
        /// Where it begins, counted since the trace began.
        offset: u64,
        /// Its bytes.
        size: u64,
        /// What went wrong: the bits `PIECE_`.
        flags: u64,
        /// When it was complete.
        time: u64,
    },
    /// This thread runs on the processor from now on (`PERF_RECORD_ITRACE_START`,
    /// `PERF_RECORD_SWITCH_CPU_WIDE`).
    Runs {
        /// Its process; 0 if the processor is idle.
        pid: u32,
        /// The thread.
        tid: u32,
        /// When.
        time: u64,
    },
}

/// There was no room for more, and the event has stopped.
pub const PIECE_TRUNCATED: u64 = 1;
/// The last record of the piece is cut off.
pub const PIECE_PARTIAL: u64 = 1 << 2;
/// A sample was taken before the one before was done with, and dropped.
pub const PIECE_COLLISION: u64 = 1 << 3;

/// Reads such a record; none if it is of another kind, too short, or does not say when.
pub(super) fn read<B: Body>(layout: &Layout, kind: u32, misc: u16, body: B) -> Option<TraceRecord> {
    if !matches!(
        kind,
        RECORD_AUX | RECORD_ITRACE_START | RECORD_SWITCH_CPU_WIDE
    ) {
        return None;
    }
    let number = |at| body.word(at).map(u64::from_ne_bytes);
    let trailer = body.size().checked_sub(layout.trailer_bytes)?;
    let in_trailer = |field: Field| {
        let at = layout.in_trailer[field as usize]?;
        body.word(trailer + usize::from(at))
    };
    let time = in_trailer(Field::Time).map(u64::from_ne_bytes)?;
    if kind == RECORD_AUX {
        return (trailer >= 24).then_some(TraceRecord::Piece {
            offset: number(0)?,
            size: number(8)?,
            flags: number(16)?,
            time,
        });
    }
    // A switch is told twice, by who goes, with who comes in the body, and by who came.
    let came = kind == RECORD_SWITCH_CPU_WIDE && misc & MISC_SWITCH_OUT == 0;
    let (pid, tid) = halves(if came {
        in_trailer(Field::Tid)?
    } else {
        body.word(0)?
    });
    (trailer >= 8).then_some(TraceRecord::Runs { pid, tid, time })
}

const RECORD_AUX: u32 = 11;
const RECORD_ITRACE_START: u32 = 12;
const RECORD_SWITCH_CPU_WIDE: u32 = 15;
/// On a switch record: written by who goes.
const MISC_SWITCH_OUT: u16 = 1 << 13;
