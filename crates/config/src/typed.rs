//! Settings as the daemon uses them: checked, typed, in one value that does not change.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use numad_core::cost::Prices;
use numad_core::{
    AttachOptions, Bind, Certainty, EngineOptions, IntervalLaw, Method, PolicyFactory, SettingSpec,
    SettingValue, Settings, SettingsError,
};

use crate::differ::Difference;
use crate::schema::{self, Effect, POLICY_SECTION, SECTIONS};

/// Events the engine keeps until the daemon polls them. It polls after every step, so this only
/// has to hold what one window of 1,024 tasks and 4,096 page moves can say.
const EVENTS_MAX: usize = 16_384;

/// LAPT's first window, brought within the bounds that are set.
const LAPT_START: Duration = Duration::from_millis(300);

/// All settings. Every one is within its bounds, so no reader checks again.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Where the daemon lives and how much it takes on.
    pub daemon: Daemon,
    /// What all of it may cost.
    pub overhead: Overhead,
    /// How samples are taken.
    pub sampling: Sampling,
    /// What is done around every policy.
    pub engine: Engine,
    /// How sure a move must be.
    pub evidence: Evidence,
    /// Who may do what.
    pub access: Access,
    /// What one user may take of the daemon.
    pub limits: Limits,
    /// Policies that are programs of their own.
    pub external: External,
    /// Settings of each policy, by its name.
    policies: BTreeMap<&'static str, Settings>,
    values: Values,
}

/// Section `daemon`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Daemon {
    /// Path of the socket; absolute, short enough for an address.
    pub socket: PathBuf,
    /// Directory of the journal; absolute.
    pub state_dir: PathBuf,
    /// How much is logged.
    pub log_level: LogLevel,
    /// Most programs attached at a time, at least 1.
    pub attachments_max: usize,
    /// Most connections at a time, at least 1.
    pub connections_max: usize,
    /// Most experiments that run or wait at a time, at least 1.
    pub experiments_max: usize,
    /// Files of experiments that are kept after their end.
    pub kept_max: usize,
    /// Most bytes of them.
    pub kept_bytes_max: u64,
    /// Whether switches of the whole machine may be changed.
    pub allow_global: bool,
    /// Name of a policy that is in the registry.
    pub default_policy: String,
}

/// How much is logged; each includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// An operator must act.
    Error,
    /// Something is worse than it should be.
    Warn,
    /// Rare changes of state.
    Info,
    /// Everything.
    Debug,
}

/// Section `overhead`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Overhead {
    /// Share of the machine's processor time, 0.0001 to 0.5.
    pub budget: f64,
    /// Longest time that a call that moves pages may take, 1 to 1,000 ms.
    pub move_pause_max: Duration,
}

/// Section `sampling`.
#[derive(Clone, Debug, PartialEq)]
pub struct Sampling {
    /// Where samples come from.
    pub source: SourceChoice,
    /// Where the source `feed` reads.
    pub feed: PathBuf,
    /// What provokes faults.
    pub provoke: Provoke,
    /// Pages of each processor's ring, a power of two.
    pub ring_pages: usize,
    /// Events for each sample; 0 to follow the budget.
    pub period: u64,
    /// Loads of fewer cycles are not sampled.
    pub load_latency_min: u32,
    /// Whether physical addresses are asked for.
    pub physical_addresses: bool,
    /// Share of one processor that clearing may take, with the faults after it, 0 to 1.
    pub clear_budget: f64,
    /// Least time between two clearings of one program.
    pub clear_interval_min: Duration,
    /// Longest that one clearing may hold a process.
    pub clear_pause_max: Duration,
    /// Whether anything is counted beside the samples.
    pub counters: bool,
    /// Whether another program counts instructions and cycles.
    pub counters_fed: bool,
    /// The file in which it tells them.
    pub counters_feed: PathBuf,
}

