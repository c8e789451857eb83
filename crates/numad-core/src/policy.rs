//! The plug point. A policy proposes; the engine limits, excludes, and may drop anything.

use std::cmp::Reverse;
use std::fmt;
use std::time::Duration;

use topology::{CoreId, TaskKey, Topology};

use crate::cost::{MachineModel, Prices};
use crate::matrix::CommMatrix;
use crate::published::{Made, Published};
use crate::setting::{SettingSpec, Settings};
use crate::time::Time;

/// Decides where the threads and pages of one program should be.
///
/// One value per attachment, made by a [`PolicyFactory`]. It may keep what it learned between
/// calls. It must not depend on anything but its arguments, so that the same calls give the same
/// proposals.
pub trait Policy: Send + fmt::Debug {
    /// Appends proposals for this window, best first. Nothing to say is a good answer.
    fn propose(&mut self, now: Time, program: &Program<'_>, out: &mut Vec<Proposal>);

    /// Appends whole plans for this window, each instead of the others, without a price: the engine
    /// takes the one that is worth most, the first of equals, and the first where none is worth its
    /// price. Most policies have one.
    fn plans(&mut self, now: Time, program: &Program<'_>, out: &mut Vec<Plan>) {
        let mut plan = Plan::new();
        self.propose(now, program, &mut plan);
        out.push(plan);
    }

    /// The same for one who goes by threads alone: wishes for pages may be left out, and what is
    /// kept of pages then stays as it is.
    fn thread_plans(&mut self, now: Time, program: &Program<'_>, out: &mut Vec<Plan>) {
        self.plans(now, program, out);
    }

    /// Appends wishes for pages alone to what was wanted of threads, which stands; false from one
    /// that has to be asked for all, as by default.
    fn page_moves(&mut self, _now: Time, _program: &Program<'_>, _out: &mut Plan) -> bool {
        false
    }

    /// Reports which of the last plans was taken, by its position. The default ignores it.
    fn on_choice(&mut self, _plan: usize) {}

    /// Reports what became of an earlier proposal. The default ignores it.
    fn on_fate(&mut self, _now: Time, _proposal: &Proposal, _fate: Fate) {}

    /// The core that a task is to run on, on the node where the last proposals place it. None, as
    /// most policies say, leaves the task all processors of the node, or the core that the engine
    /// picks.
    fn core_of(&self, _task: TaskKey) -> Option<CoreId> {
        None
    }
}

/// Makes policies of one kind.
#[derive(Debug)]
pub struct PolicyFactory {
    /// The name people type, lower case.
    pub name: &'static str,
    /// One sentence: what it does and when it helps.
    pub summary: &'static str,
    /// Its settings with bounds and defaults.
    pub settings: &'static [SettingSpec],
    /// Whether it is after a gain, so that moves which do not pay are not made and a placement that
    /// made things worse is put back. False for one that people choose for what it does, such as a
    /// baseline; see `AttachOptions::require_gain`.
    pub seeks_gain: bool,
    /// Whether the order in which tasks are listed is what it goes by, as for a baseline that fills
    /// node after node. For all others listing the same tasks in another order must not change what
    /// the placement costs, as far as tasks can be told apart by what they do.
    pub goes_by_order: bool,
    /// The method as its paper has it; none for a policy of no paper.
    pub published: Option<&'static Published>,
    /// Makes one, of settings and a seed, which is the only randomness it gets. Refuses naming the
    /// setting whose value makes no sense together with the others.
    pub build: fn(&Settings, u64) -> Made,
}

/// What a policy sees of one program at the end of a window.
///
/// Nodes are named by position in `topology.nodes()`, tasks by position in `tasks`.
#[derive(Clone, Copy, Debug)]
pub struct Program<'a> {
    /// The machine.
    pub topology: &'a Topology,
    /// What its memory delivers, with what others take of it where that is known.
    pub model: &'a MachineModel,
    /// The tasks that take part, by ascending thread id.
    pub tasks: &'a [Task],
    /// How many tasks each node takes: usable cores within the program's allowed set, less those
    /// other programs hold; scaled up evenly when there are more tasks than cores.
    pub capacity: &'a [usize],
    /// Free memory of each node in bytes; 0 where the program may not allocate.
    pub free_bytes: &'a [u64],
    /// Communication in this window.
    pub live: &'a CommMatrix,
    /// Communication in all windows, older ones counting less.
    pub decayed: &'a CommMatrix,
    /// Pages that were seen in use, in an order that is the same for the same history.
    pub pages: &'a [Page],
    /// Bytes in a page.
    pub page_bytes: u64,
    /// How long the window was.
    pub window: Duration,
    /// Samples behind all this.
    pub samples: u64,
    /// What moves cost and how many accesses a unit of weight stands for, as far as that is known
    /// by now: the cost of a page is what the host measured once it has moved some.
    pub prices: Prices,
    /// Communication by accesses that another core's cache answered, in all windows, older ones
    /// counting less; none where the source does not tell what answered.
    pub handed: Option<&'a CommMatrix>,
    /// Instructions per cycle in this window; none where they are not counted.
    pub ipc: Option<f64>,
    /// Accesses that memory answers in a window for each unit of weight of a page: weights hold the
    /// windows before as well, faded, and what caches answered.
    pub memory_per_weight: f64,
    /// What papers keep of each page, by position in [`Self::pages`]; empty but for methods as
    /// published.
    pub records: &'a [PageRecord],
    /// Goes up when the program begins to do something else: when those who talk are others than
    /// before, as far as that is no chance. What was found out in another era is of a program that
    /// is no more; what was decided in this one needs no other look at whether the program changed.
    pub era: u32,
}

