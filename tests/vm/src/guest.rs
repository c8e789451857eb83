//! Starts a guest, gives it a script, and brings back what came of it.
//!
//! Booting takes seconds, so it is done once for each machine and image: the state of a guest that waits
//! for its script is kept, and every run starts from there.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use crate::kit::Kit;
use crate::machine::{CLOCK_SHIFT, Machine};

/// What to do in the guest.
#[derive(Debug)]
pub(crate) struct Run<'a> {
    pub(crate) machine: &'a Machine,
    pub(crate) image: &'a Path,
    /// Runs under the guest's shell; its exit code is the run's.
    pub(crate) script: &'a str,
    /// What the ground truth counts.
    pub(crate) truth: Counted,
    /// Whether the daemon is profiled, too.
    pub(crate) profile: bool,
    /// Processor seconds of this machine.
    pub(crate) limit: Duration,
}

/// What the ground truth counts; the more, the slower everything is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counted {
    Nothing,
    /// By thread, node and window.
    Windows,
    /// By thread and page, too.
    Pages,
}

/// What came of it.
#[derive(Debug)]
pub(crate) struct Ran {
    /// The script's exit code; none if it did not come to its end.
    pub(crate) code: Option<i32>,
    /// Whether the script was told that its time is over.
    pub(crate) stopped: bool,
    /// Standard output and error of the script.
    pub(crate) output: String,
    /// The kernel's own words.
    pub(crate) console: String,
    /// What QEMU said.
    pub(crate) qemu: String,
    /// The ground truth's report.
    pub(crate) truth: Option<String>,
    /// What the daemon ran, if it was profiled (see [`crate::profile`]).
    pub(crate) profile: Option<String>,
    /// Files that the script left in `/out`, as an archive.
    pub(crate) files: Vec<u8>,
    pub(crate) wall: Duration,
    /// What the emulation took of this machine's processors: how long it lasts on a quiet one.
    pub(crate) processor: Duration,
}

/// Processor seconds in which a guest whose time is over must have said where it hangs.
const GRACE: Duration = Duration::from_secs(60);

/// Processor time that a guest may take to come up.
const BOOT_MAX: Duration = Duration::from_secs(300);
/// A run may last so many times its limit on a host that is busy with other things.
const PATIENCE: u32 = 8;

const READY: &str = "@@ready\n";
const EXIT: &str = "@@exit ";

/// Runs a script.
pub(crate) fn run(kit: &Kit, run: &Run<'_>) -> Result<Ran> {
    let snapshot = {
        // Two who want the same would make it over each other.
        let _alone = kit.making.lock().unwrap_or_else(PoisonError::into_inner);
        snapshot(kit, run.machine, run.image)?
    };
    let work = Work::new(kit)?;
    let mut line = run.machine.command(kit, run.image, &work.0)?;
    line.extend([
        "-incoming".into(),
        format!("file:{}", snapshot.display()).into(),
    ]);
    let report = work.file("truth.json");
    let profile = work.file("profile");
    if run.truth != Counted::Nothing || run.profile {
        line.push("-plugin".into());
        let mut plugin = plugin(kit, run, &report);
        if run.profile {
            plugin += &format!(",profile={}", profile.display());
        }
        line.push(plugin.into());
    }
    let started = Instant::now();
    // The limit is one of processor time, so that a busy host makes no run fail.
    let mut qemu = Qemu::start(
        ending_with_us("prlimit")
            .arg(format!("--cpu={}", (run.limit + GRACE).as_secs()))
            .args(&line),
        &work,
    )?;
    work.feed(run.script)?;
    let Waited {
        status,
        stopped,
        processor,
    } = qemu.wait_within(run.limit, &work)?;
    let output = text(&work.file("out"));
    let output = output
        .split_once(READY)
        .map_or(output.as_str(), |(_, after)| after);
    let (output, code) = match output.rsplit_once(EXIT) {
        Some((before, code)) => (before, code.trim().parse().ok()),
        None => (output, None),
    };
    let mut said = text(&work.file("qemu.log"));
    if code.is_none() {
        let why = match status {
            Some(status) => format!("QEMU ended with {status}"),
            None => "stopped: it took too long".to_owned(),
        };
        said = format!(
            "{why} after {:.0} s\n{said}",
            started.elapsed().as_secs_f64()
        );
    }
    Ok(Ran {
        code,
        stopped,
        output: output.to_owned(),
        console: text(&work.file("console")),
        qemu: said,
        truth: fs::read_to_string(report).ok(),
        profile: fs::read_to_string(profile).ok(),
        files: fs::read(work.file("files.tar")).unwrap_or_default(),
        wall: started.elapsed(),
        processor,
    })
}

