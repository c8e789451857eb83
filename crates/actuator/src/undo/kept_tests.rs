//! What undo has to leave for later, and with whom it leaves it alone.

use numad_core::AttachmentId;
use topology::{Pid, Tid};

use crate::fake::bind;
use crate::live_tests::bench;
use crate::{ProcessKey, Scope};

/// What it had is in the rows of who made it, which has ended.
#[test]
fn a_child_that_could_not_be_looked_at_is_put_back_later() {
    for restarted in [false, true] {
        let (bench, [_, second, _]) = bench();
        let mut live = bench.live();
        bind(&mut live, second, "0-3");
        let orphan = bench.fake.0.borrow_mut().spawn(Tid(101), 300, 300);
        let child = ProcessKey {
            pid: Pid(300),
            start: orphan.start,
        };
        live.follow(AttachmentId(1), &[child]);
        bench.fake.0.borrow_mut().end(Pid(100));
        let named = [(Pid(100), None), (Pid(300), None)].into();
        let mut scope = Scope::Program(AttachmentId(1), named);
        if restarted {
            drop(live);
            live = bench.live();
            scope = Scope::All;
        }
        bench.fake.0.borrow_mut().hidden = Some(libc::EMFILE);
        assert!(!live.undo(&scope).is_complete());
        bench.fake.0.borrow_mut().hidden = None;
        // A daemon does so every minute.
        live.prune();
        live.prune();
        let scope = match restarted {
            true => Scope::All,
            false => Scope::of(&[Pid(300)]),
        };
        let report = live.undo(&scope);
        assert_eq!(report.threads_restored, 1, "{report:?}");
        assert_eq!(bench.mask(orphan), "0-7");
        live.undo(&Scope::All);
        assert_eq!(live.journal().open_rows(), 0);
    }
}
