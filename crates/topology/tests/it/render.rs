//! What people see of a machine.

use topology::{Topology, render};

use crate::fixture::{self, unpack};

#[test]
fn the_text_shows_everything() {
    let topology = unpack("fakeheteromemtiers").read().unwrap();
    golden(&render::text(&topology), "fakeheteromemtiers.txt");
    let topology = unpack("offline-cpu0-node0").read().unwrap();
    golden(&render::text(&topology), "offline-cpu0-node0.txt");
    let xml = fixture::path("xml/epyc-corona.xml");
    golden(
        &render::text(&topology::xml::read(&xml).unwrap()),
        "epyc-corona.txt",
    );
}

/// Compares with `tests/golden/NAME`; `UPDATE_GOLDEN=1` writes it anew.
#[track_caller]
fn golden(shown: &str, name: &str) {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, shown).unwrap();
    }
    assert_eq!(shown, std::fs::read_to_string(&path).unwrap(), "{name}");
}

/// Every node and distance is in the picture, and the picture is XML without references.
#[test]
fn the_picture_is_whole_and_self_contained() {
    for name in ["192em64t-24n8c2t.v2", "coral-lassen-hwloc1"] {
        let path = fixture::path(&format!("xml/{name}.xml"));
        let topology = topology::xml::read(&path).unwrap();
        let shown = render::svg(&topology);
        let document = roxmltree::Document::parse(&shown).unwrap();
        let texts: Vec<&str> = document
            .descendants()
            .filter(|element| element.has_tag_name(("http://www.w3.org/2000/svg", "text")))
            .filter_map(|element| element.text())
            .collect();
        for node in topology.nodes() {
            assert!(texts.contains(&format!("node {}", node.id).as_str()));
        }
        let distances = topology.nodes().len() * topology.nodes().len();
        let numbers = texts.iter().filter(|text| text.parse::<u32>().is_ok());
        assert_eq!(numbers.count(), distances + 2 * topology.nodes().len());
        for reference in ["href", "url(", "<script", "@import"] {
            assert!(!shown.contains(reference), "{reference}");
        }
    }
}

/// What a recording says of its machine is the machine.
#[test]
fn the_xml_is_read_back_as_the_same_machine() {
    let trees = fixture::names("trees").into_iter();
    let trees = trees.map(|name| {
        let name = name.strip_suffix(".tree").unwrap().to_owned();
        (unpack(&name).read(), name)
    });
    let files = fixture::names("xml").into_iter();
    let files = files.map(|name| {
        (
            topology::xml::read(&fixture::path(&format!("xml/{name}"))),
            name,
        )
    });
    let mut seen = 0;
    for (machine, name) in trees.chain(files) {
        let Ok(machine) = machine else { continue };
        let text = render::xml(&machine);
        let again =
            topology::load_text(&text, "recorded").unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(again.nodes(), machine.nodes(), "{name}");
        assert_eq!(again.cpus(), machine.cpus(), "{name}");
        assert_eq!(again.caches(), machine.caches(), "{name}");
        // Its nodes claim the same processors, which makes all-local distances believable; who reads
        // the machine again does not see the claim.
        if name != "8em64t-2s2ca2c-buggynuma" {
            assert_eq!(again.distances(), machine.distances(), "{name}");
            assert_eq!(again.fingerprint(), machine.fingerprint(), "{name}");
        }
        assert_eq!(again.bandwidth(), machine.bandwidth(), "{name}");
        seen += 1;
    }
    assert!(seen > 10, "{seen}");
}

/// hwloc writes no matrix of one node, which the kernel tells as `10`.
#[test]
fn one_node_is_the_same_machine_in_a_file_without_distances() {
    let machine = unpack("nri-desktop").read().unwrap();
    let text = render::xml(&machine);
    let (head, rest) = text.split_once("<distances2").unwrap();
    let (_, tail) = rest.split_once("</distances2>").unwrap();
    let read = topology::load_text(&format!("{head}{tail}"), "x").unwrap();
    assert_eq!(read.distances(), machine.distances());
    assert_eq!(read.fingerprint(), machine.fingerprint());
}

/// A made-up one tells no distance, and says so.
#[test]
fn one_node_without_a_distance_stays_so() {
    let machine = topology::synthetic::parse("1x8").unwrap();
    let read = topology::load_text(&render::xml(&machine), "x").unwrap();
    assert_eq!(read.distances(), machine.distances());
    assert_eq!(read.fingerprint(), machine.fingerprint());
}

#[test]
fn a_machine_of_the_promised_size_fits_a_header() {
    let machine = topology::synthetic::parse("64x8x2").unwrap();
    let text = render::xml(&machine);
    assert!(text.len() < 1 << 20, "{} bytes", text.len());
    assert_eq!(
        topology::load_text(&text, "x").unwrap().nodes(),
        machine.nodes()
    );
    assert_eq!(topology::load_text("2x4", "x").unwrap().cpus().len(), 8);
    let wrong = topology::load_text("a.xml", "the recording").unwrap_err();
    assert_eq!(
        wrong.to_string(),
        "`the recording` is no hwloc topology: it is not XML"
    );
}

#[test]
fn one_line_says_what_it_is() {
    let summary = |name: &str| unpack(name).read().unwrap().summary();
    assert_eq!(
        summary("nri-server"),
        "6 nodes, 112 cpus, 2 packages, 373 GiB"
    );
    assert_eq!(
        summary("offline-cpu0-node0"),
        "1 node, 24 cpus (7 offline), 2 packages, 64 GiB"
    );
}

/// The same machine after one of its processors went offline as Linux does it: its `topology` and
/// `cache` directories vanish, and it leaves the lists of its node and of what it shared.
#[test]
fn the_fingerprint_is_the_same_whatever_is_online() {
    let root = unpack("nri-server");
    let before = root.read().unwrap();
    let cpu = "sys/devices/system/cpu";
    for part in ["topology", "cache"] {
        std::fs::remove_dir_all(root.0.join(format!("{cpu}/cpu8/{part}"))).unwrap();
    }
    root.write(
        &format!("{cpu}/cpu64/topology/thread_siblings_list"),
        "64\n",
    );
    root.write(&format!("{cpu}/online"), "0-7,9-111\n");
    let list = "sys/devices/system/node/node0/cpulist";
    let with = std::fs::read_to_string(root.0.join(list)).unwrap();
    root.write(list, with.replace(",8,", ","));
    let after = root.read().unwrap();
    assert_eq!(after.online().len(), before.online().len() - 1);
    assert_eq!(after.nodes(), before.nodes());
    assert_eq!(after.package_count(), before.package_count());
    assert_eq!(after.fingerprint(), before.fingerprint());
}

#[test]
fn fingerprints_of_all_fixtures_differ() {
    let trees = fixture::names("trees");
    let mut all: Vec<Topology> = trees
        .iter()
        .map(|name| unpack(name.strip_suffix(".tree").unwrap()).read().unwrap())
        .collect();
    for name in fixture::names("xml") {
        all.push(topology::xml::read(&fixture::path(&format!("xml/{name}"))).unwrap());
    }
    let mut prints: Vec<_> = all.iter().map(Topology::fingerprint).collect();
    prints.sort_unstable();
    prints.dedup();
    assert_eq!(prints.len(), all.len());
}
