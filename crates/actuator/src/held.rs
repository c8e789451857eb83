//! Processes whose pages are moved, and whether they still have their numbers.

use numad_core::Refusal;
use topology::{Pid, StartTicks, Tid};

use crate::census::Census;
use crate::kernel::Kernel;
use crate::live::Live;
use crate::refusal;

/// A process whose pages are moved.
#[derive(Debug)]
pub(crate) struct Held<H> {
    pub pid: Pid,
    /// When it began.
    pub start: StartTicks,
    /// What it is held by, where the kernel has something.
    pub hold: Option<H>,
}

impl<K: Kernel, C: Census> Live<K, C> {
    /// Holds a process, and reads its start after that: while what is held lives, the start is its own.
    pub(crate) fn held(&mut self, pid: Pid) -> Result<Held<K::Hold>, Refusal> {
        let hold = self.kernel.hold(pid).map_err(refusal::of_affinity)?;
        let start = self.census.process(pid).known()?;
        Ok(Held { pid, start, hold })
    }

    /// The same for a process that began then; where it cannot be held, [`Self::lives`] tells why.
    pub(crate) fn held_since(&mut self, pid: Pid, start: StartTicks) -> Held<K::Hold> {
        let held = self.held(pid).ok().filter(|held| held.start == start);
        let hold = held.and_then(|held| held.hold);
        Held { pid, start, hold }
    }

    /// Whether a process still has its number. By what it is held by this costs two short calls; `/proc` is read only
    /// where nothing holds it, or says no: its first thread may have ended before the others.
    pub(crate) fn lives(&mut self, held: &Held<K::Hold>) -> Result<(), Refusal> {
        let first = Tid(held.pid.0);
        let hold = held.hold.as_ref();
        if hold.is_some_and(|hold| self.kernel.has(hold, held.pid, first) == Ok(true)) {
            return Ok(());
        }
        if self.census.process(held.pid).known()? == held.start {
            Ok(())
        } else {
            Err(Refusal::Gone)
        }
    }
}
