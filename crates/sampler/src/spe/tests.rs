//! From attributes to samples, with a kernel that is not there: rings and traces written by hand, laid
//! out as the driver lays them out.

use std::os::unix::fs::symlink;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use numad_core::ServedBy;
use proptest::prelude::*;
use topology::{Pid, Tid};

use super::clock::{CAN_ZERO, CAPABILITIES, SCALE, TIME_ZERO};
use super::record::tests::USER_LOAD;
use super::*;
use crate::choose::{How, SourceKind, choose};
use crate::decode::trace::{PIECE_COLLISION, PIECE_PARTIAL, PIECE_TRUNCATED};
use crate::machine::Facts;
use crate::open::fake::{FakeEvents, Refuses};
use crate::ring::fake::FakeKernel;
use crate::source::{Losses, Source, Spending};

const RING_PAGES: usize = 4;

fn trace_pages() -> usize {
    (TRACE_BYTES / page_bytes()).max(2)
}

/// The machine `neoverse-n1` of `tests/fixtures/pmu`, and what SPE can do there.
fn neoverse() -> (testkit::tree::TempDir, Vec<SpeUnit>, Pmus) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/pmu");
    let text = fs::read_to_string(path.join("neoverse-n1.tree")).unwrap();
    let tree = testkit::tree::unpack(&text);
    let facts = Facts::read(tree.path());
    let verdicts = choose(&facts);
    let spe = verdicts
        .iter()
        .find(|verdict| verdict.source == SourceKind::Spe);
    let How::Spe(units) = spe.unwrap().usable.clone().unwrap() else {
        panic!("not spe");
    };
    (tree, units, facts.pmus)
}

/// What perf asks for with `arm_spe_0/ts_enable=1,pa_enable=1,load_filter=1,store_filter=1,jitter=1/u`
/// (`tools/perf/arch/arm64/util/arm-spe.c` and `mem-events.c`): the terms' bits of
/// `drivers/perf/arm_spe_pmu.c`, and a second, dummy event with `context_switch` and `task`.
#[test]
fn attributes_are_those_of_perf() {
    let (_tree, units, pmus) = neoverse();
    let both = wanted(&units, &pmus, true).unwrap();
    let [profiling, telling] = both.as_slice() else {
        panic!("two events");
    };
    let expected = 1 | 1 << 1 | 1 << 16 | 1 << 33 | 1 << 34;
    assert_eq!(
        (profiling.attr.kind, profiling.attr.config),
        (9, [expected, 0, 0, 0])
    );
    assert_eq!((telling.attr.kind, telling.attr.config), (1, [9, 0, 0, 0]));
    let switches_tasks_names = 1 << 26 | 1 << 13 | 1 << 9;
    assert_eq!(
        telling.attr.flags,
        profiling.attr.flags | switches_tasks_names
    );
    for event in &both {
        assert_eq!(event.cpus.as_ref().unwrap().to_string(), "0-159");
        assert_eq!(event.attr.clock, None, "the kernel's own");
        assert_ne!(event.attr.flags & attr::FLAG_EXCLUDE_KERNEL, 0);
        assert_eq!(event.attr.precise, 0);
        assert_eq!(event.attr.sample_type, 0x2 | 0x4 | 0x80);
    }
    let without = wanted(&units, &pmus, false).unwrap();
    assert_eq!(without[0].attr.config[0], expected & !2);
    let rates = rates(0, &units);
    assert_eq!((rates.least, rates.step, rates.fixed), (1024, 256, false));
}

/// A source on two processors, with their rings and traces, on a clock that stands still.
struct Machine {
    spe: Spe,
    events: FakeEvents,
    kernels: Vec<FakeKernel>,
    now: Arc<AtomicU64>,
    _tree: testkit::tree::TempDir,
}

/// How far the daemon's clock is ahead of the kernel's.
const AHEAD: u64 = 5_000_000_000;

impl Machine {
    fn new() -> Self {
        Self::with(|_, _| None).unwrap()
    }

