//! Policies that are programs of their own (`exec:/path/program`).
//!
//! The engine's thread never waits for one. At the end of a window it leaves a question with the policy's own
//! thread (`talk`) and takes the answer to an earlier one, if that is there; a window without an answer has no
//! proposals. What is answered goes the way of all proposals, through the engine's guard. The program runs as a
//! user who owns nothing, within limits ([`rights`]).

pub mod rights;
mod talk;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use config::External as Config;
use control::external::{
    Greeting, NodeFacts, PAGES_MAX, PAIRS_MAX, PREFIX, PageFacts, Question, Room, SCHEMA,
    THREADS_MAX, ThreadFacts,
};
use control::rows::External as Row;
use control::{ErrorKind, Failure};
use numad_core::{Fate, PageKey, Policy, Program, Proposal, Reason, Time};
use topology::{TaskKey, Topology};

use crate::trusted::Trust;
use talk::Talk;

/// Most of them that run at a time; those of all users, and of one.
const AT_ONCE_MAX: usize = 8;
const USERS_MAX: usize = 6;
const USER_MAX: usize = 4;

/// Files of the directory that are looked at to list them.
const LISTED_MAX: usize = 64;

/// Where it is written how to let the unit run them.
const WHERE: &str = "see docs/external-policies.md";

/// A program that may be a policy.
#[derive(Clone, Debug)]
pub struct Launch {
    /// Its file, without links.
    pub program: PathBuf,
    /// Who it runs as.
    pub uid: u32,
    /// And its group.
    pub gid: u32,
    /// Most memory of it.
    pub memory_bytes: u64,
    /// How long an answer may take.
    pub answer: Duration,
}

impl Launch {
    /// Whether this name of a policy is that of a program that may be one. Looks at files; starts nothing.
    ///
    /// # Errors
    /// Names what is in the way.
    pub fn find(name: &str, config: &Config) -> Result<Self, Failure> {
        let path = Path::new(name.strip_prefix(PREFIX).unwrap_or(name));
        let Some(programs) = &config.programs else {
            let text = format!("policy `{name}` is a program, and the settings allow none");
            let remedy = "name a directory of programs in `external.programs`";
            return Err(Failure::new(ErrorKind::Configuration, text).remedy(remedy));
        };
        let program = allowed(path, programs)?;
        let user = nix::unistd::User::from_name(&config.user).ok().flatten();
        let Some(user) = user.filter(|user| user.uid.as_raw() != 0 && user.gid.as_raw() != 0)
        else {
            let text = format!(
                "there is no unprivileged user `{}` for external policies",
                config.user
            );
            return Err(Failure::new(ErrorKind::Configuration, text)
                .remedy("create it (`systemd-sysusers`), or name another in `external.user`"));
        };
        let (uid, gid) = (user.uid.as_raw(), user.gid.as_raw());
        if !rights::can_become(uid) {
            let text = format!("the daemon may not run programs as user `{}`", config.user);
            return Err(Failure::new(ErrorKind::Prerequisite, text).remedy(WHERE));
        }
        Ok(Self {
            program,
            uid,
            gid,
            memory_bytes: config.memory_bytes,
            answer: config.answer,
        })
    }

    /// The name of the policy.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{PREFIX}{}", self.program.display())
    }
}

/// Those that may be policies, by name.
#[must_use]
pub fn programs(config: &Config) -> Vec<Launch> {
    let Some(Ok(entries)) = config.programs.as_ref().map(fs::read_dir) else {
        return Vec::new();
    };
    let entries = entries.take(LISTED_MAX).flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    let name = |path: PathBuf| format!("{PREFIX}{}", path.display());
    let found = paths.into_iter().map(name);
    found
        .filter_map(|name| Launch::find(&name, config).ok())
        .collect()
}

/// The real path of a program in a directory, both of which nobody but root can change.
fn allowed(path: &Path, programs: &Path) -> Result<PathBuf, Failure> {
    let shown = path.display();
    let gone = |_error| {
        let text = format!("there is no program `{shown}`");
        Failure::new(ErrorKind::NotFound, text)
            .remedy(format!("those in `{}` may be policies", programs.display()))
    };
    if !path.is_absolute() {
        let text = format!("`{shown}` is no absolute path");
        return Err(Failure::new(ErrorKind::Usage, text).remedy("write `exec:/path/program`"));
    }
    // Whether a file exists elsewhere is none of the asking user's business: the way there is judged by its name first.
    let outside = || {
        let text = format!("`{shown}` is not in `{}`", programs.display());
        Failure::new(ErrorKind::NotPermitted, text)
            .remedy("only programs in `external.programs` may be policies")
    };
    let plain = path
        .components()
        .all(|part| !matches!(part, std::path::Component::ParentDir));
    if !plain || !path.starts_with(programs) {
        return Err(outside());
    }
    let real = fs::canonicalize(path).map_err(gone)?;
    if !real.starts_with(fs::canonicalize(programs).map_err(gone)?) {
        return Err(outside());
    }
    let trust = Trust::of_this_process();
    trust.file(&real).map_err(|distrust| {
        let text = format!("program {distrust}");
        Failure::new(ErrorKind::NotPermitted, text)
    })?;
    let found = fs::metadata(&real).map_err(gone)?;
    if !found.is_file() || found.permissions().mode() & 0o111 == 0 {
        let text = format!("`{shown}` is no program that can be started");
        return Err(Failure::new(ErrorKind::Usage, text).remedy("`chmod +x` it"));
    }
    Ok(real)
}

