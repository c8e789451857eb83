//! The engine from outside: a small made-up machine, scripted policies, and what comes of them.

#![expect(
    clippy::unwrap_used,
    reason = "clippy excepts test functions, not the helpers beside them"
)]

mod affinity;
mod ally;
mod bounds;
mod eras;
mod evidence;
mod guard;
mod lasting;
mod lifecycle;
mod messages;
mod operations;
mod pages;
mod rest;
mod revert;
mod sharing;
mod within;
mod world;

/// Every file beside this one is part of it.
#[test]
fn every_file_is_included() {
    let here = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it");
    let main = include_str!("main.rs");
    for entry in std::path::Path::new(here).read_dir().unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let module = name.trim_end_matches(".rs");
        assert!(
            module == "main" || main.contains(&format!("mod {module};")),
            "{name}"
        );
    }
}
