use proptest::prelude::*;

use super::*;

#[track_caller]
fn check(source: u64, expected: (AccessKind, ServedBy)) {
    assert_eq!((kind(source), served(source)), expected, "{source:#x}");
    assert!(is_consistent(source), "{source:#x}");
}

/// A source put together as the kernel does with `P(field, value)`.
#[derive(Clone, Copy, Default)]
struct Source {
    op: u64,
    level: u64,
    snoop: u64,
    number: u64,
    remote: u64,
    snoopx: u64,
    hops: u64,
    region: u64,
}

impl Source {
    const fn word(self) -> u64 {
        self.op
            | self.level << 5
            | self.snoop << 19
            | self.number << 33
            | self.remote << 37
            | self.snoopx << 38
            | self.hops << 43
            | self.region << 46
    }
}

const HIT: u64 = 2;

fn load() -> Source {
    Source {
        op: OPERATION_LOAD,
        ..Source::default()
    }
}

/// Values that real processors gave, with perf's words for them: fixtures text/data_src-intel-adl.txt,
/// text/data_src-intel-sorted.txt and perf/perf-datasrc.textproto.
#[test]
fn values_of_real_processors() {
    check(0x106_6810_0842, (AccessKind::Load, ServedBy::L3));
    check(0x106_5010_0842, (AccessKind::Load, ServedBy::L3));
    check(0x118_6810_0242, (AccessKind::Load, ServedBy::L1));
    check(0x104_6810_0442, (AccessKind::Load, ServedBy::L2));
    check(0x102_6a10_0142, (AccessKind::Load, ServedBy::L1));
    check(0x102_6810_0142, (AccessKind::Load, ServedBy::L1));
    check(0x402_6810_0142, (AccessKind::Load, ServedBy::L1));
    check(0x402_6a10_0142, (AccessKind::Load, ServedBy::L1));
    check(0x202_6810_0142, (AccessKind::Load, ServedBy::L1));
    // Ivy Bridge: level bits alone.
    check(0x6810_0442, (AccessKind::Load, ServedBy::L2));
    check(0x6810_0242, (AccessKind::Load, ServedBy::L1));
    check(0x6810_0142, (AccessKind::Load, ServedBy::L1));
    // The level alone, without the kind of access.
    check(2_097_472, (AccessKind::Unknown, ServedBy::L1));
    check(4_195_392, (AccessKind::Unknown, ServedBy::L2));
    check(0x102_5010_0142, (AccessKind::Load, ServedBy::L1));
}

/// The table of Skylake servers, `pebs_data_source` with `intel_pmu_pebs_data_source_skl` in
/// `arch/x86/events/intel/ds.c`: bits and number, as the kernel puts them together.
#[test]
fn the_table_of_intel_servers() {
    let l3 = Source {
        level: HIT | LEVEL_L3,
        number: NUMBER_L3,
        ..load()
    };
    check(
        Source { snoop: 2, ..l3 }.word(),
        (AccessKind::Load, ServedBy::L3),
    );
    check(
        Source { snoop: 4, ..l3 }.word(),
        (AccessKind::Load, ServedBy::L3),
    );
    check(
        Source { snoop: 8, ..l3 }.word(),
        (AccessKind::Load, ServedBy::L3),
    );
    check(
        Source { snoop: 16, ..l3 }.word(),
        (AccessKind::Load, ServedBy::OtherCache),
    );
    check(
        Source {
            snoop: 4,
            snoopx: 1,
            ..l3
        }
        .word(),
        (AccessKind::Load, ServedBy::OtherCache),
    );
    let remote_cache = Source {
        level: HIT | 0x400,
        number: NUMBER_L3,
        remote: 1,
        ..load()
    };
    check(
        Source {
            snoop: 4,
            ..remote_cache
        }
        .word(),
        (AccessKind::Load, ServedBy::OtherCache),
    );
    check(
        Source {
            snoop: 16,
            ..remote_cache
        }
        .word(),
        (AccessKind::Load, ServedBy::OtherCache),
    );
}

/// The tables of Diamond Rapids (Linux 7.0), `pnc_pebs_l2_hit_data_source` and
/// `parse_omr_data_source` in the same file: a cache before the first, and devices that are told as
/// a region of memory.
#[test]
fn the_tables_of_intel_servers_with_regions() {
    let l0 = Source {
        number: NUMBER_L0,
        level: HIT,
        snoop: 1,
        ..load()
    };
    check(l0.word(), (AccessKind::Load, ServedBy::L1));
    let memory = Source {
        number: NUMBER_RAM,
        snoop: 2,
        ..load()
    };
    let local = Source {
        level: HIT | LEVEL_LOCAL_RAM,
        region: 8,
        ..memory
    };
    check(local.word(), (AccessKind::Load, ServedBy::LocalMemory));
    let remote = Source {
        level: HIT | 0x100,
        remote: 1,
        region: 15,
        ..memory
    };
    check(remote.word(), (AccessKind::Load, ServedBy::RemoteMemory));
    for remote in [0, 1] {
        let device = Source {
            level: HIT,
            remote,
            region: REGION_DEVICES,
            ..memory
        };
        check(device.word(), (AccessKind::Load, ServedBy::Unknown));
    }
}

