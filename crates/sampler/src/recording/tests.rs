use std::cell::RefCell;
use std::io::{Read, Write};
use std::path::Path;
use std::rc::Rc;

use numad_core::{AccessKind, Lifecycle, Sample, Sent, ServedBy};
use proptest::prelude::*;
use topology::{CpuId, Pid, Tid};

use super::*;
use crate::checksum::crc32c;

fn header() -> Header {
    Header {
        page_bytes: 4096,
        clock: "CLOCK_MONOTONIC".into(),
        source: "faults (natural faults only)".into(),
        topology: "2x2@10,21".into(),
        messages: false,
    }
}

fn write(header: &Header, entries: &[Entry]) -> RecordingWriter<Vec<u8>> {
    let mut writer = RecordingWriter::new(Vec::new(), Path::new("x"), header).unwrap();
    for entry in entries {
        match entry {
            Entry::Record(record) => writer.record(record).unwrap(),
            Entry::Mark(time) => writer.mark(*time).unwrap(),
        }
    }
    writer
}

fn written(header: &Header, entries: &[Entry]) -> Vec<u8> {
    write(header, entries).finish().unwrap()
}

fn sample(number: u64) -> Entry {
    Entry::Record(Record::Sample(Sample {
        time: Time(1_000_000 + number * 812),
        pid: Pid(4242),
        tid: Tid(4243),
        address: 0x7f3a_1000_0000 + number % 700 * 4096,
        physical: 0,
        cpu: CpuId(3),
        kind: AccessKind::Unknown,
        served: ServedBy::Unknown,
        weight: 0,
        period: 1,
    }))
}

/// One entry of each kind and of each shape.
fn every_kind() -> Vec<Entry> {
    let lifecycle = |lifecycle| Entry::Record(Record::Lifecycle(lifecycle));
    vec![
        sample(0),
        Entry::Record(Record::Sample(Sample {
            time: Time(5),
            pid: Pid(u32::MAX),
            tid: Tid(1),
            address: u64::MAX,
            physical: 0,
            cpu: CpuId(1023),
            kind: AccessKind::Store,
            served: ServedBy::RemoteMemory,
            weight: 311,
            period: 1009,
        })),
        sample(1),
        lifecycle(Lifecycle::Fork {
            time: Time(u64::MAX),
            pid: Pid(20),
            tid: Tid(21),
            parent: Pid(4242),
        }),
        lifecycle(Lifecycle::Exit {
            time: Time(0),
            pid: Pid(20),
            tid: Tid(21),
        }),
        lifecycle(Lifecycle::Renamed {
            time: Time(77),
            pid: Pid(20),
            tid: Tid(20),
            name: "lüfter".into(),
            exec: true,
        }),
        Entry::Record(Record::Lost(12)),
        Entry::Mark(Time(2_000_000)),
    ]
}

#[test]
fn what_is_written_is_read() {
    let bytes = written(&header(), &every_kind());
    let (read_header, entries, ending) = read(&bytes).unwrap();
    assert_eq!(read_header, header());
    assert_eq!(entries, every_kind());
    assert_eq!(ending, Ending::Complete);
}

/// The bytes of version 1, for good: whoever changes them writes another version.
#[test]
fn the_bytes_of_version_one() {
    let header = Header {
        page_bytes: 4096,
        clock: "C".into(),
        ..Header::default()
    };
    let bytes = written(
        &header,
        &[
            sample(0),
            Entry::Record(Record::Lost(300)),
            Entry::Mark(Time(1_000_001)),
        ],
    );
    let expected = [
        // Magic, length of the fields, checksum, version; page size, clock, two empty fields.
        b"NUMADREC\x0b\0\0\0".as_slice(),
        &checksum(b"NUMADREC\x0b\0\0\0\0\0\0\0\x01\0\x01\x02\x80\x20\x02\x01C\x03\0\x04\0"),
        b"\x01\0\x01\x02\x80\x20\x02\x01C\x03\0\x04\0",
        // A block of 21 bytes with three entries.
        b"DATA\x15\0\0\0\x03\0\0\0",
        &checksum(
            b"DATA\x15\0\0\0\x03\0\0\0\0\0\0\0\x20\x92\x21\x93\x21\x03\x80\x89\x7a\
              \x80\x80\x80\x80\xc2\xce\x3f\x04\xac\x02\x05\x02",
        ),
        b"\x20\x92\x21\x93\x21\x03\x80\x89\x7a\x80\x80\x80\x80\xc2\xce\x3f\x04\xac\x02\x05\x02",
        b"END.\x01\0\0\0\0\0\0\0",
        &checksum(b"END.\x01\0\0\0\0\0\0\0\0\0\0\0\x03"),
        b"\x03",
    ]
    .concat();
    assert_eq!(bytes, expected);
}

