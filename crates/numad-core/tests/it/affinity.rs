//! Whose affinity it is.

use std::sync::{Arc, Mutex};

use numad_core::{Action, Outcome, Refusal, Veto};
use topology::{CpuId, NodeId};

use crate::world::{Script, World, cpus, options};

/// A thread bound to node 1 by us, and one window after that in which it was seen there.
fn bound() -> (World, Arc<Mutex<Script>>) {
    let mut world = World::new("2x4@10,20");
    let (_, script) = world.attach(10, &[0], options());
    world.thread(10).cgroup = cpus("0-7");
    script.lock().unwrap().threads = vec![(10, 1)];
    assert_eq!(world.window().orders(), "10>1");
    assert_eq!(world.thread(10).affinity, cpus("4-7"));
    world.window();
    (world, script)
}

#[track_caller]
fn after(change: impl FnOnce(&mut World), hands_off: &[u32], orders: &str) {
    let (mut world, _) = bound();
    change(&mut world);
    let seen = world.window();
    assert_eq!(
        (seen.hands_off(), seen.orders().as_str()),
        (hands_off.to_vec(), orders)
    );
    if !hands_off.is_empty() {
        // For ever.
        world.thread(10).affinity = cpus("0-7");
        let seen = world.window();
        assert_eq!(seen.vetoes(), [("10".to_owned(), Veto::HandsOff)]);
    }
}

#[test]
fn another_affinity_means_hands_off_unless_a_limit_made_it() {
    after(|_| {}, &[], "");
    after(|world| world.thread(10).affinity = cpus("0-7"), &[10], "");
    after(|world| world.thread(10).affinity = cpus("5"), &[10], "");
    // Clipped by a cpuset, or by a processor that went offline.
    after(
        |world| {
            world.thread(10).cgroup = cpus("2-5");
            world.thread(10).affinity = cpus("4-5");
        },
        &[],
        "",
    );
    after(
        |world| {
            world.online = cpus("0-6");
            world.thread(10).affinity = cpus("4-6");
        },
        &[],
        "",
    );
}

#[test]
fn one_that_a_cpuset_wiped_is_placed_anew() {
    let (mut world, _) = bound();
    world.thread(10).cgroup = cpus("0-5");
    world.thread(10).affinity = cpus("0-5");
    // It rests first, as any thread that was moved.
    let orders: Vec<String> = (0..4).map(|_| world.window().orders()).collect();
    assert_eq!(orders, ["", "", "10>1", ""]);
    assert_eq!(world.thread(10).affinity, cpus("4-5"));
}

#[test]
fn a_dry_run_never_mistakes_its_own_absence_for_a_change() {
    let mut world = World::new("2x4@10,20");
    world.dry = true;
    let (id, script) = world.attach(10, &[0], options());
    script.lock().unwrap().threads = vec![(10, 1)];
    assert_eq!(world.window().orders(), "10>1");
    for _ in 0..3 {
        let seen = world.window();
        assert_eq!((seen.hands_off(), seen.orders().as_str()), (vec![], ""));
    }
    assert_eq!(world.engine.tasks(id)[0].placed.unwrap().0, 1);
    world.thread(10).affinity = cpus("3");
    assert_eq!(world.window().hands_off(), [10]);
}

/// Who plans must not count on the place of one that stays.
#[test]
fn a_thread_that_someone_else_placed_may_be_nowhere_else() {
    let (mut world, script) = bound();
    assert_eq!(script.lock().unwrap().allowed, [[true, true]]);
    world.thread(10).affinity = cpus("0-7");
    assert_eq!(world.window().hands_off(), [10]);
    world.window();
    assert_eq!(script.lock().unwrap().allowed, [[false, true]]);
    world.thread(10).cpu = CpuId(2);
    world.window();
    assert_eq!(script.lock().unwrap().allowed, [[true, false]]);
}

