//! Ranks of MPI jobs among the processes of programs: who says that it is one, and following jobs that spawn.
//!
//! A process may say of itself what it likes. What it says is shown, and it is what `--job` goes by; but every
//! process that comes in that way meets the rules of attaching by itself, and a job is one user's.

use std::collections::{BTreeMap, BTreeSet};

use actuator::ProcessKey;
use control::rows::{Matrix, RankRow, Target};
use control::{ErrorKind, Failure};
use numad_core::{AttachmentId, Record, Time};
use procfs::Rank;
use topology::{Pid, StartTicks, TaskKey};

use super::Steward;
use super::seams::ProcessFacts;
use crate::peer::Peer;

/// Launchers of one program whose children are looked through; each has those of one machine.
const LAUNCHERS_MAX: usize = 16;

/// Processes that are asked for their job at once.
const ASKED_MAX: usize = 256;

/// The first process of the system, which takes over the children of those that end.
const INIT: Pid = Pid(1);

/// The ranks of one program.
#[derive(Debug, Default)]
pub(super) struct Ranks {
    known: BTreeMap<Pid, Rank>,
    /// Present where the program was named by its job.
    job: Option<Job>,
}

/// What is followed.
#[derive(Debug)]
struct Job {
    /// What it has in common with jobs that it spawns.
    family: String,
    uid: u32,
    /// Who starts its ranks, each with its own start.
    launchers: BTreeMap<Pid, StartTicks>,
    /// Children of those that are no ranks of it, so that each is asked once.
    others: BTreeSet<Pid>,
}

impl Ranks {
    /// Forgets those that are not among these.
    pub(super) fn retain(&mut self, alive: &BTreeSet<Pid>) {
        self.known.retain(|pid, _| alive.contains(pid));
    }

    pub(super) fn remove(&mut self, pid: Pid) {
        self.known.remove(&pid);
    }

    /// By job and rank.
    pub(super) fn rows(&self) -> Vec<RankRow> {
        let rows = self.known.iter().map(|(pid, rank)| RankRow {
            job: rank.job.to_string(),
            rank: rank.rank,
            size: rank.size,
            pid: pid.0,
            launcher: rank.launcher.to_string(),
        });
        let mut rows: Vec<RankRow> = rows.collect();
        rows.sort_by(|a, b| (&a.job, a.rank, a.pid).cmp(&(&b.job, b.rank, b.pid)));
        rows
    }
}

impl Steward {
    /// Learns which processes of a program that was just attached are ranks, and follows what was named by its job.
    pub(super) fn begin_ranks(&mut self, id: AttachmentId, pids: &[Pid], target: &Target) {
        self.note_ranks(id, pids);
        if let Target::Job(_) = target {
            self.follow_job(id);
        }
    }

    /// Learns which of these processes of a program are ranks.
    pub(super) fn note_ranks(&mut self, id: AttachmentId, pids: &[Pid]) {
        if pids.is_empty() {
            return;
        }
        let found = self.parts.machine.ranks(pids);
        if let Some(program) = self.programs.get_mut(&id) {
            pids.iter().for_each(|pid| program.ranks.remove(*pid));
            program.ranks.known.extend(found);
        }
    }

    /// These processes started another program, and with it have another environment.
    pub(super) fn renamed(&mut self, started: &[Pid]) {
        let mut by_program: BTreeMap<AttachmentId, Vec<Pid>> = BTreeMap::new();
        for &pid in started {
            if let Some(id) = self.members.program_of(pid) {
                by_program.entry(id).or_default().push(pid);
            }
        }
        for (id, pids) in by_program {
            self.note_ranks(id, &pids);
        }
    }

