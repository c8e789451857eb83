//! How true samples are: what the daemon knows of a program's threads and pages, beside what the ground truth
//! counted of the same seconds.
//!
//! The workload places its own threads and memory as well as can be done (`--oracle`), and the daemon only looks on
//! (policy `none`): who uses which page, and on which node, is the same from first to last, so that what differs is
//! the samples' doing.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use numad_core::Record;
use sampler::recording::{self, Entry};
use serde_json::{Value, json};

use crate::compare;
use crate::guest::{self, Counted, Run, last};
use crate::held::{Held, hold, homes};
use crate::image::{self, Image};
use crate::kit::Kit;
use crate::machine::Machine;

/// Where samples come from, and how many.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source {
    name: &'static str,
    /// The kernel's own balancing, and the least and most time between two of its looks, in milliseconds.
    hints: Option<(u32, u32)>,
    /// The settings that make it so.
    settings: &'static str,
    /// Accesses for each sample of the sampler that stands in for hardware's; none for the kernel's sources.
    period: Option<u64>,
    /// Whether they go into a file as they come. The daemon would take more of so slow a machine than one processor.
    direct: bool,
}

/// Guest seconds that are counted.
const SECONDS: u32 = 20;

const fn fed(name: &'static str, period: u64, direct: bool) -> Source {
    Source {
        name,
        hints: None,
        settings: "",
        period: Some(period),
        direct,
    }
}

/// Rates of the two sources that a machine without hardware counters has, and of one that has them. Budgets are those
/// of a machine that is a hundred times slower.
const SOURCES: [Source; 10] = [
    fed("sampler, 1 of 300, to a file", 300, true),
    fed("sampler, 1 of 5,000", 5_000, false),
    fed("sampler, 1 of 50,000", 50_000, false),
    Source {
        name: "soft-dirty, every 0.5 s",
        hints: None,
        settings: "clear_budget_percent = 100\nclear_pause_max_ms = 500\nclear_interval_min_ms = 500",
        period: None,
        direct: false,
    },
    Source {
        name: "soft-dirty, every 2 s",
        hints: None,
        settings: "clear_budget_percent = 100\nclear_pause_max_ms = 500\nclear_interval_min_ms = 2000",
        period: None,
        direct: false,
    },
    Source {
        name: "soft-dirty, every 8 s",
        hints: None,
        settings: "clear_budget_percent = 100\nclear_pause_max_ms = 500\nclear_interval_min_ms = 8000",
        period: None,
        direct: false,
    },
    Source {
        name: "soft-dirty, every 0.5 s, 1 of 16",
        hints: None,
        settings: "clear_budget_percent = 100\nclear_pause_max_ms = 500\nclear_interval_min_ms = 500\nperiod = 16",
        period: None,
        direct: false,
    },
    // The kernel's own figures: it looks ever more rarely at what lies well. They are times of a thread's own on a
    // processor, get longer by what a look takes 32 times over, and by the number of threads that share memory, of
    // which all take turns: with at most 2 s there was one look in 20 s, with 250 ms there are 8 to 21.
    Source {
        name: "hint faults, as the kernel has it",
        hints: Some((1_000, 60_000)),
        settings: "provoke = \"off\"",
        period: None,
        direct: false,
    },
    Source {
        name: "hint faults, about every 2 s",
        hints: Some((100, 250)),
        settings: "provoke = \"off\"",
        period: None,
        direct: false,
    },
    Source {
        name: "hint faults, about every 2 s, 1 of 16",
        hints: Some((100, 250)),
        settings: "provoke = \"off\"\nperiod = 16",
        period: None,
        direct: false,
    },
];

/// Workloads and how well they are seen, in the order of the table: name and arguments.
const WORKLOADS: [(&str, &str); 3] = [
    ("slices", "slices --region-kib 512"),
    ("pairs", "pairs --region-kib 512"),
    ("groups:4", "groups:4 --region-kib 512"),
];

/// One line of the table.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Cell {
    workload: String,
    source: String,
    seen: Seen,
    /// Processor time of the daemon as a share of the whole machine's.
    overhead: f64,
    /// What the sampler's samples are beside the counts that they were taken from.
    held: Option<Held>,
}

