//! The engine: folds samples, judges windows, asks policies, guards, orders.
//!
//! Order of calls: `handle_attach`, then any number of `handle_record`; when `deadline` has come,
//! `wanted_places` tells what to look up, `handle_observation` closes the window, then
//! `poll_action` or `poll_actions` until there is none, with one `handle_outcome` after each
//! action, in their order; `poll_event` any time.
//!
//! An observation of a program that is not due only brings its threads up to date. One right after
//! `handle_attach` lets the first window see how busy threads are; without it the first window
//! knows no thread's share of a processor and nobody takes part yet.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use topology::{CpuSet, Pid, Tid, Topology};

use crate::action::{Action, AttachmentId, Outcome};
use crate::event::{Event, EventKind};
use crate::observation::{AttachSpec, Observation, ObservedProgram};
use crate::policy::Policy;
use crate::sample::{Lifecycle, Record, Sample, Sent};
use crate::tables::index::Spot;
use crate::tables::pages::{PageTable, Tag};
use crate::time::Time;

mod attachment;
mod judgement;
mod options;
mod ordered;
mod orders;
mod outcome;
mod queue;
mod registry;
mod seen;
mod traffic;
mod window;
mod wishes;
mod within;

pub use crate::interval::IntervalLaw;
pub use options::{AttachError, AttachOptions, Bind, EngineOptions, Totals, WantedPage};
use seen::thin::SAMPLES_KEPT;

use attachment::Attachment;
use queue::Events;
use registry::Registry;
use seen::program::Scratch;
use seen::{Look, Seen, Stream};
use traffic::Traffic;
use window::Context;
use within::Within;

/// Samples whose memory is read ahead: as many as a core has outstanding reads of its own.
const AHEAD: usize = 16;

/// Tables up to this size stay in a core's own caches, and reading ahead costs more than it saves.
///
/// At four times this size reading ahead costs 63 ns for 48 ns per sample in a loop that does
/// nothing else. But a daemon sleeps between batches and finds its caches in the hands of others:
/// then it is 108 for 166 (the sampler's example `sustained`, five runs of each in turn).
const NEAR_SLOTS: usize = 16_384;

/// All attached programs of one machine.
#[derive(Debug)]
pub struct Engine {
    topology: Arc<Topology>,
    /// By processor, the position of its node plus one; 0 of none.
    nodes: Vec<u16>,
    options: EngineOptions,
    registry: Registry,
    /// Attachments by place; a place is used again after a detach, a number never.
    places: Vec<Option<Attachment>>,
    by_id: BTreeMap<AttachmentId, u32>,
    next_id: u32,
    actions: VecDeque<Action>,
    events: Events,
    /// Samples that sources lost so far, and those of attached programs.
    stream: Stream,
    /// Processors online at the last observation.
    online: CpuSet,
    traffic: Traffic,
    within: Option<Within>,
    scratch: Scratch,
}

impl Engine {
    /// An engine with nothing attached.
    ///
    /// Slots are rounded up to a power of two and every limit to what the tables can hold.
    ///
    /// # Panics
    /// When a page's size is no power of two from 64 bytes on: no machine has such pages.
    #[must_use]
    pub fn new(topology: Arc<Topology>, options: EngineOptions) -> Self {
        let options = options.within_limits();
        let online = topology.online();
        Self {
            nodes: nodes_by_cpu(&topology),
            traffic: Traffic::new(&topology),
            topology,
            registry: Registry::default(),
            places: Vec::new(),
            by_id: BTreeMap::new(),
            next_id: 1,
            actions: VecDeque::new(),
            events: Events::new(options.events_max),
            stream: Stream::default(),
            online,
            within: None,
            scratch: Scratch::default(),
            options,
        }
    }

    /// Who maps threads to the last-level caches of a node, where a node has several: a policy that
    /// needs nothing but who shares memory with whom, and remembers nothing.
    pub fn map_within_nodes(&mut self, policy: Box<dyn Policy>) {
        self.within = Within::new(&self.topology, policy);
    }

    /// From now on the machine is as this one says: the same nodes and processors, of whose memory
    /// other figures are known.
    pub fn go_by(&mut self, topology: Arc<Topology>) {
        self.traffic = Traffic::new(&topology);
        self.topology = topology;
    }

