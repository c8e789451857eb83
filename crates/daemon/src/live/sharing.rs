//! Who shares which memory: the shared mappings of attached processes, and whether anybody else has
//! them.
//!
//! Both are read from `/proc/PID/maps`, which the kernel writes while it holds the process's memory
//! map, and which is long for some programs. So maps are read when a process has more or less
//! mapped than before, and now and then for what was put in the place of something as large. Each
//! look reads a bounded number of lines, and what it does not come to is read by a later one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use actuator::Seen;
use numad_core::{
    AttachmentId, OBJECTS_MAX, ObjectId, ObjectKind, ObservedMaps, ObservedSharing, SharedRange,
};
use procfs::{Mapping, Process, SharedKind, SharedMaps};
use topology::{Pid, StartTicks};

use super::maps::{Inodes, Maps, UNANSWERED};

/// Lines of maps of one program that a look reads, over time; one file may be longer, and then the
/// next ones wait. A line takes about half a microsecond, so this is a millisecond of a window of
/// 500.
const LINES_PER_LOOK: usize = 2_000;

/// Looks after which maps are read again though a process has as much mapped as before. One that
/// maps something else at the same place meanwhile is not moved wrongly: who moves shared memory
/// looks first whether it is there.
const UNCHANGED_LOOKS: u64 = 16;

/// What a file is taken to be long before it was read.
const LINES_UNREAD: usize = 100;

/// Processes of the machine that one look reads for mappings of objects that attached programs
/// share: some 3 ms. A machine with a thousand processes is looked through in 16 looks.
const SCANNED_PER_LOOK: usize = 64;

/// Looks between two rounds through all processes.
const REST_LOOKS: u32 = 16;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Sharing {
    programs: BTreeMap<AttachmentId, Program>,
    scan: Scan,
}

/// The processes of one program.
#[derive(Debug, Default)]
struct Program {
    read: BTreeMap<Pid, Known>,
    /// What any of them maps, counted as they are read. To go through all of them with each look
    /// would take long: 512 processes may share 512 objects.
    objects: BTreeMap<ObjectId, Mappers>,
    /// Numbers the looks.
    look: u64,
    /// Lines read beyond what was allowed.
    debt: usize,
}

/// A process as it is now.
#[derive(Clone, Copy, Debug)]
pub(super) struct Present {
    pub pid: Pid,
    pub start: StartTicks,
    /// As much as it has mapped.
    pub mapped_bytes: u64,
}

impl Present {
    pub(super) const fn of(process: &Process) -> Self {
        Self {
            pid: process.pid,
            start: process.start,
            mapped_bytes: process.mapped_bytes,
        }
    }
}

/// What was read of a process.
#[derive(Debug)]
struct Known {
    start: StartTicks,
    mapped_bytes: u64,
    lines: usize,
    look: u64,
    objects: BTreeMap<ObjectId, Use>,
}

/// How a process has an object.
#[derive(Clone, Copy, Debug, Default)]
struct Use {
    /// It may write it.
    writes: bool,
    /// An MPI library passes messages through it.
    carries: bool,
}

/// How many processes of a program have an object, and how.
#[derive(Debug, Default)]
struct Mappers {
    all: usize,
    writing: usize,
    carrying: usize,
}

/// One round after the other through all processes.
#[derive(Debug, Default)]
struct Scan {
    /// Still to be read in this round, the next at the end.
    queue: Vec<Pid>,
    /// Objects that this round looks for, and who has them.
    round: BTreeMap<ObjectId, BTreeSet<Pid>>,
    /// Where those objects show.
    inodes: Arc<Inodes>,
    /// What the last whole round found.
    found: BTreeMap<ObjectId, BTreeSet<Pid>>,
    /// A process could not be read in this round, and may have anything.
    blind: bool,
    rest: u32,
}

impl Sharing {
    /// What is to be told of a program with these processes.
    pub(super) fn of(
        &mut self,
        maps: &Maps,
        attachment: AttachmentId,
        present: &[Present],
    ) -> ObservedSharing {
        let program = self.programs.entry(attachment).or_default();
        let maps = program.read_some(maps, present);
        let members: BTreeSet<Pid> = present.iter().map(|process| process.pid).collect();
        let own = |object: &ObjectId| self.scan.is_among(*object, &members);
        // What a program may only read is somebody else's, whether he maps it now or not.
        let written = program.such(|mappers| mappers.writing > 0);
        ObservedSharing {
            maps,
            own: written.filter(own).collect(),
            carriers: program.such(|mappers| mappers.carrying > 0).collect(),
        }
    }

