//! Which last-level cache of its node a thread gets.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use numad_core::cost::Prices;
use numad_core::{AttachOptions, Bind, Policy, Program, Proposal, Reason, Time};

use crate::world::{World, cpus, options};

/// Puts each task where the one before it in the program is, or would be, if the two talk.
#[derive(Debug)]
struct Together;

impl Policy for Together {
    fn propose(&mut self, _now: Time, program: &Program<'_>, out: &mut Vec<Proposal>) {
        for task in 1..program.tasks.len() {
            let amount = program.decayed.between(task - 1, task);
            let Some(node) = program.tasks[task - 1].node.filter(|_| amount > 0) else {
                continue;
            };
            for (task, with) in [(task - 1, task), (task, task - 1)] {
                let with = program.tasks[with].key;
                out.push(Proposal::PlaceTask {
                    task,
                    node,
                    reason: Reason::Partner { with, amount },
                });
            }
        }
    }
}

/// Puts tasks into caches with partners, all by position, as it is told.
#[derive(Debug)]
struct Told(Arc<Mutex<Vec<[usize; 3]>>>);

impl Policy for Told {
    fn propose(&mut self, _now: Time, program: &Program<'_>, out: &mut Vec<Proposal>) {
        let told = self.0.lock().unwrap();
        let here = told.iter().filter(|_| program.tasks.len() > 1);
        out.extend(here.map(|&[task, node, with]| Proposal::PlaceTask {
            task,
            node,
            reason: Reason::Partner {
                with: program.tasks[with].key,
                amount: 1,
            },
        }));
    }
}

/// Of a policy that seeks a gain, moves being free.
fn gainful(bind: Bind) -> AttachOptions {
    AttachOptions {
        bind,
        require_gain: true,
        prices: Prices {
            task_move_ns: 0.0,
            ..Prices::default()
        },
        ..options()
    }
}

/// Two nodes of two caches of four cores each; 10 and 11 talk, 12 does not, all placed on node 0.
fn world(bind: Bind) -> World {
    let mut world = World::new("2x8:2@10,20");
    world.engine.map_within_nodes(Box::new(Together));
    let (_, script) = world.attach(10, &[0, 4, 5], gainful(bind));
    script.lock().unwrap().threads = vec![(10, 0), (11, 0), (12, 0)];
    world
}

fn masks(world: &mut World) -> [String; 3] {
    [10, 11, 12].map(|tid| world.thread(tid).affinity.to_string())
}

#[test]
fn partners_get_one_cache_of_their_node_and_others_all_of_it() {
    let mut world = world(Bind::Cache);
    world.talk(10, 11, 20);
    let seen = world.window();
    assert_eq!(seen.orders(), "10>0 11>0 12>0");
    assert_eq!(masks(&mut world), ["0-3", "0-3", "0-7"]);
    // And stay there.
    world.talk(10, 11, 20);
    assert_eq!(world.window().orders(), "");
}

#[test]
fn who_comes_to_talk_on_its_node_is_told_why_it_moves() {
    let mut world = world(Bind::Cache);
    world.talk(10, 12, 20);
    world.window();
    assert_eq!(masks(&mut world), ["0-7", "0-7", "0-7"]);
    world.talk(10, 11, 20);
    world.touch(12, 500, 20);
    let seen = world.window();
    assert_eq!(seen.orders(), "10>0 11>0");
    let reasons = seen.actions.iter().map(|action| match action {
        numad_core::Action::Bind { reason, .. } => reason.to_string(),
        other => format!("{other:?}"),
    });
    let reasons: Vec<String> = reasons.collect();
    assert_eq!(
        reasons[1],
        "shares memory with thread 10 (amount 20), and a cache from now on"
    );
    assert_eq!(masks(&mut world), ["0-3", "0-3", "0-7"]);
}

#[test]
fn whole_nodes_when_asked_and_one_core_within_the_cache() {
    for (bind, expected) in [
        (Bind::Node, ["0-7", "0-7", "0-7"]),
        (Bind::Core, ["0", "1", "5"]),
    ] {
        let mut world = world(bind);
        world.talk(10, 11, 20);
        world.window();
        assert_eq!(masks(&mut world), expected, "{bind:?}");
    }
}

#[test]
fn a_policy_that_seeks_no_gain_is_not_refined() {
    let mut world = World::new("2x8:2@10,20");
    world.engine.map_within_nodes(Box::new(Together));
    let (_, script) = world.attach(10, &[0, 4], options());
    script.lock().unwrap().threads = vec![(10, 0), (11, 0)];
    world.talk(10, 11, 20);
    world.window();
    assert_eq!(world.thread(11).affinity, cpus("0-7"));
}

