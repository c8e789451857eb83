//! What is judged of a program, from window to window, and what it makes of the wishes of a policy.
//!
//! [`Judgement::decide`] knows no tables: what it needs of a thread or a page beside what the
//! policy saw comes with the wish ([`super::wishes`]). Its rooms: [`threads`], [`pages`], the
//! [`trial`] of a placement, what a policy last wanted and whether that stands ([`answer`]), how
//! fast the program gets on ([`pace`]), how often it began to do something else ([`era`]), whether
//! there is anything to do ([`rest`]), and what is left to the kernel ([`ally`]).

use std::collections::BTreeMap;
use std::time::Duration;

use topology::TaskKey;

use super::options::AttachOptions;
use super::orders::{PageGrant, TaskGrant};
use super::wishes::Wishes;
use crate::evidence::Evidence;
use crate::figures::rounded;
use crate::guard::TaskWish;
use crate::interval::{Change, Interval};
use crate::likeness::Said;
use crate::observation::Progress;
use crate::policy::{Plan, Program, Proposal, Reason, Veto};
use crate::pressure::Pressure;
use crate::published::Method;
use crate::time::Time;

pub(super) mod ally;
mod answer;
mod era;
mod pace;
mod pages;
pub(super) mod rest;
mod threads;
mod trial;

use ally::Ally;
use answer::Answer;
use era::Era;
use pace::Pace;
use rest::Ways;
use trial::{Measure, Trial, Verdict, measure};

/// What is judged of one program.
#[derive(Debug)]
pub(super) struct Judgement {
    regime: Regime,
    interval: Interval,
    pace: Pace,
    era: Era,
    ally: Ally,
    answer: Answer,
    /// How near memory was in the last judged window, and whether nothing was left to do.
    before: Ways,
    rests: bool,
    /// Placements that had to be put back, less those that proved right since.
    strikes: u32,
    /// Where the last judged window wanted tasks, those included that were there.
    planned: BTreeMap<TaskKey, usize>,
    /// Windows in a row that pages waited for threads.
    pages_waited: u32,
}

/// How the placement of threads stands.
///
/// ```text
///              SETTLED_MIN judged windows in which no thread moves
///   Starting ─────────────────────────────────────────────────────► Settled
///      │                                                             ▲ │  ▲
///      │ a thread moves          no worse than the one before        │ │  │
///      └───────────────► Trying ─────────────────────────────────────┘ │  │
///                          │ ▲          a thread moves                 │  │
///           worse: put back│ └─────────────────────────────────────────┘  │
///                          ▼                                              │
///                         Held ───────────────────────────────────────────┘
///                                the time is over, or another era begins
/// ```
///
/// A move that there is nothing to hold against leads to Starting.
#[derive(Debug)]
enum Regime {
    /// A new program, or threads that moved and cannot be tried, and so many judged windows without
    /// a move: what was placed moves again when two windows agree.
    Starting(u32),
    /// The last placement is on probation; else as above.
    Trying(Trial),
    /// When another era begins, one window is enough to move what was placed.
    Settled,
    /// The last placement had to be put back, and until then no thread moves.
    Held(Time),
}

/// What a decision keeps to.
#[derive(Debug)]
pub(super) struct Limits<'a> {
    pub now: Time,
    pub options: &'a AttachOptions,
    /// How busy memory is, where that is known.
    pub pressure: Option<&'a Pressure>,
    /// Enough samples stand behind the window, or the policy asks for none.
    pub evidence: bool,
    /// A decision could use more samples than the window has.
    pub more_tells: bool,
    /// See [`Judgement::has_news`].
    pub has_news: bool,
    /// Nodes that have memory and that the program may use.
    pub nodes_allowed: &'a [bool],
    /// Bytes that may still be filled on each node.
    pub room: Vec<u64>,
    /// Most pages that may go.
    pub page_moves_max: u64,
    /// Of these, pages that go aside and not nearer.
    pub aside_max: u64,
}

/// What was decided, before it is ordered.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(super) struct Decision {
    pub threads: Vec<TaskGrant>,
    pub pages: Vec<PageGrant>,
    /// Proposals that come to nothing, by number: those for threads, then those for pages.
    pub dropped: Vec<(usize, Veto)>,
    pub measure: Measure,
    /// Bytes of each node that pages go to.
    pub filled: Vec<u64>,
    /// Instructions per cycle in the window.
    pub ipc: Option<f64>,
    /// Enough samples stand behind the window.
    pub evidence: bool,
    /// Tasks go back to where they were.
    pub remedy: Option<Remedy>,
    pub undecided: bool,
    /// More than a few of all accesses are to pages that go.
    pub arriving: bool,
    /// See [`Change::Unsure`].
    pub unsure: bool,
    /// Pages that may go, and are too many for this window.
    pub pages_left: u64,
    /// How sure the thread moves are that were wanted.
    pub plan: Option<Evidence>,
    /// They could be chance, and more windows may tell.
    pub plan_is_open: bool,
}

