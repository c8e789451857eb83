//! Who asks, and what they may do. Only the kernel's word counts, never the message's.

use std::collections::BTreeSet;

use control::{ErrorKind, Failure};
use nix::unistd::{Gid, Group, Uid, User};
use procfs::{Closed, Rights};

use crate::subordinate::Subordinates;

/// What the kernel says of the other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// Its user.
    pub uid: u32,
    /// Its first group.
    pub gid: u32,
}

impl Credentials {
    /// Why these may not look into a process of such rights, as `ptrace(2)` decides it; none if they may.
    #[must_use]
    pub fn refused(self, rights: &Rights) -> Option<Closed> {
        rights.closed_to(self.uid, self.gid)
    }
}

/// Someone who asks, judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The user.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// Whether everything may be asked: root, and members of the admin group.
    pub admin: bool,
}

impl Peer {
    /// The daemon itself, as when a signal asks.
    pub const DAEMON: Self = Self {
        uid: 0,
        gid: 0,
        admin: true,
    };

    /// With whose rights processes are looked into; none for admins, who may look into all.
    #[must_use]
    pub fn confinement(self) -> Option<Credentials> {
        (!self.admin).then_some(Credentials {
            uid: self.uid,
            gid: self.gid,
        })
    }

    /// Whether what belongs to this user may be seen and changed.
    #[must_use]
    pub const fn owns(self, uid: u32) -> bool {
        self.admin || self.uid == uid
    }

    /// Refuses everyone but admins.
    ///
    /// # Errors
    /// `NotPermitted`, naming what was asked.
    pub fn must_be_admin(self, what: &str) -> Result<(), Failure> {
        if self.admin {
            return Ok(());
        }
        let message = format!("`{what}` is for root and the admin group");
        Err(Failure::new(ErrorKind::NotPermitted, message).remedy("ask as root"))
    }
}

/// Which users may ask at all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Users {
    /// Everyone, about their own processes.
    #[default]
    Own,
    /// Admins alone.
    Nobody,
}

/// Who may do what, as the settings say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// Whether others than admins may ask.
    pub users: Users,
    /// The admin group's number; none when there is no such group.
    pub admin_gid: Option<u32>,
    /// Members of the admin group.
    pub admins: BTreeSet<u32>,
    /// Who pays for whom.
    pub subordinates: Subordinates,
}

impl Access {
    /// Looks up the admin group, and who pays for whom. A group that is not there gives nobody
    /// anything.
    ///
    /// Done at the start and at each reload, not for each connection: user databases may be slow.
    #[must_use]
    pub fn of(users: Users, admin_group: &str) -> Self {
        let group = Group::from_name(admin_group).ok().flatten();
        let members = group.iter().flat_map(|group| &group.mem);
        Self {
            users,
            admin_gid: group.as_ref().map(|group| group.gid.as_raw()),
            admins: members
                .filter_map(|name| User::from_name(name).ok().flatten())
                .map(|user| user.uid.as_raw())
                .collect(),
            subordinates: Subordinates::read(),
        }
    }

    /// What is to be said of an admin group that is not there, unless it is the default, which
    /// nobody needs to have.
    #[must_use]
    pub fn missing_group(&self, config: &config::Access) -> Option<String> {
        let named = config.admin_group.as_deref()?;
        let default = config::Config::default().access.admin_group;
        (self.admin_gid.is_none() && default.as_deref() != Some(named)).then(|| {
            format!("access.admin_group: there is no group `{named}`; only root may do everything")
        })
    }

    /// The user that pays for what this one takes: limits are counted by it.
    #[must_use]
    pub fn payer(&self, uid: u32) -> u32 {
        self.subordinates.payer(uid)
    }

    /// Judges someone who asks.
    ///
    /// # Errors
    /// `NotPermitted` for those who may not ask at all.
    pub fn judge(&self, credentials: Credentials) -> Result<Peer, Failure> {
        let admin = credentials.uid == Uid::from_raw(0).as_raw()
            || self.admin_gid == Some(credentials.gid)
            || self.admins.contains(&credentials.uid);
        if admin || self.users == Users::Own {
            return Ok(Peer {
                uid: credentials.uid,
                gid: credentials.gid,
                admin,
            });
        }
        let message = format!("user `{}` may not use this daemon", credentials.uid);
        let remedy = "set access.users = \"own\", or join the admin group";
        Err(Failure::new(ErrorKind::NotPermitted, message).remedy(remedy))
    }

    /// Permission bits and group of the admins' own socket file.
    #[must_use]
    pub fn admin_mode(&self) -> (u32, Option<Gid>) {
        match self.admin_gid {
            Some(gid) => (0o660, Some(Gid::from_raw(gid))),
            None => (0o600, None),
        }
    }

    /// Permission bits and group of the socket file.
    ///
    /// Whoever may ask must be able to connect; what they may ask is judged by their credentials.
    #[must_use]
    pub fn socket_mode(&self) -> (u32, Option<Gid>) {
        match self.users {
            Users::Own => (0o666, None),
            Users::Nobody => (0o660, self.admin_gid.map(Gid::from_raw)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(users: Users) -> Access {
        Access {
            users,
            admin_gid: Some(50),
            admins: BTreeSet::from([1001]),
            subordinates: Subordinates::default(),
        }
    }

    #[track_caller]
    fn check(users: Users, uid: u32, gid: u32, admin: Option<bool>) {
        let judged = access(users).judge(Credentials { uid, gid });
        assert_eq!(judged.as_ref().ok().map(|peer| peer.admin), admin);
        if let Err(refused) = judged {
            assert_eq!(refused.kind, ErrorKind::NotPermitted);
        }
    }

    #[test]
    fn root_and_the_admin_group_may_do_everything() {
        for users in [Users::Own, Users::Nobody] {
            check(users, 0, 0, Some(true));
            check(users, 1001, 7, Some(true));
            check(users, 1002, 50, Some(true));
        }
        check(Users::Own, 1002, 7, Some(false));
        check(Users::Nobody, 1002, 7, None);
    }

    #[test]
    fn an_admin_group_that_was_named_and_is_not_there_is_told() {
        let named = |group: Option<&str>| config::Access {
            users: config::Users::Own,
            admin_group: group.map(str::to_owned),
        };
        let nobody = Access::default();
        let missing = nobody.missing_group(&named(Some("wheell"))).unwrap();
        assert!(missing.contains("`wheell`"), "{missing}");
        for group in [None, Some("numad")] {
            assert_eq!(nobody.missing_group(&named(group)), None);
        }
        let there = access(Users::Own).missing_group(&named(Some("wheel")));
        assert_eq!(there, None);
    }

    #[test]
    fn others_own_what_is_theirs() {
        let peer = Peer {
            uid: 7,
            gid: 7,
            admin: false,
        };
        assert!(peer.owns(7) && !peer.owns(0));
        assert!(Peer::DAEMON.owns(7));
        peer.must_be_admin("reload").unwrap_err();
    }

    #[test]
    fn the_socket_is_open_to_those_who_may_ask() {
        assert_eq!(access(Users::Own).socket_mode(), (0o666, None));
        let (mode, group) = access(Users::Nobody).socket_mode();
        assert_eq!((mode, group), (0o660, Some(Gid::from_raw(50))));
        assert_eq!(Access::of(Users::Own, "no such group").admin_gid, None);
    }
}
