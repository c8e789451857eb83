//! The page phase: bandwidth is given out page by page until it is used up.
//!
//! `avail[n][m]` is what the processors of n have left of their bandwidth to the memory of m, `b[n][p]`
//! what they ask of page p. Pages in order of total accesses, most first (ties: the order of the
//! program; here in turn of those who use them, see `in_order`); a page with fewer than `Min_Acc` samples is skipped. `score(m, p) = sum_n avail[n][m] *
//! b[n][p]`, times C2 where the page is now; the best m takes the page, and its demand is taken off. Equal
//! scores leave a page where it is, then the lowest id counts. Every page stays in question whose home
//! is known; memory that is full, or forbidden to the program, takes no page.
//!
//! # Standing still
//!
//! The listing of the paper starts every time from unused bandwidth (`ptb+published` does). A page
//! then finds all that the pages before it left, so the same demand in another order, which is what
//! the next samples are, sends other pages away: it never stands still near saturation.
//!
//! [`Listing::standing_still`] starts from the bandwidth that pages take where they are. Each page in turn is
//! taken out and finds what all *others* leave; it moves if that is more than C2 times as much somewhere
//! else. What is left may be negative, which is by how much a path is overdrawn: when all is used
//! up, the rest goes where least is overdrawn, so every path ends overdrawn by about the same amount, as
//! when the listing interleaves the rest. What others take of a memory counts as well, see
//! `Paths`. A page's own demand counts on neither side, so that it does not flee from itself, and with every move the
//! fuller of two ways gets emptier: pages do not run in circles, and a placement that is settled stays so while
//! demand stays about the same, whatever pages it comes from.
//!
//! And where latencies were measured it moves to no memory that is farther for its users, idle, than the one where it
//! is, or another, with all the waiting there.
//! Where nobody lacks bandwidth pages are then as near as threads and first touches left them.

use std::cmp::Reverse;

use numad_core::cost::{MachineModel, queue};
use numad_core::figures::whole;
use numad_core::{Page, Program, Proposal, Reason};
use topology::Topology;

use super::asked::{Asked, Chance, NOWHERE};
use super::paths::Paths;

/// Pages proposed in one call. The engine's budget is far below it, and what is left out comes again.
const PROPOSALS_MAX: usize = 16_384;

/// How uneven memories may be used, as a share of what one carries on average, before a page moves: as
/// much as a thousand samples over four nodes come out uneven by chance.
const UNEVEN: f64 = 0.1;

/// The same in deviations of what chance makes of the difference of two memories, where samples are fewer.
const CHANCE: f64 = 2.0;

/// Part of what others take of a memory by which that may be otherwise in the next window.
const UNSURE: f64 = 0.1;

/// Once any page is to move, pages move until what they have more elsewhere is this part of what began it. Else
/// the placement would be left on the brink, and the next samples would push pages over it.
const GO_ON: f64 = 0.6;

/// The same for how uneven memories are used. It costs a few pages more, of which none comes back.
const LEVEL: f64 = 0.25;

/// How often all pages are looked at: one that came early may find that those behind it made room elsewhere.
const PASSES_MAX: usize = 4;

/// How many times as much as it costs must be spared by a page that goes farther from its users. What is asked of
/// memories is known to a fifth, and near their limit a fifth decides.
const ASIDE: f64 = 1.5;

/// Part of a memory's bandwidth over which its [`toll`] is taken.
const STEP: f64 = 1e-4;

/// Share of what is left that makes no difference: bandwidth is not measured better than to a percent.
const EQUAL: f64 = 0.01;

/// When a page stays.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stickiness {
    /// How many times more bandwidth must be left elsewhere.
    pub c2: f64,
    /// Samples below which a page is not looked at.
    pub samples_min: u32,
}

/// Free memory, as it is given to pages.
#[derive(Clone, Debug)]
pub struct Room {
    bytes: Vec<u64>,
    page_bytes: u64,
}

impl Room {
    /// What the program may still use of each node.
    #[must_use]
    pub fn of(program: &Program<'_>) -> Self {
        let nodes = program.topology.nodes().iter();
        let bytes = nodes.zip(program.free_bytes.iter().chain(std::iter::repeat(&0)));
        Self {
            bytes: bytes
                .map(|(node, &free)| if node.memory_bytes > 0 { free } else { 0 })
                .collect(),
            page_bytes: program.page_bytes,
        }
    }

    fn is_for_one(&self, node: usize) -> bool {
        self.bytes[node] >= self.page_bytes
    }

