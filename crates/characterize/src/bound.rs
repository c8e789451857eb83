//! Threads that run where they are told, and memory that lies where it is told.

use std::thread;

use nix::errno::Errno;
use topology::{CpuId, NodeId};

use crate::run::RunError;
use crate::sys;

/// Binds the calling thread to one processor.
pub(crate) fn to_cpu(cpu: CpuId) -> Result<(), RunError> {
    sys::run_on(cpu).map_err(|errno| RunError::Processor { cpu, errno })
}

/// Makes something in a thread whose memory comes from one node. Blocks above 32 MiB are mapped fresh by
/// every allocator we know, so that what is made touches its pages first.
pub(crate) fn on_node<T: Send>(
    node: NodeId,
    make: impl FnOnce() -> T + Send,
) -> Result<T, RunError> {
    let made = thread::scope(|scope| {
        let maker = scope.spawn(|| match sys::bind_memory_to(node) {
            // A kernel without NUMA has one node, and all memory lies there.
            Ok(()) | Err(Errno::ENOSYS) => Ok(make()),
            Err(errno) => Err(RunError::Memory { node, errno }),
        });
        maker.join()
    });
    made.unwrap_or(Err(RunError::Broken))
}
