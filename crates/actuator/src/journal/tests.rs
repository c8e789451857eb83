//! The journal on a disk that works.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::{MetadataExt as _, lchown};

use super::*;
use crate::affinity::{Kind, Origin};
use crate::fake::{scratch, set};
use topology::{Pid, StartTicks, TaskKey, Tid};

const LIMITS: JournalLimits = JournalLimits {
    bytes_max: 10_000,
    runs_max: 100,
    durability: Durability::Disk,
};

fn bind(tid: u32) -> Row {
    Row::Bind {
        key: TaskKey {
            pid: Pid(7),
            tid: Tid(tid),
            start: StartTicks(1),
        },
        at: StartTicks(9),
        origin: Origin {
            kind: Kind::User,
            mask: set("0-3"),
        },
        set: set("0"),
    }
}

fn open(directory: &Path) -> Journal {
    Journal::open(directory, "boot", LIMITS).unwrap()
}

#[test]
fn rows_are_there_at_the_next_start() {
    let directory = scratch("journal");
    let mut journal = open(&directory.join("made/here"));
    journal.record(vec![bind(1), bind(2)]).unwrap();
    drop(journal);
    let journal = open(&directory.join("made/here"));
    assert_eq!(journal.open_rows(), 2);
    assert_eq!(journal.found(), &Found::default());
    fs::remove_dir_all(directory).unwrap();
}

#[test]
fn two_daemons_never_share_one() {
    let directory = scratch("journal");
    let first = open(&directory);
    let error = Journal::open(&directory, "boot", LIMITS).unwrap_err();
    let own = std::process::id().to_string();
    assert!(error.to_string().contains(&own), "{error}");
    drop(first);
    drop(open(&directory));
    fs::remove_dir_all(directory).unwrap();
}

#[test]
fn another_boot_s_is_set_aside_and_a_newer_one_is_refused() {
    let directory = scratch("journal");
    let mut journal = open(&directory);
    journal.record(vec![bind(1)]).unwrap();
    drop(journal);
    let journal = Journal::open(&directory, "later", LIMITS).unwrap();
    assert_eq!(journal.open_rows(), 0);
    let aside = journal.found().set_aside.clone().unwrap();
    assert!(fs::read_to_string(aside).unwrap().contains("boot"));
    drop(journal);
    fs::write(directory.join(FILE), "not a journal").unwrap();
    assert!(open(&directory).found().set_aside.is_some());
    let newer = "numad-journal 3 boot";
    let line = format!("{:08x} {newer}\n", rows::checksum("", newer));
    fs::write(directory.join(FILE), &line).unwrap();
    assert_eq!(open(&directory).found(), &Found::default());
    fs::write(directory.join(FILE), line + "and more\n").unwrap();
    let error = Journal::open(&directory, "boot", LIMITS).unwrap_err();
    assert!(matches!(error, OpenError::Newer(_, 3)), "{error}");
    fs::remove_dir_all(directory).unwrap();
}

#[test]
fn of_a_file_that_is_far_too_long_the_beginning_is_read() {
    let directory = scratch("journal");
    let mut journal = open(&directory);
    journal.record(vec![bind(1)]).unwrap();
    drop(journal);
    let file = OpenOptions::new()
        .write(true)
        .open(directory.join(FILE))
        .unwrap();
    // Sparse: it takes no room.
    file.set_len(1 << 40).unwrap();
    let journal = open(&directory);
    let aside = journal.found().set_aside.clone().unwrap();
    assert_eq!(fs::metadata(aside).unwrap().len(), 1 << 40);
    drop(journal);
    let journal = open(&directory);
    assert_eq!((journal.open_rows(), journal.found().damaged), (1, 0));
    fs::remove_dir_all(directory).unwrap();
}

#[test]
fn a_torn_tail_does_not_run_into_the_next_row() {
    let directory = scratch("journal");
    let mut journal = open(&directory);
    journal.record(vec![bind(1), bind(2)]).unwrap();
    drop(journal);
    let text = fs::read(directory.join(FILE)).unwrap();
    fs::write(directory.join(FILE), &text[..text.len() - 5]).unwrap();
    let mut journal = open(&directory);
    assert_eq!((journal.open_rows(), journal.found().damaged), (1, 1));
    journal.record(vec![bind(3)]).unwrap();
    drop(journal);
    let journal = open(&directory);
    assert_eq!((journal.open_rows(), journal.found().damaged), (2, 0));
    fs::remove_dir_all(directory).unwrap();
}

