//! What the compiler cannot check: the map of the house, the rooms for unsafe code, the size of
//! files, links between documents.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// Most lines of a source file; half of that is better.
const LINES_MAX: usize = 800;

/// Crates that may open rooms for unsafe code; all others forbid it.
const UNSAFE_CRATES: [&str; 5] = [
    "actuator",
    "characterize",
    "mpi-shim",
    "sampler",
    "workloads",
];

/// Crates that may derive `Serialize`.
const SERIALIZE_CRATES: [&str; 1] = ["control"];

/// What brings an async runtime, and the packages that may have one.
const RUNTIMES: [&str; 4] = ["axum", "hyper", "hyper-util", "tokio"];
const RUNTIME_CRATES: [&str; 2] = ["numad", "numadctl"];

/// Calls that change the machine, and the one crate that may make them.
const CHANGING_CALLS: [&str; 4] = [
    "SYS_sched_setaffinity",
    "SYS_move_pages",
    "SYS_mbind",
    "SYS_migrate_pages",
];
const CHANGING_CRATE: &str = "actuator";

/// Checks everything, and fails with one line per finding.
pub(crate) fn run(root: &Path) -> Result<()> {
    let crates = crates(root)?;
    let sources = files(root, "rs")?;
    let mut findings = Vec::new();
    check_map(root, &crates, &mut findings)?;
    for (name, folder) in &crates {
        check_crate(name, folder, &mut findings)?;
    }
    for path in &sources {
        check_source(root, path, &crates, &mut findings)?;
    }
    check_tests_included(root, &mut findings)?;
    for path in files(root, "md")? {
        check_links(root, &path, &mut findings)?;
    }
    if findings.is_empty() {
        return Ok(());
    }
    bail!("{} findings\n{}", findings.len(), findings.join("\n"))
}

