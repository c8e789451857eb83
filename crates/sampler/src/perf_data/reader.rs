//! A file of perf from its first byte to its last.

mod header;

use std::collections::VecDeque;
use std::io::{Read, Seek};

use super::attr::Event;
use super::bytes::{Cursor, Order, text};
use super::error::PerfDataError;
use super::events::{Events, Owner};
use super::features;
use super::inflate::Inflate;
use super::input::Input;
use super::machine::Machine;
use super::sample::{PerfSample, Trailer};

/// One thing in a file, as far as it is of use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// An event was seen.
    Sample(PerfSample),
    /// A sample of an event that the file does not describe.
    Stray,
    /// A thread took a name.
    Named {
        /// When; 0 if not told.
        time: u64,
        /// Its process.
        pid: u32,
        /// The thread.
        tid: u32,
        /// The name, at most 16 bytes of it.
        name: String,
        /// Whether it came with another program.
        exec: bool,
    },
    /// A thread was made.
    Forked {
        /// When; 0 if not told.
        time: u64,
        /// Its process.
        pid: u32,
        /// The thread.
        tid: u32,
        /// The process that made it.
        parent: u32,
    },
    /// A thread ended.
    Exited {
        /// When; 0 if not told.
        time: u64,
        /// Its process.
        pid: u32,
        /// The thread.
        tid: u32,
    },
    /// Records were lost.
    Lost {
        /// When; 0 if not told.
        time: u64,
        /// How many.
        count: u64,
    },
    /// The kernel stopped an event that came too often.
    Throttled,
    /// Nothing that follows is older than what was before the mark before this one.
    Round,
}

/// Reads a file of perf.
#[derive(Debug)]
pub struct Reader<R> {
    input: Input<R>,
    order: Order,
    /// Where the records end; none for a pipe's form, and for a file that perf did not finish.
    end: Option<u64>,
    /// Whether perf was stopped before it could finish the file.
    unfinished: bool,
    cut_off: Option<u64>,
    events: Events,
    machine: Machine,
    notes: Vec<String>,
    /// Largest page that all mappings so far are made of.
    granule: Option<u64>,
    record: Vec<u8>,
    inflate: Option<Inflate>,
    /// Marks that came while the decoder held records back: what must be out before each.
    marks: VecDeque<u64>,
    /// Where the record begins that was read last; of compressed data, its last piece.
    at: u64,
    ended: bool,
}

/// One record's head.
#[derive(Clone, Copy, Debug)]
struct Head {
    kind: u32,
    misc: u16,
    /// Bytes of the body.
    body: usize,
}

/// What a record amounts to.
enum Found {
    Item(Item),
    Nothing,
}

const MAGIC_LITTLE: [u8; 8] = *b"PERFILE2";
const MAGIC_BIG: [u8; 8] = *b"2ELIFREP";
const MAGIC_OLD: [u8; 8] = *b"PERFFILE";
/// Bytes of the header of a pipe's form.
const PIPE_HEADER_BYTES: u64 = 16;
const HEAD_BYTES: usize = 8;
/// A thread's name with its zero (`TASK_COMM_LEN`).
const NAME_BYTES_MAX: usize = 16;
/// Marks that are remembered while the decoder holds records back; further ones are forgotten, so
/// that more is held for the order than need be.
const MARKS_MAX: usize = 4096;

impl<R: Read + Seek> Reader<R> {
    /// Begins to read a file.
    ///
    /// # Errors
    /// When it is no file of perf, or is broken before its first record.
    pub fn open(input: R) -> Result<Self, PerfDataError> {
        Self::begin(Input::file(input))
    }
}

impl<R: Read> Reader<R> {
    /// Begins to read from a pipe. What a file has at its end (the machine, the names of its
    /// events) is not known then; the form that perf makes for pipes has it at the front.
    ///
    /// # Errors
    /// When it is no file of perf, or is broken before its first record.
    pub fn stream(input: R) -> Result<Self, PerfDataError> {
        Self::begin(Input::stream(input))
    }

