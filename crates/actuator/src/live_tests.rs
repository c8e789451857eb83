//! What [`Live`] does case by case, against a kernel that is not there.

use std::fs;

use numad_core::{Action, Host as _, Outcome, PageOutcome, Reach, Refusal};
use topology::{NodeId, Pid, StartTicks, TaskKey, Tid};

use crate::fake::{Bench, Hold, bind, move_action, move_first, move_shared, set};
use crate::held::Held;
use crate::undo::AT_ONCE;
use crate::{Durability, Errno, JournalLimits, Scope, UndoReport};

pub(crate) fn refused(refusal: Refusal) -> Outcome {
    Outcome::Refused(refusal)
}

/// A process 100 with two threads more, one of which has a mask of its own.
pub(crate) fn bench() -> (Bench, [TaskKey; 3]) {
    let bench = Bench::new();
    let keys = {
        let mut world = bench.fake.0.borrow_mut();
        let first = world.add_process(100, 1, "0-7");
        world.add_pages(100, 100, 0);
        [
            first,
            world.add_task(100, 101, None),
            world.add_task(100, 102, Some("1-2")),
        ]
    };
    (bench, keys)
}

#[test]
fn a_bind_is_clipped_to_the_cpuset_and_undone_by_kind() {
    let (bench, keys) = bench();
    let mut live = bench.live();
    bench
        .fake
        .0
        .borrow_mut()
        .cpusets
        .insert(Pid(100), set("2-7"));
    for key in keys {
        assert_eq!(bind(&mut live, key, "0-3"), Outcome::Bound);
        assert_eq!(bench.mask(key), "2-3");
    }
    assert_eq!(live.journal().open_rows(), 3);
    let report = live.undo(&Scope::All);
    assert_eq!((report.threads_restored, report.is_complete()), (3, true));
    bench
        .fake
        .0
        .borrow_mut()
        .cpusets
        .insert(Pid(100), set("0-15"));
    // Its own was 1-2, of which the cpuset left 2 when it was read; the rest cannot be known.
    let masks = keys.map(|key| bench.mask(key));
    assert_eq!(masks, ["0-15", "0-15", "2"]);
}

#[test]
fn a_place_outside_of_the_cpuset_is_refused_before_the_call() {
    let (bench, [first, ..]) = bench();
    let mut live = bench.live();
    assert_eq!(bind(&mut live, first, "8-11"), refused(Refusal::NotAllowed));
    assert_eq!(live.journal().open_rows(), 0);
}

#[test]
fn calls_that_wait_do_not_become_many() {
    let (bench, _) = bench();
    {
        let mut world = bench.fake.0.borrow_mut();
        world.call_ns = 12_000_000;
        world.add_pages(100, 1000, 0);
    }
    let mut live = bench.live();
    move_first(&mut live, 100, 1000, 1);
    let there = bench.nodes(100).iter().filter(|&&node| node == 1).count();
    assert_eq!(there, 1000);
    // 64, then as many as take 1 ms without the wait: smaller ones would wait as long each.
    let calls = bench.fake.0.borrow().calls;
    assert_eq!(calls, 1 + (1000 - 64_u64).div_ceil(100));
}

#[test]
fn whether_a_process_lives_is_asked_of_what_holds_it_and_of_its_start() {
    let (bench, _) = bench();
    let mut live = bench.live();
    let held = live.held(Pid(100)).unwrap();
    let unheld = Held {
        hold: None,
        ..live.held(Pid(100)).unwrap()
    };
    assert_eq!((live.lives(&held), live.lives(&unheld)), (Ok(()), Ok(())));
    // Held, it is not looked at; and what holds it does not know it any more when its first thread
    // has ended.
    bench.fake.0.borrow_mut().hidden = Some(libc::EMFILE);
    let hidden = Err(Refusal::Hidden(libc::EMFILE));
    assert_eq!((live.lives(&held), live.lives(&unheld)), (Ok(()), hidden));
    bench.fake.0.borrow_mut().hidden = None;
    bench.fake.0.borrow_mut().tasks.remove(&Tid(100));
    assert_eq!((live.lives(&held), live.lives(&unheld)), (Ok(()), Ok(())));
    // Another has the number.
    let later = StartTicks(held.start.0 + 1);
    bench.fake.0.borrow_mut().starts.insert(Pid(100), later);
    let gone = Err(Refusal::Gone);
    assert_eq!((live.lives(&held), live.lives(&unheld)), (gone, gone));
    let other = live.held_since(Pid(100), held.start);
    assert!(other.hold.is_none() && live.lives(&other) == gone);
}

