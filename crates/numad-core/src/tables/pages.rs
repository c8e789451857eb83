//! Which pages are used by whom: a set-associative table of fixed size.
//!
//! A set is five cache lines: eight tags in the first, eight entries of half a line in the others.
//! A sample of a tracked page touches two lines that lie in one small page of memory. When a set is
//! full, the page with the fewest (decayed) samples is dropped and counted; two pages never share
//! an entry.

use super::Seat;
use super::bits::Bits;
use super::spaces::LocalSpace;
use crate::policy::ACCESSORS_MAX;

/// Entries of a set.
const WAYS: usize = 8;
/// Words of an entry: four weights, four seats, samples, home, count.
const ENTRY_WORDS: usize = 4;
/// Words of a set: one tag and one entry for each way. Five cache lines.
const SET_WORDS: usize = WAYS * (1 + ENTRY_WORDS);
/// Words of a cache line.
const LINE_WORDS: usize = 8;
const _: () = assert!(SET_WORDS.is_multiple_of(LINE_WORDS));

/// Bits of a page number; with more, an address is not one of a process.
pub(crate) const PAGE_BITS: u32 = 52;

/// What one sample counts: samples are kept in sixteenths, so that a page seen once outlives four
/// decays instead of vanishing at the first.
const SAMPLE: u32 = 16;

/// A page and its address space in one word; never 0, because no space has the number 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Tag(u64);

impl Tag {
    /// None for a page number that no process has.
    #[inline]
    pub(crate) fn new(space: LocalSpace, page: u64) -> Option<Self> {
        (space != 0 && page >> PAGE_BITS == 0).then(|| Self(u64::from(space) << PAGE_BITS | page))
    }

    /// As one word, in order of space and page.
    pub(crate) const fn word(self) -> u64 {
        self.0
    }

    /// The tag that gave this word.
    pub(crate) const fn from_word(word: u64) -> Self {
        Self(word)
    }

    /// A number whose upper bits depend on every bit of the tag, so that pages at equal offsets of
    /// large arrays, as threads use them, are not alike.
    pub(super) const fn spread(self) -> u64 {
        (self.0 ^ self.0 >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    pub(crate) const fn space(self) -> LocalSpace {
        (self.0 >> PAGE_BITS) as LocalSpace
    }

    pub(crate) const fn page(self) -> u64 {
        self.0 & ((1 << PAGE_BITS) - 1)
    }
}

/// What is known of one page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Decayed accesses of each accessor.
    pub weights: [u32; ACCESSORS_MAX],
    /// Last distinct accessors, most recent first.
    pub seats: [Seat; ACCESSORS_MAX],
    sixteenths: u32,
    /// Position of the node plus one, 0 while unknown; and [`LARGE`].
    home_plus_one: u16,
    count: u16,
}

/// Of an entry's home: the kernel maps the page as part of a larger one.
const LARGE: u16 = 1 << 15;

/// The home that an entry's word for it says.
const fn home(home_plus_one: u16) -> Option<u16> {
    (home_plus_one & !LARGE).checked_sub(1)
}

/// The word for a home.
const fn plus_one(home: Option<u16>) -> u16 {
    match home {
        Some(home) if home < LARGE - 1 => home + 1,
        _ => 0,
    }
}

/// Where a tracked page is, in the table and on the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub slot: u32,
    pub home: Option<u16>,
    /// The kernel maps it as part of a larger page, as far as is known.
    pub is_large: bool,
}

/// A page that is tracked: its slot, which it is, and what is known of it.
pub(crate) type Tracked = (u32, Tag, Entry);

/// The one with more samples first (ties: lowest slot).
fn hotter(one: &Tracked, other: &Tracked) -> std::cmp::Ordering {
    (other.2.sixteenths, one.0).cmp(&(one.2.sixteenths, other.0))
}

/// Who used a page since the accessor did last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sharers {
    /// The vector before the access.
    seats: [Seat; ACCESSORS_MAX],
    count: usize,
    /// How many of them used the page since.
    since: usize,
    /// Position of the node that the page is on, plus one; 0 while unknown.
    pub(crate) home_plus_one: u16,
}

impl Sharers {
    /// All who are remembered, each with the weight of the access if it is shared with them, else
    /// 0: a branch less than to leave those out, see `Entry::access`.
    #[inline]
    pub(crate) fn amounts(&self, weight: u32) -> impl Iterator<Item = (Seat, u32)> + '_ {
        let seats = self.seats[..self.count].iter().enumerate();
        seats.map(move |(at, &seat)| (seat, weight * u32::from(at < self.since)))
    }
}

