//! The library hwloc, where this program was built with it.

use topology::Topology;

use control::Failure;

#[cfg(feature = "hwloc")]
mod with_hwloc {
    use std::path::Path;

    use control::ErrorKind;

    use super::{Failure, Topology};
    use crate::commands::refused;

    /// This machine, as hwloc reads it; none where there is no hwloc.
    pub(crate) fn this_machine() -> Option<Result<Topology, String>> {
        Some(topology_hwloc::this_machine().map_err(|error| error.to_string()))
    }

    /// The machine that `numadctl topo --source hwloc` is to show.
    pub(crate) fn read(spec: &str) -> Result<Topology, Failure> {
        if spec == "this" {
            return topology_hwloc::this_machine().map_err(|error| refused(&error));
        }
        let path = Path::new(spec);
        if path.is_file() {
            return topology_hwloc::from_xml(path).map_err(|error| refused(&error));
        }
        let message = format!("hwloc cannot read `{spec}` here");
        Err(Failure::new(ErrorKind::Usage, message)
            .remedy("it reads `this` machine and XML files; leave `--source hwloc` out"))
    }
}

#[cfg(not(feature = "hwloc"))]
mod without_hwloc {
    use control::ErrorKind;

    use super::{Failure, Topology};

    /// This machine, as hwloc reads it; none where there is no hwloc.
    pub(crate) const fn this_machine() -> Option<Result<Topology, String>> {
        None
    }

    /// The machine that `numadctl topo --source hwloc` is to show.
    pub(crate) fn read(_spec: &str) -> Result<Topology, Failure> {
        let message = "this numadctl was built without hwloc";
        Err(Failure::new(ErrorKind::Prerequisite, message)
            .remedy("leave `--source hwloc` out, or build with `make build`"))
    }
}

#[cfg(feature = "hwloc")]
pub(crate) use with_hwloc::{read, this_machine};
#[cfg(not(feature = "hwloc"))]
pub(crate) use without_hwloc::{read, this_machine};
