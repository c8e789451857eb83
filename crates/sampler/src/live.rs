//! What all sources share that listen to the kernel: events on every processor, their rings, who
//! passes, what was lost, processors that come and go, the rate.
//!
//! What is special about a source is which events it wants (`Plan`) and how a sample of them
//! becomes an access (`Reading`); see [`crate::faults`], [`crate::pebs`], [`crate::ibs`],
//! [`crate::spe`].

mod children;
mod delivery;
mod listener;
mod mappings;

use std::borrow::Cow;
use std::os::fd::{AsFd, BorrowedFd};

use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollTimeout};
use numad_core::{Record, Time};
use topology::{CpuId, CpuSet, Pid};

use crate::decode::Layout;
use crate::filter::{self, Filter};
use crate::open::{Kernel, OpenError, Plan, Refused};
use crate::rate::{RateChange, RateInput, RateLaw};
use crate::ring::page_bytes;
use crate::source::{AttachRefused, Drained, Losses, RateStatus, Spending};

use children::Children;
use delivery::Delivery;
pub(crate) use delivery::{Access, Reading, Unusable};
use listener::Listener;
pub use mappings::{Mappings, Range};

/// Which processors share counters in turns, and so on: kinds of event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counted {
    /// By the kernel: always runs.
    BySoftware,
    /// By the processor: may have to take turns with other events.
    ByHardware,
}

/// Events on every processor, and what comes out of them. Dropping it closes them.
#[derive(Debug)]
pub(crate) struct Live<R> {
    reading: R,
    plan: Plan,
    counted: Counted,
    kernel: Box<dyn Kernel>,
    layout: Layout,
    /// Sorted by processor; one that is retiring may stand beside its successor.
    listeners: Vec<Listener>,
    /// Becomes readable when any ring is half full.
    poll: Epoll,
    filter: Filter,
    mappings: Mappings,
    losses: Losses,
    /// New processes and their parents, as found in the rings; kept to allocate once.
    children: Children,
    /// Where the next search for dead events begins.
    next_check: usize,
    law: RateLaw,
    /// What was seen since the law was last asked.
    seen: RateInput,
    /// Samples in rings so far, of anybody.
    taken: u64,
    /// Losses that the law was told of: lost, throttled.
    told: (u64, u64),
    /// Refusals that were handed on, so that each is once.
    refused: Vec<OpenError>,
    /// Pages that a ring may grow to.
    ring_pages_max: usize,
    /// A larger ring was refused, and no processor has come since.
    no_growth: bool,
}

/// What one drain of a [`Live`] gave.
#[derive(Debug, Default)]
pub(crate) struct Gave {
    pub(crate) drained: Drained,
    /// Samples of followed processes among the records.
    pub(crate) samples: u64,
}

