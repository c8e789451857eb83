//! The one list of settings.

use numad_core::{PolicyFactory, SettingKind, SettingSpec};

/// A group of settings: one table of the settings file.
#[derive(Clone, Copy, Debug)]
pub struct Section {
    /// Name of the table.
    pub name: &'static str,
    /// One sentence: what its settings are about.
    pub help: &'static str,
    /// Its settings, in the order in which people read them.
    pub entries: &'static [Entry],
}

/// A setting, with what a [`SettingSpec`] cannot say.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Name, type, bounds, default, help.
    pub spec: SettingSpec,
    /// When a change takes effect.
    pub effect: Effect,
    /// What else must hold.
    pub rule: Rule,
}

/// When a changed setting takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effect {
    /// With the reload.
    AtOnce,
    /// For programs attached after the reload.
    NextAttach,
    /// When the daemon starts the next time.
    Restart,
}

impl Effect {
    /// In words, as in "takes effect ...".
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::AtOnce => "at reload",
            Self::NextAttach => "for programs attached after a reload",
            Self::Restart => "at the next start",
        }
    }
}

/// What must hold of a value beyond its type and bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Nothing.
    None,
    /// It is a power of two.
    PowerOfTwo,
    /// It is an absolute path.
    AbsolutePath,
    /// It is an absolute path, or empty.
    PathOrNone,
    /// It is an absolute path short enough for the address of a socket.
    SocketPath,
    /// It is the name of a policy.
    PolicyName,
}

/// Longest path that fits the address of a Unix socket with its closing NUL (`sun_path` has 108 bytes).
const SOCKET_PATH_BYTES_MAX: usize = 107;

impl Rule {
    /// In words, to follow type and bounds; empty when there is nothing to say.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::None => "",
            Self::PowerOfTwo => ", a power of two",
            Self::AbsolutePath => ", an absolute path",
            Self::PathOrNone => ", an absolute path or nothing",
            Self::SocketPath => ", an absolute path of at most 107 bytes",
            Self::PolicyName => ", the name of a policy",
        }
    }

    /// Whether a text value obeys the rule, [`Self::PolicyName`] aside, which needs the registry.
    pub(crate) fn holds_for_text(self, text: &str) -> bool {
        match self {
            Self::None | Self::PowerOfTwo | Self::PolicyName => true,
            Self::AbsolutePath => text.starts_with('/') && !text.contains('\0'),
            Self::PathOrNone => text.is_empty() || Self::AbsolutePath.holds_for_text(text),
            Self::SocketPath => {
                text.starts_with('/') && !text.contains('\0') && text.len() <= SOCKET_PATH_BYTES_MAX
            }
        }
    }

    /// Whether a whole number obeys the rule.
    pub(crate) fn holds_for_integer(self, number: i64) -> bool {
        match self {
            Self::PowerOfTwo => number > 0 && number & (number - 1) == 0,
            Self::None
            | Self::AbsolutePath
            | Self::PathOrNone
            | Self::SocketPath
            | Self::PolicyName => true,
        }
    }
}

/// Name of the table that holds one table for each policy.
pub const POLICY_SECTION: &str = "policy";

/// The policies whose settings may stand in a settings file.
#[must_use]
pub fn policies() -> &'static [&'static PolicyFactory] {
    policies::registry()
}

/// Every section but those of policies.
pub const SECTIONS: &[Section] = &[
    DAEMON, OVERHEAD, SAMPLING, ENGINE, EVIDENCE, ACCESS, LIMITS, EXTERNAL,
];

