//! Rows in which MPI programs count who sends how much to whom: memory that the daemon makes, one piece for each rank,
//! and reads; `crates/mpi-shim` has the other end.
//!
//! Whoever connects says nothing: who it is comes from the kernel, and which rank from its environment, which is its own
//! word about itself. It gets a file of fixed length (sealed, so that nobody can cut it or make it grow), where it may
//! write what it likes: the daemon reads it with `pread`, at its own length, and takes the differences of counters.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::IoSlice;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::socket::{
    ControlMessage, MsgFlags, UnixAddr, getsockopt, sendmsg, sockopt::PeerCredentials,
};
use numad_core::Sent;
use procfs::{JobId, Presence, Rank, Reader};
use tokio::sync::watch;
use topology::{Pid, StartTicks};

use super::ranks::Ranks;
use crate::clock::thread_processor_time;
use crate::descriptors;
use crate::log::Log;
use crate::peer::{Credentials, Peer};
use crate::server::{DEBT_MAX, Gate, Hurried, Pace};
use crate::steward::Messages;

/// First word of a row.
const MAGIC: u64 = u64::from_le_bytes(*b"numadmp1");
/// Words before the first peer.
const HEAD_WORDS: usize = 16;
/// Words for each peer: bytes and messages sent, and those that collective calls stand for.
const PEER_WORDS: usize = 4;
const WORD: usize = size_of::<u64>();

/// Most ranks of a world: a row has 128 KiB then.
const SIZE_MAX: u32 = 4096;
/// Most rows, and of one user. A row is a descriptor of the daemon, and memory of whoever writes it.
const ROWS_MAX: usize = 2048;
const USER_ROWS_MAX: usize = 512;
/// Memory of the daemon for what it remembers of rows: as much as they have themselves; and for those of one user.
const BYTES_MAX: usize = 128 << 20;
const USER_BYTES_MAX: usize = 32 << 20;
/// Of the descriptors that the daemon may have, rows take this part at most, as a divisor.
const DESCRIPTORS_PART: usize = 4;
/// What a connection takes of a processor at the least. It is counted by this thread's time: to
/// read an environment takes another thread half as much again, and whoever has a row already takes
/// 40 us.
const COST_MIN: Duration = Duration::from_micros(100);
/// Who lets this thread wait, as by an environment that is slow to read, pays for this part of it:
/// at 5 % of a processor that is two fifths of the thread's time.
const HELD_PARTS: u32 = 8;
/// How long accepting rests when the process is out of file descriptors.
const ACCEPT_REST: Duration = Duration::from_millis(100);
/// How often it is looked whose process has ended, if anybody connects.
const SWEEP_EVERY: Duration = Duration::from_secs(10);

/// A process of a program, with its start where that is known.
type Member = (Pid, StartTicks);

/// Whose processes they are, and who pays for what is given to them.
#[derive(Clone, Copy, Debug)]
struct User {
    uid: u32,
    payer: u32,
}

/// All rows; copies are the same ones.
#[derive(Clone, Debug)]
pub(crate) struct Rows {
    rows: Arc<Mutex<BTreeMap<Pid, Row>>>,
    reader: Reader,
    ranks: Ranks,
}

#[derive(Debug)]
struct Row {
    start: StartTicks,
    uid: u32,
    /// Whose row it counts as.
    payer: u32,
    rank: Rank,
    file: File,
    /// Counters as they were read last.
    seen: Vec<u64>,
}

impl Row {
    fn new(start: StartTicks, user: User, pid: Pid, rank: Rank, size: u32) -> nix::Result<Self> {
        let words = HEAD_WORDS + size as usize * PEER_WORDS;
        let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
        let file = File::from(memfd_create(c"numad-mpi", flags)?);
        let errno = |_refused| nix::errno::Errno::ENOMEM;
        let length = u64::try_from(words * WORD).unwrap_or(u64::MAX);
        file.set_len(length).map_err(errno)?;
        let head = [MAGIC, rank.rank.into(), size.into(), pid.0.into()];
        let head: Vec<u8> = head.iter().flat_map(|word| word.to_ne_bytes()).collect();
        file.write_all_at(&head, 0).map_err(errno)?;
        let seals = SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_SEAL;
        fcntl(&file, FcntlArg::F_ADD_SEALS(seals))?;
        Ok(Self {
            start,
            uid: user.uid,
            payer: user.payer,
            rank,
            file,
            seen: vec![0; size as usize * PEER_WORDS],
        })
    }

