use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use super::*;

#[derive(Clone, Debug, Default)]
struct FakeProcesses {
    alive: Arc<Mutex<BTreeMap<Pid, u64>>>,
    forbidden: BTreeSet<Pid>,
    hanging: BTreeSet<Pid>,
    cleared: Arc<Mutex<Vec<Pid>>>,
}

impl FakeProcesses {
    fn errno(&self, pid: Pid) -> io::Result<u64> {
        if self.forbidden.contains(&pid) {
            return Err(io::Error::from_raw_os_error(libc::EACCES));
        }
        let alive = self.alive.lock().unwrap();
        alive
            .get(&pid)
            .copied()
            .ok_or_else(|| io::Error::from_raw_os_error(libc::ESRCH))
    }
}

impl Clear for FakeProcesses {
    fn watch(&mut self, pid: Pid) -> io::Result<()> {
        self.errno(pid).map(drop)
    }

    fn forget(&mut self, _pid: Pid) {}

    fn resident_pages(&mut self, pid: Pid) -> Option<u64> {
        self.alive.lock().unwrap().get(&pid).copied()
    }

    fn clear(&mut self, pid: Pid) -> io::Result<Duration> {
        let pages = self.errno(pid)?;
        if self.hanging.contains(&pid) {
            return Err(io::Error::from_raw_os_error(libc::ETIMEDOUT));
        }
        self.cleared.lock().unwrap().push(pid);
        Ok(Duration::from_nanos(20 * pages))
    }
}

const fn seconds(seconds: u64) -> Time {
    Time(seconds * 1_000_000_000)
}

#[test]
fn what_provokes_is_chosen_from_what_there_is() {
    use ProvokeMode::{Auto, Off, SoftDirty};
    for (mode, soft_dirty, balancing, expected) in [
        (Auto, true, Some(0), Provocation::SoftDirty),
        (Auto, true, Some(1), Provocation::SoftDirty),
        (Auto, false, Some(1), Provocation::KernelHintFaults),
        (Auto, false, Some(0), Provocation::NaturalFaults),
        (Auto, false, None, Provocation::NaturalFaults),
        (SoftDirty, false, Some(2), Provocation::KernelHintFaults),
        (Off, true, Some(0), Provocation::NaturalFaults),
        (Off, true, Some(1), Provocation::KernelHintFaults),
    ] {
        assert_eq!(
            Provocation::choose(mode, soft_dirty, balancing),
            expected,
            "{mode:?} {soft_dirty} {balancing:?}"
        );
    }
}

/// The kernel's own configuration, where it shows it, must agree with the probe.
#[test]
fn the_probe_agrees_with_the_kernels_configuration() {
    let found = soft_dirty_supported(Path::new("/")).unwrap();
    assert_eq!(found, soft_dirty_supported(Path::new("/")).unwrap());
    let config = std::process::Command::new("zcat")
        .arg("/proc/config.gz")
        .output();
    match config {
        Ok(output) if output.status.success() => {
            let text = String::from_utf8_lossy(&output.stdout);
            assert_eq!(found, text.contains("\nCONFIG_MEM_SOFT_DIRTY=y"));
        }
        _ => crate::skipped("the kernel does not show its configuration"),
    }
}

#[test]
fn a_root_without_pagemap_is_an_error() {
    let error = soft_dirty_supported(Path::new("/nowhere")).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::NotFound);
}

#[test]
fn processes_take_turns_until_they_are_gone() {
    let fake = FakeProcesses::default();
    let (alive, cleared) = (fake.alive.clone(), fake.cleared.clone());
    alive.lock().unwrap().extend([(Pid(7), 100), (Pid(8), 100)]);
    let mut provoker = Provoker::new(ClearOptions::default(), Box::new(fake));
    provoker.add(seconds(0), Pid(7));
    provoker.add(seconds(0), Pid(8));
    provoker.add(seconds(0), Pid(9));
    assert_eq!(provoker.poll(seconds(0), &mut |_| {}), Some(seconds(1)));
    provoker.poll(seconds(1), &mut |_| {});
    assert_eq!(*cleared.lock().unwrap(), [Pid(7)], "one at a time");
    alive.lock().unwrap().remove(&Pid(8));
    provoker.poll(seconds(2), &mut |_| {});
    provoker.poll(seconds(2), &mut |_| {});
    assert_eq!(*cleared.lock().unwrap(), [Pid(7), Pid(7)]);
    provoker.remove(Pid(7));
    assert_eq!(
        provoker.poll(seconds(9), &mut |_| {}),
        None,
        "nobody is left"
    );
    assert_eq!(provoker.notes(), Vec::<String>::new());
}

