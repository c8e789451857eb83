//! What an attach may bring with it: settings for one program, and the kernel's balancing.

use std::sync::Mutex;

use actuator::Balancing;
use control::ErrorKind;
use control::rows::AttachRequest;

use super::tests::{EAGER, USER, request, windows};
use super::*;
use crate::fake::{Settings, World};
use crate::peer::Peer;
use crate::subordinate::Subordinates;

const COOPERATING: &str = "[daemon]\nallow_global = true\n[engine]\nbalancing = \"cooperate\"\n";

#[test]
fn the_kernel_balances_while_a_program_is_under_a_policy() {
    let world = World::new();
    let settings = Settings::new("cooperates", COOPERATING);
    let (mut steward, _gate) = world.steward(&settings);
    let attach = |steward: &mut Steward, pid, policy| {
        let attached = steward.attach(Peer::DAEMON, &request(&[pid], policy));
        AttachmentId(attached.unwrap().id)
    };
    let watched = attach(&mut steward, 100, "none");
    assert!(
        world.state().balancing.is_none(),
        "who only looks changes nothing"
    );
    steward.detach(Peer::DAEMON, watched).unwrap();
    let first = attach(&mut steward, 100, "packed");
    let second = attach(&mut steward, 200, "packed");
    let notes = steward.status(Peer::DAEMON).source_notes;
    assert!(
        notes.iter().any(|note| note.contains("by numad")),
        "{notes:?}"
    );
    steward.detach(Peer::DAEMON, first).unwrap();
    assert!(
        world.state().balancing.is_some(),
        "the other is still there"
    );
    steward.detach(Peer::DAEMON, second).unwrap();
    assert!(world.state().balancing.is_none());
    world.state().balancing = Some(Balancing::Already);
    let third = attach(&mut steward, 100, "packed");
    steward.detach(Peer::DAEMON, third).unwrap();
    assert!(world.state().balancing.is_some(), "it was on before");
}

/// An administrator switches it off while two programs want it, and maybe on again.
#[test]
fn what_an_administrator_switches_off_stays_so_while_somebody_wants_it() {
    let world = World::new();
    let settings = Settings::new("off-meanwhile", COOPERATING);
    let (mut steward, _gate) = world.steward(&settings);
    let attach = |steward: &mut Steward, pid| {
        let attached = steward.attach(Peer::DAEMON, &request(&[pid], "packed"));
        AttachmentId(attached.unwrap().id)
    };
    for on_before in [None, Some(Balancing::Already)] {
        for on_again in [None, Some(Balancing::Already)] {
            let case = format!("{on_before:?}, {on_again:?}");
            world.state().balancing = on_before;
            let first = attach(&mut steward, 100);
            let second = attach(&mut steward, 200);
            assert!(world.state().balancing.is_some(), "{case}");
            world.state().balancing = None;
            steward.detach(Peer::DAEMON, first).unwrap();
            steward.reload(Peer::DAEMON).unwrap();
            let third = attach(&mut steward, 100);
            let state = || {
                let state = world.state();
                (state.balancing, state.balancing_rows)
            };
            assert_eq!(state(), (None, 0), "{case}");
            let notes = steward.status(Peer::DAEMON).source_notes;
            let off = |note: &String| note.contains("somebody switched it off");
            assert!(notes.iter().any(off), "{case}: {notes:?}");
            world.state().balancing = on_again;
            for id in [second, third] {
                steward.detach(Peer::DAEMON, id).unwrap();
                assert_eq!(state(), (on_again, 0), "{case}");
            }
        }
    }
    world.state().balancing = None;
    attach(&mut steward, 100);
    assert!(world.state().balancing.is_some(), "a new wish");
}

#[test]
fn without_leave_the_kernels_balancing_is_not_touched() {
    let world = World::new();
    let settings = Settings::new("leaves", EAGER);
    let (mut steward, _gate) = world.steward(&settings);
    steward
        .attach(Peer::DAEMON, &request(&[100], "packed"))
        .unwrap();
    windows(&world, &mut steward);
    assert!(world.state().balancing.is_none());
    settings.write(COOPERATING);
    steward.reload(Peer::DAEMON).unwrap();
    assert!(world.state().balancing.is_some(), "who may, from now on");
    settings.write(EAGER);
    steward.reload(Peer::DAEMON).unwrap();
    assert!(world.state().balancing.is_none());
}

