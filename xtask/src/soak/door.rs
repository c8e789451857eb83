//! Users who do their worst at the door: requests that are right, changed, cut, endless, half sent,
//! many at once, given up. Root must be answered all the while, nothing may be lost for good, and no
//! answer may say that numad made a mistake.

use std::fs;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, geteuid};

use super::{Chance, Soak, say};

/// Users that own nothing here, and processes of each.
const USERS: [u32; 2] = [65_534, 65_533];
const CLIENTS_EACH: u64 = 4;

/// How long anything may take before it counts as never; machines are shared.
const PATIENCE: Duration = Duration::from_secs(20);

/// What memory may have grown by at the end, in KiB: allocators keep some.
const GROWTH_KIB_MAX: u64 = 64 << 10;

/// Arguments of one client, which is this program once more with the rights of a user.
#[derive(Clone, Debug, Args)]
pub(crate) struct Client {
    socket: PathBuf,
    seed: u64,
    seconds: u64,
}

/// Ends the processes and removes the directory, however the round ends.
struct House {
    folder: PathBuf,
    children: Vec<Child>,
}

impl Drop for House {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _gone = child.kill();
            let _ended = child.wait();
        }
        let _removed = fs::remove_dir_all(&self.folder);
    }
}

/// The round.
pub(super) fn run(soak: &Soak) -> Result<()> {
    let folder = std::env::temp_dir().join(format!("numad-soak-{}", std::process::id()));
    fs::create_dir_all(&folder)?;
    let mut house = House {
        folder,
        children: Vec::new(),
    };
    let socket = house.folder.join("numad.sock");
    let log = house.folder.join("log");
    let settings = house.folder.join("numad.toml");
    fs::write(
        &settings,
        "[engine]\ninterval_min_ms = 100\ninterval_max_ms = 500\n",
    )?;
    let daemon = Command::new(&soak.numad)
        .arg("--config")
        .arg(&settings)
        .arg("--socket")
        .arg(&socket)
        .arg("--state-dir")
        .arg(house.folder.join("state"))
        .stdin(Stdio::null())
        .stderr(fs::File::create(&log)?)
        .spawn()
        .with_context(|| format!("`{}` does not start", soak.numad.display()))?;
    let pid = daemon.id();
    house.children.push(daemon);
    wait_until("the daemon serves", || {
        Ok(UnixStream::connect(&socket).is_ok())
    })?;
    let own = control::admin_socket(&socket);
    status(&own)?;
    let before = Usage::of(pid)?;
    let clients = clients(soak, &house, &socket)?;
    let count = clients.len();
    house.children.extend(clients);
    let waits = watch(&own, &mut house.children[1..])?;
    for client in &mut house.children[1..] {
        ensure!(
            client.wait()?.success(),
            "a client had a wrong answer, see above"
        );
    }
    wait_until("programs that have ended are let go", || {
        Ok(status(&own)?.contains("\"attachments\":[]"))
    })?;
    wait_until("descriptors are given back", || {
        Ok(Usage::of(pid)?.descriptors <= before.descriptors + 4)
    })?;
    let after = Usage::of(pid)?;
    ensure!(
        after.memory_kib <= before.memory_kib + GROWTH_KIB_MAX,
        "memory grew from {} to {} KiB",
        before.memory_kib,
        after.memory_kib
    );
    kill(Pid::from_raw(i32::try_from(pid)?), Signal::SIGTERM)?;
    let ended = house.children[0].wait()?;
    let told = fs::read_to_string(&log)?;
    ensure!(ended.success(), "the daemon ended with {ended}:\n{told}");
    ensure!(!told.contains("a mistake in numad"), "{told}");
    let (median, longest) = (waits[waits.len() / 2], waits[waits.len() - 1]);
    say(&format!(
        "door: {count} clients; root was answered {} times, in {median:?} (longest {longest:?}); \
         memory {} to {} KiB, {} descriptors before and after",
        waits.len(),
        before.memory_kib,
        after.memory_kib,
        after.descriptors
    ));
    Ok(())
}

