//! From requests to orders for the engine thread, and back to answers.

use std::sync::Arc;

use axum::Extension;
use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Path, RawQuery, Request, State};
use axum::http::HeaderValue;
use axum::http::header::CONTENT_TYPE;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, delete, get, post};
use control::rows::{AttachRequest, RecordRequest, UndoRequest};
use control::{ErrorKind, Failure};
use numad_core::AttachmentId;
use serde::Serialize;

use super::connections::{Connections, Seated};
use super::describe::{OPERATIONS, Operation, openapi};
use super::{Limits, failure_answer, streamed};
use crate::peer::Peer;
use crate::steward::{Line, MatrixWindow};

/// Most events that one request gives; as many as are kept.
const EVENTS_MAX: usize = crate::steward::HISTORY_MAX;
/// Events given when the request does not say how many.
const EVENTS_DEFAULT: usize = 64;

/// What every handler gets.
#[derive(Clone)]
struct App {
    line: Line,
    limits: Limits,
    connections: Arc<Connections>,
}

/// A failure on its way to being an answer.
#[derive(Debug)]
struct Refused(Failure);

impl From<Failure> for Refused {
    fn from(failure: Failure) -> Self {
        Self(failure)
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        failure_answer(self.0.kind.http_status(), &self.0)
    }
}

type Answer = Result<Response, Refused>;

/// All routes, each from its line in [`OPERATIONS`], so that none is without description.
pub(super) fn router(line: Line, limits: Limits, connections: Arc<Connections>) -> Router {
    let app = App {
        line,
        limits,
        connections,
    };
    let mut router = Router::new();
    for route in OPERATIONS {
        router = router.route(route.path, method(route.operation));
    }
    router
        .fallback(no_such_path)
        .method_not_allowed_fallback(no_such_method)
        .layer(from_fn_with_state(app.clone(), in_time))
        .with_state(app)
}

fn method(operation: Operation) -> MethodRouter<App> {
    match operation {
        Operation::Status => get(status),
        Operation::Attachments => get(attachments),
        Operation::Attach => post(attach),
        Operation::Attachment => get(attachment),
        Operation::Detach => delete(detach),
        Operation::Matrix => get(matrix),
        Operation::Events => get(events),
        Operation::Recordings => get(recordings),
        Operation::Record => post(record),
        Operation::EndRecording => delete(end_recording),
        Operation::Policies => get(policies),
        Operation::Undo => post(undo),
        Operation::Reload => post(reload),
        Operation::Doctor => get(doctor),
        Operation::Config => get(config),
        Operation::OpenApi => get(description),
        Operation::Metrics => get(metrics),
    }
}

async fn status(State(app): State<App>, Extension(peer): Extension<Peer>) -> Answer {
    json(
        &app.line
            .ask(move |steward| Ok(steward.status(peer)))
            .await?,
    )
}

async fn attachments(State(app): State<App>, Extension(peer): Extension<Peer>) -> Answer {
    json(
        &app.line
            .ask(move |steward| Ok(steward.attachments(peer)))
            .await?,
    )
}

async fn attach(State(app): State<App>, Extension(peer): Extension<Peer>, body: Bytes) -> Answer {
    let request: AttachRequest = control::decode::request(&body)?;
    json(
        &app.line
            .ask(move |steward| steward.attach(peer, &request))
            .await?,
    )
}

async fn attachment(
    State(app): State<App>,
    Extension(peer): Extension<Peer>,
    Path(id): Path<String>,
) -> Answer {
    let id = number(&id)?;
    json(
        &app.line
            .ask(move |steward| steward.detail(peer, id))
            .await?,
    )
}

async fn detach(
    State(app): State<App>,
    Extension(peer): Extension<Peer>,
    Path(id): Path<String>,
) -> Answer {
    let id = number(&id)?;
    json(
        &app.line
            .ask(move |steward| steward.detach(peer, id))
            .await?,
    )
}

