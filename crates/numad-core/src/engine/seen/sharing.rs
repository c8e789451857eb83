//! Memory that processes of a program share: learning of it, and finding a process to reach it through.

use std::ops::Range;

use topology::Pid;

use super::Seen;
use crate::action::{AttachmentId, Reach};
use crate::engine::registry::Registry;
use crate::engine::{Engine, WantedPage};
use crate::observation::{ObjectId, ObjectKind, ObservedSharing};
use crate::policy::{PageKey, SpaceId};
use crate::tables::shares::Object;
use crate::tables::spaces::LocalSpace;

/// A process that has a page, and which of its pages it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) struct Place {
    pub pid: Pid,
    /// Its address space, by local number.
    pub process: LocalSpace,
    /// Page number in the process's address space.
    pub page: u64,
}

impl Engine {
    /// Pages of a program whose place the next decision wants to know, at most `max`: the hottest,
    /// and those of which it is not known yet; each with a process that has it and its address
    /// there. Of shared memory that is a process that used the page lately, for another may not
    /// have it in its page table.
    #[must_use]
    pub fn wanted_places(&self, attachment: AttachmentId, max: usize) -> Vec<WantedPage> {
        let Some(seen) = self.seen(attachment) else {
            return Vec::new();
        };
        let users = seen.users();
        let wanted = seen.pages.to_look_up(max).into_iter();
        wanted
            .filter_map(|tag| {
                let page = seen.key(tag)?;
                let place = seen.place_of(&users, page)?;
                Some(WantedPage {
                    page,
                    pid: place.pid,
                    address: place.page << seen.page_shift,
                    with_size: seen.by_blocks,
                })
            })
            .collect()
    }
}

impl Seen {
    /// Takes what was looked up of shared memory.
    pub(super) fn learn_sharing(&mut self, registry: &mut Registry, seen: &ObservedSharing) {
        for maps in &seen.maps {
            let Some(local) = self.local_of(registry, maps.pid) else {
                continue;
            };
            for range in &maps.ranges {
                self.name(registry, range.object);
            }
            self.shares.set(local, maps, self.page_shift);
        }
        if !seen.maps.is_empty() {
            self.drop_unmapped();
        }
        self.shares.note_own(&seen.own);
        if self.messages.are_counted {
            self.shares.note_told(&seen.carriers);
        }
    }

    /// Gives an object a space if there is room; without, its pages stay those of each process.
    fn name(&mut self, registry: &mut Registry, object: ObjectId) {
        if self.shares.space_of(object).is_some() || !self.shares.has_room() {
            return;
        }
        if let Some(local) = self.open(registry, None) {
            self.shares.add(local, object);
        }
    }

    /// A forked process maps what its maker does, until it is looked at.
    pub(in crate::engine) fn inherit(&mut self, parent: u32, child: LocalSpace) {
        if let Ok(parent) = LocalSpace::try_from(parent) {
            self.shares.inherit(parent, child);
        }
    }

    /// Gives up the spaces of objects that no process maps any more.
    pub(super) fn drop_unmapped(&mut self) {
        for local in self.shares.take_unmapped() {
            self.spaces.remove(local);
        }
    }

    /// Whether pages of a space are not to be moved: files, and what others map or may map.
    pub(in crate::engine) fn is_barred(&self, space: SpaceId) -> bool {
        let object = self.object_of(space);
        object.is_some_and(|object| object.id.kind == ObjectKind::File || !object.own)
    }

    /// Which pages of a space a move may take.
    pub(in crate::engine) fn reach_of(&self, space: SpaceId) -> Reach {
        match self.object_of(space) {
            Some(object) if object.mappers > 1 && !self.is_barred(space) => Reach::Program,
            _ => Reach::Alone,
        }
    }

    /// The object that a space is of, if it is of none of the processes.
    pub(in crate::engine) fn object_of(&self, space: SpaceId) -> Option<&Object> {
        self.shares.objects.get(&self.spaces.local_of(space)?)
    }

    /// The address spaces of those who sit, by seat.
    pub(in crate::engine) fn users(&self) -> Vec<LocalSpace> {
        let mut spaces = Vec::new();
        for (_, hot, _) in self.tasks.iter() {
            if let Some(seat) = hot.seat.map(usize::from) {
                if spaces.len() <= seat {
                    spaces.resize(seat + 1, 0);
                }
                spaces[seat] = hot.space;
            }
        }
        spaces
    }

    /// A process that has a page: its own, or of shared memory one of those that used it lately; else the first that
    /// maps it. Of several the one that has been there longest: one that came late may be gone before the move.
    pub(in crate::engine) fn place_of(&self, users: &[LocalSpace], page: PageKey) -> Option<Place> {
        let local = self.spaces.local_of(page.space)?;
        if let Some(pid) = self.spaces.at(local)?.pid {
            let page = page.page;
            return Some(Place {
                pid,
                process: local,
                page,
            });
        }
        let entry = self.tag(page).and_then(|tag| self.pages.entry(tag));
        let (seats, count) = entry.map_or(([0; 4], 0), |(_, entry)| (entry.seats, entry.count()));
        let lately = seats.into_iter().take(count);
        let lately = lately.filter_map(|seat| users.get(usize::from(seat)).copied());
        let place = |process| {
            let page = self.shares.page_in(process, local, page.page)?;
            let space = self.spaces.at(process)?;
            let pid = space.pid?;
            Some((space.joined, Place { pid, process, page }))
        };
        let longest = lately.filter_map(place).min_by_key(|&(joined, _)| joined);
        let found = longest.or_else(|| self.shares.processes().find_map(place));
        found.map(|(_, place)| place)
    }

    /// Where pages of a space are in the address space of the process that one of them was found at: side by side in
    /// both, by the first of them there.
    pub(in crate::engine) fn runs_at(
        &self,
        place: Place,
        found: PageKey,
        pages: Range<u64>,
    ) -> Vec<(u64, Range<u64>)> {
        let space = self.spaces.local_of(found.space);
        let Some(object) = space.filter(|&local| local != place.process) else {
            return vec![(pages.start, pages)];
        };
        self.shares.places(place.process, object, pages)
    }
}
