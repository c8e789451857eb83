//! Waiting for a child or a moment, while Ctrl-C, SIGTERM and a hang-up end the wait in good order.

use std::io;
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

use control::{ErrorKind, Failure};
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Signals with which people end a command.
pub(crate) struct Interrupts {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl Interrupts {
    /// Listens from now on; needs the event loop around it.
    pub(crate) fn new() -> Result<Self, Failure> {
        Ok(Self {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
            hangup: listen(SignalKind::hangup())?,
        })
    }

    /// The next of them.
    pub(crate) async fn next(&mut self) {
        self.next_signal().await;
    }

    async fn next_signal(&mut self) -> nix::sys::signal::Signal {
        use nix::sys::signal::Signal;
        tokio::select! {
            _ = self.interrupt.recv() => Signal::SIGINT,
            _ = self.terminate.recv() => Signal::SIGTERM,
            _ = self.hangup.recv() => Signal::SIGHUP,
        }
    }
}

/// What ended a wait.
#[derive(Debug)]
pub(crate) enum Woken {
    /// The child ended.
    Ended(ExitStatus),
    /// The time is over.
    Late,
    /// Someone wants to wait no longer, and said so by this signal.
    Interrupted(nix::sys::signal::Signal),
}

/// Waits.
pub(crate) struct Waiting<'a> {
    runtime: &'a Runtime,
    interrupts: Interrupts,
    children: Signal,
    /// The last signal with which someone wanted to wait no longer.
    interrupted: Option<nix::sys::signal::Signal>,
}

impl std::fmt::Debug for Waiting<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Waiting")
            .field("interrupted", &self.interrupted)
            .finish_non_exhaustive()
    }
}

impl<'a> Waiting<'a> {
    /// Takes signals over from now on.
    pub(crate) fn new(runtime: &'a Runtime) -> Result<Self, Failure> {
        runtime.block_on(async {
            Ok(Self {
                runtime,
                interrupts: Interrupts::new()?,
                children: listen(SignalKind::child())?,
                interrupted: None,
            })
        })
    }

    /// Waits for a child, at most so long.
    ///
    /// # Errors
    /// When the kernel does not tell of the child.
    pub(crate) fn child(
        &mut self,
        child: &mut Child,
        limit: Option<Duration>,
    ) -> Result<Woken, Failure> {
        let until = limit.map(|limit| Instant::now() + limit);
        loop {
            if let Some(status) = child.try_wait().map_err(|error| lost(&error))? {
                return Ok(Woken::Ended(status));
            }
            let left = until.map_or(Duration::from_secs(3600), |until| {
                until.saturating_duration_since(Instant::now())
            });
            if left.is_zero() {
                return Ok(Woken::Late);
            }
            let (interrupts, children) = (&mut self.interrupts, &mut self.children);
            let interrupted = self.runtime.block_on(async {
                tokio::select! {
                    _ = children.recv() => None,
                    () = tokio::time::sleep(left) => None,
                    signal = interrupts.next_signal() => Some(signal),
                }
            });
            if let Some(signal) = interrupted {
                self.interrupted = Some(signal);
                return Ok(Woken::Interrupted(signal));
            }
        }
    }

    /// Waits for something else; none when someone wants to wait no longer.
    pub(crate) fn unless<T>(&mut self, what: impl Future<Output = T>) -> Option<T> {
        let interrupts = &mut self.interrupts;
        let done = self.runtime.block_on(async {
            tokio::select! {
                done = what => Ok(done),
                signal = interrupts.next_signal() => Err(signal),
            }
        });
        self.interrupted = done.as_ref().err().copied().or(self.interrupted);
        done.ok()
    }

    /// Until someone wants to wait no longer, or some child has stirred; for waits of other kinds.
    pub(crate) async fn stirred(&mut self) {
        tokio::select! {
            signal = self.interrupts.next_signal() => self.interrupted = Some(signal),
            _ = self.children.recv() => {}
        }
    }

    /// The last signal with which someone wanted to wait no longer, of those that were waited for.
    pub(crate) const fn signal(&self) -> Option<nix::sys::signal::Signal> {
        self.interrupted
    }

    /// Waits until then; false when someone wants to wait no longer.
    pub(crate) fn until(&mut self, then: Instant) -> bool {
        let interrupts = &mut self.interrupts;
        let signal = self.runtime.block_on(async {
            tokio::select! {
                () = tokio::time::sleep_until(then.into()) => None,
                signal = interrupts.next_signal() => Some(signal),
            }
        });
        self.interrupted = signal.or(self.interrupted);
        signal.is_none()
    }

    /// Whether someone wanted to wait no longer, at any time so far.
    pub(crate) fn interrupted(&mut self) -> bool {
        // A signal that came while nobody waited is only seen by looking.
        self.interrupted.is_some() || !self.until(Instant::now() + Duration::from_millis(1))
    }
}

fn listen(kind: SignalKind) -> Result<Signal, Failure> {
    signal(kind).map_err(|error| {
        Failure::new(
            ErrorKind::Kernel,
            format!("cannot listen to signals: {error}"),
        )
    })
}

fn lost(error: &io::Error) -> Failure {
    Failure::new(
        ErrorKind::Kernel,
        format!("cannot wait for a child: {error}"),
    )
}
