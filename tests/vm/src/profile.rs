//! A profile of the daemon: what the plugin counted, instruction by instruction, under the names of functions.
//!
//! The plugin tells addresses (`plugin/profile.h`). Names of the daemon's functions, and of those that were inlined into
//! them, come from the unstripped binary by `addr2line`; of its libraries, by `nm`; the kernel's, from the guest's own
//! list. Counts are what the guest ran: two runs differ by what the daemon did, never by sampling.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use crate::image;
use crate::kit::Kit;

/// What of a run is profiled.
const PHASES: [&str; 3] = [
    "before the program is counted",
    "while the program is counted",
    "afterwards, when all is put back",
];
/// The one that placing happens in.
const COUNTED: usize = 1;
/// Above this, addresses are the kernel's. It stands by itself for all of the kernel, with the place that it was entered
/// from; counts of its functions have no such place.
const KERNEL: u64 = 1 << 63;
/// Lines of each table, where it is not asked for whole.
pub(crate) const ROWS: usize = 24;

/// What the plugin counted.
#[derive(Debug, Default)]
struct Counted {
    /// Where each place in the calls returns to, and the place it was called from; the first is no call.
    contexts: BTreeMap<u32, (u32, u64)>,
    counts: Vec<Count>,
    /// How often each system call was made, by phase.
    calls: BTreeMap<(usize, i32), u64>,
    dropped: u64,
}

/// Instructions of one block of code, called from one place, in one system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Count {
    phase: usize,
    context: u32,
    /// The number; negative outside of any.
    call: i32,
    address: u64,
    instructions: u64,
}

impl Counted {
    fn parse(text: &str) -> Result<Self> {
        let mut counted = Self::default();
        for line in text.lines() {
            let known = counted.take(line);
            known.with_context(|| format!("`{line}` is no line of a profile"))?;
        }
        Ok(counted)
    }

    fn take(&mut self, line: &str) -> Option<()> {
        let words: Vec<&str> = line.split(' ').collect();
        let hex = |word: &str| u64::from_str_radix(word, 16).ok();
        match *words.as_slice() {
            ["dropped", count] => self.dropped = count.parse().ok()?,
            ["context", id, parent, returns] => {
                let below = (parent.parse().ok()?, hex(returns)?);
                self.contexts.insert(id.parse().ok()?, below);
            }
            ["calls", phase, call, count] => {
                let key = (phase.parse().ok()?, call.parse().ok()?);
                self.calls.insert(key, count.parse().ok()?);
            }
            ["count", phase, context, call, address, instructions] => self.counts.push(Count {
                phase: phase.parse().ok()?,
                context: context.parse().ok()?,
                call: call.parse().ok()?,
                address: hex(address)?,
                instructions: instructions.parse().ok()?,
            }),
            _ => return None,
        }
        Some(())
    }

    /// The calls that lead to a place, each by an address within the instruction that made it; innermost first.
    fn callers(&self, context: u32) -> impl Iterator<Item = u64> {
        let place = |id: &u32| self.contexts.get(id).copied();
        let places = std::iter::successors(place(&context), move |(parent, _)| place(parent));
        places.map(|(_, returns)| returns - 1)
    }

    /// All addresses in user mode.
    fn addresses(&self) -> BTreeSet<u64> {
        let blocks = self.counts.iter().map(|count| count.address);
        let calls = self.contexts.values().map(|(_, returns)| returns - 1);
        blocks
            .chain(calls)
            .filter(|address| *address < KERNEL)
            .collect()
    }
}

/// A function as it is shown.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Function {
    name: String,
    /// Whether it is from this workspace, and no library's.
    ours: bool,
}

/// Names by addresses.
#[derive(Debug, Default)]
struct Names {
    /// Of each address in user mode: what was inlined there, innermost first, and last the function itself.
    user: BTreeMap<u64, Vec<Function>>,
    kernel: BTreeMap<u64, String>,
}

impl Names {
    fn frames(&self, address: u64) -> &[Function] {
        self.user.get(&address).map_or(&[], Vec::as_slice)
    }

    /// The function that the machine runs there, with all that is inlined into it.
    fn kernel_function(&self, address: u64) -> &str {
        let below = self.kernel.range(..=address).next_back();
        below.map_or("?", |(_, name)| name)
    }

