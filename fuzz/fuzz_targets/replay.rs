#![no_main]

use std::io::Cursor;
use std::time::Duration;

#[path = "support/replay_entries.rs"]
mod replay_entries;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    // The file itself, then a whole recording whose entries are the bytes.
    drop(played(data.to_vec(), "deloc"));
    let Some((&first, entries)) = data.split_first() else {
        return;
    };
    let policies = policies::registry();
    let policy = policies[usize::from(first) % policies.len()].name;
    let report = played(replay_entries::recording(entries), policy).expect("it is in order");
    assert!(report.violations.is_empty(), "{:#?}", report.violations);
});

fn played(bytes: Vec<u8>, policy: &str) -> Result<sim::ReplayReport, sim::RunError> {
    let spec = sim::ReplaySpec {
        name: "fuzzed".to_owned(),
        policy: policy.to_owned(),
        settings: Vec::new(),
        machine: None,
        window: Some(Duration::from_millis(100)),
    };
    sim::replay(&spec, &mut || Ok(Cursor::new(bytes.clone())))
}
