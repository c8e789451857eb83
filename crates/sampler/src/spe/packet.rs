//! Packets of the Statistical Profiling Extension: bytes to values. Total: any bytes give a packet or
//! a [`Damage`].
//!
//! The format is that of the Arm Architecture Reference Manual (DDI 0487), chapter "Statistical
//! Profiling Extension sample record specification". A packet is a header of one byte, or of two where
//! the first is an extension, and a payload whose size two bits of the header tell. Numbers are little
//! endian whatever the processor is set to.

use crate::decode::Damage;

/// One packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packet {
    /// Nothing: filling between records, or up to an alignment.
    Padding,
    /// The record ends here, and has no timestamp.
    End,
    /// When, on the processor's timer; the record ends here.
    Timestamp(u64),
    /// What happened, one bit each: see [`super::record::events`].
    Events(u64),
    /// What answered, in numbers of the processor's maker.
    DataSource(u64),
    /// The thread, as the kernel wrote it into the context register.
    Context {
        /// 0 for the register of EL1, 1 for that of EL2.
        index: u8,
        /// What the register held.
        id: u32,
    },
    /// What was sampled.
    Operation {
        /// 0 for anything else, 1 for an access to memory, 2 for a branch.
        class: u8,
        /// More about it; what it means depends on the class.
        payload: u8,
    },
    /// An address.
    Address {
        /// Of what: see the `ADDRESS_` constants.
        index: u8,
        /// The address, in its highest byte more about it.
        payload: u64,
    },
    /// Cycles that something took.
    Counter {
        /// What: see the `COUNTER_` constants.
        index: u8,
        /// How many.
        cycles: u16,
    },
}

/// An address of the instruction.
pub const ADDRESS_INSTRUCTION: u8 = 0;
/// Where a branch went.
pub const ADDRESS_BRANCH: u8 = 1;
/// Virtual address of the data.
pub const ADDRESS_DATA: u8 = 2;
/// Physical address of the data.
pub const ADDRESS_PHYSICAL: u8 = 3;

/// From dispatch to completion.
pub const COUNTER_TOTAL: u8 = 0;
/// From dispatch to issue.
pub const COUNTER_ISSUE: u8 = 1;
/// Translating the address.
pub const COUNTER_TRANSLATION: u8 = 2;

/// An operation that is neither an access nor a branch.
pub const CLASS_OTHER: u8 = 0;
/// A load, a store, or both.
pub const CLASS_MEMORY: u8 = 1;

/// Reads the packet at an offset; gives it and the offset of the next one, which is greater.
///
/// `origin` is where the bytes begin in the buffer that the hardware writes, on which alignment depends.
///
/// # Errors
/// When there is no packet of that kind, or it is longer than what there is; nothing follows from the
/// bytes behind it then.
#[inline]
pub fn packet(bytes: &[u8], at: usize, origin: usize) -> Result<(Packet, usize), Damage> {
    let damage = |reason| Damage { offset: at, reason };
    let header = *bytes.get(at).ok_or_else(|| damage(CUT))?;
    let body = at + 1;
    // The kinds that every record has come first.
    let (packet, size) = match header {
        0b1011_0000..=0b1011_0111 => address(header & 0b111, payload(bytes, body, 8)),
        0b1001_1000..=0b1001_1111 => counter(header & 0b111, payload(bytes, body, 2)),
        PADDING => return Ok((Packet::Padding, body)),
        END => return Ok((Packet::End, body)),
        TIMESTAMP => (payload(bytes, body, 8).map(Packet::Timestamp), 8),
        _ if header & 0b1100_1111 == 0b0100_0010 => {
            let size = payload_bytes(header);
            (payload(bytes, body, size).map(Packet::Events), size)
        }
        _ if header & 0b1100_1111 == 0b0100_0011 => {
            let size = payload_bytes(header);
            (payload(bytes, body, size).map(Packet::DataSource), size)
        }
        0b0110_0100..=0b0110_0111 => (context(header & 0b11, payload(bytes, body, 4)), 4),
        0b0100_1000..=0b0100_1011 => (operation(header & 0b11, payload(bytes, body, 1)), 1),
        0b0010_0000..=0b0011_1111 => return extended(bytes, at, origin),
        _ => return Err(damage("has a packet of no known kind")),
    };
    packet
        .map(|packet| (packet, body + size))
        .ok_or_else(|| damage(CUT))
}

