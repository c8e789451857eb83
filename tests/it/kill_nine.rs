//! `kill -9` at moments nobody chose, then undo: compared mask by mask.

use std::process::Command;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::signal::Signal;
use nix::unistd::Pid;

use crate::house::{House, Program, privileged, wait_until};

/// Windows as short as they get, places that change all the time.
const RESTLESS: &str = "[engine]\ninterval_min_ms = 50\ninterval_max_ms = 50\nsamples_min = 0\nhold_ms = 0\n\
                        bind = \"core\"\n";

/// How many times the daemon dies.
const DEATHS: u64 = 8;

/// One half of the threads gets a mask of its own before numad comes.
fn pin_some(program: &Program) {
    let mut first = CpuSet::new();
    first.set(0).expect("cpu 0 fits");
    for &tid in program.threads.iter().step_by(2) {
        let tid = Pid::from_raw(i32::try_from(tid).expect("a tid"));
        sched_setaffinity(tid, &first).expect("the mask is taken");
    }
}

/// A different moment each time, from a seed that is printed.
fn moments() -> impl Iterator<Item = Duration> {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .expect("after 1970");
    let seed = u64::from(now.subsec_nanos());
    println!("seed {seed}");
    (0..DEATHS).map(move |death| {
        let mixed = (seed + death).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        Duration::from_micros(mixed % 700_000)
    })
}

#[test]
fn privileged_the_next_start_puts_everything_back() {
    if !privileged() {
        return;
    }
    let program = Program::start(&["groups:8", "--threads", "64", "--region-kib", "64"]);
    pin_some(&program);
    let before = program.masks();
    let mut house = House::serving(RESTLESS);
    for moment in moments() {
        house.ok(&["attach", &program.pid(), "--policy", "random"]);
        thread::sleep(moment);
        house.stop(Signal::SIGKILL);
        house.start();
        assert_eq!(
            program.masks(),
            before,
            "killed after {moment:?}\n{}",
            house.log()
        );
    }
}

#[test]
fn privileged_undo_without_a_daemon_puts_everything_back() {
    if !privileged() {
        return;
    }
    let program = Program::start(&["pairs", "--threads", "64", "--region-kib", "64"]);
    pin_some(&program);
    let before = program.masks();
    let mut house = House::with_settings(RESTLESS);
    for moment in moments().take(4) {
        house.start();
        house.ok(&["attach", &program.pid(), "--policy", "scatter"]);
        thread::sleep(moment);
        house.stop(Signal::SIGKILL);
        for _ in 0..2 {
            // The second time has nothing left to do, and does no harm.
            let undone: std::process::Output = undo(&house);
            assert!(
                undone.status.success(),
                "{}",
                String::from_utf8_lossy(&undone.stderr)
            );
            assert_eq!(program.masks(), before, "killed after {moment:?}");
        }
    }
}

#[test]
fn privileged_a_state_directory_that_is_removed_costs_no_undo() {
    if !privileged() {
        return;
    }
    let program = Program::start(&["groups:8", "--threads", "32", "--region-kib", "64"]);
    pin_some(&program);
    let before = program.masks();
    let mut house = House::serving(RESTLESS);
    house.ok(&["attach", &program.pid(), "--policy", "random"]);
    wait_until("threads are bound", || program.masks() != before);
    // The daemon may write there meanwhile, and then the directory is not empty yet.
    wait_until("the directory is gone", || {
        std::fs::remove_dir_all(house.folder.join("state")).is_ok()
    });
    // It comes back with the next change that is written down, of this program or of another.
    let newer = Program::start(&["pairs", "--threads", "8", "--region-kib", "64"]);
    let newer_before = newer.masks();
    house.ok(&["attach", &newer.pid(), "--policy", "random"]);
    wait_until("more threads are bound", || newer.masks() != newer_before);
    house.stop(Signal::SIGKILL);
    assert!(undo(&house).status.success());
    assert_eq!((program.masks(), newer.masks()), (before, newer_before));
}

fn undo(house: &House) -> std::process::Output {
    let mut command: Command = house.daemon_command();
    command.arg("--undo").output().expect("numad --undo runs")
}
