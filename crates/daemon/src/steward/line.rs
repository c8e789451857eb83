//! The line between the server and the engine thread: a bounded channel of work, each with a reply,
//! and a bell, so that the thread can wait for work and for samples at the same time.

use std::fmt;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, TrySendError, sync_channel};
use std::time::Duration;

use control::rows::UndoReport;
use control::{ErrorKind, Failure};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use numad_core::Time;
use tokio::sync::oneshot;

use super::Steward;
use crate::notify::Notifier;

/// Orders that wait at most; each connection has at most one.
const WAITING_MAX: usize = 1024;

/// How long the thread rests when the kernel does not let it wait.
const POLL_REST: Duration = Duration::from_millis(100);

/// Something for the engine thread to do.
enum Order {
    Work(Box<dyn FnOnce(&mut Steward) + Send>),
    Stop(oneshot::Sender<UndoReport>),
}

/// The server's end. The engine thread ends when the last copy is gone.
#[derive(Clone)]
pub struct Line {
    // Before the ringer: fields are dropped in order, so the last one hangs up, then rings.
    sender: SyncSender<Order>,
    ringer: Ringer,
}

/// Rings when dropped, so that the engine thread notices who hangs up.
#[derive(Clone)]
struct Ringer(Arc<Bell>);

impl Drop for Ringer {
    fn drop(&mut self) {
        self.0.ring();
    }
}

/// The engine thread's end.
pub struct Orders {
    receiver: Receiver<Order>,
    bell: Arc<Bell>,
}

/// Wakes the engine thread.
struct Bell(EventFd);

/// A new line.
///
/// # Errors
/// When the process is out of file descriptors.
pub fn line() -> io::Result<(Line, Orders)> {
    let (sender, receiver) = sync_channel(WAITING_MAX);
    let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
    let bell = Arc::new(Bell(EventFd::from_flags(flags)?));
    let ringer = Ringer(Arc::clone(&bell));
    Ok((Line { sender, ringer }, Orders { receiver, bell }))
}

impl Bell {
    fn ring(&self) {
        // It fails only when it has rung 2^64 times and nobody heard; then it still rings.
        let _rung = self.0.write(1);
    }

    fn silence(&self) {
        // It fails only when it was not rung.
        let _rung = self.0.read();
    }
}

impl fmt::Debug for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Line")
    }
}

impl fmt::Debug for Orders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Orders")
    }
}

impl Line {
    /// Has the engine thread do something and gives its answer.
    ///
    /// What nobody waits for any more when its turn comes is not begun; what is begun is finished.
    ///
    /// # Errors
    /// What `work` fails with; `Busy` when too much waits; `Internal` when the thread has ended.
    pub async fn ask<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Steward) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let (reply, answer) = oneshot::channel();
        self.send(Order::Work(Box::new(move |steward| {
            if reply.is_closed() {
                return;
            }
            // The one who asked may have gone meanwhile.
            drop(reply.send(work(steward)));
        })))?;
        answer.await.unwrap_or_else(|_gone| Err(ended()))
    }

    /// Has the engine thread put everything back and end.
    ///
    /// # Errors
    /// As [`Self::ask`].
    pub async fn stop(&self) -> Result<UndoReport, Failure> {
        let (reply, answer) = oneshot::channel();
        self.send(Order::Stop(reply))?;
        answer.await.map_err(|_gone| ended())
    }

    fn send(&self, order: Order) -> Result<(), Failure> {
        let sent = self.sender.try_send(order);
        self.ringer.0.ring();
        sent.map_err(|error| match error {
            TrySendError::Full(_) => {
                Failure::new(ErrorKind::Busy, "too many requests wait").remedy("try again")
            }
            TrySendError::Disconnected(_) => ended(),
        })
    }
}

fn ended() -> Failure {
    Failure::new(ErrorKind::Internal, "the engine thread has ended")
}

