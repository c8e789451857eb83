//! The kernel's `perf_mem_data_src`: what kind of access a sample was and what answered it.
//!
//! Bits are those of `include/uapi/linux/perf_event.h`. Processors fill either the old level bits
//! or the newer level number, or both; the number wins because the old bits cannot name all levels.

use numad_core::{AccessKind, ServedBy};

/// Load or store. An access that is both (a locked exchange) is a store: that is what others feel.
#[must_use]
pub const fn kind(source: u64) -> AccessKind {
    let operation = source & 0x1f;
    if operation & OPERATION_STORE != 0 {
        AccessKind::Store
    } else if operation & OPERATION_LOAD != 0 {
        AccessKind::Load
    } else {
        AccessKind::Unknown
    }
}

/// What answered.
#[must_use]
pub const fn served(source: u64) -> ServedBy {
    match served_by_number(source) {
        ServedBy::Unknown if number(source) == 0 || number(source) == NUMBER_NONE => {
            served_by_level_bits(source)
        }
        served => served,
    }
}

/// Whether the parts of a source can be true together. A cache of the core itself is not remote, is
/// no hops away and cannot be modified elsewhere; the old bits and the number mean the same level.
///
/// What is not told contradicts nothing.
#[must_use]
pub const fn is_consistent(source: u64) -> bool {
    let by_number = served_by_number(source);
    let by_bits = served_by_level_bits(source);
    let own = matches!(by_number, ServedBy::L1 | ServedBy::L2)
        || (matches!(by_number, ServedBy::Unknown)
            && matches!(by_bits, ServedBy::L1 | ServedBy::L2));
    if own && (is_remote(source) || hops(source) != 0 || is_modified_elsewhere(source)) {
        return false;
    }
    // Nothing but an access has a level.
    let says_level = !matches!(served(source), ServedBy::Unknown);
    if says_level
        && source & OPERATION_NOT_AVAILABLE != 0
        && !matches!(kind(source), AccessKind::Unknown)
    {
        return false;
    }
    matches!(by_number, ServedBy::Unknown)
        || matches!(by_bits, ServedBy::Unknown)
        || rank(by_number) == rank(by_bits)
}

/// Levels that the two ways of telling may confuse have the same rank: a last cache that had to ask
/// another core's, memory here or elsewhere.
const fn rank(served: ServedBy) -> u8 {
    match served {
        ServedBy::Unknown => 0,
        ServedBy::L1 => 1,
        ServedBy::L2 => 2,
        ServedBy::L3 | ServedBy::OtherCache => 3,
        ServedBy::LocalMemory | ServedBy::RemoteMemory => 4,
    }
}

const fn number(source: u64) -> u64 {
    source >> 33 & 0xf
}

/// Answered from elsewhere than the own node, or, with hops, the own core.
const fn is_remote(source: u64) -> bool {
    source >> 37 & 1 != 0
}

/// How far away it was answered: 0 not told, 1 another core, 2 another node of the package, 3 another
/// package, 4 another board.
const fn hops(source: u64) -> u64 {
    source >> 43 & 0x7
}

/// Which region of memory or caches it is of, where the processor tells (Linux 7.0); 0 elsewhere.
const fn region(source: u64) -> u64 {
    source >> 46 & 0x1f
}

const fn is_modified_elsewhere(source: u64) -> bool {
    source >> 19 & SNOOP_HIT_MODIFIED != 0
}

/// Whether another core's cache handed the line over, modified or not.
const fn is_from_other_cache(source: u64) -> bool {
    is_remote(source)
        || hops(source) != 0
        || is_modified_elsewhere(source)
        || source >> 38 & (SNOOPX_FORWARD | SNOOPX_PEER) != 0
}

