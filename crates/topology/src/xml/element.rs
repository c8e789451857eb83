//! Attributes of elements, read strictly.

use std::str::FromStr;

use roxmltree::Node as Element;

use crate::ids::CpuId;
use crate::load::Reason;
use crate::set::CpuSet;

/// An error whose text may quote the file, but not at length.
pub(super) fn foreign(text: &str) -> Reason {
    /// Longer than any text of ours.
    const TEXT_MAX: usize = 200;
    let mut shown: String = text.chars().take(TEXT_MAX).collect();
    if shown.len() < text.len() {
        shown.push_str("...");
    }
    Reason::Foreign {
        expected: "hwloc topology",
        text: shown,
    }
}

/// The number in an attribute, if there is the attribute.
pub(super) fn number<T: FromStr>(
    element: Element<'_, '_>,
    name: &str,
) -> Result<Option<T>, Reason> {
    let Some(text) = element.attribute(name) else {
        return Ok(None);
    };
    let number = text.trim().parse();
    number.map(Some).map_err(|_not_a_number| bad(element, name))
}

/// The number in an attribute that must be there.
pub(super) fn required<T: FromStr>(element: Element<'_, '_>, name: &str) -> Result<T, Reason> {
    number(element, name)?.ok_or_else(|| bad(element, name))
}

/// The set in an attribute; the empty set if there is no such attribute.
///
/// hwloc's masks are those of the kernel with `0x` before each group, and nothing at all for a group
/// of zeros: `0x00000001,,0xffffffff`.
pub(super) fn set(element: Element<'_, '_>, name: &str) -> Result<CpuSet, Reason> {
    let text = element.attribute(name).unwrap_or_default();
    let mut set = CpuSet::new();
    for (group, digits) in text.rsplit(',').enumerate().filter(|_| !text.is_empty()) {
        let digits = digits.strip_prefix("0x").unwrap_or(digits);
        if digits.is_empty() {
            continue;
        }
        let bits = u32::from_str_radix(digits, 16).map_err(|_not_hex| bad(element, name))?;
        for bit in (0..32).filter(|bit| bits & (1 << bit) != 0) {
            let id = u32::try_from(group * 32 + bit)
                .ok()
                .filter(|&id| id <= crate::set::ID_MAX)
                .ok_or_else(|| bad(element, name))?;
            set.insert(CpuId(id));
        }
    }
    Ok(set)
}

/// An error about an attribute, with the line it is in.
pub(super) fn bad(element: Element<'_, '_>, name: &str) -> Reason {
    let row = element.document().text_pos_at(element.range().start).row;
    let what = element
        .attribute("type")
        .unwrap_or_else(|| element.tag_name().name());
    match element.attribute(name) {
        Some(text) => {
            let shown: String = text.chars().take(40).collect();
            foreign(&format!("line {row}: `{name}` of {what} is `{shown}`"))
        }
        None => foreign(&format!("line {row}: {what} has no `{name}`")),
    }
}
