//! A placement as a line for the tools that people have.

use std::collections::{BTreeMap, BTreeSet};

use control::rows::{AttachmentDetail, ThreadRow};
use control::{ErrorKind, Failure};
use topology::{CoreId, CpuId, CpuSet, NodeId, PackageId, Topology};

use crate::cli::Recipe;

/// A placement on a machine.
struct Placed<'a> {
    command: &'a str,
    topology: &'a Topology,
    /// Nodes of all threads that take part.
    nodes: BTreeSet<NodeId>,
    /// Nodes of each process, by ascending number: the first is rank 0.
    processes: BTreeMap<u32, BTreeSet<NodeId>>,
    /// The node of each thread that takes part, in the order in which they began.
    threads: Vec<NodeId>,
}

/// The recipe.
///
/// # Errors
/// When no thread was placed: where threads happen to run is no recipe.
pub fn text(
    detail: &AttachmentDetail,
    topology: &Topology,
    recipe: Recipe,
) -> Result<String, Failure> {
    let placed = Placed::of(detail, topology)?;
    Ok(match recipe {
        Recipe::Numactl => placed.numactl(),
        Recipe::Taskset => placed.taskset(),
        Recipe::Systemd => placed.systemd(),
        Recipe::Omp => placed.omp(),
        Recipe::Rankfile => placed.rankfile("localhost", "mpirun --rankfile FILE"),
        Recipe::Openmpi5 => placed.rankfile("+n0", "mpirun --map-by rankfile:file=FILE"),
        Recipe::Hydra => placed.hydra(),
        Recipe::Slurm => placed.slurm(),
    })
}

impl<'a> Placed<'a> {
    fn of(detail: &'a AttachmentDetail, topology: &'a Topology) -> Result<Self, Failure> {
        let id = detail.attachment.id;
        let nowhere = |text: String| {
            Failure::new(ErrorKind::Conflict, text)
                .remedy(format!("see what was done by `numadctl explain id:{id}`"))
        };
        let taking: Vec<&ThreadRow> = detail.threads.iter().filter(|it| it.takes_part).collect();
        if taking.iter().all(|thread| thread.placed.is_none()) {
            let text = format!("attachment `{id}` has no placement: no thread of it was bound");
            return Err(nowhere(text));
        }
        // Those that were left where they are belong to the placement too.
        let node = |thread: &ThreadRow| thread.placed.or(thread.node).map(NodeId);
        let mut processes: BTreeMap<u32, BTreeSet<NodeId>> = BTreeMap::new();
        let mut threads = Vec::new();
        for thread in taking {
            let Some(node) = node(thread).filter(|node| topology.node(*node).is_some()) else {
                let text = format!("thread `{}` is on no node of this machine", thread.tid);
                return Err(nowhere(text));
            };
            processes.entry(thread.pid).or_default().insert(node);
            threads.push(node);
        }
        Ok(Self {
            command: &detail.attachment.command,
            topology,
            nodes: processes.values().flatten().copied().collect(),
            processes,
            threads,
        })
    }

    fn numactl(&self) -> String {
        let nodes = nodes_text(&self.nodes);
        let (memory, note) = match self.nodes.len() {
            1 => (format!("--preferred={nodes}"), ""),
            _ => (
                "--localalloc".to_owned(),
                "# numactl places whole programs: which thread goes to which node is not in it.\n",
            ),
        };
        let command = self.command;
        format!("{note}numactl --cpunodebind={nodes} {memory} -- {command}\n")
    }

    fn taskset(&self) -> String {
        let note = match self.nodes.len() {
            1 => "",
            _ => "# taskset places whole programs: which thread goes to which node is not in it.\n",
        };
        let (cpus, command) = (self.cpus(&self.nodes), self.command);
        format!("{note}taskset -c {cpus} {command}\n")
    }

    fn systemd(&self) -> String {
        let nodes = nodes_text(&self.nodes);
        let policy = match self.nodes.len() {
            1 => format!("NUMAPolicy=preferred\nNUMAMask={nodes}"),
            _ => "NUMAPolicy=local".to_owned(),
        };
        let cpus = self.cpus(&self.nodes);
        format!(
            "# /etc/systemd/system/UNIT.service.d/numa.conf, then `systemctl daemon-reload`\n\
             [Service]\nCPUAffinity={cpus}\n{policy}\n"
        )
    }

