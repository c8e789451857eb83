//! Undo under chaos: threads born 500 a second, children, exec by threads that are not the first, numbers that wrap, cpusets
//! that move, and a mover that is killed at any moment. After each undo every thread has the mask it would have without us.
//!
//! `NUMAD_CHAOS_ROUNDS` and `NUMAD_CHAOS_SEED` make it longer, or the same again; `make soak` does so.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::io::Read as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use numad_core::{AttachmentId, Host as _};
use procfs::{Presence, Reader};
use topology::{CpuId, Pid, Tid};

use crate::fake::{bind_action, scratch, set};
use crate::privileged::{Group, Other, ground, keys_of, live, only};
use crate::{Kernel as _, Linux, Mask, ProcessKey, Scope};

/// Numbers without a pattern from a seed (splitmix64): the same chaos again, as far as the kernel lets it be.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (word ^ (word >> 31)) % bound
    }

    fn millis(&mut self, bound: u64) -> Duration {
        Duration::from_millis(self.below(bound))
    }
}

fn from_environment(name: &str) -> Option<u64> {
    env::var(name).ok()?.parse().ok()
}

fn number(name: &str) -> u64 {
    from_environment(name).unwrap()
}

/// Plays the roles of this file; called by the test that is the entry of other processes.
pub(crate) fn play(role: &str) {
    match role {
        "chaos" => role_chaos(),
        "chaos-child" => role_child(),
        "chaos-mover" => role_mover(),
        "chaos-house" => role_house(),
        _ => {}
    }
}

/// Makes threads and children without end, until its standard input is closed.
fn role_chaos() {
    if let Ok(own) = env::var("NUMAD_CHAOS_OWN") {
        let own = set(&own);
        let tid = Tid(std::process::id());
        // Both this thread, of which all others are made, and the first.
        Linux.set_affinity(tid, Mask::These(&own)).unwrap();
        Linux
            .set_affinity(Tid(gettid()), Mask::These(&own))
            .unwrap();
    }
    thread::spawn(|| {
        drop(std::io::stdin().read_to_end(&mut Vec::new()));
        nix::sys::signal::raise(nix::sys::signal::Signal::SIGKILL).unwrap();
    });
    println!("ready");
    let mut dice = Dice(number("NUMAD_CHAOS_SEED"));
    let mut made = 0_u64;
    loop {
        let (life, again) = (dice.millis(40), dice.below(4) == 0);
        let small = || thread::Builder::new().stack_size(128 << 10);
        let born = small().spawn(move || {
            thread::sleep(life);
            if again {
                drop(small().spawn(move || thread::sleep(life)));
            }
        });
        drop(born);
        made += 1;
        if made.is_multiple_of(50) {
            let seed = dice.below(1 << 30);
            thread::spawn(move || child_of(seed));
        }
        thread::sleep(Duration::from_millis(2));
    }
}

fn gettid() -> u32 {
    u32::try_from(nix::unistd::gettid().as_raw()).unwrap()
}

fn this_test(role: &str) -> Command {
    let mut command = Command::new(env::current_exe().unwrap());
    command
        .args(["--exact", "privileged::plays_a_role", "--nocapture"])
        .env("NUMAD_TEST_ROLE", role)
        .stdout(Stdio::null());
    command
}

fn child_of(seed: u64) {
    let mut command = this_test("chaos-child");
    command.env("NUMAD_CHAOS_SEED", seed.to_string());
    if let Ok(mut child) = command.stdin(Stdio::null()).spawn() {
        drop(child.wait());
    }
}

/// Some threads for a while; then half of them let a thread that is not the first become another program.
fn role_child() {
    let mut dice = Dice(number("NUMAD_CHAOS_SEED"));
    for _ in 0..dice.below(5) {
        let life = dice.millis(300);
        thread::spawn(move || thread::sleep(life));
    }
    thread::sleep(dice.millis(150));
    if dice.below(2) == 0 {
        let caller = thread::spawn(|| drop(Command::new("sleep").arg("0.2").exec()));
        drop(caller.join());
    }
    thread::sleep(dice.millis(150));
}

/// Binds every thread of a program, children included, round and round until it is killed.
fn role_mover() {
    let target = Pid(u32::try_from(number("NUMAD_TEST_TARGET")).unwrap());
    let mut live = live(Path::new(&env::var("NUMAD_TEST_JOURNAL").unwrap()));
    let cpus: Vec<CpuId> = set(&env::var("NUMAD_TEST_CPUS").unwrap()).iter().collect();
    println!("ready");
    for &cpu in cpus.iter().cycle() {
        for pid in family(target) {
            if let Ok(Presence::Here(start)) = Reader::new("/").process_start(pid) {
                live.follow(AttachmentId(1), &[ProcessKey { pid, start }]);
            }
            for key in keys_of(pid) {
                live.perform(&bind_action(key, &only(cpu)));
                println!("bound");
            }
        }
        live.prune();
    }
}

/// A process and all below it.
fn family(target: Pid) -> Vec<Pid> {
    let parents = Reader::new("/").parents().unwrap();
    let mut family = vec![target];
    let mut next = 0;
    while let Some(&parent) = family.get(next) {
        let children = parents.iter().filter(|(_, of)| *of == parent);
        family.extend(children.map(|(pid, _)| *pid));
        next += 1;
    }
    family
}

/// What the kernel says of a thread that is named by process and thread.
fn line_of(key: &str) -> String {
    let (pid, tid) = key.split_once('/').unwrap_or((key, key));
    fs::read_to_string(format!("/proc/{pid}/task/{tid}/stat")).unwrap_or_default()
}

