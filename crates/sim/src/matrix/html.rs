//! The matrix as one page with heat maps. Nothing is loaded from elsewhere and nothing runs: all
//! figures of a cell are its title in the first map, which a browser shows on pointing at it.

use std::fmt::{self, Write as _};

use super::markdown::follow_text;
use super::{Matrix, Measured};

/// A figure that is drawn as heat.
struct Map {
    name: &'static str,
    about: &'static str,
    /// The figure of a cell, by machine, row and policy.
    value: fn(&Matrix, usize, usize, usize) -> f64,
    /// Figures at which the colour is full: bad, neutral, good.
    scale: [f64; 3],
    decimals: usize,
}

const MAPS: &[Map] = &[
    Map {
        name: "Work compared to linux",
        about: "percent; 100 is as much as first touch with the kernel's balancing",
        value: |matrix, machine, row, policy| matrix.over_linux(machine, row, policy) * 100.0,
        scale: [60.0, 100.0, 160.0],
        decimals: 0,
    },
    Map {
        name: "Work compared to the search",
        about: "percent; 100 is the best placement that was found by search, there from the beginning",
        value: |matrix, machine, row, policy| matrix.of_best(machine, row, policy) * 100.0,
        scale: [40.0, 80.0, 100.0],
        decimals: 0,
    },
    Map {
        name: "Local accesses",
        about: "percent of all accesses",
        value: |matrix, machine, row, policy| matrix.cell(machine, row, policy).local_share * 100.0,
        scale: [0.0, 50.0, 100.0],
        decimals: 0,
    },
    Map {
        name: "Imbalance of controllers",
        about: "the busiest over the mean; 1 is even",
        value: |matrix, machine, row, policy| matrix.cell(machine, row, policy).imbalance,
        scale: [4.0, 1.6, 1.0],
        decimals: 2,
    },
    Map {
        name: "Threads moved",
        about: "whoever moved them",
        value: |matrix, machine, row, policy| matrix.cell(machine, row, policy).task_moves,
        scale: [200.0, 40.0, 0.0],
        decimals: 0,
    },
    Map {
        name: "Pages moved",
        about: "whoever moved them",
        value: |matrix, machine, row, policy| matrix.cell(machine, row, policy).page_moves,
        scale: [20_000.0, 4_000.0, 0.0],
        decimals: 0,
    },
    Map {
        name: "Windows until settled",
        about: "the last window after which something was moved",
        value: |matrix, machine, row, policy| f64::from(matrix.cell(machine, row, policy).settled),
        scale: [12.0, 5.0, 0.0],
        decimals: 0,
    },
];

const STYLE: &str = "\
:root{color-scheme:light dark}\
body{font:14px/1.4 system-ui,sans-serif;margin:2rem auto;max-width:90rem;padding:0 1rem}\
table{border-collapse:collapse;margin:.5rem 0 1.5rem}\
th{font-weight:500;padding:.15rem .4rem;text-align:left}\
thead th{writing-mode:vertical-rl;transform:rotate(180deg);padding:.4rem .15rem}\
thead th:first-child{writing-mode:initial;transform:none}\
td{padding:.15rem .4rem;text-align:right;color:#111;font-variant-numeric:tabular-nums;min-width:2.4rem}\
pre{overflow:auto}nav a{margin-right:1rem}";

