//! Who stays in a program, on a machine that is not there.

use control::rows::{AttachRequest, RecordRequest, Target};
use control::{ErrorKind, Failure};
use numad_core::{Lifecycle, Record};
use std::time::Duration;
use topology::Tid;

use super::*;
use crate::fake::{Settings, World};
use crate::peer::Peer;
use crate::steward::tests::{EAGER, USER, refused, request, windows};

/// What closes a process to its own user: a group, a capability, and its own wish.
pub(in crate::steward) fn closed_rights() -> (procfs::Rights, procfs::Rights, procfs::Rights) {
    let open = procfs::Rights::ordinary(7, 7);
    let mut group = open;
    group.gids = procfs::Rights::ordinary(7, 5).gids;
    let capable = procfs::Rights {
        capabilities: Some(1 << 21),
        ..open
    };
    let hidden = procfs::Rights {
        dumpable: false,
        ..open
    };
    (group, capable, hidden)
}

#[test]
fn what_the_kernel_hides_is_not_attached() {
    let (group, capable, hidden) = closed_rights();
    for (rights, word) in [
        (group, "another group"),
        (capable, "capabilities"),
        (hidden, "dumpable"),
    ] {
        let world = World::new();
        world.set_rights(100, rights);
        let settings = Settings::new("closed", EAGER);
        let (mut steward, _gate) = world.steward(&settings);
        let failure = refused(&world, &mut steward, USER, &request(&[100], "none"));
        assert_eq!(failure.kind, ErrorKind::NotPermitted);
        assert!(failure.message.contains(word), "{failure}");
        // Root may, and its user does not see what it is told of it.
        steward
            .attach(Peer::DAEMON, &request(&[100], "none"))
            .unwrap();
        assert!(steward.attachments(USER).is_empty());
    }
}

#[test]
fn who_is_closed_to_its_user_leaves_the_program_and_is_put_back() {
    for told in [true, false] {
        let world = World::new();
        world.add_process(110, 7, 2);
        let settings = Settings::new("closes", EAGER);
        let (mut steward, _gate) = world.steward(&settings);
        let attached = steward.attach(USER, &request(&[100, 110], "packed"));
        let id = AttachmentId(attached.unwrap().id);
        windows(&world, &mut steward);
        world.set_rights(100, closed_rights().0);
        if told {
            let exec = Lifecycle::Renamed {
                time: steward.now(),
                pid: Pid(100),
                tid: Tid(100),
                name: "other".to_owned(),
                exec: true,
            };
            world.state().records.push_back(Record::Lifecycle(exec));
            world.pass(Duration::from_millis(100));
            steward.turn();
            assert_eq!(world.state().undone, [Some(vec![Pid(100)])]);
            // Before it is put back: its pages are another program's by now.
            assert_eq!(world.state().began_another, [(Pid(100), 0)]);
        }
        windows(&world, &mut steward);
        assert_eq!(world.state().undone, [Some(vec![Pid(100)])]);
        assert_eq!(world.state().followed, [Pid(110)].into());
        let detail = steward.detail(USER, id).unwrap();
        assert_eq!(detail.attachment.pids, [110]);
        assert!(detail.threads.iter().all(|thread| thread.pid == 110));
        let events = steward.events(USER, id, 512).unwrap();
        let left = events.iter().find(|row| row.kind == "left").unwrap();
        assert!(
            left.text.contains("process 100 acts for another group"),
            "{left:?}"
        );
        // With the last process the program ends; nothing of the first is touched again.
        world.set_rights(110, closed_rights().2);
        windows(&world, &mut steward);
        steward.detail(USER, id).unwrap_err();
        assert!(world.state().followed.is_empty());
        let undone = world.state().undone.clone();
        let again = undone[1..]
            .iter()
            .any(|scope| matches!(scope, Some(pids) if pids.contains(&Pid(100))));
        assert!(!again, "{undone:?}");
    }
}

#[test]
fn those_who_are_closed_at_once_are_put_back_at_once() {
    let world = World::new();
    let pids: Vec<u32> = (300..310).collect();
    pids.iter().for_each(|&pid| world.add_process(pid, 7, 1));
    let settings = Settings::new("close-together", EAGER);
    let (mut steward, _gate) = world.steward(&settings);
    steward.attach(USER, &request(&pids, "packed")).unwrap();
    windows(&world, &mut steward);
    for &pid in &pids[1..] {
        world.set_rights(pid, closed_rights().0);
        for name in ["one", "another"] {
            let exec = Lifecycle::Renamed {
                time: steward.now(),
                pid: Pid(pid),
                tid: Tid(pid),
                name: name.to_owned(),
                exec: true,
            };
            world.state().records.push_back(Record::Lifecycle(exec));
        }
    }
    world.pass(Duration::from_millis(100));
    steward.turn();
    let closed = pids[1..].iter().copied().map(Pid).collect();
    assert_eq!(world.state().undone, [Some(closed)]);
}

