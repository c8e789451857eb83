//! Putting it together: settings, journal, undo of what was left behind, machine, socket, and then
//! serving until a signal says otherwise.

use std::io::{self, Write};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use config::{Config, ConfigError, Loaded, Paths};
use control::rows::UndoReport;
use control::{ErrorKind, Failure};
use procfs::Reader;
use sampler::counters::{FedCounters, KernelCounters, Plan};
use sampler::kernel::KernelSettings;
use sampler::pmu::Pmus;
use tokio::runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use topology::{Measured, Topology};

use crate::advise::{self, Need};
use crate::cli::Options;
use crate::live::{LiveHand, LiveOpener, Look, Rows};
use crate::log::Log;
use crate::notify::{self, Notifier, Patience};
use crate::peer::Peer;
use crate::server::{Gate, Limits, Server, kernel_witness};
use crate::shelf::Shelf;
use crate::socket::{Audience, Socket};
use crate::steward::{
    Experiments, Hand, Lane, Line, Meters, Parts, Scope, Steward, Stories, gate_of, level_of, line,
    undo_text,
};
use crate::trusted::{self, Trust};
use crate::{clock, descriptors};

/// Does what the command line asks, to its end.
///
/// # Errors
/// What is in the way, with the exit code in its kind.
pub fn run(options: &Options) -> Result<(), Failure> {
    if let Some(need) = options.guest {
        return say(&advise(need, options)?);
    }
    let (loaded, wrong) = match load(options) {
        Ok(loaded) => (loaded, Ok(())),
        Err(wrong) if options.undo => (without_files(options), Err(wrong)),
        Err(wrong) => return Err(wrong),
    };
    if options.check_config {
        return say(&format!("settings are in order: {}", files(&loaded)));
    }
    actuator::give_back_blocks_from(BLOCK_BYTES);
    let log = Log::to_stderr(level_of(&loaded.config));
    abort_on_panic(log.clone());
    step_forward(&log);
    descriptors::take_all();
    let reader = Reader::new("/");
    let state_dir = loaded.config.daemon.state_dir.clone();
    must_be_trusted(&state_dir)?;
    if options.undo && !state_dir.exists() {
        wrong?;
        let message = format!("there is no state directory `{}`", state_dir.display());
        return Err(Failure::new(ErrorKind::NotFound, message)
            .remedy("name the --state-dir of the daemon whose changes are to be undone"));
    }
    let notifier = Notifier::from_environment();
    // Who cannot be told keeps nobody from undoing.
    let mut patience = Patience::of(notifier.as_ref().unwrap_or(&Notifier::default()));
    if options.undo {
        let mut hand = LiveHand::open_for_undo(&state_dir, &reader, &log)?;
        hand.pause_at_most(loaded.config.overhead.move_pause_max);
        let (report, result) = hand.undo_and_end(&mut || notify::told(&log, patience.ask()));
        say(&undo_text(&report))?;
        return result.and(wrong);
    }
    // Where there is a journal, what it says is undone before anything else can fail.
    if !state_dir.exists() {
        Socket::must_be_free(&loaded.config.daemon.socket)?;
    }
    let mut hand = LiveHand::open(&state_dir, &reader, &log)?;
    hand.pause_at_most(loaded.config.overhead.move_pause_max);
    let left_behind = hand.undo(&Scope::All, &mut || notify::told(&log, patience.ask()));
    tell_left_behind(&log, &left_behind);
    let notifier = notifier.map_err(|error| {
        let what = "the service manager in `NOTIFY_SOCKET` cannot be reached";
        internal(what, &error)
    })?;
    let mut figures = Figures::new(state_dir.clone(), log.clone())?;
    let topology = figures.machine();
    hand.move_side_by_side(movers(&topology));
    let experiments = shelf(&state_dir, EXPERIMENTS)?;
    let stories = shelf(&state_dir, HISTORY)?;
    let parts = Wiring {
        options,
        loaded,
        log,
        reader,
        topology,
        figures,
        hand,
        experiments,
        stories,
        notifier,
    };
    parts.serve()
}

