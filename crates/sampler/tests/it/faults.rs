//! Page faults of a child process on the running kernel.

use std::io::{BufRead, BufReader, Lines, Write};
use std::os::fd::AsRawFd;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use nix::sched::{CpuSet as Mask, sched_setaffinity};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::{Pid as NixPid, Uid, gettid};
use numad_core::{Lifecycle, Record, Sample, Time};
use sampler::{FaultOptions, Faults, Refused, Source};
use topology::{CpuId, CpuSet, Pid, Tid};

use crate::skipped;

/// More samples than any of these tests makes.
const ENOUGH: u32 = 1 << 20;

/// Set in the environment of a process that is to be the child.
const ROLE: &str = "NUMAD_SAMPLER_CHILD";

fn now() -> Time {
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC).unwrap();
    let (seconds, rest) = (
        time.tv_sec().cast_unsigned(),
        time.tv_nsec().cast_unsigned(),
    );
    Time(seconds * 1_000_000_000 + rest)
}

fn online() -> CpuSet {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap();
    CpuSet::parse_list(&text).unwrap()
}

/// Opens the source on all processors, or says why the test cannot run.
fn open() -> Option<Faults> {
    opened(FaultOptions::new(online(), Box::new(now)))
}

/// The same with rings that hold what all programs of a busy machine do meanwhile.
fn open_with_room() -> Option<Faults> {
    opened(FaultOptions {
        ring_pages: 4096,
        ..FaultOptions::new(online(), Box::new(now))
    })
}

fn opened(options: FaultOptions) -> Option<Faults> {
    if !Uid::effective().is_root() {
        skipped("needs root");
        return None;
    }
    Some(Faults::open(options).unwrap())
}

/// A process that does what it is told, line by line.
struct Puppet {
    child: Child,
    tell: ChildStdin,
    hear: Lines<BufReader<ChildStdout>>,
}

impl Puppet {
    fn start() -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "faults::puppet",
                "--nocapture",
                "--test-threads=1",
            ])
            .env(ROLE, "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let tell = child.stdin.take().unwrap();
        let hear = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, tell, hear }
    }

    fn pid(&self) -> Pid {
        Pid(self.child.id())
    }

    /// Tells one line and gives the numbers of the answer.
    fn ask(&mut self, line: &str) -> Vec<u64> {
        writeln!(self.tell, "{line}").unwrap();
        // The test harness prints lines of its own, and the first answer stands behind one of them.
        let mut answers = self.hear.by_ref().map(Result::unwrap);
        let answer =
            answers.find_map(|line| line.split_once("answer: ").map(|(_, text)| text.to_owned()));
        let numbers = answer.expect("the child answers");
        numbers
            .split(' ')
            .map(|word| word.parse().unwrap())
            .collect()
    }

    fn stop(mut self) {
        drop(self.tell);
        self.child.wait().unwrap();
    }
}

/// The child's side of [`Puppet`]; an empty test when run as one.
#[test]
fn puppet() {
    if std::env::var_os(ROLE).is_none() {
        return;
    }
    let mut kept = Vec::new();
    for line in std::io::stdin().lines().map_while(Result::ok) {
        let words: Vec<&str> = line.split(' ').collect();
        let answer = match words[0] {
            "touch" => touch(words[1].parse().unwrap()),
            "thread" => {
                let (send, receive) = mpsc::channel();
                let cpu = words[1].parse().unwrap();
                thread::spawn(move || send.send(touch(cpu)).unwrap())
                    .join()
                    .unwrap();
                receive.recv().unwrap()
            }
            // Writes to the same pages each time.
            "write" => write_pages(words[1].parse().unwrap(), &mut kept),
            "process" => {
                let mut process = Command::new("true").spawn().unwrap();
                let pid = process.id();
                process.wait().unwrap();
                vec![u64::from(pid)]
            }
            other => panic!("unknown order {other}"),
        };
        let words: Vec<String> = answer.iter().map(u64::to_string).collect();
        println!("answer: {}", words.join(" "));
    }
}

/// Touches fresh pages from one processor; gives thread and page addresses.
fn touch(cpu: usize) -> Vec<u64> {
    write_pages(cpu, &mut Vec::new())
}

