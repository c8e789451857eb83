//! The end of a window, in order: who takes part, what the policy sees and wants, what is decided of it, what is
//! ordered, and how long the next window is.

use std::collections::BTreeMap;
use std::time::Duration;

use topology::{CpuSet, NodeSet, TaskKey, Topology};

use super::attachment::{Attachment, WAIT_MOST};
use super::judgement::{Decision, Effect, Limits, milli};
use super::queue::Events;
use super::seen::Stream;
use super::seen::program::{Scratch, node_of};
use super::traffic::{self, Traffic};
use super::wishes::{Known, Wishes};
use super::within::Within;
use crate::action::Action;
use crate::capacity::spread;
use crate::cost::{Prices, asked_gbps};
use crate::event::{EventKind, WindowSummary};
use crate::figures::{rounded, whole};
use crate::interval::Change;
use crate::policy::{Fate, PageKey, Plan, Program, Proposal, Task, Veto};
use crate::pressure::Pressure;
use crate::published::Method;
use crate::tables::tasks::Record;
use crate::time::Time;

/// What a decision is made in.
#[derive(Debug)]
pub(super) struct Context<'a> {
    pub now: Time,
    pub topology: &'a Topology,
    /// Processors that are online and not isolated.
    pub usable: CpuSet,
    pub others: Others,
    /// Empty means all.
    pub nodes_allowed: &'a NodeSet,
    /// Free memory by position, less what was granted in this observation.
    pub free: &'a mut [u64],
    /// The kernel moves pages between nodes by itself.
    pub kernel_balances: bool,
    pub page_bytes: u64,
    pub tasks_max: usize,
    pub stream: Stream,
    /// How busy memory is, where that is known, and what others take of it.
    pub traffic: &'a Traffic,
    pub others_gbps: Vec<f64>,
    /// The machines within nodes, where some have several last-level caches.
    pub within: Option<&'a mut Within>,
    pub actions: &'a mut std::collections::VecDeque<Action>,
    pub events: &'a mut Events,
}

/// What other programs hold.
#[derive(Debug)]
pub(super) struct Others {
    /// Tasks of other programs placed on each node.
    pub held: Vec<usize>,
    /// Tasks bound to each core, by number; at the end those of the program itself as well.
    pub cores: Vec<usize>,
    /// Tasks of other programs on each last-level cache of nodes that have several.
    pub caches: BTreeMap<(usize, usize), usize>,
}

impl Others {
    pub(super) fn of<'a>(
        others: impl Iterator<Item = &'a Attachment>,
        topology: &Topology,
        within: Option<&Within>,
    ) -> Self {
        let cores = topology.cpus().iter().map(|cpu| cpu.core.index() + 1).max();
        let mut all = Self {
            held: vec![0; topology.nodes().len()],
            cores: vec![0; cores.unwrap_or(0)],
            caches: BTreeMap::new(),
        };
        for (record, sampled) in others.flat_map(|other| other.seen.threads()) {
            // One that nobody placed needs a core all the same.
            let runs = record.takes_part || sampled;
            if let Some(node) = node_of(record, topology).filter(|_| runs) {
                all.held[node] += 1;
            }
            let cache = within.and_then(|within| within.place_of(record, topology));
            if let Some(cache) = cache.filter(|_| runs) {
                *all.caches.entry(cache).or_default() += 1;
            }
            all.take_core(record);
        }
        all
    }

    pub(super) fn take_core(&mut self, record: &Record) {
        let core = record
            .binding()
            .and_then(|binding| binding.core)
            .and_then(|core| self.cores.get_mut(core.index()));
        if let Some(held) = core {
            *held += 1;
        }
    }
}

/// Dropped threads that are told of in one window for one reason; `Totals::vetoes` counts them all.
const TOLD_MAX: u32 = 64;
/// Proposals of a policy that are looked at.
const PROPOSALS_MAX: usize = 1 << 20;

