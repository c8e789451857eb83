//! A file of perf into a recording of ours.

use std::fmt;
use std::io::{Read, Write};
use std::time::Duration;

use numad_core::{AccessKind, Lifecycle, Record, Sample, ServedBy, Time};
use topology::{CpuId, Pid, Tid};

use super::error::PerfDataError;
use super::order::{HELD_MAX, Sorter};
use super::reader::{Item, Reader};
use super::sample::PerfSample;
use crate::data_source;
use crate::recording::{Header, RecordingWriter, WriteError};

/// A replay hands records over as they were delivered, which a file of perf does not tell. So they
/// are as if they had been delivered at this interval, that of a daemon which is not pressed.
const BATCH: Duration = Duration::from_millis(100);

/// Most records of unknown time that wait for the first known one.
const TIMELESS_MAX: usize = 1 << 16;

/// Most events that a recording's header names.
const EVENTS_NAMED_MAX: usize = 8;

/// What goes into a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ImportOptions {
    /// Samples of the kernel's own memory too. No policy can move that, and threads that meet in it
    /// share nothing of their program's.
    pub keep_kernel: bool,
}

/// What went into a recording, and what did not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Samples written.
    pub samples: u64,
    /// Threads that were seen to come, go or take a name.
    pub lifecycle: u64,
    /// Records that perf says were lost.
    pub lost: u64,
    /// Times that the kernel stopped an event for coming too often.
    pub throttled: u64,
    /// Samples that were left out.
    pub skipped: Skipped,
    /// Samples whose processor is not known; they count as of processor 0.
    pub without_cpu: u64,
    /// Records that came too late to be put in order.
    pub late: u64,
    /// Time of the first and the last sample.
    pub span: Option<(Time, Time)>,
    /// Each event with how many of its samples were written.
    pub events: Vec<(String, u64)>,
    /// Whether the machine is in the recording.
    pub machine: bool,
    /// Where the file ends in the middle of a record, because perf was stopped while it wrote.
    pub cut_off: Option<u64>,
    /// What else is to be known, for people.
    pub notes: Vec<String>,
}

/// Samples that were left out, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Skipped {
    /// Their event records no addresses (`perf record --data`), or this one had none.
    pub unaddressed: u64,
    /// Their address is the kernel's.
    pub kernel: u64,
    /// Their event records no times (`perf record --timestamp`).
    pub timeless: u64,
    /// They are of no process, or it is not recorded.
    pub taskless: u64,
    /// The file does not describe their event.
    pub stray: u64,
}

impl Skipped {
    /// All of them.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.unaddressed + self.kernel + self.timeless + self.taskless + self.stray
    }
}

/// Why an import failed.
#[derive(Debug)]
pub enum ImportError {
    /// The file of perf is at fault.
    Input(PerfDataError),
    /// The recording cannot be written.
    Output(WriteError),
}

impl fmt::Display for ImportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Input(error) => error.fmt(f),
            Self::Output(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ImportError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Input(error) => error.source(),
            Self::Output(error) => error.source(),
        }
    }
}

/// Writes what is in a file of perf as a recording, in the order of time, and gives back what was
/// written to. `begin` is called once, with the header, when that is known.
///
/// # Errors
/// When the file cannot be read to its end, or the recording not be written. What was written until
/// then is a recording without its end.
pub fn import<R: Read, W: Write>(
    mut reader: Reader<R>,
    options: ImportOptions,
    begin: impl FnOnce(&Header) -> Result<RecordingWriter<W>, WriteError>,
) -> Result<(W, Summary), ImportError> {
    let mut intake = Intake {
        options,
        summary: Summary::default(),
    };
    let mut sorter = Sorter::new(HELD_MAX);
    let mut begin = Some(begin);
    let mut writer: Option<Outlet<W>> = None;
    loop {
        let item = reader.next_item().map_err(ImportError::Input)?;
        let at_end = item.is_none();
        let round = item == Some(Item::Round);
        let taken = item.and_then(|item| intake.take(&reader, item));
        // The header is wanted with the first record, so it is made as late as that.
        let mut out = |time, record| {
            if let (None, Some(begin)) = (&writer, begin.take()) {
                let header = header(&reader);
                intake.summary.machine = !header.topology.is_empty();
                writer = Some(Outlet::new(begin(&header)?));
            }
            writer.as_mut().map_or(Ok(()), |it| it.record(time, record))
        };
        if let Some((time, record)) = taken {
            let time = if time == 0 { sorter.released() } else { time };
            sorter.push(time, record, &mut out)
        } else if round {
            sorter.round(&mut out)
        } else if at_end {
            sorter.finish(&mut out)
        } else {
            Ok(())
        }
        .map_err(ImportError::Output)?;
        if at_end {
            break;
        }
    }
    let writer = match (writer, begin) {
        (Some(writer), _) => writer,
        (None, Some(begin)) => {
            let header = header(&reader);
            intake.summary.machine = !header.topology.is_empty();
            Outlet::new(begin(&header).map_err(ImportError::Output)?)
        }
        (None, None) => unreachable!("the writer is made when `begin` is taken"),
    };
    let out = writer.finish().map_err(ImportError::Output)?;
    Ok((out, intake.conclude(&reader, sorter.late())))
}