/// How true samples were.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Seen {
    samples: u64,
    /// Of the pages that were used, how many have a sample.
    pages: f64,
    /// Of those, how many would go to a node that uses them as much as any does, or nine tenths of it.
    right: f64,
    /// Correlation of the two matrices of communication, over all pairs of threads; not a number where no two
    /// share anything worth it.
    correlation: f64,
    /// Of the threads that share something, how many have their best partner among those that truly are.
    partners: f64,
}

/// Accesses of one thread to one page.
pub(crate) type Uses = BTreeMap<(u32, u64), f64>;

/// Runs all sources on all workloads that are wanted.
pub(crate) fn measure(
    kit: &Kit,
    machine: &Machine,
    (workloads, sources): (&[String], &[String]),
    say: &mut dyn FnMut(&str),
) -> Result<Vec<Cell>> {
    let image = image::of(kit, Image::Usual)?;
    let mut cells = Vec::new();
    for (workload, arguments) in WORKLOADS {
        if !workloads.is_empty() && !workloads.iter().any(|name| name == workload) {
            continue;
        }
        for source in SOURCES {
            if !sources.is_empty() && !sources.iter().any(|word| source.name.contains(word)) {
                continue;
            }
            let folder = kit.path("accuracy");
            let place = (machine, image.as_path());
            let cell = run(kit, place, (workload, arguments), source, &folder)
                .with_context(|| format!("{workload} seen by {}", source.name))?;
            say(&cell.line());
            cells.push(cell);
        }
    }
    if cells.is_empty() {
        let known = WORKLOADS.map(|(name, _)| name).join(", ");
        bail!("none of these workloads is measured by such a source; there are {known}");
    }
    Ok(cells)
}

fn run(
    kit: &Kit,
    (machine, image): (&Machine, &Path),
    (workload, arguments): (&str, &str),
    source: Source,
    folder: &Path,
) -> Result<Cell> {
    let ran = guest::run(
        kit,
        &Run {
            machine,
            image,
            script: &match source {
                Source {
                    period: Some(period),
                    direct: true,
                    ..
                } => direct_script(machine, arguments, period),
                _ => script(machine, arguments, source),
            },
            truth: Counted::Pages,
            profile: false,
            limit: Duration::from_secs(300),
        },
    )?;
    if ran.code != Some(0) {
        bail!(
            "the script failed:\n{}\n{}",
            last(&ran.output, 30),
            ran.qemu
        );
    }
    unpack(&ran.files, folder)?;
    let recording = fs::read(folder.join("out/recording"))?;
    let (_, entries, _) = recording::read(&recording).context("the recording is damaged")?;
    let matrix = if source.direct {
        Matrix::default()
    } else {
        let text = fs::read_to_string(folder.join("out/matrix"))?;
        Matrix::parse(&serde_json::from_str(&text)?)?
    };
    let truth: Value = serde_json::from_str(&ran.truth.context("there is no ground truth")?)?;
    let ticks: f64 = ran
        .output
        .lines()
        .find_map(|line| line.strip_prefix("@ticks "))
        .context("the script did not tell `@ticks`")?
        .trim()
        .parse()?;
    let cpus = u32::try_from(machine.nodes * machine.cpus_per_node)?;
    let truth = true_uses(&truth)?;
    let held = match source.period {
        Some(_) => {
            let homes = homes(&fs::read_to_string(folder.join("out/homes"))?)?;
            let said = fs::read_to_string(folder.join("out/feeder"))?;
            Some(hold(&entries, &matrix, &truth, &homes, machine).and_lost(&said)?)
        }
        None => None,
    };
    Ok(Cell {
        workload: workload.to_owned(),
        source: source.name.to_owned(),
        held,
        seen: judge(&matrix, &uses_in(&entries), &truth),
        overhead: ticks / f64::from(100 * SECONDS * cpus),
    })
}

