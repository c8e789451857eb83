use proptest::prelude::*;

use super::*;
use crate::spe::packet::check;

/// A record that a real Neoverse wrote of a program's load, as in the tests of Arm's `spe-parser`
/// (there with the timestamp of the record before in front, here with one behind).
pub(crate) const USER_LOAD: [u8; 64] = [
    0xb0, 0x00, 0xb6, 0xa9, 0xe4, 0xaa, 0xaa, 0x00, 0x80, // PC 0xaaaae4a9b600 el0 ns=1
    0x49, 0x00, // LD GP-REG
    0x52, 0x16, 0x00, // EV RETIRED L1D-ACCESS TLB-ACCESS
    0x99, 0x04, 0x00, // LAT 4 ISSUE
    0x98, 0x08, 0x00, // LAT 8 TOT
    0xb2, 0x43, 0xda, 0x5d, 0xe6, 0xaa, 0xaa, 0x00, 0x00, // VA 0xaaaae65dda43
    0x9a, 0x01, 0x00, // LAT 1 XLAT
    0xb3, 0x43, 0x5a, 0x95, 0x2c, 0x03, 0x08, 0x00, 0x80, // PA 0x8032c955a43 ns=1
    0x43, 0x00, // DATA-SOURCE 0
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, // PAD
    0x71, 0xaf, 0xf9, 0x04, 0x81, 0x00, 0x0c, 0x00, 0x00, // TS 13196304120239
];

/// Two records that a real processor wrote of the kernel's own work, from the tests of quipper.
const KERNEL_TWO: [u8; 128] = [
    0xb0, 0xd0, 0xc2, 0xa1, 0xed, 0x66, 0xba, 0xff, 0xc0, // PC 0xffba66eda1c2d0 el2 ns=1
    0x00, 0x00, 0x00, 0x00, 0x00, // PAD
    0x65, 0x80, 0x5f, 0x00, 0x00, // CONTEXT 0x5f80 el2
    0x49, 0x00, // LD GP-REG
    0x52, 0x16, 0x00, // EV RETIRED L1D-ACCESS TLB-ACCESS
    0x99, 0x04, 0x00, // LAT 4 ISSUE
    0x98, 0x0c, 0x00, // LAT 12 TOT
    0xb2, 0x28, 0x6b, 0x09, 0x03, 0x37, 0x0e, 0xff, 0x00, // VA 0xff0e3703096b28
    0x9a, 0x01, 0x00, // LAT 1 XLAT
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, // PAD
    0x43, 0x00, // DATA-SOURCE 0
    0x00, 0x00, // PAD
    0x71, 0x2e, 0x65, 0x2f, 0x6a, 0x0a, 0x00, 0x00, 0x00, // TS 44731163950
    0xb0, 0xe0, 0xb0, 0xef, 0xed, 0x66, 0xba, 0xff, 0xc0, // PC 0xffba66edefb0e0 el2 ns=1
    0x00, 0x00, 0x00, 0x00, 0x00, // PAD
    0x65, 0x0e, 0x00, 0x00, 0x00, // CONTEXT 0xe el2
    0x4a, 0x01, // B COND
    0x52, 0x42, 0x00, // EV RETIRED NOT-TAKEN
    0x99, 0x10, 0x00, // LAT 16 ISSUE
    0x98, 0x11, 0x00, // LAT 17 TOT
    0xb1, 0xe4, 0xb0, 0xef, 0xed, 0x66, 0xba, 0xff, 0xc0, // TGT 0xffba66edefb0e4 el2 ns=1
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, // PAD
    0x71, 0x8d, 0x65, 0x2f, 0x6a, 0x0a, 0x00, 0x00, 0x00, // TS 44731164045
];

fn read(bytes: &[u8]) -> (Vec<SpeRecord>, Tally) {
    let mut all = Vec::new();
    let tally = records(bytes, 0, &mut |record| all.push(*record));
    assert_eq!(all.len() as u64, tally.records);
    (all, tally)
}

fn whole(count: u64) -> Tally {
    Tally {
        records: count,
        ..Tally::default()
    }
}

#[test]
fn a_load_of_a_program_is_read() {
    let (all, tally) = read(&USER_LOAD);
    assert_eq!(tally, whole(1));
    let record = all[0];
    assert_eq!(record.access(), Some(AccessKind::Load));
    assert_eq!(record.instruction_address(), Some(0xaaaa_e4a9_b600));
    assert_eq!(record.exception_level(), Some(0));
    assert_eq!(record.data_address(), Some(0xaaaa_e65d_da43));
    assert_eq!(record.physical_address(), Some(0x0803_2c95_5a43));
    assert_eq!(
        (
            record.total_cycles,
            record.issue_cycles,
            record.translation_cycles
        ),
        (8, 4, 1)
    );
    assert_eq!(record.timestamp, Some(13_196_304_120_239));
    assert_eq!(record.context, None);
    assert_eq!(record.served(Some(Maker::Arm)), ServedBy::L1);
    assert_eq!(record.served(None), ServedBy::L1, "the events say so too");
}