    fn function(&self, address: u64) -> &str {
        let last = self.frames(address).last();
        last.map_or("?", |function| &function.name)
    }
}

/// Where the daemon had a file, and what of it is on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mapped {
    first: u64,
    end: u64,
    /// The path in the guest.
    file: String,
}

/// The files in a process's list of mappings, each from its first byte to its last.
fn mapped(maps: &str) -> Vec<Mapped> {
    let mut files: Vec<Mapped> = Vec::new();
    for line in maps.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (Some(range), Some(file)) = (words.first(), words.get(5)) else {
            continue;
        };
        let numbers = range.split_once('-').and_then(|(first, end)| {
            let hex = |word| u64::from_str_radix(word, 16).ok();
            Some((hex(first)?, hex(end)?))
        });
        let Some((first, end)) = numbers.filter(|_| file.starts_with('/')) else {
            continue;
        };
        match files.iter_mut().find(|known| known.file == **file) {
            Some(known) => known.end = end,
            None => files.push(Mapped {
                first,
                end,
                file: (*file).to_owned(),
            }),
        }
    }
    files
}

/// The kernel's functions as it tells them itself.
fn kernel_symbols(text: &str) -> Result<BTreeMap<u64, String>> {
    let symbols: BTreeMap<u64, String> = text
        .lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            let address = u64::from_str_radix(words.next()?, 16).ok()?;
            let code = matches!(words.next()?, "t" | "T" | "w" | "W");
            let name = words.next()?;
            (code && address >= KERNEL).then(|| (address, name.to_owned()))
        })
        .collect();
    if symbols.is_empty() {
        bail!("the guest's kernel does not tell where its functions are");
    }
    Ok(symbols)
}

/// What `addr2line -a -f -i` says: for each address pairs of function and place, innermost first.
fn inlined(text: &str, workspace: &Path) -> BTreeMap<u64, Vec<Function>> {
    let mut all: BTreeMap<u64, Vec<Function>> = BTreeMap::new();
    let mut address = None;
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(hex) = line.strip_prefix("0x") {
            address = u64::from_str_radix(hex, 16).ok();
            continue;
        }
        let place = lines.next().unwrap_or_default();
        if let Some(address) = address {
            let ours = Path::new(place).strip_prefix(workspace).ok();
            all.entry(address).or_default().push(Function {
                name: within(line, ours),
                ours: ours.is_some(),
            });
        }
    }
    all
}

/// A function with its file, for what is inlined has no path in its name.
fn within(function: &str, file: Option<&Path>) -> String {
    let file = file.map(|file| file.to_string_lossy());
    let file = file.and_then(|file| Some(file.split_once(':')?.0.to_owned()));
    match file {
        Some(file) => format!("{} ({file})", short(function)),
        None => short(function),
    }
}

/// What `nm -S` says: first and last byte of each function that has a size.
fn sized(text: &str) -> BTreeMap<u64, (u64, String)> {
    text.lines()
        .filter_map(|line| {
            let mut words = line.splitn(4, ' ');
            let first = u64::from_str_radix(words.next()?, 16).ok()?;
            let size = u64::from_str_radix(words.next()?, 16).ok()?;
            let code = matches!(words.next()?, "t" | "T" | "w" | "W" | "i");
            // A version behind the name says nothing here.
            let name = words.next()?.split('@').next()?;
            code.then(|| (first, (first + size.max(1) - 1, name.to_owned())))
        })
        .collect()
}

/// The daemon's binary, by addresses from its beginning.
fn name_daemon(binary: &Path, offsets: &[u64], kit: &Kit) -> Result<BTreeMap<u64, Vec<Function>>> {
    let mut asked = String::new();
    for offset in offsets {
        writeln!(asked, "{offset:#x}")?;
    }
    let mut child = Command::new("addr2line")
        .args(["-a", "-f", "-i", "-C", "-e"])
        .arg(binary)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .context("cannot run `addr2line`; install binutils")?;
    let mut input = child.stdin.take().context("addr2line has no input")?;
    // It answers while it reads, and would wait for us if we only wrote.
    let writer = std::thread::spawn(move || input.write_all(asked.as_bytes()));
    let said = child.wait_with_output()?;
    if !matches!(writer.join(), Ok(Ok(()))) || !said.status.success() {
        bail!("addr2line cannot read `{}`", binary.display());
    }
    Ok(inlined(
        &String::from_utf8_lossy(&said.stdout),
        &kit.shipped(""),
    ))
}

