//! What of a policy's wishes for pages is granted.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use numad_core::{
    Action, AttachOptions, Certainty, Fate, IntervalLaw, Lifecycle, NodeTraffic, ObservedMaps,
    Outcome, PageOutcome, Refusal, Veto,
};
use topology::{NodeId, Pid, Tid};

use crate::world::{PAGE, Script, WINDOW, World, options};

fn world(options: AttachOptions, pages: &[(u64, usize)]) -> (World, Arc<Mutex<Script>>) {
    let mut world = World::new("2x4@10,20");
    let (_, script) = world.attach(10, &[4], options);
    script.lock().unwrap().pages = pages.to_vec();
    for &(page, _) in pages {
        world.touch(10, page, 8);
    }
    (world, script)
}

fn again(world: &mut World, pages: &[(u64, usize)]) {
    for &(page, _) in pages {
        world.touch(10, page, 8);
    }
}

#[test]
fn pages_of_one_node_go_together_in_order() {
    let wanted = [(9, 1), (3, 1), (5, 1), (4, 0)];
    let (mut world, script) = world(options(), &wanted);
    let seen = world.window();
    assert_eq!(seen.orders(), "p3+5+9>1");
    assert_eq!(seen.vetoes(), [("1 pages".to_owned(), Veto::AlreadyThere)]);
    assert_eq!(seen.summary().local_permille, Some(0));
    assert_eq!(
        script
            .lock()
            .unwrap()
            .fates
            .iter()
            .filter(|(_, fate)| *fate == Fate::Done)
            .count(),
        3
    );
    again(&mut world, &wanted[..3]);
    let seen = world.window();
    assert_eq!(
        seen.summary().local_permille,
        Some(900),
        "the fourth page was not used again"
    );
    let totals = world.engine.totals(world.engine.attachments()[0]).unwrap();
    assert_eq!((totals.pages_moved, totals.spent_ns), (3, 1000));
}

#[test]
fn batches_are_bounded_and_so_is_the_budget() {
    let wanted: Vec<(u64, usize)> = (0..4000).map(|page| (page, 1)).collect();
    let (mut world, _) = world(
        AttachOptions {
            page_moves_max: 3000,
            ..options()
        },
        &wanted,
    );
    let seen = world.window();
    let sizes: Vec<usize> = seen
        .actions
        .iter()
        .map(|action| match action {
            Action::MovePages { pages, .. } => {
                assert!(pages.is_sorted());
                pages.len()
            }
            Action::Bind { .. } => 0,
        })
        .collect();
    assert_eq!(sizes, [2048, 952]);
    // But for those that the full table forgot.
    let left = seen.summary().pages_left;
    assert!((900..=1000).contains(&left), "{left}");
    let vetoes = seen.vetoes();
    assert_eq!(vetoes[0], (format!("{left} pages"), Veto::Budget));
}

/// What goes to one node does not take all of a window.
#[test]
fn each_node_has_its_part_of_a_window() {
    let ordered = |first: u64, second: u64| {
        let mut world = World::new("3x4@10,20");
        let limited = AttachOptions {
            page_moves_max: 100,
            ..options()
        };
        let (_, script) = world.attach(10, &[4], limited);
        let wanted = (0..first).map(|page| (page, 1));
        let wanted = wanted.chain((500..500 + second).map(|page| (page, 2)));
        script.lock().unwrap().pages = wanted.clone().collect();
        wanted.for_each(|(page, _)| world.touch(10, page, 8));
        let mut on = [0, 0, 0];
        for action in world.window().actions {
            if let Action::MovePages { pages, node, .. } = action {
                on[node.0 as usize] += pages.len();
            }
        }
        on
    };
    assert_eq!(ordered(200, 200), [0, 50, 50]);
    // What one does not need is the other's.
    assert_eq!(ordered(200, 20), [0, 80, 20]);
    assert_eq!(ordered(20, 200), [0, 20, 80]);
    assert_eq!(ordered(30, 40), [0, 30, 40]);
}

