//! The flags of `numad`, defined once for parsing, help and the man page.

use std::path::PathBuf;

use clap::{ArgAction, Args, Command, FromArgMatches};

use crate::advise::Need;

/// What was typed.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Settings file to read in place of /etc/numad/numad.toml and its drop-ins
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Where to listen; wins over the settings
    #[arg(long, value_name = "PATH", env = control::SOCKET_VARIABLE)]
    pub socket: Option<PathBuf>,

    /// Where the undo journal is kept; wins over the settings
    #[arg(long, value_name = "DIR")]
    pub state_dir: Option<PathBuf>,

    /// Put back what an earlier run left behind, and end
    #[arg(long, action = ArgAction::SetTrue, conflicts_with = "check_config")]
    pub undo: bool,

    /// Check the settings, and end
    #[arg(long, action = ArgAction::SetTrue)]
    pub check_config: bool,

    /// Print the nodes that a guest of so many processors and MiB should have, and end
    ///
    /// The answer is a list such as `0-1`: the fewest nodes, near each other, whose processors and memory are
    /// free. libvirt asks this for guests with automatic placement. It works without a running daemon; a
    /// daemon that runs adds what its attachments use.
    #[arg(short = 'w', long = "where", value_name = "NCPUS[:MB]", conflicts_with_all = ["undo", "check_config"])]
    pub guest: Option<Need>,
}

/// The definition.
#[must_use]
pub fn command() -> Command {
    // The flags first: adding them later would put the doc line of `Options` in place of these.
    Options::augment_args(Command::new("numad"))
        .version(env!("CARGO_PKG_VERSION"))
        .about("Puts threads and memory where they belong on machines with several memory nodes")
        .long_about(
            "numad samples which thread touches which memory, and lets a policy say where threads \
             and pages of the programs you attach should be. It writes down what was before each \
             change, and puts it back on detach, when it stops, and when it starts again after it \
             was killed.\n\nIt runs in the foreground; numadctl(1) is how to talk to it.",
        )
        .after_help(
            "EXAMPLES:\n  \
             numad                         serve with the settings of /etc/numad\n  \
             numad --socket /tmp/n.sock --state-dir /tmp/n   serve beside the system's own\n  \
             numad --check-config --config new.toml          check a settings file\n  \
             numad --undo                  put everything back without serving\n  \
             numad -w 4:8192               nodes for a guest of 4 processors and 8 GiB\n\n\
             SIGHUP reads the settings again. SIGTERM and SIGINT put everything back and end.",
        )
}

impl Options {
    /// Reads a command line, the program's name first.
    ///
    /// # Errors
    /// What clap prints: help, the version, or what is wrong with the line.
    pub fn read<I, T>(line: I) -> Result<Self, clap::Error>
    where
        I: IntoIterator<Item = T>,
        T: Into<std::ffi::OsString> + Clone,
    {
        Self::from_arg_matches(&command().try_get_matches_from(line)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_is_sound() {
        command().debug_assert();
    }

    #[test]
    fn what_documents_show_is_a_command() {
        testkit::docs::check("numad", &command());
    }

    #[test]
    fn every_flag_is_read() {
        let line = [
            "numad",
            "--config",
            "a",
            "--socket",
            "b",
            "--state-dir",
            "c",
            "--undo",
        ];
        let options = Options::read(line).unwrap();
        let expected = Options {
            config: Some("a".into()),
            socket: Some("b".into()),
            state_dir: Some("c".into()),
            undo: true,
            check_config: false,
            guest: None,
        };
        assert_eq!(options, expected);
    }

    #[test]
    fn a_guest_is_read_as_libvirt_writes_it() {
        let options = Options::read(["numad", "-w", "4:8192"]).unwrap();
        let need = Need { cpus: 4, mib: 8192 };
        assert_eq!(options.guest, Some(need));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for line in [
            &["numad", "-w"][..],
            &["numad", "-w", "0"],
            &["numad", "-w", "4:x"],
            &["numad", "-w", "4", "--undo"],
            &["numad", "--undo", "--check-config"],
            &["numad", "stray"],
        ] {
            assert_eq!(Options::read(line).unwrap_err().exit_code(), 2);
        }
    }
}
