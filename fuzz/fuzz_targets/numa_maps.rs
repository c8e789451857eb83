#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    drop(procfs::numa_maps::parse(data));
});
