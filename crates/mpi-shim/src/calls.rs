//! The functions of MPI that this library has in place of the real ones.

use std::ffi::CStr;
use std::mem;
use std::sync::atomic::AtomicUsize;

use libc::c_int;

use crate::counts::{
    State, begin, count, end, enter, enter_first, forget_comms, forget_types, forget_windows,
};
use crate::model::Shape;
use crate::real::{Handle, next};

/// What a call ends with where there is no MPI to go on to: `MPI_ERR_OTHER` of all libraries.
const NO_MPI: c_int = 16;

/// Goes on to the next library's function of the same name, through which the exception of an error
/// handler may come.
macro_rules! go_on {
    ($name:ident, ($($arg:ident: $kind:ty),*)) => {{
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        // Worked out by the compiler: a call of its own takes 50 instructions.
        const NAME: &CStr =
            match CStr::from_bytes_until_nul(concat!(stringify!($name), "\0").as_bytes()) {
                Ok(name) => name,
                Err(_) => c"",
            };
        match next(&NEXT, NAME) {
            Some(real) => {
                // SAFETY: the function of this name has these arguments, handles and pointers being registers, and gets
                // what the program passed.
                let real = unsafe {
                    mem::transmute::<usize, extern "C-unwind" fn($($kind),*) -> c_int>(real)
                };
                real($($arg),*)
            }
            None => NO_MPI,
        }
    }};
}

/// Functions that are counted before they go on.
macro_rules! counted {
    ($($name:ident $profiled:ident ($($arg:ident: $kind:ty),* $(,)?) $state:ident $what:block)*) => {$(
        counted!(@one $name ($($arg: $kind),*) $state $what);
        counted!(@one $profiled ($($arg: $kind),*) $state $what);
    )*};
    (@one $name:ident ($($arg:ident: $kind:ty),*) $state:ident $what:block) => {
        #[unsafe(no_mangle)]

        extern "C-unwind" fn $name($($arg: $kind),*) -> c_int {
            let outer = enter();
            if outer.is_some() {
                count(|$state| $what);
            }
            go_on!($name, ($($arg: $kind),*))
        }
    };
}

/// Functions after which handles mean something else, or that begin and end it all.
macro_rules! watched {
    ($($name:ident $profiled:ident ($($arg:ident: $kind:ty),*) $before:expr, $after:expr;)*) => {$(
        watched!(@one $name ($($arg: $kind),*) $before, $after);
        watched!(@one $profiled ($($arg: $kind),*) $before, $after);
    )*};
    (@one $name:ident ($($arg:ident: $kind:ty),*) $before:expr, $after:expr) => {
        #[unsafe(no_mangle)]

        extern "C-unwind" fn $name($($arg: $kind),*) -> c_int {
            let outer = enter_first();
            if outer.is_some() {
                $before();
            }
            let result = go_on!($name, ($($arg: $kind),*));
            if outer.is_some() && result == 0 {
                $after();
            }
            result
        }
    };
}

const fn nothing() {}

watched! {
    MPI_Init PMPI_Init (count: usize, words: usize) nothing, begin;
    MPI_Init_thread PMPI_Init_thread (count: usize, words: usize, wanted: c_int, given: usize) nothing, begin;
    MPI_Finalize PMPI_Finalize () end, nothing;
    MPI_Comm_free PMPI_Comm_free (comm: usize) nothing, forget_comms;
    MPI_Comm_disconnect PMPI_Comm_disconnect (comm: usize) nothing, forget_comms;
    MPI_Type_free PMPI_Type_free (kind: usize) nothing, forget_types;
    MPI_Win_free PMPI_Win_free (window: usize) nothing, forget_windows;
}

/// A function that sends a message, and the one with a request behind.
macro_rules! sends {
    ($($name:ident $profiled:ident ($($more:ident)?) $count:ty;)*) => {
        counted! {$(
            $name $profiled (buffer: usize, many: $count, kind: usize, to: c_int, tag: c_int, comm: usize $(, $more: usize)?)
            state { state.message(many.into(), kind, to, comm) }
        )*}
    };
}

