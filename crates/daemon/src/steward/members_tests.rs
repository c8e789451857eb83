//! Who belongs to a program, where those who ask could have disagreed.

use std::time::Duration;

use control::rows::RecordRequest;
use numad_core::{AttachmentId, Lifecycle, Record, Time};
use topology::{Pid, StartTicks, Tid};

use super::Steward;
use super::members::{LATE_MAX, Members, News};
use super::tests::{EAGER, request, windows};
use crate::fake::{Settings, World};
use crate::peer::Peer;

fn attached(name: &str) -> (World, Settings, Steward, AttachmentId) {
    let world = World::new();
    let settings = Settings::new(name, EAGER);
    let (mut steward, _gate) = world.steward(&settings);
    let attached = steward.attach(Peer::DAEMON, &request(&[100], "packed"));
    let id = AttachmentId(attached.unwrap().id);
    (world, settings, steward, id)
}

/// The steward reads what was recorded, and judges nothing.
fn read(world: &World, steward: &mut Steward) {
    world.pass(Duration::from_millis(100));
    steward.turn();
}

fn exit(world: &World, pid: u32, tid: u32) {
    let mut state = world.state();
    let exit = Lifecycle::Exit {
        time: state.now,
        pid: Pid(pid),
        tid: Tid(tid),
    };
    state.records.push_back(Record::Lifecycle(exit));
}

/// Another process takes a number.
fn take_number(world: &World, pid: u32, start: u64) {
    world.add_process(pid, 7, 2);
    let mut state = world.state();
    let start = StartTicks(start);
    for thread in state.threads.get_mut(&Pid(pid)).unwrap() {
        thread.key.start = start;
    }
    state.processes.get_mut(&Pid(pid)).unwrap().start = start;
}

/// Its threads and control group by one look, who it is by another before, and once more the
/// numbers of its threads, when all have counters.
#[test]
fn an_attach_looks_at_a_program_once() {
    let (world, _settings, _steward, _id) = attached("one-look");
    let state = world.state();
    assert_eq!((state.looks, state.listed), (1, 1));
    assert_eq!(state.looked_at, [Pid(100)]);
}

#[test]
fn a_thread_born_between_the_look_and_its_counters_is_counted_and_shown() {
    let world = World::new();
    let settings = Settings::new("born-between", EAGER);
    let (mut steward, _gate) = world.steward(&settings);
    let mut born = world.state().threads[&Pid(100)][0].clone();
    born.key.tid = Tid(150);
    born.key.start = StartTicks(7);
    world.state().newborn = Some(born);
    let attached = steward.attach(Peer::DAEMON, &request(&[100], "packed"));
    let id = AttachmentId(attached.unwrap().id);
    // Listed anew, as the counters that were open had missed it, and once more.
    let listed = world.state().listed;
    assert_eq!(listed, 2);
    let counters = world.state().counters_open;
    assert_eq!(counters % 5, 0, "of each of five threads: {counters}");
    windows(&world, &mut steward);
    assert_eq!(steward.detail(Peer::DAEMON, id).unwrap().threads.len(), 5);
}

/// It was never looked at while it lived: the engine still takes it for one of the program, and so
/// would a look.
#[test]
fn a_stranger_with_the_number_of_a_child_that_ended_is_left_alone() {
    let (world, _settings, mut steward, id) = attached("child-reused");
    world.fork(100, 300);
    exit(&world, 300, 300);
    read(&world, &mut steward);
    assert_eq!(steward.members.of(id).len(), 1);
    take_number(&world, 300, 9);
    windows(&world, &mut steward);
    let detail = steward.detail(Peer::DAEMON, id).unwrap();
    assert_eq!(detail.attachment.pids, [100]);
    assert!(detail.threads.iter().all(|thread| thread.pid == 100));
    assert!(
        world.state().joined.is_empty(),
        "the journal knows no stranger"
    );
    steward.detach(Peer::DAEMON, id).unwrap();
    assert_eq!(world.state().undone, [Some(vec![Pid(100)])]);
}

