//! What one attached program does: processor time, instructions, cycles, faults, switches.
//!
//! # How threads are followed
//!
//! Each thread that is alive at the beginning gets an event of its own with `inherit`, on whatever
//! processor it runs. From then on nothing has to be done: a thread or process that a counted one makes
//! is counted from its first instruction, an exec changes nothing, and what a thread did stays in the sum
//! when it ends. No new descriptor is ever needed, so none is opened while windows pass.
//!
//! Rejected: *one event per processor and control group*, which counts neighbours in the same group, and
//! most programs that are attached by number share theirs with a whole session; *one event per processor
//! for everyone*, whose counts cannot be told apart without a record of every context switch; *a group of
//! events per thread*, which the kernel did not combine with `inherit` before Linux 6.13. Events are
//! therefore read one by one, and each is scaled by its own share of time.
//!
//! The price is a descriptor for each thread and event, which is what other tools ran out of. So there is a
//! limit for all programs together, and a quantity whose events do not all fit is not counted at all: a
//! figure never stands for a part of a program unsaid.
//!
//! A thread that was made by one not yet counted while events were being opened cannot be told from one
//! that inherited. Threads are therefore listed again afterwards, and if there are new ones all is closed
//! and opened anew, at most [`ATTEMPTS`] times; after that some may be missing, and a note says so.

use std::collections::BTreeSet;
use std::fmt;

use topology::Tid;

use super::open::{Counter, CounterOpener, CounterRefused, CounterSpec, EventCode, Whom};
use super::reading::{Counted, Reading};

/// Something that is counted of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Quantity {
    /// Processor time in nanoseconds.
    CpuTime,
    /// Instructions finished, without the kernel's.
    Instructions,
    /// Cycles spent, without the kernel's.
    Cycles,
    /// Page faults.
    Faults,
    /// Context switches.
    Switches,
}

/// In the order of what is opened first while descriptors last.
pub const QUANTITIES: [Quantity; 5] = [
    Quantity::CpuTime,
    Quantity::Instructions,
    Quantity::Cycles,
    Quantity::Faults,
    Quantity::Switches,
];

/// Times that everything is opened anew because threads came meanwhile.
pub const ATTEMPTS: u32 = 4;

impl Quantity {
    /// The events whose sum it is. `cores` are the PMUs of the kinds of cores of a machine that has several.
    fn events(self, cores: &[u32]) -> Vec<EventCode> {
        let each = |event: fn(u32) -> EventCode| match cores {
            [] => vec![event(0)],
            cores => cores.iter().map(|&core| event(core)).collect(),
        };
        match self {
            Self::CpuTime => vec![EventCode::TASK_CLOCK],
            Self::Instructions => each(EventCode::instructions),
            Self::Cycles => each(EventCode::cycles),
            Self::Faults => vec![EventCode::PAGE_FAULTS],
            Self::Switches => vec![EventCode::CONTEXT_SWITCHES],
        }
    }

    /// Instructions and cycles are of use together only. Without the kernel's share, so that what
    /// our own moves cost does not look like progress.
    const fn is_of_hardware(self) -> bool {
        matches!(self, Self::Instructions | Self::Cycles)
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::CpuTime => "processor time",
            Self::Instructions => "instructions",
            Self::Cycles => "cycles",
            Self::Faults => "page faults",
            Self::Switches => "context switches",
        })
    }
}

/// What a program did between two readings; none where it is not counted or not known.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ProgramCounts {
    /// Processor time in nanoseconds.
    pub cpu_ns: Option<f64>,
    /// Instructions outside of the kernel.
    pub instructions: Option<f64>,
    /// Cycles outside of the kernel.
    pub cycles: Option<f64>,
    /// Page faults.
    pub faults: Option<f64>,
    /// Context switches.
    pub switches: Option<f64>,
}

impl ProgramCounts {
    /// Instructions per cycle; none without either, or without a cycle.
    #[must_use]
    pub fn ipc(&self) -> Option<f64> {
        let (instructions, cycles) = (self.instructions?, self.cycles?);
        (cycles > 0.0).then(|| instructions / cycles)
    }

