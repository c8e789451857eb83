//! What stands around the event sources: processor, kernel, and what we may do.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use crate::kernel::KernelSettings;
use crate::pmu::Pmus;

/// How much of `cpuinfo` is read: its first processor, whose lines are below 8 KiB everywhere.
const CPUINFO_BYTES_MAX: u64 = 16 << 10;
/// How much of any other file is read.
const FILE_BYTES_MAX: u64 = 4 << 10;

/// `CAP_PERFMON`, Linux 5.8 and later.
const CAP_PERFMON: u32 = 38;
/// `CAP_SYS_ADMIN` stands for it on every kernel.
const CAP_SYS_ADMIN: u32 = 21;

/// Everything that says what can be sampled and counted here. Looked up once; nothing is tried.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    /// Event sources.
    pub pmus: Pmus,
    /// The processor.
    pub processor: Processor,
    /// Settings of the kernel.
    pub kernel: KernelSettings,
    /// The kernel's version, where it could be read.
    pub release: Option<(u32, u32)>,
    /// Whether this process may listen to whole processors whatever the settings are.
    pub privileged: bool,
    /// Whether firmware tells of Arm's profiling extension, driver or not.
    pub spe_announced: bool,
}

/// The processor, as far as sampling depends on it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Processor {
    /// Who made it.
    pub vendor: Vendor,
    /// Family, on x86: 6 for Intel, 0x17 for Zen and Zen 2, 0x19 for Zen 3 and 4, 0x1a for Zen 5.
    pub family: Option<u32>,
    /// Model, on x86.
    pub model: Option<u32>,
    /// Whether we are in a virtual machine. On Arm only where the hypervisor says so.
    pub hypervisor: bool,
}

/// Who made a processor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Vendor {
    /// Intel.
    Intel,
    /// AMD, or Hygon after its design.
    Amd,
    /// Anyone with Arm's instruction set.
    Arm,
    /// Anyone else, or not told.
    #[default]
    Other,
}

impl Facts {
    /// Reads everything below `root` (`/` for this machine). What cannot be read is left open.
    #[must_use]
    pub fn read(root: &Path) -> Self {
        let text = |path: &str| beginning(&root.join(path), FILE_BYTES_MAX).unwrap_or_default();
        let mut processor = Processor::parse(
            &beginning(&root.join("proc/cpuinfo"), CPUINFO_BYTES_MAX).unwrap_or_default(),
        );
        processor.hypervisor |= !text("sys/hypervisor/type").trim().is_empty();
        Self {
            pmus: Pmus::read(root),
            processor,
            kernel: KernelSettings::read(root),
            release: version(&text("proc/sys/kernel/osrelease")),
            privileged: privileged(&text("proc/self/status")),
            spe_announced: root.join("sys/bus/platform/devices/arm,spe-v1").exists(),
        }
    }

    /// Whether the kernel has perf events at all.
    #[must_use]
    pub fn has_events(&self) -> bool {
        self.kernel.perf_event_paranoid.is_some() || self.pmus.find("software").is_some()
    }

    /// Whether we may listen to whole processors: everything here does.
    #[must_use]
    pub const fn permitted(&self) -> bool {
        self.privileged || matches!(self.kernel.perf_event_paranoid, Some(level) if level <= 0)
    }
}

impl Processor {
    /// Reads the beginning of `cpuinfo`; total.
    #[must_use]
    pub fn parse(cpuinfo: &str) -> Self {
        let mut found = Self::default();
        for line in cpuinfo.lines() {
            let Some((name, value)) = line.split_once(':') else {
                // An empty line ends the first processor.
                if line.is_empty() && found.vendor != Vendor::Other {
                    break;
                }
                continue;
            };
            let value = value.trim();
            match name.trim() {
                "vendor_id" => found.vendor = vendor(value),
                "CPU implementer" => found.vendor = Vendor::Arm,
                "cpu family" => found.family = value.parse().ok(),
                "model" => found.model = value.parse().ok(),
                "flags" => {
                    found.hypervisor = value.split_whitespace().any(|flag| flag == "hypervisor");
                }
                _ => {}
            }
        }
        found
    }
}

fn vendor(name: &str) -> Vendor {
    match name {
        "GenuineIntel" => Vendor::Intel,
        "AuthenticAMD" | "HygonGenuine" => Vendor::Amd,
        _ => Vendor::Other,
    }
}

/// Major and minor number of a release such as `6.18.0-3-amd64`.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|character: char| !character.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

fn privileged(status: &str) -> bool {
    let held = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|held| u64::from_str_radix(held.trim(), 16).ok())
        .unwrap_or(0);
    held & (1 << CAP_PERFMON | 1 << CAP_SYS_ADMIN) != 0
}

/// The beginning of a file, lossily decoded; none if it is not there, cannot be read, or is no file.
fn beginning(path: &Path, bytes_max: u64) -> Option<String> {
    // Opening a pipe would block for ever.
    if !path.metadata().ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    File::open(path)
        .ok()?
        .take(bytes_max)
        .read_to_end(&mut bytes)
        .ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(cpuinfo: &str, vendor: Vendor, family: Option<u32>, hypervisor: bool) {
        let processor = Processor::parse(cpuinfo);
        assert_eq!(processor.vendor, vendor);
        assert_eq!(processor.family, family);
        assert_eq!(processor.hypervisor, hypervisor);
    }

    #[test]
    fn the_first_processor_is_read() {
        check(
            "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 85\nflags\t\t: fpu vme\n\nprocessor\t: 1\nflags\t\t: hypervisor\n",
            Vendor::Intel,
            Some(6),
            false,
        );
        check(
            "vendor_id\t: AuthenticAMD\ncpu family\t: 26\nflags\t\t: fpu hypervisor lahf_lm\n",
            Vendor::Amd,
            Some(26),
            true,
        );
        check(
            "processor\t: 0\nBogoMIPS\t: 50.00\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n",
            Vendor::Arm,
            None,
            false,
        );
        check("vendor_id : none\n", Vendor::Other, None, false);
        check("", Vendor::Other, None, false);
        check(":::\n\n\u{fffd}", Vendor::Other, None, false);
    }

    #[test]
    fn either_capability_will_do() {
        for (status, expected) in [
            ("Name:\tx\nCapEff:\t0000004000000000\n", true),
            ("CapEff:\t0000000000200000\n", true),
            // What a container is given by default.
            ("CapEff:\t00000000a80425fb\n", false),
            ("CapEff:\t0000000000000000\n", false),
            ("CapEff:\tzzz\n", false),
            ("CapPrm:\tffffffffffffffff\n", false),
            ("", false),
        ] {
            assert_eq!(privileged(status), expected, "{status}");
        }
    }
}
