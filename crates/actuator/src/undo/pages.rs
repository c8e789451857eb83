//! Puts pages back where they were before we first moved them.
//!
//! Shared memory is found again through whichever processes map it now, each page through one that
//! has it in its page table: those that it was moved through may have ended.
//!
//! Two rows of the journal may be one page: addresses of a huge page, which moves as a whole with
//! any of them; the same address of several processes, which children of one process share until
//! one of them writes; and a place in shared memory that was moved as one process's own before it
//! was seen to be shared. Each is recorded when it is moved first, and one that came along with
//! another before was somewhere else in the beginning than its own row says. What is one page the
//! kernel tells nobody who has no more rights than we have. But of rows that are one page and say
//! different homes, at most one stays where it was sent. So each is sent home; where one went and
//! is not there afterwards, it and what it may be one page with (see [`Spot`]) are sent home again,
//! the last row first: whatever is one page ends where the first row says.
//!
//! What others have as well goes only where that is the program's doing. A program may have mapped
//! anything at an address since: a file that everybody uses, or memory of strangers.
//!
//! Millions of pages are put back part by part, for each takes a hundred bytes on its way. Rows
//! that may be one page are of one part: shared memory by where pages are in it, private memory by
//! address.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use numad_core::{ObjectId, PageOutcome, Reach, Refusal, SharedRange};
use topology::{NodeId, Pid, StartTicks};

use super::{Breathe, Scope, UndoReport, number};
use crate::census::{Census, Seen};
use crate::journal::Home;
use crate::journal::rows::{Owner, ProcessKey};
use crate::kernel::Kernel;
use crate::live::{Live, Mapped};
use crate::moves::Batch;
use crate::refusal;
use crate::residency::{PageStatus, residency};

/// Where memory is, whoever has it: the same for all rows that may be one page. A place in shared
/// memory, or an address.
type Spot = (Option<ObjectId>, u64);

/// Shared memory in which processes have rows of their own.
#[derive(Debug, Default)]
struct Aliases {
    of: BTreeMap<Pid, Vec<SharedRange>>,
    /// What of it is not the program's alone, as far as is known.
    strange: BTreeSet<ObjectId>,
}

/// A row of the journal on its way home.
#[derive(Clone, Copy, Debug)]
struct Page {
    owner: Owner,
    /// What the journal calls it.
    name: u64,
    /// A process that has it, when that began, and where.
    pid: Pid,
    start: StartTicks,
    address: u64,
    spot: Spot,
    home: Home,
    place: PageStatus,
    /// Why it did not go when it was sent the last time.
    refused: Option<Refusal>,
    /// Whom its moves may concern.
    reach: Reach,
    lies: Lies,
}

/// In what a page lies by now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lies {
    /// Where the program has it from us, as far as is known.
    Here,
    /// What its process shares could not be looked at.
    Unseen,
    /// In shared memory that strangers map, and that no row says we moved as such.
    WithStrangers,
    /// In a file that was mapped there since: what was moved is gone.
    InFile,
}

impl Page {
    const fn new(
        (owner, name, home): (Owner, u64, Home),
        (pid, start): (Pid, StartTicks),
        (address, spot): (u64, Spot),
    ) -> Self {
        Self {
            owner,
            name,
            pid,
            start,
            address,
            spot,
            home,
            place: PageStatus::Absent,
            refused: None,
            reach: Reach::Alone,
            lies: Lies::Here,
        }
    }

    fn is_there(&self) -> bool {
        self.place != PageStatus::Absent && self.lies != Lies::InFile
    }

    fn is_elsewhere(&self) -> bool {
        self.is_there() && self.place != PageStatus::On(self.home.node)
    }

    /// Whether it went home and was taken away again, by us or by chance.
    fn was_taken(&self) -> bool {
        self.refused.is_none() && self.is_elsewhere()
    }
}

/// Pages that are put back together.
#[derive(Debug)]
struct Part {
    /// Private memory from one address to before another.
    addresses: (u64, u64),
    /// Shared memory, each from one place in it to before another.
    shared: Vec<(ObjectId, (u64, u64))>,
}

const EVERYWHERE: (u64, u64) = (0, u64::MAX);
const NOWHERE: (u64, u64) = (0, 0);

/// A process, whether its pages go together with all who map them, and the node where they go.
type Group = (Pid, StartTicks, bool, NodeId);

/// Pages that could not be put back, by process and reason.
type Kept = BTreeMap<(Pid, Refusal), usize>;

