//! What a collective call is taken to send: only the library knows what it does send. Each rank notes what itself sends.

use crate::counts::State;
use crate::real::Handle;
use crate::row::Note;

/// Where it goes to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Shape {
    /// From the root down a binomial tree.
    Down { root: i32 },
    /// Up that tree, to the root.
    Up { root: i32 },
    /// Pairs at growing distance, as all get the same.
    Pairs,
    /// To each other rank.
    Each,
    /// To the root alone.
    ToRoot { root: i32 },
    /// From the root to each other rank.
    FromRoot { root: i32 },
    /// To the next.
    Next,
}

impl State {
    /// Notes a collective call, of so many elements in each message.
    pub(crate) fn collective(
        &mut self,
        count: i64,
        kind: usize,
        comm: usize,
        shape: Shape,
    ) -> Option<()> {
        let (own, _) = self.place_in(comm)?;
        // Who sends nothing need not say what it would send, and MPI ends a program that asks about no type.
        let sends = match shape {
            Shape::ToRoot { root } => own != root,
            Shape::FromRoot { root } => own == root,
            _ => true,
        };
        let bytes = match sends {
            true => self.bytes(count, kind)?,
            false => 0,
        };
        self.each_message(comm, shape, |_| Some(bytes))
    }

    /// The same, with elements by rank.
    pub(crate) fn collective_by_rank(
        &mut self,
        counts: &[i32],
        kind: usize,
        comm: usize,
        shape: Shape,
    ) -> Option<()> {
        let size = self.bytes(1, kind)?;
        self.each_message(comm, shape, |to| {
            let count = u64::try_from(*counts.get(to)?).ok()?;
            Some(count.saturating_mul(size))
        })
    }

    /// The same, with bytes by rank.
    pub(crate) fn collective_in_bytes(
        &mut self,
        bytes: &[u64],
        comm: usize,
        shape: Shape,
    ) -> Option<()> {
        self.each_message(comm, shape, |to| bytes.get(to).copied())
    }

    /// How many ranks a communicator has; none for one between two groups, whose collective calls are others.
    pub(crate) fn size_of(&mut self, comm: usize) -> Option<usize> {
        let comm: Handle = self.library.handle(comm);
        if comm != self.library.world && self.library.is_between(comm) {
            return None;
        }
        self.ranks_of(comm).map(|ranks| ranks.len())
    }

    /// The rank of this process in a communicator, and how many there are.
    pub(crate) fn place_in(&mut self, comm: usize) -> Option<(i32, usize)> {
        let size = self.size_of(comm)?;
        Some((self.library.rank_in(self.library.handle(comm))?, size))
    }

    fn each_message(
        &mut self,
        comm: usize,
        shape: Shape,
        bytes: impl Fn(usize) -> Option<u64>,
    ) -> Option<()> {
        let (own, size) = self.place_in(comm)?;
        let own = usize::try_from(own).ok()?;
        let (row, comm) = (self.row, self.library.handle(comm));
        let ranks = self.ranks_of(comm)?;
        row.note(Note::Collectives);
        targets(shape, own, size, |to| {
            if let (Some(&peer), Some(bytes)) = (ranks.get(to), bytes(to)) {
                row.modelled(peer, bytes);
            }
        });
        Some(())
    }
}

/// Names each rank that `own` of `size` sends to.
fn targets(shape: Shape, own: usize, size: usize, mut send: impl FnMut(usize)) {
    let root = match shape {
        Shape::Down { root }
        | Shape::Up { root }
        | Shape::ToRoot { root }
        | Shape::FromRoot { root } => usize::try_from(root).unwrap_or(usize::MAX),
        Shape::Pairs | Shape::Each | Shape::Next => 0,
    };
    if own >= size || root >= size {
        return;
    }
    // Counted from the root on.
    let from_root = |rank: usize| {
        rank.saturating_add(size)
            .saturating_sub(root)
            .checked_rem(size)
    };
    let at = |place: usize| place.saturating_add(root).checked_rem(size);
    let place = from_root(own).unwrap_or(0);
    match shape {
        Shape::Down { .. } => {
            // Each rank has the ranks behind it up to its lowest bit; the root has all.
            let mut step = lowest_bit(place).unwrap_or_else(|| size.next_power_of_two());
            while step > 1 {
                step /= 2;
                let child = place.saturating_add(step);
                if child < size
                    && let Some(child) = at(child)
                {
                    send(child);
                }
            }
        }
        Shape::Up { .. } => {
            if let Some(bit) = lowest_bit(place)
                && let Some(parent) = at(place.saturating_sub(bit))
            {
                send(parent);
            }
        }
        Shape::Pairs => {
            let mut step = 1;
            while step < size {
                if (own ^ step) < size {
                    send(own ^ step);
                }
                step = step.saturating_mul(2);
            }
        }
        Shape::FromRoot { .. } if own != root => {}
        Shape::Each | Shape::FromRoot { .. } => {
            (0..size).filter(|&to| to != own).for_each(send);
        }
        Shape::ToRoot { .. } if own != root => send(root),
        Shape::ToRoot { .. } => {}
        Shape::Next => {
            let next = own.saturating_add(1);
            if next < size {
                send(next);
            }
        }
    }
}

/// The value of the lowest bit; none of 0.
const fn lowest_bit(number: usize) -> Option<usize> {
    match number {
        0 => None,
        _ => Some(number & number.wrapping_neg()),
    }
}
