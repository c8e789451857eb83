//! The real binary on this kernel: attaches a real program, is killed, restarted, reloaded, stopped.
//!
//! Each test starts this test binary once more as the program to be attached (or as the client of
//! another user); `helper` is where that one begins.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test of its own crate; what it prints is for people or for the test"
)]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::signal::{self, Signal};
use nix::unistd::{Pid, geteuid};
use serde_json::Value;

/// What this binary is to be, when it is not the test.
const ROLE: &str = "NUMAD_TEST_ROLE";
/// The socket that the other user's client asks.
const SOCKET: &str = "NUMAD_TEST_SOCKET";
/// How long anything may take before a test gives up; generous, since machines are shared.
const PATIENCE: Duration = Duration::from_secs(60);
/// A user that owns nothing here.
const NOBODY: u32 = 65_534;

const EAGER: &str = "[daemon]\nlog_level = \"debug\"\n[engine]\ninterval_min_ms = 100\n\
                     interval_max_ms = 200\nsamples_min = 0\nbusy_min_percent = 0\n\
                     bind = \"core\"\n[sampling]\nperiod = 1\n";

fn privileged() -> bool {
    let root = geteuid().is_root();
    if !root {
        println!("skipped: needs root");
    }
    root
}

#[track_caller]
fn wait_until(what: &str, mut true_now: impl FnMut() -> bool) {
    let began = Instant::now();
    while !true_now() {
        assert!(began.elapsed() < PATIENCE, "gave up waiting until {what}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// Where the other processes begin; as a test it does nothing.
#[test]
fn helper() {
    match std::env::var(ROLE).as_deref() {
        Ok("program") => be_a_program(),
        Ok("client") => be_a_client(),
        Ok("asker") => be_an_asker(),
        _ => {}
    }
}

/// Four threads that work for ever, two of them with an affinity of their own.
fn be_a_program() {
    for number in 0..4_u8 {
        thread::spawn(move || {
            if number < 2 {
                let mut first = CpuSet::new();
                first.set(0).unwrap();
                sched_setaffinity(Pid::from_raw(0), &first).unwrap();
            }
            println!("ready");
            loop {
                // Fresh memory again and again, so that there are faults to see; so large that the allocator
                // always maps it anew, for less than half of that it may keep.
                let mut memory = vec![0_u8; 64 << 20];
                for byte in std::hint::black_box(&mut memory[..1 << 20])
                    .iter_mut()
                    .step_by(4096)
                {
                    *byte = number;
                }
                thread::sleep(Duration::from_millis(5));
            }
        });
    }
    loop {
        thread::park();
    }
}

/// Asks what another user may not have, and prints the answers.
fn be_a_client() {
    let socket = PathBuf::from(std::env::var_os(SOCKET).unwrap());
    let other = std::env::var("NUMAD_TEST_PID").unwrap();
    let attach = format!("{{\"target\":{{\"pids\":[{other}]}}}}");
    for (method, path, body) in [
        ("GET", "/v1/status", ""),
        ("POST", "/v1/attachments", attach.as_str()),
        ("POST", "/v1/undo", "{\"all\":true}"),
        ("POST", "/v1/reload", ""),
    ] {
        println!("answer {}", ask(&socket, method, path, body).0);
    }
}

/// Asks what stands in its input, one request a line: method, path, body. Prints status and answer.
fn be_an_asker() {
    let socket = PathBuf::from(std::env::var_os(SOCKET).unwrap());
    for line in std::io::stdin().lines() {
        let line = line.unwrap();
        let mut parts = line.splitn(3, ' ');
        let mut part = || parts.next().unwrap_or_default().to_owned();
        let (method, path, body) = (part(), part(), part());
        let (status, answer) = ask(&socket, &method, &path, &body);
        println!("answer {status} {answer}");
    }
}

/// Another user, who asks.
struct User(Child, BufReader<std::process::ChildStdout>);

impl User {
    /// Runs a copy of this binary, since the original may lie where nobody else can start it.
    fn start(house: &House, uid: u32) -> Self {
        let copy = house.folder.join("asker");
        if !copy.exists() {
            fs::copy(std::env::current_exe().unwrap(), &copy).unwrap();
        }
        let mut command = Command::new(copy);
        command
            .args(["--exact", "helper", "--nocapture"])
            .env(ROLE, "asker")
            .env(SOCKET, house.socket())
            .current_dir("/")
            .uid(uid)
            .gid(uid)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = start_copied(&mut command);
        let answers = BufReader::new(child.stdout.take().unwrap());
        Self(child, answers)
    }

    fn ask(&mut self, method: &str, path: &str, body: &str) -> (u16, Value) {
        let input = self.0.stdin.as_mut().unwrap();
        writeln!(input, "{method} {path} {body}").unwrap();
        loop {
            let mut line = String::new();
            assert!(self.1.read_line(&mut line).unwrap() > 0, "the asker ended");
            if let Some((_, answer)) = line.split_once("answer ") {
                let (status, text) = answer.split_once(' ').unwrap();
                return (status.parse().unwrap(), serde_json::from_str(text).unwrap());
            }
        }
    }

    fn attach(&mut self, pid: u32) -> (u16, Value) {
        let body = format!("{{\"target\":{{\"pids\":[{pid}]}},\"policy\":\"none\"}}");
        self.ask("POST", "/v1/attachments", &body)
    }
}

impl Drop for User {
    fn drop(&mut self) {
        let _gone = self.0.kill();
        let _ended = self.0.wait();
    }
}

/// Starts a program that was copied a moment ago: a process that another test has just forked may still
/// have the copy open for writing, until it execs.
fn start_copied(command: &mut Command) -> Child {
    let began = Instant::now();
    loop {
        match command.spawn() {
            Err(error)
                if error.kind() == std::io::ErrorKind::ExecutableFileBusy
                    && began.elapsed() < PATIENCE =>
            {
                thread::sleep(Duration::from_millis(10));
            }
            started => return started.unwrap(),
        }
    }
}

struct Program(Child);

impl Program {
    fn start() -> Self {
        let mut child = again("program").stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let ready = lines
            .map_while(Result::ok)
            .filter(|line| line.ends_with("ready"));
        assert_eq!(ready.take(4).count(), 4);
        Self(child)
    }

    fn masks(&self) -> Vec<(u32, String)> {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.0.id())).unwrap();
        let mut masks: Vec<(u32, String)> = tasks
            .map(|task| {
                let task = task.unwrap();
                let status = fs::read_to_string(task.path().join("status")).unwrap();
                let mask = status
                    .lines()
                    .find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
                let tid = task.file_name().to_str().unwrap().parse().unwrap();
                (tid, mask.unwrap().trim().to_owned())
            })
            .collect();
        masks.sort();
        masks
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _gone = self.0.kill();
        let _ended = self.0.wait();
    }
}

/// This binary once more.
fn again(role: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "helper", "--nocapture"])
        .env(ROLE, role)
        .stdin(Stdio::null());
    command
}

