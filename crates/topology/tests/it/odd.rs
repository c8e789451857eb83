//! Machines that nobody has, but that someone may describe: as a directory, or as hwloc writes what
//! `lstopo -i DESCRIPTION --of xml` is told.

use std::fmt::Write as _;

use topology::{Topology, load};

use crate::fixture::TempDir;

const NODE: &str = "sys/devices/system/node";
const CPU: &str = "sys/devices/system/cpu";

/// A tree of nodes: `0:0-3:4 8::1` is node 0 with four processors and 4 GiB, and node 8 with none
/// and 1 GiB. All processors are online; the distance between nodes is 21.
fn tree(text: &str) -> TempDir {
    let root = TempDir::new();
    let nodes: Vec<Vec<&str>> = text
        .split(' ')
        .map(|node| node.split(':').collect())
        .collect();
    for (from, node) in nodes.iter().enumerate() {
        let [id, cpus, gib] = node[..] else {
            panic!("`{text}`")
        };
        let kib = gib.parse::<u64>().unwrap() << 20;
        let dir = format!("{NODE}/node{id}");
        root.write(&format!("{dir}/cpulist"), format!("{cpus}\n"));
        let meminfo = format!("Node {id} MemTotal: {kib} kB\nNode {id} MemFree: 4 kB\n");
        root.write(&format!("{dir}/meminfo"), meminfo);
        let distance = |to| if from == to { "10" } else { "21" };
        let row: Vec<&str> = (0..nodes.len()).map(distance).collect();
        root.write(&format!("{dir}/distance"), row.join(" ") + "\n");
        for cpu in topology::CpuSet::parse_list(cpus).unwrap().iter() {
            let dir = format!("{CPU}/cpu{cpu}/topology");
            root.write(&format!("{dir}/thread_siblings_list"), format!("{cpu}\n"));
            root.write(&format!("{dir}/physical_package_id"), format!("{id}\n"));
        }
    }
    root
}

/// Nodes as `ID:CPUS:GIB`, joined by spaces: what `tree` takes.
fn nodes_of(topology: &Topology) -> String {
    let node = |node: &topology::Node| {
        let gib = node.memory_bytes >> 30;
        format!("{}:{}:{gib}", node.id, node.cpus)
    };
    let nodes: Vec<String> = topology.nodes().iter().map(node).collect();
    nodes.join(" ")
}

#[track_caller]
fn loads(text: &str) -> Topology {
    let topology = tree(text).read().unwrap();
    assert_eq!(nodes_of(&topology), text);
    topology
}

/// Dumps for others to read often lack the files of memory.
#[test]
fn a_dump_that_tells_of_no_memory_still_has_its_nodes() {
    let root = tree("0:0-1:4 1:2-3:4");
    for id in 0..2 {
        root.write(&format!("{NODE}/node{id}/meminfo"), "");
    }
    let topology = root.read().unwrap();
    assert_eq!(nodes_of(&topology), "0:0-1:1 1:2-3:1");
    let told = |note: &topology::Note| note.text.contains("each counts as having 1024 MiB");
    assert!(topology.notes().iter().any(told), "{:?}", topology.notes());
    root.write("proc/meminfo", "MemTotal: 16777216 kB\n");
    assert_eq!(nodes_of(&root.read().unwrap()), "0:0-1:8 1:2-3:8");
}

#[test]
fn nodes_need_neither_order_nor_processors_nor_memory() {
    for text in [
        "0:0-3:1 1:4-7:1 2::4 3::4",
        "0:0-3:1 1:4-7:0 2:8-11:0",
        "0:0-3:1 8:4-7:1 252::1 255::1",
        "1:0-3:1 3:4-7:1",
        "0:0-1,100-101:1 1:64,200-201:1",
        "7:5:1",
        "0::1 1:0-3:0",
        "0:0:1 65535:65535:1",
    ] {
        let topology = loads(text);
        let remote = topology.nodes().len().min(2) - 1;
        assert_eq!(topology.distances().between(0, remote) == 21, remote == 1);
    }
}

#[test]
fn the_promised_size_loads_from_a_tree() {
    let nodes: Vec<String> = (0..64)
        .map(|node| format!("{node}:{}-{}:1", node * 16, node * 16 + 15))
        .collect();
    let topology = loads(&nodes.join(" "));
    assert_eq!(topology.online().len(), 1024);
    assert_eq!(topology.distances().between(63, 0), 21);
}

/// What is read when one file of two nodes of four processors says something else.
#[track_caller]
fn altered(file: &str, content: &[u8]) -> Result<Topology, String> {
    let root = tree("0:0-3:1 1:4-7:1");
    root.write(file, content);
    root.read().map_err(|error| {
        let shown = error.to_string();
        assert!(!shown.contains(char::is_control), "{shown:?}");
        assert!(shown.len() < 400, "{} bytes", shown.len());
        shown.replace(root.0.to_str().unwrap(), "ROOT")
    })
}

