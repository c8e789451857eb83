#![no_main]

use std::collections::BTreeSet;
use std::path::Path;

use numad_core::{Lifecycle, Record, Time};
use sampler::checksum::crc32c;
use sampler::feed::{Gate, Stream};
use sampler::recording::{Header, RecordingWriter};
use topology::Pid;

// The first byte says into what pieces the rest is cut, and whether it gets a header, or a header and the prefix of
// a block with a right checksum and as many entries as the second byte says.
libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((&first, rest)) = data.split_first() else {
        return;
    };
    let mut bytes = Vec::new();
    if first & 0xc0 != 0 {
        let header = Header::default();
        drop(RecordingWriter::new(&mut bytes, Path::new(""), &header).expect("memory takes it"));
    }
    match rest.split_first() {
        Some((&entries, body)) if first & 0x80 != 0 => {
            bytes.extend(block(body, entries));
            bytes.extend(body);
        }
        _ => bytes.extend(rest),
    }
    let (mut stream, mut gate) = (Stream::new(), Gate::default());
    gate.follow(Pid(7));
    // It, and its children.
    let mut followed = BTreeSet::from([Pid(7)]);
    for piece in bytes.chunks(usize::from(first & 0x3f) + 1) {
        let taken = stream.take(piece, &mut |_, entry| {
            gate.pass(entry, Time(1_000), &mut |record| match record {
                Record::Sample(sample) => {
                    let ours = followed.contains(&sample.pid);
                    assert!(ours && sample.period > 0 && sample.time <= Time(1_000));
                }
                Record::Lifecycle(Lifecycle::Fork { pid, parent, .. }) => {
                    let by_ours = followed.contains(parent);
                    assert!(!followed.insert(*pid) || by_ours);
                }
                _ => {}
            });
        });
        if taken.is_err() {
            return;
        }
    }
});

fn block(body: &[u8], entries: u8) -> Vec<u8> {
    let mut block = b"DATA".to_vec();
    block.extend(u32::try_from(body.len()).expect("short").to_le_bytes());
    block.extend([entries, 0, 0, 0, 0, 0, 0, 0]);
    block.extend(body);
    let checksum = crc32c(&block).to_le_bytes();
    block[12..16].copy_from_slice(&checksum);
    block
}