/// Writes to pages of some memory, which is made first if there is none.
fn write_pages(cpu: usize, memory: &mut Vec<u8>) -> Vec<u64> {
    let mut mask = Mask::new();
    mask.set(cpu).unwrap();
    sched_setaffinity(NixPid::from_raw(0), &mask).unwrap();
    let page = sampler::ring::page_bytes();
    // So large that the allocator always maps it anew (less than half of that it may keep), so that the memory is
    // fresh; one page in 8, because the kernel maps neighbours of file pages, not of these, but may use a huge
    // page for all.
    if memory.is_empty() {
        *memory = vec![0u8; 64 << 20];
    }
    let start = memory.as_ptr().addr().next_multiple_of(page);
    let mut answer = vec![u64::try_from(gettid().as_raw()).unwrap()];
    for place in (start..start + (2 << 20)).step_by(8 * page) {
        let index = place - memory.as_ptr().addr();
        std::hint::black_box(&mut *memory)[index] = 1;
        answer.push(place as u64);
    }
    answer
}

#[derive(Default)]
struct Seen {
    samples: Vec<Sample>,
    lifecycle: Vec<Lifecycle>,
    lost: u64,
}

fn drain(source: &mut dyn Source, seen: &mut Seen) {
    source.drain(&mut |record| match record {
        Record::Sample(sample) => seen.samples.push(*sample),
        Record::Lifecycle(lifecycle) => seen.lifecycle.push(lifecycle.clone()),
        Record::Lost(count) => seen.lost += count,
        Record::Sent(_) => {}
    });
}

/// Asserts that the pages of an answer were seen, by that thread, on that processor, in that time.
/// Where the kernel answers the first touch with a huge page, one fault stands for all its pages.
#[track_caller]
fn assert_touched(seen: &Seen, answer: &[u64], cpu: CpuId, began: Time) {
    let (tid, pages) = (Tid(u32::try_from(answer[0]).unwrap()), &answer[1..]);
    let page = sampler::ring::page_bytes() as u64;
    let ended = now();
    let samples: Vec<&Sample> = seen
        .samples
        .iter()
        .filter(|sample| sample.tid == tid && pages.contains(&(sample.address & !(page - 1))))
        .collect();
    assert!(
        !samples.is_empty(),
        "no fault of thread {tid} in its memory"
    );
    for sample in &samples {
        assert_eq!((sample.cpu, sample.period), (cpu, 1));
        assert!(began <= sample.time && sample.time <= ended, "{sample:?}");
    }
    let huge_pages = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled");
    if huge_pages.is_ok_and(|text| text.contains("[never]") || text.contains("[madvise]")) {
        assert_eq!(samples.len(), pages.len(), "every page once");
    }
}

#[test]
fn privileged_faults_of_a_child_are_seen() {
    let Some(mut source) = open_with_room() else {
        return;
    };
    let mut puppet = Puppet::start();
    let mut seen = Seen::default();
    let first = online().first().unwrap();
    let last = online().last().unwrap();

    let unattached = puppet.ask(&format!("touch {first}"));
    drain(&mut source, &mut seen);
    assert!(seen.samples.is_empty() && seen.lifecycle.is_empty());

    source.attach(puppet.pid()).unwrap();
    let began = now();
    let main = puppet.ask(&format!("touch {last}"));
    let other = puppet.ask(&format!("thread {first}"));
    let child = puppet.ask("process");
    drain(&mut source, &mut seen);
    assert_eq!(seen.lost, 0);
    assert_eq!(unattached[0], main[0], "the same thread was seen only now");
    assert_touched(&seen, &main, last, began);
    assert_touched(&seen, &other, first, began);

    let pid = puppet.pid();
    let tid = Tid(u32::try_from(other[0]).unwrap());
    let forked = |lifecycle: &&Lifecycle| matches!(lifecycle, Lifecycle::Fork { pid: p, tid: t, parent, .. } if (*p, *t, *parent) == (pid, tid, pid));
    assert!(
        seen.lifecycle.iter().any(|lifecycle| forked(&lifecycle)),
        "{:?}",
        seen.lifecycle
    );
    let ended = |lifecycle: &Lifecycle| matches!(lifecycle, Lifecycle::Exit { pid: p, tid: t, .. } if (*p, *t) == (pid, tid));
    assert!(seen.lifecycle.iter().any(ended), "{:?}", seen.lifecycle);
    let child = Pid(u32::try_from(child[0]).unwrap());
    let made = |lifecycle: &Lifecycle| matches!(lifecycle, Lifecycle::Fork { pid: p, parent, .. } if (*p, *parent) == (child, pid));
    assert!(seen.lifecycle.iter().any(made), "{:?}", seen.lifecycle);
    let other_program = |lifecycle: &Lifecycle| matches!(lifecycle, Lifecycle::Renamed { pid: p, name, exec: true, .. } if *p == child && name == "true");
    assert!(
        seen.lifecycle.iter().any(other_program),
        "{:?}",
        seen.lifecycle
    );
    assert!(
        seen.samples.iter().any(|sample| sample.pid == child),
        "the child's faults"
    );

    source.detach(pid);
    let mut after = Seen::default();
    puppet.ask(&format!("touch {first}"));
    drain(&mut source, &mut after);
    assert!(after.samples.is_empty() && after.lifecycle.is_empty());
    puppet.stop();
}

