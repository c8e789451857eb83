//! Who may look into a process, as `ptrace(2)` decides it for those who read
//! (`PTRACE_MODE_READ_FSCREDS`).

use std::fmt;

use crate::status::{Ids, Status};

/// What the kernel's decision rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rights {
    /// Users on whose behalf it acts.
    pub uids: Ids,
    /// Groups on whose behalf it acts; none where the kernel does not say.
    pub gids: Option<Ids>,
    /// Capabilities that it has or can take; none where the kernel does not say.
    pub capabilities: Option<u64>,
    /// Whether its memory may be looked into at all: it lets nobody after it started a set-id program
    /// or one that its user may not read, or asked for that itself (`PR_SET_DUMPABLE`).
    pub dumpable: bool,
}

/// Why a user may not look into a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closed {
    /// It acts, or can act, for another user.
    User,
    /// It acts, or can act, for another group.
    Group,
    /// It has rights that its user lacks.
    Capabilities,
    /// It is not dumpable.
    NotDumpable,
}

impl Rights {
    /// From what `status` says and the owner of the files below `/proc/PID`: those of a process that
    /// is not dumpable belong to root.
    #[must_use]
    pub(crate) fn new(status: &Status, owner: u32) -> Self {
        Self {
            uids: status.uids,
            gids: status.gids,
            capabilities: status.capabilities,
            dumpable: owner == status.uids.effective,
        }
    }

    /// Rights of an ordinary process of this user and group.
    #[must_use]
    pub const fn ordinary(uid: u32, gid: u32) -> Self {
        const fn all(id: u32) -> Ids {
            Ids {
                real: id,
                effective: id,
                saved: id,
            }
        }
        Self {
            uids: all(uid),
            gids: Some(all(gid)),
            capabilities: Some(0),
            dumpable: true,
        }
    }

    /// Why a user without capabilities may not look into it; none if the user may. What is not known
    /// counts as closed.
    #[must_use]
    pub fn closed_to(&self, uid: u32, gid: u32) -> Option<Closed> {
        if !self.uids.all(uid) {
            return Some(Closed::User);
        }
        if !self.gids.is_some_and(|gids| gids.all(gid)) {
            return Some(Closed::Group);
        }
        if self.capabilities != Some(0) {
            return Some(Closed::Capabilities);
        }
        (!self.dumpable).then_some(Closed::NotDumpable)
    }

    /// The one user and group that may look into it; none if only root may.
    #[must_use]
    pub fn open_to(&self) -> Option<(u32, u32)> {
        let gid = self.gids?.real;
        let uid = self.uids.real;
        self.closed_to(uid, gid).is_none().then_some((uid, gid))
    }
}

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::User => "belongs to someone else",
            Self::Group => "acts for another group than yours",
            Self::Capabilities => "has capabilities",
            Self::NotDumpable => "lets nobody look into it (it is not dumpable)",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::parse;

    #[track_caller]
    fn check(uids: &str, gids: &str, capabilities: &str, owner: u32, expected: Option<Closed>) {
        let text = format!("Tgid:\t1\nUid:\t{uids}\nGid:\t{gids}\nCapPrm:\t{capabilities}\n");
        let rights = Rights::new(&parse(text.as_bytes()).unwrap(), owner);
        assert_eq!(rights.closed_to(7, 8), expected, "{text}");
        assert_eq!(rights.open_to() == Some((7, 8)), expected.is_none());
    }

    #[test]
    fn ptrace_is_asked() {
        let (none, some) = ("0000000000000000", "0000000000000400");
        check("7 7 7 7", "8 8 8 8", none, 7, None);
        // What reads and writes files alone counts for nothing here.
        check("7 7 7 0", "8 8 8 0", none, 7, None);
        for uids in ["0 7 7 7", "7 0 7 7", "7 7 0 7", "9 9 9 9"] {
            check(uids, "8 8 8 8", none, 7, Some(Closed::User));
        }
        for gids in ["0 8 8 8", "8 0 8 8", "8 8 0 8", "9 9 9 9"] {
            check("7 7 7 7", gids, none, 7, Some(Closed::Group));
        }
        check("7 7 7 7", "8 8 8 8", some, 7, Some(Closed::Capabilities));
        check("7 7 7 7", "8 8 8 8", none, 0, Some(Closed::NotDumpable));
    }

    #[test]
    fn what_is_not_known_is_closed() {
        let status = parse(b"Tgid:\t1\nUid:\t7\t7\t7\t7\n").unwrap();
        assert_eq!(Rights::new(&status, 7).closed_to(7, 8), Some(Closed::Group));
        let status = parse(b"Tgid:\t1\nUid:\t7\t7\t7\t7\nGid:\t8\t8\t8\t8\n").unwrap();
        let rights = Rights::new(&status, 7);
        assert_eq!(rights.closed_to(7, 8), Some(Closed::Capabilities));
        assert_eq!(Rights::ordinary(7, 8).closed_to(7, 8), None);
    }
}
