//! Figures that `numadctl characterize` measured, as they are kept on disk.
//!
//! ```text
//! numad bandwidth 1
//! fingerprint 81e60953b960a0a5
//! link 0 0 alone 24100 loaded 24000 idle 92
//! link 0 1 alone 12900 loaded 6100 idle 141
//! end
//! ```
//!
//! A line `busy 37` after the fingerprint says that others used 37 % of the processors meanwhile, so that
//! figures are too low.
//!
//! A line for each pair: node of the processors, node of the memory, MB/s when no other node is active,
//! MB/s when all are, latency of an idle machine in nanoseconds; `-` where nothing was measured. The
//! name of the file holds the fingerprint of the hardware, so that other hardware finds nothing.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use crate::bandwidth::{Figure, Link};
use crate::distance::Origin;
use crate::fingerprint::Fingerprint;
use crate::ids::NodeId;
use crate::load::{LoadError, Reason, read_bounded};
use crate::machine::Topology;

/// The first line, without which a file is something else.
const TITLE: &str = "numad bandwidth 1";
/// Twice what 256 nodes take.
const FILE_BYTES_MAX: u64 = 8 << 20;
/// A thousand times the fastest memory there is, in MB/s, and a whole second in nanoseconds: beyond, a
/// figure is damage.
const FIGURE_MAX: u64 = 1_000_000_000;
/// As many nodes as the largest kernels number.
const NODE_MAX: u32 = 1023;

/// What was measured of one machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Measured {
    fingerprint: Fingerprint,
    /// What others used of the processors meanwhile, in percent, when that was too much for good figures.
    pub busy_percent: Option<u8>,
    links: BTreeMap<(NodeId, NodeId), MeasuredLink>,
}

/// What was measured of the way from the processors of one node to the memory of another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MeasuredLink {
    /// Bandwidth in MB/s when no other node is active.
    pub alone_mbps: Option<u64>,
    /// Bandwidth in MB/s of this node's part when the processors of all nodes use that memory.
    pub loaded_mbps: Option<u64>,
    /// Latency in nanoseconds when nobody is active.
    pub idle_ns: Option<u64>,
}

/// Why bytes are no such file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Which line, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub reason: &'static str,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {} {}", self.line, self.reason)
    }
}

impl std::error::Error for Damage {}

impl Measured {
    /// Nothing yet, of the machine with this fingerprint.
    #[must_use]
    pub const fn new(fingerprint: Fingerprint) -> Self {
        Self {
            fingerprint,
            busy_percent: None,
            links: BTreeMap::new(),
        }
    }

    /// Whose figures these are.
    #[must_use]
    pub const fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// The way from the processors of `from` to the memory of `to`, for filling in.
    pub fn link_mut(&mut self, from: NodeId, to: NodeId) -> &mut MeasuredLink {
        self.links.entry((from, to)).or_default()
    }

    /// What is known of the way from the processors of `from` to the memory of `to`.
    #[must_use]
    pub fn link(&self, from: NodeId, to: NodeId) -> Option<MeasuredLink> {
        self.links.get(&(from, to)).copied()
    }

