//! `ab`: slices of time of a running program under several policies. The daemon carries it out; here it is asked for,
//! followed and shown, and what a metric's command prints is read, as the user who asks.

mod started;

use control::experiment::{Ending, Experiment, ExperimentRequest, ExperimentRow, ReadingRequest};
use control::{ErrorKind, Failure};
use experiment::metric::{self, Source};

use crate::cli::Plain;
use crate::cli::experiment::{Ab, There};
use crate::client::{CallError, Client};
use crate::fresh::Fresh;
use crate::output::Output;
use crate::trial::{self, command};
use crate::waiting::Waiting;
use crate::{render, terminal};
use started::Started;

/// Gives the exit code: that of the command, if one was started.
pub(super) fn ab(
    client: &Client,
    arguments: &Ab,
    out: &mut Output<'_>,
    err: &mut Output<'_>,
) -> Result<u8, Failure> {
    let done = match &arguments.there {
        Some(There::List(plain)) => list(client, *plain, out),
        Some(There::Show(one)) => {
            let experiment = client.get(&path(one.number, ""))?;
            give(&experiment, one.plain, out)
        }
        Some(There::Stop(one)) => {
            let experiment = client.delete(&path(one.number, ""))?;
            give(&experiment, one.plain, out)
        }
        None if arguments.start.is_empty() => begin(client, arguments, out, err),
        None => return start(client, arguments, err),
    };
    done.map(|()| 0)
}

fn list(client: &Client, plain: Plain, out: &mut Output<'_>) -> Result<(), Failure> {
    let rows: Vec<ExperimentRow> = client.get("/v1/experiments")?;
    match plain.json {
        true => out.json(&rows),
        false => out.text(&render::experiment_list::list(&rows, terminal::columns(0))),
    }
}

fn give(experiment: &Experiment, plain: Plain, out: &mut Output<'_>) -> Result<(), Failure> {
    match plain.json {
        true => out.json(experiment),
        false => out.text(&render::experiment::text(experiment, terminal::prose())),
    }
}

fn path(number: u32, rest: &str) -> String {
    format!("/v1/experiments/{number}{rest}")
}

/// On a program that runs.
fn begin(
    client: &Client,
    arguments: &Ab,
    out: &mut Output<'_>,
    err: &mut Output<'_>,
) -> Result<(), Failure> {
    let request = request(arguments, arguments.target())?;
    must_be_writable(arguments)?;
    let mut waiting = Waiting::new(client.runtime())?;
    let row: ExperimentRow = client.post("/v1/experiments", &request)?;
    if arguments.detach {
        return match arguments.plain.json {
            true => out.json(&row),
            false => out.text(&begun(&row)),
        };
    }
    let number = row.id;
    let mut follower = Follower {
        client,
        waiting: &mut waiting,
        metrics: &request.metrics,
        started: None,
        err: (!arguments.plain.json).then_some(err),
    };
    let failed = follower.follow(row).err();
    conclude(client, arguments, number, failed, out)
}

/// On a command that is started for it. The command has standard output for itself; what is said of the experiment
/// goes to the error stream. Gives the command's exit code, or where that is 0 the experiment's.
fn start(client: &Client, arguments: &Ab, err: &mut Output<'_>) -> Result<u8, Failure> {
    let usage = |text: &str, remedy: &str| Failure::new(ErrorKind::Usage, text).remedy(remedy);
    if arguments.detach {
        return Err(usage(
            "`--detach` does not go with a command, as nobody would wait for its end",
            "start it yourself, and name its process: `numadctl ab PID --detach`",
        ));
    }
    if arguments.plain.json {
        return Err(usage(
            "`--json` does not go with a command, which has standard output for itself",
            "name a file with -o, which is JSON",
        ));
    }
    // All that can be wrong is known before anything is started.
    let none_yet = control::rows::Target::Pids(vec![std::process::id()]);
    let mut request = request(arguments, none_yet)?;
    must_be_writable(arguments)?;
    let mut waiting = Waiting::new(client.runtime())?;
    let mut started = Started::begin(&arguments.start, &mut waiting)?;
    request.target = started.target();
    let row: ExperimentRow = client.post("/v1/experiments", &request)?;
    let number = row.id;
    let mut follower = Follower {
        client,
        waiting: &mut waiting,
        metrics: &request.metrics,
        started: Some(&mut started),
        err: Some(err),
    };
    let failed = follower.follow(row).err();
    let ended = conclude(client, arguments, number, failed, err);
    let code = match &ended {
        Ok(()) => 0,
        // Nothing of it has run: it is not begun now.
        Err(_) if !started.runs() => return ended.map(|()| 0),
        Err(failure) => {
            drop(err.text(&format!("numadctl: {failure}\n")));
            failure.kind.exit_code()
        }
    };
    match started.wait_for_end(&mut waiting, err)? {
        0 => Ok(code),
        own => Ok(own),
    }
}

