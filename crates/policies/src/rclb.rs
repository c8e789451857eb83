//! RCLB: reducing congestion with load balancing (Upadhyay and Singh 2020).
//!
//! Pairs of tasks are grouped by when they talk, so that those who talk at the same time are spread over
//! memory controllers: k-means in time ([`crate::clusters`]), the number of groups growing from two until
//! `fit` of the variance is explained. Within all groups together a pair weighs
//!
//! ```text
//! W = alpha * messages / all messages + (1 - alpha) * bytes / all bytes
//! ```
//!
//! and a group what its pairs weigh. Groups by weight, within them pairs by weight, are dealt out to
//! nodes in rounds ([`crate::rounds`]), both tasks of a pair into one.
//!
//! # Reading
//!
//! The paper counts messages of MPI. Of threads that share memory we see accesses: what was said in a
//! window (the amount) stands for bytes, and the windows in which a pair was seen to talk stand for
//! messages. It orders from the smallest to the largest while its listing takes the sorted list from the
//! front; the largest come first here, `order = "ascending"` is the other reading.
//!
//! # Running again and again
//!
//! The paper maps once. Dealing out anew in every window would move everyone whenever two pairs change
//! ranks. So nodes of the plan are named so that few tasks move, and a plan is taken only if it is worth it:
//! by distance as in [`crate::board`], or because it lowers the highest load of a node by a tenth of the
//! mean and brings nothing farther apart. And it is dealt out anew only while the first [`YOUNG`] windows of an
//! era are seen, or when someone has no place; otherwise the best of many deals, no better for the program than the
//! first, would be waited for. What was said in an era before is forgotten ([`History::begin_era`]).

use numad_core::{
    Fate, Plan, Policy, PolicyFactory, Program, Proposal, SettingKind, SettingSpec, Settings, Time,
};

use crate::board::{self, Board};
use crate::data_mapping::{self, DataMapping};
use crate::history::{Count, Group, History, Spoken};
use crate::stay::keep_in_place;

/// Equal parts are the paper's.
const ALPHA: SettingSpec = SettingSpec {
    name: "alpha",
    kind: SettingKind::Float((0.0, 1.0), 0.5),
    help: "How much of a pair's weight is how often it talks; the rest is how much it says.",
};

/// The goodness of fit at which k-means has groups enough.
const FIT: SettingSpec = SettingSpec {
    name: "fit",
    kind: SettingKind::Float((0.0, 1.0), 0.9),
    help: "Groups in time become more until they explain this share of the variance.",
};

const ORDER: SettingSpec = SettingSpec {
    name: "order",
    kind: SettingKind::Choice(&["descending", "ascending"], "descending"),
    help: "Whether groups and pairs that weigh most are placed first or last.",
};

/// Windows of a program that does one thing in which its tasks are dealt out: the first has few samples, and the
/// engine may want a plan twice before it moves those who moved before.
const YOUNG: usize = 4;

/// Makes the policy `rclb`.
pub(crate) static RCLB: PolicyFactory = PolicyFactory {
    name: "rclb",
    summary: "Deals pairs that talk at the same time out to all nodes, so that controllers share \
              the load evenly.",
    settings: &[
        ALPHA,
        FIT,
        ORDER,
        board::GAIN_MIN,
        data_mapping::PAGES,
        data_mapping::RATIO,
        data_mapping::HISTORY,
    ],
    seeks_gain: true,
    goes_by_order: false,
    published: Some(&crate::published::rclb::PUBLISHED),
    build: |settings, _| {
        Ok(Box::new(Rounds {
            by_weight: ByWeight::new(settings),
            fit: settings.float(FIT.name),
            gain_min: settings.float(board::GAIN_MIN.name),
            history: History::default(),
            pages: DataMapping::if_wanted(settings),
        }))
    },
};

/// How groups and pairs are brought into order: by `W`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ByWeight {
    alpha: f64,
    ascending: bool,
}

/// Which of pairs that weigh the same counts as the heavier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ties {
    /// The one that says more, then the one that comes first.
    ByAmount,
    /// The one that comes first.
    AsListed,
}

impl ByWeight {
    pub(crate) fn new(settings: &Settings) -> Self {
        Self {
            alpha: settings.float(ALPHA.name),
            ascending: settings.text(ORDER.name) == "ascending",
        }
    }

