//! The inside of blocks: entries to bytes and back.
//!
//! Numbers are LEB128; signed ones zigzag first. Times, addresses and processors are differences to
//! the entry before, so that a sample mostly takes 8 to 10 bytes of the 56 it has in memory.

use numad_core::{AccessKind, Lifecycle, Record, Sample, Sent, ServedBy, Time};
use topology::{CpuId, Pid, Tid};

use super::{Entry, NAME_BYTES_MAX};

/// What differences are taken to; all zero at the start of each block.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Base {
    time: u64,
    address: u64,
    physical: u64,
    pid: u32,
    tid: u32,
    cpu: u32,
    /// Whether there may be messages.
    messages: bool,
}

impl Base {
    /// The start of a block, with or without messages.
    pub(super) fn of(messages: bool) -> Self {
        Self {
            messages,
            ..Self::default()
        }
    }
}

const KIND_MASK: u8 = 0x07;
const KIND_SAMPLE: u8 = 0;
const KIND_FORK: u8 = 1;
const KIND_EXIT: u8 = 2;
const KIND_NAMED: u8 = 3;
const KIND_LOST: u8 = 4;
const KIND_MARK: u8 = 5;
/// From version 2 on.
const KIND_SENT: u8 = 6;

/// On a sample: process and thread as before.
const SAME_TASK: u8 = 0x08;
/// On a sample: processor as before.
const SAME_CPU: u8 = 0x10;
/// On a sample: it stands for one access.
const PERIOD_ONE: u8 = 0x20;
/// On a sample: a byte of kind and level, and the weight, follow.
const DETAIL: u8 = 0x40;
/// On a sample: the physical address follows.
const PHYSICAL: u8 = 0x80;
/// On a name: it came with another program.
const EXEC: u8 = 0x08;

/// Appends a record.
pub(super) fn encode(base: &mut Base, record: &Record, out: &mut Vec<u8>) {
    match record {
        Record::Sample(sample) => encode_sample(base, sample, out),
        Record::Lifecycle(lifecycle) => encode_lifecycle(base, lifecycle, out),
        Record::Lost(count) => {
            out.push(KIND_LOST);
            put(out, *count);
        }
        Record::Sent(sent) => {
            out.push(KIND_SENT);
            let ids = [sent.from.0, sent.to.0].map(u64::from);
            for number in ids.into_iter().chain([sent.bytes, sent.messages]) {
                put(out, number);
            }
        }
    }
}

/// Appends a mark.
pub(super) fn encode_mark(base: &mut Base, time: Time, out: &mut Vec<u8>) {
    out.push(KIND_MARK);
    put_difference(out, &mut base.time, time.0);
}

fn encode_sample(base: &mut Base, sample: &Sample, out: &mut Vec<u8>) {
    let same_task = (base.pid, base.tid) == (sample.pid.0, sample.tid.0);
    let same_cpu = base.cpu == sample.cpu.0;
    let detail = sample.kind != AccessKind::Unknown
        || sample.served != ServedBy::Unknown
        || sample.weight != 0;
    let flag = |set, flag| if set { flag } else { 0 };
    out.push(
        KIND_SAMPLE
            | flag(same_task, SAME_TASK)
            | flag(same_cpu, SAME_CPU)
            | flag(sample.period == 1, PERIOD_ONE)
            | flag(detail, DETAIL)
            | flag(sample.physical != 0, PHYSICAL),
    );
    if !same_task {
        (base.pid, base.tid) = (sample.pid.0, sample.tid.0);
        put(out, u64::from(base.pid));
        put(out, u64::from(base.tid));
    }
    if !same_cpu {
        base.cpu = sample.cpu.0;
        put(out, u64::from(base.cpu));
    }
    put_difference(out, &mut base.time, sample.time.0);
    put_difference(out, &mut base.address, sample.address);
    if sample.period != 1 {
        put(out, sample.period);
    }
    if detail {
        out.push(kind_number(sample.kind) | served_number(sample.served) << 4);
        put(out, u64::from(sample.weight));
    }
    if sample.physical != 0 {
        put_difference(out, &mut base.physical, sample.physical);
    }
}

