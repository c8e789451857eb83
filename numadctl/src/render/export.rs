//! A placement as a line for the tools that people have.

use std::collections::{BTreeMap, BTreeSet};

use control::plan::{Level, Plan};
use control::rows::{AttachmentDetail, ThreadRow};
use control::{ErrorKind, Failure};
use topology::{CpuId, CpuSet, NodeId, Topology};

use crate::cli::Recipe;

/// The command of a plan, which knows none.
const COMMAND: &str = "./PROGRAM";

/// A placement.
struct Placed<'a> {
    /// As a word of a shell.
    command: String,
    /// Nodes of all threads that take part.
    nodes: BTreeSet<NodeId>,
    /// Processors of all of them.
    cpus: CpuSet,
    /// Names of the machines; none where the placement is of this one.
    machines: Vec<&'a str>,
    /// Rank 0 first.
    ranks: Vec<Seat>,
    /// The processors of each thread that takes part, in the order in which they began.
    threads: Vec<CpuSet>,
}

/// Where a rank is.
struct Seat {
    /// Position of its machine.
    machine: usize,
    /// Cores as hwloc numbers them.
    cores: CpuSet,
    /// Processors as the system numbers them.
    cpus: CpuSet,
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
    written(&Placed::of(detail, topology)?, recipe)
}

/// The recipe of a plan.
///
/// # Errors
/// When the tool cannot say what the plan does.
pub fn of_plan(plan: &Plan, recipe: Recipe) -> Result<String, Failure> {
    let of_ranks = matches!(
        recipe,
        Recipe::Rankfile
            | Recipe::Openmpi5
            | Recipe::Hydra
            | Recipe::Intel
            | Recipe::Slurm
            | Recipe::SlurmHostfile
    );
    let refused =
        |text: &str, remedy: &str| Err(Failure::new(ErrorKind::Conflict, text).remedy(remedy));
    if plan.machines.len() > 1 && plan.level == Level::Thread {
        return refused(
            "the plan gives threads of one program to several machines",
            "plan again with one `--machine`, or for ranks with `--level message`",
        );
    }
    if of_ranks && plan.level == Level::Thread {
        return refused(
            "the plan is of threads, this format of ranks",
            "choose `omp`, `numactl`, `taskset` or `systemd`, or plan with `--level message`",
        );
    }
    if recipe == Recipe::Omp && plan.level == Level::Message {
        return refused(
            "the plan is of ranks, this format of threads",
            "choose `rankfile` or `hydra`, or plan with `--level thread`",
        );
    }
    if recipe == Recipe::Systemd && plan.level == Level::Message {
        return refused(
            "the plan is of ranks, a unit of systemd has one set of processors for all",
            "choose `taskset` or `numactl` and start each rank by its line",
        );
    }
    let several = matches!(
        recipe,
        Recipe::Rankfile | Recipe::Openmpi5 | Recipe::Slurm | Recipe::SlurmHostfile
    );
    if plan.machines.len() > 1 && !several {
        return refused(
            "the plan has several machines, this format places on one",
            "choose `rankfile`, `openmpi5`, `slurm` or `slurm-hostfile`",
        );
    }
    let names_hosts = match recipe {
        Recipe::Rankfile => plan.machines.len() > 1,
        recipe => recipe == Recipe::SlurmHostfile,
    };
    let placed = Placed::of_plan(plan);
    if let Some(name) = placed.no_host().filter(|_| names_hosts) {
        return refused(
            &format!(
                "this format names hosts, but machine `{name}` of the plan has no host's name, or that of another"
            ),
            "call the files of machines after their hosts, and plan with `--machine HOST1.xml,HOST2.xml`",
        );
    }
    match recipe {
        Recipe::Taskset if plan.level == Level::Message => Ok(placed.taskset_lines()),
        Recipe::Numactl => Ok(placed.numactl_lines(plan.level)),
        _ => written(&placed, recipe),
    }
}

