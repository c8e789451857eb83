//! Decoded records to those that matter.

use std::fmt;

use numad_core::{AccessKind, Lifecycle, Record, Sample, ServedBy, Time};
use topology::{CpuId, Pid, Tid};

use super::children::fork;
use super::mappings::Mappings;
use crate::decode::{Body, Decoded, Field, SampleView, Visitor};
use crate::filter::Filter;
use crate::source::Losses;
use crate::spe::record::SpeRecord;

/// How a source reads its samples.
pub(crate) trait Reading: Send + fmt::Debug {
    /// The access that a sample is, if it is one that can be used. `kind` is what its event is about.
    fn access<B: Body>(
        &self,
        view: &SampleView<'_, B>,
        kind: AccessKind,
    ) -> Result<Access, Unusable>;

    /// Whether addresses must be in the mappings of their process, where these are known.
    fn doubts_addresses(&self) -> bool {
        false
    }

    /// The access that a record of a trace is, of sources that have one.
    fn trace_access(&self, _record: &SpeRecord, _cpu: CpuId) -> Result<Access, Unusable> {
        Err(Unusable::NotAnAccess)
    }

    /// Whether the thread that a record of a trace names is one of our name space.
    fn trusts_context(&self) -> bool {
        false
    }
}

/// What a source makes of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Access {
    pub(crate) address: u64,
    /// 0 where it is not told.
    pub(crate) physical: u64,
    pub(crate) kind: AccessKind,
    pub(crate) served: ServedBy,
    pub(crate) weight: u32,
}

/// Why a sample is of no use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unusable {
    /// It is not of an access to memory, or lacks a field.
    NotAnAccess,
    /// It is of the kernel, which is not ours to move.
    Kernel,
    /// It contradicts itself.
    Invalid,
}

/// What was counted in one drain.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    /// Handed on.
    pub(super) records: u64,
    /// Samples among them.
    pub(super) samples: u64,
    /// Samples in the rings, of anybody.
    pub(super) seen: u64,
    /// Records in the rings of who came, went and was named, of anybody.
    pub(super) others: u64,
}

/// What came from a ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Mix {
    pub(super) samples: u64,
    /// As in [`Tally::others`].
    pub(super) others: u64,
}

impl Mix {
    /// How many samples there were most likely among so many records that found no room.
    fn samples_of(self, lost: u64) -> u64 {
        let all = u128::from(self.samples) + u128::from(self.others);
        if all == 0 {
            return lost;
        }
        let samples = (u128::from(lost) * u128::from(self.samples) + all / 2) / all;
        u64::try_from(samples).unwrap_or(lost)
    }
}

/// Takes decoded records of one ring after the other and hands on those that matter.
pub(super) struct Delivery<'a, R> {
    pub(super) reading: &'a R,
    pub(super) mappings: &'a mut Mappings,
    pub(super) filter: &'a mut Filter,
    pub(super) losses: &'a mut Losses,
    /// New processes that were told of already.
    pub(super) announced: &'a [u32],
    pub(super) out: &'a mut dyn FnMut(&Record),
    /// Whose ring is being read.
    pub(super) cpu: CpuId,
    /// What a sample stands for if it does not say.
    pub(super) period: u64,
    /// How much longer the ring's events were enabled than they ran, in per mille.
    pub(super) scale_permille: u64,
    /// Ids of the ring's events, where there are several, and what their samples are.
    pub(super) kinds: Vec<(u64, AccessKind)>,
    pub(super) tally: Tally,
    /// What came from the ring the last time and now; none where samples are not in the ring.
    pub(super) mix: Option<Mix>,
    pub(super) lost_in_ring: u64,
    pub(super) lost_handed_on: u64,
}

