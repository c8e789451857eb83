//! `replay`.

use std::fs::File;
use std::io::{self, BufReader};
use std::path::Path;
use std::time::Duration;

use control::rows::{Matrix, Partner};
use control::{ErrorKind, Failure};
use numad_core::Support;
use numad_core::published::{METHOD, SUFFIX};
use sim::{ReplayReport, ReplaySpec, RunError, RunErrorKind};

use super::write_drawing;
use crate::cli::{Form, Replay};
use crate::fresh::must_not_replace;
use crate::output::Output;
use crate::usage::given_once;
use crate::{render, terminal};

pub(super) fn replay(arguments: &Replay, out: &mut Output<'_>) -> Result<(), Failure> {
    given_once(&arguments.set)?;
    let mut settings = arguments.set.clone();
    let policy = arguments.policy.strip_suffix(SUFFIX);
    if policy.is_some() {
        settings.push((METHOD.to_owned(), "published".to_owned()));
    }
    let spec = ReplaySpec {
        name: arguments.file.display().to_string(),
        policy: policy.unwrap_or(&arguments.policy).to_owned(),
        settings,
        machine: arguments.machine.clone(),
        window: arguments.window_ms.map(Duration::from_millis),
    };
    if let Some(Form::Svg(drawing)) = arguments.form() {
        must_not_replace(&arguments.file, &drawing)?;
    }
    let report = sim::replay(&spec, &mut || open(&arguments.file)).map_err(|error| told(&error))?;
    match arguments.form() {
        Some(Form::Json) => {
            let value: serde_json::Value =
                serde_json::from_str(&report.json()).map_err(|error| {
                    let text = format!("a report did not become JSON: {error}");
                    Failure::new(ErrorKind::Internal, text)
                })?;
            out.json(&value)?;
        }
        Some(Form::Csv) => out.text(&render::matrix::csv(&matrix(&report)))?,
        Some(Form::Svg(file)) => {
            let drawing = render::matrix_svg::drawing(&matrix(&report));
            write_drawing(&file, &drawing, out)?;
        }
        Some(Form::Text) => {
            let picture = render::matrix::picture(&matrix(&report), terminal::columns(0));
            out.text(&terminal::drawn(picture))?;
        }
        None => out.text(&sim::replay::Table(&report).to_string())?,
    }
    if let Some(damage) = &report.survey.damage {
        let text = format!(
            "`{}` is {damage}; what comes before it was replayed",
            spec.name
        );
        return Err(Failure::new(ErrorKind::Usage, text));
    }
    if report.violations.is_empty() {
        return Ok(());
    }
    let text = format!("the replay of `{}` broke a rule of the engine", spec.name);
    Err(Failure::new(ErrorKind::Internal, text).remedy("please report it with the recording"))
}

/// A file that can be read twice; opening a pipe would wait for its other end.
fn open(path: &Path) -> io::Result<BufReader<File>> {
    if !path.metadata()?.is_file() {
        return Err(io::Error::other("it is no file"));
    }
    File::open(path).map(BufReader::new)
}

/// Who shares memory with whom, as far as the replay got.
fn matrix(report: &ReplayReport) -> Matrix {
    let seen = report.after.as_ref().or(report.before.as_ref());
    let threads = seen.map_or(&[][..], |seen| &seen.threads);
    let rows = seen.map_or_else(Vec::new, |seen| {
        (0..seen.matrix.count())
            .map(|task| seen.matrix.row(task).to_vec())
            .collect()
    });
    let tids: Vec<u32> = threads.iter().map(|(key, _)| key.tid.0).collect();
    let support = seen.map(|seen| Support {
        matrix: &seen.matrix,
        certainty: seen.certainty,
        per_amount: seen.per_amount,
    });
    Matrix {
        window: "decayed".to_owned(),
        ranks: Vec::new(),
        nodes: threads
            .iter()
            .map(|(_, node)| node.map(|node| node.0))
            .collect(),
        rows,
        samples: report.windows.iter().map(|row| row.summary.samples).sum(),
        support: support.map_or_else(Vec::new, |support| support.cells()),
        confidence: support.map_or(0.0, |support| support.certainty.confidence()),
        partners: support.map_or_else(Vec::new, |support| partners(&support, &tids)),
        tids,
    }
}

fn partners(support: &Support<'_>, tids: &[u32]) -> Vec<Partner> {
    let partners = support.partners().into_iter();
    let row = |partner: numad_core::support::Partner| Partner {
        tid: tids[partner.task],
        with: tids[partner.with],
        samples: partner.samples,
        share: partner.evidence.share,
        low: partner.evidence.low,
        high: partner.evidence.high,
        sure: partner.evidence.convinces(),
    };
    partners.map(row).collect()
}

fn told(error: &RunError) -> Failure {
    let kind = match error.kind {
        RunErrorKind::Internal => ErrorKind::Internal,
        RunErrorKind::Usage => ErrorKind::Usage,
        RunErrorKind::Configuration => ErrorKind::Configuration,
        RunErrorKind::NotPermitted => ErrorKind::NotPermitted,
        RunErrorKind::NotFound => ErrorKind::NotFound,
    };
    Failure::new(kind, error.message.clone())
}
