//! An event as perf asked the kernel for it: `struct perf_event_attr`.

use super::bytes::{Cursor, Order};

/// Bytes of the first published form; later ones append.
pub(super) const BYTES_MIN: usize = 64;
/// Bytes of the fields read here; what is appended after them is of no use.
const BYTES_READ: usize = 112;
/// Bits of `sample_type` that are known, up to `PERF_SAMPLE_WEIGHT_STRUCT`.
const SAMPLE_BITS: u64 = (1 << 25) - 1;
/// Longest name kept of an event.
pub(super) const NAME_BYTES_MAX: usize = 128;

/// An event that was recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// What perf called it; its numbers where the file has no name.
    pub name: String,
    /// What it samples (`PERF_SAMPLE_*`).
    pub sample_type: u64,
    /// Accesses that a sample stands for if samples do not say; none if the kernel adapted that.
    pub period: Option<u64>,
    /// The clock of its times, by number; none for perf's own.
    pub clock: Option<i32>,
    pub(super) read_format: u64,
    pub(super) branch_sample_type: u64,
    pub(super) user_registers: u32,
    pub(super) interrupt_registers: u32,
    pub(super) sample_id_all: bool,
}

/// Why an attribute is not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BadAttr {
    Short,
    Newer,
}

impl Event {
    /// Reads an attribute; fields that it is too short for are zero.
    pub(super) fn parse(bytes: &[u8], order: Order) -> Result<Self, BadAttr> {
        if bytes.len() < BYTES_MIN {
            return Err(BadAttr::Short);
        }
        let mut filled = [0; BYTES_READ];
        let count = bytes.len().min(BYTES_READ);
        filled[..count].copy_from_slice(&bytes[..count]);
        let event = Self::fields(Cursor::new(&filled, order), order).ok_or(BadAttr::Short)?;
        if event.sample_type & !SAMPLE_BITS != 0 {
            return Err(BadAttr::Newer);
        }
        Ok(event)
    }

    fn fields(mut cursor: Cursor<'_>, order: Order) -> Option<Self> {
        let kind = cursor.u32()?;
        cursor.u32()?; // Its own size.
        let config = cursor.u64()?;
        let period = cursor.u64()?;
        let sample_type = cursor.u64()?;
        let read_format = cursor.u64()?;
        // A C compiler lays bit fields out from the end that comes first in memory.
        let flags = match order {
            Order::Little => cursor.u64()?,
            Order::Big => cursor.u64()?.reverse_bits(),
        };
        cursor.take(24)?; // wakeup_events, bp_type, config1, config2
        let branch_sample_type = cursor.u64()?;
        let user_registers = cursor.u64()?.count_ones();
        cursor.u32()?; // sample_stack_user
        let clock = cursor.u32()?.cast_signed();
        let interrupt_registers = cursor.u64()?.count_ones();
        Some(Self {
            name: format!("type {kind} config {config:#x}"),
            sample_type,
            period: (flags & FLAG_FREQUENCY == 0).then_some(period),
            clock: (flags & FLAG_USE_CLOCK != 0).then_some(clock),
            read_format,
            branch_sample_type,
            user_registers,
            interrupt_registers,
            sample_id_all: flags & FLAG_SAMPLE_ID_ALL != 0,
        })
    }

    pub(super) const fn samples(&self, bit: u64) -> bool {
        self.sample_type & bit != 0
    }

    /// Whether records of both look the same.
    pub(super) const fn alike(&self, other: &Self) -> bool {
        self.sample_type == other.sample_type
            && self.read_format == other.read_format
            && self.branch_sample_type == other.branch_sample_type
            && self.user_registers == other.user_registers
            && self.interrupt_registers == other.interrupt_registers
            && self.sample_id_all == other.sample_id_all
    }
}

const FLAG_FREQUENCY: u64 = 1 << 10;
const FLAG_SAMPLE_ID_ALL: u64 = 1 << 18;
const FLAG_USE_CLOCK: u64 = 1 << 25;

// Bits of `sample_type`, from `include/uapi/linux/perf_event.h`.
pub(super) const IP: u64 = 1 << 0;
pub(super) const TID: u64 = 1 << 1;
pub(super) const TIME: u64 = 1 << 2;
pub(super) const ADDR: u64 = 1 << 3;
pub(super) const READ: u64 = 1 << 4;
pub(super) const CALLCHAIN: u64 = 1 << 5;
pub(super) const ID: u64 = 1 << 6;
pub(super) const CPU: u64 = 1 << 7;
pub(super) const PERIOD: u64 = 1 << 8;
pub(super) const STREAM_ID: u64 = 1 << 9;
pub(super) const RAW: u64 = 1 << 10;
pub(super) const BRANCH_STACK: u64 = 1 << 11;
pub(super) const REGS_USER: u64 = 1 << 12;
pub(super) const STACK_USER: u64 = 1 << 13;
pub(super) const WEIGHT: u64 = 1 << 14;
pub(super) const DATA_SRC: u64 = 1 << 15;
pub(super) const IDENTIFIER: u64 = 1 << 16;
pub(super) const TRANSACTION: u64 = 1 << 17;
pub(super) const REGS_INTR: u64 = 1 << 18;
pub(super) const PHYS_ADDR: u64 = 1 << 19;
pub(super) const CGROUP: u64 = 1 << 21;
pub(super) const DATA_PAGE_SIZE: u64 = 1 << 22;
pub(super) const WEIGHT_STRUCT: u64 = 1 << 24;