impl<K: Kernel, C: Census> Live<K, C> {
    /// Puts back the pages of these processes and what they share, and forgets all that are back or
    /// gone.
    pub(super) fn undo_pages(
        &mut self,
        scope: &Scope,
        recorded: &BTreeSet<ProcessKey>,
        report: &mut UndoReport,
        breathe: Breathe<'_>,
    ) {
        let living = self.living(recorded, report);
        let aliases = self.aliases(&living, (scope, recorded));
        let shared = self.mapped_objects(scope, recorded, &aliases, report);
        let mut kept = Kept::new();
        for part in self.parts(&living, &shared) {
            let mut pages = self.own_pages(&living, &aliases, &part);
            for (object, places) in part.shared {
                let mappings = &shared[&object];
                pages.append(&mut self.shared_pages((object, places), mappings, report, breathe));
            }
            self.take_home(&mut pages, breathe);
            self.conclude(&pages, report, &mut kept);
        }
        for ((pid, refusal), count) in kept {
            let remedy = refusal::remedy(refusal);
            report.fail(format!(
                "{count} pages of process `{pid}` are not back: {refusal}{remedy}"
            ));
        }
    }

    /// What is put back together: all, if that is not much.
    fn parts(&self, living: &[ProcessKey], shared: &BTreeMap<ObjectId, Vec<Mapped>>) -> Vec<Part> {
        let records = self.journal.records();
        let owners = living.iter().map(|process| owner_of(*process));
        let owners: Vec<Owner> = owners
            .chain(shared.keys().copied().map(Owner::Object))
            .collect();
        let count: usize = owners.iter().map(|&owner| records.pages_of(owner)).sum();
        if count <= self.at_once {
            return vec![Part {
                addresses: EVERYWHERE,
                shared: shared.keys().map(|&object| (object, EVERYWHERE)).collect(),
            }];
        }
        let mut blocks: BTreeSet<Spot> = BTreeSet::new();
        for owner in owners {
            let object = match owner {
                Owner::Object(object) => Some(object),
                Owner::Process(..) => None,
            };
            for run in records.runs_of(owner) {
                let (first, last) = (run.first >> PART_BITS, run.last() >> PART_BITS);
                blocks.extend((first..=last).map(|block| (object, block)));
            }
        }
        for (&object, mappings) in shared {
            for mapped in mappings {
                let owner = owner_of(mapped.process());
                let (start, end) = (mapped.range.start, mapped.range.end);
                let rows = records.homes_within(owner, (start, end));
                let offsets = rows.filter_map(|(address, _)| mapped.range.offset_of(address));
                blocks.extend(offsets.map(|offset| (Some(object), offset >> PART_BITS)));
            }
        }
        let part = |(object, block): Spot| {
            let places = (block << PART_BITS, (block + 1) << PART_BITS);
            match object {
                Some(object) => Part {
                    addresses: NOWHERE,
                    shared: vec![(object, places)],
                },
                None => Part {
                    addresses: places,
                    shared: Vec::new(),
                },
            }
        };
        blocks.into_iter().map(part).collect()
    }

    /// Moves pages home, as many times as helps.
    fn take_home(&mut self, pages: &mut [Page], breathe: Breathe<'_>) {
        self.look(pages, breathe);
        for _ in 0..ROUNDS_MAX {
            let elsewhere = (0..pages.len()).filter(|&index| {
                let page = &pages[index];
                page.is_elsewhere() && page.refused != Some(Refusal::NoMemory)
            });
            let elsewhere: Vec<usize> = elsewhere.collect();
            if elsewhere.is_empty() {
                break;
            }
            self.send_home(pages, &elsewhere, breathe);
            self.look(pages, breathe);
            // What a program copied meanwhile goes where it is sent the next time. What is one page
            // with another goes too, and takes that along.
            let taken = (0..pages.len()).filter(|&index| pages[index].was_taken());
            let taken: Vec<usize> = taken.collect();
            if taken.is_empty() {
                continue;
            }
            self.send_home(pages, &taken, breathe);
            self.look(pages, breathe);
            // First what processes share, which takes as many steps as there are processes; then
            // what may be huge.
            for bits in [0, HUGE_BITS] {
                self.play_back(pages, bits, breathe);
            }
        }
    }

