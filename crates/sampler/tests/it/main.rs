//! The sampler against the running kernel, and against recordings of real processors.

#![forbid(unsafe_code)]

#[cfg(test)]
mod faults;
#[cfg(test)]
mod pebs;

/// Says why a test did nothing.
#[cfg(test)]
fn skipped(why: &str) {
    println!("skipped: {why}");
}