struct House {
    folder: PathBuf,
    daemon: Option<Child>,
}

impl House {
    fn new(settings: &str) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("numad-daemon-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).unwrap();
        let house = Self {
            folder,
            daemon: None,
        };
        house.settings(settings);
        house
    }

    fn settings(&self, text: &str) {
        fs::write(self.folder.join("numad.toml"), text).unwrap();
    }

    fn socket(&self) -> PathBuf {
        self.folder.join("numad.sock")
    }

    fn command(&self) -> Command {
        let log = fs::File::options()
            .create(true)
            .append(true)
            .open(self.folder.join("log"));
        let mut command = Command::new(env!("CARGO_BIN_EXE_numad"));
        command
            .arg("--config")
            .arg(self.folder.join("numad.toml"))
            .arg("--socket")
            .arg(self.socket())
            .arg("--state-dir")
            .arg(self.folder.join("state"))
            .stdin(Stdio::null())
            .stderr(log.unwrap());
        command
    }

    fn start(&mut self) {
        self.daemon = Some(self.command().spawn().unwrap());
        wait_until("it serves", || UnixStream::connect(self.socket()).is_ok());
    }

    fn signal(&self, how: Signal) {
        let pid = self.daemon.as_ref().unwrap().id();
        signal::kill(Pid::from_raw(i32::try_from(pid).unwrap()), how).unwrap();
    }

