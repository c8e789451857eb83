//! Sets of processors and nodes, of any size, in the kernel's two text forms.

use std::fmt;
use std::marker::PhantomData;

use crate::ids::{CpuId, NodeId};

/// Processors.
pub type CpuSet = IdSet<CpuId>;
/// Memory nodes.
pub type NodeSet = IdSet<NodeId>;

/// The largest number a set holds; a longer list is taken for damage, not for a machine.
pub const ID_MAX: u32 = 65_535;
/// How much of a part that cannot be read is shown: enough to find it, and a line stays a line.
const PART_SHOWN_MAX: usize = 40;

/// A set of numbered things, stored as bits; iterates in ascending order.
///
/// There is no upper limit at 1,024 as in `cpu_set_t`: the words grow with the largest member
/// (never beyond [`ID_MAX`]) and never end in a zero word, so equal sets compare equal.
pub struct IdSet<T> {
    words: Vec<u64>,
    kind: PhantomData<fn() -> T>,
}

/// Why a text is no set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseSetError {
    /// The part that could not be read.
    pub part: String,
    /// What was expected of it.
    pub reason: &'static str,
}

impl fmt::Display for ParseSetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = self.part.escape_debug().take(PART_SHOWN_MAX);
        write!(f, "`{}` {}", part.collect::<String>(), self.reason)
    }
}

impl std::error::Error for ParseSetError {}

