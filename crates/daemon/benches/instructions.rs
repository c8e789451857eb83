//! Hot paths, one case a run, to be counted by valgrind: `scripts/instructions` runs and compares
//! them.
//!
//! Times on shared machines are noise; instructions are not. What a case prepares is not counted,
//! only what it does within [`lens`].

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::fs;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use actuator::Asker;
use actuator::journal::rows::ProcessKey;
use config::Config;
use control::Failure;
use control::rows::{AttachRequest, Finding, Target, UndoReport};
use numad::live::{Look, Residency};
use numad::log::{Level, Log};
use numad::peer::Peer;
use numad::shelf::Shelf;
use numad::steward::{
    Asked, Experiments, Hand, Machine as _, Meters, Opener, Parts, Scope, Steward, Stories, gate_of,
};
use numad_core::{
    Action, AttachOptions, AttachSpec, AttachmentId, Engine, EngineOptions, Host, IntervalLaw,
    Observation, Outcome, Record, Settings, Time,
};
use procfs::Reader;
use sampler::counters::{Counter, CounterOpener, CounterRefused, CounterSpec, Plan};
use sampler::decode::{Body, Decoded, Field, Layout, Trailer, Visitor, stream};
use sampler::{
    AttachRefused, Coverage, Covers, Drained, Losses, RateChange, Source, SourceStatus, Spending,
};
use sim::{Conditions, Faults, Workload, World, WorldSpec};
use topology::{CpuSet, Pid, StartTicks, Topology};

const PAGE_BYTES: u64 = 4096;
const WINDOW: Duration = Duration::from_millis(500);

/// What valgrind is told to count: everything between its beginning and its end.
#[inline(never)]
fn lens(work: &mut dyn FnMut()) {
    work();
    black_box(());
}

fn main() -> ExitCode {
    let asked: Vec<String> = std::env::args().skip(1).collect();
    match asked.first().map(String::as_str) {
        Some("--cases") => {
            #[expect(clippy::print_stdout, reason = "a list is what was asked for")]
            for case in cases() {
                println!("{case}");
            }
            ExitCode::SUCCESS
        }
        Some(case) if run(case) => ExitCode::SUCCESS,
        // As `cargo bench` calls it, too: it has nothing to say by itself.
        _ => {
            #[expect(clippy::print_stderr, reason = "a command's complaint")]
            {
                eprintln!("instructions: give one of `--cases`, or run scripts/instructions");
            }
            ExitCode::from(2)
        }
    }
}

fn cases() -> Vec<String> {
    let mut cases = vec!["decode".to_owned(), "fold".to_owned()];
    let policies = || policies::registry().iter().map(|factory| factory.name);
    for pages in [1_000, 65_000] {
        cases.extend(policies().map(|name| format!("close/{name}/{pages}")));
    }
    cases.extend(
        [
            "close/deloc/slices",
            "close/deloc/256",
            "close/auto/faults/16",
            "close/auto/256/8",
            "close/auto/256/10",
        ]
        .map(str::to_owned),
    );
    cases.extend(["fold/far", "look/first", "look/again", "status"].map(str::to_owned));
    cases
}

fn run(case: &str) -> bool {
    match case.split('/').collect::<Vec<_>>()[..] {
        ["decode"] => decode(),
        ["fold"] => fold(&program(64, "8M", 40_000)),
        ["fold", "far"] => fold(&program(64, "16G", 40_000)),
        ["close", policy, what] => return close(policy, what, 2),
        // A later window: some things are done not in every one.
        ["close", policy, what, window] => match window.parse() {
            Ok(window @ 1..=99) => return close(policy, what, window),
            _ => return false,
        },
        ["look", "first"] => look(0),
        ["look", "again"] => look(1),
        ["status"] => status(),
        _ => return false,
    }
    true
}

/// A thousand samples of eight fields, as the kernel writes them into a ring, twelve of them
/// wrapped.
fn decode() {
    const FIELDS: [Field; 8] = [
        Field::Ip,
        Field::Tid,
        Field::Time,
        Field::Addr,
        Field::Id,
        Field::StreamId,
        Field::Cpu,
        Field::Period,
    ];
    const SAMPLE: u32 = 9;
    const BYTES: u16 = 72;
    let fields = FIELDS.iter().fold(0, |bits, field| bits | field.bit());
    let layout = Layout::new(fields, Trailer::Absent).expect("known fields");
    let mut ring = Vec::new();
    for number in 0..1_000_u64 {
        ring.extend(SAMPLE.to_ne_bytes());
        ring.extend(0_u16.to_ne_bytes());
        ring.extend(BYTES.to_ne_bytes());
        for field in 0..8 {
            ring.extend((number * 977 + field).to_ne_bytes());
        }
    }
    let (first, second) = ring.split_at(36_020);
    let mut seen = Seen::default();
    lens(&mut || {
        stream(&layout, first, second, &mut seen).expect("whole records");
    });
    assert_eq!(seen.0, 1_000);
}

