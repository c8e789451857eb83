//! Moving pages. Where they are is asked first, then the journal takes all of it with one write,
//! then they go: batch by batch, as many side by side as moves more in a time
//! ([`Movers`](crate::pacer::Movers)).
//!
//! The kernel moves the pages of one call in the thread that calls. What calls share are locks that
//! each holds shortly, and one by one they wait until every processor has let go of pages that it
//! kept aside.

use std::collections::BTreeSet;
use std::ops::Range;
use std::time::Duration;

use numad_core::{Action, AttachmentId, ObjectId, Outcome, PageOutcome, Reach, Refusal};
use topology::{NodeId, Pid};

use crate::census::Census;
use crate::held::Held;
use crate::journal::page_rows;
use crate::journal::rows::{Owner, ProcessKey, Row};
use crate::kernel::{Kernel, MoveCall};
use crate::live::Live;
use crate::refusal;
use crate::residency::{PageStatus, residencies, residency};

/// Pages of one process that go with one call.
#[derive(Debug)]
pub(crate) struct Batch<'a, H> {
    pub held: &'a Held<H>,
    pub pages: Vec<u64>,
    pub to: (NodeId, Reach),
}

/// What became of one call.
#[derive(Debug)]
pub(crate) struct Moved {
    /// One for each page.
    pub pages: Vec<PageOutcome>,
    /// Why the call as a whole failed, if it did.
    pub refusal: Option<Refusal>,
    /// Processor time of it, and its part of the time that passed, where others went on beside it.
    pub spent: Duration,
    pub took: Duration,
}

/// What an action means, before it is looked up where that is.
#[derive(Debug)]
struct Meant<'a, H> {
    attachment: AttachmentId,
    held: Held<H>,
    owner: Owner,
    to: (NodeId, Reach),
    pages: &'a [u64],
    /// What pages are recorded as, where not by their addresses.
    names: Option<Vec<Option<u64>>>,
}

/// An action on its way.
#[derive(Debug)]
struct Going<'a, H> {
    meant: Meant<'a, H>,
    outcomes: Vec<PageOutcome>,
    /// Which pages leave, by position, and how many of them were tried.
    moving: Vec<usize>,
    tried: usize,
    /// The same by their names in the journal, with the nodes that they leave.
    leaving: Vec<(u64, NodeId)>,
    spent: Duration,
    took: Duration,
}

impl<'a, H> Going<'a, H> {
    /// `chosen` are addresses, ascending, of pages that are where someone wants them.
    fn new(meant: Meant<'a, H>, places: Vec<PageStatus>, chosen: &[Range<u64>]) -> Self {
        let count = meant.pages.len();
        let (mut outcomes, mut moving, mut leaving) =
            (Vec::with_capacity(count), Vec::new(), Vec::new());
        for (index, (&page, place)) in meant.pages.iter().zip(places).enumerate() {
            let names = meant.names.as_ref();
            let name = names.map_or(Some(page), |names| names[index]);
            let place = name.map_or(PageStatus::Absent, |_| place);
            let leaves = place.node().filter(|&on| on != meant.to.0);
            let after = chosen.partition_point(|range| range.end <= page);
            if leaves.is_some() && chosen.get(after).is_some_and(|range| range.contains(&page)) {
                outcomes.push(PageOutcome::Refused(Refusal::NotAllowed));
                continue;
            }
            outcomes.push(standing(place));
            if let (Some(name), Some(on)) = (name, leaves) {
                moving.push(index);
                leaving.push((name, on));
            }
        }
        Self {
            meant,
            outcomes,
            moving,
            tried: 0,
            leaving,
            spent: Duration::ZERO,
            took: Duration::ZERO,
        }
    }