/// A library without what a debugger reads: its own name stands for what it does not export.
fn name_library(library: &Path, offsets: &[u64]) -> Result<BTreeMap<u64, Vec<Function>>> {
    let said = Command::new("nm")
        .args(["-D", "-C", "-S", "--defined-only"])
        .arg(library)
        .output()
        .context("cannot run `nm`; install binutils")?;
    let functions = sized(&String::from_utf8_lossy(&said.stdout));
    let file = library.file_name().unwrap_or_default().to_string_lossy();
    let name = |offset: u64| {
        let below = functions.range(..=offset).next_back();
        let within = below.filter(|(_, (last, _))| *last >= offset);
        within.map_or_else(
            || format!("{file}, not exported"),
            |(_, (_, name))| name.clone(),
        )
    };
    let frames = |offset: &u64| {
        let name = name(*offset);
        (*offset, vec![Function { name, ours: false }])
    };
    Ok(offsets.iter().map(frames).collect())
}

/// Names for all addresses of a profile.
fn name_all(kit: &Kit, counted: &Counted, maps: &str, kernel: &str) -> Result<Names> {
    let addresses = counted.addresses();
    let daemon = kit.built("numad");
    let libraries = image::libraries(&daemon)?;
    let mut names = Names {
        user: BTreeMap::new(),
        kernel: kernel_symbols(kernel)?,
    };
    for mapped in mapped(maps) {
        let within = addresses.range(mapped.first..mapped.end);
        let offsets: Vec<u64> = within.map(|address| address - mapped.first).collect();
        let file = Path::new(&mapped.file).file_name();
        let library: Option<&PathBuf> = libraries.iter().find(|one| one.file_name() == file);
        let named = if file == daemon.file_name() {
            name_daemon(&daemon, &offsets, kit)?
        } else if let Some(library) = library {
            name_library(library, &offsets)?
        } else {
            continue;
        };
        let absolute = named.into_iter();
        names
            .user
            .extend(absolute.map(|(offset, frames)| (offset + mapped.first, frames)));
    }
    Ok(names)
}

/// Instructions in user mode and in the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Cost {
    user: u64,
    kernel: u64,
}

impl Cost {
    fn add(&mut self, count: &Count) {
        if count.address < KERNEL {
            self.user += count.instructions;
        } else {
            self.kernel += count.instructions;
        }
    }

    const fn all(self) -> u64 {
        self.user + self.kernel
    }
}

/// What a phase of a run cost.
#[derive(Debug, Default)]
struct Profile {
    total: Cost,
    /// Functions of ours with all that they call.
    inclusive: BTreeMap<String, Cost>,
    /// Functions in user mode and of the kernel by themselves, with what is inlined into them.
    alone: BTreeMap<String, u64>,
    kernel: BTreeMap<String, u64>,
    /// By the number of a system call; negative outside of any.
    calls: BTreeMap<i32, u64>,
}

impl Profile {
    fn of(counted: &Counted, names: &Names, phase: usize) -> Self {
        let mut profile = Self::default();
        for count in counted.counts.iter().filter(|count| count.phase == phase) {
            if count.address > KERNEL {
                let function = names.kernel_function(count.address).to_owned();
                *profile.kernel.entry(function).or_default() += count.instructions;
                continue;
            }
            profile.total.add(count);
            let mut on_stack: BTreeSet<&str> = BTreeSet::new();
            let places = std::iter::once(count.address).chain(counted.callers(count.context));
            for function in places.flat_map(|address| names.frames(address)) {
                // A function that calls itself has what it calls once.
                if function.ours && on_stack.insert(&function.name) {
                    let cost = profile.inclusive.entry(function.name.clone());
                    cost.or_default().add(count);
                }
            }
            if count.address == KERNEL {
                *profile.calls.entry(count.call).or_default() += count.instructions;
            } else {
                let function = names.function(count.address).to_owned();
                *profile.alone.entry(function).or_default() += count.instructions;
            }
        }
        profile
    }
}

/// What the daemon did meanwhile, by its own words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Done {
    windows: u64,
    pages: u64,
}

