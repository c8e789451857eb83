//! The full model asked about a program as policies see it: what would it get from a placement?

use super::congestion::{TaskLoad, solve, waits_ns};
use super::machine::{ACCESS_BYTES, MachineModel, OVERLAP};
use crate::matrix::CommMatrix;
use crate::policy::{Page, Program, Task};

/// Demand of a program, learned from one window; knows what any placement would make of it.
///
/// Accesses to memory are those of the page table, communication is that of the live matrix, half of
/// each pair's amount for each side. How fast a task would go if memory took no time is what is left
/// of its processor time after the accesses it was seen to make, at the latency of where it is now.
#[derive(Clone, Debug)]
pub struct Demand<'a> {
    model: &'a MachineModel,
    program: Program<'a>,
    /// What tasks say to each other; none where memory alone is in question.
    talk: Option<&'a CommMatrix>,
    /// Per task: accesses to memory and communication in the window.
    accesses: Vec<f64>,
    think_ns: Vec<f64>,
    /// Part that each task has in what all use alike: that of its samples.
    parts: Vec<f64>,
}

/// What a program gets from a placement.
#[derive(Clone, Debug, PartialEq)]
pub struct PlacementCost {
    /// For each task, processor time that the work of this window takes, in nanoseconds; 0 for one
    /// that did none or whose node is not known.
    pub task_time_ns: Vec<f64>,
}

impl PlacementCost {
    /// Time of the slowest task: what a program with barriers takes.
    #[must_use]
    pub fn longest_ns(&self) -> f64 {
        self.task_time_ns.iter().copied().fold(0.0, f64::max)
    }

    /// Time of all tasks together.
    #[must_use]
    pub fn sum_ns(&self) -> f64 {
        self.task_time_ns.iter().sum()
    }
}

impl<'a> Demand<'a> {
    /// What a program asks of the machine: of memory, and of each other's caches.
    #[must_use]
    pub fn new(model: &'a MachineModel, program: Program<'a>) -> Self {
        Self::of(model, program, Some(program.live))
    }

    /// What it asks of memory alone: for plans under which tasks stay, so that what they say to each other
    /// takes as long as before.
    ///
    /// An access to a page that several use is communication as well, once for each of them; where
    /// it is not in question it would only blur what memory is asked for.
    #[must_use]
    pub fn of_memory(model: &'a MachineModel, program: Program<'a>) -> Self {
        Self::of(model, program, None)
    }

    fn of(model: &'a MachineModel, program: Program<'a>, talk: Option<&'a CommMatrix>) -> Self {
        let said = |task| talk.map_or(0, |talk| talk.row_sum(task)) as f64 / 2.0;
        let mut weights: Vec<f64> = (0..program.tasks.len()).map(said).collect();
        let mut of_all = 0.0;
        for page in program.pages {
            each_use(&program, page, |task, weight| match task {
                Some(task) => weights[task] += weight,
                None => of_all += weight,
            });
        }
        let sampled: u64 = program.tasks.iter().map(|task| task.samples).sum();
        let part = |task: &Task| task.samples as f64 / sampled.max(1) as f64;
        let parts: Vec<f64> = program.tasks.iter().map(part).collect();
        let accesses = weights.iter().zip(&parts);
        let accesses = accesses.map(|(own, part)| own + of_all * part);
        let accesses: Vec<f64> = accesses
            .map(|all| all * program.memory_per_weight)
            .collect();
        let mut demand = Self {
            model,
            program,
            talk,
            think_ns: vec![0.0; accesses.len()],
            accesses,
            parts,
        };
        demand.learn_thinking();
        demand
    }

    /// Finds the thinking time that explains the processor time that was seen: what is left of it
    /// after the waits at the rates that were seen.
    fn learn_thinking(&mut self) {
        let now = self.program.nodes();
        let (shares, transfers) = (self.shares(Page::node), self.transfers(&now));
        let loads = self.loads(&now, [&shares, &transfers]);
        let spent = self.spent_ns();
        let rate = |(load, &spent): (&TaskLoad<'_>, &f64)| match spent > 0.0 {
            true => load.running / spent,
            false => 0.0,
        };
        let rates: Vec<f64> = loads.iter().zip(&spent).map(rate).collect();
        let think = spent.iter().zip(waits_ns(self.model, &loads, &rates));
        let think = think.map(|(spent, wait)| (spent - wait / OVERLAP).max(0.0));
        self.think_ns = think.collect();
    }

