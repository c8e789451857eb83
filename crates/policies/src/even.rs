//! Pages that all use alike, dealt out so that each node has its part.
//!
//! The data mapping leaves a page where it is that no node uses much more than others: it would be
//! no nearer anywhere. But where such pages came to be, one controller may have most of them, since
//! memory lies where it was touched first. So the policies that mind controllers spread them: from
//! nodes that are asked for more than their part of what the program asks, to those asked for
//! least, the most used pages first, and no more than it takes.

use std::cmp::Reverse;

use numad_core::policy::ACCESSORS_MAX;
use numad_core::{Evenness, Page, PageKey, Program, Proposal, Reason, SettingKind, SettingSpec};

use crate::figures::percent;

/// Whether pages that all use alike are spread.
pub(crate) const EVEN: SettingSpec = SettingSpec {
    name: "pages_even",
    kind: SettingKind::Bool(true),
    help: "Spread pages that all nodes use alike, so that no memory controller has most of them.",
};

/// Which pages are everyone's ([`Page::is_everyones`]). Where no more nodes run tasks than a page
/// remembers users, who comes again and again tells where it belongs, unless none is remembered.
pub(crate) fn everyones(program: &Program<'_>) -> impl Fn(&Page) -> bool + use<> {
    let homes = program.capacity.iter().filter(|&&room| room > 0).count();
    let tasks = program.tasks.len();
    move |page| {
        let tells_nothing = homes > ACCESSORS_MAX || page.remembered() == 0.0;
        tells_nothing && page.is_everyones(tasks)
    }
}

/// Appends moves of pages that are used alike, and gives these pages with their slots. `free` is
/// what nodes have left, in bytes.
pub(crate) fn propose(
    program: &Program<'_>,
    (is_alike, mut free): (impl Fn(&Page) -> bool, Vec<u64>),
    out: &mut Vec<Proposal>,
) -> Vec<(PageKey, u32)> {
    let mut evenness = Evenness::of(program);
    let emptiest = |evenness: &Evenness, free: &[u64]| {
        let takers = evenness.takers().iter().copied();
        let with_room = takers.filter(|&node| free[node] >= program.page_bytes);
        let parts = |node: usize| evenness.parts(node);
        with_room.min_by(|&one, &other| parts(one).total_cmp(&parts(other)))
    };
    let mut evened = Vec::new();
    let mut to = emptiest(&evenness, &free);
    // Where none may be the first to go none goes, in whatever order.
    let goes_first = |page: &Page| {
        let ways = page.node().zip(to);
        ways.is_some_and(|ways| evenness.evens(page.weight() as f64, ways)) && is_alike(page)
    };
    if !program.pages.iter().any(goes_first) {
        return evened;
    }
    let mut alike: Vec<&Page> = program.pages.iter().filter(|page| is_alike(page)).collect();
    // The same in each window, as long as no page comes to be used twice as much: a move that waits
    // for a second window to agree would wait for ever if chance chose.
    alike.sort_unstable_by_key(|page| (Reverse(page.samples.checked_ilog2()), page.key));
    for page in alike {
        let Some((home, node)) = page.node().zip(to) else {
            continue;
        };
        let parts = (evenness.parts(home), evenness.parts(node));
        if !evenness.moves(page.weight() as f64, (home, node)) {
            continue;
        }
        let reason = Reason::Even {
            here_percent: percent(parts.0),
            there_percent: percent(parts.1),
        };
        out.push(Proposal::move_page(page.key, node, reason));
        let bytes = page.span.saturating_mul(program.page_bytes);
        free[node] = free[node].saturating_sub(bytes);
        to = emptiest(&evenness, &free);
        evened.push((page.key, page.slot));
    }
    evened
}

#[cfg(test)]
mod tests {
    use numad_core::Proposal;
    use testkit::Scene;

    use crate::tests::proposals;

    /// Eight pages on these nodes, all used by one task on each of two nodes.
    fn shared(homes: [u16; 8]) -> Scene {
        let mut scene = Scene::new("2x2@10,20")
            .with_tasks_on(&[0, 1])
            .with_talk(&[(0, 1, 100)]);
        for home in homes {
            scene = scene.with_page(Some(home), &[0, 1]);
        }
        scene
    }