#[derive(Default)]
struct Seen(usize);

impl Visitor for Seen {
    fn record<B: Body>(&mut self, record: &Decoded<'_, B>) {
        if let Decoded::Sample(view) = record {
            black_box((view.pid_tid(), view.cpu()));
            for field in [Field::Time, Field::Addr, Field::Period] {
                black_box(view.number(field));
            }
            self.0 += 1;
        }
    }
}

/// Shuffled pairs on eight nodes; as many samples a second as are asked for.
fn program(threads: usize, memory: &str, samples_per_s: u32) -> WorldSpec {
    let topology = topology::synthetic::parse("8x8@10,21").expect("a machine");
    WorldSpec {
        topology: Arc::new(topology),
        workload: Workload::Pairs,
        threads,
        conditions: Conditions {
            memory: memory.parse().expect("a size"),
            samples_per_s: Some(samples_per_s),
            ..Conditions::default()
        },
        faults: Faults::NONE,
        cgroup_cpus: CpuSet::new(),
        seed: 1,
        balancing: false,
    }
}

/// The same with so many threads, each with a core of its own and 4 GiB.
fn far(threads: usize) -> WorldSpec {
    let cores = threads / 8;
    let topology = topology::synthetic::parse(&format!("8x{cores}@10,21")).expect("a machine");
    WorldSpec {
        topology: Arc::new(topology),
        ..program(threads, "4G", 40_000)
    }
}

struct Stage {
    world: World,
    engine: Engine,
    id: AttachmentId,
    pid: Pid,
}

impl Stage {
    fn new(policy: &str, spec: &WorldSpec) -> Self {
        let world = World::new(spec);
        let factory = policies::find(policy).expect("a policy of the registry");
        let settings = Settings::defaults(factory.settings);
        let pid = world.pids()[0];
        let topology: Arc<Topology> = Arc::clone(&spec.topology);
        let mut engine = Engine::new(topology, EngineOptions::for_pages_of(PAGE_BYTES));
        let attached = AttachSpec {
            pids: vec![pid],
            policy: (factory.build)(&settings, 1).expect("defaults make a policy"),
            options: AttachOptions {
                interval: IntervalLaw::OnDeLoc {
                    min: WINDOW,
                    max: WINDOW,
                    factor: 2.0,
                },
                require_gain: factory.seeks_gain,
                ..AttachOptions::default()
            },
        };
        let id = engine.handle_attach(world.now(), attached).expect("room");
        Self {
            world,
            engine,
            id,
            pid,
        }
    }

    /// A window's records.
    fn records(&mut self) -> Vec<Record> {
        let (mut all, mut some) = (Vec::new(), Vec::new());
        for _ in 0..WINDOW.as_nanos() / sim::world::STEP.as_nanos() {
            self.world.step(&mut some);
            all.append(&mut some);
        }
        all
    }

    /// Closes a window; what the world does meanwhile is not the engine's.
    fn close(&mut self, count: fn(&mut dyn FnMut())) {
        let mut wanted = Vec::new();
        count(&mut || wanted = self.engine.wanted_places(self.id, 16_384));
        let homes = wanted
            .iter()
            .map(|wanted| (wanted.page, self.world.home(self.pid, wanted.address)))
            .collect();
        let observation = Observation {
            programs: vec![self.world.observe(self.id, self.pid, homes)],
            free_bytes: self.world.free_memory(),
            online: self.world.online().clone(),
            ..Observation::default()
        };
        let now = self.world.now();
        count(&mut || self.engine.handle_observation(now, &observation));
        loop {
            let mut action = None;
            count(&mut || action = self.engine.poll_action());
            let Some(action) = action else { break };
            let outcome = self.world.perform(&action);
            count(&mut || self.engine.handle_outcome(now, &action, &outcome));
        }
        count(&mut || while black_box(self.engine.poll_event()).is_some() {});
    }
}

fn uncounted(work: &mut dyn FnMut()) {
    work();
}

