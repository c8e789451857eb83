//! `numad -w`: which nodes a guest of some processors and some memory should have.
//!
//! libvirt asks this of the program `numad` when a guest has automatic placement, and reads a list
//! of nodes from its output. The answer needs no daemon. A daemon that runs tells what its
//! attachments use, which the kernel shows only while they run.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Read, Write};
use std::path::Path;
use std::str::FromStr;
use std::thread;
use std::time::Duration;

use control::rows::{AttachmentDetail, Status};
use control::{ErrorKind, Failure};
use procfs::{NodeMemory, ProcessorTime, Reader};
use topology::{CpuId, NodeId, NodeSet, Topology};

use crate::socket::connect_at_once;

/// What a guest needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Need {
    /// Virtual processors.
    pub cpus: u32,
    /// Memory in MiB; 0 when it does not matter.
    pub mib: u64,
}

/// Most processors that may be asked for: as many as a kernel can number.
const CPUS_MAX: u32 = 1 << 16;
/// Most memory that may be asked for: 64 PiB.
const MIB_MAX: u64 = 1 << 36;

impl FromStr for Need {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (cpus, mib) = text.split_once(':').unwrap_or((text, "0"));
        let cpus = cpus
            .parse()
            .ok()
            .filter(|cpus| (1..=CPUS_MAX).contains(cpus));
        let mib = mib.parse().ok().filter(|&mib| mib <= MIB_MAX);
        cpus.zip(mib)
            .map(|(cpus, mib)| Self { cpus, mib })
            .ok_or_else(|| {
                format!(
                    "expected processors from 1 to {CPUS_MAX} and, if it matters, MiB of memory up to \
                     {MIB_MAX}, as in 4 or 4:8192"
                )
            })
    }
}

/// What a node has left.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Room {
    /// The node.
    pub node: NodeId,
    /// Its processors.
    pub cpus: f64,
    /// Processors that nobody uses.
    pub cpus_free: f64,
    /// Its memory in MiB.
    pub mib: u64,
    /// Memory in MiB that is free or that the kernel can free at once.
    pub mib_free: u64,
}

/// The fewest nodes that have what is needed, near each other; of several such sets the one with
/// most processors left.
///
/// Where not even all nodes together have it free, loads are left out of account; where they do not
/// have it at all, the answer is every node that has processors or memory.
#[must_use]
pub fn nodes_for(need: Need, rooms: &[Room], distance: impl Fn(NodeId, NodeId) -> u32) -> NodeSet {
    let empty: Vec<Room> = rooms
        .iter()
        .map(|room| Room {
            cpus_free: room.cpus,
            mib_free: room.mib,
            ..*room
        })
        .collect();
    [rooms, &empty]
        .into_iter()
        .find_map(|rooms| fewest(need, rooms, &distance))
        .unwrap_or_else(|| rooms.iter().map(|room| room.node).collect())
}

/// The best set that has what is needed.
fn fewest(
    need: Need,
    rooms: &[Room],
    distance: &impl Fn(NodeId, NodeId) -> u32,
) -> Option<NodeSet> {
    let sets = rooms
        .iter()
        .filter(|first| first.cpus > 0.0)
        .filter_map(|first| grown(need, first, rooms, distance));
    let best = sets.min_by(|one, other| {
        let spread = |set: &[&Room]| -> u64 {
            let pairs = set
                .iter()
                .flat_map(|a| set.iter().map(move |b| (a.node, b.node)));
            pairs.map(|(a, b)| u64::from(distance(a, b))).sum()
        };
        let left = |set: &[&Room]| set.iter().map(|room| room.cpus_free).sum::<f64>();
        let spare = |set: &[&Room]| set.iter().map(|room| room.mib_free).sum::<u64>();
        (one.len().cmp(&other.len()))
            .then(spread(one).cmp(&spread(other)))
            .then(left(other).total_cmp(&left(one)))
            .then(spare(other).cmp(&spare(one)))
    })?;
    Some(best.iter().map(|room| room.node).collect())
}

/// The set that begins with this node and takes in the nearest that has what is still lacking.
fn grown<'a>(
    need: Need,
    first: &'a Room,
    rooms: &'a [Room],
    distance: &impl Fn(NodeId, NodeId) -> u32,
) -> Option<Vec<&'a Room>> {
    let mut set = vec![first];
    loop {
        let cpus: f64 = set.iter().map(|room| room.cpus_free).sum();
        let mib: u64 = set.iter().map(|room| room.mib_free).sum();
        // A processor that is less than half busy counts as free: none is ever wholly idle.
        let lacks_cpus = cpus.round() < f64::from(need.cpus);
        let lacks_memory = mib < need.mib;
        if !lacks_cpus && !lacks_memory {
            return Some(set);
        }
        let helps = |room: &&Room| {
            let new = set.iter().all(|member| member.node != room.node);
            new && (lacks_cpus && room.cpus_free > 0.0 || lacks_memory && room.mib_free > 0)
        };
        let next = rooms.iter().filter(helps).min_by(|one, other| {
            let far = |room: &Room| distance(first.node, room.node);
            (far(one).cmp(&far(other)))
                .then(other.cpus_free.total_cmp(&one.cpus_free))
                .then(other.mib_free.cmp(&one.mib_free))
        })?;
        set.push(next);
    }
}

