//! A golden record for every set of fields that a source of ours asks for, wrapped at every byte.
//!
//! The words stand here in the order in which `perf_output_sample` and `__perf_event__output_id_sample`
//! write them, not in one that is computed from the table that is tested.

use std::collections::BTreeSet;
use std::path::Path;

use super::*;
use crate::attr::EventAttr;
use crate::choose::{How, IbsUnit, choose};
use crate::machine::Facts;
use crate::memory::MemoryOptions;

/// One set of fields.
struct Golden {
    sample_type: u64,
    /// The body of a sample, and what it says.
    sample: &'static [u64],
    says: &'static str,
    /// What other records end in.
    trailer: &'static [u64],
}

const IDENTIFIER: u64 = 0x1234_5678_9abc;
const IP: u64 = 0x5555_5555_0042;
/// Process 7, thread 8, as two halves in memory order.
const TID: u64 = pair(7, 8);
const TIME: u64 = 0x0102_0304_0506_0708;
const ADDR: u64 = 0x7f12_3456_7890;
/// Processor 3; the other half is reserved.
const CPU: u64 = pair(3, 0);
const PERIOD: u64 = 1009;
/// 71 cycles in the low half, more detail above.
const WEIGHT_STRUCT: u64 = pair(71, 0x0009_0004);
const WEIGHT: u64 = 71;
const SOURCE: u64 = 0x6810_0842;
const PHYSICAL: u64 = 0x0012_3456_7890;

const GOLDEN: [Golden; 10] = [
    Golden {
        sample_type: 0x8e, // faults
        sample: &[TID, TIME, ADDR, CPU],
        says: "7/8 time addr cpu=3",
        trailer: &[TID, TIME, CPU],
    },
    Golden {
        sample_type: 0x86, // spe; its samples are not in the ring
        sample: &[TID, TIME, CPU],
        says: "7/8 time cpu=3",
        trailer: &[TID, TIME, CPU],
    },
    // pebs and ibs: with and without physical addresses, with either form of weight; ibs also with the
    // address of the instruction.
    Golden {
        sample_type: 0x109_818e,
        sample: &[
            IDENTIFIER,
            TID,
            TIME,
            ADDR,
            CPU,
            PERIOD,
            WEIGHT_STRUCT,
            SOURCE,
            PHYSICAL,
        ],
        says: "7/8 identifier time addr cpu=3 period weight=71 source physical",
        trailer: &[TID, TIME, CPU, IDENTIFIER],
    },
    Golden {
        sample_type: 0x101_818e,
        sample: &[
            IDENTIFIER,
            TID,
            TIME,
            ADDR,
            CPU,
            PERIOD,
            WEIGHT_STRUCT,
            SOURCE,
        ],
        says: "7/8 identifier time addr cpu=3 period weight=71 source",
        trailer: &[TID, TIME, CPU, IDENTIFIER],
    },
    Golden {
        sample_type: 0x009_c18e,
        sample: &[
            IDENTIFIER, TID, TIME, ADDR, CPU, PERIOD, WEIGHT, SOURCE, PHYSICAL,
        ],
        says: "7/8 identifier time addr cpu=3 period weight=71 source physical",
        trailer: &[TID, TIME, CPU, IDENTIFIER],
    },
    Golden {
        sample_type: 0x001_c18e,
        sample: &[IDENTIFIER, TID, TIME, ADDR, CPU, PERIOD, WEIGHT, SOURCE],
        says: "7/8 identifier time addr cpu=3 period weight=71 source",
        trailer: &[TID, TIME, CPU, IDENTIFIER],
    },
    Golden {
        sample_type: 0x109_818f,
        sample: &[
            IDENTIFIER,
            IP,
            TID,
            TIME,
            ADDR,
            CPU,
            PERIOD,
            WEIGHT_STRUCT,
            SOURCE,
            PHYSICAL,
        ],
        says: "7/8 identifier ip time addr cpu=3 period weight=71 source physical",
        trailer: &[TID, TIME, CPU, IDENTIFIER],
    },
    Golden {
        sample_type: 0x101_818f,
        sample: &[
            IDENTIFIER,
            IP,
            TID,
            TIME,
            ADDR,
            CPU,
            PERIOD,
            WEIGHT_STRUCT,
            SOURCE,
        ],
        says: "7/8 identifier ip time addr cpu=3 period weight=71 source",
        trailer: &[TID, TIME, CPU, IDENTIFIER],
    },
    Golden {
        sample_type: 0x009_c18f,
        sample: &[
            IDENTIFIER, IP, TID, TIME, ADDR, CPU, PERIOD, WEIGHT, SOURCE, PHYSICAL,
        ],
        says: "7/8 identifier ip time addr cpu=3 period weight=71 source physical",
        trailer: &[TID, TIME, CPU, IDENTIFIER],
    },
    Golden {
        sample_type: 0x001_c18f,
        sample: &[IDENTIFIER, IP, TID, TIME, ADDR, CPU, PERIOD, WEIGHT, SOURCE],
        says: "7/8 identifier ip time addr cpu=3 period weight=71 source",
        trailer: &[TID, TIME, CPU, IDENTIFIER],
    },
];

