//! Measuring, step by step.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use topology::{CpuId, Fingerprint, Measured, MeasuredLink, NodeId};

use crate::arrays::Arrays;
use crate::chase::Chase;
use crate::plan::{Plan, thread_counts};

/// What is measured next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Bandwidth of some threads of one node.
    Alone {
        /// Node of the threads.
        from: NodeId,
        /// Node of the memory.
        to: NodeId,
        /// How many threads.
        threads: usize,
    },
    /// Bandwidth of all nodes at once.
    Loaded {
        /// Node of the memory.
        to: NodeId,
    },
    /// Latency.
    Idle {
        /// Node of the thread.
        from: NodeId,
        /// Node of the memory.
        to: NodeId,
    },
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Alone { from, to, threads } => {
                let plural = if *threads == 1 { "" } else { "s" };
                write!(
                    f,
                    "bandwidth of node {from} to memory of node {to}, {threads} thread{plural}"
                )
            }
            Self::Loaded { to } => write!(f, "bandwidth of all nodes to memory of node {to}"),
            Self::Idle { from, to } => {
                write!(f, "latency of node {from} to memory of node {to}")
            }
        }
    }
}

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// What comes next.
    pub step: Step,
    /// Figures that are known.
    pub done: usize,
    /// Figures there will be.
    pub all: usize,
    /// How long the rest will take if it goes on as it did; none before the first figure.
    pub remaining: Option<Duration>,
}

/// Is asked around every step.
pub trait Observer {
    /// Before it: shows how far it is, waits for a quiet machine if need be, and says whether to go
    /// on.
    fn may_go_on(&mut self, progress: Progress) -> bool;

    /// After it: whether what was found is to count.
    fn counts(&mut self) -> bool {
        true
    }
}

/// Why measuring ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunError {
    /// The observer ended it.
    Stopped,
    /// A thread cannot run there.
    Processor {
        /// Where.
        cpu: CpuId,
        /// What the kernel says.
        errno: Errno,
    },
    /// Memory cannot be had there.
    Memory {
        /// Where.
        node: NodeId,
        /// What the kernel says.
        errno: Errno,
    },
    /// The kernel gives no more threads.
    NoThread,
    /// A thread of ours ended early: a mistake of ours.
    Broken,
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stopped => f.write_str("measuring was stopped"),
            Self::Processor { cpu, errno } => {
                let why = errno.desc().to_lowercase();
                write!(f, "a thread cannot run on processor `{cpu}`: {why}")
            }
            Self::Memory { node, errno } => {
                let why = errno.desc().to_lowercase();
                write!(f, "memory of node `{node}` cannot be used: {why}")
            }
            Self::NoThread => f.write_str("there are not enough threads to be had"),
            Self::Broken => f.write_str("a measuring thread ended early"),
        }
    }
}

impl std::error::Error for RunError {}

/// More threads bring nothing more below this share: what two runs of the same differ by.
const PLATEAU: f64 = 1.03;
/// Larger thread counts that bring nothing before the search for the plateau ends.
const PLATEAU_TRIES: usize = 2;

/// What is known so far. It outlasts an observer that ended it, and goes on from there.
#[derive(Debug)]
pub struct Run {
    measured: Measured,
    /// Position in `thread_counts` at which a node was fastest with its own memory.
    plateaus: BTreeMap<NodeId, usize>,
}

impl Run {
    /// Nothing yet, of the machine with this fingerprint.
    #[must_use]
    pub const fn new(fingerprint: Fingerprint) -> Self {
        Self {
            measured: Measured::new(fingerprint),
            plateaus: BTreeMap::new(),
        }
    }

    /// Measures what is not known yet of everything in a plan. Memory is held no longer than this
    /// call.
    ///
    /// # Errors
    /// When the observer ends it, or the kernel does not let us run or allocate somewhere.
    pub fn go_on(&mut self, plan: &Plan, observer: &mut dyn Observer) -> Result<(), RunError> {
        let done = self.figures();
        let mut runner = Runner {
            run: self,
            plan,
            observer,
            began: Instant::now(),
            done_before: done,
            done,
        };
        // Local pairs first: where a node's own plateau is spares most counts towards other
        // memories.
        for local in [true, false] {
            for &memory in &plan.memories {
                runner.alone(memory, local)?;
            }
        }
        for &memory in &plan.memories {
            runner.loaded(memory)?;
            runner.idle(memory)?;
        }
        Ok(())
    }

    /// What was measured.
    #[must_use]
    pub fn into_measured(self) -> Measured {
        self.measured
    }

    fn link(&self, from: NodeId, to: NodeId) -> MeasuredLink {
        self.measured.link(from, to).unwrap_or_default()
    }

    /// Steps that are behind us: those of one memory under load give the figures of all nodes.
    fn figures(&self) -> usize {
        let links = self.measured.iter();
        let (mut figures, mut loaded) = (0, BTreeSet::new());
        for ((_, to), link) in links {
            figures += usize::from(link.alone_mbps.is_some());
            figures += usize::from(link.idle_ns.is_some());
            if link.loaded_mbps.is_some() {
                loaded.insert(to);
            }
        }
        figures + loaded.len()
    }
}

