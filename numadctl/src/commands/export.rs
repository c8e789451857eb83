//! `export`.

use control::rows::AttachmentDetail;
use control::{ErrorKind, Failure};

use crate::cli::Export;
use crate::client::Client;
use crate::output::Output;
use crate::{find, render};

use super::{history, plan};

pub(super) fn export(
    client: &Client,
    arguments: &Export,
    out: &mut Output<'_>,
) -> Result<(), Failure> {
    if let Some(file) = &arguments.plan {
        let plan = plan::load(file)?;
        return out.text(&render::export::of_plan(&plan, arguments.format)?);
    }
    let which = arguments.which.ok_or_else(|| {
        Failure::new(
            ErrorKind::Usage,
            "neither an attachment nor a plan is named",
        )
        .remedy("name one, or a file with `--plan`")
    })?;
    let found = find::attachment(client, which)
        .and_then(|id| Ok(client.get(&format!("/v1/attachments/{id}"))?));
    let detail: AttachmentDetail = match found {
        Ok(detail) => detail,
        Err(failure) => history::instead(client, which, failure)?.detail,
    };
    let topology = topology::load("this")
        .map_err(|error| Failure::new(ErrorKind::Prerequisite, error.to_string()))?;
    out.text(&render::export::text(&detail, &topology, arguments.format)?)
}
