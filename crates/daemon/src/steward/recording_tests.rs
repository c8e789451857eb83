//! Recordings on a machine that is not there.

use std::collections::BTreeMap;

use control::rows::{AttachRequest, RecordRequest, Target, UndoRequest};
use numad_core::{Lifecycle, Sample};
use sampler::recording::{Ending, Entry, Header, read};
use tokio::sync::mpsc::Receiver;
use topology::Tid;

use super::fit::tests::closed_rights;
use super::record::ADMINS_OWN;
use control::ErrorKind;

use super::*;
use crate::fake::{Settings, World, sample};
use crate::peer::Peer;

const USER: Peer = Peer {
    uid: 7,
    gid: 7,
    admin: false,
};

fn request(pids: &[u32], for_ms: Option<u64>) -> RecordRequest {
    RecordRequest {
        target: Target::Pids(pids.to_vec()),
        for_ms,
    }
}

fn attach(steward: &mut Steward, pid: u32) -> AttachmentId {
    let request = AttachRequest {
        target: Target::Pids(vec![pid]),
        policy: Some("none".to_owned()),
        set: BTreeMap::new(),
        dry_run: false,
        for_ms: None,
    };
    AttachmentId(steward.attach(Peer::DAEMON, &request).unwrap().id)
}

/// Lets time pass in steps of 50 ms.
fn pass(world: &World, steward: &mut Steward, steps: u32) {
    for _ in 0..steps {
        world.pass(Duration::from_millis(50));
        steward.turn();
    }
}

/// Everything that is in the pipe; whether it has an end.
fn bytes(blocks: &mut Receiver<Vec<u8>>) -> Vec<u8> {
    let mut bytes = Vec::new();
    while let Ok(block) = blocks.try_recv() {
        bytes.extend(block);
    }
    bytes
}

/// A recording taken apart.
struct Tape {
    header: Header,
    samples: Vec<Sample>,
    changes: Vec<Lifecycle>,
    lost: u64,
    marks: usize,
    ending: Ending,
}

fn tape(bytes: &[u8]) -> Tape {
    let (header, entries, ending) = read(bytes).unwrap();
    let mut tape = Tape {
        header,
        samples: Vec::new(),
        changes: Vec::new(),
        lost: 0,
        marks: 0,
        ending,
    };
    for entry in entries {
        match entry {
            Entry::Record(Record::Sample(sample)) => tape.samples.push(sample),
            Entry::Record(Record::Lifecycle(change)) => tape.changes.push(change),
            Entry::Record(Record::Lost(count)) => tape.lost += count,
            Entry::Record(Record::Sent(_)) => {}
            Entry::Mark(_) => tape.marks += 1,
        }
    }
    tape
}

#[test]
fn a_recording_has_one_program_and_the_machine() {
    let world = World::new();
    let settings = Settings::new("record", "");
    let (mut steward, _gate) = world.steward(&settings);
    let attached = attach(&mut steward, 200);
    let mut begun = steward
        .record(Peer::DAEMON, &request(&[100], None))
        .unwrap();
    pass(&world, &mut steward, 30);
    let row = &steward.recordings(Peer::DAEMON)[0];
    assert!(row.samples > 0 && row.pids == [100], "{row:?}");
    let ended = steward.end_recording(Peer::DAEMON, begun.id).unwrap();
    let tape = tape(&bytes(&mut begun.blocks));
    assert_eq!(tape.ending, Ending::Complete);
    assert_eq!(tape.samples.len() as u64, ended.samples);
    assert!(tape.samples.iter().all(|sample| sample.pid == Pid(100)));
    assert!(tape.marks > 10 && tape.lost == 0);
    let named: Vec<_> = tape.changes.iter().collect();
    assert!(
        matches!(named[3], Lifecycle::Renamed { tid: Tid(103), name, exec: false, .. } if name == "worker3"),
        "{named:?}"
    );
    assert_eq!(tape.header.page_bytes, 4096);
    assert!(
        tape.header
            .source
            .starts_with("faults (made up); loads yes")
    );
    let machine = topology::load_text(&tape.header.topology, "x").unwrap();
    assert_eq!(machine.nodes(), steward.parts.topology.nodes());
    // The attached one goes on as if nothing had been.
    assert_eq!(world.state().followed, [Pid(200)].into());
    steward.detach(Peer::DAEMON, attached).unwrap();
    assert!(!world.state().source_open);
}