    /// Processes that live and have rows of pages; forgets those of others.
    fn living(
        &mut self,
        recorded: &BTreeSet<ProcessKey>,
        report: &mut UndoReport,
    ) -> Vec<ProcessKey> {
        let mut living = Vec::new();
        for &process in recorded {
            let owner = owner_of(process);
            let count = self.journal.records().pages_of(owner);
            if count == 0 {
                continue;
            }
            match self.census.process(process.pid) {
                Seen::Here(now) if now == process.start => living.push(process),
                Seen::Hidden(errno) => {
                    let refusal = Refusal::Hidden(errno);
                    let (pid, remedy) = (process.pid, refusal::remedy(refusal));
                    report.fail(format!(
                        "{count} pages of process `{pid}` are not back: it {refusal}{remedy}"
                    ));
                }
                Seen::Here(_) | Seen::Gone => {
                    let gone = self.journal.records_mut().forget_owner(owner);
                    report.pages_gone += number(gone);
                }
            }
        }
        living
    }

    /// Shared memory in which these processes have rows of their own, of before it was seen to be
    /// shared.
    fn aliases(
        &self,
        living: &[ProcessKey],
        (scope, recorded): (&Scope, &BTreeSet<ProcessKey>),
    ) -> Aliases {
        let mut of = BTreeMap::new();
        for &process in living {
            let Seen::Here(mut ranges) = self.census.shared(process.pid) else {
                continue;
            };
            let records = self.journal.records();
            ranges.retain(|range| {
                let mut rows = records.homes_within(owner_of(process), (range.start, range.end));
                rows.next().is_some()
            });
            of.insert(process.pid, ranges);
        }
        let objects: BTreeSet<ObjectId> = of.values().flatten().map(|range| range.object).collect();
        let unmoved = |object: &ObjectId| {
            let owner = Owner::Object(*object);
            self.journal.records().pages_of(owner) == 0
        };
        let objects: Vec<ObjectId> = objects.into_iter().filter(unmoved).collect();
        let strange = self.strange(objects, (scope, recorded));
        Aliases { of, strange }
    }

    /// Those of these objects that somebody maps who is not undone, or may map.
    fn strange(
        &self,
        mut objects: Vec<ObjectId>,
        (scope, recorded): (&Scope, &BTreeSet<ProcessKey>),
    ) -> BTreeSet<ObjectId> {
        if objects.is_empty() {
            return BTreeSet::new();
        }
        let own = self.family(scope, recorded).unwrap_or_else(|known| known);
        let (mappings, all) = self.mappings(None, &objects);
        let is_own = |mapped: &Mapped| own.contains(&mapped.pid);
        objects.retain(|object| !(all && mappings[object].iter().all(is_own)));
        objects.into_iter().collect()
    }

    /// Rows of these processes that are of a part, process by process.
    fn own_pages(&self, living: &[ProcessKey], aliases: &Aliases, part: &Part) -> Vec<Page> {
        let mut pages = Vec::new();
        for &process in living {
            let owner = owner_of(process);
            let of = (process.pid, process.start);
            let ranges = aliases.of.get(&process.pid);
            let lies = ranges.map_or(Lies::Unseen, |_seen| Lies::Here);
            let ranges = ranges.map_or(&[][..], Vec::as_slice);
            let rows = |addresses| self.journal.records().homes_within(owner, addresses);
            for (address, home) in rows(part.addresses) {
                if !ranges
                    .iter()
                    .any(|range| range.offset_of(address).is_some())
                {
                    let spot = (None, address);
                    pages.push(Page {
                        lies,
                        ..Page::new((owner, address, home), of, (address, spot))
                    });
                }
            }
            for (object, places) in &part.shared {
                for range in ranges.iter().filter(|range| range.object == *object) {
                    let within =
                        |&(_, offset, _): &(u64, u64, Home)| (places.0..places.1).contains(&offset);
                    let rows = rows((range.start, range.end)).filter_map(|(address, home)| {
                        Some((address, range.offset_of(address)?, home))
                    });
                    let lies = match aliases.strange.contains(object) {
                        true => Lies::WithStrangers,
                        false => Lies::Here,
                    };
                    pages.extend(rows.filter(within).map(|(address, offset, home)| {
                        let spot = (Some(*object), offset);
                        Page {
                            lies,
                            ..Page::new((owner, address, home), of, (address, spot))
                        }
                    }));
                }
            }
        }
        pages
    }

