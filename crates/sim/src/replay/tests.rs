use std::io::Cursor;
use std::path::Path;

use numad_core::{AccessKind, Lifecycle, Record, Sample, Sent, ServedBy, Time};
use proptest::prelude::*;
use sampler::{Header, RecordingWriter};
use topology::{CpuId, CpuSet, NodeId, Tid};

#[path = "../../../../fuzz/fuzz_targets/support/replay_entries.rs"]
mod replay_entries;

use super::*;
use crate::conditions::Conditions;
use crate::driver::WindowRow;
use crate::fault::Faults;
use crate::workload::Workload;
use crate::world::{World, WorldSpec};

fn header(topology: &str) -> Header {
    Header {
        page_bytes: 4096,
        clock: "CLOCK_MONOTONIC".to_owned(),
        source: "made up".to_owned(),
        topology: topology.to_owned(),
        messages: false,
    }
}

/// What a source saw of shuffled pairs on four nodes in five seconds, with or without marks.
fn pairs(topology: &str, marks: bool) -> Vec<u8> {
    pairs_for(5, topology, marks)
}

fn pairs_for(seconds: u64, topology: &str, marks: bool) -> Vec<u8> {
    let mut world = World::new(&WorldSpec {
        topology: Arc::new(topology::synthetic::parse("4x4@10,21").unwrap()),
        workload: Workload::Pairs,
        threads: 16,
        faults: Faults::NONE,
        cgroup_cpus: CpuSet::new(),
        seed: 3,
        conditions: Conditions::default(),
        balancing: false,
    });
    let mut writer = RecordingWriter::new(Vec::new(), Path::new("x"), &header(topology)).unwrap();
    let mut records = Vec::new();
    while world.elapsed() < Duration::from_secs(seconds) {
        records.clear();
        world.step(&mut records);
        for record in &records {
            writer.record(record).unwrap();
        }
        if marks {
            writer.mark(world.now()).unwrap();
        }
    }
    writer.finish().unwrap()
}

fn spec(policy: &str) -> ReplaySpec {
    ReplaySpec {
        name: "a.rec".to_owned(),
        policy: policy.to_owned(),
        settings: Vec::new(),
        machine: None,
        window: None,
    }
}

fn played(spec: &ReplaySpec, bytes: &[u8]) -> Result<ReplayReport, RunError> {
    replay(spec, &mut || Ok(Cursor::new(bytes.to_vec())))
}

#[track_caller]
fn sound(spec: &ReplaySpec, bytes: &[u8]) -> ReplayReport {
    let report = played(spec, bytes).unwrap();
    assert!(report.violations.is_empty(), "{:#?}", report.violations);
    report
}

/// Four processes, each sampled on a processor of its own, two to a node; those that talk are on different nodes.
fn ranks(messages: bool) -> Vec<u8> {
    let header = Header {
        messages,
        ..header("2x2@10,21")
    };
    let mut writer = RecordingWriter::new(Vec::new(), Path::new("x"), &header).unwrap();
    for window in 0..400u64 {
        let now = Time(1_000_000_000 + window * 50_000_000);
        for rank in 0..4 {
            let pid = Pid(100 + rank);
            for use_of in 0..4 {
                let sample = Sample {
                    time: now,
                    pid,
                    tid: Tid(pid.0),
                    address: u64::from(pid.0) << 20 | use_of << 12,
                    physical: 0,
                    cpu: CpuId(rank),
                    kind: AccessKind::Store,
                    served: ServedBy::LocalMemory,
                    weight: 0,
                    period: 1,
                };
                writer.record(&Record::Sample(sample)).unwrap();
            }
            let to = Pid(100 + (rank + 2) % 4);
            let sent = Sent {
                from: pid,
                to,
                bytes: 64_000,
                messages: 20,
            };
            writer.record(&Record::Sent(sent)).unwrap();
        }
        writer.mark(now).unwrap();
    }
    writer.finish().unwrap()
}

#[test]
fn ranks_that_send_each_other_messages_are_put_together_on_paper() {
    let with = sound(&spec("deloc"), &ranks(true));
    assert_eq!(with.survey.messages, 400 * 4 * 20);
    let node = |report: &ReplayReport, rank: usize| report.placement[rank].1;
    assert_eq!(node(&with, 0), node(&with, 2), "{}", Table(&with));
    assert_eq!(node(&with, 1), node(&with, 3));
    assert_ne!(node(&with, 0), node(&with, 1));
    let text = Table(&with).to_string();
    assert!(text.contains("and 32000 messages of 4 threads"), "{text}");
    // Nobody shares memory, so without messages there is no reason to.
    let without = sound(&spec("deloc"), &ranks(false));
    assert_eq!((without.survey.messages, without.changes().1), (0, 0));
    assert_ne!(node(&without, 0), node(&without, 2));
}

