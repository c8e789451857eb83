//! One attached program, as the steward keeps it beside the engine.

use std::collections::{BTreeMap, BTreeSet};

use control::experiment::BALANCING;
use control::rows::{External, Ledger, Moving};
use numad_core::{
    Action, Event, EventKind, Host, ObservedTask, Outcome, Recorder, Refusal, Time, WindowSummary,
};
use sampler::Lively;
use topology::{CpuSet, Pid, TaskKey};

use super::MatrixDraft;
use super::history::{History, Tally};
use super::ranks::Ranks;
use super::seams::Hand;
use crate::external;
use crate::peer::Credentials;

/// See the module.
#[derive(Debug)]
pub(super) struct Program {
    /// Name of the first that was named.
    pub(super) command: String,
    /// Its user.
    pub(super) uid: u32,
    /// Who may look into all of them; none when nobody but root may.
    pub(super) owner: Option<Credentials>,
    /// Who attached it, and may look into every process of it; none when an admin did.
    pub(super) confined_to: Option<Credentials>,
    pub(super) policy: String,
    pub(super) settings: BTreeMap<String, String>,
    /// Why the policy cannot do here what it is for.
    pub(super) in_vain: Option<String>,
    /// Pages that the kernel had moved at its attach, of all programs.
    pub(super) kernel_before: Option<u64>,
    /// How its external policy does.
    external: Option<external::Tally>,
    /// What that did wrong last, as it was told.
    fault_told: Option<String>,
    /// Takes the actions of a dry run.
    pub(super) recorder: Option<Recorder>,
    pub(super) since: Time,
    /// Threads that were seen last, and when its window was judged last.
    pub(super) threads: usize,
    pub(super) judged: Option<Time>,
    /// When it is detached by itself.
    pub(super) until: Option<Time>,
    /// An experiment attached it.
    pub(super) in_experiment: bool,
    /// Share of accesses that were local in the first window that told, in thousandths.
    local_first: Option<u32>,
    local_last: Option<u32>,
    /// Who shared with whom before the window that is judged now: a program's last window finds no
    /// thread of it.
    pub(super) matrix: Option<MatrixDraft>,
    pub(super) windows: u64,
    pub(super) samples: u64,
    pub(super) lost: u64,
    /// The last window.
    pub(super) window: WindowSummary,
    pub(super) history: History,
    ledger: Ledger,
    plan: Option<Plan>,
    bound: BTreeSet<TaskKey>,
    /// Its ranks of MPI jobs, and who starts more of them.
    pub(super) ranks: Ranks,
    /// What the last window found worth changing.
    lively: Lively,
    /// Affinity that tasks would have, in a dry run.
    pretended: BTreeMap<TaskKey, CpuSet>,
}

/// Memory that takes more than one window to move.
#[derive(Clone, Copy, Debug)]
struct Plan {
    since: Time,
    /// What had been moved of the program by then.
    bytes_before: u64,
    bytes_left: u64,
}

/// What is said where undo may not know of all processes.
pub(super) const MISSED: &str = "processes that it made may have been missed, since records of them were lost; such \
                                 keep numad's affinity until they end";

/// What an attachment begins with.
#[derive(Debug)]
pub(super) struct Beginning {
    pub(super) command: String,
    pub(super) uid: u32,
    pub(super) owner: Option<Credentials>,
    pub(super) confined_to: Option<Credentials>,
    pub(super) policy: String,
    pub(super) settings: BTreeMap<String, String>,
    pub(super) external: Option<external::Tally>,
    pub(super) dry_run: bool,
    pub(super) since: Time,
    pub(super) until: Option<Time>,
    pub(super) in_experiment: bool,
}

/// Whether a policy of this name changes anything.
pub(super) fn acts(policy: &str, dry_run: bool) -> bool {
    policy != "none" && !dry_run
}

impl Program {
    /// Whether its policy changes anything.
    pub(super) fn acts(&self) -> bool {
        acts(&self.policy, self.recorder.is_some())
    }

