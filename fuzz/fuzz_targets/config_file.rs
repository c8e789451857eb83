//! Settings files: any bytes give settings or problems, and settings read back the same.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    if let Ok(config) = config::check_bytes(data) {
        assert_eq!(config::check_bytes(config::render_effective(&config).as_bytes()), Ok(config));
    }
});
