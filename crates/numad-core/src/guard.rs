//! Mechanism overrules policy: what of its wishes a program gets.
//!
//! Threads are judged together, because they form one placement: two that change places between
//! full nodes are no trouble, and whether a plan pays is a question about all of it. In this order:
//! is it possible and allowed, is it so already, is there evidence, is enough of its memory seen,
//! did it move too recently, did two windows agree, is there budget, is there room in the placement
//! that comes out, does it pay, and could it be chance.
//!
//! *Agreement.* The first placement of a thread needs one window with enough samples. A thread that
//! we placed before moves again only when two judged windows in a row want it on the same other
//! node, or when both want a plan and the earlier one would still gain by what the later one saw:
//! of many plans that are as good a policy may find another in each window. A page moves a first
//! time on one window's evidence, and again only when two agree or when it follows a thread that
//! uses it and has moved since. So a change of phase that lasts is followed in its second window.
//!
//! *Chance.* For those who seek a gain, what is left of a plan must be more than the best of all
//! plans that move as many threads would show by chance, and a page's accesses more than a coin
//! would; see [`crate::evidence`]. Threads are judged by the pages that they share. Of a page that
//! more use than it names, those it names are no partners for that: the others count against them.
//!
//! *Two views.* Some policies make their plans from pages, others from the matrix of communication,
//! and a plan looks best by what it was made from. So the guard takes the smaller of the two
//! savings.
//!
//! *Threads settle before pages.* In a window that orders a thread to another node, pages wait: the
//! policy saw threads where they will not be any more. They wait for at most [`PAGES_WAIT_MAX`]
//! windows in a row, so that a program whose threads never settle does not keep its pages where
//! they were for ever. In the first windows of a program pages wait too if something, but not yet
//! enough, speaks for moving a thread that uses them: it shows sooner whose a page is than who
//! shares it, and they would go twice. They wait for a plan that would save little as well, since
//! nearer may be slower: a program that takes all the bandwidth it gets would crowd one controller.
//! But none waits where one window of that costs more than its move.

use std::cell::OnceCell;
use std::collections::BTreeSet;

use topology::Distances;

use crate::capacity::count_by_node;
use crate::cost::{self, Worth};
use crate::engine::AttachOptions;
use crate::evidence::{self, Evidence, Scale};
use crate::matrix::CommMatrix;
use crate::policy::{Page, Plan, Program, Proposal, Veto};
use crate::pressure::{DOUBT, FullModel, Pressure, ThreadPlan};
use crate::published::Method;

mod pages;

pub(crate) use pages::{PageCase, PageGain, PageWish};

/// Windows in a row that pages wait for threads.
pub(crate) const PAGES_WAIT_MAX: u32 = 3;

/// What is known of a task beside what the policy saw.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Standing {
    /// Node we placed it on.
    pub placed: Option<usize>,
    pub hands_off: bool,
    /// It shares next to nothing, and the kernel's balancing is on.
    pub left: bool,
    /// It moved too recently.
    pub held: bool,
    /// Node that the window before wanted.
    pub wanted: Option<usize>,
    /// None where samples show all that is used.
    pub unseen: Option<UnseenUse>,
}

/// What a task is taken to do with memory that is in no sample.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UnseenUse {
    /// Node that is taken to have what it uses of that, and how much it does.
    pub node: usize,
    pub weight: f64,
    /// Such memory is more than what is in samples.
    pub is_most: bool,
}

/// What threads are judged by.
#[derive(Debug)]
pub(crate) struct ThreadCase<'a> {
    pub program: &'a Program<'a>,
    pub standings: &'a [Standing],
    pub options: &'a AttachOptions,
    /// Enough samples stand behind the window.
    pub evidence: bool,
    /// An earlier placement is put back: neither agreement nor rest nor a gain is asked for.
    pub reverting: bool,
    /// The plan of the window before would still gain: windows agree that threads are misplaced, if
    /// not about the node of each.
    pub agreed: bool,
    /// How busy memory is, where that is measured.
    pub pressure: Option<&'a Pressure>,
    /// Messages between threads, as the samples that would have shown as much sharing.
    pub said: &'a CommMatrix,
    /// Placements that were weighed for this window already.
    pub weighed: &'a [WeighedPlacement],
}

