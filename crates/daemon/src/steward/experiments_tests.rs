//! Experiments on a machine that is not there, on a clock of its own.

use std::collections::BTreeMap;

use control::experiment::{
    Arm, Ending, Experiment, ExperimentRequest, ExperimentRow, ReadingRequest,
};
use control::rows::Target;

use super::tests::{EAGER, USER, request as attach_request};
use control::ErrorKind;
use control::experiment::BALANCING;

use super::*;
use crate::fake::{Settings, World};
use crate::peer::Peer;

fn request(pid: u32) -> ExperimentRequest {
    let arm = |name: &str| Arm {
        name: name.to_owned(),
        policy: Some(name.to_owned()),
        set: BTreeMap::new(),
    };
    ExperimentRequest {
        target: Target::Pids(vec![pid]),
        arms: vec![arm("none"), arm("packed")],
        metrics: vec!["instructions".to_owned()],
        blocks: 6,
        seed: 1,
        margin: 0.03,
        looks: false,
        slice_ms: Some(4_000),
        time_constant_ms: Some(400),
        max_harm: 0.5,
        attended: false,
    }
}

fn machine() -> World {
    let world = World::new();
    world.state().hardware = true;
    world
}

fn pass(world: &World, steward: &mut Steward, time: Duration) {
    let end = world.state().now.after(time);
    while world.state().now < end {
        world.pass(Duration::from_millis(50));
        steward.turn();
    }
}

fn found(steward: &Steward, id: u32) -> Experiment {
    let found = steward.find_experiment(Peer::DAEMON, id).unwrap();
    found.look_up().unwrap()
}

fn row(steward: &Steward, id: u32) -> ExperimentRow {
    steward.experiment_row(Peer::DAEMON, id).unwrap()
}

/// Eager, and allowed to switch the kernel's balancing.
const ALLOWING: &str = "[daemon]\nallow_global = true\n";

const LONG: Duration = Duration::from_secs(60);

#[test]
fn it_runs_by_itself_and_leaves_every_arm() {
    let (world, settings) = (machine(), Settings::new("experiment", EAGER));
    let (mut steward, _gate) = world.steward(&settings);
    let begun = steward.experiment(USER, &request(100), None).unwrap();
    assert_eq!((begun.id, begun.state.as_str()), (1, "running"));
    assert_eq!(steward.attachments(USER).len(), 1);
    pass(&world, &mut steward, LONG);
    let experiment = found(&steward, 1);
    assert_eq!(experiment.ending, Ending::Complete);
    assert_eq!(experiment.slices.len(), 12);
    assert_eq!(experiment.results.len(), 1);
    for slice in &experiment.slices {
        let moved = slice.moved.unwrap();
        assert_eq!(moved.threads, u64::from(slice.arm) * 4, "{slice:?}");
        assert!((slice.pressure.unwrap() - 0.25).abs() < 0.01);
        assert!(slice.values[0].is_some());
    }
    let seen: Vec<u32> = experiment.sights.iter().map(|sight| sight.arm).collect();
    assert_eq!(seen, [0, 1], "each policy's last slice");
    let (accesses, matrix) = (
        &experiment.sights[1].accesses,
        experiment.sights[1].matrix.as_ref(),
    );
    assert_eq!(
        accesses.iter().map(|node| node.threads).sum::<u64>(),
        4,
        "{accesses:?}"
    );
    assert_eq!(matrix.unwrap().tids.len(), 4);
    assert_eq!(world.state().undone.len(), 12);
    assert!(steward.attachments(USER).is_empty() && world.state().done.is_empty());
    assert_eq!(steward.wait(steward.now()), None);
    assert_eq!(row(&steward, 1).state, "over");
    assert_eq!(row(&steward, 1).left_s, None);
    // It is there after a start, and numbers go on.
    drop(steward);
    let (mut steward, _gate) = world.steward(&settings);
    assert_eq!(found(&steward, 1), experiment);
    assert_eq!(steward.experiment(USER, &request(100), None).unwrap().id, 2);
}

