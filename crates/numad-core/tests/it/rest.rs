//! Windows that tell nothing go on.

use numad_core::{AttachOptions, AttachmentId, IntervalLaw};
use topology::NodeId;

use crate::world::{WINDOW, World, options};

fn two_pairs() -> (World, AttachmentId) {
    attached(&[0, 1, 4, 5])
}

/// A program with a thread on each of these processors.
fn attached(cpus: &[u32]) -> (World, AttachmentId) {
    let mut world = World::new("2x4@10,20");
    let gain = AttachOptions {
        require_gain: true,
        interval: IntervalLaw::Calm {
            min: WINDOW,
            max: WINDOW * 256,
        },
        ..options()
    };
    let (id, script) = world.attach(10, cpus, gain);
    script.lock().unwrap().stands = true;
    (world, id)
}

/// Both pairs use their own pages, each near; some pages of one are far where that is said.
fn both_pairs(world: &mut World, far: u64) {
    for page in 0..100 {
        let node = NodeId(u32::from(page < far));
        world.homes.insert(page, node);
        world.homes.insert(1000 + page, NodeId(1));
        for (tid, page) in [(10, page), (11, page), (12, 1000 + page), (13, 1000 + page)] {
            world.touch(tid, page, 1);
        }
    }
}

/// Lets time pass until a window ends, and tells at which look; `sees` is what is sampled before
/// each.
fn lasts(world: &mut World, id: AttachmentId, mut sees: impl FnMut(&mut World)) -> u32 {
    let mut looks = 0;
    loop {
        sees(world);
        let deadline = world.engine.deadline().unwrap();
        world.pass(deadline.since(world.now));
        looks += 1;
        if world.engine.due(world.now) == [id] {
            break;
        }
    }
    let observation = world.observe(&[id]);
    world.engine.handle_observation(world.now, &observation);
    world.settle();
    looks
}

#[test]
fn a_window_with_too_few_samples_goes_on_until_it_has_enough_but_not_for_ever() {
    let (mut world, id) = two_pairs();
    assert_eq!(lasts(&mut world, id, |_| {}), 8);
    let mut looks = 0;
    let third = |world: &mut World| {
        looks += 1;
        world.touch(10, 1, if looks == 3 { 4 } else { 1 });
    };
    // The first two looks see one sample each.
    assert_eq!(lasts(&mut world, id, third), 3);
}

#[test]
fn a_window_that_is_looked_at_late_has_as_many_looks() {
    let (mut world, id) = two_pairs();
    world.pass(WINDOW * 100);
    assert!(world.engine.due(world.now).is_empty());
    let late = world.now;
    assert_eq!(world.engine.deadline(), Some(late.after(WINDOW)));
    both_pairs(&mut world, 0);
    assert_eq!(lasts(&mut world, id, |_| {}), 1);
}

fn at_rest() -> (World, AttachmentId) {
    let (mut world, id) = two_pairs();
    for _ in 0..12 {
        lasts(&mut world, id, |world| both_pairs(world, 0));
    }
    (world, id)
}

#[test]
fn a_window_of_a_program_at_rest_goes_on_while_it_tells_nothing() {
    let (mut world, id) = at_rest();
    assert_eq!(lasts(&mut world, id, |world| both_pairs(world, 0)), 8);
}

#[test]
fn other_pages_of_the_same_memory_are_no_news() {
    let (mut world, id) = at_rest();
    let others = |world: &mut World| {
        for page in 100..200 {
            for (tid, page) in [(10, page), (11, page), (12, 1000 + page), (13, 1000 + page)] {
                world.touch(tid, page, 1);
            }
        }
    };
    assert_eq!(lasts(&mut world, id, others), 8);
}

#[test]
fn it_ends_when_memory_is_farther() {
    let (mut world, id) = at_rest();
    // Where pages are is asked when a window ends.
    assert_eq!(lasts(&mut world, id, |world| both_pairs(world, 50)), 8);
    assert_eq!(lasts(&mut world, id, |world| both_pairs(world, 50)), 1);
}

#[test]
fn it_ends_when_threads_share_with_others() {
    let (mut world, id) = at_rest();
    let others = |world: &mut World| {
        for page in 0..100 {
            for tid in [10, 12] {
                world.touch(tid, page, 1);
                world.touch(tid + 1, 1000 + page, 1);
            }
        }
    };
    assert_eq!(lasts(&mut world, id, others), 1);
}

/// Four pairs, each with pages of its own, of which some are seen more than others.
fn four_pairs(world: &mut World, pages: [u64; 4]) {
    for (pair, pages) in (0..).zip(pages) {
        for page in 0..pages {
            let page = 1000 * u64::from(pair) + page;
            world.homes.insert(page, NodeId(pair / 2));
            world.touch(10 + 2 * pair, page, 1);
            world.touch(11 + 2 * pair, page, 1);
        }
    }
}

#[test]
fn of_whom_more_is_seen_or_nothing_does_nothing_else_by_that() {
    for bursts in [[100, 100, 100, 100], [200, 4, 4, 4], [100, 0, 0, 0]] {
        let (mut world, id) = attached(&[0, 1, 2, 3, 4, 5, 6, 7]);
        for _ in 0..12 {
            lasts(&mut world, id, |world| four_pairs(world, [100; 4]));
        }
        let looks = lasts(&mut world, id, |world| four_pairs(world, bursts));
        assert_eq!(looks, 8, "{bursts:?}");
    }
}

#[test]
fn a_look_without_samples_is_compared_with_nothing() {
    let (mut world, id) = at_rest();
    let mut looks = 0;
    let not_the_last = |world: &mut World| {
        looks += 1;
        if looks < 8 {
            both_pairs(world, 50);
        }
    };
    assert_eq!(lasts(&mut world, id, not_the_last), 8);
    assert_eq!(lasts(&mut world, id, |world| both_pairs(world, 50)), 1);
}
