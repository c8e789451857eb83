//! Counters of attached programs and of the machine, from opening to rows.
//!
//! What the machine does is counted only while something is attached. Whatever cannot be counted drops out
//! with a note; nothing here ever stands in the way of an attachment.

use std::collections::BTreeMap;

use control::rows::{Counts, Finding, LinkRow, MemoryRow, PowerRow, Status};
use nix::sys::resource::{Resource, getrlimit};
use numad_core::{AttachmentId, NodeTraffic, Observation, Progress, Time};
use sampler::counters::machine::AbsentGauge;
use sampler::counters::{
    Beginning, CounterOpener, Domain, Flow, Gauge, MachineCounters, MachineRates, Plan,
    ProgramCounters, ProgramCounts, Quantity,
};
use topology::{NodeId, Tid};

use super::finding;
use super::metrics::{Metric, counter, gauge, write_labelled, write_metric, write_seconds};

/// Most descriptors of all counters together: a quarter of what the unit allows the daemon
/// (`LimitNOFILE=`), and where less is allowed half of that.
const DESCRIPTORS_MAX: usize = 4096;

/// What counters need from elsewhere.
#[derive(Debug)]
pub struct Meters {
    opener: Box<dyn CounterOpener>,
    plan: Plan,
    /// PMUs of the kinds of cores, where there are several.
    cores: Vec<u32>,
    machine: Option<MachineCounters>,
    programs: BTreeMap<AttachmentId, Meter>,
    /// Of all programs so far, those that have ended included.
    sum: ProgramCounts,
    on: bool,
}

/// Counters of one program.
#[derive(Debug)]
struct Meter {
    counters: ProgramCounters,
    last: ProgramCounts,
}

impl Meters {
    /// Counters that `opener` opens: for every program, and for the machine as the plan says.
    #[must_use]
    pub fn new(opener: Box<dyn CounterOpener>, plan: Plan, cores: Vec<u32>) -> Self {
        Self {
            opener,
            plan,
            cores,
            machine: None,
            programs: BTreeMap::new(),
            sum: ProgramCounts::default(),
            on: true,
        }
    }

    /// Counts nothing from now on, as the settings may ask.
    #[must_use]
    pub const fn switched(mut self, on: bool) -> Self {
        self.on = on;
        self
    }

    /// Begins to count a program, and with the first the machine. `threads` lists its threads, and is
    /// asked again when they are all open.
    pub(super) fn begin(
        &mut self,
        now: Time,
        id: AttachmentId,
        threads: &mut dyn FnMut() -> Vec<Tid>,
    ) {
        if !self.on {
            return;
        }
        if self.machine.is_none() {
            let room = descriptors_max();
            let machine = MachineCounters::begin(&self.plan, &mut *self.opener, room, now);
            self.machine = Some(machine);
        }
        let beginning = Beginning {
            room: descriptors_max().saturating_sub(self.descriptors()),
            opener: &mut *self.opener,
            cores: &self.cores,
        };
        let meter = Meter {
            counters: ProgramCounters::begin(beginning, threads),
            last: ProgramCounts::default(),
        };
        self.programs.insert(id, meter);
    }

    /// Ends counting a program, and with the last the machine.
    pub(super) fn end(&mut self, id: AttachmentId) {
        if let Some(mut meter) = self.programs.remove(&id) {
            add(&mut self.sum, meter.counters.read());
        }
        if self.programs.is_empty() {
            self.machine = None;
        }
    }

    /// Adds to an observation what was counted: of the programs in it, and of memory.
    pub(super) fn observe(&mut self, now: Time, observation: &mut Observation) {
        for program in &observation.programs {
            let Some(meter) = self.programs.get_mut(&program.attachment) else {
                continue;
            };
            meter.last = meter.counters.read();
            add(&mut self.sum, meter.last);
            if let (Some(instructions), Some(cycles)) = (meter.last.instructions, meter.last.cycles)
            {
                let progress = Progress {
                    instructions: whole(instructions),
                    cycles: whole(cycles),
                };
                observation.progress.push((program.attachment, progress));
            }
        }
        if let Some(machine) = &mut self.machine {
            observation.traffic = traffic(machine.read(now));
        }
    }