/// What became of wishes for threads.
#[derive(Debug)]
pub(crate) struct ThreadVerdicts {
    /// For each wish, in the same order.
    pub each: Vec<Result<(), Veto>>,
    /// How sure the plan as a whole is; none when it moves nobody from a node that is known, or
    /// fell before.
    pub plan: Option<Evidence>,
    /// The plan could be chance, and is worth more windows that tell.
    pub is_open: bool,
    /// Tasks of a plan that could be chance or would crowd a controller, and the nodes that they
    /// are on: there they are placed, for the policy wants them bound, and half a plan leaves the
    /// others to wander.
    pub kept: Vec<TaskWish>,
    /// Tasks that leave a node with more tasks than cores though the plan fell, and where to.
    pub relieved: Vec<TaskWish>,
    /// How sure each move is by itself, by task; empty when nobody moves.
    pub each_sure: Vec<Option<Evidence>>,
}

/// The node of each task, and what came of weighing that.
pub(crate) type WeighedPlacement = (Vec<Option<usize>>, Weighed);

#[derive(Clone, Debug, Default)]
pub(crate) struct Weighed {
    worth: Worth,
    /// What is left of the saving, by the full model where it has a say.
    net_ns: f64,
    /// Why it comes to nothing, if it does.
    veto: Option<Veto>,
    /// How sure the move of each is by itself; empty when nobody moves.
    each: Vec<Option<Evidence>>,
}

/// A task and the node it is to go to, both by position.
pub(crate) type TaskWish = (usize, usize);

/// What becomes of a wish that a second window has to agree with.
const WAITS: Result<(), Veto> = Err(Veto::Unconfirmed);

