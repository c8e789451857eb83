//! Autopin: try placements on the running program, and keep the one it runs fastest in.
//!
//! The tool of Klug, Ott, Weidendorfer and Trinitis (2008) takes a list of pinnings, applies each, lets the
//! program warm up for 500 ms, measures instructions per cycle for 150 ms, and keeps the best. Ours takes the
//! list from other policies: what each of `among` would do, and staying. Where instructions are not counted
//! (most virtual machines) nothing can be measured; then the cost model says which plan is best, at once,
//! as for `auto`.
//!
//! Pages follow once the choice is made, not while placements are tried: so a trial shows what threads gain by being
//! near each other, and not yet what they gain when their memory has come.
//!
//! Trials move threads against all advice, that is what they are for; so the engine is not asked to
//! want a gain of each move. A placement that is not in effect after [`PATIENCE`] windows, because
//! the engine lets threads rest or somebody else moves them, is passed over, and so is one in which
//! nothing is counted any more. A new round begins when tasks come or go, or when they may be
//! elsewhere than before.

use std::collections::BTreeMap;
use std::time::Duration;

use numad_core::evidence::{self, Scale};
use numad_core::{
    Certainty, Fate, Page, PageKey, Plan, Policy, PolicyFactory, Program, Proposal, SettingKind,
    SettingSpec, Time,
};

use crate::candidates::{AMONG, Candidates, Places, Scope};
use crate::data_mapping::{self, DataMapping};

const METRIC: SettingSpec = SettingSpec {
    name: "metric",
    kind: SettingKind::Choice(&["ipc", "model"], "ipc"),
    help: "What decides: instructions per cycle, measured in each placement where they are counted, or \
           the cost model without a trial.",
};

/// The paper's.
const WARM_UP_MS: SettingSpec = SettingSpec {
    name: "warm_up_ms",
    kind: SettingKind::Integer((0, 60_000), 500),
    help: "How long a placement is in effect before it is measured, in milliseconds.",
};

/// The paper's.
const MEASURE_MS: SettingSpec = SettingSpec {
    name: "measure_ms",
    kind: SettingKind::Integer((1, 60_000), 150),
    help: "How long a placement is measured at least, in milliseconds; whole windows are.",
};

/// Two measurements of the same placement differ by about as much.
const GAIN_MIN: SettingSpec = SettingSpec {
    name: "gain_min",
    kind: SettingKind::Float((0.0, 1.0), 0.02),
    help: "Another placement than the first is kept if it is this share faster.",
};

/// Windows that a placement is waited for.
const PATIENCE: u32 = 8;

/// Samples without which policies know too little to plan: what the engine asks of those that seek a gain.
const SAMPLES_MIN: u64 = 32;

/// What the engine asks of page moves by default.
const CONFIDENCE_MIN: f64 = 0.9;

const PINNINGS: SettingSpec = SettingSpec {
    name: "pinnings",
    kind: SettingKind::Text(""),
    help: "Processors by thread, pinnings with `/` between, as in 0,1,2,3/0,2,1,3; for the method as published alone.",
};

/// Makes the policy `autopin`.
pub(crate) static AUTOPIN: PolicyFactory = PolicyFactory {
    name: "autopin",
    summary: "Tries the plans of other policies one after the other, and keeps the one that runs \
              fastest.",
    settings: &[
        AMONG,
        METRIC,
        WARM_UP_MS,
        MEASURE_MS,
        PINNINGS,
        GAIN_MIN,
        data_mapping::PAGES,
        data_mapping::RATIO,
        data_mapping::HISTORY,
    ],
    seeks_gain: false,
    goes_by_order: false,
    published: Some(&crate::published::autopin::PUBLISHED),
    build: |settings, seed| {
        let time = |name| Duration::from_millis(settings.integer(name).unsigned_abs());
        Ok(Box::new(Pinner {
            candidates: Candidates::new(settings, seed, "autopin")?,
            by_model: settings.text(METRIC.name) == "model",
            warm_up: time(WARM_UP_MS.name),
            measure: time(MEASURE_MS.name),
            gain_min: settings.float(GAIN_MIN.name),
            pages: DataMapping::if_wanted(settings),
            scope: None,
            regime: Regime::Watching,
        }))
    },
};

