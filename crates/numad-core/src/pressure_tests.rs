use std::time::Duration;

use topology::{Pid, StartTicks, TaskKey, Tid, Topology};

use super::*;
use crate::CommMatrix;
use crate::cost::Prices;
use crate::engine::AttachOptions;
use crate::evening::evened;
use crate::evidence::Certainty;
use crate::guard::{PageCase, PageWish, Standing, ThreadCase, ThreadVerdicts};
use crate::policy::{ACCESSORS_MAX, Accessor, PageKey, Plan, Proposal, Reason, SpaceId, Task};

/// Four tasks, each with a busy page; the first two talk.
struct Scene {
    topology: Topology,
    model: MachineModel,
    tasks: Vec<Task>,
    live: CommMatrix,
    pages: Vec<Page>,
    prices: Prices,
}

impl Scene {
    /// Tasks on these nodes, their pages on those; each access of a task is to its page.
    fn new(nodes: [usize; 4], homes: [u16; 4], weight: u32) -> Self {
        let key = |number| TaskKey {
            pid: Pid(1),
            tid: Tid(number),
            start: StartTicks(1),
        };
        let tasks = nodes.into_iter().zip(1..).map(|(node, number)| Task {
            key: key(number),
            node: Some(node),
            allowed: vec![true; 2],
            busy: 1.0,
            samples: 100,
        });
        let pages = homes.into_iter().zip(0..).map(|(home, task)| {
            let mut recent = [Accessor::default(); ACCESSORS_MAX];
            recent[0] = Accessor { task, weight };
            Page {
                key: PageKey {
                    space: SpaceId(0),
                    page: task.into(),
                },
                slot: task,
                home: Some(home),
                recent,
                accessor_count: 1,
                samples: 1,
                forgotten: 0,
                span: 1,
            }
        });
        let mut live = CommMatrix::new(4);
        live.add(0, 1, 50_000);
        let topology = topology::synthetic::parse("2x4@10,14").unwrap();
        Self {
            model: MachineModel::new(&topology),
            topology,
            tasks: tasks.collect(),
            live,
            pages: pages.collect(),
            prices: Prices::default(),
        }
    }

    /// Pages by slot, each with the node it would go to.
    fn moves(&self, wanted: &[(u32, usize)]) -> Vec<(&Page, usize)> {
        let moves = wanted.iter();
        moves
            .map(|&(slot, node)| (&self.pages[slot as usize], node))
            .collect()
    }