    fn with(refuses: Refuses) -> Result<Self, OpenError> {
        let (tree, units, pmus) = neoverse();
        let registers = tree
            .path()
            .join("sys/devices/system/cpu/cpu0/regs/identification");
        fs::create_dir_all(&registers).unwrap();
        fs::write(registers.join("midr_el1"), "0x00000000413fd0c1\n").unwrap();
        fs::create_dir_all(tree.path().join("proc/self/ns")).unwrap();
        symlink(FIRST_NAME_SPACE, tree.path().join("proc/self/ns/pid")).unwrap();
        let options = MemoryOptions {
            root: tree.path().to_owned(),
            ring_pages: RING_PAGES,
            ..MemoryOptions::new(CpuSet::parse_list("0-1").unwrap())
        };
        let events = FakeEvents::new(refuses);
        let now = Arc::new(AtomicU64::new(AHEAD));
        let clock = Arc::clone(&now);
        let opened = events.clone();
        let spe = Spe::open_with(
            move || Box::new(opened.clone()),
            &options,
            &units,
            &pmus,
            Box::new(move || Time(clock.load(Ordering::Relaxed))),
        )?;
        let kernels = [0, 2].map(|number| {
            let kernel = events.traced_ring(number, RING_PAGES, trace_pages());
            // One nanosecond a count, from zero.
            kernel.set_word(CAPABILITIES, CAN_ZERO);
            kernel.set_word(SCALE, u64::from_ne_bytes([0, 0, 0, 0, 1, 0, 0, 0]));
            kernel.set_word(TIME_ZERO, 0);
            kernel
        });
        Ok(Self {
            spe,
            events,
            kernels: kernels.into(),
            now,
            _tree: tree,
        })
    }

    /// Someone runs on a processor, as the one who went tells it.
    fn runs(&mut self, cpu: usize, time: u64, pid: u32, tid: u32) {
        let body = [pair(pid, tid), pair(0, 0), time, pair(1, 0)];
        assert!(self.kernels[cpu].write(&record(15, 1 << 13, &body)));
    }

    /// A piece of trace, and the record that it is complete.
    fn piece(&mut self, cpu: usize, time: u64, flags: u64, trace: &[u8]) {
        let offset = self.trace(cpu, trace);
        self.told(cpu, time, flags, (offset, trace.len() as u64));
    }

    fn trace(&mut self, cpu: usize, trace: &[u8]) -> u64 {
        let offset = self.kernels[cpu].trace_head();
        assert!(self.kernels[cpu].trace(trace));
        offset
    }

    fn told(&mut self, cpu: usize, time: u64, flags: u64, (offset, size): (u64, u64)) {
        let body = [offset, size, flags, pair(0, 0), time, pair(1, 0)];
        assert!(self.kernels[cpu].write(&record(11, 0, &body)));
    }

    /// Drains at a time of the kernel's clock.
    fn drain(&mut self, time: u64) -> Vec<Record> {
        self.now.store(AHEAD + time, Ordering::Relaxed);
        let mut records = Vec::new();
        self.spe.drain(&mut |record| records.push(record.clone()));
        records
    }

    /// The same, as thread, address and time of the samples, and the losses.
    fn drained(&mut self, time: u64) -> (Vec<(u32, u64, u64)>, u64) {
        let mut lost = 0;
        let mut samples = Vec::new();
        for record in self.drain(time) {
            match record {
                Record::Sample(sample) => {
                    samples.push((sample.tid.0, sample.address, sample.time.0));
                }
                Record::Lost(count) => lost += count,
                Record::Lifecycle(_) | Record::Sent(_) => {}
            }
        }
        (samples, lost)
    }

    fn orders(&self, event: usize) -> Vec<String> {
        let state = self.events.state();
        let told = state.orders.iter().filter(|(number, _)| *number == event);
        told.map(|(_, order)| order.clone()).collect()
    }
}

fn pair(first: u32, second: u32) -> u64 {
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&first.to_ne_bytes());
    bytes[4..].copy_from_slice(&second.to_ne_bytes());
    u64::from_ne_bytes(bytes)
}

fn record(kind: u32, misc: u16, words: &[u64]) -> Vec<u8> {
    let size = u16::try_from(8 + words.len() * 8).unwrap();
    let mut bytes = kind.to_ne_bytes().to_vec();
    bytes.extend(misc.to_ne_bytes());
    bytes.extend(size.to_ne_bytes());
    bytes.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
    bytes
}

/// A load of a program, 64 bytes as Neoverse writes them.
fn load(address: u64, time: u64) -> Vec<u8> {
    let mut bytes = USER_LOAD.to_vec();
    bytes[21..29].copy_from_slice(&address.to_le_bytes());
    bytes[56..].copy_from_slice(&time.to_le_bytes());
    bytes
}

