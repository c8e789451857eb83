//! `numad-sim`: its command line, defined once for parsing, help, completions and the man page, and
//! what it answers.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};
use numad_core::published::SUFFIX;
use topology::CpuSet;

use crate::condition_arguments::ConditionArguments;
use crate::drawn_command::{self, DrawnArguments};
use crate::matrix_command::{self, MatrixArguments};
use crate::render::{Show, Table};
use crate::report;
use crate::scenario::{self, SCENARIOS};
use crate::workload::WORKLOADS;
use crate::{Faults, RunError, RunErrorKind, Scenario, Workload};

/// Runs the real engine and policies on a machine that is not there. The same seed prints the same
/// bytes.
#[derive(Debug, Parser)]
#[command(name = "numad-sim", version, after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    /// Begin with a named scenario; other flags change parts of it
    #[arg(long, value_name = "NAME")]
    scenario: Option<String>,
    /// The machine: a short text such as 4x16@10,21, an hwloc XML file, a directory, or `this`
    #[arg(long, value_name = "SPEC")]
    topology: Option<String>,
    /// What runs, such as pairs or groups:4; `--list` names all
    #[arg(long)]
    workload: Option<String>,
    /// Who decides; with `+published` at its end the method as its paper has it
    #[arg(long)]
    policy: Option<String>,
    /// A setting of the policy, or of the engine as in `engine.hold_ms=0`; may be given several times
    #[arg(long = "set", value_name = "NAME=VALUE")]
    settings: Vec<String>,
    /// Where all randomness comes from
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many threads [default: one per usable cpu]
    #[arg(long)]
    threads: Option<usize>,
    /// How long, in simulated seconds
    #[arg(long)]
    seconds: Option<u32>,
    /// Memory that a thread has for itself, such as 8M, 1G or 64G; what it shares, and what nodes have,
    /// grows with it [default: 512K]
    #[arg(long, value_name = "SIZE")]
    memory: Option<String>,
    #[command(flatten)]
    conditions: ConditionArguments,
    /// What goes wrong: vanish, refuse, offline, clock, loss, rival, joined by commas, or all
    #[arg(long = "fault", value_name = "KIND")]
    faults: Option<String>,
    /// Cpus that the programs' cgroup allows, as in 0-3,8
    #[arg(long, value_name = "LIST")]
    cpus: Option<String>,
    /// The machine counts instructions, cycles and the bandwidth of memory
    #[arg(long)]
    counters: bool,
    /// The kernel's own balancing is on beside the policy
    #[arg(long)]
    balancing: bool,
    /// Print JSON
    #[arg(long, conflicts_with = "show")]
    json: bool,
    /// Print also what was seen, and what was done and why
    #[arg(long)]
    show: bool,
    /// List workloads, policies and scenarios
    #[arg(long, conflicts_with = "json")]
    list: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    Matrix(MatrixArguments),
    Drawn(DrawnArguments),
}

const EXAMPLES: &str = "\
EXAMPLE:
  numad-sim --topology 4x4@10,21 --workload pairs --policy deloc --seed 7 --show

Exit codes: 0 done; 1 a rule was broken, which is a mistake in numad; 2 the
command line makes no sense; 3 a setting is wrong; 6 no such workload, policy,
scenario or file.";

/// The whole command line, for man pages and completions.
#[must_use]
pub fn command() -> clap::Command {
    Arguments::command()
}

/// Reads the command line of this process, answers it, and says how it went.
#[must_use]
pub fn run() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) if error.use_stderr() => {
            let text = error.to_string();
            let first = text.lines().next().unwrap_or_default();
            let first = first.strip_prefix("error: ").unwrap_or(first);
            complain(&format!("{first}; see `numad-sim --help`"));
            return ExitCode::from(RunErrorKind::Usage.exit_code());
        }
        Err(help) => help.exit(),
    };
    let mut out = io::BufWriter::new(io::stdout().lock());
    let code = match answer(&arguments, &mut out) {
        Ok(code) => code,
        Err(Failure::Run(error)) => {
            complain(&error.to_string());
            error.kind.exit_code()
        }
        // Whoever reads has seen enough.
        Err(Failure::Write(error)) if error.kind() == io::ErrorKind::BrokenPipe => 0,
        Err(Failure::Write(error)) => {
            complain(&format!("cannot write the report: {error}"));
            RunErrorKind::Internal.exit_code()
        }
    };
    ExitCode::from(code)
}

/// Why there is no answer.
pub(crate) enum Failure {
    Run(RunError),
    Write(io::Error),
}

impl From<RunError> for Failure {
    fn from(error: RunError) -> Self {
        Self::Run(error)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Write(error)
    }
}