/// How many calls that move pages may go on side by side. How many do is measured, and what they take counts into
/// `overhead.budget_percent` as all that we do.
fn movers(topology: &Topology) -> usize {
    topology.online().len().min(MOVERS_MAX)
}

/// A small share of a machine with many processors; what more of them would move is not known.
const MOVERS_MAX: usize = 8;

/// Those who ask about memory, each with threads of its own: the hand, which the machine shares,
/// and whoever reads environments of ranks.
#[cfg(test)]
const ASKERS: usize = 2;
/// The server, the engine, the rows of MPI programs, and two desks.
#[cfg(test)]
const OWN_THREADS: usize = 5;

/// Which nodes a guest should have. Wrong settings keep no guest from starting: of them only the
/// socket matters here.
fn advise(need: Need, options: &Options) -> Result<String, Failure> {
    let socket = options.socket.clone().unwrap_or_else(|| {
        load(options).map_or_else(
            |_wrong| PathBuf::from(control::SOCKET_DEFAULT),
            |loaded| loaded.config.daemon.socket,
        )
    });
    let topology = topology::load("this").map_err(|error| undescribed(&error))?;
    advise::advice(need, &topology, &Reader::new("/"), &socket)
}

/// Settings as files and command line say.
fn load(options: &Options) -> Result<Loaded, Failure> {
    let paths = paths(options);
    if paths.are_absent() {
        let text = format!(
            "there is no file `{}`, nor a drop-in",
            paths.file().display()
        );
        return Err(Failure::new(ErrorKind::NotFound, text)
            .remedy("name a settings file, or a directory that holds `numad.toml`"));
    }
    placed_settings(options).map_err(|error| {
        let problems = error.to_string().replace('\n', "; ");
        Failure::new(ErrorKind::Configuration, problems)
    })
}

/// Settings of files that are relied on, with what the command line says instead.
fn placed_settings(options: &Options) -> Result<Loaded, ConfigError> {
    let paths = paths(options);
    trusted::settings(&paths)?;
    Ok(placed(config::load(&paths)?, options))
}

/// What there is to go by where files are wrong, or absent. That keeps nobody from undoing, but the
/// exit code says so: another state directory may have been meant.
fn without_files(options: &Options) -> Loaded {
    let (config, files) = (Config::default(), Vec::new());
    placed(Loaded { config, files }, options)
}

fn placed(mut loaded: Loaded, options: &Options) -> Loaded {
    let absolute = |path: &PathBuf| std::path::absolute(path).unwrap_or_else(|_| path.clone());
    let socket = options.socket.as_ref().map(absolute);
    let state_dir = options.state_dir.as_ref().map(absolute);
    loaded.config = loaded
        .config
        .placed(socket.as_deref(), state_dir.as_deref());
    loaded
}

/// What stands in the state directory decides about threads of everyone.
fn must_be_trusted(state_dir: &Path) -> Result<(), Failure> {
    Trust::of_this_process()
        .directory(state_dir)
        .map_err(|distrust| {
            let message = format!("the state directory is not relied on: {distrust}");
            Failure::new(ErrorKind::Prerequisite, message)
                .remedy("name a --state-dir that nobody but root or numad can change")
        })
}

fn paths(options: &Options) -> Paths {
    options
        .config
        .as_deref()
        .map_or_else(Paths::default, Paths::named)
}

fn files(loaded: &Loaded) -> String {
    if loaded.files.is_empty() {
        return "there are none, and all are at their defaults".to_owned();
    }
    let names: Vec<String> = loaded
        .files
        .iter()
        .map(|file| file.display().to_string())
        .collect();
    names.join(", ")
}

/// Our own mistakes end the process at once: the service manager starts it again, and the start
/// puts back what was changed.
fn abort_on_panic(log: Log) {
    std::panic::set_hook(Box::new(move |panic| {
        log.error(format_args!("a mistake in numad itself, aborting: {panic}"));
        std::process::abort();
    }));
}