impl Decision {
    /// Whether neither pages nor a plan that more windows may make sure are left.
    pub(super) const fn leaves_nothing(&self) -> bool {
        self.pages_left == 0 && !self.plan_is_open
    }
}

/// What came of a decision for threads when it was ordered.
#[derive(Debug, Default)]
pub(super) struct Effect {
    /// Some thread was bound.
    pub bound: bool,
    /// Some thread goes to another node.
    pub moved: bool,
    /// Where those were that go and of which that is known.
    pub old: BTreeMap<TaskKey, usize>,
}

/// Where tasks go back to, and why.
#[derive(Clone, Debug)]
pub(super) struct Remedy {
    wishes: Vec<TaskWish>,
    reason: Reason,
}

/// Holds that a program is left alone after threads were put back, unless it does something else
/// before, and twice as long after each time: the same plan would be found again. As many as
/// forgive a thread its going back and forth.
const REST_HOLDS: u32 = 16;
/// Judged windows in a row without a move of a thread from which a program that is not tried is
/// settled: as many as a trial takes.
const SETTLED_MIN: u32 = trial::WINDOWS;

impl Judgement {
    /// Nothing is judged yet; the program is expected to go on for so long as it does.
    pub(super) fn new(interval: Interval, goes_on: Duration) -> Self {
        Self {
            regime: Regime::Starting(0),
            interval,
            pace: Pace::default(),
            era: Era::new(goes_on),
            ally: Ally::default(),
            answer: Answer::default(),
            before: Ways::default(),
            rests: false,
            strikes: 0,
            planned: BTreeMap::new(),
            pages_waited: 0,
        }
    }

    /// How long windows are at present.
    pub(super) const fn interval(&self) -> Duration {
        self.interval.current()
    }

    pub(super) fn has_fixed_windows(&self) -> bool {
        self.interval.is_fixed()
    }

    /// Whether the program was at rest when the window began.
    pub(super) const fn rests(&self) -> bool {
        self.rests
    }

    /// Whether samples tell something else than when it was last judged.
    pub(super) fn has_news(
        &self,
        ways: Ways,
        pairs: impl Iterator<Item = Said> + Clone,
        sample: f64,
    ) -> bool {
        ways.are_farther_than(self.before) || era::are_other(pairs, sample)
    }

    /// Ends a judged window with such samples, after which something is to be done or nothing.
    pub(super) fn note_rest(&mut self, is_done: bool, ways: Ways) {
        // With a look without samples nothing can be compared.
        if ways.all > 0 {
            self.before = ways;
        }
        self.rests = is_done && matches!(self.regime, Regime::Settled);
    }

    /// Takes how far the program got.
    pub(super) const fn note_progress(&mut self, progress: Progress) {
        self.pace.add(progress);
    }

    /// How long the program is expected to go on as it does.
    pub(super) fn goes_on(&self) -> Duration {
        self.era.goes_on()
    }

    /// Compares what the program does in a window that is judged with what it did before; a sample
    /// counted so much. Tells whether another era begins.
    pub(super) fn note_era(&mut self, program: &Program<'_>, sample: f64, lasts: bool) -> bool {
        self.era.note(program, sample, lasts);
        self.era.begins()
    }

    /// Ends a window: says how fast the program got on and in which era it is, which the policy is told.
    pub(super) fn look_at(&mut self, program: &mut Program<'_>) {
        program.ipc = self.pace.close();
        program.era = self.era.number;
    }

    /// What the policy wanted of threads, if it need not be asked again.
    pub(super) fn answer(&self, program: &Program<'_>) -> Option<Plan> {
        let same = !self.era.is_unlike;
        same.then(|| self.answer.stands_for(program.tasks, program.capacity))?
    }

    /// Keeps the plan that was taken of those that the policy gave.
    pub(super) fn keep_answer(&mut self, program: &Program<'_>, plan: &[Proposal]) {
        self.answer.keep_for(program.tasks, program.capacity, plan);
    }