#[test]
fn records_of_the_kernel_are_read() {
    let (all, tally) = read(&KERNEL_TWO);
    assert_eq!(tally, whole(2));
    let [load, branch] = all[..] else {
        panic!("two");
    };
    assert_eq!(load.instruction_address(), Some(0xffff_ba66_eda1_c2d0));
    assert_eq!(load.data_address(), Some(0xffff_0e37_0309_6b28));
    assert_eq!(load.exception_level(), Some(2));
    assert_eq!(load.context, Some(0x5f80));
    assert_eq!(
        (load.total_cycles, load.timestamp),
        (12, Some(44_731_163_950))
    );
    assert_eq!(branch.access(), None);
    assert_eq!(branch.context, Some(0xe));
    assert_eq!(branch.events, events::RETIRED | events::NOT_TAKEN);
    assert_eq!(
        (branch.total_cycles, branch.issue_cycles, branch.timestamp),
        (17, 16, Some(44_731_164_045))
    );
}

#[test]
fn a_cut_at_every_byte_keeps_what_is_whole() {
    let bytes = [USER_LOAD.as_slice(), &KERNEL_TWO].concat();
    let expected = read(&bytes).0;
    let ends = [64, 128, 192];
    for cut in 0..bytes.len() {
        let (all, tally) = read(&bytes[..cut]);
        let kept = ends.iter().filter(|end| **end <= cut).count();
        assert_eq!(all, expected[..kept], "cut at {cut}");
        let clean = cut == 0 || ends.contains(&cut);
        assert_eq!(tally.damaged, u64::from(!clean), "cut at {cut}");
    }
}

#[test]
fn behind_damage_reading_goes_on_after_the_next_timestamp() {
    let mut bytes = [USER_LOAD; 4].concat();
    bytes[64 + 9] = 0xff; // the second's operation
    let (all, tally) = read(&bytes);
    assert_eq!(all.len(), 3);
    assert_eq!(
        tally,
        Tally {
            records: 3,
            damaged: 1,
            skipped_bytes: 55,
            first_damage: Some(Damage {
                offset: 73,
                reason: "has a packet of no known kind"
            }),
        }
    );
}

#[test]
fn without_timestamps_damage_ends_the_reading() {
    let mut one = USER_LOAD.to_vec();
    one.truncate(50);
    one.push(1);
    let mut bytes = [one.clone(), one.clone(), one.clone()].concat();
    assert_eq!(read(&bytes).1, whole(3));
    bytes[51] = 0xff;
    let (all, tally) = read(&bytes);
    assert_eq!((all.len(), tally.damaged, tally.skipped_bytes), (1, 1, 102));
    assert_eq!(all[0].timestamp, None);
}

#[track_caller]
fn check_access(class: u8, payload: u8, expected: Option<AccessKind>) {
    let record = SpeRecord {
        operation: Some((class, payload)),
        ..SpeRecord::default()
    };
    assert_eq!(record.access(), expected, "{class} {payload:#x}");
}

/// Payloads with what perf says of them.
#[test]
fn operations_are_loads_stores_or_neither() {
    check_access(1, 0x00, Some(AccessKind::Load)); // LD GP-REG
    check_access(1, 0x01, Some(AccessKind::Store)); // ST GP-REG
    check_access(1, 0x05, Some(AccessKind::Store)); // ST SIMD-FP
    check_access(1, 0x04, Some(AccessKind::Load)); // LD SIMD-FP
    check_access(1, 0x16, Some(AccessKind::Store)); // LD AT AR: an atomic exchange
    check_access(1, 0x0a, Some(AccessKind::Load)); // LD EXCL
    check_access(1, 0x12, Some(AccessKind::Load)); // LD AR
    check_access(1, 0x26, Some(AccessKind::Load)); // not of the extended form
    check_access(1, 0x20, Some(AccessKind::Load)); // LD MEMCPY
    check_access(0, 0x00, None);
    check_access(2, 0x01, None); // B COND
    assert_eq!(SpeRecord::default().access(), None);
    let vector = SpeRecord {
        operation: Some((0, 0x06)), // OTHER ASE FP, with an address
        data: Some(0x1000),
        ..SpeRecord::default()
    };
    assert_eq!(vector.access(), Some(AccessKind::Unknown));
}

