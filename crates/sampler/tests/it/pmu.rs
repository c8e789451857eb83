//! Event sources of machines that are kept in `tests/fixtures/pmu`, and of machines gone wrong.

use std::fs;
use std::path::{Path, PathBuf};

use sampler::choose::{How, Lack, SourceKind, Verdict, best, choose};
use sampler::machine::Facts;
use sampler::pmu::{Format, Pmus, Role, encode_text};
use testkit::tree::{TempDir, unpack};

const MACHINES: [&str; 8] = [
    "alder-lake",
    "ice-lake-sp",
    "kvm-guest",
    "neoverse-n1",
    "sapphire-rapids",
    "skylake-sp",
    "zen-2",
    "zen-4",
];

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/pmu")
}

fn text(machine: &str) -> String {
    fs::read_to_string(fixtures().join(format!("{machine}.tree"))).unwrap()
}

pub(crate) fn machine(name: &str) -> TempDir {
    unpack(&text(name))
}

#[test]
fn every_tree_is_tested() {
    let mut found: Vec<String> = fs::read_dir(fixtures())
        .unwrap()
        .filter_map(|entry| {
            let name = entry.unwrap().file_name().into_string().unwrap();
            name.strip_suffix(".tree").map(ToOwned::to_owned)
        })
        .collect();
    found.sort();
    assert_eq!(found, MACHINES);
}

/// How many sources of which role a machine has; `[core, hybrid, ibs, spe, controllers, homes, links,
/// energy, software, other]`.
#[track_caller]
fn roles(machine_name: &str, expected: [usize; 10]) {
    let tree = machine(machine_name);
    let pmus = Pmus::read(tree.path());
    assert_eq!(pmus.notes(), []);
    let count = |wanted: fn(Role) -> bool| pmus.iter().filter(|pmu| wanted(pmu.role())).count();
    let found = [
        count(|role| role == Role::Core),
        count(|role| matches!(role, Role::HybridCore(_))),
        count(|role| matches!(role, Role::IbsOp | Role::IbsFetch)),
        count(|role| role == Role::Spe),
        count(|role| role == Role::MemoryController),
        count(|role| role == Role::CacheHome),
        count(|role| role == Role::Link),
        count(|role| role == Role::Energy),
        count(|role| role == Role::Software),
        count(|role| role == Role::Other),
    ];
    assert_eq!(found, expected);
    assert_eq!(found.iter().sum::<usize>(), pmus.iter().count());
}

#[test]
fn sources_have_roles() {
    roles("skylake-sp", [1, 0, 0, 0, 6, 3, 3, 1, 1, 3]);
    roles("ice-lake-sp", [1, 0, 0, 0, 16, 3, 3, 1, 1, 3]);
    roles("sapphire-rapids", [1, 0, 0, 0, 8, 3, 4, 1, 1, 3]);
    roles("alder-lake", [0, 2, 0, 0, 4, 0, 0, 1, 1, 3]);
    roles("zen-2", [1, 0, 2, 0, 0, 1, 1, 1, 1, 3]);
    roles("zen-4", [1, 0, 2, 0, 24, 1, 1, 1, 1, 3]);
    roles("neoverse-n1", [1, 0, 0, 1, 4, 0, 0, 0, 1, 2]);
    roles("kvm-guest", [0, 0, 0, 0, 0, 0, 0, 0, 1, 5]);
}

/// What one source says, as `KEY=VALUE` words: `type`, `cpus`, a term, or a capability as `caps/NAME`.
/// A value that is empty is not there.
#[track_caller]
fn says(machine_name: &str, pmu: &str, expected: &str) {
    let tree = machine(machine_name);
    let pmus = Pmus::read(tree.path());
    let pmu = pmus.find(pmu).unwrap();
    for word in expected.split_whitespace() {
        let (key, value) = word.split_once('=').unwrap();
        let found = match (key, key.strip_prefix("caps/")) {
            ("type", _) => Some(pmu.kind.to_string()),
            ("cpus", _) => pmu.cpus.as_ref().map(ToString::to_string),
            (_, Some(name)) => pmu.caps.get(name).cloned(),
            _ => pmu.formats.get(key).map(ToString::to_string),
        };
        assert_eq!(found.unwrap_or_default(), value, "{key}");
    }
}

