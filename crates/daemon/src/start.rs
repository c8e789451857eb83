//! Putting it together: settings, journal, undo of what was left behind, machine, socket, and then
//! serving until a signal says otherwise.

use std::io::{self, Write};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use config::{Loaded, Paths};
use control::rows::UndoReport;
use control::{ErrorKind, Failure};
use procfs::Reader;
use sampler::counters::{KernelCounters, Plan};
use sampler::kernel::KernelSettings;
use sampler::pmu::Pmus;
use tokio::runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use topology::{Measured, Topology};

use crate::cli::Options;
use crate::clock;
use crate::live::{LiveHand, LiveOpener, Look};
use crate::log::Log;
use crate::notify::Notifier;
use crate::peer::Peer;
use crate::server::{Gate, Limits, Server, kernel_witness};
use crate::socket::Socket;
use crate::steward::{
    Hand, Line, Meters, Parts, Scope, Steward, gate_of, level_of, line, undo_text,
};

/// Does what the command line asks, to its end.
///
/// # Errors
/// What is in the way, with the exit code in its kind.
pub fn run(options: &Options) -> Result<(), Failure> {
    let loaded = load(options)?;
    if options.check_config {
        return say(&format!("settings are in order: {}", files(&loaded)));
    }
    actuator::give_back_blocks_from(BLOCK_BYTES);
    let log = Log::to_stderr(level_of(&loaded.config));
    abort_on_panic(log.clone());
    step_forward(&log);
    let reader = Reader::new("/");
    let state_dir = options.state_dir.clone();
    let state_dir = state_dir.unwrap_or_else(|| loaded.config.daemon.state_dir.clone());
    let mut hand = LiveHand::open(&state_dir, &reader, &log)?;
    hand.pause_at_most(loaded.config.overhead.move_pause_max);
    let left_behind = hand.undo(&Scope::All);
    if options.undo {
        return say_undone(&left_behind);
    }
    tell_left_behind(&log, &left_behind);
    let topology = machine(&state_dir, &log)?;
    let parts = Wiring {
        options,
        loaded,
        log,
        reader,
        topology,
        hand,
    };
    parts.serve()
}

