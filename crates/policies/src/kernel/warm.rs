//! From the mapping that is there: who changed, changes places; the others hardly move.

use super::graph::{Steps, id};
use super::table::{Field, Local, Table, Trade};

/// Tasks that change places among themselves first, in percent of all and at most: after one in ten took
/// another role, those and little else.
const CHANGED_PERCENT: usize = 12;
const CHANGED_MAX: usize = 128;
/// Rounds of that; a third finds next to nothing.
const ROUNDS_MAX: usize = 3;

/// Descends from the start as if moves were free, then lets those go back that are not worth their
/// price. Prices from the beginning would keep tasks from making room for each other. Where this ends
/// worse than the start, the start is what remains.
pub(super) fn freely<'a>(
    field: Field<'a>,
    start: &[u16],
    (table, steps): (&'a mut Table, &'a mut Steps),
) -> Local<'a> {
    let free = Field::free(field.rows, field.machine);
    let mut local = Local::new(free, table, steps);
    let before = local.cost + local.priced(field.linear, start);
    rearrange(&mut local);
    local.descend(0..field.rows.tasks(), false);
    local.charge(field.linear);
    let mut moved = std::mem::take(&mut local.table.kicked);
    moved.clear();
    let pitch = field.machine.pitch;
    for (task, (&node, &before)) in local.table.node.iter().zip(start).enumerate() {
        let price = field.linear.get(task * pitch + usize::from(node));
        if node != before || price.is_some_and(|&price| price > 0) {
            moved.push(id(task));
        }
    }
    local.descend(moved.iter().map(|&task| task as usize), false);
    local.table.kicked = moved;
    if local.cost >= before {
        local.table.node.copy_from_slice(start);
        local.load();
        local.descend(0..field.rows.tasks(), false);
    }
    local
}

/// Those who would save most elsewhere change places among themselves, whoever saves most first.
///
/// A plain descent lets a task whose partners went away trade with any other that loses little, and what
/// was in its place before stands in the way of the next.
fn rearrange(local: &mut Local<'_>) {
    let tasks = local.field.rows.tasks();
    let mut wishes = std::mem::take(&mut local.table.wishes);
    wishes.clear();
    for task in 0..tasks {
        let least = local.least_delta(task);
        if least < 0 {
            wishes.push((least, id(task)));
        }
    }
    let most = (tasks * CHANGED_PERCENT / 100 + 1).min(CHANGED_MAX);
    if wishes.len() > most {
        wishes.select_nth_unstable(most - 1);
        wishes.truncate(most);
    }
    wishes.sort_unstable();
    for _ in 0..ROUNDS_MAX {
        let mut any = false;
        for &(_, task) in &wishes {
            if !local.steps.spend(wishes.len()) {
                break;
            }
            if let Some(other) = best_partner(local, task as usize, &wishes) {
                local.apply(task as usize, Trade::Swap(other));
                any = true;
            }
        }
        if !any {
            break;
        }
    }
    local.table.wishes = wishes;
}

/// With whom of those a task changes places best, if that helps.
fn best_partner(local: &Local<'_>, task: usize, among: &[(i32, u32)]) -> Option<usize> {
    if local.least_delta(task) == 0 {
        return None;
    }
    let Field { rows, machine, .. } = local.field;
    let from = usize::from(local.table.node[task]);
    let row = local.row(task);
    let mut best = (0, None);
    for &(_, other) in among {
        let other = other as usize;
        let to = usize::from(local.table.node[other]);
        let own = row[to] - row[from];
        if own >= 0 {
            continue;
        }
        let both = own + local.delta(other, from);
        if both < best.0 {
            let both = both + machine.apart(from, to) * rows.between(task, other);
            if both < best.0 {
                best = (both, Some(other));
            }
        }
    }
    best.1
}
