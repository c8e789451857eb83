//! Ranks to machines, nodes, caches and cores.

use control::plan::{FORMAT, Level, Machine, Place, Plan};
use control::{ErrorKind, Failure};
use numad_core::CommMatrix;
use policies::kernel::{Edges, Effort, Problem, Workspace, map};
use policies::offline::Pair;
use topology::distance::LOCAL;
use topology::{CpuSet, Topology};

use crate::{Method, Work};

/// Distance between nodes of two machines. No two nodes of one machine are farther apart than 255.
pub const BETWEEN_MACHINES: u32 = 1000;

/// Distance between two last-level caches of a node, as the engine has it within nodes.
const ACROSS: u32 = LOCAL + 6;

/// A machine that takes ranks or threads.
#[derive(Clone, Debug)]
pub struct Site {
    /// As it was named.
    pub name: String,
    /// What it is.
    pub topology: Topology,
}

/// Tasks of a machine, node or cache, and its cores.
type Room = (Vec<usize>, Vec<usize>);

/// A core that takes a rank or thread.
#[derive(Clone, Debug)]
struct Core {
    machine: usize,
    /// Position of its node in the machine.
    node: usize,
    place: Place,
}

/// Plans a run.
///
/// # Errors
/// When there are more ranks or threads than cores, or threads are to go to several machines.
pub fn plan(work: &Work, sites: &[Site], level: Level, method: Method) -> Result<Plan, Failure> {
    if level == Level::Thread && sites.len() > 1 {
        let text = format!(
            "threads of one program run on one machine, `{}` are named",
            sites.len()
        );
        return Err(Failure::new(ErrorKind::Usage, text)
            .remedy("name one with `--machine`, or plan for ranks with `--level message`"));
    }
    let mut cores = Vec::new();
    for (machine, site) in sites.iter().enumerate() {
        cores.extend(cores_of(&site.topology, machine));
    }
    let matrix = &work.matrix;
    let tasks = matrix.count();
    if tasks > cores.len() {
        let text = format!(
            "there are `{tasks}` {}s, the machines have `{}` usable cores",
            level.word(),
            cores.len()
        );
        let remedy = match level {
            Level::Message => {
                "name more machines with `--machine FILE,FILE`, or plan a run of fewer"
            }
            Level::Thread => "name a larger machine with `--machine`, or plan a run of fewer",
        };
        return Err(Failure::new(ErrorKind::Usage, text).remedy(remedy));
    }
    let priced = |seats: &[usize]| cost(matrix, sites, &cores, seats);
    let in_order: Vec<usize> = (0..tasks).collect();
    let cost_before = priced(&in_order);
    let dealt = match method {
        Method::Fixed => in_order.clone(),
        method => deal(work, sites, &cores, method)?,
    };
    let cost_dealt = priced(&dealt);
    let (seats, cost_after) = match method == Method::Locality && cost_dealt >= cost_before {
        true => (in_order, cost_before),
        false => (dealt, cost_dealt),
    };
    Ok(Plan {
        format: FORMAT,
        made_by: format!("numadctl {}", env!("CARGO_PKG_VERSION")),
        policy: method.name().to_owned(),
        level,
        machines: sites.iter().map(machine_of).collect(),
        places: seats
            .iter()
            .map(|&core| cores[core].place.clone())
            .collect(),
        cost_before,
        cost_after,
    })
}

/// How a plan tells of a machine.
fn machine_of(site: &Site) -> Machine {
    let topology = &site.topology;
    Machine {
        name: site.name.clone(),
        fingerprint: topology.fingerprint().to_string(),
        nodes: number(topology.nodes().len()),
        cores: number(topology.logical_cores().len()),
        cpus: number(topology.online().len()),
    }
}

/// The cores of a machine that take anything, in hwloc's order.
fn cores_of(topology: &Topology, machine: usize) -> Vec<Core> {
    let usable = topology.usable();
    let all = topology.logical_cores().into_iter().enumerate();
    all.filter_map(|(core, cpus)| {
        let cpus = cpus.intersection(&usable);
        let node = topology.node_of(cpus.first()?)?;
        let place = Place {
            machine: number(machine),
            node: node.into(),
            core: number(core),
            cpus: cpus.iter().map(u32::from).collect(),
        };
        let node = topology.position(node)?;
        Some(Core {
            machine,
            node,
            place,
        })
    })
    .collect()
}

/// What all pairs say times the distance of their nodes, as the mapping kernel counts it.
fn cost(matrix: &CommMatrix, sites: &[Site], cores: &[Core], seats: &[usize]) -> u64 {
    let far = |one: &Core, other: &Core| match one.machine == other.machine {
        true => {
            let distances = sites[one.machine].topology.distances();
            let there = u64::from(distances.between(one.node, other.node));
            there + u64::from(distances.between(other.node, one.node))
        }
        false => 2 * u64::from(BETWEEN_MACHINES),
    };
    let twice = matrix.pairs().fold(0_u128, |sum, (one, other, amount)| {
        let far = far(&cores[seats[one]], &cores[seats[other]]);
        sum.saturating_add(u128::from(amount) * u128::from(far))
    });
    u64::try_from(twice / 2).unwrap_or(u64::MAX)
}