/// The policy `autopin`.
#[derive(Debug)]
struct Pinner {
    candidates: Candidates,
    by_model: bool,
    warm_up: Duration,
    measure: Duration,
    gain_min: f64,
    pages: Option<DataMapping>,
    scope: Option<Scope>,
    regime: Regime,
}

/// ```text
/// Watching --enough seen, pace counted--> Trying --all tried--> Keeping
///     \----enough seen, no pace---> Offering --one was taken------^
/// any --tasks come, go, or lose their places--> Watching
/// ```
#[derive(Debug)]
enum Regime {
    Watching,
    Trying(Trials),
    /// For the engine to choose; the first is where everyone is.
    Offering(Vec<Places>),
    Keeping(Places),
}

/// Placements to be tried.
#[derive(Debug)]
struct Trials {
    /// The first is where everyone was.
    places: Vec<Places>,
    /// The pace in those before this one; none where it could not be measured.
    paces: Vec<Option<f64>>,
    trial: Trial,
}

/// The placement that is tried now.
#[derive(Debug, Default)]
struct Trial {
    /// Windows that it was waited for.
    waited: u32,
    /// Since when it is in effect.
    since: Option<Time>,
    /// Pace times length, and length, of the windows that count.
    sum: f64,
    length: Duration,
}

impl Policy for Pinner {
    fn propose(&mut self, now: Time, program: &Program<'_>, out: &mut Vec<Proposal>) {
        let scope = Scope::of(program);
        if self.scope.as_ref() != Some(&scope) {
            self.scope = Some(scope);
            self.regime = Regime::Watching;
        }
        let regime = std::mem::replace(&mut self.regime, Regime::Watching);
        self.regime = match regime {
            Regime::Watching | Regime::Offering(_) => self.begin(now, program),
            Regime::Trying(trials) => self.go_on(trials, now, program),
            Regime::Keeping(places) if places.fit(program) => Regime::Keeping(places),
            Regime::Keeping(_) => Regime::Watching,
        };
        match &self.regime {
            Regime::Watching => {}
            Regime::Trying(trials) => out.extend(trials.places[trials.paces.len()].plan()),
            Regime::Offering(places) => out.extend(places[0].plan()),
            Regime::Keeping(places) => {
                out.extend(places.plan());
                if let Some(pages) = &mut self.pages {
                    let mut moves = Plan::new();
                    pages.propose(now, program, &mut moves);
                    keep_sure(program, &mut moves);
                    out.append(&mut moves);
                }
            }
        }
    }

    fn plans(&mut self, now: Time, program: &Program<'_>, out: &mut Vec<Plan>) {
        let mut plan = Plan::new();
        self.propose(now, program, &mut plan);
        out.push(plan);
        if let Regime::Offering(places) = &self.regime {
            out.extend(places[1..].iter().map(Places::plan));
        }
    }

    fn on_choice(&mut self, plan: usize) {
        if let Regime::Offering(places) = &mut self.regime {
            self.regime = Regime::Keeping(places.swap_remove(plan));
        }
    }

    fn on_fate(&mut self, now: Time, proposal: &Proposal, fate: Fate) {
        if let Some(pages) = &mut self.pages {
            pages.on_fate(now, proposal, fate);
        }
    }
}

impl Pinner {
    /// Collects placements once enough is known.
    fn begin(&mut self, now: Time, program: &Program<'_>) -> Regime {
        let mut plans = Vec::new();
        self.candidates.plans(now, program, &mut plans);
        if program.samples < SAMPLES_MIN {
            return Regime::Watching;
        }
        let mut places = vec![Places::as_is(program)];
        for plan in &plans {
            let other = Places::of(program, plan);
            if !other.are_taken(program) && !places.contains(&other) {
                places.push(other);
            }
        }
        if places.len() == 1 {
            return Regime::Keeping(places.remove(0));
        }
        if self.by_model || program.ipc.is_none() {
            return Regime::Offering(places);
        }
        Regime::Trying(Trials {
            places,
            paces: Vec::new(),
            trial: Trial::default(),
        })
    }

