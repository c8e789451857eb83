//! What undo does with threads, case by case, against a kernel that is not there.

use std::collections::BTreeMap;

use numad_core::{AttachmentId, Host as _, Outcome, Refusal};
use topology::{Pid, StartTicks, TaskKey, Tid};

use crate::fake::{Bench, Fake, FakeTask, bind, bind_other, move_first, move_shared, set};
use crate::live_tests::{bench, refused};
use crate::{Errno, Live, ProcessKey, Scope, UndoReport};

#[test]
fn the_gone_and_those_who_have_their_numbers_are_not_touched() {
    let (bench, [first, second, _]) = bench();
    let mut live = bench.live();
    assert_eq!(bind(&mut live, second, "0-3"), Outcome::Bound);
    assert_eq!(bind(&mut live, first, "0-3"), Outcome::Bound);
    let mut world = bench.fake.0.borrow_mut();
    world.tasks.remove(&Tid(101));
    world.tasks.remove(&Tid(100));
    world.now += 10;
    let heir = world.add_task(100, 100, Some("0-3"));
    drop(world);
    assert_eq!(bind(&mut live, second, "4-7"), refused(Refusal::Gone));
    assert_eq!(bind(&mut live, first, "4-7"), refused(Refusal::Gone));
    let report = live.undo(&Scope::of(&[Pid(100)]));
    assert_eq!((report.threads_gone, report.threads_restored), (2, 1));
    // It began later with a mask of ours, so that it is taken for one made by a bound thread.
    assert_eq!(bench.mask(heir), "0-7");
}

#[test]
fn what_someone_else_changed_is_left_alone() {
    let (bench, [first, second, third]) = bench();
    let mut live = bench.live();
    for key in [first, second, third] {
        bind(&mut live, key, "0-3");
    }
    bench
        .fake
        .0
        .borrow_mut()
        .tasks
        .get_mut(&Tid(101))
        .unwrap()
        .mask = Some(set("6"));
    assert_eq!(
        bind(&mut live, second, "4-7"),
        refused(Refusal::ChangedByOther)
    );
    let report = live.undo(&Scope::All);
    assert_eq!((report.threads_restored, report.threads_left), (2, 1));
    assert_eq!(bench.mask(second), "6");
    assert_eq!(live.undo(&Scope::All), UndoReport::default());
}

/// All bound threads have ended, and one of them was in the midst of making another: nothing is found at first.
#[test]
fn a_thread_that_is_being_made_by_one_that_ended_is_waited_for() {
    let (bench, [_, second, _]) = bench();
    let mut live = bench.live();
    assert_eq!(bind(&mut live, second, "0-3"), Outcome::Bound);
    let born = {
        let mut world = bench.fake.0.borrow_mut();
        let key = world.spawn(Tid(101), 100, 104);
        let unborn = world.tasks.remove(&Tid(104)).unwrap();
        world.unborn.push(unborn);
        world.tasks.remove(&Tid(101));
        key
    };
    let report = live.undo(&Scope::All);
    assert_eq!((report.threads_restored, report.threads_gone), (1, 1));
    assert_eq!(bench.mask(born), "0-7", "{report:?}");
}

/// The row of a thread that goes on as the first by exec is written with what that thread had, not with our own mask.
#[test]
fn a_thread_that_is_the_first_by_exec_is_bound_again() {
    for own in [None, Some("1-2")] {
        let bench = Bench::new();
        {
            let mut world = bench.fake.0.borrow_mut();
            world.add_process(100, 1, "0-7");
            for tid in [101, 102] {
                world.add_task(100, tid, own);
            }
            // Bound long after they were made.
            world.now += 10;
        }
        let key = |tid| bench.fake.0.borrow().tasks[&Tid(tid)].key;
        let mut live = bench.live();
        for tid in [101, 102] {
            assert_eq!(bind(&mut live, key(tid), "0-3"), Outcome::Bound);
        }
        bench.fake.0.borrow_mut().exec(Tid(102));
        assert_eq!(bind(&mut live, key(100), "0-3"), Outcome::Bound);
        let report = live.undo(&Scope::All);
        assert!(report.is_complete(), "{report:?}");
        let natural = if own.is_none() { "0-7" } else { "1-2" };
        assert_eq!(bench.mask(key(100)), natural, "{report:?}");
    }
}