    /// One place for each thread, in the order in which they began: then `close` gives each its own.
    fn omp(&self) -> String {
        let place = |node: &NodeId| {
            let cpus = self.cpus(&BTreeSet::from([*node]));
            let runs: Vec<String> = runs(&cpus)
                .into_iter()
                .map(|(first, count)| match count {
                    1 => first.to_string(),
                    _ => format!("{first}:{count}"),
                })
                .collect();
            format!("{{{}}}", runs.join(","))
        };
        let places: Vec<String> = self.threads.iter().map(place).collect();
        format!(
            "export OMP_NUM_THREADS={}\nexport OMP_PLACES=\"{}\"\nexport OMP_PROC_BIND=close\n",
            places.len(),
            places.join(",")
        )
    }

    /// Ranks are processes by ascending number; slots are cores as hwloc counts them.
    fn rankfile(&self, host: &str, usage: &str) -> String {
        let mut text = format!("# {usage} -n {} {}\n", self.processes.len(), self.command);
        for (rank, nodes) in self.processes.values().enumerate() {
            let cores = self.cores(nodes);
            text.push_str(&format!("rank {rank}={host} slot={cores}\n"));
        }
        text
    }

    /// Processors as the system numbers them.
    fn hydra(&self) -> String {
        let of = |nodes: &BTreeSet<NodeId>| {
            let cpus = self.cpus(nodes);
            let numbers: Vec<String> = cpus.iter().map(|cpu| cpu.0.to_string()).collect();
            numbers.join("+")
        };
        let ranks: Vec<String> = self.processes.values().map(of).collect();
        format!(
            "mpiexec -n {} -bind-to user:{} {}\n",
            ranks.len(),
            ranks.join(","),
            self.command
        )
    }

    fn slurm(&self) -> String {
        let of = |nodes: &BTreeSet<NodeId>| hexadecimal(&self.cpus(nodes));
        let masks: Vec<String> = self.processes.values().map(of).collect();
        format!(
            "srun --ntasks={} --cpu-bind=mask_cpu:{} --mem-bind=local {}\n",
            masks.len(),
            masks.join(","),
            self.command
        )
    }

    fn cpus(&self, nodes: &BTreeSet<NodeId>) -> CpuSet {
        let mut cpus = CpuSet::new();
        for node in nodes.iter().filter_map(|node| self.topology.node(*node)) {
            cpus = cpus.union(&node.cpus);
        }
        cpus.intersection(&self.topology.online())
    }

    /// Cores in the order in which hwloc counts them: by package, then by their lowest processor.
    fn cores(&self, nodes: &BTreeSet<NodeId>) -> CpuSet {
        let mut cores: BTreeMap<(PackageId, CoreId), CpuId> = BTreeMap::new();
        for cpu in self.topology.cpus() {
            let lowest = cores.entry((cpu.package, cpu.core)).or_insert(cpu.id);
            *lowest = (*lowest).min(cpu.id);
        }
        let mut order: Vec<((PackageId, CoreId), CpuId)> = cores.into_iter().collect();
        order.sort_by_key(|((package, _), lowest)| (*package, *lowest));
        let wanted = self.cpus(nodes);
        let mut slots = CpuSet::new();
        for (number, (_, lowest)) in (0u32..).zip(order) {
            if wanted.contains(lowest) {
                slots.insert(CpuId(number));
            }
        }
        slots
    }
}

fn nodes_text(nodes: &BTreeSet<NodeId>) -> String {
    let nodes: topology::NodeSet = nodes.iter().copied().collect();
    nodes.to_string()
}

/// First number and length of each run of neighbouring numbers.
fn runs(cpus: &CpuSet) -> Vec<(u32, u32)> {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for cpu in cpus.iter() {
        match runs.last_mut() {
            Some((first, count)) if *first + *count == cpu.0 => *count += 1,
            _ => runs.push((cpu.0, 1)),
        }
    }
    runs
}

/// A mask as in `0x3f`, of any length.
fn hexadecimal(cpus: &CpuSet) -> String {
    let mut text = String::new();
    for word in cpus.words().iter().rev() {
        match text.is_empty() {
            true if *word == 0 => {}
            true => text.push_str(&format!("{word:x}")),
            false => text.push_str(&format!("{word:016x}")),
        }
    }
    match text.is_empty() {
        true => "0x0".to_owned(),
        false => format!("0x{text}"),
    }
}

#[cfg(test)]
mod tests {
    use control::rows::{Attachment, Evidence, Ledger};

    use super::*;

