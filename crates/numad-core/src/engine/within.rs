//! Which last-level cache of its node a thread gets: the question of nodes once more, on a smaller
//! machine.
//!
//! A node whose cores meet in several caches is itself a machine: its caches are the nodes, and a
//! line from another of them comes no sooner than from memory. Once it is known who is on the node,
//! a policy of the engine's own is asked about that machine, and what it wants is judged as any
//! plan of threads. Only threads that were placed on the node take part, and only for those who
//! seek a gain. What is not sure keeps the mask of the whole node.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use topology::distance::LOCAL;
use topology::{CpuSet, Node, NodeId, Parts, TaskKey, Topology};

use super::attachment::Attachment;
use super::judgement::Decision;
use super::options::Bind;
use super::orders::{TaskGrant, allowed_cpus};
use super::seen::program::Scratch;
use super::window::Context;
use crate::capacity::capacities;
use crate::cost::MachineModel;
use crate::guard::{Standing, TaskWish, ThreadCase, ThreadVerdicts, granted};
use crate::matrix::CommMatrix;
use crate::policy::{Accessor, Page, Policy, Program, Proposal, Reason, Task, Veto};
use crate::tables::tasks::{Bond, Record};

/// Nodes as machines, and who maps them.
#[derive(Debug)]
pub(super) struct Within {
    policy: Box<dyn Policy>,
    /// By position of the node; none where it has one last-level cache.
    machines: Vec<Option<Machine>>,
}

/// A node as a machine, and what its memory delivers.
#[derive(Debug)]
struct Machine {
    topology: Topology,
    model: MachineModel,
}

/// How far a line from another cache of the node is, where one from the own cache is as near as can
/// be: it takes as long as one from memory (see [`crate::cost`]), which is twice as long and a
/// little more.
const ACROSS: u32 = LOCAL + 6;

impl Within {
    /// None where every node has one last-level cache.
    pub(super) fn new(topology: &Topology, policy: Box<dyn Policy>) -> Option<Self> {
        let nodes = topology.nodes().iter();
        let machines: Vec<_> = nodes.map(|node| machine(topology, node)).collect();
        let any = machines.iter().any(Option::is_some);
        any.then_some(Self { policy, machines })
    }

    /// The processors of a node's cache.
    pub(super) fn cpus(&self, node: usize, cache: usize) -> Option<&CpuSet> {
        let machine = &self.machines.get(node)?.as_ref()?.topology;
        machine.nodes().get(cache).map(|cache| &cache.cpus)
    }

    /// Node and cache that a thread is bound to, else that it ran on last.
    pub(super) fn place_of(&self, record: &Record, topology: &Topology) -> Option<(usize, usize)> {
        let bound = record.binding();
        if let Some(place) = bound.and_then(|bound| Some((bound.node, bound.cache?))) {
            return Some(place);
        }
        let cpu = record.cpu?;
        let node = topology.position(topology.node_of(cpu)?)?;
        let machine = &self.machines.get(node)?.as_ref()?.topology;
        Some((node, machine.position(machine.node_of(cpu)?)?))
    }
}

/// The machine within a node.
fn machine(topology: &Topology, node: &Node) -> Option<Machine> {
    let caches = topology.caches_within(node);
    if caches.len() < 2 {
        return None;
    }
    let number = |index: usize| NodeId(u32::try_from(index).unwrap_or(u32::MAX));
    let nodes = caches.iter().enumerate().map(|(index, cpus)| Node {
        id: number(index),
        cpus: (*cpus).clone(),
        // Of no matter to threads, but a machine has some.
        memory_bytes: node.memory_bytes,
    });
    let cache_of = |cpu: &topology::Cpu| caches.iter().position(|cache| cache.contains(cpu.id));
    let cpus = topology
        .cpus()
        .iter()
        .filter(|cpu| node.cpus.contains(cpu.id));
    let cpus = cpus.map(|cpu| topology::Cpu {
        node: cache_of(cpu).map(number),
        ..cpu.clone()
    });
    let far = |one, other| if one == other { LOCAL } else { ACROSS };
    let row = |one: usize| (0..caches.len()).map(|other| far(one, other)).collect();
    let parts = Parts {
        nodes: nodes.collect(),
        cpus: cpus.collect(),
        distance_rows: (0..caches.len()).map(row).collect(),
        ..Parts::default()
    };
    let topology = Topology::new(parts).ok()?;
    let model = MachineModel::new(&topology);
    Some(Machine { topology, model })
}