#[test]
fn who_has_ended_is_looked_at_once() {
    let (world, _settings, mut steward, _id) = attached("looked-once");
    world.fork(100, 300);
    read(&world, &mut steward);
    let looks = world.state().looked_at.len();
    for _ in 0..5 {
        read(&world, &mut steward);
    }
    assert_eq!(world.state().looked_at.len(), looks);
}

/// What was named and has ended is known to have ended, though others of the program live.
#[test]
fn a_stranger_with_the_number_of_one_that_was_named_is_not_sampled() {
    let world = World::new();
    world.add_process(110, 7, 2);
    let settings = Settings::new("named-reused", EAGER);
    let (mut steward, _gate) = world.steward(&settings);
    let attached = steward.attach(Peer::DAEMON, &request(&[100, 110], "packed"));
    let id = AttachmentId(attached.unwrap().id);
    take_number(&world, 110, 9);
    world.fork(1, 110);
    read(&world, &mut steward);
    assert_eq!(world.state().followed, [Pid(100)].into());
    assert_eq!(steward.members.of(id), [(Pid(100), StartTicks(1000))]);
    // The stranger may be attached at once, by whoever may.
    let other = steward.attach(Peer::DAEMON, &request(&[110], "packed"));
    let other = AttachmentId(other.unwrap().id);
    windows(&world, &mut steward);
    assert_eq!(steward.members.of(other), [(Pid(110), StartTicks(9))]);
    // Undo of the first goes by the start: the stranger is not meant.
    steward.detach(Peer::DAEMON, id).unwrap();
    let all = world.state().undone_starts.last().cloned().unwrap();
    assert_eq!(all[&Pid(110)], Some(StartTicks(1100)));
}

#[test]
fn a_child_with_the_number_of_one_that_was_named_is_a_member() {
    let world = World::new();
    world.add_process(110, 7, 2);
    let settings = Settings::new("named-reborn", EAGER);
    let (mut steward, _gate) = world.steward(&settings);
    let attached = steward.attach(Peer::DAEMON, &request(&[100, 110], "packed"));
    let id = AttachmentId(attached.unwrap().id);
    take_number(&world, 110, 9);
    world.fork(100, 110);
    read(&world, &mut steward);
    assert_eq!(steward.members.of(id)[1], (Pid(110), StartTicks(9)));
    steward.detach(Peer::DAEMON, id).unwrap();
    let undone = world.state().undone_starts.last().cloned().unwrap();
    assert_eq!(undone[&Pid(110)], Some(StartTicks(9)));
}

/// The look at a child shows threads whose births are read later.
#[test]
fn a_recorded_child_leaves_with_its_last_thread() {
    let world = World::new();
    let settings = Settings::new("recorded-child", EAGER);
    let (mut steward, _gate) = world.steward(&settings);
    let request = RecordRequest {
        target: request(&[200], "none").target,
        for_ms: None,
    };
    let _begun = steward.record(Peer::DAEMON, &request).unwrap();
    world.add_process(300, 8, 3);
    world.fork(200, 300);
    read(&world, &mut steward);
    for tid in [301, 302] {
        let fork = Lifecycle::Fork {
            time: steward.now(),
            pid: Pid(300),
            tid: Tid(tid),
            parent: Pid(300),
        };
        world.state().records.push_back(Record::Lifecycle(fork));
    }
    read(&world, &mut steward);
    assert_eq!(steward.recordings(Peer::DAEMON)[0].pids, [200, 300]);
    world.end_process(300);
    for tid in 300..303 {
        exit(&world, 300, tid);
    }
    read(&world, &mut steward);
    assert_eq!(steward.recordings(Peer::DAEMON)[0].pids, [200]);
    assert!(world.state().detached.contains(&Pid(300)));
}

