//! Ranks of MPI jobs, and jobs that are followed.

use control::ErrorKind;
use control::rows::{AttachRequest, Target};
use numad_core::{Record, Sent};
use procfs::{JobId, Launcher, Rank};

use super::tests::{EAGER, USER, request, windows};
use super::*;
use crate::fake::{Settings, World};
use crate::peer::Peer;

/// Number of Open MPI's first job and of the first that it spawns.
const FIRST: &str = "131073";
const SPAWNED: &str = "131074";

fn says(world: &World, pid: u32, job: &str, rank: u32) {
    let rank = Rank {
        job: JobId::new(job).unwrap(),
        rank,
        size: Some(2),
        launcher: Launcher::OpenMpi,
    };
    world.state().ranks.insert(Pid(pid), rank);
}

/// Ranks 100 and 110 of user 7 with their launcher, 90.
fn world() -> World {
    let world = World::new();
    world.add_process(90, 7, 1);
    world.add_process(110, 7, 1);
    says(&world, 100, FIRST, 1);
    says(&world, 110, FIRST, 0);
    let mut state = world.state();
    state.children.insert(Pid(90), vec![Pid(100), Pid(110)]);
    state.named = vec![Pid(100), Pid(110)];
    drop(state);
    world
}

fn job(policy: &str) -> AttachRequest {
    AttachRequest {
        target: Target::Job(FIRST.to_owned()),
        ..request(&[], policy)
    }
}

/// What a recording of these processes has, as text: messages and marks in their order, and its version.
fn recorded(world: &World, pids: &[u32]) -> (Vec<String>, bool) {
    let settings = Settings::new("ranks-recorded", EAGER);
    let (mut steward, _gate) = world.steward(&settings);
    steward.attach(USER, &request(&[100, 110], "none")).unwrap();
    let asked = control::rows::RecordRequest {
        target: Target::Pids(pids.to_vec()),
        for_ms: None,
    };
    let mut begun = steward.record(Peer::DAEMON, &asked).unwrap();
    windows(world, &mut steward);
    steward.end_recording(Peer::DAEMON, begun.id).unwrap();
    let mut bytes = Vec::new();
    while let Ok(block) = begun.blocks.try_recv() {
        bytes.extend(block);
    }
    let (header, entries, _) = sampler::recording::read(&bytes).unwrap();
    let told = entries.iter().filter_map(|entry| match entry {
        sampler::recording::Entry::Record(Record::Sent(sent)) => Some(format!("{sent:?}")),
        sampler::recording::Entry::Mark(_) => Some("mark".to_owned()),
        sampler::recording::Entry::Record(_) => None,
    });
    (told.collect(), header.messages)
}

#[test]
fn a_recording_has_what_ranks_send_in_each_window() {
    let world = world();
    let sent = |from, to| Sent {
        from: Pid(from),
        to: Pid(to),
        bytes: 640,
        messages: 5,
    };
    world.state().sent = vec![sent(100, 110), sent(110, 100)];
    let (told, messages) = recorded(&world, &[100, 110]);
    assert!(messages);
    let one = format!("{:?}", sent(100, 110));
    let places: Vec<usize> = (0..told.len()).filter(|&at| told[at] == one).collect();
    assert!(places.len() > 1, "{told:?}");
    for at in places {
        // Both, then the mark that ends the window: a replay has them in the same one.
        assert_eq!(told[at + 1], format!("{:?}", sent(110, 100)));
        assert_eq!(told[at + 2], "mark");
    }
    // What one of them sends to who is not recorded is left out.
    let (told, messages) = recorded(&world, &[100]);
    assert!(
        messages && told.iter().all(|entry| entry == "mark"),
        "{told:?}"
    );
    world.state().ranks.clear();
    let (told, messages) = recorded(&world, &[100, 110]);
    assert!(
        !messages && told.iter().all(|entry| entry == "mark"),
        "{told:?}"
    );
}

