//! The comparison: workloads against everything that places memory or threads, by the ground truth.
//!
//! A run is one workload under one contestant with one seed, a guest of its own. What it gave is
//! kept in the kit, so that a comparison that was stopped goes on where it was.

use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use serde_json::{Map, Value, json};

use crate::guest::{self, Counted, Run, last};
use crate::image::{self, Image, PROGRAMS};
use crate::kit::{self, Kit};
use crate::machine::Machine;
use crate::rivals::{self, Need, RIVALS};
use crate::truth::{Figures, Truth};
use experiment::student::{Spread, spread};

/// What is run, in the order of the tables: name, arguments of numad-workload, and guest seconds
/// that are counted, of which the last quarter is the steady one. The user's own programs come
/// after them.
const WORKLOADS: [(&str, &str, u32); 8] = [
    ("slices", "slices --region-kib 1024", SECONDS),
    ("pairs", "pairs --region-kib 1024", SECONDS),
    ("groups:4", "groups:4 --region-kib 1024", SECONDS),
    // Partners change once, half way.
    (
        "phases",
        "phases --region-kib 1024 --phase-seconds 60",
        2 * SECONDS,
    ),
    ("all-shared", "all-shared --region-kib 4096", SECONDS),
    ("hog", "hog --region-kib 1024", SECONDS),
    ("cached", "pairs --region-kib 16", SECONDS),
    (PLACED, "pairs --region-kib 1024", SECONDS),
];

/// Programs as large as those that people run, where there is much to gain: kind, size of a
/// thread's or a group's memory, and huge pages. `--workloads real` stands for all of them.
const REAL: [&str; 7] = [
    "slices@4M",
    "slices@32M",
    "slices@32M/always",
    "phases@8M",
    "pairs@8M",
    "readers@4M",
    "slices@4M/always",
];

/// The workload that has nothing to gain: it binds its threads to where the oracle would put them.
/// Left free, the kernel's scheduler would move them away.
const PLACED: &str = "placed";

const SECONDS: u32 = 60;

/// Something that is run.
#[derive(Clone, Debug)]
struct Workload {
    name: String,
    command: String,
    /// Guest seconds that are counted.
    seconds: u32,
    kind: Of,
    /// How the kernel is told to deal with huge pages; none to leave it.
    thp: Option<Thp>,
}

/// When private memory lies in huge pages: the kernel's own words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Thp {
    Never,
    Madvise,
    Always,
}

impl Thp {
    const ALL: [Self; 3] = [Self::Never, Self::Madvise, Self::Always];

    /// The one of this word, which stands in that text.
    fn named(word: &str, text: &str) -> Result<Self> {
        let known = Self::ALL.into_iter().find(|thp| thp.word() == word);
        known.with_context(|| format!("`{word}` of `{text}` is none of never, madvise, always"))
    }

    const fn word(self) -> &'static str {
        match self {
            Self::Never => "never",
            Self::Madvise => "madvise",
            Self::Always => "always",
        }
    }
}

impl Workload {
    /// `KIND@SIZE` or `KIND@SIZE/THP`: one of numad-workload's kinds with regions of this size.
    fn sized(text: &str, machine: &Machine) -> Result<Self> {
        let (kind, size) = text.split_once('@').unwrap_or((text, ""));
        let (size, thp) = match size.split_once('/') {
            None => (size, None),
            Some((size, word)) => (size, Some(Thp::named(word, text)?)),
        };
        let threads = machine.nodes * machine.cpus_per_node;
        let mib = size
            .strip_suffix('M')
            .and_then(|number| number.parse::<usize>().ok())
            .filter(|mib| *mib > 0)
            .with_context(|| format!("`{text}` has no size, such as 4M or 32M"))?;
        // What the first thread touches first may lie on one node, and the system needs some, too.
        let room = machine.nodes * machine.node_mib * 2 / 3;
        if mib.saturating_mul(threads) > room {
            bail!(
                "`{text}`: {threads} times {mib} MiB do not fit into the {room} MiB that the guest has for it"
            );
        }
        let (pages, offset) = match thp {
            None => ("small", ""),
            // On no boundary, as real heaps are.
            Some(Thp::Always) => ("any", " --offset-pages 3"),
            Some(Thp::Never) => ("any", ""),
            Some(Thp::Madvise) => ("huge", ""),
        };
        Ok(Self {
            name: text.to_owned(),
            command: format!(
                "numad-workload {kind} --region {size} --pages {pages}{offset} --phase-seconds {} --threads {threads} \
                 --release-rounds 0",
                SECONDS / 2
            ),
            seconds: SECONDS,
            kind: Of::Ours,
            thp,
        })
    }
}