    /// Judges the placement that there is, and what the policy wants.
    pub(super) fn decide(
        &mut self,
        program: &Program<'_>,
        wishes: &Wishes<'_>,
        limits: &Limits<'_>,
    ) -> Decision {
        let nodes = program.nodes();
        let mut decision = Decision {
            measure: measure(program, &nodes),
            ipc: program.ipc,
            evidence: limits.evidence,
            ..Decision::default()
        };
        decision.remedy = self.judge_trial(program, &decision.measure, limits);
        self.judge_threads(program, wishes, limits, &mut decision);
        self.judge_pages(program, wishes, limits, &mut decision);
        decision
    }

    /// The nodes to put tasks back on when the last placement was a mistake.
    fn judge_trial(
        &mut self,
        program: &Program<'_>,
        measured: &Measure,
        limits: &Limits<'_>,
    ) -> Option<Remedy> {
        let Regime::Trying(trial) = &mut self.regime else {
            return None;
        };
        if !limits.evidence {
            return None;
        }
        trial.forget(program.tasks.iter().map(|task| task.key));
        let mut old = program.nodes();
        let mut wishes = Vec::new();
        for (position, task) in program.tasks.iter().enumerate() {
            let before = trial.old.get(&task.key);
            if let Some(&node) = before.filter(|node| old[position] != Some(**node)) {
                old[position] = Some(node);
                wishes.push((position, node));
            }
        }
        let before = trial.pace;
        let reason = match trial.judge(measured, &measure(program, &old), program.ipc) {
            Verdict::Wait => return None,
            Verdict::Keep => {
                self.regime = Regime::Settled;
                self.strikes = self.strikes.saturating_sub(1);
                return None;
            }
            Verdict::Revert => Reason::Revert,
            Verdict::Slower => match (before, program.ipc) {
                (Some(before), Some(ipc)) => Reason::Slower {
                    before_milli: milli(before.ipc),
                    now_milli: milli(ipc),
                },
                _ => Reason::Revert,
            },
        };
        let holds = REST_HOLDS << self.strikes.min(10);
        let rest = limits.options.hold.saturating_mul(holds);
        self.regime = Regime::Held(limits.now.after(rest));
        self.strikes += 1;
        self.pace.begin_anew();
        Some(Remedy { wishes, reason })
    }

    /// Takes what came of a decision, and tells what that means for the length of windows.
    pub(super) fn note_effect(
        &mut self,
        options: &AttachOptions,
        decision: &Decision,
        effect: Effect,
        confident: bool,
    ) -> Change {
        let Effect { bound, moved, old } = effect;
        if let Regime::Trying(trial) = &mut self.regime
            && decision.arriving
        {
            trial.postpone();
        }
        let holds = options.require_gain
            && options.method == Method::Ours
            && confident
            && !moved
            && matches!(self.regime, Regime::Settled)
            && !self.era.is_unlike;
        self.answer.pass(holds);
        let tries = options.require_gain && decision.remedy.is_none() && !old.is_empty();
        match &mut self.regime {
            Regime::Held(_) => {}
            Regime::Trying(trial) if tries => trial.extend(old),
            Regime::Trying(_) => {}
            regime if moved => {
                let trial = || Trial::new(decision.measure, self.pace.before(), old);
                let trial = tries.then(trial).flatten();
                *regime = trial.map_or(Regime::Starting(0), Regime::Trying);
            }
            Regime::Starting(still) if confident => {
                *still += 1;
                if *still >= SETTLED_MIN {
                    self.regime = Regime::Settled;
                }
            }
            Regime::Starting(_) | Regime::Settled => {}
        }
        if tries {
            self.pace.begin_anew();
        }
        if options.method == Method::Published {
            // The papers ask whether the mapping that was worked out is another than the one
            // before.
            return if bound { Change::Changed } else { Change::Same };
        }
        match (moved, self.era.is_unlike) {
            (true, true) => Change::Anew,
            (true, false) => Change::Changed,
            // They do not tell either whether the program does something else.
            (false, _) if decision.unsure => Change::Unsure,
            (false, true) if decision.undecided => Change::Anew,
            _ if decision.undecided || decision.arriving => Change::Undecided,
            _ => Change::Same,
        }
    }

    /// How long the next window is after one that lasted so long.
    pub(super) fn next_window(&mut self, change: Change, lasted: Duration) -> Duration {
        self.era.pass(lasted);
        self.interval.next(change, lasted)
    }

    /// Makes it no longer than this, as far as the law allows.
    pub(super) fn shorten_window(&mut self, most: Duration) -> Duration {
        self.interval.shorten(most)
    }
}

pub(super) fn milli(figure: f64) -> u32 {
    rounded(figure * 1000.0)
}
