//! What a window costs a policy: 1,000 tasks that all talk on 8 nodes, and 200,000 pages.

#![forbid(unsafe_code)]

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use numad_core::{Policy, Settings, Time};
use testkit::{Dice, Scene};

/// Everyone talks to everyone, partners most, and nobody is where they should be.
fn dense(tasks: usize) -> Scene {
    let mut dice = Dice::new(1);
    let mut order: Vec<usize> = (0..tasks).collect();
    dice.shuffle(&mut order);
    let nodes: Vec<usize> = (0..tasks).map(|task| task % 8).collect();
    let mut scene = Scene::new("8x125").with_tasks_on(&nodes);
    for (place, &one) in order.iter().enumerate() {
        for (other_place, &other) in order.iter().enumerate().skip(place + 1) {
            let partners = place / 2 == other_place / 2;
            let amount = 1 + dice.roll() % 10 + if partners { 1000 } else { 0 };
            scene.live.add(one, other, amount);
        }
    }
    scene.decayed = scene.live.clone();
    scene
}

/// A fifth of the pages is on a node that does not use them.
fn with_pages(mut scene: Scene, pages: usize) -> Scene {
    let mut dice = Dice::new(2);
    for page in 0..pages {
        let group = dice.below(124) * 8;
        let home = u16::try_from(group % 8).unwrap_or_default();
        let tasks: Vec<u32> = (0..4)
            .map(|step| u32::try_from((group + step / 3) % 1000).unwrap_or_default())
            .collect();
        let away = page % 5 == 0;
        scene = scene.with_page(Some(if away { 7 - home } else { home }), &tasks);
    }
    scene.free_bytes = vec![1 << 40; 8];
    scene
}

fn build(name: &str) -> Box<dyn Policy> {
    let factory = policies::find(name).expect("the policy is in the registry");
    let settings = Settings::defaults(factory.settings);
    (factory.build)(&settings, 1).expect("defaults make a policy")
}

fn propose(criterion: &mut Criterion) {
    let threads = dense(1000);
    let both = with_pages(threads.clone(), 200_000);
    let mut group = criterion.benchmark_group("policies/propose");
    for (policy, label, scene) in [
        ("balance", "balance/1000 tasks", &threads),
        ("deloc", "deloc/1000 tasks", &threads),
        ("data-only", "data-only/200000 pages", &both),
        ("deloc", "deloc/1000 tasks, 200000 pages", &both),
    ] {
        // The first window allocates what is remembered of pages; the second is what all others are.
        let warm = || {
            let mut policy = build(policy);
            let mut out = Vec::new();
            policy.propose(Time(0), &scene.as_program(), &mut out);
            out.clear();
            (policy, out)
        };
        group.bench_function(label, |bencher| {
            bencher.iter_batched(
                warm,
                |(mut policy, mut out)| {
                    policy.propose(Time(1_000_000_000), &scene.as_program(), &mut out);
                    (policy, out)
                },
                BatchSize::LargeInput,
            );
        });
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(20);
    targets = propose
}
criterion_main!(benches);
