#![no_main]

use topology::Pid;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    if let Some(rank) = procfs::environ::parse(data, Pid(1)) {
        assert!(rank.size.is_none_or(|size| rank.rank < size));
        assert!(rank.job.as_str().len() <= procfs::environ::JOB_BYTES_MAX);
        drop(rank.job.family());
    }
});
