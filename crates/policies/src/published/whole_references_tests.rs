//! Methods that map once, after a profile, as a whole: windows go in, and the nodes that come out are those of a reference
//! that was written from the papers alone. 300 random cases each; a case that differs prints its seed.

use std::collections::BTreeMap;
use std::time::Duration;

use testkit::{Dice, Scene};

use numad_core::{Method, Proposal, Settings, Time};

const CASES: u64 = 300;
/// Windows of a profile of two seconds, and how long each is.
const WINDOWS: usize = 10;
const WINDOW_NS: u64 = 200_000_000;

/// What was said in each window: pairs, the lower first, and amounts of which no two are equal.
type Windows = Vec<BTreeMap<(usize, usize), u64>>;

fn random(dice: &mut Dice, tasks: usize) -> Windows {
    // Pairs that talk at the same time, for a while: what groups in time are made of.
    let phases = 1 + dice.below(3);
    let partners = |dice: &mut Dice| -> Vec<(usize, usize)> {
        let pair = |dice: &mut Dice| {
            let one = dice.below(tasks);
            let other = (one + 1 + dice.below(tasks - 1)) % tasks;
            (one.min(other), one.max(other))
        };
        (0..=dice.below(tasks)).map(|_| pair(dice)).collect()
    };
    let pairs: Vec<Vec<(usize, usize)>> = (0..phases).map(|_| partners(dice)).collect();
    (0..WINDOWS)
        .map(|window| {
            let pairs = &pairs[window * phases / WINDOWS];
            let amount = |dice: &mut Dice| 1 + dice.below(1_000_000) as u64;
            pairs.iter().map(|&pair| (pair, amount(dice))).collect()
        })
        .collect()
}

/// Where a method as published puts each task.
fn mapped(
    name: &str,
    set: &[(&str, &str)],
    scene: &Scene,
    windows: &Windows,
) -> Vec<Option<usize>> {
    let factory = crate::find(name).unwrap();
    let given = set.iter().map(|&(name, text)| {
        let spec = numad_core::setting::find(factory.settings, name).unwrap();
        (name.to_owned(), spec.parse(text).unwrap())
    });
    let settings = Settings::with(factory.settings, given).unwrap();
    let mut policy =
        numad_core::published::build(factory, &settings, 1, Method::Published).unwrap();
    let mut nodes = vec![None; scene.tasks.len()];
    for (number, said) in (1..).zip(windows) {
        let pairs: Vec<_> = said
            .iter()
            .map(|(&(one, other), &amount)| (one, other, amount))
            .collect();
        let scene = scene.clone().with_talk(&pairs);
        let mut program = scene.as_program();
        program.window = Duration::from_nanos(WINDOW_NS);
        let mut out = Vec::new();
        policy.propose(Time(WINDOW_NS * number), &program, &mut out);
        for proposal in out {
            if let Proposal::PlaceTask { task, node, .. } = proposal {
                nodes[task] = Some(node);
            }
        }
    }
    nodes
}

/// All ways to cut so many bins into intervals, as the first bins of all intervals but the first.
fn cuts(bins: usize) -> impl Iterator<Item = Vec<usize>> {
    (0_u32..1 << (bins - 1))
        .map(move |set| (1..bins).filter(|&bin| set >> (bin - 1) & 1 == 1).collect())
}

fn intervals(cuts: &[usize], bins: usize) -> Vec<std::ops::Range<usize>> {
    let starts = std::iter::once(0).chain(cuts.iter().copied());
    let ends = cuts.iter().copied().chain(std::iter::once(bins));
    starts.zip(ends).map(|(start, end)| start..end).collect()
}

/// Sum over all clusters of weight times the squared distance to the cluster's mean.
fn spread(weights: &[f64], cuts: &[usize]) -> f64 {
    let of = |range: std::ops::Range<usize>| {
        let all: f64 = weights[range.clone()].iter().sum();
        let mean = range
            .clone()
            .map(|bin| weights[bin] * bin as f64)
            .sum::<f64>()
            / all;
        range
            .map(|bin| weights[bin] * (bin as f64 - mean).powi(2))
            .sum::<f64>()
    };
    intervals(cuts, weights.len()).into_iter().map(of).sum()
}

/// For each number of clusters the best cuts.
fn best_cuts(weights: &[f64]) -> BTreeMap<usize, (f64, Vec<usize>)> {
    let mut best: BTreeMap<usize, (f64, Vec<usize>)> = BTreeMap::new();
    for cuts in cuts(weights.len()) {
        let spread = spread(weights, &cuts);
        let known = best
            .entry(cuts.len() + 1)
            .or_insert((f64::INFINITY, Vec::new()));
        if spread < known.0 {
            *known = (spread, cuts);
        }
    }
    best
}

