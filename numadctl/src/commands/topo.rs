//! `topo`.

use std::path::Path;

use config::Config;
use control::{ErrorKind, Failure};
use topology::{Measured, Topology};

use crate::cli::{Form, Source, Topo};
use crate::fresh::must_not_replace;
use crate::output::Output;
use crate::{render, second_reader};

use super::write_drawing;

pub(super) fn topo(
    arguments: &Topo,
    out: &mut Output<'_>,
    err: &mut Output<'_>,
) -> Result<(), Failure> {
    if let Form::Svg(drawing) = arguments.form() {
        must_not_replace(Path::new(&arguments.spec), &drawing)?;
    }
    let mut topology = match arguments.source {
        Source::Sysfs => topology::load(&arguments.spec).map_err(|error| refused(&error))?,
        Source::Hwloc => second_reader::read(&arguments.spec)?,
    };
    if arguments.spec == "this" {
        topology = with_measured(topology, err)?;
    }
    let topology = numad_core::cost::with_estimates(topology);
    match arguments.form() {
        Form::Json => out.json(&render::topo::value(&topology)),
        Form::Svg(file) => write_drawing(&file, &topology::render::svg(&topology), out),
        Form::Text | Form::Csv => out.text(&topology::render::text(&topology)),
    }
}

/// This machine with what was measured of it, as far as we may see that.
fn with_measured(topology: Topology, err: &mut Output<'_>) -> Result<Topology, Failure> {
    let directory = config::load(&config::Paths::default())
        .map_or_else(|_wrong| Config::default(), |loaded| loaded.config)
        .daemon
        .state_dir;
    match Measured::read(&directory, topology.fingerprint()) {
        Ok(Some(measured)) => Ok(topology.with_measured(&measured)),
        Ok(None) => Ok(topology),
        Err(error) => {
            err.text(&format!(
                "numadctl: measured bandwidths are not shown: {error}\n"
            ))?;
            Ok(topology)
        }
    }
}

pub(crate) fn refused(error: &topology::LoadError) -> Failure {
    let kind = match error.reason {
        topology::load::Reason::Unknown | topology::load::Reason::Missing => ErrorKind::NotFound,
        topology::load::Reason::Unreadable(_) => ErrorKind::NotPermitted,
        _ => ErrorKind::Usage,
    };
    Failure::new(kind, error.to_string())
}
