//! RCLB (Upadhyay and Singh 2020): pairs by eq. 11, groups by eq. 12, buckets in turn; mapped once, here after a
//! profile of the start.

use numad_core::{Bind, Policy, Program, Proposal, Published, Time};

use super::{Once, PROFILE_LAW, partner, place};
use crate::history::Count;
use crate::rclb::{ByWeight, Ties};
use crate::rounds;
use crate::seats::Seats;

pub(crate) const PUBLISHED: Published = Published {
    paper: "RCLB (Upadhyay and Singh 2020)",
    interval: PROFILE_LAW,
    bind: Bind::Core,
    takes: &["alpha", "fit", "order"],
    build: |settings, _| {
        Ok(Box::new(Rclb {
            by_weight: ByWeight::new(settings),
            fit: settings.float("fit"),
            once: Once::default(),
        }))
    },
};

#[derive(Debug)]
struct Rclb {
    by_weight: ByWeight,
    fit: f64,
    once: Once,
}

impl Policy for Rclb {
    fn propose(&mut self, now: Time, program: &Program<'_>, out: &mut Vec<Proposal>) {
        let nodes = self.once.nodes(now, program, |history| {
            let mut groups = history.groups(program, Count::Fit(self.fit));
            self.by_weight.sort(&mut groups, Ties::AsListed);
            rounds::deal(program.tasks, Seats::new(program), &groups)
        });
        place(&nodes, out, |task| partner(program, program.decayed, task));
    }
}