/// Settings as files and command line say.
fn load(options: &Options) -> Result<Loaded, Failure> {
    config::load(&paths(options)).map_err(|error| {
        let problems = error.to_string().replace('\n', "; ");
        Failure::new(ErrorKind::Configuration, problems)
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

/// Tables of a program are larger than this, what lives for a window mostly smaller. With glibc's own
/// bound forty short programs left 135 MiB resident with nothing attached; with this 13 MiB.
const BLOCK_BYTES: i32 = 1 << 20;

/// This machine, with what `numadctl characterize` measured of it.
fn machine(state_dir: &Path, log: &Log) -> Result<Arc<Topology>, Failure> {
    let topology = topology::load("this").map_err(|error| {
        Failure::new(
            ErrorKind::Prerequisite,
            format!("this machine cannot be described: {error}"),
        )
        .remedy("mount /sys and /proc")
    })?;
    let measured = Measured::read(state_dir, topology.fingerprint());
    let topology = match measured {
        Ok(Some(measured)) => {
            let pairs = measured.iter().count();
            log.info(format_args!(
                "goes by bandwidths that were measured, of {pairs} pairs of nodes"
            ));
            topology.with_measured(&measured)
        }
        Ok(None) => topology,
        Err(error) => {
            log.warn(format_args!("ignoring measured bandwidths: {error}"));
            topology
        }
    };
    Ok(Arc::new(topology))
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

fn say_undone(report: &UndoReport) -> Result<(), Failure> {
    say(&undo_text(report))?;
    if report.failed.is_empty() {
        return Ok(());
    }
    let message = format!("`{}` changes could not be undone", report.failed.len());
    Err(Failure::new(ErrorKind::Kernel, message).remedy("see above, and try again as root"))
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
    hand: LiveHand,
}

/// What runs on the server's thread.
struct Front {
    socket: Socket,
    listener: UnixListener,
    gate: watch::Receiver<Gate>,
    line: Line,
    notifier: Notifier,
    log: Log,
}

impl Wiring<'_> {
    fn serve(self) -> Result<(), Failure> {
        let log = self.log.clone();
        let notifier = Notifier::from_environment().map_err(|error| {
            let what = "the service manager in `NOTIFY_SOCKET` cannot be reached";
            internal(what, &error)
        })?;
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
        let (socket, listener) = Socket::listen(&self.socket_path(), &gate.access)?;
        let (gate_sender, gate) = watch::channel(gate);
        let mut steward = self.steward(gate_sender);
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

    fn socket_path(&self) -> PathBuf {
        self.options
            .socket
            .clone()
            .unwrap_or_else(|| self.loaded.config.daemon.socket.clone())
    }

    fn steward(self, gate: watch::Sender<Gate>) -> Steward {
        let page_bytes = page_bytes();
        let paths = paths(self.options);
        let residency = LiveHand::residency();
        let topology = self.topology;
        let look = Look::new(
            self.reader.clone(),
            Arc::clone(&topology),
            residency,
            page_bytes,
            self.log.clone(),
        );
        Steward::new(Parts {
            opener: Box::new(LiveOpener::new(Arc::clone(&topology), &self.reader)),
            meters: meters(&self.reader, &topology),
            topology,
            page_bytes,
            machine: Box::new(look),
            hand: Box::new(self.hand),
            config: self.loaded.config,
            files: self.loaded.files,
            loader: Box::new(move || config::load(&paths)),
            clock: Box::new(clock::monotonic),
            log: self.log,
            gate,
        })
    }
}

/// Counters of this machine.
fn meters(reader: &Reader, topology: &Topology) -> Meters {
    let pmus = Pmus::read(reader.root());
    let opener = KernelCounters::new(KernelSettings::read(reader.root()));
    let plan = Plan::new(&pmus, topology);
    Meters::new(Box::new(opener), plan, Plan::cores(&pmus))
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
        let listener = tokio::net::UnixListener::from_std(self.listener)
            .map_err(|error| internal("the socket cannot be listened to", &error))?;
        let mut gate = self.gate.clone();
        let server = Server {
            line: self.line.clone(),
            gate: self.gate,
            limits: Limits::default(),
            witness: kernel_witness(),
            log: self.log.clone(),
        };
        let server = tokio::spawn(server.serve(listener));
        let path = self.socket.path().display().to_string();
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
                    drop(self.line.ask(|steward| steward.reload(Peer::DAEMON)).await);
                    tell(&self.log, self.notifier.ready(&format!("serving on {path}")));
                }
                Ok(()) = gate.changed() => {
                    let access = gate.borrow_and_update().access.clone();
                    if let Err(refused) = self.socket.open_to(&access) {
                        self.log.error(format_args!("permissions of the socket stay: {refused}"));
                    }
                }
            }
        }
        tell(&self.log, self.notifier.stopping());
        server.abort();
        drop(self.socket);
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

    #[test]
    fn what_was_measured_is_gone_by_and_damage_is_not() {
        let scratch = Scratch::new("start-measured");
        let log = Log::to_stderr(crate::log::Level::Error);
        let bandwidth = || {
            let topology = machine(scratch.path(), &log).unwrap();
            let id = topology.nodes_with_memory().first().unwrap();
            (
                topology.fingerprint(),
                id,
                topology.bandwidth().link(id, id).read_mbps,
            )
        };
        let (fingerprint, id, _) = bandwidth();
        let path = Measured::path(scratch.path(), fingerprint);
        let mut measured = Measured::new(fingerprint);
        measured.link_mut(id, id).alone_mbps = Some(12_345);
        std::fs::write(&path, measured.to_text()).unwrap();
        let figure = bandwidth().2.unwrap();
        assert_eq!(
            (figure.value, figure.origin),
            (12_345, topology::Origin::Measured)
        );
        std::fs::write(&path, "numad bandwidth 1\n").unwrap();
        assert_ne!(bandwidth().2, Some(figure));
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
