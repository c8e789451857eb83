//! The methods as published against references that were written from the papers alone: other data structures, no
//! shared code. 300 random cases each; a case that differs prints its seed.

#![expect(
    clippy::needless_range_loop,
    clippy::float_cmp,
    reason = "references are written as the papers' listings are, index by index; their figures are whole numbers"
)]

use testkit::{Dice, Scene};
use topology::CacheKind;

use numad_core::{CommMatrix, PageRecord, Policy, Proposal, Time};

use super::deloc::on_deloc_map;
use super::lapt::{age, map_page};
use super::marathe::most_used;
use super::ptb::{Bandwidth, Choice, Row, allocate, similarity};
use super::{Cores, autopin, azimi};

const CASES: u64 = 300;

fn each_case(check: impl Fn(u64, &mut Dice)) {
    for seed in 0..CASES {
        check(seed, &mut Dice::new(seed));
    }
}

/// The histogram of a random program: `counts[page][thread]`.
fn histogram(dice: &mut Dice, pages: usize, threads: usize) -> Vec<Vec<u64>> {
    let mut cell = |_| {
        if dice.chance(40) {
            1 + dice.below(60) as u64
        } else {
            0
        }
    };
    (0..pages)
        .map(|_| (0..threads).map(&mut cell).collect())
        .collect()
}

/// As the engine hands it over.
fn sparse(counts: &[Vec<u64>]) -> Vec<Vec<(u32, u64)>> {
    let row = |row: &Vec<u64>| {
        let uses = (0_u32..).zip(row.iter().copied());
        uses.filter(|&(_, count)| count > 0).collect()
    };
    counts.iter().map(row).collect()
}

/// Equation 5.1: vectors of each thread, with loops over pages.
#[test]
fn similarity_is_that_of_equations_5_1_and_5_2() {
    each_case(|seed, dice| {
        let (pages, threads) = (1 + dice.below(12), 2 + dice.below(7));
        let counts = histogram(dice, pages, threads);
        let nodes: Vec<Option<usize>> = (0..threads).map(|_| Some(dice.below(3))).collect();
        let uses = sparse(&counts);
        let rows: Vec<Row<'_>> = uses.iter().map(|uses| (None, uses.as_slice())).collect();
        let c1 = 1.0 + dice.below(3) as f64;
        let found = similarity(&rows, &nodes, c1);
        for one in 0..threads {
            for other in 0..threads {
                let (mut top, mut left, mut right) = (0.0, 0.0, 0.0);
                for page in &counts {
                    let (a, b) = (page[one] as f64, page[other] as f64);
                    top += a * b;
                    left += a * a;
                    right += b * b;
                }
                let mut expected = top / (f64::sqrt(left) * f64::sqrt(right));
                if nodes[one] == nodes[other] {
                    expected *= c1;
                }
                if one == other || !expected.is_finite() {
                    expected = 0.0;
                }
                let difference = (found[one * threads + other] - expected).abs();
                assert!(difference < 1e-9, "seed {seed}: {one} {other}");
            }
        }
    });
}

/// Algorithm 4, line by line.
#[test]
fn parts_are_allocated_by_algorithm_4() {
    each_case(|seed, dice| {
        let nodes = 1 + dice.below(6);
        let threads = nodes * (1 + dice.below(4));
        let current: Vec<Option<usize>> = (0..threads).map(|_| Some(dice.below(nodes))).collect();
        let mut all: Vec<usize> = (0..threads).collect();
        dice.shuffle(&mut all);
        let parts: Vec<Vec<usize>> = all.chunks(threads / nodes).map(<[usize]>::to_vec).collect();
        let mut left: Vec<usize> = (0..nodes).collect();
        let mut expected = Vec::new();
        for s in &parts {
            let mut max_counter = -1_i64;
            let mut max_node = usize::MAX;
            for n in &left {
                let mut counter = 0;
                for t in s {
                    if current[*t] == Some(*n) {
                        counter += 1;
                    }
                }
                if counter > max_counter {
                    max_counter = counter;
                    max_node = *n;
                }
            }
            left.retain(|n| *n != max_node);
            expected.push(max_node);
        }
        assert_eq!(allocate(&parts, &current, nodes), expected, "seed {seed}");
    });
}

