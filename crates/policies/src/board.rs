//! The kernels as policies use them: tasks with masks, places that others hold, and a plan that is
//! taken only if it is worth it.
//!
//! Mapped are tasks that talk; the others stay and keep their places. A plan is found by a
//! [`crate::kernel`], which knows nothing of masks, and [`Board::fit`] makes it one that is
//! allowed.
//!
//! # What is worth it
//!
//! A plan replaces what is when what becomes nearer by it is at least `gain_min` of all that the
//! moved tasks say, at the distance that nodes are apart on average ([`Board::is_worth`]); and when
//! plans are compared the tasks that move have to pay that share of what they say as their price,
//! or what it costs that their memory follows, where that is more. A placement that is no proper
//! one, with somebody who has no seat, is replaced whenever that seats more.
//!
//! Whether a gain could be chance is not asked here: the engine knows the samples behind it
//! ([`numad_core::evidence`]).
//!
//! # Standing still
//!
//! [`Board::settle`] asks again with the plan as what is, until that stands. So the next window, if
//! it is like this one, changes nothing.
//!
//! # Hybrid programs
//!
//! Where tasks of several processes take part, those of one process are drawn together a little, as
//! if a twentieth of what a task says on average went to others of its process. Communication that
//! says otherwise outweighs it; between places that are equal for communication it decides, and
//! keeps the threads of a rank, who share its heap and page tables, near each other.

use std::cmp::{Ordering, Reverse};
use std::collections::BTreeMap;

use numad_core::{CommMatrix, Program, Proposal, Reason, SettingKind, SettingSpec, Task};

use crate::amounts::times_counted;
use crate::figures::rounded;
use crate::history::Group;
use crate::kernel::{Edges, Effort, Kernel, Problem, Workspace, refine};
use crate::rounds;
use crate::seats::{Seats, may_run};

mod fit;
mod naming;

/// What a plan must bring near; shared by all policies that gather threads.
pub(crate) const GAIN_MIN: SettingSpec = SettingSpec {
    name: "gain_min",
    kind: SettingKind::Float((0.0, 1.0), 0.05),
    help: "Threads move only if this share of their communication becomes local.",
};

/// Seats of the talkers, by their number: the node of each; none for one without a seat, who
/// stays where he is.
pub(crate) type Plan = Vec<Option<usize>>;

/// Steps a kernel may take in one call, each a few nanoseconds: about a tenth of a second, ten
/// times what 1,024 tasks need online.
const STEPS_MAX: u64 = 20_000_000;
const EFFORT: Effort = Effort::ONLINE.within(STEPS_MAX);

/// Refining what is gets more care than planning anew: what swaps alone cannot mend would else be
/// mended by a plan from nothing, which moves more tasks. A few milliseconds for 256 tasks.
const CARE: Effort = Effort::THOROUGH.within(STEPS_MAX / 10);

/// Tasks up to which it does: of 128, phases gain 2.7 % by it; of 256 and 288, plans are the same
/// to the bit without it, at a quarter of the instructions of a whole window.
const CARE_TASKS_MAX: usize = 128;

/// Plans in a row, each worth it to the one before.
const ROUNDS_MAX: usize = 8;

/// Share of what a task says on average that draws it to others of its process.
const PROCESS_SHARE: f64 = 0.05;

/// Others of its process that draw a task, when there are more: those next to it in order.
const PROCESS_PARTNERS: usize = 16;

/// Amounts are this many times finer where processes draw, so that a twentieth of little is not
/// nothing.
const FINER: u64 = 256;

/// Share of the mean load of a node by which the highest must fall, as for `balance`.
const EVENER: f64 = 0.1;

