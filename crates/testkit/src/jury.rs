//! The jury: what every policy must get right, whatever its method.
//!
//! [`judge`] runs a policy through made-up programs on odd machines, with its defaults and with
//! every setting at its limits, tells it what became of its proposals, and lets tasks, talk, pages
//! and limits change in between. Each [`Rule`] says one thing that must hold. Everything follows
//! from a seed, which a [`Breach`] names; [`hear`] with that seed shows it again.
//!
//! Tasks come by ascending thread id by contract, and a method may break ties by that order. So nothing
//! but their order counts ([`Rule::Labels`]); and where there are no ties, because everyone says
//! something different, not even that ([`Rule::Order`]).

use std::fmt;
use std::time::Duration;

use numad_core::cost::placement_distances;
use numad_core::{
    Fate, Policy, PolicyFactory, Proposal, Reason, SettingKind, SettingSpec, SettingValue,
    Settings, Time, Veto,
};
use topology::{Pid, TaskKey, Tid};

use crate::{Dice, Scene};

/// What must hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// A task is put only where it is allowed and where processors are.
    TaskExcluded,
    /// A page whose place is known is put only where the program has memory free for it.
    PageExcluded,
    /// A task or page is proposed once in a window.
    Repeated,
    /// No node gets more tasks than it takes. Where tasks arrive, those that stay count as well, but
    /// for those that have no room anywhere else.
    Capacity,
    /// A task that is named as the reason is another one of the program.
    Reason,
    /// The same calls give the same proposals.
    Reproducible,
    /// Other thread and process numbers in the same order change nothing.
    Labels,
    /// The same tasks in another order end in a placement that costs the same, where all that they say can be told
    /// apart; not asked of a policy that goes by the order.
    Order,
    /// When all was done and nothing new was seen, nothing more is to change: no task from the
    /// second call on, and no page more than twice, before and after its threads moved.
    Settles,
    /// A policy that seeks gain says nothing when nothing was seen.
    Quiet,
}

/// A rule that a policy broke.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breach {
    /// Which.
    pub rule: Rule,
    /// The seed that shows it.
    pub seed: u64,
    /// What was proposed, and why that is wrong.
    pub detail: String,
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} broken at seed {}: {}",
            self.rule, self.seed, self.detail
        )
    }
}

impl std::error::Error for Breach {}

/// Seeds that every policy is tried with at its defaults.
const SEEDS: u64 = 400;

/// Seeds that every limit of every setting is tried with.
const SEEDS_PER_VARIANT: u64 = 60;

/// Windows of one program before it is seen to settle.
const STEPS: usize = 8;

/// Tries a policy in every way the jury knows.
///
/// # Panics
/// With the first [`Breach`], and when the defaults of the settings are refused.
#[track_caller]
pub fn judge(factory: &PolicyFactory) {
    for (settings, seeds) in variants(factory.settings) {
        for seed in 0..seeds {
            if let Err(breach) = hear(factory, &settings, seed) {
                panic!("policy `{}` with {settings:?}: {breach}", factory.name);
            }
        }
    }
}

/// Tries a policy with one seed.
///
/// # Errors
/// The first rule it broke.
///
/// # Panics
/// When the policy cannot be built with these settings.
pub fn hear(factory: &PolicyFactory, settings: &Settings, seed: u64) -> Result<(), Breach> {
    let trial = Trial {
        factory,
        settings,
        seed,
    };
    let mut dice = Dice::new(seed);
    let mut scene = Scene::random(&mut dice);
    trial.windows(&mut dice, &mut scene)?;
    trial.order(&mut dice, &scene)?;
    trial.settles(scene.clone())?;
    trial.quiet(scene)
}

/// The defaults, and each setting at each of its limits with the others at their defaults.
fn variants(specs: &[SettingSpec]) -> Vec<(Settings, u64)> {
    let mut variants = vec![(Settings::defaults(specs), SEEDS)];
    for spec in specs {
        let limits = match spec.kind {
            SettingKind::Bool(default) => vec![SettingValue::Bool(!default)],
            SettingKind::Integer((min, max), _) => [min, max].map(SettingValue::Integer).to_vec(),
            SettingKind::Float((min, max), _) => [min, max].map(SettingValue::Float).to_vec(),
            SettingKind::Choice(of, _) => {
                let words = of.iter().map(|&word| SettingValue::Text(word.to_owned()));
                words.collect()
            }
            SettingKind::Text(_) => Vec::new(),
        };
        variants.extend(limits.into_iter().map(|limit| {
            let settings = Settings::with(specs, [(spec.name.to_owned(), limit)]);
            let settings = settings.expect("a limit is within the limits");
            (settings, SEEDS_PER_VARIANT)
        }));
    }
    variants
}

/// One policy with one seed.
struct Trial<'a> {
    factory: &'a PolicyFactory,
    settings: &'a Settings,
    seed: u64,
}

