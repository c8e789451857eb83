//! Recordings, as they come from a daemon that is not there.

use std::fs;

use crate::fake::{Fake, Reply};

/// A recording with two samples of two threads, with or without its end.
fn recording(whole: bool) -> Vec<u8> {
    use numad_core::{AccessKind, Record, Sample, ServedBy, Time};
    use sampler::{Header, RecordingWriter};
    use topology::{CpuId, Pid, Tid};
    let header = Header {
        page_bytes: 4096,
        clock: "CLOCK_MONOTONIC".to_owned(),
        source: "faults (made up)".to_owned(),
        topology: "2x2".to_owned(),
        messages: false,
    };
    let mut writer = RecordingWriter::new(Vec::new(), std::path::Path::new("x"), &header).unwrap();
    for (tid, time) in [(7, 1_000_000_000), (8, 2_500_000_000)] {
        let sample = Sample {
            time: Time(time),
            pid: Pid(7),
            tid: Tid(tid),
            address: 0x1000,
            physical: 0,
            cpu: CpuId(tid % 4),
            kind: AccessKind::Store,
            served: ServedBy::Unknown,
            weight: 0,
            period: 1,
        };
        writer.record(&Record::Sample(sample)).unwrap();
    }
    writer.record(&Record::Lost(3)).unwrap();
    let mut bytes = writer.finish().unwrap();
    if !whole {
        bytes.truncate(bytes.len() - 17);
    }
    bytes
}

/// A daemon's answer that is a recording, in chunks of a few bytes.
fn streamed(bytes: &[u8], header: &str, last: &str) -> Reply {
    let mut answer = format!("HTTP/1.1 200 OK\r\n{header}transfer-encoding: chunked\r\n\r\n");
    let mut answer = std::mem::take(&mut answer).into_bytes();
    for chunk in bytes.chunks(50) {
        answer.extend(format!("{:x}\r\n", chunk.len()).bytes());
        answer.extend(chunk);
        answer.extend(b"\r\n");
    }
    answer.extend(last.bytes());
    Reply::Raw(answer)
}

const NUMBER: &str = "numad-recording: 5\r\n";

fn recorder(reply: Reply) -> Fake {
    Fake::answering([("POST /v1/recordings", reply)].into())
}

/// What is left in the folder beside the socket.
fn left(fake: &Fake) -> Vec<String> {
    let entries = fs::read_dir(fake.folder()).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name != "numad.sock").collect()
}