#[test]
fn what_root_attached_is_hidden_when_its_user_may_not_look() {
    let world = World::new();
    let settings = Settings::new("hidden", EAGER);
    let (mut steward, _gate) = world.steward(&settings);
    steward
        .attach(Peer::DAEMON, &request(&[100], "packed"))
        .unwrap();
    assert_eq!(steward.attachments(USER).len(), 1);
    world.set_rights(100, closed_rights().1);
    windows(&world, &mut steward);
    assert!(steward.attachments(USER).is_empty());
    assert_eq!(steward.attachments(Peer::DAEMON).len(), 1);
    assert!(world.state().undone.is_empty());
}

#[test]
fn threads_of_one_user_are_limited() {
    let world = World::new();
    world.add_process(110, 7, 3);
    let settings = Settings::new("threads", "[limits]\nuser_threads_max = 6\n");
    let (mut steward, _gate) = world.steward(&settings);
    let first = steward.attach(USER, &request(&[100], "none")).unwrap();
    let failure = refused_beside(&mut steward, &request(&[110], "none"));
    assert!(
        failure
            .message
            .contains("`3` threads are more than the `2`"),
        "{failure}"
    );
    assert!(
        failure.remedy.contains("limits.user_threads_max"),
        "{failure}"
    );
    let failure = steward.record(
        USER,
        &RecordRequest {
            target: Target::Pids(vec![100, 110]),
            for_ms: None,
        },
    );
    assert_eq!(failure.unwrap_err().kind, ErrorKind::Busy);
    steward
        .attach(Peer::DAEMON, &request(&[110], "none"))
        .unwrap();
    steward.detach(USER, AttachmentId(first.id)).unwrap();
    assert_eq!(steward.threads_left(7, None), 6);
}

fn refused_beside(steward: &mut Steward, asked: &AttachRequest) -> Failure {
    let failure = steward.attach(USER, asked).unwrap_err();
    assert_eq!(failure.kind, ErrorKind::Busy, "{failure}");
    failure
}

/// One turn looks at so many threads; the rest waits for the next turn, and nobody waits for ever.
#[test]
fn many_windows_at_once_are_judged_in_turns() {
    let world = World::new();
    let settings = Settings::new("turns", EAGER);
    let (mut steward, _gate) = world.steward(&settings);
    let pids: Vec<u32> = (1..=4).map(|number| number * 10_000).collect();
    for &pid in &pids {
        world.add_process(pid, 7, 400);
        steward
            .attach(Peer::DAEMON, &request(&[pid], "none"))
            .unwrap();
    }
    world.pass(Duration::from_secs(1));
    let now = steward.now();
    assert_eq!(steward.next_due(now).len(), 2, "800 threads are enough");
    let mut judged = 0;
    while steward.judging_due().is_some_and(|due| due <= now) {
        steward.judge(now);
        steward.listen();
        judged += 1;
        assert!(judged < 10);
    }
    assert_eq!(judged, 2);
    let status = steward.status(Peer::DAEMON);
    assert!(status.attachments.iter().all(|row| row.windows == 1));
}

/// Nothing is written down of it: it leaves at once, and gets back what its maker had.
#[test]
fn a_child_that_is_closed_to_its_user_does_not_join() {
    let world = World::new();
    let settings = Settings::new("closed-child", EAGER);
    let (mut steward, _gate) = world.steward(&settings);
    let attached = steward.attach(USER, &request(&[100], "packed"));
    let id = AttachmentId(attached.unwrap().id);
    for (pid, rights) in [(300, closed_rights().1), (301, closed_rights().2)] {
        world.add_process(pid, 7, 1);
        world.set_rights(pid, rights);
        world.fork(100, pid);
    }
    world.pass(Duration::from_millis(100));
    steward.turn();
    assert!(world.state().joined.is_empty());
    assert_eq!(world.state().undone, [Some(vec![Pid(300), Pid(301)])]);
    assert_eq!(world.state().followed, [Pid(100)].into());
    let rows = steward.events(USER, id, 512).unwrap();
    assert_eq!(rows.iter().filter(|row| row.kind == "left").count(), 2);
    windows(&world, &mut steward);
    steward.detach(USER, id).unwrap();
    let undone = world.state().undone[1..].to_vec();
    assert_eq!(undone, [Some(vec![Pid(100)])]);
}
