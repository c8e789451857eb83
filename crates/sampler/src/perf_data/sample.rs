//! The fields of a sample, and those that other records end in.

use super::attr::{self, Event};
use super::bytes::Cursor;

/// A sample as it stands in the file; a field is none if its event did not ask for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PerfSample {
    /// Its event, by position in [`Reader::events`](super::Reader::events).
    pub event: usize,
    /// The kernel's id of the event.
    pub id: Option<u64>,
    /// Address of the instruction.
    pub ip: Option<u64>,
    /// Process and thread.
    pub task: Option<(u32, u32)>,
    /// When.
    pub time: Option<u64>,
    /// Address of the data.
    pub address: Option<u64>,
    /// Processor; also from the table of ids where samples do not say.
    pub cpu: Option<u32>,
    /// How many accesses it stands for, from the event where samples do not say.
    pub period: u64,
    /// Cost of the access: all of a full weight, the first part of a structured one.
    pub weight: Option<u64>,
    /// What kind of access, and what answered (`perf_mem_data_src`).
    pub data_source: Option<u64>,
    /// Physical address of the data.
    pub physical: Option<u64>,
    /// Size of the page of the data.
    pub page_bytes: Option<u64>,
}

impl PerfSample {
    /// Reads the body of a sample; none if it is too short for what its event asks for.
    pub(super) fn parse(mut cursor: Cursor<'_>, event: &Event, position: usize) -> Option<Self> {
        let mut sample = Self {
            event: position,
            ..Self::default()
        };
        let from = &mut cursor;
        sample.fixed(from, event)?;
        pass_variable(from, event)?;
        sample.costs(from, event)?;
        sample.pages(from, event)?;
        // AUX, the last field, has nothing behind it that would be read.
        Some(sample)
    }

    /// The fields up to the period, in the kernel's order (`perf_output_sample`).
    fn fixed(&mut self, from: &mut Cursor<'_>, event: &Event) -> Option<()> {
        let identifier = word(from, event, attr::IDENTIFIER)?;
        self.ip = word(from, event, attr::IP)?;
        if event.samples(attr::TID) {
            self.task = Some((from.u32()?, from.u32()?));
        }
        self.time = word(from, event, attr::TIME)?;
        self.address = word(from, event, attr::ADDR)?;
        self.id = identifier.or(word(from, event, attr::ID)?);
        word(from, event, attr::STREAM_ID)?;
        if event.samples(attr::CPU) {
            self.cpu = Some(from.u32()?);
            from.u32()?;
        }
        self.period = word(from, event, attr::PERIOD)?
            .or(event.period)
            .unwrap_or(1);
        Some(())
    }

    fn costs(&mut self, from: &mut Cursor<'_>, event: &Event) -> Option<()> {
        self.weight = word(from, event, attr::WEIGHT)?;
        if let Some(parts) = word(from, event, attr::WEIGHT_STRUCT)? {
            // The first part is the low half, whatever the byte order.
            self.weight = Some(parts & u64::from(u32::MAX));
        }
        self.data_source = word(from, event, attr::DATA_SRC)?;
        word(from, event, attr::TRANSACTION)?;
        Some(())
    }

    fn pages(&mut self, from: &mut Cursor<'_>, event: &Event) -> Option<()> {
        if event.samples(attr::REGS_INTR) {
            pass_registers(from, event.interrupt_registers)?;
        }
        self.physical = word(from, event, attr::PHYS_ADDR)?;
        word(from, event, attr::CGROUP)?;
        self.page_bytes = word(from, event, attr::DATA_PAGE_SIZE)?;
        Some(())
    }
}

/// A field of one word: `Some(None)` if the event does not have it, none if it is cut off.
#[expect(
    clippy::option_option,
    reason = "outside: whether there were bytes; inside: whether the event has the field"
)]
fn word(from: &mut Cursor<'_>, event: &Event, bit: u64) -> Option<Option<u64>> {
    if event.samples(bit) {
        from.u64().map(Some)
    } else {
        Some(None)
    }
}

