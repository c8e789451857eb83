//! How attachments end: what is put back then, in which order, and what can be asked afterwards.

use std::time::Duration;

use control::Failure;
use control::rows::{UndoReport, UndoRequest};
use numad_core::{AttachmentId, Time};
use topology::Pid;

use super::program::{MISSED, Program};
use super::seams::{Named, Scope};
use super::undo_text::add_up;
use super::{Ended, Steward, attach, undo_text};
use crate::peer::Peer;

/// For how long children are put back that were made while others were. Who was put back makes no
/// more that need it.
const NEWCOMERS_FOR: Duration = Duration::from_secs(2);

/// For how long an undo of everything takes programs one by one. Those that are left then are put
/// back together: the patience for many programs that go on making processes would hold up the end
/// of the daemon for minutes.
pub(super) const ONE_BY_ONE_FOR: Duration = Duration::from_secs(20);

/// Programs that have ended and can still be asked about.
const ENDED_MAX: usize = 16;
/// How long they can be.
const ENDED_KEPT: Duration = Duration::from_secs(600);

impl Steward {
    /// Ends an attachment: engine, undo, source, in this order, so that nothing moves after, and
    /// children are heard of that are made meanwhile.
    pub(super) fn release(&mut self, id: AttachmentId) -> UndoReport {
        self.release_by(id, |steward| Some(steward.put_back_program(id)))
            .unwrap_or_default()
    }

    /// The same, put back as the caller says: none where others tell of it.
    fn release_by(
        &mut self,
        id: AttachmentId,
        put_back: impl FnOnce(&mut Self) -> Option<UndoReport>,
    ) -> Option<UndoReport> {
        let now = self.now();
        self.settle_to_the_last(now);
        let mut lacks = self.members.may_lack(id);
        if lacks && let Some(program) = self.programs.get_mut(&id) {
            program.missed_children(now);
        }
        let story = self.draft_story(id);
        let program = self.programs.remove(&id)?;
        self.engine.handle_detach(now, id);
        self.parts.machine.forget(id);
        self.parts.meters.end(id);
        let only_recorded = program.recorder.is_some();
        let user = program.confined_to.map(|user| user.uid);
        // Who looks is answered while it is put back, and finds it here.
        self.keep_ended(id, now, program);
        let report = match only_recorded {
            true => Some(UndoReport::default()),
            false => put_back(self),
        };
        if !lacks
            && self.members.may_lack(id)
            && let Some(ended) = self.ended.back_mut()
        {
            lacks = true;
            ended.program.missed_children(now);
        }
        if lacks {
            let text = format_args!("attachment {id}: {MISSED}");
            self.parts.log.info_by(user, text);
        }
        self.members.release(id);
        self.let_go();
        self.close_if_idle();
        self.tend_balancing();
        if let Some(story) = story {
            self.keep_story(story, report.clone());
        }
        report
    }

    /// Puts back a program, and then those of its processes that were made meanwhile and are found
    /// by nothing but their records, because their makers have ended.
    fn put_back_program(&mut self, id: AttachmentId) -> UndoReport {
        let mut all = self.members.all(id);
        let mut report = self.put_back(&Scope::Program(id, all.clone()));
        let end = self.now().after(NEWCOMERS_FOR);
        loop {
            self.settle_to_the_last(self.now());
            let mut newcomers = self.members.all(id);
            newcomers.retain(|pid, start| all.get(pid) != Some(start));
            if newcomers.is_empty() {
                return report;
            }
            all.extend(newcomers.clone());
            let more = self.put_back(&Scope::Leavers(id, newcomers));
            add_up(&mut report, more);
            if self.now() >= end {
                self.members.lost([id].into_iter());
                return report;
            }
        }
    }

    /// Learns of all processes that belong to programs: children that were made a moment ago have
    /// our masks too. Those of processes that had just ended at the first look are read by the
    /// second.
    fn settle_to_the_last(&mut self, now: Time) {
        for _ in 0..2 {
            self.drain(now);
            self.settle_all_members();
        }
    }

    fn keep_ended(&mut self, id: AttachmentId, now: Time, program: Program) {
        self.ended.retain(|ended| now.since(ended.at) < ENDED_KEPT);
        if self.ended.len() >= ENDED_MAX {
            self.ended.pop_front();
        }
        self.ended.push_back(Ended {
            id,
            at: now,
            program,
        });
    }

    pub(super) fn close_if_idle(&mut self) {
        let idle = self.programs.is_empty() && self.recordings.is_empty();
        if idle && self.source.take().is_some() {
            self.parts.log.debug(format_args!(
                "nothing is attached or recorded; the source is closed"
            ));
        }
    }

    /// Takes a program from its policy and puts back what was changed.
    ///
    /// # Errors
    /// When there is no such attachment, or it is someone else's.
    pub fn detach(&mut self, peer: Peer, id: AttachmentId) -> Result<UndoReport, Failure> {
        let user = self.visible(peer, id)?.confined_to;
        let report = self.release(id);
        self.parts.log.info_by(
            user.map(|user| user.uid),
            format_args!("attachment {id} detached: {}", undo_text(&report)),
        );
        Ok(report)
    }

    /// Puts back what was changed, of one process or of all, and detaches.
    ///
    /// # Errors
    /// When the process is someone else's, or all are meant and the peer is no admin.
    pub fn undo(&mut self, peer: Peer, request: &UndoRequest) -> Result<UndoReport, Failure> {
        let Some(pid) = request.pid.map(Pid) else {
            peer.must_be_admin("undo of everything")?;
            return Ok(self.undo_all());
        };
        self.must_own(peer, pid)?;
        if let Some(id) = self.members.program_of(pid) {
            return self.detach(peer, id);
        }
        let report = self.put_back(&Scope::Processes([(pid, None)].into()));
        if report == UndoReport::default() && self.parts.machine.process(pid)?.is_none() {
            return Err(attach::gone(pid));
        }
        let user = peer.confinement().map(|user| user.uid);
        self.parts.log.info_by(
            user,
            format_args!("undo of process {pid}: {}", undo_text(&report)),
        );
        Ok(report)
    }

    /// Ends recordings and experiments, detaches all and puts everything back.
    pub fn stop(&mut self) -> UndoReport {
        self.drain(self.now());
        self.abandon_experiments();
        self.abandon_recordings();
        self.undo_all()
    }

    fn undo_all(&mut self) -> UndoReport {
        let end = self.now().after(ONE_BY_ONE_FOR);
        let (mut report, mut rest) = (UndoReport::default(), Named::new());
        while let Some(&id) = self.programs.keys().next() {
            if self.now() < end {
                add_up(&mut report, self.release(id));
            } else {
                self.release_by(id, |steward| {
                    rest.extend(steward.members.all(id));
                    None
                });
            }
        }
        self.let_go();
        self.close_if_idle();
        // By name first: the journal alone does not know children that were never bound themselves
        // and whose parents have ended.
        if !rest.is_empty() {
            add_up(&mut report, self.put_back(&Scope::Processes(rest)));
        }
        // What stayed or failed the first time is tried once more.
        report.threads_parked = 0;
        report.pages_left = 0;
        report.failed.clear();
        add_up(&mut report, self.put_back(&Scope::All));
        self.parts.log.info(format_args!(
            "everything was undone: {}",
            undo_text(&report)
        ));
        report
    }
}
