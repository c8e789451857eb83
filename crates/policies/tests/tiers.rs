//! PTB on a Knights Landing in flat mode (an hwloc file of a real one): a node with the processors, and one of
//! fast memory without.

#![forbid(unsafe_code)]
// The tests say when they could not run.
#![expect(
    clippy::print_stderr,
    reason = "a skipped test must be seen to be skipped"
)]

use std::path::Path;

use numad_core::{Proposal, Settings, Time};
use testkit::Scene;
use topology::{Measured, Topology};

fn machine() -> Option<Topology> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../../shared/fixtures/xml/knl-quad-flat-hwloc1.xml");
    if !path.exists() {
        eprintln!("skipped: no shared fixtures beside the project");
        return None;
    }
    Some(topology::load(path.to_str()?).expect("the fixture is a machine"))
}

#[test]
fn the_hottest_pages_fill_the_fast_memory_and_no_more() {
    let Some(topology) = machine() else { return };
    let slow = topology
        .nodes_with_cpus()
        .first()
        .expect("a node with cpus");
    let fast = topology
        .nodes()
        .iter()
        .find(|node| node.cpus.is_empty())
        .expect("a node of fast memory");
    let (slow_at, fast_at) = (
        topology.position(slow).expect("it is there"),
        topology.position(fast.id).expect("it is there"),
    );
    // What STREAM gives on such machines: DDR4 about 80 GB/s, MCDRAM more than 400.
    let mut measured = Measured::new(topology.fingerprint());
    for node in topology.nodes().iter().filter(|node| node.memory_bytes > 0) {
        let mbps = if node.cpus.is_empty() {
            420_000
        } else {
            80_000
        };
        measured.link_mut(slow, node.id).alone_mbps = Some(mbps);
    }
    let nodes = topology.nodes().len();
    let mut scene = Scene::on(topology.with_measured(&measured)).with_tasks_on(&[slow_at; 8]);
    for page in 0..200_u32 {
        let home = u16::try_from(slow_at).expect("few nodes");
        scene = scene.with_page(Some(home), &[page % 8]);
    }
    for (weight, page) in (1_000..).zip(&mut scene.pages) {
        page.samples = 40;
        page.recent[0].weight = weight;
    }
    // Room for fifty pages on the fast node, and none on the other nodes.
    let mut free = vec![0; nodes];
    free[slow_at] = 1 << 30;
    free[fast_at] = 50 << 16;
    scene.free_bytes = free;
    let factory = policies::find("ptb").expect("it is in the registry");
    let settings = Settings::defaults(factory.settings);
    let mut policy = (factory.build)(&settings, 0).expect("defaults make a policy");
    let mut out = Vec::new();
    policy.propose(Time(1), &scene.as_program(), &mut out);
    let moved: Vec<_> = out
        .iter()
        .filter_map(|proposal| match proposal {
            Proposal::MovePage { page, node, .. } => Some((*page, *node)),
            Proposal::PlaceTask { .. } => None,
        })
        .collect();
    let hottest = scene.pages[150..].iter().rev();
    let expected: Vec<_> = hottest.map(|page| (page.key, fast_at)).collect();
    assert_eq!(moved, expected);
}