/// Where samples come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceChoice {
    /// The best that is there.
    Auto,
    /// Loads and stores sampled by Intel's processors.
    Pebs,
    /// Operations sampled by AMD's processors.
    Ibs,
    /// Loads and stores sampled by Arm's processors.
    Spe,
    /// Page faults.
    Faults,
    /// What another program samples.
    Feed,
}

/// What provokes faults on memory that is already mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Provoke {
    /// Soft-dirty clearing where the kernel has it, else nothing.
    Auto,
    /// Soft-dirty clearing; it is an error when the kernel lacks it.
    SoftDirty,
    /// Nothing: only faults that happen anyway are seen.
    Off,
}

/// Section `engine`.
#[derive(Clone, Debug, PartialEq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a setting of its own"
)]
pub struct Engine {
    /// How the length of windows follows what happens.
    pub interval: IntervalKind,
    /// Shortest window.
    pub interval_min: Duration,
    /// Longest window, not below the shortest.
    pub interval_max: Duration,
    /// Factor of the law `ondeloc`, above 1.
    pub interval_factor: f64,
    /// Share of one processor below which a thread takes no part, 0 to 1.
    pub busy_min: f64,
    /// Samples below which a window decides nothing.
    pub samples_min: u64,
    /// Thread moves per window and program.
    pub task_moves_max: usize,
    /// Page moves per window and program.
    pub page_moves_max: usize,
    /// How long a program is expected to go on as it does, at least.
    pub horizon: Duration,
    /// Bytes of a program that may be moved in a second.
    pub move_bytes_per_s: u64,
    /// How long what was moved stays.
    pub hold: Duration,
    /// Share of a node's memory that stays free, 0 to 0.5.
    pub headroom: f64,
    /// How narrow the masks of placed threads are.
    pub bind: Bind,
    /// Policies, or the methods of their papers.
    pub method: Method,
    /// Decide about memory by blocks, else by single pages.
    pub by_blocks: bool,
    /// Have the kernel balance while a program is under a policy.
    pub cooperate: bool,
    /// Move threads.
    pub move_threads: bool,
    /// Move pages.
    pub move_pages: bool,
    /// Slots of each program's page table, a power of two.
    pub page_slots: usize,
    /// Most tasks of a program that take part.
    pub tasks_max: usize,
}

/// Which law windows follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IntervalKind {
    /// A part of the time since something changed.
    Calm,
    /// Multiplies and divides.
    OnDeLoc,
    /// Adds and halves.
    Lapt,
}

/// Section `evidence`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Evidence {
    /// Least confidence of a move, 0.5 to 0.999.
    pub confidence_min: f64,
    /// Share of samples that may be lost, 0 to 1.
    pub lost_max: f64,
}

/// Section `access`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// What others than root and the admin group may do.
    pub users: Users,
    /// Group whose members may do all; none when there is no such group.
    pub admin_group: Option<String>,
}

/// Section `limits`. All are at least 1, and hold for one user at a time but for the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections of all admins together.
    pub admin_connections_max: usize,
    /// Connections.
    pub user_connections_max: usize,
    /// Attached programs.
    pub user_attachments_max: usize,
    /// Threads of all attached programs.
    pub user_threads_max: usize,
    /// Experiments that run or wait.
    pub user_experiments_max: usize,
    /// Shortest slice of an experiment, in milliseconds.
    pub user_slice_min_ms: u64,
    /// Longest experiment, in hours.
    pub user_experiment_h_max: u64,
    /// Requests in a second.
    pub user_requests_per_s: u32,
    /// Processor time of requests, in percent of one processor.
    pub user_share_percent: u32,
}

/// Section `external`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct External {
    /// Where the programs lie; none where there may be none.
    pub programs: Option<PathBuf>,
    /// Name of the user they run as.
    pub user: String,
    /// How long an answer may take.
    pub answer: Duration,
    /// Most memory of one.
    pub memory_bytes: u64,
}

/// What users without special rights may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Users {
    /// See and attach their own processes.
    Own,
    /// Nothing.
    None,
}