/// Who waits for what is on the way is waited for, so no task's own memory takes all of a window.
#[test]
fn no_more_than_twice_its_part_of_a_window_is_of_one_tasks_own_memory() {
    let ordered = |first: u64, second: u64, shared: u64| {
        let mut world = World::new("3x4@10,20");
        let limited = AttachOptions {
            page_moves_max: 120,
            ..options()
        };
        let (_, script) = world.attach(10, &[1, 1, 4, 4, 8, 8], limited);
        let own = (0..first).map(|page| (page, vec![12]));
        let own = own.chain((500..500 + second).map(|page| (page, vec![13])));
        let all = own.chain((900..900 + shared).map(|page| (page, vec![12, 13, 14])));
        for (page, users) in all {
            script.lock().unwrap().pages.push((page, 1));
            users.iter().for_each(|&user| world.touch(user, page, 8));
        }
        let mut ordered = [0, 0, 0];
        for action in world.window().actions {
            if let Action::MovePages { pages, .. } = action {
                for page in pages {
                    ordered[[500, 900].partition_point(|from| *from <= page / PAGE)] += 1;
                }
            }
        }
        ordered
    };
    // Two of six parts.
    assert_eq!(ordered(200, 0, 0), [40, 0, 0]);
    assert_eq!(ordered(200, 20, 0), [40, 20, 0]);
    assert_eq!(ordered(200, 200, 0), [40, 40, 0]);
    // What several use is nobody's own.
    assert_eq!(ordered(200, 0, 200), [40, 0, 80]);
}

#[test]
fn memory_is_left_free() {
    let wanted = [(1, 1), (2, 1), (3, 1)];
    let (mut world, _) = world(options(), &wanted);
    let size = world.topology.nodes()[1].memory_bytes;
    // A twentieth of the node, and two pages.
    world.free[1].1 = size / 20 + 2 * PAGE;
    let seen = world.window();
    assert_eq!(seen.orders(), "p1+2>1");
    assert_eq!(seen.vetoes(), [("1 pages".to_owned(), Veto::NoRoom)]);
}

#[test]
fn two_programs_do_not_fill_the_same_memory() {
    let (mut world, _) = world(options(), &[(1, 1), (2, 1)]);
    let (_, other) = world.attach(20, &[5], options());
    other.lock().unwrap().pages = vec![(7, 1)];
    world.touch(20, 7, 8);
    world.free[1].1 = world.topology.nodes()[1].memory_bytes / 20 + 2 * PAGE;
    let seen = world.window();
    assert_eq!(seen.orders(), "p1+2>1");
    assert_eq!(seen.vetoes(), [("1 pages".to_owned(), Veto::NoRoom)]);
}

#[test]
fn threads_settle_before_pages_but_not_for_ever() {
    let mut world = World::new("2x8@10,20");
    let options = AttachOptions {
        task_moves_max: 1,
        ..options()
    };
    let (_, script) = world.attach(10, &[8, 9, 10, 11, 12], options);
    script.lock().unwrap().threads = (10..15).map(|tid| (tid, 0)).collect();
    script.lock().unwrap().pages = vec![(1, 1)];
    let mut orders = Vec::new();
    for _ in 0..5 {
        world.touch(10, 1, 8);
        orders.push(world.window().orders());
    }
    assert_eq!(orders, ["10>0", "11>0", "12>0", "13>0 p1>1", "14>0"]);
}

#[test]
fn a_second_move_needs_rest_and_agreement_and_returns_rest_longer() {
    let (mut world, script) = world(options(), &[(1, 1)]);
    assert_eq!(world.window().orders(), "p1>1");
    let mut windows = |node: usize| {
        script.lock().unwrap().pages = vec![(1, node)];
        (1..)
            .find(|_| {
                again(&mut world, &[(1, 1)]);
                world.window().orders() == format!("p1>{node}")
            })
            .unwrap()
    };
    // Two seconds at half a second each; from then on it comes back each time to where it was.
    assert_eq!([windows(0), windows(1), windows(0)], [4, 8, 16]);
}

