//! The sampler against the running kernel, and against recordings of real processors.

#![forbid(unsafe_code)]

#[cfg(test)]
mod faults;
#[cfg(test)]
mod pebs;
#[cfg(test)]
mod perf_data;
#[cfg(test)]
mod pmu;
#[cfg(test)]
mod pmu_hostile;
#[cfg(test)]
mod survey;

/// Says why a test did nothing.
#[cfg(test)]
fn skipped(why: &str) {
    println!("skipped: {why}");
}
