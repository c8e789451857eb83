//! Opens the source of samples that the settings ask for, or the best that there is.

use std::path::PathBuf;
use std::sync::Arc;

use actuator::{Asker, QUESTION};
use config::{Config, Provoke, SourceChoice};
use control::rows::Finding;
use control::{ErrorKind, Failure};
use procfs::{Presence, Reader};
use sampler::choose::{How, SourceKind, Verdict, best, choose};
use sampler::faults::FaultOptions;
use sampler::feed;
use sampler::machine::Facts;
use sampler::provoke::soft_dirty_supported;
use sampler::{
    ClearOptions, Faults, Feed, FeedError, Ibs, MemoryOptions, OpenError, Pebs, Provocation,
    ProvokeMode, Source, Spe,
};
use topology::{CpuSet, Topology};

use crate::clock;
use crate::steward::{Opener, Survey, finding};

/// See the module.
#[derive(Clone, Debug)]
pub struct LiveOpener {
    topology: Arc<Topology>,
    root: PathBuf,
    asker: Asker,
    soft_dirty: bool,
    kernel_balances: Option<u32>,
    /// As they were when a source was last opened.
    facts: Facts,
    passed_over: Vec<String>,
    /// Why nothing could be opened when that was last tried.
    refusal: Option<Failure>,
}

/// A source that was opened, or why it was not.
type Opened = Result<Box<dyn Source>, Failure>;

/// What was opened, and why nothing better was.
#[derive(Debug)]
struct Picked {
    source: Box<dyn Source>,
    passed_over: Vec<String>,
}

impl LiveOpener {
    /// Looks what this machine has. What touches the memory of processes goes through `asker`.
    #[must_use]
    pub fn new(topology: Arc<Topology>, reader: &Reader, asker: Asker) -> Self {
        let root = reader.root().to_owned();
        let balancing = reader.numa_balancing().is_ok_and(|mode| mode.acts());
        Self {
            topology,
            soft_dirty: soft_dirty_supported(&root).unwrap_or(false),
            kernel_balances: Some(u32::from(balancing)),
            facts: Facts::read(&root),
            root,
            asker,
            passed_over: Vec::new(),
            refusal: None,
        }
    }

    /// Opens the source and closes it again, so that what is in the way is known before anybody
    /// attaches. A feed is left closed: it is read from its first record on.
    ///
    /// # Errors
    /// As [`Opener::open`].
    pub fn try_once(&mut self, config: &Config) -> Result<(), Failure> {
        let tried = match config.sampling.source {
            SourceChoice::Feed => Ok(()),
            _ => self.pick(config).map(drop),
        };
        self.refusal = tried.as_ref().err().cloned();
        tried
    }

    fn online(&self) -> CpuSet {
        let online = Reader::new(&self.root).online();
        let online = online.ok().and_then(Presence::here);
        online.unwrap_or_else(|| self.topology.online())
    }

    fn faults(&self, config: &Config) -> Result<Faults, OpenError> {
        let sampling = &config.sampling;
        let asker = self.asker.clone();
        Faults::open(FaultOptions {
            bounded: Arc::new(move |pid, job| {
                let _its_job_tells = asker.ask(pid, QUESTION, job);
            }),
            ring_pages: sampling.ring_pages,
            period: sampling.period,
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
            ..FaultOptions::new(self.online(), Box::new(clock::monotonic))
        })
    }

    fn faults_as_asked(&self, config: &Config) -> Result<Box<dyn Source>, Failure> {
        if config.sampling.provoke == Provoke::SoftDirty && !self.soft_dirty {
            let message =
                "`sampling.provoke` asks for soft-dirty clearing, which this kernel lacks";
            return Err(Failure::new(ErrorKind::Prerequisite, message)
                .remedy("use a kernel with CONFIG_MEM_SOFT_DIRTY, or set it to `auto`"));
        }
        let faults = self.faults(config).map_err(|error| refused(&error))?;
        Ok(Box::new(faults))
    }

    fn open_as(&self, config: &Config, how: &How) -> Opened {
        let sampling = &config.sampling;
        let options = || MemoryOptions {
            ring_pages: sampling.ring_pages,
            period: sampling.period,
            root: self.root.clone(),
            load_latency_min: sampling.load_latency_min,
            physical: sampling.physical_addresses,
            ..MemoryOptions::new(self.online())
        };
        let pmus = &self.facts.pmus;
        let opened: Result<Box<dyn Source>, OpenError> = match how {
            How::Faults => return self.faults_as_asked(config),
            How::Pebs(cores) => {
                Pebs::open(&options(), cores, pmus).map(|source| Box::new(source) as _)
            }
            How::Ibs(unit) => {
                Ibs::open(&options(), *unit, pmus).map(|source| Box::new(source) as _)
            }
            How::Spe(units) => {
                let clock = Box::new(clock::monotonic);
                Spe::open(&options(), units, pmus, clock).map(|source| Box::new(source) as _)
            }
        };
        opened.map_err(|error| refused(&error))
    }

    fn pick(&mut self, config: &Config) -> Result<Picked, Failure> {
        self.facts = Facts::read(&self.root);
        if config.sampling.source == SourceChoice::Feed {
            let feed = Feed::open(&config.sampling.feed, Box::new(clock::monotonic));
            return Ok(Picked {
                source: Box::new(feed.map_err(|error| unfit(&error))?),
                passed_over: Vec::new(),
            });
        }
        let verdicts = choose(&self.facts);
        pick(config.sampling.source, &verdicts, &mut |how| {
            self.open_as(config, how)
        })
    }
}

