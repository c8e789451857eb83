//! The machine from `sys/devices/system/{cpu,node}` below a directory: this machine's root, or a
//! copy of another's. Reads files and nothing else; no C library.
//!
//! Written for kernels from 2.6.16 on: `cpumap` instead of `cpulist`, no `online` files, list files
//! that end in a NUL byte, offline processors without `topology`. Where files disagree in a way that
//! real machines show, one is believed and a note says which; a list of processors that cannot be
//! understood is an error, for nothing may be placed by a guess at it.

mod cpus;
mod nodes;
mod tree;

use std::path::Path;

use crate::load::{LoadError, Reason};
use crate::machine::{Contradiction, Parts, Topology};
use crate::number::number;

use self::tree::Tree;

/// Where processors are described, below the root.
const CPU_DIR: &str = "sys/devices/system/cpu";
/// Where memory nodes are described, below the root.
const NODE_DIR: &str = "sys/devices/system/node";

/// Reads the machine below `root`.
///
/// # Errors
/// Names the file that is missing or cannot be understood, or says what cannot be true.
pub fn read(root: &Path) -> Result<Topology, LoadError> {
    let tree = Tree::new(root);
    let mut notes = Vec::new();
    let present = cpus::present(&tree)?;
    let found = nodes::read(&tree, &present, &mut notes)?;
    let named = cpus::read(&tree, &present, &found, &mut notes)?;
    let caches = cpus::caches(&tree, &named, &mut notes)?;
    let parts = Parts {
        cpus: number(&named, &mut notes),
        nodes: nodes::with_cpus(&found),
        caches,
        distance_rows: found.distance_rows,
        bandwidth: found.bandwidth,
        notes,
    };
    Topology::with_shared_places(parts, &found.together).map_err(|text| contradiction(root, text))
}

fn contradiction(root: &Path, text: Contradiction) -> LoadError {
    LoadError {
        file: root.into(),
        reason: Reason::Contradiction(text),
    }
}