/// What is to be mapped.
#[derive(Clone, Debug, Default)]
pub(crate) struct Board<'a> {
    tasks: &'a [Task],
    /// Whom each task talks to, and how much.
    pub(crate) partners: Vec<Vec<(usize, u64)>>,
    /// Positions of the tasks that talk and could be placed. Their order is their number here: the
    /// loudest first, of equals who uses most memory, so that it does not depend on how tasks are
    /// listed but for those who do the same in all.
    pub(crate) talkers: Vec<usize>,
    numbers: Vec<Option<usize>>,
    /// Places for them on each node.
    seats: Seats,
    /// The same as kernels want it.
    pub(crate) capacity: Vec<u32>,
    /// And scaled up evenly if there are more talkers, as kernels want to seat everyone.
    widened: Vec<u32>,
    distance: Vec<u32>,
    /// How much farther two nodes are from each other than a node from itself, both ways on
    /// average; as rows, with one more of either for where no node is known.
    apart: Vec<f64>,
    /// Mean of what nodes are farther from each other than from themselves.
    far: f64,
    pairs: Vec<(u32, u32, u64)>,
    /// What each says in all.
    said: Vec<f64>,
    /// In which order talkers are seated where places are few: those with the fewest nodes to
    /// choose from first, of those the loudest, of those the first.
    order: Vec<usize>,
    /// Every talker may have every place, and there are enough.
    is_easy: bool,
    pub(crate) edges: Edges,
    /// How many times finer amounts are in `edges` than in `pairs`.
    finer: f64,
    /// What each talker's accesses to memory cost from each node, where pages stay.
    anchors: Vec<f64>,
    /// What it saves that its part of the pages that each uses need not move to a node, where they
    /// follow, and that a task need not.
    homes: Vec<f64>,
    task_move_ns: f64,
    /// What a unit of an amount costs by each unit of distance, as time; 0 where that is unknown.
    talk_ns: f64,
}

impl<'a> Board<'a> {
    /// What a program's tasks say according to a matrix.
    pub(crate) fn new(program: &Program<'a>, matrix: &CommMatrix) -> Self {
        Self::ranked(program, matrix, &[])
    }

    /// The same where of tasks that say the same in all those of a higher rank come first.
    pub(crate) fn ranked(program: &Program<'a>, matrix: &CommMatrix, rank: &[u64]) -> Self {
        let tasks = program.tasks;
        let partners = matrix.partners();
        let total = |partners: &Vec<(usize, u64)>| {
            let amounts = partners.iter().map(|&(_, amount)| amount);
            amounts.fold(0, u64::saturating_add)
        };
        let totals: Vec<u64> = partners.iter().map(total).collect();
        let silent = (0..totals.len()).filter(|&task| totals[task] == 0);
        let seats = Seats::without(program, silent);
        let capacity = seats.capacity();
        let placeable = |&task: &usize| {
            totals[task] > 0 && (0..seats.nodes()).any(|node| seats.takes(node, &tasks[task]))
        };
        let mut talkers: Vec<usize> = (0..totals.len()).filter(placeable).collect();
        talkers.sort_by_key(|&task| (Reverse(totals[task]), Reverse(rank.get(task))));
        let mut numbers = vec![None; totals.len()];
        for (talker, &task) in talkers.iter().enumerate() {
            numbers[task] = Some(talker);
        }
        let said = talkers.iter().map(|&task| totals[task] as f64).collect();
        let (distance, far) = distances(program);
        let apart = apart(&distance, capacity.len(), far);
        let prices = &program.prices;
        let mut board = Self {
            tasks,
            partners,
            talkers,
            numbers,
            seats,
            distance,
            apart,
            far,
            said,
            finer: 1.0,
            task_move_ns: prices.task_move_ns,
            talk_ns: prices.gain_ns(prices.accesses_per_amount, program.window),
            ..Self::default()
        };
        board.line_up(capacity);
        board.listen();
        board
    }

    /// The same with no more places on a node than make all nodes alike, those counted who say
    /// nothing.
    fn evened(&self) -> Self {
        let nodes = self.capacity.len();
        let mut on = vec![0_u32; nodes];
        let silent = self.partners.iter().zip(self.tasks);
        let silent = silent.filter(|(partners, _)| partners.is_empty());
        for node in silent.filter_map(|(_, task)| task.node.filter(|&node| node < nodes)) {
            on[node] += 1;
        }
        let mut places = vec![0; nodes];
        for _ in &self.talkers {
            let free = (0..nodes).filter(|&node| places[node] < self.capacity[node]);
            let Some(node) = free.min_by_key(|&node| on[node] + places[node]) else {
                break;
            };
            places[node] += 1;
        }
        let mut even = self.clone();
        even.line_up(places);
        even
    }

    /// The number of a task by its position, if it talks.
    pub(crate) fn talker(&self, task: usize) -> Option<usize> {
        self.numbers.get(task).copied().flatten()
    }

