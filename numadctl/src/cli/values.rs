//! Values of flags, and what is expected where something else was typed.

/// A length of time; a bare number is in seconds.
pub(super) fn milliseconds(text: &str) -> Result<u64, String> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let unit = match unit {
        "ms" => Some(1),
        "" | "s" => Some(1_000),
        "m" => Some(60_000),
        "h" => Some(3_600_000),
        _ => None,
    };
    let number: Option<u64> = number.parse().ok();
    let length = number
        .zip(unit)
        .and_then(|(number, unit)| number.checked_mul(unit));
    length
        .filter(|&length| length > 0)
        .ok_or_else(|| "expected a length of time such as 500ms, 60s, 5m or 1h".to_owned())
}

/// The same for a look at a program: half of it is recorded, a day at most.
pub(super) fn up_to_a_day(text: &str) -> Result<u64, String> {
    const DAY_MS: u64 = 86_400_000;
    let length = milliseconds(text)?;
    let fits = (2..=DAY_MS).contains(&length).then_some(length);
    fits.ok_or_else(|| "expected a length of time from 2ms to 24h".to_owned())
}

/// The number of a process.
pub(super) fn process(text: &str) -> Result<u32, String> {
    let number = text.parse().ok().filter(|&pid| pid > 0);
    number.ok_or_else(|| "expected the number of a process".to_owned())
}

/// The same where there is a flag for names.
pub(super) fn process_or_name(text: &str) -> Result<u32, String> {
    process(text).map_err(|text| format!("{text}; `--command NAME` finds it by name"))
}

/// What is set, and to what.
pub(super) fn key_and_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("expected KEY=VALUE".to_owned()),
    }
}