    /// Goes on looking through the machine, if any program shares memory that could be moved.
    pub(super) fn scan(&mut self, maps: &Maps) {
        let programs = self.programs.values();
        let objects = programs.flat_map(|program| program.such(|_| true));
        let memory = objects.filter(|object| object.kind != ObjectKind::File);
        self.scan.go_on(maps, memory.collect());
    }

    pub(super) fn forget(&mut self, attachment: AttachmentId) {
        self.programs.remove(&attachment);
    }
}

impl Program {
    /// Its objects that are such, ascending.
    fn such(&self, such: impl Fn(&Mappers) -> bool) -> impl Iterator<Item = ObjectId> {
        let objects = self.objects.iter();
        objects.filter_map(move |(&object, mappers)| such(mappers).then_some(object))
    }

    /// Knows this of a process from now on, or nothing, and not what was known before. Of objects
    /// as many as the engine keeps: each of a thousand processes may have thousands of its own.
    fn learn(&mut self, pid: Pid, known: Option<Known>) {
        let before = self.read.remove(&pid);
        for (object, how) in before.iter().flat_map(|before| &before.objects) {
            let Some(mappers) = self.objects.get_mut(object) else {
                continue;
            };
            mappers.all -= 1;
            mappers.writing -= usize::from(how.writes);
            mappers.carrying -= usize::from(how.carries);
            if mappers.all == 0 {
                self.objects.remove(object);
            }
        }
        let Some(mut known) = known else {
            return;
        };
        known.objects.retain(|&object, how| {
            let has_room = self.objects.len() < OBJECTS_MAX;
            if !has_room && !self.objects.contains_key(&object) {
                return false;
            }
            let mappers = self.objects.entry(object).or_default();
            mappers.all += 1;
            mappers.writing += usize::from(how.writes);
            mappers.carrying += usize::from(how.carries);
            true
        });
        self.read.insert(pid, known);
    }

    /// Reads maps that may have changed, those first that were not read for the longest time, as
    /// far as the budget goes.
    fn read_some(&mut self, reads: &Maps, present: &[Present]) -> Vec<ObservedMaps> {
        self.look += 1;
        let starts: BTreeMap<Pid, StartTicks> = present
            .iter()
            .map(|process| (process.pid, process.start))
            .collect();
        let is_over =
            |(pid, known): (&Pid, &Known)| (starts.get(pid) != Some(&known.start)).then_some(*pid);
        let over: Vec<Pid> = self.read.iter().filter_map(is_over).collect();
        over.into_iter().for_each(|pid| self.learn(pid, None));
        let mut due: Vec<(u64, Present)> = present
            .iter()
            .filter_map(|&process| match self.read.get(&process.pid) {
                Some(known) => self.is_due(known, process).then_some((known.look, process)),
                None => Some((0, process)),
            })
            .collect();
        due.sort_unstable_by_key(|(look, process)| (*look, process.pid));
        let mut left = LINES_PER_LOOK.checked_sub(self.debt);
        self.debt = self.debt.saturating_sub(LINES_PER_LOOK);
        let mut maps = Vec::new();
        for (_, process) in due {
            let pid = process.pid;
            let known = self.read.get(&pid);
            let expected = known.map_or(LINES_UNREAD, |known| known.lines);
            // A file longer than the budget is read when the budget is whole.
            let Some(whole) = left.filter(|&left| left >= expected || left == LINES_PER_LOOK)
            else {
                break;
            };
            let read = match reads.shared(pid) {
                Seen::Here(read) => read,
                // It has what it had, until it lets us look.
                Seen::Hidden(UNANSWERED) => continue,
                // One that is gone or closed to us shares nothing that could be known.
                Seen::Gone | Seen::Hidden(_) => SharedMaps::default(),
            };
            self.debt = read.lines.saturating_sub(whole);
            left = whole.checked_sub(read.lines);
            let ranges: Vec<(SharedRange, &Mapping)> = ranges(&read).collect();
            let known = Known::of(process, (self.look, read.lines), &ranges);
            self.learn(pid, Some(known));
            maps.push(ObservedMaps {
                pid,
                ranges: ranges.iter().map(|(range, _)| *range).collect(),
                foreign: read.foreign,
            });
        }
        maps
    }

