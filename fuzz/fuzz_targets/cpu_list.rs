#![no_main]

use topology::CpuSet;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    drop(CpuSet::parse_mask(&text));
    if let Ok(set) = CpuSet::parse_list(&text) {
        assert_eq!(CpuSet::parse_list(&set.to_string()), Ok(set));
    }
});