#[test]
fn what_both_need_stays_followed_until_neither_does() {
    let world = World::new();
    let settings = Settings::new("record-both", "");
    let (mut steward, _gate) = world.steward(&settings);
    let mut begun = steward
        .record(Peer::DAEMON, &request(&[100], None))
        .unwrap();
    let attached = attach(&mut steward, 100);
    pass(&world, &mut steward, 4);
    steward.detach(Peer::DAEMON, attached).unwrap();
    assert_eq!(world.state().followed, [Pid(100)].into());
    bytes(&mut begun.blocks);
    let before = steward.recordings(Peer::DAEMON)[0].samples;
    pass(&world, &mut steward, 4);
    assert!(steward.recordings(Peer::DAEMON)[0].samples > before);
    let attached = attach(&mut steward, 100);
    steward.end_recording(Peer::DAEMON, begun.id).unwrap();
    assert_eq!(world.state().followed, [Pid(100)].into());
    // Undo of everything ends no recording.
    let begun = steward
        .record(Peer::DAEMON, &request(&[200], None))
        .unwrap();
    steward.undo(Peer::DAEMON, &UndoRequest::default()).unwrap();
    assert_eq!(world.state().followed, [Pid(200)].into());
    steward.detach(Peer::DAEMON, attached).unwrap_err();
    steward.end_recording(Peer::DAEMON, begun.id).unwrap();
    assert!(!world.state().source_open);
    assert_eq!(steward.wait(steward.now()), None);
}

#[test]
fn it_ends_when_its_time_is_up_and_when_the_program_does() {
    let world = World::new();
    let settings = Settings::new("record-ends", "");
    let (mut steward, _gate) = world.steward(&settings);
    let mut timed = steward
        .record(Peer::DAEMON, &request(&[100], Some(500)))
        .unwrap();
    let mut whole = steward
        .record(Peer::DAEMON, &request(&[200], None))
        .unwrap();
    world.add_process(201, 8, 1);
    world.fork(200, 201);
    pass(&world, &mut steward, 12);
    assert_eq!(tape(&bytes(&mut timed.blocks)).ending, Ending::Complete);
    world.end_process(200);
    pass(&world, &mut steward, 30);
    // Its child is left.
    let row = &steward.recordings(Peer::DAEMON)[0];
    assert_eq!(row.pids, [201]);
    let exit = Lifecycle::Exit {
        time: steward.now(),
        pid: Pid(201),
        tid: Tid(201),
    };
    world.end_process(201);
    world.state().records.push_back(Record::Lifecycle(exit));
    pass(&world, &mut steward, 30);
    assert!(steward.recordings(Peer::DAEMON).is_empty());
    let tape = tape(&bytes(&mut whole.blocks));
    assert_eq!(tape.ending, Ending::Complete);
    assert!(
        tape.changes
            .iter()
            .any(|change| matches!(change, Lifecycle::Fork { pid: Pid(201), .. }))
    );
    assert!(!world.state().source_open);
}

#[test]
fn a_slow_reader_costs_samples_and_nothing_else() {
    let world = World::new();
    let settings = Settings::new("record-slow", "");
    let (mut steward, _gate) = world.steward(&settings);
    let mut begun = steward
        .record(Peer::DAEMON, &request(&[100], None))
        .unwrap();
    let at = steward.now();
    for number in 0..2_000_000u32 {
        let address = u64::from(number) * 0x1_2345_6789;
        let mut state = world.state();
        state
            .records
            .push_back(sample(at, Pid(100), Tid(100 + number % 4), address));
    }
    pass(&world, &mut steward, 30);
    let row = steward.recordings(Peer::DAEMON)[0].clone();
    assert!(row.lost > 0, "{row:?}");
    let mut told = bytes(&mut begun.blocks);
    assert!(told.len() <= 65 * (65 << 10), "{} bytes", told.len());
    // With room again it goes on, and says what is not in it.
    pass(&world, &mut steward, 30);
    let ended = steward.end_recording(Peer::DAEMON, begun.id).unwrap();
    told.extend(bytes(&mut begun.blocks));
    let tape = tape(&told);
    assert_eq!(tape.ending, Ending::Complete);
    assert_eq!(
        (tape.samples.len() as u64, tape.lost),
        (ended.samples, ended.lost)
    );
    assert!(ended.samples > row.samples);
}

