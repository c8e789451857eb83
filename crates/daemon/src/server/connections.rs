//! Who is connected: a bounded number, so that nobody can keep others out.
//!
//! A connection that waits for its client holds a seat only until someone else needs it: then the
//! one that has been silent longest is closed. A connection whose request is being answered keeps
//! its seat. One user other than an admin has at most half of the seats.

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

/// One connection's seat.
#[derive(Debug)]
pub(crate) struct Seat {
    peer: Peer,
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
    /// Takes a seat among at most `most`; none when all are being answered.
    pub(crate) fn admit(self: &Arc<Self>, peer: Peer, most: usize) -> Option<Seated> {
        let number = self.tick();
        let mut seats = self.seats();
        let own = seats
            .values()
            .filter(|seat| seat.peer.uid == peer.uid)
            .count();
        let own_most = if peer.admin { most } else { (most / 2).max(1) };
        if own >= own_most {
            self.make_room(&mut seats, |seat| seat.peer.uid == peer.uid)?;
        } else if seats.len() >= most {
            self.make_room(&mut seats, |_| true)?;
        }
        let seat = Arc::new(Seat {
            peer,
            seen: AtomicU64::new(number),
            answering: AtomicU32::new(0),
            leave: Notify::new(),
        });
        seats.insert(number, Arc::clone(&seat));
        Some(Seated {
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
        admin: false,
    };

    fn is_sent_away(seated: &Seated) -> bool {
        !seated.connections.seats().contains_key(&seated.number)
    }

    #[test]
    fn the_longest_silent_one_makes_room() {
        let connections = Arc::new(Connections::default());
        let first = connections.admit(ROOT, 2).unwrap();
        let second = connections.admit(ROOT, 2).unwrap();
        first.heard();
        let _third = connections.admit(ROOT, 2).unwrap();
        assert!(is_sent_away(&second) && !is_sent_away(&first));
        assert_eq!(connections.turned_away(), (1, 0));
    }

    #[test]
    fn one_that_is_answered_keeps_its_seat() {
        let connections = Arc::new(Connections::default());
        let only = Arc::new(connections.admit(ROOT, 1).unwrap());
        let (answering, streaming) = (only.answering(), only.answering());
        assert!(connections.admit(ROOT, 1).is_none());
        drop(answering);
        assert!(only.is_answering() && connections.admit(ROOT, 1).is_none());
        drop(streaming);
        assert!(!only.is_answering() && connections.admit(ROOT, 1).is_some());
        assert_eq!(connections.turned_away(), (1, 2));
    }

    #[test]
    fn one_user_has_half_of_the_seats() {
        let connections = Arc::new(Connections::default());
        let root = connections.admit(ROOT, 4).unwrap();
        let users: Vec<Seated> = (0..3)
            .map(|_| connections.admit(USER, 4).unwrap())
            .collect();
        assert!(
            is_sent_away(&users[0]),
            "the third of a user sends away its first"
        );
        assert!(!is_sent_away(&root));
        drop(users);
        assert_eq!(connections.seats().len(), 1);
    }
}
