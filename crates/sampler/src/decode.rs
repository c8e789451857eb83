//! Bytes of the kernel's sample rings to values. Total: any bytes give values or a [`Damage`].
//!
//! A record lies in one piece or, at the end of the ring, in two; both are read where they lie
//! ([`Body`]). Which fields a sample has and where they are is worked out once from the event's
//! `sample_type` ([`Layout`]); a field is then read only if somebody asks for it. To support another
//! field of one word, add a row to `FIELDS`.

pub mod trace;

use std::fmt;

use trace::TraceRecord;

/// A field of a sample that is one 64-bit word wide, in no particular order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Field {
    /// The event's id, at a place that does not depend on the other fields.
    Identifier,
    /// Address of the instruction.
    Ip,
    /// Process and thread, 32 bits each.
    Tid,
    /// Time on the event's clock.
    Time,
    /// Address of the data.
    Addr,
    /// The event's id.
    Id,
    /// The id of the very event, where `Id` is that of its parent.
    StreamId,
    /// Processor, in the first 32 bits.
    Cpu,
    /// How many events this sample stands for.
    Period,
    /// Cost of the access, in units of the hardware.
    Weight,
    /// Cost of the access, the low 32 bits; the rest is more detail.
    WeightStruct,
    /// What kind of access, and what answered.
    DataSource,
    /// Transaction state.
    Transaction,
    /// Physical address of the data.
    PhysAddr,
    /// Id of the task's perf cgroup.
    Cgroup,
    /// Size of the page of the data.
    DataPageSize,
    /// Size of the page of the instruction.
    CodePageSize,
}

/// Number of variants of [`Field`].
const FIELD_COUNT: usize = 17;

/// The one-word fields with their bits in `sample_type`, in the order in which the kernel writes them
/// (`perf_output_sample` in `kernel/events/core.c`).
const FIELDS: [(Field, u64); FIELD_COUNT] = [
    (Field::Identifier, 1 << 16),
    (Field::Ip, 1 << 0),
    (Field::Tid, 1 << 1),
    (Field::Time, 1 << 2),
    (Field::Addr, 1 << 3),
    (Field::Id, 1 << 6),
    (Field::StreamId, 1 << 9),
    (Field::Cpu, 1 << 7),
    (Field::Period, 1 << 8),
    // Here the kernel writes the fields of variable size: READ, CALLCHAIN, RAW, BRANCH_STACK,
    // REGS_USER, STACK_USER. No event of ours asks for them, and `Layout::new` refuses them.
    (Field::Weight, 1 << 14),
    (Field::WeightStruct, 1 << 24),
    (Field::DataSource, 1 << 15),
    (Field::Transaction, 1 << 17),
    // REGS_INTR would be here.
    (Field::PhysAddr, 1 << 19),
    (Field::Cgroup, 1 << 21),
    (Field::DataPageSize, 1 << 22),
    (Field::CodePageSize, 1 << 23),
    // AUX would be here.
];

/// The fields that every record but a sample ends in if the event asks for `sample_id_all`, in the
/// kernel's order.
const TRAILER: [Field; 6] = [
    Field::Tid,
    Field::Time,
    Field::Id,
    Field::StreamId,
    Field::Cpu,
    Field::Identifier,
];

const WORD: usize = 8;

/// Bytes of the header that every record begins with.
pub const HEADER_BYTES: usize = 8;

/// Longest thread name kept; the kernel's own limit (`TASK_COMM_LEN`).
pub const NAME_BYTES_MAX: usize = 16;

impl Field {
    /// The field's bit in `sample_type`.
    #[must_use]
    pub fn bit(self) -> u64 {
        FIELDS
            .iter()
            .find(|(field, _)| *field == self)
            .map_or(0, |(_, bit)| *bit)
    }
}

/// Where the fields of one event's records are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Offset of each field from the start of a sample's body, by `Field as usize`.
    in_sample: [Option<u8>; FIELD_COUNT],
    sample_bytes: usize,
    /// Offset of each field from the start of the trailer.
    in_trailer: [Option<u8>; FIELD_COUNT],
    /// 0 if the event has no `sample_id_all`.
    trailer_bytes: usize,
}

/// Whether records other than samples end in the fields that say when and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trailer {
    /// The event asks for `sample_id_all`.
    Present,
    /// It does not.
    Absent,
}

/// Fields that cannot be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownFields {
    /// Their bits in `sample_type`.
    pub bits: u64,
}

impl fmt::Display for UnknownFields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "samples carry fields that cannot be read, bits `{:#x}` of their type",
            self.bits
        )
    }
}

impl std::error::Error for UnknownFields {}

