//! The steward on a machine that is not there.

use std::collections::BTreeMap;

use control::rows::{AttachRequest, Target, UndoRequest};
use control::{ErrorKind, Failure};

use super::*;
use crate::fake::{Settings, World};
use crate::peer::Peer;

/// Windows of half a second at most that need no evidence, so that a test sees decisions soon.
pub(super) const EAGER: &str = "[engine]\ninterval_min_ms = 500\ninterval_max_ms = 500\nsamples_min = 0\n\
                     busy_min_percent = 0\n";

pub(super) const USER: Peer = Peer {
    uid: 7,
    gid: 7,
    admin: false,
};

pub(super) fn request(pids: &[u32], policy: &str) -> AttachRequest {
    AttachRequest {
        target: Target::Pids(pids.to_vec()),
        policy: Some(policy.to_owned()),
        set: BTreeMap::new(),
        dry_run: false,
        for_ms: None,
    }
}

/// Lets five windows pass.
pub(super) fn windows(world: &World, steward: &mut Steward) {
    for _ in 0..50 {
        world.pass(Duration::from_millis(50));
        steward.turn();
    }
}

#[test]
fn with_nothing_attached_nothing_is_due() {
    let world = World::new();
    let settings = Settings::new("idle", EAGER);
    let (mut steward, _gate) = world.steward(&settings);
    assert_eq!(steward.wait(steward.now()), None);
    steward.turn();
    assert!(!world.state().source_open);
}

#[test]
fn the_source_is_open_while_something_is_attached() {
    let world = World::new();
    let settings = Settings::new("open", EAGER);
    let (mut steward, _gate) = world.steward(&settings);
    let first = steward
        .attach(Peer::DAEMON, &request(&[100], "packed"))
        .unwrap();
    let second = steward
        .attach(Peer::DAEMON, &request(&[200], "packed"))
        .unwrap();
    assert!(steward.wait(steward.now()).is_some());
    assert_eq!(world.state().followed.len(), 2);
    steward
        .detach(Peer::DAEMON, AttachmentId(first.id))
        .unwrap();
    assert_eq!(world.state().followed, [Pid(200)].into());
    steward
        .detach(Peer::DAEMON, AttachmentId(second.id))
        .unwrap();
    assert!(!world.state().source_open);
    assert_eq!(steward.wait(steward.now()), None);
    let undone = [Some(vec![Pid(100)]), Some(vec![Pid(200)])];
    assert_eq!(world.state().undone, undone);
}

/// Windows with too few samples go on for eight times their length, and nothing is looked at.
#[test]
fn a_window_that_goes_on_costs_no_look() {
    let world = World::new();
    let few = "[engine]\ninterval_min_ms = 500\nsamples_min = 1000000\n";
    let settings = Settings::new("few", few);
    let (mut steward, _gate) = world.steward(&settings);
    world.state().look_costs = Duration::from_millis(1);
    steward
        .attach(Peer::DAEMON, &request(&[100], "deloc"))
        .unwrap();
    let used = world.state().used;
    windows(&world, &mut steward);
    assert_eq!(world.state().used, used);
    windows(&world, &mut steward);
    assert_eq!(world.state().used, used + Duration::from_millis(1));
}

#[test]
fn a_program_is_called_what_it_became() {
    let world = World::new();
    let settings = Settings::new("named", EAGER);
    let (mut steward, _gate) = world.steward(&settings);
    steward
        .attach(Peer::DAEMON, &request(&[100], "none"))
        .unwrap();
    if let Some(tasks) = world.state().threads.get_mut(&Pid(100)) {
        "solver".clone_into(&mut tasks[0].name);
        "thread".clone_into(&mut tasks[1].name);
    }
    windows(&world, &mut steward);
    let status = steward.status(Peer::DAEMON);
    assert_eq!(status.attachments[0].command, "solver");
}