impl Matrix {
    /// One self-contained page. `command` is what printed it.
    #[must_use]
    pub fn html(&self, command: &str) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        match self.write_html(&mut text, command) {
            Ok(()) => text,
            Err(fmt::Error) => String::new(),
        }
    }

    fn write_html(&self, out: &mut String, command: &str) -> fmt::Result {
        write!(
            out,
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
             <meta name=\"viewport\" content=\"width=device-width\">\
             <title>numad: the simulator's matrix</title><style>{STYLE}</style></head><body>\n\
             <h1>The simulator's matrix</h1>\n<p><code>{}</code></p>\n<p>{}. Model only, no hardware; point \
             at a cell of the first maps for all its figures.</p>\n<nav>",
            escaped(command),
            escaped(&self.head()),
        )?;
        for (index, map) in MAPS.iter().enumerate() {
            write!(out, "<a href=\"#map{index}\">{}</a>", escaped(map.name))?;
        }
        writeln!(out, "<a href=\"#checks\">Checks</a></nav>")?;
        for (index, map) in MAPS.iter().enumerate() {
            let (name, about) = (escaped(map.name), escaped(map.about));
            writeln!(out, "<h2 id=\"map{index}\">{name}</h2>\n<p>{about}</p>")?;
            for machine in 0..self.plan.machines.len() {
                self.write_map(out, map, machine)?;
            }
        }
        writeln!(out, "<h2 id=\"checks\">Checks</h2>\n<pre>")?;
        for check in self.checks() {
            write!(out, "{}", escaped(&check.lines(usize::MAX)))?;
        }
        writeln!(out, "</pre></body></html>")
    }

    fn write_map(&self, out: &mut String, map: &Map, machine: usize) -> fmt::Result {
        let site = &self.plan.machines[machine];
        write!(
            out,
            "<h3>{}</h3><p>{}</p><table><thead><tr><th></th>",
            escaped(&site.name()),
            escaped(&site.about())
        )?;
        for factory in &self.plan.policies {
            write!(out, "<th>{}</th>", escaped(factory.name))?;
        }
        writeln!(out, "</tr></thead><tbody>")?;
        for (row, workload) in self.plan.rows.iter().enumerate() {
            let (name, about) = (escaped(workload.name), escaped(workload.about));
            write!(out, "<tr><th title=\"{about}\">{name}</th>")?;
            for policy in 0..self.plan.policies.len() {
                let value = (map.value)(self, machine, row, policy);
                let (colour, decimals) = (heat(value, map.scale), map.decimals);
                // Once is enough; in every map the page would be five times as long.
                let title = if map.name == MAPS[0].name {
                    format!(" title=\"{}\"", escaped(&self.title(machine, row, policy)))
                } else {
                    String::new()
                };
                write!(
                    out,
                    "<td style=\"background:{colour}\"{title}>{value:.decimals$}</td>"
                )?;
            }
            writeln!(out, "</tr>")?;
        }
        writeln!(out, "</tbody></table>")
    }

    fn title(&self, machine: usize, row: usize, policy: usize) -> String {
        let cell: &Measured = self.cell(machine, row, policy);
        format!(
            "{}, {}, {}: {:.1} % of linux, {:.1} % of the search; local {:.0} % (in the end {:.0} %), \
             imbalance {:.2}, busiest controller {:.0} % in the end; {:.0} threads and {:.0} pages moved; settled \
             after {} windows ({} moves after the fifth), follows after {}",
            self.plan.policies[policy].name,
            self.plan.rows[row].name,
            self.plan.machines[machine].name(),
            self.over_linux(machine, row, policy) * 100.0,
            self.of_best(machine, row, policy) * 100.0,
            cell.local_share * 100.0,
            cell.local_at_end * 100.0,
            cell.imbalance,
            cell.busiest * 100.0,
            cell.task_moves,
            cell.page_moves,
            cell.settled,
            cell.late_moves,
            follow_text(cell.follow),
        )
    }
}

/// From red over white to green; what is beyond the scale has the colour of its end.
fn heat(value: f64, [bad, neutral, good]: [f64; 3]) -> String {
    let towards = |end: f64| ((value - neutral) / (end - neutral)).clamp(0.0, 1.0);
    let (hue, strength) = match (towards(bad), towards(good)) {
        (red, green) if red > green => (8, red),
        (_, green) => (145, green),
    };
    let light = 97.0 - 37.0 * strength;
    format!("hsl({hue} 65% {light:.0}%)")
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heat_goes_from_bad_to_good_either_way() {
        let up = [60.0, 100.0, 160.0];
        assert_eq!(heat(100.0, up), "hsl(145 65% 97%)");
        assert_eq!(heat(500.0, up), "hsl(145 65% 60%)");
        assert_eq!(heat(10.0, up), "hsl(8 65% 60%)");
        let down = [4.0, 1.6, 1.0];
        assert_eq!(heat(1.0, down), "hsl(145 65% 60%)");
        assert_eq!(heat(9.0, down), "hsl(8 65% 60%)");
    }

    #[test]
    fn text_cannot_leave_its_place() {
        assert_eq!(
            escaped("<a href=\"&\">"),
            "&lt;a href=&quot;&amp;&quot;&gt;"
        );
    }
}
