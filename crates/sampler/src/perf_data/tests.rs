//! Files made here: what no fixture has, in both byte orders and both forms.

mod make;
mod order;
mod zstd;

use std::io::Cursor;
use std::path::Path;

use numad_core::{AccessKind, Lifecycle, Record, ServedBy};

use super::attr;
use super::bytes::Order;
use super::{ImportError, ImportOptions, Item, PerfDataError, PerfSample, Reader, Summary, import};
use crate::recording::{Entry, Header, read};
use make::{Attr, File, Form, Writer};

const EVERY: [(Order, Form); 4] = [
    (Order::Little, Form::File),
    (Order::Big, Form::File),
    (Order::Little, Form::Pipe),
    (Order::Big, Form::Pipe),
];

/// Everything in a file.
fn items(bytes: &[u8]) -> Result<Vec<Item>, PerfDataError> {
    let mut reader = Reader::open(Cursor::new(bytes))?;
    let mut items = Vec::new();
    while let Some(item) = reader.next_item()? {
        items.push(item);
    }
    assert!(matches!(reader.next_item(), Ok(None)));
    Ok(items)
}

fn samples(bytes: &[u8]) -> Vec<PerfSample> {
    let items = items(bytes).unwrap().into_iter();
    let samples = items.filter_map(|item| match item {
        Item::Sample(sample) => Some(sample),
        _ => None,
    });
    samples.collect()
}

/// What an import makes of a file.
fn imported(bytes: &[u8], options: ImportOptions) -> (Header, Vec<Entry>, Summary) {
    let reader = Reader::open(Cursor::new(bytes)).unwrap();
    let begin =
        |header: &Header| crate::RecordingWriter::new(Vec::new(), Path::new("memory"), header);
    let (bytes, summary) = import(reader, options, begin).unwrap();
    let (header, entries, ending) = read(&bytes).unwrap();
    assert_eq!(ending, crate::recording::Ending::Complete);
    (header, entries, summary)
}

fn mem_event() -> Attr {
    Attr {
        sample_type: attr::IP
            | attr::TID
            | attr::TIME
            | attr::ADDR
            | attr::CPU
            | attr::PERIOD
            | attr::WEIGHT
            | attr::DATA_SRC,
        ..Attr::default()
    }
}

/// A sample of `mem_event`.
fn mem_sample(writer: &mut Writer, (pid, tid): (u32, u32), time: u64, address: u64) {
    writer.record(9, 0x4001, |body| {
        body.u64(0x40_0000);
        body.u32(pid);
        body.u32(tid);
        body.u64(time);
        body.u64(address);
        body.u32(3);
        body.u32(0);
        body.u64(17);
        body.u64(22);
        body.u64(0x6810_0442);
    });
}

/// Thread, name, sample, thread, exit, losses, with trailers where the event has them.
fn small_file(order: Order, form: Form) -> Vec<u8> {
    let event = mem_event();
    let mut writer = Writer::new(order);
    writer.record(3, 1 << 13, |body| {
        body.u32(10);
        body.u32(11);
        body.bytes(b"solver\0\0");
        event.trailer(body, (10, 11), 90, 0);
    });
    mem_sample(&mut writer, (10, 11), 100, 0x7f00_0000_1000);
    writer.record(7, 0, |body| {
        for number in [10, 10, 12, 11] {
            body.u32(number);
        }
        body.u64(110);
        event.trailer(body, (10, 11), 110, 0);
    });
    writer.record(2, 0, |body| {
        body.u64(0);
        body.u64(5);
        event.trailer(body, (10, 11), 120, 0);
    });
    mem_sample(&mut writer, (10, 12), 130, 0x7f00_0000_2000);
    writer.record(4, 0, |body| {
        for number in [10, 10, 12, 12] {
            body.u32(number);
        }
        body.u64(140);
        event.trailer(body, (10, 12), 140, 0);
    });
    File {
        events: vec![(event, vec![])],
        ..File::default()
    }
    .finish(form, &writer)
}

#[test]
fn every_form_and_byte_order_gives_the_same() {
    let little = small_file(Order::Little, Form::File);
    let expected = items(&little).unwrap();
    assert_eq!(expected.len(), 6, "{expected:?}");
    let Item::Sample(first) = &expected[1] else {
        panic!("{expected:?}");
    };
    let sample = PerfSample {
        event: 0,
        id: None,
        ip: Some(0x40_0000),
        task: Some((10, 11)),
        time: Some(100),
        address: Some(0x7f00_0000_1000),
        cpu: Some(3),
        period: 17,
        weight: Some(22),
        data_source: Some(0x6810_0442),
        physical: None,
        page_bytes: None,
    };
    assert_eq!(*first, sample);
    for (order, form) in EVERY {
        let bytes = small_file(order, form);
        assert_eq!(items(&bytes).unwrap(), expected, "{order:?} {form:?}");
        let mut reader = Reader::stream(&bytes[..]).unwrap();
        let mut streamed = Vec::new();
        while let Some(item) = reader.next_item().unwrap() {
            streamed.push(item);
        }
        assert_eq!(streamed, expected, "{order:?} {form:?} from a pipe");
    }
}