    /// Threads with their process and node, on two packages of two cores with two threads each.
    fn detail(threads: &[(u32, Option<u32>)]) -> AttachmentDetail {
        let row = |(number, (pid, placed)): (u32, &(u32, Option<u32>))| ThreadRow {
            pid: *pid,
            tid: 100 + number,
            name: "worker".to_owned(),
            cpu: 0,
            node: Some(0),
            placed: *placed,
            takes_part: true,
            busy: 1.0,
            samples: 1,
        };
        AttachmentDetail {
            attachment: Attachment {
                id: 3,
                pids: vec![100],
                command: "solver".to_owned(),
                uid: 0,
                policy: "deloc".to_owned(),
                dry_run: false,
                attached_s: 1.0,
                source: String::new(),
                windows: 1,
                window_ms: 1,
                threads: 1,
                tasks: 1,
                samples: 1,
                samples_window: 1,
                lost: 0,
                pages: 1,
                evidence: Evidence::default(),
                ledger: Ledger::default(),
                distance: None,
                local_share: None,
                counts: None,
                external: None,
                ranks: Vec::new(),
                in_vain: None,
            },
            threads: (0..).zip(threads).map(row).collect(),
            settings: BTreeMap::new(),
        }
    }

    #[track_caller]
    fn gives(recipe: Recipe, threads: &[(u32, Option<u32>)], expected: &str) {
        let topology = topology::synthetic::parse("2x4@10,21").unwrap();
        let told = text(&detail(threads), &topology, recipe).unwrap();
        assert_eq!(told, expected);
    }

    const BOTH: &[(u32, Option<u32>)] = &[(1, Some(1)), (1, Some(0)), (2, Some(0))];
    const ONE: &[(u32, Option<u32>)] = &[(1, Some(1)), (1, Some(1))];

    #[test]
    fn programs_on_one_node_need_no_note() {
        gives(
            Recipe::Numactl,
            ONE,
            "numactl --cpunodebind=1 --preferred=1 -- solver\n",
        );
        gives(Recipe::Taskset, ONE, "taskset -c 4-7 solver\n");
        gives(
            Recipe::Systemd,
            ONE,
            "# /etc/systemd/system/UNIT.service.d/numa.conf, then `systemctl daemon-reload`\n\
             [Service]\nCPUAffinity=4-7\nNUMAPolicy=preferred\nNUMAMask=1\n",
        );
    }

    #[test]
    fn what_cannot_be_said_is_said_to_be_missing() {
        gives(
            Recipe::Numactl,
            BOTH,
            "# numactl places whole programs: which thread goes to which node is not in it.\n\
             numactl --cpunodebind=0-1 --localalloc -- solver\n",
        );
    }

    #[test]
    fn threads_and_ranks_have_places_of_their_own() {
        gives(
            Recipe::Omp,
            BOTH,
            "export OMP_NUM_THREADS=3\nexport OMP_PLACES=\"{4:4},{0:4},{0:4}\"\n\
             export OMP_PROC_BIND=close\n",
        );
        gives(
            Recipe::Hydra,
            BOTH,
            "mpiexec -n 2 -bind-to user:0+1+2+3+4+5+6+7,0+1+2+3 solver\n",
        );
        gives(
            Recipe::Slurm,
            BOTH,
            "srun --ntasks=2 --cpu-bind=mask_cpu:0xff,0xf --mem-bind=local solver\n",
        );
        gives(
            Recipe::Rankfile,
            BOTH,
            "# mpirun --rankfile FILE -n 2 solver\nrank 0=localhost slot=0-7\n\
             rank 1=localhost slot=0-3\n",
        );
        gives(
            Recipe::Openmpi5,
            ONE,
            "# mpirun --map-by rankfile:file=FILE -n 1 solver\nrank 0=+n0 slot=4-7\n",
        );
    }

    #[test]
    fn where_threads_happen_to_run_is_no_recipe() {
        let topology = topology::synthetic::parse("2x4@10,21").unwrap();
        for threads in [&[][..], &[(1, None)], &[(1, Some(7))]] {
            let failure = text(&detail(threads), &topology, Recipe::Numactl).unwrap_err();
            assert_eq!(failure.kind, ErrorKind::Conflict, "{failure}");
        }
    }

    #[test]
    fn masks_have_any_length() {
        let mask = |list: &str| hexadecimal(&CpuSet::parse_list(list).unwrap());
        assert_eq!(mask("0-1"), "0x3");
        assert_eq!(mask("64"), "0x10000000000000000");
        assert_eq!(mask(""), "0x0");
        assert_eq!(
            runs(&CpuSet::parse_list("0-2,5,7-8").unwrap()),
            [(0, 3), (5, 1), (7, 2)]
        );
    }
}
