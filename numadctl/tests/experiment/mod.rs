//! Experiments from the command line to the page. The arm `off` needs no daemon.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use control::experiment::{
    Arm, Ending, Experiment, ExperimentRow, FORMAT, Kind, Metric, Sight, Slice, Verdict,
};
use control::rows::{Matrix, NodeAccesses};

use super::fake::{Fake, Reply};

/// An experiment whose second arm is always 10 % faster; `hostile` stands where others choose the words.
fn experiment(pairs: u32, hostile: &str) -> Experiment {
    let arm = |name: &str, policy: &str| Arm {
        name: name.to_owned(),
        policy: Some(policy.to_owned()),
        set: [("key".to_owned(), hostile.to_owned())].into(),
    };
    let slice = |number: u32| {
        let (block, place) = (number / 2, number % 2);
        let arm = (place + block) % 2;
        let drift = 10.0 + f64::from(block);
        Slice {
            block,
            arm,
            at_s: f64::from(number) * 10.0,
            length_s: drift,
            values: vec![Some(if arm == 0 { drift * 11.0 / 10.0 } else { drift })],
            exit_code: Some(0),
            output: None,
            pressure: Some(0.25),
            disturbed: None,
            moved: None,
        }
    };
    Experiment {
        format: FORMAT,
        made_by: "numadctl 0.1.0".to_owned(),
        kind: Kind::Runs,
        subject: vec!["./solver".to_owned(), hostile.to_owned()],
        directory: "/".to_owned(),
        machine: hostile.to_owned(),
        seed: 7,
        blocks: pairs,
        arms: vec![arm("linux", "linux"), arm("deloc", "deloc")],
        metrics: vec![Metric {
            name: "wall".to_owned(),
            unit: "s".to_owned(),
            higher_is_better: false,
        }],
        margin: 0.03,
        looks: false,
        slice_ms: None,
        washout_ms: None,
        same_output: false,
        ending: Ending::Complete,
        why: String::new(),
        slices: (0..2 * pairs).map(slice).collect(),
        results: Vec::new(),
        sights: Vec::new(),
    }
}

fn kept(fake: &Fake, name: &str, experiment: &Experiment) -> PathBuf {
    let path = fake.folder().join(name);
    fs::write(&path, serde_json::to_vec(experiment).unwrap()).unwrap();
    path
}

fn words(words: &str, file: &Path) -> String {
    words.replace("FILE", &file.display().to_string())
}

#[test]
fn results_follow_from_the_slices_byte_for_byte() {
    let fake = Fake::absent();
    let file = kept(&fake, "six.json", &experiment(6, "x"));
    let told = fake.ok(&words("report FILE --json", &file));
    assert_eq!(told, fake.ok(&words("report FILE --json", &file)));
    let read: Experiment = serde_json::from_str(&told).unwrap();
    let [row] = read.results.as_slice() else {
        panic!("{:?}", read.results);
    };
    // Six times the same sign: 2 of 64 ways. All differences are ln 1.1.
    assert!((row.p - 2.0 / 64.0).abs() < 1e-12);
    for gain in [row.gain, row.low, row.high] {
        assert!((gain.unwrap() - 0.1).abs() < 1e-9, "{row:?}");
    }
    assert_eq!(
        (row.verdict, row.pairs, row.more_pairs),
        (Verdict::Better, 6, None)
    );
    let text = fake.ok(&words("report FILE", &file));
    assert!(
        text.starts_with("deloc is better than linux: wall is 10.0 % better"),
        "{text}"
    );
    assert!(
        text.lines().all(|line| line.chars().count() <= 80),
        "{text}"
    );
}

#[test]
fn an_interrupted_experiment_claims_less() {
    let fake = Fake::absent();
    let cut_short = Experiment {
        ending: Ending::Interrupted,
        ..experiment(6, "x")
    };
    let file = kept(&fake, "cut.json", &cut_short);
    let text = fake.ok(&words("report FILE", &file));
    assert!(
        text.starts_with("undecided between deloc and linux"),
        "{text}"
    );
}

