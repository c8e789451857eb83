//! A small matrix, whole.

use super::*;

fn choice() -> Choice {
    Choice {
        policies: Some("deloc,scatter".to_owned()),
        workloads: Some("slices,phases".to_owned()),
        machines: Some("2x16".to_owned()),
        memory: None,
        conditions: Conditions::default(),
        bandwidth: Bandwidth::Measured,
        seeds: 2,
        windows: WINDOWS_MIN,
        calm: false,
    }
}

/// The choice on a machine that is small, so that it takes a second.
fn matrix(order: impl Fn(&Plan) -> Vec<usize>) -> Matrix {
    let mut plan = Plan::new(&choice()).unwrap();
    plan.machines[0].topology = Arc::new(topology::load("2x3@10,21").unwrap());
    let mut done: Vec<Option<Done>> = (0..plan.jobs()).map(|_| None).collect();
    for job in order(&plan) {
        done[job] = Some(plan.run(job).unwrap());
    }
    plan.finish(done.into_iter().map(Option::unwrap).collect())
}

#[test]
fn the_order_of_jobs_changes_nothing_and_the_figures_are_plausible() {
    let one = matrix(|plan| plan.order());
    let other = matrix(|plan| (0..plan.jobs()).rev().collect());
    assert_eq!(one.markdown("x"), other.markdown("x"));
    assert_eq!(one.html("x"), other.html("x"));
    assert_eq!(one.cells_csv(), other.cells_csv());
    let names: Vec<&str> = one.plan.policies.iter().map(|one| one.name).collect();
    assert_eq!(names, ["none", "linux", "scatter", "deloc"]);
    // Slices on one controller: the kernel helps, and the search knows best.
    let [none, linux, deloc] = ["none", "linux", "deloc"].map(|name| one.policy(name).unwrap());
    assert!(one.over_linux(0, 0, none) < 1.0);
    assert!((one.over_linux(0, 0, linux) - 1.0).abs() < 1e-12);
    assert!((0.5..=1.001).contains(&one.of_best(0, 0, deloc)));
    assert!(one.best(0, 0).local_share > 0.999);
    assert_eq!(one.cell(0, 0, none).follow, Follow::NotAsked);
    assert_ne!(one.cell(0, 1, none).follow, Follow::NotAsked);
    check_written(&one);
}

/// Where who streams saturates controllers, threads leave them though nobody gets nearer by that.
#[test]
fn a_plan_that_only_relieves_controllers_is_taken() {
    let choice = Choice {
        policies: Some("linux,auto".to_owned()),
        workloads: Some("stream".to_owned()),
        machines: Some("16x8".to_owned()),
        ..choice()
    };
    let plan = Plan::new(&choice).unwrap();
    let jobs = plan.order().into_iter().map(|job| plan.run(job).unwrap());
    let done = jobs.collect();
    let matrix = plan.finish(done);
    let auto = matrix.over_linux(0, 0, matrix.policy("auto").unwrap());
    assert!(auto > 1.2, "{auto}");
}

/// Every part is there, and nothing is loaded from elsewhere.
#[track_caller]
fn check_written(matrix: &Matrix) {
    let markdown = matrix.markdown("numad-sim matrix");
    for words in [
        "    numad-sim matrix\n",
        "| 2x16 | slices |",
        "## Checks",
        "PASS  no rule is broken",
        "| deloc | scatter | +4.8 %",
    ] {
        assert!(
            markdown.contains(words),
            "`{words}` is missing in\n{markdown}"
        );
    }
    let html = matrix.html("numad-sim matrix");
    assert_eq!(html.matches("<table>").count(), 7);
    assert_eq!(html.matches("<td ").count(), 7 * 2 * 4);
    assert!(!html.contains("<script") && !html.contains("http"));
    assert_eq!(matrix.cells_csv().lines().count(), 1 + 2 * 4);
}

#[test]
fn what_does_not_exist_is_refused_by_name() {
    let refused = |change: fn(&mut Choice), words: &str| {
        let mut choice = choice();
        change(&mut choice);
        let error = Plan::new(&choice).unwrap_err();
        assert!(error.message.contains(words), "{error}");
    };
    refused(
        |one| one.policies = Some("delok".to_owned()),
        "did you mean `deloc`?",
    );
    refused(
        |one| one.workloads = Some("pears".to_owned()),
        "no workload `pears`",
    );
    refused(
        |one| one.machines = Some("2x16,".to_owned()),
        "no machine ``",
    );
    refused(|one| one.seeds = 0, "`0` seeds");
    refused(|one| one.windows = 5, "from 6 to 100");
}
