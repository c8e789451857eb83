//! Who stays part of a program, and how much is looked at at once: users are told nothing of processes
//! that the kernel keeps them from looking into, and take no more of the daemon than they may.

use std::collections::{BTreeMap, BTreeSet};

use actuator::ProcessKey;
use control::rows::UndoReport;
use numad_core::{AttachmentId, Time};
use topology::Pid;

use super::members::News;
use super::seams::{Named, ProcessFacts, Scope, Unfit};
use super::{Steward, undo_text};

/// Processes that are looked at anew after one reading of the buffers, because they started another
/// program. Further ones are looked at when their window ends.
pub(super) const RECHECKED_MAX: usize = 256;

/// Processes that are looked at after one reading of the buffers, because they came or may be gone;
/// further ones after the next.
const UNSURE_MAX: usize = 256;

/// Threads that are looked at without a pause for others: with this many seen, no further program is
/// looked at in the same turn. One look costs 20 to 30 us a thread.
const THREADS_AT_ONCE: usize = 512;

impl Steward {
    /// Looks at processes that came, or may have ended or be others by now. Those that joined are
    /// noted before their parents end: a process whose parent has ended is found by nothing else,
    /// and has our masks all the same.
    pub(super) fn settle_members(&mut self) {
        let mut joined: BTreeMap<AttachmentId, Vec<ProcessFacts>> = BTreeMap::new();
        let mut unknown = Vec::new();
        for _ in 0..UNSURE_MAX {
            let Some(pid) = self.members.next_unsure() else {
                break;
            };
            let now = self.now();
            let Ok(found) = self.parts.machine.process(pid) else {
                unknown.push(pid);
                continue;
            };
            match (self.members.learn(now, pid, found.as_ref()), found) {
                (News::Joined(Some(id), _), Some(found)) => {
                    joined.entry(id).or_default().push(found);
                }
                (News::Joined(..) | News::Same, _) => {}
                (News::Ended, _) => self.left_recordings(pid),
                (News::Left, _) => self.left(pid),
            }
        }
        unknown.into_iter().for_each(|pid| self.members.doubt(pid));
        for (id, processes) in joined {
            self.let_in(id, processes);
        }
    }

    /// Processes joined a program of themselves. Nothing is written down of those that whoever
    /// attached the program may not look into: they leave it at once.
    fn let_in(&mut self, id: AttachmentId, processes: Vec<ProcessFacts>) {
        let Some(program) = self.programs.get(&id) else {
            return;
        };
        let dry_run = program.recorder.is_some();
        let whom = program.confined_to;
        let (mut fit, mut unfit) = (Vec::new(), Vec::new());
        for ProcessFacts {
            pid, start, rights, ..
        } in processes
        {
            match whom.and_then(|whom| whom.refused(&rights)) {
                Some(why) => unfit.push((pid, Unfit::Closed(why))),
                None => fit.push(ProcessKey { pid, start }),
            }
        }
        if !dry_run {
            self.parts.hand.follow(id, &fit);
        }
        let pids: Vec<Pid> = fit.iter().map(|process| process.pid).collect();
        self.note_ranks(id, &pids);
        self.shut_out(self.now(), id, &unfit);
    }

    /// Looks at all processes that wait for that, before those of a program are put back. Who looks
    /// is answered meanwhile.
    pub(super) fn settle_all_members(&mut self) {
        // Some may be put off until their makers were looked at; what cannot be looked at is left.
        let turns = 2 * self.members.unsure() / UNSURE_MAX + 2;
        for _ in 0..turns {
            if self.members.unsure() == 0 {
                break;
            }
            self.settle_members();
            self.answer_looks();
        }
    }

    /// A process has ended: nothing more is heard of it, nor of a stranger that gets its number.
    fn left(&mut self, pid: Pid) {
        if let Some(open) = &mut self.source {
            open.source.detach(pid);
        }
        self.left_recordings(pid);
    }

    fn left_recordings(&mut self, pid: Pid) {
        for recording in self.recordings.values_mut() {
            recording.left(pid);
        }
    }

