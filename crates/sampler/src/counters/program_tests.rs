use std::time::{Duration, Instant};

use super::*;
use crate::counters::fake::FakeOpener;
use crate::counters::open::KernelCounters;
use crate::kernel::KernelSettings;

fn tids(numbers: &[u32]) -> Vec<Tid> {
    numbers.iter().copied().map(Tid).collect()
}

fn begin(opener: &mut FakeOpener, room: usize, lists: &[&[u32]]) -> ProgramCounters {
    let mut asked = 0;
    let beginning = Beginning {
        opener,
        cores: &[],
        room,
    };
    ProgramCounters::begin(beginning, &mut || {
        let list = tids(lists[asked.min(lists.len() - 1)]);
        asked += 1;
        list
    })
}

#[test]
fn a_program_is_the_sum_of_its_threads() {
    let mut opener = FakeOpener::default();
    let mut counters = begin(&mut opener, 100, &[&[1, 2]]);
    assert_eq!((counters.descriptors(), counters.absent()), (10, &[][..]));
    opener.count(1000, |spec| match (spec.event.pmu, spec.event.config) {
        (0, 0) => 1000,
        (0, 1) => 1500,
        (_, config) => config,
    });
    let counts = counters.read();
    assert_eq!(counts.ipc(), Some(1.5));
    assert_eq!(counts.cpu_ns, Some(2.0));
    assert_eq!(counts.faults, Some(4.0));
    assert_eq!(counters.read().cycles, Some(0.0));
    assert_eq!(counters.read().ipc(), None);
    assert_eq!(counters.total().instructions, Some(3000.0));
    let user_only = |spec: &CounterSpec| spec.user_only == (spec.event.pmu == 0);
    assert!(
        opener
            .state()
            .open
            .values()
            .all(|(spec, _)| user_only(spec))
    );
    drop(counters);
    assert!(opener.state().open.is_empty());
}

#[test]
fn both_kinds_of_cores_are_added_up() {
    let mut opener = FakeOpener::default();
    let beginning = Beginning {
        opener: &mut opener,
        cores: &[4, 10],
        room: 100,
    };
    let mut counters = ProgramCounters::begin(beginning, &mut || tids(&[1]));
    assert_eq!(counters.descriptors(), 7);
    opener.count(10, |spec| match spec.event.config >> 32 {
        4 => 30,
        10 => 12,
        _ => 0,
    });
    assert_eq!(counters.read().cycles, Some(42.0));
}

#[test]
fn threads_that_came_meanwhile_are_not_missed() {
    let mut opener = FakeOpener::default();
    let counters = begin(&mut opener, 100, &[&[1], &[1, 2], &[1, 2]]);
    assert_eq!((counters.descriptors(), counters.unsure()), (10, 0));
    // One that ended meanwhile is no reason to begin anew.
    let counters = begin(&mut opener, 100, &[&[1, 2], &[2]]);
    assert_eq!((counters.descriptors(), counters.unsure()), (10, 0));
}

#[test]
fn a_program_that_never_holds_still_is_counted_as_well_as_may_be() {
    let mut opener = FakeOpener::default();
    let lists: Vec<Vec<u32>> = (1..20).map(|last| (1..=last).collect()).collect();
    let lists: Vec<&[u32]> = lists.iter().map(Vec::as_slice).collect();
    let counters = begin(&mut opener, 1000, &lists);
    assert_eq!((counters.descriptors(), counters.unsure()), (20, 1));
    assert_eq!(opener.state().open.len(), 20);
}

#[track_caller]
fn check_refused(pmu: u32, config: Option<u64>, why: CounterRefused, expected: &[Quantity]) {
    let mut opener = FakeOpener::default();
    opener.state().refused.push((pmu, config, why));
    let counters = begin(&mut opener, 100, &[&[1, 2]]);
    let absent: Vec<Quantity> = counters
        .absent()
        .iter()
        .map(|(quantity, _)| *quantity)
        .collect();
    assert_eq!(absent, expected, "{why:?}");
    assert!(counters.absent().iter().all(|(_, told)| *told == why));
    let open = QUANTITIES.len() - expected.len();
    assert_eq!(counters.descriptors(), open * 2);
    assert_eq!(opener.state().open.len(), open * 2);
}

