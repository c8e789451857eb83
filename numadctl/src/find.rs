//! From what people type to an attachment.

use control::rows::Attachment;
use control::{ErrorKind, Failure};

use crate::cli::Which;
use crate::client::Client;

/// The number of the attachment that is meant.
///
/// # Errors
/// When there is none, or two could be meant.
pub(crate) fn attachment(client: &Client, which: Which) -> Result<u32, Failure> {
    if let Which::Id(id) = which {
        return Ok(id);
    }
    let rows: Vec<Attachment> = client.get("/v1/attachments")?;
    choose(&rows, which)
}

/// The attachment that is meant, of all.
pub(crate) fn choose(rows: &[Attachment], which: Which) -> Result<u32, Failure> {
    let by_id = |number| rows.iter().find(|row| row.id == number).map(|row| row.id);
    let by_pid = |number| {
        rows.iter()
            .find(|row| row.pids.contains(&number))
            .map(|row| row.id)
    };
    let (found, what) = match which {
        Which::Id(number) => (by_id(number), format!("`{number}` is no attachment")),
        Which::Pid(number) => (
            by_pid(number),
            format!("process `{number}` is not attached"),
        ),
        Which::Either(number) => match (by_id(number), by_pid(number)) {
            (Some(id), Some(of_pid)) if id != of_pid => {
                return Err(Failure::new(
                    ErrorKind::Usage,
                    format!(
                        "`{number}` is an attachment and also a process of attachment {of_pid}"
                    ),
                )
                .remedy(format!("write `id:{number}` or `pid:{number}`")));
            }
            (id, of_pid) => (
                id.or(of_pid),
                format!("`{number}` is neither an attachment nor a process of one"),
            ),
        },
    };
    found.ok_or_else(|| {
        Failure::new(ErrorKind::NotFound, what)
            .remedy("`numadctl status` lists what is attached, `numadctl history` what has ended")
    })
}
