//! The ground truth: what the plugin counted, and what a model makes of it.
//!
//! Counts are facts: which thread, running on which node, fetched how many lines from which memory
//! in which 20 ms. Times are a model: QEMU runs remote accesses as fast as local ones, so what they
//! would have cost is computed here, with latencies that stand in [`Latencies`] and with waiting at
//! busy memory controllers.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use crate::machine::Machine;

/// Nanoseconds. Counts do not depend on them.
#[derive(Clone, Copy, Debug)]
struct Latencies {
    /// One instruction that misses nothing.
    instruction: f64,
    /// The node's own last cache.
    last_cache: f64,
    /// The node's own memory; times distance / 10 for others.
    memory: f64,
    /// A modified line from another node's cache; times distance / 10.
    other_cache: f64,
    /// A store to a line that other nodes have copies of.
    invalidation: f64,
    /// Random misses of one thread that overlap.
    overlap: f64,
    /// Sequential ones.
    overlap_sequential: f64,
    /// A controller's time for one line: 10.7 GB/s.
    service: f64,
}

const LATENCIES: Latencies = Latencies {
    instruction: 0.4,
    last_cache: 20.0,
    memory: 90.0,
    other_cache: 70.0,
    invalidation: 40.0,
    overlap: 3.0,
    overlap_sequential: 10.0,
    service: 6.0,
};

/// What one thread did on one node in one window.
#[derive(Clone, Debug, PartialEq)]
struct Row {
    window: u64,
    thread: u64,
    node: usize,
    instructions: f64,
    last_cache: f64,
    invalidations: f64,
    /// Lines from each node's memory, of these the sequential ones, lines from each node's caches,
    /// and lines written back to each node's memory.
    memory: Vec<f64>,
    sequential: Vec<f64>,
    other_cache: Vec<f64>,
    written_back: Vec<f64>,
}

/// What the plugin counted between start and stop.
#[derive(Clone, Debug)]
pub(crate) struct Truth {
    nodes: usize,
    window_seconds: f64,
    rows: Vec<Row>,
    /// Instructions of all processors in user mode and in the kernel.
    user: f64,
    kernel: f64,
}

/// The figures of one run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Figures {
    /// Share of memory accesses that were local, over the whole run and in its last quarter.
    pub(crate) local: f64,
    pub(crate) steady_local: f64,
    /// Coefficient of variation of the controllers' load, in the last quarter.
    pub(crate) imbalance: f64,
    /// Modelled nanoseconds per instruction at the beginning and in the last quarter.
    pub(crate) first_ns: f64,
    pub(crate) steady_ns: f64,
    /// Modelled seconds that all threads waited for memory.
    pub(crate) stall: f64,
    /// Seconds until nine tenths of the way from `first_ns` to `steady_ns` were gone; 0 if it was
    /// steady from the start.
    pub(crate) converged: f64,
    /// Share of all instructions that ran in the kernel.
    pub(crate) kernel: f64,
    /// Instructions of the program itself, in millions a second of the guest's time.
    pub(crate) work: f64,
    /// Modelled nanoseconds per instruction, over the whole run. Not seconds: who takes processors
    /// from a program leaves it less to do, and less to wait for.
    pub(crate) whole_ns: f64,
    /// The same if in each second every thread had got as far as the others, which the emulation
    /// does not see to: who of them gets how much time, and so what is fetched from where, is
    /// chance.
    pub(crate) even_ns: f64,
    /// Instructions in user mode that are not the program's, and those of the kernel, in millions a
    /// second of the guest's time.
    pub(crate) others: f64,
    pub(crate) system: f64,
}

impl Figures {
    /// Names, in the order in which they are shown.
    pub(crate) const NAMES: [&'static str; 13] = [
        "local",
        "steady_local",
        "imbalance",
        "first_ns",
        "steady_ns",
        "stall",
        "converged",
        "kernel",
        "work",
        "whole_ns",
        "even_ns",
        "others",
        "system",
    ];