/// A command whose process is killed as soon as we are gone, however that comes.
fn ending_with_us(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL"]).arg(program);
    command
}

/// The plugin's file and parameters.
fn plugin(kit: &Kit, run: &Run<'_>, report: &Path) -> String {
    let machine = run.machine;
    format!(
        "{},out={},nodes={},cpn={},memmb={},shift={CLOCK_SHIFT},pages={},dist={}",
        kit.path("build/numatruth.so").display(),
        report.display(),
        machine.all_nodes(),
        machine.cpus_per_node,
        machine.node_mib,
        u8::from(run.truth == Counted::Pages),
        distances(machine),
    )
}

/// Rows divided by `/`, numbers by `:`.
fn distances(machine: &Machine) -> String {
    let row = |row: &Vec<u32>| {
        let numbers: Vec<String> = row.iter().map(ToString::to_string).collect();
        numbers.join(":")
    };
    let rows: Vec<String> = machine.distance.iter().map(row).collect();
    rows.join("/")
}

/// The kept state of a guest that waits for its script; made if there is none yet.
fn snapshot(kit: &Kit, machine: &Machine, image: &Path) -> Result<PathBuf> {
    let mut hasher = DefaultHasher::new();
    fs::read(image)?.hash(&mut hasher);
    machine
        .command(kit, image, Path::new(""))?
        .hash(&mut hasher);
    let image_name = image.file_stem().unwrap_or_default().to_string_lossy();
    let kernel = kit.kernel()?;
    let kernel = kernel.file_name().unwrap_or_default().to_string_lossy();
    let prefix = format!("guest-{}-{image_name}-{kernel}-", machine.name);
    let kept = kit.path(&format!("{prefix}{:016x}", hasher.finish()));
    if kept.exists() {
        return Ok(kept);
    }
    forget_older(kit, &prefix)?;
    let work = Work::new(kit)?;
    let socket = work.file("qmp");
    let mut line = machine.command(kit, image, &work.0)?;
    line.extend([
        "-qmp".into(),
        format!("unix:{},server=on,wait=off", socket.display()).into(),
    ]);
    let mut qemu = Qemu::start(
        ending_with_us("prlimit")
            .arg(format!("--cpu={}", BOOT_MAX.as_secs()))
            .args(&line),
        &work,
    )?;
    let patience = Instant::now();
    while !text(&work.file("out")).contains(READY) {
        if patience.elapsed() > BOOT_MAX * PATIENCE || qemu.ended()? {
            let (console, said) = (text(&work.file("console")), text(&work.file("qemu.log")));
            bail!(
                "the guest `{}` did not come up:\n{}\n{said}",
                machine.name,
                last(&console, 40)
            );
        }
        sleep(Duration::from_millis(50));
    }
    // Lets the guest go to sleep in its read.
    sleep(Duration::from_millis(500));
    let part = kept.with_extension("part");
    let mut monitor = Monitor::connect(&socket)?;
    monitor.ask("qmp_capabilities", "{}")?;
    monitor.ask("migrate-set-parameters", r#"{"max-bandwidth":17179869184}"#)?;
    // A guest that runs on may write to a page just when it is taken, and the page is kept as it was before.
    monitor.ask("stop", "{}")?;
    monitor.ask(
        "migrate",
        &format!(r#"{{"uri":"file:{}"}}"#, part.display()),
    )?;
    loop {
        let answer = monitor.ask("query-migrate", "{}")?;
        if answer.contains(r#""completed""#) {
            break;
        }
        if answer.contains(r#""failed""#) {
            bail!(
                "the state of guest `{}` cannot be kept: {answer}",
                machine.name
            );
        }
        sleep(Duration::from_millis(50));
    }
    monitor.ask("quit", "{}")?;
    qemu.wait(Duration::from_secs(20))?;
    fs::rename(&part, &kept)?;
    Ok(kept)
}

/// Removes states that belong to images that are no more.
fn forget_older(kit: &Kit, prefix: &str) -> Result<()> {
    for entry in fs::read_dir(kit.path(""))? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(prefix) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Begins the names of folders of runs, and of those that are kept.
const RUN: &str = "run-";
const KEPT: &str = "kept-";

/// Removes folders of runs whose numad-vm is gone: one that is killed, by Ctrl-C too, leaves its
/// own behind.
fn forget_dead(folder: &Path) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let number = name.strip_prefix(RUN).and_then(|rest| rest.split_once('-'));
        let dead = number.is_some_and(|(pid, _)| !Path::new("/proc").join(pid).exists());
        if dead {
            // Another may do the same.
            drop(fs::remove_dir_all(entry.path()));
        }
    }
    Ok(())
}

/// The files of one run.
struct Work(PathBuf);

impl Work {
    fn new(kit: &Kit) -> Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        forget_dead(&kit.path(""))?;
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = kit.path(&format!("{RUN}{}-{number}", std::process::id()));
        fs::create_dir(&folder).with_context(|| format!("cannot make `{}`", folder.display()))?;
        mkfifo(&folder.join("in"), Mode::S_IRUSR | Mode::S_IWUSR)?;
        Ok(Self(folder))
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// The pipe to the guest. Open for both directions, it is never at its end and opening it never waits.
    fn pipe(&self) -> Result<File> {
        Ok(OpenOptions::new()
            .read(true)
            .write(true)
            .open(self.file("in"))?)
    }

    /// Sends the script as an archive with its length in front.
    fn feed(&self, script: &str) -> Result<()> {
        let folder = self.file("tree");
        let inside = folder.join("run/scenario");
        fs::create_dir_all(&inside)?;
        fs::write(inside.join("script"), script)?;
        let packed = Command::new("tar")
            .arg("-C")
            .arg(&folder)
            .args(["-cf", "-", "run"])
            .output()?;
        let mut bytes = format!("{}\n", packed.stdout.len()).into_bytes();
        bytes.extend(packed.stdout);
        let mut pipe = self.pipe()?;
        // The guest reads when it runs; writing may have to wait for it, and we must not.
        std::thread::spawn(move || pipe.write_all(&bytes).is_ok());
        Ok(())
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        let done = match std::env::var_os("NUMAD_VM_KEEP") {
            Some(_) => {
                let name = self.0.file_name().unwrap_or_default().to_string_lossy();
                fs::rename(&self.0, self.0.with_file_name(name.replace(RUN, KEPT)))
            }
            None => fs::remove_dir_all(&self.0),
        };
        if let Err(error) = done {
            debug_assert!(false, "cannot clear `{}`: {error}", self.0.display());
        }
    }
}

/// How it ended.
#[derive(Debug, Default)]
struct Waited {
    /// None if it did not end by itself.
    status: Option<ExitStatus>,
    /// Whether the guest was told that its time is over.
    stopped: bool,
    /// Processor time up to its end.
    processor: Duration,
}

/// A running QEMU, which ends with us.
struct Qemu {
    child: Child,
    /// Keeps the pipe to the guest from ever being at its end.
    _pipe: File,
}

impl Qemu {
    fn start(command: &mut Command, work: &Work) -> Result<Self> {
        let pipe = work.pipe()?;
        let log = File::create(work.file("qemu.log"))?;
        let child = command
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("cannot start {:?}", command.get_program()))?;
        Ok(Self { child, _pipe: pipe })
    }

    fn ended(&mut self) -> Result<bool> {
        Ok(self.child.try_wait()?.is_some())
    }

    /// Waits for its end; at the limit of processor time, tells the guest so.
    fn wait_within(&mut self, limit: Duration, work: &Work) -> Result<Waited> {
        let started = Instant::now();
        let stat = format!("/proc/{}/stat", self.child.id());
        let mut waited = Waited::default();
        while started.elapsed() < (limit + GRACE) * PATIENCE {
            waited.status = self.child.try_wait()?;
            if waited.status.is_some() {
                break;
            }
            waited.processor = processor_time(&stat).max(waited.processor);
            let over = waited.processor > limit || started.elapsed() > limit * PATIENCE;
            if over && !waited.stopped {
                work.pipe()?.write_all(b"stop\n")?;
                waited.stopped = true;
            }
            sleep(Duration::from_millis(50));
        }
        Ok(waited)
    }

    /// Waits for its end; none if that took longer than the patience.
    fn wait(&mut self, patience: Duration) -> Result<Option<ExitStatus>> {
        let started = Instant::now();
        while started.elapsed() < patience {
            if let Some(status) = self.child.try_wait()? {
                return Ok(Some(status));
            }
            sleep(Duration::from_millis(50));
        }
        Ok(None)
    }
}

