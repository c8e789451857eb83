//! `run --plan`: starts a program at the places of a plan, and tells whether they held.

mod environs;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::{self, IsTerminal, Write as _};
use std::path::{Path, PathBuf};
use std::process::{self, Child, Command, ExitStatus};
use std::time::Duration;

use control::plan::{Level, Plan};
use control::{ErrorKind, Failure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use procfs::Presence;
use topology::{CpuId, CpuSet, Topology};

use crate::cli::{Recipe, Run};
use crate::client::Client;
use crate::fresh::{Fresh, cannot_write};
use crate::output::Output;
use crate::render::export;
use crate::waiting::{Waiting, Woken};

use self::environs::Environs;
use super::attach::find_program;
use super::compare::exit_code;

/// By this variable what was started is known again.
const MARK: &str = "NUMAD_PLAN_RUN";

/// Time between two looks at where ranks and threads are.
const LOOK: Duration = Duration::from_millis(100);

/// Flags of launchers that place ranks too.
const PLACING: [&str; 28] = [
    "cpu-bind",
    "cpu_bind",
    "distribution",
    "bind-to",
    "bindto",
    "binding",
    "bind-to-core",
    "bind-to-socket",
    "map-by",
    "mapby",
    "mapping",
    "rank-by",
    "rankby",
    "rankfile",
    "rf",
    "cpu-set",
    "cpu-list",
    "bynode",
    "byslot",
    "bycore",
    "bysocket",
    "pernode",
    "npernode",
    "npersocket",
    "cpus-per-proc",
    "use-hwthread-cpus",
    "hostfile",
    "machinefile",
];

/// Variables and parameters of launchers that place ranks too, without what MCA puts before them.
const PLACING_PARAMETERS: [&str; 9] = [
    "rmaps_base_mapping_policy",
    "rmaps_base_ranking_policy",
    "rmaps_default_mapping_policy",
    "rmaps_default_ranking_policy",
    "rmaps_rank_file_path",
    "hwloc_base_binding_policy",
    "hwloc_base_cpu_list",
    "hwloc_default_binding_policy",
    "hwloc_default_cpu_list",
];

/// Variables of OpenMP runtimes that win over `OMP_PLACES`, or leave fewer threads.
const OF_OPENMP: [&str; 3] = ["KMP_AFFINITY", "KMP_HW_SUBSET", "OMP_THREAD_LIMIT"];

/// Who starts ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Launcher {
    OpenMpi4,
    OpenMpi5,
    Hydra,
    Intel,
    Slurm,
}

/// A file that goes when the run is over.
struct Rankfile(PathBuf);

impl Drop for Rankfile {
    fn drop(&mut self) {
        // A stray file of a few lines in the temporary directory harms nobody.
        drop(std::fs::remove_file(&self.0));
    }
}

pub(super) fn run(
    client: &Client,
    arguments: &Run,
    file: &Path,
    err: &mut Output<'_>,
) -> Result<u8, Failure> {
    let plan = super::plan::load(file)?;
    let topology = topology::load("this").map_err(|error| super::topo::refused(&error))?;
    is_for(&plan, &topology)?;
    allows(&plan)?;
    let (name, rest) = arguments.command.split_first().ok_or_else(|| {
        Failure::new(ErrorKind::Usage, "no command is given").remedy("name it after `--`")
    })?;
    let program = find_program(name)?;
    let mut command = Command::new(&program);
    let mark = format!("{}-{:?}", process::id(), std::time::SystemTime::now());
    command.env(MARK, &mark);
    let mut rankfile = None;
    match (plan.level, is_launcher(&program)) {
        (Level::Thread, false) => {
            is_alone(variables(), |name| OF_OPENMP.contains(&name))?;
            command.envs(export::omp_variables(&plan)).args(rest);
            // Else the runtime may start fewer threads than there are places.
            command.env("OMP_DYNAMIC", "false");
        }
        (Level::Message, true) => {
            let launcher = launcher(&program)?;
            is_fit(&plan, rest, launcher)?;
            is_alone(variables(), places)?;
            rankfile = at_places(&mut command, &plan, launcher)?;
            command.args(rest);
        }
        (Level::Thread, true) => {
            return Err(Failure::new(
                ErrorKind::Usage,
                "the plan is of threads, the command starts ranks",
            )
            .remedy("plan with `--level message`"));
        }
        (Level::Message, false) => {
            return Err(Failure::new(
                ErrorKind::Usage,
                "the plan is of ranks, the command is no mpirun and no srun",
            )
            .remedy("start it by mpirun or mpiexec, or plan with `--level thread`"));
        }
    }
    let mut waiting = Waiting::new(client.runtime())?;
    let mut child = command.spawn().map_err(|error| {
        let text = format!("cannot start `{}`: {error}", program.display());
        Failure::new(ErrorKind::Kernel, text)
    })?;
    let mut seen = BTreeMap::new();
    let mut environs = Environs::new("/");
    let status = wait(&mut waiting, &mut child, |pid| match plan.level {
        Level::Thread => look_at_threads(pid, &mut seen),
        Level::Message => look_at_ranks(&mut environs, pid, &mark, &mut seen),
    })?;
    drop(rankfile);
    // It has ended: whatever goes wrong here is not its failure.
    drop(err.text(&format!("numadctl: {}\n", outcome(&plan, &seen))));
    Ok(u8::try_from(exit_code(status)).unwrap_or(u8::MAX))
}

