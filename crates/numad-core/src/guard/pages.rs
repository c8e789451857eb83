//! Which pages may go, and which of them aside.

use std::collections::BTreeSet;

use super::first_of;
use crate::cost::{Worth, way};
use crate::engine::AttachOptions;
use crate::evening::evened;
use crate::evidence::{self, Evidence, Scale};
use crate::policy::{Page, Program, Veto};
use crate::pressure::{Loads, Pressure};
use crate::published::Method;

/// Part of the time that accesses to a page take which is expected to be saved where it goes so
/// that nodes have alike, and how busy they are is not known: on eight machines of the simulator 3
/// to 8 % of all work.
const EVENED: f64 = 0.1;

/// A page and the node it is to go to.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(crate) struct PageWish<'a> {
    /// None when it is not tracked any more.
    pub page: Option<&'a Page>,
    /// Pages that would go, where it stands for more than itself and not all of them rest.
    pub pages: u64,
    /// By position.
    pub node: usize,
    /// It is shared memory that is not the program's alone.
    pub barred: bool,
    /// It was moved too recently.
    pub held: bool,
    /// It was moved before, and the window before did not want it on this node; nor does it follow
    /// a thread that uses it most and has moved since.
    pub unconfirmed: bool,
    /// The block of memory that it is part of is sure.
    pub backed: bool,
    /// It stands for a part of that block, which is used as the block is: what its own samples say
    /// else is chance.
    pub is_part: bool,
    /// Wanted there because all use it alike, and one node has more than its part of such.
    pub evens: bool,
    /// The kernel's balancing is on, and moves it by itself or has done so.
    pub by_kernel: bool,
}

/// What moving a page gains.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PageGain {
    /// Its uses, by how much they get nearer.
    pub scale: Scale,
    /// How many pages may go, of those that it stands for the first.
    pub pages: u64,
}

/// What pages are judged by.
#[derive(Debug)]
pub(crate) struct PageCase<'a> {
    pub program: &'a Program<'a>,
    pub options: &'a AttachOptions,
    /// Most pages that may go.
    pub moves_max: u64,
    /// Of these, pages that go aside and not nearer. How busy memory is then shows when they are
    /// there: many at once go too far.
    pub aside_max: u64,
    /// Nodes that have memory and that the program may use.
    pub allowed: &'a [bool],
    pub evidence: bool,
    /// Threads move in this window.
    pub wait: bool,
    /// How busy memory is, where that is measured.
    pub pressure: Option<&'a Pressure>,
}

/// What may still go in this window.
struct Budget<'a> {
    pages: u64,
    aside: u64,
    /// Of the memory of each task's own: it waits for what is on the way, and others wait for it.
    /// Papers know no such limit.
    own: Vec<u64>,
    page_bytes: u64,
    /// Bytes that may still be filled on each node.
    free: &'a mut [u64],
}

impl Budget<'_> {
    /// Pages that a node has room for.
    fn room(&self, node: usize) -> Result<u64, Veto> {
        let free = self.free.get(node).ok_or(Veto::NotAllowed)?;
        Ok(free / self.page_bytes)
    }

    /// Takes as many pages of a wish as may go, and so many at most.
    fn take(&mut self, wish: &PageWish<'_>, most: u64, aside: bool) -> u64 {
        let room = self.room(wish.node).unwrap_or(0);
        let own = wish.page.and_then(owner);
        let own = own.and_then(|task| self.own.get_mut(task as usize));
        let limits = [
            self.pages,
            if aside { self.aside } else { u64::MAX },
            own.as_ref().map_or(u64::MAX, |own| **own),
            room,
        ];
        let pages = limits.into_iter().fold(most, u64::min);
        self.pages -= pages;
        self.aside -= if aside { pages } else { 0 };
        if let Some(own) = own {
            *own -= pages;
        }
        self.free[wish.node] -= pages * self.page_bytes;
        pages
    }
}

/// The task whose own a page is: it has half of its uses or more.
fn owner(page: &Page) -> Option<u32> {
    let user = page.main_user()?;
    (u64::from(user.weight) * 2 >= page.weight()).then_some(user.task)
}

