#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    drop(procfs::stat::parse(data));
    drop(procfs::busy::parse_processor_time(data));
});
