//! Files that are damaged, cut short, made up, or about no machine at all.

use std::path::Path;

use proptest::prelude::*;
use topology::{CpuId, CpuSet, LoadError, NodeId, Reason, Topology, load, xml};

use crate::fixture::{TempDir, names, path, unpack};

/// The smallest tree that is a machine: two processors, two nodes.
fn small() -> TempDir {
    let root = TempDir::new();
    for cpu in 0..2 {
        root.make_dir(&format!("sys/devices/system/cpu/cpu{cpu}"));
        let node = format!("sys/devices/system/node/node{cpu}");
        root.write(&format!("{node}/cpulist"), format!("{cpu}\n"));
        let meminfo = format!("Node {cpu} MemTotal:       1048576 kB\n");
        root.write(&format!("{node}/meminfo"), meminfo);
        let row = if cpu == 0 { "10 21\n" } else { "21 10\n" };
        root.write(&format!("{node}/distance"), row);
    }
    root
}

const NODE: &str = "sys/devices/system/node";
const CPU: &str = "sys/devices/system/cpu";

/// What is read after one file of the small tree says something else.
#[track_caller]
fn altered(file: &str, content: &str) -> Result<Topology, String> {
    let root = small();
    root.write(file, content);
    root.read().map_err(|error| {
        let shown = error.to_string();
        shown.replace(root.0.to_str().unwrap(), "ROOT")
    })
}

#[track_caller]
fn refused(file: &str, content: &str, words: &str) {
    let error = altered(file, content).unwrap_err();
    assert_eq!(error, words);
    assert!(!error.contains('\n'));
}

#[track_caller]
fn noted(file: &str, content: &str, words: &str) -> Topology {
    let topology = altered(file, content).unwrap();
    let notes: Vec<String> = topology.notes().iter().map(ToString::to_string).collect();
    assert!(notes.iter().any(|note| note.contains(words)), "{notes:?}");
    topology
}

#[test]
fn lists_that_cannot_be_understood_are_refused() {
    let file = format!("{NODE}/node1/cpulist");
    refused(
        &file,
        "garbage\n",
        "`ROOT/sys/devices/system/node/node1/cpulist` is no list of numbers: `garbage` is not a \
         number or a range of numbers",
    );
    refused(
        &format!("{CPU}/online"),
        "1-0\n",
        "`ROOT/sys/devices/system/cpu/online` is no list of numbers: `1-0` runs backwards",
    );
    refused(
        &format!("{CPU}/isolated"),
        "0-99999\n",
        "`ROOT/sys/devices/system/cpu/isolated` is no list of numbers: `0-99999` is beyond the \
         largest number",
    );
    refused(
        &format!("{CPU}/online"),
        "\n",
        "`ROOT` contradicts itself: no cpu is online",
    );
}

#[test]
fn overlapping_nodes_are_a_contradiction() {
    refused(
        &format!("{NODE}/node1/cpulist"),
        "0-1\n",
        "`ROOT/sys/devices/system/node` contradicts itself: cpus 0 belong to node 0 and to node 1, \
         whose other cpus differ",
    );
}

#[test]
fn mild_damage_is_noted_and_the_rest_kept() {
    let topology = noted(
        &format!("{NODE}/node1/cpulist"),
        "1,9\n",
        "node 1: claims cpus 9, which are not described",
    );
    assert_eq!(topology.cpus().len(), 2);
    noted(
        &format!("{CPU}/online"),
        "0-7\n",
        "cpus 2-7: said to be online, but not described",
    );
    let topology = noted(
        &format!("{NODE}/node1/meminfo"),
        "nothing\n",
        "memory of node 1: not told",
    );
    assert_eq!(topology.nodes_with_memory().to_string(), "0");
    let topology = noted(
        &format!("{NODE}/node1/distance"),
        "ten twenty\n",
        "distances of node 1: not numbers",
    );
    assert_eq!(topology.distances().row(1), [20, 10]);
    noted(
        &format!("{NODE}/node1/distance"),
        "21\n",
        "rows of another length; 10 local and 20 remote are used",
    );
    noted(
        &format!("{CPU}/cpu0/cache/index0/level"),
        "near\n",
        "cpus 0: a cache is described",
    );
}

