//! Pages that are moved for several actions at once.

use numad_core::{Action, AttachmentId, Host as _, Outcome, PageOutcome, Refusal};
use topology::{NodeId, Pid};

use crate::fake::{Bench, Death, Hold, bind_action, move_action, set};
use crate::pacer::Movers;
use crate::{Durability, JournalLimits, Scope};

/// A program of 400 pages on node 0, and one of 100 on node 1.
fn bench() -> Bench {
    let bench = Bench::new();
    {
        let mut world = bench.fake.0.borrow_mut();
        world.add_process(100, 1, "0-7");
        world.add_process(200, 1, "0-7");
        world.add_pages(100, 400, 0);
        world.add_pages(200, 100, 1);
    }
    bench
}

/// Each of these pages of a program to a node.
fn action(pid: u32, pages: std::ops::Range<u64>, node: u32) -> Action {
    move_action(Pid(pid), pages.map(|page| page * 4096).collect(), node)
}

/// To both nodes and of both programs.
fn actions() -> Vec<Action> {
    vec![
        action(100, 0..100, 1),
        action(100, 100..200, 1),
        action(200, 0..100, 0),
    ]
}

fn times(outcome: &Outcome) -> (usize, u64, u64) {
    match outcome {
        Outcome::Moved {
            pages,
            spent_ns,
            took_ns,
        } => (pages.len(), *spent_ns, *took_ns),
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_goes_side_by_side_takes_its_part_of_the_time() {
    let bench = bench();
    bench.fake.0.borrow_mut().has_processors = true;
    let mut live = bench.live();
    live.movers = Movers::always(2);
    let outcomes = live.perform_all(&actions());
    let times: Vec<_> = outcomes.iter().map(times).collect();
    // Six calls, 64 pages of each action at 10 us, then 36 of each: the first mover to be done takes the next.
    let (alone, part) = (1_000_000, 546_667);
    assert!(
        times.iter().all(|&each| each == (100, alone, part)),
        "{times:?}"
    );
    assert_eq!(bench.fake.0.borrow().together_max, 2);
    assert_eq!(live.take_beside().as_micros(), 1360);
    assert_eq!(live.take_beside().as_micros(), 0);
    assert_eq!(live.take_pause_max().as_micros(), 640);
    let report = live.undo(&Scope::All);
    assert_eq!(report.pages_restored, 300);
    assert_eq!(bench.nodes(200), [1; 100]);
}

#[test]
fn what_a_call_waits_costs_time_and_no_processor() {
    let bench = bench();
    bench.fake.0.borrow_mut().call_ns = 12_000_000;
    let outcome = bench.live().perform(&action(100, 0..64, 1));
    assert_eq!(times(&outcome), (64, 640_000, 12_640_000));
}

#[test]
fn one_action_is_enough_for_several() {
    let bench = bench();
    let mut live = bench.live();
    live.movers = Movers::always(8);
    live.perform(&action(100, 0..400, 1));
    assert_eq!(bench.fake.0.borrow().together_max, 7, "batches of 64 pages");
    assert_eq!(bench.nodes(100), [1; 400]);
}

#[test]
fn how_many_go_is_learned_from_what_they_move() {
    for (has_processors, expected) in [(true, 2), (false, 1)] {
        let bench = bench();
        bench.fake.0.borrow_mut().has_processors = has_processors;
        let mut live = bench.live();
        live.move_side_by_side(2);
        assert_eq!(live.actions_at_once(), 2, "or nothing could be learned");
        for round in 0..60 {
            let node = 1 - round % 2;
            let actions = [action(100, 0..200, node), action(100, 200..400, node)];
            live.perform_all(&actions);
        }
        assert_eq!(live.movers.count(), expected);
    }
}

#[test]
fn each_action_has_its_own_fate() {
    let bench = bench();
    {
        let mut world = bench.fake.0.borrow_mut();
        world.pages.get_mut(&(Pid(100), 3 * 4096)).unwrap().hold = Hold::Busy;
        world.pages.remove(&(Pid(100), 4 * 4096));
    }
    let mut live = bench.live();
    live.movers = Movers::always(4);
    let key = bench.fake.0.borrow().tasks[&topology::Tid(100)].key;
    let outcomes = live.perform_all(&[
        action(100, 0..6, 1),
        action(300, 0..6, 1),
        action(100, 10..16, 9),
        bind_action(key, &set("0-3")),
        action(200, 0..2, 0),
    ]);
    let on = PageOutcome::On(NodeId(1));
    let Outcome::Moved { pages, .. } = &outcomes[0] else {
        panic!("{outcomes:?}");
    };
    let (busy, gone) = (Refusal::Busy, Refusal::Gone);
    let refused = [busy, gone].map(PageOutcome::Refused);
    assert_eq!(pages[..], [on, on, on, refused[0], refused[1], on]);
    assert_eq!(outcomes[1], Outcome::Refused(Refusal::Gone));
    assert_eq!(outcomes[2], Outcome::Refused(Refusal::NoSuchNode));
    assert_eq!(outcomes[3], Outcome::Bound);
    assert_eq!(times(&outcomes[4]).0, 2);
}

/// Where no page was moved yet, all are written down.
#[test]
fn memory_of_which_someone_said_where_it_is_to_be_stays() {
    let bench = bench();
    let chosen = vec![4096 * 10..4096 * 20, 4096 * 90..4096 * 300];
    bench.fake.0.borrow_mut().chosen.insert(Pid(100), chosen);
    let mut live = bench.live();
    let outcome = live.perform(&action(100, 0..100, 1));
    let Outcome::Moved { pages, .. } = outcome else {
        panic!("{outcome:?}");
    };
    for (page, outcome) in pages.iter().enumerate() {
        let expected = match page {
            10..20 | 90.. => PageOutcome::Refused(Refusal::NotAllowed),
            _ => PageOutcome::On(NodeId(1)),
        };
        assert_eq!(*outcome, expected, "{page}");
    }
    // What is there already is no matter.
    let there = live.perform(&action(100, 10..12, 0));
    assert_eq!(times(&there).0, 2);
    assert_eq!(live.undo(&Scope::All).pages_restored, 80);
}

#[test]
fn everything_is_written_down_before_the_first_page_goes() {
    let bench = bench();
    let mut live = bench.live();
    live.movers = Movers::always(2);
    bench.fake.0.borrow_mut().death = Some(Death {
        after: 0,
        applied: false,
    });
    let died = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        live.perform_all(&actions());
    }));
    assert!(died.is_err());
    drop(live);
    bench.fake.0.borrow_mut().death = None;
    assert_eq!(bench.live().journal().open_rows(), 300);
}

