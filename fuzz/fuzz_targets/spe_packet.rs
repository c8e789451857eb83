#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let (records, damaged) = sampler::spe::packet::check(data);
    assert!(records + damaged <= data.len() as u64);
});
