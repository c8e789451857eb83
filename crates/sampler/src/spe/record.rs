//! Packets to sample records.
//!
//! A record is a row of packets up to a timestamp or an end. Which packets it has is the processor's
//! choice; the order does not matter.

use numad_core::{AccessKind, ServedBy};

use super::packet::{
    self, ADDRESS_DATA, ADDRESS_INSTRUCTION, ADDRESS_PHYSICAL, CLASS_MEMORY, COUNTER_ISSUE,
    COUNTER_TOTAL, COUNTER_TRANSLATION, Packet,
};
use crate::decode::Damage;

/// What happened to an operation: bits of [`SpeRecord::events`].
pub mod events {
    /// It ended in an exception.
    pub const EXCEPTION: u64 = 1 << 0;
    /// It was retired.
    pub const RETIRED: u64 = 1 << 1;
    /// It asked the core's first cache.
    pub const L1_ACCESS: u64 = 1 << 2;
    /// The first cache did not have it.
    pub const L1_REFILL: u64 = 1 << 3;
    /// It asked for a translation.
    pub const TLB_ACCESS: u64 = 1 << 4;
    /// The translation had to be walked for.
    pub const TLB_WALK: u64 = 1 << 5;
    /// A branch that was not taken.
    pub const NOT_TAKEN: u64 = 1 << 6;
    /// A branch that was mispredicted.
    pub const MISPREDICTED: u64 = 1 << 7;
    /// It asked the last cache.
    pub const LAST_LEVEL_ACCESS: u64 = 1 << 8;
    /// The last cache did not have it.
    pub const LAST_LEVEL_MISS: u64 = 1 << 9;
    /// It was answered by another socket.
    pub const REMOTE_ACCESS: u64 = 1 << 10;
    /// It asked the second cache (of processors with FEAT_SPEv1p4).
    pub const L2_ACCESS: u64 = 1 << 19;
    /// The second cache did not have it.
    pub const L2_MISS: u64 = 1 << 20;
}

/// One sampled operation. What the processor did not say is none, or zero among the cycles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpeRecord {
    /// What happened: bits of [`events`].
    pub events: u64,
    /// Class and payload of the operation.
    pub operation: Option<(u8, u8)>,
    /// Address of the instruction as written, with its exception level in the highest byte.
    pub instruction: Option<u64>,
    /// Virtual address of the data as written.
    pub data: Option<u64>,
    /// Physical address of the data as written.
    pub physical: Option<u64>,
    /// From dispatch to completion, in cycles.
    pub total_cycles: u16,
    /// From dispatch to issue.
    pub issue_cycles: u16,
    /// For the translation of the address.
    pub translation_cycles: u16,
    /// The thread, if the kernel writes it into the context register.
    pub context: Option<u32>,
    /// What answered, in numbers of the processor's maker.
    pub source: Option<u16>,
    /// When, on the processor's timer.
    pub timestamp: Option<u64>,
}

/// What reading bytes gave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Whole records.
    pub records: u64,
    /// Places where the bytes were no packets.
    pub damaged: u64,
    /// Bytes passed over to find the next record.
    pub skipped_bytes: u64,
    /// The first such place.
    pub first_damage: Option<Damage>,
}

/// Reads the records in bytes that begin with one, and hands each on.
///
/// `origin` is where the bytes begin in the buffer that the hardware writes. Behind damage, reading goes
/// on after the next timestamp, for only there a record is known to end; a record that damage or the
/// end of the bytes cuts off is not handed on. Takes time in proportion to the bytes, whatever they are.
pub fn records(bytes: &[u8], origin: usize, out: &mut impl FnMut(&SpeRecord)) -> Tally {
    let mut tally = Tally::default();
    let mut record = SpeRecord::default();
    let mut begun = false;
    let mut at = 0;
    while at < bytes.len() {
        match packet::packet(bytes, at, origin) {
            // Padding is a third of a record and comes in rows.
            Ok((Packet::Padding, next)) => at = next + zeros(bytes, next),
            Ok((packet, next)) => {
                at = next;
                begun = !record.add(packet);
                if !begun {
                    tally.records += 1;
                    out(&record);
                    record = SpeRecord::default();
                }
            }
            Err(damage) => {
                at = resume(bytes, at);
                tally.damage(damage, at);
                record = SpeRecord::default();
                begun = false;
            }
        }
    }
    if begun {
        let damage = Damage {
            offset: bytes.len(),
            reason: "is cut off before its last packet",
        };
        tally.damage(damage, bytes.len());
    }
    tally
}