/// Algorithms 5, 6 and 7 with the paper's own arrays; B[n][n2] is read as bandwidth from n to n2.
fn algorithm_5(
    counts: &[Vec<u64>],
    thread_node: &[usize],
    page_node: &[usize],
    bandwidth: &[Vec<f64>],
    (each, c2, min_acc): (f64, f64, f64),
) -> Vec<Option<usize>> {
    let nodes = bandwidth.len();
    let mut b: Vec<Vec<f64>> = bandwidth.to_vec();
    let mut d: Vec<Option<usize>> = vec![None; counts.len()];
    let mut p = 0;
    while p < counts.len() {
        let mut used_up = true;
        for row in &b {
            for left in row {
                used_up &= *left == 0.0;
            }
        }
        if used_up {
            break;
        }
        let total: u64 = counts[p].iter().sum();
        if (total as f64) < min_acc {
            p += 1;
            continue;
        }
        let mut bn = vec![0.0; nodes];
        for (t, n) in thread_node.iter().enumerate() {
            bn[*n] += counts[p][t] as f64 * each;
        }
        let score = |n: usize| {
            let mut sum = 0.0;
            for n2 in 0..nodes {
                sum += b[n2][n] * bn[n2];
            }
            if page_node[p] == n { c2 * sum } else { sum }
        };
        // Ties: the page stays, then the lowest node.
        let mut best = page_node[p];
        for n in 0..nodes {
            let better = score(n) > score(best);
            let first = score(n) == score(best) && best != page_node[p] && n < best;
            if better || first {
                best = n;
            }
        }
        d[p] = Some(best);
        for n in 0..nodes {
            b[n][best] = f64::max(b[n][best] - bn[n], 0.0);
        }
        p += 1;
    }
    let mut turn = 0;
    while p < counts.len() {
        d[p] = Some(turn % nodes);
        turn += 1;
        p += 1;
    }
    d
}

#[test]
fn pages_are_distributed_by_algorithms_5_to_7() {
    each_case(|seed, dice| {
        let (pages, threads, nodes) = (1 + dice.below(25), 1 + dice.below(8), 1 + dice.below(4));
        let counts = histogram(dice, pages, threads);
        let thread_node: Vec<usize> = (0..threads).map(|_| dice.below(nodes)).collect();
        let page_node: Vec<usize> = (0..pages).map(|_| dice.below(nodes)).collect();
        // Whole numbers, so that sums in another order are the same.
        let mut gbps = |_| dice.below(200) as f64;
        let bandwidth: Vec<Vec<f64>> = (0..nodes)
            .map(|_| (0..nodes).map(&mut gbps).collect())
            .collect();
        let given = (1.0, 1.5, 16.0);
        let expected = algorithm_5(&counts, &thread_node, &page_node, &bandwidth, given);
        let uses = sparse(&counts);
        let rows: Vec<Row<'_>> = page_node
            .iter()
            .zip(&uses)
            .map(|(home, uses)| (Some(*home), uses.as_slice()))
            .collect();
        let nodes_of: Vec<Option<usize>> = thread_node.iter().map(|&node| Some(node)).collect();
        let found = Bandwidth {
            nodes,
            left: bandwidth.concat(),
            each: given.0,
            c2: given.1,
            min_acc: given.2,
        };
        let found = found.distribute(&rows, &nodes_of);
        let found: Vec<Option<usize>> = found
            .iter()
            .map(|choice| match choice {
                Choice::Skipped => None,
                Choice::Best(node, ..) | Choice::Interleaved(node) => Some(*node),
            })
            .collect();
        assert_eq!(found, expected, "seed {seed}");
    });
}

