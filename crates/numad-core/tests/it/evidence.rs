//! Nothing is moved that could be chance, or of which too much was lost.

use std::ops::Range;
use std::sync::{Arc, Mutex};

use numad_core::cost::Prices;
use numad_core::{Action, AttachOptions, Certainty, Evidence, IntervalLaw, Record, Veto};
use topology::NodeId;

use crate::world::{PAGE, Script, Seen, World, options};

fn gain() -> AttachOptions {
    // Whether it pays is another question.
    let prices = Prices {
        page_move_ns: 1.0,
        task_move_ns: 1.0,
        ..Prices::default()
    };
    AttachOptions {
        require_gain: true,
        prices,
        ..options()
    }
}

fn evidence_of(action: &Action) -> Option<Evidence> {
    match action {
        Action::Bind { evidence, .. } | Action::MovePages { evidence, .. } => *evidence,
    }
}

/// Four threads, two on each node; 10 and 12 are to be together. They share 50 accesses each with the
/// partner that they are to get, and `with_old` with the one that they have.
fn exchange(with_old: u64, options: AttachOptions) -> (World, Arc<Mutex<Script>>) {
    let mut world = World::new("2x2@10,20");
    let (_, script) = world.attach(10, &[0, 1, 2, 3], options);
    script.lock().unwrap().threads = vec![(10, 0), (12, 0), (11, 1), (13, 1)];
    talk(&mut world, with_old);
    (world, script)
}

fn talk(world: &mut World, with_old: u64) {
    world.talk(10, 12, 50);
    world.talk(11, 13, 50);
    world.talk(10, 11, with_old);
    world.talk(12, 13, with_old);
}

#[test]
fn a_plan_that_chance_does_not_explain_is_done_and_says_how_sure_it_is() {
    let (mut world, _) = exchange(5, gain());
    let seen = world.window();
    assert_eq!(seen.orders(), "10>0 12>0 11>1 13>1");
    let plan = seen.summary().plan.unwrap();
    assert!((plan.share - 100.0 / 110.0).abs() < 1e-9, "{plan:?}");
    assert!((plan.samples - 110.0).abs() < 1e-9, "{plan:?}");
    assert!(plan.low > 0.86 && plan.high < 0.95, "{plan:?}");
    let evidence: Vec<_> = seen.actions.iter().map(evidence_of).collect();
    assert!(evidence[0].is_none() && evidence[3].is_none(), "they stay");
    assert!(evidence[1].unwrap().low > 0.8);
    assert!(seen.summary().confident);
}

#[test]
fn a_plan_that_could_be_chance_is_not_done_and_everyone_stays_in_place() {
    let (mut world, script) = exchange(45, gain());
    let seen = world.window();
    assert_eq!(seen.orders(), "12>1 11>0 10>0 13>1");
    let veto = |tid: &str| (tid.to_owned(), Veto::Evidence);
    assert_eq!(seen.vetoes(), [veto("12"), veto("11")]);
    let plan = seen.summary().plan.unwrap();
    assert!(plan.share > 0.5 && plan.share < plan.chance, "{plan:?}");
    // The same again and again is evidence in the end, though each window alone is not. In between, the
    // threads rest for what they were placed.
    drop(script);
    let moved = (0..30).any(|_| {
        (0..4).for_each(|_| talk(&mut world, 40));
        world.window().orders().contains("12>0")
    });
    assert!(moved);
}

#[test]
fn a_window_without_samples_answers_nothing_for_those_after_it() {
    let (mut world, script) = exchange(45, gain());
    script.lock().unwrap().stands = true;
    let wanted = |world: &mut World| {
        let vetoes = world.window().vetoes();
        vetoes
            .iter()
            .filter(|(_, veto)| *veto == Veto::Evidence)
            .count()
    };
    assert_eq!(wanted(&mut world), 2);
    for _ in 0..3 {
        talk(&mut world, 50);
        assert_eq!(wanted(&mut world), 2);
    }
    // What the windows before told is kept until more is seen.
    assert_eq!(wanted(&mut world), 0);
    talk(&mut world, 50);
    assert_eq!(wanted(&mut world), 2);
}

