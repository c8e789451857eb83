//! Which part of a mapping goes to which of several equal nodes: where moving tasks, and the pages
//! that would follow them, costs least.

use super::{Board, Plan, numbers, seats};

impl Board<'_> {
    /// A sketch as a plan: its parts named so that little moves, and masks kept.
    pub(crate) fn named(&self, sketch: &[u16], from: &Plan) -> Plan {
        let mut parts = sketch.to_vec();
        self.rename(&mut parts, from);
        self.fit(&seats(&parts), from)
    }

    /// The same for a mapping that somebody else made, seat by seat.
    pub(crate) fn named_plan(&self, mapping: &Plan, from: &Plan) -> Plan {
        let plan = self.fit(mapping, from);
        if !self.is_easy || plan.iter().any(Option::is_none) {
            return plan;
        }
        self.named(&numbers(&plan), from)
    }

    /// Exchanges whole nodes of a plan while that keeps more where it is and costs nothing, or less
    /// than memory that stays is worth: a little said across, by chance or in an era before, must
    /// not send it elsewhere.
    fn rename(&self, plan: &mut [u16], from: &Plan) {
        let nodes = self.capacity.len();
        let mut names: Vec<usize> = (0..nodes).collect();
        let mut size = vec![0_u32; nodes];
        // What need not move if a part is on a node, as time: memory, and tasks too.
        let mut memory = vec![0.0; nodes * nodes];
        let mut tasks = vec![0.0; nodes * nodes];
        for (talker, &part) in plan.iter().enumerate() {
            let part = usize::from(part);
            size[part] += 1;
            if let Some(node) = self.place(from, talker).filter(|&node| node < nodes) {
                tasks[part * nodes + node] += self.task_move_ns;
            }
            let memory = memory[part * nodes..].iter_mut();
            for (memory, &pages) in memory.zip(self.homes_of(talker)) {
                *memory += pages;
            }
        }
        let mut traffic = vec![0.0; nodes * nodes];
        for &(one, other, amount) in &self.pairs {
            let (one, other) = (
                usize::from(plan[one as usize]),
                usize::from(plan[other as usize]),
            );
            traffic[one * nodes + other] += amount as f64;
            traffic[other * nodes + one] += amount as f64;
        }
        let cost = |part: usize, names: &[usize]| -> f64 {
            (0..nodes)
                .map(|other| traffic[part * nodes + other] * self.apart(names[part], names[other]))
                .sum()
        };
        for _ in 0..nodes {
            let mut any = false;
            for one in 0..nodes {
                for other in one + 1..nodes {
                    let (a, b) = (names[one], names[other]);
                    let fits = size[one] <= self.capacity[b] && size[other] <= self.capacity[a];
                    let stays = |what: &[f64]| {
                        what[one * nodes + b] + what[other * nodes + a]
                            - what[one * nodes + a]
                            - what[other * nodes + b]
                    };
                    let saved_ns = stays(&memory);
                    if !fits || saved_ns + stays(&tasks) <= 0.0 {
                        continue;
                    }
                    let before = cost(one, &names) + cost(other, &names);
                    names.swap(one, other);
                    let rise = cost(one, &names) + cost(other, &names) - before;
                    let costs = rise > before * 1e-9;
                    let pays = self.talk_ns > 0.0 && saved_ns > rise * self.talk_ns;
                    if costs && !pays {
                        names.swap(one, other);
                    } else {
                        any = true;
                    }
                }
            }
            if !any {
                break;
            }
        }
        for part in plan {
            *part = u16::try_from(names[usize::from(*part)]).unwrap_or(*part);
        }
    }
}