#[test]
fn a_host_that_finds_it_changed_means_hands_off() {
    let mut world = World::new("2x4@10,20");
    let (id, script) = world.attach(10, &[0], options());
    script.lock().unwrap().threads = vec![(10, 1)];
    world.answers = vec![Outcome::Refused(Refusal::ChangedByOther)];
    assert_eq!(world.window().hands_off(), [10]);
    assert_eq!(world.window().vetoes(), [("10".to_owned(), Veto::HandsOff)]);
    assert_eq!(
        world.engine.totals(id).unwrap().refusals[&Refusal::ChangedByOther],
        1
    );
}

#[test]
fn other_refusals_only_delay() {
    let mut world = World::new("2x4@10,20");
    let (_, script) = world.attach(10, &[0], options());
    script.lock().unwrap().threads = vec![(10, 1)];
    world.answers = vec![Outcome::Refused(Refusal::NotPermitted)];
    assert_eq!(world.window().orders(), "10>1");
    // A refusal counts as a return: two holds of two seconds, at half a second to a window.
    for _ in 0..7 {
        assert_eq!(
            world.window().vetoes(),
            [("10".to_owned(), Veto::MovedRecently)]
        );
    }
    assert_eq!(world.window().orders(), "10>1");
}

/// Both get the same mask, and a thread that one of them makes goes nowhere that either may not.
#[test]
fn who_inherits_an_affinity_of_ours_is_bound_by_what_any_had_before_it() {
    let mut world = World::new("3x2@10,20");
    let (id, script) = world.attach(10, &[0, 1], options());
    world.thread(11).affinity = cpus("0-3");
    script.lock().unwrap().threads = vec![(10, 0), (11, 0)];
    assert_eq!(world.window().orders(), "10>0 11>0");
    world.add_thread(id, 10, 12, 0);
    world.thread(12).affinity = world.thread(11).affinity.clone();
    script.lock().unwrap().threads = vec![(12, 2)];
    world.window();
    let seen = world.window();
    assert_eq!(seen.vetoes(), [("12".to_owned(), Veto::NotAllowed)]);
    script.lock().unwrap().threads = vec![(12, 1)];
    assert_eq!(world.window().orders(), "12>1");
}

#[test]
fn threads_that_inherit_our_affinity_are_not_taken_for_pinned() {
    let (mut world, script) = bound();
    let id = world.engine.attachments()[0];
    world.add_thread(id, 10, 11, 4);
    world.thread(11).affinity = cpus("4-7");
    world.window();
    // It came with the mask that we gave its maker, and may go where that one might.
    script.lock().unwrap().threads = vec![(11, 0)];
    assert_eq!(world.window().orders(), "11>0");
    assert_eq!(world.thread(11).affinity, cpus("0-3"));
}

#[test]
fn a_mask_from_before_is_a_limit_not_an_enemy() {
    let mut world = World::new("2x4@10,20");
    let (_, script) = world.attach(10, &[0, 1], options());
    for tid in [10, 11] {
        world.thread(tid).affinity = cpus("2-5");
    }
    script.lock().unwrap().threads = vec![(10, 0), (11, 1)];
    let seen = world.window();
    let masks: Vec<String> = seen
        .actions
        .iter()
        .filter_map(|action| match action {
            Action::Bind { cpus, .. } => Some(cpus.to_string()),
            Action::MovePages { .. } => None,
        })
        .collect();
    assert_eq!(masks, ["2-3", "4-5"]);
    assert_eq!(script.lock().unwrap().capacity, [2, 2]);
}

/// Who looks takes a processor, and so puts a thread off it.
#[test]
fn a_thread_is_where_it_ran_and_not_where_a_look_finds_it() {
    let mut world = World::new("2x2@10,20");
    let (_, script) = world.attach(10, &[0, 2], options());
    world.homes.insert(5, NodeId(1));
    let mut is_beside = |ran: u32, looked_at: u32| {
        world.thread(11).cpu = CpuId(ran);
        world.touch(11, 5, 20);
        world.thread(11).cpu = CpuId(looked_at);
        world.window();
        script.lock().unwrap().beside > 0.5
    };
    is_beside(2, 2);
    assert!(is_beside(3, 0));
    assert!(is_beside(2, 0));
    assert!(!is_beside(0, 2), "it went");
}