const DAEMON: Section = Section {
    name: "daemon",
    help: "Where the daemon lives and how much it takes on.",
    entries: &[
        Entry {
            spec: text(
                "socket",
                "/run/numad/numad.sock",
                "Path of the Unix socket on which the daemon answers.",
            ),
            effect: Effect::Restart,
            rule: Rule::SocketPath,
        },
        Entry {
            spec: text(
                "state_dir",
                "/var/lib/numad",
                "Directory of the undo journal; must survive a crash of the daemon.",
            ),
            effect: Effect::Restart,
            rule: Rule::AbsolutePath,
        },
        Entry {
            spec: choice(
                "log_level",
                &["error", "warn", "info", "debug"],
                "info",
                "How much is logged.",
            ),
            effect: Effect::AtOnce,
            rule: Rule::None,
        },
        Entry {
            spec: integer(
                "attachments_max",
                1,
                1024,
                64,
                "Most programs under a policy at a time. Root and the admin group have as many again, which users cannot take.",
            ),
            effect: Effect::AtOnce,
            rule: Rule::None,
        },
        Entry {
            spec: integer(
                "connections_max",
                1,
                1024,
                64,
                "Most connections of users to the socket at a time; more are turned away. Root and the admin group have their own, see `limits.admin_connections_max`.",
            ),
            effect: Effect::AtOnce,
            rule: Rule::None,
        },
        Entry {
            spec: integer(
                "experiments_max",
                1,
                1024,
                16,
                "Most experiments (`numadctl ab`) that run or wait at a time. Root and the admin group have as many again, which users cannot take.",
            ),
            effect: Effect::AtOnce,
            rule: Rule::None,
        },
        Entry {
            spec: integer(
                "kept_max",
                0,
                100_000,
                256,
                "Experiments that are kept in `state_dir` after their end, and as many stories of attachments (`numadctl history`). When there are more, the oldest of the user who has most goes first.",
            ),
            effect: Effect::AtOnce,
            rule: Rule::None,
        },
        Entry {
            spec: integer(
                "kept_mib_max",
                1,
                65_536,
                64,
                "Most that these experiments may take together, and as much the stories, in MiB.",
            ),
            effect: Effect::AtOnce,
            rule: Rule::None,
        },
        Entry {
            spec: SettingSpec {
                name: "allow_global",
                kind: SettingKind::Bool(false),
                help: "Whether numad may change a switch of the whole machine, which concerns all programs on it. \
                       There is one: `kernel.numa_balancing`, see `engine.balancing`. It is put back as it was.",
            },
            effect: Effect::AtOnce,
            rule: Rule::None,
        },
        Entry {
            spec: text(
                "default_policy",
                "auto",
                "The policy of an attach that names none.",
            ),
            effect: Effect::AtOnce,
            rule: Rule::PolicyName,
        },
    ],
};

const LIMITS: Section = Section {
    name: "limits",
    help: "What one user may take of the daemon. None of this holds for root and the admin group, except \
           for `admin_connections_max`.",
    entries: &[
        Entry {
            spec: integer(
                "admin_connections_max",
                1,
                1024,
                32,
                "Connections kept for root and the admin group.",
            ),
            effect: Effect::AtOnce,
            rule: Rule::None,
        },
        Entry {
            spec: integer(
                "user_connections_max",
                1,
                1024,
                16,
                "Most connections of one user at a time, and so most requests in flight; never more than half of `daemon.connections_max`.",
            ),
            effect: Effect::AtOnce,
            rule: Rule::None,
        },
        Entry {
            spec: integer(
                "user_attachments_max",
                1,
                1024,
                16,
                "Most programs of one user under a policy at a time; never more than half of `daemon.attachments_max`.",
            ),
            effect: Effect::AtOnce,
            rule: Rule::None,
        },
        Entry {
            spec: integer(
                "user_threads_max",
                1,
                1_000_000,
                2048,
                "Most threads of all programs that one user attached. A process that exceeds it is refused, or leaves its program and is put back.",
            ),
            effect: Effect::AtOnce,
            rule: Rule::None,
        },
        Entry {
            spec: integer(
                "user_experiments_max",
                1,
                1024,
                4,
                "Most experiments of one user that run or wait at a time; never more than half of `daemon.experiments_max`.",
            ),
            effect: Effect::AtOnce,
            rule: Rule::None,
        },
        Entry {
            spec: integer(
                "user_slice_min_ms",
                10,
                3_600_000,
                1_000,
                "Shortest slice of an experiment of a user, in milliseconds: each ends with an undo.",
            ),
            effect: Effect::AtOnce,
            rule: Rule::None,
        },
        Entry {
            spec: integer(
                "user_experiment_h_max",
                1,
                8_760,
                24,
                "Longest experiment of a user, in hours: others wait for its end.",
            ),
            effect: Effect::AtOnce,
            rule: Rule::None,
        },
        Entry {
            spec: integer(
                "user_requests_per_s",
                1,
                10_000,
                20,
                "Requests of one user in a second; two seconds' worth may come at once. Further ones wait.",
            ),
            effect: Effect::AtOnce,
            rule: Rule::None,
        },
        Entry {
            spec: integer(
                "user_share_percent",
                1,
                100,
                5,
                "Most processor time that requests of one user may take, in percent of one processor. Further requests wait until the time is made up for, at most 10 s.",
            ),
            effect: Effect::AtOnce,
            rule: Rule::None,
        },
    ],
};

