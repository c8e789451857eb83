//! The comparison: workloads against everything that places memory or threads, by the ground truth.
//!
//! A run is one workload under one contestant with one seed, a guest of its own. What it gave is kept in the
//! kit, so that a comparison that was stopped goes on where it was.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use serde_json::{Map, Value, json};

use crate::guest::{self, Counted, Run, last};
use crate::image::{self, Image, PROGRAMS};
use crate::kit::Kit;
use crate::machine::Machine;
use crate::statistics::{Spread, spread};
use crate::truth::{Figures, Truth};

/// What is run, in the order of the tables: name, arguments of numad-workload, and guest seconds that are counted,
/// of which the last quarter is the steady one. The user's own programs come after them.
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

/// The workload that has nothing to gain: it binds its threads to where the oracle would put them. Left free, the
/// kernel's scheduler would move them away.
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
    });
    let own = image::own_programs()?
        .into_iter()
        .map(|(name, _)| Workload {
            command: format!(
                "env OMP_NUM_THREADS={threads} {PROGRAMS}/'{}'",
                name.replace('\'', "")
            ),
            name,
            seconds: SECONDS,
            kind: Of::Theirs,
        });
    Ok(ours.into_iter().chain(own).collect())
}

/// Who places: name, what is done before the program starts, in front of its command, and when it runs.
#[derive(Clone, Debug)]
pub(crate) struct Contestant {
    pub(crate) name: String,
    before: String,
    prefix: &'static str,
    /// Whether the program places itself.
    oracle: bool,
    after: String,
}

/// Everybody who takes part; `policies` are ours, `all` for every one there is.
pub(crate) fn contestants(policies: &[String]) -> Result<Vec<Contestant>> {
    let policies: Vec<&str> = if policies.iter().any(|name| name == "all") {
        let every = policies::registry().iter();
        every.map(|factory| factory.name()).collect()
    } else {
        let known = policies.iter().map(|name| Ok(policies::find(name)?.name()));
        known.collect::<Result<_>>()?
    };
    let contestant = |name: &str, before: &str, prefix: &'static str| Contestant {
        name: name.to_owned(),
        before: before.to_owned(),
        prefix,
        oracle: false,
        after: String::new(),
    };
    let mut all = vec![
        contestant("nothing", "autonuma 0", ""),
        contestant("autonuma", "autonuma 1", ""),
        contestant("interleave", "autonuma 0", "numactl --interleave=all"),
        Contestant {
            // Told of the program, for by itself it looks at none below 300 MB.
            after: "/opt/distribution/numad -i 2:5 -p $program -D /run; daemon=$(cat /var/run/numad.pid)"
                .to_owned(),
            ..contestant("packaged numad", "autonuma 0", "")
        },
    ];
    all.extend(policies.iter().map(|policy| Contestant {
        after: format!("numadctl attach $program --policy {policy} || fail attach"),
        ..contestant(policy, "autonuma 0\nstart_numad", "")
    }));
    all.push(Contestant {
        oracle: true,
        ..contestant("oracle", "autonuma 0", "")
    });
    Ok(all)
}

/// What is known of one run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Row {
    pub(crate) figures: Figures,
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
}

