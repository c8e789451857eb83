//! What is left of attachments that have ended, and looks at programs, from a daemon that is not there.

use std::collections::BTreeMap;

use control::rows::{AttachmentDetail, EventRow, Matrix, ThreadRow, UndoReport};
use control::story::{FORMAT, Story, StoryRow};

use super::fake::{Fake, Reply};

/// Attachment 7 has ended; one of its two threads was bound to the only node that every machine has.
fn story() -> Story {
    let thread = |tid: u32| ThreadRow {
        pid: 70,
        tid,
        name: "wor\u{1b}ker<b>".to_owned(),
        cpu: 0,
        node: Some(0),
        placed: (tid == 70).then_some(0),
        takes_part: true,
        busy: 1.0,
        samples: 5,
    };
    Story {
        row: StoryRow {
            format: FORMAT,
            id: 7,
            uid: 0,
            command: "sol\nver".to_owned(),
            policy: "deloc".to_owned(),
            dry_run: false,
            ended_unix_s: 1_700_000_000,
            lasted_s: 90.0,
            samples: 10,
            thread_moves: 1,
            pages_moved: 300,
            local_before: Some(0.41),
            local_after: Some(0.88),
        },
        machine: "4 nodes".to_owned(),
        detail: AttachmentDetail {
            attachment: super::program(7, &[70]),
            threads: vec![thread(70), thread(71)],
            settings: BTreeMap::new(),
        },
        matrix: Some(Matrix {
            window: "decayed".to_owned(),
            ranks: Vec::new(),
            tids: vec![70, 71],
            nodes: vec![Some(0), Some(0)],
            rows: vec![vec![0, 9], vec![9, 0]],
            samples: 18,
            support: vec![vec![0, 9], vec![9, 0]],
            confidence: 0.9,
            partners: Vec::new(),
        }),
        events: vec![EventRow {
            at_s: 1.0,
            kind: "ordered".to_owned(),
            tid: Some(70),
            text: "thread 70 to node 0".to_owned(),
        }],
        undone: Some(UndoReport {
            threads_restored: 1,
            ..UndoReport::default()
        }),
    }
}

fn keeper() -> Fake {
    let mut replies = super::daemon();
    let story = story();
    replies.insert("GET /v1/history", super::json(&vec![story.row.clone()]));
    replies.insert("GET /v1/history/7", super::json(&story));
    Fake::answering(replies)
}

