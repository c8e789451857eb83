//! How many experiments there may be, and how long.

use control::experiment::{Experiment, ExperimentRequest};
use control::{ErrorKind, Failure};
use experiment::plan;

use super::super::Steward;
use crate::peer::Peer;

/// Most that it may cost to tell the results of one user's experiment, which is done anew whenever
/// somebody asks and while others wait: the cube of its blocks for each policy that is compared by
/// each metric. A second.
const RESULTS_COST_MAX: u64 = 16 * 500_u64.pow(3);

impl Steward {
    pub(super) fn must_be_within_limits(
        &self,
        peer: Peer,
        request: &ExperimentRequest,
        planned: &Experiment,
    ) -> Result<(), Failure> {
        let config = &self.parts.config;
        let (limits, most) = (config.limits, config.daemon.experiments_max);
        // Admins and users do not take each other's places.
        let lane = self.experiments.live.values();
        let lane = lane.filter(|live| live.peer.admin == peer.admin);
        let payer = self.payer(peer.uid);
        let own = lane
            .clone()
            .filter(|live| self.payer(live.peer.uid) == payer);
        let own_most = limits.user_experiments_max.min((most / 2).max(1));
        let busy = |message: String, setting: &str| {
            let remedy = format!("stop one by `numadctl ab stop`, or have `{setting}` raised");
            Err(Failure::new(ErrorKind::Busy, message).remedy(remedy))
        };
        if lane.count() >= most {
            let message = format!("`{most}` experiments run or wait, which is the limit");
            return busy(message, "daemon.experiments_max");
        }
        if peer.admin {
            return Ok(());
        }
        if own.count() >= own_most {
            let message =
                format!("`{own_most}` experiments of yours run or wait, which is the limit");
            return busy(message, "limits.user_experiments_max");
        }
        let slice_ms = planned.slice_ms.or(request.slice_ms);
        let slice_ms = slice_ms.unwrap_or(plan::SLICE_DEFAULT_MS);
        let usage = |message: String, setting: &str| {
            let remedy = format!("ask as root, or have `{setting}` changed");
            Err(Failure::new(ErrorKind::Usage, message).remedy(remedy))
        };
        if slice_ms < limits.user_slice_min_ms {
            let least = limits.user_slice_min_ms;
            let message = format!(
                "slices of {slice_ms} ms are shorter than the {least} ms a user may ask for"
            );
            return usage(message, "limits.user_slice_min_ms");
        }
        must_be_soon_told(planned)?;
        let slices = u64::from(planned.blocks) * planned.arms.len() as u64;
        let hours = slices.saturating_mul(slice_ms) / 3_600_000;
        let longest = limits.user_experiment_h_max;
        if hours >= longest {
            let message = format!(
                "{slices} slices of {slice_ms} ms take longer than the {longest} h a user may ask for"
            );
            return usage(message, "limits.user_experiment_h_max");
        }
        Ok(())
    }
}

fn must_be_soon_told(planned: &Experiment) -> Result<(), Failure> {
    let (arms, metrics) = (planned.arms.len(), planned.metrics.len());
    let questions = (arms - 1) * metrics;
    if u64::from(planned.blocks).pow(3) * questions as u64 <= RESULTS_COST_MAX {
        return Ok(());
    }
    let message = format!(
        "to compare {arms} policies by {metrics} metrics in {} slices each takes longer than a user may ask for",
        planned.blocks
    );
    Err(Failure::new(ErrorKind::Usage, message).remedy("ask as root, or for fewer of them"))
}