#[test]
fn pages_move_in_batches_and_each_has_its_fate() {
    let (bench, _) = bench();
    {
        let mut world = bench.fake.0.borrow_mut();
        for (page, hold) in [(3, Hold::Busy), (5, Hold::Shared), (8, Hold::Follows)] {
            world.pages.get_mut(&(Pid(100), page * 4096)).unwrap().hold = hold;
        }
        world.pages.remove(&(Pid(100), 6 * 4096));
        world.pages.get_mut(&(Pid(100), 7 * 4096)).unwrap().node = NodeId(1);
    }
    let mut live = bench.live();
    let Outcome::Moved {
        pages, spent_ns, ..
    } = move_first(&mut live, 100, 100, 1)
    else {
        panic!("moved");
    };
    for (page, refusal) in [(3, Refusal::Busy), (5, Refusal::Shared), (6, Refusal::Gone)] {
        assert_eq!(pages[page], PageOutcome::Refused(refusal));
    }
    assert_eq!(pages[7], PageOutcome::Stood(NodeId(1)));
    let there = pages
        .iter()
        .filter(|page| **page == PageOutcome::On(NodeId(1)));
    assert_eq!((there.count(), pages.len()), (96, 100));
    // 98 of them were tried, at 10 µs each, the first 64 in one call.
    assert_eq!(spent_ns, 980_000);
    assert_eq!(live.take_pause_max().as_micros(), 640);
    assert_eq!(live.take_pause_max().as_micros(), 0);
    // Of the two that stay nothing is to be undone, but they were written down before they were
    // tried.
    assert_eq!(live.journal().open_rows(), 98);
    let report = live.undo(&Scope::All);
    assert_eq!((report.pages_restored, report.pages_gone), (98, 0));
    assert_eq!(
        bench.nodes(100).iter().filter(|&&node| node == 1).count(),
        1
    );
}

#[test]
fn pages_that_the_program_shares_move_when_all_who_map_them_are_of_it_and_go_back() {
    let (bench, _) = bench();
    let share = |page: u64| {
        let mut world = bench.fake.0.borrow_mut();
        world.pages.get_mut(&(Pid(100), page * 4096)).unwrap().hold = Hold::Shared;
    };
    share(3);
    let mut live = bench.live();
    let pages: Vec<u64> = (0..8).map(|page| page * 4096).collect();
    let mut action = move_action(Pid(100), pages, 1);
    if let Action::MovePages { reach, .. } = &mut action {
        *reach = Reach::Program;
    }
    let Outcome::Moved { pages, .. } = live.perform(&action) else {
        panic!("moved");
    };
    assert_eq!(pages, [PageOutcome::On(NodeId(1)); 8]);
    // Another came to be shared after it was moved.
    share(5);
    let report = live.undo(&Scope::All);
    assert_eq!((report.pages_restored, report.failed), (8, vec![]));
    assert!(bench.nodes(100).iter().all(|&node| node == 0));
}

/// Two processes that share ten pages at addresses of their own, all on node 0, and a daemon that
/// moved the last eight to node 1 through the second.
fn moved_through_the_second() -> (Bench, [u64; 2]) {
    let (bench, _) = bench();
    let addresses = [0x10_0000, 0x70_0000];
    {
        let mut world = bench.fake.0.borrow_mut();
        world.add_process(200, 100, "0-7");
        world.share(100, addresses[0], 10, 0);
        world.share(200, addresses[1], 10, 0);
    }
    let pages = (2..10).map(|page| addresses[1] + page * 4096).collect();
    bench.live().perform(&move_shared(Pid(200), pages, 1));
    (bench, addresses)
}