/// The same where no record told of it: the look at its program does, or the attach.
#[test]
fn a_number_that_came_back_unheard_of_is_free() {
    let (world, _settings, mut steward, id) = attached("unheard");
    world.add_process(300, 7, 2);
    world.fork(100, 300);
    read(&world, &mut steward);
    assert_eq!(steward.members.of(id).len(), 2);
    take_number(&world, 300, 9);
    let other = steward.attach(Peer::DAEMON, &request(&[300], "packed"));
    let other = AttachmentId(other.unwrap().id);
    windows(&world, &mut steward);
    assert_eq!(steward.members.of(other), [(Pid(300), StartTicks(9))]);
    assert_eq!(steward.members.of(id), [(Pid(100), StartTicks(1000))]);
    let detail = steward.detail(Peer::DAEMON, other).unwrap();
    assert_eq!(detail.attachment.threads, 2);
}

/// Records are lost: a process whose ends outnumber its births may live all the same.
#[test]
fn lost_births_end_nobody() {
    let (world, _settings, mut steward, id) = attached("lost-births");
    world.add_process(300, 7, 2);
    world.fork(100, 300);
    read(&world, &mut steward);
    for tid in 301..310 {
        exit(&world, 300, tid);
    }
    read(&world, &mut steward);
    let pids: Vec<Pid> = steward.members.pids(id).collect();
    assert_eq!(pids, [Pid(100), Pid(300)]);
    assert!(!world.state().detached.contains(&Pid(300)));
}

/// It is born in the moment of the detach: nobody has looked at it, and it has a mask of ours.
#[test]
fn a_process_born_while_its_program_is_detached_is_put_back() {
    let (world, _settings, mut steward, id) = attached("born-late");
    windows(&world, &mut steward);
    world.add_process(300, 7, 1);
    world.fork(100, 300);
    world.add_process(301, 7, 1);
    world.fork(300, 301);
    world.end_process(300);
    steward.detach(Peer::DAEMON, id).unwrap();
    let undone = world.state().undone.last().cloned().unwrap().unwrap();
    assert_eq!(undone, [Pid(100), Pid(301)]);
    assert!(!world.state().source_open);
}

/// What is recorded is followed for as long as that takes, whatever becomes of the attachment; and
/// the other way round.
#[test]
fn a_program_that_is_recorded_is_followed_until_both_have_ended() {
    for recording_first in [true, false] {
        let (world, _settings, mut steward, id) = attached("both");
        world.add_process(300, 7, 1);
        world.fork(100, 300);
        read(&world, &mut steward);
        let target = request(&[100], "none").target;
        let begun = steward.record(
            Peer::DAEMON,
            &RecordRequest {
                target,
                for_ms: None,
            },
        );
        let recording = begun.unwrap();
        if recording_first {
            steward.end_recording(Peer::DAEMON, recording.id).unwrap();
            assert_eq!(steward.members.of(id).len(), 2);
        } else {
            steward.detach(Peer::DAEMON, id).unwrap();
            assert_eq!(steward.members.of(id), []);
            assert!(world.state().detached.contains(&Pid(300)));
        }
        assert_eq!(world.state().followed, [Pid(100)].into());
        assert!(world.state().source_open);
    }
}

fn fork(world: &World, time: Time, parent: u32, pid: u32) {
    let fork = Lifecycle::Fork {
        time,
        pid: Pid(pid),
        tid: Tid(pid),
        parent: Pid(parent),
    };
    world.state().records.push_back(Record::Lifecycle(fork));
}

/// Nobody was looking for so long that the child has ended and its number is another's, of which no
/// record tells.
#[test]
fn whoever_has_the_number_of_a_child_by_now_is_a_stranger() {
    let (world, _settings, mut steward, id) = attached("stranger");
    world.fork(100, 300);
    world.state().now = steward.now().after(Duration::from_secs(4));
    world.add_process(300, 0, 1);
    read(&world, &mut steward);
    assert_eq!(steward.members.of(id), [(Pid(100), StartTicks(1000))]);
    windows(&world, &mut steward);
    assert_eq!(world.state().joined, [], "no row in the journal");
    assert!(!world.state().followed.contains(&Pid(300)));
    steward.detach(Peer::DAEMON, id).unwrap();
    assert_eq!(world.state().undone, [Some(vec![Pid(100)])]);
    let rows = steward.events(Peer::DAEMON, id, 512).unwrap();
    assert!(rows.iter().all(|row| row.kind != "left"), "{rows:?}");
}

