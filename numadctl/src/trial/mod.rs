//! Experiments as `compare` and `ab` make them: arms, metrics, the file, and what follows from it.

pub(crate) mod command;
pub(crate) mod prometheus;

use std::fs::File;
use std::io::{Read as _, Write};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use config::Config;
use control::experiment::{Arm, BALANCING, BYTES_MAX, Experiment, is_machine_wide};
use control::{ErrorKind, Failure};
use experiment::plan::kept;

use crate::fresh::{Fresh, cannot_read, cannot_write};
use crate::usage::given_once;
use crate::waiting::Waiting;
use experiment::metric::Source;
use numad_core::published::{METHOD, SUFFIX};

/// What writes experiments.
pub(crate) const MADE_BY: &str = concat!("numadctl ", env!("CARGO_PKG_VERSION"));

/// The arm in which numad does not touch the program at all.
pub(crate) const OFF: &str = "off";

/// Ends the name of an arm under which the kernel balances.
const BALANCED: &str = "+balancing";

/// Reads names of policies with commas between, and settings such as `deloc.refine=false`. A policy that is named twice
/// is two arms, `linux` and `linux-2`: an experiment that must find nothing.
///
/// # Errors
/// A policy that does not exist, a setting of a policy that is no arm.
pub(crate) fn arms(policies: &[String], set: &[(String, String)]) -> Result<Vec<Arm>, Failure> {
    given_once(set)?;
    let mut arms: Vec<Arm> = Vec::new();
    let machine_wide = policies.iter().any(|name| name.ends_with(BALANCED));
    for name in policies {
        let policy = policy_of(name)?;
        let mut set = std::collections::BTreeMap::new();
        if machine_wide && policy.is_some() {
            let how = match name.ends_with(BALANCED) {
                true => "cooperate",
                false => "leave",
            };
            set.insert(BALANCING.to_owned(), how.to_owned());
        }
        if policy.is_some() && name.trim_end_matches(BALANCED).ends_with(SUFFIX) {
            set.insert(METHOD.to_owned(), "published".to_owned());
        }
        let earlier = policies
            .iter()
            .take(arms.len())
            .filter(|&other| other == name);
        let name = match earlier.count() {
            0 => name.clone(),
            count => format!("{name}-{}", count + 1),
        };
        arms.push(Arm { name, policy, set });
    }
    for (key, value) in set {
        let (name, setting) = key.split_once('.').ok_or_else(|| {
            let text = format!("setting `{key}` does not say of which policy");
            Failure::new(ErrorKind::Usage, text).remedy(format!("write `POLICY.{key}={value}`"))
        })?;
        let arm = arms
            .iter_mut()
            .find(|arm| arm.name == name && arm.policy.is_some());
        let arm = arm.ok_or_else(|| {
            let text = format!("setting `{key}` is of no policy that is compared");
            Failure::new(ErrorKind::Usage, text)
                .remedy("name a policy of --policies before the dot")
        })?;
        must_be_settable(arm, setting, value)?;
        arm.set.insert(setting.to_owned(), value.clone());
    }
    Ok(arms)
}

/// Refuses what the daemon would refuse when the arm is entered for the first time, which may be
/// hours from now.
fn must_be_settable(arm: &Arm, setting: &str, value: &str) -> Result<(), Failure> {
    let configuration =
        |text: String, remedy: &str| Failure::new(ErrorKind::Configuration, text).remedy(remedy);
    if setting.contains('.') {
        let checked = match setting {
            // Who may set it the daemon knows.
            BALANCING => Ok(()),
            _ => Config::default()
                .value_for_one_program(setting, value)
                .map(drop),
        };
        return checked.map_err(|error| configuration(error.to_string(), "see docs/config.md"));
    }
    let Some(Ok(policy)) = arm.policy.as_deref().map(policies::find) else {
        // An external one has none, which the daemon says.
        return Ok(());
    };
    let checked = numad_core::setting::find(policy.settings, setting);
    checked
        .and_then(|spec| spec.parse(value).map(drop))
        .map_err(|error| {
            let name = policy.name;
            let see = format!("see `numadctl policies show {name}`");
            configuration(format!("policy `{name}`: {error}"), &see)
        })
}

