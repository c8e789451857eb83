//! How far nodes are from each other, and how we know.

use std::fmt;

use crate::ids::NodeId;
use crate::machine::Note;
use crate::set::NodeSet;

/// Who a figure comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Origin {
    /// Guessed from something else.
    Estimated,
    /// Told by firmware (SLIT, HMAT).
    Firmware,
    /// Measured on this machine.
    Measured,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Estimated => "estimated",
            Self::Firmware => "firmware",
            Self::Measured => "measured",
        })
    }
}

/// Distance of a node to itself, as ACPI defines it for the SLIT.
pub const LOCAL: u32 = 10;
/// Distance between two nodes where firmware tells nothing: ACPI's customary "one hop".
pub const REMOTE_DEFAULT: u32 = 20;
/// ACPI's "unreachable"; as a distance it is nonsense.
pub const UNREACHABLE: u32 = 255;
/// How many single distances get a note of their own; the rest share one, so that the notes of a
/// broken table of 64 nodes are still read.
const PAIR_NOTES_MAX: usize = 8;

/// A square matrix in the scale of ACPI's SLIT: local is 10, twice as slow is 20.
///
/// Addressed by position in `Topology::nodes`. May be asymmetric. Two nodes are 10 apart only where
/// both claim the same processors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Distances {
    count: usize,
    values: Vec<u32>,
    origin: Origin,
}

impl Distances {
    /// Takes what firmware said where it makes sense; where not, puts the default in its place and
    /// adds a note. `rows` may be empty, short or long.
    ///
    /// Sense is what the kernel itself asks of a SLIT: local is 10, remote is more and not 255. A
    /// table in another scale (the same local figure everywhere, every remote one above it) is
    /// scaled. Nodes of one set of `together` sit at the same place; 10 is sensible between them.
    pub(crate) fn from_firmware(
        ids: &[NodeId],
        rows: &[Vec<u32>],
        together: &[NodeSet],
        notes: &mut Vec<Note>,
    ) -> Self {
        let count = ids.len();
        let shape_fits = rows.len() == count && rows.iter().all(|row| row.len() == count);
        if !shape_fits {
            if count > 1 || !rows.is_empty() {
                notes.push(note(missing_text(rows, count)));
            }
            return Self::default_for(count);
        }
        let mut told: Vec<u32> = rows.iter().flatten().copied().collect();
        if let Some(local) = other_scale(&told, count) {
            notes.push(note(format!(
                "firmware says {local} for local; all are scaled to {LOCAL} for local"
            )));
            for value in &mut told {
                *value = scaled(*value, local);
            }
        }
        Self::checked(ids, &told, together, notes)
    }

    fn checked(ids: &[NodeId], told: &[u32], together: &[NodeSet], notes: &mut Vec<Note>) -> Self {
        let count = ids.len();
        let same_place = |from: NodeId, to: NodeId| {
            together
                .iter()
                .any(|set| set.contains(from) && set.contains(to))
        };
        let mut values = Vec::with_capacity(told.len());
        let mut replaced = Vec::new();
        for (index, &value) in told.iter().enumerate() {
            let (from, to) = (index / count, index % count);
            let least = if same_place(ids[from], ids[to]) {
                LOCAL
            } else {
                LOCAL + 1
            };
            let (sensible, default) = if from == to {
                (value == LOCAL, LOCAL)
            } else {
                ((least..UNREACHABLE).contains(&value), REMOTE_DEFAULT)
            };
            values.push(if sensible { value } else { default });
            if !sensible {
                replaced.push((from, to, value, default));
            }
        }
        let remote_replaced = replaced.iter().filter(|(from, to, ..)| from != to).count();
        let remote_count = count * (count - 1);
        let usable = count == 1 || remote_replaced < remote_count;
        note_replaced(ids, &replaced, usable, notes);
        Self {
            count,
            values,
            origin: if usable {
                Origin::Firmware
            } else {
                Origin::Estimated
            },
        }
    }