impl Program<'_> {
    /// The node that each task is on now.
    #[must_use]
    pub fn nodes(&self) -> Vec<Option<usize>> {
        self.tasks.iter().map(|task| task.node).collect()
    }

    /// Where a page is used from: the node of each of its accessors of whom that is known, by
    /// position, with how often it came.
    pub fn uses<'a>(&'a self, page: &'a Page) -> impl Iterator<Item = (usize, f64)> + 'a {
        let node = |task: usize| self.tasks.get(task)?.node;
        let users = page.users();
        users.filter_map(move |(task, uses)| Some((node(task)?, uses)))
    }
}

/// What papers keep of a page, without a limit to how many use it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageRecord {
    /// LAPT's communication vector: tasks by their last accesses, the most recent first; one that
    /// came twice in a row stands there twice. Its length is at most [`ACCESSORS_MAX`].
    pub vector: Vec<u32>,
    /// Accesses in this window by task, each task once: a row of PTB's histogram.
    pub uses: Vec<(u32, u64)>,
}

impl PageRecord {
    /// Accesses of all tasks in this window.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.uses.iter().map(|&(_, sum)| sum).sum()
    }
}

/// A thread or process that takes part in mapping.
#[derive(Clone, Debug, PartialEq)]
pub struct Task {
    /// Who.
    pub key: TaskKey,
    /// The node it is on now: where it was placed, else where it ran last. None while unknown or
    /// running on a processor of no node.
    pub node: Option<usize>,
    /// Whether it may run on each node (by position).
    pub allowed: Vec<bool>,
    /// Share of one processor it used in the window, 0 to 1.
    pub busy: f64,
    /// Samples of it in the window.
    pub samples: u64,
}

/// Which page: a space and a page in it. The space is that of a process, or of an object that
/// processes share, which has one page wherever it is mapped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageKey {
    /// The address space.
    pub space: SpaceId,
    /// Page number within it.
    pub page: u64,
}

/// An address space or a shared object, numbered by the engine from 1 on: process numbers come
/// back, these do not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpaceId(pub u32);