#[test]
fn an_import_says_what_the_file_says() {
    let (header, entries, summary) = imported(
        &small_file(Order::Big, Form::File),
        ImportOptions::default(),
    );
    assert_eq!(header.clock, "perf");
    assert_eq!(header.source, "imported from perf: type 4 config 0x1cd");
    let times: Vec<u64> = entries
        .iter()
        .map(|entry| match entry {
            Entry::Record(Record::Sample(sample)) => {
                assert_eq!(
                    (sample.kind, sample.served),
                    (AccessKind::Load, ServedBy::L2)
                );
                assert_eq!((sample.weight, sample.period, sample.cpu.0), (22, 17, 3));
                sample.time.0
            }
            Entry::Record(Record::Lifecycle(
                Lifecycle::Fork { time, .. }
                | Lifecycle::Exit { time, .. }
                | Lifecycle::Renamed { time, .. },
            ))
            | Entry::Mark(time) => time.0,
            Entry::Record(Record::Lost(count)) => count * 1000,
            Entry::Record(Record::Sent(sent)) => sent.bytes,
        })
        .collect();
    assert_eq!(times, [90, 100, 110, 5000, 130, 140, 140]);
    assert_eq!(
        (summary.samples, summary.lifecycle, summary.lost),
        (2, 3, 5)
    );
    assert_eq!(summary.skipped.total(), 0);
    assert!(!summary.machine);
    let (first, last) = summary.span.unwrap();
    assert_eq!((first.0, last.0), (100, 130));
}

#[test]
fn what_cannot_be_placed_is_left_out_and_counted() {
    let kernel = 0xffff_8820_1489_b878;
    for (order, form) in EVERY {
        let mut writer = Writer::new(order);
        mem_sample(&mut writer, (10, 11), 100, 0);
        mem_sample(&mut writer, (10, 11), 101, kernel);
        mem_sample(&mut writer, (0, 0), 102, 0x1000);
        mem_sample(&mut writer, (u32::MAX, u32::MAX), 103, 0x1000);
        mem_sample(&mut writer, (10, 11), 104, 0x1000);
        let file = File {
            events: vec![(mem_event(), vec![])],
            ..File::default()
        };
        let bytes = file.finish(form, &writer);
        let (_, _, summary) = imported(&bytes, ImportOptions::default());
        let skipped = summary.skipped;
        assert_eq!(summary.samples, 1);
        assert_eq!(
            (skipped.unaddressed, skipped.kernel, skipped.taskless),
            (1, 1, 2)
        );
        let (_, _, all) = imported(&bytes, ImportOptions { keep_kernel: true });
        assert_eq!((all.samples, all.skipped.kernel), (2, 0));
    }
}

/// Every field that there is, the variable ones with something in them and without.
#[test]
fn fields_of_any_size_are_passed_over() {
    const ALL: u64 = (1 << 25) - 1;
    // Both forms of the weight share a place; the kernel refuses an event with both.
    let both = [ALL & !attr::WEIGHT, ALL & !attr::WEIGHT_STRUCT];
    for (sample_type, filled) in both.into_iter().flat_map(|it| [(it, true), (it, false)]) {
        for read_format in 0..32 {
            let event = Attr {
                sample_type,
                read_format,
                branch_sample_type: 1 << 17 | 1 << 19 | 1,
                user_registers: 0b1011,
                interrupt_registers: 0b11,
            };
            for order in [Order::Little, Order::Big] {
                check_all_fields(&event, order, filled);
            }
        }
    }
}

#[track_caller]
fn check_all_fields(event: &Attr, order: Order, filled: bool) {
    let mut writer = Writer::new(order);
    writer.record(9, 1, |body| body.all_fields(event, filled));
    let file = File {
        events: vec![(event.clone(), vec![77])],
        ..File::default()
    };
    let found = samples(&file.finish(Form::File, &writer));
    let weight = if event.sample_type & attr::WEIGHT_STRUCT != 0 {
        352
    } else {
        0x0101_0000_0160
    };
    let expected = PerfSample {
        event: 0,
        id: Some(77),
        ip: Some(1),
        task: Some((2, 3)),
        time: Some(4),
        address: Some(5),
        cpu: Some(7),
        period: 8,
        weight: Some(weight),
        data_source: Some(10),
        physical: Some(11),
        page_bytes: Some(4096),
    };
    assert_eq!(found, [expected], "{event:?} {order:?} {filled}");
}

