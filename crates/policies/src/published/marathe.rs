//! Marathe and Mueller (2006), as LAPT's paper compares itself with it: a profile at the start, and from it one place
//! for each page, the node that accessed it most; threads stay.

use std::collections::BTreeMap;

use numad_core::{Bind, PageKey, Policy, Program, Proposal, Published, Reason, Time};

use super::{PROFILE_LAW, Profile};

pub(crate) const PUBLISHED: Published = Published {
    paper: "Marathe and Mueller 2006, as LAPT compares itself with it",
    interval: PROFILE_LAW,
    bind: Bind::Node,
    takes: &[],
    build: |_, _| Ok(Box::new(Marathe::default())),
};

/// Accesses of each page by node, and what came of the profile.
#[derive(Debug, Default)]
struct Marathe {
    profile: Profile,
    seen: BTreeMap<PageKey, Vec<u64>>,
    places: BTreeMap<PageKey, (usize, u32, f64)>,
}

/// The node that accessed a page most, the first of equals; none if nobody did.
pub(crate) fn most_used(counts: &[u64]) -> Option<usize> {
    let most = counts.iter().copied().max().filter(|&most| most > 0)?;
    counts.iter().position(|&count| count == most)
}

impl Policy for Marathe {
    fn propose(&mut self, now: Time, program: &Program<'_>, out: &mut Vec<Proposal>) {
        let nodes = program.capacity.len();
        if !self.profile.done {
            for (page, record) in program.pages.iter().zip(program.records) {
                let counts = self.seen.entry(page.key).or_insert_with(|| vec![0; nodes]);
                for &(task, accesses) in &record.uses {
                    if let Some(node) = program.tasks[task as usize].node {
                        counts[node] += accesses;
                    }
                }
            }
        }
        if self.profile.ends(now, program.window) {
            for (key, counts) in std::mem::take(&mut self.seen) {
                if let Some(node) = most_used(&counts) {
                    let sum: u64 = counts.iter().sum();
                    let there = u32::try_from(counts[node]).unwrap_or(u32::MAX);
                    self.places
                        .insert(key, (node, there, sum as f64 / nodes as f64));
                }
            }
        }
        for page in program.pages {
            let Some(&(node, there, mean)) = self.places.get(&page.key) else {
                continue;
            };
            if page.home.is_some_and(|home| usize::from(home) != node) {
                let reason = Reason::Accesses { there, mean };
                out.push(Proposal::move_page(page.key, node, reason));
            }
        }
    }
}
