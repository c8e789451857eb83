//! The server over a real socket, before a machine that is not there.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::pin::Pin;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;

use control::{experiment, rows, story};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::task::JoinHandle as Task;

use super::schemas::SCHEMAS;
use super::*;
use crate::clock;
use crate::fake::{Settings, World};
use crate::notify::Notifier;
use crate::steward::line;

mod experiments;
mod unread;

/// Times short enough for a test, far enough apart to tell which one struck.
const HASTY: Limits = Limits {
    // A machine with a load of twenty took 300 ms to come to a request.
    header_wait: Duration::from_secs(2),
    answer_wait: Duration::from_secs(20),
    idle: Duration::from_secs(40),
    lifetime: Duration::from_secs(600),
    header_bytes_max: 16 << 10,
    body_bytes_max: 64 << 10,
    unread_user_bytes_max: 32 << 20,
    unread_bytes_max: 64 << 20,
};

const ROOT: Credentials = Credentials { uid: 0, gid: 0 };
const USER: Credentials = Credentials { uid: 7, gid: 7 };

struct Served {
    settings: Settings,
    who: Arc<Mutex<Credentials>>,
    server: Task<()>,
    engine: Option<JoinHandle<()>>,
    line: Option<Line>,
}

impl Served {
    fn new(name: &str, text: &str) -> Self {
        Self::with_limits(name, text, HASTY)
    }

    fn with_limits(name: &str, text: &str, limits: Limits) -> Self {
        Self::of(&World::new(), name, text, limits)
    }

    fn of(world: &World, name: &str, text: &str, limits: Limits) -> Self {
        let settings = Settings::new(name, text);
        let (mut steward, gate) = world.steward_with_clock(&settings, Box::new(clock::monotonic));
        let (line, orders) = line().unwrap();
        let engine = std::thread::spawn(move || orders.work(&mut steward, &Notifier::default()));
        let who = Arc::new(Mutex::new(ROOT));
        let told = Arc::clone(&who);
        let server = Server {
            line: line.clone(),
            gate,
            limits,
            witness: Arc::new(move |_| Ok(*told.lock().unwrap())),
            log: Log::to_stderr(crate::log::Level::Error),
        };
        let listener = UnixListener::bind(settings.file().with_extension("sock")).unwrap();
        Self {
            settings,
            who,
            server: tokio::spawn(server.serve(listener, None)),
            engine: Some(engine),
            line: Some(line),
        }
    }

    /// Asks, and expects a status, and a part of the answer.
    async fn refuses(&self, cases: &[(&str, &str, &str, u16, &str)]) {
        for &(method, path, body, expected, part) in cases {
            let (status, text) = self.ask(ROOT, method, path, body).await;
            assert_eq!(status, expected, "{method} {path}: {text}");
            let answer: Value = serde_json::from_str(&text).unwrap();
            conforms(&answer, "ErrorBody").unwrap();
            assert!(text.contains(part), "{method} {path}: {text}");
        }
    }

    async fn connect(&self) -> UnixStream {
        UnixStream::connect(self.settings.file().with_extension("sock"))
            .await
            .unwrap()
    }

    /// Sends bytes and gives all that comes back until the end.
    async fn raw(&self, bytes: &[u8]) -> Vec<u8> {
        let mut stream = self.connect().await;
        // A server that has heard enough may hang up in the middle.
        drop(stream.write_all(bytes).await);
        read_all(stream).await
    }

    async fn ask(&self, who: Credentials, method: &str, path: &str, body: &str) -> (u16, String) {
        *self.who.lock().unwrap() = who;
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {}\r\n\r\n\
             {body}",
            body.len()
        );
        parts(&self.raw(request.as_bytes()).await)
    }

    async fn json(&self, who: Credentials, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let body = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        let (status, text) = self.ask(who, method, path, &body).await;
        (
            status,
            serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}")),
        )
    }

    async fn attach(&self, who: Credentials, pid: u32) -> u64 {
        let body = json!({ "target": { "pids": [pid] }, "policy": "none" });
        let (status, answer) = self.json(who, "POST", "/v1/attachments", &body).await;
        assert_eq!(status, 200, "{answer}");
        answer["id"].as_u64().unwrap()
    }

    async fn end(mut self) {
        self.server.abort();
        self.line.take().unwrap().stop().await.unwrap();
        self.engine.take().unwrap().join().unwrap();
    }
}

