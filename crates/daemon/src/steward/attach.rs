//! The rules of attaching. Whatever fails leaves nothing behind.

use std::collections::BTreeMap;

use control::rows::{AttachRequest, Attachment, Target};
use control::{ErrorKind, Failure};
use numad_core::cost::Prices;
use numad_core::{
    AttachError, AttachSpec, AttachmentId, PolicyFactory, SettingValue, Settings, SettingsError,
    cost,
};
use topology::Pid;

use super::program::{Beginning, Program};
use super::seams::ProcessFacts;
use super::{DRAIN_LEAST, OpenSource, Steward, TIDY_EVERY};
use crate::peer::Peer;

/// Most processes in one request.
const PIDS_MAX: usize = 1024;

/// The first process of the system: everything is its child, so everything would follow.
const INIT: Pid = Pid(1);

impl Steward {
    /// Puts a program under a policy.
    ///
    /// # Errors
    /// Names what is in the way. Nothing has changed then.
    pub fn attach(&mut self, peer: Peer, request: &AttachRequest) -> Result<Attachment, Failure> {
        let attached = self.try_attach(peer, request);
        if attached.is_err() {
            self.counters.refused_attaches += 1;
        }
        attached
    }

    fn try_attach(&mut self, peer: Peer, request: &AttachRequest) -> Result<Attachment, Failure> {
        let processes = self.processes(peer, &request.target)?;
        for process in &processes {
            self.must_be_free(process.pid)?;
        }
        let (factory, settings) = self.policy(request)?;
        self.must_have_room(peer)?;
        let first = processes.first().ok_or_else(no_process)?;
        let policy = factory
            .build(&settings, u64::from(first.pid.0))
            .map_err(|error| bad_setting(factory.name(), &error))?;
        let pids: Vec<Pid> = processes.iter().map(|process| process.pid).collect();
        self.follow(&pids)?;
        let mut options = self.parts.config.attach_options();
        options.require_gain = factory.seeks_gain();
        let source = self.source.as_ref();
        let counts = source.is_some_and(|open| open.source.counts_accesses());
        options.prices = priced(options.prices, counts, self.parts.page_bytes);
        let spec = AttachSpec {
            pids: pids.clone(),
            policy,
            options,
        };
        let now = self.now();
        let id = self.engine.handle_attach(now, spec).map_err(|error| {
            self.let_go(&pids);
            self.close_if_idle();
            engine_refused(&error)
        })?;
        let all_of_first = processes
            .iter()
            .all(|process| process.uid == first.uid && process.sole);
        let program = Program::new(Beginning {
            starts: processes
                .iter()
                .map(|process| (process.pid, process.start))
                .collect(),
            command: first.command.clone(),
            uid: first.uid,
            owner: all_of_first.then_some(first.uid),
            confined_to: (!peer.admin).then_some(peer.uid),
            policy: factory.name(),
            settings: in_words(&settings),
            dry_run: request.dry_run,
            since: now,
        });
        self.programs.insert(id, program);
        self.meter(id);
        self.look_first(id);
        self.counters.attached += 1;
        let (name, policy, count) = (&first.command, factory.name(), pids.len());
        self.parts.log.info(format_args!(
            "attached `{name}` ({count} processes) as {id} under {policy}"
        ));
        self.shown(id)
    }

    /// The processes of a target, checked, by ascending number.
    pub(super) fn processes(
        &mut self,
        peer: Peer,
        target: &Target,
    ) -> Result<Vec<ProcessFacts>, Failure> {
        let Target::Pids(pids) = target else {
            return self.named_processes(peer, target);
        };
        if pids.len() > PIDS_MAX {
            let message = format!("`{}` processes are too many for one program", pids.len());
            let remedy = format!("name at most {PIDS_MAX}");
            return Err(Failure::new(ErrorKind::Usage, message).remedy(remedy));
        }
        let mut found = Vec::new();
        for &pid in pids {
            let process = self
                .parts
                .machine
                .process(Pid(pid))?
                .ok_or_else(|| gone(Pid(pid)))?;
            may_attach(peer, &process)?;
            found.push(process);
        }
        found.sort_by_key(|process| process.pid);
        found.dedup_by_key(|process| process.pid);
        if found.is_empty() {
            return Err(no_process());
        }
        Ok(found)
    }

