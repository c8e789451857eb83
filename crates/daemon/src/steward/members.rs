//! Who belongs to which program: each process that is followed, when it began, and for which
//! attachment.
//!
//! This is the one place that decides who joins and who leaves. The engine, the source's filter,
//! recordings, looks and undo are told, or ask here. Forks and ends as they are recorded say when
//! to look at a process; only a look says that one has ended, or that its number has become
//! another's: records come out of order, and some are lost. A process that was not looked at yet is
//! shown to nobody who would touch it.
//!
//! A child is known by its number alone until it is looked at, and by then the number may be a
//! stranger's. Two things tell: the process must not have begun after the fork, and its maker must
//! have been the one that is followed when the fork was recorded, which a look at the maker since
//! shows. The processes above a child tell nothing: its maker may have ended, as the one in the
//! middle of a double fork has.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use numad_core::{AttachmentId, Lifecycle, Time};
use topology::{Pid, StartTicks};

use super::seams::{Named, ProcessFacts};

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Members {
    followed: BTreeMap<Pid, Member>,
    /// Processes that were named for each attachment, for good and in that order: they are put back
    /// whatever became of them, but for one whose number a child of the program has by now.
    named: BTreeMap<AttachmentId, Vec<(Pid, StartTicks)>>,
    /// Processes to look at, because they came, may have ended, or may be others by now.
    unsure: Queue,
    /// Processes that have ended, by number, whose last forks may not be read or judged yet.
    late: BTreeMap<Pid, Late>,
    /// Attachments of which processes may have been missed.
    missed: BTreeSet<AttachmentId>,
}

#[derive(Clone, Copy, Debug)]
struct Member {
    /// None where it is only recorded.
    of: Option<AttachmentId>,
    /// None until it was looked at.
    start: Option<StartTicks>,
    /// A look that began then found it alive.
    seen: Time,
    /// Threads, as far as records tell, from its birth or, where it was named, from then on.
    threads: i64,
    /// The last birth of a process of this number that was recorded, if no look judged it yet.
    birth: Option<Birth>,
}

/// How a process was made.
#[derive(Clone, Copy, Debug)]
struct Birth {
    time: Time,
    maker: Pid,
}

/// A process that has ended.
#[derive(Clone, Copy, Debug)]
struct Late {
    of: Option<AttachmentId>,
    /// What its number forked later is not its child.
    until: Time,
    /// It is needed until so many processes were taken to be looked at; none until its last forks
    /// were read.
    over: Option<u64>,
}

/// Processes in the order of their arrival, each once.
#[derive(Debug, Default)]
struct Queue {
    order: VecDeque<Pid>,
    waiting: BTreeSet<Pid>,
    /// How many were ever taken out.
    taken: u64,
}

impl Queue {
    fn push(&mut self, pid: Pid) {
        if self.waiting.insert(pid) {
            self.order.push_back(pid);
        }
    }

    fn pop(&mut self) -> Option<Pid> {
        let pid = self.order.pop_front()?;
        self.waiting.remove(&pid);
        Some(pid)
    }

    /// What [`Self::taken`] will be when all that wait now were taken out.
    fn end(&self) -> u64 {
        self.taken + u64::try_from(self.order.len()).unwrap_or(u64::MAX)
    }
}

/// What a look at a process says of its membership.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum News {
    /// It joined of itself.
    Joined(Option<AttachmentId>, StartTicks),
    /// It has ended, and nobody has its number. Forks of its own may not be read yet: see
    /// [`Members::take_read`].
    Ended,
    /// It has ended; its number may be a stranger's.
    Left,
    /// None.
    Same,
}

/// How much later than its fork a process may seem to have begun: starts and ages are told in ticks
/// of 10 ms. It never does begin later, and a number does not come back as soon as that. The clock
/// of starts runs on while the machine sleeps and that of records does not, so that after a sleep a
/// process seems to have begun earlier than it did, never later: no child is refused for that.
const START_SLACK: Duration = Duration::from_millis(20);

/// Processes that have ended and whose last forks are waited for. Each stays for a few readings of
/// the buffers.
pub(super) const LATE_MAX: usize = 8192;

impl Members {
    /// Follows a process that was just looked at, for whoever will want it; true if it is news. One
    /// that had its number is forgotten.
    pub(super) fn follow(&mut self, now: Time, process: &ProcessFacts) -> bool {
        let known = self.followed.get_mut(&process.pid);
        if let Some(known) = known.filter(|known| known.start.is_none_or(|it| it == process.start))
        {
            if known.of.is_none() {
                (known.start, known.seen) = (Some(process.start), now);
            }
            return false;
        }
        let member = Member {
            of: None,
            start: Some(process.start),
            seen: now,
            threads: i64::from(process.threads),
            birth: None,
        };
        self.followed.insert(process.pid, member);
        true
    }

    /// Processes that are followed were named for an attachment.
    pub(super) fn name(&mut self, id: AttachmentId, processes: &[ProcessFacts]) {
        for process in processes {
            if let Some(member) = self.followed.get_mut(&process.pid) {
                member.of = Some(id);
            }
        }
        let named = processes.iter().map(|process| (process.pid, process.start));
        self.named.entry(id).or_default().extend(named);
    }

