//! How far nodes are from each other, and how we know.

use std::fmt;

use crate::ids::NodeId;
use crate::machine::Note;

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
const UNREACHABLE: u32 = 255;

/// A square matrix in the scale of ACPI's SLIT: local is 10, twice as slow is 20.
///
/// Addressed by position in `Topology::nodes`. May be asymmetric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Distances {
    count: usize,
    values: Vec<u32>,
    origin: Origin,
}

impl Distances {
    /// Takes what firmware said where it makes sense; where not, puts the default in its place and
    /// adds a note. `rows` may be empty, short or long.
    pub(crate) fn from_firmware(ids: &[NodeId], rows: &[Vec<u32>], notes: &mut Vec<Note>) -> Self {
        let count = ids.len();
        let shape_fits = rows.len() == count && rows.iter().all(|row| row.len() == count);
        if !shape_fits {
            if count > 1 || !rows.is_empty() {
                let (subject, text) = ("distances".to_owned(), missing_text(rows, count));
                notes.push(Note { subject, text });
            }
            return Self::default_for(count);
        }
        let mut values = Vec::with_capacity(count * count);
        for (from, row) in rows.iter().enumerate() {
            for (to, &value) in row.iter().enumerate() {
                values.push(sensible(from == to, value).unwrap_or_else(|default| {
                    let subject = format!("distance of node {} to node {}", ids[from], ids[to]);
                    notes.push(Note {
                        subject,
                        text: format!("firmware says {value}; {default} is used"),
                    });
                    default
                }));
            }
        }
        Self {
            count,
            values,
            origin: Origin::Firmware,
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
    pub fn between(&self, from: usize, to: usize) -> u32 {
        assert!(
            from < self.count && to < self.count,
            "node position out of range"
        );
        self.values[from * self.count + to]
    }

    /// The row of one node: its distance to each position.
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

/// The value, or the default in its place.
fn sensible(local: bool, value: u32) -> Result<u32, u32> {
    match (local, value) {
        (true, LOCAL) => Ok(LOCAL),
        (true, _) => Err(LOCAL),
        (false, value) if (LOCAL..UNREACHABLE).contains(&value) => Ok(value),
        (false, _) => Err(REMOTE_DEFAULT),
    }
}
