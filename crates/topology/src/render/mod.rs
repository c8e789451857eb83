//! The machine for people: one line, a text, a picture.

mod svg;
mod text;
mod xml;

use crate::machine::Topology;

pub use self::svg::svg;
pub use self::text::{bandwidth_text, text};
pub use self::xml::xml;

impl Topology {
    /// One line: `4 nodes, 64 cpus, 2 packages, 256 GiB`. Processors offline are counted and named.
    #[must_use]
    pub fn summary(&self) -> String {
        let offline = self.cpus().len() - self.online().len();
        let offline = match offline {
            0 => String::new(),
            count => format!(" ({count} offline)"),
        };
        format!(
            "{}, {}{offline}, {}, {}",
            counted(self.nodes().len(), "node"),
            counted(self.cpus().len(), "cpu"),
            counted(self.package_count(), "package"),
            size(self.memory_bytes())
        )
    }
}

fn counted(count: usize, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{plural}")
}

/// Bytes in the largest unit that leaves a whole part, with a decimal below 10.
fn size(bytes: u64) -> String {
    const UNITS: [(&str, u64); 4] = [
        ("TiB", 1 << 40),
        ("GiB", 1 << 30),
        ("MiB", 1 << 20),
        ("KiB", 1 << 10),
    ];
    for (index, (name, unit)) in UNITS.into_iter().enumerate() {
        // Up to 9999 GiB stay GiB: that is how memory is bought.
        if bytes < unit || (index == 0 && bytes < 10 * unit) {
            continue;
        }
        let tenths = bytes / unit * 10 + (bytes % unit * 10 + unit / 2) / unit;
        return match (tenths / 10, tenths % 10) {
            (whole, tenth) if whole < 10 && tenth > 0 => format!("{whole}.{tenth} {name}"),
            (whole, tenth) => format!("{} {name}", whole + u64::from(tenth >= 5)),
        };
    }
    format!("{bytes} B")
}

/// MB/s as GB/s, with a decimal below 100.
fn gigabytes(mbps: u64) -> String {
    match (
        mbps.saturating_add(50) / 100,
        mbps.saturating_add(500) / 1000,
    ) {
        (tenths, _) if tenths < 1000 => format!("{}.{}", tenths / 10, tenths % 10),
        (_, whole) => whole.to_string(),
    }
}

/// `L2` for both kinds of content, `L1d` and `L1i` for one.
fn cache_name(level: u8, kind: crate::machine::CacheKind) -> String {
    use crate::machine::CacheKind;
    let suffix = match kind {
        CacheKind::Unified => "",
        CacheKind::Data => "d",
        CacheKind::Instruction => "i",
    };
    format!("L{level}{suffix}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic;

    #[test]
    fn sizes_are_short() {
        for (bytes, shown) in [
            (0, "0 B"),
            (32 << 10, "32 KiB"),
            (1536 << 10, "1.5 MiB"),
            (39_424 << 10, "39 MiB"),
            (6106 << 20, "6 GiB"),
            (31_728 << 20, "31 GiB"),
            (1530 << 30, "1530 GiB"),
            (20 << 40, "20 TiB"),
            (u64::MAX, "16777216 TiB"),
        ] {
            assert_eq!(size(bytes), shown);
        }
    }

    #[test]
    fn summaries_are_one_line() {
        let summary = |text| synthetic::parse(text).unwrap().summary();
        assert_eq!(summary("4x16"), "4 nodes, 64 cpus, 4 packages, 64 GiB");
        assert_eq!(summary("1x1"), "1 node, 1 cpu, 1 package, 16 GiB");
    }
}
