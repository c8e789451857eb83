use std::fs;
use std::path::Path;

use numad_core::{Record, Sample, ServedBy, Time};
use topology::{Pid, Tid};

use super::*;
use crate::choose::{How, SourceKind, choose};
use crate::machine::Facts;
use crate::open::fake::{FakeEvents, Refuses};
use crate::source::{Losses, Source, Spending};

/// A machine that is kept in `tests/fixtures/pmu`: what PEBS can do there.
fn machine(name: &str) -> (Vec<PebsCore>, Pmus) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/pmu");
    let text = fs::read_to_string(path.join(format!("{name}.tree"))).unwrap();
    let tree = testkit::tree::unpack(&text);
    let facts = Facts::read(tree.path());
    let verdicts = choose(&facts);
    let verdict = verdicts
        .iter()
        .find(|verdict| verdict.source == SourceKind::Pebs);
    match &verdict.unwrap().usable {
        Ok(How::Pebs(cores)) => (cores.clone(), facts.pmus.clone()),
        other => panic!("{other:?}"),
    }
}

/// The attribute that `perf record -vv` shows for such an event, as far as it says what is measured:
/// type, config, config1, precise_ip. The rest is checked in [`check`].
type Shown = (u32, u64, u64, u8);

/// What perf asks for, by its own sources: the events are those of `tools/perf/arch/x86/util/
/// mem-events.c`, `%s/mem-loads,ldlat=%u/P`, `{%s/mem-loads-aux/,%s/mem-loads,ldlat=%u/}:P` and
/// `%s/mem-stores/P`, one for each core PMU. `P` sets `precise_ip` to `caps/max_precise`
/// (`evsel__precise_ip_fallback` steps down) and with it `exclude_guest`. `perf mem record` adds
/// `-d -W --phys-data`, so samples are IP|TID|TIME|ADDR|ID|CPU|PERIOD|DATA_SRC|PHYS_ADDR|
/// WEIGHT_STRUCT, all records end in their ids, and it falls back to WEIGHT before Linux 5.12.
#[track_caller]
fn check(name: &str, expected: &[(Shown, Option<Shown>, Option<&str>)]) {
    let (cores, pmus) = machine(name);
    let options = MemoryOptions::new(CpuSet::new());
    let events = wanted(&options, &cores, &pmus).unwrap();
    let shown = |attr: &EventAttr| (attr.kind, attr.config[0], attr.config[1], attr.precise);
    let found: Vec<_> = events
        .iter()
        .map(|event| {
            let cpus = event.cpus.as_ref().map(ToString::to_string);
            (shown(&event.attr), event.leader.as_ref().map(shown), cpus)
        })
        .collect();
    let expected: Vec<_> = expected
        .iter()
        .map(|(attr, leader, cpus)| (*attr, *leader, cpus.map(ToOwned::to_owned)))
        .collect();
    assert_eq!(found, expected);
    // Instead of ID ours have IDENTIFIER, which says the same in front; IP nobody here asks for.
    let of_perf = [
        Field::Tid,
        Field::Time,
        Field::Addr,
        Field::Identifier,
        Field::Cpu,
        Field::Period,
        Field::DataSource,
        Field::PhysAddr,
        Field::WeightStruct,
    ];
    for event in &events {
        let attr = event.attr;
        assert_eq!(attr.sample_type, attr::fields(&of_perf));
        assert_eq!((attr.config[2], attr.config[3]), (0, 0));
        let always = attr::FLAG_EXCLUDE_GUEST | attr::FLAG_TRAILERS | attr::FLAG_DISABLED;
        assert_eq!(attr.flags & always, always);
        // Ours alone: programs are what is looked at, and the clock is the daemon's.
        assert_ne!(attr.flags & attr::FLAG_EXCLUDE_KERNEL, 0);
        assert_eq!(attr.clock, Some(libc::CLOCK_MONOTONIC));
        assert_eq!(
            event.leader.map_or(0, |leader| leader.period),
            0,
            "it counts"
        );
    }
    let telling = events
        .iter()
        .filter(|event| event.attr.flags & attr::FLAG_TASKS != 0);
    let kinds: std::collections::BTreeSet<_> = events.iter().map(|event| event.attr.kind).collect();
    assert_eq!(
        telling.count(),
        kinds.len(),
        "one of each processor tells of threads"
    );
}

