//! What `deloc` makes of machines and programs so small that every placement can be tried.

#![forbid(unsafe_code)]

use numad_core::cost::placement_distances;
use numad_core::{Proposal, Settings, Time};
use testkit::{Dice, Scene};

const MACHINES: &[&str] = &["2x2", "2x3", "2x4", "3x2", "3x2@10,15,30;25,10,18;40,22,10"];

/// What a placement costs: amounts times distance.
fn cost(scene: &Scene, places: &[Option<usize>]) -> f64 {
    let program = scene.as_program();
    let distances = program.topology.distances();
    let [distance] = placement_distances(&scene.live, [places], distances);
    distance
}

/// What the best of all placements costs that no node is too small for.
fn optimum(scene: &Scene) -> f64 {
    let mut places = vec![None; scene.tasks.len()];
    let mut free = scene.as_program().capacity.to_vec();
    let mut best = f64::INFINITY;
    try_all(scene, 0, &mut places, &mut free, &mut best);
    best
}

fn try_all(
    scene: &Scene,
    task: usize,
    places: &mut Vec<Option<usize>>,
    free: &mut Vec<usize>,
    best: &mut f64,
) {
    if task == places.len() {
        *best = best.min(cost(scene, places));
        return;
    }
    for node in 0..free.len() {
        if free[node] > 0 {
            free[node] -= 1;
            places[task] = Some(node);
            try_all(scene, task + 1, places, free, best);
            free[node] += 1;
        }
    }
}

/// What `deloc` costs after one call, and how many tasks it moved.
fn deloc(scene: &Scene) -> (f64, usize) {
    let factory = policies::find("deloc").expect("it is in the registry");
    let settings = Settings::defaults(factory.settings);
    let mut policy = (factory.build)(&settings, 0).expect("defaults are right");
    let mut proposals: Vec<Proposal> = Vec::new();
    policy.propose(Time(0), &scene.as_program(), &mut proposals);
    let mut after = scene.clone();
    after.apply(&proposals);
    for (used, room) in after.occupancy().iter().zip(scene.as_program().capacity) {
        assert!(used <= room, "{proposals:?}");
    }
    let (now, before) = (after.placement(), scene.placement());
    let moved = now
        .iter()
        .zip(&before)
        .filter(|(now, before)| now != before);
    (cost(scene, &now), moved.count())
}

/// Tasks on the cores of a machine, up to six, in a chance order.
fn placed(machine: &str, dice: &mut Dice) -> Scene {
    let scene = Scene::new(machine);
    let nodes = scene.as_program().topology.nodes().len();
    let cores = scene.as_program().topology.cpus().len() / nodes;
    let mut seats: Vec<usize> = (0..nodes * cores).map(|seat| seat % nodes).collect();
    dice.shuffle(&mut seats);
    seats.truncate((2 + dice.below(5)).min(seats.len()));
    let mut scene = scene.with_tasks_on(&seats);
    scene.fit_capacity();
    scene
}

/// Where tasks talk in pairs and nodes hold whole pairs, nothing is better.
#[test]
fn pairs_alone_reach_the_optimum() {
    for (machine, seed) in [("2x2", 0), ("2x4", 1000), ("3x2", 2000)]
        .into_iter()
        .flat_map(|(machine, base)| (base..base + 200).map(move |seed| (machine, seed)))
    {
        let mut dice = Dice::new(seed);
        let scene = placed(machine, &mut dice);
        let mut order: Vec<usize> = (0..scene.tasks.len()).collect();
        dice.shuffle(&mut order);
        let talk: Vec<(usize, usize, u64)> = order
            .chunks_exact(2)
            .map(|pair| (pair[0], pair[1], 100 + dice.roll() % 1000))
            .collect();
        let scene = scene.with_talk(&talk);
        let together = |&(one, other, _): &(usize, usize, u64)| {
            scene.tasks[one].node == scene.tasks[other].node
        };
        let (found, moved) = deloc(&scene);
        let best = optimum(&scene);
        assert!(
            (found - best).abs() < 1e-6,
            "{machine} {seed}: {found} for {best}"
        );
        assert!(moved == 0 || !talk.iter().all(together), "{machine} {seed}");
    }
}

/// Any talk at all: one pass over pairs is a greedy method. Of these 888 programs 678 end at the
/// optimum; the cost over the optimum is 1.43 before, and after 1.05 in the mean, 1.11 for nine in ten, and
/// 2.0 at most, where a silent task, which stays by definition, keeps partners apart.
#[test]
fn anything_stays_near_the_optimum_and_never_gets_worse() {
    let mut ratios: Vec<f64> = Vec::new();
    for seed in 0..1000 {
        let mut dice = Dice::new(seed);
        let machine = MACHINES[dice.below(MACHINES.len())];
        let scene = placed(machine, &mut dice);
        let density = [30, 60, 100][dice.below(3)];
        let tasks = scene.tasks.len();
        let mut talk = Vec::new();
        for one in 0..tasks {
            for other in one + 1..tasks {
                if dice.chance(density) {
                    talk.push((one, other, 1 + dice.roll() % 1000));
                }
            }
        }
        if talk.is_empty() {
            continue;
        }
        let scene = scene.with_talk(&talk);
        let (found, _) = deloc(&scene);
        let before = cost(&scene, &scene.placement());
        // The policy counts what becomes local. Where remote nodes differ, the guard looks at
        // distances, and drops a plan that makes them longer.
        let alike = !machine.contains('@');
        assert!(
            !alike || found <= before + 1e-6,
            "{machine} {seed}: {before} becomes {found}"
        );
        ratios.push(found / optimum(&scene));
    }
    ratios.sort_by(f64::total_cmp);
    let count = ratios.len();
    let mean = ratios.iter().sum::<f64>() / count as f64;
    let optimal = ratios.iter().filter(|&&ratio| ratio < 1.0 + 1e-9).count();
    let (most_of_them, most) = (ratios[count * 9 / 10], ratios[count - 1]);
    assert!(count > 800 && ratios[0] > 1.0 - 1e-9);
    let shown = format!("{optimal} of {count}, mean {mean}, 90 % {most_of_them}, most {most}");
    assert!(optimal * 4 >= count * 3 && mean < 1.06, "{shown}");
    assert!(most_of_them < 1.15 && most < 2.0 + 1e-9, "{shown}");
}
