//! Programs that are not there: who uses which memory, with whom, and when that changes.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::conditions::{Conditions, Touch};
use crate::random::Random;

mod access;
mod made;
mod pattern;

pub use access::Access;
pub use pattern::{Link, PATTERNS, Pattern};

/// A kind of program, as typed after `--workload`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    /// Every thread has a slice of its own; one thread touched all of them first. Barriers.
    Slices,
    /// Threads share memory in shuffled pairs, and pairs wait for each other.
    Pairs,
    /// The same with groups of this many.
    Groups(usize),
    /// Everyone shares with everyone. Barriers.
    AllShared,
    /// Shuffled pairs whose partners change after this many seconds, again and again.
    Phases(u32),
    /// Shuffled pairs, and beside them a second program that takes all the bandwidth it gets.
    Hog,
    /// Two programs of half the threads each: shuffled pairs, and slices that one thread touched.
    Two,
    /// Shuffled pairs that take all the bandwidth they get, and all of them share a little.
    Stream,
    /// Slices as in `Slices`, whose threads take all the bandwidth they get.
    Flood,
    /// Slices as in `Slices`, of which little is hot and most is cold.
    Zipf,
    /// Slices as in `Slices`, in pieces that are dealt out in turn.
    Strided,
    /// Shuffled pairs as in `Pairs`, whose memory grows to eight times what it was at first.
    Growing,
    /// Half of everything in one heap, in which small objects of all threads lie side by side.
    Heap,
    /// The program of this number, of which nothing but that is fixed.
    Made(u32),
    /// Ranks on a grid that talk as a numerical kernel does.
    Pattern(&'static Pattern),
}

/// The words that name workloads, for help and error messages.
pub const WORKLOADS: &[&str] = &[
    "slices",
    "pairs",
    "groups:N",
    "all-shared",
    "phases[:SECONDS]",
    "hog",
    "two",
    "stream",
    "flood",
    "zipf",
    "strided",
    "growing",
    "heap",
    "stencil",
    "cg",
    "mg",
    "ft",
    "lu",
    "sp",
    "made:N",
];

/// Most threads in a group, and most seconds in a phase.
const NUMBER_MAX: u32 = 1024;

/// Seconds of a phase when none are given: several windows at the shortest interval, and less than
/// half of the default run.
const PHASE_SECONDS: u32 = 4;

impl FromStr for Workload {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (word, number) = match text.split_once(':') {
            Some((word, number)) => (word, Some(number)),
            None => (text, None),
        };
        let number = number
            .map(|number| {
                number
                    .parse()
                    .ok()
                    .filter(|number| (1..=NUMBER_MAX).contains(number))
                    .ok_or_else(|| {
                        format!(
                            "`{number}` in workload `{text}` is not a number from 1 to {NUMBER_MAX}"
                        )
                    })
            })
            .transpose()?;
        match (word, number) {
            ("slices", None) => Ok(Self::Slices),
            ("pairs", None) => Ok(Self::Pairs),
            ("groups", Some(size)) if size >= 2 => {
                Ok(Self::Groups(usize::try_from(size).unwrap_or(usize::MAX)))
            }
            ("all-shared", None) => Ok(Self::AllShared),
            ("phases", seconds) => Ok(Self::Phases(seconds.unwrap_or(PHASE_SECONDS))),
            ("hog", None) => Ok(Self::Hog),
            ("two", None) => Ok(Self::Two),
            ("stream", None) => Ok(Self::Stream),
            ("flood", None) => Ok(Self::Flood),
            ("zipf", None) => Ok(Self::Zipf),
            ("strided", None) => Ok(Self::Strided),
            ("growing", None) => Ok(Self::Growing),
            ("heap", None) => Ok(Self::Heap),
            ("made", Some(number)) => Ok(Self::Made(number)),
            (word, None) if let Some(pattern) = pattern::named(word) => Ok(Self::Pattern(pattern)),
            _ => Err(format!(
                "there is no workload `{text}`; there are {}",
                WORKLOADS.join(", ")
            )),
        }
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Padded, so that it fits into a column.
        match self {
            Self::Slices => f.pad("slices"),
            Self::Pairs => f.pad("pairs"),
            Self::Groups(size) => f.pad(&format!("groups:{size}")),
            Self::AllShared => f.pad("all-shared"),
            Self::Phases(seconds) => f.pad(&format!("phases:{seconds}")),
            Self::Hog => f.pad("hog"),
            Self::Two => f.pad("two"),
            Self::Stream => f.pad("stream"),
            Self::Flood => f.pad("flood"),
            Self::Zipf => f.pad("zipf"),
            Self::Strided => f.pad("strided"),
            Self::Growing => f.pad("growing"),
            Self::Heap => f.pad("heap"),
            Self::Made(number) => f.pad(&format!("made:{number}")),
            Self::Pattern(pattern) => f.pad(pattern.name),
        }
    }
}

