//! LAPT: locality-aware page and thread mapping (Cruz, Diener, Navaux).
//!
//! Threads are mapped by dual recursive bipartitioning (section III-B of the paper: that of Scotch 6.0) of the
//! communication that shared pages show, pages follow by the data mapping of section III-C
//! ([`crate::data_mapping`]). The paper maps anew in every interval and tells migrations no price; ours
//! keeps a placement until another is worth its moves, which `gain_min = 0` switches off. The interval
//! is the engine's: `interval = lapt`.

use numad_core::PolicyFactory;

use crate::board;
use crate::data_mapping::{self, DataMapping};
use crate::gather::Gather;
use crate::kernel::drb;
use crate::matrix_choice::MatrixChoice;

/// Makes the policy `lapt`.
pub(crate) static LAPT: PolicyFactory = PolicyFactory {
    name: "lapt",
    summary: "Maps threads by dual recursive bipartitioning of what they share, and pages to the \
              node that uses them most.",
    settings: &[
        MatrixChoice::SPEC,
        board::GAIN_MIN,
        data_mapping::RATIO,
        data_mapping::HISTORY,
    ],
    seeks_gain: true,
    goes_by_order: false,
    published: Some(&crate::published::lapt::PUBLISHED),
    build: |settings, _| {
        Ok(Box::new(Gather {
            matrix: MatrixChoice::new(settings),
            kernel: drb,
            gain_min: settings.float(board::GAIN_MIN.name),
            pages: Some(DataMapping::new(settings)),
            ..Gather::threads_alone()
        }))
    },
};

#[cfg(test)]
mod tests {
    use numad_core::{Proposal, Reason};
    use testkit::Scene;

    use crate::tests::{nodes_after, proposals};

    #[test]
    fn sharers_meet_and_pages_follow_by_the_table_of_the_paper() {
        // ALGORITHMS, section 6: accessors 3, 0, 2, 1 of a page, thread 0 on node 0, the others on node 1.
        let scene = Scene::new("4x4")
            .with_tasks_on(&[0, 1, 1, 1])
            .with_page(Some(0), &[3, 0, 2, 1]);
        let page = Proposal::MovePage {
            page: scene.pages[0].key,
            node: 1,
            reason: Reason::Accesses {
                there: 3,
                mean: 1.0,
            },
        };
        assert_eq!(proposals("lapt", &[], &scene).last(), Some(&page));
        let scene = scene.with_talk(&[(3, 0, 30), (3, 2, 30), (3, 1, 30)]);
        assert_eq!(nodes_after("lapt", &scene), [Some(1); 4]);
    }

    #[test]
    fn partners_apart_come_together() {
        let scene = Scene::new("2x2")
            .with_tasks_on(&[0, 1, 0, 1])
            .with_talk(&[(0, 1, 10), (2, 3, 9)]);
        let nodes = nodes_after("lapt", &scene);
        assert!(nodes[0] == nodes[1] && nodes[2] == nodes[3] && nodes[0] != nodes[2]);
    }
}