    /// A figure by its name.
    pub(crate) fn named(&self, name: &str) -> Result<f64> {
        Ok(match name {
            "local" => self.local,
            "steady_local" => self.steady_local,
            "imbalance" => self.imbalance,
            "first_ns" => self.first_ns,
            "steady_ns" => self.steady_ns,
            "stall" => self.stall,
            "converged" => self.converged,
            "kernel" => self.kernel,
            "work" => self.work,
            "whole_ns" => self.whole_ns,
            "even_ns" => self.even_ns,
            "others" => self.others,
            "system" => self.system,
            _ => bail!(
                "there is no figure `{name}`; there are {}",
                Self::NAMES.join(", ")
            ),
        })
    }
}

impl Truth {
    /// Reads the plugin's report.
    pub(crate) fn parse(report: &str) -> Result<Self> {
        let report: Value = serde_json::from_str(report).context("the ground truth is no JSON")?;
        let number = |name: &str| {
            report[name]
                .as_u64()
                .with_context(|| format!("the ground truth lacks `{name}`"))
        };
        if number("complete")? == 0 {
            bail!("the ground truth was never told to stop counting");
        }
        let nodes = usize::try_from(number("nodes")?)?;
        let rows = report["rows"]
            .as_array()
            .context("the ground truth lacks `rows`")?;
        // Of nothing every figure is 0, which is what an upper bound expects.
        if rows.is_empty() {
            bail!("the ground truth followed no thread");
        }
        let of_cpus = |name: &str| {
            let cpus = report["vcpu"].as_array().into_iter().flatten();
            cpus.filter_map(|cpu| cpu[name].as_f64()).sum()
        };
        Ok(Self {
            nodes,
            window_seconds: seconds(number("window_ms")?),
            rows: rows
                .iter()
                .map(|row| Row::parse(row, nodes).context("a row of the ground truth is short"))
                .collect::<Result<_>>()?,
            user: of_cpus("user"),
            kernel: of_cpus("kern"),
        })
    }

    /// What the model makes of it, on a machine with these distances.
    pub(crate) fn figures(&self, machine: &Machine) -> Figures {
        let windows = self.windows(machine);
        let busy: Vec<&Window> = windows
            .iter()
            .filter(|window| window.instructions > 0.0)
            .collect();
        let steady = steady_part(&busy);
        let last = &steady[3 * steady.len() / 4..];
        let head = usize_of(0.6 / self.window_seconds).max(1).min(steady.len());
        let first_ns = ns_per_instruction(&steady[..head]);
        let steady_ns = ns_per_instruction(last);
        Figures {
            local: local_share(&busy),
            steady_local: local_share(last),
            imbalance: imbalance(last, self.nodes),
            first_ns,
            steady_ns,
            stall: busy.iter().map(|window| window.stall_ns).sum::<f64>() / 1e9,
            converged: self.converged(steady, head, first_ns, steady_ns),
            kernel: self.kernel / (self.user + self.kernel).max(1.0),
            work: self.work(&windows),
            whole_ns: ns_per_instruction(&busy),
            even_ns: self.even_ns(machine),
            others: self.others() / self.length(&windows) / 1e6,
            system: self.kernel / self.length(&windows) / 1e6,
        }
    }

    /// The share of memory accesses that were local, second by second.
    pub(crate) fn locals(&self, machine: &Machine) -> Vec<f64> {
        let windows = self.windows(machine);
        let second = |window: &Window| usize_of(window.number * self.window_seconds);
        let seconds = windows.chunk_by(|one, next| second(one) == second(next));
        seconds
            .map(|windows| local_share(&windows.iter().collect::<Vec<_>>()))
            .collect()
    }

    /// Mean of all seconds; threads that did next to nothing in one are left out of it.
    fn even_ns(&self, machine: &Machine) -> f64 {
        let second = |row: &Row| usize_of(float(row.window) * self.window_seconds);
        let seconds = self.rows.chunk_by(|one, next| second(one) == second(next));
        let each: Vec<f64> = seconds
            .filter_map(|rows| {
                let mut done: BTreeMap<u64, f64> = BTreeMap::new();
                for row in rows {
                    *done.entry(row.thread).or_default() += row.instructions;
                }
                let most = done.values().copied().fold(0.0, f64::max);
                let rows = rows.iter().filter(|row| done[&row.thread] > 0.02 * most);
                let rows: Vec<Row> = rows.map(|row| row.times(1e6 / done[&row.thread])).collect();
                let window = (!rows.is_empty()).then(|| Window::of(&rows, self.nodes, machine))?;
                Some(window.ns / window.instructions)
            })
            .collect();
        each.iter().sum::<f64>() / float_of(each.len().max(1))
    }