    /// Processor time that each task was seen to take for an access, thinking included.
    fn spent_ns(&self) -> Vec<f64> {
        let window_ns = self.program.window_ns();
        let tasks = self.program.tasks.iter().zip(&self.accesses);
        let spent = tasks.map(|(task, &accesses)| match accesses > 0.0 {
            true => task.busy * window_ns / accesses,
            false => 0.0,
        });
        spent.collect()
    }

    /// How many times as much each task would ask of memory if all of it were near and idle; 1 for
    /// one whose node is not known.
    ///
    /// Samples tell what memory delivered. Of a saturated controller that is all it has, however
    /// much its tasks wait for. What they would ask if nothing made them wait hardly depends on
    /// where their pages are, so that a plan that goes by it does not change it.
    #[must_use]
    pub fn appetite(&self) -> Vec<f64> {
        let faster = |(task, (spent, think)): (&Task, (f64, &f64))| {
            let Some(node) = task.node else { return 1.0 };
            let latencies = (0..self.model.nodes()).map(|to| self.model.latency_ns(node, to));
            let idle = think + latencies.fold(f64::INFINITY, f64::min) / OVERLAP;
            f64::max(spent / idle, 1.0)
        };
        let tasks = self.program.tasks.iter();
        let times = self.spent_ns().into_iter().zip(&self.think_ns);
        tasks.zip(times).map(faster).collect()
    }

    /// What the program would get if its tasks were on these nodes and its pages where `home_of`
    /// says; a page of unknown home counts as spread over all nodes.
    ///
    /// # Panics
    /// When `node_of` is not as long as the list of tasks, or names a node that is not there.
    #[must_use]
    pub fn cost(
        &self,
        node_of: &[Option<usize>],
        home_of: impl Fn(&Page) -> Option<usize>,
    ) -> PlacementCost {
        assert_eq!(node_of.len(), self.accesses.len(), "one node for each task");
        let (shares, transfers) = (self.shares(home_of), self.transfers(node_of));
        let found = solve(self.model, &self.loads(node_of, [&shares, &transfers]));
        let tasks = self.program.tasks.iter().zip(&self.accesses);
        let time = |((task, accesses), rate): ((&Task, &f64), &f64)| match *rate > 0.0 {
            true => accesses * task.busy / rate,
            false => 0.0,
        };
        PlacementCost {
            task_time_ns: tasks.zip(found.rates()).map(time).collect(),
        }
    }

    /// What tasks on these nodes ask of the machine.
    fn loads<'s>(
        &self,
        node_of: &[Option<usize>],
        [shares, transfers]: [&'s [f64]; 2],
    ) -> Vec<TaskLoad<'s>> {
        let nodes = self.model.nodes();
        let tasks = node_of.iter().enumerate();
        tasks
            .map(|(task, &node)| TaskLoad {
                node: node.unwrap_or(0),
                shares: &shares[task * nodes..][..nodes],
                transfers: &transfers[task * nodes..][..nodes],
                think_ns: self.think_ns[task],
                overlap: OVERLAP,
                running: match node.is_some() && self.accesses[task] > 0.0 {
                    true => self.program.tasks[task].busy,
                    false => 0.0,
                },
            })
            .collect()
    }

    /// Per task and node, which part of its accesses memory there answers.
    fn shares(&self, home_of: impl Fn(&Page) -> Option<usize>) -> Vec<f64> {
        let nodes = self.model.nodes();
        // Accesses by task, those that all make alike at the end.
        let tasks = self.accesses.len();
        let mut shares = vec![0.0; (tasks + 1) * nodes];
        for page in self.program.pages {
            let home = home_of(page);
            each_use(&self.program, page, |task, weight| {
                let accesses = weight * self.program.memory_per_weight;
                let row = &mut shares[task.unwrap_or(tasks) * nodes..][..nodes];
                add_at(row, home, accesses);
            });
        }
        let of_all = shares.split_off(tasks * nodes);
        let rows = shares.chunks_mut(nodes).zip(&self.accesses);
        for ((row, accesses), part) in rows.zip(&self.parts) {
            if *accesses > 0.0 {
                for (share, of_all) in row.iter_mut().zip(&of_all) {
                    *share = (*share + of_all * part) / accesses;
                }
            }
        }
        shares
    }

    /// The same of other tasks' caches.
    fn transfers(&self, node_of: &[Option<usize>]) -> Vec<f64> {
        let nodes = self.model.nodes();
        let mut transfers = vec![0.0; self.accesses.len() * nodes];
        for (one, other, amount) in self.talk.into_iter().flat_map(CommMatrix::pairs) {
            for (task, partner) in [(one, other), (other, one)] {
                let said = amount as f64 / 2.0 * self.program.memory_per_weight;
                let part = said / self.accesses[task];
                let row = &mut transfers[task * nodes..][..nodes];
                add_at(row, node_of[partner], part);
            }
        }
        transfers
    }
}

