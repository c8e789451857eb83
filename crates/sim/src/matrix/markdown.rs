//! The matrix as one Markdown text and as a table for programs.

use std::fmt::{self, Write as _};

use super::{Follow, Matrix};

/// What the model is, for whoever reads the table alone.
const MODEL: &str = "\
Everything here is *model*: `numad-sim`, no hardware. Threads think and access memory; accesses queue at
controllers and links (`numad_core::cost`); a moved page costs 2 us (one of 2 MiB 420 us) of whoever comes upon it
meanwhile, and what is copied its part of controllers; a moved thread 152 us.
Nodes have as much more memory as programs do. Where a node has several last-level caches, a line from
another one takes as long as from memory. Programs start
as Linux starts them: threads spread over nodes, each page on the node of the thread that touched it first.
`none` leaves it so. `linux` is the same with the kernel's own NUMA balancing as modelled in
`crates/sim/src/world/balancing.rs`: every second, less often once 7 of 10 faults are local, each page takes
a hint fault (2.7 us) by one of its users; a page follows two faults in a row from one node, a thread goes
to the node of most of its faults, onto an idle processor or in exchange with a thread that gains with it.
It keeps no groups of threads. Under all other policies balancing is off. All policies run with their
defaults; windows grow from 0.5 s to 2 s, or with `--calm` as they do by default. The machine counts
instructions, cycles and traffic, and what its memory carries was measured before; with `--bandwidth unknown`
nothing of that. *Search* is the best of thread mappings by the kernels over the true matrix, with pages beside their users, improved by
up to 2,000 changes that the model likes; it knows everything, moves nothing, and is no upper bound.
";

/// Cells that break a promise and are listed; the page with heat maps lists all.
const BROKEN_MAX: usize = 40;