    /// Shared memory of which pages were moved and that processes of the scope map, with those that
    /// do. Of everything forgets what nobody maps.
    fn mapped_objects(
        &mut self,
        scope: &Scope,
        recorded: &BTreeSet<ProcessKey>,
        aliases: &Aliases,
        report: &mut UndoReport,
    ) -> BTreeMap<ObjectId, Vec<Mapped>> {
        let recorded_objects = self.journal.records().objects();
        let own = aliases.of.values().flatten().map(|range| range.object);
        let objects: BTreeSet<ObjectId> = recorded_objects.iter().copied().chain(own).collect();
        let objects: Vec<ObjectId> = objects.into_iter().collect();
        if objects.is_empty() {
            return BTreeMap::new();
        }
        let family = match scope {
            Scope::All => None,
            Scope::Processes(_) | Scope::Program(..) | Scope::Leavers(..) => {
                Some(self.family(scope, recorded).unwrap_or_else(|known| known))
            }
        };
        let (mappings, all) = self.mappings(family.as_ref(), &objects);
        let unmapped = recorded_objects
            .iter()
            .filter(|object| !mappings.contains_key(object));
        for &object in unmapped.filter(|_| *scope == Scope::All) {
            self.unmapped(Owner::Object(object), all, report);
        }
        mappings
    }

    /// Rows of shared memory from one place in it to before another, each with a process that has
    /// the page. Counts those that no process has, which stay in the journal.
    fn shared_pages(
        &mut self,
        (object, places): (ObjectId, (u64, u64)),
        mappings: &[Mapped],
        report: &mut UndoReport,
        breathe: Breathe<'_>,
    ) -> Vec<Page> {
        let mut pages = Vec::new();
        let owner = Owner::Object(object);
        let missing = self.journal.records().homes_within(owner, places);
        let mut missing: Vec<(u64, Home)> = missing.collect();
        for mapped in mappings {
            let within = |&(name, home): &(u64, Home)| {
                let address = mapped.range.address_of(name)?;
                let process = (mapped.pid, mapped.start);
                let spot = (Some(object), name);
                Some(Page::new((owner, name, home), process, (address, spot)))
            };
            let mut found: Vec<Page> = missing.iter().filter_map(within).collect();
            self.look(&mut found, breathe);
            found.retain(|page| page.place != PageStatus::Absent);
            let names: BTreeSet<u64> = found.iter().map(|page| page.name).collect();
            missing.retain(|(name, _)| !names.contains(name));
            pages.append(&mut found);
        }
        report.pages_left += number(missing.len());
        pages
    }

    /// Forgets shared memory that nobody maps, unless some could not be asked whether they do.
    fn unmapped(&mut self, owner: Owner, all: bool, report: &mut UndoReport) {
        if all {
            let gone = self.journal.records_mut().forget_owner(owner);
            report.pages_gone += number(gone);
        } else {
            let count = self.journal.records().pages_of(owner);
            report.fail(format!(
                "{count} pages of shared memory are not back: not all processes can be asked whether they map it; \
                 undo again as root"
            ));
        }
    }

    /// Finds out where pages are.
    fn look(&mut self, pages: &mut [Page], breathe: Breathe<'_>) {
        let same = |one: &Page, next: &Page| one.pid == next.pid;
        for of_one in pages
            .chunk_by_mut(same)
            .flat_map(|of_one| of_one.chunks_mut(LOOK_BATCH))
        {
            breathe();
            let addresses: Vec<u64> = of_one.iter().map(|page| page.address).collect();
            match residency(&mut self.kernel, of_one[0].pid, &addresses) {
                Ok(places) => {
                    for (page, place) in of_one.iter_mut().zip(places) {
                        page.place = place;
                    }
                }
                Err(Refusal::Gone) => {
                    of_one
                        .iter_mut()
                        .for_each(|page| page.place = PageStatus::Absent);
                }
                Err(refusal) => {
                    for page in of_one {
                        page.place = PageStatus::Unknown(0);
                        page.refused = Some(refusal);
                    }
                }
            }
        }
    }