    /// Its counters now: whatever its rank has written there.
    fn counters(&self) -> Vec<u64> {
        let mut bytes = vec![0; self.seen.len() * WORD];
        let at = u64::try_from(HEAD_WORDS * WORD).unwrap_or(u64::MAX);
        if self.file.read_exact_at(&mut bytes, at).is_err() {
            return self.seen.clone();
        }
        let (words, _) = bytes.as_chunks::<WORD>();
        words.iter().map(|word| u64::from_ne_bytes(*word)).collect()
    }

    /// What was added since the last reading. A counter that fell counts from where it is.
    fn growth(&mut self) -> Vec<u64> {
        let now = self.counters();
        let grown = now.iter().zip(&self.seen);
        let grown = grown.map(|(now, seen)| now.saturating_sub(*seen)).collect();
        self.seen = now;
        grown
    }
}

impl Rows {
    pub(super) fn new(reader: Reader, ranks: Ranks) -> Self {
        Self {
            rows: Arc::default(),
            ranks,
            reader,
        }
    }

    fn locked(&self) -> MutexGuard<'_, BTreeMap<Pid, Row>> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives rows to whoever may ask and is a rank, for ever, on a thread of its own.
    ///
    /// # Errors
    /// When there is no thread to be had.
    pub(crate) fn serve(
        self,
        listener: UnixListener,
        gate: watch::Receiver<Gate>,
        log: Log,
    ) -> std::io::Result<()> {
        listener.set_nonblocking(false)?;
        let mut door = Door::new(Instant::now());
        let mut swept = Instant::now();
        let serve = move || {
            loop {
                let given = match listener.accept() {
                    Ok((stream, _)) => self.welcome(&stream, &gate.borrow().clone(), &mut door),
                    Err(error) => {
                        thread::sleep(ACCEPT_REST);
                        Err(error.to_string())
                    }
                };
                if let Err(why) = given {
                    log.debug(format_args!("no row for an MPI program: {why}"));
                }
                if swept.elapsed() >= SWEEP_EVERY {
                    self.sweep();
                    swept = Instant::now();
                }
            }
        };
        thread::Builder::new().name("mpi".to_owned()).spawn(serve)?;
        Ok(())
    }

    /// Sends whoever is at the other end its row, unless its user may not come in, or not so soon.
    fn welcome(&self, stream: &UnixStream, gate: &Gate, door: &mut Door) -> Result<(), String> {
        let (pid, peer) = match door.enters(stream, gate) {
            Ok(entered) => entered,
            Err(why) => {
                thread::sleep(door.hurried.turned_away(Instant::now()));
                return Err(why);
            }
        };
        let (began, before) = (Instant::now(), thread_processor_time());
        let user = User {
            uid: peer.uid,
            payer: gate.access.payer(peer.uid),
        };
        let given = self.give(stream, pid, user);
        let worked = thread_processor_time().saturating_sub(before);
        let cost = worked.max(began.elapsed() / HELD_PARTS);
        door.took(user.payer, Instant::now(), cost, &gate.limits);
        given
    }

    /// Sends a process of a user its row.
    fn give(&self, stream: &UnixStream, pid: Pid, user: User) -> Result<(), String> {
        self.make(pid, user)?;
        let rows = self.locked();
        let row = rows.get(&pid).ok_or("it is gone")?;
        let files = [row.file.as_raw_fd()];
        let rights = [ControlMessage::ScmRights(&files)];
        let (byte, flags) = (
            [IoSlice::new(&[1])],
            MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL,
        );
        let sent = sendmsg::<UnixAddr>(stream.as_raw_fd(), &byte, &rights, flags, None);
        sent.map(drop).map_err(|error| error.to_string())
    }

    /// Makes the row of a process, if it has none.
    fn make(&self, pid: Pid, user: User) -> Result<(), String> {
        let User { uid, payer } = user;
        let process = self
            .reader
            .process(pid)
            .map_err(|error| error.to_string())?;
        let process = process.here().ok_or("it has ended")?;
        // The process may have ended, and another have its number: then that is of the same user, or gets nothing.
        if !process.rights.uids.all(uid) {
            return Err(format!("process {pid} is not user {uid}'s alone"));
        }
        let has = |rows: &BTreeMap<Pid, Row>| {
            let row = rows.get(&pid);
            row.is_some_and(|row| row.start == process.start)
        };
        if has(&self.locked()) {
            return Ok(());
        }
        let rank = self.ranks.of(&[pid]).remove(&pid);
        let rank = rank.ok_or("its environment does not say that it is a rank")?;
        let size = rank
            .size
            .ok_or("its environment does not say how many ranks there are")?;
        if size > SIZE_MAX {
            return Err(format!("{size} ranks are more than {SIZE_MAX}"));
        }
        if !has_room_for(&self.locked(), payer, size) {
            self.sweep();
        }
        let mut rows = self.locked();
        if !has_room_for(&rows, payer, size) {
            let own = rows.values().filter(|row| row.payer == payer).count();
            let all = rows.len();
            return Err(format!("user {payer} has {own} rows of {all}"));
        }
        let row = Row::new(process.start, user, pid, rank, size);
        rows.insert(pid, row.map_err(|error| error.to_string())?);
        Ok(())
    }

