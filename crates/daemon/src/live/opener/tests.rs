use sampler::choose::Lack;
use sampler::machine::Vendor;

use super::super::maps;
use super::*;
use crate::fake::World;

#[test]
fn a_share_becomes_millionths() {
    assert_eq!(share_ppm(0.005), 5_000);
    assert_eq!(share_ppm(0.0), 0);
    assert_eq!(share_ppm(7.0), 1_000_000);
}

fn verdict(source: SourceKind, usable: Result<How, Lack>) -> Verdict {
    Verdict { source, usable }
}

fn verdicts(pebs: Result<How, Lack>) -> Vec<Verdict> {
    vec![
        verdict(SourceKind::Pebs, pebs),
        verdict(SourceKind::Ibs, Err(Lack::OtherProcessor { of: "AMD" })),
        verdict(SourceKind::Spe, Err(Lack::OtherProcessor { of: "Arm" })),
        verdict(SourceKind::Faults, Ok(How::Faults)),
    ]
}

/// What is opened, in order, and what is told, where opening what `refuses` names fails.
#[track_caller]
fn check(choice: SourceChoice, verdicts: &[Verdict], refuses: &str, opened: &str, told: &str) {
    let mut tried = Vec::new();
    let picked = pick(choice, verdicts, &mut |how| {
        let name = match how {
            How::Pebs(_) => "pebs",
            How::Ibs(_) => "ibs",
            How::Spe(_) => "spe",
            How::Faults => "faults",
        };
        tried.push(name);
        if refuses.contains(name) {
            let failure = Failure::new(ErrorKind::Prerequisite, format!("no {name}"));
            return Err(failure.remedy("mend it"));
        }
        World::new().open(&Config::default())
    });
    assert_eq!(tried.join(" "), opened);
    let text = match picked {
        Ok(picked) => picked.passed_over.join(" | "),
        Err(failure) => format!("failed: {}; {}", failure.message, failure.remedy),
    };
    assert_eq!(text, told);
}

#[test]
fn the_best_that_works_is_used_and_the_better_ones_are_explained() {
    use SourceChoice::{Auto, Faults, Ibs, Pebs, Spe};
    let works = || verdicts(Ok(How::Pebs(Vec::new())));
    check(Auto, &works(), "", "pebs", "");
    let told = "pebs is not used: no pebs; mend it";
    check(Auto, &works(), "pebs", "pebs faults", told);
    check(
        Auto,
        &works(),
        "pebs faults",
        "pebs faults",
        "failed: no faults; mend it",
    );
    check(Faults, &works(), "", "faults", "");
    check(Pebs, &works(), "pebs", "pebs", "failed: no pebs; mend it");
    let told = "failed: cannot sample by `ibs`: only processors of AMD have it; set sampling.source to auto";
    check(Ibs, &works(), "", "", told);
    let arm = |spe| {
        let mut verdicts = verdicts(Err(Lack::OtherProcessor { of: "Intel" }));
        verdicts[2] = verdict(SourceKind::Spe, spe);
        verdicts
    };
    let server = || arm(Ok(How::Spe(Vec::new())));
    check(Auto, &server(), "", "spe", "");
    check(Spe, &server(), "", "spe", "");
    let told = "spe is not used: no spe; mend it";
    check(Auto, &server(), "spe", "spe faults", told);
    let guest = || verdicts(Err(Lack::VirtualMachine { counters: false }));
    let told = "pebs is not used: this virtual machine is given no hardware counters; run numad on the \
                host, or give the machine counters (QEMU: `-cpu host,pmu=on`)";
    check(Auto, &guest(), "", "faults", told);
    check(
        Auto,
        &[],
        "",
        "",
        "failed: this machine has no source of samples; see `numadctl doctor`",
    );
}

/// What is denied by the look of it is tried all the same where the kernel's answer is cheap.
#[test]
fn faults_are_tried_whatever_the_facts_are() {
    let denied = Lack::NotPermitted { paranoid: Some(2) };
    let faults = vec![verdict(SourceKind::Faults, Err(denied))];
    check(SourceChoice::Auto, &faults, "", "faults", "");
    assert_eq!(choose(&Facts::default()).len(), SourceKind::ALL.len());
    assert_eq!(Facts::default().processor.vendor, Vendor::Other);
}

/// `status` says what is in the way before anybody attaches, and no longer than it is.
#[test]
fn what_cannot_be_opened_is_no_source() {
    let topology = Arc::new(topology::load("2x2").expect("a topology"));
    let reader = Reader::new("/nonexistent");
    let mut opener = LiveOpener::new(topology, &reader, maps::asker(&reader));
    let mut config = Config::default();
    config.sampling.source = SourceChoice::Spe;
    assert!(opener.describe(&config).starts_with("spe"));
    let failure = opener.try_once(&config).expect_err("nothing has it");
    assert_eq!(failure.kind, ErrorKind::Prerequisite);
    assert_eq!(opener.describe(&config), format!("none: {failure}"));
    config.sampling.source = SourceChoice::Feed;
    opener.try_once(&config).expect("a feed is left alone");
    assert!(opener.describe(&config).starts_with("feed"));
}
