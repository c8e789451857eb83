//! `libnumad-mpi.so`: preloaded into an MPI program, it counts who sends how much to whom, in a row of
//! memory that the daemon gives it and reads.
//!
//! It takes the place of `MPI_X` and of `PMPI_X`, because Fortran's bindings call the latter; each call goes on to
//! the next library's function of the same name, so that other tools see it too. A call within a call is not
//! counted. Handles are passed through as they are, which is all that Open MPI (pointers), MPICH and Intel MPI (32-bit
//! numbers) and the standard ABI need; `MPI_COMM_WORLD` alone must be known, and is told apart at run time.
//!
//! It runs in programs of others: nothing here panics, allocates without bound, writes to a file or waits.
//! Where there is no daemon, or anything is not as expected, every call goes straight on.

#![deny(unsafe_code)]
#![deny(
    clippy::panic,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

#[expect(unsafe_code, reason = "the calls of MPI, in and out")]
mod calls;
mod counts;
mod model;
#[expect(
    unsafe_code,
    reason = "symbols of other libraries, and calls through them"
)]
mod real;
#[expect(
    unsafe_code,
    reason = "memory that the daemon reads, and the socket it comes from"
)]
mod row;