/// The values of upstream's own tests of these fields (`perf-datasrc.textproto` and
/// `perf-weight-struct.textproto` of perf_data_converter), with what they say these mean.
#[test]
fn weights_and_data_sources_of_others_tests() {
    const BOTH: u64 = attr::IP | attr::TID | attr::TIME | attr::CPU | attr::PERIOD;
    let check = |extra, words: &[u64], weight, source: Option<(AccessKind, ServedBy)>| {
        for order in [Order::Little, Order::Big] {
            let event = Attr {
                sample_type: BOTH | extra,
                ..Attr::default()
            };
            let mut writer = Writer::new(order);
            writer.record(9, 1, |body| {
                for word in [0x5dc, 100 << 32 | 100, 100_000_000_000, 0, 3_170_393] {
                    body.u64(word);
                }
                words.iter().for_each(|word| body.u64(*word));
            });
            let file = File {
                events: vec![(event, vec![])],
                ..File::default()
            };
            let found = samples(&file.finish(Form::Pipe, &writer));
            assert_eq!(found[0].weight, Some(weight), "{words:?}");
            let told = found[0]
                .data_source
                .map(|it| (crate::data_source::kind(it), crate::data_source::served(it)));
            assert_eq!(told, source, "{words:?}");
            assert_eq!(found[0].period, 3_170_393);
        }
    };
    let plain = attr::WEIGHT | attr::DATA_SRC;
    let unknown = AccessKind::Unknown;
    check(plain, &[352, 2_097_472], 352, Some((unknown, ServedBy::L1)));
    check(plain, &[146, 4_195_392], 146, Some((unknown, ServedBy::L2)));
    let load = Some((AccessKind::Load, ServedBy::L1));
    check(plain, &[146, 0x102_5010_0142], 146, load);
    let modified = Some((unknown, ServedBy::OtherCache));
    check(plain, &[352, 8_390_720], 352, modified);
    let parts = attr::WEIGHT_STRUCT;
    check(parts, &[352], 352, None);
    check(parts, &[146 | 257 << 32], 146, None);
    check(parts, &[1000 << 32], 0, None);
}

/// Two events whose records differ, told apart by id at either place.
#[test]
fn the_event_of_a_record_is_found_by_its_id() {
    for place in [attr::IDENTIFIER, attr::ID] {
        let one = Attr {
            sample_type: attr::TID | attr::TIME | attr::ADDR | place,
            ..Attr::default()
        };
        let other = Attr {
            sample_type: one.sample_type | attr::WEIGHT,
            ..Attr::default()
        };
        for (order, form) in EVERY {
            let mut writer = Writer::new(order);
            let mut sample = |id: u64, weight: &[u64]| {
                writer.record(9, 1, |body| {
                    if place == attr::IDENTIFIER {
                        body.u64(id);
                    }
                    body.u32(1);
                    body.u32(2);
                    body.u64(100 + id);
                    body.u64(0x1000);
                    if place == attr::ID {
                        body.u64(id);
                    }
                    weight.iter().for_each(|word| body.u64(*word));
                });
            };
            sample(70, &[]);
            sample(81, &[9]);
            sample(99, &[]);
            sample(71, &[]);
            writer.record(3, 0, |body| {
                body.u32(1);
                body.u32(2);
                body.bytes(b"name\0\0\0\0");
                other.trailer(body, (1, 2), 300, 81);
            });
            let file = File {
                events: vec![(one.clone(), vec![70, 71]), (other.clone(), vec![80, 81])],
                ..File::default()
            };
            let items = items(&file.finish(form, &writer)).unwrap();
            let told: Vec<_> = items
                .iter()
                .map(|item| match item {
                    Item::Sample(sample) => (sample.event, sample.weight),
                    Item::Stray => (usize::MAX, None),
                    Item::Named { time, .. } => (0, Some(*time)),
                    other => panic!("{other:?}"),
                })
                .collect();
            let stray = (usize::MAX, None);
            let expected = [(0, None), (1, Some(9)), stray, (0, None), (0, Some(300))];
            assert_eq!(told, expected, "{order:?} {form:?} {place:#x}");
        }
    }
}