fn written(placed: &Placed<'_>, recipe: Recipe) -> Result<String, Failure> {
    Ok(match recipe {
        Recipe::Numactl => placed.numactl(),
        Recipe::Taskset => placed.taskset(),
        Recipe::Systemd => placed.systemd(),
        Recipe::Omp => placed.omp(),
        Recipe::Rankfile => placed.rankfile("mpirun --rankfile FILE"),
        Recipe::Openmpi5 => placed.rankfile("mpirun --map-by rankfile:file=FILE"),
        Recipe::Hydra => placed.hydra(),
        Recipe::Intel => placed.intel(),
        Recipe::Slurm => placed.slurm()?,
        Recipe::SlurmHostfile => placed.slurm_hostfile(),
    })
}

impl<'a> Placed<'a> {
    fn of(detail: &'a AttachmentDetail, topology: &Topology) -> Result<Self, Failure> {
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
        // By ascending number: the first is rank 0.
        let mut processes: BTreeMap<u32, BTreeSet<NodeId>> = BTreeMap::new();
        let mut threads = Vec::new();
        for thread in taking {
            let Some(node) = node(thread).filter(|node| topology.node(*node).is_some()) else {
                let text = format!("thread `{}` is on no node of this machine", thread.tid);
                return Err(nowhere(text));
            };
            processes.entry(thread.pid).or_default().insert(node);
            threads.push(cpus_of(topology, &BTreeSet::from([node])));
        }
        let nodes = processes.values().flatten().copied().collect();
        let seat = |nodes: &BTreeSet<NodeId>| {
            let cpus = cpus_of(topology, nodes);
            let cores = cores_of(topology, &cpus);
            Seat {
                machine: 0,
                cores,
                cpus,
            }
        };
        Ok(Self {
            command: word(&detail.attachment.command),
            cpus: cpus_of(topology, &nodes),
            nodes,
            machines: Vec::new(),
            ranks: processes.values().map(seat).collect(),
            threads,
        })
    }

    fn of_plan(plan: &'a Plan) -> Self {
        let ranks: Vec<Seat> = plan
            .places
            .iter()
            .map(|place| Seat {
                machine: usize::try_from(place.machine).unwrap_or(usize::MAX),
                cores: [CpuId(place.core)].into_iter().collect(),
                cpus: place.cpus.iter().copied().map(CpuId).collect(),
            })
            .collect();
        Self {
            command: COMMAND.to_owned(),
            nodes: plan.places.iter().map(|place| NodeId(place.node)).collect(),
            cpus: ranks
                .iter()
                .fold(CpuSet::new(), |all, it| all.union(&it.cpus)),
            machines: plan.machines.iter().map(|it| it.name.as_str()).collect(),
            threads: ranks.iter().map(|seat| seat.cpus.clone()).collect(),
            ranks,
        }
    }

    /// What is bound to nodes has local memory there. `--preferred` would say the same of one node,
    /// but numactl refuses it for nodes without memory, and so does the kernel in a unit of
    /// systemd.
    fn numactl(&self) -> String {
        let note = match self.nodes.len() {
            1 => "",
            _ => "# numactl places whole programs: which thread goes to which node is not in it.\n",
        };
        let (nodes, command) = (nodes_text(&self.nodes), &self.command);
        format!("{note}numactl --cpunodebind={nodes} --localalloc -- {command}\n")
    }

    fn taskset(&self) -> String {
        let note = match self.nodes.len() {
            1 => "",
            _ => "# taskset places whole programs: which thread goes to which node is not in it.\n",
        };
        let (cpus, command) = (&self.cpus, &self.command);
        format!("{note}taskset -c {cpus} {command}\n")
    }

    fn systemd(&self) -> String {
        let cpus = &self.cpus;
        format!(
            "# /etc/systemd/system/UNIT.service.d/numa.conf, then `systemctl daemon-reload`\n\
             [Service]\nCPUAffinity={cpus}\nNUMAPolicy=local\n"
        )
    }

