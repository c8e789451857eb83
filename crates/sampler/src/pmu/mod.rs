//! What the kernel offers to measure with: the event sources below
//! `sys/bus/event_source/devices`, as checked values.
//!
//! [`Pmus::read`] takes any directory that looks like a root. It never fails: a source that cannot be
//! read or understood is left out or taken in part, and a note says so. [`Pmu::encode`] turns an event
//! as perf writes it between the slashes (`mem-loads,ldlat=30`) into the words of an event's
//! attribute; [`Pmu::role`] says what a source measures.

mod event;
mod files;
mod format;
mod role;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use topology::CpuSet;

pub use event::{DESCRIPTION_BYTES_MAX, DescriptionError, EventConfig, Problem, encode_text};
pub use format::{Format, FormatError, WORDS};
pub use role::{CoreKind, Role};

pub(crate) use files::shown;

use files::{Directory, Found};

/// Where event sources are described, below the root.
const DEVICES: &str = "sys/bus/event_source/devices";

/// The most sources that are read. An eight-socket machine has about 600.
pub const PMUS_MAX: usize = 4096;
/// The most formats, aliases or capabilities of one source that are read. The largest known source,
/// `hv_24x7` of Power, has about 3,000 aliases.
pub const ENTRIES_MAX: usize = 8192;
/// The most notes that are kept.
const NOTES_MAX: usize = 64;

/// The event sources of a machine, by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pmus {
    pmus: BTreeMap<String, Pmu>,
    notes: Vec<PmuNote>,
}

/// Something that could not be read or understood, and was left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PmuNote {
    /// The file or directory.
    pub path: PathBuf,
    /// What is wrong with it.
    pub text: String,
}

impl fmt::Display for PmuNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is left out: {}", self.path.display(), self.text)
    }
}

/// One event source: the kernel calls it a performance monitoring unit.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pmu {
    /// Its name, such as `cpu` or `uncore_imc_0`.
    pub name: String,
    /// What stands in an event's `type`.
    pub kind: u32,
    /// The terms of its events, and where each goes. Those that go to words beyond `config3` are left
    /// out.
    pub formats: BTreeMap<String, Format>,
    /// Events that have names.
    pub aliases: BTreeMap<String, Alias>,
    /// What it can do, as the kernel says it; the values are texts.
    pub caps: BTreeMap<String, String>,
    /// The processors on which its events must be opened: for a core those that it is made of, for a
    /// source beside the cores one of each package or node. None where any processor will do.
    pub cpus: Option<CpuSet>,
}

/// An event that has a name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Alias {
    /// Its terms, such as `event=0xcd,umask=0x1,ldlat=3`.
    pub terms: String,
    /// What a count is to be multiplied by.
    pub scale: Option<f64>,
    /// What it then is in, such as `MiB` or `Joules`.
    pub unit: Option<String>,
}

impl Pmus {
    /// Reads the event sources below `root` (`/` for this machine). Reads at most [`PMUS_MAX`] sources;
    /// a machine without the directory has none.
    #[must_use]
    pub fn read(root: &Path) -> Self {
        let mut notes = Notes::default();
        let devices = Directory::new(root.join(DEVICES));
        let mut pmus = BTreeMap::new();
        for name in devices.names(PMUS_MAX, &mut notes) {
            if let Some(pmu) = Pmu::read(&devices.below(&name), name, &mut notes) {
                pmus.insert(pmu.name.clone(), pmu);
            }
        }
        Self {
            pmus,
            notes: notes.kept,
        }
    }

    /// The source of this name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&Pmu> {
        self.pmus.get(name)
    }

    /// All sources, by name.
    pub fn iter(&self) -> impl Iterator<Item = &Pmu> {
        self.pmus.values()
    }

    /// Sources of one role, by name.
    pub fn of(&self, role: Role) -> impl Iterator<Item = &Pmu> {
        self.iter().filter(move |pmu| pmu.role() == role)
    }

    /// What could not be read or understood; the first 64.
    #[must_use]
    pub fn notes(&self) -> &[PmuNote] {
        &self.notes
    }
}

