//! The choice of a policy: whether mapping can help, which plan is foretold to help most, and when to ask again.
//!
//! # Whether at all
//!
//! `DeLocProf`'s decision tree (dissertation, chapter 4; ALGORITHMS 10). With `CommR` communication over
//! memory accesses and `DramR` the part of time that memory takes: both below their thresholds, mapping
//! cannot help, and nothing is proposed. Else `CommDyn`, the number of consecutive seconds in which the order
//! of tasks by communication changed, says whether the program is static or dynamic. The papers print no
//! thresholds; ours are settings.
//!
//! `DramR` is what memory takes of processor time at most, every access from the far end and one after the
//! other, since few sources tell which accesses went to memory. Where a sample stands for no known number of accesses (page faults) it is not known,
//! and taken for large: what cannot be ruled out is tried.
//!
//! # Which
//!
//! The policies of `among` are asked what they would do; the cost model says how long the window's work would
//! take with tasks there and pages after them. The best is chosen if it is `gain_min` faster than staying and
//! saves more within the horizon than its moves cost. A gain, once chosen, is the engine's business: it
//! measures, and puts back what made things worse. What was put back is not tried again for the same program
//! doing the same.
//!
//! Pages follow the threads, or go where bandwidth is left ([`PageChoice`]).
//!
//! # When again
//!
//! The choice stands, and with it the placement, while who takes part, where they may be, who talks to whom
//! and who asks how much of memory is as it was when it was made, and nobody shares a core who need not: cosine of
//! both at least 0.8, the total within a factor of 1.5. Of a dynamic program it is made again at smaller
//! differences, 0.95. Where nobody's plan was chosen, everyone is asked again in the next window: some want to see
//! two before they move anyone.

use numad_core::cost::{LOCAL_LATENCY_NS, live_part};
use numad_core::{
    Fate, Page, Policy, PolicyFactory, Program, Proposal, SettingKind, SettingSpec, Settings,
    SettingsError, Time,
};
use topology::TaskKey;
use topology::distance::LOCAL;

use crate::candidates::{AMONG, Candidates, Places, Scope, choose, pages_ratio, standing};
use crate::data_mapping;
use crate::even::EVEN;
use crate::gather;
use crate::page_choice::PageChoice;
use crate::stay::keep;

/// Makes the policy `auto`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Auto;

/// The model takes ten accesses to overlap, so it foretells less than most programs gain; and what turns
/// out worse is put back by the engine.
const GAIN_MIN: SettingSpec = SettingSpec {
    name: "gain_min",
    kind: SettingKind::Float {
        min: 0.0,
        max: 1.0,
        default: 0.005,
    },
    help: "A plan is chosen if it is foretold to take this share less time than staying.",
};

const COMM_MIN: SettingSpec = SettingSpec {
    name: "comm_min",
    kind: SettingKind::Float {
        min: 0.0,
        max: 1.0,
        default: 0.02,
    },
    help: "Communication per memory access (CommR) below which it cannot matter.",
};

const DRAM_MIN: SettingSpec = SettingSpec {
    name: "dram_min",
    kind: SettingKind::Float {
        min: 0.0,
        max: 1.0,
        default: 0.02,
    },
    help: "Share of time that memory takes (DramR) below which it cannot matter.",
};

const DYNAMIC_S: SettingSpec = SettingSpec {
    name: "dynamic_s",
    kind: SettingKind::Integer {
        min: 1,
        max: 3600,
        default: 5,
    },
    help: "Seconds in a row in which the order of threads by communication changed (CommDyn) that make \
           a program dynamic.",
};