    /// All that was measured, by ascending pair.
    pub fn iter(&self) -> impl Iterator<Item = ((NodeId, NodeId), MeasuredLink)> + '_ {
        self.links.iter().map(|(&pair, &link)| (pair, link))
    }

    /// The text of the file.
    #[must_use]
    pub fn to_text(&self) -> String {
        let shown =
            |figure: Option<u64>| figure.map_or("-".to_owned(), |figure| figure.to_string());
        let mut text = format!("{TITLE}\nfingerprint {}\n", self.fingerprint);
        if let Some(busy) = self.busy_percent {
            text.push_str(&format!("busy {busy}\n"));
        }
        for ((from, to), link) in self.iter() {
            text.push_str(&format!(
                "link {from} {to} alone {} loaded {} idle {}\n",
                shown(link.alone_mbps),
                shown(link.loaded_mbps),
                shown(link.idle_ns)
            ));
        }
        text.push_str("end\n");
        text
    }

    /// Reads the text of a file.
    ///
    /// # Errors
    /// Names the line that makes no sense; a file that lacks its `end` was cut short.
    pub fn parse(bytes: &[u8]) -> Result<Self, Damage> {
        let damage = |line, reason| Damage { line, reason };
        let text = std::str::from_utf8(bytes).map_err(|error| {
            let lines = bytes[..error.valid_up_to()].iter();
            let line = lines.filter(|&&byte| byte == b'\n').count() + 1;
            damage(line, "is no text")
        })?;
        let mut lines = (1..).zip(text.lines());
        if lines.next().map(|(_, line)| line) != Some(TITLE) {
            return Err(damage(1, "is no file of measured bandwidth"));
        }
        let fingerprint = lines
            .next()
            .and_then(|(_, line)| line.strip_prefix("fingerprint ")?.parse().ok());
        let mut measured = Self::new(fingerprint.ok_or(damage(2, "is no fingerprint"))?);
        let mut last = 2;
        for (number, line) in lines.by_ref() {
            last = number;
            let busy = line.strip_prefix("busy ").filter(|_| number == 3);
            if let Some(busy) = busy.and_then(|busy| busy.parse().ok()) {
                measured.busy_percent = Some(busy);
                continue;
            }
            if line == "end" {
                return match lines.next() {
                    None => Ok(measured),
                    Some((number, _)) => Err(damage(number, "stands behind the end")),
                };
            }
            let (pair, link) = parse_link(line).ok_or(damage(
                number,
                "is not `link FROM TO alone N loaded N idle N`",
            ))?;
            if measured.links.insert(pair, link).is_some() {
                return Err(damage(number, "tells of the same pair again"));
            }
        }
        Err(damage(last + 1, "is not there: the file is cut short"))
    }

    /// Where the figures of a machine are kept below a directory.
    #[must_use]
    pub fn path(directory: &Path, fingerprint: Fingerprint) -> PathBuf {
        directory.join(format!("bandwidth-{fingerprint}"))
    }

    /// Reads what was measured of the machine with this fingerprint; none if nothing was.
    ///
    /// # Errors
    /// When the file is there and cannot be read or understood, or is about another machine.
    pub fn read(directory: &Path, fingerprint: Fingerprint) -> Result<Option<Self>, LoadError> {
        let path = Self::path(directory, fingerprint);
        let bytes = match read_bounded(&path, FILE_BYTES_MAX) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(LoadError::unreadable(&path, &error)),
        };
        let foreign = |text: String| LoadError {
            file: path.clone(),
            reason: Reason::Foreign {
                expected: "file of measured bandwidths",
                text,
            },
        };
        let bytes = bytes.ok_or_else(|| LoadError {
            file: path.clone(),
            reason: Reason::TooLarge {
                bytes_max: FILE_BYTES_MAX,
            },
        })?;
        let measured = Self::parse(&bytes).map_err(|damage| foreign(damage.to_string()))?;
        if measured.fingerprint != fingerprint {
            let text = format!("it is about machine {}", measured.fingerprint);
            return Err(foreign(text));
        }
        Ok(Some(measured))
    }
}

impl Topology {
    /// The same machine with what was measured of it in place of what firmware tells. Figures of another
    /// machine, and of nodes that are not there, change nothing.
    #[must_use]
    pub fn with_measured(self, measured: &Measured) -> Self {
        if measured.fingerprint != self.fingerprint() {
            return self;
        }
        let mut graph = self.bandwidth().clone();
        for ((from, to), found) in measured.iter() {
            if self.node(from).is_none() || self.node(to).is_none() {
                continue;
            }
            let figure = |value: Option<u64>| {
                let origin = Origin::Measured;
                value.map(|value| Figure { value, origin })
            };
            let link = graph.link_mut(from, to);
            *link = Link {
                read_mbps: figure(found.alone_mbps).or(link.read_mbps),
                loaded_mbps: figure(found.loaded_mbps).or(link.loaded_mbps),
                latency_ns: figure(found.idle_ns).or(link.latency_ns),
                ..*link
            };
        }
        self.with_bandwidth(graph)
    }
}

