//! Input that no program should give: counted, bounded, and told of.

use std::sync::Arc;

use numad_core::{
    Action, AttachmentId, Engine, EngineOptions, NoRoom, ObjectId, ObjectKind, ObservedMaps,
    SharedRange, WindowSummary,
};
use topology::{NodeId, Pid, Tid};

use crate::world::{PAGE, World, options};

fn object(inode: u64) -> ObjectId {
    ObjectId {
        kind: ObjectKind::Memory,
        device: (0, 1),
        inode,
    }
}

/// Pages `first..first + count` of process 10 are those of an object from its first on.
fn range(inode: u64, first: u64, count: u64) -> SharedRange {
    SharedRange {
        start: first * PAGE,
        end: (first + count) * PAGE,
        object: object(inode),
        offset: 0,
    }
}

fn maps(ranges: Vec<SharedRange>) -> ObservedMaps {
    ObservedMaps {
        pid: Pid(10),
        foreign: ranges.iter().map(|range| range.start..range.end).collect(),
        ranges,
    }
}

/// A process with threads 10 and 11, on different nodes.
fn two_threads() -> (World, AttachmentId) {
    let mut world = World::new("2x4@10,20");
    let (id, _) = world.attach(10, &[0, 4], options());
    (world, id)
}

/// What the threads said to each other in the last window.
fn talk(world: &World, id: AttachmentId) -> u64 {
    let (_, live, _) = world.engine.matrices(id).unwrap();
    live.between(0, 1)
}

#[test]
fn of_65_000_mappings_as_many_are_known_as_there_is_room_for() {
    let (mut world, id) = two_threads();
    let ranges = (0..65_000).map(|at| range(at % 500, 100 * at, 50));
    world.sharing.maps = vec![maps(ranges.collect())];
    let summary = world.window().summary();
    let (given, kept) = (2 * 65_000, 2 * 1024);
    let expected = NoRoom {
        mappings: given - kept,
        ..NoRoom::default()
    };
    assert_eq!(summary.no_room, expected);
    // The first and the 501st map the same object; those beyond what is known are pages of the process.
    for _ in 0..10 {
        world.touch(10, 7, 1);
        world.touch(11, 100 * 500 + 7, 1);
    }
    world.window();
    assert!(talk(&world, id) > 0);
    for _ in 0..10 {
        world.touch(10, 100 * 60_000 + 7, 1);
        world.touch(11, 100 * 60_500 + 7, 1);
    }
    world.window();
    assert_eq!(talk(&world, id), 0);
    // Once they are gone there is nothing to tell.
    world.sharing.maps = vec![maps(vec![range(0, 0, 50)])];
    assert_eq!(world.window().summary().no_room, NoRoom::default());
}

#[test]
fn objects_beyond_those_that_are_known_are_counted() {
    let (mut world, _) = two_threads();
    let ranges = (0..1024).map(|at| range(at, 100 * at, 50));
    world.sharing.maps = vec![maps(ranges.collect())];
    assert_eq!(world.window().summary().no_room, NoRoom::default());
    let ranges = (0..1024).map(|at| range(1024 + at, 100 * at, 50));
    world.sharing.maps = vec![maps(ranges.collect())];
    // The old ones are still there when the new ones come, and have made room at the next look.
    assert_eq!(world.window().summary().no_room.objects, 1024);
    assert_eq!(world.window().summary().no_room, NoRoom::default());
}

#[test]
fn mappings_may_come_and_go_with_each_window() {
    let (mut world, id) = two_threads();
    for window in 0..40 {
        let ranges = (0..200).map(|at| range(window * 200 + at, 100 * at, 50));
        world.sharing.maps = vec![maps(ranges.collect())];
        let at = 100 * (window % 200);
        for _ in 0..10 {
            world.touch(10, at + 7, 1);
            world.touch(11, at + 7, 1);
        }
        let seen = world.window();
        assert_eq!(seen.summary().no_room, NoRoom::default(), "{window}");
        // Pages of objects that are gone are gone, too.
        assert!(seen.summary().pages <= 2, "{}", seen.summary().pages);
    }
    // Used when they were mapped, at the same addresses as others before.
    world.touch(10, 7, 10);
    world.touch(11, 7, 10);
    world.window();
    assert!(talk(&world, id) > 0);
}

