//! The policy as a whole.

use numad_core::{Proposal, Reason, Settings, Time};
use testkit::{Scene, jury};

use super::*;
use crate::tests::{build, nodes_after, proposals};

/// Pages of groups of threads, so many for each, on the node that the group's number names.
fn groups(machine: &str, nodes: &[usize], groups: &[&[u32]], pages: usize) -> Scene {
    let mut scene = Scene::new(machine).with_tasks_on(nodes);
    for page in 0..pages {
        let group = groups[page % groups.len()];
        scene = scene.with_page(Some(0), group);
    }
    for page in &mut scene.pages {
        page.samples = 50;
    }
    scene
}

#[test]
fn threads_that_use_the_same_pages_come_together_and_say_why() {
    let scene = groups("2x2", &[0, 1, 0, 1], &[&[0, 1], &[2, 3]], 40);
    let after = nodes_after("ptb", &scene);
    assert!(
        after[0] == after[1] && after[2] == after[3] && after[0] != after[2],
        "{after:?}"
    );
    let first = proposals("ptb", &[], &scene).into_iter().next();
    let reason = Reason::Similar {
        with: scene.tasks[1].key,
        percent: 100,
    };
    assert_eq!(
        first,
        Some(Proposal::PlaceTask {
            task: 0,
            node: after[0].unwrap(),
            reason
        })
    );
}

#[test]
fn pages_are_planned_for_where_threads_will_be() {
    let scene = groups("2x2@10,21", &[0, 1, 0, 1], &[&[0, 1], &[2, 3]], 40);
    let all = proposals("ptb", &[], &scene);
    let pages: Vec<&Proposal> = all
        .iter()
        .filter(|one| matches!(one, Proposal::MovePage { .. }))
        .collect();
    assert_eq!(
        pages.len(),
        20,
        "those of the threads that are on node 1 then"
    );
    for one in pages {
        assert!(
            matches!(
                one,
                Proposal::MovePage {
                    node: 1,
                    reason: Reason::Bandwidth { there_mbps, here_mbps },
                    ..
                } if there_mbps > here_mbps
            ),
            "{one:?}"
        );
    }
}

#[test]
fn few_threads_move_for_a_small_change() {
    // Sixteen pairs in place, one of them torn apart by an exchange.
    let pairs: Vec<[u32; 2]> = (0..16).map(|pair| [2 * pair, 2 * pair + 1]).collect();
    let pairs: Vec<&[u32]> = pairs.iter().map(|pair| &pair[..]).collect();
    let mut nodes: Vec<usize> = (0..32).map(|task| task / 8).collect();
    nodes.swap(0, 31);
    let scene = groups("4x8", &nodes, &pairs, 320);
    let after = nodes_after("ptb", &scene);
    assert!(after.chunks(2).all(|pair| pair[0] == pair[1]), "{after:?}");
    let moved = after
        .iter()
        .zip(nodes)
        .filter(|&(&after, node)| after != Some(node));
    assert_eq!(moved.count(), 2);
}

#[test]
fn how_threads_are_listed_makes_no_difference() {
    // Six equal trios, every one torn apart: nothing tells one from another but who shares with whom.
    let trios: Vec<[u32; 3]> = (0..6).map(|trio| [trio, trio + 6, trio + 12]).collect();
    let trios: Vec<&[u32]> = trios.iter().map(|trio| &trio[..]).collect();
    let nodes: Vec<usize> = (0..18).map(|task| task % 3).collect();
    let scene = groups("3x6", &nodes, &trios, 180);
    let outcome = |scene: &Scene| {
        let mut after = scene.clone();
        let moved = after.apply(&proposals("ptb", &[], scene));
        let nodes = |page: &Page| -> std::collections::BTreeSet<_> {
            let users = page.accessors().iter();
            users
                .map(|user| after.tasks[user.task as usize].node)
                .collect()
        };
        let together = scene.pages.iter().filter(|page| nodes(page).len() == 1);
        (moved, together.count())
    };
    let expected = outcome(&scene);
    assert_eq!(expected.1, 180, "all trios are whole");
    let mut dice = testkit::Dice::new(1);
    for _ in 0..40 {
        let mut order: Vec<usize> = (0..18).collect();
        dice.shuffle(&mut order);
        assert_eq!(outcome(&scene.in_order(&order)), expected, "{order:?}");
    }
}

#[test]
fn chance_moves_nobody() {
    for seed in 0..4 {
        let mut dice = testkit::Dice::new(seed);
        let nodes: Vec<usize> = (0..32).map(|task| task % 4).collect();
        let mut scene = Scene::new("4x8").with_tasks_on(&nodes);
        for _ in 0..10_000 {
            let users = [dice.below(32), dice.below(32), dice.below(32)];
            scene = scene.with_page(Some(0), &users.map(|user| u32::try_from(user).unwrap_or(0)));
        }
        let after = nodes_after("ptb", &scene);
        let moved = after
            .iter()
            .zip(&nodes)
            .filter(|&(&after, &node)| after != Some(node));
        assert_eq!(moved.count(), 0, "seed {seed}");
    }
}

#[test]
fn bad_numbers_are_refused_by_name() {
    let refusal = |name: &str, text: &str| {
        let factory = crate::find("ptb").unwrap();
        let value = numad_core::SettingValue::Text(text.to_owned());
        let settings = Settings::with(factory.settings, [(name.to_owned(), value)]).unwrap();
        (factory.build)(&settings, 0).unwrap_err().to_string()
    };
    assert_eq!(
        refusal("c2", "often"),
        "setting `c2` is `often`, must be a number from 1 to 32, or `auto`"
    );
    for (name, text) in [
        ("c2", "0.9"),
        ("c2", "NaN"),
        ("min_acc", "0"),
        ("min_acc", "65536"),
    ] {
        assert!(refusal(name, text).contains("must be"), "{name} {text}");
    }
}

#[test]
fn settings_that_are_texts_face_the_jury_too() {
    let factory = crate::find("ptb").unwrap();
    for (c2, min_acc) in [("1.5", "16"), ("1", "1"), ("32", "65535")] {
        let given = [("c2", c2), ("min_acc", min_acc)].map(|(name, text)| {
            (
                name.to_owned(),
                numad_core::SettingValue::Text(text.to_owned()),
            )
        });
        let settings = Settings::with(factory.settings, given).unwrap();
        for seed in 0..40 {
            jury::hear(factory, &settings, seed).unwrap();
        }
    }
}

#[test]
fn what_moves_cost_decides_what_auto_asks_for() {
    let scene = groups("2x2@10,21", &[0, 1], &[&[1]], 100);
    let moves = |page_move_ns, accesses_per_amount| {
        let mut scene = scene.clone();
        scene.prices.horizon_ns = 5e9;
        scene.prices.page_move_ns = page_move_ns;
        scene.prices.accesses_per_amount = accesses_per_amount;
        let mut out = Vec::new();
        build("ptb", &[]).propose(Time(0), &scene.as_program(), &mut out);
        out.iter()
            .filter(|one| matches!(one, Proposal::MovePage { .. }))
            .count()
    };
    assert_eq!(moves(2_000.0, 1_000.0), 100);
    assert_eq!(
        moves(2_000_000.0, 1_000.0),
        0,
        "each costs what it never saves"
    );
    assert_eq!(moves(3_000.0, 0.01), 0, "nothing to save");
    // Before any was measured the paper's values are the most that is asked.
    assert_eq!(moves(2_000.0, 0.01), 100);
}