#[test]
fn the_kernels_balancing_can_be_asked_for_one_program() {
    let world = World::new();
    let settings = Settings::new("asked", EAGER);
    let (mut steward, _gate) = world.steward(&settings);
    let asked = |how: &str| {
        let mut asked = request(&[100], "none");
        asked.set = [("engine.balancing".to_owned(), how.to_owned())].into();
        asked
    };
    let refused = steward.attach(Peer::DAEMON, &asked("perhaps")).unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Configuration, "{refused:?}");
    let refused = steward
        .attach(Peer::DAEMON, &asked("cooperate"))
        .unwrap_err();
    assert_eq!(refused.kind, ErrorKind::NotPermitted, "{refused:?}");
    assert!(refused.to_string().contains("allow_global"), "{refused}");
    settings.write("[daemon]\nallow_global = true\n");
    steward.reload(Peer::DAEMON).unwrap();
    let refused = steward.attach(USER, &asked("cooperate")).unwrap_err();
    assert_eq!(refused.kind, ErrorKind::NotPermitted, "{refused:?}");
    let pretended = AttachRequest {
        dry_run: true,
        ..asked("cooperate")
    };
    let id = AttachmentId(steward.attach(Peer::DAEMON, &pretended).unwrap().id);
    assert!(
        world.state().balancing.is_none(),
        "a dry run changes nothing"
    );
    steward.detach(Peer::DAEMON, id).unwrap();
    let id = AttachmentId(
        steward
            .attach(Peer::DAEMON, &asked("cooperate"))
            .unwrap()
            .id,
    );
    assert!(
        world.state().balancing.is_some(),
        "even under `none`: it was asked for"
    );
    steward.detach(Peer::DAEMON, id).unwrap();
    assert!(world.state().balancing.is_none());
    settings.write(COOPERATING);
    steward.reload(Peer::DAEMON).unwrap();
    let leaves = AttachRequest {
        policy: Some("packed".to_owned()),
        ..asked("leave")
    };
    steward.attach(USER, &leaves).unwrap();
    assert!(world.state().balancing.is_none(), "others would have it");
}

#[test]
fn settings_of_the_engine_can_be_given_for_one_program() {
    let world = World::new();
    let settings = Settings::new("engine", EAGER);
    let (mut steward, _gate) = world.steward(&settings);
    let mut asked = request(&[100], "packed");
    let mut refused = |name: &str, value: &str| {
        asked.set = [(name.to_owned(), value.to_owned())].into();
        steward.attach(Peer::DAEMON, &asked).unwrap_err()
    };
    for (name, value, told) in [
        ("engine.hold_mz", "1", "did you mean `hold_ms`?"),
        ("engine.hold_ms", "-1", "`engine.hold_ms`"),
        ("daemon.socket", "/tmp/x", "cannot be set for one program"),
        (
            "engine.page_slots",
            "65536",
            "cannot be set for one program",
        ),
        (
            "engine.interval_min_ms",
            "60000",
            "`engine.interval_max_ms`",
        ),
    ] {
        let failure = refused(name, value);
        assert_eq!(failure.kind, ErrorKind::Configuration, "{failure:?}");
        assert!(failure.message.contains(told), "{failure:?}");
        assert!(!world.state().source_open, "nothing is left behind");
    }
    asked.set = [("engine.move_threads".to_owned(), "false".to_owned())].into();
    let id = steward.attach(Peer::DAEMON, &asked).unwrap().id;
    windows(&world, &mut steward);
    assert!(world.state().done.is_empty(), "no thread is moved");
    let detail = steward.detail(Peer::DAEMON, AttachmentId(id)).unwrap();
    assert_eq!(detail.settings["engine.move_threads"], "false");
    steward
        .attach(Peer::DAEMON, &request(&[200], "packed"))
        .unwrap();
    windows(&world, &mut steward);
    assert!(!world.state().done.is_empty(), "others are as ever");
}

