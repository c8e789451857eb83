//! What is kept of attachments after their end, one file for each.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use control::rows::{AttachmentDetail, EventRow, UndoReport};
use control::story::{FORMAT, Story, StoryRow};
use control::{ErrorKind, Failure};
use numad_core::AttachmentId;

use super::history::HISTORY_MAX;
use super::program::Program;
use super::{MatrixDraft, MatrixWindow, Steward};
use crate::log::Log;
use crate::peer::Peer;
use crate::shelf::{Room, Shelf};

/// Threads of a program whose matrix is kept: that of 128 takes 200 kB as text.
const MATRIX_THREADS_MAX: usize = 128;

/// Longest first line of a file.
const ROW_BYTES_MAX: u64 = 64 << 10;

/// All stories.
#[derive(Debug)]
pub struct Stories {
    shelf: Shelf,
    rows: BTreeMap<u32, StoryRow>,
}

/// A story that is not told to its end: what is undone is missing.
#[derive(Debug)]
pub(super) struct Draft {
    row: StoryRow,
    detail: AttachmentDetail,
    matrix: Option<MatrixDraft>,
    events: Vec<EventRow>,
}

impl Stories {
    /// Those on a shelf.
    #[must_use]
    pub fn new(shelf: Shelf, log: &Log) -> Self {
        let mut rows = BTreeMap::new();
        for (id, _) in shelf.files() {
            match row(&shelf.path(id).unwrap_or_default()) {
                Ok(row) => drop(rows.insert(id, row)),
                Err(why) => log.warn(format_args!("the story of attachment {id} is lost: {why}")),
            }
        }
        Self { shelf, rows }
    }

    /// The highest number of an attachment that there is a story of.
    #[must_use]
    pub const fn last(&self) -> u32 {
        self.shelf.last()
    }
}

fn row(path: &Path) -> Result<StoryRow, Failure> {
    let mut line = Vec::new();
    File::open(path)
        .and_then(|file| BufReader::new(file.take(ROW_BYTES_MAX)).read_until(b'\n', &mut line))
        .map_err(|error| unreadable(path, &error))?;
    StoryRow::read(&line)
}

/// Reads a story.
///
/// # Errors
/// When the file cannot be read, or is damaged.
pub fn read_story(path: &Path) -> Result<Story, Failure> {
    let bytes = fs::read(path).map_err(|error| unreadable(path, &error))?;
    Story::read(&bytes)
}

impl Steward {
    /// The stories that a peer may see, oldest first.
    #[must_use]
    pub fn stories(&self, peer: Peer) -> Vec<StoryRow> {
        let rows = self.stories.rows.values();
        rows.filter(|row| peer.owns(row.uid)).cloned().collect()
    }

    /// Where the story of an attachment is.
    ///
    /// # Errors
    /// When there is none, or it is someone else's.
    pub fn find_story(&self, peer: Peer, id: u32) -> Result<PathBuf, Failure> {
        let row = self.stories.rows.get(&id);
        let path = self.stories.shelf.path(id);
        let (Some(row), Some(path)) = (row, path) else {
            let message = format!("nothing is kept of an attachment `{id}`");
            return Err(Failure::new(ErrorKind::NotFound, message).remedy("see `numadctl history`"));
        };
        match peer.owns(row.uid) {
            true => Ok(path),
            false => Err(super::view::not_yours(AttachmentId(id))),
        }
    }

    /// Takes down what is known of an attachment, before it is forgotten; none for those of experiments, whose files tell.
    pub(super) fn draft_story(&mut self, id: AttachmentId) -> Option<Draft> {
        let program = self.programs.get(&id)?;
        if !self.has_story(program) {
            return None;
        }
        let uid = program.confined_to.map_or(0, |user| user.uid);
        let sights = program.local_sights();
        let events = program.history.last(HISTORY_MAX);
        let detail = self.detail(Peer::DAEMON, id).ok()?;
        let attachment = &detail.attachment;
        let row = StoryRow {
            format: FORMAT,
            id: id.0,
            uid,
            command: attachment.command.clone(),
            policy: attachment.policy.clone(),
            dry_run: attachment.dry_run,
            ended_unix_s: self.parts.machine.date_s(),
            lasted_s: attachment.attached_s,
            samples: attachment.samples,
            thread_moves: attachment.ledger.thread_moves,
            pages_moved: attachment.ledger.pages_moved,
            local_before: sights.0,
            local_after: sights.1,
        };
        self.note_matrix(id);
        let matrix = self.programs.get_mut(&id)?.matrix.take();
        Some(Draft {
            row,
            detail,
            matrix,
            events,
        })
    }

    /// Whether a story of the program is kept when it ends.
    fn has_story(&self, program: &Program) -> bool {
        !program.in_experiment && self.parts.config.daemon.kept_max > 0
    }

    /// Takes down who shares with whom, for the story, as long as there are threads to tell of.
    pub(super) fn note_matrix(&mut self, id: AttachmentId) {
        let wanted = self
            .programs
            .get(&id)
            .is_some_and(|program| self.has_story(program));
        if !wanted || self.engine.tasks(id).is_empty() {
            return;
        }
        let matrix = self.story_matrix(id);
        if let Some(program) = self.programs.get_mut(&id)
            && !matrix.as_ref().is_some_and(MatrixDraft::is_empty)
        {
            program.matrix = matrix;
        }
    }

    /// Who shares with whom, as it is kept; none for programs of very many threads.
    pub(super) fn story_matrix(&mut self, id: AttachmentId) -> Option<MatrixDraft> {
        let threads = self.engine.tasks(id).len();
        let matrix = || self.matrix(Peer::DAEMON, id, MatrixWindow::Decayed).ok();
        (threads <= MATRIX_THREADS_MAX).then(matrix)?
    }

    /// Keeps a story. After everything is put back: a full disk must not be in its way.
    pub(super) fn keep_story(&mut self, draft: Draft, undone: Option<UndoReport>) {
        let Draft {
            row,
            detail,
            matrix,
            events,
        } = draft;
        let story = Story {
            row: row.clone(),
            machine: self.parts.topology.summary(),
            detail,
            matrix: matrix.map(MatrixDraft::row),
            events,
            undone,
        };
        let stories = &mut self.stories;
        let text = story.lines().map_err(io::Error::from);
        let kept = text.and_then(|text| stories.shelf.create(row.id, row.uid, &text));
        if let Err(error) = kept {
            let id = row.id;
            self.parts.log.warn(format_args!(
                "the story of attachment {id} is not kept: {error}"
            ));
            return;
        }
        let id = row.id;
        stories.rows.insert(id, row);
        let room = Room::of(&self.parts.config);
        let subordinates = self.parts.gate.borrow().access.subordinates.clone();
        let gone = stories.shelf.fit(room, &subordinates, |other| other == id);
        for gone in gone {
            stories.rows.remove(&gone);
        }
    }
}

fn unreadable(path: &Path, error: &io::Error) -> Failure {
    let message = format!("`{}` cannot be read: {error}", path.display());
    Failure::new(ErrorKind::Kernel, message)
}
