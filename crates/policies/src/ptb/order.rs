//! In which order threads are looked at: by what they do, not by how they are listed.
//!
//! The kernel tells apart who is similar to whom. What it cannot tell apart it takes in the order of
//! the list: threads that share nothing, or as much with everyone. Those are told apart here by how much
//! they use memory, where they are, and what they say. Next after some threads comes who is most
//! similar to all of them, so that equal groups stay together; those who are equal even so differ in
//! nothing but their position.

use std::cmp::Reverse;

use numad_core::Program;

use crate::amounts::uses;

/// What one thread is told from another by: how similar it is to all others, what it uses, where it
/// is, and what it says. The least comes first.
type Trait = (Reverse<u64>, Reverse<u64>, usize, Reverse<u64>);

/// Tasks by content. `links` names them by place in `tasks`: two places, and how similar they are.
pub(super) fn by_content(
    program: &Program<'_>,
    tasks: &[usize],
    links: &[(u32, u32, u64)],
) -> Vec<usize> {
    let traits = traits(program, tasks, links);
    let mut partners = vec![Vec::new(); tasks.len()];
    for &(one, other, amount) in links {
        partners[one as usize].push((other as usize, amount));
        partners[other as usize].push((one as usize, amount));
    }
    let mut waiting: Vec<usize> = (0..tasks.len()).collect();
    waiting.sort_by_key(|&place| traits[place]);
    let mut near = vec![0_u64; tasks.len()];
    let mut listed = Vec::with_capacity(tasks.len());
    while !waiting.is_empty() {
        let mut next = 0;
        for (at, &place) in waiting.iter().enumerate() {
            if near[place] > near[waiting[next]] {
                next = at;
            }
        }
        let place = waiting.remove(next);
        listed.push(tasks[place]);
        for &(other, amount) in &partners[place] {
            near[other] = near[other].saturating_add(amount);
        }
    }
    listed
}

fn traits(program: &Program<'_>, tasks: &[usize], links: &[(u32, u32, u64)]) -> Vec<Trait> {
    let used = uses(program);
    let mut similar = vec![0_u64; tasks.len()];
    for &(one, other, amount) in links {
        for place in [one, other] {
            similar[place as usize] = similar[place as usize].saturating_add(amount);
        }
    }
    let of = |(&task, similar): (&usize, u64)| {
        let node = program.tasks[task].node.unwrap_or(usize::MAX);
        let said = program.decayed.row_sum(task);
        (Reverse(similar), Reverse(used[task]), node, Reverse(said))
    };
    tasks.iter().zip(similar).map(of).collect()
}

#[cfg(test)]
mod tests {
    use testkit::{Dice, Scene};

    use super::*;

    /// What each of the listed does, in the order in which they are listed.
    #[track_caller]
    fn check(scene: &Scene, links: &[(u32, u32, u64)], expected: &[usize]) {
        let tasks: Vec<usize> = (0..scene.tasks.len()).collect();
        assert_eq!(by_content(&scene.as_program(), &tasks, links), expected);
    }

    #[test]
    fn those_who_are_alike_stay_together_the_closest_first() {
        let scene = Scene::new("2x4").with_tasks_on(&[0; 6]);
        check(
            &scene,
            &[(0, 3, 5), (1, 4, 5), (2, 5, 9)],
            &[2, 5, 0, 3, 1, 4],
        );
        check(&scene, &[], &[0, 1, 2, 3, 4, 5]);
    }

    #[test]
    fn who_shares_nothing_is_told_by_use_then_node_then_talk() {
        let mut scene = Scene::new("2x4")
            .with_tasks_on(&[1, 0, 0, 1])
            .with_talk(&[(1, 2, 5), (2, 3, 2)])
            .with_page(None, &[3]);
        check(&scene, &[], &[3, 2, 1, 0]);
        scene.pages[0].recent[0].weight = 0;
        check(&scene, &[], &[2, 1, 3, 0]);
    }

    #[test]
    fn equal_groups_are_listed_group_by_group_however_they_are_numbered() {
        let mut dice = Dice::new(11);
        for _ in 0..50 {
            let mut place_of: Vec<u32> = (0..12).collect();
            dice.shuffle(&mut place_of);
            let scene = Scene::new("4x3").with_tasks_on(&[0; 12]);
            let links: Vec<(u32, u32, u64)> = (0..12)
                .flat_map(|one| (0..one).map(move |other| (other, one)))
                .filter(|(other, one)| other / 3 == one / 3)
                .map(|(other, one)| (place_of[other], place_of[one], 7))
                .collect();
            let tasks: Vec<usize> = (0..12).collect();
            let listed = by_content(&scene.as_program(), &tasks, &links);
            let group =
                |task: usize| place_of.iter().position(|&at| at as usize == task).unwrap() / 3;
            for three in listed.chunks(3) {
                assert!(three.iter().all(|&task| group(task) == group(three[0])));
            }
        }
    }
}
