//! What other policies would do: candidates for those who choose among them.

use std::cmp::Reverse;

use numad_core::{
    CommMatrix, Fate, Plan, Policy, PolicyFactory, Program, Proposal, Reason, SettingKind,
    SettingSpec, Settings, SettingsError, Task, Time,
};

use topology::TaskKey;

use crate::amounts::uses;
use crate::data_mapping;
use crate::even::EVEN;
use crate::seats::Seats;

/// Who is asked, best guess first: of plans that are worth as much the first is taken.
pub(crate) const AMONG: SettingSpec = among("deloc,ptb,locality,lapt,rclb,balance");

/// The same with other policies where none are named.
pub(crate) const fn among(default: &'static str) -> SettingSpec {
    SettingSpec {
        name: "among",
        kind: SettingKind::Text(default),
        help: "The policies whose plans are considered, with commas between.",
    }
}

/// Policies that may be asked at once.
const MOST: usize = 8;

/// The policies that are asked.
#[derive(Debug)]
pub(crate) struct Candidates {
    asked: Vec<Asked>,
    /// Of whom the last plans are: where they begin in the list of all.
    begin: Vec<usize>,
    /// Whose plan was taken.
    taken: usize,
}

#[derive(Debug)]
struct Asked {
    factory: &'static PolicyFactory,
    policy: Box<dyn Policy>,
}

impl Candidates {
    /// The policies that a setting of the one who chooses names; settings that both have are as he has them, others at
    /// their defaults.
    pub(crate) fn new(
        settings: &Settings,
        seed: u64,
        chooser: &'static str,
    ) -> Result<Self, SettingsError> {
        let list = settings.text(AMONG.name);
        let refuse = |reason: String| SettingsError::new(AMONG.name, reason);
        let mut asked: Vec<Asked> = Vec::new();
        for name in list
            .split(',')
            .map(str::trim)
            .filter(|name| !name.is_empty())
        {
            let factory =
                crate::find(name).map_err(|error| refuse(format!("is `{list}`, but {error}")))?;
            if name == "auto" || name == "autopin" {
                return Err(refuse(format!(
                    "is `{list}`, but `{name}` cannot be asked by `{chooser}`; name policies that place"
                )));
            }
            if asked.iter().any(|known| known.factory.name == name) {
                continue;
            }
            let own = factory.settings;
            let shared = settings.iter().filter(|(name, _)| PASSED_ON.contains(name));
            let shared = shared.filter(|(name, _)| own.iter().any(|spec| spec.name == *name));
            let shared = shared.map(|(name, value)| (name.to_owned(), value.clone()));
            asked.push(Asked {
                factory,
                policy: (factory.build)(&Settings::with(own, shared)?, seed)?,
            });
        }
        if asked.is_empty() || asked.len() > MOST {
            return Err(refuse(format!(
                "is `{list}`, must be one to {MOST} policies"
            )));
        }
        Ok(Self {
            asked,
            begin: Vec::new(),
            taken: 0,
        })
    }
}

/// As a policy they are followed as the first alone, unless the plan of another is taken.
impl Policy for Candidates {
    /// What the first wants.
    fn propose(&mut self, now: Time, program: &Program<'_>, out: &mut Vec<Proposal>) {
        let mut plans = Vec::new();
        self.plans(now, program, &mut plans);
        out.extend(plans.into_iter().next().unwrap_or_default());
    }

    /// Appends what everyone would do with threads now, and what the first would do with pages.
    fn plans(&mut self, now: Time, program: &Program<'_>, out: &mut Vec<Plan>) {
        self.begin.clear();
        let own = out.len();
        for asked in &mut self.asked {
            self.begin.push(out.len());
            match asked.factory.goes_by_order {
                true => out.push(ask_in_order(&mut *asked.policy, now, program)),
                false if out.len() == own => asked.policy.plans(now, program, out),
                false => asked.policy.thread_plans(now, program, out),
            }
        }
        let is_page = |proposal: &&Proposal| proposal.place().is_none();
        let pages: Plan = out[own].iter().filter(is_page).cloned().collect();
        for plan in &mut out[own + 1..] {
            plan.retain(|proposal| proposal.place().is_some());
            plan.extend_from_slice(&pages);
        }
    }

    fn page_moves(&mut self, now: Time, program: &Program<'_>, out: &mut Plan) -> bool {
        self.asked[0].policy.page_moves(now, program, out)
    }

    fn on_choice(&mut self, plan: usize) {
        self.taken = self
            .begin
            .iter()
            .rposition(|&begin| begin <= plan)
            .unwrap_or(0);
        let own = plan - self.begin.get(self.taken).copied().unwrap_or(0);
        self.asked[self.taken].policy.on_choice(own);
    }

    /// Tells the one who wanted it what became of a proposal.
    fn on_fate(&mut self, now: Time, proposal: &Proposal, fate: Fate) {
        let who = proposal.place().map_or(0, |_| self.taken);
        self.asked[who].policy.on_fate(now, proposal, fate);
    }
}