impl Layout {
    /// Works out the layout of an event's records.
    ///
    /// # Errors
    /// When `sample_type` has a field that is not in [`Field`]: of variable size, or newer than this code.
    pub fn new(sample_type: u64, trailer: Trailer) -> Result<Self, UnknownFields> {
        let known = FIELDS.iter().fold(0, |bits, (_, bit)| bits | bit);
        if sample_type & !known != 0 {
            return Err(UnknownFields {
                bits: sample_type & !known,
            });
        }
        let wanted = |field: Field| sample_type & field.bit() != 0;
        let (in_sample, sample_bytes) = place(FIELDS.iter().map(|(field, _)| *field), wanted);
        let (in_trailer, trailer_bytes) = match trailer {
            Trailer::Present => place(TRAILER.into_iter(), wanted),
            Trailer::Absent => ([None; FIELD_COUNT], 0),
        };
        Ok(Self {
            in_sample,
            sample_bytes,
            in_trailer,
            trailer_bytes,
        })
    }

    /// Bytes of a sample's body.
    #[must_use]
    pub const fn sample_bytes(&self) -> usize {
        self.sample_bytes
    }
}

/// Puts the wanted fields one behind the other.
fn place(
    fields: impl Iterator<Item = Field>,
    wanted: impl Fn(Field) -> bool,
) -> ([Option<u8>; FIELD_COUNT], usize) {
    const { assert!(FIELD_COUNT * WORD <= u8::MAX as usize) }
    let mut offsets = [None; FIELD_COUNT];
    let mut end = 0u8;
    for field in fields.filter(|field| wanted(*field)) {
        offsets[field as usize] = Some(end);
        end += 8;
    }
    (offsets, usize::from(end))
}

/// The bytes of a record after its header, wherever they lie.
pub trait Body: Copy + fmt::Debug {
    /// How many there are.
    fn size(self) -> usize;
    /// The eight bytes at an offset; none beyond the end.
    fn word(self, at: usize) -> Option<[u8; 8]>;
}

impl Body for &[u8] {
    #[inline]
    fn size(self) -> usize {
        self.len()
    }

    #[inline]
    fn word(self, at: usize) -> Option<[u8; 8]> {
        self.get(at..)?.first_chunk().copied()
    }
}

/// Bytes in two pieces, the second following the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wrapped<'a> {
    /// Up to the end of the ring.
    pub first: &'a [u8],
    /// From its start.
    pub second: &'a [u8],
}

impl Body for Wrapped<'_> {
    fn size(self) -> usize {
        self.first.len() + self.second.len()
    }

    fn word(self, at: usize) -> Option<[u8; 8]> {
        if let Some(behind) = at.checked_sub(self.first.len()) {
            return self.second.word(behind);
        }
        if let Some(word) = self.first.word(at) {
            return Some(word);
        }
        let head = self.first.get(at..)?;
        let tail = self.second.get(..WORD - head.len())?;
        let mut word = [0; WORD];
        for (to, from) in word.iter_mut().zip(head.iter().chain(tail)) {
            *to = *from;
        }
        Some(word)
    }
}

/// A sample, whose fields are read when asked for.
#[derive(Clone, Copy, Debug)]
pub struct SampleView<'a, B> {
    layout: &'a Layout,
    body: B,
}

impl<B: Body> SampleView<'_, B> {
    /// A field as one number; none if the event did not ask for it.
    #[inline]
    pub fn number(&self, field: Field) -> Option<u64> {
        self.word(field).map(u64::from_ne_bytes)
    }

    /// Process and thread.
    #[inline]
    pub fn pid_tid(&self) -> Option<(u32, u32)> {
        self.word(Field::Tid).map(halves)
    }

    /// Processor.
    #[inline]
    pub fn cpu(&self) -> Option<u32> {
        self.word(Field::Cpu).map(|word| halves(word).0)
    }

    /// Cost of the access, cut to 32 bits from either form of it.
    #[inline]
    pub fn weight(&self) -> Option<u32> {
        if let Some(full) = self.number(Field::Weight) {
            return Some(u32::try_from(full).unwrap_or(u32::MAX));
        }
        self.number(Field::WeightStruct)
            .map(|word| u32::try_from(word & u64::from(u32::MAX)).unwrap_or(u32::MAX))
    }

    #[inline]
    fn word(&self, field: Field) -> Option<[u8; WORD]> {
        let at = self.layout.in_sample[field as usize]?;
        self.body.word(usize::from(at))
    }
}

/// A thread that was made or ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskRecord {
    /// Its process.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// When made: the process that made it. When ended: the process's parent.
    pub parent_pid: u32,
    /// When made: the thread that made it.
    pub parent_tid: u32,
    /// When.
    pub time: u64,
}

/// A thread that took a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NameRecord {
    /// Its process.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// Whether the name came with another program.
    pub exec: bool,
    /// When, if the event tells (`sample_id_all`).
    pub time: Option<u64>,
    name: [u8; NAME_BYTES_MAX],
    name_bytes: u8,
}

