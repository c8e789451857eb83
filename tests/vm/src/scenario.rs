//! Scenarios: shell scripts that run in a guest, with lines at their head that say where and what is expected.
//!
//!     #: about    one sentence
//!     #: machine  ring4 mesh8               one after the other; the first is the usual one
//!     #: image    services                  another file system than the usual one
//!     #: ticks                              timers fire at ticks alone, so that speeds can be compared
//!     #: quick                              part of the short round, on the usual machine
//!     #: limit    120                       processor seconds of this machine
//!     #: expect   steady_local >= 0.95      by the ground truth; makes it count

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use crate::image::Image;
use crate::machine::{self, Machine};
use crate::truth::Figures;

/// One scenario.
#[derive(Debug)]
pub(crate) struct Scenario {
    /// The file's; with `@MACHINE` behind it on any but the first.
    pub(crate) name: String,
    pub(crate) about: String,
    pub(crate) machine: Machine,
    pub(crate) image: Image,
    pub(crate) quick: bool,
    pub(crate) limit: Duration,
    pub(crate) expectations: Vec<Expectation>,
    pub(crate) script: String,
}

/// Something that the ground truth must say.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Expectation {
    figure: String,
    at_least: bool,
    bound: f64,
}

const LIMIT: Duration = Duration::from_secs(180);

/// All scenarios in a folder, by name.
pub(crate) fn read_all(folder: &Path) -> Result<Vec<Scenario>> {
    let mut files: Vec<_> = fs::read_dir(folder)
        .with_context(|| format!("cannot look for scenarios in `{}`", folder.display()))?
        .collect::<Result<_, _>>()?;
    files.sort_by_key(fs::DirEntry::file_name);
    files
        .into_iter()
        .map(|file| file.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "sh"))
        .map(|path| read(&path))
        .collect::<Result<Vec<_>>>()
        .map(|each| each.into_iter().flatten().collect())
}

/// The scenario in a file, once for each of its machines.
pub(crate) fn read(path: &Path) -> Result<Vec<Scenario>> {
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    let script = fs::read_to_string(path)
        .with_context(|| format!("cannot read the scenario `{}`", path.display()))?;
    Scenario::parse(&name, &script).with_context(|| format!("in `{}`", path.display()))
}

impl Scenario {
    fn parse(name: &str, script: &str) -> Result<Vec<Self>> {
        let mut scenario = Self {
            name: name.to_owned(),
            about: String::new(),
            machine: machine::find("ring4")?,
            image: Image::Usual,
            quick: false,
            limit: LIMIT,
            expectations: Vec::new(),
            script: String::new(),
        };
        let mut machines = vec![scenario.machine.clone()];
        let mut ticks = false;
        for line in script.lines().filter_map(|line| line.strip_prefix("#: ")) {
            let (key, value) = line.split_once(' ').unwrap_or((line, ""));
            let value = value.trim();
            match key {
                "about" => value.clone_into(&mut scenario.about),
                "machine" => {
                    let named = value.split_whitespace().map(machine::find);
                    machines = named.collect::<Result<_>>()?;
                }
                "image" => scenario.image = Image::named(value)?,
                "ticks" => ticks = true,
                "quick" => scenario.quick = true,
                "limit" => {
                    let seconds = value
                        .parse()
                        .with_context(|| format!("`{value}` is no number of seconds"))?;
                    scenario.limit = Duration::from_secs(seconds);
                }
                "expect" => scenario.expectations.push(Expectation::parse(value)?),
                _ => bail!(
                    "a head line begins with `{key}`; known are about, machine, image, ticks, quick, limit, expect"
                ),
            }
        }
        if scenario.about.is_empty() {
            bail!("the head does not say what the scenario is about");
        }
        let mut each: Vec<Self> = machines
            .into_iter()
            .enumerate()
            .map(|(place, machine)| scenario.on(Machine { ticks, ..machine }, place == 0))
            .collect();
        for one in &mut each {
            one.script = format!("{}{script}", preamble(&one.machine));
        }
        Ok(each)
    }

    /// This scenario on a machine of its own.
    fn on(&self, machine: Machine, usual: bool) -> Self {
        Self {
            name: if usual {
                self.name.clone()
            } else {
                format!("{}@{}", self.name, machine.name)
            },
            about: self.about.clone(),
            quick: self.quick && usual,
            image: self.image,
            limit: self.limit,
            expectations: self.expectations.clone(),
            script: String::new(),
            machine,
        }
    }