impl PolicyFactory for Auto {
    fn name(&self) -> &'static str {
        "auto"
    }

    fn summary(&self) -> &'static str {
        "Asks other policies what they would do, and does what the cost model finds best, or nothing."
    }

    fn settings(&self) -> &'static [SettingSpec] {
        const {
            &[
                AMONG,
                GAIN_MIN,
                COMM_MIN,
                DRAM_MIN,
                DYNAMIC_S,
                gather::PAGES,
                data_mapping::RATIO,
                data_mapping::HISTORY,
                EVEN,
            ]
        }
    }

    fn build(&self, settings: &Settings, seed: u64) -> Result<Box<dyn Policy>, SettingsError> {
        let chooser = (self.name(), settings.bool(gather::PAGES.name));
        Ok(Box::new(Chooser {
            candidates: Candidates::new(settings.text(AMONG.name), seed, chooser)?,
            gain_min: settings.float(GAIN_MIN.name),
            tree: Tree {
                comm_min: settings.float(COMM_MIN.name),
                dram_min: settings.float(DRAM_MIN.name),
                dynamic_s: settings.integer(DYNAMIC_S.name).unsigned_abs(),
                order: Vec::new(),
                counted: None,
                changes: 0,
            },
            pages_ratio: pages_ratio(settings),
            pages: settings
                .bool(gather::PAGES.name)
                .then(|| PageChoice::new(settings)),
            choice: None,
        }))
    }
}

/// The policy `auto`.
#[derive(Debug)]
struct Chooser {
    candidates: Candidates,
    gain_min: f64,
    tree: Tree,
    pages_ratio: Option<f64>,
    pages: Option<PageChoice>,
    choice: Option<Choice>,
}

/// What was chosen, and for which behaviour.
#[derive(Debug)]
struct Choice {
    behaviour: Behaviour,
    /// Whose plan; none for staying.
    asked: Option<usize>,
    places: Places,
    /// Where tasks were before.
    old: Vec<Option<usize>>,
    regime: Regime,
}

/// How far a choice is on its way: ordered, in effect, and from there it may be put back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Regime {
    Ordered,
    InEffect,
    PutBack,
}

impl Policy for Chooser {
    fn propose(&mut self, now: Time, program: &Program<'_>, out: &mut Vec<Proposal>) {
        let Some(alike) = self.tree.judge(now, program) else {
            return;
        };
        let behaviour = Behaviour::of(program);
        let stands = self.choice.as_mut().is_some_and(|choice| {
            choice.behaviour.is_like(&behaviour, alike) && {
                choice.watch(program);
                !choice.is_open() && choice.places.fit(program) && !is_crowded(program)
            }
        });
        if !stands {
            self.choice = Some(self.choose(now, program, behaviour));
        }
        let Some(choice) = &self.choice else { return };
        choice.places.propose(out);
        let placed = &choice.places.0;
        if let Some(pages) = &mut self.pages {
            // Who talks and found no place stays as it is.
            let silent = |task: usize| program.live.row_sum(task) == 0;
            keep(program, |task| placed[task].is_none() && silent(task), out);
            pages.propose(now, program, out);
        }
    }

    fn on_fate(&mut self, now: Time, proposal: &Proposal, fate: Fate) {
        match proposal {
            Proposal::MovePage { .. } => {
                if let Some(pages) = &mut self.pages {
                    pages.note_fate(proposal, fate);
                }
            }
            Proposal::PlaceTask { .. } => {
                if let Some(asked) = self.choice.as_ref().and_then(|choice| choice.asked) {
                    self.candidates.note_fate(asked, now, proposal, fate);
                }
            }
        }
    }
}

impl Chooser {
    fn choose(&mut self, now: Time, program: &Program<'_>, behaviour: Behaviour) -> Choice {
        let wishes = self.candidates.wishes(now, program);
        let asked = choose(program, &wishes, self.gain_min, self.pages_ratio);
        let places = match asked {
            Some(asked) => Places::of(program, &wishes[asked]),
            None => Places::as_is(program),
        };
        Choice {
            behaviour,
            asked,
            places,
            old: program.tasks.iter().map(|task| task.node).collect(),
            regime: Regime::Ordered,
        }
    }
}

impl Choice {
    /// Sees whether the plan is in effect, and whether it was put back since; then staying is the choice.
    fn watch(&mut self, program: &Program<'_>) {
        if self.regime == Regime::PutBack {
            return;
        }
        if self.places.are_taken(program) {
            self.regime = Regime::InEffect;
            return;
        }
        let moved = self.places.0.iter().zip(&self.old).zip(program.tasks);
        let back = moved.into_iter().any(|((place, old), task)| {
            let place = place.as_ref().map(|place| place.0);
            place.is_some() && place != *old && task.node == *old
        });
        if self.regime == Regime::InEffect && back {
            self.asked = None;
            self.regime = Regime::PutBack;
            self.places = Places::as_is(program);
        }
    }