/// The core of each task.
fn deal(
    work: &Work,
    sites: &[Site],
    cores: &[Core],
    method: Method,
) -> Result<Vec<usize>, Failure> {
    let mut seats = vec![0; work.matrix.count()];
    let everything: Vec<usize> = (0..cores.len()).collect();
    if !matches!(method, Method::Deloc | Method::Locality) {
        for (tasks, its_cores) in by_look(work, sites, cores, method)? {
            for (task, core) in tasks.into_iter().zip(its_cores) {
                seats[task] = core;
            }
        }
        return Ok(seats);
    }
    let all: Vec<usize> = (0..work.matrix.count()).collect();
    let far = apart(sites.len(), BETWEEN_MACHINES);
    let by_site = groups(&everything, sites.len(), |core| cores[core].machine);
    for (site, room) in sites.iter().zip(split(&work.matrix, &all, &far, by_site)?) {
        let topology = &site.topology;
        let nodes = topology.nodes();
        let rooms = match method {
            Method::Deloc => by_groups(work, topology, cores, room),
            _ => by_distance(work, topology, cores, room)?,
        };
        for (node, (tasks, its_cores)) in nodes.iter().zip(rooms) {
            let caches = topology.caches_within(node);
            let cache_of = |core: usize| cache(&caches, &cores[core].place);
            let by_cache = groups(&its_cores, caches.len() + 1, cache_of);
            let near = apart(caches.len() + 1, ACROSS);
            for (tasks, its_cores) in split(&work.matrix, &tasks, &near, by_cache)? {
                for (task, core) in tasks.into_iter().zip(its_cores) {
                    seats[task] = core;
                }
            }
        }
    }
    Ok(seats)
}

/// Tasks of a machine to its nodes by their distances.
fn by_distance(
    work: &Work,
    topology: &Topology,
    cores: &[Core],
    (tasks, its_cores): Room,
) -> Result<Vec<Room>, Failure> {
    let nodes = topology.nodes().len();
    let rows = (0..nodes).map(|from| topology.distances().row(from));
    let table = rows.collect::<Vec<_>>().concat();
    let by_node = groups(&its_cores, nodes, |core| cores[core].node);
    split(&work.matrix, &tasks, &table, by_node)
}

/// Tasks of a machine to its nodes by `DeLocMap`, for what they say among each other.
fn by_groups(
    work: &Work,
    topology: &Topology,
    cores: &[Core],
    (tasks, its_cores): Room,
) -> Vec<Room> {
    let by_node = groups(&its_cores, topology.nodes().len(), |core| cores[core].node);
    let mut position = vec![None; work.matrix.count()];
    for (at, &task) in tasks.iter().enumerate() {
        position[task] = Some(at);
    }
    let within = |group: &Vec<Pair>| -> Vec<Pair> {
        let pairs = group.iter();
        let here = pairs
            .filter_map(|&(low, high, amount)| Some((position[low]?, position[high]?, amount)));
        here.collect()
    };
    let talk: Vec<Vec<Pair>> = work.groups.iter().map(within).collect();
    let capacity: Vec<usize> = by_node.iter().map(Vec::len).collect();
    let nodes = policies::offline::deloc_map(tasks.len(), &talk, &capacity);
    seated(&tasks, &nodes, by_node)
}

/// Tasks to the nodes of all machines, as one list, by a policy that places by order or sums.
fn by_look(
    work: &Work,
    sites: &[Site],
    cores: &[Core],
    method: Method,
) -> Result<Vec<Room>, Failure> {
    let mut starts = vec![0];
    for site in sites {
        starts.push(starts[starts.len() - 1] + site.topology.nodes().len());
    }
    let everything: Vec<usize> = (0..cores.len()).collect();
    let by_node = groups(&everything, starts[sites.len()], |core| {
        starts[cores[core].machine] + cores[core].node
    });
    let capacity: Vec<usize> = by_node.iter().map(Vec::len).collect();
    let name = method.name();
    let impossible = |why: String| {
        Failure::new(
            ErrorKind::Internal,
            format!("policy `{name}` does not place: {why}"),
        )
    };
    let topology = &sites
        .first()
        .ok_or_else(|| impossible("there is no machine".to_owned()))?
        .topology;
    let nodes = policies::offline::at_first_look(name, topology, &work.matrix, &capacity);
    let nodes = nodes.map_err(|error| impossible(error.to_string()))?;
    let nodes = nodes.ok_or_else(|| impossible("it needs a running program".to_owned()))?;
    let tasks: Vec<usize> = (0..work.matrix.count()).collect();
    Ok(seated(&tasks, &nodes, by_node))
}