/// The header of a recording made of this file.
fn header<R: Read>(reader: &Reader<R>) -> Header {
    let events = reader.events();
    let mut names: Vec<&str> = events
        .iter()
        .take(EVENTS_NAMED_MAX)
        .map(|event| event.name.as_str())
        .collect();
    if events.len() > EVENTS_NAMED_MAX {
        names.push("and others");
    }
    let of = match reader.architecture() {
        "" => String::new(),
        architecture => format!(" on {architecture}"),
    };
    Header {
        page_bytes: reader.page_bytes().unwrap_or(PAGE_BYTES_LEAST),
        clock: reader.clock(),
        source: format!("imported from perf{of}: {}", names.join(", ")),
        topology: reader.machine().unwrap_or_default(),
        messages: false,
    }
}

/// The smallest page of any machine that Linux runs on; taken where nothing tells, because pages that
/// are too small tell accesses apart that are together, and ones that are too large the reverse.
const PAGE_BYTES_LEAST: u64 = 4096;

/// Judges what comes in.
#[derive(Debug)]
struct Intake {
    options: ImportOptions,
    summary: Summary,
}

impl Intake {
    /// An item as a record with its time; none if there is nothing to write.
    fn take<R: Read>(&mut self, reader: &Reader<R>, item: Item) -> Option<(u64, Record)> {
        match item {
            Item::Sample(sample) => return self.sample(reader, &sample),
            Item::Stray => self.summary.skipped.stray += 1,
            Item::Lost { time, count } => {
                self.summary.lost = self.summary.lost.saturating_add(count);
                return Some((time, Record::Lost(count)));
            }
            Item::Throttled => self.summary.throttled += 1,
            Item::Round => {}
            Item::Named { .. } | Item::Forked { .. } | Item::Exited { .. } => {
                self.summary.lifecycle += 1;
                return lifecycle(item);
            }
        }
        None
    }

    fn sample<R: Read>(
        &mut self,
        reader: &Reader<R>,
        sample: &PerfSample,
    ) -> Option<(u64, Record)> {
        let skipped = &mut self.summary.skipped;
        let Some(address) = sample.address.filter(|address| *address != 0) else {
            skipped.unaddressed += 1;
            return None;
        };
        if address >> 63 != 0 && !self.options.keep_kernel {
            skipped.kernel += 1;
            return None;
        }
        let Some(time) = sample.time.filter(|time| *time != 0) else {
            skipped.timeless += 1;
            return None;
        };
        // The idle task has no memory; of what has ended, the kernel writes -1.
        let real = |(pid, tid): &(u32, u32)| ![0, u32::MAX].contains(pid) && *tid != u32::MAX;
        let Some((pid, tid)) = sample.task.filter(real) else {
            skipped.taskless += 1;
            return None;
        };
        self.count(reader, sample, Time(time));
        let source = sample.data_source;
        let record = Record::Sample(Sample {
            time: Time(time),
            pid: Pid(pid),
            tid: Tid(tid),
            address,
            physical: sample.physical.unwrap_or(0),
            cpu: CpuId(sample.cpu.unwrap_or(0)),
            kind: source.map_or(AccessKind::Unknown, data_source::kind),
            served: source.map_or(ServedBy::Unknown, data_source::served),
            weight: u32::try_from(sample.weight.unwrap_or(0)).unwrap_or(u32::MAX),
            period: sample.period.max(1),
        });
        Some((time, record))
    }