#[test]
fn a_cpuset_that_clipped_or_emptied_our_mask_is_not_someone_else() {
    let (bench, [first, second, third]) = bench();
    let mut live = bench.live();
    for key in [first, second, third] {
        bind(&mut live, key, "0-3");
    }
    bench
        .fake
        .0
        .borrow_mut()
        .cpusets
        .insert(Pid(100), set("4-7"));
    assert_eq!(bench.mask(first), "4-7");
    let report = live.undo(&Scope::All);
    assert_eq!(
        (report.threads_restored, report.threads_parked),
        (2, 1),
        "{report:?}"
    );
    // 1-2 cannot be given back in there; the thread has the cpuset, as it would without us.
    assert_eq!(bench.mask(third), "4-7");
}

#[test]
fn a_mask_outside_of_the_cpuset_is_put_back_as_soon_as_that_is_possible() {
    for restart in [false, true] {
        let (bench, [_, _, third]) = bench();
        let cpuset = |text| {
            bench
                .fake
                .0
                .borrow_mut()
                .cpusets
                .insert(Pid(100), set(text))
        };
        let mut live = bench.live();
        bind(&mut live, third, "4-7");
        cpuset("4-7");
        for _ in 0..2 {
            assert_eq!(live.undo(&Scope::All).threads_parked, 1);
            live.prune();
            assert_eq!(live.journal().open_rows(), 1);
        }
        if restart {
            drop(live);
            live = bench.live();
            assert_eq!(live.undo(&Scope::All).threads_parked, 1);
        }
        cpuset("0-7");
        assert_eq!(bench.mask(third), "0-7");
        live.prune();
        let contents = live.journal().contents();
        assert_eq!(
            (bench.mask(third), contents.processes),
            ("1-2".into(), vec![])
        );
    }
}

#[test]
fn a_parked_thread_that_someone_binds_meanwhile_is_left_alone() {
    let (bench, [_, _, third]) = bench();
    let mut live = bench.live();
    bind(&mut live, third, "4-7");
    bench
        .fake
        .0
        .borrow_mut()
        .cpusets
        .insert(Pid(100), set("4-7"));
    live.undo(&Scope::All);
    bench
        .fake
        .0
        .borrow_mut()
        .tasks
        .get_mut(&Tid(102))
        .unwrap()
        .mask = Some(set("6"));
    bench
        .fake
        .0
        .borrow_mut()
        .cpusets
        .insert(Pid(100), set("0-7"));
    live.prune();
    assert_eq!(
        (bench.mask(third), live.journal().open_rows()),
        ("6".into(), 0)
    );
}

#[test]
fn a_newborn_without_a_row_is_parked_like_any_other() {
    let (bench, [_, _, third]) = bench();
    let mut live = bench.live();
    bind(&mut live, third, "4-7");
    let newborn = bench.fake.0.borrow_mut().spawn(Tid(102), 100, 103);
    bench
        .fake
        .0
        .borrow_mut()
        .cpusets
        .insert(Pid(100), set("3-6"));
    assert_eq!(live.undo(&Scope::All).threads_parked, 2);
    drop(live);
    bench
        .fake
        .0
        .borrow_mut()
        .cpusets
        .insert(Pid(100), set("0-7"));
    assert_eq!(bench.live().undo(&Scope::All).threads_restored, 2);
    assert_eq!([bench.mask(third), bench.mask(newborn)], ["1-2", "1-2"]);
}