/// Time over which processors are looked at.
const LOOK: Duration = Duration::from_millis(300);

/// The advice for this machine, as libvirt reads it: a list of nodes such as `0-1,3`.
///
/// # Errors
/// When the machine cannot be read.
pub fn advice(
    need: Need,
    topology: &Topology,
    reader: &Reader,
    socket: &Path,
) -> Result<String, Failure> {
    let unreadable = |error: &dyn fmt::Display| {
        Failure::new(
            ErrorKind::Prerequisite,
            format!("the load cannot be read: {error}"),
        )
        .remedy("mount /proc and /sys")
    };
    let times = || reader.processor_times().map_err(|error| unreadable(&error));
    let before = times()?;
    thread::sleep(LOOK);
    let after = times()?;
    let memory = reader.node_memory().map_err(|error| unreadable(&error))?;
    let attached = attached(socket).unwrap_or_default();
    let rooms = rooms(topology, &memory, &busy(&before, &after), &attached);
    let distances = topology.distances();
    let index = |node| topology.nodes().iter().position(|known| known.id == node);
    let set = nodes_for(need, &rooms, |from, to| match (index(from), index(to)) {
        (Some(from), Some(to)) => distances.row(from)[to],
        _ => u32::MAX,
    });
    Ok(set.to_string())
}

/// Share of the time that each processor was busy.
fn busy(
    before: &BTreeMap<CpuId, ProcessorTime>,
    after: &BTreeMap<CpuId, ProcessorTime>,
) -> BTreeMap<CpuId, f64> {
    let share = |(cpu, time): (&CpuId, &ProcessorTime)| {
        let share = time.share_since(before.get(cpu)?)?;
        Some((*cpu, share))
    };
    after.iter().filter_map(share).collect()
}

/// What each node has left: processors are used by what runs there, or by threads that the daemon
/// put there, whichever is more.
fn rooms(
    topology: &Topology,
    memory: &[NodeMemory],
    busy: &BTreeMap<CpuId, f64>,
    attached: &BTreeMap<NodeId, f64>,
) -> Vec<Room> {
    let usable = topology.usable();
    let room = |node: &topology::Node| {
        let cpus = node.cpus.intersection(&usable);
        let all = f64::from(u32::try_from(cpus.len()).unwrap_or(u32::MAX));
        let running: f64 = cpus.iter().filter_map(|cpu| busy.get(&cpu)).sum();
        let ours = attached.get(&node.id).copied().unwrap_or(0.0);
        let told = memory.iter().find(|told| told.node == node.id);
        let (total, free) = told.map_or((node.memory_bytes, node.memory_bytes), |told| {
            (
                told.total_bytes,
                told.free_bytes.saturating_add(told.droppable_bytes()),
            )
        });
        Room {
            node: node.id,
            cpus: all,
            cpus_free: (all - running.max(ours)).max(0.0),
            mib: total >> 20,
            mib_free: free.min(total) >> 20,
        }
    };
    topology.nodes().iter().map(room).collect()
}

/// Processors that attached threads use, by the node that the daemon placed them on. An error when
/// no daemon answers.
fn attached(socket: &Path) -> io::Result<BTreeMap<NodeId, f64>> {
    let status: Status = ask(socket, "/v1/status")?;
    let mut used = BTreeMap::new();
    for attachment in status.attachments {
        let detail: AttachmentDetail = ask(socket, &format!("/v1/attachments/{}", attachment.id))?;
        for thread in detail.threads {
            if let Some(node) = thread.placed {
                *used.entry(NodeId(node)).or_default() += thread.busy;
            }
        }
    }
    Ok(used)
}

/// Longest wait for a daemon; libvirt waits meanwhile.
const PATIENCE: Duration = Duration::from_secs(1);
/// Most bytes of an answer that are read.
const ANSWER_MAX: u64 = 64 << 20;

