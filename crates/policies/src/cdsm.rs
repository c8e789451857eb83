//! CDSM: communication detection in shared memory, from page faults; threads alone.
//!
//! The kernel module of the paper (Diener, Cruz, Navaux, Busse and Heiß 2015) counts, over the whole run,
//! which threads fault on the same page one after the other, and maps threads by grouping from the leaves of
//! the machine up. Here the page table of the engine counts, whatever the source of samples; the decayed
//! matrix stands for the whole run, so that what is long past does not hold for ever.
//!
//! CDSM took every thread for one that works, and mapped helper threads of MPI runtimes in place of ranks
//! (OnDeLoc-MPI, section 3.1: three times more threads than ranks). Only *tasks* take part here: threads
//! that used `busy_min` of a processor in the window.

use numad_core::{PolicyFactory, SettingKind, SettingSpec};

use crate::board;
use crate::gather::Gather;
use crate::kernel::treematch;

/// Who is a task. A twentieth of a processor is what the engine asks for as well; asking for more
/// leaves out helpers that poll.
const BUSY_MIN: SettingSpec = SettingSpec {
    name: "busy_min",
    kind: SettingKind::Float((0.0, 1.0), 0.05),
    help: "Threads that used a smaller share of a processor in the window do not count.",
};

/// Makes the policy `cdsm`.
pub(crate) static CDSM: PolicyFactory = PolicyFactory {
    name: "cdsm",
    summary: "Brings busy threads that share pages together, by all windows so far, and leaves \
              pages alone.",
    settings: &[BUSY_MIN, board::GAIN_MIN],
    seeks_gain: true,
    goes_by_order: false,
    published: Some(&crate::published::cdsm::PUBLISHED),
    build: |settings, _| {
        Ok(Box::new(Gather {
            kernel: treematch,
            gain_min: settings.float(board::GAIN_MIN.name),
            busy_min: settings.float(BUSY_MIN.name),
            ..Gather::threads_alone()
        }))
    },
};

#[cfg(test)]
mod tests {
    use numad_core::{CommMatrix, Proposal};
    use testkit::Scene;

    use crate::tests::{nodes_after, proposals};

    fn crossed() -> Scene {
        Scene::new("2x2")
            .with_tasks_on(&[0, 1, 0, 1])
            .with_talk(&[(0, 1, 10), (2, 3, 9)])
            .with_page(Some(0), &[3])
    }

    #[test]
    fn sharers_meet_and_pages_stay() {
        let mut scene = crossed();
        // What was shared before counts, not this window alone.
        scene.live = CommMatrix::new(4);
        let nodes = nodes_after("cdsm", &scene);
        assert!(nodes[0] == nodes[1] && nodes[2] == nodes[3], "{nodes:?}");
        let pages = proposals("cdsm", &[], &scene);
        assert!(
            !pages
                .iter()
                .any(|one| matches!(one, Proposal::MovePage { .. }))
        );
    }

    #[test]
    fn helpers_are_no_tasks() {
        // Helper 3 says most to 2, and does nothing else.
        let mut scene = Scene::new("2x2")
            .with_tasks_on(&[0, 1, 0, 1])
            .with_talk(&[(0, 1, 10), (2, 3, 900)]);
        scene.tasks[3].busy = 0.02;
        let placed = proposals("cdsm", &[], &scene);
        let tasks: Vec<usize> = placed
            .iter()
            .filter_map(|one| match one {
                Proposal::PlaceTask { task, .. } => Some(*task),
                Proposal::MovePage { .. } => None,
            })
            .collect();
        assert_eq!(tasks, [0, 1]);
        assert_eq!(proposals("cdsm", &[("busy_min", "0")], &scene).len(), 4);
    }
}