    fn begin(mut input: Input<R>) -> Result<Self, PerfDataError> {
        let mut start = [0; 16];
        let count = input.read(&mut start)?;
        let (magic, size) = start.split_at(8);
        let order = match magic {
            _ if magic == MAGIC_LITTLE => Order::Little,
            _ if magic == MAGIC_BIG => Order::Big,
            _ if magic == MAGIC_OLD => {
                return Err(PerfDataError::Unsupported {
                    offset: 0,
                    what: "the first version of the format",
                    remedy: "record with a perf of Linux 3.2 or newer",
                });
            }
            _ => return Err(PerfDataError::NotPerfData),
        };
        if count < start.len() {
            let at = input.position();
            return Err(PerfDataError::damaged(at, "the file ends in its header"));
        }
        let size = Cursor::new(size, order).u64().unwrap_or(0);
        let mut reader = Self {
            input,
            order,
            end: None,
            unfinished: false,
            cut_off: None,
            events: Events::default(),
            machine: Machine::default(),
            notes: Vec::new(),
            granule: None,
            record: Vec::new(),
            inflate: None,
            marks: VecDeque::new(),
            at: 0,
            ended: false,
        };
        if size != PIPE_HEADER_BYTES {
            reader.open_file(size)?;
        }
        Ok(reader)
    }

    /// The events known so far; all of them once the first item has been given.
    #[must_use]
    pub fn events(&self) -> &[Event] {
        &self.events.list
    }

    /// The machine in a form that `topology` reads; none if the file does not tell.
    #[must_use]
    pub fn machine(&self) -> Option<String> {
        self.machine.xml()
    }

    /// The architecture as `uname -m` has it; empty if the file does not tell.
    #[must_use]
    pub fn architecture(&self) -> &str {
        &self.machine.architecture
    }

    /// Bytes in a page: known for architectures with one size, else the largest that fits all
    /// mappings so far; none if there is nothing to go by.
    #[must_use]
    pub fn page_bytes(&self) -> Option<u64> {
        self.machine.page_bytes().or(self.granule)
    }

    /// The name of the clock that all times are of: as for `clock_gettime`, or `perf`.
    #[must_use]
    pub fn clock(&self) -> String {
        features::clock(&self.events.list)
    }

    /// What could not be read, although the records could; for people.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Where a file ends in the middle of a record because perf was stopped while it wrote.
    #[must_use]
    pub const fn cut_off(&self) -> Option<u64> {
        self.cut_off
    }

    /// The next thing in the file that is of use; none at its end.
    ///
    /// # Errors
    /// With the offset of what cannot be read. Nothing more comes after that.
    pub fn next_item(&mut self) -> Result<Option<Item>, PerfDataError> {
        loop {
            if self.ended {
                return Ok(None);
            }
            let found = self.step();
            match found {
                Ok(Some(Found::Item(item))) => return Ok(Some(item)),
                Ok(Some(Found::Nothing)) => {}
                Ok(None) => self.ended = true,
                Err(error) => {
                    self.ended = true;
                    return Err(error);
                }
            }
        }
    }

    /// One record, or one block of compressed ones.
    fn step(&mut self) -> Result<Option<Found>, PerfDataError> {
        if let Some(found) = self.inflated()? {
            return Ok(Some(found));
        }
        let Some(head) = self.read_record()? else {
            return self.finish();
        };
        let record = std::mem::take(&mut self.record);
        let found = self.record(head, &record);
        self.record = record;
        found.map(Some)
    }

    /// The end of the records: what the decoder holds back, if it does.
    fn finish(&mut self) -> Result<Option<Found>, PerfDataError> {
        if self.events.list.is_empty() {
            let reason = "the file ends without having told of an event";
            return Err(PerfDataError::damaged(self.input.position(), reason));
        }
        let Some(inflate) = &mut self.inflate else {
            return Ok(None);
        };
        let left = inflate.ready().len();
        let ended = match inflate.finish() {
            Ok(true) => return Ok(Some(Found::Nothing)),
            Ok(false) if left == 0 => return Ok(None),
            Ok(false) => "the compressed data ends in the middle of a record",
            Err(reason) => reason,
        };
        if self.unfinished {
            self.cut_off.get_or_insert(self.at);
            return Ok(None);
        }
        Err(self.broken(ended))
    }

    fn broken(&self, reason: &'static str) -> PerfDataError {
        PerfDataError::Damaged {
            offset: self.at,
            reason,
            compressed: true,
        }
    }