fn weights(windows: &Windows) -> Vec<f64> {
    windows
        .iter()
        .map(|said| said.values().sum::<u64>() as f64)
        .collect()
}

/// RCLB, eq. 10: clusters from two on, until this share of the variance is explained.
fn cuts_by_fit(windows: &Windows, fit: f64) -> Vec<usize> {
    let weights = weights(windows);
    let all = spread(&weights, &[]);
    let mut best = best_cuts(&weights)
        .into_iter()
        .filter(|(number, _)| *number >= 2);
    best.find(|(_, (left, _))| 1.0 - left / all >= fit)
        .unwrap()
        .1
        .1
}

/// DeLoc, chapter 2, after X-means: the number of clusters with the highest Bayesian information criterion, where
/// clusters share a variance, to which the width of a bin adds what events within it have.
fn cuts_by_criterion(windows: &Windows) -> Vec<usize> {
    let weights = weights(windows);
    let events: f64 = weights.iter().sum();
    let score = |(left, cuts): &(f64, Vec<usize>)| {
        let variance = left / events + 1.0 / 12.0;
        let clusters = intervals(cuts, weights.len());
        let shares = clusters.iter().map(|range| {
            let own: f64 = weights[range.clone()].iter().sum();
            own * (own / events).ln()
        });
        shares.sum::<f64>() - events / 2.0 * variance.ln() - clusters.len() as f64 * events.ln()
    };
    let best = best_cuts(&weights);
    let best = best
        .values()
        .max_by(|one, other| score(one).total_cmp(&score(other)));
    best.unwrap().1.clone()
}

/// A pair with what weighs: amounts and windows of one group.
#[derive(Clone, Copy)]
struct Said {
    pair: (usize, usize),
    bytes: f64,
    messages: f64,
}

fn groups(windows: &Windows, cuts: &[usize]) -> Vec<Vec<Said>> {
    let of = |range: std::ops::Range<usize>| {
        let mut group: Vec<Said> = Vec::new();
        for (&pair, &amount) in windows[range].iter().flatten() {
            match group.iter_mut().find(|said| said.pair == pair) {
                Some(said) => {
                    said.bytes += amount as f64;
                    said.messages += 1.0;
                }
                None => group.push(Said {
                    pair,
                    bytes: amount as f64,
                    messages: 1.0,
                }),
            }
        }
        group
    };
    intervals(cuts, windows.len()).into_iter().map(of).collect()
}

/// Groups by the sum of their pairs' loads, pairs by theirs.
fn ordered(mut groups: Vec<Vec<Said>>, load: impl Fn(&Said) -> f64, ascending: bool) -> Vec<Said> {
    let order = |one: f64, other: f64| {
        if ascending {
            one.total_cmp(&other)
        } else {
            other.total_cmp(&one)
        }
    };
    for group in &mut groups {
        group.sort_by(|one, other| order(load(one), load(other)).then(one.pair.cmp(&other.pair)));
    }
    let sum = |group: &[Said]| group.iter().map(&load).sum::<f64>();
    groups.sort_by(|one, other| order(sum(one), sum(other)));
    groups.into_iter().flatten().collect()
}

/// The listing of `DeLocMap`, which RCLB's buckets follow: pairs to nodes with room, round and round.
fn dealt(pairs: &[Said], tasks: usize, nodes: usize, cores: usize) -> Vec<Option<usize>> {
    let mut map: Vec<Option<usize>> = vec![None; tasks];
    let mut free = vec![cores; nodes];
    let mut current = 0;
    let total = |task: usize| -> f64 {
        let own = pairs
            .iter()
            .filter(|said| said.pair.0 == task || said.pair.1 == task);
        own.map(|said| said.bytes).sum()
    };
    let next = |free: &[usize], current: usize, room: usize| {
        (0..nodes)
            .map(|step| (current + step) % nodes)
            .find(|&node| free[node] >= room)
    };
    for said in pairs {
        let (one, other) = said.pair;
        match (map[one], map[other]) {
            (Some(_), Some(_)) => {}
            (None, None) => {
                if let Some(node) = next(&free, current, 2) {
                    (map[one], map[other]) = (Some(node), Some(node));
                    free[node] -= 2;
                    current = (node + 1) % nodes;
                } else {
                    let order = if total(other) > total(one) {
                        [other, one]
                    } else {
                        [one, other]
                    };
                    for task in order {
                        let node = next(&free, current, 1).unwrap();
                        map[task] = Some(node);
                        free[node] -= 1;
                        current = (node + 1) % nodes;
                    }
                }
            }
            (Some(near), None) | (None, Some(near)) => {
                let task = if map[one].is_none() { one } else { other };
                if free[near] > 0 {
                    map[task] = Some(near);
                    free[near] -= 1;
                } else {
                    let node = next(&free, current, 1).unwrap();
                    map[task] = Some(node);
                    free[node] -= 1;
                    current = (node + 1) % nodes;
                }
            }
        }
    }
    // Who never said anything: in order, to the node with the fewest.
    for place in map.iter_mut().filter(|place| place.is_none()) {
        let node = (0..nodes)
            .max_by_key(|&node| (free[node], std::cmp::Reverse(node)))
            .unwrap();
        *place = Some(node);
        free[node] -= 1;
    }
    map
}

