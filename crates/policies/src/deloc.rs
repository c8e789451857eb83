//! `DeLoc`, online: partners to one node by `OnDeLocMap+`, and the pages after them.
//!
//! Threads are placed by [`deloc_map`]; every task that talks is proposed, the loudest pairs first, those
//! too that stay where they run: bound there they keep their partner. Pages follow by LAPT's data
//! mapping, or go where bandwidth is left ([`crate::page_choice`]), unless `pages` is off. For their sake tasks that use memory and talk to
//! nobody are proposed where they run, behind the others ([`crate::stay`]).
//!
//! # Groups larger than two
//!
//! One greedy pass over pairs cuts groups of four and eight where the heaviest pairs happen to lie (in
//! the testbed 0.69 of the talk of groups of four became local). So what it leaves is refined by swaps
//! and moves on communication times distance, each at a price, so that few tasks move (`refine`). What
//! refining makes of the placement as it is competes with that, since the pair pass may have moved
//! tasks that need not have moved; and so does a plan from nothing, for where swaps find no way.
//!
//! # Congestion
//!
//! What locality cannot see is what `DeLoc` is about: a node full of partners may ask more of its controller
//! than that gives. Where a plan loads a controller to more than half of its bandwidth, there is
//! another, which spreads the talkers evenly over the nodes. The engine takes the one that is worth
//! more.
//!
//! # Groups in time
//!
//! `groups = "temporal"` is `DeLoc` proper, which maps by groups of pairs that talk at the same time, so
//! that these share no controller: windows of the last while are clustered by when they were and how much
//! was said ([`crate::clusters`]), and groups are dealt out to nodes by load. The paper does so after
//! a run and for the next; here the plan is taken when it is worth it, or evens out the load.
//!
//! # Noise
//!
//! In a real program everything shares a little with everything, and a greedy method finds a heaviest
//! pair in that, too, another one in every window. So a plan is taken only if it is worth it, see
//! [`crate::board`]. Otherwise every talking task is proposed where it is. A placement that is no proper one
//! (a node unknown, forbidden, or with more tasks than places) is always replaced. `gain_min = 0` is the
//! plain method.
//!
//! [`deloc_map`]: crate::deloc_map
//! [`data_mapping`]: crate::data_mapping

use numad_core::{
    CommMatrix, Fate, Plan as Whole, Policy, PolicyFactory, Program, Proposal, SettingKind,
    SettingSpec, Time,
};

use crate::amounts::could_wait;
use crate::board::{self, Board, Plan};
use crate::data_mapping;
use crate::deloc_map::{self, Talk};
use crate::even::EVEN;
use crate::history::{Count, History};
use crate::kernel::{Workspace, map};
use crate::matrix_choice::MatrixChoice;
use crate::page_choice::PageChoice;
use crate::published::deloc::sort_by_load;
use crate::stay::{keep_in_place, keep_the_silent};

const GROUPS: SettingSpec = SettingSpec {
    name: "groups",
    kind: SettingKind::Choice(&["none", "temporal"], "none"),
    help: "Map by the last window, or by groups of pairs that talk at the same time, found in all \
           windows of the last while.",
};

const REFINE: SettingSpec = SettingSpec {
    name: "refine",
    kind: SettingKind::Bool(true),
    help: "Refine what the pass over pairs leaves, so that groups of four and more are found.",
};

/// Makes the policy `deloc`.
pub(crate) static DELOC: PolicyFactory = PolicyFactory {
    name: "deloc",
    summary: "Brings threads that share memory together on a node with few moves, spreads the \
              pairs, lets pages follow.",
    settings: &[
        MatrixChoice::SPEC,
        GROUPS,
        REFINE,
        board::GAIN_MIN,
        data_mapping::PAGES,
        data_mapping::RATIO,
        data_mapping::HISTORY,
        EVEN,
    ],
    seeks_gain: true,
    goes_by_order: false,
    published: Some(&crate::published::deloc::PUBLISHED),
    build: |settings, _| {
        Ok(Box::new(OnDeLoc {
            matrix: MatrixChoice::new(settings),
            refine: settings.bool(REFINE.name),
            history: (settings.text(GROUPS.name) == "temporal").then(History::default),
            gain_min: settings.float(board::GAIN_MIN.name),
            pages: settings
                .bool(data_mapping::PAGES.name)
                .then(|| PageChoice::new(settings)),
            workspace: Workspace::default(),
        }))
    },
};