impl ThreadCase<'_> {
    /// What becomes of each wish, in the same order.
    pub(crate) fn judge(&self, wishes: &[TaskWish]) -> ThreadVerdicts {
        let mut verdicts: Vec<_> = wishes.iter().map(|&wish| self.alone(wish)).collect();
        let model = OnceCell::new();
        self.hurry(wishes, &mut verdicts);
        self.foresee(wishes, &mut verdicts, &model);
        self.spend(wishes, &mut verdicts);
        self.make_room(wishes, &mut verdicts);
        let (mut weighed, mut kept) = (Weighed::default(), Vec::new());
        let mut relieved = Vec::new();
        if self.options.require_gain && !self.reverting {
            let (before, after) = self.placements(wishes, &verdicts);
            weighed = self.weighed(&before, &after, &model);
            if let Some(veto) = weighed.veto {
                let mut all = wishes.to_vec();
                self.drop_moves(&mut all, &mut verdicts, veto);
                // Near enough, but for chance, what it costs or a controller: the next plan would
                // be dropped as well.
                if weighed.worth.saved_ns > 0.0 {
                    kept = self.keep_where_they_are(&all, &verdicts, veto);
                }
                relieved = granted(&all[wishes.len()..], &verdicts[wishes.len()..]).collect();
                verdicts.truncate(wishes.len());
            }
        }
        ThreadVerdicts {
            each: verdicts,
            plan: weighed.worth.evidence,
            is_open: weighed.veto == Some(Veto::Evidence),
            kept,
            relieved,
            each_sure: weighed.each,
        }
    }

    /// The position of the plan that leaves the fewest tasks without a core of their own and is
    /// worth most of those, staying being worth nothing; the first of equals. And what is known of
    /// them.
    pub(crate) fn best(&self, plans: &[Plan]) -> (usize, Vec<WeighedPlacement>) {
        let mut known: Vec<WeighedPlacement> = Vec::new();
        if plans.len() < 2 || !self.evidence {
            return (0, known);
        }
        let mut best = (0, (usize::MAX, 0.0));
        let model = OnceCell::new();
        for (at, plan) in plans.iter().enumerate() {
            let wishes: Vec<TaskWish> = plan.iter().filter_map(Proposal::place).collect();
            let verdicts: Vec<_> = wishes.iter().map(|&wish| self.alone(wish)).collect();
            let (now, after) = self.placements(&wishes, &verdicts);
            if known.iter().any(|known| known.0 == after) {
                continue;
            }
            let weighed = self.weigh(&now, &after, &model);
            let net_ns = match weighed.veto {
                None => weighed.net_ns,
                // More windows may make the first plan sure.
                Some(Veto::Evidence) if at == 0 => weighed.worth.saved_ns - weighed.worth.price_ns,
                Some(_) => 0.0,
            };
            let standing = self.standing(&after);
            let (least, most) = best.1;
            if standing < least || standing == least && net_ns > most {
                // Between plans of which one is hardly better than the other, the first guess
                // decides.
                let doubt_ns = if at == 0 { self.doubt_ns() } else { 0.0 };
                best = (at, (standing, net_ns.max(0.0) + doubt_ns));
            }
            known.push((after, weighed));
        }
        (best.0, known)
    }

    /// Who leaves a node that has more tasks than places for one that has a place waits for no second
    /// window to agree: until then two share a core, and each window may want another of the places.
    fn hurry(&self, wishes: &[TaskWish], verdicts: &mut [Result<(), Veto>]) {
        if !verdicts.contains(&WAITS) {
            return;
        }
        let (now, capacity) = (self.program.nodes(), self.program.capacity);
        let mut on = count_by_node(&now, capacity.len());
        for (&(task, node), verdict) in wishes.iter().zip(verdicts) {
            let full = |&from: &usize| on[from] > capacity[from] && on[node] < capacity[node];
            if *verdict == WAITS
                && let Some(from) = now[task].filter(full)
            {
                *verdict = Ok(());
                on[from] -= 1;
                on[node] += 1;
            }
        }
    }

    /// What waits for a second window to agree, and would be dropped even then, waits for nothing.
    fn foresee<'a>(
        &'a self,
        wishes: &[TaskWish],
        verdicts: &mut [Result<(), Veto>],
        model: &OnceCell<Option<FullModel<'a>>>,
    ) {
        if !self.options.require_gain || self.reverting || !verdicts.contains(&WAITS) {
            return;
        }
        let agreed = |&verdict| if verdict == WAITS { Ok(()) } else { verdict };
        let agreed: Vec<_> = verdicts.iter().map(agreed).collect();
        let (before, after) = self.placements(wishes, &agreed);
        if let Some(veto) = self.weighed(&before, &after, model).veto {
            let waiting = verdicts.iter_mut().filter(|verdict| **verdict == WAITS);
            waiting.for_each(|verdict| *verdict = Err(veto));
        }
    }

    /// What is known of a placement, if not yet then anew.
    fn weighed<'a>(
        &'a self,
        before: &[Option<usize>],
        after: &[Option<usize>],
        model: &OnceCell<Option<FullModel<'a>>>,
    ) -> Weighed {
        let known = self.weighed.iter().find(|known| known.0 == after);
        let anew = || self.weigh(before, after, model);
        known.map_or_else(anew, |known| known.1.clone())
    }

    /// What the figures of a plan may err by, in the time of all tasks within the horizon.
    fn doubt_ns(&self) -> f64 {
        DOUBT * self.program.busy_ns() * self.program.windows()
    }

    /// How many tasks have no core of their own on these nodes.
    fn standing(&self, nodes: &[Option<usize>]) -> usize {
        let on = count_by_node(nodes, self.program.capacity.len());
        let over = on.iter().zip(self.program.capacity);
        over.map(|(on, room)| on.saturating_sub(*room)).sum()
    }

    /// Tasks whose moves were dropped with the plan and that have a place where they are.
    fn keep_where_they_are(
        &self,
        wishes: &[TaskWish],
        verdicts: &[Result<(), Veto>],
        veto: Veto,
    ) -> Vec<TaskWish> {
        let mut on = self.tasks_on_nodes(wishes, verdicts);
        let mut seen: BTreeSet<usize> = granted(wishes, verdicts).map(|(task, _)| task).collect();
        let dropped = wishes.iter().zip(verdicts);
        let dropped = dropped.filter(|(_, verdict)| **verdict == Err(veto));
        let stay =
            dropped.filter_map(|(&(task, _), _)| Some((task, self.program.tasks[task].node?)));
        stay.filter(|&(task, node)| {
            let free = on[node] < self.program.capacity[node];
            let stays = free && self.alone((task, node)).is_ok() && seen.insert(task);
            on[node] += usize::from(stays);
            stays
        })
        .collect()
    }

    /// Drops every wish that changes a node; those that stay are kept as far as there is room. But
    /// where the plan has a task leave a node that has more tasks than places for one that has a
    /// place, a task does: a core of its own is worth more than what any plan saves. Which one and
    /// where to goes by the memory that it uses, and is added to the wishes.
    fn drop_moves(
        &self,
        wishes: &mut Vec<TaskWish>,
        verdicts: &mut Vec<Result<(), Veto>>,
        veto: Veto,
    ) {
        let capacity = self.program.capacity;
        let mut now = self.program.nodes();
        let mut on = count_by_node(&now, capacity.len());
        let mut uses = None;
        for index in 0..wishes.len() {
            let (task, node) = wishes[index];
            if verdicts[index].is_err() || now[task] == Some(node) {
                continue;
            }
            verdicts[index] = Err(veto);
            let full =
                now[task].filter(|&from| on[from] > capacity[from] && on[node] < capacity[node]);
            let Some(from) = full else {
                continue;
            };
            let uses = uses.get_or_insert_with(|| {
                cost::uses_by_node(self.program.pages, now.len(), capacity.len())
            });
            let gain = |(task, to): TaskWish| uses[task][to] - uses[task][from];
            let mut best = (task, node);
            for other in (0..now.len()).filter(|&other| now[other] == Some(from)) {
                for to in (0..capacity.len()).filter(|&to| on[to] < capacity[to]) {
                    let wish = (other, to);
                    if gain(wish) > gain(best) && self.alone(wish).is_ok() {
                        best = wish;
                    }
                }
            }
            now[best.0] = Some(best.1);
            on[from] -= 1;
            on[best.1] += 1;
            if best == (task, node) {
                verdicts[index] = Ok(());
                continue;
            }
            // There is one wish for a task at most that was not dropped yet.
            let of_task = |at: &usize| wishes[*at].0 == best.0 && verdicts[*at].is_ok();
            let own = (0..wishes.len()).find(of_task);
            if own.is_none_or(|own| wishes[own] != best) {
                if let Some(own) = own {
                    verdicts[own] = Err(veto);
                }
                wishes.push(best);
                verdicts.push(Ok(()));
            }
        }
        self.make_room(wishes, verdicts);
    }

    /// Nodes of all tasks before and after what is left of the wishes.
    fn placements(
        &self,
        wishes: &[TaskWish],
        verdicts: &[Result<(), Veto>],
    ) -> (Vec<Option<usize>>, Vec<Option<usize>>) {
        let before = self.program.nodes();
        let mut after = before.clone();
        granted(wishes, verdicts).for_each(|(task, node)| after[task] = Some(node));
        (before, after)
    }

    /// How many tasks each node holds if what is left of the wishes is done, and every other task
    /// stays where it was placed.
    fn tasks_on_nodes(&self, wishes: &[TaskWish], verdicts: &[Result<(), Veto>]) -> Vec<usize> {
        let placed = self.standings.iter().map(|standing| standing.placed);
        let mut placed: Vec<Option<usize>> = placed.collect();
        let mut on = count_by_node(&placed, self.program.capacity.len());
        for (task, node) in granted(wishes, verdicts) {
            on[node] += 1;
            if let Some(node) = placed[task].take() {
                on[node] -= 1;
            }
        }
        on
    }

    /// What is left of the plan is worth: how much nearer it brings who shares pages or sends
    /// messages, what it costs, and how sure that is of all and of each task by itself. A plan that
    /// moves nobody of whom it is known where he is costs nothing.
    ///
    /// `model` is asked for when it is needed, and kept for other plans.
    fn weigh<'a>(
        &'a self,
        before: &[Option<usize>],
        after: &[Option<usize>],
        model: &OnceCell<Option<FullModel<'a>>>,
    ) -> Weighed {
        let moves = |task: usize| before[task].is_some() && before[task] != after[task];
        let movers = (0..before.len()).filter(|&task| moves(task)).count();
        if movers == 0 {
            return Weighed::default();
        }
        let mut all = Scale::default();
        let mut each = vec![Scale::default(); before.len()];
        let mut far = 0.0;
        let ways = ways(self.program.topology.distances(), before, after);
        let mut put = |(one, other): (usize, usize), samples: f64, stands_for: f64| {
            let (was, is) = ways(one, other);
            let by = (was - is) * stands_for;
            far += was * stands_for * samples;
            // What gets neither nearer nor farther says nothing.
            if by != 0.0 {
                each[one].put(samples, by);
                each[other].put(samples, by);
                all.put(samples, by);
            }
            by
        };
        let everyone = self.all_pairs(before, after);
        let mut unnamed = Scale::default();
        for page in self.program.pages {
            let named = for_each_pair(page, &mut put);
            let (samples, by) = named.unnamed(page.remembered(), &everyone);
            unnamed.put(samples, by);
        }
        // Messages are in no page. Pairs of the matrix are there and back, as pairs on pages are.
        for (one, other, samples) in self.said.pairs() {
            put((one, other), samples as f64, 1.0);
        }
        let believed = self.believed(all.net() / far, before, after);
        all.add(&unnamed);
        let plan = ThreadPlan {
            program: *self.program,
            before,
            after,
        };
        let plans = evidence::ln_plans(before.len(), movers, self.program.capacity.len());
        let prices = &self.program.prices;
        // Distances of pairs are there and back.
        let nearer = all.net() / 2.0 * self.amount_per_sample() * prices.accesses_per_amount;
        let seen_ns = prices.gain_ns(nearer, self.program.window);
        let worth = Worth {
            saved_ns: seen_ns.min(seen_ns * believed) - self.left_behind_ns(before, after),
            price_ns: plan.price_ns(),
            evidence: Some(self.options.certainty.weigh_chosen(&all, plans)),
        };
        let alone = |(task, scale): (usize, &Scale)| {
            Some(self.options.certainty.weigh(scale))
                .filter(|evidence| moves(task) && evidence.samples > 0.0)
        };
        let by_distance = worth.judge();
        let model = model.get_or_init(|| self.pressure?.full_model(*self.program, before));
        // It sees the same pages.
        let doubted_ns = seen_ns - worth.saved_ns;
        let judge = |model: &FullModel<'_>| model.worth(&plan, worth.price_ns).less(doubted_ns);
        let modelled = model.as_ref().map(judge);
        let knows = self.pressure.is_some_and(Pressure::is_known);
        Weighed {
            worth,
            net_ns: match &modelled {
                Some(model) if knows => model.saved_ns - model.price_ns,
                _ => worth.least_ns() - worth.price_ns,
            },
            veto: match (self.pressure, modelled) {
                (Some(pressure), Some(model)) => {
                    pressure.judge(&plan, &model, (&worth, by_distance)).err()
                }
                _ => by_distance.err(),
            },
            each: each.iter().enumerate().map(alone).collect(),
        }
    }

    /// What it costs that tasks get farther from memory that nobody sees them use. To come back to it
    /// is worth nothing: it is a guess.
    fn left_behind_ns(&self, before: &[Option<usize>], after: &[Option<usize>]) -> f64 {
        let distances = self.program.topology.distances();
        let farther = |(standing, (was, is)): (&Standing, (&Option<usize>, &Option<usize>))| {
            let unseen = standing.unseen?;
            let apart = |node: usize| f64::from(distances.between(node, unseen.node));
            Some(unseen.weight * (apart((*is)?) - apart((*was)?)))
        };
        let moves = self.standings.iter().zip(before.iter().zip(after));
        let farther = moves.filter_map(farther).sum::<f64>().max(0.0);
        let prices = &self.program.prices;
        prices.gain_ns(farther * prices.accesses_per_amount, self.program.window)
    }

    /// Accesses that a sample stands for: in pages, or, where nothing but messages is known, in
    /// those.
    fn amount_per_sample(&self) -> f64 {
        let pages = self.program.pages.iter();
        let samples: f64 = pages.clone().map(|page| f64::from(page.samples)).sum();
        if samples > 0.0 {
            return pages.map(|page| page.weight() as f64).sum::<f64>() / samples;
        }
        let sum = |matrix: &CommMatrix| matrix.pairs().map(|pair| pair.2 as f64).sum::<f64>();
        sum(self.program.live) / sum(self.said).max(1.0)
    }

    /// What part of the saving seen on pages counts: all of it, or less where communication shows a
    /// smaller saving. `seen` is that saving as a share of all distance between threads that share.
    fn believed(&self, seen: f64, before: &[Option<usize>], after: &[Option<usize>]) -> f64 {
        let distances = self.program.topology.distances();
        let placements = [before, after];
        let [stays, goes] = cost::placement_distances(self.program.live, placements, distances);
        if stays <= 0.0 || seen <= 0.0 || seen.is_nan() {
            return 1.0;
        }
        let heard = (stays - goes) / stays;
        (heard / seen).min(1.0)
    }

    /// All pairs of tasks of which it is known where they are and would be.
    fn all_pairs(&self, before: &[Option<usize>], after: &[Option<usize>]) -> Pairs {
        let nodes = self.program.capacity.len();
        let distances = self.program.topology.distances();
        let (mut was, mut is) = (vec![0.0; nodes], vec![0.0; nodes]);
        for (before, after) in before.iter().zip(after) {
            if let (Some(before), Some(after)) = (*before, *after) {
                was[before] += 1.0;
                is[after] += 1.0;
            }
        }
        let apart = |on: &[f64]| {
            let mut sum = 0.0;
            for one in 0..nodes {
                for other in 0..nodes {
                    let pairs = on[one] * (on[other] - f64::from(u8::from(one == other)));
                    sum += pairs * f64::from(distances.between(one, other));
                }
            }
            sum
        };
        Pairs {
            tasks: was.iter().sum(),
            nearer: apart(&was) - apart(&is),
            ..Pairs::default()
        }
    }

    fn alone(&self, (task, node): TaskWish) -> Result<(), Veto> {
        let (Some(seen), Some(standing)) = (self.program.tasks.get(task), self.standings.get(task))
        else {
            return Err(Veto::Gone);
        };
        let seeks = !self.reverting;
        let is_allowed = self.options.move_threads && seen.allowed.get(node) == Some(&true);
        let room = self.program.capacity.get(node);
        let leaves = |unseen: UnseenUse| unseen.is_most && unseen.node != node;
        let agrees = standing.placed.is_none() || standing.wanted == Some(node);
        let waits = self.options.method == Method::Ours && !self.agreed && !agrees;
        first_of([
            (standing.hands_off, Veto::HandsOff),
            (seeks && standing.left, Veto::Kernel),
            (!is_allowed, Veto::NotAllowed),
            (standing.placed == Some(node), Veto::AlreadyThere),
            (room.is_none_or(|&room| room == 0), Veto::NoRoom),
            (!self.evidence, Veto::Evidence),
            (seeks && standing.unseen.is_some_and(leaves), Veto::Unseen),
            (seeks && standing.held, Veto::MovedRecently),
            (seeks && waits, Veto::Unconfirmed),
        ])
    }

    /// One move per task, and no more moves than the budget; the first are the policy's best.
    fn spend(&self, wishes: &[TaskWish], verdicts: &mut [Result<(), Veto>]) {
        let mut taken = BTreeSet::new();
        for (&(task, _), verdict) in wishes.iter().zip(verdicts) {
            let within = taken.len() < self.options.task_moves_max;
            if verdict.is_ok() && !(within && taken.insert(task)) {
                *verdict = Err(Veto::Budget);
            }
        }
    }

    /// Drops wishes, the last first, until the placement that comes out fits. A dropped task stays
    /// on the node it was placed on, which may push out another: hence the rounds, each of which
    /// drops at least one. A node that was over-full before gets nobody, but nobody is driven away.
    pub(crate) fn make_room(&self, wishes: &[TaskWish], verdicts: &mut [Result<(), Veto>]) {
        let capacity = self.program.capacity;
        let mut on = self.tasks_on_nodes(wishes, verdicts);
        let mut dropped = true;
        while dropped {
            dropped = false;
            for (&(task, node), verdict) in wishes.iter().zip(verdicts.iter_mut()).rev() {
                if verdict.is_ok() && on[node] > capacity[node] {
                    *verdict = Err(Veto::NoRoom);
                    dropped = true;
                    on[node] -= 1;
                    if let Some(node) = self.standings[task].placed {
                        on[node] += 1;
                    }
                }
            }
        }
    }
}

