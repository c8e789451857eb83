//! Who is connected: a bounded number, so that nobody can keep others out.
//!
//! A connection that waits for its client holds a seat only until someone else needs it: then the
//! one that has been silent longest is closed. A connection whose request is being answered keeps
//! its seat. Admins have seats of their own, which users cannot take; one user has a part of the rest.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::peer::Peer;

/// The seats of one server.
#[derive(Debug, Default)]
pub(crate) struct Connections {
    seats: Mutex<BTreeMap<u64, Arc<Seat>>>,
    next: AtomicU64,
    evicted: AtomicU64,
    refused: AtomicU64,
}

/// Most seats.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Most {
    /// Of all users.
    pub(crate) users: usize,
    /// Of one of them.
    pub(crate) user: usize,
    /// Of all admins.
    pub(crate) admins: usize,
}

/// Which limit was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Crowd {
    /// All users together.
    Users,
    /// The one who asks.
    User,
    /// All admins together.
    Admins,
}

impl Crowd {
    /// The setting that holds the limit.
    pub(crate) const fn setting(self) -> &'static str {
        match self {
            Self::Users => "daemon.connections_max",
            Self::User => "limits.user_connections_max",
            Self::Admins => "limits.admin_connections_max",
        }
    }
}

/// One connection's seat.
#[derive(Debug)]
pub(crate) struct Seat {
    peer: Peer,
    /// Whose connection it counts as.
    payer: u32,
    /// Counts up with each byte seen anywhere, so the lowest was silent longest.
    seen: AtomicU64,
    /// What holds the seat: a request, and an answer that is still on its way.
    answering: AtomicU32,
    leave: Notify,
}

/// Holds a seat, and gives it back.
#[derive(Debug)]
pub(crate) struct Seated {
    connections: Arc<Connections>,
    number: u64,
    seat: Arc<Seat>,
}

impl Connections {
    /// Takes a seat, if that is possible within these limits without taking one from a connection that
    /// is being answered.
    ///
    /// # Errors
    /// The limit that was reached.
    pub(crate) fn admit(
        self: &Arc<Self>,
        peer: Peer,
        payer: u32,
        most: Most,
    ) -> Result<Seated, Crowd> {
        let number = self.tick();
        let mut seats = self.seats();
        let count = |of: &dyn Fn(&Seat) -> bool| seats.values().filter(|seat| of(seat)).count();
        let lane = |seat: &Seat| seat.peer.admin == peer.admin;
        let own = |seat: &Seat| lane(seat) && seat.payer == payer;
        if peer.admin {
            if count(&lane) >= most.admins {
                self.make_room(&mut seats, lane).ok_or(Crowd::Admins)?;
            }
        } else if count(&own) >= most.user.min((most.users / 2).max(1)) {
            self.make_room(&mut seats, own).ok_or(Crowd::User)?;
        } else if count(&lane) >= most.users {
            self.make_room(&mut seats, lane).ok_or(Crowd::Users)?;
        }
        let seat = Arc::new(Seat {
            peer,
            payer,
            seen: AtomicU64::new(number),
            answering: AtomicU32::new(0),
            leave: Notify::new(),
        });
        seats.insert(number, Arc::clone(&seat));
        Ok(Seated {
            connections: Arc::clone(self),
            number,
            seat,
        })
    }

    /// How many connections were closed to make room, and how many were refused.
    pub(crate) fn turned_away(&self) -> (u64, u64) {
        let evicted = self.evicted.load(Ordering::Relaxed);
        (evicted, self.refused.load(Ordering::Relaxed))
    }

    /// Asks the one of these that was silent longest to leave; none if all are being answered.
    fn make_room(
        &self,
        seats: &mut BTreeMap<u64, Arc<Seat>>,
        among: impl Fn(&Seat) -> bool,
    ) -> Option<()> {
        let silent = seats
            .iter()
            .filter(|(_, seat)| among(seat) && seat.answering.load(Ordering::Relaxed) == 0)
            .min_by_key(|(_, seat)| seat.seen.load(Ordering::Relaxed))
            .map(|(&number, _)| number);
        let Some(seat) = silent.and_then(|number| seats.remove(&number)) else {
            self.refused.fetch_add(1, Ordering::Relaxed);
            return None;
        };
        seat.leave.notify_one();
        self.evicted.fetch_add(1, Ordering::Relaxed);
        Some(())
    }