#[test]
fn the_page_is_whole_and_alone_whatever_the_names() {
    let fake = Fake::absent();
    let hostile = "</style><script>alert(1)</script>\"'&\u{1b}[2J http://x/";
    let matrix = Matrix {
        window: hostile.to_owned(),
        ranks: Vec::new(),
        tids: vec![70, 71],
        nodes: vec![Some(0), None],
        rows: vec![vec![0, 9], vec![9, 0]],
        samples: 18,
        support: vec![vec![0, 9], vec![9, 0]],
        confidence: 0.9,
        partners: Vec::new(),
    };
    let sight = |matrix| Sight {
        arm: 1,
        accesses: vec![NodeAccesses {
            node: Some(0),
            threads: 2,
            samples: 18,
        }],
        matrix: Some(matrix),
    };
    let uneven = Matrix {
        rows: vec![vec![0]],
        ..matrix.clone()
    };
    let experiment = Experiment {
        // What is no matrix is not drawn.
        sights: vec![sight(matrix), sight(uneven)],
        ..experiment(30, hostile)
    };
    let file = kept(&fake, "hostile.json", &experiment);
    let page = fake.ok(&words("report FILE -o -", &file));
    assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>\n"));
    assert!(page.contains(
        "Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'\""
    ));
    assert!(!page.contains("<script") && !page.contains('\u{1b}'));
    for outside in ["href=", "src=", "url(", "@import"] {
        assert!(!page.contains(outside), "{outside}");
    }
    let pictures: Vec<&str> = page
        .split("<svg ")
        .skip(1)
        .map(|rest| &rest[..rest.find("</svg>").unwrap()])
        .collect();
    // Differences, values in time, distributions; accesses and the matrix, and accesses again.
    assert_eq!(pictures.len(), 6);
    assert_eq!(page.matches("<figure>").count(), 6);
    for picture in pictures {
        let picture = format!("<svg {picture}</svg>");
        let document = roxmltree::Document::parse(&picture).unwrap();
        let named = |name| {
            document
                .root_element()
                .children()
                .any(|it| it.has_tag_name(name))
        };
        assert!(named("title") && named("desc"), "{picture}");
    }
    assert!(page.len() < 100_000, "{}", page.len());
    let again = fake.ok(&words("report FILE -o -", &file));
    assert_eq!(page, again);
}

#[test]
fn runs_are_counted_kept_and_not_begun_twice() {
    let fake = Fake::absent();
    let file = fake.folder().join("runs.json");
    let told = fake.ok(&words(
        "compare -n 6 --policies off,off --seed 3 --warm-up 0 --to-the-end --json -o FILE -- true",
        &file,
    ));
    let experiment: Experiment = serde_json::from_str(&told).unwrap();
    assert_eq!(experiment.ending, Ending::Complete);
    assert_eq!(experiment.slices.len(), 12);
    assert_eq!(experiment.arms[1].name, "off-2");
    let order: Vec<u32> = experiment.slices.iter().map(|slice| slice.arm).collect();
    let design = experiment::Design::draw(2, 6, 3).unwrap();
    let drawn: Vec<u32> = design
        .slices()
        .map(|(_, arm)| u32::try_from(arm).unwrap())
        .collect();
    assert_eq!(order, drawn);
    let of_file: Experiment = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    assert_eq!(of_file, experiment);
    let told = fake.refused(
        &words("compare -n 6 --policies off,off -o FILE -- true", &file),
        7,
    );
    assert!(told.contains("is there already"), "{told}");
    let told = fake.refused(&words("compare --continue FILE", &file), 7);
    assert!(told.contains("is over"), "{told}");
}