#[test]
fn a_plan_must_save_more_than_threads_lose_until_their_pages_have_followed() {
    let mut options = gain();
    options.prices.horizon_ns = 5e9;
    let with_own = |uses: u32| {
        let (mut world, _) = exchange(5, options.clone());
        world.homes = [(900, NodeId(0)), (901, NodeId(1))].into();
        world.touch(11, 900, uses);
        world.touch(12, 901, uses);
        world.window()
    };
    assert_eq!(with_own(40).orders(), "10>0 12>0 11>1 13>1");
    let seen = with_own(4000);
    assert_eq!(seen.orders(), "12>1 11>0 10>0 13>1");
    let veto = |tid: &str| (tid.to_owned(), Veto::DoesNotPay);
    assert_eq!(seen.vetoes(), [veto("12"), veto("11")]);
}

#[test]
fn a_program_that_does_something_else_is_not_at_rest() {
    let (mut world, script) = exchange(0, gain());
    let threads = std::mem::take(&mut script.lock().unwrap().threads);
    world.window();
    let old = |world: &mut World| {
        world.talk(10, 11, 400);
        world.talk(12, 13, 400);
    };
    for _ in 0..4 {
        old(&mut world);
        assert_eq!(world.window().orders(), "");
    }
    // Of all that is remembered of pages the new is still the smaller part.
    script.lock().unwrap().threads = threads;
    (0..4).for_each(|_| talk(&mut world, 0));
    let (first, _) = (world.window(), (0..4).for_each(|_| talk(&mut world, 0)));
    let both = [first.orders(), world.window().orders()].concat();
    assert!(both.contains("12>0") && both.contains("11>1"), "{both}");
}

#[test]
fn pages_wait_at_first_for_a_plan_that_could_still_be_chance() {
    assert_eq!(page_goes(45, 1e5), [false, false, true]);
}

#[test]
fn a_page_does_not_wait_where_a_window_costs_more_than_that_it_goes_twice() {
    assert_eq!(page_goes(45, 1.0), [true, false, false]);
}

#[test]
fn pages_of_threads_that_went_follow_however_few() {
    let (mut world, script) = exchange(5, gain());
    assert_eq!(world.window().orders(), "10>0 12>0 11>1 13>1");
    // Thread 11 went to node 1. What it has on node 0 is next to nothing of all.
    script.lock().unwrap().pages = vec![(900, 1)];
    world.touch(11, 900, 20);
    world.touch(10, 901, 4000);
    assert_eq!(world.window().orders(), "p900>1");
}

#[test]
fn pages_follow_by_what_was_seen_before_where_faults_may_be_long_in_coming() {
    let follows = |accesses_per_busy_second| {
        let mut options = gain();
        options.prices.accesses_per_busy_second = accesses_per_busy_second;
        let (mut world, script) = exchange(5, options);
        world.touch(11, 900, 80);
        script.lock().unwrap().pages = vec![(900, 1)];
        assert_eq!(world.window().orders(), "10>0 12>0 11>1 13>1");
        // Nobody is seen to use anything now.
        [(); 2].map(|()| world.window().orders())
    };
    assert_eq!(follows(1e6), ["p900>1", ""]);
    assert_eq!(follows(0.0), ["", ""]);
}

#[test]
fn who_leaves_memory_that_nobody_sees_is_farther_from_it() {
    let window = |resident_pages: u64, accesses_per_busy_second, kernel_balances| {
        let mut options = gain();
        options.prices.accesses_per_busy_second = accesses_per_busy_second;
        let (mut world, _) = exchange(5, options);
        world.resident_bytes = resident_pages * PAGE;
        world.kernel_balances = kernel_balances;
        world.window()
    };
    let plan = "10>0 12>0 11>1 13>1";
    let goes = |pages, accesses, balances| window(pages, accesses, balances).orders();
    assert_eq!(goes(4, 1e6, false), plan, "all is seen");
    // Those who stay are where they began.
    let stays = |pages, veto| {
        let seen = window(pages, 1e6, false);
        let vetoes = [("12".to_owned(), veto), ("11".to_owned(), veto)];
        assert_eq!(
            (seen.orders().as_str(), seen.vetoes()),
            ("10>0 13>1", vetoes.to_vec())
        );
    };
    assert_eq!(
        goes(7, 1e6, false),
        plan,
        "three pages are less than what it brings"
    );
    stays(8, Veto::DoesNotPay);
    stays(9, Veto::Unseen);
    assert_eq!(goes(1_000_000, 0.0, false), plan, "accesses are reads, too");
    assert_eq!(goes(1_000_000, 1e6, true), plan, "and so are hint faults");
}

