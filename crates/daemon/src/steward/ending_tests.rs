//! How attachments end on a machine that is not there.

use std::time::Duration;

use control::rows::AttachRequest;
use numad_core::AttachmentId;
use topology::Pid;

use super::ending::ONE_BY_ONE_FOR;
use super::tests::{EAGER, request, windows};
use crate::fake::{Settings, World};
use crate::peer::Peer;

#[test]
fn what_is_attached_for_a_time_is_put_back_when_it_is_over() {
    let world = World::new();
    let settings = Settings::new("lease", EAGER);
    let (mut steward, _gate) = world.steward(&settings);
    let leased = AttachRequest {
        for_ms: Some(1_000),
        ..request(&[100], "packed")
    };
    steward.attach(Peer::DAEMON, &leased).unwrap();
    steward
        .attach(Peer::DAEMON, &request(&[200], "packed"))
        .unwrap();
    world.pass(Duration::from_millis(990));
    steward.turn();
    assert_eq!(steward.attachments(Peer::DAEMON).len(), 2);
    assert!(steward.wait(steward.now()).unwrap() <= Duration::from_millis(10));
    world.pass(Duration::from_millis(10));
    steward.turn();
    let left = steward.attachments(Peer::DAEMON);
    assert_eq!((left.len(), left[0].pids[0]), (1, 200));
    assert_eq!(world.state().undone.last(), Some(&Some(vec![Pid(100)])));
}

#[test]
fn others_are_answered_between_two_whose_time_is_over() {
    let world = World::new();
    let settings = Settings::new("leases", EAGER);
    let (mut steward, _gate) = world.steward(&settings);
    for pid in [100, 200] {
        let leased = AttachRequest {
            for_ms: Some(1_000),
            ..request(&[pid], "packed")
        };
        steward.attach(Peer::DAEMON, &leased).unwrap();
    }
    world.pass(Duration::from_secs(1));
    for left in [1, 0] {
        assert_eq!(steward.wait(steward.now()), Some(Duration::ZERO));
        steward.turn();
        assert_eq!(steward.attachments(Peer::DAEMON).len(), left);
    }
}

/// Its parent may have ended, so that nothing but the record of its fork tells whose it was.
#[test]
fn a_child_of_a_moment_ago_is_undone_too() {
    let world = World::new();
    let settings = Settings::new("newborn", EAGER);
    let (mut steward, _gate) = world.steward(&settings);
    for ending in ["detach", "stop"] {
        let attached = steward.attach(Peer::DAEMON, &request(&[100], "packed"));
        let id = AttachmentId(attached.unwrap().id);
        windows(&world, &mut steward);
        world.add_process(300, 7, 1);
        world.fork(100, 300);
        match ending {
            "detach" => drop(steward.detach(Peer::DAEMON, id).unwrap()),
            _ => drop(steward.stop()),
        }
        let undone = std::mem::take(&mut world.state().undone);
        assert_eq!(undone[0], Some(vec![Pid(100), Pid(300)]), "{ending}");
    }
}

#[test]
fn stopping_undoes_everything() {
    let world = World::new();
    let settings = Settings::new("stop", EAGER);
    let (mut steward, _gate) = world.steward(&settings);
    steward
        .attach(Peer::DAEMON, &request(&[100], "packed"))
        .unwrap();
    windows(&world, &mut steward);
    assert_eq!(steward.stop().threads_restored, 4);
    let named = Some(vec![Pid(100)]);
    assert_eq!(world.state().undone, [named, None]);
    assert!(!world.state().source_open);
}

/// However many programs keep their undo from its end: the last ones are put back together.
#[test]
fn a_stop_ends_in_time_with_many_programs() {
    let world = World::new();
    let settings = Settings::new("stop-many", EAGER);
    let (mut steward, _gate) = world.steward(&settings);
    let pids: Vec<u32> = (1..=20).map(|number| 1000 * number).collect();
    for &pid in &pids {
        world.add_process(pid, 7, 1);
        steward
            .attach(Peer::DAEMON, &request(&[pid], "packed"))
            .unwrap();
    }
    world.state().undo_passes = Duration::from_secs(2);
    let began = steward.now();
    steward.stop();
    assert!(steward.now().since(began) <= ONE_BY_ONE_FOR + Duration::from_secs(6));
    let undone = world.state().undone.clone();
    assert_eq!(undone.last(), Some(&None));
    let mut named: Vec<u32> = undone
        .into_iter()
        .flatten()
        .flatten()
        .map(|pid| pid.0)
        .collect();
    named.sort_unstable();
    assert_eq!(named, pids, "each once");
    assert!(!world.state().source_open);
}

/// An undo gave up, for processes were made all the time: it goes on later, with nothing attached
/// too.
#[test]
fn an_undo_that_gave_up_goes_on_later() {
    let world = World::new();
    let settings = Settings::new("undo-again", EAGER);
    let (mut steward, _gate) = world.steward(&settings);
    world.state().unfinished = 2;
    steward.turn();
    assert_eq!(world.state().unfinished, 2, "others have their turn first");
    for left in [1, 0] {
        let wait = steward.wait(steward.now()).unwrap();
        assert!(wait <= Duration::from_secs(5));
        world.pass(wait);
        steward.turn();
        assert_eq!(world.state().unfinished, left);
        steward.turn();
    }
    assert_eq!(steward.wait(steward.now()), None);
    // One that takes long leaves others as much of the thread as a user's requests do.
    world.state().unfinished = 2;
    world.state().undo_passes = Duration::from_secs(2);
    for wanted in [5, 38] {
        steward.turn();
        let wait = steward.wait(steward.now()).unwrap();
        assert_eq!(wait, Duration::from_secs(wanted));
        world.pass(wait);
    }
}
