//! A recording as it comes over the socket.

use std::io::{self, Write};
use std::time::Duration;

use control::rows::{RecordRequest, RecordingRow};
use control::{ErrorKind, Failure, RECORDING_HEADER};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use tokio::time::timeout;

use super::{Client, is_elsewhere};
use crate::waiting::Interrupts;

/// How long nothing may come. The daemon sends something every second.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// How long the daemon may take to end a recording when it is asked to.
const END_WAIT: Duration = Duration::from_secs(10);

/// Longest word of the daemon on why it does not record.
const REFUSAL_BYTES: usize = 64 << 10;

/// Why no more of a recording comes.
#[derive(Debug)]
pub(crate) enum Over {
    /// The daemon has sent all of it.
    Sent,
    /// The daemon, or the way to it, is gone.
    Broken,
    /// Nothing has come for too long.
    Silent,
    /// Whoever started it wants to wait no longer.
    Interrupted,
    /// It could not be written.
    Unwritten(io::Error),
}

impl Client {
    /// Has the daemon record, says when it does, and writes what comes. Ends the recording when
    /// interrupted.
    ///
    /// # Errors
    /// When the recording does not begin. What ends it once it has is no error.
    pub(crate) fn record(
        &self,
        request: &RecordRequest,
        begun: &mut dyn FnMut() -> Result<(), Failure>,
        to: &mut dyn Write,
    ) -> Result<Over, Failure> {
        let body = serde_json::to_vec(request).map_err(|error| {
            let text = format!("cannot put the request into JSON: {error}");
            Failure::new(ErrorKind::Internal, text)
        })?;
        self.runtime.block_on(async {
            let interrupts = Interrupts::new()?;
            let answer = timeout(self.limits.answer, self.begin(Bytes::from(body))).await;
            let (id, body) = answer.unwrap_or_else(|_elapsed| Err(self.too_slow()))?;
            begun()?;
            Ok(self.copy(id, body, interrupts, to).await)
        })
    }

    /// Asks, and gives the recording's number and its bytes.
    async fn begin(&self, body: Bytes) -> Result<(String, Incoming), Failure> {
        let stream = self
            .connect()
            .await
            .map_err(|error| Failure::from(self.no_connection(&error)))?;
        if is_elsewhere(&stream) {
            return Err(self.other_numbers());
        }
        let failed = |error: hyper::Error| self.broken(&error);
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
            .await
            .map_err(failed)?;
        // Ends by itself with the last byte; its errors reach us through the body.
        drop(tokio::spawn(connection));
        let request = Request::builder()
            .method(Method::POST)
            .uri("/v1/recordings")
            .header(hyper::header::HOST, "localhost")
            .header(hyper::header::CONTENT_TYPE, "application/json")
            .body(Full::new(body))
            .map_err(|error| {
                Failure::new(
                    ErrorKind::Internal,
                    format!("cannot make a request: {error}"),
                )
            })?;
        let answer = sender.send_request(request).await.map_err(failed)?;
        if !answer.status().is_success() {
            return Err(self.refusal(answer).await);
        }
        let id = answer.headers().get(RECORDING_HEADER);
        let id = id.and_then(|id| id.to_str().ok()).map(ToOwned::to_owned);
        let id = id.ok_or_else(|| self.garbage(&format!("no header `{RECORDING_HEADER}`")))?;
        Ok((id, answer.into_body()))
    }

    async fn refusal(&self, answer: Response<Incoming>) -> Failure {
        let status = answer.status();
        match Limited::new(answer.into_body(), REFUSAL_BYTES)
            .collect()
            .await
        {
            Ok(body) => self.failure(status, &body.to_bytes()),
            Err(error) => self.no_body(&*error),
        }
    }

    async fn copy(
        &self,
        id: String,
        mut body: Incoming,
        mut interrupts: Interrupts,
        to: &mut dyn Write,
    ) -> Over {
        let mut ending = false;
        loop {
            let frame = tokio::select! {
                frame = timeout(SILENCE_MAX, body.frame()) => frame,
                () = interrupts.next() => {
                    if ending || !self.end(&id).await {
                        return Over::Interrupted;
                    }
                    ending = true;
                    continue;
                }
            };
            match frame {
                Err(_elapsed) => return Over::Silent,
                Ok(None) => return Over::Sent,
                Ok(Some(Err(_broken))) => return Over::Broken,
                Ok(Some(Ok(frame))) => {
                    let Ok(bytes) = frame.into_data() else {
                        continue;
                    };
                    if let Err(error) = to.write_all(&bytes) {
                        return Over::Unwritten(error);
                    }
                }
            }
        }
    }

    /// Has the daemon end a recording; false when it is not known to have done so.
    async fn end(&self, id: &str) -> bool {
        let path = format!("/v1/recordings/{id}");
        let body = Bytes::new();
        let asked = timeout(END_WAIT, self.patiently(&Method::DELETE, &path, &body));
        let Ok(Ok((status, bytes))) = asked.await else {
            return false;
        };
        // One that has ended by itself meanwhile is not there any more.
        status == hyper::StatusCode::NOT_FOUND
            || serde_json::from_slice::<RecordingRow>(&bytes).is_ok()
    }
}