fn parse_link(line: &str) -> Option<((NodeId, NodeId), MeasuredLink)> {
    let words: Vec<&str> = line.splitn(10, ' ').collect();
    let [
        "link",
        from,
        to,
        "alone",
        alone,
        "loaded",
        loaded,
        "idle",
        idle,
    ] = words[..]
    else {
        return None;
    };
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let node = |text: &str| {
        let number: Option<u32> = text.parse().ok();
        number
            .filter(|&number| digits(text) && number <= NODE_MAX)
            .map(NodeId)
    };
    let figure = |text: &str| match text {
        "-" => Some(None),
        text => {
            let number: Option<u64> = text.parse().ok();
            number
                .filter(|number| digits(text) && (1..=FIGURE_MAX).contains(number))
                .map(Some)
        }
    };
    let link = MeasuredLink {
        alone_mbps: figure(alone)?,
        loaded_mbps: figure(loaded)?,
        idle_ns: figure(idle)?,
    };
    Some(((node(from)?, node(to)?), link))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic;

    fn sample() -> (Topology, Measured) {
        let topology = synthetic::parse("2x4@10,21").unwrap();
        let mut measured = Measured::new(topology.fingerprint());
        *measured.link_mut(NodeId(0), NodeId(0)) = MeasuredLink {
            alone_mbps: Some(24_100),
            loaded_mbps: Some(24_000),
            idle_ns: Some(92),
        };
        measured.link_mut(NodeId(1), NodeId(0)).alone_mbps = Some(12_900);
        (topology, measured)
    }

    #[test]
    fn what_is_written_is_read_and_cut_short_at_any_byte_is_not() {
        let (_, measured) = sample();
        let text = measured.to_text();
        assert!(
            text.contains("link 1 0 alone 12900 loaded - idle -\n"),
            "{text}"
        );
        assert_eq!(Measured::parse(text.as_bytes()), Ok(measured));
        // Without its last line break it is whole all the same.
        for end in 0..text.len() - 1 {
            assert!(Measured::parse(&text.as_bytes()[..end]).is_err(), "{end}");
        }
    }

    #[test]
    fn damage_is_named_by_line() {
        let (_, measured) = sample();
        let text = measured.to_text();
        for (from, to, told) in [
            (
                "numad bandwidth 1",
                "numad bandwidth 2",
                "line 1 is no file of measured",
            ),
            ("fingerprint ", "fingerprint +", "line 2 is no fingerprint"),
            ("alone 24100", "alone 0", "line 3 is not `link"),
            ("alone 24100", "alone +5", "line 3 is not `link"),
            ("link 1 0", "link 9999 0", "line 4 is not `link"),
            ("link 1 0", "link 0 0", "line 4 tells of the same pair"),
            ("end\n", "end\nmore\n", "line 6 stands behind the end"),
            ("end\n", "", "line 5 is not there"),
        ] {
            let error = Measured::parse(text.replace(from, to).as_bytes()).unwrap_err();
            assert!(error.to_string().starts_with(told), "{to}: {error}");
        }
        let error = Measured::parse(b"numad bandwidth 1\n\xff").unwrap_err();
        assert_eq!(error.to_string(), "line 2 is no text");
    }

    #[test]
    fn measured_figures_stand_before_others_on_the_same_machine_alone() {
        let (topology, mut measured) = sample();
        measured.link_mut(NodeId(7), NodeId(0)).idle_ns = Some(1);
        let told = |value, origin| Some(Figure { value, origin });
        let mut graph = topology.bandwidth().clone();
        *graph.link_mut(NodeId(1), NodeId(0)) = Link {
            read_mbps: told(9_000, Origin::Firmware),
            latency_ns: told(150, Origin::Firmware),
            ..Link::default()
        };
        let known = topology.with_bandwidth(graph).with_measured(&measured);
        let link = known.bandwidth().link(NodeId(1), NodeId(0));
        assert_eq!(link.read_mbps, told(12_900, Origin::Measured));
        assert_eq!(link.latency_ns, told(150, Origin::Firmware));
        let local = known.bandwidth().link(NodeId(0), NodeId(0));
        assert_eq!(local.loaded_mbps, told(24_000, Origin::Measured));
        assert_eq!(known.bandwidth().iter().count(), 2, "node 7 is not there");
        let other = synthetic::parse("2x8").unwrap();
        assert_eq!(other.clone().with_measured(&measured), other);
    }

    #[test]
    fn files_are_found_by_fingerprint() {
        let directory = std::env::temp_dir().join(format!("numad-measured-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let (topology, measured) = sample();
        let own = topology.fingerprint();
        let read = || Measured::read(&directory, own);
        assert_eq!(read(), Ok(None));
        let path = Measured::path(&directory, own);
        std::fs::write(&path, measured.to_text()).unwrap();
        assert_eq!(read(), Ok(Some(measured.clone())));
        let text = measured
            .to_text()
            .replace(&own.to_string(), "0123456789abcdef");
        std::fs::write(&path, text).unwrap();
        let error = read().unwrap_err().to_string();
        assert!(
            error.ends_with("it is about machine 0123456789abcdef"),
            "{error}"
        );
        std::fs::write(&path, "").unwrap();
        assert!(read().unwrap_err().to_string().contains("line 1"));
        std::fs::remove_dir_all(directory).unwrap();
    }
}