impl Entry {
    pub(crate) fn count(&self) -> usize {
        usize::from(self.count).min(ACCESSORS_MAX)
    }

    /// Decayed samples, at least 1 for a page that is tracked.
    pub(crate) const fn samples(&self) -> u32 {
        self.sixteenths.div_ceil(SAMPLE)
    }

    /// The same, not rounded.
    pub(crate) fn exact_samples(&self) -> f64 {
        f64::from(self.sixteenths) / f64::from(SAMPLE)
    }

    pub(crate) const fn home(&self) -> Option<u16> {
        home(self.home_plus_one)
    }

    /// See [`Place::is_large`].
    pub(crate) const fn is_large(&self) -> bool {
        self.home_plus_one & LARGE != 0
    }

    /// LAPT's step: everyone else in the vector shares the page with this accessor, which then
    /// moves to the front; the oldest falls off a full vector.
    ///
    /// Told are those who used the page since this accessor did, which stand before it. The paper
    /// counts those behind it too, at every access anew. Then who used a page once, or has left it,
    /// goes on sharing it with who uses it all the time: with samples for as long as the vector
    /// holds it, which is many windows.
    ///
    /// Written without a branch that depends on the entry: entries come from far memory, and a
    /// mispredicted branch on one would keep the processor from fetching those of the next samples.
    #[inline]
    fn access(&mut self, seat: Seat, weight: u32) -> Sharers {
        let (count, seats, weights) = (self.count(), self.seats, self.weights);
        let hits = (0..ACCESSORS_MAX).fold(0u32, |hits, at| {
            hits | u32::from(at < count && seats[at] == seat) << at
        });
        let found = hits.trailing_zeros() as usize;
        let fresh = usize::from(hits == 0);
        // Those before this place move back by one; the one at it is the accessor, or falls off.
        let from = found.min(count).min(ACCESSORS_MAX - 1);
        let mut before = 0;
        for at in 0..ACCESSORS_MAX {
            before |= if at == found { weights[at] } else { 0 };
            let back = usize::from(at > 0 && at <= from);
            self.seats[at] = seats[at - back];
            self.weights[at] = weights[at - back];
        }
        self.seats[0] = seat;
        self.weights[0] = before.saturating_add(weight);
        self.sixteenths = self.sixteenths.saturating_add(SAMPLE);
        let grown = (count + fresh).min(ACCESSORS_MAX);
        self.count = u16::try_from(grown).unwrap_or_default();
        Sharers {
            seats,
            count,
            since: found.min(count),
            home_plus_one: self.home_plus_one & !LARGE,
        }
    }

    /// Keeps those accessors of an entry of which a question says yes.
    fn retain(words: &mut [u64], mut stays: impl FnMut(Seat) -> bool) {
        let old = Self::read(words);
        let mut new = Self {
            weights: [0; ACCESSORS_MAX],
            seats: [0; ACCESSORS_MAX],
            count: 0,
            ..old
        };
        for at in (0..old.count()).filter(|&at| stays(old.seats[at])) {
            let kept = new.count();
            new.seats[kept] = old.seats[at];
            new.weights[kept] = old.weights[at];
            new.count += 1;
        }
        new.write(words);
    }

    #[inline]
    fn read(words: &[u64]) -> Self {
        let (low, high) = (halves(words[0]), halves(words[1]));
        let (first, second) = (halves(words[2]), halves(words[LAST]));
        let ((a, b), (c, d)) = (quarters(first.0), quarters(first.1));
        let (home_plus_one, count) = quarters(second.1);
        Self {
            weights: [low.0, low.1, high.0, high.1],
            seats: [a, b, c, d],
            sixteenths: second.0,
            home_plus_one,
            count,
        }
    }

    #[inline]
    fn write(&self, words: &mut [u64]) {
        let [a, b, c, d] = self.weights;
        words[0] = u64::from(a) | u64::from(b) << 32;
        words[1] = u64::from(c) | u64::from(d) << 32;
        let [a, b, c, d] = self.seats.map(u64::from);
        words[2] = a | b << 16 | c << 32 | d << 48;
        words[LAST] = u64::from(self.sixteenths)
            | u64::from(self.home_plus_one) << 32
            | u64::from(self.count) << 48;
    }
}

/// Halves all weights of an entry, and its samples.
#[inline]
fn fade_words(words: &mut [u64]) {
    // What a weight loses at its end must not go to the one below it.
    const WEIGHTS: u64 = !(1 << 63 | 1 << 31);
    words[0] = words[0] >> 1 & WEIGHTS;
    words[1] = words[1] >> 1 & WEIGHTS;
    words[LAST] = words[LAST] & !SIXTEENTHS | (words[LAST] & SIXTEENTHS) >> 1;
}