    const fn is_due(&self, known: &Known, now: Present) -> bool {
        known.mapped_bytes != now.mapped_bytes || self.look - known.look >= UNCHANGED_LOOKS
    }
}

impl Known {
    fn of(
        process: Present,
        (look, lines): (u64, usize),
        ranges: &[(SharedRange, &Mapping)],
    ) -> Self {
        let mut objects: BTreeMap<ObjectId, Use> = BTreeMap::new();
        for (range, mapping) in ranges {
            let how = objects.entry(range.object).or_default();
            how.writes |= mapping.write;
            how.carries |= mapping.carries_messages();
        }
        Self {
            start: process.start,
            mapped_bytes: process.mapped_bytes,
            lines,
            look,
            objects,
        }
    }
}

impl Scan {
    /// Whether the last round found an object with nobody but these.
    fn is_among(&self, object: ObjectId, members: &BTreeSet<Pid>) -> bool {
        let found = self.found.get(&object);
        found.is_some_and(|mappers| mappers.is_subset(members))
    }

    fn go_on(&mut self, maps: &Maps, wanted: BTreeSet<ObjectId>) {
        if wanted.is_empty() {
            *self = Self::default();
            return;
        }
        if self.queue.is_empty() {
            self.rest = self.rest.saturating_sub(1);
            // Something new is worth a round at once.
            let news = wanted.iter().any(|object| !self.found.contains_key(object));
            if self.rest > 0 && !news {
                return;
            }
            self.queue = maps.pids();
            self.blind = self.queue.is_empty();
            self.inodes = Arc::new(maps.inodes(wanted.iter()));
            self.round = wanted
                .into_iter()
                .map(|object| (object, BTreeSet::new()))
                .collect();
        }
        for _ in 0..SCANNED_PER_LOOK {
            let Some(pid) = self.queue.pop() else {
                break;
            };
            self.read(maps, pid);
        }
        if self.queue.is_empty() {
            self.found = std::mem::take(&mut self.round);
            if self.blind {
                // Nothing is known, but it was tried: no new round before the rest is over.
                let anybody = BTreeSet::from([Pid(0)]);
                self.found
                    .values_mut()
                    .for_each(|mappers| mappers.extend(&anybody));
            }
            self.rest = REST_LOOKS;
        }
    }

    fn read(&mut self, maps: &Maps, pid: Pid) {
        let maps = match maps.shared_among(pid, &self.inodes) {
            Seen::Here(maps) => maps,
            Seen::Gone => return,
            Seen::Hidden(_) => {
                self.blind = true;
                return;
            }
        };
        for mapping in &maps.mappings {
            // Memory by whatever path it is mapped, and if only to be read.
            let memory = ObjectId {
                kind: ObjectKind::Memory,
                device: mapping.device,
                inode: mapping.inode,
            };
            let segment = object(&maps, mapping).filter(|it| it.kind == ObjectKind::SystemV);
            if let Some(mappers) = self.round.get_mut(&segment.unwrap_or(memory)) {
                mappers.insert(pid);
            }
        }
    }
}

/// What a process maps as the engine knows it, but for files that are only read.
pub(super) fn ranges(maps: &SharedMaps) -> impl Iterator<Item = (SharedRange, &Mapping)> {
    maps.mappings.iter().filter_map(|mapping| {
        let object = object(maps, mapping)?;
        let range = SharedRange {
            start: mapping.start,
            end: mapping.end,
            object,
            offset: mapping.offset,
        };
        (object.kind != ObjectKind::File || mapping.write).then_some((range, mapping))
    })
}

/// What is mapped, if it is something that is shared.
fn object(maps: &SharedMaps, mapping: &Mapping) -> Option<ObjectId> {
    let (kind, device) = match maps.kind(mapping)? {
        SharedKind::Memory => (ObjectKind::Memory, mapping.device),
        SharedKind::SystemV { namespace } => (ObjectKind::SystemV, (namespace, 0)),
        SharedKind::File => (ObjectKind::File, mapping.device),
    };
    Some(ObjectId {
        kind,
        device,
        inode: mapping.inode,
    })
}

#[cfg(test)]
mod tests {
    use procfs::Reader;

    use super::super::maps::asker;
    use super::*;
    use crate::scratch::Scratch;

