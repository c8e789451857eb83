//! A daemon of its own for each test: own socket, own journal, gone at the end.

use std::ffi::OsString;
use std::fmt::Display;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{self, Signal};
use nix::unistd::{Pid, geteuid};

/// How long anything may take before a test gives up; generous, since machines are shared.
const PATIENCE: Duration = Duration::from_secs(60);

/// Where the binaries of this build are.
pub(crate) fn binary(name: &str) -> PathBuf {
    let own = std::env::current_exe().expect("the test's own path");
    let folder = own.ancestors().nth(2).expect("target/PROFILE/deps/test");
    let path = folder.join(name);
    assert!(
        path.exists(),
        "`{}` is not built; run `make test`",
        path.display()
    );
    path
}

/// True for root; else says that the test is skipped.
pub(crate) fn privileged() -> bool {
    let root = geteuid().is_root();
    if !root {
        println!("skipped: needs root");
    }
    root
}

/// Waits until `true_now` says so.
#[track_caller]
pub(crate) fn wait_until(what: &str, mut true_now: impl FnMut() -> bool) {
    wait_while(what, || (!true_now()).then_some("it is not so"));
}

/// Waits until nothing is missing any more; what was missing last is told if that does not come.
#[track_caller]
pub(crate) fn wait_while<T: Display>(what: &str, mut missing: impl FnMut() -> Option<T>) {
    let began = Instant::now();
    while let Some(still) = missing() {
        assert!(
            began.elapsed() < PATIENCE,
            "gave up waiting until {what}: {still}"
        );
        thread::sleep(Duration::from_millis(20));
    }
}

/// The sampling rate gives way to nobody; see [`SEEING`].
pub(crate) const EVERY_FAULT: &str = "[sampling]\nperiod = 1\n";

/// Short windows and every fault: what is tested is what is seen, and the sampling rate would give way to other
/// programs that fault. The budget is that of a build that is not optimised, on two processors that others use, too:
/// with the shipped one a window may wait as long as a test does.
pub(crate) const SEEING: &str = concat!(
    "[engine]\ninterval_min_ms = 200\ninterval_max_ms = 500\n",
    "[sampling]\nperiod = 1\n",
    "[overhead]\nbudget_percent = 50\n"
);

/// A daemon with a folder of its own.
#[derive(Debug)]
pub(crate) struct House {
    pub(crate) folder: PathBuf,
    pub(crate) daemon: Option<Child>,
}

impl House {
    /// Prepares a folder with these settings; starts nothing.
    pub(crate) fn with_settings(settings: &str) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("numad-it-{}-{number}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder for the test");
        fs::write(folder.join("numad.toml"), settings).expect("settings for the test");
        Self {
            folder,
            daemon: None,
        }
    }

    /// A daemon that serves, with these settings.
    pub(crate) fn serving(settings: &str) -> Self {
        let mut house = Self::with_settings(settings);
        house.start();
        house
    }

    /// Starts the daemon and waits until it serves.
    pub(crate) fn start(&mut self) {
        self.start_as(self.daemon_command());
    }

    /// Starts it by a command line of the test's own, and waits until it serves.
    pub(crate) fn start_as(&mut self, mut command: Command) {
        let log = fs::File::options()
            .create(true)
            .append(true)
            .open(self.folder.join("log"))
            .expect("a log");
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let daemon = command.stderr(log).spawn().expect("the daemon starts");
        self.daemon = Some(daemon);
        wait_until("the daemon serves", || {
            self.ctl(&["status"]).status.success()
        });
    }

    /// The daemon's command line, for those who want it otherwise.
    pub(crate) fn daemon_command(&self) -> Command {
        let mut command = Command::new(binary("numad"));
        command
            .arg("--config")
            .arg(self.folder.join("numad.toml"))
            .arg("--socket")
            .arg(self.folder.join("numad.sock"))
            .arg("--state-dir")
            .arg(self.folder.join("state"))
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        command
    }

    /// Runs `numadctl` against this daemon.
    pub(crate) fn ctl(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(binary("numadctl"));
        command.args(self.ctl_arguments(arguments));
        command
            .stdin(Stdio::null())
            .output()
            .expect("numadctl runs")
    }

    /// What `numadctl` is given, so that it speaks to this daemon.
    pub(crate) fn ctl_arguments(&self, arguments: &[&str]) -> Vec<OsString> {
        let socket = self.folder.join("numad.sock");
        let begin = ["--socket".into(), socket.into_os_string()];
        begin
            .into_iter()
            .chain(arguments.iter().map(Into::into))
            .collect()
    }

    /// Runs `numadctl`, expects success, and gives what it printed.
    #[track_caller]
    pub(crate) fn ok(&self, arguments: &[&str]) -> String {
        let output = self.ctl(arguments);
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success(),
            "numadctl {arguments:?}: {told}{}",
            self.log()
        );
        String::from_utf8(output.stdout).expect("numadctl prints UTF-8")
    }

    /// Runs `numadctl`, expects this exit code and one line on stderr, and gives that line.
    #[track_caller]
    pub(crate) fn refused(&self, arguments: &[&str], code: i32) -> String {
        let output = self.ctl(arguments);
        let told = String::from_utf8(output.stderr).expect("numadctl prints UTF-8");
        assert_eq!(
            output.status.code(),
            Some(code),
            "numadctl {arguments:?}: {told}"
        );
        assert_eq!(told.trim_end().lines().count(), 1, "one line, not: {told}");
        told
    }

    /// Sends the daemon a signal and waits for its end.
    pub(crate) fn stop(&mut self, how: Signal) {
        if let Some(mut daemon) = self.daemon.take() {
            // Whoever is gone already has ended as well.
            let _already_gone = signal::kill(pid_of(&daemon), how).is_err();
            daemon.wait().expect("the daemon ends");
        }
    }

    /// What the daemon logged.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }
}