#[test]
fn a_program_is_placed_and_the_account_is_kept() {
    let world = World::new();
    let settings = Settings::new("placed", EAGER);
    let (mut steward, _gate) = world.steward(&settings);
    let id = AttachmentId(
        steward
            .attach(Peer::DAEMON, &request(&[100], "packed"))
            .unwrap()
            .id,
    );
    windows(&world, &mut steward);
    let binds = world.state().done.len();
    assert_eq!(binds, 4, "each thread is bound once");
    let detail = steward.detail(Peer::DAEMON, id).unwrap();
    let attachment = &detail.attachment;
    assert_eq!(
        (
            attachment.threads,
            attachment.tasks,
            attachment.pids.as_slice()
        ),
        (4, 4, &[100][..])
    );
    assert_eq!(
        (
            attachment.ledger.threads_bound,
            attachment.ledger.thread_moves
        ),
        (4, 4)
    );
    assert!(attachment.windows >= 4 && attachment.samples > 0 && attachment.pages > 0);
    assert!(detail.threads.iter().all(|thread| thread.placed.is_some()));
    let matrix = steward
        .matrix(Peer::DAEMON, id, MatrixWindow::Decayed)
        .unwrap()
        .row();
    assert!(
        matrix.rows[0][1] > 0 && matrix.rows[0][3] == 0,
        "{:?}",
        matrix.rows
    );
    let kinds: Vec<String> = steward
        .events(Peer::DAEMON, id, 512)
        .unwrap()
        .into_iter()
        .map(|row| row.kind)
        .collect();
    for kind in ["window", "ordered", "done"] {
        assert!(kinds.iter().any(|known| known == kind), "{kinds:?}");
    }
    let report = steward.detach(Peer::DAEMON, id).unwrap();
    assert_eq!(report.threads_restored, 4);
    assert!(
        !steward.events(Peer::DAEMON, id, 512).unwrap().is_empty(),
        "kept for a while"
    );
}

#[test]
fn who_looks_is_answered_between_two_changes() {
    let world = World::new();
    let settings = Settings::new("looks", EAGER);
    let (mut steward, _gate) = world.steward(&settings);
    let (sender, told) = std::sync::mpsc::channel();
    steward.answer_between(Box::new(move |steward| {
        sender
            .send(steward.status(Peer::DAEMON).attachments.len())
            .unwrap();
        false
    }));
    steward
        .attach(Peer::DAEMON, &request(&[100], "packed"))
        .unwrap();
    windows(&world, &mut steward);
    let answers: Vec<usize> = told.try_iter().collect();
    assert_eq!(answers, [1; 4], "one for each thread that is bound");
}

#[test]
fn a_dry_run_changes_nothing_and_is_not_mistaken_for_someone_else() {
    let world = World::new();
    let settings = Settings::new("dry", EAGER);
    let (mut steward, _gate) = world.steward(&settings);
    let mut asked = request(&[100], "packed");
    asked.dry_run = true;
    let id = AttachmentId(steward.attach(Peer::DAEMON, &asked).unwrap().id);
    windows(&world, &mut steward);
    assert!(world.state().done.is_empty());
    let events = steward.events(Peer::DAEMON, id, 512).unwrap();
    assert!(events.iter().any(|row| row.kind == "ordered"));
    assert!(
        events.iter().all(|row| row.kind != "hands_off"),
        "{events:?}"
    );
    assert_eq!(steward.shown(id).unwrap().ledger.thread_moves, 0);
    steward.detach(Peer::DAEMON, id).unwrap();
    assert!(
        world.state().undone.is_empty(),
        "nothing was done, so nothing is undone"
    );
}

#[test]
fn a_program_that_ends_is_detached() {
    let world = World::new();
    let settings = Settings::new("ends", EAGER);
    let (mut steward, _gate) = world.steward(&settings);
    let id = AttachmentId(
        steward
            .attach(Peer::DAEMON, &request(&[100], "packed"))
            .unwrap()
            .id,
    );
    windows(&world, &mut steward);
    world.end_process(100);
    windows(&world, &mut steward);
    assert!(steward.attachments(Peer::DAEMON).is_empty());
    assert!(!world.state().source_open);
    assert_eq!(world.state().undone.last(), Some(&Some(vec![Pid(100)])));
    let last = steward.events(Peer::DAEMON, id, 1).unwrap();
    assert_eq!(last[0].kind, "ended");
    steward.detach(Peer::DAEMON, id).unwrap_err();
}

