//! Environments of the processes that a launcher may have started.
//!
//! To read a process's environment is to read its memory, and that lasts as long as the process likes. So it is done on
//! a thread that is given up when it takes too long, and strangers are not asked.

use std::collections::BTreeSet;
use std::io::Read as _;
use std::path::PathBuf;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use procfs::Reader;
use procfs::environ::ENVIRON_BYTES_MAX;
use topology::Pid;

/// How long one environment may take. One takes 20 us.
const WAIT: Duration = Duration::from_millis(500);

/// Threads that may hang in a process's memory. With so many, nobody is asked any more.
const SILENT_MAX: usize = 4;

/// See the module.
#[derive(Debug)]
pub(super) struct Environs {
    reader: Reader,
    /// Who did not answer in time. Each holds a thread, and is asked no more.
    silent: BTreeSet<Pid>,
}

impl Environs {
    /// Of the processes below this root, `/` on the live machine.
    pub(super) fn new(root: impl Into<PathBuf>) -> Self {
        Self {
            reader: Reader::new(root),
            silent: BTreeSet::new(),
        }
    }

    /// Of all that began no earlier than the launcher. Slurm's ranks are no descendants of `srun`.
    pub(super) fn since(&mut self, launcher: Pid) -> Vec<(Pid, Vec<u8>)> {
        let began = |pid: Pid| Some(self.reader.stat(pid).ok()?.here()?.start);
        let Some(start) = began(launcher) else {
            return Vec::new();
        };
        let pids = self.reader.pids().unwrap_or_default().into_iter();
        let asked: Vec<Pid> = pids
            .filter(|pid| !self.silent.contains(pid))
            .filter(|pid| began(*pid).is_some_and(|began| began >= start))
            .collect();
        let mut environs = Vec::new();
        let mut rest = &asked[..];
        while !rest.is_empty() && self.silent.len() < SILENT_MAX {
            rest = self.ask(rest, &mut environs);
        }
        environs
    }

    /// Asks these one after the other; gives those behind the first that does not answer.
    fn ask<'a>(&mut self, pids: &'a [Pid], environs: &mut Vec<(Pid, Vec<u8>)>) -> &'a [Pid] {
        let (answer, answers) = channel();
        let (root, asked) = (self.reader.root().to_owned(), pids.to_vec());
        let thread = thread::Builder::new().spawn(move || {
            for pid in asked {
                let environ = head(root.join(format!("proc/{pid}/environ")));
                if answer.send(environ).is_err() {
                    break;
                }
            }
        });
        if thread.is_err() {
            return &[];
        }
        for (at, &pid) in pids.iter().enumerate() {
            match answers.recv_timeout(WAIT) {
                Ok(environ) => environs.extend(environ.map(|environ| (pid, environ))),
                Err(RecvTimeoutError::Timeout) => {
                    self.silent.insert(pid);
                    return &pids[at + 1..];
                }
                Err(RecvTimeoutError::Disconnected) => return &[],
            }
        }
        &[]
    }
}

/// The beginning of an environment, where it can be read.
fn head(path: PathBuf) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).ok()?;
    file.take(ENVIRON_BYTES_MAX as u64)
        .read_to_end(&mut bytes)
        .ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// A process of a made-up machine; one without an environment never answers.
    fn process(root: &Path, pid: u32, start: u32, environ: Option<&str>) {
        let folder = root.join(format!("proc/{pid}/task/{pid}"));
        std::fs::create_dir_all(&folder).unwrap();
        let stat = format!(
            "{pid} (a) S 7 1 1 0 -1 4194304 0 0 0 0 3 4 0 0 20 0 1 0 {start} 0 5 0 0 0 0 0 0 0 0 0 0 0 0 17 6 0 0 0 0 0\n"
        );
        std::fs::write(folder.join("stat"), stat).unwrap();
        let file = root.join(format!("proc/{pid}/environ"));
        match environ {
            Some(text) => std::fs::write(file, text).unwrap(),
            // Nobody ever writes to it: to open it takes for ever.
            None => nix::unistd::mkfifo(&file, nix::sys::stat::Mode::S_IRUSR).unwrap(),
        }
    }

    #[test]
    fn who_never_answers_keeps_nobody_else_waiting() {
        let root = std::env::temp_dir().join(format!("numadctl-environs-{}", std::process::id()));
        process(&root, 10, 49, None);
        process(&root, 20, 50, Some("launcher"));
        process(&root, 30, 51, None);
        process(&root, 40, 51, Some("rank"));
        let mut environs = Environs::new(&root);
        let expected = [(Pid(20), b"launcher".to_vec()), (Pid(40), b"rank".to_vec())];
        assert_eq!(environs.since(Pid(20)), expected);
        // Who was there before the launcher was not asked, and who was silent is asked no more.
        assert_eq!(environs.silent, BTreeSet::from([Pid(30)]));
        let begun = std::time::Instant::now();
        assert_eq!(environs.since(Pid(20)), expected);
        assert!(begun.elapsed() < WAIT);
        assert!(environs.since(Pid(99)).is_empty(), "no launcher, no ranks");
        std::fs::remove_dir_all(root).unwrap();
    }
}
