//! The rules of recording. A recording shares the source with attached programs and leaves them alone.

use std::fmt;
use std::time::Duration;

use control::rows::{RecordRequest, RecordingRow};
use control::{ErrorKind, Failure};
use numad_core::{AttachmentId, Lifecycle, Time};
use sampler::{Header, SourceStatus};
use tokio::sync::mpsc::Receiver;
use topology::Pid;

use super::attach::no_process;
use super::recording::{Over, Recording, Start};
use super::seams::{Asked, ProcessFacts};
use super::{OpenSource, Steward};
use crate::peer::Peer;

/// Recordings at a time; 4 MiB each. One user other than an admin has at most half.
pub const RECORDINGS_MAX: usize = 8;

/// Of these, those that users leave to admins.
pub(super) const ADMINS_OWN: usize = 2;

/// Longest recording that may be asked for: a day, which at 1,000 samples per second has 600 MB.
const LENGTH_MAX: Duration = Duration::from_secs(24 * 3600);

/// A recording that has begun.
pub struct Begun {
    /// Its number.
    pub id: u32,
    /// Its bytes. Nobody waits for who takes them slowly.
    pub blocks: Receiver<Vec<u8>>,
}

impl fmt::Debug for Begun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Begun")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

impl Steward {
    /// Searches on the spot, then [`Self::record_found`].
    #[cfg(test)]
    pub(crate) fn record(&mut self, peer: Peer, request: &RecordRequest) -> Result<Begun, Failure> {
        let found = self.finder(&request.target).map(|find| find());
        self.record_found(peer, request, found.transpose()?)
    }

    /// Records a program, as found by [`Self::finder`], until its time is up, it ends, someone ends the recording or nobody reads it.
    ///
    /// # Errors
    /// Names what is in the way. Nothing has changed then.
    pub fn record_found(
        &mut self,
        peer: Peer,
        request: &RecordRequest,
        found: Option<Vec<ProcessFacts>>,
    ) -> Result<Begun, Failure> {
        let length = length_of(request)?;
        let processes = self.processes(peer, &request.target, found)?;
        self.must_have_room_for_threads(peer, &processes)?;
        let first = processes.first().ok_or_else(no_process)?;
        self.must_have_tape(peer)?;
        let pids: Vec<Pid> = processes.iter().map(|process| process.pid).collect();
        self.follow(&processes)?;
        let now = self.now();
        let begun = Recording::begin(Start {
            uid: peer.uid,
            confined_to: peer.confinement(),
            named: processes
                .iter()
                .map(|process| (process.pid, process.start))
                .collect(),
            header: self.header(&pids),
            now,
            length,
        });
        let (mut recording, blocks) = begun.map_err(|error| {
            self.let_go();
            let why = std::error::Error::source(&error).map(ToString::to_string);
            let why = why.unwrap_or_default();
            Failure::new(ErrorKind::Internal, format!("{error}: {why}"))
        })?;
        self.last_recording = self.last_recording.wrapping_add(1);
        let id = self.last_recording;
        for thread in self.threads_of(id, now, &processes, peer) {
            recording.introduce(thread);
        }
        self.recordings.insert(id, recording);
        let (name, count) = (&first.command, super::attach::processes(processes.len()));
        let user = peer.confinement().map(|user| user.uid);
        self.parts.log.info_by(
            user,
            format_args!("recording {id} of `{name}` ({count}) began"),
        );
        Ok(Begun { id, blocks })
    }

    /// Ends a recording with the word that it is complete.
    ///
    /// # Errors
    /// When there is none of this number, or someone else asked for it.
    pub fn end_recording(&mut self, peer: Peer, id: u32) -> Result<RecordingRow, Failure> {
        let now = self.now();
        let recording = self.recordings.get(&id).ok_or_else(|| {
            let message = format!("there is no recording `{id}`");
            Failure::new(ErrorKind::NotFound, message).remedy("it may have ended by itself")
        })?;
        if !peer.owns(recording.uid) {
            let message = format!("recording `{id}` belongs to someone else");
            return Err(Failure::new(ErrorKind::NotPermitted, message).remedy("ask as root"));
        }
        self.drain(now);
        let row = self.recordings.get(&id).map(|told| told.row(id, now));
        let ended = self.close_recording(id, now, "it was asked to");
        let gone = || Failure::new(ErrorKind::Internal, format!("recording `{id}` is gone"));
        let (row, (samples, lost)) = row.zip(ended).ok_or_else(gone)?;
        Ok(RecordingRow {
            samples,
            lost,
            ..row
        })
    }

    /// Recordings that the peer asked for, or all for an admin.
    #[must_use]
    pub fn recordings(&self, peer: Peer) -> Vec<RecordingRow> {
        let now = self.now();
        let seen = self.recordings.iter();
        seen.filter(|(_, recording)| peer.owns(recording.uid))
            .map(|(&id, recording)| recording.row(id, now))
            .collect()
    }