/// As on a machine with very many processes.
#[test]
fn a_user_s_program_is_not_searched_for_at_everyone_s_expense() {
    for (peer, takes_ms, ending) in [
        (USER, 20, Ending::Complete),
        (USER, 60, Ending::Failed),
        (Peer::DAEMON, 60, Ending::Complete),
    ] {
        let settings = Settings::new("experiment-search", EAGER);
        let world = machine();
        let (mut steward, _gate) = world.steward(&settings);
        world.state().named = vec![Pid(100)];
        let asked = ExperimentRequest {
            target: Target::Command("program".to_owned()),
            slice_ms: Some(1_000),
            time_constant_ms: Some(100),
            ..request(100)
        };
        let processes = steward.finder(&asked.target).map(|find| find().unwrap());
        steward.experiment(peer, &asked, processes).unwrap();
        world.state().search_takes = Duration::from_millis(takes_ms);
        pass(&world, &mut steward, LONG);
        let experiment = found(&steward, 1);
        assert_eq!(experiment.ending, ending, "{}", experiment.why);
        let told = experiment.why.contains("`limits.user_share_percent`");
        assert_eq!(told, ending == Ending::Failed, "{}", experiment.why);
    }
}

#[test]
fn others_of_the_same_name_do_not_end_an_experiment() {
    let settings = Settings::new("experiment-names", EAGER);
    let world = machine();
    let (mut steward, _gate) = world.steward(&settings);
    world.state().named = vec![Pid(100)];
    let asked = ExperimentRequest {
        target: Target::Command("program".to_owned()),
        ..request(100)
    };
    let processes = steward.finder(&asked.target).map(|find| find().unwrap());
    steward.experiment(Peer::DAEMON, &asked, processes).unwrap();
    world.add_process(300, 9, 1);
    world.state().named.push(Pid(300));
    pass(&world, &mut steward, LONG);
    let experiment = found(&steward, 1);
    assert_eq!(experiment.ending, Ending::Complete, "{}", experiment.why);
}

#[test]
fn what_a_killed_daemon_leaves_is_told_as_interrupted() {
    let (world, settings) = (machine(), Settings::new("experiment-killed", EAGER));
    let (mut steward, _gate) = world.steward(&settings);
    steward.experiment(USER, &request(100), None).unwrap();
    pass(&world, &mut steward, Duration::from_secs(30));
    let before = found(&steward, 1).slices;
    assert_eq!(before.len(), 7);
    // As if it were killed while it writes.
    drop(steward);
    let file = settings.experiments().join("1-7.jsonl");
    let mut text = std::fs::read_to_string(&file).unwrap();
    text.push_str("{\"slice\":{\"blo");
    std::fs::write(&file, text).unwrap();
    for _ in 0..2 {
        let (steward, _gate) = world.steward(&settings);
        let experiment = found(&steward, 1);
        assert_eq!(experiment.ending, Ending::Interrupted);
        assert!(experiment.why.contains("in the middle"));
        assert_eq!(experiment.slices, before);
    }
}

#[test]
fn who_shares_nodes_waits() {
    let (world, settings) = (machine(), Settings::new("experiment-queue", EAGER));
    let (mut steward, _gate) = world.steward(&settings);
    world.add_process(300, 7, 2);
    if let Some(tasks) = world.state().threads.get_mut(&Pid(100)) {
        tasks[0].affinity = topology::CpuSet::parse_list("0-1").unwrap();
    }
    if let Some(tasks) = world.state().threads.get_mut(&Pid(200)) {
        tasks[0].affinity = topology::CpuSet::parse_list("2-3").unwrap();
    }
    let first = steward.experiment(USER, &request(100), None).unwrap();
    let apart = steward
        .experiment(Peer::DAEMON, &request(200), None)
        .unwrap();
    let second = steward.experiment(USER, &request(300), None).unwrap();
    assert_eq!((first.behind, apart.behind), (None, None));
    assert_eq!(apart.state, "running");
    assert_eq!((second.state.as_str(), second.behind), ("waiting", Some(1)));
    let stopped = steward.stop_experiment(USER, 1).unwrap().look_up().unwrap();
    assert_eq!(stopped.ending, Ending::Interrupted);
    steward.turn();
    assert_eq!(row(&steward, 3).behind, Some(2));
    steward.stop_experiment(Peer::DAEMON, 2).unwrap();
    steward.turn();
    assert_eq!(row(&steward, 3).state, "running");
    pass(&world, &mut steward, LONG);
    assert_eq!(found(&steward, 3).ending, Ending::Complete);
}