    /// Lets pages count as well, which stay where they are: a talker that goes away from its memory
    /// pays for that.
    ///
    /// An access to a page that several use stands in the matrix once for each of them; it counts
    /// for that often here.
    pub(crate) fn anchored(mut self, program: &Program<'_>) -> Self {
        let nodes = self.capacity.len();
        self.anchors = vec![0.0; self.talkers.len() * nodes];
        let times = times_counted(program);
        for page in program.pages {
            let Some(home) = page.node().filter(|&home| home < nodes) else {
                continue;
            };
            for accessor in page.accessors() {
                let Some(talker) = self.talker(accessor.task as usize) else {
                    continue;
                };
                for node in 0..nodes {
                    self.anchors[talker * nodes + node] +=
                        times * f64::from(accessor.weight) * self.apart(node, home);
                }
            }
        }
        self
    }

    /// Lets pages count that follow their users, or stay away where that is cheaper: of plans that
    /// are alike those are taken for which that costs least.
    pub(crate) fn homed(mut self, program: &Program<'_>) -> Self {
        let nodes = self.capacity.len();
        let prices = &program.prices;
        let away = prices.accesses_per_amount * self.far;
        let away_ns = prices.gain_ns(away, program.window);
        self.homes = vec![0.0; self.talkers.len() * nodes];
        for page in program.pages {
            let Some(home) = page.node().filter(|&home| home < nodes) else {
                continue;
            };
            let moved_ns = page.span as f64 * prices.page_move_ns;
            let per_use = (moved_ns / (page.weight() as f64).max(1.0)).min(away_ns);
            for (task, uses) in page.users() {
                if let Some(talker) = self.talker(task) {
                    self.homes[talker * nodes + home] += uses * per_use;
                }
            }
        }
        self
    }

    /// The same of one talker, by node; nothing where pages do not follow.
    fn homes_of(&self, talker: usize) -> &[f64] {
        let nodes = self.capacity.len();
        let row = talker * nodes..(talker + 1) * nodes;
        self.homes.get(row).unwrap_or_default()
    }

    /// What it saves that a talker is with its memory on a node, as time.
    fn home(&self, talker: usize, node: usize) -> f64 {
        self.homes_of(talker).get(node).copied().unwrap_or(0.0)
    }

    /// Time as what is said in it, amounts times distance.
    fn as_talk(&self, ns: f64) -> f64 {
        match self.talk_ns > 0.0 {
            true => ns / self.talk_ns,
            false => 0.0,
        }
    }

    /// Says how many talkers each node takes, and in which order they are seated.
    fn line_up(&mut self, capacity: Vec<u32>) {
        let room: usize = capacity.iter().map(|&places| places as usize).sum();
        let share = self.talkers.len().div_ceil(room.max(1));
        let share = u32::try_from(share).unwrap_or(u32::MAX);
        let widened = capacity.iter().map(|places| places.saturating_mul(share));
        self.widened = widened.collect();
        self.capacity = capacity;
        let nodes = self.capacity.len();
        let choice = |&task: &usize| (0..nodes).filter(|&node| self.open(task, node)).count();
        let choice: Vec<usize> = self.talkers.iter().map(choice).collect();
        let widest = self.capacity.iter().filter(|&&places| places > 0).count();
        let all_wide = choice.iter().all(|&count| count == widest);
        let mut order: Vec<usize> = (0..choice.len()).collect();
        order.sort_by_key(|&talker| choice[talker]);
        self.order = order;
        self.is_easy = all_wide && self.widened == self.capacity;
    }

    /// Lists the pairs, and the draw of processes.
    fn listen(&mut self) {
        let mut pairs = Vec::new();
        for (one, &task) in (0_u32..).zip(&self.talkers) {
            let named = self.partners[task].iter().filter_map(|&(other, amount)| {
                let other = u32::try_from(self.talker(other)?).ok()?;
                (other > one).then_some((one, other, amount))
            });
            let begin = pairs.len();
            pairs.extend(named);
            pairs[begin..].sort_unstable();
        }
        self.pairs = pairs;
        let total: f64 = self.pairs.iter().map(|pair| pair.2 as f64).sum();
        let mut links = self.pairs.clone();
        self.draw(total, &mut links);
        self.edges = Edges::from_pairs(self.talkers.len(), &links);
    }