/// Sections of which an attach may say otherwise for its program.
const OF_ONE_PROGRAM: [&str; 2] = ["engine", "evidence"];

/// The settings of a section that an attach may give.
fn specs_of_one_program(section: &str) -> Vec<SettingSpec> {
    let mut sections = SECTIONS.iter();
    let section =
        sections.find(|known| known.name == section && OF_ONE_PROGRAM.contains(&known.name));
    let entries = section.map_or(&[][..], |section| section.entries);
    let mine = entries
        .iter()
        .filter(|entry| entry.effect == Effect::NextAttach);
    mine.map(|entry| entry.spec).collect()
}

/// Why a setting is none that an attach may give, and what to write where it is one of a policy.
fn not_of_one_program(full: &str) -> String {
    let bare = full
        .strip_prefix(POLICY_SECTION)
        .and_then(|rest| rest.strip_prefix('.'))
        .unwrap_or(full);
    let meant = bare.split_once('.').filter(|(policy, name)| {
        let mut policies = schema::policies().iter();
        let policy = policies.find(|known| known.name == *policy);
        policy.is_some_and(|policy| policy.settings.iter().any(|spec| spec.name == *name))
    });
    match meant {
        Some((policy, name)) => format!("is one of policy `{policy}`; write `{name}`"),
        None => "cannot be set for one program; most of `engine.` and `evidence.` can, and settings of its policy by \
                 their short names"
            .to_owned(),
    }
}

impl Default for Config {
    /// Every setting at its default.
    fn default() -> Self {
        Self::from_values(Values::defaults(schema::policies()), schema::policies())
    }
}

impl Config {
    /// The settings of a policy; none when there is no such policy.
    #[must_use]
    pub fn policy(&self, name: &str) -> Option<&Settings> {
        self.policies.get(name)
    }

    /// Limits of the engine, for pages of this size.
    #[must_use]
    pub const fn engine_options(&self, page_bytes: u64) -> EngineOptions {
        EngineOptions {
            page_slots: self.engine.page_slots,
            page_bytes,
            tasks_max: self.engine.tasks_max,
            events_max: EVENTS_MAX,
        }
    }

    /// What the engine does around the policy of a program attached now.
    #[must_use]
    pub fn attach_options(&self) -> AttachOptions {
        options_of(&self.engine, &self.evidence)
    }

    /// The same with settings for this program alone: those by full name, such as `engine.hold_ms`, that hold from the
    /// next attach on.
    ///
    /// # Errors
    /// Names the first that is not known, not one of these, or has no such value.
    pub fn attach_options_with<'a>(
        &self,
        given: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<AttachOptions, SettingsError> {
        let mut values = self.values.clone();
        for (full, text) in given {
            let value = self.value_for_one_program(full, text)?;
            values.0.insert(full.to_owned(), value);
        }
        let engine = engine(&values);
        if engine.interval_min > engine.interval_max {
            let reason = "must not be below `engine.interval_min_ms`";
            return Err(SettingsError::new("engine.interval_max_ms", reason));
        }
        Ok(options_of(&engine, &evidence(&values)))
    }

    /// The value of one of these settings.
    ///
    /// # Errors
    /// When it is not known, not one of these, or has no such value.
    pub fn value_for_one_program(
        &self,
        full: &str,
        text: &str,
    ) -> Result<SettingValue, SettingsError> {
        let (section, name) = full.split_once('.').unwrap_or_default();
        let specs = specs_of_one_program(section);
        let others = specs.iter().all(|spec| spec.name != name) && self.value(full).is_some();
        if specs.is_empty() || others {
            return Err(SettingsError::new(full, not_of_one_program(full)));
        }
        let whole = |error: SettingsError| SettingsError::new(full, error.reason);
        let spec = numad_core::setting::find(&specs, name).map_err(whole)?;
        spec.parse(text).map_err(whole)
    }