sends! {
    MPI_Send PMPI_Send () i32;
    MPI_Ssend PMPI_Ssend () i32;
    MPI_Bsend PMPI_Bsend () i32;
    MPI_Rsend PMPI_Rsend () i32;
    MPI_Isend PMPI_Isend (request) i32;
    MPI_Issend PMPI_Issend (request) i32;
    MPI_Ibsend PMPI_Ibsend (request) i32;
    MPI_Irsend PMPI_Irsend (request) i32;
    MPI_Send_c PMPI_Send_c () i64;
    MPI_Ssend_c PMPI_Ssend_c () i64;
    MPI_Bsend_c PMPI_Bsend_c () i64;
    MPI_Rsend_c PMPI_Rsend_c () i64;
    MPI_Isend_c PMPI_Isend_c (request) i64;
    MPI_Issend_c PMPI_Issend_c (request) i64;
    MPI_Ibsend_c PMPI_Ibsend_c (request) i64;
    MPI_Irsend_c PMPI_Irsend_c (request) i64;
}

/// Functions that prepare messages, which are sent each time that the request they make is started.
macro_rules! prepares {
    ($($name:ident $profiled:ident ($($arg:ident: $kind:ty),* $(,)?) $state:ident $what:block)*) => {$(
        prepares!(@one $name ($($arg: $kind),*) $state $what);
        prepares!(@one $profiled ($($arg: $kind),*) $state $what);
    )*};
    (@one $name:ident ($($arg:ident: $kind:ty),*) $state:ident $what:block) => {
        #[unsafe(no_mangle)]
        extern "C-unwind" fn $name($($arg: $kind),*) -> c_int {
            let outer = enter();
            let result = go_on!($name, ($($arg: $kind),*));
            if outer.is_some() && result == 0 {
                count(|$state| $what);
            }
            result
        }
    };
}

/// The same, by name and type of the count.
macro_rules! persistent {
    ($($name:ident $profiled:ident $count:ty;)*) => {
        prepares! {$(
            $name $profiled (buffer: usize, many: $count, kind: usize, to: c_int, tag: c_int, comm: usize, request: usize)
            state { prepare(state, request, many.into(), kind, (to, comm)) }
        )*}
    };
}

persistent! {
    MPI_Send_init PMPI_Send_init i32;
    MPI_Ssend_init PMPI_Ssend_init i32;
    MPI_Bsend_init PMPI_Bsend_init i32;
    MPI_Rsend_init PMPI_Rsend_init i32;
    MPI_Send_init_c PMPI_Send_init_c i64;
    MPI_Ssend_init_c PMPI_Ssend_init_c i64;
    MPI_Bsend_init_c PMPI_Bsend_init_c i64;
    MPI_Rsend_init_c PMPI_Rsend_init_c i64;
}

prepares! {
    // One message, however many parts it has.
    MPI_Psend_init PMPI_Psend_init (
        buffer: usize, parts: i32, many: i64, kind: usize, to: c_int, tag: c_int, comm: usize, info: usize, request: usize,
    ) state { prepare(state, request, many.saturating_mul(parts.into()), kind, (to, comm)) }
}

fn prepare(
    state: &mut State,
    request: usize,
    count: i64,
    kind: usize,
    (to, comm): (c_int, usize),
) -> Option<()> {
    let request = handle_in(state, request, 0)?;
    state.prepare(request, count, kind, (to, comm))
}

counted! {
    MPI_Start PMPI_Start (request: usize) state {
        let request = handle_in(state, request, 0)?;
        state.started(request)
    }

    MPI_Startall PMPI_Startall (many: c_int, requests: usize) state {
        for at in 0..usize::try_from(many).ok()? {
            let request = handle_in(state, requests, at)?;
            state.started(request)?;
        }
        Some(())
    }

    MPI_Request_free PMPI_Request_free (request: usize) state {
        let request = handle_in(state, request, 0)?;
        state.unprepare(request)
    }
}

