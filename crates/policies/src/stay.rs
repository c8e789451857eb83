//! Who uses memory and talks to nobody is kept where it runs, so that its pages can follow.

use numad_core::{CommMatrix, Page, Program, Proposal, Reason, Task};

use crate::seats::{Seats, may_run};

/// Proposes tasks that use memory and say nothing where they are, behind what was proposed for those
/// who talk and as far as there are places. One whose node has no place left goes to the emptiest.
///
/// Unbound they would wander, and their pages would come too late everywhere.
pub(crate) fn keep_the_silent(program: &Program<'_>, matrix: &CommMatrix, out: &mut Vec<Proposal>) {
    keep(program, matrix, Seats::emptiest, out);
}

/// The same, but one whose node has no place left stays unbound: for methods that deal everyone out anew
/// when the places of a node change.
pub(crate) fn keep_in_place(program: &Program<'_>, matrix: &CommMatrix, out: &mut Vec<Proposal>) {
    keep(program, matrix, |_, _| None, out);
}

fn keep(
    program: &Program<'_>,
    matrix: &CommMatrix,
    otherwise: impl Fn(&Seats, &Task) -> Option<usize>,
    out: &mut Vec<Proposal>,
) {
    let mut placed = vec![false; program.tasks.len()];
    for (task, _) in out.iter().filter_map(Proposal::place) {
        placed[task] = true;
    }
    if placed.iter().all(|&placed| placed) {
        return;
    }
    let mut with_pages = vec![false; program.tasks.len()];
    for accessor in program.pages.iter().flat_map(Page::accessors) {
        if let Some(with_pages) = with_pages.get_mut(accessor.task as usize) {
            *with_pages = true;
        }
    }
    // Whoever is not placed and not kept stays where it is, and needs its place.
    let is_silent = |task: usize| matrix.row(task).iter().all(|&amount| amount == 0);
    let stays =
        |&task: &usize| is_silent(task) && with_pages[task] && !is_misplaced(&program.tasks[task]);
    let unplaced = (0..program.tasks.len()).filter(|&task| !placed[task]);
    let (kept, left): (Vec<usize>, Vec<usize>) = unplaced.partition(stays);
    let mut seats = Seats::without(program, left.into_iter());
    for (_, node) in out.iter().filter_map(Proposal::place) {
        // A plan that was not taken leaves talkers where they are, places or not.
        if seats.has(node, 1) {
            seats.take(node);
        }
    }
    // Nobody is given a place that another has who stays.
    let tasks = program.tasks;
    let mut try_own = |task: usize| {
        let node = tasks[task].node;
        node.filter(|&node| seats.try_take(node, &tasks[task]))
    };
    let own: Vec<Option<usize>> = kept.iter().map(|&task| try_own(task)).collect();
    for (task, own) in kept.into_iter().zip(own) {
        let node = own.or_else(|| {
            let node = otherwise(&seats, &tasks[task])?;
            seats.take(node);
            Some(node)
        });
        out.extend(node.map(|node| Proposal::place_task(task, node, Reason::Stay)));
    }
}

/// Whether a task is seen where it may not run. Its mask was narrowed a moment ago, and the scheduler
/// will move it; were its place given away before, talkers would be planned anew for it.
fn is_misplaced(task: &Task) -> bool {
    task.node.is_some_and(|node| !may_run(task, node))
}

#[cfg(test)]
mod tests {
    use testkit::Scene;

    use crate::tests::nodes_after;

    #[test]
    fn one_too_many_on_a_node_takes_no_place_of_another() {
        let mut scene = Scene::new("3x2").with_tasks_on(&[0, 0, 0, 1, 1, 2]);
        for task in 0..6 {
            scene = scene.with_page(Some(0), &[task]);
        }
        let nodes = [0, 0, 2, 1, 1, 2].map(Some);
        assert_eq!(nodes_after("deloc", &scene), nodes);
    }
}