/// Waits for the end, with a look at it now and then.
fn wait(
    waiting: &mut Waiting<'_>,
    child: &mut Child,
    mut look: impl FnMut(u32),
) -> Result<ExitStatus, Failure> {
    let id = child.id();
    let pid = Pid::from_raw(i32::try_from(id).unwrap_or(i32::MAX));
    loop {
        match waiting.child(child, Some(LOOK))? {
            Woken::Ended(status) => return Ok(status),
            // Ctrl-C of a terminal goes to the program as well; what goes to numadctl alone is passed on.
            Woken::Interrupted(Signal::SIGINT) if io::stdin().is_terminal() => {}
            Woken::Interrupted(signal) => {
                let _gone_already = kill(pid, signal);
            }
            Woken::Late => look(id),
        }
    }
}

/// Refuses a plan of several machines, or of another one than this.
fn is_for(plan: &Plan, topology: &Topology) -> Result<(), Failure> {
    let [machine] = &plan.machines[..] else {
        let text = format!(
            "the plan is for `{}` machines, `run` starts on one",
            plan.machines.len()
        );
        return Err(Failure::new(ErrorKind::Conflict, text)
            .remedy("give it to the launcher by `numadctl export --plan FILE --format rankfile`"));
    };
    let mut differences = Vec::new();
    let mut differs = |what: &str, planned: String, here: String| {
        if planned != here {
            differences.push(format!("{what} {planned}, here {here}"));
        }
    };
    let here = topology.fingerprint().to_string();
    differs("fingerprint", machine.fingerprint.clone(), here);
    differs(
        "nodes",
        machine.nodes.to_string(),
        topology.nodes().len().to_string(),
    );
    let cores = topology.logical_cores().len();
    differs("cores", machine.cores.to_string(), cores.to_string());
    differs(
        "processors",
        machine.cpus.to_string(),
        topology.online().len().to_string(),
    );
    if differences.is_empty() {
        return Ok(());
    }
    let text = format!(
        "the plan is for another machine: {}",
        differences.join("; ")
    );
    Err(Failure::new(ErrorKind::Conflict, text).remedy("plan again here with `--machine this`"))
}

/// Refuses processors that this process may not use, and nobody whom it starts.
fn allows(plan: &Plan) -> Result<(), Failure> {
    let Some(allowed) = mask("/proc/self/status") else {
        return Ok(());
    };
    let planned = plan.places.iter().flat_map(|place| &place.cpus);
    let planned: CpuSet = planned.copied().map(CpuId).collect();
    let lacking = planned.difference(&allowed);
    if lacking.is_empty() {
        return Ok(());
    }
    let text = format!("the plan uses processors `{lacking}`, this process may not");
    Err(Failure::new(ErrorKind::Conflict, text)
        .remedy("start it where its affinity and cpuset have them, or plan for fewer"))
}

fn is_launcher(program: &Path) -> bool {
    let name = program
        .file_name()
        .and_then(OsStr::to_str)
        .unwrap_or_default();
    ["mpirun", "mpiexec", "orterun", "prterun", "srun"]
        .iter()
        .any(|start| name.starts_with(start))
}

