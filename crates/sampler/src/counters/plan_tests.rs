use std::collections::BTreeMap;

use topology::{CpuId, CpuSet};

use super::*;
use crate::pmu::{Alias, Format};

/// A source from lines: `format NAME=BITS`, `event NAME=TERMS;SCALE;UNIT`.
pub(crate) fn pmu(name: &str, kind: u32, cpus: &str, lines: &[&str]) -> Pmu {
    let mut pmu = Pmu {
        name: name.to_owned(),
        kind,
        cpus: Some(CpuSet::parse_list(cpus).unwrap()).filter(|cpus| !cpus.is_empty()),
        ..Pmu::default()
    };
    for line in lines {
        let (what, rest) = line.split_once(' ').unwrap();
        let (name, value) = rest.split_once('=').unwrap();
        if what == "format" {
            pmu.formats
                .insert(name.to_owned(), Format::parse(value).unwrap());
        } else {
            let mut parts = value.split(';');
            let alias = Alias {
                terms: parts.next().unwrap().to_owned(),
                scale: parts.next().map(|scale| scale.parse().unwrap()),
                unit: parts.next().map(str::to_owned),
            };
            pmu.aliases.insert(name.to_owned(), alias);
        }
    }
    pmu
}

const IMC: [&str; 2] = ["format event=config:0-7", "format umask=config:8-15"];
const SCALE: &str = ";6.103515625e-5;MiB";

fn imc(name: &str, kind: u32, read: &str, write: &str) -> Pmu {
    let read = format!("event cas_count_read={read}{SCALE}");
    let write = format!("event cas_count_write={write}{SCALE}");
    pmu(name, kind, "0,4", &[IMC[0], IMC[1], &read, &write])
}

/// Two packages of four processors with a node each.
pub(crate) fn two_packages() -> Topology {
    topology::synthetic::parse("2x4@10,21").unwrap()
}

/// Gauges with how many counters each has, in short.
fn short(plan: &Plan) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for planned in &plan.planned {
        let name = match &planned.gauge {
            Gauge::Memory { nodes, flow } => {
                let nodes: Vec<u32> = nodes.iter().map(|node| node.0).collect();
                format!("{flow:?} {nodes:?}")
            }
            Gauge::Energy { package, domain } => format!("{domain:?} {package}"),
            Gauge::Link { package, link } => format!("{link} {package}"),
        };
        *counts.entry(name).or_default() += 1;
    }
    counts
}

#[track_caller]
fn check(pmus: Vec<Pmu>, expected: &[(&str, usize)], lacks: &[&str]) -> Plan {
    let plan = Plan::new(&pmus.into_iter().collect(), &two_packages());
    let expected: BTreeMap<String, usize> = expected
        .iter()
        .map(|(name, count)| ((*name).to_owned(), *count))
        .collect();
    assert_eq!(short(&plan), expected);
    let found: Vec<&str> = plan.lacks.iter().map(|lack| lack.subject).collect();
    assert_eq!(found, lacks, "{:?}", plan.lacks);
    plan
}