    /// What is counted of a program; none when nothing is.
    pub(super) fn counts(&self, id: AttachmentId) -> Option<Counts> {
        let meter = self.programs.get(&id)?;
        let total = meter.counters.total();
        let absent = meter.counters.absent().iter();
        let mut absent: Vec<String> = absent
            .map(|(quantity, why)| format!("{quantity}: {why}"))
            .collect();
        if meter.counters.unsure() > 0 {
            let count = meter.counters.unsure();
            absent.push(format!(
                "{count} threads that came while counting began may be missing"
            ));
        }
        Some(Counts {
            ipc: meter.last.ipc(),
            cpu_s: total.cpu_ns.map(|ns| ns / 1e9),
            instructions: total.instructions.map(whole),
            cycles: total.cycles.map(whole),
            faults: total.faults.map(whole),
            switches: total.switches.map(whole),
            coverage: meter.counters.coverage(),
            absent,
        })
    }

    /// Adds what is counted of the machine to its status.
    pub(super) fn show(&self, status: &mut Status) {
        let Some(machine) = &self.machine else { return };
        let rates = machine.rates();
        status.memory = rates
            .memory
            .iter()
            .map(|rate| MemoryRow {
                nodes: numbers(&rate.nodes),
                read: rate.read,
                written: rate.written,
                both: rate.both,
                read_wait_clocks: rate.read_wait_clocks,
                write_wait_clocks: rate.write_wait_clocks,
            })
            .collect();
        status.links = rates
            .links
            .iter()
            .map(|rate| LinkRow {
                package: rate.package.0,
                link: rate.link.clone(),
                sent: rate.sent,
            })
            .collect();
        status.power = rates
            .power
            .iter()
            .map(|rate| PowerRow {
                package: rate.package.0,
                domain: domain(rate.domain).to_owned(),
                watts: rate.watts,
            })
            .collect();
    }

    /// Adds figures for machines to read.
    pub(super) fn metrics(&self, text: &mut String) {
        for (metric, total) in [
            (INSTRUCTIONS, self.sum.instructions),
            (CYCLES, self.sum.cycles),
            (FAULTS, self.sum.faults),
            (SWITCHES, self.sum.switches),
        ] {
            if let Some(total) = total {
                write_metric(text, &metric, whole(total));
            }
        }
        if let Some(cpu_ns) = self.sum.cpu_ns {
            write_seconds(text, &PROGRAM_CPU, cpu_ns / 1e9);
        }
        let open = u64::try_from(self.descriptors()).unwrap_or(u64::MAX);
        write_metric(text, &OPEN, open);
        let Some(machine) = &self.machine else { return };
        let rates = machine.rates();
        let memory = |of: fn(&sampler::counters::MemoryRate) -> Option<f64>| {
            let known = rates
                .memory
                .iter()
                .filter_map(move |rate| Some((rate, of(rate)?)));
            let label = |nodes| format!("nodes=\"{}\"", joined(nodes));
            known
                .map(move |(rate, value)| (label(&rate.nodes), value))
                .collect::<Vec<_>>()
        };
        write_labelled(text, &READ, &memory(|rate| rate.read));
        write_labelled(text, &WRITTEN, &memory(|rate| rate.written));
        write_labelled(text, &BOTH, &memory(|rate| rate.both));
        let links = rates.links.iter().map(|rate| {
            (
                format!("package=\"{}\",link=\"{}\"", rate.package, rate.link),
                rate.sent,
            )
        });
        write_labelled(text, &SENT, &links.collect::<Vec<_>>());
        let power = rates.power.iter().map(|rate| {
            let domain = domain(rate.domain);
            (
                format!("package=\"{}\",domain=\"{domain}\"", rate.package),
                rate.watts,
            )
        });
        write_labelled(text, &POWER, &power.collect::<Vec<_>>());
    }