#[test]
fn a_damaged_header_costs_no_row() {
    let directory = scratch("journal");
    let mut journal = open(&directory);
    journal.record(vec![bind(1)]).unwrap();
    drop(journal);
    let mut text = fs::read(directory.join(FILE)).unwrap();
    text[12] ^= 1;
    fs::write(directory.join(FILE), text).unwrap();
    let journal = open(&directory);
    assert_eq!((journal.open_rows(), journal.found().damaged), (1, 1));
    fs::remove_dir_all(directory).unwrap();
}

#[test]
fn what_does_not_fit_is_refused_and_leaves_nothing() {
    let directory = scratch("journal");
    let mut journal = open(&directory);
    let rows: Vec<Row> = (0..300).map(bind).collect();
    let error = journal.record(rows).unwrap_err();
    assert!(error.to_string().contains("journal"));
    assert_eq!(journal.open_rows(), 0);
    journal.record(vec![bind(1)]).unwrap();
    drop(journal);
    assert_eq!(open(&directory).open_rows(), 1);
    fs::remove_dir_all(directory).unwrap();
}

#[test]
fn a_journal_that_was_removed_is_made_again() {
    let directory = scratch("journal");
    let place = directory.join("state");
    let mut journal = open(&place);
    journal.record(vec![bind(1)]).unwrap();
    fs::remove_dir_all(&place).unwrap();
    journal.record(vec![bind(2)]).unwrap();
    let error = Journal::open(&place, "boot", LIMITS).unwrap_err();
    assert!(matches!(error, OpenError::InUse(..)), "{error}");
    fs::remove_file(place.join(FILE)).unwrap();
    let unknown = rows::ProcessKey {
        pid: Pid(7),
        start: UNKNOWN,
    };
    let Row::Bind { key, .. } = bind(1) else {
        unreachable!();
    };
    journal
        .records_mut()
        .forget_threads(unknown, [key].into_iter());
    journal.rewrite().unwrap();
    drop(journal);
    assert_eq!(open(&place).open_rows(), 1);
    fs::remove_dir_all(directory).unwrap();
}

#[test]
fn nothing_is_recorded_while_it_cannot_be_found_again() {
    let directory = scratch("journal");
    let place = directory.join("state");
    let mut journal = open(&place);
    fs::rename(&place, directory.join("away")).unwrap();
    fs::write(&place, "in the way").unwrap();
    journal.record(vec![bind(1)]).unwrap_err();
    journal.rewrite().unwrap_err();
    fs::remove_file(&place).unwrap();
    // Another daemon began in the same place meanwhile.
    let mut other = open(&place);
    other.record(vec![bind(2)]).unwrap();
    journal.record(vec![bind(1)]).unwrap_err();
    journal.rewrite().unwrap_err();
    assert_eq!((journal.open_rows(), other.open_rows()), (0, 1));
    other.record(vec![bind(3)]).unwrap();
    fs::remove_dir_all(directory).unwrap();
}