impl Context<'_> {
    /// The part of a node's processors that a cache of it has; all of them where none is named, or
    /// nothing is left.
    pub(super) fn part_of(
        &self,
        whole: &CpuSet,
        (node, cache): (usize, Option<usize>),
    ) -> (Option<usize>, CpuSet) {
        let within = self.within.as_deref();
        let part = cache.and_then(|cache| within?.cpus(node, cache));
        let part = part.map(|cpus| whole.intersection(cpus));
        match part.filter(|part| !part.is_empty()) {
            Some(part) => (cache, part),
            None => (None, whole.clone()),
        }
    }
}

/// Threads of one node, as the machine within it sees them.
struct Guests<'a> {
    machine: &'a Topology,
    node: usize,
    /// Positions in the whole program.
    positions: Vec<usize>,
    tasks: Vec<Task>,
    standings: Vec<Standing>,
    capacity: Vec<usize>,
    /// The same without what others hold.
    cores: Vec<usize>,
}

impl Guests<'_> {
    /// What they say to each other.
    fn talk(&self, all: &CommMatrix) -> CommMatrix {
        let mut talk = CommMatrix::new(self.positions.len());
        for (rank, &one) in self.positions.iter().enumerate() {
            for (further, &other) in self.positions.iter().enumerate().skip(rank + 1) {
                talk.add(rank, further, all.between(one, other));
            }
        }
        talk
    }

    /// Drops what brings nobody together, for a cache for oneself is nothing but a narrow mask, and
    /// what is more than may go.
    fn keep_meetings(
        &self,
        (proposals, wishes): (&[Proposal], &[TaskWish]),
        said: &CommMatrix,
        verdicts: &mut [Result<(), Veto>],
        left: &mut usize,
    ) {
        let mut after: Vec<Option<usize>> = self.standings.iter().map(|it| it.placed).collect();
        granted(wishes, verdicts).for_each(|(task, cache)| after[task] = Some(cache));
        let meets = |task: usize, cache: usize| {
            let said = said.row(task).iter().zip(&after);
            said.enumerate()
                .any(|(other, (&said, &there))| other != task && said > 0 && there == Some(cache))
        };
        for ((proposal, &(task, cache)), verdict) in proposals.iter().zip(wishes).zip(verdicts) {
            if partner(proposal).is_none() || !meets(task, cache) {
                *verdict = Err(Veto::DoesNotPay);
            } else if verdict.is_ok() && *left == 0 {
                *verdict = Err(Veto::Budget);
            } else if verdict.is_ok() {
                *left -= 1;
            }
        }
    }

    /// Who is too many in caches that have fewer cores than threads are bound there, as after a
    /// change of a cpuset: those who say least to the others.
    fn too_many(&self, bound: &[Option<usize>], said: &CommMatrix) -> Vec<usize> {
        let mut leave = Vec::new();
        for (cache, &cores) in self.cores.iter().enumerate() {
            let of_cache = |task: &usize| bound[*task] == Some(cache);
            let mut there: Vec<usize> = (0..bound.len()).filter(of_cache).collect();
            if there.len() <= cores {
                continue;
            }
            let says = |task: usize| -> u64 {
                let row = said.row(task).iter().enumerate();
                let near = row.filter(|(other, _)| of_cache(other));
                near.map(|(_, said)| said).sum()
            };
            there.sort_by_cached_key(|&task| Reverse(says(task)));
            leave.extend(there.into_iter().skip(cores));
        }
        leave
    }

    /// Pages that several of them use.
    fn pages(&self, all: &[Page], count: usize) -> Vec<Page> {
        // Position among the guests, by position in the whole program.
        let mut ranks = vec![None; count];
        for (rank, &position) in (0u32..).zip(&self.positions) {
            ranks[position] = Some(rank);
        }
        all.iter().filter_map(|page| shared(page, &ranks)).collect()
    }
}

