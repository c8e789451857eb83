//! Threads that run where they are told, and memory that lies where it is told.

use std::thread::{self, Scope, ScopedJoinHandle};

use nix::errno::Errno;
use topology::{CpuId, NodeId};

use crate::run::RunError;
use crate::sys;

/// Binds the calling thread to one processor.
pub(crate) fn to_cpu(cpu: CpuId) -> Result<(), RunError> {
    sys::run_on(cpu).map_err(|errno| RunError::Processor { cpu, errno })
}

/// A thread, if there may be another one.
pub(crate) fn thread<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    work: impl FnOnce() -> T + Send + 'scope,
) -> Result<ScopedJoinHandle<'scope, T>, RunError> {
    let spawned = thread::Builder::new().spawn_scoped(scope, work);
    spawned.map_err(|_refused| RunError::NoThread)
}

/// Makes something in a thread whose memory comes from one node. Blocks above 32 MiB are mapped fresh by
/// every allocator we know, so that what is made touches its pages first.
pub(crate) fn on_node<T: Send>(
    node: NodeId,
    make: impl FnOnce() -> T + Send,
) -> Result<T, RunError> {
    thread::scope(|scope| {
        let maker = thread(scope, || match sys::bind_memory_to(node) {
            // A kernel without NUMA has one node, and all memory lies there.
            Ok(()) | Err(Errno::ENOSYS) => Ok(make()),
            Err(errno) => Err(RunError::Memory { node, errno }),
        })?;
        maker.join().unwrap_or(Err(RunError::Broken))
    })
}
