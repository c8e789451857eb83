//! `record`.

use std::path::Path;

use control::rows::RecordRequest;
use control::{ErrorKind, Failure};
use sampler::recording::{Ending, Survey};
use serde_json::json;

use crate::cli::Record;
use crate::client::{Client, tape::Over};
use crate::fresh::{Fresh, cannot_write};
use crate::output::Output;
use crate::render::record::{duration_s, summary};
use crate::render::units::count;

pub(super) fn record(
    client: &Client,
    arguments: &Record,
    out: &mut Output<'_>,
    err: &mut Output<'_>,
) -> Result<(), Failure> {
    let mut file = begin(arguments)?;
    let request = RecordRequest {
        target: arguments.target(),
        for_ms: arguments.length_ms,
    };
    let quiet = arguments.length_ms.is_some() || arguments.plain.json;
    let mut begun = || match quiet {
        true => Ok(()),
        false => err.text("numadctl: recording until the program ends or Ctrl-C ends it\n"),
    };
    let over = client.record(&request, &mut begun, &mut file)?;
    let survey = Survey::of(file.read_back()?);
    let Some(survey) = survey.ok().filter(|survey| survey.span.is_some()) else {
        // Not worth a file.
        return Err(cut_off(client, &over, &file, "nothing was recorded"));
    };
    let held = format!(
        "`{}` holds the first {}",
        file.path().display(),
        count(survey.samples, "sample")
    );
    let failure = match (&over, survey.ending) {
        (_, Ending::Complete) => None,
        (over, Ending::CutOff { .. }) => Some(cut_off(client, over, &file, &held)),
    };
    let (path, bytes) = (file.path().to_owned(), file.bytes());
    file.keep()?;
    if arguments.plain.json {
        out.json(&json!({
            "file": path.display().to_string(),
            "complete": failure.is_none(),
            "samples": survey.samples,
            "lost": survey.lost,
            "threads": survey.threads.len(),
            "processes": survey.processes().len(),
            "duration_s": duration_s(&survey),
            "bytes": bytes,
            "source": survey.header.source,
        }))?;
    } else if failure.is_none() {
        out.text(&summary(&path, bytes, &survey))?;
    }
    failure.map_or(Ok(()), Err)
}

fn begin(arguments: &Record) -> Result<Fresh, Failure> {
    if arguments.output == Path::new("-") {
        let text = "a recording cannot go to standard output";
        return Err(Failure::new(ErrorKind::Usage, text).remedy("name a file"));
    }
    if arguments.force {
        Fresh::replacing(&arguments.output)
    } else {
        Fresh::begin(&arguments.output)
    }
}

/// Why a recording has no end, and what there is of it.
fn cut_off(client: &Client, over: &Over, file: &Fresh, held: &str) -> Failure {
    let socket = client.socket().display();
    match over {
        Over::Unwritten(error) => {
            let failure = cannot_write(file.path(), error);
            let message = format!("{}; {held}", failure.message);
            Failure::new(failure.kind, message).remedy(failure.remedy)
        }
        Over::Interrupted => Failure::new(
            ErrorKind::Busy,
            format!("the recording was left in the middle; {held}"),
        ),
        Over::Silent => Failure::new(
            ErrorKind::Busy,
            format!("the daemon on `{socket}` fell silent; {held}"),
        )
        .remedy("see `systemctl status numad`"),
        Over::Sent | Over::Broken => Failure::new(
            ErrorKind::Prerequisite,
            format!("the daemon on `{socket}` ended while it recorded; {held}"),
        )
        .remedy("see `journalctl -u numad`"),
    }
}
