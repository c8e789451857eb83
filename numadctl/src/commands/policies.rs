//! `policies`.

use control::rows::{PolicyRow, SettingRow};
use control::{ErrorKind, Failure};

use crate::cli::{Policies, PoliciesAction};
use crate::client::{CallError, Client};
use crate::output::Output;
use crate::render;
use crate::terminal;

pub(super) fn list(
    client: &Client,
    arguments: &Policies,
    out: &mut Output<'_>,
    err: &mut Output<'_>,
) -> Result<(), Failure> {
    let rows = match client.get::<Vec<PolicyRow>>("/v1/policies") {
        Ok(rows) => rows,
        Err(CallError::Down(_)) => {
            err.text("numadctl: no daemon listens; these are the policies and defaults of this program\n")?;
            built_in()
        }
        Err(CallError::Failed(failure)) => return Err(failure),
    };
    match &arguments.action {
        None if arguments.plain.json => out.json(&rows),
        None => out.text(&render::policies::list(&rows, terminal::prose())),
        Some(PoliciesAction::Show { name, plain }) => {
            let row = find(&rows, name)?;
            // Others are programs outside of numad.
            let known = policies::registry()
                .iter()
                .find(|policy| policy.name == name);
            let published = known.and_then(|policy| policy.published);
            if plain.json {
                return out.json(&render::policies::json_page(row, published));
            }
            out.text(&render::policies::page(row, terminal::prose()))?;
            match published {
                Some(published) => {
                    let width = terminal::prose();
                    out.text(&render::policies::as_published(name, published, width))
                }
                None => Ok(()),
            }
        }
    }
}

fn find<'a>(rows: &'a [PolicyRow], name: &str) -> Result<&'a PolicyRow, Failure> {
    rows.iter().find(|row| row.name == name).ok_or_else(|| {
        let known = || rows.iter().map(|row| row.name.as_str());
        let remedy = config::nearest(name, known()).map_or_else(
            || format!("there are {}", known().collect::<Vec<_>>().join(", ")),
            |near| format!("did you mean `{near}`?"),
        );
        Failure::new(ErrorKind::NotFound, format!("there is no policy `{name}`")).remedy(remedy)
    })
}

/// The policies that this program was built with.
fn built_in() -> Vec<PolicyRow> {
    policies::registry()
        .iter()
        .map(|policy| PolicyRow {
            name: policy.name.to_owned(),
            summary: policy.summary.to_owned(),
            settings: policy
                .settings
                .iter()
                .map(|spec| SettingRow {
                    name: spec.name.to_owned(),
                    expects: spec.expectation(),
                    value: spec.default_value().to_string(),
                    default: spec.default_value().to_string(),
                    help: spec.help.to_owned(),
                })
                .collect(),
        })
        .collect()
}
