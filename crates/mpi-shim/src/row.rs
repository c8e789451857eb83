//! The row of this rank: memory that the daemon made and reads, and that this process alone writes.
//!
//! All words are of 64 bits, in the order of the machine. `crates/daemon/src/live/rows.rs` has the other end.

use std::ffi::CStr;
use std::io::{Error, ErrorKind};
use std::mem;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use libc::{c_int, c_void};

/// First word.
const MAGIC: u64 = u64::from_le_bytes(*b"numadmp1");
/// Words before the first peer: magic, rank, size, pid, then counters.
const HEAD_WORDS: usize = 16;
/// Words for each peer: bytes and messages that were sent, and those that a collective call stands for.
const PEER_WORDS: usize = 4;
/// Long enough for a busy daemon; a job that starts waits no longer for it.
const WAIT: Duration = Duration::from_secs(2);
/// More ranks than the daemon ever makes a row for.
const SIZE_MAX: u64 = 1 << 16;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    words: &'static [AtomicU64],
}

/// Counters in the head, by word.
#[derive(Clone, Copy, Debug)]
#[repr(usize)]
pub(crate) enum Note {
    /// Messages to ranks that are not in this world.
    Outside = 8,
    /// One-sided calls.
    OneSided = 9,
    /// Collective calls.
    Collectives = 10,
    /// Calls whose amount or partner is not known.
    NotSeen = 11,
}

impl Row {
    /// Asks the daemon for it; a reason in words when there is none to be had.
    pub(crate) fn get(rank: c_int, size: c_int) -> Result<Self, &'static str> {
        let file = received()?;
        let mut found: libc::stat = zeroed();
        // SAFETY: `found` is a valid place for the answer, and the descriptor is open.
        let stat = unsafe { libc::fstat(file, &raw mut found) };
        let bytes = usize::try_from(found.st_size).unwrap_or(0);
        let words = bytes.checked_div(size_of::<u64>()).unwrap_or(0);
        if stat != 0 || words < HEAD_WORDS {
            close(file);
            return Err("what the daemon gave is no row");
        }
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at a place of the kernel's choice; the file is as long, and sealed, so that it stays so.
        let at = unsafe { libc::mmap(ptr::null_mut(), bytes, access, libc::MAP_SHARED, file, 0) };
        close(file);
        if at == libc::MAP_FAILED {
            return Err("the row cannot be mapped");
        }
        // SAFETY: the mapping has so many words, is aligned to a page, is never unmapped, and any bits are an
        // `AtomicU64`.
        let words = unsafe { std::slice::from_raw_parts(at.cast::<AtomicU64>(), words) };
        let row = Self { words };
        let (rank, size) = (u64::try_from(rank), u64::try_from(size));
        let fits = row.word(0) == MAGIC
            && rank.is_ok_and(|rank| rank == row.word(1))
            && size.is_ok_and(|size| size == row.word(2) && size <= SIZE_MAX);
        if !fits {
            return Err("the environment and MPI disagree about the rank");
        }
        Ok(row)
    }

    fn word(self, at: usize) -> u64 {
        let word = self.words.get(at);
        word.map_or(0, |word| word.load(Ordering::Relaxed))
    }

    #[inline]
    fn add(self, at: usize, amount: u64) {
        if let Some(word) = self.words.get(at) {
            // This process is the only writer, and one thread of it at a time.
            let sum = word.load(Ordering::Relaxed).saturating_add(amount);
            word.store(sum, Ordering::Relaxed);
        }
    }

    /// Where the counters of a peer begin; none outside of the world.
    #[inline]
    fn peer(self, peer: c_int) -> Option<usize> {
        let words = usize::try_from(peer).ok()?.checked_mul(PEER_WORDS)?;
        let at = words.checked_add(HEAD_WORDS)?;
        let end = at.checked_add(PEER_WORDS)?;
        (end <= self.words.len()).then_some(at)
    }

    /// A message to a rank of the world.
    #[inline]
    pub(crate) fn message(self, peer: c_int, bytes: u64) {
        match self.peer(peer) {
            Some(at) => {
                self.add(at, bytes);
                self.add(at.saturating_add(1), 1);
            }
            None => self.note(Note::Outside),
        }
    }

    /// A message that a collective call is taken to send.
    pub(crate) fn modelled(self, peer: c_int, bytes: u64) {
        if let Some(at) = self.peer(peer) {
            self.add(at.saturating_add(2), bytes);
            self.add(at.saturating_add(3), 1);
        }
    }

    /// One more of these.
    pub(crate) fn note(self, what: Note) {
        self.add(what as usize, 1);
    }
}

fn zeroed<T>() -> T {
    // SAFETY: used for plain structures of the C library alone, for which all zero is a value.
    unsafe { mem::zeroed() }
}

fn close(file: c_int) {
    // SAFETY: the descriptor is ours, and used no more.
    unsafe { libc::close(file) };
}