/// Which launcher it is, as it says itself.
fn launcher(program: &Path) -> Result<Launcher, Failure> {
    let output = Command::new(program).arg("--version").output();
    let output = output.map(|output| (output.stdout, output.stderr));
    let (said, complaint) = output.unwrap_or_default();
    let said = String::from_utf8_lossy(&said).into_owned();
    let found = match said.as_str() {
        text if text.contains("Intel(R) MPI") => Some(Launcher::Intel),
        text if text.contains("HYDRA") => Some(Launcher::Hydra),
        text if text.starts_with("slurm") => Some(Launcher::Slurm),
        // It calls itself otherwise when started by another of its names.
        text if text.contains("(Open MPI) 4.") || text.contains("(OpenRTE) 4.") => {
            Some(Launcher::OpenMpi4)
        }
        text if text.contains("(Open MPI) 5.") || text.contains("(PRRTE)") => {
            Some(Launcher::OpenMpi5)
        }
        _ => None,
    };
    found.ok_or_else(|| {
        let complaint = String::from_utf8_lossy(&complaint).into_owned();
        let last = complaint.lines().last().filter(|_| said.is_empty());
        let said = last.map_or_else(String::new, |line| {
            let line = line.chars().filter(|it| !it.is_control()).take(200);
            format!(": with `--version` it said `{}`", line.collect::<String>())
        });
        let text = format!(
            "`{}` is no launcher that plans are known for{said}",
            program.display()
        );
        Failure::new(ErrorKind::Usage, text)
            .remedy("use Open MPI 4 or 5, MPICH, Intel MPI or Slurm, or `numadctl export --plan FILE --format rankfile`")
    })
}

/// Refuses another number of ranks than planned, and flags that place ranks as well.
fn is_fit(plan: &Plan, arguments: &[OsString], launcher: Launcher) -> Result<(), Failure> {
    let words: Vec<&str> = arguments.iter().filter_map(|it| it.to_str()).collect();
    let flag = |word: &&str| {
        let flag = word.strip_prefix('-')?;
        let flag = flag.strip_prefix('-').unwrap_or(flag);
        let flag = flag.split_once('=').map_or(flag, |(flag, _)| flag);
        PLACING.contains(&flag).then(|| (*word).to_owned())
    };
    if let Some(flag) = words.iter().find_map(flag) {
        let text = format!("`{flag}` and the plan both say where ranks go");
        return Err(Failure::new(ErrorKind::Usage, text).remedy(format!("leave out `{flag}`")));
    }
    if let Some(word) = words.iter().find(|word| places(word)) {
        let text = format!("parameter `{word}` and the plan both say where ranks go");
        return Err(Failure::new(ErrorKind::Usage, text).remedy(format!("leave out `{word}`")));
    }
    let count = words.iter().enumerate().find_map(|(at, word)| match *word {
        "-n" | "-np" | "--np" | "--ntasks" => words.get(at + 1).copied(),
        // Of srun these are processors of a task.
        "-c" if launcher != Launcher::Slurm => words.get(at + 1).copied(),
        word => word.strip_prefix("--ntasks="),
    });
    let count: Option<usize> = count.and_then(|count| count.parse().ok());
    let planned = plan.places.len();
    if count == Some(planned) {
        return Ok(());
    }
    let given = count.map_or("no number of ranks is given".to_owned(), |it| {
        format!("`{it}` ranks are given")
    });
    Err(Failure::new(
        ErrorKind::Usage,
        format!("the plan is of `{planned}` ranks, {given}"),
    )
    .remedy(format!("start with `-n {planned}`")))
}

/// Whether this is the name of a parameter or variable that places ranks, as in `--mca NAME VALUE` and `-genv NAME
/// VALUE`.
fn places(name: &str) -> bool {
    let name = name.split_once('=').map_or(name, |(name, _)| name);
    let bare = ["OMPI_MCA_", "PRTE_MCA_"]
        .iter()
        .find_map(|start| name.strip_prefix(start))
        .unwrap_or(name);
    PLACING_PARAMETERS.contains(&bare)
        || name.starts_with("I_MPI_PIN") && !name.starts_with("I_MPI_PIN_RESPECT")
}

/// Names of the variables of the environment.
fn variables() -> impl Iterator<Item = String> {
    std::env::vars_os().filter_map(|(name, _)| name.into_string().ok())
}

