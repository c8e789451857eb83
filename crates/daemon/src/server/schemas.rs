//! The rows of `control::rows`, described. A test holds each against a row turned into JSON.

use super::schema::Schema;

pub(super) const SCHEMAS: &[Schema] = &[
    Schema {
        name: "ErrorBody",
        fields: &[("error", "Failure", "What failed.")],
    },
    Schema {
        name: "Failure",
        fields: &[
            (
                "kind",
                "string",
                "What kind; decides the exit code of numadctl.",
            ),
            (
                "message",
                "string",
                "What failed, with the object in back-ticks.",
            ),
            ("remedy", "string?", "What to do now."),
        ],
    },
    Schema {
        name: "AttachRequest",
        fields: &[
            ("target", "Target", "Which program."),
            (
                "policy",
                "string?",
                "Name of the policy; the default of the settings when absent.",
            ),
            ("set", "{string}?", "Settings of the policy, as text."),
            ("dry_run", "bool?", "Decide and tell, but change nothing."),
            (
                "for_ms",
                "integer?",
                "Detach after so many milliseconds by itself.",
            ),
        ],
    },
    Schema {
        name: "Target",
        fields: &[
            (
                "pids",
                "[integer]?",
                "These processes. Exactly one of the five is given.",
            ),
            (
                "cgroup",
                "string?",
                "Every process of this control group and below.",
            ),
            ("unit", "string?", "Every process of this systemd unit."),
            ("command", "string?", "Every process of this name."),
            ("job", "string?", "Every rank of this MPI job."),
        ],
    },
    Schema {
        name: "Attachment",
        fields: &[
            ("id", "integer", "Its number."),
            ("pids", "[integer]", "Its processes."),
            ("command", "string", "Name of its first process."),
            ("uid", "integer", "User that owns it."),
            ("policy", "string", "Name of its policy."),
            ("dry_run", "bool", "Whether nothing is changed."),
            ("attached_s", "number", "Seconds since it was attached."),
            ("source", "string", "Where its samples come from."),
            ("windows", "integer", "Windows judged so far."),
            ("window_ms", "integer", "Length of the present window."),
            ("threads", "integer", "Threads alive."),
            ("tasks", "integer", "Threads that take part in mapping."),
            ("samples", "integer", "Samples so far."),
            ("samples_window", "integer", "Samples in the last window."),
            (
                "lost",
                "integer",
                "Samples lost so far, on the whole machine.",
            ),
            ("pages", "integer", "Pages tracked."),
            ("evidence", "Evidence", "How sure the last window was."),
            ("ledger", "Ledger", "What was done to it."),
            ("moving", "Moving?", "How far a move of many windows is."),
            (
                "distance",
                "number?",
                "Mean distance of communication; 10 is all local.",
            ),
            (
                "local_share",
                "number?",
                "Share of tracked accesses that are local, 0 to 1.",
            ),
            ("counts", "Counts?", "What is counted of it."),
            ("external", "External?", "How its external policy does."),
            ("ranks", "[RankRow]?", "Its ranks of MPI jobs."),
            (
                "in_vain",
                "string?",
                "Why its policy cannot do here what it is for.",
            ),
            ("kernel", "KernelMoves?", "What the kernel moves beside."),
            (
                "unseen_share",
                "number?",
                "Share of its memory of which nothing is known because only writes are seen, 0 to 1.",
            ),
        ],
    },
    Schema {
        name: "KernelMoves",
        fields: &[
            ("machine_pages", "integer?", "Pages of all programs."),
            ("pages_elsewhere", "integer", "Pages that numad had put."),
            ("left", "integer", "Proposals left to it."),
        ],
    },
    Schema {
        name: "RankRow",
        fields: &[
            ("job", "string", "The job, as its launcher names it."),
            ("rank", "integer", "The number in MPI_COMM_WORLD."),
            ("size", "integer?", "How many ranks that has."),
            ("pid", "integer", "The process."),
            ("launcher", "string", "Whose variables say so."),
        ],
    },
    Schema {
        name: "External",
        fields: &[
            ("state", "string", "What it is doing."),
            ("asked", "integer", "Windows that it was asked about."),
            ("answered", "integer", "Windows that it answered in time."),
            (
                "passed_over",
                "integer",
                "Windows it was not asked about, because it was busy or did not run.",
            ),
            ("crashes", "integer", "How often it ended or did not start."),
            ("garbage", "integer", "Lines that were no answer."),
            (
                "silences",
                "integer",
                "How often it did not answer in time.",
            ),
            ("starts", "integer", "How often it was started."),
            ("last_fault", "string?", "What went wrong last."),
        ],
    },
    Schema {
        name: "Counts",
        fields: &[
            (
                "ipc",
                "number?",
                "Instructions per cycle in the last window.",
            ),
            ("cpu_s", "number?", "Processor time since it was attached."),
            ("instructions", "integer?", "Instructions since then."),
            ("cycles", "integer?", "Cycles since then."),
            ("faults", "integer?", "Page faults since then."),
            ("switches", "integer?", "Context switches since then."),
            (
                "coverage",
                "number",
                "Share of the last window that counters ran, 0 to 1.",
            ),
            ("absent", "[string]?", "What is not counted, and why."),
        ],
    },
    Schema {
        name: "MemoryRow",
        fields: &[
            (
                "nodes",
                "[integer]",
                "The nodes; several when they are not told apart.",
            ),
            ("read", "number?", "Bytes read per second."),
            ("written", "number?", "Bytes written per second."),
            (
                "both",
                "number?",
                "Bytes per second where reads are not told from writes.",
            ),
            (
                "read_wait_clocks",
                "number?",
                "Clocks that a read waits in the controller's queue.",
            ),
            ("write_wait_clocks", "number?", "The same for writes."),
        ],
    },
    Schema {
        name: "LinkRow",
        fields: &[
            ("package", "integer", "Who sends."),
            ("link", "string", "Over which link."),
            ("sent", "number", "Bytes per second."),
        ],
    },
    Schema {
        name: "PowerRow",
        fields: &[
            ("package", "integer", "The package."),
            ("domain", "string", "`package` or `memory`."),
            ("watts", "number", "Joules per second."),
        ],
    },
    Schema {
        name: "Evidence",
        fields: &[
            ("samples", "integer", "Samples that the window rests on."),
            (
                "samples_per_task",
                "number",
                "For each thread that takes part.",
            ),
            ("samples_per_page", "number", "For each page tracked."),
            (
                "lost_share",
                "number",
                "Share of samples that was lost at most, 0 to 1.",
            ),
            (
                "coverage",
                "number",
                "Share of the processor time that is of threads that were sampled, 0 to 1.",
            ),
            (
                "confidence_min",
                "number",
                "Least confidence that a move needs.",
            ),
            ("confident", "bool", "Whether it was enough to decide by."),
        ],
    },
    Schema {
        name: "Ledger",
        fields: &[
            ("threads_bound", "integer", "Threads bound by us now."),
            (
                "thread_moves",
                "integer",
                "Times a thread was given another affinity.",
            ),
            ("pages_moved", "integer", "Pages moved."),
            ("bytes_moved", "integer", "Bytes moved."),
            (
                "pages_refused",
                "integer",
                "Pages that the kernel refused to move.",
            ),
            (
                "spent_ns",
                "integer",
                "Nanoseconds of processor time in system calls that moved pages.",
            ),
            (
                "pause_max_ns",
                "integer",
                "The longest that one of them took.",
            ),
        ],
    },
    Schema {
        name: "Moving",
        fields: &[
            ("bytes_moved", "integer", "Bytes moved so far."),
            ("bytes_left", "integer", "Bytes left for the next window."),
            ("seconds_left", "number?", "Seconds that they will take."),
        ],
    },
    Schema {
        name: "AttachmentDetail",
        fields: &[
            ("attachment", "Attachment", "The program."),
            (
                "threads",
                "[ThreadRow]",
                "Its threads, by ascending number.",
            ),
            ("settings", "{string}", "Policy settings in force."),
        ],
    },
    Schema {
        name: "ThreadRow",
        fields: &[
            ("pid", "integer", "Its process."),
            ("tid", "integer", "Its number."),
            ("name", "string", "Its name."),
            ("cpu", "integer", "The processor it ran on last."),
            ("node", "integer?", "The node of that processor."),
            ("placed", "integer?", "The node we placed it on."),
            ("takes_part", "bool", "Whether it takes part in mapping."),
            (
                "busy",
                "number",
                "Share of one processor used or waited for.",
            ),
            ("samples", "integer", "Samples in the last window."),
        ],
    },
    Schema {
        name: "Matrix",
        fields: &[
            ("window", "string", "`live` or `decayed`."),
            ("tids", "[integer]", "Threads, by position."),
            (
                "nodes",
                "[integer|null]",
                "Node each thread is on, where known.",
            ),
            (
                "ranks",
                "[integer|null]?",
                "The MPI rank each thread is of.",
            ),
            ("rows", "[[integer]]", "One row per thread."),
            ("samples", "integer", "Samples that stand behind it."),
            ("support", "[[integer]]", "Samples behind each cell."),
            ("confidence", "number", "Confidence of the bounds."),
            (
                "partners",
                "[Partner]",
                "With whom each thread shares most.",
            ),
        ],
    },
    Schema {
        name: "Partner",
        fields: &[
            ("tid", "integer", "The thread."),
            ("with", "integer", "The one it shares most with."),
            ("samples", "integer", "Samples that show the two sharing."),
            (
                "share",
                "number",
                "Their share of all that show the thread sharing, 0 to 1.",
            ),
            ("low", "number", "Lower bound of the true share."),
            ("high", "number", "Upper bound."),
            ("sure", "bool", "Whether it is more than chance would show."),
        ],
    },
    Schema {
        name: "EventRow",
        fields: &[
            ("at_s", "number", "Seconds since the program was attached."),
            ("kind", "string", "Kind in one word."),
            ("tid", "integer?", "Thread it is about."),
            ("text", "string", "One sentence for people."),
        ],
    },
    Schema {
        name: "RecordRequest",
        fields: &[
            (
                "target",
                "Target",
                "Which program. It may be attached as well.",
            ),
            (
                "for_ms",
                "integer?",
                "For how many milliseconds; until the program ends or someone says so, when absent.",
            ),
        ],
    },
    Schema {
        name: "RecordingRow",
        fields: &[
            ("id", "integer", "Its number."),
            ("uid", "integer", "User that asked for it."),
            ("pids", "[integer]", "Processes recorded now."),
            ("recorded_s", "number", "Seconds since it began."),
            ("samples", "integer", "Samples in it."),
            (
                "lost",
                "integer",
                "Samples that are not in it: lost on the way, or read too slowly.",
            ),
        ],
    },
    Schema {
        name: "PolicyRow",
        fields: &[
            ("name", "string", "Its name."),
            ("summary", "string", "One sentence."),
            ("settings", "[SettingRow]", "Its settings."),
        ],
    },
    Schema {
        name: "SettingRow",
        fields: &[
            ("name", "string", "Its name."),
            ("expects", "string", "Type and bounds in words."),
            ("value", "string", "Its value in force."),
            ("default", "string", "Its default."),
            ("help", "string", "One sentence."),
        ],
    },
    Schema {
        name: "UndoRequest",
        fields: &[
            (
                "pid",
                "integer?",
                "Everything of this process; this or `all` must be there.",
            ),
            ("all", "bool?", "Everything of everyone, where it is true."),
        ],
    },
    Schema {
        name: "JournalReport",
        fields: &[
            ("directory", "string", "Directory that it is kept in."),
            (
                "processes",
                "[JournalRow]",
                "By process, ascending; of users who are no admins those that are theirs and live.",
            ),
            (
                "shared",
                "[JournalMemory]?",
                "By memory that processes share; for admins alone.",
            ),
            (
                "switches",
                "[string]?",
                "Switches of the whole machine, one sentence each.",
            ),
            ("damaged", "integer", "Lines that are damaged."),
            (
                "stale",
                "bool",
                "Whether it is of an earlier boot: all that it could undo ended with that.",
            ),
        ],
    },
    Schema {
        name: "JournalRow",
        fields: &[
            ("pid", "integer", "Its number."),
            (
                "start",
                "integer",
                "When it began, in clock ticks since the machine started; 0 if not known.",
            ),
            (
                "command",
                "string?",
                "Its name; absent when it has ended or cannot be looked at.",
            ),
            ("threads", "integer", "Threads that got a mask."),
            (
                "parked",
                "integer",
                "Those of them that have no mask for now, because their cpuset has none of their own.",
            ),
            (
                "masks",
                "[JournalMask]",
                "What they had and what they got, most threads first.",
            ),
            ("pages", "integer", "Private pages that were moved."),
            (
                "since_s",
                "number?",
                "Seconds since the first of its threads got a mask.",
            ),
        ],
    },
    Schema {
        name: "JournalMask",
        fields: &[
            (
                "had",
                "string?",
                "What they had; absent where they had no mask of their own.",
            ),
            (
                "got",
                "string?",
                "What they got last; absent where they have none for now.",
            ),
            ("threads", "integer", "How many."),
        ],
    },
    Schema {
        name: "JournalMemory",
        fields: &[
            (
                "memory",
                "string",
                "Its kind, device and inode, as in `memory 0:1 2066`.",
            ),
            ("pages", "integer", "Pages of it that were moved."),
        ],
    },
    Schema {
        name: "UndoReport",
        fields: &[
            (
                "threads_restored",
                "integer",
                "Threads that have their earlier affinity again.",
            ),
            ("threads_gone", "integer", "Threads that were gone."),
            (
                "threads_left",
                "integer",
                "Threads that someone else changed since.",
            ),
            (
                "threads_parked",
                "integer",
                "Threads whose cpuset has none of their own processors now; they get their affinity back when it has.",
            ),
            (
                "pages_restored",
                "integer",
                "Pages that are where they were.",
            ),
            ("pages_gone", "integer", "Pages that are gone."),
            (
                "pages_left",
                "integer",
                "Pages of shared memory that no process has in use now; they are put back by a later undo.",
            ),
            ("failed", "[string]", "What could not be undone."),
        ],
    },
    Schema {
        name: "Arm",
        fields: &[
            ("name", "string", "What it is called; no two arms alike."),
            (
                "policy",
                "string?",
                "The policy; absent when numad is not to touch the program.",
            ),
            ("set", "{string}?", "Its settings, as text."),
        ],
    },
    Schema {
        name: "ExperimentRequest",
        fields: &[
            ("target", "Target", "Which program."),
            (
                "arms",
                "[Arm]",
                "Policies to compare; the first is the control.",
            ),
            (
                "metrics",
                "[string]",
                "Metrics as on the command line; the first is the primary one.",
            ),
            ("blocks", "integer", "Slices under each policy."),
            ("seed", "integer", "What the order follows from."),
            (
                "margin",
                "number",
                "Effects below this share are called the same.",
            ),
            (
                "looks",
                "bool",
                "Whether it may end as soon as it is decided.",
            ),
            ("slice_ms", "integer?", "Length of a slice."),
            (
                "time_constant_ms",
                "integer?",
                "How long a switch takes to be two thirds done; a pilot measures it when absent.",
            ),
            (
                "max_harm",
                "number",
                "A slice that is worse than usual under the control by this share ends early.",
            ),
            (
                "attended",
                "bool?",
                "Whether the caller stays, to give the numbers that commands print.",
            ),
        ],
    },
    Schema {
        name: "ExperimentRow",
        fields: &[
            ("id", "integer", "Its number."),
            ("uid", "integer", "Who asked for it."),
            (
                "state",
                "string",
                "`waiting`, `pilot`, `running` or `over`.",
            ),
            ("behind", "integer?", "The experiment that it waits for."),
            ("subject", "[string]", "How the program was named."),
            ("arms", "[string]", "Names of the policies."),
            ("metric", "string", "The primary metric."),
            ("slices", "integer", "Slices done."),
            ("planned", "integer", "Slices planned."),
            ("last_arm", "string?", "The policy of the last slice."),
            (
                "last_value",
                "number?",
                "What the primary metric was in it.",
            ),
            (
                "left_s",
                "number?",
                "Seconds that the rest takes, as far as one can tell; not when it is over.",
            ),
            ("ending", "string", "How it ended; `running` before."),
            ("why", "string?", "One sentence on why."),
            ("turn", "integer", "Grows with all that happens to it."),
            (
                "asks",
                "bool",
                "Whether it waits for the numbers that commands print.",
            ),
        ],
    },
    Schema {
        name: "StoryRow",
        fields: &[
            ("format", "integer", "Version of the format, 1."),
            ("id", "integer", "Its number."),
            ("uid", "integer", "Who attached it; 0 for admins."),
            ("command", "string", "Name of its first process."),
            ("policy", "string", "Name of its policy."),
            ("dry_run", "bool", "Whether nothing was changed."),
            (
                "ended_unix_s",
                "integer",
                "When it ended, in seconds since 1970.",
            ),
            ("lasted_s", "number", "How long it was attached."),
            ("samples", "integer", "Samples taken."),
            (
                "thread_moves",
                "integer",
                "Times a thread was given another affinity.",
            ),
            ("pages_moved", "integer", "Pages moved."),
            (
                "local_before",
                "number?",
                "Share of accesses that were local in the first window that tells.",
            ),
            ("local_after", "number?", "The same in the last one."),
        ],
    },
    Schema {
        name: "ReadingRequest",
        fields: &[
            ("turn", "integer", "The turn in which they were asked for."),
            (
                "values",
                "[number|null]",
                "In the order of the metrics; null for those that the daemon reads.",
            ),
            (
                "failed",
                "string?",
                "Why there is none; ends the experiment.",
            ),
        ],
    },
    Schema {
        name: "ReloadReport",
        fields: &[
            (
                "changed",
                "[string]",
                "Settings that have another value now.",
            ),
            (
                "at_restart",
                "[string]",
                "Changed settings that take effect at the next start.",
            ),
        ],
    },
    Schema {
        name: "Finding",
        fields: &[
            ("level", "string", "`ok`, `limited` or `missing`."),
            ("subject", "string", "What it is about."),
            ("text", "string", "What was found."),
            ("remedy", "string?", "What to do about it."),
        ],
    },
    Schema {
        name: "ConfigText",
        fields: &[
            ("files", "[string]", "Files they were read from, in order."),
            ("text", "string", "All of them, as a settings file."),
            ("settings", "{string}", "All of them by full name, as text."),
        ],
    },
    Schema {
        name: "Status",
        fields: &[
            ("version", "string", "Its version."),
            ("pid", "integer", "Its process."),
            ("up_s", "number", "Seconds since it began to serve."),
            ("machine", "string", "The machine in one line."),
            ("nodes", "integer", "Number of memory nodes."),
            (
                "source",
                "string",
                "Where samples come from and what provokes them.",
            ),
            (
                "source_notes",
                "[string]",
                "Why the source is not better than it is.",
            ),
            (
                "sample_period",
                "integer",
                "Events for each sample now; 0 while nothing is attached.",
            ),
            (
                "budget_percent",
                "number",
                "Share of the machine's processor time that all of this may take.",
            ),
            (
                "used_percent",
                "number?",
                "Share that it took in the last 30 s.",
            ),
            ("cpu_s", "number", "Processor time the daemon used so far."),
            ("resident_bytes", "integer", "Its resident memory."),
            (
                "journal_open",
                "integer",
                "Rows in the journal that are not undone.",
            ),
            (
                "attachments",
                "[Attachment]",
                "Attached programs that the caller may see.",
            ),
            ("rivals", "[string]", "Others that place threads or memory."),
            ("memory", "[MemoryRow]?", "What memory carries."),
            ("links", "[LinkRow]?", "What links carry."),
            ("power", "[PowerRow]?", "What packages take."),
        ],
    },
];