    /// What can be counted here, and what cannot: opens everything once, and closes it again unless it is
    /// open anyway.
    pub(super) fn findings(&mut self, now: Time) -> Vec<Finding> {
        if !self.on {
            let text = "switched off by `sampling.counters`";
            return vec![finding("limited", "counters", text.to_owned(), "")];
        }
        let mut found = self.program_findings();
        let tried;
        let machine = match &self.machine {
            Some(machine) => machine,
            None => {
                let room = descriptors_max();
                tried = MachineCounters::begin(&self.plan, &mut *self.opener, room, now);
                &tried
            }
        };
        found.extend(machine_findings(machine));
        found.extend(
            self.plan
                .lacks
                .iter()
                .map(|lack| finding("limited", lack.subject, lack.why.clone(), "")),
        );
        found
    }

    /// Why instructions of programs are not counted, if they are not.
    pub(super) fn lacks_instructions(&mut self) -> Option<String> {
        if !self.on {
            return Some("`sampling.counters` is `off`".to_owned());
        }
        let tried = self.tried();
        let mut absent = tried.absent().iter();
        let (_, why) = absent.find(|(of, _)| *of == Quantity::Instructions)?;
        Some(why.to_string())
    }

    /// Counters of the thread that asks.
    fn tried(&mut self) -> ProgramCounters {
        let own = Tid(u32::try_from(nix::unistd::gettid().as_raw()).unwrap_or_default());
        let beginning = Beginning {
            room: descriptors_max().saturating_sub(self.descriptors()),
            opener: &mut *self.opener,
            cores: &self.cores,
        };
        ProgramCounters::begin(beginning, &mut || vec![own])
    }

    fn program_findings(&mut self) -> Vec<Finding> {
        let tried = self.tried();
        let absent = |quantity: Quantity| tried.absent().iter().find(|(of, _)| *of == quantity);
        let subjects = [
            (
                Quantity::Instructions,
                "instructions and cycles of programs",
            ),
            (Quantity::CpuTime, "processor time of programs"),
            (Quantity::Faults, "page faults of programs"),
            (Quantity::Switches, "context switches of programs"),
        ];
        subjects
            .into_iter()
            .map(|(quantity, subject)| match absent(quantity) {
                None => finding("ok", subject, "can be counted".to_owned(), ""),
                Some((_, why)) => {
                    let text = format!("not counted: {why}");
                    finding("limited", subject, text, why.remedy().unwrap_or_default())
                }
            })
            .collect()
    }

    fn descriptors(&self) -> usize {
        let programs = self
            .programs
            .values()
            .map(|meter| meter.counters.descriptors());
        let machine = self
            .machine
            .as_ref()
            .map_or(0, MachineCounters::descriptors);
        programs.sum::<usize>() + machine
    }
}

fn descriptors_max() -> usize {
    let limit = getrlimit(Resource::RLIMIT_NOFILE).map_or(0, |(soft, _)| soft);
    usize::try_from(limit / 2)
        .unwrap_or(usize::MAX)
        .min(DESCRIPTORS_MAX)
}

fn machine_findings(machine: &MachineCounters) -> Vec<Finding> {
    let mut found = Vec::new();
    let words: Vec<String> = machine.gauges().map(in_words).collect();
    if !words.is_empty() {
        let text = format!(
            "counted with {} counters: {}",
            machine.descriptors(),
            words.join(", ")
        );
        found.push(finding("ok", "memory, links and energy", text, ""));
    }
    let shared = |gauge: &&Gauge| matches!(gauge, Gauge::Memory { nodes, .. } if nodes.len() > 1);
    if let Some(Gauge::Memory { nodes, .. }) = machine.gauges().find(shared) {
        let text = format!(
            "controllers of nodes {} are not told apart: each node is taken to have its share",
            joined(nodes)
        );
        found.push(finding("limited", "memory bandwidth", text, ""));
    }
    for AbsentGauge {
        gauge,
        counter,
        why,
    } in machine.absent()
    {
        let text = format!("not counted: `{counter}`: {why}");
        found.push(finding(
            "limited",
            &in_words(gauge),
            text,
            why.remedy().unwrap_or_default(),
        ));
    }
    found
}