#[test]
fn refused_pages_rest_and_untried_ones_do_not() {
    let (mut world, script) = world(options(), &[(1, 1), (2, 1), (3, 1)]);
    let pages = vec![
        PageOutcome::On(NodeId(1)),
        PageOutcome::Refused(Refusal::Busy),
    ];
    world.answers = vec![Outcome::Moved {
        pages,
        spent_ns: 7,
        took_ns: 7,
    }];
    assert_eq!(world.window().orders(), "p1+2+3>1");
    let totals = world.engine.totals(world.engine.attachments()[0]).unwrap();
    assert_eq!(
        (totals.pages_moved, totals.spent_ns),
        (1, 3),
        "its part of 7"
    );
    world.homes.insert(1, NodeId(1));
    let fates: Vec<Fate> = script
        .lock()
        .unwrap()
        .fates
        .iter()
        .map(|(_, fate)| *fate)
        .collect();
    assert_eq!(fates, [Fate::Done, Fate::Failed, Fate::Failed]);
    again(&mut world, &[(1, 1), (2, 1), (3, 1)]);
    assert_eq!(world.window().orders(), "p3>1");
}

#[test]
fn only_moves_that_pay_for_those_who_seek_gain() {
    let gain = AttachOptions {
        require_gain: true,
        ..options()
    };
    // The thread is on node 1: page 1 comes nearer, page 2 would go away from it.
    let (mut world, _) = world(gain, &[(1, 1), (2, 0)]);
    world.homes.insert(2, NodeId(1));
    let seen = world.window();
    assert_eq!(seen.orders(), "p1>1");
    assert_eq!(seen.vetoes(), [("1 pages".to_owned(), Veto::DoesNotPay)]);
}

/// Pages that a thread on node 1 touched this often, on node 0 until they move, for a policy that
/// seeks a gain and wants them on node 1.
fn piece(confidence_min: f64, touched: &[(u64, u32)]) -> (World, Arc<Mutex<Script>>) {
    let mut world = World::new("2x4@10,20");
    let mut gain = AttachOptions {
        require_gain: true,
        certainty: Certainty::of(confidence_min),
        ..options()
    };
    gain.prices.horizon_ns = 5e9;
    let (_, script) = world.attach(10, &[4], gain);
    script.lock().unwrap().pages = touched.iter().map(|&(page, _)| (page, 1)).collect();
    for &(page, times) in touched {
        world.touch(10, page, times);
    }
    (world, script)
}

#[test]
fn pages_of_a_block_are_sure_together() {
    let orders = |touched: &[(u64, u32)]| piece(0.999, touched).0.window().orders();
    // Eight samples say too little of a page alone, and four enough beside others.
    assert_eq!(orders(&[(100, 8)]), "");
    assert_eq!(orders(&[(100, 8), (101, 8)]), "p100+101>1");
    assert_eq!(orders(&[(99, 4), (100, 8), (101, 8)]), "p99+100+101>1");
}

/// Eleven pages of 32 MiB that a thread on node 1 touched once each; all of it is on node 0.
fn sparse(gain: &AttachOptions) -> (World, Arc<Mutex<Script>>) {
    let mut world = World::new("2x4@10,20");
    let mut options = AttachOptions {
        require_gain: true,
        ..gain.clone()
    };
    // As of page faults: what a sample stands for is not known.
    options.prices.accesses_per_busy_second = 1e7;
    let (_, script) = world.attach(10, &[4], options);
    for sample in 0..11 {
        world.touch(10, 8192 + 800 * sample, 1);
        script.lock().unwrap().pages.push((8192 + 800 * sample, 1));
    }
    (world, script)
}

fn pages_ordered(actions: &[Action]) -> Vec<u64> {
    let pages = actions.iter().flat_map(|action| match action {
        Action::MovePages { pages, .. } => pages.clone(),
        Action::Bind { .. } => Vec::new(),
    });
    let mut pages: Vec<u64> = pages.map(|address| address / PAGE).collect();
    pages.sort_unstable();
    pages
}