/// The golden cases of ALGORITHMS, section 7.
#[test]
fn pages_without_bandwidth_are_interleaved_and_those_of_one_thread_go_to_its_node() {
    let distribute = |left: Vec<f64>, rows: &[Row<'_>], node_of: &[Option<usize>]| {
        let bandwidth = Bandwidth {
            nodes: 3,
            left,
            each: 1.0,
            c2: 1.5,
            min_acc: 16.0,
        };
        bandwidth.distribute(rows, node_of)
    };
    let node_of = [0, 1, 2].map(Some);
    let rows = [(Some(0), [(0, 99)].as_slice()); 6];
    let dealt = [0, 1, 2, 0, 1, 2].map(Choice::Interleaved);
    assert_eq!(distribute(vec![0.0; 9], &rows, &node_of), dealt);
    let ample = [[4e3, 2e3, 2e3], [2e3, 4e3, 2e3], [2e3, 2e3, 4e3]].concat();
    for thread in 0..3 {
        for home in 0..3 {
            let uses = [(thread, 20)];
            let found = distribute(ample.clone(), &[(Some(home), &uses)], &node_of);
            let is_near = |choice: &Choice| matches!(choice, Choice::Best(node, ..) if *node == thread as usize);
            assert!(found.iter().all(is_near), "{found:?}");
        }
    }
}

/// LAPT, eq. 4 to 6 and ageing, in whole numbers; the average is compared without dividing.
#[test]
fn the_numa_access_table_is_that_of_equations_4_to_6() {
    each_case(|seed, dice| {
        let nodes = 1 + dice.below(6);
        let mut row = vec![0_u8; nodes];
        let mut nat = vec![0_i64; nodes];
        for call in 0..40 {
            let vector: Vec<usize> = (0..dice.below(5)).map(|_| dice.below(nodes)).collect();
            for n in &vector {
                nat[*n] = i64::min(nat[*n] + 1, 255);
            }
            let max = *nat.iter().max().unwrap();
            let average = nat.iter().sum::<i64>() as f64 / nodes as f64;
            let mut expected = None;
            if max > 0 && max as f64 >= 2.0 * average {
                expected = nat.iter().position(|count| *count == max);
            }
            assert_eq!(
                map_page(&mut row, vector.into_iter()),
                expected,
                "seed {seed}, call {call}"
            );
            if expected.is_some() && dice.chance(50) {
                age(&mut row);
                if average >= 1.0 {
                    nat.iter_mut().for_each(|count| *count /= 2);
                }
            }
            let counts: Vec<i64> = row.iter().copied().map(i64::from).collect();
            assert_eq!(counts, nat, "seed {seed}, call {call}");
        }
    });
}

