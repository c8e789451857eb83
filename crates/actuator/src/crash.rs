//! Dying at any moment and starting again, against a kernel that dies when told to.

use std::fs::{self, OpenOptions};
use std::panic::{AssertUnwindSafe, catch_unwind};

use numad_core::{AttachmentId, Host as _};
use proptest::prelude::*;
use topology::{CpuSet, Pid, Tid};

use crate::fake::{Bench, Death, Hold, Killed, bind_action, move_action, move_shared, set};
use crate::pacer::Movers;
use crate::undo::AT_ONCE;
use crate::{Live, ProcessKey, Scope};

/// What happens on the machine, by us and by the program.
#[derive(Clone, Debug)]
enum Step {
    Bind {
        task: usize,
        mask: usize,
    },
    Move {
        process: usize,
        from: u64,
        count: u64,
        node: u32,
    },
    MoveShared {
        process: usize,
        from: u64,
        count: u64,
        node: u32,
    },
    Spawn {
        maker: usize,
    },
    Fork {
        maker: usize,
    },
    Exit {
        task: usize,
    },
    End {
        process: usize,
    },
    Unmap {
        process: usize,
        page: u64,
    },
    Cpuset {
        process: usize,
        to: usize,
    },
    Balance {
        on: bool,
    },
    Tidy,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..64_usize, 0..MASKS.len()).prop_map(|(task, mask)| Step::Bind { task, mask }),
        1 => Just(Step::Tidy),
        1 => any::<bool>().prop_map(|on| Step::Balance { on }),
        4 => (0..8_usize, 0..PAGES, 1..PAGES, 0..2_u32)
            .prop_map(|(process, from, count, node)| Step::Move { process, from, count, node }),
        2 => (0..8_usize, 0..SHARED, 1..SHARED, 0..2_u32)
            .prop_map(|(process, from, count, node)| Step::MoveShared { process, from, count, node }),
        2 => (0..64_usize).prop_map(|maker| Step::Spawn { maker }),
        1 => (0..64_usize).prop_map(|maker| Step::Fork { maker }),
        1 => (0..64_usize).prop_map(|task| Step::Exit { task }),
        1 => (0..8_usize).prop_map(|process| Step::End { process }),
        1 => (0..8_usize, 0..PAGES).prop_map(|(process, page)| Step::Unmap { process, page }),
        1 => (0..8_usize, 0..CPUSETS.len()).prop_map(|(process, to)| Step::Cpuset { process, to }),
    ]
}

/// Masks that we set: whole nodes, and single cores.
const MASKS: [&str; 5] = ["0-3", "4-7", "0", "5", "0-7"];
/// Masks of users, none like ours, so that who had which is never in doubt.
const USER_MASKS: [&str; 3] = ["1-2", "2,6", "4-6"];
/// None is without a processor of any mask above: what a mask comes to in a cpuset that has none of
/// its processors is told in `live_tests`.
const CPUSETS: [&str; 3] = ["0-7", "0-6", "0-2,4-7"];
const PAGES: u64 = 200;
const PAGES_TOGETHER: usize = 40;
/// Pages of memory that all processes share, at an address of its own in the two first and their children.
const SHARED: u64 = 40;

fn shared_at(pid: u64) -> u64 {
    pid << 30
}

fn machine(bench: &Bench, users: bool) {
    let mut world = bench.fake.0.borrow_mut();
    for pid in [100, 200] {
        world.add_process(pid, 1, "0-7");
        for index in 1..6 {
            let mask = (users && index % 2 == 0).then(|| USER_MASKS[index % USER_MASKS.len()]);
            world.add_task(pid, pid + u32::try_from(index).unwrap(), mask);
        }
        world.add_pages(pid, PAGES, pid / 200);
        for (index, hold) in [(7, Hold::Busy), (50, Hold::Shared), (90, Hold::Stuck)] {
            world.pages.get_mut(&(Pid(pid), index * 4096)).unwrap().hold = hold;
        }
        world.share(pid, shared_at(pid.into()), SHARED, 0);
    }
}

