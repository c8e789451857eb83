//! What is known of each real machine from other tools, against what is read of it here.

use topology::{CpuId, NodeId, Origin, Topology};

use crate::fixture::{self, unpack};

/// Facts about one machine, none of them found with this project's code.
struct Facts<'a> {
    /// Each node as `number:cpus`, the cpus of nodes without processors left empty.
    nodes: &'a str,
    /// Memory of the nodes in MB; of machines with many equal nodes the first ones.
    memory_mb: &'a [u64],
    /// Processors described, online, and their cores.
    counts: (usize, usize, usize),
    packages: usize,
    /// The first rows of the matrix; empty where the source tells none.
    distances: &'a str,
    /// Every figure in the matrix.
    figures: &'a [u32],
}

#[track_caller]
fn check(topology: &Topology, facts: &Facts<'_>) {
    let nodes: Vec<String> = topology
        .nodes()
        .iter()
        .map(|node| format!("{}:{}", node.id, node.cpus))
        .collect();
    assert_eq!(nodes.join(" "), facts.nodes);
    let memory: Vec<u64> = topology
        .nodes()
        .iter()
        .map(|node| node.memory_bytes >> 20)
        .take(facts.memory_mb.len())
        .collect();
    assert_eq!(memory, facts.memory_mb);
    let online = topology.online();
    let counts = (
        topology.cpus().len(),
        online.len(),
        topology.cores_in(&online),
    );
    assert_eq!(counts, facts.counts);
    assert_eq!(topology.package_count(), facts.packages);
    check_distances(topology, facts);
    check_caches(topology);
}

#[track_caller]
fn check_distances(topology: &Topology, facts: &Facts<'_>) {
    let distances = topology.distances();
    for (from, expected) in facts.distances.split(" / ").enumerate() {
        if !expected.is_empty() {
            let row: Vec<String> = distances.row(from).iter().map(u32::to_string).collect();
            assert_eq!(row.join(" "), expected, "row {from}");
        }
    }
    let mut figures: Vec<u32> = (0..distances.count())
        .flat_map(|from| distances.row(from).to_vec())
        .collect();
    figures.sort_unstable();
    figures.dedup();
    assert_eq!(figures, facts.figures);
    let untold = facts.distances.is_empty();
    assert_eq!(distances.origin() == Origin::Estimated, untold);
    assert_eq!(
        topology
            .notes()
            .iter()
            .any(|note| note.subject == "distances"),
        untold,
        "replaced distances are flagged, others are not"
    );
}

/// Caches of a kind and level never overlap on a real machine.
#[track_caller]
fn check_caches(topology: &Topology) {
    for pair in topology.caches().windows(2) {
        if (pair[0].level, pair[0].kind) == (pair[1].level, pair[1].kind) {
            assert!(!pair[0].cpus.intersects(&pair[1].cpus), "{pair:?}");
        }
    }
}

#[track_caller]
fn tree(name: &str, facts: &Facts<'_>) -> Topology {
    let topology = unpack(name).read().unwrap();
    check(&topology, facts);
    topology
}

#[track_caller]
fn xml(name: &str, facts: &Facts<'_>) -> Topology {
    let path = fixture::path(&format!("xml/{name}.xml"));
    let topology = topology::load(path.to_str().unwrap()).unwrap();
    check(&topology, facts);
    topology
}

fn notes(topology: &Topology) -> Vec<String> {
    let texts = topology.notes().iter();
    texts.map(ToString::to_string).collect()
}

#[test]
fn arm_with_clusters() {
    let topology = tree(
        "128arm-2pa2n8cluster4co",
        &Facts {
            nodes: "0:0-31 1:32-63 2:64-95 3:96-127",
            memory_mb: &[128_645, 129_021, 129_021, 127_990],
            counts: (128, 128, 128),
            packages: 2,
            distances: "10 16 32 33 / 16 10 25 32 / 32 25 10 16 / 33 32 16 10",
            figures: &[10, 16, 25, 32, 33],
        },
    );
    // Its list files end in a NUL byte.
    assert_eq!(notes(&topology), [""; 0]);
    let per_level = |level| {
        topology
            .caches()
            .iter()
            .filter(|c| c.level == level)
            .count()
    };
    assert_eq!([1, 2, 3].map(per_level), [256, 128, 4]);
}

