//! The hand that changes this machine: the actuator on the journal in the state directory.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use actuator::{
    Asker, Balancing, Bounded, Breathe, Journal, JournalLimits, Live, OpenError, ProcessKey,
    QUESTION,
};
use control::rows::{Finding, JournalReport, UndoReport};
use control::{ErrorKind, Failure};
use nix::unistd::{AccessFlags, access};
use numad_core::{Action, AttachmentId, Host, Outcome, Refusal};
use procfs::Reader;
use topology::Pid;

use super::census::LiveCensus;
use super::look::{Residency, told};
use super::maps::{self, Maps};
use crate::clock;
use crate::log::Log;
use crate::steward::{Hand, Scope, finding};

/// See the module.
#[derive(Debug)]
pub struct LiveHand {
    live: Live<Bounded, LiveCensus>,
    reader: Reader,
    asker: Asker,
    directory: PathBuf,
    log: Log,
    /// Changes refused because the journal could not be written, and when that was last told.
    unwritten: u64,
    told: Option<Instant>,
    /// Descriptors that an undo needs when clients have taken all others.
    spare: Vec<File>,
}

/// Opens what is closed again when an undo begins.
fn spare() -> Vec<File> {
    let open = || File::open("/dev/null").ok();
    std::iter::repeat_with(open).take(SPARE).flatten().collect()
}

/// How long it is not told again that the journal cannot be written, for each change says so: a
/// disk may be full twice while the daemon runs.
const TOLD_AGAIN: Duration = Duration::from_secs(3_600);

/// A directory, a file in it, a held process, and the journal with its directory, twice over.
const SPARE: usize = 10;

impl LiveHand {
    /// Opens the journal in a directory, which is made if it is not there, and holds it against
    /// every other daemon.
    ///
    /// # Errors
    /// `Conflict` when another daemon has it, `Prerequisite` when it cannot be opened.
    pub fn open(directory: &Path, reader: &Reader, log: &Log) -> Result<Self, Failure> {
        Self::open_by(Journal::open, directory, reader, log)
    }

    /// The same for an undo and nothing else: where the directory cannot be written, what it says is undone even so.
    ///
    /// # Errors
    /// As of [`Self::open`].
    pub fn open_for_undo(directory: &Path, reader: &Reader, log: &Log) -> Result<Self, Failure> {
        Self::open_by(Journal::open_for_undo, directory, reader, log)
    }

    fn open_by(
        open: impl FnOnce(&Path, &str, JournalLimits) -> Result<Journal, OpenError>,
        directory: &Path,
        reader: &Reader,
        log: &Log,
    ) -> Result<Self, Failure> {
        let boot = reader
            .boot_id()
            .map_err(|error| Failure::new(ErrorKind::Prerequisite, told(&error)))?;
        let journal =
            open(directory, &boot, JournalLimits::default()).map_err(|error| closed(&error))?;
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
        if found.stale {
            log.warn(format_args!(
                "the journal in `{}` says nothing of this boot",
                directory.display()
            ));
        }
        let asker = maps::asker(reader);
        let maps = Maps::new(reader.clone(), asker.clone(), maps::kernel_devices());
        let census = LiveCensus::new(reader.clone(), maps);
        let kernel = Bounded::new(asker.clone());
        Ok(Self {
            live: Live::new(journal, kernel, census, clock::monotonic),
            reader: reader.clone(),
            asker,
            directory: directory.to_owned(),
            log: log.clone(),
            unwritten: 0,
            told: None,
            spare: spare(),
        })
    }

    /// How long one call that moves pages may take; 5 ms if nothing is said.
    pub fn pause_at_most(&mut self, pause: Duration) {
        self.live.pause_at_most(pause);
    }

    /// How many calls that move pages may go on side by side; one if nothing is said.
    pub fn move_side_by_side(&mut self, most: usize) {
        self.live.move_side_by_side(most);
    }

    /// Who asks about memory, for all others who do: what one learns of a process holds for them
    /// too.
    #[must_use]
    pub fn asker(&self) -> Asker {
        self.asker.clone()
    }

    /// Asks the kernel where pages are.
    #[must_use]
    pub fn residency(&self, page_bytes: u64) -> Residency {
        let asker = self.asker();
        let mut kernel = Bounded::new(asker.clone());
        Box::new(move |pid, pages, with_sizes| {
            let Ok(places) = actuator::residency(&mut kernel, pid, pages) else {
                // Gone, or not ours to look at: then nothing is known of any.
                return vec![(None, false); pages.len()];
            };
            let large = with_sizes.then(|| {
                let asked = pages.to_vec();
                let question = move || actuator::are_large(pid, &asked, page_bytes);
                asker.ask(pid, QUESTION, question).ok()
            });
            let large = large.flatten().unwrap_or_else(|| vec![false; pages.len()]);
            let nodes = places.into_iter().map(actuator::PageStatus::node);
            nodes.zip(large).collect()
        })
    }