/// Ages are told in ticks, and the clock of starts may be ahead of that of records.
#[test]
fn a_child_may_seem_a_little_younger_or_older_than_it_is() {
    let (world, _settings, mut steward, id) = attached("clocks");
    let now = steward.now();
    for (pid, born_ms) in [(300, 1_018), (301, 500)] {
        fork(&world, now, 100, pid);
        world.add_process(pid, 7, 1);
        world
            .state()
            .born
            .insert(Pid(pid), Time(born_ms * 1_000_000));
    }
    read(&world, &mut steward);
    let pids: Vec<Pid> = steward.members.pids(id).collect();
    assert_eq!(pids, [Pid(100), Pid(300), Pid(301)]);
    assert_eq!(world.state().joined.len(), 2);
}

#[test]
fn a_part_of_the_kernel_joins_no_program() {
    let (world, _settings, mut steward, id) = attached("kernel-thread");
    world.add_process(300, 0, 1);
    world.state().processes.get_mut(&Pid(300)).unwrap().kernel = true;
    world.fork(100, 300);
    read(&world, &mut steward);
    assert_eq!(steward.members.of(id).len(), 1);
    assert_eq!(world.state().joined, []);
}

/// The number of a child that had joined is a stranger's, which makes children of its own.
#[test]
fn children_of_a_stranger_are_strangers() {
    let (world, _settings, mut steward, id) = attached("strange-family");
    world.add_process(300, 7, 1);
    world.fork(100, 300);
    read(&world, &mut steward);
    assert_eq!(steward.members.of(id).len(), 2);
    take_number(&world, 300, 9);
    world.add_process(301, 0, 1);
    world.fork(300, 301);
    read(&world, &mut steward);
    let pids: Vec<Pid> = steward.members.pids(id).collect();
    assert_eq!(pids, [Pid(100)]);
    assert_eq!(world.state().joined.len(), 1);
}

#[test]
fn who_came_first_is_looked_at_first() {
    let (world, _settings, mut steward, _id) = attached("arrival");
    let pids: Vec<u32> = (1000..1300).rev().collect();
    for &pid in &pids {
        world.fork(100, pid);
    }
    read(&world, &mut steward);
    let looked_at = world.state().looked_at.clone();
    let of_children: Vec<u32> = looked_at
        .iter()
        .map(|pid| pid.0)
        .filter(|pid| *pid >= 1000)
        .collect();
    assert_eq!(of_children, pids[..of_children.len()]);
    assert!(of_children.len() > 200);
}

/// The process in the middle of a double fork has ended before anyone looked, and the record of its
/// own fork is read after that.
#[test]
fn a_grandchild_is_found_though_its_parent_had_ended() {
    let (world, _settings, mut steward, id) = attached("double-fork");
    world.fork(100, 300);
    let soon = steward.now().after(Duration::from_micros(50));
    read(&world, &mut steward);
    assert_eq!(steward.members.of(id).len(), 1);
    assert!(!world.state().detached.contains(&Pid(300)), "is heard of");
    world.add_process(301, 7, 1);
    world.state().born.insert(Pid(301), soon);
    fork(&world, soon, 300, 301);
    read(&world, &mut steward);
    let pids: Vec<Pid> = steward.members.pids(id).collect();
    assert_eq!(pids, [Pid(100), Pid(301)]);
    assert_eq!(world.state().joined.len(), 1);
    assert!(world.state().detached.contains(&Pid(300)), "no longer");
    // Whoever forks under that number now is another.
    world.add_process(302, 7, 1);
    world.fork(300, 302);
    read(&world, &mut steward);
    assert_eq!(steward.members.pids(id).count(), 2);
    steward.detach(Peer::DAEMON, id).unwrap();
    let undone = world.state().undone.last().cloned().unwrap().unwrap();
    assert_eq!(undone, [Pid(100), Pid(301)]);
}

