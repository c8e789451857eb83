//! Where threads are that nobody has bound.
//!
//! The scheduler moves them, at barriers from one moment to the next, and what they have touched
//! stays where it is. So where one ran lately is chance, and a plan that begins there takes it from
//! its memory, which then has to follow. It is taken to be where most of that is, if threads can
//! change places so that every node has as many as it had: where all memory lies on one node, to
//! gather there would crowd it. By the prices of [`crate::cost`] a thread that changes places loses
//! 0.15 ms, and 8 MiB that follow it take 4.

use super::Seen;
use super::program::Scratch;
use crate::capacity::count_by_node;
use crate::cost::uses_by_node;

/// Part of what a thread uses that is on one node, for it to be the thread's. With half and with
/// nine tenths programs whose threads wander do 1.1 and 0.3 % less (docs/measurements.md, "Programs
/// with barriers").
const MOST: f64 = 0.75;

/// Windows in which a thread is taken to be where it does not run. One that is not bound by then is
/// left alone: by a policy that moves pages alone, or since somebody else binds it.
const WINDOWS: u8 = 8;

/// A thread, the node of most of its memory, and how much it uses of that.
#[derive(Clone, Copy, Debug)]
struct Wanderer {
    task: usize,
    home: usize,
    uses: f64,
}

impl Seen {
    /// Has threads be where most of their memory is that nobody has bound, as far as they can
    /// change places. Once in a window.
    pub(in crate::engine) fn bring_home(&mut self, scratch: &mut Scratch) {
        let (slots, nodes) = (&scratch.slots, scratch.capacity.len());
        let (pages, tasks) = (&scratch.pages, &mut scratch.tasks);
        let record = |&slot: &u32| self.tasks.record(slot);
        let wanders = |slot: &u32| {
            record(slot).is_some_and(|record| record.placed().is_none() && record.homed < WINDOWS)
        };
        if !self.by_blocks || !slots.iter().any(wanders) {
            return;
        }
        let mut wanderers: Vec<Wanderer> = Vec::new();
        let uses = uses_by_node(pages, tasks.len(), nodes);
        for (task, uses) in uses
            .iter()
            .enumerate()
            .filter(|(task, _)| wanders(&slots[*task]))
        {
            let most = MOST * uses.iter().sum::<f64>();
            let home = (0..nodes).find(|&home| uses[home] > most && tasks[task].allowed[home]);
            wanderers.extend(home.map(|home| Wanderer {
                task,
                home,
                uses: uses[home],
            }));
        }
        wanderers.retain(|one| tasks[one.task].node != Some(one.home));
        wanderers.sort_by(|one, other| other.uses.total_cmp(&one.uses));
        let ran: Vec<Option<usize>> = tasks.iter().map(|task| task.node).collect();
        let places = count_by_node(&ran, nodes);
        // One for whom there is no place keeps that where it ran, so that another may have none.
        loop {
            let mut stay = ran.clone();
            wanderers.iter().for_each(|one| stay[one.task] = None);
            let mut on = count_by_node(&stay, nodes);
            let before = wanderers.len();
            wanderers.retain(|one| {
                on[one.home] += 1;
                on[one.home] <= places[one.home]
            });
            if wanderers.len() == before {
                break;
            }
        }
        for one in wanderers {
            tasks[one.task].node = Some(one.home);
            if let Some(record) = self.tasks.record_mut(slots[one.task]) {
                record.homed += 1;
            }
        }
    }
}
