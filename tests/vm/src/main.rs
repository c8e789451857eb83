//! `numad-vm`: runs the unchanged programs on a real kernel with many nodes, in a virtual machine, against a
//! ground truth that sees every access to memory.

#![forbid(unsafe_code)]

mod accuracy;
mod compare;
mod cpio;
mod guest;
mod held;
mod image;
mod kit;
mod machine;
mod profile;
mod report;
mod rivals;
mod scenario;
mod truth;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use clap::{Args, Parser, Subcommand};

use guest::{Counted, Ran, Run, last};
use kit::Kit;
use profile::Told;
use scenario::Scenario;
use truth::{Figures, Truth};

/// Runs scenarios on a real kernel with many nodes, in a virtual machine.
#[derive(Debug, Parser)]
#[command(name = "numad-vm")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Lists the scenarios.
    List,
    /// Runs scenarios, all of them unless some are named.
    Run {
        /// Only these; one that ends in `.sh` is a file of yours.
        names: Vec<String>,
        /// Only the short round.
        #[arg(long)]
        quick: bool,
        #[command(flatten)]
        manner: Manner,
    },
    /// Measures how true samples are: pages, nodes and who shares with whom, by source and rate.
    Accuracy {
        /// Only these workloads.
        #[arg(long, value_delimiter = ',')]
        workloads: Vec<String>,
        /// Only sources in whose names one of these words is.
        #[arg(long, value_delimiter = ',')]
        sources: Vec<String>,
        /// The machine.
        #[arg(long, default_value = "ring4")]
        machine: String,
        /// Where accuracy.md and accuracy.json go.
        #[arg(short, long, default_value = ".")]
        output: PathBuf,
    },
    /// Compares what places threads and memory, and writes a table and a page.
    Compare {
        /// Runs of each cell.
        #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
        seeds: u32,
        /// Only these workloads; `KIND@SIZE` and `KIND@SIZE/THP` (slices@32M/always) for other sizes and huge pages, `real`
        /// for a table of large ones.
        #[arg(long, value_delimiter = ',')]
        workloads: Vec<String>,
        /// Where our policies' samples come from: faults, sampler:PERIOD.
        #[arg(long, value_delimiter = ',', default_value = "faults")]
        sources: Vec<compare::Source>,
        /// Our policies that take part; `all` for every one there is.
        #[arg(
            long,
            value_delimiter = ',',
            default_value = "auto,deloc,balance,data-only"
        )]
        policies: Vec<String>,
        /// Only these contestants.
        #[arg(long, value_delimiter = ',')]
        only: Vec<String>,
        /// The machine.
        #[arg(long, default_value = "ring4")]
        machine: String,
        /// Do again what was done before.
        #[arg(long)]
        fresh: bool,
        /// Seconds that a program runs before anybody looks at it.
        #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=100))]
        attach_after: u32,
        /// Where table.md and compare.html go.
        #[arg(short, long, default_value = ".")]
        output: PathBuf,
    },
}