impl<R: Reading> Visitor for Delivery<'_, R> {
    #[inline]
    fn record<B: Body>(&mut self, record: &Decoded<'_, B>) {
        self.count(record);
        match record {
            Decoded::Sample(view) => {
                if let Some(sample) = self.sample(view) {
                    self.tally.samples += 1;
                    self.hand_on(&Record::Sample(sample));
                }
            }
            Decoded::Fork(task) => {
                if self.filter.forked(task.pid, task.parent_pid) {
                    let new = task.pid != task.parent_pid;
                    if !(new && self.announced.binary_search(&task.pid).is_ok()) {
                        self.hand_on(&fork(task));
                    }
                }
            }
            Decoded::Exit(task) => {
                if self.filter.passes(task.pid) {
                    self.hand_on(&Record::Lifecycle(Lifecycle::Exit {
                        time: Time(task.time),
                        pid: Pid(task.pid),
                        tid: Tid(task.tid),
                    }));
                }
            }
            Decoded::Named(named) => {
                if self.filter.passes(named.pid) {
                    if named.exec {
                        self.mappings.forget(Pid(named.pid));
                    }
                    self.hand_on(&Record::Lifecycle(Lifecycle::Renamed {
                        time: Time(named.time.unwrap_or_default()),
                        pid: Pid(named.pid),
                        tid: Tid(named.tid),
                        name: String::from_utf8_lossy(named.name()).into_owned(),
                        exec: named.exec,
                    }));
                }
            }
            Decoded::Lost(count) => {
                self.lost_in_ring = self.lost_in_ring.saturating_add(*count);
                self.lost_in_total(self.lost_in_ring);
            }
            Decoded::LostSamples(count) => self.lost(*count),
            Decoded::Throttle => self.losses.throttled += 1,
            Decoded::Unthrottle | Decoded::Skipped(_) => {}
        }
    }
}