/// Version 2 is version 1 with messages.
#[test]
fn the_bytes_of_version_two() {
    let header = Header {
        page_bytes: 4096,
        clock: "C".into(),
        messages: true,
        ..Header::default()
    };
    let sent = Sent {
        from: Pid(4242),
        to: Pid(7),
        bytes: 300,
        messages: 2,
    };
    let sent = Entry::Record(Record::Sent(sent));
    let mut bytes = written(&header, std::slice::from_ref(&sent));
    assert_eq!(bytes[16..18], [2, 0]);
    let body = b"\x06\x92\x21\x07\xac\x02\x02";
    let at = bytes.len() - 17 - body.len();
    assert_eq!(&bytes[at..at + body.len()], body);
    assert_eq!(read(&bytes).unwrap().1, std::slice::from_ref(&sent));
    // In one of version 1 no such entry can be, and none is written.
    let older = Header {
        messages: false,
        ..header
    };
    assert_eq!(written(&older, &[sent]), written(&older, &[]));
    bytes[16] = 1;
    bytes[12..16].fill(0);
    let sealed = checksum(&bytes[..29]);
    bytes[12..16].copy_from_slice(&sealed);
    let error = read(&bytes).unwrap_err();
    let why = "damaged at offset 29: an entry is of unknown kind";
    assert_eq!(error.to_string(), why);
}

fn checksum(bytes: &[u8]) -> [u8; 4] {
    crc32c(bytes).to_le_bytes()
}

/// A recording of several blocks and where each ends.
fn several_blocks() -> (Vec<u8>, Vec<u64>) {
    let file = Shared::default();
    let mut writer = RecordingWriter::new(file.clone(), Path::new("x"), &header()).unwrap();
    let mut ends = vec![file.0.borrow().len() as u64];
    for block in 0..4 {
        for number in 0..20 {
            let Entry::Record(record) = sample(block * 20 + number) else {
                continue;
            };
            writer.record(&record).unwrap();
        }
        writer.flush().unwrap();
        ends.push(file.0.borrow().len() as u64);
    }
    writer.finish().unwrap();
    (file.0.take(), ends)
}