    /// Programs whose windows are judged next: those that were judged longest ago, and not more at once
    /// than can be looked at before someone else waits for long. The rest follows.
    pub(super) fn next_due(&mut self, now: Time) -> Vec<AttachmentId> {
        let mut due = self.engine.due(now);
        due.sort_by_key(|id| self.programs.get(id).map(|program| program.judged));
        let mut threads = 0;
        due.retain(|id| {
            let fits = threads < THREADS_AT_ONCE;
            threads += self.programs.get(id).map_or(0, |program| program.threads);
            fits
        });
        for id in &due {
            if let Some(program) = self.programs.get_mut(id) {
                program.judged = Some(now);
            }
        }
        due.sort_unstable();
        due
    }

    /// How many threads of this user's may be attached, beside those that are: without the ones of
    /// one program.
    pub(super) fn threads_left(&self, uid: u32, but: Option<AttachmentId>) -> usize {
        let payer = self.payer(uid);
        let own = self.programs.iter().filter(|(id, program)| {
            let user = program.confined_to.map(|user| self.payer(user.uid));
            user == Some(payer) && Some(**id) != but
        });
        let threads: usize = own.map(|(_, program)| program.threads).sum();
        let most = self.parts.config.limits.user_threads_max;
        most.saturating_sub(threads)
    }

    /// Looks at processes that started another program, so that nobody is shown what the kernel
    /// would hide from them.
    pub(super) fn recheck(&mut self, now: Time, started: &[Pid]) {
        let mut unfit: BTreeMap<AttachmentId, Vec<(Pid, Unfit)>> = BTreeMap::new();
        for pid in started.iter().copied().collect::<BTreeSet<Pid>>() {
            let Some(id) = self.members.program_of(pid) else {
                continue;
            };
            let program = self.programs.get(&id);
            let whom = program.and_then(|program| program.confined_to.or(program.owner));
            let (Some(whom), Ok(Some(process))) = (whom, self.parts.machine.process(pid)) else {
                continue;
            };
            if let Some(why) = whom.refused(&process.rights)
                && self.members.holder(&process) == Some(id)
            {
                unfit.entry(id).or_default().push((pid, Unfit::Closed(why)));
            }
        }
        // All of a program at once: each undo takes its time, whatever it finds.
        for (id, unfit) in unfit {
            self.shut_out(now, id, &unfit);
        }
    }

    /// Processes do not fit into their program any more. If a user attached it, they leave the
    /// program and all of them is put back; else only admins see the program from now on.
    pub(super) fn shut_out(&mut self, now: Time, id: AttachmentId, unfit: &[(Pid, Unfit)]) {
        let Some(program) = self.programs.get_mut(&id) else {
            return;
        };
        let Some(user) = program.confined_to else {
            if let Some((pid, why)) = unfit.first()
                && program.owner.take().is_some()
            {
                self.parts.log.info(format_args!(
                    "attachment {id} is shown to admins alone: process {pid} {why}"
                ));
            }
            return;
        };
        let mut leavers = Named::new();
        for &(pid, why) in unfit {
            // One that was not looked at yet is nobody's so far.
            let Some(start) = self.members.part(pid) else {
                continue;
            };
            let text = format!("process {pid} {why}; it was put back and left alone");
            program.part(now, pid, text);
            self.engine.handle_parting(pid);
            leavers.insert(pid, Some(start));
        }
        if leavers.is_empty() {
            return;
        }
        let dry_run = program.recorder.is_some();
        self.let_go();
        let report = match dry_run {
            true => UndoReport::default(),
            false => self.put_back(&Scope::Leavers(id, leavers.clone())),
        };
        for (pid, why) in unfit.iter().filter(|(pid, _)| leavers.contains_key(pid)) {
            self.parts.log.info_by(
                Some(user.uid),
                format_args!(
                    "process {pid} left attachment {id}, for it {why}: {}",
                    undo_text(&report)
                ),
            );
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