async fn matrix(
    State(app): State<App>,
    Extension(peer): Extension<Peer>,
    Path(id): Path<String>,
    RawQuery(query): RawQuery,
) -> Answer {
    let id = number(&id)?;
    let window = match parameter(query.as_deref(), "window")? {
        None | Some("live") => MatrixWindow::Live,
        Some("decayed") => MatrixWindow::Decayed,
        Some(other) => {
            let message = format!("`window` is `{other}`, must be one of live, decayed");
            return Err(Failure::new(ErrorKind::Usage, message).into());
        }
    };
    json(
        &app.line
            .ask(move |steward| steward.matrix(peer, id, window))
            .await?,
    )
}

async fn events(
    State(app): State<App>,
    Extension(peer): Extension<Peer>,
    Path(id): Path<String>,
    RawQuery(query): RawQuery,
) -> Answer {
    let id = number(&id)?;
    let last = match parameter(query.as_deref(), "last")? {
        None => EVENTS_DEFAULT,
        Some(text) => text.parse().map_err(|_not_a_number| {
            let message = format!("`last` is `{text}`, must be a whole number");
            Failure::new(ErrorKind::Usage, message)
        })?,
    };
    let last = last.min(EVENTS_MAX);
    json(
        &app.line
            .ask(move |steward| steward.events(peer, id, last))
            .await?,
    )
}

async fn recordings(State(app): State<App>, Extension(peer): Extension<Peer>) -> Answer {
    json(
        &app.line
            .ask(move |steward| Ok(steward.recordings(peer)))
            .await?,
    )
}

async fn record(
    State(app): State<App>,
    Extension(peer): Extension<Peer>,
    Extension(seat): Extension<Arc<Seated>>,
    body: Bytes,
) -> Answer {
    let request: RecordRequest = control::decode::request(&body)?;
    let begun = app
        .line
        .ask(move |steward| steward.record(peer, &request))
        .await?;
    Ok(streamed::answer(begun, seat.answering()))
}

async fn end_recording(
    State(app): State<App>,
    Extension(peer): Extension<Peer>,
    Path(id): Path<String>,
) -> Answer {
    let id: u32 = id.parse().map_err(|_not_a_number| {
        let message = format!("`{}` is no recording's number", shortened(&id));
        Failure::new(ErrorKind::Usage, message)
    })?;
    json(
        &app.line
            .ask(move |steward| steward.end_recording(peer, id))
            .await?,
    )
}

async fn policies(State(app): State<App>) -> Answer {
    json(&app.line.ask(|steward| Ok(steward.policies())).await?)
}

async fn undo(State(app): State<App>, Extension(peer): Extension<Peer>, body: Bytes) -> Answer {
    let request: UndoRequest = control::decode::request(&body)?;
    json(
        &app.line
            .ask(move |steward| steward.undo(peer, &request))
            .await?,
    )
}

async fn reload(State(app): State<App>, Extension(peer): Extension<Peer>) -> Answer {
    json(&app.line.ask(move |steward| steward.reload(peer)).await?)
}

async fn doctor(State(app): State<App>) -> Answer {
    json(&app.line.ask(|steward| Ok(steward.doctor())).await?)
}

async fn config(State(app): State<App>) -> Answer {
    json(&app.line.ask(|steward| Ok(steward.config())).await?)
}

async fn description() -> Answer {
    json(&openapi())
}

