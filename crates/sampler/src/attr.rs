//! What the kernel is asked for when an event is opened: `perf_event_attr`, as a value.
//!
//! Pure, so that what each source asks for on each machine is held by tests, field by field, against
//! what `perf record` asks for. Fields that no source of ours uses are left out and zero.

use crate::decode::Field;

/// An event, as the kernel is asked for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventAttr {
    /// Which kind of counter: the number in the `type` file of its directory.
    pub kind: u32,
    /// Which event of it: `config`, `config1`, `config2`, `config3`.
    pub config: [u64; 4],
    /// Events for each sample; 0 if it only counts.
    pub period: u64,
    /// Fields of a sample, the bits of [`Field`].
    pub sample_type: u64,
    /// What reading the event gives, the bits `READ_*`.
    pub read_format: u64,
    /// What else is wanted, the bits `FLAG_*`.
    pub flags: u64,
    /// How precisely a sample must name its instruction: 0 any, 1 at a constant distance, 2 at none
    /// if possible, 3 at none.
    pub precise: u8,
    /// The clock of its times, if not the kernel's own of events.
    pub clock: Option<i32>,
}

/// The kinds that are the same everywhere.
pub const KIND_SOFTWARE: u32 = 1;

/// Page faults, of the kind software.
pub const SOFTWARE_PAGE_FAULTS: u64 = 2;

/// Nothing, of the kind software: an event that only writes records.
pub const SOFTWARE_DUMMY: u64 = 9;

/// Reading gives the time since the event was enabled.
pub const READ_ENABLED: u64 = 1;
/// Reading gives the time that it was counted; less than enabled if counters are shared in turns.
pub const READ_RUNNING: u64 = 1 << 1;
/// Reading gives its id.
pub const READ_ID: u64 = 1 << 2;
/// Reading gives how many of its records found no room (Linux 6.0).
pub const READ_LOST: u64 = 1 << 4;

/// Not running until it is enabled.
pub const FLAG_DISABLED: u64 = 1;
/// Nothing of the kernel.
pub const FLAG_EXCLUDE_KERNEL: u64 = 1 << 5;
/// Nothing of a hypervisor.
pub const FLAG_EXCLUDE_HYPERVISOR: u64 = 1 << 6;
/// Records of names that threads take.
pub const FLAG_NAMES: u64 = 1 << 9;
/// Records of threads that are made and end.
pub const FLAG_TASKS: u64 = 1 << 13;
/// Whoever waits is woken by bytes, not by samples. With zero bytes: by half of the ring.
pub const FLAG_WATERMARK: u64 = 1 << 14;
/// Every record ends in the fields that say when and where.
pub const FLAG_TRAILERS: u64 = 1 << 18;
/// Nothing of a virtual machine's inside: its addresses are no process's of ours.
pub const FLAG_EXCLUDE_GUEST: u64 = 1 << 20;
/// Records of who runs on the processor.
pub const FLAG_SWITCHES: u64 = 1 << 26;

const FLAG_USE_CLOCK: u64 = 1 << 25;
const PRECISE_SHIFT: u32 = 15;

/// Bytes of the structure: that of Linux 6.3, the first with `config3`. An older kernel takes it as
/// long as what it does not know is zero.
pub const ATTR_BYTES: usize = 136;

impl EventAttr {
    /// Whether samples carry a field.
    #[must_use]
    pub fn carries(&self, field: Field) -> bool {
        self.sample_type & field.bit() != 0
    }

    /// The same with a field more or less.
    #[must_use]
    pub fn with(mut self, field: Field, wanted: bool) -> Self {
        self.sample_type &= !field.bit();
        if wanted {
            self.sample_type |= field.bit();
        }
        self
    }

    /// The structure as the kernel reads it.
    ///
    /// The flags are a bit field in C, which big-endian machines lay out from the other end; no
    /// processor that has any of our events is one.
    #[must_use]
    pub fn to_words(self) -> [u64; ATTR_BYTES / 8] {
        let mut words = [0; ATTR_BYTES / 8];
        let size = u64::try_from(ATTR_BYTES).unwrap_or_default();
        words[0] = u64::from(self.kind) | size << 32;
        words[1] = self.config[0];
        words[2] = self.period;
        words[3] = self.sample_type;
        words[4] = self.read_format;
        words[5] = self.flags | u64::from(self.precise & 3) << PRECISE_SHIFT;
        words[7] = self.config[1];
        words[8] = self.config[2];
        if let Some(clock) = self.clock {
            words[5] |= FLAG_USE_CLOCK;
            words[11] = u64::from(clock.cast_unsigned()) << 32;
        }
        words[16] = self.config[3];
        words
    }
}

/// The bits of `sample_type` of these fields.
#[must_use]
pub fn fields(fields: &[Field]) -> u64 {
    fields.iter().fold(0, |bits, field| bits | field.bit())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Offsets and values written down from `include/uapi/linux/perf_event.h`.
    #[test]
    #[cfg(target_endian = "little")]
    fn every_field_is_where_the_kernel_reads_it() {
        let attr = EventAttr {
            kind: 0x0102_0304,
            config: [0x11, 0x22, 0x33, 0x44],
            period: 0x55,
            sample_type: 0x66,
            read_format: 0x77,
            flags: FLAG_DISABLED | FLAG_EXCLUDE_KERNEL | FLAG_TRAILERS,
            precise: 2,
            clock: Some(1),
        };
        let bytes: Vec<u8> = attr
            .to_words()
            .iter()
            .flat_map(|w| w.to_le_bytes())
            .collect();
        assert_eq!(bytes.len(), 136);
        let mut expected = vec![0u8; 136];
        expected[..4].copy_from_slice(&[4, 3, 2, 1]);
        expected[4] = 136;
        for (at, value) in [
            (8, 0x11),
            (16, 0x55),
            (24, 0x66),
            (32, 0x77),
            (56, 0x22),
            (64, 0x33),
        ] {
            expected[at] = value;
        }
        // disabled, exclude_kernel | precise_ip = 2 | sample_id_all | use_clockid
        (expected[40], expected[42], expected[43]) = (0x21, 0x05, 0x02);
        (expected[92], expected[128]) = (1, 0x44);
        assert_eq!(bytes, expected);
    }

    #[test]
    fn fields_come_and_go() {
        let attr = EventAttr::default()
            .with(Field::Addr, true)
            .with(Field::Ip, true);
        assert!(attr.carries(Field::Addr) && !attr.carries(Field::Time));
        assert_eq!(
            attr.with(Field::Addr, false).sample_type,
            fields(&[Field::Ip])
        );
    }
}
