//! `/proc/PID/maps`: ranges of addresses, what may be done with them, and what is behind them.

use std::io::BufRead as _;

use crate::error::ParseError;

/// One range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// First address.
    pub start: u64,
    /// First address after it.
    pub end: u64,
    /// May be written.
    pub write: bool,
    /// May be run.
    pub execute: bool,
    /// Writes are seen by others that map the same object.
    pub shared: bool,
    /// Where in the file the first address is, in bytes.
    pub offset: u64,
    /// The file's device, major and minor.
    pub device: (u32, u32),
    /// The file's inode on its device; 0 where there is no file.
    pub inode: u64,
    /// The file, or `[heap]`, `[stack]` and the like; empty for nothing named. Lossily decoded.
    pub name: String,
}

impl Mapping {
    /// Whether an address lies in it.
    #[must_use]
    pub const fn contains(&self, address: u64) -> bool {
        self.start <= address && address < self.end
    }
}

/// The lines of a file, which may be long: their ends are looked for many bytes at a time.
pub(crate) fn lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let from = rest;
        let taken = rest.skip_until(b'\n').ok().filter(|&taken| taken > 0)?;
        let line = &from[..taken];
        Some(line.strip_suffix(b"\n").unwrap_or(line))
    })
}

/// Reads all lines, which the kernel gives in ascending order.
///
/// # Errors
/// Names the line and the part that makes no sense.
pub fn parse(bytes: &[u8]) -> Result<Vec<Mapping>, ParseError> {
    lines(bytes)
        .zip(1..)
        .filter(|(line, _)| !line.is_empty())
        .map(|(line, number)| parse_line(line, number))
        .collect()
}

pub(crate) fn parse_line(line: &[u8], number: usize) -> Result<Mapping, ParseError> {
    // The name is the sixth field and may hold blanks.
    let mut fields = line.splitn(6, |&byte| byte == b' ');
    let mut next = |reason| {
        fields
            .next()
            .ok_or_else(|| ParseError::new(number, line, reason))
    };
    let range = next("has no range")?;
    let permissions = next("has no permissions")?;
    let offset = next("has no offset")?;
    let device = next("has no device")?;
    let inode = next("has no inode")?;
    let name = next("").unwrap_or_default().trim_ascii_start();
    let (start, end) = ends(range)
        .filter(|(_, rest)| rest.is_empty())
        .ok_or_else(|| ParseError::new(number, range, "is not a range"))?
        .0;
    let [_, write, execute, shared] = permissions else {
        return Err(ParseError::new(number, permissions, "is not four letters"));
    };
    Ok(Mapping {
        start,
        end,
        write: *write == b'w',
        execute: *execute == b'x',
        shared: *shared == b's',
        offset: hexadecimal(offset)
            .ok_or_else(|| ParseError::new(number, offset, "is not an offset"))?,
        device: device_of(device)
            .ok_or_else(|| ParseError::new(number, device, "is not a device"))?,
        inode: std::str::from_utf8(inode)
            .ok()
            .and_then(|text| text.parse().ok())
            .ok_or_else(|| ParseError::new(number, inode, "is not an inode"))?,
        name: String::from_utf8_lossy(name).into_owned(),
    })
}

fn hexadecimal(text: &[u8]) -> Option<u64> {
    u64::from_str_radix(std::str::from_utf8(text).ok()?, 16).ok()
}

fn device_of(text: &[u8]) -> Option<(u32, u32)> {
    let (major, minor) = std::str::from_utf8(text).ok()?.split_once(':')?;
    let number = |text| u32::from_str_radix(text, 16).ok();
    Some((number(major)?, number(minor)?))
}

/// The range that a line begins with, and what follows it.
pub(crate) fn ends(line: &[u8]) -> Option<((u64, u64), &[u8])> {
    let (start, rest) = address(line)?;
    let (end, rest) = address(rest.strip_prefix(b"-")?)?;
    (start < end).then_some(((start, end), rest))
}

/// The address that a text begins with, and what follows it: digit by digit, as there are two of
/// them in each of thousands of lines.
fn address(text: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0_u64;
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first()
        && let Some(digit) = char::from(byte).to_digit(16)
    {
        if value >> 60 != 0 {
            return None;
        }
        value = value << 4 | u64::from(digit);
        rest = after;
    }
    (rest.len() < text.len()).then_some((value, rest))
}

/// Each kind of line; the shared one is made up.
#[cfg(test)]
pub(crate) const KINDS: &str = "\
55b1a6a4f000-55b1a6a7e000 r--p 00000000 fe:00 1312                       /usr/bin/bash
55b1a6a7e000-55b1a6b3d000 r-xp 0002f000 fe:00 1312                       /usr/bin/bash
55b1d0f5c000-55b1d1057000 rw-p 00000000 00:00 0                          [heap]
7f0e1c000000-7f0e1c021000 rw-p 00000000 00:00 0
7f0e20000000-7f0e20001000 rw-s 00000000 00:01 2066                       /dev/zero (deleted)
ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]
";

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::shared::parse_shared;

    #[test]
    fn a_real_file_reads() {
        let maps = parse(include_bytes!("../fixtures/dash.maps")).unwrap();
        assert!(maps.windows(2).all(|pair| pair[0].end <= pair[1].start));
        assert!(
            maps.iter()
                .any(|map| map.name == "/usr/bin/dash" && map.execute)
        );
    }

    #[test]
    fn every_kind_of_line_reads() {
        let maps = parse(KINDS.as_bytes()).unwrap();
        assert_eq!(maps.len(), 6);
        assert!(maps[1].execute && !maps[1].write && maps[1].inode == 1312);
        assert_eq!(maps[2].name, "[heap]");
        assert!(maps[3].name.is_empty() && maps[3].write && !maps[3].shared);
        assert!(maps[4].shared && maps[4].name == "/dev/zero (deleted)");
        assert!(maps[5].contains(0xffff_ffff_ff60_0fff) && !maps[5].contains(u64::MAX));
    }

    #[test]
    fn place_and_device_are_read() {
        let maps = parse(KINDS.as_bytes()).unwrap();
        assert_eq!((maps[1].offset, maps[1].device), (0x2f000, (0xfe, 0)));
    }

    #[test]
    fn damage_is_named() {
        for (text, part) in [
            ("2-1 rw-p 0 0:0 0", "2-1"),
            ("1-2 rwp 0 0:0 0", "rwp"),
            ("1-2 rw-p g 0:0 0", "g"),
            ("1-2 rw-p 0 0 0", "0"),
            ("1-2 rw-p 0 0:0x 0", "0:0x"),
            ("1-2 rw-p 0 0:0 x", "x"),
            ("1-2 rw-p", "1-2 rw-p"),
        ] {
            assert_eq!(parse(text.as_bytes()).unwrap_err().part, part, "{text}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]
        #[test]
        fn never_panics_on_damage(cut in 0..KINDS.len(), at in 0..KINDS.len(), byte: u8) {
            let mut bytes = KINDS.as_bytes().to_vec();
            bytes[at] = byte;
            drop(parse(&bytes[..cut]));
            drop(parse_shared(&bytes[..cut], |_| true));
        }
    }
}
