//! Many tasks at once: accesses queue at controllers and links, waiting makes them fewer, until
//! demand and latency agree.

use super::machine::{ACCESS_BYTES, MachineModel};

/// What one task asks of the machine.
///
/// It repeats: think, then one access. Accesses overlap, so each costs the task its latency divided
/// by `overlap`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TaskLoad<'a> {
    /// Position of the node it runs on.
    pub node: usize,
    /// Which part of its accesses goes to each node's memory, by position. Where this and
    /// `transfers` sum to less than one, its own caches answer the rest, whose time is in `think_ns`.
    pub shares: &'a [f64],
    /// Which part is answered by another task's cache on each node: communication. It crosses links
    /// as memory does, and leaves controllers alone.
    pub transfers: &'a [f64],
    /// Time between accesses that is not memory's, in nanoseconds.
    pub think_ns: f64,
    /// Accesses in flight at a time; at least 1.
    pub overlap: f64,
    /// Share of a processor it has, 0 to 1.
    pub running: f64,
}

/// Where demand and latency agree.
#[derive(Clone, Debug, PartialEq)]
pub struct Congestion {
    nodes: usize,
    latency_ns: Vec<f64>,
    transfer_ns: Vec<f64>,
    /// Share of the bandwidth of each controller and link that is used, below 1.
    used: Use,
    /// Per task, accesses per nanosecond and their mean latency.
    rates: Vec<f64>,
    latencies: Vec<f64>,
    /// Largest difference left between the use that was assumed and the use that follows from it.
    residual: f64,
    /// Rounds it took.
    rounds: u32,
}

impl Congestion {
    /// Accesses per nanosecond of each task, those that its caches answer included.
    #[must_use]
    pub fn rates(&self) -> &[f64] {
        &self.rates
    }

    /// Latency of a task's accesses to memory, on average.
    #[must_use]
    pub fn task_latency_ns(&self, task: usize) -> f64 {
        self.latencies[task]
    }

    fn at_rest(nodes: usize, tasks: usize) -> Self {
        Self {
            nodes,
            latency_ns: vec![0.0; nodes * nodes],
            transfer_ns: vec![0.0; nodes * nodes],
            used: Use::none(nodes),
            rates: vec![0.0; tasks],
            latencies: vec![0.0; tasks],
            residual: 0.0,
            rounds: 0,
        }
    }

    /// How long an access takes to be answered, those that a task's own caches answer included.
    fn wait_ns(&self, load: &TaskLoad<'_>) -> f64 {
        let row = load.node * self.nodes..(load.node + 1) * self.nodes;
        let memory = dot(load.shares, &self.latency_ns[row.clone()]);
        memory + dot(load.transfers, &self.transfer_ns[row])
    }
}

/// Share of what a controller gives up to which it is not busy: at half of it an access waits less
/// than 4 % longer (see [`queue`]), nothing that a placement could be judged by.
pub const BUSY: f64 = 0.5;

/// Waiting time at a resource of which `used` is used, in units of the idle latency.
///
/// `u^3 / (7 (1 - u))`: Sakasegawa's approximation for a queue before seven servers, whose exponent
/// `sqrt(2 * (7 + 1)) - 1` is whole. A controller serves several channels and banks at a time, so it
/// is nearly flat until two thirds (5 % at 0.6), doubles the latency at 0.9, and has no bound near 1,
/// as loaded-latency curves of real controllers do.
#[must_use]
pub fn queue(used: f64) -> f64 {
    let used = used.clamp(0.0, USE_MAX);
    used * used * used / (SERVERS * (1.0 - used))
}

/// Servers of a queue; see [`queue`].
const SERVERS: f64 = 7.0;

/// Nearest to saturation that is computed with: there the latency is 143,000 times the idle one,
/// so that demand 100,000 times the bandwidth is still brought down to it.
const USE_MAX: f64 = 1.0 - 1e-6;

/// Rounds after which the answer is taken as it is. The tests ask that the hardest of many random
/// loads takes less than half as many.
const ROUNDS_MAX: u32 = 300;

/// Difference of uses below which they agree; two digits more than anything printed.
const AGREED: f64 = 1e-5;

/// Least time between two accesses of a task, so that one that neither thinks nor waits is finite.
const ACCESS_TIME_MIN_NS: f64 = 0.1;