    /// The processes of a group, unit or name: those the peer may attach, since others of the same
    /// name may be of someone else, and they come and go.
    fn named_processes(
        &mut self,
        peer: Peer,
        target: &Target,
    ) -> Result<Vec<ProcessFacts>, Failure> {
        // As an empty variable of a script makes them; an empty path would stand for all groups.
        if matches!(target, Target::Cgroup(name) | Target::Unit(name) | Target::Command(name) if name.is_empty())
        {
            return Err(no_process());
        }
        let mut refused = None;
        let mut found = Vec::new();
        for pid in self.parts.machine.find(target)? {
            let Some(process) = self.parts.machine.process(pid)? else {
                continue;
            };
            match may_attach(peer, &process) {
                Ok(()) => found.push(process),
                Err(failure) => refused = Some(failure),
            }
        }
        found.sort_by_key(|process| process.pid);
        found.dedup_by_key(|process| process.pid);
        if found.len() > PIDS_MAX {
            let message = format!("{} has `{}` processes", in_short(target), found.len());
            let remedy = format!("attach a part of it; at most {PIDS_MAX} make one program");
            return Err(Failure::new(ErrorKind::Usage, message).remedy(remedy));
        }
        match (found.is_empty(), refused) {
            (false, _) => Ok(found),
            (true, Some(failure)) => Err(failure),
            (true, None) => {
                let message = format!("{} has no process", in_short(target));
                Err(Failure::new(ErrorKind::NotFound, message)
                    .remedy("start it first, or name its processes"))
            }
        }
    }

    fn must_be_free(&self, pid: Pid) -> Result<(), Failure> {
        match self.attachment_with(pid) {
            Some(id) => Err(already(pid, id)),
            None => Ok(()),
        }
    }

    /// The attachment that this process is part of.
    pub(super) fn attachment_with(&self, pid: Pid) -> Option<AttachmentId> {
        self.programs
            .keys()
            .copied()
            .find(|&id| self.engine.pids(id).contains(&pid))
    }

    /// Refuses a process that is someone else's.
    pub(super) fn must_own(&mut self, peer: Peer, pid: Pid) -> Result<(), Failure> {
        if peer.admin {
            return Ok(());
        }
        let process = self.parts.machine.process(pid)?.ok_or_else(|| gone(pid))?;
        if process.sole && peer.owns(process.uid) {
            return Ok(());
        }
        Err(not_yours(&process))
    }

    fn policy(
        &self,
        request: &AttachRequest,
    ) -> Result<(&'static dyn PolicyFactory, Settings), Failure> {
        let config = &self.parts.config;
        let name = request
            .policy
            .as_deref()
            .unwrap_or(&config.daemon.default_policy);
        let factory = policies::find(name).map_err(|error| {
            Failure::new(ErrorKind::NotFound, error.to_string()).remedy("see `numadctl policies`")
        })?;
        let specs = factory.settings();
        let refused = |error: SettingsError| bad_setting(factory.name(), &error);
        let mut given: Vec<(String, SettingValue)> = config
            .policy(factory.name())
            .into_iter()
            .flat_map(Settings::iter)
            .map(|(name, value)| (name.to_owned(), value.clone()))
            .collect();
        for (name, text) in &request.set {
            let spec = numad_core::setting::find(specs, name).map_err(refused)?;
            given.push((name.clone(), spec.parse(text).map_err(refused)?));
        }
        Ok((factory, Settings::with(specs, given).map_err(refused)?))
    }

    fn must_have_room(&self, peer: Peer) -> Result<(), Failure> {
        let most = self.parts.config.daemon.attachments_max;
        let own = self
            .programs
            .values()
            .filter(|program| program.confined_to == Some(peer.uid));
        let (count, limit, whose) = if peer.admin || self.programs.len() >= most {
            (self.programs.len(), most, "programs are attached")
        } else {
            (
                own.count(),
                (most / 2).max(1),
                "programs are attached by you",
            )
        };
        if count < limit {
            return Ok(());
        }
        let message = format!("`{count}` {whose}, which is the limit");
        Err(Failure::new(ErrorKind::Busy, message)
            .remedy("detach one, or raise `daemon.attachments_max`"))
    }

    /// Has the source deliver records of these processes; opens it if it is the first program.
    pub(super) fn follow(&mut self, pids: &[Pid]) -> Result<(), Failure> {
        let now = self.now();
        let needed = self.needed();
        if self.source.is_none() {
            let source = self.parts.opener.open(&self.at_start)?;
            for reason in self.parts.opener.passed_over() {
                self.parts.log.info(format_args!("falling back: {reason}"));
            }
            let own = super::own_processor_time(&mut *self.parts.machine);
            self.source = Some(OpenSource {
                source,
                next_drain: now.after(DRAIN_LEAST),
                drain_every: DRAIN_LEAST,
                provoke_at: None,
                next_tidy: now.after(TIDY_EVERY),
                throttled_told: 0,
                overhead: super::Overhead::new(now, own),
            });
        }
        let Some(open) = &mut self.source else {
            return Ok(());
        };
        // What is followed for someone else stays as it is: a child would be followed apart from the
        // one that made it.
        let fresh: Vec<Pid> = pids
            .iter()
            .copied()
            .filter(|pid| !needed.contains(pid))
            .collect();
        for &pid in &fresh {
            if let Err(error) = open.source.attach(pid) {
                self.let_go(&fresh);
                self.close_if_idle();
                return Err(Failure::new(ErrorKind::Busy, error.to_string())
                    .remedy("detach another program"));
            }
        }
        open.provoke_at = open.source.provoke(now);
        Ok(())
    }
}

