//! What is kept of an attachment after its end: what was seen, done and put back.
//!
//! A file of two lines of JSON: the row of the list, then everything. So a list costs a line of each file.

use serde::{Deserialize, Serialize};

use crate::error::{ErrorKind, Failure};
use crate::rows::{AttachmentDetail, EventRow, Matrix, UndoReport};

/// Version of the format that this program writes.
pub const FORMAT: u32 = 1;

/// Most bytes of a file.
const BYTES_MAX: usize = 16 << 20;

/// An attachment that has ended, in short.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StoryRow {
    /// Version of the format, [`FORMAT`].
    pub format: u32,
    /// Its number.
    pub id: u32,
    /// Who attached it; 0 for admins.
    pub uid: u32,
    /// Name of its first process.
    pub command: String,
    /// Name of its policy.
    pub policy: String,
    /// Whether nothing was changed.
    pub dry_run: bool,
    /// When it ended, in seconds since 1970.
    pub ended_unix_s: u64,
    /// How long it was attached, in seconds.
    pub lasted_s: f64,
    /// Samples taken.
    pub samples: u64,
    /// Times a thread was given another affinity.
    pub thread_moves: u64,
    /// Pages moved.
    pub pages_moved: u64,
    /// Share of accesses that were local in the first window that tells; absent if none did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub local_before: Option<f64>,
    /// The same in the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub local_after: Option<f64>,
}

/// All that is kept of an attachment that has ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Story {
    /// In short.
    pub row: StoryRow,
    /// The machine in one line.
    pub machine: String,
    /// The program as it was last, its threads, and the settings of the policy.
    pub detail: AttachmentDetail,
    /// Who shared memory with whom over all windows; absent for programs of very many threads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matrix: Option<Matrix>,
    /// What was done and not done, oldest first.
    pub events: Vec<EventRow>,
    /// What was put back; absent where all programs were put back together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undone: Option<UndoReport>,
}

impl Story {
    /// The text of its file.
    ///
    /// # Errors
    /// None that is known: numbers and texts always become JSON.
    pub fn lines(&self) -> Result<String, serde_json::Error> {
        let row = serde_json::to_string(&self.row)?;
        Ok(format!("{row}\n{}\n", serde_json::to_string(self)?))
    }

    /// Reads such a file. Takes any bytes.
    ///
    /// # Errors
    /// What is wrong, on one line.
    pub fn read(bytes: &[u8]) -> Result<Self, Failure> {
        if bytes.len() > BYTES_MAX {
            return Err(no_story("it is too large"));
        }
        StoryRow::read(bytes)?;
        let second = bytes.split(|byte| *byte == b'\n').nth(1);
        let second = second.ok_or_else(|| no_story("it is cut off"))?;
        serde_json::from_slice(second).map_err(|error| no_story(&error.to_string()))
    }
}

impl StoryRow {
    /// Reads the row from the beginning of a file. Takes any bytes.
    ///
    /// # Errors
    /// What is wrong, on one line.
    pub fn read(bytes: &[u8]) -> Result<Self, Failure> {
        let first = bytes.split(|byte| *byte == b'\n').next();
        let row: Self = serde_json::from_slice(first.unwrap_or_default())
            .map_err(|error| no_story(&error.to_string()))?;
        match row.format <= FORMAT {
            true => Ok(row),
            false => Err(no_story("a later numad wrote it")),
        }
    }
}

fn no_story(why: &str) -> Failure {
    let why: String = why.chars().filter(|c| !c.is_control()).take(200).collect();
    Failure::new(
        ErrorKind::Internal,
        format!("what is kept of the attachment is damaged: {why}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROW: &str = r#"{"format":1,"id":3,"uid":0,"command":"solver","policy":"deloc","dry_run":false,"ended_unix_s":1,"lasted_s":2.5,"samples":9,"thread_moves":1,"pages_moved":2}"#;

    #[test]
    fn a_row_is_read_from_the_first_line() {
        let row = StoryRow::read(format!("{ROW}\nwhatever").as_bytes()).unwrap();
        assert_eq!((row.id, row.local_before), (3, None));
        for wrong in ["", "{}", "\n", &ROW.replace("\"format\":1", "\"format\":2")] {
            assert!(StoryRow::read(wrong.as_bytes()).is_err(), "{wrong}");
        }
        for wrong in [ROW.to_owned(), format!("{ROW}\n"), format!("{ROW}\n{{}}\n")] {
            let failure = Story::read(wrong.as_bytes()).unwrap_err();
            assert!(!failure.message.contains('\n'), "{failure}");
        }
    }
}
