//! From rows to text and drawings. Pure: no clock, file or terminal in here.

pub mod attachment;
pub mod checkup;
pub mod counters;
pub mod doctor;
pub mod experiment;
pub mod experiment_list;
pub mod experiment_page;
pub mod explain;
pub mod export;
pub mod external;
pub mod import;
pub mod journal;
pub mod matrix;
pub mod matrix_svg;
pub mod policies;
pub mod profile;
pub mod profile_page;
pub mod record;
pub mod settings;
pub mod sight;
pub mod status;
pub mod story;
pub mod table;
pub mod topo;
pub mod units;
pub mod wrap;