counted! {
    MPI_Sendrecv PMPI_Sendrecv (
        buffer: usize, many: i32, kind: usize, to: c_int, tag: c_int,
        into: usize, most: i32, kind_in: usize, from: c_int, tag_in: c_int, comm: usize, status: usize,
    ) state { state.message(many.into(), kind, to, comm) }

    MPI_Sendrecv_replace PMPI_Sendrecv_replace (
        buffer: usize, many: i32, kind: usize, to: c_int, tag: c_int, from: c_int, tag_in: c_int,
        comm: usize, status: usize,
    ) state { state.message(many.into(), kind, to, comm) }

    MPI_Isendrecv PMPI_Isendrecv (
        buffer: usize, many: i32, kind: usize, to: c_int, tag: c_int,
        into: usize, most: i32, kind_in: usize, from: c_int, tag_in: c_int, comm: usize, request: usize,
    ) state { state.message(many.into(), kind, to, comm) }

    MPI_Isendrecv_replace PMPI_Isendrecv_replace (
        buffer: usize, many: i32, kind: usize, to: c_int, tag: c_int, from: c_int, tag_in: c_int,
        comm: usize, request: usize,
    ) state { state.message(many.into(), kind, to, comm) }

    MPI_Put PMPI_Put (
        buffer: usize, many: i32, kind: usize, to: c_int, place: usize, many_there: i32, kind_there: usize, window: usize,
    ) state { state.one_sided(many.into(), kind, to, window) }

    MPI_Get PMPI_Get (
        buffer: usize, many: i32, kind: usize, to: c_int, place: usize, many_there: i32, kind_there: usize, window: usize,
    ) state { state.one_sided(many.into(), kind, to, window) }

    MPI_Accumulate PMPI_Accumulate (
        buffer: usize, many: i32, kind: usize, to: c_int, place: usize, many_there: i32, kind_there: usize,
        how: usize, window: usize,
    ) state { state.one_sided(many.into(), kind, to, window) }

    MPI_Rput PMPI_Rput (
        buffer: usize, many: i32, kind: usize, to: c_int, place: usize, many_there: i32, kind_there: usize,
        window: usize, request: usize,
    ) state { state.one_sided(many.into(), kind, to, window) }

    MPI_Rget PMPI_Rget (
        buffer: usize, many: i32, kind: usize, to: c_int, place: usize, many_there: i32, kind_there: usize,
        window: usize, request: usize,
    ) state { state.one_sided(many.into(), kind, to, window) }

    MPI_Raccumulate PMPI_Raccumulate (
        buffer: usize, many: i32, kind: usize, to: c_int, place: usize, many_there: i32, kind_there: usize,
        how: usize, window: usize, request: usize,
    ) state { state.one_sided(many.into(), kind, to, window) }

    MPI_Fetch_and_op PMPI_Fetch_and_op (
        buffer: usize, into: usize, kind: usize, to: c_int, place: usize, how: usize, window: usize,
    ) state { state.one_sided(1, kind, to, window) }

    MPI_Compare_and_swap PMPI_Compare_and_swap (
        buffer: usize, compared: usize, into: usize, kind: usize, to: c_int, place: usize, window: usize,
    ) state { state.one_sided(1, kind, to, window) }
}

/// Collective calls, and the same with a request behind.
macro_rules! collectives {
    ($($name:ident $profiled:ident $later:ident $profiled_later:ident ($($arg:ident: $kind:ty),* $(,)?) $state:ident $what:block)*) => {
        counted! {$(
            $name $profiled ($($arg: $kind),*) $state $what
            $later $profiled_later ($($arg: $kind),*, request: usize) $state $what
        )*}
    };
}