/// Clients with the rights of two users; of this user where that cannot be had.
fn clients(soak: &Soak, house: &House, socket: &Path) -> Result<Vec<Child>> {
    // A copy, since the original may lie where nobody else can start it.
    let program = house.folder.join("client");
    fs::copy(std::env::current_exe()?, &program)?;
    let users = if geteuid().is_root() {
        USERS
    } else {
        say("door: not root, so all clients are one user");
        [geteuid().as_raw(); 2]
    };
    let mut clients = Vec::new();
    for (number, user) in (0..).zip(users) {
        for client in 0..CLIENTS_EACH {
            let seed = soak.seed().wrapping_mul(1000) + number * CLIENTS_EACH + client;
            let mut command = Command::new(&program);
            command
                .arg("soak-client")
                .arg(socket)
                .arg(seed.to_string())
                .arg(soak.length().as_secs().to_string())
                .current_dir("/")
                .stdin(Stdio::null());
            if geteuid().is_root() {
                command.uid(user).gid(user);
            }
            clients.push(command.spawn()?);
        }
    }
    Ok(clients)
}

/// Asks as root until all clients have ended; gives how long each answer took, ascending.
fn watch(socket: &Path, clients: &mut [Child]) -> Result<Vec<Duration>> {
    let mut waits = Vec::new();
    loop {
        let began = Instant::now();
        status(socket).context("root was not answered")?;
        waits.push(began.elapsed());
        std::thread::sleep(Duration::from_millis(20));
        let mut ended = 0;
        for client in &mut *clients {
            ended += usize::from(client.try_wait()?.is_some());
        }
        if ended == clients.len() {
            waits.sort();
            return Ok(waits);
        }
    }
}

fn status(socket: &Path) -> Result<String> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(b"GET /v1/status HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    ensure!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    Ok(answer)
}

