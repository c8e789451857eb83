//! From requests to orders for the engine thread, and back to answers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Extension;
use axum::Router;
use axum::body::{Body, Bytes, HttpBody, to_bytes};
use axum::extract::{MatchedPath, Path, RawQuery, Request, State};
use axum::http::HeaderValue;
use axum::http::header::CONTENT_TYPE;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, delete, get, post};
use control::experiment::{ExperimentRequest, ReadingRequest};
use control::rows::{AttachRequest, Finding, RecordRequest, Target, UndoRequest};
use control::{ErrorKind, Failure};
use numad_core::AttachmentId;
use serde::Serialize;
use tokio::sync::{Mutex, watch};

use super::connections::{Connections, Seated};
use super::describe::{OPERATIONS, Operation, openapi};
use super::desk::Desk;
use super::pace::{Account, Entered, Kind, Pace, TooMuch};
use super::unread::{Most, SHORT, Unread};
use super::{Gate, Limits, failure_answer, streamed};
use crate::log::Log;
use crate::peer::Peer;
use crate::steward::{Lane, Line, MatrixWindow, ProcessFacts, Steward, read_story};

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
    gate: watch::Receiver<Gate>,
    pace: Arc<Pace>,
    desks: Arc<Desks>,
    unread: Arc<Unread>,
}

/// Where long work is done that needs nothing of the engine thread: one piece at a time for admins, and
/// one for users.
struct Desks {
    admins: Desk,
    users: Desk,
    /// What users were last told of the machine, and when.
    told: Mutex<Option<(Instant, Vec<Finding>)>>,
}

impl App {
    /// Has the engine thread do something, on the account of the one who asks.
    async fn ask<T: Send + 'static>(
        &self,
        peer: Peer,
        work: impl FnOnce(&mut Steward) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let account = self.account(peer);
        let work = move |steward: &mut Steward| account.charge(|| work(steward));
        self.line.ask(Lane::of(peer), work).await
    }

    /// The same for what changes nothing: it does not wait for the end of an undo.
    async fn look<T: Send + 'static>(
        &self,
        peer: Peer,
        work: impl FnOnce(&mut Steward) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let account = self.account(peer);
        let work = move |steward: &mut Steward| account.charge(|| work(steward));
        self.line.look(Lane::of(peer), work).await
    }

    /// Has another thread do something long, on the account of the one who asks.
    async fn elsewhere<T: Send + 'static>(
        &self,
        peer: Peer,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Failure> {
        let desk = match Lane::of(peer) {
            Lane::Admins => &self.desks.admins,
            Lane::Users => &self.desks.users,
        };
        let account = self.account(peer);
        desk.has_done(move || account.charge(work)).await
    }

    fn account(&self, peer: Peer) -> Account {
        match peer.admin {
            true => Account::NOBODYS,
            false => {
                let gate = self.gate.borrow();
                let payer = gate.access.payer(peer.uid);
                Account::of(Arc::clone(&self.pace), payer, gate.limits)
            }
        }
    }

    /// Searches for the processes of a target that is not a list of them.
    async fn found(
        &self,
        peer: Peer,
        target: Target,
    ) -> Result<Option<Vec<ProcessFacts>>, Failure> {
        let finder = self
            .look(peer, move |steward| Ok(steward.finder(&target)))
            .await?;
        match finder {
            Some(find) => Ok(Some(self.elsewhere(peer, find).await??)),
            None => Ok(None),
        }
    }

    async fn check_up(&self, peer: Peer) -> Result<Vec<Finding>, Failure> {
        let checkup = self.look(peer, |steward| Ok(steward.doctor())).await?;
        self.elsewhere(peer, || checkup.run()).await
    }

    /// An answer that counts until it is read, where it is not short.
    async fn held(&self, peer: Peer, answer: Response) -> Response {
        let length = answer.body().size_hint().exact();
        if length.is_none_or(|length| usize::try_from(length).is_ok_and(|it| it <= SHORT)) {
            return answer;
        }
        let most = Most {
            user: self.limits.unread_user_bytes_max,
            lane: self.limits.unread_bytes_max,
        };
        let (head, body) = answer.into_parts();
        let bytes = to_bytes(body, usize::MAX).await.ok();
        let payer = self.gate.borrow().access.payer(peer.uid);
        let payer = (!peer.admin).then_some(payer);
        let held = bytes.and_then(|bytes| self.unread.hold(payer, bytes, most));
        held.map_or_else(crowded, |held| Response::from_parts(head, Body::new(held)))
    }

    /// Holds a request of a user back who asks too much, and gives it up when that takes too long.
    /// What it gives is held until the request has its answer.
    async fn keep_pace(&self, peer: Peer, kind: Option<Kind>) -> Result<Option<Entered>, Failure> {
        if peer.admin {
            return Ok(None);
        }
        let (limits, payer) = {
            let gate = self.gate.borrow();
            (gate.limits, gate.access.payer(peer.uid))
        };
        let entered = match kind {
            Some(kind) => self.pace.enter(payer, kind, &limits).await.map(Some),
            None => self.pace.paced(payer, &limits).await.map(|()| None),
        };
        entered.map_err(|TooMuch| {
            let message = format!("user `{}` asks more at once than one user may", peer.uid);
            let remedy = "wait some seconds, or have `limits.user_requests_per_s` or \
                          `limits.user_share_percent` raised";
            Failure::new(ErrorKind::Busy, message).remedy(remedy)
        })
    }
}