fn main() -> ExitCode {
    match Arguments::parse().command.carry_out() {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            say(&format!("numad-vm: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

impl Command {
    /// Says how many scenarios failed.
    fn carry_out(self) -> Result<usize> {
        let kit = Kit::open()?;
        let scenarios = scenario::read_all(&kit.source("scenarios"))?;
        match self {
            Self::List => {
                for scenario in scenarios {
                    let quick = if scenario.quick { "quick" } else { "" };
                    say(&format!(
                        "{:24} {:10} {:6} {}",
                        scenario.name, scenario.machine.name, quick, scenario.about,
                    ));
                }
                Ok(0)
            }
            Self::Run {
                names,
                quick,
                manner,
            } => {
                let mut wanted = chosen(scenarios, &names)?;
                wanted.retain(|scenario| !quick || scenario.quick);
                if wanted.is_empty() {
                    bail!("none of these scenarios is part of the short round; leave out --quick");
                }
                run_all(&kit, &wanted, &manner)
            }
            Self::Accuracy {
                workloads,
                sources,
                machine,
                output,
            } => {
                let machine = machine::find(&machine)?;
                let cells = accuracy::measure(&kit, &machine, (&workloads, &sources), &mut say)?;
                say(&accuracy::write(&cells, &output)?);
                Ok(0)
            }
            Self::Compare {
                seeds,
                workloads,
                sources,
                policies,
                only,
                machine,
                fresh,
                attach_after,
                output,
            } => {
                let wanted = compare::Wanted {
                    machine: machine::find(&machine)?,
                    workloads,
                    contestants: compare::wanted(
                        compare::contestants(&policies, &sources)?,
                        &only,
                    )?,
                    seeds,
                    fresh,
                    attach_after,
                };
                let cells = compare::compare(&kit, &wanted, &mut say)?;
                say(&report::write(&cells, &machine, &output)?);
                let failed = cells.iter().map(|cell| cell.failed).sum();
                Ok(failed)
            }
        }
    }
}

/// The scenarios of these names, and those in files; all of them without a name.
fn chosen(all: Vec<Scenario>, names: &[String]) -> Result<Vec<Scenario>> {
    let mut wanted = Vec::new();
    for name in names.iter().filter(|name| name.ends_with(".sh")) {
        wanted.extend(scenario::read(Path::new(name))?);
    }
    let names: Vec<&String> = names.iter().filter(|name| !name.ends_with(".sh")).collect();
    for name in &names {
        let known = all.iter().any(|scenario| scenario.is_named(name));
        known
            .then_some(())
            .with_context(|| format!("there is no scenario `{name}`; see numad-vm list"))?;
    }
    let some = !names.is_empty() || !wanted.is_empty();
    wanted.extend(
        all.into_iter()
            .filter(|one| !some || names.iter().any(|name| one.is_named(name))),
    );
    Ok(wanted)
}

/// How scenarios are run.
#[derive(Args, Debug)]
struct Manner {
    /// Show what passing scripts said, too.
    #[arg(short, long)]
    verbose: bool,
    /// Put what scripts left in /out, and the ground truth, into this folder.
    #[arg(long)]
    keep: Option<PathBuf>,
    /// Say which functions the daemon's instructions were in; all of them in `--keep`.
    #[arg(long)]
    profile: bool,
    /// Guests at a time; each keeps one processor busy.
    #[arg(short, long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    jobs: u16,
}

/// What came of the scenarios that were run so far.
#[derive(Debug, Default)]
struct Tally {
    failed: usize,
    processor: Duration,
}

/// Runs scenarios, and gives how many failed.
fn run_all(kit: &Kit, scenarios: &[Scenario], manner: &Manner) -> Result<usize> {
    let started = Instant::now();
    let mut images = BTreeMap::new();
    for scenario in scenarios {
        if let Entry::Vacant(free) = images.entry(scenario.image) {
            free.insert(image::of(kit, scenario.image)?);
        }
    }
    let next = AtomicUsize::new(0);
    let tally = Mutex::new(Tally::default());
    let work = || -> Result<()> {
        while let Some(scenario) = scenarios.get(next.fetch_add(1, Ordering::Relaxed)) {
            let ran = run_one(kit, scenario, &images[&scenario.image], manner.profile);
            // Whoever has the tally has the word, too.
            let mut tally = tally.lock().unwrap_or_else(PoisonError::into_inner);
            tally.take(kit, scenario, ran, manner)?;
        }
        Ok(())
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..manner.jobs).map(|_| scope.spawn(work)).collect();
        let ended = workers.into_iter().map(|worker| {
            let ended = worker.join();
            ended.unwrap_or_else(|_| bail!("a scenario made this program panic"))
        });
        ended.collect::<Result<Vec<()>>>()
    })?;
    let Tally { failed, processor } = tally.into_inner().unwrap_or_else(PoisonError::into_inner);
    say(&format!(
        "{} of {} scenarios passed in {:.0} min, {:.0} of processor time",
        scenarios.len() - failed,
        scenarios.len(),
        started.elapsed().as_secs_f64() / 60.0,
        processor.as_secs_f64() / 60.0
    ));
    Ok(failed)
}

fn run_one(kit: &Kit, scenario: &Scenario, image: &Path, profile: bool) -> Result<Ran> {
    let script = if profile {
        &format!("profiled=yes\n{}", scenario.script)
    } else {
        &scenario.script
    };
    guest::run(
        kit,
        &Run {
            machine: &scenario.machine,
            image,
            script,
            profile,
            truth: if scenario.expectations.is_empty() {
                Counted::Nothing
            } else {
                Counted::Windows
            },
            // Counting by places makes everything slower.
            limit: scenario.limit * if profile { 2 } else { 1 },
        },
    )
}

impl Tally {
    fn take(
        &mut self,
        kit: &Kit,
        scenario: &Scenario,
        ran: Result<Ran>,
        manner: &Manner,
    ) -> Result<()> {
        let ran = match ran {
            Ok(ran) => ran,
            // A guest that does not come up is no reason to leave out those of other machines.
            Err(error) => {
                say(&format!("FAILED  {}: {error:#}", scenario.name));
                self.failed += 1;
                return Ok(());
            }
        };
        if let Some(folder) = &manner.keep {
            std::fs::create_dir_all(folder)?;
            std::fs::write(folder.join(format!("{}.tar", scenario.name)), &ran.files)?;
            std::fs::write(
                folder.join(format!("{}.truth.json", scenario.name)),
                ran.truth.as_deref().unwrap_or_default(),
            )?;
        }
        if let Some(counts) = &ran.profile {
            let told = Told {
                counts,
                files: &ran.files,
            };
            say(&profile::tables(kit, &told, profile::ROWS)?);
            if let Some(folder) = &manner.keep {
                let file = folder.join(format!("{}.profile.txt", scenario.name));
                std::fs::write(file, profile::tables(kit, &told, usize::MAX)?)?;
            }
        }
        self.processor += ran.processor;
        self.failed += usize::from(!report(scenario, &ran, manner.verbose)?);
        Ok(())
    }
}

/// Says how it went; true if well.
fn report(scenario: &Scenario, ran: &Ran, verbose: bool) -> Result<bool> {
    let mut complaints = Vec::new();
    match ran.code {
        _ if ran.stopped => complaints.push(format!(
            "stopped at its limit of {} processor seconds",
            scenario.limit.as_secs()
        )),
        Some(0) => {}
        Some(code) => complaints.push(format!("the script ended with {code}")),
        None => complaints.push("the script did not come to its end".to_owned()),
    }
    if let (Some(report), Some(0)) = (&ran.truth, ran.code) {
        let figures = Truth::parse(report)?.figures(&scenario.machine);
        for expectation in &scenario.expectations {
            complaints.extend(expectation.check(&figures)?);
        }
        let shown = Figures::NAMES
            .map(|name| format!("{name} {:.3}", figures.named(name).unwrap_or(f64::NAN)));
        say(&format!("    {}", shown.join("  ")));
    } else if !scenario.expectations.is_empty() && ran.code == Some(0) {
        complaints.push("there is no ground truth".to_owned());
    }
    let took = format!(
        "{:.0} s, {:.0} of processor time",
        ran.wall.as_secs_f64(),
        ran.processor.as_secs_f64()
    );
    if complaints.is_empty() {
        say(&format!("ok      {} ({took})", scenario.name));
        if verbose {
            say(&ran.output);
        }
        return Ok(true);
    }
    say(&format!(
        "FAILED  {} on {} ({took}): {}",
        scenario.name,
        scenario.machine.name,
        complaints.join("; ")
    ));
    say(&format!(
        "--- what the script said\n{}",
        last(&ran.output, 60)
    ));
    if ran.code.is_none() {
        say(&format!(
            "--- the guest's console\n{}\n--- QEMU\n{}",
            last(&ran.console, 20),
            ran.qemu
        ));
    }
    Ok(false)
}

fn say(text: &str) {
    let told = writeln!(std::io::stdout().lock(), "{text}");
    debug_assert!(told.is_ok(), "somebody reads what we say");
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn what_documents_show_is_a_command() {
        testkit::docs::check("cargo run -p numad-vm --", &Arguments::command());
    }
}