    fn program(&self) -> Program<'_> {
        Program {
            topology: &self.topology,
            model: &self.model,
            tasks: &self.tasks,
            capacity: &[4; 2],
            free_bytes: &[1 << 30; 2],
            live: &self.live,
            decayed: &self.live,
            pages: &self.pages,
            page_bytes: 4096,
            window: Duration::from_millis(500),
            samples: 1000,
            prices: self.prices,
            handed: None,
            ipc: None,
            memory_per_weight: 1.0,
            era: 0,
            records: &[],
        }
    }

    /// With so many GB/s measured at each node.
    fn pressure(&self, gbps: [Option<f64>; 2]) -> Pressure {
        let mut model = MachineModel::new(&self.topology);
        for (memory, gbps) in gbps.iter().enumerate() {
            model.saw(memory, gbps.unwrap_or(0.0));
        }
        Pressure::counted(&model, &gbps, &self.program())
    }

    fn threads(
        &self,
        wishes: &[(usize, usize)],
        gbps: Option<[Option<f64>; 2]>,
    ) -> Vec<Result<(), Veto>> {
        self.judged_threads(wishes, gbps, 0).each
    }

    /// The same and how sure it is, where of four uses of what the first two share so many are of
    /// others.
    fn judged_threads(
        &self,
        wishes: &[(usize, usize)],
        gbps: Option<[Option<f64>; 2]>,
        forgotten: u64,
    ) -> ThreadVerdicts {
        self.with_case(&[4; 2], gbps, forgotten, |case| case.judge(wishes))
    }

    /// The one of several plans that is taken, each of tasks with their nodes, on nodes with so
    /// many places.
    fn best(&self, capacity: &[usize], plans: &[&[(usize, usize)]]) -> usize {
        let place = |&(task, node): &(usize, usize)| Proposal::PlaceTask {
            task,
            node,
            reason: Reason::Order,
        };
        let plans = plans.iter().map(|plan| plan.iter().map(place).collect());
        let plans: Vec<Plan> = plans.collect();
        self.with_case(capacity, None, 0, |case| case.best(&plans).0)
    }

    fn with_case<T>(
        &self,
        capacity: &[usize],
        gbps: Option<[Option<f64>; 2]>,
        forgotten: u64,
        ask: impl FnOnce(&ThreadCase<'_>) -> T,
    ) -> T {
        let pressure = gbps.map(|gbps| self.pressure(gbps));
        // Seldom used and often sampled: it says who shares, and next to nothing about traffic.
        let mut shared = self.pages[0];
        shared.recent[0] = Accessor { task: 0, weight: 2 };
        shared.recent[1] = Accessor { task: 1, weight: 2 };
        (shared.accessor_count, shared.samples) = (2, 10_000);
        shared.forgotten = forgotten;
        let pages: Vec<Page> = self.pages.iter().copied().chain([shared]).collect();
        ask(&ThreadCase {
            program: &Program {
                pages: &pages,
                capacity,
                ..self.program()
            },
            standings: &[Standing::default(); 4],
            options: &AttachOptions::default(),
            evidence: true,
            reverting: false,
            agreed: false,
            pressure: pressure.as_ref(),
            said: &CommMatrix::new(4),
            weighed: &[],
        })
    }

    fn pages(
        &self,
        wishes: &[(usize, usize)],
        gbps: Option<[Option<f64>; 2]>,
    ) -> Vec<Result<(), Veto>> {
        self.judged(wishes, gbps, (0.5, false))
    }

    /// The same with this certainty, and pages that are wanted there `evens` or not.
    fn judged(
        &self,
        wishes: &[(usize, usize)],
        gbps: Option<[Option<f64>; 2]>,
        (certainty, evens): (f64, bool),
    ) -> Vec<Result<(), Veto>> {
        let pressure = gbps.map(|gbps| self.pressure(gbps));
        let case = PageCase {
            program: &self.program(),
            options: &AttachOptions {
                certainty: Certainty::of(certainty),
                ..AttachOptions::default()
            },
            moves_max: u64::MAX,
            aside_max: u64::MAX,
            allowed: &[true; 2],
            evidence: true,
            wait: false,
            pressure: pressure.as_ref(),
        };
        let wishes: Vec<PageWish<'_>> = wishes
            .iter()
            .map(|&(page, node)| PageWish {
                page: Some(&self.pages[page]),
                node,
                pages: 1,
                barred: false,
                held: false,
                unconfirmed: false,
                backed: false,
                is_part: false,
                evens,
                by_kernel: false,
            })
            .collect();
        let verdicts = case.judge(wishes.iter(), &mut [1 << 30; 2]);
        verdicts
            .into_iter()
            .map(|verdict| verdict.map(drop))
            .collect()
    }
}

/// Bandwidth of each controller in the model, as estimated: 12.4 GB/s.
const IDLE: [Option<f64>; 2] = [Some(1.0), Some(1.0)];
const FIRST_FULL: [Option<f64>; 2] = [Some(12.3), Some(1.0)];

#[test]
fn a_saturated_controller_changes_the_verdict_about_threads() {
    // The second comes to the first, whose node has the pages that it then takes after it.
    let scene = Scene::new([0, 1, 1, 1], [0, 1, 1, 1], 2_000_000);
    let wish = [(1, 0)];
    assert_eq!(scene.threads(&wish, None), [Ok(())]);
    assert_eq!(scene.threads(&wish, Some(IDLE)), [Ok(())]);
    assert_eq!(
        scene.threads(&wish, Some(FIRST_FULL)),
        [Err(Veto::Congested)]
    );
    // Not measured is not full.
    assert_eq!(scene.threads(&wish, Some([None, Some(1.0)])), [Ok(())]);
}

#[test]
fn of_what_many_use_only_samples_of_those_remembered_are_evidence() {
    let scene = Scene::new([0, 1, 0, 1], [1, 1, 0, 1], 10);
    let plan = |forgotten| scene.judged_threads(&[(0, 1)], None, forgotten).plan;
    let (all, few) = (plan(0).unwrap(), plan(3).unwrap());
    assert_eq!((all.samples, few.samples), (5000.0, 1250.0));
    assert_eq!((all.share, few.share), (1.0, 1.0));
    assert!(!plan(4).unwrap().convinces());
}

