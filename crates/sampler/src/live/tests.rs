//! From bytes in rings to records, with a reading that makes an access of every sample.

use std::thread;

use numad_core::{AccessKind, Lifecycle, Sample, ServedBy};
use topology::Tid;

use super::*;
use crate::decode::{Body, Field, SampleView, Trailer, stream};
use crate::faults::fault_attr;
use crate::ring::fake::FakeKernel;

/// Takes the address and what the event is about.
#[derive(Debug)]
struct Plain;

impl Reading for Plain {
    fn access<B: Body>(
        &self,
        view: &SampleView<'_, B>,
        kind: AccessKind,
    ) -> Result<Access, Unusable> {
        let address = view.number(Field::Addr).unwrap();
        match address {
            INVALID => Err(Unusable::Invalid),
            NOT_AN_ACCESS => Err(Unusable::NotAnAccess),
            _ => Ok(Access {
                address,
                physical: 0,
                kind,
                served: ServedBy::Unknown,
                weight: 0,
            }),
        }
    }

    fn doubts_addresses(&self) -> bool {
        true
    }
}

const INVALID: u64 = 0xbad;
const NOT_AN_ACCESS: u64 = 0xabc;

fn layout() -> Layout {
    Layout::new(fault_attr().sample_type, Trailer::Present).unwrap()
}

fn record(kind: u32, misc: u16, words: &[u64]) -> Vec<u8> {
    let size = u16::try_from(8 + words.len() * 8).unwrap();
    let mut bytes = kind.to_ne_bytes().to_vec();
    bytes.extend(misc.to_ne_bytes());
    bytes.extend(size.to_ne_bytes());
    bytes.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
    bytes
}

/// Two 32-bit numbers in memory order as one word.
fn pair(first: u32, second: u32) -> u64 {
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&first.to_ne_bytes());
    bytes[4..].copy_from_slice(&second.to_ne_bytes());
    u64::from_ne_bytes(bytes)
}

/// A sample as page-fault events write it: TID, TIME, ADDR, CPU.
fn fault(pid: u32, tid: u32, time: u64, address: u64) -> Vec<u8> {
    record(9, 0, &[pair(pid, tid), time, address, pair(3, 0)])
}

fn task(kind: u32, pid: u32, tid: u32, parent: u32) -> Vec<u8> {
    let body = [pair(pid, parent), pair(tid, parent), 55];
    record(
        kind,
        0,
        &[&body[..], &[pair(pid, tid), 55, pair(3, 0)]].concat(),
    )
}

fn lost(count: u64) -> Vec<u8> {
    record(2, 0, &[1, count, pair(0, 0), 55, pair(3, 0)])
}

#[derive(Default)]
struct State {
    filter: Filter,
    announced: Vec<u32>,
    losses: Losses,
    mappings: Mappings,
    scale_permille: u64,
    period: u64,
    mix: Option<delivery::Mix>,
    lost_in_ring: u64,
    lost_handed_on: u64,
}

impl State {
    fn deliver(&mut self, bytes: &[u8], lost_in_total: Option<u64>) -> Vec<Record> {
        let mut records = Vec::new();
        let mut out = |record: &Record| records.push(record.clone());
        let mut delivery = Delivery {
            reading: &Plain,
            mappings: &mut self.mappings,
            filter: &mut self.filter,
            losses: &mut self.losses,
            announced: &self.announced,
            out: &mut out,
            cpu: CpuId(3),
            period: self.period,
            scale_permille: self.scale_permille,
            kinds: vec![(0, AccessKind::Unknown)],
            tally: delivery::Tally::default(),
            mix: self.mix,
            lost_in_ring: self.lost_in_ring,
            lost_handed_on: self.lost_handed_on,
        };
        stream(&layout(), bytes, &[], &mut delivery).unwrap();
        if let Some(total) = lost_in_total {
            delivery.lost_in_total(total);
        }
        let (in_ring, handed_on) = (delivery.lost_in_ring, delivery.lost_handed_on);
        let count = delivery.tally.records;
        (self.lost_in_ring, self.lost_handed_on) = (in_ring, handed_on);
        assert_eq!(count, records.len() as u64);
        records
    }
}