#[test]
fn intel_sources_say_what_the_files_say() {
    let cpu = "type=4 cpus= ldlat=config1:0-15 caps/max_precise=3 caps/branches=32";
    says(
        "skylake-sp",
        "cpu",
        &format!("{cpu} any=config:21 caps/pmu_name=skylake"),
    );
    says(
        "ice-lake-sp",
        "cpu",
        &format!("{cpu} any= caps/pmu_name=icelake"),
    );
    says(
        "skylake-sp",
        "uncore_upi_0",
        "type=29 cpus=0,28 umask=config:8-15,32-43,45-55",
    );
    says(
        "skylake-sp",
        "uncore_cha_2",
        "type=22 cpus=0,28 filter_opc1=config1:51-60",
    );
    says(
        "ice-lake-sp",
        "uncore_cha_0",
        "cpus=0,40 umask=config:8-15,32-57 tid_en=config:19",
    );
    says(
        "sapphire-rapids",
        "uncore_cha_0",
        "cpus=0,56 umask=config:8-15,32-55 tid_en=config:16",
    );
    says(
        "alder-lake",
        "cpu_core",
        "type=4 cpus=0-15 frontend=config1:0-23 caps/max_precise=3",
    );
    says(
        "alder-lake",
        "cpu_atom",
        "type=10 cpus=16-23 frontend= caps/pmu_name=alderlake_hybrid",
    );
    says("alder-lake", "uncore_imc_0", "cpus=0 chmask=config:8-11");
    says(
        "kvm-guest",
        "uprobe",
        "type=7 cpus= ref_ctr_offset=config:32-63",
    );
}

#[test]
fn other_makers_sources_say_what_the_files_say() {
    says(
        "zen-2",
        "ibs_op",
        "type=10 cpus= cnt_ctl=config:19 swfilt= caps/zen4_ibs_extensions=",
    );
    says(
        "zen-2",
        "amd_df",
        "type=11 cpus=0,64 event=config:0-7,32-35,59-60",
    );
    says(
        "zen-2",
        "amd_l3",
        "type=12 threadmask=config:56-63 slicemask=config:48-51",
    );
    says(
        "zen-4",
        "ibs_op",
        "l3missonly=config:16 swfilt=config2:0 caps/zen4_ibs_extensions=1",
    );
    says(
        "zen-4",
        "ibs_fetch",
        "l3missonly=config:59 rand_en=config:57 caps/zen4_ibs_extensions=1",
    );
    says("zen-4", "amd_umc_12", "type=25 cpus=96 rdwrmask=config:8-9");
    says(
        "zen-4",
        "amd_df",
        "event=config:0-7,32-37 umask=config:8-15,24-27",
    );
    says(
        "neoverse-n1",
        "arm_spe_0",
        "type=9 cpus=0-159 pa_enable=config:1 jitter=config:16",
    );
    says(
        "neoverse-n1",
        "arm_spe_0",
        "event_filter=config1:0-63 min_latency=config2:0-11",
    );
    says(
        "neoverse-n1",
        "arm_spe_0",
        "caps/min_interval=1024 caps/arch_inst=0 caps/count_size=12",
    );
    says(
        "neoverse-n1",
        "arm_dmc620_10008c000",
        "cpus=0 mask=config:0-44 clkdiv2=config2:9",
    );
}

#[test]
fn named_events_have_units() {
    let tree = machine("ice-lake-sp");
    let pmus = Pmus::read(tree.path());
    let read = &pmus.find("uncore_imc_11").unwrap().aliases["cas_count_read"];
    assert_eq!(read.scale, Some(6.103_515_625e-5));
    assert_eq!(read.unit.as_deref(), Some("MiB"));
    let ticks = &pmus.find("uncore_imc_11").unwrap().aliases["clockticks"];
    assert_eq!((ticks.scale, ticks.unit.as_deref()), (None, None));
    let energy = &pmus.find("power").unwrap().aliases["energy-ram"];
    // 2^-32 J.
    assert_eq!(energy.scale, Some(1.0 / 4_294_967_296.0));
    assert_eq!(energy.unit.as_deref(), Some("Joules"));
    assert_eq!(pmus.find("uncore_imc_11").unwrap().aliases.len(), 3);
}

#[track_caller]
fn encodes(machine_name: &str, pmu: &str, description: &str, config: [u64; 4]) {
    let tree = machine(machine_name);
    let pmus = Pmus::read(tree.path());
    let event = pmus.find(pmu).unwrap().encode(description).unwrap();
    assert_eq!(event.config, config, "{event:x?}");
}