impl Orders {
    /// The engine thread: works through orders and whatever becomes due, until told to stop or
    /// nobody is left to tell it. Then everything is put back.
    pub fn work(&self, steward: &mut Steward, notifier: &Notifier) {
        let mut pulse = Pulse::new(notifier, steward.now());
        loop {
            let now = steward.now();
            pulse.beat(steward, now);
            match self.receiver.try_recv() {
                Ok(Order::Work(work)) => work(steward),
                Ok(Order::Stop(reply)) => {
                    // Whether anyone still listens or not, it is done.
                    drop(reply.send(steward.stop()));
                    return;
                }
                Err(TryRecvError::Disconnected) => {
                    steward.stop();
                    return;
                }
                Err(TryRecvError::Empty) => {
                    let wait = [steward.wait(now), pulse.wait(now)]
                        .into_iter()
                        .flatten()
                        .min();
                    if self.sleep(wait, steward) {
                        steward.samples_wait();
                    }
                }
            }
            steward.turn();
        }
    }

    /// Sleeps until the bell rings, samples wait, or the time is over. True for samples.
    fn sleep(&self, wait: Option<Duration>, steward: &Steward) -> bool {
        let timeout = wait.map_or(PollTimeout::NONE, |wait| {
            // Rounded up, or the last fraction of a millisecond would be spent spinning.
            let wait = wait.saturating_add(Duration::from_nanos(999_999));
            PollTimeout::try_from(wait.as_millis()).unwrap_or(PollTimeout::MAX)
        });
        let mut waiting = vec![PollFd::new(self.bell.0.as_fd(), PollFlags::POLLIN)];
        waiting.extend(
            steward
                .source_fd()
                .map(|fd| PollFd::new(fd, PollFlags::POLLIN)),
        );
        match poll(&mut waiting, timeout) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => {
                steward
                    .log()
                    .error(format_args!("cannot wait for work: {}", errno.desc()));
                // Not in a circle as fast as it goes.
                std::thread::sleep(wait.unwrap_or(POLL_REST).min(POLL_REST));
            }
        }
        let ready = |fd: Option<&PollFd<'_>>| fd.and_then(PollFd::any).unwrap_or(false);
        if ready(waiting.first()) {
            self.bell.silence();
        }
        ready(waiting.get(1))
    }
}

/// The watchdog's messages. They come from the engine thread, since it is the one that must not hang.
struct Pulse<'a> {
    notifier: &'a Notifier,
    every: Option<Duration>,
    next: Time,
}

impl<'a> Pulse<'a> {
    fn new(notifier: &'a Notifier, now: Time) -> Self {
        Self {
            notifier,
            every: notifier.heartbeat(),
            next: now,
        }
    }

    fn beat(&mut self, steward: &Steward, now: Time) {
        let Some(every) = self.every.filter(|_| now >= self.next) else {
            return;
        };
        self.next = now.after(every);
        if let Err(error) = self.notifier.alive() {
            steward
                .log()
                .debug(format_args!("the service manager was not reached: {error}"));
        }
    }

    fn wait(&self, now: Time) -> Option<Duration> {
        self.every.map(|_| self.next.since(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{Settings, World};

    #[test]
    fn the_thread_ends_when_nobody_is_left() {
        let (line, orders) = line().unwrap();
        let settings = Settings::new("line", "");
        let (mut steward, _gate) = World::new().steward(&settings);
        let thread = std::thread::spawn(move || orders.work(&mut steward, &Notifier::default()));
        let copy = line.clone();
        drop(line);
        drop(copy);
        thread.join().unwrap();
    }

    #[tokio::test]
    async fn what_nobody_waits_for_is_not_begun() {
        let (line, orders) = line().unwrap();
        let settings = Settings::new("line-gone", "");
        let (mut steward, _gate) = World::new().steward(&settings);
        let (sender, told) = std::sync::mpsc::channel();
        let given_up = line.ask(move |_| {
            let _told = sender.send(());
            Ok(())
        });
        tokio::time::timeout(Duration::ZERO, given_up)
            .await
            .unwrap_err();
        let thread = std::thread::spawn(move || orders.work(&mut steward, &Notifier::default()));
        assert_eq!(line.ask(|_| Ok(7)).await, Ok(7));
        assert!(told.try_recv().is_err());
        line.stop().await.unwrap();
        thread.join().unwrap();
        assert_eq!(
            line.ask(|_| Ok(7)).await.unwrap_err().kind,
            ErrorKind::Internal
        );
    }
}
