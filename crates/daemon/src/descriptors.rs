//! File descriptors: connections never take those that an undo, the journal and the source need.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Kept for the journal, for reading `/proc` and for undo, whatever clients do.
const RESERVE: usize = 128;

/// Kept for each processor: events of the source and counters beside them.
const RESERVE_FOR_EACH_CPU: usize = 4;

/// Takes as many descriptors as the process may have: the usual soft limit of 1,024 is for programs that
/// call `select`, which this one does not.
pub fn take_all() {
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE)
        && soft < hard
    {
        // With fewer it works too; connections are cut to what there is.
        let _fewer = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
}

/// How many descriptors this process may have; all that can be counted if nobody says.
#[must_use]
pub fn limit() -> usize {
    getrlimit(Resource::RLIMIT_NOFILE)
        .ok()
        .and_then(|(soft, _)| usize::try_from(soft).ok())
        .unwrap_or(usize::MAX)
}

/// Connections of users that fit beside `others` and what is kept, of those that are wanted; at least one.
#[must_use]
pub fn connections_within(limit: usize, wanted: usize, others: usize, cpus: usize) -> usize {
    let kept = RESERVE + others + cpus.saturating_mul(RESERVE_FOR_EACH_CPU);
    wanted.min(limit.saturating_sub(kept)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_descriptors_for_undo() {
        assert_eq!(connections_within(1024, 64, 96, 2), 64);
        assert_eq!(connections_within(256, 64, 96, 2), 24);
        assert_eq!(connections_within(64, 1024, 96, 2), 1);
        assert_eq!(connections_within(usize::MAX, 1024, 96, 400), 1024);
    }

    #[test]
    fn the_limit_is_known() {
        take_all();
        assert!(limit() > 16);
    }
}
