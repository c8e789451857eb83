//! The thread of one external policy: starts the program, asks it, and starts it again when it fails.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Child;
use std::sync::mpsc::{Receiver, SyncSender};
use std::thread;
use std::time::{Duration, Instant};

use control::external::{ANSWER_BYTES_MAX, Answer, Greeting, read_answer, read_greeting};
use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;

use super::{Asked, Launch, Tally, Wanted, rights};

/// What is run to become the program: this very daemon, even if its file was replaced since.
const DAEMON: &str = "/proc/self/exe";

/// How long a program may take for its first line: an interpreter has to come up.
const GREETING: Duration = Duration::from_secs(10);

/// Failures in a row after which it is not started again.
const FAULTS_MAX: u32 = 6;
/// Answers in a row after which earlier failures are forgotten.
const GOOD_ENOUGH: u32 = 10;
/// Pause after the first failure; each further one doubles it.
const PAUSE: Duration = Duration::from_secs(1);

/// How long is waited for a program that was killed, or closed its pipe, to be gone.
const GONE: Duration = Duration::from_millis(500);

/// What a program did wrong.
#[derive(Debug)]
pub(super) enum Fault {
    Crash(String),
    Garbage(String),
    Silence(Duration),
}

impl Fault {
    fn words(&self) -> String {
        match self {
            Self::Crash(text) | Self::Garbage(text) => text.clone(),
            Self::Silence(limit) => format!("it did not answer within {} ms", limit.as_millis()),
        }
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct Talk {
    launch: Launch,
    greeting: Greeting,
    /// Positions of nodes by their numbers.
    positions: BTreeMap<u32, usize>,
    tally: Tally,
    daemon: PathBuf,
    partner: Partner,
    faults: u32,
    good: u32,
}

/// The program.
#[derive(Debug)]
enum Partner {
    /// It runs, and said who it is.
    There(Process),
    /// It is started when it is asked something after that.
    Out { until: Instant },
    /// It failed too often.
    GivenUp,
}

#[derive(Debug)]
struct Process {
    child: Child,
    stream: UnixStream,
    /// What came after the last line.
    rest: Vec<u8>,
}

impl Talk {
    pub(super) fn new(
        launch: Launch,
        greeting: Greeting,
        positions: BTreeMap<u32, usize>,
        tally: Tally,
    ) -> Self {
        Self {
            launch,
            greeting,
            positions,
            tally,
            daemon: DAEMON.into(),
            partner: Partner::Out {
                until: Instant::now(),
            },
            faults: 0,
            good: 0,
        }
    }

    /// With another program in place of the daemon, for tests of this crate: their own is no daemon.
    #[cfg(test)]
    pub(super) fn by(self, daemon: PathBuf) -> Self {
        Self { daemon, ..self }
    }

    /// Answers every question with proposals or none, until nobody asks any more.
    pub(super) fn run(mut self, questions: &Receiver<Asked>, answers: &SyncSender<Option<Wanted>>) {
        self.be_there();
        while let Ok(asked) = questions.recv() {
            let wanted = self.answer(&asked);
            if answers.send(wanted).is_err() {
                break;
            }
        }
        self.leave();
    }

    fn answer(&mut self, asked: &Asked) -> Option<Wanted> {
        self.be_there();
        let Partner::There(process) = &mut self.partner else {
            self.tally.count(|row| row.passed_over += 1);
            return None;
        };
        self.tally.count(|row| row.asked += 1);
        let found = process
            .ask(&asked.question, self.launch.answer)
            .and_then(|line| {
                read_answer(&line, asked.question.window)
                    .map_err(|garbage| Fault::Garbage(garbage.0))
            })
            .and_then(|answer| understood(&answer, asked, &self.positions));
        match found {
            Ok(wanted) => {
                self.good = self.good.saturating_add(1);
                if self.good >= GOOD_ENOUGH {
                    self.faults = 0;
                }
                self.tally.count(|row| row.answered += 1);
                Some(wanted)
            }
            Err(fault) => {
                self.failed(&fault);
                None
            }
        }
    }

    /// Starts the program if it does not run and its pause is over.
    fn be_there(&mut self) {
        match self.partner {
            Partner::Out { until } if until <= Instant::now() => {}
            Partner::There(_) | Partner::Out { .. } | Partner::GivenUp => return,
        }
        self.tally.count(|row| {
            row.starts += 1;
            "is being started".clone_into(&mut row.state);
        });
        match Process::start(&self.launch, &self.daemon, &self.greeting) {
            Ok((process, name)) => {
                self.partner = Partner::There(process);
                let state = match name.as_str() {
                    "" => "at work".to_owned(),
                    name => format!("at work as {name}"),
                };
                self.tally.count(|row| row.state = state);
            }
            Err(fault) => self.failed(&fault),
        }
    }

    fn failed(&mut self, fault: &Fault) {
        self.leave();
        self.good = 0;
        self.faults += 1;
        let state = if self.faults >= FAULTS_MAX {
            self.partner = Partner::GivenUp;
            format!("given up after {FAULTS_MAX} failures; detach and attach again to start it")
        } else {
            let pause = PAUSE * 2_u32.pow(self.faults - 1);
            self.partner = Partner::Out {
                until: Instant::now() + pause,
            };
            format!("failed, and is started again {} s later", pause.as_secs())
        };
        self.tally.count(|row| {
            match fault {
                Fault::Crash(_) => row.crashes += 1,
                Fault::Garbage(_) => row.garbage += 1,
                Fault::Silence(_) => row.silences += 1,
            }
            row.state = state;
            row.last_fault = Some(fault.words());
        });
    }

    fn leave(&mut self) {
        let out = Partner::Out {
            until: Instant::now(),
        };
        if let Partner::There(process) = std::mem::replace(&mut self.partner, out) {
            process.end();
        }
    }
}

/// What an answer means; it may name nothing that was not in the question.
fn understood(
    answer: &Answer,
    asked: &Asked,
    positions: &BTreeMap<u32, usize>,
) -> Result<Wanted, Fault> {
    let garbage = |what: &str, number: u32| {
        Fault::Garbage(format!(
            "it named {what} {number}, which it was not told of"
        ))
    };
    let node = |number: u32| {
        let position = positions.get(&number).copied();
        position.ok_or_else(|| garbage("node", number))
    };
    let tasks = answer.threads.iter().map(|&(tid, to)| {
        let task = asked
            .tasks
            .get(&tid)
            .ok_or_else(|| garbage("thread", tid))?;
        Ok((*task, node(to)?))
    });
    let pages = answer.pages.iter().map(|&(number, to)| {
        let page = asked.pages.get(&number);
        Ok((*page.ok_or_else(|| garbage("page", number))?, node(to)?))
    });
    Ok(Wanted {
        tasks: tasks.collect::<Result<_, Fault>>()?,
        pages: pages.collect::<Result<_, Fault>>()?,
    })
}

impl Process {
    /// Starts it, greets it, and hears its name.
    fn start(
        launch: &Launch,
        daemon: &PathBuf,
        greeting: &Greeting,
    ) -> Result<(Self, String), Fault> {
        let cannot = |error: io::Error| Fault::Crash(format!("it cannot be started: {error}"));
        let (stream, theirs) = UnixStream::pair().map_err(cannot)?;
        let output = theirs.try_clone().map_err(cannot)?;
        let child = rights::command(launch, daemon)
            .stdin(OwnedFd::from(theirs))
            .stdout(OwnedFd::from(output))
            .spawn()
            .map_err(cannot)?;
        let mut process = Self {
            child,
            stream,
            rest: Vec::new(),
        };
        let name = process
            .ask(greeting, GREETING)
            .and_then(|line| read_greeting(&line).map_err(|garbage| Fault::Garbage(garbage.0)));
        match name {
            Ok(name) => Ok((process, name)),
            Err(fault) => {
                process.end();
                Err(fault)
            }
        }
    }

    /// One line to it, and one back, within a time for both.
    fn ask(&mut self, line: &impl serde::Serialize, limit: Duration) -> Result<Vec<u8>, Fault> {
        let until = Instant::now() + limit;
        let mut text = serde_json::to_vec(line)
            .map_err(|error| Fault::Garbage(format!("the question has no JSON: {error}")))?;
        text.push(b'\n');
        self.tell(&text, until)
            .and_then(|()| self.hear(until))
            .map_err(|error| match error.kind() {
                io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => Fault::Silence(limit),
                io::ErrorKind::FileTooLarge => Fault::Garbage(error.to_string()),
                _ => Fault::Crash(self.last_words()),
            })
    }

    fn tell(&mut self, mut text: &[u8], until: Instant) -> io::Result<()> {
        while !text.is_empty() {
            self.stream.set_write_timeout(Some(left(until)?))?;
            match self.stream.write(text) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => text = &text[count..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn hear(&mut self, until: Instant) -> io::Result<Vec<u8>> {
        let mut seen = 0;
        loop {
            if let Some(end) = self.rest[seen..].iter().position(|&byte| byte == b'\n') {
                let mut line: Vec<u8> = self.rest.drain(..=seen + end).collect();
                line.pop();
                return Ok(line);
            }
            seen = self.rest.len();
            if seen > ANSWER_BYTES_MAX {
                let text = format!("its line is longer than {ANSWER_BYTES_MAX} bytes");
                return Err(io::Error::new(io::ErrorKind::FileTooLarge, text));
            }
            self.stream.set_read_timeout(Some(left(until)?))?;
            let mut chunk = [0; 16 << 10];
            match self.stream.read(&mut chunk) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => self.rest.extend_from_slice(&chunk[..count]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// How it ended, which it did by itself.
    fn last_words(&mut self) -> String {
        match self.ended() {
            Some(WaitStatus::Exited(_, rights::NOT_GIVEN_UP)) => {
                "it was not started, because the daemon's rights could not be given up".to_owned()
            }
            Some(WaitStatus::Exited(_, rights::NOT_STARTED)) => {
                "it cannot be started: no such program, or no interpreter of it".to_owned()
            }
            Some(WaitStatus::Exited(_, code)) => format!("it ended with exit code {code}"),
            Some(WaitStatus::Signaled(_, signal, _)) => format!("it was ended by {signal}"),
            _ => "it closed its input or output".to_owned(),
        }
    }

    /// Waits a little for its end, but leaves it to be waited for: until then its number is nobody else's.
    fn ended(&self) -> Option<WaitStatus> {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).ok()?);
        let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        let until = Instant::now() + GONE;
        loop {
            match waitid(Id::Pid(pid), flags) {
                Ok(WaitStatus::StillAlive) => {}
                Ok(status) => return Some(status),
                Err(_gone) => return None,
            }
            if Instant::now() >= until {
                return None;
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Kills it with all that it started in its process group.
    fn end(mut self) {
        if let Ok(group) = i32::try_from(self.child.id()) {
            // Refused where the daemon may not signal that user; the end of its input is its sign then.
            let _refused = killpg(Pid::from_raw(group), Signal::SIGKILL);
        }
        drop(self.stream.shutdown(std::net::Shutdown::Both));
        if self.ended().is_some() {
            drop(self.child.try_wait());
        } else {
            // On a machine without a moment for it: whenever it is gone, its number is free again.
            drop(thread::Builder::new().spawn(move || self.child.wait()));
        }
    }
}

/// What is left of a time, which is never nothing: a timeout of zero would be none.
fn left(until: Instant) -> io::Result<Duration> {
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(io::ErrorKind::TimedOut.into());
    }
    Ok(left)
}