#[track_caller]
fn refused(steward: &mut Steward, peer: Peer, request: &ExperimentRequest, part: &str) {
    let failure = steward.experiment(peer, request, None).unwrap_err();
    assert!(failure.message.contains(part), "{failure}");
}

#[test]
fn what_a_user_may_not_is_refused() {
    let settings = Settings::new(
        "experiment-refused",
        &format!("{EAGER}[limits]\nuser_experiments_max = 1\nuser_experiment_h_max = 1\n"),
    );
    let world = machine();
    let (mut steward, _gate) = world.steward(&settings);
    refused(&mut steward, USER, &request(200), "process `200`");
    refused(&mut steward, USER, &request(999), "no process `999`");
    let mut short = request(100);
    (short.slice_ms, short.time_constant_ms) = (Some(900), Some(10));
    refused(&mut steward, USER, &short, "shorter than the 1000 ms");
    let mut long = request(100);
    long.blocks = 500;
    refused(&mut steward, USER, &long, "longer than the 1 h");
    let mut unknown = request(100);
    unknown.arms[1].policy = Some("delok".to_owned());
    refused(&mut steward, USER, &unknown, "`delok`");
    let mut setting = request(100);
    setting.arms[1].set = [("no".to_owned(), "such".to_owned())].into();
    refused(&mut steward, USER, &setting, "`no`");
    let mut command = request(100);
    command.metrics = vec!["cmd:true".to_owned()];
    refused(&mut steward, USER, &command, "would not be there");
    assert!(steward.experiment_rows(Peer::DAEMON).is_empty());
    assert_eq!(steward.experiments.due(), None);

    steward.experiment(USER, &request(100), None).unwrap();
    world.add_process(300, 7, 1);
    refused(
        &mut steward,
        USER,
        &request(300),
        "`1` experiments of yours",
    );
    refused(&mut steward, USER, &request(100), "in experiment `1`");
    let attach = steward.attach(USER, &attach_request(&[100], "none"));
    assert!(attach.unwrap_err().message.contains("in experiment `1`"));
    let other = Peer { uid: 8, ..USER };
    assert!(steward.experiment_rows(other).is_empty());
    for failure in [
        steward.find_experiment(other, 1).unwrap_err(),
        steward.stop_experiment(other, 1).unwrap_err(),
    ] {
        assert_eq!(failure.kind, ErrorKind::NotPermitted);
    }
}

#[test]
fn users_take_no_place_of_root() {
    let settings = Settings::new(
        "experiment-places",
        &format!("{EAGER}[daemon]\nexperiments_max = 1\n"),
    );
    let world = machine();
    let (mut steward, _gate) = world.steward(&settings);
    steward.experiment(USER, &request(100), None).unwrap();
    let root = Peer::DAEMON;
    steward.experiment(root, &request(200), None).unwrap();
    world.add_process(300, 0, 1);
    refused(&mut steward, root, &request(300), "experiments run or wait");
}

