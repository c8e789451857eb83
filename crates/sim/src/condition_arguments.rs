//! Flags about memory, samples and what is known of the machine, for single runs and for the matrix.

use crate::scenario::Bandwidth;
use crate::{Conditions, RunError, RunErrorKind};
use clap::Args;

#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(crate) struct ConditionArguments {
    /// Memory is in pages of 2 MiB, which move as one
    #[arg(long)]
    huge: bool,
    /// Who touches memory first: own (as the workload is described), one (a thread all of it) or all (its
    /// users, in equal parts)
    #[arg(long, value_name = "WHO")]
    touch: Option<String>,
    /// Pieces of memory are strewn over the whole address space
    #[arg(long)]
    sparse: bool,
    /// Threads start one after the other, within two seconds
    #[arg(long)]
    staggered: bool,
    /// Threads that nobody has bound change places, as at barriers
    #[arg(long)]
    wander: bool,
    /// What a sample is taken of: period (every so-manieth access) or faults (the first write to a page
    /// since it was write-protected)
    #[arg(long, value_name = "KIND")]
    source: Option<String>,
    /// Samples a second of the whole machine when nothing slows it down [default: 700 of a thread]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    samples: Option<u32>,
    /// What is known of the machine's bandwidth: measured (as after `numadctl characterize`) or unknown
    #[arg(long, value_name = "KIND")]
    bandwidth: Option<String>,
}

impl ConditionArguments {
    /// What was asked for, with memory as it is by default.
    pub(crate) fn conditions(&self) -> Result<Conditions, RunError> {
        let default = Conditions::default();
        Ok(Conditions {
            memory: default.memory,
            huge: self.huge,
            touch: parsed(self.touch.as_deref(), default.touch)?,
            sparse: self.sparse,
            staggered: self.staggered,
            wander: self.wander,
            source: parsed(self.source.as_deref(), default.source)?,
            samples_per_s: self.samples,
        })
    }

    pub(crate) fn bandwidth(&self) -> Result<Bandwidth, RunError> {
        parsed(self.bandwidth.as_deref(), Bandwidth::Measured)
    }
}

fn parsed<T: std::str::FromStr<Err = String>>(
    text: Option<&str>,
    default: T,
) -> Result<T, RunError> {
    let value = text.map(str::parse).transpose();
    let value = value.map_err(|error: String| RunError::new(RunErrorKind::Usage, error))?;
    Ok(value.unwrap_or(default))
}
