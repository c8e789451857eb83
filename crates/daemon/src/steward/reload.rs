//! Settings that are read again.

use std::sync::Arc;

use config::{Config, Difference, Effect};
use control::rows::ReloadReport;
use control::{ErrorKind, Failure};

use super::{Steward, gate_of, level_of};
use crate::peer::Peer;

impl Steward {
    /// Reads the settings again, and what was measured of this machine. Bad settings change
    /// nothing, and those for the next start are told until then.
    ///
    /// # Errors
    /// `NotPermitted`; `Configuration` with everything that is wrong, one after the other.
    pub fn reload(&mut self, peer: Peer) -> Result<ReloadReport, Failure> {
        peer.must_be_admin("reload")?;
        let loaded = match (self.parts.loader)() {
            Ok(loaded) => loaded,
            Err(error) => {
                self.counters.reloads_refused += 1;
                let text = error.to_string().replace('\n', "; ");
                self.parts
                    .log
                    .error(format_args!("settings not reloaded, old ones stay: {text}"));
                let message = format!("settings not reloaded: {text}");
                return Err(Failure::new(ErrorKind::Configuration, message)
                    .remedy("the old settings stay in force; correct the file and reload"));
            }
        };
        let report = report_of(&Config::differences(&self.parts.config, &loaded.config));
        self.counters.reloads += 1;
        self.parts.log.set_level(level_of(&loaded.config));
        let gate = gate_of(&loaded.config);
        if let Some(missing) = gate.access.missing_group(&loaded.config.access) {
            self.parts.log.warn(format_args!("{missing}"));
        }
        self.parts.log.count_by(gate.access.subordinates.clone());
        self.parts.gate.send_replace(gate);
        self.parts.config = loaded.config.beside(&self.parts.config);
        self.parts.files = loaded.files;
        self.tend_balancing();
        self.go_by_measured();
        let (changed, later) = (report.changed.len(), report.at_restart.len());
        let log = &self.parts.log;
        log.info(format_args!(
            "settings reloaded: {changed} changed, {later} wait for a restart"
        ));
        Ok(report)
    }

    /// Goes by what was measured of this machine, if that is news.
    pub(super) fn go_by_measured(&mut self) {
        if let Some(topology) = (self.parts.measured)() {
            self.engine.go_by(Arc::clone(&topology));
            self.parts.topology = topology;
        }
    }
}

fn report_of(differences: &[Difference]) -> ReloadReport {
    let (later, now): (Vec<_>, Vec<_>) = differences
        .iter()
        .partition(|difference| difference.effect == Effect::Restart);
    let texts = |list: Vec<&Difference>| list.into_iter().map(ToString::to_string).collect();
    ReloadReport {
        changed: texts(now),
        at_restart: texts(later),
    }
}
