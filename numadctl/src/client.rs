//! The client side of the socket: one request, one answer, within limits of time and size.
//! Recordings alone come for as long as they take.

pub(crate) mod tape;

use std::fmt::Display;
use std::io;
use std::path::PathBuf;
use std::pin::pin;
use std::time::Duration;

use control::rows::{Status, UndoReport, UndoRequest};
use control::{ErrorBody, ErrorKind, Failure};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::net::UnixStream;
use tokio::runtime::Runtime;
use tokio::time::timeout;

/// What one answer may cost.
#[derive(Clone, Copy, Debug)]
struct Limits {
    /// From the connection to the last byte. A matrix of 4,096 threads takes a few seconds.
    answer: Duration,
    /// How long an undo may take until it is said how far it is, and then each time.
    told_after: Duration,
    /// Bytes of the answer. A matrix of 4,096 threads with 9 digits in each cell has 160 MiB.
    body_bytes: usize,
}

const LIMITS: Limits = Limits {
    answer: Duration::from_secs(30),
    told_after: Duration::from_secs(5),
    body_bytes: 192 << 20,
};

/// Attempts at a daemon that is crowded, and the first rest between two; each is twice the one
/// before, 0.6 s together.
const TRIES: u32 = 5;
const REST_FIRST: Duration = Duration::from_millis(40);

/// Longest quotation of what the other side sent.
const QUOTE_CHARS_MAX: usize = 120;

/// Speaks to one daemon.
#[derive(Debug)]
pub(crate) struct Client {
    socket: PathBuf,
    runtime: Runtime,
    limits: Limits,
}

/// Why there is no good answer.
#[derive(Debug)]
pub(crate) enum CallError {
    /// No daemon listens there.
    Down(Failure),
    /// Everything else.
    Failed(Failure),
}

impl From<CallError> for Failure {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Down(failure) | CallError::Failed(failure) => failure,
        }
    }
}

/// How one attempt failed.
#[derive(Debug)]
enum Attempt {
    /// For want of room; nothing was begun.
    TurnedAway(CallError),
    /// For good.
    Ended(CallError),
}

impl Attempt {
    fn of(error: CallError, again: bool) -> Self {
        match again {
            true => Self::TurnedAway(error),
            false => Self::Ended(error),
        }
    }
}

impl From<Attempt> for CallError {
    fn from(attempt: Attempt) -> Self {
        match attempt {
            Attempt::TurnedAway(error) | Attempt::Ended(error) => error,
        }
    }
}

/// Whether the daemon is in no PID namespace of ours: then it has no number here.
fn is_elsewhere(daemon: &UnixStream) -> bool {
    daemon
        .peer_cred()
        .is_ok_and(|daemon| daemon.pid() == Some(0))
}