    /// Whether the kernel is to balance because of it: as was asked for at its attach, else as is
    /// `usual`.
    pub(super) fn wants_balancing(&self, usual: bool) -> bool {
        let asked = self.settings.get(BALANCING);
        asked.map_or(usual && self.acts(), |how| how == "cooperate") && self.recorder.is_none()
    }

    pub(super) fn new(beginning: Beginning) -> Self {
        let Beginning {
            command,
            uid,
            owner,
            confined_to,
            policy,
            settings,
            external,
            dry_run,
            since,
            until,
            in_experiment,
        } = beginning;
        Self {
            command,
            uid,
            owner,
            confined_to,
            policy,
            settings,
            external,
            fault_told: None,
            in_vain: None,
            kernel_before: None,
            recorder: dry_run.then_some(Recorder),
            since,
            threads: 0,
            judged: None,
            until,
            in_experiment,
            local_first: None,
            local_last: None,
            matrix: None,
            windows: 0,
            samples: 0,
            lost: 0,
            window: WindowSummary::default(),
            history: History::default(),
            ledger: Ledger::default(),
            plan: None,
            bound: BTreeSet::new(),
            ranks: Ranks::default(),
            lively: Lively::default(),
            pretended: BTreeMap::new(),
        }
    }

    /// Learns from a look who is alive, and the name of the process that was named first: what `numadctl run` starts
    /// gets its own after the attach.
    pub(super) fn note_processes(
        &mut self,
        first: Option<Pid>,
        tasks: &[ObservedTask],
        alive: &BTreeSet<Pid>,
    ) {
        self.threads = tasks.len();
        self.ranks.retain(alive);
        let named = |task: &&ObservedTask| Some(task.key.tid.0) == first.map(|pid| pid.0);
        if let Some(task) = tasks.iter().find(named) {
            self.command.clone_from(&task.name);
        }
    }

    /// A process takes no further part, and is not to be looked at any more.
    pub(super) fn part(&mut self, now: Time, pid: Pid, why: String) {
        self.ranks.remove(pid);
        self.history.note(self.since, now, "left", why);
    }

    /// Undo may not know of all its processes.
    pub(super) fn missed_children(&mut self, now: Time) {
        self.history
            .note(self.since, now, "missed", MISSED.to_owned());
    }

    /// What was done to it, with only those bound threads counted that are alive.
    pub(super) fn ledger(&self, alive: &BTreeSet<TaskKey>) -> Ledger {
        let bound = self.bound.intersection(alive).count();
        Ledger {
            threads_bound: u32::try_from(bound).unwrap_or(u32::MAX),
            ..self.ledger
        }
    }

    /// Takes an event, and gives it back as a line for the log.
    pub(super) fn take(&mut self, event: &Event, page_bytes: u64) -> String {
        self.lively.note(&event.kind);
        match &event.kind {
            EventKind::Window(summary) => {
                self.windows += 1;
                self.samples += summary.samples;
                self.lost += summary.lost;
                self.local_last = summary.local_permille.or(self.local_last);
                self.local_first = self.local_first.or(summary.local_permille);
                self.plan_on(event.time, summary, page_bytes);
                self.window = summary.clone();
                self.tell_fault(event.time);
            }
            EventKind::Ended { action, outcome } => self.book(action, outcome, page_bytes),
            EventKind::HandsOff { task } => {
                self.bound.remove(task);
            }
            EventKind::Ordered(_)
            | EventKind::TaskDropped { .. }
            | EventKind::PagesDropped { .. }
            | EventKind::ProgramEnded => {}
        }
        self.history.take(self.since, event)
    }

    /// Notes how much a window left to be moved. One that had too little to go by says nothing of
    /// that.
    fn plan_on(&mut self, now: Time, summary: &WindowSummary, page_bytes: u64) {
        let left = summary.pages_left.saturating_mul(page_bytes);
        match &mut self.plan {
            _ if !summary.confident => {}
            _ if left == 0 => self.plan = None,
            Some(plan) => plan.bytes_left = left,
            None => {
                self.plan = Some(Plan {
                    since: now,
                    bytes_before: self.ledger.bytes_moved,
                    bytes_left: left,
                });
            }
        }
    }