/// Undo within one second must hold on a crowded machine too, where threads of ordinary priority
/// wait for hundreds of milliseconds; with 64 spinning threads on two processors an undo took 2 s.
/// What we use of a processor stays within the budgets either way.
fn step_forward(log: &Log) {
    if let Err(errno) = actuator::set_own_nice(NICE) {
        let why = errno.desc();
        log.debug(format_args!(
            "runs at ordinary priority, which makes undo slow under load: {why}"
        ));
    }
}

/// A tenfold weight against an ordinary thread (`sched_prio_to_weight` of the kernel).
const NICE: i32 = -10;

/// Tables of a program are larger than this, what lives for a window mostly smaller. With glibc's
/// own bound forty short programs left 135 MiB resident with nothing attached; with this 13 MiB.
const BLOCK_BYTES: i32 = 1 << 20;

/// This machine, with what `numadctl characterize` measured of it, which can be after our start.
struct Figures {
    bare: Topology,
    state_dir: PathBuf,
    log: Log,
    known: Option<Measured>,
    /// What was wrong with the file the last time, to say it once.
    wrong: Option<String>,
}

impl Figures {
    fn new(state_dir: PathBuf, log: Log) -> Result<Self, Failure> {
        Ok(Self {
            bare: topology::load("this").map_err(|error| undescribed(&error))?,
            state_dir,
            log,
            known: None,
            wrong: None,
        })
    }

    /// The machine by what is known of it now.
    fn machine(&mut self) -> Arc<Topology> {
        self.news().unwrap_or_else(|| Arc::new(self.bare.clone()))
    }

    /// The machine, if something was measured of it that was not known yet.
    fn news(&mut self) -> Option<Arc<Topology>> {
        let found = Measured::read(&self.state_dir, self.bare.fingerprint());
        let measured = match found {
            Ok(measured) => measured?,
            Err(error) => {
                let wrong = Some(error.to_string());
                if self.wrong != wrong {
                    self.log
                        .warn(format_args!("ignoring measured bandwidths: {error}"));
                    self.wrong = wrong;
                }
                return None;
            }
        };
        if self.known.as_ref() == Some(&measured) {
            return None;
        }
        let pairs = measured.iter().count();
        self.log.info(format_args!(
            "goes by bandwidths that were measured, of {pairs} pairs of nodes"
        ));
        if let Some(busy) = measured.busy_percent {
            self.log.warn(format_args!(
                "these were measured while others used {busy} % of the processors, so they are too \
                 low; measure again with `numadctl characterize --again`"
            ));
        }
        let topology = self.bare.clone().with_measured(&measured);
        self.known = Some(measured);
        Some(Arc::new(topology))
    }
}

fn undescribed(error: &topology::LoadError) -> Failure {
    let message = format!("this machine cannot be described: {error}");
    Failure::new(ErrorKind::Prerequisite, message).remedy("mount /sys and /proc")
}

/// Where experiments, and stories of attachments, are kept in the state directory.
const EXPERIMENTS: &str = "experiments";
const HISTORY: &str = "history";

fn shelf(state_dir: &Path, name: &str) -> Result<Shelf, Failure> {
    let directory = state_dir.join(name);
    Shelf::open(directory.clone()).map_err(|error| {
        let message = format!("`{}` cannot be used: {error}", directory.display());
        Failure::new(ErrorKind::Prerequisite, message)
            .remedy("make room in the state directory, and see to whom it belongs")
    })
}

fn tell_left_behind(log: &Log, report: &UndoReport) {
    if !report.failed.is_empty() {
        log.warn(format_args!(
            "an earlier run was not undone wholly: {}",
            undo_text(report)
        ));
    } else if *report != UndoReport::default() {
        log.info(format_args!(
            "an earlier run was undone: {}",
            undo_text(report)
        ));
    }
}

fn say(line: &str) -> Result<(), Failure> {
    match writeln!(io::stdout().lock(), "{line}") {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(internal("standard output takes nothing", &error))
        }
        _ => Ok(()),
    }
}

fn internal(what: &str, error: &io::Error) -> Failure {
    Failure::new(ErrorKind::Internal, format!("{what}: {error}"))
}