impl Done {
    /// Of all attachments together.
    fn parse(status: &str) -> Result<Self> {
        let status: Value = serde_json::from_str(status).context("the status is no JSON")?;
        let attachments = status["attachments"].as_array();
        let attachments = attachments.context("the status has no attachments")?;
        let sum = |number: fn(&Value) -> &Value| {
            attachments
                .iter()
                .filter_map(|one| number(one).as_u64())
                .sum()
        };
        Ok(Self {
            windows: sum(|one| &one["windows"]),
            pages: sum(|one| &one["ledger"]["pages_moved"]),
        })
    }
}

/// What of a run is needed for its profile.
#[derive(Debug)]
pub(crate) struct Told<'a> {
    /// What the plugin wrote.
    pub(crate) counts: &'a str,
    /// The archive of what the script left.
    pub(crate) files: &'a [u8],
}

/// The tables of a run, each with so many rows.
pub(crate) fn tables(kit: &Kit, told: &Told<'_>, rows: usize) -> Result<String> {
    let file = |name: &str| {
        image::unpacked(told.files, &format!("out/profile.{name}"))
            .with_context(|| format!("the script left no `profile.{name}`: a profile is of a daemon that `start_numad` starts"))
    };
    let counted = Counted::parse(told.counts)?;
    let names = name_all(kit, &counted, &file("maps")?, &file("kallsyms")?)?;
    let done = file("status").and_then(|status| Done::parse(&status));
    let mut text = String::new();
    for (phase, name) in PHASES.iter().enumerate() {
        let profile = Profile::of(&counted, &names, phase);
        if profile.total.all() == 0 {
            continue;
        }
        let done = done.as_ref().ok().filter(|_| phase == COUNTED);
        writeln!(text, "profile, {name}: {}", summary(profile.total, done))?;
        if phase == COUNTED {
            text += &detail(&profile, &counted, done.copied().unwrap_or_default(), rows)?;
        }
    }
    if counted.dropped > 0 {
        writeln!(text, "no room for {} instructions", counted.dropped)?;
    }
    Ok(text)
}

fn summary(total: Cost, done: Option<&Done>) -> String {
    let mut text = format!(
        "{} million instructions, {} of them in user mode",
        millions(total.all()),
        millions(total.user)
    );
    if let Some(Done { windows, pages }) = done {
        let each = |count: u64| {
            let each = |part: u64| part.checked_div(count).unwrap_or_default();
            format!("{} (user {})", each(total.all()), each(total.user))
        };
        text += &format!("; {windows} windows, {pages} pages moved");
        text += &format!("; a window {}; a page {}", each(*windows), each(*pages));
    }
    text
}

fn detail(profile: &Profile, counted: &Counted, done: Done, rows: usize) -> Result<String> {
    let mut text = String::new();
    writeln!(
        text,
        "functions of ours with all that they call, in millions"
    )?;
    writeln!(
        text,
        "{:>7}{:>10}{:>10}{:>8}",
        "share", "user", "kernel", "a page"
    )?;
    let row = |all: u64, columns: &str, name: &str| {
        let share = 1000 * all / profile.total.all().max(1);
        let share = format!("{}.{}%", share / 10, share % 10);
        let page = all.checked_div(done.pages).unwrap_or_default();
        format!("{share:>7}{columns:>20}{page:>8}  {name}\n")
    };
    for (name, cost) in most(&profile.inclusive, Cost::all).take(rows) {
        let columns = format!("{:>10}{:>10}", millions(cost.user), millions(cost.kernel));
        text += &row(cost.all(), &columns, name);
    }
    for (what, functions) in [
        ("functions in user mode, each alone", &profile.alone),
        ("functions of the kernel, each alone", &profile.kernel),
    ] {
        writeln!(text, "{what}")?;
        for (name, count) in most(functions, |count| count).take(rows) {
            text += &row(count, &millions(count), name);
        }
    }
    writeln!(text, "the kernel by system call")?;
    for (call, count) in most(&profile.calls, |count| count).take(rows) {
        let made = counted.calls.get(&(COUNTED, *call));
        let name = match made {
            Some(made) => format!("{} ({made} times)", call_name(*call)),
            None => "interrupts and faults".to_owned(),
        };
        text += &row(count, &millions(count), &name);
    }
    Ok(text)
}