#[test]
fn skylake_has_all_of_it() {
    let plan = check(
        vec![
            imc(
                "uncore_imc_0",
                20,
                "event=0x04,umask=0x03",
                "event=0x04,umask=0x0c",
            ),
            imc(
                "uncore_imc_1",
                21,
                "event=0x04,umask=0x03",
                "event=0x04,umask=0x0c",
            ),
            pmu("uncore_upi_0", 30, "0,4", &IMC),
            pmu(
                "power",
                9,
                "0,4",
                &[
                    "format event=config:0-7",
                    "event energy-pkg=event=0x02;2.3283064365386962890625e-10;Joules",
                    "event energy-ram=event=0x03;1.52587890625e-05;Joules",
                ],
            ),
        ],
        &[
            ("Memory 0", 1),
            ("Memory 1", 1),
            ("Package 0", 1),
            ("Package 1", 1),
            ("Read [0]", 2),
            ("Read [1]", 2),
            ("ReadQueue [0]", 2),
            ("ReadQueue [1]", 2),
            ("ReadQueued [0]", 2),
            ("ReadQueued [1]", 2),
            ("WriteQueue [0]", 2),
            ("WriteQueue [1]", 2),
            ("WriteQueued [0]", 2),
            ("WriteQueued [1]", 2),
            ("Written [0]", 2),
            ("Written [1]", 2),
            ("upi_0 0", 1),
            ("upi_0 1", 1),
        ],
        &[],
    );
    let first = &plan.planned[0];
    assert_eq!(first.name, "uncore_imc_0/cas_count_read/");
    assert!((first.unit - 64.0).abs() < 1e-9, "{}", first.unit);
    let code = EventCode {
        pmu: 20,
        config: 0x304,
        ..EventCode::default()
    };
    assert_eq!(
        (first.spec.event, first.spec.whom),
        (code, Whom::Machine(CpuId(0)))
    );
}

#[test]
fn later_generations_have_two_channels_to_a_queue() {
    let plan = |read, write| {
        let pmus = vec![imc("uncore_imc_0", 20, read, write)];
        let plan = Plan::new(&pmus.into_iter().collect(), &two_packages());
        let counts = short(&plan);
        (counts["ReadQueue [0]"], counts["WriteQueued [1]"])
    };
    assert_eq!(
        plan("event=0x04,umask=0x0f", "event=0x04,umask=0x30"),
        (2, 1)
    );
    assert_eq!(
        plan("event=0x05,umask=0xcf", "event=0x05,umask=0xf0"),
        (2, 1)
    );
}

#[test]
fn channels_with_their_own_names_are_added_up_and_unknown_queues_are_left_alone() {
    let lines = [
        IMC[0],
        IMC[1],
        "event cas_count_read_sch0=event=0x05,umask=0xcf;6.103515625e-5;MiB",
        "event cas_count_read_sch1=event=0x06,umask=0xcf;6.103515625e-5;MiB",
        "event cas_count_write_sch0=event=0x05,umask=0xf0;6.103515625e-5;MiB",
        "event cas_count_write_sch1=event=0x06,umask=0xf0;6.103515625e-5;MiB",
    ];
    check(
        vec![pmu("uncore_imc_0", 20, "0", &lines)],
        &[("Read [0]", 2), ("Written [0]", 2)],
        &[ENERGY, LINKS, QUEUES],
    );
}

#[test]
fn free_running_counters_are_taken_where_there_are_no_others() {
    let free = || {
        let lines = [
            IMC[0],
            IMC[1],
            "event read=event=0xff,umask=0x20;6.103515625e-5;MiB",
            "event write=event=0xff,umask=0x30;6.103515625e-5;MiB",
            "event dclk=event=0xff,umask=0x10",
        ];
        pmu("uncore_imc_free_running_0", 25, "0,4", &lines)
    };
    let counted = [
        ("Read [0]", 1),
        ("Read [1]", 1),
        ("Written [0]", 1),
        ("Written [1]", 1),
    ];
    let lacks = [ENERGY, LINKS, QUEUES];
    let plan = check(vec![free()], &counted, &lacks);
    assert!(plan.planned[0].name.contains("free_running"));
    let other = imc("uncore_imc_0", 20, "event=0x07", "event=0x08");
    let plan = check(vec![free(), other], &counted, &lacks);
    assert!(!plan.planned[0].name.contains("free_running"));
}