/// Everything that is ready before the daemon serves.
struct Wiring<'a> {
    options: &'a Options,
    loaded: Loaded,
    log: Log,
    reader: Reader,
    topology: Arc<Topology>,
    figures: Figures,
    hand: LiveHand,
    experiments: Shelf,
    stories: Shelf,
    notifier: Notifier,
}

/// What runs on the server's thread.
struct Front {
    socket: Socket,
    listener: UnixListener,
    /// Where MPI programs get their rows.
    mpi: Option<Socket>,
    /// The same for admins alone.
    admins: Option<(Socket, UnixListener)>,
    gate: watch::Receiver<Gate>,
    line: Line,
    notifier: Notifier,
    log: Log,
}

impl Wiring<'_> {
    fn serve(self) -> Result<(), Failure> {
        let (log, notifier) = (self.log.clone(), self.notifier.clone());
        let runtime = runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| internal("the server does not start", &error))?;
        // Before the socket: whoever can connect may send a signal next.
        let signals = {
            let _inside = runtime.enter();
            Signals::new().map_err(|error| internal("signals cannot be listened to", &error))?
        };
        let gate = gate_of(&self.loaded.config);
        if let Some(missing) = gate.access.missing_group(&self.loaded.config.access) {
            log.warn(format_args!("{missing}"));
        }
        let wanted = self.loaded.config.daemon.connections_max;
        if gate.connections_max < wanted {
            log.warn(format_args!(
                "serving {} connections of users at a time instead of {wanted}: the rest of {} file \
                 descriptors is kept for undo; raise `LimitNOFILE`",
                gate.connections_max,
                descriptors::limit()
            ));
        }
        let path = self.loaded.config.daemon.socket.clone();
        let (socket, listener) = Socket::listen(&path, Audience::Everyone, &gate.access)?;
        let own = control::admin_socket(&path);
        let admins = Socket::listen(&own, Audience::Admins, &gate.access);
        let admins = admins.map_err(|failure| {
            log.warn(format_args!("admins share the socket of users: {failure}"));
        });
        let mpi = Socket::listen(
            &control::mpi_socket(&path),
            Audience::Everyone,
            &gate.access,
        );
        let (gate_sender, gate) = watch::channel(gate);
        let (mut steward, rows) = self.steward(gate_sender);
        let mpi = mpi.and_then(|mpi| served(mpi, rows, &gate, &log));
        let mpi = mpi.map_err(|failure| {
            log.warn(format_args!("no messages of MPI programs: {failure}"));
        });
        let (line, orders) =
            line().map_err(|error| internal("the engine thread cannot be woken", &error))?;
        let heart = notifier.clone();
        let engine = thread::Builder::new()
            .name("engine".to_owned())
            .spawn(move || orders.work(&mut steward, &heart))
            .map_err(|error| internal("the engine thread does not start", &error))?;
        let front = Front {
            socket,
            listener,
            mpi: mpi.ok(),
            admins: admins.ok(),
            gate,
            line,
            notifier,
            log,
        };
        let ended = runtime.block_on(front.run(signals));
        // With the front and every connection gone nobody holds the line, so the thread ends.
        drop(runtime);
        if engine.join().is_err() {
            return Err(Failure::new(
                ErrorKind::Internal,
                "the engine thread panicked",
            ));
        }
        ended
    }

    fn steward(self, gate: watch::Sender<Gate>) -> (Steward, Rows) {
        let page_bytes = page_bytes();
        let options = self.options.clone();
        let (residency, asker) = (self.hand.residency(page_bytes), self.hand.asker());
        let topology = self.topology;
        let mut opener = LiveOpener::new(Arc::clone(&topology), &self.reader, asker.clone());
        if let Err(failure) = opener.try_once(&self.loaded.config) {
            self.log
                .warn(format_args!("nothing can be attached yet: {failure}"));
        }
        let experiments = Experiments::new(self.experiments, &self.log);
        let stories = Stories::new(self.stories, &self.log);
        let look = Look::new(
            self.reader.clone(),
            Arc::clone(&topology),
            (residency, asker),
            page_bytes,
            self.log.clone(),
        );
        let rows = look.rows();
        let mut figures = self.figures;
        let parts = Parts {
            opener: Box::new(opener),
            meters: meters(&self.reader, &topology, &self.loaded.config),
            topology,
            measured: Box::new(move || figures.news()),
            page_bytes,
            machine: Box::new(look),
            hand: Box::new(self.hand),
            config: self.loaded.config,
            files: self.loaded.files,
            loader: Box::new(move || placed_settings(&options)),
            clock: Box::new(clock::monotonic),
            log: self.log,
            gate,
        };
        (Steward::new(parts, experiments, stories), rows)
    }
}

