//! Memory that several processes of a program map is one memory.

use std::sync::{Arc, Mutex};

use numad_core::{
    Action, AttachmentId, Lifecycle, ObjectId, ObjectKind, ObservedMaps, Outcome, Reach, Sample,
    Sent, ServedBy, SharedRange, Veto,
};
use proptest::prelude::*;
use topology::{Pid, Tid};

use crate::world::{PAGE, Script, World, options};

const MEMORY: ObjectId = ObjectId {
    kind: ObjectKind::Memory,
    device: (0, 1),
    inode: 77,
};

/// Pages `first..first + count` of a process are pages of an object from `page` on.
fn range(object: ObjectId, first: u64, count: u64, page: u64) -> SharedRange {
    SharedRange {
        start: first * PAGE,
        end: (first + count) * PAGE,
        object,
        offset: page * PAGE,
    }
}

fn maps(pid: u32, ranges: &[SharedRange]) -> ObservedMaps {
    ObservedMaps {
        pid: Pid(pid),
        ranges: ranges.to_vec(),
        foreign: Vec::new(),
    }
}

/// Two processes on different nodes: 10 has the object at page 100, 20 at page 500.
fn two(object: ObjectId) -> (World, AttachmentId, Arc<Mutex<Script>>) {
    let mut world = World::new("2x4@10,20");
    let (id, script) = world.attach(10, &[0], options());
    world.add_thread(id, 20, 20, 4);
    world.sharing.maps = vec![
        maps(10, &[range(object, 100, 50, 0)]),
        maps(20, &[range(object, 500, 50, 0)]),
    ];
    look(&mut world, id);
    (world, id, script)
}

fn look(world: &mut World, id: AttachmentId) {
    let observation = world.observe(&[id]);
    world.engine.handle_observation(world.now, &observation);
}

/// What the two said to each other in the last window.
fn talk(world: &mut World, id: AttachmentId) -> u64 {
    world.window();
    let (keys, live, _) = world.engine.matrices(id).unwrap();
    let position = |pid: u32| keys.iter().position(|key| key.pid == Pid(pid));
    match (position(10), position(20)) {
        (Some(one), Some(other)) => live.between(one, other),
        _ => 0,
    }
}

fn both_use(world: &mut World, page: u64) {
    for _ in 0..10 {
        world.touch(10, 100 + page, 1);
        world.touch(20, 500 + page, 1);
    }
}

#[test]
fn two_processes_at_two_addresses_are_seen_to_share() {
    let (mut world, id, _) = two(MEMORY);
    both_use(&mut world, 7);
    // The same number in both, but of no object.
    world.touch(10, 900, 10);
    world.touch(20, 900, 10);
    assert_eq!(talk(&mut world, id), 19);
    let pages = world.engine.pages(id, 10);
    let counts: Vec<u8> = pages.iter().map(|(page, _)| page.accessor_count).collect();
    assert_eq!(counts, [2, 1, 1]);
    assert_eq!(pages[0].0.key.page, 7);
    assert_eq!(world.engine.pids(id), [Pid(10), Pid(20)]);
}

/// What an MPI library passes messages through shows in samples too. What is said there is known
/// once messages are counted, and until then by the samples alone.
#[test]
fn what_messages_tell_is_not_told_by_their_memory_again() {
    let (mut world, id, _) = two(MEMORY);
    world.sharing.carriers = vec![MEMORY];
    both_use(&mut world, 7);
    assert_eq!(talk(&mut world, id), 19);
    let sent = |messages| Sent {
        from: Pid(10),
        to: Pid(20),
        bytes: 0,
        messages,
    };
    world.engine.handle_messages(&[sent(50)]);
    world.window();
    both_use(&mut world, 7);
    world.engine.handle_messages(&[sent(50)]);
    assert_eq!(talk(&mut world, id), 100);
    // Other memory that both have still counts.
    world.sharing.carriers.clear();
    look(&mut world, id);
    both_use(&mut world, 8);
    assert_eq!(talk(&mut world, id), 19);
}

#[test]
fn other_pages_of_the_object_and_other_objects_are_not_shared() {
    let (mut world, id, _) = two(MEMORY);
    world.touch(10, 101, 10);
    world.touch(20, 502, 10);
    let other = ObjectId {
        kind: ObjectKind::SystemV,
        ..MEMORY
    };
    // A segment of System V may have the number of another object on the same device.
    world.sharing.maps = vec![maps(20, &[range(other, 500, 50, 0)])];
    look(&mut world, id);
    both_use(&mut world, 7);
    assert_eq!(talk(&mut world, id), 0);
}

