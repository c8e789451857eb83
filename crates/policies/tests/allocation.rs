//! What a workspace that is kept is for: mapping again allocates nothing.

#![deny(unsafe_code)]

use policies::kernel::{Edges, Effort, Problem, Workspace, drb, map, refine};
use testkit::Dice;

/// Counts what this thread allocates, on top of the allocator of the system.
#[expect(
    unsafe_code,
    reason = "an allocator is an unsafe trait; every call is handed on as it came"
)]
mod counting {
    use std::alloc::{GlobalAlloc, Layout, System};
    use std::cell::Cell;

    thread_local! {
        static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    }

    pub(super) struct Counting;

    fn count() {
        ALLOCATIONS.with(|counter| counter.set(counter.get() + 1));
    }

    // SAFETY: all memory comes from and goes back to `System`, which keeps the trait's promises; counting
    // touches a `Cell` that has no destructor and is there from the start, so it neither allocates nor unwinds.
    unsafe impl GlobalAlloc for Counting {
        unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
            count();
            // SAFETY: the caller keeps `System`'s conditions, which are those of this trait.
            unsafe { System.alloc(layout) }
        }

        unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
            // SAFETY: `memory` came from `System` with this layout, as the caller promises.
            unsafe { System.dealloc(memory, layout) }
        }

        unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
            count();
            // SAFETY: as for `dealloc`; the caller answers for `size`.
            unsafe { System.realloc(memory, layout, size) }
        }
    }

    /// Allocations of this thread so far.
    pub(super) fn allocations() -> u64 {
        ALLOCATIONS.with(Cell::get)
    }
}

#[global_allocator]
static COUNTING: counting::Counting = counting::Counting;

/// Talk among so many tasks: neighbours on a ring, groups, a few friends of chance, or all with all.
fn talk(kind: u64, tasks: u32, dice: &mut Dice) -> Vec<(u32, u32, u64)> {
    let mut pairs = Vec::new();
    for one in 0..tasks {
        let amount = |dice: &mut Dice| 1 + dice.roll() % 1000;
        match kind {
            0 => pairs.push((one, (one + 1) % tasks, 900 + dice.roll() % 100)),
            1 => {
                let end = (one / 6 * 6 + 6).min(tasks);
                pairs.extend((one + 1..end).map(|other| (one, other, 70)));
            }
            2 => pairs.extend((0..4).map(|_| {
                let other = u32::try_from(dice.roll() % u64::from(tasks)).unwrap_or(0);
                (one, other, amount(dice))
            })),
            _ => pairs.extend((one + 1..tasks).map(|other| (one, other, amount(dice)))),
        }
    }
    pairs
}

/// A board of two squares of four nodes, and four sockets of two.
const MACHINES: [fn(usize, usize) -> u32; 2] = [
    |one, other| 10 + 6 * (one ^ other).count_ones(),
    |one, other| if one / 2 == other / 2 { 12 } else { 20 },
];

/// Maps all kinds of talk on a machine, from nothing and from what was found; what that allocated,
/// apart from putting the questions.
fn round(far: fn(usize, usize) -> u32, tasks: u32, kept: &mut (Workspace, Edges)) -> u64 {
    let (workspace, edges) = kept;
    let mut dice = Dice::new(u64::from(tasks));
    let distance: Vec<u32> = (0..64).map(|at| far(at / 8, at % 8)).collect();
    let capacity = [tasks.div_ceil(8); 8];
    let mut allocated = 0;
    for kind in 0..4 {
        let pairs = talk(kind, tasks, &mut dice);
        let mut found = vec![0; tasks as usize];
        let before = counting::allocations();
        edges.refill(tasks as usize, &pairs);
        let problem = Problem::new(edges, &distance, &capacity).expect("it has room");
        found.copy_from_slice(map(&problem, Effort::ONLINE, workspace));
        let _ = map(&problem, Effort::THOROUGH, workspace);
        let _ = drb(&problem, Effort::ONLINE, workspace);
        found.rotate_left(1);
        let warm = problem.warm(&found, 50).expect("one node for each task");
        let _ = map(&warm, Effort::ONLINE, workspace);
        let _ = map(&warm, Effort::THOROUGH, workspace);
        let _ = refine(&warm, Effort::ONLINE, workspace);
        allocated += counting::allocations() - before;
    }
    allocated
}

#[test]
fn mapping_again_on_a_machine_allocates_nothing() {
    for (machine, far) in MACHINES.into_iter().enumerate() {
        for tasks in [8, 37, 64, 200] {
            let mut kept = <(Workspace, Edges)>::default();
            assert!(round(far, tasks, &mut kept) > 0, "it counts");
            let again = round(far, tasks, &mut kept);
            assert_eq!(again, 0, "{tasks} tasks on machine {machine}");
        }
    }
}
