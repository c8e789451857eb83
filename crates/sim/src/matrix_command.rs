//! `numad-sim matrix`: runs the jobs of a matrix on all processors and writes what came of them.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::matrix::{Choice, Done, MACHINES_QUICK, Matrix, Plan, WINDOWS, WINDOWS_QUICK};
use crate::scenario::Bandwidth;
use crate::{RunError, RunErrorKind};
use clap::Args;

use crate::cli::Failure;
use crate::condition_arguments::ConditionArguments;
use crate::jobs;

/// Every policy on every workload on every machine, in one table.
///
/// Writes matrix.md, matrix.html, cells.csv and windows.csv; the same choice writes the same bytes, however many
/// threads run it. `linux` and `none` always take part.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct MatrixArguments {
    /// Which policies, joined by commas [default: all]
    #[arg(long, value_name = "A,B")]
    policies: Option<String>,
    /// Which workloads, joined by commas; `made:1-40` are programs that are drawn by number [default:
    /// all]
    #[arg(long, value_name = "A,B")]
    workloads: Option<String>,
    /// Which machines, joined by commas [default: all]
    #[arg(long, value_name = "A,B")]
    machines: Option<String>,
    /// Memory of a thread, sizes such as 8M,1G,64G joined by commas [default: 512K]
    #[arg(long, value_name = "SIZES")]
    memory: Option<String>,
    #[command(flatten)]
    conditions: ConditionArguments,
    /// Seeds of each cell, whose figures are means [default: 1]
    #[arg(long, value_name = "N")]
    seeds: Option<u64>,
    /// How many windows a program that stands still goes through, from 6 [default: 12, quick 8]
    #[arg(long, value_name = "N")]
    windows: Option<u32>,
    /// Windows as programs get them by default, from 125 ms on, instead of the papers' from 0.5 to
    /// 2 s: closer to what a machine shows, in some five times the time
    #[arg(long)]
    calm: bool,
    /// How many threads run it [default: one per cpu]
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Two machines and fewer windows: less than a minute
    #[arg(long)]
    quick: bool,
    /// Say nothing of progress
    #[arg(long)]
    quiet: bool,
    /// Directory to write into; made if it is not there
    #[arg(short, long, value_name = "DIR", default_value = "target/matrix")]
    output: PathBuf,
}

const EXAMPLES: &str = "\
EXAMPLE:
  numad-sim matrix --policies deloc,balance --machines 2x16 --seeds 3 -o /tmp/matrix

Exit codes: 0 done, whatever the checks say; 1 a rule was broken, which is a mistake in numad, or a file
cannot be written; 2 the command line makes no sense; 6 no such policy, workload or machine.";

/// Cells that break a check and are printed; the files have all.
const BROKEN_MAX: usize = 8;

pub(crate) fn run(arguments: &MatrixArguments, out: &mut impl Write) -> Result<u8, Failure> {
    let plan = Plan::new(&arguments.choice()?)?;
    let threads = jobs::threads(arguments.threads)?;
    make_directory(&arguments.output)?;
    let done = run_jobs(&plan, threads, arguments.quiet)?;
    let matrix = plan.finish(done);
    let command = arguments.command();
    write_file(&arguments.output, "matrix.md", &matrix.markdown(&command))?;
    write_file(&arguments.output, "matrix.html", &matrix.html(&command))?;
    write_file(&arguments.output, "cells.csv", &matrix.cells_csv())?;
    write_file(&arguments.output, "windows.csv", &matrix.windows_csv())?;
    print(&matrix, &arguments.output, out)
}

fn print(matrix: &Matrix, directory: &Path, out: &mut impl Write) -> Result<u8, Failure> {
    write!(out, "{}", matrix.summary())?;
    for check in matrix.checks() {
        write!(out, "{}", check.lines(BROKEN_MAX))?;
    }
    let directory = directory.display();
    writeln!(
        out,
        "written: {directory}/matrix.md, matrix.html, cells.csv, windows.csv"
    )?;
    out.flush()?;
    Ok(u8::from(!matrix.is_sound()))
}

/// Every job once, on so many threads; what came of them by number of the job.
fn run_jobs(plan: &Plan, threads: usize, quiet: bool) -> Result<Vec<Done>, RunError> {
    let done = jobs::run(&plan.order(), (threads, quiet), |job| plan.run(job))?;
    let done = done.into_iter().enumerate().map(|(job, done)| {
        done.ok_or_else(|| {
            let message = format!("`{}` was not run", plan.describe(job));
            RunError::new(RunErrorKind::Internal, message)
        })
    });
    done.collect()
}

fn make_directory(path: &Path) -> Result<(), RunError> {
    fs::create_dir_all(path).map_err(|error| cannot_write(path, &error))
}

fn write_file(directory: &Path, name: &str, text: &str) -> Result<(), RunError> {
    let path = directory.join(name);
    fs::write(&path, text).map_err(|error| cannot_write(&path, &error))
}

fn cannot_write(path: &Path, error: &io::Error) -> RunError {
    let message = format!("cannot write `{}`: {error}", path.display());
    RunError::new(RunErrorKind::Internal, message)
}

impl MatrixArguments {
    fn choice(&self) -> Result<Choice, RunError> {
        let quick = |normal: u32, quick: u32| if self.quick { quick } else { normal };
        Ok(Choice {
            memory: self.memory.clone(),
            conditions: self.conditions.conditions()?,
            bandwidth: self.conditions.bandwidth()?,
            policies: self.policies.clone(),
            workloads: self.workloads.clone(),
            machines: self
                .machines
                .clone()
                .or_else(|| self.quick.then(|| MACHINES_QUICK.to_owned())),
            seeds: self.seeds.unwrap_or(1),
            windows: self
                .windows
                .unwrap_or_else(|| quick(WINDOWS, WINDOWS_QUICK)),
            calm: self.calm,
        })
    }

    /// The command that gives the same figures; where they are written to is nobody's business.
    fn command(&self) -> String {
        let mut command = "numad-sim matrix".to_owned();
        let lists = [
            ("--policies", &self.policies),
            ("--workloads", &self.workloads),
            ("--machines", &self.machines),
            ("--memory", &self.memory),
        ];
        for (flag, list) in lists {
            if let Some(list) = list {
                command.push_str(&format!(" {flag} {list}"));
            }
        }
        for (flag, number) in [
            ("--seeds", self.seeds),
            ("--windows", self.windows.map(u64::from)),
        ] {
            if let Some(number) = number {
                command.push_str(&format!(" {flag} {number}"));
            }
        }
        if let Ok(conditions) = self.conditions.conditions() {
            command.push_str(&conditions.to_string());
        }
        if let Ok(bandwidth @ Bandwidth::Unknown) = self.conditions.bandwidth() {
            command.push_str(&format!(" --bandwidth {bandwidth}"));
        }
        for (flag, given) in [("--calm", self.calm), ("--quick", self.quick)] {
            if given {
                command.push_str(&format!(" {flag}"));
            }
        }
        command
    }
}