/// A store of a program whose thread the kernel told the processor.
fn store(address: u64, time: u64, context: u32) -> Vec<u8> {
    let mut bytes = vec![0xb0, 0, 0x10, 0, 0, 0, 0, 0, 0x80, 0x65];
    bytes.extend(context.to_le_bytes());
    bytes.extend([0x49, 0x01, 0x52, 0x16, 0x00, 0x98, 30, 0, 0xb2]);
    bytes.extend(address.to_le_bytes());
    bytes.resize(55, 0);
    bytes.push(0x71);
    bytes.extend(time.to_le_bytes());
    bytes
}

#[test]
fn samples_go_to_who_ran() {
    let mut machine = Machine::new();
    machine.spe.attach(Pid(7)).unwrap();
    machine.runs(0, 100, 7, 71);
    machine.runs(0, 200, 9, 9);
    machine.runs(0, 300, 7, 72);
    let trace = [load(0x1000, 150), load(0x2000, 250), load(0x3000, 350)].concat();
    machine.piece(0, 400, 0, &trace);
    machine.runs(1, 120, 7, 73);
    machine.piece(1, 500, 0, &load(0x4000, 130));
    let sample = |tid, address, time, cpu| {
        Record::Sample(Sample {
            time: Time(AHEAD + time),
            pid: Pid(7),
            tid: Tid(tid),
            address,
            physical: 0x0803_2c95_5a43,
            cpu: CpuId(cpu),
            kind: AccessKind::Load,
            served: ServedBy::L1,
            weight: 8,
            period: PERIOD_START,
        })
    };
    assert_eq!(
        machine.drain(350),
        [
            sample(71, 0x1000, 150, 0),
            sample(72, 0x3000, 350, 0),
            sample(73, 0x4000, 130, 1)
        ],
    );
    assert_eq!(machine.spe.losses(), Losses::default());
    // Who runs is remembered, and what was read is gone.
    machine.piece(0, 900, 0, &load(0x5000, 800));
    assert_eq!(machine.drained(1_000), (vec![(72, 0x5000, AHEAD + 800)], 0));
    assert_eq!(machine.drained(1_001), (vec![], 0));
    machine.spe.detach(Pid(7));
    machine.piece(0, 1_900, 0, &load(0x6000, 1_800));
    assert_eq!(machine.drained(2_000), (vec![], 0));
}

#[test]
fn what_is_complete_later_is_read_later() {
    let mut machine = Machine::new();
    machine.spe.attach(Pid(7)).unwrap();
    machine.runs(0, 100, 7, 71);
    machine.piece(0, 200, 0, &load(0x1000, 150));
    // The ring tells of a piece that the trace's head does not cover yet.
    machine.told(0, 400, 0, (64, 64));
    assert_eq!(machine.drained(150), (vec![(71, 0x1000, AHEAD + 150)], 0));
    machine.runs(0, 500, 7, 72);
    machine.trace(0, &load(0x2000, 350));
    assert_eq!(machine.drained(600), (vec![(71, 0x2000, AHEAD + 350)], 0));
}

#[test]
fn a_processor_that_names_the_thread_is_believed() {
    let mut machine = Machine::new();
    machine.spe.attach(Pid(7)).unwrap();
    machine.runs(0, 100, 7, 71);
    machine.runs(0, 200, 7, 72);
    let trace = [
        store(0x1000, 150, 71),
        store(0x2000, 201, 71), // the register is written a little later
        store(0x3000, 300, 72),
        store(0x4000, 310, 99), // of whom nobody told
    ]
    .concat();
    machine.piece(0, 400, 0, &trace);
    let expected = vec![
        (71, 0x1000, AHEAD + 150),
        (71, 0x2000, AHEAD + 201),
        (72, 0x3000, AHEAD + 300),
    ];
    assert_eq!(machine.drained(300), (expected, 1));
}