impl Drop for House {
    fn drop(&mut self) {
        self.stop(Signal::SIGTERM);
        if !thread::panicking() {
            drop(fs::remove_dir_all(&self.folder));
        }
    }
}

/// A running `numad-workload`, and what is true about it.
#[derive(Debug)]
pub(crate) struct Program {
    child: Child,
    /// Its threads in the order of its plan.
    pub(crate) threads: Vec<u32>,
    /// Threads that share memory.
    pub(crate) partners: Vec<Vec<u32>>,
}

impl Program {
    /// Starts a workload and reads what it says about itself.
    pub(crate) fn start(arguments: &[&str]) -> Self {
        // With low priority, so that 64 busy threads do not keep the daemon and the test waiting.
        let mut child = Command::new("nice")
            .args(["-n", "10"])
            .arg(binary("numad-workload"))
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the workload starts");
        let mut told = BufReader::new(child.stdout.take().expect("its output")).lines();
        let mut line = || told.next().expect("a line").expect("readable");
        let (_, threads, partners) = (line(), line(), line());
        let numbers = |text: &str, between| -> Vec<u32> {
            text.split(between)
                .map(|number| number.parse().expect("a thread's number"))
                .collect()
        };
        let threads = numbers(threads.strip_prefix("threads ").expect("threads"), ' ');
        let partners = partners.strip_prefix("partners").expect("partners");
        let partners = partners
            .split_whitespace()
            .map(|group| numbers(group, '+'))
            .collect();
        // The rest is read and forgotten, so that the program never waits for us.
        thread::spawn(move || told.for_each(drop));
        Self {
            child,
            threads,
            partners,
        }
    }

    pub(crate) fn pid(&self) -> String {
        self.child.id().to_string()
    }

    /// The affinity mask of every thread.
    pub(crate) fn masks(&self) -> Vec<(u32, String)> {
        let tasks = Path::new("/proc").join(self.pid()).join("task");
        let mut masks: Vec<(u32, String)> = fs::read_dir(tasks)
            .expect("its threads")
            .filter_map(Result::ok)
            .filter_map(|entry| {
                let status = fs::read_to_string(entry.path().join("status")).ok()?;
                let mask = status
                    .lines()
                    .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
                Some((
                    entry.file_name().to_str()?.parse().ok()?,
                    mask.trim().to_owned(),
                ))
            })
            .collect();
        masks.sort();
        masks
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

pub(crate) fn pid_of(child: &Child) -> Pid {
    Pid::from_raw(i32::try_from(child.id()).expect("a pid"))
}
