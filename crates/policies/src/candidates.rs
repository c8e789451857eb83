//! What other policies would do: candidates for those who choose among them.

use std::cmp::Reverse;

use numad_core::cost::MachineModel;
use numad_core::{
    CommMatrix, Fate, Page, Policy, Program, Proposal, Reason, SettingKind, SettingSpec,
    SettingValue, Settings, SettingsError, Task, Time,
};

use topology::TaskKey;

use crate::data_mapping;
use crate::forecast::{Forecast, counted_once};
use crate::gather;
use crate::seats::Seats;

/// Who is asked, best guess first: where nothing can be foretold the first one decides.
pub(crate) const AMONG: SettingSpec = SettingSpec {
    name: "among",
    kind: SettingKind::Text {
        default: "deloc,locality,rclb,balance,scatter",
    },
    help: "The policies whose plans are considered, with commas between.",
};

/// Policies that may be asked at once.
const MOST: usize = 8;

/// The policies that are asked.
#[derive(Debug)]
pub(crate) struct Candidates {
    asked: Vec<Asked>,
}

#[derive(Debug)]
struct Asked {
    name: &'static str,
    /// It goes by the order of tasks.
    by_order: bool,
    policy: Box<dyn Policy>,
}

/// What one of them wants.
#[derive(Clone, Debug)]
pub(crate) struct Wish {
    /// Its place in the list.
    pub(crate) asked: usize,
    pub(crate) proposals: Vec<Proposal>,
    /// Where every task would be.
    pub(crate) nodes: Vec<Option<usize>>,
}

impl Candidates {
    /// The policies that a setting names, at their defaults, but for whether pages follow: that is as the
    /// one who chooses has it, who moves them himself.
    pub(crate) fn new(
        list: &str,
        seed: u64,
        (chooser, pages): (&'static str, bool),
    ) -> Result<Self, SettingsError> {
        let refuse = |reason: String| SettingsError {
            name: AMONG.name.to_owned(),
            reason,
        };
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
            if asked.iter().any(|known| known.name == factory.name()) {
                continue;
            }
            let specs = factory.settings();
            let known = specs.iter().any(|spec| spec.name == gather::PAGES.name);
            let follow = (gather::PAGES.name.to_owned(), SettingValue::Bool(pages));
            let settings = Settings::with(specs, known.then_some(follow))?;
            asked.push(Asked {
                name: factory.name(),
                by_order: factory.goes_by_order(),
                policy: factory.build(&settings, seed)?,
            });
        }
        if asked.is_empty() || asked.len() > MOST {
            return Err(refuse(format!(
                "is `{list}`, must be one to {MOST} policies"
            )));
        }
        Ok(Self { asked })
    }

    /// What everyone wants now.
    pub(crate) fn wishes(&mut self, now: Time, program: &Program<'_>) -> Vec<Wish> {
        let asked = self.asked.iter_mut().enumerate();
        let wish = |(index, asked): (usize, &mut Asked)| {
            let mut proposals = Vec::new();
            if asked.by_order {
                ask_in_order(&mut *asked.policy, now, program, &mut proposals);
            } else {
                asked.policy.propose(now, program, &mut proposals);
            }
            let mut nodes: Vec<Option<usize>> =
                program.tasks.iter().map(|task| task.node).collect();
            for proposal in &proposals {
                if let Proposal::PlaceTask { task, node, .. } = proposal {
                    nodes[*task] = Some(*node);
                }
            }
            Wish {
                asked: index,
                proposals,
                nodes,
            }
        };
        asked.map(wish).collect()
    }

    /// Tells one of them what became of a proposal.
    pub(crate) fn note_fate(&mut self, asked: usize, now: Time, proposal: &Proposal, fate: Fate) {
        self.asked[asked].policy.on_fate(now, proposal, fate);
    }
}

/// Asks a policy that goes by the order of tasks. For a choice by figures the order in which they happen to be
/// listed should not matter, so they are listed by what they ask of memory, most first, then by what they
/// say: dealt out in turn they then load nodes evenly. Such a policy looks at nothing else.
fn ask_in_order(
    policy: &mut dyn Policy,
    now: Time,
    program: &Program<'_>,
    out: &mut Vec<Proposal>,
) {
    let mut asked = vec![0_u64; program.tasks.len()];
    for accessor in program.pages.iter().flat_map(Page::accessors) {
        if let Some(sum) = asked.get_mut(accessor.task as usize) {
            *sum += u64::from(accessor.weight);
        }
    }
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
    policy.propose(now, &listed, out);
    for proposal in out {
        if let Proposal::PlaceTask { task, .. } = proposal {
            *task = order[*task];
        }
    }
}

