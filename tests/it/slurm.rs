//! A Slurm in a folder of its own takes what plans are exported as, and gives the affinity that they say.
//!
//! Its key, socket, ports, state and logs are its own: one that is installed and running here is not touched. Two
//! `slurmd` on this host are the nodes `n1` and `n2`, which Debian's build allows.

use std::fs::{self, Permissions};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use nix::sys::signal::{self, Signal};
use serde_json::Value;
use topology::CpuSet;

use crate::house::{pid_of, privileged, wait_until};
use crate::plan::{Desk, run};

/// Whether it is there; else says that the test is skipped.
fn has_slurm() -> bool {
    // srun fails without settings, even when only its version is wanted.
    let is_there = |tool: &&str| Command::new(tool).arg("-V").output().is_ok();
    let there = ["slurmctld", "slurmd", "srun", "munged", "setpriv"]
        .iter()
        .all(is_there);
    if !there {
        println!(
            "skipped: Slurm is not installed; `scripts/setup slurmctld slurmd slurm-client munge`"
        );
    }
    there && privileged()
}

/// Daemons that end with the test, the first last; the kernel kills them if the test is killed.
struct Slurm<'a> {
    desk: &'a Desk,
    daemons: Vec<Child>,
}

impl<'a> Slurm<'a> {
    fn start(desk: &'a Desk) -> Self {
        let mut slurm = Self {
            desk,
            daemons: Vec::new(),
        };
        let file = |name: &str| {
            desk.file(name)
                .into_os_string()
                .into_string()
                .expect("UTF-8")
        };
        for folder in ["state", "spool.n1", "spool.n2"] {
            fs::create_dir(desk.file(folder)).expect("a folder");
        }
        fs::write(desk.file("slurm.conf"), settings(&desk.folder)).expect("a file");
        fs::write(desk.file("plugstack.conf"), "").expect("a file");
        let key: String = format!("{:?} {}", std::time::SystemTime::now(), std::process::id());
        fs::write(desk.file("munge.key-file"), key.repeat(64)).expect("a file");
        let own = Permissions::from_mode(0o400);
        fs::set_permissions(desk.file("munge.key-file"), own).expect("our file");
        let names = ["key-file", "pid-file", "log-file", "seed-file"];
        let words = names.map(|name| format!("--{name}={}", file(&format!("munge.{name}"))));
        let mut words = words.to_vec();
        words.extend([
            format!("--socket={}", file("munge")),
            "--foreground".to_owned(),
        ]);
        slurm.daemon(
            "munged",
            &words.iter().map(String::as_str).collect::<Vec<_>>(),
        );
        wait_until("munged listens", || desk.file("munge").exists());
        slurm.daemon("slurmctld", &["-D", "-c"]);
        slurm.daemon("slurmd", &["-D", "-N", "n1"]);
        slurm.daemon("slurmd", &["-D", "-N", "n2"]);
        wait_until("both nodes are idle", || {
            slurm.all_run();
            let output = slurm.client("sinfo", &["-h", "-N", "-o", "%N %T"]);
            output.is_ok_and(|told| told.stdout == b"n1 idle\nn2 idle\n")
        });
        slurm
    }

    fn daemon(&mut self, program: &str, words: &[&str]) {
        let log = fs::File::create(self.desk.file(&format!("{program}.out"))).expect("a log");
        let child = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", program])
            .args(words)
            .env("SLURM_CONF", self.desk.file("slurm.conf"))
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a log"))
            .stderr(log)
            .spawn()
            .expect("setpriv runs");
        self.daemons.push(child);
    }

    /// Fails where one has ended, with what it wrote.
    #[track_caller]
    fn all_run(&mut self) {
        for child in &mut self.daemons {
            let ended = child.try_wait().expect("it is our child");
            let logs = ["munged.out", "slurmctld.out", "slurmd.out"];
            let read = |name: &&str| fs::read_to_string(self.desk.file(name)).unwrap_or_default();
            assert!(
                ended.is_none(),
                "{}",
                logs.iter().map(read).collect::<String>()
            );
        }
    }

    fn client(&self, program: &str, words: &[&str]) -> std::io::Result<Output> {
        Command::new(program)
            .args(words)
            .env("SLURM_CONF", self.desk.file("slurm.conf"))
            .stdin(Stdio::null())
            .output()
    }

    /// The node and processors of each rank, when a line of an export is carried out.
    #[track_caller]
    fn carried_out(&self, line: &str, hostfile: Option<&Path>) -> Vec<(String, Vec<u64>)> {
        let words: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(words[0], "srun", "{line}");
        let tell = "echo rank $SLURM_PROCID $SLURMD_NODENAME \
            $(grep Cpus_allowed_list /proc/self/status | cut -f2)";
        let mut command = Command::new("srun");
        command
            .args(&words[1..words.len() - 1])
            .args(["sh", "-c", tell])
            .env("SLURM_CONF", self.desk.file("slurm.conf"))
            .stdin(Stdio::null());
        if let Some(hostfile) = hostfile {
            command.env("SLURM_HOSTFILE", hostfile);
        }
        let output = command.output().expect("srun runs");
        assert!(output.status.success(), "{line}: {output:?}");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let rows = (0..text.lines().count()).map(|rank| {
            let start = format!("rank {rank} ");
            let rest = text.lines().find_map(|line| line.strip_prefix(&start));
            let (node, list) = rest.and_then(|rest| rest.split_once(' ')).expect(&text);
            let set = CpuSet::parse_list(list).expect("a list");
            let cpus = set.iter().map(|cpu| u64::from(cpu.0)).collect();
            (node.to_owned(), cpus)
        });
        rows.collect()
    }
}

