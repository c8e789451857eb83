//! A program at rest: whether a window that goes on shows anything that its last one did not.
//!
//! To judge a window costs the same whether something is to be done or not. While threads and pages
//! are where they belong, all that can be to do shows in samples: they fall on memory that is
//! farther away or that the thread did not use before, or threads share with others. Both are known
//! as samples come in.

/// Samples of a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::engine) struct Ways {
    pub all: u64,
    /// Those on pages of the thread's own node, and where that is not known on memory that it used
    /// before: page faults show other pages of it each time.
    pub near: u64,
}

/// Standard errors by which a window must differ.
const SURE: f64 = 2.0;

/// Samples that may fall anywhere beside, without a program doing something else: by few it is not
/// known that all are near, and pages that are new come some at a time.
const STRAYS: f64 = 4.0;

impl Ways {
    pub(in crate::engine) fn note(&mut self, is_near: bool) {
        self.all += 1;
        self.near += u64::from(is_near);
    }

    const fn others(self) -> u64 {
        self.all - self.near
    }

    /// Whether more of these are not near than of those, and not by chance or by a few strays.
    pub(super) fn are_farther_than(self, before: Self) -> bool {
        let (now, then) = (self.all as f64, before.all.max(1) as f64);
        let expected = now * before.others() as f64 / then;
        let both = (self.others() + before.others()) as f64 / (now + then);
        let variance = now * both * (1.0 - both) * (1.0 + now / then);
        self.others() as f64 > expected + SURE * variance.sqrt() + STRAYS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn farther_is_what_chance_does_not_explain() {
        let ways = |(others, all)| Ways {
            near: all - others,
            all,
        };
        let farther = |now, before| ways(now).are_farther_than(ways(before));
        assert!(!farther((0, 0), (0, 0)));
        assert!(!farther((1, 1), (0, 2000)), "one may have strayed");
        assert!(!farther((5, 300), (0, 2000)), "and some that are new");
        assert!(farther((12, 300), (0, 2000)));
        assert!(farther((60, 100), (0, 100)));
        assert!(!farther((500, 1000), (480, 1000)));
        assert!(!farther((0, 1000), (900, 1000)), "nearer is nothing to do");
    }
}