/// Gives MPI programs their rows.
fn served(
    (socket, listener): (Socket, UnixListener),
    rows: Rows,
    gate: &watch::Receiver<Gate>,
    log: &Log,
) -> Result<Socket, Failure> {
    let served = rows.serve(listener, gate.clone(), log.clone());
    served.map_err(|error| internal("rows have no thread", &error))?;
    Ok(socket)
}

/// Counters of this machine, or where another program tells what it counts.
fn meters(reader: &Reader, topology: &Topology, config: &Config) -> Meters {
    let pmus = Pmus::read(reader.root());
    let kernel = KernelCounters::new(KernelSettings::read(reader.root()));
    let plan = Plan::new(&pmus, topology);
    let sampling = &config.sampling;
    if sampling.counters_fed {
        let fed = FedCounters::new(&sampling.counters_feed, Box::new(kernel));
        // One line for a process, whatever kinds of cores it runs on.
        return Meters::new(Box::new(fed), plan, Vec::new());
    }
    Meters::new(Box::new(kernel), plan, Plan::cores(&pmus))
}

fn page_bytes() -> u64 {
    u64::try_from(sampler::ring::page_bytes()).expect("a page is smaller than the address space")
}

/// Signals that are listened to.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }
}

impl Front {
    /// Serves until told to end. Another signal while everything is put back changes nothing:
    /// the handlers stay, and nobody listens to them any more.
    async fn run(self, mut signals: Signals) -> Result<(), Failure> {
        let listened = |listener| {
            tokio::net::UnixListener::from_std(listener)
                .map_err(|error| internal("the socket cannot be listened to", &error))
        };
        let listener = listened(self.listener)?;
        let (mut sockets, mut admins) = (vec![self.socket], None);
        if let Some((socket, listener)) = self.admins {
            sockets.push(socket);
            admins = Some(listened(listener)?);
        }
        sockets.extend(self.mpi);
        let mut gate = self.gate.clone();
        let server = Server {
            line: self.line.clone(),
            gate: self.gate,
            limits: Limits::default(),
            witness: kernel_witness(),
            log: self.log.clone(),
        };
        let server = tokio::spawn(server.serve(listener, admins));
        let path = sockets[0].path().display().to_string();
        self.log.info(format_args!("serving on {path}"));
        tell(
            &self.log,
            self.notifier.ready(&format!("serving on {path}")),
        );
        loop {
            tokio::select! {
                _ = signals.terminate.recv() => break,
                _ = signals.interrupt.recv() => break,
                _ = signals.hangup.recv() => {
                    tell(&self.log, self.notifier.reloading(clock::monotonic()));
                    // The steward has logged what came of it.
                    drop(self.line.ask(Lane::Admins, |steward| steward.reload(Peer::DAEMON)).await);
                    tell(&self.log, self.notifier.ready(&format!("serving on {path}")));
                }
                Ok(()) = gate.changed() => {
                    let access = gate.borrow_and_update().access.clone();
                    for refused in sockets.iter().filter_map(|socket| socket.open_to(&access).err()) {
                        self.log.error(format_args!("permissions of the socket stay: {refused}"));
                    }
                }
            }
        }
        tell(&self.log, self.notifier.stopping());
        server.abort();
        drop(sockets);
        let report = self.line.stop().await?;
        for failed in &report.failed {
            self.log.error(format_args!("not undone: {failed}"));
        }
        Ok(())
    }
}