    /// Sends these pages home, and notes which did not go.
    ///
    /// Where a node is full the others come first, for what leaves it makes room; and then it is
    /// asked for little at a time, because the kernel tries long and hard to find memory there. It
    /// is given up once nothing has gone anywhere since.
    fn send_home(&mut self, pages: &mut [Page], which: &[usize], breathe: Breathe<'_>) {
        let mut groups: BTreeMap<Group, VecDeque<usize>> = BTreeMap::new();
        for &index in which {
            let page = &pages[index];
            let together = page.reach == Reach::Program;
            let group = groups.entry((page.pid, page.start, together, page.home.node));
            group.or_default().push_back(index);
        }
        let groups = groups.into_iter();
        let mut groups: VecDeque<_> = groups.map(|(key, group)| (key, group, None)).collect();
        let mut gone = 0;
        while let Some((key, mut group, full_at)) = groups.pop_front() {
            let calls = full_at.map_or(self.movers.calls(), |_| 1);
            let turn = group.len().min(self.pacer.size() * calls);
            let turn: Vec<usize> = group.drain(..turn).collect();
            breathe();
            let went = self.send(pages, key, &turn);
            gone += went;
            let no_room = |index: &usize| pages[*index].refused == Some(Refusal::NoMemory);
            let left = group.len();
            for index in turn.into_iter().filter(no_room).rev() {
                group.push_front(index);
            }
            match group.len() > left {
                true if went == 0 && full_at == Some(gone) => {
                    for &index in &group {
                        pages[index].refused = Some(Refusal::NoMemory);
                    }
                }
                true => groups.push_back((key, group, Some(gone))),
                false if group.is_empty() => {}
                false => groups.push_front((key, group, None)),
            }
        }
    }

    /// Sends pages of one process to one node, and notes which did not go; how many did.
    fn send(
        &mut self,
        pages: &mut [Page],
        (pid, start, together, node): Group,
        which: &[usize],
    ) -> usize {
        let reach = if together {
            Reach::Program
        } else {
            Reach::Alone
        };
        let held = self.held_since(pid, start);
        let batches = which.chunks(self.pacer.size()).map(|batch| Batch {
            held: &held,
            pages: batch.iter().map(|&index| pages[index].address).collect(),
            to: (node, reach),
        });
        let batches: Vec<_> = batches.collect();
        let moved = self.move_batches(&batches);
        let outcomes = moved.into_iter().flat_map(|moved| moved.pages);
        let mut went = 0;
        for (&index, outcome) in which.iter().zip(outcomes) {
            let page = &mut pages[index];
            page.refused = match outcome {
                PageOutcome::On(there) | PageOutcome::Stood(there) => {
                    went += usize::from(there == node);
                    (there != node).then_some(Refusal::Busy)
                }
                PageOutcome::Refused(refusal) => Some(refusal),
            };
        }
        // What was moved together with all who map it goes back the same way, and so does what came
        // to be shared since: it was we who moved it.
        let shared = |index: &usize| pages[*index].refused == Some(Refusal::Shared);
        let shared: Vec<usize> = which.iter().copied().filter(shared).collect();
        self.let_go_together(pages, &shared);
        went
    }

    /// Has pages go together with all who map them, where that is the program's doing: shared
    /// memory, but of strangers, and memory of no file, which only those have that were forked.
    fn let_go_together(&mut self, pages: &mut [Page], which: &[usize]) {
        let mut private: BTreeMap<Pid, Vec<usize>> = BTreeMap::new();
        for &index in which {
            let page = &mut pages[index];
            match page.spot.0 {
                None => private.entry(page.pid).or_default().push(index),
                Some(_) if page.lies == Lies::WithStrangers => {}
                Some(_) => page.reach = Reach::Program,
            }
        }
        for (pid, of_one) in private {
            let addresses: Vec<u64> = of_one.iter().map(|&index| pages[index].address).collect();
            let of_files = self.kernel.of_files(pid, &addresses);
            for (index, of_file) in of_one.into_iter().zip(of_files) {
                match (of_file, pages[index].lies) {
                    (Some(false), _) => pages[index].reach = Reach::Program,
                    (Some(true), Lies::Here) => pages[index].lies = Lies::InFile,
                    _ => {}
                }
            }
        }
    }

    /// Sends home again, the last row first, whatever may be one page with one that was taken away:
    /// rows whose spots agree but for so many bits. One that went and is then at home with an
    /// earlier one is that page, and its row is corrected.
    fn play_back(&mut self, pages: &mut [Page], bits: u32, breathe: Breathe<'_>) {
        let groups = tangled(pages, bits);
        if groups.is_empty() {
            return;
        }
        let all: Vec<usize> = groups.iter().flatten().copied().collect();
        self.let_go_together(pages, &all);
        let mut left: Vec<&[usize]> = groups.iter().map(Vec::as_slice).collect();
        while !left.is_empty() {
            let mut step = Vec::new();
            for rest in &mut left {
                let begin = last_run(pages, rest);
                step.extend_from_slice(&rest[begin..]);
                *rest = &rest[..begin];
            }
            step.sort_unstable();
            self.send_home(pages, &step, breathe);
            left.retain(|rest| !rest.is_empty());
        }
        self.look(pages, breathe);
        for group in &groups {
            for (rank, &index) in group.iter().enumerate() {
                let page = pages[index];
                let mut earlier = group[..rank].iter().map(|&index| pages[index]);
                if page.was_taken()
                    && let Some(first) =
                        earlier.find(|first| first.place == page.place && !first.is_elsewhere())
                {
                    pages[index].home = first.home;
                    let (home, records) = (first.home.node, self.journal.records_mut());
                    records.rehome(page.owner, page.name, home);
                }
            }
        }
    }