    /// The same with another socket, and another state directory, as a command line may name them.
    #[must_use]
    pub fn placed(self, socket: Option<&Path>, state_dir: Option<&Path>) -> Self {
        let mut values = self.values;
        for (name, path) in [("daemon.socket", socket), ("daemon.state_dir", state_dir)] {
            if let Some(path) = path {
                let text = path.to_string_lossy().into_owned();
                values.0.insert(name.to_owned(), SettingValue::Text(text));
            }
        }
        let mut config = Self::from_values(values, schema::policies());
        // Not every path is a text.
        if let Some(socket) = socket {
            config.daemon.socket = socket.to_owned();
        }
        if let Some(state_dir) = state_dir {
            config.daemon.state_dir = state_dir.to_owned();
        }
        config
    }

    /// These settings, but for those that take effect at the next start: they are as in `running`.
    #[must_use]
    pub fn beside(mut self, running: &Self) -> Self {
        let waits = |difference: &Difference| difference.effect == Effect::Restart;
        for waiting in Self::differences(running, &self).into_iter().filter(waits) {
            if let Some(old) = waiting.old {
                self.values.0.insert(waiting.name, old);
            }
        }
        let Daemon {
            socket, state_dir, ..
        } = &running.daemon;
        self.placed(Some(socket), Some(state_dir))
    }

    /// Every setting by full name, as in `engine.hold_ms` and `policy.deloc.strict`.
    pub fn values(&self) -> impl Iterator<Item = (&str, &SettingValue)> {
        self.values
            .0
            .iter()
            .map(|(name, value)| (name.as_str(), value))
    }

    /// The same as text.
    #[must_use]
    pub fn in_words(&self) -> BTreeMap<String, String> {
        let words = |(name, value): (&str, &SettingValue)| (name.to_owned(), value.to_string());
        self.values().map(words).collect()
    }

    /// The value of a setting by full name.
    #[must_use]
    pub fn value(&self, full_name: &str) -> Option<&SettingValue> {
        self.values.0.get(full_name)
    }

