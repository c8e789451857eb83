//! Files that perf wrote on real machines, against what perf and others read in them.

use std::collections::BTreeMap;
use std::fs;
use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::process::Command;

use numad_core::{AccessKind, Record, Sample, ServedBy};
use sampler::perf_data::{
    ImportError, ImportOptions, Item, PerfDataError, PerfSample, Reader, Summary, check, import,
};
use sampler::recording::{self, Entry, Header};
use sampler::{RecordingWriter, data_source};

use crate::skipped;

/// A file of the shared fixtures, if they are there. Not all of them may be copied: the one with
/// addresses has no licence of its own.
fn fixture(name: &str) -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/fixtures/perf");
    let path = folder.join(name);
    if !path.exists() {
        skipped(&format!("no ../shared/fixtures/perf/{name}"));
        return None;
    }
    Some(path)
}

fn items(bytes: &[u8]) -> Result<Vec<Item>, PerfDataError> {
    let mut reader = Reader::open(Cursor::new(bytes))?;
    let mut items = Vec::new();
    while let Some(item) = reader.next_item()? {
        items.push(item);
    }
    Ok(items)
}

fn samples(items: &[Item]) -> Vec<PerfSample> {
    let samples = items.iter().filter_map(|item| match item {
        Item::Sample(sample) => Some(sample.clone()),
        _ => None,
    });
    samples.collect()
}

fn imported(bytes: &[u8]) -> (Header, Vec<Sample>, Summary) {
    let reader = Reader::open(Cursor::new(bytes)).unwrap();
    let begin = |header: &Header| RecordingWriter::new(Vec::new(), Path::new("memory"), header);
    let options = ImportOptions { keep_kernel: true };
    let (bytes, summary) = import(reader, options, begin).unwrap();
    let (header, entries, _) = recording::read(&bytes).unwrap();
    let samples = entries.into_iter().filter_map(|entry| match entry {
        Entry::Record(Record::Sample(sample)) => Some(sample),
        _ => None,
    });
    (header, samples.collect(), summary)
}

const PEBS: &str = "pebs-ivybridge-4socket-a.perf.data";

/// The words whose bits are set, as perf joins them.
fn joined(bits: u64, words: &[&str]) -> String {
    let set = words.iter().enumerate();
    let set = set.filter(|(bit, _)| bits >> bit & 1 != 0);
    let set: Vec<&str> = set.map(|(_, word)| *word).collect();
    if set.is_empty() {
        return "N/A".to_owned();
    }
    set.join(" or ")
}

/// A level or a look-up in the words of perf: which ones, then how it went. The first three bits
/// are not told, hit, miss.
fn place(bits: u64, words: &[&str]) -> String {
    let went = ["", " hit", " miss"][usize::try_from(bits >> 1 & 3).unwrap()];
    joined(bits >> 3, words) + went
}

/// A data source in the words of perf 6.1.
fn in_words(source: u64) -> String {
    let field = |low: u32, width: u32| source >> low & ((1 << width) - 1);
    let levels = [
        "L1",
        "LFB/MAB",
        "L2",
        "L3",
        "Local RAM",
        "Remote RAM (1 hop)",
    ];
    let lookups = ["L1", "L2", "Walker", "Fault"];
    format!(
        "|OP {}|LVL {}|SNP {}|TLB {}|LCK {}|BLK {}",
        joined(field(0, 5), &["N/A", "LOAD", "STORE", "PFETCH", "EXEC"]),
        place(field(5, 14), &levels),
        joined(field(19, 5), &["N/A", "None", "Hit", "Miss", "HitM"]),
        place(field(26, 7), &lookups),
        ["No", "N/A", "Yes"][usize::try_from(field(24, 2)).unwrap()],
        joined(field(40, 3) >> 1, &["Data", "Addr"]),
    )
}

/// A sample in the line of `perf script --ns -F comm,pid,tid,time,period,addr,data_src,weight,ip`,
/// without the blanks that make columns.
fn line(name: &str, sample: &PerfSample) -> String {
    let (pid, tid) = sample.task.unwrap();
    let (time, source) = (sample.time.unwrap(), sample.data_source.unwrap());
    format!(
        "{name} {pid}/{tid} {}.{:09}: {} {:x} {source:x} {} {} {:x}",
        time / 1_000_000_000,
        time % 1_000_000_000,
        sample.period,
        sample.address.unwrap(),
        in_words(source),
        sample.weight.unwrap(),
        sample.ip.unwrap(),
    )
}

