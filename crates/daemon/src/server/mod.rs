//! The server on the socket: accepts, judges the peer, limits, and hands requests to the routes.
//!
//! Runs on one thread beside the engine thread, and shares nothing with it but the channel of
//! [`crate::steward::Line`]. Whatever a client does costs at most one of a bounded number of
//! connections, each with a bounded buffer, for a bounded time.

mod connections;
mod describe;
mod desk;
mod pace;
mod routes;
mod schema;
mod schemas;
mod streamed;
#[cfg(test)]
mod tests;
mod unread;
mod watched;

use std::fmt;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use control::{ErrorBody, ErrorKind, Failure};
use hyper::body::Incoming;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Semaphore, watch};
use tokio::time::timeout;

pub use describe::{OPERATIONS, Operation, Route, openapi};

use crate::log::Log;
use crate::peer::{Access, Credentials, Peer};
use crate::steward::Line;
use connections::{Connections, Crowd, Most, Seated};
pub(crate) use pace::{DEBT_MAX, Hurried, Pace};
use watched::Watched;

/// What of the settings the server needs; changes with a reload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gate {
    /// Who may ask.
    pub access: Access,
    /// Connections of all users together.
    pub connections_max: usize,
    /// What one user may take, and what is kept for admins.
    pub limits: config::Limits,
}

/// Times and sizes that no client may exceed.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// From the connection, or the last answer, to the end of a request's header.
    pub header_wait: Duration,
    /// From the end of the header to the answer, the request's body included; an undo may take
    /// longer.
    pub answer_wait: Duration,
    /// Without a byte in either direction; longer than `answer_wait`.
    pub idle: Duration,
    /// How long a connection is used before its client has to make another.
    pub lifetime: Duration,
    /// Bytes of a request's header.
    pub header_bytes_max: usize,
    /// Bytes of a request's body.
    pub body_bytes_max: usize,
    /// Bytes of one user's answers that wait for their readers.
    pub unread_user_bytes_max: usize,
    /// The same of all users, and of all admins.
    pub unread_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            // A client on this machine sends its header at once; this only ends half requests.
            header_wait: Duration::from_secs(10),
            // The longest honest work but for an undo: a second, said ten times over.
            answer_wait: Duration::from_secs(15),
            idle: Duration::from_secs(30),
            lifetime: Duration::from_secs(600),
            // hyper's least is 8 KiB; 64 connections hold 1 MiB at most.
            header_bytes_max: 16 << 10,
            // The longest honest request names 1,024 processes: 8 KiB.
            body_bytes_max: 64 << 10,
            // The matrix of 2,048 threads has 18 MiB.
            unread_user_bytes_max: 32 << 20,
            unread_bytes_max: 64 << 20,
        }
    }
}

/// How long a refused client is listened to, so that it can finish its request and read why.
const REFUSED_WAIT: Duration = Duration::from_millis(500);
/// Refused clients that are listened to at a time; more are told and left.
pub const REFUSED_MAX: usize = 64;
/// How long an ending connection may take to write what is begun.
const FAREWELL_WAIT: Duration = Duration::from_secs(5);
/// How long accepting rests when the process is out of file descriptors.
const ACCEPT_REST: Duration = Duration::from_millis(100);
/// How often that is told.
const TOLD_EVERY: Duration = Duration::from_secs(60);

/// Says who is at the other end of a connection.
pub type Witness = Arc<dyn Fn(&UnixStream) -> io::Result<Credentials> + Send + Sync>;

/// Asks the kernel.
#[must_use]
pub fn kernel_witness() -> Witness {
    Arc::new(|stream| {
        let peer = stream.peer_cred()?;
        Ok(Credentials {
            uid: peer.uid(),
            gid: peer.gid(),
        })
    })
}

