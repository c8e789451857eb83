//! What a recording holds, counted in one reading.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;

use numad_core::{Lifecycle, Record, Sample, Sent, Time};
use topology::{CpuId, Pid, Tid};

use super::{Ending, Entry, Header, RecordingError, RecordingReader};

/// Threads that are told apart; more are only counted. Four times what the product promises to serve
/// would be enough, but a recording may last for a day.
pub const THREADS_MAX: usize = 1 << 18;

/// A recording in figures.
#[derive(Debug)]
pub struct Survey {
    /// Its header.
    pub header: Header,
    /// Samples.
    pub samples: u64,
    /// Messages that processes sent each other, and their bytes.
    pub messages: u64,
    /// See `messages`.
    pub message_bytes: u64,
    /// Samples that were lost, as far as it tells.
    pub lost: u64,
    /// Times that what had arrived was handed on.
    pub marks: u64,
    /// The earliest and the latest time in it; none if it has none.
    pub span: Option<(Time, Time)>,
    /// Threads that were seen, by process and number.
    pub threads: BTreeMap<(Pid, Tid), SeenThread>,
    /// Records of threads beyond [`THREADS_MAX`].
    pub untold: u64,
    /// Processors that samples were taken on.
    pub cpus: BTreeSet<CpuId>,
    /// How it ends.
    pub ending: Ending,
    /// What is wrong with it from there on, if it is damaged.
    pub damage: Option<RecordingError>,
}

/// A thread in a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SeenThread {
    /// Samples of it.
    pub samples: u64,
    /// When its first and its last sample were taken, or its process sent or got messages and it is the first thread of
    /// that; none without any.
    pub sampled: Option<(Time, Time)>,
    /// Where the first was taken.
    pub cpu: Option<CpuId>,
    /// When it was made, where that was seen, and by which process.
    pub born: Option<(Time, Pid)>,
}

impl Survey {
    /// Reads a recording to its end or to where it is damaged.
    ///
    /// # Errors
    /// When it has no usable header.
    pub fn of(input: impl Read) -> Result<Self, RecordingError> {
        let mut reader = RecordingReader::open(input)?;
        let mut survey = Self {
            header: reader.header().clone(),
            samples: 0,
            messages: 0,
            message_bytes: 0,
            lost: 0,
            marks: 0,
            span: None,
            threads: BTreeMap::new(),
            untold: 0,
            cpus: BTreeSet::new(),
            ending: Ending::Complete,
            damage: None,
        };
        let mut entries = Vec::new();
        loop {
            match reader.next_block(&mut entries) {
                Ok(true) => entries.drain(..).for_each(|entry| survey.take(&entry)),
                Ok(false) => break,
                Err(damage) => {
                    survey.damage = Some(damage);
                    break;
                }
            }
        }
        survey.ending = reader
            .ending()
            .expect("the reader has said that there is no more");
        Ok(survey)
    }

    /// Processes that were seen.
    #[must_use]
    pub fn processes(&self) -> BTreeSet<Pid> {
        self.threads.keys().map(|&(pid, _)| pid).collect()
    }

    fn take(&mut self, entry: &Entry) {
        match entry {
            Entry::Mark(time) => {
                self.marks += 1;
                self.see(*time);
            }
            Entry::Record(Record::Lost(count)) => self.lost = self.lost.saturating_add(*count),
            Entry::Record(Record::Sample(sample)) => self.sample(sample),
            Entry::Record(Record::Sent(sent)) => self.sent(sent),
            Entry::Record(Record::Lifecycle(change)) => self.change(change),
        }
    }

    fn sample(&mut self, sample: &Sample) {
        self.samples += 1;
        self.see(sample.time);
        self.cpus.insert(sample.cpu);
        if let Some(thread) = self.thread(sample.pid, sample.tid) {
            thread.samples += 1;
            thread.cpu.get_or_insert(sample.cpu);
            thread.sampled = Some(widened(thread.sampled, sample.time));
        }
    }

