//! Which cache lines pass from a writer to a reader (`DeLocProf`): a store by one, then a load by
//! another, with no other store between.

use super::Seat;
use super::bits::Bits;
use super::spaces::LocalSpace;
use crate::sample::AccessKind;

const LINE_SHIFT: u32 = 6;
const LINE_BITS: u32 = 52;
const WAYS: usize = 4;
/// 16,384 lines of 32 bytes: half a megabyte, a first cache's worth of lines for each of 32 cores.
const SETS_LOG2: u32 = 12;
/// Readers told apart since the last store. Further ones are not counted: whoever is read by more
/// than ten talks to all.
const READERS_MAX: usize = 10;
/// Words: tag, writer with count and heat, readers.
const WORDS: usize = 1 + 1 + 2;

/// The lines that were stored to lately. Bounded; the coldest line of a full set is dropped.
#[derive(Debug)]
pub(crate) struct LineTable {
    lines: Vec<[u64; WORDS]>,
}

/// A line, unpacked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Line {
    /// The last to store; none before the first store that was seen.
    writer: Option<Seat>,
    /// Who loaded it since.
    readers: [Seat; READERS_MAX],
    count: u8,
    /// Touches, halved whenever another line wanted this place.
    heat: u8,
}

impl LineTable {
    pub(crate) fn new() -> Self {
        Self {
            lines: vec![[0; WORDS]; WAYS << SETS_LOG2],
        }
    }

    /// Notes one access. Gives the writer when this is a communication event.
    pub(crate) fn touch(
        &mut self,
        space: LocalSpace,
        address: u64,
        seat: Seat,
        kind: AccessKind,
    ) -> Option<Seat> {
        let number = address >> LINE_SHIFT;
        if kind == AccessKind::Unknown || space == 0 || number >> LINE_BITS != 0 {
            return None;
        }
        let tag = u64::from(space) << LINE_BITS | number;
        let set = self.set_of(tag);
        let ways = &mut self.lines[set..set + WAYS];
        let way = ways.iter().position(|line| line[0] == tag);
        let way = match (way, kind) {
            (Some(way), _) => way,
            // Nobody has stored to it that we know of: nothing to remember.
            (None, AccessKind::Load) => return None,
            (None, _) => replace(ways, tag),
        };
        let mut line = Line::read(&ways[way]);
        line.heat = line.heat.saturating_add(1);
        let event = if kind == AccessKind::Store {
            line.writer = Some(seat);
            line.count = 0;
            None
        } else {
            line.load(seat)
        };
        line.write(&mut ways[way]);
        event
    }

    /// Forgets seats and spaces that are void.
    pub(crate) fn forget(&mut self, seats: &Bits, spaces: &Bits) {
        for words in self.lines.iter_mut().filter(|words| words[0] != 0) {
            let mut line = Line::read(words);
            let space = usize::try_from(words[0] >> LINE_BITS).unwrap_or_default();
            let written = line
                .writer
                .is_some_and(|writer| seats.contains(usize::from(writer)));
            if written || spaces.contains(space) {
                *words = [0; WORDS];
                continue;
            }
            let readers = line.readers;
            let held = &readers[..usize::from(line.count)];
            line.count = 0;
            for &reader in held
                .iter()
                .filter(|&&reader| !seats.contains(usize::from(reader)))
            {
                line.push(reader);
            }
            line.write(words);
        }
    }

    const fn set_of(&self, tag: u64) -> usize {
        let spread = (tag ^ tag >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (spread >> (64 - SETS_LOG2)) as usize * WAYS
    }
}

/// Gives the coldest place to another line; the others cool down, so that none stays for ever.
fn replace(ways: &mut [[u64; WORDS]], tag: u64) -> usize {
    let heat = |words: &[u64; WORDS]| (words[0] != 0, Line::read(words).heat);
    let way = (0..ways.len())
        .min_by_key(|&way| (heat(&ways[way]), way))
        .unwrap_or(0);
    for words in ways.iter_mut() {
        let mut line = Line::read(words);
        line.heat /= 2;
        line.write(words);
    }
    ways[way] = [0; WORDS];
    ways[way][0] = tag;
    way
}

impl Line {
    fn load(&mut self, reader: Seat) -> Option<Seat> {
        let writer = self.writer.filter(|&writer| writer != reader)?;
        let known = self.readers[..usize::from(self.count)].contains(&reader);
        (!known && self.push(reader)).then_some(writer)
    }

    /// False when there is no room.
    fn push(&mut self, reader: Seat) -> bool {
        let Some(place) = self.readers.get_mut(usize::from(self.count)) else {
            return false;
        };
        *place = reader;
        self.count += 1;
        true
    }

