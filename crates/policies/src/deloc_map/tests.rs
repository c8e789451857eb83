use proptest::prelude::{Just, Strategy, prop, proptest};
use proptest::test_runner::Config;
use testkit::{Dice, Scene};

use super::*;

fn decisions(scene: &Scene) -> Vec<(usize, usize)> {
    let program = scene.as_program();
    map(
        &program,
        scene.placement(),
        &Talk::of(&program.live.partners()),
    )
}

fn mapped(scene: &Scene) -> Vec<Option<usize>> {
    let mut places = scene.placement();
    for (task, node) in decisions(scene) {
        places[task] = Some(node);
    }
    places
}

/// `nodes` gives where tasks are now; `-` is unknown.
#[track_caller]
fn check(machine: &str, nodes: &str, talk: &[(usize, usize, u64)], expected: &str) {
    let scene = scene(machine, nodes, talk);
    assert_eq!(shown(&mapped(&scene)), expected);
}

fn scene(machine: &str, nodes: &str, talk: &[(usize, usize, u64)]) -> Scene {
    let nodes: Vec<Option<usize>> = nodes.split(' ').map(|node| node.parse().ok()).collect();
    Scene::new(machine).with_tasks(&nodes).with_talk(talk)
}

fn shown(places: &[Option<usize>]) -> String {
    let places = places
        .iter()
        .map(|place| place.map_or("-".to_owned(), |node| node.to_string()));
    places.collect::<Vec<_>>().join(" ")
}

#[test]
fn golden_two_nodes_two_cores_two_migrations() {
    check("2x2", "0 1 0 1", &[(0, 1, 10), (2, 3, 9)], "0 0 1 1");
}

#[test]
fn tasks_on_one_node_stay_there() {
    check("2x2", "1 1 0 0", &[(0, 1, 5), (2, 3, 9)], "1 1 0 0");
}

#[test]
fn a_pair_goes_where_it_leaves_less_behind() {
    // 0 on node 0 also talks to 2 there, 1 on node 1 more to 3 there: node 1 it is, and 2 has no
    // place beside them.
    check(
        "2x3",
        "0 1 0 1",
        &[(0, 1, 10), (0, 2, 3), (1, 3, 4)],
        "1 1 0 1",
    );
    // As much on either side: the first node.
    check(
        "2x3",
        "0 1 0 1",
        &[(0, 1, 10), (0, 2, 4), (1, 3, 4)],
        "0 0 0 1",
    );
}

#[test]
fn a_pair_on_two_full_nodes_goes_to_the_next_with_two_places() {
    // Silent tasks hold all but one place of nodes 0 and 1.
    check("3x2", "0 1 0 1", &[(0, 1, 10)], "2 2 0 1");
}

#[test]
fn round_robin_goes_on_behind_the_node_it_gave() {
    check(
        "3x4",
        "- - - - - -",
        &[(0, 1, 9), (2, 3, 8), (4, 5, 7)],
        "0 0 1 1 2 2",
    );
    check(
        "2x4",
        "- - - - - - - -",
        &[(0, 1, 9), (2, 3, 8), (4, 5, 7), (6, 7, 6)],
        "0 0 1 1 0 0 1 1",
    );
}

#[test]
fn one_known_task_draws_its_partner() {
    check("2x2", "- 1", &[(0, 1, 1)], "1 1");
}

#[test]
fn without_two_places_anywhere_each_stays() {
    check("2x2", "0 1 0 1", &[(0, 1, 10)], "0 1 0 1");
}

#[test]
fn a_late_task_goes_to_its_partner_else_stays_else_goes_on() {
    check("2x3", "0 0 1", &[(0, 1, 9), (1, 2, 5)], "0 0 0");
    check("2x2", "0 0 1", &[(0, 1, 9), (1, 2, 5)], "0 0 1");
    check("2x2", "0 0 0 1", &[(0, 1, 9), (1, 2, 5)], "0 0 1 1");
}

#[test]
fn equal_pairs_are_taken_by_lower_then_higher_position() {
    // (0,1), (0,2), (1,2) are equal and node 0 takes two: 2 is left over.
    check("2x2", "0 0 0", &[(1, 2, 5), (0, 2, 5), (0, 1, 5)], "0 0 1");
}

#[test]
fn a_crowded_node_keeps_the_heaviest_pair() {
    check("2x2", "0 0 0 0", &[(0, 1, 5), (2, 3, 9)], "1 1 0 0");
}