/// The words of the core events are those in the headers of recordings that perf made on such
/// machines (0x1cd, 0x82d0, 0x2cd, 0x8203, 0x5d0, 0x6d0).
#[test]
fn events_become_the_words_that_perf_writes() {
    encodes("skylake-sp", "cpu", "mem-loads,ldlat=30", [0x1cd, 30, 0, 0]);
    encodes("skylake-sp", "cpu", "mem-stores", [0x82d0, 0, 0, 0]);
    encodes("sapphire-rapids", "cpu", "mem-loads-aux", [0x8203, 0, 0, 0]);
    encodes("sapphire-rapids", "cpu", "mem-stores", [0x2cd, 0, 0, 0]);
    encodes(
        "alder-lake",
        "cpu_core",
        "mem-loads,ldlat=30",
        [0x1cd, 30, 0, 0],
    );
    encodes("alder-lake", "cpu_atom", "mem-loads", [0x5d0, 3, 0, 0]);
    encodes("alder-lake", "cpu_atom", "mem-stores", [0x6d0, 0, 0, 0]);
    encodes(
        "ice-lake-sp",
        "uncore_imc_0",
        "cas_count_write",
        [0x3004, 0, 0, 0],
    );
    encodes(
        "ice-lake-sp",
        "uncore_imc_free_running_3",
        "write",
        [0x21ff, 0, 0, 0],
    );
    encodes(
        "skylake-sp",
        "uncore_upi_0",
        "event=2,umask=0x100f",
        [0x10_0000_0f02, 0, 0, 0],
    );
    encodes(
        "sapphire-rapids",
        "uncore_imc_7",
        "event=0x5,umask=0xcf",
        [0xcf05, 0, 0, 0],
    );
    encodes("zen-2", "ibs_op", "cnt_ctl", [1 << 19, 0, 0, 0]);
    encodes(
        "zen-4",
        "ibs_op",
        "cnt_ctl,l3missonly,swfilt",
        [1 << 19 | 1 << 16, 0, 1, 0],
    );
    encodes(
        "zen-4",
        "amd_umc_0",
        "event=0xa,rdwrmask=1",
        [0x10a, 0, 0, 0],
    );
    encodes(
        "zen-2",
        "amd_df",
        "event=0x1c7,umask=2",
        [0x1_0000_02c7, 0, 0, 0],
    );
    encodes(
        "zen-2",
        "amd_df",
        "event=0x3fff",
        [0x1800_000f_0000_00ff, 0, 0, 0],
    );
    encodes(
        "neoverse-n1",
        "arm_spe_0",
        "ts_enable,load_filter,store_filter,jitter,min_latency=10",
        [1 | 1 << 16 | 1 << 33 | 1 << 34, 0, 10, 0],
    );
    encodes("zen-4", "power", "energy-pkg", [2, 0, 0, 0]);
}

#[test]
fn every_format_and_alias_of_every_tree_works() {
    for name in MACHINES {
        let tree = machine(name);
        for pmu in Pmus::read(tree.path()).iter() {
            for (term, &format) in &pmu.formats {
                assert_eq!(Format::parse(&format.to_string()), Ok(format));
                for value in [1, format.largest() / 3, format.largest()] {
                    let event = pmu.encode(&format!("{term}={value:#x}")).unwrap();
                    assert_eq!(
                        format.take(event.config[format.word]),
                        value,
                        "{name} {term}"
                    );
                    let set: u32 = event.config.iter().map(|word| word.count_ones()).sum();
                    assert_eq!(set, value.count_ones(), "{name} {term}");
                }
                if let Some(beyond) = format.largest().checked_add(1) {
                    let error = pmu.encode(&format!("{term}={beyond}")).unwrap_err();
                    assert!(error.to_string().contains(&pmu.name), "{error}");
                }
            }
            for alias in pmu.aliases.keys() {
                pmu.encode(alias).unwrap();
            }
        }
    }
}

fn verdicts(machine_name: &str) -> Vec<Verdict> {
    let tree = machine(machine_name);
    choose(&Facts::read(tree.path()))
}

#[track_caller]
fn chosen(machine_name: &str, expected: SourceKind) -> How {
    let verdicts = verdicts(machine_name);
    let names: Vec<&str> = verdicts
        .iter()
        .map(|verdict| verdict.source.name())
        .collect();
    assert_eq!(names, ["pebs", "ibs", "spe", "faults"]);
    let best = best(&verdicts).unwrap();
    assert_eq!(best.source, expected);
    best.usable.clone().unwrap()
}

#[track_caller]
fn pebs(machine_name: &str, expected: &[(&str, u32, &str, bool)]) {
    let How::Pebs(cores) = chosen(machine_name, SourceKind::Pebs) else {
        panic!("not PEBS");
    };
    let found: Vec<(&str, u32, String, bool)> = cores
        .iter()
        .map(|core| {
            assert!(core.loads && core.stores && core.threshold);
            assert_eq!(core.precise_max, Some(3));
            let cpus = core.cpus.as_ref().map(ToString::to_string);
            (
                core.pmu.as_str(),
                core.kind,
                cpus.unwrap_or_default(),
                core.loads_need_leader,
            )
        })
        .collect();
    let found: Vec<(&str, u32, &str, bool)> = found
        .iter()
        .map(|(pmu, kind, cpus, leader)| (*pmu, *kind, cpus.as_str(), *leader))
        .collect();
    assert_eq!(found, expected);
}