/// Results are worked out for whoever asks, while others wait.
#[test]
fn what_is_long_to_compare_is_refused_to_users() {
    let settings = Settings::new("experiment-long", EAGER);
    let world = machine();
    let (mut steward, _gate) = world.steward(&settings);
    let many = |blocks, arms: u32, pid| {
        let arm = |number| Arm {
            name: format!("arm{number}"),
            ..request(pid).arms[0].clone()
        };
        ExperimentRequest {
            arms: (0..arms).map(arm).collect(),
            metrics: (0..16).map(|it| format!("cmd:{it}")).collect(),
            blocks,
            slice_ms: Some(1_000),
            time_constant_ms: Some(100),
            attended: true,
            ..request(pid)
        }
    };
    refused(
        &mut steward,
        USER,
        &many(500, 16, 100),
        "longer than a user",
    );
    refused(&mut steward, USER, &many(500, 3, 100), "longer than a user");
    steward.experiment(USER, &many(500, 2, 100), None).unwrap();
    let root = steward.experiment(Peer::DAEMON, &many(500, 16, 200), None);
    root.unwrap();
}

#[test]
fn an_experiment_keeps_nobody_from_the_numbers_of_its_processes() {
    let settings = Settings::new("experiment-numbers", EAGER);
    let world = machine();
    let (mut steward, _gate) = world.steward(&settings);
    world.add_process(300, 7, 1);
    let mut both = request(100);
    both.target = Target::Pids(vec![100, 300]);
    steward.experiment(USER, &both, None).unwrap();
    world.end_process(300);
    world.add_process(300, 8, 1);
    if let Some(stranger) = world.state().processes.get_mut(&Pid(300)) {
        stranger.start = topology::StartTicks(9_999);
    }
    steward
        .attach(Peer::DAEMON, &attach_request(&[300], "none"))
        .unwrap();
}

/// What happens in the midst of a slice, and how it ends then.
#[track_caller]
fn ends(name: &str, happens: fn(&World, &mut Steward), ending: Ending, why: &str, slices: usize) {
    let (world, settings) = (machine(), Settings::new(name, EAGER));
    let (mut steward, _gate) = world.steward(&settings);
    steward.experiment(USER, &request(100), None).unwrap();
    pass(&world, &mut steward, Duration::from_secs(14));
    happens(&world, &mut steward);
    pass(&world, &mut steward, Duration::from_secs(5));
    let experiment = found(&steward, 1);
    assert_eq!((experiment.ending, experiment.why.as_str()), (ending, why));
    assert_eq!(experiment.slices.len(), slices);
    assert!(steward.attachments(Peer::DAEMON).is_empty());
    assert!(world.state().done.is_empty());
}

#[test]
fn whatever_ends_it_leaves_no_arm_behind() {
    ends(
        "experiment-ended",
        |world, _| world.end_process(100),
        Ending::ProgramEnded,
        "",
        3,
    );
    ends(
        "experiment-again",
        |world, _| {
            // Another process has the number now.
            let again = topology::StartTicks(77);
            let mut state = world.state();
            if let Some(process) = state.processes.get_mut(&Pid(100)) {
                process.start = again;
            }
        },
        Ending::ProgramEnded,
        "",
        3,
    );
    ends(
        "experiment-detached",
        |_, steward| {
            let id = steward.attachments(USER)[0].id;
            steward.detach(USER, AttachmentId(id)).unwrap();
        },
        Ending::Interrupted,
        "attachment 4 was ended by someone else",
        3,
    );
    ends(
        "experiment-stop",
        |_, steward| {
            steward.stop();
        },
        Ending::Interrupted,
        "the daemon was stopped",
        3,
    );
}

fn attended() -> ExperimentRequest {
    ExperimentRequest {
        metrics: vec!["counter:cmd:x".to_owned(), "instructions".to_owned()],
        attended: true,
        ..request(100)
    }
}

