//! What the kernel is set to, as far as sampling depends on it.

use std::fs;
use std::path::Path;
use std::str::FromStr;

/// Settings of the running kernel. A file that is missing or unreadable gives none, never an
/// error: each of these only explains or refines something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelSettings {
    /// `kernel.perf_event_paranoid`: from 1 on, whole processors need a capability.
    pub perf_event_paranoid: Option<i32>,
    /// `kernel.perf_event_mlock_kb`: ring memory that each user may lock per processor.
    pub perf_event_mlock_kb: Option<u64>,
    /// `kernel.numa_balancing`: 0 is off.
    pub numa_balancing: Option<u32>,
}

impl KernelSettings {
    /// Reads them below a root directory (`/` on a live machine).
    #[must_use]
    pub fn read(root: &Path) -> Self {
        let directory = root.join("proc/sys/kernel");
        Self {
            perf_event_paranoid: number(&directory.join("perf_event_paranoid")),
            perf_event_mlock_kb: number(&directory.join("perf_event_mlock_kb")),
            numa_balancing: number(&directory.join("numa_balancing")),
        }
    }
}

/// What would permit events of whole processors, at this `kernel.perf_event_paranoid`.
///
/// Levels from 3 on are of Debian and its relatives; there CAP_PERFMON is not enough.
pub(crate) const fn permission_remedy(paranoid: Option<i32>) -> &'static str {
    match paranoid {
        Some(3..) => {
            "run `sysctl kernel.perf_event_paranoid=2` as root, for from 3 on this kernel lets nobody \
             sample who has CAP_PERFMON alone; or run numad as root"
        }
        _ => {
            "run numad as root, or grant it CAP_PERFMON, or set kernel.perf_event_paranoid to 0 or less"
        }
    }
}

fn number<T: FromStr>(path: &Path) -> Option<T> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beyond_level_two_a_capability_is_not_enough() {
        for level in [None, Some(-1), Some(2)] {
            assert!(permission_remedy(level).contains("or set kernel.perf_event_paranoid to 0"));
        }
        assert!(permission_remedy(Some(3)).contains("sysctl kernel.perf_event_paranoid=2"));
    }

    #[test]
    fn what_is_missing_or_nonsense_is_unknown() {
        let root = std::env::temp_dir().join(format!("numad-kernel-{}", std::process::id()));
        let directory = root.join("proc/sys/kernel");
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("perf_event_paranoid"), "-1\n").unwrap();
        fs::write(directory.join("numa_balancing"), "zwei\n").unwrap();
        let settings = KernelSettings::read(&root);
        fs::remove_dir_all(&root).unwrap();
        assert_eq!(
            settings,
            KernelSettings {
                perf_event_paranoid: Some(-1),
                perf_event_mlock_kb: None,
                numa_balancing: None,
            }
        );
    }
}