#[test]
fn who_is_named_of_all_that_use_memory_is_no_partner() {
    // Two change places, and so those two are together that the page names.
    let scene = Scene::new([0, 1, 0, 1], [0, 1, 0, 1], 10);
    let plan = |forgotten| {
        scene
            .judged_threads(&[(0, 1), (3, 0)], None, forgotten)
            .plan
    };
    assert!(plan(0).unwrap().convinces());
    // Of four equal users it names two: all four, of whom as many get farther from each other.
    let alike = plan(2).unwrap();
    assert!((alike.share - 0.5).abs() < 1e-9, "{alike:?}");
}

#[test]
fn leaving_a_saturated_controller_may_pay_though_nobody_comes_nearer() {
    let scene = Scene::new([0, 0, 1, 1], [0, 0, 1, 1], 2_000_000);
    let wish = [(0, 1), (1, 1)];
    // Both go together, so that what they say to each other is as near as before.
    assert_eq!(scene.threads(&wish, None), [Err(Veto::DoesNotPay); 2]);
    assert_eq!(scene.threads(&wish, Some(IDLE)), [Err(Veto::DoesNotPay); 2]);
    assert_eq!(scene.threads(&wish, Some(FIRST_FULL)), [Ok(()); 2]);
}

/// One of two tasks on a node goes to the other; and the time of all within the horizon.
fn one_goes(scene: &Scene) -> (ThreadPlan<'_>, f64) {
    let plan = ThreadPlan {
        program: scene.program(),
        before: &[Some(0), Some(0), Some(1), Some(1)],
        after: &[Some(0), Some(1), Some(1), Some(1)],
    };
    (plan, plan.program.busy_ns() * plan.program.windows())
}

#[test]
fn of_a_plan_that_is_not_sure_to_bring_anybody_nearer_the_relief_alone_must_pay() {
    let scene = Scene::new([0, 0, 1, 1], [0, 0, 1, 1], 2_000_000);
    let (plan, all_ns) = one_goes(&scene);
    // Parts of all time that the model finds saved, and that come of who gets nearer.
    let judged = |saved: f64, nearer: f64| {
        let worth = |part: f64| Worth {
            saved_ns: part * all_ns,
            ..Worth::default()
        };
        let by_distance = Err(Veto::Evidence);
        let near = (&worth(nearer), by_distance);
        scene.pressure(FIRST_FULL).judge(&plan, &worth(saved), near)
    };
    assert_eq!(judged(0.2, 0.1), Ok(()));
    assert_eq!(judged(0.2, 0.16), Err(Veto::Evidence));
    assert_eq!(judged(0.04, 0.0), Err(Veto::Evidence));
}

#[test]
fn a_nearer_plan_must_make_the_program_faster_and_by_estimates_not_clearly_slower() {
    let scene = Scene::new([0, 0, 1, 1], [0, 0, 1, 1], 2_000_000);
    let (plan, all_ns) = one_goes(&scene);
    let model = MachineModel::new(&scene.topology);
    let known = scene.pressure(FIRST_FULL);
    let guessed = Pressure {
        guessed: true,
        ..Pressure::sampled(&model, &[0.0; 2], &scene.program())
    };
    let judged = |pressure: &Pressure, part: f64, by_distance| {
        let worth = Worth {
            saved_ns: part * all_ns,
            ..Worth::default()
        };
        pressure.judge(&plan, &worth, (&Worth::default(), by_distance))
    };
    assert_eq!(judged(&known, 0.02, Ok(())), Ok(()));
    assert_eq!(judged(&known, 0.0, Ok(())), Err(Veto::Congested));
    assert_eq!(judged(&guessed, -0.02, Ok(())), Ok(()));
    assert_eq!(judged(&guessed, -0.04, Ok(())), Err(Veto::Congested));
    // What is not nearer is nothing to do by estimates.
    let far = Err(Veto::DoesNotPay);
    assert_eq!(judged(&known, 0.5, far), Ok(()));
    assert_eq!(judged(&guessed, 0.5, far), far);
}

#[test]
fn those_who_move_are_far_from_their_memory_until_it_has_followed() {
    let price = |span: u64| {
        let mut scene = Scene::new([0, 0, 1, 1], [0, 0, 1, 1], 2_000_000);
        scene.pages.iter_mut().for_each(|page| page.span = span);
        let plan = ThreadPlan {
            program: scene.program(),
            before: &[Some(0), Some(0), Some(1), Some(1)],
            after: &[Some(1), Some(0), Some(0), Some(1)],
        };
        let prices = &plan.program.prices;
        let pages = 2.0 * span as f64;
        let own = 2.0 * prices.task_move_ns + pages * prices.page_move_ns;
        (plan.price_ns() - own, pages * prices.page_takes_ns)
    };
    let (few, many) = (price(1), price(1_000_000));
    // Until the first follow, and as long as all take.
    let waits = |(_, takes): (f64, f64)| FOLLOWING_NS + takes;
    let expected = waits(many) / waits(few);
    assert!(
        (many.0 / few.0 / expected - 1.0).abs() < 1e-9,
        "{few:?} {many:?}"
    );
}

