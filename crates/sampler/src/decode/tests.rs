use proptest::prelude::*;

use super::*;

/// Gathers records as text, which compares easily.
#[derive(Default)]
struct Listing(Vec<String>);

impl Visitor for Listing {
    fn record<B: Body>(&mut self, record: &Decoded<'_, B>) {
        self.0.push(match record {
            Decoded::Sample(view) => {
                let fields = FIELDS.iter().filter_map(|(field, _)| {
                    let value = view.number(*field)?;
                    Some(match field {
                        Field::Tid => format!("Tid={:?}", view.pid_tid()?),
                        Field::Cpu => format!("Cpu={}", view.cpu()?),
                        _ => format!("{field:?}={value:#x}"),
                    })
                });
                format!("sample {}", fields.collect::<Vec<_>>().join(" "))
            }
            Decoded::Named(named) => format!(
                "named {}/{} {:?} exec={} at {:?}",
                named.pid,
                named.tid,
                String::from_utf8_lossy(named.name()),
                named.exec,
                named.time
            ),
            other => format!("{other:?}"),
        });
    }
}

fn listing(layout: &Layout, first: &[u8], second: &[u8]) -> (Vec<String>, Result<(), Damage>) {
    let mut listing = Listing::default();
    let result = stream(layout, first, second, &mut listing);
    (listing.0, result)
}

fn record(kind: u32, misc: u16, body: &[u8]) -> Vec<u8> {
    let size = u16::try_from(body.len() + HEADER_BYTES).unwrap();
    [
        kind.to_ne_bytes().as_slice(),
        &misc.to_ne_bytes(),
        &size.to_ne_bytes(),
        body,
    ]
    .concat()
}

fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

fn pair(first: u32, second: u32) -> [u8; 8] {
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&first.to_ne_bytes());
    bytes[4..].copy_from_slice(&second.to_ne_bytes());
    bytes
}

fn bits(fields: &[Field]) -> u64 {
    fields.iter().fold(0, |bits, field| bits | field.bit())
}

/// What the source `faults` asks for.
fn faults_layout() -> Layout {
    let fields = [
        Field::Tid,
        Field::Time,
        Field::Addr,
        Field::Cpu,
        Field::Period,
    ];
    Layout::new(bits(&fields), Trailer::Present).unwrap()
}

/// One record of each kind, built by hand, with a trailer of TID, TIME, CPU.
fn every_kind() -> Vec<u8> {
    let trailer = [pair(7, 8).as_slice(), &words(&[99]), &pair(3, 0)].concat();
    let with = |body: Vec<u8>| [body, trailer.clone()].concat();
    let task = [pair(20, 7), pair(21, 8)].concat();
    [
        record(
            9,
            2,
            &[
                pair(7, 8).as_slice(),
                &words(&[1_000, 0x7f00_1234_5678]),
                &pair(3, 0),
                &words(&[5]),
            ]
            .concat(),
        ),
        record(7, 0, &with([task.clone(), words(&[1_001])].concat())),
        record(4, 0, &with([task, words(&[1_002])].concat())),
        record(
            3,
            1 << 13,
            &with([pair(7, 8).to_vec(), b"solver\0\0".to_vec()].concat()),
        ),
        record(
            3,
            0,
            &with([pair(7, 8).to_vec(), b"sixteen byte na\0".to_vec()].concat()),
        ),
        record(2, 0, &with(words(&[1, 17]))),
        record(13, 0, &with(words(&[4]))),
        record(5, 0, &with(words(&[1, 2, 3]))),
        record(6, 0, &with(words(&[1, 2, 3]))),
        record(10, 0, &with(words(&[1, 2, 3, 4, 5]))),
    ]
    .concat()
}

