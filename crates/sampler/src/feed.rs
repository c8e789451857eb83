//! The source `feed`: samples that another program takes, through a FIFO or a Unix socket.
//!
//! What comes is a recording (`docs/recording-format.md`), as a stream. [`Stream`] makes entries of its bytes,
//! [`Gate`] lets those through that can be true and are about attached processes, and [`Feed`] reads the file, which
//! only root or the daemon's own user may be able to write to. Its writer may come late, stop, die and come again:
//! that changes what `status` says, and nothing else.

mod door;
mod stream;

use std::borrow::Cow;
use std::fmt;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use numad_core::{Lifecycle, Record, Sample, Time};
use topology::Pid;

use crate::filter::{Filter, PROCESSES_MAX};
use crate::provoke::Clock;
use crate::recording::{Entry, Header};
use crate::source::{AttachRefused, Coverage, Covers, Drained, Losses, Source, SourceStatus};

use door::Door;
pub(crate) use door::is_trusted;
pub use door::{FeedError, Unfit, check};
pub use stream::Stream;

/// Most bytes taken in one reading: four times what a feed holds, so that one that is written to while it is read
/// cannot keep us for long. About 400,000 samples.
const READING_MAX: usize = 4 << 20;

/// Bytes asked of the kernel at once.
const CHUNK: usize = 64 << 10;

/// How long the first header is waited for when a feed is opened, so that a feed that cannot be read is refused where
/// somebody looks. Writers that have it ready need a thousandth of that.
const HEADER_WAIT: Duration = Duration::from_millis(200);

/// How long a feed that could not be read is left alone.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// A writer who sends nothing for so long is told to have stalled.
const STALLED_AFTER: Duration = Duration::from_secs(5);

/// Most characters of a feed's own description that are shown.
const DESCRIPTION_MAX: usize = 200;

/// Reads a feed. See the module.
pub struct Feed {
    path: PathBuf,
    clock: Clock,
    door: Option<Door>,
    stream: Stream,
    gate: Gate,
    chunk: Vec<u8>,
    /// What is amiss, if something is.
    trouble: Option<FeedError>,
    retry_at: Time,
    /// When bytes came last.
    heard: Option<Time>,
    /// Whether the writer has gone.
    alone: bool,
    /// Times that what came could not be read.
    damaged: u64,
}

impl fmt::Debug for Feed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Feed")
            .field("path", &self.path)
            .field("trouble", &self.trouble)
            .finish_non_exhaustive()
    }
}

impl Feed {
    /// Opens the feed at a path; `clock` tells the time in the terms of the feed's, which is `CLOCK_MONOTONIC`.
    ///
    /// Waits a fifth of a second at most for a writer to introduce itself. Without one the feed is open all the same.
    ///
    /// # Errors
    /// When nothing fit is there, or what a writer says at once cannot be read.
    pub fn open(path: &Path, clock: Clock) -> Result<Self, FeedError> {
        let door = Door::open(path).map_err(|why| FeedError {
            path: path.to_owned(),
            why,
        })?;
        let mut feed = Self {
            path: path.to_owned(),
            clock,
            door: Some(door),
            stream: Stream::new(),
            gate: Gate::default(),
            chunk: vec![0; CHUNK],
            trouble: None,
            retry_at: Time(0),
            heard: None,
            alone: true,
            damaged: 0,
        };
        feed.meet();
        match feed.trouble.take() {
            Some(error) => Err(error),
            None => Ok(feed),
        }
    }

    /// Waits for the first header.
    fn meet(&mut self) {
        const TURNS: u32 = 20;
        let turn = HEADER_WAIT / TURNS;
        let patience = PollTimeout::try_from(turn).unwrap_or(PollTimeout::ZERO);
        for _ in 0..TURNS {
            if let Some(door) = &self.door {
                let mut waited = [PollFd::new(door.as_fd(), PollFlags::POLLIN)];
                let polled = poll(&mut waited, patience);
                debug_assert!(polled.is_ok() || polled == Err(Errno::EINTR));
            }
            self.read(&mut |_| {});
            let known = self.stream.header().is_some();
            if known || self.trouble.is_some() || self.door.is_none() {
                return;
            }
        }
    }