#[test]
fn pages_that_could_follow_in_place_are_no_gain_of_a_plan() {
    // Each has its own page, and one node has all of them: what two who change places would take
    // away from it they can take where they are.
    let scene = Scene::new([0, 0, 1, 1], [0; 4], 2_000_000);
    let exchange = [(1, 1), (2, 0)];
    let far = Err(Veto::DoesNotPay);
    assert_eq!(scene.threads(&exchange, Some(FIRST_FULL)), [far; 2]);
}

#[test]
fn a_saturated_controller_changes_the_verdict_about_pages() {
    // Tasks on the first node, pages on the second: home is nearer, and busier.
    let scene = Scene::new([0; 4], [1; 4], 1_000);
    assert_eq!(scene.pages(&[(0, 0)], None), [Ok(())]);
    assert_eq!(scene.pages(&[(0, 0)], Some(IDLE)), [Ok(())]);
    assert_eq!(
        scene.pages(&[(0, 0)], Some(FIRST_FULL)),
        [Err(Veto::Congested)]
    );
    // And away from it, though it is farther.
    let scene = Scene::new([0; 4], [0; 4], 1_000);
    assert_eq!(scene.pages(&[(0, 1)], None), [Err(Veto::DoesNotPay)]);
    assert_eq!(scene.pages(&[(0, 1)], Some(FIRST_FULL)), [Ok(())]);
}

#[test]
fn pages_stop_when_those_before_them_have_filled_the_controller() {
    // Each page is worth 64 bytes times 25 million in half a second, 3.2 GB/s of 12.4.
    let scene = Scene::new([0; 4], [1; 4], 25_000_000);
    let wishes = [(0, 0), (1, 0), (2, 0), (3, 0)];
    assert_eq!(scene.pages(&wishes, None), [Ok(()); 4]);
    let verdicts = scene.pages(&wishes, Some([Some(5.5), Some(1.0)]));
    assert_eq!(verdicts[..2], [Ok(()); 2]);
    assert_eq!(verdicts[3], Err(Veto::Congested), "{verdicts:?}");
}

#[test]
fn what_others_cause_is_never_less_than_nothing() {
    let scene = Scene::new([0; 4], [0; 4], 25_000_000);
    let pressure = scene.pressure([Some(1.0), Some(3.0)]);
    assert!(pressure.model.background_gbps(0) <= 0.0);
    assert!((pressure.model.background_gbps(1) - 3.0).abs() < 1e-9);
}

/// Many pages of four tasks, all on the first node, that together ask for so many GB/s.
fn crowd(gbps: f64) -> Scene {
    let mut scene = Scene::new([0; 4], [0; 4], 0);
    let accesses = gbps / 64.0 * 500e6;
    let pages = (0..192_u32).map(|number| {
        let mut page = scene.pages[0];
        page.key.page = number.into();
        page.slot = number;
        page.recent[0] = Accessor {
            task: number % 4,
            weight: whole(accesses / 192.0),
        };
        page
    });
    scene.pages = pages.collect();
    scene.live = CommMatrix::new(4);
    scene
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a weight of a test"
)]
fn whole(figure: f64) -> u32 {
    figure as u32
}

/// Moves that such a plan may make, of the first `count` pages to the second node.
fn relieved(scene: &Scene, count: u32, others: [f64; 2]) -> usize {
    let wanted: Vec<(u32, usize)> = (0..count).map(|slot| (slot, 1)).collect();
    let model = MachineModel::new(&scene.topology);
    let pressure = Pressure::sampled(&model, &others, &scene.program());
    pressure.relief(&scene.program(), &scene.moves(&wanted))
}

#[test]
fn pages_that_leave_a_saturated_controller_are_judged_together() {
    // 11.9 of 12.4 GB/s are asked of the first, nothing of the second.
    let full = crowd(11.9);
    assert_eq!(relieved(&full, 72, [0.0; 2]), 72);
    assert_eq!(relieved(&full, 0, [0.0; 2]), 0);
    // All of them would saturate the second instead, from farther; of half of them all would be
    // well.
    assert_eq!(relieved(&full, 192, [0.0; 2]), 96);
    // Others saturate the second.
    assert_eq!(relieved(&full, 72, [0.0, 12.0]), 0);
    // There is no need.
    assert_eq!(relieved(&crowd(5.0), 72, [0.0; 2]), 0);
}