#[test]
fn only_user_addresses_of_attached_processes_are_delivered() {
    let mut state = State::default();
    state.filter.add(Pid(7));
    let stream = [
        fault(7, 8, 100, 0x5555_0000_1000),
        fault(9, 9, 101, 0x5555_0000_1000),
        fault(7, 7, 102, 0xffff_8880_0000_1000),
        fault(u32::MAX, u32::MAX, 103, 0x1000),
    ]
    .concat();
    let expected = Record::Sample(Sample {
        time: Time(100),
        pid: Pid(7),
        tid: Tid(8),
        address: 0x5555_0000_1000,
        physical: 0,
        cpu: CpuId(3),
        kind: AccessKind::Unknown,
        served: ServedBy::Unknown,
        weight: 0,
        period: 1,
    });
    assert_eq!(state.deliver(&stream, None), [expected]);
}

#[test]
fn children_are_followed_from_their_fork_on() {
    let mut state = State::default();
    state.filter.add(Pid(7));
    let comm = [
        pair(20, 20),
        u64::from_ne_bytes(*b"sort\0\0\0\0"),
        pair(20, 20),
        56,
        pair(3, 0),
    ];
    let stream = [
        fault(20, 20, 1, 0x1000),
        task(7, 20, 20, 7),
        fault(20, 20, 2, 0x2000),
        task(7, 7, 71, 7),
        record(3, 1 << 13, &comm),
        task(4, 20, 20, 7),
        task(7, 30, 30, 29),
        task(4, 30, 30, 29),
    ]
    .concat();
    let seen = state.deliver(&stream, None);
    assert_eq!(
        seen[0],
        Record::Lifecycle(Lifecycle::Fork {
            time: Time(55),
            pid: Pid(20),
            tid: Tid(20),
            parent: Pid(7)
        })
    );
    assert!(matches!(&seen[1], Record::Sample(sample) if sample.address == 0x2000));
    assert!(matches!(
        &seen[2],
        Record::Lifecycle(Lifecycle::Fork { tid: Tid(71), .. })
    ));
    assert_eq!(
        seen[3],
        Record::Lifecycle(Lifecycle::Renamed {
            time: Time(56),
            pid: Pid(20),
            tid: Tid(20),
            name: "sort".into(),
            exec: true
        })
    );
    assert!(matches!(
        &seen[4],
        Record::Lifecycle(Lifecycle::Exit { tid: Tid(20), .. })
    ));
    assert_eq!(seen.len(), 5);
    let joined = state.filter.take_joined();
    assert_eq!(
        joined.as_slice(),
        [Pid(7), Pid(20)],
        "a new thread is no new process"
    );
}

/// A grandchild's page and its fork in the first ring, the child's fork in the second.
#[test]
fn children_are_known_before_any_ring_is_delivered() {
    let first = [task(7, 30, 30, 20), fault(30, 30, 4, 0x3000)].concat();
    let second = [task(7, 20, 20, 7), task(7, 7, 71, 7), task(7, 50, 50, 49)].concat();
    let mut state = State::default();
    state.filter.add(Pid(7));
    let mut children = Children::default();
    for ring in [&first, &second] {
        stream(&layout(), ring, &[], &mut children).unwrap();
    }
    let mut told = Vec::new();
    let mut out = |record: &Record| match record {
        Record::Lifecycle(Lifecycle::Fork { pid, parent, .. }) => told.push((pid.0, parent.0)),
        other => panic!("{other:?}"),
    };
    let count = children.adopt(&mut state.filter, &mut out);
    assert_eq!((count, told), (2, vec![(20, 7), (30, 20)]));
    assert!(state.filter.take_joined().eq([Pid(7), Pid(20), Pid(30)]));
    state.announced = children.announced;
    let seen = state.deliver(&first, None);
    assert!(matches!(&seen[0], Record::Sample(sample) if sample.address == 0x3000));
    let rest = state.deliver(&second, None);
    assert!(
        matches!(
            rest.as_slice(),
            [Record::Lifecycle(Lifecycle::Fork { tid: Tid(71), .. })]
        ),
        "each is told once: {rest:?}"
    );
    assert_eq!(state.filter.take_joined().len(), 0, "each is told once");
}