    /// Numbers attachments from `first` on, so that numbers of an earlier run are not given again.
    pub const fn number_from(&mut self, first: u32) {
        if first > self.next_id {
            self.next_id = first;
        }
    }

    /// Puts a program under a policy.
    ///
    /// # Errors
    /// See [`AttachError`]; nothing is attached then.
    pub fn handle_attach(
        &mut self,
        now: Time,
        spec: AttachSpec,
    ) -> Result<AttachmentId, AttachError> {
        let pids: BTreeSet<Pid> = spec.pids.iter().copied().filter(|pid| pid.0 != 0).collect();
        if pids.is_empty() {
            return Err(AttachError::NoProcess);
        }
        for &pid in &pids {
            if let Some(to) = self.attachment_of(pid) {
                return Err(AttachError::AlreadyAttached { pid, to });
            }
        }
        let free = self.places.iter().position(Option::is_none);
        let place = free.unwrap_or(self.places.len());
        let number = u32::try_from(place).expect("there are fewer attachments than processes");
        let id = AttachmentId(self.next_id);
        let limits = &self.options;
        let mut attachment = Attachment::new((id, number), now, spec, limits, self.stream)?;
        for pid in pids {
            if attachment.seen.join(&mut self.registry, pid).is_none() {
                attachment.seen.leave(&mut self.registry);
                return Err(AttachError::TooManyProcesses);
            }
        }
        self.next_id += 1;
        self.by_id.insert(id, number);
        if place == self.places.len() {
            self.places.push(None);
        }
        self.places[place] = Some(attachment);
        Ok(id)
    }

    /// Forgets a program; true if there was one. What it changed is undone by whoever keeps the
    /// journal.
    pub fn handle_detach(&mut self, _now: Time, attachment: AttachmentId) -> bool {
        let Some(place) = self.by_id.remove(&attachment) else {
            return false;
        };
        self.actions
            .retain(|action| action.attachment() != attachment);
        if let Some(mut gone) = self.places[place as usize].take() {
            gone.seen.leave(&mut self.registry);
        }
        if self.by_id.is_empty() {
            self.scratch = Scratch::default();
        }
        true
    }

    /// A process takes part in a program from now on, as those do that it was attached with; false
    /// when there is no such program, the process takes part in one, or the program has as many as
    /// it can.
    pub fn handle_joining(&mut self, attachment: AttachmentId, pid: Pid) -> bool {
        if pid.0 == 0 || self.attachment_of(pid).is_some() {
            return false;
        }
        let program = named(&self.by_id, &mut self.places, attachment);
        program.is_some_and(|program| program.seen.join(&mut self.registry, pid).is_some())
    }

    /// A process takes no further part in its program: its threads and pages are forgotten, and
    /// what is recorded of it from now on is ignored. What was changed of it is undone by whoever
    /// keeps the journal.
    pub fn handle_parting(&mut self, pid: Pid) {
        let Some(process) = self.registry.processes.find(pid.0) else {
            return;
        };
        if let Some(attachment) = &mut self.places[process.place as usize] {
            attachment.seen.expel(&mut self.registry, pid);
        }
    }

    /// Takes one record of a source. Records of programs that are not attached are ignored.
    pub fn handle_record(&mut self, record: &Record) {
        match record {
            Record::Sample(sample) => self.fold(sample),
            Record::Lifecycle(change) => self.change(change),
            Record::Lost(count) => self.stream.lost = self.stream.lost.saturating_add(*count),
            Record::Sent(sent) => self.handle_messages(std::slice::from_ref(sent)),
        }
    }

    /// Takes what processes sent each other since the last time, each pair once. What is not
    /// between two processes of one program is ignored.
    pub fn handle_messages(&mut self, sent: &[Sent]) {
        for sent in sent {
            let place = |pid: Pid| Some(self.registry.processes.find(pid.0)?.place);
            let (Some(from), Some(to)) = (place(sent.from), place(sent.to)) else {
                continue;
            };
            if from == to
                && sent.from != sent.to
                && let Some(attachment) = &mut self.places[from as usize]
            {
                attachment.seen.sent(sent);
            }
        }
    }