/// Algorithm 1 of OnDeLoc-MPI: the map has a place for each core, by node.
#[test]
fn on_deloc_map_is_algorithm_1() {
    each_case(|seed, dice| {
        let (nodes, cores) = (1 + dice.below(4), 1 + dice.below(4));
        let tasks = 2 + dice.below(nodes * cores);
        let mut matrix = vec![vec![0_u64; tasks]; tasks];
        for one in 0..tasks {
            for other in one + 1..tasks {
                // All different, so that the order says all.
                let amount = (dice.below(1000) * 64 * 64 + one * 64 + other + 1) as u64;
                matrix[one][other] = if dice.chance(60) { amount } else { 0 };
            }
        }
        let previous: Vec<Option<usize>> = (0..tasks)
            .map(|_| dice.chance(70).then(|| dice.below(nodes)))
            .collect();
        let mut pairs = Vec::new();
        for (one, row) in matrix.iter().enumerate() {
            for (other, amount) in row.iter().enumerate() {
                if *amount > 0 {
                    pairs.push((*amount, one, other));
                }
            }
        }
        let found = on_deloc_map(&pairs, &previous, vec![cores; nodes]);
        let mut map: Vec<Vec<usize>> = vec![Vec::new(); nodes];
        let mut sorted = pairs.clone();
        sorted.sort_unstable();
        let mut next = 0;
        while let Some((_, one, other)) = sorted.pop() {
            let on = |map: &Vec<Vec<usize>>, task: usize| {
                map.iter().position(|node| node.contains(&task))
            };
            let unmapped: Vec<usize> = [one, other]
                .into_iter()
                .filter(|task| on(&map, *task).is_none())
                .collect();
            if unmapped.is_empty() || map.iter().all(|node| node.len() == cores) {
                continue;
            }
            // isNodesAvailable and mapPair(current_pair, prev_nodes).
            let mut tried = map.clone();
            let fits = unmapped.iter().all(|task| match previous[*task] {
                Some(node) if tried[node].len() < cores => {
                    tried[node].push(*task);
                    true
                }
                _ => false,
            });
            if fits {
                map = tried;
                continue;
            }
            // mapPair(current_pair, nextNodeAvailable(T)).
            let mut node = next;
            for task in unmapped {
                for _ in 0..nodes {
                    if map[node].len() < cores {
                        break;
                    }
                    node = (node + 1) % nodes;
                }
                if map[node].len() < cores {
                    map[node].push(task);
                    next = (node + 1) % nodes;
                }
            }
        }
        for task in 0..tasks {
            let expected = map.iter().position(|node| node.contains(&task));
            assert_eq!(found[task], expected, "seed {seed}, task {task}");
        }
    });
}

/// Azimi: one pass over threads by what they say, clusters no larger than a node.
#[test]
fn clusters_grow_in_one_pass() {
    each_case(|seed, dice| {
        let tasks = 1 + dice.below(12);
        let largest = 1 + dice.below(5);
        let mut said = vec![vec![0_u64; tasks]; tasks];
        let mut matrix = CommMatrix::new(tasks);
        for one in 0..tasks {
            for other in 0..one {
                let amount = if dice.chance(50) {
                    dice.below(90) as u64
                } else {
                    0
                };
                (said[one][other], said[other][one]) = (amount, amount);
                matrix.add(one, other, amount);
            }
        }
        let total = |task: usize| said[task].iter().sum::<u64>();
        let mut waiting: Vec<usize> = (0..tasks).filter(|&task| total(task) > 0).collect();
        let mut expected: Vec<Vec<usize>> = Vec::new();
        while !waiting.is_empty() {
            let most = waiting.iter().map(|&task| total(task)).max().unwrap();
            let task = *waiting.iter().find(|&&task| total(task) == most).unwrap();
            waiting.retain(|&other| other != task);
            let mut best = 0;
            let mut into = None;
            for (number, cluster) in expected.iter().enumerate() {
                let with: u64 = cluster.iter().map(|&other| said[task][other]).sum();
                if cluster.len() < largest && with > best {
                    (best, into) = (with, Some(number));
                }
            }
            match into.filter(|_| best * 5 >= total(task)) {
                Some(number) => expected[number].push(task),
                None => expected.push(vec![task]),
            }
        }
        assert_eq!(
            azimi::clusters(&matrix, 0.2, largest),
            expected,
            "seed {seed}"
        );
    });
}

/// Marathe's and Autopin's choices are maxima, the first of equals.
#[test]
fn the_most_used_node_and_the_fastest_pinning_are_found() {
    each_case(|seed, dice| {
        let counts: Vec<u64> = (0..1 + dice.below(6))
            .map(|_| dice.below(4) as u64)
            .collect();
        let mut best = 0;
        for (at, count) in counts.iter().enumerate() {
            if *count > counts[best] {
                best = at;
            }
        }
        assert_eq!(
            most_used(&counts),
            (counts[best] > 0).then_some(best),
            "seed {seed}"
        );
        let paces: Vec<f64> = counts.iter().map(|&count| count as f64).collect();
        assert_eq!(autopin::fastest(&paces), best, "seed {seed}");
    });
}

