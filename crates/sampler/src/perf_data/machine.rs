//! The machine that a file was recorded on, in a form that `topology` reads.

use std::fmt::Write as _;

use topology::{CpuId, CpuSet};

use crate::recording::HEADER_BYTES_MAX;

/// What a file tells of its machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Machine {
    /// As `uname -m` has it; empty if not told.
    pub(super) architecture: String,
    pub(super) nodes: Vec<Node>,
    /// The processors of each package, as lists.
    pub(super) packages: Vec<String>,
    /// The processors of each core, as lists.
    pub(super) cores: Vec<String>,
}

/// A memory node as perf noted it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) id: u32,
    pub(super) memory_bytes: u64,
    /// Its processors, as a list.
    pub(super) cpus: String,
}

impl Machine {
    /// The machine as hwloc XML, flat: what is in a core or package shows in its processors. None if
    /// the file does not tell the nodes, or what it tells cannot be.
    ///
    /// perf notes no distances, so whoever reads this takes the usual ones.
    pub(super) fn xml(&self) -> Option<String> {
        if self.nodes.is_empty() {
            return None;
        }
        let mut objects = Objects::default();
        let mut all = CpuSet::new();
        for node in &self.nodes {
            let cpus = set(&node.cpus)?;
            objects.add("NUMANode", node.id, &cpus, node.memory_bytes)?;
            all = all.union(&cpus);
        }
        for (kind, lists) in [("Package", &self.packages), ("Core", &self.cores)] {
            for (index, list) in lists.iter().enumerate() {
                // perf names processors that are offline by what they were; they are in no node.
                let cpus = set(list)?.intersection(&all);
                if !cpus.is_empty() {
                    objects.add(kind, u32::try_from(index).ok()?, &cpus, 0)?;
                }
            }
        }
        for cpu in all.iter() {
            objects.add("PU", cpu.0, &[cpu].into_iter().collect(), 0)?;
        }
        let text = format!(
            "<topology version=\"2.0\"><object type=\"Machine\" os_index=\"0\" cpuset=\"{}\">{}</object></topology>",
            mask(&all),
            objects.text
        );
        topology::xml::parse(&text).is_ok().then_some(text)
    }

    /// Bytes in a page, where the architecture has one size only.
    pub(super) fn page_bytes(&self) -> Option<u64> {
        let fixed = ["x86_64", "i386", "i486", "i586", "i686", "s390x", "riscv64"];
        fixed.contains(&self.architecture.as_str()).then_some(4096)
    }
}

#[derive(Debug, Default)]
struct Objects {
    text: String,
    count: u32,
}

impl Objects {
    /// None where the text has become longer than a recording takes: a few bytes of a file can name
    /// thousands of processors, each of which has a mask of its own.
    fn add(&mut self, kind: &str, index: u32, cpus: &CpuSet, memory_bytes: u64) -> Option<()> {
        self.count += 1;
        let memory = if memory_bytes > 0 {
            format!(" local_memory=\"{memory_bytes}\"")
        } else {
            String::new()
        };
        let written = write!(
            self.text,
            "<object type=\"{kind}\" os_index=\"{index}\" cpuset=\"{}\" gp_index=\"{}\"{memory}/>",
            mask(cpus),
            self.count
        );
        written.expect("a string takes all text");
        (self.text.len() < TEXT_BYTES_MAX).then_some(())
    }
}

/// What is around it, and the names of events, have room beside it.
const TEXT_BYTES_MAX: usize = HEADER_BYTES_MAX as usize - (64 << 10);

/// A list of processors as the kernel writes it; empty for none.
fn set(list: &str) -> Option<CpuSet> {
    let list = list.trim();
    if list.is_empty() {
        return Some(CpuSet::new());
    }
    CpuSet::parse_list(list).ok()
}

/// Groups of 32 processors, highest first, as hwloc writes them.
fn mask(cpus: &CpuSet) -> String {
    let groups = cpus.last().map_or(0, |CpuId(last)| last / 32);
    let mut text = String::new();
    for group in (0..=groups).rev() {
        let bits = (0..32).filter(|bit| cpus.contains(CpuId(group * 32 + bit)));
        let bits = bits.fold(0u32, |bits, bit| bits | 1 << bit);
        let comma = if text.is_empty() { "" } else { "," };
        write!(text, "{comma}{bits:#010x}").expect("a string takes all text");
    }
    text
}