    /// Brings groups, and pairs within them, into the order of their weights.
    pub(crate) fn sort(self, groups: &mut [Group], ties: Ties) {
        let all = |part: fn(&Spoken) -> f64| -> f64 { groups.iter().flatten().map(part).sum() };
        let (windows, amounts) = (all(|pair| pair.windows), all(|pair| pair.amount));
        let weight = |pair: &Spoken| {
            self.alpha * pair.windows / windows.max(1.0)
                + (1.0 - self.alpha) * pair.amount / amounts.max(1.0)
        };
        let total = |group: &Group| group.iter().map(weight).sum::<f64>();
        let order = |one: f64, other: f64| match self.ascending {
            true => one.total_cmp(&other),
            false => other.total_cmp(&one),
        };
        groups.sort_by(|one, other| order(total(one), total(other)));
        for group in groups {
            group.sort_by(|one, other| {
                let by_weight = order(weight(one), weight(other));
                match ties {
                    Ties::ByAmount => by_weight.then(order(one.amount, other.amount)),
                    Ties::AsListed => by_weight,
                }
            });
        }
    }
}

/// The policy `rclb` with what it remembers.
#[derive(Debug)]
struct Rounds {
    by_weight: ByWeight,
    fit: f64,
    gain_min: f64,
    history: History,
    pages: Option<DataMapping>,
}

impl Policy for Rounds {
    fn propose(&mut self, now: Time, program: &Program<'_>, out: &mut Vec<Proposal>) {
        out.extend(self.place(now, program));
        if let Some(pages) = &mut self.pages {
            pages.propose(now, program, out);
        }
    }

    fn thread_plans(&mut self, now: Time, program: &Program<'_>, out: &mut Vec<Plan>) {
        out.push(self.place(now, program));
    }

    fn on_fate(&mut self, now: Time, proposal: &Proposal, fate: Fate) {
        if let Some(pages) = &mut self.pages {
            pages.on_fate(now, proposal, fate);
        }
    }
}

impl Rounds {
    /// Places of talkers, then of silent tasks with pages.
    fn place(&mut self, now: Time, program: &Program<'_>) -> Plan {
        self.history.begin_era(program.era);
        self.history.note(now, program);
        let all = self.history.groups(program, Count::One);
        let matrix = self.history.matrix(&all, program.tasks.len());
        let board = Board::new(program, &matrix);
        let seated = board.seated();
        let is_young = self.history.count() <= YOUNG;
        let plan = if is_young || seated.iter().any(Option::is_none) {
            let mut groups = self.history.groups(program, Count::Fit(self.fit));
            self.by_weight.sort(&mut groups, Ties::ByAmount);
            board.settle_dealt(&groups, self.gain_min)
        } else {
            seated
        };
        let mut places = board.propose(&plan);
        if self.pages.is_some() {
            keep_in_place(program, &matrix, &mut places);
        }
        places
    }
}

#[cfg(test)]
mod tests {
    use numad_core::Time;
    use testkit::Scene;

    use crate::tests::{nodes_after, nodes_after_with};

    /// Four pairs, the loudest first, nobody anywhere yet.
    fn pairs() -> Scene {
        Scene::new("2x4").with_tasks(&[None; 8]).with_talk(&[
            (0, 1, 40),
            (2, 3, 30),
            (4, 5, 20),
            (6, 7, 10),
        ])
    }

    #[test]
    fn pairs_are_dealt_out_in_rounds() {
        let nodes = [0, 0, 1, 1, 0, 0, 1, 1].map(Some);
        assert_eq!(nodes_after("rclb", &pairs()), nodes);
        // The other way round the last pair comes first.
        let nodes = [1, 1, 0, 0, 1, 1, 0, 0].map(Some);
        assert_eq!(
            nodes_after_with("rclb", &[("order", "ascending")], &pairs()),
            nodes
        );
    }

    #[test]
    fn how_often_counts_beside_how_much() {
        // The first pair talks in each of four windows, the second in one, but more than the first in all.
        let nodes = |alpha: &str| {
            let mut policy = crate::tests::build("rclb", &[("alpha", alpha), ("fit", "0")]);
            let silent = Scene::new("2x2").with_tasks(&[None; 4]);
            let mut out = Vec::new();
            for window in 1..=4 {
                let mut scene = silent.clone().with_talk(&[(0, 1, 10)]);
                if window == 1 {
                    scene = scene.with_talk(&[(2, 3, 60)]);
                }
                out.clear();
                policy.propose(Time(window * 500_000_000), &scene.as_program(), &mut out);
            }
            let mut after = silent.clone();
            after.apply(&out);
            after.placement()
        };
        assert_eq!(nodes("0"), [1, 1, 0, 0].map(Some));
        assert_eq!(nodes("1"), [0, 0, 1, 1].map(Some));
    }