#[test]
fn shared_memory_goes_back_though_the_process_that_it_was_moved_through_has_ended() {
    for scope in [Scope::All, Scope::of(&[Pid(100)])] {
        let (bench, [first, _]) = moved_through_the_second();
        bench.fake.0.borrow_mut().end(Pid(200));
        let on = |page: u64| {
            bench.fake.0.borrow().pages[&(Pid(100), first + page * 4096)]
                .node
                .0
        };
        assert_eq!([on(1), on(2), on(9)], [0, 1, 1]);
        let mut live = bench.live();
        let report = live.undo(&scope);
        assert_eq!(
            (report.pages_restored, report.is_complete()),
            (8, true),
            "{report:?}"
        );
        assert_eq!((report.pages_gone, report.pages_left), (0, 0));
        assert_eq!(live.journal().open_rows(), 0);
        assert!((0..10).all(|page| on(page) == 0));
    }
}

/// A page may be moved as a process's own before it is seen to be shared, and then as shared memory
/// through another, which has it elsewhere: rows of one page that have neither an address nor an
/// owner in common.
#[test]
fn a_page_that_was_moved_as_private_and_as_shared_goes_back_to_where_it_was_first() {
    let shared = |pid, address, node| move_shared(Pid(pid), vec![address], node);
    let private = |pid, address, node| {
        let mut action = move_action(Pid(pid), vec![address], node);
        if let Action::MovePages { reach, .. } = &mut action {
            *reach = Reach::Program;
        }
        action
    };
    let (one, other) = (0x10_0000, 0x70_0000);
    for moves in [
        [private(200, other, 1), shared(100, one, 0)],
        [shared(100, one, 1), private(200, other, 0)],
        [private(100, one, 1), private(200, other, 0)],
        [private(200, other, 1), private(100, one, 0)],
    ] {
        for (scope, at_once) in [
            (Scope::All, AT_ONCE),
            (Scope::of(&[Pid(100), Pid(200)]), AT_ONCE),
            // Part by part.
            (Scope::All, 1),
        ] {
            let (bench, _) = bench();
            {
                let mut world = bench.fake.0.borrow_mut();
                world.add_process(200, 100, "0-7");
                world.share(100, one, 1, 0);
                world.share(200, other, 1, 0);
            }
            let mut live = bench.live();
            live.at_once = at_once;
            for action in &moves {
                live.perform(action);
            }
            assert_eq!(live.journal().open_rows(), 2, "{moves:?}");
            let report = live.undo(&scope);
            assert!(report.is_complete(), "{report:?} of {moves:?}");
            let on = bench.fake.0.borrow().pages[&(Pid(100), one)].node;
            assert_eq!(
                (on, live.journal().open_rows()),
                (NodeId(0), 0),
                "{moves:?}"
            );
        }
    }
}

#[test]
fn shared_memory_of_others_is_left_to_their_undo() {
    let (bench, _) = moved_through_the_second();
    bench.fake.0.borrow_mut().add_process(300, 1, "0-7");
    let mut live = bench.live();
    let report = live.undo(&Scope::of(&[Pid(300)]));
    assert_eq!(
        (report, live.journal().open_rows()),
        (UndoReport::default(), 8)
    );
    assert_eq!(live.undo(&Scope::All).pages_restored, 8);
}

#[test]
fn a_page_that_nobody_has_in_use_stays_in_the_journal_until_somebody_has() {
    let (bench, [first, _]) = moved_through_the_second();
    let place = (Pid(100), first + 5 * 4096);
    let page = bench.fake.0.borrow_mut().pages.remove(&place).unwrap();
    bench.fake.0.borrow_mut().end(Pid(200));
    let mut live = bench.live();
    let report = live.undo(&Scope::All);
    assert_eq!(
        (report.pages_restored, report.pages_left),
        (7, 1),
        "{report:?}"
    );
    live.prune();
    assert_eq!(
        (report.is_complete(), live.journal().open_rows()),
        (true, 1)
    );
    bench.fake.0.borrow_mut().pages.insert(place, page);
    drop(live);
    let report = bench.live().undo(&Scope::All);
    assert_eq!((report.pages_restored, report.pages_left), (1, 0));
    assert_eq!(bench.fake.0.borrow().pages[&place].node.0, 0);
}