    /// Pages that go together, by position among those that leave.
    fn batch(&self, which: Range<usize>) -> Batch<'_, H> {
        let which = &self.moving[which];
        Batch {
            held: &self.meant.held,
            pages: which.iter().map(|&index| self.meant.pages[index]).collect(),
            to: self.meant.to,
        }
    }

    /// Takes note of what became of them; why all of it is refused, where nothing could be done.
    fn take(&mut self, moved: &Moved) -> Result<(), Refusal> {
        self.spent += moved.spent;
        self.took += moved.took;
        if let Some(refusal) = &moved.refusal {
            let node = PageOutcome::On(self.meant.to.0);
            if self.tried == 0 && !moved.pages.contains(&node) {
                return Err(*refusal);
            }
            self.outcomes.truncate(self.moving[self.tried]);
            self.moving.truncate(self.tried);
            return Ok(());
        }
        let tried = &self.moving[self.tried..];
        for (&index, outcome) in tried.iter().zip(&moved.pages) {
            self.outcomes[index] = *outcome;
        }
        self.tried += moved.pages.len();
        Ok(())
    }
}

/// Actions that were looked up, or why they are refused.
type Prepared<'a, H> = Vec<Result<Going<'a, H>, Refusal>>;

impl<K: Kernel, C: Census> Live<K, C> {
    /// Moves pages for several actions, which must all be such; gives what came of each.
    pub(crate) fn move_all(&mut self, actions: &[Action]) -> Vec<Outcome> {
        let mut prepared = self.look_up(actions);
        self.write_down(&mut prepared);
        loop {
            let turn = next_turn(&prepared, self.pacer.size(), self.movers.calls());
            if turn.is_empty() {
                break;
            }
            let batches = turn.iter().filter_map(|(index, which)| {
                let going = prepared[*index].as_ref().ok()?;
                Some(going.batch(which.clone()))
            });
            let batches: Vec<_> = batches.collect();
            let moved = self.move_batches(&batches);
            for ((index, which), moved) in turn.into_iter().zip(moved) {
                // Behind one that was refused as a whole none of its action counts.
                if let Ok(going) = &mut prepared[index]
                    && going.tried == which.start
                    && let Err(refusal) = going.take(&moved)
                {
                    prepared[index] = Err(refusal);
                }
            }
        }
        prepared.into_iter().map(outcome).collect()
    }