    fn stop(&mut self, how: Signal) -> Option<i32> {
        self.signal(how);
        self.daemon.take().unwrap().wait().unwrap().code()
    }

    fn ask(&self, method: &str, path: &str, body: &str) -> (u16, Value) {
        ask(&self.socket(), method, path, body)
    }

    fn attach(&self, program: &Program) -> u64 {
        let body = format!(
            "{{\"target\":{{\"pids\":[{}]}},\"policy\":\"packed\"}}",
            program.0.id()
        );
        let (status, answer) = self.ask("POST", "/v1/attachments", &body);
        assert_eq!(status, 200, "{answer}");
        answer["id"].as_u64().unwrap()
    }

    fn bound(&self, id: u64) -> bool {
        let (_, detail) = self.ask("GET", &format!("/v1/attachments/{id}"), "");
        detail["attachment"]["ledger"]["threads_bound"].as_u64() >= Some(4)
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.join("log")).unwrap()
    }
}

impl Drop for House {
    fn drop(&mut self) {
        if let Some(mut daemon) = self.daemon.take() {
            let _gone = daemon.kill();
            let _ended = daemon.wait();
            // What it left behind, if the test failed in the middle.
            let _undone = self.command().arg("--undo").stdout(Stdio::null()).status();
        }
        if !thread::panicking() {
            let _removed = fs::remove_dir_all(&self.folder);
        }
    }
}

fn ask(socket: &Path, method: &str, path: &str, body: &str) -> (u16, Value) {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let length = body.len();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n\
         {body}"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    (
        status,
        serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {answer}")),
    )
}

#[test]
fn privileged_what_was_done_is_undone_on_detach() {
    if !privileged() {
        return;
    }
    let mut house = House::new(EAGER);
    house.start();
    let program = Program::start();
    let before = program.masks();
    let id = house.attach(&program);
    wait_until("all threads are bound", || house.bound(id));
    let (_, status) = house.ask("GET", "/v1/status", "");
    assert!(status["journal_open"].as_u64() >= Some(4), "{status}");
    assert_ne!(program.masks(), before, "or there would be nothing to undo");
    wait_until("samples arrived", || {
        house.ask("GET", "/v1/status", "").1["attachments"][0]["samples"].as_u64() > Some(0)
    });
    let (code, report) = house.ask("DELETE", &format!("/v1/attachments/{id}"), "");
    assert_eq!(
        (code, report["failed"].as_array().map(Vec::len)),
        (200, Some(0)),
        "{report}"
    );
    assert_eq!(program.masks(), before);
    assert_eq!(
        house.ask("GET", "/v1/status", "").1["journal_open"].as_u64(),
        Some(0)
    );
    assert_eq!(house.stop(Signal::SIGTERM), Some(0), "{}", house.log());
    assert!(!house.socket().exists());
}

#[test]
fn privileged_a_killed_daemon_is_undone_by_the_next() {
    if !privileged() {
        return;
    }
    let mut house = House::new(EAGER);
    let program = Program::start();
    let before = program.masks();
    for how_undone in ["start", "undo"] {
        house.start();
        let id = house.attach(&program);
        wait_until("all threads are bound", || house.bound(id));
        house.stop(Signal::SIGKILL);
        assert!(house.socket().exists(), "the stale socket is taken over");
        if how_undone == "start" {
            house.start();
            assert!(
                house.log().contains("an earlier run was undone"),
                "{}",
                house.log()
            );
            house.stop(Signal::SIGINT);
        } else {
            let output = house.command().arg("--undo").output().unwrap();
            let told = String::from_utf8(output.stdout).unwrap();
            assert!(
                output.status.success() && told.contains("threads restored"),
                "{told}"
            );
        }
        assert_eq!(program.masks(), before, "after {how_undone}");
    }
}

