//! Tells the service manager how we are (`sd_notify(3)`), without its library.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Arc;
use std::time::{Duration, Instant};

use numad_core::Time;

use crate::log::Log;

/// Speaks to the service manager, or to nobody when none asked.
#[derive(Clone, Debug, Default)]
pub struct Notifier {
    socket: Option<Arc<UnixDatagram>>,
    watchdog: Option<Duration>,
}

impl Notifier {
    /// Speaks to the socket that `NOTIFY_SOCKET` names, a path or `@` and an abstract name.
    ///
    /// # Errors
    /// When the variable names a socket that cannot be reached.
    pub fn from_environment() -> io::Result<Self> {
        let Some(name) = std::env::var_os("NOTIFY_SOCKET").filter(|name| !name.is_empty()) else {
            return Ok(Self::default());
        };
        let watchdog = std::env::var("WATCHDOG_USEC").ok();
        let for_whom = std::env::var("WATCHDOG_PID").ok();
        let period = watchdog_period(watchdog.as_deref(), for_whom.as_deref());
        Self::connect(name.as_bytes(), period)
    }

    fn connect(name: &[u8], watchdog: Option<Duration>) -> io::Result<Self> {
        let address = match name {
            [b'@', rest @ ..] => SocketAddr::from_abstract_name(rest)?,
            path => SocketAddr::from_pathname(std::ffi::OsStr::from_bytes(path))?,
        };
        let socket = UnixDatagram::unbound()?;
        socket.connect_addr(&address)?;
        // A manager that does not read must not stop us.
        socket.set_nonblocking(true)?;
        Ok(Self {
            socket: Some(Arc::new(socket)),
            watchdog,
        })
    }

    /// How often the manager wants to hear [`Self::alive`]; none when it does not watch.
    ///
    /// Half of what it allows, as `sd_watchdog_enabled(3)` advises.
    #[must_use]
    pub fn heartbeat(&self) -> Option<Duration> {
        self.watchdog.map(|allowed| allowed / 2)
    }

    /// We serve.
    ///
    /// # Errors
    /// As all of these: when the manager's socket does not take the message.
    pub fn ready(&self, status: &str) -> io::Result<()> {
        self.send(&format!("READY=1\nSTATUS={status}\n"))
    }

    /// The engine thread still runs.
    ///
    /// # Errors
    /// As [`Self::ready`].
    pub fn alive(&self) -> io::Result<()> {
        self.send("WATCHDOG=1\n")
    }

    /// We read the settings again; [`Self::ready`] ends it.
    ///
    /// # Errors
    /// As [`Self::ready`].
    pub fn reloading(&self, now: Time) -> io::Result<()> {
        self.send(&format!("RELOADING=1\nMONOTONIC_USEC={}\n", now.0 / 1000))
    }

    /// We put everything back and end.
    ///
    /// # Errors
    /// As [`Self::ready`].
    pub fn stopping(&self) -> io::Result<()> {
        self.send("STOPPING=1\n")
    }

    /// What we do now may take so much longer.
    ///
    /// # Errors
    /// As [`Self::ready`].
    fn extend(&self, by: Duration) -> io::Result<()> {
        self.send(&format!("EXTEND_TIMEOUT_USEC={}\n", by.as_micros()))
    }

    fn send(&self, message: &str) -> io::Result<()> {
        match &self.socket {
            Some(socket) => socket.send(message.as_bytes()).map(|_| ()),
            None => Ok(()),
        }
    }
}

/// How much time is asked for each time, and how often.
const EXTENSION: Duration = Duration::from_secs(30);
const EXTENSION_EVERY: Duration = Duration::from_secs(5);

/// Asks the service manager for more time while an undo goes on: what `TimeoutStopSec=` allows is enough for threads,
/// but not for the pages of large programs.
#[derive(Debug)]
pub struct Patience {
    notifier: Notifier,
    next: Instant,
}

impl Patience {
    /// Nothing is asked for yet.
    #[must_use]
    pub fn of(notifier: &Notifier) -> Self {
        Self {
            notifier: notifier.clone(),
            next: Instant::now(),
        }
    }

    /// Asks again, if the last time was a while ago.
    ///
    /// # Errors
    /// As [`Notifier::ready`].
    pub fn ask(&mut self) -> io::Result<()> {
        let now = Instant::now();
        if now < self.next {
            return Ok(());
        }
        self.next = now + EXTENSION_EVERY;
        self.notifier.extend(EXTENSION)
    }
}

/// What became of a message that nothing depends on.
pub fn told(log: &Log, sent: io::Result<()>) {
    if let Err(error) = sent {
        log.debug(format_args!("the service manager was not reached: {error}"));
    }
}

/// Microseconds as text, if they are meant for this process.
fn watchdog_period(microseconds: Option<&str>, for_whom: Option<&str>) -> Option<Duration> {
    let own = std::process::id();
    if for_whom.is_some_and(|pid| pid.parse() != Ok(own)) {
        return None;
    }
    let microseconds: u64 = microseconds?.parse().ok()?;
    (microseconds > 0).then(|| Duration::from_micros(microseconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(socket: &UnixDatagram) -> String {
        let mut buffer = [0; 256];
        let length = socket.recv(&mut buffer).unwrap();
        String::from_utf8(buffer[..length].to_vec()).unwrap()
    }

    #[test]
    fn an_abstract_socket_hears_each_message() {
        let name = format!("numad-notify-test-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let manager = UnixDatagram::bind_addr(&address).unwrap();
        let name = format!("@{name}");
        let notifier = Notifier::connect(name.as_bytes(), Some(Duration::from_secs(20))).unwrap();
        assert_eq!(notifier.heartbeat(), Some(Duration::from_secs(10)));
        notifier.ready("serving").unwrap();
        assert_eq!(heard(&manager), "READY=1\nSTATUS=serving\n");
        notifier.reloading(Time(5_000)).unwrap();
        assert_eq!(heard(&manager), "RELOADING=1\nMONOTONIC_USEC=5\n");
        notifier.alive().unwrap();
        assert_eq!(heard(&manager), "WATCHDOG=1\n");
        notifier.stopping().unwrap();
        assert_eq!(heard(&manager), "STOPPING=1\n");
        let mut patience = Patience::of(&notifier);
        patience.ask().unwrap();
        patience.ask().unwrap();
        notifier.alive().unwrap();
        assert_eq!(heard(&manager), "EXTEND_TIMEOUT_USEC=30000000\n");
        assert_eq!(heard(&manager), "WATCHDOG=1\n", "not in every breath");
    }

    #[test]
    fn nobody_asked_is_no_error() {
        let notifier = Notifier::default();
        notifier.ready("serving").unwrap();
        assert_eq!(notifier.heartbeat(), None);
        Notifier::connect(b"/nowhere/at/all", None).unwrap_err();
    }

    #[track_caller]
    fn check(microseconds: Option<&str>, for_whom: Option<&str>, expected: Option<u64>) {
        let period = watchdog_period(microseconds, for_whom);
        assert_eq!(period, expected.map(Duration::from_micros));
    }

    #[test]
    fn the_watchdog_is_only_for_the_process_it_names() {
        let own = std::process::id().to_string();
        check(Some("30000000"), None, Some(30_000_000));
        check(Some("30000000"), Some(&own), Some(30_000_000));
        check(Some("30000000"), Some("1"), None);
        check(Some("0"), None, None);
        check(Some("soon"), None, None);
        check(None, None, None);
    }
}