#[derive(Clone, Debug, Default)]
struct Shared(Rc<RefCell<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_cut_at_every_byte_gives_whole_blocks_and_the_offset() {
    let (bytes, ends) = several_blocks();
    for cut in 0..bytes.len() {
        let whole = ends.iter().filter(|end| **end <= cut as u64).count();
        match read(&bytes[..cut]) {
            Ok((_, entries, ending)) => {
                assert_eq!(entries.len(), (whole - 1) * 20, "cut at {cut}");
                let offset = ends[whole - 1];
                assert_eq!(ending, Ending::CutOff { offset }, "cut at {cut}");
            }
            Err(RecordingError::NotARecording) => assert_eq!(cut, 0),
            Err(RecordingError::NoHeader { offset }) => {
                assert_eq!((offset, whole), (cut as u64, 0));
            }
            Err(other) => panic!("cut at {cut}: {other}"),
        }
    }
    assert_eq!(read(&bytes).unwrap().2, Ending::Complete);
}

#[test]
fn every_flipped_bit_is_found() {
    let (bytes, ends) = several_blocks();
    for bit in 0..bytes.len() * 8 {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        let mut entries = Vec::new();
        let Ok(mut reader) = RecordingReader::open(damaged.as_slice()) else {
            assert!((bit as u64 / 8) < ends[0], "bit {bit}");
            continue;
        };
        let result = loop {
            match reader.next_block(&mut entries) {
                Ok(true) => {}
                other => break other,
            }
        };
        let whole = ends.iter().filter(|end| **end <= bit as u64 / 8).count() - 1;
        assert_eq!(entries.len(), whole * 20, "bit {bit}");
        // A length that grew looks like a file cut short; everything else is damage.
        let cut_off = result.is_ok();
        assert_eq!(
            reader.ending(),
            Some(Ending::CutOff {
                offset: ends[whole]
            })
        );
        assert!(
            !cut_off || bit / 8 - usize::try_from(ends[whole]).unwrap() < 8,
            "bit {bit}"
        );
        assert!(!reader.next_block(&mut entries).unwrap(), "it stays ended");
    }
}

#[track_caller]
fn refused(bytes: &[u8], text: &str) {
    assert_eq!(read(bytes).unwrap_err().to_string(), text);
}

#[test]
fn what_is_no_recording_is_told() {
    refused(b"", "not a recording: it does not begin with `NUMADREC`");
    refused(
        b"PERFILE2........",
        "not a recording: it does not begin with `NUMADREC`",
    );
    refused(b"NUMAD", "cut off at offset 5, in the header");
    let mut newer = written(&header(), &[]);
    newer[16] = 3;
    refused(
        &newer,
        "recording of version `3`, but only versions up to 2 can be read",
    );
    let mut long = written(&header(), &[]);
    long[8..12].copy_from_slice(&u32::MAX.to_le_bytes());
    refused(&long, "damaged at offset 0: the header is too long");
}

/// Bodies that pass the checksum and are wrong all the same: only somebody who wants to makes these.
#[test]
fn forged_blocks_are_refused() {
    for (body, count, reason) in [
        (b"\x07".as_slice(), 1u32, "an entry is of unknown kind"),
        (b"\x84\x01", 1, "an entry has unknown flags"),
        (b"\x04", 1, "an entry is cut short"),
        (
            b"\x04\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02",
            1,
            "a number is too large",
        ),
        (b"\x04\x01", 2, "a block has a wrong count"),
        (
            b"\x60\x01\x01\x01\x02\x02\x03\x00",
            1,
            "a sample is of unknown kind",
        ),
        (
            b"\x60\x01\x01\x01\x02\x02\x70\x00",
            1,
            "a sample was served by an unknown level",
        ),
        (b"\x03\x01\x01\x01\x81\x20", 1, "a name is too long"),
        (b"\x03\x01\x01\x01\x05ab", 1, "an entry is cut short"),
        (b"\x03\x01\x01\x01\x01\xff", 1, "a name is not text"),
    ] {
        let mut bytes = written(&header(), &[]);
        let end = bytes.len() - 17;
        bytes.truncate(end);
        let mut block = [
            b"DATA",
            &u32::try_from(body.len()).unwrap().to_le_bytes()[..],
        ]
        .concat();
        block.extend(count.to_le_bytes());
        block.extend([0; 4]);
        block.extend(body);
        let sum = checksum(&block);
        block[12..16].copy_from_slice(&sum);
        bytes.extend(block);
        refused(&bytes, &format!("damaged at offset {end}: {reason}"));
    }
}

/// Takes a number of bytes and then is full.
#[derive(Debug)]
struct FullDisk {
    room: usize,
    taken: Vec<u8>,
}

impl Write for FullDisk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let fits = bytes.len().min(self.room - self.taken.len());
        if fits == 0 {
            return Err(io::Error::from(io::ErrorKind::StorageFull));
        }
        self.taken.extend(&bytes[..fits]);
        Ok(fits)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_disk_is_told_once_and_leaves_a_readable_file() {
    let disk = FullDisk {
        room: 200_000,
        taken: Vec::new(),
    };
    let mut writer = RecordingWriter::new(disk, Path::new("/var/x.rec"), &header()).unwrap();
    let mut errors = Vec::new();
    for number in 0..100_000 {
        let Entry::Record(record) = sample(number) else {
            continue;
        };
        errors.extend(writer.record(&record).err());
    }
    writer.mark(Time(0)).unwrap();
    assert_eq!(errors.len(), 1);
    assert_eq!(errors[0].to_string(), "cannot write recording `/var/x.rec`");
    let dropped = writer.dropped();
    let disk = writer.finish().unwrap();
    let (_, entries, ending) = read(&disk.taken).unwrap();
    assert!(matches!(ending, Ending::CutOff { offset } if offset > 130_000));
    assert_eq!(entries.len() as u64 + dropped, 100_001, "the mark included");
    let expected: Vec<Entry> = (0..entries.len() as u64).map(sample).collect();
    assert_eq!(entries, expected);
}

#[test]
fn a_sample_takes_few_bytes() {
    let entries: Vec<Entry> = (0..10_000).map(sample).collect();
    let bytes = written(&header(), &entries).len();
    assert!(bytes < 70_000, "{bytes} bytes for 10,000 samples");
}

#[test]
fn names_are_cut_at_a_character() {
    let name = "é".repeat(NAME_BYTES_MAX);
    let entry = Entry::Record(Record::Lifecycle(Lifecycle::Renamed {
        time: Time(1),
        pid: Pid(1),
        tid: Tid(1),
        name: name.clone(),
        exec: false,
    }));
    let (_, entries, _) = read(&written(&header(), &[entry])).unwrap();
    let [Entry::Record(Record::Lifecycle(Lifecycle::Renamed { name: cut, .. }))] = &entries[..]
    else {
        panic!("one name: {entries:?}");
    };
    assert_eq!(cut, &name[..NAME_BYTES_MAX]);
}

#[test]
fn files_are_made_new_and_for_their_owner() {
    use std::os::unix::fs::PermissionsExt;
    let path = std::env::temp_dir().join(format!("numad-recording-{}", std::process::id()));
    let writer = RecordingWriter::create(&path, &header()).unwrap();
    writer.finish().unwrap();
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    let second = RecordingWriter::create(&path, &header()).unwrap_err();
    let mut bytes = Vec::new();
    std::fs::File::open(&path)
        .unwrap()
        .read_to_end(&mut bytes)
        .unwrap();
    std::fs::remove_file(&path).unwrap();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(second.source.kind(), io::ErrorKind::AlreadyExists);
    assert_eq!(read(&bytes).unwrap().2, Ending::Complete);
}

/// The seeds of the fuzz target `recording`, as plain tests.
#[test]
fn the_fuzz_corpus_is_survived() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/recording");
    let mut names: Vec<String> = Vec::new();
    for entry in std::fs::read_dir(&directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let result = read(&std::fs::read(&path).unwrap());
        assert_eq!(
            result.is_err(),
            name.starts_with("bad"),
            "{name}: {result:?}"
        );
        names.push(name);
    }
    let every_kind_read = read(&std::fs::read(directory.join("every-kind")).unwrap()).unwrap();
    assert_eq!(every_kind_read.1, every_kind());
    assert!(names.len() >= 3);
}