/// How many bytes of padding there are from a place on.
#[inline]
fn zeros(bytes: &[u8], at: usize) -> usize {
    let rest = bytes.get(at..).unwrap_or_default();
    let padding = rest.iter().take_while(|byte| **byte == 0);
    padding.count()
}

/// Where a record may begin again: behind the first timestamp after the damage, whose highest byte is
/// zero on every processor (timers have at most 56 bits that count in a lifetime).
fn resume(bytes: &[u8], damaged: usize) -> usize {
    bytes
        .get(damaged + 1..)
        .unwrap_or_default()
        .windows(TIMESTAMP_BYTES)
        .position(|window| window.first() == Some(&packet::TIMESTAMP) && window.last() == Some(&0))
        .map_or(bytes.len(), |ahead| damaged + 1 + ahead + TIMESTAMP_BYTES)
}

impl Tally {
    fn damage(&mut self, damage: Damage, resumed: usize) {
        self.damaged += 1;
        self.skipped_bytes += (resumed - damage.offset) as u64;
        self.first_damage.get_or_insert(damage);
    }
}

impl SpeRecord {
    /// Takes in what a packet says; true if it is the record's last.
    #[inline]
    fn add(&mut self, packet: Packet) -> bool {
        match packet {
            Packet::Padding => {}
            Packet::End => return true,
            Packet::Timestamp(time) => {
                self.timestamp = Some(time);
                return true;
            }
            Packet::Events(bits) => self.events = bits,
            // Numbers beyond 16 bits are of no known maker.
            Packet::DataSource(source) => {
                self.source = Some(u16::try_from(source).unwrap_or(u16::MAX));
            }
            Packet::Context { id, .. } => self.context = Some(id),
            Packet::Operation { class, payload } => self.operation = Some((class, payload)),
            Packet::Address { index, payload } => match index {
                ADDRESS_INSTRUCTION => self.instruction = Some(payload),
                ADDRESS_DATA => self.data = Some(payload),
                ADDRESS_PHYSICAL => self.physical = Some(payload),
                _ => {}
            },
            Packet::Counter { index, cycles } => match index {
                COUNTER_TOTAL => self.total_cycles = cycles,
                COUNTER_ISSUE => self.issue_cycles = cycles,
                COUNTER_TRANSLATION => self.translation_cycles = cycles,
                _ => {}
            },
        }
        false
    }

    /// Virtual address of the data. The highest byte, which programs may use for tags, becomes what the
    /// address would have there without: bit 55 says which half of the address space is meant.
    #[must_use]
    pub fn data_address(&self) -> Option<u64> {
        self.data.map(canonical)
    }

    /// Address of the instruction.
    #[must_use]
    pub fn instruction_address(&self) -> Option<u64> {
        self.instruction.map(canonical)
    }

    /// The exception level that the instruction ran at: 0 for programs.
    #[must_use]
    pub fn exception_level(&self) -> Option<u8> {
        self.instruction
            .map(|address| u8::try_from(address >> 61 & 0b11).unwrap_or(0))
    }

    /// Physical address of the data. The highest byte tells the security state and the tag, and goes.
    #[must_use]
    pub fn physical_address(&self) -> Option<u64> {
        self.physical.map(|address| address & ADDRESS_BITS)
    }

    /// Load or store. An access that is both (an atomic one) is a store: that is what others feel. None
    /// if the operation is no access to memory.
    #[must_use]
    pub fn access(&self) -> Option<AccessKind> {
        match self.operation? {
            (CLASS_MEMORY, payload) => {
                let atomic = payload & EXTENDED_MASK == EXTENDED && payload & EXTENDED_ATOMIC != 0;
                Some(if payload & STORE != 0 || atomic {
                    AccessKind::Store
                } else {
                    AccessKind::Load
                })
            }
            // Vector and matrix operations that reach memory say so by their address alone.
            (packet::CLASS_OTHER, _) if self.data.is_some() => Some(AccessKind::Unknown),
            _ => None,
        }
    }

