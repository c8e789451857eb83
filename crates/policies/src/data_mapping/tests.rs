use numad_core::Veto;
use testkit::{Scene, Shape, machine};

use super::*;

fn mapping(settings: &[(&str, i64)]) -> DataMapping {
    let specs = const { &[RATIO, HISTORY] };
    let given = settings
        .iter()
        .map(|&(name, value)| (name.to_owned(), numad_core::SettingValue::Integer(value)));
    DataMapping::new(&Settings::with(specs, given).unwrap())
}

/// One call: the pages proposed and where to.
fn call(mapping: &mut DataMapping, scene: &Scene) -> Vec<Proposal> {
    let mut out = Vec::new();
    mapping.propose(Time(0), &scene.as_program(), &mut out);
    out
}

fn targets(proposals: &[Proposal]) -> Vec<usize> {
    let nodes = proposals.iter().map(|proposal| match proposal {
        Proposal::MovePage { node, .. } => *node,
        Proposal::PlaceTask { .. } => panic!("{proposal:?} from a data mapping"),
    });
    nodes.collect()
}

/// Four nodes, thread 0 on node 0, the others on node 1, a page on node 0 that all use.
fn golden() -> Scene {
    Scene::new("4x4")
        .with_tasks_on(&[0, 1, 1, 1])
        .with_page(Some(0), &[3, 0, 2, 1])
}

#[test]
fn golden_counts_move_and_halving() {
    let mut mapping = mapping(&[]);
    let proposals = call(&mut mapping, &golden());
    assert_eq!(mapping.table.counts, [1, 3, 0, 0]);
    let [
        Proposal::MovePage {
            node: 1, reason, ..
        },
    ] = &proposals[..]
    else {
        panic!("{proposals:?}");
    };
    assert_eq!(
        *reason,
        Reason::Accesses {
            there: 3,
            mean: 1.0
        }
    );
    mapping.on_fate(Time(0), &proposals[0], Fate::Done);
    assert_eq!(mapping.table.counts, [0, 1, 0, 0]);
}

#[test]
fn what_was_not_moved_is_not_halved_and_comes_again() {
    for fate in [Fate::Failed, Fate::Dropped(Veto::Budget)] {
        let mut mapping = mapping(&[]);
        let proposals = call(&mut mapping, &golden());
        mapping.on_fate(Time(0), &proposals[0], fate);
        assert_eq!(mapping.table.counts, [1, 3, 0, 0]);
        assert_eq!(targets(&call(&mut mapping, &golden())), [1]);
    }
}

#[test]
fn below_an_average_of_one_nothing_is_halved() {
    let scene = Scene::new("4x4")
        .with_tasks_on(&[1])
        .with_page(Some(0), &[0]);
    let mut mapping = mapping(&[]);
    let proposals = call(&mut mapping, &scene);
    mapping.on_fate(Time(0), &proposals[0], Fate::Done);
    assert_eq!(mapping.table.counts, [0, 1, 0, 0]);
}

/// Where the first call sends the page, if anywhere.
#[track_caller]
fn check(scene: &Scene, expected: Option<usize>) {
    let expected: Vec<usize> = expected.into_iter().collect();
    assert_eq!(targets(&call(&mut mapping(&[]), scene)), expected);
}

#[test]
fn a_page_without_a_clear_favourite_stays() {
    let page = |accessors: &[u32]| {
        Scene::new("3x4")
            .with_tasks_on(&[0, 1, 1, 2])
            .with_page(Some(0), accessors)
    };
    check(&page(&[0, 1, 2, 3]), None); // 1, 2, 1: the most is 2, twice the mean 2.67
    check(&page(&[1, 2, 3]), Some(1)); // 0, 2, 1: the mean is 1
}

#[test]
fn a_page_already_at_one_of_the_best_nodes_stays() {
    let scene = Scene::new("4x4").with_tasks_on(&[1, 1, 2, 2]);
    check(&scene.clone().with_page(Some(2), &[0, 1, 2, 3]), None);
    check(&scene.clone().with_page(Some(3), &[0, 1, 2, 3]), Some(1));
    check(&scene.clone().with_page(None, &[0]), None);
    check(&scene.with_page(Some(0), &[]), None);
}

#[test]
fn unknown_nodes_and_tasks_count_for_nothing() {
    let scene = Scene::new("2x4").with_tasks(&[None, Some(1), Some(0)]);
    let mut scene = scene.with_page(Some(0), &[0, 1]);
    check(&scene, Some(1));
    scene.pages[0].recent[1].task = 77;
    check(&scene, None);
}

#[test]
fn who_used_a_page_long_ago_counts_for_nothing() {
    let scene = Scene::new("2x4")
        .with_tasks_on(&[0, 1])
        .with_page(Some(0), &[1, 0]);
    let weights = |new, old| {
        let mut scene = scene.clone();
        scene.pages[0].recent[0].weight = new;
        scene.pages[0].recent[1].weight = old;
        scene
    };
    check(&weights(1, 1), None);
    check(&weights(4, 1), None);
    check(&weights(5, 1), Some(1));
    check(&weights(1, 0), Some(1));
    check(&weights(0, 0), None);
    check(&weights(u32::MAX, 1 << 29), Some(1));
    check(&weights(u32::MAX, 1 << 30), None);
}

