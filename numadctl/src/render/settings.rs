//! What `config` and `reload` say.

use std::path::{Path, PathBuf};

use control::rows::{ConfigText, ReloadReport};

/// That files are right, and which were read.
#[must_use]
pub fn checked(file: &Path, files: &[PathBuf]) -> String {
    if files.is_empty() {
        return format!(
            "`{}` and its drop-ins are absent; every setting is at its default\n",
            file.display()
        );
    }
    files
        .iter()
        .map(|file| format!("{}: ok\n", file.display()))
        .collect()
}

/// Settings in force, under a comment that names their files.
#[must_use]
pub fn shown(text: &ConfigText) -> String {
    let files = if text.files.is_empty() {
        "# no settings file; all defaults\n".to_owned()
    } else {
        text.files
            .iter()
            .map(|file| format!("# from {file}\n"))
            .collect()
    };
    let end = if text.text.ends_with('\n') { "" } else { "\n" };
    format!("{files}{}{end}", text.text)
}

/// What a reload changed.
#[must_use]
pub fn reloaded(report: &ReloadReport) -> String {
    if report.changed.is_empty() && report.at_restart.is_empty() {
        return "nothing is different\n".to_owned();
    }
    let changed = report.changed.iter().map(|line| format!("{line}\n"));
    let later = report
        .at_restart
        .iter()
        .map(|line| format!("{line} (takes effect at the next start)\n"));
    changed.chain(later).collect()
}