/// Refuses variables of the environment that place ranks as well: some win over the plan, and say nothing.
fn is_alone(
    mut names: impl Iterator<Item = String>,
    places: impl Fn(&str) -> bool,
) -> Result<(), Failure> {
    names.find(|name| places(name)).map_or(Ok(()), |name| {
        let text = format!("variable `{name}` and the plan both say what runs where");
        Err(Failure::new(ErrorKind::Usage, text)
            .remedy(format!("unset it: `env -u {name} numadctl run ...`")))
    })
}

/// Tells the launcher of the places.
fn at_places(
    command: &mut Command,
    plan: &Plan,
    launcher: Launcher,
) -> Result<Option<Rankfile>, Failure> {
    let recipe = match launcher {
        Launcher::Hydra => {
            command.arg("-bind-to").arg(export::user_binding(plan));
            return Ok(None);
        }
        Launcher::Intel => {
            command.envs(export::intel_variables(plan));
            return Ok(None);
        }
        Launcher::Slurm => {
            command.args(export::slurm_binding(plan)?);
            return Ok(None);
        }
        Launcher::OpenMpi4 => Recipe::Rankfile,
        Launcher::OpenMpi5 => Recipe::Openmpi5,
    };
    let path = std::env::temp_dir().join(format!("numad-plan-{}.rankfile", process::id()));
    let mut fresh = Fresh::begin(&path)?;
    fresh
        .write_all(export::of_plan(plan, recipe)?.as_bytes())
        .map_err(|error| cannot_write(&path, &error))?;
    fresh.keep()?;
    match launcher {
        Launcher::OpenMpi5 => {
            let mut value = OsString::from("rankfile:file=");
            value.push(&path);
            command.arg("--map-by").arg(value);
        }
        _ => {
            command.arg("--rankfile").arg(&path);
        }
    }
    Ok(Some(Rankfile(path)))
}

/// Affinity as a status file tells it.
fn mask(status: &str) -> Option<CpuSet> {
    let text = std::fs::read_to_string(status).ok()?;
    let mut lines = text.lines();
    let list = lines.find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    CpuSet::parse_list(list.trim()).ok()
}

/// The affinity of each thread now, for those that can be seen.
fn look_at_threads(pid: u32, seen: &mut BTreeMap<usize, CpuSet>) {
    let tids = procfs::Reader::new("/").tids(topology::Pid(pid));
    let tids = tids.ok().and_then(Presence::here).unwrap_or_default();
    for (position, tid) in tids.into_iter().enumerate() {
        if let Some(mask) = mask(&format!("/proc/{pid}/task/{tid}/status")) {
            seen.insert(position, mask);
        }
    }
}

/// The affinity of each rank now, for those that can be seen.
fn look_at_ranks(
    environs: &mut Environs,
    launcher: u32,
    mark: &str,
    seen: &mut BTreeMap<usize, CpuSet>,
) {
    let mark = format!("{MARK}={mark}");
    for (pid, environ) in environs.since(topology::Pid(launcher)) {
        let marked = environ
            .split(|byte| *byte == 0)
            .any(|word| word == mark.as_bytes());
        let rank = marked.then(|| procfs::environ::parse(&environ, pid));
        let rank = rank
            .flatten()
            .and_then(|rank| usize::try_from(rank.rank).ok());
        if let Some(rank) = rank
            && let Some(mask) = mask(&format!("/proc/{pid}/status"))
        {
            seen.insert(rank, mask);
        }
    }
}

