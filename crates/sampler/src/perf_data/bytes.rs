//! Numbers in either byte order, taken from the front of some bytes.

/// Which end of a number comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Little,
    Big,
}

impl Order {
    pub(super) const fn u16(self, bytes: [u8; 2]) -> u16 {
        match self {
            Self::Little => u16::from_le_bytes(bytes),
            Self::Big => u16::from_be_bytes(bytes),
        }
    }

    pub(super) const fn u32(self, bytes: [u8; 4]) -> u32 {
        match self {
            Self::Little => u32::from_le_bytes(bytes),
            Self::Big => u32::from_be_bytes(bytes),
        }
    }

    pub(super) const fn u64(self, bytes: [u8; 8]) -> u64 {
        match self {
            Self::Little => u64::from_le_bytes(bytes),
            Self::Big => u64::from_be_bytes(bytes),
        }
    }
}

/// Bytes and how far they have been taken. Every method gives none when too few are left.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor<'a> {
    rest: &'a [u8],
    order: Order,
}

impl<'a> Cursor<'a> {
    pub(super) const fn new(rest: &'a [u8], order: Order) -> Self {
        Self { rest, order }
    }

    pub(super) const fn left(&self) -> usize {
        self.rest.len()
    }

    pub(super) fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(taken)
    }

    fn chunk<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.rest.split_first_chunk::<N>()?;
        self.rest = rest;
        Some(*taken)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.chunk().map(|bytes| self.order.u32(bytes))
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        self.chunk().map(|bytes| self.order.u64(bytes))
    }

    /// Passes over `count` things of `each` bytes.
    pub(super) fn skip(&mut self, count: u64, each: u64) -> Option<()> {
        let bytes = usize::try_from(count.checked_mul(each)?).ok()?;
        self.take(bytes).map(|_| ())
    }

    /// A text as perf's header has it: its length with padding, then bytes that end at a zero.
    pub(super) fn text(&mut self) -> Option<String> {
        let length = usize::try_from(self.u32()?).ok()?;
        self.take(length).map(|bytes| text(bytes, TEXT_BYTES_MAX))
    }
}

/// Longest text kept; lists of a thousand processors, one by one, have 4 KiB.
const TEXT_BYTES_MAX: usize = 64 << 10;

/// What comes before the first zero, at most so many bytes of it; what is no UTF-8 is replaced.
pub(super) fn text(bytes: &[u8], bytes_max: usize) -> String {
    let end = bytes.iter().position(|byte| *byte == 0);
    let end = end.unwrap_or(bytes.len()).min(bytes_max);
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}
