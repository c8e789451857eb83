//! The line between the server and the engine thread: a bounded channel of work, each with a reply,
//! and a bell, so that the thread can wait for work and for samples at the same time.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::os::fd::AsFd;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use control::rows::UndoReport;
use control::{ErrorKind, Failure};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use numad_core::Time;
use tokio::sync::{oneshot, watch};

use super::{Between, Steward, TIDY_EVERY};
use crate::notify::{self, Notifier, Patience};
use crate::peer::Peer;

/// Orders of each lane that wait at most; each connection has at most one.
const WAITING_MAX: usize = 1024;

/// Whose orders are done first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// Root, the admin group, and the daemon itself: before everyone else.
    Admins,
    /// Everyone else, one order between two looks at the other lane.
    Users,
}

impl Lane {
    /// The lane of someone who asks.
    #[must_use]
    pub const fn of(peer: Peer) -> Self {
        if peer.admin {
            Self::Admins
        } else {
            Self::Users
        }
    }
}

/// How long the thread rests when the kernel does not let it wait.
const POLL_REST: Duration = Duration::from_millis(100);

/// What the engine thread does for one who asks.
type Work = Box<dyn FnOnce(&mut Steward) + Send>;

/// Something for the engine thread to do.
enum Order {
    /// Changes nothing, and is done while an undo goes on too.
    Look(Work),
    Work(Work),
    Stop(oneshot::Sender<UndoReport>),
}

/// The server's end. The engine thread ends when the last copy is gone.
#[derive(Clone)]
pub struct Line {
    // Before the ringer: fields are dropped in order, so the last one hangs up, then rings.
    admins: SyncSender<Order>,
    users: SyncSender<Order>,
    /// Changes with all that happens to experiments.
    news: watch::Receiver<u64>,
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
    inbox: Arc<Mutex<Inbox>>,
    news: watch::Sender<u64>,
    bell: Arc<Bell>,
}

/// What was ordered. Behind a lock, though the engine thread alone takes from it: both its loop and
/// the undo that the loop is in do.
struct Inbox {
    admins: Receiver<Order>,
    users: Receiver<Order>,
    /// What came while an undo went on, and has to wait for its end.
    waiting: VecDeque<Order>,
}

impl Inbox {
    /// The next order: what waits longest, then admins', then users'.
    fn next(&mut self) -> Result<Order, TryRecvError> {
        match self.waiting.pop_front() {
            Some(order) => Ok(order),
            None => self.arriving(),
        }
    }

    fn arriving(&mut self) -> Result<Order, TryRecvError> {
        match self.admins.try_recv() {
            Err(TryRecvError::Empty) => self.users.try_recv(),
            first => first,
        }
    }

    /// The next order that changes nothing; what else arrives has to wait.
    fn next_look(&mut self) -> Option<Work> {
        while let Ok(order) = self.arriving() {
            match order {
                Order::Look(work) => return Some(work),
                order => self.waiting.push_back(order),
            }
        }
        None
    }
}

fn locked(inbox: &Mutex<Inbox>) -> MutexGuard<'_, Inbox> {
    inbox.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Wakes the engine thread.
struct Bell(EventFd);