#[test]
fn a_core_across_nodes_is_two_cores() {
    let topology = noted(
        &format!("{CPU}/cpu0/topology/thread_siblings_list"),
        "0-1\n",
        "cpus 1: their cores are said to span nodes",
    );
    assert_eq!(topology.cores_in(&topology.online()), 2);
}

#[test]
fn a_kernel_without_numa_is_one_node() {
    let root = TempDir::new();
    root.make_dir("sys/devices/system/cpu/cpu0");
    root.make_dir("sys/devices/system/cpu/cpu1");
    let error = root.read().unwrap_err().to_string();
    assert!(error.contains("tells of memory"), "{error}");
    root.write(
        "proc/meminfo",
        "MemTotal:       2097152 kB\nMemFree: 1 kB\n",
    );
    let topology = root.read().unwrap();
    assert_eq!(topology.nodes().len(), 1);
    assert_eq!(topology.memory_bytes(), 2 << 30);
    assert_eq!(topology.node_of(CpuId(1)), Some(NodeId(0)));
    assert_eq!(topology.notes()[0].subject, "nodes");
}

#[test]
fn a_node_of_processors_alone_has_no_memory() {
    let file = format!("{NODE}/node1/meminfo");
    let topology = altered(&file, "Node 1 MemTotal:       0 kB\n").unwrap();
    assert_eq!(topology.nodes_with_memory().to_string(), "0");
    assert_eq!(topology.nodes_with_cpus().to_string(), "0-1");
    let of_memory = |note: &topology::Note| note.subject.starts_with("memory");
    assert!(!topology.notes().iter().any(of_memory));
}

#[test]
fn short_texts_come_through_the_front_door() {
    assert_eq!(load("2x4@10,21").unwrap().distances().between(0, 1), 21);
}

#[test]
fn processors_go_offline_one_by_one_on_old_kernels() {
    let topology = altered(&format!("{CPU}/cpu1/online"), "0\n").unwrap();
    assert_eq!(topology.online().to_string(), "0");
}

#[test]
fn a_directory_that_is_no_root_says_so() {
    let root = TempDir::new();
    let error = load(root.0.to_str().unwrap()).unwrap_err().to_string();
    let text = "is no root of a machine: `sys/devices/system/cpu` is not in it";
    assert!(error.ends_with(text), "{error}");
    root.make_dir("sys/devices/system/cpu/cpufreq");
    let error = root.read().unwrap_err().to_string();
    assert!(error.ends_with("names no cpu"), "{error}");
    root.make_dir("sys/devices/system/cpu/cpu4294967295");
    let error = root.read().unwrap_err().to_string();
    assert!(error.ends_with("beyond the largest number"), "{error}");
}

#[test]
fn specs_that_name_nothing_say_what_they_could_be() {
    let error = load("nothing/here").unwrap_err();
    assert_eq!(error.reason, Reason::Unknown);
    let shown = error.to_string();
    assert!(shown.starts_with("`nothing/here` does not exist: expected `this`"));
    let error = load("4x").unwrap_err().to_string();
    assert!(error.starts_with("`4x` describes no machine: number of cores"));
    let error = load("/dev/null").unwrap_err().to_string();
    assert!(error.ends_with("neither a file nor a directory"), "{error}");
    let missing = xml::read(Path::new("no/such.xml")).unwrap_err().to_string();
    assert_eq!(missing, "`no/such.xml` does not exist");
}

/// One file with this content, through the front door.
#[track_caller]
fn file(content: impl AsRef<[u8]>) -> Result<Topology, String> {
    let root = TempDir::new();
    root.write("machine.xml", content);
    let result = load(root.0.join("machine.xml").to_str().unwrap());
    result.map_err(|error| {
        let shown = error.to_string();
        assert!(!shown.contains('\n'), "{shown}");
        shown.replace(root.0.to_str().unwrap(), "ROOT")
    })
}