/// A page is worth what its move costs once the program has gone on as it does for 9 s; 5 are what
/// is expected at first. That a thread was moved meanwhile is none of the program's doing.
#[test]
fn what_the_program_goes_on_doing_is_worth_more_with_time_whatever_we_move() {
    let mut world = World::new("2x4@10,20");
    let mut options = AttachOptions {
        require_gain: true,
        ..options()
    };
    options.prices.page_move_ns = 300_000.0;
    options.prices.horizon_ns = 5e9;
    let (_, script) = world.attach(10, &[4, 0], options);
    script.lock().unwrap().pages = vec![(1, 1)];
    let window_s = WINDOW.as_secs_f64();
    let mut orders = Vec::new();
    for window in 1..=60 {
        let now_s = f64::from(window) * window_s;
        world.touch(10, 1, 100);
        if (5.0..6.0).contains(&now_s) {
            script.lock().unwrap().threads = vec![(11, 1)];
            world.talk(10, 11, 4000);
        }
        orders.push((now_s, world.window().orders()));
    }
    let first = |what| orders.iter().find(|(_, orders)| orders == what).unwrap().0;
    assert!((5.0..6.0).contains(&first("11>1")), "{orders:?}");
    assert!((8.0..11.0).contains(&first("p1>1")), "{orders:?}");
}

#[test]
fn a_slice_goes_whole_by_ten_samples() {
    let (mut world, script) = sparse(&options());
    let pages = pages_ordered(&world.window().actions);
    assert!(
        pages.windows(2).all(|two| two[0] + 1 == two[1]),
        "no page is left out or goes twice"
    );
    let (first, last) = (pages[0], pages[pages.len() - 1]);
    // All between what was seen, and no more than the usual gap beyond.
    assert!((8192 - 800..=8192).contains(&first), "{first}");
    assert!((16_192..=16_992).contains(&last), "{last}");
    let done = |(_, fate): &(_, Fate)| *fate == Fate::Done;
    let told = script
        .lock()
        .unwrap()
        .fates
        .iter()
        .filter(|one| done(one))
        .count();
    assert!((1..11).contains(&told), "one answer for each piece");
    // What is there is not asked for again.
    for sample in 0..11 {
        world.touch(10, 8192 + 800 * sample + 400, 1);
        script.lock().unwrap().pages.push((8592 + 800 * sample, 1));
    }
    let later = pages_ordered(&world.window().actions);
    assert!(later.iter().all(|page| !pages.contains(page)), "{later:?}");
}

/// A thread on node 1 under a policy that wants four pages there, seeks a gain and is not held.
fn four_pages_wanted() -> World {
    let gain = AttachOptions {
        require_gain: true,
        hold: Duration::ZERO,
        ..options()
    };
    let mut world = World::new("2x4@10,20");
    let (_, script) = world.attach(10, &[4], gain);
    script.lock().unwrap().pages = (100..104).map(|page| (page, 1)).collect();
    world
}

/// Two pages were moved, and a thread has another near them, where it is itself. What lies between
/// may be as the two
/// were, and nothing is there.
#[test]
fn what_was_never_there_is_asked_for_once() {
    let mut world = four_pages_wanted();
    let touch = |world: &mut World, pages: &[u64]| {
        for &page in pages {
            world.touch(10, page, 3);
        }
    };
    touch(&mut world, &[100, 101]);
    assert_eq!(world.window().orders(), "p100+101>1");
    world.homes.insert(103, NodeId(1));
    let gone = Outcome::Moved {
        pages: vec![
            PageOutcome::Refused(Refusal::Gone),
            PageOutcome::Stood(NodeId(1)),
        ],
        spent_ns: 0,
        took_ns: 0,
    };
    let orders = [(); 4].map(|()| {
        world.answers = vec![gone.clone()];
        touch(&mut world, &[100, 101, 103]);
        world.window().orders()
    });
    assert_eq!(orders, ["p102+103>1", "", "", ""]);
}

/// A heap that grows: of what was not there when it was to move a page is seen, and so the rest of
/// it may have come too.
#[test]
fn what_comes_after_it_was_asked_for_goes_after_all() {
    let mut world = four_pages_wanted();
    world.homes.insert(103, NodeId(1));
    let mut window = |touched: &[u64], absent: usize| {
        let mut pages = vec![PageOutcome::Refused(Refusal::Gone); absent];
        pages.push(PageOutcome::Stood(NodeId(1)));
        world.answers = vec![Outcome::Moved {
            pages,
            spent_ns: 0,
            took_ns: 0,
        }];
        world.answers.truncate(absent);
        touched.iter().for_each(|&page| world.touch(10, page, 5));
        world.window().orders()
    };
    window(&[100], 0);
    assert_eq!(window(&[100, 103], 2), "p101+102+103>1");
    assert_eq!(window(&[100, 103], 0), "");
    assert_eq!(window(&[100, 101, 103], 0), "p101+102>1");
}

