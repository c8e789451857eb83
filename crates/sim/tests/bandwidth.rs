//! PTB 4.3, with the policy under the engine: the bandwidth of a saturated node rises while up to 60 to 70 %
//! of its pages are moved away, evenly among the others.

#![forbid(unsafe_code)]

use sim::{Report, Scenario, Workload};
use topology::CpuSet;

/// Eight threads of one node that ask for twice what its memory gives. Links are 1.2 times as long as the
/// way to the own memory: PTB 4.1 has 4 GB/s at home, 3.93 one way and 2.82 the other.
fn flood(topology: &str, policy: &str, seed: u64) -> Scenario {
    Scenario {
        topology: topology.to_owned(),
        workload: Workload::Flood,
        threads: Some(8),
        seconds: 8,
        policy: policy.to_owned(),
        seed,
        cgroup_cpus: (0..8).map(topology::CpuId).collect::<CpuSet>(),
        ..Scenario::default()
    }
}

/// What came of it, and the share of accesses that is remote in the end.
fn spread(scenario: &Scenario) -> (Report, f64) {
    let report = sim::run(scenario).expect("the scenario is one");
    assert!(report.violations.is_empty(), "{:?}", report.violations);
    let last = report.windows.last().and_then(|window| window.local_share);
    (report, 1.0 - last.expect("a program that runs has windows"))
}

#[test]
fn ptb_spreads_the_pages_of_a_saturated_node_and_then_stands_still() {
    // With controllers that count, and without.
    for (seed, counters) in [(1, false), (2, true)] {
        let scenario = Scenario {
            counters,
            ..flood("4x8@10,12", "ptb", seed)
        };
        let (report, remote) = spread(&scenario);
        assert!((0.6..=0.7).contains(&remote), "{remote} remote");
        let gain = report.outcome.work_s / report.none.work_s;
        assert!(gain > 1.6, "{gain}");
        let mut windows = report.windows.iter();
        let moving = windows.rposition(|window| window.moved_pages > 0);
        assert!(moving < Some(5), "moves in window {moving:?}");
        // Others get the same each: what the busiest has over the mean is what stayed at home.
        assert!(
            report.outcome.imbalance < 1.9,
            "{}",
            report.outcome.imbalance
        );
    }
}