#[test]
fn without_a_reader_it_is_over() {
    let world = World::new();
    let settings = Settings::new("record-gone", "");
    let (mut steward, _gate) = world.steward(&settings);
    let begun = steward
        .record(Peer::DAEMON, &request(&[100], None))
        .unwrap();
    drop(begun);
    pass(&world, &mut steward, 30);
    assert!(steward.recordings(Peer::DAEMON).is_empty());
    assert!(!world.state().source_open);
}

#[test]
fn when_the_daemon_ends_it_is_cut_off() {
    let world = World::new();
    let settings = Settings::new("record-stop", "");
    let (mut steward, _gate) = world.steward(&settings);
    let mut begun = steward
        .record(Peer::DAEMON, &request(&[100], None))
        .unwrap();
    pass(&world, &mut steward, 4);
    steward.stop();
    let tape = tape(&bytes(&mut begun.blocks));
    assert!(!tape.samples.is_empty());
    assert!(matches!(tape.ending, Ending::CutOff { .. }));
    assert!(begun.blocks.is_closed() && !world.state().source_open);
}

#[track_caller]
fn refused(steward: &mut Steward, peer: Peer, pid: u32, for_ms: Option<u64>, kind: ErrorKind) {
    let failure = steward.record(peer, &request(&[pid], for_ms)).unwrap_err();
    assert_eq!(failure.kind, kind, "{failure}");
    assert!(steward.recordings(Peer::DAEMON).is_empty());
}

#[test]
fn who_may_attach_may_record() {
    let world = World::new();
    let settings = Settings::new("record-who", "");
    let (mut steward, _gate) = world.steward(&settings);
    refused(&mut steward, USER, 200, None, ErrorKind::NotPermitted);
    refused(&mut steward, USER, 999, None, ErrorKind::NotFound);
    refused(&mut steward, USER, 1, None, ErrorKind::Usage);
    refused(&mut steward, USER, 2, None, ErrorKind::Usage);
    refused(&mut steward, USER, 100, Some(0), ErrorKind::Usage);
    refused(&mut steward, USER, 100, Some(86_400_001), ErrorKind::Usage);
    world.state().follow_max = Some(0);
    refused(&mut steward, USER, 100, None, ErrorKind::Busy);
    world.state().follow_max = None;
    world.state().source_refused = true;
    refused(&mut steward, USER, 100, None, ErrorKind::Prerequisite);
    world.state().source_refused = false;
    assert!(!world.state().source_open);

    let own = steward.record(USER, &request(&[100], None)).unwrap();
    let roots = steward
        .record(Peer::DAEMON, &request(&[100], None))
        .unwrap();
    assert_eq!(steward.recordings(USER).len(), 1);
    assert_eq!(steward.recordings(Peer::DAEMON).len(), 2);
    let failure = steward.end_recording(USER, roots.id).unwrap_err();
    assert_eq!(failure.kind, ErrorKind::NotPermitted);
    steward.end_recording(Peer::DAEMON, own.id).unwrap();
    let failure = steward.end_recording(USER, own.id).unwrap_err();
    assert_eq!(failure.kind, ErrorKind::NotFound);
}

#[test]
fn there_are_so_many_at_a_time_and_half_for_one_user() {
    let world = World::new();
    let settings = Settings::new("record-many", "");
    let (mut steward, _gate) = world.steward(&settings);
    let mut running = Vec::new();
    for _ in 0..RECORDINGS_MAX / 2 {
        running.push(steward.record(USER, &request(&[100], None)).unwrap());
    }
    let failure = steward.record(USER, &request(&[100], None)).unwrap_err();
    assert_eq!(failure.kind, ErrorKind::Busy, "{failure}");
    for _ in RECORDINGS_MAX / 2..RECORDINGS_MAX {
        let root = steward.record(Peer::DAEMON, &request(&[200], None));
        running.push(root.unwrap());
    }
    let failure = steward.record(Peer::DAEMON, &request(&[200], None));
    assert_eq!(failure.unwrap_err().kind, ErrorKind::Busy);
    pass(&world, &mut steward, 4);
    for mut begun in running {
        steward.end_recording(Peer::DAEMON, begun.id).unwrap();
        let tape = tape(&bytes(&mut begun.blocks));
        assert!(!tape.samples.is_empty());
    }
}