#[test]
fn itanium_of_2006_with_a_node_of_memory() {
    let with_cpus = (0..16).map(|node| format!("{node}:{}-{}", node * 8, node * 8 + 7));
    let nodes: Vec<String> = with_cpus.chain(["16:".to_owned()]).collect();
    let topology = tree(
        "128ia64-17n4s2c",
        &Facts {
            nodes: &nodes.join(" "),
            memory_mb: &[
                97_712, 97_728, 98_240, 98_240, 98_240, 98_240, 98_240, 98_239, 98_240, 98_240,
                98_240, 98_240, 98_240, 98_239, 98_240, 98_233, 996,
            ],
            counts: (128, 128, 128),
            packages: 64,
            distances: "10 17 17 17 20 20 20 20 20 20 20 20 20 20 20 20 14",
            figures: &[10, 14, 17, 20],
        },
    );
    let distances = topology.distances();
    for from in 0..17 {
        for to in 0..17 {
            assert_eq!(distances.between(from, to), distances.between(to, from));
        }
    }
}

#[test]
fn opteron_with_a_processor_offline() {
    let hops = "20 20 20 20 20 20 20";
    let topology = tree(
        "16amd64-8n2c-cpusets",
        &Facts {
            nodes: "0:0-1 1:2-3 2:4-5 3:6-7 4:8-9 5:10-11 6:12-13 7:14-15",
            memory_mb: &[8190, 8192, 8192, 8192, 8192, 8192, 8192, 8192],
            counts: (16, 15, 15),
            packages: 8,
            distances: &format!("10 {hops} / 20 10 20 20 20 20 20 20"),
            figures: &[10, 20],
        },
    );
    assert_eq!(topology.online().to_string(), "0-3,5-15");
    assert_eq!(topology.node_of(CpuId(4)), Some(NodeId(2)));
}

#[test]
fn hybrid_of_two_kinds_of_cores() {
    let topology = tree(
        "20em64t-hybrid-1p6c2t+2ca4co1t",
        &Facts {
            nodes: "0:0-19",
            memory_mb: &[31_728],
            counts: (20, 20, 14),
            packages: 1,
            distances: "10",
            figures: &[10],
        },
    );
    let second: Vec<_> = topology.caches().iter().filter(|c| c.level == 2).collect();
    assert_eq!(second.len(), 8);
    assert_eq!(second[6].cpus.to_string(), "12-15");
}

#[test]
fn power_with_gaps_in_the_numbers_of_nodes() {
    let topology = tree(
        "256ppc-8n8s4t",
        &Facts {
            nodes: "0:0-31 1:32-63 4:64-95 5:96-127 8:128-159 9:160-191 12:192-223 13:224-255",
            memory_mb: &[
                57_088, 64_768, 65_280, 65_536, 65_280, 65_536, 65_280, 55_552,
            ],
            counts: (256, 256, 64),
            // Every physical_package_id is -1.
            packages: 1,
            distances: "10 20 40 40 40 40 40 40 / 20 10 40 40 40 40 40 40 / \
                        40 40 10 20 40 40 40 40 / 40 40 20 10 40 40 40 40 / \
                        40 40 40 40 10 20 40 40 / 40 40 40 40 20 10 40 40 / \
                        40 40 40 40 40 40 10 20 / 40 40 40 40 40 40 20 10",
            figures: &[10, 20, 40],
        },
    );
    assert_eq!(
        notes(&topology),
        ["cpus 0-255: no package is told; all cpus count as one package"]
    );
    assert_eq!(topology.position(NodeId(12)), Some(6));
}