/// Two cores that share a cache are nearer than two that share a node, and those nearer than two of two nodes.
#[test]
fn cores_are_as_far_apart_as_the_tree_says() {
    let machine = topology::load("2x4").unwrap();
    let cores = Cores::of(&machine);
    for (one, (home, core, _)) in cores.all.iter().enumerate() {
        for (other, (node, partner, _)) in cores.all.iter().enumerate() {
            let far = cores.distance[one * cores.all.len() + other];
            assert_eq!(far == 0, core == partner);
            let caches = machine.caches().iter();
            let deepest = caches.filter(|cache| cache.kind != CacheKind::Instruction);
            let levels = deepest
                .map(|cache| u32::from(cache.level))
                .max()
                .unwrap_or(0)
                + 1;
            assert_eq!(far <= levels, home == node, "{one} {other}: {far}");
        }
    }
}

/// What a method as published asks for in its first window.
fn asked(name: &str, scene: &Scene) -> (Vec<Proposal>, Box<dyn Policy>) {
    let factory = crate::find(name).unwrap();
    let settings = numad_core::Settings::defaults(factory.settings);
    let method = numad_core::Method::Published;
    let mut policy = numad_core::published::build(factory, &settings, 1, method).unwrap();
    let mut out = Vec::new();
    policy.propose(Time(500_000_000), &scene.as_program(), &mut out);
    (out, policy)
}

#[test]
fn the_example_of_lapt_comes_out_as_in_section_iii_d() {
    let mut scene = Scene::new("4x4")
        .with_tasks_on(&[0, 1, 1, 1])
        .with_page(Some(0), &[3, 0, 2, 1]);
    scene.records = vec![PageRecord {
        vector: vec![3, 0, 2, 1],
        uses: Vec::new(),
    }];
    let (out, _) = asked("lapt", &scene);
    assert!(
        matches!(out[..], [Proposal::MovePage { node: 1, .. }]),
        "{out:?}"
    );
}

#[test]
fn lapt_puts_partners_on_cores_of_one_node() {
    let scene = Scene::new("2x2")
        .with_tasks_on(&[0, 1, 0, 1])
        .with_talk(&[(0, 1, 10), (2, 3, 9)]);
    let (out, policy) = asked("lapt", &scene);
    let mut after = scene.clone();
    after.apply(&out);
    let nodes = after.placement();
    assert!(
        nodes[0] == nodes[1] && nodes[2] == nodes[3] && nodes[0] != nodes[2],
        "{nodes:?}"
    );
    let core = |task: usize| policy.core_of(scene.tasks[task].key).unwrap();
    let mut cores: Vec<_> = (0..4).map(core).collect();
    cores.sort_unstable();
    cores.dedup();
    assert_eq!(cores.len(), 4, "a core for each");
}

#[test]
fn methods_of_no_paper_and_settings_of_none_are_refused() {
    let refused = |name: &str, set: &[(&str, &str)]| {
        let factory = crate::find(name).unwrap();
        let given = set.iter().map(|&(name, text)| {
            let spec = numad_core::setting::find(factory.settings, name).unwrap();
            (name.to_owned(), spec.parse(text).unwrap())
        });
        let settings = numad_core::Settings::with(factory.settings, given).unwrap();
        let method = numad_core::Method::Published;
        let built = numad_core::published::build(factory, &settings, 1, method);
        built.err().map(|error| error.to_string())
    };
    assert!(refused("auto", &[]).unwrap().contains("of no paper"));
    assert!(
        refused("lapt", &[("gain_min", "0.5")])
            .unwrap()
            .contains("no part")
    );
    assert!(refused("autopin", &[]).unwrap().contains("pinnings"));
    assert!(
        refused("autopin", &[("pinnings", "0,1/x")])
            .unwrap()
            .contains("`x`")
    );
    assert_eq!(refused("autopin", &[("pinnings", "0,1/1,0")]), None);
    assert_eq!(refused("ptb", &[("min_acc", "4")]), None);
    assert!(refused("ptb", &[("gain_min", "0.5")]).is_some());
}
