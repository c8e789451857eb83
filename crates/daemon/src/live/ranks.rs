//! Which processes say that they are ranks of an MPI job.
//!
//! To read a process's environment is to read its memory, and a process may have it lie on a file
//! system that it serves itself: then the read lasts as long as it likes. So it is given up when it
//! takes too long, as all questions about memory are.

use std::collections::BTreeMap;
use std::time::Duration;

use actuator::{Asker, Bound};
use procfs::{Presence, Rank, Reader};
use topology::Pid;

use super::maps::asker;

/// How long one environment may take. One takes 20 us, and more where all ranks of a job begin at
/// once; a rank that is not known then is not counted for as long as it runs.
const ENVIRON: Bound = Bound {
    wait: Duration::from_millis(500),
    slow: Duration::from_millis(250),
    counted: Duration::from_millis(20),
};

/// See the module. It asks by itself: what it takes is not the engine's, and who keeps its
/// environment to itself is asked other things all the same.
#[derive(Clone, Debug)]
pub(super) struct Ranks {
    reader: Reader,
    asker: Asker,
}

impl Ranks {
    pub(super) fn new(reader: Reader) -> Self {
        Self {
            asker: asker(&reader),
            reader,
        }
    }

    /// Those of these processes that say they are ranks; one that cannot be read, or not in time,
    /// says nothing.
    pub(super) fn of(&self, pids: &[Pid]) -> BTreeMap<Pid, Rank> {
        let rank = |&pid: &Pid| {
            let reader = self.reader.clone();
            let read = self.asker.ask(pid, ENVIRON, move || reader.rank(pid));
            let rank = read.ok()?.ok().and_then(Presence::here)?;
            Some((pid, rank))
        };
        pids.iter().filter_map(rank).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

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
        // Too many of one user that never answer, and nothing is asked of that user any more.
        let began = Instant::now();
        let hanging: Vec<Pid> = (11..=20).map(Pid).collect();
        assert!(ranks.of(&hanging).is_empty());
        assert!(ranks.of(&[Pid(10)]).is_empty());
        assert!(began.elapsed() < 6 * ENVIRON.wait);
        let (_, hanging) = ranks.asker.counts();
        assert!((2..=4).contains(&hanging), "{hanging}");
    }
}
