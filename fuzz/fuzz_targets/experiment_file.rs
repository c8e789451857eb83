#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    drop(control::experiment::read(data));
    drop(control::experiment::KeptExperiment::read(data));
    drop(control::story::Story::read(data));
});