/// What is known of one that runs; shared with its thread.
#[derive(Clone, Debug, Default)]
pub struct Tally(Arc<Mutex<Row>>);

impl Tally {
    /// How it does.
    #[must_use]
    pub fn row(&self) -> Row {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Held only to count: the engine's thread never waits longer than that.
    fn count(&self, change: impl FnOnce(&mut Row)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// Those that run, by the user who pays; none for admins.
#[derive(Clone, Debug, Default)]
pub struct Running(Arc<Mutex<Vec<Option<u32>>>>);

/// Counts one that runs, until it is dropped.
#[derive(Debug)]
struct Place {
    of: Running,
    payer: Option<u32>,
}

impl Running {
    fn take(&self, payer: Option<u32>) -> Option<Place> {
        let mut payers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let users = payers.iter().filter(|other| other.is_some()).count();
        let own = payers.iter().filter(|other| **other == payer).count();
        let fits = payer.is_none() || users < USERS_MAX && own < USER_MAX;
        (fits && payers.len() < AT_ONCE_MAX).then(|| {
            payers.push(payer);
            Place {
                of: self.clone(),
                payer,
            }
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut payers = self.of.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = payers.iter().position(|payer| *payer == self.payer) {
            payers.swap_remove(at);
        }
    }
}

/// A question as it waits for the policy's thread, with what its numbers stand for.
#[derive(Debug)]
struct Asked {
    question: Question,
    tasks: BTreeMap<u32, TaskKey>,
    pages: BTreeMap<u32, PageKey>,
}

/// An answer in the engine's words.
#[derive(Debug, Default)]
struct Wanted {
    tasks: Vec<(TaskKey, usize)>,
    pages: Vec<(PageKey, usize)>,
}

/// The engine's side of one.
#[derive(Debug)]
struct External {
    questions: SyncSender<Asked>,
    answers: Receiver<Option<Wanted>>,
    /// A question is not answered yet.
    waiting: bool,
    window: u64,
    fates: BTreeMap<String, u64>,
    tally: Tally,
}

/// Has a program begin, on a thread of its own, for whoever pays; none for admins.
///
/// # Errors
/// When too many run already, or there is no thread for it.
pub fn begin(
    launch: Launch,
    topology: &Topology,
    page_bytes: u64,
    seed: u64,
    (running, payer): (&Running, Option<u32>),
) -> Result<(Box<dyn Policy>, Tally), Failure> {
    let place = running.take(payer).ok_or_else(|| {
        let text = format!(
            "`{AT_ONCE_MAX}` external policies may run, `{USERS_MAX}` of users and `{USER_MAX}` of one"
        );
        Failure::new(ErrorKind::Busy, text).remedy("detach one")
    })?;
    let greeting = greeting(topology, page_bytes, seed, launch.answer);
    let positions = topology.nodes().iter().enumerate();
    let positions = positions.map(|(at, node)| (node.id.0, at)).collect();
    // One question at a time, so that neither side ever waits for room.
    let (questions, asked) = sync_channel(1);
    let (answered, answers) = sync_channel(1);
    let tally = Tally::default();
    let talk = Talk::new(launch, greeting, positions, tally.clone());
    std::thread::Builder::new()
        .name("external policy".to_owned())
        .spawn(move || {
            talk.run(&asked, &answered);
            drop(place);
        })
        .map_err(|error| {
            let text = format!("cannot start a thread for an external policy: {error}");
            Failure::new(ErrorKind::Kernel, text).remedy("raise `TasksMax=` of the unit")
        })?;
    let policy = External {
        questions,
        answers,
        waiting: false,
        window: 0,
        fates: BTreeMap::new(),
        tally: tally.clone(),
    };
    Ok((Box::new(policy), tally))
}

fn greeting(topology: &Topology, page_bytes: u64, seed: u64, answer: Duration) -> Greeting {
    let nodes = topology.nodes();
    let facts = nodes.iter().map(|node| NodeFacts {
        node: node.id.0,
        cpus: node.cpus.to_string(),
        memory_bytes: node.memory_bytes,
    });
    let distances = (0..nodes.len()).map(|from| topology.distances().row(from).to_vec());
    Greeting {
        schema: SCHEMA,
        numad: env!("CARGO_PKG_VERSION").to_owned(),
        seed,
        answer_ms: u64::try_from(answer.as_millis()).unwrap_or(u64::MAX),
        page_bytes,
        nodes: facts.collect(),
        distances: distances.collect(),
    }
}

impl Policy for External {
    fn propose(&mut self, _now: Time, program: &Program<'_>, out: &mut Vec<Proposal>) {
        if self.waiting {
            match self.answers.try_recv() {
                Ok(wanted) => {
                    self.waiting = false;
                    propose(&wanted.unwrap_or_default(), program, out);
                }
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => {
                    self.tally.count(|row| row.passed_over += 1);
                    return;
                }
            }
        }
        self.window += 1;
        let asked = asked(self.window, program, std::mem::take(&mut self.fates));
        self.waiting = true;
        if self.questions.try_send(asked).is_err() {
            self.tally.count(|row| row.passed_over += 1);
        }
    }

    fn on_fate(&mut self, _now: Time, _proposal: &Proposal, fate: Fate) {
        let fate = match fate {
            Fate::Done => "done".to_owned(),
            Fate::Failed => "failed".to_owned(),
            Fate::Dropped(veto) => veto.to_string(),
        };
        *self.fates.entry(fate).or_default() += 1;
    }
}

fn propose(wanted: &Wanted, program: &Program<'_>, out: &mut Vec<Proposal>) {
    for (key, node) in &wanted.tasks {
        if let Some(task) = program.tasks.iter().position(|task| task.key == *key) {
            out.push(Proposal::PlaceTask {
                task,
                node: *node,
                reason: Reason::External,
            });
        }
    }
    out.extend(wanted.pages.iter().map(|&(page, node)| Proposal::MovePage {
        page,
        node,
        reason: Reason::External,
    }));
}

/// What is asked about a window: no more than [`THREADS_MAX`] and its like allow.
fn asked(window: u64, program: &Program<'_>, fates: BTreeMap<String, u64>) -> Asked {
    let nodes = program.topology.nodes();
    let id = |position: usize| nodes.get(position).map(|node| node.id.0);
    let count = program.tasks.len().min(THREADS_MAX);
    let tasks = &program.tasks[..count];
    let tid = |position: usize| tasks.get(position).map(|task| task.key.tid.0);
    let mut pairs: Vec<_> = program.decayed.pairs().collect();
    strongest(&mut pairs, PAIRS_MAX, |pair| Reverse(pair.2));
    let shares = pairs
        .into_iter()
        .filter_map(|(one, other, amount)| Some((tid(one)?, tid(other)?, amount)));
    let mut pages: Vec<_> = program.pages.iter().collect();
    strongest(&mut pages, PAGES_MAX, |page| Reverse(page.weight()));
    let threads = tasks.iter().map(|task| ThreadFacts {
        tid: task.key.tid.0,
        node: task.node.and_then(id),
        allowed: (0..nodes.len())
            .filter(|&node| task.allowed.get(node) == Some(&true))
            .filter_map(id)
            .collect(),
        busy: task.busy,
        samples: task.samples,
    });
    let facts = pages.iter().map(|page| PageFacts {
        page: page.slot,
        node: page.home.and_then(|home| id(home.into())),
        span: page.span,
        users: page
            .accessors()
            .iter()
            .filter_map(|user| Some((tid(user.task as usize)?, user.weight)))
            .collect(),
    });
    let room = nodes.iter().enumerate().map(|(at, node)| Room {
        node: node.id.0,
        threads: program.capacity.get(at).copied().unwrap_or(0),
        free_bytes: program.free_bytes.get(at).copied().unwrap_or(0),
    });
    Asked {
        question: Question {
            window,
            length_ms: u64::try_from(program.window.as_millis()).unwrap_or(u64::MAX),
            samples: program.samples,
            room: room.collect(),
            threads: threads.collect(),
            shares: shares.collect(),
            pages: facts.collect(),
            fates,
        },
        tasks: tasks
            .iter()
            .map(|task| (task.key.tid.0, task.key))
            .collect(),
        pages: pages.iter().map(|page| (page.slot, page.key)).collect(),
    }
}

/// Keeps the `most` that come first, in that order.
fn strongest<T, K: Ord>(all: &mut Vec<T>, most: usize, key: impl Fn(&T) -> K) {
    if all.len() > most {
        all.select_nth_unstable_by_key(most, &key);
        all.truncate(most);
    }
    all.sort_by_key(&key);
}

#[cfg(test)]
mod tests;
