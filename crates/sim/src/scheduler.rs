//! The operating system's scheduler, as far as placement is concerned: deterministic, and no wiser
//! than real ones about memory.

use topology::{CpuSet, Topology};

/// Puts threads on processors.
///
/// A thread keeps its processor while it may; else, and at first, it goes to the least loaded
/// processor it may run on, on the least loaded node, as the kernel's slow path does. When a
/// processor idles while another has two threads, one of those that may moves over; where none may,
/// one that may gives up its processor to one of them, as the kernel does where masks keep a group
/// of processors crowded (`group_imbalanced` in kernel/sched/fair.c). Ties go to the lowest number.
#[derive(Clone, Debug)]
pub(crate) struct Scheduler {
    /// Position of the node of each processor; processors of no node share one bucket.
    node_of: Vec<usize>,
    cpus: Vec<u32>,
    nodes: usize,
    load: Vec<u32>,
    node_load: Vec<u32>,
}

/// What the scheduler sees of a thread.
#[derive(Clone, Debug)]
pub(crate) struct Runnable {
    /// Index of the processor it is on.
    pub(crate) cpu: Option<usize>,
    /// Processors it may use that are online; never empty.
    pub(crate) allowed: Vec<bool>,
}

impl Scheduler {
    pub(crate) fn new(topology: &Topology) -> Self {
        let nodes = topology.nodes().len() + 1;
        let node_of = topology
            .cpus()
            .iter()
            .map(|cpu| {
                cpu.node
                    .and_then(|node| topology.position(node))
                    .unwrap_or(nodes - 1)
            })
            .collect();
        Self {
            node_of,
            cpus: topology.cpus().iter().map(|cpu| cpu.id.0).collect(),
            nodes,
            load: vec![0; topology.cpus().len()],
            node_load: vec![0; nodes],
        }
    }

    /// Which processors of the topology, by index, are in a set.
    pub(crate) fn members(&self, set: &CpuSet) -> Vec<bool> {
        self.cpus
            .iter()
            .map(|&id| set.contains(id.into()))
            .collect()
    }

    /// Threads on each processor, by index, after the last [`Self::place`].
    pub(crate) fn load(&self) -> &[u32] {
        &self.load
    }

    /// A thread left a processor for another by itself, or by the kernel's hand.
    pub(crate) fn note_move(&mut self, from: usize, to: usize) {
        self.load[from] -= 1;
        self.node_load[self.node_of[from]] -= 1;
        self.take(to);
    }

    /// Gives every thread a processor; true if any got another one than it had.
    pub(crate) fn place(&mut self, threads: &mut [&mut Runnable]) -> bool {
        self.load.fill(0);
        self.node_load.fill(0);
        let mut changed = false;
        for thread in threads.iter_mut() {
            thread.cpu = thread.cpu.filter(|&cpu| thread.allowed[cpu]);
            if let Some(cpu) = thread.cpu {
                self.take(cpu);
            }
        }
        for thread in threads.iter_mut().filter(|thread| thread.cpu.is_none()) {
            if let Some(cpu) = self.least_loaded(&thread.allowed) {
                thread.cpu = Some(cpu);
                self.take(cpu);
                changed = true;
            }
        }
        for thread in threads.iter_mut() {
            changed |= self.pull(thread);
        }
        for crowded in 0..threads.len() {
            changed |= self.relieve(threads, crowded);
        }
        changed
    }

    /// Moves a thread that shares its processor, and for which none idles, to that of another,
    /// which goes to an idle one.
    fn relieve(&mut self, threads: &mut [&mut Runnable], crowded: usize) -> bool {
        let Some(from) = threads[crowded].cpu.filter(|&cpu| self.load[cpu] > 1) else {
            return false;
        };
        let idle: Vec<usize> = (0..self.load.len())
            .filter(|&cpu| self.load[cpu] == 0)
            .collect();
        let way = threads.iter().enumerate().find_map(|(other, thread)| {
            let through = thread.cpu.filter(|&cpu| self.load[cpu] == 1)?;
            let may = threads[crowded].allowed[through];
            let to = idle.iter().find(|&&cpu| may && thread.allowed[cpu])?;
            Some((other, through, *to))
        });
        let Some((other, through, to)) = way else {
            return false;
        };
        self.note_move(through, to);
        threads[other].cpu = Some(to);
        self.note_move(from, through);
        threads[crowded].cpu = Some(through);
        true
    }