/// A page that was seen in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// Which.
    pub key: PageKey,
    /// Its place in the engine's table; stays the same while the page is tracked, and a policy
    /// that keeps something per page may use it as index if it compares `key` as well.
    pub slot: u32,
    /// The node it is on, by position; none while unknown.
    pub home: Option<u16>,
    /// Its last distinct accessors, most recent first; only the first [`Self::accessor_count`]
    /// count.
    pub recent: [Accessor; ACCESSORS_MAX],
    /// How many of `recent` there are.
    pub accessor_count: u8,
    /// Samples of it in this window and, decayed, before.
    pub samples: u32,
    /// Part of [`Self::weight`] that is of tasks that used it and are not remembered. Those that
    /// are stand for them: their weights hold it, so that what many use is not taken for what few
    /// do. All of it where who uses the page now says nothing of who will.
    pub forgotten: u64,
    /// Pages that it stands for: 1, or more where memory is seen in pieces because single pages are
    /// sampled too seldom. All of them go where it goes, in more than one window if they are many.
    pub span: u64,
}

/// How many distinct accessors a page remembers; K of LAPT.
pub const ACCESSORS_MAX: usize = 4;

/// A task that used a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Accessor {
    /// Position in [`Program::tasks`].
    pub task: u32,
    /// Accesses, samples times period, decayed.
    pub weight: u32,
}

impl Page {
    /// Its last distinct accessors, most recent first.
    #[must_use]
    #[inline]
    pub fn accessors(&self) -> &[Accessor] {
        &self.recent[..usize::from(self.accessor_count).min(ACCESSORS_MAX)]
    }

    /// The same as positions in [`Program::tasks`], with how often each came.
    pub fn users(&self) -> impl Iterator<Item = (usize, f64)> + Clone + '_ {
        let users = self.accessors().iter();
        users.map(|user| (user.task as usize, f64::from(user.weight)))
    }

    /// The node it is on, by position; none while unknown.
    #[must_use]
    pub fn node(&self) -> Option<usize> {
        self.home.map(usize::from)
    }

    /// The one who uses it most; of those who use it alike the first task.
    #[must_use]
    pub fn main_user(&self) -> Option<&Accessor> {
        let users = self.accessors().iter();
        users.max_by_key(|user| (user.weight, Reverse(user.task)))
    }

    /// Accesses of all of them.
    #[must_use]
    #[inline]
    pub fn weight(&self) -> u64 {
        let users = self.accessors().iter();
        users.map(|user| u64::from(user.weight)).sum()
    }

    /// Part of that which is of the accessors themselves, 0 to 1.
    #[must_use]
    pub fn remembered(&self) -> f64 {
        if self.forgotten == 0 {
            return 1.0;
        }
        match self.weight() {
            0 => 1.0,
            all => 1.0 - self.forgotten.min(all) as f64 / all as f64,
        }
    }

    /// Whether it is everyone's, and names but few of them: if those who are not remembered use it
    /// as those who are do, half of so many tasks use it or more. Where the few are who are
    /// remembered says nothing of where it belongs then.
    ///
    /// One who uses it a hundred times as often as three others is not four who do.
    #[must_use]
    pub fn is_everyones(&self, tasks: usize) -> bool {
        if self.forgotten == 0 {
            return false;
        }
        let squares = self.users().map(|(_, weight)| weight * weight);
        let squares: f64 = squares.sum();
        let known = match self.weight() as f64 {
            all if squares > 0.0 => all * all / squares,
            _ => self.accessors().len() as f64,
        };
        known * 2.0 >= self.remembered() * tasks as f64
    }
}

/// What a policy would do in a window, best first.
pub type Plan = Vec<Proposal>;

/// Something a policy wants.
#[derive(Clone, Debug, PartialEq)]
pub enum Proposal {
    /// Let a task run on a node.
    PlaceTask {
        /// Position in [`Program::tasks`].
        task: usize,
        /// Position of the node.
        node: usize,
        /// Why.
        reason: Reason,
    },
    /// Put a page on a node.
    MovePage {
        /// Which.
        page: PageKey,
        /// Position of the node.
        node: usize,
        /// Why.
        reason: Reason,
    },
}

impl Proposal {
    /// Lets a task run on a node, both by position.
    #[must_use]
    pub const fn place_task(task: usize, node: usize, reason: Reason) -> Self {
        Self::PlaceTask { task, node, reason }
    }