/// The workloads of these names; those of the usual table if there are none.
fn chosen(machine: &Machine, names: &[String]) -> Result<Vec<Workload>> {
    let all = workloads(machine.nodes * machine.cpus_per_node)?;
    if names.is_empty() {
        return Ok(all);
    }
    let mut chosen = Vec::new();
    for name in names {
        if name == "real" {
            for text in REAL {
                chosen.push(Workload::sized(text, machine)?);
            }
        } else if name.contains('@') {
            chosen.push(Workload::sized(name, machine)?);
        } else {
            let (plain, word) = name.split_once('/').unwrap_or((name, ""));
            let known = all.iter().find(|one| one.name == plain).cloned();
            let mut known = known.with_context(|| format!("there is no workload `{name}`"))?;
            if !word.is_empty() {
                known.thp = Some(Thp::named(word, name)?);
            }
            known.name.clone_from(name);
            chosen.push(known);
        }
    }
    Ok(chosen)
}

/// Where our policies' samples come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// Page faults, as on a machine without hardware counters.
    Faults,
    /// The plugin's sampler, as on a machine that has them: one of so many accesses that leave the
    /// processors' caches.
    Sampler(u64),
}

impl FromStr for Source {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "faults" {
            return Ok(Self::Faults);
        }
        let period = text
            .strip_prefix("sampler:")
            .and_then(|period| period.parse().ok());
        let period = period.filter(|period| *period > 0);
        period.map(Self::Sampler).ok_or_else(|| {
            format!("`{text}` is neither `faults` nor `sampler:PERIOD`, a period from 1 on")
        })
    }
}

/// Whose program it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Of {
    /// One of ours, which understand a seed and can place themselves.
    Ours,
    /// One of ours that has placed itself before anybody looks.
    Placed,
    /// One of the user's, of which nobody knows what it would do that placed itself.
    Theirs,
}

/// All workloads on a machine with so many processors.
fn workloads(threads: usize) -> Result<Vec<Workload>> {
    let ours = WORKLOADS.map(|(name, arguments, seconds)| Workload {
        name: name.to_owned(),
        command: format!("numad-workload {arguments} --threads {threads} --release-rounds 0"),
        seconds,
        kind: if name == PLACED { Of::Placed } else { Of::Ours },
        thp: None,
    });
    let own = image::own_programs()?
        .into_iter()
        .map(|(name, _)| Workload {
            command: format!(
                "env OMP_NUM_THREADS={threads} OMP_WAIT_POLICY=passive {PROGRAMS}/'{}'",
                name.replace('\'', "")
            ),
            name,
            seconds: SECONDS,
            kind: Of::Theirs,
            thp: None,
        });
    Ok(ours.into_iter().chain(own).collect())
}

/// Who places: name, what is done before the program starts, in front of its command, and when it
/// runs.
#[derive(Clone, Debug)]
pub(crate) struct Contestant {
    pub(crate) name: String,
    before: String,
    prefix: &'static str,
    /// Whether the program places itself.
    oracle: bool,
    /// Whether it takes part only where somebody names it.
    only_named: bool,
    /// What not every guest has.
    pub(crate) need: Option<Need>,
    after: String,
}

