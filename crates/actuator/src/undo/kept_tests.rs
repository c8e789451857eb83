//! What undo has to leave for later, and with whom it leaves it alone.

use numad_core::{AttachmentId, Host as _, Outcome};
use topology::{NodeId, Pid, Tid};

use crate::fake::{FakePage, Hold, bind, bind_other, move_action, move_first, set};
use crate::live_tests::bench;
use crate::{ProcessKey, Scope};

#[test]
fn processors_of_its_own_that_were_offline_are_its_own_when_they_are_back() {
    let (bench, _) = bench();
    let own = bench
        .fake
        .0
        .borrow_mut()
        .add_task(100, 103, Some("1-2,5-6"));
    bench.fake.0.borrow_mut().offline = set("5,7");
    let mut live = bench.live();
    assert_eq!(bind(&mut live, own, "0-3"), Outcome::Bound);
    assert_eq!(bind(&mut live, own, "4-7"), Outcome::Bound);
    assert_eq!(bench.mask(own), "4,6");
    let newborn = bench.fake.0.borrow_mut().spawn(Tid(103), 100, 104);
    drop(live);
    let report = bench.live().undo(&Scope::All);
    assert_eq!((report.threads_restored, report.threads_left), (2, 0));
    bench.fake.0.borrow_mut().offline = set("");
    for key in [own, newborn] {
        assert_eq!(bench.mask(key), "1-2,5-6");
    }
}

/// Children were made faster than they were put back when their program was: the next program that
/// is put back changes nothing about what they are owed.
#[test]
fn who_is_put_back_later_is_not_forgotten_for_another_program() {
    for scope in [None, Some(Scope::All)] {
        let (bench, [first, ..]) = bench();
        let other = bench.fake.0.borrow_mut().add_process(500, 1, "0-7");
        let mut live = bench.live();
        bind(&mut live, first, "0-3");
        let late = bench.fake.0.borrow_mut().spawn(Tid(100), 400, 400);
        bench.fake.0.borrow_mut().parents.insert(Pid(400), Pid(1));
        live.undo(&Scope::Program(AttachmentId(1), [(Pid(100), None)].into()));
        let leavers = Scope::Leavers(AttachmentId(1), [(Pid(400), Some(late.start))].into());
        let mut next = 600;
        live.undo_breathing(&leavers, &mut || {
            let mut world = bench.fake.0.borrow_mut();
            world.add_task(400, next, Some("0-3"));
            world.pass(std::time::Duration::from_millis(700));
            next += 1;
        });
        assert!(live.is_unfinished());
        let last = bench.fake.0.borrow_mut().add_task(400, next, Some("0-3"));
        bind_other(&mut live, other, "4-7");
        live.undo(&Scope::Program(AttachmentId(2), [(Pid(500), None)].into()));
        let report = match scope {
            None => live.undo_more(&mut || {}).unwrap(),
            Some(all) => live.undo(&all),
        };
        assert!(report.is_complete() && !live.is_unfinished(), "{report:?}");
        assert_eq!([bench.mask(last), bench.mask(other)], ["0-7", "0-7"]);
    }
}

/// What it had is in the rows of who made it, which has ended.
#[test]
fn a_child_that_could_not_be_looked_at_is_put_back_later() {
    for restarted in [false, true] {
        let (bench, [_, second, _]) = bench();
        let mut live = bench.live();
        bind(&mut live, second, "0-3");
        let orphan = bench.fake.0.borrow_mut().spawn(Tid(101), 300, 300);
        let child = ProcessKey {
            pid: Pid(300),
            start: orphan.start,
        };
        live.follow(AttachmentId(1), &[child]);
        bench.fake.0.borrow_mut().end(Pid(100));
        let named = [(Pid(100), None), (Pid(300), None)].into();
        let mut scope = Scope::Program(AttachmentId(1), named);
        if restarted {
            drop(live);
            live = bench.live();
            scope = Scope::All;
        }
        bench.fake.0.borrow_mut().hidden = Some(libc::EMFILE);
        assert!(!live.undo(&scope).is_complete());
        bench.fake.0.borrow_mut().hidden = None;
        // A daemon does so every minute.
        live.prune();
        live.prune();
        let scope = match restarted {
            true => Scope::All,
            false => Scope::of(&[Pid(300)]),
        };
        let report = live.undo(&scope);
        assert_eq!(report.threads_restored, 1, "{report:?}");
        assert_eq!(bench.mask(orphan), "0-7");
        live.undo(&Scope::All);
        assert_eq!(live.journal().open_rows(), 0);
    }
}

