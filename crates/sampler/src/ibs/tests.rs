use std::fs;
use std::path::Path;

use numad_core::Record;
use topology::{CpuSet, Pid};

use super::*;
use crate::choose::{How, SourceKind, choose};
use crate::machine::Facts;
use crate::open::fake::FakeEvents;
use crate::source::Source;

/// A machine that is kept in `tests/fixtures/pmu`: what IBS can do there.
fn machine(name: &str) -> (IbsUnit, Pmus) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/pmu");
    let text = fs::read_to_string(path.join(format!("{name}.tree"))).unwrap();
    let tree = testkit::tree::unpack(&text);
    let facts = Facts::read(tree.path());
    let verdicts = choose(&facts);
    let verdict = verdicts
        .iter()
        .find(|verdict| verdict.source == SourceKind::Ibs);
    match verdict.unwrap().usable {
        Ok(How::Ibs(unit)) => (unit, facts.pmus.clone()),
        ref other => panic!("{other:?}"),
    }
}

fn attr(name: &str) -> EventAttr {
    let (unit, pmus) = machine(name);
    let options = MemoryOptions::new(CpuSet::new());
    wanted(&options, unit, &pmus).unwrap().unwrap().attr
}

/// What perf asks for: `perf mem record` on AMD opens `ibs_op//` (`perf_mem_events_amd` in `tools/perf/
/// arch/x86/util/mem-events.c`), with `swfilt` where the device has it and something is excluded, for
/// the kernel rejects exclusions otherwise. `cnt_ctl=1` counts dispatched operations, as the manual of
/// perf-amd-ibs has it (`ibs_op/cnt_ctl=1/`). No precision: the device is precise.
#[test]
fn attributes_are_those_of_perf() {
    let old = attr("zen-2");
    assert_eq!(
        (old.kind, old.config, old.precise),
        (10, [1 << 19, 0, 0, 0], 0)
    );
    let excluding =
        attr::FLAG_EXCLUDE_KERNEL | attr::FLAG_EXCLUDE_HYPERVISOR | attr::FLAG_EXCLUDE_GUEST;
    assert_eq!(old.flags & excluding, 0);
    assert!(
        old.carries(Field::Ip),
        "or samples of the kernel cannot be told"
    );
    let new = attr("zen-4");
    assert_eq!(
        (new.kind, new.config, new.precise),
        (10, [1 << 19, 0, 1, 0], 0)
    );
    assert_eq!(new.flags & excluding, attr::FLAG_EXCLUDE_KERNEL);
    assert!(!new.carries(Field::Ip));
    let fields = [
        Field::Identifier,
        Field::Tid,
        Field::Time,
        Field::Addr,
        Field::Cpu,
        Field::Period,
        Field::DataSource,
        Field::PhysAddr,
        Field::WeightStruct,
    ];
    assert_eq!(new.sample_type, attr::fields(&fields));
    assert_eq!(rates(0).start % PERIOD_STEP, 0);
}

/// A sample of Zen 2: IDENTIFIER, IP, TID, TIME, ADDR, CPU, PERIOD, WEIGHT_STRUCT, DATA_SRC,
/// PHYS_ADDR.
fn sample(ip: u64, address: u64, source: u64) -> Vec<u8> {
    let pid = u64::from_ne_bytes([7, 0, 0, 0, 8, 0, 0, 0]);
    let words = [
        FakeEvents::id(0),
        ip,
        pid,
        100,
        address,
        0,
        1 << 20,
        40,
        source,
        0x1000,
    ];
    let size = u16::try_from(8 + words.len() * 8).unwrap();
    let mut bytes = 9u32.to_ne_bytes().to_vec();
    bytes.extend([0, 0]);
    bytes.extend(size.to_ne_bytes());
    bytes.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
    bytes
}

/// A load answered by memory: bits and number.
const FROM_MEMORY: u64 = 0x2 | (0x2 | 0x80) << 5 | 0xd << 33;
/// A load that hit the first cache, and came from afar.
const IMPOSSIBLE: u64 = 0x2 | (0x2 | 0x8) << 5 | 1 << 33 | 1 << 37;

#[test]
fn samples_that_cannot_be_true_are_dropped_and_counted() {
    let kernel = FakeEvents::new(|_, _| None);
    let (unit, pmus) = machine("zen-2");
    let options = MemoryOptions {
        ring_pages: 4,
        ..MemoryOptions::new([CpuId(0)].into_iter().collect())
    };
    let mut ibs = Ibs::open_with(Box::new(kernel.clone()), &options, unit, &pmus).unwrap();
    ibs.attach(Pid(7)).unwrap();
    ibs.set_mappings(Pid(7), &[(0x10_0000, 0x20_0000)]);
    ibs.set_mappings(Pid(9), &[]);
    let mut ring = kernel.ring(0, 4);
    for (ip, address, source) in [
        (0x400_000, 0x10_0000, FROM_MEMORY),
        // Not mapped; between the halves; impossible; the kernel's code; the kernel's memory.
        (0x400_000, 0x20_0000, FROM_MEMORY),
        (0x400_000, 1 << 60, FROM_MEMORY),
        (0x400_000, 0x10_0000, IMPOSSIBLE),
        (0xffff_ffff_8100_0000, 0x10_0000, FROM_MEMORY),
        (0x400_000, 0xffff_8880_0000_0000, FROM_MEMORY),
        // No access: an addition, and a load without an address.
        (0x400_000, 0x10_0000, 1),
        (0x400_000, 0, FROM_MEMORY),
    ] {
        assert!(ring.write(&sample(ip, address, source)));
    }
    let mut addresses = Vec::new();
    ibs.drain(&mut |record| match record {
        Record::Sample(sample) => addresses.push((sample.address, sample.weight, sample.period)),
        other => panic!("{other:?}"),
    });
    assert_eq!(addresses, [(0x10_0000, 40, 1 << 20)]);
    let losses = ibs.losses();
    assert_eq!((losses.invalid, losses.kernel), (3, 2));
    let notes = ibs.describe().notes;
    assert!(
        notes[0].contains("3 samples could not be true"),
        "{notes:?}"
    );
    assert!(notes[1].contains("samples of the kernel"), "{notes:?}");
    ibs.detach(Pid(7));
    assert!(ring.write(&sample(1, 0x10_0000, FROM_MEMORY)));
    ibs.drain(&mut |record| panic!("{record:?}"));
}