    fn go_on(&self, mut trials: Trials, now: Time, program: &Program<'_>) -> Regime {
        trials.measure(now, program, (self.warm_up, self.measure));
        // One whose places were taken by others meanwhile cannot be tried.
        while trials
            .places
            .get(trials.paces.len())
            .is_some_and(|places| !places.fit(program))
        {
            trials.next(None);
        }
        if trials.paces.len() < trials.places.len() {
            return Regime::Trying(trials);
        }
        let best = trials.best(self.gain_min);
        let places = trials.places.swap_remove(best);
        if places.fit(program) {
            Regime::Keeping(places)
        } else {
            Regime::Watching
        }
    }
}

impl Trials {
    /// Takes this window into account.
    fn measure(
        &mut self,
        now: Time,
        program: &Program<'_>,
        (warm_up, measure): (Duration, Duration),
    ) {
        let Some(places) = self.places.get(self.paces.len()) else {
            return;
        };
        let in_effect = places.are_taken(program);
        if !in_effect {
            self.trial.since = None;
        }
        let Some(ipc) = program.ipc.filter(|_| in_effect) else {
            self.trial.waited += 1;
            if self.trial.waited > PATIENCE {
                self.next(None);
            }
            return;
        };
        let since = *self.trial.since.get_or_insert(now);
        // The window must have begun after the warm-up.
        if now.since(since) < warm_up + program.window {
            return;
        }
        self.trial.sum += ipc * program.window.as_secs_f64();
        self.trial.length += program.window;
        if self.trial.length >= measure {
            self.next(Some(self.trial.sum / self.trial.length.as_secs_f64()));
        }
    }

    /// Goes to the next placement.
    fn next(&mut self, pace: Option<f64>) {
        self.paces.push(pace);
        self.trial = Trial::default();
    }

    /// The fastest placement; the first if none is clearly faster.
    fn best(&self, gain_min: f64) -> usize {
        let mut best = (self.paces[0].unwrap_or(0.0) * (1.0 + gain_min), 0);
        for (index, pace) in self.paces.iter().enumerate().skip(1) {
            if let Some(pace) = pace.filter(|&pace| pace > best.0) {
                best = (pace, index);
            }
        }
        best.1
    }
}

/// Drops page moves that a few samples may want by chance. The engine asks that only of policies of
/// which it wants a gain.
fn keep_sure(program: &Program<'_>, moves: &mut Vec<Proposal>) {
    let pages = program.pages.iter().map(|page| (page.key, page));
    let pages: BTreeMap<PageKey, &Page> = pages.collect();
    moves.retain(|wish| {
        let wanted = wish.page_move();
        wanted.is_none_or(|(page, node)| {
            let page = pages.get(&page);
            page.is_some_and(|page| is_sure(program, page, node))
        })
    });
}

/// Whether the samples of a page say that it gets nearer to who uses it, and not by chance.
fn is_sure(program: &Program<'_>, page: &Page, node: usize) -> bool {
    let uses = page.weight() as f64;
    let Some(home) = page.node().filter(|_| uses > 0.0) else {
        return false;
    };
    let distances = program.topology.distances();
    let own = f64::from(page.samples) * page.remembered() / uses;
    let mut scale = Scale::default();
    for (from, uses) in program.uses(page) {
        let [here, there] = [home, node].map(|to| f64::from(distances.between(from, to)));
        scale.put(uses * own, here - there);
    }
    let nodes = evidence::ln_plans(1, 1, program.capacity.len());
    let certainty = Certainty::of(CONFIDENCE_MIN);
    certainty.weigh_chosen(&scale, nodes).convinces()
}

#[cfg(test)]
mod tests {
    use numad_core::{Proposal, Time};
    use testkit::Scene;

    use crate::tests::build;

    fn crossed() -> Scene {
        Scene::new("2x2")
            .with_tasks_on(&[0, 1, 0, 1])
            .with_talk(&[(0, 1, 1000), (2, 3, 900)])
    }