/// A program in full: what a [`Workload`] means for a number of threads and a seed.
#[derive(Clone, Debug, PartialEq)]
pub struct Blueprint {
    /// One entry per thread, all programs in a row.
    pub threads: Vec<ThreadPlan>,
    /// Pieces of memory.
    pub regions: Vec<RegionPlan>,
    /// What threads do in each phase; never empty. After the last comes the first again.
    pub phases: Vec<PhasePlan>,
    /// Length of a phase; none when there is only one.
    pub phase: Option<Duration>,
}

/// A thread.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ThreadPlan {
    /// Which program it belongs to, from 0.
    pub program: usize,
    /// Time between accesses that is not memory's, in nanoseconds.
    pub think_ns: f64,
    /// Accesses in flight at a time.
    pub overlap: f64,
}

/// A piece of memory that is used in one way.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RegionPlan {
    /// Which program it belongs to.
    pub program: usize,
    /// How many pages.
    pub pages: u64,
    /// Which thread touches it first, so that it is allocated where that thread runs; while that one
    /// has not started, whoever comes first.
    pub toucher: usize,
    /// All who use it touch it first, in equal parts.
    pub by_all: bool,
    /// Which part of its accesses is answered by the cache of another thread that uses it.
    pub transfer: f64,
    /// Which of its pages are used how much.
    pub access: Access,
    /// Its pieces take turns with those of others.
    pub lane: Option<Lane>,
    /// It grows to its size from an eighth, within this time.
    pub grows: Option<Duration>,
}

/// How regions take turns in one piece of memory. They are numbered in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lane {
    /// Which of them this is.
    pub at: usize,
    /// How many there are.
    pub of: usize,
    /// Pages of one before it is the turn of the next.
    pub pages: u64,
}

/// What threads do for a while.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PhasePlan {
    /// For each thread, regions and which part of its accesses goes to each.
    pub uses: Vec<Vec<(usize, f64)>>,
    /// For each thread, the group it goes in step with; none when it waits for nobody. Threads of a
    /// group go at the pace of the slowest: their barriers are much closer than a step of the world.
    pub barriers: Vec<Option<usize>>,
}

/// Pages of a thread's own memory. At a thousand samples a second and half of them here, a window of
/// half a second sees each page twice.
const SLICE_PAGES: u64 = 128;

/// Pages that a group shares.
const SHARED_PAGES: u64 = 64;

/// Part of a thread's accesses that goes to shared memory, in workloads that share.
const SHARED_PART: f64 = 0.5;

/// Part of accesses to shared memory that finds the line in a partner's cache.
const TRANSFER_PART: f64 = 0.5;

/// Part of accesses of `stream` that goes to what everyone shares: enough that all threads seem to
/// belong together, and little beside the bandwidth they take.
const COMMON_PART: f64 = 0.05;

/// An ordinary thread: with local memory at 90 ns it takes 1.5 GB/s.
const THINK_NS: f64 = 20.0;
const OVERLAP: f64 = 4.0;

/// A hog streams: with local memory at 90 ns it takes 7 GB/s.
const HOG_OVERLAP: f64 = 10.0;

/// Pages in a piece of `strided`: 64 KiB, as where loops are dealt out in chunks.
const PIECE_PAGES: u64 = 16;

/// How long memory of `growing` grows.
const GROWS: Duration = Duration::from_secs(8);

/// Pages of the heap for each thread: as much as it has for itself.
const HEAP_PAGES: u64 = SLICE_PAGES;