#[test]
fn what_nobody_maps_any_more_is_gone() {
    for prune in [false, true] {
        let (bench, _) = moved_through_the_second();
        let mut live = bench.live();
        live.prune();
        assert_eq!(live.journal().open_rows(), 8);
        bench.fake.0.borrow_mut().end(Pid(200));
        live.prune();
        assert_eq!(live.journal().open_rows(), 8);
        bench.fake.0.borrow_mut().end(Pid(100));
        if prune {
            bench.fake.0.borrow_mut().add_process(300, 1, "0-7");
            live.prune();
        } else {
            assert_eq!(live.undo(&Scope::All).pages_gone, 8);
        }
        assert_eq!(live.journal().open_rows(), 0);
    }
}

#[test]
fn a_process_that_has_something_else_there_by_now_keeps_it() {
    let (bench, _) = bench();
    let mut live = bench.live();
    let Outcome::Moved { pages, .. } = live.perform(&move_shared(Pid(100), vec![0, 4096], 1))
    else {
        panic!("moved");
    };
    assert_eq!(pages, [PageOutcome::Refused(Refusal::Gone); 2]);
    assert_eq!((bench.nodes(100)[0], live.journal().open_rows()), (0, 0));
}

/// One page of the first block on node 1, the others on node 0. Page 1 goes to node 1, then page 2
/// to node 0; everything is put back by the next daemon.
#[track_caller]
fn check_block(huge: bool, expected: [u32; 4]) {
    let (bench, _) = bench();
    {
        let mut world = bench.fake.0.borrow_mut();
        if huge {
            world.huge.push((Pid(100), 0));
        } else {
            world.pages.get_mut(&(Pid(100), 2 * 4096)).unwrap().node = NodeId(1);
        }
    }
    let mut live = bench.live();
    live.perform(&move_action(Pid(100), vec![4096], 1));
    live.perform(&move_action(Pid(100), vec![2 * 4096], 0));
    drop(live);
    let report = bench.live().undo(&Scope::All);
    assert!(
        report.is_complete() && report.pages_restored == 2,
        "{report:?}"
    );
    assert_eq!(bench.nodes(100)[..4], expected, "huge: {huge}");
}

#[test]
fn a_huge_page_that_was_moved_by_several_addresses_goes_to_where_it_was_at_first() {
    check_block(true, [0, 0, 0, 0]);
    check_block(false, [0, 0, 1, 0]);
}

#[test]
fn a_page_that_two_processes_share_goes_to_where_the_first_row_says() {
    for (shared, expected) in [(true, [0, 0, 0]), (false, [0, 1, 0])] {
        let (bench, _) = bench();
        {
            let mut world = bench.fake.0.borrow_mut();
            world.add_process(200, 100, "0-7");
            world.add_pages(200, 3, 0);
            if shared {
                world.shared.push((4096, vec![Pid(100), Pid(200)]));
            } else {
                world.pages.get_mut(&(Pid(200), 4096)).unwrap().node = NodeId(1);
            }
        }
        let mut live = bench.live();
        live.perform(&move_action(Pid(100), vec![4096], 1));
        live.perform(&move_action(Pid(200), vec![4096], 0));
        live.perform(&move_action(Pid(200), vec![2 * 4096], 1));
        drop(live);
        let report = bench.live().undo(&Scope::All);
        assert!(
            report.is_complete() && report.pages_restored == 3,
            "{report:?}"
        );
        assert_eq!(bench.nodes(200), expected, "shared: {shared}");
        assert_eq!(bench.nodes(100)[..3], [0, 0, 0], "shared: {shared}");
    }
}

