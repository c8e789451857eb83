//! Opens the page-fault source as the settings ask.

use std::path::PathBuf;
use std::sync::Arc;

use config::{Config, Provoke};
use control::rows::Finding;
use control::{ErrorKind, Failure};
use procfs::{Presence, Reader};
use sampler::faults::FaultOptions;
use sampler::provoke::soft_dirty_supported;
use sampler::{ClearOptions, Faults, OpenError, Provocation, ProvokeMode, Source};
use topology::Topology;

use super::findings::finding;
use crate::clock;
use crate::steward::Opener;

/// See the module.
#[derive(Debug)]
pub struct FaultOpener {
    topology: Arc<Topology>,
    root: PathBuf,
    soft_dirty: bool,
    kernel_balances: Option<u32>,
}

impl FaultOpener {
    /// Looks what this kernel has.
    #[must_use]
    pub fn new(topology: Arc<Topology>, reader: &Reader) -> Self {
        let root = reader.root().to_owned();
        let balancing = reader.numa_balancing().is_ok_and(|mode| mode.acts());
        Self {
            topology,
            soft_dirty: soft_dirty_supported(&root).unwrap_or(false),
            kernel_balances: Some(u32::from(balancing)),
            root,
        }
    }

    fn faults(&self, config: &Config) -> Result<Faults, OpenError> {
        let sampling = &config.sampling;
        let online = Reader::new(&self.root)
            .online()
            .ok()
            .and_then(Presence::here);
        Faults::open(FaultOptions {
            ring_pages: sampling.ring_pages,
            root: self.root.clone(),
            provoke: mode(sampling.provoke),
            clear: ClearOptions {
                share_ppm: share_ppm(sampling.clear_budget),
                interval_min: sampling.clear_interval_min,
                interval_max: ClearOptions::default()
                    .interval_max
                    .max(sampling.clear_interval_min),
                pause_max: sampling.clear_pause_max,
            },
            ..FaultOptions::new(
                online.unwrap_or_else(|| self.topology.online()),
                Box::new(clock::monotonic),
            )
        })
    }
}

impl Opener for FaultOpener {
    fn open(&mut self, config: &Config) -> Result<Box<dyn Source>, Failure> {
        if config.sampling.provoke == Provoke::SoftDirty && !self.soft_dirty {
            let message =
                "`sampling.provoke` asks for soft-dirty clearing, which this kernel lacks";
            return Err(Failure::new(ErrorKind::Prerequisite, message)
                .remedy("use a kernel with CONFIG_MEM_SOFT_DIRTY, or set it to `auto`"));
        }
        match self.faults(config) {
            Ok(faults) => Ok(Box::new(faults)),
            Err(error) => {
                let failure = Failure::new(ErrorKind::Prerequisite, error.to_string());
                Err(failure.remedy(error.remedy().unwrap_or_default()))
            }
        }
    }

    fn describe(&mut self, config: &Config) -> String {
        let mode = mode(config.sampling.provoke);
        let provocation = Provocation::choose(mode, self.soft_dirty, self.kernel_balances);
        format!("faults ({})", provocation.describe())
    }

    fn findings(&mut self, config: &Config) -> Vec<Finding> {
        vec![self.samples(config), self.provocation(config)]
    }
}

impl FaultOpener {
    /// Opens everything once, and closes it again: nothing less tells whether it can be opened.
    fn samples(&self, config: &Config) -> Finding {
        const SUBJECT: &str = "page-fault samples";
        match self.faults(config) {
            Ok(faults) => {
                let status = faults.describe();
                let text = format!(
                    "can be taken on {} processors, with {} KiB of buffer each",
                    status.cpus,
                    status.ring_bytes / 1024
                );
                finding("ok", SUBJECT, text, "")
            }
            Err(error) => finding(
                "missing",
                SUBJECT,
                error.to_string(),
                &error.remedy().unwrap_or_default(),
            ),
        }
    }

    fn provocation(&self, config: &Config) -> Finding {
        const SUBJECT: &str = "repeated samples";
        let mode = mode(config.sampling.provoke);
        match Provocation::choose(mode, self.soft_dirty, self.kernel_balances) {
            Provocation::SoftDirty => finding(
                "ok",
                SUBJECT,
                "soft-dirty clearing: writes are seen again and again",
                "",
            ),
            Provocation::KernelHintFaults => finding(
                "limited",
                SUBJECT,
                "the kernel's NUMA balancing makes pages fault, and moves them as well",
                "",
            ),
            Provocation::NaturalFaults => finding(
                "limited",
                SUBJECT,
                "nothing makes mapped pages fault again: first touches and returning pages are \
                 seen, steady use of memory is not",
                "use a kernel with CONFIG_MEM_SOFT_DIRTY, or set kernel.numa_balancing=1",
            ),
        }
    }
}

const fn mode(provoke: Provoke) -> ProvokeMode {
    match provoke {
        Provoke::Auto => ProvokeMode::Auto,
        Provoke::SoftDirty => ProvokeMode::SoftDirty,
        Provoke::Off => ProvokeMode::Off,
    }
}

/// A share, 0 to 0.1, in millionths.
fn share_ppm(share: f64) -> u32 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "clamped to 0..=1,000,000 first"
    )]
    let millionths = (share * 1e6).round().clamp(0.0, 1e6) as u32;
    millionths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_becomes_millionths() {
        assert_eq!(share_ppm(0.005), 5_000);
        assert_eq!(share_ppm(0.0), 0);
        assert_eq!(share_ppm(7.0), 1_000_000);
    }
}