impl<R: Reading> Delivery<'_, R> {
    #[inline]
    fn count<B: Body>(&mut self, record: &Decoded<'_, B>) {
        let (samples, others) = match record {
            Decoded::Sample(_) => (1, 0),
            Decoded::Fork(_) | Decoded::Exit(_) | Decoded::Named(_) => (0, 1),
            _ => return,
        };
        self.tally.seen += samples;
        self.tally.others += others;
        if let Some(mix) = &mut self.mix {
            mix.samples += samples;
            mix.others += others;
        }
    }

    #[inline]
    fn sample<B: Body>(&mut self, view: &SampleView<'_, B>) -> Option<Sample> {
        let (pid, tid) = view.pid_tid()?;
        if !self.filter.passes(pid) {
            return None;
        }
        let access = match self.reading.access(view, self.kind(view)) {
            Ok(access) => access,
            Err(why) => {
                self.drop_sample(why);
                return None;
            }
        };
        if !is_user(access.address) {
            self.drop_sample(Unusable::Kernel);
            return None;
        }
        if self.reading.doubts_addresses() && !self.mappings.may_have(Pid(pid), access.address) {
            self.drop_sample(Unusable::Invalid);
            return None;
        }
        let period = view.number(Field::Period).unwrap_or(self.period).max(1);
        Some(Sample {
            time: Time(view.number(Field::Time)?),
            pid: Pid(pid),
            tid: Tid(tid),
            address: access.address,
            physical: access.physical,
            cpu: view.cpu().map_or(self.cpu, CpuId),
            kind: access.kind,
            served: access.served,
            weight: access.weight,
            period: scaled(period, self.scale_permille),
        })
    }

    /// The access that a record of the trace of this processor is.
    #[inline]
    pub(super) fn trace_access(&self, record: &SpeRecord) -> Result<Access, Unusable> {
        self.reading.trace_access(record, self.cpu)
    }

    pub(super) fn trusts_context(&self) -> bool {
        self.reading.trusts_context()
    }

    /// Hands on an access that a thread did at a time, as the trace of this processor says.
    #[inline]
    pub(super) fn traced(
        &mut self,
        (pid, tid): (u32, u32),
        time: u64,
        access: Result<Access, Unusable>,
    ) {
        if !self.filter.passes(pid) {
            return;
        }
        let access = match access {
            Ok(access) if is_user(access.address) => access,
            Ok(_) => return self.drop_sample(Unusable::Kernel),
            Err(why) => return self.drop_sample(why),
        };
        self.tally.samples += 1;
        self.hand_on(&Record::Sample(Sample {
            time: Time(time),
            pid: Pid(pid),
            tid: Tid(tid),
            address: access.address,
            physical: access.physical,
            cpu: self.cpu,
            kind: access.kind,
            served: access.served,
            weight: access.weight,
            period: scaled(self.period.max(1), self.scale_permille),
        }));
    }

    /// What a sample is, as its event says.
    #[inline]
    fn kind<B: Body>(&self, view: &SampleView<'_, B>) -> AccessKind {
        let [_, _, ..] = self.kinds.as_slice() else {
            return self
                .kinds
                .first()
                .map_or(AccessKind::Unknown, |(_, kind)| *kind);
        };
        let id = view.number(Field::Identifier);
        let found = self.kinds.iter().find(|(known, _)| Some(*known) == id);
        found.map_or(AccessKind::Unknown, |(_, kind)| *kind)
    }

    fn drop_sample(&mut self, why: Unusable) {
        match why {
            Unusable::NotAnAccess => {}
            Unusable::Kernel => self.losses.kernel += 1,
            Unusable::Invalid => self.losses.invalid += 1,
        }
    }

    fn hand_on(&mut self, record: &Record) {
        self.tally.records += 1;
        (self.out)(record);
    }

    /// Hands on what was lost beyond what has been handed on. Two counts tell of the same losses:
    /// records in the ring, and the event's own, which is sooner at the end of a stream. They count
    /// records of all kinds.
    pub(super) fn lost_in_total(&mut self, total: u64) {
        let fresh = total.saturating_sub(self.lost_handed_on);
        if fresh == 0 {
            return;
        }
        self.lost_handed_on = total;
        match self.mix.map_or(fresh, |mix| mix.samples_of(fresh)) {
            // Of who came and went something is missing all the same.
            0 => self.hand_on(&Record::Lost(0)),
            samples => self.lost(samples),
        }
    }

    /// Hands on that samples were lost, if any were.
    pub(super) fn lost(&mut self, count: u64) {
        if count == 0 {
            return;
        }
        self.losses.lost = self.losses.lost.saturating_add(count);
        self.hand_on(&Record::Lost(count));
    }
}

/// Hands on what came before a time; the rest is in the ring that follows.
pub(super) struct Until<'a, V> {
    pub(super) inner: &'a mut V,
    pub(super) time: u64,
}

impl<V: Visitor> Visitor for Until<'_, V> {
    fn record<B: Body>(&mut self, record: &Decoded<'_, B>) {
        if time_of(record).is_none_or(|time| time < self.time) {
            self.inner.record(record);
        }
    }
}

/// When a record was written, if it says.
pub(super) fn time_of<B: Body>(record: &Decoded<'_, B>) -> Option<u64> {
    match record {
        Decoded::Sample(view) => view.number(Field::Time),
        Decoded::Fork(task) | Decoded::Exit(task) => Some(task.time),
        Decoded::Named(named) => named.time,
        Decoded::Lost(_)
        | Decoded::LostSamples(_)
        | Decoded::Throttle
        | Decoded::Unthrottle
        | Decoded::Skipped(_) => None,
    }
}

/// A period of an event that did not run all the time.
#[inline]
const fn scaled(period: u64, scale_permille: u64) -> u64 {
    if scale_permille <= 1000 {
        period
    } else {
        period.saturating_mul(scale_permille) / 1000
    }
}

/// Whether an address can belong to a program. On the 64-bit kernels with one address space for both,
/// the kernel's half has the highest bit set.
const fn is_user(address: u64) -> bool {
    address >> 63 == 0
}
