//! The rules of attaching. Whatever fails leaves nothing behind.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use control::experiment::BALANCING;
use control::external::PREFIX;
use control::rows::{AttachRequest, Attachment, Target};
use control::{ErrorKind, Failure};
use numad_core::cost::Prices;
use numad_core::published::{METHOD, SUFFIX};
use numad_core::{
    AttachError, AttachOptions, AttachSpec, AttachmentId, Method, Policy, PolicyFactory,
    SettingValue, Settings, SettingsError, Time, cost, published,
};
use procfs::Closed;
use topology::Pid;

use super::program::{Beginning, Program};
use super::ranks;
use super::seams::{Finder, ProcessFacts};
use super::{DRAIN_LEAST, OpenSource, Steward, TIDY_EVERY, undo_text};
use crate::external::{self, Launch};
use crate::peer::{Credentials, Peer};

/// Most processes in one request.
const PIDS_MAX: usize = 1024;

/// The first process of the system: everything is its child, so everything would follow.
const INIT: Pid = Pid(1);

/// The policy that a request names.
pub(super) enum Chosen {
    Own(&'static PolicyFactory, Settings),
    External(Launch),
}

impl Chosen {
    fn name(&self) -> String {
        match self {
            Self::Own(factory, _) => factory.name.to_owned(),
            Self::External(launch) => launch.name(),
        }
    }

    /// In words, with what is asked for of the engine.
    fn settings(&self, request: &AttachRequest) -> BTreeMap<String, String> {
        let mut words = match self {
            Self::Own(_, settings) => in_words(settings),
            Self::External(_) => BTreeMap::new(),
        };
        words.extend(of_engine(request).map(|(name, text)| (name.to_owned(), text.to_owned())));
        words
    }

    /// What the engine does around it. What comes from outside has to pay, whatever it is after.
    fn around(&self, options: &AttachOptions) -> AttachOptions {
        match self {
            Self::Own(factory, _) => published::around(factory, options),
            Self::External(_) => AttachOptions {
                require_gain: true,
                ..options.clone()
            },
        }
    }
}

impl Steward {
    /// What has to be done before [`Self::attach_found`] or [`Self::record_found`], on whatever thread has time: the
    /// search for processes that are not named by their numbers.
    pub fn finder(&mut self, target: &Target) -> Option<Finder> {
        match target {
            Target::Pids(_) => None,
            // As an empty variable of a script makes them; an empty path would stand for all groups.
            Target::Cgroup(name)
            | Target::Unit(name)
            | Target::Command(name)
            | Target::Job(name)
                if name.is_empty() =>
            {
                Some(Box::new(|| Err(no_process())))
            }
            Target::Cgroup(_) | Target::Unit(_) | Target::Command(_) | Target::Job(_) => {
                Some(self.parts.machine.finder(target))
            }
        }
    }

    /// Searches on the spot, then [`Self::attach_found`].
    #[cfg(test)]
    pub(crate) fn attach(
        &mut self,
        peer: Peer,
        request: &AttachRequest,
    ) -> Result<Attachment, Failure> {
        let found = self.finder(&request.target).map(|find| find());
        self.attach_found(peer, request, found.transpose()?)
    }

    /// Puts a program under a policy. What [`Self::finder`] found is `found`.
    ///
    /// # Errors
    /// Names what is in the way. Nothing has changed then.
    pub fn attach_found(
        &mut self,
        peer: Peer,
        request: &AttachRequest,
        found: Option<Vec<ProcessFacts>>,
    ) -> Result<Attachment, Failure> {
        if self.programs.is_empty() {
            self.go_by_measured();
        }
        let attached = self.try_attach(peer, request, found);
        if attached.is_err() {
            self.counters.refused_attaches += 1;
            self.tend_balancing();
        }
        attached
    }