#[test]
fn a_xeons_loads_are_exactly_what_perf_printed() {
    let Some(path) = fixture(PEBS) else { return };
    let printed = path.with_file_name("pebs-ivybridge-4socket-a.perf-script.txt");
    let printed = fs::read_to_string(printed).unwrap();
    let bytes = fs::read(&path).unwrap();
    let mut names = BTreeMap::new();
    let mut lines = Vec::new();
    for item in items(&bytes).unwrap() {
        match item {
            Item::Named { tid, name, .. } => drop(names.insert(tid, name)),
            Item::Sample(sample) => {
                lines.push(line(&names[&sample.task.unwrap().1], &sample));
            }
            _ => {}
        }
    }
    let blanks = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let expected: Vec<String> = printed.lines().map(blanks).collect();
    assert_eq!(expected.len(), 16);
    assert_eq!(lines, expected);
    check_recording(&bytes, &samples(&items(&bytes).unwrap()));
}

/// The recording has the same, field by field, and the machine of the manifest.
#[track_caller]
fn check_recording(bytes: &[u8], decoded: &[PerfSample]) {
    let (header, recorded, summary) = imported(bytes);
    assert_eq!(recorded.len(), 16);
    for (ours, perfs) in recorded.iter().zip(decoded) {
        assert_eq!(Some(ours.time.0), perfs.time);
        assert_eq!(Some((ours.pid.0, ours.tid.0)), perfs.task);
        assert_eq!(Some(ours.address), perfs.address);
        assert_eq!(ours.period, perfs.period);
        assert_eq!(Some(u64::from(ours.weight)), perfs.weight);
        let source = perfs.data_source.unwrap();
        assert_eq!(ours.kind, AccessKind::Load);
        assert_eq!(ours.served, data_source::served(source));
        assert!([ServedBy::L1, ServedBy::L2].contains(&ours.served));
    }
    assert_eq!(summary.events, [("cpu/mem-loads/pp".to_owned(), 16)]);
    assert_eq!((summary.without_cpu, summary.late), (16, 0));
    let whole = format!("{header:?}{summary:?}");
    assert!(
        !whole.contains("server3"),
        "the host is nobody's business: {whole}"
    );
    check_machine(
        &header.topology,
        &["0-7", "8-15", "16-23", "24-31"],
        131_924_544 << 10,
    );
}

#[track_caller]
fn check_machine(xml: &str, nodes: &[&str], memory_bytes: u64) {
    let machine = topology::xml::parse(xml).unwrap();
    let cpus: Vec<String> = machine.nodes().iter().map(|n| n.cpus.to_string()).collect();
    assert_eq!(cpus, nodes);
    // The kernel counts a little less for all than for the nodes together.
    let told = machine.memory_bytes();
    assert!(told.abs_diff(memory_bytes) < memory_bytes / 20, "{told}");
}

#[test]
fn nodes_of_an_old_file_are_those_of_the_machine() {
    let Some(path) = fixture("quipper-perf.data.numatopology-3.2.gz") else {
        return;
    };
    let Ok(unpacked) = Command::new("gzip").arg("-dc").arg(&path).output() else {
        skipped("no gzip");
        return;
    };
    let (header, _, summary) = imported(&unpacked.stdout);
    assert_eq!(summary.samples, 0);
    assert_eq!(summary.skipped.unaddressed, 175);
    let machine = topology::xml::parse(&header.topology).unwrap();
    let cpus: Vec<String> = machine.nodes().iter().map(|n| n.cpus.to_string()).collect();
    assert_eq!(cpus, ["0-7,16-23", "8-15,24-31"]);
    assert_eq!((machine.online().len(), machine.package_count()), (32, 2));
    assert_eq!(machine.cores_in(&machine.online()), 16);
}

/// Samples as `comm pid time period event ip`, in the order of time.
fn lines(bytes: &[u8]) -> Vec<String> {
    let mut reader = Reader::open(Cursor::new(bytes)).unwrap();
    let mut names = BTreeMap::new();
    let mut lines = Vec::new();
    while let Some(item) = reader.next_item().unwrap() {
        match item {
            Item::Named { tid, name, .. } => drop(names.insert(tid, name)),
            Item::Sample(sample) => {
                let (pid, tid) = sample.task.unwrap();
                let event = &reader.events()[sample.event].name;
                let (period, ip) = (sample.period, sample.ip.unwrap());
                let name = &names[&tid];
                let time = sample.time.unwrap();
                lines.push((time, format!("{name} {pid} {time} {period} {event} {ip:x}")));
            }
            _ => {}
        }
    }
    lines.sort();
    lines.into_iter().map(|(_, line)| line).collect()
}

