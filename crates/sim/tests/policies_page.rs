//! The figures of `docs/policies.md` are what the commands beside them print.

#![forbid(unsafe_code)]

use std::fmt::Write as _;

use sim::scenario::named;
use sim::{Report, Scenario};
use topology::CpuSet;

const PAGE: &str = include_str!("../../../docs/policies.md");

const SCENARIOS: [&str; 8] = [
    "one-toucher",
    "shuffled-pairs",
    "quads",
    "octets",
    "everyone",
    "hog-beside",
    "partners-change",
    "wide",
];

#[track_caller]
fn stands_in_the_page(table: &str) {
    assert!(
        PAGE.contains(&format!("\n\n{table}")),
        "docs/policies.md, Figures, should have\n\n{table}"
    );
}

fn run(scenario: &Scenario) -> Report {
    sim::run(scenario).expect("the scenario can be run")
}

fn under(name: &str, policy: &str, settings: &[(&str, &str)]) -> String {
    let mut scenario = named(name).expect("a named scenario").scenario(policy, 1);
    let settings = settings
        .iter()
        .map(|&(name, value)| (name.to_owned(), value.to_owned()));
    scenario.settings.extend(settings);
    format!("{:+.1}", run(&scenario).gain_percent())
}

#[test]
fn the_scenarios_are_as_the_page_says() {
    let mut table = "| scenario | `ptb` | with the paper's `c2` and `min_acc` | `deloc` |\n\
                     | --- | ---: | ---: | ---: |\n"
        .to_owned();
    for name in SCENARIOS {
        let cells = [
            under(name, "ptb", &[]),
            under(name, "ptb", &[("c2", "1.5"), ("min_acc", "16")]),
            under(name, "deloc", &[]),
        ];
        writeln!(table, "| `{name}` | {} |", cells.join(" | ")).expect("a string takes all");
    }
    stands_in_the_page(&table);
}

#[test]
fn a_flooded_node_is_as_the_page_says() {
    let mut table =
        "| machine | accesses that leave the node | work |\n| --- | ---: | ---: |\n".to_owned();
    for machine in ["4x8@10,12", "4x8@10,21"] {
        let report = run(&Scenario {
            topology: machine.to_owned(),
            workload: "flood".parse().expect("a workload"),
            threads: Some(8),
            policy: "ptb".to_owned(),
            cgroup_cpus: CpuSet::parse_list("0-7").expect("a list"),
            ..Scenario::default()
        });
        let away = 100.0 * (1.0 - report.outcome.local_share);
        let gain = report.gain_percent();
        writeln!(table, "| `{machine}` | {away:.1} % | {gain:+.1} % |")
            .expect("a string takes all");
    }
    stands_in_the_page(&table);
}
