//! Stories of attachments on a machine that is not there.

use super::tests::{EAGER, USER, request, windows};
use control::ErrorKind;

use super::*;
use crate::fake::{Settings, World};
use crate::peer::Peer;

fn story(steward: &Steward, id: u32) -> control::story::Story {
    read_story(&steward.find_story(Peer::DAEMON, id).unwrap()).unwrap()
}

#[test]
fn what_was_done_is_kept_and_numbers_go_on() {
    let (world, settings) = (World::new(), Settings::new("story-kept", EAGER));
    let (mut steward, _gate) = world.steward(&settings);
    let id = steward.attach(USER, &request(&[100], "packed")).unwrap().id;
    windows(&world, &mut steward);
    steward.detach(USER, AttachmentId(id)).unwrap();
    let kept = story(&steward, id);
    assert_eq!((kept.row.uid, kept.row.policy.as_str()), (7, "packed"));
    assert_eq!(
        (kept.row.thread_moves, kept.row.ended_unix_s),
        (4, 1_700_000_000)
    );
    assert_eq!(kept.detail.threads.len(), 4);
    assert_eq!(kept.matrix.unwrap().tids.len(), 4);
    assert_eq!(kept.undone.unwrap().threads_restored, 4);
    assert!(kept.events.iter().any(|event| event.kind == "ordered"));
    assert_eq!(steward.stories(USER).len(), 1);
    assert!(steward.stories(Peer { uid: 8, ..USER }).is_empty());
    drop(steward);
    let (mut steward, _gate) = world.steward(&settings);
    assert_eq!(steward.stories(USER), [kept.row]);
    let next = steward.attach(USER, &request(&[100], "none")).unwrap().id;
    assert_eq!(next, id + 1);
    // A stop ends all, and tells of each what was put back.
    steward
        .attach(Peer::DAEMON, &request(&[200], "packed"))
        .unwrap();
    windows(&world, &mut steward);
    steward.stop();
    let restored = |id| story(&steward, id).undone.unwrap().threads_restored;
    assert_eq!((restored(next), restored(next + 1)), (0, 2));
    assert_eq!(steward.stories(Peer::DAEMON).len(), 3);
}

#[test]
fn no_more_is_kept_than_there_is_room_for() {
    let text = format!("{EAGER}[daemon]\nkept_max = 2\n");
    let (world, settings) = (World::new(), Settings::new("story-room", &text));
    let (mut steward, _gate) = world.steward(&settings);
    for _ in 0..4 {
        let id = steward.attach(USER, &request(&[100], "none")).unwrap().id;
        steward.detach(USER, AttachmentId(id)).unwrap();
    }
    let ids = steward
        .stories(USER)
        .iter()
        .map(|row| row.id)
        .collect::<Vec<_>>();
    assert_eq!(ids, [3, 4]);
    assert_eq!(
        steward.find_story(USER, 1).unwrap_err().kind,
        ErrorKind::NotFound
    );
}

#[test]
fn a_program_that_ended_has_a_story_and_a_damaged_one_is_told() {
    let (world, settings) = (World::new(), Settings::new("story-ended", EAGER));
    let (mut steward, _gate) = world.steward(&settings);
    let id = steward.attach(USER, &request(&[100], "packed")).unwrap().id;
    windows(&world, &mut steward);
    world.end_process(100);
    windows(&world, &mut steward);
    assert!(steward.attachments(USER).is_empty());
    let path = steward.find_story(USER, id).unwrap();
    let kept = read_story(&path).unwrap();
    assert_eq!((kept.row.thread_moves, kept.row.uid), (4, 7));
    // As it was before its threads ended.
    assert_eq!(kept.matrix.unwrap().tids.len(), 4);
    std::fs::write(&path, "{}").unwrap();
    assert_eq!(read_story(&path).unwrap_err().kind, ErrorKind::Internal);
    drop(steward);
    let (steward, _gate) = world.steward(&settings);
    assert!(steward.stories(USER).is_empty());
}