    /// Puts a page on a node, which is told by position.
    #[must_use]
    pub const fn move_page(page: PageKey, node: usize, reason: Reason) -> Self {
        Self::MovePage { page, node, reason }
    }

    /// The task and the node of a wish for a task, both by position.
    #[must_use]
    pub const fn place(&self) -> Option<(usize, usize)> {
        match self {
            Self::PlaceTask { task, node, .. } => Some((*task, *node)),
            Self::MovePage { .. } => None,
        }
    }

    /// The page and the node of a wish for a page.
    #[must_use]
    pub const fn page_move(&self) -> Option<(PageKey, usize)> {
        match self {
            Self::MovePage { page, node, .. } => Some((*page, *node)),
            Self::PlaceTask { .. } => None,
        }
    }
}

/// Why a policy wants something; shown by `numadctl explain`.
#[derive(Clone, Debug, PartialEq)]
pub enum Reason {
    /// It belongs with the task it talks to.
    Partner {
        /// That task.
        with: TaskKey,
        /// How much they said in the matrix that decided.
        amount: u64,
    },
    /// The communication load of nodes is made even.
    Load {
        /// The task's own load.
        amount: u64,
    },
    /// The order of tasks alone decided.
    Order,
    /// A seeded shuffle decided.
    Shuffle,
    /// The page is used mostly from there.
    Accesses {
        /// Uses from the node it goes to.
        there: u32,
        /// Mean of uses over the nodes.
        mean: f64,
    },
    /// It uses the same pages as another task.
    Similar {
        /// That task.
        with: TaskKey,
        /// How alike, in hundredths: cosine of what the two use.
        percent: u32,
    },
    /// More bandwidth is left there.
    Bandwidth {
        /// Left from its users to where it goes, in MB/s; 0 when it is overdrawn.
        there_mbps: u64,
        /// Left from its users to where it is.
        here_mbps: u64,
    },
    /// All bandwidth of its users is used up, and the rest of their pages is dealt out evenly.
    Interleave,
    /// All use it alike, and more than its part of what they use is on the node where it is.
    Even {
        /// Hundredths of an even part that are on the node where it is.
        here_percent: u32,
        /// And on the node it goes to.
        there_percent: u32,
    },
    /// It shares nothing, and is kept where it is, so that its pages can follow.
    Stay,
    /// A program outside of numad wants it so.
    External,
    /// What it was before is put back.
    Revert,
    /// What it was before is put back, because the program got on slower since.
    Slower {
        /// Instructions per cycle before, in thousandths.
        before_milli: u32,
        /// And since.
        now_milli: u32,
    },
    /// A core there has fewer threads. Never a policy's reason: the engine's own.
    Crowded,
    /// It may run on more of the processors there than before. The engine's own.
    Wider,
    /// It shares memory with a thread on the same node, and its last-level cache from now on. The
    /// engine's own.
    Cache {
        /// That thread.
        with: TaskKey,
        /// How much they said in the matrix that decided.
        amount: u64,
    },
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Partner { with, amount } => {
                write!(
                    f,
                    "shares memory with thread {} (amount {amount})",
                    with.tid
                )
            }
            Self::Load { amount } => write!(f, "evens out communication load (own load {amount})"),
            Self::Order => f.write_str("order of threads"),
            Self::Shuffle => f.write_str("seeded shuffle"),
            Self::Accesses { there, mean } => {
                write!(f, "used {there}x from there, a node's mean is {mean:.1}x")
            }
            Self::Similar { with, percent } => write!(
                f,
                "uses the same pages as thread {} (similarity {percent} %)",
                with.tid
            ),
            Self::Bandwidth {
                there_mbps,
                here_mbps,
            } => write!(
                f,
                "{there_mbps} MB/s are left there, {here_mbps} MB/s where it is"
            ),
            Self::Interleave => f.write_str("all bandwidth is used up, and pages are dealt out"),
            Self::Even {
                here_percent,
                there_percent,
            } => write!(
                f,
                "used from everywhere; of an even part {here_percent} % are where it is, {there_percent} % there"
            ),
            Self::Stay => f.write_str("stays where it runs, so that its pages can follow"),
            Self::External => f.write_str("an external policy wants it"),
            Self::Revert => f.write_str("the earlier place was better"),
            Self::Slower {
                before_milli,
                now_milli,
            } => write!(
                f,
                "instructions per cycle fell from {}.{:02} to {}.{:02} since it moved",
                before_milli / 1000,
                before_milli % 1000 / 10,
                now_milli / 1000,
                now_milli % 1000 / 10
            ),
            Self::Crowded => f.write_str("a core there has fewer threads"),
            Self::Wider => f.write_str("may run on more processors there now"),
            Self::Cache { with, amount } => write!(
                f,
                "shares memory with thread {} (amount {amount}), and a cache from now on",
                with.tid
            ),
        }
    }
}

