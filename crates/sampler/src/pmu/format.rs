//! Where the value of a term goes: `config:0-7,32-35`.

use std::fmt;

use super::files::shown;

/// Words of an event's attribute that terms go to: `config` to `config3`.
pub const WORDS: usize = 4;

/// Where the value of a term goes in an event's attribute.
///
/// The lowest bit of the value goes to the lowest bit of the mask, and so on: in whatever order the
/// kernel lists the ranges, perf fills them from below.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    /// Which word: 0 is `config`, 1 `config1`, at most 3.
    pub word: usize,
    /// Which bits of it, at least one.
    pub mask: u64,
}

/// A text that says nowhere where a value goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormatError {
    /// The text.
    pub text: String,
}

impl fmt::Display for FormatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` is not a word from config to config3 with bits, as in `config:0-7,32-35`",
            shown(&self.text)
        )
    }
}

impl std::error::Error for FormatError {}

impl FormatError {
    /// Whether the text would be understood if an event had more words: `config4:0-63`.
    #[must_use]
    pub fn is_beyond(&self) -> bool {
        let Some((word, ranges)) = self.text.trim().split_once(':') else {
            return false;
        };
        let beyond = matches!(
            word.strip_prefix("config"),
            Some("4" | "5" | "6" | "7" | "8" | "9")
        );
        beyond && ranges.split(',').all(|range| bits(range).is_some())
    }
}

impl Format {
    /// Reads a format file.
    ///
    /// # Errors
    /// When the text names no word that we can set, or bits that no word has.
    pub fn parse(text: &str) -> Result<Self, FormatError> {
        let parsed = || {
            let (word, ranges) = text.trim().split_once(':')?;
            let word = match word.strip_prefix("config")? {
                "" => 0,
                "1" => 1,
                "2" => 2,
                "3" => 3,
                _ => return None,
            };
            let mut mask = 0;
            for range in ranges.split(',') {
                mask |= bits(range)?;
            }
            Some(Self { word, mask })
        };
        parsed().ok_or_else(|| FormatError {
            text: text.to_owned(),
        })
    }

    /// How many bits a value may have.
    #[must_use]
    pub const fn width(self) -> u32 {
        self.mask.count_ones()
    }

    /// The largest value.
    #[must_use]
    pub const fn largest(self) -> u64 {
        match self.width() {
            0 => 0,
            width => u64::MAX >> (64 - width),
        }
    }

    /// A value spread over the bits of the mask; none if it is too large for them.
    #[must_use]
    pub const fn place(self, value: u64) -> Option<u64> {
        if value > self.largest() {
            return None;
        }
        let (mut left, mut rest, mut placed) = (self.mask, value, 0);
        while left != 0 {
            let lowest = left & left.wrapping_neg();
            if rest & 1 != 0 {
                placed |= lowest;
            }
            rest >>= 1;
            left ^= lowest;
        }
        Some(placed)
    }

    /// The value that stands in the bits of the mask: what [`Format::place`] was given.
    #[must_use]
    pub const fn take(self, word: u64) -> u64 {
        let (mut left, mut value, mut bit) = (self.mask, 0, 1u64);
        while left != 0 {
            let lowest = left & left.wrapping_neg();
            if word & lowest != 0 {
                value |= bit;
            }
            bit = bit.wrapping_shl(1);
            left ^= lowest;
        }
        value
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("config")?;
        if self.word > 0 {
            write!(f, "{}", self.word)?;
        }
        let mut separator = ':';
        let mut bit = 0;
        while bit < 64 {
            let length = (self.mask >> bit).trailing_ones();
            match length {
                0 => {}
                1 => write!(f, "{separator}{bit}")?,
                _ => write!(f, "{separator}{bit}-{}", bit + length - 1)?,
            }
            if length > 0 {
                separator = ',';
            }
            bit += length.max(1);
        }
        Ok(())
    }
}

/// The bits of `7` or `0-7`.
fn bits(range: &str) -> Option<u64> {
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    let (first, last) = (bit(first)?, bit(last)?);
    (first <= last).then(|| (u64::MAX << first) & (u64::MAX >> (63 - last)))
}

fn bit(digits: &str) -> Option<u32> {
    // `+1` parses as a number too.
    let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|&bit| plain && bit < 64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, word: usize, mask: u64, canonical: &str) {
        let format = Format::parse(text).unwrap();
        assert_eq!(format, Format { word, mask });
        assert_eq!(format.to_string(), canonical);
        assert_eq!(Format::parse(canonical), Ok(format));
        for value in [0, 1, format.largest() / 2, format.largest()] {
            let placed = format.place(value).unwrap();
            assert_eq!(placed & !mask, 0);
            assert_eq!(format.take(placed | !mask), value);
        }
        if let Some(beyond) = format.largest().checked_add(1) {
            assert_eq!(format.place(beyond), None);
        }
    }

    #[test]
    fn formats_say_where_values_go() {
        check("config:0-7", 0, 0xff, "config:0-7");
        check("config:0-7,32-35\n", 0, 0xf_0000_00ff, "config:0-7,32-35");
        check("config:32-35,0-7", 0, 0xf_0000_00ff, "config:0-7,32-35");
        check("config1:0-15", 1, 0xffff, "config1:0-15");
        check("config:23", 0, 1 << 23, "config:23");
        check("config2:63", 2, 1 << 63, "config2:63");
        check("config3:0-63", 3, u64::MAX, "config3:0-63");
        check("config:0-7,21", 0, 0x20_00ff, "config:0-7,21");
        check("config:3,1,2", 0, 0b1110, "config:1-3");
    }

    #[test]
    fn split_values_are_filled_from_below() {
        let event = Format::parse("config:0-7,32-35").unwrap();
        assert_eq!(event.place(0x5cd), Some(0x5_0000_00cd));
        assert_eq!(event.place(0x1000), None);
        assert_eq!(event.largest(), 0xfff);
    }

    #[test]
    fn nonsense_is_refused_in_one_line() {
        for text in [
            "",
            "config",
            "config:",
            "config:7-0",
            "config:64",
            "config:0-64",
            "config4:0",
            "config9:1",
            "konfig:0",
            "config:a",
            "config:+1",
            "config:-1",
            "config:1-",
            "config:1,",
            "config::1",
            "config:99999999999",
            "config 1:0",
            "config:0-7\nconfig:8",
        ] {
            let error = Format::parse(text).unwrap_err().to_string();
            assert!(!error.contains('\n'), "{error}");
        }
    }

    #[test]
    fn words_of_newer_kernels_are_no_damage() {
        for (text, beyond) in [
            ("config4:0", true),
            ("config9:0-7,63\n", true),
            ("config4:64", false),
            ("config10:0", false),
            ("config:64", false),
            ("", false),
        ] {
            assert_eq!(
                Format::parse(text).unwrap_err().is_beyond(),
                beyond,
                "{text}"
            );
        }
    }
}
