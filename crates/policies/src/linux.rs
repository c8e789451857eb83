//! Leaves placement to the kernel.
//!
//! As `none` it proposes nothing; it differs in what it says about the run. `none` is the program as
//! it is, whatever the kernel does. `linux` is the kernel's own NUMA balancing as contestant, and means
//! something only where that is on. A policy changes programs, never the machine: this one does not
//! write `kernel.numa_balancing`, the administrator does.

use numad_core::PolicyFactory;

use crate::none::Nothing;

/// Makes the policy `linux`.
pub(crate) static LINUX: PolicyFactory = PolicyFactory {
    name: "linux",
    summary: "Leaves placement to the kernel's own balancing (kernel.numa_balancing, which it \
              does not switch on).",
    settings: &[],
    seeks_gain: true,
    goes_by_order: false,
    published: None,
    build: |_, _| Ok(Box::new(Nothing)),
};
