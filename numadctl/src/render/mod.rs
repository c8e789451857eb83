//! From rows to text and drawings. Pure: no clock, file or terminal in here.

pub mod attachment;
pub mod counters;
pub mod doctor;
pub mod explain;
pub mod import;
pub mod matrix;
pub mod matrix_svg;
pub mod policies;
pub mod record;
pub mod settings;
pub mod status;
pub mod table;
pub mod topo;
pub mod units;
pub mod wrap;
