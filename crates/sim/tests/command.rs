//! `numad-sim` as people and scripts meet it.

use std::process::{Command, Output};

fn numad_sim(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_numad-sim"))
        .args(arguments)
        .output()
        .expect("the binary of this package can be started")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("the output is text")
}

#[track_caller]
fn refused(arguments: &[&str], code: i32, words: &str) {
    let output = numad_sim(arguments);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}");
    let complaint = text(&output.stderr);
    assert!(complaint.contains(words), "{complaint}");
    assert_eq!(complaint.lines().count(), 1, "{complaint}");
}

#[test]
fn the_same_command_prints_the_same_bytes() {
    let short = ["--workload", "pairs", "--seconds", "3", "--seed", "7"];
    for more in [&["--show"][..], &["--json"], &["--fault", "all"]] {
        let arguments = [&short[..], more].concat();
        let (one, other) = (numad_sim(&arguments), numad_sim(&arguments));
        assert!(one.status.success(), "{}", text(&one.stderr));
        assert_eq!(one.stdout, other.stdout);
    }
    let table = text(&numad_sim(&short).stdout);
    assert!(table.starts_with("seed 7\n"), "{table}");
    assert!(table.contains("work done compared to none: +"), "{table}");
    let json = text(&numad_sim(&[&short[..], &["--json"]].concat()).stdout);
    assert!(
        json.starts_with("{\"seed\":7,") && json.ends_with("}\n"),
        "{json}"
    );
}

#[test]
fn the_picture_is_ascii_where_the_locale_is() {
    let shown = |locale: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_numad-sim"));
        let command = command
            .args(["--seconds", "3", "--show"])
            .env("LC_ALL", locale);
        text(
            &command
                .output()
                .expect("the binary of this package can be started")
                .stdout,
        )
    };
    let (ascii, letters) = (shown("C"), shown("C.UTF-8"));
    assert!(ascii.is_ascii() && ascii.contains("##"), "{ascii}");
    assert_eq!(ascii, picture::letters::ascii(&letters));
    assert!(letters.contains("██"), "{letters}");
}

#[test]
fn the_picture_shows_before_why_after_and_undo() {
    let output = numad_sim(&["--seconds", "3", "--seed", "7", "--show"]);
    let shown = text(&output.stdout);
    for line in shown.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
    // Sentences are broken where a line ends.
    let shown = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut at = 0;
    for words in [
        "SIMULATED machine 4x4@10,21",
        "Seen before anything was changed",
        "What was done and why",
        "shares memory with thread",
        "pages to node",
        "In the end",
        "undo: complete",
    ] {
        let found = shown[at..].find(words);
        at += found.unwrap_or_else(|| panic!("`{words}` is missing in\n{shown}"));
    }
}

#[test]
fn programs_have_as_much_memory_as_is_asked_for() {
    let large = [
        "--workload",
        "slices",
        "--seconds",
        "2",
        "--memory",
        "64G",
        "--huge",
    ];
    let more = ["--samples", "5000", "--bandwidth", "unknown", "--json"];
    let json = text(&numad_sim(&[&large[..], &more].concat()).stdout);
    for words in [
        "\"conditions\":\"--memory 64G --huge --samples 5000\"",
        "\"bandwidth\":\"unknown\"",
        "\"undo_complete\":true",
        "\"violations\":[]",
    ] {
        assert!(json.contains(words), "{json}");
    }
}

