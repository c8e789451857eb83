//! What a plan is worth.

use std::time::Duration;

use super::Prices;
use crate::evidence::Evidence;
use crate::policy::{Page, Program, Veto};

/// What carrying out a plan brings within the horizon, what it costs, and how sure that is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Worth {
    /// Time that the tasks of the program save within the horizon, in nanoseconds.
    pub saved_ns: f64,
    /// Time that moving takes from them, in nanoseconds.
    pub price_ns: f64,
    /// What samples say of the saving; none where it does not rest on samples.
    pub evidence: Option<Evidence>,
}

impl Worth {
    /// Lower bound of what it saves; nothing where chance alone explains it.
    #[must_use]
    pub fn least_ns(&self) -> f64 {
        match self.evidence {
            None => self.saved_ns,
            Some(sure) if sure.convinces() && sure.share > 0.5 => {
                self.saved_ns * (sure.low - 0.5) / (sure.share - 0.5)
            }
            Some(_) => self.saved_ns.min(0.0),
        }
    }

    /// The same worth with a smaller saving.
    pub(crate) fn less(self, doubted_ns: f64) -> Self {
        Self {
            saved_ns: self.saved_ns - doubted_ns,
            ..self
        }
    }

    /// Whether it saves more than it costs, if what samples say is so.
    #[must_use]
    pub fn pays(&self) -> bool {
        self.saved_ns > self.price_ns
    }

    /// Whether it is worth its price, and surely so.
    ///
    /// # Errors
    /// Why not.
    pub fn judge(&self) -> Result<(), Veto> {
        if !self.pays() {
            Err(Veto::DoesNotPay)
        } else if self.least_ns() <= self.price_ns {
            Err(Veto::Evidence)
        } else {
            Ok(())
        }
    }
}

/// Even parts of what moves in a window that may be of memory that one task uses most. It waits for
/// what is on the way, and others wait for it.
const PARTS: u64 = 2;

impl Program<'_> {
    /// Processor time that its tasks took in the window, in nanoseconds.
    pub(crate) fn busy_ns(&self) -> f64 {
        let busy: f64 = self.tasks.iter().map(|task| task.busy).sum();
        busy * self.window_ns()
    }

    /// How long the window was, in nanoseconds.
    pub(crate) const fn window_ns(&self) -> f64 {
        self.window.as_nanos() as f64
    }

    /// Of so many pages that move in some time, how many may be such as one task uses most.
    pub(crate) fn own_part(&self, pages: u64) -> u64 {
        let part = PARTS.saturating_mul(pages) / self.tasks.len().max(1) as u64;
        part.clamp(1, pages.max(1))
    }

    /// How long it takes to move so many pages that each task uses most, in nanoseconds.
    pub(crate) fn take_ns(&self, pages: &[u64]) -> f64 {
        let all: u64 = pages.iter().sum();
        let users = pages.iter().filter(|&&pages| pages > 0).count() as f64;
        let turns = self.tasks.len() as f64 / (PARTS as f64 * users.max(1.0));
        all as f64 * self.prices.page_takes_ns * turns.max(1.0)
    }

    /// How often a window like this one comes within the horizon.
    pub(crate) fn windows(&self) -> f64 {
        self.prices.windows(self.window)
    }
}

impl Prices {
    /// These prices by what was seen of the program in the window, where a sample counts so much. It
    /// is expected to go on as it does for so long.
    ///
    /// Accesses overlap: nobody waits for memory longer than he runs. So where they would take longer one after the
    /// other, each saves that much less.
    #[must_use]
    pub fn of_program(self, program: &Program<'_>, per_sample: f64, goes_on: Duration) -> Self {
        let busy_ns = program.busy_ns();
        let mut prices = self.of_window(busy_ns / 1e9, program.samples as f64 * per_sample);
        prices.horizon_ns = goes_on.as_nanos() as f64;
        let waits_ns =
            ways(program) * prices.accesses_per_amount * prices.access_saving_ns_per_distance;
        if waits_ns > busy_ns {
            prices.access_saving_ns_per_distance *= busy_ns / waits_ns;
        }
        prices
    }
}

/// How far all accesses to pages are that policies see, in distances times weight.
pub(crate) fn ways(program: &Program<'_>) -> f64 {
    let pages = program.pages.iter();
    pages
        .filter_map(|page| Some(way(program, page, page.node()?)))
        .sum()
}

/// Distance of all uses of a page, if it is there.
pub(crate) fn way(program: &Program<'_>, page: &Page, there: usize) -> f64 {
    let distances = program.topology.distances();
    let far = |from: usize| f64::from(distances.between(from, there));
    program
        .uses(page)
        .map(|(from, uses)| uses * far(from))
        .sum()
}

/// How much each task uses of what is on each node.
pub(crate) fn uses_by_node(pages: &[Page], tasks: usize, nodes: usize) -> Vec<Vec<f64>> {
    let mut uses = vec![vec![0.0; nodes]; tasks];
    for page in pages {
        let Some(home) = page.node() else {
            continue;
        };
        for (task, own) in page.users() {
            let of_task = uses.get_mut(task);
            if let Some(uses) = of_task.and_then(|of_task| of_task.get_mut(home)) {
                *uses += own;
            }
        }
    }
    uses
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::{Certainty, Scale};

    #[test]
    fn a_plan_is_worth_it_if_it_surely_saves_more_than_its_price() {
        let judge = |saved_ns, evidence| {
            let worth = Worth {
                saved_ns,
                price_ns: 100.0,
                evidence,
            };
            worth.judge()
        };
        let samples = |good, bad| {
            let mut scale = Scale::default();
            scale.put(good, 1.0);
            scale.put(bad, -1.0);
            Some(Certainty::of(0.9).weigh(&scale))
        };
        assert_eq!(judge(100.0, None), Err(Veto::DoesNotPay));
        assert_eq!(judge(101.0, None), Ok(()));
        assert_eq!(judge(-101.0, None), Err(Veto::DoesNotPay));
        // Chance alone may explain it.
        assert_eq!(judge(1000.0, samples(1.0, 0.0)), Err(Veto::Evidence));
        assert_eq!(judge(1000.0, samples(60.0, 40.0)), Ok(()));
        // It is no chance that something is saved, but it may be less than the price.
        assert_eq!(judge(101.0, samples(60.0, 40.0)), Err(Veto::Evidence));
    }
}
