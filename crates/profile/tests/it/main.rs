//! What profiles say of programs whose communication is known.

#![forbid(unsafe_code)]

#[cfg(test)]
mod npb;
#[cfg(test)]
mod random;
#[cfg(test)]
mod samples;