#[test]
fn numbers_of_commands_are_asked_for() {
    let (world, settings) = (machine(), Settings::new("experiment-asks", EAGER));
    let (mut steward, _gate) = world.steward(&settings);
    steward.experiment(USER, &attended(), None).unwrap();
    let (mut count, mut asked) = (0.0, 0);
    while row(&steward, 1).state != "over" {
        let done = row(&steward, 1);
        assert_eq!(done.left_s.is_some(), done.slices > 0, "{done:?}");
        world.pass(Duration::from_millis(50));
        count += 5.0;
        steward.turn();
        let now = row(&steward, 1);
        let reading = |turn, values| ReadingRequest {
            turn,
            values,
            failed: None,
        };
        if now.asks {
            let late = reading(now.turn - 1, vec![Some(count), None]);
            let failure = steward.give_reading(USER, 1, late).unwrap_err();
            assert_eq!(failure.kind, ErrorKind::Conflict);
            steward
                .give_reading(USER, 1, reading(now.turn, vec![]))
                .unwrap_err();
            let given = reading(now.turn, vec![Some(count), None]);
            steward.give_reading(USER, 1, given).unwrap();
            asked += 1;
        }
    }
    let experiment = found(&steward, 1);
    assert_eq!(experiment.ending, Ending::Complete);
    assert_eq!(asked, 12 * 10);
    for slice in &experiment.slices {
        let value = slice.values[0].unwrap();
        assert!((value - 100.0).abs() < 1e-6, "{value}");
    }
}

/// Under `off` nothing is attached whose end would be seen.
#[test]
fn a_program_that_ends_under_off_is_seen() {
    let (world, settings) = (machine(), Settings::new("experiment-off", EAGER));
    let (mut steward, _gate) = world.steward(&settings);
    let mut asked = ExperimentRequest {
        metrics: vec!["cmd:x".to_owned()],
        ..attended()
    };
    asked.arms[0].policy = None;
    asked.arms[1].policy = None;
    steward.experiment(USER, &asked, None).unwrap();
    while !row(&steward, 1).asks {
        pass(&world, &mut steward, Duration::from_millis(50));
    }
    world.end_process(100);
    let late = ReadingRequest {
        turn: row(&steward, 1).turn,
        values: vec![Some(5.0)],
        failed: None,
    };
    let refused = steward.give_reading(USER, 1, late).unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Conflict);
    let experiment = found(&steward, 1);
    assert_eq!(experiment.ending, Ending::ProgramEnded);
    assert!(experiment.slices.is_empty());
    // Whoever started the program may know first.
    world.add_process(300, 7, 2);
    asked.target = Target::Pids(vec![300]);
    steward.experiment(USER, &asked, None).unwrap();
    world.end_process(300);
    let stopped = steward.stop_experiment(USER, 2).unwrap();
    assert_eq!(stopped.look_up().unwrap().ending, Ending::ProgramEnded);
}

#[test]
fn energy_is_metered_for_root_where_it_is_counted() {
    let (world, settings) = (machine(), Settings::new("experiment-energy", EAGER));
    let (mut steward, _gate) = world.steward(&settings);
    let asked = ExperimentRequest {
        metrics: vec!["watts".to_owned(), "energy".to_owned()],
        ..request(100)
    };
    refused(&mut steward, USER, &asked, "for root and the admin group");
    refused(&mut steward, Peer::DAEMON, &asked, "no processor package");
    assert!(steward.experiment_rows(Peer::DAEMON).is_empty());
    world.state().package = settings.file().parent().map(|it| it.join("root"));
    steward.experiment(Peer::DAEMON, &asked, None).unwrap();
    pass(&world, &mut steward, LONG);
    let experiment = found(&steward, 1);
    assert_eq!(experiment.ending, Ending::Complete);
    assert_eq!(experiment.slices.len(), 12);
    for slice in &experiment.slices {
        let [watts, joules] = [slice.values[0].unwrap(), slice.values[1].unwrap()];
        assert!((watts - 50.0).abs() < 0.01, "{watts}");
        assert!(joules > 0.0);
    }
    let unit = |at: usize| experiment.metrics[at].unit.as_str();
    assert_eq!([unit(0), unit(1)], ["W", "J/10^9 instr."]);
    assert!(!experiment.metrics[0].higher_is_better);
}