impl FromIterator<Pmu> for Pmus {
    /// Of two sources of one name the later stays.
    fn from_iter<I: IntoIterator<Item = Pmu>>(pmus: I) -> Self {
        let named = pmus.into_iter().map(|pmu| (pmu.name.clone(), pmu));
        Self {
            pmus: named.collect(),
            notes: Vec::new(),
        }
    }
}

impl Pmu {
    /// None if it has no `type` that is a number: then no event of it can be opened.
    fn read(directory: &Directory, name: String, notes: &mut Notes) -> Option<Self> {
        let kind = match directory.text("type", notes)? {
            Found::Text(text) => match text.parse() {
                Ok(kind) => kind,
                Err(_) => {
                    notes.add(
                        directory.path("type"),
                        format!("`{}` is not a number", shown(&text)),
                    );
                    return None;
                }
            },
            Found::Absent => {
                // A driver that went meanwhile took its directory along, which is routine.
                if directory.is_there() {
                    notes.add(directory.path("type"), "it is not there".to_owned());
                }
                return None;
            }
        };
        Some(Self {
            kind,
            formats: formats(&directory.below("format"), notes),
            aliases: aliases(&directory.below("events"), notes),
            caps: directory.below("caps").texts(ENTRIES_MAX, notes),
            cpus: cpus(directory, notes),
            name,
        })
    }

    /// Whether its events have this term.
    #[must_use]
    pub fn has_term(&self, name: &str) -> bool {
        self.formats.contains_key(name)
    }

    /// A capability that is a number; none if it is not there or no number.
    #[must_use]
    pub fn cap(&self, name: &str) -> Option<u64> {
        let text = self.caps.get(name)?;
        match text.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).ok(),
            None => text.parse().ok(),
        }
    }
}

fn formats(directory: &Directory, notes: &mut Notes) -> BTreeMap<String, Format> {
    let mut formats = BTreeMap::new();
    for (name, text) in directory.texts(ENTRIES_MAX, notes) {
        match Format::parse(&text) {
            Ok(format) => {
                formats.insert(name, format);
            }
            // Nothing is damaged: newer kernels have more words than we set.
            Err(error) if error.is_beyond() => {}
            Err(error) => notes.add(directory.path(&name), error.to_string()),
        }
    }
    formats
}

fn aliases(directory: &Directory, notes: &mut Notes) -> BTreeMap<String, Alias> {
    /// Endings of the files beside an alias. Aliases themselves may have dots in their names.
    const BESIDE: [&str; 4] = [".scale", ".unit", ".per-pkg", ".snapshot"];
    let mut texts = directory.texts(ENTRIES_MAX, notes);
    let names: Vec<String> = texts
        .keys()
        .filter(|name| !BESIDE.iter().any(|ending| name.ends_with(ending)))
        .cloned()
        .collect();
    let mut aliases = BTreeMap::new();
    for name in names {
        let terms = texts.remove(&name).unwrap_or_default();
        let scale_name = format!("{name}.scale");
        let scale = texts.remove(&scale_name).and_then(|text| {
            let scale = text.parse().ok().filter(|scale: &f64| scale.is_finite());
            if scale.is_none() {
                notes.add(
                    directory.path(&scale_name),
                    format!("`{}` is not a number", shown(&text)),
                );
            }
            scale
        });
        let unit = texts.remove(&format!("{name}.unit"));
        aliases.insert(name, Alias { terms, scale, unit });
    }
    aliases
}

fn cpus(directory: &Directory, notes: &mut Notes) -> Option<CpuSet> {
    ["cpus", "cpumask"].iter().find_map(|name| {
        let Found::Text(text) = directory.text(name, notes)? else {
            return None;
        };
        match CpuSet::parse_list(&text) {
            Ok(cpus) => Some(cpus),
            Err(error) => {
                notes.add(directory.path(name), error.to_string());
                None
            }
        }
    })
}

/// Collects notes, and stops when there are too many.
#[derive(Debug, Default)]
struct Notes {
    kept: Vec<PmuNote>,
}

impl Notes {
    fn add(&mut self, path: PathBuf, text: String) {
        if self.kept.len() < NOTES_MAX {
            self.kept.push(PmuNote { path, text });
        }
    }
}