/// Three processes with a page at one address, recorded in turn as on `homes`; the first shares it
/// with those of `sharers`, the others have copies of their own. Gives where the three are after an
/// undo.
#[track_caller]
fn check_three(sharers: &[u32], homes: [u32; 3], rewritten: bool) {
    let (bench, _) = bench();
    let pids = [300, 100, 200];
    {
        let mut world = bench.fake.0.borrow_mut();
        for pid in [200, 300] {
            world.add_process(pid, 100, "0-7");
            world.add_pages(pid, 2, 0);
        }
        let sharers = sharers.iter().copied().map(Pid).collect();
        world.shared.push((4096, sharers));
    }
    let mut live = bench.live();
    let mut first = None;
    for (pid, home) in pids.into_iter().zip(homes) {
        {
            let mut world = bench.fake.0.borrow_mut();
            let shared = sharers.contains(&pid);
            // What another moved is where that left it.
            if !shared || first.is_none() {
                for other in pids
                    .iter()
                    .filter(|other| **other == pid || (shared && sharers.contains(other)))
                {
                    world.pages.get_mut(&(Pid(*other), 4096)).unwrap().node = NodeId(home);
                }
            }
            assert_eq!(world.pages[&(Pid(pid), 4096)].node, NodeId(home));
            first = first.or(shared.then_some(home));
        }
        live.perform(&move_action(Pid(pid), vec![4096], 1 - home));
    }
    if rewritten {
        live.journal.rewrite().unwrap();
    }
    drop(live);
    let report = bench.live().undo(&Scope::All);
    assert!(
        report.is_complete() && report.pages_restored == 3,
        "{report:?}"
    );
    for (pid, home) in pids.into_iter().zip(homes) {
        let expected = if sharers.contains(&pid) {
            first.unwrap()
        } else {
            home
        };
        assert_eq!(
            bench.nodes(pid)[1],
            expected,
            "process {pid} of {sharers:?} from {homes:?}"
        );
    }
}

/// The page of one was copied on writing, and those of the other two are still one.
#[test]
fn a_copy_does_not_hide_that_two_others_share_a_page() {
    for rewritten in [false, true] {
        check_three(&[300, 100], [0, 1, 1], rewritten);
        check_three(&[300, 100], [0, 1, 0], rewritten);
        check_three(&[300, 200], [0, 1, 1], rewritten);
        check_three(&[100, 200], [1, 0, 1], rewritten);
        check_three(&[100, 200, 300], [0, 1, 0], rewritten);
        check_three(&[], [0, 1, 1], rewritten);
    }
}

/// What a program copies while it is undone is for a moment not where it was sent, as rows that are
/// one page. It must not have every row near it go home one by one.
#[test]
fn a_copy_made_meanwhile_is_not_taken_for_a_huge_page() {
    let (bench, _) = bench();
    for page in (1..100).step_by(2) {
        let mut world = bench.fake.0.borrow_mut();
        world.pages.get_mut(&(Pid(100), page * 4096)).unwrap().node = NodeId(1);
    }
    let before = bench.nodes(100);
    let mut live = bench.live();
    for page in 0..100 {
        let home = page % 2;
        live.perform(&move_action(
            Pid(100),
            vec![page * 4096],
            u32::from(home == 0),
        ));
    }
    bench
        .fake
        .0
        .borrow_mut()
        .pages
        .get_mut(&(Pid(100), 10 * 4096))
        .unwrap()
        .hold = Hold::Copied;
    let calls = bench.fake.0.borrow().calls;
    let report = live.undo(&Scope::All);
    assert_eq!((report.pages_restored, report.failed), (100, vec![]));
    assert_eq!(bench.nodes(100), before);
    let calls = bench.fake.0.borrow().calls - calls;
    assert!(calls <= 8, "{calls} calls");
}