    /// Drops the rows of processes that have ended.
    fn sweep(&self) {
        let known: Vec<(Pid, StartTicks)> = {
            let rows = self.locked();
            rows.iter().map(|(pid, row)| (*pid, row.start)).collect()
        };
        let is_gone = |&(pid, start): &(Pid, StartTicks)| {
            let now = self.reader.process_start(pid).ok();
            now.is_some_and(|now| now != Presence::Here(start))
        };
        let gone: Vec<_> = known.into_iter().filter(is_gone).collect();
        let mut rows = self.locked();
        for (pid, start) in gone {
            if rows.get(&pid).is_some_and(|row| row.start == start) {
                rows.remove(&pid);
            }
        }
    }

    /// What these processes sent each other since they were asked last.
    pub(crate) fn sent(&self, members: &[Member]) -> Vec<Sent> {
        let mut rows = self.locked();
        let jobs = Jobs::of(&rows, members);
        let mut sent = Vec::new();
        for &(from, start) in members {
            let Some(row) = rows.get_mut(&from).filter(|row| row.start == start) else {
                continue;
            };
            let grown = row.growth();
            let (peers, _) = grown.as_chunks::<PEER_WORDS>();
            for (to, [bytes, messages, modelled, calls]) in jobs.partners(row, peers) {
                let messages = messages.saturating_add(*calls);
                if messages > 0 {
                    sent.push(Sent {
                        from,
                        to,
                        bytes: bytes.saturating_add(*modelled),
                        messages,
                    });
                }
            }
        }
        sent
    }

    /// What these processes sent each other since they began, by job and rank.
    pub(crate) fn totals(&self, members: &[Member]) -> Messages {
        let rows = self.locked();
        let jobs = Jobs::of(&rows, members);
        let mut order: Vec<(Pid, &Row)> = own(&rows, members).collect();
        order.sort_by_key(|(_, row)| (&row.rank.job, row.rank.rank));
        let pids: Vec<Pid> = order.iter().map(|(pid, _)| *pid).collect();
        let mut messages = Messages {
            ranks: order.iter().map(|(_, row)| row.rank.rank).collect(),
            peers: Vec::new(),
            pids,
        };
        for (_, row) in &order {
            let counters = row.counters();
            let (peers, _) = counters.as_chunks::<PEER_WORDS>();
            let known: BTreeMap<Pid, &[u64; PEER_WORDS]> = jobs.partners(row, peers).collect();
            let of_each = messages.pids.iter();
            let of_each =
                of_each.map(|pid| known.get(pid).map_or([0; PEER_WORDS], |counts| **counts));
            messages.peers.push(of_each.collect());
        }
        messages
    }
}

/// Who is at the other end of a connection.
fn witness(stream: &UnixStream) -> Result<(Pid, Credentials), String> {
    let peer = getsockopt(stream, PeerCredentials).map_err(|error| error.to_string())?;
    let pid = u32::try_from(peer.pid()).map_err(|error| error.to_string())?;
    let credentials = Credentials {
        uid: peer.uid(),
        gid: peer.gid(),
    };
    Ok((Pid(pid), credentials))
}

/// Who may come in now, by what each user has taken lately.
#[derive(Debug)]
struct Door {
    pace: Pace,
    hurried: Hurried,
}

impl Door {
    fn new(now: Instant) -> Self {
        Self {
            pace: Pace::default(),
            hurried: Hurried::new(now),
        }
    }

    /// Who comes in, or why they do not.
    fn enters(&self, stream: &UnixStream, gate: &Gate) -> Result<(Pid, Peer), String> {
        let (pid, credentials) = witness(stream)?;
        let judged = gate.access.judge(credentials);
        let peer = judged.map_err(|failure| failure.to_string())?;
        let payer = gate.access.payer(peer.uid);
        match peer.admin || self.is_open_to(payer, Instant::now()) {
            true => Ok((pid, peer)),
            false => Err(format!("user {} connects too fast", peer.uid)),
        }
    }