impl Drop for Slurm<'_> {
    fn drop(&mut self) {
        for mut child in self.daemons.drain(..).rev() {
            // One that has ended by itself meanwhile is as good.
            if let Err(errno) = signal::kill(pid_of(&child), Signal::SIGTERM) {
                println!("{errno}");
            }
            drop(child.wait());
        }
    }
}

/// The settings of a Slurm of two nodes that are both this machine.
fn settings(folder: &Path) -> String {
    let output = Command::new("slurmd")
        .arg("-C")
        .output()
        .expect("slurmd runs");
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    let wanted = [
        "CPUs=",
        "Boards=",
        "SocketsPerBoard=",
        "CoresPerSocket=",
        "ThreadsPerCore=",
    ];
    let shape: Vec<&str> = told
        .split_whitespace()
        .filter(|word| wanted.iter().any(|start| word.starts_with(start)))
        .collect();
    let shape = shape.join(" ");
    let host = told
        .split_whitespace()
        .find_map(|word| word.strip_prefix("NodeName="));
    let host = host.expect("the name of this machine");
    // All are held until all are known, so that no two are the same.
    let listen = |_| TcpListener::bind("127.0.0.1:0").expect("a port");
    let listeners: Vec<TcpListener> = (0..3).map(listen).collect();
    let port = |at: usize| listeners[at].local_addr().expect("an address").port();
    let at = folder.display();
    let nodes: String = ["n1", "n2"]
        .iter()
        .zip(1..)
        .map(|(node, number)| {
            let port = port(number);
            format!("NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} {shape}\n")
        })
        .collect();
    format!(
        "ClusterName=numad\nSlurmctldHost={host}(127.0.0.1)\nSlurmctldPort={}\n\
         AuthType=auth/munge\nAuthInfo=socket={at}/munge\nCredType=cred/munge\n\
         SlurmUser=root\nSlurmdUser=root\nStateSaveLocation={at}/state\nSlurmdSpoolDir={at}/spool.%n\n\
         SlurmctldPidFile={at}/slurmctld.pid\nSlurmdPidFile={at}/slurmd.%n.pid\n\
         SlurmctldLogFile={at}/slurmctld.log\nSlurmdLogFile={at}/slurmd.%n.log\n\
         ProctrackType=proctrack/linuxproc\nTaskPlugin=task/affinity\n\
         SelectType=select/cons_tres\nSelectTypeParameters=CR_Core\nReturnToService=2\n\
         MpiDefault=none\nPlugStackConfig={at}/plugstack.conf\n{nodes}\
         PartitionName=p Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:4\n",
        port(0)
    )
}

#[test]
fn privileged_slurm_takes_masks_and_machines() {
    if !has_slurm() {
        return;
    }
    let Some(desk) = Desk::new("slurm", "message") else {
        return;
    };
    let slurm = Slurm::start(&desk);
    let found = slurm.carried_out(&desk.exported("slurm"), None);
    let found: Vec<Vec<u64>> = found.into_iter().map(|(_, cpus)| cpus).collect();
    assert_eq!(found, desk.planned());

    let release = desk.file("release");
    let script = format!(
        "echo rank; until test -e {}; do sleep 0.1; done",
        release.display()
    );
    let command = ["srun", "-n", "2", "sh", "-c", &script];
    let (_, err) = run(&desk, &command, |text| text.lines().count() == 2);
    assert!(err.contains("2 of 2 ranks were where"), "{err}");

    // The same places on two machines, in another order: ranks 1 and 2 are on the first, 0 and 3 on the second.
    let text = fs::read_to_string(desk.file("plan")).expect("the plan");
    let mut plan: Value = serde_json::from_str(&text).expect("JSON");
    let machine = |name: &str| {
        let mut machine = plan["machines"][0].clone();
        machine["name"] = name.into();
        machine
    };
    let place = |of: usize, machine: u64| {
        let mut place = plan["places"][of].clone();
        place["machine"] = machine.into();
        place
    };
    let machines = vec![machine("n1"), machine("n2")];
    let places = vec![place(0, 1), place(0, 0), place(1, 0), place(1, 1)];
    plan["machines"] = machines.into();
    plan["places"] = places.into();
    fs::write(desk.file("plan"), plan.to_string()).expect("a file");
    fs::write(desk.file("hosts"), desk.exported("slurm-hostfile")).expect("a file");
    let found = slurm.carried_out(&desk.exported("slurm"), Some(&desk.file("hosts")));
    let names = ["n2", "n1", "n1", "n2"].map(str::to_owned);
    let planned: Vec<(String, Vec<u64>)> = names.into_iter().zip(desk.planned()).collect();
    assert_eq!(found, planned);
}
