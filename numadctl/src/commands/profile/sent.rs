//! Recordings of MPI jobs: what ranks sent each other in each window.

use std::collections::{BTreeMap, BTreeSet};

use ::profile::Event;
use ::profile::build::{self, About};
use ::profile::metrics::Volume;
use ::profile::timeline::Timeline;
use control::profile::{Level, Profile, TASKS_MAX, Thresholds};
use numad_core::{Record, Sent};
use sampler::recording::{Entry, Survey};
use sampler::{RecordingError, RecordingReader};
use topology::Pid;

use super::memory::made_by;
use crate::render::units::count;

/// The profile of the messages in a recording.
pub(super) fn profile(
    bytes: &[u8],
    (name, survey): (&str, &Survey),
    thresholds: Thresholds,
) -> Result<Profile, RecordingError> {
    let gathered = Gathered::of(bytes, survey)?;
    let ranks: BTreeSet<Pid> = gathered
        .all
        .iter()
        .flat_map(|(_, it)| [it.from, it.to])
        .collect();
    let ranks: BTreeMap<Pid, u32> = ranks.into_iter().take(TASKS_MAX).zip(0..).collect();
    let mut timeline = Timeline::new(ranks.len());
    let mut strangers = 0_u64;
    for (at_ns, sent) in &gathered.all {
        timeline.see(*at_ns);
        match (ranks.get(&sent.from), ranks.get(&sent.to)) {
            (Some(&from), Some(&to)) => timeline.add(Event {
                at_ns: *at_ns,
                from,
                to,
                bytes: sent.bytes,
            }),
            _ => strangers += 1,
        }
    }
    let mut notes = vec![format!(
        "{}, each with the time at which its window ended; memory that threads share is not shown",
        count(survey.messages, "message")
    )];
    if strangers > 0 {
        notes.push(format!(
            "left out: {} of ranks beyond the first {TASKS_MAX}",
            count(strangers, "amount")
        ));
    }
    if gathered.unmarked > 0 {
        notes.push(format!(
            "{} after the last window, with the latest time that is known",
            count(gathered.unmarked as u64, "amount")
        ));
    }
    notes.extend(super::memory::losses(survey));
    let about = About {
        made_by: made_by(),
        source: name.to_owned(),
        level: Level::Message,
        tasks: ranks.keys().map(ToString::to_string).collect(),
        thresholds,
        notes,
    };
    Ok(build::in_time(about, &timeline, Volume::default()))
}

/// Amounts, each with the end of its window.
struct Gathered {
    all: Vec<(u64, Sent)>,
    /// How many of them come after the last mark.
    unmarked: usize,
}

impl Gathered {
    fn of(bytes: &[u8], survey: &Survey) -> Result<Self, RecordingError> {
        let mut reader = RecordingReader::open(bytes)?;
        let (mut entries, mut held) = (Vec::new(), Vec::new());
        let mut all: Vec<(u64, Sent)> = Vec::new();
        while reader.next_block(&mut entries)? {
            for entry in entries.drain(..) {
                match entry {
                    Entry::Record(Record::Sent(sent)) => held.push(sent),
                    // They were sent in the window that this ends.
                    Entry::Mark(at) => all.extend(held.drain(..).map(|sent| (at.0, sent))),
                    Entry::Record(_) => {}
                }
            }
        }
        // A recording that was cut has no mark at its end. What was sent before that counts all the same.
        let unmarked = held.len();
        let latest = survey.span.map_or(0, |(_, last)| last.0);
        all.extend(held.into_iter().map(|sent| (latest, sent)));
        Ok(Self { all, unmarked })
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use numad_core::Time;
    use sampler::RecordingWriter;
    use sampler::recording::Header;

    use super::*;

    fn header() -> Header {
        Header {
            page_bytes: 4096,
            messages: true,
            ..Header::default()
        }
    }

    fn sent(from: u32, to: u32) -> Record {
        Record::Sent(Sent {
            from: Pid(from),
            to: Pid(to),
            bytes: 100,
            messages: 4,
        })
    }

    fn profile_of(bytes: &[u8]) -> Profile {
        super::super::memory::profile(bytes, "x", ::profile::metrics::THRESHOLDS).unwrap()
    }

    #[test]
    fn what_follows_the_last_mark_counts_and_losses_are_noted() {
        let mut writer = RecordingWriter::new(Vec::new(), Path::new("x"), &header()).unwrap();
        writer.record(&sent(7, 9)).unwrap();
        writer.mark(Time(2_000_000_000)).unwrap();
        writer.record(&Record::Lost(5)).unwrap();
        writer.record(&sent(8, 9)).unwrap();
        let bytes = writer.finish().unwrap();
        let profile = profile_of(&bytes);
        assert_eq!(profile.tasks, ["7", "8", "9"]);
        assert_eq!(profile.metrics.comm_bytes, 400);
        let notes = profile.notes.join("\n");
        for told in ["1 amount after the last window", "recorded: 5 samples"] {
            assert!(notes.contains(told), "{notes}");
        }
        // One without any mark: nothing tells when, and yet what was sent is there.
        let mut writer = RecordingWriter::new(Vec::new(), Path::new("x"), &header()).unwrap();
        writer.record(&sent(7, 9)).unwrap();
        let profile = profile_of(&writer.finish().unwrap());
        assert_eq!(profile.metrics.comm_bytes, 200);
    }

    #[test]
    fn messages_are_events_of_the_window_that_they_were_sent_in() {
        let mut writer = RecordingWriter::new(Vec::new(), Path::new("x"), &header()).unwrap();
        for (second, (from, to)) in [(1, (7, 9)), (2, (7, 9)), (3, (9, 8))] {
            writer.record(&sent(from, to)).unwrap();
            writer.mark(Time(second * 1_000_000_000)).unwrap();
        }
        let bytes = writer.finish().unwrap();
        let profile = profile_of(&bytes);
        assert_eq!(profile.level, Level::Message);
        assert_eq!(profile.tasks, ["7", "8", "9"]);
        assert_eq!(profile.length_s, Some(2.0));
        let class = profile.class_if_mapping_helps;
        assert_eq!(class, Some(control::profile::Class::Static));
        let text = crate::render::profile::text(&profile, 200);
        assert!(
            text.contains("CommR and DramR are not known. If mapping helps at all: static."),
            "{text}"
        );
        let pairs = profile.groups.iter().flat_map(|group| &group.pairs);
        let mut pairs: Vec<_> = pairs
            .map(|pair| (pair.low, pair.high, pair.bytes))
            .collect();
        pairs.sort_unstable();
        let sum = |low, high| -> u64 {
            let those = pairs.iter().filter(|pair| (pair.0, pair.1) == (low, high));
            those.map(|pair| pair.2).sum()
        };
        assert_eq!((sum(0, 2), sum(1, 2)), (200, 100));
    }
}
