//! Pictures and tables, golden: what people see is compared letter by letter.

use std::collections::BTreeMap;

use control::rows::{
    Attachment, AttachmentDetail, Counts, EventRow, Evidence, Finding, JournalMask, JournalMemory,
    JournalReport, JournalRow, KernelMoves, Ledger, LinkRow, Matrix, MemoryRow, Moving, Partner,
    PolicyRow, PowerRow, SettingRow, Status, ThreadRow, UndoReport,
};
use numadctl::render::{
    attachment, counters, doctor, explain, journal, matrix, matrix_svg, policies, status,
};
use proptest::prelude::*;

/// Threads 11, 12, ... that talk to their neighbour in pairs, on these nodes.
fn pairs(nodes: &[Option<u32>]) -> Matrix {
    let count = nodes.len();
    Matrix {
        window: "decayed".to_owned(),
        ranks: Vec::new(),
        tids: (11..).take(count).collect(),
        nodes: nodes.to_vec(),
        rows: (0..count)
            .map(|one| {
                let amount = |other: usize| match (one ^ 1 == other, one == other) {
                    (true, _) => 900,
                    (_, true) => 0,
                    _ => 100,
                };
                (0..count).map(amount).collect()
            })
            .collect(),
        samples: 1234,
        support: vec![vec![1; count]; count],
        confidence: 0.9,
        partners: Vec::new(),
    }
}

#[test]
fn a_matrix_is_drawn_by_node() {
    let drawn = matrix::picture(&pairs(&[Some(1), Some(0), Some(1), Some(0), None]), 80);
    assert_eq!(
        drawn,
        "communication, decayed: 5 threads, 1234 samples\n\
        \x20           ┌────┬────┬──┐\n\
         node 0   12 │  ░░│██░░│░░│\n\
        \x20        14 │░░  │░░██│░░│\n\
        \x20           ├────┼────┼──┤\n\
         node 1   11 │██░░│  ░░│░░│\n\
        \x20        13 │░░██│░░  │░░│\n\
        \x20           ├────┼────┼──┤\n\
         no node  15 │░░░░│░░░░│  │\n\
        \x20           └────┴────┴──┘\n\
         amount: blank 0  ░ to 225  ▒ to 450  ▓ to 675  █ to 900\n"
    );
}

#[test]
fn a_journal_is_told_by_process() {
    let mask = |had: Option<&str>, got: Option<&str>, threads| JournalMask {
        had: had.map(str::to_owned),
        got: got.map(str::to_owned),
        threads,
    };
    let masks = vec![
        mask(None, Some("0-7"), 30),
        mask(None, Some("8-15"), 20),
        mask(Some("1-2"), None, 3),
        mask(Some("1-2"), Some("0-7"), 1),
    ];
    let mut report = JournalReport {
        directory: "/var/lib/numad".to_owned(),
        processes: vec![
            JournalRow {
                command: Some("solver".to_owned()),
                pages: 1024,
                since_s: Some(90.0),
                ..JournalRow::new((4242, 5), masks)
            },
            JournalRow::new((4250, 6), Vec::new()),
        ],
        shared: vec![JournalMemory {
            memory: "memory 0:1 2066".to_owned(),
            pages: 7,
        }],
        switches: vec!["kernel.numa_balancing: 0 before, 1 by numad".to_owned()],
        damaged: 1,
        stale: false,
    };
    assert_eq!(
        journal::text(&report, true),
        "the journal in `/var/lib/numad` holds changes of 2 processes\n\
         PROCESS  COMMAND         FOR  THREADS  PARKED  PAGES  MASKS\n\
        \x20  4242  solver   1 min 30 s       54       3   1024  none -> 0-7 (30), none -> 8-15 (20), 1-2 -> none (3), 1 more\n\
        \x20  4250  (ended)           -        0       0      0\n\
         7 pages of shared memory `memory 0:1 2066`\n\
         kernel.numa_balancing: 0 before, 1 by numad\n\
         1 line damaged, and skipped\n"
    );
    report = JournalReport {
        directory: report.directory,
        ..JournalReport::default()
    };
    assert_eq!(
        journal::text(&report, true),
        "the journal in `/var/lib/numad` lists no changes\n"
    );
    report.stale = true;
    assert!(journal::text(&report, true).contains("of an earlier boot"));
    let nothing = JournalReport::default();
    assert!(journal::text(&nothing, true).ends_with("lists no changes\n"));
    assert!(journal::text(&nothing, false).ends_with("lists no changes of your processes\n"));
}

