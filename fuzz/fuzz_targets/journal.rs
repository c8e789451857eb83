#![no_main]

use actuator::journal::rows::{decode, line};

/// The boot that the seeds were written in, so that rows get past their checksums.
const BOOT: &str = "5d2f0a7c-93f1-4e5e-b0f7-5b1f6a1a2c3d";

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    // As a file, and each line under a right checksum, which chance would not find.
    drop(decode(data, BOOT));
    let payloads = String::from_utf8_lossy(data);
    let summed: String = payloads
        .lines()
        .map(|payload| line(BOOT, payload))
        .collect();
    drop(decode(summed.as_bytes(), BOOT));
});
