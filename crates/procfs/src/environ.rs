//! Whether a process is a rank of an MPI job, as its environment says: `/proc/PID/environ`.
//!
//! The environment is the process's own memory, and it may write there what it likes. So everything here
//! is an allegation of a process about itself: bounded, without a character that a terminal would obey,
//! and never a reason to do anything to another process.

use std::fmt;

use topology::Pid;

/// What a process says that it is in an MPI job.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank {
    /// Its job, in the words of whoever started it.
    pub job: JobId,
    /// Its number in `MPI_COMM_WORLD`.
    pub rank: u32,
    /// How many ranks its world has, where that is known.
    pub size: Option<u32>,
    /// Who says so.
    pub launcher: Launcher,
}

/// The name of a job: 1 to [`JOB_BYTES_MAX`] letters, digits and `.-_@:`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct JobId(String);

/// Whose variables they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Launcher {
    /// Open MPI's `mpirun`.
    OpenMpi,
    /// Another that speaks PMIx.
    Pmix,
    /// Slurm's `srun`.
    Slurm,
    /// MPICH's or Intel's `mpiexec.hydra`.
    Hydra,
}

impl fmt::Display for Launcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OpenMpi => "openmpi",
            Self::Pmix => "pmix",
            Self::Slurm => "slurm",
            Self::Hydra => "hydra",
        })
    }
}

/// Longest name of a job. PMIx allows 255; those seen have at most 60.
pub const JOB_BYTES_MAX: usize = 128;
/// More ranks than this are no job of this world, and would be room for a lie.
pub const RANKS_MAX: u32 = 1 << 24;
/// What is read of an environment. Launchers put their variables first or last, by version; the usual
/// environment of a rank has 4 KiB, and the default limit of the kernel is 2 MiB with the arguments.
pub const ENVIRON_BYTES_MAX: usize = 256 << 10;

