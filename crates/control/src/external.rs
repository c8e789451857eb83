//! What numad and an external policy (`exec:/path/program`) tell each other: lines of JSON.
//!
//! docs/external-policies.md describes the fields for people. The program is not trusted: every number that it
//! answers is checked against what it was asked.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// Begins the name of such a policy.
pub const PREFIX: &str = "exec:";

/// Version of what is said. A program that knows another one is not used.
pub const SCHEMA: u32 = 1;

/// Longest line that a program may answer, without its end.
pub const ANSWER_BYTES_MAX: usize = 256 << 10;

/// Most threads, pages and pairs in one question, and most threads and pages in one answer.
pub const THREADS_MAX: usize = 1_024;
/// See [`THREADS_MAX`].
pub const PAGES_MAX: usize = 2_048;
/// See [`THREADS_MAX`].
pub const PAIRS_MAX: usize = 4_096;

/// Longest name that a program may give itself; the rest is cut off.
const NAME_CHARS_MAX: usize = 64;

/// The first line, from numad.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Greeting {
    /// [`SCHEMA`].
    pub schema: u32,
    /// Version of numad.
    pub numad: String,
    /// The only randomness that makes its answers repeatable.
    pub seed: u64,
    /// How long it may take to answer, in milliseconds.
    pub answer_ms: u64,
    /// Bytes in a page.
    pub page_bytes: u64,
    /// The nodes of the machine; `node` in all that follows is one of their numbers.
    pub nodes: Vec<NodeFacts>,
    /// Distance from each node to each, in the order of `nodes`; 10 is local.
    pub distances: Vec<Vec<u32>>,
}

/// A node of the machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeFacts {
    /// Its number.
    pub node: u32,
    /// Its processors, as in `0-3,8`.
    pub cpus: String,
    /// Its memory.
    pub memory_bytes: u64,
}

/// One window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Question {
    /// Its number, from 1; the answer repeats it.
    pub window: u64,
    /// How long it was, in milliseconds.
    pub length_ms: u64,
    /// Samples in it.
    pub samples: u64,
    /// Room on each node, in the order of the greeting.
    pub room: Vec<Room>,
    /// Threads that take part.
    pub threads: Vec<ThreadFacts>,
    /// Who shares memory: two threads and how much, older windows counting less. The strongest first.
    pub shares: Vec<(u32, u32, u64)>,
    /// Pages, or pieces of memory, that are used most.
    pub pages: Vec<PageFacts>,
    /// What became of earlier proposals since the last question: how many, by fate.
    pub fates: BTreeMap<String, u64>,
}

/// Room on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Room {
    /// Which.
    pub node: u32,
    /// Threads that it takes.
    pub threads: usize,
    /// Free memory that the program may use.
    pub free_bytes: u64,
}

/// A thread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ThreadFacts {
    /// Its number.
    pub tid: u32,
    /// The node it is on; none while unknown.
    pub node: Option<u32>,
    /// Nodes that it may run on.
    pub allowed: Vec<u32>,
    /// Share of one processor that it used.
    pub busy: f64,
    /// Samples of it in the window.
    pub samples: u64,
}

/// A page, or a piece of memory that moves as one. No addresses: those are secrets of their users.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageFacts {
    /// Its number; the same from window to window while numad keeps it.
    pub page: u32,
    /// The node it is on; none while unknown.
    pub node: Option<u32>,
    /// Pages that it stands for.
    pub span: u64,
    /// Its last users and how much each used it.
    pub users: Vec<(u32, u32)>,
}

/// What a program wants: each thread and page with the node where it should be, best first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// The question that is answered.
    pub window: u64,
    /// Threads and nodes.
    #[serde(default)]
    pub threads: Vec<(u32, u32)>,
    /// Pages and nodes.
    #[serde(default)]
    pub pages: Vec<(u32, u32)>,
}

/// The program's first line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct GreetingBack {
    schema: u32,
    #[serde(default)]
    name: String,
}

