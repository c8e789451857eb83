//! A recording as a source.

use std::collections::VecDeque;
use std::fmt;
use std::io::Read;
use std::time::Duration;

use numad_core::{Lifecycle, Record, Time};
use topology::Pid;

use crate::recording::{Ending, Entry, Header, RecordingError, RecordingReader};
use crate::source::{AttachRefused, Coverage, Covers, Drained, Losses, Source, SourceStatus};

/// Delivers a recording in the batches in which it was delivered in the first place.
///
/// Each [`Source::drain`] gives the records up to the next mark and that mark's time, so that whoever
/// hands both to an engine makes it do what it did then. A recording without marks comes about a million
/// records at a time, or in slices of time, see [`Self::sliced`]. Everything that was recorded is delivered, attached or not.
pub struct Replay<R> {
    reader: RecordingReader<R>,
    ahead: VecDeque<Entry>,
    block: Vec<Entry>,
    error: Option<RecordingError>,
    lost: u64,
    slice: Option<Duration>,
    /// The latest time delivered.
    latest: Option<Time>,
}

impl<R> fmt::Debug for Replay<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replay")
            .field("ahead", &self.ahead.len())
            .field("error", &self.error)
            .finish_non_exhaustive()
    }
}

impl<R: Read> Replay<R> {
    /// Begins to read a recording.
    ///
    /// # Errors
    /// When it has no usable header.
    pub fn open(input: R) -> Result<Self, RecordingError> {
        Ok(Self {
            reader: RecordingReader::open(input)?,
            ahead: VecDeque::new(),
            block: Vec::new(),
            error: None,
            lost: 0,
            slice: None,
            latest: None,
        })
    }

    /// Ends batches also where a record is this much later than the first of its batch. For recordings
    /// that have no marks, such as those made from files of other programs.
    #[must_use]
    pub fn sliced(self, slice: Duration) -> Self {
        Self {
            slice: Some(slice),
            ..self
        }
    }

    /// The latest time of all that was delivered, marks included; none before anything was.
    #[must_use]
    pub const fn latest(&self) -> Option<Time> {
        self.latest
    }

    fn note(&mut self, time: Time) {
        self.latest = Some(self.latest.map_or(time, |latest| latest.max(time)));
    }

    /// What is known of the recording as a whole.
    #[must_use]
    pub const fn header(&self) -> &Header {
        self.reader.header()
    }

    /// How it ended; none before it did.
    #[must_use]
    pub const fn ending(&self) -> Option<Ending> {
        self.reader.ending()
    }

    /// What stopped the replay before its end, if something did.
    #[must_use]
    pub const fn error(&self) -> Option<&RecordingError> {
        self.error.as_ref()
    }

    /// Whether there is something to deliver.
    fn read_ahead(&mut self) -> bool {
        if self.ahead.is_empty() {
            match self.reader.next_block(&mut self.block) {
                Ok(_) => self.ahead.extend(self.block.drain(..)),
                Err(error) => self.error = Some(error),
            }
        }
        !self.ahead.is_empty()
    }
}

impl<R: Read + Send> Source for Replay<R> {
    fn attach(&mut self, _pid: Pid) -> Result<(), AttachRefused> {
        Ok(())
    }

    fn detach(&mut self, _pid: Pid) {}

    fn drain(&mut self, out: &mut dyn FnMut(&Record)) -> Drained {
        let mut drained = Drained::default();
        let mut began = None;
        while self.read_ahead() {
            while let Some(entry) = self.ahead.pop_front() {
                match entry {
                    Entry::Mark(time) => {
                        self.note(time);
                        drained.mark = Some(time);
                        return drained;
                    }
                    Entry::Record(record) => {
                        if let Some(time) = time_of(&record) {
                            let began = *began.get_or_insert(time);
                            if self.slice.is_some_and(|slice| time.since(began) >= slice) {
                                self.ahead.push_front(Entry::Record(record));
                                return drained;
                            }
                            self.note(time);
                        }
                        if let Record::Lost(count) = record {
                            self.lost = self.lost.saturating_add(count);
                        }
                        drained.records += 1;
                        out(&record);
                    }
                }
            }
            if drained.records >= BATCH_RECORDS_MAX {
                return drained;
            }
        }
        drained.ended = self.ahead.is_empty();
        drained
    }

    fn losses(&self) -> Losses {
        Losses {
            lost: self.lost,
            damaged: u64::from(self.error.is_some()),
            ..Losses::default()
        }
    }

    fn describe(&self) -> SourceStatus {
        let recorded = Covers::Partly("as far as it was recorded");
        let source = &self.reader.header().source;
        let mut notes = vec![format!("recorded from: {source}").into()];
        match (&self.error, self.reader.ending()) {
            (Some(error), _) => notes.push(error.to_string().into()),
            (None, Some(ending @ Ending::CutOff { .. })) => {
                notes.push(format!("the recording is {ending}").into());
            }
            _ => {}
        }
        SourceStatus {
            name: "replay",
            provocation: "none, it is a recording",
            coverage: Coverage {
                loads: recorded,
                stores: recorded,
                latency: recorded,
                levels: recorded,
                physical: recorded,
            },
            notes,
            cpus: 0,
            ring_bytes: 0,
        }
    }
}

/// When something was; losses and messages have no time.
const fn time_of(record: &Record) -> Option<Time> {
    match record {
        Record::Sample(sample) => Some(sample.time),
        Record::Lifecycle(
            Lifecycle::Fork { time, .. }
            | Lifecycle::Exit { time, .. }
            | Lifecycle::Renamed { time, .. },
        ) => Some(*time),
        Record::Lost(_) | Record::Sent(_) => None,
    }
}

/// Most records in a batch, give or take a block, where a recording has no mark: twice what 64
/// processors' rings hold.
const BATCH_RECORDS_MAX: u64 = 1 << 20;