    /// Runs windows of half a second in which the program is as fast as `pace` says of its placement, and
    /// everything is done that is asked for; which placements there were, and the last one.
    fn run(
        scene: &mut Scene,
        windows: u64,
        pace: impl Fn(&[Option<usize>]) -> f64,
    ) -> Vec<Vec<Option<usize>>> {
        let mut policy = build("autopin", &[]);
        let mut seen: Vec<Vec<Option<usize>>> = Vec::new();
        for window in 0..windows {
            let placement = scene.placement();
            scene.ipc = Some(pace(&placement));
            if seen.last() != Some(&placement) {
                seen.push(placement);
            }
            let mut out: Vec<Proposal> = Vec::new();
            policy.propose(Time(window * 500_000_000), &scene.as_program(), &mut out);
            scene.apply(&out);
        }
        seen
    }

    #[test]
    fn the_fastest_placement_of_those_tried_is_kept() {
        let mut scene = crossed();
        let seen = run(
            &mut scene,
            60,
            |nodes| if nodes[0] == nodes[1] { 2.0 } else { 1.0 },
        );
        let last = seen.last().unwrap();
        assert!(last[0] == last[1] && last[2] == last[3], "{seen:?}");
        assert!(seen.len() >= 2);
    }

    #[test]
    fn the_first_placement_is_kept_when_no_other_is_faster() {
        let mut scene = crossed();
        let first = scene.placement();
        let seen = run(&mut scene, 60, |nodes| {
            if nodes[0] == nodes[1] { 1.0 } else { 1.01 }
        });
        assert!(seen.len() >= 3, "others were tried: {seen:?}");
        assert_eq!(seen.last(), Some(&first));
    }

    #[test]
    fn pages_follow_who_uses_them_for_sure() {
        let mut scene = crossed()
            .with_page(Some(1), &[0])
            .with_page(Some(1), &[0])
            .with_page(Some(1), &[2]);
        for page in &mut scene.pages[1..] {
            page.samples = 8;
            page.recent[0].weight = 8;
        }
        // Of what many use eight samples are of others.
        scene.pages[2].forgotten = 7;
        let mut policy = build("autopin", &[("metric", "model"), ("gain_min", "1")]);
        let mut moved = Vec::new();
        for window in 0..4 {
            let mut plans = Vec::new();
            policy.plans(Time(window * 500_000_000), &scene.as_program(), &mut plans);
            policy.on_choice(0);
            let out: Vec<Proposal> = plans.swap_remove(0);
            moved.extend(out.into_iter().filter_map(|one| match one {
                Proposal::MovePage { page, .. } => Some(page),
                Proposal::PlaceTask { .. } => None,
            }));
        }
        moved.dedup();
        assert_eq!(moved, [scene.pages[1].key], "one sample tells nothing");
    }

    #[test]
    fn without_counters_the_engine_chooses() {
        let mut scene = crossed();
        let mut policy = build("autopin", &[]);
        let mut plans = Vec::new();
        policy.plans(Time(0), &scene.as_program(), &mut plans);
        assert!(plans.len() >= 2, "staying is the first: {plans:?}");
        policy.on_choice(1);
        let mut out: Vec<Proposal> = Vec::new();
        policy.propose(Time(500_000_000), &scene.as_program(), &mut out);
        scene.apply(&out);
        let nodes = scene.placement();
        assert!(nodes[0] == nodes[1] && nodes[2] == nodes[3], "{nodes:?}");
    }

    #[test]
    fn nothing_is_waited_for_when_counting_has_stopped() {
        let mut scene = crossed();
        let first = scene.placement();
        let mut policy = build("autopin", &[]);
        for window in 0..80 {
            scene.ipc = (scene.placement() == first).then_some(1.0);
            let mut out: Vec<Proposal> = Vec::new();
            policy.propose(Time(window * 500_000_000), &scene.as_program(), &mut out);
            scene.apply(&out);
        }
        assert_eq!(scene.placement(), first);
    }

    #[test]
    fn who_cannot_be_placed_is_passed_over() {
        let mut scene = crossed();
        let first = scene.placement();
        let mut policy = build("autopin", &[]);
        for window in 0..80 {
            // Nobody ever goes anywhere.
            scene.ipc = Some(1.0);
            let mut out: Vec<Proposal> = Vec::new();
            policy.propose(Time(window * 500_000_000), &scene.as_program(), &mut out);
            if window == 79 {
                scene.apply(&out);
            }
        }
        assert_eq!(scene.placement(), first);
    }
}