#[test]
fn a_daemonised_child_that_was_bound_gets_what_its_maker_had() {
    let (bench, [_, second, third]) = bench();
    let mut live = bench.live();
    bind(&mut live, second, "0-3");
    bind(&mut live, third, "4-7");
    let (of_second, of_third) = {
        let mut world = bench.fake.0.borrow_mut();
        let first = world.spawn(Tid(101), 300, 300);
        let second = world.spawn(Tid(102), 400, 400);
        world.end(Pid(100));
        (first, second)
    };
    // Its parent has ended, and it is bound itself before the program is detached.
    assert_eq!(bind(&mut live, of_second, "4-7"), Outcome::Bound);
    assert_eq!(bind(&mut live, of_third, "0-3"), Outcome::Bound);
    live.prune();
    assert_eq!(bind(&mut live, of_second, "0-3"), Outcome::Bound);
    let named = [Pid(300), Pid(400)].map(|pid| (pid, None));
    let report = live.undo(&Scope::Program(AttachmentId(1), named.into()));
    assert_eq!(report.threads_restored, 2, "{report:?}");
    assert_eq!(
        [bench.mask(of_second), bench.mask(of_third)],
        ["0-7", "1-2"]
    );
    assert_eq!(live.journal().open_rows(), 0);
}

#[test]
fn a_daemonised_child_that_was_followed_is_found_at_the_next_start() {
    let (bench, [_, second, _]) = bench();
    let mut live = bench.live();
    bind(&mut live, second, "0-3");
    let orphan = {
        let mut world = bench.fake.0.borrow_mut();
        world.spawn(Tid(101), 300, 300);
        world.spawn(Tid(300), 400, 400)
    };
    live.follow(
        AttachmentId(1),
        &[300, 400].map(|pid| ProcessKey {
            pid: Pid(pid),
            start: bench.fake.0.borrow().starts[&Pid(pid)],
        }),
    );
    bench.fake.0.borrow_mut().end(Pid(300));
    live.prune();
    bench.fake.0.borrow_mut().end(Pid(100));
    live.prune();
    drop(live);
    let mut live = bench.live();
    live.undo(&Scope::All);
    assert_eq!(bench.mask(orphan), "0-7");
    assert_eq!(live.journal().open_rows(), 0);
}

#[test]
fn what_cannot_be_looked_at_is_not_taken_for_gone() {
    let (bench, [first, second, _]) = bench();
    let mut live = bench.live();
    bind(&mut live, first, "0-3");
    bind(&mut live, second, "4-7");
    move_first(&mut live, 100, 10, 1);
    let object = |live: &mut Live<Fake, Fake>| {
        bench.fake.0.borrow_mut().share(100, 0x10_0000, 4, 0);
        live.perform(&move_shared(Pid(100), vec![0x10_0000], 1));
    };
    object(&mut live);
    bench.fake.0.borrow_mut().hidden = Some(libc::EMFILE);
    live.prune();
    for scope in [Scope::All, Scope::of(&[Pid(100)])] {
        let report = live.undo(&scope);
        assert!(
            report.failed[0].contains("limit of open files"),
            "{report:?}"
        );
        assert_eq!((report.threads_gone, report.pages_gone), (0, 0));
        assert_eq!(live.journal().open_rows(), 13);
    }
    drop(live);
    assert!(!bench.live().undo(&Scope::All).is_complete());
    assert_eq!(
        bind(&mut bench.live(), first, "4-7"),
        refused(Refusal::Hidden(libc::EMFILE))
    );
    bench.fake.0.borrow_mut().hidden = None;
    let mut live = bench.live();
    let report = live.undo(&Scope::All);
    assert_eq!(
        (report.threads_restored, report.pages_restored),
        (2, 11),
        "{report:?}"
    );
    assert_eq!(live.journal().open_rows(), 0);
}