#[test]
fn a_child_maps_what_its_maker_does_and_an_exec_ends_that() {
    let (mut world, id, _) = two(MEMORY);
    world.sharing.maps.clear();
    world.tell(Lifecycle::Fork {
        time: world.now,
        pid: Pid(30),
        tid: Tid(30),
        parent: Pid(10),
    });
    world.add_thread(id, 30, 30, 5);
    look(&mut world, id);
    let both = |world: &mut World| {
        for _ in 0..10 {
            world.touch(30, 107, 1);
            world.touch(20, 507, 1);
        }
        world.window();
        let (keys, live, _) = world.engine.matrices(id).unwrap();
        let position = |pid: u32| keys.iter().position(|key| key.pid == Pid(pid)).unwrap();
        live.between(position(30), position(20))
    };
    both(&mut world);
    assert!(both(&mut world) >= 19);
    world.tell(Lifecycle::Renamed {
        time: world.now,
        pid: Pid(30),
        tid: Tid(30),
        name: "other".to_owned(),
        exec: true,
    });
    assert_eq!(both(&mut world), 0);
    // Until its mappings are read again.
    world.sharing.maps = vec![maps(30, &[range(MEMORY, 107, 1, 7)])];
    look(&mut world, id);
    assert!(both(&mut world) >= 19);
}

#[test]
fn one_with_the_number_of_a_process_that_is_gone_has_nothing_of_it() {
    let (mut world, id, _) = two(MEMORY);
    world.sharing.maps.clear();
    let gone = world.threads.pop().unwrap();
    for _ in 0..3 {
        world.window();
    }
    assert_eq!(world.engine.pids(id), [Pid(10)]);
    world.threads.push(gone);
    look(&mut world, id);
    both_use(&mut world, 7);
    assert_eq!(talk(&mut world, id), 0);
}

#[test]
fn a_program_that_unmaps_everything_gives_up_the_object() {
    let (mut world, id, _) = two(MEMORY);
    both_use(&mut world, 7);
    world.window();
    let shared = world.engine.pages(id, 1)[0].0.key;
    world.sharing.maps = vec![maps(10, &[]), maps(20, &[])];
    look(&mut world, id);
    assert!(world.engine.wanted_places(id, 10).is_empty());
    world.window();
    assert!(
        world
            .engine
            .pages(id, 10)
            .iter()
            .all(|(page, _)| page.key.space != shared.space)
    );
}

fn wanted(world: &World, id: AttachmentId) -> Vec<(Pid, u64)> {
    let wanted = world.engine.wanted_places(id, 10);
    wanted
        .iter()
        .map(|wanted| (wanted.pid, wanted.address / PAGE))
        .collect()
}

#[test]
fn a_page_is_reached_through_the_process_that_used_it_and_is_there_longest() {
    let (mut world, id, script) = two(MEMORY);
    world.sharing.own = vec![MEMORY];
    script.lock().unwrap().pages = vec![(7, 1)];
    world.touch(20, 507, 1);
    assert_eq!(wanted(&world, id), [(Pid(20), 507)]);
    // The other used it last in the end, but came a window later.
    both_use(&mut world, 7);
    assert_eq!(wanted(&world, id), [(Pid(10), 107)]);
    let seen = world.window();
    let [
        Action::MovePages {
            pid,
            pages,
            reach,
            node,
            ..
        },
    ] = seen.actions.as_slice()
    else {
        panic!("{:?}", seen.actions);
    };
    assert_eq!((*pid, pages.as_slice()), (Pid(10), [107 * PAGE].as_slice()));
    assert_eq!((*reach, node.0), (Reach::Program, 1));
    // What came of it is known of the object's page.
    let moved = world.engine.pages(id, 1)[0];
    assert_eq!((moved.0.key.page, moved.1.unwrap().0), (7, 1));
    assert_eq!(world.engine.totals(id).unwrap().pages_moved, 1);
}

#[track_caller]
fn check_barred(object: ObjectId, own: &[ObjectId], alone: bool, expected: Option<Reach>) {
    let (mut world, _, script) = two(object);
    if alone {
        world.sharing.maps = vec![maps(20, &[])];
    } else {
        world.sharing.maps.clear();
    }
    world.sharing.own = own.to_vec();
    script.lock().unwrap().pages = vec![(7, 1)];
    world.touch(10, 107, 10);
    let id = world.engine.attachments()[0];
    look(&mut world, id);
    let seen = world.window();
    let reach = seen.actions.first().and_then(|action| match action {
        Action::MovePages { reach, .. } => Some(*reach),
        Action::Bind { .. } => None,
    });
    assert_eq!(reach, expected, "{object:?} {own:?}");
    let vetoed = seen.vetoes().iter().any(|(_, veto)| *veto == Veto::Shared);
    assert_eq!(vetoed, expected.is_none());
}