fn script(machine: &Machine, arguments: &str, source: Source) -> String {
    let threads = machine.nodes * machine.cpus_per_node;
    format!(
        r#". /lib/scenario.sh
{hints}
settings <<'SETTINGS'
[overhead]
budget_percent = 50
[sampling]
{settings}
SETTINGS
{feed}
start_numad
LD_PRELOAD=/lib/mark.so MARK_NOSTART=1 numad-workload {arguments} --threads {threads} --seed 7 --release-rounds 0 --oracle {oracle} >/out/workload &
program=$!
within 20 grep -q . /out/workload || fail "the workload says nothing"
numadctl attach $program --policy none || fail attach
sleep 5
ticks() {{ awk '{{print $14 + $15}}' /proc/$daemon/stat; }}
before=$(ticks)
numadctl record $program -o /out/recording --for {SECONDS}s &
recorder=$!
/bin/mark start
sleep {SECONDS}
uncount
echo "@ticks $(($(ticks) - before))"
wait $recorder || fail record
[ -z "$feeder" ] || {{ kill $feeder; wait $feeder; page-nodes $program >/out/homes; }}
numadctl matrix $program --json >/out/matrix || fail matrix
kill $program
exit 0
"#,
        hints = source.hints.map_or_else(
            || "autonuma 0".to_owned(),
            |(least, most)| format!(
                "autonuma 1\nscan=/sys/kernel/debug/sched/numa_balancing/scan_period\n\
                 echo {least} >${{scan}}_min_ms && echo {most} >${{scan}}_max_ms || fail scan"
            ),
        ),
        settings = source.settings,
        feed = source
            .period
            .map_or_else(|| "feeder=".to_owned(), |period| format!("feed {period}")),
        oracle = compare::node_lists(machine),
    )
}

/// Without the daemon, and with a processor for whoever hands samples on.
fn direct_script(machine: &Machine, arguments: &str, period: u64) -> String {
    let threads = machine.nodes * machine.cpus_per_node - 1;
    format!(
        r#". /lib/scenario.sh
autonuma 0
feed {period}
cat /run/numad/feed >/out/recording &
LD_PRELOAD=/lib/mark.so MARK_NOSTART=1 numad-workload {arguments} --threads {threads} --seed 7 --release-rounds 0 --oracle {oracle} >/out/workload &
program=$!
within 20 grep -q . /out/workload || fail "the workload says nothing"
sleep 5
/bin/mark start
sleep {SECONDS}
uncount
sleep 1
kill $feeder
wait $feeder
page-nodes $program >/out/homes
echo "@ticks 0"
kill $program
exit 0
"#,
        oracle = compare::node_lists(machine),
    )
}

fn unpack(archive: &[u8], folder: &Path) -> Result<()> {
    use std::io::Write as _;
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    fs::create_dir_all(folder)?;
    let mut tar = Command::new("tar")
        .arg("-C")
        .arg(folder)
        .args(["-xf", "-"])
        .stdin(Stdio::piped())
        .spawn()
        .context("cannot run `tar`")?;
    tar.stdin
        .take()
        .context("tar has no input")?
        .write_all(archive)?;
    if !tar.wait()?.success() {
        bail!("what the guest left cannot be unpacked");
    }
    Ok(())
}

/// The matrix as the daemon tells it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Matrix {
    tids: Vec<u32>,
    /// The node that each thread is on.
    nodes: Vec<u32>,
    rows: Vec<Vec<f64>>,
}

impl Matrix {
    pub(crate) fn parse(value: &Value) -> Result<Self> {
        let list = |name: &str| {
            value[name]
                .as_array()
                .with_context(|| format!("the matrix lacks `{name}`"))
        };
        let number = |value: &Value| {
            let number = value.as_u64().and_then(|number| u32::try_from(number).ok());
            number.context("a thread of the matrix has no number or no node")
        };
        let row = |row: &Value| {
            let cells = row.as_array().context("a row of the matrix is no list")?;
            cells
                .iter()
                .map(|cell| cell.as_f64().context("a cell of the matrix is no number"))
                .collect()
        };
        Ok(Self {
            tids: list("tids")?.iter().map(number).collect::<Result<_>>()?,
            nodes: list("nodes")?.iter().map(number).collect::<Result<_>>()?,
            rows: list("rows")?.iter().map(row).collect::<Result<_>>()?,
        })
    }

