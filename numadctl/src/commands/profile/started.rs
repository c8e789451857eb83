//! A program that is run to be profiled.

use std::ffi::{OsStr, OsString};
use std::fs::DirBuilder;
use std::io::{self, IsTerminal as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use control::profile::{Profile, Thresholds};
use control::rows::{RecordRequest, Target};
use control::{ErrorKind, Failure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::client::Client;
use crate::commands::attach::find_program;
use crate::commands::compare::exit_code;
use crate::fresh::Fresh;
use crate::output::Output;
use crate::stopped;
use crate::waiting::{Waiting, Woken};

use super::of_files;

/// A directory of this process alone, removed with what is in it.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Self, Failure> {
        let path = std::env::temp_dir().join(format!("numadctl-profile-{}", std::process::id()));
        // One that is there already may be another user's.
        DirBuilder::new()
            .mode(0o700)
            .create(&path)
            .map_err(|error| {
                let text = format!("cannot make `{}`: {error}", path.display());
                Failure::new(ErrorKind::Kernel, text).remedy("set TMPDIR to another directory")
            })?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What is left is in the temporary directory, which the system clears.
        drop(std::fs::remove_dir_all(&self.0));
    }
}

/// A program that is to be run.
pub(super) struct Started<'a> {
    /// With its arguments.
    pub(super) command: &'a [OsString],
    /// Whether its standard output stays its own. Else it goes to the error stream: ours holds the profile.
    pub(super) keeps_output: bool,
}

impl Started<'_> {
    fn output(&self) -> Stdio {
        match self.keeps_output {
            true => Stdio::inherit(),
            false => Stdio::from(io::stderr()),
        }
    }
}

/// Runs it to its end; its profile and its exit code.
pub(super) fn run(
    client: &Client,
    started: &Started<'_>,
    thresholds: Thresholds,
    err: &mut Output<'_>,
) -> Result<(Profile, u8), Failure> {
    let (name, rest) = started.command.split_first().ok_or_else(|| {
        Failure::new(ErrorKind::Usage, "no command is given").remedy("name it after `--`")
    })?;
    let program = find_program(name)?;
    // Before the folder is made: a signal that ends numadctl at once would leave it behind.
    let mut waiting = Waiting::new(client.runtime())?;
    let folder = Folder::new()?;
    let run = OneRun {
        program: &program,
        rest,
        output: started.output(),
        folder: &folder,
    };
    match is_open_mpi(&program) {
        true => messages(run, &mut waiting, thresholds),
        false => recorded(client, run, &mut waiting, (thresholds, err)),
    }
}

/// What is run, and where what it leaves is kept.
struct OneRun<'a> {
    program: &'a Path,
    rest: &'a [OsString],
    output: Stdio,
    folder: &'a Folder,
}

/// Waits for the end of the program. Signals that ask numadctl to end go to the program: what it leaves is removed only
/// when it has ended.
fn ended(child: &mut Child, waiting: &mut Waiting<'_>) -> Result<ExitStatus, Failure> {
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap_or(i32::MAX));
    let mut earlier = waiting.interrupted().then(|| waiting.signal()).flatten();
    loop {
        if let Some(signal) = earlier.take() {
            pass_on(pid, signal);
        }
        match waiting.child(child, None)? {
            Woken::Ended(status) => return Ok(status),
            Woken::Interrupted(signal) => pass_on(pid, signal),
            Woken::Late => {}
        }
    }
}

fn pass_on(pid: Pid, signal: Signal) {
    // Ctrl-C of a terminal goes to the program as well.
    if signal != Signal::SIGINT || !io::stdin().is_terminal() {
        let _gone_already = kill(pid, signal);
    }
}

