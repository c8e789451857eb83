use std::time::Duration;

use control::rows::{AttachRequest, Target};

use crate::fake::{Settings, World};
use crate::peer::Peer;
use crate::steward::Steward;

fn attach(steward: &mut Steward, pid: u32) -> u32 {
    let request = AttachRequest {
        target: Target::Pids(vec![pid]),
        policy: Some("none".to_owned()),
        set: std::collections::BTreeMap::new(),
        dry_run: false,
        for_ms: None,
    };
    steward.attach(Peer::DAEMON, &request).unwrap().id
}

fn run(hardware: bool, text: &str) -> (World, Steward) {
    let world = World::new();
    world.state().hardware = hardware;
    let settings = Settings::new(&format!("meters-{hardware}-{}", text.len()), text);
    let (mut steward, _gate) = world.steward(&settings);
    attach(&mut steward, 100);
    world.pass(Duration::from_secs(1));
    steward.turn();
    (world, steward)
}

#[test]
fn what_is_counted_is_shown_everywhere() {
    let (world, mut steward) = run(true, "");
    let status = steward.status(Peer::DAEMON);
    let counts = status.attachments[0].counts.clone().unwrap();
    assert_eq!((counts.ipc, counts.cpu_s), (Some(2.0), Some(4.0 * 0.002)));
    assert_eq!(
        (counts.instructions, counts.cycles),
        (Some(8_000_000), Some(4_000_000))
    );
    assert_eq!(counts.absent, Vec::<String>::new());
    let memory = &status.memory[0];
    assert_eq!((memory.read, memory.written), (Some(192e6), Some(256e6)));
    let metrics = steward.metrics();
    for line in [
        "numad_programs_instructions_total 8000000",
        "numad_programs_page_faults_total 12000000",
        "numad_memory_read_bytes_per_second{nodes=\"0\"} 192000000.000",
        "numad_counters_open 22",
    ] {
        assert!(metrics.contains(line), "{line} in {metrics}");
    }
    let events = steward
        .events(Peer::DAEMON, numad_core::AttachmentId(1), 10)
        .unwrap();
    assert!(
        events.iter().any(|event| event.text.contains("; IPC 2.00")),
        "{events:?}"
    );
    let found = steward.doctor().run();
    let ok = |subject: &str| {
        found
            .iter()
            .any(|row| row.subject == subject && row.level == "ok")
    };
    assert!(ok("instructions and cycles of programs") && ok("memory, links and energy"));
    assert_eq!(world.state().counters_open, 22);
    // One after the other ends, and nothing stays open.
    let second = attach(&mut steward, 200);
    assert_eq!(world.state().counters_open, 32);
    steward
        .detach(Peer::DAEMON, numad_core::AttachmentId(1))
        .unwrap();
    assert_eq!(world.state().counters_open, 12);
    steward
        .detach(Peer::DAEMON, numad_core::AttachmentId(second))
        .unwrap();
    assert_eq!(world.state().counters_open, 0);
    assert!(
        steward
            .metrics()
            .contains("numad_programs_instructions_total 8000000")
    );
}

#[test]
fn a_machine_without_hardware_counts_what_the_kernel_does() {
    let (_world, mut steward) = run(false, "");
    let status = steward.status(Peer::DAEMON);
    let counts = status.attachments[0].counts.clone().unwrap();
    assert_eq!((counts.ipc, counts.instructions), (None, None));
    assert_eq!(counts.faults, Some(12_000_000));
    assert_eq!(counts.absent.len(), 2);
    assert!(status.memory.is_empty());
    let found = steward.doctor().run();
    let row = |subject: &str| found.iter().find(|row| row.subject == subject).unwrap();
    let lacking = row("instructions and cycles of programs");
    assert!(lacking.text.contains("virtual machine") && !lacking.remedy.is_empty());
    assert_eq!(row("reads of memory on node 0").level, "limited");
    assert!(!steward.metrics().contains("instructions"));
}

#[test]
fn settings_can_leave_counters_to_others() {
    let (world, mut steward) = run(true, "[sampling]\ncounters = \"off\"\n");
    assert_eq!(world.state().counters_open, 0);
    let status = steward.status(Peer::DAEMON);
    assert!(status.attachments[0].counts.is_none() && status.memory.is_empty());
    assert!(
        steward
            .doctor()
            .run()
            .iter()
            .any(|row| row.text.contains("sampling.counters"))
    );
}

#[test]
fn an_attach_looks_at_its_program_once() {
    let world = World::new();
    world.state().hardware = true;
    let settings = Settings::new("one-look", "");
    let (mut steward, _gate) = world.steward(&settings);
    attach(&mut steward, 100);
    let looks = world.state().looks;
    assert_eq!(looks, 1);
}