#[test]
fn users_leave_some_to_root() {
    let world = World::new();
    let settings = Settings::new("record-users", "");
    let (mut steward, _gate) = world.steward(&settings);
    let other = Peer {
        uid: 8,
        gid: 8,
        ..USER
    };
    let mut running = Vec::new();
    for at in 0..RECORDINGS_MAX - ADMINS_OWN {
        let (peer, pid) = [(USER, 100), (other, 200)][at % 2];
        running.push(steward.record(peer, &request(&[pid], None)).unwrap());
    }
    let failure = steward.record(other, &request(&[200], None)).unwrap_err();
    assert_eq!(failure.kind, ErrorKind::Busy, "{failure}");
    for _ in 0..ADMINS_OWN {
        let root = steward.record(Peer::DAEMON, &request(&[200], None));
        running.push(root.unwrap());
    }
}

/// What one user may see of a process that takes another's rights, as `sudo` does.
#[test]
fn addresses_of_strangers_never_get_in() {
    let world = World::new();
    let settings = Settings::new("record-strange", "");
    let (mut steward, _gate) = world.steward(&settings);
    let mut begun = steward.record(USER, &request(&[100], None)).unwrap();
    let secret = |pid: u32, address| {
        let Record::Sample(sample) = sample(Time(2_000_000_000), Pid(pid), Tid(pid), address)
        else {
            unreachable!()
        };
        Record::Sample(Sample {
            physical: 0x5000,
            ..sample
        })
    };
    world.fork(100, 101);
    world.add_process(101, 7, 1);
    world.state().records.push_back(secret(101, 0x1000));
    world.state().records.push_back(secret(100, 1 << 63));
    pass(&world, &mut steward, 3);
    // The child becomes another's program and makes a child of its own; the word of it is read later
    // than the first samples.
    world.state().records.push_back(secret(101, 0xbad));
    steward.turn();
    world.add_process(101, 0, 1);
    let exec = Lifecycle::Renamed {
        time: steward.now(),
        pid: Pid(101),
        tid: Tid(101),
        name: "sudo".to_owned(),
        exec: true,
    };
    world.state().records.push_back(Record::Lifecycle(exec));
    world.add_process(102, 0, 1);
    world.fork(101, 102);
    for pid in [101, 102] {
        world.state().records.push_back(secret(pid, 0xbad));
    }
    pass(&world, &mut steward, 10);
    for pid in [101, 102] {
        world.state().records.push_back(secret(pid, 0xbad));
    }
    pass(&world, &mut steward, 10);
    let row = steward.end_recording(USER, begun.id).unwrap();
    assert_eq!(row.pids, [100]);
    let tape = tape(&bytes(&mut begun.blocks));
    assert_eq!(tape.ending, Ending::Complete);
    let addresses: Vec<u64> = tape.samples.iter().map(|sample| sample.address).collect();
    assert!(addresses.contains(&0x1000), "its own child");
    assert!(!addresses.contains(&0xbad) && !addresses.contains(&(1 << 63)));
    assert!(tape.samples.iter().all(|sample| sample.physical == 0));
    assert!(
        tape.changes
            .iter()
            .all(|change| !matches!(change, Lifecycle::Renamed { name, .. } if name == "sudo"))
    );
}

fn exec(steward: &Steward, pid: u32) -> Record {
    Record::Lifecycle(Lifecycle::Renamed {
        time: steward.now(),
        pid: Pid(pid),
        tid: Tid(pid),
        name: "other".to_owned(),
        exec: true,
    })
}

/// A program that is closed to its user, by its group, its capabilities or its own wish, is not
/// recorded, and one that becomes so is left out from then on.
#[test]
fn what_the_kernel_hides_is_not_recorded() {
    let open = procfs::Rights::ordinary(7, 7);
    let (group, capable, hidden) = closed_rights();
    for (name, rights) in [("group", group), ("capable", capable), ("hidden", hidden)] {
        let world = World::new();
        let settings = Settings::new(&format!("record-closed-{name}"), "");
        let (mut steward, _gate) = world.steward(&settings);
        world.set_rights(100, rights);
        refused(&mut steward, USER, 100, None, ErrorKind::NotPermitted);
        world.set_rights(100, open);
        let mut begun = steward.record(USER, &request(&[100], None)).unwrap();
        pass(&world, &mut steward, 10);
        world.set_rights(100, rights);
        let told = exec(&steward, 100);
        world.state().records.push_back(told);
        let at = steward.now();
        let secret = sample(at, Pid(100), Tid(100), 0xbad000);
        world.state().records.push_back(secret);
        pass(&world, &mut steward, 30);
        assert!(
            steward.recordings(USER).is_empty(),
            "{name}: nothing is left of it"
        );
        let tape = tape(&bytes(&mut begun.blocks));
        assert!(!tape.samples.is_empty());
        let leaked = tape.samples.iter().any(|sample| sample.address == 0xbad000);
        assert!(!leaked, "{name}");
    }
}