#[test]
fn a_fault_of_a_large_page_counts_as_many_as_its_small_ones_would() {
    let beside = |large: Option<Range<u64>>, accesses_per_busy_second| {
        let mut options = gain();
        options.prices.accesses_per_busy_second = accesses_per_busy_second;
        let mut world = World::new("2x2@10,20");
        world.large = large;
        let (_, script) = world.attach(10, &[0, 2], options);
        // All pages are on node 0, as thread 10 is.
        (0..96).for_each(|page| world.touch(10, page, 1));
        (20..24).for_each(|stretch| world.touch(11, stretch * 512, 1));
        world.window();
        let beside = script.lock().unwrap().beside;
        format!("{:.1} %", beside * 100.0)
    };
    assert_eq!(beside(None, 1e6), "96.0 %");
    let large = Some(512..u64::MAX);
    assert_eq!(beside(large.clone(), 1e6), "4.5 %", "96 of 96 + 2,048");
    assert_eq!(beside(Some(0..u64::MAX), 1e6), "96.0 %", "all are alike");
    assert_eq!(beside(large, 0.0), "96.0 %", "accesses are counted");
}

#[test]
fn threads_that_nobody_has_bound_are_where_their_memory_is_if_they_can_change_places() {
    // Thread 10 is on node 0, thread 11 on node 1; of eight pages of each, so many are on node 0.
    let beside_after = |windows: u32, own: [u64; 2]| {
        let mut world = World::new("2x2@10,20");
        let (_, script) = world.attach(10, &[0, 2], gain());
        for _ in 0..windows {
            for (tid, on_first) in [10, 11].into_iter().zip(own) {
                for at in 0..8 {
                    let page = u64::from(tid) * 1000 + at;
                    world.homes.insert(page, NodeId(u32::from(at >= on_first)));
                    world.touch(tid, page, 2);
                }
            }
            world.window();
        }
        let beside = script.lock().unwrap().beside;
        format!("{:.0} of 16", beside * 16.0)
    };
    let beside = |own| beside_after(1, own);
    assert_eq!(beside([8, 0]), "16 of 16", "they are");
    assert_eq!(beside([0, 8]), "16 of 16", "they change places");
    assert_eq!(beside([8, 8]), "8 of 16", "to gather would crowd a node");
    assert_eq!(
        beside([0, 5]),
        "3 of 16",
        "one whose memory is on both has no home"
    );
    assert_eq!(beside_after(8, [0, 8]), "16 of 16");
    assert_eq!(beside_after(9, [0, 8]), "0 of 16", "nobody binds them");
}

/// In which windows a page, whose move costs so much, goes to the node that its user is to leave.
fn page_goes(with_old: u64, page_move_ns: f64) -> [bool; 3] {
    let mut options = gain();
    options.prices.page_move_ns = page_move_ns;
    let (mut world, script) = exchange(with_old, options);
    // Thread 12 is to leave node 1, to which its page is to go.
    script.lock().unwrap().pages = vec![(900, 1)];
    [(); 3].map(|()| {
        world.touch(12, 900, 80);
        let orders = world.window().orders();
        talk(&mut world, with_old);
        orders.contains("p900")
    })
}

#[test]
fn those_who_seek_no_gain_are_not_asked() {
    let (mut world, _) = exchange(45, options());
    let seen = world.window();
    assert_eq!(seen.orders(), "10>0 12>0 11>1 13>1");
    assert_eq!(seen.summary().plan, None);
}

/// Threads 10 and 11 are on node 0, 12 on node 1; page 1 is on node 0 and wanted on node 1. Page 2
/// makes the window.
fn page_wanted(confidence_min: f64) -> (World, Arc<Mutex<Script>>) {
    let mut world = World::new("2x4@10,20");
    let options = AttachOptions {
        certainty: Certainty::of(confidence_min),
        interval: IntervalLaw::CALM,
        ..gain()
    };
    let (_, script) = world.attach(10, &[0, 1, 4], options);
    script.lock().unwrap().pages = vec![(1, 1)];
    (world, script)
}

#[track_caller]
fn page(uses: &[(u32, u32)], confidence_min: f64, expected: &str) -> Seen {
    let (mut world, _) = page_wanted(confidence_min);
    world.touch(10, 2, 20);
    for &(tid, times) in uses {
        world.touch(tid, 1, times);
    }
    let seen = world.window();
    assert_eq!(seen.orders(), expected, "{uses:?}");
    seen
}