/// The server, before it serves.
pub struct Server {
    /// Where requests go.
    pub line: Line,
    /// Who may ask, and how many at a time.
    pub gate: watch::Receiver<Gate>,
    /// What no client may exceed.
    pub limits: Limits,
    /// Who says who asks.
    pub witness: Witness,
    /// Where to tell.
    pub log: Log,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

/// What all connections share.
struct Shared {
    server: Server,
    router: Router,
    connections: Arc<Connections>,
    farewells: Arc<Semaphore>,
    /// How fast users connect.
    pace: Pace,
    /// What users hear who connect too fast.
    hurried: Vec<u8>,
}

impl Server {
    /// Serves until dropped: everyone on `listener`, and admins on a socket of their own, which
    /// users cannot crowd.
    pub async fn serve(self, listener: UnixListener, admins: Option<UnixListener>) {
        let connections = Arc::new(Connections::default());
        let router = routes::router(
            self.line.clone(),
            self.limits,
            Arc::clone(&connections),
            self.gate.clone(),
            &self.log,
        );
        let shared = Arc::new(Shared {
            server: self,
            router,
            connections,
            farewells: Arc::new(Semaphore::new(REFUSED_MAX)),
            pace: Pace::default(),
            hurried: bare_answer(&hurried()),
        });
        let everyone = shared.accept(&listener);
        match &admins {
            Some(admins) => drop(tokio::join!(shared.accept(admins), everyone)),
            None => everyone.await,
        }
    }
}

impl Shared {
    /// Accepts connections for ever.
    async fn accept(self: &Arc<Self>, listener: &UnixListener) {
        let mut hurried = Hurried::new(Instant::now());
        let mut last_told = None;
        loop {
            match listener.accept().await {
                Ok((stream, _)) => {
                    let rest = match self.welcome(stream) {
                        true => Duration::ZERO,
                        false => hurried.turned_away(Instant::now()),
                    };
                    // The shortest sleep takes a millisecond.
                    if !rest.is_zero() {
                        tokio::time::sleep(rest).await;
                    }
                }
                Err(error) => {
                    let told = last_told.is_none_or(|told: Instant| told.elapsed() >= TOLD_EVERY);
                    if told {
                        last_told = Some(Instant::now());
                        let log = &self.server.log;
                        log.warn(format_args!("cannot accept a connection: {error}"));
                    }
                    tokio::time::sleep(ACCEPT_REST).await;
                }
            }
            // Lets the new connection read what it brought before the next may take its seat.
            tokio::task::yield_now().await;
        }
    }

    /// Takes a new connection in, or turns it away. False if its user makes them too fast.
    fn welcome(self: &Arc<Self>, stream: UnixStream) -> bool {
        let (judged, payer, most) = {
            let gate = self.server.gate.borrow();
            let judged = match (self.server.witness)(&stream) {
                Ok(credentials) => gate.access.judge(credentials),
                Err(error) => {
                    let message = format!("the kernel does not say who you are: {error}");
                    Err(Failure::new(ErrorKind::NotPermitted, message))
                }
            };
            let most = Most {
                users: gate.connections_max,
                user: gate.limits.user_connections_max,
                admins: gate.limits.admin_connections_max,
            };
            let uid = judged.as_ref().map_or(0, |peer| peer.uid);
            let payer = gate.access.payer(uid);
            if judged.as_ref().is_ok_and(|peer| !peer.admin)
                && !self.pace.connection(payer, Instant::now(), &gate.limits)
            {
                // Fits the socket's buffer, or is not said.
                drop(stream.try_write(&self.hurried));
                return false;
            }
            (judged, payer, most)
        };
        match judged {
            Ok(peer) => match self.connections.admit(peer, payer, most) {
                Ok(seat) => {
                    tokio::spawn(Arc::clone(self).converse(stream, Arc::new(seat)));
                }
                Err(crowd) => self.refuse(stream, &crowded(crowd)),
            },
            Err(failure) => self.refuse(stream, &failure),
        }
        true
    }