#[test]
fn pairs_are_put_together_on_paper() {
    for marks in [true, false] {
        // Long enough for pages that are seldom seen.
        let report = sound(&spec("deloc"), &pairs_for(12, "4x4@10,21", marks));
        assert!(report.is_complete() && !report.other_machine);
        let after = report.after.as_ref().unwrap();
        let node = |position: usize| after.threads[position].1;
        let mut strongest = 0;
        for (one, other, amount) in after.matrix.pairs() {
            if amount * 2 > after.matrix.row_sum(one) {
                assert_eq!(node(one), node(other), "{one} and {other}");
                strongest += 1;
            }
        }
        assert_eq!(strongest, 8);
        let (local, untouched) = report.local_shares.unwrap();
        assert!(local > untouched, "{untouched} to {local}");
        // The whole has the windows before threads and pages were moved in it; the last eight have not.
        let last = &report.windows[report.windows.len() - 8..];
        let mean =
            |share: fn(&WindowRow) -> Option<f64>| last.iter().filter_map(share).sum::<f64>() / 8.0;
        let (local, untouched) = (mean(|it| it.local_share), mean(|it| it.untouched_share));
        assert!(local > untouched + 0.15, "{untouched} to {local}");
        let text = Table(&report).to_string();
        assert!(text.contains("shares memory with thread"), "{text}");
        assert!(
            text.lines().all(|line| line.chars().count() <= 80),
            "{text}"
        );
    }
}

#[test]
fn nothing_is_done_under_none_and_the_shares_are_equal() {
    let report = sound(&spec("none"), &pairs("4x4@10,21", true));
    assert_eq!(report.changes(), (0, 0));
    let (local, untouched) = report.local_shares.unwrap();
    assert!((local - untouched).abs() < f64::EPSILON);
    assert!(report.windows.len() >= 3);
}

#[test]
fn the_same_gives_the_same_bytes() {
    let bytes = pairs("4x4@10,21", true);
    for policy in policies::registry().iter().map(|policy| policy.name) {
        let spec = ReplaySpec {
            window: Some(Duration::from_millis(300)),
            ..spec(policy)
        };
        let (one, other) = (sound(&spec, &bytes), sound(&spec, &bytes));
        assert_eq!(one.json(), other.json());
        assert_eq!(Table(&one).to_string(), Table(&other).to_string());
        assert!(one.windows.len() >= 15, "{policy}: fixed windows");
    }
}

#[test]
fn on_another_machine_threads_are_spread_anew() {
    let bytes = pairs("4x4@10,21", true);
    let spec = ReplaySpec {
        machine: Some("2x8@10,31".to_owned()),
        ..spec("deloc")
    };
    let report = sound(&spec, &bytes);
    assert!(report.other_machine);
    let nodes: std::collections::BTreeSet<_> =
        report.placement.iter().map(|(_, node)| *node).collect();
    assert_eq!(nodes, [Some(NodeId(0)), Some(NodeId(1))].into());
    assert!(report.json().contains("\"other_machine\":true"));
    // The same machine under another name is the recorded one.
    let spec = ReplaySpec {
        machine: Some("4x4@10,21".to_owned()),
        ..spec
    };
    assert!(!sound(&spec, &bytes).other_machine);
    // So is any for a recording that does not tell.
    assert!(!sound(&spec, &pairs("", true)).other_machine);
}

#[track_caller]
fn refused(spec: &ReplaySpec, bytes: &[u8], kind: RunErrorKind, part: &str) {
    let error = played(spec, bytes).unwrap_err();
    assert_eq!(error.kind, kind, "{error}");
    assert!(error.message.contains(part), "{error}");
    assert!(!error.message.contains('\n'), "{error}");
}