    fn try_attach(
        &mut self,
        peer: Peer,
        request: &AttachRequest,
        found: Option<Vec<ProcessFacts>>,
    ) -> Result<Attachment, Failure> {
        let processes = self.processes(peer, &request.target, found)?;
        for process in &processes {
            self.must_be_free(process)?;
        }
        let chosen = self.policy(request)?;
        let mut options = self.options(request)?;
        let balancing = self.balancing_for(peer, request)?;
        self.must_have_room(peer)?;
        self.must_have_room_for_threads(peer, &processes)?;
        let first = processes.first().ok_or_else(no_process)?;
        let method = options.method;
        let (policy, external) = self.build(peer, &chosen, u64::from(first.pid.0), method)?;
        let pids: Vec<Pid> = processes.iter().map(|process| process.pid).collect();
        // Before the source is opened, which looks whether the kernel does.
        self.tend_balancing_for(balancing);
        self.follow(&processes)?;
        options = chosen.around(&options);
        let source = self.source.as_ref();
        let counts = source.is_some_and(|open| open.source.counts_accesses());
        let oldest = processes.iter().map(|process| process.age).max();
        let prices = options.prices.expecting(oldest.unwrap_or_default());
        options.prices = priced(prices, counts, self.parts.page_bytes);
        let spec = AttachSpec {
            pids: pids.clone(),
            policy,
            options,
        };
        let now = self.now();
        let id = self.engine.handle_attach(now, spec).map_err(|error| {
            self.let_go();
            self.close_if_idle();
            engine_refused(&error)
        })?;
        let owner = first.rights.open_to();
        let owner = owner.filter(|_| {
            let others = processes.iter();
            others
                .map(|process| process.rights.open_to())
                .all(|other| other == owner)
        });
        let mut program = Program::new(Beginning {
            command: first.command.clone(),
            uid: first.uid,
            owner: owner.map(|(uid, gid)| Credentials { uid, gid }),
            confined_to: peer.confinement(),
            policy: chosen.name(),
            settings: chosen.settings(request),
            external,
            dry_run: request.dry_run,
            since: now,
            until: request
                .for_ms
                .map(|length| now.after(Duration::from_millis(length))),
            in_experiment: self.experiments.at_work.is_some(),
        });
        program.kernel_before = self.parts.machine.moved_by_kernel();
        self.members.name(id, &processes);
        self.programs.insert(id, program);
        self.charge(id);
        self.look_first(id);
        self.begin_ranks(id, &pids, &request.target);
        self.warn_if_in_vain(id, counts);
        self.counters.attached += 1;
        let (name, policy) = (&first.command, chosen.name());
        let count = self::processes(pids.len());
        self.parts.log.info_by(
            peer.confinement().map(|user| user.uid),
            format_args!("attached `{name}` ({count}) as {id} under {policy}"),
        );
        self.shown(id)
    }

    /// Has the user who attached a program pay for what is written down of it.
    fn charge(&mut self, id: AttachmentId) {
        let program = self.programs.get(&id);
        let program = program.filter(|program| program.recorder.is_none());
        if let Some(user) = program.and_then(|program| program.confined_to) {
            let payer = self.payer(user.uid);
            self.parts.hand.charge(id, payer);
        }
    }

    /// Notes why the policy of a program cannot do here what it is for, if so.
    fn warn_if_in_vain(&mut self, id: AttachmentId, counts_accesses: bool) {
        let balances = self.parts.machine.kernel_balances();
        let source = self.source_in_words();
        let Some(program) = self.programs.get_mut(&id) else {
            return;
        };
        let why = match program.policy.as_str() {
            "linux" if !balances => {
                "kernel.numa_balancing is 0, so that `linux` is as `none` here; \
                 `sysctl kernel.numa_balancing=1` switches it on"
                    .to_owned()
            }
            "azimi" if !counts_accesses => format!(
                "the source `{source}` does not tell what answered an access, so that `azimi` can propose \
                 nothing; pebs, ibs and spe tell"
            ),
            _ => return,
        };
        let user = program.confined_to.map(|user| user.uid);
        let line = format_args!("attachment {id}: {why}");
        self.parts.log.warn_by(user, line);
        program.in_vain = Some(why);
    }

    /// The processes of a target, checked, by ascending number.
    pub(super) fn processes(
        &mut self,
        peer: Peer,
        target: &Target,
        found: Option<Vec<ProcessFacts>>,
    ) -> Result<Vec<ProcessFacts>, Failure> {
        let Target::Pids(pids) = target else {
            let own = own_processes(peer, found.unwrap_or_default())?;
            match target {
                Target::Job(job) => ranks::must_be_one_users(job, &own)?,
                Target::Command(name) => self.must_be_one_program(name, &own)?,
                Target::Pids(_) | Target::Cgroup(_) | Target::Unit(_) => {}
            }
            return so_many(target, own);
        };
        if pids.len() > PIDS_MAX {
            let message = format!("`{}` processes are too many for one program", pids.len());
            let remedy = format!("name at most {PIDS_MAX}");
            return Err(Failure::new(ErrorKind::Usage, message).remedy(remedy));
        }
        // Each is looked at once, however often it is named.
        let pids: BTreeSet<Pid> = pids.iter().copied().map(Pid).collect();
        let mut found = Vec::new();
        for pid in pids {
            let process = self.parts.machine.process(pid)?.ok_or_else(|| gone(pid))?;
            may_attach(peer, &process)?;
            found.push(process);
        }
        if found.is_empty() {
            return Err(no_process());
        }
        Ok(found)
    }