/// Every thread of a program that has not the mask it would have without us, with the mask.
fn bent(target: Pid, natural: &str) -> BTreeMap<String, String> {
    let threads = family(target).into_iter().flat_map(keys_of);
    let masks = threads.filter_map(|key| {
        let mask = Linux.affinity(key.tid).ok()?.to_string();
        Some((key.to_string(), mask))
    });
    masks.filter(|(_, mask)| mask != natural).collect()
}

/// The rounds, in a namespace of numbers of their own.
fn role_house() {
    let Some(cpus) = ground() else { return };
    let seed = number("NUMAD_CHAOS_SEED");
    let rounds = number("NUMAD_CHAOS_ROUNDS");
    let bound: u32 = fs::read_to_string("/proc/sys/kernel/pid_max")
        .unwrap()
        .trim()
        .parse()
        .unwrap();
    thread::spawn(move || {
        loop {
            // Soon after that the numbers begin again.
            let last = (bound - 40).to_string();
            drop(fs::write("/proc/sys/kernel/ns_last_pid", last));
            thread::sleep(Duration::from_millis(150));
        }
    });
    let mut dice = Dice(seed);
    let both = format!("{},{}", cpus[0], cpus[1]);
    let both = set(&both).to_string();
    // One program without masks of its own, and one with; ours are never like the latter's.
    let programs = [
        (None, both.clone(), both.clone()),
        (
            Some(cpus[0].to_string()),
            cpus[1].to_string(),
            cpus[0].to_string(),
        ),
    ];
    for (own, ours, natural) in programs {
        // Of threads with masks of their own a cpuset of one processor leaves too little to tell: docs/undo.md.
        let group = own.is_none().then(|| Group::new(&both)).flatten();
        let mut environment = vec![("NUMAD_CHAOS_SEED", dice.below(1 << 30).to_string())];
        environment.extend(own.map(|own| ("NUMAD_CHAOS_OWN", own)));
        let target = Other::start("chaos", &environment, None);
        if let Some(group) = &group {
            group.write("cgroup.procs", &target.pid().to_string());
        }
        let story = Story {
            target: &target,
            group: group.as_ref(),
            cpus: &cpus,
            ours: &ours,
            natural: &natural,
        };
        for round in 0..rounds {
            story.round(&format!("round {round} of seed {seed}"), &mut dice);
        }
        drop(target);
        // Its children end by themselves, and the group cannot be removed before.
        while group.as_ref().is_some_and(|group| !group.is_empty()) {
            thread::yield_now();
        }
    }
    println!("done");
}

/// A program in chaos.
struct Story<'a> {
    target: &'a Other,
    /// Its cpuset, where that is to move.
    group: Option<&'a Group>,
    cpus: &'a [CpuId],
    /// Processors that its threads are bound to.
    ours: &'a str,
    /// The mask that they have without us.
    natural: &'a str,
}

impl Story<'_> {
    /// A mover begins, is killed, and is undone.
    fn round(&self, name: &str, dice: &mut Dice) {
        let directory = scratch("chaos");
        let arguments = [
            ("NUMAD_TEST_TARGET", self.target.pid().to_string()),
            ("NUMAD_TEST_JOURNAL", directory.display().to_string()),
            ("NUMAD_TEST_CPUS", self.ours.to_owned()),
        ];
        let mut mover = Other::start("chaos-mover", &arguments, None);
        for _ in 0..1 + dice.below(60) {
            mover.wait_for("bound");
        }
        let group = self.group.filter(|_| dice.below(3) == 0);
        if let Some(group) = group {
            group.write("cpuset.cpus", &self.cpus[1].to_string());
        }
        drop(mover);
        // For whoever has to find out what was missed.
        let rows = fs::read_to_string(directory.join("journal")).unwrap();
        let mut live = live(&directory);
        let mut report = live.undo(&Scope::All);
        if let Some(group) = group {
            group.write("cpuset.cpus", self.natural);
            live.prune();
            report = live.undo(&Scope::All);
        }
        assert!(report.is_complete(), "{name}: {report:?}");
        let (natural, bent) = (self.natural, bent(self.target.pid(), self.natural));
        assert!(
            bent.is_empty(),
            "{name}: not `{natural}`: {bent:?} {report:?}\n{}\n{rows}",
            bent.keys().map(|key| line_of(key)).collect::<String>()
        );
        assert_eq!(live.journal().open_rows(), 0, "{name}: {report:?}");
        drop(live);
        fs::remove_dir_all(directory).unwrap();
    }
}

#[test]
fn privileged_chaos_leaves_no_thread_bent() {
    if ground().is_none() {
        return;
    }
    let seed = from_environment("NUMAD_CHAOS_SEED").unwrap_or(20);
    let rounds = from_environment("NUMAD_CHAOS_ROUNDS").unwrap_or(10);
    println!("chaos of seed {seed}, {rounds} rounds each");
    let house = this_test("chaos-house");
    let mut command = Command::new("unshare");
    command
        .args(["--pid", "--fork", "--kill-child", "--mount-proc"])
        .arg(house.get_program())
        .args(house.get_args())
        .env("NUMAD_TEST_ROLE", "chaos-house")
        .env("NUMAD_CHAOS_SEED", seed.to_string())
        .env("NUMAD_CHAOS_ROUNDS", rounds.to_string());
    let probe = Command::new("unshare")
        .args(["--pid", "--fork", "--mount-proc", "true"])
        .status();
    if !probe.is_ok_and(|status| status.success()) {
        println!("skipped: needs to make a namespace of numbers");
        return;
    }
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && said.contains("done"),
        "seed {seed}: {said}\n{complained}"
    );
}
