//! The machines that a guest can be given.

use std::ffi::OsString;
use std::path::Path;

use anyhow::{Context as _, Result};

use crate::kit::Kit;

/// A machine with several memory nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Machine {
    pub(crate) name: &'static str,
    /// Nodes that have processors; those after them have memory alone.
    pub(crate) nodes: usize,
    pub(crate) memory_nodes: usize,
    pub(crate) cpus_per_node: usize,
    /// Last-level caches of a node: packages, since this QEMU gives each package one.
    pub(crate) caches: usize,
    pub(crate) node_mib: usize,
    /// From node (row) to memory (column), ten for the own.
    pub(crate) distance: Vec<Vec<u32>>,
    /// Whether its kernel looks at its timers only at each tick, 250 times a second. Otherwise whoever sets one has the
    /// emulation deal out time to processors anew.
    pub(crate) ticks: bool,
}

/// Virtual time advances this many powers of two nanoseconds with each instruction of any processor: eight busy
/// processors do 7.8 million a second each, whatever the host does meanwhile.
pub(crate) const CLOCK_SHIFT: u32 = 4;

/// All machines, the first being the usual one.
pub(crate) fn all() -> Vec<Machine> {
    vec![
        Machine {
            name: "ring4",
            nodes: 4,
            memory_nodes: 0,
            cpus_per_node: 2,
            caches: 1,
            node_mib: 256,
            distance: ring(4),
            ticks: false,
        },
        Machine {
            name: "mesh8",
            nodes: 8,
            memory_nodes: 0,
            cpus_per_node: 1,
            caches: 1,
            node_mib: 192,
            // Four packages of two dies each with links to some: the Opterons called Interlagos.
            distance: mesh(),
            ticks: false,
        },
        Machine {
            name: "tier4",
            nodes: 3,
            memory_nodes: 1,
            cpus_per_node: 2,
            caches: 1,
            node_mib: 256,
            distance: vec![
                vec![10, 20, 20, 30],
                vec![20, 10, 20, 30],
                vec![20, 20, 10, 30],
                vec![30, 30, 30, 10],
            ],
            ticks: false,
        },
        Machine {
            name: "tier8",
            nodes: 7,
            memory_nodes: 1,
            cpus_per_node: 1,
            caches: 1,
            node_mib: 192,
            distance: mesh_and_memory(),
            ticks: false,
        },
        Machine {
            name: "ring4-huge",
            nodes: 4,
            memory_nodes: 0,
            cpus_per_node: 2,
            caches: 1,
            node_mib: 384,
            distance: ring(4),
            ticks: false,
        },
        Machine {
            name: "caches2",
            nodes: 2,
            memory_nodes: 0,
            cpus_per_node: 4,
            caches: 2,
            // Measuring bandwidth wants 384 MiB free of each.
            node_mib: 640,
            distance: ring(2),
            ticks: false,
        },
    ]
}

/// The machine of this name.
pub(crate) fn find(name: &str) -> Result<Machine> {
    let machines = all();
    let names: Vec<&str> = machines.iter().map(|machine| machine.name).collect();
    let known = names.join(", ");
    machines
        .into_iter()
        .find(|machine| machine.name == name)
        .with_context(|| format!("there is no machine `{name}`; there are {known}"))
}

/// Nodes in a circle, ten for each step between them.
fn ring(nodes: usize) -> Vec<Vec<u32>> {
    let steps = |from: usize, to: usize| {
        let apart = from.abs_diff(to);
        u32::try_from(apart.min(nodes - apart)).expect("a machine has few nodes")
    };
    (0..nodes)
        .map(|from| (0..nodes).map(|to| 10 + 10 * steps(from, to)).collect())
        .collect()
}

fn mesh() -> Vec<Vec<u32>> {
    const ROWS: [[u32; 8]; 8] = [
        [10, 16, 16, 22, 16, 22, 16, 22],
        [16, 10, 22, 16, 22, 16, 22, 16],
        [16, 22, 10, 16, 16, 22, 16, 22],
        [22, 16, 16, 10, 22, 16, 22, 16],
        [16, 22, 16, 22, 10, 16, 16, 22],
        [22, 16, 22, 16, 16, 10, 22, 16],
        [16, 22, 16, 22, 16, 22, 10, 16],
        [22, 16, 22, 16, 22, 16, 16, 10],
    ];
    ROWS.iter().map(|row| row.to_vec()).collect()
}

/// The mesh, whose last node is memory alone and as far from everybody.
fn mesh_and_memory() -> Vec<Vec<u32>> {
    let mut rows = mesh();
    let last = rows.len() - 1;
    for (node, row) in rows.iter_mut().enumerate() {
        row[last] = 28;
        if node == last {
            row.fill(28);
            row[last] = 10;
        }
    }
    rows
}