#[test]
fn intel_samples_precisely() {
    pebs("skylake-sp", &[("cpu", 4, "", false)]);
    pebs("ice-lake-sp", &[("cpu", 4, "", false)]);
    pebs("sapphire-rapids", &[("cpu", 4, "", true)]);
    pebs(
        "alder-lake",
        &[
            ("cpu_atom", 10, "16-23", false),
            ("cpu_core", 4, "0-15", true),
        ],
    );
}

#[test]
fn amd_samples_operations() {
    let How::Ibs(old) = chosen("zen-2", SourceKind::Ibs) else {
        panic!("not IBS");
    };
    assert_eq!((old.kind, old.counts_operations), (10, true));
    assert!(!old.filters_kernel && !old.misses_only && !old.threshold && !old.fine_levels);
    let How::Ibs(new) = chosen("zen-4", SourceKind::Ibs) else {
        panic!("not IBS");
    };
    assert_eq!((new.kind, new.counts_operations), (10, true));
    assert!(new.filters_kernel && new.misses_only && !new.threshold && new.fine_levels);
}

#[test]
fn arm_profiles_statistically() {
    let How::Spe(units) = chosen("neoverse-n1", SourceKind::Spe) else {
        panic!("not SPE");
    };
    assert_eq!(units.len(), 1);
    assert_eq!((units[0].pmu.as_str(), units[0].kind), ("arm_spe_0", 9));
    assert_eq!(units[0].cpus.as_ref().unwrap().len(), 160);
    assert_eq!(units[0].interval_min, Some(1024));
    assert!(units[0].physical && !units[0].architectural);
}

#[test]
fn a_guest_has_page_faults() {
    assert_eq!(chosen("kvm-guest", SourceKind::Faults), How::Faults);
    let lacks: Vec<Lack> = verdicts("kvm-guest")
        .into_iter()
        .filter_map(|verdict| verdict.usable.err())
        .collect();
    assert_eq!(
        lacks,
        [
            Lack::VirtualMachine { counters: false },
            Lack::OtherProcessor { of: "AMD" },
            Lack::OtherProcessor { of: "Arm" },
        ]
    );
}

/// A machine with some files changed or, where the content is none, gone.
fn changed(machine_name: &str, changes: &[(&str, Option<&str>)]) -> TempDir {
    let tree = machine(machine_name);
    for (path, content) in changes {
        match content {
            Some(content) => tree.write(path, content),
            None => {
                let path = tree.path().join(path);
                if path.is_dir() {
                    fs::remove_dir_all(path).unwrap();
                } else {
                    fs::remove_file(path).unwrap();
                }
            }
        }
    }
    tree
}

/// What a source lacks on a changed machine, and the remedy, in one line.
#[track_caller]
fn lacks(machine_name: &str, changes: &[(&str, Option<&str>)], source: SourceKind, expected: &str) {
    let tree = changed(machine_name, changes);
    let verdicts = choose(&Facts::read(tree.path()));
    let verdict = verdicts
        .iter()
        .find(|verdict| verdict.source == source)
        .unwrap();
    let lack = verdict.usable.as_ref().unwrap_err();
    let told = format!("{lack} -> {}", lack.remedy().unwrap_or_default());
    assert_eq!(told, expected);
    assert!(!told.contains('\n'));
}

