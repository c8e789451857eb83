//! PTB: pages, threads, bandwidth.
//!
//! Threads that use the same pages belong together: the cosine of what two threads use is their
//! similarity, by which they are mapped to nodes as others are by what they say (`threads`). Then
//! pages go where their users have most bandwidth left, which is nearby until that is used up
//! ([`pages`]).
//!
//! # Names
//!
//! | method | here |
//! | --- | --- |
//! | `cos(t1, t2)` | [`similarity::similarity`] |
//! | recursive KL into N parts, dealt out greedily | the board of `locality`, in `threads` |
//! | C2, `Min_Acc` | the settings `c2` and `min_acc`; [`pages::Stickiness`] |
//! | `BW[n][m]`, upper bound (a) | `MachineModel::link_gbps`, `controller_gbps` on the diagonal |
//! | `avail[n][m]` | `paths::Paths`, where our way differs from the listing |
//! | `b[n][p]`, `score(m, p)` | `asked::Asked` and `scores` of [`pages::Listing`] |
//!
//! # Units
//!
//! Bandwidth is what [`MachineModel`] knows: measured by `numadctl characterize`, told by firmware, or
//! estimated from distances. Demand is `weight * accesses per unit of weight * line size / tau`. The
//! paper's tau is the second that one of its cycles takes, ours the window.
//!
//! What a saturated memory delivers is less than what is asked of it; [`Demand::appetite`] says how
//! much was.
//!
//! There are no hash conflicts: the engine's page table drops the least used page of a full set
//! and counts it, where the paper's hash lets two pages count as one.
//!
//! [`MachineModel`]: numad_core::cost::MachineModel

mod asked;
pub mod pages;
mod paths;
pub mod similarity;
#[cfg(test)]
mod tests;
mod threads;

use numad_core::cost::{ACCESS_BYTES, Demand, Prices, asked_gbps};
use numad_core::figures::whole;
use numad_core::{
    Page, Plan, Policy, PolicyFactory, Program, Proposal, SettingKind, SettingSpec, Settings,
    SettingsError, Time,
};

use self::pages::{Listing, Room, Stickiness};
use crate::board;
use crate::kernel::Workspace;

const C1: SettingSpec = SettingSpec {
    name: "c1",
    kind: SettingKind::Float((1.0, 32.0), 1.0),
    help: "C1 of the paper: the similarity of two threads on one node counts this many times; for \
           the method as published alone.",
};

/// The paper's 1.5 stands for a machine where a move costs what it did there. In the simulator 1.5 and
/// 16 together, at the rates at which we sample, lose up to 9 % against doing nothing (docs/policies.md), so
/// that both follow the cost of moves unless told otherwise.
const C2: SettingSpec = SettingSpec {
    name: "c2",
    kind: SettingKind::Text("auto"),
    help: "C2 of the paper (there 1.5), from 1 to 32: a page moves where its users have more than this \
           many times the bandwidth left; `auto` follows the measured cost of moves.",
};

const MIN_ACC: SettingSpec = SettingSpec {
    name: "min_acc",
    kind: SettingKind::Text("auto"),
    help: "Min_Acc of the paper (there 16), from 1 to 65535: pages with fewer samples stay; `auto` follows \
           the measured cost of moves.",
};

const GAIN_MIN: SettingSpec = SettingSpec {
    help: "Threads move only if this share of what they have in common with others comes \
           together, or of what two have who are wholly alike, if that is more.",
    ..board::GAIN_MIN
};

/// Makes the policy `ptb`.
pub(crate) static PTB: PolicyFactory = PolicyFactory {
    name: "ptb",
    summary: "Groups threads that use the same pages, and gives pages out by the bandwidth that \
              is left.",
    settings: &[C1, C2, MIN_ACC, GAIN_MIN],
    seeks_gain: true,
    goes_by_order: false,
    published: Some(&crate::published::ptb::PUBLISHED),
    build: |settings, _| {
        Ok(Box::new(PagesThreadsBandwidth {
            gain_min: settings.float(GAIN_MIN.name),
            workspace: Workspace::default(),
            pages: PagePhase {
                c2: fixed(settings, C2, 1.0, 32.0)?,
                min_acc: fixed(settings, MIN_ACC, 1.0, 65_535.0)?,
            },
        }))
    },
};

/// A setting that is a number; none where the policy finds it by itself.
fn fixed(
    settings: &Settings,
    spec: SettingSpec,
    least: f64,
    most: f64,
) -> Result<Option<f64>, SettingsError> {
    let text = settings.text(spec.name);
    if text == "auto" {
        return Ok(None);
    }
    let number: Option<f64> = text.parse().ok();
    let number = number.filter(|number| (least..=most).contains(number));
    number.map(Some).ok_or_else(|| {
        let reason = format!("is `{text}`, must be a number from {least} to {most}, or `auto`");
        SettingsError::new(spec.name, reason)
    })
}

/// The policy `ptb` with its settings and what it keeps between windows.
#[derive(Debug)]
struct PagesThreadsBandwidth {
    gain_min: f64,
    workspace: Workspace,
    pages: PagePhase,
}

impl Policy for PagesThreadsBandwidth {
    fn propose(&mut self, now: Time, program: &Program<'_>, out: &mut Vec<Proposal>) {
        let mut plans = Vec::new();
        self.plans(now, program, &mut plans);
        out.extend(plans.into_iter().next().unwrap_or_default());
    }

