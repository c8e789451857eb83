//! The spaces of one program: one for each process, a new one after `exec`, and one for each object that
//! processes share.

use std::collections::BTreeMap;

use topology::Pid;

use super::seats::Seats;
use crate::policy::SpaceId;

/// Number of an address space within its program; 0 is never one.
pub(crate) type LocalSpace = u16;

/// One more than the highest local number: twelve bits of a page's tag.
pub(crate) const SPACES_END: usize = 1 << 12;

/// What has pages: a process, or an object that processes map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Space {
    /// None for an object.
    pub pid: Option<Pid>,
    pub id: SpaceId,
    /// Window count at which it joined; it is not taken for gone before an observation could show it.
    pub joined: u64,
}

/// Processes and objects of one program by local number.
#[derive(Debug)]
pub(crate) struct Spaces {
    held: Vec<Option<Space>>,
    by_id: BTreeMap<SpaceId, LocalSpace>,
    /// Those given back are void, but pages of them are still in the table.
    pub numbers: Seats,
}

impl Spaces {
    pub(crate) fn new() -> Self {
        let mut numbers = Seats::new(SPACES_END);
        assert_eq!(numbers.take(), Some(0), "0 is no space");
        Self {
            held: vec![None],
            by_id: BTreeMap::new(),
            numbers,
        }
    }

    /// Takes the lowest number that is free and clean; none when there are too many processes.
    pub(crate) fn add(&mut self, space: Space) -> Option<LocalSpace> {
        let local = self.numbers.take()?;
        let at = usize::from(local);
        if at >= self.held.len() {
            self.held.resize(at + 1, None);
        }
        self.held[at] = Some(space);
        self.by_id.insert(space.id, local);
        Some(local)
    }

    /// Makes a space void. Its number is used again only after [`Seats::cleaned`].
    pub(crate) fn remove(&mut self, local: LocalSpace) -> Option<Space> {
        let space = self.held.get_mut(usize::from(local))?.take()?;
        self.by_id.remove(&space.id);
        self.numbers.give_back(local);
        Some(space)
    }

    pub(crate) fn at(&self, local: LocalSpace) -> Option<&Space> {
        self.held.get(usize::from(local))?.as_ref()
    }

    /// The local number of a space.
    pub(crate) fn local_of(&self, id: SpaceId) -> Option<LocalSpace> {
        self.by_id.get(&id).copied()
    }

    /// All of them by ascending local number.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (LocalSpace, &Space)> {
        (0..)
            .zip(&self.held)
            .filter_map(|(local, space)| Some((local, space.as_ref()?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_used_again_only_after_cleaning_and_are_bounded() {
        let space = |number| Space {
            pid: Some(Pid(number)),
            id: SpaceId(number),
            joined: 0,
        };
        let mut spaces = Spaces::new();
        assert_eq!(
            (spaces.add(space(5)), spaces.add(space(6))),
            (Some(1), Some(2))
        );
        assert_eq!(spaces.remove(1), Some(space(5)));
        assert_eq!((spaces.remove(1), spaces.remove(99)), (None, None));
        assert_eq!(spaces.add(space(7)), Some(3));
        spaces.numbers.cleaned();
        assert_eq!(spaces.add(space(8)), Some(1));
        assert_eq!(spaces.local_of(SpaceId(7)), Some(3));
        let more = (0..5000)
            .filter_map(|number| spaces.add(space(number)))
            .count();
        assert_eq!(more, SPACES_END - 4);
    }
}