/// How long a request waits for what happens to an experiment; less than any answer may take.
const TURN_WAIT: Duration = Duration::from_secs(10);

/// How long users are told the same of the machine: looking takes a tenth of a second of a processor.
const TOLD_KEPT: Duration = Duration::from_secs(10);

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
pub(super) fn router(
    line: Line,
    limits: Limits,
    connections: Arc<Connections>,
    gate: watch::Receiver<Gate>,
    log: &Log,
) -> Router {
    let desks = Desks {
        admins: Desk::new("desk", log),
        users: Desk::new("users' desk", log),
        told: Mutex::default(),
    };
    let app = App {
        line,
        limits,
        connections,
        gate,
        pace: Arc::default(),
        desks: Arc::new(desks),
        unread: Arc::default(),
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
        Operation::Experiments => get(experiments),
        Operation::Experiment => post(experiment),
        Operation::ShowExperiment => get(show_experiment),
        Operation::Turn => get(turn),
        Operation::GiveReading => post(give_reading),
        Operation::StopExperiment => delete(stop_experiment),
        Operation::History => get(history),
        Operation::Story => get(story),
        Operation::Policies => get(policies),
        Operation::Undo => post(undo),
        Operation::Journal => get(journal),
        Operation::Reload => post(reload),
        Operation::Doctor => get(doctor),
        Operation::Config => get(config),
        Operation::OpenApi => get(description),
        Operation::Metrics => get(metrics),
    }
}

async fn status(State(app): State<App>, Extension(peer): Extension<Peer>) -> Answer {
    json(
        &app.look(peer, move |steward| Ok(steward.status(peer)))
            .await?,
    )
}

async fn attachments(State(app): State<App>, Extension(peer): Extension<Peer>) -> Answer {
    json(
        &app.look(peer, move |steward| Ok(steward.attachments(peer)))
            .await?,
    )
}

async fn attach(State(app): State<App>, Extension(peer): Extension<Peer>, body: Bytes) -> Answer {
    let request: AttachRequest = control::decode::request(&body)?;
    let found = app.found(peer, request.target.clone()).await?;
    json(
        &app.ask(peer, move |steward| {
            steward.attach_found(peer, &request, found)
        })
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
        &app.look(peer, move |steward| steward.detail(peer, id))
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
        &app.ask(peer, move |steward| steward.detach(peer, id))
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
        Some(window @ ("messages" | "modelled")) => {
            let modelled = window == "modelled";
            let row = app.look(peer, move |steward| steward.messages(peer, id, modelled));
            return json(&row.await?);
        }
        Some(other) => {
            let message =
                format!("`window` is `{other}`, must be one of live, decayed, messages, modelled");
            return Err(Failure::new(ErrorKind::Usage, message).into());
        }
    };
    let draft = app
        .look(peer, move |steward| steward.matrix(peer, id, window))
        .await?;
    app.elsewhere(peer, || json(&draft.row())).await?
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
        &app.look(peer, move |steward| steward.events(peer, id, last))
            .await?,
    )
}

