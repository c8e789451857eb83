//! Energy that the processor packages have used, as the kernel's powercap interface counts it.

use std::time::Duration;

use crate::error::{ParseError, Presence, ReadError};
use crate::reader::Reader;

/// Most packages that are read.
const PACKAGES_MAX: usize = 256;

/// More than any package takes. A counter that could have gone round twice at this rate is not believed.
const WATTS_MAX: f64 = 1_000.0;

/// What the counters of all packages show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Energy {
    zones: Vec<Zone>,
}

/// The counter of one package.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Zone {
    /// `package-0`, or `package-0-die-1`.
    name: String,
    energy_uj: u64,
    /// It begins anew after this.
    range_uj: u64,
}

impl Energy {
    /// Joules since an earlier reading; none where they cannot be told: the packages are others, or a counter may have
    /// gone round more than once in the time between.
    #[must_use]
    pub fn joules_since(&self, earlier: &Self, between: Duration) -> Option<f64> {
        if self.zones.len() != earlier.zones.len() || between > self.longest() {
            return None;
        }
        let used = self.zones.iter().zip(&earlier.zones).map(|(now, then)| {
            let same = now.name == then.name && now.range_uj == then.range_uj;
            let in_range = now.energy_uj.max(then.energy_uj) <= now.range_uj;
            (same && in_range).then(|| match now.energy_uj.checked_sub(then.energy_uj) {
                Some(used) => used,
                None => now.range_uj - then.energy_uj + now.energy_uj,
            })
        });
        let used: Option<Vec<u64>> = used.collect();
        Some(used?.iter().map(|&uj| uj as f64 / 1e6).sum())
    }

    /// The longest time between two readings that can be told from each other.
    #[must_use]
    pub fn longest(&self) -> Duration {
        let least = self.zones.iter().map(|zone| zone.range_uj).min();
        Duration::from_secs_f64(least.unwrap_or_default() as f64 / 1e6 / WATTS_MAX)
    }
}

/// Adds up what was used. Someone has to read often enough, for counters that go round.
#[derive(Clone, Debug)]
pub struct EnergyMeter {
    last: Energy,
    at: Duration,
    joules: Option<f64>,
}

impl EnergyMeter {
    /// Begins at this reading. Times are since any beginning.
    #[must_use]
    pub const fn new(first: Energy, at: Duration) -> Self {
        Self {
            last: first,
            at,
            joules: Some(0.0),
        }
    }

    /// Adds what was used up to this reading.
    pub fn take(&mut self, now: Energy, at: Duration) {
        let more = now.joules_since(&self.last, at.saturating_sub(self.at));
        self.joules = self.joules.zip(more).map(|(sum, more)| sum + more);
        (self.last, self.at) = (now, at);
    }

    /// Whether it is time to read again.
    #[must_use]
    pub fn is_due(&self, at: Duration) -> bool {
        at.saturating_sub(self.at) >= self.pause()
    }

    /// How long nobody need read.
    #[must_use]
    pub fn pause(&self) -> Duration {
        (self.last.longest() / 4).max(Duration::from_millis(100))
    }

    /// Joules since the beginning; none when some time in between cannot be told.
    #[must_use]
    pub const fn joules(&self) -> Option<f64> {
        self.joules
    }
}

impl Reader {
    /// What the packages have used so far, the memory's part only where the processor counts it with its package; gone
    /// where the kernel does not tell. Zones below a package are part of it, and `psys` is the whole of which packages
    /// are part: neither is read.
    ///
    /// # Errors
    /// When it exists and cannot be read: on most kernels root alone may.
    pub fn energy(&self) -> Result<Presence<Energy>, ReadError> {
        const FOLDER: &str = "sys/class/powercap";
        let mut zones = Vec::new();
        // Named as Intel's on processors of AMD too. A zone below another has a second colon.
        let numbers = self.numbered(FOLDER, "intel-rapl:", PACKAGES_MAX)?;
        for number in numbers.here().unwrap_or_default() {
            let folder = format!("{FOLDER}/intel-rapl:{number}");
            let Presence::Here(name) = self.text(format!("{folder}/name"))? else {
                continue;
            };
            let name = name.trim().to_owned();
            if !name.starts_with("package-") {
                continue;
            }
            let count = |file: &str| self.parsed(format!("{folder}/{file}"), count);
            if let (Presence::Here(energy_uj), Presence::Here(range_uj)) =
                (count("energy_uj")?, count("max_energy_range_uj")?)
            {
                zones.push(Zone {
                    name,
                    energy_uj,
                    range_uj,
                });
            }
        }
        Ok(match zones.is_empty() {
            true => Presence::Gone,
            false => Presence::Here(Energy { zones }),
        })
    }
}

