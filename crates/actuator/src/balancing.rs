//! The kernel's own balancing, switched on while a program is attached: the one switch of the whole
//! machine that is ever changed, and only when the administrator allows it.
//!
//! It has a row in the journal as threads and pages have, written before the change. What it said before comes
//! back with the last program that wanted it, on a stop, and at the next start after a crash; unless somebody
//! else has set it since, who is then right.

use numad_core::Refusal;

use crate::census::Census;
use crate::journal::rows::{Row, Switch};
use crate::kernel::{BALANCES, Errno, Kernel};
use crate::live::Live;
use crate::refusal;
use crate::undo::UndoReport;

/// What became of a wish that the kernel balance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Balancing {
    /// It did so before us, and whoever switched it on decides how long.
    Already,
    /// It does so for us.
    Switched,
}

impl<K: Kernel, C: Census> Live<K, C> {
    /// Has the kernel balance, if it does not. Costs one look where it does.
    ///
    /// # Errors
    /// When the kernel cannot, or does not let us: nothing is changed then, and at most a row without its change
    /// is written.
    pub fn balance(&mut self) -> Result<Balancing, Refusal> {
        let was = self.kernel.balancing().map_err(refusal::of_switch)?;
        if was & BALANCES != 0 {
            return Ok(match self.journal.records().balancing() {
                Some(_) => Balancing::Switched,
                None => Balancing::Already,
            });
        }
        // Ours was switched off again by somebody, whose it is from now on: there is nothing to put
        // back.
        if self.journal.records().balancing().is_some() {
            self.forget_balancing();
            return Err(Refusal::ChangedByOther);
        }
        let set = was | BALANCES;
        self.write(vec![Row::Balancing(Switch { was, set })])?;
        if let Err(errno) = self.kernel.set_balancing(set) {
            self.forget_balancing();
            return Err(refusal::of_switch(errno));
        }
        Ok(Balancing::Switched)
    }

    fn forget_balancing(&mut self) {
        self.journal.records_mut().forget_balancing();
        let written = self.journal.rewrite();
        self.note(written);
    }

    /// Puts the switch back as it was, unless somebody else has set it since. What fails stays in the journal,
    /// and is told as a sentence.
    ///
    /// # Errors
    /// The sentence.
    pub fn leave_balancing(&mut self) -> Result<(), String> {
        let Some(switch) = self.journal.records().balancing() else {
            return Ok(());
        };
        let mut report = UndoReport::default();
        self.undo_balancing(switch, &mut report);
        let written = self.journal.rewrite();
        self.note(written);
        report.failed.pop().map_or(Ok(()), Err)
    }

    /// The same, for an undo that writes the journal anew itself.
    pub(crate) fn undo_balancing(&mut self, Switch { was, set }: Switch, report: &mut UndoReport) {
        let put_back = match self.kernel.balancing() {
            Ok(now) if now == set => self.kernel.set_balancing(was),
            // As it was, or as somebody else wants it.
            Ok(_) => Ok(()),
            Err(errno) => Err(errno),
        };
        match put_back {
            // A kernel without the switch was booted since, or has lost it: there is nothing to put back.
            Ok(()) | Err(Errno::ENOENT) => self.journal.records_mut().forget_balancing(),
            Err(errno) => report.fail(format!(
                "kernel.numa_balancing could not be set back to {was}: {}; \
                 `sysctl kernel.numa_balancing={was}` as root does it",
                errno.desc()
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Scope;
    use crate::fake::{Bench, NO_SWITCH};

    fn says(bench: &Bench) -> u32 {
        bench.fake.0.borrow().balancing
    }

    fn somebody_sets(bench: &Bench, mode: u32) {
        bench.fake.0.borrow_mut().balancing = mode;
    }

    #[test]
    fn it_is_switched_on_and_put_back() {
        for was in [0, 2] {
            let bench = Bench::new();
            somebody_sets(&bench, was);
            let mut live = bench.live();
            assert_eq!(live.balance(), Ok(Balancing::Switched));
            assert_eq!((says(&bench), live.journal().open_rows()), (was | 1, 1));
            assert_eq!(live.balance(), Ok(Balancing::Switched), "a second time");
            assert_eq!(live.leave_balancing(), Ok(()));
            assert_eq!((says(&bench), live.journal().open_rows()), (was, 0));
            assert_eq!(live.leave_balancing(), Ok(()), "a second time");
        }
    }

    #[test]
    fn an_administrators_balancing_is_left_to_him() {
        let bench = Bench::new();
        somebody_sets(&bench, 1);
        let mut live = bench.live();
        assert_eq!(live.balance(), Ok(Balancing::Already));
        assert_eq!(live.leave_balancing(), Ok(()));
        assert_eq!((says(&bench), live.journal().open_rows()), (1, 0));
    }

    #[test]
    fn what_somebody_sets_meanwhile_stays() {
        let bench = Bench::new();
        let mut live = bench.live();
        live.balance().unwrap();
        somebody_sets(&bench, 0);
        assert_eq!(live.balance(), Err(Refusal::ChangedByOther));
        assert_eq!((says(&bench), live.journal().open_rows()), (0, 0));
        // As we would have made it, but now it is somebody else's.
        somebody_sets(&bench, 1);
        assert!(live.undo(&Scope::All).is_complete());
        assert_eq!((says(&bench), live.leave_balancing()), (1, Ok(())));
        drop(live);
        assert_eq!(bench.live().undo(&Scope::All), UndoReport::default());
        assert_eq!(says(&bench), 1);
    }

    #[test]
    fn the_next_start_puts_it_back() {
        let bench = Bench::new();
        bench.live().balance().unwrap();
        assert_eq!(says(&bench), 1);
        let report = bench.live().undo(&Scope::All);
        assert!(report.is_complete(), "{report:?}");
        assert_eq!((says(&bench), bench.live().journal().open_rows()), (0, 0));
    }

    #[test]
    fn undoing_one_program_leaves_it_to_the_others() {
        let bench = Bench::new();
        let mut live = bench.live();
        live.balance().unwrap();
        live.undo(&Scope::of(&[topology::Pid(100)]));
        assert_eq!(says(&bench), 1);
    }

    #[test]
    fn what_cannot_be_put_back_is_named_and_stays() {
        let bench = Bench::new();
        let mut live = bench.live();
        live.balance().unwrap();
        bench.fake.0.borrow_mut().errno = Some(Errno::EPERM);
        let told = live.leave_balancing().unwrap_err();
        assert!(told.contains("sysctl kernel.numa_balancing=0"), "{told}");
        assert_eq!(live.undo(&Scope::All).failed, [told]);
        bench.fake.0.borrow_mut().errno = None;
        assert!(live.undo(&Scope::All).is_complete());
        assert_eq!(says(&bench), 0);
    }

    #[test]
    fn where_it_may_not_be_changed_nothing_stays_open() {
        let bench = Bench::new();
        let mut live = bench.live();
        bench.fake.0.borrow_mut().errno = Some(Errno::EROFS);
        assert_eq!(live.balance(), Err(Refusal::NotPermitted));
        assert_eq!(live.journal().open_rows(), 0);
        somebody_sets(&bench, NO_SWITCH);
        assert_eq!(live.balance(), Err(Refusal::Unsupported));
    }
}