    /// Whether nobody's plan was chosen yet: most want to see a second window before they say what they want,
    /// and what they say of the first is to stay.
    fn is_open(&self) -> bool {
        self.asked.is_none() && self.regime != Regime::PutBack
    }
}

/// Whether someone has no place of his own though there are enough, and shares a core with another.
fn is_crowded(program: &Program<'_>) -> bool {
    let nodes: Vec<Option<usize>> = program.tasks.iter().map(|task| task.node).collect();
    let room: usize = program.capacity.iter().sum();
    room >= nodes.len() && standing(program, &nodes) > 0
}

/// The decision tree, with what it remembers of the order of tasks.
#[derive(Debug)]
struct Tree {
    comm_min: f64,
    dram_min: f64,
    dynamic_s: u64,
    /// Tasks by what they said, at the last full second.
    order: Vec<TaskKey>,
    counted: Option<Time>,
    /// Seconds in a row in which that changed.
    changes: u64,
}

/// Cosine from which behaviours of a static program are alike.
const ALIKE_STATIC: f64 = 0.8;
/// And of a dynamic one.
const ALIKE_DYNAMIC: f64 = 0.95;
/// Talk per access below which it does not matter whether it is the same.
const QUIET: f64 = 0.1;
/// Factor within which the total of what is asked of memory is the same.
const SAME_TOTAL: f64 = 1.5;

impl Tree {
    /// How alike behaviours must be for a choice to stand; none where mapping cannot help.
    fn judge(&mut self, now: Time, program: &Program<'_>) -> Option<f64> {
        self.note_order(now, program);
        let accessors = program.pages.iter().flat_map(Page::accessors);
        let accesses: f64 = accessors.map(|one| f64::from(one.weight)).sum();
        let said: f64 = program.decayed.pairs().map(|pair| pair.2 as f64).sum();
        if accesses + said <= 0.0 {
            return None;
        }
        let comm = said / accesses.max(1.0);
        if comm < self.comm_min && dram_share(program, accesses) < self.dram_min {
            return None;
        }
        Some(if self.changes >= self.dynamic_s {
            ALIKE_DYNAMIC
        } else {
            ALIKE_STATIC
        })
    }

    fn note_order(&mut self, now: Time, program: &Program<'_>) {
        let waited = self.counted.map(|last| now.since(last));
        if waited.is_some_and(|waited| waited.as_millis() < 1000) {
            return;
        }
        let said = |task: usize| program.live.row_sum(task);
        let mut order: Vec<usize> = (0..program.tasks.len()).collect();
        order.sort_by_key(|&task| std::cmp::Reverse(said(task)));
        let order: Vec<TaskKey> = order.iter().map(|&task| program.tasks[task].key).collect();
        self.changes = match order == self.order || self.counted.is_none() {
            true => 0,
            false => self.changes + 1,
        };
        (self.order, self.counted) = (order, Some(now));
    }
}

/// What memory takes of the processor time of a window, by the model; all of it where that is not known.
fn dram_share(program: &Program<'_>, accesses: f64) -> f64 {
    if program.prices.accesses_per_busy_second > 0.0 {
        return 1.0;
    }
    let busy: f64 = program.tasks.iter().map(|task| task.busy).sum();
    let time_ns = busy * program.window.as_nanos() as f64;
    // As long as an access from the far end may take, and none beside it: what memory takes at most.
    let distances = program.topology.distances();
    let nodes = 0..program.topology.nodes().len();
    let pairs = nodes
        .clone()
        .flat_map(|one| nodes.clone().map(move |other| (one, other)));
    let farthest = pairs
        .map(|(one, other)| distances.between(one, other))
        .max();
    let farthest = f64::from(farthest.unwrap_or(LOCAL)) / f64::from(LOCAL);
    let per_amount = program.prices.accesses_per_amount * live_part(program);
    let waits = accesses * per_amount * LOCAL_LATENCY_NS * farthest;
    if time_ns > 0.0 { waits / time_ns } else { 1.0 }
}