impl PageCase<'_> {
    /// What becomes of each wish, in the same order: of those that are granted, what it gains.
    /// Takes what is granted from `free`, bytes that may still be filled on each node.
    pub(crate) fn judge<'b>(
        &self,
        wishes: impl Iterator<Item = &'b PageWish<'b>>,
        free: &mut [u64],
    ) -> Vec<Result<PageGain, Veto>> {
        let wishes: Vec<&PageWish<'_>> = wishes.collect();
        let relief = self.relief(&wishes);
        let mut taken = BTreeSet::new();
        let mut loads = self.pressure.map(|pressure| pressure.loads(self.program));
        let mut left = Budget {
            pages: self.moves_max,
            aside: self.aside_max,
            own: match self.options.method {
                Method::Ours => {
                    vec![self.program.own_part(self.moves_max); self.program.tasks.len()]
                }
                Method::Published => Vec::new(),
            },
            page_bytes: self.program.page_bytes,
            free,
        };
        // Copies to several nodes go on side by side: each has its part of the window before any has more.
        let nodes: BTreeSet<usize> = wishes.iter().map(|wish| wish.node).collect();
        let mut parts = vec![left.pages / nodes.len().max(1) as u64; left.free.len()];
        let goes_aside =
            |wish: &PageWish<'_>| wish.page.is_some_and(|page| relief.contains(&page.slot));
        let mut verdicts: Vec<Result<PageGain, Veto>> = Vec::with_capacity(wishes.len());
        for wish in &wishes {
            let verdict = self.alone(wish, loads.as_ref(), &relief);
            verdicts.push(verdict.and_then(|(page, mut gain)| {
                if left.room(wish.node)? == 0 {
                    return Err(Veto::NoRoom);
                }
                if !taken.insert(page.key) {
                    return Err(Veto::Budget);
                }
                let most = wish.pages.min(parts[wish.node]);
                gain.pages = left.take(wish, most, goes_aside(wish));
                parts[wish.node] -= gain.pages;
                let part = gain.pages as f64 / wish.pages as f64;
                if let (Some(loads), Some(home)) = (&mut loads, page.node()) {
                    let ways = (home, wish.node);
                    loads.moved(page.weight() as f64 * part, self.program.window_ns(), ways);
                }
                Ok(gain)
            }));
        }
        for (wish, verdict) in wishes.iter().zip(&mut verdicts) {
            if let Ok(gain) = verdict {
                // What is too much for one window goes as far as it may, and on with the next.
                gain.pages += left.take(wish, wish.pages - gain.pages, goes_aside(wish));
                if gain.pages == 0 {
                    *verdict = Err(Veto::Budget);
                }
            }
        }
        verdicts
    }

    /// Slots of pages that may go though they get no nearer to who uses them, so that a controller
    /// has less to do.
    fn relief(&self, wishes: &[&PageWish<'_>]) -> BTreeSet<u32> {
        if !self.options.require_gain {
            return BTreeSet::new();
        }
        let aside = wishes.iter().filter_map(|wish| {
            let (page, home) = self.possible(wish).ok()?;
            let moved = (home, wish.node);
            // Of pages that all use alike, few samples say of some that they get nearer, of others
            // that they get farther. Those alone would seem to lose. And of a part with more users
            // than it has places for those that it names are chosen.
            let is_everyones = wish.is_part && page.forgotten * 2 > page.weight();
            let is_sure = || {
                let evidence = self.evidence(wish, (page, home), &self.scale(page, moved, None));
                evidence.is_none_or(|sure| sure.convinces())
            };
            let alike = (wish.evens || is_everyones) && !is_sure();
            let nearer = !alike && self.worth(page, moved, None).pays();
            (!nearer).then_some((page, moved, alike))
        });
        // What the program itself has to do with it is known only of those who tell how often.
        let tells = self.program.prices.tell_how_often();
        let pressure = self
            .pressure
            .filter(|pressure| tells && !pressure.is_calm());
        let aside: Vec<(&Page, (usize, usize), bool)> = aside.collect();
        let such = |is_such: &dyn Fn(&Page, usize, bool) -> bool| -> Vec<(&Page, usize)> {
            let moves = aside.iter();
            let moves = moves.filter(|&&(page, (home, _), alike)| is_such(page, home, alike));
            moves.map(|&(page, (_, node), _)| (page, node)).collect()
        };
        if let Some(pressure) = pressure {
            // Only such as are as near as they can be: others should go nearer, not aside.
            let nearest = |page: &Page, home| {
                let mut others = (0..self.allowed.len()).filter(|&node| self.allowed[node]);
                !others.any(|node| node != home && self.worth(page, (home, node), None).pays())
            };
            let moves = such(&|page, home, alike| alike || nearest(page, home));
            let granted = moves.iter().take(pressure.relief(self.program, &moves));
            let granted: BTreeSet<u32> = granted.map(|(page, _)| page.slot).collect();
            if !granted.is_empty() {
                return granted;
            }
        }
        // Else those that even out what is asked of nodes. Where the model had a say, only parts of
        // memory with more users than are named, such as a heap: if threads go in step, all wait
        // for those who have it far, and the model takes their waiting for work.
        let even = such(&|page, home, alike| {
            let saves = self.saves(page, EVENED * way(self.program, page, home));
            let everyones = alike && page.span > 1 && page.forgotten * 2 > page.weight();
            (everyones || pressure.is_none()) && saves.pays()
        });
        evened(self.program, &even, self.allowed)
    }

    fn alone<'b>(
        &self,
        wish: &PageWish<'b>,
        loads: Option<&Loads<'_>>,
        relief: &BTreeSet<u32>,
    ) -> Result<(&'b Page, PageGain), Veto> {
        let (page, home) = self.possible(wish)?;
        if relief.contains(&page.slot) {
            // Not for the sake of its own uses, which is what samples could be weighed for.
            return Ok((page, PageGain::default()));
        }
        let scale = self.scale(page, (home, wish.node), loads);
        if self.options.require_gain {
            let evidence = self.evidence(wish, (page, home), &scale);
            let worth = |loads| Worth {
                evidence,
                ..self.worth(page, (home, wish.node), loads)
            };
            worth(loads).judge().map_err(|veto| match veto {
                Veto::DoesNotPay if worth(None).pays() => Veto::Congested,
                veto => veto,
            })?;
        }
        Ok((page, PageGain { scale, pages: 0 }))
    }

    /// What samples say of how near a page gets; none where the block of memory that it is part of
    /// is sure.
    fn evidence(
        &self,
        wish: &PageWish<'_>,
        (page, home): (&Page, usize),
        scale: &Scale,
    ) -> Option<Evidence> {
        if wish.backed {
            return None;
        }
        // The node was chosen by the same samples that now speak for it. Where not all users are
        // remembered, it could have been any.
        let nodes = match page.forgotten {
            0 => evidence::ln_nodes(self.program.uses(page).map(|(node, _)| node), home),
            _ => evidence::ln_plans(1, 1, self.allowed.len()),
        };
        let own = if wish.is_part {
            Scale::default()
        } else {
            *scale
        };
        Some(self.options.certainty.weigh_chosen(&own, nodes))
    }

    /// The page of a wish that could be granted if it pays, and its home.
    fn possible<'b>(&self, wish: &PageWish<'b>) -> Result<(&'b Page, usize), Veto> {
        let page = wish.page.ok_or(Veto::Gone)?;
        // Where no page may go in any window nothing waits for the next one.
        let may_move = self.options.move_pages && self.moves_max > 0;
        if !may_move || self.allowed.get(wish.node) != Some(&true) {
            return Err(Veto::NotAllowed);
        }
        // A page whose place is not known may be gone, or shared: nothing to decide by.
        let home = page.node().ok_or(Veto::Evidence)?;
        first_of([
            (home == wish.node, Veto::AlreadyThere),
            (wish.barred, Veto::Shared),
            (wish.by_kernel, Veto::Kernel),
            (!self.evidence, Veto::Evidence),
            (wish.held, Veto::MovedRecently),
            (wish.unconfirmed || self.wait, Veto::Unconfirmed),
        ])?;
        Ok((page, home))
    }

    /// Visits every task that uses the page and of which it is known where it is, with its accesses
    /// and how much sooner each reaches the page there. A distance stands for latency, and where
    /// memory is busy latency is longer.
    fn each_use(
        &self,
        page: &Page,
        (home, node): (usize, usize),
        loads: Option<&Loads<'_>>,
        mut visit: impl FnMut(f64, f64),
    ) {
        let slowdown = |memory| loads.map_or(1.0, |loads| loads.slowdown(memory));
        let (here, there) = (slowdown(home), slowdown(node));
        let distances = self.program.topology.distances();
        for (from, accesses) in self.program.uses(page) {
            let (before, after) = (distances.between(from, home), distances.between(from, node));
            visit(
                accesses,
                f64::from(before) * here - f64::from(after) * there,
            );
        }
    }

    /// The samples of a page, by how much sooner each reaches it on another node.
    pub(crate) fn scale(
        &self,
        page: &Page,
        moved: (usize, usize),
        loads: Option<&Loads<'_>>,
    ) -> Scale {
        let mut scale = Scale::default();
        let uses = page.weight() as f64;
        if uses > 0.0 {
            let per_use = f64::from(page.samples) / uses;
            self.each_use(page, moved, loads, |accesses, nearer| {
                scale.put(accesses * per_use, nearer);
            });
        }
        scale
    }

    /// What it is worth that a page goes, by the ways to it alone.
    fn worth(&self, page: &Page, moved: (usize, usize), loads: Option<&Loads<'_>>) -> Worth {
        let mut nearer = 0.0;
        self.each_use(page, moved, loads, |accesses, by| nearer += accesses * by);
        self.saves(page, nearer)
    }

    /// What it is worth that the uses of a page, and of all pages that it stands for, get so much
    /// nearer together.
    fn saves(&self, page: &Page, nearer: f64) -> Worth {
        let prices = &self.program.prices;
        Worth {
            saved_ns: prices.gain_ns(nearer * prices.accesses_per_amount, self.program.window),
            price_ns: page.span as f64 * prices.page_move_ns,
            evidence: None,
        }
    }
}
