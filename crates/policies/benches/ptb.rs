//! The phases of PTB: similarity of 512 threads over 200,000 pages (at most 50 ms), the page phase over
//! 200,000 pages on 8 nodes (at most 25 ms), and a whole window of it.

#![forbid(unsafe_code)]

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use numad_core::cost::MachineModel;
use numad_core::{Policy, Settings, Time};
use policies::ptb::pages::{Listing, Room, Stickiness};
use policies::ptb::similarity::similarity;
use testkit::{Dice, Scene};

const THREADS: usize = 512;
const PAGES: usize = 200_000;

/// Groups of eight threads that share their pages, first touched in turn on all nodes; a tenth of the
/// pages is used by anybody.
fn scene() -> Scene {
    let mut dice = Dice::new(7);
    let mut threads: Vec<usize> = (0..THREADS).collect();
    dice.shuffle(&mut threads);
    let nodes: Vec<usize> = (0..THREADS).map(|task| task % 8).collect();
    let mut scene = Scene::new("8x64@10,21").with_tasks_on(&nodes);
    for page in 0..PAGES {
        let group = dice.below(THREADS / 8) * 8;
        let mut users: Vec<u32> = Vec::new();
        while users.len() < 4 {
            let at = if page % 10 == 0 {
                dice.below(THREADS)
            } else {
                group + dice.below(8)
            };
            let user = u32::try_from(threads[at]).unwrap_or(0);
            if !users.contains(&user) {
                users.push(user);
            }
        }
        let home = u16::try_from(page % 8).unwrap_or(0);
        scene = scene.with_page(Some(home), &users);
    }
    for page in &mut scene.pages {
        page.samples = 16 + u32::try_from(dice.below(64)).unwrap_or(0);
        for user in &mut page.recent {
            user.weight = 1 + u32::try_from(dice.below(100)).unwrap_or(0);
        }
    }
    scene.free_bytes = vec![1 << 40; 8];
    scene
}

fn phases(criterion: &mut Criterion) {
    let scene = scene();
    let mut group = criterion.benchmark_group("policies/ptb");
    group.bench_function("similarity/512 threads, 200000 pages", |bencher| {
        bencher.iter(|| similarity(THREADS, &scene.pages));
    });
    let model = MachineModel::new(&scene.topology);
    let nodes: Vec<Option<usize>> = scene.placement();
    let program = scene.as_program();
    let stickiness = Stickiness {
        c2: 1.5,
        samples_min: 16,
    };
    // Five GB/s for each node, and twelve times what the machine has.
    for (label, gbps_per_weight) in [("ample", 1e-6), ("saturated", 5e-5)] {
        group.bench_function(format!("pages/{label}, standing still"), |bencher| {
            bencher.iter(|| {
                let mut out = Vec::new();
                let listing = Listing::new(&model, &nodes, gbps_per_weight);
                listing.standing_still(&program, Room::of(&program), stickiness, &mut out);
                out
            });
        });
    }
    group.bench_function("window/512 threads, 200000 pages", |bencher| {
        let factory = policies::find("ptb").expect("the policy is in the registry");
        let settings = Settings::defaults(factory.settings);
        let build = || -> Box<dyn Policy> {
            (factory.build)(&settings, 1).expect("defaults make a policy")
        };
        bencher.iter_batched(
            build,
            |mut policy| {
                let mut out = Vec::new();
                policy.propose(Time(1_000_000_000), &program, &mut out);
                (policy, out)
            },
            BatchSize::LargeInput,
        );
    });
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(20);
    targets = phases
}
criterion_main!(benches);