    /// `values` must hold every setting of the schema and of these policies, checked.
    pub(crate) fn from_values(values: Values, policies: &[&'static PolicyFactory]) -> Self {
        Self {
            daemon: daemon(&values),
            overhead: Overhead {
                budget: values.float("overhead.budget_percent") / 100.0,
                move_pause_max: values.duration("overhead.move_pause_max_ms"),
            },
            sampling: sampling(&values),
            engine: engine(&values),
            evidence: evidence(&values),
            access: access(&values),
            limits: limits(&values),
            external: external(&values),
            policies: policies
                .iter()
                .map(|policy| (policy.name, values.of_policy(policy)))
                .collect(),
            values,
        }
    }
}

/// What these sections say of one program.
fn options_of(engine: &Engine, evidence: &Evidence) -> AttachOptions {
    let (min, max) = (engine.interval_min, engine.interval_max);
    AttachOptions {
        interval: match engine.interval {
            IntervalKind::Calm => IntervalLaw::Calm { min, max },
            IntervalKind::OnDeLoc => IntervalLaw::OnDeLoc {
                min,
                max,
                factor: engine.interval_factor,
            },
            IntervalKind::Lapt => IntervalLaw::Lapt {
                start: LAPT_START.clamp(min, max),
                min,
                max,
            },
        },
        busy_min: engine.busy_min,
        samples_min: engine.samples_min,
        certainty: Certainty::of(evidence.confidence_min),
        lost_max: evidence.lost_max,
        page_moves_max: engine.page_moves_max,
        move_bytes_per_s: engine.move_bytes_per_s,
        prices: Prices {
            horizon_ns: engine.horizon.as_secs_f64() * 1e9,
            ..Prices::default()
        },
        task_moves_max: engine.task_moves_max,
        hold: engine.hold,
        headroom: engine.headroom,
        bind: engine.bind,
        method: engine.method,
        by_blocks: engine.by_blocks,
        move_threads: engine.move_threads,
        move_pages: engine.move_pages,
        ..AttachOptions::default()
    }
}

fn daemon(values: &Values) -> Daemon {
    Daemon {
        socket: values.text("daemon.socket").into(),
        state_dir: values.text("daemon.state_dir").into(),
        log_level: match values.text("daemon.log_level") {
            "error" => LogLevel::Error,
            "warn" => LogLevel::Warn,
            "debug" => LogLevel::Debug,
            _info => LogLevel::Info,
        },
        attachments_max: values.number("daemon.attachments_max"),
        connections_max: values.number("daemon.connections_max"),
        experiments_max: values.number("daemon.experiments_max"),
        kept_max: values.number("daemon.kept_max"),
        kept_bytes_max: values.number::<u64>("daemon.kept_mib_max") << 20,
        allow_global: values.bool("daemon.allow_global"),
        default_policy: values.text("daemon.default_policy").to_owned(),
    }
}

fn sampling(values: &Values) -> Sampling {
    Sampling {
        source: match values.text("sampling.source") {
            "pebs" => SourceChoice::Pebs,
            "ibs" => SourceChoice::Ibs,
            "spe" => SourceChoice::Spe,
            "faults" => SourceChoice::Faults,
            "feed" => SourceChoice::Feed,
            _auto => SourceChoice::Auto,
        },
        feed: values.text("sampling.feed").into(),
        provoke: match values.text("sampling.provoke") {
            "soft-dirty" => Provoke::SoftDirty,
            "off" => Provoke::Off,
            _auto => Provoke::Auto,
        },
        ring_pages: values.number("sampling.ring_pages"),
        period: values.number("sampling.period"),
        load_latency_min: values.number("sampling.load_latency_min"),
        physical_addresses: values.text("sampling.physical_addresses") == "auto",
        clear_budget: values.float("sampling.clear_budget_percent") / 100.0,
        clear_interval_min: values.duration("sampling.clear_interval_min_ms"),
        clear_pause_max: values.duration("sampling.clear_pause_max_ms"),
        counters: values.text("sampling.counters") != "off",
        counters_fed: values.text("sampling.counters") == "feed",
        counters_feed: values.text("sampling.counters_feed").into(),
    }
}

fn engine(values: &Values) -> Engine {
    Engine {
        interval: match values.text("engine.interval") {
            "lapt" => IntervalKind::Lapt,
            "ondeloc" => IntervalKind::OnDeLoc,
            _calm => IntervalKind::Calm,
        },
        interval_min: values.duration("engine.interval_min_ms"),
        interval_max: values.duration("engine.interval_max_ms"),
        interval_factor: values.float("engine.interval_factor"),
        busy_min: values.percent("engine.busy_min_percent"),
        samples_min: values.number("engine.samples_min"),
        task_moves_max: values.number("engine.task_moves_max"),
        page_moves_max: values.number("engine.page_moves_max"),
        horizon: Duration::from_secs(values.number("engine.horizon_s")),
        move_bytes_per_s: values.number::<u64>("engine.move_mib_per_s") << 20,
        hold: values.duration("engine.hold_ms"),
        headroom: values.percent("engine.headroom_percent"),
        bind: match values.text("engine.bind") {
            "node" => Bind::Node,
            "core" => Bind::Core,
            _ => Bind::Cache,
        },
        method: match values.text("engine.method") {
            "published" => Method::Published,
            _ => Method::Ours,
        },
        by_blocks: values.text("engine.resolution") == "block",
        cooperate: values.text("engine.balancing") == "cooperate",
        move_threads: values.bool("engine.move_threads"),
        move_pages: values.bool("engine.move_pages"),
        page_slots: values.number("engine.page_slots"),
        tasks_max: values.number("engine.tasks_max"),
    }
}

fn evidence(values: &Values) -> Evidence {
    Evidence {
        confidence_min: values.float("evidence.confidence_min"),
        lost_max: values.percent("evidence.lost_max_percent"),
    }
}

fn access(values: &Values) -> Access {
    let group = values.text("access.admin_group");
    Access {
        users: match values.text("access.users") {
            "none" => Users::None,
            _own => Users::Own,
        },
        admin_group: (!group.is_empty()).then(|| group.to_owned()),
    }
}

fn limits(values: &Values) -> Limits {
    Limits {
        admin_connections_max: values.number("limits.admin_connections_max"),
        user_connections_max: values.number("limits.user_connections_max"),
        user_attachments_max: values.number("limits.user_attachments_max"),
        user_threads_max: values.number("limits.user_threads_max"),
        user_experiments_max: values.number("limits.user_experiments_max"),
        user_slice_min_ms: values.number("limits.user_slice_min_ms"),
        user_experiment_h_max: values.number("limits.user_experiment_h_max"),
        user_requests_per_s: values.number("limits.user_requests_per_s"),
        user_share_percent: values.number("limits.user_share_percent"),
    }
}

fn external(values: &Values) -> External {
    let programs = values.text("external.programs");
    External {
        programs: (!programs.is_empty()).then(|| programs.into()),
        user: values.text("external.user").to_owned(),
        answer: values.duration("external.answer_ms"),
        memory_bytes: values.number::<u64>("external.memory_mib") << 20,
    }
}

/// Values by full name.
///
/// The readers panic when a setting is absent or of another type: values come from the schema, so
/// that is a mistake of ours, and the test `every_setting_is_read` would find it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Values(pub(crate) BTreeMap<String, SettingValue>);

impl Values {
    pub(crate) fn defaults(policies: &[&'static PolicyFactory]) -> Self {
        let fixed = SECTIONS.iter().flat_map(|section| {
            section.entries.iter().map(move |entry| {
                (
                    full_name(section.name, &entry.spec),
                    entry.spec.default_value(),
                )
            })
        });
        let of_policies = policies.iter().flat_map(|policy| {
            policy
                .settings
                .iter()
                .map(move |spec| (policy_setting(policy.name, spec), spec.default_value()))
        });
        Self(fixed.chain(of_policies).collect())
    }

    fn of_policy(&self, policy: &PolicyFactory) -> Settings {
        let given = policy.settings.iter().filter_map(|spec| {
            let value = self.0.get(&policy_setting(policy.name, spec))?;
            Some((spec.name.to_owned(), value.clone()))
        });
        Settings::with(policy.settings, given).expect("values were checked one by one")
    }

    fn text(&self, name: &str) -> &str {
        match self.0.get(name) {
            Some(SettingValue::Text(text)) => text,
            other => panic!("setting `{name}` is not a text but {other:?}"),
        }
    }

    fn bool(&self, name: &str) -> bool {
        match self.0.get(name) {
            Some(SettingValue::Bool(value)) => *value,
            other => panic!("setting `{name}` is not a bool but {other:?}"),
        }
    }

    fn float(&self, name: &str) -> f64 {
        match self.0.get(name) {
            Some(SettingValue::Float(value)) => *value,
            other => panic!("setting `{name}` is not a number but {other:?}"),
        }
    }

    fn number<T: TryFrom<i64>>(&self, name: &str) -> T {
        match self.0.get(name) {
            Some(SettingValue::Integer(value)) => T::try_from(*value)
                .unwrap_or_else(|_too_large| panic!("setting `{name}` is out of its bounds")),
            other => panic!("setting `{name}` is not a whole number but {other:?}"),
        }
    }

    fn percent(&self, name: &str) -> f64 {
        f64::from(self.number::<u32>(name)) / 100.0
    }

    fn duration(&self, name: &str) -> Duration {
        Duration::from_millis(self.number(name))
    }
}

pub(crate) fn full_name(section: &str, spec: &SettingSpec) -> String {
    format!("{section}.{}", spec.name)
}

pub(crate) fn policy_setting(policy: &str, spec: &SettingSpec) -> String {
    format!("{POLICY_SECTION}.{policy}.{}", spec.name)
}