fn in_words(gauge: &Gauge) -> String {
    match gauge {
        Gauge::Memory { nodes, flow } => {
            let what = match flow {
                Flow::Read => "reads",
                Flow::Written => "writes",
                Flow::Both => "reads and writes",
                Flow::ReadQueue | Flow::ReadQueued => "queue of reads",
                Flow::WriteQueue | Flow::WriteQueued => "queue of writes",
            };
            format!("{what} of memory on node {}", joined(nodes))
        }
        Gauge::Link { package, link } => format!("link {link} of package {package}"),
        Gauge::Energy {
            package,
            domain: of,
        } => {
            format!("energy of package {package}, {}", domain(*of))
        }
    }
}

/// Nodes whose controllers are not told apart share what these carry evenly. What is not known of all
/// bytes of a node is not told: half of them would look like an idle controller.
fn traffic(rates: &MachineRates) -> Vec<NodeTraffic> {
    let mut traffic = Vec::new();
    for rate in &rates.memory {
        let count = rate.nodes.len().max(1) as f64;
        let (read, written) = match (rate.both, rate.read, rate.written) {
            (Some(both), ..) => (both, 0.0),
            (None, Some(read), Some(written)) => (read, written),
            _ => continue,
        };
        traffic.extend(rate.nodes.iter().map(|&node| NodeTraffic {
            node,
            read_bytes_per_s: whole(read / count),
            written_bytes_per_s: whole(written / count),
        }));
    }
    traffic
}

fn add(sum: &mut ProgramCounts, more: ProgramCounts) {
    for (sum, more) in [
        (&mut sum.cpu_ns, more.cpu_ns),
        (&mut sum.instructions, more.instructions),
        (&mut sum.cycles, more.cycles),
        (&mut sum.faults, more.faults),
        (&mut sum.switches, more.switches),
    ] {
        if let Some(more) = more {
            *sum.get_or_insert(0.0) += more;
        }
    }
}

fn numbers(nodes: &[NodeId]) -> Vec<u32> {
    nodes.iter().map(|node| node.0).collect()
}

fn joined(nodes: &[NodeId]) -> String {
    let numbers: Vec<String> = nodes.iter().map(ToString::to_string).collect();
    numbers.join(",")
}

const fn domain(domain: Domain) -> &'static str {
    match domain {
        Domain::Package => "package",
        Domain::Memory => "memory",
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "counts are not negative; `as` saturates"
)]
const fn whole(count: f64) -> u64 {
    count as u64
}

const INSTRUCTIONS: Metric = counter(
    "numad_programs_instructions_total",
    "Instructions of attached programs, without the kernel's.",
);
const CYCLES: Metric = counter(
    "numad_programs_cycles_total",
    "Cycles of attached programs, without the kernel's.",
);
const FAULTS: Metric = counter(
    "numad_programs_page_faults_total",
    "Page faults of attached programs.",
);
const SWITCHES: Metric = counter(
    "numad_programs_context_switches_total",
    "Context switches of attached programs.",
);
const PROGRAM_CPU: Metric = counter(
    "numad_programs_cpu_seconds_total",
    "Processor time of attached programs.",
);
const OPEN: Metric = gauge("numad_counters_open", "Descriptors of open counters.");
const READ: Metric = gauge(
    "numad_memory_read_bytes_per_second",
    "Bytes read from the memory of nodes.",
);
const WRITTEN: Metric = gauge(
    "numad_memory_written_bytes_per_second",
    "Bytes written to the memory of nodes.",
);
const BOTH: Metric = gauge(
    "numad_memory_bytes_per_second",
    "Bytes read and written where they are not told apart.",
);
const SENT: Metric = gauge(
    "numad_link_sent_bytes_per_second",
    "Bytes sent over a link between packages.",
);
const POWER: Metric = gauge(
    "numad_power_watts",
    "Power of packages and of their memory.",
);

#[cfg(test)]
#[path = "meters_tests.rs"]
mod tests;