    fn slot(&mut self, quantity: Quantity) -> &mut Option<f64> {
        match quantity {
            Quantity::CpuTime => &mut self.cpu_ns,
            Quantity::Instructions => &mut self.instructions,
            Quantity::Cycles => &mut self.cycles,
            Quantity::Faults => &mut self.faults,
            Quantity::Switches => &mut self.switches,
        }
    }
}

/// Counters of one program.
#[derive(Debug)]
pub struct ProgramCounters {
    sets: Vec<Set>,
    absent: Vec<(Quantity, CounterRefused)>,
    /// Threads that may be missing.
    unsure: usize,
    total: ProgramCounts,
    /// Least share of the time in which the hardware counted in the last window.
    coverage: f64,
}

/// All counters of one quantity.
#[derive(Debug)]
struct Set {
    quantity: Quantity,
    counters: Vec<Open>,
}

#[derive(Debug)]
struct Open {
    counter: Box<dyn Counter>,
    last: Reading,
}

/// What is needed to begin.
#[derive(Debug)]
pub struct Beginning<'a> {
    /// Opens.
    pub opener: &'a mut dyn CounterOpener,
    /// PMUs of the kinds of cores, on a machine that has several; empty elsewhere.
    pub cores: &'a [u32],
    /// Descriptors that may be used.
    pub room: usize,
}

impl ProgramCounters {
    /// Begins to count the threads that `threads` lists, and everything they make from now on. It is
    /// asked again to see whether any came meanwhile.
    ///
    /// Never fails: what cannot be counted is [`Self::absent`].
    #[must_use]
    pub fn begin(mut beginning: Beginning<'_>, threads: &mut dyn FnMut() -> Vec<Tid>) -> Self {
        let mut listed: BTreeSet<Tid> = threads().into_iter().collect();
        let mut attempt = 1;
        loop {
            let mut counters = Self::open(&mut beginning, &listed);
            let now: BTreeSet<Tid> = threads().into_iter().collect();
            let fresh = now.difference(&listed).count();
            if fresh == 0 || attempt == ATTEMPTS {
                counters.unsure = fresh;
                return counters;
            }
            listed = now;
            attempt += 1;
        }
    }

    fn open(beginning: &mut Beginning<'_>, threads: &BTreeSet<Tid>) -> Self {
        let mut counters = Self {
            sets: Vec::new(),
            absent: Vec::new(),
            unsure: 0,
            total: ProgramCounts::default(),
            coverage: 1.0,
        };
        let mut in_the_way: Option<CounterRefused> = None;
        for quantity in QUANTITIES {
            let of_hardware = |(other, _): &&(Quantity, CounterRefused)| {
                quantity.is_of_hardware() && other.is_of_hardware()
            };
            let partner = counters
                .absent
                .iter()
                .find(of_hardware)
                .map(|(_, why)| *why);
            let opened = match partner.or(in_the_way) {
                Some(why) => Err(why),
                None => {
                    let room = beginning.room.saturating_sub(counters.descriptors());
                    Set::open(beginning, quantity, threads, room)
                }
            };
            match opened {
                Ok(set) => counters.sets.push(set),
                Err(why) => {
                    in_the_way = in_the_way.or(Some(why).filter(|why| why.is_general()));
                    counters.drop_set(quantity, why);
                }
            }
        }
        counters
    }

    /// Closes a quantity, and with one of hardware the other.
    fn drop_set(&mut self, quantity: Quantity, why: CounterRefused) {
        let goes = |other: Quantity| {
            other == quantity || (other.is_of_hardware() && quantity.is_of_hardware())
        };
        let gone: Vec<Quantity> = self.sets.iter().map(|set| set.quantity).collect();
        self.sets.retain(|set| !goes(set.quantity));
        let gone = gone
            .into_iter()
            .filter(|&other| goes(other) && other != quantity);
        self.absent.extend(gone.map(|other| (other, why)));
        self.absent.push((quantity, why));
        self.absent.sort_by_key(|(quantity, _)| *quantity);
    }