#[test]
fn samples_outside_of_any_mapping_are_told_of_and_nothing_is_moved_for_them() {
    let (mut world, id) = two_threads();
    for page in 0..20 {
        world.touch(10, 1 << 30 | page << 10, 2);
    }
    let deadline = world.engine.deadline().unwrap();
    world.pass(deadline.since(world.now));
    let mut observation = world.observe(&[id]);
    for home in &mut observation.programs[0].homes {
        home.1 = None;
    }
    world.engine.handle_observation(world.now, &observation);
    let seen = world.settle();
    assert_eq!(seen.summary().nowhere, 20);
    assert_eq!(seen.actions, []);
    assert_eq!(world.window().summary().nowhere, 0);
}

fn summary_of(world: &mut World, addresses: &[u64]) -> WindowSummary {
    for &address in addresses {
        for tid in [10, 11] {
            let mut sample = world.sample(tid, 0);
            sample.address = address;
            world.feed(sample);
        }
    }
    world.window().summary()
}

#[test]
fn addresses_have_47_bits_or_57_and_others_are_left_aside() {
    let (mut world, id) = two_threads();
    let last = [(1 << 47) - 1, (1 << 56) - 1, (1 << 57) - 1, 0];
    let summary = summary_of(&mut world, &last);
    assert_eq!((summary.pages, summary.aside), (4, 0));
    assert_eq!(talk(&world, id), 4);
    // Those of the kernel are nobody's.
    let summary = summary_of(&mut world, &[u64::MAX, 1 << 63, 0xffff_8000_0000_0000]);
    assert_eq!((summary.samples, summary.aside), (6, 6));
    assert_eq!(talk(&world, id), 0);
}

#[test]
fn an_object_that_is_mapped_a_hundred_times_is_one() {
    let (mut world, id) = two_threads();
    let ranges = (0..100).map(|at| range(1, 1000 * at, 50));
    world.sharing.maps = vec![maps(ranges.collect())];
    world.window();
    for at in 0..100 {
        world.touch(10 + u32::from(at % 2 == 1), 1000 * at + 7, 2);
    }
    let seen = world.window();
    assert_eq!(seen.summary().pages, 1);
    assert_eq!(seen.summary().no_room, NoRoom::default());
    assert!(talk(&world, id) > 0);
    // It is looked up where it was mapped first.
    let wanted = world.engine.wanted_places(id, 10);
    assert_eq!(wanted.len(), 1);
    assert_eq!((wanted[0].pid, wanted[0].address), (Pid(10), 7 * PAGE));
}

#[test]
fn pages_may_have_a_gibibyte() {
    const GIB: u64 = 1 << 30;
    let (mut world, _) = two_threads();
    let limits = EngineOptions::for_pages_of(GIB);
    world.engine = Engine::new(Arc::clone(&world.topology), limits);
    world.threads.clear();
    let (id, script) = world.attach(10, &[0, 4], options());
    for page in 0..64 {
        for _ in 0..2 {
            let mut sample = world.sample(11, 0);
            sample.address = (1 << 46) + page * GIB + 5 * PAGE;
            world.feed(sample);
        }
    }
    let room = 17;
    world.free[1].1 = room * GIB;
    let first = (1 << 46) / GIB;
    script.lock().unwrap().pages = (0..64).map(|page| (first + page, 1)).collect();
    let seen = world.window();
    assert_eq!(seen.summary().pages, 64);
    let moved: Vec<u64> = seen
        .actions
        .iter()
        .flat_map(|action| match action {
            Action::MovePages { pages, node, .. } if *node == NodeId(1) => pages.clone(),
            _ => Vec::new(),
        })
        .collect();
    assert!(moved.iter().all(|address| address % GIB == 0), "{moved:?}");
    // As many as there is memory for, with some left over.
    assert_eq!(moved.len() as u64, room - 1);
    assert_eq!(world.engine.totals(id).unwrap().pages_moved, room - 1);
}

#[test]
fn a_full_table_forgets_and_tells() {
    let (mut world, id) = two_threads();
    let slots = world.engine.options().page_slots as u64;
    for page in 0..4 * slots {
        world.touch(10, page, 1);
    }
    let summary = world.window().summary();
    assert!(u64::from(summary.pages) <= slots);
    assert_eq!(u64::from(summary.pages) + summary.pages_dropped, 4 * slots);
    assert_eq!(
        world.engine.totals(id).unwrap().pages_dropped,
        summary.pages_dropped
    );
}

#[test]
fn who_has_a_number_that_no_thread_has_takes_no_room() {
    let mut world = World::new("2x2");
    let (id, _) = world.attach(10, &[0, 2], options());
    let mut strange = world.sample(10, 7);
    strange.tid = Tid(1 << 22);
    for _ in 0..20_000 {
        world.feed(strange);
    }
    world.add_thread(id, 10, 12, 1);
    world.touch(12, 5, 3);
    world.window();
    assert_eq!(world.engine.tasks(id).len(), 3);
}