/// The rooms with the tasks that a list of nodes puts there.
fn seated(tasks: &[usize], nodes: &[Option<usize>], rooms: Vec<Vec<usize>>) -> Vec<Room> {
    let mut rooms: Vec<Room> = rooms.into_iter().map(|cores| (Vec::new(), cores)).collect();
    for (&task, node) in tasks.iter().zip(nodes) {
        // There are as many cores as tasks, so each has a node.
        if let Some(node) = *node {
            rooms[node].0.push(task);
        }
    }
    rooms
}

/// Which cache a place is at; behind the last where it is at none.
fn cache(caches: &[&CpuSet], place: &Place) -> usize {
    let has = |set: &&CpuSet| place.cpus.iter().any(|&cpu| set.contains(cpu.into()));
    caches.iter().position(has).unwrap_or(caches.len())
}

/// A table of rooms that are all as far from each other.
fn apart(rooms: usize, distance: u32) -> Vec<u32> {
    let cell = |at: usize| match at / rooms == at % rooms {
        true => LOCAL,
        false => distance,
    };
    (0..rooms * rooms).map(cell).collect()
}

/// Cores by the room that they are in.
fn groups(cores: &[usize], rooms: usize, room: impl Fn(usize) -> usize) -> Vec<Vec<usize>> {
    let mut groups = vec![Vec::new(); rooms];
    for &core in cores {
        groups[room(core)].push(core);
    }
    groups
}

/// Tasks to rooms, with the cores of each.
fn split(
    matrix: &CommMatrix,
    tasks: &[usize],
    distance: &[u32],
    rooms: Vec<Vec<usize>>,
) -> Result<Vec<Room>, Failure> {
    let mut within = Vec::new();
    for (one, &task) in tasks.iter().enumerate() {
        for (other, &partner) in tasks.iter().enumerate().skip(one + 1) {
            let amount = matrix.between(task, partner);
            if amount > 0 {
                within.push((number(one), number(other), amount));
            }
        }
    }
    let edges = Edges::from_pairs(tasks.len(), &within);
    let capacity: Vec<u32> = rooms.iter().map(|room| number(room.len())).collect();
    let problem = problem(&edges, distance, &capacity)?;
    let mut workspace = Workspace::default();
    let mapping = map(&problem, Effort::THOROUGH, &mut workspace);
    let mut split: Vec<Room> = rooms.into_iter().map(|room| (Vec::new(), room)).collect();
    for (&task, &room) in tasks.iter().zip(mapping) {
        split[usize::from(room)].0.push(task);
    }
    Ok(split)
}

fn problem<'a>(
    edges: &'a Edges,
    distance: &'a [u32],
    capacity: &'a [u32],
) -> Result<Problem<'a>, Failure> {
    Problem::new(edges, distance, capacity).map_err(|error| {
        Failure::new(
            ErrorKind::Internal,
            format!("the mapping is not possible: {error}"),
        )
    })
}

