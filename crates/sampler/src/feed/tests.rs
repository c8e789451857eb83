use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use numad_core::{AccessKind, Sent, ServedBy};
use proptest::prelude::*;
use topology::{CpuId, Tid};

use super::*;
use crate::recording::{Header, RecordingError, RecordingWriter};

/// A folder of the test's own, with a feed's path in it and a clock that is set by hand.
struct Place {
    folder: PathBuf,
    now: Arc<AtomicU64>,
}

impl Place {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("numad-feed-{}-{name}", std::process::id()));
        drop(fs::remove_dir_all(&folder));
        fs::create_dir_all(&folder).unwrap();
        Self {
            folder,
            now: Arc::new(AtomicU64::new(10_000_000_000)),
        }
    }

    fn path(&self) -> PathBuf {
        self.folder.join("feed")
    }

    fn fifo(&self) -> PathBuf {
        mkfifo(&self.path(), Mode::S_IRUSR | Mode::S_IWUSR).unwrap();
        self.path()
    }

    fn open(&self) -> Result<Feed, FeedError> {
        let now = Arc::clone(&self.now);
        let clock = Box::new(move || Time(now.load(Ordering::Relaxed)));
        Feed::open(&self.path(), clock)
    }

    fn pass(&self, time: Duration) {
        let nanoseconds = u64::try_from(time.as_nanos()).unwrap();
        self.now.fetch_add(nanoseconds, Ordering::Relaxed);
    }

    /// A writer of its FIFO. There must be a reader.
    fn writer(&self) -> File {
        File::options().write(true).open(self.path()).unwrap()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.folder));
    }
}

fn header() -> Header {
    Header {
        page_bytes: 4096,
        clock: CLOCK.to_owned(),
        source: "a test\nof two lines".to_owned(),
        topology: String::new(),
        messages: false,
    }
}

fn sample(pid: u32, address: u64) -> Sample {
    Sample {
        time: Time(9_000_000_000),
        pid: Pid(pid),
        tid: Tid(pid + 1),
        address,
        physical: 0,
        cpu: CpuId(3),
        kind: AccessKind::Load,
        served: ServedBy::LocalMemory,
        weight: 90,
        period: 100,
    }
}

/// A whole recording, or one that its writer has not ended.
fn recording(header: &Header, records: &[Record], complete: bool) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = RecordingWriter::new(&mut bytes, Path::new("x"), header).unwrap();
    for record in records {
        writer.record(record).unwrap();
    }
    writer.flush().unwrap();
    if complete {
        writer.finish().unwrap();
    } else {
        drop(writer);
    }
    bytes
}

fn samples(addresses: std::ops::Range<u64>) -> Vec<Record> {
    let record = |page| Record::Sample(sample(7, page << 12));
    addresses.map(record).collect()
}

fn drained(feed: &mut Feed) -> Vec<Record> {
    let mut records = Vec::new();
    feed.drain(&mut |record| records.push(record.clone()));
    records
}

fn notes(feed: &Feed) -> String {
    feed.describe().notes.join(" | ")
}

#[test]
fn what_is_written_comes_through_a_fifo() {
    let place = Place::new("fifo");
    place.fifo();
    let mut feed = place.open().unwrap();
    assert!(notes(&feed).contains("nobody writes"), "{}", notes(&feed));
    feed.attach(Pid(7)).unwrap();
    let mut writer = place.writer();
    let bytes = recording(&header(), &samples(1..40), false);
    let (first, rest) = bytes.split_at(bytes.len() / 2);
    writer.write_all(first).unwrap();
    assert_eq!(drained(&mut feed), []);
    writer.write_all(rest).unwrap();
    assert_eq!(drained(&mut feed), samples(1..40));
    assert_eq!(notes(&feed), "fed by: a test?of two lines");
    assert_eq!(feed.losses(), Losses::default());
    // Of others nothing is told, whatever comes.
    feed.detach(Pid(7));
    writer
        .write_all(&recording(&header(), &samples(1..9), true))
        .unwrap();
    assert_eq!(drained(&mut feed), []);
}