collectives! {
    MPI_Bcast PMPI_Bcast MPI_Ibcast PMPI_Ibcast (buffer: usize, many: i32, kind: usize, root: c_int, comm: usize)
    state { state.collective(many.into(), kind, comm, Shape::Down { root }) }

    MPI_Reduce PMPI_Reduce MPI_Ireduce PMPI_Ireduce (
        buffer: usize, into: usize, many: i32, kind: usize, how: usize, root: c_int, comm: usize,
    ) state { state.collective(many.into(), kind, comm, Shape::Up { root }) }

    MPI_Allreduce PMPI_Allreduce MPI_Iallreduce PMPI_Iallreduce (
        buffer: usize, into: usize, many: i32, kind: usize, how: usize, comm: usize,
    ) state { state.collective(many.into(), kind, comm, Shape::Pairs) }

    MPI_Scan PMPI_Scan MPI_Iscan PMPI_Iscan (
        buffer: usize, into: usize, many: i32, kind: usize, how: usize, comm: usize,
    ) state { state.collective(many.into(), kind, comm, Shape::Next) }

    MPI_Exscan PMPI_Exscan MPI_Iexscan PMPI_Iexscan (
        buffer: usize, into: usize, many: i32, kind: usize, how: usize, comm: usize,
    ) state { state.collective(many.into(), kind, comm, Shape::Next) }

    MPI_Reduce_scatter_block PMPI_Reduce_scatter_block MPI_Ireduce_scatter_block PMPI_Ireduce_scatter_block (
        buffer: usize, into: usize, many: i32, kind: usize, how: usize, comm: usize,
    ) state { state.collective(many.into(), kind, comm, Shape::Each) }

    // With `MPI_IN_PLACE` what is sent is not said; what is received is, and is as much.
    MPI_Gather PMPI_Gather MPI_Igather PMPI_Igather (
        buffer: usize, many: i32, kind: usize, into: usize, most: i32, kind_in: usize, root: c_int, comm: usize,
    ) state { state.collective(many.into(), kind, comm, Shape::ToRoot { root }) }

    MPI_Gatherv PMPI_Gatherv MPI_Igatherv PMPI_Igatherv (
        buffer: usize, many: i32, kind: usize, into: usize, most: usize, places: usize, kind_in: usize,
        root: c_int, comm: usize,
    ) state { state.collective(many.into(), kind, comm, Shape::ToRoot { root }) }

    MPI_Scatter PMPI_Scatter MPI_Iscatter PMPI_Iscatter (
        buffer: usize, many: i32, kind: usize, into: usize, most: i32, kind_in: usize, root: c_int, comm: usize,
    ) state { state.collective(many.into(), kind, comm, Shape::FromRoot { root }) }

    MPI_Allgather PMPI_Allgather MPI_Iallgather PMPI_Iallgather (
        buffer: usize, many: i32, kind: usize, into: usize, most: i32, kind_in: usize, comm: usize,
    ) state { state.collective(most.into(), kind_in, comm, Shape::Each) }

    MPI_Alltoall PMPI_Alltoall MPI_Ialltoall PMPI_Ialltoall (
        buffer: usize, many: i32, kind: usize, into: usize, most: i32, kind_in: usize, comm: usize,
    ) state { state.collective(most.into(), kind_in, comm, Shape::Each) }

    MPI_Alltoallv PMPI_Alltoallv MPI_Ialltoallv PMPI_Ialltoallv (
        buffer: usize, many: usize, places: usize, kind: usize,
        into: usize, most: usize, places_in: usize, kind_in: usize, comm: usize,
    ) state {
        // Then neither list need be there.
        if is_in_place(buffer) {
            return_none()
        } else {
            let counts = numbers(many, state.size_of(comm)?)?;
            state.collective_by_rank(counts, kind, comm, Shape::Each)
        }
    }

    MPI_Alltoallw PMPI_Alltoallw MPI_Ialltoallw PMPI_Ialltoallw (
        buffer: usize, many: usize, places: usize, kinds: usize,
        into: usize, most: usize, places_in: usize, kinds_in: usize, comm: usize,
    ) state {
        if is_in_place(buffer) {
            return_none()
        } else {
            let size = state.size_of(comm)?;
            let bytes = bytes_of_each(state, many, kinds, size)?;
            state.collective_in_bytes(&bytes, comm, Shape::Each)
        }
    }

    MPI_Allgatherv PMPI_Allgatherv MPI_Iallgatherv PMPI_Iallgatherv (
        buffer: usize, many: i32, kind: usize, into: usize, most: usize, places: usize, kind_in: usize, comm: usize,
    ) state {
        // What this rank sends is what the others get of it.
        let (own, size) = state.place_in(comm)?;
        let own = numbers(most, size)?.get(usize::try_from(own).ok()?)?;
        state.collective((*own).into(), kind_in, comm, Shape::Each)
    }

    MPI_Reduce_scatter PMPI_Reduce_scatter MPI_Ireduce_scatter PMPI_Ireduce_scatter (
        buffer: usize, into: usize, many: usize, kind: usize, how: usize, comm: usize,
    ) state {
        let counts = numbers(many, state.size_of(comm)?)?;
        state.collective_by_rank(counts, kind, comm, Shape::Each)
    }

    MPI_Scatterv PMPI_Scatterv MPI_Iscatterv PMPI_Iscatterv (
        buffer: usize, many: usize, places: usize, kind: usize, into: usize, most: i32, kind_in: usize,
        root: c_int, comm: usize,
    ) state {
        let (own, size) = state.place_in(comm)?;
        // The others need have neither counts nor a type of theirs.
        if own == root {
            state.collective_by_rank(numbers(many, size)?, kind, comm, Shape::FromRoot { root })
        } else {
            state.collective_in_bytes(&[], comm, Shape::FromRoot { root })
        }
    }

    // Who gets how much is said by the call and the communicator, so these count as messages.
    MPI_Neighbor_allgather PMPI_Neighbor_allgather MPI_Ineighbor_allgather PMPI_Ineighbor_allgather (
        buffer: usize, many: i32, kind: usize, into: usize, most: i32, kind_in: usize, comm: usize,
    ) state { state.each_neighbour(comm, |state, _| state.bytes(many.into(), kind)) }

    MPI_Neighbor_allgatherv PMPI_Neighbor_allgatherv MPI_Ineighbor_allgatherv PMPI_Ineighbor_allgatherv (
        buffer: usize, many: i32, kind: usize, into: usize, most: usize, places: usize, kind_in: usize, comm: usize,
    ) state { state.each_neighbour(comm, |state, _| state.bytes(many.into(), kind)) }

    MPI_Neighbor_alltoall PMPI_Neighbor_alltoall MPI_Ineighbor_alltoall PMPI_Ineighbor_alltoall (
        buffer: usize, many: i32, kind: usize, into: usize, most: i32, kind_in: usize, comm: usize,
    ) state { state.each_neighbour(comm, |state, _| state.bytes(many.into(), kind)) }

    MPI_Neighbor_alltoallv PMPI_Neighbor_alltoallv MPI_Ineighbor_alltoallv PMPI_Ineighbor_alltoallv (
        buffer: usize, many: usize, places: usize, kind: usize,
        into: usize, most: usize, places_in: usize, kind_in: usize, comm: usize,
    ) state {
        state.each_neighbour(comm, |state, at| {
            let count = numbers(many, at.checked_add(1)?)?.get(at)?;
            state.bytes((*count).into(), kind)
        })
    }

    MPI_Neighbor_alltoallw PMPI_Neighbor_alltoallw MPI_Ineighbor_alltoallw PMPI_Ineighbor_alltoallw (
        buffer: usize, many: usize, places: usize, kinds: usize,
        into: usize, most: usize, places_in: usize, kinds_in: usize, comm: usize,
    ) state {
        state.each_neighbour(comm, |state, at| {
            let count = numbers(many, at.checked_add(1)?)?.get(at)?;
            let kind = handle_in(state, kinds, at)?;
            state.bytes((*count).into(), kind)
        })
    }
}