/// Asks the daemon for one document.
fn ask<T: serde::de::DeserializeOwned>(socket: &Path, path: &str) -> io::Result<T> {
    // As `numadctl`: users cannot crowd the admins' own socket.
    let mut stream = connect_at_once(&control::admin_socket(socket))
        .or_else(|_refused| connect_at_once(socket))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: numad\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    stream.take(ANSWER_MAX).read_to_end(&mut answer)?;
    let body = answer
        .windows(4)
        .position(|window| window == b"\r\n\r\n")
        .map(|at| &answer[at + 4..])
        .filter(|_| answer.starts_with(b"HTTP/1.1 200 "))
        .ok_or_else(|| io::Error::other("no answer"))?;
    serde_json::from_slice(body).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    /// Four nodes in a ring: 10, 20 to neighbours, 30 across.
    fn ring(from: NodeId, to: NodeId) -> u32 {
        [10, 20, 30, 20][from.0.abs_diff(to.0) as usize % 4]
    }

    fn rooms_of(free: &[(f64, u64)]) -> Vec<Room> {
        let room = |(node, &(cpus_free, mib_free)): (u32, &(f64, u64))| Room {
            node: NodeId(node),
            cpus: if cpus_free < 0.0 { 0.0 } else { 4.0 },
            cpus_free: cpus_free.max(0.0),
            mib: 1000,
            mib_free,
        };
        (0..).zip(free).map(room).collect()
    }

    /// Whichever of its two sockets can be opened.
    #[test]
    fn a_daemon_is_asked_over_the_admins_socket_first() {
        let scratch = crate::scratch::Scratch::new("advise");
        let socket = scratch.path().join("numad.sock");
        let everyone = UnixListener::bind(&socket).unwrap();
        for admins in [true, false] {
            let own = control::admin_socket(&socket);
            let listener = match admins {
                true => UnixListener::bind(&own).unwrap(),
                false => everyone.try_clone().unwrap(),
            };
            let answers = thread::spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                let asked = stream.read(&mut [0; 1024]).unwrap();
                write!(stream, "HTTP/1.1 200 OK\r\n\r\n{asked}").unwrap();
            });
            let asked: usize = ask(&socket, "/v1/status").unwrap();
            assert!(asked > 0);
            answers.join().unwrap();
            if admins {
                std::fs::remove_file(own).unwrap();
            }
        }
    }

    #[track_caller]
    fn check(need: &str, free: &[(f64, u64)], wanted: &str) {
        let set = nodes_for(need.parse().unwrap(), &rooms_of(free), ring);
        assert_eq!(set.to_string(), wanted, "{need} of {free:?}");
    }

    #[test]
    fn the_fewest_nodes_near_each_other_are_advised() {
        let idle = [(4.0, 900); 4];
        check("1", &idle, "0");
        check("4:900", &idle, "0");
        check("5", &idle, "0-1");
        check("4:901", &idle, "0-1");
        check("16:3600", &idle, "0-3");
        // The node with most left, by processors and then by memory.
        check(
            "2:100",
            &[(1.0, 900), (2.0, 900), (3.5, 900), (2.0, 900)],
            "2",
        );
        check(
            "2:100",
            &[(4.0, 800), (4.0, 900), (4.0, 850), (4.0, 100)],
            "1",
        );
        // Memory decides where it is short.
        check(
            "2:600",
            &[(4.0, 500), (4.0, 500), (4.0, 500), (2.0, 700)],
            "3",
        );
        // Neighbours rather than nodes that have more.
        check(
            "6",
            &[(4.0, 900), (3.0, 900), (4.0, 900), (0.0, 900)],
            "0-1",
        );
        check(
            "6",
            &[(0.0, 900), (4.0, 900), (0.0, 900), (4.0, 900)],
            "1,3",
        );
        // Nearly idle is idle.
        check(
            "4:100",
            &[(3.4, 900), (3.6, 900), (3.4, 900), (3.4, 900)],
            "1",
        );
    }

    #[test]
    fn more_than_is_free_is_answered_by_what_there_is() {
        let full = [(0.0, 10), (0.0, 10), (1.0, 10), (0.0, 10)];
        check("4:900", &full, "0");
        check("8", &full, "0-1");
        check("100:100000", &full, "0-3");
        // A node of memory alone never stands first, and helps where memory lacks.
        check(
            "1:1500",
            &[(4.0, 900), (-1.0, 900), (0.0, 0), (0.0, 0)],
            "0-1",
        );
        check("1:100", &[(-1.0, 900), (4.0, 200), (0.0, 0), (0.0, 0)], "1");
    }

    #[test]
    fn what_is_no_need_is_refused() {
        for text in [
            "",
            "0",
            "x",
            "4:",
            "4:x",
            "4:1:2",
            "-1",
            "65537",
            "4:68719476737",
            "4 ",
            ":5",
        ] {
            text.parse::<Need>().unwrap_err();
        }
        let need: Need = "65536:68719476736".parse().unwrap();
        assert_eq!((need.cpus, need.mib), (1 << 16, 1 << 36));
    }

    #[test]
    fn attached_threads_count_where_they_were_put() {
        let topology = topology::load("2x2@10,20").unwrap();
        let busy = BTreeMap::from([(CpuId(0), 0.5), (CpuId(1), 0.0), (CpuId(2), 0.25)]);
        let attached = BTreeMap::from([(NodeId(0), 0.25), (NodeId(1), 1.5)]);
        let rooms = rooms(&topology, &[], &busy, &attached);
        let free: Vec<f64> = rooms.iter().map(|room| room.cpus_free).collect();
        assert_eq!(free, [1.5, 0.5]);
        // More threads than processors leave none, not less than none.
        let crowded = BTreeMap::from([(NodeId(1), 9.0)]);
        let rooms = super::rooms(&topology, &[], &busy, &crowded);
        assert!(rooms[1].cpus_free.abs() < 1e-9);
    }
}
