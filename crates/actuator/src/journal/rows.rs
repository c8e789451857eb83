//! Rows of the journal as text. docs/journal-format.md describes the format for people.

use std::fmt::Write as _;

use numad_core::{ObjectId, ObjectKind};
use topology::{CpuSet, NodeId, Pid, StartTicks, TaskKey, Tid};

use super::homes::{PageRun, RUN_PAGES_MAX};
use crate::affinity::{Kind, Origin};

/// One row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Row {
    /// A thread is about to be bound for the first time.
    Bind {
        /// Which.
        key: TaskKey,
        /// When.
        at: StartTicks,
        /// What it had.
        origin: Origin,
        /// What it gets.
        set: CpuSet,
    },
    /// A thread of an earlier row is about to get another mask of ours.
    Again {
        /// Which.
        key: TaskKey,
        /// When.
        at: StartTicks,
        /// What it gets.
        set: CpuSet,
    },
    /// A process belongs to a program that something is changed of. Rows of threads that follow with its number are
    /// of this process, and not of one that had the number before.
    Process(ProcessKey),
    /// Pages are about to be moved for the first time.
    Pages {
        /// Whose.
        owner: Owner,
        /// The node they are on.
        node: NodeId,
        /// Their addresses, or where they are in the object, in runs.
        runs: Vec<PageRun>,
    },
    /// A process began another program: rows of its pages before this one are void.
    Anew(ProcessKey),
    /// The kernel's own balancing is about to be switched.
    Balancing(Switch),
}

/// A switch of the whole machine: what it said, and what we make it say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switch {
    /// Before.
    pub was: u32,
    /// By us.
    pub set: u32,
}

impl Switch {
    /// In words.
    #[must_use]
    pub fn told(&self) -> String {
        format!(
            "kernel.numa_balancing: {} before, {} by numad",
            self.was, self.set
        )
    }
}

/// A process and when it began, so that it is never taken for another that has its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProcessKey {
    /// Its number.
    pub pid: Pid,
    /// When it began.
    pub start: StartTicks,
}

/// What pages are part of, which says how long they can be put back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Owner {
    /// A process and when it began: pages by address.
    Process(Pid, StartTicks),
    /// Memory that can be shared, whichever process it was moved through: pages by where they are in it, in bytes.
    Object(ObjectId),
}

/// What a file holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decoded {
    /// Whole rows of this boot, in order.
    pub rows: Vec<Row>,
    /// Lines that are damaged: a changed byte, or a last line that was cut.
    pub damaged: u64,
    /// Whether the first line is a whole header of this boot.
    pub headed: bool,
    /// Whether an earlier version wrote it.
    pub older: bool,
}

/// Why a file holds nothing for us.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Foreign {
    /// It belongs to another boot of the machine: everything it could undo is gone.
    OtherBoot,
    /// It was written by a later version.
    Newer(u32),
}

/// The first line of a file, with its line feed.
#[must_use]
pub fn header(boot: &str) -> String {
    line("", &format!("{MAGIC} {VERSION} {boot}"))
}

/// Appends a row, with its line feed.
pub fn encode(row: &Row, boot: &str, out: &mut String) {
    let payload = match row {
        Row::Bind {
            key,
            at,
            origin,
            set,
        } => {
            let kind = match origin.kind {
                Kind::Unset => UNSET,
                Kind::User => USER,
            };
            let TaskKey { pid, tid, start } = key;
            let mask = &origin.mask;
            let (start, at) = (start.0, at.0);
            format!("bind {pid} {tid} {start} {at} {NO_NUMBER} {kind} {mask} {set}")
        }
        Row::Again { key, at, set } => {
            let TaskKey { pid, tid, start } = key;
            let (start, at) = (start.0, at.0);
            format!("again {pid} {tid} {start} {at} {NO_NUMBER} {set}")
        }
        Row::Process(ProcessKey { pid, start }) => format!("process {pid} {}", start.0),
        Row::Pages { owner, node, runs } => {
            let mut text = match owner {
                Owner::Process(pid, start) => format!("pages {pid} {} {node}", start.0),
                Owner::Object(object) => format!("shared {} {node}", object_words(*object)),
            };
            for run in runs {
                let first = run.first;
                let written = match run.count {
                    1 => write!(text, " {first:x}"),
                    count => write!(text, " {first:x}+{:x}/{:x}", count - 1, run.step),
                };
                written.expect("writing to a string never fails");
            }
            text
        }
        Row::Anew(ProcessKey { pid, start }) => format!("anew {pid} {}", start.0),
        Row::Balancing(Switch { was, set }) => format!("balancing {was} {set}"),
    };
    out.push_str(&line(boot, &payload));
}

