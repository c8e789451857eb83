//! What is known of a program that begins to do something else.

use numad_core::{AttachOptions, AttachmentId, Sample};

use crate::world::{World, options};

/// Pages that two threads share.
const PAGES: u64 = 100;

/// As page faults show it: each page is seen once in a window, now of this and now of that of the two who share it.
fn once_each(world: &mut World, window: u64, first: u64, pair: [u32; 2]) {
    for page in first..first + PAGES {
        world.touch(pair[usize::from((page * 7 + window) % 13 < 6)], page, 1);
    }
}

/// Who said most to each other in the window that has ended: half as much as any at the least.
fn talkers(world: &World, id: AttachmentId) -> Vec<(usize, usize)> {
    let (_, live, _) = world.engine.matrices(id).unwrap();
    let most = live.pairs().map(|(.., said)| said).max().unwrap_or(0);
    let loud = live.pairs().filter(|(.., said)| said * 2 >= most);
    loud.map(|(one, other, _)| (one, other)).collect()
}

fn four_threads() -> (World, AttachmentId) {
    four_threads_with(true)
}

/// The same decided about by blocks, or by single pages alone.
fn four_threads_with(by_blocks: bool) -> (World, AttachmentId) {
    let mut world = World::new("2x4@10,20");
    let gain = AttachOptions {
        require_gain: true,
        by_blocks,
        ..options()
    };
    let (id, _) = world.attach(10, &[0, 1, 2, 3], gain);
    (world, id)
}

/// Samples of hardware stand for a million accesses each.
#[test]
fn who_shares_thrice_as_much_memory_says_thrice_as_much_whatever_samples_stand_for() {
    for period in [1, 1 << 28] {
        let (mut world, id) = four_threads();
        for (first, pages, pair) in [(0, 3 * PAGES, [10, 11]), (1000, PAGES, [12, 13])] {
            for page in first..first + pages {
                let tid = pair[usize::from(page * 7 % 13 < 6)];
                let sample = world.sample(tid, page);
                world.feed(Sample { period, ..sample });
            }
        }
        world.window();
        let (_, live, _) = world.engine.matrices(id).unwrap();
        let [many, few] = [live.between(0, 1), live.between(2, 3)].map(|said| said as f64);
        assert!(
            (2.5..3.5).contains(&(many / few)),
            "{period}: {many}, {few}"
        );
    }
}

/// Partners change, and who used a page before is not taken for who shares it now.
#[test]
fn who_left_memory_shares_it_no_more_with_who_came_to_it() {
    let (mut world, id) = four_threads();
    for window in 0..10 {
        once_each(&mut world, window, 0, [10, 11]);
        once_each(&mut world, window, 1000, [12, 13]);
        world.window();
    }
    assert_eq!(talkers(&world, id), [(0, 1), (2, 3)]);
    for window in 0..4 {
        once_each(&mut world, window, 0, [10, 12]);
        once_each(&mut world, window, 1000, [11, 13]);
        world.window();
        let talkers = talkers(&world, id);
        assert_eq!(talkers, [(0, 2), (1, 3)], "{window}");
    }
}

/// Faults come in bursts, now of these threads and now of those: who is not seen has not changed.
#[test]
fn who_is_not_seen_is_taken_to_go_on() {
    let (mut world, id) = four_threads();
    for window in 0..10 {
        let pair = [[10, 11], [12, 13]][window % 2];
        for page in 0..PAGES {
            for tid in pair {
                world.touch(tid, (window as u64 % 2) * 1000 + page, 1);
            }
        }
        world.window();
        if window > 1 {
            let (_, _, decayed) = world.engine.matrices(id).unwrap();
            let (ones, others) = (decayed.between(0, 1), decayed.between(2, 3));
            assert!(ones > 0 && others > 0, "{window}: {ones} and {others}");
        }
    }
}

/// Of so many samples some are kept for blocks, and stand for all.
#[test]
fn what_is_said_as_an_era_begins_is_what_all_samples_say() {
    for by_blocks in [true, false] {
        let (mut world, id) = four_threads_with(by_blocks);
        let mut said = 0;
        for [one, other, third, last] in [[10, 11, 12, 13], [10, 11, 12, 13], [10, 12, 11, 13]] {
            world.talk(one, other, 20_000);
            world.talk(third, last, 20_000);
            world.window();
            let (_, live, _) = world.engine.matrices(id).unwrap();
            said = live.between(0, (other - one) as usize);
        }
        // Of two who use a page in random order every second sample follows one of the other.
        assert!(said.abs_diff(20_000) < 2_000, "{by_blocks}: {said}");
    }
}