impl<T: From<u32> + Into<u32>> IdSet<T> {
    /// The empty set.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            words: Vec::new(),
            kind: PhantomData,
        }
    }

    /// Adds a member; true if it was not there.
    ///
    /// # Panics
    /// When the number is above [`ID_MAX`]: every reader checks before it inserts.
    pub fn insert(&mut self, id: T) -> bool {
        let number = id.into();
        assert!(
            number <= ID_MAX,
            "id {number} is above the limit of {ID_MAX}"
        );
        let (word, bit) = (number as usize / 64, number % 64);
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        let fresh = self.words[word] & (1 << bit) == 0;
        self.words[word] |= 1 << bit;
        fresh
    }

    /// Adds every number from `first` to `last`, both included. Costs a step per 64 numbers, not per
    /// number. Nothing is added when `last` is below `first`.
    ///
    /// # Panics
    /// When `last` is above [`ID_MAX`]: every reader checks before it inserts.
    pub fn insert_range(&mut self, first: T, last: T) {
        let (first, last) = (first.into(), last.into());
        assert!(last <= ID_MAX, "id {last} is above the limit of {ID_MAX}");
        if last < first {
            return;
        }
        let (low, high) = (first as usize / 64, last as usize / 64);
        if high >= self.words.len() {
            self.words.resize(high + 1, 0);
        }
        for (index, word) in self.words.iter_mut().enumerate().take(high + 1).skip(low) {
            let from = if index == low { first % 64 } else { 0 };
            let to = if index == high { last % 64 } else { 63 };
            *word |= (u64::MAX << from) & (u64::MAX >> (63 - to));
        }
    }

    /// Takes a member out; true if it was there.
    pub fn remove(&mut self, id: T) -> bool {
        let number = id.into();
        let Some(word) = self.words.get_mut(number as usize / 64) else {
            return false;
        };
        let held = *word & (1 << (number % 64)) != 0;
        *word &= !(1 << (number % 64));
        self.trim();
        held
    }

    /// Whether `id` is a member.
    #[must_use]
    pub fn contains(&self, id: T) -> bool {
        let number = id.into();
        self.words
            .get(number as usize / 64)
            .is_some_and(|word| word & (1 << (number % 64)) != 0)
    }

    /// How many members there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.words
            .iter()
            .map(|word| word.count_ones() as usize)
            .sum()
    }

    /// Whether there is no member.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// The lowest member.
    #[must_use]
    pub fn first(&self) -> Option<T> {
        self.iter().next()
    }

    /// The highest member.
    #[must_use]
    pub fn last(&self) -> Option<T> {
        let word = self.words.last()?;
        let number = (self.words.len() - 1) * 64 + 63 - word.leading_zeros() as usize;
        u32::try_from(number).ok().map(T::from)
    }

    /// Members in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = T> + '_ {
        self.words.iter().zip(0u32..).flat_map(|(&word, index)| {
            let mut rest = word;
            std::iter::from_fn(move || {
                let bit = (rest != 0).then(|| rest.trailing_zeros())?;
                rest &= rest - 1;
                Some(T::from(index * 64 + bit))
            })
        })
    }

    /// Members of both.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let words = self
            .words
            .iter()
            .zip(&other.words)
            .map(|(a, b)| a & b)
            .collect();
        Self::trimmed(words)
    }

    /// Members of either.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let (long, short) = if self.words.len() >= other.words.len() {
            (&self.words, &other.words)
        } else {
            (&other.words, &self.words)
        };
        let mut words = long.clone();
        for (word, more) in words.iter_mut().zip(short) {
            *word |= more;
        }
        Self::trimmed(words)
    }

    /// Members of `self` that are not in `other`.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        let mut words = self.words.clone();
        for (word, less) in words.iter_mut().zip(&other.words) {
            *word &= !less;
        }
        Self::trimmed(words)
    }

    /// Whether every member is in `other`.
    #[must_use]
    pub fn is_subset(&self, other: &Self) -> bool {
        let beyond = |(index, word): (usize, &u64)| {
            let theirs = other.words.get(index).copied().unwrap_or(0);
            word & !theirs != 0
        };
        !self.words.iter().enumerate().any(beyond)
    }

    /// Whether there is a common member.
    #[must_use]
    pub fn intersects(&self, other: &Self) -> bool {
        self.words.iter().zip(&other.words).any(|(a, b)| a & b != 0)
    }

    /// The bits, lowest first, without trailing zero words; what a system call takes.
    #[must_use]
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// The set whose bits these are; what a system call gives.
    #[must_use]
    pub fn from_words(words: &[u64]) -> Self {
        let most = (ID_MAX as usize + 1) / 64;
        Self::trimmed(words[..words.len().min(most)].to_vec())
    }

    /// Reads the list form, `0-3,8,10-11`, as in `cpulist` files.
    ///
    /// White space and NUL bytes around it are dropped (kernels of 2020 ended some of these files
    /// in a NUL); the empty text is the empty set.
    ///
    /// # Errors
    /// Names the part that is no number or range, runs backwards, or exceeds [`ID_MAX`].
    pub fn parse_list(text: &str) -> Result<Self, ParseSetError> {
        let mut set = Self::new();
        let text = text.trim_matches(|c: char| c.is_whitespace() || c == '\0');
        for part in text.split(',').filter(|_| !text.is_empty()) {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (member(part, first)?, member(part, last)?);
            if first > last {
                return Err(ParseSetError {
                    part: part.into(),
                    reason: "runs backwards",
                });
            }
            set.insert_range(T::from(first), T::from(last));
        }
        Ok(set)
    }

    /// Reads the mask form, 32-bit hexadecimal groups, highest first: `00000001,ffffffff`.
    ///
    /// # Errors
    /// Names the group that is not hexadecimal, or says that the mask is too long.
    pub fn parse_mask(text: &str) -> Result<Self, ParseSetError> {
        let text = text.trim_matches(|c: char| c.is_whitespace() || c == '\0');
        let mut set = Self::new();
        for (part, group) in text.rsplit(',').zip(0u32..).filter(|_| !text.is_empty()) {
            let digits = part.bytes().all(|byte| byte.is_ascii_hexdigit());
            let bits = u32::from_str_radix(part, 16).ok().filter(|_| digits);
            let bits = bits.ok_or_else(|| ParseSetError {
                part: part.into(),
                reason: "is not a group of at most 8 hexadecimal digits",
            })?;
            for bit in (0..32).filter(|bit| bits & (1 << bit) != 0) {
                let number = group.saturating_mul(32).saturating_add(bit);
                if number > ID_MAX {
                    return Err(ParseSetError {
                        part: part.into(),
                        reason: "is beyond the largest number",
                    });
                }
                set.insert(T::from(number));
            }
        }
        Ok(set)
    }

    fn trimmed(words: Vec<u64>) -> Self {
        let mut set = Self {
            words,
            kind: PhantomData,
        };
        set.trim();
        set
    }

    fn trim(&mut self) {
        while self.words.last() == Some(&0) {
            self.words.pop();
        }
    }
}