#[test]
fn what_is_lacking_has_a_reason_and_a_remedy() {
    const CPU: &str = "sys/bus/event_source/devices/cpu";
    let file = |below: &str| format!("{CPU}/{below}");
    let (loads, stores) = (file("events/mem-loads"), file("events/mem-stores"));
    let (name, precise) = (file("caps/pmu_name"), file("caps/max_precise"));
    lacks(
        "skylake-sp",
        &[
            (&loads, None),
            (&stores, None),
            (&name, Some("generic_arch_v4\n")),
        ],
        SourceKind::Pebs,
        "the kernel is older than this processor: it knows only the general counters of `cpu` -> \
         use a newer kernel",
    );
    lacks(
        "skylake-sp",
        &[(&loads, None), (&stores, None)],
        SourceKind::Pebs,
        "`cpu` has no event `mem-loads` or `mem-stores` -> use a newer kernel, if the processor is \
         new",
    );
    lacks(
        "skylake-sp",
        &[(&precise, Some("0\n"))],
        SourceKind::Pebs,
        "`cpu` cannot sample precisely -> look in `dmesg` for why PEBS is off; some need newer \
         microcode",
    );
    lacks(
        "skylake-sp",
        &[(CPU, None)],
        SourceKind::Pebs,
        "the kernel has announced no `cpu` -> look in `dmesg` for why the kernel has no counters; \
         use a newer kernel if it does not know the processor",
    );
    lacks(
        "kvm-guest",
        &[(&file("type"), Some("4\n"))],
        SourceKind::Pebs,
        "this virtual machine is given counters, but not the sampling of addresses -> run numad on \
         the host: few hypervisors pass the sampling of addresses on",
    );
    lacks(
        "kvm-guest",
        &[(
            "proc/cpuinfo",
            Some("vendor_id\t: AuthenticAMD\nflags\t\t: fpu hypervisor\n"),
        )],
        SourceKind::Ibs,
        "no virtual machine is given it -> run numad on the host",
    );
}

#[test]
fn other_makers_sources_lack_too() {
    lacks(
        "zen-4",
        &[("sys/bus/event_source/devices/ibs_op", None)],
        SourceKind::Ibs,
        "the kernel has announced no `ibs_op` -> switch IBS on in the firmware's settings",
    );
    lacks(
        "zen-2",
        &[("proc/sys/kernel/osrelease", Some("5.15.0-100-generic\n"))],
        SourceKind::Ibs,
        "it needs Linux 6.1, this is 5.15 -> use Linux 6.1 or later",
    );
    lacks(
        "neoverse-n1",
        &[("sys/bus/event_source/devices/arm_spe_0", None)],
        SourceKind::Spe,
        "the processor has it, but module `arm_spe_pmu` is not loaded -> modprobe arm_spe_pmu",
    );
    lacks(
        "neoverse-n1",
        &[
            ("sys/bus/event_source/devices/arm_spe_0", None),
            ("sys/bus/platform/devices/arm,spe-v1", None),
        ],
        SourceKind::Spe,
        "the kernel has announced no `arm_spe_0` -> check that the processor has SPE, that the \
         firmware tells of it, and that the kernel has CONFIG_ARM_SPE_PMU",
    );
}

#[test]
fn permission_and_perf_events_can_lack() {
    let unprivileged = Some("CapEff:\t0000000000000000\n");
    lacks(
        "skylake-sp",
        &[("proc/self/status", unprivileged)],
        SourceKind::Pebs,
        "not permitted (kernel.perf_event_paranoid is 2) -> run numad as root, or grant it \
         CAP_PERFMON, or set kernel.perf_event_paranoid to 0 or less",
    );
    lacks(
        "kvm-guest",
        &[
            ("proc/sys/kernel/perf_event_paranoid", None),
            ("sys/bus/event_source/devices", None),
        ],
        SourceKind::Faults,
        "this kernel has no perf events -> run a kernel with CONFIG_PERF_EVENTS",
    );
    let open = changed(
        "skylake-sp",
        &[
            ("proc/self/status", unprivileged),
            ("proc/sys/kernel/perf_event_paranoid", Some("-1\n")),
        ],
    );
    assert!(best(&choose(&Facts::read(open.path()))).is_some());
}

#[test]
fn xen_is_a_virtual_machine_without_the_flag() {
    let tree = changed(
        "kvm-guest",
        &[
            (
                "proc/cpuinfo",
                Some("vendor_id\t: GenuineIntel\nflags\t\t: fpu\n"),
            ),
            ("sys/hypervisor/type", Some("xen\n")),
        ],
    );
    assert!(Facts::read(tree.path()).processor.hypervisor);
}

#[test]
fn this_machine_reads() {
    let facts = Facts::read(Path::new("/"));
    assert_eq!(facts.pmus.notes(), []);
    if facts.has_events() {
        assert_eq!(facts.pmus.find("software").unwrap().kind, 1);
    }
    assert_eq!(choose(&facts).len(), 4);
}

#[test]
fn the_corpus_of_the_fuzzer_is_answered() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/event_description");
    let mut encoded = 0;
    for entry in fs::read_dir(corpus).unwrap() {
        let text = fs::read_to_string(entry.unwrap().path()).unwrap();
        encoded += usize::from(encode_text(&text).is_ok());
        for end in (0..text.len()).filter(|&end| text.is_char_boundary(end)) {
            drop(encode_text(&text[..end]));
        }
    }
    assert_eq!(encoded, 2, "`alias` and `split` are events");
}