#[track_caller]
fn check_served(midr: u64, source: Option<u16>, events: u64, store: bool, expected: ServedBy) {
    let record = SpeRecord {
        operation: Some((1, u8::from(store))),
        events,
        source,
        ..SpeRecord::default()
    };
    assert_eq!(
        record.served(Maker::of(midr)),
        expected,
        "{midr:#x} {source:?} {events:#x}"
    );
}

#[test]
fn makers_numbers_name_what_answered() {
    use ServedBy::{L1, L2, L3, LocalMemory, OtherCache, RemoteMemory, Unknown};
    let n1 = 0x413f_d0c1;
    let ampere = 0xc00f_ac40;
    for (source, expected) in [
        (0x0, L1),
        (0x8, L2),
        (0x9, OtherCache),
        (0xa, OtherCache),
        (0xb, L3),
        (0xc, OtherCache),
        (0xd, OtherCache),
        (0xe, LocalMemory),
        (0xf, Unknown),
        (0x1, Unknown),
    ] {
        check_served(n1, Some(source), 0, false, expected);
        check_served(0x411f_d401, Some(source), 0, false, expected); // V1
    }
    for (source, expected) in [
        (0x0, OtherCache),
        (0x3, L3),
        (0x5, OtherCache),
        (0x7, LocalMemory),
        (0x8, L1),
        (0x9, L2),
        (0xe, Unknown),
    ] {
        check_served(ampere, Some(source), 0, false, expected);
    }
    check_served(n1, Some(0xe), events::REMOTE_ACCESS, false, RemoteMemory);
    // For stores the number means nothing, and of an unknown maker it is not guessed.
    check_served(n1, Some(0xe), 0, true, Unknown);
    check_served(
        n1,
        Some(0),
        events::L1_ACCESS | events::L1_REFILL,
        true,
        Unknown,
    );
    check_served(n1, Some(0xe), events::L1_ACCESS, true, L1);
    for midr in [0, 0x481f_d010, 0x410f_d080, 0xc00f_ac30, u64::MAX] {
        check_served(midr, Some(0), 0, false, Unknown);
    }
}

#[test]
fn events_name_the_cache_that_did_not_miss() {
    use ServedBy::{L1, L2, L3, Unknown};
    let missed_first = events::L1_ACCESS | events::L1_REFILL;
    let last = missed_first | events::LAST_LEVEL_ACCESS;
    for (bits, expected) in [
        (events::L1_ACCESS, L1),
        (missed_first, Unknown),
        (missed_first | events::L2_ACCESS, L2),
        (missed_first | events::L2_ACCESS | events::L2_MISS, Unknown),
        (last, L3),
        (last | events::LAST_LEVEL_MISS, Unknown),
        (last | events::REMOTE_ACCESS, Unknown),
        (0, Unknown),
    ] {
        check_served(0, None, bits, false, expected);
    }
}

/// The seeds of the fuzz target `spe_packet`, as a plain test.
#[test]
fn the_fuzz_corpus_is_survived() {
    let directory =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/spe_packet");
    let read = |name: &str| std::fs::read(directory.join(name)).unwrap();
    assert_eq!(check(&read("user-load")), (1, 0));
    assert_eq!(check(&read("kernel-two")), (2, 0));
    assert_eq!(check(&read("damaged")), (3, 1));
    assert_eq!(check(&read("every-header")).0, 1);
    for entry in std::fs::read_dir(&directory).unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        let (records, damaged) = check(&bytes);
        assert!(records + damaged <= bytes.len() as u64);
    }
    assert_eq!(read("user-load")[2..], USER_LOAD);
    assert_eq!(read("kernel-two")[2..], KERNEL_TWO);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..600), origin in 0usize..10_000) {
        let mut handed_on = 0;
        let tally = records(&bytes, origin, &mut |_| handed_on += 1);
        prop_assert_eq!(handed_on, tally.records);
        prop_assert_eq!(tally.first_damage.is_some(), tally.damaged > 0);
        prop_assert!(tally.skipped_bytes <= bytes.len() as u64);
    }

    /// A flipped bit costs the record it is in and at most the next one, if it hid the end of its own.
    #[test]
    fn a_flipped_bit_costs_at_most_two_records(
        bit in 0usize..8 * 64 * 16,
    ) {
        let mut bytes = [USER_LOAD; 16].concat();
        bytes[bit / 8] ^= 1 << (bit % 8);
        let (all, _) = read(&bytes);
        let good = read(&USER_LOAD).0[0];
        let kept = all.iter().filter(|record| **record == good).count();
        prop_assert!(kept >= 14, "{kept} of 16 after bit {bit}");
    }
}