    const SHARED: &str = "7f0000000000-7f0000010000 rw-s 00001000 00:01 2066  /memfd:a (deleted)\n";
    const ELSEWHERE: &str =
        "7e0000000000-7e0000010000 rw-s 00000000 00:01 2066  /memfd:a (deleted)\n";
    const PRIVATE: &str = "55b1d0f5c000-55b1d1057000 rw-p 00000000 00:00 0  [heap]\n";
    const FILES: &str = "7f0000000000-7f0000010000 rw-s 00000000 fe:01 5  /data\n\
                         7f0000020000-7f0000030000 r--s 00000000 fe:01 6  /names\n";

    struct Machine {
        scratch: Scratch,
        reads: Maps,
        sharing: Sharing,
        mapped_bytes: u64,
    }

    const ONE: AttachmentId = AttachmentId(1);

    impl Machine {
        fn new(name: &str) -> Self {
            let scratch = Scratch::new(name);
            let reader = Reader::new(scratch.path());
            Self {
                reads: Maps::new(reader.clone(), asker(&reader), vec![(0, 1)]),
                scratch,
                sharing: Sharing::default(),
                mapped_bytes: 0,
            }
        }

        fn maps(&self, pid: u32, text: &str) {
            self.file(pid, "maps", text);
        }

        fn file(&self, pid: u32, name: &str, text: &str) {
            let folder = self.scratch.path().join(format!("proc/{pid}"));
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join(name), text).unwrap();
        }

        /// Looks at processes that have more mapped each time.
        fn of(&mut self, pids: &[u32]) -> ObservedSharing {
            self.mapped_bytes += 4096;
            self.again(pids)
        }

        /// Looks at processes that have as much mapped as before.
        fn again(&mut self, pids: &[u32]) -> ObservedSharing {
            let present = |&pid: &u32| Present {
                pid: Pid(pid),
                start: StartTicks(1),
                mapped_bytes: self.mapped_bytes,
            };
            let present: Vec<Present> = pids.iter().map(present).collect();
            self.sharing.of(&self.reads, ONE, &present)
        }