/// As after a crash, with a mistake in the settings that a reload refused before.
#[test]
fn privileged_wrong_settings_keep_nobody_from_undoing() {
    if !privileged() {
        return;
    }
    let mut house = House::new(EAGER);
    let program = Program::start();
    let before = program.masks();
    house.start();
    let id = house.attach(&program);
    wait_until("all threads are bound", || house.bound(id));
    house.settings("[engine]\nhold_ms = -1\n");
    house.stop(Signal::SIGKILL);
    let output = house.command().arg("--undo").output().unwrap();
    let told = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", house.log());
    assert!(house.log().contains("hold_ms"), "{}", house.log());
    assert!(told.contains("threads restored"), "{told}");
    assert_eq!(program.masks(), before);
}

#[test]
fn privileged_a_stop_undoes_and_a_second_signal_does_not_disturb() {
    if !privileged() {
        return;
    }
    let mut house = House::new(EAGER);
    house.start();
    let program = Program::start();
    let before = program.masks();
    let id = house.attach(&program);
    wait_until("all threads are bound", || house.bound(id));
    house.signal(Signal::SIGTERM);
    assert_eq!(house.stop(Signal::SIGTERM), Some(0), "{}", house.log());
    assert_eq!(program.masks(), before);
}

#[test]
fn privileged_a_program_that_ends_leaves_the_list() {
    if !privileged() {
        return;
    }
    let mut house = House::new(EAGER);
    house.start();
    let program = Program::start();
    let id = house.attach(&program);
    wait_until("all threads are bound", || house.bound(id));
    drop(program);
    wait_until("it is noticed", || {
        let (_, list) = house.ask("GET", "/v1/attachments", "");
        list.as_array().is_some_and(Vec::is_empty)
    });
    // On a crowded machine records get lost, and then children may have been missed, which is told
    // as well.
    let (status, events) = house.ask("GET", &format!("/v1/attachments/{id}/events?last=2"), "");
    let mut told = events.as_array().into_iter().flatten();
    assert!(
        told.any(|event| event["kind"] == "ended"),
        "{status} {events}"
    );
    wait_until("rows of the gone are closed", || {
        let (_, status) = house.ask("GET", "/v1/status", "");
        status["journal_open"].as_u64() == Some(0)
    });
}

#[test]
fn privileged_settings_are_read_again_on_sighup() {
    if !privileged() {
        return;
    }
    let mut house = House::new("");
    house.start();
    house.settings("[daemon]\nlog_level = \"loud\"\n");
    house.signal(Signal::SIGHUP);
    wait_until("it says why not", || house.log().contains("numad.toml:2"));
    house.settings("[access]\nusers = \"none\"\n");
    house.signal(Signal::SIGHUP);
    wait_until("the new ones are in force", || {
        let (_, config) = house.ask("GET", "/v1/config", "");
        config["text"]
            .as_str()
            .is_some_and(|text| text.contains("users = \"none\""))
    });
    wait_until("the socket is closed to others", || {
        use std::os::unix::fs::PermissionsExt;
        fs::metadata(house.socket()).unwrap().permissions().mode() & 0o777 == 0o660
    });
    assert_eq!(house.stop(Signal::SIGTERM), Some(0));
}

#[test]
fn privileged_there_is_one_daemon_for_each_journal_and_socket() {
    if !privileged() {
        return;
    }
    let mut house = House::new("");
    house.start();
    for more in [&[][..], &["--undo"]] {
        let output = house.command().args(more).output().unwrap();
        assert_eq!(output.status.code(), Some(7));
    }
    let elsewhere = house.folder.join("elsewhere");
    let mut other = house.command();
    other.arg("--state-dir").arg(&elsewhere);
    // The flag is given twice then, which is a mistake of the command line.
    assert_eq!(other.output().unwrap().status.code(), Some(2));
    house.ask("GET", "/v1/status", "");
    assert_eq!(house.stop(Signal::SIGTERM), Some(0));
}