fn count(bytes: &[u8]) -> Result<u64, ParseError> {
    let text = std::str::from_utf8(bytes).ok();
    let number = text.and_then(|text| text.trim().parse().ok());
    number.ok_or_else(|| ParseError::new(1, bytes, "is no count"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::Tree;

    const RANGE: u64 = 262_143_328_850;

    fn zone(tree: &Tree, zone: &str, name: &str, energy_uj: u64) {
        let folder = format!("sys/class/powercap/{zone}");
        tree.file(&format!("{folder}/name"), &format!("{name}\n"));
        tree.file(&format!("{folder}/energy_uj"), &format!("{energy_uj}\n"));
        tree.file(
            &format!("{folder}/max_energy_range_uj"),
            &format!("{RANGE}\n"),
        );
    }

    fn read(tree: &Tree) -> Energy {
        tree.reader().energy().unwrap().here().unwrap()
    }

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn packages_are_summed_and_their_parts_are_not() {
        let tree = Tree::new("energy");
        let both = |first, second| {
            zone(&tree, "intel-rapl:0", "package-0", first);
            zone(&tree, "intel-rapl:1", "package-1", second);
            read(&tree)
        };
        tree.file("sys/class/powercap/intel-rapl/enabled", "1\n");
        zone(&tree, "intel-rapl:0:0", "core", 7);
        zone(&tree, "intel-rapl:0:1", "dram", 7);
        zone(&tree, "intel-rapl:2", "psys", 7);
        zone(&tree, "intel-rapl-mmio:0", "package-0", 7);
        let then = both(1_000_000, 5_000_000);
        zone(&tree, "intel-rapl:0:0", "core", 9_000_000);
        zone(&tree, "intel-rapl:2", "psys", 90_000_000);
        let now = both(4_000_000, 6_500_000);
        assert_eq!(now.joules_since(&then, SECOND), Some(4.5));
        assert_eq!(then.joules_since(&then, SECOND), Some(0.0));
    }

    #[test]
    fn a_counter_that_goes_round_is_counted_once() {
        let tree = Tree::new("energy-round");
        let at = |energy_uj| {
            zone(&tree, "intel-rapl:0", "package-0", energy_uj);
            read(&tree)
        };
        let (then, now) = (at(RANGE - 2_000_000), at(1_000_000));
        assert_eq!(now.joules_since(&then, SECOND), Some(3.0));
        // It could have gone round twice.
        assert_eq!(now.joules_since(&then, SECOND * 300), None);
        assert!(now.longest() > SECOND * 200);
        assert_eq!(at(RANGE + 1).joules_since(&now, SECOND), None);
        let mut meter = EnergyMeter::new(then.clone(), SECOND);
        assert!(!meter.is_due(SECOND * 2) && meter.is_due(SECOND * 100));
        meter.take(now.clone(), SECOND * 2);
        meter.take(at(3_000_000), SECOND * 3);
        assert_eq!(meter.joules(), Some(5.0));
        meter.take(at(3_000_000), SECOND * 900);
        meter.take(at(3_000_000), SECOND * 901);
        assert_eq!(meter.joules(), None);
    }

    #[test]
    fn other_packages_than_before_tell_nothing() {
        let tree = Tree::new("energy-other");
        zone(&tree, "intel-rapl:0", "package-0", 1);
        let then = read(&tree);
        zone(&tree, "intel-rapl:1", "package-1", 1);
        assert_eq!(read(&tree).joules_since(&then, SECOND), None);
        zone(&tree, "intel-rapl:1", "psys", 1);
        zone(&tree, "intel-rapl:0", "package-0-die-1", 1);
        assert_eq!(read(&tree).joules_since(&then, SECOND), None);
    }

    #[test]
    fn what_is_not_there_or_no_count_is_said() {
        let tree = Tree::new("energy-none");
        assert_eq!(tree.reader().energy().unwrap(), Presence::Gone);
        zone(&tree, "intel-rapl:0", "psys", 1);
        assert_eq!(tree.reader().energy().unwrap(), Presence::Gone);
        zone(&tree, "intel-rapl:1", "package-0", 1);
        for wrong in ["", "x", "-1", "1 2", "99999999999999999999"] {
            tree.file("sys/class/powercap/intel-rapl:1/energy_uj", wrong);
            let error = tree.reader().energy().unwrap_err();
            assert!(error.to_string().contains("energy_uj"), "{error}");
        }
    }
}