    /// Instructions in user mode of whoever is not followed.
    fn others(&self) -> f64 {
        let followed: f64 = self.rows.iter().map(|row| row.instructions).sum();
        (self.user - followed).max(0.0)
    }

    fn windows(&self, machine: &Machine) -> Vec<Window> {
        self.rows
            .chunk_by(|one, next| one.window == next.window)
            .map(|rows| Window::of(rows, self.nodes, machine))
            .collect()
    }

    fn work(&self, windows: &[Window]) -> f64 {
        let all: f64 = windows.iter().map(|window| window.instructions).sum();
        all / self.length(windows) / 1e6
    }

    /// Seconds from first to last window.
    fn length(&self, windows: &[Window]) -> f64 {
        let length = match (windows.first(), windows.last()) {
            (Some(first), Some(last)) => last.number - first.number + 1.0,
            _ => 1.0,
        };
        length * self.window_seconds
    }

    /// The first time that a mean over 0.6 s has gone nine tenths of the way.
    fn converged(&self, windows: &[&Window], head: usize, first: f64, last: f64) -> f64 {
        if (last - first).abs() <= 0.1 * first {
            return 0.0;
        }
        let there = (head..=windows.len()).find(|&end| {
            let now = ns_per_instruction(&windows[end - head..end]);
            (now - first) / (last - first) >= 0.9
        });
        let window = there.and_then(|end| windows.get(end - 1));
        window.map_or(f64::NAN, |window| {
            (window.number + 1.0) * self.window_seconds
        })
    }
}

impl Row {
    fn parse(row: &Value, nodes: usize) -> Option<Self> {
        let row = row.as_array()?;
        let numbers: Vec<f64> = row.iter().map(Value::as_f64).collect::<Option<_>>()?;
        let group = |at: usize| Some(numbers.get(8 + at * nodes..8 + (at + 1) * nodes)?.to_vec());
        Some(Self {
            window: row.first()?.as_u64()?,
            thread: row.get(1)?.as_u64()?,
            node: usize::try_from(row.get(2)?.as_u64()?).ok()?,
            instructions: *numbers.get(3)?,
            last_cache: *numbers.get(6)?,
            invalidations: *numbers.get(7)?,
            memory: group(0)?,
            sequential: group(1)?,
            other_cache: group(2)?,
            written_back: group(3)?,
        })
    }
}

impl Row {
    /// So many times as much.
    fn times(&self, factor: f64) -> Self {
        let all = |lines: &[f64]| lines.iter().map(|lines| lines * factor).collect();
        Self {
            instructions: self.instructions * factor,
            last_cache: self.last_cache * factor,
            invalidations: self.invalidations * factor,
            memory: all(&self.memory),
            sequential: all(&self.sequential),
            other_cache: all(&self.other_cache),
            written_back: all(&self.written_back),
            ..*self
        }
    }
}

/// One window of all threads.
#[derive(Clone, Debug)]
struct Window {
    number: f64,
    instructions: f64,
    local: f64,
    remote: f64,
    /// Lines to and from each node's memory.
    traffic: Vec<f64>,
    /// Modelled nanoseconds of all threads, and those of them spent waiting for memory.
    ns: f64,
    stall_ns: f64,
}

impl Window {
    fn of(rows: &[Row], nodes: usize, machine: &Machine) -> Self {
        let traffic: Vec<f64> = (0..nodes)
            .map(|node| {
                rows.iter()
                    .map(|row| row.memory[node] + row.written_back[node])
                    .sum()
            })
            .collect();
        let waits = solve(rows, &traffic, machine);
        let stall_ns: f64 = rows.iter().map(|row| row.stall(machine, &waits)).sum();
        let instructions: f64 = rows.iter().map(|row| row.instructions).sum();
        let local = rows.iter().map(|row| row.memory[row.node]).sum();
        let all: f64 = rows.iter().flat_map(|row| &row.memory).sum();
        Self {
            number: rows.first().map_or(0.0, |row| float(row.window)),
            instructions,
            local,
            remote: all - local,
            traffic,
            ns: instructions * LATENCIES.instruction + stall_ns,
            stall_ns,
        }
    }
}

