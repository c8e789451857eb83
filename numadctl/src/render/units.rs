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

/// A date in UTC, as in `2026-11-23 04:10`.
#[must_use]
pub fn date(unix_s: u64) -> String {
    let (days, seconds) = (unix_s / 86_400, unix_s % 86_400);
    // Years that begin in March, in eras of 400: the leap day is the last of its year.
    let day = days + 719_468;
    let (era, of_era) = (day / 146_097, day % 146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let (month, later) = match month {
        0..10 => (month + 3, 0),
        _ => (month - 9, 1),
    };
    format!(
        "{:04}-{month:02}-{day:02} {:02}:{:02}",
        year + era * 400 + later,
        seconds / 3600,
        seconds / 60 % 60
    )
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

/// A count with its noun: `1 thread`, `2 threads`, `2 processes`, `2 context switches`.
#[must_use]
pub fn count(number: u64, noun: &str) -> String {
    let plural = match noun {
        _ if number == 1 => "",
        hissing if hissing.ends_with("ss") || hissing.ends_with("ch") => "es",
        _ => "s",
    };
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
    fn one_is_singular() {
        for (number, noun, text) in [
            (0, "thread", "0 threads"),
            (1, "thread", "1 thread"),
            (1, "process", "1 process"),
            (2, "process", "2 processes"),
            (3, "context switch", "3 context switches"),
            (4, "memory access", "4 memory accesses"),
        ] {
            assert_eq!(count(number, noun), text);
        }
    }

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
    fn dates_follow_the_calendar() {
        for (unix_s, text) in [
            (0, "1970-01-01 00:00"),
            (951_782_399, "2000-02-28 23:59"),
            (951_782_400, "2000-02-29 00:00"),
            (951_868_800, "2000-03-01 00:00"),
            (1_700_000_000, "2023-11-14 22:13"),
            (4_107_542_400, "2100-03-01 00:00"),
        ] {
            assert_eq!(date(unix_s), text);
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
