//! Numbers as people read them.

/// Bytes, as in `11.2 MiB`.
#[must_use]
pub fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if count < 1024 {
        return format!("{count} B");
    }
    let mut tenths = u128::from(count) * 10 / 1024;
    let mut unit = 0;
    while tenths >= 10_240 && unit + 1 < UNITS.len() {
        tenths /= 1024;
        unit += 1;
    }
    format!("{}.{} {}", tenths / 10, tenths % 10, UNITS[unit])
}

/// A length of time, as in `3 h 12 min`; two units at most.
#[must_use]
pub fn seconds(seconds: f64) -> String {
    if !seconds.is_finite() || seconds < 0.0 {
        return "?".to_owned();
    }
    if seconds < 60.0 {
        return format!("{seconds:.1} s");
    }
    let whole =
        std::time::Duration::try_from_secs_f64(seconds).map_or(u64::MAX, |span| span.as_secs());
    let (minutes, hours, days) = (whole / 60, whole / 3600, whole / 86_400);
    match (days, hours) {
        (0, 0) => format!("{minutes} min {} s", whole % 60),
        (0, _) => format!("{hours} h {} min", minutes % 60),
        (_, _) => format!("{days} d {} h", hours % 24),
    }
}

/// Nanoseconds, as in `1.25 ms`.
#[must_use]
pub fn nanoseconds(count: u64) -> String {
    let (unit, name) = match count {
        0..1_000 => return format!("{count} ns"),
        1_000..1_000_000 => (1_000, "us"),
        1_000_000..1_000_000_000 => (1_000_000, "ms"),
        _ => (1_000_000_000, "s"),
    };
    format!("{}.{:02} {name}", count / unit, count % unit * 100 / unit)
}

/// A count with its noun: `1 thread`, `2 threads`.
#[must_use]
pub fn count(number: u64, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

/// A share from 0 to 1, as in `93 %`; a dash while unknown.
#[must_use]
pub fn share(share: Option<f64>) -> String {
    share.map_or_else(|| "-".to_owned(), |share| format!("{:.0} %", share * 100.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_one_decimal() {
        for (count, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (11_744_051, "11.1 MiB"),
            (1 << 40, "1.0 TiB"),
            (u64::MAX, "16383.9 PiB"),
        ] {
            assert_eq!(bytes(count), text);
        }
    }

    #[test]
    fn times_have_two_units() {
        for (time, text) in [
            (0.0, "0.0 s"),
            (59.94, "59.9 s"),
            (61.0, "1 min 1 s"),
            (11_520.0, "3 h 12 min"),
            (180_000.0, "2 d 2 h"),
            (f64::NAN, "?"),
            (-1.0, "?"),
            (1e300, "213503982334601 d 7 h"),
        ] {
            assert_eq!(seconds(time), text);
        }
        for (time, text) in [
            (999, "999 ns"),
            (1_250_000, "1.25 ms"),
            (2_000_000_000, "2.00 s"),
        ] {
            assert_eq!(nanoseconds(time), text);
        }
    }
}