/// An entry's last word, and the parts of it that are read or changed by themselves.
const LAST: usize = ENTRY_WORDS - 1;
const SIXTEENTHS: u64 = 0xffff_ffff;
const HOME: u64 = (!LARGE as u64) << HOME_SHIFT;
const HOME_SHIFT: u32 = 32;

#[inline]
#[expect(clippy::cast_possible_truncation, reason = "splitting is the point")]
const fn halves(word: u64) -> (u32, u32) {
    (word as u32, (word >> 32) as u32)
}

#[inline]
#[expect(clippy::cast_possible_truncation, reason = "splitting is the point")]
const fn quarters(half: u32) -> (u16, u16) {
    (half as u16, (half >> 16) as u16)
}

/// The pages of one program.
#[derive(Debug)]
pub(crate) struct PageTable {
    /// One flat run of zeroes at first: memory that was never touched is not resident.
    words: Vec<u64>,
    /// First word that begins a cache line.
    start: usize,
    sets_log2: u32,
    /// Slots that hold a page.
    occupied: Bits,
    /// Pages dropped so far because their set was full.
    pub dropped: u64,
}

impl PageTable {
    /// `slots` is a power of two, at least one set.
    pub(crate) fn new(slots: usize) -> Self {
        assert!(
            slots.is_power_of_two() && slots >= WAYS,
            "slots are a power of two"
        );
        let sets = slots / WAYS;
        let words = vec![0u64; sets * SET_WORDS + LINE_WORDS];
        let start = words.as_ptr().align_offset(LINE_WORDS * 8).min(LINE_WORDS);
        Self {
            words,
            start,
            sets_log2: sets.trailing_zeros(),
            occupied: Bits::new(slots),
            dropped: 0,
        }
    }

    /// One more than the highest slot that a page can have.
    pub(crate) fn slots(&self) -> u32 {
        u32::try_from(WAYS << self.sets_log2).unwrap_or(u32::MAX)
    }

    /// Pages tracked.
    pub(crate) const fn used(&self) -> usize {
        self.occupied.count()
    }

    /// Notes one access and tells who used the page since the last one of this accessor.
    #[inline]
    pub(crate) fn touch(&mut self, tag: Tag, seat: Seat, weight: u32) -> Sharers {
        let number = self.set_of(tag);
        let base = self.start + number * SET_WORDS;
        let set = &mut self.words[base..base + SET_WORDS];
        let (tags, entries) = set.split_at_mut(WAYS);
        let way = match find(tags, tag.0) {
            Some(way) => way,
            None => {
                let way = find(tags, 0).unwrap_or_else(|| least_touched(entries));
                if tags[way] == 0 {
                    self.occupied.insert(number * WAYS + way);
                } else {
                    self.dropped += 1;
                }
                tags[way] = tag.0;
                entries[way * ENTRY_WORDS..][..ENTRY_WORDS].fill(0);
                way
            }
        };
        let words = &mut entries[way * ENTRY_WORDS..][..ENTRY_WORDS];
        let mut entry = Entry::read(words);
        let sharers = entry.access(seat, weight);
        entry.write(words);
        sharers
    }

    /// Reads the first word of the set that a page falls into, so that its line is on its way.
    #[inline]
    pub(crate) fn peek_set(&self, tag: Tag) -> u64 {
        self.words[self.start + self.set_of(tag) * SET_WORDS]
    }

    /// Reads the first word of a page's entry, for the same reason; 0 if it is not tracked.
    #[inline]
    pub(crate) fn peek_entry(&self, tag: Tag) -> u64 {
        let set = self.set(self.set_of(tag));
        find(&set[..WAYS], tag.0).map_or(0, |way| set[WAYS + way * ENTRY_WORDS])
    }

    /// The slot and entry of a tracked page.
    pub(crate) fn entry(&self, tag: Tag) -> Option<(u32, Entry)> {
        let slot = self.slot_of(tag)?;
        Some((narrow(slot), Entry::read(self.held(slot).1)))
    }

    /// Where a tracked page is.
    #[inline]
    pub(crate) fn place(&self, tag: Tag) -> Option<Place> {
        let slot = self.slot_of(tag)?;
        let (home_plus_one, _) = quarters(halves(self.held(slot).1[LAST]).1);
        Some(Place {
            slot: narrow(slot),
            home: home(home_plus_one),
            is_large: home_plus_one & LARGE != 0,
        })
    }