    /// One place for each thread, in the order in which they began: then `close` gives each its own.
    fn omp_variables(&self) -> [(&'static str, String); 3] {
        let place = |cpus: &CpuSet| {
            let runs: Vec<String> = runs(cpus)
                .into_iter()
                .map(|(first, count)| match count {
                    1 => first.to_string(),
                    _ => format!("{first}:{count}"),
                })
                .collect();
            format!("{{{}}}", runs.join(","))
        };
        let places: Vec<String> = self.threads.iter().map(place).collect();
        [
            ("OMP_NUM_THREADS", places.len().to_string()),
            ("OMP_PLACES", places.join(",")),
            ("OMP_PROC_BIND", "close".to_owned()),
        ]
    }

    fn omp(&self) -> String {
        let [(count, threads), (list, places), (bind, close)] = self.omp_variables();
        format!("export {count}={threads}\nexport {list}=\"{places}\"\nexport {bind}={close}\n")
    }

    /// A machine whose name is no host's: this one, a description, a path, or one that is there twice.
    fn no_host(&self) -> Option<&'a str> {
        let in_names = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        let mut before = BTreeSet::new();
        let mut names = self.machines.iter().copied();
        names.find(|name| {
            name.is_empty()
                || *name == "this"
                || !name.bytes().all(in_names)
                || topology::synthetic::parse(name).is_ok()
                || !before.insert(*name)
        })
    }

    /// Ranks are processes by ascending number; slots are cores as hwloc counts them. Open MPI 5 takes
    /// the position of a host among those that mpirun is given, too; Open MPI 4 refuses it
    /// with `--host` and `--hostfile`.
    fn rankfile(&self, usage: &str) -> String {
        let mut text = format!("# {usage} -n {} {}\n", self.ranks.len(), self.command);
        let are_hosts = self.no_host().is_none();
        if self.machines.len() > 1 && !are_hosts {
            text.push_str(&format!(
                "# hosts in the order {}\n",
                self.machines.join(" ")
            ));
        }
        for (rank, seat) in self.ranks.iter().enumerate() {
            let (machine, cores) = (seat.machine, &seat.cores);
            let host = match self.machines.get(machine) {
                Some(_) if self.machines.len() == 1 => "localhost".to_owned(),
                Some(name) if are_hosts => (*name).to_owned(),
                Some(_) => format!("+n{machine}"),
                None => "localhost".to_owned(),
            };
            text.push_str(&format!("rank {rank}={host} slot={cores}\n"));
        }
        text
    }

    /// One line for each rank, for launchers that start one command each.
    fn taskset_lines(&self) -> String {
        let line = |seat: &Seat| format!("taskset -c {} {}\n", seat.cpus, self.command);
        self.ranks.iter().map(line).collect()
    }

    /// One line for each rank; for threads one for the program, which places them no closer.
    ///
    /// A rank's processors are of one core, so local memory is that of its node.
    fn numactl_lines(&self, level: Level) -> String {
        let line = |cpus: &CpuSet| {
            format!(
                "numactl --physcpubind={cpus} --localalloc -- {}\n",
                self.command
            )
        };
        match level {
            Level::Message => self.ranks.iter().map(|seat| line(&seat.cpus)).collect(),
            Level::Thread => line(&self.cpus),
        }
    }

    /// Processors as the system numbers them.
    fn hydra(&self) -> String {
        format!(
            "mpiexec -n {} -bind-to user:{} {}\n",
            self.ranks.len(),
            self.user_binding(),
            self.command
        )
    }

    /// What hydra's `-bind-to user:` takes.
    fn user_binding(&self) -> String {
        let of = |seat: &Seat| {
            let numbers: Vec<String> = seat.cpus.iter().map(|cpu| cpu.0.to_string()).collect();
            numbers.join("+")
        };
        let ranks: Vec<String> = self.ranks.iter().map(of).collect();
        ranks.join(",")
    }

