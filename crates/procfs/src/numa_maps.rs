//! `/proc/PID/numa_maps`: every mapping with its memory policy and the nodes its pages are on.

use std::ops::Range;

use topology::{NodeId, NodeSet};

use crate::error::ParseError;
use crate::status::list;

/// One mapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NumaMapping {
    /// First address.
    pub start: u64,
    /// Where its pages are to be allocated.
    pub policy: MemoryPolicy,
    /// What is behind it.
    pub backing: Backing,
    /// Whether its pages are huge; the counts are in huge pages then.
    pub huge: bool,
    /// Bytes in a page; none where the kernel does not tell (before 3.15).
    pub page_bytes: Option<u64>,
    /// Pages of no file.
    pub anonymous: u64,
    /// Pages changed since they were read.
    pub dirty: u64,
    /// Pages in the page tables; none where it equals the number of anonymous or dirty pages.
    pub mapped: Option<u64>,
    /// Most processes that map one of its pages; 1 where the kernel does not tell.
    pub mappers_max: u64,
    /// Pages on each node, by ascending node.
    pub nodes: Vec<(NodeId, u64)>,
}

impl NumaMapping {
    /// Pages on all nodes together.
    #[must_use]
    pub fn pages(&self) -> u64 {
        self.nodes
            .iter()
            .fold(0, |sum, &(_, pages)| sum.saturating_add(pages))
    }
}

/// Where new pages are to be allocated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryPolicy {
    /// Which kind.
    pub mode: PolicyMode,
    /// The nodes it names; empty for those that name none.
    pub nodes: NodeSet,
}

/// Kinds of memory policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PolicyMode {
    /// None: where it is first touched.
    #[default]
    Default,
    /// Where it is first touched, by request.
    Local,
    /// One node if it has room.
    Prefer,
    /// Several nodes if they have room.
    PreferMany,
    /// Those nodes and no others.
    Bind,
    /// In turns.
    Interleave,
    /// In turns, by weight.
    WeightedInterleave,
    /// One that this version does not know.
    Unknown,
}

/// What is behind a mapping.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Backing {
    /// Nothing named.
    #[default]
    Anonymous,
    /// The heap.
    Heap,
    /// The first thread's stack.
    Stack,
    /// A file, its name lossily decoded with escapes undone.
    File(String),
}

/// The addresses of memory of which someone said where it is to be, with what follows up to the
/// next mapping.
#[must_use]
pub fn chosen(mappings: &[NumaMapping]) -> Vec<Range<u64>> {
    let ends = mappings.iter().skip(1).map(|next| next.start);
    let with_ends = mappings.iter().zip(ends.chain([u64::MAX]));
    let chosen = with_ends.filter(|(mapping, _)| is_a_choice(mapping.policy.mode));
    chosen.map(|(mapping, end)| mapping.start..end).collect()
}

/// Whether someone said where the memory of the first mapping is to be, by a beginning of the file
/// that may end anywhere behind the kind of its policy.
#[must_use]
pub fn begins_with_a_choice(bytes: &[u8]) -> bool {
    let mut words = bytes.split(u8::is_ascii_whitespace).skip(1);
    let Some(first) = words.next() else {
        return false;
    };
    let second = second(first, words.next()).unwrap_or_default();
    is_a_choice(mode(first, second).0)
}

/// Two policies have a blank in their names: `weighted interleave` and `prefer (many)`.
fn second<'a>(first: &[u8], next: Option<&'a [u8]>) -> Option<&'a [u8]> {
    next.filter(|next| first == b"weighted" || (first == b"prefer" && next.starts_with(b"(many)")))
}

/// Reads all lines.
///
/// Words that this version does not know are skipped.
///
/// # Errors
/// Names the line and the word that makes no sense.
pub fn parse(bytes: &[u8]) -> Result<Vec<NumaMapping>, ParseError> {
    bytes
        .split(|&byte| byte == b'\n')
        .zip(1..)
        .filter(|(line, _)| !line.trim_ascii().is_empty())
        .map(|(line, number)| parse_line(line, number))
        .collect()
}