    /// Users may borrow much: all ranks of a job come at once, and one that is turned away is not
    /// counted for as long as it runs.
    fn is_open_to(&self, payer: u32, now: Instant) -> bool {
        self.pace.owed(payer, now) < DEBT_MAX
    }

    /// Counts the processor time that somebody took who came in.
    fn took(&self, payer: u32, now: Instant, cost: Duration, limits: &config::Limits) {
        let cost = cost.max(COST_MIN);
        self.pace.took(payer, now, cost, limits);
    }
}

/// Whether a user may have one more row, of so many ranks.
fn has_room_for(rows: &BTreeMap<Pid, Row>, payer: u32, size: u32) -> bool {
    let own = rows.values().filter(|row| row.payer == payer);
    has_room(rows.values(), ROWS_MAX.min(most()), size, BYTES_MAX)
        && has_room(own, USER_ROWS_MAX.min(most() / 2), size, USER_BYTES_MAX)
}

/// Most rows by descriptors.
fn most() -> usize {
    descriptors::limit() / DESCRIPTORS_PART
}

/// Whether one more row, of so many ranks, is within these limits.
fn has_room<'a>(
    rows: impl Iterator<Item = &'a Row>,
    rows_max: usize,
    size: u32,
    bytes_max: usize,
) -> bool {
    let (mut count, mut bytes) = (1, size as usize * PEER_WORDS * WORD);
    for row in rows {
        count += 1;
        bytes += row.seen.len() * WORD;
    }
    count <= rows_max && bytes <= bytes_max
}

/// Rows of these processes.
fn own<'a>(
    rows: &'a BTreeMap<Pid, Row>,
    members: &'a [Member],
) -> impl Iterator<Item = (Pid, &'a Row)> {
    members.iter().filter_map(|&(pid, start)| {
        let row = rows.get(&pid).filter(|row| row.start == start)?;
        Some((pid, row))
    })
}

/// Which process is which rank of each job of each user.
struct Jobs(BTreeMap<(u32, JobId), BTreeMap<usize, Pid>>);

impl Jobs {
    fn of(rows: &BTreeMap<Pid, Row>, members: &[Member]) -> Self {
        let mut jobs: BTreeMap<(u32, JobId), BTreeMap<usize, Pid>> = BTreeMap::new();
        for (pid, row) in own(rows, members) {
            let job = (row.uid, row.rank.job.clone());
            jobs.entry(job)
                .or_default()
                .insert(row.rank.rank as usize, pid);
        }
        Self(jobs)
    }

    /// What stands in a row for the processes that are there. A row may have places for 4,096 ranks
    /// of which two are there, so it is the processes that are gone through.
    fn partners<'a>(
        &'a self,
        row: &Row,
        peers: &'a [[u64; PEER_WORDS]],
    ) -> impl Iterator<Item = (Pid, &'a [u64; PEER_WORDS])> {
        let job = self.0.get(&(row.uid, row.rank.job.clone()));
        let there = job.into_iter().flatten();
        there.filter_map(|(&rank, &pid)| Some((pid, peers.get(rank)?)))
    }
}

#[cfg(test)]
mod tests {
    use procfs::Launcher;

    use super::*;

    const USER: User = User {
        uid: 100_001,
        payer: 7,
    };

    fn rows(size: u32, pids: impl IntoIterator<Item = u32>) -> (Rows, Vec<Member>) {
        let reader = Reader::new("/nowhere");
        let rows = Rows::new(reader.clone(), Ranks::new(reader));
        let mut members = Vec::new();
        for (number, pid) in (0..).zip(pids) {
            let (pid, start) = (Pid(pid), StartTicks(7));
            let rank = Rank {
                job: JobId::new("job").unwrap(),
                rank: number,
                size: Some(size),
                launcher: Launcher::OpenMpi,
            };
            let row = Row::new(start, USER, pid, rank, size).unwrap();
            rows.locked().insert(pid, row);
            members.push((pid, start));
        }
        (rows, members)
    }

    /// As its rank does, through a descriptor of its own.
    fn write(rows: &Rows, pid: u32, peer: usize, counts: [u64; PEER_WORDS]) {
        let rows = rows.locked();
        let bytes: Vec<u8> = counts.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let at = (HEAD_WORDS + peer * PEER_WORDS) * WORD;
        let file = &rows[&Pid(pid)].file;
        file.write_all_at(&bytes, u64::try_from(at).unwrap())
            .unwrap();
    }