/// What came out, against what was predicted.
fn outcome(plan: &Plan, seen: &BTreeMap<usize, CpuSet>) -> String {
    let (word, all) = (plan.level.word(), plan.places.len());
    let mut held = 0;
    let mut elsewhere = None;
    for (number, place) in plan.places.iter().enumerate() {
        let planned: CpuSet = place.cpus.iter().copied().map(CpuId).collect();
        match seen.get(&number) {
            Some(mask) if *mask == planned => held += 1,
            Some(mask) if elsewhere.is_none() => {
                elsewhere = Some(format!(
                    "; {word} {number} had `{mask}`, planned `{planned}`"
                ));
            }
            _ => {}
        }
    }
    let unseen = (0..all).filter(|number| !seen.contains_key(number)).count();
    let (after, before) = (plan.cost_after, plan.cost_before);
    let cost = match held == all {
        true => format!("so the cost was {after} as predicted (core by core {before})"),
        false => format!("the predicted cost {after} (core by core {before}) is not confirmed"),
    };
    let missed = match unseen {
        0 => String::new(),
        1 => "; 1 was not seen".to_owned(),
        _ => format!("; {unseen} were not seen"),
    };
    let elsewhere = elsewhere.unwrap_or_default();
    format!("{held} of {all} {word}s were where the plan has them{elsewhere}{missed}; {cost}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(places: u32) -> Plan {
        let place = |core: u32| control::plan::Place {
            machine: 0,
            node: 0,
            core,
            cpus: vec![core],
        };
        Plan {
            format: 1,
            made_by: String::new(),
            policy: "deloc".to_owned(),
            level: Level::Message,
            machines: vec![control::plan::Machine {
                name: "this".to_owned(),
                fingerprint: "0".repeat(16),
                nodes: 1,
                cores: 2,
                cpus: 2,
            }],
            places: (0..places).map(place).collect(),
            cost_before: 7,
            cost_after: 5,
        }
    }

    #[test]
    fn what_held_is_told_and_what_did_not() {
        let mask = |list: &str| CpuSet::parse_list(list).unwrap();
        let told = |seen: &[(usize, &str)]| {
            let seen = seen.iter().map(|(number, list)| (*number, mask(list)));
            outcome(&plan(2), &seen.collect())
        };
        assert!(told(&[(0, "0"), (1, "1")]).contains("2 of 2 ranks"));
        assert!(told(&[(0, "0"), (1, "1")]).contains("5 as predicted"));
        assert!(told(&[(0, "0"), (1, "0-1")]).contains("rank 1 had `0-1`, planned `1`"));
        assert!(told(&[]).contains("2 were not seen"));
        assert!(told(&[(0, "0")]).contains("1 was not seen"));
    }

    #[test]
    fn another_machine_is_refused_with_what_differs() {
        let machine = topology::load_text("2x2@10,21", "test").unwrap();
        let failure = is_for(&plan(2), &machine).unwrap_err();
        assert_eq!(failure.kind, ErrorKind::Conflict);
        for part in [
            "fingerprint 0000000000000000, here",
            "nodes 1, here 2",
            "cores 2, here 4",
        ] {
            assert!(failure.message.contains(part), "{failure}");
        }
    }

    #[test]
    fn flags_that_contradict_the_plan_are_refused() {
        let fit = |line: &str| {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            is_fit(&plan(2), &words, Launcher::OpenMpi4)
        };
        fit("-n 2 ./a").unwrap();
        fit("--oversubscribe -np 2 ./a").unwrap();
        fit("--ntasks=2 ./a").unwrap();
        let words = ["-c", "4", "-n", "2", "./a"].map(OsString::from);
        is_fit(&plan(2), &words, Launcher::Slurm).unwrap();
        for (line, part) in [
            ("-n 3 ./a", "`3` ranks"),
            ("./a", "no number"),
            ("-n 2 --bind-to core ./a", "`--bind-to`"),
            ("-n 2 -rankfile x ./a", "`-rankfile`"),
            ("-n 2 --mapby=core ./a", "`--mapby=core`"),
            (
                "-n 2 --mca hwloc_base_binding_policy none ./a",
                "`hwloc_base_binding_policy`",
            ),
            ("-genv I_MPI_PIN_DOMAIN core -n 2 ./a", "`I_MPI_PIN_DOMAIN`"),
        ] {
            let failure = fit(line).unwrap_err();
            assert!(failure.message.contains(part), "{failure}");
        }
    }

    #[test]
    fn variables_that_contradict_the_plan_are_refused() {
        let alone = |name: &str| is_alone(["PATH", name].map(str::to_owned).into_iter(), places);
        for harmless in [
            "OMPI_MCA_rmaps_base_oversubscribe",
            "I_MPI_PIN_RESPECT_CPUSET",
            "I_MPI_DEBUG",
        ] {
            alone(harmless).unwrap();
        }
        for name in [
            "PRTE_MCA_hwloc_default_binding_policy",
            "OMPI_MCA_rmaps_base_mapping_policy",
            "I_MPI_PIN",
            "I_MPI_PIN_PROCESSOR_LIST",
        ] {
            let failure = alone(name).unwrap_err();
            assert!(failure.message.contains(name), "{failure}");
        }
    }
}