/// Moves pages of the memory that a process shares, if it maps any.
fn move_of_shared(
    bench: &Bench,
    live: &mut Live<crate::fake::Fake, crate::fake::Fake>,
    pid: Pid,
    pages: std::ops::Range<u64>,
    node: u32,
) {
    let range = bench.fake.0.borrow().maps[&pid].first().copied();
    if let Some(range) = range {
        let pages = pages.map(|page| range.start + page * 4096);
        live.perform(&move_shared(pid, pages.collect(), node));
    }
}

/// Moves pages of a process as one window does: some of them to one node, some to the other.
fn move_of_own(
    live: &mut Live<crate::fake::Fake, crate::fake::Fake>,
    pid: Pid,
    pages: std::ops::Range<u64>,
    node: u32,
) {
    let pages: Vec<u64> = pages.map(|page| page * 4096).collect();
    let nodes = [node, 1 - node, node, node, 1 - node];
    let actions = pages.chunks(PAGES_TOGETHER).zip(nodes);
    let actions = actions.map(|(pages, node)| move_action(pid, pages.to_vec(), node));
    live.perform_all(&actions.collect::<Vec<_>>());
}

fn take(bench: &Bench, live: &mut Live<crate::fake::Fake, crate::fake::Fake>, step: &Step) {
    let tids: Vec<Tid> = bench.fake.0.borrow().tasks.keys().copied().collect();
    let pids: Vec<Pid> = bench.fake.0.borrow().cpusets.keys().copied().collect();
    let next = tids.last().map_or(1000, |tid| tid.0.max(1000) + 1);
    let tid = |index: usize| tids[index % tids.len()];
    let pid = |index: usize| pids[index % pids.len()];
    let mut world = bench.fake.0.borrow_mut();
    match *step {
        Step::Bind { task, mask } => {
            let key = world.tasks[&tid(task)].key;
            drop(world);
            live.perform(&bind_action(key, &set(MASKS[mask])));
        }
        Step::Move {
            process,
            from,
            count,
            node,
        } => {
            drop(world);
            move_of_own(live, pid(process), from..(from + count).min(PAGES), node);
        }
        Step::MoveShared {
            process,
            from,
            count,
            node,
        } => {
            let (pid, pages) = (pid(process), from..(from + count).min(SHARED));
            drop(world);
            move_of_shared(bench, live, pid, pages, node);
        }
        // One of the two first stays, which has all that is shared.
        Step::End { process } if pid(process) != Pid(100) => world.end(pid(process)),
        Step::Spawn { maker } => {
            let owner = world.tasks[&tid(maker)].key.pid;
            world.spawn(tid(maker), owner.0, next);
        }
        Step::Fork { maker } => {
            let key = world.spawn(tid(maker), next, next);
            drop(world);
            // The daemon sees it at once, or else an orphan has nothing that leads to it.
            let (pid, start) = (key.pid, key.start);
            live.follow(AttachmentId(1), &[ProcessKey { pid, start }]);
        }
        // The first thread stays, so that the process does.
        Step::Exit { task } if world.tasks[&tid(task)].key.pid.0 != tid(task).0 => {
            world.tasks.remove(&tid(task));
        }
        Step::Unmap { process, page } => {
            world.pages.remove(&(pid(process), page * 4096));
        }
        Step::Cpuset { process, to } => {
            world.cpusets.insert(pid(process), set(CPUSETS[to]));
        }
        Step::Balance { on: true } => {
            drop(world);
            live.balance().unwrap();
        }
        Step::Balance { on: false } => {
            drop(world);
            live.leave_balancing().unwrap();
        }
        Step::Tidy => {
            drop(world);
            live.prune();
        }
        Step::Exit { .. } | Step::End { .. } => {}
    }
}

/// Everything as it would be without us. Who of several made a newborn cannot be known, so it may have
/// what another thread had, but nothing of ours.
pub(crate) fn assert_natural(bench: &Bench) {
    let world = bench.fake.0.borrow();
    for task in world.tasks.values() {
        let users = |mask: &CpuSet| USER_MASKS.iter().any(|user| set(user) == *mask);
        let another = task.newborn && task.mask.as_ref().is_none_or(users);
        assert!(task.mask == task.natural || another, "{task:?}");
    }
    for (place, page) in &world.pages {
        assert_eq!(page.node, page.natural, "{place:?}");
    }
    assert_eq!(world.balancing, 0);
}