/// Reads a file. Total: takes any bytes, keeps every whole row of this boot, counts the rest.
///
/// # Errors
/// When the header is whole and says that the file is not for us.
pub fn decode(bytes: &[u8], boot: &str) -> Result<Decoded, Foreign> {
    let mut decoded = Decoded::default();
    let mut lines = bytes.split(|&byte| byte == b'\n').peekable();
    let mut first = true;
    while let Some(line) = lines.next() {
        let cut = lines.peek().is_none();
        if cut && line.is_empty() {
            break;
        }
        // A whole line without its line feed was cut as well: the next row would run into it.
        if first
            && !cut
            && let Some(payload) = checked("", line)
        {
            match judge_header(payload, boot) {
                // Nothing in it needs the version that wrote it.
                Err(Foreign::Newer(_)) if lines.peek() == Some(&&b""[..]) => break,
                judged => decoded.older = judged? < VERSION,
            }
            decoded.headed = true;
        } else {
            let row = checked(boot, line).filter(|_| !cut).and_then(parse);
            match row {
                Some(row) => decoded.rows.push(row),
                None => decoded.damaged += 1,
            }
        }
        first = false;
    }
    Ok(decoded)
}

/// The version of a file that is for us.
fn judge_header(payload: &str, boot: &str) -> Result<u32, Foreign> {
    let mut words = payload.split(' ');
    let known = words.next() == Some(MAGIC);
    let version = words.next().and_then(|word| word.parse::<u32>().ok());
    match version {
        Some(version) if known && version > VERSION => Err(Foreign::Newer(version)),
        Some(version @ 1..) if known && words.next() == Some(boot) => Ok(version),
        _ => Err(Foreign::OtherBoot),
    }
}

fn parse(payload: &str) -> Option<Row> {
    let mut words = payload.split(' ');
    let row = match words.next()? {
        "bind" => {
            let key = task(&mut words)?;
            let at = moment(&mut words)?;
            let kind = match words.next()? {
                UNSET => Kind::Unset,
                USER => Kind::User,
                _ => return None,
            };
            let mask = cpus(words.next()?)?;
            Row::Bind {
                key,
                at,
                origin: Origin { kind, mask },
                set: cpus(words.next()?)?,
            }
        }
        "again" => Row::Again {
            key: task(&mut words)?,
            at: moment(&mut words)?,
            set: cpus(words.next()?)?,
        },
        "process" => Row::Process(process(&mut words)?),
        "anew" => Row::Anew(process(&mut words)?),
        kind @ ("pages" | "shared") => {
            let owner = if kind == "pages" {
                let ProcessKey { pid, start } = process(&mut words)?;
                Owner::Process(pid, start)
            } else {
                Owner::Object(object(&mut words)?)
            };
            let node = NodeId(words.next()?.parse().ok()?);
            let runs: Option<Vec<PageRun>> = words.by_ref().map(run).collect();
            Row::Pages {
                owner,
                node,
                runs: runs?,
            }
        }
        "balancing" => Row::Balancing(Switch {
            was: words.next()?.parse().ok()?,
            set: words.next()?.parse().ok()?,
        }),
        _ => return None,
    };
    words.next().is_none().then_some(row)
}