/// In a terminal Ctrl-C reaches both at once now and then. Here numadctl stands still until both
/// are true, and which of them it sees first is chance, so it is tried again.
#[test]
fn an_interrupt_that_ends_a_metrics_command_too_is_one() {
    let metric =
        "cmd:kill -STOP $PPID; kill -INT $PPID; { sleep 0.1; kill -CONT $PPID; } & kill -INT $$";
    let fake = Fake::absent();
    for _ in 0..8 {
        let mut command = fake.command();
        command.args(["compare", "-n", "6", "--policies", "off,off"]);
        command.args(["--warm-up", "0", "--metric", metric, "--", "true"]);
        let output = command.output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(9), "{told}");
    }
}

/// Shells drop variables that they cannot name; batch systems export functions of bash in such.
#[test]
fn a_run_has_every_variable_of_its_environment() {
    let fake = Fake::absent();
    let file = fake.folder().join("environ");
    let words = words(
        "compare -n 6 --policies off,off --warm-up 0 -- cp /proc/self/environ FILE",
        &file,
    );
    let mut command = fake.command();
    command.args(words.split_whitespace());
    command.env("a.b", "c d").env("BASH_FUNC_f%%", "() { :; }");
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let environ = String::from_utf8_lossy(&fs::read(&file).unwrap()).into_owned();
    for variable in ["a.b=c d", "BASH_FUNC_f%%=() { :; }"] {
        let count = environ.split('\0').filter(|it| *it == variable).count();
        assert_eq!(count, 1, "{variable}: {environ:?}");
    }
}

#[test]
fn no_difference_has_no_sign() {
    let fake = Fake::absent();
    let mut even = experiment(6, "x");
    for slice in &mut even.slices {
        slice.values = vec![Some(2.0)];
    }
    let file = kept(&fake, "even.json", &even);
    let told = fake.ok(&words("report FILE", &file));
    assert!(told.contains("+0.0 % to +0.0 %"), "{told}");
    assert!(!told.contains("-0.0"), "{told}");
}

/// What ends soon is told of under the name that it had when it was attached.
#[test]
fn what_stands_still_has_the_name_of_its_program() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_numadctl"));
    let mut child = command
        .args(["--stand-still", "/bin/true"])
        .spawn()
        .unwrap();
    let path = format!("/proc/{}/stat", child.id());
    let until = Instant::now() + Duration::from_secs(60);
    let mut stat = String::new();
    while !stat.contains(") T ") && Instant::now() < until {
        stat = fs::read_to_string(&path).unwrap();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(stat.contains("(true) T "), "{stat}");
}

#[test]
fn what_cannot_be_kept_is_not_said_to_be() {
    let fake = Fake::absent();
    let file = fake.folder().join("runs.json");
    let shown = file.display();
    let mut command = fake.command();
    command.args(["compare", "-n", "6", "--policies", "off,off"]);
    command.args(["--warm-up", "0", "-o"]).arg(&file);
    command.args(["--", "sh", "-c", &format!("rm {shown} && mkdir {shown}")]);
    let output = command.output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(7), "{output:?}");
    assert!(told.contains("1 of 12 runs"), "{told}");
    assert!(!told.contains("kept in"), "{told}");
}

#[test]
fn what_stopped_goes_on() {
    let fake = Fake::absent();
    let mut half = experiment(6, "x");
    half.subject = vec!["true".to_owned()];
    for arm in &mut half.arms {
        arm.policy = None;
    }
    half.slices.truncate(5);
    half.ending = Ending::Failed;
    let file = kept(&fake, "half.json", &half);
    let told = fake.ok(&words("compare --continue FILE --warm-up 0 --json", &file));
    let whole: Experiment = serde_json::from_str(&told).unwrap();
    assert_eq!(whole.slices.len(), 12);
    assert_eq!(whole.slices[..5], half.slices[..]);
    let place = |slice: &Slice| slice.at_s;
    assert!(
        whole
            .slices
            .windows(2)
            .all(|pair| place(&pair[0]) <= place(&pair[1]))
    );
}