#[test]
fn no_task_pays_alone_for_what_relieves_the_others() {
    let busy = crowd(9.0);
    assert_eq!(relieved(&busy, 48, [0.0; 2]), 48);
    // Of as many that are one task's own, half: that it gets 5 % slower by.
    let own: Vec<(u32, usize)> = (0..48).map(|page| (page * 4, 1)).collect();
    let model = MachineModel::new(&busy.topology);
    let pressure = Pressure::sampled(&model, &[0.0; 2], &busy.program());
    let relieved = pressure.relief(&busy.program(), &busy.moves(&own));
    assert_eq!(relieved, 24);
}

#[test]
fn a_page_goes_with_its_plan_though_it_alone_would_not() {
    let scene = crowd(9.9);
    let one = [(0, 1)];
    let many: Vec<(usize, usize)> = (0..72).map(|page| (page, 1)).collect();
    let with = |wishes: &[(usize, usize)], gbps| scene.pages(wishes, gbps);
    assert_eq!(
        with(&one, Some([Some(9.9), Some(0.0)])),
        [Err(Veto::DoesNotPay)]
    );
    let together = with(&many, Some([Some(9.9), Some(0.0)]));
    assert_eq!(together, [Ok(()); 72]);
    assert_eq!(with(&many, None), [Err(Veto::DoesNotPay); 72]);
}

/// Pages that two tasks on two nodes use alike.
fn shared_by_two(homes: [u16; 4], weight: u32) -> Scene {
    let mut scene = Scene::new([0, 1, 0, 1], homes, weight);
    for page in &mut scene.pages {
        page.recent[0].task = 0;
        page.recent[1] = Accessor { task: 1, weight };
        page.accessor_count = 2;
    }
    scene
}

/// Four such pages on these nodes, and those of the first moves that even out what is asked.
#[track_caller]
fn evens(homes: [u16; 4], moves: &[(u32, usize)], expected: &[u32]) {
    let scene = shared_by_two(homes, 10);
    let granted = evened(&scene.program(), &scene.moves(moves), &[true, true]);
    assert_eq!(granted.into_iter().collect::<Vec<_>>(), expected);
}

#[test]
fn what_all_use_alike_is_spread_until_it_is_even() {
    evens([0, 0, 0, 0], &[(0, 1), (1, 1), (2, 1), (3, 1)], &[0, 1]);
    evens([0, 0, 0, 1], &[(3, 0), (0, 1), (1, 1)], &[0]);
    evens([0, 0, 1, 1], &[(0, 1), (1, 1)], &[]);
}

#[test]
fn what_nobody_uses_evens_nothing() {
    let mut scene = Scene::new([0, 1, 0, 1], [0, 0, 0, 0], 10);
    for page in &mut scene.pages[..2] {
        page.recent[0].weight = 0;
    }
    let moves = scene.moves(&[(0, 1), (1, 1), (3, 1)]);
    let granted = evened(&scene.program(), &moves, &[true, true]);
    assert_eq!(granted.into_iter().collect::<Vec<_>>(), [3]);
}

#[test]
fn nothing_is_spread_that_gets_farther_from_its_users() {
    // Each page is used by the task beside it.
    let scene = Scene::new([0, 0, 0, 0], [0, 0, 0, 0], 10);
    let moves = scene.moves(&[(0, 1), (1, 1)]);
    let granted = evened(&scene.program(), &moves, &[true, true]);
    assert!(granted.is_empty(), "{granted:?}");
}

#[test]
fn pages_are_spread_of_which_chance_says_that_some_are_used_more_from_here_and_some_from_there() {
    let spread = |users, evens| {
        let wishes = [(0, 1), (1, 1), (2, 1), (3, 1)];
        let verdicts = Scene::new(users, [0; 4], 100).judged(&wishes, None, (0.9, evens));
        verdicts.into_iter().filter(Result::is_ok).count()
    };
    // A single sample of each tells nothing of one page, but all of them that none is farther.
    assert_eq!(spread([0, 1, 0, 1], true), 2);
    assert_eq!(spread([0, 1, 0, 1], false), 0);
    assert_eq!(spread([0, 0, 0, 0], true), 0);
}