const fn pair(first: u32, second: u32) -> u64 {
    let ([a, b, c, d], [e, f, g, h]) = (first.to_ne_bytes(), second.to_ne_bytes());
    u64::from_ne_bytes([a, b, c, d, e, f, g, h])
}

/// What records say, in words; fields that have the value expected by their name alone.
#[derive(Default)]
struct Said(Vec<String>);

impl Visitor for Said {
    fn record<B: Body>(&mut self, record: &Decoded<'_, B>) {
        self.0.push(match record {
            Decoded::Sample(view) => {
                let (pid, tid) = view.pid_tid().unwrap();
                let mut said = vec![format!("{pid}/{tid}")];
                for (name, field, expected) in [
                    ("identifier", Field::Identifier, IDENTIFIER),
                    ("ip", Field::Ip, IP),
                    ("time", Field::Time, TIME),
                    ("addr", Field::Addr, ADDR),
                ] {
                    said.extend(shown(view.number(field), name, expected));
                }
                said.extend(view.cpu().map(|cpu| format!("cpu={cpu}")));
                said.extend(shown(view.number(Field::Period), "period", PERIOD));
                said.extend(view.weight().map(|weight| format!("weight={weight}")));
                said.extend(shown(view.number(Field::DataSource), "source", SOURCE));
                said.extend(shown(view.number(Field::PhysAddr), "physical", PHYSICAL));
                said.join(" ")
            }
            Decoded::Named(named) => {
                let name = String::from_utf8_lossy(named.name()).into_owned();
                format!("{name} {}", named.time == Some(TIME))
            }
            other => format!("{other:?}"),
        });
    }

    fn trace(&mut self, _kind: u32, record: &TraceRecord) {
        self.0.push(format!("{record:?}"));
    }
}

fn shown(found: Option<u64>, name: &str, expected: u64) -> Option<String> {
    found.map(|value| {
        if value == expected {
            name.to_owned()
        } else {
            format!("{name}={value:#x}")
        }
    })
}

fn record(kind: u32, misc: u16, parts: &[&[u64]]) -> Vec<u8> {
    let words = parts.concat();
    let size = u16::try_from(8 + words.len() * 8).unwrap();
    let mut bytes = kind.to_ne_bytes().to_vec();
    bytes.extend(misc.to_ne_bytes());
    bytes.extend(size.to_ne_bytes());
    bytes.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
    bytes
}