    fn count<R: Read>(&mut self, reader: &Reader<R>, sample: &PerfSample, time: Time) {
        let summary = &mut self.summary;
        summary.samples += 1;
        summary.without_cpu += u64::from(sample.cpu.is_none());
        let (first, last) = summary.span.unwrap_or((time, time));
        summary.span = Some((first.min(time), last.max(time)));
        let known = reader.events().len();
        if summary.events.len() < known {
            summary.events.resize(known, (String::new(), 0));
        }
        if let Some((_, count)) = summary.events.get_mut(sample.event) {
            *count += 1;
        }
    }

    fn conclude<R: Read>(self, reader: &Reader<R>, late: u64) -> Summary {
        let mut summary = self.summary;
        summary.late = late;
        summary.cut_off = reader.cut_off();
        summary.notes = reader.notes().to_vec();
        summary
            .events
            .resize(reader.events().len(), (String::new(), 0));
        for ((name, _), event) in summary.events.iter_mut().zip(reader.events()) {
            name.clone_from(&event.name);
        }
        summary
    }
}

fn lifecycle(item: Item) -> Option<(u64, Record)> {
    let (time, what) = match item {
        Item::Named {
            time,
            pid,
            tid,
            name,
            exec,
        } => (
            time,
            Lifecycle::Renamed {
                time: Time(time),
                pid: Pid(pid),
                tid: Tid(tid),
                name,
                exec,
            },
        ),
        Item::Forked {
            time,
            pid,
            tid,
            parent,
        } => (
            time,
            Lifecycle::Fork {
                time: Time(time),
                pid: Pid(pid),
                tid: Tid(tid),
                parent: Pid(parent),
            },
        ),
        Item::Exited { time, pid, tid } => (
            time,
            Lifecycle::Exit {
                time: Time(time),
                pid: Pid(pid),
                tid: Tid(tid),
            },
        ),
        _ => return None,
    };
    Some((time, Record::Lifecycle(what)))
}

/// Writes records in the order in which they come, with marks.
#[derive(Debug)]
struct Outlet<W> {
    writer: RecordingWriter<W>,
    /// What has no time of its own and came before all that has.
    timeless: Vec<Record>,
    now: Time,
    /// When the last batch ended.
    marked: Option<Time>,
}

impl<W: Write> Outlet<W> {
    const fn new(writer: RecordingWriter<W>) -> Self {
        Self {
            writer,
            timeless: Vec::new(),
            now: Time(0),
            marked: None,
        }
    }

    fn record(&mut self, time: u64, mut record: Record) -> Result<(), WriteError> {
        if time == 0 && self.timeless.len() < TIMELESS_MAX {
            self.timeless.push(record);
            return Ok(());
        }
        let time = Time(time);
        self.settle(time)?;
        let marked = *self.marked.get_or_insert(time);
        let batches = time.since(marked).as_nanos() / BATCH.as_nanos();
        if batches > 0 {
            // One mark for a silence of any length, at the last end of a batch in it.
            let end =
                marked.after(BATCH.saturating_mul(u32::try_from(batches).unwrap_or(u32::MAX)));
            self.writer.mark(end)?;
            self.marked = Some(end);
        }
        self.now = self.now.max(time);
        stamp(&mut record, time);
        self.writer.record(&record)
    }

    /// Writes what had no time, as of this time.
    fn settle(&mut self, time: Time) -> Result<(), WriteError> {
        for mut record in std::mem::take(&mut self.timeless) {
            stamp(&mut record, time);
            self.writer.record(&record)?;
        }
        Ok(())
    }

    fn finish(mut self) -> Result<W, WriteError> {
        self.settle(self.now)?;
        if self.marked.is_some() {
            self.writer.mark(self.now)?;
        }
        self.writer.finish()
    }
}

/// Gives a record without a time this one.
const fn stamp(record: &mut Record, now: Time) {
    if let Record::Lifecycle(
        Lifecycle::Fork { time, .. }
        | Lifecycle::Exit { time, .. }
        | Lifecycle::Renamed { time, .. },
    ) = record
        && time.0 == 0
    {
        *time = now;
    }
}