#[test]
fn whatever_a_list_holds_the_complaint_is_one_short_line() {
    let file = format!("{NODE}/node1/cpulist");
    let long = vec![b'x'; 200_000];
    for (content, shown) in [
        (&b"4-5\n6-7\n"[..], r"`4-5\n6-7` is not a number"),
        (b"4-5\x006-7", r"`4-5\06-7` is not a number"),
        (b"\x1b[31m\x07,4", r"`\u{1b}[31m\u{7}` is not a number"),
        (b"4 5 6 7\n", "`4 5 6 7` is not a number"),
        (b"4-7,\n", "`` is not a number"),
        (b"4-7:2/4\n", "`4-7:2/4` is not a number"),
        (b"+4-+7\n", "`+4-+7` is not a number"),
        (b"4-99999999999999999999", "`4-99999999999999999999` is not"),
        (b"4-70000", "`4-70000` is beyond the largest number"),
        (&long, "`xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx` is not"),
    ] {
        let error = altered(&file, content).unwrap_err();
        assert!(
            error.starts_with(&format!("`ROOT/{file}` is no list of numbers: {shown}")),
            "{error}"
        );
    }
    let many = b"4,".repeat(200_000);
    let error = altered(&file, &many).unwrap_err();
    assert!(error.ends_with("is larger than the 262144 bytes that are read"));
    let padded = altered(&file, b" \t4 - 7 \n\0\0").unwrap();
    assert_eq!(nodes_of(&padded), "0:0-3:1 1:4-7:1");
}

/// A real machine shows this while one of its nodes is offline.
#[test]
fn processors_without_a_node_are_kept_and_named() {
    let topology = altered(&format!("{NODE}/node1/cpulist"), b"\n").unwrap();
    assert_eq!(nodes_of(&topology), "0:0-3:1 1::1");
    assert_eq!(topology.online().to_string(), "0-7");
    let notes: Vec<String> = topology.notes().iter().map(ToString::to_string).collect();
    assert_eq!(notes, ["cpus 4-7: belong to no node that is online"]);
}

#[test]
fn distances_that_cannot_be_used_are_replaced_and_said_to_be() {
    let file = format!("{NODE}/node1/distance");
    for (content, told) in [
        (&b""[..], 20),
        (b"21\n", 20),
        (b"21 10 30\n", 20),
        (b"21 \xff\0ten\n", 20),
        (b"99999999999999999999 10\n", 20),
        (b"-21 10\n", 20),
        (b"255 10\n", 20),
        (b"21 10\n\0\0", 21),
        (b" 50\t10 ", 50),
    ] {
        let topology = altered(&file, content).unwrap();
        assert_eq!(topology.distances().between(1, 0), told);
        assert_eq!(topology.notes().is_empty(), told != 20, "{content:?}");
    }
}

#[test]
fn odd_lists_of_nodes_do_not_matter_or_are_named() {
    let possible = format!("{NODE}/possible");
    let topology = altered(&possible, b"0-1023\n").unwrap();
    assert_eq!(topology.distances().row(1), [21, 10]);
    let error = altered(&possible, b"0-99999999\n").unwrap_err();
    assert!(
        error.starts_with(&format!("`ROOT/{possible}` is no list")),
        "{error}"
    );
    let far = altered(&format!("{NODE}/node4000000000/cpulist"), b"").unwrap_err();
    assert!(
        far.ends_with("node 4000000000 is beyond the largest number"),
        "{far}"
    );
    let twice = altered(&format!("{NODE}/node00/meminfo"), b"").unwrap_err();
    assert!(twice.ends_with("node 0 is there twice"), "{twice}");
}

#[test]
fn links_that_lead_nowhere_end() {
    let root = tree("0:0-3:1 1:4-7:1");
    let list = root.0.join(NODE).join("node1/cpulist");
    std::fs::remove_file(&list).unwrap();
    std::os::unix::fs::symlink("cpulist", &list).unwrap();
    let error = root.read().unwrap_err().to_string();
    let words = "node1/cpulist`: too many levels of symbolic links";
    assert!(
        error.starts_with("cannot read `") && error.ends_with(words),
        "{error}"
    );
    std::os::unix::fs::symlink("..", root.0.join(CPU).join("cpu0/subsystem")).unwrap();
    std::fs::remove_file(&list).unwrap();
    std::fs::write(&list, "4-7\n").unwrap();
    assert_eq!(nodes_of(&root.read().unwrap()), "0:0-3:1 1:4-7:1");
}

#[test]
fn a_file_name_cannot_break_the_line() {
    let error = load("no\nsuch\x1b[31m").unwrap_err().to_string();
    assert!(
        error.starts_with(r"`no\nsuch\u{1b}[31m` does not exist"),
        "{error}"
    );
}