/// Everybody who takes part; `policies` are ours, `all` for every one there is, each once for each
/// of these sources.
pub(crate) fn contestants(policies: &[String], sources: &[Source]) -> Result<Vec<Contestant>> {
    let policies: Vec<&str> = if policies.iter().any(|name| name == "all") {
        let every = policies::registry().iter();
        every.map(|factory| factory.name).collect()
    } else {
        let known = policies.iter().map(|name| Ok(policies::find(name)?.name));
        known
            .collect::<Result<_, String>>()
            .map_err(anyhow::Error::msg)?
    };
    let contestant = |name: &str, before: &str, prefix: &'static str| Contestant {
        name: name.to_owned(),
        before: before.to_owned(),
        prefix,
        oracle: false,
        only_named: false,
        need: None,
        after: String::new(),
    };
    let mut all = vec![
        contestant("nothing", "autonuma 0", ""),
        contestant("autonuma", "autonuma 1", ""),
        contestant("numactl interleave", "autonuma 0", "numactl --interleave=all"),
        Contestant {
            // Told of the program, for by itself it looks at none below 300 MB.
            after: "/opt/distribution/numad -i 2:5 -p $program -D /run; daemon=$(cat /var/run/numad.pid)"
                .to_owned(),
            ..contestant("packaged numad", "autonuma 0", "")
        },
    ];
    all.extend(RIVALS.map(|(name, need, before, after)| Contestant {
        need: Some(need),
        after: after.to_owned(),
        ..contestant(name, before, "")
    }));
    for source in sources {
        all.extend(policies.iter().map(|policy| Contestant {
            after: format!("numadctl attach $program --policy {policy} || fail attach"),
            ..match source {
                Source::Faults => contestant(policy, "autonuma 0\nstart_numad", ""),
                Source::Sampler(period) => contestant(
                    &format!("{policy} sampler:{period}"),
                    &format!("autonuma 0\nfeed {period}\nstart_numad"),
                    "",
                ),
            }
        }));
    }
    // Both at once, which takes its samples from the kernel's own hint faults.
    all.extend(policies.iter().map(|policy| Contestant {
        after: format!("numadctl attach $program --policy {policy} || fail attach"),
        only_named: true,
        ..contestant(&format!("autonuma+{policy}"), "autonuma 1\nstart_numad", "")
    }));
    all.push(Contestant {
        oracle: true,
        ..contestant("oracle", "autonuma 0", "")
    });
    Ok(all)
}

/// Those of these names; without a name everybody who takes part unasked.
pub(crate) fn wanted(all: Vec<Contestant>, names: &[String]) -> Result<Vec<Contestant>> {
    if let Some(name) = names
        .iter()
        .find(|name| all.iter().all(|one| one.name != **name))
    {
        let known: Vec<&str> = all.iter().map(|one| &*one.name).collect();
        bail!("nobody is called `{name}`; there are {}", known.join(", "));
    }
    let takes_part = |one: &Contestant| match names {
        [] => !one.only_named,
        names => names.contains(&one.name),
    };
    Ok(all.into_iter().filter(takes_part).collect())
}

/// What is known of one run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row {
    pub(crate) figures: Figures,
    /// The share of local accesses, second by second.
    pub(crate) locals: Vec<f64>,
    /// Pages that were moved by anyone.
    pub(crate) pages: f64,
    /// Share of the whole machine's time that a placing process took itself.
    pub(crate) overhead: f64,
}

/// All runs of one workload under one contestant.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    pub(crate) workload: String,
    pub(crate) contestant: String,
    pub(crate) rows: Vec<Row>,
    /// Runs that gave nothing.
    pub(crate) failed: usize,
}

impl Cell {
    /// Mean and interval of one figure; no number if every run failed.
    pub(crate) fn spread(&self, of: impl Fn(&Row) -> f64) -> Spread {
        spread(&self.rows.iter().map(of).collect::<Vec<_>>())
    }
}

/// Which runs are wanted.
#[derive(Debug)]
pub(crate) struct Wanted {
    pub(crate) machine: Machine,
    /// Empty for all.
    pub(crate) workloads: Vec<String>,
    pub(crate) contestants: Vec<Contestant>,
    pub(crate) seeds: u32,
    /// Whether runs that are kept are done again.
    pub(crate) fresh: bool,
    /// How long a program runs before anybody looks at it, in guest seconds.
    pub(crate) attach_after: u32,
}

/// Runs what is not kept yet, and gives all cells by workload.
pub(crate) fn compare(kit: &Kit, wanted: &Wanted, say: &mut dyn FnMut(&str)) -> Result<Vec<Cell>> {
    let image = image::of(kit, Image::Usual)?;
    fs::create_dir_all(kit.path("compare"))?;
    let contestants = rivals::present(kit, (&wanted.machine, &image), &wanted.contestants, say)?;
    let mut cells = Vec::new();
    for mut workload in chosen(&wanted.machine, &wanted.workloads)? {
        workload.seconds += wanted.attach_after;
        let workload = &workload;
        let takes_part = |one: &&Contestant| workload.kind == Of::Ours || !one.oracle;
        for contestant in contestants.iter().filter(takes_part) {
            let rows = (1..=wanted.seeds)
                .map(|seed| one_run(kit, wanted, &image, (workload, contestant, seed), say))
                .collect::<Result<Vec<_>>>()?;
            cells.push(Cell {
                workload: workload.name.clone(),
                contestant: contestant.name.clone(),
                failed: rows.iter().filter(|row| row.is_none()).count(),
                rows: rows.into_iter().flatten().collect(),
            });
        }
    }
    Ok(cells)
}

