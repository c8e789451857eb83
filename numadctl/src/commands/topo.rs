//! `topo`.

use std::path::Path;

use control::{ErrorKind, Failure};
use topology::Topology;

use crate::cli::{Form, Source, Topo};
use crate::output::Output;
use crate::render;

use super::write_drawing;

pub(super) fn topo(arguments: &Topo, out: &mut Output<'_>) -> Result<(), Failure> {
    let topology = match arguments.source {
        Source::Sysfs => topology::load(&arguments.spec).map_err(|error| refused(&error))?,
        Source::Hwloc => through_hwloc(&arguments.spec)?,
    };
    match arguments.form() {
        Form::Json => out.json(&render::topo::value(&topology)),
        Form::Svg(file) => write_drawing(&file, &topology::render::svg(&topology), out),
        Form::Text | Form::Csv => out.text(&topology::render::text(&topology)),
    }
}

fn through_hwloc(spec: &str) -> Result<Topology, Failure> {
    if spec == "this" {
        return topology::hwloc::this_machine().map_err(|error| refused(&error));
    }
    let path = Path::new(spec);
    if path.is_file() {
        return topology::hwloc::from_xml(path).map_err(|error| refused(&error));
    }
    Err(
        Failure::new(ErrorKind::Usage, format!("hwloc cannot read `{spec}` here"))
            .remedy("it reads `this` machine and XML files; leave `--source hwloc` out"),
    )
}

fn refused(error: &topology::LoadError) -> Failure {
    let kind = match error.reason {
        topology::load::Reason::Unknown | topology::load::Reason::Missing => ErrorKind::NotFound,
        topology::load::Reason::Unreadable(_) => ErrorKind::NotPermitted,
        _ => ErrorKind::Usage,
    };
    Failure::new(kind, error.to_string())
}