#[test]
fn it_goes_on_where_it_was_begun() {
    let fake = Fake::absent();
    let mut half = experiment(6, "x");
    half.subject = vec!["./in_it".to_owned()];
    half.directory = fake.folder().display().to_string();
    for arm in &mut half.arms {
        arm.policy = None;
    }
    half.slices.truncate(5);
    half.ending = Ending::Interrupted;
    let file = kept(&fake, "half.json", &half);
    std::os::unix::fs::symlink("/bin/true", fake.folder().join("in_it")).unwrap();
    let told = fake.ok(&words("compare --continue FILE --warm-up 0 --json", &file));
    assert!(told.contains("\"ending\":\"complete\""), "{told}");
    half.directory = "/no/such/folder".to_owned();
    let file = kept(&fake, "gone.json", &half);
    let before = fs::read(&file).unwrap();
    let told = fake.refused(&words("compare --continue FILE", &file), 6);
    assert!(told.contains("directory `/no/such/folder`"), "{told}");
    assert_eq!(fs::read(&file).unwrap(), before, "it can go on later");
}

/// Twice and half as much are equal amounts, of which four in six are better: 1 - C(6,3) / 64.
#[test]
fn equal_effects_tie_whatever_their_logarithms_round_to() {
    let mut even = experiment(6, "x");
    for slice in &mut even.slices {
        let of_control = f64::from(slice.block * 7 + 10);
        let factor = match (slice.arm, slice.block) {
            (0, _) => 1.0,
            (_, 0..4) => 0.5,
            _ => 2.0,
        };
        slice.values = vec![Some(of_control * factor)];
    }
    let row = experiment::results::results(&even).remove(0);
    assert!((row.p - 0.6875).abs() < 1e-12, "{row:?}");
}

#[test]
fn a_device_is_not_read_for_ever() {
    let fake = Fake::absent();
    refused(&fake, "report /dev/zero", 2, "it is too large");
}

#[track_caller]
fn refused(fake: &Fake, line: &str, code: i32, part: &str) {
    let told = fake.refused(line, code);
    assert!(told.contains(part), "{line}: {told}");
}

#[test]
fn what_cannot_be_compared_is_refused() {
    let fake = Fake::absent();
    for (line, code, part) in [
        ("compare -n 6", 2, "required"),
        (
            "compare -n 3 --policies off,off -- true",
            2,
            "at least 6 can",
        ),
        (
            "compare -n 6 --policies off -- true",
            2,
            "nothing to be compared with",
        ),
        (
            "compare -n 6 --policies off,delok -- true",
            6,
            "did you mean `deloc`",
        ),
        (
            "compare -n 6 --policies off,off --set a.b=c -- true",
            2,
            "of no policy",
        ),
        (
            "compare -n 6 --policies off,deloc --set deloc.refin=c -- true",
            3,
            "policy `deloc`: setting `refin` is not known; did you mean `refine`?",
        ),
        (
            "compare -n 6 --policies off,deloc --set deloc.refine=2 -- true",
            3,
            "must be true or false",
        ),
        (
            "compare -n 6 --policies off,deloc --set deloc.engine.hold=2 -- true",
            3,
            "setting `engine.hold` is not known",
        ),
        (
            "compare -n 6 --policies off,off --set a=c -- true",
            2,
            "does not say of which",
        ),
        (
            "compare -n 6 --policies off,off -- /no/such/program",
            6,
            "cannot start",
        ),
        (
            "compare -n 6 --policies off,linux -- true",
            4,
            "no daemon listens",
        ),
        (
            "compare -n 6 --policies off,off --warm-up 0 -- false",
            10,
            "ended with exit status: 1",
        ),
    ] {
        refused(&fake, line, code, part);
    }
}