/// Opens the source that is wanted, or the best that can be opened. What better ones lack is told,
/// unless it is the processor of another maker.
fn pick(
    choice: SourceChoice,
    verdicts: &[Verdict],
    open: &mut dyn FnMut(&How) -> Opened,
) -> Result<Picked, Failure> {
    let wanted = wanted(choice);
    let mut passed_over = Vec::new();
    let mut last = None;
    for verdict in verdicts {
        let source = verdict.source;
        if wanted.is_some_and(|wanted| wanted != source) {
            continue;
        }
        // The kernel's own answer counts for what needs nothing.
        let how = match &verdict.usable {
            _ if source == SourceKind::Faults => &How::Faults,
            Ok(how) => how,
            Err(lack) => {
                if wanted.is_some() {
                    let message = format!("cannot sample by `{source}`: {lack}");
                    let remedy = lack.remedy();
                    let remedy = remedy.unwrap_or_else(|| "set sampling.source to auto".to_owned());
                    return Err(Failure::new(ErrorKind::Prerequisite, message).remedy(remedy));
                }
                if !lack.is_natural() {
                    passed_over.push(reason(source, &lack.to_string(), lack.remedy().as_deref()));
                }
                continue;
            }
        };
        match open(how) {
            Ok(source) => {
                return Ok(Picked {
                    source,
                    passed_over,
                });
            }
            Err(failure) => {
                let remedy = Some(failure.remedy.as_str()).filter(|remedy| !remedy.is_empty());
                passed_over.push(reason(source, &failure.message, remedy));
                last = Some(failure);
            }
        }
    }
    Err(last.unwrap_or_else(|| {
        Failure::new(
            ErrorKind::Prerequisite,
            "this machine has no source of samples",
        )
        .remedy("see `numadctl doctor`")
    }))
}

/// The one source of this machine that may be used, where the settings name one.
const fn wanted(choice: SourceChoice) -> Option<SourceKind> {
    match choice {
        SourceChoice::Auto | SourceChoice::Feed => None,
        SourceChoice::Pebs => Some(SourceKind::Pebs),
        SourceChoice::Ibs => Some(SourceKind::Ibs),
        SourceChoice::Spe => Some(SourceKind::Spe),
        SourceChoice::Faults => Some(SourceKind::Faults),
    }
}

/// Why a better source is not used, and what would help.
fn reason(source: SourceKind, why: &str, remedy: Option<&str>) -> String {
    match remedy {
        Some(remedy) => format!("{source} is not used: {why}; {remedy}"),
        None => format!("{source} is not used: {why}"),
    }
}

fn unfit(error: &FeedError) -> Failure {
    Failure::new(ErrorKind::Prerequisite, error.to_string()).remedy(error.remedy())
}

fn refused(error: &OpenError) -> Failure {
    let failure = Failure::new(ErrorKind::Prerequisite, error.to_string());
    failure.remedy(error.remedy().unwrap_or_default())
}

impl Opener for LiveOpener {
    fn open(&mut self, config: &Config) -> Result<Box<dyn Source>, Failure> {
        let picked = self.pick(config);
        self.refusal = picked.as_ref().err().cloned();
        let picked = picked?;
        self.passed_over = picked.passed_over;
        Ok(picked.source)
    }

    fn describe(&mut self, config: &Config) -> String {
        if config.sampling.source == SourceChoice::Feed {
            return "feed (when something is attached)".to_owned();
        }
        // What was in the way may be gone.
        if self.refusal.is_some()
            && let Err(failure) = self.try_once(config)
        {
            return format!("none: {failure}");
        }
        let verdicts = choose(&self.facts);
        let best = best(&verdicts).map_or(SourceKind::Faults, |verdict| verdict.source);
        let source = wanted(config.sampling.source).unwrap_or(best);
        if source != SourceKind::Faults {
            return format!("{source} (when something is attached)");
        }
        let mode = mode(config.sampling.provoke);
        let provocation = Provocation::choose(mode, self.soft_dirty, self.kernel_balances);
        format!("faults ({})", provocation.describe())
    }

    fn passed_over(&self) -> &[String] {
        &self.passed_over
    }

    fn findings(&mut self, config: &Config) -> Survey {
        let (mut opener, config) = (self.clone(), config.clone());
        Box::new(move || {
            if config.sampling.source == SourceChoice::Feed {
                return vec![feed(&config)];
            }
            let mut found = vec![opener.samples(&config), opener.provocation(&config)];
            let chosen = opener.chosen(&config);
            // Where nothing but page faults is left, both say the same.
            found.extend(chosen.filter(|chosen| chosen.text != found[0].text));
            found
        })
    }
}

/// Looks at the feed, and leaves it closed: a second reader would take samples from the first.
fn feed(config: &Config) -> Finding {
    const SUBJECT: &str = "source of samples";
    let path = &config.sampling.feed;
    match feed::check(path) {
        Ok(()) => {
            let text = format!("`feed`, from `{}`", path.display());
            finding("ok", SUBJECT, text, "")
        }
        Err(error) => finding("missing", SUBJECT, error.to_string(), &error.remedy()),
    }
}

impl LiveOpener {
    /// Opens the source that would be used, and closes it again, where it is not page faults.
    fn chosen(&mut self, config: &Config) -> Option<Finding> {
        const SUBJECT: &str = "source of samples";
        match self.pick(config) {
            Ok(picked) => {
                let status = picked.source.describe();
                (status.name != SourceKind::Faults.name()).then(|| {
                    let text = format!("`{}` on {} processors", status.name, status.cpus);
                    finding("ok", SUBJECT, text, "")
                })
            }
            Err(failure) => (wanted(config.sampling.source) != Some(SourceKind::Faults))
                .then(|| finding("missing", SUBJECT, failure.message, &failure.remedy)),
        }
    }

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
mod tests;
