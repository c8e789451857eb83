//! The whole path on this kernel: a real program sampled, mapped, bound, and put back.

use nix::sys::signal::{self, Signal};
use serde_json::Value;

use crate::house::{House, Program, SEEING, pid_of, privileged, wait_until};

/// Short windows, and cores as places, so that there is something to do on any machine.
const BUSY: &str =
    "[engine]\ninterval_min_ms = 100\ninterval_max_ms = 400\nsamples_min = 1\nbind = \"core\"\n";

fn status(house: &House) -> Value {
    serde_json::from_str(&house.ok(&["status", "--json"])).expect("status is JSON")
}

fn windows(house: &House) -> u64 {
    status(house)["attachments"][0]["windows"]
        .as_u64()
        .unwrap_or(0)
}

#[test]
fn privileged_who_shares_memory_is_seen() {
    if !privileged() {
        return;
    }
    let house = House::serving(SEEING);
    let program = Program::start(&["pairs", "--threads", "8", "--seed", "3"]);
    house.ok(&["attach", &program.pid(), "--policy", "deloc"]);
    wait_until("every thread talks most to its partner", || {
        let told = house.ok(&["matrix", &program.pid(), "--window", "decayed", "--json"]);
        let matrix: Value = serde_json::from_str(&told).expect("a matrix is JSON");
        program.partners.iter().all(|pair| {
            loudest(&matrix, pair[0]) == Some(pair[1]) && loudest(&matrix, pair[1]) == Some(pair[0])
        })
    });
    assert!(
        house
            .ok(&["matrix", &program.pid(), "--svg", "-"])
            .starts_with("<svg")
    );
    house.ok(&["detach", &program.pid()]);
}

/// The thread that this one shares most with.
fn loudest(matrix: &Value, tid: u32) -> Option<u32> {
    let tids: Vec<u64> = matrix["tids"]
        .as_array()?
        .iter()
        .filter_map(Value::as_u64)
        .collect();
    let own = tids.iter().position(|&known| known == u64::from(tid))?;
    let row: Vec<u64> = matrix["rows"][own]
        .as_array()?
        .iter()
        .filter_map(Value::as_u64)
        .collect();
    let most = (0..row.len())
        .filter(|&other| row[other] > 0)
        .max_by_key(|&other| row[other])?;
    u32::try_from(tids[most]).ok()
}

#[test]
fn privileged_threads_are_bound_and_put_back() {
    if !privileged() {
        return;
    }
    let house = House::serving(BUSY);
    let program = Program::start(&["pairs", "--threads", "6"]);
    let before = program.masks();
    house.ok(&["attach", &program.pid(), "--policy", "scatter"]);
    wait_until("threads are bound", || program.masks() != before);
    // All that is kept: some windows later the last forty events may be others. Who asks while threads are being bound
    // is answered before what was done is written down.
    let all = ["explain", &program.pid(), "--json", "--last", "1000"];
    let told = || house.ok(&all).contains("order of threads");
    wait_until("the reason is told", told);
    house.ok(&["detach", &program.pid()]);
    assert_eq!(program.masks(), before);
}

#[test]
fn privileged_a_dry_run_changes_nothing() {
    if !privileged() {
        return;
    }
    let house = House::serving(BUSY);
    let program = Program::start(&["pairs", "--threads", "4"]);
    let before = program.masks();
    house.ok(&["attach", &program.pid(), "--policy", "scatter", "--dry-run"]);
    wait_until("three windows are judged", || windows(&house) >= 3);
    assert_eq!(program.masks(), before);
    assert_eq!(status(&house)["journal_open"].as_u64(), Some(0));
}

#[test]
fn privileged_stopping_the_daemon_puts_everything_back() {
    if !privileged() {
        return;
    }
    let mut house = House::serving(BUSY);
    let program = Program::start(&["pairs", "--threads", "4"]);
    let before = program.masks();
    house.ok(&["attach", &program.pid(), "--policy", "scatter"]);
    wait_until("threads are bound", || program.masks() != before);
    house.stop(Signal::SIGTERM);
    assert_eq!(program.masks(), before);
}