impl Drop for Qemu {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) && self.child.kill().is_ok() {
            let ended = self.child.wait();
            debug_assert!(ended.is_ok(), "a child of ours can be waited for");
        }
    }
}

/// QEMU's own control socket.
struct Monitor(BufReader<UnixStream>);

impl Monitor {
    fn connect(socket: &Path) -> Result<Self> {
        let stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        let mut monitor = Self(BufReader::new(stream));
        monitor.line()?; // its greeting
        Ok(monitor)
    }

    /// The answer as it came; events in between are left out.
    fn ask(&mut self, command: &str, arguments: &str) -> Result<String> {
        let request = format!("{{\"execute\":\"{command}\",\"arguments\":{arguments}}}\n");
        self.0.get_mut().write_all(request.as_bytes())?;
        loop {
            let line = self.line()?;
            if line.contains(r#""error""#) {
                bail!("QEMU refuses `{command}`: {line}");
            }
            if line.contains(r#""return""#) {
                return Ok(line);
            }
        }
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        if self.0.read_line(&mut line)? == 0 {
            bail!("QEMU closed its control socket");
        }
        Ok(line)
    }
}

/// What a process has used, by its line of numbers; nothing if it is gone.
fn processor_time(stat: &str) -> Duration {
    // In hundredths of a second, which is what Linux counts by for programs on any x86 machine.
    let ticks: u64 = fs::read_to_string(stat)
        .ok()
        .and_then(|line| Some(ticks(&line)?.sum()))
        .unwrap_or_default();
    Duration::from_millis(ticks * 10)
}