#[test]
fn losses_are_counted_once_whoever_tells_first() {
    let mut state = State::default();
    assert_eq!(state.deliver(&lost(5), None), [Record::Lost(5)]);
    // The event counts 9 in all: 4 more. Then the ring tells of 4, which are these.
    assert_eq!(state.deliver(&[], Some(9)), [Record::Lost(4)]);
    assert_eq!(state.deliver(&lost(4), None), []);
    assert_eq!(state.deliver(&lost(2), Some(11)), [Record::Lost(2)]);
    assert_eq!(state.losses.lost, 11);
    let by_hardware = record(13, 0, &[6, pair(0, 0), 55, pair(3, 0)]);
    assert_eq!(state.deliver(&by_hardware, None), [Record::Lost(6)]);
    let throttle = record(5, 0, &[1, 2, 3, pair(0, 0), 55, pair(3, 0)]);
    assert_eq!(state.deliver(&throttle, None), []);
    assert_eq!((state.losses.lost, state.losses.throttled), (17, 1));
}

/// Losses are told as records of all kinds, and whoever renames a thread all the time fills the
/// rings with other records.
#[test]
fn what_is_lost_is_of_the_kinds_that_came() {
    let mut state = State {
        mix: Some(delivery::Mix::default()),
        ..State::default()
    };
    let sample = fault(7, 7, 100, 4096);
    let others = task(7, 9, 9, 1).repeat(99);
    let deliver = |state: &mut State, bytes: &[u8]| state.deliver(bytes, None);
    assert_eq!(deliver(&mut state, &lost(5)), [Record::Lost(5)]);
    let mixed = [&sample, &others, &lost(1_000)[..]].concat();
    assert_eq!(deliver(&mut state, &mixed), [Record::Lost(10)]);
    assert_eq!(state.losses.lost, 15);
    // Who came may be among it.
    let crowd = [&others, &lost(1_000)[..]].concat();
    assert_eq!(deliver(&mut state, &crowd), [Record::Lost(0)]);
    assert_eq!(state.losses.lost, 15);
}

/// What a sample stands for: the period in force, more if its event took turns with others.
#[test]
fn samples_stand_for_their_period_scaled() {
    let mut state = State {
        period: 8,
        scale_permille: 2_500,
        ..State::default()
    };
    state.filter.add(Pid(7));
    let seen = state.deliver(&fault(7, 7, 1, 0x1000), None);
    assert!(matches!(seen.as_slice(), [Record::Sample(sample)] if sample.period == 20));
}

#[test]
fn what_cannot_be_used_is_dropped_and_counted() {
    let mut state = State::default();
    state.filter.add(Pid(7));
    state.mappings.set(Pid(7), &[(0x1000, 0x2000)]);
    let stream = [
        fault(7, 7, 1, 0x1fff),
        fault(7, 7, 2, 0x2000),
        fault(7, 7, 3, INVALID),
        fault(7, 7, 4, NOT_AN_ACCESS),
        fault(7, 7, 5, u64::MAX),
        fault(9, 9, 6, INVALID),
    ]
    .concat();
    assert_eq!(state.deliver(&stream, None).len(), 1);
    assert_eq!((state.losses.invalid, state.losses.kernel), (2, 1));
    // Another program has other mappings.
    let name = [
        pair(7, 7),
        u64::from_ne_bytes(*b"sort\0\0\0\0"),
        pair(7, 7),
        6,
        pair(3, 0),
    ];
    let stream = [record(3, 1 << 13, &name), fault(7, 7, 7, 0x2000)].concat();
    assert_eq!(state.deliver(&stream, None).len(), 2);
}

