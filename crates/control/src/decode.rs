//! The one place where bytes of a client become a request.

use serde::de::DeserializeOwned;

use crate::error::{ErrorKind, Failure};

/// Longest part of a parser's message that is said back; it quotes what the client sent.
const SAID_BACK_CHARACTERS_MAX: usize = 200;

/// Reads the body of a request; an empty one is an empty object. Takes any bytes.
///
/// # Errors
/// `Usage`, with what is wrong and where, on one line.
pub fn request<T: DeserializeOwned>(body: &[u8]) -> Result<T, Failure> {
    let body = if body.is_empty() { b"{}" } else { body };
    // A list would be taken for the fields in their order, and an empty one for none of them: for undo
    // that would be undo of everything.
    if body.trim_ascii_start().first() != Some(&b'{') {
        let message = "the request's body makes no sense: it must be an object, `{...}`";
        return Err(Failure::new(ErrorKind::Usage, message).remedy("see /v1/openapi.json"));
    }
    serde_json::from_slice(body).map_err(|error| {
        let said: String = error
            .to_string()
            .chars()
            .map(|character| {
                if character.is_control() {
                    '?'
                } else {
                    character
                }
            })
            .take(SAID_BACK_CHARACTERS_MAX)
            .collect();
        Failure::new(
            ErrorKind::Usage,
            format!("the request's body makes no sense: {said}"),
        )
        .remedy("see /v1/openapi.json")
    })
}

#[cfg(test)]
mod tests {
    use std::fmt::Debug;

    use super::*;
    use crate::rows::{AttachRequest, Target, UndoRequest};
    use crate::story::Story;
    use crate::{experiment, external};

    #[test]
    fn requests_are_read() {
        let undo: UndoRequest = request(b"").unwrap();
        assert_eq!((undo.pid, undo.all), (None, false));
        let attach: AttachRequest = request(br#"{"target":{"pids":[7]}}"#).unwrap();
        assert_eq!(attach.target, Target::Pids(vec![7]));
        assert!(!attach.dry_run);
    }

    #[test]
    fn a_list_is_no_request() {
        for body in [&b"[]"[..], b" [7]", b"[null]", b"null", b"7", b" "] {
            refused::<UndoRequest>(body, "must be an object");
            refused::<AttachRequest>(body, "must be an object");
        }
    }

    #[track_caller]
    fn refused<T: DeserializeOwned + Debug>(body: &[u8], part: &str) {
        let failure = request::<T>(body).unwrap_err();
        assert_eq!(failure.kind, ErrorKind::Usage);
        assert!(failure.message.contains(part), "{failure}");
        assert!(failure.message.chars().count() < 300 && !failure.message.contains('\n'));
    }

    #[test]
    fn nonsense_is_refused_on_one_line() {
        refused::<AttachRequest>(b"", "missing field `target`");
        refused::<AttachRequest>(b"{\"target\":{\"pids\":[-1]}}", "invalid value");
        refused::<AttachRequest>(
            b"{\"target\":{\"pids\":[1]},\"polcy\":\"x\"}",
            "unknown field `polcy`",
        );
        refused::<UndoRequest>(b"\xff\xfe", "");
        let long = format!("{{\"{}\\n\":1}}", "x".repeat(5000));
        refused::<UndoRequest>(long.as_bytes(), "unknown field");
        refused::<AttachRequest>("[".repeat(10_000).as_bytes(), "");
    }

    /// What the fuzzer starts from, and each of it cut short at every byte.
    #[track_caller]
    fn seeds(target: &str, take: fn(&[u8])) {
        let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus");
        let mut files = 0;
        for entry in std::fs::read_dir(format!("{corpus}/{target}")).unwrap() {
            let bytes = std::fs::read(entry.unwrap().path()).unwrap();
            for length in 0..=bytes.len() {
                take(&bytes[..length]);
            }
            files += 1;
        }
        assert!(files > 0, "no seeds for `{target}`");
    }

    #[test]
    fn the_corpora_are_taken_without_panic() {
        seeds("request_body", |bytes| {
            drop(request::<AttachRequest>(bytes));
            drop(request::<UndoRequest>(bytes));
        });
        seeds("external_answer", |bytes| {
            drop(external::read_greeting(bytes));
            drop(external::read_answer(bytes, 7));
        });
        seeds("experiment_file", |bytes| {
            drop(experiment::read(bytes));
            drop(experiment::KeptExperiment::read(bytes));
            drop(Story::read(bytes));
        });
    }
}