impl JobId {
    /// A name, if it is one.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        let fits = (1..=JOB_BYTES_MAX).contains(&text.len());
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_@:".contains(&byte);
        (fits && text.bytes().all(plain)).then(|| Self(text.to_owned()))
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What jobs have in common that ranks of one spawned from each other: Open MPI 4 counts them in the
    /// lower 16 bits of a number, PRRTE after an `@`, Slurm's steps after a dot.
    #[must_use]
    pub fn family(&self) -> String {
        if let Ok(number) = self.0.parse::<u32>() {
            return format!("openmpi-{}", number >> 16);
        }
        let cut = self.0.rsplit_once('@').or_else(|| {
            let (family, step) = self.0.rsplit_once('.')?;
            step.parse::<u32>().is_ok().then_some((family, step))
        });
        cut.map_or(self.0.as_str(), |(family, _)| family).to_owned()
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The variables that matter, as found; the first of a name counts, as it does for `getenv`.
#[derive(Default)]
struct Found<'a> {
    values: [Option<&'a str>; NAMES.len()],
}

const NAMES: [&str; 10] = [
    "PMIX_NAMESPACE",
    "PMIX_RANK",
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_SIZE",
    "PMI_RANK",
    "PMI_SIZE",
    "SLURM_JOB_ID",
    "SLURM_STEP_ID",
    "SLURM_PROCID",
    "SLURM_NTASKS",
];

impl<'a> Found<'a> {
    fn in_bytes(bytes: &'a [u8]) -> Self {
        let mut found = Self::default();
        let bytes = &bytes[..bytes.len().min(ENVIRON_BYTES_MAX)];
        for entry in bytes.split(|&byte| byte == 0) {
            let Some(equals) = entry.iter().position(|&byte| byte == b'=') else {
                continue;
            };
            let (name, value) = (&entry[..equals], &entry[equals + 1..]);
            let known = NAMES.iter().position(|known| known.as_bytes() == name);
            if let (Some(at), Ok(value)) = (known, str::from_utf8(value)) {
                found.values[at].get_or_insert(value);
            }
        }
        found
    }

    fn text(&self, name: &str) -> Option<&'a str> {
        let at = NAMES.iter().position(|known| *known == name)?;
        self.values[at]
    }

    fn number(&self, name: &str) -> Option<u32> {
        let text = self.text(name)?;
        let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        plain.then(|| text.parse().ok()).flatten()
    }

    fn rank(&self, name: &str) -> Option<u32> {
        self.number(name).filter(|rank| *rank < RANKS_MAX)
    }

    /// A size that the rank is below of; a size that it is not is not believed.
    fn size(&self, name: &str, rank: u32) -> Option<u32> {
        let size = self.number(name).filter(|size| *size <= RANKS_MAX);
        size.filter(|size| rank < *size)
    }
}

/// What an environment says, of a process with this parent; none of a process that is no rank.
///
/// Hydra names no job: there the parent, which starts all ranks of this machine, stands for it.
#[must_use]
pub fn parse(bytes: &[u8], parent: Pid) -> Option<Rank> {
    let found = Found::in_bytes(bytes);
    let step = || {
        let job = found.number("SLURM_JOB_ID")?;
        let step = found.number("SLURM_STEP_ID")?;
        JobId::new(&format!("{job}.{step}"))
    };
    if let Some(job) = found.text("PMIX_NAMESPACE").and_then(JobId::new) {
        let open_mpi = found.rank("OMPI_COMM_WORLD_RANK");
        let rank = open_mpi.or_else(|| found.rank("PMIX_RANK"))?;
        let (launcher, size) = match open_mpi {
            Some(_) => (Launcher::OpenMpi, found.size("OMPI_COMM_WORLD_SIZE", rank)),
            None => (Launcher::Pmix, found.size("SLURM_NTASKS", rank)),
        };
        return Some(Rank {
            job,
            rank,
            size,
            launcher,
        });
    }
    if let Some(rank) = found.rank("PMI_RANK") {
        let hydra = || JobId::new(&format!("hydra-{parent}"));
        return Some(Rank {
            job: step().or_else(hydra)?,
            rank,
            size: found.size("PMI_SIZE", rank),
            launcher: Launcher::Hydra,
        });
    }
    let rank = found.rank("SLURM_PROCID")?;
    Some(Rank {
        job: step()?,
        rank,
        size: found.size("SLURM_NTASKS", rank),
        launcher: Launcher::Slurm,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(environ: &str, expected: Option<(&str, u32, Option<u32>, Launcher)>) {
        let environ = environ.replace(' ', "\0");
        let found = parse(environ.as_bytes(), Pid(77));
        let found = found
            .as_ref()
            .map(|rank| (rank.job.as_str(), rank.rank, rank.size, rank.launcher));
        assert_eq!(found, expected);
    }

    #[test]
    fn every_launcher_is_understood() {
        check(
            "A=1 OMPI_COMM_WORLD_RANK=2 OMPI_COMM_WORLD_SIZE=4 PMIX_NAMESPACE=12345 PMIX_RANK=2",
            Some(("12345", 2, Some(4), Launcher::OpenMpi)),
        );
        check(
            "PMIX_NAMESPACE=slurm.pmix.9.0 PMIX_RANK=1 SLURM_NTASKS=2 SLURM_PROCID=1",
            Some(("slurm.pmix.9.0", 1, Some(2), Launcher::Pmix)),
        );
        check(
            "PMI_RANK=0 PMI_SIZE=2",
            Some(("hydra-77", 0, Some(2), Launcher::Hydra)),
        );
        check(
            "PMI_RANK=0 PMI_SIZE=2 SLURM_JOB_ID=5 SLURM_STEP_ID=1 SLURM_PROCID=9",
            Some(("5.1", 0, Some(2), Launcher::Hydra)),
        );
        check(
            "SLURM_JOB_ID=5 SLURM_STEP_ID=0 SLURM_PROCID=3",
            Some(("5.0", 3, None, Launcher::Slurm)),
        );
    }

    #[test]
    fn what_is_no_rank_is_none() {
        for environ in [
            "",
            "PATH=/bin",
            "PMI_RANK= PMI_SIZE=2",
            "PMI_RANK=-1",
            "PMI_RANK=+1",
            "PMI_RANK=99999999999",
            "PMI_RANK=16777216",
            "SLURM_PROCID=1 SLURM_JOB_ID=5",
            "PMIX_NAMESPACE=a",
            "XPMI_RANK=1",
        ] {
            check(environ, None);
        }
    }

    #[test]
    fn what_is_not_believed_is_left_out() {
        check(
            "PMI_RANK=5 PMI_SIZE=5",
            Some(("hydra-77", 5, None, Launcher::Hydra)),
        );
        // A name that a terminal would obey is none.
        check(
            "PMIX_NAMESPACE=\u{1b}[2J PMIX_RANK=1 PMI_RANK=1",
            Some(("hydra-77", 1, None, Launcher::Hydra)),
        );
        let long = "x".repeat(JOB_BYTES_MAX + 1);
        check(&format!("PMIX_NAMESPACE={long} PMIX_RANK=1"), None);
        // As `getenv` has it.
        check(
            "PMI_RANK=1 PMI_RANK=2",
            Some(("hydra-77", 1, None, Launcher::Hydra)),
        );
    }

    #[test]
    fn jobs_that_were_spawned_are_of_one_family() {
        let family = |job: &str| JobId::new(job).unwrap().family();
        assert_eq!(family("1234567169"), family("1234567170"));
        assert_ne!(family("1234567169"), family("1334567170"));
        assert_eq!(family("prterun-host-9@1"), family("prterun-host-9@2"));
        assert_eq!(family("5.0"), family("5.1"));
        assert_eq!(family("hydra-7"), "hydra-7");
    }
}