fn tell(log: &Log, told: io::Result<()>) {
    if let Err(error) = told {
        log.warn(format_args!(
            "the service manager does not listen, ignoring: {error}"
        ));
    }
}

#[cfg(test)]
mod tests {
    use config::Config;

    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn settings_that_make_no_sense_name_file_and_line() {
        let scratch = Scratch::new("start");
        let file = scratch.path().join("numad.toml");
        std::fs::write(&file, "[daemon]\nlog_level = \"loud\"\nsokket = \"/x\"\n").unwrap();
        let options = Options {
            config: Some(file),
            ..Options::default()
        };
        let failure = run(&options).unwrap_err();
        assert_eq!(failure.kind, ErrorKind::Configuration);
        assert!(failure.message.contains("numad.toml:2"), "{failure}");
        assert!(failure.message.contains("`socket`"), "{failure}");
        assert!(!failure.to_string().contains('\n'));
    }

    /// A line of the unit.
    fn unit(name: &str) -> &'static str {
        let text = include_str!("../../../systemd/numad.service");
        let mut lines = text.lines();
        lines.find_map(|line| line.strip_prefix(name)).unwrap()
    }

    /// Where tasks are used up, what needs another thread is refused.
    #[test]
    fn the_unit_leaves_room_for_all_that_may_hang() {
        let most: usize = unit("TasksMax=").parse().unwrap();
        let threads = ASKERS * actuator::ASKING_MAX + MOVERS_MAX + OWN_THREADS;
        assert!(threads + threads / 2 <= most, "{threads} of {most}");
    }

    #[test]
    fn the_unit_leaves_room_for_all_programs() {
        const PROGRAM_MIB: usize = 8;
        let most = unit("MemoryMax=").strip_suffix('G').unwrap();
        let most = most.parse::<usize>().unwrap() << 10;
        let programs = 2 * Config::default().daemon.attachments_max * PROGRAM_MIB;
        assert!(programs + programs / 2 <= most, "{programs} of {most}");
    }

    #[test]
    fn what_was_measured_is_gone_by_and_damage_is_not() {
        let scratch = Scratch::new("start-measured");
        let log = Log::to_stderr(crate::log::Level::Error);
        let mut figures = Figures::new(scratch.path().to_owned(), log.clone()).unwrap();
        let bare = figures.machine();
        let id = bare.nodes_with_memory().first().unwrap();
        let local = |topology: &Topology| topology.bandwidth().link(id, id).read_mbps;
        let mut measured = Measured::new(bare.fingerprint());
        let path = Measured::path(scratch.path(), bare.fingerprint());
        assert!(figures.news().is_none());
        for value in [12_345, 23_456] {
            measured.link_mut(id, id).alone_mbps = Some(value);
            std::fs::write(&path, measured.to_text()).unwrap();
            let figure = local(&figures.news().unwrap()).unwrap();
            assert_eq!(
                (figure.value, figure.origin),
                (value, topology::Origin::Measured)
            );
            assert!(figures.news().is_none(), "the same is no news");
        }
        std::fs::write(&path, "numad bandwidth 1\n").unwrap();
        assert!(figures.news().is_none(), "what is known stays");
        let mut started = Figures::new(scratch.path().to_owned(), log).unwrap();
        assert_eq!(local(&started.machine()), local(&bare));
    }

    #[test]
    fn settings_that_are_named_must_be_there() {
        let scratch = Scratch::new("start-absent");
        for named in [scratch.path().to_owned(), scratch.path().join("absent")] {
            let failure = load(&Options {
                config: Some(named),
                ..Options::default()
            });
            assert_eq!(failure.unwrap_err().kind, ErrorKind::NotFound);
        }
    }

    #[test]
    fn all_defaults_are_in_order() {
        let scratch = Scratch::new("start-defaults");
        let file = scratch.path().join("numad.toml");
        std::fs::write(&file, "").unwrap();
        let loaded = load(&Options {
            config: Some(file.clone()),
            ..Options::default()
        });
        let loaded = loaded.unwrap();
        assert_eq!(loaded.config, Config::default());
        assert_eq!(files(&loaded), file.display().to_string());
    }
}
