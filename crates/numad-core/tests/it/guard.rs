//! What of a policy's wishes for threads is granted.

use std::time::Duration;

use numad_core::{AttachOptions, Bind, Fate, Method, Proposal, Veto};
use topology::NodeId;

use crate::world::{World, cpus, options};

#[test]
fn a_first_placement_needs_one_window() {
    let mut world = World::new("2x2@10,20");
    let (id, script) = world.attach(10, &[0, 1, 2, 3], options());
    script.lock().unwrap().threads = vec![(10, 0), (13, 0), (11, 1), (12, 1)];
    world.talk(10, 13, 20);
    let seen = world.window();
    assert_eq!(seen.orders(), "10>0 13>0 11>1 12>1");
    let placed: Vec<_> = world
        .engine
        .tasks(id)
        .iter()
        .map(|task| task.placed.unwrap().0)
        .collect();
    assert_eq!(placed, [0, 1, 1, 0]);
    let summary = seen.summary();
    assert_eq!(
        (summary.tasks, summary.actions, summary.proposals),
        (4, 4, 4)
    );
    assert_eq!((summary.samples, summary.distance_centi), (40, Some(2000)));
    // What is so already is neither ordered nor told again.
    let seen = world.window();
    assert_eq!((seen.orders().as_str(), seen.vetoes()), ("", vec![]));
    assert_eq!(
        world.engine.totals(id).unwrap().vetoes[&Veto::AlreadyThere],
        4
    );
    let fates: Vec<Fate> = script
        .lock()
        .unwrap()
        .fates
        .iter()
        .map(|(_, fate)| *fate)
        .collect();
    assert_eq!(fates[..4], [Fate::Done; 4]);
    assert_eq!(fates[4..], [Fate::Dropped(Veto::AlreadyThere); 4]);
}

#[test]
fn too_few_samples_are_no_evidence_and_windows_join() {
    let mut world = World::new("2x2@10,20");
    let options = AttachOptions {
        require_gain: true,
        samples_min: 50,
        ..options()
    };
    let (_, script) = world.attach(10, &[0, 2], options);
    script.lock().unwrap().threads = vec![(10, 0), (11, 0)];
    world.talk(10, 11, 20);
    let seen = world.window();
    let both = |veto| vec![("10".to_owned(), veto), ("11".to_owned(), veto)];
    assert_eq!(
        (seen.orders().as_str(), seen.vetoes()),
        ("", both(Veto::Evidence))
    );
    // The second window has too few as well, but both together have enough.
    world.talk(10, 11, 2000);
    assert_eq!(world.window().orders(), "10>0 11>0");
    let asked = script.lock().unwrap().asked;
    world.window();
    assert_eq!(
        script.lock().unwrap().asked,
        asked,
        "nothing new was seen, nothing is asked"
    );
}

#[test]
fn moves_of_placed_threads_need_rest_and_two_windows_that_agree() {
    let mut world = World::new("2x2@10,20");
    let (_, script) = world.attach(10, &[0, 2], options());
    let want = |threads: &[(u32, usize)]| script.lock().unwrap().threads = threads.to_vec();
    let mut expect = |wanted: &[(u32, usize)], orders: &str, veto: Option<Veto>| {
        want(wanted);
        let seen = world.window();
        let vetoes = veto
            .map(|veto| ("10".to_owned(), veto))
            .into_iter()
            .collect::<Vec<_>>();
        assert_eq!(
            (seen.orders().as_str(), seen.vetoes()),
            (orders, vetoes),
            "{wanted:?}"
        );
        world.now
    };
    // It runs on node 0 already: kept there, which is no move, so it need not rest.
    expect(&[(10, 0)], "10>0", None);
    expect(&[(10, 1)], "", Some(Veto::Unconfirmed));
    expect(&[], "", None);
    expect(&[(10, 1)], "", Some(Veto::Unconfirmed));
    let moved = expect(&[(10, 1)], "10>1", None);
    for _ in 0..3 {
        expect(&[(10, 0)], "", Some(Veto::MovedRecently));
    }
    let back = expect(&[(10, 0)], "10>0", None);
    assert_eq!(back.since(moved), Duration::from_secs(2));
    // It came back: the second stay is twice as long.
    for _ in 0..7 {
        expect(&[(10, 1)], "", Some(Veto::MovedRecently));
    }
    expect(&[(10, 1)], "10>1", None);
}