    /// Takes a batch of records in order; the same as [`Self::handle_record`] for each, only
    /// faster.
    ///
    /// Where pages are many, folding a sample is waiting for far memory. So the lines that the next
    /// few samples need are read ahead, all at once instead of one after the other.
    pub fn handle_records(&mut self, records: &[Record]) {
        if self.options.page_slots <= NEAR_SLOTS {
            records.iter().for_each(|record| self.handle_record(record));
            return;
        }
        for few in records.chunks(AHEAD) {
            let mut pages = [None; AHEAD];
            for (page, record) in pages.iter_mut().zip(few) {
                *page = self.page_of(record);
            }
            for peek in [PageTable::peek_set, PageTable::peek_entry] {
                let mut read = 0;
                for &(pages, tag) in pages.iter().flatten() {
                    read ^= peek(pages, tag);
                }
                // Nobody wants the sum; without this it would not be read.
                std::hint::black_box(read);
            }
            few.iter().for_each(|record| self.handle_record(record));
        }
    }

    #[inline]
    fn page_of(&self, record: &Record) -> Option<(&PageTable, Tag)> {
        let Record::Sample(sample) = record else {
            return None;
        };
        let spot = self.registry.threads.find(sample.tid.0)?;
        let attachment = self.places.get(spot.place as usize)?.as_ref()?;
        attachment.seen.page_of(spot.slot, sample)
    }