fn wait_until(what: &str, mut so: impl FnMut() -> Result<bool>) -> Result<()> {
    let began = Instant::now();
    while !so()? {
        ensure!(began.elapsed() < PATIENCE, "gave up waiting until {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// What the daemon uses.
struct Usage {
    descriptors: usize,
    memory_kib: u64,
}

impl Usage {
    fn of(pid: u32) -> Result<Self> {
        let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let memory = line.and_then(|line| line.split_whitespace().next());
        Ok(Self {
            descriptors: fs::read_dir(format!("/proc/{pid}/fd"))?.count(),
            memory_kib: memory.context("no VmRSS")?.parse()?,
        })
    }
}

/// One client: does one thing after the other until its time is up.
pub(crate) fn client(client: &Client) -> Result<()> {
    let mut chance = Chance(client.seed);
    let end = Instant::now() + Duration::from_secs(client.seconds);
    while Instant::now() < end {
        let kind = chance.below(8);
        let request = request(&mut chance);
        let answer = match kind {
            0..=2 => exchange(&client.socket, &request, Ending::Whole),
            3 | 4 => exchange(
                &client.socket,
                &changed(&mut chance, request.clone()),
                Ending::Whole,
            ),
            5 => exchange(&client.socket, &request, Ending::HalfClosed),
            6 => exchange(
                &client.socket,
                &request.repeat(chance.below(50) + 1),
                Ending::GivenUp,
            ),
            _ => exchange(
                &client.socket,
                &request[..chance.below(request.len())],
                Ending::GivenUp,
            ),
        };
        let text = String::from_utf8_lossy(&answer);
        let status = text.split(' ').nth(1).unwrap_or_default();
        if status == "500" || text.contains("\"internal\"") {
            bail!(
                "seed {}: `{}` was answered with {text}",
                client.seed,
                String::from_utf8_lossy(&request)
            );
        }
    }
    Ok(())
}

/// How a client ends its side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// It waits for the answer.
    Whole,
    /// It says that nothing more comes, and waits.
    HalfClosed,
    /// It goes away.
    GivenUp,
}

/// What came back; nothing if the daemon did not want to hear it.
fn exchange(socket: &Path, bytes: &[u8], ending: Ending) -> Vec<u8> {
    let mut answer = vec![0; 64 << 10];
    let talk = |answer: &mut [u8]| -> std::io::Result<usize> {
        let mut stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(Duration::from_secs(2)))?;
        stream.set_write_timeout(Some(Duration::from_secs(2)))?;
        stream.write_all(bytes)?;
        match ending {
            Ending::GivenUp => return Ok(0),
            Ending::HalfClosed => stream.shutdown(Shutdown::Write)?,
            Ending::Whole => {}
        }
        stream.read(answer)
    };
    let length = talk(&mut answer).unwrap_or(0);
    answer.truncate(length);
    answer
}

/// A request that makes sense; about this process where it is about one.
fn request(chance: &mut Chance) -> Vec<u8> {
    let own = std::process::id();
    let other = chance.below(40_000);
    let id = chance.below(50);
    let long = "x".repeat(chance.below(70_000));
    let requests = [
        ("GET", "/v1/status".to_owned(), String::new()),
        ("GET", "/v1/attachments".to_owned(), String::new()),
        ("GET", "/v1/doctor".to_owned(), String::new()),
        ("GET", "/v1/policies".to_owned(), String::new()),
        ("GET", "/v1/config".to_owned(), String::new()),
        ("GET", "/metrics".to_owned(), String::new()),
        ("GET", format!("/v1/attachments/{id}"), String::new()),
        ("GET", format!("/v1/attachments/{id}/matrix"), String::new()),
        (
            "GET",
            format!("/v1/attachments/{id}/events?last={other}"),
            String::new(),
        ),
        ("DELETE", format!("/v1/attachments/{id}"), String::new()),
        ("DELETE", format!("/v1/recordings/{id}"), String::new()),
        (
            "POST",
            "/v1/attachments".to_owned(),
            format!(r#"{{"target":{{"pids":[{own}]}}}}"#),
        ),
        (
            "POST",
            "/v1/attachments".to_owned(),
            format!(r#"{{"target":{{"pids":[{other}]}}}}"#),
        ),
        (
            "POST",
            "/v1/attachments".to_owned(),
            r#"{"target":{"command":"client"}}"#.to_owned(),
        ),
        (
            "POST",
            "/v1/attachments".to_owned(),
            format!(r#"{{"target":{{"unit":"{long}"}}}}"#),
        ),
        (
            "POST",
            "/v1/attachments".to_owned(),
            r#"{"target":{"cgroup":"/"}}"#.to_owned(),
        ),
        (
            "POST",
            "/v1/recordings".to_owned(),
            format!(r#"{{"target":{{"pids":[{own}]}},"for_ms":50}}"#),
        ),
        ("POST", "/v1/undo".to_owned(), format!(r#"{{"pid":{own}}}"#)),
        ("POST", "/v1/undo".to_owned(), "[]".to_owned()),
        ("POST", "/v1/reload".to_owned(), String::new()),
    ];
    let (method, path, body) = chance.one_of(&requests);
    let length = body.len();
    let close = *chance.one_of(&["connection: close\r\n", ""]);
    format!("{method} {path} HTTP/1.1\r\nhost: x\r\n{close}content-length: {length}\r\n\r\n{body}")
        .into_bytes()
}

/// The same, damaged in a few places.
fn changed(chance: &mut Chance, mut bytes: Vec<u8>) -> Vec<u8> {
    for _ in 0..=chance.below(4) {
        let at = chance.below(bytes.len());
        let byte = u8::try_from(chance.below(256)).unwrap_or(0);
        match chance.below(5) {
            0 => bytes[at] = byte,
            1 => bytes.insert(at, byte),
            2 => drop(bytes.remove(at)),
            3 => {
                let piece = bytes[at..].to_vec();
                bytes.splice(at..at, piece);
            }
            _ => bytes.truncate(at.max(1)),
        }
        if bytes.is_empty() {
            bytes.push(byte);
        }
    }
    bytes
}