#[test]
fn four_sockets_of_two_nodes() {
    tree(
        "32amd64-4s2n4c-cgroup2",
        &Facts {
            nodes: "0:0-3 1:4-7 2:8-11 3:12-15 4:16-19 5:20-23 6:24-27 7:28-31",
            memory_mb: &[
                16_381, 16_384, 16_384, 16_384, 16_384, 16_384, 16_384, 16_384,
            ],
            counts: (32, 32, 32),
            packages: 4,
            distances: "10 16 16 22 16 22 16 22 / 16 10 22 16 22 16 22 16 / \
                        16 22 10 16 16 22 16 22 / 22 16 16 10 22 16 22 16 / \
                        16 22 16 22 10 16 16 22 / 22 16 22 16 16 10 22 16 / \
                        16 22 16 22 16 22 10 16 / 22 16 22 16 22 16 16 10",
            figures: &[10, 16, 22],
        },
    );
}

/// Eight nodes that all claim all processors, all 10 apart: memory of one place, cut in pieces.
#[test]
fn nodes_that_claim_the_same_processors() {
    let row = "10 10 10 10 10 10 10 10";
    let topology = tree(
        "8em64t-2s2ca2c-buggynuma",
        &Facts {
            nodes: "0:0-7 1: 2: 3: 4: 5: 6: 7:",
            memory_mb: &[2047, 2047, 2048, 2048, 2048, 2048, 2048, 2048],
            counts: (8, 8, 8),
            packages: 2,
            distances: &[row; 8].join(" / "),
            figures: &[10],
        },
    );
    assert_eq!(
        notes(&topology),
        [
            "nodes 0-7: all claim cpus 0-7 (as with numa=fake); these count to node 0, the others \
             as memory without processors"
        ]
    );
}

#[test]
fn tiers_of_memory_with_bandwidths() {
    let topology = tree(
        "fakeheteromemtiers",
        &Facts {
            nodes: "0:0-1 1:2-3 2:4-5 4: 6: 8: 9:",
            memory_mb: &[2934, 978, 512, 512, 384, 384, 384],
            counts: (6, 6, 6),
            packages: 1,
            distances: "10 20 20 20 20 20 20 / 20 10 20 20 20 20 20 / 20 20 10 20 20 20 20 / \
                        20 20 20 10 20 20 20 / 20 20 20 20 10 20 20 / 20 20 20 20 20 10 20 / \
                        20 20 20 20 20 20 10",
            figures: &[10, 20],
        },
    );
    assert_eq!(topology.nodes_with_cpus().to_string(), "0-2");
    let links: Vec<String> = topology
        .bandwidth()
        .iter()
        .map(|((from, to), link)| {
            let read = link.read_mbps.unwrap();
            assert_eq!(link.write_mbps, Some(read));
            assert_eq!(link.latency_ns, None, "0 in sysfs is not told");
            format!("{from}>{to} {} {}", read.value, read.origin)
        })
        .collect();
    assert_eq!(
        links,
        [
            "0>0 1000 firmware",
            "0>8 100 firmware",
            "1>1 1000 firmware",
            "1>4 10000 firmware",
            "1>6 100 firmware",
            "2>2 10000 firmware",
            "2>9 100 firmware",
        ]
    );
}

#[test]
fn nodes_across_each_other_with_memory_side_caches() {
    let every_fourth = |first: u32| {
        let cpus: Vec<String> = (first..80).step_by(4).map(|cpu| cpu.to_string()).collect();
        format!("{first}:{}", cpus.join(","))
    };
    let topology = tree(
        "memorysidecaches",
        &Facts {
            nodes: &[0, 1, 2, 3].map(every_fourth).join(" "),
            memory_mb: &[379_387, 381_019, 381_019, 381_018],
            counts: (80, 80, 40),
            packages: 2,
            distances: "10 21 11 21 / 21 10 21 11 / 11 21 10 21 / 21 11 21 10",
            figures: &[10, 11, 21],
        },
    );
    assert!(topology.bandwidth().is_empty(), "all its figures are 0");
}

#[test]
fn a_desktop() {
    tree(
        "nri-desktop",
        &Facts {
            nodes: "0:0-19",
            memory_mb: &[64_083],
            counts: (20, 20, 10),
            packages: 1,
            distances: "10",
            figures: &[10],
        },
    );
}

