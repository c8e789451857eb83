//! Every command and flag, defined once: from here come parsing, `--help` and the man pages.

pub mod experiment;
mod export;
mod matrix;
mod mpi;
mod plan;
mod profile;
mod values;

use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, ColorChoice, CommandFactory, Parser, Subcommand, ValueEnum};

pub use export::{Export, Recipe};
pub use matrix::{Form, Matrix, Window};
pub use mpi::{Mpi, What};
pub use plan::{Placed, Plan, machines};
pub use profile::Profile;
use values::{key_and_value, milliseconds, process, process_or_name, up_to_a_day};

/// Puts programs under a NUMA policy, shows what that does, and takes it back.
#[derive(Debug, Parser)]
#[command(
    name = "numadctl",
    version,
    color = ColorChoice::Never,
    max_term_width = 100,
    arg_required_else_help = true,
    after_help = "EXAMPLE:\n  numadctl attach 4242 --policy deloc\n  numadctl status\n  numadctl explain 4242\n  \
                  numadctl detach 4242\n\nExit codes are listed in numadctl(1) and docs/exit-codes.md.",
)]
pub struct Cli {
    /// Socket of the daemon, for commands that ask it; else the variable NUMAD_SOCKET, else /run/numad/numad.sock
    #[arg(long, global = true, value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

// Those that clap makes are longer than a line of a terminal.
const ATTACH_USAGE: &str = "numadctl attach [OPTIONS] PID...\n       \
    numadctl attach [OPTIONS] --cgroup PATH | --unit UNIT | --command NAME | --job ID";
const RECORD_USAGE: &str = "numadctl record -o FILE [OPTIONS] PID...\n       \
    numadctl record -o FILE [OPTIONS] --cgroup|--unit|--command|--job NAME";

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Put a running program under a policy
    #[command(override_usage = ATTACH_USAGE, after_help = "EXAMPLE:\n  numadctl attach 4242 --policy deloc\n  \
        numadctl attach --unit postgresql.service --policy deloc --set refine=false\n  \
        numadctl attach --command solver --dry-run")]
    Attach(Attach),
    /// Take a program off its policy and put everything back
    #[command(after_help = "EXAMPLE:\n  numadctl detach 4242")]
    Detach(One),
    /// Show the daemon and the programs under a policy
    ///
    /// Programs come first, then the daemon. Columns: FOR, time since attach; TASKS, threads that take
    /// part in mapping, of all threads; WINDOWS judged; SAMPLES in the last window; LOST, share of
    /// samples lost on the machine meanwhile; SEEN, share of busy time that was sampled; SURE, whether
    /// the samples suffice to decide; BOUND, threads whose affinity numad set; PAGES moved; DIST, mean
    /// distance between threads that share memory (10 is all local); LOCAL, share of accesses to the
    /// thread's own node. A terminal of 80 columns shows the most important ones; a wider terminal
    /// and `--json` show all.
    #[command(after_help = "EXAMPLE:\n  numadctl status --watch\n  numadctl status 4242 --json")]
    Status(Status),
    /// Start a program under a policy
    ///
    /// The program is attached before its first instruction, and not started when it cannot be
    /// attached. In a terminal, and with --wait, this command waits for its end, tells what was
    /// done and gained, and gives its exit code. Elsewhere it becomes the program, which then has
    /// its process number, standard streams and exit code.
    #[command(after_help = "EXAMPLE:\n  numadctl run --policy deloc -- ./solver --threads 32")]
    Run(Run),
    /// Tell what was done to a program and why, and what was not done and why not
    #[command(
        after_help = "EXAMPLE:\n  numadctl explain 4242\n  numadctl explain 4242 --brief\n  \
        numadctl explain 4242 --last 20"
    )]
    Explain(Explain),
    /// Show which threads of a program share memory
    ///
    /// Each row and each column is a thread, and a darker cell is more shared memory. Threads of one
    /// node stand together, and within a node those that share most stand next to each other.
    #[command(
        after_help = "EXAMPLE:\n  numadctl matrix 4242\n  numadctl matrix 4242 --window live --csv\n  \
        numadctl matrix 4242 --svg matrix.svg"
    )]
    Matrix(Matrix),
    /// Record what a program does to memory, for a later replay
    ///
    /// The daemon samples the program, beside its policy if it is attached, and what it sees is
    /// written into a new file that its owner alone may read. See docs/recordings.md.
    #[command(
        override_usage = RECORD_USAGE,
        after_help = "EXAMPLE:\n  numadctl record 4242 -o solver.rec --for 60s\n  \
        numadctl replay solver.rec --policy deloc"
    )]
    Record(Record),
    /// Show what the tasks of a program communicate, when, and what kind of mapping it gains from
    ///
    /// Threads communicate where one stores and another loads the same line, ranks by messages. Shown are six
    /// metrics and the class that follows from them (DeLocProf), groups of pairs that communicate at the same
    /// time, and the pairs that communicate most. `numadctl plan` makes a placement of it. See docs/profiles.md.
    #[command(
        override_usage = profile::USAGE,
        after_help = "EXAMPLE:\n  numadctl profile solver.rec\n  numadctl profile -o solver.html perf.data\n  \
        numadctl profile --json -- mpirun -n 4 ./solver > solver.json"
    )]
    Profile(Profile),
    /// Tell what a policy would have done to a recorded program
    ///
    /// The same engine and policy run over the recording, on paper: nothing is changed, no daemon
    /// and no right is needed, and the same file gives the same answer. See docs/recordings.md.
    #[command(
        after_help = "EXAMPLE:\n  numadctl replay solver.rec --policy deloc\n  \
        numadctl replay solver.rec --policy deloc --machine 4x16@10,21 --json"
    )]
    Replay(Replay),
    /// Put a running program under several policies in turn, and tell which is better
    ///
    /// Time is cut into slices of equal length, as many for each policy, neighbours in time, in an
    /// order drawn from a seed. At each switch threads and pages are put back before the next
    /// policy is entered. Ctrl-C ends it with a verdict on what there is, and everything put back.
    /// It runs in the daemon: with --detach this command does not wait for its end. See
    /// docs/experiments.md.
    ///
    /// A command after `--` is started for it, and has the standard streams; what is said of the
    /// experiment goes to the error stream. When the experiment is over the command goes on without
    /// numad, and numadctl waits for its end and gives its exit code, or the experiment's where that
    /// is 0. Ctrl-C ends the experiment and goes to the command as well.
    #[command(
        override_usage = experiment::AB_USAGE,
        after_help = "EXAMPLE:\n  numadctl ab 4242 --policies linux,auto -o solver.json\n  \
        numadctl ab --policies linux,auto -- ./solver --threads 32\n  \
        numadctl ab 4242 --detach\n  numadctl ab list\n  numadctl ab show 3\n  \
        numadctl ab --unit postgresql.service --metric 'counter:cmd:cat /run/stats/transactions' \
        --slice 30s --time-constant 3s"
    )]
    Ab(experiment::Ab),
    /// Run a command many times under several policies, and tell which is better
    ///
    /// Each policy has as many runs as the others, neighbours in time, in an order drawn from a seed. So drift and
    /// neighbours hit all alike, and the test knows the odds exactly. Ctrl-C ends it with a verdict on what there is;
    /// with --output it can go on later. What the command prints is dropped. See docs/experiments.md.
    #[command(
        after_help = "EXAMPLE:\n  numadctl compare -n 20 --policies linux,auto -o solver.json -- \
        ./solver --threads 32\n  \
        numadctl compare --continue solver.json\n  numadctl report solver.json -o solver.html"
    )]
    Compare(experiment::Compare),
    /// Show an experiment again, as text or as a page
    ///
    /// The page is one file without scripts, loads nothing, and shows all that is in the file of
    /// the experiment: verdict, differences pair by pair, values in time, order and seed. Works
    /// without a daemon.
    ///
    /// P in the table is the probability of such differences by chance, adjusted for the number of
    /// comparisons by Holm's method: `p_adjusted` of --json, where `p` is the one of the test
    /// alone.
    #[command(
        after_help = "EXAMPLE:\n  numadctl report solver.json\n  numadctl report solver.json -o solver.html"
    )]
    Report(experiment::Report),
    /// Show the nodes, processors, memory and distances of a machine
    #[command(
        after_help = "EXAMPLE:\n  numadctl topo\n  numadctl topo 4x16@10,21\n  \
        numadctl topo server.xml --svg server.svg"
    )]
    Topo(Topo),
    /// Measure how fast every node reaches every memory, and keep it for the daemon
    ///
    /// For each pair of nodes: bandwidth of the processors of one to the memory of the other when
    /// no other node is active, by as many threads as bring more; each node's part when all are
    /// active; latency when nobody is. The figures are kept in the state directory of the daemon
    /// under the fingerprint of the hardware, and hold until that changes; `numadctl topo` shows
    /// them, and the daemon goes by them from `reload` on, or from the next program that is
    /// attached alone. Takes about half a second for each pair on small machines and some seconds
    /// on large ones, and up to 3 GiB of one node at a time. Others on the machine disturb it and
    /// are disturbed by it: it does not begin while processors are busy, and waits when they become
    /// so.
    ///
    /// With `--when-idle` others come first. It runs only where a processor has nothing else to do,
    /// waits until others together have used less than one processor (and less than a tenth of them
    /// all) for ten seconds, looks again before and after each step of a fifth of a second, and
    /// when others have come gives its memory back and waits anew. What it has measured by then
    /// stays; what it measured beside others does not count. So `numad-characterize.service` runs
    /// it after the daemon has started.
    #[command(
        after_help = "EXAMPLE:\n  numadctl characterize\n  numadctl characterize --when-idle\n  \
        numadctl characterize --again --json"
    )]
    Characterize(Characterize),
    /// Turn a file of `perf record` into a recording; works without a daemon
    ///
    /// The file is read whether perf wrote it to a file or a pipe, on a machine of either byte order,
    /// compressed (`-z`, below level 20) or not. Samples need an address, a time and a thread:
    /// `perf mem record` asks for them, and so does `perf record --data`; `--sample-cpu` adds the
    /// processor. The recording appears whole or not at all, readable by its owner only. It holds
    /// addresses and the names of threads, but neither the name of the host nor the command line.
    #[command(after_help = "EXAMPLE:\n  numadctl import perf.data -o solver.rec\n  \
        perf record -e page-faults -c 1 -d -o - -- ./solver | numadctl import - -o solver.rec")]
    Import(Import),
    /// Turn a placement that proved good into a line for other tools
    ///
    /// Threads go to the nodes that the policy put them on; of an attachment that has ended, to
    /// those it had last. Tools that place whole programs get the nodes of all threads, and a note
    /// says so. Ranks are processes by ascending number. Cores of `rankfile` and `openmpi5` are
    /// counted as hwloc does.
    #[command(
        after_help = "EXAMPLE:\n  numadctl export 4242 --format omp\n  numadctl export id:3 --format systemd"
    )]
    Export(Export),
    /// Place the ranks or threads of a program's next run, by who says how much to whom
    ///
    /// Works without a daemon. Each rank or thread gets a core of its own: machines first, then their
    /// nodes by distance, then last-level caches. The cost is what all pairs say times the distance of
    /// their nodes (1000 between machines). The plan is a file of JSON. See docs/plans.md.
    #[command(
        after_help = "EXAMPLE:\n  numadctl matrix 4242 --window messages --csv > solver.csv\n  \
        numadctl plan solver.csv -o solver.plan\n  numadctl export --plan solver.plan --format rankfile"
    )]
    Plan(Plan),
    /// List the programs whose attachment has ended, with what was done and gained
    ///
    /// `explain`, `matrix` and `report id:NUMBER` show more of each, by its number. What `ab`
    /// attached is not here but in `ab list`; each run of `compare` is. Columns: THREADS, times a
    /// thread was given another affinity; PAGES moved; LOCAL, share of accesses that were local in
    /// the first window that tells and in the last, a dash where none did. A terminal of 80 columns
    /// shows the most important ones; a wider terminal and `--json` show all.
    #[command(after_help = "EXAMPLE:\n  numadctl history\n  numadctl report id:3 -o solver.html")]
    History(Plain),
    /// List the policies, or show one with its settings
    #[command(after_help = "EXAMPLE:\n  numadctl policies\n  numadctl policies show deloc")]
    Policies(Policies),
    /// Tell what this machine can give and what it lacks, and what to do about it
    ///
    /// The first line is the verdict. Then comes what is missing or limited, each with what to do.
    /// With a PID it looks at that program under the policy `none` and answers in three sentences:
    /// which share of its accesses is remote, what that costs by the distances of the machine, and
    /// which policy would gain how much on paper. With --json the answer has the sentences and
    /// their figures; on a machine of one node, where nothing is measured, the sentence alone.
    #[command(
        after_help = "EXAMPLE:\n  numadctl doctor\n  numadctl doctor --verbose\n  numadctl doctor 4242 --for 1m"
    )]
    Doctor(Doctor),
    /// Put back what was changed, for one process or for all
    ///
    /// The attachment of the process ends, as by `detach`, and with --all every one. What is left of
    /// earlier attachments, which could not be put back at their end, is put back as well.
    #[command(after_help = "EXAMPLE:\n  numadctl undo 4242\n  numadctl undo --all")]
    Undo(Undo),
    /// Show what is changed and not undone, by process
    ///
    /// Columns: FOR, time since the first change of a thread; THREADS that got a mask; PARKED,
    /// those of them that have none for now, because their cpuset has none of the processors of
    /// their own; PAGES moved; MASKS, what threads had and what they got, with the number of
    /// threads. Root and the admin group see all, others their own processes. With --offline the
    /// file is read without a daemon, by those who may read it.
    #[command(
        after_help = "EXAMPLE:\n  numadctl journal\n  numadctl journal --offline --state-dir /var/lib/numad --json"
    )]
    Journal(Journal),
    /// Check settings files, or show the settings in force
    #[command(
        after_help = "EXAMPLE:\n  numadctl config check /etc/numad/numad.toml\n  numadctl config show"
    )]
    Config(Config),
    /// Print what makes MPI programs count who sends how much to whom
    #[command(
        after_help = "EXAMPLE:\n  numadctl mpi env\n  eval \"$(numadctl mpi env)\"; mpirun -n 4 ./solver"
    )]
    Mpi(Mpi),
    /// Let the daemon read its settings again
    #[command(after_help = "EXAMPLE:\n  numadctl config check && numadctl reload")]
    Reload(Plain),
}