#[test]
fn partners_stand_next_to_each_other() {
    let mut shuffled = pairs(&[Some(0); 6]);
    // 11 with 14, 12 with 16, 13 with 15.
    for (one, row) in shuffled.rows.iter_mut().enumerate() {
        let partner = [3, 5, 4, 0, 2, 1][one];
        for (other, amount) in row.iter_mut().enumerate() {
            *amount = if other == partner { 900 } else { 0 };
        }
    }
    let drawn = matrix::picture(&shuffled, 80);
    let rows: Vec<&str> = drawn
        .lines()
        .filter_map(|line| line.split_once(" │"))
        .map(|(label, _)| label.trim_start_matches("node 0").trim())
        .collect();
    assert_eq!(rows, ["11", "14", "12", "16", "13", "15"], "{drawn}");
}

#[test]
fn where_the_width_does_not_suffice_threads_share_a_row() {
    let nodes: Vec<Option<u32>> = (0..24).map(|task| Some(task / 12)).collect();
    assert_eq!(
        matrix::picture(&pairs(&nodes), 31),
        "communication, decayed: 24 threads, 1234 samples\n\
        \x20               ┌──────┬──────┐\n\
         node 0   11 +1  │█░░░░░│░░░░░░│\n\
        \x20        13 +1  │░█░░░░│░░░░░░│\n\
        \x20        15 +1  │░░█░░░│░░░░░░│\n\
        \x20        17 +1  │░░░█░░│░░░░░░│\n\
        \x20        19 +1  │░░░░█░│░░░░░░│\n\
        \x20        21 +1  │░░░░░█│░░░░░░│\n\
        \x20               ├──────┼──────┤\n\
         node 1   23 +1  │░░░░░░│█░░░░░│\n\
        \x20        25 +1  │░░░░░░│░█░░░░│\n\
        \x20        27 +1  │░░░░░░│░░█░░░│\n\
        \x20        29 +1  │░░░░░░│░░░█░░│\n\
        \x20        31 +1  │░░░░░░│░░░░█░│\n\
        \x20        33 +1  │░░░░░░│░░░░░█│\n\
        \x20               └──────┴──────┘\n\
         mean amount: blank 0  ░ to 225  ▒ to 450  ▓ to 675  █ to 900\n\
         up to 2 threads share a row; --csv and --svg show each\n"
    );
}

#[test]
fn nothing_seen_is_said() {
    let mut quiet = pairs(&[Some(0), Some(0)]);
    quiet.rows = vec![vec![0; 2]; 2];
    assert!(matrix::picture(&quiet, 80).ends_with("no communication seen\n"));
    assert!(matrix::picture(&pairs(&[]), 80).ends_with("no thread takes part yet\n"));
    assert!(matrix_svg::drawing(&quiet).contains("no communication seen"));
    assert!(matrix_svg::drawing(&pairs(&[])).contains("0 threads"));
}

#[test]
fn shades_go_by_quarters_of_the_largest() {
    for (amount, shade) in [
        (0, ' '),
        (1, '░'),
        (25, '░'),
        (26, '▒'),
        (75, '▓'),
        (76, '█'),
        (100, '█'),
    ] {
        assert_eq!(matrix::shade(amount, 100), shade, "{amount}");
    }
    assert_eq!(matrix::shade(u64::MAX, u64::MAX), '█');
    assert_eq!(matrix::shade(1, u64::MAX), '░');
    assert_eq!(matrix::shade(7, 0), ' ');
}

#[test]
fn a_matrix_is_given_as_values() {
    assert_eq!(
        matrix::csv(&pairs(&[Some(1), None])),
        "tid,node,11,12,samples:11,samples:12\n11,1,0,900,1,1\n12,,900,0,1,1\n"
    );
}