impl Row {
    /// Nanoseconds that this thread waited, if every access to a node's memory waits this long in
    /// front of its controller.
    fn stall(&self, machine: &Machine, waits: &[f64]) -> f64 {
        let l = LATENCIES;
        let mut stall =
            (self.last_cache * l.last_cache + self.invalidations * l.invalidation) / l.overlap;
        for (node, wait) in waits.iter().enumerate() {
            let far = f64::from(machine.distance[self.node][node]) / 10.0;
            let random = (self.memory[node] - self.sequential[node]) / l.overlap;
            let sequential = self.sequential[node] / l.overlap_sequential;
            stall += (random + sequential) * (l.memory * far + wait);
            stall += self.other_cache[node] * l.other_cache * far / l.overlap;
        }
        stall
    }
}

/// How long an access waits at each controller.
///
/// A window lasts as long as its threads need on average, and they need longer the shorter it is,
/// because the same accesses come closer together: the length at which both agree is found by
/// halving.
fn solve(rows: &[Row], traffic: &[f64], machine: &Machine) -> Vec<f64> {
    let service = LATENCIES.service;
    let waits = |length: f64| -> Vec<f64> {
        traffic
            .iter()
            .map(|lines| lines * service / length)
            .map(|used| service * used / (2.0 * (1.0 - used)))
            .collect()
    };
    let needed = |length: f64| {
        let waits = waits(length);
        let mut threads: Vec<(u64, f64)> = rows
            .iter()
            .map(|row| {
                let ns = row.instructions * LATENCIES.instruction + row.stall(machine, &waits);
                (row.thread, ns)
            })
            .collect();
        threads.sort_by_key(|(thread, _)| *thread);
        let sums = threads.chunk_by(|one, next| one.0 == next.0);
        let sums: Vec<f64> = sums.map(|of| of.iter().map(|(_, ns)| ns).sum()).collect();
        let most = sums.iter().copied().fold(0.0, f64::max);
        let active: Vec<f64> = sums.into_iter().filter(|ns| *ns > 0.1 * most).collect();
        active.iter().sum::<f64>() / float_of(active.len().max(1))
    };
    let busiest = traffic.iter().copied().fold(0.0, f64::max) * service;
    let (mut low, mut high) = (busiest * 1.0001 + 1e-3, busiest * 1.5 + 1.0);
    while needed(high) > high {
        high *= 2.0;
    }
    for _ in 0..30 {
        let middle = f64::midpoint(low, high);
        if needed(middle) > middle {
            low = middle;
        } else {
            high = middle;
        }
    }
    waits(high)
}

/// All but the tail, in which threads have ended already: until 85 % of the instructions.
fn steady_part<'a, 'b>(windows: &'b [&'a Window]) -> &'b [&'a Window] {
    let all: f64 = windows.iter().map(|window| window.instructions).sum();
    let mut done = 0.0;
    let end = windows.iter().position(|window| {
        done += window.instructions;
        done > 0.85 * all
    });
    &windows[..end.unwrap_or(windows.len()).max(20).min(windows.len())]
}

fn ns_per_instruction(windows: &[&Window]) -> f64 {
    let ns: f64 = windows.iter().map(|window| window.ns).sum();
    ns / windows
        .iter()
        .map(|window| window.instructions)
        .sum::<f64>()
        .max(1.0)
}

fn local_share(windows: &[&Window]) -> f64 {
    let local: f64 = windows.iter().map(|window| window.local).sum();
    let remote: f64 = windows.iter().map(|window| window.remote).sum();
    local / (local + remote).max(1.0)
}