impl NameRecord {
    /// The name as the kernel has it: any bytes, at most [`NAME_BYTES_MAX`].
    #[must_use]
    pub fn name(&self) -> &[u8] {
        &self.name[..usize::from(self.name_bytes)]
    }
}

/// What a record says.
#[derive(Clone, Copy, Debug)]
pub enum Decoded<'a, B> {
    /// An access.
    Sample(SampleView<'a, B>),
    /// A thread was made.
    Fork(TaskRecord),
    /// A thread ended.
    Exit(TaskRecord),
    /// A thread took a name.
    Named(NameRecord),
    /// The ring was full and so many records were not written.
    Lost(u64),
    /// The hardware dropped so many samples.
    LostSamples(u64),
    /// The kernel stopped the event because it came too often.
    Throttle,
    /// The kernel let the event go on.
    Unthrottle,
    /// A record of a kind that is of no use here, by number.
    Skipped(u32),
}

/// Bytes that are no record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Where the record begins that cannot be read.
    pub offset: usize,
    /// What is wrong with it.
    pub reason: &'static str,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the record at offset `{}` {}", self.offset, self.reason)
    }
}

impl std::error::Error for Damage {}

/// What a stream of records is given to, one record at a time, in order.
pub trait Visitor {
    /// Takes one record.
    fn record<B: Body>(&mut self, record: &Decoded<'_, B>);

    /// Takes one about a trace beside the ring, of the given kind. Who has no trace skips it.
    fn trace(&mut self, kind: u32, _record: &TraceRecord) {
        self.record::<&[u8]>(&Decoded::Skipped(kind));
    }
}

/// Decodes all records in `first` followed by `second`, as they lie in a ring.
///
/// A record that is shorter than its kind demands is passed on as [`Decoded::Skipped`]; its
/// declared size still leads to the next one.
///
/// # Errors
/// When a record's size is impossible, so that the next one cannot be found. What came before it
/// has been visited.
pub fn stream(
    layout: &Layout,
    first: &[u8],
    second: &[u8],
    visitor: &mut impl Visitor,
) -> Result<(), Damage> {
    let total = first.len() + second.len();
    let mut at = 0;
    while at < total {
        let (kind, misc, size) = header(first, second, at)?;
        let end = at + size;
        let start = at + HEADER_BYTES;
        if end <= first.len() {
            visit(layout, (kind, misc), &first[start..end], visitor);
        } else if let Some(behind) = start.checked_sub(first.len()) {
            let body = &second[behind..end - first.len()];
            visit(layout, (kind, misc), body, visitor);
        } else {
            let body = Wrapped {
                first: &first[start..],
                second: &second[..end - first.len()],
            };
            visit(layout, (kind, misc), body, visitor);
        }
        at = end;
    }
    Ok(())
}

/// Hands on one record.
#[inline]
fn visit<B: Body>(layout: &Layout, (kind, misc): (u32, u16), body: B, visitor: &mut impl Visitor) {
    if kind != RECORD_SAMPLE
        && let Some(record) = trace::read(layout, kind, misc, body)
    {
        visitor.trace(kind, &record);
    } else {
        visitor.record(&decode(layout, kind, misc, body));
    }
}

/// Decodes what `data` describes and reads every field, for fuzzing: eight bytes of `sample_type`,
/// two of where the ring wraps, then records.
///
/// # Errors
/// When the fields are unknown or the bytes are no records.
pub fn check(data: &[u8]) -> Result<u64, Box<dyn std::error::Error>> {
    let (sample_type, rest) = data.split_first_chunk().ok_or("too short")?;
    let (wrap, bytes) = rest.split_first_chunk().ok_or("too short")?;
    let layout = Layout::new(u64::from_le_bytes(*sample_type), Trailer::Present)?;
    let wrap = usize::from(u16::from_le_bytes(*wrap)).min(bytes.len());
    let (first, second) = bytes.split_at(wrap);
    let mut sum = Sum(0);
    stream(&layout, first, second, &mut sum)?;
    Ok(sum.0)
}

/// Adds up everything that records say, so that everything is read.
struct Sum(u64);

impl Visitor for Sum {
    fn record<B: Body>(&mut self, record: &Decoded<'_, B>) {
        let value = match record {
            Decoded::Sample(view) => FIELDS
                .iter()
                .filter_map(|(field, _)| view.number(*field))
                .fold(0, u64::wrapping_add),
            Decoded::Fork(task) | Decoded::Exit(task) => task.time,
            Decoded::Named(named) => named.name().len() as u64,
            Decoded::Lost(count) | Decoded::LostSamples(count) => *count,
            Decoded::Throttle | Decoded::Unthrottle | Decoded::Skipped(_) => 1,
        };
        self.0 = self.0.wrapping_add(value);
    }
}

/// Kind, flags and size of the record at an offset, with the size checked against what is there.
#[inline]
fn header(first: &[u8], second: &[u8], at: usize) -> Result<(u32, u16, usize), Damage> {
    let damage = |reason| Damage { offset: at, reason };
    let [k0, k1, k2, k3, m0, m1, s0, s1] = match first.get(at..).and_then(<[u8]>::first_chunk) {
        Some(word) => *word,
        None => Wrapped { first, second }
            .word(at)
            .ok_or_else(|| damage("is cut off in its header"))?,
    };
    let size = usize::from(u16::from_ne_bytes([s0, s1]));
    if size < HEADER_BYTES {
        return Err(damage("is shorter than its own header"));
    }
    if size > first.len() + second.len() - at {
        return Err(damage("is longer than what there is"));
    }
    let kind = u32::from_ne_bytes([k0, k1, k2, k3]);
    Ok((kind, u16::from_ne_bytes([m0, m1]), size))
}

/// Decodes the body of one record of the given kind and flags.
#[inline]
pub fn decode<B: Body>(layout: &Layout, kind: u32, misc: u16, body: B) -> Decoded<'_, B> {
    if kind == RECORD_SAMPLE {
        if body.size() < layout.sample_bytes {
            return Decoded::Skipped(kind);
        }
        return Decoded::Sample(SampleView { layout, body });
    }
    decode_other(layout, kind, misc, body).unwrap_or(Decoded::Skipped(kind))
}

