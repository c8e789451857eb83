//! What is left to the kernel's own balancing while it is on.
//!
//! It sees reads as well, moves a page in the thread that uses it, and knows sooner than any window
//! of ours where a thread runs that shares nothing. So as long as it brings home what single
//! threads use by themselves, that is not moved. Threads that share next to nothing are bound where
//! they run once a second window is judged: unbound they would wander, and their memory with them;
//! in the first, threads are still being started. What several share, or is to be spread, it cannot
//! place well, and numad does. Nobody moves a page back that the other moved: one that is found
//! elsewhere than we put it stays there until a thread that uses it moves.

use super::Judgement;
use crate::policy::{Page, Program, Task};

/// How many times less than who uses it most a task must use memory for it to have strayed there.
const STRAYED: u32 = 8;

/// Share of accesses that says nothing: of a thread's to what it shares, or of all to what single
/// threads use to what is far.
pub(super) const FEW: f64 = 0.05;

/// Part of what was far in the judged window before that must have come home for the kernel to be
/// at it.
const PROGRESS: f64 = 0.1;

/// What is the kernel's in a window.
#[derive(Clone, Debug, Default)]
pub(in crate::engine) struct Left {
    /// It moves pages by itself: what it moved is not moved back.
    pub balances: bool,
    /// Pages that one task alone uses are.
    pages: bool,
    /// Tasks that share next to nothing are, by position.
    tasks: Vec<bool>,
}

impl Left {
    /// Whether a task is.
    pub(in crate::engine) fn has(&self, task: usize) -> bool {
        self.tasks.get(task).copied().unwrap_or(false)
    }

    /// Whether a page is that is wanted on a node: one task uses it, and runs there.
    pub(in crate::engine) fn has_page(&self, page: &Page, node: usize, tasks: &[Task]) -> bool {
        self.pages && own_node(page, tasks) == Some(node)
    }
}

/// How the kernel gets on with memory that one thread alone uses.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ally {
    /// Share of it that was far from its thread in the last judged window.
    far: Option<f64>,
    /// Too much was, and nothing had come of it since the judged window before.
    is_stuck: bool,
}

impl Ally {
    /// Takes note of what was far in a judged window.
    fn note(&mut self, far: f64) {
        let before = self.far.replace(far);
        let at_it = before.is_none_or(|before| far < (1.0 - PROGRESS) * before);
        self.is_stuck = far > FEW && !at_it;
    }
}

/// Who uses what alone.
#[derive(Debug)]
struct Alone {
    /// Accesses of each task to what it uses alone, and to what it shares.
    each: Vec<(f64, f64)>,
    /// Accesses to what one task alone uses, and those of them that are far.
    all: f64,
    far: f64,
}

impl Alone {
    fn of(program: &Program<'_>) -> Self {
        let mut alone = Self {
            each: vec![(0.0, 0.0); program.tasks.len()],
            all: 0.0,
            far: 0.0,
        };
        for page in program.pages {
            let is_shared = users(page).nth(1).is_some();
            for (task, uses) in page.users() {
                if let Some((own, shared)) = alone.each.get_mut(task) {
                    *(if is_shared { shared } else { own }) += uses;
                }
            }
            if let (Some(node), Some(home)) = (own_node(page, program.tasks), page.node()) {
                let weight = page.weight() as f64;
                alone.all += weight;
                alone.far += if home == node { 0.0 } else { weight };
            }
        }
        alone
    }
}

/// Tasks that use a page, but for those that strayed there.
pub(super) fn users(page: &Page) -> impl Iterator<Item = usize> + '_ {
    let users = page.accessors().iter();
    let most = users.clone().map(|user| user.weight).max().unwrap_or(0);
    users
        .filter(move |user| user.weight >= most / STRAYED)
        .map(|user| user.task as usize)
}

/// The node of the task that uses a page, if there is but one.
fn own_node(page: &Page, tasks: &[Task]) -> Option<usize> {
    let mut users = users(page);
    let own = users.next().and_then(|task| tasks.get(task))?;
    own.node.filter(|_| users.next().is_none())
}

impl Judgement {
    /// What is left to the kernel in this window, which balances and may have it.
    pub(in crate::engine) fn left_to_kernel(
        &mut self,
        balances: bool,
        evidence: bool,
        program: &Program<'_>,
    ) -> Left {
        if !balances {
            self.ally = Ally::default();
            return Left::default();
        }
        let alone = Alone::of(program);
        let is_first = self.ally.far.is_none();
        if evidence && alone.all > 0.0 {
            self.ally.note(alone.far / alone.all);
        }
        if self.ally.is_stuck {
            return Left {
                balances,
                ..Left::default()
            };
        }
        let is_left =
            |&(own, shared): &(f64, f64)| is_first && own > 0.0 && shared <= FEW * (own + shared);
        Left {
            balances,
            pages: true,
            tasks: alone.each.iter().map(is_left).collect(),
        }
    }
}
