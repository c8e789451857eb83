#![no_main]

use control::rows::{AttachRequest, UndoRequest};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    drop(control::decode::request::<AttachRequest>(data));
    drop(control::decode::request::<UndoRequest>(data));
});