/// `prctl` alone closes a process, without a program being started.
#[test]
fn who_closes_itself_is_left_out_within_a_second() {
    let world = World::new();
    let settings = Settings::new("record-prctl", "");
    let (mut steward, _gate) = world.steward(&settings);
    let _begun = steward.record(USER, &request(&[100], None)).unwrap();
    pass(&world, &mut steward, 10);
    world.set_rights(100, closed_rights().2);
    pass(&world, &mut steward, 60);
    assert!(steward.recordings(USER).is_empty());
}

/// A set-group-id program that has ended with another program in its place, before anyone looked.
/// The word of its end may be read with that of its start, or later.
#[test]
fn a_program_nobody_looked_at_is_left_out() {
    for late in [false, true] {
        let world = World::new();
        let settings = Settings::new(&format!("record-unseen-{late}"), "");
        let (mut steward, _gate) = world.steward(&settings);
        let mut begun = steward.record(USER, &request(&[100], None)).unwrap();
        pass(&world, &mut steward, 10);
        let began = exec(&steward, 100);
        let secret = sample(steward.now(), Pid(100), Tid(100), 0xbad000);
        world.state().records.extend([began, secret]);
        let at = steward.now().after(Duration::from_millis(1));
        world.state().now = at;
        let ended = exec(&steward, 100);
        let at = at.after(Duration::from_millis(1));
        let own = sample(at, Pid(100), Tid(100), 0x77000);
        match late {
            true => world.state().during_drain.extend([ended, own]),
            false => world.state().records.extend([ended, own]),
        }
        pass(&world, &mut steward, 10);
        steward.end_recording(USER, begun.id).unwrap();
        let tape = tape(&bytes(&mut begun.blocks));
        let addresses: Vec<u64> = tape.samples.iter().map(|sample| sample.address).collect();
        assert!(addresses.contains(&0x77000) && !addresses.contains(&0xbad000));
        assert!(tape.lost > 0);
    }
}

/// The end of a recording is as harmless: the word of a program may come after its first samples.
#[test]
fn the_last_that_is_written_was_looked_at() {
    let world = World::new();
    let settings = Settings::new("record-last", "");
    let (mut steward, _gate) = world.steward(&settings);
    let mut begun = steward.record(USER, &request(&[100], None)).unwrap();
    pass(&world, &mut steward, 10);
    world.set_rights(100, closed_rights().0);
    let secret = sample(steward.now(), Pid(100), Tid(100), 0xbad000);
    world.state().records.push_back(secret);
    let told = exec(&steward, 100);
    world.state().during_drain.push(told);
    steward.end_recording(USER, begun.id).unwrap();
    let tape = tape(&bytes(&mut begun.blocks));
    assert_eq!(tape.ending, Ending::Complete);
    assert!(!tape.samples.is_empty());
    let leaked = tape.samples.iter().any(|sample| sample.address == 0xbad000);
    assert!(!leaked);
}

#[test]
fn more_than_can_be_held_is_lost_and_counted() {
    let world = World::new();
    let settings = Settings::new("record-held", "");
    let (mut steward, _gate) = world.steward(&settings);
    let mut begun = steward.record(USER, &request(&[100], None)).unwrap();
    for number in 0..300_000 {
        let record = sample(Time(number), Pid(100), Tid(100), 0x1000);
        world.state().records.push_back(record);
    }
    world.state().records.push_back(Record::Lost(5));
    pass(&world, &mut steward, 3);
    let row = steward.end_recording(USER, begun.id).unwrap();
    let tape = tape(&bytes(&mut begun.blocks));
    assert_eq!(
        (tape.samples.len() as u64, tape.lost),
        (row.samples, row.lost)
    );
    assert!(tape.lost > 5);
    let sent = 300_000 + 5 + 3 * 64 * 4;
    assert_eq!(tape.samples.len() as u64 + tape.lost, sent);
}