impl Attachment {
    /// Ends the window: decides, orders, and begins the next.
    pub(super) fn close(&mut self, context: &mut Context<'_>, scratch: &mut Scratch) {
        self.void_orders(context);
        let has_news = self.has_news();
        let busy_min = self.options.busy_min;
        self.seen.choose(context, busy_min, &mut scratch.slots);
        self.seen.fill(context, self.ordered.placed(), scratch);
        let lost = self.seen.lost_share(context.stream);
        let known = lost <= self.options.lost_max;
        // One in which nothing was seen adds nothing to what was known before it.
        let sees = self.seen.samples() > 0 || self.follows;
        let confident = known && sees && scratch.samples >= self.options.samples_min.max(1);
        let evidence = confident || !self.options.require_gain;
        let sample = self.seen.weight_per_sample();
        let program = scratch.program(context, self.options.prices);
        let begins = evidence && self.judged.note_era(&program, sample, self.seen.lasts());
        if begins && self.options.method == Method::Ours {
            self.seen.begin_era(scratch.tasks.len());
            self.seen.fill(context, self.ordered.placed(), scratch);
        }
        self.seen.bring_home(scratch);
        let mut proposals = std::mem::take(&mut scratch.proposals);
        let mut decision = self.decide(context, scratch, &mut proposals, (evidence, has_news));
        // Of a window with holes it is not known whether anything changed.
        decision.undecided |= !known;
        let mut summary = self.summary(context, scratch, &decision);
        summary.lost_permille = rounded(lost * 1000.0);
        summary.confident = confident;
        summary.no_room.moves = self.ordered.take_forgotten();
        summary.proposals = count(proposals.len());
        scratch.proposals = proposals;
        let before = context.actions.len();
        let effect = self.order(context, scratch, &mut decision);
        // Page faults that we provoke come in bursts: the next may be long in coming.
        let comes_in_bursts =
            self.sees_writes_alone(context) && self.options.method == Method::Ours;
        self.follows = effect.moved && comes_in_bursts;
        summary.actions = count(context.actions.len() - before);
        let change = self
            .judged
            .note_effect(&self.options, &decision, effect, confident);
        // Most of the window may be of before.
        let change = if has_news { Change::Anew } else { change };
        if confident {
            let is_done = change == Change::Same && decision.leaves_nothing();
            let rests = self.stands && is_done;
            self.judged.note_rest(rests, self.seen.ways());
        }
        let (now, stream) = (context.now, context.stream);
        // What too few samples said for so long is old.
        let waited = now.since(self.seen.since()) >= self.window * WAIT_MOST;
        // So is what says enough, but for a plan that a few samples more may make sure.
        let says_enough = confident && !(decision.plan_is_open && self.seen.more_tells());
        let fades = !self.follows && (says_enough || waited);
        if self.seen.turn_over(now, stream, &scratch.slots, fades) {
            self.ordered.forget(|space| self.seen.has(space));
        }
        self.ordered.forget_oldest();
        let last = now.since(self.window_start);
        let mut next = self.judged.next_window(change, last);
        // What is left goes on as soon as these have gone.
        let going = decision.pages.iter().flat_map(|grant| &grant.ranges);
        let going = going.map(|range| range.end - range.start).sum();
        let goes_on = decision.pages_left > 0 && change != Change::Unsure;
        if let Some(takes) = self.totals.takes(going).filter(|_| goes_on) {
            next = self.judged.shorten_window(takes);
        }
        let times = next.as_secs_f64() / last.as_secs_f64().max(0.001);
        let threads = scratch.tasks.len();
        self.seen
            .begin(times, threads, stream.lost, &mut self.totals);
        self.window_start = now;
        self.window = next;
        self.window_end = Some(now.after(next));
        self.looks = 0;
        summary.next_ms = millis(next);
        context
            .events
            .push(now, self.id, EventKind::Window(summary));
    }

    /// What was ordered in an earlier window and never polled or answered is void.
    fn void_orders(&mut self, context: &mut Context<'_>) {
        context
            .actions
            .retain(|action| action.attachment() != self.id);
        self.ordered.void();
        self.seen.void_orders();
    }