#[test]
fn the_notation_of_experiments_is_told_how_attach_writes_it() {
    let world = World::new();
    let (mut steward, _gate) = world.steward(&Settings::new("notation", EAGER));
    let asked = request(&[100], "deloc+published");
    let failure = steward.attach(Peer::DAEMON, &asked).unwrap_err();
    assert_eq!(failure.kind, ErrorKind::NotFound);
    assert_eq!(failure.remedy, "name `deloc` with `--as-published`");
}

#[test]
fn who_attaches_is_warned_of_a_policy_that_can_do_nothing_here() {
    let world = World::new();
    let settings = Settings::new("in-vain", EAGER);
    let (mut steward, _gate) = world.steward(&settings);
    let mut why = |policy: &str, pid| {
        let attached = steward.attach(Peer::DAEMON, &request(&[pid], policy));
        attached.unwrap().in_vain.unwrap_or_default()
    };
    // Nobody counts accesses in the world of the tests, and its kernel does not balance.
    let linux = why("linux", 100);
    assert!(linux.contains("sysctl kernel.numa_balancing=1"), "{linux}");
    let azimi = why("azimi", 200);
    assert!(azimi.contains("what answered"), "{azimi}");
    let world = World::new();
    world.state().balancing = Some(Balancing::Already);
    let (mut steward, _gate) = world.steward(&settings);
    let attached = steward.attach(Peer::DAEMON, &request(&[100], "linux"));
    assert_eq!(attached.unwrap().in_vain, None);
}

#[test]
fn what_the_kernel_does_and_what_nobody_sees_is_told() {
    let world = World::new();
    let settings = Settings::new("ally", EAGER);
    let (mut steward, _gate) = world.steward(&settings);
    let attached = steward.attach(Peer::DAEMON, &request(&[100], "packed"));
    let id = AttachmentId(attached.unwrap().id);
    windows(&world, &mut steward);
    let row = |steward: &mut Steward| steward.detail(Peer::DAEMON, id).unwrap().attachment;
    let alone = row(&mut steward);
    assert_eq!(alone.kernel, None);
    // Of a megabyte some pages were seen.
    let unseen = alone.unseen_share.unwrap();
    assert!((0.1..0.9).contains(&unseen), "{unseen}");
    world.state().balancing = Some(Balancing::Already);
    let beside = row(&mut steward);
    assert_eq!(beside.unseen_share, None, "it sees reads as well");
    let before = beside.kernel.unwrap().machine_pages.unwrap();
    let now = row(&mut steward).kernel.unwrap();
    assert_eq!(now.machine_pages, Some(before + 10));
    assert_eq!(now.pages_elsewhere, 0);
}

#[test]
fn on_one_node_nothing_is_unseen() {
    let world = World::new();
    world.state().machine = Some("1x4");
    let settings = Settings::new("one-node", EAGER);
    let (mut steward, _gate) = world.steward(&settings);
    let attached = steward.attach(Peer::DAEMON, &request(&[100], "packed"));
    let id = AttachmentId(attached.unwrap().id);
    windows(&world, &mut steward);
    let row = steward.detail(Peer::DAEMON, id).unwrap().attachment;
    assert_eq!(row.unseen_share, None, "no memory could be nearer");
}