    /// Refuses processes of several users that have one name: anyone may call a program anything.
    /// Those whose parents are among them are of the same program, as workers with a user of their
    /// own are.
    fn must_be_one_program(&mut self, name: &str, own: &[ProcessFacts]) -> Result<(), Failure> {
        let users = |firsts: &[&ProcessFacts]| -> BTreeSet<u32> {
            firsts.iter().map(|process| process.uid).collect()
        };
        let mut firsts: Vec<&ProcessFacts> = own.iter().collect();
        if users(&firsts).len() > 1 && own.len() <= PIDS_MAX {
            let pids: BTreeSet<Pid> = own.iter().map(|process| process.pid).collect();
            firsts.retain(|process| {
                let parent = self.parts.machine.parent(process.pid);
                parent.is_none_or(|parent| !pids.contains(&parent))
            });
        }
        let users = users(&firsts);
        if users.len() <= 1 {
            return Ok(());
        }
        let users: Vec<String> = users.iter().map(ToString::to_string).collect();
        let message = format!(
            "processes of users {} are called `{name}`",
            users.join(", ")
        );
        Err(Failure::new(ErrorKind::Conflict, message).remedy(
            "name those that are meant by number; `pgrep -x -u USER NAME` finds one user's",
        ))
    }

    pub(super) fn must_be_free(&self, process: &ProcessFacts) -> Result<(), Failure> {
        let pid = process.pid;
        if let Some(id) = self.experiments.with(process) {
            let message = format!("process `{pid}` is in experiment `{id}`");
            return Err(Failure::new(ErrorKind::Conflict, message)
                .remedy(format!("`numadctl ab stop {id}` ends it")));
        }
        match self.members.holder(process) {
            Some(id) => Err(already(pid, id)),
            None => Ok(()),
        }
    }

    /// Refuses a process that is someone else's.
    pub(super) fn must_own(&mut self, peer: Peer, pid: Pid) -> Result<(), Failure> {
        if peer.admin {
            return Ok(());
        }
        let process = self.parts.machine.process(pid)?.ok_or_else(|| gone(pid))?;
        // What was changed is put back for everyone whose process it is, whatever it became since.
        if process.rights.uids.all(peer.uid) {
            return Ok(());
        }
        Err(not_yours(pid, Closed::User))
    }

    pub(super) fn policy(&self, request: &AttachRequest) -> Result<Chosen, Failure> {
        let config = &self.parts.config;
        let name = request
            .policy
            .as_deref()
            .unwrap_or(&config.daemon.default_policy);
        if name.starts_with(PREFIX) {
            let launch = Launch::find(name, &config.external)?;
            return match request.set.keys().find(|name| !is_of_engine(name)) {
                None => Ok(Chosen::External(launch)),
                Some(setting) => {
                    let text = format!("policy `{name}` has no setting `{setting}`");
                    Err(Failure::new(ErrorKind::Configuration, text)
                        .remedy("external policies have none; it may read a file of its own"))
                }
            };
        }
        if let Some(plain) = name.strip_suffix(SUFFIX) {
            return Err(
                Failure::new(ErrorKind::NotFound, format!("there is no policy `{name}`"))
                    .remedy(format!("name `{plain}` with `--as-published`")),
            );
        }
        let factory = policies::find(name).map_err(|reason| {
            Failure::new(ErrorKind::NotFound, reason).remedy("see `numadctl policies`")
        })?;
        let specs = factory.settings;
        let refused = |error: SettingsError| bad_setting(factory.name, &error);
        // What the settings file says of a policy is no part of what was published.
        let own = config.policy(factory.name);
        let own = own.filter(|_| request.set.get(METHOD).is_none_or(|how| how != "published"));
        let mut given: Vec<(String, SettingValue)> = own
            .into_iter()
            .flat_map(Settings::iter)
            .map(|(name, value)| (name.to_owned(), value.clone()))
            .collect();
        for (name, text) in request.set.iter().filter(|(name, _)| !is_of_engine(name)) {
            let spec = numad_core::setting::find(specs, name).map_err(refused)?;
            given.push((name.clone(), spec.parse(text).map_err(refused)?));
        }
        let settings = Settings::with(specs, given).map_err(refused)?;
        Ok(Chosen::Own(factory, settings))
    }