/// A library lies between two parts of a heap, and one of its pages was seen.
#[test]
fn what_may_be_others_as_well_does_not_go_along() {
    let (mut world, _script) = sparse(&options());
    let library = 10_000..11_000;
    world.sharing.maps = vec![ObservedMaps {
        pid: Pid(10),
        ranges: Vec::new(),
        foreign: vec![library.start * PAGE..library.end * PAGE, 0..PAGE],
    }];
    let pages = pages_ordered(&world.window().actions);
    let within: Vec<u64> = pages
        .iter()
        .copied()
        .filter(|page| library.contains(page))
        .collect();
    assert_eq!(within, [8192 + 3 * 800]);
    for page in [9_999, 11_000] {
        assert!(pages.contains(&page), "{page}");
    }
}

#[test]
fn what_is_too_much_for_one_window_goes_on_with_the_next() {
    let (mut world, _script) = sparse(&AttachOptions {
        page_moves_max: 3000,
        ..options()
    });
    let mut moved = Vec::new();
    for _ in 0..6 {
        let seen = world.window();
        let pages = pages_ordered(&seen.actions);
        assert!(pages.len() <= 3000);
        moved.extend(pages);
        for sample in 0..11 {
            world.touch(10, 8192 + 800 * sample, 1);
        }
    }
    let all = moved.len();
    moved.sort_unstable();
    moved.dedup();
    assert!(
        moved.len() >= 8000 && moved.len() == all,
        "{all}, each page once"
    );
}

#[test]
fn by_pages_alone_what_nobody_saw_stays() {
    let (mut world, _script) = sparse(&AttachOptions {
        by_blocks: false,
        certainty: Certainty::of(0.6),
        ..options()
    });
    let pages = pages_ordered(&world.window().actions);
    assert_eq!(
        pages,
        (0..11)
            .map(|sample| 8192 + 800 * sample)
            .collect::<Vec<_>>()
    );
}

#[test]
fn by_pages_alone_all_samples_are_judged_and_by_blocks_enough_of_them() {
    let judged = |by_blocks| {
        let (mut world, _script) = sparse(&AttachOptions {
            by_blocks,
            ..options()
        });
        for turn in 0..30_000 {
            world.touch(10, 8192 + turn % 512, 1);
        }
        let summary = world.window().summary().clone();
        (summary.samples, summary.samples_judged)
    };
    let (samples, all) = judged(false);
    assert!(samples > 30_000 && all == samples, "{all} of {samples}");
    let (samples, enough) = judged(true);
    assert!(
        samples > 30_000 && (950..2_100).contains(&enough),
        "{enough}"
    );
}

#[test]
fn memory_far_apart_is_not_filled_between() {
    let (mut world, script) = sparse(&options());
    for sample in 0..11 {
        let page = (1 << 30) + 3 * sample;
        world.touch(10, page, 1);
        script.lock().unwrap().pages.push((page, 1));
    }
    let pages = pages_ordered(&world.window().actions);
    assert!(pages.len() < 10_000, "{}", pages.len());
    assert!(pages.contains(&((1 << 30) + 10)) && pages.contains(&8500));
}

#[test]
fn pages_that_are_there_already_speak_for_one_that_came_late() {
    // Three samples say too little of a page alone.
    let orders = |there: &[u64]| {
        let mut touched: Vec<(u64, u32)> = there.iter().map(|&page| (page, 8)).collect();
        touched.push((100, 3));
        let (mut world, script) = piece(0.999, &touched);
        script.lock().unwrap().pages = vec![(100, 1)];
        for &page in there {
            world.homes.insert(page, NodeId(1));
        }
        world.window().orders()
    };
    assert_eq!(orders(&[]), "");
    assert_eq!(orders(&[99]), "p100>1");
    assert_eq!(orders(&[116]), "p100>1");
    // Seventeen pages away is another piece, for the whole of which three samples are little.
    assert_eq!(orders(&[83, 117]), "");
}