    /// Asks the policy, and has its wishes judged.
    fn decide(
        &mut self,
        context: &mut Context<'_>,
        scratch: &Scratch,
        proposals: &mut Vec<Proposal>,
        (evidence, has_news): (bool, bool),
    ) -> Decision {
        let mut program = scratch.program(context, self.options.prices);
        self.judged.look_at(&mut program);
        program.prices = self.prices(&program);
        let pressure = self.pressure(context, &mut program);
        let known = pressure.as_ref().filter(|pressure| pressure.is_known());
        program.model = known.map_or(program.model, |known| &known.model);
        // A policy that was chosen for what it does has all places.
        let nodes = program.nodes();
        let spread = spread(&scratch.capacity, &nodes);
        if known.is_none() && self.options.require_gain {
            program.capacity = &spread;
        }
        let (mut plans, mut stands) = (Vec::new(), false);
        // Nothing new was seen: a policy that goes by samples has nothing to say.
        if self.seen.samples() > 0 || self.follows || !self.options.require_gain {
            stands = self.ask(context.now, &program, &mut plans);
        }
        let balances = context.kernel_balances && self.options.require_gain;
        let left = self.judged.left_to_kernel(balances, evidence, &program);
        let known = Known {
            now: context.now,
            seen: &self.seen,
            ordered: &self.ordered,
            policy: &*self.policy,
            slots: &scratch.slots,
            pieces: &scratch.pieces,
            certainty: self.options.certainty,
            settles: self.options.method == Method::Ours,
            left: &left,
            unseen: self.unseen_use(context, &program),
        };
        let pace = (program.window, program.page_bytes);
        let page_moves_max = self.totals.page_moves_max(&self.options, pace);
        let limits = Limits {
            now: context.now,
            options: &self.options,
            pressure: pressure.as_ref(),
            evidence,
            more_tells: self.seen.more_tells(),
            has_news,
            nodes_allowed: &scratch.nodes_allowed,
            room: context.room(self.options.headroom),
            page_moves_max,
            aside_max: self.totals.by_one(page_moves_max),
        };
        let standings = known.standings();
        let (taken, weighed) =
            self.judged
                .best(&program, &plans, (standings, &scratch.said), &limits);
        *proposals = plans.into_iter().nth(taken).unwrap_or_default();
        proposals.truncate(PROPOSALS_MAX);
        let wishes = Wishes::new(&known, &program, proposals, (&scratch.said, weighed));
        let decision = self.judged.decide(&program, &wishes, &limits);
        self.stands |= stands;
        if !stands {
            self.judged.keep_answer(&program, proposals);
            self.policy.on_choice(taken);
        }
        if evidence {
            self.ordered.note_wanted(&wishes.pages);
        }
        for (free, filled) in context.free.iter_mut().zip(&decision.filled) {
            *free = free.saturating_sub(*filled);
        }
        self.tell_dropped(context, &scratch.tasks, proposals, &decision.dropped);
        self.totals.proposals += proposals.len() as u64;
        self.totals.reverts += u64::from(decision.remedy.is_some());
        decision
    }

    /// See [`Known::unseen`].
    fn unseen_use(&self, context: &Context<'_>, program: &Program<'_>) -> Option<(f64, bool)> {
        let seen = Some(&self.seen).filter(|_| self.sees_writes_alone(context));
        seen?.unseen_use(program)
    }

    /// Whether samples are the page faults that we provoke.
    fn sees_writes_alone(&self, context: &Context<'_>) -> bool {
        !self.options.prices.tell_how_often() && !context.kernel_balances
    }

    /// Asks the policy for plans, or for pages alone while what it wanted of threads stands; tells
    /// whether that was so.
    fn ask(&mut self, now: Time, program: &Program<'_>, plans: &mut Vec<Plan>) -> bool {
        if let Some(mut plan) = self.judged.answer(program)
            && self.policy.page_moves(now, program, &mut plan)
        {
            plans.push(plan);
            return true;
        }
        self.policy.plans(now, program, plans);
        false
    }

    /// What moves cost in this window, and what they save until the program changes.
    pub(super) fn prices(&self, program: &Program<'_>) -> Prices {
        let prices = self.totals.measured(self.options.prices);
        prices.of_program(program, self.seen.mean_size(), self.judged.goes_on())
    }

    /// How busy memory is, for a program of which this says how much it asks of it.
    fn pressure(&mut self, context: &Context<'_>, program: &mut Program<'_>) -> Option<Pressure> {
        let tells = self.seen.answered() > 0;
        let accesses = match tells {
            true => self.seen.answered() as f64,
            false => self.seen.weight() * program.prices.accesses_per_amount,
        };
        if let Some(each) = traffic::per_weight(program, accesses) {
            program.memory_per_weight = each;
        }
        self.takes_gbps = match tells {
            true => asked_gbps(program),
            false => Vec::new(),
        };
        let others_gbps = &context.others_gbps;
        context.traffic.pressure(program, others_gbps, tells)
    }

