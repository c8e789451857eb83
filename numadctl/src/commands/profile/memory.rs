//! Recordings: which accesses of threads are communication.

use std::collections::BTreeMap;

use ::profile::Event;
use ::profile::build::{self, About};
use ::profile::metrics::Volume;
use ::profile::sharing::{Lines, Pages};
use ::profile::timeline::Timeline;
use control::ErrorKind;
use control::Failure;
use control::profile::{Level, Profile, TASKS_MAX, Thresholds};
use numad_core::{AccessKind, Lifecycle, Record, Sample, ServedBy};
use sampler::RecordingReader;
use sampler::recording::{Entry, Survey};
use topology::{Pid, Tid};

use super::sent;
use crate::render::units::count;

/// Samples do not tell how much was accessed: a word.
const ACCESS_BYTES: u64 = 8;

/// Samples that wait to be put in order, between two marks.
const HELD_MAX: usize = 1 << 20;

type Thread = (Pid, Tid);

/// The profile of a recording that is in memory.
pub(super) fn profile(
    bytes: &[u8],
    name: &str,
    thresholds: Thresholds,
) -> Result<Profile, Failure> {
    let wrong = |error: sampler::RecordingError| {
        Failure::new(ErrorKind::Usage, format!("`{name}`: {error}"))
            .remedy("record again with `numadctl record`")
    };
    let survey = Survey::of(bytes).map_err(wrong)?;
    if let Some(damage) = survey.damage {
        return Err(wrong(damage));
    }
    if survey.messages > 0 {
        return sent::profile(bytes, (name, &survey), thresholds).map_err(wrong);
    }
    let mut threads: Vec<(Thread, u64)> = survey
        .threads
        .iter()
        .filter(|(_, seen)| seen.samples > 0)
        .map(|(thread, seen)| (*thread, seen.samples))
        .collect();
    if threads.is_empty() {
        let text = format!("`{name}` holds no samples of threads");
        return Err(Failure::new(ErrorKind::Usage, text).remedy("record a program while it works"));
    }
    let all = threads.len();
    threads.sort_by_key(|&(thread, samples)| (std::cmp::Reverse(samples), thread));
    threads.truncate(TASKS_MAX);
    threads.sort();
    let mut gathering = Gathering::new(&threads, survey.header.page_bytes);
    let mut reader = RecordingReader::open(bytes).map_err(wrong)?;
    let mut entries = Vec::new();
    while reader.next_block(&mut entries).map_err(wrong)? {
        entries.drain(..).for_each(|entry| gathering.take(entry));
    }
    gathering.judge();
    let mut notes = Vec::new();
    if all > TASKS_MAX {
        let rest = count((all - TASKS_MAX) as u64, "thread");
        notes.push(format!("left out: {rest} with the fewest samples"));
    }
    notes.extend(losses(&survey));
    Ok(gathering.finish(name, thresholds, notes))
}

/// What a recording lacks.
pub(super) fn losses(survey: &Survey) -> Vec<String> {
    let mut notes = Vec::new();
    if survey.lost > 0 {
        let lost = count(survey.lost, "sample");
        notes.push(format!("lost while it was recorded: {lost}"));
    }
    if let sampler::recording::Ending::CutOff { .. } = survey.ending {
        notes.push(format!("the recording is {}", survey.ending));
    }
    notes
}

/// Accesses of both kinds, until it is known which the recording has.
struct Gathering {
    positions: BTreeMap<Thread, u32>,
    names: BTreeMap<Thread, String>,
    page_bytes: u64,
    held: Vec<Sample>,
    lines: Lines,
    pages: Pages,
    by_line: Timeline,
    by_page: Timeline,
    kinds_known: u64,
    samples: u64,
    memory_bytes: u64,
    dram_bytes: u64,
    served_known: u64,
}

impl Gathering {
    fn new(threads: &[(Thread, u64)], page_bytes: u64) -> Self {
        let positions: BTreeMap<Thread, u32> =
            threads.iter().map(|(thread, _)| *thread).zip(0..).collect();
        Self {
            page_bytes: page_bytes.max(1),
            held: Vec::new(),
            names: BTreeMap::new(),
            lines: Lines::default(),
            pages: Pages::default(),
            by_line: Timeline::new(positions.len()),
            by_page: Timeline::new(positions.len()),
            positions,
            kinds_known: 0,
            samples: 0,
            memory_bytes: 0,
            dram_bytes: 0,
            served_known: 0,
        }
    }

    fn take(&mut self, entry: Entry) {
        match entry {
            Entry::Mark(_) => self.judge(),
            Entry::Record(Record::Sample(sample)) => {
                self.held.push(sample);
                if self.held.len() >= HELD_MAX {
                    self.judge();
                }
            }
            Entry::Record(Record::Lifecycle(Lifecycle::Renamed { pid, tid, name, .. })) => {
                self.names.insert((pid, tid), name);
            }
            Entry::Record(_) => {}
        }
    }