/// A page, or the first of several, how many more follow, and how far apart they are.
fn run(word: &str) -> Option<PageRun> {
    let hex = |word| u64::from_str_radix(word, 16).ok();
    let Some((first, rest)) = word.split_once('+') else {
        return hex(word).map(PageRun::one);
    };
    let (more, step) = rest.split_once('/')?;
    let count = u32::try_from(hex(more)?.checked_add(1)?).ok()?;
    let run = PageRun {
        first: hex(first)?,
        step: u32::try_from(hex(step)?).ok().filter(|&step| step > 0)?,
        count: Some(count).filter(|&count| count <= RUN_PAGES_MAX)?,
    };
    let bytes = u64::from(count).checked_mul(run.step.into())?;
    run.first.checked_add(bytes)?;
    Some(run)
}

fn process<'a>(words: &mut impl Iterator<Item = &'a str>) -> Option<ProcessKey> {
    Some(ProcessKey {
        pid: Pid(words.next()?.parse().ok()?),
        start: StartTicks(words.next()?.parse().ok()?),
    })
}

fn task<'a>(words: &mut impl Iterator<Item = &'a str>) -> Option<TaskKey> {
    Some(TaskKey {
        pid: Pid(words.next()?.parse().ok()?),
        tid: Tid(words.next()?.parse().ok()?),
        start: StartTicks(words.next()?.parse().ok()?),
    })
}

fn moment<'a>(words: &mut impl Iterator<Item = &'a str>) -> Option<StartTicks> {
    let at = StartTicks(words.next()?.parse().ok()?);
    let _newest: u32 = words.next()?.parse().ok()?;
    Some(at)
}

fn object<'a>(words: &mut impl Iterator<Item = &'a str>) -> Option<ObjectId> {
    let word = words.next()?;
    let kind = KINDS.into_iter().find(|&kind| kind_word(kind) == word)?;
    let (major, minor) = words.next()?.split_once(':')?;
    Some(ObjectId {
        kind,
        device: (major.parse().ok()?, minor.parse().ok()?),
        inode: words.next()?.parse().ok()?,
    })
}

/// Memory that can be shared, as rows name it.
pub(super) fn object_words(object: ObjectId) -> String {
    let (kind, (major, minor), inode) = (kind_word(object.kind), object.device, object.inode);
    format!("{kind} {major}:{minor} {inode}")
}

const fn kind_word(kind: ObjectKind) -> &'static str {
    match kind {
        ObjectKind::Memory => "memory",
        ObjectKind::SystemV => "sysv",
        ObjectKind::File => "file",
    }
}

/// A mask; never empty, because no thread has an empty one.
fn cpus(word: &str) -> Option<CpuSet> {
    CpuSet::parse_list(word).ok().filter(|set| !set.is_empty())
}

/// A line: checksum, blank, payload, line feed. Public for fuzzing.
#[must_use]
pub fn line(boot: &str, payload: &str) -> String {
    format!("{:08x} {payload}\n", checksum(boot, payload))
}

/// The payload of a line whose checksum is right.
fn checked<'a>(boot: &str, line: &'a [u8]) -> Option<&'a str> {
    let (sum, payload) = std::str::from_utf8(line).ok()?.split_once(' ')?;
    (sum == format!("{:08x}", checksum(boot, payload))).then_some(payload)
}

/// CRC-32 (IEEE 802.3) over the boot id and the payload, so that no row of another boot passes even
/// where the header is lost.
pub(super) fn checksum(boot: &str, payload: &str) -> u32 {
    !boot
        .bytes()
        .chain(payload.bytes())
        .fold(u32::MAX, |sum, byte| {
            let [low, ..] = sum.to_le_bytes();
            (sum >> 8) ^ CRC[usize::from(low ^ byte)]
        })
}

const CRC: [u32; 256] = {
    let mut table = [0; 256];
    let mut index: u32 = 0;
    while index < 256 {
        let mut value = index;
        let mut bit = 0;
        while bit < 8 {
            value = (value >> 1) ^ (0xedb8_8320 & 0u32.wrapping_sub(value & 1));
            bit += 1;
        }
        table[index as usize] = value;
        index += 1;
    }
    table
};