const EVERY_KIND: [&str; 10] = [
    "sample Tid=(7, 8) Time=0x3e8 Addr=0x7f0012345678 Cpu=3 Period=0x5",
    "Fork(TaskRecord { pid: 20, tid: 21, parent_pid: 7, parent_tid: 8, time: 1001 })",
    "Exit(TaskRecord { pid: 20, tid: 21, parent_pid: 7, parent_tid: 8, time: 1002 })",
    "named 7/8 \"solver\" exec=true at Some(99)",
    "named 7/8 \"sixteen byte na\" exec=false at Some(99)",
    "Lost(17)",
    "LostSamples(4)",
    "Throttle",
    "Unthrottle",
    "Skipped(10)",
];

#[test]
fn every_kind_is_read() {
    let (seen, result) = listing(&faults_layout(), &every_kind(), &[]);
    assert_eq!(seen, EVERY_KIND);
    assert_eq!(result, Ok(()));
}

#[test]
fn the_ring_may_wrap_at_every_byte() {
    let bytes = every_kind();
    for at in 0..=bytes.len() {
        let (first, second) = bytes.split_at(at);
        let (seen, result) = listing(&faults_layout(), first, second);
        assert_eq!(
            (seen.as_slice(), result),
            (EVERY_KIND.map(String::from).as_slice(), Ok(())),
            "wrapped at {at}"
        );
    }
}

#[test]
fn a_cut_at_every_byte_gives_whole_records_and_the_offset() {
    let bytes = every_kind();
    let ends: Vec<usize> = std::iter::successors(Some(0), |at| {
        let size = bytes.get(at + 6..at + 8)?;
        Some(at + usize::from(u16::from_ne_bytes([size[0], size[1]])))
    })
    .collect();
    for cut in 0..bytes.len() {
        let whole = ends.iter().filter(|end| **end <= cut).count() - 1;
        let (seen, result) = listing(&faults_layout(), &bytes[..cut], &[]);
        assert_eq!(seen, EVERY_KIND[..whole], "cut at {cut}");
        match result {
            Ok(()) => assert_eq!(ends[whole], cut),
            Err(damage) => assert_eq!(damage.offset, ends[whole], "cut at {cut}"),
        }
    }
}

#[test]
fn every_flipped_bit_is_survived() {
    let bytes = every_kind();
    let layout = faults_layout();
    for bit in 0..bytes.len() * 8 {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        let (first, second) = damaged.split_at(bit / 8);
        let wrapped = listing(&layout, first, second);
        assert_eq!(wrapped, listing(&layout, &damaged, &[]), "bit {bit}");
    }
}

#[test]
fn impossible_sizes_are_refused_where_they_stand() {
    let good = record(5, 0, &words(&[1, 2, 3]));
    for (size, reason) in [
        (0u16, "is shorter than its own header"),
        (7, "is shorter than its own header"),
        (4_000, "is longer than what there is"),
    ] {
        let mut bad = good.clone();
        bad[6..8].copy_from_slice(&size.to_ne_bytes());
        let (seen, result) = listing(&faults_layout(), &[good.clone(), bad].concat(), &[]);
        assert_eq!(seen, ["Throttle"]);
        assert_eq!(
            result,
            Err(Damage {
                offset: good.len(),
                reason
            })
        );
    }
}

#[test]
fn records_too_short_for_their_kind_are_skipped() {
    for kind in [2, 3, 4, 7, 9, 13] {
        let (seen, result) = listing(&faults_layout(), &record(kind, 0, &[]), &[]);
        assert_eq!((seen, result), (vec![format!("Skipped({kind})")], Ok(())));
    }
}