/// Arguments of `journal`.
#[derive(Clone, Debug, Args)]
pub struct Journal {
    /// Read the file, without a daemon
    #[arg(long)]
    pub offline: bool,
    /// Where the file is; the state directory of the settings when not given
    #[arg(long, value_name = "DIR", requires = "offline")]
    pub state_dir: Option<PathBuf>,
    /// How to answer.
    #[command(flatten)]
    pub plain: Plain,
}

/// How a command answers.
#[derive(Clone, Copy, Debug, Args)]
pub struct Plain {
    /// Answer in JSON
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `doctor`.
#[derive(Clone, Copy, Debug, Args)]
pub struct Doctor {
    /// Tell of this program whether memory placement matters for it
    #[arg(value_name = "PID", conflicts_with = "verbose",
        value_parser = process)]
    pub pid: Option<u32>,
    /// How long to look at the program
    #[arg(long = "for", value_name = "TIME", default_value = "30s", requires = "pid", value_parser = up_to_a_day)]
    pub for_ms: u64,
    /// Show also what is as it should be
    #[arg(long, short, conflicts_with = "json")]
    pub verbose: bool,
    /// How to answer.
    #[command(flatten)]
    pub plain: Plain,
}

/// Which policy, and how.
#[derive(Clone, Debug, Args)]
pub struct Under {
    /// Policy; the default policy of the settings when not given
    #[arg(long, short, value_name = "NAME")]
    pub policy: Option<String>,
    /// Setting of the policy (`numadctl policies show NAME` lists them), or of the engine for this program alone, such
    /// as `engine.hold_ms=0` (docs/config.md)
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_and_value)]
    pub set: Vec<(String, String)>,
    /// Take the policy's method as its paper has it, and refuse only what is impossible, forbidden or beyond limits
    /// (`numadctl policies show NAME` says what differs); the same as `--set engine.method=published`
    #[arg(long)]
    pub as_published: bool,
    /// Decide and tell, but change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Detach by itself after this time, as in 90s, 10m or 1h, or in seconds; when the program ends or is detached, if
    /// not given
    #[arg(long = "for", value_name = "TIME", value_parser = milliseconds)]
    pub for_ms: Option<u64>,
}