#[test]
fn a_move_that_would_not_pay_waits_for_no_second_window() {
    let mut world = World::new("2x2@10,20");
    let gain = AttachOptions {
        require_gain: true,
        ..options()
    };
    let (_, script) = world.attach(10, &[0, 0], gain);
    let mut want = |threads: &[(u32, usize)]| {
        script.lock().unwrap().threads = threads.to_vec();
        world.talk(10, 11, 2000);
        world.window().vetoes()
    };
    assert_eq!(want(&[(10, 0), (11, 0)]), []);
    // Away from its partner.
    let dropped = want(&[(10, 1)]);
    assert_eq!(dropped, [("10".to_owned(), Veto::DoesNotPay)]);
}

#[test]
fn a_method_as_published_moves_threads_to_and_fro_as_it_wants() {
    let mut world = World::new("2x2@10,20");
    let published = AttachOptions {
        method: Method::Published,
        hold: Duration::ZERO,
        ..options()
    };
    let (_, script) = world.attach(10, &[0, 2], published);
    let mut want = |node: usize| {
        script.lock().unwrap().threads = vec![(10, node)];
        world.window().orders()
    };
    let orders: Vec<String> = [0, 1, 0, 1, 1, 0].map(&mut want).into();
    assert_eq!(orders, ["10>0", "10>1", "10>0", "10>1", "", "10>0"]);
    // What is impossible is refused all the same.
    assert_eq!(want(7), "");
}

#[test]
fn room_is_judged_on_the_placement_that_comes_out() {
    let mut world = World::new("2x1@10,20");
    let (_, script) = world.attach(10, &[0, 1], options());
    script.lock().unwrap().threads = vec![(10, 0), (11, 1)];
    assert_eq!(world.window().orders(), "10>0 11>1");
    // One alone finds the other's node full.
    script.lock().unwrap().threads = vec![(10, 1)];
    world.window();
    assert_eq!(world.window().vetoes(), [("10".to_owned(), Veto::NoRoom)]);
    // Two that change places do not.
    script.lock().unwrap().threads = vec![(10, 1), (11, 0)];
    world.window();
    assert_eq!(world.window().orders(), "10>1 11>0");
}

#[test]
fn a_dropped_wish_drops_those_that_counted_on_it() {
    let mut world = World::new("3x1@10,20");
    let (_, script) = world.attach(10, &[0, 1, 2], options());
    script.lock().unwrap().threads = vec![(10, 0), (11, 1), (12, 2)];
    world.window();
    // A chain 10>1, 11>2, 12 stays: nobody can move.
    script.lock().unwrap().threads = vec![(10, 1), (11, 2)];
    world.window();
    let seen = world.window();
    assert_eq!(seen.orders(), "");
    let no_room = |tid: &str| (tid.to_owned(), Veto::NoRoom);
    assert_eq!(seen.vetoes(), [no_room("10"), no_room("11")]);
    // A ring of three can.
    script.lock().unwrap().threads = vec![(10, 1), (11, 2), (12, 0)];
    world.window();
    assert_eq!(world.window().orders(), "10>1 11>2 12>0");
}

#[test]
fn budgets_hold_and_the_best_come_first() {
    let mut world = World::new("2x4@10,20");
    let options = AttachOptions {
        task_moves_max: 2,
        ..options()
    };
    let (_, script) = world.attach(10, &[0, 1, 2, 3], options);
    script.lock().unwrap().threads = vec![(12, 1), (12, 0), (10, 1), (11, 1), (13, 1)];
    let seen = world.window();
    assert_eq!(seen.orders(), "12>1 10>1");
    let budget = |tid: &str| (tid.to_owned(), Veto::Budget);
    assert_eq!(seen.vetoes(), [budget("12"), budget("11"), budget("13")]);
}

#[test]
fn what_does_not_pay_is_dropped_unless_the_policy_seeks_no_gain() {
    for (require_gain, orders) in [(true, ""), (false, "10>1 11>0")] {
        let mut world = World::new("2x4@10,20");
        let options = AttachOptions {
            require_gain,
            ..options()
        };
        let (_, script) = world.attach(10, &[0, 4], options);
        world.talk(10, 11, 5000);
        // Exchanging two that talk brings them no nearer.
        script.lock().unwrap().threads = vec![(10, 1), (11, 0)];
        let seen = world.window();
        assert_eq!(seen.orders(), orders, "{require_gain}");
        if require_gain {
            assert_eq!(seen.vetoes()[0].1, Veto::DoesNotPay);
            world.talk(10, 11, 5000);
            script.lock().unwrap().threads = vec![(10, 0), (11, 0)];
            assert_eq!(world.window().orders(), "10>0 11>0");
        }
    }
}