#[test]
fn threads_are_put_back_although_the_lowest_has_just_ended() {
    let (bench, [_, second, _]) = bench();
    let mut live = bench.live();
    bind(&mut live, second, "0-3");
    let newborn = bench.fake.0.borrow_mut().spawn(Tid(101), 100, 103);
    bench.fake.0.borrow_mut().ghosts.insert((Pid(100), Tid(50)));
    let report = live.undo(&Scope::All);
    assert_eq!(report.threads_restored, 2, "{report:?}");
    assert_eq!(bench.mask(newborn), "0-7");
}

#[test]
fn a_newborn_that_was_about_to_be_bound_is_ours() {
    let (bench, [_, second, _]) = bench();
    let mut live = bench.live();
    bind(&mut live, second, "0-3");
    let newborn = bench.fake.0.borrow_mut().spawn(Tid(101), 100, 103);
    // The row is written, and we die before the call.
    bench.fake.0.borrow_mut().errno = Some(Errno::EPERM);
    assert_eq!(
        bind(&mut live, newborn, "4-7"),
        refused(Refusal::NotPermitted)
    );
    bench.fake.0.borrow_mut().errno = None;
    drop(live);
    let report = bench.live().undo(&Scope::All);
    assert_eq!((report.threads_restored, report.threads_left), (2, 0));
    assert_eq!(bench.mask(newborn), "0-7");
}

#[test]
fn a_thread_that_is_not_the_first_and_calls_exec_gets_its_own_back() {
    for first_is_bound in [false, true] {
        let (bench, [first, _, third]) = bench();
        let mut live = bench.live();
        if first_is_bound {
            bind(&mut live, first, "4-7");
        }
        bind(&mut live, third, "0-3");
        bench.fake.0.borrow_mut().exec(Tid(102));
        assert_eq!(bench.mask(first), "0-3");
        let report = live.undo(&Scope::All);
        assert_eq!(
            (report.threads_restored, report.threads_left),
            (1, 0),
            "{report:?}"
        );
        assert_eq!(
            bench.mask(first),
            if first_is_bound { "0-7" } else { "1-2" }
        );
    }
}

#[test]
fn a_first_thread_with_the_mask_of_one_that_ended_has_it_from_itself() {
    let bench = Bench::new();
    let (first, second, third) = {
        let mut world = bench.fake.0.borrow_mut();
        let first = world.add_process(100, 1, "0-7");
        world.tasks.get_mut(&Tid(100)).unwrap().mask = Some(set("0-3"));
        (
            first,
            world.add_task(100, 101, Some("4-5")),
            world.add_task(100, 102, Some("4-5")),
        )
    };
    let mut live = bench.live();
    bind(&mut live, second, "0-3");
    bind(&mut live, third, "0-3");
    bench.fake.0.borrow_mut().tasks.remove(&Tid(102));
    live.undo(&Scope::All);
    assert_eq!([bench.mask(first), bench.mask(second)], ["0-3", "4-5"]);
}

/// A stranger that gets the number 101 after so many looks, with a mask of its own.
fn heir(bench: &Bench, looks: u32) -> TaskKey {
    let mut world = bench.fake.0.borrow_mut();
    let other = world.add_process(900, 1, "0-7");
    let key = TaskKey {
        tid: Tid(101),
        start: StartTicks(other.start.0 + 1),
        ..other
    };
    let task = FakeTask {
        key,
        mask: Some(set("6")),
        natural: Some(set("6")),
        newborn: false,
    };
    world.heir = Some((looks, task));
    key
}

#[test]
fn a_stranger_that_gets_the_number_meanwhile_keeps_its_mask() {
    for looks in 0..5 {
        let (bench, [_, second, _]) = bench();
        let mut live = bench.live();
        let stranger = heir(&bench, looks);
        let outcome = bind(&mut live, second, "0-3");
        // In the moment of the call nobody can see it come: it gets what was read last.
        let expected = if looks == 2 { "0-7" } else { "6" };
        if bench.fake.0.borrow().heir.is_none() {
            assert_eq!(bench.mask(stranger), expected, "{looks}: {outcome:?}");
            assert!(
                matches!(outcome, Outcome::Refused(_)),
                "{looks}: {outcome:?}"
            );
        }
        live.undo(&Scope::All);
        if bench.fake.0.borrow().heir.is_none() && looks != 2 {
            assert_eq!(bench.mask(stranger), "6", "{looks}");
        }
    }
}