    #[test]
    fn what_was_sent_is_told_once() {
        let (rows, members) = rows(2, [10, 20]);
        write(&rows, 10, 1, [100, 2, 8, 1]);
        let sent = |bytes, messages| Sent {
            from: Pid(10),
            to: Pid(20),
            bytes,
            messages,
        };
        assert_eq!(rows.sent(&members), [sent(108, 3)]);
        assert_eq!(rows.sent(&members), []);
        write(&rows, 10, 1, [150, 3, 8, 1]);
        assert_eq!(rows.sent(&members), [sent(50, 1)]);
        let totals = rows.totals(&members);
        assert_eq!(totals.peers[0], [[0; 4], [150, 3, 8, 1]]);
        assert_eq!(
            (totals.pids, totals.ranks),
            (vec![Pid(10), Pid(20)], vec![0, 1])
        );
    }

    #[test]
    fn ranks_that_are_not_there_cost_nothing() {
        let (rows, members) = rows(SIZE_MAX, [10, 20]);
        write(&rows, 10, 1, [100, 2, 0, 0]);
        write(&rows, 10, 4_000, [100, 2, 0, 0]);
        {
            let rows = rows.locked();
            let jobs = Jobs::of(&rows, &members);
            for row in rows.values() {
                let counters = row.counters();
                let (peers, _) = counters.as_chunks::<PEER_WORDS>();
                assert_eq!(peers.len(), 4_096);
                assert_eq!(jobs.partners(row, peers).count(), 2);
            }
        }
        assert_eq!(rows.sent(&members).len(), 1);
    }

    #[test]
    fn another_of_the_same_number_is_not_of_the_program() {
        let (rows, mut members) = rows(2, [10, 20]);
        write(&rows, 10, 1, [100, 2, 0, 0]);
        members[1].1 = StartTicks(8);
        assert_eq!(rows.sent(&members), []);
        assert_eq!(rows.totals(&members).pids, [Pid(10)]);
    }

    #[test]
    fn two_hundred_ranks_of_garbage_are_lies_about_themselves() {
        let (rows, members) = rows(200, 1000..1200);
        let mut seed = 1u64;
        let mut dice = || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            seed | (seed << 32)
        };
        for _ in 0..3 {
            for pid in 1000..1199 {
                for peer in 0..200 {
                    let most = u64::MAX * u64::from(peer % 3 == 0);
                    write(
                        &rows,
                        pid,
                        peer,
                        [dice() | most, dice(), dice() | most, dice()],
                    );
                }
            }
            let sent = rows.sent(&members);
            assert!(!sent.is_empty());
            // The one that is honest has sent nothing.
            assert!(sent.iter().all(|sent| sent.from != Pid(1199)));
        }
        assert_eq!(rows.totals(&members).peers[199], vec![[0; 4]; 200]);
    }

    #[test]
    fn who_connects_endlessly_is_turned_away_and_nobody_else() {
        let limits = config::Config::default().limits;
        let began = Instant::now();
        let (door, mut now, mut spent) = (Door::new(began), began, Duration::ZERO);
        while now - began < Duration::from_secs(60) {
            let cost = Duration::from_micros(150);
            if door.is_open_to(7, now) {
                spent += cost;
                now += cost;
                door.took(7, now, cost, &limits);
            } else {
                now += Duration::from_micros(20);
            }
        }
        // What may be borrowed, and 5 % of a minute.
        assert!((3.4..3.6).contains(&spent.as_secs_f64()), "{spent:?}");
        // All ranks of a job of another user come in at once.
        for uid in [8, 9] {
            for _ in 0..USER_ROWS_MAX {
                assert!(door.is_open_to(uid, now));
                door.took(uid, now, Duration::from_micros(900), &limits);
            }
        }
    }

    #[test]
    fn rows_have_a_limit_in_number_and_in_memory() {
        let (rows, _) = rows(4, [10, 20]);
        let rows = rows.locked();
        let each = 4 * PEER_WORDS * WORD;
        assert!(has_room(rows.values(), 3, 4, 3 * each));
        assert!(!has_room(rows.values(), 2, 4, 3 * each));
        assert!(!has_room(rows.values(), 3, 5, 3 * each));
        assert!(!has_room(rows.values(), 3, u32::MAX, USER_BYTES_MAX));
    }

    #[test]
    fn nobody_cuts_a_row_or_makes_it_grow() {
        let (rows, _) = rows(2, [10]);
        let rows = rows.locked();
        let file = &rows[&Pid(10)].file;
        file.set_len(0).unwrap_err();
        file.set_len(1 << 30).unwrap_err();
        fcntl(file, FcntlArg::F_ADD_SEALS(SealFlag::F_SEAL_WRITE)).unwrap_err();
        assert_eq!(rows[&Pid(10)].counters().len(), 2 * PEER_WORDS);
    }
}