    /// Samples of pages of which it is known where they are: of those in larger ones, and of the
    /// rest.
    pub(crate) fn samples_by_size(&self) -> [f64; 2] {
        let mut sixteenths = [0_u64; 2];
        self.each(|_, _, words| {
            let (samples, rest) = halves(words[LAST]);
            let (home_plus_one, _) = quarters(rest);
            if home(home_plus_one).is_some() {
                sixteenths[usize::from(home_plus_one & LARGE == 0)] += u64::from(samples);
            }
        });
        sixteenths.map(|count| count as f64 / f64::from(SAMPLE))
    }

    /// The slot of a tracked page. Where pages are looked up one behind the other, fewer ways to
    /// look at are worth more than fewer branches.
    #[inline]
    fn slot_of(&self, tag: Tag) -> Option<usize> {
        let number = self.set_of(tag);
        let mut tags = self.set(number)[..WAYS].iter();
        Some(number * WAYS + tags.position(|&held| held == tag.0)?)
    }

    /// Notes where a page is; pages that are not tracked are ignored.
    #[inline]
    pub(crate) fn set_home(&mut self, tag: Tag, home: Option<u16>) {
        self.note_place(tag, !LARGE, plus_one(home));
    }

    /// The same, and whether it is part of a larger one.
    #[inline]
    pub(crate) fn set_place(&mut self, tag: Tag, home: Option<u16>, is_large: bool) {
        let large = if is_large { LARGE } else { 0 };
        self.note_place(tag, u16::MAX, plus_one(home) | large);
    }

    /// Sets these bits of what is known of a page's place, if it is tracked.
    #[inline]
    fn note_place(&mut self, tag: Tag, bits: u16, to: u16) {
        if let Some(slot) = self.slot_of(tag) {
            let entry = slot / WAYS * SET_WORDS + WAYS + slot % WAYS * ENTRY_WORDS;
            let last = &mut self.words[self.start + entry + LAST];
            *last = *last & !(u64::from(bits) << HOME_SHIFT) | u64::from(to) << HOME_SHIFT;
        }
    }

    /// Visits tracked pages by ascending slot, each with the words of its entry.
    fn each(&self, mut visit: impl FnMut(u32, Tag, &[u64])) {
        self.occupied.iter().for_each(|slot| {
            let (tag, words) = self.held(slot);
            visit(narrow(slot), tag, words);
        });
    }

    /// Visits tracked pages by ascending slot, but for those in slots that a set has.
    pub(crate) fn each_outside(&self, slots: &Bits, mut visit: impl FnMut(u32, Tag, Entry)) {
        self.occupied.outside(slots).for_each(|slot| {
            let (tag, words) = self.held(slot);
            visit(narrow(slot), tag, Entry::read(words));
        });
    }

    /// The page of a slot and the words of its entry.
    #[inline]
    fn held(&self, slot: usize) -> (Tag, &[u64]) {
        let (set, way) = (self.set(slot / WAYS), slot % WAYS);
        (
            Tag(set[way]),
            &set[WAYS + way * ENTRY_WORDS..][..ENTRY_WORDS],
        )
    }

    /// Tracked pages, those with most samples first (ties: lowest slot), at most `max`.
    pub(crate) fn hottest(&self, max: usize) -> Vec<Tracked> {
        let mut all: Vec<Tracked> = Vec::with_capacity(self.used());
        self.each(|slot, tag, words| all.push((slot, tag, Entry::read(words))));
        if all.len() > max {
            all.select_nth_unstable_by(max, hotter);
            all.truncate(max);
        }
        all.sort_unstable_by(hotter);
        all
    }

    /// Tracked pages whose home is to be looked up, at most `max`: half of them the hottest, for
    /// those decide most and others may have moved them; the rest such as have none yet, before
    /// those that have. Else a program with more pages than that would never be known beyond its
    /// hottest. A page that has one and was not used in this window, nor often before, can wait.
    pub(crate) fn to_look_up(&self, max: usize) -> Vec<Tag> {
        // The least word comes first. Its parts: whether the home is known; how few samples there
        // are, all with more than 2^27 being alike; the slot. One word, for thousands are compared
        // at every window.
        const KNOWN: u64 = 1 << 63;
        let mut all: Vec<(u64, Tag)> = Vec::with_capacity(self.used());
        self.each(|slot, tag, words| {
            let sixteenths = words[LAST] & SIXTEENTHS;
            let few = (SIXTEENTHS >> 1).saturating_sub(sixteenths);
            let known = if words[LAST] & HOME == 0 { 0 } else { KNOWN };
            if known > 0 && sixteenths < u64::from(SAMPLE) {
                return;
            }
            all.push((known | few << 32 | u64::from(slot), tag));
        });
        if all.len() > max {
            all.select_nth_unstable_by_key(max / 2, |(rank, _)| rank & !KNOWN);
            let rest = &mut all[max / 2..];
            rest.select_nth_unstable_by_key(max - max / 2, |(rank, _)| *rank);
            all.truncate(max);
        }
        all.into_iter().map(|(_, tag)| tag).collect()
    }

