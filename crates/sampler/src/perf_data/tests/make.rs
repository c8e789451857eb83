//! Makes files of perf, byte by byte from its documentation, in either byte order.

use crate::perf_data::attr;
use crate::perf_data::bytes::Order;

/// How the file is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    File,
    Pipe,
}

/// Puts numbers one after the other.
#[derive(Clone, Debug)]
pub(super) struct Writer {
    order: Order,
    pub(super) bytes: Vec<u8>,
}

/// An event, as far as tests differ in it.
#[derive(Clone, Debug, Default)]
pub(super) struct Attr {
    pub(super) sample_type: u64,
    pub(super) read_format: u64,
    pub(super) branch_sample_type: u64,
    pub(super) user_registers: u64,
    pub(super) interrupt_registers: u64,
}

/// What is in a file beside its records.
#[derive(Clone, Debug, Default)]
pub(super) struct File {
    pub(super) events: Vec<(Attr, Vec<u64>)>,
    /// Number, KiB, processors.
    pub(super) nodes: Vec<(u32, u64, &'static str)>,
    pub(super) packages: Vec<&'static str>,
    pub(super) cores: Vec<&'static str>,
    /// Of every event; without one the file has no features.
    pub(super) name: &'static str,
}

const ATTR_BYTES: u32 = 112;

impl Writer {
    pub(super) const fn new(order: Order) -> Self {
        Self {
            order,
            bytes: Vec::new(),
        }
    }

    pub(super) fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend(bytes);
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.raw(bytes);
    }

    pub(super) fn u16(&mut self, value: u16) {
        let bytes = match self.order {
            Order::Little => value.to_le_bytes(),
            Order::Big => value.to_be_bytes(),
        };
        self.raw(&bytes);
    }

    pub(super) fn u32(&mut self, value: u32) {
        let bytes = match self.order {
            Order::Little => value.to_le_bytes(),
            Order::Big => value.to_be_bytes(),
        };
        self.raw(&bytes);
    }

    pub(super) fn u64(&mut self, value: u64) {
        let bytes = match self.order {
            Order::Little => value.to_le_bytes(),
            Order::Big => value.to_be_bytes(),
        };
        self.raw(&bytes);
    }

    /// Length with padding, then the text and zeros, as perf's header has it.
    fn text(&mut self, text: &str) {
        let length = (text.len() + 1).next_multiple_of(64);
        self.u32(u32::try_from(length).unwrap());
        let end = self.bytes.len() + length;
        self.raw(text.as_bytes());
        self.bytes.resize(end, 0);
    }

    fn texts(&mut self, texts: &[&str]) {
        self.u32(u32::try_from(texts.len()).unwrap());
        texts.iter().for_each(|text| self.text(text));
    }

    /// A record: kind, flags and what `fill` puts in.
    pub(super) fn record(&mut self, kind: u32, misc: u16, fill: impl FnOnce(&mut Self)) {
        let mut body = Self::new(self.order);
        fill(&mut body);
        self.u32(kind);
        self.u16(misc);
        self.u16(u16::try_from(8 + body.bytes.len()).unwrap());
        self.raw(&body.bytes);
    }

    fn attr(&mut self, event: &Attr) {
        self.u32(4);
        self.u32(ATTR_BYTES);
        self.u64(0x1cd);
        self.u64(8); // sample_period
        self.u64(event.sample_type);
        self.u64(event.read_format);
        // sample_id_all is the nineteenth of the flags, counted from the first byte's first bit,
        // which is its lowest or highest.
        let flags = match self.order {
            Order::Little => 1 << 18,
            Order::Big => 1 << (63 - 18),
        };
        self.u64(flags);
        self.raw(&[0; 24]);
        self.u64(event.branch_sample_type);
        self.u64(event.user_registers);
        self.u64(0); // sample_stack_user, clockid
        self.u64(event.interrupt_registers);
        self.u64(0); // aux_watermark, sample_max_stack
    }

    /// A sample with every field that its event has, in the order of the kernel.
    pub(super) fn all_fields(&mut self, event: &Attr, filled: bool) {
        let some = u64::from(filled);
        [77, 1].into_iter().for_each(|word| self.u64(word));
        self.u32(2);
        self.u32(3);
        [4, 5, 77, 6].into_iter().for_each(|word| self.u64(word));
        self.u32(7);
        self.u32(0);
        self.u64(8);
        self.counts(event.read_format, some);
        self.words(2 * some);
        // Raw data: with its length it fills whole words.
        self.u32(if filled { 12 } else { 4 });
        self.raw(&[0xff; 12][..if filled { 12 } else { 4 }]);
        self.u64(some);
        self.u64(99); // hw_idx
        self.raw(&vec![0xff; 32 * usize::from(filled)]);
        self.u64(2 * some);
        self.raw(&vec![0xff; 24 * usize::from(filled)]);
        self.u64(16 * some);
        self.raw(&vec![0xff; 24 * usize::from(filled)]);
        self.u64(0x0101_0000_0160); // weight
        [10, 1].into_iter().for_each(|word| self.u64(word));
        self.u64(some);
        self.raw(&vec![0xff; 16 * usize::from(filled)]);
        [11, 12, 4096, 8192]
            .into_iter()
            .for_each(|word| self.u64(word));
        self.words(some);
    }