/// A packet whose header has a second byte.
fn extended(bytes: &[u8], at: usize, origin: usize) -> Result<(Packet, usize), Damage> {
    let damage = |reason| Damage { offset: at, reason };
    let first = bytes.get(at).ok_or_else(|| damage(CUT))?;
    let second = *bytes.get(at + 1).ok_or_else(|| damage(CUT))?;
    let body = at + 2;
    let index = (first & 0b11) << 3 | second & 0b111;
    let (packet, size) = match second {
        0 => return Ok((Packet::Padding, aligned(bytes, at, origin, first & 0xf))),
        0b1011_0000..=0b1011_0111 => address(index, payload(bytes, body, 8)),
        0b1001_1000..=0b1001_1111 => counter(index, payload(bytes, body, 2)),
        _ => return Err(damage("has an extended packet of no known kind")),
    };
    packet
        .map(|packet| (packet, body + size))
        .ok_or_else(|| damage(CUT))
}

/// The offset up to which an alignment packet fills; where the bytes end if that comes first.
fn aligned(bytes: &[u8], at: usize, origin: usize, exponent: u8) -> usize {
    let boundary = 2usize << exponent;
    let place = origin.wrapping_add(at) & (boundary - 1);
    // The packet itself takes two bytes, wherever it lies.
    (at + (boundary - place)).max(at + 2).min(bytes.len())
}

fn address(index: u8, payload: Option<u64>) -> (Option<Packet>, usize) {
    let packet = payload.map(|payload| Packet::Address { index, payload });
    (packet, 8)
}

fn counter(index: u8, payload: Option<u64>) -> (Option<Packet>, usize) {
    let cycles = payload.and_then(|payload| u16::try_from(payload).ok());
    (cycles.map(|cycles| Packet::Counter { index, cycles }), 2)
}

fn context(index: u8, payload: Option<u64>) -> Option<Packet> {
    let id = payload.and_then(|payload| u32::try_from(payload).ok())?;
    Some(Packet::Context { index, id })
}

fn operation(class: u8, payload: Option<u64>) -> Option<Packet> {
    let payload = payload.and_then(|payload| u8::try_from(payload).ok())?;
    Some(Packet::Operation { class, payload })
}

/// The size that bits 4 and 5 of a header tell.
const fn payload_bytes(header: u8) -> usize {
    1 << (header >> 4 & 0b11)
}

/// A little-endian number of 1, 2, 4 or 8 bytes; none if there are not as many.
#[inline]
fn payload(bytes: &[u8], at: usize, size: usize) -> Option<u64> {
    // Nearly always there are eight bytes to read, and what is too much is cut off.
    if let Some(word) = bytes.get(at..).and_then(<[u8]>::first_chunk::<8>) {
        return Some(u64::from_le_bytes(*word) & u64::MAX >> (64 - 8 * size));
    }
    let few = bytes.get(at..at + size)?;
    let mut word = [0; 8];
    for (to, from) in word.iter_mut().zip(few) {
        *to = *from;
    }
    Some(u64::from_le_bytes(word))
}

/// Decodes all records in bytes, for fuzzing: two bytes of where they begin in a buffer, then records.
/// Gives how many were whole and how many places were damaged.
#[must_use]
pub fn check(data: &[u8]) -> (u64, u64) {
    let Some((origin, bytes)) = data.split_first_chunk() else {
        return (0, 0);
    };
    let origin = usize::from(u16::from_le_bytes(*origin));
    let mut sum = 0u64;
    let tally = super::record::records(bytes, origin, &mut |record| {
        sum = sum.wrapping_add(record.total_cycles.into());
        sum = sum.wrapping_add(record.data_address().unwrap_or_default());
    });
    std::hint::black_box(sum);
    (tally.records, tally.damaged)
}

/// The header of padding.
const PADDING: u8 = 0;
/// The header of a record's end without a timestamp.
const END: u8 = 1;
/// The header of a timestamp.
pub(super) const TIMESTAMP: u8 = 0b0111_0001;