/// What is kept of one run, or else what it gives now; none if it fails, which is said and keeps no
/// other from being run.
fn one_run(
    kit: &Kit,
    wanted: &Wanted,
    image: &Path,
    (workload, contestant, seed): (&Workload, &Contestant, u32),
    say: &mut dyn FnMut(&str),
) -> Result<Option<Row>> {
    let kept = kept(
        &kit.path("compare"),
        &kept_for(wanted.machine.name, kit::other_kernel().as_deref()),
        &match wanted.attach_after {
            0 => workload.name.clone(),
            after => format!("{} after {after}", workload.name),
        },
        &contestant.name,
        seed,
    );
    let name = format!("{} under {}, seed {seed}", workload.name, contestant.name);
    if wanted.fresh || !kept.exists() {
        let script = script(
            contestant,
            workload,
            (seed, wanted.attach_after),
            &wanted.machine,
        );
        let row = match run(kit, wanted, image, (&script, workload.seconds)) {
            Ok(row) => row,
            Err(error) => {
                say(&format!("FAILED  {name}: {error:#}"));
                return Ok(None);
            }
        };
        fs::write(&kept, row.to_json().to_string())?;
        say(&format!(
            "{name}: {:.1} % local, {:.2} ns per instruction",
            100.0 * row.figures.steady_local,
            row.figures.steady_ns
        ));
    }
    Row::from_json(&fs::read_to_string(&kept)?)
        .with_context(|| {
            format!(
                "`{}` is damaged or of an earlier version; remove it, or give --fresh",
                kept.display()
            )
        })
        .map(Some)
}

/// The machine, and the kernel unless it is the usual one, whose runs have the name of the machine
/// alone.
fn kept_for(machine: &str, kernel: Option<&str>) -> String {
    kernel.map_or_else(
        || machine.to_owned(),
        |version| format!("{machine}-{version}"),
    )
}

fn kept(folder: &Path, machine: &str, workload: &str, contestant: &str, seed: u32) -> PathBuf {
    // Figures of another shape are of an earlier version, and are not read.
    let name = format!("3-{machine}-{workload}-{contestant}-{seed}.json");
    folder.join(name.replace([':', ' ', '/'], "_"))
}

fn script(
    contestant: &Contestant,
    workload: &Workload,
    (seed, attach_after): (u32, u32),
    machine: &Machine,
) -> String {
    let mut command = workload.command.clone();
    if workload.kind != Of::Theirs {
        command += &format!(" --seed {seed}");
    }
    if workload.kind == Of::Placed || contestant.oracle {
        command += &format!(" --oracle {}", node_lists(machine));
    }
    // What numad costs is asked of its shipped settings, what it brings of those that suit so slow
    // a machine.
    let settings = match workload.kind {
        Of::Placed => "settings </dev/null",
        Of::Ours | Of::Theirs => "",
    };
    let thp = workload.thp.map_or_else(String::new, |thp| {
        format!(
            "echo {} >/sys/kernel/mm/transparent_hugepage/enabled || fail thp",
            thp.word()
        )
    });
    format!(
        r#". /lib/scenario.sh
daemon=
{thp}
{settings}
{before}
moved() {{ awk '/^pgmigrate_success/{{print $2}}' /proc/vmstat; }}
ticks() {{ [ -z "$daemon" ] && echo 0 || awk '{{print $14 + $15}}' /proc/$daemon/stat; }}
moved_before=$(moved)
LD_PRELOAD=/lib/mark.so {prefix} {command} >/out/workload &
program=$!
began=$(milliseconds)
within 20 grep -q . /out/workload || fail "the workload says nothing"
sleep {attach_after}
{after}
# From its start, or a program that changes by the clock would be at another point of its work under each contestant.
left=$(({seconds} - ($(milliseconds) - began) / 1000))
[ $left -ge 0 ] || fail "to attach took longer than the program was to be counted"
sleep $left
uncount
echo "@pages $(($(moved) - moved_before))"
echo "@ticks $(ticks)"
kill $program 2>/dev/null
exit 0
"#,
        seconds = workload.seconds,
        before = contestant.before,
        prefix = contestant.prefix,
        after = contestant.after,
    )
}

