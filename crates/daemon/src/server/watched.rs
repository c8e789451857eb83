//! A connection that tells when bytes pass, and ends when none do.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixStream;
use tokio::time::{Instant, Sleep};

use super::connections::Seated;

/// A stream whose seat hears of each byte, and that fails when none passed for a while: also when
/// the other end does not read its answer, but not while it waits for one.
#[derive(Debug)]
pub(super) struct Watched {
    stream: UnixStream,
    seat: Arc<Seated>,
    idle_max: Duration,
    idle: Pin<Box<Sleep>>,
    /// Whether something waits to be taken by the other end.
    unwritten: bool,
}

impl Watched {
    pub(super) fn new(stream: UnixStream, seat: Arc<Seated>, idle_max: Duration) -> Self {
        Self {
            stream,
            seat,
            idle_max,
            idle: Box::pin(tokio::time::sleep(idle_max)),
            unwritten: false,
        }
    }

    /// Notes that bytes passed, or turns a wait into an error once it took too long.
    fn watch<T>(
        &mut self,
        context: &mut Context<'_>,
        polled: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            self.seat.heard();
            self.idle.as_mut().reset(Instant::now() + self.idle_max);
            return polled;
        }
        while self.idle.as_mut().poll(context).is_ready() {
            if self.unwritten || !self.seat.is_answering() {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            self.idle.as_mut().reset(Instant::now() + self.idle_max);
        }
        Poll::Pending
    }
}

impl AsyncRead for Watched {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_read(context, buffer);
        self.watch(context, polled)
    }
}

impl AsyncWrite for Watched {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.unwritten = polled.is_pending();
        self.watch(context, polled)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
