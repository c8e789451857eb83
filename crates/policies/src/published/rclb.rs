//! RCLB (Upadhyay and Singh 2020): pairs by eq. 11, groups by eq. 12, buckets in turn; mapped once, here after a
//! profile of the start.

use numad_core::{Bind, Policy, Program, Proposal, Published, Time};

use super::{Once, PROFILE_LAW, differs};
use crate::history::{Count, Group, Spoken};
use crate::rounds;
use crate::seats::Seats;

pub(crate) const PUBLISHED: Published = Published {
    paper: "RCLB (Upadhyay and Singh 2020)",
    interval: PROFILE_LAW,
    bind: Bind::Core,
    takes: &["alpha", "fit", "order"],
    build: |settings, _| {
        Ok(Box::new(Rclb {
            alpha: settings.float("alpha"),
            fit: settings.float("fit"),
            ascending: settings.text("order") == "ascending",
            once: Once::default(),
        }))
    },
    differences: &[
        differs(
            "when",
            "once, after a profile of 2 s",
            "anew when what is said has changed by a fifth",
            "programs change",
        ),
        differs(
            "acceptance of a plan",
            "always",
            "if it is nearer, or evener and nothing farther",
            "dealing out anew moves everyone",
        ),
        differs(
            "pages",
            "stay",
            "follow",
            "threads that move leave their memory behind",
        ),
    ],
};

#[derive(Debug)]
struct Rclb {
    alpha: f64,
    fit: f64,
    ascending: bool,
    once: Once,
}

/// Brings groups, and pairs in them, into the order of `W = alpha m / sum m + (1 - alpha) s / sum s` over all groups.
fn sort_by_weight(groups: &mut [Group], alpha: f64, ascending: bool) {
    let all = |part: fn(&Spoken) -> f64| -> f64 {
        groups.iter().flat_map(|group| &group.pairs).map(part).sum()
    };
    let (messages, bytes) = (all(|pair| pair.windows), all(|pair| pair.amount));
    let weight = |pair: &Spoken| {
        alpha * pair.windows / messages.max(1.0) + (1.0 - alpha) * pair.amount / bytes.max(1.0)
    };
    let load = |group: &Group| group.pairs.iter().map(weight).sum::<f64>();
    let order = |one: f64, other: f64| match ascending {
        true => one.total_cmp(&other),
        false => other.total_cmp(&one),
    };
    groups.sort_by(|one, other| order(load(one), load(other)));
    for group in groups {
        group
            .pairs
            .sort_by(|one, other| order(weight(one), weight(other)));
    }
}

impl Policy for Rclb {
    fn propose(&mut self, now: Time, program: &Program<'_>, out: &mut Vec<Proposal>) {
        let (alpha, ascending) = (self.alpha, self.ascending);
        let map = |mut groups: Vec<Group>| {
            sort_by_weight(&mut groups, alpha, ascending);
            let pairs = groups.iter().flat_map(|group| &group.pairs);
            rounds::deal(program.tasks, Seats::new(program), pairs)
        };
        let how = (Count::Fit(self.fit), map);
        self.once.propose(now, program, how, out);
    }
}
