//! What happened to one program, as sentences: bounded, and readable even when a window dropped
//! thousands of proposals.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;

use control::rows::EventRow;
use numad_core::{
    Action, Event, EventKind, Evidence, NoRoom, Outcome, PageOutcome, Reach, Refusal, Time, Veto,
    WindowSummary,
};

/// Rows kept of one program; about 100 KiB.
pub const HISTORY_MAX: usize = 512;

/// Dropped thread proposals told one by one between two windows; more are counted.
const DROPPED_TOLD_MAX: usize = 16;

/// The last rows of one program.
#[derive(Debug, Default)]
pub(super) struct History {
    rows: VecDeque<EventRow>,
    told: usize,
    counted: BTreeMap<Veto, u64>,
}

impl History {
    /// Takes what happened to a program that was attached at `since`; gives it back as one line.
    pub(super) fn take(&mut self, since: Time, event: &Event) -> String {
        let row = row(since, event);
        let line = format!("{}: {}", row.kind, row.text);
        if let EventKind::TaskDropped { veto, .. } = &event.kind {
            if *veto == Veto::AlreadyThere || self.told >= DROPPED_TOLD_MAX {
                *self.counted.entry(*veto).or_default() += 1;
                return line;
            }
            self.told += 1;
        }
        if matches!(event.kind, EventKind::Window(_)) {
            self.close_window(event.time.since(since).as_secs_f64());
        }
        self.push(row);
        line
    }

    /// Takes what the engine does not tell.
    pub(super) fn note(&mut self, since: Time, now: Time, kind: &str, text: String) {
        self.push(EventRow {
            at_s: now.since(since).as_secs_f64(),
            kind: kind.to_owned(),
            tid: None,
            text,
        });
    }

    /// The last rows, oldest first.
    pub(super) fn last(&self, count: usize) -> Vec<EventRow> {
        let skipped = self.rows.len().saturating_sub(count);
        self.rows.iter().skip(skipped).cloned().collect()
    }

    fn close_window(&mut self, at_s: f64) {
        self.told = 0;
        for (veto, count) in std::mem::take(&mut self.counted) {
            self.push(EventRow {
                at_s,
                kind: "dropped".to_owned(),
                tid: None,
                text: format!("{}: {veto}", many(count, "more thread proposal")),
            });
        }
    }

    fn push(&mut self, row: EventRow) {
        if self.rows.len() >= HISTORY_MAX {
            self.rows.pop_front();
        }
        self.rows.push_back(row);
    }
}

/// One event as a row.
fn row(since: Time, event: &Event) -> EventRow {
    let (kind, tid, text) = match &event.kind {
        EventKind::Window(summary) => ("window", None, window_text(summary)),
        EventKind::TaskDropped {
            task,
            node,
            reason,
            veto,
        } => (
            "dropped",
            Some(task.tid.0),
            format!(
                "thread {} to node {node}: {veto}; wanted because: {reason}",
                task.tid
            ),
        ),
        EventKind::PagesDropped { count, veto, .. } => {
            let proposals = many(*count, "page proposal");
            ("dropped", None, format!("{proposals}: {veto}"))
        }
        EventKind::Ordered(action) => ("ordered", thread_of(action), order_text(action)),
        EventKind::Ended { action, outcome } => {
            let (kind, text) = outcome_text(action, outcome);
            (kind, thread_of(action), text)
        }
        EventKind::ProgramEnded => ("ended", None, "the last thread is gone".to_owned()),
        EventKind::HandsOff { task } => (
            "hands_off",
            Some(task.tid.0),
            format!(
                "thread {}: someone else changed its affinity; left alone from now on",
                task.tid
            ),
        ),
    };
    EventRow {
        at_s: event.time.since(since).as_secs_f64(),
        kind: kind.to_owned(),
        tid,
        text,
    }
}