/// The policy `deloc` with its settings and what it knows of pages.
#[derive(Debug)]
struct OnDeLoc {
    matrix: MatrixChoice,
    refine: bool,
    /// Windows that were, when groups in time are looked for.
    history: Option<History>,
    gain_min: f64,
    pages: Option<PageChoice>,
    workspace: Workspace,
}

impl Policy for OnDeLoc {
    fn propose(&mut self, now: Time, program: &Program<'_>, out: &mut Vec<Proposal>) {
        let mut plans = Vec::new();
        self.plans(now, program, &mut plans);
        out.extend(plans.into_iter().next().unwrap_or_default());
    }

    fn plans(&mut self, now: Time, program: &Program<'_>, out: &mut Vec<Whole>) {
        let matrix = self.matrix.of(program);
        let first = out.len();
        if let Some(history) = &mut self.history {
            history.note(now, program);
            let (matrix, mut plan) = map_groups(history, program, self.gain_min);
            if self.pages.is_some() {
                keep_in_place(program, &matrix, &mut plan);
            }
            out.push(plan);
        } else {
            self.gather(program, matrix, out);
            if self.pages.is_some() {
                for plan in &mut out[first..] {
                    keep_the_silent(program, matrix, plan);
                }
            }
        }
        if let Some(pages) = &mut self.pages {
            let threads = out[first].len();
            pages.propose(now, program, &mut out[first]);
            let moves = out[first][threads..].to_vec();
            for plan in &mut out[first + 1..] {
                plan.extend_from_slice(&moves);
            }
        }
    }

    fn page_moves(&mut self, now: Time, program: &Program<'_>, out: &mut Whole) -> bool {
        // Groups in time are found in all windows.
        let may = self.history.is_none();
        if let Some(pages) = self.pages.as_mut().filter(|_| may) {
            pages.propose(now, program, out);
        }
        may
    }

    fn on_fate(&mut self, now: Time, proposal: &Proposal, fate: Fate) {
        if let Some(pages) = &mut self.pages {
            pages.near.on_fate(now, proposal, fate);
        }
    }
}

/// `DeLocMap` by groups in time; the communication that it was about.
///
/// Every pair's part of what all groups say is its load; groups by load, in them pairs by load, are dealt
/// out in rounds ([`crate::rounds`]). Tasks that never talked stay where they are, unlike in the
/// paper, which maps a program before it starts.
fn map_groups(history: &History, program: &Program<'_>, gain_min: f64) -> (CommMatrix, Whole) {
    let mut groups = history.groups(program, Count::Criterion);
    sort_by_load(&mut groups);
    let matrix = history.matrix(&groups, program.tasks.len());
    let board = Board::new(program, &matrix);
    let plan = board.propose(&board.settle_dealt(&groups, gain_min));
    (matrix, plan)
}