/// How many tasks have no place of their own when they are on these nodes.
pub(crate) fn standing(program: &Program<'_>, nodes: &[Option<usize>]) -> usize {
    let mut free = program.capacity.to_vec();
    let mut seated = 0;
    for node in nodes.iter().flatten() {
        if let Some(free) = free.get_mut(*node).filter(|free| **free > 0) {
            *free -= 1;
            seated += 1;
        }
    }
    nodes.iter().flatten().count() - seated
}

/// The wish that leaves the fewest without a place and that of those the model finds best, if within the horizon it
/// saves more than it costs and at least this share of the time; none if staying is as good. Of a machine that is too
/// large to ask about the first one decides, also that all stay: what the others want nobody could weigh.
pub(crate) fn choose(
    program: &Program<'_>,
    wishes: &[Wish],
    gain_min: f64,
    pages_ratio: Option<f64>,
) -> Option<usize> {
    let now: Vec<Option<usize>> = program.tasks.iter().map(|task| task.node).collect();
    let model = MachineModel::new(program.topology);
    let live = counted_once(program);
    let program = &Program {
        live: &live,
        ..*program
    };
    let Some(forecast) = Forecast::new(&model, program, pages_ratio) else {
        let first = wishes.first().filter(|wish| wish.nodes != now);
        return first.map(|wish| wish.asked);
    };
    // Of one whose node is not known it is not known either how long it takes now.
    let known_ns = |nodes: &[Option<usize>]| -> f64 {
        let times = forecast.of(nodes).task_time_ns.into_iter().zip(&now);
        times
            .filter(|(_, node)| node.is_some())
            .map(|(time, _)| time)
            .sum()
    };
    let (stay, pages_now) = (known_ns(&now), forecast.pages_moved(&now));
    let window_ns = program.window.as_nanos() as f64;
    let windows = (program.prices.horizon_ns / window_ns.max(1.0)).max(1.0);
    let mut best = (standing(program, &now), stay * (1.0 - gain_min), None);
    // Policies often agree, and the model is dear: of those who do the first speaks for all.
    let is_first = |&(at, wish): &(usize, &Wish)| {
        let before = &wishes[..at];
        wish.nodes != now && before.iter().all(|other| other.nodes != wish.nodes)
    };
    for (_, wish) in wishes.iter().enumerate().filter(is_first) {
        let time = known_ns(&wish.nodes);
        let moved = wish
            .nodes
            .iter()
            .zip(&now)
            .filter(|(to, from)| to != from)
            .count();
        let pages = forecast.pages_moved(&wish.nodes).saturating_sub(pages_now);
        let price =
            moved as f64 * program.prices.task_move_ns + pages as f64 * program.prices.page_move_ns;
        let standing = standing(program, &wish.nodes);
        let pays = time < best.1 && (stay - time) * windows > price;
        if standing < best.0 || (standing == best.0 && pays) {
            best = (standing, time, Some(wish.asked));
        }
    }
    best.2
}

/// How much more often than on average a page must be used from a node to go there, by the settings of
/// who has such.
pub(crate) fn pages_ratio(settings: &Settings) -> Option<f64> {
    let follow = settings.bool(gather::PAGES.name);
    follow.then(|| settings.float(data_mapping::RATIO.name))
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
    /// Those of a wish.
    pub(crate) fn of(program: &Program<'_>, wish: &Wish) -> Self {
        let mut places = vec![None; program.tasks.len()];
        for proposal in &wish.proposals {
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
            let node = task.node.filter(|&node| seats.takes(node, task))?;
            seats.take(node);
            Some((node, Reason::Stay))
        };
        Self(program.tasks.iter().map(stay).collect())
    }

    /// Whether there is still a place for everyone, with the others where they are now.
    pub(crate) fn fit(&self, program: &Program<'_>) -> bool {
        let others = (0..self.0.len()).filter(|&task| self.0[task].is_none());
        let mut seats = Seats::without(program, others);
        self.0.iter().zip(program.tasks).all(|(place, task)| {
            let Some((node, _)) = place else {
                return true;
            };
            let fits = seats.takes(*node, task);
            if fits {
                seats.take(*node);
            }
            fits
        })
    }

    /// Whether everyone is there.
    pub(crate) fn are_taken(&self, program: &Program<'_>) -> bool {
        let both = self.0.iter().zip(program.tasks);
        both.into_iter().all(|(place, task)| match place {
            Some((node, _)) => task.node == Some(*node),
            None => true,
        })
    }

    /// Appends them.
    pub(crate) fn propose(&self, out: &mut Vec<Proposal>) {
        for (task, place) in self.0.iter().enumerate() {
            if let Some((node, reason)) = place {
                out.push(Proposal::PlaceTask {
                    task,
                    node: *node,
                    reason: reason.clone(),
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn refused(list: &str, expected: &str) {
        let error = Candidates::new(list, 1, ("auto", true)).unwrap_err();
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
        let known = Candidates::new(" deloc, none,deloc", 1, ("auto", true)).unwrap();
        assert_eq!((known.asked.len(), known.asked[1].name), (2, "none"));
    }
}
