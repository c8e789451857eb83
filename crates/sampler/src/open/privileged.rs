//! Software events of the running kernel, opened with the very attributes of the sources on hardware:
//! they deliver records of the same shape, so the whole way from the system call to a sample is run.

use nix::time::{ClockId, clock_gettime};
use nix::unistd::Uid;
use numad_core::{Record, Sample, Time};
use topology::Pid;

use super::*;
use crate::live::{Counted, Live};
use crate::memory::{Belief, MemoryOptions};
use crate::rate::{RateLaw, RateOptions};

/// Minor page faults, of the kind software.
const SOFTWARE_MINOR_FAULTS: u64 = 5;

const RATES: RateOptions = RateOptions {
    start: 1,
    least: 1,
    most: 1 << 20,
    step: 1,
    fixed: true,
    target_ns: 0,
};

fn online() -> CpuSet {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap();
    CpuSet::parse_list(&text).unwrap()
}

fn event(config: u64, kind: AccessKind, changed: impl Fn(EventAttr) -> EventAttr) -> Wanted {
    let attr = MemoryOptions::new(CpuSet::new()).attr();
    Wanted {
        attr: changed(EventAttr {
            kind: attr::KIND_SOFTWARE,
            config: [config, 0, 0, 0],
            flags: attr.flags | attr::FLAG_EXCLUDE_KERNEL | attr::FLAG_EXCLUDE_GUEST,
            ..attr
        }),
        leader: None,
        cpus: None,
        kind,
        times: 1,
        low_bit: 0,
    }
}

/// Opens the events, runs a program, and gives the samples of its faults. A process's own memory is
/// not sure to be fresh; a new program's is. It stays on one processor: what one fault tells two events is in
/// one ring then. Now and then the first sample has the number of neither event; then it is tried again.
fn sampled(belief: Belief, wanted: &[Wanted]) -> (Vec<Sample>, Live<Belief>) {
    let mut tries = (0..50).map(|_| sampled_once(belief, wanted.to_vec()));
    let whole = |(samples, _): &(Vec<Sample>, Live<Belief>)| {
        let seen = |event: &Wanted| samples.iter().filter(|it| it.kind == event.kind).count();
        let all: usize = wanted.iter().map(seen).sum();
        belief != Belief::Full
            || (all == samples.len() && wanted.iter().all(|event| seen(event) >= 20))
    };
    tries.find(whole).expect("a program that is seen")
}

fn sampled_once(belief: Belief, mut wanted: Vec<Wanted>) -> (Vec<Sample>, Live<Belief>) {
    wanted[0].attr.flags |= attr::FLAG_TASKS | attr::FLAG_NAMES;
    // Rings are shared by all programs of a processor, and a busy machine has many.
    let plan = Plan::new("faults", wanted, 4096, KernelSettings::default());
    let kernel = Box::new(LiveKernel);
    let law = RateLaw::new(RATES);
    let mut live = Live::open(belief, plan, Counted::ByHardware, (kernel, law), &online()).unwrap();
    live.attach(Pid(std::process::id())).unwrap();
    live.drain(&mut |_| {});
    let mut one = nix::sched::CpuSet::new();
    one.set(online().iter().next().unwrap().0 as usize).unwrap();
    nix::sched::sched_setaffinity(nix::unistd::Pid::from_raw(0), &one).unwrap();
    let mut child = std::process::Command::new("true").spawn().unwrap();
    child.wait().unwrap();
    let pid = Pid(child.id());
    let mut samples = Vec::new();
    live.drain(&mut |record| match record {
        Record::Sample(sample) if sample.pid == pid => samples.push(*sample),
        _ => {}
    });
    (samples, live)
}