/// As Debian's perf 6.1 prints them (`perf script --ns -F comm,pid,time,event,period,ip`).
#[test]
fn files_without_addresses_decode_as_in_perf() {
    if let Some(path) = fixture("quipper-perf.data.hybrid_topology") {
        let expected = [
            "perf-exec 7213 101132490336 1 cpu_core/cycles:ppp/ ffffffffabc45683",
            "perf-exec 7213 101132492900 1 cpu_core/cycles:ppp/ ffffffffac3ad817",
            "perf-exec 7213 101132493913 11 cpu_core/cycles:ppp/ ffffffffac3ad844",
            "perf-exec 7213 101132494868 335 cpu_core/cycles:ppp/ ffffffffac3ad844",
            "perf-exec 7213 101132495594 11142 cpu_core/cycles:ppp/ ffffffffabc3549d",
            "sleep 7213 101132498085 488029 cpu_core/cycles:ppp/ ffffffffac8e0076",
            "sleep 7213 101132592926 6549429 cpu_core/cycles:ppp/ ffffffffabc0e079",
        ];
        assert_eq!(lines(&fs::read(path).unwrap()), expected);
    }
    if let Some(path) = fixture("quipper-perf.data.ctx_switch_namespaces-4.14") {
        let expected = [
            "perf 5969 1056482246901611 1 cycles ffffffffb42071f4",
            "sleep 5969 1056482248803937 1 cycles ffffffffb42071f4",
        ];
        assert_eq!(lines(&fs::read(path).unwrap()), expected);
    }
}

/// The addresses are those that the zstd tool's output of the same frame holds.
#[test]
fn a_compressed_file_decompresses() {
    if let Some(path) = fixture("sleep.compressed.data") {
        let found = items(&fs::read(path).unwrap()).unwrap();
        let ips: Vec<u64> = samples(&found).iter().filter_map(|it| it.ip).collect();
        let mut expected = vec![0xffff_b849_d9ae_75ac; 5];
        expected.extend([
            0xffff_b849_d9ad_70b8,
            0xffff_b849_d9ad_d240,
            0xffff_b849_d9c6_1148,
        ]);
        assert_eq!(ips, expected);
    }
    if let Some(path) = fixture("sleep.data") {
        let found = items(&fs::read(path).unwrap()).unwrap();
        assert_eq!(samples(&found).len(), 7);
    }
}

/// A file that is broken says where; anything else that comes is an answer as well.
#[track_caller]
fn check_broken(bytes: &[u8], what: &str) -> bool {
    match check(bytes) {
        Ok(_) => return true,
        Err(ImportError::Input(error)) => {
            assert!(error.to_string().contains("at offset"), "{what}: {error}");
        }
        Err(other) => panic!("{what}: {other}"),
    }
    false
}

#[test]
fn hostile_files_are_refused_with_the_offset() {
    let Some(folder) = fixture("hostile") else {
        return;
    };
    let mut count = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let bytes = fs::read(&path).unwrap();
        assert!(
            !check_broken(&bytes, &path.display().to_string()),
            "{} was read",
            path.display()
        );
        count += 1;
    }
    assert!(count >= 13, "{count}");
}

#[test]
fn a_real_file_may_be_cut_or_changed_anywhere() {
    let Some(path) = fixture(PEBS) else { return };
    let bytes = fs::read(path).unwrap();
    let records_end = 6376;
    for end in (0..bytes.len()).filter(|end| *end < 250 || end % 41 == 0) {
        let whole = check_broken(&bytes[..end], "cut");
        // What is behind the records is of use, but not needed.
        assert_eq!(whole, end >= records_end, "cut at {end}");
    }
    for bit in (0..bytes.len() * 8).filter(|bit| bit % 89 == 0) {
        let mut bad = bytes.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        check_broken(&bad, "bit flipped");
    }
    for at in (0..bytes.len() - 8)
        .step_by(8)
        .filter(|at| *at < 240 || at % 13 == 0)
    {
        for value in [0, u64::MAX, 1 << 40] {
            let mut bad = bytes.clone();
            bad[at..at + 8].copy_from_slice(&value.to_le_bytes());
            check_broken(&bad, "word changed");
        }
    }
}

#[test]
fn a_compressed_file_may_be_changed_anywhere() {
    let Some(path) = fixture("sleep.compressed.data") else {
        return;
    };
    let bytes = fs::read(path).unwrap();
    // Where the records are; half of them are the compressed ones.
    for bit in (384..384 + 8222usize).step_by(7).map(|at| at * 8 + at % 8) {
        let mut bad = bytes.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        check_broken(&bad, "bit flipped");
    }
}