const OVERHEAD: Section = Section {
    name: "overhead",
    help: "What all of this may cost the machine.",
    entries: &[
        Entry {
            spec: float(
                "budget_percent",
                0.01,
                50.0,
                1.0,
                "Most of the processor time of the whole machine, in percent, that numad and its samples may take, without what clients ask for; samples get rarer and windows wait until it is kept. `sampling.clear_budget_percent` is a limit of its own for one part of it.",
            ),
            effect: Effect::AtOnce,
            rule: Rule::None,
        },
        Entry {
            spec: integer(
                "move_pause_max_ms",
                1,
                1_000,
                5,
                "The pause budget of moves: how long calls that move pages may hold up a program, in milliseconds. Calls are \
                 sized to take a fifth of it in processor time, and never hold fewer than 8 pages; several go on side by \
                 side where that moves more.",
            ),
            effect: Effect::Restart,
            rule: Rule::None,
        },
    ],
};

const SAMPLING: Section = Section {
    name: "sampling",
    help: "How it is learned which thread uses which memory.",
    entries: &[
        Entry {
            spec: choice(
                "source",
                &["auto", "pebs", "ibs", "spe", "faults", "feed"],
                "auto",
                "Where samples come from: `pebs`, `ibs` and `spe` are sampled by processors of Intel, AMD and Arm, `faults` are page faults, `feed` is what another program writes to `sampling.feed`; `auto` takes the best that this machine itself has.",
            ),
            effect: Effect::Restart,
            rule: Rule::None,
        },
        Entry {
            spec: text(
                "feed",
                "/run/numad/feed",
                "Path of the FIFO or Unix socket that the source `feed` reads, in the format of recordings; only root or the daemon's own user may be able to write there.",
            ),
            effect: Effect::Restart,
            rule: Rule::SocketPath,
        },
        Entry {
            spec: choice(
                "provoke",
                &["auto", "soft-dirty", "off"],
                "auto",
                "What makes a program fault on memory it already has, so that the source `faults` sees it; `auto` uses soft-dirty bits where the kernel has them.",
            ),
            effect: Effect::Restart,
            rule: Rule::None,
        },
        Entry {
            spec: integer(
                "ring_pages",
                1,
                4096,
                64,
                "Pages of the ring buffer of each processor to begin with; it grows up to 16 times when it stays half full.",
            ),
            effect: Effect::Restart,
            rule: Rule::PowerOfTwo,
        },
        Entry {
            spec: integer(
                "period",
                0,
                1_000_000_000,
                0,
                "Events for each sample, whatever it costs: page faults, slow loads, or operations, by source; 0 lets it follow `overhead.budget_percent`.",
            ),
            effect: Effect::Restart,
            rule: Rule::None,
        },
        Entry {
            spec: integer(
                "load_latency_min",
                3,
                65_535,
                30,
                "Loads that take fewer cycles than this are not sampled by the source `pebs`.",
            ),
            effect: Effect::Restart,
            rule: Rule::None,
        },
        Entry {
            spec: choice(
                "physical_addresses",
                &["auto", "off"],
                "auto",
                "Whether samples of the sources `pebs`, `ibs` and `spe` carry physical addresses, by which memory that processes share is seen to be one; `auto` where the kernel permits it.",
            ),
            effect: Effect::Restart,
            rule: Rule::None,
        },
        Entry {
            spec: float(
                "clear_budget_percent",
                0.0,
                100.0,
                0.5,
                "Most of the time of one processor, in percent, that clearing soft-dirty bits and the page faults after it may take.",
            ),
            effect: Effect::Restart,
            rule: Rule::None,
        },
        Entry {
            spec: integer(
                "clear_interval_min_ms",
                100,
                3_600_000,
                100,
                "Least time between two clearings of soft-dirty bits of a program, in milliseconds; while it is not known what they cost it is a second or more.",
            ),
            effect: Effect::Restart,
            rule: Rule::None,
        },
        Entry {
            spec: integer(
                "clear_pause_max_ms",
                1,
                1_000,
                5,
                "A process whose soft-dirty bits would take longer than this to clear, in milliseconds, is not cleared.",
            ),
            effect: Effect::Restart,
            rule: Rule::None,
        },
        Entry {
            spec: choice(
                "counters",
                &["auto", "off", "feed"],
                "auto",
                "Whether processor time, instructions, cycles and the bandwidth of memory are counted beside the samples; `auto` counts what this machine has, `off` leaves all counters to others, `feed` takes instructions and cycles from `sampling.counters_feed`.",
            ),
            effect: Effect::Restart,
            rule: Rule::None,
        },
        Entry {
            spec: text(
                "counters_feed",
                "/run/numad/counters",
                "Path of the file in which another program tells instructions and cycles, one line `process PID instructions NUMBER cycles NUMBER` for each process, 256 KiB at most; only root or the daemon's own user may be able to write there.",
            ),
            effect: Effect::Restart,
            rule: Rule::AbsolutePath,
        },
    ],
};