/// Whether this is the mpirun of Open MPI, by its own word.
pub(crate) fn is_open_mpi(program: &Path) -> bool {
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    if !["mpirun", "mpiexec", "orterun", "prterun"]
        .iter()
        .any(|known| name.starts_with(known))
    {
        return false;
    }
    let told = Command::new(program)
        .arg("--version")
        .stdin(Stdio::null())
        .output();
    told.is_ok_and(|told| {
        let told = String::from_utf8_lossy(&told.stdout);
        // Debian's calls itself by the name of its runtime.
        ["Open MPI", "OpenRTE"]
            .iter()
            .any(|known| told.contains(known))
    })
}

/// What makes ranks of Open MPI write what they sent.
pub(crate) fn monitoring(folder: &Path) -> Vec<(&'static str, OsString)> {
    vec![
        ("OMPI_MCA_pml_monitoring_enable", "2".into()),
        ("OMPI_MCA_pml_monitoring_enable_output", "3".into()),
        (
            "OMPI_MCA_pml_monitoring_filename",
            folder.join("prof").into_os_string(),
        ),
    ]
}

fn messages(
    run: OneRun<'_>,
    waiting: &mut Waiting<'_>,
    thresholds: Thresholds,
) -> Result<(Profile, u8), Failure> {
    let OneRun {
        program,
        rest,
        output,
        folder,
    } = run;
    let mut child = Command::new(program)
        .args(rest)
        .envs(monitoring(&folder.0))
        .stdout(output)
        .spawn()
        .map_err(|error| cannot_start(program, &error))?;
    let status = ended(&mut child, waiting)?;
    let code = u8::try_from(exit_code(status)).unwrap_or(u8::MAX);
    let profile = of_files(std::slice::from_ref(&folder.0), thresholds).map_err(|failure| {
        let text = format!(
            "`{}` left no counts of messages ({}), exit code {code}",
            program.display(),
            failure.message
        );
        Failure::new(ErrorKind::Program, text)
            .remedy("its ranks must run here and come to MPI_Finalize")
    })?;
    Ok((renamed(profile, program.as_os_str(), rest), code))
}

fn recorded(
    client: &Client,
    run: OneRun<'_>,
    waiting: &mut Waiting<'_>,
    (thresholds, err): (Thresholds, &mut Output<'_>),
) -> Result<(Profile, u8), Failure> {
    let OneRun {
        program,
        rest,
        output,
        folder,
    } = run;
    let path = folder.0.join("recording");
    let mut file = Fresh::begin(&path)?;
    let mut child = stopped::command(program, rest)
        .stdout(output)
        .spawn()
        .map_err(|error| cannot_start(program, &error))?;
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap_or(i32::MAX));
    let request = RecordRequest {
        target: Target::Pids(vec![child.id()]),
        for_ms: None,
    };
    let over = stopped::wait(pid, waiting)
        .and_then(|()| client.record(&request, &mut || stopped::let_go(pid), &mut file));
    if let Err(failure) = over {
        // It has not begun, or nobody watches it any more.
        drop(child.kill());
        drop(child.wait());
        return Err(failure);
    }
    let status = ended(&mut child, waiting)?;
    let code = u8::try_from(exit_code(status)).unwrap_or(u8::MAX);
    file.keep()?;
    let profile = of_files(&[path], thresholds);
    if profile.is_err() {
        err.text(&format!(
            "numadctl: the program ended with exit code {code}\n"
        ))?;
    }
    Ok((renamed(profile?, program.as_os_str(), rest), code))
}

/// A profile that names the command, not the file that is gone.
fn renamed(mut profile: Profile, program: &OsStr, rest: &[OsString]) -> Profile {
    let words = std::iter::once(program).chain(rest.iter().map(OsString::as_os_str));
    let words: Vec<String> = words
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    profile.source = words.join(" ");
    profile
}

fn cannot_start(program: &Path, error: &io::Error) -> Failure {
    let text = format!("cannot start `{}`: {error}", program.display());
    Failure::new(ErrorKind::Kernel, text).remedy("try it without numadctl")
}
