//! `DeLocMap` of a profile against a reference that was written from the dissertation's text alone (section 3.3.3):
//! a map of cores to tasks, as there, and no shared code. 300 random cases; one that differs prints its seed.

use control::plan::{Level, Plan};
use control::profile::Profile;
use plan::{Method, Site, Work, plan};
use policies::offline::{Pair, deloc_map};
use testkit::Dice;

const CASES: u64 = 300;

/// Algorithm 1 with its map M: for each core its node, and the task that it was given.
struct CoreMap {
    m: Vec<(usize, Option<usize>)>,
    nodes: usize,
    current_node: usize,
}

impl CoreMap {
    fn node_of(&self, task: usize) -> Option<usize> {
        let entry = self.m.iter().find(|(_, held)| *held == Some(task));
        entry.map(|(node, _)| *node)
    }

    fn unmapped(&self, node: usize) -> usize {
        self.m
            .iter()
            .filter(|(of, held)| *of == node && held.is_none())
            .count()
    }

    fn put(&mut self, task: usize, node: usize) {
        let core = self
            .m
            .iter_mut()
            .find(|(of, held)| *of == node && held.is_none());
        core.expect("a core").1 = Some(task);
    }

    /// The current node or the next behind it with so many unmapped cores.
    fn with_room(&self, cores: usize) -> Option<usize> {
        let mut node = self.current_node;
        for _ in 0..self.nodes {
            if self.unmapped(node) >= cores {
                return Some(node);
            }
            node = if node + 1 == self.nodes { 0 } else { node + 1 };
        }
        None
    }

    fn put_on_next(&mut self, task: usize) {
        if let Some(node) = self.with_room(1) {
            self.put(task, node);
            self.current_node = (node + 1) % self.nodes;
        }
    }

    fn map_pair(&mut self, one: usize, other: usize, said: &[u64]) {
        match (self.node_of(one), self.node_of(other)) {
            (Some(_), Some(_)) => {}
            (None, None) => match self.with_room(2) {
                Some(node) => {
                    self.put(one, node);
                    self.put(other, node);
                    self.current_node = (node + 1) % self.nodes;
                }
                // Split over the two next nodes, who says more first.
                None if said[other] > said[one] => {
                    self.put_on_next(other);
                    self.put_on_next(one);
                }
                None => {
                    self.put_on_next(one);
                    self.put_on_next(other);
                }
            },
            (Some(node), None) if self.unmapped(node) > 0 => self.put(other, node),
            (Some(_), None) => self.put_on_next(other),
            (None, Some(node)) if self.unmapped(node) > 0 => self.put(one, node),
            (None, Some(_)) => self.put_on_next(one),
        }
    }
}

fn reference(tasks: usize, groups: &[Vec<Pair>], cores: &[usize]) -> Vec<Option<usize>> {
    let mut map = CoreMap {
        m: Vec::new(),
        nodes: cores.len(),
        current_node: 0,
    };
    for (node, count) in cores.iter().enumerate() {
        for _ in 0..*count {
            map.m.push((node, None));
        }
    }
    let mut said = vec![0; tasks];
    for group in groups {
        for (one, other, amount) in group {
            said[*one] += amount;
            said[*other] += amount;
        }
    }
    // L_group and L_pair have the same divisor everywhere, so amounts have their order.
    let mut left: Vec<Vec<Pair>> = groups.to_vec();
    while !left.is_empty() {
        let loads: Vec<u64> = left
            .iter()
            .map(|group| group.iter().map(|pair| pair.2).sum())
            .collect();
        let most = loads.iter().max().expect("a group");
        let at = loads
            .iter()
            .position(|load| load == most)
            .expect("it is one of them");
        let mut group = left.remove(at);
        while !group.is_empty() {
            let most = group.iter().map(|pair| pair.2).max().expect("a pair");
            let at = group
                .iter()
                .position(|pair| pair.2 == most)
                .expect("it is one of them");
            let (one, other, _) = group.remove(at);
            map.map_pair(one, other, &said);
        }
    }
    for task in (0..tasks).filter(|task| said[*task] == 0) {
        let tasks_on = |node: usize| {
            map.m
                .iter()
                .filter(|(of, held)| *of == node && held.is_some())
                .count()
        };
        let mut fewest: Option<(usize, usize)> = None;
        for node in 0..cores.len() {
            let count = tasks_on(node);
            if map.unmapped(node) > 0 && fewest.is_none_or(|(least, _)| count < least) {
                fewest = Some((count, node));
            }
        }
        if let Some((_, node)) = fewest {
            map.put(task, node);
        }
    }
    (0..tasks).map(|task| map.node_of(task)).collect()
}

