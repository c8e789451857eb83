//! What stands before the records of a file, and behind them: the table of contents, the events with
//! their ids, the features.

use std::io::Read;

use super::super::attr::{BYTES_MIN, BadAttr, Event};
use super::super::bytes::Cursor;
use super::super::error::PerfDataError;
use super::super::events::IDS_MAX;
use super::super::features::{self, FEATURES, SECTION_BYTES_MAX};
use super::Reader;

const FILE_HEADER_BYTES: usize = 104;
/// Behind each attribute in the table of a file: where its ids are, and how many bytes.
const IDS_SECTION_BYTES: usize = 16;
/// Longest attribute; the longest known has 136 bytes.
const ATTR_BYTES_MAX: u64 = 4096;

impl<R: Read> Reader<R> {
    /// Reads what a file has before its records, and the features behind them.
    pub(super) fn open_file(&mut self, size: u64) -> Result<(), PerfDataError> {
        let damaged = PerfDataError::damaged;
        if size < FILE_HEADER_BYTES as u64 {
            return Err(damaged(8, "its header is shorter than any version's"));
        }
        let mut header = [0; FILE_HEADER_BYTES];
        header[..16].copy_from_slice(&[0; 16]);
        self.input.fill(&mut header[16..])?;
        let mut from = Cursor::new(&header[16..], self.order);
        let mut number = || from.u64().unwrap_or(0);
        let attr_bytes = number();
        let (attrs, attrs_bytes) = (number(), number());
        let (data, data_bytes) = (number(), number());
        let _types = (number(), number());
        let flags = [number(), number(), number(), number()];
        let end = data.checked_add(data_bytes);
        let end = end.ok_or_else(|| damaged(40, "its records would end beyond all files"))?;
        self.read_attrs(attr_bytes, attrs, attrs_bytes)?;
        if data_bytes == 0 {
            self.unfinished = true;
        } else {
            self.end = Some(end);
            if self.input.is_file() {
                self.read_features(end, flags);
            } else {
                let note = "the machine stands at the end of the file, where a pipe cannot look; give the file by its name";
                self.notes.push(note.to_owned());
            }
        }
        self.input.go_to(data)
    }

    fn read_attrs(&mut self, each: u64, start: u64, bytes: u64) -> Result<(), PerfDataError> {
        let damaged = PerfDataError::damaged;
        let known = (BYTES_MIN + IDS_SECTION_BYTES) as u64..=ATTR_BYTES_MAX;
        if !known.contains(&each) {
            return Err(damaged(16, "its attributes have a size that none has"));
        }
        if bytes == 0 || !bytes.is_multiple_of(each) {
            return Err(damaged(32, "its attributes have no whole number"));
        }
        self.input.go_to(start)?;
        let mut attr = Vec::new();
        let mut sections = Vec::new();
        for _ in 0..bytes / each {
            let at = self.input.position();
            self.input.take(each, &mut attr)?;
            let (attr, ids) = attr.split_at(attr.len() - IDS_SECTION_BYTES);
            self.add_event(attr, at)?;
            let mut ids = Cursor::new(ids, self.order);
            sections.push((ids.u64().unwrap_or(0), ids.u64().unwrap_or(0)));
        }
        for (event, (start, bytes)) in sections.into_iter().enumerate() {
            if bytes > 0 {
                self.read_ids(event, start, bytes)?;
            }
        }
        Ok(())
    }

    pub(super) fn add_event(&mut self, attr: &[u8], at: u64) -> Result<(), PerfDataError> {
        let event = Event::parse(attr, self.order).map_err(|bad| match bad {
            BadAttr::Short => PerfDataError::damaged(at, "an attribute is too short"),
            BadAttr::Newer => PerfDataError::Unsupported {
                offset: at,
                what: "samples with fields that are newer than this program",
                remedy: "record with fewer options to `perf record`",
            },
        })?;
        if self.events.add(event) {
            return Ok(());
        }
        Err(PerfDataError::damaged(at, "there are too many events"))
    }

    fn read_ids(&mut self, event: usize, start: u64, bytes: u64) -> Result<(), PerfDataError> {
        if !bytes.is_multiple_of(8) || bytes / 8 > IDS_MAX as u64 {
            let reason = "the ids of an event have no likely number";
            return Err(PerfDataError::damaged(start, reason));
        }
        self.input.go_to(start)?;
        let mut ids = Vec::new();
        self.input.take(bytes, &mut ids)?;
        self.identify(event, &ids, start)
    }

    pub(super) fn identify(
        &mut self,
        event: usize,
        ids: &[u8],
        at: u64,
    ) -> Result<(), PerfDataError> {
        let mut from = Cursor::new(ids, self.order);
        while let Some(id) = from.u64() {
            if !self.events.identify(id, event) {
                return Err(PerfDataError::damaged(at, "there are too many ids"));
            }
        }
        Ok(())
    }

    /// Reads the features, whose table is behind the records. Nobody needs them for the samples, so
    /// that what is wrong with them is noted and no error.
    fn read_features(&mut self, table: u64, flags: [u64; 4]) {
        let present = (0..FEATURES).filter(|bit| {
            let word = usize::try_from(bit / 64).unwrap_or(0);
            flags[word] >> (bit % 64) & 1 != 0
        });
        for (index, feature) in present.enumerate() {
            if !features::wanted(feature) {
                continue;
            }
            let place = table.saturating_add(index as u64 * 16);
            if let Err(error) = self.read_feature(place, feature) {
                let note = format!("feature {feature} of the file is left out: {error}");
                self.notes.push(note);
            }
        }
    }

    fn read_feature(&mut self, place: u64, feature: u64) -> Result<(), PerfDataError> {
        let mut section = [0; 16];
        self.input.go_to(place)?;
        self.input.fill(&mut section)?;
        let mut from = Cursor::new(&section, self.order);
        let (start, bytes) = (from.u64().unwrap_or(0), from.u64().unwrap_or(0));
        if bytes > SECTION_BYTES_MAX {
            return Err(PerfDataError::damaged(place, "it is longer than 8 MiB"));
        }
        self.input.go_to(start)?;
        let mut section = Vec::new();
        self.input.take(bytes, &mut section)?;
        let from = Cursor::new(&section, self.order);
        features::read(feature, from, &mut self.machine, &mut self.events)
            .ok_or_else(|| PerfDataError::damaged(start, "it is not what it should be"))
    }
}
