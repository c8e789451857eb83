//! Which accesses to memory are communication.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// Bytes of a line.
pub const LINE_BYTES: u64 = 64;

/// Accessors that a page remembers, as LAPT does.
const ACCESSORS_MAX: usize = 4;

/// Lines or pages that are followed, some 100 bytes each. Those that come later are counted only.
const PLACES_MAX: usize = 1 << 21;

/// Lines, each with who stored last and who has loaded since: a store by one task and then a load by another is an
/// event, once for each reader until the next store (`DeLocProf`).
#[derive(Debug, Default)]
pub struct Lines {
    lines: BTreeMap<u64, Line>,
    left_out: u64,
}

#[derive(Debug)]
struct Line {
    writer: Option<u32>,
    readers: Vec<u32>,
}

impl Lines {
    /// A store.
    pub fn store(&mut self, task: u32, address: u64) {
        if let Some(line) = self.line(address) {
            line.writer = Some(task);
            line.readers.clear();
        }
    }

    /// A load; the task whose store it reads, if that is an event.
    pub fn load(&mut self, task: u32, address: u64) -> Option<u32> {
        let line = self.line(address)?;
        let writer = line.writer.filter(|writer| *writer != task)?;
        if line.readers.contains(&task) {
            return None;
        }
        line.readers.push(task);
        Some(writer)
    }

    /// Accesses to lines that are not followed.
    #[must_use]
    pub const fn left_out(&self) -> u64 {
        self.left_out
    }

    fn line(&mut self, address: u64) -> Option<&mut Line> {
        let room = self.lines.len() < PLACES_MAX;
        match self.lines.entry(address / LINE_BYTES) {
            Entry::Occupied(entry) => Some(entry.into_mut()),
            Entry::Vacant(entry) if room => Some(entry.insert(Line {
                writer: None,
                readers: Vec::new(),
            })),
            Entry::Vacant(_) => {
                self.left_out += 1;
                None
            }
        }
    }
}

/// Pages, each with its last accessors, the most recent first: an access is an event with every other of them (LAPT).
#[derive(Debug, Default)]
pub struct Pages {
    pages: BTreeMap<u64, Vec<u32>>,
    left_out: u64,
}

impl Pages {
    /// An access to a page, by number; those with whom it is communication.
    pub fn access(&mut self, task: u32, page: u64) -> Vec<u32> {
        let room = self.pages.len() < PLACES_MAX;
        if !room && !self.pages.contains_key(&page) {
            self.left_out += 1;
            return Vec::new();
        }
        let accessors = self.pages.entry(page).or_default();
        let others: Vec<u32> = accessors
            .iter()
            .copied()
            .filter(|other| *other != task)
            .collect();
        accessors.retain(|other| *other != task);
        accessors.insert(0, task);
        accessors.truncate(ACCESSORS_MAX);
        others
    }

    /// Accesses to pages that are not followed.
    #[must_use]
    pub const fn left_out(&self) -> u64 {
        self.left_out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_stores_and_loads_of_one_line() {
        let mut lines = Lines::default();
        let mut events = Vec::new();
        for access in ["W0", "R1", "R1", "R2", "W2", "R2", "R0"] {
            let task = access[1..].parse().unwrap();
            match &access[..1] {
                "W" => lines.store(task, 130),
                _ => events.extend(lines.load(task, 140).map(|writer| (writer, task))),
            }
        }
        assert_eq!(events, [(0, 1), (0, 2), (2, 0)]);
        assert_eq!(lines.load(1, 200), None, "another line");
    }

    #[test]
    fn golden_last_accessors_of_a_page() {
        let mut pages = Pages::default();
        for task in [4, 1, 2, 0] {
            pages.access(task, 7);
        }
        assert_eq!(pages.access(3, 7), [0, 2, 1, 4]);
        assert_eq!(pages.access(3, 7), [0, 2, 1]);
        assert!(pages.access(3, 8).is_empty());
    }
}
