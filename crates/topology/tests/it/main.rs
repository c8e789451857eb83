//! Real machines, damaged machines, and what another reader says of them.

// The lints tell tests by `cfg(test)`, which an integration test has anyway.
#[cfg(test)]
mod facts;
#[cfg(test)]
mod fixture;
#[cfg(test)]
mod hostile;
#[cfg(test)]
mod hwloc;
#[cfg(test)]
mod odd;
#[cfg(test)]
mod render;
