//! What is known of bandwidth and latency between nodes. A figure without an origin does not exist.

use std::collections::BTreeMap;

use crate::distance::Origin;
use crate::ids::NodeId;

/// How fast the processors of one node reach the memory of another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Link {
    /// Read bandwidth in MB/s, when no other node uses that memory. A measured one is that of the triad:
    /// two reads to each write.
    pub read_mbps: Option<Figure>,
    /// Write bandwidth in MB/s.
    pub write_mbps: Option<Figure>,
    /// Part of this node in MB/s when the processors of every node use that memory.
    pub loaded_mbps: Option<Figure>,
    /// Latency of an idle system in nanoseconds.
    pub latency_ns: Option<Figure>,
}

/// A number and who it comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Figure {
    /// In the unit of the field that holds it.
    pub value: u64,
    /// Who told.
    pub origin: Origin,
}

/// Directed links from the node whose processors ask to the node whose memory answers. Pairs that
/// nobody told anything about are absent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BandwidthGraph {
    links: BTreeMap<(NodeId, NodeId), Link>,
}

impl BandwidthGraph {
    /// The link from the processors of `from` to the memory of `to`.
    #[must_use]
    pub fn link(&self, from: NodeId, to: NodeId) -> Link {
        self.links.get(&(from, to)).copied().unwrap_or_default()
    }

    /// The link, for filling in.
    pub fn link_mut(&mut self, from: NodeId, to: NodeId) -> &mut Link {
        self.links.entry((from, to)).or_default()
    }

    /// All links that something is known of, by ascending pair.
    pub fn iter(&self) -> impl Iterator<Item = ((NodeId, NodeId), Link)> + '_ {
        self.links.iter().map(|(&pair, &link)| (pair, link))
    }

    /// Whether nothing is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.links.is_empty()
    }
}
