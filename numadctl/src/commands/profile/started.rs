//! A program that is run to be profiled.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use control::profile::{Profile, Thresholds};
use control::rows::{RecordRequest, Target};
use control::{ErrorKind, Failure};
use nix::unistd::Pid;

use crate::client::Client;
use crate::commands::attach::find_program;
use crate::commands::compare::exit_code;
use crate::fresh::Fresh;
use crate::output::Output;
use crate::stopped;
use crate::waiting::Waiting;

use super::of_files;

/// A directory of this process alone, removed with what is in it.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Self, Failure> {
        let path = std::env::temp_dir().join(format!("numadctl-profile-{}", std::process::id()));
        // One that is there already may be another user's.
        std::fs::create_dir(&path).map_err(|error| {
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

/// Runs it to its end; its profile and its exit code.
pub(super) fn run(
    client: &Client,
    command: &[OsString],
    thresholds: Thresholds,
    err: &mut Output<'_>,
) -> Result<(Profile, u8), Failure> {
    let (name, rest) = command.split_first().ok_or_else(|| {
        Failure::new(ErrorKind::Usage, "no command is given").remedy("name it after `--`")
    })?;
    let program = find_program(name)?;
    let folder = Folder::new()?;
    match is_open_mpi(&program) {
        true => messages(&program, rest, &folder, thresholds),
        false => recorded(client, (&program, rest), &folder, thresholds, err),
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
    program: &Path,
    rest: &[OsString],
    folder: &Folder,
    thresholds: Thresholds,
) -> Result<(Profile, u8), Failure> {
    let status = Command::new(program)
        .args(rest)
        .envs(monitoring(&folder.0))
        .status()
        .map_err(|error| cannot_start(program, &error))?;
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
    (program, rest): (&Path, &[OsString]),
    folder: &Folder,
    thresholds: Thresholds,
    err: &mut Output<'_>,
) -> Result<(Profile, u8), Failure> {
    let path = folder.0.join("recording");
    let mut file = Fresh::begin(&path)?;
    let mut waiting = Waiting::new(client.runtime())?;
    let mut child = stopped::command(program, rest)
        .spawn()
        .map_err(|error| cannot_start(program, &error))?;
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap_or(i32::MAX));
    let request = RecordRequest {
        target: Target::Pids(vec![child.id()]),
        for_ms: None,
    };
    let over = stopped::wait(pid, &mut waiting)
        .and_then(|()| client.record(&request, &mut || stopped::let_go(pid), &mut file));
    if let Err(failure) = over {
        // It has not begun, or nobody watches it any more.
        drop(child.kill());
        drop(child.wait());
        return Err(failure);
    }
    let status = child
        .wait()
        .map_err(|error| cannot_start(program, &error))?;
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