impl Trial<'_> {
    /// Lets windows pass, in each of which something changes.
    fn windows(&self, dice: &mut Dice, scene: &mut Scene) -> Result<(), Breach> {
        let [mut policy, mut twin, mut stranger] = [(); 3].map(|()| self.policy());
        let mut now = Time(0);
        for _ in 0..STEPS {
            now = now.after(Duration::from_millis(50 * (1 + dice.roll() % 30)));
            let proposals = propose(&mut *policy, now, scene);
            self.check(scene, &proposals)?;
            self.require(
                Rule::Reproducible,
                propose(&mut *twin, now, scene) == proposals,
                || format!("two of the same seed differ at {now}; one says {proposals:?}"),
            )?;
            let renamed = rename(scene);
            let others = propose(&mut *stranger, now, &renamed);
            self.require(Rule::Labels, same_places(&proposals, &others), || {
                format!("{proposals:?} becomes {others:?} under other thread numbers")
            })?;
            for proposal in &proposals {
                let fate = random_fate(dice);
                for one in [&mut policy, &mut twin, &mut stranger] {
                    one.on_fate(now, proposal, fate);
                }
                if fate == Fate::Done {
                    scene.apply(std::slice::from_ref(proposal));
                }
            }
            disturb(dice, scene);
        }
        Ok(())
    }

    /// The same tasks are listed in another order.
    fn order(&self, dice: &mut Dice, scene: &Scene) -> Result<(), Breach> {
        // Two tasks say the same in all, and are not to be told apart.
        if self.factory.goes_by_order || scene.tasks.len() == 2 {
            return Ok(());
        }
        let mut scene = scene.clone();
        scene.tell_apart(dice);
        let mut order: Vec<usize> = (0..scene.tasks.len()).collect();
        dice.shuffle(&mut order);
        let listed = scene.in_order(&order);
        let cost = |scene: &Scene| {
            let mut after = scene.clone();
            after.apply(&propose(&mut *self.policy(), Time(1), scene));
            let distances = scene.topology.distances();
            let [cost] = placement_distances(&scene.live, [&after.placement()], distances);
            cost
        };
        let (one, other) = (cost(&scene), cost(&listed));
        let same = (one - other).abs() <= 1e-9 * one.max(other);
        self.require(Rule::Order, same, || {
            format!("costs {one}, and {other} with tasks in the order {order:?}")
        })
    }

    /// Nothing changes but what the policy asks for; soon it must ask for nothing more.
    fn settles(&self, mut scene: Scene) -> Result<(), Breach> {
        let mut policy = self.policy();
        let mut moves = vec![0; scene.pages.len()];
        // A page that leaves a full node makes room for one more, and so on.
        for round in 0..scene.pages.len() + 4 {
            let wait = Duration::from_secs(100) * u32::try_from(round + 1).unwrap_or(u32::MAX);
            let now = Time(0).after(wait);
            let proposals = propose(&mut *policy, now, &scene);
            self.check(&scene, &proposals)?;
            for proposal in proposals.iter().filter(|proposal| scene.changes(proposal)) {
                let late = match proposal {
                    Proposal::PlaceTask { .. } => round >= 1,
                    Proposal::MovePage { page, .. } => {
                        let index = scene.pages.iter().position(|known| known.key == *page);
                        let count = &mut moves[index.unwrap_or_default()];
                        *count += 1;
                        *count > 2
                    }
                };
                self.require(Rule::Settles, !late, || {
                    format!("{proposal:?} in round {round} though all was done")
                })?;
            }
            if scene.apply(&proposals) == 0 && round > 2 {
                return Ok(());
            }
            for proposal in &proposals {
                policy.on_fate(now, proposal, Fate::Done);
            }
        }
        self.require(Rule::Settles, false, || "pages move on and on".to_owned())
    }

    /// Nothing was seen at all.
    fn quiet(&self, mut scene: Scene) -> Result<(), Breach> {
        scene.live = numad_core::CommMatrix::new(scene.tasks.len());
        scene.decayed = scene.live.clone();
        scene.handed = scene.handed.map(|_| scene.live.clone());
        scene.pages.clear();
        scene.samples = 0;
        let mut policy = self.policy();
        let proposals = propose(&mut *policy, Time(1), &scene);
        self.check(&scene, &proposals)?;
        let silent = proposals.is_empty() || !self.factory.seeks_gain;
        self.require(Rule::Quiet, silent, || {
            format!("{proposals:?} about nothing")
        })?;
        self.settles(scene)
    }

    /// What holds for the proposals of any one window.
    fn check(&self, scene: &Scene, proposals: &[Proposal]) -> Result<(), Breach> {
        self.check_tasks(scene, proposals)?;
        self.check_pages(scene, proposals)?;
        self.check_capacity(scene, proposals)
    }

    fn check_tasks(&self, scene: &Scene, proposals: &[Proposal]) -> Result<(), Breach> {
        let homes = scene.nodes_with_cpus();
        let mut seen = vec![false; scene.tasks.len()];
        for proposal in proposals {
            let Proposal::PlaceTask { task, node, reason } = proposal else {
                continue;
            };
            let allowed = scene.tasks.get(*task).is_some_and(|task| {
                homes.get(*node) == Some(&true) && task.allowed.get(*node) == Some(&true)
            });
            self.require(Rule::TaskExcluded, allowed, || format!("{proposal:?}"))?;
            let again = std::mem::replace(&mut seen[*task], true);
            self.require(Rule::Repeated, !again, || {
                format!("{proposal:?} a second time")
            })?;
            if let Reason::Partner { with, .. } = reason {
                let own = scene.tasks[*task].key;
                let known = *with != own && scene.tasks.iter().any(|task| task.key == *with);
                self.require(Rule::Reason, known, || format!("{proposal:?}"))?;
            }
        }
        Ok(())
    }

    fn check_pages(&self, scene: &Scene, proposals: &[Proposal]) -> Result<(), Breach> {
        let mut free = scene.free_bytes.clone();
        let page_bytes = scene.as_program().page_bytes;
        let mut seen = Vec::new();
        for proposal in proposals {
            let Proposal::MovePage { page, node, .. } = proposal else {
                continue;
            };
            let known = scene.pages.iter().find(|found| found.key == *page);
            let away = known
                .and_then(|page| page.home)
                .is_some_and(|home| usize::from(home) != *node);
            let room = free.get(*node).is_some_and(|&free| free >= page_bytes);
            self.require(Rule::PageExcluded, away && room, || format!("{proposal:?}"))?;
            free[*node] -= page_bytes;
            self.require(Rule::Repeated, !seen.contains(page), || {
                format!("{proposal:?} a second time")
            })?;
            seen.push(*page);
        }
        Ok(())
    }

    fn check_capacity(&self, scene: &Scene, proposals: &[Proposal]) -> Result<(), Breach> {
        let nodes = scene.capacity.len();
        let mut put = vec![0; nodes];
        let mut arrives = vec![false; nodes];
        let mut stays: Vec<bool> = vec![true; scene.tasks.len()];
        for proposal in proposals {
            if let Proposal::PlaceTask { task, node, .. } = *proposal {
                put[node] += 1;
                arrives[node] |= scene.changes(proposal);
                stays[task] = false;
            }
        }
        let mut after = scene.clone();
        after.apply(proposals);
        let counts = after.occupancy();
        for (node, &capacity) in scene.capacity.iter().enumerate() {
            self.require(Rule::Capacity, put[node] <= capacity, || {
                format!("{} tasks on node {node}, which takes {capacity}", put[node])
            })?;
            let stuck = scene.tasks.iter().zip(&stays).filter(|&(task, &stays)| {
                let open = |to: &usize| task.allowed[*to] && counts[*to] < scene.capacity[*to];
                stays && task.node == Some(node) && !(0..nodes).any(|to| open(&to))
            });
            let fits = counts[node] - stuck.count() <= capacity || !arrives[node];
            self.require(Rule::Capacity, fits, || {
                format!(
                    "node {node} takes {capacity} and ends with {}",
                    counts[node]
                )
            })?;
        }
        Ok(())
    }

    fn policy(&self) -> Box<dyn Policy> {
        let policy = (self.factory.build)(self.settings, self.seed);
        policy.expect("settings within their limits make a policy")
    }

    fn require(
        &self,
        rule: Rule,
        holds: bool,
        detail: impl FnOnce() -> String,
    ) -> Result<(), Breach> {
        if holds {
            return Ok(());
        }
        Err(Breach {
            rule,
            seed: self.seed,
            detail: detail(),
        })
    }
}

