//! Who belongs to which program: each process that is followed, when it began, and for which
//! attachment.
//!
//! This is the one place that decides who joins and who leaves. The engine, the source's filter,
//! recordings, looks and undo are told, or ask here. Forks and ends as they are recorded say when
//! to look at a process; only a look says that one has ended, or that its number has become
//! another's: records come out of order, and some are lost. A process that was not looked at yet is
//! shown to nobody who would touch it.

use std::collections::{BTreeMap, BTreeSet};

use numad_core::{AttachmentId, Lifecycle};
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
    unsure: BTreeSet<Pid>,
}

#[derive(Clone, Copy, Debug)]
struct Member {
    /// None where it is only recorded.
    of: Option<AttachmentId>,
    /// None until it was looked at.
    start: Option<StartTicks>,
    /// Threads, as far as records tell, from its birth or, where it was named, from then on.
    threads: i64,
    /// Whoever made a process of this number since, if that is followed too, is part of this.
    heir: Option<Option<AttachmentId>>,
}

/// What a look at a process says of its membership.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum News {
    /// It joined of itself.
    Joined(Option<AttachmentId>, StartTicks),
    /// It has ended; its number may be a stranger's.
    Left,
    /// None.
    Same,
}

impl Members {
    /// Follows a process, for whoever will want it; true if it is news. One that had its number is
    /// forgotten.
    pub(super) fn follow(&mut self, process: &ProcessFacts) -> bool {
        let known = self.followed.get_mut(&process.pid);
        if let Some(known) = known.filter(|known| known.start.is_none_or(|it| it == process.start))
        {
            if known.of.is_none() {
                known.start = Some(process.start);
            }
            return false;
        }
        let member = Member {
            of: None,
            start: Some(process.start),
            threads: i64::from(process.threads),
            heir: None,
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
            Lifecycle::Fork { pid, parent, .. } => self.forked(pid, parent),
            Lifecycle::Exit { pid, .. } => {
                if let Some(member) = self.followed.get_mut(&pid) {
                    member.threads -= 1;
                    if member.threads <= 0 {
                        self.unsure.insert(pid);
                    }
                }
            }
            Lifecycle::Renamed { .. } => {}
        }
    }

    fn forked(&mut self, pid: Pid, parent: Pid) {
        let maker = self.followed.get(&parent).copied();
        if let Some(member) = self.followed.get_mut(&pid) {
            member.threads += 1;
            if pid != parent {
                // Late word of its own birth, or another that got its number.
                member.heir = maker.map(|maker| maker.of);
                self.unsure.insert(pid);
            }
        } else if let Some(maker) = maker {
            let member = Member {
                of: maker.of,
                start: None,
                threads: 1,
                heir: None,
            };
            self.followed.insert(pid, member);
            self.unsure.insert(pid);
        }
    }

    /// A process is to be looked at.
    pub(super) fn doubt(&mut self, pid: Pid) {
        self.unsure.insert(pid);
    }

    /// A look at a program found these processes alive: the others are to be looked at by
    /// themselves.
    pub(super) fn seen(&mut self, id: AttachmentId, alive: &BTreeSet<Pid>) {
        let missing = self.pids(id).filter(|pid| !alive.contains(pid));
        let missing: Vec<Pid> = missing.collect();
        self.unsure.extend(missing);
    }

    /// Up to so many processes that are to be looked at; they are not given twice.
    pub(super) fn take_unsure(&mut self, most: usize) -> Vec<Pid> {
        std::iter::from_fn(|| self.unsure.pop_first())
            .take(most)
            .collect()
    }

    /// Learns what a look at a process found: none where there is none of that number.
    pub(super) fn learn(&mut self, pid: Pid, found: Option<&ProcessFacts>) -> News {
        let Some(member) = self.followed.get_mut(&pid) else {
            return News::Same;
        };
        let heir = member.heir.take();
        let of = member.start.map_or(Some(member.of), |_| heir);
        match (found, of) {
            (Some(found), _) if member.start == Some(found.start) => {
                // Births were lost, or not read yet: it is looked at again when the next of its
                // threads ends.
                member.threads = member.threads.max(1);
                News::Same
            }
            (Some(found), Some(of)) => {
                (member.of, member.start) = (of, Some(found.start));
                News::Joined(of, found.start)
            }
            (None, _) | (_, None) => {
                self.followed.remove(&pid);
                News::Left
            }
        }
    }

    /// A process takes no further part in its program, nor is it put back with it.
    pub(super) fn part(&mut self, pid: Pid) {
        let member = self.followed.get_mut(&pid);
        if let Some(id) = member.and_then(|member| member.of.take())
            && let Some(named) = self.named.get_mut(&id)
        {
            named.retain(|(named, _)| *named != pid);
        }
    }

    /// Ends an attachment, and gives every process that is to be put back: those that were named,
    /// and those that are part of it now, each with its start where that is known.
    pub(super) fn release(&mut self, id: AttachmentId) -> Named {
        let named = self.named.remove(&id).into_iter().flatten();
        let mut all: Named = named.map(|(pid, start)| (pid, Some(start))).collect();
        for (pid, member) in &mut self.followed {
            if member.of == Some(id) {
                member.of = None;
                all.insert(*pid, member.start);
            }
        }
        all
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