    /// Counts what became of pages, and forgets those that are back or gone.
    fn conclude(&mut self, pages: &[Page], report: &mut UndoReport, left: &mut Kept) {
        for of_one in pages.chunk_by(|one, next| (one.owner, one.pid) == (next.owner, next.pid)) {
            let (owner, pid) = (of_one[0].owner, of_one[0].pid);
            let shared = matches!(owner, Owner::Object(_));
            let (mut kept, mut over) = (Vec::new(), Vec::new());
            for page in of_one {
                if page.is_elsewhere() {
                    kept.push(page);
                } else if page.is_there() {
                    report.pages_restored += 1;
                    over.push(page.name);
                } else if shared {
                    // Another may have it yet, or come to.
                    report.pages_left += 1;
                } else {
                    report.pages_gone += 1;
                    over.push(page.name);
                }
            }
            if let Some(last) = kept.last() {
                let refusal = last.refused.unwrap_or(Refusal::Busy);
                *left.entry((pid, refusal)).or_default() += kept.len();
            }
            let names = over.into_iter();
            self.journal.records_mut().forget_pages(owner, names);
        }
    }
}

const fn owner_of(process: ProcessKey) -> Owner {
    Owner::Process(process.pid, process.start)
}

/// Rows whose spots agree but for the lowest bits, of those groups that have one that was taken
/// away to where another of them belongs; each group in the order in which its rows were recorded.
fn tangled(pages: &[Page], bits: u32) -> Vec<Vec<usize>> {
    let block = |page: &Page| (page.spot.0, page.spot.1 >> bits);
    let mut groups: BTreeMap<Spot, Vec<usize>> = BTreeMap::new();
    for page in pages.iter().filter(|page| page.was_taken()) {
        groups.entry(block(page)).or_default();
    }
    for (index, page) in pages.iter().enumerate() {
        if page.is_there()
            && let Some(group) = groups.get_mut(&block(page))
        {
            group.push(index);
        }
    }
    let with_another = |group: &Vec<usize>| {
        let homes: BTreeSet<NodeId> = group.iter().map(|&index| pages[index].home.node).collect();
        let mut taken = group.iter().map(|&index| &pages[index]);
        // Its own home is not where it is.
        taken
            .any(|page| page.was_taken() && page.place.node().is_some_and(|on| homes.contains(&on)))
    };
    let mut groups: Vec<Vec<usize>> = groups.into_values().filter(with_another).collect();
    for group in &mut groups {
        group.sort_by_key(|&index| pages[index].home.order);
    }
    groups
}

/// Where the last rows of a group begin that one process sends to one node.
fn last_run(pages: &[Page], group: &[usize]) -> usize {
    let destination = |&index: &usize| (pages[index].pid, pages[index].home.node);
    let last = group.last().map(destination);
    group
        .iter()
        .rposition(|index| Some(destination(index)) != last)
        .map_or(0, |before| before + 1)
}

/// Huge pages are of 2 MiB on x86-64, and on aarch64 with pages of 4 KiB. Of larger ones no more
/// than a block is seen as one, and each of its rows goes back as it says.
const HUGE_BITS: u32 = 21;
/// Times that pages are asked to move. The second time the rest of a batch moves that the kernel
/// gave up at one page, what was busy for a moment, and what turned out to be shared.
const ROUNDS_MAX: usize = 3;
/// Pages that are put back at once: 26 MB on their way.
pub(crate) const AT_ONCE: usize = 1 << 18;
/// Where there are more, memory of 256 MiB at a time; more than a huge page, so that all rows of
/// one are in one part.
const PART_BITS: u32 = 28;
/// Pages that are asked about before others may have their turn: about a millisecond.
const LOOK_BATCH: usize = 4096;