#[test]
fn metrics_without_a_value_are_refused() {
    let fake = Fake::absent();
    for (line, code, part) in [
        (
            "compare -n 6 --policies off,off --metric wal -- true",
            2,
            "`wal` is no metric",
        ),
        (
            "compare -n 6 --policies off,off --metric ipc -- true",
            2,
            "not for whole runs",
        ),
        (
            "compare -n 6 --policies off,off --metric wall --metric wall -- true",
            2,
            "given twice",
        ),
        (
            "compare -n 6 --policies off,off --metric cmd:true --warm-up 0 -- true",
            10,
            "printed nothing",
        ),
        (
            "compare -n 6 --policies off,off --metric cmd:false --warm-up 0 -- true",
            10,
            "exit status: 1",
        ),
        (
            "compare -n 6 --policies off,off --margin 0 -- true",
            2,
            "percent above 0",
        ),
        (
            "compare -n 6 --policies off,off -o /no/such/x.json -- true",
            6,
            "cannot write",
        ),
    ] {
        refused(&fake, line, code, part);
    }
}

/// Else it would be found after the last run, which may be days later.
#[test]
fn a_first_run_without_a_value_ends_it() {
    let fake = Fake::absent();
    for value in ["0", "-5"] {
        let line = [
            "compare",
            "-n",
            "6",
            "--policies",
            "off,off",
            "--warm-up",
            "0",
        ];
        let mut command = fake.command();
        command.args(line).arg("--json").arg("--metric");
        command
            .arg(format!("cmd:echo {value}"))
            .args(["--", "true"]);
        let output = command.output().unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(10), "{told}");
        assert!(told.contains("has no value here"), "{told}");
        let experiment: Experiment = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(
            (experiment.slices.len(), experiment.ending),
            (1, Ending::Failed)
        );
    }
}

#[test]
fn a_daemon_that_is_busy_interrupts_nothing() {
    let mut replies = super::daemon();
    let busy =
        r#"{"error":{"kind":"busy","message":"64 programs are attached","remedy":"detach one"}}"#;
    replies.insert("POST /v1/attachments", Reply::Json(503, busy.to_owned()));
    let fake = Fake::answering(replies);
    let file = fake.folder().join("busy.json");
    let line = "compare -n 6 --policies none,linux --warm-up 0 -o FILE -- true";
    refused(&fake, &words(line, &file), 9, "64 programs are attached");
    let kept: Experiment = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    assert_eq!(kept.ending, Ending::Failed);
    assert_eq!(kept.why, "64 programs are attached");
}

#[test]
fn energy_is_read_before_anything_is_started() {
    if Path::new("/sys/class/powercap/intel-rapl:0").exists() {
        return;
    }
    let fake = Fake::absent();
    let flag = fake.folder().join("flag");
    let line = words(
        "compare -n 6 --policies off,off --metric energy -- touch FILE",
        &flag,
    );
    refused(&fake, &line, 4, "energy is not counted here");
    assert!(!flag.exists());
    refused(
        &fake,
        "compare -n 6 --policies off,off --metric watts -- true",
        2,
        "not for whole runs",
    );
}

#[test]
fn files_that_are_no_experiments_are_refused() {
    let fake = Fake::absent();
    let later = kept(
        &fake,
        "later.json",
        &Experiment {
            format: 99,
            ..experiment(6, "x")
        },
    );
    let text = fake.folder().join("text");
    fs::write(&text, "not JSON").unwrap();
    for (line, code, part) in [
        ("compare --continue /no/such/x.json", 6, "cannot read"),
        ("report /no/such/x.json", 6, "cannot read"),
        ("report TEXT", 2, "is no experiment"),
        (
            "report LATER",
            2,
            "later.json` has format 99, this program reads 1",
        ),
        ("report LATER -o x --json", 2, "cannot be used with"),
    ] {
        let line = line
            .replace("TEXT", &text.display().to_string())
            .replace("LATER", &later.display().to_string());
        refused(&fake, &line, code, part);
    }
}