fn parse_line(line: &[u8], number: usize) -> Result<NumaMapping, ParseError> {
    let mut words = line
        .split(u8::is_ascii_whitespace)
        .filter(|word| !word.is_empty())
        .peekable();
    let start = words.next().unwrap_or_default();
    let start = utf8(start)
        .and_then(|text| u64::from_str_radix(text, 16).ok())
        .ok_or_else(|| ParseError::new(number, start, "is not an address"))?;
    let Some(first) = words.next() else {
        return Err(ParseError::new(number, line, "has no memory policy"));
    };
    let second = second(first, words.peek().copied());
    if second.is_some() {
        words.next();
    }
    let mut mapping = NumaMapping {
        start,
        policy: policy(first, second.unwrap_or_default(), number)?,
        backing: Backing::Anonymous,
        huge: false,
        page_bytes: None,
        anonymous: 0,
        dirty: 0,
        mapped: None,
        mappers_max: 1,
        nodes: Vec::new(),
    };
    for word in words {
        take_word(&mut mapping, word, number)?;
    }
    mapping.nodes.sort_unstable_by_key(|&(node, _)| node);
    if let Some(pair) = mapping.nodes.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        let node = format!("N{}", pair[0].0);
        return Err(ParseError::new(number, node.as_bytes(), "is there twice"));
    }
    Ok(mapping)
}

/// Whether it says where memory is to be. One that is not known may.
const fn is_a_choice(mode: PolicyMode) -> bool {
    !matches!(mode, PolicyMode::Default | PolicyMode::Local)
}

/// The kind of a policy, and what follows its name.
fn mode<'a>(first: &'a [u8], second: &'a [u8]) -> (PolicyMode, &'a [u8]) {
    let word = if second.is_empty() { first } else { second };
    let end = word.iter().position(|byte| matches!(byte, b'=' | b':'));
    let (name, rest) = word.split_at(end.unwrap_or(word.len()));
    let mode = match (first, name) {
        (b"weighted", b"interleave") => PolicyMode::WeightedInterleave,
        (b"prefer", b"(many)") => PolicyMode::PreferMany,
        (_, b"default") => PolicyMode::Default,
        (_, b"local") => PolicyMode::Local,
        (_, b"prefer" | b"preferred") => PolicyMode::Prefer,
        (_, b"bind") => PolicyMode::Bind,
        (_, b"interleave") => PolicyMode::Interleave,
        _ => PolicyMode::Unknown,
    };
    (mode, rest)
}

fn policy(first: &[u8], second: &[u8], line: usize) -> Result<MemoryPolicy, ParseError> {
    let (mode, rest) = mode(first, second);
    // `bind=static:0-3` has flags before the colon; kernels before 2.6.26 wrote `bind=0-3`.
    let nodes = rest
        .iter()
        .rposition(|&byte| byte == b':')
        .map_or_else(|| rest.strip_prefix(b"="), |colon| Some(&rest[colon + 1..]))
        .filter(|nodes| nodes.first().is_some_and(u8::is_ascii_digit));
    let nodes = match (mode, nodes) {
        (PolicyMode::Unknown, _) | (_, None) => NodeSet::new(),
        (_, Some(nodes)) => list(line, nodes, NodeSet::parse_list)?,
    };
    Ok(MemoryPolicy { mode, nodes })
}

