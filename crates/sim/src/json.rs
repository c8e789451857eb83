//! Just enough JSON to write a report. Figures have six decimals, so that the same run gives the
//! same bytes everywhere.

use std::fmt::Write as _;

/// `{"name":value,...}` of values that are JSON already.
pub(crate) fn object(fields: &[(&str, String)]) -> String {
    let fields: Vec<String> = fields
        .iter()
        .map(|(name, value)| format!("{}:{value}", text(name)))
        .collect();
    format!("{{{}}}", fields.join(","))
}

/// `[item,...]` of items that are JSON already.
pub(crate) fn array(items: impl IntoIterator<Item = String>) -> String {
    let items: Vec<String> = items.into_iter().collect();
    format!("[{}]", items.join(","))
}

/// A quoted text.
pub(crate) fn text(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for letter in text.chars() {
        match letter {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            control if u32::from(control) < 0x20 => {
                // Writing to a string cannot fail.
                if write!(quoted, "\\u{:04x}", u32::from(control)).is_err() {
                    quoted.push('?');
                }
            }
            letter => quoted.push(letter),
        }
    }
    quoted.push('"');
    quoted
}

/// A number; what is none becomes `null`.
pub(crate) fn number(value: f64) -> String {
    if value.is_finite() {
        format!("{value:.6}")
    } else {
        "null".to_owned()
    }
}

/// A value that may be missing.
pub(crate) fn optional(value: Option<String>) -> String {
    value.unwrap_or_else(|| "null".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_quoted_and_figures_are_fixed() {
        assert_eq!(text("a\"b\\c\nd\u{1}é"), "\"a\\\"b\\\\c\\u000ad\\u0001é\"");
        assert_eq!(number(1.5), "1.500000");
        assert_eq!(number(f64::NAN), "null");
        let fields = [
            ("a", array([number(1.0), optional(None)])),
            ("b", text("x")),
        ];
        assert_eq!(object(&fields), "{\"a\":[1.000000,null],\"b\":\"x\"}");
    }
}