    /// When it is looked next whether a window has ended; none when nothing is attached.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        let ends = self
            .attached()
            .filter_map(|attachment| attachment.window_end);
        ends.min()
    }

    /// Most samples that tell something new of any program until it is looked at next: a source
    /// that costs programs something need not give more.
    #[must_use]
    pub fn samples_enough(&self) -> u32 {
        let each = self.attached().map(Attachment::samples_enough);
        each.max().unwrap_or(SAMPLES_KEPT)
    }

    /// Attachments whose window has ended, whether or not it goes on: [`Self::due`] counts what
    /// their processes sent, and nobody else's.
    pub fn ended(&self, now: Time) -> impl Iterator<Item = AttachmentId> + '_ {
        self.by_id.iter().filter_map(move |(&id, &place)| {
            let attachment = self.places[place as usize].as_ref()?;
            attachment.window_end.filter(|&end| end <= now).map(|_| id)
        })
    }

    /// Programs whose window has ended by now, by ascending number. Windows that tell nothing yet go
    /// on.
    pub fn due(&mut self, now: Time) -> Vec<AttachmentId> {
        let Self { by_id, places, .. } = self;
        let mut is_due = |place: u32| {
            let attachment = places[place as usize].as_mut();
            attachment.is_some_and(|attachment| attachment.is_due(now))
        };
        let due = by_id.iter().filter(|&(_, &place)| is_due(place));
        due.map(|(&id, _)| id).collect()
    }

    /// Closes the window of every program in the observation that is due, and decides.
    ///
    /// Programs are judged by ascending number, each with what the ones before were granted taken
    /// off the machine. A program that is not due is brought up to date and goes on. Programs that
    /// the observation does not have, or that do not exist, are left alone.
    pub fn handle_observation(&mut self, now: Time, observation: &Observation) {
        self.stream.lost = self.stream.lost.saturating_add(observation.lost);
        let topology = Arc::clone(&self.topology);
        let before = self.online.clone();
        if !observation.online.is_empty() {
            self.online = observation.online.clone();
        }
        let mut looked_at: Vec<&ObservedProgram> = observation.programs.iter().collect();
        looked_at.sort_by_key(|program| program.attachment);
        looked_at.dedup_by_key(|program| program.attachment);
        for program in &looked_at {
            let id = program.attachment;
            if let Some(attachment) = named(&self.by_id, &mut self.places, id) {
                let look = Look {
                    now,
                    topology: &topology,
                    online: &self.online,
                    online_changed: before != self.online,
                    kernel_balances: observation.kernel_balances,
                };
                let found = attachment.sync(&mut self.registry, program, &look);
                for task in found.handed_off {
                    self.events.push(now, id, EventKind::HandsOff { task });
                }
                if found.ended {
                    self.events.push(now, id, EventKind::ProgramEnded);
                }
            }
        }
        self.traffic.take(&topology, &observation.traffic);
        for &(id, progress) in &observation.progress {
            if let Some(attachment) = named(&self.by_id, &mut self.places, id) {
                attachment.judged.note_progress(progress);
            }
        }
        let mut free = vec![0; topology.nodes().len()];
        for (node, bytes) in &observation.free_bytes {
            if let Some(position) = topology.position(*node) {
                free[position] = *bytes;
            }
        }
        for program in looked_at {
            self.close(now, program, (&mut free, observation.kernel_balances));
        }
    }

    /// The next thing to do.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// The next things to do that do not wait for each other: one, or up to so many that move pages
    /// of one program. None when there is nothing to do.
    pub fn poll_actions(&mut self, most: usize) -> Vec<Action> {
        let mut polled: Vec<Action> = self.poll_action().into_iter().collect();
        while let Some(Action::MovePages { attachment, .. }) = polled.first()
            && polled.len() < most
            && let Some(next @ Action::MovePages { .. }) = self.actions.front()
            && next.attachment() == *attachment
        {
            polled.extend(self.poll_action());
        }
        polled
    }

    /// What came of an action that was polled.
    pub fn handle_outcome(&mut self, now: Time, action: &Action, outcome: &Outcome) {
        let id = action.attachment();
        if let Some(attachment) = named(&self.by_id, &mut self.places, id) {
            let kind = EventKind::Ended {
                action: action.clone(),
                outcome: outcome.clone(),
            };
            self.events.push(now, id, kind);
            let handed_off =
                attachment.outcome(now, action, outcome, (&self.registry, &self.topology));
            if let Some(task) = handed_off {
                self.events.push(now, id, EventKind::HandsOff { task });
            }
        }
    }

    /// The next thing to tell people.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.waiting.pop_front()
    }

    /// Events dropped because nobody polled them.
    #[must_use]
    pub const fn events_dropped(&self) -> u64 {
        self.events.dropped
    }

    /// The limits in force.
    #[must_use]
    pub const fn options(&self) -> &EngineOptions {
        &self.options
    }

    /// The attachment that a process belongs to.
    #[must_use]
    pub fn attachment_of(&self, pid: Pid) -> Option<AttachmentId> {
        let spot = self.registry.processes.find(pid.0)?;
        Some(self.places.get(spot.place as usize)?.as_ref()?.id)
    }

    fn attached(&self) -> impl Iterator<Item = &Attachment> {
        let places = self.by_id.values();
        places.filter_map(|&place| self.places[place as usize].as_ref())
    }

    fn attachment(&self, id: AttachmentId) -> Option<&Attachment> {
        self.places[*self.by_id.get(&id)? as usize].as_ref()
    }

    fn seen(&self, id: AttachmentId) -> Option<&Seen> {
        Some(&self.attachment(id)?.seen)
    }

    #[inline]
    fn fold(&mut self, sample: &Sample) {
        let node_plus_one = self.nodes.get(sample.cpu.index()).copied().unwrap_or(0);
        if let Some(Spot { place, slot }) = self.registry.threads.find(sample.tid.0)
            && let Some(attachment) = &mut self.places[place as usize]
            && attachment.seen.fold(slot, sample, node_plus_one)
        {
            self.stream.taken += 1;
            return;
        }
        self.fold_newcomer(sample, node_plus_one);
    }

    /// A sample of a thread that is not known, or of one that has the number of another.
    fn fold_newcomer(&mut self, sample: &Sample, node_plus_one: u16) {
        let registry = &mut self.registry;
        let Some(process) = registry.processes.find(sample.pid.0) else {
            return;
        };
        if let Some(old) = registry.threads.find(sample.tid.0)
            && let Some(attachment) = &mut self.places[old.place as usize]
        {
            attachment.seen.retire(registry, old.slot);
        }
        if let Some(attachment) = &mut self.places[process.place as usize] {
            let seen = &mut attachment.seen;
            self.stream.taken += u64::from(seen.fold_newcomer(registry, sample, node_plus_one));
        }
    }

    fn change(&mut self, change: &Lifecycle) {
        match *change {
            Lifecycle::Fork {
                time,
                pid,
                tid,
                parent,
            } => self.forked(time, pid, tid, parent),
            Lifecycle::Exit { time, pid, tid } => {
                if let Some(spot) = self.registry.threads.find(tid.0)
                    && let Some(attachment) = &mut self.places[spot.place as usize]
                {
                    attachment.seen.exited(spot.slot, pid, time);
                }
            }
            Lifecycle::Renamed {
                pid,
                tid,
                ref name,
                exec,
                ..
            } => {
                let Some(process) = self.registry.processes.find(pid.0) else {
                    return;
                };
                if let Some(attachment) = &mut self.places[process.place as usize] {
                    attachment
                        .seen
                        .renamed(&mut self.registry, (pid, tid), name, exec);
                }
            }
        }
    }

    /// A new thread of an attached process, or a new process that an attached one made.
    fn forked(&mut self, time: Time, pid: Pid, tid: Tid, parent: Pid) {
        let registry = &mut self.registry;
        let known = registry.processes.find(pid.0);
        let Some(spot) = known.or_else(|| registry.processes.find(parent.0)) else {
            return;
        };
        if let Some(old) = registry.threads.find(tid.0)
            && let Some(attachment) = &mut self.places[old.place as usize]
        {
            // Records of different processors come in any order: a thread whose first sample came
            // before its birth is still the same.
            if attachment.seen.is_newborn(old.slot, pid, time) {
                attachment.seen.born(old.slot, time);
                return;
            }
            attachment.seen.retire(registry, old.slot);
        }
        if let Some(attachment) = &mut self.places[spot.place as usize] {
            let maker = known.is_none().then_some(spot.slot);
            attachment.seen.forked(registry, maker, (pid, tid), time);
        }
    }

    fn close(
        &mut self,
        now: Time,
        program: &ObservedProgram,
        (free, kernel_balances): (&mut [u64], bool),
    ) {
        let Some(&place) = self.by_id.get(&program.attachment) else {
            return;
        };
        let Some(mut attachment) = self.places[place as usize].take() else {
            return;
        };
        if attachment.is_due(now) {
            let topology = Arc::clone(&self.topology);
            // Not those that were online at start: processors come and go.
            let cpus = topology.cpus().iter().filter(|cpu| !cpu.isolated);
            let usable = cpus
                .map(|cpu| cpu.id)
                .filter(|&cpu| self.online.contains(cpu));
            let usable = usable.collect();
            let takes = self.attached().map(|other| &other.takes_gbps[..]);
            let others_gbps = traffic::sum(takes, topology.nodes().len());
            let mut context = Context {
                now,
                topology: &topology,
                usable,
                others: window::Others::of(self.attached(), &topology, self.within.as_ref()),
                nodes_allowed: &program.nodes_allowed,
                free,
                kernel_balances,
                page_bytes: self.options.page_bytes,
                tasks_max: self.options.tasks_max,
                stream: self.stream,
                traffic: &self.traffic,
                others_gbps,
                within: self.within.as_mut(),
                actions: &mut self.actions,
                events: &mut self.events,
            };
            attachment.close(&mut context, &mut self.scratch);
        }
        self.places[place as usize] = Some(attachment);
    }
}

impl Action {
    /// The program it is for.
    #[must_use]
    pub const fn attachment(&self) -> AttachmentId {
        match self {
            Self::Bind { attachment, .. } | Self::MovePages { attachment, .. } => *attachment,
        }
    }
}

/// The attachment of this number: no method of the engine, which gives it the registry as well.
fn named<'a>(
    by_id: &BTreeMap<AttachmentId, u32>,
    places: &'a mut [Option<Attachment>],
    id: AttachmentId,
) -> Option<&'a mut Attachment> {
    places[*by_id.get(&id)? as usize].as_mut()
}

/// By processor, the position of its node plus one; 0 of none.
fn nodes_by_cpu(topology: &Topology) -> Vec<u16> {
    let last = topology.cpus().iter().map(|cpu| cpu.id.index()).max();
    let mut nodes = vec![0; last.map_or(0, |last| last + 1)];
    for cpu in topology.cpus() {
        let position = cpu.node.and_then(|node| topology.position(node));
        let position = position.and_then(|position| u16::try_from(position + 1).ok());
        nodes[cpu.id.index()] = position.unwrap_or(0);
    }
    nodes
}