/// Arguments of `attach`.
#[derive(Clone, Debug, Args)]
pub struct Attach {
    #[command(flatten)]
    target: TargetArgs,
    /// Which policy, and how.
    #[command(flatten)]
    pub under: Under,
    /// How to answer.
    #[command(flatten)]
    pub plain: Plain,
}

/// Which program.
#[derive(Clone, Debug, Args)]
#[group(required = true, multiple = false)]
pub struct TargetArgs {
    /// Processes that make up the program
    #[arg(value_name = "PID", value_parser = process_or_name)]
    pids: Vec<u32>,
    /// Every process in this control group and below
    #[arg(long, value_name = "PATH")]
    cgroup: Option<String>,
    /// Every process of this systemd unit
    #[arg(long, value_name = "UNIT")]
    unit: Option<String>,
    /// Every process whose command has this name
    #[arg(long, value_name = "NAME")]
    command: Option<String>,
    /// Every rank of this MPI job on this machine, and those that it spawns; `status` shows jobs
    #[arg(long, value_name = "ID")]
    job: Option<String>,
}

impl Attach {
    /// What to attach.
    #[must_use]
    pub fn target(&self) -> control::rows::Target {
        self.target.target()
    }
}

impl TargetArgs {
    fn target(&self) -> control::rows::Target {
        use control::rows::Target;
        match (&self.cgroup, &self.unit, &self.command, &self.job) {
            (Some(path), ..) => Target::Cgroup(path.clone()),
            (_, Some(unit), ..) => Target::Unit(unit.clone()),
            (_, _, Some(name), _) => Target::Command(name.clone()),
            (.., Some(job)) => Target::Job(job.clone()),
            (None, None, None, None) => Target::Pids(self.pids.clone()),
        }
    }
}