/// The end of one of a program's windows, counted from 1; false for a program of another name. The
/// first allocates what is kept of it.
fn close(policy: &str, what: &str, window: u32) -> bool {
    let slices = |memory, samples_per_s| WorldSpec {
        workload: Workload::Slices,
        ..program(8, memory, samples_per_s)
    };
    let spec = match what {
        "1000" => program(8, "512K", 10_000),
        "65000" => program(64, "8M", 160_000),
        "slices" => slices("32M", 100_000),
        "faults" => slices("8M", 4_000),
        // How it grows with threads.
        threads => match threads.parse() {
            Ok(threads @ 8..=512) if threads % 8 == 0 => far(threads),
            _ => return false,
        },
    };
    let mut stage = Stage::new(policy, &spec);
    for number in 1..=window {
        let records = stage.records();
        stage.engine.handle_records(&records);
        stage.close(if number < window { uncounted } else { lens });
    }
    true
}

/// A window's samples, in a table that knows their pages and threads.
fn fold(spec: &WorldSpec) {
    let mut stage = Stage::new("none", spec);
    let records = stage.records();
    stage.engine.handle_records(&records);
    stage.close(uncounted);
    let records = stage.records();
    lens(&mut || stage.engine.handle_records(&records));
}

const THREADS: u32 = 5_000;
const MAPPINGS: u64 = 10_000;
const PROCESS: u32 = 70_000;

/// A look at a program with so many threads and mappings: the first, or the one after it.
fn look(before: usize) {
    let root = Root::filled();
    let mut look = root.look();
    let asked = [Asked {
        attachment: AttachmentId(0),
        members: vec![(Pid(PROCESS), StartTicks(242_978))],
        only_of: None,
        shown_to: None,
        threads_max: None,
        pages: Vec::new(),
    }];
    for _ in 0..before {
        black_box(look.observe(&asked));
    }
    let mut seen = Observation::default();
    lens(&mut || seen = look.observe(&asked));
    assert_eq!(seen.programs[0].tasks.len(), THREADS as usize);
}

fn machine() -> Arc<Topology> {
    Arc::new(topology::synthetic::parse("4x16@10,21").expect("a machine"))
}

/// An answer to `numadctl status` with a program of so many threads attached, as it goes over the
/// socket.
fn status() {
    let root = Root::filled();
    let config = Config::default();
    let (gate, _) = tokio::sync::watch::channel(gate_of(&config));
    let now = Arc::new(AtomicU64::new(1_000_000_000));
    let clock = {
        let now = Arc::clone(&now);
        Box::new(move || Time(now.load(Ordering::Relaxed)))
    };
    let log = Log::to_stderr(Level::Error);
    let shelf = Shelf::open(root.0.join("experiments")).expect("a directory of our own");
    let experiments = Experiments::new(shelf, &log);
    let parts = Parts {
        topology: machine(),
        measured: Box::new(|| None),
        page_bytes: PAGE_BYTES,
        machine: Box::new(root.look()),
        hand: Box::new(Nothing),
        opener: Box::new(Nothing),
        meters: Meters::new(Box::new(Nothing), Plan::default(), Vec::new()),
        config,
        files: Vec::new(),
        loader: Box::new(|| unreachable!("nobody reloads")),
        clock,
        log,
        gate,
    };
    let shelf = Shelf::open(root.0.join("history")).expect("a directory of our own");
    let stories = Stories::new(shelf, &Log::to_stderr(Level::Error));
    let mut steward = Steward::new(parts, experiments, stories);
    let request = AttachRequest {
        target: Target::Pids(vec![PROCESS]),
        policy: None,
        set: BTreeMap::new(),
        dry_run: false,
        for_ms: None,
    };
    steward
        .attach_found(Peer::DAEMON, &request, None)
        .expect("a program that is there");
    // A second, so that windows were closed.
    for _ in 0..10 {
        now.fetch_add(100_000_000, Ordering::Relaxed);
        steward.turn();
    }
    let mut answer = Vec::new();
    lens(&mut || {
        let status = steward.status(Peer::DAEMON);
        answer = serde_json::to_vec(&status).expect("rows are made to be sent");
    });
    assert!(!answer.is_empty());
}

/// Changes nothing and samples nothing.
#[derive(Debug)]
struct Nothing;

impl Host for Nothing {
    fn perform(&mut self, _action: &Action) -> Outcome {
        Outcome::Bound
    }
}

impl Hand for Nothing {
    fn undo(&mut self, _scope: &Scope, _breathe: &mut dyn FnMut()) -> UndoReport {
        UndoReport::default()
    }

    fn follow(&mut self, _attachment: AttachmentId, _processes: &[ProcessKey]) {}

    fn tidy(&mut self) {}

    fn open_rows(&self) -> u64 {
        0
    }

    fn take_pause_max_ns(&mut self) -> u64 {
        0
    }

    fn findings(&self) -> Vec<Finding> {
        Vec::new()
    }
}

impl Opener for Nothing {
    fn open(&mut self, _config: &Config) -> Result<Box<dyn Source>, Failure> {
        Ok(Box::new(Self))
    }