    #[test]
    fn a_little_more_use_of_some_does_not_choose_others() {
        let chosen = |uses: [u32; 8]| {
            let mut scene = shared([0; 8]).with_capacity(&[1, 1]);
            for (page, uses) in scene.pages.iter_mut().zip(uses) {
                page.samples = uses;
            }
            let pages = proposals("deloc", &[], &scene).into_iter();
            let pages = pages.filter_map(|proposal| match proposal {
                Proposal::MovePage { page, .. } => Some(page.page - 0x1000),
                Proposal::PlaceTask { .. } => None,
            });
            pages.collect::<Vec<_>>()
        };
        assert_eq!(chosen([4, 5, 6, 7, 4, 5, 6, 7]), [0, 1, 2, 3]);
        assert_eq!(chosen([7, 4, 5, 4, 7, 6, 5, 6]), [0, 1, 2, 3]);
        // Used twice as much is something else.
        assert_eq!(chosen([4, 5, 6, 7, 8, 5, 6, 15]), [4, 7, 0, 1]);
    }

    fn moved(settings: &[(&str, &str)], scene: &Scene) -> Vec<usize> {
        let moves = proposals("deloc", settings, scene);
        let moves = moves.into_iter().filter_map(|proposal| match proposal {
            Proposal::MovePage { node, .. } => Some(node),
            Proposal::PlaceTask { .. } => None,
        });
        moves.collect()
    }

    #[test]
    fn half_of_what_two_nodes_share_goes_to_the_other() {
        // One processor of each node is left to the two, so that they stay apart.
        let apart = |homes| shared(homes).with_capacity(&[1, 1]);
        assert_eq!(moved(&[], &apart([0; 8])), [1, 1, 1, 1]);
        assert_eq!(moved(&[], &apart([0, 0, 0, 0, 1, 1, 1, 1])), [0; 0]);
        assert_eq!(moved(&[("pages_even", "false")], &apart([0; 8])), [0; 0]);
    }

    #[test]
    fn what_is_no_ones_follows_nobody_and_is_spread() {
        let swept = |remembered: bool| {
            let mut scene = Scene::new("2x2@10,20")
                .with_tasks_on(&[0, 1])
                .with_talk(&[(0, 1, 100)])
                .with_capacity(&[1, 1]);
            for _ in 0..8 {
                scene = scene.with_page(Some(0), &[1]);
            }
            for page in &mut scene.pages {
                page.forgotten = if remembered { 0 } else { page.weight() };
            }
            moved(&[], &scene)
        };
        assert_eq!(swept(true), [1; 8]);
        assert_eq!(swept(false), [1; 4]);
    }

    /// Pages of node 0 that everyone uses: four tasks of node 1 came last.
    fn everyones(pages: usize) -> Scene {
        let nodes: Vec<usize> = (0..32).map(|task| task / 4).collect();
        let mut scene = Scene::new("8x4@10,20").with_tasks_on(&nodes);
        for _ in 0..pages {
            scene = scene.with_page(Some(0), &[4, 5, 6, 7]);
        }
        for page in &mut scene.pages {
            page.forgotten = page.weight() * 9 / 10;
        }
        scene
    }

    #[test]
    fn what_everyone_uses_is_spread_whoever_used_it_last() {
        assert_eq!(moved(&[], &everyones(8)), [1, 2, 3, 4, 5, 6, 7]);
        let mut of_some = everyones(8);
        for page in &mut of_some.pages {
            page.forgotten = page.weight() / 4;
        }
        assert_eq!(moved(&[], &of_some), [1; 8], "few of 32 use it");
    }

    /// Eight pages that two nodes share, all on node 0, among many that each node has for itself.
    #[test]
    fn what_only_faults_tell_of_is_spread_however_much_others_have_for_themselves() {
        let among = |accesses_per_busy_second| {
            let mut scene = shared([0; 8]).with_capacity(&[1, 1]);
            for _ in 0..100 {
                let own = [(0, [0, 0]), (1, [1, 1])];
                for (home, users) in own {
                    scene = scene.with_page(Some(home), &users);
                }
            }
            scene.prices.accesses_per_busy_second = accesses_per_busy_second;
            moved(&[], &scene)
        };
        assert_eq!(among(0.0), [0; 0], "they are used as often as any page");
        assert_eq!(among(1e6), [1; 4]);
    }

    #[test]
    fn what_is_more_than_a_part_goes_where_nothing_is() {
        // Each stands for half of all that is asked.
        assert_eq!(moved(&[], &everyones(2)), [1]);
    }
}