/// How many partner changes `phases` has before it starts over.
const PHASES: usize = 3;

impl Workload {
    /// What it means for this many threads under these conditions.
    #[must_use]
    pub fn blueprint(
        self,
        threads: usize,
        conditions: &Conditions,
        random: &mut Random,
    ) -> Blueprint {
        let mut builder = Builder::new(threads);
        match self {
            Self::Slices => builder.slices(0..threads),
            Self::Pairs => builder.groups(2, 0..threads, random),
            Self::Groups(size) => builder.groups(size, 0..threads, random),
            Self::AllShared => builder.groups(threads, 0..threads, random),
            Self::Phases(seconds) => {
                builder.plan.phase = Some(Duration::from_secs(u64::from(seconds)));
                builder.private(0..threads);
                for _ in 0..PHASES {
                    builder.begin_phase();
                    builder.share(2, 0..threads, random);
                }
            }
            Self::Hog => builder.hog(random),
            Self::Two => builder.two(random),
            Self::Stream => builder.stream(random),
            Self::Flood => {
                builder.streams(0..threads);
                builder.slices(0..threads);
            }
            Self::Zipf => {
                builder.slices(0..threads);
                builder.each_region(|_, region| region.access = Access::HotAndCold);
            }
            Self::Strided => {
                builder.slices(0..threads);
                builder.each_region(|at, region| {
                    region.lane = Some(Lane {
                        at,
                        of: threads,
                        pages: PIECE_PAGES,
                    });
                });
            }
            Self::Growing => {
                builder.groups(2, 0..threads, random);
                builder.each_region(|_, region| region.grows = Some(GROWS));
            }
            Self::Heap => builder.heap(),
            Self::Made(number) => builder.made(number),
            Self::Pattern(pattern) => builder.pattern(pattern, random),
        }
        builder.plan.under(conditions)
    }
}

impl Blueprint {
    /// The same with as much memory as is asked for, touched by whom is asked for.
    fn under(mut self, conditions: &Conditions) -> Self {
        let factor = conditions.memory.factor();
        let mut first = vec![usize::MAX; self.programs()];
        for (thread, plan) in self.threads.iter().enumerate() {
            first[plan.program] = first[plan.program].min(thread);
        }
        for region in &mut self.regions {
            region.pages *= factor;
            match conditions.touch {
                Touch::Own => {}
                Touch::One => region.toucher = first[region.program],
                Touch::All => region.by_all = true,
            }
        }
        self
    }

    /// Pages of all regions.
    #[must_use]
    pub fn pages(&self) -> u64 {
        self.regions.iter().map(|region| region.pages).sum()
    }

    /// Threads that share memory with this one in a phase, ascending. An oracle: it knows what the
    /// engine has to find out.
    #[must_use]
    pub fn partners(&self, phase: usize, thread: usize) -> Vec<usize> {
        let uses = &self.phases[phase % self.phases.len()].uses;
        let shared = |other: usize| {
            uses[other]
                .iter()
                .any(|(region, _)| uses[thread].iter().any(|(mine, _)| mine == region))
        };
        (0..uses.len())
            .filter(|&other| other != thread && shared(other))
            .collect()
    }

    /// How many programs there are.
    #[must_use]
    pub fn programs(&self) -> usize {
        self.threads
            .iter()
            .map(|thread| thread.program + 1)
            .max()
            .unwrap_or(0)
    }
}

struct Builder {
    plan: Blueprint,
    /// Each thread's own region, and what part of its accesses goes there.
    own: Vec<Option<usize>>,
}

impl Builder {
    fn new(threads: usize) -> Self {
        let thread = ThreadPlan {
            program: 0,
            think_ns: THINK_NS,
            overlap: OVERLAP,
        };
        Self {
            plan: Blueprint {
                threads: vec![thread; threads],
                regions: Vec::new(),
                phases: Vec::new(),
                phase: None,
            },
            own: vec![None; threads],
        }
    }

    fn region(&mut self, pages: u64, toucher: usize, transfer: f64) -> usize {
        self.plan.regions.push(RegionPlan {
            program: self.plan.threads[toucher].program,
            pages,
            toucher,
            by_all: false,
            transfer,
            access: Access::Even,
            lane: None,
            grows: None,
        });
        self.plan.regions.len() - 1
    }

