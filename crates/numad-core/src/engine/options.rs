//! Limits, choices, and what is counted.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use topology::Pid;

use crate::action::{AttachmentId, Refusal};
use crate::cost::Prices;
use crate::evidence::Certainty;
use crate::interval::IntervalLaw;
use crate::policy::{PageKey, Veto};
use crate::published::Method;

/// Limits of the engine as a whole.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EngineOptions {
    /// Slots of each program's page table; a power of two.
    pub page_slots: usize,
    /// Bytes in a page.
    pub page_bytes: u64,
    /// Most tasks of one program that take part; the busiest do.
    pub tasks_max: usize,
    /// Events kept until they are polled; older ones are dropped and counted.
    pub events_max: usize,
}

/// Page slots by default: 2.6 MB for each program, of which only what is used is resident.
const PAGE_SLOTS: usize = 65_536;
const PAGE_SLOTS_MIN: usize = 64;
const PAGE_SLOTS_MAX: usize = 1 << 24;
/// The matrices of this many tasks are 67 MB each when all of them talk to all.
const TASKS_MAX: usize = 4096;

impl EngineOptions {
    /// Defaults, for pages of this size.
    #[must_use]
    pub const fn for_pages_of(page_bytes: u64) -> Self {
        Self {
            page_slots: PAGE_SLOTS,
            page_bytes,
            tasks_max: 1024,
            events_max: 4096,
        }
    }

    pub(super) fn within_limits(self) -> Self {
        assert!(
            self.page_bytes.is_power_of_two() && self.page_bytes >= PAGE_BYTES_MIN,
            "page size {} is no power of two from {PAGE_BYTES_MIN} on",
            self.page_bytes
        );
        let slots = self.page_slots.clamp(PAGE_SLOTS_MIN, PAGE_SLOTS_MAX);
        Self {
            page_slots: slots.next_power_of_two(),
            tasks_max: self.tasks_max.clamp(1, TASKS_MAX),
            events_max: self.events_max.max(1),
            ..self
        }
    }
}

/// Below this, page numbers would not fit into the tables, and no machine has such pages.
const PAGE_BYTES_MIN: u64 = 4096;

/// What the engine does around one program's policy.
#[derive(Clone, Debug, PartialEq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a setting of its own"
)]
pub struct AttachOptions {
    /// How windows get longer and shorter.
    pub interval: IntervalLaw,
    /// Share of one processor below which a thread takes no part, 0 to 1.
    pub busy_min: f64,
    /// Samples below which nothing is done. A window with fewer is joined to the next, up to
    /// eight of them. Not asked of policies that seek no gain (`require_gain`).
    pub samples_min: u64,
    /// How sure a move must be, see [`crate::evidence`]. Not asked of policies that seek no gain
    /// either.
    pub certainty: Certainty,
    /// Share of samples that may be lost, 0 to 1: with more, a window is joined to the next like one with
    /// too few.
    pub lost_max: f64,
    /// Page moves per window, whatever time they take.
    pub page_moves_max: usize,
    /// Bytes that may be moved in a second.
    pub move_bytes_per_s: u64,
    /// Thread moves per window.
    pub task_moves_max: usize,
    /// How long a moved task or page stays before it may move again; doubles with each return.
    pub hold: Duration,
    /// Share of a node's memory that stays free.
    pub headroom: f64,
    /// How narrow the masks of placed threads are.
    pub bind: Bind,
    /// Move threads.
    pub move_threads: bool,
    /// Move pages.
    pub move_pages: bool,
    /// Whether moves must be predicted to pay, rest on samples, and are put back when they made things
    /// worse. False for a policy that the user chose for what it does and not for a gain, see
    /// `PolicyFactory::seeks_gain`.
    pub require_gain: bool,
    /// Whose rules hold: with [`Method::Published`] nothing waits for a second window, and pages not for threads.
    /// [`crate::published::around`] sets what else belongs to it.
    pub method: Method,
    /// Decide about memory by blocks that are used alike where pages are sampled too seldom to be known one by one;
    /// else by single pages, and about those alone that were seen in use.
    pub by_blocks: bool,
    /// What moves cost and shorter distances save. `accesses_per_amount` depends on the source: a
    /// sample with a true period stands for its period, a fault for the accesses it does not show.
    pub prices: Prices,
}

/// Where a placed thread may run on its node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Bind {
    /// On all of its processors.
    Node,
    /// On those of one last-level cache, where it has several and shares memory with threads there.
    #[default]
    Cache,
    /// On one core; chosen within such a cache.
    Core,
}