#[test]
fn events_that_cannot_be_told_apart_are_refused() {
    let one = mem_event();
    let other = Attr {
        sample_type: one.sample_type | attr::PHYS_ADDR,
        ..Attr::default()
    };
    let mut writer = Writer::new(Order::Little);
    mem_sample(&mut writer, (1, 2), 3, 4);
    let file = File {
        events: vec![(one.clone(), vec![1]), (other, vec![2])],
        ..File::default()
    };
    let error = items(&file.finish(Form::File, &writer)).unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with("record with `--sample-identifier`"),
        "{error}"
    );
    // Alike, they are taken for the first.
    let mut writer = Writer::new(Order::Little);
    mem_sample(&mut writer, (1, 2), 3, 4);
    let file = File {
        events: vec![(one.clone(), vec![1]), (one, vec![2])],
        ..File::default()
    };
    assert_eq!(samples(&file.finish(Form::File, &writer))[0].event, 0);
}

#[test]
fn traces_and_unknown_records_are_passed_over() {
    for (order, form) in EVERY {
        let mut writer = Writer::new(order);
        writer.record(71, 0, |body| {
            body.u64(10_000);
            body.bytes(&[0; 32]);
        });
        writer.raw(&[9; 10_000]);
        writer.record(66, 0, |body| body.u32(13));
        writer.raw(&[7; 16]);
        writer.record(12_345, 0, |body| body.bytes(&[1; 24]));
        writer.record(21, 0, |body| body.bytes(&[1; 4]));
        mem_sample(&mut writer, (1, 2), 3, 4);
        let file = File {
            events: vec![(mem_event(), vec![])],
            ..File::default()
        };
        let bytes = file.finish(form, &writer);
        assert_eq!(samples(&bytes).len(), 1, "{order:?} {form:?}");
    }
}

/// Two nodes of four processors, two threads to a core, and a node without processors.
#[test]
fn the_machine_is_in_the_recording() {
    for (order, form) in EVERY {
        let mut writer = Writer::new(order);
        mem_sample(&mut writer, (1, 2), 3, 4);
        let file = File {
            events: vec![(mem_event(), vec![5])],
            nodes: vec![(0, 1 << 20, "0-1,4-5"), (1, 2 << 20, "2-3,6-7"), (7, 9, "")],
            packages: vec!["0-1,4-5", "2-3,6-7"],
            cores: vec!["0,4", "1,5", "2,6", "3,7"],
            name: "cpu/mem-loads/P",
        };
        let bytes = file.finish(form, &writer);
        let (header, _, summary) = imported(&bytes, ImportOptions::default());
        assert!(summary.machine, "{order:?} {form:?} {summary:?}");
        assert_eq!(summary.notes, [""; 0]);
        assert_eq!(summary.events, [("cpu/mem-loads/P".to_owned(), 1)]);
        assert_eq!(
            header.source,
            "imported from perf on x86_64: cpu/mem-loads/P"
        );
        assert_eq!(header.page_bytes, 4096);
        let machine = topology::xml::parse(&header.topology).unwrap();
        let nodes: Vec<_> = machine
            .nodes()
            .iter()
            .map(|node| (node.id.0, node.memory_bytes, node.cpus.to_string()))
            .collect();
        let expected = [
            (0, 1 << 30, "0-1,4-5".to_owned()),
            (1, 2 << 30, "2-3,6-7".to_owned()),
            (7, 9 << 10, String::new()),
        ];
        assert_eq!(nodes, expected, "{order:?} {form:?}");
        assert_eq!(machine.package_count(), 2);
        assert_eq!(machine.cores_in(&machine.online()), 4);
    }
}

/// Their masks are longer than the header of a recording.
#[test]
fn a_machine_of_thousands_of_processors_is_left_out() {
    let mut writer = Writer::new(Order::Little);
    mem_sample(&mut writer, (1, 2), 3, 4);
    let file = File {
        events: vec![(mem_event(), vec![5])],
        nodes: vec![(0, 1 << 20, "0-8191")],
        name: "cpu/mem-loads/P",
        ..File::default()
    };
    let bytes = file.finish(Form::File, &writer);
    let (header, entries, summary) = imported(&bytes, ImportOptions::default());
    assert!(!summary.machine && header.topology.is_empty());
    assert_eq!((entries.len(), summary.samples), (2, 1));
}

#[test]
fn a_file_that_perf_could_not_finish_is_read_as_far_as_it_goes() {
    let mut bytes = small_file(Order::Little, Form::File);
    // The length of the records, which perf writes last.
    bytes[48..56].fill(0);
    let whole = items(&bytes).unwrap();
    assert_eq!(whole.len(), 6);
    let cut = &bytes[..bytes.len() - 20];
    let (_, _, summary) = imported(cut, ImportOptions::default());
    assert_eq!((summary.samples, summary.lifecycle), (2, 2));
    assert!(summary.cut_off.is_some_and(|at| at < cut.len() as u64));
}