fn must_be_writable(arguments: &Ab) -> Result<(), Failure> {
    let Some(file) = &arguments.output else {
        return Ok(());
    };
    trial::must_be_new(file)?;
    // Whether it can be written is better known now than after an hour.
    Fresh::replacing(file).map(drop)
}

/// Keeps and shows what there is, and tells why there is not more.
fn conclude(
    client: &Client,
    arguments: &Ab,
    number: u32,
    failed: Option<Failure>,
    out: &mut Output<'_>,
) -> Result<(), Failure> {
    let mut experiment: Experiment = match client.get(&path(number, "")) {
        Ok(experiment) => experiment,
        Err(gone) => return Err(failed.unwrap_or_else(|| Failure::from(gone))),
    };
    if !arguments.start.is_empty() {
        let words = arguments.start.iter();
        experiment.subject = words
            .map(|word| word.to_string_lossy().into_owned())
            .collect();
    }
    // What there is is shown even where it cannot be kept: the daemon has it still.
    let saved = match &arguments.output {
        Some(file) => trial::save(&experiment, file).map_err(|failure| {
            failure.remedy(format!(
                "the daemon has it: `numadctl ab show {number} --json`"
            ))
        }),
        None => Ok(()),
    };
    if arguments.plain.json || !experiment.slices.is_empty() {
        give(&experiment, arguments.plain, out)?;
    }
    if !arguments.plain.json && !experiment.slices.is_empty() {
        let (kept, page) = match &arguments.output {
            Some(file) if saved.is_ok() => {
                (format!("`{}`", file.display()), file.display().to_string())
            }
            _ => ("the daemon".to_owned(), format!("ab:{number}")),
        };
        out.text(&format!(
            "\nkept in {kept}; `numadctl report {page} -o PAGE` makes a page of it\n"
        ))?;
    }
    let pairs = experiment.slices.len() / experiment.arms.len();
    match (failed, experiment.ending) {
        (Some(failure), _) => Err(failure),
        (None, Ending::Failed) => Err(why_failed(&experiment)),
        (None, Ending::Interrupted) => {
            let text = format!("experiment `{number}` was interrupted: {}", experiment.why);
            Err(Failure::new(ErrorKind::Busy, text))
        }
        (None, Ending::ProgramEnded) if pairs == 0 => {
            let text = format!(
                "the program ended before experiment `{number}` had a slice of each policy"
            );
            Err(Failure::new(ErrorKind::NotFound, text)
                .remedy("take shorter slices, or compare whole runs: `numadctl compare`"))
        }
        (None, _) => saved,
    }
}

fn request(arguments: &Ab, target: control::rows::Target) -> Result<ExperimentRequest, Failure> {
    let questions = &arguments.questions;
    let request = ExperimentRequest {
        target,
        arms: trial::arms(&questions.policies, &questions.set)?,
        metrics: arguments.metric.clone(),
        blocks: arguments.pairs,
        seed: questions.seed.unwrap_or_else(trial::any_seed),
        margin: questions.margin,
        looks: !questions.to_the_end,
        slice_ms: arguments.slice_ms,
        time_constant_ms: arguments.time_constant_ms,
        max_harm: arguments.max_harm,
        attended: !arguments.detach,
    };
    // The daemon judges for itself; whoever mistypes need not have one to be told.
    experiment::plan::slices(&request, trial::MADE_BY, String::new())?;
    Ok(request)
}

/// What is said of an experiment that nobody follows.
fn begun(row: &ExperimentRow) -> String {
    let id = row.id;
    let state = match row.behind {
        Some(other) => format!("waits for experiment {other}"),
        None => "has begun".to_owned(),
    };
    format!("experiment {id} {state}; `numadctl ab show {id}` tells how it stands\n")
}

/// Waits for the end of an experiment and gives it the numbers that it asks for.
struct Follower<'a, 'c, 'o, 'w> {
    client: &'a Client,
    waiting: &'a mut Waiting<'c>,
    /// As they were given.
    metrics: &'a [String],
    /// The program, if it was started for this.
    started: Option<&'a mut Started>,
    err: Option<&'o mut Output<'w>>,
}

impl Follower<'_, '_, '_, '_> {
    /// Until its end, or until someone wants to wait no longer: then it is stopped.
    fn follow(&mut self, mut row: ExperimentRow) -> Result<(), Failure> {
        let mut told = 0;
        self.say_state(&row)?;
        loop {
            if let Some(started) = &mut self.started
                && (row.state == "running" || row.state == "pilot")
            {
                started.let_go()?;
            }
            if row.slices > told {
                told = row.slices;
                self.say(&slice_done(&row))?;
            }
            if row.state == "over" {
                return Ok(());
            }
            let next = self.next(&row)?;
            if next.is_none() && self.waiting.signal().is_some() {
                return self.stop(row.id, command::interrupted());
            }
            if self.started.as_mut().is_some_and(|it| it.has_ended()) {
                // The daemon sees for itself that there is nothing to go on with.
                return self.stop(row.id, program_ended());
            }
            row = next.unwrap_or(row);
        }
    }