#[test]
fn records_that_are_lost_leave_samples_unattributed() {
    let mut machine = Machine::new();
    machine.spe.attach(Pid(7)).unwrap();
    machine.runs(0, 100, 7, 71);
    let lost = [1, 3, pair(0, 0), 200, pair(1, 0)];
    assert!(machine.kernels[0].write(&record(2, 0, &lost)));
    machine.runs(0, 300, 7, 72);
    let trace = [load(0x1000, 250), load(0x2000, 350)].concat();
    // The record of the piece is lost as well; the trace is read all the same.
    machine.trace(0, &trace);
    assert_eq!(
        machine.drained(350),
        (vec![(72, 0x2000, AHEAD + 350)], 3 + 1)
    );
    assert_eq!(machine.spe.losses().lost, 4);
}

#[test]
fn a_trace_that_was_full_is_counted_and_goes_on() {
    let mut machine = Machine::new();
    machine.spe.attach(Pid(7)).unwrap();
    machine.runs(0, 100, 7, 71);
    let mut cut = [load(0x1000, 150), load(0x2000, 160)].concat();
    cut.truncate(100);
    machine.piece(0, 200, PIECE_TRUNCATED | PIECE_PARTIAL, &cut);
    machine.piece(0, 300, PIECE_COLLISION, &load(0x3000, 250));
    let before = machine.orders(0);
    let expected = vec![(71, 0x1000, AHEAD + 150), (71, 0x3000, AHEAD + 250)];
    assert_eq!(machine.drained(250), (expected, 2));
    let losses = machine.spe.losses();
    assert_eq!((losses.lost, losses.damaged), (2, 0));
    assert_eq!(machine.orders(0)[before.len()..], ["enable"]);
    assert_eq!(machine.drained(260).1, 0, "told once");
    assert_eq!(machine.orders(0).len(), before.len() + 1);
    // Nearly full, and nobody said that it stopped.
    let full = trace_pages() * page_bytes() * 95 / 100 / 64;
    machine.piece(0, 400, 0, &load(0x4000, 390).repeat(full));
    let mut count = 0;
    let drained = machine.spe.drain(&mut |_| count += 1);
    assert_eq!((count, drained.records), (full, full as u64));
    assert!(drained.fill_permille > 900);
    assert_eq!(machine.orders(0)[before.len()..], ["enable", "enable"]);
}

#[test]
fn many_switches_have_the_trace_published() {
    let mut machine = Machine::new();
    machine.spe.attach(Pid(7)).unwrap();
    let before = machine.orders(0).len();
    let mut time = 0;
    for _batch in 0..25 {
        for _switch in 0..RING_PAGES * page_bytes() / 2 / 40 {
            time += 1;
            machine.runs(0, time, 7, u32::try_from(time).unwrap());
        }
        machine.drain(time);
    }
    let orders = machine.orders(0);
    assert_eq!(orders[before..before + 2], ["disable", "enable"]);
}

#[test]
fn damage_is_counted_and_costs_its_record_alone() {
    let mut machine = Machine::new();
    machine.spe.attach(Pid(7)).unwrap();
    machine.runs(0, 100, 7, 71);
    let mut trace = [load(0x1000, 150), load(0x2000, 160), load(0x3000, 170)].concat();
    trace[64 + 9] = 0xff;
    machine.piece(0, 200, 0, &trace);
    // A time that is still to come when the piece is complete is no time.
    machine.piece(0, 300, 0, &load(0x4000, 1 << 40));
    machine.piece(0, 400, 0, &load(0x5000, 350));
    let (samples, lost) = machine.drained(350);
    let addresses: Vec<u64> = samples.iter().map(|sample| sample.1).collect();
    assert_eq!((addresses, lost), (vec![0x1000, 0x3000, 0x5000], 1));
    assert_eq!(machine.spe.losses().damaged, 1);
}

#[test]
fn the_kernels_own_is_dropped_and_counted() {
    let mut machine = Machine::new();
    machine.spe.attach(Pid(7)).unwrap();
    machine.runs(0, 100, 7, 71);
    let mut of_kernel = load(0x1000, 150);
    of_kernel[8] = 0xa0; // el1
    let trace = [of_kernel, load(0xffff_8000_1000_0000, 160), load(0, 170)].concat();
    machine.piece(0, 200, 0, &trace);
    assert_eq!(machine.drained(170), (vec![], 0));
    assert_eq!(machine.spe.losses().kernel, 2);
}