    /// Forgets seats and spaces that are void, and lets what is left fade if a window was judged,
    /// until there are at most so many pages: those with the fewest samples go. Pages without
    /// samples after that are not tracked any more.
    pub(crate) fn sweep(&mut self, seats: &Bits, spaces: &Bits, fade: Option<usize>) {
        if fade.is_none() && seats.is_empty() && spaces.is_empty() {
            return;
        }
        let least = fade.map_or(1 << 32, |most| self.least_rank(most).max(1 << 32));
        let fade = fade.is_some();
        self.retain(|tag, words| {
            if fade {
                fade_words(words);
            }
            if !seats.is_empty() {
                Entry::retain(words, |seat| !seats.contains(usize::from(seat)));
            }
            let is_void = !spaces.is_empty() && spaces.contains(tag.space().into());
            !is_void && rank(halves(words[LAST]).0, tag) >= least
        });
    }

    /// Forgets accessors of pages, but for those of which a question says yes.
    pub(crate) fn retain_accessors(&mut self, stays: impl Fn(Tag, Seat) -> bool) {
        self.retain(|tag, words| {
            Entry::retain(words, |seat| stays(tag, seat));
            true
        });
    }

    /// Visits tracked pages with the words of their entries, and keeps those of which the visitor
    /// says yes.
    fn retain(&mut self, mut stays: impl FnMut(Tag, &mut [u64]) -> bool) {
        let (words, start) = (&mut self.words, self.start);
        self.occupied.retain(|slot| {
            let (set, way) = (start + slot / WAYS * SET_WORDS, slot % WAYS);
            let (tags, entries) = words[set..set + SET_WORDS].split_at_mut(WAYS);
            let stay = stays(
                Tag(tags[way]),
                &mut entries[way * ENTRY_WORDS..][..ENTRY_WORDS],
            );
            if !stay {
                tags[way] = 0;
            }
            stay
        });
    }

    /// The least rank after fading of at most so many pages that stay.
    fn least_rank(&self, most: usize) -> u64 {
        let mut ranks = Vec::with_capacity(self.used());
        self.each(|_, tag, words| ranks.push(rank(halves(words[LAST]).0 / 2, tag)));
        let Some(beyond) = ranks.len().checked_sub(most).filter(|&beyond| beyond > 0) else {
            return 1 << 32;
        };
        *ranks.select_nth_unstable(beyond).1
    }

    fn set(&self, number: usize) -> &[u64] {
        &self.words[self.start + number * SET_WORDS..][..SET_WORDS]
    }

    #[inline]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a table has far fewer than 2^32 sets"
    )]
    const fn set_of(&self, tag: Tag) -> usize {
        let spread = tag.spread();
        // A shift by 64 is none; the table of one set has nothing to choose.
        match self.sets_log2 {
            0 => 0,
            log2 => (spread >> (64 - log2)) as usize,
        }
    }
}

#[inline]
fn find(tags: &[u64], tag: u64) -> Option<usize> {
    // Without an early exit there is no branch to be mispredicted.
    let ways = (0..WAYS).rev();
    let found = ways.fold(
        WAYS,
        |found, way| if tags[way] == tag { way } else { found },
    );
    (found < WAYS).then_some(found)
}

fn least_touched(entries: &[u64]) -> usize {
    let samples = |way: usize| halves(entries[way * ENTRY_WORDS + LAST]).0;
    (0..WAYS)
        .min_by_key(|&way| (samples(way), way))
        .unwrap_or(0)
}

/// The more samples the higher; among equals by chance.
fn rank(sixteenths: u32, tag: Tag) -> u64 {
    u64::from(sixteenths) << 32 | tag.spread() >> 32
}

fn narrow(slot: usize) -> u32 {
    u32::try_from(slot).expect("a table has far fewer than 2^32 slots")
}

#[cfg(test)]
#[path = "pages_tests.rs"]
mod tests;
