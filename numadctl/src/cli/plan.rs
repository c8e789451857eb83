//! Flags of `plan`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use control::plan::Level;

/// Arguments of `plan`.
#[derive(Clone, Debug, Args)]
pub struct Plan {
    /// What an earlier run communicated: a profile (`numadctl profile --json`), a recording, a file of perf, a matrix
    /// as `numadctl matrix --csv` prints it, a square of comma-separated amounts, or the directory with Open MPI's
    /// monitoring files (*.prof)
    #[arg(value_name = "PROFILE")]
    pub profile: PathBuf,
    /// Machines that the run is for, separated by commas where they have none: `this`, an hwloc XML file, a directory
    /// that looks like a root, or a text as `4x16@10,21`; may be given several times
    #[arg(long, value_name = "MACHINE", default_value = "this")]
    pub machine: Vec<String>,
    /// How to place: deloc, locality, balance, packed, scatter or fixed; without it deloc where it is known who
    /// communicates when, else locality
    #[arg(long, short, value_name = "POLICY")]
    pub policy: Option<String>,
    /// What is placed: ranks that send messages, or threads of one program; without it as the profile says, else ranks
    #[arg(long, value_enum)]
    pub level: Option<Placed>,
    /// File that the plan goes into; `-` is standard output
    #[arg(long, short, value_name = "PLAN")]
    pub output: PathBuf,
}

/// What is placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Placed {
    /// Ranks of an MPI job.
    Message,
    /// Threads of one program.
    Thread,
}

impl Placed {
    /// As plans have it.
    #[must_use]
    pub const fn level(self) -> Level {
        match self {
            Self::Message => Level::Message,
            Self::Thread => Level::Thread,
        }
    }
}

/// The machines that a list names; the comma of a text such as `4x16@10,21` does not part it.
#[must_use]
pub fn machines(given: &[String]) -> Vec<String> {
    let mut machines: Vec<String> = Vec::new();
    for list in given {
        let mut first = true;
        for part in list.split(',') {
            let distance = part
                .bytes()
                .all(|byte| byte.is_ascii_digit() || byte == b';');
            match machines.last_mut() {
                Some(last) if !first && distance && last.contains('@') => {
                    last.push(',');
                    last.push_str(part);
                }
                _ => machines.push(part.to_owned()),
            }
            first = false;
        }
    }
    machines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_comma_of_distances_parts_no_machines() {
        let given = [
            "a.xml,b.xml,4x16@10,21,2x2@10,20;21,10".to_owned(),
            "this".to_owned(),
        ];
        let expected = ["a.xml", "b.xml", "4x16@10,21", "2x2@10,20;21,10", "this"];
        assert_eq!(machines(&given), expected);
    }
}