const MAGIC: &str = "numad-journal";
const VERSION: u32 = 2;
const KINDS: [ObjectKind; 3] = [ObjectKind::Memory, ObjectKind::SystemV, ObjectKind::File];
/// In the place of the newest number of a thread, by which earlier versions told threads of one tick apart. Numbers
/// wrap, and to them every thread of that tick is now a later one.
const NO_NUMBER: u32 = 0;
const UNSET: &str = "unset";
const USER: &str = "user";

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BOOT: &str = "5d2f0a7c-93f1-4e5e-b0f7-5b1f6a1a2c3d";

    fn set(text: &str) -> CpuSet {
        CpuSet::parse_list(text).unwrap()
    }

    fn key() -> TaskKey {
        TaskKey {
            pid: Pid(812),
            tid: Tid(813),
            start: StartTicks(4455),
        }
    }

    fn rows() -> Vec<Row> {
        vec![
            Row::Process(ProcessKey {
                pid: Pid(812),
                start: StartTicks(4450),
            }),
            Row::Bind {
                key: key(),
                at: StartTicks(9000),
                origin: Origin {
                    kind: Kind::Unset,
                    mask: set("0-15"),
                },
                set: set("0-7"),
            },
            Row::Again {
                key: key(),
                at: StartTicks(9100),
                set: set("8-15,2000"),
            },
            Row::Pages {
                owner: Owner::Process(Pid(812), StartTicks(4450)),
                node: NodeId(3),
                runs: vec![
                    PageRun::one(0x7f00_0000_1000),
                    PageRun {
                        first: 0x7f00_0000_3000,
                        step: 0x1000,
                        count: 512,
                    },
                ],
            },
            Row::Pages {
                owner: Owner::Object(ObjectId {
                    kind: ObjectKind::Memory,
                    device: (0, 1),
                    inode: 2066,
                }),
                node: NodeId(1),
                runs: vec![PageRun::one(0), PageRun::one(0x7000)],
            },
        ]
    }

    fn file(rows: &[Row]) -> String {
        let mut text = header(BOOT);
        for row in rows {
            encode(row, BOOT, &mut text);
        }
        text
    }

    #[test]
    fn the_format_is_what_the_document_says() {
        assert_eq!(
            file(&rows()),
            include_str!("../../fixtures/journal-2"),
            "docs/journal-format.md shows this file"
        );
        assert_eq!(
            checksum("", "123456789"),
            0xcbf4_3926,
            "CRC-32 as everyone's"
        );
    }

    #[test]
    fn a_file_of_the_version_before_is_read() {
        let decoded = decode(include_bytes!("../../fixtures/journal-1"), BOOT).unwrap();
        assert!(decoded.headed && decoded.older && decoded.damaged == 0);
        let pages = vec![
            PageRun::one(0x7f00_0000_1000),
            PageRun::one(0x7f00_0000_3000),
        ];
        let row = Row::Pages {
            owner: Owner::Process(Pid(812), StartTicks(4450)),
            node: NodeId(3),
            runs: pages,
        };
        assert!(decoded.rows.len() == 5 && decoded.rows.contains(&row));
    }

    #[test]
    fn runs_that_nobody_wrote_are_damage() {
        let good = "7f0000001000+3/1000";
        assert_eq!(run(good).map(|run| run.last()), Some(0x7f00_0000_4000));
        let bad = "+ 1+ 1+1 1+1/ 1+1/0 1+g/1 1+ffffffff/1 1+1000000/1000 ffffffffffffffff+1/1 1+1/100000000 1+1/1/1";
        for word in bad.split(' ') {
            assert_eq!(run(word), None, "{word}");
        }
    }

    #[test]
    fn the_seeds_of_the_fuzz_target_read() {
        let seed = |name: &str| {
            let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/journal/");
            let bytes = std::fs::read(format!("{corpus}{name}")).unwrap();
            decode(&bytes, BOOT).unwrap().rows.len()
        };
        assert_eq!((seed("whole"), seed("cut"), seed("headless")), (5, 1, 5));
        assert_eq!(seed("runs"), 5);
        let payloads = include_str!("../../../../fuzz/corpus/journal/payloads");
        let summed: String = payloads.lines().map(|one| line(BOOT, one)).collect();
        assert_eq!(decode(summed.as_bytes(), BOOT).unwrap().rows.len(), 6);
    }

    #[test]
    fn what_is_written_reads_back() {
        let decoded = decode(file(&rows()).as_bytes(), BOOT).unwrap();
        assert_eq!(decoded.rows, rows());
        assert!(decoded.headed && decoded.damaged == 0);
        assert_eq!(decode(b"", BOOT).unwrap(), Decoded::default());
    }

    #[test]
    fn a_file_cut_at_any_byte_keeps_every_whole_row() {
        let text = file(&rows());
        for length in 0..=text.len() {
            let decoded = decode(&text.as_bytes()[..length], BOOT).unwrap();
            let whole = text[..length].matches('\n').count();
            assert_eq!(decoded.rows, rows()[..whole.saturating_sub(1)], "{length}");
            let torn = length > 0 && !text[..length].ends_with('\n');
            assert_eq!(decoded.damaged, u64::from(torn), "{length}");
        }
    }

    #[test]
    fn a_flipped_bit_costs_one_row_and_no_more() {
        let text = file(&rows());
        for at in 0..text.len() {
            for bit in 0..8 {
                let mut bytes = text.clone().into_bytes();
                bytes[at] ^= 1 << bit;
                let decoded = decode(&bytes, BOOT).unwrap();
                // A line feed that is lost joins two lines, and both are lost.
                assert!(decoded.rows.len() + 2 >= rows().len(), "{at} {bit}");
                assert!(decoded.rows.iter().all(|row| rows().contains(row)));
                assert!(decoded.damaged > 0, "{at} {bit}");
            }
        }
    }

    #[test]
    fn another_boot_and_a_later_version_are_not_for_us() {
        let text = file(&rows());
        assert_eq!(decode(text.as_bytes(), "other"), Err(Foreign::OtherBoot));
        let later = line("", &format!("{MAGIC} 3 {BOOT} more"));
        let empty = decode(later.as_bytes(), BOOT).unwrap();
        assert_eq!(empty, Decoded::default(), "nothing is open in it");
        let later = later + "what only the later version knows\n";
        assert_eq!(decode(later.as_bytes(), BOOT), Err(Foreign::Newer(3)));
        // With the header lost, rows of another boot do not pass either.
        let headless = &text[text.find('\n').unwrap() + 1..];
        assert_eq!(decode(headless.as_bytes(), "other").unwrap().rows, []);
        assert_eq!(decode(headless.as_bytes(), BOOT).unwrap().rows, rows());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]
        #[test]
        fn never_panics(bytes: Vec<u8>) {
            drop(decode(&bytes, BOOT));
        }

        #[test]
        fn any_row_reads_back(
            pid: u32, tid: u32, start: u64, ticks: u64, user: bool,
            mask in prop::collection::vec(0..5000_u32, 1..20), object in prop::sample::select(KINDS.to_vec()),
            pages in prop::collection::vec((0..u64::MAX / 2, 1..1_u32 << 20, 1..=RUN_PAGES_MAX), 0..20),
        ) {
            // One page has no distance.
            let runs: Vec<PageRun> = pages.into_iter().map(|(first, step, count)| PageRun {
                first, count, step: if count == 1 { 1 } else { step },
            }).collect();
            let cpus: CpuSet = mask.into_iter().map(topology::CpuId).collect();
            let key = TaskKey { pid: Pid(pid), tid: Tid(tid), start: StartTicks(start) };
            let kind = if user { Kind::User } else { Kind::Unset };
            let rows = [
                Row::Process(ProcessKey { pid: Pid(pid), start: StartTicks(start) }),
                Row::Anew(ProcessKey { pid: Pid(pid), start: StartTicks(start) }),
                Row::Bind { key, at: StartTicks(ticks), origin: Origin { kind, mask: cpus.clone() }, set: cpus.clone() },
                Row::Again { key, at: StartTicks(ticks), set: cpus },
                Row::Pages {
                    owner: Owner::Process(Pid(pid), StartTicks(start)), node: NodeId(tid), runs: runs.clone(),
                },
                Row::Pages {
                    owner: Owner::Object(ObjectId { kind: object, device: (pid, tid), inode: start }), node: NodeId(tid), runs,
                },
            ];
            prop_assert_eq!(decode(file(&rows).as_bytes(), BOOT).unwrap().rows, rows);
        }
    }
}