impl OnDeLoc {
    /// Appends plans for the talkers: one that brings partners near, and where that could load a
    /// controller too much, one that loads all alike.
    fn gather(&mut self, program: &Program<'_>, matrix: &CommMatrix, out: &mut Vec<Whole>) {
        let board = Board::new(program, matrix);
        let board = match &self.pages {
            Some(_) => board.homed(program),
            None => board,
        };
        let gain_min = self.gain_min;
        let anew = match self.refine {
            true => board.sketch(map, &mut self.workspace),
            false => None,
        };
        let talk = Talk::of(&board.partners);
        let near = board.settle(|from| {
            let mut plans = vec![in_pairs(program, &talk, &board, from)];
            if self.refine {
                // Where pairs leave all as it is, refining what is says it all.
                if plans[0] != *from {
                    plans.push(board.refined(&plans[0], gain_min, &mut self.workspace));
                }
                plans.push(board.refined(from, gain_min, &mut self.workspace));
                plans.extend(anew.as_ref().map(|anew| board.named(anew, from)));
            }
            board.better(from, plans, gain_min)
        });
        out.push(board.propose(&near));
        if could_wait(program) {
            let even = board.evened_out(&near, gain_min, &mut self.workspace);
            out.push(board.propose(&even));
        }
    }
}

/// What the pass over pairs makes of a placement.
fn in_pairs(program: &Program<'_>, talk: &Talk<'_>, board: &Board<'_>, from: &Plan) -> Plan {
    let places = board.nodes(from);
    let mut plan: Plan = vec![None; board.talkers.len()];
    for (task, node) in deloc_map::map(program, places, talk) {
        if let Some(talker) = board.talker(task) {
            plan[talker] = Some(node);
        }
    }
    board.fit(&plan, from)
}

#[cfg(test)]
mod tests {
    use numad_core::Reason;
    use testkit::Scene;

    use super::*;
    use crate::tests::{nodes_after, nodes_after_with, proposals};

    /// Two nodes of two cores, partners apart.
    fn crossed(amounts: [u64; 2]) -> Scene {
        let talk = [(0, 1, amounts[0]), (2, 3, amounts[1])];
        Scene::new("2x2")
            .with_tasks_on(&[0, 1, 0, 1])
            .with_talk(&talk)
    }

    #[test]
    fn partners_come_together_and_say_why() {
        let scene = crossed([10, 9]);
        let reason = |with: usize, amount| Reason::Partner {
            with: scene.tasks[with].key,
            amount,
        };
        let place = |task, node, reason| Proposal::PlaceTask { task, node, reason };
        assert_eq!(
            proposals("deloc", &[], &scene),
            [
                place(0, 0, reason(1, 10)),
                place(1, 0, reason(0, 10)),
                place(2, 1, reason(3, 9)),
                place(3, 1, reason(2, 9)),
            ]
        );
    }

    #[test]
    fn noise_moves_nobody_and_partners_above_noise_do() {
        // Eight tasks that all say about the same to each other: the best plan gains next to nothing.
        let even: Vec<_> = (0..8)
            .flat_map(|one| {
                (one + 1..8).map(move |other| (one, other, 100 + (one * other) as u64 % 7))
            })
            .collect();
        let nodes = [0, 1, 0, 1, 0, 1, 0, 1];
        let scene = Scene::new("2x4").with_tasks_on(&nodes).with_talk(&even);
        assert_eq!(nodes_after("deloc", &scene), nodes.map(Some));
        let partners: Vec<_> = (0..4).map(|pair| (2 * pair, 2 * pair + 1, 900)).collect();
        let together = nodes_after("deloc", &scene.with_talk(&partners));
        assert!(
            together.chunks(2).all(|pair| pair[0] == pair[1]),
            "{together:?}"
        );
    }

    #[test]
    fn what_two_moved_tasks_say_to_each_other_counts_once() {
        // Both go to node 2: 10 become local of the 20 that they say, 10 each.
        let scene = Scene::new("3x2")
            .with_tasks_on(&[0, 1, 0, 1])
            .with_talk(&[(0, 1, 10)]);
        let place = |gain_min| nodes_after_with("deloc", &[("gain_min", gain_min)], &scene);
        assert_eq!(place("0.5")[..2], [Some(2), Some(2)]);
        assert_eq!(place("0.51")[..2], [Some(0), Some(1)]);
    }