#[test]
fn attributes_are_those_of_perf() {
    let loads = (4, 0x1cd, 30, 3);
    check(
        "skylake-sp",
        &[(loads, None, None), ((4, 0x82d0, 0, 3), None, None)],
    );
    check(
        "ice-lake-sp",
        &[(loads, None, None), ((4, 0x82d0, 0, 3), None, None)],
    );
    let leader = Some((4, 0x8203, 0, 0));
    check(
        "sapphire-rapids",
        &[(loads, leader, None), ((4, 0x2cd, 0, 3), None, None)],
    );
    check(
        "alder-lake",
        &[
            ((10, 0x5d0, 30, 3), None, Some("16-23")),
            ((10, 0x6d0, 0, 3), None, Some("16-23")),
            (loads, leader, Some("0-15")),
            ((4, 0x2cd, 0, 3), None, Some("0-15")),
        ],
    );
}

/// The attribute in a recording that perf made on a Xeon of 2013.
#[test]
fn the_attribute_of_a_real_recording() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../../shared/fixtures/perf/pebs-ivybridge-4socket-a.perf.data");
    let Ok(file) = fs::read(path) else {
        crate::skipped("no ../shared/fixtures/perf");
        return;
    };
    let word = |at: usize| u64::from_le_bytes(file[at..at + 8].try_into().unwrap());
    let start = usize::try_from(word(24)).unwrap();
    let (cores, pmus) = machine("skylake-sp");
    let options = MemoryOptions {
        load_latency_min: 3,
        physical: false,
        ..MemoryOptions::new(CpuSet::new())
    };
    let ours = wanted(&options, &cores, &pmus).unwrap()[0].attr;
    let words = ours.to_words();
    assert_eq!(words[0] << 32, word(start) << 32, "type");
    assert_eq!(words[1], word(start + 8), "config");
    assert_eq!(words[7], word(start + 56), "config1: the threshold");
    let recorded = attr::fields(&[
        Field::Ip,
        Field::Tid,
        Field::Time,
        Field::Addr,
        Field::Period,
        Field::Weight,
        Field::DataSource,
    ]);
    assert_eq!(word(start + 24), recorded, "sample_type");
    let aside = [Field::Identifier, Field::Cpu];
    let ours = ours
        .with(Field::Ip, true)
        .with(Field::WeightStruct, false)
        .with(Field::Weight, true);
    let ours = aside
        .iter()
        .fold(ours, |attr, field| attr.with(*field, false));
    assert_eq!(ours.sample_type, recorded);
    assert_eq!(
        word(start + 40) >> 15 & 3,
        2,
        "precise_ip, two at most in those days"
    );
}

/// A sample as the events write it: IDENTIFIER, TID, TIME, ADDR, CPU, PERIOD, WEIGHT_STRUCT,
/// DATA_SRC, PHYS_ADDR.
fn sample(id: u64, address: u64, source: u64) -> Vec<u8> {
    let pid = u64::from_ne_bytes([7, 0, 0, 0, 8, 0, 0, 0]);
    let weight = 5 << 48 | 77 << 32 | 351;
    let words = [id, pid, 100, address, 3, 1_009, weight, source, 0x1234_5678];
    let size = u16::try_from(8 + words.len() * 8).unwrap();
    let mut bytes = 9u32.to_ne_bytes().to_vec();
    bytes.extend([0, 0]);
    bytes.extend(size.to_ne_bytes());
    bytes.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
    bytes
}

fn open(refuses: Refuses) -> (FakeEvents, Result<Pebs, OpenError>) {
    let kernel = FakeEvents::new(refuses);
    let (cores, pmus) = machine("sapphire-rapids");
    let options = MemoryOptions {
        ring_pages: 4,
        ..MemoryOptions::new([CpuId(0), CpuId(3)].into_iter().collect())
    };
    let pebs = Pebs::open_with(Box::new(kernel.clone()), &options, &cores, &pmus);
    (kernel, pebs)
}

fn drained(pebs: &mut Pebs) -> Vec<Record> {
    let mut records = Vec::new();
    pebs.drain(&mut |record| records.push(record.clone()));
    records
}

/// Events 0 to 2 are those of cpu 0: leader, loads, stores. The ring is that of the loads.
#[test]
fn loads_and_stores_come_out_of_one_ring() {
    let (kernel, pebs) = open(|_, _| None);
    let mut pebs = pebs.unwrap();
    pebs.attach(Pid(7)).unwrap();
    let mut ring = kernel.ring(1, 4);
    // The loads tell what they are and were answered by; the stores do not.
    assert!(ring.write(&sample(FakeEvents::id(1), 0x1000, 0x106_6810_0842)));
    assert!(ring.write(&sample(FakeEvents::id(2), 0x2000, 0)));
    assert!(ring.write(&sample(FakeEvents::id(9), 0x3000, 0)));
    assert!(ring.write(&sample(FakeEvents::id(2), 0, 0)));
    let accesses: Vec<_> = drained(&mut pebs)
        .into_iter()
        .map(|record| match record {
            Record::Sample(sample) => sample,
            other => panic!("{other:?}"),
        })
        .collect();
    let load = Sample {
        time: Time(100),
        pid: Pid(7),
        tid: Tid(8),
        address: 0x1000,
        physical: 0x1234_5678,
        cpu: CpuId(3),
        kind: AccessKind::Load,
        served: ServedBy::L3,
        weight: 351,
        period: 1_009,
    };
    let store = Sample {
        address: 0x2000,
        kind: AccessKind::Store,
        served: ServedBy::Unknown,
        ..load
    };
    let unknown = Sample {
        address: 0x3000,
        kind: AccessKind::Unknown,
        ..store
    };
    assert_eq!(accesses, [load, store, unknown]);
    assert_eq!(pebs.losses(), Losses::default());
}