#[test]
fn children_follow_and_their_numbers_may_come_back() {
    let world = World::new();
    let settings = Settings::new("children", EAGER);
    let (mut steward, _gate) = world.steward(&settings);
    let id = AttachmentId(
        steward
            .attach(Peer::DAEMON, &request(&[100], "packed"))
            .unwrap()
            .id,
    );
    for generation in 1..=2 {
        world.add_process(300, 7, 2);
        {
            let mut state = world.state();
            let start = topology::StartTicks(generation);
            for thread in state.threads.get_mut(&Pid(300)).unwrap() {
                thread.key.start = start;
            }
            state.processes.get_mut(&Pid(300)).unwrap().start = start;
        }
        world.fork(100, 300);
        windows(&world, &mut steward);
        let detail = steward.detail(Peer::DAEMON, id).unwrap();
        assert_eq!(detail.attachment.pids, [100, 300]);
        assert_eq!(detail.attachment.threads, 6, "generation {generation}");
        let expected = (Pid(300), topology::StartTicks(generation));
        assert_eq!(steward.members.of(id)[1], expected);
        world.end_process(300);
        windows(&world, &mut steward);
        assert_eq!(steward.members.of(id).len(), 1);
    }
    world.add_process(300, 7, 2);
    world.fork(100, 300);
    windows(&world, &mut steward);
    // Whoever of them ends first, the hand knows each.
    let joined: Vec<u64> = world
        .state()
        .joined
        .iter()
        .map(|process| process.start.0)
        .collect();
    assert_eq!(joined, [1, 2, 3000]);
    steward.detach(Peer::DAEMON, id).unwrap();
    let undone = Some(vec![Pid(100), Pid(300)]);
    assert_eq!(world.state().undone.last(), Some(&undone));
}

#[track_caller]
pub(super) fn refused(
    world: &World,
    steward: &mut Steward,
    peer: Peer,
    asked: &AttachRequest,
) -> Failure {
    let failure = steward.attach(peer, asked).unwrap_err();
    let state = world.state();
    assert!(
        !state.source_open && state.followed.is_empty(),
        "left behind after: {failure}"
    );
    drop(state);
    assert!(steward.attachments(Peer::DAEMON).is_empty());
    failure
}

#[test]
fn what_cannot_be_attached_leaves_nothing_behind() {
    let world = World::new();
    let settings = Settings::new("refused", EAGER);
    let (mut steward, _gate) = world.steward(&settings);
    let own = std::process::id();
    let mut check = |peer, asked: AttachRequest, kind, part: &str| {
        let failure = refused(&world, &mut steward, peer, &asked);
        assert_eq!(failure.kind, kind, "{failure}");
        assert!(failure.to_string().contains(part), "{failure}");
    };
    let root = Peer::DAEMON;
    check(
        root,
        request(&[999], "packed"),
        ErrorKind::NotFound,
        "`999`",
    );
    check(
        root,
        request(&[100, 999], "packed"),
        ErrorKind::NotFound,
        "`999`",
    );
    check(
        root,
        request(&[2], "packed"),
        ErrorKind::Usage,
        "`2` is a kernel thread",
    );
    check(root, request(&[1], "packed"), ErrorKind::Usage, "`1`");
    check(
        root,
        request(&[own], "packed"),
        ErrorKind::Usage,
        "numad itself",
    );
    check(root, request(&[], "packed"), ErrorKind::Usage, "no process");
    for nameless in [Target::Cgroup, Target::Unit, Target::Command] {
        let mut asked = request(&[], "packed");
        asked.target = nameless(String::new());
        check(root, asked, ErrorKind::Usage, "no process was named");
    }
    check(
        root,
        request(&[100; 2000], "packed"),
        ErrorKind::Usage,
        "`2000`",
    );
    check(
        root,
        request(&[100], "paked"),
        ErrorKind::NotFound,
        "`packed`",
    );
    check(
        USER,
        request(&[200], "packed"),
        ErrorKind::NotPermitted,
        "`200`",
    );
    let mut with = request(&[100], "deloc");
    with.set.insert("refin".to_owned(), "true".to_owned());
    check(root, with, ErrorKind::Configuration, "`refine`");
    let mut with = request(&[100], "deloc");
    with.set.insert("refine".to_owned(), "maybe".to_owned());
    check(root, with, ErrorKind::Configuration, "true or false");
    let mut named = request(&[], "packed");
    named.target = Target::Unit("nosuch.service".to_owned());
    check(root, named.clone(), ErrorKind::NotFound, "nosuch.service");
    named.target = Target::Command("nosuch".to_owned());
    check(root, named, ErrorKind::NotFound, "`nosuch`");
}

#[test]
fn without_permission_for_events_the_remedy_is_told() {
    let world = World::new();
    world.state().source_refused = true;
    let settings = Settings::new("events", EAGER);
    let (mut steward, _gate) = world.steward(&settings);
    let failure = refused(
        &world,
        &mut steward,
        Peer::DAEMON,
        &request(&[100], "packed"),
    );
    assert_eq!(
        (failure.kind, failure.remedy.as_str()),
        (ErrorKind::Prerequisite, "grant CAP_PERFMON")
    );
}