fn take_word(mapping: &mut NumaMapping, word: &[u8], line: usize) -> Result<(), ParseError> {
    let (key, value) = match word.iter().position(|&byte| byte == b'=') {
        Some(equals) => (&word[..equals], &word[equals + 1..]),
        None => (word, &word[word.len()..]),
    };
    let count = || {
        utf8(value)
            .and_then(|text| text.parse::<u64>().ok())
            .ok_or_else(|| ParseError::new(line, word, "has no number"))
    };
    match key {
        b"file" => mapping.backing = Backing::File(unescape(value)),
        b"heap" => mapping.backing = Backing::Heap,
        key if key == b"stack" || key.starts_with(b"stack:") => mapping.backing = Backing::Stack,
        b"huge" => mapping.huge = true,
        b"anon" => mapping.anonymous = count()?,
        b"dirty" => mapping.dirty = count()?,
        b"mapped" => mapping.mapped = Some(count()?),
        b"mapmax" => mapping.mappers_max = count()?,
        b"kernelpagesize_kB" => mapping.page_bytes = Some(count()?.saturating_mul(1024)),
        [b'N', digits @ ..] if digits.first().is_some_and(u8::is_ascii_digit) => {
            let node = utf8(digits)
                .and_then(|text| text.parse().ok())
                .filter(|&node| node <= topology::set::ID_MAX)
                .ok_or_else(|| ParseError::new(line, word, "names no node"))?;
            mapping.nodes.push((NodeId(node), count()?));
        }
        _ => {}
    }
    Ok(())
}

/// Undoes the `\ooo` that the kernel writes for blanks, tabs, line feeds and `=` in names of files
/// and mounts.
pub(crate) fn unescape(name: &[u8]) -> String {
    let mut plain = Vec::with_capacity(name.len());
    let mut rest = name;
    while let Some((&byte, after)) = rest.split_first() {
        let octal = after
            .get(..3)
            .filter(|_| byte == b'\\')
            .and_then(utf8)
            .filter(|digits| digits.bytes().all(|digit| digit.is_ascii_digit()))
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        plain.push(octal.unwrap_or(byte));
        rest = if octal.is_some() { &after[3..] } else { after };
    }
    String::from_utf8_lossy(&plain).into_owned()
}