    /// Gives out what recordings have gathered, and ends those that are over.
    pub(super) fn tend_recordings(&mut self, now: Time) {
        let due: Vec<u32> = self
            .recordings
            .iter()
            .filter(|(_, recording)| now >= recording.due())
            .map(|(&id, _)| id)
            .collect();
        if due.is_empty() {
            return;
        }
        self.drain(now);
        for id in due {
            let Some(recording) = self.recordings.get_mut(&id) else {
                continue;
            };
            match recording.look(now, &mut *self.parts.machine) {
                None => continue,
                Some(Over::Time) => self.close_recording(id, now, "its time is up"),
                Some(Over::Program) => self.close_recording(id, now, "the program has ended"),
                Some(Over::Reader) => self.close_recording(id, now, "nobody reads it any more"),
            };
        }
    }

    /// Ends a recording and gives its samples and losses; none if there is no such.
    fn close_recording(&mut self, id: u32, now: Time, why: &str) -> Option<(u64, u64)> {
        // Once more after all was read: with the word about what was read last.
        self.drain(now);
        let recording = self.recordings.remove(&id)?;
        let user = recording.confined_to.map(|user| user.uid);
        let (samples, lost) = recording.finish();
        self.let_go();
        self.close_if_idle();
        self.counters.recorded += samples;
        self.parts.log.info_by(
            user,
            format_args!("recording {id} ended, {why}: {samples} samples, {lost} lost"),
        );
        Some((samples, lost))
    }

    /// Leaves all recordings as they are: cut off, because the daemon ends.
    pub(super) fn abandon_recordings(&mut self) {
        while let Some((id, recording)) = self.recordings.pop_first() {
            recording.abandon();
            let log = &self.parts.log;
            log.info(format_args!("recording {id} is cut off: numad ends"));
        }
    }

    /// Follows no process further that is neither attached nor recorded.
    pub(super) fn let_go(&mut self) {
        let recorded = self.recordings.values().flat_map(Recording::pids);
        let gone = self.members.forget_all_but(&recorded.collect());
        if let Some(OpenSource { source, .. }) = &mut self.source {
            gone.into_iter().for_each(|pid| source.detach(pid));
        }
    }

    fn must_have_tape(&self, peer: Peer) -> Result<(), Failure> {
        let payer = self.payer(peer.uid);
        let users = self.recordings.values();
        let users = users.filter_map(|recording| Some(self.payer(recording.confined_to?.uid)));
        let users: Vec<u32> = users.collect();
        let own = users.iter().filter(|user| **user == payer).count();
        let fits = own < RECORDINGS_MAX / 2 && users.len() < RECORDINGS_MAX - ADMINS_OWN;
        let all = self.recordings.len();
        if all < RECORDINGS_MAX && (peer.admin || fits) {
            return Ok(());
        }
        let message = format!("`{all}` recordings are being made, which is the limit");
        Err(Failure::new(ErrorKind::Busy, message).remedy("wait until one of them has ended"))
    }

    fn header(&mut self, pids: &[Pid]) -> Header {
        let source = self.source.as_ref().map(|open| open.source.describe());
        Header {
            page_bytes: self.parts.page_bytes,
            clock: "CLOCK_MONOTONIC".to_owned(),
            source: source.as_ref().map(in_words).unwrap_or_default(),
            topology: topology::render::xml(&self.parts.topology),
            messages: self.has_ranks(pids),
        }
    }

    /// Threads that are there when a recording begins, by their names.
    fn threads_of(
        &mut self,
        id: u32,
        time: Time,
        processes: &[ProcessFacts],
        peer: Peer,
    ) -> Vec<Lifecycle> {
        // Counted down from the other end: attachments are looked at under their own numbers.
        let attachment = AttachmentId(u32::MAX - id);
        let asked = Asked {
            attachment,
            members: processes
                .iter()
                .map(|process| (process.pid, process.start))
                .collect(),
            only_of: peer.confinement(),
            shown_to: None,
            threads_max: peer
                .confinement()
                .map(|user| self.threads_left(user.uid, None)),
            pages: Vec::new(),
        };
        let seen = self.parts.machine.observe(&[asked]).programs;
        self.parts.machine.forget(attachment);
        let tasks = seen.into_iter().flat_map(|program| program.tasks);
        tasks
            .map(|task| Lifecycle::Renamed {
                time,
                pid: task.key.pid,
                tid: task.key.tid,
                name: task.name,
                exec: false,
            })
            .collect()
    }
}

fn length_of(request: &RecordRequest) -> Result<Option<Duration>, Failure> {
    let Some(length) = request.for_ms.map(Duration::from_millis) else {
        return Ok(None);
    };
    if !length.is_zero() && length <= LENGTH_MAX {
        return Ok(Some(length));
    }
    let message = format!(
        "`{}` milliseconds are no length of a recording",
        length.as_millis()
    );
    let remedy = "name one from a millisecond to a day";
    Err(Failure::new(ErrorKind::Usage, message).remedy(remedy))
}

/// A source and what it covers, in one line.
fn in_words(status: &SourceStatus) -> String {
    let covers = &status.coverage;
    format!(
        "{} ({}); loads {}, stores {}, latency {}, levels {}, physical addresses {}",
        status.name,
        status.provocation,
        covers.loads,
        covers.stores,
        covers.latency,
        covers.levels,
        covers.physical
    )
}
