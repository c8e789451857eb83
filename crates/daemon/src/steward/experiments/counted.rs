//! Whether what an experiment measures is counted here.

use control::experiment::Experiment;
use control::{ErrorKind, Failure};
use experiment::metric;

use super::super::Steward;

impl Steward {
    /// Refuses an experiment whose primary metric nothing here can count: better now than after a
    /// pilot and a slice.
    pub(super) fn must_be_counted(&mut self, planned: &Experiment) -> Result<(), Failure> {
        // Where another program counts, it knows of each program by itself whether it does.
        let fed = self.parts.config.sampling.counters_fed;
        if fed || !metric::needs_instructions(&planned.metrics) {
            return Ok(());
        }
        let Some(why) = self.parts.meters.lacks_instructions() else {
            return Ok(());
        };
        let name = &planned.metrics[0].name;
        let text = format!("metric `{name}` is not counted here: {why}");
        Err(Failure::new(ErrorKind::Prerequisite, text)
            .remedy("name another one: a cmd: metric always has a number"))
    }
}
