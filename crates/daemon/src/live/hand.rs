//! The hand that changes this machine: the actuator on the journal in the state directory.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use actuator::{Journal, JournalLimits, Linux, Live, OpenError};
use control::rows::{Finding, UndoReport};
use control::{ErrorKind, Failure};
use nix::unistd::{AccessFlags, access};
use numad_core::{Action, Host, Outcome};
use procfs::Reader;
use topology::NodeId;

use super::census::LiveCensus;
use super::findings::finding;
use super::look::{Residency, told};
use crate::clock;
use crate::log::Log;
use crate::steward::{Hand, Scope};

/// See the module.
#[derive(Debug)]
pub struct LiveHand {
    live: Live<Linux, LiveCensus>,
    directory: PathBuf,
    log: Log,
    /// Changes refused because the journal could not be written; told once.
    unwritten: u64,
}

impl LiveHand {
    /// Opens the journal in a directory, which is made if it is not there, and holds it against
    /// every other daemon.
    ///
    /// # Errors
    /// `Conflict` when another daemon has it, `Prerequisite` when it cannot be opened.
    pub fn open(directory: &Path, reader: &Reader, log: &Log) -> Result<Self, Failure> {
        let boot = reader
            .boot_id()
            .map_err(|error| Failure::new(ErrorKind::Prerequisite, told(&error)))?;
        let journal = Journal::open(directory, &boot, JournalLimits::default())
            .map_err(|error| closed(&error))?;
        let found = journal.found();
        if let Some(aside) = &found.set_aside {
            let aside = aside.display();
            log.warn(format_args!(
                "a journal that says nothing of this boot was set aside as `{aside}`"
            ));
        }
        if found.damaged > 0 {
            let damaged = found.damaged;
            log.warn(format_args!(
                "ignoring {damaged} damaged lines of the journal"
            ));
        }
        let census = LiveCensus::new(reader.clone());
        Ok(Self {
            live: Live::new(journal, Linux, census, clock::monotonic),
            directory: directory.to_owned(),
            log: log.clone(),
            unwritten: 0,
        })
    }

    /// How long one call that moves pages may take; 5 ms if nothing is said.
    pub fn pause_at_most(&mut self, pause: Duration) {
        self.live.pause_at_most(pause);
    }

    /// Asks the kernel where pages are.
    #[must_use]
    pub fn residency() -> Residency {
        let mut kernel = Linux;
        Box::new(move |pid, pages| -> Vec<Option<NodeId>> {
            match actuator::residency(&mut kernel, pid, pages) {
                Ok(places) => places.into_iter().map(actuator::PageStatus::node).collect(),
                // Gone, or not ours to look at: then nothing is known of any.
                Err(_refusal) => vec![None; pages.len()],
            }
        })
    }

    fn tell_unwritten(&mut self) {
        let Some(error) = self.live.take_write_error() else {
            return;
        };
        if self.unwritten == 0 {
            let error = told(&error);
            self.log.error(format_args!(
                "{error}; nothing is changed until that is possible"
            ));
        }
        self.unwritten += 1;
    }
}

fn closed(error: &OpenError) -> Failure {
    match error {
        OpenError::InUse(..) => Failure::new(ErrorKind::Conflict, told(error)),
        OpenError::Newer(..) => Failure::new(ErrorKind::Prerequisite, told(error)),
        OpenError::Io(..) => Failure::new(ErrorKind::Prerequisite, told(error))
            .remedy("start as root, or name a --state-dir you may write"),
    }
}

impl Host for LiveHand {
    fn perform(&mut self, action: &Action) -> Outcome {
        let outcome = self.live.perform(action);
        self.tell_unwritten();
        outcome
    }
}

impl Hand for LiveHand {
    fn undo(&mut self, scope: &Scope) -> UndoReport {
        let scope = match scope {
            Scope::All => actuator::Scope::All,
            Scope::Processes(pids) => {
                actuator::Scope::Pids(pids.iter().copied().collect::<BTreeSet<_>>())
            }
        };
        let report = self.live.undo(&scope);
        self.tell_unwritten();
        UndoReport {
            threads_restored: report.threads_restored,
            threads_gone: report.threads_gone,
            threads_left: report.threads_left,
            pages_restored: report.pages_restored,
            pages_gone: report.pages_gone,
            pages_left: report.pages_left,
            failed: report.failed,
        }
    }

    fn tidy(&mut self) {
        self.live.prune();
        self.tell_unwritten();
    }

    fn open_rows(&self) -> u64 {
        self.live.journal().open_rows()
    }

    fn take_pause_max_ns(&mut self) -> u64 {
        u64::try_from(self.live.take_pause_max().as_nanos()).unwrap_or(u64::MAX)
    }

    fn findings(&self) -> Vec<Finding> {
        const SUBJECT: &str = "undo journal";
        let directory = self.directory.display();
        let open = self.open_rows();
        if let Err(errno) = access(&self.directory, AccessFlags::W_OK) {
            let text = format!("`{directory}` cannot be written: {}", errno.desc());
            let remedy = "make it writable for numad; nothing is changed until then";
            return vec![finding("missing", SUBJECT, text, remedy)];
        }
        if self.unwritten > 0 {
            let count = self.unwritten;
            let text = format!("`{directory}`: {count} changes were refused, for it took no rows");
            return vec![finding(
                "limited",
                SUBJECT,
                text,
                "see the log; free space on the disk",
            )];
        }
        vec![finding(
            "ok",
            SUBJECT,
            format!("in `{directory}`, {open} rows not undone"),
            "",
        )]
    }
}