#[test]
fn without_a_conversion_only_named_threads_are_known() {
    let mut machine = Machine::new();
    machine.spe.attach(Pid(7)).unwrap();
    machine.kernels[0].set_word(CAPABILITIES, 0);
    machine.runs(0, 100, 7, 71);
    let trace = [load(0x1000, 150), store(0x2000, 160, 71)].concat();
    machine.piece(0, 200, 0, &trace);
    assert_eq!(machine.drained(200), (vec![(71, 0x2000, AHEAD + 200)], 1));
}

#[test]
fn the_trace_may_wrap_between_any_two_records() {
    let mut machine = Machine::new();
    machine.spe.attach(Pid(7)).unwrap();
    machine.runs(0, 10, 7, 71);
    let records = trace_pages() * page_bytes() / 64;
    let mut seen = 0;
    for round in 1..200u64 {
        let trace: Vec<u8> = (0..37)
            .flat_map(|n| load(0x1000 + n, round * 100 + n))
            .collect();
        machine.piece(0, round * 100 + 99, 0, &trace);
        let (samples, lost) = machine.drained(round * 100 + 36);
        assert_eq!((samples.len(), lost), (37, 0), "round {round}");
        seen += samples.len();
    }
    assert!(seen > 3 * records);
    assert_eq!(machine.spe.losses(), Losses::default());
}

#[test]
fn threads_come_and_go_on_the_daemons_clock() {
    let mut machine = Machine::new();
    machine.spe.attach(Pid(7)).unwrap();
    let trailer = [pair(7, 7), 500, pair(1, 0)];
    let fork = [&[pair(20, 7), pair(20, 7), 490][..], &trailer].concat();
    assert!(machine.kernels[1].write(&record(7, 0, &fork)));
    machine.runs(0, 600, 20, 20);
    machine.piece(0, 700, 0, &load(0x1000, 650));
    let seen = machine.drain(650);
    let [Record::Lifecycle(fork), Record::Sample(sample)] = seen.as_slice() else {
        panic!("{seen:?}");
    };
    assert_eq!(
        *fork,
        Lifecycle::Fork {
            time: Time(AHEAD + 490),
            pid: Pid(20),
            tid: Tid(20),
            parent: Pid(7)
        }
    );
    assert_eq!((sample.pid, sample.time), (Pid(20), Time(AHEAD + 650)));
}

#[test]
fn a_rate_that_changes_is_told_to_both_events() {
    let mut machine = Machine::new();
    let spending = Spending {
        elapsed: std::time::Duration::from_secs(20),
        own_ns: 1_000_000_000,
        allowed_ns: 1_000_000,
        processor_allowed_ns: 1_000_000,
    };
    let changes = (0..10).filter_map(|second| {
        let now = Time(second * 20_000_000_000);
        machine.spe.regulate(now, &spending)
    });
    let change = changes.last().expect("it costs too much");
    assert_eq!(change.to % PERIOD_STEP, 0);
    assert!(change.to > PERIOD_START);
    for event in 0..4 {
        let told = machine.orders(event);
        assert_eq!(told.last(), Some(&format!("period {}", change.to)));
    }
}

#[test]
fn what_is_denied_is_done_without_and_said() {
    let denied = |attr: &EventAttr, _cpu| (attr.config[0] & 2 != 0).then_some(libc::EACCES);
    let machine = Machine::with(denied).unwrap();
    let status = machine.spe.describe();
    assert_eq!(status.coverage.physical, Covers::No("not permitted"));
    assert!(status.notes.iter().any(|note| note.contains("CAP_PERFMON")));
    assert_eq!((status.name, status.cpus), ("spe", 2));
    // Processor 1 is of a make that is not known.
    assert!(
        status
            .notes
            .iter()
            .any(|note| note.starts_with("1 processors"))
    );
    assert!(matches!(status.coverage.levels, Covers::Partly(_)));
}

#[track_caller]
fn check_refused(errno: i32, text: &str) {
    // The error is a number in a function pointer, so each has its own.
    let refuses: Refuses = match errno {
        libc::ENOENT => |_, _| Some(libc::ENOENT),
        libc::EACCES => |_, _| Some(libc::EACCES),
        libc::EBUSY => |_, _| Some(libc::EBUSY),
        _ => |_, _| Some(libc::EMFILE),
    };
    let Err(error) = Machine::with(refuses) else {
        panic!("opened");
    };
    let shown = error.to_string();
    assert!(shown.contains(text), "{shown}");
    assert!(!shown.contains('\n'), "{shown}");
}