/// The kernel's order of fields, against an independent list of (bit, name) from `perf_event.h`:
/// each field alone behind all those that come before it.
#[test]
fn fields_stand_in_the_kernels_order() {
    let order = [
        (16, Field::Identifier),
        (0, Field::Ip),
        (1, Field::Tid),
        (2, Field::Time),
        (3, Field::Addr),
        (6, Field::Id),
        (9, Field::StreamId),
        (7, Field::Cpu),
        (8, Field::Period),
        (14, Field::Weight),
        (15, Field::DataSource),
        (17, Field::Transaction),
        (19, Field::PhysAddr),
        (21, Field::Cgroup),
        (22, Field::DataPageSize),
        (23, Field::CodePageSize),
    ];
    let sample_type = order.iter().fold(0, |bits, (bit, _)| bits | 1 << bit);
    let layout = Layout::new(sample_type, Trailer::Absent).unwrap();
    assert_eq!(layout.sample_bytes(), order.len() * 8);
    let body = words(&(100..100 + order.len() as u64).collect::<Vec<_>>());
    let Decoded::Sample(view) = decode(&layout, RECORD_SAMPLE, 0, body.as_slice()) else {
        panic!("a sample");
    };
    for ((_, field), expected) in order.into_iter().zip(100..) {
        assert_eq!(view.number(field), Some(expected), "{field:?}");
    }
    assert_eq!(view.number(Field::WeightStruct), None);
}

#[test]
fn both_forms_of_weight_are_read() {
    let view = |field: Field, word: u64| {
        let layout = Layout::new(field.bit(), Trailer::Absent).unwrap();
        let body = word.to_ne_bytes();
        match decode(&layout, RECORD_SAMPLE, 0, body.as_slice()) {
            Decoded::Sample(view) => view.weight(),
            _ => None,
        }
    };
    assert_eq!(view(Field::Weight, 1 << 40), Some(u32::MAX));
    assert_eq!(view(Field::Weight, 22), Some(22));
    assert_eq!(view(Field::WeightStruct, 0x0003_0002_0000_0016), Some(0x16));
    assert_eq!(view(Field::Ip, 22), None);
}

#[test]
fn fields_that_cannot_be_read_are_named() {
    let call_chain = 1 << 5;
    let error = Layout::new(call_chain | Field::Ip.bit(), Trailer::Absent).unwrap_err();
    assert_eq!(error.bits, call_chain);
    assert_eq!(
        error.to_string(),
        "samples carry fields that cannot be read, bits `0x20` of their type"
    );
}

#[test]
fn without_a_trailer_names_have_no_time() {
    let layout = Layout::new(Field::Tid.bit(), Trailer::Absent).unwrap();
    let body = [pair(7, 8).to_vec(), b"a\0\0\0\0\0\0\0".to_vec()].concat();
    let (seen, _) = listing(&layout, &record(3, 0, &body), &[]);
    assert_eq!(seen, ["named 7/8 \"a\" exec=false at None"]);
}

/// The seeds of the fuzz target `perf_record`, as plain tests: no panic, and the same values wherever
/// the bytes are split.
#[test]
fn the_fuzz_corpus_is_survived() {
    let directory =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/perf_record");
    for entry in std::fs::read_dir(&directory).unwrap() {
        let path = entry.unwrap().path();
        let good = !path.to_string_lossy().contains("bad");
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!(check(&bytes).is_ok(), good, "{}", path.display());
    }
    let bytes = std::fs::read(directory.join("every-kind")).unwrap();
    let made_here = bytes[10..] == every_kind();
    assert!(
        made_here || cfg!(target_endian = "big"),
        "the seed is made of this file's records"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn any_bytes_are_survived_and_splitting_changes_nothing(
        sample_type in 0u64..1 << 25,
        mut bytes in prop::collection::vec(any::<u8>(), 0..200),
        kinds in prop::collection::vec(0u8..16, 10),
        at in 0usize..200,
    ) {
        // Small sizes and known kinds, or nearly every case would be damage at offset 0.
        for (header, kind) in bytes.chunks_exact_mut(24).zip(kinds) {
            header[..8].copy_from_slice(&[kind, 0, 0, 0, 0, 0, 24, 0]);
        }
        let Ok(layout) = Layout::new(sample_type & !0x1_7c30, Trailer::Present) else {
            return Ok(());
        };
        let (first, second) = bytes.split_at(at.min(bytes.len()));
        prop_assert_eq!(listing(&layout, first, second), listing(&layout, &bytes, &[]));
    }
}
