//! What is counted, and what is remembered for it: sizes of types, and ranks of communicators in the world.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use libc::c_int;

use crate::real::{Handle, Library, Table};
use crate::row::{Note, Row, say};

/// Types, communicators and windows that are remembered, each at a place by its handle. Two types
/// that want the same take turns.
const PLACES: usize = 64;

/// Persistent requests that are remembered; the messages of further ones are not seen.
const REQUESTS_MAX: usize = 1 << 16;

/// Set once a row is there.
static COUNTING: AtomicBool = AtomicBool::new(false);

static STATE: Mutex<Option<State>> = Mutex::new(None);

thread_local! {
    /// Within a call of MPI, so that what the library calls of itself is not counted again.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// What a program counts with.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) library: Library,
    pub(crate) row: Row,
    sizes: [Option<(Handle, u64)>; PLACES],
    comms: [Option<(Handle, Table)>; PLACES],
    windows: [Option<(Handle, Table)>; PLACES],
    neighbours: [Option<(Handle, Table)>; PLACES],
    /// What is sent each time that a request is started: the rank of the world, and bytes.
    prepared: BTreeMap<Handle, (c_int, u64)>,
}

/// A call of MPI that the program made, and not the library.
#[derive(Debug)]
pub(crate) struct Outer(());

impl Drop for Outer {
    fn drop(&mut self) {
        INSIDE.set(false);
    }
}

/// Notes that a call begins; none within another, or where nothing is counted.
#[inline]
pub(crate) fn enter() -> Option<Outer> {
    if !COUNTING.load(Ordering::Relaxed) || INSIDE.replace(true) {
        return None;
    }
    Some(Outer(()))
}

/// The same for the calls with which a program begins.
pub(crate) fn enter_first() -> Option<Outer> {
    (!INSIDE.replace(true)).then_some(Outer(()))
}

/// MPI is there now: asks for a row.
pub(crate) fn begin() {
    let library = match Library::find() {
        Ok(library) => library,
        Err(why) => return say(0, why),
    };
    let Some((rank, size)) = library.place() else {
        return say(0, "MPI does not say which rank this is");
    };
    let row = match Row::get(rank, size) {
        Ok(row) => row,
        Err(why) => return say(rank, why),
    };
    *locked() = Some(State {
        library,
        row,
        sizes: [None; PLACES],
        comms: [const { None }; PLACES],
        windows: [const { None }; PLACES],
        neighbours: [const { None }; PLACES],
        prepared: BTreeMap::new(),
    });
    COUNTING.store(true, Ordering::Release);
}

/// MPI ends: its functions may not be called any more.
pub(crate) fn end() {
    COUNTING.store(false, Ordering::Release);
}

/// What was freed may come again as something else.
pub(crate) fn forget_types() {
    if let Some(state) = &mut *locked() {
        state.sizes = [None; PLACES];
    }
}

/// The same of communicators.
pub(crate) fn forget_comms() {
    if let Some(state) = &mut *locked() {
        state.comms = [const { None }; PLACES];
        state.neighbours = [const { None }; PLACES];
    }
}

/// The same of windows.
pub(crate) fn forget_windows() {
    if let Some(state) = &mut *locked() {
        state.windows = [const { None }; PLACES];
    }
}

#[inline]
fn locked() -> MutexGuard<'static, Option<State>> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Counts, when nobody else is at it.
#[inline]
pub(crate) fn count(what: impl FnOnce(&mut State) -> Option<()>) {
    if let Some(state) = &mut *locked()
        && what(state).is_none()
    {
        state.row.note(Note::NotSeen);
    }
}

#[inline]
const fn place(handle: Handle) -> usize {
    // Pointers to static structures of some hundred bytes, or numbers whose low byte tells them apart.
    (handle ^ (handle >> 6) ^ (handle >> 12)) % PLACES
}

impl State {
    /// Bytes of so many elements of a type, which need be none where there are none of it.
    #[inline]
    pub(crate) fn bytes(&mut self, count: i64, kind: usize) -> Option<u64> {
        let count = u64::try_from(count).ok()?;
        if count == 0 {
            return Some(0);
        }
        let kind = self.library.handle(kind);
        let there = self.sizes.get_mut(place(kind))?;
        let size = match *there {
            Some((known, size)) if known == kind => size,
            _ => {
                let size = self.library.type_size(kind)?;
                *there = Some((kind, size));
                size
            }
        };
        Some(count.saturating_mul(size))
    }