fn each_case(check: impl Fn(u64, &Scene, &Windows, (usize, usize, usize))) {
    for seed in 0..CASES {
        let dice = &mut Dice::new(seed);
        let (nodes, cores) = (2 + dice.below(3), 1 + dice.below(4));
        let tasks = 2 + dice.below(nodes * cores - 1);
        let now: Vec<usize> = (0..tasks).map(|_| dice.below(nodes)).collect();
        let scene = Scene::new(&format!("{nodes}x{cores}")).with_tasks_on(&now);
        check(seed, &scene, &random(dice, tasks), (tasks, nodes, cores));
    }
}

#[test]
fn rclb_as_a_whole_is_that_of_the_paper() {
    each_case(|seed, scene, windows, (tasks, nodes, cores)| {
        for (order, ascending) in [("descending", false), ("ascending", true)] {
            let groups = groups(windows, &cuts_by_fit(windows, 0.9));
            let all = |part: fn(&Said) -> f64| groups.iter().flatten().map(part).sum::<f64>();
            let (messages, bytes) = (all(|said| said.messages), all(|said| said.bytes));
            // Eq. 11, alpha and beta a half.
            let weight = |said: &Said| 0.5 * said.messages / messages + 0.5 * said.bytes / bytes;
            let pairs = ordered(groups, weight, ascending);
            let expected = dealt(&pairs, tasks, nodes, cores);
            let found = mapped("rclb", &[("order", order)], scene, windows);
            assert_eq!(found, expected, "seed {seed}, {order}: {windows:?}");
        }
    });
}

#[test]
fn deloc_map_as_a_whole_is_that_of_the_dissertation() {
    each_case(|seed, scene, windows, (tasks, nodes, cores)| {
        let pairs = ordered(
            groups(windows, &cuts_by_criterion(windows)),
            |said| said.bytes,
            false,
        );
        let expected = dealt(&pairs, tasks, nodes, cores);
        let found = mapped("deloc", &[("groups", "temporal")], scene, windows);
        assert_eq!(found, expected, "seed {seed}: {windows:?}");
    });
}

/// All mappings with at most so many tasks on a node, and the least that leaves nodes.
fn least_between_nodes(
    said: &BTreeMap<(usize, usize), u64>,
    tasks: usize,
    nodes: usize,
    cores: usize,
) -> u64 {
    let ways = nodes.pow(u32::try_from(tasks).unwrap());
    let node = |way: usize, task: usize| way / nodes.pow(u32::try_from(task).unwrap()) % nodes;
    let fits = |way: &usize| {
        (0..nodes).all(|one| (0..tasks).filter(|&task| node(*way, task) == one).count() <= cores)
    };
    let cost = |way: usize| -> u64 {
        let apart = said
            .iter()
            .filter(|((one, other), _)| node(way, *one) != node(way, *other));
        apart.map(|(_, amount)| amount).sum()
    };
    (0..ways).filter(fits).map(cost).min().unwrap()
}

/// The matrix of the whole run, which never forgets, and the nodes' cores as the leaves of the tree: where they are few
/// enough to try all, what leaves nodes is the least, window by window.
#[test]
fn cdsm_maps_all_that_was_ever_said() {
    for seed in 0..CASES {
        let dice = &mut Dice::new(seed);
        let (nodes, cores) = (2, 2 + dice.below(2));
        let tasks = nodes * cores;
        let now: Vec<usize> = (0..tasks).map(|_| dice.below(nodes)).collect();
        let scene = Scene::new(&format!("{nodes}x{cores}")).with_tasks_on(&now);
        let windows = random(dice, tasks);
        let mut all: BTreeMap<(usize, usize), u64> = BTreeMap::new();
        for until in 0..windows.len() {
            for (&pair, amount) in &windows[until] {
                *all.entry(pair).or_default() += amount;
            }
            let found = mapped("cdsm", &[], &scene, &windows[..=until].to_vec());
            let apart = |&(one, other): &(usize, usize)| found[one] != found[other];
            let cost: u64 = all
                .iter()
                .filter(|(pair, _)| apart(pair))
                .map(|(_, amount)| amount)
                .sum();
            let least = least_between_nodes(&all, tasks, nodes, cores);
            assert_eq!(
                cost, least,
                "seed {seed}, window {until}: {found:?} for {all:?}"
            );
        }
    }
}