    /// Whether this name means it: a file's name means it on all machines, one with `@MACHINE` behind it on that one.
    pub(crate) fn is_named(&self, name: &str) -> bool {
        let file = self.name.split('@').next().unwrap_or_default();
        match name.split_once('@') {
            Some((one, machine)) => one == file && machine == self.machine.name,
            None => name == file,
        }
    }
}

/// What every script begins with: the machine in numbers, and what scenarios share.
fn preamble(machine: &Machine) -> String {
    format!(
        "machine={}; nodes={}; cpus_per_node={}; cpus={}\n. /lib/scenario.sh\n",
        machine.name,
        machine.nodes,
        machine.cpus_per_node,
        machine.nodes * machine.cpus_per_node
    )
}

impl Expectation {
    fn parse(text: &str) -> Result<Self> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let &[figure, relation, bound] = words.as_slice() else {
            bail!("`{text}` is not like `steady_local >= 0.95`");
        };
        Figures::default().named(figure)?;
        Ok(Self {
            figure: figure.to_owned(),
            at_least: match relation {
                ">=" => true,
                "<=" => false,
                _ => bail!("`{relation}` is neither `>=` nor `<=`"),
            },
            bound: bound
                .parse()
                .with_context(|| format!("`{bound}` is no number"))?,
        })
    }

    /// What is wrong with the figures; nothing if they are as expected.
    pub(crate) fn check(&self, figures: &Figures) -> Result<Option<String>> {
        let is = figures.named(&self.figure)?;
        let met = if self.at_least {
            is >= self.bound
        } else {
            is <= self.bound
        };
        Ok((!met).then(|| {
            let word = if self.at_least { "at least" } else { "at most" };
            format!("{} is {is:.3}, expected {word} {}", self.figure, self.bound)
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_of_a_scenario_is_read() {
        let text = "#: about Threads meet\n#: machine mesh8\n#: quick\n#: expect local <= 0.5\n# other\nexit 0\n";
        let scenarios = Scenario::parse("meet", text).unwrap();
        let scenario = &scenarios[0];
        assert_eq!(
            (scenario.about.as_str(), scenario.machine.name),
            ("Threads meet", "mesh8")
        );
        assert!(scenario.quick && scenario.script.ends_with("exit 0\n"));
        let figures = Figures {
            local: 0.75,
            ..Figures::default()
        };
        let said = scenario.expectations[0].check(&figures).unwrap();
        assert_eq!(
            said.as_deref(),
            Some("local is 0.750, expected at most 0.5")
        );
    }

    #[test]
    fn a_scenario_runs_on_each_of_its_machines() {
        let text =
            "#: about x\n#: machine ring4 mesh8\n#: quick\n#: image services\n#: ticks\ntrue\n";
        let scenarios = Scenario::parse("meet", text).unwrap();
        let told: Vec<_> = scenarios
            .iter()
            .map(|one| (one.name.as_str(), one.machine.name, one.quick))
            .collect();
        assert_eq!(
            told,
            [("meet", "ring4", true), ("meet@mesh8", "mesh8", false)]
        );
        assert!(
            scenarios[1]
                .script
                .starts_with("machine=mesh8; nodes=8; cpus_per_node=1; cpus=8\n")
        );
        assert!(
            scenarios
                .iter()
                .all(|one| one.image == Image::Services && one.machine.ticks)
        );
        let named = |name: &str| scenarios.iter().filter(|one| one.is_named(name)).count();
        let counts = ["meet", "meet@ring4", "meet@mesh8", "mee"].map(named);
        assert_eq!(counts, [2, 1, 1, 0]);
    }

    #[test]
    fn a_wrong_head_is_refused() {
        let cases = [
            ("#: machine ring4\n", "does not say what"),
            ("#: about x\n#: machine ring5\n", "no machine `ring5`"),
            ("#: about x\n#: speed 4\n", "begins with `speed`"),
            ("#: about x\n#: image big\n", "no image `big`"),
            ("#: about x\n#: expect local 0.5\n", "not like"),
            ("#: about x\n#: expect beauty >= 1\n", "no figure `beauty`"),
        ];
        for (text, part) in cases {
            let error = Scenario::parse("wrong", text).unwrap_err();
            assert!(error.to_string().contains(part), "{error}");
        }
    }

    #[test]
    fn every_scenario_here_is_whole() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
        assert!(
            read_all(&folder)
                .unwrap()
                .iter()
                .any(|scenario| scenario.quick)
        );
    }
}
