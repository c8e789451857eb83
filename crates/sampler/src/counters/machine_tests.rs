use topology::CpuId;

use super::*;
use crate::counters::fake::FakeOpener;
use crate::counters::open::{CounterSpec, EventCode, Whom};
use crate::counters::plan::Planned;

fn memory(node: u32, flow: Flow) -> Gauge {
    let nodes = vec![NodeId(node)];
    Gauge::Memory { nodes, flow }
}

fn planned(gauge: Gauge, pmu: u32, config: u64, unit: f64) -> Planned {
    Planned {
        gauge,
        spec: CounterSpec {
            event: EventCode {
                pmu,
                config,
                ..EventCode::default()
            },
            whom: Whom::Machine(CpuId(0)),
            user_only: false,
        },
        unit,
        name: format!("pmu_{pmu}/event={config}/"),
    }
}

fn plan() -> Plan {
    Plan {
        planned: vec![
            planned(memory(0, Flow::Read), 20, 1, 64.0),
            planned(memory(0, Flow::Read), 21, 1, 64.0),
            planned(memory(0, Flow::Written), 20, 2, 64.0),
            planned(memory(1, Flow::Both), 22, 1, 64.0),
            planned(memory(0, Flow::ReadQueue), 20, 3, 1.0),
            planned(memory(0, Flow::ReadQueued), 20, 4, 1.0),
            planned(
                Gauge::Energy {
                    package: PackageId(0),
                    domain: Domain::Memory,
                },
                9,
                0,
                0.5,
            ),
            planned(
                Gauge::Link {
                    package: PackageId(1),
                    link: "upi_0".to_owned(),
                },
                30,
                0,
                64.0 / 9.0,
            ),
        ],
        lacks: Vec::new(),
    }
}

fn begin(opener: &mut FakeOpener, room: usize) -> MachineCounters {
    MachineCounters::begin(&plan(), opener, room, Time(0))
}

const SECOND: Time = Time(1_000_000_000);

#[test]
fn counts_become_rates() {
    let mut opener = FakeOpener::default();
    let mut counters = begin(&mut opener, 100);
    assert_eq!(counters.descriptors(), 8);
    opener.count(1_000_000_000, |spec| {
        match (spec.event.pmu, spec.event.config) {
            (20, 3) => 5000,
            (20, 4) => 100,
            (9, _) => 60,
            (30, _) => 9_000,
            _ => 1_000_000,
        }
    });
    let rates = counters.read(SECOND);
    let [first, second] = rates.memory.as_slice() else {
        panic!("{rates:?}");
    };
    assert_eq!((first.read, first.written), (Some(128e6), Some(64e6)));
    assert_eq!((first.total(), second.total()), (Some(192e6), Some(64e6)));
    assert_eq!(
        (first.read_wait_clocks, first.write_wait_clocks),
        (Some(50.0), None)
    );
    assert_eq!((second.read, second.both), (None, Some(64e6)));
    assert!((rates.power[0].watts - 30.0).abs() < 1e-9);
    assert!((rates.links[0].sent - 64_000.0).abs() < 1e-6);
    // Too soon to read again, even though something was counted.
    opener.count(1, |_| 1);
    let before = rates.clone();
    assert_eq!(*counters.read(Time(1_100_000_000)), before);
    assert_eq!(
        counters.read(Time(33_000_000_000)).memory[0].read,
        Some(4.0)
    );
    assert_eq!(
        *counters.read(Time(200_000_000_000)),
        MachineRates::default()
    );
}

#[test]
fn half_a_node_is_none() {
    for why in [CounterRefused::Busy, CounterRefused::TooManyFiles] {
        let mut opener = FakeOpener::default();
        opener.state().refused.push((21, None, why));
        let mut counters = begin(&mut opener, 100);
        assert_eq!((counters.descriptors(), opener.state().open.len()), (6, 6));
        let [absent] = counters.absent() else {
            panic!("{:?}", counters.absent());
        };
        assert_eq!((&absent.gauge, absent.why), (&memory(0, Flow::Read), why));
        assert_eq!(absent.counter, "pmu_21/event=1/");
        opener.count(1_000_000_000, |_| 1);
        let rates = counters.read(SECOND);
        assert_eq!(
            (rates.memory[0].read, rates.memory[0].total()),
            (None, None)
        );
        assert_eq!(rates.memory[0].written, Some(64.0));
    }
}

#[test]
fn descriptors_are_bounded() {
    let mut opener = FakeOpener::default();
    let counters = begin(&mut opener, 3);
    assert_eq!(counters.descriptors(), 3);
    assert_eq!(counters.absent().len(), 5);
    assert!(
        counters
            .absent()
            .iter()
            .all(|absent| matches!(absent.why, CounterRefused::OverLimit { .. }))
    );
}

#[test]
fn a_counter_that_goes_back_is_unknown_once_and_one_that_fails_for_good() {
    let mut opener = FakeOpener::default();
    let mut counters = begin(&mut opener, 100);
    opener.count(1_000_000_000, |_| 10);
    counters.read(SECOND);
    for (spec, reading) in opener.state().open.values_mut() {
        if spec.event.pmu == 21 {
            reading.value = 0;
        }
    }
    let rates = counters.read(Time(2_000_000_000)).clone();
    assert_eq!(
        (rates.memory[0].read, rates.memory[0].written),
        (None, Some(0.0))
    );
    opener.count(1_000_000_000, |_| 10);
    assert_eq!(
        counters.read(Time(3_000_000_000)).memory[0].read,
        Some(1280.0)
    );
    opener.state().broken = true;
    assert_eq!(*counters.read(Time(4_000_000_000)), MachineRates::default());
    assert_eq!((counters.descriptors(), counters.absent().len()), (0, 7));
    assert_eq!(counters.absent()[0].why, CounterRefused::Failed);
}