/// The dearest first.
fn most<K, V: Copy>(costs: &BTreeMap<K, V>, all: fn(V) -> u64) -> impl Iterator<Item = (&K, V)> {
    let mut sorted: Vec<(&K, V)> = costs.iter().map(|(key, cost)| (key, *cost)).collect();
    sorted.sort_by_key(|(_, cost)| std::cmp::Reverse(all(*cost)));
    sorted.into_iter()
}

fn millions(count: u64) -> String {
    format!("{}.{:02}", count / 1_000_000, count % 1_000_000 / 10_000)
}

/// A name without its end where that is long.
fn short(name: &str) -> String {
    const LONGEST: usize = 100;
    match name.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}...", &name[..end]),
        None => name.to_owned(),
    }
}

/// The names of the system calls that the daemon makes most.
fn call_name(number: i32) -> String {
    const NAMES: &[(i32, &str)] = &[
        (0, "read"),
        (1, "write"),
        (3, "close"),
        (5, "fstat"),
        (7, "poll"),
        (8, "lseek"),
        (9, "mmap"),
        (10, "mprotect"),
        (11, "munmap"),
        (12, "brk"),
        (13, "rt_sigaction"),
        (14, "rt_sigprocmask"),
        (16, "ioctl"),
        (17, "pread64"),
        (18, "pwrite64"),
        (20, "writev"),
        (25, "mremap"),
        (28, "madvise"),
        (39, "getpid"),
        (44, "sendto"),
        (45, "recvfrom"),
        (47, "recvmsg"),
        (62, "kill"),
        (72, "fcntl"),
        (74, "fsync"),
        (75, "fdatasync"),
        (202, "futex"),
        (203, "sched_setaffinity"),
        (204, "sched_getaffinity"),
        (217, "getdents64"),
        (228, "clock_gettime"),
        (232, "epoll_wait"),
        (233, "epoll_ctl"),
        (238, "set_mempolicy"),
        (257, "openat"),
        (262, "newfstatat"),
        (271, "ppoll"),
        (279, "move_pages"),
        (298, "perf_event_open"),
        (310, "process_vm_readv"),
        (332, "statx"),
        (434, "pidfd_open"),
        (56, "clone"),
        (234, "tgkill"),
        (186, "gettid"),
        (302, "prlimit64"),
        (288, "accept4"),
        (435, "clone3"),
        (77, "ftruncate"),
    ];
    let known = NAMES.iter().find(|(known, _)| *known == number);
    known.map_or_else(
        || format!("system call {number}"),
        |(_, name)| (*name).to_owned(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `outer` at 0x1100 has `helper` inlined; it calls `inner` (0x1200), which calls itself and the kernel.
    const COUNTS: &str = "dropped 0\n\
        context 1 0 1105\n\
        context 2 1 1205\n\
        context 3 2 1209\n\
        calls 1 279 4\n\
        count 1 0 -1 1100 10\n\
        count 1 1 -1 1200 20\n\
        count 1 2 -1 1200 30\n\
        count 1 3 279 8000000000000000 40\n\
        count 1 0 279 ffffffff81000010 40\n\
        count 2 0 -1 1100 5\n";
    const MAPS: &str = "555555554000-555555560000 r--p 00000000 00:02 11 /bin/numad\n\
        555555560000-555555580000 r-xp 0000c000 00:02 11 /bin/numad\n\
        7ffff7c00000-7ffff7d00000 rw-p 00000000 00:00 0 \n\
        7ffff7d00000-7ffff7e00000 r-xp 00000000 00:02 12 /run/profiled/libc.so.6\n";

    fn function(name: &str, ours: bool) -> Function {
        Function {
            name: name.to_owned(),
            ours,
        }
    }

    fn names() -> Names {
        let kernel = "ffffffff81000000 T do_move_pages\nffffffff81000008 d some_data\n\
            ffffffff81000100 t behind\n";
        let outer = || vec![function("helper", true), function("outer", true)];
        let inner = || vec![function("grow", false), function("inner", true)];
        Names {
            user: [
                (0x1100, outer()),
                (0x1104, outer()),
                (0x1200, inner()),
                (0x1204, inner()),
                (0x1208, inner()),
            ]
            .into(),
            kernel: kernel_symbols(kernel).unwrap(),
        }
    }

    #[test]
    fn what_is_called_counts_for_who_calls_once() {
        let counted = Counted::parse(COUNTS).unwrap();
        let profile = Profile::of(&counted, &names(), COUNTED);
        let cost = |user, kernel| Cost { user, kernel };
        assert_eq!(profile.total, cost(60, 40));
        let expected = [
            ("helper", cost(60, 40)),
            ("inner", cost(50, 40)),
            ("outer", cost(60, 40)),
        ];
        assert_eq!(
            profile.inclusive,
            expected.map(|(name, cost)| (name.to_owned(), cost)).into()
        );
        let alone = [("inner", 50), ("outer", 10)];
        assert_eq!(
            profile.alone,
            alone.map(|(name, count)| (name.to_owned(), count)).into()
        );
        assert_eq!(profile.kernel, [("do_move_pages".to_owned(), 40)].into());
        assert_eq!(profile.calls, [(279, 40)].into());
        let afterwards = Profile::of(&counted, &names(), 2);
        assert_eq!(afterwards.total, cost(5, 0));
    }

    #[test]
    fn a_table_tells_shares_and_pages() {
        let counted = Counted::parse(COUNTS).unwrap();
        let profile = Profile::of(&counted, &names(), COUNTED);
        let done = Done {
            windows: 5,
            pages: 2,
        };
        assert_eq!(
            summary(profile.total, Some(&done)),
            "0.00 million instructions, 0.00 of them in user mode; 5 windows, 2 pages moved; \
             a window 20 (user 12); a page 50 (user 30)"
        );
        let text = detail(&profile, &counted, done, 9).unwrap();
        let has = |row: &[&str]| {
            let words = |line: &str| line.split_whitespace().map(str::to_owned).collect();
            let rows: Vec<Vec<String>> = text.lines().map(words).collect();
            assert!(rows.iter().any(|words| words == row), "{row:?} in {text}");
        };
        has(&["90.0%", "0.00", "0.00", "45", "inner"]);
        has(&["50.0%", "0.00", "25", "inner"]);
        has(&["40.0%", "0.00", "20", "do_move_pages"]);
        has(&["40.0%", "0.00", "20", "move_pages", "(4", "times)"]);
    }

    #[test]
    fn a_damaged_profile_is_refused() {
        for line in ["count 1 0 -1 zz 10", "context 1", "call 1 2 3"] {
            let error = Counted::parse(line).unwrap_err();
            assert!(error.to_string().contains(line), "{error}");
        }
    }

    #[test]
    fn files_are_whole_from_their_first_mapping_to_their_last() {
        let file = |first, end, file: &str| Mapped {
            first,
            end,
            file: file.to_owned(),
        };
        assert_eq!(
            mapped(MAPS),
            [
                file(0x5555_5555_4000, 0x5555_5558_0000, "/bin/numad"),
                file(
                    0x7fff_f7d0_0000,
                    0x7fff_f7e0_0000,
                    "/run/profiled/libc.so.6"
                ),
            ]
        );
    }

    #[test]
    fn symbols_are_read() {
        let text = "0x0000000000001100\nhelper\n/w/crates/a.rs:1\nouter\n/rustc/b.rs:2 (discriminator 3)\n\
            0x0000000000001200\n??\n??:0\n";
        let named = inlined(text, Path::new("/w"));
        assert_eq!(
            named[&0x1100],
            [
                function("helper (crates/a.rs)", true),
                function("outer", false)
            ]
        );
        assert_eq!(named[&0x1200], [function("??", false)]);
        let sizes = sized(
            "0000000000001000 0000000000000010 T malloc@@GLIBC_2.2.5\n0000000000002000 A GLIBC\n",
        );
        assert_eq!(sizes, [(0x1000, (0x100f, "malloc".to_owned()))].into());
        kernel_symbols("0000000000000000 T hidden\n").unwrap_err();
    }

    #[test]
    fn windows_and_pages_of_all_attachments_count() {
        let status = r#"{"attachments":[{"windows":3,"ledger":{"pages_moved":7}},{"windows":4,"ledger":{"pages_moved":1}}]}"#;
        let done = Done::parse(status).unwrap();
        assert_eq!((done.windows, done.pages), (7, 8));
        Done::parse("{}").unwrap_err();
    }
}