#[test]
fn what_nothing_counts_is_refused_before_it_begins() {
    let (world, settings) = (machine(), Settings::new("experiment-uncounted", EAGER));
    let (mut steward, _gate) = world.steward(&settings);
    world.state().hardware = false;
    let mut asked = request(100);
    let told = "metric `instructions` is not counted here: ";
    refused(&mut steward, USER, &asked, told);
    assert!(steward.experiment_rows(Peer::DAEMON).is_empty());
    assert_eq!(world.state().counters_open, 0);
    asked.metrics.insert(0, "local".to_owned());
    steward.experiment(USER, &asked, None).unwrap();
    let off = format!("{EAGER}[sampling]\ncounters = \"off\"\n");
    let (world, settings) = (machine(), Settings::new("experiment-off", &off));
    let (mut steward, _gate) = world.steward(&settings);
    let told = "is not counted here: `sampling.counters` is `off`";
    refused(&mut steward, USER, &request(100), told);
}

#[test]
fn who_gives_no_numbers_ends_it() {
    let (world, settings) = (machine(), Settings::new("experiment-gone", EAGER));
    let (mut steward, _gate) = world.steward(&settings);
    steward.experiment(USER, &attended(), None).unwrap();
    pass(&world, &mut steward, LONG);
    let experiment = found(&steward, 1);
    assert_eq!(experiment.ending, Ending::Interrupted);
    assert_eq!(experiment.why, "whoever gave its numbers has gone");
    steward.experiment(USER, &attended(), None).unwrap();
    pass(&world, &mut steward, Duration::from_secs(2));
    let failed = ReadingRequest {
        turn: row(&steward, 2).turn,
        values: Vec::new(),
        failed: Some("metric `x` printed nothing\u{1b}".to_owned()),
    };
    steward.give_reading(USER, 2, failed).unwrap();
    let experiment = found(&steward, 2);
    assert_eq!(experiment.ending, Ending::Failed);
    assert_eq!(experiment.why, "metric `x` printed nothing");
    assert!(world.state().done.is_empty());
}

/// `none` against `none` with the kernel's balancing.
fn balanced(pid: u32) -> ExperimentRequest {
    let mut asked = request(pid);
    asked.arms[1].policy = Some("none".to_owned());
    for (arm, how) in asked.arms.iter_mut().zip(["leave", "cooperate"]) {
        arm.set.insert(BALANCING.to_owned(), how.to_owned());
    }
    asked
}

#[test]
fn the_kernels_balancing_is_on_under_its_arm_alone() {
    let (world, settings) = (machine(), Settings::new("experiment-balanced", ALLOWING));
    let (mut steward, _gate) = world.steward(&settings);
    let refused = steward.experiment(USER, &balanced(100), None).unwrap_err();
    assert_eq!(refused.kind, ErrorKind::NotPermitted, "{refused:?}");
    // Somebody who would have the kernel balance, on nodes that the experiment does not use.
    let mut other = attach_request(&[200], "packed");
    other.set = [(BALANCING.to_owned(), "cooperate".to_owned())].into();
    steward.attach(Peer::DAEMON, &other).unwrap();
    assert!(world.state().balancing.is_some());
    steward
        .experiment(Peer::DAEMON, &balanced(100), None)
        .unwrap();
    world.add_process(300, 7, 2);
    steward.experiment(USER, &request(300), None).unwrap();
    assert_eq!(
        row(&steward, 2).behind,
        Some(1),
        "it is alone on the machine"
    );
    let mut seen = [[0; 2]; 2];
    while row(&steward, 1).state == "running" {
        pass(&world, &mut steward, Duration::from_millis(100));
        let rows = steward.attachments(Peer::DAEMON);
        let Some(row) = rows.into_iter().find(|row| row.pids == [100]) else {
            continue;
        };
        let detail = steward.detail(Peer::DAEMON, AttachmentId(row.id)).unwrap();
        let arm = usize::from(detail.settings[BALANCING] == "cooperate");
        seen[arm][usize::from(world.state().balancing.is_some())] += 1;
    }
    assert_eq!((seen[0][1], seen[1][0]), (0, 0), "{seen:?}");
    assert!(seen[0][0] > 100 && seen[1][1] > 100, "{seen:?}");
    assert_eq!(found(&steward, 1).ending, Ending::Complete);
    assert!(
        world.state().balancing.is_some(),
        "the other's wish holds again"
    );
}