/// Groups in which pairs come again, with amounts that are all different.
fn groups(dice: &mut Dice, tasks: usize) -> Vec<Vec<Pair>> {
    let mut serial = 0;
    let mut group = |dice: &mut Dice| {
        let mut pairs = Vec::new();
        for low in 0..tasks {
            for high in low + 1..tasks {
                if dice.chance(30) {
                    serial += 1;
                    pairs.push((low, high, dice.below(50) as u64 * 1_000_000 + serial));
                }
            }
        }
        pairs
    };
    let count = dice.below(5);
    (0..count).map(|_| group(dice)).collect()
}

#[test]
fn tasks_are_mapped_by_algorithm_1() {
    for seed in 0..CASES {
        let mut dice = Dice::new(seed);
        let cores: Vec<usize> = (0..1 + dice.below(5)).map(|_| dice.below(5)).collect();
        let room: usize = cores.iter().sum();
        let tasks = if room > 1 {
            2 + dice.below(room - 1)
        } else {
            2
        };
        let groups = groups(&mut dice, tasks);
        let expected = reference(tasks, &groups, &cores);
        assert_eq!(
            deloc_map(tasks, &groups, &cores),
            expected,
            "seed {seed}: {cores:?} {groups:?}"
        );
    }
}

fn profile(tasks: usize, groups: &[Vec<Pair>]) -> Work {
    let group = |(at, pairs): (usize, &Vec<Pair>)| {
        let pair = |pair: &Pair| {
            let (low, high, bytes) = *pair;
            serde_json::json!({ "low": low, "high": high, "bytes": bytes, "events": 1 })
        };
        let pairs: Vec<_> = pairs.iter().map(pair).collect();
        serde_json::json!({ "from_s": at, "to_s": at + 1, "pairs": pairs })
    };
    let groups: Vec<_> = groups.iter().enumerate().map(group).collect();
    let names: Vec<String> = (0..tasks).map(|rank| format!("rank {rank}")).collect();
    let text = serde_json::json!({
        "numad_profile": 1, "made_by": "a test", "source": "a test", "level": "message", "tasks": names,
        "metrics": { "comm_bytes": 0, "comm_ratio": null, "concurrency": null, "dram_ratio": null, "locality": 0.0,
            "changes": null },
        "thresholds": { "comm_min": 0.0, "dram_min": 0.0, "changes_max": 0 },
        "class": null, "groups": groups, "moments": [], "notes": [],
    });
    let profile = Profile::parse(text.to_string().as_bytes(), "a test").expect("a profile");
    Work::of_profile(&profile).expect("tasks")
}

fn planned(work: &Work, machines: &[&str]) -> Plan {
    let site = |name: &&str| Site {
        name: (*name).to_owned(),
        topology: topology::load_text(name, "a test").expect("a machine"),
    };
    let sites: Vec<Site> = machines.iter().map(site).collect();
    assert_eq!(Method::for_work(work), Method::Deloc);
    plan(work, &sites, Level::Message, Method::Deloc).expect("a plan")
}

fn nodes(plan: &Plan) -> Vec<(u32, u32)> {
    plan.places
        .iter()
        .map(|place| (place.machine, place.node))
        .collect()
}

#[test]
fn golden_plans_of_profiles() {
    let work = profile(8, &[vec![(0, 1, 8), (2, 3, 7), (4, 5, 6), (6, 7, 5)]]);
    let found = planned(&work, &["2x4@10,21"]);
    let expected = [0, 0, 1, 1, 0, 0, 1, 1].map(|node| (0, node));
    assert_eq!(nodes(&found), expected);
    assert_eq!(found.policy, "deloc");
    // Groups matter: as sums alone 0-1 would come before 2-3, and 4-5 last.
    let groups = [vec![(0, 1, 10)], vec![(4, 5, 6), (2, 3, 8)]];
    let found = planned(&profile(6, &groups), &["3x2@10,21"]);
    assert_eq!(nodes(&found), [2, 2, 0, 0, 1, 1].map(|node| (0, node)));
}

/// Machines first, by who says most; then each by the groups among its own ranks.
#[test]
fn ranks_of_two_machines_are_mapped_within_each() {
    let groups = [vec![
        (0, 1, 90),
        (2, 3, 80),
        (0, 2, 70),
        (4, 5, 60),
        (6, 7, 50),
        (4, 6, 40),
    ]];
    let found = planned(&profile(8, &groups), &["2x2@10,21", "2x2@10,21"]);
    let nodes = nodes(&found);
    let machine = |rank: usize| nodes[rank].0;
    assert!((0..4).all(|rank| machine(rank) == machine(0)), "{nodes:?}");
    assert!((4..8).all(|rank| machine(rank) == machine(4)), "{nodes:?}");
    assert_ne!(machine(0), machine(4));
    for (one, other, elsewhere) in [(0, 1, 2), (2, 3, 0), (4, 5, 6), (6, 7, 4)] {
        assert_eq!(nodes[one], nodes[other]);
        assert_ne!(nodes[one].1, nodes[elsewhere].1);
    }
}