    /// Moves a thread that shares its processor to an idle one: on its node if there is one.
    fn pull(&mut self, thread: &mut Runnable) -> bool {
        let Some(from) = thread.cpu.filter(|&cpu| self.load[cpu] > 1) else {
            return false;
        };
        let idle = (0..self.load.len())
            .filter(|&cpu| thread.allowed[cpu] && self.load[cpu] == 0)
            .min_by_key(|&cpu| (self.node_of[cpu] != self.node_of[from], cpu));
        let Some(to) = idle else { return false };
        self.note_move(from, to);
        thread.cpu = Some(to);
        true
    }

    fn take(&mut self, cpu: usize) {
        self.load[cpu] += 1;
        self.node_load[self.node_of[cpu]] += 1;
    }

    fn least_loaded(&self, allowed: &[bool]) -> Option<usize> {
        let mut sizes = vec![0_u64; self.nodes];
        for cpu in (0..self.load.len()).filter(|&cpu| allowed[cpu]) {
            sizes[self.node_of[cpu]] += 1;
        }
        // Loads of nodes are compared as threads per allowed processor, in whole numbers.
        (0..self.load.len())
            .filter(|&cpu| allowed[cpu])
            .min_by_key(|&cpu| {
                let node = self.node_of[cpu];
                let crowding = u64::from(self.node_load[node]) * 1_000_000 / sizes[node].max(1);
                (self.load[cpu], crowding, cpu)
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(scheduler: &mut Scheduler, threads: &mut [Runnable]) -> Vec<usize> {
        let mut all: Vec<&mut Runnable> = threads.iter_mut().collect();
        scheduler.place(&mut all);
        threads.iter().filter_map(|thread| thread.cpu).collect()
    }

    fn free(cpus: usize) -> Runnable {
        Runnable {
            cpu: None,
            allowed: vec![true; cpus],
        }
    }

    #[test]
    fn threads_spread_over_nodes_and_then_stay() {
        let topology = topology::synthetic::parse("2x4@10,20").unwrap();
        let mut scheduler = Scheduler::new(&topology);
        let mut threads = vec![free(8); 4];
        assert_eq!(place(&mut scheduler, &mut threads), [0, 4, 1, 5]);
        assert_eq!(place(&mut scheduler, &mut threads), [0, 4, 1, 5]);
        assert_eq!(scheduler.load(), [1, 1, 0, 0, 1, 1, 0, 0]);
    }

    #[test]
    fn a_mask_moves_a_thread_and_idle_processors_pull() {
        let topology = topology::synthetic::parse("2x2@10,20").unwrap();
        let mut scheduler = Scheduler::new(&topology);
        let mut threads = vec![free(4); 2];
        assert_eq!(place(&mut scheduler, &mut threads), [0, 2]);
        threads[1].allowed = vec![true, false, false, false];
        // The thread that is not bound gives way.
        assert_eq!(place(&mut scheduler, &mut threads), [1, 0]);
    }

    #[test]
    fn who_may_go_elsewhere_makes_room_for_those_who_may_not() {
        let topology = topology::synthetic::parse("2x2@10,20").unwrap();
        let mut scheduler = Scheduler::new(&topology);
        let here = vec![true, true, false, false];
        let mut threads = vec![free(4); 3];
        assert_eq!(place(&mut scheduler, &mut threads), [0, 2, 1]);
        // The last goes to the first node, whose processors both have a thread; the first could be
        // anywhere.
        threads[1].allowed.clone_from(&here);
        threads[2].allowed.clone_from(&here);
        threads[0].cpu = Some(0);
        threads[1].cpu = Some(1);
        threads[2].cpu = Some(1);
        assert_eq!(place(&mut scheduler, &mut threads), [2, 0, 1]);
    }
}