#[test]
fn ranks_are_shown_with_their_jobs() {
    let world = world();
    let settings = Settings::new("ranks", EAGER);
    let (mut steward, _gate) = world.steward(&settings);
    let row = steward.attach(USER, &request(&[100, 110], "none")).unwrap();
    let ranks: Vec<(u32, u32)> = row.ranks.iter().map(|rank| (rank.rank, rank.pid)).collect();
    assert_eq!(ranks, [(0, 110), (1, 100)]);
    let id = AttachmentId(row.id);
    windows(&world, &mut steward);
    let matrix = steward.matrix(USER, id, MatrixWindow::Live).unwrap().row();
    assert_eq!(matrix.ranks.len(), matrix.tids.len());
    assert!(matrix.ranks.contains(&Some(0)) && matrix.ranks.contains(&Some(1)));
}

#[test]
fn a_job_that_is_no_rank_has_nothing_to_show() {
    let world = World::new();
    let settings = Settings::new("noranks", EAGER);
    let (mut steward, _gate) = world.steward(&settings);
    let row = steward.attach(USER, &request(&[100], "none")).unwrap();
    assert!(row.ranks.is_empty());
    windows(&world, &mut steward);
    let matrix = steward.matrix(USER, AttachmentId(row.id), MatrixWindow::Live);
    assert!(matrix.unwrap().row().ranks.is_empty());
}

#[test]
fn what_a_job_spawns_is_taken_in() {
    let world = world();
    let settings = Settings::new("spawned", EAGER);
    let (mut steward, _gate) = world.steward(&settings);
    let id = AttachmentId(steward.attach(USER, &job("packed")).unwrap().id);
    world.add_process(300, 7, 1);
    world.add_process(301, 7, 1);
    world.add_process(302, 8, 1);
    says(&world, 300, SPAWNED, 0);
    // Of another job, and of another user who says that it is of this one.
    says(&world, 301, "999999999", 0);
    says(&world, 302, SPAWNED, 1);
    let children = [100, 110, 300, 301, 302].map(Pid).to_vec();
    world.state().children.insert(Pid(90), children);
    windows(&world, &mut steward);
    let row = steward.attachments(USER).remove(0);
    assert_eq!(row.pids, [100, 110, 300]);
    assert!(row.ranks.iter().any(|rank| rank.job == SPAWNED));
    assert!(world.state().followed.contains(&Pid(300)));
    steward.detach(USER, id).unwrap();
    let undone = world.state().undone.pop().unwrap();
    assert_eq!(undone, Some(vec![Pid(100), Pid(110), Pid(300)]));
}

#[test]
fn a_launcher_of_the_same_number_is_another() {
    let world = world();
    let settings = Settings::new("relaunched", EAGER);
    let (mut steward, _gate) = world.steward(&settings);
    steward.attach(USER, &job("none")).unwrap();
    world.add_process(300, 7, 1);
    says(&world, 300, SPAWNED, 0);
    let mut state = world.state();
    state.children.insert(Pid(90), vec![Pid(300)]);
    state.processes.get_mut(&Pid(90)).unwrap().start = topology::StartTicks(1);
    drop(state);
    windows(&world, &mut steward);
    assert_eq!(steward.attachments(USER)[0].pids, [100, 110]);
}

#[test]
fn a_job_takes_in_nobody_elses_processes() {
    let world = world();
    // User 8 says so too.
    says(&world, 200, FIRST, 2);
    world.state().named.push(Pid(200));
    let settings = Settings::new("liar", EAGER);
    let (mut steward, _gate) = world.steward(&settings);
    let row = steward.attach(USER, &job("none")).unwrap();
    assert_eq!(row.pids, [100, 110]);
    steward.detach(USER, AttachmentId(row.id)).unwrap();
    // Who may attach both cannot tell who lies.
    let failure = steward.attach(Peer::DAEMON, &job("none")).unwrap_err();
    assert_eq!(failure.kind, ErrorKind::Conflict);
    assert!(failure.message.contains("users 7, 8"), "{failure:?}");
}
