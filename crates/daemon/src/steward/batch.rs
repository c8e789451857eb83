//! Records on their way from the source to the engine, some hundred at a time: the engine then reads
//! ahead what they touch.

use numad_core::{Engine, Record};

/// Records handed over at once. At 88 bytes each they stay in the first cache.
const RECORDS: usize = 256;

/// Records that the engine was not given yet.
#[derive(Debug)]
pub(super) struct Batch(Vec<Record>);

impl Batch {
    /// Empty, with all the memory that it will need.
    pub(super) fn new() -> Self {
        Self(Vec::with_capacity(RECORDS))
    }

    /// Takes a record; hands all over if that was the last that fits.
    pub(super) fn push(&mut self, record: &Record, engine: &mut Engine) {
        self.0.push(record.clone());
        if self.0.len() == RECORDS {
            self.hand_over(engine);
        }
    }

    /// Hands over what there is.
    pub(super) fn hand_over(&mut self, engine: &mut Engine) {
        engine.handle_records(&self.0);
        self.0.clear();
    }
}