#[test]
fn who_waits_for_room_has_turns_when_others_have_left() {
    let fake = FakeProcesses::default();
    let (alive, cleared) = (fake.alive.clone(), fake.cleared.clone());
    let last = u32::try_from(crate::law::PROCESSES_MAX).unwrap() + 3;
    let mut provoker = Provoker::new(ClearOptions::default(), Box::new(fake));
    for pid in (1..=last).map(Pid) {
        alive.lock().unwrap().insert(pid, 100);
        provoker.add(seconds(0), pid);
    }
    let notes = |provoker: &Provoker| provoker.notes().join(" ");
    let said = notes(&provoker);
    assert!(
        said.contains("3 processes are not provoked: at most 256"),
        "{said}"
    );
    // One that waits ends, and all but one that have turns.
    for pid in (2..last).map(Pid) {
        alive.lock().unwrap().remove(&pid);
        provoker.remove(pid);
    }
    let mut at = seconds(1);
    for _ in 0..4 {
        at = provoker.poll(at, &mut |_| {}).unwrap();
    }
    assert!(cleared.lock().unwrap().contains(&Pid(last)));
    assert_eq!(notes(&provoker), "");
}

#[test]
fn who_was_given_up_keeps_its_turns_and_delays_nobody() {
    let fake = FakeProcesses {
        hanging: [Pid(7)].into(),
        ..FakeProcesses::default()
    };
    let cleared = fake.cleared.clone();
    fake.alive
        .lock()
        .unwrap()
        .extend([(Pid(7), 100), (Pid(8), 100)]);
    let mut provoker = Provoker::new(ClearOptions::default(), Box::new(fake));
    provoker.add(seconds(0), Pid(7));
    provoker.add(seconds(0), Pid(8));
    for second in 1..6 {
        provoker.poll(seconds(second), &mut |_| {});
        provoker.poll(seconds(second), &mut |_| {});
    }
    assert_eq!(*cleared.lock().unwrap(), [Pid(8); 5]);
    let notes = provoker.notes();
    assert!(notes[0].contains("1 process is not provoked"), "{notes:?}");
}

#[test]
fn a_clear_that_is_not_done_in_time_is_given_up() {
    let own = Pid(std::process::id());
    let mut live = LiveClear::new(
        Path::new("/"),
        Box::new(|| Time(0)),
        Arc::new(|_, _never_done| {}),
    );
    if let Err(error) = live.watch(own) {
        return crate::skipped(&format!("cannot open our own clear_refs: {error}"));
    }
    let error = live.clear(own).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::ETIMEDOUT));
}

#[test]
fn who_cannot_be_cleared_is_told() {
    let fake = FakeProcesses {
        forbidden: [Pid(7)].into(),
        ..FakeProcesses::default()
    };
    fake.alive.lock().unwrap().insert(Pid(8), 10_000_000);
    let mut provoker = Provoker::new(ClearOptions::default(), Box::new(fake));
    provoker.add(seconds(0), Pid(7));
    provoker.add(seconds(0), Pid(8));
    provoker.poll(seconds(1), &mut |_| {});
    let notes = provoker.notes();
    assert!(
        notes[0].starts_with("1 process is not provoked because"),
        "{notes:?}"
    );
    assert!(notes[1].contains("Permission denied") && notes[1].contains("CAP_DAC_OVERRIDE"));
}

/// Our own process: the write is taken, is timed with the clock that was given, and the process lives.
#[test]
fn clearing_ourselves_is_harmless() {
    let ticks = std::sync::atomic::AtomicU64::new(0);
    let clock = move || Time(ticks.fetch_add(250, std::sync::atomic::Ordering::Relaxed));
    let mut live = LiveClear::new(Path::new("/"), Box::new(clock), unbounded());
    let own = Pid(std::process::id());
    let memory = vec![7u8; 1 << 20];
    if let Err(error) = live.watch(own) {
        crate::skipped(&format!("cannot open our own clear_refs: {error}"));
        return;
    }
    assert!(live.resident_pages(own).unwrap() > 100);
    assert_eq!(live.clear(own).unwrap(), Duration::from_nanos(250));
    assert!(memory.iter().all(|byte| *byte == 7));
    live.forget(own);
    assert!(is_gone(&live.clear(own).unwrap_err()));
    assert_eq!(live.resident_pages(Pid(u32::MAX)), None);
}