async fn recordings(State(app): State<App>, Extension(peer): Extension<Peer>) -> Answer {
    json(
        &app.look(peer, move |steward| Ok(steward.recordings(peer)))
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
    let found = app.found(peer, request.target.clone()).await?;
    let begun = app
        .ask(peer, move |steward| {
            steward.record_found(peer, &request, found)
        })
        .await?;
    Ok(streamed::answer(begun, seat.answering()))
}

async fn end_recording(
    State(app): State<App>,
    Extension(peer): Extension<Peer>,
    Path(id): Path<String>,
) -> Answer {
    let id = numbered(&id, "recording")?;
    json(
        &app.ask(peer, move |steward| steward.end_recording(peer, id))
            .await?,
    )
}

async fn experiments(State(app): State<App>, Extension(peer): Extension<Peer>) -> Answer {
    json(
        &app.look(peer, move |steward| Ok(steward.experiment_rows(peer)))
            .await?,
    )
}

async fn experiment(
    State(app): State<App>,
    Extension(peer): Extension<Peer>,
    body: Bytes,
) -> Answer {
    let request: ExperimentRequest = control::decode::request(&body)?;
    let found = app.found(peer, request.target.clone()).await?;
    json(
        &app.ask(peer, move |steward| {
            steward.experiment(peer, &request, found)
        })
        .await?,
    )
}

async fn show_experiment(
    State(app): State<App>,
    Extension(peer): Extension<Peer>,
    Path(id): Path<String>,
) -> Answer {
    let id = numbered(&id, "experiment")?;
    let found = app
        .look(peer, move |steward| steward.find_experiment(peer, id))
        .await?;
    json(&app.elsewhere(peer, || found.look_up()).await??)
}

async fn turn(
    State(app): State<App>,
    Extension(peer): Extension<Peer>,
    Path(id): Path<String>,
    RawQuery(query): RawQuery,
) -> Answer {
    let id = numbered(&id, "experiment")?;
    let after = match parameter(query.as_deref(), "after")? {
        None => 0,
        Some(text) => text.parse().map_err(|_not_a_number| {
            let message = format!("`after` is `{text}`, must be a whole number");
            Failure::new(ErrorKind::Usage, message)
        })?,
    };
    let until = tokio::time::Instant::now() + TURN_WAIT;
    let mut news = app.line.news();
    loop {
        // Before the look, so that nothing is missed between the two.
        news.mark_unchanged();
        let row = app
            .look(peer, move |steward| steward.experiment_row(peer, id))
            .await?;
        let late = tokio::time::Instant::now() >= until;
        if late || row.turn > after || row.state == "over" {
            return json(&row);
        }
        // Whoever is gone tells no news; the time ends the wait then.
        if let Ok(Err(_gone)) = tokio::time::timeout_at(until, news.changed()).await {
            tokio::time::sleep_until(until).await;
        }
    }
}

async fn give_reading(
    State(app): State<App>,
    Extension(peer): Extension<Peer>,
    Path(id): Path<String>,
    body: Bytes,
) -> Answer {
    let id = numbered(&id, "experiment")?;
    let request: ReadingRequest = control::decode::request(&body)?;
    json(
        &app.ask(peer, move |steward| steward.give_reading(peer, id, request))
            .await?,
    )
}

async fn stop_experiment(
    State(app): State<App>,
    Extension(peer): Extension<Peer>,
    Path(id): Path<String>,
) -> Answer {
    let id = numbered(&id, "experiment")?;
    let found = app
        .ask(peer, move |steward| steward.stop_experiment(peer, id))
        .await?;
    json(&app.elsewhere(peer, || found.look_up()).await??)
}

async fn history(State(app): State<App>, Extension(peer): Extension<Peer>) -> Answer {
    json(
        &app.look(peer, move |steward| Ok(steward.stories(peer)))
            .await?,
    )
}

async fn story(
    State(app): State<App>,
    Extension(peer): Extension<Peer>,
    Path(id): Path<String>,
) -> Answer {
    let id = numbered(&id, "attachment")?;
    let path = app
        .look(peer, move |steward| steward.find_story(peer, id))
        .await?;
    json(&app.elsewhere(peer, move || read_story(&path)).await??)
}

async fn policies(State(app): State<App>, Extension(peer): Extension<Peer>) -> Answer {
    json(&app.look(peer, |steward| Ok(steward.policies())).await?)
}

async fn undo(State(app): State<App>, Extension(peer): Extension<Peer>, body: Bytes) -> Answer {
    let request: UndoRequest = control::decode::request(&body)?;
    // Nothing that is forgotten, such as the body, may mean everything.
    if request.pid.is_some() == request.all {
        let message = "it is not said what to undo: name a process, or everything";
        let remedy = "send `{\"pid\": 4242}`, or `{\"all\": true}`";
        return Err(Failure::new(ErrorKind::Usage, message)
            .remedy(remedy)
            .into());
    }
    json(
        &app.ask(peer, move |steward| steward.undo(peer, &request))
            .await?,
    )
}

/// Waits for the end of an undo: halfway through, the journal still lists what is put back.
async fn journal(State(app): State<App>, Extension(peer): Extension<Peer>) -> Answer {
    json(
        &app.ask(peer, move |steward| Ok(steward.journal(peer)))
            .await?,
    )
}

async fn reload(State(app): State<App>, Extension(peer): Extension<Peer>) -> Answer {
    json(&app.ask(peer, move |steward| steward.reload(peer)).await?)
}

async fn doctor(State(app): State<App>, Extension(peer): Extension<Peer>) -> Answer {
    if peer.admin {
        return json(&app.check_up(peer).await?);
    }
    // Held while someone looks, so that nobody looks twice.
    let mut told = app.desks.told.lock().await;
    if let Some((at, findings)) = &*told
        && at.elapsed() < TOLD_KEPT
    {
        return json(findings);
    }
    let findings = app.check_up(peer).await?;
    let answer = json(&findings);
    *told = Some((Instant::now(), findings));
    answer
}

async fn config(State(app): State<App>, Extension(peer): Extension<Peer>) -> Answer {
    json(&app.look(peer, |steward| Ok(steward.config())).await?)
}

async fn description() -> Answer {
    json(&openapi())
}

async fn metrics(State(app): State<App>, Extension(peer): Extension<Peer>) -> Answer {
    let mut text = app.look(peer, |steward| Ok(steward.metrics())).await?;
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

/// Ends what takes too long; an undo takes as long as it takes. What the engine thread has begun it finishes.
async fn in_time(State(app): State<App>, request: Request, next: Next) -> Response {
    let until = Instant::now() + app.limits.answer_wait;
    let undoes = undoes(&request);
    let Ok(request) = tokio::time::timeout_at(until.into(), whole(app.limits, request)).await
    else {
        return too_late(&app);
    };
    let answer = match request {
        Ok(request) => answer(&app, request, next),
        Err(refusal) => return refusal,
    };
    if undoes {
        return answer.await;
    }
    let answer = tokio::time::timeout_at(until.into(), answer).await;
    answer.unwrap_or_else(|_elapsed| too_late(&app))
}

fn crowded() -> Response {
    let message =
        "answers of yours, or of all users, that nobody has read yet take too much memory";
    let failure = Failure::new(ErrorKind::Busy, message).remedy("read them, then try again");
    failure_answer(failure.kind.http_status(), &failure)
}

fn too_late(app: &App) -> Response {
    let message = format!("no answer within {} s", app.limits.answer_wait.as_secs());
    let failure = Failure::new(ErrorKind::Busy, message).remedy("try again");
    failure_answer(failure.kind.http_status(), &failure)
}

/// Whether a request asks for the undo of something.
fn undoes(request: &Request) -> bool {
    let operation = operation(request);
    operation.is_some_and(|of| matches!(of, Operation::Detach | Operation::Undo))
}

/// How a request of a user is let in; none for one that only waits for what happens.
fn kind(request: &Request) -> Option<Kind> {
    if matches!(operation(request), Some(Operation::Turn)) {
        return None;
    }
    Some(match request.method().is_safe() {
        true => Kind::Look,
        false if undoes(request) => Kind::Undo,
        false => Kind::Change,
    })
}

/// What a request asks for.
fn operation(request: &Request) -> Option<Operation> {
    let path = request.extensions().get::<MatchedPath>()?;
    let method = request.method().as_str();
    let mut routes = OPERATIONS.iter();
    let found = routes
        .find(|route| route.path == path.as_str() && route.method.eq_ignore_ascii_case(method));
    found.map(|route| route.operation)
}

/// Takes the whole body.
async fn whole(limits: Limits, request: Request) -> Result<Request, Response> {
    let (parts, body) = request.into_parts();
    match to_bytes(body, limits.body_bytes_max).await {
        Ok(bytes) => Ok(Request::from_parts(parts, Body::from(bytes))),
        Err(error) => {
            let message = format!("the request's body was not read: {error}");
            let remedy = format!("send at most {} bytes", limits.body_bytes_max);
            let failure = Failure::new(ErrorKind::Usage, message).remedy(remedy);
            Err(failure_answer(413, &failure))
        }
    }
}

/// Answers what is whole. Only from then on the connection keeps its seat, so that half a body keeps nobody out.
async fn answer(app: &App, request: Request, next: Next) -> Response {
    let answering = request.extensions().get::<Arc<Seated>>();
    let answering = answering.map(Seated::answering);
    let peer = request.extensions().get::<Peer>().copied();
    let entered = match peer {
        Some(peer) => app.keep_pace(peer, kind(&request)).await,
        None => Ok(None),
    };
    let entered = match entered {
        Ok(entered) => entered,
        Err(failure) => return failure_answer(failure.kind.http_status(), &failure),
    };
    let path = shortened(request.uri().path());
    let answer = next.run(request).await;
    let answer = match peer {
        Some(peer) => app.held(peer, answer).await,
        None => answer,
    };
    drop((entered, answering));
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

/// The number of something else, from a path.
fn numbered(text: &str, what: &str) -> Result<u32, Refused> {
    text.parse().map_err(|_not_a_number| {
        let message = format!("`{}` is no {what}'s number", shortened(text));
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
    let mut bytes = serde_json::to_vec(row).map_err(|error| {
        Failure::new(
            ErrorKind::Internal,
            format!("an answer did not become JSON: {error}"),
        )
    })?;
    // It may wait for long, and as much again was kept for more of it.
    bytes.shrink_to_fit();
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
