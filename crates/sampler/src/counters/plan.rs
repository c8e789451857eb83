//! Which events of this machine tell what memory, links and packages do.
//!
//! The kernel names some of them itself (`cas_count_read`, `energy-pkg`), with a scale and a unit. The
//! others are written down here as perf's own lists have them (tools/perf/pmu-events/arch/x86), and are only
//! taken where what the kernel does name shows which generation it is:
//!
//! | source | told by | events |
//! | --- | --- | --- |
//! | `uncore_imc*`, `uncore_hbm*` | names of the kernel | reads and writes, 64 bytes each |
//! | `uncore_imc_free_running*` | names of the kernel | the same, where no other controller has names |
//! | queues of `uncore_imc*` | `cas_count_read` is `event=0x04,umask=0x03` (to Skylake), or `0x04/0x0f` and `0x05/0xcf` (from Ice Lake) | `UNC_M_{RPQ,WPQ}_{OCCUPANCY,INSERTS}` |
//! | `amd_umc*` | the name | `umc_cas_cmd.rd` and `.wr`, 64 bytes each |
//! | `amd_df`, Zen 1 to 3 | `umask` has 8 bits | `dram_channel_data_controller_*`, 64 bytes; `remote_outbound_data_controller_*`, 32 bytes |
//! | `uncore_upi*` | the name | `UNC_UPI_TxL_FLITS.ALL_DATA`, nine flits for 64 bytes |
//! | `power*` | names of the kernel | `energy-pkg`, `energy-ram` |
//!
//! Which node a controller belongs to, no file says. A source names one processor of each package, so its
//! counts are those of the package's memory. Where a package has several memory nodes (sub-NUMA clustering,
//! NPS), its counts are shared out evenly over them, which is approximate, and said to be.

use std::collections::BTreeMap;

use topology::{Cpu, NodeId, PackageId, Topology};

use super::open::{CounterSpec, EventCode, Whom};
use crate::pmu::{Pmu, Pmus, Role};

/// What some counters add up to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Gauge {
    /// Something of memory controllers.
    Memory {
        /// The nodes whose memory it is, ascending; several when it is not known which.
        nodes: Vec<NodeId>,
        /// What.
        flow: Flow,
    },
    /// Energy in joules.
    Energy {
        /// Of which package.
        package: PackageId,
        /// Of what in it.
        domain: Domain,
    },
    /// Bytes sent over a link.
    Link {
        /// By which package.
        package: PackageId,
        /// The link's name, such as `upi_0`.
        link: String,
    },
}

/// What a memory controller counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Flow {
    /// Bytes read.
    Read,
    /// Bytes written.
    Written,
    /// Bytes read and written, where the controller does not tell them apart.
    Both,
    /// Requests in the queue of reads, added up clock by clock.
    ReadQueue,
    /// Requests that entered it.
    ReadQueued,
    /// Requests in the queue of writes, added up clock by clock.
    WriteQueue,
    /// Requests that entered it.
    WriteQueued,
}

/// What energy is spent on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Domain {
    /// The package: cores, caches, controllers.
    Package,
    /// The memory behind it.
    Memory,
}

/// A counter to open.
#[derive(Clone, Debug, PartialEq)]
pub struct Planned {
    /// What it is a part of.
    pub gauge: Gauge,
    /// How it is opened.
    pub spec: CounterSpec,
    /// What one count stands for: bytes, joules, or requests.
    pub unit: f64,
    /// What people call it, as in `uncore_imc_0/cas_count_read/`.
    pub name: String,
}

/// Something that cannot be counted here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lack {
    /// What, as in `memory bandwidth`.
    pub subject: &'static str,
    /// Why.
    pub why: String,
}

/// What can be counted here, and what cannot.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Counters, the most useful gauges first.
    pub planned: Vec<Planned>,
    /// What is missing.
    pub lacks: Vec<Lack>,
}