/// Packages of the workspace: name and folder.
fn crates(root: &Path) -> Result<BTreeMap<String, PathBuf>> {
    let mut folders: Vec<PathBuf> = ["numadctl", "tests", "tests/vm", "xtask"]
        .iter()
        .map(|name| root.join(name))
        .collect();
    for entry in fs::read_dir(root.join("crates")).context("cannot list `crates`")? {
        folders.push(entry?.path());
    }
    let mut crates = BTreeMap::new();
    for folder in folders {
        let name = manifest(&folder)?["package"]["name"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        crates.insert(name, folder);
    }
    Ok(crates)
}

fn manifest(folder: &Path) -> Result<toml::Table> {
    let path = folder.join("Cargo.toml");
    let text =
        fs::read_to_string(&path).with_context(|| format!("cannot read `{}`", path.display()))?;
    text.parse()
        .with_context(|| format!("cannot parse `{}`", path.display()))
}

/// The table of arrows in ARCHITECTURE.md names every crate and exactly its dependencies on ours.
fn check_map(
    root: &Path,
    crates: &BTreeMap<String, PathBuf>,
    findings: &mut Vec<String>,
) -> Result<()> {
    let text =
        fs::read_to_string(root.join("ARCHITECTURE.md")).context("cannot read ARCHITECTURE.md")?;
    let mut drawn = BTreeMap::new();
    for line in text
        .lines()
        .skip_while(|line| !line.starts_with("| crate |"))
        .skip(2)
    {
        let Some(row) = line.strip_prefix('|') else {
            break;
        };
        let cells: Vec<&str> = row.split('|').collect();
        let names = |cell: &str| -> BTreeSet<String> {
            cell.split('`')
                .skip(1)
                .step_by(2)
                .map(ToOwned::to_owned)
                .collect()
        };
        if let (Some(name), Some(arrows)) = (cells.first(), cells.get(1)) {
            drawn.extend(names(name).into_iter().map(|name| (name, names(arrows))));
        }
    }
    for (name, folder) in crates {
        let held: BTreeSet<String> = manifest(folder)?
            .get("dependencies")
            .and_then(toml::Value::as_table)
            .map(|table| {
                table
                    .keys()
                    .filter(|key| crates.contains_key(*key))
                    .cloned()
                    .collect()
            })
            .unwrap_or_default();
        match drawn.remove(name) {
            None => findings.push(format!("ARCHITECTURE.md: the map lacks crate `{name}`")),
            Some(arrows) if arrows != held => findings.push(format!(
                "ARCHITECTURE.md: the map says `{name}` depends on {arrows:?}, its manifest says {held:?}"
            )),
            Some(_) => {}
        }
    }
    findings.extend(
        drawn
            .keys()
            .map(|name| format!("ARCHITECTURE.md: there is no crate `{name}`")),
    );
    Ok(())
}

fn check_crate(name: &str, folder: &Path, findings: &mut Vec<String>) -> Result<()> {
    let manifest = manifest(folder)?;
    let inherits = manifest
        .get("lints")
        .and_then(|lints| lints.get("workspace"))
        .and_then(toml::Value::as_bool);
    if inherits != Some(true) {
        findings.push(format!(
            "{name}: Cargo.toml does not say `lints.workspace = true`"
        ));
    }
    let dependencies = manifest.get("dependencies");
    for runtime in RUNTIMES {
        let has = dependencies.and_then(|all| all.get(runtime)).is_some();
        if has && !RUNTIME_CRATES.contains(&name) {
            findings.push(format!(
                "{name}: depends on `{runtime}`; only {RUNTIME_CRATES:?} may"
            ));
        }
    }
    let wanted = if UNSAFE_CRATES.contains(&name) {
        "#![deny(unsafe_code)]"
    } else {
        "#![forbid(unsafe_code)]"
    };
    for top in ["src/lib.rs", "src/main.rs", "it/lib.rs"] {
        let Ok(text) = fs::read_to_string(folder.join(top)) else {
            continue;
        };
        let allowed = text.contains(wanted) || text.contains("#![forbid(unsafe_code)]");
        if !allowed {
            findings.push(format!("{name}: {top} does not say `{wanted}`"));
        }
    }
    Ok(())
}

fn check_source(
    root: &Path,
    path: &Path,
    crates: &BTreeMap<String, PathBuf>,
    findings: &mut Vec<String>,
) -> Result<()> {
    let text = fs::read_to_string(path)?;
    let shown = path.strip_prefix(root).unwrap_or(path).display();
    let owner = crates
        .iter()
        .find(|(_, folder)| path.starts_with(folder))
        .map_or("", |(name, _)| name);
    let lines = text.lines().count();
    if lines > LINES_MAX {
        findings.push(format!("{shown}: {lines} lines, more than {LINES_MAX}"));
    }
    if path.ends_with("xtask/src/tidy.rs") {
        return Ok(()); // It names what it looks for.
    }
    for (number, line) in text.lines().enumerate() {
        let mut refuse = |what: &str| findings.push(format!("{shown}:{}: {what}", number + 1));
        if line.contains("#[ignore") {
            refuse("a test that is not run is no test");
        }
        if ["TODO", "FIXME", "XXX"]
            .iter()
            .any(|word| line.contains(word))
        {
            refuse("a note to do something later belongs into an issue");
        }
        let derives = line.trim_start().starts_with("#[derive(") && line.contains("Serialize");
        if derives && !SERIALIZE_CRATES.contains(&owner) {
            refuse("only `control` derives `Serialize`");
        }
        if owner != CHANGING_CRATE && CHANGING_CALLS.iter().any(|call| line.contains(call)) {
            refuse("only `actuator` changes the machine");
        }
    }
    Ok(())
}

/// Every file in `tests/it` is a module of its `lib.rs`.
fn check_tests_included(root: &Path, findings: &mut Vec<String>) -> Result<()> {
    let top = fs::read_to_string(root.join("tests/it/lib.rs"))
        .context("cannot read `tests/it/lib.rs`")?;
    for path in files(&root.join("tests/it"), "rs")? {
        let stem = path
            .file_stem()
            .and_then(|stem| stem.to_str())
            .unwrap_or_default();
        if stem != "lib" && !top.contains(&format!("mod {stem};")) {
            findings.push(format!("tests/it/lib.rs: file `{stem}.rs` is not included"));
        }
    }
    Ok(())
}

/// Links to files of this tree lead somewhere.
fn check_links(root: &Path, path: &Path, findings: &mut Vec<String>) -> Result<()> {
    let text = fs::read_to_string(path)?;
    let shown = path.strip_prefix(root).unwrap_or(path).display();
    for target in text
        .split("](")
        .skip(1)
        .filter_map(|rest| rest.split(')').next())
    {
        let target = target.split('#').next().unwrap_or_default();
        if target.is_empty() || target.contains("://") {
            continue;
        }
        if !path.parent().unwrap_or(root).join(target).exists() {
            findings.push(format!("{shown}: link to `{target}`, which does not exist"));
        }
    }
    Ok(())
}

/// Files of the tree with this ending, in order, without what is built or hidden.
fn files(folder: &Path, ending: &str) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in
            fs::read_dir(&folder).with_context(|| format!("cannot list `{}`", folder.display()))?
        {
            let path = entry?.path();
            let name = path
                .file_name()
                .and_then(|name| name.to_str())
                .unwrap_or_default();
            if path.is_dir() && name != "target" && !name.starts_with('.') {
                folders.push(path);
            } else if path.extension().is_some_and(|found| found == ending) {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}