/// An attached program, as people name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// Attachment or process, whichever there is.
    Either(u32),
    /// Attachment, `id:3`.
    Id(u32),
    /// Process, `pid:4242`.
    Pid(u32),
}

impl FromStr for Which {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (kind, number): (fn(u32) -> Self, &str) = match text.split_once(':') {
            Some(("id", number)) => (Self::Id, number),
            Some(("pid", number)) => (Self::Pid, number),
            Some(_) => return Err("expected a number, `id:NUMBER` or `pid:NUMBER`".to_owned()),
            None => (Self::Either, text),
        };
        number
            .parse()
            .map(kind)
            .map_err(|_no_number| "expected a number, `id:NUMBER` or `pid:NUMBER`".to_owned())
    }
}

/// Arguments of commands about one attached program.
#[derive(Clone, Debug, Args)]
pub struct One {
    /// Attachment, or process of one; `id:3` and `pid:3` tell them apart
    #[arg(value_name = "ID|PID")]
    pub which: Which,
    /// How to answer.
    #[command(flatten)]
    pub plain: Plain,
}

/// Arguments of `status`.
#[derive(Clone, Debug, Args)]
pub struct Status {
    /// Show this program alone: attachment, or process of one; `id:3` and `pid:3` tell them apart
    #[arg(value_name = "ID|PID")]
    pub which: Option<Which>,
    /// Show it again and again until interrupted
    #[arg(long, short)]
    pub watch: bool,
    /// Seconds between two showings
    #[arg(long, value_name = "SECONDS", default_value_t = 2, requires = "watch",
        value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub every: u64,
    /// End after this many showings
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), requires = "watch")]
    pub count: Option<u64>,
    /// How to answer.
    #[command(flatten)]
    pub plain: Plain,
}