#[test]
fn what_is_measured_later_counts_from_the_next_program_alone_or_a_reload() {
    let world = World::new();
    let settings = Settings::new("measured-later", EAGER);
    let (mut steward, _gate) = world.steward(&settings);
    let told = |steward: &mut Steward| {
        let found = steward.doctor().run().into_iter();
        let mut found = found.filter(|finding| finding.subject == "bandwidth of nodes");
        found.next().unwrap().text
    };
    // 2x2 nodes that deliver so many MB/s each.
    let measured = |mbps| {
        let machine = topology::synthetic::parse("2x2@10,21").unwrap();
        let mut measured = topology::Measured::new(machine.fingerprint());
        for node in machine.nodes() {
            measured.link_mut(node.id, node.id).alone_mbps = Some(mbps);
        }
        Arc::new(machine.with_measured(&measured))
    };
    let attach = |steward: &mut Steward, pid| {
        let attached = steward.attach(Peer::DAEMON, &request(&[pid], "packed"));
        AttachmentId(attached.unwrap().id)
    };
    let first = attach(&mut steward, 100);
    assert!(told(&mut steward).starts_with("not known"));
    world.state().measured = Some(measured(10_000));
    let second = attach(&mut steward, 200);
    assert!(
        told(&mut steward).starts_with("not known"),
        "not beside others"
    );
    steward.reload(Peer::DAEMON).unwrap();
    assert_eq!(told(&mut steward), "measured");
    windows(&world, &mut steward);
    for id in [first, second] {
        steward.detach(Peer::DAEMON, id).unwrap();
    }
    world.state().measured = Some(Arc::new(topology::synthetic::parse("2x2@10,21").unwrap()));
    assert_eq!(told(&mut steward), "measured", "nobody has looked");
    attach(&mut steward, 100);
    assert!(told(&mut steward).starts_with("not known"));
}

#[test]
fn a_process_that_is_named_again_and_again_is_looked_at_once() {
    let world = World::new();
    let settings = Settings::new("named-again", EAGER);
    let (mut steward, _gate) = world.steward(&settings);
    let mut asked = request(&[200, 100], "no such policy");
    asked.target = control::rows::Target::Pids([[200, 100]; 512].concat());
    steward.attach(Peer::DAEMON, &asked).unwrap_err();
    assert_eq!(world.state().looked_at, [Pid(100), Pid(200)]);
}

#[test]
fn programs_that_are_attached_again_and_again_do_not_fill_the_log() {
    let world = World::new();
    let settings = Settings::new("fills-the-log", EAGER);
    let (mut steward, _gate) = world.steward(&settings);
    let written = Arc::new(Mutex::new(Vec::new()));
    steward.parts.log = Log::to(Level::Info, false, written.clone());
    let asked = AttachRequest {
        for_ms: Some(1),
        ..request(&[100], "linux")
    };
    for _ in 0..100 {
        steward.attach(USER, &asked).unwrap();
        world.pass(Duration::from_millis(2));
        steward.turn();
    }
    let text = String::from_utf8(written.lock().unwrap().clone()).unwrap();
    for part in [
        "attached `program100`",
        "its time is over",
        "numa_balancing is 0",
    ] {
        assert!(text.contains(part), "{text}");
    }
    let lines = text.lines().count();
    assert!(lines <= 30, "{lines} lines");
}

#[test]
fn users_of_one_payer_share_its_limits() {
    let world = World::new();
    let limits = "[limits]\nuser_attachments_max = 1\nuser_threads_max = 5\n";
    let settings = Settings::new("payer", limits);
    let (mut steward, _gate) = world.steward(&settings);
    steward.parts.gate.send_modify(|gate| {
        gate.access.subordinates = Subordinates::parse("7:100000:65536");
    });
    world.add_process(300, 100_001, 1);
    world.add_process(301, 100_002, 1);
    let peer = |uid| Peer {
        uid,
        gid: uid,
        admin: false,
    };
    let first = steward
        .attach(peer(100_001), &request(&[300], "none"))
        .unwrap();
    for (uid, pid) in [(100_002, 301), (7, 100)] {
        let refused = steward
            .attach(peer(uid), &request(&[pid], "none"))
            .unwrap_err();
        assert!(refused.to_string().contains("attached by you"), "{refused}");
        assert_eq!(steward.threads_left(uid, None), 4);
    }
    // What may be done goes by the user itself.
    let id = AttachmentId(first.id);
    steward
        .attach(Peer::DAEMON, &request(&[200], "none"))
        .unwrap();
    assert_eq!(world.state().charged, [(id, 7)]);
    assert!(steward.detach(peer(100_002), id).is_err() && steward.detach(USER, id).is_err());
    steward.detach(peer(100_001), id).unwrap();
}