/// The policy of an arm of this name; none for `off`.
fn policy_of(arm: &str) -> Result<Option<String>, Failure> {
    let policy = arm.strip_suffix(BALANCED).unwrap_or(arm);
    let (policy, published) = match policy.strip_suffix(SUFFIX) {
        Some(policy) => (policy, true),
        None => (policy, false),
    };
    match policy {
        "" => {
            let text = match arm {
                "" => "there is an empty name in the list of policies".to_owned(),
                _ => format!("`{arm}` in the list of policies names none"),
            };
            return Err(Failure::new(ErrorKind::Usage, text)
                .remedy("write names with one comma between, as in `linux,auto`"));
        }
        OFF if policy == arm => return Ok(None),
        OFF => {
            let text =
                format!("`{arm}` cannot be: without numad nobody switches the kernel's balancing");
            return Err(
                Failure::new(ErrorKind::Usage, text).remedy(format!("write `none{BALANCED}`"))
            );
        }
        // The daemon knows which programs may be policies.
        _ if policy.starts_with(control::external::PREFIX) => {}
        _ => {
            let factory = policies::find(policy).map_err(|reason| {
                Failure::new(ErrorKind::NotFound, reason)
                    .remedy("see `numadctl policies`; `off` stands for no policy at all")
            })?;
            if published && factory.published.is_none() {
                let text = format!("`{arm}` cannot be: `{policy}` is of no paper");
                return Err(
                    Failure::new(ErrorKind::Usage, text).remedy(format!("write `{policy}`"))
                );
            }
        }
    }
    Ok(Some(policy.to_owned()))
}

/// Refuses arms with and without the kernel's balancing where it is on anyway.
pub(crate) fn must_tell_apart(arms: &[Arm]) -> Result<(), Failure> {
    let on = || {
        let mode = procfs::Reader::new("/").numa_balancing();
        mode.is_ok_and(procfs::BalancingMode::balances)
    };
    if !is_machine_wide(arms) || arms.iter().all(Arm::has_kernel_balance) || !on() {
        return Ok(());
    }
    Err(control::experiment::balances_anyway())
}

/// A seed where none was given: the clock, whose bits nobody chooses.
pub(crate) fn any_seed() -> u32 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(1, |since| {
            since.subsec_nanos() ^ u32::try_from(since.as_secs() & 0xffff_ffff).unwrap_or(1)
        })
}

/// The number that a metric has from outside of the daemon now; none for one that has none.
///
/// # Errors
/// When there is no number. `Busy` when someone interrupts the wait.
pub(crate) fn number(
    source: Option<Source<'_>>,
    waiting: &mut Waiting<'_>,
) -> Result<Option<f64>, Failure> {
    match source {
        Some(Source::Gauge(shell) | Source::Counter(shell)) => {
            command::ask(shell, waiting).map(Some)
        }
        Some(Source::Query { url, query }) => prometheus::ask(url, query, waiting).map(Some),
        Some(Source::Wall | Source::Cpu | Source::Daemon(_)) | None => Ok(None),
    }
}

/// This machine in one line.
pub(crate) fn machine() -> String {
    topology::load("this").map_or_else(|error| format!("unknown: {error}"), |it| it.summary())
}

/// How long some thread of the machine has waited for a processor since the start, where the kernel tells.
pub(crate) fn waited() -> Option<Duration> {
    procfs::Reader::new("/").processor_pressure().ok()?.here()
}

/// The share of time in which some thread of the machine waited for a processor, since it was `waited`.
pub(crate) fn pressure(waited: Option<Duration>, length: Duration) -> Option<f64> {
    let more = self::waited()?.saturating_sub(waited?);
    let share = more.as_secs_f64() / length.as_secs_f64();
    share.is_finite().then(|| kept(share.min(1.0)))
}

/// Refuses a file that is there: an experiment is worth more than a moment of care.
pub(crate) fn must_be_new(file: &Path) -> Result<(), Failure> {
    if file.symlink_metadata().is_err() {
        return Ok(());
    }
    let text = format!("`{}` is there already", file.display());
    Err(Failure::new(ErrorKind::Conflict, text)
        .remedy("name another file; runs go on by `numadctl compare --continue FILE`"))
}

/// Writes the file in one step: whoever reads it finds the old one or the new one.
pub(crate) fn save(experiment: &Experiment, path: &Path) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(experiment).map_err(|error| {
        Failure::new(
            ErrorKind::Internal,
            format!("cannot put the experiment into JSON: {error}"),
        )
    })?;
    let mut file = Fresh::replacing(path)?;
    file.write_all(text.as_bytes())
        .and_then(|()| file.write_all(b"\n"))
        .map_err(|error| cannot_write(path, &error))?;
    file.keep()
}