fn row(state: &str, turn: u64, asks: bool) -> ExperimentRow {
    ExperimentRow {
        id: 3,
        uid: 0,
        state: state.to_owned(),
        behind: None,
        subject: vec!["pid 4242".to_owned()],
        arms: vec!["linux".to_owned(), "deloc".to_owned()],
        metric: "cmd:x".to_owned(),
        slices: u32::try_from(turn).unwrap(),
        planned: 12,
        last_arm: (turn > 0).then(|| "deloc".to_owned()),
        last_value: (turn > 0).then_some(1.25),
        left_s: (turn > 0).then_some(90.0),
        ending: match state {
            "over" => Ending::Complete,
            _ => Ending::Running,
        },
        why: String::new(),
        turn,
        asks,
    }
}

/// A daemon with experiment 3, which it gives to whoever asks for one; it takes one turn, then another that asks for
/// numbers, and is over when it has them.
fn daemon(ended: Ending) -> Fake {
    let mut replies = super::daemon();
    let slices = Experiment {
        kind: Kind::Slices,
        slice_ms: Some(60),
        washout_ms: Some(15),
        ..experiment(6, "x")
    };
    let over = super::json(&experiment::results::ended(slices, ended, ""));
    replies.insert(
        "POST /v1/experiments",
        super::json(&row("running", 0, false)),
    );
    replies.insert(
        "GET /v1/experiments",
        super::json(&vec![row("over", 2, false), row("waiting", 0, false)]),
    );
    replies.insert(
        "GET /v1/experiments/3/turn?after=0",
        super::json(&row("running", 1, true)),
    );
    replies.insert(
        "POST /v1/experiments/3/readings",
        super::json(&row("over", 2, false)),
    );
    replies.insert("GET /v1/experiments/3", over.clone());
    replies.insert("DELETE /v1/experiments/3", over);
    Fake::answering(replies)
}

const SHORT: &str = "ab 4242 --slice 60ms --time-constant 6ms --policies linux,deloc --set deloc.refine=false -n 6 --seed 2";

fn of_experiments(fake: &Fake) -> Vec<String> {
    let asked = fake.asked().into_iter();
    asked
        .filter(|line| line.contains("/v1/experiments"))
        .collect()
}

#[test]
fn an_experiment_is_begun_followed_and_given_its_numbers() {
    let fake = daemon(Ending::Complete);
    let told = fake.ok(&format!("{SHORT} --metric cmd:nproc --metric local --json"));
    let experiment: Experiment = serde_json::from_str(&told).unwrap();
    assert_eq!(experiment.slices.len(), 12);
    let asked = of_experiments(&fake);
    let [begun, turn, reading, shown] = asked.as_slice() else {
        panic!("{asked:?}");
    };
    for part in [
        "POST /v1/experiments {\"target\":{\"pids\":[4242]}",
        "\"name\":\"deloc\",\"policy\":\"deloc\",\"set\":{\"refine\":\"false\"}",
        "\"seed\":2",
        "\"slice_ms\":60,\"time_constant_ms\":6",
        "\"attended\":true",
    ] {
        assert!(begun.contains(part), "{begun}");
    }
    assert!(turn.starts_with("GET /v1/experiments/3/turn?after=0"));
    assert!(reading.contains("{\"turn\":1,\"values\":["), "{reading}");
    assert!(reading.ends_with(",null]}"), "{reading}");
    assert!(shown.starts_with("GET /v1/experiments/3"));
    let output = fake.run(&format!("{SHORT} --metric cmd:nproc"));
    let err = String::from_utf8(output.stderr).unwrap();
    assert!(err.contains("slice 2 of 12, deloc: 1.25"), "{err}");
    let out = String::from_utf8(output.stdout).unwrap();
    assert!(out.contains("`numadctl report ab:3 -o PAGE`"), "{out}");
    let page = fake.ok("report ab:3 -o -");
    assert!(page.starts_with("<!DOCTYPE html>"));
}