    /// What happens next; none when someone wants to wait no longer, or a child has stirred.
    fn next(&mut self, row: &ExperimentRow) -> Result<Option<ExperimentRow>, Failure> {
        if !row.asks {
            let wait = path(row.id, &format!("/turn?after={}", row.turn));
            let next = self.client.get_unless(&wait, self.waiting.stirred());
            return next.map_err(|error| self.lost(row.id, error));
        }
        let mut values = Vec::new();
        for text in self.metrics {
            let name = text
                .trim_start_matches("lower:")
                .trim_start_matches("higher:");
            match trial::number(metric::source(name), self.waiting) {
                Ok(value) => values.push(value),
                Err(failure) if failure.kind == ErrorKind::Busy => return Ok(None),
                Err(failure) => {
                    let given = self.give(row, Vec::new(), Some(failure.message.clone()));
                    given?;
                    return Err(failure);
                }
            }
        }
        self.give(row, values, None)
    }

    fn give(
        &self,
        row: &ExperimentRow,
        values: Vec<Option<f64>>,
        failed: Option<String>,
    ) -> Result<Option<ExperimentRow>, Failure> {
        let reading = ReadingRequest {
            turn: row.turn,
            values,
            failed,
        };
        let given = self.client.post(&path(row.id, "/readings"), &reading);
        match given.map_err(|error| self.lost(row.id, error)) {
            // Someone else stopped it meanwhile.
            Err(failure) if failure.kind == ErrorKind::Conflict => {
                Ok(Some(self.client.get(&path(row.id, "/turn?after=0"))?))
            }
            given => given.map(Some),
        }
    }

    fn stop(&self, number: u32, failure: Failure) -> Result<(), Failure> {
        match self.client.delete::<Experiment>(&path(number, "")) {
            Ok(it) if it.ending == Ending::ProgramEnded => Ok(()),
            Ok(_) => Err(failure),
            Err(error) => {
                match Failure::from(error) {
                    // It has just ended by itself.
                    over if over.kind == ErrorKind::Conflict => Ok(()),
                    unstopped => Err(unstopped
                        .remedy(format!("`numadctl ab stop {number}` puts everything back"))),
                }
            }
        }
    }

    fn lost(&self, number: u32, error: CallError) -> Failure {
        match Failure::from(error) {
            gone if gone.kind == ErrorKind::Prerequisite => gone.remedy(format!(
                "it puts everything back as it stops, or when it starts again; then `numadctl ab show {number}`"
            )),
            failure => failure,
        }
    }

    fn say_state(&mut self, row: &ExperimentRow) -> Result<(), Failure> {
        let id = row.id;
        let what = match (&row.behind, row.state.as_str()) {
            (Some(other), _) => {
                let held = match self.started {
                    Some(_) => "; the command is started when its turn comes",
                    None => "",
                };
                format!(
                    "experiment {id} waits for experiment {other}, which uses the same nodes{held}"
                )
            }
            (None, "pilot") => {
                format!("experiment {id}: a pilot measures how long a switch takes")
            }
            _ => return Ok(()),
        };
        self.say(&what)
    }

    fn say(&mut self, what: &str) -> Result<(), Failure> {
        match &mut self.err {
            Some(err) => err.text(&format!("numadctl: {what}\n")),
            None => Ok(()),
        }
    }
}

/// Why an experiment has no verdict, with what would help.
fn why_failed(experiment: &Experiment) -> Failure {
    let name = &experiment.metrics[0].name;
    let no_value = experiment.why.contains(metric::NO_VALUE);
    let (kind, remedy) = match metric::source(name) {
        Some(Source::Counter(_)) if no_value => (
            ErrorKind::Program,
            "the command must print a number that grows while the program works",
        ),
        Some(Source::Gauge(_) | Source::Query { .. }) if no_value => (
            ErrorKind::Program,
            "numbers must be above 0, as effects are shares of them",
        ),
        _ if no_value => (
            ErrorKind::Prerequisite,
            "`numadctl doctor` tells what can be counted; a cmd: metric always can",
        ),
        // What would help is said in brackets.
        _ if experiment.why.ends_with(')') => (ErrorKind::Prerequisite, ""),
        _ => (
            ErrorKind::Prerequisite,
            "the daemon's log and `numadctl journal` tell more",
        ),
    };
    Failure::new(kind, &experiment.why).remedy(remedy)
}

fn program_ended() -> Failure {
    Failure::new(ErrorKind::NotFound, "the program has ended")
}

/// What is said of the last slice.
fn slice_done(row: &ExperimentRow) -> String {
    let value = row
        .last_value
        .map_or_else(|| "no value".to_owned(), render::experiment::figure);
    let left = row.left_s.map_or_else(String::new, |left_s| {
        format!("; about {} left", render::units::seconds(left_s))
    });
    format!(
        "slice {} of {}, {}: {value}{left}",
        row.slices,
        row.planned,
        row.last_arm.as_deref().unwrap_or_default()
    )
}
