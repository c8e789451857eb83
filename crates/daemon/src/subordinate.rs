//! Users that another user may act as: ranges of `/etc/subuid`, which containers use.
//!
//! Whoever has such a range would have every limit of one user 65,536 times. So what a user takes
//! is counted to the owner of the range; of a range of root's, to its first user. What a user may
//! do goes by the user itself.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use nix::unistd::User;

/// Where the system has them.
const FILE: &str = "/etc/subuid";

/// Whose ranges are whose. Copies are cheap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subordinates(Arc<BTreeMap<u32, Range>>);

/// From its first user on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    last: u32,
    payer: u32,
}

impl Subordinates {
    /// Those of this system; none where there is no such file, or it cannot be read.
    #[must_use]
    pub fn read() -> Self {
        let text = fs::read_to_string(Path::new(FILE)).unwrap_or_default();
        Self::parse(&text)
    }

    /// Lines of an owner's name or number, the first user and how many there are; what makes no
    /// sense is passed over, as the programs that use it do.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        Self(Arc::new(text.lines().filter_map(range).collect()))
    }

    /// The user that pays for what a user takes.
    #[must_use]
    pub fn payer(&self, uid: u32) -> u32 {
        let range = self.0.range(..=uid).next_back().map(|(_, range)| range);
        range.map_or(uid, |range| match uid <= range.last {
            true => range.payer,
            false => uid,
        })
    }
}

fn range(line: &str) -> Option<(u32, Range)> {
    let mut fields = line.trim().split(':');
    let owner = fields.next()?;
    let owner = owner.parse().ok().or_else(|| {
        let user = User::from_name(owner).ok()??;
        Some(user.uid.as_raw())
    })?;
    let first: u32 = fields.next()?.parse().ok()?;
    let count: u32 = fields.next()?.parse().ok()?;
    let last = first.saturating_add(count.checked_sub(1)?);
    // Who is in a container of root's, as LXD makes them, does not act for root: what such users
    // take must not be missing where root's own processes are asked.
    let payer = if owner == 0 { first } else { owner };
    Some((first, Range { last, payer }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_of_a_range_are_its_owner() {
        let text =
            "7:100000:65536\n\nroot:300000:1000\n# 9:1:9\nnobody knows:1:2:3\n8:x:1\n8:500:0\n";
        let subordinates = Subordinates::parse(text);
        let payers = [
            7, 8, 500, 99_999, 100_000, 165_535, 165_536, 300_999, 301_000,
        ];
        let payers = payers.map(|uid| subordinates.payer(uid));
        assert_eq!(payers, [7, 8, 500, 99_999, 7, 7, 165_536, 300_000, 301_000]);
        assert_eq!(Subordinates::parse("8:5:4294967295").payer(u32::MAX), 8);
    }

    /// As LXD has them: for its containers, and for one user whose files are shown in one.
    #[test]
    fn users_of_root_s_ranges_are_not_root() {
        let subordinates = Subordinates::parse("root:1000:1\n0:1000000:1000000000");
        let payers = [0, 1_000, 1_000_000, 1_000_033].map(|uid| subordinates.payer(uid));
        assert_eq!(payers, [0, 1_000, 1_000_000, 1_000_000]);
    }
}