/// It forks again under the number of one that has ended, before that is forgotten.
#[test]
fn forks_after_the_end_are_not_of_the_one_that_ended() {
    let (world, _settings, mut steward, id) = attached("late-stranger");
    world.fork(100, 300);
    read(&world, &mut steward);
    world.add_process(302, 0, 1);
    world.fork(300, 302);
    read(&world, &mut steward);
    assert_eq!(steward.members.pids(id).count(), 1);
    assert_eq!(world.state().joined, []);
}

/// More than are looked at in one turn: each is known by its start before it is put back.
#[test]
fn all_that_wait_are_looked_at_before_a_program_is_put_back() {
    let (world, _settings, mut steward, id) = attached("many-children");
    for pid in 1000..1600 {
        world.add_process(pid, 7, 1);
        world.fork(100, pid);
    }
    steward.detach(Peer::DAEMON, id).unwrap();
    let undone = world.state().undone_starts.last().cloned().unwrap();
    assert_eq!(undone.len(), 601);
    assert!(undone.values().all(Option::is_some));
}

#[test]
fn the_story_says_whether_children_may_have_been_missed() {
    // Where no samples were lost, word of children may have been.
    for lost in [None, Some(0), Some(3)] {
        let (world, _settings, mut steward, id) = attached("missed");
        let records = lost.map(Record::Lost);
        world.state().records.extend(records);
        read(&world, &mut steward);
        steward.detach(Peer::DAEMON, id).unwrap();
        let rows = steward.events(Peer::DAEMON, id, 512).unwrap();
        let told = rows.iter().any(|row| row.kind == "missed");
        assert_eq!(told, lost.is_some(), "{rows:?}");
    }
}

/// A double fork while its program is being put back.
#[test]
fn a_grandchild_that_is_made_during_an_undo_is_put_back() {
    for ending in ["detach", "stop"] {
        let (world, _settings, mut steward, id) = attached(&format!("born-during-{ending}"));
        world.fork(100, 300);
        world.add_process(301, 7, 1);
        world.fork(300, 301);
        {
            let mut state = world.state();
            state.during_undo = std::mem::take(&mut state.records).into();
        }
        let mut expected = vec![Some(vec![Pid(100)]), Some(vec![Pid(301)])];
        if ending == "detach" {
            steward.detach(Peer::DAEMON, id).unwrap();
        } else {
            steward.stop();
            expected.push(None);
        }
        assert_eq!(world.state().undone, expected, "{ending}");
        assert!(!world.state().source_open);
    }
}

/// Processes whose last forks are waited for are bounded; where one finds no room that is said.
#[test]
fn ended_processes_are_remembered_up_to_a_bound() {
    let mut members = Members::default();
    let process = World::new().state().processes[&Pid(100)].clone();
    let id = AttachmentId(1);
    members.follow(Time(0), &process);
    members.name(id, &[process]);
    for pid in 1000..1000 + u32::try_from(LATE_MAX).unwrap() + 1 {
        let fork = Lifecycle::Fork {
            time: Time(0),
            pid: Pid(pid),
            tid: Tid(pid),
            parent: Pid(100),
        };
        assert!(!members.may_lack(id));
        members.take(&fork);
        let news = members.learn(Time(1), Pid(pid), None);
        let room = pid < 1000 + u32::try_from(LATE_MAX).unwrap();
        assert_eq!(news == News::Ended, room, "{news:?}");
    }
    assert!(members.may_lack(id));
    // The reading that follows is the last in which forks of theirs can be.
    assert_eq!(members.take_read().len(), LATE_MAX);
    while members.next_unsure().is_some() {}
    assert_eq!(members.take_read(), []);
    let fork = Lifecycle::Fork {
        time: Time(0),
        pid: Pid(90_000),
        tid: Tid(90_000),
        parent: Pid(1000),
    };
    members.take(&fork);
    assert_eq!(members.program_of(Pid(90_000)), None);
}