/// Bytes to each of so many ranks, where each has a type of its own.
fn bytes_of_each(state: &mut State, many: usize, kinds: usize, size: usize) -> Option<Vec<u64>> {
    let counts = numbers(many, size)?.iter().enumerate();
    let bytes = counts.map(|(at, count)| {
        let kind = handle_in(state, kinds, at)?;
        state.bytes((*count).into(), kind)
    });
    bytes.collect()
}

/// Whether a buffer is `MPI_IN_PLACE`: 1 or -1, or an address of the library, which is not told
/// apart. 0 is
/// `MPI_BOTTOM`.
const fn is_in_place(buffer: usize) -> bool {
    matches!(buffer, 1 | usize::MAX)
}

/// So many numbers that the program passed.
fn numbers<'a>(address: usize, many: usize) -> Option<&'a [c_int]> {
    if address == 0 {
        return None;
    }
    let first = std::ptr::with_exposed_provenance::<c_int>(address);
    // SAFETY: MPI wants so many there, which stay as they are while the call lasts; none of them is kept.
    Some(unsafe { std::slice::from_raw_parts(first, many) })
}

/// The handle at a place in a list that the program passed.
fn handle_in(state: &State, address: usize, place: usize) -> Option<Handle> {
    if address == 0 {
        return None;
    }
    if state.library.has_wide_handles() {
        let first = std::ptr::with_exposed_provenance::<usize>(address);
        // SAFETY: MPI wants a handle there, which is a pointer, and more before it.
        Some(unsafe { first.wrapping_add(place).read_unaligned() })
    } else {
        let first = std::ptr::with_exposed_provenance::<u32>(address);
        // SAFETY: MPI wants a handle there, which is a number, and more before it.
        Some(unsafe { first.wrapping_add(place).read_unaligned() } as Handle)
    }
}

/// Not seen.
const fn return_none() -> Option<()> {
    None
}