    /// One connection, request after request.
    async fn converse(self: Arc<Self>, stream: UnixStream, seat: Arc<Seated>) {
        let limits = self.server.limits;
        let io = TokioIo::new(Watched::new(stream, Arc::clone(&seat), limits.idle));
        let router = TowerToHyperService::new(self.router.clone());
        let peer: Peer = seat.peer();
        let holder = Arc::clone(&seat);
        let service = service_fn(move |mut request: hyper::Request<Incoming>| {
            request.extensions_mut().insert(peer);
            request.extensions_mut().insert(Arc::clone(&holder));
            router.call(request)
        });
        let connection = hyper::server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(limits.header_wait)
            // Who has sent all and says so still wants the answer.
            .half_close(true)
            .max_buf_size(limits.header_bytes_max)
            .serve_connection(io, service);
        let mut connection = pin!(connection);
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = seat.wanted_back() => return,
            () = tokio::time::sleep(limits.lifetime) => {
                connection.as_mut().graceful_shutdown();
                loop {
                    match timeout(FAREWELL_WAIT, connection.as_mut()).await {
                        Ok(ended) => break ended,
                        // A recording takes as long as it takes.
                        Err(_elapsed) if seat.is_answering() => {}
                        Err(_elapsed) => return,
                    }
                }
            }
        };
        if let Err(error) = ended {
            // Clients that hang up, send nonsense or nothing are the client's affair.
            self.server.log.debug(format_args!(
                "a connection of user {} ended: {error}",
                peer.uid
            ));
        }
    }

    /// Tells a client why it is not served.
    fn refuse(&self, mut stream: UnixStream, failure: &Failure) {
        let answer = bare_answer(failure);
        let Ok(permit) = Arc::clone(&self.farewells).try_acquire_owned() else {
            // Fits the socket's buffer, or is not said.
            drop(stream.try_write(&answer));
            return;
        };
        tokio::spawn(async move {
            let farewell = async {
                stream.write_all(&answer).await?;
                stream.shutdown().await?;
                // Reading what was sent keeps a client from an error before it reads the answer.
                let mut sink = [0; 4096];
                while stream.read(&mut sink).await? > 0 {}
                io::Result::Ok(())
            };
            // Told or not, it is left.
            drop(timeout(REFUSED_WAIT, farewell).await);
            drop(permit);
        });
    }
}

fn crowded(crowd: Crowd) -> Failure {
    let message = match crowd {
        Crowd::User => "too many connections of yours are open",
        Crowd::Users | Crowd::Admins => "too many connections are open",
    };
    let remedy = format!("try again, or have `{}` raised", crowd.setting());
    Failure::new(ErrorKind::Busy, message).remedy(remedy)
}

fn hurried() -> Failure {
    Failure::new(ErrorKind::Busy, "you connect faster than one user may")
        .remedy("wait some seconds, or have `limits.user_requests_per_s` raised")
}

/// A whole answer, for those who have no connection of their own.
fn bare_answer(failure: &Failure) -> Vec<u8> {
    let body = error_json(failure);
    let status = failure.kind.http_status();
    // Nothing of the request was read, so that it may be sent again as it is.
    let again = match failure.kind {
        ErrorKind::Busy => "retry-after: 1\r\n",
        _ => "",
    };
    let mut answer = format!(
        "HTTP/1.1 {status} refused\r\ncontent-type: application/json\r\nconnection: close\r\n\
         {again}content-length: {}\r\n\r\n",
        body.len()
    )
    .into_bytes();
    answer.extend_from_slice(&body);
    answer
}

fn error_json(failure: &Failure) -> Vec<u8> {
    let body = ErrorBody {
        error: failure.clone(),
    };
    // Two texts and a word always become JSON.
    serde_json::to_vec(&body).unwrap_or_default()
}

/// A failure as an answer, with a status of its own.
fn failure_answer(status: u16, failure: &Failure) -> axum::response::Response {
    let mut answer = axum::response::Response::new(Body::from(error_json(failure)));
    let internal = axum::http::StatusCode::INTERNAL_SERVER_ERROR;
    *answer.status_mut() = axum::http::StatusCode::from_u16(status).unwrap_or(internal);
    let json = axum::http::HeaderValue::from_static("application/json");
    answer
        .headers_mut()
        .insert(axum::http::header::CONTENT_TYPE, json);
    answer
}