#[test]
fn a_mask_that_someone_sets_while_the_journal_is_written_stays() {
    let (bench, [_, second, _]) = bench();
    let mut live = bench.live();
    let mut task = bench.fake.0.borrow().tasks[&Tid(101)].clone();
    task.mask = Some(set("6"));
    bench.fake.0.borrow_mut().heir = Some((1, task));
    assert_eq!(
        bind(&mut live, second, "0-3"),
        refused(Refusal::ChangedByOther)
    );
    assert_eq!(bench.mask(second), "6");
    assert_eq!(live.undo(&Scope::All).threads_left, 1);
    assert_eq!(bench.mask(second), "6");
}

#[test]
fn a_process_with_the_number_of_one_that_ended_is_not_looked_through() {
    let (bench, [_, second, _]) = bench();
    let mut live = bench.live();
    bind(&mut live, second, "0-3");
    let stranger = {
        let mut world = bench.fake.0.borrow_mut();
        world.end(Pid(100));
        world.add_process(100, 1, "0-7");
        world.add_task(100, 105, Some("0-3"))
    };
    let known = Scope::Processes([(Pid(100), Some(StartTicks(1)))].into());
    for scope in [known, Scope::All] {
        live.undo(&scope);
        assert_eq!(bench.mask(stranger), "0-3");
    }
    assert_eq!(live.journal().open_rows(), 0);
}

#[test]
fn threads_and_children_of_bound_threads_get_what_their_makers_had() {
    let (bench, [first, second, third]) = bench();
    let mut live = bench.live();
    bind(&mut live, second, "0-3");
    bind(&mut live, third, "4-7");
    let mut world = bench.fake.0.borrow_mut();
    let of_second = world.spawn(Tid(101), 100, 103);
    let of_third = world.spawn(Tid(102), 100, 104);
    let child = world.spawn(Tid(102), 300, 300);
    let grandchild = world.spawn(Tid(300), 301, 301);
    let of_first = world.spawn(Tid(100), 100, 105);
    drop(world);
    assert_eq!(bench.mask(grandchild), "4-7");
    // One that is bound later has its maker's original in the journal, not our mask.
    assert_eq!(bind(&mut live, of_third, "0-3"), Outcome::Bound);
    let report = live.undo(&Scope::All);
    assert_eq!(report.threads_restored, 6, "{report:?}");
    for (key, mask) in [
        (first, "0-7"),
        (second, "0-7"),
        (of_second, "0-7"),
        (of_third, "1-2"),
        (child, "1-2"),
        (grandchild, "1-2"),
        (of_first, "0-7"),
    ] {
        assert_eq!(bench.mask(key), mask, "{key}");
    }
}

#[test]
fn an_orphan_is_found_when_it_is_named() {
    let (bench, [_, second, _]) = bench();
    let mut live = bench.live();
    bind(&mut live, second, "0-3");
    let mut world = bench.fake.0.borrow_mut();
    let orphan = world.spawn(Tid(101), 300, 300);
    world.parents.insert(Pid(300), Pid(1));
    drop(world);
    live.undo(&Scope::of(&[Pid(100), Pid(300)]));
    assert_eq!(bench.mask(orphan), "0-7");
}

#[test]
fn an_older_thread_with_the_same_mask_has_it_from_itself() {
    let (bench, [first, ..]) = bench();
    let other = bench.fake.0.borrow_mut().add_task(100, 106, Some("0-3"));
    bench.fake.0.borrow_mut().now += 1;
    let mut live = bench.live();
    bind(&mut live, first, "0-3");
    live.undo(&Scope::All);
    assert_eq!(bench.mask(other), "0-3");
}