/// Arguments of `run`.
#[derive(Clone, Debug, Args)]
pub struct Run {
    /// Which policy, and how.
    #[command(flatten)]
    pub under: Under,
    /// Wait for the program's end, then tell what was done and gained; in a terminal this is so without being asked.
    /// Elsewhere numadctl becomes the program
    #[arg(long)]
    pub wait: bool,
    /// Become the program, in a terminal too
    #[arg(long, conflicts_with = "wait")]
    pub no_wait: bool,
    /// Have MPI programs that it starts count who sends how much to whom; the command is an mpirun. See docs/mpi.md
    #[arg(long)]
    pub mpi: bool,
    /// Start at the places of a plan that `numadctl plan` wrote, without a policy and without the daemon, wait for the
    /// end, and tell whether the places held. Ranks need an mpirun; a program of OpenMP gets OMP_PLACES
    #[arg(long, value_name = "PLAN",
        conflicts_with_all = ["policy", "set", "as_published", "dry_run", "for_ms", "wait", "no_wait", "mpi"])]
    pub plan: Option<PathBuf>,
    /// Program and its arguments, after `--`
    #[arg(required = true, last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// Arguments of `explain`.
#[derive(Clone, Debug, Args)]
pub struct Explain {
    /// Which program, and how to answer.
    #[command(flatten)]
    pub one: One,
    /// Answer in three sentences: what was seen, what was done, what was not
    #[arg(long, conflicts_with_all = ["last", "json"])]
    pub brief: bool,
    /// Show the last N events
    #[arg(long, value_name = "N", default_value_t = 40, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub last: u32,
}

