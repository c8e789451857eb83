//! Recordings: what the source delivers about some processes, written in the format of recordings
//! into a bounded pipe that the server empties towards whoever asked.
//!
//! The engine thread never waits for a reader. A pipe that is full takes nothing more until there is
//! room again, and what was left out stands in the recording as lost.
//!
//! One who is no admin gets nothing that is not theirs. A process that starts a program with another
//! user's rights is left out from then on. Its samples may have been read before the word that it
//! did, from the buffer of another processor; so what is written waits for one more reading of the
//! buffers. Physical addresses and those of the kernel are left out too.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use control::rows::RecordingRow;
use numad_core::{Lifecycle, Record, Sample, Time};
use sampler::filter::Filter;
use sampler::recording::WriteError;
use sampler::{Header, RecordingWriter};
use tokio::sync::mpsc::{self, Receiver, Sender};
use topology::{Pid, StartTicks};

use super::seams::Machine;
use crate::peer::Credentials;

/// Blocks that wait for the reader: 4 MiB, which is three seconds of 100,000 samples per second.
const BLOCKS_MAX: usize = 64;

/// Places for blocks that samples may not take: what one append, a flush and the end need.
const BLOCKS_RESERVED: usize = 4;

/// How often what was gathered is given out though it fills no block, and processes are looked at. Far
/// shorter than the server's patience with a silent connection.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Records that wait to be found harmless; 20 MiB. More than that are lost.
const HELD_MAX: usize = 1 << 18;

/// Processes that are looked at after one reading of the buffers; more than these are left out.
const SUSPECTS_MAX: usize = 256;

/// Processes that are looked at once a second though nothing was heard of them.
const SUSPECTS_AT_A_LOOK: usize = 64;

/// A recording that is being made.
#[derive(Debug)]
pub(super) struct Recording {
    /// Who asked.
    pub(super) uid: u32,
    /// Leave out what these may not look into; none when an admin asked.
    pub(super) confined_to: Option<Credentials>,
    filter: Filter,
    /// Processes that were named and live.
    named: Vec<(Pid, StartTicks)>,
    writer: RecordingWriter<Pipe>,
    /// The same pipe, to see how full it is.
    pipe: Sender<Vec<u8>>,
    began: Time,
    until: Option<Time>,
    next_look: Time,
    samples: u64,
    lost: u64,
    /// Of these, what is not in the recording yet.
    unsaid: u64,
    held: Held,
    /// Which process is looked at next, with or without a reason.
    next_suspect: usize,
    broken: bool,
}

/// What waits to be found harmless.
#[derive(Debug, Default)]
struct Held {
    /// Of the last reading of the buffers, and of the one before.
    last: Vec<Record>,
    before: Vec<Record>,
    /// Processes that started another program and when, as of the last reading and the one before,
    /// and processes that were made.
    suspects: Vec<(Pid, Time)>,
    suspects_before: Vec<(Pid, Time)>,
    made: Vec<Pid>,
    /// Processes of which nothing was heard, and whose turn it is to be looked at.
    watched: Vec<Pid>,
    /// Something was lost, and it could have been the word about anyone.
    all: bool,
}

/// What a recording begins with.
#[derive(Debug)]
pub(super) struct Start {
    pub(super) uid: u32,
    pub(super) confined_to: Option<Credentials>,
    pub(super) named: Vec<(Pid, StartTicks)>,
    pub(super) header: Header,
    pub(super) now: Time,
    pub(super) length: Option<Duration>,
}

/// Why a recording goes no further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Over {
    /// Its time is up.
    Time,
    /// Its last process has ended.
    Program,
    /// Nobody reads it any more.
    Reader,
}