#[test]
fn amd_has_its_own_controllers_and_before_them_the_fabric() {
    let umc = |number: u32| {
        let lines = ["format event=config:0-7", "format rdwrmask=config:8-9"];
        pmu(
            &format!("amd_umc_{number}"),
            40 + number,
            if number < 2 { "0" } else { "4" },
            &lines,
        )
    };
    let wide = [
        "format event=config:0-7,32-37",
        "format umask=config:8-15,24-27",
    ];
    let plan = check(
        vec![umc(0), umc(1), umc(2), pmu("amd_df", 11, "0,4", &wide)],
        &[
            ("Read [0]", 2),
            ("Read [1]", 1),
            ("Written [0]", 2),
            ("Written [1]", 1),
        ],
        &[ENERGY, LINKS, QUEUES],
    );
    assert_eq!(plan.planned[0].spec.event.config, 0x10a);
    let narrow = [
        "format event=config:0-7,32-35,59-60",
        "format umask=config:8-15",
    ];
    let plan = check(
        vec![pmu("amd_df", 11, "0,4", &narrow)],
        &[
            ("Both [0]", 8),
            ("Both [1]", 8),
            ("df_0 0", 1),
            ("df_0 1", 1),
            ("df_1 0", 1),
            ("df_1 1", 1),
            ("df_2 0", 1),
            ("df_2 1", 1),
            ("df_3 0", 1),
            ("df_3 1", 1),
        ],
        &[ENERGY, QUEUES],
    );
    // 0x1c7 and 0x887 need the upper bits of the event, which lie apart.
    let of = |name: &str| {
        plan.planned
            .iter()
            .find(|one| one.name.contains(name))
            .unwrap()
    };
    assert_eq!(of("0x1c7").spec.event.config, 0x1_0000_38c7);
    assert_eq!(of("0x887").spec.event.config, 0x8_0000_0287);
}

#[test]
fn controllers_of_a_package_with_several_nodes_are_not_told_apart() {
    let cpus = |node: u32| CpuSet::parse_list(&format!("{}-{}", node * 2, node * 2 + 1)).unwrap();
    let parts = topology::Parts {
        nodes: (0..4)
            .map(|node| topology::Node {
                id: NodeId(node),
                cpus: cpus(node),
                memory_bytes: 1 << 30,
            })
            .collect(),
        cpus: (0..8)
            .map(|cpu| Cpu {
                id: CpuId(cpu),
                online: true,
                isolated: false,
                core: topology::CoreId(cpu),
                package: PackageId(cpu / 4),
                node: Some(NodeId(cpu / 2)),
            })
            .collect(),
        ..topology::Parts::default()
    };
    let clustered = Topology::new(parts).unwrap();
    let plan = |mask: &str| {
        let mut imc = imc("uncore_imc_0", 20, "event=0x07", "event=0x08");
        imc.cpus = Some(CpuSet::parse_list(mask).unwrap());
        short(&Plan::new(&[imc].into_iter().collect(), &clustered))
    };
    assert_eq!(plan("0,4")["Read [0, 1]"], 1);
    assert_eq!(plan("0,4")["Read [2, 3]"], 1);
    // A source that names a processor of each node is taken at its word.
    assert_eq!(plan("0,2,4,6")["Read [1]"], 1);
}

#[test]
fn a_machine_without_anything_says_so() {
    let lacks = [MEMORY, ENERGY, LINKS, QUEUES];
    check(Vec::new(), &[], &lacks);
    // Names without a processor to open them on, and without terms.
    let broken = pmu("uncore_imc_0", 20, "", &["event cas_count_read=event=0x04"]);
    let plan = Plan::new(&[broken].into_iter().collect(), &two_packages());
    assert!(plan.planned.is_empty());
    assert!(
        plan.lacks.iter().any(|lack| lack.why.contains("event")),
        "{:?}",
        plan.lacks
    );
}

#[test]
fn kinds_of_cores_matter_where_there_are_several() {
    let of = |names: &[(&str, u32)]| {
        let pmus: Pmus = names
            .iter()
            .map(|(name, kind)| pmu(name, *kind, "0", &[]))
            .collect();
        Plan::cores(&pmus)
    };
    assert_eq!(of(&[("cpu", 4)]), []);
    assert_eq!(of(&[("cpu_core", 4), ("cpu_atom", 10)]), [10, 4]);
}
