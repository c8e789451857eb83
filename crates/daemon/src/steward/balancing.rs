//! The kernel's own balancing as an ally: switched on while a program is under a policy, if the settings or the request
//! want it and the settings allow it, and put back after the last. What each of the two is good at stands in docs/operating.md.

use actuator::Balancing;
use control::experiment::{Arm, BALANCING, balances_anyway, is_machine_wide};
use control::rows::AttachRequest;
use control::{ErrorKind, Failure};
use numad_core::Refusal;

use super::Steward;
use super::program::{Program, acts};
use crate::peer::Peer;

impl Steward {
    /// Has the kernel balance while a program wants it, and not longer. Called whenever that may have changed; costs one
    /// look at the switch where it has not.
    pub(super) fn tend_balancing(&mut self) {
        self.tend_balancing_for(false);
    }

    /// The same, for a program that is about to come and does or does not want it. While an experiment has arms with
    /// and without it, that one alone says.
    pub(super) fn tend_balancing_for(&mut self, coming: bool) {
        let daemon = &self.parts.config.daemon;
        let usual = daemon.allow_global && self.parts.config.engine.cooperate;
        let wants = |program: &Program| program.wants_balancing(usual);
        let somebody = coming || self.programs.values().any(wants);
        let wanted = match self.experiments.machine_wide() {
            Some((id, attachment)) => {
                let its_own = attachment.and_then(|id| self.programs.get(&id));
                its_own.is_some_and(wants) || coming && self.experiments.at_work == Some(id)
            }
            None => somebody,
        };
        self.have_kernel_balance(wanted && daemon.allow_global);
        self.switched_off_by_other &= somebody;
    }

    fn have_kernel_balance(&mut self, wanted: bool) {
        let before = self.balancing_told;
        if self.switched_off_by_other || matches!(before, Some(Ok(_))) {
            self.switched_off_by_other = !self.parts.machine.kernel_balances();
        }
        let told = wanted.then(|| match self.switched_off_by_other {
            true => Err(Refusal::ChangedByOther),
            false => self.parts.hand.balance(),
        });
        self.balancing_told = told;
        if let Some(told) = told
            && before != Some(told)
        {
            self.tell_balancing(told);
        }
        if before.is_some() && !matches!(told, Some(Ok(_))) {
            self.leave_balancing(before == Some(Ok(Balancing::Switched)));
        }
    }

    /// Puts the switch back; where somebody else has set it since, only its row is forgotten.
    fn leave_balancing(&mut self, was_ours: bool) {
        let log = self.parts.log.clone();
        match self.parts.hand.leave_balancing() {
            Ok(()) if was_ours && !self.switched_off_by_other => {
                log.info(format_args!("kernel.numa_balancing is as it was before"));
            }
            Ok(()) => {}
            Err(told) => log.error(format_args!("{told}")),
        }
    }

    /// Whether the kernel is to balance for what is asked for: as the request says, else as the settings do.
    ///
    /// # Errors
    /// When there is no such answer, or it is not for this peer to decide.
    pub(super) fn balancing_for(
        &self,
        peer: Peer,
        request: &AttachRequest,
    ) -> Result<bool, Failure> {
        let config = &self.parts.config;
        let Some(how) = request.set.get(BALANCING) else {
            let policy = request
                .policy
                .as_ref()
                .unwrap_or(&config.daemon.default_policy);
            return Ok(config.engine.cooperate && acts(policy, request.dry_run));
        };
        match how.as_str() {
            "leave" => return Ok(false),
            "cooperate" => {}
            _ => {
                let text = format!("setting `{BALANCING}`: `{how}` is not one of leave, cooperate");
                return Err(
                    Failure::new(ErrorKind::Configuration, text).remedy("see docs/config.md")
                );
            }
        }
        peer.must_be_admin("engine.balancing=cooperate")?;
        if !config.daemon.allow_global {
            let text =
                format!("setting `{BALANCING}=cooperate` changes a switch of the whole machine");
            return Err(Failure::new(ErrorKind::NotPermitted, text)
                .remedy("allow it with `daemon.allow_global = true`"));
        }
        Ok(!request.dry_run)
    }

    /// Refuses an experiment with and without the kernel's balancing where it is on anyway.
    pub(super) fn must_tell_balancing_apart(&mut self, arms: &[Arm]) -> Result<(), Failure> {
        let ours = self.balancing_told == Some(Ok(Balancing::Switched));
        let tells = arms.iter().all(Arm::has_kernel_balance) || ours;
        match is_machine_wide(arms) && !tells && self.parts.machine.kernel_balances() {
            true => Err(balances_anyway()),
            false => Ok(()),
        }
    }

    /// Why the kernel does not do under this arm what the arm says; none where it does.
    pub(super) fn unlike(&mut self, arm: &Arm) -> Option<String> {
        self.experiments.machine_wide()?;
        let wanted = arm.has_kernel_balance();
        if self.parts.machine.kernel_balances() == wanted {
            return None;
        }
        let why = match (wanted, self.balancing_told) {
            (true, Some(Err(refusal))) => not_switched(refusal),
            (true, _) => "somebody has switched kernel.numa_balancing off".to_owned(),
            (false, _) => "somebody has switched kernel.numa_balancing on".to_owned(),
        };
        Some(why)
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
            "the daemon may not write it; give it `User=root`, CAP_SYS_ADMIN and \
             `ProtectKernelTunables=no` (docs/operating.md), or run \
             `sysctl kernel.numa_balancing=1`"
        }
        Refusal::Unsupported => "this kernel has no CONFIG_NUMA_BALANCING",
        Refusal::ChangedByOther => {
            "somebody switched it off since; it stays so until no program is attached that wants it"
        }
        Refusal::Journal => "the undo journal cannot be written",
        _ => return format!("kernel.numa_balancing cannot be switched on: {refusal}"),
    };
    format!("kernel.numa_balancing cannot be switched on: {why}")
}