/// What a choice was made for.
#[derive(Debug)]
struct Behaviour {
    scope: Scope,
    /// Who talks to whom, in order of position.
    talk: Vec<((usize, usize), f64)>,
    /// What tasks ask of memory, per second.
    asked: Vec<((usize, usize), f64)>,
    window_s: f64,
}

impl Behaviour {
    fn of(program: &Program<'_>) -> Self {
        let talk = program.live.pairs();
        let mut asked = vec![0.0; program.tasks.len()];
        for accessor in program.pages.iter().flat_map(Page::accessors) {
            if let Some(sum) = asked.get_mut(accessor.task as usize) {
                *sum += f64::from(accessor.weight);
            }
        }
        let second = program.window.as_secs_f64().max(1e-9);
        let asked = asked.into_iter().enumerate();
        Self {
            scope: Scope::of(program),
            talk: talk
                .map(|(one, other, amount)| ((one, other), amount as f64))
                .collect(),
            asked: asked
                .map(|(task, sum)| ((task, task), sum / second))
                .collect(),
            window_s: second,
        }
    }

    /// Whether what is said could be stray samples: each makes all later uses of its page seem talk.
    fn is_quiet(&self) -> bool {
        let total = |list: &[((usize, usize), f64)]| list.iter().map(|one| one.1).sum::<f64>();
        total(&self.talk) < QUIET * self.window_s * total(&self.asked)
    }

    fn is_like(&self, other: &Self, least: f64) -> bool {
        let total = |list: &[((usize, usize), f64)]| list.iter().map(|one| one.1).sum::<f64>();
        let (before, after) = (total(&self.asked), total(&other.asked));
        self.scope == other.scope
            && (self.is_quiet() && other.is_quiet() || cosine(&self.talk, &other.talk) >= least)
            && cosine(&self.asked, &other.asked) >= least
            && before <= after * SAME_TOTAL
            && after <= before * SAME_TOTAL
    }
}

/// Cosine of two sparse vectors in order of position; 1 of two that are empty.
fn cosine(one: &[((usize, usize), f64)], other: &[((usize, usize), f64)]) -> f64 {
    let square = |list: &[((usize, usize), f64)]| list.iter().map(|one| one.1 * one.1).sum::<f64>();
    let lengths = square(one) * square(other);
    if lengths <= 0.0 {
        return if square(one) + square(other) > 0.0 {
            0.0
        } else {
            1.0
        };
    }
    let mut rest = other.iter().peekable();
    let mut product = 0.0;
    for (place, amount) in one {
        while rest.next_if(|next| next.0 < *place).is_some() {}
        if let Some(next) = rest.next_if(|next| next.0 == *place) {
            product += amount * next.1;
        }
    }
    product / lengths.sqrt()
}

#[cfg(test)]
mod tests {
    use numad_core::{CommMatrix, Proposal, Time};
    use testkit::Scene;

    use super::cosine;
    use crate::tests::{build, nodes_after, proposals};

    /// Two nodes of two cores, partners apart, and so much memory used that distance matters.
    fn crossed(amount: u64) -> Scene {
        let mut scene = Scene::new("2x2@10,30")
            .with_tasks_on(&[0, 1, 0, 1])
            .with_talk(&[(0, 1, amount), (2, 3, amount)]);
        for task in 0..4 {
            scene = scene.with_page(Some(u16::try_from(task % 2).unwrap()), &[task]);
        }
        for page in &mut scene.pages {
            page.recent[0].weight = u32::try_from(amount).unwrap();
        }
        scene
    }

    #[test]
    fn the_plan_that_the_model_finds_best_is_taken() {
        let nodes = nodes_after("auto", &crossed(10_000_000));
        assert!(nodes[0] == nodes[1] && nodes[2] == nodes[3], "{nodes:?}");
    }