    /// Reads what there is, and gives how many bytes that were.
    fn read(&mut self, out: &mut dyn FnMut(&Record)) -> usize {
        let now = (self.clock)();
        let mut bytes = 0;
        while bytes < READING_MAX {
            let Some(door) = &mut self.door else {
                break;
            };
            match door.read(&mut self.chunk) {
                Ok(None) => {
                    self.alone = false;
                    break;
                }
                Ok(Some(0)) => {
                    self.left(now);
                    break;
                }
                Ok(Some(length)) => {
                    bytes += length;
                    self.alone = false;
                    self.heard = Some(now);
                    if let Err(why) = self.take(length, now, out) {
                        self.fail(now, why);
                    }
                }
                Err(error) => self.fail(now, Unfit::Kernel(error)),
            }
        }
        bytes
    }

    fn take(
        &mut self,
        length: usize,
        now: Time,
        out: &mut dyn FnMut(&Record),
    ) -> Result<(), Unfit> {
        let gate = &mut self.gate;
        let known = self.stream.header().is_some();
        self.stream
            .take(&self.chunk[..length], &mut |header, entry| {
                // Times of another clock may come with the very header that is refused for it.
                if header.clock == CLOCK {
                    gate.pass(entry, now, out);
                }
            })
            .map_err(Unfit::Content)?;
        match self.stream.header() {
            Some(Header { clock, .. }) if clock != CLOCK => Err(Unfit::Clock(shown(clock))),
            Some(_) if !known => {
                self.trouble = None;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// The writer went. The next one begins anew.
    fn left(&mut self, now: Time) {
        self.damaged += u64::from(self.stream.is_within());
        self.stream = Stream::new();
        self.alone = true;
        if self.door.as_ref().is_some_and(|door| !door.stays) {
            self.door = None;
            self.retry_at = now.after(RETRY_AFTER);
        }
    }

    /// What came cannot be read. Closing tells the writer, who may begin anew.
    fn fail(&mut self, now: Time, why: Unfit) {
        self.damaged += 1;
        self.shut(now, why);
    }

    fn shut(&mut self, now: Time, why: Unfit) {
        self.door = None;
        self.stream = Stream::new();
        self.alone = true;
        self.retry_at = now.after(RETRY_AFTER);
        self.trouble = Some(FeedError {
            path: self.path.clone(),
            why,
        });
    }

    fn reopen(&mut self) {
        let now = (self.clock)();
        if self.door.is_some() || now < self.retry_at {
            return;
        }
        match Door::open(&self.path) {
            Ok(door) => self.door = Some(door),
            Err(why) => self.shut(now, why),
        }
    }

    fn notes(&self) -> Vec<Cow<'static, str>> {
        let mut notes = Vec::new();
        if let Some(header) = self
            .stream
            .header()
            .filter(|header| !header.source.is_empty())
        {
            notes.push(format!("fed by: {}", shown(&header.source)).into());
        }
        if let Some(trouble) = &self.trouble {
            notes.push(format!("{trouble}; {}", trouble.remedy()).into());
        } else if self.alone {
            notes.push(format!("nobody writes to `{}`", self.path.display()).into());
        } else if let Some(quiet) = self.heard.map(|heard| (self.clock)().since(heard))
            && quiet >= STALLED_AFTER
        {
            let seconds = quiet.as_secs();
            notes.push(format!("whoever feeds has sent nothing for {seconds} s").into());
        }
        if self.damaged > 0 {
            notes.push(format!("{} times what came could not be read", self.damaged).into());
        }
        notes
    }
}

/// The one clock of feeds: the daemon's.
const CLOCK: &str = "CLOCK_MONOTONIC";

/// Text of a feed as it may be shown: in one line, and not endless.
fn shown(text: &str) -> String {
    text.chars()
        .map(|sign| if sign.is_control() { '?' } else { sign })
        .take(DESCRIPTION_MAX)
        .collect()
}

impl Source for Feed {
    fn attach(&mut self, pid: Pid) -> Result<(), AttachRefused> {
        if self.gate.filter.add(pid) {
            return Ok(());
        }
        Err(AttachRefused {
            pid,
            limit: PROCESSES_MAX,
        })
    }

    fn detach(&mut self, pid: Pid) {
        self.gate.filter.remove(pid);
    }

    fn drain(&mut self, out: &mut dyn FnMut(&Record)) -> Drained {
        self.reopen();
        let before = self.gate.passed;
        let capacity = self.door.as_ref().map_or(1, |door| door.capacity);
        let bytes = self.read(out);
        let fill = (bytes.saturating_mul(1000) / capacity).min(1000);
        Drained {
            records: self.gate.passed - before,
            fill_permille: u16::try_from(fill).unwrap_or(1000),
            ended: false,
            mark: None,
        }
    }

    fn losses(&self) -> Losses {
        Losses {
            damaged: self.damaged,
            unfollowed: self.gate.filter.unfollowed(),
            ..self.gate.losses
        }
    }

    fn describe(&self) -> SourceStatus {
        let told = Covers::Partly("as far as the feed tells");
        SourceStatus {
            name: "feed",
            provocation: "another program samples",
            coverage: Coverage {
                loads: told,
                stores: told,
                latency: told,
                levels: told,
                physical: told,
            },
            notes: self.notes(),
            cpus: 0,
            ring_bytes: self.door.as_ref().map_or(0, |door| door.capacity),
        }
    }
}

/// Lets entries of a feed through that are about followed processes, and that can be true.
#[derive(Debug, Default)]
pub struct Gate {
    filter: Filter,
    losses: Losses,
    /// Records let through.
    passed: u64,
}

impl Gate {
    /// Follows a process.
    pub fn follow(&mut self, pid: Pid) -> bool {
        self.filter.add(pid)
    }

    /// What was not let through.
    #[must_use]
    pub const fn losses(&self) -> Losses {
        self.losses
    }

    /// Hands on what may pass at this time.
    pub fn pass(&mut self, entry: Entry, now: Time, out: &mut dyn FnMut(&Record)) {
        // Marks are for replays.
        let Entry::Record(record) = entry else {
            return;
        };
        let record = match record {
            Record::Sample(sample) => self.sample(sample, now).map(Record::Sample),
            Record::Lifecycle(change) => self.change(change, now).map(Record::Lifecycle),
            Record::Lost(count) => {
                self.losses.lost = self.losses.lost.saturating_add(count);
                Some(Record::Lost(count))
            }
            Record::Sent(sent) => {
                let ours = [sent.from, sent.to].map(|pid| self.filter.passes(pid.0));
                ours.iter().all(|ours| *ours).then_some(record)
            }
        };
        if let Some(record) = record {
            self.passed += 1;
            out(&record);
        }
    }

    fn sample(&mut self, sample: Sample, now: Time) -> Option<Sample> {
        if !self.filter.passes(sample.pid.0) {
            return None;
        }
        if sample.address >> 63 != 0 {
            self.losses.kernel += 1;
            return None;
        }
        if sample.period == 0 || sample.address == 0 || sample.tid.0 == 0 {
            self.losses.invalid += 1;
            return None;
        }
        Some(Sample {
            time: sample.time.min(now),
            ..sample
        })
    }

    fn change(&mut self, mut change: Lifecycle, now: Time) -> Option<Lifecycle> {
        let followed = match &change {
            Lifecycle::Fork { pid, parent, .. } => self.filter.forked(pid.0, parent.0),
            Lifecycle::Exit { pid, .. } | Lifecycle::Renamed { pid, .. } => {
                self.filter.passes(pid.0)
            }
        };
        let (Lifecycle::Fork { time, .. }
        | Lifecycle::Exit { time, .. }
        | Lifecycle::Renamed { time, .. }) = &mut change;
        *time = (*time).min(now);
        followed.then_some(change)
    }
}

#[cfg(test)]
mod tests;