    /// Reads the next record as it stands in the file; none at the end.
    fn read_record(&mut self) -> Result<Option<Head>, PerfDataError> {
        self.at = self.input.position();
        if self.end == Some(self.at) {
            return Ok(None);
        }
        let mut head = [0; HEAD_BYTES];
        let count = self.input.read(&mut head)?;
        if count == 0 && self.end.is_none() {
            return Ok(None);
        }
        let left = self.end.map_or(u64::MAX, |end| end - self.at);
        if count < HEAD_BYTES || left < HEAD_BYTES as u64 {
            return self.cut();
        }
        let head = self.head(head, self.at, false)?;
        if (HEAD_BYTES + head.body) as u64 > left {
            let reason = "a record reaches beyond the end of the records";
            return Err(PerfDataError::damaged(self.at, reason));
        }
        self.record.resize(head.body, 0);
        if self.input.read(&mut self.record)? < head.body {
            return self.cut();
        }
        Ok(Some(head))
    }

    /// The file ends in the middle of a record: as it does when perf is killed, or an error.
    fn cut(&mut self) -> Result<Option<Head>, PerfDataError> {
        if self.unfinished {
            self.cut_off = Some(self.at);
            return Ok(None);
        }
        let reason = "the file ends in the middle of its records";
        Err(PerfDataError::damaged(self.input.position(), reason))
    }

    fn head(&self, bytes: [u8; 8], at: u64, compressed: bool) -> Result<Head, PerfDataError> {
        let [k0, k1, k2, k3, m0, m1, s0, s1] = bytes;
        let size = usize::from(self.order.u16([s0, s1]));
        let body = size.checked_sub(HEAD_BYTES).ok_or(PerfDataError::Damaged {
            offset: at,
            reason: "a record is shorter than its own header",
            compressed,
        })?;
        Ok(Head {
            kind: self.order.u32([k0, k1, k2, k3]),
            misc: self.order.u16([m0, m1]),
            body,
        })
    }

    /// The next of the compressed records, if the decoder has one ready or can make one.
    fn inflated(&mut self) -> Result<Option<Found>, PerfDataError> {
        loop {
            let Some(inflate) = &self.inflate else {
                return Ok(None);
            };
            if self
                .marks
                .front()
                .is_some_and(|mark| inflate.consumed() >= *mark)
            {
                self.marks.pop_front();
                return Ok(Some(Found::Item(Item::Round)));
            }
            if let Some(found) = self.take_inflated()? {
                return Ok(Some(found));
            }
            let Some(inflate) = &mut self.inflate else {
                return Ok(None);
            };
            if !inflate.step().map_err(|reason| self.broken(reason))? {
                return Ok(None);
            }
        }
    }

    fn take_inflated(&mut self) -> Result<Option<Found>, PerfDataError> {
        let Some(inflate) = &mut self.inflate else {
            return Ok(None);
        };
        let Some((head, rest)) = inflate.ready().split_first_chunk() else {
            return Ok(None);
        };
        let rest = rest.len();
        let head = *head;
        let head = self.head(head, self.at, true)?;
        if rest < head.body {
            return Ok(None);
        }
        let Some(inflate) = &mut self.inflate else {
            return Ok(None);
        };
        let mut record = std::mem::take(&mut self.record);
        record.clear();
        record.extend_from_slice(&inflate.ready()[HEAD_BYTES..HEAD_BYTES + head.body]);
        inflate.consume(HEAD_BYTES + head.body);
        let nested = [COMPRESSED, COMPRESSED_2, AUXTRACE, TRACING_DATA].contains(&head.kind);
        let found = if nested {
            Err(self.broken("a record is compressed that never is"))
        } else {
            self.record(head, &record)
        };
        self.record = record;
        found.map(Some)
    }

    fn record(&mut self, head: Head, body: &[u8]) -> Result<Found, PerfDataError> {
        let short = PerfDataError::damaged(self.at, "a record is shorter than its kind demands");
        match head.kind {
            SAMPLE => self.sample(body),
            ..USER_KINDS => self.kernel_record(head, body),
            ROUND => Ok(self.mark()),
            COMPRESSED => Ok(self.compressed(body)),
            COMPRESSED_2 => {
                let mut from = Cursor::new(body, self.order);
                let bytes = from.u64().and_then(|bytes| usize::try_from(bytes).ok());
                let piece = bytes.and_then(|bytes| from.take(bytes)).ok_or(short)?;
                Ok(self.compressed(piece))
            }
            _ => {
                let known = self.perf_record(head.kind, body)?;
                known.map(|()| Found::Nothing).ok_or(short)
            }
        }
    }