    fn tick(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    fn seats(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Seat>>> {
        // Nothing in here leaves the map half changed, so a poisoned one is as good as any.
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seated {
    /// Who sits here.
    pub(crate) fn peer(&self) -> Peer {
        self.seat.peer
    }

    /// The other end was heard, or took something.
    pub(crate) fn heard(&self) {
        self.seat
            .seen
            .store(self.connections.tick(), Ordering::Relaxed);
    }

    /// A request is being answered until what is returned is dropped.
    pub(crate) fn answering(self: &Arc<Self>) -> Answering {
        self.seat.answering.fetch_add(1, Ordering::Relaxed);
        Answering(Arc::clone(self))
    }

    /// Whether a request is being answered.
    pub(crate) fn is_answering(&self) -> bool {
        self.seat.answering.load(Ordering::Relaxed) > 0
    }

    /// Ends when the seat is needed for someone else.
    pub(crate) async fn wanted_back(&self) {
        self.seat.leave.notified().await;
    }
}

impl Drop for Seated {
    fn drop(&mut self) {
        self.connections.seats().remove(&self.number);
    }
}

/// While this is held the connection keeps its seat.
#[derive(Debug)]
pub(crate) struct Answering(Arc<Seated>);

impl Drop for Answering {
    fn drop(&mut self) {
        self.0.heard();
        self.0.seat.answering.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: Peer = Peer::DAEMON;
    const USER: Peer = Peer {
        uid: 7,
        gid: 7,
        admin: false,
    };

    fn is_sent_away(seated: &Seated) -> bool {
        !seated.connections.seats().contains_key(&seated.number)
    }

    const fn most(users: usize, user: usize, admins: usize) -> Most {
        Most {
            users,
            user,
            admins,
        }
    }

    #[test]
    fn the_longest_silent_one_makes_room() {
        let connections = Arc::new(Connections::default());
        let two = most(1, 1, 2);
        let first = connections.admit(ROOT, ROOT.uid, two).unwrap();
        let second = connections.admit(ROOT, ROOT.uid, two).unwrap();
        first.heard();
        let _third = connections.admit(ROOT, ROOT.uid, two).unwrap();
        assert!(is_sent_away(&second) && !is_sent_away(&first));
        assert_eq!(connections.turned_away(), (1, 0));
    }

    #[test]
    fn one_that_is_answered_keeps_its_seat() {
        let connections = Arc::new(Connections::default());
        let one = most(1, 1, 1);
        let only = Arc::new(connections.admit(ROOT, ROOT.uid, one).unwrap());
        let (answering, streaming) = (only.answering(), only.answering());
        assert_eq!(
            connections.admit(ROOT, ROOT.uid, one).unwrap_err(),
            Crowd::Admins
        );
        drop(answering);
        assert!(only.is_answering() && connections.admit(ROOT, ROOT.uid, one).is_err());
        drop(streaming);
        assert!(!only.is_answering() && connections.admit(ROOT, ROOT.uid, one).is_ok());
        assert_eq!(connections.turned_away(), (1, 2));
    }

    #[test]
    fn one_user_has_a_part_of_the_seats() {
        let connections = Arc::new(Connections::default());
        let root = connections.admit(ROOT, ROOT.uid, most(4, 9, 1)).unwrap();
        let users: Vec<Seated> = (0..3)
            .map(|_| connections.admit(USER, USER.uid, most(4, 9, 1)).unwrap())
            .collect();
        assert!(
            is_sent_away(&users[0]),
            "the third of a user sends away its first"
        );
        assert!(!is_sent_away(&root));
        let more = connections.admit(USER, USER.uid, most(4, 1, 1)).unwrap();
        assert!(is_sent_away(&users[1]) || is_sent_away(&users[2]));
        drop((users, more));
        assert_eq!(connections.seats().len(), 1);
    }

    #[test]
    fn users_of_one_payer_have_a_part_together() {
        let connections = Arc::new(Connections::default());
        let two = most(8, 2, 1);
        let mut seated = Vec::new();
        for uid in [100_001, 100_002, 100_003] {
            let peer = Peer { uid, ..USER };
            seated.push(connections.admit(peer, 7, two).unwrap());
        }
        assert!(is_sent_away(&seated[0]));
        connections.admit(USER, 7, two).unwrap();
        assert!(is_sent_away(&seated[1]));
    }

    #[test]
    fn users_never_take_the_seats_of_admins() {
        let connections = Arc::new(Connections::default());
        let limits = most(4, 2, 1);
        let mut crowd = Vec::new();
        for uid in 1..=4 {
            let peer = Peer { uid, ..USER };
            let seated = Arc::new(connections.admit(peer, peer.uid, limits).unwrap());
            crowd.push(seated.answering());
        }
        let fifth = Peer { uid: 5, ..USER };
        assert_eq!(
            connections.admit(fifth, fifth.uid, limits).unwrap_err(),
            Crowd::Users
        );
        let first = Peer { uid: 1, ..USER };
        assert_eq!(
            connections.admit(first, first.uid, limits).unwrap_err(),
            Crowd::Users
        );
        connections.admit(ROOT, ROOT.uid, limits).unwrap();
        // Nor admins those of users.
        let _root = connections.admit(ROOT, ROOT.uid, limits).unwrap();
        assert_eq!(crowd.len(), 4);
    }
}