/// A new line.
///
/// # Errors
/// When the process is out of file descriptors.
pub fn line() -> io::Result<(Line, Orders)> {
    let (to_admins, admins) = sync_channel(WAITING_MAX);
    let (to_users, users) = sync_channel(WAITING_MAX);
    let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
    let bell = Arc::new(Bell(EventFd::from_flags(flags)?));
    let ringer = Ringer(Arc::clone(&bell));
    let (told, news) = watch::channel(0);
    let line = Line {
        admins: to_admins,
        users: to_users,
        news,
        ringer,
    };
    let inbox = Arc::new(Mutex::new(Inbox {
        admins,
        users,
        waiting: VecDeque::new(),
    }));
    let orders = Orders {
        inbox,
        news: told,
        bell,
    };
    Ok((line, orders))
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
        lane: Lane,
        work: impl FnOnce(&mut Steward) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        self.answered(lane, Order::Work, work).await
    }

    /// The same for what changes nothing: it does not wait for the end of an undo.
    ///
    /// # Errors
    /// As [`Self::ask`].
    pub async fn look<T: Send + 'static>(
        &self,
        lane: Lane,
        work: impl FnOnce(&mut Steward) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        self.answered(lane, Order::Look, work).await
    }

    async fn answered<T: Send + 'static>(
        &self,
        lane: Lane,
        order: impl FnOnce(Work) -> Order,
        work: impl FnOnce(&mut Steward) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let (reply, answer) = oneshot::channel();
        let order = order(Box::new(move |steward| {
            if reply.is_closed() {
                return;
            }
            // The one who asked may have gone meanwhile.
            drop(reply.send(work(steward)));
        }));
        self.send(lane, order)?;
        answer.await.unwrap_or_else(|_gone| Err(ended()))
    }

    /// Has the engine thread put everything back and end.
    ///
    /// # Errors
    /// As [`Self::ask`].
    pub async fn stop(&self) -> Result<UndoReport, Failure> {
        let (reply, answer) = oneshot::channel();
        self.send(Lane::Admins, Order::Stop(reply))?;
        answer.await.map_err(|_gone| ended())
    }

    /// Changes with all that happens to experiments.
    #[must_use]
    pub fn news(&self) -> watch::Receiver<u64> {
        self.news.clone()
    }

    fn send(&self, lane: Lane, order: Order) -> Result<(), Failure> {
        let sent = match lane {
            Lane::Admins => self.admins.try_send(order),
            Lane::Users => self.users.try_send(order),
        };
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
        let mut idle = Idle::new(steward.now());
        steward.experiment_news(self.news.clone());
        steward.answer_between(self.between(notifier, steward.now()));
        loop {
            let now = steward.now();
            pulse.beat(steward, now);
            idle.tend(steward, now);
            let order = locked(&self.inbox).next();
            match order {
                Ok(Order::Work(work) | Order::Look(work)) => work(steward),
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
                    let wait = [steward.wait(now), pulse.wait(now), idle.wait(steward, now)];
                    let wait = wait.into_iter().flatten().min();
                    if self.sleep(wait, steward) {
                        steward.samples_wait();
                    }
                }
            }
            steward.turn();
        }
    }

    /// What is done again and again in the midst of long work: the service manager is told, and who
    /// only looks is answered.
    fn between(&self, notifier: &Notifier, now: Time) -> Between {
        let inbox = Arc::clone(&self.inbox);
        let mut pulse = Pulse::new(notifier, now);
        let mut patience = Patience::of(notifier);
        Box::new(move |steward| {
            let now = steward.now();
            pulse.beat(steward, now);
            notify::told(steward.log(), patience.ask());
            let look = locked(&inbox).next_look();
            if let Some(look) = look {
                look(steward);
            }
            !locked(&inbox).waiting.is_empty()
        })
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

/// Gives threads their own masks back that wait for them, while nothing is attached: with a source
/// open every turn of the steward sees to that.
struct Idle {
    next: Time,
}

impl Idle {
    fn new(now: Time) -> Self {
        Self {
            next: now.after(TIDY_EVERY),
        }
    }

    fn tend(&mut self, steward: &mut Steward, now: Time) {
        if now >= self.next {
            self.next = now.after(TIDY_EVERY);
            if Self::has_work(steward) {
                steward.parts.hand.tidy();
            }
        }
    }

    /// How long until it is tried again; none where nothing waits.
    fn wait(&self, steward: &Steward, now: Time) -> Option<Duration> {
        Self::has_work(steward).then(|| self.next.since(now))
    }

    fn has_work(steward: &Steward) -> bool {
        steward.source.is_none() && steward.parts.hand.waits()
    }
}

/// The watchdog's messages. They come from the engine thread, since it is the one that must not
/// hang.
struct Pulse {
    notifier: Notifier,
    every: Option<Duration>,
    next: Time,
}

impl Pulse {
    fn new(notifier: &Notifier, now: Time) -> Self {
        Self {
            notifier: notifier.clone(),
            every: notifier.heartbeat(),
            next: now,
        }
    }

    fn beat(&mut self, steward: &Steward, now: Time) {
        let Some(every) = self.every.filter(|_| now >= self.next) else {
            return;
        };
        self.next = now.after(every);
        notify::told(steward.log(), self.notifier.alive());
    }

    fn wait(&self, now: Time) -> Option<Duration> {
        self.every.map(|_| self.next.since(now))
    }
}

#[cfg(test)]
mod tests {
    use control::rows::UndoRequest;

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

    #[test]
    fn masks_that_wait_are_given_back_while_nothing_is_attached() {
        let settings = Settings::new("line-idle", "");
        let world = World::new();
        let (mut steward, _gate) = world.steward(&settings);
        let mut idle = Idle::new(steward.now());
        assert_eq!(idle.wait(&steward, steward.now()), None);
        world.state().waiting = 1;
        let wait = idle.wait(&steward, steward.now()).unwrap();
        assert!(wait <= TIDY_EVERY, "{wait:?}");
        let now = steward.now();
        idle.tend(&mut steward, now);
        assert_eq!(world.state().waiting, 1, "not yet");
        let later = now.after(wait);
        idle.tend(&mut steward, later);
        assert_eq!(world.state().waiting, 0);
        assert_eq!(idle.wait(&steward, later), None);
    }

    #[tokio::test]
    async fn admins_are_answered_before_users_who_came_first() {
        let (line, orders) = line().unwrap();
        let settings = Settings::new("line-lanes", "");
        let (mut steward, _gate) = World::new().steward(&settings);
        let (sender, told) = std::sync::mpsc::channel();
        let ask = |lane| {
            let (line, sender) = (line.clone(), sender.clone());
            tokio::spawn(async move {
                line.ask(lane, move |_| {
                    sender.send(lane).unwrap();
                    Ok(())
                })
                .await
            })
        };
        let asked: Vec<_> = [
            Lane::Users,
            Lane::Users,
            Lane::Admins,
            Lane::Users,
            Lane::Admins,
        ]
        .map(ask)
        .into();
        // All of them wait before the thread begins.
        tokio::task::yield_now().await;
        let thread = std::thread::spawn(move || orders.work(&mut steward, &Notifier::default()));
        for asked in asked {
            asked.await.unwrap().unwrap();
        }
        let order: Vec<Lane> = told.try_iter().collect();
        let (first, rest) = order.split_at(2);
        assert_eq!(first, [Lane::Admins; 2]);
        assert_eq!(rest, [Lane::Users; 3]);
        line.stop().await.unwrap();
        thread.join().unwrap();
    }

    #[tokio::test]
    async fn who_looks_is_answered_while_an_undo_goes_on_and_who_changes_waits() {
        let (line, orders) = line().unwrap();
        let settings = Settings::new("line-between", "");
        let (mut steward, _gate) = World::new().steward(&settings);
        let undo = UndoRequest {
            pid: Some(100),
            all: false,
        };
        let (sender, told) = std::sync::mpsc::channel();
        let (looked, changed) = (sender.clone(), sender.clone());
        let asking = line.clone();
        let all = tokio::spawn(async move {
            let undone = asking.ask(Lane::Admins, move |steward| {
                let report = steward.undo(Peer::DAEMON, &undo);
                sender.send("undone").unwrap();
                report
            });
            let change = asking.ask(Lane::Admins, move |_| {
                changed.send("changed").unwrap();
                Ok(())
            });
            let look = asking.look(Lane::Users, move |_| {
                looked.send("looked").unwrap();
                Ok(())
            });
            tokio::join!(undone, change, look)
        });
        // All of them wait before the thread begins.
        tokio::task::yield_now().await;
        let thread = std::thread::spawn(move || orders.work(&mut steward, &Notifier::default()));
        let (undone, change, look) = all.await.unwrap();
        assert!(undone.is_ok() && change.is_ok() && look.is_ok());
        let order: Vec<&str> = told.try_iter().collect();
        assert_eq!(order, ["looked", "undone", "changed"]);
        drop(line);
        thread.join().unwrap();
    }

    #[tokio::test]
    async fn what_nobody_waits_for_is_not_begun() {
        let (line, orders) = line().unwrap();
        let settings = Settings::new("line-gone", "");
        let (mut steward, _gate) = World::new().steward(&settings);
        let (sender, told) = std::sync::mpsc::channel();
        let given_up = line.ask(Lane::Users, move |_| {
            let _told = sender.send(());
            Ok(())
        });
        tokio::time::timeout(Duration::ZERO, given_up)
            .await
            .unwrap_err();
        let thread = std::thread::spawn(move || orders.work(&mut steward, &Notifier::default()));
        assert_eq!(line.ask(Lane::Admins, |_| Ok(7)).await, Ok(7));
        assert!(told.try_recv().is_err());
        line.stop().await.unwrap();
        thread.join().unwrap();
        assert_eq!(
            line.ask(Lane::Admins, |_| Ok(7)).await.unwrap_err().kind,
            ErrorKind::Internal
        );
    }
}