    /// Finds out of all actions whose pages they mean and where these are.
    fn look_up<'a>(&mut self, actions: &'a [Action]) -> Prepared<'a, K::Hold> {
        let meant = actions.iter().map(|action| self.meant(action));
        let meant: Vec<Result<Meant<'a, K::Hold>, Refusal>> = meant.collect();
        let asked = meant.iter().flatten();
        let asked: Vec<(Pid, &[u64])> = asked.map(|one| (one.held.pid, one.pages)).collect();
        let (places, beside) = residencies(&mut self.kernel, &asked, self.movers.count());
        self.beside += beside;
        let mut places = places.into_iter();
        let with_places = meant.into_iter().map(|one| {
            let one = one?;
            let places = places.next().unwrap_or(Err(Refusal::Gone))?;
            let chosen = self.census.chosen(one.held.pid).known()?;
            Ok(Going::new(one, places, &chosen))
        });
        with_places.collect()
    }

    fn meant<'a>(&mut self, action: &'a Action) -> Result<Meant<'a, K::Hold>, Refusal> {
        let Action::MovePages {
            attachment,
            pid,
            pages,
            node,
            reach,
            object,
            ..
        } = action
        else {
            return Err(Refusal::Unsupported);
        };
        let pid = *pid;
        let held = self.held(pid)?;
        let start = held.start;
        // The action knows the process by its number alone; the first start seen is the one meant.
        if *self.processes.entry(pid).or_insert(start) != start {
            return Err(Refusal::Gone);
        }
        self.join(*attachment, ProcessKey { pid, start });
        Ok(Meant {
            attachment: *attachment,
            names: self.names(pid, pages, *object)?,
            held,
            owner: object.map_or(Owner::Process(pid, start), Owner::Object),
            to: (*node, *reach),
            pages,
        })
    }

    /// What pages of an object are recorded as: where they are in it, or none where the process has
    /// something else there by now. All others by their addresses.
    fn names(
        &self,
        pid: Pid,
        pages: &[u64],
        object: Option<ObjectId>,
    ) -> Result<Option<Vec<Option<u64>>>, Refusal> {
        let Some(object) = object else {
            return Ok(None);
        };
        let mut ranges = self.census.shared(pid).known()?;
        ranges.retain(|range| range.object == object);
        let name = |&page| ranges.iter().find_map(|range| range.offset_of(page));
        Ok(Some(pages.iter().map(name).collect()))
    }

    /// Writes where pages are that leave their nodes, unless it is known where they were at first.
    /// What cannot be written down does not go.
    fn write_down(&mut self, prepared: &mut Prepared<'_, K::Hold>) {
        let (mut rows, mut runs) = (Vec::new(), 0);
        let mut written = Vec::new();
        for (index, one) in prepared.iter_mut().enumerate() {
            let Ok(going) = one else {
                continue;
            };
            let fresh = self
                .journal
                .records()
                .without_home(going.meant.owner, &going.leaving);
            if fresh.is_empty() {
                continue;
            }
            let own = page_rows(going.meant.owner, fresh);
            let count = own.iter().map(|row| match row {
                Row::Pages { runs, .. } => runs.len(),
                _ => 0,
            });
            let count: usize = count.sum();
            let payer = self.payers.get(&going.meant.attachment).copied();
            if !self.journal.has_room_for(payer, runs + count) {
                *one = Err(Refusal::JournalFull);
                continue;
            }
            runs += count;
            rows.extend(own);
            written.push((index, going.meant.owner, payer));
        }
        if rows.is_empty() {
            return;
        }
        let done = self.write(rows);
        for (index, owner, payer) in written {
            match done {
                Ok(()) => self.journal.records_mut().pays(owner, payer),
                Err(refusal) => prepared[index] = Err(refusal),
            }
        }
    }

    /// Makes one call for each batch, all at once, timed, and tells what became of each page.
    /// Journal and earlier batches take their time, so whose number it is by now is compared first.
    pub(crate) fn move_batches(&mut self, batches: &[Batch<'_, K::Hold>]) -> Vec<Moved> {
        let each = batches.iter().map(|batch| self.lives(batch.held));
        let lives: Vec<Result<(), Refusal>> = each.collect();
        let each = batches.iter().map(|batch| vec![UNTRIED; batch.pages.len()]);
        let mut statuses: Vec<Vec<i32>> = each.collect();
        let mut calls = Vec::with_capacity(batches.len());
        for ((batch, statuses), lives) in batches.iter().zip(&mut statuses).zip(&lives) {
            if lives.is_ok() {
                calls.push(MoveCall {
                    pid: batch.held.pid,
                    pages: &batch.pages,
                    to: batch.to,
                    statuses,
                    ended: None,
                    took: Duration::ZERO,
                    spent: Duration::ZERO,
                });
            }
        }
        let before = (self.clock)();
        let count = self.movers.count();
        self.beside += self.kernel.move_side_by_side(&mut calls, count);
        let passed = (self.clock)().since(before);
        let all: Duration = calls.iter().map(|call| call.took).sum();
        let pages = calls.iter().map(|call| call.pages.len()).sum();
        self.pacer
            .note(pages, calls.iter().map(|call| call.spent).sum());
        self.movers.note(calls.len(), pages, all);
        let longest = calls.iter().map(|call| call.took).max();
        self.pause_max = self.pause_max.max(longest.unwrap_or_default());
        let share = passed.as_secs_f64() / all.as_secs_f64().max(f64::MIN_POSITIVE);
        let each = calls.into_iter();
        let ended: Vec<_> = each
            .map(|call| (call.ended.unwrap_or(Ok(())), (call.took, call.spent)))
            .collect();
        let mut ended = ended.into_iter();
        let mut moved = Vec::with_capacity(batches.len());
        for ((batch, mut statuses), lives) in batches.iter().zip(statuses).zip(lives) {
            let (called, (took, spent)) = match lives {
                Ok(()) => ended.next().unwrap_or((Ok(()), Default::default())),
                Err(_) => (Ok(()), Default::default()),
            };
            let called = lives.and_then(|()| called.map_err(refusal::of_move));
            if lives.is_ok() {
                self.ask_what_came_along(batch, &mut statuses);
            }
            let untried = called.err().unwrap_or(Refusal::Busy);
            let pages = statuses.into_iter().map(|status| match status {
                UNTRIED => PageOutcome::Refused(untried),
                status => page_outcome(status),
            });
            moved.push(Moved {
                pages: pages.collect(),
                refusal: called.err(),
                spent,
                took: took.mul_f64(share.min(1.0)),
            });
        }
        moved
    }

    /// The kernel stops at the first page that it cannot move and tells nothing of the rest. And of
    /// several addresses in one huge page it moves the first, and calls the others busy although
    /// they came along. So it is asked.
    fn ask_what_came_along(&mut self, batch: &Batch<'_, K::Hold>, statuses: &mut [i32]) {
        let node = batch.to.0;
        if statuses.iter().any(|&status| status < 0)
            && let Ok(places) = residency(&mut self.kernel, batch.held.pid, &batch.pages)
            && let Ok(there) = i32::try_from(node.0)
        {
            for (status, place) in statuses.iter_mut().zip(places) {
                if place == PageStatus::On(node) {
                    *status = there;
                }
            }
        }
    }
}