    /// Has a program that was named by its job followed.
    fn follow_job(&mut self, id: AttachmentId) {
        let Some(program) = self.programs.get_mut(&id) else {
            return;
        };
        let Some(family) = program.ranks.known.values().next() else {
            return;
        };
        let family = family.job.family();
        let machine = &mut self.parts.machine;
        let mut launchers = BTreeMap::new();
        for &(pid, _) in self.members.named(id) {
            let Some(parent) = machine.parent(pid).filter(|parent| *parent != INIT) else {
                continue;
            };
            if launchers.len() < LAUNCHERS_MAX
                && let Ok(Some(process)) = machine.process(parent)
            {
                launchers.insert(parent, process.start);
            }
        }
        program.ranks.job = Some(Job {
            family,
            uid: program.uid,
            launchers,
            others: BTreeSet::new(),
        });
    }

    /// Takes in ranks that a followed job has spawned since the last look.
    pub(super) fn spawned(&mut self, id: AttachmentId) {
        let asked = self.spawn_candidates(id);
        if asked.is_empty() {
            return;
        }
        let found = self.parts.machine.ranks(&asked);
        let Some(job) = self.job_of(id) else {
            return;
        };
        let family = job.family.clone();
        job.others.extend(&asked);
        for (pid, rank) in found {
            if rank.job.family() == family
                && self.take_in(id, pid)
                && let Some(program) = self.programs.get_mut(&id)
            {
                program.ranks.known.insert(pid, rank);
            }
        }
    }

    fn job_of(&mut self, id: AttachmentId) -> Option<&mut Job> {
        self.programs.get_mut(&id)?.ranks.job.as_mut()
    }

    /// Children of the launchers that have not been asked yet.
    fn spawn_candidates(&mut self, id: AttachmentId) -> Vec<Pid> {
        let Some(program) = self.programs.get_mut(&id) else {
            return Vec::new();
        };
        let members = &self.members;
        let Some(job) = &mut program.ranks.job else {
            return Vec::new();
        };
        let machine = &mut self.parts.machine;
        let mut children = BTreeSet::new();
        for (&launcher, &start) in &job.launchers {
            // Gone, or another of the same number.
            let there = machine.process(launcher).ok().flatten();
            if there.is_some_and(|process| process.start == start) {
                children.extend(machine.children(launcher));
            }
        }
        // Numbers come back: who has ended may be asked again under its number.
        job.others.retain(|pid| children.contains(pid));
        let fresh = children.difference(&job.others);
        let fresh = fresh.filter(|pid| members.program_of(**pid) != Some(id));
        fresh.copied().take(ASKED_MAX).collect()
    }

    /// One more process in a program, if whoever attached that could attach the process too.
    fn take_in(&mut self, id: AttachmentId, pid: Pid) -> bool {
        let Ok(Some(process)) = self.parts.machine.process(pid) else {
            return false;
        };
        let Some(program) = self.programs.get(&id) else {
            return false;
        };
        let peer = match program.confined_to {
            Some(user) => Peer {
                uid: user.uid,
                gid: user.gid,
                admin: false,
            },
            None => Peer::DAEMON,
        };
        let of_job = program.ranks.job.as_ref();
        let allowed = of_job.is_some_and(|job| job.uid == process.uid)
            && super::attach::may_attach(peer, &process).is_ok()
            && self.must_be_free(&process).is_ok()
            && self
                .must_have_room_for_threads(peer, std::slice::from_ref(&process))
                .is_ok()
            && self.follow(std::slice::from_ref(&process)).is_ok();
        if !allowed || !self.engine.handle_joining(id, pid) {
            return false;
        }
        let start = process.start;
        self.members.name(id, &[process]);
        if self
            .programs
            .get(&id)
            .is_some_and(|program| program.recorder.is_none())
        {
            self.parts.hand.follow(id, &[ProcessKey { pid, start }]);
        }
        self.parts.log.info_by(
            peer.confinement().map(|user| user.uid),
            format_args!("process {pid} joined {id}: its job spawned it"),
        );
        true
    }

