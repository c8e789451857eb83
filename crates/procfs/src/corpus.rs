//! The seeds of the fuzz targets, and every seed cut short at every byte, as plain tests.

use std::fs;
use std::path::Path;

#[track_caller]
fn run(target: &str, parse: fn(&[u8])) {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    let mut seeds = 0;
    for entry in fs::read_dir(corpus.join(target)).unwrap() {
        let seed = fs::read(entry.unwrap().path()).unwrap();
        for length in 0..=seed.len() {
            parse(&seed[..length]);
        }
        seeds += 1;
    }
    assert!(seeds > 0, "no seeds for `{target}`");
}

#[test]
fn corpora_of_all_targets_parse_without_panic() {
    run("numa_maps", |bytes| {
        let _chosen = crate::numa_maps::begins_with_a_choice(bytes);
        drop(crate::numa_maps::parse(bytes).map(|all| crate::numa_maps::chosen(&all)));
    });
    run("proc_stat", |bytes| drop(crate::stat::parse(bytes)));
    run("proc_status", |bytes| drop(crate::status::parse(bytes)));
    run("environ", |bytes| {
        drop(crate::environ::parse(bytes, topology::Pid(1)));
    });
    run("cgroup", |bytes| {
        drop(crate::cgroup::parse_memberships(bytes));
        drop(crate::cgroup::parse_mounts(bytes));
    });
}