/// Reads the file of an experiment.
pub(crate) fn load(path: &Path) -> Result<Experiment, Failure> {
    let shown = path.display();
    let mut bytes = Vec::new();
    // A pipe or device tells no length before it is read.
    let most = BYTES_MAX as u64 + 1;
    File::open(path)
        .and_then(|file| file.take(most).read_to_end(&mut bytes))
        .map_err(|error| cannot_read(path, &error))?;
    if bytes.len() > BYTES_MAX {
        let text = format!("`{shown}` is no experiment: it is too large");
        return Err(
            Failure::new(ErrorKind::Usage, text).remedy("name a file that `ab` or `compare` wrote")
        );
    }
    control::experiment::read(&bytes).map_err(|failure| Failure {
        message: failure
            .message
            .replacen("the file", &format!("`{shown}`"), 1),
        ..failure
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(policies: &[&str]) -> Vec<String> {
        let policies: Vec<String> = policies.iter().map(|&it| it.to_owned()).collect();
        let arms = arms(&policies, &[]).unwrap();
        arms.into_iter().map(|arm| arm.name).collect()
    }

    #[test]
    fn a_policy_may_face_itself() {
        assert_eq!(names(&["linux", "deloc", "off"]), ["linux", "deloc", "off"]);
        assert_eq!(
            names(&["linux", "linux", "linux"]),
            ["linux", "linux-2", "linux-3"]
        );
    }

    #[test]
    fn the_kernels_balancing_is_on_in_the_arms_that_say_so() {
        let read = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|&it| it.to_owned()).collect();
            arms(&names, &[("deloc.refine".to_owned(), "false".to_owned())])
        };
        let how = |arm: &Arm| arm.set.get(BALANCING).cloned().unwrap_or_default();
        let arms = read(&["off", "deloc", "linux+balancing", "deloc+balancing"]).unwrap();
        assert_eq!(arms[3].name, "deloc+balancing");
        assert_eq!(arms[2].policy.as_deref(), Some("linux"));
        let all: Vec<String> = arms.iter().map(how).collect();
        assert_eq!(all, ["", "leave", "cooperate", "cooperate"]);
        assert_eq!(
            arms[1].set["refine"], "false",
            "to the arm of that very name"
        );
        let plain = read(&["none", "deloc"]).unwrap();
        assert!(plain.iter().all(|arm| how(arm).is_empty()), "{plain:?}");
        let without = read(&["off+balancing", "deloc"]).unwrap_err();
        assert!(without.to_string().contains("none+balancing"), "{without}");
        let arms = read(&["deloc", "lapt+published", "deloc+published+balancing"]).unwrap();
        let method = |arm: &Arm| arm.set.get(METHOD).cloned().unwrap_or_default();
        let all: Vec<String> = arms.iter().map(method).collect();
        assert_eq!(all, ["", "published", "published"]);
        assert_eq!(arms[2].policy.as_deref(), Some("deloc"));
        let paper = read(&["auto+published", "deloc"]).unwrap_err();
        assert!(paper.to_string().contains("of no paper"), "{paper}");
        let empty = read(&["deloc", "+balancing"]).unwrap_err();
        assert!(empty.to_string().contains("names none"), "{empty}");
        let unknown = read(&["delok+balancing", "deloc"]).unwrap_err();
        assert_eq!(unknown.kind, ErrorKind::NotFound);
    }

    #[test]
    fn an_empty_name_is_called_so() {
        let policies = ["linux", "", "auto"].map(str::to_owned);
        let empty = arms(&policies, &[]).unwrap_err();
        assert_eq!(empty.kind, ErrorKind::Usage);
        let shown = empty.to_string();
        assert!(
            shown.starts_with("there is an empty name in the list of policies;"),
            "{shown}"
        );
    }

    #[test]
    fn settings_go_to_their_arm() {
        let policies = ["linux".to_owned(), "deloc".to_owned()];
        let set = |key: &str| arms(&policies, &[(key.to_owned(), "true".to_owned())]);
        assert_eq!(set("deloc.refine").unwrap()[1].set["refine"], "true");
        set("deloc.engine.move_pages").unwrap();
        assert_eq!(set("refine").unwrap_err().kind, ErrorKind::Usage);
        assert_eq!(set("ptb.refine").unwrap_err().kind, ErrorKind::Usage);
        let unknown = arms(&["delok".to_owned()], &[]).unwrap_err();
        assert_eq!(unknown.kind, ErrorKind::NotFound);
    }
}