#[test]
fn mistakes_are_one_line_and_an_exit_code() {
    refused(&["--nosuch"], 2, "unexpected argument '--nosuch' found");
    refused(&["--seed", "x"], 2, "for '--seed <SEED>'");
    refused(&["--json", "--show"], 2, "cannot be used with");
    refused(&["--cpus", ""], 2, "cpus ``: names none");
    refused(&["--policy", "x\ny\u{1b}[31m"], 6, r"`x\ny\u{1b}[31m`");
    refused(&["--workload", "pears"], 6, "`pears`");
    refused(&["--fault", "flood"], 2, "`flood`");
    refused(&["--memory", "96"], 2, "memory `96`: must be a number with");
    refused(
        &["--memory", "1T", "--threads", "99"],
        2,
        "at most 64 TiB in all",
    );
    for command in [
        &["--workload", "phases", "--threads", "64"][..],
        &["matrix", "--machines", "4x72"],
    ] {
        refused(
            &[command, &["--memory", "1T"]].concat(),
            2,
            "than a program has addresses for",
        );
    }
    refused(&["--touch", "none"], 2, "touch `none`: must be own, one");
    refused(&["--source", "pebs"], 2, "source `pebs`: must be period");
    refused(&["--samples", "0"], 2, "0 is not in 1..=10000000");
    refused(&["--bandwidth", "much"], 2, "bandwidth `much`: must be");
    refused(&["matrix", "--memory", "1G,x"], 2, "memory `x`");
    refused(&["--set", "strict"], 2, "NAME=VALUE");
    refused(&["--cpus", "0-"], 2, "cpus `0-`");
    refused(
        &["--topology", "/no/such/machine.xml"],
        6,
        "/no/such/machine.xml",
    );
    refused(&["--policy", "delok"], 6, "did you mean `deloc`?");
    refused(&["--scenario", "nowhere"], 6, "rough-day");
    refused(&["--set", "pages_ratio=99"], 3, "`pages_ratio`");
}

#[test]
fn a_matrix_is_the_same_however_many_threads_run_it() {
    let matrix = |threads: &str| {
        let directory =
            std::env::temp_dir().join(format!("numad-sim-matrix-{}-{threads}", std::process::id()));
        let path = directory.to_str().expect("temporary paths are text");
        let cell = ["--machines", "2x16", "--workloads", "flood", "--policies"];
        let run = ["none", "--windows", "6", "--threads", threads, "-o", path];
        let output = numad_sim(&[&["matrix"][..], &cell, &run].concat());
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert!(text(&output.stderr).contains("3 of 3 runs"));
        let files = ["matrix.md", "matrix.html", "cells.csv"].map(|name| {
            std::fs::read_to_string(directory.join(name)).expect("the file was written")
        });
        std::fs::remove_dir_all(&directory).expect("the directory is ours");
        files
    };
    assert_eq!(matrix("1"), matrix("3"));
    refused(&["matrix", "--workloads", "x"], 6, "no workload `x`");
    refused(
        &["matrix", "--policies", "delok"],
        6,
        "did you mean `deloc`?",
    );
    refused(&["matrix", "--threads", "0"], 2, "`0` threads");
    refused(
        &["matrix", "--seed", "1"],
        2,
        "unexpected argument '--seed'",
    );
    refused(&["--seed", "1", "matrix"], 2, "cannot be used with");
    let here = env!("CARGO_MANIFEST_PATH");
    refused(&["matrix", "-o", here], 1, "cannot write");
}

#[test]
fn what_is_drawn_is_the_same_each_time_and_its_worst_can_be_run_again() {
    let few = ["drawn", "--count", "6", "--seconds", "2", "--quiet"];
    let drawn = |threads: &str| {
        numad_sim(&[&few[..], &["--policy", "scatter", "--threads", threads]].concat())
    };
    let (one, other) = (drawn("1"), drawn("3"));
    assert!(one.status.success(), "{}", text(&one.stderr));
    assert_eq!(one.stdout, other.stdout);
    let told = text(&one.stdout);
    assert!(
        told.starts_with("6 scenarios of seed 1 under scatter\n"),
        "{told}"
    );
    let line = told.lines().find(|line| line.contains("numad-sim"));
    let line = line.expect("scatter is worse somewhere");
    let words = line
        .split_whitespace()
        .skip_while(|word| *word != "numad-sim");
    let words: Vec<&str> = words.skip(1).map(|word| word.trim_matches('\'')).collect();
    let again = text(&numad_sim(&words).stdout);
    assert!(again.contains("compared to none"), "{line}: {again}");
    refused(&["drawn", "--count", "0"], 2, "`0` scenarios");
    refused(&["drawn", "--policy", "x"], 6, "x");
    refused(&["drawn", "--threads", "0"], 2, "`0` threads");
}

#[test]
fn help_has_an_example_and_the_list_is_complete() {
    let help = text(&numad_sim(&["--help"]).stdout);
    assert!(
        help.contains("EXAMPLE:") && help.contains("Exit codes:"),
        "{help}"
    );
    let list = text(&numad_sim(&["--list"]).stdout);
    assert!(list.contains("\n  one-toucher      4x4@10,21    slices         16 threads  one"));
    assert!(list.contains("groups:N") && list.contains("deloc") && list.contains("rough-day"));
}