/// Who would leave for nobody's sake stays, and then there is no place for who comes.
#[test]
fn a_cache_gets_no_more_threads_than_it_has_cores() {
    let mut world = World::new("2x4:2@10,20");
    let told = Arc::new(Mutex::new(vec![[0, 0, 1], [1, 0, 0]]));
    world
        .engine
        .map_within_nodes(Box::new(Told(Arc::clone(&told))));
    let restless = AttachOptions {
        hold: Duration::ZERO,
        ..gainful(Bind::Cache)
    };
    let (_, script) = world.attach(10, &[0, 1, 2], restless);
    script.lock().unwrap().threads = vec![(10, 0), (11, 0), (12, 0)];
    world.talk(10, 11, 20);
    world.window();
    assert_eq!(masks(&mut world), ["0-1", "0-1", "0-3"]);
    *told.lock().unwrap() = vec![[0, 1, 1], [2, 0, 1]];
    for _ in 0..3 {
        world.talk(11, 12, 200);
        world.window();
        assert_eq!(masks(&mut world), ["0-1", "0-1", "0-3"]);
    }
}

/// The kernel keeps a mask of ours within a cpuset that grows.
#[test]
fn who_may_run_on_more_processors_than_before_gets_them() {
    let mut world = world(Bind::Cache);
    let limit = |world: &mut World, cgroup| {
        for tid in 10..13 {
            let thread = world.thread(tid);
            thread.cgroup = cpus(cgroup);
            thread.affinity = thread.affinity.intersection(&cpus(cgroup));
        }
    };
    limit(&mut world, "2-7");
    world.talk(10, 11, 20);
    world.window();
    assert_eq!(masks(&mut world), ["2-3", "2-3", "2-7"]);
    limit(&mut world, "2-6");
    assert_eq!(world.window().orders(), "");
    limit(&mut world, "0-7");
    world.touch(12, 500, 20);
    world.window();
    assert_eq!(masks(&mut world), ["0-3", "0-3", "0-7"]);
    world.touch(12, 500, 20);
    assert_eq!(world.window().orders(), "");
}

/// Whether anything is seen or not: two that share a core lose more than a cache is worth.
#[test]
fn who_has_no_core_left_in_its_cache_has_the_node_again() {
    for talk in [0, 20] {
        let mut world = world(Bind::Cache);
        world.talk(10, 11, 20);
        world.window();
        for tid in 10..13 {
            let thread = world.thread(tid);
            thread.cgroup = cpus("3-7");
            thread.affinity = thread.affinity.intersection(&cpus("3-7"));
        }
        assert_eq!(masks(&mut world), ["3", "3", "3-7"]);
        world.talk(10, 11, talk);
        let seen = world.window();
        assert_eq!(seen.orders(), "11>0");
        assert_eq!(masks(&mut world), ["3", "3-7", "3-7"]);
        world.talk(10, 11, talk);
        assert_eq!(world.window().orders(), "");
    }
}

#[test]
fn a_cpuset_limits_caches_too() {
    for (cgroup, expected) in [
        ("2-7", ["2-3", "2-3", "2-7"]),
        // One place in that cache: not for two.
        ("3-7", ["3-7", "3-7", "3-7"]),
        // None at all.
        ("4-7", ["4-7", "4-7", "4-7"]),
    ] {
        let mut world = world(Bind::Cache);
        for tid in 10..13 {
            let thread = world.thread(tid);
            (thread.cgroup, thread.affinity) = (cpus(cgroup), cpus(cgroup));
        }
        world.talk(10, 11, 20);
        world.window();
        assert_eq!(masks(&mut world), expected, "{cgroup}");
    }
}

#[test]
fn places_that_other_programs_hold_are_taken() {
    let mut world = world(Bind::Cache);
    // Three of the four cores of the first cache.
    let (_, others) = world.attach(20, &[1, 2, 3], options());
    others.lock().unwrap().threads = vec![(20, 0), (21, 0), (22, 0)];
    for tid in 20..23 {
        world.touch(tid, 7, 10);
    }
    world.talk(10, 11, 20);
    world.window();
    world.talk(10, 11, 20);
    world.window();
    assert_eq!(masks(&mut world), ["0-7", "0-7", "0-7"]);
}

#[test]
fn a_thread_that_someone_else_bound_has_its_core() {
    for (bound, expected) in [("0", ["0-3", "0-3"]), ("4", ["0-1", "0-1"])] {
        let mut world = World::new("2x4:2@10,20");
        world.engine.map_within_nodes(Box::new(Together));
        let (_, script) = world.attach(10, &[0, 1, 2], gainful(Bind::Cache));
        script.lock().unwrap().threads = vec![(12, 0)];
        world.touch(12, 500, 20);
        world.window();
        world.thread(12).affinity = cpus(bound);
        world.thread(12).cpu = cpus(bound).first().unwrap();
        script.lock().unwrap().threads = vec![(10, 0), (11, 0)];
        for _ in 0..2 {
            world.talk(10, 11, 20);
            world.touch(12, 500, 20);
            world.window();
        }
        let masks = [10, 11].map(|tid| world.thread(tid).affinity.to_string());
        assert_eq!(masks, expected, "{bound}");
    }
}

#[test]
fn who_comes_from_another_node_gets_a_cache_at_once() {
    let mut world = world(Bind::Cache);
    let (_, script) = world.attach(20, &[9, 1], gainful(Bind::Cache));
    script.lock().unwrap().threads = vec![(20, 1), (21, 1)];
    world.talk(20, 21, 20);
    assert_eq!(world.window().orders(), "20>1 21>1");
    assert_eq!(world.thread(20).affinity, cpus("8-11"));
    assert_eq!(world.thread(21).affinity, cpus("8-11"));
}
