//! Who shares what with whom. Pure: the same kind, threads and seed give the same plan.

use std::fmt;
use std::str::FromStr;

use crate::made;

/// A pattern of sharing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Every thread has memory of its own, which the first thread touched first.
    Slices,
    /// Threads share memory in shuffled pairs.
    Pairs,
    /// Threads share memory in shuffled groups of this size.
    Groups(usize),
    /// All threads share all memory.
    AllShared,
    /// Pairs that are shuffled anew in every phase.
    Phases,
    /// Pairs that are processes, not threads: half of them share memory that they inherited, the others an
    /// object that each maps at an address of its own.
    SharedProcesses,
    /// One half of the threads streams through memory of its own; the other half works in pairs.
    Hog,
    /// One half of the threads streams through memory of its own and writes; the other half follows chains through
    /// memory of its own and only reads.
    Readers,
    /// As slices, but a few pages of each are used most and most are hardly used.
    Zipf,
    /// As slices, of which an eighth is there at first and an eighth more in each phase.
    Growing,
    /// One piece of memory, dealt out to all threads in turn, four pages at a time.
    Strided,
    /// One heap, in which small objects of all threads lie side by side on every page.
    Heap,
    /// The program of this number, of which all else is drawn.
    Made(u32),
}

/// How a thread uses a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// Adds to every line, again and again.
    Sweep,
    /// Adds to every line once in a round.
    Stream,
    /// Follows a chain of so many lines, and only reads.
    Chase(usize),
    /// Adds to so many lines by Zipf's law.
    Zipf(usize),
    /// Sweeps as much as there is by now.
    Grow,
    /// Goes on through the lines that were dealt out to it.
    Dealt {
        /// Lines in a piece.
        lines: usize,
        /// Which piece is its own, of each `of`.
        index: usize,
        /// Threads that they are dealt out to.
        of: usize,
        /// Lines in a round; without it, each of them once.
        count: Option<usize>,
    },
}

/// Lines used in a round, by and large: 64 sweeps over 256 KiB. More, and threads with much memory
/// would learn of a new phase long after it began.
pub(crate) const LINES_PER_ROUND: usize = 64 * (256 << 10) / 64;
/// Lines in what `strided` deals out at once: four pages of 4 KiB.
pub(crate) const STRIDE_LINES: usize = 256;
/// Lines in an object of `heap`.
pub(crate) const OBJECT_LINES: usize = 2;

/// What each thread does in one phase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// How large each region is, in eighths of the size that is asked for.
    pub eighths: Vec<usize>,
    /// Who touches each first; nobody: whoever uses it first.
    pub touchers: Vec<Option<usize>>,
    /// For each thread, the regions that it uses in every round, and how.
    pub uses: Vec<Vec<(usize, Manner)>>,
    /// For each thread, how often it counts to itself in a round.
    pub idle: Vec<usize>,
    /// For each thread, those that it waits for after every round: all with the same number.
    pub steps: Vec<Option<usize>>,
}

impl Kind {
    /// The words that [`Kind::from_str`] understands.
    pub const WORDS: &'static str = "slices, pairs, groups:SIZE, all-shared, phases, hog, shared-processes, readers, zipf, growing, strided, heap, \
         made:NUMBER";

    /// The plan of one phase; only those of [`Kind::Phases`] and [`Kind::Made`] differ from phase to
    /// phase.
    #[must_use]
    pub fn plan(self, threads: usize, seed: u64, phase: u64) -> Plan {
        if let Self::Made(number) = self {
            return made::plan(number, threads, phase);
        }
        let phase = if self == Self::Phases { phase } else { 0 };
        let order = shuffled(threads, &mut seed.wrapping_add(phase));
        let (grouped, streaming) = match self {
            Self::Hog | Self::Readers => order.split_at(threads / 2),
            _ => (order.as_slice(), [].as_slice()),
        };
        let size = match self {
            Self::Pairs | Self::Phases | Self::Hog | Self::SharedProcesses => 2,
            Self::Groups(size) => size.max(1),
            Self::AllShared | Self::Strided | Self::Heap => threads.max(1),
            Self::Slices | Self::Readers | Self::Zipf | Self::Growing | Self::Made(_) => 1,
        };
        let mut plan = Plan::new(threads);
        for group in grouped.chunks(size) {
            let region = plan.region(WHOLE, None);
            for &thread in group {
                plan.uses[thread].push((region, self.manner(thread, threads)));
            }
        }
        for &thread in streaming {
            let region = plan.region(WHOLE, None);
            plan.uses[thread].push((region, Manner::Stream));
        }
        plan
    }