    fn take(&mut self, node: usize, pages: u64) {
        let bytes = pages.saturating_mul(self.page_bytes);
        self.bytes[node] = self.bytes[node].saturating_sub(bytes);
    }
}

/// By how much a page must score better elsewhere.
#[derive(Clone, Copy, Debug)]
struct Margin {
    more: f64,
    uneven: f64,
    chance: f64,
}

impl Margin {
    /// To begin with.
    fn new(stickiness: Stickiness) -> Self {
        Self {
            more: f64::max(stickiness.c2 - 1.0, EQUAL),
            uneven: UNEVEN,
            chance: CHANCE,
        }
    }

    /// To go on once any page has begun.
    fn narrowed(self) -> Self {
        Self {
            more: f64::max(self.more * GO_ON, EQUAL),
            uneven: self.uneven * LEVEL,
            chance: 0.0,
        }
    }
}

/// Bandwidth that is left, and who asks for it.
#[derive(Debug)]
pub struct Listing {
    nodes: usize,
    left: Paths,
    /// Row by row, what the link from each node to each memory carries.
    links: Vec<f64>,
    /// What each memory can deliver.
    memory: Vec<f64>,
    /// Where each task is, `NOWHERE` where that is not known, and what one unit of weight asks for.
    users: Vec<(u16, f32)>,
    /// Scores of the page in question.
    scores: Vec<f64>,
    /// The page in question: nodes it is used from, and GB/s.
    asking: Vec<(usize, f64)>,
    /// Part of all that is asked for from each node; where that is used, all of them together are one.
    everyone: Vec<f64>,
    /// Row by row, how long an access takes when the machine is idle; empty where that is not told.
    latency_ns: Vec<f64>,
    /// Which part of what it gives each memory is seen to be asked for.
    seen: Vec<f64>,
    /// What others take of each memory; empty where that is not known.
    others_gbps: Vec<f64>,
}

/// What memories carry as pages are now.
#[derive(Debug)]
struct Burden {
    /// What a node asks of each memory on average.
    each: Vec<f64>,
    /// What all ask of a memory on average.
    mean: f64,
    /// Variance of what each memory is asked for, as samples come by chance.
    variance: Vec<f64>,
}

/// Scores of one page at its home and at the best other node.
#[derive(Clone, Copy, Debug)]
struct Rated {
    home: f64,
    best: f64,
    node: usize,
}

impl Listing {
    /// A listing for tasks on these nodes, beside what others take; one unit of a page's weight
    /// asks for so many GB/s.
    #[must_use]
    pub fn new(model: &MachineModel, node_of: &[Option<usize>], gbps_per_weight: f64) -> Self {
        let nodes = model.nodes();
        let pairs = (0..nodes * nodes).map(|pair| model.link_gbps(pair / nodes, pair % nodes));
        let memory = (0..nodes).map(|memory| model.controller_gbps(memory));
        let others = (0..nodes).map(|memory| model.background_gbps(memory));
        let others: Vec<f64> = others.collect();
        Self::over(pairs.collect(), memory.collect(), node_of, gbps_per_weight).beside(&others)
    }

    /// The same that minds detours, where the machine tells how long an access takes. A guess from distances is no
    /// ground to stay: firmware puts fast memory far away so that nobody takes it unasked.
    #[must_use]
    pub fn minding_detours(mut self, topology: &Topology) -> Self {
        let nodes = || topology.nodes().iter();
        let pairs = nodes().flat_map(|from| nodes().map(move |to| (from, to)));
        let told = pairs.map(|(from, to)| {
            if from.cpus.is_empty() {
                return Some(0.0);
            }
            let figure = topology.bandwidth().link(from.id, to.id).latency_ns?;
            (figure.value > 0).then_some(figure.value as f64)
        });
        let told: Option<Vec<f64>> = told.collect();
        self.latency_ns = told.unwrap_or_default();
        self
    }

    fn over(
        links: Vec<f64>,
        memory: Vec<f64>,
        node_of: &[Option<usize>],
        gbps_per_weight: f64,
    ) -> Self {
        let nodes = memory.len();
        let known = |node: &Option<usize>| {
            let node = node.filter(|&node| node < nodes);
            node.and_then(|node| u16::try_from(node).ok())
                .unwrap_or(NOWHERE)
        };
        #[expect(clippy::cast_possible_truncation, reason = "an estimate")]
        let each = gbps_per_weight as f32;
        Self {
            nodes,
            left: Paths::new(links.clone(), memory.clone()),
            users: node_of.iter().map(|node| (known(node), each)).collect(),
            scores: vec![0.0; nodes],
            asking: Vec::new(),
            everyone: Vec::new(),
            latency_ns: Vec::new(),
            seen: vec![f64::INFINITY; nodes],
            others_gbps: vec![0.0; nodes],
            links,
            memory,
        }
    }