#[test]
fn privileged_the_service_manager_is_told() {
    if !privileged() {
        return;
    }
    let mut house = House::new("");
    let path = house.folder.join("notify");
    let manager = UnixDatagram::bind(&path).unwrap();
    manager.set_read_timeout(Some(PATIENCE)).unwrap();
    let heard = || {
        let mut buffer = [0; 512];
        // Children that end interrupt whoever waits.
        let length = loop {
            match manager.recv(&mut buffer) {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                heard => break heard.unwrap(),
            }
        };
        String::from_utf8(buffer[..length].to_vec()).unwrap()
    };
    let mut command = house.command();
    command
        .env("NOTIFY_SOCKET", &path)
        .env("WATCHDOG_USEC", "200000");
    house.daemon = Some(command.spawn().unwrap());
    let mut messages = vec![heard(), heard(), heard(), heard()];
    assert!(
        messages
            .iter()
            .any(|message| message.starts_with("READY=1\nSTATUS=serving on "))
    );
    let beats = messages
        .iter()
        .filter(|message| message.as_str() == "WATCHDOG=1\n")
        .count();
    assert!(beats >= 2, "{messages:?}");
    house.signal(Signal::SIGHUP);
    messages.clear();
    while !messages
        .iter()
        .any(|message: &String| message.starts_with("READY=1"))
    {
        messages.push(heard());
    }
    assert!(
        messages
            .iter()
            .any(|message| message.starts_with("RELOADING=1\nMONOTONIC_USEC="))
    );
    house.signal(Signal::SIGTERM);
    while heard() != "STOPPING=1\n" {}
    assert_eq!(house.daemon.take().unwrap().wait().unwrap().code(), Some(0));
}

#[test]
fn privileged_another_user_gets_nothing_of_roots() {
    if !privileged() {
        return;
    }
    let mut house = House::new("");
    house.start();
    let program = Program::start();
    house.attach(&program);
    let client = again("client")
        .uid(NOBODY)
        .gid(NOBODY)
        .env(SOCKET, house.socket())
        .env("NUMAD_TEST_PID", program.0.id().to_string())
        .output();
    let Ok(output) = client else {
        println!("skipped: this binary lies where another user cannot start it");
        return;
    };
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    let answers: Vec<&str> = told
        .lines()
        .filter_map(|line| line.split("answer ").nth(1))
        .collect();
    assert_eq!(answers, ["200", "403", "403", "403"], "{told}");
}

