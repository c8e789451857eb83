//! Threads, processes and programs coming and going.

use std::time::Duration;

use numad_core::{
    AttachError, AttachOptions, AttachSpec, EventKind, IntervalLaw, Lifecycle, Observation, Policy,
    Program, Proposal, Record, Time,
};
use topology::{Pid, StartTicks, Tid};

use crate::world::{WINDOW, World, options};

#[derive(Debug)]
struct Silent;

impl Policy for Silent {
    fn propose(&mut self, _now: Time, _program: &Program<'_>, _out: &mut Vec<Proposal>) {}
}

fn spec(pids: &[u32], options: AttachOptions) -> AttachSpec {
    let pids = pids.iter().map(|&pid| Pid(pid)).collect();
    AttachSpec {
        pids,
        policy: Box::new(Silent),
        options,
    }
}

#[test]
fn who_cannot_be_attached() {
    let mut world = World::new("2x2");
    let mut attach = |spec| world.engine.handle_attach(world.now, spec);
    let first = attach(spec(&[10, 11, 10], options())).unwrap();
    let taken = AttachError::AlreadyAttached {
        pid: Pid(11),
        to: first,
    };
    assert_eq!(attach(spec(&[9, 11], options())).unwrap_err(), taken);
    assert_eq!(
        attach(spec(&[], options())).unwrap_err(),
        AttachError::NoProcess
    );
    assert_eq!(
        attach(spec(&[0], options())).unwrap_err(),
        AttachError::NoProcess
    );
    let many: Vec<u32> = (100..5000).collect();
    assert_eq!(
        attach(spec(&many, options())).unwrap_err(),
        AttachError::TooManyProcesses
    );
    let interval = IntervalLaw::OnDeLoc {
        min: WINDOW,
        max: WINDOW,
        factor: 1.0,
    };
    let nonsense = AttachOptions {
        interval,
        ..options()
    };
    let reason = "the factor is `1`, must be above 1 and finite";
    let error = AttachError::Interval(reason.to_owned());
    assert_eq!(attach(spec(&[9], nonsense)).unwrap_err(), error);
    // Nothing of those was kept, and a number is not given twice.
    assert_eq!(world.engine.attachment_of(Pid(9)), None);
    assert_eq!(world.engine.attachment_of(Pid(100)), None);
    assert_eq!(world.engine.pids(first), [Pid(10), Pid(11)]);
    world.engine.handle_detach(world.now, first);
    let second = world
        .engine
        .handle_attach(world.now, spec(&[10], options()))
        .unwrap();
    assert!(second > first);
}

#[test]
fn communication_is_seen_between_pids_and_threads() {
    let mut world = World::new("2x4");
    let (id, _) = world.attach(10, &[0, 1, 2, 3], options());
    world.talk(10, 12, 10);
    world.talk(11, 13, 4);
    world.window();
    let (keys, live, decayed) = world.engine.matrices(id).unwrap();
    let tids: Vec<u32> = keys.iter().map(|key| key.tid.0).collect();
    assert_eq!(tids, [10, 11, 12, 13]);
    // The first access of each pair meets nobody.
    assert_eq!(live.pairs().collect::<Vec<_>>(), [(0, 2, 19), (1, 3, 7)]);
    assert_eq!(decayed.between(0, 2), 19);
    world.talk(10, 12, 10);
    world.window();
    let (_, live, decayed) = world.engine.matrices(id).unwrap();
    // Half of what was before, rounded down twice on the way.
    assert_eq!((live.between(0, 2), decayed.between(0, 2)), (20, 28));
}

#[test]
fn the_same_address_of_two_processes_is_two_pages() {
    let mut world = World::new("2x4");
    let id = world
        .engine
        .handle_attach(world.now, spec(&[10, 20], options()))
        .unwrap();
    world.add_thread(id, 10, 10, 0);
    world.add_thread(id, 20, 20, 1);
    let look = world.observe(&[id]);
    world.engine.handle_observation(world.now, &look);
    world.touch(10, 5, 2);
    world.touch(20, 5, 2);
    world.window();
    let (_, live, _) = world.engine.matrices(id).unwrap();
    assert_eq!(live.pairs().count(), 0);
    assert_eq!(world.engine.pages(id, 10).len(), 2);
    let wanted = world.engine.wanted_places(id, 10).into_iter();
    let owners: Vec<Pid> = wanted.map(|wanted| wanted.pid).collect();
    assert!(owners.contains(&Pid(10)) && owners.contains(&Pid(20)));
    world.engine.handle_detach(world.now, id);
    assert!(world.engine.wanted_places(id, 10).is_empty());
}

#[test]
fn a_number_used_again_is_another_thread() {
    let mut world = World::new("2x4");
    let (id, _) = world.attach(10, &[0, 1, 2], options());
    world.talk(10, 11, 10);
    let time = world.now;
    world.tell(Lifecycle::Exit {
        time,
        pid: Pid(10),
        tid: Tid(11),
    });
    // A straggler from before the end is still of the old one; one from after is of the new one.
    world.touch(11, 7, 1);
    world.now = world.now.after(Duration::from_millis(1));
    world.thread(11).key.start = StartTicks(999_999);
    world.thread(11).cpu_time = Duration::ZERO;
    world.talk(11, 12, 10);
    world.window();
    // Its share is not known before the second look; then it is in.
    world.talk(11, 12, 10);
    world.window();
    let (keys, live, _) = world.engine.matrices(id).unwrap();
    assert_eq!(keys[1].start, StartTicks(999_999));
    assert_eq!((live.between(0, 1), live.between(1, 2)), (0, 20));
}

#[test]
fn newborns_take_part_at_once_and_forked_processes_follow() {
    let mut world = World::new("2x4");
    let (id, script) = world.attach(10, &[0], options());
    let time = world.now;
    let fork = |pid, tid, parent| Lifecycle::Fork {
        time,
        pid: Pid(pid),
        tid: Tid(tid),
        parent: Pid(parent),
    };
    world.tell(fork(10, 11, 10));
    world.tell(fork(30, 30, 10));
    world.tell(fork(40, 40, 39));
    world.add_thread(id, 10, 11, 1);
    world.add_thread(id, 30, 30, 2);
    world.talk(10, 11, 3);
    world.window();
    assert_eq!(script.lock().unwrap().tasks, [10, 11, 30]);
    assert_eq!(world.engine.pids(id), [Pid(10), Pid(30)]);
    assert_eq!(world.engine.attachment_of(Pid(40)), None);
    // A process whose threads are gone leaves.
    world.threads.retain(|thread| thread.key.pid != Pid(30));
    world.window();
    world.window();
    assert_eq!(world.engine.pids(id), [Pid(10)]);
}

#[test]
fn a_fork_record_after_the_first_sample_is_of_the_same_thread() {
    let mut world = World::new("2x4");
    let (id, script) = world.attach(10, &[0], options());
    let born = world.now;
    world.pass(Duration::from_millis(1));
    world.add_thread(id, 10, 11, 1);
    world.talk(10, 11, 5);
    world.tell(Lifecycle::Fork {
        time: born,
        pid: Pid(10),
        tid: Tid(11),
        parent: Pid(10),
    });
    world.window();
    assert_eq!(script.lock().unwrap().tasks, [10, 11]);
    assert_eq!(world.engine.matrices(id).unwrap().1.between(0, 1), 9);
}

#[test]
fn exec_voids_all_addresses() {
    let mut world = World::new("2x4");
    let (id, _) = world.attach(10, &[0, 1], options());
    world.talk(10, 11, 10);
    let old = world.engine.wanted_places(id, 1)[0].page;
    let name = "other".to_owned();
    let time = world.now;
    world.tell(Lifecycle::Renamed {
        time,
        pid: Pid(10),
        tid: Tid(10),
        name,
        exec: true,
    });
    world.touch(10, 1, 3);
    let new = world.engine.wanted_places(id, 10);
    assert_eq!(new.len(), 1, "pages of the old space have no name any more");
    assert_ne!(new[0].page.space, old.space);
    assert_eq!(new[0].pid, Pid(10));
    world.window();
    assert_eq!(world.engine.matrices(id).unwrap().1.pairs().count(), 0);
}

#[test]
fn a_program_ends_when_its_last_thread_is_gone() {
    let mut world = World::new("2x4");
    let (id, _) = world.attach(10, &[0], options());
    world.threads.clear();
    let seen = world.window();
    assert!(
        seen.events
            .iter()
            .any(|event| event.kind == EventKind::ProgramEnded)
    );
    assert_eq!(
        (world.engine.deadline(), world.engine.next_window(id)),
        (None, None)
    );
    assert_eq!(world.engine.attachments(), [id], "until it is detached");
    assert!(world.engine.tasks(id).is_empty());
}

#[test]
fn one_that_was_not_looked_at_is_left_alone() {
    let mut world = World::new("2x4");
    let (first, _) = world.attach(10, &[0], options());
    let (second, _) = world.attach(20, &[1], options());
    world.pass(WINDOW);
    assert_eq!(world.engine.due(world.now), [first, second]);
    let look = world.observe(&[second, second]);
    world.engine.handle_observation(world.now, &look);
    assert_eq!(world.engine.due(world.now), [first]);
    assert_eq!(world.engine.totals(second).unwrap().windows, 1);
    world
        .engine
        .handle_observation(world.now, &Observation::default());
    assert_eq!(world.engine.due(world.now), [first]);
}

#[test]
fn losses_are_told_with_the_window_they_fell_into() {
    let mut world = World::new("2x4");
    world.attach(10, &[0], options());
    world.engine.handle_record(&Record::Lost(7));
    assert_eq!(world.window().summary().lost, 7);
    assert_eq!(world.window().summary().lost, 0);
}

#[test]
fn events_nobody_polls_are_dropped_and_counted() {
    let mut world = World::new("2x4");
    world.attach(10, &[0], options());
    for _ in 0..5000 {
        world.pass(WINDOW);
        let due = world.engine.due(world.now);
        let look = world.observe(&due);
        world.engine.handle_observation(world.now, &look);
    }
    assert_eq!(world.settle().events.len(), 4096);
    assert_eq!(world.engine.events_dropped(), 5000 - 4096);
}