/// What the subjects of [`Lack`] are called.
pub const MEMORY: &str = "memory bandwidth";
/// See [`MEMORY`].
pub const QUEUES: &str = "memory queues";
/// See [`MEMORY`].
pub const LINKS: &str = "traffic of links";
/// See [`MEMORY`].
pub const ENERGY: &str = "energy";

const MIB: f64 = 1_048_576.0;
/// A cache line, which a command to memory moves.
const LINE: f64 = 64.0;
/// Bytes of data in one flit of a UPI link: nine carry a line.
const FLIT: f64 = 64.0 / 9.0;
/// Bytes in a packet on AMD's links.
const PACKET: f64 = 32.0;

impl Plan {
    /// Looks through the sources of a machine.
    #[must_use]
    pub fn new(pmus: &Pmus, topology: &Topology) -> Self {
        let mut plan = Self::default();
        let mut draft = Draft {
            plan: &mut plan,
            topology,
        };
        draft.memory(pmus);
        draft.energy(pmus);
        draft.links(pmus);
        draft.queues(pmus);
        plan
    }

    /// The PMUs of the kinds of cores, where a machine has several kinds; empty elsewhere.
    #[must_use]
    pub fn cores(pmus: &Pmus) -> Vec<u32> {
        let hybrid = |pmu: &&Pmu| matches!(pmu.role(), Role::HybridCore(_));
        pmus.iter().filter(hybrid).map(|pmu| pmu.kind).collect()
    }

    fn has(&self, wanted: impl Fn(&Gauge) -> bool) -> bool {
        self.planned.iter().any(|planned| wanted(&planned.gauge))
    }
}

struct Draft<'a> {
    plan: &'a mut Plan,
    topology: &'a Topology,
}

/// Names that the kernel gives to reads and to writes; with an ending for each of several channels.
const READS: [&str; 4] = ["cas_count_read", "data_reads", "data_read", "read"];
const WRITES: [&str; 4] = ["cas_count_write", "data_writes", "data_write", "write"];
const CHANNELS: [&str; 2] = ["_sch0", "_sch1"];