/// Copies of `sleep` that the kernel keeps their users from looking into, and one that it does not.
fn closed_programs(house: &House) -> Vec<(&'static str, PathBuf)> {
    use std::os::unix::fs::PermissionsExt;
    let mut made = Vec::new();
    for (name, mode) in [
        ("open", 0o755),
        ("setgid", 0o2755),
        ("setuid", 0o4755),
        ("unreadable", 0o711),
        ("capable", 0o755),
    ] {
        let path = house.folder.join(name);
        fs::copy("/bin/sleep", &path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        if name == "capable" {
            let set = Command::new("setcap")
                .arg("cap_net_raw=ep")
                .arg(&path)
                .status();
            if !set.is_ok_and(|status| status.success()) {
                println!("skipped: no capability could be given to a file");
                continue;
            }
        }
        made.push((name, path));
    }
    made
}

#[test]
fn privileged_what_the_kernel_hides_from_a_user_is_not_told() {
    if !privileged() {
        return;
    }
    let mut house = House::new(EAGER);
    house.start();
    let mut user = User::start(&house, NOBODY);
    for (name, path) in closed_programs(&house) {
        let run = |program: &Path| {
            let mut command = Command::new(program);
            command.arg("1000").current_dir("/").uid(NOBODY).gid(NOBODY);
            Program(start_copied(&mut command))
        };
        let program = run(&path);
        let pid = program.0.id();
        // Until exec is over it is still a copy of this process.
        wait_until("the program runs", || {
            fs::read_to_string(format!("/proc/{pid}/comm"))
                .unwrap()
                .trim()
                == name
        });
        let expected = if name == "open" { 200 } else { 403 };
        let (status, answer) = user.attach(pid);
        assert_eq!(status, expected, "{name}: {answer}");
        if name == "open" {
            continue;
        }
        let body = format!("{{\"target\":{{\"pids\":[{pid}]}},\"for_ms\":100}}");
        let (status, answer) = user.ask("POST", "/v1/recordings", &body);
        assert_eq!(status, 403, "{name}: {answer}");
        // One that becomes such a program is let go.
        let mut shell = Command::new("/bin/sh");
        let script = format!("read word; exec {} 1000", path.display());
        shell
            .args(["-c", &script])
            .current_dir("/")
            .uid(NOBODY)
            .gid(NOBODY);
        let mut shell = Program(shell.stdin(Stdio::piped()).spawn().unwrap());
        let pid = shell.0.id();
        wait_until("the shell runs", || {
            fs::read_to_string(format!("/proc/{pid}/comm"))
                .unwrap()
                .trim()
                == "sh"
        });
        let (status, answer) = user.attach(pid);
        assert_eq!(status, 200, "{name}: {answer}");
        let id = answer["id"].as_u64().unwrap();
        writeln!(shell.0.stdin.as_mut().unwrap(), "go").unwrap();
        wait_until("it is let go", || {
            user.ask("GET", &format!("/v1/attachments/{id}"), "").0 != 200
        });
        let (_, events) = user.ask("GET", &format!("/v1/attachments/{id}/events"), "");
        assert!(
            events.to_string().contains("left alone"),
            "{name}: {events}"
        );
    }
    assert_eq!(house.stop(Signal::SIGTERM), Some(0));
}

/// Nobody but root may connect where root is answered, so nobody can crowd it.
#[test]
fn privileged_root_has_a_socket_of_its_own() {
    use std::os::unix::fs::PermissionsExt;
    if !privileged() {
        return;
    }
    let mut house = House::new("");
    house.start();
    // Answered once both sockets have their permissions.
    assert_eq!(house.ask("GET", "/v1/status", "").0, 200);
    let own = house.folder.join("numad.sock.admin");
    let mode = fs::metadata(&own).unwrap().permissions().mode();
    assert_eq!(mode & 0o007, 0, "{mode:o}");
    assert_eq!(ask(&own, "GET", "/v1/status", "").0, 200);
    assert_eq!(house.stop(Signal::SIGTERM), Some(0));
    assert!(!own.exists());
}

/// A user who could write rows into the journal could have root's threads bound.
#[test]
fn privileged_what_others_can_change_is_not_relied_on() {
    use std::os::unix::fs::{PermissionsExt, chown};
    if !privileged() {
        return;
    }
    let house = House::new("");
    let state = house.folder.join("state");
    let settings = house.folder.join("numad.toml");
    let refused = |code: i32, word: &str| {
        for undo in [false, true] {
            let mut command = house.command();
            if undo {
                command.arg("--undo");
            }
            let output = command.stderr(Stdio::piped()).output().unwrap();
            let told = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(code), "{told}");
            assert!(told.contains(word) && told.lines().count() == 1, "{told}");
        }
    };
    fs::create_dir(&state).unwrap();
    chown(&state, Some(NOBODY), Some(NOBODY)).unwrap();
    refused(4, "belongs to user 65534");
    chown(&state, Some(0), Some(0)).unwrap();
    fs::set_permissions(&state, fs::Permissions::from_mode(0o777)).unwrap();
    refused(4, "everyone");
    fs::set_permissions(&state, fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(&settings, fs::Permissions::from_mode(0o666)).unwrap();
    refused(3, "numad.toml");
}

#[test]
fn privileged_undo_of_a_directory_that_is_not_there_is_told() {
    if !privileged() {
        return;
    }
    let house = House::new("");
    let output = house
        .command()
        .arg("--undo")
        .stderr(Stdio::piped())
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(6), "{told}");
    assert!(told.contains("there is no state directory"), "{told}");
}