/// The fields whose size is in them. Nothing in them is of use; what comes behind them is.
fn pass_variable(from: &mut Cursor<'_>, event: &Event) -> Option<()> {
    if event.samples(attr::READ) {
        pass_counts(from, event.read_format)?;
    }
    if event.samples(attr::CALLCHAIN) {
        let count = from.u64()?;
        from.skip(count, 8)?;
    }
    if event.samples(attr::RAW) {
        let bytes = u64::from(from.u32()?);
        // The kernel pads both together to whole words; perf pads none of what it makes itself,
        // but gives sizes that need no padding.
        from.skip(bytes, 1)?;
        let beyond = (bytes + 4) % 8;
        from.skip((8 - beyond) % 8, 1)?;
    }
    if event.samples(attr::BRANCH_STACK) {
        pass_branches(from, event.branch_sample_type)?;
    }
    if event.samples(attr::REGS_USER) {
        pass_registers(from, event.user_registers)?;
    }
    if event.samples(attr::STACK_USER) {
        let bytes = from.u64()?;
        if bytes != 0 {
            from.skip(bytes, 1)?;
            from.u64()?; // How much of it was there.
        }
    }
    Some(())
}

/// Counts, of one event or of a group.
fn pass_counts(from: &mut Cursor<'_>, format: u64) -> Option<()> {
    const TIMES: [u64; 2] = [1 << 0, 1 << 1];
    const GROUP: u64 = 1 << 3;
    /// Beside each count: its id, what was lost.
    const BESIDE: [u64; 2] = [1 << 2, 1 << 4];
    let set = |bits: [u64; 2]| bits.iter().map(|bit| u64::from(format & bit != 0)).sum();
    let (times, beside): (u64, u64) = (set(TIMES), set(BESIDE));
    if format & GROUP == 0 {
        return from.skip(1 + times + beside, 8);
    }
    let count = from.u64()?;
    from.skip(times, 8)?;
    from.skip(count, 8 * (1 + beside))
}

fn pass_branches(from: &mut Cursor<'_>, kind: u64) -> Option<()> {
    const INDEX: u64 = 1 << 17;
    const COUNTERS: u64 = 1 << 19;
    let count = from.u64()?;
    if kind & INDEX != 0 {
        from.u64()?;
    }
    from.skip(count, 24)?;
    if kind & COUNTERS != 0 {
        from.skip(count, 8)?;
    }
    Some(())
}

/// Registers follow unless there were none to see (a thread of the kernel has no user's).
fn pass_registers(from: &mut Cursor<'_>, count: u32) -> Option<()> {
    if from.u64()? != 0 {
        from.skip(u64::from(count), 8)?;
    }
    Some(())
}

/// What records other than samples end in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Trailer {
    pub(super) time: u64,
}

impl Trailer {
    /// Bytes of the trailer, of an event with `sample_id_all`.
    fn bytes(event: &Event) -> usize {
        if !event.sample_id_all {
            return 0;
        }
        let fields = attr::TID | attr::TIME | attr::ID | attr::STREAM_ID | attr::CPU;
        let words = (event.sample_type & (fields | attr::IDENTIFIER)).count_ones();
        8 * usize::try_from(words).unwrap_or(0)
    }

    /// Splits a body into what is before the trailer and the trailer; none if it is too short.
    pub(super) fn split<'a>(
        body: &'a [u8],
        event: &Event,
        order: super::bytes::Order,
    ) -> Option<(&'a [u8], Self)> {
        let at = body.len().checked_sub(Self::bytes(event))?;
        let (before, trailer) = body.split_at_checked(at)?;
        let mut from = Cursor::new(trailer, order);
        if event.sample_id_all && event.samples(attr::TID) {
            from.u64()?;
        }
        let time = if event.sample_id_all && event.samples(attr::TIME) {
            from.u64()?
        } else {
            0
        };
        Some((before, Self { time }))
    }
}