#[test]
fn privileged_status_says_what_is_seen_and_how() {
    let Some(mut source) = open() else {
        return;
    };
    let status = source.describe();
    assert_eq!((status.name, status.cpus), ("faults", online().len()));
    assert_eq!(status.ring_bytes, 64 * sampler::ring::page_bytes());
    let soft_dirty = sampler::provoke::soft_dirty_supported("/".as_ref()).unwrap();
    assert_eq!(status.provocation == "soft-dirty clearing", soft_dirty);
    assert_eq!(status.notes.is_empty(), soft_dirty, "{:?}", status.notes);
    source.attach(Pid(std::process::id())).unwrap();
    let next = source.provoke(now(), ENOUGH);
    assert_eq!(next.is_some(), soft_dirty);
}

/// What does not fit into the ring is counted, and none of it twice.
#[test]
fn privileged_what_a_small_ring_loses_is_counted() {
    if !Uid::effective().is_root() {
        skipped("needs root");
        return;
    }
    let options = FaultOptions {
        ring_pages: 1,
        ..FaultOptions::new(online(), Box::new(now))
    };
    let mut source = Faults::open(options).unwrap();
    let mut puppet = Puppet::start();
    source.attach(puppet.pid()).unwrap();
    let cpu = online().first().unwrap();
    for _ in 0..20 {
        puppet.ask(&format!("thread {cpu}"));
    }
    let mut seen = Seen::default();
    let mut fill = 0;
    for _ in 0..3 {
        let drained = source.drain(&mut |record| match record {
            Record::Lost(count) => seen.lost += count,
            Record::Sample(sample) => seen.samples.push(*sample),
            Record::Lifecycle(_) | Record::Sent(_) => {}
        });
        fill = fill.max(drained.fill_permille);
        puppet.ask(&format!("touch {cpu}"));
    }
    puppet.stop();
    assert!(fill > 950, "the ring was full: {fill}");
    assert!(seen.lost > 0);
    assert_eq!(source.losses().lost, seen.lost);
    assert_eq!(source.losses().damaged, 0);
}

#[test]
fn privileged_readiness_is_told_when_a_ring_is_half_full() {
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    if !Uid::effective().is_root() {
        skipped("needs root");
        return;
    }
    let options = FaultOptions {
        ring_pages: 1,
        ..FaultOptions::new(online(), Box::new(now))
    };
    let mut source = Faults::open(options).unwrap();
    let mut puppet = Puppet::start();
    source.attach(puppet.pid()).unwrap();
    let cpu = online().first().unwrap();
    let ready = |source: &Faults| {
        let mut polled = [PollFd::new(source.wait_fd().unwrap(), PollFlags::POLLIN)];
        poll(&mut polled, PollTimeout::from(5_000u16)).unwrap()
    };
    // Twice, so that being ready once is not being ready for ever, nor the last time.
    for round in 0..2 {
        for _ in 0..10 {
            puppet.ask(&format!("thread {cpu}"));
        }
        assert_eq!(ready(&source), 1, "round {round}");
        drain(&mut source, &mut Seen::default());
    }
    puppet.stop();
}

#[test]
fn privileged_processors_come_and_go() {
    let Some(mut source) = open() else {
        return;
    };
    let (all, first) = (online(), online().first().unwrap());
    let only_first: CpuSet = [first].into_iter().collect();
    assert_eq!(source.refresh(&only_first), []);
    drain(&mut source, &mut Seen::default());
    assert_eq!(source.describe().cpus, 1);
    // A processor that is not there is no error: it went away between looking and opening.
    let mut more = all.clone();
    more.insert(CpuId(60_000));
    let refused = source.refresh(&more);
    assert!(
        refused.iter().all(|error| error.cpu == CpuId(60_000)),
        "{refused:?}"
    );
    assert_eq!(source.describe().cpus, all.len());
    // Events that live stay open, however often it is asked.
    for _ in 0..3 {
        source.refresh(&all);
        drain(&mut source, &mut Seen::default());
    }
    assert_eq!(source.describe().cpus, all.len());
    let mut puppet = Puppet::start();
    source.attach(puppet.pid()).unwrap();
    let began = now();
    let last = all.last().unwrap();
    let answer = puppet.ask(&format!("touch {last}"));
    let mut seen = Seen::default();
    drain(&mut source, &mut seen);
    assert_touched(&seen, &answer, last, began);
    puppet.stop();
}