    /// How a thread works that does not stream.
    const fn manner(self, index: usize, of: usize) -> Manner {
        let lines = match self {
            Self::Readers => return Manner::Chase(LINES_PER_ROUND),
            Self::Zipf => return Manner::Zipf(LINES_PER_ROUND),
            Self::Growing => return Manner::Grow,
            Self::Strided => STRIDE_LINES,
            Self::Heap => OBJECT_LINES,
            _ => return Manner::Sweep,
        };
        Manner::Dealt {
            lines,
            index,
            of,
            count: None,
        }
    }

    /// Whether threads learn who shares with whom anew in every phase.
    #[must_use]
    pub const fn has_phases(self) -> bool {
        matches!(self, Self::Phases | Self::Made(_))
    }

    /// Whether the first thread touches all memory first, so that it all lies on one node.
    #[must_use]
    pub const fn is_prepared(self) -> bool {
        matches!(
            self,
            Self::Slices | Self::Readers | Self::Zipf | Self::Strided | Self::Heap
        )
    }
}

/// The size of a region that is as large as is asked for.
const WHOLE: usize = 8;

impl Plan {
    /// Nobody does anything.
    pub(crate) fn new(threads: usize) -> Self {
        Self {
            eighths: Vec::new(),
            touchers: Vec::new(),
            uses: vec![Vec::new(); threads],
            idle: vec![0; threads],
            steps: vec![None; threads],
        }
    }

    /// One more region.
    pub(crate) fn region(&mut self, eighths: usize, toucher: Option<usize>) -> usize {
        self.eighths.push(eighths);
        self.touchers.push(toucher);
        self.eighths.len() - 1
    }

    /// The regions that a thread uses.
    pub fn regions(&self, thread: usize) -> impl Iterator<Item = usize> + '_ {
        self.uses[thread].iter().map(|(region, _)| *region)
    }

    /// The node, below `nodes`, of a thread when threads that share a region are kept together and every node gets
    /// as many threads as any other.
    #[must_use]
    pub fn place(&self, thread: usize, nodes: usize) -> usize {
        let key = |thread: usize| (self.regions(thread).next(), thread);
        let before = (0..self.uses.len()).filter(|&other| key(other) < key(thread));
        before.count() * nodes / self.uses.len().max(1)
    }

    /// Which part of a region is this thread's when those who use it divide it, and how many they
    /// are.
    #[must_use]
    pub fn share(&self, thread: usize, region: usize) -> (usize, usize) {
        let uses = |other: &usize| self.regions(*other).any(|used| used == region);
        let sharers = || (0..self.uses.len()).filter(uses);
        let before = sharers().filter(|&other| other < thread).count();
        (before, sharers().count().max(1))
    }

    /// Threads that share a region, by ascending number, regions of one thread left out.
    #[must_use]
    pub fn groups(&self) -> Vec<Vec<usize>> {
        let mut groups = vec![Vec::new(); self.eighths.len()];
        for thread in 0..self.uses.len() {
            for region in self.regions(thread) {
                groups[region].push(thread);
            }
        }
        groups.retain(|group| group.len() > 1);
        groups.sort();
        groups.dedup();
        groups
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Slices => f.write_str("slices"),
            Self::Pairs => f.write_str("pairs"),
            Self::Groups(size) => write!(f, "groups:{size}"),
            Self::AllShared => f.write_str("all-shared"),
            Self::Phases => f.write_str("phases"),
            Self::Hog => f.write_str("hog"),
            Self::SharedProcesses => f.write_str("shared-processes"),
            Self::Readers => f.write_str("readers"),
            Self::Zipf => f.write_str("zipf"),
            Self::Growing => f.write_str("growing"),
            Self::Strided => f.write_str("strided"),
            Self::Heap => f.write_str("heap"),
            Self::Made(number) => write!(f, "made:{number}"),
        }
    }
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "slices" => Ok(Self::Slices),
            "pairs" => Ok(Self::Pairs),
            "all-shared" => Ok(Self::AllShared),
            "phases" => Ok(Self::Phases),
            "hog" => Ok(Self::Hog),
            "shared-processes" => Ok(Self::SharedProcesses),
            "readers" => Ok(Self::Readers),
            "zipf" => Ok(Self::Zipf),
            "growing" => Ok(Self::Growing),
            "strided" => Ok(Self::Strided),
            "heap" => Ok(Self::Heap),
            _ => numbered(text).ok_or_else(|| format!("`{text}` is none of {}", Self::WORDS)),
        }
    }
}