    /// Adds what draws tasks of one process together where there are several.
    fn draw(&mut self, total: f64, links: &mut Vec<(u32, u32, u64)>) {
        let mut of_process: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for (number, &task) in (0_u32..).zip(&self.talkers) {
            let pid = self.tasks[task].key.pid.0;
            of_process.entry(pid).or_default().push(number);
        }
        if of_process.len() < 2 {
            return;
        }
        self.finer = FINER as f64;
        for link in &mut *links {
            link.2 = link.2.saturating_mul(FINER);
        }
        let mean = 2.0 * total / self.talkers.len().max(1) as f64 * FINER as f64;
        for members in of_process.values().filter(|members| members.len() > 1) {
            let reach = (members.len() - 1).min(PROCESS_PARTNERS);
            let each = rounded(mean * PROCESS_SHARE / reach as f64);
            for (place, &one) in members.iter().enumerate() {
                for &other in members[place + 1..].iter().take(reach.div_ceil(2).max(1)) {
                    links.push((one, other, each));
                }
            }
        }
    }

    /// Where talkers have seats now. On a node with more of them than it takes, the first in
    /// `order` have them.
    pub(crate) fn seated(&self) -> Plan {
        let mut free = self.capacity.clone();
        let mut plan = vec![None; self.talkers.len()];
        for &talker in &self.order {
            let task = &self.tasks[self.talkers[talker]];
            let seat = task.node.filter(|&node| {
                free.get(node).is_some_and(|&free| free > 0) && may_run(task, node)
            });
            if let Some(node) = seat {
                free[node] -= 1;
                plan[talker] = Some(node);
            }
        }
        plan
    }

    /// Where a talker is under a plan.
    fn place(&self, plan: &Plan, talker: usize) -> Option<usize> {
        plan[talker].or(self.tasks[self.talkers[talker]].node)
    }

    /// Where all talkers are under a plan; the number of nodes where that is not known.
    fn places(&self, plan: &Plan) -> Vec<usize> {
        let nodes = self.capacity.len();
        let place = |talker| {
            self.place(plan, talker)
                .map_or(nodes, |node| node.min(nodes))
        };
        (0..plan.len()).map(place).collect()
    }

    /// Communication times distance, and that of accesses where pages count.
    fn cost(&self, plan: &Plan) -> f64 {
        let (nodes, places) = (self.capacity.len(), self.places(plan));
        let mut sum = 0.0;
        for &(one, other, amount) in &self.pairs {
            sum += amount as f64 * self.apart(places[one as usize], places[other as usize]);
        }
        for (costs, &node) in self.anchors.chunks_exact(nodes.max(1)).zip(&places) {
            sum += costs.get(node).copied().unwrap_or(0.0);
        }
        sum
    }

    /// See the table of the same name.
    fn apart(&self, one: usize, other: usize) -> f64 {
        self.apart[one * (self.capacity.len() + 1) + other]
    }

    /// What those say who are elsewhere in another plan.
    fn moved(&self, from: &Plan, to: &Plan) -> f64 {
        let (from, to) = (self.places(from), self.places(to));
        let said = self.said.iter().enumerate();
        let moved = said.filter(|&(talker, _)| from[talker] != to[talker]);
        moved.map(|(_, said)| said).sum()
    }

    /// What a plan must save for its moves, in amounts times distance: a share of what the moved
    /// say, or what it costs that their memory follows, where that is more.
    fn move_price(&self, from: &Plan, to: &Plan, gain_min: f64) -> f64 {
        let share = gain_min * self.moved(from, to) * self.far;
        let both = self.places(from).into_iter().zip(self.places(to));
        let moved = both.enumerate().filter(|(_, (from, to))| from != to);
        let memory =
            moved.map(|(talker, (from, to))| self.home(talker, from) - self.home(talker, to));
        share.max(self.as_talk(memory.sum()))
    }

    /// Whether a plan is worth its moves.
    pub(crate) fn is_worth(&self, from: &Plan, to: &Plan, gain_min: f64) -> bool {
        let (before, after) = (unseated(from), unseated(to));
        if before != after {
            return after < before;
        }
        let gain = self.cost(from) - self.cost(to);
        gain > 0.0 && gain >= gain_min * self.moved(from, to) * self.far
    }

    /// Plans until one stands; see the module. `find` gives one that is worth it to the one it is
    /// given, or none.
    pub(crate) fn settle(&self, mut find: impl FnMut(&Plan) -> Option<Plan>) -> Plan {
        let first = self.seated();
        let mut plan = first.clone();
        for _ in 0..ROUNDS_MAX {
            match find(&plan) {
                Some(next) => plan = next,
                None => break,
            }
        }
        if plan == first || self.homes.is_empty() {
            return plan;
        }
        self.named_plan(&plan, &first)
    }