#[test]
fn the_experiment_is_told_when_there_are_no_numbers() {
    for (metric, code, part) in [
        ("cmd:false", 10, "exit status: 1"),
        ("cmd:date", 10, "which is no number"),
    ] {
        let fake = daemon(Ending::Failed);
        let output = fake.run(&format!("{SHORT} --metric {metric} --json"));
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{told}");
        assert!(told.contains(part), "{told}");
        let asked = of_experiments(&fake);
        assert!(
            asked
                .iter()
                .any(|line| line.contains("\"failed\":\"metric")),
            "{asked:?}"
        );
    }
    let mut failed = super::daemon();
    failed.insert("POST /v1/experiments", super::json(&row("over", 0, false)));
    let none = Experiment {
        slices: Vec::new(),
        ending: Ending::Failed,
        why: "metric `instructions` has no value here".to_owned(),
        ..experiment(6, "x")
    };
    let metric = |name: &str| {
        let mut failed = failed.clone();
        let metrics = vec![Metric {
            name: name.to_owned(),
            ..none.metrics[0].clone()
        }];
        let none = Experiment {
            metrics,
            ..none.clone()
        };
        failed.insert("GET /v1/experiments/3", super::json(&none));
        Fake::answering(failed)
    };
    for (name, code, part) in [
        ("instructions", 4, "a cmd: metric always can"),
        ("cmd:echo -5", 10, "must be above 0"),
        ("counter:cmd:date", 10, "a number that grows"),
    ] {
        refused(&metric(name), SHORT, code, part);
    }
}

#[test]
fn nobody_need_wait_for_an_experiment() {
    let fake = daemon(Ending::Complete);
    let told = fake.ok(&format!("{SHORT} --detach"));
    assert!(told.contains("experiment 3 has begun"), "{told}");
    assert!(of_experiments(&fake)[0].contains("\"attended\":false"));
    let list = fake.ok("ab list");
    assert_eq!(list.lines().count(), 3, "{list}");
    assert!(
        list.contains("complete") && list.contains("linux,deloc"),
        "{list}"
    );
    assert!(fake.ok("ab show 3").contains("deloc is better"));
    assert!(fake.ok("ab stop 3").contains("deloc is better"));
    refused(&fake, "ab show 4", 6, "no such thing");
    refused(&fake, "ab stop", 2, "required");
    refused(&fake, "ab show x", 2, "invalid value");
    refused(
        &fake,
        &format!("{SHORT} --detach --metric cmd:nproc"),
        2,
        "would not be there",
    );
    refused(
        &fake,
        &format!("{SHORT} --detach -o x"),
        2,
        "cannot be used",
    );
}

#[test]
fn what_cannot_be_put_under_policies_is_refused() {
    let fake = daemon(Ending::Complete);
    for (line, code, part) in [
        ("ab", 2, "required"),
        (
            "ab 4242 --slice 29s --time-constant 6s",
            2,
            "at least 30000 ms long",
        ),
        ("ab 4242 --policies linux", 2, "nothing to be compared with"),
        ("ab 4242 --policies off,linux", 2, "not counted under `off`"),
        ("ab 4242 --metric wall", 2, "for whole runs"),
        ("ab 4242 --metric speed", 2, "is no metric"),
        ("ab 4242 --max-harm 0", 2, "from 1 to 99"),
        ("ab 4242 -n 5", 2, "at least 6 can"),
        ("ab 4242 -o /etc/passwd", 7, "is there already"),
        ("ab 4242 -o /no/such/x.json", 6, "cannot write"),
    ] {
        refused(&fake, line, code, part);
    }
    assert_eq!(of_experiments(&fake), [""; 0]);
    refused(&Fake::absent(), "ab 4242", 4, "no daemon listens");
}
