//! The spaces of one program: one for each process, a new one after `exec`, and one for each object that
//! processes share.

use std::collections::BTreeMap;

use topology::Pid;

use super::bits::Bits;
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
    /// Void, but pages of them are still in the table.
    dirty: Bits,
}

impl Spaces {
    pub(crate) fn new() -> Self {
        Self {
            held: vec![None],
            by_id: BTreeMap::new(),
            dirty: Bits::new(SPACES_END),
        }
    }

    /// Takes the lowest number that is free and clean; none when there are too many processes.
    pub(crate) fn add(&mut self, space: Space) -> Option<LocalSpace> {
        let free =
            (1..self.held.len()).find(|&at| self.held[at].is_none() && !self.dirty.contains(at));
        let at = free.unwrap_or(self.held.len());
        if at >= SPACES_END {
            return None;
        }
        if at == self.held.len() {
            self.held.push(None);
        }
        let local = LocalSpace::try_from(at).ok()?;
        self.held[at] = Some(space);
        self.by_id.insert(space.id, local);
        Some(local)
    }

    /// Makes a space void. Its number is used again only after [`Self::cleaned`].
    pub(crate) fn remove(&mut self, local: LocalSpace) -> Option<Space> {
        let space = self.held.get_mut(usize::from(local))?.take()?;
        self.by_id.remove(&space.id);
        self.dirty.insert(usize::from(local));
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

    pub(crate) const fn dirty(&self) -> &Bits {
        &self.dirty
    }

    pub(crate) fn cleaned(&mut self) {
        self.dirty.clear();
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
        spaces.cleaned();
        assert_eq!(spaces.add(space(8)), Some(1));
        assert_eq!(spaces.local_of(SpaceId(7)), Some(3));
        let more = (0..5000)
            .filter_map(|number| spaces.add(space(number)))
            .count();
        assert_eq!(more, SPACES_END - 4);
    }
}