/// Settings that those who are asked share with the one who chooses.
const PASSED_ON: [&str; 4] = [
    data_mapping::PAGES.name,
    data_mapping::RATIO.name,
    data_mapping::HISTORY.name,
    EVEN.name,
];

/// Asks a policy that goes by the order of tasks. For a choice by figures the order in which they happen to be
/// listed should not matter, so they are listed by what they ask of memory, most first, then by what they
/// say: dealt out in turn they then load nodes evenly. Such a policy looks at nothing else.
fn ask_in_order(policy: &mut dyn Policy, now: Time, program: &Program<'_>) -> Plan {
    let asked = uses(program);
    let mut order: Vec<usize> = (0..asked.len()).collect();
    order.sort_by_key(|&task| Reverse((asked[task], program.live.row_sum(task))));
    let tasks: Vec<Task> = order
        .iter()
        .map(|&task| program.tasks[task].clone())
        .collect();
    let nothing = CommMatrix::new(tasks.len());
    let listed = Program {
        tasks: &tasks,
        live: &nothing,
        decayed: &nothing,
        pages: &[],
        handed: None,
        ..*program
    };
    let mut plan = Plan::new();
    policy.propose(now, &listed, &mut plan);
    for proposal in &mut plan {
        if let Proposal::PlaceTask { task, .. } = proposal {
            *task = order[*task];
        }
    }
    plan
}

/// Who takes part and where they may be: what a plan is made for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Scope {
    tasks: Vec<TaskKey>,
    allowed: Vec<Vec<bool>>,
    capacity: Vec<usize>,
}

impl Scope {
    /// That of a program now.
    pub(crate) fn of(program: &Program<'_>) -> Self {
        let tasks = program.tasks.iter();
        Self {
            tasks: tasks.clone().map(|task| task.key).collect(),
            allowed: tasks.map(|task| task.allowed.clone()).collect(),
            capacity: program.capacity.to_vec(),
        }
    }
}

/// Places of tasks, by position, that are to be kept, each with why; none for those who may be anywhere. Holds
/// as long as the [`Scope`] does.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Places(pub(crate) Vec<Option<(usize, Reason)>>);

impl Places {
    /// Those of a plan.
    pub(crate) fn of(program: &Program<'_>, plan: &Plan) -> Self {
        let mut places = vec![None; program.tasks.len()];
        for proposal in plan {
            if let Proposal::PlaceTask { task, node, reason } = proposal {
                places[*task] = Some((*node, reason.clone()));
            }
        }
        Self(places)
    }

    /// Everyone where it is now, as far as there are places.
    pub(crate) fn as_is(program: &Program<'_>) -> Self {
        let mut seats = Seats::new(program);
        let stay = |task: &Task| {
            let node = task.node.filter(|&node| seats.try_take(node, task))?;
            Some((node, Reason::Stay))
        };
        Self(program.tasks.iter().map(stay).collect())
    }

    /// Whether there is still a place for everyone, with the others where they are now.
    pub(crate) fn fit(&self, program: &Program<'_>) -> bool {
        let others = (0..self.0.len()).filter(|&task| self.0[task].is_none());
        let mut seats = Seats::without(program, others);
        let mut both = self.0.iter().zip(program.tasks);
        both.all(|(place, task)| {
            let place = place.as_ref();
            place.is_none_or(|(node, _)| seats.try_take(*node, task))
        })
    }

    /// Whether everyone is there.
    pub(crate) fn are_taken(&self, program: &Program<'_>) -> bool {
        let mut both = self.0.iter().zip(program.tasks);
        both.all(|(place, task)| {
            let place = place.as_ref();
            place.is_none_or(|(node, _)| task.node == Some(*node))
        })
    }

    /// As a plan.
    pub(crate) fn plan(&self) -> Plan {
        let places = self.0.iter().enumerate();
        let places = places.filter_map(|(task, place)| Some((task, place.clone()?)));
        places
            .map(|(task, (node, reason))| Proposal::place_task(task, node, reason))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use numad_core::SettingValue;

    use super::*;
    use crate::auto::AUTO;

    fn asked(list: &str) -> Result<Candidates, SettingsError> {
        let among = (AMONG.name.to_owned(), SettingValue::Text(list.to_owned()));
        Candidates::new(&Settings::with(AUTO.settings, [among])?, 1, "auto")
    }

    #[track_caller]
    fn refused(list: &str, expected: &str) {
        let error = asked(list).unwrap_err();
        assert_eq!(error.to_string(), format!("setting `among` {expected}"));
    }

    #[test]
    fn lists_that_make_no_sense_are_refused() {
        refused("", "is ``, must be one to 8 policies");
        refused(
            "deloc,delok",
            "is `deloc,delok`, but there is no policy `delok`; did you mean `deloc`?",
        );
        refused(
            "autopin",
            "is `autopin`, but `autopin` cannot be asked by `auto`; name policies that place",
        );
        let known = asked(" deloc, none,deloc").unwrap();
        assert_eq!(
            (known.asked.len(), known.asked[1].factory.name),
            (2, "none")
        );
    }
}