/// A kind that has a number.
fn numbered(text: &str) -> Option<Kind> {
    let (word, number) = text.split_once(':')?;
    match (word, number.parse().ok()?) {
        ("groups", size @ 2..=1024) => Some(Kind::Groups(usize::try_from(size).ok()?)),
        ("made", number) => Some(Kind::Made(number)),
        _ => None,
    }
}

/// The numbers below `count` in an order that the state decides (Fisher-Yates).
pub(crate) fn shuffled(count: usize, state: &mut u64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    for last in (1..count).rev() {
        order.swap(last, below(last + 1, state));
    }
    order
}

/// A number below `limit`, which is above 0.
pub(crate) fn below(limit: usize, state: &mut u64) -> usize {
    // The 128-bit remainder fits: it is below `limit`.
    let pick = u128::from(splitmix(state)) % limit as u128;
    usize::try_from(pick).unwrap_or(0)
}

/// Steele, Lea and Flood's `SplitMix64`: one step of a sequence that is good enough to shuffle.
pub(crate) fn splitmix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn sizes(kind: &str, threads: usize, expected: &[usize]) {
        let plan = kind.parse::<Kind>().unwrap().plan(threads, 1, 0);
        let sizes: Vec<usize> = plan.groups().iter().map(Vec::len).collect();
        assert_eq!(sizes, expected, "{kind}");
        assert!(
            plan.uses.iter().all(|uses| uses.len() == 1),
            "{kind}: everyone works"
        );
    }

    #[test]
    fn groups_have_the_size_of_their_kind() {
        sizes("slices", 8, &[]);
        sizes("pairs", 8, &[2, 2, 2, 2]);
        sizes("groups:4", 8, &[4, 4]);
        sizes("all-shared", 8, &[8]);
        sizes("hog", 8, &[2, 2]);
        sizes("readers", 8, &[]);
        sizes("heap", 8, &[8]);
        sizes("pairs", 7, &[2, 2, 2]);
    }

    #[test]
    fn seeds_and_phases_shuffle() {
        let pairs = |kind: Kind, seed, phase| kind.plan(16, seed, phase).groups();
        assert_eq!(pairs(Kind::Pairs, 1, 0), pairs(Kind::Pairs, 1, 5));
        assert_ne!(pairs(Kind::Pairs, 1, 0), pairs(Kind::Pairs, 2, 0));
        assert_ne!(pairs(Kind::Phases, 1, 0), pairs(Kind::Phases, 1, 1));
        let in_order: Vec<Vec<usize>> = (0..8).map(|pair| vec![2 * pair, 2 * pair + 1]).collect();
        assert_ne!(pairs(Kind::Pairs, 1, 0), in_order);
    }

    #[test]
    fn the_oracle_keeps_sharers_together_and_nodes_even() {
        for phase in 0..3 {
            let plan = Kind::Phases.plan(8, 3, phase);
            let mut load = [0; 4];
            for thread in 0..8 {
                load[plan.place(thread, 4)] += 1;
            }
            assert_eq!(load, [2; 4]);
            for pair in plan.groups() {
                assert_eq!(plan.place(pair[0], 4), plan.place(pair[1], 4), "{plan:?}");
                let (region, _) = plan.uses[pair[0]][0];
                assert_eq!(plan.share(pair[0], region), (0, 2));
                assert_eq!(plan.share(pair[1], region), (1, 2));
                // In every phase a region's sharers are on the same node, so its pages need not move.
                assert_eq!(plan.place(pair[0], 4), region);
            }
        }
    }

    #[test]
    fn words_are_read_and_printed() {
        for word in [
            "slices",
            "pairs",
            "groups:8",
            "all-shared",
            "phases",
            "hog",
            "shared-processes",
            "readers",
            "zipf",
            "growing",
            "strided",
            "heap",
            "made:7",
        ] {
            assert_eq!(word.parse::<Kind>().unwrap().to_string(), word);
        }
        for word in [
            "",
            "pair",
            "groups:1",
            "groups:x",
            "groups:99999",
            "made",
            "made:-1",
        ] {
            word.parse::<Kind>().unwrap_err();
        }
    }
}