#[test]
fn arms_without_the_kernels_balancing_need_it_off() {
    let (world, settings) = (machine(), Settings::new("experiment-balances", ALLOWING));
    let (mut steward, _gate) = world.steward(&settings);
    world.state().balancing = Some(Balancing::Already);
    let refused = steward
        .experiment(Peer::DAEMON, &balanced(100), None)
        .unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Conflict, "{refused:?}");
    assert!(refused.to_string().contains("sysctl"), "{refused}");
    world.state().balancing = None;
    steward
        .experiment(Peer::DAEMON, &balanced(100), None)
        .unwrap();
    pass(&world, &mut steward, Duration::from_secs(6));
    world.state().balancing = Some(Balancing::Already);
    pass(&world, &mut steward, LONG);
    let experiment = found(&steward, 1);
    assert_eq!(experiment.ending, Ending::Failed);
    assert!(
        experiment.why.contains("switched kernel.numa_balancing on"),
        "{}",
        experiment.why
    );
    assert!(
        world.state().balancing.is_some(),
        "who switched it is right"
    );
}

/// Attaches a program that would have the kernel balance.
fn cooperate(steward: &mut Steward, pid: u32) {
    let mut other = attach_request(&[pid], "packed");
    other.set = [(BALANCING.to_owned(), "cooperate".to_owned())].into();
    steward.attach(Peer::DAEMON, &other).unwrap();
}

#[test]
fn the_kernel_balances_for_others_again_when_an_experiment_is_over() {
    let (world, settings) = (machine(), Settings::new("experiment-over", ALLOWING));
    let (mut steward, _gate) = world.steward(&settings);
    cooperate(&mut steward, 200);
    steward
        .experiment(Peer::DAEMON, &balanced(100), None)
        .unwrap();
    pass(&world, &mut steward, LONG);
    assert_eq!(found(&steward, 1).ending, Ending::Complete);
    let balancing = world.state().balancing;
    assert_eq!(balancing, Some(Balancing::Switched));
}

#[test]
fn the_kernel_does_not_balance_for_others_under_off() {
    for seed in 1..5 {
        let (world, settings) = (machine(), Settings::new("experiment-beside-off", ALLOWING));
        let (mut steward, _gate) = world.steward(&settings);
        cooperate(&mut steward, 200);
        let mut asked = balanced(100);
        (asked.arms[0].policy, asked.seed) = (None, seed);
        asked.arms[0].set.clear();
        asked.metrics = vec!["watts".to_owned()];
        let package = crate::scratch::Scratch::new("experiment-off-package");
        world.state().package = Some(package.path().to_owned());
        steward.experiment(Peer::DAEMON, &asked, None).unwrap();
        pass(&world, &mut steward, LONG);
        let experiment = found(&steward, 1);
        let (ending, why) = (experiment.ending, experiment.why);
        assert_eq!(ending, Ending::Complete, "seed {seed}: {why}");
    }
}

#[test]
fn a_slice_in_which_the_switch_was_changed_does_not_count() {
    let (world, settings) = (machine(), Settings::new("experiment-flip", ALLOWING));
    let (mut steward, _gate) = world.steward(&settings);
    cooperate(&mut steward, 200);
    steward
        .experiment(Peer::DAEMON, &balanced(100), None)
        .unwrap();
    while world.state().balancing.is_none() {
        pass(&world, &mut steward, Duration::from_millis(100));
    }
    let before = found(&steward, 1).slices.len();
    pass(&world, &mut steward, Duration::from_secs(1));
    world.state().balancing = None;
    pass(&world, &mut steward, LONG);
    let experiment = found(&steward, 1);
    assert_eq!(experiment.ending, Ending::Failed);
    let why = &experiment.why;
    assert!(why.contains("switched kernel.numa_balancing off"), "{why}");
    assert_eq!(experiment.slices.len(), before, "it is not counted");
    let balancing = world.state().balancing;
    assert_eq!(balancing, None, "who switched it is right");
}