struct Runner<'a> {
    run: &'a mut Run,
    plan: &'a Plan,
    observer: &'a mut dyn Observer,
    began: Instant,
    /// Figures that were known when it began.
    done_before: usize,
    done: usize,
}

impl Runner<'_> {
    /// One memory and those nodes that are local to it, or those that are not.
    fn alone(&mut self, memory: NodeId, local: bool) -> Result<(), RunError> {
        let plan = self.plan;
        let askers: Vec<&(NodeId, Vec<CpuId>)> = plan
            .askers
            .iter()
            .filter(|(from, _)| (*from == memory) == local)
            .filter(|(from, _)| self.run.link(*from, memory).alone_mbps.is_none())
            .collect();
        if askers.is_empty() {
            return Ok(());
        }
        let arrays = Arrays::on(memory, plan.bytes)?;
        for (from, cpus) in askers {
            let counts = thread_counts(cpus.len());
            let plateau = self.run.plateaus.get(from).copied().unwrap_or(0);
            let first = if local { 0 } else { plateau.saturating_sub(1) };
            let (mut best, mut best_at, mut tries) = (0.0, first, 0);
            for (at, &threads) in counts.iter().enumerate().skip(first) {
                let step = Step::Alone {
                    from: *from,
                    to: memory,
                    threads,
                };
                let found = self.best_of(step, || {
                    let rates = arrays.measure(&[&cpus[..threads]], plan.effort.length)?;
                    Ok(rates.iter().sum())
                })?;
                tries = if found > best * PLATEAU { 0 } else { tries + 1 };
                if found > best {
                    (best, best_at) = (found, at);
                }
                if tries >= PLATEAU_TRIES {
                    break;
                }
            }
            if local {
                self.run.plateaus.insert(*from, best_at);
            }
            self.done += 1;
            self.run.measured.link_mut(*from, memory).alone_mbps = Some(mbps(best));
        }
        Ok(())
    }

    fn loaded(&mut self, memory: NodeId) -> Result<(), RunError> {
        let plan = self.plan;
        let mut askers = plan.askers.iter();
        if askers.all(|(from, _)| self.run.link(*from, memory).loaded_mbps.is_some()) {
            return Ok(());
        }
        let arrays = Arrays::on(memory, plan.bytes)?;
        let groups: Vec<&[CpuId]> = plan.askers.iter().map(|(_, cpus)| &cpus[..]).collect();
        let mut parts = vec![0.0; groups.len()];
        // The run with the largest sum as a whole: parts of several add up to more than there is.
        let mut most = 0.0;
        self.best_of(Step::Loaded { to: memory }, || {
            let found = arrays.measure(&groups, plan.effort.length)?;
            let sum = found.iter().sum();
            if sum > most {
                (parts, most) = (found, sum);
            }
            Ok(sum)
        })?;
        self.done += 1;
        for ((from, _), part) in plan.askers.iter().zip(parts) {
            self.run.measured.link_mut(*from, memory).loaded_mbps = Some(mbps(part));
        }
        Ok(())
    }

    fn idle(&mut self, memory: NodeId) -> Result<(), RunError> {
        let plan = self.plan;
        let askers = plan.askers.iter().filter_map(|(from, cpus)| {
            let known = self.run.link(*from, memory).idle_ns.is_some();
            (!known).then_some((*from, *cpus.first()?))
        });
        let askers: Vec<(NodeId, CpuId)> = askers.collect();
        if askers.is_empty() {
            return Ok(());
        }
        let chase = Chase::on(memory, plan.bytes / 3)?;
        for (from, cpu) in askers {
            let step = Step::Idle { from, to: memory };
            let least = self.best_of(step, || Ok(-chase.measure(cpu, plan.effort.length)?))?;
            self.done += 1;
            self.run.measured.link_mut(from, memory).idle_ns = Some(whole(-least).max(1));
        }
        Ok(())
    }

    /// One step: the largest of several runs, since others on the machine only ever make it slower.
    fn best_of(
        &mut self,
        step: Step,
        mut once: impl FnMut() -> Result<f64, RunError>,
    ) -> Result<f64, RunError> {
        self.ask(step)?;
        let mut best = f64::NEG_INFINITY;
        for _ in 0..self.plan.effort.runs.max(1) {
            best = best.max(once()?);
        }
        if self.observer.counts() {
            Ok(best)
        } else {
            Err(RunError::Stopped)
        }
    }

    fn ask(&mut self, step: Step) -> Result<(), RunError> {
        let all = 2 * self.plan.pairs() + self.plan.memories.len();
        let spent = self.began.elapsed();
        let left = u32::try_from(all - self.done).unwrap_or(u32::MAX);
        let done = u32::try_from(self.done - self.done_before).unwrap_or(u32::MAX);
        let progress = Progress {
            step,
            done: self.done,
            all,
            remaining: spent.saturating_mul(left).checked_div(done),
        };
        if self.observer.may_go_on(progress) {
            Ok(())
        } else {
            Err(RunError::Stopped)
        }
    }
}