#[test]
fn another_program_s_processes_are_not_undone_with_a_parent_s() {
    let (bench, [first, ..]) = bench();
    let child = bench.fake.0.borrow_mut().add_process(300, 100, "0-7");
    let mut live = bench.live();
    bind(&mut live, first, "0-3");
    bind_other(&mut live, child, "4-7");
    live.undo(&Scope::of(&[Pid(100)]));
    assert_eq!(
        (bench.mask(first), bench.mask(child)),
        ("0-7".into(), "4-7".into())
    );
    assert_eq!(live.journal().open_rows(), 1);
}

#[test]
fn a_thread_that_is_just_being_made_is_found() {
    let (bench, [_, second, _]) = bench();
    let mut live = bench.live();
    bind(&mut live, second, "0-3");
    let (seen, unseen) = {
        let mut world = bench.fake.0.borrow_mut();
        let seen = world.spawn(Tid(101), 100, 103);
        let unseen = world.spawn(Tid(101), 100, 104);
        let unborn = world.tasks.remove(&Tid(104)).unwrap();
        world.unborn.push(unborn);
        (seen, unseen)
    };
    live.undo(&Scope::All);
    assert_eq!([bench.mask(seen), bench.mask(unseen)], ["0-7", "0-7"]);
}

#[test]
fn a_thread_that_becomes_the_first_in_the_midst_of_an_undo_is_put_back() {
    for looks in 0..8 {
        let (bench, [first, second, third]) = bench();
        let mut live = bench.live();
        for key in [first, second, third] {
            bind(&mut live, key, "0-3");
        }
        {
            let mut world = bench.fake.0.borrow_mut();
            let mut task = world.tasks[&Tid(102)].clone();
            task.key = first;
            world.heir = Some((looks, task));
        }
        live.undo(&Scope::All);
        // What the first thread had, or the one that is the first by now: which of them it is nobody can tell.
        let mask = bench.mask(first);
        assert!(["0-7", "1-2"].contains(&mask.as_str()), "{looks}: {mask}");
    }
}

#[test]
fn a_mask_that_cannot_be_read_is_not_someone_else_s() {
    let (bench, [_, second, _]) = bench();
    let mut live = bench.live();
    bind(&mut live, second, "0-3");
    bench.fake.0.borrow_mut().masks_hidden = Some(Errno::EPERM);
    let report = live.undo(&Scope::All);
    assert_eq!((report.threads_left, report.is_complete()), (0, false));
    assert_eq!(live.journal().open_rows(), 1);
    bench.fake.0.borrow_mut().masks_hidden = None;
    assert_eq!(live.undo(&Scope::All).threads_restored, 1);
    assert_eq!(bench.mask(second), "0-7");
}

/// The journal knows nothing of it, and who made it has ended.
#[test]
fn who_leaves_a_program_gets_what_its_maker_had_and_is_not_touched_again() {
    let (bench, [first, second, _]) = bench();
    let mut live = bench.live();
    bind(&mut live, first, "0-3");
    bind(&mut live, second, "0-3");
    let leaver = {
        let mut world = bench.fake.0.borrow_mut();
        world.spawn(Tid(101), 300, 300);
        let leaver = world.spawn(Tid(300), 400, 400);
        world.end(Pid(300));
        leaver
    };
    let leavers = [(Pid(400), Some(leaver.start))].into();
    let report = live.undo(&Scope::Leavers(AttachmentId(1), leavers));
    assert_eq!((report.threads_restored, report.is_complete()), (1, true));
    assert_eq!([bench.mask(leaver), bench.mask(first)], ["0-7", "0-3"]);
    // What it has from now on is its own.
    bench
        .fake
        .0
        .borrow_mut()
        .tasks
        .get_mut(&Tid(400))
        .unwrap()
        .mask = Some(set("0-3"));
    live.undo(&Scope::Program(AttachmentId(1), [(Pid(100), None)].into()));
    assert_eq!([bench.mask(leaver), bench.mask(first)], ["0-3", "0-7"]);
}