    fn build(
        &self,
        peer: Peer,
        chosen: &Chosen,
        seed: u64,
        method: Method,
    ) -> Result<(Box<dyn Policy>, Option<external::Tally>), Failure> {
        match chosen {
            Chosen::Own(factory, settings) => {
                let refused = |error: SettingsError| bad_setting(factory.name, &error);
                let built = published::build(factory, settings, seed, method);
                Ok((built.map_err(refused)?, None))
            }
            Chosen::External(_) if method == Method::Published => Err(Failure::new(
                ErrorKind::Configuration,
                format!("`{}` is of no paper that is known here", chosen.name()),
            )
            .remedy("leave `engine.method=published` out")),
            Chosen::External(launch) => {
                let (machine, page_bytes) = (&self.parts.topology, self.parts.page_bytes);
                let payer = peer.confinement().map(|user| self.payer(user.uid));
                let running = (&self.external_running, payer);
                let (policy, tally) =
                    external::begin(launch.clone(), machine, page_bytes, seed, running)?;
                Ok((policy, Some(tally)))
            }
        }
    }

    /// What the engine does around the policy: as the settings say, but for what is asked for this program.
    pub(super) fn options(&self, request: &AttachRequest) -> Result<AttachOptions, Failure> {
        let config = &self.parts.config;
        let given = of_engine(request).filter(|(name, _)| *name != BALANCING);
        config.attach_options_with(given).map_err(|error| {
            Failure::new(ErrorKind::Configuration, error.to_string()).remedy("see docs/config.md")
        })
    }

    /// Admins and users do not take each other's places.
    fn must_have_room(&self, peer: Peer) -> Result<(), Failure> {
        let most = self.parts.config.daemon.attachments_max;
        let own_most = self.parts.config.limits.user_attachments_max;
        let lane = self.programs.values();
        let lane = lane.filter(|program| program.confined_to.is_none() == peer.admin);
        let payer = self.payer(peer.uid);
        let (mut count, mut own) = (0, 0);
        for program in lane {
            count += 1;
            let user = program.confined_to.map(|user| self.payer(user.uid));
            own += usize::from(user == Some(payer));
        }
        let (count, whose, setting) = if count >= most {
            (count, "programs are attached", "daemon.attachments_max")
        } else if !peer.admin && own >= own_most.min((most / 2).max(1)) {
            (
                own,
                "programs are attached by you",
                "limits.user_attachments_max",
            )
        } else {
            return Ok(());
        };
        let message = format!("`{count}` {whose}, which is the limit");
        Err(Failure::new(ErrorKind::Busy, message)
            .remedy(format!("detach one, or have `{setting}` raised")))
    }

    pub(super) fn must_have_room_for_threads(
        &self,
        peer: Peer,
        processes: &[ProcessFacts],
    ) -> Result<(), Failure> {
        if peer.admin {
            return Ok(());
        }
        let threads = processes.iter().map(|process| process.threads as usize);
        let threads = threads.fold(0, usize::saturating_add);
        let left = self.threads_left(peer.uid, None);
        if threads <= left {
            return Ok(());
        }
        let message =
            format!("`{threads}` threads are more than the `{left}` you may still attach");
        Err(Failure::new(ErrorKind::Busy, message)
            .remedy("ask as root, or have `limits.user_threads_max` raised"))
    }

    /// Detaches programs that were attached for a time which is over.
    pub(super) fn detach_what_is_over(&mut self, now: Time) {
        let over = |program: &Program| program.until.is_some_and(|until| until <= now);
        // One in a turn, so that whoever asks is answered between two of many.
        if let Some((id, user)) = self
            .programs
            .iter()
            .find_map(|(&id, program)| over(program).then_some((id, program.confined_to)))
        {
            let report = self.release(id);
            self.parts.log.info_by(
                user.map(|user| user.uid),
                format_args!(
                    "attachment {id} detached, its time is over: {}",
                    undo_text(&report)
                ),
            );
        }
    }

