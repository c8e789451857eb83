//! What is remembered of the samples: who used which page, who talks to whom. Bounded, and without
//! an allocation per sample.

pub(crate) mod bits;
pub(crate) mod comm;
pub(crate) mod forest;
pub(crate) mod grain;
pub(crate) mod index;
pub(crate) mod large;
pub(crate) mod pages;
pub(crate) mod paper;
pub(crate) mod ranges;
pub(crate) mod runs;
pub(crate) mod seats;
pub(crate) mod shares;
pub(crate) mod spaces;
pub(crate) mod talk;
pub(crate) mod tasks;

/// A small number under which a thread stands in the tables of one program.
///
/// Given when a thread is first sampled, given back when it ends or takes no part any more, and
/// given to another thread only after every table was cleaned of it.
pub(crate) type Seat = u16;

/// Where each seat stands among these, by seat.
pub(crate) fn positions(seats: &[Option<Seat>]) -> Vec<Option<u32>> {
    let end = seats.iter().flatten().max();
    let mut positions = vec![None; end.map_or(0, |&seat| usize::from(seat) + 1)];
    for (position, seat) in (0..).zip(seats) {
        if let Some(seat) = seat {
            positions[usize::from(*seat)] = Some(position);
        }
    }
    positions
}