    pub(crate) fn node_of(&self, tid: u32) -> Option<u32> {
        let place = self.tids.iter().position(|&one| one == tid)?;
        self.nodes.get(place).copied()
    }
}

/// What samples say, each standing for as many accesses as its period.
fn uses_in(entries: &[Entry]) -> (u64, Uses) {
    let mut uses = Uses::new();
    let mut count = 0;
    for entry in entries {
        if let Entry::Record(Record::Sample(sample)) = entry {
            count += 1;
            let page = (sample.tid.0, sample.address >> PAGE_BITS);
            *uses.entry(page).or_default() += float(sample.period);
        }
    }
    (count, uses)
}

/// The guest's pages, by which the plugin counts, too.
pub(crate) const PAGE_BITS: u32 = 12;

pub(crate) fn true_uses(truth: &Value) -> Result<Uses> {
    if truth["pages_dropped"].as_u64() != Some(0) {
        bail!("the ground truth lost pages; there are too many");
    }
    let threads = truth["threads"].as_array().context("no `threads`")?;
    // A thread that never said its number is none of the program's own.
    let tid = |slot: usize| u32::try_from(threads.get(slot)?["name"].as_i64()?).ok();
    let mut uses = Uses::new();
    for row in truth["pages"].as_array().context("no `pages`")? {
        let number = |at: usize| row[at].as_u64().context("a row of `pages` is short");
        if let Some(tid) = tid(usize::try_from(number(0)?)?) {
            *uses.entry((tid, number(1)?)).or_default() += float(number(2)?);
        }
    }
    Ok(uses)
}

fn judge(matrix: &Matrix, (samples, seen): &(u64, Uses), truth: &Uses) -> Seen {
    let true_pages = by_page(truth, matrix);
    let seen_pages = by_page(seen, matrix);
    let both: Vec<_> = seen_pages
        .iter()
        .filter_map(|(page, seen)| Some((seen, true_pages.get(page)?)))
        .collect();
    let right = both.iter().filter(|(seen, is)| {
        let (most, share) = (largest(is), is.get(&busiest(seen)).copied());
        share.unwrap_or_default() >= 0.9 * most
    });
    let is = sharing(truth, &matrix.tids);
    let (correlation, partners) = if shares(&is, truth) {
        (
            correlation(&pairs(&matrix.rows), &pairs(&is)),
            partners(&matrix.rows, &is),
        )
    } else {
        (f64::NAN, f64::NAN)
    };
    Seen {
        samples: *samples,
        pages: share(both.len(), true_pages.len()),
        right: share(right.count(), both.len()),
        correlation,
        partners,
    }
}

/// Whether any two threads share a hundredth of what a thread does: below that it is their runtime's pages, of which
/// nobody asks who shares them.
fn shares(is: &[Vec<f64>], truth: &Uses) -> bool {
    let most = is.iter().flatten().copied().fold(0.0, f64::max);
    let mean = truth.values().sum::<f64>() / float_of(is.len().max(1));
    most > 0.0 && most >= mean / 100.0
}

/// For each page, how much each node uses it. What a thread does in passing is left out: pages that are used less
/// than a hundredth of the mean.
fn by_page(uses: &Uses, matrix: &Matrix) -> BTreeMap<u64, BTreeMap<u32, f64>> {
    let mut pages: BTreeMap<u64, BTreeMap<u32, f64>> = BTreeMap::new();
    for ((tid, page), count) in uses {
        if let Some(node) = matrix.node_of(*tid) {
            *pages.entry(*page).or_default().entry(node).or_default() += count;
        }
    }
    let all: f64 = pages.values().flat_map(BTreeMap::values).sum();
    let mean = all / float_of(pages.len().max(1));
    pages.retain(|_, nodes| nodes.values().sum::<f64>() >= mean / 100.0);
    pages
}

fn largest(nodes: &BTreeMap<u32, f64>) -> f64 {
    nodes.values().copied().fold(0.0, f64::max)
}