    /// Has the source deliver records of these processes; opens it if it is the first program.
    pub(super) fn follow(&mut self, processes: &[ProcessFacts]) -> Result<(), Failure> {
        let now = self.now();
        if self.source.is_none() {
            let source = self.parts.opener.open(&self.parts.config)?;
            let passed_over = self.parts.opener.passed_over();
            if passed_over != self.told_passed_over {
                for reason in passed_over {
                    self.parts.log.info(format_args!("falling back: {reason}"));
                }
                self.told_passed_over = passed_over.to_vec();
            }
            let own = self.parts.machine.own_processor_time();
            self.source = Some(OpenSource {
                source,
                next_drain: now.after(DRAIN_LEAST),
                drain_every: DRAIN_LEAST,
                provoke_at: None,
                next_tidy: now.after(TIDY_EVERY),
                throttled_told: 0,
                unfollowed_told: 0,
                overhead: super::Overhead::new(now, own),
            });
        }
        let Some(open) = &mut self.source else {
            return Ok(());
        };
        for process in processes {
            if !self.members.follow(now, process) {
                continue;
            }
            // Whoever had the number before has ended unnoticed.
            self.engine.handle_parting(process.pid);
            open.source.detach(process.pid);
            if let Err(error) = open.source.attach(process.pid) {
                self.let_go();
                self.close_if_idle();
                return Err(Failure::new(ErrorKind::Busy, error.to_string())
                    .remedy("detach another program"));
            }
        }
        open.provoke_at = open.source.provoke(now, self.engine.samples_enough());
        Ok(())
    }
}

/// Of the processes of a group, unit or name those the peer may attach, since others of the same
/// name may be of someone else, and they come and go.
fn own_processes(peer: Peer, found: Vec<ProcessFacts>) -> Result<Vec<ProcessFacts>, Failure> {
    let mut refused = None;
    let mut own = Vec::new();
    for process in found {
        match may_attach(peer, &process) {
            Ok(()) => own.push(process),
            Err(failure) => refused = Some(failure),
        }
    }
    own.sort_by_key(|process| process.pid);
    own.dedup_by_key(|process| process.pid);
    match refused.filter(|_| own.is_empty()) {
        Some(failure) => Err(failure),
        None => Ok(own),
    }
}

/// The processes of a group, unit or name, if they are neither none nor too many.
fn so_many(target: &Target, own: Vec<ProcessFacts>) -> Result<Vec<ProcessFacts>, Failure> {
    if own.len() > PIDS_MAX {
        let message = format!("{} has `{}` processes", in_short(target), own.len());
        let remedy = format!("attach a part of it; at most {PIDS_MAX} make one program");
        return Err(Failure::new(ErrorKind::Usage, message).remedy(remedy));
    }
    if own.is_empty() {
        let message = format!("{} has no process", in_short(target));
        return Err(Failure::new(ErrorKind::NotFound, message)
            .remedy("start it first, or name its processes"));
    }
    Ok(own)
}

/// Whether this process may be put under a policy by this peer.
pub(super) fn may_attach(peer: Peer, process: &ProcessFacts) -> Result<(), Failure> {
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
    match peer
        .confinement()
        .and_then(|user| user.refused(&process.rights))
    {
        None => Ok(()),
        Some(closed) => Err(not_yours(pid, closed)),
    }
}

fn not_yours(pid: Pid, closed: Closed) -> Failure {
    let remedy = match closed {
        Closed::Group => "ask as root, or with that group (`newgrp`)",
        Closed::User | Closed::Capabilities | Closed::NotDumpable => "ask as root",
    };
    let message = format!("process `{pid}` {closed}");
    Failure::new(ErrorKind::NotPermitted, message).remedy(remedy)
}

pub(super) fn gone(pid: Pid) -> Failure {
    Failure::new(ErrorKind::NotFound, format!("there is no process `{pid}`"))
        .remedy("name a process that runs, not a thread; `pgrep NAME` finds it by name")
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
    Failure::new(
        ErrorKind::Configuration,
        format!("policy `{policy}`: {error}"),
    )
    .remedy(format!("see `numadctl policies show {policy}`"))
}

/// Whether a setting is one of the engine's around the policy, which go by their full names.
fn is_of_engine(name: &str) -> bool {
    name.contains('.')
}

fn of_engine(request: &AttachRequest) -> impl Iterator<Item = (&str, &str)> {
    let set = request.set.iter();
    set.filter(|(name, _)| is_of_engine(name))
        .map(|(name, text)| (name.as_str(), text.as_str()))
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
        Target::Pids(pids) => format!("a list of {}", processes(pids.len())),
        Target::Cgroup(path) => format!("control group `{path}`"),
        Target::Unit(name) => format!("unit `{name}`"),
        Target::Command(name) => format!("command `{name}`"),
        Target::Job(name) => format!("job `{name}`"),
    }
}

/// `1 process`, `2 processes`.
pub(super) fn processes(number: usize) -> String {
    super::history::many(number, "process")
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