    fn plans(&mut self, _now: Time, program: &Program<'_>, out: &mut Vec<Plan>) {
        for mut plan in self.place(program) {
            let mut nodes = program.nodes();
            for (task, node) in plan.iter().filter_map(Proposal::place) {
                nodes[task] = Some(node);
            }
            self.pages.propose(program, &nodes, &mut plan);
            out.push(plan);
        }
    }

    fn thread_plans(&mut self, _now: Time, program: &Program<'_>, out: &mut Vec<Plan>) {
        out.extend(self.place(program));
    }
}

/// The page phase: pages by the bandwidth that is left, for threads that are somewhere.
#[derive(Debug, Default)]
pub(crate) struct PagePhase {
    /// None for what follows the cost of moves.
    c2: Option<f64>,
    min_acc: Option<f64>,
}

impl PagePhase {
    /// Appends page moves for threads on these nodes.
    pub(crate) fn propose(
        &self,
        program: &Program<'_>,
        nodes: &[Option<usize>],
        out: &mut Vec<Proposal>,
    ) {
        let window_ns = program.window.as_nanos() as f64;
        if window_ns <= 0.0 || program.pages.is_empty() {
            return;
        }
        let model = program.model;
        let gbps_per_weight = program.memory_per_weight * ACCESS_BYTES / window_ns;
        // What others take is the difference of two figures that are not exact: it bounds what
        // there is to give, and is no word on how long this program waits.
        let appetite = Demand::of_memory(&model.alone(), *program).appetite();
        let listing = Listing::new(model, nodes, gbps_per_weight);
        let listing = listing.with_appetite(&appetite, &asked_gbps(program));
        let listing = listing.minding_detours(program.topology);
        listing.standing_still(program, Room::of(program), self.stickiness(program), out);
    }

    /// C2 and `Min_Acc` for this window; by itself, what moves are worth on this machine. The host
    /// says what one costs.
    fn stickiness(&self, program: &Program<'_>) -> Stickiness {
        let (move_ns, saving_ns) = (program.prices.page_move_ns, saving_ns(program));
        let (weight, samples) = sums(program.pages);
        let expected = Prices::default().page_move_ns;
        let is_measured = (move_ns - expected).abs() > f64::EPSILON * expected;
        let [of_min_acc, of_c2] = if is_measured { MEASURED } else { EXPECTED };
        let within = |figure: f64, saves: f64, (least, most): (f64, f64)| {
            if saves <= 0.0 {
                most
            } else {
                figure.clamp(least, most)
            }
        };
        // Samples from which on a page is worth its move: all its accesses becoming local pay twice
        // what the move costs, the half for the chance that samples mislead.
        let each = weight / samples.max(1.0) * saving_ns;
        let min_acc = within((2.0 * move_ns / each).ceil(), each, of_min_acc);
        // One, plus the cost of moving all pages as a share of what that could save: where moves
        // are next to free a small difference is worth following, where they eat the gain only a
        // large one is.
        let (saving, cost) = (weight * saving_ns, program.pages.len() as f64 * move_ns);
        let c2 = within(1.0 + cost / saving, saving, of_c2);
        Stickiness {
            c2: self.c2.unwrap_or(c2),
            // From 1 to 65535 by its bounds.
            samples_min: u32::try_from(whole(self.min_acc.unwrap_or(min_acc))).unwrap_or(u32::MAX),
        }
    }
}

/// What one unit of weight saves over the horizon when it becomes local: a remote access costs so
/// many nanoseconds more than a local one, and a plan has to pay over that time.
fn saving_ns(program: &Program<'_>) -> f64 {
    let (model, prices) = (program.model, &program.prices);
    let (mut longer, mut pairs) = (0.0, 0.0);
    for from in 0..model.nodes() {
        for to in (0..model.nodes()).filter(|&to| to != from) {
            longer += (model.latency_ns(from, to) - model.latency_ns(from, from)).max(0.0);
            pairs += 1.0;
        }
    }
    let window_ns = (program.window.as_nanos() as f64).max(1.0);
    let windows = (prices.horizon_ns / window_ns).max(1.0);
    // Weights hold what two windows saw, as they fade by half.
    let accesses = prices.accesses_per_amount * windows / 2.0;
    longer / f64::max(pairs, 1.0) * accesses
}

/// Bounds of `auto` for `min_acc` and `c2` once moves were measured. Whether few samples are enough to be sure the
/// engine weighs, together with those of the pages beside it; 256 is beyond any the paper tried. A tenth is
/// what bandwidth is known to, and the paper found nothing to gain beyond 4.
const MEASURED: [(f64, f64); 2] = [(1.0, 256.0), (1.1, 4.0)];
/// The same before: at most what the paper asks for, or nothing would ever be measured.
const EXPECTED: [(f64, f64); 2] = [(1.0, 16.0), (1.1, 1.5)];

/// Weights and samples of all pages.
fn sums(pages: &[Page]) -> (f64, f64) {
    let (mut weight, mut samples) = (0_u64, 0_u64);
    for page in pages {
        samples += u64::from(page.samples);
        weight += page.weight();
    }
    (weight as f64, samples as f64)
}