/// An old ring is read up to where its successor begins, so that nothing comes twice.
#[test]
fn a_ring_that_was_followed_by_a_larger_one_ends_where_that_begins() {
    let mut state = State::default();
    state.filter.add(Pid(7));
    let mut times = Vec::new();
    let mut gather = |record: &Record| match record {
        Record::Sample(sample) => times.push(sample.time.0),
        Record::Lost(lost) => times.push(1_000 + lost),
        Record::Lifecycle(_) => times.push(55),
        Record::Sent(_) => times.push(66),
    };
    let bytes = [
        fault(7, 7, 98, 0x1000),
        fault(7, 7, 99, 0x1000),
        task(7, 7, 71, 7),
        fault(7, 7, 100, 0x1000),
        lost(4),
        fault(7, 7, 101, 0x1000),
    ]
    .concat();
    let mut delivery = Delivery {
        reading: &Plain,
        mappings: &mut state.mappings,
        filter: &mut state.filter,
        losses: &mut state.losses,
        announced: &state.announced,
        out: &mut gather,
        cpu: CpuId(3),
        period: 1,
        scale_permille: 1000,
        kinds: Vec::new(),
        tally: delivery::Tally::default(),
        mix: None,
        lost_in_ring: 0,
        lost_handed_on: 0,
    };
    let inner = &mut delivery;
    stream(
        &layout(),
        &bytes,
        &[],
        &mut delivery::Until { inner, time: 100 },
    )
    .unwrap();
    assert_eq!(times, [98, 99, 55, 1_004]);
}

/// The whole way from a ring that a thread writes at full speed to records: every one that is not
/// told to be lost arrives, in order.
#[test]
fn a_ring_at_full_speed_is_delivered_or_counted() {
    const FAULTS: u64 = 100_000;
    let (mut ring, mut kernel) = FakeKernel::new(4, 8).unwrap();
    let writer = thread::spawn(move || {
        for number in 0..FAULTS {
            let pid = if number % 3 == 0 { 9 } else { 7 };
            kernel.write(&fault(pid, 7, number, number * 4096));
        }
        // The reader is faster in the end, so the last loss record finds room.
        let mut attempts = FAULTS + 1;
        while !kernel.write(&fault(7, 7, FAULTS, 0)) {
            attempts += 1;
            thread::yield_now();
        }
        (attempts, kernel.lost)
    });
    let mut state = State::default();
    state.filter.add(Pid(7));
    state.filter.add(Pid(9));
    let (mut last, mut seen, mut told) = (None, 0, 0);
    while last != Some(FAULTS) {
        let unread = ring.unread();
        let (first, second) = unread.pieces();
        let bytes = [first, second].concat();
        unread.take();
        for record in state.deliver(&bytes, None) {
            match record {
                Record::Sample(sample) => {
                    assert!(last < Some(sample.time.0));
                    assert_eq!(sample.address, sample.time.0 % FAULTS * 4096);
                    last = Some(sample.time.0);
                    seen += 1;
                }
                Record::Lost(count) => told += count,
                other => panic!("{other:?}"),
            }
        }
    }
    let (attempts, lost) = writer.join().unwrap();
    assert_eq!((told, seen + told), (lost, attempts));
}

/// Threads of a process and those that found room are none.
#[test]
fn processes_that_find_no_room_ahead_are_counted() {
    let forks = (0..u32::try_from(children::CHILDREN_MAX).unwrap() + 3).map(|number| {
        let pid = 1000 + number;
        [task(7, pid, pid, 7), task(7, 7, 500_000 + pid, 7)].concat()
    });
    let bytes: Vec<u8> = forks.flatten().collect();
    let mut children = Children::default();
    stream(&layout(), &bytes, &[], &mut children).unwrap();
    assert_eq!(
        [children.take_overlooked(), children.take_overlooked()],
        [3, 0]
    );
}