/// Where a recording is written; what does not fit is an error.
#[derive(Debug)]
pub(super) struct Pipe(Sender<Vec<u8>>);

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let sent = self.0.try_send(bytes.to_vec());
        sent.map_err(|_full_or_closed| io::Error::from(io::ErrorKind::BrokenPipe))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Recording {
    /// Begins one, with its header in the pipe already.
    ///
    /// # Errors
    /// When the machine's description is too long for a header.
    pub(super) fn begin(start: Start) -> Result<(Self, Receiver<Vec<u8>>), WriteError> {
        let (pipe, blocks) = mpsc::channel(BLOCKS_MAX);
        let name = Path::new("recording");
        let writer = RecordingWriter::new(Pipe(pipe.clone()), name, &start.header)?;
        let mut filter = Filter::new();
        for &(pid, _) in &start.named {
            filter.add(pid);
        }
        let recording = Self {
            uid: start.uid,
            confined_to: start.confined_to,
            filter,
            named: start.named,
            writer,
            pipe,
            began: start.now,
            until: start.length.map(|length| start.now.after(length)),
            next_look: start.now.after(LOOK_EVERY),
            samples: 0,
            lost: 0,
            unsaid: 0,
            // Who was searched for may be another by now.
            held: Held {
                all: true,
                ..Held::default()
            },
            next_suspect: 0,
            broken: false,
        };
        Ok((recording, blocks))
    }

    /// When something is to be done at the latest.
    pub(super) fn due(&self) -> Time {
        self.until
            .map_or(self.next_look, |until| until.min(self.next_look))
    }

    /// Processes it needs the source to follow.
    pub(super) fn pids(&self) -> impl Iterator<Item = Pid> + '_ {
        self.filter.pids()
    }

    /// The row for those who look.
    pub(super) fn row(&self, id: u32, now: Time) -> RecordingRow {
        RecordingRow {
            id,
            uid: self.uid,
            pids: self.pids().map(|pid| pid.0).collect(),
            recorded_s: now.since(self.began).as_secs_f64(),
            samples: self.samples,
            lost: self.lost,
        }
    }

    /// Names a thread that was there before.
    pub(super) fn introduce(&mut self, thread: Lifecycle) {
        self.write(&Record::Lifecycle(thread));
    }

    /// Takes one record of the source, if it is of a process that is recorded.
    pub(super) fn take(&mut self, record: &Record) {
        let passes = match record {
            Record::Sample(sample) => self.filter.passes(sample.pid.0) && self.may_be_seen(sample),
            Record::Lost(count) => {
                self.lose(*count);
                self.held.all = true;
                false
            }
            Record::Lifecycle(change) => self.follow(change),
            Record::Sent(sent) => self.filter.passes(sent.from.0) && self.filter.passes(sent.to.0),
        };
        if !passes {
            return;
        }
        if self.confined_to.is_none() {
            self.write(record);
        } else if self.held.last.len() + self.held.before.len() < HELD_MAX {
            self.held.last.push(record.clone());
        } else {
            self.lose(1);
        }
    }

    /// Notes who comes and goes; true for what belongs into the recording.
    fn follow(&mut self, change: &Lifecycle) -> bool {
        match change {
            Lifecycle::Fork {
                pid, tid, parent, ..
            } => {
                if self.confined_to.is_some() && pid.0 == tid.0 {
                    self.held.made.push(*pid);
                }
                self.filter.forked(pid.0, parent.0)
            }
            Lifecycle::Exit { pid, .. } => self.filter.passes(pid.0),
            Lifecycle::Renamed {
                pid, exec, time, ..
            } => {
                let passes = self.filter.passes(pid.0);
                if passes && *exec {
                    self.held.suspects.push((*pid, *time));
                }
                passes
            }
        }
    }

    /// Addresses of the kernel are nobody's; it has the upper half of the address space everywhere.
    const fn may_be_seen(&self, sample: &Sample) -> bool {
        self.confined_to.is_none() || sample.address >> 63 == 0
    }

    /// A process has ended, or its number is another's.
    pub(super) fn left(&mut self, pid: Pid) {
        self.filter.remove(pid);
    }

    /// Everything that had arrived by now was taken.
    pub(super) fn settle(&mut self, now: Time, machine: &mut dyn Machine) {
        if let Some(whom) = self.confined_to {
            self.leave_out_the_unseen();
            self.leave_out_strangers(whom, machine);
            self.write_held();
        }
        self.held.suspects_before = std::mem::take(&mut self.held.suspects);
        self.held.made.clear();
        self.held.watched.clear();
        self.held.all = false;
        if self.has_room() {
            self.mark(now);
        }
    }

    /// Forgets what programs did that had been left again before anyone could look at them: what a
    /// process is now does not tell what it was then. The word that one was left may have come
    /// after the reading that it was looked at for.
    fn leave_out_the_unseen(&mut self) {
        let mut spans: BTreeMap<Pid, (Time, Time)> = BTreeMap::new();
        let suspects = self.held.suspects_before.iter();
        for &(pid, time) in suspects.chain(&self.held.suspects) {
            let (first, last) = spans.entry(pid).or_insert((time, time));
            (*first, *last) = ((*first).min(time), (*last).max(time));
        }
        spans.retain(|_, (first, last)| first < last);
        if spans.is_empty() {
            return;
        }
        let unseen = |record: &Record| {
            let Record::Sample(sample) = record else {
                return false;
            };
            let span = spans.get(&sample.pid);
            span.is_some_and(|(first, last)| (*first..=*last).contains(&sample.time))
        };
        let before = self.held.last.len() + self.held.before.len();
        self.held.last.retain(|record| !unseen(record));
        self.held.before.retain(|record| !unseen(record));
        let dropped = before - self.held.last.len() - self.held.before.len();
        self.lose(u64::try_from(dropped).unwrap_or(u64::MAX));
    }

    /// Looks at those who may have become someone else's, and forgets the ones that have.
    fn leave_out_strangers(&mut self, whom: Credentials, machine: &mut dyn Machine) {
        let suspects: Vec<Pid> = if self.held.all {
            self.filter.pids().collect()
        } else {
            let suspects = self.held.suspects.iter().map(|(pid, _)| pid);
            suspects.chain(&self.held.watched).copied().collect()
        };
        let mut strangers = strangers(whom, machine, &suspects);
        if strangers.is_empty() {
            return;
        }
        // What they made since is as strange.
        let made = std::mem::take(&mut self.held.made);
        strangers.extend(self::strangers(whom, machine, &made));
        for &pid in &strangers {
            self.filter.remove(pid);
            self.named.retain(|(named, _)| *named != pid);
        }
        let mut dropped = 0;
        let mut stays = |record: &Record| {
            let strange = strangers.contains(&pid_of(record));
            dropped += u64::from(strange && matches!(record, Record::Sample(_)));
            !strange
        };
        self.held.last.retain(&mut stays);
        self.held.before.retain(&mut stays);
        // One that has ended since cannot be told from a stranger, and was perhaps none.
        self.lose(dropped);
    }

    /// Writes what was found harmless: what has waited since the reading before.
    fn write_held(&mut self) {
        let last = std::mem::take(&mut self.held.last);
        for record in std::mem::replace(&mut self.held.before, last) {
            self.write(&record);
        }
    }

    /// Gives out what has gathered and looks who is there; says so when it is over.
    pub(super) fn look(&mut self, now: Time, machine: &mut dyn Machine) -> Option<Over> {
        if self.broken || self.pipe.is_closed() {
            return Some(Over::Reader);
        }
        if self.until.is_some_and(|until| now >= until) {
            return Some(Over::Time);
        }
        if now < self.next_look {
            return None;
        }
        self.next_look = now.after(LOOK_EVERY);
        if self.has_room() {
            self.say_lost();
            self.broken |= self.writer.flush().is_err();
        }
        self.suspect_some();
        let gone = |machine: &mut dyn Machine, &(pid, start): &(Pid, StartTicks)| {
            let found = machine.process(pid);
            found.is_ok_and(|found| found.is_none_or(|found| found.start != start))
        };
        for at in (0..self.named.len()).rev() {
            if gone(machine, &self.named[at]) {
                let (pid, _) = self.named.remove(at);
                self.filter.remove(pid);
            }
        }
        self.filter.is_empty().then_some(Over::Program)
    }

    /// Writes out the word that this is all; gives samples and losses. Two readings of the buffers
    /// were a moment ago: what waits came between them.
    pub(super) fn finish(mut self) -> (u64, u64) {
        let waiting = self.held.before.iter().chain(&self.held.last);
        let samples = waiting.filter(|record| matches!(record, Record::Sample(_)));
        self.lose(u64::try_from(samples.count()).unwrap_or(u64::MAX));
        self.say_lost();
        // There is room kept for the end; without a reader there is nothing to end.
        drop(self.writer.finish());
        (self.samples, self.lost)
    }

    /// Writes out what there is without a word that this is all.
    pub(super) fn abandon(mut self) {
        // What has waited for less than a reading is left out: nobody will look at it any more.
        drop(self.writer.flush());
    }

    /// Has some processes looked at after the next reading, other ones each time: a process can close
    /// itself to its user without starting a program.
    fn suspect_some(&mut self) {
        if self.confined_to.is_none() {
            return;
        }
        let pids: Vec<Pid> = self.filter.pids().collect();
        let from = self.next_suspect.min(pids.len());
        let few = pids[from..].iter().take(SUSPECTS_AT_A_LOOK);
        self.held.watched.extend(few);
        self.next_suspect = from + SUSPECTS_AT_A_LOOK;
        if self.next_suspect >= pids.len() {
            self.next_suspect = 0;
        }
    }

    fn write(&mut self, record: &Record) {
        let is_sample = matches!(record, Record::Sample(_));
        if !self.has_room() {
            if is_sample {
                self.lose(1);
            }
            return;
        }
        self.say_lost();
        self.samples += u64::from(is_sample);
        let written = match record {
            Record::Sample(sample) if self.confined_to.is_some() => {
                self.writer.record(&Record::Sample(Sample {
                    physical: 0,
                    ..*sample
                }))
            }
            record => self.writer.record(record),
        };
        self.broken |= written.is_err();
    }

    fn mark(&mut self, now: Time) {
        self.say_lost();
        self.broken |= self.writer.mark(now).is_err();
    }

    fn lose(&mut self, count: u64) {
        self.lost = self.lost.saturating_add(count);
        self.unsaid = self.unsaid.saturating_add(count);
    }

    fn say_lost(&mut self) {
        let unsaid = std::mem::take(&mut self.unsaid);
        if unsaid > 0 {
            self.broken |= self.writer.record(&Record::Lost(unsaid)).is_err();
        }
    }

    fn has_room(&self) -> bool {
        !self.broken && self.pipe.capacity() > BLOCKS_RESERVED
    }
}

/// Those of these processes that `whom` may not look into, or that are not there to be asked about.
fn strangers(whom: Credentials, machine: &mut dyn Machine, pids: &[Pid]) -> Vec<Pid> {
    let own = |machine: &mut dyn Machine, pid: Pid| {
        let found = machine.process(pid).ok().flatten();
        found.is_some_and(|found| whom.refused(&found.rights).is_none())
    };
    let looked_at = pids.iter().take(SUSPECTS_MAX);
    let strange = looked_at.filter(|pid| !own(machine, **pid)).copied();
    let mut strangers: Vec<Pid> = strange.collect();
    strangers.extend(pids.iter().skip(SUSPECTS_MAX));
    strangers
}

/// The process that a record is about.
const fn pid_of(record: &Record) -> Pid {
    match record {
        Record::Sample(sample) => sample.pid,
        Record::Lifecycle(
            Lifecycle::Fork { pid, .. }
            | Lifecycle::Exit { pid, .. }
            | Lifecycle::Renamed { pid, .. },
        ) => *pid,
        Record::Sent(sent) => sent.from,
        Record::Lost(_) => Pid(0),
    }
}