#[test]
fn privileged_a_program_that_ends_is_forgotten() {
    if !privileged() {
        return;
    }
    let house = House::serving(BUSY);
    let program = Program::start(&["pairs", "--threads", "4"]);
    house.ok(&["attach", &program.pid(), "--policy", "scatter"]);
    wait_until("a window is judged", || windows(&house) >= 1);
    drop(program);
    wait_until("nothing is attached", || {
        status(&house)["attachments"]
            .as_array()
            .is_some_and(Vec::is_empty)
    });
    assert!(
        house
            .ok(&["explain", "1"])
            .contains("attachment 1 has ended")
    );
    wait_until("the journal is empty", || {
        status(&house)["journal_open"].as_u64() == Some(0)
    });
}

#[test]
fn privileged_run_starts_a_program_under_a_policy() {
    if !privileged() {
        return;
    }
    let house = House::serving(BUSY);
    let workload = crate::house::binary("numad-workload");
    let workload = workload.to_str().expect("a path in UTF-8");
    let told = house.ok(&[
        "run",
        "--policy",
        "packed",
        "--",
        workload,
        "pairs",
        "--threads",
        "2",
        "--seconds",
        "1",
    ]);
    assert!(told.contains("workload pairs"), "{told}");
    assert!(house.log().contains("packed"), "{}", house.log());
}

#[test]
fn privileged_settings_are_read_again() {
    if !privileged() {
        return;
    }
    let house = House::serving("[daemon]\nlog_level = \"info\"\n");
    let file = house.folder.join("numad.toml");
    std::fs::write(&file, "[daemon]\nlog_level = \"debug\"\n").expect("settings are written");
    assert!(house.ok(&["reload"]).contains("log_level"));
    std::fs::write(&file, "[daemon]\nlog_levle = \"debug\"\n").expect("settings are written");
    let told = house.refused(&["reload"], 3);
    assert!(
        told.contains("log_levle") && told.contains("log_level"),
        "{told}"
    );
    assert!(
        house
            .ok(&["config", "show"])
            .contains("log_level = \"debug\""),
        "the old settings stay"
    );
    let daemon = house.daemon.as_ref().expect("it runs");
    signal::kill(pid_of(daemon), Signal::SIGHUP).expect("it takes the signal");
    wait_until("the signal is answered in the log", || {
        house.log().matches("log_levle").count() >= 2
    });
}

#[test]
fn privileged_an_idle_daemon_is_small() {
    if !privileged() {
        return;
    }
    let house = House::serving("");
    let resident = status(&house)["resident_bytes"].as_u64().expect("a size");
    let daemon = pid_of(house.daemon.as_ref().expect("it runs"));
    let told = std::fs::read_to_string(format!("/proc/{daemon}/status")).expect("its status");
    let kib = |name: &str| -> u64 {
        let line = told.lines().find_map(|line| line.strip_prefix(name));
        let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
        number.expect("the kernel tells")
    };
    // 15 MiB in all are promised of the program that is installed. What is tested here is not optimised,
    // and half of what is resident is its own code; what it takes beyond that is held tighter.
    let own = resident - kib("RssFile:") * 1024;
    assert!(own < 3 << 20, "{own} bytes of its own");
    let all = if cfg!(debug_assertions) { 30 } else { 15 };
    assert!(resident < all << 20, "{resident} bytes resident");
}

#[test]
fn privileged_a_daemon_is_small_again_when_all_have_ended() {
    if !privileged() {
        return;
    }
    let house = House::serving(BUSY);
    for _ in 0..40 {
        let mut program = std::process::Command::new("sleep")
            .arg("0.05")
            .spawn()
            .expect("it starts");
        // Whether it is attached or gone already is the same to us.
        drop(house.ctl(&["attach", &program.id().to_string(), "--policy", "scatter"]));
        program.wait().expect("it ends");
    }
    wait_until("nothing is attached", || {
        status(&house)["attachments"]
            .as_array()
            .is_some_and(Vec::is_empty)
    });
    let resident = status(&house)["resident_bytes"].as_u64().expect("a size");
    assert!(resident < 24 << 20, "{resident} bytes resident");
}
