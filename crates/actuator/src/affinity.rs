//! What affinity a thread had, and whether the one it has is ours. Pure functions of sets.

use topology::CpuSet;

/// Whether a thread had an affinity of its own.
///
/// Since Linux 6.2 the kernel remembers a mask that was set (`da019032819a`) and applies it again
/// whenever the cpuset changes, so that putting back the same processors is not enough for a thread
/// that never had one. The remembered mask cannot be read; see docs/decisions/0003 for how it is
/// told and what cannot be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// None was set, or one that never made a difference: the thread follows its cpuset.
    Unset,
    /// A set one: less than what its cpuset allows.
    User,
}

/// The affinity a thread had before we first touched it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Whether it was its own.
    pub kind: Kind,
    /// The processors it came to, with those of its own that were offline, as far as that is told.
    pub mask: CpuSet,
}

impl Origin {
    /// Judges a mask by the processors that the thread's cpuset allows at the same time.
    #[must_use]
    pub fn judge(mask: CpuSet, allowed: &CpuSet) -> Self {
        let kind = if allowed.is_subset(&mask) {
            Kind::Unset
        } else {
            Kind::User
        };
        Self { kind, mask }
    }

    /// What this origin comes to within a cpuset.
    pub(crate) fn within(&self, allowed: &CpuSet) -> CpuSet {
        match self.kind {
            Kind::Unset => allowed.clone(),
            Kind::User => clipped(&self.mask, allowed),
        }
    }
}

/// What a mask that was set comes to within a cpuset: the common processors, or the whole cpuset where
/// there are none.
pub(crate) fn clipped(mask: &CpuSet, allowed: &CpuSet) -> CpuSet {
    let common = mask.intersection(allowed);
    if common.is_empty() {
        allowed.clone()
    } else {
        common
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(text: &str) -> CpuSet {
        CpuSet::parse_list(text).unwrap()
    }

    #[track_caller]
    fn judged(mask: &str, allowed: &str, kind: Kind) {
        assert_eq!(Origin::judge(set(mask), &set(allowed)).kind, kind);
    }

    #[test]
    fn a_mask_that_covers_the_cpuset_is_none() {
        judged("0-7", "0-7", Kind::Unset);
        judged("0-63", "0-7", Kind::Unset);
        judged("0-6", "0-7", Kind::User);
        judged("0", "0-7", Kind::User);
        // Isolated processors are in the cpuset and in no thread's mask: put back exactly.
        judged("0-3", "0-7", Kind::User);
    }

    #[test]
    fn clipping_is_the_kernel_s() {
        assert_eq!(clipped(&set("0-3"), &set("2-5")), set("2-3"));
        assert_eq!(clipped(&set("0-1"), &set("2-5")), set("2-5"));
    }
}