#[test]
fn persistent_memory_and_isolated_processors() {
    let every_fourth = |first: u32| {
        let cpus: Vec<String> = (first..112).step_by(4).map(|cpu| cpu.to_string()).collect();
        format!("{first}:{}", cpus.join(","))
    };
    let topology = tree(
        "nri-server",
        &Facts {
            nodes: &format!("{} 4: 5:", [0, 1, 2, 3].map(every_fourth).join(" ")),
            memory_mb: &[31_614, 32_249, 32_249, 32_244, 126_976, 126_976],
            counts: (112, 112, 56),
            packages: 2,
            distances: "10 21 11 21 17 28 / 21 10 21 11 28 28 / 11 21 10 21 28 17 / \
                        21 11 21 10 28 28 / 17 28 28 28 10 28 / 28 28 17 28 28 10",
            figures: &[10, 11, 17, 21, 28],
        },
    );
    assert_eq!(topology.isolated().to_string(), "4-7,60-63");
    assert_eq!(topology.usable().len(), 104);
    assert_eq!(topology.nodes_with_memory().to_string(), "0-5");
}

#[test]
fn four_sockets() {
    tree(
        "nri-4-socket-server-nosnc",
        &Facts {
            nodes: "0:0-17,72-89 1:18-35,90-107 2:36-53,108-125 3:54-71,126-143",
            memory_mb: &[192_115, 193_527, 193_493, 193_526],
            counts: (144, 144, 72),
            packages: 4,
            distances: "10 21 21 21 / 21 10 21 21 / 21 21 10 21 / 21 21 21 10",
            figures: &[10, 21],
        },
    );
}

#[test]
fn first_processor_and_first_node_offline() {
    let topology = tree(
        "offline-cpu0-node0",
        &Facts {
            nodes: "1:1,3,5,7,9,11,13,15,17,19,21,23",
            memory_mb: &[65_536],
            counts: (24, 17, 17),
            packages: 2,
            // The row is `21 10`; node 0 has a column and no directory.
            distances: "10",
            figures: &[10],
        },
    );
    assert_eq!(topology.online().to_string(), "4-20");
    assert_eq!(topology.node_of(CpuId(4)), None);
    let package = |cpu| topology.cpu(CpuId(cpu)).unwrap().package;
    assert_eq!(package(0), package(4));
    assert_eq!(package(1), package(5));
    assert_ne!(package(4), package(5));
    assert_eq!(
        notes(&topology),
        [
            "cpus 0,2,4,6,8,10,12,14,16,18,20,22: belong to no node that is online",
            "cpus 0-3,21-23: no package is told (usual while offline); counted to the package of \
             their node",
        ]
    );
}

#[test]
fn twenty_four_sockets() {
    let node = |node: u32| {
        let (first, second) = (node * 8, 192 + node * 8);
        format!("{node}:{first}-{},{second}-{}", first + 7, second + 7)
    };
    let nodes: Vec<String> = (0..24).map(node).collect();
    let memory: Vec<u64> = std::iter::once(31_714)
        .chain(std::iter::repeat_n(31_728, 23))
        .collect();
    xml(
        "192em64t-24n8c2t.v2",
        &Facts {
            nodes: &nodes.join(" "),
            memory_mb: &memory,
            counts: (384, 384, 192),
            packages: 24,
            distances: "10 50 65 65 65 65 65 65 65 65 79 79 65 65 79 79 65 65 79 79 79 79 79 79",
            figures: &[10, 50, 65, 79],
        },
    );
}

#[test]
fn memory_attributes() {
    let topology = xml(
        "8intel64-4n2t-memattrs.v2",
        &Facts {
            nodes: "0:0-1 1:2-3 2:4-5 3:6-7",
            memory_mb: &[1024; 4],
            // It names no core; each processor is one.
            counts: (8, 8, 8),
            packages: 1,
            distances: "",
            figures: &[10, 20],
        },
    );
    let links: Vec<_> = topology.bandwidth().iter().collect();
    assert_eq!(links.len(), 4, "every node asks node 1, the one target");
    for ((_, to), link) in links {
        assert_eq!(to, NodeId(1));
        assert_eq!(link.read_mbps.unwrap().value, 20);
    }
}