    #[test]
    fn what_memory_does_not_decide_is_left_alone() {
        // A few accesses in half a second: whatever is gained is nothing.
        let scene = crossed(100);
        assert_eq!(nodes_after("auto", &scene), scene.placement());
        // Memory and communication both below their thresholds: not even that is said.
        let mut idle = crossed(100);
        idle.live = CommMatrix::new(4);
        idle.decayed = CommMatrix::new(4);
        assert_eq!(proposals("auto", &[], &idle), []);
    }

    #[test]
    fn a_choice_stands_until_the_program_does_something_else() {
        let mut scene = crossed(10_000_000);
        let mut policy = build("auto", &[]);
        let mut step = |scene: &mut Scene, second: u64| {
            let mut out: Vec<Proposal> = Vec::new();
            policy.propose(Time(second * 1_000_000_000), &scene.as_program(), &mut out);
            scene.apply(&out);
            scene.placement()
        };
        let before = scene.placement();
        let planned = step(&mut scene, 0);
        assert_ne!(planned, before);
        assert_eq!(step(&mut scene, 1), planned);
        // Put back by the engine: it is not tried again.
        for (task, node) in scene.tasks.iter_mut().zip(&before) {
            task.node = *node;
        }
        assert_eq!(step(&mut scene, 2), before);
        assert_eq!(step(&mut scene, 3), before);
        // Other partners: another choice.
        scene.live = CommMatrix::new(4);
        scene.live.add(0, 3, 10_000_000);
        scene.live.add(1, 2, 10_000_000);
        scene.decayed = scene.live.clone();
        let nodes = step(&mut scene, 4);
        assert!(nodes[0] == nodes[3] && nodes[1] == nodes[2], "{nodes:?}");
    }

    #[test]
    fn what_did_not_pay_is_thought_of_again() {
        let mut scene = crossed(10_000_000);
        let before = scene.placement();
        let mut policy = build("auto", &[]);
        let mut step = |scene: &mut Scene, second: u64| {
            let mut out: Vec<Proposal> = Vec::new();
            policy.propose(Time(second * 1_000_000_000), &scene.as_program(), &mut out);
            scene.apply(&out);
            scene.placement()
        };
        let expected = std::mem::replace(&mut scene.prices.task_move_ns, 1e18);
        assert_eq!(step(&mut scene, 0), before);
        // The program does the same; a move turned out to be cheap.
        scene.prices.task_move_ns = expected;
        let nodes = step(&mut scene, 1);
        assert!(nodes[0] == nodes[1] && nodes[2] == nodes[3], "{nodes:?}");
    }

    #[test]
    fn where_nothing_is_foretold_the_first_one_decides_that_all_stay() {
        let partners_at = |nodes: &[usize]| {
            Scene::new("46x2@10,20")
                .with_tasks_on(nodes)
                .with_talk(&[(0, 1, 10_000_000), (2, 3, 10_000_000)])
        };
        let together = partners_at(&[0, 0, 1, 1]);
        assert_ne!(nodes_after("scatter", &together), together.placement());
        assert_eq!(nodes_after("auto", &together), together.placement());
        let apart = partners_at(&[0, 1, 0, 1]);
        assert_eq!(nodes_after("auto", &apart), nodes_after("deloc", &apart));
    }

    #[test]
    fn likeness_is_the_cosine() {
        let vector = |amounts: &[f64]| -> Vec<((usize, usize), f64)> {
            let amounts = amounts.iter().enumerate();
            amounts
                .filter(|one| *one.1 > 0.0)
                .map(|(at, &amount)| ((at, at), amount))
                .collect()
        };
        let near = |one: &[f64], other: &[f64], expected: f64| {
            assert!((cosine(&vector(one), &vector(other)) - expected).abs() < 1e-9);
        };
        near(&[1.0, 2.0], &[2.0, 4.0], 1.0);
        near(&[1.0, 0.0], &[0.0, 1.0], 0.0);
        near(&[3.0, 4.0, 0.0], &[3.0, 0.0, 4.0], 9.0 / 25.0);
        near(&[], &[], 1.0);
        near(&[], &[1.0], 0.0);
    }
}
