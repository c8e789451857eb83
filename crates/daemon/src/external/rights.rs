//! What an external policy is left with: a user who owns nothing, no groups, no capabilities, and limits.
//!
//! The daemon starts itself once more (`numad --external-policy ...`); that process gives everything up and becomes the
//! program. So nothing has to be done between fork and exec of a process with several threads.

use std::ffi::OsString;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use nix::sys::prctl;
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::Signal;
use nix::unistd::{Gid, Uid, geteuid, setgroups, setresgid, setresuid};

use super::Launch;

/// First word of the command line of that process.
pub const FLAG: &str = "--external-policy";

/// Its exit codes where it did not become the program.
pub(super) const NOT_GIVEN_UP: i32 = 121;
pub(super) const NOT_STARTED: i32 = 122;

/// Processor time of a program from one start to the next, open files, processes and threads of its user, and the
/// size of a file that it may write.
const CPU_S: u64 = 600;
const FILES_MAX: u64 = 64;
const PROCESSES_MAX: u64 = 64;
const FILE_BYTES_MAX: u64 = 1 << 20;

/// `CAP_SETGID` and `CAP_SETUID` in a mask of capabilities.
const SETGID_SETUID: u64 = (1 << 6) | (1 << 7);

/// Whether this process can become that user.
#[must_use]
pub(super) fn can_become(uid: u32) -> bool {
    let effective = capabilities("CapEff:").unwrap_or(0);
    effective & SETGID_SETUID == SETGID_SETUID || (effective == 0 && geteuid().as_raw() == uid)
}

/// The process that becomes the program; pipes are for the caller to add.
pub(super) fn command(launch: &Launch, daemon: &PathBuf) -> Command {
    let mut command = Command::new(daemon);
    command
        .arg(FLAG)
        .arg(launch.uid.to_string())
        .arg(launch.gid.to_string())
        .arg(launch.memory_bytes.to_string())
        .arg(&launch.program)
        .env_clear()
        .current_dir("/")
        .stderr(Stdio::null())
        .process_group(0);
    command
}

/// Gives everything up and becomes the program that the words after [`FLAG`] name. Returns only if it cannot, with the
/// exit code.
#[must_use]
pub fn become_program(words: &[OsString]) -> u8 {
    let number = |at: usize| words.get(at)?.to_str()?.parse::<u64>().ok();
    let small = |at: usize| u32::try_from(number(at)?).ok();
    let (Some(uid), Some(gid), Some(memory), Some(program)) =
        (small(0), small(1), number(2), words.get(3))
    else {
        return code(NOT_GIVEN_UP);
    };
    if give_up(uid, gid, memory).is_err() || !nothing_left(uid) {
        return code(NOT_GIVEN_UP);
    }
    let mut command = Command::new(program);
    command.env_clear().env("PATH", "/usr/bin:/bin");
    // Only comes back when it failed.
    drop(command.exec());
    code(NOT_STARTED)
}

fn give_up(uid: u32, gid: u32, memory: u64) -> nix::Result<()> {
    let limit = |resource, most| setrlimit(resource, most, most);
    limit(Resource::RLIMIT_CPU, CPU_S)?;
    limit(Resource::RLIMIT_NOFILE, FILES_MAX)?;
    limit(Resource::RLIMIT_FSIZE, FILE_BYTES_MAX)?;
    limit(Resource::RLIMIT_CORE, 0)?;
    limit(Resource::RLIMIT_AS, memory)?;
    if geteuid().as_raw() != uid || capabilities("CapPrm:") != Some(0) {
        let (uid, gid, root) = (Uid::from_raw(uid), Gid::from_raw(gid), Uid::from_raw(0));
        setgroups(&[])?;
        setresgid(gid, gid, gid)?;
        // By way of root, because the kernel takes all capabilities, ambient ones included, from who ceases to be root
        // and from nobody else.
        setresuid(root, root, root)?;
        setresuid(uid, uid, uid)?;
    }
    // After the change of user, who may have more processes than that without harm to this start.
    limit(Resource::RLIMIT_NPROC, PROCESSES_MAX)?;
    prctl::set_no_new_privs()?;
    prctl::set_pdeathsig(Signal::SIGKILL)
}

/// Checks what was given up instead of believing it.
fn nothing_left(uid: u32) -> bool {
    let left = ["CapPrm:", "CapEff:", "CapAmb:"].map(capabilities);
    left.iter().all(|&set| set == Some(0)) && geteuid().as_raw() == uid
}

/// A set of capabilities of this process.
fn capabilities(name: &str) -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    u64::from_str_radix(line.trim(), 16).ok()
}

fn code(code: i32) -> u8 {
    u8::try_from(code).unwrap_or(1)
}