    /// Tells the engine, and recordings, what ranks of programs whose windows have ended sent each
    /// other since the last time. Others are not read: each row takes time.
    pub(super) fn take_messages(&mut self, now: Time) {
        let has_ranks = |id: &AttachmentId| {
            let program = self.programs.get(id);
            program.is_some_and(|program| !program.ranks.known.is_empty())
        };
        let ended: Vec<AttachmentId> = self.engine.ended(now).filter(has_ranks).collect();
        for id in ended {
            let members = self.members.of(id);
            let sent = self.parts.machine.sent(&members);
            self.engine.handle_messages(&sent);
            for recording in self.recordings.values_mut() {
                for &sent in &sent {
                    recording.take(&Record::Sent(sent));
                }
            }
        }
    }

    /// Whether one of these processes is in a program with ranks, or says that it is a rank.
    pub(super) fn has_ranks(&mut self, pids: &[Pid]) -> bool {
        let of_program = |pid: &Pid| {
            let program = self.programs.get(&self.members.program_of(*pid)?)?;
            (!program.ranks.known.is_empty()).then_some(())
        };
        pids.iter().any(|pid| of_program(pid).is_some())
            || !self.parts.machine.ranks(pids).is_empty()
    }

    /// What ranks sent each other since they began, in bytes; beside it the messages.
    ///
    /// # Errors
    /// When there is no such attachment, or it is someone else's.
    pub fn messages(
        &mut self,
        peer: Peer,
        id: AttachmentId,
        modelled: bool,
    ) -> Result<Matrix, Failure> {
        self.visible(peer, id)?;
        let members = self.members.of(id);
        let messages = self.parts.machine.messages(&members);
        let (bytes, counts) = match modelled {
            false => (0, 1),
            true => (2, 3),
        };
        let column = |at: usize| -> Vec<Vec<u64>> {
            let rows = messages.peers.iter();
            rows.map(|row| row.iter().map(|of_peer| of_peer[at]).collect())
                .collect()
        };
        let (rows, support) = (column(bytes), column(counts));
        let all = support.iter().flatten();
        let tasks = self.engine.tasks(id);
        let node_of = |pid: &Pid| {
            let first = tasks.iter().find(|task| task.key.tid.0 == pid.0)?;
            let node = self.parts.topology.node_of(first.cpu);
            Some(first.placed.or(node)?.0)
        };
        Ok(Matrix {
            window: if modelled { "modelled" } else { "messages" }.to_owned(),
            tids: messages.pids.iter().map(|pid| pid.0).collect(),
            nodes: messages.pids.iter().map(node_of).collect(),
            ranks: messages.ranks.iter().copied().map(Some).collect(),
            samples: all.fold(0, |sum, count| sum.saturating_add(*count)),
            rows,
            support,
            confidence: 1.0,
            partners: Vec::new(),
        })
    }

    /// The rank that each of these threads is of; nothing where none is.
    pub(super) fn ranks_of(&self, id: AttachmentId, keys: &[TaskKey]) -> Vec<Option<u32>> {
        let program = self.programs.get(&id);
        let Some(known) = program.map(|program| &program.ranks.known) else {
            return Vec::new();
        };
        let ranks = keys
            .iter()
            .map(|key| known.get(&key.pid).map(|rank| rank.rank));
        let ranks: Vec<Option<u32>> = ranks.collect();
        match ranks.iter().any(Option::is_some) {
            true => ranks,
            false => Vec::new(),
        }
    }
}

/// Refuses a job that processes of several users say they are of: any of them may be lying.
pub(super) fn must_be_one_users(job: &str, processes: &[ProcessFacts]) -> Result<(), Failure> {
    let users: BTreeSet<u32> = processes.iter().map(|process| process.uid).collect();
    if users.len() <= 1 {
        return Ok(());
    }
    let users: Vec<String> = users.iter().map(ToString::to_string).collect();
    let message = format!(
        "processes of users {} say that they are of job `{job}`",
        users.join(", ")
    );
    Err(Failure::new(ErrorKind::Conflict, message).remedy(
        "name the processes that are meant, or attach it as its user: `sudo -u USER numadctl attach --job ...`",
    ))
}