impl Draft<'_> {
    fn memory(&mut self, pmus: &Pmus) {
        let free_running = |pmu: &Pmu| pmu.name.contains("_free_running");
        let controllers = || pmus.of(Role::MemoryController);
        for pmu in controllers().filter(|pmu| !free_running(pmu)) {
            if pmu.name.starts_with("amd_umc") {
                self.add_memory(pmu, Flow::Read, "event=0x0a,rdwrmask=0x1", LINE);
                self.add_memory(pmu, Flow::Written, "event=0x0a,rdwrmask=0x2", LINE);
            } else {
                self.named_flows(pmu);
            }
        }
        let is_memory = |gauge: &Gauge| matches!(gauge, Gauge::Memory { .. });
        if !self.plan.has(is_memory) {
            controllers()
                .filter(|pmu| free_running(pmu))
                .for_each(|pmu| self.named_flows(pmu));
        }
        if !self.plan.has(is_memory)
            && let Some(fabric) = early_fabric(pmus)
        {
            for channel in 0..8_u32 {
                let event = format!("event={:#x},umask=0x38", 0x07 + channel * 0x40);
                self.add_memory(fabric, Flow::Both, &event, LINE);
            }
        }
        if !self.plan.has(is_memory) {
            let why = match controllers().next() {
                Some(pmu) => format!("no event of `{}` is known to count it", pmu.name),
                None => "the kernel shows no memory controller that counts".to_owned(),
            };
            self.lack(MEMORY, why);
        }
    }

    fn named_flows(&mut self, pmu: &Pmu) {
        for (flow, names) in [(Flow::Read, READS), (Flow::Written, WRITES)] {
            for alias in named(pmu, &names) {
                let unit = unit_of(pmu, &alias).unwrap_or(LINE);
                self.add_memory(pmu, flow, &alias, unit);
            }
        }
    }

    fn queues(&mut self, pmus: &Pmus) {
        let before = self.plan.planned.len();
        for pmu in pmus.of(Role::MemoryController) {
            let flows = [
                Flow::ReadQueue,
                Flow::ReadQueued,
                Flow::WriteQueue,
                Flow::WriteQueued,
            ];
            for (flow, events) in flows.into_iter().zip(queue_events(pmu)) {
                for event in events {
                    self.add_memory(pmu, flow, event, 1.0);
                }
            }
        }
        if self.plan.planned.len() == before {
            let why = "no memory controller here is known to count its queues";
            self.lack(QUEUES, why.to_owned());
        }
    }

    fn energy(&mut self, pmus: &Pmus) {
        for pmu in pmus.of(Role::Energy) {
            let domains = [
                ("energy-pkg", Domain::Package),
                ("energy-ram", Domain::Memory),
            ];
            for (alias, domain) in domains {
                if let Some(unit) = unit_of(pmu, alias) {
                    self.add(pmu, alias, unit, |cpu| {
                        let package = cpu.package;
                        Ok(Gauge::Energy { package, domain })
                    });
                }
            }
        }
        if !self.plan.has(|gauge| matches!(gauge, Gauge::Energy { .. })) {
            self.lack(ENERGY, "the kernel shows no energy counters".to_owned());
        }
    }

    fn links(&mut self, pmus: &Pmus) {
        for pmu in pmus
            .of(Role::Link)
            .filter(|pmu| pmu.name.starts_with("uncore_upi"))
        {
            let link = pmu.name.trim_start_matches("uncore_").to_owned();
            self.add_link(pmu, "event=0x02,umask=0x0f", FLIT, &link);
        }
        if let Some(fabric) = early_fabric(pmus) {
            for number in 0..4_u32 {
                let event = format!("event={:#x},umask=0x02", 0x7c7 + number * 0x40);
                self.add_link(fabric, &event, PACKET, &format!("df_{number}"));
            }
        }
        if !self.plan.has(|gauge| matches!(gauge, Gauge::Link { .. })) {
            let why = match pmus.of(Role::Link).next() {
                Some(pmu) => format!("no event of `{}` is known to count it", pmu.name),
                None => "the kernel shows no link between packages that counts".to_owned(),
            };
            self.lack(LINKS, why);
        }
    }

    fn add_link(&mut self, pmu: &Pmu, event: &str, unit: f64, link: &str) {
        self.add(pmu, event, unit, |cpu| {
            Ok(Gauge::Link {
                package: cpu.package,
                link: link.to_owned(),
            })
        });
    }

    fn add_memory(&mut self, pmu: &Pmu, flow: Flow, event: &str, unit: f64) {
        let topology = self.topology;
        let alone = packages(pmu, topology);
        self.add(pmu, event, unit, |cpu| {
            let several = alone.get(&cpu.package).is_some_and(|&count| count > 1);
            let nodes = match cpu.node.filter(|_| several) {
                Some(node) => vec![node],
                None => memory_of(cpu, topology),
            };
            if nodes.is_empty() {
                return Err(format!("package `{}` has no memory node", cpu.package));
            }
            Ok(Gauge::Memory { nodes, flow })
        });
    }

    /// Plans an event on every processor that its source wants it opened on.
    fn add(
        &mut self,
        pmu: &Pmu,
        event: &str,
        unit: f64,
        gauge: impl Fn(&Cpu) -> Result<Gauge, String>,
    ) {
        let name = format!("{}/{event}/", pmu.name);
        let code = match pmu.encode(event) {
            Ok(encoded) => match encoded.config {
                [config, config1, config2, 0] => EventCode {
                    pmu: pmu.kind,
                    config,
                    config1,
                    config2,
                },
                _ => return self.lack(MEMORY, format!("`{name}` needs a newer kernel interface")),
            },
            Err(error) => return self.lack(MEMORY, error.to_string()),
        };
        let Some(cpus) = &pmu.cpus else {
            let why = format!("the kernel names no processor on which to open `{name}`");
            return self.lack(MEMORY, why);
        };
        for id in cpus.iter() {
            let Some(cpu) = self.topology.cpu(id) else {
                continue;
            };
            match gauge(cpu) {
                Ok(gauge) => self.plan.planned.push(Planned {
                    gauge,
                    spec: CounterSpec {
                        event: code,
                        whom: Whom::Machine(id),
                        user_only: false,
                    },
                    unit,
                    name: name.clone(),
                }),
                Err(why) => self.lack(MEMORY, format!("`{name}`: {why}")),
            }
        }
    }

    fn lack(&mut self, subject: &'static str, why: String) {
        let lack = Lack { subject, why };
        if self.plan.lacks.len() < LACKS_MAX && !self.plan.lacks.contains(&lack) {
            self.plan.lacks.push(lack);
        }
    }
}