    /// The same by a kernel and what refining makes of what is.
    pub(crate) fn gathered(
        &self,
        kernel: Kernel,
        gain_min: f64,
        workspace: &mut Workspace,
    ) -> Plan {
        let sketch = self.sketch(kernel, workspace);
        self.settle(|from| {
            let refined = self.refined(from, gain_min, workspace);
            let named = sketch.as_ref().map(|sketch| self.named(sketch, from));
            let plans = [refined].into_iter().chain(named).collect();
            self.better(from, plans, gain_min)
        })
    }

    /// What another plan becomes where no node is to take more than others.
    pub(crate) fn evened_out(&self, near: &Plan, gain_min: f64, workspace: &mut Workspace) -> Plan {
        let (from, even) = (self.seated(), self.evened());
        let plan = even.refined(&even.fit(near, &from), gain_min, workspace);
        self.fit(&plan, &from)
    }

    /// The same with talkers dealt out in rounds by groups of pairs, where that is worth it or
    /// evener.
    pub(crate) fn settle_dealt(&self, groups: &[Group], gain_min: f64) -> Plan {
        let dealt = rounds::deal(self.tasks, self.seats.clone(), groups);
        let wish: Plan = self.talkers.iter().map(|&task| dealt[task]).collect();
        self.settle(|from| {
            let plan = self.named_plan(&wish, from);
            let taken = self.is_worth(from, &plan, gain_min) || self.is_evener(from, &plan);
            (taken && plan != *from).then_some(plan)
        })
    }

    /// The cheapest of some plans, moves priced at what they must gain, if it is worth it; fewest
    /// without a seat come first, the first of equals.
    pub(crate) fn better(&self, from: &Plan, plans: Vec<Plan>, gain_min: f64) -> Option<Plan> {
        let rated = plans.into_iter().map(|plan| {
            let price = self.cost(&plan) + self.move_price(from, &plan, gain_min);
            ((unseated(&plan), price), plan)
        });
        let best =
            rated.min_by(|one, other| one.0.partial_cmp(&other.0).unwrap_or(Ordering::Equal));
        let (_, best) = best?;
        (best != *from && self.is_worth(from, &best, gain_min)).then_some(best)
    }

    /// Where every task of the program is under a plan.
    pub(crate) fn nodes(&self, plan: &Plan) -> Vec<Option<usize>> {
        let mut nodes: Vec<Option<usize>> = self.tasks.iter().map(|task| task.node).collect();
        for (talker, &task) in self.talkers.iter().enumerate() {
            nodes[task] = self.place(plan, talker);
        }
        nodes
    }