fn propose(policy: &mut dyn Policy, now: Time, scene: &Scene) -> Vec<Proposal> {
    let mut out = Vec::new();
    policy.propose(now, &scene.as_program(), &mut out);
    out
}

/// The same scene under other process and thread numbers, in the same order.
fn rename(scene: &Scene) -> Scene {
    let mut renamed = scene.clone();
    for task in &mut renamed.tasks {
        task.key = TaskKey {
            pid: Pid(task.key.pid.0 + 17),
            tid: Tid(task.key.tid.0 * 3 + 5),
            start: task.key.start,
        };
    }
    renamed
}

/// Whether two lists put the same things in the same places in the same order, for whatever reason.
fn same_places(one: &[Proposal], other: &[Proposal]) -> bool {
    let place = |proposal: &Proposal| match *proposal {
        Proposal::PlaceTask { task, node, .. } => (Some(task), None, node),
        Proposal::MovePage { page, node, .. } => (None, Some(page), node),
    };
    one.iter().map(place).eq(other.iter().map(place))
}

fn random_fate(dice: &mut Dice) -> Fate {
    match dice.below(10) {
        0 => Fate::Failed,
        1 => Fate::Dropped(Veto::Budget),
        2 => Fate::Dropped(Veto::DoesNotPay),
        _ => Fate::Done,
    }
}

/// Something happens between two windows.
fn disturb(dice: &mut Dice, scene: &mut Scene) {
    match dice.below(6) {
        0 => scene.renew_tasks(dice),
        1 => scene.renew_limits(dice),
        2 => scene.renew_talk(dice),
        3 => scene.renew_pages(dice),
        4 => {
            let homes = scene.nodes_with_cpus();
            for task in &mut scene.tasks {
                if dice.chance(30) {
                    task.node = Some(dice.below(homes.len())).filter(|&node| homes[node]);
                }
            }
        }
        _ => {}
    }
}