    /// Takes note of a thread or process that came or went.
    pub(super) fn take(&mut self, change: &Lifecycle) {
        match *change {
            Lifecycle::Fork {
                time, pid, parent, ..
            } => self.forked(time, pid, parent),
            Lifecycle::Exit { pid, .. } => {
                if let Some(member) = self.followed.get_mut(&pid) {
                    member.threads -= 1;
                    if member.threads <= 0 {
                        self.unsure.push(pid);
                    }
                }
            }
            Lifecycle::Renamed { .. } => {}
        }
    }

    fn forked(&mut self, time: Time, pid: Pid, maker: Pid) {
        let birth = Birth { time, maker };
        if let Some(member) = self.followed.get_mut(&pid) {
            member.threads += 1;
            if pid != maker {
                // Late word of its own birth, or another that got its number.
                let is_news = time >= member.birth.map_or(member.seen, |known| known.time);
                member.birth = is_news.then_some(birth).or(member.birth);
                self.unsure.push(pid);
            }
            return;
        }
        let late = self.late.get(&maker).filter(|late| time <= late.until);
        let maker = self.followed.get(&maker).map(|maker| maker.of);
        if let Some(of) = maker.or(late.map(|late| late.of)) {
            let member = Member {
                of,
                start: None,
                seen: Time::default(),
                threads: 1,
                birth: Some(birth),
            };
            self.followed.insert(pid, member);
            self.unsure.push(pid);
        }
    }

    /// A process is to be looked at.
    pub(super) fn doubt(&mut self, pid: Pid) {
        self.unsure.push(pid);
    }

    /// A look at a program found these processes alive: the others are to be looked at by
    /// themselves.
    pub(super) fn seen(&mut self, id: AttachmentId, alive: &BTreeSet<Pid>) {
        let missing = self.pids(id).filter(|pid| !alive.contains(pid));
        let missing: Vec<Pid> = missing.collect();
        missing.into_iter().for_each(|pid| self.unsure.push(pid));
    }

    /// The process that is to be looked at next: the one that waits longest, but none before its
    /// maker. It is not given twice.
    pub(super) fn next_unsure(&mut self) -> Option<Pid> {
        // Each that is put off has a maker that was made before it, so that this ends.
        loop {
            let pid = self.unsure.pop()?;
            let Some(maker) = self.maker_in_doubt(pid) else {
                self.unsure.taken += 1;
                return Some(pid);
            };
            self.unsure.push(maker);
            self.unsure.push(pid);
        }
    }

    /// How many processes are to be looked at.
    pub(super) fn unsure(&self) -> usize {
        self.unsure.order.len()
    }

    /// The maker of a process that waits to be judged, if no look since then shows that it was the
    /// maker, and one could.
    fn maker_in_doubt(&self, pid: Pid) -> Option<Pid> {
        let birth = self.followed.get(&pid)?.birth?;
        let maker = self.followed.get(&birth.maker)?;
        let made_before = maker.birth.is_none_or(|its_own| its_own.time < birth.time);
        (made_before && self.maker_of(birth).is_none()).then_some(birth.maker)
    }

    /// What the maker of a process was part of when it made that; none if it was not followed.
    fn maker_of(&self, birth: Birth) -> Option<Option<AttachmentId>> {
        let maker = self.followed.get(&birth.maker);
        let maker = maker.filter(|it| it.start.is_some() && birth.time <= it.seen);
        let late = self.late.get(&birth.maker);
        let late = late.filter(|late| birth.time <= late.until);
        maker.map(|maker| maker.of).or(late.map(|late| late.of))
    }

    /// Learns what a look at a process found that began `now`: none where there is none of that
    /// number.
    pub(super) fn learn(&mut self, now: Time, pid: Pid, found: Option<&ProcessFacts>) -> News {
        let Some(member) = self.followed.get_mut(&pid) else {
            return News::Same;
        };
        let birth = member.birth.take();
        if found.is_some_and(|found| member.start == Some(found.start)) {
            // Births were lost, or not read yet: it is looked at again when the next of its threads
            // ends.
            member.threads = member.threads.max(1);
            member.seen = now;
            return News::Same;
        }
        let member = *member;
        let of = birth.and_then(|birth| self.maker_of(birth));
        if let (Some(found), Some(birth), Some(of)) = (found, birth, of)
            && may_be_born(found, birth.time, now)
        {
            let joined = Member {
                of,
                start: Some(found.start),
                seen: now,
                ..member
            };
            self.followed.insert(pid, joined);
            return News::Joined(of, found.start);
        }
        self.followed.remove(&pid);
        // Whatever the number forked since it changed hands is not this one's.
        let mut until = found.map_or(now, |found| before(now, found.age + START_SLACK));
        let of = match (member.start, birth) {
            (Some(_), Some(next)) => {
                until = until.min(next.time);
                member.of
            }
            (Some(_), None) => member.of,
            (None, _) => of.flatten(),
        };
        match (self.stays_late(of, until, pid), found) {
            (true, None) => News::Ended,
            _ => News::Left,
        }
    }