fn with(objects: &str) -> String {
    let head = r#"<?xml version="1.0"?><!DOCTYPE topology SYSTEM "hwloc2.dtd">"#;
    format!(r#"{head}<topology version="2.0"><object type="Machine">{objects}</object></topology>"#)
}

const PU0: &str = r#"<object type="PU" os_index="0"/>"#;
const NODE0: &str =
    r#"<object type="NUMANode" os_index="0" cpuset="0x1" gp_index="7" local_memory="1048576"/>"#;

#[test]
fn the_smallest_file_loads() {
    let topology = file(with(&format!("{PU0}{NODE0}"))).unwrap();
    assert_eq!(topology.node_of(CpuId(0)), Some(NodeId(0)));
}

#[track_caller]
fn foreign(content: &str, words: &str) {
    let expected = format!("`ROOT/machine.xml` is no hwloc topology: {words}");
    assert_eq!(file(content).unwrap_err(), expected);
}

#[track_caller]
fn contradicts(objects: &str, words: &str) {
    let expected = format!("`ROOT/machine.xml` contradicts itself: {words}");
    assert_eq!(file(with(objects)).unwrap_err(), expected);
}

#[test]
fn files_that_are_something_else_say_so() {
    foreign("", "it is empty");
    foreign("hello\n", "it is not XML");
    foreign("<svg/>", "its outermost element is `svg`, not `topology`");
    foreign("<topology version=\"9.0\"/>", "its version is `9.0`");
    foreign("<topology/>", "it names no processor (`PU`)");
    foreign(&with(NODE0), "it names no processor (`PU`)");
    let entity = "<!DOCTYPE t [<!ENTITY a \"b\">]><topology/>";
    foreign(entity, "it declares entities");
    let nameless = "<object type=\"PU\"/>";
    foreign(&with(nameless), "line 1: PU has no `os_index`");
    let beyond = "<object type=\"PU\" os_index=\"70000\"/>";
    foreign(&with(beyond), "line 1: `os_index` of PU is `70000`");
    let garbled = NODE0.replace("0x1", "zz");
    foreign(&with(&garbled), "line 1: `cpuset` of NUMANode is `zz`");
    let error = file(b"<topology>\xff").unwrap_err();
    assert!(error.ends_with("is no hwloc topology: byte 10 is not UTF-8"));
}

#[test]
fn files_that_contradict_themselves_say_so() {
    contradicts(&format!("{PU0}{PU0}{NODE0}"), "cpu 0 is there twice");
    contradicts(&format!("{PU0}{NODE0}{NODE0}"), "node 0 is there twice");
    contradicts(PU0, "no node has memory");
    let wide = NODE0.replace("0x1", "0x3");
    let absent = "node 0 names cpu 1, which does not exist";
    contradicts(&format!("{PU0}{wide}"), absent);
    let core = "<object type=\"Core\" cpuset=\"0x1\"/>";
    let twice = format!("{PU0}{NODE0}{core}{core}");
    contradicts(&twice, "cpu 0 belongs to two cores");
}

#[test]
fn distances_that_do_not_fit_are_contradictions() {
    for (matrix, words) in [
        (
            "<indexes>0</indexes><u64values>10 20</u64values>",
            "a matrix of 1 nodes has 1 indexes",
        ),
        (
            "<indexes>5</indexes><u64values>10</u64values>",
            "told of node 5, which does not exist",
        ),
    ] {
        let matrix = format!(
            "{PU0}{NODE0}</object><distances2 type=\"NUMANode\" nbobjs=\"1\" kind=\"5\" \
             name=\"NUMALatency\" indexing=\"os\">{matrix}</distances2><object type=\"Misc\">"
        );
        let error = file(with(&matrix)).unwrap_err();
        assert!(
            error.contains("contradicts itself") && error.contains(words),
            "{error}"
        );
    }
}

#[test]
fn version_two_tells_memory_without_processors_by_nearness() {
    let pus: String = (0..4)
        .map(|cpu| format!("<object type=\"PU\" os_index=\"{cpu}\"/>"))
        .collect();
    let node = |id: u32, cpus: &str, more: &str| {
        format!(
            "<object type=\"NUMANode\" os_index=\"{id}\" cpuset=\"{cpus}\" {more} \
             local_memory=\"1048576\"/>"
        )
    };
    let nodes = [
        node(0, "0x3", "subtype=\"HBM\""),
        node(1, "0xc", ""),
        node(2, "0x3", ""),
        node(3, "0xf", ""),
        node(4, "0xc", ""),
    ];
    let topology = file(with(&(pus.clone() + &nodes.concat()))).unwrap();
    let cpus: Vec<String> = topology
        .nodes()
        .iter()
        .map(|n| n.cpus.to_string())
        .collect();
    assert_eq!(cpus, ["", "2-3", "0-1", "", ""]);
    let overlap = [node(0, "0x7", ""), node(1, "0xe", "")].concat();
    let error = file(with(&(pus + &overlap))).unwrap_err();
    assert!(error.ends_with("cpus 1-2 belong to node 0 and to node 1, whose other cpus differ"));
}

#[test]
fn too_large_a_file_is_not_read() {
    let large = vec![b' '; usize::try_from(xml::BYTES_MAX).unwrap() + 1];
    let error = file(large).unwrap_err();
    assert_eq!(
        error,
        "`ROOT/machine.xml` is larger than the 16777216 bytes that are read"
    );
}

/// Depth and number cost stack or squares of time where they are not thought of.
#[test]
fn deep_and_wide_files_are_bounded() {
    let deep = "<object type=\"Group\">".repeat(100_000);
    let error = xml::parse(&format!("<topology>{deep}")).unwrap_err();
    assert!(matches!(error, Reason::CutShort(_)), "{error:?}");
    let closed = format!("{deep}{PU0}{NODE0}{}", "</object>".repeat(100_000));
    either_way(xml::parse(&with(&closed)));
    let nodes = NODE0.repeat(1025);
    let error = file(with(&format!("{PU0}{nodes}"))).unwrap_err();
    assert!(
        error.ends_with("more than the 1024 nodes that Linux knows"),
        "{error}"
    );
    let elements = "<a/>".repeat(1_100_000);
    let error = xml::parse(&format!("<topology>{elements}</topology>")).unwrap_err();
    assert!(matches!(error, Reason::Foreign { .. }), "{error:?}");
}

/// Damage may be refused or not matter; that it does not panic is what is tested.
fn either_way<T, E>(result: Result<T, E>) {
    drop(result);
}

/// Every file of the fixtures, cut anywhere, is said to be cut short (or no topology at all, where
/// too little of it is left to tell).
#[test]
fn files_cut_short_say_so() {
    for name in names("xml") {
        let whole = std::fs::read_to_string(path(&format!("xml/{name}"))).unwrap();
        let body = whole.find("<topology").unwrap() + "<topology".len();
        let end = whole.rfind("</topology>").unwrap() + "</topology>".len();
        let every = whole.len() / 13 + 1;
        let lengths = (0..end).step_by(every).chain(end.saturating_sub(12)..end);
        for length in lengths.filter(|&length| whole.is_char_boundary(length)) {
            let error = xml::parse(&whole[..length]).unwrap_err();
            let cut = matches!(error, Reason::CutShort(_));
            assert!(cut || length < body, "{name} cut to {length}: {error:?}");
        }
    }
}

#[test]
fn flipped_bytes_never_panic() {
    for name in names("xml") {
        let whole = std::fs::read(path(&format!("xml/{name}"))).unwrap();
        let mut state = 0x2545_f491_4f6c_dd1d_u64;
        for _ in 0..15 {
            let mut damaged = whole.clone();
            for _ in 0..3 {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                let at = usize::try_from(state % 1_000_000_007).unwrap() % damaged.len();
                damaged[at] ^= 1 << (state >> 60 & 7);
            }
            either_way(xml::parse(&String::from_utf8_lossy(&damaged)));
        }
    }
}

/// A real tree without one of its files, or with a file damaged, loads or is refused with the name
/// of something below its root.
#[test]
fn damaged_trees_load_or_name_the_file() {
    for name in [
        "offline-cpu0-node0",
        "fakeheteromemtiers",
        "8em64t-2s2ca2c-buggynuma",
    ] {
        let root = unpack(name);
        let files = files_below(&root.0);
        for (index, file) in files.iter().enumerate().step_by(7) {
            let kept = std::fs::read(file).unwrap();
            std::fs::remove_file(file).unwrap();
            check_damaged(&root.read(), &root.0);
            for damage in [
                &b""[..],
                b"\xff\xfe\0",
                b"-1",
                b"99999999999999999999",
                b"0-3",
            ] {
                std::fs::write(file, damage).unwrap();
                if index % 2 == 0 || damage.is_empty() {
                    check_damaged(&root.read(), &root.0);
                }
            }
            std::fs::write(file, kept).unwrap();
        }
    }
}

#[track_caller]
fn check_damaged(result: &Result<Topology, LoadError>, root: &Path) {
    match result {
        Ok(topology) => assert!(!topology.online().is_empty()),
        Err(error) => assert!(error.file.starts_with(root), "{error}"),
    }
}

fn files_below(dir: &Path) -> Vec<std::path::PathBuf> {
    let mut files = Vec::new();
    let mut dirs = vec![dir.to_path_buf()];
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(&dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                dirs.push(path);
            } else {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}

/// What the fuzz targets do, with the inputs they start from.
#[test]
fn the_fuzz_corpus_never_panics() {
    let corpus = |target: &str| -> Vec<String> {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
        let files = files_below(&dir.join(target));
        assert!(!files.is_empty(), "{target}");
        let texts = files.iter().map(|file| std::fs::read(file).unwrap());
        texts
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .collect()
    };
    for text in corpus("topology_xml") {
        either_way(xml::parse(&text));
    }
    for text in corpus("topology_synthetic") {
        either_way(topology::synthetic::parse(&text));
    }
    for text in corpus("bandwidth_file") {
        if let Ok(measured) = topology::Measured::parse(text.as_bytes()) {
            let again = topology::Measured::parse(measured.to_text().as_bytes());
            assert_eq!(again, Ok(measured));
        }
    }
    for text in corpus("cpu_list") {
        either_way(CpuSet::parse_mask(&text));
        if let Ok(set) = CpuSet::parse_list(&text) {
            assert_eq!(CpuSet::parse_list(&set.to_string()), Ok(set));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn any_text_is_parsed_or_refused(text in "\\PC*") {
        either_way(xml::parse(&text));
        either_way(topology::synthetic::parse(&text));
        either_way(CpuSet::parse_list(&text));
        either_way(CpuSet::parse_mask(&text));
    }

    #[test]
    fn any_short_form_is_parsed_or_refused(text in "[0-9x@,;+]{0,24}") {
        if let Ok(topology) = topology::synthetic::parse(&text) {
            prop_assert_eq!(topology.online().len(), topology.cpus().len());
        }
    }

    #[test]
    fn any_tags_are_parsed_or_refused(
        kinds in proptest::collection::vec(
            prop_oneof![
                Just("PU"), Just("NUMANode"), Just("Core"), Just("Package"), Just("L2Cache"),
                Just("Machine"), Just("Group"),
            ],
            0..8,
        ),
        indexes in proptest::collection::vec(0u32..4, 8),
        masks in proptest::collection::vec(0u32..16, 8),
    ) {
        let objects: String = kinds
            .iter()
            .zip(indexes.iter().zip(&masks))
            .map(|(kind, (index, mask))| format!(
                "<object type=\"{kind}\" os_index=\"{index}\" cpuset=\"{mask:#x}\" depth=\"2\" \
                 cache_type=\"0\" local_memory=\"4096\"/>"
            ))
            .collect();
        if let Ok(topology) = xml::parse(&with(&objects)) {
            for node in topology.nodes() {
                prop_assert!(node.cpus.iter().all(|cpu| topology.node_of(cpu) == Some(node.id)));
            }
        }
    }

    #[test]
    fn lists_print_as_they_read(members in proptest::collection::btree_set(0u32..3000, 0..60)) {
        let set: CpuSet = members.iter().copied().map(CpuId).collect();
        prop_assert_eq!(&CpuSet::parse_list(&set.to_string()).unwrap(), &set);
        let back: Vec<u32> = set.iter().map(|cpu| cpu.0).collect();
        prop_assert_eq!(back, members.into_iter().collect::<Vec<_>>());
    }

    #[test]
    fn ranges_are_their_members(first in 0u32..300, length in 0u32..300) {
        let mut by_range = CpuSet::new();
        by_range.insert_range(CpuId(first), CpuId(first + length));
        let one_by_one: CpuSet = (first..=first + length).map(CpuId).collect();
        prop_assert_eq!(by_range, one_by_one);
    }
}