#[test]
fn a_full_controller_says_nothing_of_pages_of_which_only_faults_tell() {
    let spread = |accesses_per_busy_second| {
        let mut scene = shared_by_two([0; 4], 100);
        scene.prices.accesses_per_busy_second = accesses_per_busy_second;
        let wishes = [(0, 1), (1, 1), (2, 1), (3, 1)];
        let verdicts = scene.judged(&wishes, Some(FIRST_FULL), (0.9, true));
        verdicts.into_iter().filter(Result::is_ok).count()
    };
    // It is others who fill it, as far as samples tell.
    assert_eq!(spread(0.0), 0);
    assert_eq!(spread(1e6), 2);
}

/// Half of the threads that go in step wait for those that have all of a heap far, and to the model
/// both seem to work all the time.
#[test]
fn a_heap_is_spread_though_the_model_sees_little_in_it() {
    let spread = |span, forgotten| {
        let mut scene = shared_by_two([0; 4], 100);
        for page in &mut scene.pages {
            (page.span, page.forgotten) = (span, forgotten * page.weight());
        }
        let wishes = [(0, 1), (1, 1), (2, 1), (3, 1)];
        let verdicts = scene.judged(&wishes, Some(FIRST_FULL), (0.9, true));
        verdicts.into_iter().filter(Result::is_ok).count()
    };
    assert_eq!([spread(2, 2), spread(1, 2), spread(2, 0)], [2, 0, 0]);
}

#[test]
fn nobody_saves_more_of_waiting_than_he_runs() {
    let saving = |weight| {
        let scene = Scene::new([0, 0, 1, 1], [0, 0, 1, 1], weight);
        let prices = Prices::default().of_program(&scene.program(), 1.0, Duration::ZERO);
        prices.access_saving_ns_per_distance
    };
    // Four tasks run for 500 ms; 5,000,000 accesses at a distance of 10 are 450 ms of each,
    // 50,000,000 are ten times that.
    assert!((saving(5_000_000) - 9.0).abs() < 1e-9);
    assert!((saving(50_000_000) - 1.0).abs() < 1e-9);
}

#[test]
fn much_memory_is_not_evened_for_little_use() {
    // All four use all four pages alike, which are all on one node.
    let mut scene = Scene::new([0, 0, 1, 1], [0; 4], 1000);
    let users = scene.pages.clone();
    for page in &mut scene.pages {
        for (place, user) in page.recent.iter_mut().zip(&users) {
            *place = user.recent[0];
        }
        (page.accessor_count, page.samples) = (4, 400);
    }
    let went = |scene: &Scene| {
        let verdicts = scene.judged(&[(2, 1), (3, 1)], None, (0.9, true));
        verdicts.iter().filter(|verdict| verdict.is_ok()).count()
    };
    assert_eq!(went(&scene), 2);
    scene.pages.iter_mut().for_each(|page| page.span = 1 << 20);
    assert_eq!(
        went(&scene),
        0,
        "a page stands for 4 GiB, whose move takes two seconds"
    );
}

#[test]
fn of_several_plans_the_one_that_is_worth_most_is_taken() {
    // The first two talk, and are apart.
    let scene = Scene::new([0, 1, 0, 1], [0, 1, 0, 1], 50_000_000);
    let (stay, join, meet): (&[_], &[_], &[_]) = (&[], &[(1, 0)], &[(0, 1)]);
    assert_eq!(scene.best(&[4; 2], &[stay, join]), 1);
    assert_eq!(scene.best(&[4; 2], &[join, stay]), 0);
    assert_eq!(scene.best(&[4; 2], &[meet, join]), 0, "the first of equals");
    assert_eq!(scene.best(&[4; 2], &[stay, &[(2, 1)]]), 0, "nobody gains");
    assert_eq!(
        scene.best(&[2; 2], &[stay, join]),
        0,
        "one has no core then"
    );
    assert_eq!(scene.best(&[3, 1], &[stay, join]), 1, "one has none now");
}

#[test]
fn what_pages_say_comes_nearer_counts_as_far_as_communication_says_so() {
    let mut scene = Scene::new([0, 1, 0, 1], [0, 1, 0, 1], 50_000_000);
    let (stay, join): (&[_], &[_]) = (&[], &[(1, 0)]);
    assert_eq!(scene.best(&[4; 2], &[stay, join]), 1);
    // The second talks more to the fourth, whom it would leave, than to the first.
    scene.live.add(1, 3, 60_000);
    assert_eq!(scene.best(&[4; 2], &[stay, join]), 0);
    assert_eq!(scene.threads(join, None), [Err(Veto::DoesNotPay)]);
}