/// The first of these vetoes that holds.
#[inline]
fn first_of<const COUNT: usize>(vetoes: [(bool, Veto); COUNT]) -> Result<(), Veto> {
    let found = vetoes.into_iter().find(|(holds, _)| *holds);
    found.map_or(Ok(()), |(_, veto)| Err(veto))
}

/// What is left of the wishes.
pub(crate) fn granted(
    wishes: &[TaskWish],
    verdicts: &[Result<(), Veto>],
) -> impl Iterator<Item = TaskWish> {
    let judged = wishes.iter().zip(verdicts);
    judged.filter_map(|(&wish, verdict)| verdict.is_ok().then_some(wish))
}

/// How far two tasks were from each other and are, there and back; nothing where that is not known.
fn ways(
    distances: &Distances,
    before: &[Option<usize>],
    after: &[Option<usize>],
) -> impl Fn(usize, usize) -> (f64, f64) {
    let nowhere = distances.count();
    let side = nowhere + 1;
    let far = |one: usize, other: usize| match one < nowhere && other < nowhere {
        true => distances.between(one, other) + distances.between(other, one),
        false => 0,
    };
    let table = (0..side * side).map(|pair| f64::from(far(pair / side, pair % side)));
    let table: Vec<f64> = table.collect();
    let both = before.iter().zip(after);
    let places = both.map(|(was, is)| was.zip(*is).unwrap_or((nowhere, nowhere)));
    let places: Vec<(usize, usize)> = places.collect();
    move |one, other| {
        let (one, other) = (places[one], places[other]);
        (table[one.0 * side + other.0], table[one.1 * side + other.1])
    }
}