    /// How many, then so many words.
    fn words(&mut self, count: u64) {
        self.u64(count);
        (0..count).for_each(|_| self.u64(u64::MAX));
    }

    fn counts(&mut self, format: u64, some: u64) {
        let has = |bit: u32| format >> bit & 1;
        let group = has(3) != 0;
        let times = has(0) + has(1);
        let each = 1 + has(2) + has(4);
        let words = if group {
            self.u64(3 * some);
            times + 3 * some * each
        } else {
            times + each
        };
        (0..words).for_each(|_| self.u64(u64::MAX));
    }
}

impl Attr {
    /// The fields that records other than samples end in.
    pub(super) fn trailer(&self, body: &mut Writer, (pid, tid): (u32, u32), time: u64, id: u64) {
        let has = |bit: u64| self.sample_type & bit != 0;
        if has(attr::TID) {
            body.u32(pid);
            body.u32(tid);
        }
        for (bit, word) in [
            (attr::TIME, time),
            (attr::ID, id),
            (attr::STREAM_ID, id),
            (attr::CPU, 0),
            (attr::IDENTIFIER, id),
        ] {
            if has(bit) {
                body.u64(word);
            }
        }
    }
}

impl File {
    /// The whole file around these records.
    pub(super) fn finish(&self, form: Form, records: &Writer) -> Vec<u8> {
        match form {
            Form::File => self.file(records),
            Form::Pipe => self.pipe(records),
        }
    }

    fn pipe(&self, records: &Writer) -> Vec<u8> {
        let mut out = Writer::new(records.order);
        out.u64(u64::from_le_bytes(*b"PERFILE2"));
        out.u64(16);
        for (event, ids) in &self.events {
            out.record(64, 0, |body| {
                body.attr(event);
                ids.iter().for_each(|id| body.u64(*id));
            });
        }
        for (feature, bytes) in self.features(records.order) {
            out.record(80, 0, |body| {
                body.u64(feature);
                body.raw(&bytes);
            });
        }
        out.raw(&records.bytes);
        out.bytes
    }

    fn file(&self, records: &Writer) -> Vec<u8> {
        let mut ids = Writer::new(records.order);
        let mut attrs = Writer::new(records.order);
        for (event, own) in &self.events {
            attrs.attr(event);
            attrs.u64(104 + ids.bytes.len() as u64);
            attrs.u64(8 * own.len() as u64);
            own.iter().for_each(|id| ids.u64(*id));
        }
        let features = self.features(records.order);
        let (ids_end, attrs_bytes) = (104 + ids.bytes.len() as u64, attrs.bytes.len() as u64);
        let mut out = Writer::new(records.order);
        out.u64(u64::from_le_bytes(*b"PERFILE2"));
        out.u64(104);
        out.u64(u64::from(ATTR_BYTES) + 16);
        for section in [
            (ids_end, attrs_bytes),
            (ids_end + attrs_bytes, records.bytes.len() as u64),
            (0, 0),
        ] {
            out.u64(section.0);
            out.u64(section.1);
        }
        out.u64(features.iter().fold(0, |bits, (bit, _)| bits | 1 << bit));
        out.raw(&[0; 24]);
        for part in [&ids, &attrs, records] {
            out.raw(&part.bytes);
        }
        let mut start = (out.bytes.len() + 16 * features.len()) as u64;
        for (_, bytes) in &features {
            out.u64(start);
            out.u64(bytes.len() as u64);
            start += bytes.len() as u64;
        }
        for (_, bytes) in &features {
            out.raw(bytes);
        }
        out.bytes
    }

    /// Features by number: host, architecture, events, processors, nodes.
    fn features(&self, order: Order) -> Vec<(u64, Vec<u8>)> {
        if self.name.is_empty() {
            return Vec::new();
        }
        let feature = |number, fill: &dyn Fn(&mut Writer)| {
            let mut out = Writer::new(order);
            fill(&mut out);
            (number, out.bytes)
        };
        vec![
            feature(3, &|out| out.text("a-name-that-is-nobodys-business")),
            feature(6, &|out| out.text("x86_64")),
            feature(12, &|out| {
                out.u32(u32::try_from(self.events.len()).unwrap());
                out.u32(ATTR_BYTES);
                for (event, ids) in &self.events {
                    out.attr(event);
                    out.u32(u32::try_from(ids.len()).unwrap());
                    out.text(self.name);
                    ids.iter().for_each(|id| out.u64(*id));
                }
            }),
            feature(13, &|out| {
                out.texts(&self.packages);
                out.texts(&self.cores);
            }),
            feature(14, &|out| {
                out.u32(u32::try_from(self.nodes.len()).unwrap());
                for (id, kib, cpus) in &self.nodes {
                    out.u32(*id);
                    out.u64(*kib);
                    out.u64(0);
                    out.text(cpus);
                }
            }),
        ]
    }
}