#[test]
fn a_heat_map_is_a_whole_drawing() {
    let mut given = pairs(&[Some(0), Some(1), Some(1), None]);
    given.window = "<&\u{1b}>".to_owned();
    let svg = matrix_svg::drawing(&given);
    let parsed = roxmltree::Document::parse(&svg).unwrap();
    let named = |name: &str| {
        parsed
            .descendants()
            .filter(|node| node.has_tag_name(name))
            .count()
    };
    assert_eq!(
        named("title"),
        13,
        "the drawing has one, and each cell that is not blank tells its amount"
    );
    assert!(
        svg.contains("<title>11 - 12: 900</title>")
            && svg.contains("node 1")
            && svg.contains("no node")
    );
    assert!(svg.contains("&lt;&amp;?&gt;"));
    assert!(
        !svg.contains("href") && !svg.contains("url("),
        "it needs nothing but itself"
    );
}

#[test]
fn a_large_heat_map_stays_small() {
    let nodes: Vec<Option<u32>> = (0..700).map(|task| Some(task % 4)).collect();
    let svg = matrix_svg::drawing(&pairs(&nodes));
    roxmltree::Document::parse(&svg).unwrap();
    assert!(svg.len() < 1 << 20, "{} bytes", svg.len());
    assert!(svg.contains("mean amount of up to 2 threads"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn pictures_keep_within_their_width(
        nodes in proptest::collection::vec(proptest::option::of(0u32..70), 0..150),
        width in 0usize..200,
        largest in any::<u64>(),
    ) {
        let mut given = pairs(&nodes);
        if let Some(cell) = given.rows.last_mut().and_then(|row| row.first_mut()) {
            *cell = largest;
        }
        prop_assert!(matrix::is_square(&given));
        let drawn = matrix::picture(&given, width);
        for line in drawn.lines().filter(|line| line.contains('│') || line.contains('─')) {
            prop_assert!(line.chars().count() <= width.max(30), "{line}");
        }
        let svg = matrix_svg::drawing(&given);
        prop_assert!(roxmltree::Document::parse(&svg).is_ok());
    }
}

#[test]
fn what_is_not_square_is_noticed() {
    let good = pairs(&[Some(0), Some(1)]);
    assert!(matrix::is_square(&good));
    let mut short_row = good.clone();
    short_row.rows[1].pop();
    let mut no_node = good.clone();
    no_node.nodes.pop();
    let mut more_tids = good;
    more_tids.tids.push(99);
    assert!(
        [short_row, no_node, more_tids]
            .iter()
            .all(|matrix| !matrix::is_square(matrix))
    );
}

fn program() -> Attachment {
    Attachment {
        id: 3,
        pids: vec![4242, 4250],
        command: "solver".to_owned(),
        uid: 1000,
        policy: "deloc".to_owned(),
        dry_run: false,
        attached_s: 75.0,
        source: "faults (soft-dirty)".to_owned(),
        windows: 12,
        window_ms: 2000,
        threads: 9,
        tasks: 8,
        samples: 4711,
        samples_window: 321,
        lost: 2,
        pages: 1000,
        evidence: Evidence {
            samples: 321,
            samples_per_task: 40.125,
            samples_per_page: 0.321,
            lost_share: 0.006,
            coverage: 0.97,
            confidence_min: 0.9,
            confident: true,
        },
        ledger: Ledger {
            threads_bound: 8,
            thread_moves: 10,
            pages_moved: 512,
            bytes_moved: 2 << 20,
            pages_refused: 1,
            spent_ns: 1_250_000,
            pause_max_ns: 400_000,
        },
        moving: None,
        distance: Some(10.4),
        local_share: Some(0.934),
        counts: None,
        ranks: Vec::new(),
        in_vain: None,
        kernel: None,
        unseen_share: None,
        external: None,
    }
}

#[test]
fn memory_that_takes_several_windows_shows_how_far_it_is() {
    let text = |seconds_left| {
        let mut status = daemon();
        status.attachments = vec![Attachment {
            moving: Some(Moving {
                bytes_moved: 3 << 30,
                bytes_left: 61 << 30,
                seconds_left,
            }),
            ..program()
        }];
        status::text(&status, 80)
    };
    let expected = "moving 3  3.0 GiB of 64.0 GiB moved, about 20 min 20 s left\n";
    let found = text(Some(1220.0));
    assert!(found.contains(expected), "{found}");
    let found = text(None);
    assert!(
        found.contains("moving 3  3.0 GiB of 64.0 GiB moved\n"),
        "{found}"
    );
}

#[test]
fn a_matrix_tells_how_sure_it_is() {
    let partner = |tid, sure| Partner {
        tid,
        with: 12,
        samples: u64::from(tid) * 10,
        share: 0.9,
        low: 0.85,
        high: 0.94,
        sure,
    };
    let drawn = Matrix {
        partners: vec![partner(11, true), partner(12, false)],
        ..pairs(&[Some(0), Some(0), Some(1), Some(1)])
    };
    let drawn = matrix::picture(&drawn, 80);
    assert!(
        drawn.ends_with(
            "sure: 1 of 4 threads share more with one other than chance explains, at 90 %\n\
             samples behind a thread's largest cell: 110 to 120\n\
             least of these: 11 with 12, 90 % of what it shares (85 to 94 %)\n"
        ),
        "{drawn}"
    );
}

#[test]
fn an_attach_is_confirmed() {
    assert_eq!(
        attachment::attached(&program()),
        "attached process 4242 and 1 other (solver) under policy deloc\nsee `numadctl explain id:3`\n"
    );
    let dry = Attachment {
        pids: vec![7],
        dry_run: true,
        ..program()
    };
    assert!(attachment::attached(&dry).ends_with(
        "process 7 (solver) under policy deloc, changing nothing\nsee `numadctl explain 7`\n"
    ));
}

#[test]
fn an_undo_tells_what_is_back_and_what_is_not() {
    let report = UndoReport {
        threads_restored: 8,
        pages_restored: 1,
        ..UndoReport::default()
    };
    assert_eq!(
        attachment::undone(&report),
        "put back 8 threads and 1 page\n"
    );
    let no_pages = UndoReport {
        pages_restored: 0,
        ..report.clone()
    };
    assert_eq!(attachment::undone(&no_pages), "put back 8 threads\n");
    let report = UndoReport {
        threads_gone: 1,
        threads_left: 2,
        threads_parked: 1,
        pages_gone: 3,
        pages_left: 4,
        failed: vec!["thread 5: not permitted".to_owned()],
        ..report
    };
    assert_eq!(
        attachment::undone(&report),
        "put back 8 threads and 1 page\ngone meanwhile: 1 thread, 3 pages\n\
         left alone: 2 threads that someone else changed since\n\
         put back when their cpuset allows it: 1 thread, without an affinity until then\n\
         left for a later undo: 4 pages of shared memory that no process has in use now\nnot put back: thread 5: not permitted\n"
    );
}

fn daemon() -> Status {
    Status {
        version: "0.1.0".to_owned(),
        pid: 99,
        up_s: 200.0,
        machine: "4 nodes, 64 cpus, 2 packages, 256 GiB".to_owned(),
        nodes: 4,
        source: "faults (soft-dirty)".to_owned(),
        source_notes: vec!["pebs is not used: no counters".to_owned()],
        sample_period: 4,
        budget_percent: 1.0,
        used_percent: Some(0.625),
        cpu_s: 1.0,
        resident_bytes: 11 << 20,
        journal_open: 520,
        attachments: vec![program()],
        rivals: vec!["`irqbalance` (process 5) runs".to_owned()],
        memory: Vec::new(),
        links: Vec::new(),
        power: Vec::new(),
    }
}

#[test]
fn counters_are_lines_where_there_are_any() {
    let memory = |nodes: &[u32]| MemoryRow {
        nodes: nodes.to_vec(),
        ..MemoryRow::default()
    };
    let status = Status {
        memory: vec![
            MemoryRow {
                read: Some(12.34e9),
                written: Some(4.1e9),
                read_wait_clocks: Some(61.4),
                ..memory(&[0])
            },
            MemoryRow {
                both: Some(1e9),
                ..memory(&[1, 2])
            },
            memory(&[3]),
        ],
        links: vec![LinkRow {
            package: 1,
            link: "upi_0".to_owned(),
            sent: 2.55e9,
        }],
        power: vec![PowerRow {
            package: 0,
            domain: "memory".to_owned(),
            watts: 31.25,
        }],
        ..daemon()
    };
    let text = status::text(&status, 80);
    let expected = "memory    node 0: 12.3 GB/s read, 4.1 GB/s written; reads wait 61 clocks\n\
                    memory    nodes 1,2: 1.0 GB/s read and written\n\
                    link      upi_0 of package 1: 2.5 GB/s sent\n\
                    power     memory of package 0: 31.2 W\n";
    assert!(text.contains(expected), "{text}");
    let counts = Counts {
        ipc: Some(1.321),
        cpu_s: Some(90.0),
        faults: Some(7),
        coverage: 0.5,
        ..Counts::default()
    };
    assert_eq!(
        counters::program(&counts).unwrap(),
        "IPC 1.32, 1 min 30 s of processor time, 7 page faults, counted 50 % of the time"
    );
    let once = Counts {
        faults: Some(1),
        switches: Some(1),
        coverage: 1.0,
        ..Counts::default()
    };
    assert_eq!(
        counters::program(&once).unwrap(),
        "1 page fault, 1 context switch"
    );
    assert_eq!(counters::program(&Counts::default()), None);
}

#[test]
fn status_is_a_table_and_the_daemon() {
    assert_eq!(
        status::text(&daemon(), 80),
        "ID  PID      COMMAND  POLICY         FOR  TASKS  SURE  BOUND  PAGES  DIST  LOCAL\n\
         \x203  4242 +1  solver   deloc   1 min 15 s    8/9  yes       8    512  10.4   93 %\n\
         \n\
         numad 0.1.0, process 99, up 3 min 20 s\n\
         machine   4 nodes, 64 cpus, 2 packages, 256 GiB\n\
         source    faults (soft-dirty)\n\
         cost      1.0 s (0.50 % of one processor), 11.0 MiB resident\n\
         budget    1 % of all processors, 0.62 % used\n\
         rate      one sample for each 4 events\n\
         journal   520 changes not undone\n\
         note      pebs is not used: no counters\n\
         rival     `irqbalance` (process 5) runs\n"
    );
    let wide = status::text(&daemon(), 200);
    assert!(
        wide.starts_with(
            "ID  PID      COMMAND  POLICY         FOR  TASKS  WINDOWS  SAMPLES  LOST  SEEN  SURE  \
             BOUND  PAGES  DIST  LOCAL\n\
             \x203  4242 +1  solver   deloc   1 min 15 s    8/9       12      321   1 %  97 %  yes   \
             \x20   8    512  10.4   93 %\n"
        ),
        "{wide}"
    );
    let idle = Status {
        nodes: 1,
        attachments: Vec::new(),
        ..daemon()
    };
    let told = status::text(&idle, 80);
    assert!(
        told.contains("nothing is attached; `numadctl attach PID")
            && told.contains("one memory node"),
        "{told}"
    );
}

#[test]
fn explain_tells_the_program_its_threads_and_events() {
    let detail = AttachmentDetail {
        attachment: program(),
        threads: vec![ThreadRow {
            pid: 4242,
            tid: 4243,
            name: "worker".to_owned(),
            cpu: 17,
            node: Some(1),
            placed: None,
            takes_part: true,
            busy: 0.98,
            samples: 40,
        }],
        settings: BTreeMap::from([("strict".to_owned(), "false".to_owned())]),
    };
    let events = [EventRow {
        at_s: 12.34,
        kind: "ordered".to_owned(),
        tid: Some(4243),
        text: "bind to node 1: shares memory with thread 4244 (amount 900)".to_owned(),
    }];
    assert_eq!(
        explain::text(&detail, &events, 100),
        "attachment 3: solver (processes 4242, 4250), under policy deloc for 1 min 15 s\n\
         settings  strict=false\n\
         seen      4711 samples in 12 windows by faults (soft-dirty), 321 in the last one; 2 lost on the\n\
         \x20         machine; 1000 pages tracked; the present window is of 2000 ms\n\
         evidence  321 samples judged by in the last window: 40.1 a thread, 0.3 a page; 0.6 % lost, 97 % of\n\
         \x20         busy time seen; enough to decide; a move needs 90.0 %\n\
         done      8 threads bound now, 10 moves in all; 512 pages (2.0 MiB) moved, 1 refused\n\
         cost      1.25 ms of processor time in system calls that moved pages, the longest took 400.00 us\n\
         effect    mean distance of communication 10.4 (10 is all local), local accesses 93 %\n\
         \n\
         threads\n\
         THREAD  NAME    CPU  NODE  PLACED  TAKES PART  BUSY  SAMPLES\n\
         \x20 4243  worker   17     1       -  yes         98 %       40\n\
         \n\
         events, oldest first\n\
         \x20   AT  KIND     WHAT\n\
         12.3 s  ordered  bind to node 1: shares memory with thread 4244 (amount 900)\n"
    );
    assert!(explain::text(&detail, &[], 100).ends_with("no window has been judged yet\n"));
}

#[test]
fn what_the_kernel_does_and_what_nobody_sees_is_told() {
    let row = Attachment {
        kernel: Some(KernelMoves {
            machine_pages: Some(1234),
            pages_elsewhere: 1,
            left: 9,
        }),
        unseen_share: Some(0.624),
        ..program()
    };
    let status = Status {
        attachments: vec![row.clone()],
        ..daemon()
    };
    let text = status::text(&status, 100);
    let line = "\nunseen 3  62 % of its memory: page faults show writes alone";
    assert!(text.contains(line), "{text}");
    let little = Status {
        attachments: vec![Attachment {
            unseen_share: Some(0.09),
            ..row.clone()
        }],
        ..daemon()
    };
    assert!(!status::text(&little, 100).contains("unseen"));
    let detail = AttachmentDetail {
        attachment: row,
        threads: Vec::new(),
        settings: BTreeMap::new(),
    };
    let text = explain::text(&detail, &[], 100);
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let line = "kernel balances too: 1234 pages moved on the machine meanwhile; 1 page of this program not \
                where numad had put it, and left there; 9 proposals left to it unseen 62 % of its memory";
    assert!(words.contains(line), "{text}");
}

#[test]
fn an_explanation_has_three_sentences() {
    let event = |kind: &str, text: &str| EventRow {
        at_s: 1.0,
        kind: kind.to_owned(),
        tid: None,
        text: text.to_owned(),
    };
    let detail = AttachmentDetail {
        attachment: program(),
        threads: Vec::new(),
        settings: BTreeMap::new(),
    };
    let events = [
        event("ordered", "thread 11 to node 0: first"),
        event("dropped", "7 page proposals: does not pay"),
        event(
            "ordered",
            "thread 12 to node 0: shares memory with thread 11 (amount 320)",
        ),
        event("window", "2000 ms"),
    ];
    assert_eq!(
        explain::brief(&detail, &events, 80),
        "In 1 min 15 s numad sampled 4711 memory accesses of solver, which show how its 8\n\
         busy threads share memory.\n\
         Done under policy deloc: 8 threads bound, 512 pages (2.0 MiB) moved; the last\n\
         order was: thread 12 to node 0: shares memory with thread 11.\n\
         Not done: 7 page proposals: does not pay; `numadctl detach id:3` puts everything\n\
         back.\n"
    );
    let mut quiet = detail;
    quiet.attachment.pids = vec![4242];
    quiet.attachment.threads = 8;
    quiet.attachment.ledger = Ledger::default();
    assert_eq!(
        explain::brief(&quiet, &[], 200),
        "In 1 min 15 s numad sampled 4711 memory accesses of solver, which show how its 8 threads share memory.\n\
         Done under policy deloc: 0 threads bound, no page moved; nothing has been ordered yet.\n\
         Nothing was refused; `numadctl detach 4242` puts everything back.\n"
    );
}

#[test]
fn what_differs_as_published_fits_a_terminal() {
    for policy in ::policies::registry() {
        let Some(published) = policy.published else {
            continue;
        };
        let text = policies::as_published(policy.name, published, 80);
        let too_wide = |line: &&str| line.chars().count() > 80;
        assert_eq!(text.lines().find(too_wide), None, "{}", policy.name);
        assert!(text.contains("  by default    "), "{text}");
    }
}

#[test]
fn each_line_of_the_differences_is_of_a_published_policy_and_whole() {
    for line in ::policies::DIFFERENCES.lines() {
        let cells: Vec<&str> = line.split('|').collect();
        assert!(cells.len() == 5 && !cells.contains(&""), "{line}");
        let of = ::policies::registry()
            .iter()
            .find(|policy| policy.name == cells[0]);
        let is_published = of.is_some_and(|policy| policy.published.is_some());
        assert!(cells[0] == "*" || is_published, "{line}");
    }
}

#[test]
fn policies_are_listed_and_paged() {
    let row = PolicyRow {
        name: "deloc".to_owned(),
        summary: "Puts threads that share memory together.".to_owned(),
        settings: vec![SettingRow {
            name: "strict".to_owned(),
            expects: "true or false".to_owned(),
            value: "true".to_owned(),
            default: "false".to_owned(),
            help: "Whether it is strict.".to_owned(),
        }],
    };
    let bare = PolicyRow {
        settings: Vec::new(),
        name: "none".to_owned(),
        ..row.clone()
    };
    assert_eq!(
        policies::list(&[row.clone(), bare.clone()], 80),
        "POLICY  WHAT IT DOES\n\
         deloc   Puts threads that share memory together.\n\
         none    Puts threads that share memory together.\n"
    );
    assert_eq!(
        policies::page(&row, 80),
        "deloc: Puts threads that share memory together.\n\
         \n\
         strict = true   (default false)\n\
         \x20   expects true or false\n\
         \x20   Whether it is strict.\n"
    );
    assert!(policies::page(&bare, 80).ends_with("it has no settings\n"));
    assert_eq!(
        policies::list(std::slice::from_ref(&row), 30),
        "POLICY  WHAT IT DOES\n\
         deloc   Puts threads that\n\
         \x20       share memory together.\n"
    );
    assert!(
        policies::page(&row, 35)
            .lines()
            .all(|line| line.len() <= 35)
    );
}

#[test]
fn findings_that_say_the_same_are_told_once() {
    let finding = |subject: &str, text: &str| Finding {
        level: "limited".to_owned(),
        subject: subject.to_owned(),
        text: text.to_owned(),
        remedy: "run it on the host".to_owned(),
    };
    let findings = [
        finding("links", "none here"),
        finding("cores", "not counted"),
        finding("energy", "none here"),
    ];
    assert_eq!(
        doctor::text(&findings, false, 80),
        "ready, with 2 limits\n\
         limited  links, energy: none here\n         -> run it on the host\n\
         limited  cores: not counted\n         -> run it on the host\n"
    );
}

#[test]
fn findings_carry_their_remedy() {
    let findings = [
        Finding {
            level: "ok".to_owned(),
            subject: "kernel".to_owned(),
            text: "6.18".to_owned(),
            remedy: String::new(),
        },
        Finding {
            level: "missing".to_owned(),
            subject: "perf events".to_owned(),
            text: "not permitted".to_owned(),
            remedy: "grant CAP_PERFMON".to_owned(),
        },
    ];
    assert_eq!(
        doctor::text(&findings, true, 80),
        "not ready: 1 thing missing\nmissing  perf events: not permitted\n         -> grant CAP_PERFMON\n\
         ok       kernel: 6.18\n"
    );
    assert_eq!(
        doctor::text(&findings, false, 20),
        "not ready: 1 thing missing\nmissing  perf\n         events: not\n         permitted\n         \
         -> grant\n            CAP_PERFMON\n1 check is fine; `numadctl doctor --verbose` shows all\n"
    );
    assert_eq!(
        doctor::text(&findings[..1], true, 80),
        "ready, and nothing is missing\nok       kernel: 6.18\n"
    );
}