    /// Puts everything back, and ends. Meanwhile `breathe` is called as in [`Hand::undo`].
    ///
    /// # Errors
    /// The report beside the failure: `Kernel` when something could not be put back; `Prerequisite` when all was, and
    /// the journal could not be written anew without it.
    pub fn undo_and_end(mut self, breathe: Breathe<'_>) -> (UndoReport, Result<(), Failure>) {
        self.spare.clear();
        let report = report_of(self.live.undo_breathing(&Scope::All, breathe));
        let unwritten = self.live.take_write_error();
        let result = match (report.failed.len(), unwritten) {
            (0, None) => Ok(()),
            (0, Some(error)) => {
                let error = told(&error);
                let message = format!("{error}; it still lists what was put back");
                Err(Failure::new(ErrorKind::Prerequisite, message)
                    .remedy("make it writable and undo again, which changes nothing more"))
            }
            (count, unwritten) => {
                let mut message = match count {
                    1 => "1 change could not be undone".to_owned(),
                    _ => format!("{count} changes could not be undone"),
                };
                if let Some(error) = unwritten {
                    message += &format!(", and {}", told(&error));
                }
                Err(Failure::new(ErrorKind::Kernel, message)
                    .remedy("see above, and try again as root"))
            }
        };
        (report, result)
    }

    fn tell_unwritten(&mut self) {
        let Some(error) = self.live.take_write_error() else {
            return;
        };
        if self.told.is_none_or(|told| told.elapsed() >= TOLD_AGAIN) {
            self.told = Some(Instant::now());
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

fn report_of(report: actuator::UndoReport) -> UndoReport {
    UndoReport {
        threads_restored: report.threads_restored,
        threads_gone: report.threads_gone,
        threads_left: report.threads_left,
        threads_parked: report.threads_parked,
        pages_restored: report.pages_restored,
        pages_gone: report.pages_gone,
        pages_left: report.pages_left,
        failed: report.failed,
    }
}

impl Host for LiveHand {
    fn perform(&mut self, action: &Action) -> Outcome {
        let outcome = self.live.perform(action);
        self.tell_unwritten();
        outcome
    }

    fn perform_all(&mut self, actions: &[Action]) -> Vec<Outcome> {
        let outcomes = self.live.perform_all(actions);
        self.tell_unwritten();
        outcomes
    }
}

impl Hand for LiveHand {
    fn undo(&mut self, scope: &Scope, breathe: Breathe<'_>) -> UndoReport {
        self.spare.clear();
        let report = self.live.undo_breathing(scope, breathe);
        self.spare = spare();
        self.tell_unwritten();
        report_of(report)
    }

    fn is_unfinished(&self) -> bool {
        self.live.is_unfinished()
    }

    fn undo_more(&mut self, breathe: Breathe<'_>) -> Option<UndoReport> {
        self.spare.clear();
        let report = self.live.undo_more(breathe);
        self.spare = spare();
        self.tell_unwritten();
        report.map(report_of)
    }

    fn charge(&mut self, attachment: AttachmentId, payer: u32) {
        self.live.charge(attachment, payer);
    }

    fn follow(&mut self, attachment: AttachmentId, processes: &[ProcessKey]) {
        self.live.follow(attachment, processes);
        self.tell_unwritten();
    }

    fn began_another(&mut self, pids: &[Pid]) {
        self.live.began_another(pids);
    }

    fn tidy(&mut self) {
        self.live.prune();
        self.tell_unwritten();
    }

    fn balance(&mut self) -> Result<Balancing, Refusal> {
        let balancing = self.live.balance();
        self.tell_unwritten();
        balancing
    }

    fn leave_balancing(&mut self) -> Result<(), String> {
        let left = self.live.leave_balancing();
        self.tell_unwritten();
        left
    }

    fn waits(&self) -> bool {
        self.live.waiting() > 0 || self.live.journal().is_outdated()
    }

    fn open_rows(&self) -> u64 {
        self.live.journal().open_rows()
    }

    fn journal(&self) -> JournalReport {
        let now = self.reader.now().ok();
        let contents = self.live.journal().contents();
        JournalReport {
            directory: self.directory.display().to_string(),
            ..contents.report(&|since| Some(procfs::age(since, now?)))
        }
    }

    fn at_once(&self) -> usize {
        self.live.actions_at_once()
    }

    fn take_beside(&mut self) -> Duration {
        self.live.take_beside()
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