    /// A message to a rank of a communicator. `MPI_PROC_NULL` is negative everywhere.
    #[inline]
    pub(crate) fn message(
        &mut self,
        count: i64,
        kind: usize,
        to: c_int,
        comm: usize,
    ) -> Option<()> {
        if to < 0 {
            return Some(());
        }
        let bytes = self.bytes(count, kind)?;
        let to = self.in_world(to, comm)?;
        self.row.message(to, bytes);
        Some(())
    }

    /// What a rank of a communicator is in the world.
    #[inline]
    fn in_world(&mut self, rank: c_int, comm: usize) -> Option<c_int> {
        let comm = self.library.handle(comm);
        if comm == self.library.world {
            return Some(rank);
        }
        let rank = usize::try_from(rank).ok()?;
        self.ranks_of(comm)?.get(rank).copied()
    }

    /// A message that is sent each time that this request is started.
    pub(crate) fn prepare(
        &mut self,
        request: Handle,
        count: i64,
        kind: usize,
        (to, comm): (c_int, usize),
    ) -> Option<()> {
        // Whatever had this handle before is gone.
        self.prepared.remove(&request);
        if to < 0 {
            return Some(());
        }
        let message = (self.in_world(to, comm)?, self.bytes(count, kind)?);
        if self.prepared.len() >= REQUESTS_MAX {
            return None;
        }
        self.prepared.insert(request, message);
        Some(())
    }

    /// A request is started; one that is not known receives.
    pub(crate) fn started(&mut self, request: Handle) -> Option<()> {
        if let Some(&(to, bytes)) = self.prepared.get(&request) {
            self.row.message(to, bytes);
        }
        Some(())
    }

    /// A request is no more, and its handle may come again as another.
    pub(crate) fn unprepare(&mut self, request: Handle) -> Option<()> {
        self.prepared.remove(&request);
        Some(())
    }

    /// A message to each neighbour that a communicator has, of so many bytes to the one at this place.
    pub(crate) fn each_neighbour(
        &mut self,
        comm: usize,
        bytes: impl Fn(&mut Self, usize) -> Option<u64>,
    ) -> Option<()> {
        let (comm, library) = (self.library.handle(comm), self.library);
        let neighbours = table(&mut self.neighbours, comm, || library.neighbours_of(comm))?;
        for (at, to) in neighbours.clone().iter().enumerate() {
            // Beyond an edge of the grid there is none.
            if *to >= 0 {
                let bytes = bytes(self, at)?;
                self.row.message(*to, bytes);
            }
        }
        Some(())
    }

    /// A one-sided call to a rank of a window.
    pub(crate) fn one_sided(
        &mut self,
        count: i64,
        kind: usize,
        to: c_int,
        window: usize,
    ) -> Option<()> {
        if to < 0 {
            return Some(());
        }
        let bytes = self.bytes(count, kind)?;
        let window = self.library.handle(window);
        let library = self.library;
        let ranks = table(&mut self.windows, window, || library.ranks_at(window))?;
        let to = *ranks.get(usize::try_from(to).ok()?)?;
        self.row.note(Note::OneSided);
        self.row.message(to, bytes);
        Some(())
    }

    /// The ranks of a communicator in the world.
    pub(crate) fn ranks_of(&mut self, comm: Handle) -> Option<&Table> {
        let library = self.library;
        table(&mut self.comms, comm, || library.ranks_of(comm))
    }
}

fn table(
    kept: &mut [Option<(Handle, Table)>; PLACES],
    handle: Handle,
    look_up: impl FnOnce() -> Option<Table>,
) -> Option<&Table> {
    // Its own place or the first behind it that is free; where none is, who has its own gives way.
    let own = place(handle);
    let fits = |at: &usize| {
        let there = kept.get(*at).and_then(Option::as_ref);
        there.is_none_or(|(known, _)| *known == handle)
    };
    let at = match fits(&own) {
        true => own,
        false => (own..PLACES).chain(0..own).find(fits).unwrap_or(own),
    };
    let there = kept.get_mut(at)?;
    if there.as_ref().is_none_or(|(known, _)| *known != handle) {
        *there = Some((handle, look_up()?));
    }
    there.as_ref().map(|(_, ranks)| ranks)
}
