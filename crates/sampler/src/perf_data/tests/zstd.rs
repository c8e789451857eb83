//! Compressed records. The frames are of raw and repeated blocks, which is all that can be written
//! without a compressor; real ones are in the fixtures.

use super::super::inflate::Inflate;
use super::*;

const FRAME: [u8; 6] = [0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x48]; // A window of 512 KiB.

/// A block with the bytes as they are.
fn block(bytes: &[u8]) -> Vec<u8> {
    let header = u32::try_from(bytes.len()).unwrap() << 3;
    [&header.to_le_bytes()[..3], bytes].concat()
}

/// A file whose records come compressed, in pieces of so many bytes.
pub(super) fn compressed(records: &Writer, piece: usize) -> Vec<u8> {
    let mut stream = FRAME.to_vec();
    for part in records.bytes.chunks(100) {
        stream.extend(block(part));
    }
    let mut outer = Writer::new(Order::Little);
    for part in stream.chunks(piece) {
        outer.record(81, 0, |body| body.bytes(part));
        outer.record(68, 0, |_| {});
    }
    let file = File {
        events: vec![(mem_event(), vec![])],
        ..File::default()
    };
    file.finish(Form::Pipe, &outer)
}

pub(super) fn some_records(count: u64) -> Writer {
    let mut writer = Writer::new(Order::Little);
    for number in 0..count {
        mem_sample(&mut writer, (10, 11), 100 + (number ^ 1), 0x1000);
    }
    writer
}

#[test]
fn compressed_records_are_the_same_however_they_are_cut() {
    for piece in [1, 2, 3, 7, 64, 1000, 60_000] {
        let bytes = compressed(&some_records(20), piece);
        let (_, entries, summary) = imported(&bytes, ImportOptions::default());
        assert_eq!(
            (summary.samples, summary.late),
            (20, 0),
            "pieces of {piece}"
        );
        let times = entries.iter().filter_map(|entry| match entry {
            Entry::Record(Record::Sample(sample)) => Some(sample.time.0),
            _ => None,
        });
        assert!(times.eq(100..120));
    }
}

/// More than the decoder holds back, so that marks come to hold in the middle.
#[test]
fn marks_wait_for_what_was_compressed_before_them() {
    let records = some_records(20_000);
    assert!(records.bytes.len() > 2 * (512 << 10));
    let bytes = compressed(&records, 5000);
    let found = items(&bytes).unwrap();
    let marks = found.iter().filter(|item| **item == Item::Round).count();
    assert!(marks > 10, "{marks}");
    let (_, _, summary) = imported(&bytes, ImportOptions::default());
    assert_eq!((summary.samples, summary.late), (20_000, 0));
}

#[test]
fn what_is_compressed_and_broken_is_refused_with_its_place() {
    let bytes = compressed(&some_records(3), 60_000);
    let whole = items(&bytes).unwrap().len();
    for bit in 0..bytes.len() * 8 {
        let mut bad = bytes.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        match items(&bad) {
            Ok(items) => assert!(items.len() <= whole + 1),
            Err(PerfDataError::NotPerfData) => {}
            Err(error) => assert!(error.to_string().contains("at offset"), "{error}"),
        }
    }
    let mut writer = Writer::new(Order::Little);
    writer.record(81, 0, |body| body.bytes(b"no zstd"));
    let file = File {
        events: vec![(mem_event(), vec![])],
        ..File::default()
    };
    let error = items(&file.finish(Form::Pipe, &writer)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "damaged in the compressed data at offset 136: the compressed data is no zstd"
    );
}

#[test]
fn a_wide_window_is_refused_before_memory_is_taken() {
    let mut inflate = Inflate::new();
    inflate.feed(&[0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x88]); // 128 MiB
    let error = inflate.step().unwrap_err();
    assert!(error.contains("below 20"), "{error}");
}

/// A few bytes that stand for very many come a block at a time.
#[test]
fn a_bomb_goes_off_in_small_pieces() {
    let mut inflate = Inflate::new();
    inflate.feed(&FRAME);
    // 128 KiB of the same byte, a thousand times.
    let repeated = u32::to_le_bytes((128 << 10) << 3 | 1 << 1);
    let block = [repeated[0], repeated[1], repeated[2], 0x55];
    inflate.feed(&block.repeat(1_000));
    let mut total = 0;
    while inflate.step().unwrap() {
        let ready = inflate.ready().len();
        assert!(ready <= 256 << 10, "{ready}");
        total += ready;
        inflate.consume(ready);
    }
    assert!(inflate.finish().unwrap());
    total += inflate.ready().len();
    assert_eq!(total, 1_000 * (128 << 10));
}