#[test]
fn privileged_software_events_go_the_way_of_pebs() {
    if !Uid::effective().is_root() {
        crate::skipped("needs root");
        return;
    }
    let before = now();
    let events = vec![
        event(attr::SOFTWARE_PAGE_FAULTS, AccessKind::Load, |attr| attr),
        event(SOFTWARE_MINOR_FAULTS, AccessKind::Store, |attr| attr),
    ];
    let (samples, live) = sampled(Belief::Full, &events);
    // Each fault is seen by both events, which share a ring and are told apart.
    let of = |kind| {
        samples
            .iter()
            .filter(move |sample| sample.kind == kind)
            .collect::<Vec<_>>()
    };
    let (first, second) = (of(AccessKind::Load), of(AccessKind::Store));
    assert!(
        first.len() >= 20,
        "{} faults of a program, {:?}",
        first.len(),
        live.losses()
    );
    assert_eq!(samples.len(), first.len() + second.len());
    // A fault that needs the disk is no minor one.
    assert!(second.len() >= 20 && second.len() <= first.len());
    let first: Vec<_> = if first.len() == second.len() {
        first
    } else {
        second.clone()
    };
    for (one, other) in first.iter().zip(&second) {
        assert_eq!(
            (one.address, one.tid, one.cpu),
            (other.address, other.tid, other.cpu)
        );
        assert!((before..=now()).contains(&one.time.0), "the daemon's clock");
        assert_eq!((one.period, one.weight), (1, 0));
    }
    assert_eq!(live.losses(), crate::Losses::default());
    assert!(!live.plan().physical_denied());
}

/// As IBS is asked for where the kernel cannot leave itself out. Faults have no data source, so all
/// are told to be no accesses; with one that has, checks would pass.
#[test]
fn privileged_software_events_go_the_way_of_ibs() {
    if !Uid::effective().is_root() {
        crate::skipped("needs root");
        return;
    }
    let with_ip = |attr: EventAttr| {
        EventAttr {
            flags: attr.flags & !(attr::FLAG_EXCLUDE_KERNEL | attr::FLAG_EXCLUDE_GUEST),
            ..attr
        }
        .with(Field::Ip, true)
    };
    let event = || {
        vec![event(
            attr::SOFTWARE_PAGE_FAULTS,
            AccessKind::Unknown,
            with_ip,
        )]
    };
    let (samples, live) = sampled(Belief::Checked, &event());
    assert_eq!(samples, []);
    // The same records, read by a source that does not doubt them.
    drop(live);
    let (samples, _live) = sampled(Belief::Full, &event());
    assert!(samples.len() >= 20, "{}", samples.len());
    assert!(
        samples
            .iter()
            .all(|sample| sample.kind == AccessKind::Unknown)
    );
}

/// The period of events that are open is changed, and counts read.
#[test]
fn privileged_open_events_follow_a_new_period() {
    if !Uid::effective().is_root() {
        crate::skipped("needs root");
        return;
    }
    let wanted = vec![event(
        attr::SOFTWARE_PAGE_FAULTS,
        AccessKind::Load,
        |attr| attr,
    )];
    let mut plan = Plan::new("faults", wanted, 1, KernelSettings::default());
    let events = plan.open(&mut LiveKernel, CpuId(0), 1).unwrap().unwrap();
    events.enable(&LiveKernel).unwrap();
    plan.set_period(50);
    events.follow(&LiveKernel, &plan).unwrap();
    let counts = events.members[0].counts(&LiveKernel).unwrap();
    assert_eq!((counts.lost, events.ring_pages), (Some(0), 1));
    assert!(counts.enabled_ns > 0 && counts.enabled_ns == counts.running_ns && counts.id > 0);
    events.disable(&LiveKernel).unwrap();
    let stopped = events.members[0].counts(&LiveKernel).unwrap().enabled_ns;
    assert_eq!(
        events.members[0].counts(&LiveKernel).unwrap().enabled_ns,
        stopped
    );
}

fn now() -> u64 {
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC).unwrap();
    Time(time.tv_sec().cast_unsigned() * 1_000_000_000 + time.tv_nsec().cast_unsigned()).0
}