#[test]
fn any_cut_and_any_flipped_bit_is_an_error_with_its_place() {
    for (order, form) in EVERY {
        let bytes = small_file(order, form);
        for end in 0..bytes.len() {
            match items(&bytes[..end]) {
                // A pipe ends with any record; a file says how long it is.
                Ok(items) => assert!(form == Form::Pipe && items.len() < 6, "{end}"),
                Err(PerfDataError::NotPerfData) => assert!(end < 8),
                Err(error) => assert!(error.to_string().contains("at offset"), "{error}"),
            }
        }
        for bit in 0..bytes.len() * 8 {
            let mut bad = bytes.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            match super::check(&bad) {
                Ok(_) | Err(ImportError::Input(PerfDataError::NotPerfData)) => {}
                Err(error) => assert!(error.to_string().contains("at offset"), "{error}"),
            }
        }
    }
}

/// Lengths that are not there are not believed, and what would go on for ever is not begun.
#[test]
fn forged_lengths_take_no_memory() {
    let good = small_file(Order::Little, Form::File);
    // Size of an attribute, then place and length of attributes and of records.
    for at in [16, 24, 32, 40, 48] {
        for value in [1, 1 << 20, 1 << 40, 1 << 62, i64::MAX as u64, u64::MAX] {
            let mut bad = good.clone();
            bad[at..at + 8].copy_from_slice(&u64::to_le_bytes(value));
            let error = items(&bad).unwrap_err();
            assert!(error.to_string().contains("at offset"), "{error}");
        }
    }
    for kind in [71, 66] {
        let mut writer = Writer::new(Order::Little);
        writer.record(kind, 0, |body| body.u64(u64::MAX));
        let file = File {
            events: vec![(mem_event(), vec![])],
            ..File::default()
        };
        let error = items(&file.finish(Form::Pipe, &writer)).unwrap_err();
        assert!(error.to_string().contains("at offset"), "{error}");
    }
}

#[test]
fn what_is_no_file_of_perf_is_called_so() {
    for text in ["", "PERF", "NUMADREC", "PERFILE3aaaaaaaaaaaaaaaaaaa"] {
        let error = items(text.as_bytes()).unwrap_err();
        assert!(matches!(error, PerfDataError::NotPerfData), "{error}");
    }
    let error = items(b"PERFFILE________________").unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot read the first version of the format, at offset 0; record with a perf of Linux 3.2 or newer"
    );
    let error = items(b"PERFILE2\x10\0\0\0\0\0\0\0").unwrap_err();
    assert_eq!(
        error.to_string(),
        "damaged at offset 16: the file ends without having told of an event"
    );
}

/// The seeds that are made of what this file makes.
fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let small = small_file(Order::Little, Form::File);
    let cut = small[..small.len() - 50].to_vec();
    let mut writer = Writer::new(Order::Little);
    let event = Attr {
        sample_type: (1 << 25) - 1 - attr::WEIGHT,
        read_format: 0x1f,
        branch_sample_type: 1 << 17 | 1 << 19,
        user_registers: 0b1011,
        interrupt_registers: 0b11,
    };
    writer.record(9, 1, |body| body.all_fields(&event, true));
    let every_field = File {
        events: vec![(event, vec![77]), (mem_event(), vec![78])],
        nodes: vec![(0, 1 << 20, "0-3")],
        packages: vec!["0-3"],
        cores: vec!["0-1", "2-3"],
        name: "all",
    };
    vec![
        ("file", small),
        ("bad-cut", cut),
        ("pipe-big-endian", small_file(Order::Big, Form::Pipe)),
        (
            "every-field-ambiguous-bad",
            every_field.finish(Form::File, &writer),
        ),
        (
            "every-field",
            File {
                events: vec![every_field.events[0].clone()],
                ..every_field
            }
            .finish(Form::File, &writer),
        ),
        ("compressed", zstd::compressed(&zstd::some_records(9), 200)),
    ]
}

#[test]
fn the_fuzz_corpus_is_survived() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/perf_data");
    for (name, bytes) in seeds() {
        if std::fs::read(folder.join(name)).unwrap_or_default() != bytes {
            let made = std::env::temp_dir().join(name);
            std::fs::write(&made, &bytes).unwrap();
            panic!(
                "seed `{name}` is not what is made here, `{}`",
                made.display()
            );
        }
    }
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let good = !path.to_string_lossy().contains("bad");
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!(super::check(&bytes).is_ok(), good, "{}", path.display());
    }
}
