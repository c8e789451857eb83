//! What tasks say to each other and ask of memory, from what was seen of them.

use numad_core::cost::{BUSY, asked_gbps};
use numad_core::{Page, Program};

/// Most nodes times nodes and tasks for which the cost model compares several ways; each of them
/// costs a question some 5 us.
const MODEL_SIZE_MAX: usize = 2048;

/// Whether a program and its machine are that small.
pub(crate) fn can_be_modelled(program: &Program<'_>) -> bool {
    let nodes = program.topology.nodes().len();
    nodes.saturating_mul(nodes.saturating_add(program.tasks.len())) <= MODEL_SIZE_MAX
}

/// Whether a node full of its threads could ask much of what a controller gives, and wait there.
pub(crate) fn could_wait(program: &Program<'_>) -> bool {
    if !can_be_modelled(program) {
        return false;
    }
    let most = program.capacity.iter().max().copied().unwrap_or(0);
    let part = most as f64 / program.tasks.len().max(most).max(1) as f64;
    let asked = asked_gbps(program).iter().sum::<f64>() * part;
    let model = program.model;
    (0..model.nodes()).any(|memory| asked > BUSY * model.controller_gbps(memory))
}

/// How often an access to memory that several tasks use stands in the matrix, on average: once for
/// each of the others that used it since the task did last, though only one of them can have had
/// the line. Of two who use a page at random, one did with the probability that its part of what
/// both use has.
pub(crate) fn times_counted(program: &Program<'_>) -> f64 {
    let (mut times, mut all) = (0.0, 0.0);
    for page in program.pages.iter().filter(|page| page.accessor_count > 1) {
        let weights = page.accessors().iter().map(|one| f64::from(one.weight));
        for (at, one) in weights.clone().enumerate() {
            for other in weights.clone().skip(at + 1) {
                times += 2.0 * one * other / (one + other).max(1.0);
            }
            all += one;
        }
    }
    if all > 0.0 && times > 0.0 {
        times / all
    } else {
        1.0
    }
}

/// How much each task was seen to use memory, in weights of pages.
pub(crate) fn uses(program: &Program<'_>) -> Vec<u64> {
    let mut uses = vec![0; program.tasks.len()];
    for user in program.pages.iter().flat_map(Page::accessors) {
        if let Some(sum) = uses.get_mut(user.task as usize) {
            *sum += u64::from(user.weight);
        }
    }
    uses
}