fn encode_lifecycle(base: &mut Base, lifecycle: &Lifecycle, out: &mut Vec<u8>) {
    match lifecycle {
        Lifecycle::Fork {
            time,
            pid,
            tid,
            parent,
        } => {
            out.push(KIND_FORK);
            put_difference(out, &mut base.time, time.0);
            [pid.0, tid.0, parent.0]
                .into_iter()
                .for_each(|id| put(out, u64::from(id)));
        }
        Lifecycle::Exit { time, pid, tid } => {
            out.push(KIND_EXIT);
            put_difference(out, &mut base.time, time.0);
            [pid.0, tid.0]
                .into_iter()
                .for_each(|id| put(out, u64::from(id)));
        }
        Lifecycle::Renamed {
            time,
            pid,
            tid,
            name,
            exec,
        } => {
            out.push(KIND_NAMED | if *exec { EXEC } else { 0 });
            put_difference(out, &mut base.time, time.0);
            [pid.0, tid.0]
                .into_iter()
                .for_each(|id| put(out, u64::from(id)));
            let name = &name[..name.floor_char_boundary(NAME_BYTES_MAX)];
            put(out, name.len() as u64);
            out.extend(name.as_bytes());
        }
    }
}

/// Takes an entry from the front of `bytes`; says what is wrong if there is none.
pub(super) fn decode(base: &mut Base, bytes: &mut &[u8]) -> Result<Entry, &'static str> {
    let tag = byte(bytes)?;
    let flags = tag & !KIND_MASK;
    let known = match tag & KIND_MASK {
        KIND_SAMPLE => SAME_TASK | SAME_CPU | PERIOD_ONE | DETAIL | PHYSICAL,
        KIND_NAMED => EXEC,
        _ => 0,
    };
    if flags & !known != 0 {
        return Err("an entry has unknown flags");
    }
    Ok(match tag & KIND_MASK {
        KIND_SAMPLE => Entry::Record(Record::Sample(decode_sample(base, flags, bytes)?)),
        KIND_LOST => Entry::Record(Record::Lost(number(bytes)?)),
        KIND_SENT if base.messages => Entry::Record(Record::Sent(Sent {
            from: Pid(small(bytes)?),
            to: Pid(small(bytes)?),
            bytes: number(bytes)?,
            messages: number(bytes)?,
        })),
        KIND_MARK => Entry::Mark(Time(difference(bytes, &mut base.time)?)),
        kind @ (KIND_FORK | KIND_EXIT | KIND_NAMED) => Entry::Record(Record::Lifecycle(
            decode_lifecycle(base, kind, flags, bytes)?,
        )),
        _ => return Err("an entry is of unknown kind"),
    })
}

fn decode_sample(base: &mut Base, flags: u8, bytes: &mut &[u8]) -> Result<Sample, &'static str> {
    if flags & SAME_TASK == 0 {
        base.pid = small(bytes)?;
        base.tid = small(bytes)?;
    }
    if flags & SAME_CPU == 0 {
        base.cpu = small(bytes)?;
    }
    let time = Time(difference(bytes, &mut base.time)?);
    let address = difference(bytes, &mut base.address)?;
    let period = if flags & PERIOD_ONE == 0 {
        number(bytes)?
    } else {
        1
    };
    let (detail, weight) = if flags & DETAIL == 0 {
        (0, 0)
    } else {
        (byte(bytes)?, small(bytes)?)
    };
    let physical = if flags & PHYSICAL == 0 {
        0
    } else {
        difference(bytes, &mut base.physical)?
    };
    Ok(Sample {
        time,
        pid: Pid(base.pid),
        tid: Tid(base.tid),
        address,
        physical,
        cpu: CpuId(base.cpu),
        kind: kind(detail & 0xf).ok_or("a sample is of unknown kind")?,
        served: served(detail >> 4).ok_or("a sample was served by an unknown level")?,
        weight,
        period,
    })
}