    /// How far memory is that goes on moving from window to window.
    pub(super) fn moving(&self, now: Time) -> Option<Moving> {
        let plan = self.plan?;
        let bytes_moved = self.ledger.bytes_moved - plan.bytes_before;
        let passed_s = now.since(plan.since).as_secs_f64();
        let seconds_left = passed_s * plan.bytes_left as f64 / bytes_moved as f64;
        Some(Moving {
            bytes_moved,
            bytes_left: plan.bytes_left,
            seconds_left: (bytes_moved > 0).then_some(seconds_left),
        })
    }

    /// How its external policy does; none for one of our own.
    pub(super) fn external(&self) -> Option<External> {
        Some(self.external.as_ref()?.row())
    }

    /// Notes what its external policy did wrong since the last window.
    fn tell_fault(&mut self, now: Time) {
        let Some(row) = self.external() else {
            return;
        };
        let failed = row.crashes + row.garbage + row.silences;
        let told = format!("{failed} {}", row.state);
        if failed > 0 && self.fault_told.as_ref() != Some(&told) {
            let fault = row.last_fault.unwrap_or_default();
            let text = format!("the external policy {}: {fault}", row.state);
            self.history.note(self.since, now, "policy", text);
            self.fault_told = Some(told);
        }
    }

    /// Share of accesses that were local in the first and in the last window that told.
    pub(super) fn local_sights(&self) -> (Option<f64>, Option<f64>) {
        let share = |permille: Option<u32>| permille.map(|it| f64::from(it) / 1000.0);
        (share(self.local_first), share(self.local_last))
    }

    /// Whether something was worth changing since this was asked the last time.
    pub(super) fn take_lively(&mut self) -> bool {
        self.lively.take()
    }

    fn book(&mut self, action: &Action, outcome: &Outcome, page_bytes: u64) {
        if self.recorder.is_some() {
            // Nothing happened, so nothing is on its account.
            return;
        }
        let (moves, tally, spent_ns) = tally(action, outcome);
        if let (Action::Bind { task, .. }, 1..) = (action, moves) {
            self.bound.insert(*task);
        }
        let ledger = &mut self.ledger;
        ledger.thread_moves += moves;
        ledger.pages_moved += tally.moved;
        ledger.bytes_moved += tally.moved.saturating_mul(page_bytes);
        if let Action::MovePages { .. } = action {
            ledger.pages_refused += tally.refused.values().sum::<u64>();
        }
        ledger.spent_ns += spent_ns;
    }

    /// Carries out actions, or answers as if they were if this is a dry run.
    pub(super) fn perform_all(&mut self, hand: &mut dyn Hand, actions: &[Action]) -> Vec<Outcome> {
        let Some(recorder) = &mut self.recorder else {
            let outcomes = hand.perform_all(actions);
            self.ledger.pause_max_ns = self.ledger.pause_max_ns.max(hand.take_pause_max_ns());
            return outcomes;
        };
        for action in actions {
            if let Action::Bind { task, cpus, .. } = action {
                self.pretended.insert(*task, cpus.clone());
            }
        }
        recorder.perform_all(actions)
    }

    /// In a dry run, shows the engine the affinity that tasks would have. With their real one it
    /// would take each for changed by someone else, and never touch it again.
    pub(super) fn pretend(&mut self, tasks: &mut [ObservedTask]) {
        if self.pretended.is_empty() {
            return;
        }
        for task in &mut *tasks {
            if let Some(cpus) = self.pretended.get(&task.key) {
                task.affinity = cpus.clone();
            }
        }
        let alive: BTreeSet<TaskKey> = tasks.iter().map(|task| task.key).collect();
        self.pretended.retain(|task, _| alive.contains(task));
    }
}