#[test]
fn what_it_holds_is_told_without_holding_it() {
    let directory = scratch("journal");
    let mut journal = open(&directory);
    let process = |pid| rows::ProcessKey {
        pid: Pid(pid),
        start: StartTicks(3),
    };
    let Row::Bind { key, .. } = bind(2) else {
        unreachable!();
    };
    let set = every();
    let parked = Row::Again {
        key,
        at: StartTicks(11),
        set,
    };
    let pages = Row::Pages {
        owner: rows::Owner::Process(Pid(7), StartTicks(3)),
        node: topology::NodeId(1),
        runs: vec![PageRun {
            first: 4096,
            step: 4096,
            count: 2,
        }],
    };
    let mine = [
        Row::Process(process(7)),
        bind(1),
        bind(2),
        bind(3),
        parked,
        pages,
    ];
    let mine = mine.into_iter().chain([Row::Process(process(8))]);
    journal.record(mine.collect()).unwrap();
    let (contents, found) = read(&directory, "boot", LIMITS).unwrap();
    assert_eq!(
        (&contents, &found),
        (&journal.contents(), &Found::default())
    );
    let told: Vec<_> = contents
        .processes
        .iter()
        .map(|of| {
            let masks = of.masks.iter().map(|change| {
                let got = change.got.as_ref().map(ToString::to_string);
                (change.had_list(), got, change.threads)
            });
            let since = of.since.map(|since| since.0);
            (of.process.pid.0, masks.collect::<Vec<_>>(), of.pages, since)
        })
        .collect();
    let had = || Some("0-3".to_owned());
    let masks = vec![(had(), Some("0".to_owned()), 2), (had(), None, 1)];
    assert_eq!(told, [(7, masks, 2, Some(9)), (8, vec![], 0, None)]);
    let (other, found) = read(&directory, "later", LIMITS).unwrap();
    assert!(other == Contents::default() && found.stale);
    read(&directory.join("none"), "boot", LIMITS).unwrap_err();
    fs::remove_dir_all(directory).unwrap();
}

#[test]
fn a_directory_that_cannot_be_written_is_read_and_held() {
    let directory = scratch("journal");
    let mut journal = open(&directory);
    journal.record(vec![bind(1)]).unwrap();
    let unwritable = || {
        let disk = Box::new(FileSystem);
        Journal::open_unwritable(disk, &directory, "boot", LIMITS, libc::EROFS)
    };
    assert!(matches!(unwritable(), Err(OpenError::InUse(..))));
    drop(journal);
    let mut journal = unwritable().unwrap();
    assert!(matches!(
        Journal::open(&directory, "boot", LIMITS),
        Err(OpenError::InUse(..))
    ));
    let whole = fs::read(directory.join(FILE)).unwrap();
    let error = journal.record(vec![bind(2)]).unwrap_err();
    assert_eq!(error.source.raw_os_error(), Some(libc::EROFS));
    journal.records_mut().forget_all_threads(rows::ProcessKey {
        pid: Pid(7),
        start: UNKNOWN,
    });
    assert_eq!(journal.open_rows(), 0);
    journal.rewrite().unwrap_err();
    assert_eq!(fs::read(directory.join(FILE)).unwrap(), whole);
    fs::remove_dir_all(directory).unwrap();
}

#[test]
fn a_pipe_in_its_place_is_not_waited_for() {
    let directory = scratch("journal");
    let mode = nix::sys::stat::Mode::S_IRWXU;
    nix::unistd::mkfifo(&directory.join(FILE), mode).unwrap();
    let error = Journal::open(&directory, "boot", LIMITS).unwrap_err();
    assert!(matches!(error, OpenError::Io(..)), "{error}");
    fs::remove_dir_all(directory).unwrap();
}

#[test]
fn privileged_root_leaves_files_to_the_daemon_s_user() {
    if !nix::unistd::geteuid().is_root() {
        println!("skipped: needs root");
        return;
    }
    let directory = scratch("journal");
    lchown(&directory, Some(12_345), Some(12_345)).unwrap();
    drop(open(&directory.join("journal")));
    for path in ["journal", "journal/journal", "journal/lock"] {
        assert_eq!(
            fs::metadata(directory.join(path)).unwrap().uid(),
            12_345,
            "{path}"
        );
    }
    fs::remove_dir_all(directory).unwrap();
}

#[test]
fn a_link_in_its_place_is_refused_and_files_are_ours_alone() {
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    let directory = scratch("journal");
    drop(open(&directory.join("own")));
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&directory.join("own")), 0o700);
    assert_eq!(mode(&directory.join("own").join(FILE)), 0o600);
    fs::create_dir(directory.join("link")).unwrap();
    symlink("/etc/passwd", directory.join("link").join(FILE)).unwrap();
    let error = Journal::open(&directory.join("link"), "boot", LIMITS).unwrap_err();
    assert!(matches!(error, OpenError::Io(..)), "{error}");
    fs::remove_dir_all(directory).unwrap();
}
