//! What memory, links and packages do, in rates between two readings.

use std::collections::BTreeMap;
use std::time::Duration;

use numad_core::Time;
use topology::{NodeId, PackageId};

use super::open::{Counter, CounterOpener, CounterRefused};
use super::plan::{Domain, Flow, Gauge, Plan};
use super::reading::Reading;

/// Least time between two readings. A rate over less is noise, and each reading of a counter interrupts
/// the processor it is open on.
pub const READ_EVERY: Duration = Duration::from_millis(200);

/// Time that must pass for each open counter: reading one takes a few microseconds of two processors, so
/// that a thousand of them cost at most 1 % of one.
const READ_EVERY_PER_COUNTER: Duration = Duration::from_micros(500);

/// A longest time over which a rate still says something of now.
const STALE: Duration = Duration::from_secs(60);

/// Rates of a machine; what is absent is not counted or not known.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MachineRates {
    /// By the nodes whose memory it is.
    pub memory: Vec<MemoryRate>,
    /// By package and name.
    pub links: Vec<LinkRate>,
    /// By package and domain.
    pub power: Vec<PowerRate>,
}

/// What the memory of some nodes carries.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MemoryRate {
    /// The nodes, ascending; several when controllers cannot be told apart by node.
    pub nodes: Vec<NodeId>,
    /// Bytes read per second.
    pub read: Option<f64>,
    /// Bytes written per second.
    pub written: Option<f64>,
    /// Bytes read and written per second, where they are not told apart.
    pub both: Option<f64>,
    /// How long a read waits in the controller's queue on average, in clocks of the controller.
    pub read_wait_clocks: Option<f64>,
    /// The same for writes.
    pub write_wait_clocks: Option<f64>,
}

impl MemoryRate {
    /// All bytes per second; none unless all are known.
    #[must_use]
    pub fn total(&self) -> Option<f64> {
        match (self.both, self.read, self.written) {
            (Some(both), ..) => Some(both),
            (None, Some(read), Some(written)) => Some(read + written),
            _ => None,
        }
    }

    fn slot(&mut self, flow: Flow) -> Option<&mut Option<f64>> {
        match flow {
            Flow::Read => Some(&mut self.read),
            Flow::Written => Some(&mut self.written),
            Flow::Both => Some(&mut self.both),
            Flow::ReadQueue | Flow::ReadQueued | Flow::WriteQueue | Flow::WriteQueued => None,
        }
    }
}

/// What a package sends over a link.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkRate {
    /// Who sends.
    pub package: PackageId,
    /// Over which.
    pub link: String,
    /// Bytes per second.
    pub sent: f64,
}

/// What a package or its memory takes.
#[derive(Clone, Debug, PartialEq)]
pub struct PowerRate {
    /// Which package.
    pub package: PackageId,
    /// What in it.
    pub domain: Domain,
    /// Joules per second.
    pub watts: f64,
}

/// A gauge that cannot be read.
#[derive(Clone, Debug, PartialEq)]
pub struct AbsentGauge {
    /// Which.
    pub gauge: Gauge,
    /// The counter that was refused, or failed.
    pub counter: String,
    /// Why.
    pub why: CounterRefused,
}

/// Counters of a machine.
#[derive(Debug)]
pub struct MachineCounters {
    gauges: BTreeMap<Gauge, Vec<Open>>,
    absent: Vec<AbsentGauge>,
    read_at: Time,
    rates: MachineRates,
}

#[derive(Debug)]
struct Open {
    counter: Box<dyn Counter>,
    name: String,
    unit: f64,
    last: Reading,
}

impl MachineCounters {
    /// Opens what is planned, with at most `room` descriptors. A gauge of which a part is refused is left
    /// out wholly, and is [`Self::absent`]; half a node's controllers would look like half its traffic.
    #[must_use]
    pub fn begin(plan: &Plan, opener: &mut dyn CounterOpener, room: usize, now: Time) -> Self {
        let mut counters = Self {
            gauges: BTreeMap::new(),
            absent: Vec::new(),
            read_at: now,
            rates: MachineRates::default(),
        };
        for planned in &plan.planned {
            if counters
                .absent
                .iter()
                .any(|absent| absent.gauge == planned.gauge)
            {
                continue;
            }
            let left = room.saturating_sub(counters.descriptors());
            let opened = if left == 0 {
                Err(CounterRefused::OverLimit { wanted: 1, left })
            } else {
                opener.open(&planned.spec)
            };
            match opened {
                Ok(counter) => {
                    let open = Open {
                        counter,
                        name: planned.name.clone(),
                        unit: planned.unit,
                        last: Reading::default(),
                    };
                    counters
                        .gauges
                        .entry(planned.gauge.clone())
                        .or_default()
                        .push(open);
                }
                Err(why) => counters.drop_gauge(&planned.gauge, &planned.name, why),
            }
        }
        counters
    }