#[test]
fn a_recording_becomes_a_file() {
    let fake = recorder(streamed(&recording(true), NUMBER, "0\r\n\r\n"));
    let file = fake.folder().join("a.rec");
    let words = format!("record 7 8 -o {} --for 90s", file.display());
    let told = fake.ok(&words);
    assert!(told.contains("complete, 1.5 s, "), "{told}");
    assert!(
        told.contains("2 samples of 2 threads in 1 process, 3 lost"),
        "{told}"
    );
    assert_eq!(
        fake.asked(),
        [r#"POST /v1/recordings {"target":{"pids":[7,8]},"for_ms":90000}"#]
    );
    assert_eq!(fs::read(&file).unwrap(), recording(true));
    assert_eq!(left(&fake), ["a.rec"]);
    let told = fake.refused(&words, 7);
    assert!(told.contains("is there already"), "{told}");
    fake.ok(&format!("{words} --force"));
    assert_eq!(left(&fake), ["a.rec"]);
}

#[test]
fn a_recording_that_was_cut_off_is_kept_and_named() {
    // The daemon stops: its answer ends in order, or in the middle.
    for last in ["0\r\n\r\n", "", "5\r\nab"] {
        let fake = recorder(streamed(&recording(false), NUMBER, last));
        let file = fake.folder().join("a.rec");
        let told = fake.refused(&format!("record 7 -o {} --for 1h", file.display()), 4);
        assert!(
            told.contains("ended while it recorded") && told.contains("first 2 samples"),
            "{told}"
        );
        assert_eq!(left(&fake), ["a.rec"]);
    }
}

#[test]
fn what_is_no_recording_leaves_no_file() {
    let denied = r#"{"error":{"kind":"not_permitted","message":"no","remedy":"ask"}}"#;
    for (reply, code, part) in [
        (
            streamed(b"hello", NUMBER, "0\r\n\r\n"),
            4,
            "nothing was recorded",
        ),
        (
            streamed(&recording(true), "", "0\r\n\r\n"),
            1,
            "numad-recording",
        ),
        (streamed(b"", NUMBER, ""), 4, "nothing was recorded"),
        (Reply::Raw(Vec::new()), 4, "ended in the middle"),
        (Reply::Json(403, denied.to_owned()), 5, "no; ask"),
    ] {
        let fake = recorder(reply);
        let file = fake.folder().join("a.rec");
        let told = fake.refused(&format!("record 7 -o {} --for 1m", file.display()), code);
        assert!(told.contains(part), "{told}");
        assert_eq!(left(&fake), [""; 0]);
    }
    let fake = Fake::absent();
    for (words, code) in [
        ("record 7 -o /no/such/a.rec", 6),
        ("record 7", 2),
        ("record -o a.rec", 2),
        ("record 7 -o a.rec --for 0s", 2),
        ("record 7 -o a.rec --for 3d", 2),
        ("record 7 -o a.rec --for 99999999999999999999s", 2),
        ("record 7 -o / --for 1s", 2),
        ("record 7 -o - --for 1s", 2),
        ("record 7 --unit x -o a.rec", 2),
    ] {
        fake.refused(words, code);
    }
}

/// A folder with two recordings, one whole and one cut off.
fn tapes() -> Fake {
    let fake = Fake::absent();
    fs::write(fake.folder().join("a.rec"), recording(true)).unwrap();
    fs::write(fake.folder().join("cut.rec"), recording(false)).unwrap();
    let mut damaged = recording(true);
    let at = damaged.len() - 1;
    damaged[at] ^= 1;
    fs::write(fake.folder().join("bad.rec"), damaged).unwrap();
    fs::write(fake.folder().join("text"), "hello").unwrap();
    fake
}

#[test]
fn a_replay_answers_in_every_form() {
    let fake = tapes();
    let words = |more: &str| {
        let file = fake.folder().join("a.rec");
        format!("replay {} --policy deloc {more}", file.display())
    };
    let told = fake.ok(&words("--window 500"));
    for part in [
        "complete",
        "2 samples of 2 threads in 1 process, 3 lost, 1.5 s",
        "2 nodes, 4 cpus",
        "as recorded",
        "local     50.0 % as it was",
        "(model: ",
    ] {
        assert!(told.contains(part), "`{part}` is not in {told}");
    }
    assert_eq!(fake.ok(&words("--window 500")), told, "twice the same");
    let told = fake.ok(&words("--json --set refine=false"));
    let value: serde_json::Value = serde_json::from_str(&told).unwrap();
    assert_eq!(value["samples"], 2);
    assert_eq!(value["settings"][0], "refine=false");
    assert_eq!(value["other_machine"], false);
    assert!(fake.ok(&words("--svg -")).starts_with("<svg"));
    let drawing = fake.folder().join("m.svg");
    fake.ok(&words(&format!("--svg {}", drawing.display())));
    assert!(fs::read_to_string(drawing).unwrap().starts_with("<svg"));
    fake.ok(&words("--csv"));
    fake.ok(&words("--matrix"));
    let told = fake.ok(&words("--machine 4x2@10,21"));
    assert!(told.contains("another than the recorded one"), "{told}");
    let cut = fake.folder().join("cut.rec");
    let told = fake.ok(&format!("replay {} --policy none", cut.display()));
    assert!(told.contains("cut off at offset"), "{told}");
}

#[test]
fn what_cannot_be_replayed_is_one_line() {
    let fake = tapes();
    for (file, more, code, part) in [
        ("none.rec", "-p deloc", 6, "cannot read"),
        ("text", "-p deloc", 2, "not a recording"),
        ("", "-p deloc", 2, "it is no file"),
        ("a.rec", "", 2, "--policy"),
        ("a.rec", "-p delok", 6, "`delok`"),
        ("a.rec", "-p deloc --set refine=perhaps", 3, "refine"),
        ("a.rec", "-p deloc --set refine", 2, "KEY=VALUE"),
        ("a.rec", "-p deloc --machine nowhere", 6, "nowhere"),
        ("a.rec", "-p deloc --window 0", 2, "--window"),
        ("a.rec", "-p deloc --json --csv", 2, "cannot be used with"),
    ] {
        let path = fake.folder().join(file);
        let told = fake.refused(&format!("replay {} {more}", path.display()), code);
        assert!(told.contains(part), "{told}");
    }
    // What comes before the damage is shown all the same.
    let path = fake.folder().join("bad.rec");
    let output = fake.run(&format!("replay {} -p deloc", path.display()));
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert!(told.contains("damaged at offset"), "{told}");
    assert!(String::from_utf8(output.stdout).unwrap().contains("REPLAY"));
}