impl Client {
    pub(crate) fn new(socket: PathBuf) -> Result<Self, Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| {
                Failure::new(
                    ErrorKind::Kernel,
                    format!("cannot make an event loop: {error}"),
                )
            })?;
        Ok(Self {
            socket,
            runtime,
            limits: LIMITS,
        })
    }

    /// The event loop, for other waits than those for the daemon.
    pub(crate) const fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// Where the daemon listens.
    pub(crate) const fn socket(&self) -> &PathBuf {
        &self.socket
    }

    pub(crate) fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, CallError> {
        self.call(&Method::GET, path, &Bytes::new())
    }

    /// The same, unless something else comes first; none then.
    pub(crate) fn get_unless<T: DeserializeOwned>(
        &self,
        path: &str,
        disturbed: impl Future<Output = ()>,
    ) -> Result<Option<T>, CallError> {
        let nothing = Bytes::new();
        self.runtime.block_on(async {
            tokio::select! {
                // Who presses Ctrl-C while the answer is there already means it.
                biased;
                () = disturbed => Ok(None),
                answer = self.called(&Method::GET, path, &nothing) => answer.map(Some),
            }
        })
    }

    /// Asks for an undo, which takes as long as it takes: says how many changes are left when that was a while and the
    /// number is another, and gives up when the daemon does not answer that either.
    pub(crate) fn undone(
        &self,
        method: &Method,
        path: &str,
        request: Option<&UndoRequest>,
        left: &mut dyn FnMut(u64) -> Result<(), Failure>,
    ) -> Result<UndoReport, CallError> {
        let body = request.map_or_else(|| Ok(Bytes::new()), json)?;
        self.runtime.block_on(async {
            let mut answer = pin!(self.patiently(method, path, &body));
            let mut told = None;
            loop {
                if let Ok(answer) = timeout(self.limits.told_after, answer.as_mut()).await {
                    return self.understood(answer?);
                }
                let said = self
                    .answered(&Method::GET, "/v1/status", &Bytes::new())
                    .await?;
                // Who has asked too much is told nothing for a while, and the undo goes on.
                if said.0 == StatusCode::SERVICE_UNAVAILABLE {
                    continue;
                }
                let status: Status = self.understood(said)?;
                if told.replace(status.journal_open) != Some(status.journal_open) {
                    left(status.journal_open).map_err(CallError::Failed)?;
                }
            }
        })
    }

    pub(crate) fn delete<T: DeserializeOwned>(&self, path: &str) -> Result<T, CallError> {
        self.call(&Method::DELETE, path, &Bytes::new())
    }

    pub(crate) fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, CallError> {
        self.call(&Method::POST, path, &json(body)?)
    }

    fn call<T: DeserializeOwned>(
        &self,
        method: &Method,
        path: &str,
        body: &Bytes,
    ) -> Result<T, CallError> {
        self.runtime.block_on(self.called(method, path, body))
    }

    async fn called<T: DeserializeOwned>(
        &self,
        method: &Method,
        path: &str,
        body: &Bytes,
    ) -> Result<T, CallError> {
        self.understood(self.answered(method, path, body).await?)
    }

    /// The daemon's answer, whatever it says.
    async fn answered(
        &self,
        method: &Method,
        path: &str,
        body: &Bytes,
    ) -> Result<(StatusCode, Bytes), CallError> {
        let answer = timeout(self.limits.answer, self.patiently(method, path, body)).await;
        answer.unwrap_or_else(|_elapsed| Err(CallError::Failed(self.too_slow())))
    }

    fn understood<T: DeserializeOwned>(
        &self,
        (status, bytes): (StatusCode, Bytes),
    ) -> Result<T, CallError> {
        if !status.is_success() {
            return Err(CallError::Failed(self.failure(status, &bytes)));
        }
        serde_json::from_slice(&bytes).map_err(|error| CallError::Failed(self.garbage(&error)))
    }

    /// Tries again while the daemon is crowded and cannot have begun what was asked.
    async fn patiently(
        &self,
        method: &Method,
        path: &str,
        body: &Bytes,
    ) -> Result<(StatusCode, Bytes), CallError> {
        let mut rest = REST_FIRST;
        for _ in 1..TRIES {
            match self.exchange(method, path, body).await {
                Err(Attempt::TurnedAway(_)) => tokio::time::sleep(rest).await,
                Err(Attempt::Ended(error)) => return Err(error),
                Ok(answer) => return Ok(answer),
            }
            rest *= 2;
        }
        self.exchange(method, path, body)
            .await
            .map_err(CallError::from)
    }

    /// A connection: to the admins' own socket, which nobody else can open or crowd; else to everyone's.
    async fn connect(&self) -> io::Result<UnixStream> {
        match UnixStream::connect(control::admin_socket(&self.socket)).await {
            Ok(stream) => Ok(stream),
            // Not there, or not for us.
            Err(_refused) => UnixStream::connect(&self.socket).await,
        }
    }

    async fn exchange(
        &self,
        method: &Method,
        path: &str,
        body: &Bytes,
    ) -> Result<(StatusCode, Bytes), Attempt> {
        let stream = self.connect().await.map_err(|error| {
            let crowded = error.kind() == io::ErrorKind::WouldBlock;
            Attempt::of(self.no_connection(&error), crowded)
        })?;
        if *method != Method::GET && is_elsewhere(&stream) {
            return Err(Attempt::Ended(CallError::Failed(self.other_numbers())));
        }
        // A daemon that needs the seat for someone else hangs up before it answers.
        let failed = |error: hyper::Error| {
            let unanswered = error.is_incomplete_message() || error.is_canceled();
            let again = *method == Method::GET && unanswered;
            Attempt::of(CallError::Failed(self.broken(&error)), again)
        };
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
            .await
            .map_err(failed)?;
        // Ends by itself when the answer is complete; its errors reach us through the sender.
        let driver = tokio::spawn(connection);
        let request = Request::builder()
            .method(method.clone())
            .uri(path)
            .header(hyper::header::HOST, "localhost")
            .header(hyper::header::CONTENT_TYPE, "application/json")
            .body(Full::new(body.clone()))
            .map_err(|error| {
                let text = format!("cannot make a request for `{path}`: {error}");
                Attempt::Ended(CallError::Failed(Failure::new(ErrorKind::Internal, text)))
            })?;
        let answer = sender.send_request(request).await.map_err(failed)?;
        let status = answer.status();
        let crowded = status == StatusCode::SERVICE_UNAVAILABLE
            && answer.headers().contains_key(hyper::header::RETRY_AFTER);
        let body = Limited::new(answer.into_body(), self.limits.body_bytes)
            .collect()
            .await
            .map_err(|error| Attempt::Ended(CallError::Failed(self.no_body(&*error))))?;
        driver.abort();
        let bytes = body.to_bytes();
        if crowded {
            let failure = self.failure(status, &bytes);
            return Err(Attempt::TurnedAway(CallError::Failed(failure)));
        }
        Ok((status, bytes))
    }

    fn other_numbers(&self) -> Failure {
        let socket = self.socket.display();
        let text = format!(
            "the daemon on `{socket}` is in another PID namespace, where numbers mean other processes"
        );
        Failure::new(ErrorKind::Prerequisite, text)
            .remedy("run numadctl where the daemon runs, outside of the container")
    }

    fn no_connection(&self, error: &io::Error) -> CallError {
        let socket = self.socket.display();
        match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => CallError::Down(
                Failure::new(
                    ErrorKind::Prerequisite,
                    format!("no daemon listens on `{socket}`"),
                )
                .remedy(format!(
                    "start it with `systemctl start numad`, or with `numad --socket {socket}`"
                )),
            ),
            io::ErrorKind::PermissionDenied => CallError::Failed(
                Failure::new(
                    ErrorKind::NotPermitted,
                    format!("you may not connect to `{socket}`"),
                )
                .remedy("ask the administrator to set `access.users` to `own` or to add you to the group numad"),
            ),
            io::ErrorKind::WouldBlock => CallError::Failed(
                Failure::new(
                    ErrorKind::Busy,
                    format!("too many wait for the daemon on `{socket}`"),
                )
                .remedy("try again in a moment"),
            ),
            _ => CallError::Failed(
                Failure::new(
                    ErrorKind::Prerequisite,
                    format!("cannot connect to `{socket}`: {error}"),
                )
                .remedy("name the socket of the daemon with --socket"),
            ),
        }
    }

    fn too_slow(&self) -> Failure {
        let seconds = self.limits.answer.as_secs();
        Failure::new(
            ErrorKind::Busy,
            format!(
                "the daemon on `{}` did not answer within {seconds} s",
                self.socket.display()
            ),
        )
        .remedy("try again, then see `systemctl status numad`")
    }

    /// The daemon's own word on what failed, if that is what it sent.
    fn failure(&self, status: StatusCode, bytes: &[u8]) -> Failure {
        match serde_json::from_slice::<ErrorBody>(bytes) {
            Ok(body) => body.error,
            Err(_other_body) => {
                let text = String::from_utf8_lossy(&bytes[..bytes.len().min(QUOTE_CHARS_MAX)]);
                self.garbage(&format!("status {status}, `{}`", text.trim()))
            }
        }
    }

    fn garbage(&self, what: &impl Display) -> Failure {
        let socket = self.socket.display();
        Failure::new(
            ErrorKind::Internal,
            format!("what answers on `{socket}` does not speak as numad does: {what}"),
        )
        .remedy("check the socket, and that numad and numadctl have the same version")
    }

    fn broken(&self, error: &hyper::Error) -> Failure {
        if error.is_parse() {
            return self.garbage(error);
        }
        self.cut_off()
    }

    fn no_body(&self, error: &(dyn std::error::Error + 'static)) -> Failure {
        if error.is::<LengthLimitError>() {
            let mib = self.limits.body_bytes >> 20;
            return self.garbage(&format!("its answer is larger than {mib} MiB"));
        }
        self.cut_off()
    }

    fn cut_off(&self) -> Failure {
        Failure::new(
            ErrorKind::Prerequisite,
            format!(
                "the daemon on `{}` ended in the middle of its answer",
                self.socket.display()
            ),
        )
        .remedy("see `journalctl -u numad`; it undoes everything when it starts again")
    }
}