fn number(position: usize) -> u32 {
    u32::try_from(position).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::{Strategy, any, proptest};
    use topology::load_text;

    use super::*;

    fn sites(specs: &[&str]) -> Vec<Site> {
        let site = |spec: &&str| Site {
            name: (*spec).to_owned(),
            topology: load_text(spec, "test").unwrap(),
        };
        specs.iter().map(site).collect()
    }

    /// Each on a core of its own that is there, and not worse than core by core.
    #[track_caller]
    fn holds(plan: &Plan, matrix: &CommMatrix, sites: &[Site]) {
        assert_eq!(plan.places.len(), matrix.count());
        let mut taken = BTreeSet::new();
        for place in &plan.places {
            let topology = &sites[place.machine as usize].topology;
            assert!(
                taken.insert((place.machine, place.core)),
                "one core for two"
            );
            let core = &topology.logical_cores()[place.core as usize];
            let cpus: CpuSet = place.cpus.iter().map(|&cpu| cpu.into()).collect();
            assert!(!cpus.is_empty() && cpus.is_subset(core));
            let node = topology.node_of(cpus.first().unwrap()).unwrap();
            assert_eq!(u32::from(node), place.node);
        }
        if plan.policy == "locality" {
            assert!(plan.cost_after <= plan.cost_before);
        }
    }

    /// By sums alone, as before a run of which no times are known.
    fn near(matrix: &CommMatrix, sites: &[Site], level: Level) -> Result<Plan, Failure> {
        plan(
            &Work::of_matrix(matrix.clone()),
            sites,
            level,
            Method::Locality,
        )
    }

    fn machines() -> impl Strategy<Value = Vec<&'static str>> {
        let one = proptest::sample::select(vec![
            "1x2",
            "2x4@10,21",
            "4x2x2@10,21",
            "2x3+1",
            "3x2@10,12,40;12,10,40;40,40,10",
        ]);
        proptest::collection::vec(one, 1..4)
    }

    proptest! {
        #[test]
        fn every_rank_has_a_core(specs in machines(), seed in any::<u64>(), share in 1..=100_usize) {
            let sites = sites(&specs);
            let room: usize = sites.iter().map(|site| site.topology.logical_cores().len()).sum();
            let tasks = (room * share).div_ceil(100);
            let mut matrix = CommMatrix::new(tasks);
            let mut state = seed;
            for one in 0..tasks {
                for other in 0..one {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    matrix.add(one, other, (state >> 33) % 7);
                }
            }
            let work = Work::of_matrix(matrix.clone());
            for name in ["deloc", "locality", "fixed", "packed", "scatter", "balance"] {
                let method = Method::of(name).unwrap();
                let planned = plan(&work, &sites, Level::Message, method).unwrap();
                holds(&planned, &matrix, &sites);
                assert_eq!(planned, plan(&work, &sites, Level::Message, method).unwrap());
            }
        }
    }

    #[test]
    fn pairs_that_stand_apart_are_brought_together() {
        let sites = sites(&["2x2@10,21"]);
        let mut matrix = CommMatrix::new(4);
        matrix.add(0, 2, 100);
        matrix.add(1, 3, 100);
        let planned = near(&matrix, &sites, Level::Thread).unwrap();
        assert_eq!((planned.cost_before, planned.cost_after), (4200, 2000));
        assert_eq!(planned.places[0].node, planned.places[2].node);
    }

    #[test]
    fn talkers_share_a_machine_before_anything_else() {
        let sites = sites(&["1x2", "2x1@10,21"]);
        let mut matrix = CommMatrix::new(4);
        matrix.add(0, 3, 1000);
        matrix.add(1, 2, 1000);
        matrix.add(0, 1, 1);
        let planned = near(&matrix, &sites, Level::Message).unwrap();
        assert_eq!(planned.places[0].machine, planned.places[3].machine);
        assert_eq!(planned.places[1].machine, planned.places[2].machine);
        assert!(planned.cost_after < planned.cost_before);
    }

    #[test]
    fn more_ranks_than_cores_are_refused() {
        let failure = near(&CommMatrix::new(5), &sites(&["2x2@10,21"]), Level::Message);
        let failure = failure.unwrap_err();
        assert_eq!(failure.kind, ErrorKind::Usage);
        assert!(failure.message.contains("`5` ranks"), "{failure}");
    }

    #[test]
    fn threads_stay_on_one_machine() {
        let matrix = CommMatrix::new(4);
        let failure = near(&matrix, &sites(&["1x2", "1x2"]), Level::Thread).unwrap_err();
        assert_eq!(failure.kind, ErrorKind::Usage);
        assert!(failure.message.contains("one machine"), "{failure}");
        // What is advised where they are too many is a thing that can be done.
        let failure = near(&matrix, &sites(&["1x2"]), Level::Thread).unwrap_err();
        let advice = failure.to_string();
        assert!(advice.contains("a larger machine"), "{advice}");
        assert!(!advice.contains("more machines"), "{advice}");
    }

    /// Ranks of 64 that say as much to each as `amount` tells.
    fn of(amount: impl Fn(usize, usize) -> u64) -> CommMatrix {
        let mut matrix = CommMatrix::new(64);
        for one in 0..64 {
            for other in 0..one {
                matrix.add(one, other, amount(one, other));
            }
        }
        matrix
    }

    /// A hypercube as in CG, and neighbours in three dimensions as in AMG.
    #[test]
    fn patterns_of_real_programs_are_planned_no_worse_than_core_by_core() {
        let cube = of(|one, other| u64::from((one ^ other).count_ones() == 1) * 1000);
        let place = |rank: usize| [rank % 4, rank / 4 % 4, rank / 16];
        let grid = of(|one, other| {
            let (one, other) = (place(one), place(other));
            let far: usize = one
                .iter()
                .zip(other)
                .map(|(one, other)| one.abs_diff(other))
                .sum();
            1000 >> (3 * far)
        });
        let strided = of(|one, other| u64::from(one % 8 == other % 8) * 1000);
        let mut gained = 0;
        for matrix in [cube, grid, strided] {
            for specs in [
                &["8x8@10,21"][..],
                &["2x16@10,21", "2x16@10,21"],
                &["4x20x2@10,21"],
            ] {
                let sites = sites(specs);
                let planned = near(&matrix, &sites, Level::Message).unwrap();
                holds(&planned, &matrix, &sites);
                gained += usize::from(planned.cost_after < planned.cost_before);
            }
        }
        assert!(gained >= 3, "{gained}");
    }
}