/// With this two samples that agree move a page, and one does not; of the pages that are used as much
/// from here as from there, one in ten moves for nothing, and stays then.
const CONFIDENCE_MIN: f64 = 0.9;
/// One in ten: losses come in bursts, and what was lost is the busiest part of the window.
const LOST_MAX: f64 = 0.1;

/// 4 GiB of small pages, half a second of moving with four movers. What moves in a window is bounded by the time of the
/// window before that, see [`Totals::page_moves_max`].
const PAGE_MOVES_MAX: usize = 1_048_576;

/// 16 GiB: read and written, a fifth of what the memory of a machine of four nodes gives (`cost::MachineModel`).
const MOVE_BYTES_PER_S: u64 = 16 << 30;

impl Default for AttachOptions {
    fn default() -> Self {
        Self {
            interval: IntervalLaw::CALM,
            busy_min: 0.05,
            samples_min: 32,
            certainty: Certainty::of(CONFIDENCE_MIN),
            lost_max: LOST_MAX,
            page_moves_max: PAGE_MOVES_MAX,
            move_bytes_per_s: MOVE_BYTES_PER_S,
            task_moves_max: 1024,
            hold: Duration::from_millis(125),
            headroom: 0.05,
            bind: Bind::Cache,
            move_threads: true,
            move_pages: true,
            require_gain: true,
            method: Method::Ours,
            by_blocks: true,
            prices: Prices::default(),
        }
    }
}

/// A page whose place is wanted, and how to ask for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WantedPage {
    /// Which.
    pub page: PageKey,
    /// A process that has it.
    pub pid: Pid,
    /// Its first address there.
    pub address: u64,
    /// Whether it is wanted, too, if it is part of a larger page.
    pub with_size: bool,
}

/// Why a program cannot be put under a policy.
#[derive(Clone, Debug, PartialEq)]
pub enum AttachError {
    /// A process already belongs to an attachment.
    AlreadyAttached {
        /// The process.
        pid: Pid,
        /// To which.
        to: AttachmentId,
    },
    /// No process was named.
    NoProcess,
    /// More processes than one attachment holds: 4,095, objects that they share included.
    TooManyProcesses,
    /// The interval law makes no sense, and why.
    Interval(String),
}

impl fmt::Display for AttachError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AlreadyAttached { pid, to } => {
                write!(f, "process `{pid}` already belongs to attachment `{to}`")
            }
            Self::NoProcess => f.write_str("no process was named"),
            Self::TooManyProcesses => {
                f.write_str("too many processes: one attachment holds at most 4095")
            }
            Self::Interval(reason) => f.write_str(reason),
        }
    }
}

impl std::error::Error for AttachError {}

/// What was counted of one program since it was attached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Windows closed.
    pub windows: u64,
    /// Samples of it.
    pub samples: u64,
    /// Samples that are in no table: of threads that take no part, have ended, or are too many, or
    /// with an address that no process has.
    pub samples_aside: u64,
    /// Pages dropped from the table because their set was full.
    pub pages_dropped: u64,
    /// Processes that did not join because there are too many.
    pub processes_ignored: u64,
    /// Proposals of the policy.
    pub proposals: u64,
    /// Proposals dropped, by reason.
    pub vetoes: BTreeMap<Veto, u64>,
    /// Times a thread was bound, to whatever node.
    pub threads_bound: u64,
    /// Times a thread was bound to another node than it was on.
    pub threads_moved: u64,
    /// Pages moved.
    pub pages_moved: u64,
    /// Times that a page was found elsewhere than it was put, while the kernel moves pages by itself.
    pub pages_elsewhere: u64,
    /// What was refused by the kernel or the host, by reason.
    pub refusals: BTreeMap<Refusal, u64>,
    /// Placements of threads put back because they made things worse.
    pub reverts: u64,
    /// Nanoseconds of processor time that those took which moved.
    pub spent_ns: u64,
    /// Nanoseconds that passed meanwhile: more where calls waited, less where they went on side by
    /// side.
    pub took_ns: u64,
}

