//! What the sources on hardware events have in common: samples of single accesses to memory, with
//! their address, what answered and how long it took.

use std::path::PathBuf;

use numad_core::AccessKind;
use topology::CpuSet;

use crate::attr::{self, EventAttr};
use crate::data_source;
use crate::decode::{Body, Field, SampleView};
use crate::live::{Access, Reading, Unusable};
use crate::source::Covers;

/// How a source on hardware events is opened.
#[derive(Clone, Debug)]
pub struct MemoryOptions {
    /// Processors to listen on.
    pub cpus: CpuSet,
    /// Pages of each ring to begin with, a power of two; halved until the kernel allows it.
    pub ring_pages: usize,
    /// Events for each sample; 0 to follow the budget.
    pub period: u64,
    /// Where `/proc` is found: `/` on a live machine.
    pub root: PathBuf,
    /// Loads that were answered within fewer cycles are not sampled, where the hardware can leave
    /// them out.
    pub load_latency_min: u32,
    /// Whether physical addresses are asked for, which give memory that processes share one identity.
    pub physical: bool,
}

/// Whether physical addresses come, of those that are asked for or not.
pub(crate) const fn physical(granted: bool, wanted: bool) -> Covers {
    match (granted, wanted) {
        (true, _) => Covers::Yes,
        (false, true) => Covers::No("not permitted"),
        (false, false) => Covers::No("switched off by sampling.physical_addresses"),
    }
}

impl MemoryOptions {
    /// The defaults, for a live machine.
    #[must_use]
    pub fn new(cpus: CpuSet) -> Self {
        Self {
            cpus,
            ring_pages: crate::faults::RING_PAGES_DEFAULT,
            period: 0,
            root: PathBuf::from("/"),
            load_latency_min: 30,
            physical: true,
        }
    }

    /// What every event of memory accesses is asked for, on top of which event it is.
    pub(crate) fn attr(&self) -> EventAttr {
        let fields = [
            Field::Identifier,
            Field::Tid,
            Field::Time,
            Field::Addr,
            Field::Cpu,
            Field::Period,
            Field::WeightStruct,
            Field::DataSource,
        ];
        let attr = EventAttr {
            period: 1,
            sample_type: attr::fields(&fields),
            read_format: attr::READ_ENABLED | attr::READ_RUNNING | attr::READ_ID | attr::READ_LOST,
            flags: attr::FLAG_DISABLED | attr::FLAG_TRAILERS | attr::FLAG_WATERMARK,
            // The daemon's clock, so that times compare with what it sees itself. On Intel the kernel
            // then takes each sample in an interrupt of its own instead of by the buffer full; the law
            // of rates counts that as part of what a sample costs.
            clock: Some(libc::CLOCK_MONOTONIC),
            ..EventAttr::default()
        };
        attr.with(Field::PhysAddr, self.physical)
    }
}

/// How far a source's samples are believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Belief {
    /// The hardware names the access that was sampled.
    Full,
    /// The hardware tags operations of all kinds, and now and then gives an address or level that
    /// belongs to another.
    Checked,
}

impl Reading for Belief {
    #[inline]
    fn access<B: Body>(
        &self,
        view: &SampleView<'_, B>,
        kind: AccessKind,
    ) -> Result<Access, Unusable> {
        let address = view.number(Field::Addr).ok_or(Unusable::NotAnAccess)?;
        let source = view.number(Field::DataSource).unwrap_or_default();
        if *self == Self::Checked {
            check(view, address, source)?;
        }
        if address == 0 {
            return Err(Unusable::NotAnAccess);
        }
        let told = data_source::kind(source);
        Ok(Access {
            address,
            physical: view.number(Field::PhysAddr).unwrap_or_default(),
            kind: if told == AccessKind::Unknown {
                kind
            } else {
                told
            },
            served: data_source::served(source),
            weight: view.weight().unwrap_or_default(),
        })
    }

    fn doubts_addresses(&self) -> bool {
        *self == Self::Checked
    }
}

/// What must hold of a sample of any operation for it to be an access of a program.
fn check<B: Body>(view: &SampleView<'_, B>, address: u64, source: u64) -> Result<(), Unusable> {
    if view.number(Field::Ip).is_some_and(|ip| ip >> 63 != 0) {
        return Err(Unusable::Kernel);
    }
    if address == 0 || data_source::kind(source) == AccessKind::Unknown {
        return Err(Unusable::NotAnAccess);
    }
    // Programs have 56 bits of addresses at most; the kernel's own are told apart by who asked.
    let between = address >> USER_BITS_MAX != 0 && address >> 63 == 0;
    if between || !data_source::is_consistent(source) {
        return Err(Unusable::Invalid);
    }
    Ok(())
}

/// Bits of an address of a program with five levels of page tables.
const USER_BITS_MAX: u32 = 56;
