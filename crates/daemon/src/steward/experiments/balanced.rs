//! Whether the kernel balanced under an arm to its end as the arm says.

use super::super::Steward;

impl Steward {
    /// Ends an experiment when somebody has changed the switch since its arm was entered. Before
    /// the arm is left, which changes the switch itself.
    pub(super) fn must_have_been_alike(&mut self, id: u32) {
        let live = self.experiments.live.get(&id);
        let arm = live.and_then(|live| {
            let arm = live.trial.arm()? as usize;
            live.trial.experiment().arms.get(arm).cloned()
        });
        let why = arm.and_then(|arm| self.unlike(&arm));
        if let (Some(why), Some(live)) = (why, self.experiments.live.get_mut(&id)) {
            live.trial.spoil(why);
        }
    }
}