#[test]
fn of_many_nodes_only_those_that_use_a_page_could_have_been_chosen() {
    let goes = |uses: &[(u32, u32)]| {
        let mut world = World::new("16x1@10,20");
        // Thread 10 is on node 0, where page 1 is, 11 on node 5, 12 on node 6, 13 on node 7.
        let (_, script) = world.attach(10, &[0, 5, 6, 7], gain());
        script.lock().unwrap().pages = vec![(1, 5)];
        world.touch(10, 2, 20);
        uses.iter()
            .for_each(|&(tid, times)| world.touch(tid, 1, times));
        !world.window().orders().is_empty()
    };
    assert!(!goes(&[(11, 1)]));
    assert!(goes(&[(11, 2)]));
    assert!(!goes(&[(11, 3), (12, 1)]));
    assert!(goes(&[(11, 4), (12, 1)]));
    assert!(!goes(&[(11, 3), (12, 1), (13, 1)]));
}

#[test]
fn windows_grow_while_more_samples_would_tell_where_pages_should_be() {
    let lengths = |uses: [(u32, u32); 2]| {
        let (mut world, _) = page_wanted(0.9);
        [(); 3].map(|()| {
            world.touch(10, 2, 20);
            uses.iter()
                .for_each(|&(tid, times)| world.touch(tid, 1, times));
            world.window().summary().next_ms
        })
    };
    // As many samples as tell nothing when half of those before are forgotten each time.
    assert_eq!(lengths([(12, 5), (10, 4)]), [125, 250, 500]);
    // Nothing speaks for it.
    assert_eq!(lengths([(12, 5), (10, 6)]), [125; 3]);
}

#[test]
fn a_page_moves_when_its_uses_are_no_coin() {
    page(&[(12, 30)], 0.9, "p1>1");
    page(&[(12, 30), (10, 20)], 0.9, "p1>1");
    page(&[(12, 30), (10, 26)], 0.9, "");
    page(&[(12, 30), (10, 26)], 0.5, "p1>1");
    page(&[(12, 30), (10, 10)], 0.999, "p1>1");
    page(&[(12, 30), (10, 12)], 0.999, "");
    let seen = page(&[(12, 30), (10, 20)], 0.9, "p1>1");
    let evidence = evidence_of(&seen.actions[0]).unwrap();
    assert!((evidence.share - 0.6).abs() < 1e-9, "{evidence:?}");
    assert!((evidence.samples - 50.0).abs() < 1e-9, "{evidence:?}");
}

#[test]
fn a_window_that_lost_too_much_decides_nothing() {
    let (mut world, _) = exchange(5, gain());
    // 220 samples were taken: 24 more are a little less than a tenth of all, 26 a little more.
    world.engine.handle_record(&Record::Lost(26));
    let seen = world.window();
    assert_eq!(seen.orders(), "");
    assert!(
        seen.vetoes()
            .iter()
            .all(|(_, veto)| *veto == Veto::Evidence)
    );
    let summary = seen.summary();
    assert_eq!((summary.lost, summary.lost_permille), (26, 106));
    assert!(!summary.confident);
    // It was joined to the next, and of both together less was lost.
    talk(&mut world, 5);
    let seen = world.window();
    assert_eq!(seen.orders(), "10>0 12>0 11>1 13>1");
    assert_eq!(
        (seen.summary().lost, seen.summary().samples_judged),
        (0, 440)
    );
}

#[test]
fn a_little_loss_is_no_reason() {
    let (mut world, _) = exchange(5, gain());
    world.engine.handle_record(&Record::Lost(24));
    let seen = world.window();
    assert_eq!(seen.orders(), "10>0 12>0 11>1 13>1");
    assert_eq!(seen.summary().lost_permille, 98);
}

#[test]
fn coverage_tells_of_busy_threads_that_were_not_sampled() {
    let mut world = World::new("2x2@10,20");
    world.attach(10, &[0, 1, 2, 3], options());
    world.thread(13).busy = 0.5;
    world.touch(10, 1, 5);
    world.touch(13, 1, 5);
    let summary = world.window().summary();
    assert_eq!((summary.tasks, summary.coverage_permille), (4, 429));
}
