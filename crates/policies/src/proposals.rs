//! Proposals as they are made and read.

use numad_core::{PageKey, Proposal, Reason};

/// Lets a task run on a node.
pub(crate) const fn place_task(task: usize, node: usize, reason: Reason) -> Proposal {
    Proposal::PlaceTask { task, node, reason }
}

/// Puts a page on a node.
pub(crate) const fn move_page(page: PageKey, node: usize, reason: Reason) -> Proposal {
    Proposal::MovePage { page, node, reason }
}

/// The page and the node of a wish for a page.
pub(crate) const fn page_move(proposal: &Proposal) -> Option<(PageKey, usize)> {
    match proposal {
        Proposal::MovePage { page, node, .. } => Some((*page, *node)),
        Proposal::PlaceTask { .. } => None,
    }
}