#[test]
fn pages_the_kernel_tells_nothing_of_are_asked_about() {
    let (bench, _) = bench();
    let hold = |hold| {
        let mut world = bench.fake.0.borrow_mut();
        world.pages.get_mut(&(Pid(100), 10 * 4096)).unwrap().hold = hold;
    };
    hold(Hold::Stuck);
    let mut live = bench.live();
    let Outcome::Moved { pages, .. } = move_first(&mut live, 100, 64, 1) else {
        panic!("moved");
    };
    assert_eq!(pages[9], PageOutcome::On(NodeId(1)));
    assert!(
        pages[10..]
            .iter()
            .all(|page| *page == PageOutcome::Refused(Refusal::Busy))
    );
    hold(Hold::Free);
    move_first(&mut live, 100, 64, 1);
    hold(Hold::Stuck);
    let report = live.undo(&Scope::All);
    // One stays, is named, and stays in the journal; those behind it are put back in the next
    // rounds.
    assert_eq!(report.failed.len(), 1, "{report:?}");
    assert!(report.failed[0].contains("process `100`"), "{report:?}");
    assert!(live.journal().open_rows() > 0);
    hold(Hold::Free);
    drop(live);
    assert!(bench.live().undo(&Scope::All).is_complete());
    assert!(bench.nodes(100).iter().all(|&node| node == 0));
}

#[test]
fn errors_of_a_whole_call_change_nothing() {
    let (bench, [first, ..]) = bench();
    let mut live = bench.live();
    assert_eq!(
        move_first(&mut live, 100, 5, 9),
        refused(Refusal::NoSuchNode)
    );
    assert_eq!(move_first(&mut live, 999, 5, 1), refused(Refusal::Gone));
    for (errno, of_thread, of_pages) in [
        (Errno::EPERM, Refusal::NotPermitted, Refusal::NotPermitted),
        (Errno::EACCES, Refusal::NotPermitted, Refusal::NotAllowed),
        (Errno::ENOMEM, Refusal::NoMemory, Refusal::NoMemory),
    ] {
        bench.fake.0.borrow_mut().errno = Some(errno);
        assert_eq!(bind(&mut live, first, "0-3"), refused(of_thread));
        assert_eq!(move_first(&mut live, 100, 5, 1), refused(of_pages));
    }
    bench.fake.0.borrow_mut().errno = Some(Errno::EPERM);
    bench
        .fake
        .0
        .borrow_mut()
        .tasks
        .get_mut(&Tid(100))
        .unwrap()
        .mask = Some(set("0-3"));
    let report = live.undo(&Scope::All);
    assert!(report.failed[0].contains("CAP_SYS_NICE"), "{report:?}");
    assert_eq!(live.journal().open_rows(), 1);
}

#[test]
fn a_process_that_has_another_s_number_keeps_its_pages() {
    let (bench, [first, second, third]) = bench();
    let mut live = bench.live();
    move_first(&mut live, 100, 50, 1);
    let mut world = bench.fake.0.borrow_mut();
    for key in [first, second, third] {
        world.tasks.remove(&key.tid);
    }
    world.add_process(100, 1, "0-7");
    drop(world);
    assert_eq!(move_first(&mut live, 100, 50, 0), refused(Refusal::Gone));
    let report = live.undo(&Scope::All);
    assert_eq!((report.pages_gone, report.pages_restored), (50, 0));
    assert_eq!(bench.nodes(100)[0], 1);
    // After that the new one may be attached.
    assert!(matches!(
        move_first(&mut live, 100, 50, 0),
        Outcome::Moved { .. }
    ));
}

#[test]
fn a_full_journal_refuses_the_change() {
    let (bench, [first, second, _]) = bench();
    let mut live = bench.live_with(JournalLimits {
        bytes_max: 110,
        runs_max: 0,
        durability: Durability::Disk,
    });
    assert_eq!(bind(&mut live, first, "0-3"), Outcome::Bound);
    assert_eq!(bind(&mut live, second, "0-3"), refused(Refusal::Journal));
    assert_eq!(bench.mask(second), "0-7");
    assert!(
        live.take_write_error()
            .unwrap()
            .to_string()
            .contains("journal")
    );
    assert!(live.take_write_error().is_none());
    assert_eq!(
        move_first(&mut live, 100, 30, 1),
        refused(Refusal::JournalFull)
    );
    assert!(bench.nodes(100).iter().all(|&node| node == 0));
    assert_eq!(live.undo(&Scope::All).threads_restored, 1);
}