#[test]
fn files_and_what_others_may_map_is_not_moved() {
    let file = ObjectId {
        kind: ObjectKind::File,
        ..MEMORY
    };
    check_barred(MEMORY, &[MEMORY], false, Some(Reach::Program));
    check_barred(MEMORY, &[MEMORY], true, Some(Reach::Alone));
    check_barred(MEMORY, &[], false, None);
    check_barred(MEMORY, &[file], false, None);
    check_barred(file, &[file], false, None);
    check_barred(file, &[file], true, None);
}

#[test]
fn an_answer_that_comes_late_is_about_the_page_that_was_ordered() {
    let (mut world, id, script) = two(MEMORY);
    world.sharing.own = vec![MEMORY];
    script.lock().unwrap().pages = vec![(7, 1)];
    both_use(&mut world, 7);
    world.pass(world.engine.deadline().unwrap().since(world.now));
    let observation = world.observe(&[id]);
    world.engine.handle_observation(world.now, &observation);
    let action = world.engine.poll_action().unwrap();
    // Meanwhile the process has something else there.
    world.sharing.maps = vec![maps(20, &[range(MEMORY, 500, 50, 9)])];
    look(&mut world, id);
    let outcome = Outcome::Moved {
        pages: vec![numad_core::PageOutcome::On(topology::NodeId(1))],
        spent_ns: 1,
        took_ns: 1,
    };
    world.engine.handle_outcome(world.now, &action, &outcome);
    let pages = world.engine.pages(id, 10);
    let moved = pages.iter().find(|(page, _)| page.key.page == 7).unwrap();
    assert_eq!(moved.1.unwrap().0, 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    // Whatever is told of mappings, in whatever order, of whomever: nothing breaks, a page is asked for
    // where a process has it, and what is ordered is something that was told.
    #[test]
    fn anything_may_be_mapped_anywhere(
        steps in prop::collection::vec(
            (0u32..4, prop::collection::vec((0u64..40, 0u64..9, 0u64..3, 0u64..40), 0..5), any::<bool>(), 0u64..60),
            1..25,
        )
    ) {
        let (mut world, id, script) = two(MEMORY);
        script.lock().unwrap().pages = (0..20).map(|page| (page, 1)).collect();
        for (who, drawn, own, page) in steps {
            let ranges: Vec<SharedRange> = drawn
                .iter()
                .map(|&(first, count, inode, page)| {
                    range(ObjectId { inode, ..MEMORY }, first, count, page)
                })
                .collect();
            world.sharing.maps = vec![maps(who * 10, &ranges)];
            let owned = |inode| ObjectId { inode, ..MEMORY };
            world.sharing.own = if own { (0..3).map(owned).collect() } else { Vec::new() };
            world.touch(10, page, 3);
            world.touch(20, 60 - page, 3);
            if own && who == 2 {
                let (time, name) = (world.now, String::new());
                world.tell(Lifecycle::Renamed { time, pid: Pid(20), tid: Tid(20), name, exec: true });
            }
            for wanted in world.engine.wanted_places(id, 100) {
                prop_assert!([Pid(10), Pid(20)].contains(&wanted.pid));
                prop_assert_eq!(wanted.address % PAGE, 0);
            }
            for action in world.window().actions {
                if let Action::MovePages { pages, pid, reach, .. } = action {
                    prop_assert!([Pid(10), Pid(20)].contains(&pid));
                    prop_assert!(pages.is_sorted_by(|a, b| a < b));
                    prop_assert!(reach == Reach::Alone || own);
                }
            }
        }
    }
}

#[test]
fn what_another_cache_answered_is_told_apart_once_the_source_tells() {
    let mut world = World::new("2x4@10,20");
    let (id, script) = world.attach(10, &[0, 4, 1], options());
    look(&mut world, id);
    world.talk(10, 11, 20);
    world.window();
    assert_eq!(script.lock().unwrap().handed, None);
    for served in [ServedBy::OtherCache, ServedBy::LocalMemory] {
        for turn in 0..40 {
            let (tid, page) = match served {
                ServedBy::OtherCache => (10 + turn % 2, 500),
                _ => (10 + turn % 2 * 2, 600),
            };
            let sample = world.sample(tid, page);
            world.feed(Sample { served, ..sample });
        }
    }
    world.window();
    let seen = script.lock().unwrap();
    let handed = seen.handed.as_ref().unwrap();
    // 10 and 12 share a page as well, but memory answered them.
    assert_eq!((handed.between(0, 1), handed.between(0, 2)), (39, 0));
}