/// Arguments of `record`.
#[derive(Clone, Debug, Args)]
pub struct Record {
    #[command(flatten)]
    target: TargetArgs,
    /// New file that the recording goes into
    #[arg(long, short, value_name = "FILE")]
    pub output: PathBuf,
    /// Replace the recording that is there
    #[arg(long)]
    pub force: bool,
    /// How long, as in 500ms, 60s, 5m or 1h; until the program ends or Ctrl-C when not given
    #[arg(long = "for", value_name = "TIME", value_parser = milliseconds)]
    pub length_ms: Option<u64>,
    /// How to answer.
    #[command(flatten)]
    pub plain: Plain,
}

impl Record {
    /// What to record.
    #[must_use]
    pub fn target(&self) -> control::rows::Target {
        self.target.target()
    }
}

/// Arguments of `replay`.
#[derive(Clone, Debug, Args)]
pub struct Replay {
    /// Recording, made by `numadctl record` or `numadctl import`
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Policy that decides; with `+published` at its end its method as the paper has it
    #[arg(long, short, value_name = "NAME")]
    pub policy: String,
    /// Setting of the policy; `numadctl policies show NAME` lists them
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_and_value)]
    pub set: Vec<(String, String)>,
    /// Machine to replay on, as `numadctl topo` reads it; the recorded one when not given. On
    /// another than the recorded one threads are spread anew, as a scheduler does at first
    #[arg(long, value_name = "SPEC")]
    pub machine: Option<String>,
    /// Length of all windows in milliseconds; as the daemon does by default when not given
    #[arg(long = "window", value_name = "MS", value_parser = clap::value_parser!(u64).range(10..=3_600_000))]
    pub window_ms: Option<u64>,
    #[command(flatten)]
    form: ReplayForm,
}

#[derive(Clone, Debug, Args)]
#[group(multiple = false)]
struct ReplayForm {
    /// Answer with the picture of who shared memory with whom, as `numadctl matrix` draws it
    #[arg(long)]
    matrix: bool,
    /// Answer with that matrix in comma-separated values
    #[arg(long)]
    csv: bool,
    /// Draw that matrix as a heat map into FILE; `-` is standard output
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Answer in JSON
    #[arg(long)]
    json: bool,
}

impl Replay {
    /// How to answer with the matrix alone, or in JSON; none for the report.
    #[must_use]
    pub fn form(&self) -> Option<Form> {
        match &self.form {
            ReplayForm {
                svg: Some(file), ..
            } => Some(Form::Svg(file.clone())),
            ReplayForm { csv: true, .. } => Some(Form::Csv),
            ReplayForm { json: true, .. } => Some(Form::Json),
            ReplayForm { matrix: true, .. } => Some(Form::Text),
            ReplayForm { .. } => None,
        }
    }
}

/// Arguments of `topo`.
#[derive(Clone, Debug, Args)]
pub struct Topo {
    /// `this` machine, a made-up one as in `4x16@10,21`, an hwloc XML file, or a directory that
    /// looks like a root
    #[arg(value_name = "SPEC", default_value = "this")]
    pub spec: String,
    #[command(flatten)]
    form: TopoForm,
    /// Who reads the machine: numad's own reader, or the library hwloc
    #[arg(long, value_enum, default_value = "sysfs")]
    pub source: Source,
}

#[derive(Clone, Debug, Args)]
#[group(multiple = false)]
struct TopoForm {
    /// Draw the machine into FILE; `-` is standard output
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Answer in JSON
    #[arg(long)]
    json: bool,
}