#[test]
fn a_page_that_is_used_from_elsewhere_parts_a_piece() {
    let (mut world, script) = piece(0.9, &[(100, 8), (102, 8)]);
    world.touch(10, 101, 8);
    assert_eq!(world.window().orders(), "p100+102>1");
    drop(script);
}

#[test]
fn of_a_program_that_stands_the_few_pages_go_that_pay() {
    let far: Vec<(u64, u32)> = (0..100).map(|index| (1000 + index, 8)).collect();
    let (mut world, script) = piece(0.9, &far);
    for index in 2..100 {
        world.homes.insert(1000 + index, NodeId(1));
    }
    script.lock().unwrap().pages = vec![(1000, 1), (1001, 1)];
    assert_eq!(world.window().orders(), "p1000+1001>1");
}

#[test]
fn policies_know_of_memory_what_was_counted() {
    let mut world = World::new("2x2@10,20");
    let (_, script) = world.attach(10, &[0, 2], options());
    world.touch(10, 1, 8);
    world.window();
    let estimated = script.lock().unwrap().memory.clone();
    assert!(estimated[0].0 < 40.0, "{estimated:?}");
    // One controller delivers more than it was estimated to, and to others.
    world.traffic = vec![NodeTraffic {
        node: NodeId(0),
        read_bytes_per_s: 80_000_000_000,
        written_bytes_per_s: 0,
    }];
    world.touch(10, 1, 8);
    world.window();
    let counted = script.lock().unwrap().memory.clone();
    let (gives, others) = counted[0];
    assert!((gives - 80.0).abs() < 1e-6 && others > 40.0, "{counted:?}");
    assert_eq!(counted[1], estimated[1]);
}

/// A program that starts another has not shown what that one gets.
#[test]
fn no_more_memory_was_shown_than_there_is() {
    let mut options = AttachOptions {
        require_gain: true,
        ..options()
    };
    options.prices.accesses_per_busy_second = 1e6;
    let mut world = World::new("2x4@10,20");
    world.attach(10, &[0, 4], options);
    let mut unseen = |pages: u64, resident: u64| {
        (0..pages).for_each(|page| world.touch(10, page, 1));
        world.resident_bytes = resident * PAGE;
        let unseen = world.window().summary().unseen_permille;
        world.tell(Lifecycle::Renamed {
            time: world.now,
            pid: Pid(10),
            tid: Tid(10),
            name: "another".to_owned(),
            exec: pages == 1000,
        });
        unseen
    };
    assert_eq!(unseen(1000, 1000), Some(0));
    assert_eq!(unseen(100, 100), Some(0));
    // What came since the last window nobody can have seen.
    assert_eq!(unseen(100, 1000), Some(0));
    let share = unseen(100, 1000).unwrap();
    assert!((850..=900).contains(&share), "{share}");
}

/// Nothing is left for the next window where no page may ever go, so that windows need not be
/// short.
#[test]
fn where_no_page_may_go_windows_get_longer() {
    let lasts = |page_moves_max| {
        let mut world = World::new("2x4@10,20");
        let interval = IntervalLaw::Calm {
            min: WINDOW,
            max: WINDOW * 8,
        };
        let options = AttachOptions {
            require_gain: true,
            interval,
            page_moves_max,
            ..options()
        };
        let (id, script) = world.attach(10, &[0, 4], options);
        script.lock().unwrap().pages = vec![(900, 1)];
        let mut vetoes = Vec::new();
        for _ in 0..60 {
            world.touch(11, 900, 20);
            vetoes = world.window().vetoes();
        }
        (world.engine.next_window(id).unwrap().1, vetoes)
    };
    let veto = |veto| vec![("1 pages".to_owned(), veto)];
    let (some, none) = (lasts(1), lasts(0));
    assert_eq!(some.1, veto(Veto::AlreadyThere));
    assert_eq!((none.0, &none.1), (some.0, &veto(Veto::NotAllowed)));
}