    fn read(words: &[u64; WORDS]) -> Self {
        let mut shorts = [0; 3 * 4];
        for (at, short) in shorts.iter_mut().enumerate() {
            *short = short_of(words[1 + at / 4], at % 4);
        }
        let [writer, state, readers @ ..] = shorts;
        let [count, heat] = state.to_le_bytes();
        Self {
            writer: writer.checked_sub(1),
            readers,
            count: count.min(10),
            heat,
        }
    }

    fn write(&self, words: &mut [u64; WORDS]) {
        let mut shorts = [0; 3 * 4];
        // Seats end below 2^16 - 1, see `Attachment`, so that one more fits.
        shorts[0] = self.writer.map_or(0, |writer| writer.saturating_add(1));
        shorts[1] = u16::from_le_bytes([self.count, self.heat]);
        shorts[2..].copy_from_slice(&self.readers);
        for (word, four) in words[1..].iter_mut().zip(shorts.chunks(4)) {
            *word = four
                .iter()
                .rev()
                .fold(0, |word, &short| word << 16 | u64::from(short));
        }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "splitting is the point")]
const fn short_of(word: u64, at: usize) -> u16 {
    (word >> (16 * at)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs `W0 R1` and the like on one line; gives the events as `0-1`.
    #[track_caller]
    fn check(accesses: &str, expected: &str) {
        let mut table = LineTable::new();
        let mut events = Vec::new();
        for access in accesses.split_whitespace() {
            let (kind, seat) = access.split_at(1);
            let kind = if kind == "W" {
                AccessKind::Store
            } else {
                AccessKind::Load
            };
            let seat = seat.parse().unwrap();
            if let Some(writer) = table.touch(1, 0x7f00_1234_5678, seat, kind) {
                events.push(format!("{writer}-{seat}"));
            }
        }
        assert_eq!(events.join(" "), expected, "{accesses}");
    }

    #[test]
    fn a_store_and_then_a_load_by_another_is_an_event() {
        // A second load by the same reader without a store in between is no new event.
        check("W0 R1 R1 R2 W2 R2 R0", "0-1 0-2 2-0");
        check("R1 R2", "");
        check("W0 R0", "");
        check("W0 W1 R0 R1", "1-0");
        check("W0 R1 W0 R1", "0-1 0-1");
        check(
            "W0 R1 R2 R3 R4 R5 R6 R7 R8 R9 R10 R11 R11",
            "0-1 0-2 0-3 0-4 0-5 0-6 0-7 0-8 0-9 0-10",
        );
    }

    #[test]
    fn lines_and_spaces_are_told_apart() {
        let mut table = LineTable::new();
        table.touch(1, 0x1000, 0, AccessKind::Store);
        assert_eq!(table.touch(1, 0x103f, 1, AccessKind::Load), Some(0));
        assert_eq!(table.touch(1, 0x1040, 1, AccessKind::Load), None);
        assert_eq!(table.touch(2, 0x1000, 1, AccessKind::Load), None);
        assert_eq!(table.touch(1, 0x1000, 2, AccessKind::Unknown), None);
        assert_eq!(table.touch(1, u64::MAX, 2, AccessKind::Store), None);
    }

    #[test]
    fn a_hot_line_outlives_many_cold_ones() {
        let mut table = LineTable::new();
        for _ in 0..200 {
            table.touch(1, 0, 0, AccessKind::Store);
        }
        for line in 1..100_000 {
            table.touch(1, line << LINE_SHIFT, 0, AccessKind::Store);
            if line % 1000 == 0 {
                table.touch(1, 0, 0, AccessKind::Store);
            }
        }
        assert_eq!(table.touch(1, 0, 1, AccessKind::Load), Some(0));
    }

    #[test]
    fn void_seats_and_spaces_leave_no_trace() {
        let mut table = LineTable::new();
        table.touch(1, 0, 0, AccessKind::Store);
        table.touch(1, 0, 2, AccessKind::Load);
        table.touch(1, 64, 2, AccessKind::Store);
        table.touch(3, 0, 0, AccessKind::Store);
        let (mut seats, mut spaces) = (Bits::new(8), Bits::new(8));
        seats.insert(2);
        spaces.insert(3);
        table.forget(&seats, &spaces);
        assert_eq!(table.touch(1, 0, 2, AccessKind::Load), Some(0));
        assert_eq!(table.touch(1, 64, 0, AccessKind::Load), None);
        assert_eq!(table.touch(3, 0, 1, AccessKind::Load), None);
    }
}