/// The rest of it: answers that have no old bit, memory, and what is no level.
#[test]
fn memory_in_the_table_of_intel_servers() {
    let any = Source {
        number: NUMBER_ANY_CACHE,
        remote: 1,
        snoopx: 1,
        ..load()
    };
    check(any.word(), (AccessKind::Load, ServedBy::OtherCache));
    let ram = Source {
        level: HIT | LEVEL_LOCAL_RAM,
        number: NUMBER_RAM,
        snoop: 2,
        ..load()
    };
    check(ram.word(), (AccessKind::Load, ServedBy::LocalMemory));
    let far = Source {
        level: HIT | 0x100,
        remote: 1,
        ..ram
    };
    check(far.word(), (AccessKind::Load, ServedBy::RemoteMemory));
    let persistent = Source {
        number: NUMBER_PERSISTENT,
        remote: 1,
        ..load()
    };
    check(
        persistent.word(),
        (AccessKind::Load, ServedBy::RemoteMemory),
    );
    // Uncached, devices.
    for (level, number) in [(0x2000, 8), (0x1000, 0xa), (0, NUMBER_NONE), (1, 0)] {
        check(
            Source {
                level: HIT | level,
                number,
                ..load()
            }
            .word(),
            (AccessKind::Load, ServedBy::Unknown),
        );
    }
}

/// `perf_ibs_data_src` and `perf_ibs_get_mem_lvl` in `arch/x86/events/amd/ibs.c`.
#[test]
fn what_ibs_tells() {
    let near_cache = Source {
        level: HIT | LEVEL_L3,
        number: NUMBER_ANY_CACHE,
        hops: 1,
        remote: 1,
        ..load()
    };
    check(near_cache.word(), (AccessKind::Load, ServedBy::OtherCache));
    let far_cache = Source {
        level: HIT | 0x400,
        number: NUMBER_ANY_CACHE,
        remote: 1,
        hops: 3,
        ..load()
    };
    check(far_cache.word(), (AccessKind::Load, ServedBy::OtherCache));
    let extension = Source {
        number: NUMBER_CXL,
        ..load()
    };
    check(extension.word(), (AccessKind::Load, ServedBy::RemoteMemory));
    let both = Source {
        op: 6,
        level: HIT | LEVEL_L1,
        number: NUMBER_L1,
        ..Source::default()
    };
    check(both.word(), (AccessKind::Store, ServedBy::L1));
    let no_access = Source {
        op: OPERATION_NOT_AVAILABLE,
        ..Source::default()
    };
    check(no_access.word(), (AccessKind::Unknown, ServedBy::Unknown));
}

/// What the header names and no x86 processor gives: Power and Arm.
#[test]
fn levels_of_other_processors() {
    for (number, served) in [
        (NUMBER_L4, ServedBy::L3),
        (NUMBER_L2_MISS_BUFFER, ServedBy::L2),
        (NUMBER_MEMORY_CACHE, ServedBy::LocalMemory),
    ] {
        check(
            Source { number, ..load() }.word(),
            (AccessKind::Load, served),
        );
    }
    let neighbour = Source {
        number: NUMBER_L2,
        remote: 1,
        hops: 1,
        ..load()
    };
    assert_eq!(served(neighbour.word()), ServedBy::OtherCache);
    let peer = Source {
        number: NUMBER_L3,
        snoopx: 2,
        ..load()
    };
    check(peer.word(), (AccessKind::Load, ServedBy::OtherCache));
    let missed = Source {
        level: LEVEL_L1 | LEVEL_MISS,
        op: 4,
        ..Source::default()
    };
    check(missed.word(), (AccessKind::Store, ServedBy::Unknown));
    let old_remote = Source {
        level: HIT | 0x800,
        ..load()
    };
    check(old_remote.word(), (AccessKind::Load, ServedBy::OtherCache));
    check(
        Source {
            level: HIT | 0x200,
            ..load()
        }
        .word(),
        (AccessKind::Load, ServedBy::RemoteMemory),
    );
}

/// LESSONS 25: hits of the first cache that are said to be far away are not to be believed.
#[test]
fn what_contradicts_itself() {
    let own = Source {
        level: HIT | LEVEL_L1,
        number: NUMBER_L1,
        ..load()
    };
    for source in [
        Source { remote: 1, ..own },
        Source { hops: 3, ..own },
        Source { snoop: 16, ..own },
        Source {
            number: NUMBER_RAM,
            ..own
        },
        Source {
            number: NUMBER_L3,
            ..own
        },
        Source {
            number: NUMBER_L2,
            ..own
        },
        Source {
            op: OPERATION_LOAD | OPERATION_NOT_AVAILABLE,
            ..own
        },
        Source {
            number: 0,
            remote: 1,
            ..own
        },
        Source {
            number: NUMBER_FILL_BUFFER,
            level: 0,
            remote: 1,
            ..own
        },
    ] {
        assert!(!is_consistent(source.word()), "{:#x}", source.word());
    }
    assert!(is_consistent(0), "nothing told");
}

proptest! {
    /// Any word gives values; locks, translation and blocked bits say nothing about the level.
    #[test]
    fn every_word_is_decoded(source: u64, other: u64) {
        let aside = 0x3 << 24 | 0x7f << 26 | 0x7 << 40 | 0x1fff << 51;
        let same = source & !aside | other & aside;
        prop_assert_eq!(
            (kind(source), served(source), is_consistent(source)),
            (kind(same), served(same), is_consistent(same))
        );
    }
}