    /// Changes regions, by their number.
    fn each_region(&mut self, change: impl Fn(usize, &mut RegionPlan)) {
        let regions = self.plan.regions.iter_mut().enumerate();
        regions.for_each(|(number, region)| change(number, region));
    }

    fn begin_phase(&mut self) {
        let threads = self.plan.threads.len();
        self.plan.phases.push(PhasePlan {
            uses: vec![Vec::new(); threads],
            barriers: vec![None; threads],
        });
        for thread in 0..threads {
            if let Some(region) = self.own[thread] {
                self.use_region(thread, region, 1.0 - SHARED_PART);
            }
        }
    }

    fn use_region(&mut self, thread: usize, region: usize, part: f64) {
        if let Some(phase) = self.plan.phases.last_mut() {
            phase.uses[thread].push((region, part));
        }
    }

    /// Every thread's own memory, which it touched itself.
    fn private(&mut self, threads: std::ops::Range<usize>) {
        for thread in threads {
            self.own[thread] = Some(self.region(SLICE_PAGES, thread, 0.0));
        }
    }

    /// Groups of shuffled threads share a region each, in the phase that is being built. The last
    /// group may be smaller; a thread left alone has the region for itself.
    fn share(&mut self, size: usize, threads: std::ops::Range<usize>, random: &mut Random) {
        let mut order: Vec<usize> = threads.collect();
        random.shuffle(&mut order);
        for group in order.chunks(size.max(1)) {
            let toucher = group.iter().copied().min().unwrap_or(0);
            let region = self.region(SHARED_PAGES, toucher, TRANSFER_PART);
            for &thread in group {
                self.use_region(thread, region, SHARED_PART);
                if let Some(phase) = self.plan.phases.last_mut() {
                    phase.barriers[thread] = Some(region);
                }
            }
        }
    }

    fn groups(&mut self, size: usize, threads: std::ops::Range<usize>, random: &mut Random) {
        self.private(threads.clone());
        self.begin_phase();
        self.share(size, threads, random);
    }

    /// The first of the threads touched everything.
    fn slices(&mut self, threads: std::ops::Range<usize>) {
        if self.plan.phases.is_empty() {
            self.begin_phase();
        }
        let first = threads.start;
        let barrier = self.plan.regions.len();
        for thread in threads {
            let region = self.region(SLICE_PAGES, first, 0.0);
            self.use_region(thread, region, 1.0);
            self.plan.phases[0].barriers[thread] = Some(barrier);
        }
    }

    /// Objects of all threads, allocated in turn; the first thread touched what they lie in.
    fn heap(&mut self) {
        let threads = self.plan.threads.len();
        self.private(0..threads);
        self.begin_phase();
        let heap = self.region(HEAP_PAGES * threads as u64, 0, 0.0);
        self.plan.regions[heap].access = Access::Objects;
        for thread in 0..threads {
            self.use_region(thread, heap, SHARED_PART);
            self.plan.phases[0].barriers[thread] = Some(heap);
        }
    }

    /// The second half of the threads is another program.
    fn two(&mut self, random: &mut Random) {
        let threads = self.plan.threads.len();
        let half = threads.div_ceil(2);
        for thread in &mut self.plan.threads[half..] {
            thread.program = 1;
        }
        self.groups(2, 0..half, random);
        self.slices(half..threads);
    }

    fn stream(&mut self, random: &mut Random) {
        let threads = self.plan.threads.len();
        self.streams(0..threads);
        self.groups(2, 0..threads, random);
        let region = self.region(SHARED_PAGES, 0, TRANSFER_PART);
        for thread in 0..threads {
            let phase = &mut self.plan.phases[0];
            phase.uses[thread][0].1 -= COMMON_PART;
            phase.uses[thread].push((region, COMMON_PART));
        }
    }

    /// These threads take all the bandwidth they get.
    fn streams(&mut self, threads: std::ops::Range<usize>) {
        for thread in &mut self.plan.threads[threads] {
            thread.think_ns = 0.0;
            thread.overlap = HOG_OVERLAP;
        }
    }

