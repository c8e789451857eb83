//! One program under a policy, and the three who own what is known of it: what was [`seen`](Seen), what is
//! [`judged`](Judgement), what was [`ordered`](Ordered).

use std::time::Duration;

use super::judgement::Judgement;
use super::options::{AttachError, AttachOptions, EngineOptions, Totals};
use super::ordered::Ordered;
use super::registry::Registry;
use super::seen::{Found, Look, Seen, Stream};
use crate::action::AttachmentId;
use crate::interval::Interval;
use crate::observation::{AttachSpec, ObservedProgram};
use crate::policy::Policy;
use crate::time::Time;

/// How many times as long as it should a window may last.
pub(super) const WAIT_MOST: u32 = 8;

/// One program under a policy.
#[derive(Debug)]
pub(super) struct Attachment {
    pub id: AttachmentId,
    pub policy: Box<dyn Policy>,
    pub options: AttachOptions,
    pub seen: Seen,
    pub judged: Judgement,
    pub ordered: Ordered,
    pub window_start: Time,
    /// How long the window lasts at the least.
    pub window: Duration,
    /// When it is looked whether it tells anything; none once the program has ended.
    pub window_end: Option<Time>,
    /// How often that was done, and the window went on.
    pub looks: u32,
    /// Threads have moved in the last window, and the next samples may be long in coming: pages may
    /// follow them by what was seen in it.
    pub follows: bool,
    /// Answers of the policy stand: it need not see each window.
    pub stands: bool,
    /// GB/s that the program took from each node's memory in its last window, by position, as its
    /// samples tell; empty where they do not.
    pub takes_gbps: Vec<f64>,
    pub totals: Totals,
}

impl Attachment {
    pub(super) fn new(
        (id, place): (AttachmentId, u32),
        now: Time,
        spec: AttachSpec,
        limits: &EngineOptions,
        stream: Stream,
    ) -> Result<Self, AttachError> {
        let interval = Interval::new(spec.options.interval).map_err(AttachError::Interval)?;
        let options = spec.options;
        Ok(Self {
            id,
            policy: spec.policy,
            seen: Seen::new((place, now), limits, &options, stream),
            judged: Judgement::new(interval, options.prices.horizon()),
            ordered: Ordered::default(),
            window_start: now,
            window: interval.current(),
            window_end: Some(now.after(interval.current())),
            looks: 0,
            follows: false,
            stands: false,
            takes_gbps: Vec::new(),
            totals: Totals::default(),
            options,
        })
    }

    /// Whether the window has ended. One that has lasted as long as it should and tells nothing goes
    /// on for as long again; from now on, where whoever asks was busy for all of that.
    pub(super) fn is_due(&mut self, now: Time) -> bool {
        let Some(end) = self.window_end.filter(|&end| end <= now) else {
            return false;
        };
        self.seen.count_messages(now, &self.options.prices);
        if !self.waits() {
            return true;
        }
        let next = end.after(self.window);
        let next = if next > now {
            next
        } else {
            now.after(self.window)
        };
        self.window_end = Some(next);
        self.looks += 1;
        self.seen.look_on();
        false
    }

    /// Whether a window goes on: by too few samples nothing is decided, and of a program at rest
    /// nothing, as long as no sample says otherwise.
    fn waits(&self) -> bool {
        let is_long = self.judged.has_fixed_windows() || self.looks + 1 >= WAIT_MOST;
        if is_long || !self.options.require_gain {
            return false;
        }
        let is_told_little = self.seen.samples_to_judge() < self.options.samples_min;
        is_told_little || self.judged.rests() && !self.has_news()
    }

    /// Most samples that tell something new until the next look. Of a program at rest a window goes
    /// on for many looks, and each need only tell whether it still is.
    pub(super) fn samples_enough(&self) -> u32 {
        let looks = if self.judged.rests() { WAIT_MOST } else { 1 };
        self.seen.samples_enough() / looks
    }

    /// Whether samples tell something else than when the program was last judged, and at rest.
    pub(super) fn has_news(&self) -> bool {
        if !self.judged.rests() {
            return false;
        }
        let (ways, lasts) = (self.seen.ways(), self.seen.lasts());
        let sampled = self.seen.sampled();
        let talk = self.seen.talk(&sampled).filter(|_| lasts);
        self.judged
            .has_news(ways, talk, self.seen.weight_per_sample())
    }

    /// Brings threads and pages up to date.
    pub(super) fn sync(
        &mut self,
        registry: &mut Registry,
        program: &ObservedProgram,
        look: &Look<'_>,
    ) -> Found {
        if self.window_end.is_none() {
            return Found::default();
        }
        self.note_elsewhere(program, look);
        let masks = self.ordered.masks();
        let found = self.seen.sync(registry, program, look, masks);
        if found.ended {
            self.window_end = None;
        }
        found
    }

    /// Notes which pages are not where we put them, and which have come since they were to move.
    fn note_elsewhere(&mut self, program: &ObservedProgram, look: &Look<'_>) {
        if self.ordered.placed().count() == 0 {
            return;
        }
        for &(page, node) in &program.homes {
            let node = node.and_then(|node| look.topology.position(node));
            if let Some(node) = node.and_then(|node| u16::try_from(node).ok())
                && let Some(ours) = self.ordered.found_elsewhere(page, node)
                && look.kernel_balances
            {
                let when = (look.now, self.options.hold);
                self.ordered.note_kernel(when, page, (ours, node));
                self.totals.pages_elsewhere += 1;
            }
        }
    }
}