/// The processors of each node, as `numad-workload --oracle` reads them.
pub(crate) fn node_lists(machine: &Machine) -> String {
    let nodes: Vec<String> = (0..machine.nodes)
        .map(|node| {
            let first = node * machine.cpus_per_node;
            format!("{first}-{}", first + machine.cpus_per_node - 1)
        })
        .collect();
    nodes.join("/")
}

fn run(kit: &Kit, wanted: &Wanted, image: &Path, (script, seconds): (&str, u32)) -> Result<Row> {
    let ran = guest::run(
        kit,
        &Run {
            machine: &wanted.machine,
            image,
            script,
            truth: Counted::Windows,
            profile: false,
            limit: Duration::from_secs(600),
        },
    )?;
    if ran.code != Some(0) {
        bail!(
            "the script failed:\n{}\n{}",
            last(&ran.output, 20),
            ran.qemu
        );
    }
    let truth = Truth::parse(ran.truth.as_deref().context("there is no ground truth")?)?;
    let told = |name: &str| -> Result<f64> {
        let line = ran.output.lines().find_map(|line| line.strip_prefix(name));
        let number = line.with_context(|| format!("the script did not tell `{name}`"))?;
        Ok(number.trim().parse()?)
    };
    let cpus = u32::try_from(wanted.machine.nodes * wanted.machine.cpus_per_node)?;
    const TICKS_PER_SECOND: u32 = 100;
    Ok(Row {
        figures: truth.figures(&wanted.machine),
        locals: truth.locals(&wanted.machine),
        pages: told("@pages ")?,
        overhead: told("@ticks ")? / f64::from(TICKS_PER_SECOND * seconds * cpus),
    })
}

impl Row {
    fn to_json(&self) -> Value {
        let mut object = Map::new();
        for name in Figures::NAMES {
            let figure = self.figures.named(name).unwrap_or(f64::NAN);
            object.insert(name.to_owned(), json!(figure));
        }
        object.insert("locals".to_owned(), json!(self.locals));
        object.insert("pages".to_owned(), json!(self.pages));
        object.insert("overhead".to_owned(), json!(self.overhead));
        Value::Object(object)
    }