fn decode_lifecycle(
    base: &mut Base,
    kind: u8,
    flags: u8,
    bytes: &mut &[u8],
) -> Result<Lifecycle, &'static str> {
    let time = Time(difference(bytes, &mut base.time)?);
    let pid = Pid(small(bytes)?);
    let tid = Tid(small(bytes)?);
    Ok(match kind {
        KIND_FORK => Lifecycle::Fork {
            time,
            pid,
            tid,
            parent: Pid(small(bytes)?),
        },
        KIND_EXIT => Lifecycle::Exit { time, pid, tid },
        _ => {
            let length = usize::try_from(number(bytes)?).unwrap_or(usize::MAX);
            if length > NAME_BYTES_MAX {
                return Err("a name is too long");
            }
            let (name, rest) = bytes.split_at_checked(length).ok_or(SHORT)?;
            *bytes = rest;
            let name = str::from_utf8(name).map_err(|_not_text| "a name is not text")?;
            Lifecycle::Renamed {
                time,
                pid,
                tid,
                name: name.to_owned(),
                exec: flags & EXEC != 0,
            }
        }
    })
}

const fn kind_number(kind: AccessKind) -> u8 {
    match kind {
        AccessKind::Unknown => 0,
        AccessKind::Load => 1,
        AccessKind::Store => 2,
    }
}

const fn kind(number: u8) -> Option<AccessKind> {
    Some(match number {
        0 => AccessKind::Unknown,
        1 => AccessKind::Load,
        2 => AccessKind::Store,
        _ => return None,
    })
}

const fn served_number(served: ServedBy) -> u8 {
    match served {
        ServedBy::Unknown => 0,
        ServedBy::L1 => 1,
        ServedBy::L2 => 2,
        ServedBy::L3 => 3,
        ServedBy::OtherCache => 4,
        ServedBy::LocalMemory => 5,
        ServedBy::RemoteMemory => 6,
    }
}

const fn served(number: u8) -> Option<ServedBy> {
    Some(match number {
        0 => ServedBy::Unknown,
        1 => ServedBy::L1,
        2 => ServedBy::L2,
        3 => ServedBy::L3,
        4 => ServedBy::OtherCache,
        5 => ServedBy::LocalMemory,
        6 => ServedBy::RemoteMemory,
        _ => return None,
    })
}

const SHORT: &str = "an entry is cut short";

/// Appends a number, seven bits to a byte, lowest first.
pub(super) fn put(out: &mut Vec<u8>, mut number: u64) {
    loop {
        let [low, ..] = number.to_le_bytes();
        number >>= 7;
        if number == 0 {
            out.push(low);
            return;
        }
        out.push(low | 0x80);
    }
}

/// Appends the difference to `base`, and makes `number` the new base.
fn put_difference(out: &mut Vec<u8>, base: &mut u64, number: u64) {
    let difference = number.wrapping_sub(*base).cast_signed();
    put(out, (difference << 1 ^ difference >> 63).cast_unsigned());
    *base = number;
}

fn byte(bytes: &mut &[u8]) -> Result<u8, &'static str> {
    let (first, rest) = bytes.split_first().ok_or(SHORT)?;
    *bytes = rest;
    Ok(*first)
}

/// Takes a number.
pub(super) fn number(bytes: &mut &[u8]) -> Result<u64, &'static str> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let byte = byte(bytes)?;
        let bits = u64::from(byte & 0x7f);
        if bits << shift >> shift != bits {
            break;
        }
        number |= bits << shift;
        if byte & 0x80 == 0 {
            return Ok(number);
        }
    }
    Err("a number is too large")
}

fn small(bytes: &mut &[u8]) -> Result<u32, &'static str> {
    u32::try_from(number(bytes)?).map_err(|_too_large| "a number is too large")
}

fn difference(bytes: &mut &[u8], base: &mut u64) -> Result<u64, &'static str> {
    let folded = number(bytes)?;
    let difference = (folded >> 1) ^ (folded & 1).wrapping_neg();
    *base = base.wrapping_add(difference);
    Ok(*base)
}
