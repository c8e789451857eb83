//! Memory of nodes.

use topology::NodeId;

use crate::error::{ParseError, ReadError};
use crate::reader::Reader;

/// Memory of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeMemory {
    /// Which.
    pub node: NodeId,
    /// All it has.
    pub total_bytes: u64,
    /// Free at once, without writing back or dropping anything.
    pub free_bytes: u64,
    /// Pages of files, most of which the kernel can drop when it needs room.
    pub file_bytes: u64,
    /// Of these, the pages of shared memory, which it cannot drop.
    pub shared_bytes: u64,
}

impl NodeMemory {
    /// What the kernel can make free when it needs room.
    #[must_use]
    pub const fn droppable_bytes(&self) -> u64 {
        self.file_bytes.saturating_sub(self.shared_bytes)
    }
}

impl Reader {
    /// Memory of every node online, by ascending number; nothing where the kernel has no nodes.
    ///
    /// # Errors
    /// Names the file that cannot be read or understood.
    pub fn node_memory(&self) -> Result<Vec<NodeMemory>, ReadError> {
        let numbers = self.numbered(DIRECTORY, "node", NODES_MAX)?;
        self.memory_of(numbers.here().unwrap_or_default().into_iter().map(NodeId))
    }

    /// Memory of those of these nodes that are online.
    ///
    /// # Errors
    /// Names the file that cannot be read or understood.
    pub fn memory_of(
        &self,
        nodes: impl Iterator<Item = NodeId>,
    ) -> Result<Vec<NodeMemory>, ReadError> {
        let mut found = Vec::new();
        for node in nodes {
            let path = format!("{DIRECTORY}/node{node}/meminfo");
            let memory = self.record(path, |bytes| parse_meminfo(node, bytes))?;
            found.extend(memory.here());
        }
        Ok(found)
    }
}

/// Reads a node's `meminfo`: lines as in `Node 0 MemFree:  1024 kB`.
///
/// # Errors
/// Names the line that makes no sense, or says that the total is missing.
pub fn parse_meminfo(node: NodeId, bytes: &[u8]) -> Result<NodeMemory, ParseError> {
    let (mut total, mut free, mut file, mut shared) = (None, None, None, None);
    for (line, number) in bytes.split(|&byte| byte == b'\n').zip(1..) {
        let mut words = line
            .split(u8::is_ascii_whitespace)
            .filter(|word| !word.is_empty())
            .skip(2);
        let slot = match words.next() {
            Some(b"MemTotal:") => &mut total,
            Some(b"MemFree:") => &mut free,
            Some(b"FilePages:") => &mut file,
            Some(b"Shmem:") => &mut shared,
            _ => continue,
        };
        let kibibytes: Option<u64> = words
            .next()
            .and_then(|word| std::str::from_utf8(word).ok())
            .and_then(|word| word.parse().ok());
        match kibibytes {
            Some(kibibytes) => *slot = Some(kibibytes.saturating_mul(1024)),
            None => return Err(ParseError::new(number, line, "has no amount")),
        }
    }
    match (total, free) {
        (Some(total_bytes), Some(free_bytes)) => Ok(NodeMemory {
            node,
            total_bytes,
            free_bytes,
            file_bytes: file.unwrap_or(0),
            shared_bytes: shared.unwrap_or(0),
        }),
        _ => Err(ParseError::new(
            1,
            bytes,
            "has no `MemTotal` or no `MemFree`",
        )),
    }
}

const DIRECTORY: &str = "sys/devices/system/node";
/// `MAX_NUMNODES` of the largest kernel configurations.
const NODES_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::Tree;

    #[test]
    fn nodes_with_gaps_read() {
        let tree = Tree::new("node");
        for node in [0, 8] {
            tree.file(
                &format!("sys/devices/system/node/node{node}/meminfo"),
                &format!(
                    "\nNode {node} MemTotal:  2048 kB\nNode {node} MemFree:   1{node} kB\n\
                     Node {node} FilePages: 3 kB\nNode {node} Shmem: 1 kB\n\
                     Node {node} HugePages_Total:     0\n"
                ),
            );
        }
        tree.file("sys/devices/system/node/possible", "0-8");
        let nodes = tree.reader().node_memory().unwrap();
        assert_eq!(nodes.len(), 2);
        assert_eq!(nodes[1].node, NodeId(8));
        assert_eq!(nodes[1].total_bytes, 2 << 20);
        assert_eq!(
            (nodes[1].free_bytes, nodes[1].file_bytes),
            (18 << 10, 3 << 10)
        );
        assert_eq!(nodes[1].droppable_bytes(), 2 << 10);
    }

    #[test]
    fn no_nodes_is_no_error_and_damage_is() {
        let tree = Tree::new("node-damage");
        assert_eq!(tree.reader().node_memory().unwrap(), []);
        tree.file(
            "sys/devices/system/node/node0/meminfo",
            "Node 0 MemTotal: x kB",
        );
        let error = tree.reader().node_memory().unwrap_err();
        assert!(error.to_string().contains("node0/meminfo"), "{error}");
    }
}