#[test]
fn a_source_that_is_full_refuses_and_lets_go() {
    let world = World::new();
    world.state().follow_max = Some(1);
    let settings = Settings::new("full", EAGER);
    let (mut steward, _gate) = world.steward(&settings);
    let failure = refused(
        &world,
        &mut steward,
        Peer::DAEMON,
        &request(&[100, 200], "packed"),
    );
    assert_eq!(failure.kind, ErrorKind::Busy);
}

#[test]
fn a_process_belongs_to_one_attachment() {
    let world = World::new();
    let settings = Settings::new("twice", EAGER);
    let (mut steward, _gate) = world.steward(&settings);
    let id = steward
        .attach(Peer::DAEMON, &request(&[100], "packed"))
        .unwrap()
        .id;
    let failure = steward
        .attach(Peer::DAEMON, &request(&[200, 100], "packed"))
        .unwrap_err();
    assert_eq!(failure.kind, ErrorKind::Conflict);
    assert!(failure.message.contains("`100`") && failure.message.contains(&format!("`{id}`")));
    assert_eq!(world.state().followed, [Pid(100)].into());
}

/// Places of admins and of users are apart, and one user has a part of the latter.
#[test]
fn attachments_are_limited() {
    let world = World::new();
    world.add_process(101_000, 7, 1);
    world.add_process(102_000, 9, 1);
    world.add_process(103_000, 0, 1);
    let settings = Settings::new("limit", "[daemon]\nattachments_max = 2\n");
    let (mut steward, _gate) = world.steward(&settings);
    let busy = |failure: Failure, setting: &str| {
        assert_eq!(failure.kind, ErrorKind::Busy);
        assert!(failure.remedy.contains(setting), "{failure}");
    };
    let mut attach = |peer, pid| steward.attach(peer, &request(&[pid], "none"));
    attach(USER, 100).unwrap();
    busy(
        attach(USER, 101_000).unwrap_err(),
        "limits.user_attachments_max",
    );
    let other = |uid| Peer {
        uid,
        gid: uid,
        admin: false,
    };
    attach(other(8), 200).unwrap();
    busy(
        attach(other(9), 102_000).unwrap_err(),
        "daemon.attachments_max",
    );
    for pid in [101_000, 102_000] {
        attach(Peer::DAEMON, pid).unwrap();
    }
    busy(
        attach(Peer::DAEMON, 103_000).unwrap_err(),
        "daemon.attachments_max",
    );
}

#[test]
fn users_see_and_undo_what_is_theirs() {
    let world = World::new();
    let settings = Settings::new("users", EAGER);
    let (mut steward, _gate) = world.steward(&settings);
    let own = AttachmentId(steward.attach(USER, &request(&[100], "none")).unwrap().id);
    let other = AttachmentId(
        steward
            .attach(Peer::DAEMON, &request(&[200], "none"))
            .unwrap()
            .id,
    );
    assert_eq!(steward.attachments(USER).len(), 1);
    assert_eq!(steward.status(USER).attachments.len(), 1);
    assert_eq!(steward.attachments(Peer::DAEMON).len(), 2);
    steward.detail(USER, own).unwrap();
    let kinds = [
        steward.detail(USER, other).unwrap_err().kind,
        steward
            .matrix(USER, other, MatrixWindow::Live)
            .unwrap_err()
            .kind,
        steward.events(USER, other, 1).unwrap_err().kind,
        steward.detach(USER, other).unwrap_err().kind,
        steward
            .undo(
                USER,
                &UndoRequest {
                    pid: Some(200),
                    all: false,
                },
            )
            .unwrap_err()
            .kind,
        steward
            .undo(
                USER,
                &UndoRequest {
                    pid: None,
                    all: true,
                },
            )
            .unwrap_err()
            .kind,
        steward.reload(USER).unwrap_err().kind,
    ];
    assert_eq!(kinds, [ErrorKind::NotPermitted; 7]);
    steward
        .undo(
            USER,
            &UndoRequest {
                pid: Some(100),
                all: false,
            },
        )
        .unwrap();
    assert_eq!(steward.attachments(USER).len(), 0);
}

#[test]
fn of_a_name_a_user_gets_the_own_processes() {
    let world = World::new();
    world.state().named = vec![Pid(200), Pid(100), Pid(999)];
    let settings = Settings::new("name", EAGER);
    let (mut steward, _gate) = world.steward(&settings);
    let mut asked = request(&[], "none");
    asked.target = Target::Command("program".to_owned());
    assert_eq!(steward.attach(USER, &asked).unwrap().pids, [100]);
    world.state().named = vec![Pid(200)];
    assert_eq!(
        steward.attach(USER, &asked).unwrap_err().kind,
        ErrorKind::NotPermitted
    );
}