    #[test]
    fn one_pair_among_many_is_brought_together() {
        let mut talk: Vec<_> = (0..40).map(|pair| (2 * pair, 2 * pair + 1, 50)).collect();
        talk[0].2 = 49;
        let mut nodes: Vec<usize> = (0..80).map(|task| task / 20).collect();
        nodes.swap(1, 79);
        talk[39].2 = 51;
        let scene = Scene::new("4x20").with_tasks_on(&nodes).with_talk(&talk);
        let after = nodes_after("deloc", &scene);
        assert!(after.chunks(2).all(|pair| pair[0] == pair[1]), "{after:?}");
        assert_eq!(
            after
                .iter()
                .zip(nodes)
                .filter(|&(&after, node)| after != Some(node))
                .count(),
            2
        );
    }

    #[test]
    fn where_partners_would_choke_a_controller_another_plan_asks_less_of_it() {
        // One talks to three others, and there is room for all of them on a node.
        let talk = [(0, 1, 10), (0, 2, 9), (0, 3, 9)];
        let mut scene = Scene::new("2x4")
            .with_tasks_on(&[0, 1, 1, 1])
            .with_talk(&talk);
        for task in 0..4 {
            scene = scene.with_page(Some(0), &[task]);
        }
        let placements = |scene: &Scene| {
            let mut plans = Vec::new();
            let mut policy = crate::tests::build("deloc", &[]);
            policy.plans(Time(0), &scene.as_program(), &mut plans);
            let on_the_left = |plan: &Whole| {
                let mut after = scene.clone();
                after.apply(plan);
                let nodes = after.placement();
                nodes.iter().filter(|node| **node == Some(0)).count()
            };
            plans.iter().map(on_the_left).collect::<Vec<_>>()
        };
        let together = placements(&scene);
        assert!(matches!(together[..], [0 | 4]), "{together:?}");
        for page in &mut scene.pages {
            page.recent[0].weight = 100_000_000;
        }
        let plans = placements(&scene);
        assert_eq!(plans, [together[0], 2], "near and even");
    }

    #[test]
    fn groups_in_time_are_dealt_out_to_nodes() {
        // Four pairs by weight: the golden case of DeLocMap.
        let talk = [(0, 1, 40), (2, 3, 30), (4, 5, 20), (6, 7, 10)];
        let scene = Scene::new("2x4").with_tasks(&[None; 8]).with_talk(&talk);
        let nodes = nodes_after_with("deloc", &[("groups", "temporal")], &scene);
        assert_eq!(nodes, [0, 0, 1, 1, 0, 0, 1, 1].map(Some));
        // Pairs that talk at the same time are on different nodes, louder ones of another time or not.
        let mut policy = crate::tests::build("deloc", &[("groups", "temporal")]);
        let silent = Scene::new("2x4").with_tasks(&[None; 8]);
        let mut out = Vec::new();
        for (window, talk) in [
            (1, [(0, 1, 400), (2, 3, 390)]),
            (2, [(0, 1, 400), (2, 3, 390)]),
            (60, [(4, 5, 300), (6, 7, 290)]),
            (61, [(4, 5, 300), (6, 7, 290)]),
        ] {
            out.clear();
            let scene = silent.clone().with_talk(&talk);
            policy.propose(Time(window * 500_000_000), &scene.as_program(), &mut out);
        }
        let mut after = silent.clone();
        after.apply(&out);
        assert_eq!(after.placement(), [0, 0, 1, 1, 0, 0, 1, 1].map(Some));
    }

    #[test]
    fn a_crowded_node_is_left_even_without_gain() {
        let talk = [(0, 1, 10), (2, 3, 9)];
        let scene = Scene::new("2x2").with_tasks_on(&[1; 4]).with_talk(&talk);
        assert_eq!(
            nodes_after("deloc", &scene),
            [Some(1), Some(1), Some(0), Some(0)]
        );
    }