impl Machine {
    /// All memory nodes, with processors or without.
    pub(crate) const fn all_nodes(&self) -> usize {
        self.nodes + self.memory_nodes
    }

    /// QEMU's command line without what starts or records a run. Files of the run are in `work`.
    pub(crate) fn command(&self, kit: &Kit, image: &Path, work: &Path) -> Result<Vec<OsString>> {
        let cpus = self.nodes * self.cpus_per_node;
        let mib = self.all_nodes() * self.node_mib;
        let kernel = kit.kernel()?;
        let file = |name: &str| work.join(name).display().to_string();
        let mut line = kit.qemu();
        let mut say = |words: &[&str]| line.extend(words.iter().map(OsString::from));
        say(&["-M", "q35,smm=off"]);
        // Strings that are copied byte by byte would count an instruction for each: a page copy would
        // seem eight times dearer than it is.
        say(&["-cpu", "max,-erms,-fsrm"]);
        say(&[
            "-smp",
            &format!(
                "{cpus},sockets={},cores={}",
                self.nodes * self.caches,
                self.cpus_per_node / self.caches
            ),
        ]);
        say(&[
            "-m",
            &format!("{mib}M"),
            "-nodefaults",
            "-display",
            "none",
            "-no-reboot",
            "-net",
            "none",
        ]);
        say(&["-rtc", "base=2026-01-01,clock=vm"]);
        // A state is kept while the guest stands still, and runs when it is taken up again.
        say(&["-global", "migration.store-global-state=off"]);
        say(&[
            "-kernel",
            &kernel.display().to_string(),
            "-initrd",
            &image.display().to_string(),
        ]);
        say(&["-serial", &format!("file:{}", file("console"))]);
        say(&["-device", "virtio-serial-pci,max_ports=5"]);
        say(&["-chardev", &format!("file,id=c1,path={}", file("out"))]);
        say(&["-device", "virtserialport,chardev=c1,name=out,nr=1"]);
        say(&[
            "-chardev",
            &format!("file,id=c2,path={}", file("files.tar")),
        ]);
        say(&["-device", "virtserialport,chardev=c2,name=files,nr=2"]);
        say(&[
            "-chardev",
            &format!("file,id=c3,path=/dev/null,input-path={}", file("in")),
        ]);
        say(&["-device", "virtserialport,chardev=c3,name=in,nr=3"]);
        let timers = if self.ticks {
            " nohz=off highres=off"
        } else {
            ""
        };
        // Newer kernels try their ciphers in the background after boot, on three processors for minutes here.
        say(&[
            "-append",
            &format!(
                "console=ttyS0 quiet panic=-1 mitigations=off nopti nowatchdog nokaslr audit=0 \
                 cryptomgr.notests tsc=reliable clocksource=tsc no_timer_check random.trust_cpu=on{timers}"
            ),
        ]);
        say(&["-accel", "tcg,thread=single,tb-size=256"]);
        say(&[
            "-icount",
            &format!("shift={CLOCK_SHIFT},align=off,sleep=off"),
        ]);
        self.nodes_to(&mut say);
        Ok(line)
    }

    /// Says which node has which memory, processors and distances.
    fn nodes_to(&self, say: &mut impl FnMut(&[&str])) {
        for node in 0..self.all_nodes() {
            // Shared, so that the ground truth can write samples into it.
            say(&[
                "-object",
                &format!(
                    "memory-backend-memfd,id=m{node},size={}M,share=on",
                    self.node_mib
                ),
            ]);
            let first = node * self.cpus_per_node;
            let cpus = if node < self.nodes {
                format!(",cpus={first}-{}", first + self.cpus_per_node - 1)
            } else {
                String::new()
            };
            say(&["-numa", &format!("node,nodeid={node},memdev=m{node}{cpus}")]);
        }
        for (from, row) in self.distance.iter().enumerate() {
            for (to, distance) in row.iter().enumerate().filter(|(to, _)| *to != from) {
                say(&["-numa", &format!("dist,src={from},dst={to},val={distance}")]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_machine_is_whole() {
        for machine in all() {
            let nodes = machine.all_nodes();
            assert_eq!(machine.distance.len(), nodes, "{}", machine.name);
            for (from, row) in machine.distance.iter().enumerate() {
                assert_eq!(row.len(), nodes, "{}", machine.name);
                assert_eq!(row[from], 10, "{}", machine.name);
            }
            // More would leave a hole in physical memory, and the ground truth counts on none.
            assert!(nodes * machine.node_mib <= 2048, "{}", machine.name);
        }
    }

    #[test]
    fn a_ring_is_measured_the_short_way() {
        assert_eq!(ring(4)[0], [10, 20, 30, 20]);
        assert_eq!(ring(4)[3], [20, 30, 20, 10]);
    }
}
