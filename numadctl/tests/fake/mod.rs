//! A daemon that is not there: answers on a socket with what the test says, and remembers what it
//! was asked.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// What is sent for a request.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    /// A status and a body, as a server sends them.
    Json(u16, String),
    /// These bytes, then the end.
    Raw(Vec<u8>),
    /// A good head, then zeros for as long as anyone reads.
    Endless,
}

/// Replies by `METHOD PATH`.
pub(crate) type Replies = BTreeMap<&'static str, Reply>;

/// A folder with a socket in it.
#[derive(Debug)]
pub(crate) struct Fake {
    folder: PathBuf,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Fake {
    /// A folder without a socket.
    pub(crate) fn absent() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("numadctl-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Self {
            folder,
            asked: Arc::default(),
        }
    }

    /// One that answers; what is not listed gets `404` as the daemon words it.
    pub(crate) fn answering(replies: Replies) -> Self {
        let fake = Self::absent();
        let listener = UnixListener::bind(fake.socket()).unwrap();
        let asked = Arc::clone(&fake.asked);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                // A client that went away is its own business.
                drop(stream.and_then(|stream| answer(stream, &replies, &asked)));
            }
        });
        fake
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.join("numad.sock")
    }

    pub(crate) fn folder(&self) -> &PathBuf {
        &self.folder
    }

    /// Requests so far, as `METHOD PATH BODY`.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }

    /// The command, with its socket given.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_numadctl"));
        command
            .arg("--socket")
            .arg(self.socket())
            .env_remove("NUMAD_SOCKET")
            .env_remove("COLUMNS")
            .stdin(Stdio::null());
        command
    }

    /// Runs it on words.
    pub(crate) fn run(&self, words: &str) -> Output {
        self.command()
            .args(words.split_whitespace())
            .output()
            .unwrap()
    }

    /// Runs it, expects success and silence on the error stream.
    #[track_caller]
    pub(crate) fn ok(&self, words: &str) -> String {
        let output = self.run(words);
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!(
            (output.status.code(), told.as_str()),
            (Some(0), ""),
            "{words}"
        );
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs it, expects this exit code and one line on the error stream.
    #[track_caller]
    pub(crate) fn refused(&self, words: &str, code: i32) -> String {
        let output = self.run(words);
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{words}: {told}");
        assert!(
            told.starts_with("numadctl: ") && told.ends_with('\n'),
            "{words}: {told}"
        );
        assert_eq!(told.lines().count(), 1, "{words}: {told}");
        told
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.folder));
    }
}

fn answer(
    mut stream: UnixStream,
    replies: &Replies,
    asked: &Mutex<Vec<String>>,
) -> std::io::Result<()> {
    let (line, body) = request(&stream)?;
    asked
        .lock()
        .unwrap()
        .push(format!("{line} {body}").trim_end().to_owned());
    match replies.get(line.as_str()).cloned() {
        Some(Reply::Json(status, body)) => json(&mut stream, status, &body)?,
        Some(Reply::Raw(bytes)) => stream.write_all(&bytes)?,
        Some(Reply::Endless) => {
            stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")?;
            let mut chunk = format!("{:x}\r\n", 1 << 20).into_bytes();
            chunk.extend(std::iter::repeat_n(b' ', 1 << 20));
            chunk.extend(b"\r\n");
            loop {
                stream.write_all(&chunk)?;
            }
        }
        None => {
            let body = r#"{"error":{"kind":"not_found","message":"there is no such thing","remedy":"look elsewhere"}}"#;
            json(&mut stream, 404, body)?;
        }
    }
    stream.shutdown(Shutdown::Both)
}

/// Reads one request: its method and path, and its body.
fn request(stream: &UnixStream) -> std::io::Result<(String, String)> {
    let mut reader = BufReader::new(stream);
    let (mut first, mut length) = (String::new(), 0);
    reader.read_line(&mut first)?;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        if line.trim().is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let line = first.trim_end().trim_end_matches(" HTTP/1.1").to_owned();
    Ok((line, String::from_utf8(body).unwrap()))
}

fn json(stream: &mut UnixStream, status: u16, body: &str) -> std::io::Result<()> {
    write!(
        stream,
        "HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}
