#![no_main]

/// The boot that the seeds were written in, so that rows get past their checksums.
const BOOT: &str = "5d2f0a7c-93f1-4e5e-b0f7-5b1f6a1a2c3d";

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    drop(actuator::journal::rows::decode(data, BOOT));
});