#[test]
fn what_is_written_comes_through_a_socket() {
    let place = Place::new("socket");
    let listener = UnixListener::bind(place.path()).unwrap();
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o600)).unwrap();
    let mut feed = place.open().unwrap();
    feed.attach(Pid(7)).unwrap();
    let (mut writer, _): (UnixStream, _) = listener.accept().unwrap();
    writer
        .write_all(&recording(&header(), &samples(1..40), true))
        .unwrap();
    assert_eq!(drained(&mut feed), samples(1..40));
    drop(writer);
    assert_eq!(drained(&mut feed), []);
    // It goes, and comes back.
    place.pass(RETRY_AFTER);
    assert_eq!(drained(&mut feed), []);
    let (mut writer, _) = listener.accept().unwrap();
    writer
        .write_all(&recording(&header(), &samples(2..4), false))
        .unwrap();
    assert_eq!(drained(&mut feed), samples(2..4));
    drop((writer, listener));
    // A process that another test starts just now has both ends as well, until it is another program.
    let told = (0..1000).any(|_| {
        std::thread::sleep(Duration::from_millis(1));
        drained(&mut feed);
        place.pass(RETRY_AFTER);
        assert_eq!(drained(&mut feed), []);
        notes(&feed).contains("no program listens")
    });
    assert!(told, "{}", notes(&feed));
}

#[test]
fn a_writer_that_dies_or_stalls_is_told_and_the_next_is_read() {
    let place = Place::new("dies");
    place.fifo();
    let mut feed = place.open().unwrap();
    feed.attach(Pid(7)).unwrap();
    let mut writer = place.writer();
    let bytes = recording(&header(), &samples(1..40), false);
    writer.write_all(&bytes[..bytes.len() - 3]).unwrap();
    assert_eq!(drained(&mut feed), []);
    place.pass(STALLED_AFTER);
    assert!(
        notes(&feed).contains("has sent nothing for 5 s"),
        "{}",
        notes(&feed)
    );
    drop(writer);
    assert_eq!(drained(&mut feed), []);
    assert!(notes(&feed).contains("nobody writes"), "{}", notes(&feed));
    assert_eq!(feed.losses().damaged, 1);
    // Two writers in a row without a reading between them.
    for first in [1, 50] {
        let mut writer = place.writer();
        let bytes = recording(&header(), &samples(first..first + 9), false);
        writer.write_all(&bytes).unwrap();
    }
    let both: Vec<Record> = samples(1..10).into_iter().chain(samples(50..59)).collect();
    assert_eq!(drained(&mut feed), both);
}

#[test]
fn what_cannot_be_read_closes_the_feed_for_a_while() {
    let place = Place::new("garbage");
    place.fifo();
    let mut feed = place.open().unwrap();
    feed.attach(Pid(7)).unwrap();
    let mut bytes = recording(&header(), &samples(1..40), false);
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    let mut writer = place.writer();
    writer.write_all(&bytes).unwrap();
    assert_eq!(drained(&mut feed), []);
    assert!(
        notes(&feed).contains("the checksum is wrong"),
        "{}",
        notes(&feed)
    );
    // Its writer learns of it, and may begin anew.
    assert_eq!(
        writer.write(b"x").unwrap_err().kind(),
        std::io::ErrorKind::BrokenPipe
    );
    drop(writer);
    place.pass(RETRY_AFTER);
    assert_eq!(drained(&mut feed), []);
    let mut writer = place.writer();
    writer
        .write_all(&recording(&header(), &samples(1..4), false))
        .unwrap();
    assert_eq!(drained(&mut feed), samples(1..4));
    assert_eq!(feed.losses().damaged, 1);
    assert!(
        notes(&feed).contains("1 times what came"),
        "{}",
        notes(&feed)
    );
}