        /// Looks at these processes until what is theirs alone is known, and gives it.
        fn own(&mut self, pids: &[u32]) -> usize {
            for _ in 0..REST_LOOKS * 2 {
                self.sharing.scan(&self.reads);
                self.of(pids);
            }
            self.of(pids).own.len()
        }
    }

    #[test]
    fn mappings_are_read_and_files_that_are_only_read_left_out() {
        let mut machine = Machine::new("sharing-maps");
        machine.maps(7, &format!("{PRIVATE}{SHARED}"));
        machine.maps(8, FILES);
        let seen = machine.of(&[7, 8, 9]);
        let counts: Vec<_> = seen
            .maps
            .iter()
            .map(|maps| (maps.pid.0, maps.ranges.len()))
            .collect();
        assert_eq!(counts, [(7, 1), (8, 1), (9, 0)]);
        let range = seen.maps[0].ranges[0];
        assert_eq!((range.start, range.offset), (0x7f00_0000_0000, 0x1000));
        assert_eq!(range.object.kind, ObjectKind::Memory);
        assert_eq!(seen.maps[1].ranges[0].object.kind, ObjectKind::File);
        machine.sharing.forget(ONE);
        assert!(machine.sharing.programs.is_empty());
    }

    /// What is counted is as if all that is known were gone through.
    #[track_caller]
    fn is_counted(machine: &Machine, all: usize) {
        let program = &machine.sharing.programs[&ONE];
        let known = || program.read.values().flat_map(|known| &known.objects);
        let objects: BTreeSet<ObjectId> = known().map(|(object, _)| *object).collect();
        assert_eq!(objects.len(), all);
        assert!(program.such(|_| true).eq(objects.iter().copied()));
        for object in objects {
            let uses: Vec<&Use> = known()
                .filter(|of| *of.0 == object)
                .map(|of| of.1)
                .collect();
            let count = |such: fn(&Use) -> bool| uses.iter().filter(|how| such(how)).count();
            let counted = [
                count(|_| true),
                count(|how| how.writes),
                count(|how| how.carries),
            ];
            let Mappers {
                all,
                writing,
                carrying,
            } = program.objects[&object];
            assert_eq!([all, writing, carrying], counted);
        }
    }

    #[test]
    fn what_processes_map_is_counted_as_they_come_change_and_go() {
        let mut machine = Machine::new("sharing-counts");
        let readers = SHARED.replace("rw-s", "r--s");
        let messages = SHARED.replace("/memfd:a", "/dev/shm/sm_segment.a.0.1.0");
        machine.maps(7, &format!("{SHARED}{readers}{FILES}"));
        machine.maps(8, &readers);
        machine.maps(9, &messages);
        machine.of(&[7, 8]);
        is_counted(&machine, 2);
        machine.of(&[7, 8, 9]);
        machine.maps(8, &ELSEWHERE.replace("2066", "2067"));
        machine.of(&[7, 8, 9]);
        is_counted(&machine, 3);
        machine.maps(7, PRIVATE);
        machine.of(&[7, 8, 9]);
        is_counted(&machine, 2);
        machine.of(&[9]);
        is_counted(&machine, 1);
        machine.of(&[]);
        is_counted(&machine, 0);
    }

    #[test]
    fn of_very_many_objects_as_many_are_known_as_the_engine_keeps() {
        let mut machine = Machine::new("sharing-many");
        for pid in [7, 8, 9] {
            let each = (0..500).map(|number| SHARED.replace("2066", &format!("{pid}{number:03}")));
            machine.maps(pid, &each.collect::<String>());
        }
        (0..3).for_each(|_| drop(machine.of(&[7, 8, 9])));
        is_counted(&machine, OBJECTS_MAX);
        // Who goes makes room.
        machine.of(&[9]);
        machine.of(&[9]);
        is_counted(&machine, 500);
    }

    #[test]
    fn maps_are_read_when_they_change_and_now_and_then() {
        let mut machine = Machine::new("sharing-unchanged");
        machine.maps(7, SHARED);
        assert_eq!(machine.of(&[7]).maps.len(), 1);
        let read = |seen: &ObservedSharing| !seen.maps.is_empty();
        let again = (0..2 * UNCHANGED_LOOKS).filter(|_| read(&machine.again(&[7])));
        assert_eq!(again.count(), 2);
        assert_eq!(machine.of(&[7]).maps.len(), 1, "it has more mapped");
        assert_eq!(machine.again(&[7, 8]).maps[0].pid, Pid(8), "it is new");
    }

    #[test]
    fn memory_is_the_program_s_own_while_nobody_else_maps_it() {
        let mut machine = Machine::new("sharing-own");
        machine.maps(7, SHARED);
        machine.maps(8, ELSEWHERE);
        (100..300).for_each(|pid| machine.maps(pid, PRIVATE));
        assert_eq!(machine.of(&[7, 8]).own, [], "nobody looked yet");
        assert_eq!(machine.own(&[7, 8]), 1);
        assert_eq!(machine.own(&[7]), 0, "8 is a stranger then");
        machine.maps(250, ELSEWHERE);
        assert_eq!(machine.own(&[7, 8]), 0);
        machine.maps(250, PRIVATE);
        assert_eq!(machine.own(&[7, 8]), 1);
        // A process that cannot be read may have anything.
        machine.maps(251, "1-2 rwxs damaged\n");
        assert_eq!(machine.own(&[7, 8]), 0);
    }

    #[test]
    fn memory_is_somebody_else_s_if_he_has_it_by_whatever_path() {
        let mut machine = Machine::new("sharing-paths");
        let mounts = "1 1 0:25 / / rw - tmpfs none rw\n";
        machine.file(7, "mountinfo", mounts);
        machine.maps(7, "1000-2000 rw-s 00000000 00:19 5  /dev/shm/x\n");
        assert_eq!(machine.own(&[7]), 1);
        // He is in other namespaces, may only read it, and tells nothing of his mounts.
        for path in ["/run/x", "/dev/x"] {
            machine.maps(8, &format!("1000-2000 r--s 00000000 00:19 5  {path}\n"));
            assert_eq!(machine.own(&[7]), 0);
            machine.maps(8, PRIVATE);
            assert_eq!(machine.own(&[7]), 1);
        }
    }

    #[test]
    fn who_maps_much_hides_nothing() {
        let mut machine = Machine::new("sharing-much");
        machine.maps(7, SHARED);
        let others = SHARED.replace("2066", "2067").repeat(5_000);
        machine.maps(8, &others);
        assert_eq!(machine.own(&[7]), 1);
        machine.maps(8, &(others + ELSEWHERE));
        assert_eq!(machine.own(&[7]), 0);
    }

    #[test]
    fn what_a_program_may_only_read_is_not_its_own() {
        let mut machine = Machine::new("sharing-readers");
        let readers = SHARED.replace("rw-s", "r--s");
        machine.maps(7, &readers);
        machine.maps(8, &readers);
        assert_eq!(machine.own(&[7, 8]), 0);
        machine.maps(8, SHARED);
        assert_eq!(machine.own(&[7, 8]), 1);
    }

    #[test]
    fn segments_of_two_namespaces_are_two_though_they_have_one_number() {
        let mut machine = Machine::new("sharing-namespaces");
        for (pid, namespace) in [(7, 1), (8, 1), (9, 2)] {
            let folder = machine.scratch.path().join(format!("proc/{pid}/ns"));
            std::fs::create_dir_all(&folder).unwrap();
            let link = format!("ipc:[{namespace}]");
            std::os::unix::fs::symlink(link, folder.join("ipc")).unwrap();
            machine.maps(pid, &SHARED.replace("/memfd:a", "/SYSV0"));
        }
        let seen = machine.of(&[7, 8, 9]);
        let objects: Vec<ObjectId> = seen.maps.iter().map(|maps| maps.ranges[0].object).collect();
        assert_eq!(objects[0].kind, ObjectKind::SystemV);
        assert!(objects[0] == objects[1] && objects[0] != objects[2]);
        assert_eq!(machine.own(&[7, 8]), 1, "9 has another one");
    }

    #[test]
    fn memory_of_messages_is_told() {
        let mut machine = Machine::new("sharing-carriers");
        machine.maps(
            7,
            &SHARED.replace("/memfd:a", "/dev/shm/vader_segment.a.0.1.0"),
        );
        machine.maps(8, &ELSEWHERE.replace("2066", "2067"));
        let seen = machine.of(&[7, 8]);
        assert_eq!(seen.carriers, [seen.maps[0].ranges[0].object]);
        assert_eq!(machine.of(&[8]).carriers, [], "7 is gone");
    }

    #[test]
    fn who_never_shows_its_maps_keeps_nobody_waiting() {
        let mut machine = Machine::new("sharing-hanging");
        machine.maps(7, SHARED);
        machine.maps(8, ELSEWHERE);
        assert_eq!(machine.own(&[7, 8]), 1);
        // Nobody ever writes to it: to open it takes for ever.
        let folder = machine.scratch.path().join("proc/9");
        std::fs::create_dir_all(&folder).unwrap();
        nix::unistd::mkfifo(&folder.join("maps"), nix::sys::stat::Mode::S_IRUSR).unwrap();
        let began = std::time::Instant::now();
        for _ in 0..10 {
            let seen = machine.of(&[7, 8, 9]);
            let pids: Vec<u32> = seen.maps.iter().map(|maps| maps.pid.0).collect();
            assert_eq!(pids, [7, 8]);
        }
        assert!(began.elapsed() < std::time::Duration::from_secs(2));
        // It may have anything.
        assert_eq!(machine.own(&[7, 8]), 0);
    }

    #[test]
    fn files_need_no_round_through_the_machine() {
        let mut machine = Machine::new("sharing-files");
        machine.maps(7, FILES);
        assert_eq!(machine.own(&[7]), 0);
        assert!(machine.sharing.scan.found.is_empty());
    }

    #[test]
    fn long_files_are_read_seldom_and_all_in_turn() {
        let mut machine = Machine::new("sharing-budget");
        let long = PRIVATE.repeat(LINES_PER_LOOK * 3) + SHARED;
        machine.maps(7, &long);
        (10..60).for_each(|pid| machine.maps(pid, &PRIVATE.repeat(90)));
        let pids: Vec<u32> = [7].into_iter().chain(10..60).collect();
        let mut read: BTreeMap<u32, usize> = BTreeMap::new();
        let mut lines = 0;
        const LOOKS: usize = 60;
        for _ in 0..LOOKS {
            for maps in machine.of(&pids).maps {
                let known = &machine.sharing.programs[&ONE].read[&maps.pid];
                lines += known.lines;
                *read.entry(maps.pid.0).or_default() += 1;
            }
        }
        assert!(lines <= LINES_PER_LOOK * (LOOKS + 3), "{lines}");
        assert_eq!(read.len(), pids.len());
        let (least, most) = (read.values().min().unwrap(), read.values().max().unwrap());
        assert!(most - least <= 1, "{read:?}");
    }
}