const CUT: &str = "is cut off within a packet";

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_one(bytes: &[u8], expected: Packet) {
        assert_eq!(packet(bytes, 0, 0), Ok((expected, bytes.len())));
        // Whatever follows changes nothing, and a cut anywhere is damage.
        let more = [bytes, &[0xff; 12]].concat();
        assert_eq!(packet(&more, 0, 0), Ok((expected, bytes.len())));
        for cut in 0..bytes.len() {
            let Err(damage) = packet(&bytes[..cut], 0, 0) else {
                panic!("cut at {cut}");
            };
            assert_eq!((damage.offset, damage.reason), (0, CUT));
        }
    }

    /// Packets as real processors wrote them, with what perf says of them: from dumps on the kernel's
    /// mailing lists ("KVM SPE support" of 2020, "Decode ASE and FP" of 2025) and from the tests of
    /// other decoders (quipper, and Arm's `spe-parser`).
    #[test]
    fn packets_of_real_processors() {
        check_one(
            &[0xb0, 0xf4, 0xd3, 0x29, 0x10, 0x00, 0x80, 0xff, 0xa0],
            Packet::Address {
                index: ADDRESS_INSTRUCTION,
                payload: 0xa0ff_8000_1029_d3f4,
            },
        );
        check_one(
            &[0x99, 0x0b, 0x00],
            Packet::Counter {
                index: COUNTER_ISSUE,
                cycles: 11,
            },
        );
        check_one(
            &[0x71, 0xa5, 0x1f, 0xb3, 0x20, 0x14, 0, 0, 0],
            Packet::Timestamp(86_447_955_877),
        );
        check_one(&[0x52, 0x16, 0x00], Packet::Events(0x16));
        check_one(&[0x42, 0x16], Packet::Events(0x16));
        check_one(
            &[0x98, 0x0c, 0x00],
            Packet::Counter {
                index: COUNTER_TOTAL,
                cycles: 12,
            },
        );
        check_one(
            &[0x65, 0x80, 0x5f, 0x00, 0x00],
            Packet::Context {
                index: 1,
                id: 0x5f80,
            },
        );
        check_one(
            &[0x49, 0x16],
            Packet::Operation {
                class: CLASS_MEMORY,
                payload: 0x16,
            },
        );
        check_one(
            &[0x4a, 0x01],
            Packet::Operation {
                class: 2,
                payload: 1,
            },
        );
        check_one(&[0x43, 0x0e], Packet::DataSource(0xe));
        check_one(
            &[0xb3, 0x43, 0x5a, 0x95, 0x2c, 0x03, 0x08, 0x00, 0x80],
            Packet::Address {
                index: ADDRESS_PHYSICAL,
                payload: 0x8000_0803_2c95_5a43,
            },
        );
    }

    #[test]
    fn every_size_of_payload_is_read() {
        let bytes = [1u8, 2, 3, 4, 5, 6, 7, 8];
        for (size, value) in [
            (1, 0x1),
            (2, 0x201),
            (4, 0x0403_0201),
            (8, 0x0807_0605_0403_0201),
        ] {
            let bits = u8::try_from(usize::ilog2(size)).unwrap() << 4;
            check_one(
                &[&[0x42 | bits], &bytes[..size]].concat(),
                Packet::Events(value),
            );
            check_one(
                &[&[0x43 | bits], &bytes[..size]].concat(),
                Packet::DataSource(value),
            );
        }
    }

    #[test]
    fn extended_headers_carry_more_of_the_index() {
        check_one(
            &[0x21, 0x9a, 7, 0],
            Packet::Counter {
                index: 0b01_010,
                cycles: 7,
            },
        );
        check_one(
            &[0x23, 0xb5, 1, 0, 0, 0, 0, 0, 0, 2],
            Packet::Address {
                index: 0b11_101,
                payload: 0x0200_0000_0000_0001,
            },
        );
    }

    #[test]
    fn alignment_fills_to_the_boundary_of_the_buffer() {
        let mut bytes = [0xffu8; 100];
        bytes[10..12].copy_from_slice(&[0x25, 0x00]); // to 64
        assert_eq!(packet(&bytes, 10, 0), Ok((Packet::Padding, 64)));
        assert_eq!(packet(&bytes, 10, 64 - 12), Ok((Packet::Padding, 12)));
        assert_eq!(packet(&bytes, 10, 4096 - 11), Ok((Packet::Padding, 12)));
        assert_eq!(
            packet(&bytes, 10, 64 - 10),
            Ok((Packet::Padding, 74)),
            "on a boundary it fills to the next"
        );
        bytes[10] = 0x2f;
        assert_eq!(
            packet(&bytes, 10, 0),
            Ok((Packet::Padding, 100)),
            "to the end"
        );
    }

    #[test]
    fn unknown_headers_are_damage() {
        let known = |header: u8| {
            matches!(header, 0 | 1 | 0x71 | 0x64..=0x67 | 0x48..=0x4b | 0x98..=0x9f | 0xb0..=0xb7)
                || matches!(header & 0xcf, 0x42 | 0x43)
        };
        for header in 0..=255u8 {
            let bytes = [header, 0x55, 0, 0, 0, 0, 0, 0, 0];
            assert_eq!(packet(&bytes, 0, 0).is_ok(), known(header), "{header:#x}");
        }
    }
}