#[test]
fn what_is_no_feed_is_refused() {
    let refused = |place: &Place, said: &str, remedy: &str| {
        let error = place.open().unwrap_err();
        assert!(error.to_string().contains(said), "{error}");
        assert!(error.remedy().contains(remedy), "{}", error.remedy());
        assert!(check(&place.path()).is_err());
    };
    let place = Place::new("none");
    refused(&place, "nothing is there", "mkfifo -m 600");
    fs::create_dir(place.path()).unwrap();
    refused(&place, "a directory", "mkfifo");
    fs::remove_dir(place.path()).unwrap();
    fs::write(place.path(), b"x").unwrap();
    refused(&place, "a plain file", "mkfifo");
    fs::remove_file(place.path()).unwrap();
    let other = place.folder.join("other");
    mkfifo(&other, Mode::S_IRUSR | Mode::S_IWUSR).unwrap();
    symlink(&other, place.path()).unwrap();
    refused(&place, "a symbolic link", "mkfifo");
    fs::remove_file(place.path()).unwrap();
    place.fifo();
    for mode in [0o602, 0o620, 0o666] {
        fs::set_permissions(place.path(), fs::Permissions::from_mode(mode)).unwrap();
        refused(&place, "others than its owner", "chmod go-w");
    }
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o644)).unwrap();
    place.open().unwrap();
    fs::remove_file(place.path()).unwrap();
    drop(UnixListener::bind(place.path()).unwrap());
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o600)).unwrap();
    let error = place.open().unwrap_err();
    assert!(error.to_string().contains("no program listens"), "{error}");
}

#[test]
fn a_feed_of_somebody_else_is_refused() {
    if !nix::unistd::geteuid().is_root() {
        return crate::skipped("needs root to make a file of another user");
    }
    let place = Place::new("foreign");
    let path = place.fifo();
    std::os::unix::fs::chown(&path, Some(65_534), None).unwrap();
    let error = place.open().unwrap_err();
    assert!(error.to_string().contains("user 65534"), "{error}");
}

/// What a writer says who was waiting when the feed was opened.
#[track_caller]
fn refused_at_once(name: &str, bytes: &[u8], said: &str) {
    let place = Place::new(name);
    let listener = UnixListener::bind(place.path()).unwrap();
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o600)).unwrap();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| listener.accept().unwrap().0.write_all(bytes));
        let error = place.open().unwrap_err();
        assert!(error.to_string().contains(said), "{error}");
        drop(writer.join().unwrap());
    });
}

#[test]
fn what_a_writer_says_first_is_judged_at_once() {
    let good = recording(&header(), &[], false);
    let mut later = good.clone();
    later[16] = 3;
    refused_at_once("later", &later, "version `3`");
    refused_at_once("noise", b"0x7f3a10000000 4242 3\n", "not a recording");
    let mut damaged = good;
    damaged[20] ^= 1;
    refused_at_once("damaged", &damaged, "the checksum is wrong");
    let perf = Header {
        clock: "perf".to_owned(),
        ..header()
    };
    refused_at_once("clock", &recording(&perf, &[], false), "clock `perf`");
}

#[test]
fn samples_of_another_clock_are_not_taken_with_their_header() {
    let place = Place::new("other-clock");
    place.fifo();
    let mut feed = place.open().unwrap();
    feed.attach(Pid(7)).unwrap();
    let perf = Header {
        clock: "perf".to_owned(),
        ..header()
    };
    let mut writer = place.writer();
    writer
        .write_all(&recording(&perf, &samples(1..30), true))
        .unwrap();
    assert_eq!(drained(&mut feed), []);
    assert!(notes(&feed).contains("clock `perf`"), "{}", notes(&feed));
}