fn mbps(gbps: f64) -> u64 {
    whole(gbps * 1000.0).max(1)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "not negative, and `as` saturates"
)]
fn whole(figure: f64) -> u64 {
    (figure + 0.5) as u64
}

#[cfg(test)]
mod tests {
    use nix::sched::sched_getaffinity;
    use nix::unistd::Pid;
    use topology::CpuSet;

    use super::*;
    use crate::plan::Effort;

    /// Ends it after so many steps, and keeps what it was told.
    struct Until(usize, Vec<Progress>);

    impl Observer for Until {
        fn may_go_on(&mut self, progress: Progress) -> bool {
            self.1.push(progress);
            self.1.len() <= self.0
        }
    }

    /// Lets every step begin, and the last of so many not count.
    struct Disturbed(usize);

    impl Observer for Disturbed {
        fn may_go_on(&mut self, _: Progress) -> bool {
            true
        }

        fn counts(&mut self) -> bool {
            self.0 -= 1;
            self.0 > 0
        }
    }

    /// This machine, as far as tests may use it, in runs of a millisecond.
    fn plan() -> Option<(Plan, Fingerprint)> {
        let topology = topology::load("this").ok()?;
        let allowed = sched_getaffinity(Pid::from_raw(0)).unwrap();
        let allowed: CpuSet = topology
            .online()
            .iter()
            .filter(|cpu| allowed.is_set(cpu.index()).unwrap_or(false))
            .collect();
        let effort = Effort {
            length: Duration::from_millis(1),
            runs: 1,
            bytes_max: 0,
        };
        let mut plan = Plan::new(&topology, &allowed, |_| u64::MAX, effort).unwrap();
        plan.bytes = 1 << 20;
        Some((plan, topology.fingerprint()))
    }

    #[test]
    fn every_pair_of_this_machine_gets_its_figures() {
        let Some((plan, fingerprint)) = plan() else {
            println!("skipped: this machine cannot be read");
            return;
        };
        let mut observer = Until(usize::MAX, Vec::new());
        let mut run = Run::new(fingerprint);
        match run.go_on(&plan, &mut observer) {
            Ok(()) => {}
            Err(RunError::Memory { errno, .. }) => {
                println!("skipped: memory policies are refused here: {errno}");
                return;
            }
            Err(error) => panic!("{error}"),
        }
        let measured = run.into_measured();
        assert_eq!(measured.iter().count(), plan.pairs());
        for (pair, link) in measured.iter() {
            let all = [link.alone_mbps, link.loaded_mbps, link.idle_ns];
            assert!(
                all.iter()
                    .all(|figure| figure.is_some_and(|figure| figure > 0)),
                "{pair:?}"
            );
        }
        let steps = &observer.1;
        assert_eq!((steps[0].done, steps[0].remaining), (0, None));
        let last = steps.last().unwrap();
        assert!(
            last.done == last.all - 1 && last.remaining.is_some(),
            "{last:?}"
        );
    }

    #[test]
    fn the_observer_ends_it() {
        let Some((plan, fingerprint)) = plan() else {
            println!("skipped: this machine cannot be read");
            return;
        };
        let ended = Run::new(fingerprint).go_on(&plan, &mut Until(0, Vec::new()));
        let refused = matches!(ended, Err(RunError::Stopped | RunError::Memory { .. }));
        assert!(refused, "{ended:?}");
    }

    #[test]
    fn what_was_ended_goes_on_where_it_was() {
        let Some((plan, fingerprint)) = plan() else {
            println!("skipped: this machine cannot be read");
            return;
        };
        let mut run = Run::new(fingerprint);
        // A figure for every pair and one for every memory, of which the last does not come.
        let all = 2 * plan.pairs() + plan.memories.len();
        for end in 1_usize.. {
            assert!(end < 1000, "{run:?}");
            let before = run.figures();
            // Steps without a new figure are counts of threads; they are made again.
            match run.go_on(&plan, &mut Disturbed(end)) {
                Err(RunError::Stopped) => assert!(run.figures() >= before && run.figures() < all),
                Err(RunError::Memory { errno, .. }) => {
                    println!("skipped: memory policies are refused here: {errno}");
                    return;
                }
                other => {
                    assert_eq!(other, Ok(()));
                    break;
                }
            }
        }
        assert_eq!(run.figures(), all);
        let mut again = Until(usize::MAX, Vec::new());
        assert_eq!(run.go_on(&plan, &mut again), Ok(()));
        assert!(again.1.is_empty(), "nothing is measured twice");
    }

    #[test]
    fn what_cannot_be_says_where() {
        let error = crate::bound::to_cpu(CpuId(1023)).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("a thread cannot run on processor `1023`: "),
            "{error}"
        );
        let error = crate::bound::on_node(NodeId(5000), || ()).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("memory of node `5000` cannot"),
            "{error}"
        );
    }
}