    fn describe(&mut self, _config: &Config) -> String {
        String::new()
    }

    fn findings(&mut self, _config: &Config) -> Box<dyn FnOnce() -> Vec<Finding> + Send> {
        Box::new(Vec::new)
    }
}

impl CounterOpener for Nothing {
    fn open(&mut self, _spec: &CounterSpec) -> Result<Box<dyn Counter>, CounterRefused> {
        Err(CounterRefused::NoHardware)
    }
}

impl Source for Nothing {
    fn attach(&mut self, _pid: Pid) -> Result<(), AttachRefused> {
        Ok(())
    }

    fn detach(&mut self, _pid: Pid) {}

    fn drain(&mut self, _out: &mut dyn FnMut(&Record)) -> Drained {
        Drained::default()
    }

    fn losses(&self) -> Losses {
        Losses::default()
    }

    fn counts_accesses(&self) -> bool {
        false
    }

    fn stirred(&mut self, _now: Time, _pid: Pid) {}

    fn regulate(&mut self, _now: Time, _spending: &Spending) -> Option<RateChange> {
        None
    }

    fn describe(&self) -> SourceStatus {
        let none = || Covers::No("nothing is sampled");
        SourceStatus {
            name: "none",
            provocation: "none",
            coverage: Coverage {
                loads: none(),
                stores: none(),
                latency: none(),
                levels: none(),
                physical: none(),
            },
            notes: Vec::new(),
            cpus: 0,
            ring_bytes: 0,
        }
    }
}

/// A directory that looks like a root; removed when dropped.
struct Root(PathBuf);

impl Root {
    fn filled() -> Self {
        // Always as long, or paths of another length would be other instructions.
        let name = format!("numad-instructions-{:010}", std::process::id());
        let root = Self(Path::new("/tmp").join(name));
        root.fill();
        root
    }

    fn look(&self) -> Look {
        let residency: Residency = Box::new(|_, pages: &[u64], _| vec![(None, false); pages.len()]);
        let log = Log::to_stderr(Level::Error);
        let asker = Asker::new(Box::new(|_| None));
        let asked = (residency, asker);
        Look::new(Reader::new(&self.0), machine(), asked, PAGE_BYTES, log)
    }

    fn file(&self, path: &str, text: &str) {
        let path = self.0.join(path);
        let folder = path.parent().expect("below the root");
        fs::create_dir_all(folder).expect("a directory of ours");
        fs::write(path, text).expect("a file of ours");
    }

    fn fill(&self) {
        let mut maps = String::new();
        for number in 0..MAPPINGS {
            let start = 0x7f00_0000_0000 + number * 0x20_0000;
            let end = start + 0x1f_0000;
            // Every tenth is memory that others may map, too.
            let (rights, what) = if number % 10 == 0 {
                ("rw-s", format!("00:01 {number}  /dev/zero (deleted)"))
            } else {
                ("rw-p", "00:00 0".to_owned())
            };
            maps.push_str(&format!("{start:x}-{end:x} {rights} 00000000 {what}\n"));
        }
        self.file(&format!("proc/{PROCESS}/maps"), &maps);
        self.file("proc/self/mountinfo", "");
        self.file("proc/uptime", "1000.00 2000.00\n");
        self.task(&format!("proc/{PROCESS}"), PROCESS);
        for tid in PROCESS..PROCESS + THREADS {
            self.task(&format!("proc/{PROCESS}/task/{tid}"), tid);
        }
    }

    fn task(&self, folder: &str, tid: u32) {
        let cpu = tid % 64;
        let stat = format!(
            "{tid} (solver) S 1 {PROCESS} 1 0 -1 4194304 89 0 0 0 11 22 0 0 20 0 {THREADS} 0 242978 \
             2654208 399 18446744073709551615 1 1 1 0 0 0 0 65538 1 0 0 0 17 {cpu} 0 0 0 0 0 1 1 1 1 1 1 1 0\n"
        );
        let status = format!(
            "Name:\tsolver\nState:\tS (sleeping)\nTgid:\t{PROCESS}\nPid:\t{tid}\nPPid:\t1\n\
             Uid:\t0\t0\t0\t0\nGid:\t0\t0\t0\t0\nCapPrm:\t0\n\
             Cpus_allowed_list:\t0-63\nMems_allowed_list:\t0-3\n"
        );
        self.file(&format!("{folder}/stat"), &stat);
        self.file(&format!("{folder}/status"), &status);
        self.file(&format!("{folder}/schedstat"), "330000000 1000000 99\n");
        self.file(&format!("{folder}/cgroup"), "0::/\n");
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        // What is left over is in /tmp.
        drop(fs::remove_dir_all(&self.0));
    }
}