fn any_sample() -> impl Strategy<Value = Record> {
    let kinds = [AccessKind::Unknown, AccessKind::Load, AccessKind::Store];
    let levels = [
        ServedBy::Unknown,
        ServedBy::L1,
        ServedBy::L2,
        ServedBy::L3,
        ServedBy::OtherCache,
        ServedBy::LocalMemory,
        ServedBy::RemoteMemory,
    ];
    let physical = prop_oneof![Just(0), any::<u64>()];
    let place = (
        any::<u64>(),
        0u32..3,
        0u32..3,
        any::<u64>(),
        physical,
        0u32..3,
    );
    let detail = (
        prop::sample::select(kinds.to_vec()),
        prop::sample::select(levels.to_vec()),
        prop_oneof![Just(0), any::<u32>()],
        prop_oneof![Just(1), any::<u64>()],
    );
    (place, detail).prop_map(
        |((time, pid, tid, address, physical, cpu), (kind, served, weight, period))| {
            Record::Sample(Sample {
                time: Time(time),
                pid: Pid(pid),
                tid: Tid(tid),
                address,
                physical,
                cpu: CpuId(cpu),
                kind,
                served,
                weight,
                period,
            })
        },
    )
}

fn any_entry() -> impl Strategy<Value = Entry> {
    let lifecycle = (
        any::<u64>(),
        any::<u32>(),
        any::<u32>(),
        any::<u32>(),
        ".{0,20}",
        0..4,
    )
        .prop_map(|(time, pid, tid, parent, name, kind)| {
            let (time, pid, tid, parent) = (Time(time), Pid(pid), Tid(tid), Pid(parent));
            Record::Lifecycle(match kind {
                0 => Lifecycle::Fork {
                    time,
                    pid,
                    tid,
                    parent,
                },
                1 => Lifecycle::Exit { time, pid, tid },
                _ => Lifecycle::Renamed {
                    time,
                    pid,
                    tid,
                    name,
                    exec: kind == 3,
                },
            })
        });
    prop_oneof![
        6 => any_sample().prop_map(Entry::Record),
        2 => lifecycle.prop_map(Entry::Record),
        1 => any::<u64>().prop_map(|count| Entry::Record(Record::Lost(count))),
        1 => any::<u64>().prop_map(|time| Entry::Mark(Time(time))),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn anything_written_is_read(entries in prop::collection::vec(any_entry(), 0..200)) {
        let (_, read_back, ending) = read(&written(&header(), &entries)).unwrap();
        prop_assert_eq!(read_back, entries);
        prop_assert_eq!(ending, Ending::Complete);
    }

    #[test]
    fn any_bytes_are_survived(
        kind in prop::bool::ANY,
        count in 0u32..4,
        body in prop::collection::vec(any::<u8>(), 1..100),
    ) {
        // Behind a right header and under a right checksum, so that the body is looked at.
        let mut bytes = written(&header(), &[]);
        bytes.truncate(bytes.len() - 17);
        let mut block = if kind { BLOCK_DATA } else { BLOCK_END }.to_vec();
        block.extend(u32::try_from(body.len()).unwrap().to_le_bytes());
        block.extend(count.to_le_bytes());
        block.extend([0; 4]);
        block.extend(&body);
        let sum = checksum(&block);
        block[12..16].copy_from_slice(&sum);
        bytes.extend(block);
        if let Err(error) = read(&bytes) {
            prop_assert!(error.to_string().starts_with("damaged at offset "), "{}", error);
        }
    }
}

mod replay {
    use super::*;
    use crate::replay::Replay;
    use crate::source::Source;

    /// Records and mark of a batch.
    type Batch = (usize, Option<Time>);

    fn batches(bytes: &[u8]) -> (Vec<Batch>, Replay<&[u8]>) {
        let mut replay = Replay::open(bytes).unwrap();
        let mut batches = Vec::new();
        loop {
            let mut records = 0;
            let drained = replay.drain(&mut |_| records += 1);
            assert_eq!(records as u64, drained.records);
            batches.push((records, drained.mark));
            if drained.ended {
                return (batches, replay);
            }
        }
    }

    #[test]
    fn batches_come_as_they_were_delivered() {
        let mut entries: Vec<Entry> = (0..30_000).map(sample).collect();
        entries.insert(10, Entry::Mark(Time(100)));
        entries.insert(11, Entry::Mark(Time(200)));
        entries.insert(25_000, Entry::Record(Record::Lost(3)));
        entries.insert(25_001, Entry::Mark(Time(300)));
        let bytes = written(&header(), &entries);
        let (seen, replay) = batches(&bytes);
        assert_eq!(
            seen,
            [
                (10, Some(Time(100))),
                (0, Some(Time(200))),
                (24_989, Some(Time(300))),
                (5_002, None),
            ]
        );
        assert_eq!(replay.losses().lost, 3);
        assert_eq!(replay.ending(), Some(Ending::Complete));
        assert_eq!(replay.describe().notes.len(), 1);
        assert_eq!(replay.header(), &header());
    }

    #[test]
    fn without_marks_batches_are_slices_of_time() {
        // 812 ns apart, so 13 of them in slices of 10 us.
        let entries: Vec<Entry> = (0..40).map(sample).collect();
        let bytes = written(&header(), &entries);
        let mut replay = Replay::open(&bytes[..])
            .unwrap()
            .sliced(std::time::Duration::from_micros(10));
        let mut sizes = Vec::new();
        loop {
            let mut times = Vec::new();
            let drained = replay.drain(&mut |record| {
                if let Record::Sample(sample) = record {
                    times.push(sample.time);
                }
            });
            assert_eq!(replay.latest(), times.last().copied().or(replay.latest()));
            sizes.push(times.len());
            if drained.ended {
                break;
            }
        }
        assert_eq!(sizes, [13, 13, 13, 1]);
        assert_eq!(replay.latest(), Some(Time(1_000_000 + 39 * 812)));
    }

    #[test]
    fn what_stops_a_replay_is_told() {
        let (bytes, ends) = several_blocks();
        let (seen, replay) = batches(&bytes[..bytes.len() - 20]);
        assert_eq!(seen, [(60, None)]);
        assert!(replay.describe().notes[1].contains(&format!("cut off at offset {}", ends[3])));
        let mut damaged = bytes;
        damaged[usize::try_from(ends[1]).unwrap() + 30] ^= 1;
        let (seen, replay) = batches(&damaged);
        assert_eq!(seen, [(20, None)]);
        assert_eq!(replay.losses().damaged, 1);
        let note = format!("damaged at offset {}: the checksum is wrong", ends[1]);
        assert_eq!(replay.describe().notes[1], note);
    }
}

#[test]
fn recordings_of_faults_are_known_wherever_they_come_from() {
    for (source, expected) in [
        ("faults (soft-dirty clearing); loads yes", true),
        ("imported from perf: page-faults", true),
        (
            "imported from perf on x86_64: page-faults:u, minor-faults",
            true,
        ),
        (
            "imported from perf on x86_64: cpu/mem-loads/, page-faults",
            false,
        ),
        ("imported from perf: cpu/mem-loads,ldlat=30/P", false),
        ("imported from perf: ", false),
        ("pebs", false),
    ] {
        let header = Header {
            page_bytes: 4096,
            clock: String::new(),
            source: source.to_owned(),
            topology: String::new(),
            messages: false,
        };
        assert_eq!(header.of_faults(), expected, "{source}");
    }
}