/// The node that uses it most, the lowest of several.
fn busiest(nodes: &BTreeMap<u32, f64>) -> u32 {
    let most = largest(nodes);
    let found = nodes.iter().find(|(_, count)| **count >= most);
    found.map_or(0, |(node, _)| *node)
}

/// How much every two threads share: of each page, what the one who uses it less does.
fn sharing(uses: &Uses, tids: &[u32]) -> Vec<Vec<f64>> {
    let mut pages: BTreeMap<u64, Vec<(usize, f64)>> = BTreeMap::new();
    for ((tid, page), count) in uses {
        if let Some(thread) = tids.iter().position(|one| one == tid) {
            pages.entry(*page).or_default().push((thread, *count));
        }
    }
    let mut rows = vec![vec![0.0; tids.len()]; tids.len()];
    for users in pages.values() {
        for (one, first) in users {
            for (other, second) in users.iter().filter(|(other, _)| other != one) {
                rows[*one][*other] += first.min(*second);
            }
        }
    }
    rows
}

/// The cells below the diagonal.
fn pairs(rows: &[Vec<f64>]) -> Vec<f64> {
    rows.iter()
        .enumerate()
        .flat_map(|(at, row)| row.iter().take(at).copied())
        .collect()
}

/// Pearson's.
fn correlation(one: &[f64], other: &[f64]) -> f64 {
    let mean = |of: &[f64]| of.iter().sum::<f64>() / float_of(of.len().max(1));
    let (middle, other_middle) = (mean(one), mean(other));
    let sum = |f: &dyn Fn(f64, f64) -> f64| -> f64 {
        one.iter()
            .zip(other)
            .map(|(a, b)| f(a - middle, b - other_middle))
            .sum()
    };
    sum(&|a, b| a * b) / (sum(&|a, _| a * a) * sum(&|_, b| b * b)).sqrt()
}

/// Of the threads that truly share, how many have their best partner among those with whom they share half as much
/// as with anyone.
fn partners(seen: &[Vec<f64>], is: &[Vec<f64>]) -> f64 {
    let most = |row: &[f64]| row.iter().copied().fold(0.0, f64::max);
    let all = is.iter().map(|row| most(row)).fold(0.0, f64::max);
    let sharing: Vec<_> = seen
        .iter()
        .zip(is)
        .filter(|(_, is)| all > 0.0 && most(is) >= all / 10.0)
        .collect();
    let right = sharing.iter().filter(|(seen, is)| {
        let best = most(seen);
        let partner = seen.iter().position(|&amount| amount >= best);
        best > 0.0 && partner.is_some_and(|partner| is[partner] >= most(is) / 2.0)
    });
    share(right.count(), sharing.len())
}

pub(crate) fn share(part: usize, of: usize) -> f64 {
    float_of(part) / float_of(of)
}

#[expect(clippy::cast_precision_loss, reason = "counts of a short run")]
fn float(number: u64) -> f64 {
    number as f64
}

pub(crate) fn float_of(number: usize) -> f64 {
    float(number as u64)
}

const HEAD: &str = "| workload | source | samples | pages seen | right node | correlation | right partner | cost \
                    | right thread | right node of a sample | pages as by chance | lost |\n\
                    | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n";

impl Cell {
    fn line(&self) -> String {
        let share = |value: f64| {
            if value.is_finite() {
                format!("{:.1} %", 100.0 * value)
            } else {
                "-".to_owned()
            }
        };
        let correlation = if self.seen.correlation.is_finite() && self.seen.partners.is_finite() {
            format!("{:.3}", self.seen.correlation)
        } else {
            "-".to_owned()
        };
        let held = self.held.map_or_else(
            || "- | - | - | -".to_owned(),
            |held| {
                let shares = [held.threads, held.nodes, held.pages];
                let shares = shares.map(|share| format!("{:.2} %", 100.0 * share));
                format!("{} | {}", shares.join(" | "), held.lost)
            },
        );
        format!(
            "| {} | {} | {} | {} | {} | {correlation} | {} | {} | {held} |",
            self.workload,
            self.source,
            self.seen.samples,
            share(self.seen.pages),
            share(self.seen.right),
            share(self.seen.partners),
            share(self.overhead),
        )
    }