/// Adds an amount to that of a node, or in equal parts to all where it is not known to which.
fn add_at(amounts: &mut [f64], node: Option<usize>, amount: f64) {
    match node {
        Some(node) => amounts[node] += amount,
        None => {
            let part = amount / amounts.len() as f64;
            amounts.iter_mut().for_each(|sum| *sum += part);
        }
    }
}

/// Visits the tasks that use a page, each with its part of the weight, and nobody with what is of
/// all alike: of a page that is everyone's it is chance who is named.
fn each_use(program: &Program<'_>, page: &Page, mut visit: impl FnMut(Option<usize>, f64)) {
    let mut own = 1.0;
    if page.is_everyones(program.tasks.len()) {
        own = page.remembered();
        visit(None, page.weight() as f64 * (1.0 - own));
    }
    for (task, weight) in page.users().filter(|(task, _)| *task < program.tasks.len()) {
        visit(Some(task), weight * own);
    }
}

/// Bytes per nanosecond, which is GB/s, that a program was seen to ask of each node's memory.
#[must_use]
pub fn asked_gbps(program: &Program<'_>) -> Vec<f64> {
    let mut asked = vec![0.0; program.topology.nodes().len()];
    let window_ns = program.window_ns();
    if window_ns <= 0.0 {
        return asked;
    }
    for page in program.pages {
        if let Some(home) = page.node() {
            let accesses = page.weight() as f64 * program.memory_per_weight;
            asked[home] += accesses * ACCESS_BYTES / window_ns;
        }
    }
    asked
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use topology::{Pid, StartTicks, TaskKey, Tid, Topology};

    use super::*;
    use crate::CommMatrix;
    use crate::cost::Prices;
    use crate::policy::{ACCESSORS_MAX, Accessor, PageKey, SpaceId, Task};

    fn task(tid: u32, node: usize) -> Task {
        let key = TaskKey {
            pid: Pid(1),
            tid: Tid(tid),
            start: StartTicks(1),
        };
        Task {
            key,
            node: Some(node),
            allowed: vec![true; 4],
            busy: 1.0,
            samples: 0,
        }
    }

    /// A page that one task uses this often.
    fn page(number: u64, task: u32, weight: u32, home: u16) -> Page {
        let mut recent = [Accessor::default(); ACCESSORS_MAX];
        recent[0] = Accessor { task, weight };
        Page {
            key: PageKey {
                space: SpaceId(0),
                page: number,
            },
            slot: 0,
            home: Some(home),
            recent,
            accessor_count: 1,
            samples: 1,
            forgotten: 0,
            span: 1,
        }
    }

    struct Owned {
        topology: Topology,
        model: MachineModel,
        tasks: Vec<Task>,
        live: CommMatrix,
        pages: Vec<Page>,
    }

    impl Owned {
        fn program(&self) -> Program<'_> {
            Program {
                topology: &self.topology,
                model: &self.model,
                tasks: &self.tasks,
                capacity: &[8; 4],
                free_bytes: &[1 << 30; 4],
                live: &self.live,
                decayed: &self.live,
                pages: &self.pages,
                page_bytes: 4096,
                window: Duration::from_millis(500),
                samples: 1000,
                prices: Prices::default(),
                handed: None,
                ipc: None,
                memory_per_weight: 1.0,
                era: 0,
                records: &[],
            }
        }
    }

    /// Eight tasks on node 0 with a page each there, and talk in neighbouring pairs.
    fn crowd(weight: u32, amount: u64) -> Owned {
        let mut live = CommMatrix::new(8);
        for pair in 0..4 {
            live.add(2 * pair, 2 * pair + 1, amount);
        }
        let topology = topology::synthetic::parse("4x8@10,21").unwrap();
        Owned {
            model: MachineModel::new(&topology),
            topology,
            tasks: (0..8).map(|tid| task(tid, 0)).collect(),
            live,
            pages: (0..8).map(|one| page(one.into(), one, weight, 0)).collect(),
        }
    }

    #[test]
    fn the_present_placement_takes_the_time_that_was_seen() {
        let owned = crowd(1_000_000, 1000);
        let model = MachineModel::new(&owned.topology);
        let demand = Demand::new(&model, owned.program());
        let now = demand.cost(&[Some(0); 8], Page::node);
        // Half a second of processor time each, when memory is not the limit.
        for time in &now.task_time_ns {
            assert!((4.9e8..5.1e8).contains(time), "{now:?}");
        }
    }

    #[test]
    fn spreading_pays_for_the_greedy_and_costs_the_others() {
        let spread: Vec<Option<usize>> = (0..8).map(|task| Some(task / 2)).collect();
        let apart: Vec<Option<usize>> = (0..8).map(|task| Some(task % 4)).collect();
        let gain = |weight, amount, nodes: &[Option<usize>]| {
            let owned = crowd(weight, amount);
            let model = MachineModel::new(&owned.topology);
            let demand = Demand::new(&model, owned.program());
            let now = demand.cost(&[Some(0); 8], |_| Some(0)).longest_ns();
            let then = demand.cost(nodes, |page| nodes[usize::try_from(page.key.page).unwrap()]);
            now / then.longest_ns()
        };
        // One access in nine nanoseconds is as fast as a core can go: the controller saturates.
        assert!(gain(55_000_000, 0, &spread) > 1.2);
        assert!(gain(1_000_000, 1_000_000, &spread) > 0.99);
        // Pairs that are torn apart pay for it.
        assert!(gain(1_000_000, 20_000_000, &apart) < 0.97);
    }

    #[test]
    fn it_is_chance_who_is_named_of_all_that_use_a_page() {
        // Eight tasks, two on each node, that use one page alike; two of them are named.
        let mut owned = crowd(0, 0);
        let nodes: Vec<Option<usize>> = (0..8).map(|task| Some(task / 2)).collect();
        for (task, node) in owned.tasks.iter_mut().zip(&nodes) {
            (task.node, task.samples) = (*node, 100);
        }
        let mut all = page(0, 0, 400_000, 0);
        all.recent[1] = Accessor {
            task: 1,
            ..all.recent[0]
        };
        (all.accessor_count, all.forgotten) = (2, 600_000);
        let model = MachineModel::new(&owned.topology);
        let mut gain = |all: Page| {
            owned.pages = vec![all];
            let demand = Demand::of_memory(&model, owned.program());
            let at = |home| demand.cost(&nodes, |_| Some(home)).sum_ns();
            at(3) / at(0)
        };
        let of_all = gain(all) - 1.0;
        // If the two are all of its users it belongs beside them.
        all.forgotten = 0;
        let of_two = gain(all) - 1.0;
        assert!(of_two > 0.001 && of_all < of_two / 3.0, "{of_all} {of_two}");
    }

    #[test]
    fn nothing_known_costs_nothing() {
        let mut owned = crowd(0, 0);
        owned.pages.clear();
        let model = MachineModel::new(&owned.topology);
        let demand = Demand::new(&model, owned.program());
        let cost = demand.cost(&[None; 8], |_| None);
        assert!(cost.longest_ns() <= 0.0);
        check_appetites(&demand.appetite(), 1.0..1.001);
    }

    /// Appetites of tasks that are busy all the time and ask for so many GB/s, all on node 0, of
    /// memory that is evenly on these nodes.
    fn appetites(tasks: u32, gbps: f64, homes: &[u16]) -> Vec<f64> {
        appetites_of_busy(1.0, tasks, gbps, homes)
    }

    /// The same of tasks that run for a part of the time.
    fn appetites_of_busy(busy: f64, tasks: u32, gbps: f64, homes: &[u16]) -> Vec<f64> {
        let mut owned = crowd(0, 0);
        let one = |tid| Task {
            busy,
            ..task(tid, 0)
        };
        owned.tasks = (0..tasks).map(one).collect();
        owned.live = CommMatrix::new(owned.tasks.len());
        let of_task = |one| homes.iter().map(move |&home| page(0, one, 1, home));
        owned.pages = (0..tasks).flat_map(of_task).collect();
        let mut program = owned.program();
        let each_gbps = gbps / homes.len() as f64;
        program.memory_per_weight = each_gbps * program.window_ns() / ACCESS_BYTES;
        let model = MachineModel::new(&owned.topology);
        Demand::of_memory(&model, program).appetite()
    }

    #[track_caller]
    fn check_appetites(found: &[f64], expected: std::ops::Range<f64>) {
        let is_right = found.iter().all(|factor| expected.contains(factor));
        assert!(is_right, "{found:?}");
    }

    #[test]
    fn who_does_not_wait_asks_for_what_it_gets() {
        check_appetites(&appetites(1, 0.01, &[0]), 1.0..1.001);
        check_appetites(&appetites(8, 1.0, &[0]), 1.0..1.001);
    }

    #[test]
    fn who_waits_would_ask_for_more_but_not_for_more_than_a_core_can() {
        // Eight cores could ask for 57 GB/s, the controller gives 24.9.
        check_appetites(&appetites(8, 2.85, &[0]), 2.0..2.5);
        // Far memory, nobody else there: 99 of 189 nanoseconds are the way.
        check_appetites(&appetites(1, 3.38, &[1]), 2.0..2.2);
        // A tenth of that: the rest of the time is the task's own.
        check_appetites(&appetites(1, 0.338, &[1]), 1.0..1.06);
    }

    #[test]
    fn who_runs_half_of_the_time_asks_for_half_as_much() {
        // While one runs it asks for as much as those above, and half of them run at a time.
        check_appetites(&appetites_of_busy(0.5, 8, 2.85 / 2.0, &[0]), 1.0..1.4);
        check_appetites(&appetites_of_busy(0.5, 16, 2.85 / 2.0, &[0]), 2.0..2.5);
    }

    #[test]
    fn where_pages_are_does_not_change_what_tasks_would_ask() {
        let whole = |gbps: f64, homes: &[u16]| gbps * appetites(8, gbps, homes)[0];
        // The same eight cores, before and after two thirds of their pages went away.
        let (before, after) = (whole(2.85, &[0]), whole(4.3, &[0, 1, 2]));
        assert!((before / after - 1.0).abs() < 0.2, "{before} {after}");
    }

    #[test]
    fn amounts_that_stand_for_many_accesses_are_those_accesses() {
        let (few, many) = (crowd(1_000, 100), crowd(1_000_000, 100_000));
        let model = MachineModel::new(&few.topology);
        let few = Program {
            memory_per_weight: 1000.0,
            ..few.program()
        };
        let of_few = Demand::new(&model, few);
        let of_many = Demand::new(&model, many.program());
        let cost = |demand: &Demand<'_>| demand.cost(&[Some(1); 8], |_| Some(0)).sum_ns();
        assert!((cost(&of_few) / cost(&of_many) - 1.0).abs() < 1e-9);
        let traffic = asked_gbps(&few);
        // Eight million accesses of 64 bytes in half a second.
        assert!(
            (traffic[0] - 1.024).abs() < 1e-9 && traffic[1] <= 0.0,
            "{traffic:?}"
        );
    }
}