    /// Tells the policy what it does not get, and people some of it.
    fn tell_dropped(
        &mut self,
        context: &mut Context<'_>,
        tasks: &[Task],
        proposals: &[Proposal],
        dropped: &[(usize, Veto)],
    ) {
        let mut told: BTreeMap<Veto, u32> = BTreeMap::new();
        let mut pages: BTreeMap<Veto, (u64, PageKey)> = BTreeMap::new();
        for &(number, veto) in dropped {
            let proposal = &proposals[number];
            *self.totals.vetoes.entry(veto).or_default() += 1;
            self.policy
                .on_fate(context.now, proposal, Fate::Dropped(veto));
            match proposal {
                Proposal::MovePage { page, .. } => pages.entry(veto).or_insert((0, *page)).0 += 1,
                Proposal::PlaceTask { task, node, reason } => {
                    let told = told.entry(veto).or_default();
                    *told += 1;
                    // That a task stays where it is was not dropped but granted long ago, or is the kernel's to
                    // see to; telling it in every window would bury the rest.
                    let stays = tasks.get(*task).map(|task| task.node) == Some(Some(*node));
                    let is_news = veto != Veto::AlreadyThere && (veto != Veto::Kernel || !stays);
                    let tells = is_news && *told <= TOLD_MAX;
                    let place = tasks.get(*task).zip(context.topology.nodes().get(*node));
                    if let Some((task, node)) = place.filter(|_| tells) {
                        let kind = EventKind::TaskDropped {
                            task: task.key,
                            node: node.id,
                            reason: reason.clone(),
                            veto,
                        };
                        context.events.push(context.now, self.id, kind);
                    }
                }
            }
        }
        for (veto, (count, example)) in pages {
            let kind = EventKind::PagesDropped {
                count,
                example,
                veto,
            };
            context.events.push(context.now, self.id, kind);
        }
    }

    /// Orders what was decided: threads before pages.
    fn order(
        &mut self,
        context: &mut Context<'_>,
        scratch: &Scratch,
        decision: &mut Decision,
    ) -> Effect {
        let most = context.actions.len() + self.options.task_moves_max;
        let mut effect = Effect::default();
        let mut rooms = self.settle_within(context, scratch, decision);
        for mut grant in std::mem::take(&mut decision.threads) {
            grant.cache = rooms.remove(&grant.position).and_then(|room| room.cache);
            let (position, node, from) = (grant.position, grant.node, grant.from);
            let proposal = Proposal::place_task(position, node, grant.reason.clone());
            if self.order_bind(context, scratch.slots[position], grant) {
                effect.bound = true;
                effect.moved |= from != Some(node);
                let key: TaskKey = scratch.tasks[position].key;
                let left = from.filter(|&from| from != node);
                effect.old.extend(left.map(|from| (key, from)));
            } else {
                *self.totals.vetoes.entry(Veto::NotAllowed).or_default() += 1;
                self.policy
                    .on_fate(context.now, &proposal, Fate::Dropped(Veto::NotAllowed));
            }
        }
        self.order_rooms(context, &scratch.slots, rooms);
        let room = |context: &Context<'_>| most.saturating_sub(context.actions.len());
        self.widen(context, &scratch.slots, room(context));
        self.spread_over_cores(context, &scratch.slots, room(context));
        self.order_pages(context, &decision.pages);
        effect
    }

    fn summary(
        &self,
        context: &Context<'_>,
        scratch: &Scratch,
        decision: &Decision,
    ) -> WindowSummary {
        let local = decision.measure.local_share();
        let unseen = self.seen.unseen_share();
        let unseen = unseen.filter(|_| self.sees_writes_alone(context));
        WindowSummary {
            window_ms: millis(context.now.since(self.window_start)),
            coverage_permille: rounded(scratch.coverage() * 1000.0),
            plan: decision.plan,
            tasks: count(scratch.tasks.len()),
            memory_pages: scratch.pieces.pages(),
            unseen_permille: unseen.map(|share| rounded(share * 1000.0)),
            pages_left: decision.pages_left,
            distance_centi: decision.measure.talk_centi().map(rounded),
            local_permille: local.map(|share| rounded(share * 1000.0)),
            ipc_milli: decision.ipc.map(milli),
            ..self.seen.summary(context.stream.lost)
        }
    }
}

impl Context<'_> {
    /// Bytes of each node that may still be filled when this part of its memory stays free.
    fn room(&self, headroom: f64) -> Vec<u64> {
        let nodes = self.topology.nodes().iter();
        let kept = nodes.map(|node| whole(node.memory_bytes as f64 * headroom.clamp(0.0, 1.0)));
        let room = self.free.iter().zip(kept);
        room.map(|(free, kept)| free.saturating_sub(kept)).collect()
    }
}

fn millis(length: Duration) -> u64 {
    u64::try_from(length.as_millis()).unwrap_or(u64::MAX)
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