    #[test]
    fn the_matrix_is_a_matter_of_choice() {
        let mut scene = crossed([10, 9]);
        scene.live = CommMatrix::new(4);
        assert_eq!(proposals("deloc", &[("pages", "false")], &scene), []);
        let nodes = nodes_after_with("deloc", &[("matrix", "decayed")], &scene);
        assert_eq!(nodes, [Some(0), Some(0), Some(1), Some(1)]);
    }

    #[test]
    fn who_shares_nothing_is_kept_where_it_runs_for_its_pages() {
        let mut scene = Scene::new("2x2").with_tasks_on(&[1, 1, 1, 0]);
        assert_eq!(proposals("deloc", &[], &scene), []);
        for task in 0..3 {
            scene = scene.with_page(Some(1), &[task]);
        }
        let stay = |task, node| Proposal::PlaceTask {
            task,
            node,
            reason: Reason::Stay,
        };
        assert_eq!(
            proposals("deloc", &[], &scene),
            [stay(0, 1), stay(1, 1), stay(2, 0)]
        );
        assert_eq!(proposals("deloc", &[("pages", "false")], &scene), []);
        // Those who talk have the first choice.
        let scene = scene.with_talk(&[(2, 3, 10)]);
        let all = proposals("deloc", &[], &scene);
        assert!(matches!(
            all[0],
            Proposal::PlaceTask {
                task: 2,
                reason: Reason::Partner { .. },
                ..
            }
        ));
        assert_eq!(all.len(), 4);
    }

    /// Either pair may have either node, and two threads move in any case.
    #[test]
    fn partners_meet_where_their_memory_is() {
        let scene = crossed([10, 9]);
        assert_eq!(nodes_after("deloc", &scene), [0, 0, 1, 1].map(Some));
        let scene = scene.with_page(Some(1), &[0, 1]);
        assert_eq!(nodes_after("deloc", &scene), [1, 1, 0, 0].map(Some));
        // Nothing moves for that alone.
        let scene = Scene::new("2x2")
            .with_tasks_on(&[0, 0, 1, 1])
            .with_talk(&[(0, 1, 10), (2, 3, 9)])
            .with_page(Some(1), &[0, 1]);
        assert_eq!(nodes_after("deloc", &scene), [0, 0, 1, 1].map(Some));
    }

    /// On a ring, where what two pairs say to each other makes some nodes better than others.
    #[test]
    fn a_little_said_across_does_not_send_memory_elsewhere() {
        let ring = "4x2@10,20,30,20;20,10,20,30;30,20,10,20;20,30,20,10";
        let talk = [(0, 1, 100), (2, 3, 90), (4, 5, 80), (6, 7, 70)];
        let meet = |across: u64, pages: usize| {
            let mut scene = Scene::new(ring)
                .with_tasks_on(&[0, 1, 2, 3, 0, 1, 2, 3])
                .with_talk(&talk)
                .with_talk(&[(0, 2, across)]);
            for (pair, home) in (0..).zip([2, 0, 1, 3]) {
                for _ in 0..pages {
                    scene = scene.with_page(Some(home), &[2 * pair, 2 * pair + 1]);
                }
            }
            nodes_after("deloc", &scene)
        };
        assert_eq!(meet(1, 500), [2, 2, 0, 0, 1, 1, 3, 3].map(Some));
        // What costs more than to leave memory behind counts.
        assert_ne!(meet(60, 1), [2, 2, 0, 0, 1, 1, 3, 3].map(Some));
    }

    #[test]
    fn pages_follow_their_threads_unless_told_not_to() {
        let scene = crossed([10, 9]).with_page(Some(0), &[3]);
        let pages = |settings: &[(&str, &str)]| {
            let all = proposals("deloc", settings, &scene);
            all.iter()
                .filter(|one| matches!(one, Proposal::MovePage { .. }))
                .count()
        };
        assert_eq!((pages(&[]), pages(&[("pages", "false")])), (1, 0));
    }
}
