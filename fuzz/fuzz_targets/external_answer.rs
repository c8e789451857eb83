#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    drop(control::external::read_greeting(data));
    drop(control::external::read_answer(data, 7));
});