/// Who is to be met, and how much was said.
fn partner(proposal: &Proposal) -> Option<(TaskKey, u64)> {
    match proposal {
        Proposal::PlaceTask {
            reason: Reason::Partner { with, amount },
            ..
        } => Some((*with, *amount)),
        _ => None,
    }
}

/// A page as those see it who have a rank; none where fewer than two of them use it.
fn shared(page: &Page, ranks: &[Option<u32>]) -> Option<Page> {
    let mut part = *page;
    part.home = None;
    part.accessor_count = 0;
    for user in page.accessors() {
        if let Some(task) = ranks.get(user.task as usize).copied().flatten() {
            part.recent[usize::from(part.accessor_count)] = Accessor { task, ..*user };
            part.accessor_count += 1;
        }
    }
    if part.accessor_count < 2 {
        return None;
    }
    let (all, kept) = (page.weight().max(1), part.weight());
    let cut = |amount: u64| amount.saturating_mul(kept) / all;
    part.samples = u32::try_from(cut(page.samples.into())).unwrap_or(u32::MAX);
    part.forgotten = cut(page.forgotten);
    Some(part)
}

impl Attachment {
    /// Tasks that get another cache of the node that they are on after this decision, by position.
    pub(super) fn settle_within(
        &self,
        context: &mut Context<'_>,
        scratch: &Scratch,
        decision: &Decision,
    ) -> BTreeMap<usize, TaskGrant> {
        let mut rooms = BTreeMap::new();
        let Some(within) = context.within.take() else {
            return rooms;
        };
        let Within { policy, machines } = &mut *within;
        let moves_max = self.options.task_moves_max;
        let mut left = moves_max.saturating_sub(decision.threads.len());
        if self.options.bind != Bind::Node && self.options.require_gain {
            for (node, machine) in machines.iter().enumerate() {
                let Some(machine) = machine else { continue };
                let guests = self.guests(context, scratch, decision, (node, &machine.topology));
                if guests.tasks.len() > 1 {
                    rooms.append(&mut self.ask_within(
                        context,
                        scratch,
                        (&guests, &machine.model, decision),
                        (&mut **policy, &mut left),
                    ));
                }
            }
        }
        context.within = Some(within);
        rooms
    }