/// What anyone may have mapped where a page of his own was moved, everybody's library say.
#[test]
fn a_file_that_lies_there_by_now_is_not_moved_for_all_who_map_it() {
    let (bench, _) = bench();
    let mut live = bench.live();
    move_first(&mut live, 100, 10, 1);
    let place = |page: u64| (Pid(100), page * 4096);
    for (page, hold) in [(3, Hold::OfFile), (5, Hold::Shared)] {
        let mut world = bench.fake.0.borrow_mut();
        world.pages.get_mut(&place(page)).unwrap().hold = hold;
    }
    // As long as its maps cannot be read it may as well be shared memory of the program's own.
    bench.fake.0.borrow_mut().maps_hidden = Some(libc::EMFILE);
    let report = live.undo(&Scope::All);
    assert_eq!((report.pages_restored, report.pages_gone), (9, 0));
    assert!(!report.is_complete());
    bench.fake.0.borrow_mut().maps_hidden = None;
    let report = live.undo(&Scope::All);
    assert_eq!((report.pages_restored, report.pages_gone), (0, 1));
    // What was moved is gone, and nothing waits for whoever has the file.
    assert!(report.is_complete(), "{report:?}");
    assert_eq!(live.journal().open_rows(), 0);
    let on = |page| bench.fake.0.borrow().pages[&place(page)].node.0;
    assert_eq!([on(2), on(3), on(5)], [0, 1, 0]);
}

/// What lies at the same addresses is of another program, and was there from its start.
#[test]
fn pages_of_a_program_that_began_since_stay_where_they_are() {
    let (bench, [_, second, _]) = bench();
    let mut live = bench.live();
    bind(&mut live, second, "0-3");
    move_first(&mut live, 100, 10, 1);
    live.began_another(&[Pid(99)]);
    assert_eq!(live.journal().open_rows(), 11);
    bench.fake.0.borrow_mut().exec(Tid(101));
    live.began_another(&[Pid(100)]);
    assert_eq!(live.journal().open_rows(), 1);
    // What moves of it goes back to where the new program had it, not the one before.
    move_first(&mut live, 100, 2, 0);
    drop(live);
    let mut live = bench.live();
    assert_eq!(live.journal().open_rows(), 3);
    let report = live.undo(&Scope::All);
    assert_eq!((report.threads_restored, report.pages_restored), (1, 2));
    assert_eq!(bench.nodes(100)[..10], [1; 10]);
}

#[test]
fn memory_of_strangers_that_lies_there_by_now_is_not_moved() {
    let (bench, _) = bench();
    let mut live = bench.live();
    let address = 0x10_0000;
    let row = move_action(Pid(100), vec![address], 1);
    let own = FakePage {
        node: NodeId(0),
        natural: NodeId(0),
        hold: Hold::Free,
    };
    let place = (Pid(100), address);
    bench.fake.0.borrow_mut().pages.insert(place, own);
    live.perform(&row);
    {
        let mut world = bench.fake.0.borrow_mut();
        world.add_process(300, 1, "0-7");
        world.share(300, 0x70_0000, 1, 1);
        world.share(100, address, 1, 1);
    }
    assert!(!live.undo(&Scope::All).is_complete());
    let on = || bench.fake.0.borrow().pages[&place].node.0;
    assert_eq!((on(), live.journal().open_rows()), (1, 1));
    // Those that it forked may have it.
    bench.fake.0.borrow_mut().end(Pid(300));
    bench.fake.0.borrow_mut().spawn(Tid(101), 400, 400);
    assert!(live.undo(&Scope::All).is_complete());
    assert_eq!((on(), live.journal().open_rows()), (0, 0));
}
