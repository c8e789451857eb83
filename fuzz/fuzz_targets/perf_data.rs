#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    drop(sampler::perf_data::check(data));
});