fn member(part: &str, text: &str) -> Result<u32, ParseSetError> {
    let text = text.trim();
    // `+1` parses as a number too.
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    let number: Option<u32> = text.parse().ok().filter(|_| digits);
    let number = number.ok_or_else(|| ParseSetError {
        part: part.into(),
        reason: "is not a number or a range of numbers",
    })?;
    if number > ID_MAX {
        return Err(ParseSetError {
            part: part.into(),
            reason: "is beyond the largest number",
        });
    }
    Ok(number)
}

impl<T> Clone for IdSet<T> {
    fn clone(&self) -> Self {
        Self {
            words: self.words.clone(),
            kind: PhantomData,
        }
    }
}

impl<T> Default for IdSet<T> {
    fn default() -> Self {
        Self {
            words: Vec::new(),
            kind: PhantomData,
        }
    }
}

impl<T> PartialEq for IdSet<T> {
    fn eq(&self, other: &Self) -> bool {
        self.words == other.words
    }
}

impl<T> Eq for IdSet<T> {}

impl<T> std::hash::Hash for IdSet<T> {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.words.hash(state);
    }
}

impl<T: From<u32> + Into<u32>> FromIterator<T> for IdSet<T> {
    fn from_iter<I: IntoIterator<Item = T>>(members: I) -> Self {
        let mut set = Self::new();
        for member in members {
            set.insert(member);
        }
        set
    }
}

/// The list form, `0-3,8`; the empty set is the empty text.
impl<T: From<u32> + Into<u32>> fmt::Display for IdSet<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut runs: Vec<(u32, u32)> = Vec::new();
        for number in self.iter().map(Into::into) {
            match runs.last_mut() {
                Some((_, last)) if *last + 1 == number => *last = number,
                _ => runs.push((number, number)),
            }
        }
        for (index, (first, last)) in runs.into_iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            if first == last {
                write!(f, "{comma}{first}")?;
            } else {
                write!(f, "{comma}{first}-{last}")?;
            }
        }
        Ok(())
    }
}

impl<T: From<u32> + Into<u32>> fmt::Debug for IdSet<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{self}}}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn list(text: &str, canonical: &str) {
        let set = CpuSet::parse_list(text).unwrap();
        assert_eq!(set.to_string(), canonical);
        assert_eq!(CpuSet::parse_list(canonical).unwrap(), set);
    }

    #[test]
    fn lists_read_and_print() {
        list("", "");
        list("0-3,8,10-11\n", "0-3,8,10-11");
        list("5,4,3", "3-5");
        list("0-127\0", "0-127");
        list("65535", "65535");
        list("0-63", "0-63");
        list("63-64,127-192", "63-64,127-192");
    }

    #[test]
    fn damaged_lists_name_the_part() {
        for (text, part) in [
            ("0-3,x", "x"),
            ("7-3", "7-3"),
            ("1,,2", ""),
            ("65536", "65536"),
            ("-1", "-1"),
        ] {
            assert_eq!(CpuSet::parse_list(text).unwrap_err().part, part, "{text}");
        }
    }

    #[test]
    fn masks_read_highest_group_first() {
        assert_eq!(
            CpuSet::parse_mask("00000001,80000000\n")
                .unwrap()
                .to_string(),
            "31-32"
        );
        assert_eq!(CpuSet::parse_mask("0").unwrap(), CpuSet::new());
        CpuSet::parse_mask("xyz").unwrap_err();
        CpuSet::parse_mask(&"ffffffff,".repeat(5000)).unwrap_err();
    }

    #[test]
    fn algebra_keeps_sets_canonical() {
        let set = |text| CpuSet::parse_list(text).unwrap();
        assert_eq!(set("0-2,200").intersection(&set("1-5")), set("1-2"));
        assert_eq!(set("0-2").union(&set("200")), set("0-2,200"));
        assert_eq!(set("0-2,200").difference(&set("200")), set("0-2"));
        assert!(set("1").is_subset(&set("0-2")) && !set("3").is_subset(&set("0-2")));
        let mut shrinking = set("5,300");
        assert!(shrinking.remove(CpuId(300)) && shrinking == set("5"));
        assert_eq!(set("3,130").last(), Some(CpuId(130)));
    }
}
