//! Explicit messages between processes, as an MPI library counts them.

use numad_core::cost::Prices;
use numad_core::{AttachOptions, Sent};
use topology::Pid;

use crate::world::{World, options};

fn sent(from: u32, to: u32, bytes: u64, messages: u64) -> Sent {
    Sent {
        from: Pid(from),
        to: Pid(to),
        bytes,
        messages,
    }
}

/// Process 10 with one thread, and 20 with two.
fn world() -> (World, numad_core::AttachmentId) {
    let mut world = World::new("2x2");
    let (id, _) = world.attach(10, &[0], options());
    assert!(world.engine.handle_joining(id, Pid(20)));
    world.add_thread(id, 20, 20, 1);
    world.add_thread(id, 20, 21, 2);
    world.window();
    (world, id)
}

#[test]
fn messages_are_in_the_matrix_and_evidence() {
    let (mut world, id) = world();
    // A thousand lines, and two for each of ten messages, shared out to two threads.
    world.engine.handle_messages(&[sent(10, 20, 64_000, 10)]);
    let seen = world.window();
    let (keys, live, _) = world.engine.matrices(id).unwrap();
    let tids: Vec<u32> = keys.iter().map(|key| key.tid.0).collect();
    assert_eq!(tids, [10, 20, 21]);
    assert_eq!(live.pairs().collect::<Vec<_>>(), [(0, 1, 510), (0, 2, 510)]);
    assert!(seen.summary().samples >= 1020 && seen.summary().confident);
}

#[test]
fn what_is_not_between_two_of_one_program_is_ignored() {
    let (mut world, id) = world();
    let strange = [
        sent(10, 10, 1 << 20, 1),
        sent(10, 99, 1 << 20, 1),
        sent(99, 20, 1 << 20, 1),
    ];
    world.engine.handle_messages(&strange);
    world.window();
    let (_, live, _) = world.engine.matrices(id).unwrap();
    assert_eq!(live.pairs().count(), 0);
}

#[test]
fn no_number_is_too_large() {
    let (mut world, id) = world();
    for _ in 0..20 {
        for _ in 0..300 {
            let lie = sent(20, 10, u64::MAX, u64::MAX);
            world.engine.handle_messages(&[lie, sent(10, 20, 0, 0)]);
        }
        // What is sampled after that counts on top.
        world.touch(10, 1, 1);
        world.window();
    }
    let (_, live, _) = world.engine.matrices(id).unwrap();
    assert!(live.between(0, 1) > 0);
}

/// Pages of their own are most of what ranks use, and no two use the same one: a plan is weighed by messages as well.
#[test]
fn ranks_go_to_who_they_send_to_although_they_share_no_page() {
    let ordered = |messages: u64| {
        let mut world = World::new("2x2@10,20");
        let options = AttachOptions {
            require_gain: true,
            ..options()
        };
        let (id, script) = world.attach(10, &[0], options);
        for (pid, cpu) in [(20, 2), (30, 1), (40, 3)] {
            assert!(world.engine.handle_joining(id, Pid(pid)));
            world.add_thread(id, pid, pid, cpu);
        }
        world.window();
        script.lock().unwrap().threads = vec![(20, 0), (30, 1)];
        let mut orders = Vec::new();
        for _ in 0..4 {
            for (rank, tid) in (1..).zip([10, 20, 30, 40]) {
                world.touch(tid, rank * 100, 40);
            }
            let pairs = [(10, 20), (20, 10), (30, 40), (40, 30)];
            let sent = pairs.map(|(from, to)| sent(from, to, messages * 6400, messages));
            world.engine.handle_messages(&sent);
            orders.push(world.window().orders());
        }
        orders.concat()
    };
    let both = ordered(100);
    assert!(both.contains("20>0") && both.contains("30>1"), "{both}");
    // Each is kept where it is.
    assert_eq!(ordered(0), "20>1 30>0");
}

/// A thousand faults in a second of four threads stand for thousands of accesses each: lines that
/// were sent must not count as if each fault stood for the lines of its page alone.
#[test]
fn messages_count_beside_faults_by_what_a_fault_stands_for() {
    let mut world = World::new("2x2");
    let prices = Prices {
        accesses_per_amount: 64.0,
        accesses_per_busy_second: 1_000_000.0,
        ..Prices::default()
    };
    let (id, _) = world.attach(
        10,
        &[0, 2],
        AttachOptions {
            prices,
            ..options()
        },
    );
    assert!(world.engine.handle_joining(id, Pid(20)));
    world.add_thread(id, 20, 20, 1);
    world.add_thread(id, 20, 21, 3);
    world.window();
    world.talk(10, 11, 100);
    world.talk(20, 21, 100);
    world
        .engine
        .handle_messages(&[sent(10, 20, 20_000_000, 100)]);
    world.window();
    let (_, live, _) = world.engine.matrices(id).unwrap();
    let (within, across) = (live.between(0, 1), live.between(0, 2));
    assert!(across > 0 && across * 4 < within, "{across} and {within}");
}

/// A period is what it is however many samples of a window have come.
#[test]
fn how_many_accesses_a_sample_stands_for_does_not_change_within_a_window() {
    let mut world = World::new("2x2");
    let (id, _) = world.attach(10, &[0, 2], options());
    for _ in 0..6 {
        world.talk(10, 11, 50);
        world.window();
    }
    world.talk(10, 11, 500);
    let stands_for = world.engine.samples_per_amount(id).recip();
    assert!((stands_for - 1.0).abs() < 0.01, "{stands_for}");
}