#[test]
fn what_is_refused_drops_out_and_the_rest_goes_on() {
    let hardware = [Quantity::Instructions, Quantity::Cycles];
    for why in [
        CounterRefused::NoHardware,
        CounterRefused::Busy,
        CounterRefused::Exhausted,
    ] {
        check_refused(0, None, why, &hardware);
        check_refused(0, Some(0), why, &hardware);
        check_refused(1, Some(2), why, &[Quantity::Faults]);
    }
    let after = [
        Quantity::Instructions,
        Quantity::Cycles,
        Quantity::Faults,
        Quantity::Switches,
    ];
    check_refused(0, None, CounterRefused::TooManyFiles, &after);
    check_refused(
        1,
        Some(1),
        CounterRefused::NotPermitted { paranoid: Some(3) },
        &QUANTITIES,
    );
}

#[test]
fn a_thread_that_is_gone_is_left_out() {
    let mut opener = FakeOpener::default();
    opener.state().refused.push((1, None, CounterRefused::Gone));
    let mut counters = begin(&mut opener, 100, &[&[1, 2]]);
    assert_eq!(counters.absent(), &[]);
    assert_eq!(counters.read().cpu_ns, Some(0.0));
}

#[test]
fn what_does_not_fit_is_not_counted_in_part() {
    let mut opener = FakeOpener::default();
    let counters = begin(&mut opener, 8, &[&[1, 2, 3]]);
    let over = |left| CounterRefused::OverLimit { wanted: 3, left };
    let absent = [
        (Quantity::Instructions, over(2)),
        (Quantity::Cycles, over(2)),
        (Quantity::Switches, over(2)),
    ];
    // Processor time took three; instructions three; cycles no longer fit, so that neither is kept.
    assert_eq!(counters.absent(), absent);
    assert_eq!(counters.descriptors(), 6);
}

#[test]
fn counters_that_took_turns_are_scaled_and_one_that_never_ran_counts_like_the_others() {
    let mut opener = FakeOpener::default();
    let mut counters = begin(&mut opener, 100, &[&[1, 2]]);
    for (&number, (spec, reading)) in &mut opener.state().open {
        let ran = if number % 2 == 0 && spec.event.pmu == 0 {
            250
        } else {
            0
        };
        *reading = Reading {
            value: ran * 4,
            enabled_ns: 1000,
            running_ns: ran,
        };
    }
    let counts = counters.read();
    assert_eq!(counts.instructions, Some(8000.0));
    assert_eq!(counts.cpu_ns, None);
    assert!((counters.coverage() - 0.125).abs() < 1e-9);
}

#[test]
fn one_that_goes_back_is_unknown_once_and_one_that_fails_drops_out() {
    let mut opener = FakeOpener::default();
    let mut counters = begin(&mut opener, 100, &[&[1]]);
    opener.count(10, |_| 10);
    counters.read();
    for (_, reading) in opener.state().open.values_mut() {
        reading.value = 3;
    }
    assert_eq!(counters.read(), ProgramCounts::default());
    opener.count(10, |_| 10);
    assert_eq!(counters.read().faults, Some(10.0));
    assert_eq!(counters.total().faults, Some(20.0));
    opener.state().broken = true;
    assert_eq!(counters.read(), ProgramCounts::default());
    assert_eq!(counters.descriptors(), 0);
    let absent: Vec<Quantity> = counters
        .absent()
        .iter()
        .map(|(quantity, _)| *quantity)
        .collect();
    assert_eq!(absent, QUANTITIES);
    assert!(opener.state().open.is_empty());
    counters.read();
}