fn window_text(window: &WindowSummary) -> String {
    let mut text = format!(
        "{} ms: {} of {} on {}; {}, {}; next {} ms",
        window.window_ms,
        many(window.samples, "sample"),
        many(window.tasks, "thread"),
        many(window.pages, "page"),
        many(window.proposals, "proposal"),
        many(window.actions, "action"),
        window.next_ms
    );
    if let Some(distance) = window.distance_centi {
        text += &format!("; distance {}.{:02}", distance / 100, distance % 100);
    }
    if let Some(local) = window.local_permille {
        text += &format!("; {}.{} % local", local / 10, local % 10);
    }
    if let Some(ipc) = window.ipc_milli {
        text += &format!("; IPC {}.{:02}", ipc / 1000, ipc % 1000 / 10);
    }
    if window.lost > 0 {
        text += &format!("; {} lost", many(window.lost, "sample"));
    }
    if window.lost_permille > 0 {
        text += &format!(" ({})", percent(window.lost_permille));
    }
    if !window.confident {
        let (samples, seen) = (window.samples_judged, percent(window.coverage_permille));
        text += &format!("; not sure: {samples} samples to judge by, {seen} of busy time seen");
    }
    if let Some(plan) = &window.plan {
        text += &format!("; moves of threads: {}", sureness(plan));
        if plan.convinces() {
            text += ", sure";
        } else {
            text += &format!(
                ", chance explains {:.0} %",
                (plan.chance * 100.0).min(100.0)
            );
        }
    }
    if window.pages_dropped > 0 {
        text += &format!(
            "; {} forgotten for lack of room",
            many(window.pages_dropped, "page")
        );
    }
    text + &left_out(window)
}

/// What of a window was left out, and for want of room.
fn left_out(window: &WindowSummary) -> String {
    let mut text = String::new();
    if window.aside > 0 {
        text += &format!("; {} left aside", many(window.aside, "sample"));
    }
    if window.nowhere > 0 {
        text += &format!("; {} not in memory", many(window.nowhere, "page"));
    }
    let NoRoom {
        processes,
        mappings,
        objects,
        talk,
        moves,
    } = window.no_room;
    let no_room = [
        (processes, "process"),
        (mappings, "mapping"),
        (objects, "shared object"),
        (talk, "exchange"),
        (moves, "move"),
    ];
    let no_room: Vec<String> = no_room
        .into_iter()
        .filter(|&(count, _)| count > 0)
        .map(|(count, noun)| many(count, noun))
        .collect();
    if !no_room.is_empty() {
        text += &format!("; no room for {}", no_room.join(", "));
    }
    text
}

/// A count with its noun: `1 thread`, `2 threads`, `2 processes`.
pub(super) fn many(number: impl fmt::Display, noun: &str) -> String {
    let number = number.to_string();
    let plural = match noun {
        _ if number == "1" => "",
        "process" => "es",
        _ => "s",
    };
    format!("{number} {noun}{plural}")
}

fn percent(permille: u32) -> String {
    format!("{}.{} %", permille / 10, permille % 10)
}

/// How sure a move is, as in `97 % of 812 samples nearer (95 to 98 %)`.
fn sureness(evidence: &Evidence) -> String {
    let percent = |share: f64| share * 100.0;
    format!(
        "{:.0} % of {:.0} samples nearer ({:.0} to {:.0} %)",
        percent(evidence.share),
        evidence.samples,
        percent(evidence.low),
        percent(evidence.high)
    )
}

/// The same behind a sentence; nothing where there is none.
fn and_how_sure(evidence: Option<&Evidence>) -> String {
    evidence.map_or_else(String::new, |evidence| format!("; {}", sureness(evidence)))
}

fn thread_of(action: &Action) -> Option<u32> {
    match action {
        Action::Bind { task, .. } => Some(task.tid.0),
        Action::MovePages { .. } => None,
    }
}

fn order_text(action: &Action) -> String {
    match action {
        Action::Bind {
            task,
            node,
            cpus,
            reason,
            evidence,
            ..
        } => format!(
            "thread {} to node {node} (cpus {cpus}): {reason}{}",
            task.tid,
            and_how_sure(evidence.as_ref())
        ),
        Action::MovePages {
            pid,
            pages,
            node,
            reason,
            evidence,
            reach,
            ..
        } => format!(
            "{} {}pages of process {pid} to node {node}: {reason}{}",
            pages.len(),
            match reach {
                Reach::Alone => "",
                Reach::Program => "shared ",
            },
            and_how_sure(evidence.as_ref())
        ),
    }
}

