//! The processes of an experiment's program, which are found anew for each slice.

use std::time::Duration;

use control::rows::Target;
use control::{ErrorKind, Failure};

use super::super::attach::gone;
use super::super::{ProcessFacts, Steward};
use crate::clock::thread_processor_time;

impl Steward {
    /// What the target names now. Processes that were named by number must be those of the
    /// beginning: another may have the number by now. Those that are found by their command are of
    /// the users of the beginning, since anyone may call a program the same. Searched for on the
    /// spot, as once in a slice it costs little.
    pub(super) fn same_processes(
        &mut self,
        id: u32,
        target: &Target,
    ) -> Result<Option<Vec<ProcessFacts>>, Failure> {
        if let Some(find) = self.finder(target) {
            let began = thread_processor_time();
            let found = find();
            self.may_search_for(id, thread_processor_time().saturating_sub(began))?;
            let live = self.experiments.live.get(&id);
            let users = live.filter(|_| matches!(target, Target::Command(_)));
            let users = users.map(|live| &live.users);
            let is_meant =
                |process: &ProcessFacts| users.is_none_or(|users| users.contains(&process.uid));
            return found.map(|found| Some(found.into_iter().filter(is_meant).collect()));
        }
        let live = self.experiments.live.get(&id);
        let starts = live.map(|live| live.starts.clone()).unwrap_or_default();
        for (pid, start) in starts {
            let facts = self.parts.machine.process(pid)?;
            if facts.is_none_or(|facts| facts.start != start) {
                return Err(gone(pid));
            }
        }
        Ok(None)
    }

    /// Whether a search takes no more of each slice than a user's requests may take of a
    /// processor: on a machine with very many processes it is long.
    fn may_search_for(&self, id: u32, took: Duration) -> Result<(), Failure> {
        let Some(live) = self.experiments.live.get(&id) else {
            return Ok(());
        };
        let slice = live.trial.experiment().slice_ms.map(Duration::from_millis);
        let percent = self.parts.config.limits.user_share_percent;
        let is_short = |slice: Duration| took.saturating_mul(100) > slice.saturating_mul(percent);
        match slice.filter(|&slice| !live.peer.admin && is_short(slice)) {
            None => Ok(()),
            Some(_) => {
                let message = format!(
                    "to find its program takes {} ms in each slice, more than `limits.user_share_percent`; \
                     name processes, or take longer slices",
                    took.as_millis()
                );
                Err(Failure::new(ErrorKind::Busy, message))
            }
        }
    }
}