/// Whether this process may be put under a policy by this peer.
fn may_attach(peer: Peer, process: &ProcessFacts) -> Result<(), Failure> {
    let pid = process.pid;
    let refused = |message: String| {
        let remedy = "name the processes of a program";
        Err(Failure::new(ErrorKind::Usage, message).remedy(remedy))
    };
    if pid.0 == std::process::id() {
        return refused(format!("`{pid}` is numad itself"));
    }
    if pid == INIT {
        return refused(format!(
            "`{pid}` is the first process, which everything descends from"
        ));
    }
    if process.kernel {
        return refused(format!("`{pid}` is a kernel thread"));
    }
    if peer.admin || (process.sole && peer.owns(process.uid)) {
        return Ok(());
    }
    Err(not_yours(process))
}

fn not_yours(process: &ProcessFacts) -> Failure {
    let message = format!("process `{}` belongs to someone else", process.pid);
    Failure::new(ErrorKind::NotPermitted, message).remedy("ask as root")
}

fn gone(pid: Pid) -> Failure {
    Failure::new(ErrorKind::NotFound, format!("there is no process `{pid}`"))
        .remedy("name a process that runs, not a thread; `--command NAME` finds it by name")
}

pub(super) fn no_process() -> Failure {
    Failure::new(ErrorKind::Usage, "no process was named")
        .remedy("name processes, or a control group, unit or command")
}

fn already(pid: Pid, id: AttachmentId) -> Failure {
    let message = format!("process `{pid}` is already attached, as `{id}`");
    Failure::new(ErrorKind::Conflict, message).remedy(format!("`numadctl detach {id}` first"))
}

fn engine_refused(error: &AttachError) -> Failure {
    match error {
        AttachError::AlreadyAttached { pid, to } => already(*pid, *to),
        AttachError::NoProcess => no_process(),
        AttachError::TooManyProcesses => Failure::new(ErrorKind::Usage, error.to_string()),
        AttachError::Interval(_) => Failure::new(ErrorKind::Configuration, error.to_string())
            .remedy("see `engine.interval_*`"),
    }
}

/// Prices for samples that stand for as many accesses as their period says, or for faults.
fn priced(prices: Prices, counts_accesses: bool, page_bytes: u64) -> Prices {
    if counts_accesses {
        return prices;
    }
    Prices {
        accesses_per_amount: accesses_per_fault(page_bytes),
        accesses_per_busy_second: cost::ACCESSES_PER_BUSY_SECOND,
        ..prices
    }
}

/// How many accesses a page fault stands for at the least. What a page is used for between two faults
/// is not seen; a page in use is taken to be used once all over, line by line.
fn accesses_per_fault(page_bytes: u64) -> f64 {
    u32::try_from(page_bytes / LINE_BYTES).map_or(f64::from(u32::MAX), f64::from)
}

/// Bytes in a cache line of every processor this runs on but a few; only an estimate rests on it.
const LINE_BYTES: u64 = 64;

fn bad_setting(policy: &str, error: &SettingsError) -> Failure {
    Failure::new(ErrorKind::Usage, format!("policy `{policy}`: {error}"))
        .remedy(format!("see `numadctl policies show {policy}`"))
}

/// Settings as text.
pub(super) fn in_words(settings: &Settings) -> BTreeMap<String, String> {
    settings
        .iter()
        .map(|(name, value)| (name.to_owned(), value.to_string()))
        .collect()
}

fn in_short(target: &Target) -> String {
    match target {
        Target::Pids(pids) => format!("a list of {} processes", pids.len()),
        Target::Cgroup(path) => format!("control group `{path}`"),
        Target::Unit(name) => format!("unit `{name}`"),
        Target::Command(name) => format!("command `{name}`"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_faults_stand_for_more_than_they_say() {
        let prices = Prices::default();
        assert_eq!(priced(prices, true, 4096), prices);
        let faults = priced(prices, false, 4096);
        assert!((faults.accesses_per_amount - 64.0).abs() < 1e-9);
        assert!(faults.accesses_per_busy_second > 0.0);
    }
}