fn json(body: &impl Serialize) -> Result<Bytes, CallError> {
    let bytes = serde_json::to_vec(body).map_err(|error| {
        let text = format!("cannot put the request into JSON: {error}");
        CallError::Failed(Failure::new(ErrorKind::Internal, text))
    })?;
    Ok(bytes.into())
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn a_daemon_that_says_nothing_is_not_waited_for_without_end() {
        let socket = std::env::temp_dir().join(format!("numadctl-silent-{}", std::process::id()));
        let _silent = UnixListener::bind(&socket).unwrap();
        let mut client = Client::new(socket.clone()).unwrap();
        client.limits.answer = Duration::from_millis(20);
        let failure = Failure::from(client.get::<u32>("/v1/status").unwrap_err());
        std::fs::remove_file(&socket).unwrap();
        assert_eq!(failure.kind, ErrorKind::Busy);
        assert!(
            failure.message.contains("did not answer within"),
            "{failure}"
        );
    }

    /// A daemon that answers one connection after the other with these bytes; how many there were is
    /// told when the last has been served.
    fn serve(name: &str, answers: &'static [&'static str]) -> PathBuf {
        let name = format!("numadctl-{name}-{}", std::process::id());
        let socket = std::env::temp_dir().join(name);
        let listener = UnixListener::bind(&socket).unwrap();
        std::thread::spawn(move || {
            for answer in answers {
                let (mut stream, _) = listener.accept().unwrap();
                // Wholly read, or closing would break the connection off.
                let mut request = [0; 4096];
                while !request.windows(4).any(|bytes| bytes == b"\r\n\r\n") {
                    if stream.read(&mut request).unwrap() == 0 {
                        break;
                    }
                }
                stream.write_all(answer.as_bytes()).unwrap();
            }
        });
        socket
    }

    const CROWDED: &str = "HTTP/1.1 503 refused\r\nretry-after: 1\r\ncontent-length: 56\r\n\r\n\
                           {\"error\":{\"kind\":\"busy\",\"message\":\"crowd\",\"remedy\":\"\"}} ";
    const SEVEN: &str = "HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n7";

    #[test]
    fn a_crowded_daemon_is_asked_again() {
        let socket = serve("crowded", &["", CROWDED, SEVEN, CROWDED, SEVEN, ""]);
        let client = Client::new(socket.clone()).unwrap();
        assert_eq!(client.get::<u32>("/v1/status").unwrap(), 7);
        assert_eq!(client.post::<u32>("/v1/undo", &1).unwrap(), 7);
        // What may have been begun is not begun twice.
        let failure = Failure::from(client.post::<u32>("/v1/undo", &1).unwrap_err());
        assert!(failure.message.contains("ended in the middle"), "{failure}");
        std::fs::remove_file(&socket).unwrap();
    }

    const STATUS: &str = r#"{"version":"1","pid":1,"up_s":1.0,"machine":"m","nodes":1,"source":"s","source_notes":[],"sample_period":1,"budget_percent":1.0,"cpu_s":1.0,"resident_bytes":1,"journal_open":42,"attachments":[],"rivals":[]}"#;
    const REPORT: &str = r#"{"threads_restored":0,"threads_gone":0,"threads_left":0,"pages_restored":7,"pages_gone":0,"failed":[]}"#;

    /// An answer with this body.
    fn ok(body: &str) -> Vec<u8> {
        let length = body.len();
        format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{body}").into_bytes()
    }

    #[test]
    fn an_undo_is_waited_for_as_long_as_the_daemon_answers() {
        let name = format!("numadctl-undo-{}", std::process::id());
        let socket = std::env::temp_dir().join(name);
        let listener = UnixListener::bind(&socket).unwrap();
        let waiting = std::thread::spawn(move || {
            // The undo's own connection is held until four others have been answered.
            let (mut undo, _) = listener.accept().unwrap();
            for left in ["42", "42", "7"] {
                let (mut stream, _) = listener.accept().unwrap();
                assert!(stream.read(&mut [0; 4096]).unwrap() > 0);
                stream.write_all(&ok(&STATUS.replace("42", left))).unwrap();
            }
            // As it says to one who has asked too much.
            let (mut stream, _) = listener.accept().unwrap();
            assert!(stream.read(&mut [0; 4096]).unwrap() > 0);
            let refused = CROWDED.replace("retry-after: 1\r\n", "");
            stream.write_all(refused.as_bytes()).unwrap();
            assert!(undo.read(&mut [0; 4096]).unwrap() > 0);
            undo.write_all(&ok(REPORT)).unwrap();
            // And once more, for one that hears nothing of the daemon.
            let (_undo, _) = listener.accept().unwrap();
            listener.accept().unwrap()
        });
        let mut client = Client::new(socket.clone()).unwrap();
        client.limits.told_after = Duration::from_millis(20);
        let mut told = Vec::new();
        let mut tell = |left| {
            told.push(left);
            Ok(())
        };
        let report = client.undone(&Method::DELETE, "/v1/attachments/1", None, &mut tell);
        assert_eq!(report.unwrap().pages_restored, 7);
        assert_eq!(told, [42, 7]);
        client.limits.answer = Duration::from_millis(20);
        let given_up = client.undone(&Method::POST, "/v1/undo", None, &mut |_| Ok(()));
        assert_eq!(Failure::from(given_up.unwrap_err()).kind, ErrorKind::Busy);
        std::fs::remove_file(&socket).unwrap();
        drop(waiting.join().unwrap());
    }

    #[test]
    fn patience_ends() {
        let socket = serve("hopeless", &[CROWDED; 5]);
        let client = Client::new(socket.clone()).unwrap();
        let failure = Failure::from(client.get::<u32>("/v1/status").unwrap_err());
        assert_eq!(
            (failure.kind, failure.message.as_str()),
            (ErrorKind::Busy, "crowd")
        );
        std::fs::remove_file(&socket).unwrap();
    }
}