impl<R: Reading> Live<R> {
    /// Opens the events of a plan on every given processor. Those that are offline by now are left
    /// out.
    ///
    /// # Errors
    /// The first refusal; nothing stays open then. `NoSuchEvent` if no processor has the event.
    pub(crate) fn open(
        reading: R,
        mut plan: Plan,
        counted: Counted,
        (kernel, law): (Box<dyn Kernel>, RateLaw),
        cpus: &CpuSet,
    ) -> Result<Self, OpenError> {
        let poll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)
            .map_err(|errno| no_poll(plan.what, CpuId(0), errno))?;
        plan.set_period(law.period());
        let mut live = Self {
            reading,
            layout: plan.layout(),
            ring_pages_max: plan.ring_pages.saturating_mul(GROWTH_MAX),
            plan,
            counted,
            kernel,
            listeners: Vec::with_capacity(cpus.len()),
            poll,
            filter: Filter::new(),
            mappings: Mappings::default(),
            losses: Losses::default(),
            children: Children::default(),
            next_check: 0,
            law,
            seen: RateInput::default(),
            taken: 0,
            told: (0, 0),
            refused: Vec::new(),
            no_growth: false,
        };
        if let Some(refused) = live.listen(cpus).into_iter().next() {
            return Err(refused);
        }
        if live.listeners.is_empty() && counted == Counted::ByHardware {
            return Err(OpenError {
                what: live.plan.what,
                cpu: cpus.iter().next().unwrap_or(CpuId(0)),
                refused: Refused::NoSuchEvent,
            });
        }
        Ok(live)
    }

    /// Opens the events on processors that have none. Gives up at the first refusal that the next
    /// processor would meet too.
    fn listen(&mut self, cpus: &CpuSet) -> Vec<OpenError> {
        let mut refusals = Vec::new();
        for cpu in cpus.iter() {
            let heard = |listener: &Listener| listener.events.cpu == cpu && !listener.retiring;
            if self.listeners.iter().any(heard) {
                continue;
            }
            match self.listen_on(cpu) {
                Ok(()) => {}
                Err(error) if error.refused == Refused::CpuOffline => {
                    // An event of the kernel itself is there as long as its processor is. One of the
                    // hardware goes with its driver, and then it is gone everywhere.
                    if self.counted == Counted::ByHardware {
                        refusals.push(error);
                    }
                }
                Err(error) => {
                    refusals.push(error);
                    break;
                }
            }
        }
        self.listeners.sort_by_key(|listener| listener.events.cpu);
        refusals
    }

    fn listen_on(&mut self, cpu: CpuId) -> Result<(), OpenError> {
        let pages = self.plan.ring_pages;
        let Some(listener) = self.prepare(cpu, pages)? else {
            return Ok(());
        };
        let settings = self.plan.settings;
        listener.events.enable(&*self.kernel).map_err(|error| {
            OpenError::new(
                self.plan.what,
                cpu,
                crate::open::Step::Event,
                &error,
                settings,
            )
        })?;
        self.refused.retain(|refused| refused.cpu != cpu);
        // It may have been a processor on its way out that refused a larger ring.
        self.no_growth = false;
        self.listeners.push(listener);
        Ok(())
    }

    /// Opens the events of a processor, which do not run yet.
    fn prepare(&mut self, cpu: CpuId, pages: usize) -> Result<Option<Listener>, OpenError> {
        let Some(events) = self.plan.open(&mut *self.kernel, cpu, pages)? else {
            return Ok(None);
        };
        self.layout = self.plan.layout();
        self.kernel
            .watch(&self.poll, events.waiter(), cpu)
            .map_err(|errno| no_poll(self.plan.what, cpu, errno))?;
        Ok(Some(Listener::new(events)))
    }

    /// Follows a process. See [`crate::Source::attach`].
    pub(crate) fn attach(&mut self, pid: Pid) -> Result<(), AttachRefused> {
        if !self.filter.add(pid) {
            return Err(AttachRefused {
                pid,
                limit: filter::PROCESSES_MAX,
            });
        }
        Ok(())
    }

    /// Forgets a process. See [`crate::Source::detach`].
    pub(crate) fn detach(&mut self, pid: Pid) {
        self.filter.remove(pid);
        self.mappings.forget(pid);
    }

    /// Processes that joined since this was asked the last time.
    pub(crate) fn take_joined(&mut self) -> std::vec::Drain<'_, Pid> {
        self.filter.take_joined()
    }

    /// Whether an address may be wrong, so that it is of use to know what is mapped.
    pub(crate) fn doubts_addresses(&self) -> bool {
        self.reading.doubts_addresses()
    }

    /// What a process has mapped; addresses elsewhere are invalid from now on.
    pub(crate) fn set_mappings(&mut self, pid: Pid, ranges: &[Range]) {
        if self.filter.passes(pid.0) {
            self.mappings.set(pid, ranges);
        }
    }

    /// Hands over what has arrived. See [`crate::Source::drain`].
    pub(crate) fn drain(&mut self, out: &mut dyn FnMut(&Record)) -> Gave {
        // Takes note of what made the descriptor readable; everything is read anyway.
        let mut events = [EpollEvent::empty(); 64];
        let polled = self.poll.wait(&mut events, EpollTimeout::ZERO);
        debug_assert!(polled.is_ok() || polled == Err(Errno::EINTR));
        self.children.forget();
        if !self.filter.is_empty() {
            self.children.gather(&mut self.listeners, &self.layout);
        }
        let announced = self.children.adopt(&mut self.filter, out);
        let mut delivery = Delivery {
            reading: &self.reading,
            mappings: &mut self.mappings,
            filter: &mut self.filter,
            losses: &mut self.losses,
            announced: &self.children.announced,
            out,
            cpu: CpuId(0),
            period: self.law.period(),
            scale_permille: 1000,
            kinds: Vec::new(),
            tally: delivery::Tally::default(),
            mix: None,
            lost_in_ring: 0,
            lost_handed_on: 0,
        };
        let mut fill_permille = 0;
        for listener in &mut self.listeners {
            let fill = listener.drain(&*self.kernel, &self.layout, &mut delivery);
            fill_permille = fill_permille.max(fill);
        }
        let tally = delivery.tally;
        self.listeners.retain(|listener| !listener.retiring);
        self.losses.unfollowed = self.filter.unfollowed();
        self.losses.overlooked += self.children.take_overlooked();
        self.taken = self.taken.saturating_add(tally.seen);
        self.seen.samples = self.seen.samples.saturating_add(tally.seen);
        self.seen.others = self.seen.others.saturating_add(tally.others);
        self.seen.fill_permille = self.seen.fill_permille.max(fill_permille);
        self.grow();
        Gave {
            drained: Drained {
                records: tally.records + announced,
                fill_permille,
                ended: false,
                mark: None,
            },
            samples: tally.samples,
        }
    }

    /// Gives the fullest listener a ring twice the size, if it has needed one for a while.
    ///
    /// The kernel cannot resize a ring, so the events are opened a second time. The new ones run before
    /// the old ones stop, so nothing is missed; what both have seen is taken from the new ring alone.
    /// One at a time: this takes some milliseconds.
    fn grow(&mut self) {
        if self.no_growth {
            return;
        }
        let needs = |listener: &Listener| {
            listener.full_streak >= GROW_STREAK && listener.events.ring_pages < self.ring_pages_max
        };
        let Some(at) = self.listeners.iter().position(needs) else {
            return;
        };
        let (cpu, pages) = (
            self.listeners[at].events.cpu,
            self.listeners[at].events.ring_pages,
        );
        let prepared = self.prepare(cpu, pages * 2);
        let Ok(Some(mut new)) = prepared else {
            self.no_growth = true;
            return;
        };
        if new.events.ring_pages <= pages || new.events.enable(&*self.kernel).is_err() {
            self.no_growth = true;
            return;
        }
        let old = &mut self.listeners[at];
        old.stop(&*self.kernel);
        old.until = new.first_time(&self.layout);
        self.listeners.push(new);
        self.listeners.sort_by_key(|listener| listener.events.cpu);
    }

    /// Asks the law for the rate, and has every event follow it. See [`crate::Source::regulate`].
    pub(crate) fn regulate(&mut self, now: Time, spending: &Spending) -> Option<RateChange> {
        self.seen.elapsed = self.seen.elapsed.saturating_add(spending.elapsed);
        self.seen.own_ns = self.seen.own_ns.saturating_add(spending.own_ns);
        self.seen.allowed_ns = self.seen.allowed_ns.saturating_add(spending.allowed_ns);
        let processor = self.seen.busiest_allowed_ns;
        self.seen.busiest_allowed_ns = processor.saturating_add(spending.processor_allowed_ns);
        if self.seen.elapsed < crate::rate::SEEN_LEAST {
            return None;
        }
        let Losses {
            lost, throttled, ..
        } = self.losses;
        let seen = RateInput {
            lost: lost.saturating_sub(self.told.0),
            throttled: throttled.saturating_sub(self.told.1),
            busiest: self.take_busiest(),
            ..std::mem::take(&mut self.seen)
        };
        self.told = (lost, throttled);
        let change = self.law.next(now, &seen)?;
        self.follow_law();
        Some(change)
    }

    /// One sample for each so many events tells enough of what comes next.
    pub(crate) fn enough(&mut self, period: u64) {
        let before = self.law.period();
        self.law.enough(period);
        if self.law.period() != before {
            self.follow_law();
        }
    }

    /// Has the events sample as often as the law says.
    fn follow_law(&mut self) {
        self.plan.set_period(self.law.period());
        for listener in &mut self.listeners {
            // What cannot be told is opened again with the next refresh, at the new rate.
            if listener.events.follow(&*self.kernel, &self.plan).is_err() {
                listener.retiring = true;
            }
        }
    }

    /// Samples that the busiest processor took since this was asked the last time.
    fn take_busiest(&mut self) -> u64 {
        let taken = self.listeners.iter_mut().map(Listener::take_taken);
        taken.max().unwrap_or_default()
    }

    /// Follows processors that came or went. See [`crate::Source::refresh`].
    pub(crate) fn refresh(&mut self, online: &CpuSet) -> Vec<OpenError> {
        for listener in &mut self.listeners {
            listener.retiring |= !online.contains(listener.events.cpu);
        }
        // Of a processor that is gone nothing more is wanted, and when it is back it is asked anew.
        self.refused.retain(|refused| online.contains(refused.cpu));
        self.check_some();
        let refusals = self.listen(online);
        let news: Vec<OpenError> = refusals
            .into_iter()
            .filter(|refusal| !self.refused.contains(refusal))
            .collect();
        self.refused.extend(news.iter().cloned());
        news
    }

    /// Retires events that their processor has left behind: it went offline and came back, and the
    /// kernel does not start them again. Finds out which take turns with others.
    ///
    /// Asking an event for its running time interrupts its processor, so of the kernel's own only
    /// silent ones are asked, and only [`CHECKS_MAX`] at a time, in turn.
    fn check_some(&mut self) {
        let count = self.listeners.len();
        let mut checks = 0;
        for step in 0..count {
            let at = (self.next_check + step) % count;
            let listener = &mut self.listeners[at];
            let heard = std::mem::take(&mut listener.heard);
            if listener.retiring || (heard && self.counted == Counted::BySoftware) {
                continue;
            }
            if checks == CHECKS_MAX {
                self.next_check = at;
                return;
            }
            checks += 1;
            listener.check(&*self.kernel);
        }
    }

    pub(crate) const fn losses(&self) -> Losses {
        self.losses
    }

    pub(crate) fn cpus(&self) -> usize {
        self.listeners
            .iter()
            .filter(|listener| !listener.retiring)
            .count()
    }

    /// Bytes of the smallest ring.
    pub(crate) fn ring_bytes(&self) -> usize {
        let pages = self
            .listeners
            .iter()
            .map(|listener| listener.events.ring_pages)
            .min();
        pages.unwrap_or(self.plan.ring_pages) * page_bytes()
    }

    pub(crate) const fn plan(&self) -> &Plan {
        &self.plan
    }

    pub(crate) fn wait_fd(&self) -> BorrowedFd<'_> {
        self.poll.0.as_fd()
    }

    /// The rate and what holds it back.
    pub(crate) fn rate(&self) -> RateStatus {
        let turns = self
            .listeners
            .iter()
            .map(|listener| listener.scale_permille)
            .max();
        RateStatus {
            period: self.law.period(),
            fixed: self.law.is_fixed(),
            target_ns: self.law.target_ns(),
            taken: self.taken,
            held_back_by: self.law.held_back_by(),
            turns_permille: turns.unwrap_or(1000),
        }
    }

    /// What is less than it should be; one sentence each.
    pub(crate) fn notes(&self) -> Vec<Cow<'static, str>> {
        let mut notes: Vec<Cow<'static, str>> = Vec::new();
        let rate = self.rate();
        if let Some(why) = rate.held_back_by {
            let period = rate.period;
            notes.push(format!("one sample for each {period} events: {}", why.words()).into());
        }
        if rate.turns_permille > TURNS_TOLD_PERMILLE {
            let share = 100_000 / rate.turns_permille;
            notes.push(
                format!(
                    "events take turns with those of other programs and run {share} % of the time; \
                     samples are scaled; end other programs that use perf events"
                )
                .into(),
            );
        }
        if self.losses.unfollowed > 0 {
            notes.push(
                format!(
                    "{} processes made by attached ones are not followed: the limit is {}",
                    self.losses.unfollowed,
                    filter::PROCESSES_MAX
                )
                .into(),
            );
        }
        if self.losses.throttled > 0 {
            let times = self.losses.throttled;
            notes.push(format!("the kernel stopped events {times} times for a moment").into());
        }
        if self.losses.invalid > 0 {
            let invalid = self.losses.invalid;
            notes.push(format!("{invalid} samples could not be true and were dropped").into());
        }
        notes.extend(
            self.refused
                .iter()
                .map(|refused| refused.to_string().into()),
        );
        notes
    }
}

fn no_poll(what: &'static str, cpu: CpuId, errno: Errno) -> OpenError {
    let refused = match errno {
        Errno::EMFILE => Refused::TooManyFiles,
        Errno::ENFILE => Refused::TooManyFilesOnMachine,
        Errno::ENOMEM => Refused::NoMemory,
        Errno::ENOSPC => Refused::Exhausted,
        other => Refused::Other(other as i32),
    };
    OpenError { what, cpu, refused }
}

/// Events asked for their running time in one refresh.
const CHECKS_MAX: usize = 16;

/// Drains in a row that found a ring more than half full before it gets a larger one. When rings fill
/// they are read every 20 ms, so this is a tenth of a second.
const GROW_STREAK: u32 = 5;

/// How many times larger a ring may become than it was asked to be.
const GROWTH_MAX: usize = 16;

/// Taking turns is worth telling from here on.
const TURNS_TOLD_PERMILLE: u64 = 1_050;

#[cfg(test)]
mod tests;
