#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    drop(procfs::status::parse(data));
});
