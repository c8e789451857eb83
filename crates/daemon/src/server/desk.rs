//! A desk: a thread that does long work which needs nothing of the engine's thread, one piece after
//! the other.
//!
//! It is made at the start and kept. The runtime's own threads for such work are made when they are
//! needed, and where the unit's tasks are used up by then, that ends the daemon.

use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::thread;

use control::{ErrorKind, Failure};
use tokio::sync::oneshot;

use crate::log::Log;

/// Pieces that wait at most; each connection has at most one.
const WAITING_MAX: usize = 1024;

type Job = Box<dyn FnOnce() + Send>;

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct Desk(Option<SyncSender<Job>>);

impl Desk {
    /// A desk with a thread of this name; one that refuses all work, where there is none to be had.
    pub(super) fn new(name: &str, log: &Log) -> Self {
        let (jobs, to_do) = sync_channel::<Job>(WAITING_MAX);
        let named = thread::Builder::new().name(name.to_owned());
        match named.spawn(move || to_do.into_iter().for_each(|job| job())) {
            Ok(_runs) => Self(Some(jobs)),
            Err(error) => {
                log.warn(format_args!(
                    "refusing matrices, `doctor` and searches: no thread for them: {error}"
                ));
                Self(None)
            }
        }
    }

    /// Has a piece of work done when its turn comes. It is not begun when nobody waits for it any
    /// more.
    ///
    /// # Errors
    /// `Busy` when too much waits, or there is no thread; `Internal` when it has ended.
    pub(super) async fn has_done<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Failure> {
        let jobs = self.0.as_ref().ok_or_else(|| {
            Failure::new(ErrorKind::Busy, "there is no thread for this")
                .remedy("raise `TasksMax=` of the unit and start numad again")
        })?;
        let (reply, answer) = oneshot::channel();
        let job = move || {
            if !reply.is_closed() {
                // The one who asked may have gone meanwhile.
                drop(reply.send(work()));
            }
        };
        let ended = || Failure::new(ErrorKind::Internal, "a piece of work did not end");
        jobs.try_send(Box::new(job)).map_err(|error| match error {
            TrySendError::Full(_) => {
                Failure::new(ErrorKind::Busy, "too many requests wait").remedy("try again")
            }
            TrySendError::Disconnected(_) => ended(),
        })?;
        answer.await.map_err(|_gone| ended())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::Level;

    #[tokio::test]
    async fn one_thread_does_all_of_it() {
        let desk = Desk::new("desk", &Log::to_stderr(Level::Error));
        let first = desk.has_done(|| thread::current().id()).await.unwrap();
        let given_up = desk.has_done(|| unreachable!("nobody waits for it"));
        let (release, held) = std::sync::mpsc::channel::<()>();
        let long = desk.has_done(move || held.recv());
        let (long, ()) = tokio::join!(long, async {
            // Queued behind the long one, and given up before that has ended.
            drop(tokio::time::timeout(std::time::Duration::ZERO, given_up).await);
            drop(release);
        });
        assert!(long.unwrap().is_err());
        assert_eq!(
            desk.has_done(|| thread::current().id()).await.unwrap(),
            first
        );
    }

    #[tokio::test]
    async fn without_a_thread_it_is_busy() {
        let refused = Desk(None).has_done(|| ()).await.unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Busy);
    }
}
