//! The kernel's own balancing as an ally: switched on while a program is under a policy, if the settings
//! want it and allow it, and put back after the last. What each of the two is good at stands in docs/operating.md.

use actuator::Balancing;
use numad_core::Refusal;

use super::Steward;

impl Steward {
    /// Has the kernel balance while a program is under a policy, and not longer. Called whenever that may have
    /// changed; costs one look at the switch where it has not.
    pub(super) fn tend_balancing(&mut self) {
        let acts = self.programs.values().any(super::program::Program::acts);
        self.have_kernel_balance(acts);
    }

    /// The same, for a program that is about to come.
    pub(super) fn have_kernel_balance(&mut self, acts: bool) {
        let config = &self.parts.config;
        let wanted = acts && config.daemon.allow_global && config.engine.cooperate;
        if wanted {
            let told = self.parts.hand.balance();
            if self.balancing_told != Some(told) {
                self.tell_balancing(told);
            }
            self.balancing_told = Some(told);
        } else if self.balancing_told.take() == Some(Ok(Balancing::Switched)) {
            match self.parts.hand.leave_balancing() {
                Ok(()) => self
                    .parts
                    .log
                    .info(format_args!("kernel.numa_balancing is as it was before")),
                Err(told) => self.parts.log.error(format_args!("{told}")),
            }
        }
    }

    fn tell_balancing(&self, told: Result<Balancing, Refusal>) {
        let log = &self.parts.log;
        match told {
            Ok(Balancing::Switched) => log.info(format_args!(
                "kernel.numa_balancing is switched on while programs are attached"
            )),
            Ok(Balancing::Already) => {}
            Err(refusal) => log.warn(format_args!("{}", not_switched(refusal))),
        }
    }

    /// What `status` says of it.
    pub(super) fn balancing_note(&self) -> Option<String> {
        match self.balancing_told? {
            Ok(Balancing::Switched) => Some(
                "the kernel's balancing is switched on by numad while programs are attached"
                    .to_owned(),
            ),
            Ok(Balancing::Already) => None,
            Err(refusal) => Some(not_switched(refusal)),
        }
    }
}

/// Why the kernel does not balance though it is wanted, and what to do.
fn not_switched(refusal: Refusal) -> String {
    let why = match refusal {
        Refusal::NotPermitted => {
            "the daemon may not write it; give it CAP_SYS_ADMIN and `ProtectKernelTunables=no` \
             (docs/operating.md), or run `sysctl kernel.numa_balancing=1`"
        }
        Refusal::Unsupported => "this kernel has no CONFIG_NUMA_BALANCING",
        Refusal::ChangedByOther => {
            "somebody switched it off since; it stays so until the next attach"
        }
        Refusal::Journal => "the undo journal cannot be written",
        _ => return format!("kernel.numa_balancing cannot be switched on: {refusal}"),
    };
    format!("kernel.numa_balancing cannot be switched on: {why}")
}
