//! Energy under an experiment's slices.

use std::time::Duration;

use control::experiment::Experiment;
use control::{ErrorKind, Failure};
use experiment::metric;
use numad_core::Time;
use procfs::EnergyMeter;

use super::super::Steward;
use crate::peer::Peer;

impl Steward {
    /// A meter, where a metric needs one.
    ///
    /// # Errors
    /// When there is nothing to read, or it is not for this peer: what a machine uses tells of everybody's programs.
    pub(super) fn energy_for(
        &mut self,
        peer: Peer,
        planned: &Experiment,
    ) -> Result<Option<EnergyMeter>, Failure> {
        if !metric::needs_energy(&planned.metrics) {
            return Ok(None);
        }
        if !peer.admin {
            let text = "energy is of the whole machine, and for root and the admin group alone";
            return Err(Failure::new(ErrorKind::NotPermitted, text)
                .remedy("ask as root, or name another metric"));
        }
        let first = self.parts.machine.energy()?;
        Ok(Some(EnergyMeter::new(first, self.metered_at())))
    }

    /// Joules since the slice began, which it does where `anew`; reads if it is time to, or the number is `wanted`.
    pub(super) fn meter_energy(&mut self, id: u32, anew: bool, wanted: bool) -> Option<f64> {
        let at = self.metered_at();
        let live = self.experiments.live.get_mut(&id)?;
        let meter = live.energy.as_mut()?;
        if !wanted && !meter.is_due(at) {
            return None;
        }
        let now = self.parts.machine.energy().ok()?;
        match anew {
            true => *meter = EnergyMeter::new(now, at),
            false => meter.take(now, at),
        }
        meter.joules()
    }

    fn metered_at(&self) -> Duration {
        self.now().since(Time(0))
    }
}
