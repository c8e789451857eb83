//! How much memory programs have, who touches it first, and how it is sampled.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use topology::{Parts, Topology};

use crate::world::PAGE_BYTES;

/// What holds for a run beside machine and workload. The default is what the simulator's figures were
/// first made with: programs so small that every page is sampled in every window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct Conditions {
    /// Memory that a thread has for itself; what it shares grows in proportion.
    pub memory: Size,
    /// Memory is in pages of 2 MiB, which move as one.
    pub huge: bool,
    /// Who touches memory first.
    pub touch: Touch,
    /// Pieces of memory are strewn over the whole address space, instead of lying near each other.
    pub sparse: bool,
    /// Threads start one after the other within [`STARTS_S`], instead of all at once.
    pub staggered: bool,
    /// The scheduler has threads change places that nobody has bound, as it does at barriers.
    pub wander: bool,
    /// What a sample is taken of.
    pub source: Source,
    /// Samples a second of the whole machine, when nothing slows it down; none leaves the period that
    /// gives an ordinary thread 700.
    pub samples_per_s: Option<u32>,
}

/// Seconds within which all threads of a staggered start have started.
pub const STARTS_S: u32 = 2;

/// An amount of memory, as typed: `512K`, `8M`, `1G`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size(u64);

/// Who touches memory first, so that it is on that thread's node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touch {
    /// As the workload is described.
    Own,
    /// The first thread of each program, all of it.
    One,
    /// Those who use it, in equal parts.
    All,
}

/// What a sample is taken of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Every so-manieth access, as processors' counters do.
    Period,
    /// The first write to a page since its mapping was write-protected last, as soft-dirty bits give
    /// it where there are no counters.
    Faults,
}

impl Size {
    /// What every workload was written down with: 128 pages of its own for a thread.
    pub const SMALL: Self = Self(512 << 10);

    /// Most of it for one thread.
    pub const MAX: Self = Self(1 << 40);

    /// The amount in bytes.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        self.0
    }

    /// How much more it is than [`Self::SMALL`], rounded down.
    #[must_use]
    pub const fn factor(self) -> u64 {
        self.0 / Self::SMALL.0
    }
}

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            let (least, most) = (Self::SMALL, Self::MAX);
            format!(
                "memory `{text}`: must be a number with K, M or G, from {least} to {most}, as in 1G"
            )
        };
        let unit = text.chars().last().ok_or_else(wrong)?;
        let shift = match unit {
            'K' => 10,
            'M' => 20,
            'G' => 30,
            'T' => 40,
            _ => return Err(wrong()),
        };
        let number: Option<u64> = text[..text.len() - 1].parse().ok();
        let number = number.ok_or_else(wrong)?;
        let bytes = number.checked_mul(1 << shift).ok_or_else(wrong)?;
        let sizes = Self::SMALL.0..=Self::MAX.0;
        // Whole numbers of the small size, so that all pieces grow alike.
        if !sizes.contains(&bytes) || !bytes.is_multiple_of(Self::SMALL.0) {
            return Err(wrong());
        }
        Ok(Self(bytes))
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(40, 'T'), (30, 'G'), (20, 'M'), (10, 'K')];
        let whole = |&&(shift, _): &&(u32, char)| self.0.trailing_zeros() >= shift;
        match units.iter().find(whole) {
            Some((shift, unit)) => write!(f, "{}{unit}", self.0 >> shift),
            None => write!(f, "{}", self.0),
        }
    }
}

impl FromStr for Touch {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "own" => Ok(Self::Own),
            "one" => Ok(Self::One),
            "all" => Ok(Self::All),
            _ => Err(format!("touch `{text}`: must be own, one or all")),
        }
    }
}

impl FromStr for Source {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "period" => Ok(Self::Period),
            "faults" => Ok(Self::Faults),
            _ => Err(format!("source `{text}`: must be period or faults")),
        }
    }
}

impl fmt::Display for Touch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Own => "own",
            Self::One => "one",
            Self::All => "all",
        })
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Period => "period",
            Self::Faults => "faults",
        })
    }
}