    fn sent(&mut self, sent: &Sent) {
        self.messages = self.messages.saturating_add(sent.messages);
        self.message_bytes = self.message_bytes.saturating_add(sent.bytes);
        let Some((_, now)) = self.span else {
            return;
        };
        // Who sends or receives does something, as who is sampled; of threads that are not known here nothing is said.
        for pid in [sent.from, sent.to] {
            if let Some(thread) = self.threads.get_mut(&(pid, Tid(pid.0))) {
                thread.sampled = Some(widened(thread.sampled, now));
            }
        }
    }

    fn change(&mut self, change: &Lifecycle) {
        let (Lifecycle::Fork { time, pid, tid, .. }
        | Lifecycle::Exit { time, pid, tid }
        | Lifecycle::Renamed { time, pid, tid, .. }) = change;
        self.see(*time);
        if let Some(thread) = self.thread(*pid, *tid)
            && let Lifecycle::Fork { time, parent, .. } = change
        {
            thread.born.get_or_insert((*time, *parent));
        }
    }

    fn thread(&mut self, pid: Pid, tid: Tid) -> Option<&mut SeenThread> {
        let room = self.threads.len() < THREADS_MAX;
        if !room && !self.threads.contains_key(&(pid, tid)) {
            self.untold += 1;
            return None;
        }
        Some(self.threads.entry((pid, tid)).or_default())
    }

    fn see(&mut self, time: Time) {
        self.span = Some(widened(self.span, time));
    }
}

fn widened(span: Option<(Time, Time)>, time: Time) -> (Time, Time) {
    span.map_or((time, time), |(first, last)| {
        (first.min(time), last.max(time))
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use numad_core::{AccessKind, ServedBy};

    use super::*;
    use crate::RecordingWriter;

    fn sample(time: u64, tid: u32, cpu: u32) -> Record {
        Record::Sample(Sample {
            time: Time(time),
            pid: Pid(7),
            tid: Tid(tid),
            address: 0x1000,
            physical: 0,
            cpu: CpuId(cpu),
            kind: AccessKind::Load,
            served: ServedBy::Unknown,
            weight: 0,
            period: 1,
        })
    }

    fn bytes() -> Vec<u8> {
        let mut writer =
            RecordingWriter::new(Vec::new(), Path::new("x"), &Header::default()).unwrap();
        let fork = Lifecycle::Fork {
            time: Time(3),
            pid: Pid(7),
            tid: Tid(9),
            parent: Pid(7),
        };
        for record in [sample(5, 7, 1), Record::Lifecycle(fork), sample(4, 9, 2)] {
            writer.record(&record).unwrap();
        }
        writer.flush().unwrap();
        writer.record(&sample(8, 7, 300)).unwrap();
        writer.record(&Record::Lost(6)).unwrap();
        writer.mark(Time(9)).unwrap();
        writer.finish().unwrap()
    }

    #[test]
    fn everything_is_counted() {
        let survey = Survey::of(&bytes()[..]).unwrap();
        assert_eq!((survey.samples, survey.lost, survey.marks), (3, 6, 1));
        assert_eq!(survey.span, Some((Time(3), Time(9))));
        assert_eq!(survey.cpus, [CpuId(1), CpuId(2), CpuId(300)].into());
        assert_eq!(survey.processes(), [Pid(7)].into());
        assert_eq!((survey.ending, survey.untold), (Ending::Complete, 0));
        let first = SeenThread {
            samples: 2,
            sampled: Some((Time(5), Time(8))),
            cpu: Some(CpuId(1)),
            born: None,
        };
        assert_eq!(survey.threads[&(Pid(7), Tid(7))], first);
        let born = survey.threads[&(Pid(7), Tid(9))].born;
        assert_eq!(born, Some((Time(3), Pid(7))));
    }

    #[test]
    fn what_comes_before_the_damage_is_counted() {
        let whole = bytes();
        let second = whole.len() - 40;
        let mut damaged = whole.clone();
        damaged[second] ^= 1;
        let survey = Survey::of(&damaged[..]).unwrap();
        assert!(survey.damage.is_some());
        assert_eq!(survey.samples, 2);
        for length in 0..whole.len() {
            if let Ok(survey) = Survey::of(&whole[..length]) {
                assert!(survey.samples <= 3 && survey.damage.is_none());
                assert!(matches!(survey.ending, Ending::CutOff { .. }));
            }
        }
    }
}