    /// Every other node one customary hop away.
    #[must_use]
    pub fn default_for(count: usize) -> Self {
        let values = (0..count * count)
            .map(|index| {
                if index / count == index % count {
                    LOCAL
                } else {
                    REMOTE_DEFAULT
                }
            })
            .collect();
        Self {
            count,
            values,
            origin: Origin::Estimated,
        }
    }

    /// From the node at one position to that at another.
    ///
    /// # Panics
    /// When a position is not below the number of nodes.
    #[must_use]
    #[inline]
    pub fn between(&self, from: usize, to: usize) -> u32 {
        assert!(
            from < self.count && to < self.count,
            "node position out of range"
        );
        self.values[from * self.count + to]
    }

    /// The row of one node: its distance to each position.
    ///
    /// # Panics
    /// When the position is not below the number of nodes.
    #[must_use]
    pub fn row(&self, from: usize) -> &[u32] {
        &self.values[from * self.count..][..self.count]
    }

    /// How many nodes there are.
    #[must_use]
    pub const fn count(&self) -> usize {
        self.count
    }

    /// Firmware, or estimated where it told nothing of use.
    #[must_use]
    pub const fn origin(&self) -> Origin {
        self.origin
    }
}

fn note(text: String) -> Note {
    Note {
        subject: "distances".to_owned(),
        text,
    }
}

fn missing_text(rows: &[Vec<u32>], count: usize) -> String {
    if rows.is_empty() {
        format!("firmware gives none; {LOCAL} local and {REMOTE_DEFAULT} remote are used")
    } else {
        format!(
            "firmware gives {} rows for {count} nodes or rows of another length; {LOCAL} local and \
             {REMOTE_DEFAULT} remote are used",
            rows.len()
        )
    }
}

/// The local figure of a table that is consistent in itself but not in ACPI's scale.
fn other_scale(told: &[u32], count: usize) -> Option<u32> {
    let local = *told.first()?;
    let consistent = told.iter().enumerate().all(|(index, &value)| {
        if index / count == index % count {
            value == local
        } else {
            value > local
        }
    });
    (consistent && count > 1 && local != LOCAL && local > 0).then_some(local)
}

/// Rounded to the nearest; too large a figure ends above [`UNREACHABLE`] and is nonsense later.
fn scaled(value: u32, local: u32) -> u32 {
    let rounded = (u64::from(value) * u64::from(LOCAL) + u64::from(local) / 2) / u64::from(local);
    let least = if value == local { LOCAL } else { LOCAL + 1 };
    u32::try_from(rounded).unwrap_or(u32::MAX).max(least)
}

fn note_replaced(
    ids: &[NodeId],
    replaced: &[(usize, usize, u32, u32)],
    usable: bool,
    notes: &mut Vec<Note>,
) {
    if !usable {
        notes.push(note(format!(
            "firmware says nothing of use ({}); {LOCAL} local and {REMOTE_DEFAULT} remote are used",
            replaced_range(replaced)
        )));
        return;
    }
    for &(from, to, value, default) in replaced.iter().take(PAIR_NOTES_MAX) {
        notes.push(Note {
            subject: format!("distance of node {} to node {}", ids[from], ids[to]),
            text: format!("firmware says {value}; {default} is used"),
        });
    }
    if replaced.len() > PAIR_NOTES_MAX {
        notes.push(note(format!(
            "{} more are nonsense and replaced like these",
            replaced.len() - PAIR_NOTES_MAX
        )));
    }
}