#[test]
fn memory_free_on_the_node_is_a_condition() {
    let page = golden().as_program().page_bytes;
    check(&golden().with_free_bytes(&[0, page, 0, 0]), Some(1));
    check(&golden().with_free_bytes(&[0, page - 1, 0, 0]), None);
    // Room for one: the page used more has it.
    let mut scene = golden()
        .with_page(Some(0), &[1])
        .with_free_bytes(&[0, page, 0, 0]);
    scene.pages[1].samples = 9;
    let proposals = call(&mut mapping(&[]), &scene);
    let [Proposal::MovePage { page, .. }] = proposals[..] else {
        panic!("{proposals:?}");
    };
    assert_eq!(page, scene.pages[1].key);
}

#[test]
fn nodes_of_memory_alone_do_not_lower_the_bar() {
    let shapes = [(0, 2), (1, 2), (2, 0), (3, 0)].map(|(id, cores)| Shape {
        id,
        cores,
        memory_bytes: 1 << 30,
    });
    // 2 uses from node 0, 1 from node 1: the mean is 1.5, or 0.75 over all four.
    let scene = Scene::on(machine(&shapes)).with_tasks_on(&[0, 0, 1]);
    check(&scene.with_page(Some(1), &[0, 1, 2]), None);
}

#[test]
fn on_two_nodes_pages_follow_a_thread_that_moves() {
    let mut scene = Scene::new("2x4")
        .with_tasks_on(&[0])
        .with_page(Some(0), &[0]);
    let mut mapping = mapping(&[]);
    for _ in 0..10 {
        assert_eq!(call(&mut mapping, &scene), []);
    }
    scene.tasks[0].node = Some(1);
    assert_eq!(targets(&call(&mut mapping, &scene)), [1]);
    assert_eq!(mapping.table.counts, [0, 1]);
    call(&mut mapping, &scene);
    assert_eq!(mapping.table.counts, [0, 2]);
}

#[test]
fn a_move_is_noticed_though_the_page_was_not_seen_meanwhile() {
    let mut scene = Scene::new("2x4")
        .with_tasks_on(&[0])
        .with_page(Some(0), &[0]);
    let mut mapping = mapping(&[]);
    assert_eq!(call(&mut mapping, &scene), []);
    let pages = std::mem::take(&mut scene.pages);
    scene.tasks[0].node = Some(1);
    call(&mut mapping, &scene);
    scene.tasks[0].node = None; // Not seen for a window is not moved.
    call(&mut mapping, &scene);
    scene.tasks[0].node = Some(1);
    scene.pages = pages;
    assert_eq!(targets(&call(&mut mapping, &scene)), [1]);
}

#[test]
fn the_move_of_a_thread_that_used_the_page_a_while_ago_is_noticed() {
    let mut scene = Scene::new("4x4")
        .with_tasks_on(&[0, 1])
        .with_page(Some(0), &[1, 0]);
    let mut mapping = mapping(&[]);
    for _ in 0..4 {
        assert_eq!(call(&mut mapping, &scene), []);
    }
    scene.pages[0].recent[0].weight = 1;
    scene.pages[0].recent[1].weight = 0;
    scene.tasks[0].node = Some(1);
    assert_eq!(targets(&call(&mut mapping, &scene)), [1]);
    assert_eq!(mapping.table.counts, [0, 1, 0, 0]);
}

#[test]
fn an_old_use_fades() {
    let mut scene = Scene::new("2x4")
        .with_tasks_on(&[0, 1])
        .with_page(Some(0), &[1, 0]);
    let mut mapping = mapping(&[]);
    assert_eq!(call(&mut mapping, &scene), []);
    scene.pages[0].accessor_count = 1;
    let calls = (1..100).find(|_| !call(&mut mapping, &scene).is_empty());
    // Three uses beside the old one are enough.
    assert_eq!(calls, Some(2));
}

#[test]
fn a_slot_taken_over_starts_from_nothing() {
    let mut scene = Scene::new("2x4")
        .with_tasks_on(&[0, 1])
        .with_page(Some(0), &[0]);
    let mut mapping = mapping(&[]);
    assert_eq!(call(&mut mapping, &scene), []);
    scene.pages[0].key.page += 1;
    scene.pages[0].recent[0].task = 1;
    assert_eq!(targets(&call(&mut mapping, &scene)), [1]);
}

#[test]
fn a_slot_beyond_the_limit_is_left_out() {
    let mut scene = golden();
    scene.pages[0].slot = u32::MAX;
    let mut mapping = mapping(&[]);
    assert_eq!(call(&mut mapping, &scene), []);
    assert!(mapping.table.owners.is_empty());
}

#[test]
fn only_so_many_pages_are_proposed_the_most_used_first() {
    let page = |samples: u32| Page {
        key: PageKey {
            space: numad_core::SpaceId(0),
            page: u64::from(samples % 3),
        },
        slot: 0,
        home: None,
        recent: [Accessor::default(); 4],
        accessor_count: 0,
        samples,
        forgotten: 0,
        span: 1,
    };
    let pages = [4, 9, 1, 7, 5].map(page);
    let candidate = |page| Candidate {
        page,
        node: 0,
        there: 1,
        mean: 1.0,
    };
    let mut candidates: Vec<_> = pages.iter().map(candidate).collect();
    keep_hottest(&mut candidates, 3);
    let samples: Vec<u32> = candidates
        .iter()
        .map(|candidate| candidate.page.samples)
        .collect();
    assert_eq!(samples, [9, 7, 5]);
}

#[test]
fn a_fault_tells_who_came_first_and_no_more() {
    let uses = |counts: &[u8], firsts| told(counts, firsts).collect::<Vec<_>>();
    assert_eq!(uses(&[8, 3, 2, 1], true), [1, 1, 1, 0]);
    assert_eq!(uses(&[0, 0, 0, 0], true), [0, 0, 0, 0]);
    assert_eq!(uses(&[8, 3, 2, 1], false), [8, 3, 2, 1]);
}