async fn read_all(mut stream: UnixStream) -> Vec<u8> {
    let mut answer = Vec::new();
    // An abrupt end is an end.
    drop(
        timeout(Duration::from_secs(30), stream.read_to_end(&mut answer))
            .await
            .expect("an end"),
    );
    answer
}

/// Status and body.
#[track_caller]
fn parts(answer: &[u8]) -> (u16, String) {
    let text = String::from_utf8_lossy(answer).into_owned();
    let status = text
        .split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok());
    let status = status.unwrap_or_else(|| panic!("no answer: `{text}`"));
    let body = text.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    (status, body.to_owned())
}

/// Whether a value is of a type in the notation of the schemas.
fn conforms(value: &Value, kind: &str) -> Result<(), String> {
    let bad = || Err(format!("{value} is no {kind}"));
    if let Some(item) = kind
        .strip_prefix('[')
        .and_then(|kind| kind.strip_suffix(']'))
    {
        return match value {
            Value::Array(values) => values.iter().try_for_each(|value| conforms(value, item)),
            _ => bad(),
        };
    }
    if let Some(item) = kind
        .strip_prefix('{')
        .and_then(|kind| kind.strip_suffix('}'))
    {
        return match value {
            Value::Object(values) => values.values().try_for_each(|value| conforms(value, item)),
            _ => bad(),
        };
    }
    let fits = match kind {
        "any" => true,
        "bool" => value.is_boolean(),
        "integer" => value.is_u64(),
        "integer|null" => value.is_u64() || value.is_null(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        row => return conforms_to_row(value, row),
    };
    if fits { Ok(()) } else { bad() }
}

fn conforms_to_row(value: &Value, row: &str) -> Result<(), String> {
    let schema = SCHEMAS
        .iter()
        .find(|schema| schema.name == row)
        .ok_or(format!("no {row}"))?;
    let fields = value.as_object().ok_or(format!("{value} is no {row}"))?;
    for &(name, kind, _) in schema.fields {
        match (fields.get(name), kind.strip_suffix('?')) {
            (Some(value), optional) => conforms(value, optional.unwrap_or(kind))?,
            (None, Some(_)) => {}
            (None, None) => return Err(format!("{row} lacks {name}")),
        }
    }
    let known: BTreeSet<&str> = schema.fields.iter().map(|field| field.0).collect();
    match fields.keys().find(|name| !known.contains(name.as_str())) {
        Some(name) => Err(format!("{row} has {name} too")),
        None => Ok(()),
    }
}

#[tokio::test]
async fn every_operation_answers_as_described() {
    let served = Served::new("routes", "");
    let id = served.attach(ROOT, 100).await;
    let order = |route: &&Route| {
        let ends = [Operation::Detach, Operation::Undo].contains(&route.operation);
        (ends, route.path)
    };
    let mut routes: Vec<&Route> = OPERATIONS.iter().collect();
    routes.sort_by_key(order);
    for route in routes {
        let path = route.path.replace("{id}", &id.to_string());
        let body = match route.operation {
            Operation::Attach => json!({ "target": { "pids": [200] }, "policy": "packed" }),
            Operation::Undo => json!({ "all": true }),
            _ => Value::Null,
        };
        let method = route.method.to_uppercase();
        if route.operation == Operation::EndRecording {
            // See `a_recording_is_streamed_until_it_is_ended`.
            continue;
        }
        if route.operation == Operation::Story {
            // See `a_story_is_told_of_what_was_detached`.
            continue;
        }
        if route.path.starts_with("/v1/experiments") {
            // See `an_experiment_is_begun_followed_and_stopped`.
            continue;
        }
        if route.answer == Some("bytes") {
            let body = json!({ "target": { "pids": [100] }, "for_ms": 1 }).to_string();
            let (status, text) = served.ask(ROOT, &method, &path, &body).await;
            assert!(status == 200 && text.contains("NUMADREC"), "{text}");
            continue;
        }
        if route.answer.is_none() {
            let (status, text) = served.ask(ROOT, &method, &path, "").await;
            assert!(
                status == 200 && text.contains("numad_attachments "),
                "{text}"
            );
            continue;
        }
        let (status, answer) = served.json(ROOT, &method, &path, &body).await;
        assert_eq!(status, 200, "{method} {path}: {answer}");
        if let Err(error) = conforms(&answer, route.answer.unwrap()) {
            panic!("{method} {path}: {error}");
        }
    }
    served.end().await;
}

/// What is forgotten, such as the body, does not mean everything.
#[tokio::test]
async fn an_undo_names_what_it_undoes() {
    let served = Served::new("undo-names", "");
    let unsaid = ["", "{}", r#"{"all":false}"#, r#"{"all":true,"pid":1}"#];
    let cases = unsaid.map(|body| ("POST", "/v1/undo", body, 400, "{\\\"all\\\": true}"));
    served.refuses(&cases).await;
    served.end().await;
}

#[tokio::test]
async fn what_makes_no_sense_is_refused_in_the_same_form() {
    let served = Served::new("refused", "");
    let id = served.attach(ROOT, 100).await;
    let large = "x".repeat(70 << 10);
    let matrix = format!("/v1/attachments/{id}/matrix?window=yesterday");
    let events = format!("/v1/attachments/{id}/events?last=-1");
    let cases: &[(&str, &str, &str, u16, &str)] = &[
        ("GET", "/", "", 404, "`/`"),
        ("GET", "/v1/nothing", "", 404, "openapi.json"),
        ("DELETE", "/v1/status", "", 405, "`DELETE`"),
        ("GET", "/v1/attachments/%ff", "", 400, "/v1/openapi.json"),
        ("GET", "/v1/attachments/99", "", 404, "`99`"),
        ("GET", "/v1/attachments/four", "", 400, "`four`"),
        ("DELETE", "/v1/attachments/99", "", 404, "`99`"),
        ("GET", "/v1/attachments/99/matrix", "", 404, "`99`"),
        ("GET", &matrix, "", 400, "live, decayed"),
        ("GET", &events, "", 400, "`-1`"),
        ("GET", "/v1/attachments/99/events", "", 404, "`99`"),
        ("POST", "/v1/attachments", "", 400, "target"),
        ("POST", "/v1/attachments", "{\"target\"", 400, "EOF"),
        (
            "POST",
            "/v1/attachments",
            "{\"target\":{\"pids\":[100]},\"x\":1}",
            400,
            "`x`",
        ),
        (
            "POST",
            "/v1/attachments",
            "{\"target\":{\"pids\":[100]}}",
            409,
            "`100`",
        ),
        (
            "POST",
            "/v1/attachments",
            "{\"target\":{\"pids\":[999]}}",
            404,
            "`999`",
        ),
        ("POST", "/v1/attachments", &large, 413, "length limit"),
        ("POST", "/v1/undo", "[]x", 400, "body"),
        ("POST", "/v1/recordings", "{}", 400, "target"),
        (
            "POST",
            "/v1/recordings",
            "{\"target\":{\"pids\":[999]}}",
            404,
            "`999`",
        ),
        (
            "POST",
            "/v1/recordings",
            "{\"target\":{\"pids\":[100]},\"for_ms\":-1}",
            400,
            "-1",
        ),
        ("DELETE", "/v1/recordings/99", "", 404, "`99`"),
        ("DELETE", "/v1/recordings/last", "", 400, "`last`"),
    ];
    served.refuses(cases).await;
    served.end().await;
}

#[tokio::test]
async fn peers_are_judged_by_their_credentials() {
    let served = Served::new("peers", "");
    let root_owns = served.attach(ROOT, 200).await;
    let user_owns = served.attach(USER, 100).await;
    let others = format!("/v1/attachments/{root_owns}");
    let own = format!("/v1/attachments/{user_owns}");
    let matrix = format!("{others}/matrix");
    let cases: &[(&str, &str, Value, u16)] = &[
        ("GET", &own, Value::Null, 200),
        ("GET", &others, Value::Null, 403),
        ("GET", &matrix, Value::Null, 403),
        ("DELETE", &others, Value::Null, 403),
        ("POST", "/v1/reload", Value::Null, 403),
        ("POST", "/v1/undo", json!({ "all": true }), 403),
        ("POST", "/v1/undo", json!({ "pid": 200 }), 403),
        (
            "POST",
            "/v1/attachments",
            json!({ "target": { "pids": [200] } }),
            403,
        ),
        ("GET", "/v1/status", Value::Null, 200),
    ];
    for (method, path, body, expected) in cases {
        let (status, answer) = served.json(USER, method, path, body).await;
        assert_eq!(status, *expected, "{method} {path}: {answer}");
    }
    let (_, status) = served.json(USER, "GET", "/v1/status", &Value::Null).await;
    assert_eq!(status["attachments"].as_array().unwrap().len(), 1);
    served.end().await;
}

#[tokio::test]
async fn users_are_shut_out_when_settings_say_so_also_after_a_reload() {
    let served = Served::new("shut", "[access]\nusers = \"none\"\n");
    let (status, answer) = served.json(USER, "GET", "/v1/status", &Value::Null).await;
    assert_eq!(status, 403, "{answer}");
    conforms(&answer, "ErrorBody").unwrap();
    served.settings.write("");
    let (status, report) = served.json(ROOT, "POST", "/v1/reload", &Value::Null).await;
    assert_eq!(status, 200, "{report}");
    assert_eq!(
        served.json(USER, "GET", "/v1/status", &Value::Null).await.0,
        200
    );
    served.settings.write("[access]\nusers = \"all\"\n");
    let (status, report) = served.json(ROOT, "POST", "/v1/reload", &Value::Null).await;
    assert_eq!(status, 422, "{report}");
    assert!(
        report["error"]["message"]
            .as_str()
            .unwrap()
            .contains("numad.toml:2")
    );
    assert_eq!(
        served.json(USER, "GET", "/v1/status", &Value::Null).await.0,
        200
    );
    served.end().await;
}

#[tokio::test]
async fn a_flood_keeps_nobody_out() {
    let served = Served::new("flood", "");
    let mut crowd = Vec::new();
    let line = vec![b'a'; 1 << 20];
    for number in 0..500 {
        let mut stream = served.connect().await;
        let bytes: &[u8] = match number % 4 {
            0 => b"",
            1 => b"GET /v1/status HTTP/1.1\r\nhost",
            2 => b"POST /v1/attachments HTTP/1.1\r\ncontent-length: 10\r\n\r\n{",
            _ => &line,
        };
        let write = timeout(Duration::from_millis(20), stream.write_all(bytes));
        // Refused, cut off or stuck: all are as good.
        drop(write.await);
        crowd.push(stream);
        if number % 50 == 0 {
            let (status, answer) = served.json(ROOT, "GET", "/v1/status", &Value::Null).await;
            assert_eq!(status, 200, "{answer}");
        }
    }
    for _ in 0..20 {
        let (status, answer) = served.json(ROOT, "GET", "/v1/status", &Value::Null).await;
        assert_eq!(status, 200, "{answer}");
    }
    drop(crowd);
    served.end().await;
}

/// Admins see everything that is not undone; users see what is changed of their own.
#[tokio::test]
async fn the_journal_is_shown_to_those_whom_it_concerns() {
    let served = Served::new("journal", "");
    let (status, all) = served.json(ROOT, "GET", "/v1/journal", &Value::Null).await;
    assert_eq!(status, 200, "{all}");
    conforms(&all, "JournalReport").unwrap();
    let (status, own) = served.json(USER, "GET", "/v1/journal", &Value::Null).await;
    assert_eq!(status, 200, "{own}");
    conforms(&own, "JournalReport").unwrap();
    let count = |report: &Value| report["processes"].as_array().unwrap().len();
    assert!(count(&own) > 0 && count(&own) < count(&all), "{own} {all}");
    assert!(all["shared"].is_array() && own["shared"].is_null());
    let stranger = Credentials { uid: 9, gid: 9 };
    let (_, none) = served
        .json(stranger, "GET", "/v1/journal", &Value::Null)
        .await;
    assert_eq!(count(&none), 0);
    served.end().await;
}

/// Who has said all still wants the answer.
#[tokio::test]
async fn a_client_that_closes_its_half_gets_its_answer() {
    let served = Served::new("half-closed", "");
    let mut stream = served.connect().await;
    stream
        .write_all(b"GET /v1/status HTTP/1.1\r\nhost: x\r\n\r\n")
        .await
        .unwrap();
    stream.shutdown().await.unwrap();
    let (status, _) = parts(&read_all(stream).await);
    assert_eq!(status, 200);
    served.end().await;
}

/// A user who asks too much waits, then hears which limit it is; root does not notice.
#[tokio::test]
async fn a_user_who_asks_too_much_waits_and_root_does_not() {
    let served = Served::new("pace", "[limits]\nuser_requests_per_s = 1\n");
    for _ in 0..3 {
        let (status, _) = served.json(USER, "GET", "/v1/policies", &Value::Null).await;
        assert_eq!(status, 200);
    }
    let waiting = AtomicUsize::new(8);
    let root = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let (status, _) = served.json(ROOT, "GET", "/v1/status", &Value::Null).await;
        assert_eq!(status, 200);
        assert!(
            waiting.load(Ordering::Relaxed) > 0,
            "the others wait for seconds"
        );
    };
    let refused = {
        let crowd = (0..8).map(|_| async {
            let answer = served.json(USER, "GET", "/v1/policies", &Value::Null).await;
            waiting.fetch_sub(1, Ordering::Relaxed);
            answer
        });
        let crowd = join_all(crowd.map(Box::pin).collect());
        let (answers, ()) = tokio::join!(crowd, root);
        let refused = answers.into_iter().filter(|(status, _)| *status == 503);
        let named = |(_, text): (u16, Value)| {
            let text = text.to_string();
            assert!(text.contains("limits.user_requests_per_s"), "{text}");
        };
        refused.map(named).count()
    };
    assert!(
        refused >= 1,
        "the last of eight would wait for eight seconds"
    );
    served.end().await;
}

/// The answers of all, which are waited for at the same time.
async fn join_all<F: Future + Unpin>(mut asked: Vec<F>) -> Vec<F::Output> {
    let mut answers = Vec::new();
    std::future::poll_fn(|context| {
        asked.retain_mut(|asked| match Pin::new(asked).poll(context) {
            std::task::Poll::Ready(answer) => {
                answers.push(answer);
                false
            }
            std::task::Poll::Pending => true,
        });
        if asked.is_empty() {
            std::task::Poll::Ready(())
        } else {
            std::task::Poll::Pending
        }
    })
    .await;
    answers
}

#[tokio::test]
async fn half_requests_are_ended_and_long_lines_refused() {
    let served = Served::new("half", "");
    let answer = served.raw(b"GET /v1/status HTTP/1.1\r\nhost: x").await;
    assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 408"));
    let mut long = b"GET /v1/status HTTP/1.1\r\nx: ".to_vec();
    long.resize(1 << 20, b'a');
    let (status, _) = parts(&served.raw(&long).await);
    assert_eq!(status, 431);
    let (status, _) = parts(&served.raw(b"what is this\r\n\r\n").await);
    assert_eq!(status, 400);
    served.end().await;
}

#[tokio::test]
async fn one_connection_serves_request_after_request() {
    let served = Served::new("again", "");
    let mut stream = served.connect().await;
    for _ in 0..3 {
        stream
            .write_all(b"GET /v1/policies HTTP/1.1\r\nhost: x\r\n\r\n")
            .await
            .unwrap();
        let mut buffer = vec![0; 64 << 10];
        let length = stream.read(&mut buffer).await.unwrap();
        assert!(buffer[..length].starts_with(b"HTTP/1.1 200"));
    }
    // And is closed when nothing more comes.
    assert!(read_all(stream).await.is_empty());
    served.end().await;
}

/// Reads until this text has come.
async fn read_until(stream: &mut UnixStream, told: &mut Vec<u8>, text: &str) {
    let mut buffer = vec![0; 16 << 10];
    while !told
        .windows(text.len())
        .any(|bytes| bytes == text.as_bytes())
    {
        let read = timeout(Duration::from_secs(30), stream.read(&mut buffer));
        let length = read.await.expect("something comes").unwrap();
        assert!(length > 0, "it ends before `{text}`");
        told.extend_from_slice(&buffer[..length]);
    }
}

#[tokio::test]
async fn a_recording_is_streamed_until_it_is_ended() {
    // The connection's time is over before the recording is. A request that comes after that is not
    // answered, so it is long enough for a slow machine.
    let limits = Limits {
        lifetime: HASTY.header_wait,
        ..HASTY
    };
    let served = Served::with_limits("stream", "[daemon]\nconnections_max = 2\n", limits);
    let mut stream = served.connect().await;
    let body = json!({ "target": { "pids": [100] } }).to_string();
    let length = body.len();
    let request = format!(
        "POST /v1/recordings HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut told = Vec::new();
    read_until(&mut stream, &mut told, "NUMADREC").await;
    let head = String::from_utf8_lossy(&told).into_owned();
    assert!(head.contains("numad-recording: 1\r\n"), "{head}");
    // A crowd takes the other seat, never this one.
    for _ in 0..10 {
        let (status, _) = served.json(ROOT, "GET", "/v1/status", &Value::Null).await;
        assert_eq!(status, 200);
    }
    // What has gathered within a second comes without being asked for.
    read_until(&mut stream, &mut told, "DATA").await;
    tokio::time::sleep(limits.lifetime).await;
    let (status, rows) = served
        .json(ROOT, "GET", "/v1/recordings", &Value::Null)
        .await;
    assert_eq!((status, rows.as_array().unwrap().len()), (200, 1));
    let (status, none) = served
        .json(USER, "GET", "/v1/recordings", &Value::Null)
        .await;
    assert_eq!((status, none.as_array().unwrap().len()), (200, 0));
    let (status, row) = served
        .json(USER, "DELETE", "/v1/recordings/1", &Value::Null)
        .await;
    assert_eq!(status, 403, "{row}");
    let (status, row) = served
        .json(ROOT, "DELETE", "/v1/recordings/1", &Value::Null)
        .await;
    assert_eq!(status, 200, "{row}");
    conforms(&row, "RecordingRow").unwrap();
    read_until(&mut stream, &mut told, "END.").await;
    // The last chunk, and the end of a connection that has lived long enough.
    told.extend(read_all(stream).await);
    assert!(told.ends_with(b"\r\n0\r\n\r\n"));
    served.end().await;
}

#[tokio::test]
async fn an_undo_takes_as_long_as_it_takes() {
    let limits = Limits {
        answer_wait: Duration::from_millis(500),
        idle: Duration::from_millis(600),
        ..HASTY
    };
    let world = World::new();
    world.state().undo_takes = Duration::from_secs(2);
    let served = Served::of(&world, "long-undo", "", limits);
    let (status, report) = served
        .json(ROOT, "POST", "/v1/undo", &json!({ "all": true }))
        .await;
    assert_eq!(status, 200, "{report}");
    conforms(&report, "UndoReport").unwrap();
    served.end().await;
}

#[tokio::test]
async fn a_body_that_never_ends_is_cut_off() {
    let limits = Limits {
        answer_wait: Duration::from_millis(200),
        ..HASTY
    };
    let served = Served::with_limits("body", "", limits);
    let half = b"POST /v1/undo HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{";
    let (status, text) = parts(&served.raw(half).await);
    assert_eq!(status, 503, "{text}");
    assert!(text.contains("no answer within"), "{text}");
    served.end().await;
}

/// A value for each field of a schema, with every optional field present.
fn example(kind: &str) -> Value {
    let kind = kind.strip_suffix('?').unwrap_or(kind);
    if let Some(item) = kind
        .strip_prefix('[')
        .and_then(|kind| kind.strip_suffix(']'))
    {
        return json!([example(item)]);
    }
    if let Some(item) = kind
        .strip_prefix('{')
        .and_then(|kind| kind.strip_suffix('}'))
    {
        return json!({ "some": example(item) });
    }
    match kind {
        "bool" => json!(true),
        "integer" | "integer|null" => json!(7),
        "number" | "number|null" => json!(0.5),
        "string" => json!("text"),
        row => {
            let schema = SCHEMAS.iter().find(|schema| schema.name == row).unwrap();
            schema
                .fields
                .iter()
                .map(|&(name, kind, _)| (name.to_owned(), example(kind)))
                .collect()
        }
    }
}

/// Holds a schema against the row itself: what the schema says becomes the row and back, and the
/// row has no field more.
#[track_caller]
fn check_row<T: Serialize + DeserializeOwned + Debug>(name: &str) {
    let mut said = example(name);
    match name {
        "ErrorBody" => said["error"]["kind"] = json!("busy"),
        "Failure" => said["kind"] = json!("busy"),
        "ExperimentRow" => said["ending"] = json!("complete"),
        "AttachRequest" | "RecordRequest" | "ExperimentRequest" => {
            said["target"] = json!({ "pids": [7] });
        }
        _ => {}
    }
    let row: T = serde_json::from_value(said.clone()).unwrap();
    assert_eq!(serde_json::to_value(&row).unwrap(), said);
    let shown = format!("{row:#?}");
    let own = shown
        .lines()
        .filter_map(|line| line.strip_prefix("    ")?.split_once(": "));
    let own: BTreeSet<&str> = own
        .map(|(field, _)| field)
        .filter(|field| !field.starts_with(' '))
        .collect();
    let schema = SCHEMAS.iter().find(|schema| schema.name == name).unwrap();
    let described: BTreeSet<&str> = schema.fields.iter().map(|field| field.0).collect();
    assert_eq!(own, described, "{name}");
}

#[test]
fn schemas_are_the_rows() {
    check_row::<ErrorBody>("ErrorBody");
    check_row::<Failure>("Failure");
    check_row::<rows::AttachRequest>("AttachRequest");
    check_row::<rows::Attachment>("Attachment");
    check_row::<rows::Evidence>("Evidence");
    check_row::<rows::Ledger>("Ledger");
    check_row::<rows::Moving>("Moving");
    check_row::<rows::AttachmentDetail>("AttachmentDetail");
    check_row::<rows::ThreadRow>("ThreadRow");
    check_row::<rows::Matrix>("Matrix");
    check_row::<rows::Partner>("Partner");
    check_row::<rows::EventRow>("EventRow");
    check_row::<rows::RecordRequest>("RecordRequest");
    check_row::<rows::RecordingRow>("RecordingRow");
    check_row::<experiment::Arm>("Arm");
    check_row::<experiment::ExperimentRequest>("ExperimentRequest");
    check_row::<experiment::ExperimentRow>("ExperimentRow");
    check_row::<experiment::ReadingRequest>("ReadingRequest");
    check_row::<story::StoryRow>("StoryRow");
    check_row::<rows::PolicyRow>("PolicyRow");
    check_row::<rows::SettingRow>("SettingRow");
    check_row::<rows::UndoRequest>("UndoRequest");
    check_row::<rows::UndoReport>("UndoReport");
    check_row::<rows::JournalReport>("JournalReport");
    check_row::<rows::JournalRow>("JournalRow");
    check_row::<rows::JournalMask>("JournalMask");
    check_row::<rows::JournalMemory>("JournalMemory");
    check_row::<rows::ReloadReport>("ReloadReport");
    check_row::<rows::Finding>("Finding");
    check_row::<rows::ConfigText>("ConfigText");
    check_row::<rows::Status>("Status");
    for (name, value) in [
        ("pids", json!([7])),
        ("cgroup", json!("a")),
        ("unit", json!("a")),
    ] {
        serde_json::from_value::<rows::Target>(json!({ name: value })).unwrap();
        let target = SCHEMAS
            .iter()
            .find(|schema| schema.name == "Target")
            .unwrap();
        assert!(target.fields.iter().any(|field| field.0 == name));
    }
}
