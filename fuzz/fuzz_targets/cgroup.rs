#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    drop(procfs::cgroup::parse_memberships(data));
    drop(procfs::cgroup::parse_mounts(data));
});