/// All pairs of some tasks, and how much nearer they get together.
#[derive(Debug, Default)]
struct Pairs {
    tasks: f64,
    samples: f64,
    nearer: f64,
}

impl Pairs {
    /// Samples of pairs on a page that it does not name, where these are the named, who have such a
    /// share of its use; and how much nearer each of those gets. They could be any: what brings the
    /// few together that are named takes others apart.
    fn unnamed(&self, share: f64, all: &Self) -> (f64, f64) {
        let (named, rest) = (pairs(self.tasks), pairs(all.tasks) - pairs(self.tasks));
        if named <= 0.0 || rest <= 0.0 || share >= 1.0 {
            return (0.0, 0.0);
        }
        let samples = self.samples * (pairs(self.tasks / share) / named - 1.0);
        (samples, (all.nearer / share - self.nearer) / rest)
    }
}

/// How many pairs so many tasks are.
fn pairs(tasks: f64) -> f64 {
    tasks * (tasks - 1.0) / 2.0
}

/// Visits every two users of a page with the samples that speak for their sharing it, and for how
/// many each of these stands. Samples are as many as the one has who used it less: one who strayed
/// there once says next to nothing, however often the other comes, while the matrix counts each of
/// those accesses. Of a page that many use, those of the few who are remembered stand for all.
/// `visit` says how much nearer the two get.
fn for_each_pair(page: &Page, visit: &mut impl FnMut((usize, usize), f64, f64) -> f64) -> Pairs {
    let mut named = Pairs::default();
    let users = page.accessors();
    let (uses, own) = (page.weight() as f64, page.remembered());
    if users.len() < 2 || uses <= 0.0 || own <= 0.0 {
        return named;
    }
    named.tasks = users.len() as f64;
    let per_use = f64::from(page.samples) * own / uses;
    for (index, one) in users.iter().enumerate() {
        for other in &users[..index] {
            let samples = f64::from(one.weight.min(other.weight)) * per_use;
            let tasks = (one.task as usize, other.task as usize);
            named.samples += samples;
            named.nearer += visit(tasks, samples, own.recip());
        }
    }
    named
}