#[test]
fn refusals_are_one_sentence() {
    check_refused(libc::ENOENT, "no such event");
    check_refused(libc::EACCES, "not permitted");
    check_refused(libc::EBUSY, "no room");
    check_refused(libc::EMFILE, "too many open files");
}

/// On this machine, unless it is an Arm server: one sentence that says why not.
#[test]
fn where_there_is_none_one_sentence_says_so() {
    let facts = Facts::read(Path::new("/"));
    let verdicts = choose(&facts);
    let spe = verdicts
        .iter()
        .find(|verdict| verdict.source == SourceKind::Spe);
    if let Err(lack) = &spe.unwrap().usable {
        let shown = lack.to_string();
        assert!(!shown.is_empty() && !shown.contains('\n'), "{shown}");
    }
    let options = MemoryOptions::new(CpuSet::parse_list("0").unwrap());
    let clock = || -> Clock { Box::new(|| Time(0)) };
    let error = Spe::open(&options, &[], &Pmus::default(), clock()).unwrap_err();
    assert_eq!(error.refused, Refused::NoSuchEvent);
    assert!(
        error
            .to_string()
            .starts_with("cannot sample loads and stores")
    );
}

/// A processor that writes switches, samples and pieces as fast as it can, on which the source keeps up or
/// counts what it missed: every sample comes once, in order, from the thread that ran.
#[test]
fn a_processor_at_full_speed_is_followed() {
    const PIECES: u64 = 20_000;
    let mut machine = Machine::new();
    machine.spe.attach(Pid(7)).unwrap();
    let mut kernel = machine.kernels.remove(0);
    let writer = std::thread::spawn(move || {
        let (mut written, mut untold) = (0, 0);
        for number in 1..=PIECES {
            let time = number * 10;
            let tid = u32::try_from(number).unwrap();
            let switch = [pair(7, tid), pair(0, 0), time, pair(0, 0)];
            // Without the switch nobody would know whose the sample is; the hardware samples all the same.
            let told = kernel.write(&record(15, 1 << 13, &switch));
            let offset = kernel.trace_head();
            let sample = load(0x1000 * number, time + 1);
            if kernel.trace(&sample) {
                untold += u64::from(told);
                let piece = [offset, 64, 0, pair(0, 0), time + 2, pair(0, 0)];
                // What a ring that is full to the end does not take is not even told as lost.
                if kernel.write(&record(11, 0, &piece)) {
                    written += std::mem::take(&mut untold);
                }
            }
        }
        written
    });
    let (mut seen, mut last) = (0, 0);
    let mut drain = |machine: &mut Machine| {
        machine.spe.drain(&mut |record| {
            if let Record::Sample(sample) = record {
                assert!(sample.address > last, "in order, and once");
                last = sample.address;
                let number = sample.address / 0x1000;
                assert_eq!(u64::from(sample.tid.0), number);
                seen += 1;
            }
        });
    };
    machine.now.store(AHEAD, Ordering::Relaxed);
    while !writer.is_finished() {
        drain(&mut machine);
    }
    let written = writer.join().unwrap();
    drain(&mut machine);
    let losses = machine.spe.losses();
    assert_eq!(losses.damaged, 0);
    assert!(seen <= written && seen > 0);
    assert!(seen == written || losses.lost > 0, "{seen} of {written}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Any bytes in the trace, any records about it: no panic, and what is drained twice is empty.
    #[test]
    fn any_trace_is_survived(
        bytes in prop::collection::vec(any::<u8>(), 0..500),
        told in prop::collection::vec((any::<u64>(), 0u64..700, 0u64..16, 0u64..900), 0..6),
    ) {
        let mut machine = Machine::new();
        machine.spe.attach(Pid(7)).unwrap();
        machine.runs(0, 100, 7, 71);
        let trace = [load(0x1000, 150), bytes, load(0x2000, 160)].concat();
        for (offset, size, flags, time) in told {
            let offset = if offset % 3 == 0 { offset } else { offset % 700 };
            machine.told(0, time, flags, (offset, size));
        }
        machine.piece(0, 1_000, 0, &trace);
        machine.drain(2_000);
        prop_assert_eq!(machine.drained(3_000).0, vec![]);
    }
}
