//! Plans, told to the tools that are installed: each gives the affinity that the plan says.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::house::{binary, wait_until};

/// A folder of its own, with a matrix and a plan of two on this machine.
pub(crate) struct Desk {
    pub(crate) folder: PathBuf,
}

impl Desk {
    pub(crate) fn new(name: &str, level: &str) -> Option<Self> {
        let folder = std::env::temp_dir().join(format!("numad-plan-{}-{name}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let desk = Self { folder };
        fs::write(desk.file("matrix.csv"), "0,5\n5,0\n").expect("a file");
        let (matrix, plan) = (desk.file("matrix.csv"), desk.file("plan"));
        let output = ctl()
            .arg("plan")
            .arg(matrix)
            .args(["--level", level, "-o"])
            .arg(plan)
            .output()
            .expect("numadctl runs");
        if String::from_utf8_lossy(&output.stderr).contains("usable cores") {
            println!("skipped: this machine has one core");
            return None;
        }
        assert!(output.status.success(), "{output:?}");
        // So that nobody gets the right places by chance.
        let text = fs::read_to_string(desk.file("plan")).expect("the plan");
        let mut plan: Value = serde_json::from_str(&text).expect("JSON");
        if let Some(places) = plan["places"].as_array_mut() {
            places.reverse();
        }
        fs::write(desk.file("plan"), plan.to_string()).expect("a file");
        Some(desk)
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// The processors of each place.
    pub(crate) fn planned(&self) -> Vec<Vec<u64>> {
        let text = fs::read_to_string(self.file("plan")).expect("the plan");
        let plan: Value = serde_json::from_str(&text).expect("JSON");
        let places = plan["places"].as_array().cloned().unwrap_or_default();
        let cpus = places.iter().map(|place| place["cpus"].as_array().cloned());
        let cpus = cpus.map(|cpus| cpus.into_iter().flatten().filter_map(|cpu| cpu.as_u64()));
        cpus.map(Iterator::collect).collect()
    }

    pub(crate) fn exported(&self, format: &str) -> String {
        let output = ctl()
            .args(["export", "--format", format, "--plan"])
            .arg(self.file("plan"))
            .output()
            .expect("numadctl runs");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).expect("text")
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.folder) {
            println!("{}: {error}", self.folder.display());
        }
    }
}

fn ctl() -> Command {
    let mut command = Command::new(binary("numadctl"));
    for name in ["OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] {
        command.env(name, "1");
    }
    command
}

fn is_there(tool: &str, arguments: &[&str]) -> bool {
    let output = Command::new(tool).args(arguments).output();
    let there = output.is_ok_and(|output| output.status.success());
    if !there {
        println!("skipped: `{tool}` is not installed");
    }
    there
}

/// A shell that tells its rank and processors.
pub(crate) const TELL: &str = "echo rank ${OMPI_COMM_WORLD_RANK:-$PMI_RANK}: \
    $(grep Cpus_allowed_list /proc/self/status | cut -f2)";

/// The processors that each of two ranks told.
#[track_caller]
pub(crate) fn told(output: &Output) -> Vec<Vec<u64>> {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{output:?}");
    (0..2)
        .map(|rank| {
            let start = format!("rank {rank}: ");
            let list = text.lines().find_map(|line| line.strip_prefix(&start));
            let list = list.unwrap_or_else(|| panic!("no rank {rank} in {text}"));
            let set = topology::CpuSet::parse_list(list.trim()).expect("a list");
            set.iter().map(|cpu| u64::from(cpu.0)).collect()
        })
        .collect()
}

#[test]
fn openmpi_takes_the_rankfile() {
    if !is_there("mpirun.openmpi", &["--version"]) {
        return;
    }
    let Some(desk) = Desk::new("openmpi", "message") else {
        return;
    };
    fs::write(desk.file("rankfile"), desk.exported("rankfile")).expect("a file");
    let output = Command::new("mpirun.openmpi")
        .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
        .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
        .arg("--rankfile")
        .arg(desk.file("rankfile"))
        .args(["-n", "2", "sh", "-c", TELL])
        .output()
        .expect("mpirun runs");
    assert_eq!(told(&output), desk.planned());
}

/// What starts a command "on another host": here, with the host's name in the environment. Each has a folder for what it
/// keeps in /tmp, or the daemons of both would make the same one there at the same time.
const AGENT: &str = "#!/bin/sh
while [ \"${1#-}\" != \"$1\" ]; do shift; done
NUMAD_TEST_HOST=$1 TMPDIR=${0%/*}/$1; export NUMAD_TEST_HOST TMPDIR; shift
mkdir -p \"$TMPDIR\"
exec sh -c \"$*\"
";

/// Places four ranks on two hosts, which both are this machine, and compares host and processors.
pub(crate) fn hosts_hold(desk: &Desk, format: &str, command: &mut Command) {
    let plan = fs::read_to_string(desk.file("plan")).expect("the plan");
    let mut plan: Value = serde_json::from_str(&plan).expect("JSON");
    let place = |of: usize, machine: u64| {
        let mut place = plan["places"][of].clone();
        place["machine"] = machine.into();
        place
    };
    let places = vec![place(0, 1), place(0, 0), place(1, 0), place(1, 1)];
    let machine = |name: &str| {
        let mut machine = plan["machines"][0].clone();
        machine["name"] = name.into();
        machine
    };
    let machines = vec![machine("m0"), machine("m1")];
    plan["places"] = places.into();
    plan["machines"] = machines.into();
    fs::write(desk.file("plan"), plan.to_string()).expect("a file");
    fs::write(desk.file("rankfile"), desk.exported(format)).expect("a file");
    let script = format!("{TELL} $NUMAD_TEST_HOST");
    let output = command
        .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
        .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
        .args(["--host", "m0:2,m1:2", "-n", "4", "sh", "-c", &script])
        .output()
        .expect("mpirun runs");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    let list = |cpus: &Vec<u64>| -> topology::CpuSet {
        let cpus = cpus
            .iter()
            .map(|cpu| u32::try_from(*cpu).expect("a processor"));
        cpus.map(topology::CpuId).collect()
    };
    let told: Vec<String> = desk
        .planned()
        .iter()
        .zip(["m1", "m0", "m0", "m1"])
        .enumerate()
        .map(|(rank, (cpus, host))| format!("rank {rank}: {} {host}", list(cpus)))
        .collect();
    assert_eq!(lines, told);
}

impl Desk {
    /// The settings of a Slurm that was started here, if one was.
    fn slurm(&self) -> Option<(&'static str, PathBuf)> {
        let settings = self.file("slurm.conf");
        settings.exists().then_some(("SLURM_CONF", settings))
    }

    /// The program that `AGENT` is.
    pub(crate) fn agent(&self) -> PathBuf {
        let agent = self.file("agent");
        fs::write(&agent, AGENT).expect("a file");
        fs::set_permissions(&agent, fs::Permissions::from_mode(0o755)).expect("our file");
        agent
    }
}

#[test]
fn openmpi_takes_rankfiles_of_several_hosts() {
    if !is_there("mpirun.openmpi", &["--version"]) {
        return;
    }
    let Some(desk) = Desk::new("openmpi-hosts", "message") else {
        return;
    };
    let mut command = Command::new("mpirun.openmpi");
    command.args(["--mca", "plm_rsh_agent"]).arg(desk.agent());
    command.arg("--rankfile").arg(desk.file("rankfile"));
    hosts_hold(&desk, "rankfile", &mut command);
}

#[test]
fn hydra_takes_the_binding() {
    if !is_there("mpiexec.hydra", &["--version"]) {
        return;
    }
    let Some(desk) = Desk::new("hydra", "message") else {
        return;
    };
    let line = desk.exported("hydra");
    let words: Vec<&str> = line.split_whitespace().collect();
    let output = Command::new("mpiexec.hydra")
        .args(&words[1..words.len() - 1])
        .args(["sh", "-c", TELL])
        .output()
        .expect("mpiexec runs");
    assert_eq!(told(&output), desk.planned());
}

/// Carries out each line of a format, with a look at the processors in the program's place.
fn lines_hold(tool: &str) {
    // numactl knows no `--version`.
    let harmless = match tool {
        "numactl" => "--show",
        _ => "--version",
    };
    if !is_there(tool, &[harmless]) {
        return;
    }
    let Some(desk) = Desk::new(tool, "message") else {
        return;
    };
    let text = desk.exported(tool);
    assert_eq!(text.lines().count(), desk.planned().len(), "{text}");
    for (line, planned) in text.lines().zip(desk.planned()) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let output = Command::new(tool)
            .args(&words[1..words.len() - 1])
            .args(["grep", "Cpus_allowed_list", "/proc/self/status"])
            .output()
            .expect("it runs");
        assert!(output.status.success(), "{line}: {output:?}");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let list = text.split_whitespace().last().expect("a list");
        let set = topology::CpuSet::parse_list(list).expect("a list");
        let cpus: Vec<u64> = set.iter().map(|cpu| u64::from(cpu.0)).collect();
        assert_eq!(cpus, planned);
    }
}

#[test]
fn taskset_takes_its_lines() {
    lines_hold("taskset");
}

#[test]
fn numactl_takes_its_lines() {
    lines_hold("numactl");
}

/// Starts at the plan's places, waits for what `seen` wants in the output, lets go, and gives the last line.
pub(crate) fn run(desk: &Desk, command: &[&str], is_up: impl Fn(&str) -> bool) -> (String, String) {
    let (out, err) = (desk.file("out"), desk.file("err"));
    let mut child = ctl()
        .envs(desk.slurm())
        .args(["run", "--plan"])
        .arg(desk.file("plan"))
        .arg("--")
        .args(command)
        .stdin(Stdio::null())
        .stdout(fs::File::create(&out).expect("a file"))
        .stderr(fs::File::create(&err).expect("a file"))
        .spawn()
        .expect("numadctl runs");
    let read = |path: &Path| fs::read_to_string(path).unwrap_or_default();
    let mut ended = false;
    wait_until("all are up", || {
        ended = child.try_wait().expect("it is our child").is_some();
        ended || is_up(&read(&out))
    });
    assert!(!ended, "{}", read(&err));
    // It sleeps between two looks at its program: after some more, one was whole.
    let slept = || {
        let status = read(Path::new(&format!("/proc/{}/status", child.id())));
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        line.and_then(|count| count.trim().parse::<u64>().ok())
    };
    let before = slept().expect("it is there");
    wait_until("numadctl has looked", || {
        slept().is_some_and(|now| now > before + 5)
    });
    fs::write(desk.file("release"), "").expect("a file");
    let status = child.wait().expect("it is our child");
    assert!(status.success(), "{}", read(&err));
    (read(&out), read(&err))
}

#[test]
fn openmp_threads_run_where_the_plan_has_them() {
    if !is_there("gcc", &["--version"]) {
        return;
    }
    let Some(desk) = Desk::new("omp", "thread") else {
        return;
    };
    let program = desk.file("affinity");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/plan/affinity.c");
    let built = Command::new("gcc")
        .args(["-fopenmp", source, "-o"])
        .arg(&program)
        .status();
    assert!(built.is_ok_and(|status| status.success()));
    let release = desk.file("release");
    let command = [&program, &release].map(|path| path.to_str().expect("text"));
    let (out, err) = run(&desk, &command, |text| text.lines().count() == 2);
    for (number, cpus) in desk.planned().iter().enumerate() {
        let list: String = cpus.iter().map(|cpu| format!(" {cpu}")).collect();
        assert!(out.contains(&format!("thread {number}:{list}\n")), "{out}");
    }
    assert!(err.contains("2 of 2 threads were where"), "{err}");
}

#[test]
fn ranks_of_both_launchers_run_where_the_plan_has_them() {
    for launcher in ["mpirun.openmpi", "mpiexec.hydra"] {
        if !is_there(launcher, &["--version"]) {
            continue;
        }
        let Some(desk) = Desk::new(&format!("run-{launcher}"), "message") else {
            return;
        };
        let release = desk.file("release");
        let script = format!(
            "{TELL}; until test -e {}; do sleep 0.1; done",
            release.display()
        );
        let command = [launcher, "-n", "2", "sh", "-c", &script];
        let (_, err) = run(&desk, &command, |text| text.matches("rank ").count() == 2);
        assert!(err.contains("2 of 2 ranks were where"), "{launcher}: {err}");
    }
}

#[test]
fn what_cannot_be_started_is_refused_on_one_line() {
    let Some(desk) = Desk::new("refused", "message") else {
        return;
    };
    let plan = desk.file("plan");
    let refused = |path: &str, command: &[&str], code: i32, part: &str| {
        let output = ctl()
            .env("PATH", path)
            .args(["run", "--plan"])
            .arg(&plan)
            .arg("--")
            .args(command)
            .output()
            .expect("numadctl runs");
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{told}");
        assert!(told.contains(part) && told.lines().count() == 1, "{told}");
    };
    refused(
        "/nowhere",
        &["mpirun", "-n", "2", "true"],
        6,
        "`mpirun` is not found",
    );
    refused("/usr/bin:/bin", &["true"], 2, "no mpirun");
    let text = fs::read_to_string(&plan).expect("the plan");
    let mut value: Value = serde_json::from_str(&text).expect("JSON");
    value["machines"][0]["fingerprint"] = "0123456789abcdef".into();
    fs::write(&plan, value.to_string()).expect("a file");
    refused(
        "/usr/bin:/bin",
        &["mpirun", "-n", "2", "true"],
        7,
        "another machine: fingerprint",
    );
    let mut later = value.clone();
    later["format"] = 9.into();
    fs::write(&plan, later.to_string()).expect("a file");
    refused("/usr/bin:/bin", &["true"], 2, "format 9");
    let machine = value["machines"][0].clone();
    value["machines"] = Value::Array(vec![machine.clone(), machine]);
    fs::write(&plan, value.to_string()).expect("a file");
    refused(
        "/usr/bin:/bin",
        &["mpirun", "-n", "2", "true"],
        7,
        "`2` machines",
    );
    fs::write(&plan, &text[..text.len() / 2]).expect("a file");
    refused("/usr/bin:/bin", &["true"], 2, "no plan");
}