    /// A list has one processor for each rank; with several for one, only masks say it.
    fn intel_variables(&self) -> [(&'static str, String); 2] {
        let single = self.ranks.iter().all(|seat| seat.cpus.len() == 1);
        let of = |seat: &Seat| match single {
            true => seat.cpus.to_string(),
            false => hexadecimal(&seat.cpus),
        };
        let ranks: Vec<String> = self.ranks.iter().map(of).collect();
        let value = ranks.join(",");
        let pin = ("I_MPI_PIN", "1".to_owned());
        match single {
            true => [pin, ("I_MPI_PIN_PROCESSOR_LIST", value)],
            false => [pin, ("I_MPI_PIN_DOMAIN", format!("[{value}]"))],
        }
    }

    fn intel(&self) -> String {
        let lines = self.intel_variables();
        lines
            .iter()
            .map(|(name, value)| format!("export {name}={value}\n"))
            .collect()
    }

    /// Slurm gives the same masks to the ranks of every machine, in their order there.
    fn slurm_binding(&self) -> Result<[String; 2], Failure> {
        let masks_on = |machine: usize| -> Vec<String> {
            let here = self.ranks.iter().filter(|seat| seat.machine == machine);
            here.map(|seat| hexadecimal(&seat.cpus)).collect()
        };
        let all: Vec<Vec<String>> = (0..self.machines.len().max(1)).map(masks_on).collect();
        let longest = all.iter().max_by_key(|masks| masks.len());
        let masks = longest.cloned().unwrap_or_default();
        if !all.iter().all(|some| masks.starts_with(some)) {
            let text = "Slurm has one list of masks for all machines, the plan another for each";
            return Err(Failure::new(ErrorKind::Conflict, text)
                .remedy("use Open MPI with the format `rankfile`"));
        }
        let binding = format!("--cpu-bind=mask_cpu:{}", masks.join(","));
        Ok([binding, "--mem-bind=local".to_owned()])
    }

    fn slurm(&self) -> Result<String, Failure> {
        let spread = match self.machines.len() {
            0 | 1 => "",
            // With SLURM_HOSTFILE as the format `slurm-hostfile` writes it.
            _ => "--distribution=arbitrary ",
        };
        Ok(format!(
            "srun --ntasks={} {spread}{} {}\n",
            self.ranks.len(),
            self.slurm_binding()?.join(" "),
            self.command
        ))
    }

    /// One line for each rank, which `SLURM_HOSTFILE` names the file of.
    fn slurm_hostfile(&self) -> String {
        let name = |seat: &Seat| self.machines.get(seat.machine).copied();
        let names = self
            .ranks
            .iter()
            .map(|seat| name(seat).unwrap_or("localhost"));
        names.map(|name| format!("{name}\n")).collect()
    }
}

/// The name of a program as one word of a shell: anyone chooses it, and the line is there to be
/// run.
fn word(name: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._/+:,@%".contains(c);
    if !name.is_empty() && name.chars().all(plain) {
        return name.to_owned();
    }
    let name = name.replace(char::is_control, "?");
    format!("'{}'", name.replace('\'', "'\\''"))
}

/// What `run --plan` gives hydra behind `-bind-to`.
pub(crate) fn user_binding(plan: &Plan) -> String {
    format!("user:{}", Placed::of_plan(plan).user_binding())
}

/// What `run --plan` gives srun.
pub(crate) fn slurm_binding(plan: &Plan) -> Result<[String; 2], Failure> {
    Placed::of_plan(plan).slurm_binding()
}

/// What `run --plan` gives Intel's launcher.
pub(crate) fn intel_variables(plan: &Plan) -> [(&'static str, String); 2] {
    Placed::of_plan(plan).intel_variables()
}

/// What `run --plan` gives other programs.
pub(crate) fn omp_variables(plan: &Plan) -> [(&'static str, String); 3] {
    Placed::of_plan(plan).omp_variables()
}

fn cpus_of(topology: &Topology, nodes: &BTreeSet<NodeId>) -> CpuSet {
    let mut cpus = CpuSet::new();
    for node in nodes.iter().filter_map(|node| topology.node(*node)) {
        cpus = cpus.union(&node.cpus);
    }
    cpus.intersection(&topology.online())
}

/// Cores that have any of these processors, by hwloc's numbers.
fn cores_of(topology: &Topology, cpus: &CpuSet) -> CpuSet {
    let cores = (0_u32..).zip(topology.logical_cores());
    let wanted = cores.filter(|(_, core)| core.intersects(cpus));
    wanted.map(|(number, _)| CpuId(number)).collect()
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
                moving: None,
                distance: None,
                local_share: None,
                counts: None,
                external: None,
                ranks: Vec::new(),
                in_vain: None,
                kernel: None,
                unseen_share: None,
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
    fn a_name_is_one_word_of_a_shell() {
        for (name, expected) in [
            ("solver", "solver"),
            ("a;reboot", "'a;reboot'"),
            ("$(x) it's", "'$(x) it'\\''s'"),
            ("a\nreboot", "'a?reboot'"),
            ("", "''"),
        ] {
            let mut detail = detail(ONE);
            name.clone_into(&mut detail.attachment.command);
            let topology = topology::synthetic::parse("2x4@10,21").unwrap();
            let told = text(&detail, &topology, Recipe::Taskset).unwrap();
            assert_eq!(told, format!("taskset -c 4-7 {expected}\n"));
        }
    }

    #[test]
    fn programs_on_one_node_need_no_note() {
        gives(
            Recipe::Numactl,
            ONE,
            "numactl --cpunodebind=1 --localalloc -- solver\n",
        );
        gives(Recipe::Taskset, ONE, "taskset -c 4-7 solver\n");
        gives(
            Recipe::Systemd,
            ONE,
            "# /etc/systemd/system/UNIT.service.d/numa.conf, then `systemctl daemon-reload`\n\
             [Service]\nCPUAffinity=4-7\nNUMAPolicy=local\n",
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
            "# mpirun --map-by rankfile:file=FILE -n 1 solver\nrank 0=localhost slot=4-7\n",
        );
    }

    /// A plan of ranks or threads on `(machine, core, processors)`.
    fn plan(level: Level, machines: u32, places: &[(u32, u32, &[u32])]) -> Plan {
        let place = |&(machine, core, cpus): &(u32, u32, &[u32])| control::plan::Place {
            machine,
            node: 0,
            core,
            cpus: cpus.to_vec(),
        };
        let machine = |number: u32| control::plan::Machine {
            name: format!("m{number}"),
            fingerprint: String::new(),
            nodes: 1,
            cores: 8,
            cpus: 8,
        };
        Plan {
            format: 1,
            made_by: String::new(),
            policy: "deloc".to_owned(),
            level,
            machines: (0..machines).map(machine).collect(),
            places: places.iter().map(place).collect(),
            cost_before: 0,
            cost_after: 0,
        }
    }

    #[test]
    fn plans_are_told_to_each_tool() {
        let ranks = plan(Level::Message, 1, &[(0, 2, &[4, 5]), (0, 0, &[0, 1])]);
        let threads = plan(Level::Thread, 1, &[(0, 2, &[4, 6]), (0, 0, &[0])]);
        let single = plan(Level::Message, 1, &[(0, 2, &[4]), (0, 0, &[0])]);
        let wide = plan(
            Level::Message,
            2,
            &[(1, 0, &[0]), (0, 0, &[0]), (1, 1, &[1])],
        );
        for (plan, recipe, expected) in [
            (
                &ranks,
                Recipe::Rankfile,
                "rank 0=localhost slot=2\nrank 1=localhost slot=0\n",
            ),
            (
                &ranks,
                Recipe::Hydra,
                "-n 2 -bind-to user:4+5,0+1 ./PROGRAM\n",
            ),
            (
                &ranks,
                Recipe::Slurm,
                "--ntasks=2 --cpu-bind=mask_cpu:0x30,0x3 ",
            ),
            (&ranks, Recipe::Intel, "I_MPI_PIN_DOMAIN=[0x30,0x3]\n"),
            (&single, Recipe::Intel, "I_MPI_PIN_PROCESSOR_LIST=4,0\n"),
            (
                &ranks,
                Recipe::Taskset,
                "taskset -c 4-5 ./PROGRAM\ntaskset -c 0-1 ./PROGRAM\n",
            ),
            (
                &ranks,
                Recipe::Numactl,
                "numactl --physcpubind=4-5 --localalloc -- ./PROGRAM\n\
                 numactl --physcpubind=0-1 --localalloc -- ./PROGRAM\n",
            ),
            (
                &threads,
                Recipe::Numactl,
                "numactl --physcpubind=0,4,6 --localalloc -- ./PROGRAM\n",
            ),
            (&threads, Recipe::Omp, "OMP_PLACES=\"{4,6},{0}\"\n"),
            (
                &wide,
                Recipe::Rankfile,
                "rank 0=m1 slot=0\nrank 1=m0 slot=0\nrank 2=m1 slot=1\n",
            ),
            (
                &wide,
                Recipe::Slurm,
                "--distribution=arbitrary --cpu-bind=mask_cpu:0x1,0x2 ",
            ),
            (&wide, Recipe::SlurmHostfile, "m1\nm0\nm1\n"),
        ] {
            let told = of_plan(plan, recipe).unwrap();
            assert!(told.contains(expected), "{told}");
        }
    }

    #[test]
    fn what_a_tool_cannot_say_is_refused() {
        let ranks = plan(Level::Message, 1, &[(0, 2, &[4, 5]), (0, 0, &[0, 1])]);
        let threads = plan(Level::Thread, 1, &[(0, 2, &[4, 6]), (0, 0, &[0])]);
        let wide = plan(Level::Message, 2, &[(1, 0, &[0]), (0, 0, &[0])]);
        let torn = plan(Level::Thread, 2, &[(1, 0, &[0]), (0, 0, &[0])]);
        for recipe in [Recipe::Omp, Recipe::Rankfile] {
            let advice = of_plan(&torn, recipe).unwrap_err().to_string();
            assert!(advice.contains("one `--machine`"), "{advice}");
        }
        for (plan, recipe) in [
            (&threads, Recipe::Rankfile),
            (&ranks, Recipe::Omp),
            (&ranks, Recipe::Systemd),
            (&wide, Recipe::Hydra),
            (&wide, Recipe::Numactl),
            (
                &plan(Level::Message, 2, &[(0, 0, &[0]), (1, 1, &[1])]),
                Recipe::Slurm,
            ),
        ] {
            assert_eq!(of_plan(plan, recipe).unwrap_err().kind, ErrorKind::Conflict);
        }
        // What is suggested instead takes the plan.
        let advice = of_plan(&threads, Recipe::Hydra).unwrap_err().remedy;
        for (name, recipe) in [
            ("`omp`", Recipe::Omp),
            ("`numactl`", Recipe::Numactl),
            ("`taskset`", Recipe::Taskset),
            ("`systemd`", Recipe::Systemd),
        ] {
            assert!(advice.contains(name), "{advice}");
            of_plan(&threads, recipe).unwrap();
        }
    }

    #[test]
    fn machines_without_the_name_of_a_host_are_told_by_position_or_refused() {
        for names in [["this", "b"], ["2x4", "b"], ["/root", "b"], ["b", "b"]] {
            let mut plan = plan(Level::Message, 2, &[(1, 0, &[0]), (0, 0, &[0])]);
            for (machine, name) in plan.machines.iter_mut().zip(names) {
                machine.name = name.to_owned();
            }
            let text = of_plan(&plan, Recipe::Openmpi5).unwrap();
            assert!(
                text.contains("rank 0=+n1 slot=0\nrank 1=+n0 slot=0\n"),
                "{text}"
            );
            for recipe in [Recipe::Rankfile, Recipe::SlurmHostfile] {
                let failure = of_plan(&plan, recipe).unwrap_err();
                assert_eq!(failure.kind, ErrorKind::Conflict);
                assert!(failure.message.contains("names hosts"), "{failure}");
            }
        }
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