#[expect(
    clippy::print_stderr,
    reason = "a command's complaint goes to standard error"
)]
fn complain(text: &str) {
    // What was typed is quoted; it must not break the line nor command the terminal.
    let shown: String = text
        .chars()
        .flat_map(|letter| {
            let escaped = letter.is_control().then(|| letter.escape_debug());
            let kept = escaped.is_none().then_some(letter);
            escaped.into_iter().flatten().chain(kept)
        })
        .collect();
    eprintln!("numad-sim: {shown}");
}

fn answer(arguments: &Arguments, out: &mut impl Write) -> Result<u8, Failure> {
    match &arguments.command {
        Some(Command::Matrix(matrix)) => return matrix_command::run(matrix, out),
        Some(Command::Drawn(drawn)) => return drawn_command::run(drawn, out),
        None => {}
    }
    if arguments.list {
        list(out)?;
        out.flush()?;
        return Ok(0);
    }
    let scenario = arguments.scenario()?;
    if !arguments.json {
        // Before anything can go wrong, so that it can be run again.
        writeln!(out, "seed {}", scenario.seed)?;
        out.flush()?;
    }
    let report = crate::run(&scenario)?;
    if arguments.json {
        writeln!(out, "{}", report.json())?;
    } else if arguments.show {
        let shown = Show(&report).to_string();
        let shown = picture::letters::drawn(shown, &|name| std::env::var_os(name));
        write!(out, "{shown}")?;
    } else {
        write!(out, "{}", Table(&report))?;
    }
    out.flush()?;
    Ok(u8::from(!report.is_sound()))
}

fn list(out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "workloads: {}", WORKLOADS.join(", "))?;
    let policies = policies::registry().iter().map(|factory| factory.name);
    writeln!(out, "policies: {}", policies.collect::<Vec<_>>().join(", "))?;
    writeln!(out, "scenarios:")?;
    for named in SCENARIOS {
        let (name, topology, workload) = (named.name, named.topology, named.workload);
        let threads = named.threads;
        writeln!(
            out,
            "  {name:16} {topology:12} {workload:12} {threads:4} threads  {}",
            named.about
        )?;
    }
    Ok(())
}

impl Arguments {
    fn scenario(&self) -> Result<Scenario, RunError> {
        let mut scenario = match &self.scenario {
            Some(name) => scenario::named(name)
                .map_err(|error| RunError::new(RunErrorKind::NotFound, error.to_string()))?
                .scenario("deloc", self.seed),
            None => Scenario {
                threads: None,
                seed: self.seed,
                ..Scenario::default()
            },
        };
        if let Some(topology) = &self.topology {
            scenario.topology.clone_from(topology);
        }
        scenario.counters |= self.counters;
        scenario.balancing |= self.balancing;
        if let Some(policy) = &self.policy {
            scenario.policy = policy.trim_end_matches(SUFFIX).to_owned();
            if policy.ends_with(SUFFIX) {
                let published = ("engine.method".to_owned(), "published".to_owned());
                scenario.settings.push(published);
            }
        }
        // Before the seed is told.
        report::find(&scenario.policy)?;
        if let Some(text) = &self.workload {
            scenario.workload = text
                .parse::<Workload>()
                .map_err(|error| RunError::new(RunErrorKind::NotFound, error))?;
        }
        scenario.conditions = self.conditions.conditions()?;
        if let Some(text) = &self.memory {
            scenario.conditions.memory = text.parse().map_err(usage)?;
        }
        scenario.bandwidth = self.conditions.bandwidth()?;
        if let Some(text) = &self.faults {
            scenario.faults = text.parse::<Faults>().map_err(usage)?;
        }
        if let Some(text) = &self.cpus {
            let set = CpuSet::parse_list(text);
            scenario.cgroup_cpus = set.map_err(|error| usage(format!("cpus `{text}`: {error}")))?;
            if scenario.cgroup_cpus.is_empty() {
                return Err(usage(format!("cpus `{text}`: names none")));
            }
        }
        scenario.threads = self.threads.or(scenario.threads);
        scenario.seconds = self.seconds.unwrap_or(scenario.seconds);
        for text in &self.settings {
            let (name, value) = text
                .split_once('=')
                .ok_or_else(|| usage(format!("`--set {text}`: must be NAME=VALUE")))?;
            scenario.settings.push((name.to_owned(), value.to_owned()));
        }
        Ok(scenario)
    }
}

fn usage(message: impl Into<String>) -> RunError {
    RunError::new(RunErrorKind::Usage, message)
}

#[cfg(test)]
mod tests {
    #[test]
    fn what_documents_show_is_a_command() {
        testkit::docs::check("numad-sim", &super::command());
    }
}