/// The same of one that had joined, as the journal says.
#[test]
fn who_has_left_is_not_brought_back_with_its_program() {
    let (bench, [first, ..]) = bench();
    let mut live = bench.live();
    bind(&mut live, first, "0-3");
    let leaver = bench.fake.0.borrow_mut().spawn(Tid(100), 400, 400);
    let start = leaver.start;
    live.follow(
        AttachmentId(1),
        &[ProcessKey {
            pid: Pid(400),
            start,
        }],
    );
    bench.fake.0.borrow_mut().parents.insert(Pid(400), Pid(1));
    let leavers = [(Pid(400), Some(start))].into();
    live.undo(&Scope::Leavers(AttachmentId(1), leavers));
    assert_eq!(bench.mask(leaver), "0-7");
    bench
        .fake
        .0
        .borrow_mut()
        .tasks
        .get_mut(&Tid(400))
        .unwrap()
        .mask = Some(set("0-3"));
    live.undo(&Scope::Program(AttachmentId(1), [(Pid(100), None)].into()));
    assert_eq!([bench.mask(leaver), bench.mask(first)], ["0-3", "0-7"]);
}

/// It has ended since it was listed, and a stranger has its number, with the same mask by its own wish.
#[test]
fn who_has_the_number_of_a_listed_process_is_not_touched() {
    let (bench, [first, ..]) = bench();
    let mut live = bench.live();
    bind(&mut live, first, "0-3");
    bench.fake.0.borrow_mut().spawn(Tid(100), 400, 400);
    let mut calls = 0;
    live.undo_breathing(&Scope::of(&[Pid(100)]), &mut || {
        calls += 1;
        if calls == 1 {
            let mut world = bench.fake.0.borrow_mut();
            world.end(Pid(400));
            world.add_process(400, 1, "0-7");
            world.tasks.get_mut(&Tid(400)).unwrap().mask = Some(set("0-3"));
        }
    });
    assert!(calls > 1);
    assert_eq!(bench.mask(first), "0-7");
    let stranger = bench.fake.0.borrow().tasks[&Tid(400)].key;
    assert_eq!(bench.mask(stranger), "0-3");
}

/// An undo while something in the program makes threads as fast as they are put back. Gives the
/// number of the next.
fn undo_without_end(bench: &Bench, live: &mut Live<Fake, Fake>, scope: &Scope) -> u32 {
    let mut next = 200;
    let report = live.undo_breathing(scope, &mut || {
        let mut world = bench.fake.0.borrow_mut();
        world.add_task(100, next, Some("0-3"));
        world.pass(std::time::Duration::from_millis(700));
        next += 1;
    });
    assert!(!report.is_complete() && live.is_unfinished(), "{report:?}");
    next
}

#[test]
fn an_undo_that_finds_no_end_goes_on_later() {
    let (bench, [first, ..]) = bench();
    let mut live = bench.live();
    bind(&mut live, first, "0-3");
    let next = undo_without_end(&bench, &mut live, &Scope::of(&[Pid(100)]));
    assert!((203..206).contains(&next), "{next}");
    // Its rows stay, or a next start would not know what threads had.
    assert_eq!(live.journal().open_rows(), 1);
    bench.fake.0.borrow_mut().add_task(100, next, Some("0-3"));
    let report = live.undo_more(&mut || {}).unwrap();
    assert!(report.is_complete() && !live.is_unfinished(), "{report:?}");
    assert_eq!(live.journal().open_rows(), 0);
    let tasks = bench.fake.0.borrow().tasks.clone();
    for task in tasks.values().filter(|task| task.key.tid.0 >= 200) {
        assert_eq!(bench.mask(task.key), "0-7", "{}", task.key);
    }
    assert_eq!(live.undo_more(&mut || {}), None);
}