#[test]
fn who_leaves_a_crowded_node_for_a_core_of_its_own_need_not_pay() {
    let mut world = World::new("2x2@10,20");
    let options = AttachOptions {
        require_gain: true,
        ..options()
    };
    let (_, script) = world.attach(10, &[0, 1, 1, 2], options);
    world.talk(10, 12, 5000);
    // Three on node 0, where there are two cores: 11 may go, which shares nothing. Then 12 may not.
    script.lock().unwrap().threads = vec![(12, 1), (11, 1)];
    let seen = world.window();
    assert_eq!(seen.orders(), "11>1");
    assert_eq!(seen.vetoes(), [("12".to_owned(), Veto::DoesNotPay)]);
}

#[test]
fn who_lost_its_core_waits_for_no_second_window() {
    let mut world = World::new("4x2@10,20");
    let options = AttachOptions {
        require_gain: true,
        ..options()
    };
    let (_, script) = world.attach(10, &[0, 2], options);
    world.talk(10, 11, 5000);
    script.lock().unwrap().threads = vec![(10, 0), (11, 0)];
    assert_eq!(world.window().orders(), "10>0 11>0");
    for _ in 0..8 {
        world.talk(10, 11, 5000);
        world.window();
    }
    // One plan after the other wants another of the places that there are.
    world.online = cpus("0,2-7");
    script.lock().unwrap().threads = vec![(10, 2), (11, 3)];
    world.talk(10, 11, 5000);
    assert_eq!(world.window().orders(), "10>2");
}

#[test]
fn of_a_crowded_node_goes_whose_memory_is_elsewhere() {
    let mut world = World::new("2x2@10,20");
    let options = AttachOptions {
        require_gain: true,
        ..options()
    };
    let (_, script) = world.attach(10, &[0, 1, 1, 2], options);
    world.homes.insert(500, NodeId(1));
    world.talk(10, 12, 5000);
    world.touch(11, 500, 5000);
    // The plan has 12 leave 10, whom it talks to; what 11 uses is on node 1 as it is.
    script.lock().unwrap().threads = vec![(12, 1)];
    let seen = world.window();
    assert_eq!(seen.orders(), "11>1");
    assert_eq!(seen.vetoes(), [("12".to_owned(), Veto::DoesNotPay)]);
}

#[test]
fn capacity_is_what_others_leave() {
    let mut world = World::new("2x4@10,20");
    let (first, one) = world.attach(10, &[0, 1, 2], options());
    let (second, other) = world.attach(20, &[4, 5, 6, 7, 3], options());
    one.lock().unwrap().threads = vec![(10, 0), (11, 0), (12, 0)];
    other.lock().unwrap().threads = vec![(20, 0), (21, 0), (22, 1)];
    let seen = world.window();
    // Both windows end at once: the second program sees what the first was just granted.
    assert_eq!(other.lock().unwrap().capacity, [1, 4]);
    assert_eq!(seen.orders(), "10>0 11>0 12>0 20>0 22>1");
    assert_eq!(seen.vetoes(), [("21".to_owned(), Veto::NoRoom)]);
    assert_eq!(one.lock().unwrap().capacity, [4, 4]);
    assert!(world.engine.handle_detach(world.now, first));
    assert!(!world.engine.handle_detach(world.now, first));
    world.window();
    assert_eq!(other.lock().unwrap().capacity, [4, 4]);
    assert_eq!(world.engine.attachments(), [second]);
}

#[test]
fn more_tasks_than_cores_share_evenly() {
    let mut world = World::new("2x2@10,20");
    let (_, script) = world.attach(10, &[0; 9], options());
    script.lock().unwrap().threads = (10..19).map(|tid| (tid, 0)).collect();
    let seen = world.window();
    assert_eq!(script.lock().unwrap().capacity, [5, 5]);
    assert_eq!((seen.actions.len(), seen.vetoes().len()), (5, 4));
}

#[test]
fn idle_threads_take_no_part() {
    let mut world = World::new("2x2@10,20");
    let (id, script) = world.attach(10, &[0, 1, 2], options());
    world.thread(11).busy = 0.01;
    world.window();
    assert_eq!(script.lock().unwrap().tasks, [10, 12]);
    let shares: Vec<f64> = world
        .engine
        .tasks(id)
        .iter()
        .map(|task| task.busy)
        .collect();
    assert!((shares[0] - 1.0).abs() < 1e-9 && (shares[1] - 0.01).abs() < 1e-9);
}