/// A variable of the environment, if it is set and not empty.
pub(crate) fn variable(name: &CStr) -> Option<&'static CStr> {
    // SAFETY: the name ends with a zero.
    let value = unsafe { libc::getenv(name.as_ptr()) };
    if value.is_null() {
        return None;
    }
    // SAFETY: what is not null ends with a zero, and is read before the program goes on.
    let value = unsafe { CStr::from_ptr(value) };
    (!value.is_empty()).then_some(value)
}

/// Says why nothing is counted, if `NUMAD_MPI_VERBOSE` asks for it.
pub(crate) fn say(rank: c_int, why: &str) {
    if variable(c"NUMAD_MPI_VERBOSE").is_none() || rank > 0 {
        return;
    }
    for part in ["numad-mpi: messages are not counted: ", why, "\n"] {
        // SAFETY: so many bytes are there. Nobody is told when it does not work.
        unsafe { libc::write(2, part.as_ptr().cast::<c_void>(), part.len()) };
    }
}

/// Connects to the daemon, which sends the row's file at once, or hangs up.
fn received() -> Result<c_int, &'static str> {
    let mut address: libc::sockaddr_un = zeroed();
    address.sun_family = libc::sa_family_t::try_from(libc::AF_UNIX).unwrap_or(0);
    let own = variable(c"NUMAD_MPI_SOCKET").map(CStr::to_bytes);
    let usual = variable(c"NUMAD_SOCKET").map(CStr::to_bytes);
    let (path, suffix): (&[u8], &[u8]) = match (own, usual) {
        (Some(path), _) => (path, b""),
        (None, Some(path)) => (path, b".mpi"),
        (None, None) => (b"/run/numad/numad.sock", b".mpi"),
    };
    // One less than there is room for: a zero ends it.
    let room = address.sun_path.len().saturating_sub(1);
    if path.len().saturating_add(suffix.len()) > room {
        return Err("the socket's path is too long");
    }
    for (to, from) in address.sun_path.iter_mut().zip(path.iter().chain(suffix)) {
        *to = libc::c_char::from_ne_bytes([*from]);
    }
    let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC;
    // SAFETY: no pointer is passed.
    let socket = unsafe { libc::socket(libc::AF_UNIX, kind, 0) };
    if socket < 0 {
        return Err("there is no socket to be had");
    }
    let wait = libc::timeval {
        tv_sec: WAIT.as_secs().cast_signed(),
        tv_usec: 0,
    };
    for option in [libc::SO_RCVTIMEO, libc::SO_SNDTIMEO] {
        let length = length_of::<libc::timeval>();
        let value = (&raw const wait).cast::<c_void>();
        // SAFETY: the value is of that length.
        unsafe { libc::setsockopt(socket, libc::SOL_SOCKET, option, value, length) };
    }
    let to = (&raw const address).cast::<libc::sockaddr>();
    // SAFETY: the address is of that length.
    let connected = unsafe { libc::connect(socket, to, length_of::<libc::sockaddr_un>()) };
    let file = match connected {
        0 => received_from(socket),
        _ => Err("no daemon listens for MPI programs"),
    };
    close(socket);
    file
}

fn length_of<T>() -> libc::socklen_t {
    libc::socklen_t::try_from(size_of::<T>()).unwrap_or(0)
}

/// The file that comes with the one byte that the daemon sends.
fn received_from(socket: c_int) -> Result<c_int, &'static str> {
    /// Room for one descriptor, aligned as the kernel wants it.
    #[repr(C, align(8))]
    struct Control([u8; 64]);
    let (mut byte, mut control) = (0u8, Control([0; 64]));
    let mut part = libc::iovec {
        iov_base: (&raw mut byte).cast::<c_void>(),
        iov_len: 1,
    };
    let mut message: libc::msghdr = zeroed();
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = (&raw mut control.0).cast::<c_void>();
    message.msg_controllen = size_of::<Control>();
    let began = Instant::now();
    let taken = loop {
        // SAFETY: everything that the message points to lives until the end of this function.
        let taken = unsafe { libc::recvmsg(socket, &raw mut message, libc::MSG_CMSG_CLOEXEC) };
        let interrupted = taken < 0 && Error::last_os_error().kind() == ErrorKind::Interrupted;
        if !interrupted || began.elapsed() >= WAIT {
            break taken;
        }
    };
    if taken <= 0 {
        return Err("the daemon gives this process no row");
    }
    // SAFETY: the kernel has filled the message.
    let first = unsafe { libc::CMSG_FIRSTHDR(&raw const message) };
    if first.is_null() {
        return Err("the daemon's answer has no row");
    }
    // SAFETY: it is not null, and within the control buffer.
    let head = unsafe { first.read_unaligned() };
    if (head.cmsg_level, head.cmsg_type) != (libc::SOL_SOCKET, libc::SCM_RIGHTS) {
        return Err("the daemon's answer has no row");
    }
    // SAFETY: a message of this type has at least one descriptor behind its head.
    let data = unsafe { libc::CMSG_DATA(first) };
    // SAFETY: as before.
    Ok(unsafe { data.cast::<c_int>().read_unaligned() })
}