#[test]
fn of_a_name_root_gets_the_processes_of_one_program() {
    let world = World::new();
    // A master, and a worker with a user of its own.
    world.state().named = vec![Pid(100), Pid(200)];
    world.state().children.insert(Pid(100), vec![Pid(200)]);
    let settings = Settings::new("one-program", EAGER);
    let (mut steward, _gate) = world.steward(&settings);
    let mut asked = request(&[], "none");
    asked.target = Target::Command("program".to_owned());
    let attached = steward.attach(Peer::DAEMON, &asked).unwrap();
    assert_eq!(attached.pids, [100, 200]);
    steward
        .detach(Peer::DAEMON, AttachmentId(attached.id))
        .unwrap();
    // Others that only have the name.
    for pid in 300..1_500 {
        world.add_process(pid, 9, 1);
        world.state().named.push(Pid(pid));
        if [300, 1_499].contains(&pid) {
            let failure = refused(&world, &mut steward, Peer::DAEMON, &asked);
            assert_eq!(failure.kind, ErrorKind::Conflict);
            let users = if pid == 300 { "7, 9" } else { "7, 8, 9" };
            assert!(failure.to_string().contains(users), "{failure}");
        }
    }
}

#[test]
fn a_program_with_rights_of_others_is_not_the_users_own() {
    let world = World::new();
    if let Some(process) = world.state().processes.get_mut(&Pid(100)) {
        process.rights = procfs::Rights::ordinary(0, 7);
    }
    let settings = Settings::new("setuid", EAGER);
    let (mut steward, _gate) = world.steward(&settings);
    let failure = refused(&world, &mut steward, USER, &request(&[100], "none"));
    assert_eq!(failure.kind, ErrorKind::NotPermitted);
}

#[test]
fn a_reload_takes_good_settings_and_keeps_the_old_ones_otherwise() {
    let world = World::new();
    let settings = Settings::new("reload", EAGER);
    let (mut steward, gate) = world.steward(&settings);
    settings.write(
        "[daemon]\nconnections_max = 5\nsocket = \"/tmp/other\"\n[access]\nusers = \"none\"\n",
    );
    let report = steward.reload(Peer::DAEMON).unwrap();
    assert!(
        report
            .changed
            .iter()
            .any(|text| text.starts_with("daemon.connections_max: 64 -> 5"))
    );
    assert!(
        report
            .at_restart
            .iter()
            .any(|text| text.starts_with("daemon.socket")),
        "{report:?}"
    );
    assert_eq!(gate.borrow().connections_max, 5);
    assert_eq!(gate.borrow().access.users, peer::Users::Nobody);
    // What waits for the next start is not in force, and is told again.
    assert!(!steward.config().text.contains("/tmp/other"));
    let again = steward.reload(Peer::DAEMON).unwrap();
    assert_eq!(
        (again.changed, again.at_restart),
        (vec![], report.at_restart)
    );
    settings.write("[daemon]\nconnections_max = 0\n[engin]\n");
    let failure = steward.reload(Peer::DAEMON).unwrap_err();
    assert_eq!(failure.kind, ErrorKind::Configuration);
    assert!(
        failure.message.contains("numad.toml:2") && !failure.message.contains('\n'),
        "{failure}"
    );
    assert_eq!(gate.borrow().connections_max, 5);
    assert!(steward.config().text.contains("connections_max = 5"));
}

/// One budget: the source hears what is left of it, once a second, and a reload changes it at once.
#[test]
fn the_source_is_told_what_it_may_cost() {
    let world = World::new();
    let settings = Settings::new("budget", EAGER);
    let (mut steward, _gate) = world.steward(&settings);
    steward
        .attach(Peer::DAEMON, &request(&[100], "none"))
        .unwrap();
    let mut seconds = |count: u64| {
        for _ in 0..count * 10 {
            let now = world.state().now;
            world.state().now = now.after(Duration::from_millis(100));
            steward.turn();
        }
        std::mem::take(&mut world.state().told)
    };
    let told = seconds(3);
    assert_eq!(told.len(), 3);
    // One per cent of four processors.
    let second = Duration::from_secs(1);
    assert!(
        told.iter()
            .all(|told| told.elapsed == second && told.allowed_ns == 40_000_000)
    );
    settings.write(&format!("{EAGER}\n[overhead]\nbudget_percent = 2.5\n"));
    steward.reload(Peer::DAEMON).unwrap();
    let status = steward.status(Peer::DAEMON);
    assert!((status.budget_percent - 2.5).abs() < 1e-9 && status.used_percent.is_some());
}