/// Why a line is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Garbage(pub String);

impl fmt::Display for Garbage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Reads the program's first line, and gives the name that it has for itself.
///
/// # Errors
/// When it is no greeting, or of another version.
pub fn read_greeting(line: &[u8]) -> Result<String, Garbage> {
    let GreetingBack { schema, name } = parse(line)?;
    if schema != SCHEMA {
        return Err(Garbage(format!(
            "it speaks schema {schema}, and numad speaks {SCHEMA}"
        )));
    }
    let printable = name.chars().filter(|one| !one.is_control());
    Ok(printable.take(NAME_CHARS_MAX).collect())
}

/// Reads an answer to the question of this number.
///
/// # Errors
/// When it is none, answers another question, or wants more than may be wanted.
pub fn read_answer(line: &[u8], window: u64) -> Result<Answer, Garbage> {
    let answer: Answer = parse(line)?;
    if answer.window != window {
        return Err(Garbage(format!(
            "it answered window {} when it was asked about {window}",
            answer.window
        )));
    }
    if answer.threads.len() > THREADS_MAX || answer.pages.len() > PAGES_MAX {
        return Err(Garbage(format!(
            "it wants more than {THREADS_MAX} threads and {PAGES_MAX} pages moved"
        )));
    }
    Ok(answer)
}

fn parse<'a, T: Deserialize<'a>>(line: &'a [u8]) -> Result<T, Garbage> {
    if line.len() > ANSWER_BYTES_MAX {
        let text = format!("its line is longer than {ANSWER_BYTES_MAX} bytes");
        return Err(Garbage(text));
    }
    serde_json::from_slice(line).map_err(|error| {
        // The place and kind of the mistake, but nothing of the line itself: it goes to logs and terminals.
        let (kind, column) = (error.classify(), error.column());
        Garbage(format!(
            "its line is no answer ({kind:?} at column {column})"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_greeting_is_of_this_version() {
        assert_eq!(read_greeting(br#"{"schema":1}"#).unwrap(), "");
        let named = br#"{"schema":1,"name":"affine\u001b[2J","later":true}"#;
        assert_eq!(read_greeting(named).unwrap(), "affine[2J");
        let later = read_greeting(br#"{"schema":2}"#).unwrap_err();
        assert_eq!(later.0, "it speaks schema 2, and numad speaks 1");
        read_greeting(b"hello").unwrap_err();
    }

    #[test]
    fn an_answer_is_to_its_question() {
        let line = br#"{"window":7,"threads":[[4242,1]],"pages":[[3,0]]}"#;
        let answer = read_answer(line, 7).unwrap();
        assert_eq!(answer.threads, [(4242, 1)]);
        assert_eq!(answer.pages, [(3, 0)]);
        read_answer(line, 8).unwrap_err();
        assert_eq!(read_answer(br#"{"window":7}"#, 7).unwrap().threads, []);
    }

    #[test]
    fn garbage_is_told_without_being_shown() {
        for line in [
            &b""[..],
            b"\x1b[31mred",
            b"[]",
            b"null",
            br#"{"window":-1}"#,
            br#"{"window":7,"threads":[[1,-1]]}"#,
            br#"{"window":7,"threads":[[1]]}"#,
            br#"{"window":7,"pages":[[1,4294967296]]}"#,
            br#"{"window":7} {"window":7}"#,
        ] {
            let garbage = read_answer(line, 7).unwrap_err();
            assert!(garbage.0.starts_with("its line is no answer"), "{garbage}");
        }
        let many = format!(
            r#"{{"window":7,"pages":[{}[1,0]]}}"#,
            "[1,0],".repeat(PAGES_MAX)
        );
        assert!(
            read_answer(many.as_bytes(), 7)
                .unwrap_err()
                .0
                .contains("2048")
        );
        let long = vec![b' '; ANSWER_BYTES_MAX + 1];
        assert!(read_answer(&long, 7).unwrap_err().0.contains("longer"));
    }
}