#[test]
fn what_makes_no_sense_is_one_line() {
    use RunErrorKind::{Configuration, NotFound, Usage};
    let good = pairs("4x4@10,21", true);
    refused(&spec("deloc"), b"hello", Usage, "`a.rec`: not a recording");
    refused(&spec("deloc"), &good[..50], Usage, "cut off at offset 50");
    refused(&spec("delok"), &good, NotFound, "`delok`");
    let set = |name: &str, value: &str| ReplaySpec {
        settings: vec![(name.to_owned(), value.to_owned())],
        ..spec("deloc")
    };
    refused(&set("refin", "true"), &good, Configuration, "refine");
    refused(
        &set("refine", "maybe"),
        &good,
        Configuration,
        "true or false",
    );
    refused(&spec("deloc"), &pairs("", true), Usage, "--machine");
    refused(&spec("deloc"), &pairs("<x/>", true), Usage, "--machine");
    refused(&spec("deloc"), &pairs("2x2", true), Usage, "cpu `4`");
    let on = |machine: &str| ReplaySpec {
        machine: Some(machine.to_owned()),
        ..spec("deloc")
    };
    refused(&on("2x2"), &pairs("", true), Usage, "cpus 0-3 alone");
    refused(&on("no-such.xml"), &good, NotFound, "no-such.xml");
    refused(&on("2x"), &good, Usage, "number of cores");
    let made = |header: &Header, records: &[Record]| {
        let mut writer = RecordingWriter::new(Vec::new(), Path::new("x"), header).unwrap();
        for record in records {
            writer.record(record).unwrap();
        }
        writer.finish().unwrap()
    };
    let plain = header("2x2");
    refused(&spec("deloc"), &made(&plain, &[]), Usage, "no thread");
    let odd = Header {
        page_bytes: 0,
        ..plain.clone()
    };
    refused(&spec("deloc"), &made(&odd, &[]), Usage, "`0` bytes");
    let ages = [sample(0, 7, 0x1000, 0), sample(u64::MAX, 7, 0x1000, 0)];
    refused(&spec("deloc"), &made(&plain, &ages), Usage, "days");
    let own: Vec<Record> = (1..5000).map(|pid| sample(9, pid, 0x1000, 0)).collect();
    refused(&spec("deloc"), &made(&plain, &own), Usage, "4095");
    let gone = replay(
        &spec("deloc"),
        &mut || -> std::io::Result<Cursor<Vec<u8>>> { Err(std::io::Error::from_raw_os_error(2)) },
    );
    assert_eq!(gone.unwrap_err().kind, NotFound);
}

fn sample(time: u64, pid: u32, address: u64, cpu: u32) -> Record {
    Record::Sample(Sample {
        time: Time(time),
        pid: Pid(pid),
        tid: Tid(pid),
        address,
        physical: 0,
        cpu: CpuId(cpu),
        kind: AccessKind::Unknown,
        served: ServedBy::Unknown,
        weight: 0,
        period: 1,
    })
}

/// Shares of a recording in which one thread on node 0 touches a page first, then another uses it.
#[track_caller]
fn check(change: &[Record], expected: (f64, f64)) {
    let machine = header("2x2@10,20");
    let mut writer = RecordingWriter::new(Vec::new(), Path::new("x"), &machine).unwrap();
    writer.record(&sample(1, 7, 0x1000, 0)).unwrap();
    for record in change {
        writer.record(record).unwrap();
    }
    let bytes = writer.finish().unwrap();
    let report = sound(&spec("none"), &bytes);
    assert_eq!(report.local_shares, Some(expected));
}

#[test]
fn pages_are_at_home_where_they_were_first_used() {
    check(&[sample(2, 7, 0x1fff, 1)], (1.0, 1.0));
    check(&[sample(2, 7, 0x1000, 2)], (0.5, 0.5));
    // Of another process it is another page.
    check(&[sample(2, 8, 0x1000, 2)], (1.0, 1.0));
    // A new program has new memory.
    let exec = Record::Lifecycle(Lifecycle::Renamed {
        time: Time(2),
        pid: Pid(7),
        tid: Tid(7),
        name: "x".to_owned(),
        exec: true,
    });
    check(&[exec, sample(3, 7, 0x1000, 2)], (1.0, 1.0));
    // The sample knows better.
    let Record::Sample(told) = sample(2, 7, 0x1000, 2) else {
        unreachable!()
    };
    let served = |served| Record::Sample(Sample { served, ..told });
    check(&[served(ServedBy::LocalMemory)], (1.0, 1.0));
    check(&[served(ServedBy::RemoteMemory)], (0.5, 0.5));
    let on_zero = Record::Sample(Sample {
        served: ServedBy::RemoteMemory,
        cpu: CpuId(1),
        ..told
    });
    check(&[on_zero], (0.5, 0.5));
}