    fn compressed(&mut self, piece: &[u8]) -> Found {
        self.inflate.get_or_insert_with(Inflate::new).feed(piece);
        Found::Nothing
    }

    /// A mark holds for what was compressed before it, too; so it waits until that is out.
    fn mark(&mut self) -> Found {
        let Some(inflate) = &self.inflate else {
            return Found::Item(Item::Round);
        };
        let behind = inflate.behind();
        if self.marks.len() < MARKS_MAX && self.marks.back() != Some(&behind) {
            self.marks.push_back(behind);
        }
        Found::Nothing
    }

    fn sample(&mut self, body: &[u8]) -> Result<Found, PerfDataError> {
        let short = "a sample is shorter than its event demands";
        match self.events.of_sample(body, self.order) {
            Owner::Event(position) => {
                let from = Cursor::new(body, self.order);
                let event = self.events.list.get(position);
                let sample = event.and_then(|event| PerfSample::parse(from, event, position));
                let mut sample = sample.ok_or(PerfDataError::damaged(self.at, short))?;
                sample.cpu = sample.cpu.or_else(|| self.events.cpu_of(sample.id));
                Ok(Found::Item(Item::Sample(sample)))
            }
            Owner::Unknown => Ok(Found::Item(Item::Stray)),
            Owner::Short => Err(PerfDataError::damaged(self.at, short)),
            Owner::Untold => Err(self.untold()),
        }
    }

    const fn untold(&self) -> PerfDataError {
        PerfDataError::Unsupported {
            offset: self.at,
            what: "records of events that differ and cannot be told apart",
            remedy: "record with `--sample-identifier`",
        }
    }

    /// Records that the kernel writes, and perf in its manner.
    fn kernel_record(&mut self, head: Head, body: &[u8]) -> Result<Found, PerfDataError> {
        const OF_USE: [u32; 8] = [MMAP, LOST, COMM, EXIT, THROTTLE, FORK, MMAP2, LOST_SAMPLES];
        if !OF_USE.contains(&head.kind) {
            return Ok(Found::Nothing);
        }
        let short = PerfDataError::damaged(self.at, "a record is shorter than its kind demands");
        let position = match self.events.of_other(body, self.order) {
            Owner::Event(position) => position,
            Owner::Unknown => return Ok(Found::Nothing),
            Owner::Short => return Err(short),
            Owner::Untold => return Err(self.untold()),
        };
        let Some(event) = self.events.list.get(position) else {
            return Ok(Found::Nothing);
        };
        let (body, trailer) = Trailer::split(body, event, self.order).ok_or(short)?;
        let from = Cursor::new(body, self.order);
        let found = match head.kind {
            MMAP | MMAP2 => self.mapping(from).map(|()| None),
            THROTTLE => Some(Some(Item::Throttled)),
            _ => task_record(head, from, trailer).map(Some),
        };
        let short = PerfDataError::damaged(self.at, "a record is shorter than its kind demands");
        Ok(found.ok_or(short)?.map_or(Found::Nothing, Found::Item))
    }

    /// Process, thread, start, length: of a program's mapping they are multiples of the page.
    fn mapping(&mut self, mut from: Cursor<'_>) -> Option<()> {
        let pid = from.u32()?;
        from.u32()?;
        let (start, length) = (from.u64()?, from.u64()?);
        let of_program = pid != u32::MAX && pid != 0 && start >> 63 == 0;
        let pages = 12..=16;
        let zeros = (start | length).trailing_zeros();
        if of_program && length > 0 && zeros >= *pages.start() {
            let granule = 1 << zeros.min(*pages.end());
            self.granule = Some(self.granule.map_or(granule, |known| known.min(granule)));
        }
        Some(())
    }