/// Runs until the end or until death; true if it died.
fn dies(run: impl FnOnce()) -> bool {
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(()) => false,
        Err(thrown) if thrown.is::<Killed>() => true,
        Err(thrown) => std::panic::resume_unwind(thrown),
    }
}

/// Cuts the row that was being written, anywhere. Its change was not made.
fn tear(bench: &Bench, share: f64) {
    let settled = bench.fake.0.borrow().settled;
    let path = bench.directory.join("journal");
    let length = fs::metadata(&path).unwrap().len();
    if length > settled {
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "any byte will do"
        )]
        let kept = settled + ((length - settled) as f64 * share) as u64;
        let file = OpenOptions::new().write(true).open(path).unwrap();
        file.set_len(kept).unwrap();
    }
}

/// `at_once` is how many pages an undo has on their way: with few it goes part by part. `movers` is how many calls go on side
/// by side.
fn kill_and_undo(
    users: bool,
    (at_once, movers): (usize, usize),
    steps: &[Step],
    deaths: [Death; 2],
    share: f64,
) {
    let bench = Bench::new();
    machine(&bench, users);
    let live = || {
        let mut live = bench.live();
        live.at_once = at_once;
        live.movers = Movers::always(movers);
        live
    };
    let mut first = live();
    bench.fake.0.borrow_mut().death = Some(deaths[0]);
    let died = dies(|| {
        for step in steps {
            let cpuset = matches!(step, Step::Cpuset { .. });
            if !(users && cpuset) {
                take(&bench, &mut first, step);
            }
        }
    });
    drop(first);
    if died && !deaths[0].applied {
        tear(&bench, share);
    }
    // The next start dies while it undoes; the one after that does not.
    bench.fake.0.borrow_mut().death = Some(deaths[1]);
    dies(|| drop(live().undo(&Scope::All)));
    bench.fake.0.borrow_mut().death = None;
    let mut last = live();
    let report = last.undo(&Scope::All);
    assert!(report.is_complete(), "{report:?}");
    assert_eq!(last.journal().open_rows(), 0);
    assert_natural(&bench);
    assert_eq!(last.undo(&Scope::All), crate::UndoReport::default());
}

fn death(most: u32) -> impl Strategy<Value = Death> {
    (0..most, any::<bool>()).prop_map(|(after, applied)| Death { after, applied })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn dying_at_any_moment_costs_nothing(
        users: bool,
        at_once in prop::sample::select(vec![0, AT_ONCE]),
        movers in 1..5_usize,
        steps in prop::collection::vec(step(), 1..60),
        deaths in [death(80), death(40)],
        share in 0.0..1.0_f64,
    ) {
        kill_and_undo(users, (at_once, movers), &steps, deaths, share);
    }
}

/// One row after another, the last cut at every byte.
#[test]
fn a_row_cut_at_any_byte_was_never_acted_on() {
    let bench = Bench::new();
    {
        let mut world = bench.fake.0.borrow_mut();
        world.add_process(100, 1, "0-7");
        world.add_pages(100, 70, 0);
    }
    let mut live = bench.live();
    let main = bench.fake.0.borrow().tasks[&Tid(100)].key;
    live.perform(&bind_action(main, &set("0-3")));
    let before = fs::read(bench.directory.join("journal")).unwrap().len();
    bench.fake.0.borrow_mut().death = Some(Death {
        after: 0,
        applied: false,
    });
    assert!(dies(|| drop(live.perform(&move_action(
        Pid(100),
        (0..70).map(|page| page * 4096).collect(),
        1
    )))));
    drop(live);
    let whole = fs::read(bench.directory.join("journal")).unwrap();
    bench.fake.0.borrow_mut().death = None;
    for length in before..=whole.len() {
        fs::write(bench.directory.join("journal"), &whole[..length]).unwrap();
        bench
            .fake
            .0
            .borrow_mut()
            .tasks
            .get_mut(&Tid(100))
            .unwrap()
            .mask = Some(set("0-3"));
        let mut live = bench.live();
        let report = live.undo(&Scope::All);
        assert_eq!(report.threads_restored, 1, "{length}");
        assert_natural(&bench);
    }
}