#[test]
fn a_rate_that_costs_too_much_is_lowered_for_both() {
    let (kernel, pebs) = open(|_, _| None);
    let mut pebs = pebs.unwrap();
    pebs.attach(Pid(7)).unwrap();
    let mut ring = kernel.ring(1, 4);
    for _ in 0..100 {
        assert!(ring.write(&sample(FakeEvents::id(1), 0x1000, 0)));
    }
    drained(&mut pebs);
    kernel.state().orders.clear();
    let spending = Spending {
        elapsed: std::time::Duration::from_secs(1),
        own_ns: 10_000,
        allowed_ns: 100_000,
        processor_allowed_ns: 100_000,
    };
    let change = pebs.regulate(Time(1_000_000_000), &spending).unwrap();
    assert_eq!((change.from, change.to), (1_009, 4_036));
    // Odd ones, and of stores 64 times as many.
    let (loads, stores) = ("period 4037".to_owned(), "period 258305".to_owned());
    let told = [
        (1, loads.clone()),
        (2, stores.clone()),
        (4, loads),
        (5, stores),
    ];
    assert_eq!(kernel.state().orders, told);
    assert_eq!(pebs.rate().unwrap().period, 4_036);
    assert!(pebs.describe().notes[0].contains("one sample for each 4036 events"));
}

#[test]
fn refusals_are_one_clear_line() {
    let line = |refuses| {
        let error = open(refuses).1.unwrap_err();
        (error.to_string(), error.remedy().unwrap_or_default())
    };
    let (text, remedy) = line(|_, _| Some(libc::EBUSY));
    assert_eq!(
        text,
        "cannot sample loads and stores on cpu `0`: no room for another event"
    );
    assert!(remedy.contains("end other programs"));
    let (text, _) = line(|attr, _| (attr.config[0] == 0x1cd).then_some(libc::ENODATA));
    assert!(
        text.ends_with("the kernel does not understand the event"),
        "{text}"
    );
    let (text, _) = line(|_, _| Some(libc::ENOENT));
    assert!(text.ends_with("this machine has no such event"), "{text}");
    let (text, _) = line(|_, cpu| (cpu.0 == 3).then_some(libc::EMFILE));
    assert_eq!(
        text,
        "cannot sample loads and stores on cpu `3`: too many open files"
    );
}

#[test]
fn a_driver_that_goes_is_told_once() {
    let (kernel, pebs) = open(|_, _| None);
    let mut pebs = pebs.unwrap();
    let cpus: CpuSet = [CpuId(0), CpuId(3)].into_iter().collect();
    assert_eq!(pebs.refresh(&cpus), []);
    // From now on reading fails, and opening too.
    for number in 0..6 {
        kernel.state().counts.insert(number, Err(libc::ENODEV));
    }
    kernel.state().refuses = |_, _| Some(libc::ENODEV);
    let told = pebs.refresh(&cpus);
    drained(&mut pebs);
    let told: Vec<_> = told
        .into_iter()
        .chain(pebs.refresh(&cpus))
        .map(|error| error.cpu)
        .collect();
    assert_eq!(told, [CpuId(0), CpuId(3)]);
    assert_eq!(pebs.refresh(&cpus), [], "once");
    let status = pebs.describe();
    assert_eq!(status.cpus, 0);
    assert!(
        status
            .notes
            .iter()
            .any(|note| note.contains("the driver of the event is gone"))
    );
    // It comes back.
    kernel.state().refuses = |_, _| None;
    assert_eq!(pebs.refresh(&cpus), []);
    assert_eq!((pebs.describe().cpus, pebs.describe().notes.len()), (2, 0));
}