/// What is attached after an undo that goes on is no part of it.
#[test]
fn an_undo_that_goes_on_leaves_alone_what_was_bound_since() {
    for scope in [Scope::All, Scope::of(&[Pid(100)])] {
        let (bench, [first, ..]) = bench();
        let other = bench.fake.0.borrow_mut().add_process(500, 1, "0-7");
        let mut live = bench.live();
        bind(&mut live, first, "0-3");
        let next = undo_without_end(&bench, &mut live, &scope);
        let left = bench.fake.0.borrow_mut().add_task(100, next, Some("0-3"));
        live.balance().unwrap();
        bind_other(&mut live, other, "4-7");
        assert!(live.undo_more(&mut || {}).unwrap().is_complete());
        let masks = [left, other].map(|key| bench.mask(key));
        assert_eq!(masks, ["0-7", "4-7"], "{scope:?}");
        assert!(live.journal.records().balancing().is_some(), "{scope:?}");
        // The same process again.
        bind(&mut live, first, "0-3");
        let next = undo_without_end(&bench, &mut live, &scope);
        let left = bench.fake.0.borrow_mut().add_task(100, next, Some("0-3"));
        bind_other(&mut live, first, "2-3");
        live.undo_more(&mut || {});
        assert_eq!(bench.mask(first), "2-3", "{scope:?}");
        let all = BTreeMap::from([(Pid(100), None)]);
        assert!(
            live.undo(&Scope::Program(AttachmentId(2), all))
                .is_complete()
        );
        let masks = [first, left].map(|key| bench.mask(key));
        assert_eq!(masks, ["0-7", "0-7"], "{scope:?}");
    }
}

/// Looking for threads takes long on a machine that is slow or busy, and nothing makes any.
#[test]
fn an_undo_that_takes_long_and_finds_an_end_is_done() {
    let (bench, [first, ..]) = bench();
    let mut live = bench.live();
    bind(&mut live, first, "0-3");
    let report = live.undo_breathing(&Scope::of(&[Pid(100)]), &mut || {
        let world = bench.fake.0.borrow_mut();
        world.pass(std::time::Duration::from_secs(3));
    });
    assert!(report.is_complete() && !live.is_unfinished(), "{report:?}");
    assert_eq!(
        (bench.mask(first), live.journal().open_rows()),
        ("0-7".to_owned(), 0)
    );
}

/// As on a machine with one node: what a thread is bound to is all that it had.
#[test]
fn who_makes_threads_without_end_that_have_their_own_mask_is_put_back_at_once() {
    let (bench, [first, ..]) = bench();
    let mut live = bench.live();
    bind(&mut live, first, "0-7");
    let mut next = 200;
    let report = live.undo_breathing(&Scope::of(&[Pid(100)]), &mut || {
        let mut world = bench.fake.0.borrow_mut();
        world.add_task(100, next, Some("0-7"));
        next += 1;
    });
    assert!(report.is_complete() && !live.is_unfinished(), "{report:?}");
    assert_eq!(live.journal().open_rows(), 0);
}

/// Its maker ended before anyone heard of it, and its program was put back before that.
#[test]
fn who_is_heard_of_after_its_program_was_put_back_is_put_back_too() {
    let (bench, [first, second, _]) = bench();
    let mut live = bench.live();
    bind(&mut live, first, "0-3");
    bind(&mut live, second, "0-3");
    let late = {
        let mut world = bench.fake.0.borrow_mut();
        world.spawn(Tid(101), 300, 300);
        let late = world.spawn(Tid(300), 400, 400);
        world.end(Pid(300));
        late
    };
    let program = AttachmentId(1);
    live.undo(&Scope::Program(program, [(Pid(100), None)].into()));
    assert_eq!([bench.mask(late), bench.mask(first)], ["0-3", "0-7"]);
    let leavers = [(Pid(400), Some(late.start))].into();
    let report = live.undo(&Scope::Leavers(program, leavers));
    assert_eq!((report.threads_restored, report.is_complete()), (1, true));
    assert_eq!(bench.mask(late), "0-7");
    assert_eq!(live.journal().open_rows(), 0);
}
