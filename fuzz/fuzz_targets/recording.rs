#![no_main]

use std::path::Path;

use sampler::checksum::crc32c;
use sampler::recording::{Header, RecordingWriter, read};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    // As a file, and as the body of a block under a right checksum, which chance would not find.
    // The first byte says how many entries it is to have.
    drop(read(data));
    let Some((&entries, body)) = data.split_first() else {
        return;
    };
    for messages in [false, true] {
        drop(read(&forged(body, entries, messages)));
    }
});

fn forged(body: &[u8], entries: u8, messages: bool) -> Vec<u8> {
    let header = Header {
        messages,
        ..Header::default()
    };
    let writer = RecordingWriter::new(Vec::new(), Path::new(""), &header).expect("memory takes it");
    let mut file = writer.finish().expect("memory takes it");
    file.truncate(file.len() - 17); // Its end block.
    let mut block = b"DATA".to_vec();
    block.extend(u32::try_from(body.len()).expect("short").to_le_bytes());
    block.extend([entries, 0, 0, 0, 0, 0, 0, 0]);
    block.extend(body);
    let checksum = crc32c(&block).to_le_bytes();
    block[12..16].copy_from_slice(&checksum);
    file.extend(block);
    file
}