    fn drop_gauge(&mut self, gauge: &Gauge, counter: &str, why: CounterRefused) {
        self.gauges.remove(gauge);
        self.absent.push(AbsentGauge {
            gauge: gauge.clone(),
            counter: counter.to_owned(),
            why,
        });
    }

    /// Reads all counters if it is time for that; gives the rates that are known.
    pub fn read(&mut self, now: Time) -> &MachineRates {
        let count = u32::try_from(self.descriptors()).unwrap_or(u32::MAX);
        let span = now.since(self.read_at);
        if count > 0 && span >= READ_EVERY.max(READ_EVERY_PER_COUNTER.saturating_mul(count)) {
            self.read_at = now;
            let counted = self.read_all();
            // What was asked for last an age ago says nothing of now; the next reading will.
            self.rates = if span > STALE {
                MachineRates::default()
            } else {
                rates_of(&counted, span.as_secs_f64())
            };
        }
        &self.rates
    }

    /// What each gauge counted since the last reading; those that cannot say are left out.
    fn read_all(&mut self) -> BTreeMap<Gauge, f64> {
        let mut counted = BTreeMap::new();
        let mut failed = Vec::new();
        for (gauge, counters) in &mut self.gauges {
            let mut sum = Some(0.0);
            for open in counters {
                let Ok(reading) = open.counter.read() else {
                    failed.push((gauge.clone(), open.name.clone()));
                    sum = None;
                    break;
                };
                let since = reading.since(open.last);
                open.last = reading;
                let count = since.and_then(super::Counted::scaled);
                sum = sum.zip(count).map(|(sum, count)| sum + count * open.unit);
            }
            if let Some(sum) = sum {
                counted.insert(gauge.clone(), sum);
            }
        }
        for (gauge, name) in failed {
            self.drop_gauge(&gauge, &name, CounterRefused::Failed);
        }
        counted
    }

    /// The rates of the last reading.
    #[must_use]
    pub const fn rates(&self) -> &MachineRates {
        &self.rates
    }

    /// What cannot be read, and why.
    #[must_use]
    pub fn absent(&self) -> &[AbsentGauge] {
        &self.absent
    }

    /// What can.
    pub fn gauges(&self) -> impl Iterator<Item = &Gauge> {
        self.gauges.keys()
    }

    /// Descriptors in use.
    #[must_use]
    pub fn descriptors(&self) -> usize {
        self.gauges.values().map(Vec::len).sum()
    }
}

fn rates_of(counted: &BTreeMap<Gauge, f64>, span_s: f64) -> MachineRates {
    let mut memory: BTreeMap<&[NodeId], MemoryRate> = BTreeMap::new();
    let mut rates = MachineRates::default();
    for (gauge, &count) in counted {
        let per_second = count / span_s;
        match gauge {
            Gauge::Memory { nodes, flow } => {
                let rate = memory.entry(nodes).or_insert_with(|| MemoryRate {
                    nodes: nodes.clone(),
                    ..MemoryRate::default()
                });
                if let Some(slot) = rate.slot(*flow) {
                    *slot = Some(per_second);
                }
            }
            Gauge::Link { package, link } => rates.links.push(LinkRate {
                package: *package,
                link: link.clone(),
                sent: per_second,
            }),
            Gauge::Energy { package, domain } => rates.power.push(PowerRate {
                package: *package,
                domain: *domain,
                watts: per_second,
            }),
        }
    }
    for rate in memory.values_mut() {
        let of = |flow| {
            let nodes = rate.nodes.clone();
            counted.get(&Gauge::Memory { nodes, flow }).copied()
        };
        let wait = |fill: Option<f64>, entered: Option<f64>| {
            let (fill, entered) = (fill?, entered?);
            (entered > 0.0).then(|| fill / entered)
        };
        rate.read_wait_clocks = wait(of(Flow::ReadQueue), of(Flow::ReadQueued));
        rate.write_wait_clocks = wait(of(Flow::WriteQueue), of(Flow::WriteQueued));
    }
    rates.memory = memory.into_values().collect();
    rates
}

#[cfg(test)]
#[path = "machine_tests.rs"]
mod tests;