/// Finds where demand and latency agree, beside what others take of the controllers.
///
/// # Panics
/// When a task's node or shares do not fit the model.
#[must_use]
pub fn solve(model: &MachineModel, loads: &[TaskLoad<'_>]) -> Congestion {
    let nodes = model.nodes();
    for load in loads {
        assert!(load.node < nodes, "node position out of range");
        assert_eq!(load.shares.len(), nodes, "one share for each node");
        assert_eq!(load.transfers.len(), nodes, "one transfer for each node");
    }
    let mut state = Congestion::at_rest(nodes, loads.len());
    let mut follows = Use::none(nodes);
    demand(model, loads, &mut state, &mut follows);
    state.residual = follows.difference(&state.used);
    while state.residual > AGREED && state.rounds < ROUNDS_MAX {
        state.rounds += 1;
        step(&mut state.used.controllers, &follows.controllers);
        step(&mut state.used.links, &follows.links);
        demand(model, loads, &mut state, &mut follows);
        state.residual = follows.difference(&state.used);
    }
    state
}

/// How long each task waits for one access when each makes so many in a nanosecond.
pub(super) fn waits_ns(model: &MachineModel, loads: &[TaskLoad<'_>], rates: &[f64]) -> Vec<f64> {
    let nodes = model.nodes();
    let mut state = Congestion::at_rest(nodes, loads.len());
    follow(model, loads, rates, &mut state.used);
    latencies(model, &mut state);
    loads.iter().map(|load| state.wait_ns(load)).collect()
}

/// One number for each controller and each link.
#[derive(Clone, Debug, PartialEq)]
struct Use {
    controllers: Vec<f64>,
    links: Vec<f64>,
    /// Bytes per nanosecond between caches; only needed on the way to `links`.
    transfers: Vec<f64>,
}

impl Use {
    fn none(nodes: usize) -> Self {
        Self {
            controllers: vec![0.0; nodes],
            links: vec![0.0; nodes * nodes],
            transfers: vec![0.0; nodes * nodes],
        }
    }

    fn difference(&self, assumed: &Self) -> f64 {
        let controllers = self.controllers.iter().zip(&assumed.controllers);
        let links = self.links.iter().zip(&assumed.links);
        let both = controllers.chain(links);
        let apart = both.map(|(follows, assumed)| (follows - assumed).abs());
        apart.fold(0.0, f64::max)
    }
}

/// Goes to the use that would agree if tasks waited at that one resource only.
///
/// Then demand falls as the latency `1 + queue` rises, and `use * (1 + queue)` stays what it is now,
/// which [`use_at`] solves. Tasks that also wait elsewhere react less, so that a step falls short
/// and never runs away; plain repetition would jump between no use and saturation.
fn step(used: &mut [f64], follows: &[f64]) {
    for (used, follows) in used.iter_mut().zip(follows) {
        *used = use_at(follows * (1.0 + queue(*used)), *used);
    }
}

/// The use at which `use * (1 + queue(use))` is `open`, searched from a guess.
///
/// Times `SERVERS * (1 - use)` that is where `SERVERS * (use - open) * (1 - use) + use^4` is zero. This
/// rises and bends downwards up to its zero, so that Newton's steps come from below after the first,
/// wherever they started, and never go past it.
fn use_at(open: f64, guess: f64) -> f64 {
    // Most links of a large machine carry nothing.
    if open <= 0.0 {
        return 0.0;
    }
    let most = open.min(USE_MAX);
    let mut used = guess.min(most);
    for _ in 0..NEWTON_STEPS {
        let cube = used * used * used;
        let excess = SERVERS * (used - open) * (1.0 - used) + cube * used;
        let slope = SERVERS * (1.0 + open - 2.0 * used) + 4.0 * cube;
        let next = (used - excess / slope).clamp(0.0, most);
        let moved = (next - used).abs();
        used = next;
        if moved < AGREED / 1000.0 {
            break;
        }
    }
    used
}

/// Bound of the search in [`use_at`], which ends after two to six steps in practice.
const NEWTON_STEPS: u32 = 32;

/// The latencies that follow from the use assumed in `state`, the rates that follow from those, and
/// the use that follows from these.
fn demand(model: &MachineModel, loads: &[TaskLoad<'_>], state: &mut Congestion, follows: &mut Use) {
    latencies(model, state);
    for (task, load) in loads.iter().enumerate() {
        let wait = state.wait_ns(load);
        let reached = load.shares.iter().sum::<f64>() + load.transfers.iter().sum::<f64>();
        let time = load.think_ns + wait / load.overlap.max(1.0);
        state.rates[task] = load.running / time.max(ACCESS_TIME_MIN_NS);
        state.latencies[task] = if reached > 0.0 { wait / reached } else { 0.0 };
    }
    follow(model, loads, &state.rates, follows);
}

/// The use that follows from rates.
fn follow(model: &MachineModel, loads: &[TaskLoad<'_>], rates: &[f64], follows: &mut Use) {
    let nodes = model.nodes();
    follows.links.fill(0.0);
    follows.transfers.fill(0.0);
    for (load, rate) in loads.iter().zip(rates) {
        let row = load.node * nodes..(load.node + 1) * nodes;
        let traffic = rate * ACCESS_BYTES;
        add(&mut follows.links[row.clone()], load.shares, traffic);
        add(&mut follows.transfers[row], load.transfers, traffic);
    }
    for (memory, used) in follows.controllers.iter_mut().enumerate() {
        *used = model.background_gbps(memory) / model.controller_gbps(memory);
    }
    for from in 0..nodes {
        for to in 0..nodes {
            let link = from * nodes + to;
            follows.controllers[to] += follows.links[link] / model.controller_gbps(to);
            follows.links[link] = if from == to {
                0.0
            } else {
                (follows.links[link] + follows.transfers[link]) / model.link_gbps(from, to)
            };
        }
    }
}

fn latencies(model: &MachineModel, state: &mut Congestion) {
    let nodes = state.nodes;
    let used = state.used.controllers.iter();
    let waits: Vec<f64> = used.map(|&used| queue(used)).collect();
    for from in 0..nodes {
        for (to, wait) in waits.iter().enumerate() {
            let link = from * nodes + to;
            let base = model.latency_ns(from, to);
            let crossing = queue(state.used.links[link]);
            state.latency_ns[link] = base * (1.0 + wait + crossing);
            state.transfer_ns[link] = if from == to {
                base * TRANSFER_WITHIN
            } else {
                base * (1.0 + crossing)
            };
        }
    }
}

fn dot(shares: &[f64], latencies: &[f64]) -> f64 {
    shares.iter().zip(latencies).map(|(a, b)| a * b).sum()
}

fn add(sums: &mut [f64], shares: &[f64], factor: f64) {
    for (sum, share) in sums.iter_mut().zip(shares) {
        *sum += share * factor;
    }
}

/// A line from another core's cache on the same node, in units of the local memory latency: the
/// shared last-level cache of server processors answers in about 40 of 90 ns.
pub const TRANSFER_WITHIN: f64 = 0.45;

#[cfg(test)]
mod tests {
    use topology::{Figure, NodeId, Origin, Topology};

    use super::*;

    /// A machine with measured bandwidth in MB/s, row by row; 0 leaves the estimate.
    fn machine(text: &str, mbps: &[u64]) -> MachineModel {
        let topology = topology::synthetic::parse(text).unwrap();
        let ids: Vec<NodeId> = topology.nodes().iter().map(|node| node.id).collect();
        let mut graph = topology.bandwidth().clone();
        for (index, &value) in mbps.iter().enumerate() {
            let link = graph.link_mut(ids[index / ids.len()], ids[index % ids.len()]);
            link.read_mbps = Some(Figure {
                value,
                origin: Origin::Measured,
            });
        }
        let topology: Topology = topology.with_bandwidth(graph);
        MachineModel::new(&topology)
    }

    fn greedy(node: usize, shares: &[f64]) -> TaskLoad<'_> {
        TaskLoad {
            node,
            shares,
            transfers: &[0.0; 8][..shares.len()],
            think_ns: 0.0,
            overlap: 10.0,
            running: 1.0,
        }
    }

    #[test]
    fn the_use_is_found_from_any_guess() {
        for open in [1e-12, 0.001, 0.3, 0.66, 0.99, 1.0, 1.2, 3.0, 80.0, 1e4] {
            for guess in [0.0, 0.1, 0.5, 0.9, 0.999, USE_MAX] {
                let used = use_at(open, guess);
                let found = used * (1.0 + queue(used));
                // The steeper the queue, the coarser the product: one unit of use is worth this much.
                let slope = 1.0 + 1.0 / (SERVERS * (1.0 - used) * (1.0 - used));
                assert!(
                    (found - open).abs() < 1e-8 * slope,
                    "{open} from {guess}: {used}"
                );
            }
        }
        assert_eq!(use_at(0.0, 0.9).to_bits(), 0);
        assert_eq!(use_at(1e9, 0.5).to_bits(), USE_MAX.to_bits());
    }

    #[test]
    fn an_idle_machine_answers_at_its_base_latency() {
        let model = machine("2x8@10,20", &[]);
        let shares = [0.5, 0.5];
        let load = TaskLoad {
            think_ns: 1e6,
            ..greedy(0, &shares)
        };
        let found = solve(&model, &[load]);
        assert!((found.task_latency_ns(0) - 135.0).abs() < 0.01, "{found:?}");
        assert!(solve(&model, &[]).rates().is_empty());
    }

    #[test]
    fn no_demand_gets_more_than_the_bandwidth() {
        let model = machine("2x64@10,20", &[10_000; 4]);
        for tasks in [1, 2, 5, 20, 100, 1000] {
            let shares = [1.0, 0.0];
            let found = solve(&model, &vec![greedy(0, &shares); tasks]);
            let gbps = found.rates().iter().sum::<f64>() * ACCESS_BYTES;
            assert!(gbps < 10.0, "{tasks} tasks get {gbps} GB/s of 10");
            assert!(found.residual < 1e-4, "{tasks}: {}", found.residual);
            if tasks >= 5 {
                assert!(gbps > 9.0, "{tasks} tasks get only {gbps} GB/s of 10");
            }
        }
    }

    /// PTB 4.3: eight threads, all memory on their node, then more and more of it spread over the
    /// three others.
    #[test]
    fn bandwidth_rises_until_two_thirds_are_moved_away_and_falls_after() {
        // PTB's machine: 4 GB/s locally, and 2.8 to 3.9 elsewhere.
        let figures = [
            4000, 3930, 2820, 2800, 2820, 4000, 2800, 3930, 3930, 2820, 4000, 2800, 2820, 3930,
            2820, 4000,
        ];
        check_rise_and_fall(&machine("4x8@10,16", &figures), 60..=70);
        // Estimates make remote memory a little slower than it is on that machine (0.63 of local
        // instead of 0.7 to 0.98), so that the turn comes a little earlier.
        check_rise_and_fall(&machine("4x8@10,16", &[]), 55..=60);
    }

    #[track_caller]
    fn check_rise_and_fall(model: &MachineModel, turn: std::ops::RangeInclusive<usize>) {
        let bandwidth: Vec<f64> = (0..=20)
            .map(|percent| f64::from(percent) * 0.05)
            .map(|away| {
                let shares = [1.0 - away, away / 3.0, away / 3.0, away / 3.0];
                solve(model, &[greedy(0, &shares); 8])
                    .rates()
                    .iter()
                    .sum::<f64>()
                    * ACCESS_BYTES
            })
            .collect();
        let best = (0..bandwidth.len())
            .max_by(|&a, &b| bandwidth[a].total_cmp(&bandwidth[b]))
            .unwrap();
        assert!(
            turn.contains(&(best * 5)),
            "best at {} %: {bandwidth:?}",
            best * 5
        );
        assert!(
            bandwidth[..=best].is_sorted() && bandwidth[best..].iter().rev().is_sorted(),
            "{bandwidth:?}"
        );
        assert!(bandwidth[best] > bandwidth[0] * 1.3, "{bandwidth:?}");
        assert!(bandwidth[best] > bandwidth[20] * 1.05, "{bandwidth:?}");
    }

    /// The dissertation, 2.4.4 and 3.4.1.2: keeping everything together is best while the controller
    /// has bandwidth to spare, and loses to spreading when it has not.
    #[test]
    fn locality_loses_to_balance_when_controllers_saturate() {
        let model = machine("4x8@10,21", &[]);
        let together = |think_ns| throughput_of(&model, think_ns, &[0; 8]);
        let spread = |think_ns| throughput_of(&model, think_ns, &[0, 0, 1, 1, 2, 2, 3, 3]);
        assert!(together(400.0) > spread(400.0) * 1.005);
        assert!(spread(0.0) > together(0.0) * 1.2);
    }

    /// Eight tasks: half of the accesses to its own pages, half to a partner's, pages where tasks are.
    fn throughput_of(model: &MachineModel, think_ns: f64, nodes: &[usize]) -> f64 {
        let shares: Vec<Vec<f64>> = (0..nodes.len())
            .map(|task| {
                let mut shares = vec![0.0; model.nodes()];
                shares[nodes[task]] += 0.5;
                // The partner three further is on another node whenever tasks are spread.
                shares[nodes[(task + 3) % nodes.len()]] += 0.5;
                shares
            })
            .collect();
        let loads: Vec<TaskLoad<'_>> = nodes
            .iter()
            .zip(&shares)
            .map(|(&node, shares)| TaskLoad {
                think_ns,
                ..greedy(node, shares)
            })
            .collect();
        solve(model, &loads).rates().iter().sum::<f64>()
    }

    /// PTB 4.1: 2.82 GB/s from node 2 to the memory of node 0, 3.93 GB/s the other way.
    #[test]
    fn one_direction_can_be_faster_than_the_other() {
        let model = machine("2x8@10,16", &[4000, 3930, 2820, 4000]);
        let (far, near) = ([0.0, 1.0], [1.0, 0.0]);
        let there = solve(&model, &[greedy(0, &far); 8])
            .rates()
            .iter()
            .sum::<f64>();
        let back = solve(&model, &[greedy(1, &near); 8])
            .rates()
            .iter()
            .sum::<f64>();
        assert!((1.35..1.45).contains(&(there / back)), "{}", there / back);
    }

    #[test]
    fn transfers_cross_links_and_leave_controllers_alone() {
        let model = machine("2x8@10,20", &[40_000, 5_000, 5_000, 40_000]);
        let talk = |transfers| TaskLoad {
            transfers,
            ..greedy(0, &[0.0, 0.0])
        };
        let within = solve(&model, &[talk(&[1.0, 0.0]); 8]);
        assert!((within.task_latency_ns(0) - 90.0 * TRANSFER_WITHIN).abs() < 1e-9);
        let across = solve(&model, &[talk(&[0.0, 1.0]); 8]);
        let gbps = across.rates().iter().sum::<f64>() * ACCESS_BYTES;
        assert!((4.5..5.0).contains(&gbps), "{gbps}");
        assert!(across.used.links[1] > 0.9 && across.used.controllers[1] <= 0.0);
    }

    /// Random machines and loads, from a small generator of our own: the rounds converge, and the
    /// answer is one that follows from itself.
    #[test]
    fn demand_and_latency_agree_in_the_end() {
        let mut state = 1_u64;
        let mut next = |limit: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 33) % limit
        };
        let mut most = 0;
        for case in 0..200 {
            let mbps: Vec<u64> = (0..16).map(|_| 500 + next(60_000)).collect();
            let model = machine("4x16@10,21", &mbps);
            let tasks = 1 + next(200);
            let shares: Vec<[f64; 4]> = (0..tasks)
                .map(|_| [next(10), next(10), next(10), 1 + next(10)].map(|part| part as f64))
                .map(|parts| parts.map(|part| part / parts.iter().sum::<f64>()))
                .collect();
            let loads: Vec<TaskLoad<'_>> = shares
                .iter()
                .map(|shares| TaskLoad {
                    think_ns: next(100) as f64,
                    overlap: 1.0 + next(20) as f64,
                    ..greedy(usize::try_from(next(4)).unwrap(), shares)
                })
                .collect();
            let found = solve(&model, &loads);
            assert!(found.residual <= 1e-5, "case {case}: {}", found.residual);
            most = most.max(found.rounds);
        }
        assert!(most < ROUNDS_MAX / 2, "{most} rounds");
    }

    /// Others take 70 % of a controller; what is left is worth less than a remote one that is idle.
    #[test]
    fn others_at_a_controller_make_it_slow_and_leave_the_rest() {
        let model = machine("2x8@10,16", &[20_000; 4]);
        let shares = [1.0, 0.0];
        let away = [0.0, 1.0];
        let run = |model: &MachineModel, shares| solve(model, &[greedy(0, shares); 3]);
        let alone = run(&model, &shares).rates().iter().sum::<f64>();
        let busy = model.with_background(&[19.0, 0.0]);
        let crowded = run(&busy, &shares);
        assert!(crowded.residual < 1e-4, "{}", crowded.residual);
        assert!(crowded.used.controllers[0] < 1.0 && crowded.used.controllers[0] > 0.95);
        assert!(crowded.rates().iter().sum::<f64>() < alone * 0.6);
        assert!(
            run(&busy, &away).rates().iter().sum::<f64>()
                > crowded.rates().iter().sum::<f64>() * 1.3
        );
    }
}