    /// The problem as kernels have it.
    fn problem(&self) -> Option<Problem<'_>> {
        // There are places for every talker, so this is always one.
        Problem::new(&self.edges, &self.distance, &self.widened).ok()
    }

    /// What one move must save, in the kernels' unit.
    fn price(&self, gain_min: f64) -> u64 {
        let tasks = self.said.len().max(1) as f64;
        let share = gain_min * self.said.iter().sum::<f64>() / tasks * self.far;
        let seats = self.seated().into_iter().enumerate();
        let memory = seats.filter_map(|(talker, node)| Some(self.home(talker, node?)));
        let memory = self.as_talk(memory.sum::<f64>() / tasks);
        rounded(share.max(memory) * self.finer) >> self.edges.shift()
    }

    /// What swaps and moves make of a plan.
    pub(crate) fn refined(&self, from: &Plan, gain_min: f64, workspace: &mut Workspace) -> Plan {
        let current = numbers(from);
        let warm = self
            .problem()
            .and_then(|problem| problem.warm(&current, self.price(gain_min)).ok());
        let Some(problem) = warm else {
            return from.clone();
        };
        let effort = match problem.tasks() > CARE_TASKS_MAX {
            true => EFFORT,
            false => CARE,
        };
        self.fit(&seats(refine(&problem, effort, workspace)), from)
    }

    /// A mapping from nothing, in which the parts have the names of chance: see [`Self::named`].
    pub(crate) fn sketch(&self, kernel: Kernel, workspace: &mut Workspace) -> Option<Vec<u16>> {
        let problem = self.problem()?;
        Some(kernel(&problem, EFFORT, workspace).to_vec())
    }

    /// Whether a plan lowers what is said on the loudest node by a tenth of the mean, and costs
    /// nothing.
    pub(crate) fn is_evener(&self, from: &Plan, to: &Plan) -> bool {
        let loudest = |plan: &Plan| {
            // The last stands for where no node is known.
            let mut loads = vec![0.0; self.capacity.len() + 1];
            for (said, node) in self.said.iter().zip(self.places(plan)) {
                loads[node] += said;
            }
            loads.pop();
            loads.into_iter().fold(0.0, f64::max)
        };
        let nodes = self.capacity.iter().filter(|&&places| places > 0).count();
        let mean = self.said.iter().sum::<f64>() / nodes.max(1) as f64;
        loudest(from) - loudest(to) > EVENER * mean && self.cost(to) <= self.cost(from)
    }

    /// Where every talker with a seat is to be, the loudest pairs first, and for whose sake.
    pub(crate) fn propose(&self, plan: &Plan) -> Vec<Proposal> {
        let mut order: Vec<(u64, usize, usize, usize)> = Vec::with_capacity(plan.len());
        for talker in 0..plan.len() {
            let (partner, amount) = self.partner(talker, plan);
            order.push((amount, self.talkers[talker], talker, partner));
        }
        order.sort_by_key(|&(amount, task, ..)| (Reverse(amount), task));
        let place = |(amount, _, talker, partner): (u64, usize, usize, usize)| {
            let with = self.tasks[partner].key;
            let reason = Reason::Partner { with, amount };
            let (task, node) = (self.talkers[talker], plan[talker]?);
            Some(Proposal::place_task(task, node, reason))
        };
        order.into_iter().filter_map(place).collect()
    }

    /// The position of whom a talker says most to, of those on its node, else of all; and how much.
    fn partner(&self, talker: usize, plan: &Plan) -> (usize, u64) {
        let task = self.talkers[talker];
        let own = self.place(plan, talker);
        let is_near = |other: usize| {
            let other = self.talker(other);
            other.is_some_and(|other| self.place(plan, other) == own)
        };
        let partners = self.partners[task].iter().copied();
        let loudest =
            partners.max_by_key(|&(other, amount)| (is_near(other), amount, Reverse(other)));
        loudest.unwrap_or((task, 0))
    }
}

/// The table of distances as kernels want it, and how far nodes are apart on average.
fn distances(program: &Program<'_>) -> (Vec<u32>, f64) {
    let nodes = program.capacity.len();
    let distances = program.topology.distances();
    let mut table = Vec::with_capacity(nodes * nodes);
    for one in 0..nodes {
        table.extend((0..nodes).map(|other| distances.between(one, other)));
    }
    let homes = (0..nodes).filter(|&node| program.capacity[node] > 0);
    let homes: Vec<usize> = homes.collect();
    let (mut sum, mut count) = (0.0, 0.0);
    for &one in &homes {
        for &other in homes.iter().filter(|&&other| other != one) {
            sum += f64::from(table[one * nodes + other]) - f64::from(table[one * nodes + one]);
            count += 1.0;
        }
    }
    let far: f64 = if count > 0.0 { sum / count } else { 1.0 };
    (table, far.max(1.0))
}

/// How much farther nodes are from each other than from themselves, see [`Board`].
fn apart(distance: &[u32], nodes: usize, far: f64) -> Vec<f64> {
    let between = |one: usize, other: usize| f64::from(distance[one * nodes + other]);
    let apart = |one, other| match one < nodes && other < nodes {
        true => {
            let both = between(one, other) + between(other, one);
            (both - between(one, one) - between(other, other)) / 2.0
        }
        false => far,
    };
    let rows = (0..=nodes).flat_map(|one| (0..=nodes).map(move |other| (one, other)));
    rows.map(|(one, other)| apart(one, other)).collect()
}

/// How many have no seat under a plan.
fn unseated(plan: &Plan) -> usize {
    plan.iter().filter(|seat| seat.is_none()).count()
}

/// Seats as kernels have them; a node that is none for one without a seat.
fn numbers(plan: &Plan) -> Vec<u16> {
    let number = |seat: &Option<usize>| seat.and_then(|node| u16::try_from(node).ok());
    let numbers = plan.iter().map(|seat| number(seat).unwrap_or(u16::MAX));
    numbers.collect()
}

/// The other way round.
fn seats(mapping: &[u16]) -> Plan {
    let seats = mapping.iter().map(|&node| Some(usize::from(node)));
    seats.collect()
}