    /// Remembers one that has ended, for its last forks; false where it is of no use, or too many
    /// are remembered.
    fn stays_late(&mut self, of: Option<AttachmentId>, until: Time, pid: Pid) -> bool {
        let Some(id) = of else {
            return false;
        };
        if self.late.len() >= LATE_MAX {
            self.missed.insert(id);
            return false;
        }
        let over = None;
        self.late.insert(pid, Late { of, until, over });
        true
    }

    /// What was recorded before now is read: gives those who had ended by the reading before, of
    /// whom nothing more is heard, and whose numbers nobody followed has by now.
    pub(super) fn take_read(&mut self) -> Vec<Pid> {
        let (taken, end) = (self.unsure.taken, self.unsure.end());
        // Their last children are judged by now.
        self.late
            .retain(|_, late| late.over.is_none_or(|over| taken < over));
        let mut over = Vec::new();
        for (&pid, late) in self.late.iter_mut().filter(|(_, late)| late.over.is_none()) {
            late.over = Some(end);
            if !self.followed.contains_key(&pid) {
                over.push(pid);
            }
        }
        over
    }

    /// Records were lost: some may have been of children of these attachments.
    pub(super) fn lost(&mut self, ids: impl Iterator<Item = AttachmentId>) {
        self.missed.extend(ids);
    }

    /// A process takes no further part in its program, nor is it put back with it. Gives its start;
    /// none where it was part of none, or was not looked at yet.
    pub(super) fn part(&mut self, pid: Pid) -> Option<StartTicks> {
        let member = self.followed.get_mut(&pid)?;
        let start = member.start?;
        let id = member.of.take()?;
        if let Some(named) = self.named.get_mut(&id) {
            named.retain(|(named, _)| *named != pid);
        }
        Some(start)
    }

    /// Every process of an attachment that is to be put back, each with its start: those that were
    /// named, and those that are part of it now. Whose numbers those are that could not be looked
    /// at nobody knows.
    pub(super) fn all(&self, id: AttachmentId) -> Named {
        let named = self.named(id).iter().copied();
        let all = named.chain(self.of(id));
        all.map(|(pid, start)| (pid, Some(start))).collect()
    }

    /// Whether there may be processes of an attachment that are not known.
    pub(super) fn may_lack(&self, id: AttachmentId) -> bool {
        let mut of = self.followed.values().filter(|it| it.of == Some(id));
        self.missed.contains(&id) || of.any(|member| member.start.is_none())
    }

    /// Ends an attachment: nothing is part of it any more.
    pub(super) fn release(&mut self, id: AttachmentId) {
        self.named.remove(&id);
        self.missed.remove(&id);
        let followed = self.followed.values_mut().map(|member| &mut member.of);
        let late = self.late.values_mut().map(|late| &mut late.of);
        for of in followed.chain(late).filter(|of| **of == Some(id)) {
            *of = None;
        }
    }

    /// Forgets processes of no attachment, but for these, and gives them.
    pub(super) fn forget_all_but(&mut self, needed: &BTreeSet<Pid>) -> Vec<Pid> {
        let idle = |pid: &Pid, member: &mut Member| member.of.is_none() && !needed.contains(pid);
        let forgotten = self.followed.extract_if(.., idle);
        forgotten.map(|(pid, _)| pid).collect()
    }

    /// The attachment that this very process is part of, whoever else had its number.
    pub(super) fn holder(&self, process: &ProcessFacts) -> Option<AttachmentId> {
        let member = self.followed.get(&process.pid)?;
        let same = member.start.is_none_or(|start| start == process.start);
        member.of.filter(|_| same)
    }

    /// The attachment that a process is part of.
    pub(super) fn program_of(&self, pid: Pid) -> Option<AttachmentId> {
        self.followed.get(&pid)?.of
    }

    /// Processes of an attachment, ascending.
    pub(super) fn pids(&self, id: AttachmentId) -> impl Iterator<Item = Pid> + '_ {
        let of = self
            .followed
            .iter()
            .filter(move |(_, member)| member.of == Some(id));
        of.map(|(pid, _)| *pid)
    }

    /// Those of them that were looked at, each with its start.
    pub(super) fn of(&self, id: AttachmentId) -> Vec<(Pid, StartTicks)> {
        let of = self
            .followed
            .iter()
            .filter(|(_, member)| member.of == Some(id));
        of.filter_map(|(pid, member)| Some((*pid, member.start?)))
            .collect()
    }

    /// Processes that were named for an attachment.
    pub(super) fn named(&self, id: AttachmentId) -> &[(Pid, StartTicks)] {
        self.named.get(&id).map_or(&[], Vec::as_slice)
    }
}

/// Whether a process that a look found which began `now` may have been made by a fork of that time.
fn may_be_born(found: &ProcessFacts, time: Time, now: Time) -> bool {
    !found.kernel && found.age + START_SLACK >= now.since(time)
}

/// The time that much earlier.
fn before(time: Time, span: Duration) -> Time {
    let span = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
    Time(time.0.saturating_sub(span))
}
