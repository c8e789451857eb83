//! The events of a file, and which of them a record belongs to.

use std::collections::BTreeMap;

use super::attr::{self, Event};
use super::bytes::Order;

/// Most events; perf opens some dozens.
pub(super) const EVENTS_MAX: usize = 4096;
/// Most ids: one for each event on each processor, or for each event of each thread.
pub(super) const IDS_MAX: usize = 1 << 20;

/// All events and ids known so far.
#[derive(Debug, Default)]
pub(super) struct Events {
    pub(super) list: Vec<Event>,
    /// Position of the event of each id.
    by_id: BTreeMap<u64, usize>,
    /// Ids that events were given, the same ones each time they were.
    given: usize,
    /// Processor that an id counts on, where it counts on one.
    cpus: BTreeMap<u64, u32>,
    /// Where in a record the id is; worked out again with each new event.
    place: Place,
}

/// Where the id of a record's event is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    /// Nowhere, and it does not matter.
    #[default]
    Alike,
    /// In a sample this many words from the start, in other records from the end.
    At { first: usize, last: usize },
    /// Nowhere, although events differ.
    Untold,
}

/// Which event a record belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// By position.
    Event(usize),
    /// One that the file does not tell of.
    Unknown,
    /// The record has no id, or not at a known place, although events differ.
    Untold,
    /// The record is too short to have one.
    Short,
}

impl Events {
    /// Adds an event; false if there are too many.
    #[must_use]
    pub(super) fn add(&mut self, event: Event) -> bool {
        if self.list.len() == EVENTS_MAX {
            return false;
        }
        self.list.push(event);
        self.place = Place::of(&self.list);
        true
    }

    /// Gives an event another id; false if there are too many.
    #[must_use]
    pub(super) fn identify(&mut self, id: u64, event: usize) -> bool {
        // One id may be given to thousands of events a million times, which takes no memory, but
        // hours.
        if self.given == IDS_MAX {
            return false;
        }
        self.given += 1;
        self.by_id.insert(id, event);
        true
    }

    /// Says on which processor an id counts.
    pub(super) fn locate(&mut self, id: u64, cpu: u32) {
        if self.cpus.len() < IDS_MAX {
            self.cpus.insert(id, cpu);
        }
    }

    pub(super) fn cpu_of(&self, id: Option<u64>) -> Option<u32> {
        self.cpus.get(&id?).copied()
    }

    /// Gives the event of an id its name.
    pub(super) fn name(&mut self, id: u64, name: &str) {
        let position = self.by_id.get(&id).copied();
        if let Some(event) = position.and_then(|position| self.list.get_mut(position)) {
            name.clone_into(&mut event.name);
        }
    }

    /// Gives an event its name by position.
    pub(super) fn name_at(&mut self, position: usize, name: &str) {
        if let Some(event) = self.list.get_mut(position) {
            name.clone_into(&mut event.name);
        }
    }

    /// Whose sample this is.
    pub(super) fn of_sample(&self, body: &[u8], order: Order) -> Owner {
        self.owner(|place| match place {
            Place::At { first, .. } => self.at(body, order, first.checked_mul(8)),
            Place::Alike => Owner::Event(0),
            Place::Untold => Owner::Untold,
        })
    }

    /// Whose record other than a sample this is.
    pub(super) fn of_other(&self, body: &[u8], order: Order) -> Owner {
        let with_ids = self.list.first().is_some_and(|first| first.sample_id_all);
        self.owner(|place| match place {
            Place::At { last, .. } if with_ids => {
                let at = last.checked_mul(8);
                self.at(
                    body,
                    order,
                    at.and_then(|bytes| body.len().checked_sub(bytes)),
                )
            }
            Place::Untold if with_ids => Owner::Untold,
            _ => Owner::Event(0),
        })
    }

    /// Nobody's or the only event's, or else what `tell` says.
    fn owner(&self, tell: impl FnOnce(Place) -> Owner) -> Owner {
        match self.list.len() {
            0 => Owner::Unknown,
            1 => Owner::Event(0),
            _ => tell(self.place),
        }
    }

    fn at(&self, body: &[u8], order: Order, at: Option<usize>) -> Owner {
        let word = at.and_then(|at| body.get(at..)?.first_chunk());
        let Some(word) = word else {
            return Owner::Short;
        };
        match order.u64(*word) {
            // perf takes the first event for what has no id.
            0 => Owner::Event(0),
            id => self
                .by_id
                .get(&id)
                .map_or(Owner::Unknown, |position| Owner::Event(*position)),
        }
    }
}

impl Place {
    fn of(events: &[Event]) -> Self {
        let Some((first, others)) = events.split_first() else {
            return Self::Alike;
        };
        let place = Self::of_one(first);
        if place.is_some() && others.iter().all(|event| Self::of_one(event) == place) {
            return place.unwrap_or_default();
        }
        if others.iter().all(|event| event.alike(first)) {
            Self::Alike
        } else {
            Self::Untold
        }
    }

    fn of_one(event: &Event) -> Option<Self> {
        let words = |fields: u64| {
            usize::try_from((event.sample_type & fields).count_ones()).unwrap_or_default()
        };
        if event.samples(attr::IDENTIFIER) {
            return Some(Self::At { first: 0, last: 1 });
        }
        event.samples(attr::ID).then(|| Self::At {
            first: words(attr::IP | attr::TID | attr::TIME | attr::ADDR),
            last: 1 + words(attr::STREAM_ID | attr::CPU),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_that_are_given_again_count_as_well() {
        let mut events = Events::default();
        assert!((0..IDS_MAX).all(|number| events.identify(7, number % 2)));
        assert!(!events.identify(7, 0));
    }
}