/// A sample and one record of each other kind that is read, with their trailers.
fn stream_of(golden: &Golden) -> (Vec<u8>, Vec<String>) {
    let Golden {
        sample, trailer, ..
    } = golden;
    let solver = u64::from_ne_bytes(*b"solver\0\0");
    let task: &[u64] = &[pair(20, 7), pair(21, 8), 99];
    let bytes = [
        record(9, 2, &[sample]),
        record(7, 0, &[task, trailer]),
        record(4, 0, &[task, trailer]),
        record(3, 1 << 13, &[&[TID, solver], trailer]),
        record(2, 0, &[&[1, 17], trailer]),
        record(13, 0, &[&[4], trailer]),
        record(5, 0, &[&[1, 2, 3], trailer]),
        record(11, 0, &[&[64, 128, 1], trailer]),
        record(12, 0, &[&[pair(30, 31)], trailer]),
        record(15, 1 << 13, &[&[pair(40, 41)], trailer]),
        record(15, 0, &[&[pair(40, 41)], trailer]),
    ];
    let task = "TaskRecord { pid: 20, tid: 21, parent_pid: 7, parent_tid: 8, time: 99 }";
    let runs = |pid, tid| format!("Runs {{ pid: {pid}, tid: {tid}, time: {TIME} }}");
    let says = [
        golden.says.to_owned(),
        format!("Fork({task})"),
        format!("Exit({task})"),
        "solver true".to_owned(),
        "Lost(17)".to_owned(),
        "LostSamples(4)".to_owned(),
        "Throttle".to_owned(),
        format!("Piece {{ offset: 64, size: 128, flags: 1, time: {TIME} }}"),
        runs(30, 31),
        runs(40, 41),
        runs(7, 8),
    ];
    (bytes.concat(), says.to_vec())
}

#[test]
fn every_combination_is_read_wherever_it_wraps() {
    for golden in &GOLDEN {
        let layout = Layout::new(golden.sample_type, Trailer::Present).unwrap();
        assert_eq!(layout.sample_bytes(), golden.sample.len() * 8);
        let (bytes, expected) = stream_of(golden);
        for at in 0..=bytes.len() {
            let mut said = Said::default();
            let (first, second) = bytes.split_at(at);
            assert_eq!(stream(&layout, first, second, &mut said), Ok(()));
            assert_eq!(
                said.0, expected,
                "{:#x} wrapped at {at}",
                golden.sample_type
            );
        }
        for cut in 0..bytes.len() {
            let mut said = Said::default();
            let result = stream(&layout, &bytes[..cut], &[], &mut said);
            assert_eq!(said.0, expected[..said.0.len()], "cut at {cut}");
            assert!(result.is_ok() || said.0.len() < expected.len());
        }
    }
}

/// What the sources ask for on every machine that is kept, and what is left of it on older kernels and
/// with fewer rights.
#[test]
fn every_combination_that_sources_ask_for_is_there() {
    let mut asked: BTreeSet<u64> = BTreeSet::new();
    let mut ask = |attr: &EventAttr| {
        let physical = attr.with(Field::PhysAddr, false);
        for attr in [*attr, physical] {
            asked.insert(attr.sample_type);
            if attr.carries(Field::WeightStruct) {
                let older = attr.with(Field::WeightStruct, false);
                asked.insert(older.with(Field::Weight, true).sample_type);
            }
        }
    };
    ask(&crate::faults::fault_attr());
    let trees = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/pmu");
    let options = MemoryOptions::new(topology::CpuSet::new());
    for entry in std::fs::read_dir(trees).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|ending| ending != "tree") {
            continue;
        }
        let tree = testkit::tree::unpack(&std::fs::read_to_string(&path).unwrap());
        let facts = Facts::read(tree.path());
        let pmus = &facts.pmus;
        for verdict in choose(&facts) {
            let wanted = match verdict.usable {
                Ok(How::Pebs(cores)) => crate::pebs::wanted(&options, &cores, pmus).unwrap(),
                Ok(How::Ibs(unit)) => {
                    let older = IbsUnit {
                        filters_kernel: false,
                        ..unit
                    };
                    [unit, older]
                        .into_iter()
                        .filter_map(|unit| crate::ibs::wanted(&options, unit, pmus).unwrap())
                        .collect()
                }
                Ok(How::Spe(units)) => crate::spe::wanted(&units, pmus, true).unwrap(),
                Ok(How::Faults) | Err(_) => continue,
            };
            wanted.iter().for_each(|event| ask(&event.attr));
        }
    }
    let golden = GOLDEN.iter().map(|golden| golden.sample_type).collect();
    assert_eq!(asked, golden);
}