fn outcome_text(action: &Action, outcome: &Outcome) -> (&'static str, String) {
    match (action, outcome) {
        (Action::Bind { task, node, .. }, Outcome::Bound | Outcome::Moved { .. }) => {
            ("done", format!("thread {} is on node {node}", task.tid))
        }
        (Action::Bind { task, node, .. }, Outcome::Refused(why)) => (
            "failed",
            format!("thread {} not to node {node}: {why}", task.tid),
        ),
        (
            Action::MovePages { node, pages, .. },
            Outcome::Moved {
                pages: fates,
                spent_ns,
                ..
            },
        ) => {
            let tally = Tally::of(fates);
            let done = tally.moved + tally.stood > 0;
            let kind = if done { "done" } else { "failed" };
            let mut text = format!(
                "{} of {} to node {node} by {}.{:03} ms of processor time",
                tally.moved,
                many(pages.len(), "page"),
                spent_ns / 1_000_000,
                spent_ns / 1000 % 1000
            );
            if tally.stood > 0 {
                text += &format!("; {} there already", tally.stood);
            }
            for (why, count) in tally.refused {
                text += &format!("; {count} not: {why}");
            }
            (kind, text)
        }
        (Action::MovePages { node, pages, .. }, Outcome::Refused(why)) => (
            "failed",
            format!("{} not to node {node}: {why}", many(pages.len(), "page")),
        ),
        (Action::MovePages { node, pages, .. }, Outcome::Bound) => (
            "done",
            format!("{} to node {node}", many(pages.len(), "page")),
        ),
    }
}

/// What came of the pages of one action.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) moved: u64,
    /// Were there already.
    pub(super) stood: u64,
    pub(super) refused: BTreeMap<Refusal, u64>,
}

impl Tally {
    pub(super) fn of(fates: &[PageOutcome]) -> Self {
        let mut tally = Self::default();
        for fate in fates {
            match fate {
                PageOutcome::On(_) => tally.moved += 1,
                PageOutcome::Stood(_) => tally.stood += 1,
                PageOutcome::Refused(why) => *tally.refused.entry(*why).or_default() += 1,
            }
        }
        tally
    }
}

#[cfg(test)]
mod tests {
    use numad_core::{AttachmentId, Certainty, Reason, SpaceId};
    use topology::{CpuSet, NodeId, Pid, StartTicks, TaskKey, Tid};

    use super::*;

    fn task(tid: u32) -> TaskKey {
        TaskKey {
            pid: Pid(7),
            tid: Tid(tid),
            start: StartTicks(1),
        }
    }

    fn event(kind: EventKind) -> Event {
        Event {
            time: Time(2_500_000_000),
            attachment: AttachmentId(1),
            kind,
        }
    }

    fn moved(pages: Vec<PageOutcome>) -> EventKind {
        let action = Action::MovePages {
            attachment: AttachmentId(1),
            pid: Pid(7),
            space: SpaceId(0),
            pages: vec![0; 3],
            node: NodeId(1),
            reason: Reason::Order,
            evidence: None,
            reach: Reach::Alone,
            object: None,
        };
        let spent_ns = 1_234_567;
        EventKind::Ended {
            action,
            outcome: Outcome::Moved {
                pages,
                spent_ns,
                took_ns: spent_ns,
            },
        }
    }

    #[track_caller]
    fn check(kind: EventKind, expected: (&str, Option<u32>, &str)) {
        let row = row(Time(500_000_000), &event(kind));
        assert!((row.at_s - 2.0).abs() < 1e-9);
        assert_eq!((row.kind.as_str(), row.tid, row.text.as_str()), expected);
    }

    fn sure() -> Evidence {
        let mut scale = numad_core::evidence::Scale::default();
        scale.put(90.0, 11.0);
        scale.put(10.0, -11.0);
        Certainty::of(0.9).weigh(&scale)
    }

    #[test]
    fn a_window_says_how_sure_its_moves_are() {
        let judged = |plan| WindowSummary {
            confident: true,
            plan: Some(plan),
            ..WindowSummary::default()
        };
        let begins = "0 ms: 0 samples of 0 threads on 0 pages; 0 proposals, 0 actions; next 0 ms; \
                      moves of threads: 90 % of 100 samples nearer (85 to 93 %)";
        check(
            EventKind::Window(judged(sure())),
            ("window", None, &format!("{begins}, sure")),
        );
        let unsure = Evidence {
            chance: 0.95,
            ..sure()
        };
        check(
            EventKind::Window(judged(unsure)),
            ("window", None, &format!("{begins}, chance explains 95 %")),
        );
    }