/// Runs what is not kept yet, and gives all cells by workload.
pub(crate) fn compare(kit: &Kit, wanted: &Wanted, say: &mut dyn FnMut(&str)) -> Result<Vec<Cell>> {
    let image = image::of(kit, Image::Usual)?;
    fs::create_dir_all(kit.path("compare"))?;
    let mut cells = Vec::new();
    let threads = wanted.machine.nodes * wanted.machine.cpus_per_node;
    let mut workloads = workloads(threads)?;
    if let Some(name) = wanted
        .workloads
        .iter()
        .find(|name| workloads.iter().all(|one| one.name != **name))
    {
        bail!("there is no workload `{name}`");
    }
    workloads.retain(|one| wanted.workloads.is_empty() || wanted.workloads.contains(&one.name));
    for workload in &workloads {
        let takes_part = |one: &&Contestant| workload.kind == Of::Ours || !one.oracle;
        for contestant in wanted.contestants.iter().filter(takes_part) {
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

/// What is kept of one run, or else what it gives now; none if it fails, which is said and keeps no other from
/// being run.
fn one_run(
    kit: &Kit,
    wanted: &Wanted,
    image: &Path,
    (workload, contestant, seed): (&Workload, &Contestant, u32),
    say: &mut dyn FnMut(&str),
) -> Result<Option<Row>> {
    let kept = kept(
        &kit.path("compare"),
        wanted.machine.name,
        &workload.name,
        &contestant.name,
        seed,
    );
    let name = format!("{} under {}, seed {seed}", workload.name, contestant.name);
    if wanted.fresh || !kept.exists() {
        let script = script(contestant, workload, seed, &wanted.machine);
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
        .with_context(|| format!("`{}` is damaged; remove it", kept.display()))
        .map(Some)
}

fn kept(folder: &Path, machine: &str, workload: &str, contestant: &str, seed: u32) -> PathBuf {
    let name = format!("{machine}-{workload}-{contestant}-{seed}.json");
    folder.join(name.replace([':', ' ', '/'], "_"))
}

fn script(contestant: &Contestant, workload: &Workload, seed: u32, machine: &Machine) -> String {
    let mut command = workload.command.clone();
    if workload.kind != Of::Theirs {
        command += &format!(" --seed {seed}");
    }
    if workload.kind == Of::Placed || contestant.oracle {
        command += &format!(" --oracle {}", node_lists(machine));
    }
    // What numad costs is asked of its shipped settings, what it brings of those that suit so slow a machine.
    let settings = match workload.kind {
        Of::Placed => "settings </dev/null",
        Of::Ours | Of::Theirs => "",
    };
    format!(
        r#". /lib/scenario.sh
daemon=
{settings}
{before}
moved() {{ awk '/^pgmigrate_success/{{print $2}}' /proc/vmstat; }}
ticks() {{ [ -z "$daemon" ] && echo 0 || awk '{{print $14 + $15}}' /proc/$daemon/stat; }}
moved_before=$(moved)
LD_PRELOAD=/lib/mark.so {prefix} {command} >/out/workload &
program=$!
began=$(milliseconds)
within 20 grep -q . /out/workload || fail "the workload says nothing"
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
        pages: told("@pages ")?,
        overhead: told("@ticks ")? / f64::from(TICKS_PER_SECOND * seconds * cpus),
    })
}

impl Row {
    fn to_json(self) -> Value {
        let mut object = Map::new();
        for name in Figures::NAMES {
            let figure = self.figures.named(name).unwrap_or(f64::NAN);
            object.insert(name.to_owned(), json!(figure));
        }
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
            },
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
        };
        let all = contestants(&["deloc".to_owned()]).unwrap();
        let text = script(&all[0], &own, 3, &machine);
        assert!(
            text.contains("mark.so  env OMP_NUM_THREADS=8 /opt/programs/'cg.S.x' >/out"),
            "{text}"
        );
        let ours = &workloads(8).unwrap()[0];
        let oracle = script(all.last().unwrap(), ours, 3, &machine);
        assert!(
            oracle.contains("--threads 8 --release-rounds 0 --seed 3 --oracle 0-1/2-3/4-5/6-7 >"),
            "{oracle}"
        );
    }

    #[test]
    fn what_has_nothing_to_gain_places_itself() {
        let machine = crate::machine::find("ring4").unwrap();
        let placed = workloads(8).unwrap();
        let placed = placed.iter().find(|one| one.name == PLACED).unwrap();
        let text = script(&contestants(&[]).unwrap()[0], placed, 1, &machine);
        assert!(text.contains("--oracle 0-1/2-3/4-5/6-7"), "{text}");
        assert!(text.contains("\nsettings </dev/null\n"), "{text}");
    }

    #[test]
    fn policies_are_known_and_all_are_all() {
        let error = contestants(&["delok".to_owned()]).unwrap_err();
        assert!(error.to_string().contains("deloc"), "{error}");
        let some = contestants(&[]).unwrap().len();
        let all = contestants(&["all".to_owned()]).unwrap().len();
        assert_eq!(all, some + policies::registry().len());
    }

    #[test]
    fn names_of_contestants_are_unique() {
        let mut names: Vec<String> = contestants(&["all".to_owned()])
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