/// Everything but samples; none if the record is shorter than its kind demands.
fn decode_other<B: Body>(layout: &Layout, kind: u32, misc: u16, body: B) -> Option<Decoded<'_, B>> {
    Some(match kind {
        RECORD_LOST => Decoded::Lost(u64::from_ne_bytes(body.word(8)?)),
        RECORD_LOST_SAMPLES => Decoded::LostSamples(u64::from_ne_bytes(body.word(0)?)),
        RECORD_COMM => Decoded::Named(named(layout, misc, body)?),
        RECORD_EXIT => Decoded::Exit(task(body)?),
        RECORD_FORK => Decoded::Fork(task(body)?),
        RECORD_THROTTLE => Decoded::Throttle,
        RECORD_UNTHROTTLE => Decoded::Unthrottle,
        _ => Decoded::Skipped(kind),
    })
}

fn task<B: Body>(body: B) -> Option<TaskRecord> {
    let (pid, parent_pid) = halves(body.word(0)?);
    let (tid, parent_tid) = halves(body.word(8)?);
    Some(TaskRecord {
        pid,
        tid,
        parent_pid,
        parent_tid,
        time: u64::from_ne_bytes(body.word(16)?),
    })
}

fn named<B: Body>(layout: &Layout, misc: u16, body: B) -> Option<NameRecord> {
    let (pid, tid) = halves(body.word(0)?);
    let trailer = body.size().checked_sub(layout.trailer_bytes)?;
    let mut name = [0; NAME_BYTES_MAX];
    // The kernel pads names with zeros to whole words.
    for (index, to) in name.chunks_exact_mut(WORD).enumerate() {
        let at = WORD + index * WORD;
        if at + WORD <= trailer {
            to.copy_from_slice(&body.word(at)?);
        }
    }
    let length = name.iter().position(|byte| *byte == 0);
    let time = layout.in_trailer[Field::Time as usize]
        .and_then(|at| body.word(trailer + usize::from(at)))
        .map(u64::from_ne_bytes);
    Some(NameRecord {
        pid,
        tid,
        exec: misc & MISC_COMM_EXEC != 0,
        time,
        name,
        name_bytes: u8::try_from(length.unwrap_or(NAME_BYTES_MAX)).ok()?,
    })
}

/// The two 32-bit numbers in a word, in memory order.
#[inline]
const fn halves([a0, a1, a2, a3, b0, b1, b2, b3]: [u8; WORD]) -> (u32, u32) {
    (
        u32::from_ne_bytes([a0, a1, a2, a3]),
        u32::from_ne_bytes([b0, b1, b2, b3]),
    )
}

// Kinds of records and their flags, from `include/uapi/linux/perf_event.h`.
const RECORD_LOST: u32 = 2;
const RECORD_COMM: u32 = 3;
const RECORD_EXIT: u32 = 4;
const RECORD_THROTTLE: u32 = 5;
const RECORD_UNTHROTTLE: u32 = 6;
const RECORD_FORK: u32 = 7;
const RECORD_SAMPLE: u32 = 9;
const RECORD_LOST_SAMPLES: u32 = 13;
/// On a name record: it came with `exec`.
const MISC_COMM_EXEC: u16 = 1 << 13;

#[cfg(test)]
mod golden;
#[cfg(test)]
mod tests;
