//! Samples of a real Xeon (load latency, `perf mem record`), decoded by us and by perf.

use std::fs;
use std::path::{Path, PathBuf};

use numad_core::ServedBy;
use sampler::data_source;
use sampler::decode::{Body, Decoded, Field, Layout, Trailer, Visitor, stream};

use crate::skipped;

/// The shared fixtures, if they are there.
fn fixtures() -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/fixtures/perf");
    path.is_dir().then_some(path)
}

/// Gathers lines like those of `perf script --ns -F pid,tid,time,period,addr,data_src,weight,ip`.
#[derive(Default)]
struct Lines {
    lines: Vec<String>,
    served: Vec<ServedBy>,
}

impl Visitor for Lines {
    fn record<B: Body>(&mut self, record: &Decoded<'_, B>) {
        let Decoded::Sample(sample) = record else {
            return;
        };
        let number = |field| sample.number(field).unwrap();
        let (pid, tid) = sample.pid_tid().unwrap();
        let time = number(Field::Time);
        self.served
            .push(data_source::served(number(Field::DataSource)));
        self.lines.push(format!(
            "{pid}/{tid} {}.{:09}: {} {:x} {:x} {} {:x}",
            time / 1_000_000_000,
            time % 1_000_000_000,
            number(Field::Period),
            number(Field::Addr),
            number(Field::DataSource),
            sample.weight().unwrap(),
            number(Field::Ip),
        ));
    }
}

/// The same fields of a line that perf printed.
fn printed(line: &str) -> String {
    let words: Vec<&str> = line.split_whitespace().collect();
    let (weight, ip) = (words[words.len() - 2], words[words.len() - 1]);
    [words[1], words[2], words[3], words[4], words[5], weight, ip].join(" ")
}

#[test]
fn real_samples_decode_to_what_perf_printed() {
    let Some(directory) = fixtures() else {
        skipped("no ../shared/fixtures/perf");
        return;
    };
    let file = fs::read(directory.join("pebs-ivybridge-4socket-a.perf.data")).unwrap();
    let text =
        fs::read_to_string(directory.join("pebs-ivybridge-4socket-a.perf-script.txt")).unwrap();
    // The header of perf.data has the place and size of the attributes at 24, of the records at 40; an
    // attribute has its sample_type at 24.
    let number = |at: usize| u64::from_le_bytes(file[at..at + 8].try_into().unwrap());
    let place = |at: usize| usize::try_from(number(at)).unwrap();
    let sample_type = number(place(24) + 24);
    let layout = Layout::new(sample_type, Trailer::Present).unwrap();
    let records = &file[place(40)..place(40) + place(48)];
    let expected: Vec<String> = text.lines().map(printed).collect();
    assert_eq!(expected.len(), 16);
    for wrap in (0..records.len()).step_by(61) {
        let mut lines = Lines::default();
        let (first, second) = records.split_at(wrap);
        stream(&layout, first, second, &mut lines).unwrap();
        assert_eq!(lines.lines, expected, "wrapped at {wrap}");
        // perf's words for the level, line by line.
        for (served, line) in lines.served.iter().zip(text.lines()) {
            let level = match served {
                ServedBy::L1 => ["LVL L1 hit", "LVL LFB/MAB hit"],
                ServedBy::L2 => ["LVL L2 hit"; 2],
                ServedBy::L3 => ["LVL L3 hit"; 2],
                other => panic!("{other:?} for {line}"),
            };
            assert!(level.iter().any(|level| line.contains(level)), "{line}");
        }
    }
}
