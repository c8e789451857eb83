//! LAPT's data mapping without thread mapping; the LAPT paper compares itself with it as Marathe.

use numad_core::PolicyFactory;

use crate::data_mapping::{self, DataMapping};

/// Makes the policy `data-only`.
pub(crate) static DATA_ONLY: PolicyFactory = PolicyFactory {
    name: "data-only",
    summary: "Moves pages to the node that uses them most and leaves threads alone: for threads \
              that are pinned already.",
    settings: &[data_mapping::RATIO, data_mapping::HISTORY],
    seeks_gain: true,
    goes_by_order: false,
    published: Some(&crate::published::marathe::PUBLISHED),
    build: |settings, _| Ok(Box::new(DataMapping::new(settings))),
};

#[cfg(test)]
mod tests {
    use numad_core::{Proposal, Reason};
    use testkit::Scene;

    use crate::tests::proposals;

    #[test]
    fn pages_move_and_threads_do_not() {
        let scene = Scene::new("4x1")
            .with_tasks_on(&[0, 1, 1, 1])
            .with_talk(&[(0, 1, 100)])
            .with_page(Some(0), &[3, 0, 2, 1]);
        let expected = Proposal::MovePage {
            page: scene.pages[0].key,
            node: 1,
            reason: Reason::Accesses {
                there: 3,
                mean: 1.0,
            },
        };
        assert_eq!(proposals("data-only", &[], &scene), [expected]);
    }
}
