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
    let remote = source >> 37 & 1 != 0;
    let modified_elsewhere = source >> 19 & SNOOP_HIT_MODIFIED != 0;
    match source >> 33 & 0xf {
        NUMBER_L1 | NUMBER_FILL_BUFFER => ServedBy::L1,
        NUMBER_L2 => ServedBy::L2,
        NUMBER_L3 | NUMBER_ANY_CACHE if remote || modified_elsewhere => ServedBy::OtherCache,
        NUMBER_L3 => ServedBy::L3,
        NUMBER_RAM | NUMBER_PERSISTENT if remote => ServedBy::RemoteMemory,
        NUMBER_RAM | NUMBER_PERSISTENT => ServedBy::LocalMemory,
        0 | NUMBER_NONE => served_by_level_bits(source, modified_elsewhere),
        _ => ServedBy::Unknown,
    }
}

const fn served_by_level_bits(source: u64, modified_elsewhere: bool) -> ServedBy {
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
        if modified_elsewhere {
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

const NUMBER_L1: u64 = 1;
const NUMBER_L2: u64 = 2;
const NUMBER_L3: u64 = 3;
const NUMBER_ANY_CACHE: u64 = 0xb;
const NUMBER_FILL_BUFFER: u64 = 0xc;
const NUMBER_RAM: u64 = 0xd;
const NUMBER_PERSISTENT: u64 = 0xe;
const NUMBER_NONE: u64 = 0xf;

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(source: u64, expected: (AccessKind, ServedBy)) {
        assert_eq!((kind(source), served(source)), expected, "{source:#x}");
    }

    /// Values that real processors gave, as printed by perf on linux-perf-users: Intel, with both
    /// level bits and level numbers.
    #[test]
    fn values_of_real_processors() {
        check(0x106_6810_0842, (AccessKind::Load, ServedBy::L3));
        check(0x118_6810_0242, (AccessKind::Load, ServedBy::L1));
        check(0x104_6810_0442, (AccessKind::Load, ServedBy::L2));
        check(0x102_6a10_0142, (AccessKind::Load, ServedBy::L1));
        // Ivy Bridge: level bits alone.
        check(0x6810_0442, (AccessKind::Load, ServedBy::L2));
        check(0x6810_0142, (AccessKind::Load, ServedBy::L1));
    }

    #[test]
    fn memory_and_other_caches() {
        let number = |number: u64| number << 33;
        let remote = 1 << 37;
        check(
            number(NUMBER_RAM) | 4,
            (AccessKind::Store, ServedBy::LocalMemory),
        );
        check(
            number(NUMBER_RAM) | remote | 6,
            (AccessKind::Store, ServedBy::RemoteMemory),
        );
        check(
            number(NUMBER_ANY_CACHE) | remote | 2,
            (AccessKind::Load, ServedBy::OtherCache),
        );
        check(
            number(NUMBER_L3) | 0x10 << 19,
            (AccessKind::Unknown, ServedBy::OtherCache),
        );
        check(
            LEVEL_LOCAL_RAM << 5 | 2,
            (AccessKind::Load, ServedBy::LocalMemory),
        );
        check(0x100 << 5 | 2, (AccessKind::Load, ServedBy::RemoteMemory));
        check(0x400 << 5 | 2, (AccessKind::Load, ServedBy::OtherCache));
        check(
            (LEVEL_L1 | LEVEL_MISS) << 5 | 2,
            (AccessKind::Load, ServedBy::Unknown),
        );
        check(1, (AccessKind::Unknown, ServedBy::Unknown));
    }
}
