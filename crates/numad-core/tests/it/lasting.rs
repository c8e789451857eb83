//! Memory that goes on to be used by those who used it before, and memory that does not.

use numad_core::AttachOptions;
use topology::NodeId;

use crate::world::{World, options};

/// Pages that all sweep, and pages of each thread's own.
const SWEPT: u64 = 512;
const OWN: u64 = 64;
/// Pages in a row that a thread is the first to come to.
const STRETCH: usize = 32;

/// Of the pages that all sweep and of those that are a thread's own the share that is said to be anyone's, after so many
/// windows in which of each page is seen who came first.
fn anyones(windows: u64, options: AttachOptions) -> (f64, f64) {
    let mut world = World::new("4x2@10,20");
    let (_, script) = world.attach(10, &[0, 1, 2, 3, 4, 5, 6, 7], options);
    let mut state = 7_u64;
    let mut anyone = || {
        // Marsaglia's xorshift.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        10 + u32::try_from(state % 8).unwrap()
    };
    for _ in 0..windows {
        for first in (0..SWEPT).step_by(STRETCH) {
            let tid = anyone();
            (first..SWEPT)
                .take(STRETCH)
                .for_each(|page| world.touch(tid, page, 1));
        }
        for tid in 10..18 {
            let first = 10_000 * u64::from(tid);
            (first..first + OWN).for_each(|page| world.touch(tid, page, 1));
        }
        world.homes = (0..SWEPT).map(|page| (page, NodeId(0))).collect();
        world.window();
    }
    let found = &script.lock().unwrap().anyones;
    let of = |is_swept: bool, all: u64| {
        let pages = found.iter().filter(|(page, _)| (*page < SWEPT) == is_swept);
        pages.map(|(_, span)| span).sum::<u64>() as f64 / all as f64
    };
    (of(true, SWEPT), of(false, 8 * OWN))
}

fn gain() -> AttachOptions {
    AttachOptions {
        require_gain: true,
        ..options()
    }
}

#[test]
fn who_comes_first_to_what_all_sweep_says_nothing_of_who_uses_it() {
    assert_eq!(anyones(2, gain()), (0.0, 0.0), "once is no rule");
    let (swept, own) = anyones(12, gain());
    assert!(swept > 0.8, "{swept} of what all sweep");
    assert!(own < 0.01, "{own} of what is a thread's own");
}

/// Each page is on the node of the thread that uses it, and so few are seen that nothing else tells
/// whose they are.
#[test]
fn memory_that_is_used_from_where_it_is_is_nobody_elses() {
    let mut world = World::new("4x2@10,20");
    let (_, script) = world.attach(10, &[0, 1, 2, 3, 4, 5, 6, 7], gain());
    let mut state = 7_u64;
    let homes = |page: u64| NodeId(u32::try_from(page / 16 % 4).unwrap());
    for _ in 0..3 {
        for _ in 0..400 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let page = state % 200_000;
            let tid = 10 + 2 * homes(page).0 + u32::try_from(state >> 40 & 1).unwrap();
            world.homes.insert(page, homes(page));
            world.touch(tid, page, 1);
        }
        world.window();
    }
    let beside = script.lock().unwrap().beside;
    assert!(beside > 0.9, "{beside} of all uses");
}

#[test]
fn by_single_pages_everything_is_as_it_was_seen() {
    let options = AttachOptions {
        by_blocks: false,
        ..gain()
    };
    assert_eq!(anyones(12, options), (0.0, 0.0));
}