    /// The last quarter of the threads is a second program: its first thread touched all its memory.
    fn hog(&mut self, random: &mut Random) {
        let threads = self.plan.threads.len();
        let victims = threads - (threads / 4).max(1).min(threads.saturating_sub(1));
        for thread in &mut self.plan.threads[victims..] {
            *thread = ThreadPlan {
                program: 1,
                think_ns: 0.0,
                overlap: HOG_OVERLAP,
            };
        }
        self.groups(2, 0..victims, random);
        for thread in victims..threads {
            let region = self.region(SLICE_PAGES, victims, 0.0);
            self.use_region(thread, region, 1.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blueprint(text: &str, threads: usize, seed: u64) -> Blueprint {
        let workload: Workload = text.parse().unwrap();
        assert_eq!(workload.to_string().parse(), Ok(workload));
        workload.blueprint(threads, &Conditions::default(), &mut Random::new(seed, 0))
    }

    #[track_caller]
    fn check_sound(plan: &Blueprint) {
        for phase in &plan.phases {
            assert_eq!(phase.uses.len(), plan.threads.len());
            assert_eq!(phase.barriers.len(), plan.threads.len());
            for (thread, uses) in phase.uses.iter().enumerate() {
                let parts: f64 = uses.iter().map(|(_, part)| part).sum();
                assert!((parts - 1.0).abs() < 1e-9, "thread {thread}: {parts}");
                let program = plan.threads[thread].program;
                assert!(phase.barriers[thread].is_none_or(|one| one < plan.regions.len()));
                assert!(
                    uses.iter()
                        .all(|&(r, _)| plan.regions[r].program == program)
                );
            }
        }
    }

    #[test]
    fn every_workload_is_sound_for_any_number_of_threads() {
        for text in [
            "slices",
            "pairs",
            "groups:4",
            "groups:8",
            "all-shared",
            "phases",
            "hog",
            "two",
            "stream",
            "flood",
            "zipf",
            "strided",
            "growing",
            "heap",
            "stencil",
            "cg",
            "mg",
            "ft",
            "lu",
            "sp",
        ] {
            for threads in [1, 2, 3, 16, 33, 72] {
                check_sound(&blueprint(text, threads, 5));
            }
        }
    }

    #[test]
    fn drawn_programs_are_sound_differ_and_are_the_same_for_any_seed() {
        let mut plans = Vec::new();
        for number in 1..200 {
            let name = format!("made:{number}");
            [1, 2, 3, 33].into_iter().for_each(|threads| {
                let plan = blueprint(&name, threads, 5);
                check_sound(&plan);
                assert_eq!(plan, blueprint(&name, threads, 6));
            });
            plans.push(blueprint(&name, 16, 1));
        }
        plans.dedup();
        assert!(plans.len() > 190);
        assert!(plans.iter().any(|plan| plan.phases.len() > 1));
        assert!(plans.iter().any(|plan| plan.programs() > 1));
    }

    #[test]
    fn partners_are_mutual_and_of_the_size_asked_for() {
        let plan = blueprint("groups:4", 16, 1);
        for thread in 0..16 {
            let partners = plan.partners(0, thread);
            assert_eq!(partners.len(), 3);
            assert!(
                partners
                    .iter()
                    .all(|&one| plan.partners(0, one).contains(&thread))
            );
        }
        let plan = blueprint("phases:2", 16, 1);
        assert_eq!(plan.phase, Some(Duration::from_secs(2)));
        assert_ne!(plan.partners(0, 0), plan.partners(1, 0));
        assert_ne!(blueprint("pairs", 16, 1), blueprint("pairs", 16, 2));
        assert_eq!(blueprint("hog", 16, 1).programs(), 2);
    }

    #[test]
    fn unknown_words_and_numbers_are_refused() {
        for text in [
            "",
            "pair",
            "groups",
            "groups:0",
            "groups:1",
            "groups:x",
            "pairs:2",
            "phases:99999",
        ] {
            let error = text.parse::<Workload>().unwrap_err();
            assert!(error.contains(&format!("`{text}`")), "{error}");
        }
    }
}