    fn from_json(text: &str) -> Result<Self> {
        let value: Value = serde_json::from_str(text)?;
        // A figure that is not finite is written as nothing.
        let number = |name: &str| match &value[name] {
            Value::Null => Ok(f64::NAN),
            number => number
                .as_f64()
                .with_context(|| format!("`{name}` is no number")),
        };
        Ok(Self {
            figures: Figures {
                local: number("local")?,
                steady_local: number("steady_local")?,
                imbalance: number("imbalance")?,
                first_ns: number("first_ns")?,
                steady_ns: number("steady_ns")?,
                stall: number("stall")?,
                converged: number("converged")?,
                kernel: number("kernel")?,
                work: number("work")?,
                whole_ns: number("whole_ns")?,
                even_ns: number("even_ns")?,
                others: number("others")?,
                system: number("system")?,
            },
            locals: value["locals"]
                .as_array()
                .context("`locals` is no list")?
                .iter()
                .map(|share| share.as_f64().unwrap_or(f64::NAN))
                .collect(),
            pages: number("pages")?,
            overhead: number("overhead")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_read_as_it_was_written() {
        let row = Row {
            figures: Figures {
                steady_local: 0.25,
                stall: 3.5,
                ..Figures::default()
            },
            locals: vec![0.25, 0.5],
            pages: 12.0,
            overhead: 0.01,
        };
        assert_eq!(Row::from_json(&row.to_json().to_string()).unwrap(), row);
    }

    #[test]
    fn a_program_of_the_users_is_run_as_it_is() {
        let machine = crate::machine::find("ring4").unwrap();
        let own = Workload {
            name: "cg.S.x".to_owned(),
            command: "env OMP_NUM_THREADS=8 /opt/programs/'cg.S.x'".to_owned(),
            seconds: 60,
            kind: Of::Theirs,
            thp: None,
        };
        let all = contestants(&["deloc".to_owned()], &[Source::Faults]).unwrap();
        let text = script(&all[0], &own, (3, 15), &machine);
        assert!(text.contains("\nsleep 15\n"), "{text}");
        assert!(
            text.contains("mark.so  env OMP_NUM_THREADS=8 /opt/programs/'cg.S.x' >/out"),
            "{text}"
        );
        let ours = &workloads(8).unwrap()[0];
        let oracle = script(all.last().unwrap(), ours, (3, 0), &machine);
        assert!(
            oracle.contains("--threads 8 --release-rounds 0 --seed 3 --oracle 0-1/2-3/4-5/6-7 >"),
            "{oracle}"
        );
    }

    #[test]
    fn sizes_are_read_and_what_does_not_fit_is_refused() {
        let machine = crate::machine::find("ring4").unwrap();
        let choose = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            chosen(&machine, &names)
        };
        assert_eq!(choose(&["real"]).unwrap().len(), REAL.len());
        let small = &choose(&["pairs/never"]).unwrap()[0];
        assert_eq!((&*small.name, small.thp), ("pairs/never", Some(Thp::Never)));
        let huge = &choose(&["slices@32M/always"]).unwrap()[0];
        assert!(
            huge.command
                .contains("slices --region 32M --pages any --offset-pages 3"),
            "{}",
            huge.command
        );
        let text = script(&contestants(&[], &[]).unwrap()[1], huge, (1, 0), &machine);
        assert!(
            text.contains("\necho always >/sys/kernel/mm/transparent_hugepage/enabled"),
            "{text}"
        );
        for (name, said) in [
            ("slices@128M", "do not fit"),
            ("slices@0M", "no size"),
            ("slices@4M/sometimes", "never, madvise, always"),
            ("pairs/sometimes", "never, madvise, always"),
            ("slice", "no workload"),
        ] {
            let error = choose(&[name]).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
        assert_eq!("sampler:7".parse(), Ok(Source::Sampler(7)));
        for wrong in ["sampler", "sampler:0", "sampler:x", ""] {
            wrong.parse::<Source>().unwrap_err();
        }
    }

    #[test]
    fn what_has_nothing_to_gain_places_itself() {
        let machine = crate::machine::find("ring4").unwrap();
        let placed = workloads(8).unwrap();
        let placed = placed.iter().find(|one| one.name == PLACED).unwrap();
        let text = script(&contestants(&[], &[]).unwrap()[0], placed, (1, 0), &machine);
        assert!(text.contains("--oracle 0-1/2-3/4-5/6-7"), "{text}");
        assert!(text.contains("\nsettings </dev/null\n"), "{text}");
    }

    #[test]
    fn policies_are_known_and_all_are_all() {
        let error = contestants(&["delok".to_owned()], &[]).unwrap_err();
        assert!(error.to_string().contains("deloc"), "{error}");
        let some = contestants(&[], &[]).unwrap().len();
        let sources = [Source::Faults, Source::Sampler(1_000)];
        let all = contestants(&["all".to_owned()], &sources).unwrap();
        let ours = policies::registry().len();
        assert_eq!(all.len(), some + 3 * ours);
        assert_eq!(wanted(all.clone(), &[]).unwrap().len(), some + 2 * ours);
        let both = ["autonuma".to_owned(), "autonuma+deloc".to_owned()];
        assert_eq!(wanted(all.clone(), &both).unwrap().len(), 2);
        let error = wanted(all, &["both".to_owned()]).unwrap_err();
        assert!(error.to_string().contains("autonuma+deloc"), "{error}");
    }

    #[test]
    fn runs_of_another_kernel_are_kept_apart() {
        assert_eq!(kept_for("ring4", None), "ring4");
        assert_eq!(kept_for("ring4", Some("7.2")), "ring4-7.2");
    }

    #[test]
    fn names_of_contestants_are_unique() {
        let mut names: Vec<String> =
            contestants(&["all".to_owned()], &[Source::Faults, Source::Sampler(7)])
                .unwrap()
                .into_iter()
                .map(|one| one.name)
                .collect();
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
