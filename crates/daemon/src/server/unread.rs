//! Answers that wait for their readers: how much of them one user may have, and all.
//!
//! A connection may take an hour to read an answer, a byte at a time, and a matrix has 18 MiB. So
//! an answer that is not short is counted until it is given to the socket, and the next is refused
//! where there is no room.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use axum::body::{Bytes, HttpBody};
use hyper::body::{Frame, SizeHint};

/// What is not longer is not counted: all connections together have 6 MiB of such. It is also how
/// much is given to the socket at once.
pub(super) const SHORT: usize = 64 << 10;

/// Most bytes. An answer that is longer may be the only one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Most {
    /// Of one user.
    pub(super) user: usize,
    /// Of all users, and of all admins.
    pub(super) lane: usize,
}

/// Bytes of each user; those of admins are together, under none.
#[derive(Debug, Default)]
pub(super) struct Unread(Mutex<BTreeMap<Option<u32>, usize>>);

/// Counts until it is dropped.
#[derive(Debug)]
struct Weight {
    unread: Arc<Unread>,
    whose: Option<u32>,
    bytes: usize,
}

impl Unread {
    /// An answer that counts as long as something of it is left; none where there is no room.
    pub(super) fn hold(
        self: &Arc<Self>,
        whose: Option<u32>,
        bytes: Bytes,
        most: Most,
    ) -> Option<Held> {
        let mut held = self.locked();
        let own = held.get(&whose).copied().unwrap_or_default();
        let lane = held
            .iter()
            .filter(|(of, _)| of.is_some() == whose.is_some());
        let lane: usize = lane.map(|(_, bytes)| bytes).sum();
        let fits = |others: usize, most| others == 0 || others.saturating_add(bytes.len()) <= most;
        if !fits(lane, most.lane) || (whose.is_some() && !fits(own, most.user)) {
            return None;
        }
        held.insert(whose, own + bytes.len());
        let weight = Weight {
            unread: Arc::clone(self),
            whose,
            bytes: bytes.len(),
        };
        Some(Held {
            bytes,
            _weight: weight,
        })
    }

    fn locked(&self) -> MutexGuard<'_, BTreeMap<Option<u32>, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Weight {
    fn drop(&mut self) {
        let mut held = self.unread.locked();
        if let Some(own) = held.get_mut(&self.whose) {
            *own = own.saturating_sub(self.bytes);
        }
        held.retain(|_, bytes| *bytes > 0);
    }
}

/// An answer that is counted. It is given away in pieces, since the server copies a piece at once
/// and would have a copy of all of it.
#[derive(Debug)]
pub(super) struct Held {
    bytes: Bytes,
    _weight: Weight,
}

impl HttpBody for Held {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let length = self.bytes.len().min(SHORT);
        let piece = self.bytes.split_to(length);
        Poll::Ready((length > 0).then_some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(u64::try_from(self.bytes.len()).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hold(unread: &Arc<Unread>, uid: u32, bytes: usize) -> Option<Held> {
        let most = Most {
            user: 100,
            lane: 250,
        };
        unread.hold((uid > 0).then_some(uid), Bytes::from(vec![0; bytes]), most)
    }

    #[test]
    fn each_user_has_a_part_and_what_is_read_makes_room() {
        let unread = Arc::new(Unread::default());
        let first = hold(&unread, 7, 60).unwrap();
        assert!(hold(&unread, 7, 60).is_none());
        let second = hold(&unread, 8, 150).expect("the only one may be longer");
        assert!(hold(&unread, 8, 1).is_none());
        assert!(hold(&unread, 9, 50).is_none(), "all users together");
        let third = hold(&unread, 0, 240).unwrap();
        assert!(hold(&unread, 0, 20).is_none());
        drop((second, third));
        let more = hold(&unread, 7, 40).unwrap();
        drop((first, more));
        assert!(unread.locked().is_empty());
    }
}