impl Topo {
    /// How to answer.
    #[must_use]
    pub fn form(&self) -> Form {
        match &self.form {
            TopoForm {
                svg: Some(file), ..
            } => Form::Svg(file.clone()),
            TopoForm { json: true, .. } => Form::Json,
            TopoForm { .. } => Form::Text,
        }
    }
}

/// Who reads a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Source {
    /// The reader that the daemon uses.
    Sysfs,
    /// The library hwloc.
    Hwloc,
}

/// Arguments of `characterize`.
#[derive(Clone, Debug, Args)]
pub struct Characterize {
    /// Measure although this hardware has been measured
    #[arg(long)]
    pub again: bool,
    /// Measure although the machine is busy; bandwidths will be too low, latencies too high
    #[arg(long)]
    pub force: bool,
    /// Wait for an idle machine as long as it takes, and make way for others at once
    #[arg(long, conflicts_with = "force")]
    pub when_idle: bool,
    /// Directory to keep the figures in, made if only its last part is missing; the state directory
    /// of the settings when not given
    #[arg(long, value_name = "DIR")]
    pub directory: Option<PathBuf>,
    /// How to answer.
    #[command(flatten)]
    pub plain: Plain,
}

/// Arguments of `import`.
#[derive(Clone, Debug, Args)]
pub struct Import {
    /// File of `perf record`; `-` is standard input
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Recording to write; must not exist
    #[arg(long, short, value_name = "FILE")]
    pub output: PathBuf,
    /// Replace the recording if there is a file of that name
    #[arg(long)]
    pub force: bool,
    /// Keep samples of the kernel's own memory, which no policy can move
    #[arg(long)]
    pub keep_kernel: bool,
    /// How to answer.
    #[command(flatten)]
    pub plain: Plain,
}

/// Arguments of `policies`.
#[derive(Clone, Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Policies {
    /// What about them.
    #[command(subcommand)]
    pub action: Option<PoliciesAction>,
    /// How to answer.
    #[command(flatten)]
    pub plain: Plain,
}

/// What about policies.
#[derive(Clone, Debug, Subcommand)]
pub enum PoliciesAction {
    /// Show one policy with its settings
    #[command(after_help = "EXAMPLE:\n  numadctl policies show deloc")]
    Show {
        /// Policy
        name: String,
        /// How to answer.
        #[command(flatten)]
        plain: Plain,
    },
}

/// Arguments of `undo`.
#[derive(Clone, Debug, Args)]
pub struct Undo {
    #[command(flatten)]
    what: UndoWhat,
    /// How to answer.
    #[command(flatten)]
    pub plain: Plain,
}

#[derive(Clone, Debug, Args)]
#[group(required = true, multiple = false)]
struct UndoWhat {
    /// Process whose threads and pages are put back
    #[arg(value_name = "PID", value_parser = process)]
    pid: Option<u32>,
    /// Everything of everyone; for root and the admin group
    #[arg(long)]
    all: bool,
}

impl Undo {
    /// The process; none for everything.
    #[must_use]
    pub const fn pid(&self) -> Option<u32> {
        self.what.pid
    }
}

/// Arguments of `config`.
#[derive(Clone, Debug, Args)]
pub struct Config {
    /// What about settings.
    #[command(subcommand)]
    pub action: ConfigAction,
}

/// What about settings.
#[derive(Clone, Debug, Subcommand)]
pub enum ConfigAction {
    /// Check settings files; works without a daemon
    #[command(
        after_help = "EXAMPLE:\n  numadctl config check\n  numadctl config check ./numad.toml"
    )]
    Check {
        /// Settings file, or directory that holds `numad.toml`; its drop-ins are checked too
        #[arg(value_name = "FILE")]
        file: Option<PathBuf>,
    },
    /// Show the settings in force, as a settings file
    #[command(after_help = "EXAMPLE:\n  numadctl config show\n  numadctl config show --offline")]
    Show {
        /// Read the files here instead of asking the daemon
        #[arg(long)]
        offline: bool,
        /// Settings file, or directory that holds `numad.toml`
        #[arg(value_name = "FILE", requires = "offline")]
        file: Option<PathBuf>,
        /// How to answer.
        #[command(flatten)]
        plain: Plain,
    },
}

/// The whole command line, for man pages.
#[must_use]
pub fn command() -> clap::Command {
    Cli::command()
}