fn imbalance(windows: &[&Window], nodes: usize) -> f64 {
    let load = |node: usize| {
        windows
            .iter()
            .map(|window| window.traffic[node])
            .sum::<f64>()
    };
    let loads: Vec<f64> = (0..nodes).map(load).collect();
    let mean = loads.iter().sum::<f64>() / float_of(nodes);
    if mean == 0.0 {
        return 0.0;
    }
    let squares = loads.iter().map(|load| (load - mean).powi(2)).sum::<f64>();
    (squares / float_of(nodes)).sqrt() / mean
}

#[expect(
    clippy::cast_precision_loss,
    reason = "counts of windows and threads are small"
)]
fn float(number: u64) -> f64 {
    number as f64
}

fn float_of(number: usize) -> f64 {
    float(number as u64)
}

fn seconds(milliseconds: u64) -> f64 {
    float(milliseconds) / 1000.0
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a small positive number of windows"
)]
fn usize_of(number: f64) -> usize {
    number as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine;

    /// One thread on node 0 of two, which fetches as many lines from each node as given.
    fn report(windows: &[[u64; 2]]) -> String {
        let rows: Vec<String> = windows
            .iter()
            .enumerate()
            .map(|(window, [near, far])| {
                format!("[{window},0,0,1000,0,0,0,0,{near},{far},0,0,0,0,0,0,0,0,0,0,0,0,0,0]")
            })
            .collect();
        format!(
            r#"{{"nodes":4,"complete":1,"window_ms":20,"vcpu":[{{"user":90,"kern":10}}],"rows":[{}]}}"#,
            rows.join(",")
        )
    }

    #[test]
    fn local_accesses_are_counted_and_remote_ones_cost_more() {
        let machine = machine::find("ring4").unwrap();
        let figures =
            |windows: &[[u64; 2]]| Truth::parse(&report(windows)).unwrap().figures(&machine);
        let near = figures(&[[100, 0]; 40]);
        let far = figures(&[[0, 100]; 40]);
        assert_eq!((near.local, far.local), (1.0, 0.0));
        assert!(
            far.steady_ns > 1.9 * near.steady_ns - 0.4,
            "{near:?} {far:?}"
        );
        assert_eq!((near.kernel, near.converged), (0.1, 0.0));
        assert!((near.work - 0.05).abs() < 1e-9, "{near:?}");
    }

    #[test]
    fn who_got_how_much_time_does_not_change_the_even_figure() {
        let machine = machine::find("ring4").unwrap();
        // A thread at home on node 0 and one whose memory is far, and the first ten times as fast.
        let even_ns = |fast: f64| {
            let mut truth = Truth::parse(&report(&[[100, 0], [0, 100]])).unwrap();
            (truth.rows[1].thread, truth.rows[1].window) = (1, 0);
            truth.rows[0] = truth.rows[0].times(fast);
            truth.figures(&machine)
        };
        let (alike, unlike) = (even_ns(1.0), even_ns(10.0));
        assert!((alike.even_ns - unlike.even_ns).abs() < 1e-6, "{unlike:?}");
        assert!(unlike.whole_ns < 0.8 * alike.whole_ns, "{unlike:?}");
    }

    #[test]
    fn convergence_is_when_most_of_the_way_is_gone() {
        let machine = machine::find("ring4").unwrap();
        let mut windows = vec![[0, 100]; 100];
        windows.extend(vec![[100, 0]; 300]);
        let figures = Truth::parse(&report(&windows)).unwrap().figures(&machine);
        assert!(figures.steady_local > 0.999, "{figures:?}");
        assert!((2.4..2.7).contains(&figures.converged), "{figures:?}");
    }

    #[test]
    fn a_report_that_is_not_whole_is_refused() {
        let whole = report(&[[1, 1]]);
        Truth::parse(&whole.replace("\"complete\":1", "\"complete\":0")).unwrap_err();
        Truth::parse(&whole.replace("[0,0,0,1000,", "[0,0,")).unwrap_err();
        Truth::parse(&whole[..whole.len() / 2]).unwrap_err();
        let nobody = Truth::parse(&report(&[])).unwrap_err().to_string();
        assert!(nobody.contains("followed no thread"), "{nobody}");
    }
}
