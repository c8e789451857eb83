//! What a policy last wanted of threads, and when it is asked again.
//!
//! Planning for threads is the dearest part of a window, and while a settled program does what it
//! did, the plan is that of the window before. So an answer after which no thread moved stands for
//! one window, the next one for two, then for four, up to [`STANDS_MAX`]. What stands is judged in
//! every window by what that one shows, as if it had been given again; pages are asked for in every
//! window.

use topology::TaskKey;

use crate::policy::{Plan, Proposal, Task};

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Answer {
    /// Where tasks were wanted, why, and which tasks there were, where each might be, and how many
    /// places on each node.
    places: Plan,
    tasks: Vec<(TaskKey, Vec<bool>)>,
    capacity: Vec<usize>,
    /// Windows that it stands for, and how many of them are left.
    stands: u32,
    left: u32,
}

/// Windows that an answer stands for at most. Half and double of it change no cell of a matrix of
/// four machines and ten programs, most of whose runs are too short to show double
/// (docs/measurements.md).
const STANDS_MAX: u32 = 8;

impl Answer {
    /// What is wanted in this window as well, if the answer stands.
    pub(super) fn stands_for(&self, tasks: &[Task], capacity: &[usize]) -> Option<Plan> {
        let tasks = tasks.iter().map(|task| (&task.key, &task.allowed));
        let before = self.tasks.iter().map(|(key, allowed)| (key, allowed));
        let is_same = self.capacity == capacity && tasks.eq(before);
        (self.left > 0 && is_same).then(|| self.places.clone())
    }

    /// Keeps the plan that was taken.
    pub(super) fn keep_for(&mut self, tasks: &[Task], capacity: &[usize], plan: &[Proposal]) {
        let places = plan.iter().filter(|proposal| proposal.place().is_some());
        self.places = places.cloned().collect();
        let tasks = tasks.iter().map(|task| (task.key, task.allowed.clone()));
        self.tasks = tasks.collect();
        self.capacity = capacity.to_vec();
        self.left = 0;
    }

    /// Ends a window; `holds` when there is no reason to ask again at once.
    pub(super) fn pass(&mut self, holds: bool) {
        match (holds, self.left) {
            (false, _) => (self.stands, self.left) = (0, 0),
            (true, 0) => {
                self.stands = (self.stands * 2).clamp(1, STANDS_MAX);
                self.left = self.stands;
            }
            (true, _) => self.left -= 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use topology::{Pid, StartTicks, Tid};

    use super::*;
    use crate::policy::Reason;

    fn task(tid: u32) -> Task {
        Task {
            key: TaskKey {
                pid: Pid(1),
                tid: Tid(tid),
                start: StartTicks(0),
            },
            node: None,
            allowed: vec![true; 2],
            busy: 1.0,
            samples: 1,
        }
    }

    fn plan() -> Plan {
        vec![Proposal::PlaceTask {
            task: 0,
            node: 0,
            reason: Reason::Stay,
        }]
    }

    fn stands_for(answer: &Answer, tids: &[u32], capacity: &[usize]) -> Option<Plan> {
        let tasks: Vec<Task> = tids.iter().map(|&tid| task(tid)).collect();
        answer.stands_for(&tasks, capacity)
    }

    /// For how many windows an answer stands that was given just now.
    fn stands(answer: &mut Answer) -> u32 {
        answer.keep_for(&[task(1), task(2)], &[2, 2], &plan());
        answer.pass(true);
        let mut windows = 0;
        while let Some(places) = stands_for(answer, &[1, 2], &[2, 2]) {
            assert_eq!(places, plan());
            answer.pass(true);
            windows += 1;
        }
        windows
    }

    #[test]
    fn an_answer_stands_twice_as_long_as_the_one_before() {
        let mut answer = Answer::default();
        assert_eq!(stands_for(&answer, &[], &[]), None);
        assert_eq!([(); 5].map(|()| stands(&mut answer)), [1, 2, 4, 8, 8]);
        // Something moved, or the program does something else.
        answer.pass(false);
        assert_eq!(stands(&mut answer), 1);
    }

    #[test]
    fn it_is_no_answer_about_others_or_with_other_room() {
        let mut answer = Answer::default();
        answer.keep_for(&[task(1), task(2)], &[2, 2], &plan());
        answer.pass(true);
        assert_eq!(stands_for(&answer, &[1, 2], &[2, 2]), Some(plan()));
        assert_eq!(stands_for(&answer, &[1, 3], &[2, 2]), None);
        assert_eq!(stands_for(&answer, &[1, 2, 3], &[2, 2]), None);
        assert_eq!(stands_for(&answer, &[1, 2], &[2, 3]), None);
        let mut bound = task(2);
        bound.allowed[0] = false;
        assert_eq!(answer.stands_for(&[task(1), bound], &[2, 2]), None);
    }
}