impl Totals {
    /// How many pages of this size may move after a window: moving takes no longer than the window did, and no more of
    /// the bandwidth than it may. So a plan that goes on over many windows is judged anew as often as it is worth,
    /// whatever a page costs and however large the plan is.
    pub(super) fn page_moves_max(
        &self,
        options: &AttachOptions,
        (window, page_bytes): (Duration, u64),
    ) -> u64 {
        let most = u64::try_from(options.page_moves_max).unwrap_or(u64::MAX);
        if options.method == Method::Published {
            return most;
        }
        let in_window = |amount: u64, ns: u64| {
            let amount = u128::from(amount) * window.as_nanos() / u128::from(ns.max(1));
            u64::try_from(amount).unwrap_or(u64::MAX)
        };
        let fit = match self.pages_moved < PAGES_MEASURED_MIN {
            true => PAGES_UNMEASURED,
            false => in_window(self.pages_moved, self.took_ns),
        };
        let may = in_window(options.move_bytes_per_s / page_bytes, NS_PER_S);
        most.min(fit.min(may).max(PAGES_MEASURED_MIN))
    }

    /// How many of these pages one processor moves in the same time.
    pub(super) fn by_one(&self, pages: u64) -> u64 {
        let took = u128::from(self.took_ns.min(self.spent_ns));
        let pages = u128::from(pages) * took.max(1) / u128::from(self.spent_ns.max(1));
        u64::try_from(pages).unwrap_or(u64::MAX)
    }

    /// How long so many pages take, as far as that is known.
    pub(super) fn takes(&self, pages: u64) -> Option<Duration> {
        let moved = self.pages_moved;
        let took = u128::from(pages) * u128::from(self.took_ns) / u128::from(moved.max(1));
        let took = Duration::from_nanos(u64::try_from(took).unwrap_or(u64::MAX));
        (moved >= PAGES_MEASURED_MIN).then_some(took)
    }

    /// The prices with what a page has cost so far, once that is more than a few.
    pub(super) fn measured(&self, prices: Prices) -> Prices {
        if self.pages_moved < PAGES_MEASURED_MIN {
            return prices;
        }
        let each = |ns: u64| ns as f64 / self.pages_moved as f64;
        Prices {
            page_move_ns: each(self.spent_ns),
            page_takes_ns: each(self.took_ns),
            ..prices
        }
    }
}

const NS_PER_S: u64 = 1_000_000_000;
/// Pages after which their cost is taken for known: one full batch of the host.
const PAGES_MEASURED_MIN: u64 = 64;
/// Pages of which the cost is learned: 64 MiB, some 33 ms. A quarter of it cost `auto` 2 % on programs of 6,000 pages.
const PAGES_UNMEASURED: u64 = 16_384;

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pages_moved: u64, page_us: u64, (most, method): (usize, Method), expected: u64) {
        let totals = Totals {
            pages_moved,
            took_ns: pages_moved * page_us * 1000,
            ..Totals::default()
        };
        let options = AttachOptions {
            page_moves_max: most,
            method,
            ..AttachOptions::default()
        };
        let found = totals.page_moves_max(&options, (Duration::from_millis(500), 4096));
        assert_eq!(found, expected);
    }

    #[test]
    fn calls_side_by_side_move_more_in_the_same_time() {
        let totals = Totals {
            pages_moved: 1000,
            spent_ns: 2_000_000,
            took_ns: 500_000,
            ..Totals::default()
        };
        assert_eq!(totals.by_one(10_000), 2500);
        assert_eq!(Totals::default().by_one(10_000), 10_000);
        assert_eq!(totals.takes(3000), Some(Duration::from_micros(1500)));
        assert_eq!(Totals::default().takes(3000), None);
    }

    #[test]
    fn moving_takes_no_longer_than_the_window_did() {
        check(1000, 2, (PAGE_MOVES_MAX, Method::Ours), 250_000);
        check(1000, 100, (PAGE_MOVES_MAX, Method::Ours), 5000);
        // Beyond that the administrator's limit holds, and a window moves something however dear it is.
        check(1000, 0, (PAGE_MOVES_MAX, Method::Ours), 1_048_576);
        check(1000, 2, (100, Method::Ours), 100);
        check(1000, 1_000_000, (PAGE_MOVES_MAX, Method::Ours), 64);
        // What was hardly measured, or did nothing in a dry run, tells nothing.
        check(63, 1_000_000, (PAGE_MOVES_MAX, Method::Ours), 16_384);
        check(1000, 100, (PAGE_MOVES_MAX, Method::Published), 1_048_576);
        // 16 GiB a second: 2,097,152 pages in half of one.
        check(1000, 0, (usize::MAX, Method::Ours), 2_097_152);
    }
}
