//! Which processes say that they are ranks of an MPI job.
//!
//! To read a process's environment is to read its memory, and a process may have it lie on a file system that it serves
//! itself: then the read lasts as long as it likes. So it is done on a thread that is given up when it takes too long.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use procfs::{Presence, Rank, Reader};
use topology::Pid;

/// How long one environment may take. One takes 20 us.
const WAIT: Duration = Duration::from_millis(500);

/// Threads that may hang in a process's memory. With so many, no environment is read until one comes back.
const STUCK_MAX: usize = 4;

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct Ranks {
    reader: Reader,
    stuck: Arc<AtomicUsize>,
}

impl Ranks {
    pub(super) fn new(reader: Reader) -> Self {
        Self {
            reader,
            stuck: Arc::default(),
        }
    }

    /// Those of these processes that say they are ranks; one that cannot be read, or not in time, says nothing.
    pub(super) fn of(&self, pids: &[Pid]) -> BTreeMap<Pid, Rank> {
        let mut found = BTreeMap::new();
        let mut rest = pids;
        while !rest.is_empty() && self.stuck.load(Ordering::Relaxed) < STUCK_MAX {
            let answered = self.ask(rest, &mut found);
            // The first that did not answer holds the thread.
            rest = rest.get(answered + 1..).unwrap_or_default();
        }
        found
    }

    /// How many of these answered, from the first on.
    fn ask(&self, pids: &[Pid], found: &mut BTreeMap<Pid, Rank>) -> usize {
        let (answer, answers) = channel();
        let (reader, stuck, asked) = (self.reader.clone(), Arc::clone(&self.stuck), pids.to_vec());
        stuck.fetch_add(1, Ordering::Relaxed);
        let thread = thread::Builder::new()
            .name("numad-ranks".to_owned())
            .spawn(move || {
                for pid in asked {
                    let rank = reader.rank(pid).ok().and_then(Presence::here);
                    if answer.send((pid, rank)).is_err() {
                        break;
                    }
                }
                stuck.fetch_sub(1, Ordering::Relaxed);
            });
        if thread.is_err() {
            self.stuck.fetch_sub(1, Ordering::Relaxed);
            return pids.len();
        }
        for answered in 0..pids.len() {
            match answers.recv_timeout(WAIT) {
                Ok((pid, rank)) => found.extend(rank.map(|rank| (pid, rank))),
                Err(RecvTimeoutError::Timeout) => return answered,
                Err(RecvTimeoutError::Disconnected) => return pids.len(),
            }
        }
        pids.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    /// A process of a made-up machine.
    fn process(scratch: &Scratch, pid: u32, environ: Option<&str>) {
        let folder = scratch.path().join(format!("proc/{pid}/task/{pid}"));
        std::fs::create_dir_all(&folder).unwrap();
        let stat = format!(
            "{pid} (a) S 7 1 1 0 -1 4194304 0 0 0 0 3 4 0 0 20 0 1 0 50 0 5 0 0 0 0 0 0 0 0 0 0 0 0 17 6 0 0 0 0 0\n"
        );
        std::fs::write(folder.join("stat"), stat).unwrap();
        let environ_file = scratch.path().join(format!("proc/{pid}/environ"));
        match environ {
            Some(text) => std::fs::write(environ_file, text.replace(' ', "\0")).unwrap(),
            // Nobody ever writes to it: to open it takes for ever.
            None => nix::unistd::mkfifo(&environ_file, nix::sys::stat::Mode::S_IRUSR).unwrap(),
        }
    }

    #[test]
    fn who_never_answers_keeps_nobody_else_waiting() {
        let scratch = Scratch::new("environs");
        process(&scratch, 10, Some("PMI_RANK=0 PMI_SIZE=2"));
        for pid in 11..=20 {
            process(&scratch, pid, None);
        }
        process(&scratch, 21, Some("PMI_RANK=1 PMI_SIZE=2"));
        process(&scratch, 22, Some("HOME=/"));
        let ranks = Ranks::new(Reader::new(scratch.path()));
        let found = ranks.of(&[Pid(10), Pid(11), Pid(21), Pid(22), Pid(99)]);
        let found: Vec<(u32, u32)> = found.iter().map(|(pid, rank)| (pid.0, rank.rank)).collect();
        assert_eq!(found, [(10, 0), (21, 1)]);
        // Too many that never answer, and none is asked any more.
        let hanging: Vec<Pid> = (11..=20).map(Pid).collect();
        assert!(ranks.of(&hanging).is_empty());
        assert_eq!(ranks.stuck.load(Ordering::Relaxed), STUCK_MAX);
        assert!(ranks.of(&[Pid(10)]).is_empty());
    }
}