/// Windows that take us more than there is are judged more rarely, and what is used is what there is.
#[test]
fn windows_that_are_too_dear_wait() {
    let world = World::new();
    let settings = Settings::new("dear", EAGER);
    let (mut steward, _gate) = world.steward(&settings);
    world.state().look_costs = Duration::from_millis(160);
    steward
        .attach(Peer::DAEMON, &request(&[100], "none"))
        .unwrap();
    let mut minute = || {
        let before = (steward.status(Peer::DAEMON), world.state().used);
        for _ in 0..120 {
            world.pass(Duration::from_millis(500));
            steward.turn();
        }
        let status = steward.status(Peer::DAEMON);
        let windows = status.attachments[0].windows - before.0.attachments[0].windows;
        (
            windows,
            world.state().used - before.1,
            status.used_percent.unwrap(),
        )
    };
    minute();
    // One per cent of four processors is 2.4 s in a minute: 15 of 120 windows, and 200 ms that may be used before.
    let (windows, used, percent) = minute();
    assert!((13..=16).contains(&windows), "{windows}");
    assert!(used <= Duration::from_millis(2_600), "{used:?}");
    assert!((0.7..=1.2).contains(&percent), "{percent}");
    // Nothing waits where windows cost little.
    world.state().look_costs = Duration::from_millis(5);
    minute();
    assert_eq!(minute().0, 120);
}

/// However often somebody asks how it goes: that is used, but windows do not wait for it.
#[test]
fn clients_do_not_keep_windows_waiting() {
    let world = World::new();
    let settings = Settings::new("clients", EAGER);
    let (mut steward, _gate) = world.steward(&settings);
    steward
        .attach(Peer::DAEMON, &request(&[100], "none"))
        .unwrap();
    for _ in 0..120 {
        world.pass(Duration::from_millis(500));
        steward.turn();
        world.state().clients_used += Duration::from_millis(200);
    }
    let status = steward.status(Peer::DAEMON);
    assert_eq!(status.attachments[0].windows, 120);
    assert!((9.0..=11.0).contains(&status.used_percent.unwrap()));
}

#[test]
fn what_is_known_of_programs_is_read_before_they_are_made_to_fault() {
    let world = World::new();
    let settings = Settings::new("provoke", EAGER);
    let (mut steward, _gate) = world.steward(&settings);
    world.state().provokes_every = Some(Duration::from_millis(10));
    steward
        .attach(Peer::DAEMON, &request(&[100], "none"))
        .unwrap();
    for _ in 0..20 {
        world.pass(Duration::from_millis(10));
        world.state().records.push_back(Record::Lost(1));
        steward.turn();
    }
    assert_eq!(world.state().unread, [0; 21]);
}

#[test]
fn a_program_is_called_lively_when_it_is_changed() {
    let world = World::new();
    let settings = Settings::new("lively", EAGER);
    let (mut steward, _gate) = world.steward(&settings);
    steward
        .attach(Peer::DAEMON, &request(&[100], "packed"))
        .unwrap();
    steward
        .attach(Peer::DAEMON, &request(&[200], "none"))
        .unwrap();
    windows(&world, &mut steward);
    let stirred = std::mem::take(&mut world.state().stirred);
    assert!(stirred.contains(&Pid(100)), "its threads were moved");
    assert!(!stirred.contains(&Pid(200)), "nothing was done to it");
    windows(&world, &mut steward);
    windows(&world, &mut steward);
    assert_eq!(world.state().stirred, [], "all are where they should be");
}

#[test]
fn buffers_are_read_as_often_as_they_fill() {
    let half = Duration::from_millis(40);
    assert_eq!(next_drain(half, 900, DRAIN_MOST), DRAIN_LEAST);
    assert_eq!(next_drain(DRAIN_LEAST, 1000, DRAIN_MOST), DRAIN_LEAST);
    assert_eq!(next_drain(half, 300, DRAIN_MOST), half);
    assert_eq!(next_drain(half, 0, DRAIN_MOST), Duration::from_millis(50));
    assert_eq!(next_drain(DRAIN_MOST, 0, DRAIN_MOST), DRAIN_MOST);
}