/// Each action has its runs, as long as there is room.
#[test]
fn what_cannot_be_written_down_does_not_go() {
    let bench = bench();
    let mut live = bench.live_with(JournalLimits {
        runs_max: 1,
        durability: Durability::Kernel,
        ..JournalLimits::default()
    });
    let outcomes = live.perform_all(&actions());
    assert_eq!(times(&outcomes[0]).0, 100);
    let full = Outcome::Refused(Refusal::JournalFull);
    assert_eq!(outcomes[1..], [full.clone(), full]);
    assert_eq!(bench.nodes(200), [1; 100]);
    // Nothing at all can be written.
    let bench = self::bench();
    let mut live = bench.live_with(JournalLimits {
        bytes_max: 10,
        durability: Durability::Kernel,
        ..JournalLimits::default()
    });
    let outcomes = live.perform_all(&[action(100, 0..50, 1), action(200, 0..50, 1)]);
    assert_eq!(outcomes[0], Outcome::Refused(Refusal::Journal));
    // Of these there is nothing to write.
    assert_eq!(times(&outcomes[1]).0, 50);
    assert!(live.take_write_error().is_some());
    assert_eq!(bench.nodes(100), [0; 400]);
}

#[test]
fn users_do_not_fill_the_journal() {
    let bench = Bench::new();
    for pid in [100, 200, 300, 400] {
        let mut world = bench.fake.0.borrow_mut();
        world.add_process(pid, 1, "0-7");
        world.add_pages(pid, 100, 0);
    }
    let mut live = bench.live_with(JournalLimits {
        runs_max: 8,
        durability: Durability::Kernel,
        ..JournalLimits::default()
    });
    // Programs of their processes' numbers; each page that is moved alone is a run.
    let of_program = |pid: u32, page: u64| {
        let mut action = action(pid, page..page + 1, 1);
        if let Action::MovePages { attachment, .. } = &mut action {
            *attachment = AttachmentId(pid);
        }
        action
    };
    for (pid, user) in [(100, 7), (200, 7), (300, 8)] {
        live.charge(AttachmentId(pid), user);
    }
    let mut moved = |pid| {
        let outcomes = (0..20).map(|page| live.perform(&of_program(pid, 2 * page)));
        let refused = |outcome: &Outcome| *outcome == Outcome::Refused(Refusal::JournalFull);
        outcomes.filter(|outcome| !refused(outcome)).count()
    };
    // Half for one user, whatever the program; three quarters for all; the rest is for root.
    assert_eq!([100, 200, 300, 400].map(&mut moved), [4, 0, 2, 2]);
    live.undo(&Scope::of(&[Pid(100)]));
    let again = live.perform(&of_program(200, 0));
    assert_eq!(times(&again).0, 1);
}

/// What leaves a full node goes first, and makes room for what comes back.
#[test]
fn pages_that_changed_places_go_back_where_no_room_is_left() {
    let bench = bench();
    let mut live = bench.live();
    live.perform_all(&[action(100, 0..100, 1), action(200, 0..100, 0)]);
    let before = {
        let mut world = bench.fake.0.borrow_mut();
        world.room.insert(NodeId(0), 400);
        world.calls
    };
    let report = live.undo(&Scope::All);
    assert_eq!(report.pages_restored, 200, "{report:?}");
    assert_eq!(bench.nodes(100), [0; 400]);
    // One is refused; then 64 and 36 of each, for it is not known yet how long they take.
    assert!(bench.fake.0.borrow().calls - before <= 6);
}

#[test]
fn a_node_that_stays_full_is_given_up() {
    let bench = bench();
    bench.fake.0.borrow_mut().has_processors = true;
    let mut live = bench.live();
    live.movers = Movers::always(8);
    live.perform(&action(100, 0..400, 1));
    let before = {
        let mut world = bench.fake.0.borrow_mut();
        world.room.insert(NodeId(0), 150);
        world.calls
    };
    let report = live.undo(&Scope::All);
    assert_eq!(report.pages_restored, 150, "{report:?}");
    assert!(report.failed[0].contains("250 pages"), "{report:?}");
    assert_eq!(live.journal().open_rows(), 250);
    // Some at once, of which one meets the end; then it is tried once more.
    let calls = bench.fake.0.borrow().calls - before;
    assert!(calls <= 8, "{calls}");
}