const fn served_by_number(source: u64) -> ServedBy {
    match number(source) {
        NUMBER_L0 | NUMBER_L1 | NUMBER_FILL_BUFFER => ServedBy::L1,
        // Power tells a neighbour's second cache so.
        NUMBER_L2 | NUMBER_L2_MISS_BUFFER if is_remote(source) => ServedBy::OtherCache,
        NUMBER_L2 | NUMBER_L2_MISS_BUFFER => ServedBy::L2,
        NUMBER_L3 | NUMBER_L4 | NUMBER_ANY_CACHE if is_from_other_cache(source) => {
            ServedBy::OtherCache
        }
        NUMBER_L3 | NUMBER_L4 => ServedBy::L3,
        NUMBER_RAM if region(source) == REGION_DEVICES => ServedBy::Unknown,
        NUMBER_RAM | NUMBER_PERSISTENT | NUMBER_MEMORY_CACHE if is_remote(source) => {
            ServedBy::RemoteMemory
        }
        NUMBER_RAM | NUMBER_PERSISTENT | NUMBER_MEMORY_CACHE => ServedBy::LocalMemory,
        // Memory behind CXL is a node of its own, which has no processors.
        NUMBER_CXL => ServedBy::RemoteMemory,
        // Uncached memory and devices have no home that could be moved.
        _ => ServedBy::Unknown,
    }
}

const fn served_by_level_bits(source: u64) -> ServedBy {
    let level = source >> 5 & 0x3fff;
    // A miss in a level says what did not answer.
    if level & LEVEL_MISS != 0 {
        return ServedBy::Unknown;
    }
    if level & (LEVEL_L1 | LEVEL_FILL_BUFFER) != 0 {
        ServedBy::L1
    } else if level & LEVEL_L2 != 0 {
        ServedBy::L2
    } else if level & LEVEL_REMOTE_CACHE != 0 {
        ServedBy::OtherCache
    } else if level & LEVEL_L3 != 0 {
        if is_from_other_cache(source) {
            ServedBy::OtherCache
        } else {
            ServedBy::L3
        }
    } else if level & LEVEL_LOCAL_RAM != 0 {
        ServedBy::LocalMemory
    } else if level & LEVEL_REMOTE_RAM != 0 {
        ServedBy::RemoteMemory
    } else {
        ServedBy::Unknown
    }
}

const OPERATION_NOT_AVAILABLE: u64 = 0x1;
const OPERATION_LOAD: u64 = 0x2;
const OPERATION_STORE: u64 = 0x4;

const LEVEL_MISS: u64 = 0x4;
const LEVEL_L1: u64 = 0x8;
const LEVEL_FILL_BUFFER: u64 = 0x10;
const LEVEL_L2: u64 = 0x20;
const LEVEL_L3: u64 = 0x40;
const LEVEL_LOCAL_RAM: u64 = 0x80;
const LEVEL_REMOTE_RAM: u64 = 0x100 | 0x200;
const LEVEL_REMOTE_CACHE: u64 = 0x400 | 0x800;

const SNOOP_HIT_MODIFIED: u64 = 0x10;
const SNOOPX_FORWARD: u64 = 0x1;
const SNOOPX_PEER: u64 = 0x2;

const NUMBER_L1: u64 = 1;
const NUMBER_L2: u64 = 2;
const NUMBER_L3: u64 = 3;
const NUMBER_L4: u64 = 4;
const NUMBER_L2_MISS_BUFFER: u64 = 5;
const NUMBER_MEMORY_CACHE: u64 = 6;
/// A cache before the first (Linux 7.0).
const NUMBER_L0: u64 = 7;
const NUMBER_CXL: u64 = 9;
const NUMBER_ANY_CACHE: u64 = 0xb;
const NUMBER_FILL_BUFFER: u64 = 0xc;
const NUMBER_RAM: u64 = 0xd;
const NUMBER_PERSISTENT: u64 = 0xe;
const NUMBER_NONE: u64 = 0xf;

/// Registers of devices, which are told as memory.
const REGION_DEVICES: u64 = 7;

#[cfg(test)]
mod tests;