#[test]
fn pages_side_by_side_take_one_row_of_the_journal() {
    let (bench, _) = bench();
    let mut live = bench.live_with(JournalLimits {
        runs_max: 10,
        ..JournalLimits::default()
    });
    // Every third page was elsewhere.
    let scatter = |node| {
        let mut world = bench.fake.0.borrow_mut();
        for ((_, address), page) in &mut world.pages {
            if address / 4096 % 3 == 1 {
                (page.node, page.natural) = (NodeId(node), NodeId(node));
            }
        }
    };
    scatter(1);
    assert_eq!(
        move_first(&mut live, 100, 45, 1),
        refused(Refusal::JournalFull)
    );
    scatter(0);
    let moved = move_first(&mut live, 100, 45, 1);
    assert!(matches!(moved, Outcome::Moved { .. }), "{moved:?}");
    let records = live.journal().records();
    assert_eq!((records.page_count(), records.page_runs()), (45, 1));
    assert_eq!(live.undo(&Scope::All).pages_restored, 45);
}

#[test]
fn pruning_forgets_processes_that_ended_and_no_others() {
    let (bench, [first, second, _]) = bench();
    let other = bench.fake.0.borrow_mut().add_process(200, 1, "0-7");
    bench.fake.0.borrow_mut().add_pages(200, 10, 0);
    let mut live = bench.live();
    for key in [first, second, other] {
        bind(&mut live, key, "0-3");
    }
    move_first(&mut live, 200, 10, 1);
    bench.fake.0.borrow_mut().tasks.remove(&Tid(101));
    live.prune();
    // The one that lives has the same from us as the one that ended, and stands for it.
    assert_eq!(live.journal().open_rows(), 12);
    bench.fake.0.borrow_mut().tasks.remove(&Tid(200));
    live.prune();
    assert_eq!(live.journal().open_rows(), 2);
}

#[test]
fn a_second_mask_never_replaces_the_first_original() {
    let (bench, [_, _, third]) = bench();
    let mut live = bench.live();
    for mask in ["0-3", "4-7", "0-3", "5"] {
        assert_eq!(bind(&mut live, third, mask), Outcome::Bound);
    }
    drop(live);
    let text = fs::read_to_string(bench.directory.join("journal")).unwrap();
    assert_eq!(text.lines().count(), 5, "{text}");
    let mut live = bench.live();
    live.undo(&Scope::All);
    assert_eq!(bench.mask(third), "1-2");
    assert_eq!(third.start, StartTicks(3));
}

/// How long our own part of an undo takes is printed, not judged; what the kernel takes is not in
/// it.
#[test]
fn an_undo_of_64_threads_and_10240_pages_is_complete() {
    let bench = Bench::new();
    let keys: Vec<TaskKey> = {
        let mut world = bench.fake.0.borrow_mut();
        let first = world.add_process(100, 1, "0-7");
        world.add_pages(100, 10_240, 0);
        let others = (101..164).map(|tid| world.add_task(100, tid, Some("1-2")));
        std::iter::once(first).chain(others).collect()
    };
    let mut live = bench.live();
    for key in keys {
        assert_eq!(bind(&mut live, key, "0-3"), Outcome::Bound);
    }
    for batch in 0..20 {
        let pages = (batch * 512..(batch + 1) * 512)
            .map(|page| page * 4096)
            .collect();
        live.perform(&move_action(Pid(100), pages, 1));
    }
    drop(live);
    assert!(bench.nodes(100).iter().all(|&node| node == 1));
    let begin = std::time::Instant::now();
    let mut live = bench.live();
    let report = live.undo(&Scope::All);
    println!(
        "undo of 64 threads and 10,240 pages took {:?}",
        begin.elapsed()
    );
    assert_eq!(
        (report.threads_restored, report.pages_restored),
        (64, 10_240)
    );
    assert!(bench.nodes(100).iter().all(|&node| node == 0));
}