/// Where the kernel keeps soft-dirty bits, pages that are written again are seen again after each
/// clear, at the times that the source asks for.
#[test]
fn privileged_soft_dirty_clearing_makes_writes_seen_again() {
    if !Uid::effective().is_root() {
        skipped("needs root");
        return;
    }
    let mut options = FaultOptions::new(online(), Box::new(now));
    // The machine may be emulated and slow; what a long clear leads to is tested elsewhere.
    options.clear.pause_max = Duration::from_secs(60);
    let mut source = Faults::open(options).unwrap();
    if !sampler::provoke::soft_dirty_supported("/".as_ref()).unwrap() {
        skipped("this kernel keeps no soft-dirty bits");
        return;
    }
    let mut puppet = Puppet::start();
    let cpu = online().first().unwrap();
    let order = format!("write {cpu}");
    let page_bytes = sampler::ring::page_bytes() as u64;
    puppet.ask(&order);
    drain(&mut source, &mut Seen::default());
    source.attach(puppet.pid()).unwrap();
    let began = now();
    let mut next = source.provoke(began, ENOUGH).unwrap();
    for _round in 0..3 {
        // What was not cleared is not seen, however often it is written.
        let mut seen = Seen::default();
        let answer = puppet.ask(&order);
        drain(&mut source, &mut seen);
        let in_memory = |sample: &&Sample| {
            answer[1..]
                .iter()
                .any(|page| page ^ sample.address < page_bytes)
        };
        assert_eq!(seen.samples.iter().filter(in_memory).count(), 0);
        // The source is told that the time has come; nobody has to wait for it.
        let told = next;
        next = source.provoke(told, ENOUGH).unwrap();
        assert!(next >= told.after(Duration::from_secs(1)));
        let answer = puppet.ask(&order);
        drain(&mut source, &mut seen);
        assert_touched(&seen, &answer, cpu, began);
    }
    assert_eq!(source.describe().notes, Vec::<String>::new());
    puppet.stop();
}

/// Of ten faults one sample, which stands for ten.
#[test]
fn privileged_a_period_thins_samples_out() {
    if !Uid::effective().is_root() {
        skipped("needs root");
        return;
    }
    let count = |period| {
        let options = FaultOptions {
            period,
            ..FaultOptions::new(online(), Box::new(now))
        };
        let mut source = Faults::open(options).unwrap();
        let mut puppet = Puppet::start();
        source.attach(puppet.pid()).unwrap();
        let cpu = online().first().unwrap();
        for _ in 0..20 {
            puppet.ask(&format!("thread {cpu}"));
        }
        let mut seen = Seen::default();
        drain(&mut source, &mut seen);
        puppet.stop();
        assert!(seen.samples.iter().all(|sample| sample.period == period));
        seen.samples.len()
    };
    let (all, thin) = (count(1), count(10));
    assert!(all > 200 && thin > 0 && thin * 5 < all, "{all} and {thin}");
}

/// The limit of open files is lowered in a child, which then fails to open the source.
#[test]
fn privileged_too_many_files_is_told() {
    if std::env::var_os(ROLE).is_some() {
        return;
    }
    if !Uid::effective().is_root() {
        skipped("needs root");
        return;
    }
    let exit = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "faults::limited_files", "--test-threads=1"])
        .env(ROLE, "limited")
        .stdout(Stdio::null())
        .status()
        .unwrap();
    assert!(exit.success());
}

/// The child's side of the test above; an empty test when run as one.
#[test]
fn limited_files() {
    if std::env::var_os(ROLE).is_none_or(|role| role != "limited") {
        return;
    }
    let cpus = online();
    // The lowest free number is for the poll descriptor; the next one is beyond the limit.
    let free = std::fs::File::open("/dev/null").unwrap().as_raw_fd();
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(
        Resource::RLIMIT_NOFILE,
        u64::try_from(free).unwrap() + 1,
        hard,
    )
    .unwrap();
    let error = Faults::open(FaultOptions::new(cpus, Box::new(now))).unwrap_err();
    assert_eq!(error.refused, Refused::TooManyFiles);
    assert!(error.remedy().unwrap().contains("LimitNOFILE"));
}