/// Counts this test's own thread and one it makes, which runs for a known time.
#[test]
fn privileged_software_counters_follow_new_threads() {
    if !nix::unistd::geteuid().is_root() {
        crate::skipped("needs root");
        return;
    }
    let mut opener = KernelCounters::new(KernelSettings::default());
    let own = u32::try_from(nix::unistd::gettid().as_raw()).unwrap();
    let beginning = Beginning {
        opener: &mut opener,
        cores: &[],
        room: 16,
    };
    let mut counters = ProgramCounters::begin(beginning, &mut || tids(&[own]));
    if let Some((_, why)) = counters
        .absent()
        .iter()
        .find(|(of, _)| *of == Quantity::CpuTime)
    {
        crate::skipped(&why.to_string());
        return;
    }
    for (quantity, why) in counters.absent() {
        println!(
            "{quantity}: {why}; {}",
            why.remedy().unwrap_or("nothing helps")
        );
        assert!(quantity.is_of_hardware(), "{quantity}: {why}");
    }
    counters.read();
    let (before, began) = (thread_time(), Instant::now());
    let spun = std::thread::spawn(|| {
        let pages = vec![1_u8; 4 << 20];
        let began = thread_time();
        while thread_time() - began < Duration::from_millis(100) {
            std::hint::black_box(&pages);
        }
        thread_time()
    })
    .join()
    .unwrap();
    let expected = spun + (thread_time() - before);
    let elapsed = began.elapsed();
    let counts = counters.read();
    let counted = Duration::from_secs_f64(counts.cpu_ns.unwrap() / 1e9);
    // What the kernel does to begin and end the thread is in one and not in the other.
    check_counted(counted, expected, (elapsed, Duration::from_millis(20)));
    assert!(
        counts.faults.unwrap() >= 1.0 && counts.switches.unwrap() >= 1.0,
        "{counts:?}"
    );
}

/// As above, for a process that is counted from outside and makes another by exec.
#[test]
fn privileged_software_counters_follow_fork_and_exec() {
    if !nix::unistd::geteuid().is_root() {
        crate::skipped("needs root");
        return;
    }
    let script = "read go; for i in 1 2 3; do /bin/sh -c 'i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done'; done; times";
    let mut child = std::process::Command::new("/bin/sh")
        .args(["-c", script])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut opener = KernelCounters::new(KernelSettings::default());
    let pid = child.id();
    let beginning = Beginning {
        opener: &mut opener,
        cores: &[],
        room: 16,
    };
    let mut counters = ProgramCounters::begin(beginning, &mut || tids(&[pid]));
    let began = Instant::now();
    drop(child.stdin.take());
    let output = child.wait_with_output().unwrap();
    let elapsed = began.elapsed();
    let expected = times(&String::from_utf8(output.stdout.clone()).unwrap());
    assert!(output.status.success());
    if counters
        .absent()
        .iter()
        .any(|(of, _)| *of == Quantity::CpuTime)
    {
        crate::skipped("task-clock cannot be counted here");
        return;
    }
    let counted = Duration::from_secs_f64(counters.read().cpu_ns.unwrap() / 1e9);
    // Time before the counters began is in the shell's sum alone, which counts in hundredths.
    let slack = expected / 4 + Duration::from_millis(20);
    check_counted(counted, expected, (elapsed, slack));
}

/// One thread after the other ran, and each is counted once. How busy the machine is does not matter, but what a host
/// takes from a virtual machine meanwhile the kernel counts here and not in the time of the thread.
fn check_counted(counted: Duration, expected: Duration, (elapsed, slack): (Duration, Duration)) {
    assert!(
        counted + slack > expected && counted < elapsed.max(expected) + slack,
        "{counted:?} for {expected:?} within {elapsed:?}"
    );
}

fn thread_time() -> Duration {
    Duration::from(nix::time::clock_gettime(nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID).unwrap())
}

/// The sum of what the shell's `times` prints: `0m0.01s` twice for itself and twice for its children.
fn times(text: &str) -> Duration {
    let one = |word: &str| {
        let (minutes, seconds) = word.strip_suffix('s').unwrap().split_once('m').unwrap();
        let seconds: f64 = seconds.parse().unwrap();
        Duration::from_secs_f64(minutes.parse::<f64>().unwrap() * 60.0 + seconds)
    };
    text.split_whitespace().map(one).sum()
}