async fn metrics(State(app): State<App>) -> Answer {
    let mut text = app.line.ask(|steward| Ok(steward.metrics())).await?;
    let (evicted, refused) = app.connections.turned_away();
    crate::steward::write_metric(&mut text, &crate::steward::CONNECTIONS_EVICTED, evicted);
    crate::steward::write_metric(&mut text, &crate::steward::CONNECTIONS_REFUSED, refused);
    let kind = [(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")];
    Ok((kind, text).into_response())
}

async fn no_such_path(request: Request) -> Response {
    let message = format!("there is no `{}` here", shortened(request.uri().path()));
    let failure = Failure::new(ErrorKind::NotFound, message).remedy("see /v1/openapi.json");
    failure_answer(404, &failure)
}

async fn no_such_method(request: Request) -> Response {
    let path = shortened(request.uri().path());
    let message = format!("`{}` does not know the method `{}`", path, request.method());
    let failure = Failure::new(ErrorKind::Usage, message).remedy("see /v1/openapi.json");
    failure_answer(405, &failure)
}

/// Ends what takes too long. What the engine thread has begun it finishes.
async fn in_time(State(app): State<App>, request: Request, next: Next) -> Response {
    let wait = app.limits.answer_wait;
    match tokio::time::timeout(wait, whole(app.limits, request, next)).await {
        Ok(answer) => answer,
        Err(_elapsed) => {
            let message = format!("no answer within {} s", wait.as_secs());
            let failure = Failure::new(ErrorKind::Busy, message).remedy("try again");
            failure_answer(failure.kind.http_status(), &failure)
        }
    }
}

/// Takes the whole body, then answers. Only from then on the connection keeps its seat, so that
/// half a body keeps nobody out.
async fn whole(limits: Limits, request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    let bytes = match to_bytes(body, limits.body_bytes_max).await {
        Ok(bytes) => bytes,
        Err(error) => {
            let message = format!("the request's body was not read: {error}");
            let remedy = format!("send at most {} bytes", limits.body_bytes_max);
            return failure_answer(413, &Failure::new(ErrorKind::Usage, message).remedy(remedy));
        }
    };
    let answering = parts.extensions.get::<Arc<Seated>>().map(Seated::answering);
    let path = shortened(parts.uri.path());
    let answer = next
        .run(Request::from_parts(parts, Body::from(bytes)))
        .await;
    drop(answering);
    let json = answer.headers().get(CONTENT_TYPE) == Some(&JSON);
    if answer.status().is_client_error() && !json {
        // The library's own word, in plain text, on a path it cannot decode.
        let message = format!("`{path}` is no path of this daemon");
        let failure = Failure::new(ErrorKind::Usage, message).remedy("see /v1/openapi.json");
        return failure_answer(answer.status().as_u16(), &failure);
    }
    answer
}

const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// The number of an attachment, from a path.
fn number(text: &str) -> Result<AttachmentId, Refused> {
    text.parse().map(AttachmentId).map_err(|_not_a_number| {
        let message = format!("`{}` is no attachment's number", shortened(text));
        Failure::new(ErrorKind::Usage, message).into()
    })
}

/// The value of the one parameter that a path knows.
fn parameter<'a>(query: Option<&'a str>, name: &str) -> Result<Option<&'a str>, Refused> {
    let mut value = None;
    for pair in query
        .unwrap_or_default()
        .split('&')
        .filter(|pair| !pair.is_empty())
    {
        match pair.split_once('=') {
            Some((key, text)) if key == name => value = Some(text),
            _ => {
                let message = format!("`{}` is not known here", shortened(pair));
                let remedy = format!("the only parameter is `{name}`");
                return Err(Failure::new(ErrorKind::Usage, message)
                    .remedy(remedy)
                    .into());
            }
        }
    }
    Ok(value)
}

/// What a client sent, short enough to be said back.
fn shortened(text: &str) -> String {
    const CHARACTERS_MAX: usize = 64;
    let mut short: String = text.chars().take(CHARACTERS_MAX).collect();
    if short.len() < text.len() {
        short.push_str("...");
    }
    short
}

fn json<T: Serialize>(row: &T) -> Answer {
    let bytes = serde_json::to_vec(row).map_err(|error| {
        Failure::new(
            ErrorKind::Internal,
            format!("an answer did not become JSON: {error}"),
        )
    })?;
    Ok(([(CONTENT_TYPE, "application/json")], bytes).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(query: Option<&str>, expected: Result<Option<&str>, &str>) {
        let found = parameter(query, "last").map_err(|refused| refused.0.message);
        assert_eq!(found, expected.map_err(str::to_owned));
    }

    #[test]
    fn a_path_knows_one_parameter() {
        check(None, Ok(None));
        check(Some(""), Ok(None));
        check(Some("last=7"), Ok(Some("7")));
        check(Some("first=7"), Err("`first=7` is not known here"));
        check(Some("last"), Err("`last` is not known here"));
    }

    #[test]
    fn what_is_said_back_is_short() {
        assert_eq!(shortened("é"), "é");
        assert_eq!(shortened(&"é".repeat(1000)).chars().count(), 67);
        assert!(number("four").is_err() && number("-1").is_err());
    }
}