#[test]
fn version_one_with_nodes_around_packages() {
    xml(
        "cascade-lake-ap-snl-hwloc1",
        &Facts {
            nodes: "0:0-23,96-119 1:24-47,120-143 2:48-71,144-167 3:72-95,168-191",
            memory_mb: &[96_941, 98_304, 98_304, 98_304],
            counts: (192, 192, 96),
            packages: 4,
            distances: "10 21 21 21 / 21 10 21 21 / 21 21 10 21 / 21 21 21 10",
            figures: &[10, 21],
        },
    );
}

#[test]
fn version_one_with_memory_of_graphics_cards() {
    let topology = xml(
        "coral-lassen-hwloc1",
        &Facts {
            nodes: "0:8-87 8:96-175 252: 253: 254: 255:",
            memory_mb: &[130_748, 130_812, 16_128, 16_128, 16_128, 16_128],
            counts: (160, 160, 40),
            packages: 2,
            distances: "10 40 80 80 80 80 / 40 10 80 80 80 80 / 80 80 10 80 80 80 / \
                        80 80 80 10 80 80 / 80 80 80 80 10 80 / 80 80 80 80 80 10",
            figures: &[10, 40, 80],
        },
    );
    assert_eq!(topology.nodes_with_cpus().to_string(), "0,8");
}

#[test]
fn four_nodes_in_one_package() {
    xml(
        "eas-tioga",
        &Facts {
            nodes: "0:0-15,64-79 1:16-31,80-95 2:32-47,96-111 3:48-63,112-127",
            memory_mb: &[128_489, 128_972, 129_015, 128_998],
            counts: (128, 128, 64),
            packages: 1,
            distances: "10 12 12 12 / 12 10 12 12 / 12 12 10 12 / 12 12 12 10",
            figures: &[10, 12],
        },
    );
}

#[test]
fn two_packages_of_four_nodes() {
    let near = "10 16 16 16 32 32 32 32 / 16 10 16 16 32 32 32 32 / \
                16 16 10 16 32 32 32 32 / 16 16 16 10 32 32 32 32";
    let far = "32 32 32 32 10 16 16 16 / 32 32 32 32 16 10 16 16 / \
               32 32 32 32 16 16 10 16 / 32 32 32 32 16 16 16 10";
    xml(
        "epyc-corona",
        &Facts {
            nodes: "0:0-5,48-53 1:6-11,54-59 2:12-17,60-65 3:18-23,66-71 4:24-29,72-77 \
                    5:30-35,78-83 6:36-41,84-89 7:42-47,90-95",
            memory_mb: &[
                32_656, 32_767, 32_767, 32_767, 32_767, 32_767, 32_767, 32_767,
            ],
            counts: (96, 96, 48),
            packages: 2,
            distances: &format!("{near} / {far}"),
            figures: &[10, 16, 32],
        },
    );
}

#[test]
fn fast_memory_without_processors() {
    xml(
        "knl-quad-flat-hwloc1",
        &Facts {
            nodes: "0:0-271 1:",
            memory_mb: &[98_207, 16_384],
            counts: (272, 272, 68),
            packages: 1,
            distances: "",
            figures: &[10, 20],
        },
    );
}

/// The packed trees say what the originals say. The largest are left out for the time they take.
#[test]
fn trees_are_the_originals() {
    for name in [
        "16amd64-8n2c-cpusets",
        "20em64t-hybrid-1p6c2t+2ca4co1t",
        "32amd64-4s2n4c-cgroup2",
        "8em64t-2s2ca2c-buggynuma",
        "fakeheteromemtiers",
        "offline-cpu0-node0",
    ] {
        let Some(original) = fixture::original(name) else {
            return;
        };
        assert_eq!(
            unpack(name).read().unwrap(),
            original.read().unwrap(),
            "{name}"
        );
    }
}

/// A machine that is added without facts would be no test.
#[test]
fn every_fixture_is_in_this_file() {
    let source = include_str!("facts.rs");
    for dir in ["trees", "xml"] {
        for name in fixture::names(dir) {
            let (stem, _) = name.rsplit_once('.').unwrap();
            assert!(source.contains(&format!("\"{stem}\"")), "{name}");
        }
    }
}

#[test]
fn this_machine_loads() {
    let topology = topology::load("this").unwrap();
    assert!(!topology.usable().is_empty());
    assert!(topology.memory_bytes() > 0);
}