const ENGINE: Section = Section {
    name: "engine",
    help: "What is done around every policy: how often it is asked, and what of its wishes is granted.",
    entries: &[
        per_program(choice(
            "interval",
            &["calm", "ondeloc", "lapt"],
            "calm",
            "How windows get longer while nothing changes and shorter when something does: `calm` makes them a sixteenth of the \
             time since something changed, or more while samples are too few, `ondeloc` multiplies and divides by `interval_factor`, `lapt` adds 50 ms and halves. A window that tells nothing goes on, up to eight times as long.",
        )),
        per_program(integer(
            "interval_min_ms",
            50,
            60_000,
            125,
            "Shortest window, in milliseconds.",
        )),
        per_program(integer(
            "interval_max_ms",
            50,
            600_000,
            8_000,
            "Longest window, in milliseconds; at least `interval_min_ms`. One that tells nothing may last eight times as long, unless both are the same.",
        )),
        per_program(float(
            "interval_factor",
            1.05,
            16.0,
            2.0,
            "Factor of the interval law `ondeloc`.",
        )),
        per_program(integer(
            "busy_min_percent",
            0,
            100,
            5,
            "A thread that used less of one processor in a window than this, in percent, takes no part; where there are more threads than cores, nor do the least busy that together used less than five times this.",
        )),
        per_program(integer(
            "samples_min",
            0,
            1_000_000,
            32,
            "A window with fewer samples of a program decides nothing about it.",
        )),
        per_program(integer(
            "task_moves_max",
            1,
            100_000,
            1_024,
            "Most threads of a program that are moved in one window.",
        )),
        per_program(integer(
            "page_moves_max",
            0,
            16_777_216,
            1_048_576,
            "Most pages of a program that are moved in one window. Fewer go where moving them would take longer than the \
             window took. What is left goes on in the next window, as long as it is still right.",
        )),
        per_program(integer(
            "horizon_s",
            1,
            10_000_000,
            5,
            "How long a program that was just attached is expected to go on as it does, in seconds, if it has not run for \
             longer: what moves cost must be earned back in that time. Later it is expected to go on for as long as it has \
             already, or as it did what it did before, the last of that counting most.",
        )),
        per_program(integer(
            "move_mib_per_s",
            1,
            1_000_000,
            16_384,
            "Most memory of a program that is moved in a second, in MiB. `overhead.move_pause_max_ms` bounds how long one call \
             holds the program up.",
        )),
        per_program(integer(
            "hold_ms",
            0,
            3_600_000,
            125,
            "How long a moved thread or page stays before it may move again, in milliseconds; doubles with each return.",
        )),
        per_program(integer(
            "headroom_percent",
            0,
            50,
            5,
            "Share of the memory of a node, in percent, that page moves leave free.",
        )),
        per_program(choice(
            "bind",
            &["node", "cache", "core"],
            "cache",
            "Where a placed thread may run: on all processors of its node; on those of one last-level cache, where the node \
             has several and the thread shares memory with others there; or on one core.",
        )),
        per_program(choice(
            "method",
            &["ours", "published"],
            "ours",
            "Whose rules hold: `ours` are those of the engine; `published` takes a policy's method as its paper has it, with the \
             paper's interval, and refuses only what is impossible, forbidden or beyond `task_moves_max`, `page_moves_max` and \
             `headroom_percent`. `numadctl policies show NAME` says what differs.",
        )),
        per_program(choice(
            "resolution",
            &["block", "page"],
            "block",
            "Whether memory is judged by blocks that are used alike, pages that were never sampled included, or by single \
             pages, as the papers do.",
        )),
        Entry {
            spec: choice(
                "balancing",
                &["leave", "cooperate"],
                "leave",
                "What becomes of the kernel's own balancing (`kernel.numa_balancing`): `leave` never touches it, `cooperate` \
                 switches it on while a program is under a policy, and back afterwards. Needs `daemon.allow_global`. Root may \
                 say otherwise for one program, by `attach --set engine.balancing=...`.",
            ),
            effect: Effect::AtOnce,
            rule: Rule::None,
        },
        per_program(SettingSpec {
            name: "move_threads",
            kind: SettingKind::Bool(true),
            help: "Whether threads are moved.",
        }),
        per_program(SettingSpec {
            name: "move_pages",
            kind: SettingKind::Bool(true),
            help: "Whether pages are moved.",
        }),
        Entry {
            spec: integer(
                "page_slots",
                1_024,
                4_194_304,
                65_536,
                "Pages of each program that are tracked; the least used are forgotten first.",
            ),
            effect: Effect::Restart,
            rule: Rule::PowerOfTwo,
        },
        Entry {
            spec: integer(
                "tasks_max",
                2,
                4_096,
                1_024,
                "Most threads of a program that take part; the busiest do.",
            ),
            effect: Effect::Restart,
            rule: Rule::None,
        },
    ],
};