#[test]
fn messages_are_handed_on_between_processes_that_are_followed() {
    let mut gate = Gate::default();
    assert!(gate.follow(Pid(7)) && gate.follow(Pid(9)));
    let mut seen = Vec::new();
    for (from, to) in [(7, 9), (7, 8), (8, 9)] {
        let sent = Sent {
            from: Pid(from),
            to: Pid(to),
            bytes: 64,
            messages: 1,
        };
        let entry = Entry::Record(Record::Sent(sent));
        gate.pass(entry, Time(50), &mut |record| seen.push(record.clone()));
    }
    assert!(
        matches!(
            seen[..],
            [Record::Sent(Sent {
                from: Pid(7),
                to: Pid(9),
                ..
            })]
        ),
        "{seen:?}"
    );
}

#[test]
fn what_cannot_be_true_is_left_out_and_counted() {
    let mut gate = Gate::default();
    assert!(gate.follow(Pid(7)));
    let mut seen = Vec::new();
    let good = sample(7, 0x1000);
    let bad = [
        Sample { period: 0, ..good },
        Sample { address: 0, ..good },
        Sample {
            tid: Tid(0),
            ..good
        },
        Sample {
            address: u64::MAX,
            ..good
        },
        sample(8, 0x1000),
        Sample {
            time: Time(u64::MAX),
            ..good
        },
    ];
    for sample in bad {
        let entry = Entry::Record(Record::Sample(sample));
        gate.pass(entry, Time(50), &mut |record| seen.push(record.clone()));
    }
    assert_eq!(
        seen,
        [Record::Sample(Sample {
            time: Time(50),
            ..good
        })]
    );
    let losses = gate.losses();
    assert_eq!((losses.invalid, losses.kernel), (3, 1));
}

#[test]
fn children_that_the_feed_tells_of_are_followed() {
    let mut gate = Gate::default();
    gate.follow(Pid(7));
    let fork = |pid, parent| Lifecycle::Fork {
        time: Time(1),
        pid: Pid(pid),
        tid: Tid(pid),
        parent: Pid(parent),
    };
    let mut passed = 0;
    for change in [fork(9, 7), fork(20, 19), fork(10, 9)] {
        gate.pass(
            Entry::Record(Record::Lifecycle(change)),
            Time(2),
            &mut |_| passed += 1,
        );
    }
    let of_child = Entry::Record(Record::Sample(sample(10, 0x1000)));
    gate.pass(of_child, Time(2), &mut |_| passed += 1);
    assert_eq!(passed, 3);
}

/// What fuzzing begins with; its first byte is the size of pieces.
#[test]
fn the_fuzz_corpus_is_survived() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/feed");
    let mut entries = 0;
    for file in fs::read_dir(folder).unwrap() {
        let bytes = fs::read(file.unwrap().path()).unwrap();
        let (first, rest) = bytes.split_first().unwrap();
        let mut stream = Stream::new();
        for piece in rest.chunks(usize::from(first & 0x3f) + 1) {
            if stream.take(piece, &mut |_, _| entries += 1).is_err() {
                break;
            }
        }
    }
    assert_eq!(entries, 24);
}

proptest! {
    #[test]
    fn pieces_make_no_difference(cuts in prop::collection::vec(1usize..300, 0..20)) {
        let whole = recording(&header(), &samples(1..30), true);
        let two = [whole.clone(), whole].concat();
        let mut stream = Stream::new();
        let mut entries = Vec::new();
        let mut rest = two.as_slice();
        for cut in cuts {
            let (piece, after) = rest.split_at(cut.min(rest.len()));
            stream.take(piece, &mut |_, entry| entries.push(entry)).unwrap();
            rest = after;
        }
        stream.take(rest, &mut |_, entry| entries.push(entry)).unwrap();
        prop_assert_eq!(entries.len(), 58);
        prop_assert!(!stream.is_within());
    }

    #[test]
    fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..400), keep in 0usize..400) {
        let mut stream = Stream::new();
        let good = recording(&header(), &samples(1..30), false);
        let mut forged = good[..keep.min(good.len())].to_vec();
        forged.extend(bytes);
        if let Err(error) = stream.take(&forged, &mut |_, _| {}) {
            let of_reading = matches!(error, RecordingError::Read { .. });
            prop_assert!(!of_reading, "{error}");
        }
    }
}
