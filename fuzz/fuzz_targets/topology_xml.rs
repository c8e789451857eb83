#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    drop(topology::xml::parse(&String::from_utf8_lossy(data)));
});