const EVIDENCE: Section = Section {
    name: "evidence",
    help: "How sure a move must be. Not asked of policies that are chosen for what they do and not for a gain, such as `scatter`.",
    entries: &[
        per_program(float(
            "confidence_min",
            0.5,
            0.999,
            0.9,
            "Least confidence, by its samples, that a move brings nearer what belongs together; what could be chance is not done. At 0.9 a page needs two samples that agree, at 0.8 one.",
        )),
        per_program(integer(
            "lost_max_percent",
            0,
            100,
            10,
            "A window in which more than this share of the samples was lost, in percent, decides nothing and is joined to the next.",
        )),
    ],
};

const ACCESS: Section = Section {
    name: "access",
    help: "Who may do what; the kernel says who is asking.",
    entries: &[
        Entry {
            spec: choice(
                "users",
                &["own", "none"],
                "own",
                "What users other than root and members of the admin group may do: see and attach their `own` processes, or nothing.",
            ),
            effect: Effect::AtOnce,
            rule: Rule::None,
        },
        Entry {
            spec: text(
                "admin_group",
                "numad",
                "Group whose members may do all that root may; empty for no such group.",
            ),
            effect: Effect::AtOnce,
            rule: Rule::None,
        },
    ],
};

const EXTERNAL: Section = Section {
    name: "external",
    help: "Policies that are programs of their own, as in `--policy exec:/usr/libexec/numad/affine`. Off by default.",
    entries: &[
        Entry {
            spec: text(
                "programs",
                "",
                "Directory of the programs that may be policies; empty for none. Nobody but root may be able to change it or what lies in it.",
            ),
            effect: Effect::NextAttach,
            rule: Rule::PathOrNone,
        },
        per_program(text(
            "user",
            "numad-policy",
            "User that they run as: one that owns nothing and runs nothing else.",
        )),
        per_program(integer(
            "answer_ms",
            1,
            60_000,
            1_000,
            "Most time that one may take to answer, in milliseconds. The daemon never waits for an answer: a window without one has no proposals.",
        )),
        per_program(integer(
            "memory_mib",
            16,
            65_536,
            256,
            "Most memory (address space) of one, in MiB.",
        )),
    ],
};

/// A setting that is copied into each attachment when it is made.
const fn per_program(spec: SettingSpec) -> Entry {
    Entry {
        spec,
        effect: Effect::NextAttach,
        rule: Rule::None,
    }
}

const fn text(name: &'static str, default: &'static str, help: &'static str) -> SettingSpec {
    SettingSpec {
        name,
        kind: SettingKind::Text(default),
        help,
    }
}

const fn choice(
    name: &'static str,
    of: &'static [&'static str],
    default: &'static str,
    help: &'static str,
) -> SettingSpec {
    SettingSpec {
        name,
        kind: SettingKind::Choice(of, default),
        help,
    }
}

const fn integer(
    name: &'static str,
    min: i64,
    max: i64,
    default: i64,
    help: &'static str,
) -> SettingSpec {
    SettingSpec {
        name,
        kind: SettingKind::Integer((min, max), default),
        help,
    }
}

const fn float(
    name: &'static str,
    min: f64,
    max: f64,
    default: f64,
    help: &'static str,
) -> SettingSpec {
    SettingSpec {
        name,
        kind: SettingKind::Float((min, max), default),
        help,
    }
}