#[test]
fn a_thread_may_get_the_number_of_one_that_ended_just_now() {
    let (pid, tid) = (Pid(7), Tid(8));
    let Record::Sample(plain) = sample(3, 7, 0x1000, 2) else {
        unreachable!()
    };
    let used = |time| {
        Record::Sample(Sample {
            time: Time(time),
            tid,
            ..plain
        })
    };
    let ended = Record::Lifecycle(Lifecycle::Exit {
        time: Time(4),
        pid,
        tid,
    });
    let made = Record::Lifecycle(Lifecycle::Fork {
        time: Time(5),
        pid,
        tid,
        parent: pid,
    });
    check(&[used(3), ended, made, used(6), used(7)], (0.25, 0.25));
}

#[test]
fn damage_and_cuts_end_a_replay_and_are_told() {
    let good = pairs("4x4@10,21", true);
    let cut = &good[..good.len() - 100];
    let report = sound(&spec("deloc"), cut);
    assert!(!report.is_complete() && report.survey.damage.is_none());
    assert!(Table(&report).to_string().contains("cut off at offset"));
    let mut damaged = good.clone();
    let middle = good.len() / 2;
    damaged[middle] ^= 4;
    let report = sound(&spec("deloc"), &damaged);
    assert!(Table(&report).to_string().contains("damaged at offset"));
    assert!(report.json().contains("\"damage\":\"damaged at offset"));
}

/// The seeds of the fuzz target `replay`, read as it reads them.
#[test]
fn the_corpus_is_replayed() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/replay");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        drop(played(&spec("deloc"), &bytes));
        for policy in policies::registry().iter().map(|policy| policy.name) {
            let spec = ReplaySpec {
                window: Some(Duration::from_millis(100)),
                ..spec(policy)
            };
            let report = sound(&spec, &replay_entries::recording(&bytes[1..]));
            assert!(report.survey.samples > 100 && report.windows.len() > 5);
        }
        count += 1;
    }
    assert!(count >= 3);
}

/// A file that changes while it is read is told, not believed.
#[test]
fn a_file_that_changes_is_refused() {
    let good = pairs("4x4@10,21", true);
    let mut lengths = [good.len(), good.len() - 100].into_iter();
    let result = replay(&spec("none"), &mut || {
        Ok(Cursor::new(good[..lengths.next().unwrap()].to_vec()))
    });
    assert!(result.unwrap_err().message.contains("was changed"));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever stands in a recording, the replay ends, breaks no rule, and gives the same twice.
    #[test]
    fn any_entries_are_replayed(
        entries in prop::collection::vec((0u8..6, 0u64..4_000_000_000, 1u32..12, any::<u64>()), 0..200)
    ) {
        let mut writer =
            RecordingWriter::new(Vec::new(), Path::new("x"), &header("2x2x2@10,20")).unwrap();
        for (kind, time, number, address) in entries {
            let (pid, tid) = (Pid(number % 4), Tid(number));
            let time = Time(time);
            let change = match kind {
                0 => Lifecycle::Fork { time, pid, tid, parent: Pid(1) },
                1 => Lifecycle::Exit { time, pid, tid },
                2 => Lifecycle::Renamed {
                    time,
                    pid,
                    tid,
                    name: "x".to_owned(),
                    exec: address % 2 == 0,
                },
                3 => {
                    writer.mark(time).unwrap();
                    continue;
                }
                _ => {
                    let Record::Sample(plain) = sample(time.0, pid.0, address, number % 8) else {
                        unreachable!()
                    };
                    let sample = Sample { tid, period: address % 9, ..plain };
                    writer.record(&Record::Sample(sample)).unwrap();
                    continue;
                }
            };
            writer.record(&Record::Lifecycle(change)).unwrap();
        }
        let bytes = writer.finish().unwrap();
        for machine in [None, Some("3x2@10,17".to_owned())] {
            let spec = ReplaySpec {
                machine,
                window: Some(Duration::from_millis(100)),
                ..spec("random")
            };
            let Ok(report) = played(&spec, &bytes) else { continue };
            prop_assert!(report.violations.is_empty(), "{:#?}", report.violations);
            prop_assert_eq!(report.json(), played(&spec, &bytes).unwrap().json());
        }
    }
}