    /// What the program did since the last reading, or since the beginning.
    ///
    /// A counter that fails takes its quantity with it, for good; one that cannot say what it missed makes
    /// its quantity unknown this once.
    pub fn read(&mut self) -> ProgramCounts {
        let mut counts = ProgramCounts::default();
        let mut failed = Vec::new();
        self.coverage = 1.0;
        for set in &mut self.sets {
            match set.read() {
                Ok(told) => {
                    if let Some((_, coverage)) = told {
                        self.coverage = self.coverage.min(coverage);
                    }
                    *counts.slot(set.quantity) = told.map(|(count, _)| count);
                }
                Err(()) => failed.push(set.quantity),
            }
        }
        for quantity in failed {
            self.drop_set(quantity, CounterRefused::Failed);
            self.absent.dedup_by_key(|(quantity, _)| *quantity);
        }
        for quantity in QUANTITIES {
            if let Some(count) = *counts.slot(quantity) {
                *self.total.slot(quantity).get_or_insert(0.0) += count;
            }
        }
        counts
    }

    /// What it did since the beginning, up to the last reading.
    #[must_use]
    pub const fn total(&self) -> ProgramCounts {
        self.total
    }

    /// Share of the time that the hardware counted between the last two readings, 0 to 1: less than 1 when
    /// counters took turns.
    #[must_use]
    pub const fn coverage(&self) -> f64 {
        self.coverage
    }

    /// What is not counted, and why.
    #[must_use]
    pub fn absent(&self) -> &[(Quantity, CounterRefused)] {
        &self.absent
    }

    /// Threads that came while counting began and may be missing.
    #[must_use]
    pub const fn unsure(&self) -> usize {
        self.unsure
    }

    /// Descriptors in use.
    #[must_use]
    pub fn descriptors(&self) -> usize {
        self.sets.iter().map(|set| set.counters.len()).sum()
    }
}

impl Set {
    fn open(
        beginning: &mut Beginning<'_>,
        quantity: Quantity,
        threads: &BTreeSet<Tid>,
        left: usize,
    ) -> Result<Self, CounterRefused> {
        let events = quantity.events(beginning.cores);
        let wanted = threads.len().saturating_mul(events.len());
        if wanted > left {
            return Err(CounterRefused::OverLimit { wanted, left });
        }
        let mut counters = Vec::with_capacity(wanted);
        for &tid in threads {
            for &event in &events {
                let spec = CounterSpec {
                    event,
                    whom: Whom::Task(tid),
                    user_only: quantity.is_of_hardware(),
                };
                match beginning.opener.open(&spec) {
                    Ok(counter) => counters.push(Open {
                        counter,
                        last: Reading::default(),
                    }),
                    // It did what it did; others go on.
                    Err(CounterRefused::Gone) => {}
                    Err(why) => return Err(why),
                }
            }
        }
        Ok(Self { quantity, counters })
    }

    /// What all of them counted, and the share of time that they ran; none when that is not known.
    fn read(&mut self) -> Result<Option<(f64, f64)>, ()> {
        let (mut sum, mut asked, mut known, mut ran) = (0.0, 0.0, 0.0, 0.0);
        let mut whole = true;
        for open in &mut self.counters {
            let Ok(now) = open.counter.read() else {
                return Err(());
            };
            let counted: Option<Counted> = now.since(open.last);
            open.last = now;
            let Some(counted) = counted else {
                whole = false;
                continue;
            };
            asked += counted.enabled_ns as f64;
            if let Some(scaled) = counted.scaled() {
                sum += scaled;
                known += counted.enabled_ns as f64;
                ran += counted.enabled_ns as f64 * counted.coverage();
            }
        }
        // Threads whose turn never came are taken to have done as the others.
        let told = whole && (asked <= 0.0 || known > 0.0);
        Ok(told.then(|| {
            let (factor, coverage) = if asked > 0.0 {
                (asked / known, ran / asked)
            } else {
                (1.0, 1.0)
            };
            (sum * factor, coverage)
        }))
    }
}

#[cfg(test)]
#[path = "program_tests.rs"]
mod tests;