fn outcome<H>(prepared: Result<Going<'_, H>, Refusal>) -> Outcome {
    match prepared {
        Ok(going) => Outcome::Moved {
            pages: going.outcomes,
            spent_ns: nanoseconds(going.spent),
            took_ns: nanoseconds(going.took),
        },
        Err(refusal) => Outcome::Refused(refusal),
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// What goes next in one go, each by the position of its action and where it is among the pages that leave: in turns
/// of the actions, those first that go to different nodes.
fn next_turn<H>(
    prepared: &Prepared<'_, H>,
    size: usize,
    most: usize,
) -> Vec<(usize, Range<usize>)> {
    let mut nodes = BTreeSet::new();
    let (mut first, mut others) = (Vec::new(), Vec::new());
    for (index, going) in prepared.iter().enumerate() {
        if let Ok(going) = going {
            let batches = (going.tried..going.moving.len()).step_by(size);
            let batches = batches.map(move |at| (index, at..(at + size).min(going.moving.len())));
            match nodes.insert(going.meant.to.0) {
                true => first.push(batches),
                false => others.push(batches),
            }
        }
    }
    first.append(&mut others);
    let mut turn = Vec::new();
    while turn.len() < most {
        let before = turn.len();
        turn.extend(first.iter_mut().filter_map(Iterator::next));
        if turn.len() == before {
            break;
        }
    }
    turn.truncate(most);
    turn
}

fn page_outcome(status: i32) -> PageOutcome {
    match u32::try_from(status) {
        Ok(node) => PageOutcome::On(NodeId(node)),
        Err(_) => PageOutcome::Refused(refusal::of_page(status)),
    }
}

/// What is said of a page that is not moved.
fn standing(place: PageStatus) -> PageOutcome {
    match place {
        PageStatus::On(node) => PageOutcome::Stood(node),
        PageStatus::Absent => PageOutcome::Refused(Refusal::Gone),
        PageStatus::Unknown(errno) => {
            PageOutcome::Refused(refusal::of_page(errno.saturating_neg()))
        }
    }
}

/// A status that the kernel never writes: no node and no error number.
const UNTRIED: i32 = i32::MIN;