#[test]
fn whatever_a_file_holds_the_complaint_is_one_short_line() {
    let root = TempDir::new();
    let long = "x".repeat(100_000);
    for content in [
        "<topology version=\"2.0\"><object type=\"PU\" os_index=\"&#10;1\"/></topology>".to_owned(),
        format!("<topology version=\"&#27;{long}\"/>"),
        format!("<{long}/>"),
        format!("<topology><object type=\"PU\" {long}=\"\" {long}=\"\"/></topology>"),
        format!("<topology></{long}>"),
    ] {
        root.write("machine.xml", &content);
        let path = root.0.join("machine.xml");
        let error = load(path.to_str().unwrap()).unwrap_err().to_string();
        assert!(!error.contains(char::is_control), "{error:?}");
        assert!(error.len() < 400, "{} bytes", error.len());
    }
}

/// One took 69 s, the other more than 100, before there were limits.
#[test]
fn files_made_to_be_slow_are_not() {
    let node = |id: u32, mask: &str| {
        format!(
            "<object type=\"NUMANode\" os_index=\"{id}\" gp_index=\"{}\" cpuset=\"{mask}\" \
             local_memory=\"4096\"/>",
            id + 1
        )
    };
    let pu = "<object type=\"PU\" os_index=\"0\"/>";
    let (open, close) = ("<object type=\"Group\">", "</object>");
    let distances = "<distances nbobjs=\"1\" relative_depth=\"3\"/>";
    let text = format!(
        "<topology>{open}{pu}{}{}{}{}{close}</topology>",
        node(0, "0x1"),
        open.repeat(150_000),
        distances.repeat(150_000),
        close.repeat(150_000),
    );
    let error = topology::xml::parse(&text).unwrap_err();
    let shown = topology::LoadError {
        file: "x".into(),
        reason: error,
    };
    let words = "`x` is no hwloc topology: it is more than 256 elements deep";
    assert_eq!(shown.to_string(), words);

    let mut text = String::from("<topology version=\"2.0\"><object type=\"Machine\">");
    for id in 0..16_u32 {
        let cpu = 65_535 - id;
        let mask = format!(
            "{:#x}{}",
            1_u32 << (cpu % 32),
            ",".repeat(cpu as usize / 32)
        );
        write!(
            text,
            "<object type=\"PU\" os_index=\"{cpu}\"/>{}",
            node(id, &mask)
        )
        .unwrap();
    }
    let all = ["0xffffffff"; 2048].join(",");
    write!(
        text,
        "<object type=\"Group\" gp_index=\"5000\" cpuset=\"{all}\"/></object>"
    )
    .unwrap();
    let value =
        "<memattr_value target_obj_gp_index=\"1\" initiator_obj_gp_index=\"5000\" value=\"7\"/>";
    write!(
        text,
        "<memattr name=\"Bandwidth\">{}</memattr></topology>",
        value.repeat(33_000)
    )
    .unwrap();
    let topology = topology::xml::parse(&text).unwrap();
    let notes: Vec<String> = topology.notes().iter().map(ToString::to_string).collect();
    let left_out = "bandwidth: more than 32768 figures are told; the rest is left out";
    assert!(notes.iter().any(|note| note == left_out), "{notes:?}");
}

/// What `lstopo -i "pack:2 [numa] [numa] core:2"` writes: nodes of unknown size, all near.
#[test]
fn nodes_that_tell_no_size_get_one_and_a_note() {
    let mut objects = String::new();
    for cpu in 0..4 {
        let pu = format!(
            "<object type=\"PU\" os_index=\"{cpu}\" cpuset=\"{:#x}\"/>",
            1 << cpu
        );
        objects.push_str(&pu);
    }
    for (node, mask) in [(0, 3), (1, 3), (2, 12), (3, 12)] {
        write!(
            objects,
            "<object type=\"NUMANode\" os_index=\"{node}\" cpuset=\"{mask:#x}\"/>"
        )
        .unwrap();
    }
    let text =
        format!("<topology version=\"2.0\"><object type=\"Machine\">{objects}</object></topology>");
    let topology = topology::xml::parse(&text).unwrap();
    assert_eq!(nodes_of(&topology), "0:0-1:16 1::16 2:2-3:16 3::16");
    let notes: Vec<String> = topology.notes().iter().map(ToString::to_string).collect();
    let expected = "memory: no node tells of its size; 16 GiB are counted for each";
    assert!(notes.iter().any(|note| note == expected), "{notes:?}");
    let told = text.replacen(
        "os_index=\"1\" cpuset=\"0x3\"",
        "os_index=\"1\" cpuset=\"0x3\" local_memory=\"1073741824\"",
        1,
    );
    let topology = topology::xml::parse(&told).unwrap();
    assert_eq!(nodes_of(&topology), "0:0-1:0 1::1 2:2-3:0 3::0");
}
