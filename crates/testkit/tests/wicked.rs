//! The jury itself is tried: each of these policies breaks one rule, and the jury must say which.

#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicUsize, Ordering};

use numad_core::{Policy, PolicyFactory, Program, Proposal, Reason, Settings, Time};
use testkit::jury::{self, Rule};

/// What a policy does in every window.
type Act = fn(&Program<'_>, &mut Vec<Proposal>);

/// A policy made of one function.
#[derive(Debug)]
struct Wicked(Act);

impl Policy for Wicked {
    fn propose(&mut self, _now: Time, program: &Program<'_>, out: &mut Vec<Proposal>) {
        (self.0)(program, out);
    }
}

/// What makes the policy of an act.
macro_rules! wicked {
    ($act:expr) => {{
        const ACT: Act = $act;
        &PolicyFactory {
            name: "wicked",
            summary: "Breaks a rule.",
            settings: &[],
            seeks_gain: true,
            goes_by_order: false,
            published: None,
            build: |_settings, _seed| Ok(Box::new(Wicked(ACT))),
        }
    }};
}

fn place(task: usize, node: usize) -> Proposal {
    Proposal::PlaceTask {
        task,
        node,
        reason: Reason::Order,
    }
}

/// The rules that are broken over many seeds.
#[track_caller]
fn check(policy: &PolicyFactory, expected: Rule) {
    let settings = Settings::defaults(&[]);
    let broken: Vec<Rule> = (0..100)
        .filter_map(|seed| jury::hear(policy, &settings, seed).err())
        .map(|breach| breach.rule)
        .collect();
    assert!(broken.contains(&expected), "{expected:?} not in {broken:?}");
}

/// The first node where a task may be and that has room for one, if the task is elsewhere.
fn open_node(program: &Program<'_>, task: usize) -> Option<usize> {
    let counts = |node| {
        let tasks = program.tasks.iter();
        tasks.filter(|task| task.node == Some(node)).count()
    };
    (0..program.capacity.len()).find(|&node| {
        let task = &program.tasks[task];
        task.allowed[node] && task.node != Some(node) && counts(node) < program.capacity[node]
    })
}

#[test]
fn a_policy_that_does_nothing_is_acquitted() {
    jury::judge(wicked!(|_, _| {}));
}

#[test]
fn an_excluded_node_is_noticed() {
    check(
        wicked!(|program, out| out.extend((0..program.tasks.len()).map(|task| place(task, 0)))),
        Rule::TaskExcluded,
    );
}

#[test]
fn a_page_on_a_full_node_is_noticed() {
    check(
        wicked!(|program, out| {
            out.extend(program.pages.iter().map(|page| Proposal::MovePage {
                page: page.key,
                node: program.capacity.len() - 1,
                reason: Reason::Order,
            }));
        }),
        Rule::PageExcluded,
    );
}

#[test]
fn a_task_proposed_twice_is_noticed() {
    check(
        wicked!(|program, out| {
            let first = program.tasks.first().and_then(|_| open_node(program, 0));
            out.extend(first.map(|node| place(0, node)));
            out.extend(first.map(|node| place(0, node)));
        }),
        Rule::Repeated,
    );
}

#[test]
fn a_crowd_is_noticed() {
    check(
        wicked!(|program, out| {
            for (index, task) in program.tasks.iter().enumerate() {
                let node = task.allowed.iter().position(|&allowed| allowed);
                out.extend(node.map(|node| place(index, node)));
            }
        }),
        Rule::Capacity,
    );
}

#[test]
fn a_task_named_as_its_own_reason_is_noticed() {
    check(
        wicked!(|program, out| {
            let first = program.tasks.first().and_then(|_| open_node(program, 0));
            out.extend(first.map(|node| Proposal::PlaceTask {
                task: 0,
                node,
                reason: Reason::Partner {
                    with: program.tasks[0].key,
                    amount: 1,
                },
            }));
        }),
        Rule::Reason,
    );
}

/// Stands for any input that is no argument.
static HIDDEN: AtomicUsize = AtomicUsize::new(0);

#[test]
fn hidden_input_is_noticed() {
    check(
        wicked!(|program, out| {
            if HIDDEN.fetch_add(1, Ordering::Relaxed).is_multiple_of(2) {
                let first = program.tasks.first().and_then(|_| open_node(program, 0));
                out.extend(first.map(|node| place(0, node)));
            }
        }),
        Rule::Reproducible,
    );
}

#[test]
fn a_decision_by_thread_number_is_noticed() {
    check(
        wicked!(|program, out| {
            if let Some(task) = program.tasks.first()
                && task.key.pid.0 == 1000
            {
                out.extend(open_node(program, 0).map(|node| place(0, node)));
            }
        }),
        Rule::Labels,
    );
}

#[test]
fn a_decision_by_the_order_of_tasks_is_noticed() {
    check(
        wicked!(|program, out| {
            let tasks = program.tasks.len();
            let first = (0..tasks).find(|&task| program.live.row_sum(task) > 0);
            let placed = first.and_then(|task| Some((task, open_node(program, task)?)));
            out.extend(placed.map(|(task, node)| place(task, node)));
        }),
        Rule::Order,
    );
}

#[test]
fn restlessness_is_noticed() {
    check(
        wicked!(|program, out| {
            let first = program.tasks.first().and_then(|_| open_node(program, 0));
            out.extend(first.map(|node| place(0, node)));
        }),
        Rule::Settles,
    );
}

#[test]
fn talk_about_nothing_is_noticed() {
    check(
        wicked!(|program, out| {
            let first = program.tasks.first().filter(|task| task.node.is_none());
            if program.samples == 0 && first.is_some() {
                out.extend(open_node(program, 0).map(|node| place(0, node)));
            }
        }),
        Rule::Quiet,
    );
}