impl Matrix {
    /// The whole as Markdown. `command` is what printed it.
    #[must_use]
    pub fn markdown(&self, command: &str) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        match self.write_markdown(&mut text, command) {
            Ok(()) => text,
            Err(fmt::Error) => String::new(),
        }
    }

    fn write_markdown(&self, out: &mut String, command: &str) -> fmt::Result {
        writeln!(
            out,
            "# The simulator's matrix\n\n    {command}\n\n{}.\n",
            self.head()
        )?;
        writeln!(out, "{MODEL}")?;
        self.write_legend(out)?;
        self.write_table(out)?;
        self.write_policies(out)?;
        self.write_checks(out)?;
        self.write_papers(out)
    }

    fn write_legend(&self, out: &mut String) -> fmt::Result {
        writeln!(out, "| machine | what it is |\n| --- | --- |")?;
        for site in &self.plan.machines {
            writeln!(out, "| {} | {} |", site.name(), site.about())?;
        }
        writeln!(out, "\n| workload | what it is |\n| --- | --- |")?;
        for row in &self.plan.rows {
            writeln!(out, "| {} | {} |", row.name, row.about)?;
        }
        writeln!(out)
    }

    fn write_table(&self, out: &mut String) -> fmt::Result {
        writeln!(
            out,
            "## Work done\n\nIn percent of what `linux` gets done in the same time, moves and everything \
             included. The best policy of a row is bold. *busiest*: use of the busiest controller under \
             `linux` in the end.\n"
        )?;
        let names: Vec<&str> = self.plan.policies.iter().map(|one| one.name).collect();
        writeln!(
            out,
            "| machine | workload | busiest | {} | search |",
            names.join(" | ")
        )?;
        writeln!(out, "| --- | --- |{}", " ---: |".repeat(names.len() + 2))?;
        let linux = self.policy(crate::report::LINUX).unwrap_or(0);
        for (machine, row) in self.plan.places() {
            let (name, workload) = (self.plan.machines[machine].name(), self.plan.rows[row].name);
            let busiest = self.cell(machine, row, linux).busiest * 100.0;
            write!(out, "| {name} | {workload} | {busiest:.0} % |")?;
            let over = |policy| self.over_linux(machine, row, policy) * 100.0;
            let most = (0..names.len()).map(over).fold(0.0, f64::max);
            for policy in 0..names.len() {
                let value = over(policy);
                if value >= most - 0.05 {
                    write!(out, " **{value:.1}** |")?;
                } else {
                    write!(out, " {value:.1} |")?;
                }
            }
            let search = over(linux) / self.of_best(machine, row, linux);
            writeln!(out, " {search:.1} |")?;
        }
        writeln!(out)
    }

    fn write_policies(&self, out: &mut String) -> fmt::Result {
        writeln!(
            out,
            "## Policies over all cells\n\nMeans over cells (work: geometric); *settled* and *follows* are \
             the most windows of any cell, *follows* over the cells that changed.\n"
        )?;
        writeln!(
            out,
            "| policy | work over `linux` | least | of search | local | imbalance | threads moved | pages \
             moved | settled | follows |"
        )?;
        writeln!(out, "| --- |{}", " ---: |".repeat(9))?;
        for (policy, factory) in self.plan.policies.iter().enumerate() {
            let cells = || self.plan.places().map(|(m, r)| self.cell(m, r, policy));
            let count = cells().count().max(1) as f64;
            let mean =
                |figure: fn(&super::Measured) -> f64| cells().map(figure).sum::<f64>() / count;
            let (least, over) =
                Self::least_and_mean(self.plan.places(), |m, r| self.over_linux(m, r, policy));
            let (_, of_best) =
                Self::least_and_mean(self.plan.places(), |m, r| self.of_best(m, r, policy));
            let settled = cells().map(|one| one.settled).max().unwrap_or(0);
            let follow = cells()
                .map(|one| one.follow)
                .max()
                .unwrap_or(Follow::NotAsked);
            writeln!(
                out,
                "| {} | {:.1} % | {:.1} % | {:.1} % | {:.0} % | {:.2} | {:.0} | {:.0} | {settled} | {} |",
                factory.name,
                over * 100.0,
                least * 100.0,
                of_best * 100.0,
                mean(|one| one.local_share) * 100.0,
                mean(|one| one.imbalance),
                mean(|one| one.task_moves),
                mean(|one| one.page_moves),
                follow_text(follow),
            )?;
        }
        writeln!(out)
    }

    fn write_checks(&self, out: &mut String) -> fmt::Result {
        writeln!(out, "## Checks\n\n```text")?;
        for check in self.checks() {
            write!(out, "{}", check.lines(BROKEN_MAX))?;
        }
        writeln!(out, "```\n")
    }

    fn write_papers(&self, out: &mut String) -> fmt::Result {
        writeln!(
            out,
            "## Beside the papers\n\nWork done compared to the same baseline, mean over the cells of numerical \
             kernels (`stencil` to `sp`) and the best of them. The papers measured other programs on other \
             machines, and printed means over programs of which many do not care for placement; half of \
             what our workloads do is sharing. So *agrees* says that the figure is within 5 points of the paper's mean (its best where it prints \
             no mean), and no more.\n"
        )?;
        writeln!(
            out,
            "| policy | against | paper | model, mean | model, best | |"
        )?;
        writeln!(out, "| --- | --- | --- | ---: | ---: | --- |")?;
        for answer in self.answers() {
            let paper = answer.published;
            writeln!(
                out,
                "| {} | {} | {} ({}) | {:+.1} % | {:+.1} % ({}) | {} |",
                paper.policy,
                paper.against,
                paper.result,
                paper.source,
                answer.mean,
                answer.best,
                answer.place,
                answer.verdict(),
            )?;
        }
        Ok(())
    }

    /// Every cell with every figure, as comma-separated values.
    #[must_use]
    pub fn cells_csv(&self) -> String {
        let mut text = String::from(
            "machine,memory,workload,threads,policy,over_linux,of_search,speed,local_share,local_at_end,imbalance,\
             busiest,task_moves,page_moves,settled,late_moves,follows,violations\n",
        );
        for (machine, row) in self.plan.places() {
            for (policy, factory) in self.plan.policies.iter().enumerate() {
                let cell = self.cell(machine, row, policy);
                let site = &self.plan.machines[machine];
                let line = writeln!(
                    text,
                    "{},{},{},{},{},{:.4},{:.4},{:.4},{:.4},{:.4},{:.3},{:.4},{:.1},{:.1},{},{},{},{}",
                    site.machine.name,
                    site.conditions.memory,
                    self.plan.rows[row].name,
                    self.plan.rows[row].threads(&site.topology),
                    factory.name,
                    self.over_linux(machine, row, policy),
                    self.of_best(machine, row, policy),
                    cell.speed,
                    cell.local_share,
                    cell.local_at_end,
                    cell.imbalance,
                    cell.busiest,
                    cell.task_moves,
                    cell.page_moves,
                    cell.settled,
                    cell.late_moves,
                    follow_text(cell.follow),
                    cell.violations,
                );
                // Writing to a string cannot fail.
                if line.is_err() {
                    break;
                }
            }
        }
        text
    }

    /// Every window of every run, as comma-separated values: where and why a policy was late.
    #[must_use]
    pub fn windows_csv(&self) -> String {
        let mut text = String::from(
            "machine,memory,workload,policy,seed,program,time_ms,window_ms,samples,proposals,bound,moved_pages,\
             local_share,speed\n",
        );
        let seeds = usize::try_from(self.plan.seeds).unwrap_or(usize::MAX);
        let policies = self.plan.policies.len();
        let places: Vec<(usize, usize)> = self.plan.places().collect();
        for (run, rows) in self.windows.iter().enumerate() {
            let (cell, seed) = (run / seeds, run % seeds + 1);
            let (machine, row) = places[cell / policies];
            let site = &self.plan.machines[machine];
            let (name, memory) = (site.machine.name, site.conditions.memory);
            let workload = self.plan.rows[row].name;
            let policy = self.plan.policies[cell % policies].name;
            for window in rows {
                let seen = &window.summary;
                text.push_str(&format!(
                    "{name},{memory},{workload},{policy},{seed},{},{},{},{},{},{},{},{:.4},{:.4}\n",
                    window.program,
                    window.time_ms,
                    seen.window_ms,
                    seen.samples,
                    seen.proposals,
                    window.bound,
                    window.moved_pages,
                    window.local_share.unwrap_or(0.0),
                    window.speed.unwrap_or(0.0),
                ));
            }
        }
        text
    }

    /// Each policy in one line, for the terminal.
    #[must_use]
    pub fn summary(&self) -> String {
        let mut text = format!("{}\n", self.head());
        text.push_str("policy        over linux   least  of search  settled  follows\n");
        for (policy, factory) in self.plan.policies.iter().enumerate() {
            let cells = || self.plan.places().map(|(m, r)| self.cell(m, r, policy));
            let (least, over) =
                Self::least_and_mean(self.plan.places(), |m, r| self.over_linux(m, r, policy));
            let (_, of_best) =
                Self::least_and_mean(self.plan.places(), |m, r| self.of_best(m, r, policy));
            let settled = cells().map(|one| one.settled).max().unwrap_or(0);
            let follow = cells()
                .map(|one| one.follow)
                .max()
                .unwrap_or(Follow::NotAsked);
            text.push_str(&format!(
                "{:12} {:9.1} % {:5.1} % {:8.1} % {settled:8} {:>8}\n",
                factory.name,
                over * 100.0,
                least * 100.0,
                of_best * 100.0,
                follow_text(follow),
            ));
        }
        text
    }
}

pub(super) fn follow_text(follow: Follow) -> String {
    match follow {
        Follow::NotAsked => "-".to_owned(),
        Follow::After(windows) => windows.to_string(),
        Follow::Never => "never".to_owned(),
    }
}
