//! One number for the hardware, so that what was learned on a machine is used on that machine alone.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use crate::distance::Origin;
use crate::machine::{CacheKind, Topology};

/// The hardware in 64 bits; prints as 16 hexadecimal digits.
///
/// Equal for the same hardware whatever is online, isolated or noted, and across kernels: it covers
/// the numbers of the processors that are present, which node each belongs to, distances told by
/// firmware, and the sizes of caches by level and kind. It leaves out how much memory a node has, which
/// changes when memory is plugged in, what a processor tells only while online (its core and package),
/// and figures of bandwidth, which may be measured anew.
///
/// It changes when a whole node goes offline, when every processor with one size of cache does, and,
/// on kernels before 2.6.33, when any processor does: then the machine does not tell of them.
/// Different machines may by chance share one: it finds the right memory, it protects nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint(u64);

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// A text is no fingerprint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoFingerprint;

impl fmt::Display for NoFingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("expected 16 hexadecimal digits, lower case")
    }
}

impl std::error::Error for NoFingerprint {}

impl FromStr for Fingerprint {
    type Err = NoFingerprint;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let proper = |byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        if text.len() != 16 || !text.bytes().all(proper) {
            return Err(NoFingerprint);
        }
        let number = u64::from_str_radix(text, 16);
        number.map(Self).map_err(|_no_number| NoFingerprint)
    }
}

impl Topology {
    /// See [`Fingerprint`].
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        let mut hash = Fnv::default();
        // Writing to a hash cannot fail, so the results say nothing.
        let written = self.write_canonical(&mut hash);
        debug_assert!(written.is_ok(), "a hash takes every write");
        Fingerprint(hash.0)
    }

    /// The text that is hashed. Changing it changes every fingerprint: raise its number then.
    fn write_canonical(&self, out: &mut impl fmt::Write) -> fmt::Result {
        writeln!(out, "topology 2")?;
        for node in self.nodes() {
            writeln!(out, "node {} cpus {}", node.id, node.cpus)?;
        }
        let homeless = self.cpus().iter().filter(|cpu| cpu.node.is_none());
        for cpu in homeless {
            writeln!(out, "cpu {}", cpu.id)?;
        }
        if self.distances().origin() == Origin::Firmware {
            for from in 0..self.nodes().len() {
                writeln!(out, "distances {:?}", self.distances().row(from))?;
            }
        }
        let caches = self.caches().iter();
        let sizes: BTreeSet<(u8, CacheKind, u64)> = caches
            .map(|cache| (cache.level, cache.kind, cache.size_bytes))
            .collect();
        for (level, kind, bytes) in sizes {
            writeln!(out, "cache {level} {kind:?} {bytes}")?;
        }
        Ok(())
    }
}

/// FNV-1a. The standard hasher promises no fixed result across versions of Rust.
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl fmt::Write for Fnv {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;
    use crate::synthetic;

    #[test]
    fn the_hash_is_fnv_1a() {
        let mut hash = Fnv::default();
        hash.write_str("foobar").unwrap();
        assert_eq!(hash.0, 0x8594_4171_f739_67e8, "published test vector");
    }

    /// Stored fingerprints must stay what they are.
    #[test]
    fn it_never_changes() {
        let shown = synthetic::parse("2x4x2@10,21").unwrap().fingerprint();
        assert_eq!(shown.to_string(), "ec901661532784da");
    }

    #[test]
    fn different_machines_differ() {
        let texts = ["2x4", "4x2", "1x8", "2x4@10,21", "2x4+1", "2x4@10,20;21,10"];
        let prints: BTreeSet<Fingerprint> = texts
            .iter()
            .map(|text| synthetic::parse(text).unwrap().fingerprint())
            .collect();
        assert_eq!(prints.len(), texts.len());
    }

    #[test]
    fn memory_that_is_plugged_in_changes_nothing() {
        let machine = synthetic::parse("2x4@10,21").unwrap();
        let text = crate::render::xml(&machine);
        let bytes = machine.nodes()[0].memory_bytes;
        let more = text.replace(&bytes.to_string(), &(bytes * 3).to_string());
        assert_ne!(text, more);
        let read = |text: &str| crate::xml::parse(text).unwrap().fingerprint();
        assert_eq!(read(&text), read(&more));
    }
}