#[test]
fn where_a_task_may_not_run_it_is_not_put() {
    let talk = [(0, 1, 9)];
    let banned = scene("2x2", "0 1", &talk).with_ban(1, 0);
    assert_eq!(shown(&mapped(&banned)), "1 1");
    let apart = scene("2x2", "0 1", &talk).with_ban(1, 0).with_ban(0, 1);
    assert_eq!(shown(&mapped(&apart)), "0 1");
    let evicted = scene("2x2", "0 0", &talk).with_ban(0, 0).with_ban(1, 0);
    assert_eq!(shown(&mapped(&evicted)), "1 1");
}

#[test]
fn without_places_everyone_stays() {
    let full = scene("2x2", "0 1 0", &[(0, 1, 9)]).with_capacity(&[0, 0]);
    assert_eq!(decisions(&full), []);
}

/// The method as it is told, pair by pair over all pairs, to check that looking only at the first
/// pair of each task is the same.
fn mapped_by_all_pairs(scene: &Scene) -> Vec<Option<usize>> {
    let program = scene.as_program();
    let talks = |task: usize| program.live.row_sum(task) > 0;
    let partners = program.live.partners();
    let silent = (0..program.tasks.len()).filter(|&task| !talks(task));
    let seats = Seats::without(&program, silent);
    let mut dealer = Dealer::new(program.tasks, seats, scene.placement());
    let talk = Talk::of(&partners);
    let pairs = program.live.pairs();
    let pairs = pairs.map(|(low, high, amount)| (Reverse(amount), low, high));
    let mut pairs: Vec<Pair> = pairs.collect();
    pairs.sort_by_key(|pair| pair.0);
    for (_, low, high) in pairs {
        talk.decide([low, high], &mut dealer);
    }
    dealer.places
}

fn cross_amount(scene: &Scene, places: &[Option<usize>]) -> u64 {
    let pairs = scene
        .live
        .pairs()
        .filter(|&(one, other, _)| places[one] != places[other]);
    pairs.map(|(_, _, amount)| amount).sum()
}

/// A chance order of tasks in partner pairs on a machine that is just large enough, all placed.
fn shuffled_pairs() -> impl Strategy<Value = Scene> {
    (1_usize..5, 1_usize..4).prop_flat_map(|(nodes, half)| {
        let tasks = nodes * half * 2;
        let order = Just((0..tasks).collect::<Vec<_>>()).prop_shuffle();
        let amounts = prop::collection::vec(20_u64..100, tasks / 2);
        (Just(format!("{nodes}x{}", half * 2)), order, amounts).prop_map(
            move |(text, order, amounts)| {
                let mut talk: Vec<_> = amounts
                    .iter()
                    .zip(order.chunks(2))
                    .map(|(&amount, pair)| (pair[0], pair[1], amount))
                    .collect();
                // A weak background between all.
                talk.extend(
                    (0..tasks).flat_map(|one| (one + 1..tasks).map(move |other| (one, other, 1))),
                );
                let places: Vec<usize> = (0..tasks).map(|task| task % nodes).collect();
                Scene::new(&text).with_tasks_on(&places).with_talk(&talk)
            },
        )
    })
}

proptest! {
    #![proptest_config(Config { cases: 300, failure_persistence: None, ..Config::default() })]

    #[test]
    fn golden_an_unchanged_matrix_is_a_fixed_point(seed: u64) {
        let mut scene = Scene::random(&mut Dice::new(seed));
        let first = mapped(&scene);
        for (task, &node) in scene.tasks.iter_mut().zip(&first) {
            task.node = node;
        }
        assert_eq!(mapped(&scene), first);
    }

    #[test]
    fn the_first_pair_of_each_task_is_all_that_counts(seed: u64) {
        let scene = Scene::random(&mut Dice::new(seed));
        assert_eq!(mapped(&scene), mapped_by_all_pairs(&scene));
    }

    #[test]
    fn partners_share_a_node_where_nodes_hold_whole_pairs(scene in shuffled_pairs()) {
        let places = mapped(&scene);
        let partners = scene.live.pairs().filter(|&(_, _, amount)| amount > 1);
        for (one, other, _) in partners {
            assert_eq!(places[one], places[other], "{places:?}");
        }
        assert!(cross_amount(&scene, &places) <= cross_amount(&scene, &scene.placement()));
        let moved = places.iter().zip(scene.placement()).filter(|&(now, before)| *now != before).count();
        assert!(moved <= scene.tasks.len());
    }
}
