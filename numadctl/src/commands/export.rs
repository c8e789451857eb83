//! `export`.

use control::rows::AttachmentDetail;
use control::{ErrorKind, Failure};

use crate::cli::Export;
use crate::client::Client;
use crate::output::Output;
use crate::{find, render};

use super::history;

pub(super) fn export(
    client: &Client,
    arguments: &Export,
    out: &mut Output<'_>,
) -> Result<(), Failure> {
    let found = find::attachment(client, arguments.which)
        .and_then(|id| Ok(client.get(&format!("/v1/attachments/{id}"))?));
    let detail: AttachmentDetail = match found {
        Ok(detail) => detail,
        Err(failure) => history::instead(client, arguments.which, failure)?.detail,
    };
    let topology = topology::load("this")
        .map_err(|error| Failure::new(ErrorKind::Prerequisite, error.to_string()))?;
    out.text(&render::export::text(&detail, &topology, arguments.format)?)
}
