//! `numad-vm`: runs the unchanged programs on a real kernel with many nodes, in a virtual machine, against a
//! ground truth that sees every access to memory.

#![forbid(unsafe_code)]

mod compare;
mod cpio;
mod guest;
mod image;
mod kit;
mod machine;
mod report;
mod scenario;
mod statistics;
mod truth;

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::{Parser, Subcommand};

use guest::{Ran, Run, last};
use image::Item;
use kit::Kit;
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
        /// Only these.
        names: Vec<String>,
        /// Only the short round.
        #[arg(long)]
        quick: bool,
        /// Show what passing scripts said, too.
        #[arg(short, long)]
        verbose: bool,
        /// Put what scripts left in /out, and the ground truth, into this folder.
        #[arg(long)]
        keep: Option<PathBuf>,
    },
    /// Compares what places threads and memory, and writes a table and a page.
    Compare {
        /// Runs of each cell.
        #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
        seeds: u32,
        /// Only these workloads.
        #[arg(long, value_delimiter = ',')]
        workloads: Vec<String>,
        /// Our policies that take part.
        #[arg(long, value_delimiter = ',', default_value = "deloc,balance,data-only")]
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
                        "{:24} {:6} {:6} {}",
                        scenario.name, scenario.machine.name, quick, scenario.about
                    ));
                }
                Ok(0)
            }
            Self::Run {
                names,
                quick,
                verbose,
                keep,
            } => {
                for name in &names {
                    let known = scenarios.iter().any(|scenario| scenario.name == *name);
                    known.then_some(()).with_context(|| {
                        format!("there is no scenario `{name}`; see numad-vm list")
                    })?;
                }
                let wanted = |scenario: &&Scenario| {
                    (names.is_empty() || names.contains(&scenario.name))
                        && (!quick || scenario.quick)
                };
                let wanted: Vec<&Scenario> = scenarios.iter().filter(wanted).collect();
                run_all(&kit, &wanted, verbose, keep.as_ref())
            }
            Self::Compare {
                seeds,
                workloads,
                policies,
                only,
                machine,
                fresh,
                output,
            } => {
                let mut contestants = compare::contestants(&policies);
                contestants.retain(|one| only.is_empty() || only.contains(&one.name));
                let wanted = compare::Wanted {
                    machine: machine::find(&machine)?,
                    workloads,
                    contestants,
                    seeds,
                    fresh,
                };
                let cells = compare::compare(&kit, &wanted, &mut say)?;
                let table = report::table(&cells);
                std::fs::create_dir_all(&output)?;
                std::fs::write(output.join("table.md"), &table)?;
                std::fs::write(output.join("compare.html"), report::page(&cells, &machine))?;
                say(&table);
                Ok(0)
            }
        }
    }
}

fn run_all(
    kit: &Kit,
    scenarios: &[&Scenario],
    verbose: bool,
    keep: Option<&PathBuf>,
) -> Result<usize> {
    let image = image::build(kit, "scenarios.img", &programs(kit)?)?;
    let mut failed = 0;
    for scenario in scenarios {
        let ran = guest::run(
            kit,
            &Run {
                machine: &scenario.machine,
                image: &image,
                script: &scenario.script,
                truth: !scenario.expectations.is_empty(),
                limit: scenario.limit,
            },
        )
        .with_context(|| format!("in scenario `{}`", scenario.name))?;
        if let Some(folder) = keep {
            std::fs::create_dir_all(folder)?;
            std::fs::write(folder.join(format!("{}.tar", scenario.name)), &ran.files)?;
            std::fs::write(
                folder.join(format!("{}.truth.json", scenario.name)),
                ran.truth.as_deref().unwrap_or_default(),
            )?;
        }
        failed += usize::from(!report(scenario, &ran, verbose)?);
    }
    say(&format!(
        "{} of {} scenarios passed",
        scenarios.len() - failed,
        scenarios.len()
    ));
    Ok(failed)
}

/// What every guest has.
fn programs(kit: &Kit) -> Result<Vec<Item>> {
    let mut items = vec![
        Item::program(image::find("numactl")?),
        Item::program(image::find("migratepages")?),
        Item::program(image::find("setpriv")?),
        Item::program(kit.path("build/tell-cpus")),
        Item::program(kit.path("build/mark")),
        Item {
            host: kit.path("build/mark.so"),
            guest: "/lib/mark.so".to_owned(),
        },
        Item {
            host: kit.path("distribution/usr/bin/numad"),
            guest: "/opt/distribution/numad".to_owned(),
        },
    ];
    for program in ["numad", "numadctl", "numad-workload"] {
        items.push(Item::program(kit.stripped(program)?));
    }
    Ok(items)
}

/// Says how it went; true if well.
fn report(scenario: &Scenario, ran: &Ran, verbose: bool) -> Result<bool> {
    let mut complaints = Vec::new();
    match ran.code {
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
    } else if !scenario.expectations.is_empty() {
        complaints.push("there is no ground truth".to_owned());
    }
    let seconds = ran.wall.as_secs_f64();
    if complaints.is_empty() {
        say(&format!("ok      {} ({seconds:.0} s)", scenario.name));
        if verbose {
            say(&ran.output);
        }
        return Ok(true);
    }
    say(&format!(
        "FAILED  {} on {} ({seconds:.0} s): {}",
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
