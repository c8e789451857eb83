//! What made things worse is put back.

use numad_core::{Action, AttachOptions, Progress, Reason, Veto};
use topology::NodeId;

use crate::world::{World, options};

/// Threads 10 and 11 talk, each beside its memory or not; the policy parts or joins them.
fn world(
    prices: f64,
) -> (
    World,
    std::sync::Arc<std::sync::Mutex<crate::world::Script>>,
) {
    let mut options = AttachOptions {
        require_gain: true,
        ..options()
    };
    options.prices.task_move_ns = prices;
    let mut world = World::new("2x4@10,20");
    let (_, script) = world.attach(10, &[0, 4], options);
    (world, script)
}

#[test]
fn a_placement_that_parted_threads_from_their_memory_is_put_back() {
    let (mut world, script) = world(1.0);
    world.homes = (100..200).map(|page| (page, NodeId(1))).collect();
    let busy = |world: &mut World, talk: u64| {
        world.talk(10, 11, talk);
        (100..200).for_each(|page| world.touch(11, page, 4));
    };
    // Together they talk nearer, but all memory of 11 is left behind, and soon they talk less.
    script.lock().unwrap().threads = vec![(10, 0), (11, 0)];
    busy(&mut world, 300);
    assert_eq!(world.window().orders(), "10>0 11>0");
    busy(&mut world, 50);
    assert_eq!(world.window().orders(), "");
    busy(&mut world, 50);
    let seen = world.window();
    assert_eq!(seen.orders(), "11>1");
    let reverted = |action: &Action| {
        matches!(
            action,
            Action::Bind {
                reason: Reason::Revert,
                ..
            }
        )
    };
    assert!(seen.actions.iter().all(reverted));
    // The policy wants it again and is held off.
    busy(&mut world, 50);
    assert_eq!(
        world.window().vetoes(),
        [("11".to_owned(), Veto::MovedRecently)]
    );
    let id = world.engine.attachments()[0];
    assert_eq!(world.engine.totals(id).unwrap().reverts, 1);
}

#[test]
fn a_placement_that_helps_stays() {
    let (mut world, script) = world(1.0);
    script.lock().unwrap().threads = vec![(10, 0), (11, 0)];
    for orders in ["10>0 11>0", "", "", "", ""] {
        world.talk(10, 11, 50);
        assert_eq!(world.window().orders(), orders);
    }
}

#[test]
fn a_change_of_the_program_is_not_blamed_on_the_placement() {
    let mut options = AttachOptions {
        require_gain: true,
        ..options()
    };
    options.prices.task_move_ns = 1.0;
    let mut world = World::new("2x4@10,20");
    let (_, script) = world.attach(10, &[0, 4, 5], options);
    world.talk(10, 11, 50);
    script.lock().unwrap().threads = vec![(10, 0), (11, 0)];
    assert_eq!(world.window().orders(), "10>0 11>0");
    // Now 11 talks to 12 on the other node as well: worse than before, and no better in the old place.
    for _ in 0..4 {
        world.talk(10, 11, 200);
        world.talk(10, 12, 200);
        assert_eq!(world.window().orders(), "");
    }
}

/// Windows with these instructions per thousand cycles, in which two threads talk that the first window
/// brings together.
#[track_caller]
fn check_pace(windows: &[u64], expected: &[&str]) -> Vec<Action> {
    let (mut world, script) = world(1.0);
    let mut actions = Vec::new();
    for (number, (&ipc, orders)) in windows.iter().zip(expected).enumerate() {
        if number == 3 {
            script.lock().unwrap().threads = vec![(10, 0), (11, 0)];
        }
        world.progress = Some(Progress {
            instructions: ipc * 5_000,
            cycles: 5_000_000,
        });
        world.talk(10, 11, 50);
        let seen = world.window();
        assert_eq!(seen.orders(), *orders, "window {number}");
        actions.extend(seen.actions);
    }
    actions
}

#[test]
fn a_placement_that_slows_the_program_down_is_put_back_though_it_is_nearer() {
    let actions = check_pace(
        &[1000, 1000, 1000, 1000, 900, 900, 900],
        &["", "", "", "10>0 11>0", "", "11>1", ""],
    );
    let Some(Action::Bind { reason, .. }) = actions.last() else {
        panic!("{actions:?}");
    };
    assert_eq!(
        reason.to_string(),
        "instructions per cycle fell from 1.00 to 0.90 since it moved"
    );
}

#[test]
fn a_placement_stays_when_the_program_is_as_fast_or_was_never_steady() {
    let stays = ["", "", "", "10>0 11>0", "", "", "", ""];
    check_pace(&[1000, 1000, 1000, 1000, 980, 980, 980, 980], &stays);
    check_pace(&[1000, 1000, 1000, 1000, 800, 1000, 800, 800], &stays);
    check_pace(&[1000, 800, 1000, 800, 800, 800, 800, 800], &stays);
}