    fn to_json(&self) -> Value {
        json!({
            "workload": self.workload,
            "source": self.source,
            "samples": self.seen.samples,
            "pages_seen": self.seen.pages,
            "right_node": self.seen.right,
            "correlation": self.seen.correlation,
            "right_partner": self.seen.partners,
            "overhead": self.overhead,
            "right_thread": self.held.map(|held| held.threads),
            "right_node_of_sample": self.held.map(|held| held.nodes),
            "pages_as_by_chance": self.held.map(|held| held.pages),
            "lost": self.held.map(|held| held.lost),
        })
    }
}

/// Writes accuracy.md and accuracy.json; gives the table.
pub(crate) fn write(cells: &[Cell], folder: &PathBuf) -> Result<String> {
    let lines: Vec<String> = cells.iter().map(|cell| cell.line() + "\n").collect();
    let table = format!("{HEAD}{}", lines.concat());
    fs::create_dir_all(folder)?;
    fs::write(folder.join("accuracy.md"), &table)?;
    let all: Vec<Value> = cells.iter().map(Cell::to_json).collect();
    fs::write(
        folder.join("accuracy.json"),
        serde_json::to_string_pretty(&all)? + "\n",
    )?;
    Ok(table)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Threads 11 and 12 on node 0 share page 5; 13 on node 1 has page 6.
    pub(crate) fn world() -> (Matrix, Uses) {
        let matrix = Matrix::parse(&json!({
            "tids": [11, 12, 13], "nodes": [0, 0, 1],
            "rows": [[0, 9, 0], [9, 0, 1], [0, 1, 0]],
        }))
        .unwrap();
        let truth = true_uses(&json!({
            "pages_dropped": 0,
            "threads": [{"name": 11}, {"name": 12}, {"name": 13}, {"name": -1}],
            "pages": [[0, 5, 100], [1, 5, 80], [2, 6, 50], [3, 7, 90]],
        }))
        .unwrap();
        (matrix, truth)
    }

    #[test]
    fn samples_that_tell_the_truth_are_all_right() {
        let (matrix, truth) = world();
        let seen = judge(&matrix, &(4, truth.clone()), &truth);
        assert_eq!((seen.pages, seen.right, seen.partners), (1.0, 1.0, 1.0));
        assert!(seen.correlation > 0.99, "{seen:?}");
    }

    #[test]
    fn a_page_that_another_node_seems_to_use_is_wrong() {
        let (matrix, truth) = world();
        let wrong = Uses::from([((13, 5), 3.0), ((12, 5), 1.0)]);
        let seen = judge(&matrix, &(4, wrong), &truth);
        assert_eq!((seen.pages, seen.right), (0.5, 0.0));
    }

    #[test]
    fn a_wrong_partner_is_told_and_where_none_is_nothing() {
        let (mut matrix, truth) = world();
        matrix.rows = vec![
            vec![0.0, 0.0, 9.0],
            vec![1.0, 0.0, 0.0],
            vec![9.0, 0.0, 0.0],
        ];
        let seen = judge(&matrix, &(0, Uses::new()), &truth);
        assert_eq!((seen.pages, seen.partners), (0.0, 0.5));
        assert!(seen.correlation < 0.0);
        let alone = Uses::from([((11, 5), 1.0)]);
        assert!(judge(&matrix, &(0, Uses::new()), &alone).partners.is_nan());
        let hardly = Uses::from([((11, 5), 900.0), ((12, 6), 900.0), ((12, 5), 5.0)]);
        assert!(
            judge(&matrix, &(0, Uses::new()), &hardly)
                .correlation
                .is_nan()
        );
    }

    #[test]
    fn a_truth_that_is_not_whole_is_refused() {
        let error = true_uses(&json!({"pages_dropped": 3})).unwrap_err();
        assert!(error.to_string().contains("lost pages"), "{error}");
        true_uses(&json!({"pages_dropped": 0, "threads": [{"name": 1}], "pages": [[0]]}))
            .unwrap_err();
    }
}