    /// The same where each task would ask for so many times what it was seen to ask, and each
    /// memory was seen to be asked for so many GB/s.
    #[must_use]
    pub(super) fn with_appetite(mut self, factors: &[f64], seen_gbps: &[f64]) -> Self {
        for ((_, each), &factor) in self.users.iter_mut().zip(factors) {
            #[expect(clippy::cast_possible_truncation, reason = "an estimate")]
            let factor = factor as f32;
            *each *= factor;
        }
        let all = seen_gbps.iter().zip(&self.others_gbps);
        let seen = all.zip(&self.memory);
        let seen = seen.map(|((own, others), gives)| (own + others) / gives.max(f64::MIN_POSITIVE));
        self.seen = seen.collect();
        self
    }

    /// The same beside what others take of each memory.
    fn beside(mut self, others_gbps: &[f64]) -> Self {
        for (memory, &gbps) in others_gbps.iter().enumerate() {
            self.left.take_by_others(memory, gbps);
        }
        self.others_gbps = others_gbps.to_vec();
        self
    }

    /// Gives bandwidth out, from that which pages take where they are. Appends page moves.
    pub fn standing_still(
        mut self,
        program: &Program<'_>,
        mut room: Room,
        stickiness: Stickiness,
        out: &mut Vec<Proposal>,
    ) {
        let pages = program.pages;
        let chance = Chance::of(pages);
        let asked = (0..).zip(pages);
        let asked = asked.filter_map(|page| Asked::of(page, self.nodes, &self.users, chance));
        let mut asked: Vec<Asked> = asked.collect();
        let burden = self.carry_all(pages, &asked);
        let begin = Margin::new(stickiness);
        let enough = |asked: &&Asked| is_enough(&pages[asked.at as usize], stickiness);
        let begins = asked.iter().filter(enough).any(|asked| {
            let better = self.better(asked, &room, (begin, &burden));
            better.is_some()
        });
        if !begins {
            return;
        }
        let order = in_order(pages, &asked, stickiness);
        let mut moves: Vec<(usize, Rated)> = Vec::new();
        for _ in 0..PASSES_MAX {
            let before = moves.len();
            for &place in &order {
                let margin = (begin.narrowed(), &burden);
                let Some(rated) = self.better(&asked[place], &room, margin) else {
                    continue;
                };
                let home = usize::from(asked[place].home);
                self.carry(home, rated.node);
                room.take(rated.node, pages[asked[place].at as usize].span);
                asked[place].home = u16::try_from(rated.node).unwrap_or(NOWHERE);
                moves.push((place, rated));
                if moves.len() >= PROPOSALS_MAX {
                    break;
                }
            }
            if moves.len() == before || moves.len() >= PROPOSALS_MAX {
                break;
            }
        }
        self.propose(program, (&asked, &moves), out);
    }

    /// Appends the last of the moves of each page, if that is not where it is.
    fn propose(
        &mut self,
        program: &Program<'_>,
        (asked, moves): (&[Asked], &[(usize, Rated)]),
        out: &mut Vec<Proposal>,
    ) {
        let mut last = vec![usize::MAX; asked.len()];
        for (at, &(place, _)) in moves.iter().enumerate() {
            last[place] = at;
        }
        for (at, &(place, rated)) in moves.iter().enumerate() {
            let page = &program.pages[asked[place].at as usize];
            if last[place] != at || page.home == Some(asked[place].home) {
                continue;
            }
            self.ask(&asked[place]);
            let reason = if rated.best > 0.0 {
                self.bandwidth_reason(rated)
            } else {
                Reason::Interleave
            };
            out.push(Proposal::move_page(page.key, rated.node, reason));
        }
    }