/// More reasons than this help nobody.
const LACKS_MAX: usize = 16;

/// How many processors of each package a source names.
fn packages(pmu: &Pmu, topology: &Topology) -> BTreeMap<PackageId, usize> {
    let mut counts = BTreeMap::new();
    for id in pmu.cpus.iter().flat_map(topology::CpuSet::iter) {
        if let Some(cpu) = topology.cpu(id) {
            *counts.entry(cpu.package).or_default() += 1;
        }
    }
    counts
}

/// Nodes with memory that have processors of this one's package.
fn memory_of(cpu: &Cpu, topology: &Topology) -> Vec<NodeId> {
    let within = |node: &topology::Node| {
        let mut cpus = topology.cpus().iter();
        cpus.any(|other| other.package == cpu.package && node.cpus.contains(other.id))
    };
    topology
        .nodes()
        .iter()
        .filter(|node| node.memory_bytes > 0 && within(node))
        .map(|node| node.id)
        .collect()
}

/// The first of the names that a source has, and all its channels.
fn named(pmu: &Pmu, names: &[&str]) -> Vec<String> {
    for name in names {
        if pmu.aliases.contains_key(*name) {
            return vec![(*name).to_owned()];
        }
        let channels: Vec<String> = CHANNELS
            .iter()
            .map(|channel| format!("{name}{channel}"))
            .filter(|alias| pmu.aliases.contains_key(alias))
            .collect();
        if !channels.is_empty() {
            return channels;
        }
    }
    Vec::new()
}

/// What one count of a named event stands for, in bytes or joules; none where the kernel does not say, or
/// in a unit that is not known.
fn unit_of(pmu: &Pmu, alias: &str) -> Option<f64> {
    let alias = pmu.aliases.get(alias)?;
    let unit = match alias.unit.as_deref()? {
        "MiB" => MIB,
        "KiB" => 1024.0,
        "MB" => 1e6,
        "Bytes" | "bytes" | "B" | "Joules" => 1.0,
        _ => return None,
    };
    alias
        .scale
        .map(|scale| scale * unit)
        .filter(|unit| *unit > 0.0)
}

/// Events of both queues: fill of reads, entries of reads, fill of writes, entries of writes.
fn queue_events(pmu: &Pmu) -> [&'static [&'static str]; 4] {
    let reads = |description| pmu.encode(description) == pmu.encode("cas_count_read");
    if !pmu.aliases.contains_key("cas_count_read") {
        return [&[]; 4];
    }
    if reads("event=0x04,umask=0x03") {
        return [
            &["event=0x80"],
            &["event=0x10"],
            &["event=0x81"],
            &["event=0x20"],
        ];
    }
    if reads("event=0x04,umask=0x0f") || reads("event=0x05,umask=0xcf") {
        return [
            &["event=0x80", "event=0x81"],
            &["event=0x10,umask=0x03"],
            &["event=0x82", "event=0x83"],
            &["event=0x20,umask=0x03"],
        ];
    }
    [&[]; 4]
}

/// The data fabric of Zen 1 to 3. That of Zen 4 and later has a wider mask and other events.
fn early_fabric(pmus: &Pmus) -> Option<&Pmu> {
    let fabric = pmus.find("amd_df")?;
    let narrow = fabric.has_term("umask") && fabric.encode("umask=0x100").is_err();
    narrow.then_some(fabric)
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