/// Time in user mode and in the kernel. The name before them may have blanks and brackets in it.
fn ticks(stat: &str) -> Option<impl Iterator<Item = u64>> {
    let (_, numbers) = stat.rsplit_once(") ")?;
    let numbers = numbers.split(' ').skip(11).take(2);
    Some(numbers.filter_map(|number| number.parse().ok()))
}

fn text(file: &Path) -> String {
    String::from_utf8_lossy(&fs::read(file).unwrap_or_default()).into_owned()
}

/// The last lines of a text.
pub(crate) fn last(text: &str, lines: usize) -> String {
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_is_read_behind_any_name() {
        let line = "7 (a) b (c) S 1 7 7 0 -1 4194560 1 2 3 4 250 50 9 9 20 0 1 0 5";
        assert_eq!(ticks(line).unwrap().sum::<u64>(), 300);
        assert!(ticks("").is_none());
        assert_eq!(processor_time("/nonexistent"), Duration::ZERO);
    }

    #[test]
    fn what_a_dead_run_left_is_removed() {
        let folder = std::env::temp_dir().join(format!("numad-vm-{}", std::process::id()));
        let own = format!("{RUN}{}-0", std::process::id());
        // No process has a number above 4194304.
        for name in [&own, "run-4194305-0", "kept-4194305-0", "guest-x"] {
            fs::create_dir_all(folder.join(name).join("tree")).unwrap();
        }
        forget_dead(&folder).unwrap();
        let left = ["run-4194305-0", &own, "kept-4194305-0", "guest-x"];
        let left = left.map(|name| folder.join(name).exists());
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(left, [false, true, true, true]);
    }

    #[test]
    fn the_last_lines_are_the_last() {
        assert_eq!(last("a\nb\nc\n", 2), "b\nc");
        assert_eq!(last("a", 2), "a");
    }
}