    /// Takes off what all pages ask for where they are.
    fn carry_all(&mut self, pages: &[Page], asked: &[Asked]) -> Burden {
        let nodes = self.nodes;
        let mut by_node = vec![0.0; nodes];
        let mut others = vec![0.0; nodes];
        let mut variance = vec![0.0; nodes];
        for asked in asked {
            let home = usize::from(asked.home);
            let mut all = f64::from(asked.others);
            others[home] += all;
            for (node, gbps) in asked.users() {
                all += gbps;
                by_node[node] += gbps;
                self.left.take(node, home, gbps);
            }
            let samples = f64::from(pages[asked.at as usize].samples.max(1));
            variance[home] += all * all / samples;
        }
        let all: f64 = by_node.iter().sum();
        let part = |own: &f64| if all > 0.0 { own / all } else { 0.0 };
        self.everyone = by_node.iter().map(part).collect();
        let strangers: f64 = others.iter().sum();
        for (memory, gbps) in others.iter().enumerate() {
            for (node, part) in self.everyone.iter().enumerate() {
                self.left.take(node, memory, gbps * part);
            }
            self.left.count(memory);
        }
        let others: f64 = self.others_gbps.iter().sum();
        for (variance, gbps) in variance.iter_mut().zip(&self.others_gbps) {
            *variance += (gbps * UNSURE) * (gbps * UNSURE);
        }
        let even = 1.0 / nodes.max(1) as f64;
        let each = by_node.iter().zip(&self.everyone);
        Burden {
            each: each
                .map(|(own, part)| (own + strangers * part) * even)
                .collect(),
            mean: (all + strangers + others) * even,
            variance,
        }
    }

    /// Makes a page the one in question.
    #[inline]
    fn ask(&mut self, asked: &Asked) {
        self.asking.clear();
        self.asking.extend(asked.users());
        let others = f64::from(asked.others);
        if others <= 0.0 {
            return;
        }
        let known = self.asking.len();
        for (node, part) in self.everyone.iter().enumerate() {
            let gbps = others * part;
            match self.asking[..known].iter_mut().find(|one| one.0 == node) {
                Some(one) => one.1 += gbps,
                None if gbps > 0.0 => self.asking.push((node, gbps)),
                None => {}
            }
        }
    }

    /// Where a page scores better than at its home by more than a margin, without a detour; none if nowhere.
    #[inline]
    fn better(
        &mut self,
        asked: &Asked,
        room: &Room,
        (margin, burden): (Margin, &Burden),
    ) -> Option<Rated> {
        let home = usize::from(asked.home);
        self.ask(asked);
        let rated = self.rate(home, room);
        if !self.exceeds(margin, (&rated, home), burden) {
            return None;
        }
        let straight = self.without_detour(home, room, rated);
        let stands = straight.node == rated.node;
        (stands || self.exceeds(margin, (&straight, home), burden)).then_some(straight)
    }

    /// Whether the page in question scores better elsewhere by more than a margin.
    #[inline]
    fn exceeds(&self, margin: Margin, (rated, home): (&Rated, usize), burden: &Burden) -> bool {
        let better = rated.best - rated.home;
        let sticky = f64::max(rated.home * margin.more, rated.home.abs() * EQUAL);
        if better <= sticky {
            return false;
        }
        let (mut all, mut even) = (0.0, 0.0);
        for &(node, gbps) in &self.asking {
            all += gbps;
            even += gbps * burden.each[node];
        }
        if better <= even * margin.uneven {
            return false;
        }
        let chance = (burden.variance[home] + burden.variance[rated.node]).sqrt();
        let aside = f64::max(burden.mean * margin.uneven, chance * margin.chance);
        better > all * aside || self.is_wider(home, rated.node)
    }

    /// Whether the way from the users of the page in question to another memory carries more than the one to its
    /// home, whatever is left of them: chance has no part in that.
    fn is_wider(&self, home: usize, to: usize) -> bool {
        let gains = self.asking.iter().map(|&(node, gbps)| {
            let row = &self.links[node * self.nodes..][..self.nodes];
            gbps * (row[to] - row[home])
        });
        gains.sum::<f64>() > 0.0
    }

    /// The scores of a page that is taken out of what is used.
    #[inline]
    fn rate(&mut self, home: usize, room: &Room) -> Rated {
        let scores = &mut self.scores[..];
        scores.fill(0.0);
        for &(node, gbps) in &self.asking {
            for (score, &left) in scores.iter_mut().zip(self.left.row(node)) {
                *score += left * gbps;
            }
        }
        let all: f64 = self.asking.iter().map(|&(_, gbps)| gbps).sum();
        let alone = |&(node, gbps)| gbps * self.left.without((node, home), gbps, all);
        let at_home = self.asking.iter().map(alone).sum();
        self.best((home, at_home), room, |_| true)
    }