/// Threads moved, what came of pages (or of the one thread), and the time it took.
pub(super) fn tally(action: &Action, outcome: &Outcome) -> (u64, Tally, u64) {
    match (action, outcome) {
        (Action::Bind { .. }, Outcome::Bound) => (1, Tally::default(), 0),
        (
            _,
            Outcome::Moved {
                pages, spent_ns, ..
            },
        ) => (0, Tally::of(pages), *spent_ns),
        (Action::MovePages { pages, .. }, Outcome::Refused(why)) => {
            (0, refused(*why, pages.len()), 0)
        }
        (Action::Bind { .. }, Outcome::Refused(why)) => (0, refused(*why, 1), 0),
        (Action::MovePages { .. }, Outcome::Bound) => (0, Tally::default(), 0),
    }
}

fn refused(why: Refusal, count: usize) -> Tally {
    Tally {
        refused: BTreeMap::from([(why, u64::try_from(count).unwrap_or(u64::MAX))]),
        ..Tally::default()
    }
}

#[cfg(test)]
mod tests {
    use numad_core::{AttachmentId, PageOutcome, Reach, Reason, SpaceId};
    use topology::NodeId;

    use super::*;

    fn program() -> Program {
        Program::new(Beginning {
            command: "solver".to_owned(),
            uid: 7,
            owner: Some(Credentials { uid: 7, gid: 7 }),
            confined_to: None,
            policy: "deloc".to_owned(),
            settings: BTreeMap::new(),
            external: None,
            dry_run: false,
            since: Time(0),
            until: None,
            in_experiment: false,
        })
    }

    #[test]
    fn what_takes_several_windows_tells_how_far_it_is() {
        let mut program = program();
        let mut take = |at_s: u64, kind: EventKind| {
            let event = Event {
                time: Time(at_s * 1_000_000_000),
                attachment: AttachmentId(1),
                kind,
            };
            program.take(&event, 4096);
            program.moving(Time(at_s * 1_000_000_000))
        };
        let window = |pages_left, confident| {
            EventKind::Window(WindowSummary {
                pages_left,
                confident,
                ..WindowSummary::default()
            })
        };
        let moved = |count: u64| {
            let EventKind::Ordered(action) = pages(count) else {
                unreachable!("pages are ordered")
            };
            let outcome = Outcome::Moved {
                pages: (0..count).map(|_| PageOutcome::On(NodeId(0))).collect(),
                spent_ns: 1,
                took_ns: 1,
            };
            EventKind::Ended { action, outcome }
        };
        // Bytes moved and left, in pages, and the seconds that are left.
        let shown = |moving: Option<Moving>| {
            let moving = moving?;
            let pages = (moving.bytes_moved / 4096, moving.bytes_left / 4096);
            Some((pages, moving.seconds_left))
        };
        assert_eq!(shown(take(1, moved(50))), None);
        assert_eq!(shown(take(2, window(0, true))), None);
        assert_eq!(shown(take(4, window(300, true))), Some(((0, 300), None)));
        assert_eq!(shown(take(6, moved(100))), Some(((100, 300), Some(6.0))));
        // Too few samples: nothing is known of what is left.
        assert_eq!(
            shown(take(8, window(0, false))),
            Some(((100, 300), Some(12.0)))
        );
        assert_eq!(
            shown(take(8, window(200, true))),
            Some(((100, 200), Some(8.0)))
        );
        // It does not pay any more, or all is where it should be.
        assert_eq!(shown(take(9, window(0, true))), None);
    }

    fn pages(count: u64) -> EventKind {
        EventKind::Ordered(Action::MovePages {
            attachment: AttachmentId(1),
            pid: Pid(100),
            space: SpaceId(0),
            pages: (0..count).map(|page| page * 4096).collect(),
            node: NodeId(0),
            reason: Reason::Order,
            evidence: None,
            reach: Reach::Alone,
            object: None,
        })
    }
}