#[test]
fn what_was_refused_on_a_processor_goes_with_it() {
    let (kernel, pebs) = open(|_, _| None);
    let mut pebs = pebs.unwrap();
    let [one, both] =
        [&[0][..], &[0, 3]].map(|cpus| cpus.iter().copied().map(CpuId).collect::<CpuSet>());
    assert_eq!(pebs.refresh(&one), []);
    drained(&mut pebs);
    kernel.state().refuses = |_, cpu| (cpu.0 == 3).then_some(libc::EMFILE);
    for _ in 0..2 {
        assert_eq!(pebs.refresh(&both).len(), 1, "told each time that it comes");
        assert!(pebs.describe().notes[0].contains("too many open files"));
        assert_eq!(pebs.refresh(&one), []);
        assert_eq!(pebs.describe().notes, [""; 0]);
    }
}

#[test]
fn a_ring_that_stays_full_is_followed_by_a_larger_one() {
    let (kernel, pebs) = open(|_, _| None);
    let mut pebs = pebs.unwrap();
    pebs.attach(Pid(7)).unwrap();
    let mut ring = kernel.ring(1, 4);
    let mut count = 0;
    for _ in 0..5 {
        // Twelve KiB of sixteen.
        for _ in 0..153 {
            assert!(ring.write(&sample(FakeEvents::id(1), 0x1000, 0)));
        }
        count += drained(&mut pebs).len();
    }
    assert_eq!(count, 5 * 153);
    // Events 6 to 8 are the new ones of cpu 0. The old ring still has a record, of which the new has
    // none; what the new one has comes from there.
    assert!(ring.write(&sample(FakeEvents::id(1), 0x4000, 0)));
    assert!(
        kernel
            .ring(7, 8)
            .write(&sample(FakeEvents::id(7), 0x5000, 0))
    );
    let addresses: Vec<u64> = drained(&mut pebs)
        .iter()
        .filter_map(|record| match record {
            Record::Sample(sample) => Some(sample.address),
            _ => None,
        })
        .collect();
    assert_eq!(addresses, [0x4000, 0x5000]);
    let orders = &kernel.state().orders;
    let at = |event: usize, order: &str| {
        orders
            .iter()
            .position(|said| *said == (event, order.to_owned()))
    };
    assert!(
        at(7, "enable").unwrap() < at(1, "disable").unwrap(),
        "without a gap"
    );
    assert_eq!(pebs.describe().cpus, 2);
}

#[test]
fn a_larger_ring_is_tried_again_when_a_processor_comes() {
    let (kernel, pebs) = open(|_, _| None);
    let mut pebs = pebs.unwrap();
    pebs.attach(Pid(7)).unwrap();
    let [one, both] =
        [&[0][..], &[0, 3]].map(|cpus| cpus.iter().copied().map(CpuId).collect::<CpuSet>());
    let mut ring = kernel.ring(1, 4);
    let grows = || {
        kernel
            .state()
            .orders
            .iter()
            .any(|(_, said)| said == "disable")
    };
    let mut fill = |pebs: &mut Pebs| {
        (0..5).any(|_| {
            for _ in 0..153 {
                assert!(ring.write(&sample(FakeEvents::id(1), 0x1000, 0)));
            }
            drained(pebs);
            grows()
        })
    };
    kernel.state().refuses = |_, _| Some(libc::ENODEV);
    assert!(!fill(&mut pebs));
    kernel.state().refuses = |_, _| None;
    assert!(!fill(&mut pebs), "not each time");
    for (enabled_ns, cpus) in [(1, &one), (2, &both)] {
        let counts = crate::open::Counts {
            enabled_ns,
            running_ns: enabled_ns,
            ..Default::default()
        };
        kernel.state().counts.insert(1, Ok(counts));
        assert_eq!(pebs.refresh(cpus), []);
        drained(&mut pebs);
        kernel.state().orders.clear();
    }
    assert!(fill(&mut pebs));
}

#[test]
fn events_that_take_turns_stand_for_more() {
    let (kernel, pebs) = open(|_, _| None);
    let mut pebs = pebs.unwrap();
    pebs.attach(Pid(7)).unwrap();
    let counts = crate::open::Counts {
        enabled_ns: 4_000,
        running_ns: 1_000,
        ..Default::default()
    };
    kernel.state().counts.insert(1, Ok(counts));
    let cpus: CpuSet = [CpuId(0), CpuId(3)].into_iter().collect();
    assert_eq!(pebs.refresh(&cpus), []);
    assert!(
        kernel
            .ring(1, 4)
            .write(&sample(FakeEvents::id(1), 0x1000, 0))
    );
    let records = drained(&mut pebs);
    assert!(matches!(records.as_slice(), [Record::Sample(sample)] if sample.period == 4 * 1_009));
    assert_eq!(pebs.rate().unwrap().turns_permille, 4_000);
    assert!(pebs.describe().notes[0].contains("run 25 % of the time"));
}