    /// Records that perf writes itself; none if one is too short.
    fn perf_record(&mut self, kind: u32, body: &[u8]) -> Result<Option<()>, PerfDataError> {
        let mut from = Cursor::new(body, self.order);
        match kind {
            HEADER_ATTR => return self.attr_record(body),
            EVENT_UPDATE => return Ok(features::update(from, &mut self.events)),
            ID_INDEX => return Ok(self.id_index(from)),
            HEADER_FEATURE => {
                let Some(feature) = from.u64() else {
                    return Ok(None);
                };
                let known = features::read(feature, from, &mut self.machine, &mut self.events);
                if known.is_none() && features::wanted(feature) {
                    let note = format!("feature {feature} at offset {} is left out", self.at);
                    if self.notes.len() < NOTES_MAX {
                        self.notes.push(note);
                    }
                }
            }
            // What these announce follows outside of the record.
            AUXTRACE => match from.u64() {
                Some(bytes) => self.pass(bytes)?,
                None => return Ok(None),
            },
            TRACING_DATA => match from.u32() {
                Some(bytes) => self.pass(u64::from(bytes).next_multiple_of(8))?,
                None => return Ok(None),
            },
            _ => {}
        }
        Ok(Some(()))
    }

    fn pass(&mut self, bytes: u64) -> Result<(), PerfDataError> {
        let left = self
            .end
            .map_or(u64::MAX, |end| end.saturating_sub(self.input.position()));
        if bytes > left {
            let reason = "what follows a record reaches beyond the end of the records";
            return Err(PerfDataError::damaged(self.at, reason));
        }
        self.input.pass(bytes)
    }

    fn attr_record(&mut self, body: &[u8]) -> Result<Option<()>, PerfDataError> {
        let mut from = Cursor::new(body, self.order);
        let size = from.u32().and_then(|_kind| from.u32());
        let Some(size) = size.and_then(|size| usize::try_from(size).ok()) else {
            return Ok(None);
        };
        let Some((attr, ids)) = body.split_at_checked(size) else {
            return Ok(None);
        };
        let event = self.events.list.len();
        self.add_event(attr, self.at)?;
        self.identify(event, ids, self.at)?;
        Ok(Some(()))
    }

    /// A number, then of each id: itself, a number of perf's, processor, thread.
    fn id_index(&mut self, mut from: Cursor<'_>) -> Option<()> {
        let count = from.u64()?;
        for _ in 0..count {
            let id = from.u64()?;
            from.u64()?;
            let cpu = from.u64()?;
            from.u64()?;
            if let Ok(cpu) = u32::try_from(cpu)
                && cpu != u32::MAX
            {
                self.events.locate(id, cpu);
            }
        }
        Some(())
    }
}

/// Records about threads and losses; none if one is too short.
fn task_record(head: Head, mut from: Cursor<'_>, trailer: Trailer) -> Option<Item> {
    let time = trailer.time;
    Some(match head.kind {
        LOST => {
            from.u64()?;
            let count = from.u64()?;
            Item::Lost { time, count }
        }
        LOST_SAMPLES => Item::Lost {
            time,
            count: from.u64()?,
        },
        COMM => Item::Named {
            time,
            pid: from.u32()?,
            tid: from.u32()?,
            name: text(from.take(from.left())?, NAME_BYTES_MAX),
            exec: head.misc & MISC_COMM_EXEC != 0,
        },
        _ => {
            let (pid, parent) = (from.u32()?, from.u32()?);
            let tid = from.u32()?;
            from.u32()?;
            let time = from.u64()?;
            if head.kind == EXIT {
                Item::Exited { time, pid, tid }
            } else {
                Item::Forked {
                    time,
                    pid,
                    tid,
                    parent,
                }
            }
        }
    })
}

/// Most notes about one file.
const NOTES_MAX: usize = 16;

// Kinds of records, from `include/uapi/linux/perf_event.h` and perf's `event.h`.
const MMAP: u32 = 1;
const LOST: u32 = 2;
const COMM: u32 = 3;
const EXIT: u32 = 4;
const THROTTLE: u32 = 5;
const FORK: u32 = 7;
const SAMPLE: u32 = 9;
const MMAP2: u32 = 10;
const LOST_SAMPLES: u32 = 13;
/// Kinds from here on are perf's own.
const USER_KINDS: u32 = 64;
const HEADER_ATTR: u32 = 64;
const TRACING_DATA: u32 = 66;
const ROUND: u32 = 68;
const ID_INDEX: u32 = 69;
const AUXTRACE: u32 = 71;
const EVENT_UPDATE: u32 = 78;
const HEADER_FEATURE: u32 = 80;
const COMPRESSED: u32 = 81;
const COMPRESSED_2: u32 = 83;
/// On a name: it came with `exec`.
const MISC_COMM_EXEC: u16 = 1 << 13;
