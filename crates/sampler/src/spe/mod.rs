//! Arm's Statistical Profiling Extension: the processor samples operations and writes what it saw of
//! each as a row of [`packet`]s, which make a [`record`].

pub mod packet;
pub mod record;