fn utf8(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn one(line: &str) -> NumaMapping {
        let mut all = parse(line.as_bytes()).unwrap();
        assert_eq!(all.len(), 1);
        all.remove(0)
    }

    #[test]
    fn what_someone_chose_is_told_from_the_rest() {
        let text = "1000 default anon=1 N0=1\n2000 bind:1 anon=1 N1=1\n5000 local anon=1 N0=1\n\
                    6000 prefer (many):0-1 anon=1 N0=1\n7000 weighted interleave:0-1 anon=1 N0=1\n";
        let all = parse(text.as_bytes()).unwrap();
        assert_eq!(
            chosen(&all),
            [0x2000..0x5000, 0x6000..0x7000, 0x7000..u64::MAX]
        );
        assert_eq!(chosen(&[]), []);
        for (head, expected) in [
            ("1000 default file=/bin/a mapped=3", false),
            ("1000 local", false),
            ("1000 bind:0,2,4,", true),
            ("1000 bind=static:0-1 file=/bin/a", true),
            ("1000 weighted interleave:0-1", true),
            ("1000 prefer (many):0", true),
            ("1000 prefer:0 file=", true),
            ("1000 moon:0", true),
            ("1000", false),
            ("", false),
        ] {
            assert_eq!(begins_with_a_choice(head.as_bytes()), expected, "{head}");
        }
    }

    const REAL: &[u8] = include_bytes!("../fixtures/dash.numa_maps");

    #[test]
    fn real_lines_read() {
        let maps = parse(REAL).unwrap();
        assert_eq!(maps.len(), 24);
        assert_eq!(maps[0].backing, Backing::File("/usr/bin/dash".into()));
        assert_eq!(maps[0].page_bytes, Some(4096));
        let heap = maps
            .iter()
            .find(|map| map.backing == Backing::Heap)
            .unwrap();
        assert_eq!((heap.anonymous, heap.dirty, heap.pages()), (2, 2, 2));
        let shared = maps.iter().map(|map| map.mappers_max).max();
        assert_eq!(shared, Some(15));
        assert!(maps.iter().any(|map| map.backing == Backing::Stack));
        assert_eq!(maps.iter().map(NumaMapping::pages).sum::<u64>(), 426);
    }

    #[track_caller]
    fn policy(text: &str, mode: PolicyMode, nodes: &str) {
        let mapping = one(&format!("1000 {text} anon=3 N1=3"));
        assert_eq!(mapping.policy.mode, mode, "{text}");
        assert_eq!(mapping.policy.nodes.to_string(), nodes, "{text}");
        assert_eq!(mapping.pages(), 3, "{text}");
    }

    #[test]
    fn policies_read_in_every_form() {
        policy("default", PolicyMode::Default, "");
        policy("local", PolicyMode::Local, "");
        policy("prefer:1", PolicyMode::Prefer, "1");
        policy("prefer (many):0-2", PolicyMode::PreferMany, "0-2");
        policy("prefer (many)=static:0,2", PolicyMode::PreferMany, "0,2");
        policy("bind:0-3", PolicyMode::Bind, "0-3");
        policy("bind=static:0-3", PolicyMode::Bind, "0-3");
        policy("bind=static|balancing:1", PolicyMode::Bind, "1");
        policy("bind=relative", PolicyMode::Bind, "");
        policy("interleave=1-7", PolicyMode::Interleave, "1-7");
        policy("interleave:0,4", PolicyMode::Interleave, "0,4");
        policy(
            "weighted interleave:0-1",
            PolicyMode::WeightedInterleave,
            "0-1",
        );
        policy("newfangled:0-1", PolicyMode::Unknown, "");
    }

    #[test]
    fn huge_pages_and_escapes_read() {
        let mapping = one(
            "20000000 interleave=1-7 file=/libhugetlbfs/lib\\040a\\075b\\9 huge dirty=1 N1=1 N10=2 N2=0",
        );
        assert_eq!(
            mapping.backing,
            Backing::File("/libhugetlbfs/lib a=b\\9".into())
        );
        assert!(mapping.huge && mapping.page_bytes.is_none());
        let nodes: Vec<u32> = mapping.nodes.iter().map(|&(node, _)| node.0).collect();
        assert_eq!(nodes, [1, 2, 10]);
    }

    #[test]
    fn damage_is_named() {
        for (text, line, part) in [
            ("1000 default\nxyz default", 2, "xyz"),
            ("1000", 1, "1000"),
            ("1000 default N0=", 1, "N0="),
            ("1000 default N99999999=1", 1, "N99999999=1"),
            ("1000 default N0=1 N0=2", 1, "N0"),
            ("1000 default anon=-1", 1, "anon=-1"),
            ("1000 bind:3-1", 1, "3-1"),
        ] {
            let error = parse(text.as_bytes()).unwrap_err();
            assert_eq!((error.line, error.part.as_str()), (line, part), "{text}");
        }
    }

    /// Texts of real machines of 2006 and 2013 whose licence does not let them into this tree.
    #[test]
    fn shared_fixtures_read() {
        let shared = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/fixtures/text");
        for (file, lines, pages) in [
            ("numa_maps-4node-thp-interleave.txt", 2, 102_806),
            ("numa_maps-8node-ppc64-hugetlb-2006.txt", 14, 35),
        ] {
            let Ok(text) = std::fs::read(std::path::Path::new(shared).join(file)) else {
                println!("skipped: needs ../shared/fixtures/text/{file}");
                continue;
            };
            let maps = parse(&text).unwrap();
            assert_eq!(maps.len(), lines, "{file}");
            assert_eq!(
                maps.iter().map(NumaMapping::pages).sum::<u64>(),
                pages,
                "{file}"
            );
            let interleaved = |map: &NumaMapping| map.policy.mode == PolicyMode::Interleave;
            assert!(maps.iter().all(interleaved), "{file}");
            assert!(
                maps.iter().all(|map| !map.policy.nodes.is_empty()),
                "{file}"
            );
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]
        #[test]
        fn never_panics(bytes: Vec<u8>) {
            drop(parse(&bytes));
        }

        #[test]
        fn never_panics_on_damage(cut in 0..REAL.len(), at in 0..REAL.len(), byte: u8) {
            let mut bytes = REAL.to_vec();
            bytes[at] = byte;
            drop(parse(&bytes[..cut]));
        }
    }
}
