#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    if let Ok(topology) = topology::synthetic::parse(&String::from_utf8_lossy(data)) {
        drop(topology::render::text(&topology));
    }
});