#[test]
fn many_drops_for_one_reason_are_counted_and_some_are_told() {
    let mut world = World::new("2x4@10,20");
    let (id, script) = world.attach(10, &[0; 100], options());
    script.lock().unwrap().threads = (10..110).map(|tid| (tid, 9)).collect();
    let seen = world.window();
    assert_eq!(
        seen.vetoes().len(),
        0,
        "a node that is not there has no name to tell"
    );
    script.lock().unwrap().threads = (10..110).map(|tid| (tid, 0)).collect();
    // Half of them fit when cores are shared evenly; of the other half all are counted.
    let seen = world.window();
    assert_eq!((seen.actions.len(), seen.vetoes().len()), (50, 50));
    (10..110).for_each(|tid| world.thread(tid).cgroup = cpus("4-7"));
    let seen = world.window();
    assert_eq!(seen.vetoes().len(), 64);
    let vetoes = &world.engine.totals(id).unwrap().vetoes;
    assert_eq!(
        (vetoes[&Veto::NoRoom], vetoes[&Veto::NotAllowed]),
        (50, 200)
    );
}

#[test]
fn nonsense_is_dropped() {
    let mut world = World::new("2x2@10,20");
    let (id, script) = world.attach(10, &[0], options());
    script.lock().unwrap().threads = vec![(10, 2), (10, 999)];
    script.lock().unwrap().pages = vec![(5, 0), (77, 1), (5, 99)];
    world.touch(10, 5, 3);
    let seen = world.window();
    assert_eq!(seen.orders(), "");
    let totals = world.engine.totals(id).unwrap();
    assert_eq!(totals.vetoes[&Veto::NotAllowed], 3);
    assert_eq!(totals.vetoes[&Veto::Gone], 1);
    let fates = &script.lock().unwrap().fates;
    assert!(
        fates
            .iter()
            .any(|(proposal, _)| matches!(proposal, Proposal::MovePage { .. }))
    );
}

#[test]
fn forbidden_nodes_and_processors_are_kept_out() {
    let mut world = World::new("2x2@10,20");
    let (_, script) = world.attach(10, &[0, 1, 2], options());
    world.thread(10).cgroup = cpus("0-1");
    world.thread(11).affinity = cpus("1,2");
    world.online = cpus("0-2");
    script.lock().unwrap().threads = vec![(10, 1), (11, 1), (12, 1)];
    let seen = world.window();
    assert_eq!(
        seen.vetoes(),
        [
            ("10".to_owned(), Veto::NotAllowed),
            ("12".to_owned(), Veto::NoRoom)
        ]
    );
    assert_eq!(world.thread(11).affinity, cpus("2"));
}

#[test]
fn one_core_each_when_asked() {
    let mut world = World::new("2x4@10,20");
    let options = AttachOptions {
        bind: Bind::Core,
        ..options()
    };
    let (_, script) = world.attach(10, &[2, 5, 6], options);
    script.lock().unwrap().threads = vec![(11, 0), (10, 0), (12, 1)];
    world.window();
    let affinity = |world: &mut World, tid| world.thread(tid).affinity.to_string();
    // 11 comes from elsewhere and gets the lowest; 10 and 12 keep the core they are on.
    assert_eq!(affinity(&mut world, 11), "0");
    assert_eq!(affinity(&mut world, 10), "2");
    assert_eq!(affinity(&mut world, 12), "6");
}

#[test]
fn cores_that_come_back_are_used() {
    let mut world = World::new("2x4@10,20");
    let options = AttachOptions {
        bind: Bind::Core,
        ..options()
    };
    let (_, script) = world.attach(10, &[0, 1, 2, 3], options);
    script.lock().unwrap().threads = vec![(10, 0), (11, 0), (12, 0), (13, 0)];
    let cgroup = |world: &mut World, text: &str| {
        for tid in 10..14 {
            let thread = world.thread(tid);
            thread.cgroup = cpus(text);
            thread.affinity = cpus(text);
        }
    };
    cgroup(&mut world, "0");
    world.window();
    // The kernel keeps masks that were set when a cpuset grows.
    for tid in 10..14 {
        assert_eq!(world.thread(tid).affinity, cpus("0"));
        world.thread(tid).cgroup = cpus("0-3");
    }
    let seen = world.window();
    assert_eq!(seen.orders(), "10>0 11>0 12>0");
    let mut masks: Vec<String> = (10..14)
        .map(|tid| world.thread(tid).affinity.to_string())
        .collect();
    masks.sort();
    assert_eq!(masks, ["0", "1", "2", "3"]);
    assert_eq!(world.window().orders(), "", "and then it is quiet");
    let fates = &script.lock().unwrap().fates;
    assert_eq!(
        fates.iter().filter(|(_, fate)| *fate == Fate::Done).count(),
        4,
        "a policy hears of its own wishes alone"
    );
}