fn replaced_range(replaced: &[(usize, usize, u32, u32)]) -> String {
    let remote = || replaced.iter().filter(|(from, to, ..)| from != to);
    let (low, high) = (remote().map(|r| r.2).min(), remote().map(|r| r.2).max());
    match (low, high) {
        (Some(low), Some(high)) if low == high => format!("{low} for every pair"),
        (Some(low), Some(high)) => format!("{low} to {high} between nodes"),
        _ => "none".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `rows` as in `10 21;21 10`; `expected` the matrix in the same form, its origin, and the texts
    /// of the notes.
    #[track_caller]
    fn check(rows: &str, together: &str, expected: (&str, Origin, &[&str])) {
        let rows: Vec<Vec<u32>> = rows
            .split(';')
            .filter(|row| !row.is_empty())
            .map(|row| row.split(' ').map(|v| v.parse().unwrap()).collect())
            .collect();
        let wanted: Vec<&str> = expected.0.split(';').collect();
        let ids: Vec<NodeId> = (0u32..).take(wanted.len()).map(NodeId).collect();
        let together = [NodeSet::parse_list(together).unwrap()];
        let mut notes = Vec::new();
        let distances = Distances::from_firmware(&ids, &rows, &together, &mut notes);
        let got: Vec<String> = (0..ids.len())
            .map(|from| {
                let row: Vec<String> = distances.row(from).iter().map(u32::to_string).collect();
                row.join(" ")
            })
            .collect();
        assert_eq!(got, wanted);
        assert_eq!(distances.origin(), expected.1);
        let texts: Vec<String> = notes.iter().map(Note::to_string).collect();
        assert_eq!(texts, expected.2);
    }

    #[test]
    fn sensible_tables_are_taken_as_they_are() {
        check("10 21;31 10", "", ("10 21;31 10", Origin::Firmware, &[]));
        check("10", "", ("10", Origin::Firmware, &[]));
        check("10 10;10 10", "0-1", ("10 10;10 10", Origin::Firmware, &[]));
    }

    #[test]
    fn missing_tables_become_the_default() {
        let none = "distances: firmware gives none; 10 local and 20 remote are used";
        check("", "", ("10 20;20 10", Origin::Estimated, &[none]));
        check("", "", ("10", Origin::Estimated, &[]));
        let short = "distances: firmware gives 1 rows for 2 nodes or rows of another length; \
                     10 local and 20 remote are used";
        check("10 20", "", ("10 20;20 10", Origin::Estimated, &[short]));
    }

    #[test]
    fn nonsense_is_replaced_and_named() {
        let all_local = "distances: firmware says nothing of use (10 for every pair); 10 local and \
                         20 remote are used";
        check(
            "10 10;10 10",
            "",
            ("10 20;20 10", Origin::Estimated, &[all_local]),
        );
        let zeros = "distances: firmware says nothing of use (0 for every pair); 10 local and \
                     20 remote are used";
        check("0 0;0 0", "", ("10 20;20 10", Origin::Estimated, &[zeros]));
        let pair = "distance of node 1 to node 0: firmware says 255; 20 is used";
        check(
            "10 21;255 10",
            "",
            ("10 21;20 10", Origin::Firmware, &[pair]),
        );
        let below = "distance of node 0 to node 1: firmware says 5; 20 is used";
        check(
            "10 5;21 10",
            "",
            ("10 20;21 10", Origin::Firmware, &[below]),
        );
        let local = "distance of node 1 to node 1: firmware says 11; 10 is used";
        check(
            "10 21;21 11",
            "",
            ("10 21;21 10", Origin::Firmware, &[local]),
        );
    }

    #[test]
    fn another_scale_is_scaled() {
        let scaled = "distances: firmware says 100 for local; all are scaled to 10 for local";
        check(
            "100 210;101 100",
            "",
            ("10 21;11 10", Origin::Firmware, &[scaled]),
        );
    }

    #[test]
    fn a_broken_large_table_has_few_notes() {
        let ids: Vec<NodeId> = (0..64).map(NodeId).collect();
        let rows: Vec<Vec<u32>> = (0..64)
            .map(|from| (0..64).map(|to| if from == 0 { 10 } else { to }).collect())
            .collect();
        let mut notes = Vec::new();
        let distances = Distances::from_firmware(&ids, &rows, &[], &mut notes);
        assert_eq!(notes.len(), PAIR_NOTES_MAX + 1);
        assert_eq!(distances.between(1, 50), 50);
    }
}