/// What became of a proposal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It was carried out.
    Done,
    /// The engine dropped it.
    Dropped(Veto),
    /// The kernel refused.
    Failed,
}

/// Why the engine dropped a proposal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Veto {
    /// It is so already.
    AlreadyThere,
    /// The task or page is not allowed there, or the place has no processors or no memory.
    NotAllowed,
    /// The node is full.
    NoRoom,
    /// Its price exceeds its gain.
    DoesNotPay,
    /// The memory there is near its limit, and would make it slower.
    Congested,
    /// The budget of this window is used up.
    Budget,
    /// It moved too recently.
    MovedRecently,
    /// Too few samples support it, too many were lost, or those that there are could be chance.
    Evidence,
    /// More of the program's memory is in no sample than in some, and may be used from where the
    /// task was.
    Unseen,
    /// The task or page is gone.
    Gone,
    /// Two windows must agree before a move, and only one has so far.
    Unconfirmed,
    /// Someone else changed what we had set; hands off.
    HandsOff,
    /// Others than the program map the page, or may do so, or it belongs to a file.
    Shared,
    /// One thread alone uses the page, or the kernel moved it where it is: with its balancing on
    /// that is the kernel's.
    Kernel,
}

impl fmt::Display for Veto {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AlreadyThere => "already there",
            Self::NotAllowed => "not allowed there",
            Self::NoRoom => "no room there",
            Self::DoesNotPay => "does not pay",
            Self::Congested => "memory there is near its limit",
            Self::Unseen => "most of its memory is in no sample",
            Self::Budget => "budget of this window used up",
            Self::MovedRecently => "moved too recently",
            Self::Evidence => "too few samples to be sure",
            Self::Gone => "gone",
            Self::Unconfirmed => "waits for a second window to agree",
            Self::HandsOff => "changed by someone else, hands off",
            Self::Shared => "shared with others, or part of a file",
            Self::Kernel => "the kernel's balancing moves it",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A page whose users have these weights, and of whose uses so many are nobody's.
    fn used(weights: [u32; ACCESSORS_MAX], forgotten: u64) -> Page {
        Page {
            key: PageKey {
                space: SpaceId(1),
                page: 1,
            },
            slot: 0,
            home: Some(0),
            recent: [0, 1, 2, 3].map(|task: u32| Accessor {
                task,
                weight: weights[task as usize],
            }),
            accessor_count: 4,
            samples: 100,
            forgotten,
            span: 1,
        }
    }

    #[test]
    fn few_who_use_a_page_alike_are_half_of_few_tasks() {
        assert!(used([250; 4], 10).is_everyones(7));
        assert!(!used([250; 4], 10).is_everyones(9));
        assert!(used([250; 4], 900).is_everyones(64));
        assert!(!used([250; 4], 0).is_everyones(7), "all are named");
    }

    #[test]
    fn strays_make_nobody_s_page_everyones() {
        assert!(!used([970, 8, 8, 8], 6).is_everyones(7));
        assert!(!used([970, 8, 8, 8], 6).is_everyones(3));
        assert!(used([1, 0, 0, 0], 1).is_everyones(64));
    }
}
