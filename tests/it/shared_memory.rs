//! Processes that share memory are seen to share it, whichever way they came by it.

use std::collections::BTreeSet;
use std::fs;

use serde_json::Value;

use crate::house::{House, Program, SEEING, privileged, wait_until};

/// The object of the workload, as it stands in maps.
const OBJECT: &str = "/memfd:numad-workload";

/// First addresses of the shared mappings of a process whose name has this in it.
fn shared_at(pid: u32, name: &str) -> BTreeSet<String> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).expect("its maps");
    maps.lines()
        .filter(|line| line.contains(" rw-s ") && line.contains(name))
        .filter_map(|line| line.split('-').next().map(str::to_owned))
        .collect()
}

#[test]
fn privileged_processes_that_share_memory_are_seen_to_share_it() {
    if !privileged() {
        return;
    }
    let house = House::serving(SEEING);
    // Released often, for on a crowded machine a round takes long.
    let program = Program::start(&[
        "shared-processes",
        "--threads",
        "4",
        "--seed",
        "3",
        "--release-rounds",
        "4",
    ]);
    // One pair has its memory by inheritance, the other maps one object at two addresses.
    let objects = || -> Vec<BTreeSet<String>> {
        let places = program.threads.iter().map(|&pid| shared_at(pid, OBJECT));
        places.filter(|places| !places.is_empty()).collect()
    };
    wait_until("one pair maps an object", || objects().len() == 2);
    let objects = objects();
    assert!(objects[0].is_disjoint(&objects[1]), "at two addresses");
    let pids: Vec<String> = program.threads.iter().map(ToString::to_string).collect();
    let mut attach = vec!["attach", "--policy", "deloc"];
    attach.extend(pids.iter().map(String::as_str));
    house.ok(&attach);
    wait_until("every process shares most with its partner", || {
        let told = house.ok(&["matrix", &pids[0], "--window", "decayed", "--json"]);
        let matrix: Value = serde_json::from_str(&told).expect("a matrix is JSON");
        let partners = matrix["partners"].as_array().cloned().unwrap_or_default();
        program.partners.iter().all(|pair| {
            [(pair[0], pair[1]), (pair[1], pair[0])]
                .iter()
                .all(|&(tid, with)| {
                    partners.iter().any(|partner| {
                        partner["tid"] == tid && partner["with"] == with && partner["sure"] == true
                    })
                })
        })
    });
    let csv = house.ok(&["matrix", &pids[0], "--csv"]);
    assert!(csv.contains(",samples:"), "{csv}");
    let status: Value = serde_json::from_str(&house.ok(&["status", "--json"])).expect("JSON");
    let evidence = &status["attachments"][0]["evidence"];
    assert!(
        evidence["samples"].as_u64() > Some(0) && evidence["coverage"].as_f64() > Some(0.0),
        "{evidence}"
    );
    house.ok(&["detach", &pids[0]]);
}