    /// Samples come processor by processor; what was delivered together is put in order here.
    fn judge(&mut self) {
        let mut held = std::mem::take(&mut self.held);
        held.sort_by_key(|sample| sample.time);
        for sample in &held {
            self.access(sample);
        }
        held.clear();
        self.held = held;
    }

    fn access(&mut self, sample: &Sample) {
        let Some(&task) = self.positions.get(&(sample.pid, sample.tid)) else {
            return;
        };
        let at_ns = sample.time.0;
        self.samples += 1;
        let bytes = sample.period.saturating_mul(ACCESS_BYTES);
        self.memory_bytes = self.memory_bytes.saturating_add(bytes);
        match sample.served {
            ServedBy::Unknown => {}
            ServedBy::LocalMemory | ServedBy::RemoteMemory => {
                self.served_known += 1;
                self.dram_bytes = self.dram_bytes.saturating_add(bytes);
            }
            _ => self.served_known += 1,
        }
        self.by_line.see(at_ns);
        self.by_page.see(at_ns);
        // One address is one place in one process only, unless memory is told by the machine's own address.
        let place = match sample.physical {
            0 => sample.address ^ u64::from(sample.pid.0).rotate_right(20),
            physical => physical,
        };
        let event = |from, to| Event {
            at_ns,
            from,
            to,
            bytes,
        };
        match sample.kind {
            AccessKind::Unknown => {}
            AccessKind::Store => self.lines.store(task, place),
            AccessKind::Load => {
                if let Some(writer) = self.lines.load(task, place) {
                    self.by_line.add(event(writer, task));
                }
            }
        }
        self.kinds_known += u64::from(sample.kind != AccessKind::Unknown);
        for other in self.pages.access(task, place / self.page_bytes) {
            self.by_page.add(event(other, task));
        }
    }

    fn finish(self, name: &str, thresholds: Thresholds, mut notes: Vec<String>) -> Profile {
        let by_line = self.kinds_known * 2 > self.samples;
        let (level, timeline, left_out) = match by_line {
            true => (Level::Line, &self.by_line, self.lines.left_out()),
            false => (Level::Page, &self.by_page, self.pages.left_out()),
        };
        if !by_line {
            notes.push(
                "the source does not tell stores from loads: sharing of pages is shown".to_owned(),
            );
        }
        if left_out > 0 {
            let accesses = count(left_out, "access");
            notes.push(format!("left out: {accesses} to further memory"));
        }
        notes.push(format!(
            "sampled: {}, for all that there were, each taken as {ACCESS_BYTES} bytes",
            count(self.samples, "access")
        ));
        let name_of = |thread: &Thread| match self.names.get(thread) {
            Some(name) => format!("{} {name}", thread.1),
            None => thread.1.to_string(),
        };
        let about = About {
            made_by: made_by(),
            source: name.to_owned(),
            level,
            tasks: self.positions.keys().map(name_of).collect(),
            thresholds,
            notes,
        };
        let volume = Volume {
            samples: Some(self.samples),
            memory_bytes: Some(self.memory_bytes),
            dram_bytes: (self.served_known * 2 > self.samples).then_some(self.dram_bytes),
        };
        build::in_time(about, timeline, volume)
    }
}

pub(super) fn made_by() -> String {
    format!("numadctl {}", env!("CARGO_PKG_VERSION"))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use numad_core::Time;
    use sampler::RecordingWriter;
    use sampler::recording::Header;

    use crate::render;

    use super::*;

    /// A store by one thread and a load by another, again and again.
    fn recording(samples: u32) -> Vec<u8> {
        let header = Header {
            page_bytes: 4096,
            ..Header::default()
        };
        let mut writer = RecordingWriter::new(Vec::new(), Path::new("x"), &header).unwrap();
        for number in 0..samples {
            let sample = Sample {
                time: Time(u64::from(number) * 1000),
                pid: Pid(7),
                tid: Tid(7 + number % 2),
                address: 4096,
                physical: 0,
                kind: if number % 2 == 0 {
                    AccessKind::Store
                } else {
                    AccessKind::Load
                },
                served: ServedBy::LocalMemory,
                period: 1,
                cpu: topology::CpuId(0),
                weight: 0,
            };
            writer.record(&Record::Sample(sample)).unwrap();
        }
        writer.mark(Time(1_000_000_000)).unwrap();
        writer.finish().unwrap()
    }

    #[test]
    fn a_handful_of_samples_tells_no_class() {
        let thresholds = ::profile::metrics::THRESHOLDS;
        let few = profile(&recording(4), "x", thresholds).unwrap();
        assert_eq!((few.class, few.samples), (None, Some(4)));
        let json = serde_json::to_string(&few).unwrap();
        for shown in [
            render::profile::text(&few, 200),
            render::profile_page::page(&few),
            json,
        ] {
            assert!(
                shown.contains("too few samples to tell: 4, at least 256 needed"),
                "{shown}"
            );
        }
        let enough = profile(&recording(300), "x", thresholds).unwrap();
        assert_eq!(
            enough.class,
            Some(control::profile::Class::Static),
            "{enough:?}"
        );
        assert_eq!(enough.class_unknown, None);
    }
}
