//! An answer whose bytes come as they are made: a recording.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use axum::http::HeaderValue;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use hyper::body::Frame;

use super::connections::Answering;
use crate::steward::Begun;

/// Blocks as they come. With it goes the word of the engine thread that someone reads.
#[derive(Debug)]
struct Blocks {
    begun: Begun,
    /// Keeps the connection its seat until the last block is sent.
    _seat: Answering,
}

impl HttpBody for Blocks {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let received = self.begun.blocks.poll_recv(context);
        received.map(|block| Some(Ok(Frame::data(Bytes::from(block?)))))
    }
}

/// The recording as an answer.
pub(super) fn answer(begun: Begun, seat: Answering) -> Response {
    let id = HeaderValue::from(begun.id);
    let body = Body::new(Blocks { begun, _seat: seat });
    let kind = [(CONTENT_TYPE, "application/octet-stream")];
    let mut answer = (kind, body).into_response();
    answer.headers_mut().insert(control::RECORDING_HEADER, id);
    answer
}
