//! The one rule of undo: what becomes of a thread, from what it has, what it had, and what is ours.
//! A pure function.

use topology::CpuSet;

use crate::affinity::{Kind, Origin};
use crate::journal::ThreadRecord;
use crate::live::is_known;

/// What is known of a thread when its affinity is to be put back.
#[derive(Clone, Copy, Debug)]
pub(super) struct Case<'a> {
    /// The mask that it has.
    pub mask: &'a CpuSet,
    /// What its cpuset allows.
    pub allowed: &'a CpuSet,
    /// Its rows in the journal.
    pub record: Option<&'a ThreadRecord>,
    /// What a thread had that got this mask from us and made this one, or became it by exec.
    pub passed_on: Option<&'a Origin>,
}

/// What becomes of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It gets this back.
    PutBack(Origin),
    /// It gets this back as soon as its cpuset has one of those processors, and none of its own
    /// until then.
    Park(Origin),
    /// Someone else changed it since, and it stays as it is.
    Leave,
    /// It has nothing from us.
    NotOurs,
}

/// The rule.
pub(super) fn judge(case: &Case<'_>) -> Verdict {
    let origin = match (case.record, case.passed_on) {
        (Some(record), _) if is_known(record, case.mask, case.allowed) => record.origin.clone(),
        // It was to get a mask of its own, and still has the one of the thread that made it.
        (Some(record), Some(_)) => record.origin.clone(),
        (Some(_), None) => return Verdict::Leave,
        // The whole cpuset may be ours, but is more likely no mask at all: never made narrower.
        (None, Some(_)) if case.allowed.is_subset(case.mask) => {
            Origin::judge(case.mask.clone(), case.allowed)
        }
        (None, Some(origin)) => origin.clone(),
        (None, None) => return Verdict::NotOurs,
    };
    if origin.kind == Kind::User && !origin.mask.intersects(case.allowed) {
        Verdict::Park(origin)
    } else {
        Verdict::PutBack(origin)
    }
}

#[cfg(test)]
mod tests {
    use topology::StartTicks;

    use super::*;
    use crate::fake::set;

    fn origin(text: &str) -> Origin {
        match text.strip_prefix("none ") {
            Some(mask) => Origin {
                kind: Kind::Unset,
                mask: set(mask),
            },
            None => Origin {
                kind: Kind::User,
                mask: set(text),
            },
        }
    }

    /// `row`: what the thread had and what it got. `maker`: what the thread had that may have
    /// handed its mask on.
    #[track_caller]
    fn check(
        (mask, allowed): (&str, &str),
        row: Option<(&str, &str)>,
        maker: Option<&str>,
        expected: &str,
    ) {
        let at = StartTicks(1);
        let record = row.map(|(had, got)| ThreadRecord {
            process: StartTicks(1),
            origin: origin(had),
            set: vec![(at, set(got))],
        });
        let verdict = judge(&Case {
            mask: &set(mask),
            allowed: &set(allowed),
            record: record.as_ref(),
            passed_on: maker.map(origin).as_ref(),
        });
        let said = |origin: &Origin| match origin.kind {
            Kind::Unset => "none".to_owned(),
            Kind::User => origin.mask.to_string(),
        };
        let said = match &verdict {
            Verdict::PutBack(origin) => said(origin),
            Verdict::Park(origin) => format!("park {}", said(origin)),
            Verdict::Leave => "leave".to_owned(),
            Verdict::NotOurs => "not ours".to_owned(),
        };
        assert_eq!(said, expected);
    }

    /// The table of docs/undo.md, line by line.
    #[test]
    fn the_table() {
        const ALL: &str = "0-7";
        // It has what we gave it.
        check(("0-3", ALL), Some(("none 0-7", "0-3")), None, "none");
        check(("0-3", ALL), Some(("1-2", "0-3")), None, "1-2");
        // Its cpuset clipped that, or left nothing of it.
        check(("2-3", "2-7"), Some(("none 0-7", "0-3")), None, "none");
        check(("4-7", "4-7"), Some(("none 0-7", "0-3")), None, "none");
        // The call was never made, or is undone already.
        check((ALL, ALL), Some(("none 0-7", "0-3")), None, "none");
        check(("1-2", ALL), Some(("1-2", "0-3")), None, "1-2");
        // Someone else gave it another mask.
        check(("6", ALL), Some(("none 0-7", "0-3")), None, "leave");
        check(("6", ALL), Some(("1-2", "0-3")), None, "leave");
        // It was about to get its own mask, and has its maker's.
        check(
            ("0-3", ALL),
            Some(("none 0-7", "4-7")),
            Some("none 0-7"),
            "none",
        );
        // It was never to get one, and has its maker's.
        check(("0-3", ALL), None, Some("none 0-7"), "none");
        check(("0-3", ALL), None, Some("1-2"), "1-2");
        // The whole cpuset is never made narrower.
        check((ALL, ALL), None, Some("1-2"), "none");
        // Its own mask is outside of its cpuset for now.
        check(("4-7", "4-7"), Some(("1-2", "4-5")), None, "park 1-2");
        check(("4-5", "4-7"), None, Some("1-2"), "park 1-2");
        // It has nothing from us.
        check(("6", ALL), None, None, "not ours");
    }
}
