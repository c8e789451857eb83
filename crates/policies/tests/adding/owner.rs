//! Owner: a page belongs to the thread that uses it most.

use numad_core::{Policy, PolicyFactory, Program, Proposal, Reason, Time};

/// Makes the policy `owner`.
pub(crate) static OWNER: PolicyFactory = PolicyFactory {
    name: "owner",
    summary: "Puts each page on the node of the thread that uses it most.",
    settings: &[],
    seeks_gain: true,
    goes_by_order: false,
    published: None,
    build: |_settings, _seed| Ok(Box::new(Owner)),
};

/// The policy `owner`.
#[derive(Debug)]
struct Owner;

impl Policy for Owner {
    fn propose(&mut self, _now: Time, program: &Program<'_>, out: &mut Vec<Proposal>) {
        let mut free = program.free_bytes.to_vec();
        for page in program.pages {
            // The most recent of equals, which stands first: `max_by_key` takes the last.
            let users = page.accessors().iter().rev();
            let Some(owner) = users.max_by_key(|user| user.weight) else {
                continue;
            };
            let there = program.tasks[owner.task as usize].node;
            let (Some(home), Some(node)) = (page.home.map(usize::from), there) else {
                continue;
            };
            if node != home && free[node] >= program.page_bytes {
                free[node] -= program.page_bytes;
                let mean = f64::from(owner.weight) / free.len() as f64;
                let there = owner.weight;
                out.push(Proposal::MovePage {
                    page: page.key,
                    node,
                    reason: Reason::Accesses { there, mean },
                });
            }
        }
    }
}