#[test]
fn what_has_ended_is_listed_and_shown_by_the_same_commands() {
    let fake = keeper();
    let list = fake.ok("history");
    assert!(
        list.contains("2023-11-14 22:13") && list.contains("41 % to 88 %"),
        "{list}"
    );
    let mut dry = super::daemon();
    let row = StoryRow {
        dry_run: true,
        ..story().row
    };
    dry.insert("GET /v1/history", super::json(&vec![row]));
    let list = Fake::answering(dry).ok("history");
    assert!(list.contains("deloc (dry run)"), "{list}");
    let told = fake.ok("explain 7");
    for part in [
        "attachment 7 has ended, 2023-11-14 22:13 UTC",
        "1 move of threads, 300 pages moved, local accesses went from 41 % to 88 %",
        "put back 1 thread",
        "thread 70 to node 0",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    // The last window and messages are not kept, so no other picture goes by their names.
    let refused = fake.refused("matrix 7 --window live", 6);
    assert!(refused.contains("`decayed` alone is kept"), "{refused}");
    assert_eq!(fake.ok("report id:7"), told);
    let brief = fake.ok("explain id:7 --brief");
    assert!(brief.lines().count() == 2 && brief.lines().all(|line| line.len() <= 80));
    let matrix = fake.ok("matrix 7 --csv");
    assert!(matrix.contains("70") && matrix.contains('9'), "{matrix}");
    let json: Story = serde_json::from_str(&fake.ok("report id:7 --json")).unwrap();
    assert_eq!(json, story());
    let page = fake.ok("report id:7 -o -");
    assert!(page.contains("<svg ") && page.contains("88 %") && page.contains("&lt;b&gt;"));
    assert!(!page.contains("<script") && !page.contains('\u{1b}'));
    // Verdict, matrix with its numbers, what each thread was and what happened: a line each.
    let parts = [
        "class=\"verdict\"",
        "<h2>Who shared memory",
        "class=\"heat\"",
        "<details>",
        "<td>70</td>",
        "\nthreads\n",
        "\nevents, oldest first\n",
    ];
    let mut at = 0;
    for part in parts {
        let found = page[at..].find(part);
        at += found.unwrap_or_else(|| panic!("`{part}` is missing in\n{page}"));
    }
}

#[test]
fn a_placement_becomes_a_recipe() {
    let fake = keeper();
    let told = fake.ok("export id:7 --format omp");
    assert!(told.starts_with("export OMP_NUM_THREADS=2\n"), "{told}");
    for (line, code, part) in [
        ("export 7", 2, "--format"),
        ("export 7 --format pbs", 2, "invalid value"),
        ("export id:3 --format slurm", 7, "no thread of it was bound"),
        ("export 77 --format slurm", 6, "neither an attachment"),
        ("explain 8", 6, "neither an attachment"),
        ("report id:8", 6, "no such thing"),
        ("matrix id:8", 6, "no such thing"),
    ] {
        let told = fake.refused(line, code);
        assert!(told.contains(part), "{line}: {told}");
    }
}

#[test]
fn run_gives_the_exit_code_and_says_what_was_gained() {
    let mut replies = super::daemon();
    replies.insert(
        "GET /v1/history/3",
        super::json(&Story {
            row: StoryRow {
                id: 3,
                ..story().row
            },
            ..story()
        }),
    );
    let fake = Fake::answering(replies);
    let output = fake
        .command()
        .args(["run", "--wait", "--", "sh", "-c", "echo out; exit 7"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(7));
    assert_eq!(output.stdout, b"out\n");
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(
        told.ends_with("went from 41 % to 88 %; `numadctl report id:3` tells more\n"),
        "{told}"
    );
    let asked = fake.asked();
    let orders: Vec<&str> = asked
        .iter()
        .filter_map(|line| line.split(' ').next())
        .collect();
    assert_eq!(orders, ["POST", "DELETE", "GET"], "{asked:?}");
    let signalled = fake
        .command()
        .args(["run", "--wait", "--", "sh", "-c", "kill -TERM $$"])
        .output()
        .unwrap();
    assert_eq!(signalled.status.code(), Some(128 + 15));
    let told = fake.refused("run --wait -- /no/such", 6);
    assert!(told.contains("cannot start"), "{told}");
}

#[test]
fn a_program_that_cannot_be_attached_is_not_begun() {
    let fake = Fake::answering(
        [(
            "POST /v1/attachments",
            Reply::Json(
                403,
                r#"{"error":{"kind":"not_permitted","message":"not yours","remedy":""}}"#
                    .to_owned(),
            ),
        )]
        .into(),
    );
    let mark = fake.folder().join("begun");
    let told = fake.refused(&format!("run --wait -- touch {}", mark.display()), 5);
    assert!(told.contains("not yours"), "{told}");
    assert!(!mark.exists());
}

#[test]
fn of_what_has_ended_the_last_events_are_shown_too() {
    let mut story = story();
    let first = story.events[0].clone();
    for number in 71..80 {
        story.events.push(EventRow {
            tid: Some(number),
            text: format!("thread {number} to node 0"),
            ..first.clone()
        });
    }
    let mut replies = super::daemon();
    replies.insert("GET /v1/history/7", super::json(&story));
    let fake = Fake::answering(replies);
    let told = fake.ok("explain 7 --last 2");
    let shown = |number: u32| told.contains(&format!("thread {number} to node 0"));
    assert!(!shown(70) && !shown(77) && shown(78) && shown(79), "{told}");
    let json = fake.ok("explain 7 --last 2 --json");
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["events"].as_array().unwrap().len(), 2);
    assert!(fake.ok("explain 7").contains("thread 70 to node 0"));
}

#[test]
fn a_look_that_sees_nothing_says_so() {
    let fake = Fake::answering(super::daemon());
    let told = fake.refused("doctor 4242 --for 20ms", 6);
    // The daemon that is not there records nothing.
    assert!(told.contains("no such thing"), "{told}");
    assert!(fake.asked().iter().all(|line| !line.starts_with("DELETE")));
    for (line, code, part) in [
        ("doctor 0", 2, "number of a process"),
        ("doctor --for 3s", 2, "required"),
        ("doctor 42 --verbose", 2, "cannot be used"),
        ("doctor 42 --for 1ms", 2, "from 2ms to 24h"),
        ("doctor 42 --for 25h", 2, "from 2ms to 24h"),
        (
            "doctor 42 --for 18446744073709551615ms",
            2,
            "from 2ms to 24h",
        ),
    ] {
        let told = fake.refused(line, code);
        assert!(told.contains(part), "{line}: {told}");
    }
}

#[test]
fn doctor_looks_at_a_process_that_there_is() {
    // The last number that the kernel never gives.
    let mut replies = super::daemon();
    let Some(Reply::Json(_, status)) = replies.get("GET /v1/status").cloned() else {
        panic!("a status");
    };
    let one = status.replace("\"nodes\":4", "\"nodes\":1");
    assert_ne!(one, status);
    replies.insert("GET /v1/status", Reply::Json(200, one));
    let fake = Fake::answering(replies);
    let told = fake.refused("doctor 4194305", 6);
    assert!(told.contains("no process `4194305`"), "{told}");
    let own = std::process::id();
    let plain = fake.ok(&format!("doctor {own}"));
    let told: serde_json::Value =
        serde_json::from_str(&fake.ok(&format!("doctor {own} --json"))).unwrap();
    assert_eq!(told["pid"], own);
    let sentence = told["sentences"][0].as_str().unwrap();
    let words = |text: &str| {
        text.split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(words(sentence), words(&plain));
}