    /// What answered, as far as it is known: from the maker's number where that maker's numbers are
    /// known, else from the events that the architecture defines.
    #[must_use]
    pub fn served(&self, maker: Option<Maker>) -> ServedBy {
        // The processors with known numbers give none that means anything for stores.
        let load = self.access() == Some(AccessKind::Load);
        match (maker, self.source) {
            (Some(maker), Some(source)) if load => {
                maker.served(source, self.has(events::REMOTE_ACCESS))
            }
            _ => self.served_by_events(),
        }
    }

    /// A cache that was asked and did not miss is the one that answered. A miss in the last one says
    /// what did not answer, and is not guessed further.
    fn served_by_events(&self) -> ServedBy {
        let hit = |access: u64, miss: u64| self.has(access) && !self.has(miss);
        if hit(events::L1_ACCESS, events::L1_REFILL) {
            ServedBy::L1
        } else if hit(events::L2_ACCESS, events::L2_MISS) {
            ServedBy::L2
        } else if hit(events::LAST_LEVEL_ACCESS, events::LAST_LEVEL_MISS)
            && !self.has(events::REMOTE_ACCESS)
        {
            ServedBy::L3
        } else {
            ServedBy::Unknown
        }
    }

    const fn has(&self, event: u64) -> bool {
        self.events & event != 0
    }
}

/// Whose numbers the data-source packets of a processor are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Maker {
    /// Arm's own cores that share one table: Neoverse N1, N2, V1, V2, and Cortex A720, A725, X1C, X3
    /// and X925 (their technical reference manuals, and perf's list of them).
    Arm,
    /// AmpereOne, whose table perf has from Ampere.
    AmpereOne,
}

impl Maker {
    /// From a processor's main identification register (`midr_el1`); none if its numbers are not known,
    /// for they must not be guessed.
    #[must_use]
    pub const fn of(midr: u64) -> Option<Self> {
        match (midr >> 24 & 0xff, midr >> 4 & 0xfff) {
            (0x41, 0xd0c | 0xd49 | 0xd40 | 0xd4f | 0xd81 | 0xd87 | 0xd4c | 0xd4e | 0xd85) => {
                Some(Self::Arm)
            }
            (0xc0, 0xac4) => Some(Self::AmpereOne),
            _ => None,
        }
    }

    const fn served(self, source: u16, remote: bool) -> ServedBy {
        match (self, source) {
            (Self::Arm, 0x0) | (Self::AmpereOne, 0x8) => ServedBy::L1,
            (Self::Arm, 0x8) | (Self::AmpereOne, 0x9) => ServedBy::L2,
            (Self::Arm, 0xb) | (Self::AmpereOne, 0x3) => ServedBy::L3,
            // A core beside, the own cluster, another cluster; and any cache of another socket.
            (Self::Arm, 0x9 | 0xa | 0xc | 0xd) | (Self::AmpereOne, 0x0 | 0x5) => {
                ServedBy::OtherCache
            }
            (Self::Arm, 0xe) | (Self::AmpereOne, 0x7) if remote => ServedBy::RemoteMemory,
            (Self::Arm, 0xe) | (Self::AmpereOne, 0x7) => ServedBy::LocalMemory,
            _ => ServedBy::Unknown,
        }
    }
}

/// An address without what stands in its highest byte.
const fn canonical(address: u64) -> u64 {
    if address & HALF == 0 {
        address & ADDRESS_BITS
    } else {
        address | !ADDRESS_BITS
    }
}

const ADDRESS_BITS: u64 = (1 << 56) - 1;
/// The bit that chooses between the two halves of the address space.
const HALF: u64 = 1 << 55;

/// Of a memory operation's payload: a store.
const STORE: u8 = 1;
/// The bits and value that say the payload is of the extended form.
const EXTENDED_MASK: u8 = 0b1110_0010;
const EXTENDED: u8 = 0b0000_0010;
/// Of that form: atomic.
const EXTENDED_ATOMIC: u8 = 1 << 2;

/// A timestamp packet, header and all.
const TIMESTAMP_BYTES: usize = 9;

#[cfg(test)]
pub(crate) mod tests;