    /// Nodes after each window in which these pairs talk, all moves being made; another era begins with this window.
    fn followed(windows: &[[(usize, usize); 4]], other: usize) -> Vec<Vec<Option<usize>>> {
        let mut policy = crate::tests::build("rclb", &[("pages", "false")]);
        let mut nodes = vec![
            Some(0),
            Some(1),
            Some(0),
            Some(1),
            Some(0),
            Some(1),
            Some(0),
            Some(1),
        ];
        let mut all = Vec::new();
        for (window, pairs) in (1..).zip(windows) {
            let talk = pairs.map(|(one, other)| (one, other, 300));
            let mut scene = Scene::new("2x4").with_tasks(&nodes).with_talk(&talk);
            scene.era = u32::from(window > other);
            scene.samples = 800;
            let mut out = Vec::new();
            policy.propose(
                Time(window as u64 * 500_000_000),
                &scene.as_program(),
                &mut out,
            );
            scene.apply(&out);
            nodes = scene.placement();
            all.push(nodes.clone());
        }
        all
    }

    const SIDE_BY_SIDE: [(usize, usize); 4] = [(0, 1), (2, 3), (4, 5), (6, 7)];
    const ACROSS: [(usize, usize); 4] = [(0, 7), (1, 6), (2, 5), (3, 4)];

    #[track_caller]
    fn together(nodes: &[Option<usize>], pairs: [(usize, usize); 4]) {
        let near = pairs.iter().all(|&(one, other)| nodes[one] == nodes[other]);
        assert!(near, "{nodes:?}");
    }

    #[test]
    fn a_program_that_does_something_else_is_followed_in_the_first_window_of_that() {
        let mut windows = vec![SIDE_BY_SIDE; 6];
        windows.extend([ACROSS; 6]);
        let after = followed(&windows, 6);
        together(&after[0], SIDE_BY_SIDE);
        assert_eq!(after[5], after[0]);
        together(&after[6], ACROSS);
        assert_eq!(after[11], after[6]);
    }

    #[test]
    fn a_change_in_the_midst_of_a_window_is_followed_in_the_next() {
        let mut policy = crate::tests::build("rclb", &[("pages", "false")]);
        let mut nodes: Vec<Option<usize>> = (0..8).map(|task| Some(task % 2)).collect();
        for window in 1..=8 {
            // What was half of each window is half as loud in it.
            let said: &[(_, u64)] = match window {
                ..=5 => &[(SIDE_BY_SIDE, 300)],
                6 => &[(SIDE_BY_SIDE, 150), (ACROSS, 150)],
                _ => &[(ACROSS, 300)],
            };
            let mut scene = Scene::new("2x4").with_tasks(&nodes);
            for &(pairs, amount) in said {
                scene = scene.with_talk(&pairs.map(|(one, other)| (one, other, amount)));
            }
            scene.samples = 800;
            scene.era = u32::from(window > 6);
            let mut out = Vec::new();
            policy.propose(Time(window * 500_000_000), &scene.as_program(), &mut out);
            scene.apply(&out);
            nodes = scene.placement();
            if window == 5 {
                together(&nodes, SIDE_BY_SIDE);
            }
        }
        together(&nodes, ACROSS);
    }

    #[test]
    fn what_comes_and_goes_with_every_window_moves_nobody_in_the_long_run() {
        let windows: Vec<_> = (0..20).map(|at| [SIDE_BY_SIDE, ACROSS][at % 2]).collect();
        let after = followed(&windows, usize::MAX);
        assert!(
            after[8..].iter().all(|nodes| *nodes == after[8]),
            "{after:?}"
        );
    }

    #[test]
    fn partners_all_on_one_node_are_spread_and_then_left_alone() {
        let mut scene = pairs();
        for task in &mut scene.tasks {
            task.node = Some(0);
        }
        scene.capacity = vec![8, 8];
        let nodes = nodes_after("rclb", &scene);
        assert_eq!(nodes.iter().filter(|&&node| node == Some(0)).count(), 4);
        for (task, node) in scene.tasks.iter_mut().zip(&nodes) {
            task.node = *node;
        }
        assert_eq!(nodes_after("rclb", &scene), nodes);
    }
}
