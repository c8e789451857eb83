//! What holds for all policies, and helpers for the tests of each.

use numad_core::{Policy, Proposal, SettingKind, SettingSpec, Settings, Time};
use testkit::{Scene, jury};

use super::*;

/// A policy of the registry with some settings given as text.
#[track_caller]
pub(crate) fn build(name: &str, settings: &[(&str, &str)]) -> Box<dyn Policy> {
    let factory = find(name).unwrap();
    let specs = factory.settings;
    let given = settings.iter().map(|&(name, text)| {
        let spec = numad_core::setting::find(specs, name).unwrap();
        (name.to_owned(), spec.parse(text).unwrap())
    });
    let settings = Settings::with(specs, given).unwrap();
    (factory.build)(&settings, 1).unwrap()
}

/// What a new policy proposes in its first window.
#[track_caller]
pub(crate) fn proposals(name: &str, settings: &[(&str, &str)], scene: &Scene) -> Vec<Proposal> {
    let mut out = Vec::new();
    build(name, settings).propose(Time(0), &scene.as_program(), &mut out);
    out
}

/// Where tasks are when everything was done that a policy proposes in its first window.
#[track_caller]
pub(crate) fn nodes_after_with(
    name: &str,
    settings: &[(&str, &str)],
    scene: &Scene,
) -> Vec<Option<usize>> {
    let mut scene = scene.clone();
    let proposals = proposals(name, settings, &scene);
    scene.apply(&proposals);
    scene.placement()
}

/// The same with all settings at their defaults.
#[track_caller]
pub(crate) fn nodes_after(name: &str, scene: &Scene) -> Vec<Option<usize>> {
    nodes_after_with(name, &[], scene)
}

/// Every third policy of the registry, from one on, so that cores share the work.
fn judge_every_third(from: usize) {
    for factory in registry().iter().skip(from).step_by(3) {
        jury::judge(factory);
    }
}

#[test]
fn every_policy_passes_the_jury() {
    judge_every_third(0);
}

#[test]
fn every_policy_passes_the_jury_second_third() {
    judge_every_third(1);
}

#[test]
fn every_policy_passes_the_jury_last_third() {
    judge_every_third(2);
}

#[test]
fn none_and_linux_never_propose() {
    for name in ["none", "linux"] {
        for seed in 0..50 {
            let scene = Scene::random(&mut testkit::Dice::new(seed));
            assert_eq!(proposals(name, &[], &scene), [], "{name}, seed {seed}");
        }
    }
}

#[test]
fn names_are_found_and_others_refused_with_the_nearest() {
    for factory in registry() {
        assert_eq!(find(factory.name).unwrap().name, factory.name);
    }
    let refusal = |name: &str| find(name).unwrap_err();
    assert_eq!(
        refusal("delok"),
        "there is no policy `delok`; did you mean `deloc`?"
    );
    let names: Vec<&str> = registry().iter().map(|factory| factory.name).collect();
    assert_eq!(
        refusal("magic"),
        format!("there is no policy `magic`; there are {}", names.join(", "))
    );
}

#[test]
fn names_and_settings_are_well_formed() {
    let mut names = Vec::new();
    for factory in registry() {
        let name = factory.name;
        assert!(
            name.chars()
                .all(|letter| letter.is_ascii_lowercase() || letter == '-'),
            "{name}"
        );
        assert!(!names.contains(&name), "{name} is there twice");
        names.push(name);
        let sentences = factory.settings.iter().map(|spec| spec.help);
        for sentence in sentences.chain([factory.summary]) {
            assert!(
                sentence.ends_with('.') && sentence.starts_with(char::is_uppercase),
                "{sentence}"
            );
        }
        for spec in factory.settings {
            spec.check(spec.default_value()).unwrap();
        }
    }
}

/// The page of a policy in `docs/policies.md`: from its heading to the next.
fn chapter(name: &str) -> Option<&'static str> {
    const DOCUMENT: &str = include_str!("../../../docs/policies.md");
    let (_, rest) = DOCUMENT.split_once(&format!("\n## {name}\n"))?;
    Some(rest.split("\n## ").next().unwrap_or(rest))
}

/// The table of settings as it stands in the document.
fn table(specs: &[SettingSpec]) -> String {
    if specs.is_empty() {
        return "It has no settings.".to_owned();
    }
    let rows: Vec<String> = specs
        .iter()
        .map(|spec| {
            let default = match spec.kind {
                SettingKind::Float(_, default) => format!("{default:?}"),
                _ => spec.default_value().to_string(),
            };
            format!(
                "| `{}` | {} | `{default}` | {} |",
                spec.name,
                spec.expectation(),
                spec.help
            )
        })
        .collect();
    format!(
        "| setting | value | default | meaning |\n| --- | --- | --- | --- |\n{}\n",
        rows.join("\n")
    )
}

#[test]
fn the_document_has_a_page_for_each_policy_with_its_settings() {
    for factory in registry() {
        let name = factory.name;
        let chapter = chapter(name).unwrap_or_else(|| panic!("docs/policies.md lacks `## {name}`"));
        assert!(
            chapter.contains(factory.summary),
            "`{name}` lacks its summary: {}",
            factory.summary
        );
        let table = table(factory.settings);
        assert!(
            chapter.contains(&table),
            "settings of `{name}` should be\n\n{table}"
        );
    }
    let headings = include_str!("../../../docs/policies.md")
        .lines()
        .filter_map(|line| line.strip_prefix("## "));
    for heading in headings.filter(|heading| heading.starts_with(char::is_lowercase)) {
        find(heading).unwrap();
    }
}