    /// The scores of the page in question at its home and at the best other node that takes it and
    /// is fit; home again if it scores more at none.
    #[inline]
    fn best(
        &self,
        (home, at_home): (usize, f64),
        room: &Room,
        is_fit: impl Fn(usize) -> bool,
    ) -> Rated {
        let mut rated = Rated {
            home: at_home,
            best: at_home,
            node: home,
        };
        for (node, &score) in self.scores.iter().enumerate() {
            if score > rated.best && node != home && room.is_for_one(node) && is_fit(node) {
                (rated.best, rated.node) = (score, node);
            }
        }
        rated
    }

    /// The best node that is no detour. That is one whose way alone is longer for the page's users than way and
    /// wait together at another; or which costs all who use the two memories more than its leaving spares them
    /// at home. More bandwidth is no gain to who lacks none.
    fn without_detour(&self, home: usize, room: &Room, rated: Rated) -> Rated {
        if self.latency_ns.is_empty() {
            return rated;
        }
        let way = |to: usize| {
            let ways = self.asking.iter();
            ways.map(|&(node, gbps)| gbps * self.latency_ns[node * self.nodes + to])
                .sum::<f64>()
        };
        let used = |node: usize| self.left.used(node, self.memory[node]);
        let others = (0..self.nodes).filter(|&node| node != home && room.is_for_one(node));
        let near = others.map(|node| way(node) * (1.0 + queue(used(node))));
        let near = near.fold(f64::INFINITY, f64::min);
        // Where threads would ask for more than there is they wait, and ask for less.
        let spares = way(home) * (1.0 + toll(used(home).min(self.seen[home])));
        let is_detour = |to: usize| {
            let far = way(to);
            let costs = far * (1.0 + toll(used(to)));
            far > near || (far > way(home) && costs * ASIDE > spares)
        };
        if !is_detour(rated.node) {
            return rated;
        }
        self.best((home, rated.home), room, |node| !is_detour(node))
    }

    /// Has the demand of the page in question carried from another memory.
    fn carry(&mut self, from: usize, to: usize) {
        for &(node, gbps) in &self.asking {
            self.left.take(node, from, -gbps);
            self.left.take(node, to, gbps);
        }
        self.left.count(from);
        self.left.count(to);
    }

    fn bandwidth_reason(&self, rated: Rated) -> Reason {
        let all: f64 = self.asking.iter().map(|&(_, gbps)| gbps).sum();
        let mbps = |score: f64| {
            if all > 0.0 {
                whole(score / all * 1000.0)
            } else {
                0
            }
        };
        Reason::Bandwidth {
            there_mbps: mbps(rated.best),
            here_mbps: mbps(rated.home),
        }
    }
}

/// How much longer all accesses to a memory take for one more, as part of one at rest: its own wait, and that by
/// which it makes the others wait longer.
fn toll(used: f64) -> f64 {
    let used = used.clamp(0.0, 1.0 - STEP);
    let wait = queue(used);
    wait + used * (queue(used + STEP) - wait) / STEP
}

fn is_enough(page: &Page, stickiness: Stickiness) -> bool {
    page.samples >= stickiness.samples_min
}

/// Places of those that are looked at. Threads wait for each other, and longest for the one that
/// has to go farthest: so of the pages that each uses most the same part comes before more of any,
/// and of these the ones with most accesses first.
fn in_order(pages: &[Page], asked: &[Asked], stickiness: Stickiness) -> Vec<usize> {
    let page = |place: usize| &pages[asked[place].at as usize];
    let enough = (0..asked.len()).filter(|&place| is_enough(page(place), stickiness));
    let mut places: Vec<usize> = enough.collect();
    places.sort_by_cached_key(|&place| Reverse(page(place).weight()));
    let main_user = |place: usize| {
        let most = page(place).main_user();
        most.map_or(0, |user| user.task as usize)
    };
    let tasks = places.iter().map(|&place| main_user(place) + 1).max();
    let mut own = vec![0_u64; tasks.unwrap_or(0)];
    let mut up_to = vec![0_u64; asked.len()];
    for &place in &places {
        let own = &mut own[main_user(place)];
        *own += page(place).weight();
        up_to[place] = *own;
    }
    let part = |place: usize| up_to[place] as f64 / own[main_user(place)].max(1) as f64;
    places.sort_by(|&one, &other| part(one).total_cmp(&part(other)));
    places
}

#[cfg(test)]
#[path = "pages_tests.rs"]
mod tests;