/// As flags, each with a space before it; those alone that are not as by default.
impl fmt::Display for Conditions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let default = Self::default();
        if self.memory != default.memory {
            write!(f, " --memory {}", self.memory)?;
        }
        let switches = [
            ("huge", self.huge),
            ("sparse", self.sparse),
            ("staggered", self.staggered),
            ("wander", self.wander),
        ];
        for (flag, _) in switches.iter().filter(|(_, given)| *given) {
            write!(f, " --{flag}")?;
        }
        if self.touch != default.touch {
            write!(f, " --touch {}", self.touch)?;
        }
        if self.source != default.source {
            write!(f, " --source {}", self.source)?;
        }
        match self.samples_per_s {
            Some(samples) => write!(f, " --samples {samples}"),
            None => Ok(()),
        }
    }
}

impl Default for Conditions {
    fn default() -> Self {
        Self {
            memory: Size::SMALL,
            huge: false,
            touch: Touch::Own,
            sparse: false,
            staggered: false,
            wander: false,
            source: Source::Period,
            samples_per_s: None,
        }
    }
}

impl Conditions {
    /// Pages in a unit of memory that moves as one.
    #[must_use]
    pub const fn unit_pages(&self) -> u64 {
        if self.huge {
            HUGE_BYTES / PAGE_BYTES
        } else {
            1
        }
    }

    /// The machine with as much more memory in each node as programs have, so that sizes differ by
    /// nothing else.
    #[must_use]
    pub fn machine(&self, plain: &Arc<Topology>) -> Arc<Topology> {
        let factor = self.memory.factor();
        if factor == 1 {
            return Arc::clone(plain);
        }
        let mut nodes = plain.nodes().to_vec();
        for node in &mut nodes {
            node.memory_bytes = node.memory_bytes.saturating_mul(factor);
        }
        let count = nodes.len();
        let distance = |from, to| plain.distances().between(from, to);
        let parts = Parts {
            nodes,
            cpus: plain.cpus().to_vec(),
            caches: plain.caches().to_vec(),
            distance_rows: (0..count)
                .map(|from| (0..count).map(|to| distance(from, to)).collect())
                .collect(),
            bandwidth: plain.bandwidth().clone(),
            notes: Vec::new(),
        };
        Arc::new(Topology::new(parts).expect("more memory contradicts nothing"))
    }
}

/// Bytes in a huge page.
const HUGE_BYTES: u64 = 2 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_they_are_written() {
        for text in ["512K", "8M", "1G", "64G", "1T", "1536K"] {
            assert_eq!(text.parse::<Size>().unwrap().to_string(), text);
        }
        assert_eq!("1G".parse::<Size>().unwrap().factor(), 2048);
        for text in [
            "",
            "G",
            "1",
            "-1G",
            "0M",
            "100K",
            "2T",
            "1.5G",
            "ééG",
            "99999999999999999999G",
        ] {
            let error = text.parse::<Size>().unwrap_err();
            assert!(error.contains(&format!("`{text}`")), "{error}");
        }
    }

    #[test]
    fn conditions_are_shown_as_they_are_typed() {
        assert_eq!(Conditions::default().to_string(), "");
        let conditions = Conditions {
            memory: "64G".parse().unwrap(),
            huge: true,
            touch: Touch::All,
            sparse: true,
            staggered: true,
            wander: true,
            source: Source::Faults,
            samples_per_s: Some(5),
        };
        assert_eq!(
            conditions.to_string(),
            " --memory 64G --huge --sparse --staggered --wander --touch all --source faults --samples 5"
        );
    }

    #[test]
    fn the_machine_grows_with_the_programs() {
        let plain = Arc::new(topology::load("2x2+1@10,21,30;21,10,30;30,30,10").unwrap());
        let conditions = Conditions {
            memory: "8M".parse().unwrap(),
            ..Conditions::default()
        };
        let grown = conditions.machine(&plain);
        assert_eq!(
            grown.nodes()[2].memory_bytes,
            16 * plain.nodes()[2].memory_bytes
        );
        assert_eq!(grown.distances().between(0, 2), 30);
        assert!(Arc::ptr_eq(&plain, &Conditions::default().machine(&plain)));
    }
}