    #[test]
    fn what_is_left_out_is_told() {
        let full = WindowSummary {
            confident: true,
            aside: 5,
            nowhere: 1,
            no_room: NoRoom {
                processes: 2,
                mappings: 64_000,
                ..NoRoom::default()
            },
            ..WindowSummary::default()
        };
        check(
            EventKind::Window(full),
            (
                "window",
                None,
                "0 ms: 0 samples of 0 threads on 0 pages; 0 proposals, 0 actions; next 0 ms; 5 samples left \
                 aside; 1 page not in memory; no room for 2 processes, 64000 mappings",
            ),
        );
    }

    #[test]
    fn each_kind_is_one_sentence() {
        let summary = WindowSummary {
            window_ms: 500,
            next_ms: 1000,
            samples: 42,
            lost: 3,
            tasks: 4,
            pages: 17,
            proposals: 2,
            actions: 1,
            distance_centi: Some(1505),
            local_permille: Some(667),
            lost_permille: 67,
            samples_judged: 42,
            coverage_permille: 750,
            ..WindowSummary::default()
        };
        check(
            EventKind::Window(summary),
            (
                "window",
                None,
                "500 ms: 42 samples of 4 threads on 17 pages; 2 proposals, 1 action; next 1000 ms; \
                 distance 15.05; 66.7 % local; 3 samples lost (6.7 %); not sure: 42 samples to judge by, \
                 75.0 % of busy time seen",
            ),
        );
        let bind = Action::Bind {
            attachment: AttachmentId(1),
            task: task(9),
            node: NodeId(1),
            cpus: CpuSet::parse_list("4-7").unwrap(),
            reason: Reason::Order,
            evidence: Some(sure()),
        };
        check(
            EventKind::Ordered(bind.clone()),
            (
                "ordered",
                Some(9),
                "thread 9 to node 1 (cpus 4-7): order of threads; 90 % of 100 samples nearer (85 to 93 %)",
            ),
        );
        let outcome = Outcome::Refused(Refusal::Gone);
        check(
            EventKind::Ended {
                action: bind,
                outcome,
            },
            ("failed", Some(9), "thread 9 not to node 1: gone"),
        );
        let on = PageOutcome::On(NodeId(1));
        let busy = PageOutcome::Refused(Refusal::Busy);
        check(
            moved(vec![on, busy, PageOutcome::Stood(NodeId(1))]),
            (
                "done",
                None,
                "1 of 3 pages to node 1 by 1.234 ms of processor time; 1 there already; 1 not: the page is busy or pinned",
            ),
        );
        check(
            EventKind::ProgramEnded,
            ("ended", None, "the last thread is gone"),
        );
    }

    #[test]
    fn a_flood_of_dropped_proposals_is_counted() {
        let mut history = History::default();
        for tid in 0..1000 {
            let (node, reason) = (NodeId(0), Reason::Order);
            let veto = if tid % 2 == 0 {
                Veto::AlreadyThere
            } else {
                Veto::Budget
            };
            let dropped = EventKind::TaskDropped {
                task: task(tid),
                node,
                reason,
                veto,
            };
            history.take(Time(0), &event(dropped));
        }
        history.take(Time(0), &event(EventKind::Window(WindowSummary::default())));
        let rows = history.last(HISTORY_MAX);
        assert_eq!(rows.len(), DROPPED_TOLD_MAX + 3);
        assert_eq!(rows[16].text, "500 more thread proposals: already there");
        assert_eq!(
            rows[17].text,
            "484 more thread proposals: budget of this window used up"
        );
    }

    #[test]
    fn only_the_last_rows_are_kept() {
        let mut history = History::default();
        for _ in 0..HISTORY_MAX * 2 {
            history.take(Time(0), &event(EventKind::ProgramEnded));
        }
        assert_eq!(history.last(usize::MAX).len(), HISTORY_MAX);
        assert_eq!(history.last(3).len(), 3);
    }
}