    /// Who is placed on a node after this decision.
    fn guests<'a>(
        &self,
        context: &Context<'_>,
        scratch: &Scratch,
        decision: &Decision,
        (node, machine): (usize, &'a Topology),
    ) -> Guests<'a> {
        let (mut positions, mut tasks, mut standings) = (Vec::new(), Vec::new(), Vec::new());
        let caches = &context.others.caches;
        let held = |cache| caches.get(&(node, cache)).copied().unwrap_or(0);
        let count = machine.nodes().len();
        let mut held: Vec<usize> = (0..count).map(held).collect();
        let granted = decision
            .threads
            .iter()
            .map(|grant| (grant.position, grant.node));
        let granted: BTreeMap<usize, usize> = granted.collect();
        let mut allowed = CpuSet::new();
        for (position, (&slot, task)) in scratch.slots.iter().zip(&scratch.tasks).enumerate() {
            let Some(record) = self.seen.record(slot) else {
                continue;
            };
            let ran = || machine.position(machine.node_of(record.cpu?)?);
            if matches!(record.bond, Bond::HandsOff) {
                ran().into_iter().for_each(|cache| held[cache] += 1);
                continue;
            }
            let placed = granted.get(&position).copied().or_else(|| record.placed());
            if placed != Some(node) {
                continue;
            }
            let cpus = allowed_cpus(record, &context.usable);
            let binding = record.binding().filter(|binding| binding.node == node);
            let bound = binding.and_then(|binding| binding.cache);
            let caches = machine.nodes().iter();
            positions.push(position);
            tasks.push(Task {
                node: bound.or_else(ran),
                allowed: caches.map(|cache| cache.cpus.intersects(&cpus)).collect(),
                ..task.clone()
            });
            standings.push(Standing {
                placed: bound,
                held: !record.stay_within.is_over(context.now),
                ..Standing::default()
            });
            allowed = allowed.union(&cpus);
        }
        Guests {
            machine,
            node,
            capacity: capacities(machine, &allowed, &held, tasks.len()),
            cores: capacities(machine, &allowed, &vec![0; count], tasks.len()),
            positions,
            tasks,
            standings,
        }
    }

    /// What becomes of the wishes for the machine within a node.
    fn ask_within(
        &self,
        context: &Context<'_>,
        scratch: &Scratch,
        (guests, model, decision): (&Guests<'_>, &MachineModel, &Decision),
        (policy, left): (&mut dyn Policy, &mut usize),
    ) -> BTreeMap<usize, TaskGrant> {
        let (live, decayed) = (guests.talk(&scratch.live), guests.talk(&scratch.decayed));
        let pages = guests.pages(&scratch.pages, scratch.tasks.len());
        let seen = |tasks: &[Task]| tasks.iter().map(|task| task.samples).sum::<u64>();
        let all = seen(&scratch.tasks).max(1);
        let mut program = Program {
            topology: guests.machine,
            model,
            tasks: &guests.tasks,
            capacity: &guests.capacity,
            free_bytes: &vec![0; guests.capacity.len()],
            live: &live,
            decayed: &decayed,
            pages: &pages,
            records: &[],
            samples: scratch.samples.saturating_mul(seen(&guests.tasks)) / all,
            handed: None,
            ..scratch.program(context, self.options.prices)
        };
        program.prices = self.prices(&program);
        let mut proposals = Vec::new();
        policy.propose(context.now, &program, &mut proposals);
        let wishes: Vec<TaskWish> = proposals.iter().filter_map(Proposal::place).collect();
        let case = ThreadCase {
            program: &program,
            standings: &guests.standings,
            options: &self.options,
            evidence: decision.evidence,
            reverting: false,
            agreed: true,
            pressure: None,
            said: &guests.talk(&scratch.said),
            weighed: &[],
        };
        let ThreadVerdicts {
            mut each,
            each_sure,
            ..
        } = case.judge(&wishes);
        let plan = (&proposals[..], &wishes[..]);
        guests.keep_meetings(plan, &decayed, &mut each, left);
        // Who was to make room and stays keeps others out.
        case.make_room(&wishes, &mut each);
        let judged = proposals.iter().zip(&wishes).zip(&each);
        let mut bound: Vec<_> = guests.standings.iter().map(|it| it.placed).collect();
        granted(&wishes, &each).for_each(|(task, cache)| bound[task] = Some(cache));
        let meet = judged.filter_map(|((proposal, &(task, cache)), verdict)| {
            let (with, amount) = partner(proposal).filter(|_| verdict.is_ok())?;
            let sure = each_sure.get(task).copied().flatten();
            Some((task, Some(cache), Reason::Cache { with, amount }, sure))
        });
        let leave = guests.too_many(&bound, &decayed).into_iter();
        let leave = leave.map(|task| (task, None, Reason::Crowded, None));
        let grant = |(task, cache, reason, evidence): (usize, _, _, _)| {
            let position = guests.positions[task];
            let grant = TaskGrant {
                position,
                node: guests.node,
                cache,
                from: Some(guests.node),
                reason,
                evidence,
            };
            (position, grant)
        };
        meet.chain(leave).map(grant).collect()
    }

    /// Orders tasks onto caches of the nodes that they are on already.
    pub(super) fn order_rooms(
        &mut self,
        context: &mut Context<'_>,
        slots: &[u32],
        rooms: BTreeMap<usize, TaskGrant>,
    ) {
        for (position, grant) in rooms {
            let slot = slots[position];
            let record = self.seen.record(slot);
            // Who could not leave is not asked in every window.
            let rests = record.is_some_and(|record| !record.stay.is_over(context.now));
            let waits = rests && grant.reason == Reason::Crowded;
            if record.and_then(Record::placed) == Some(grant.node) && !waits {
                self.order_bind(context, slot, grant);
            }
        }
    }
}
