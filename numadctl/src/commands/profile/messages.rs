//! Matrices, and what Open MPI's `pml_monitoring` wrote.

use std::collections::BTreeMap;
use std::fs::DirEntry;
use std::io;
use std::path::{Path, PathBuf};

use ::profile::build::{self, About};
use ::profile::monitoring::{Messages, MonitoringError, is_monitoring};
use ::profile::table::Table;
use control::profile::{Level, Profile, TASKS_MAX, Thresholds};
use control::{ErrorKind, Failure};

use super::memory::made_by;

/// How the names of monitoring files end.
const ENDING: &str = "prof";

/// The files, with those of a directory in its place.
pub(super) fn listed(files: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let mut listed = Vec::new();
    for file in files {
        if !file.is_dir() {
            listed.push(file.clone());
            continue;
        }
        let shown = file.display();
        let failed = |error: io::Error| {
            let text = format!("cannot read `{shown}`: {error}");
            Failure::new(ErrorKind::Kernel, text).remedy("name the files instead")
        };
        let entries = file.read_dir().map_err(failed)?;
        // A rank whose file cannot be listed would be missing unseen.
        let mut inside = paths(entries).map_err(failed)?;
        inside.retain(|path| path.extension().is_some_and(|ending| ending == ENDING));
        inside.sort();
        if inside.is_empty() {
            let text = format!("no file in `{shown}` ends in `.prof`");
            return Err(Failure::new(ErrorKind::NotFound, text)
                .remedy("see docs/profiles.md for how Open MPI writes them"));
        }
        listed.extend(inside);
    }
    Ok(listed)
}

fn paths(entries: impl Iterator<Item = io::Result<DirEntry>>) -> io::Result<Vec<PathBuf>> {
    entries
        .map(|entry| entry.map(|entry| entry.path()))
        .collect()
}

/// The profile of files of text.
pub(super) fn profile(files: &[PathBuf], thresholds: Thresholds) -> Result<Profile, Failure> {
    let mut messages = Messages::default();
    let mut own: BTreeMap<u32, &Path> = BTreeMap::new();
    for file in files {
        let text = String::from_utf8(super::read(file)?).map_err(|_binary| match files {
            [_] => unknown(file),
            _ => one_by_one(file),
        })?;
        let named = file.extension().is_some_and(|ending| ending == ENDING);
        if is_monitoring(&text) || (named && text.trim().is_empty()) {
            messages
                .add(&text)
                .map_err(|error| wrong(file, &error, "pml_monitoring"))?;
            note_rank(&mut own, file)?;
        } else if files.len() == 1 {
            return of_table(&text, file, thresholds);
        } else {
            return Err(one_by_one(file));
        }
    }
    let ranks = messages
        .ranks()
        .max(own.keys().last().map_or(0, |rank| *rank as usize + 1));
    if ranks == 0 {
        let text = "the files of pml_monitoring tell of no rank";
        return Err(Failure::new(ErrorKind::Usage, text).remedy("run the program to its end"));
    }
    let mut notes = vec!["messages have no times: one group".to_owned()];
    let missing: Vec<String> = (0..ranks)
        .filter(|&rank| u32::try_from(rank).is_ok_and(|rank| !own.contains_key(&rank)))
        .map(|rank| rank.to_string())
        .collect();
    if !missing.is_empty() && !own.is_empty() {
        notes.push(format!(
            "what these ranks sent is missing: {}",
            missing.join(", ")
        ));
    }
    let about = About {
        made_by: made_by(),
        source: files
            .first()
            .map_or_else(String::new, |file| file.display().to_string()),
        level: Level::Message,
        tasks: (0..ranks).map(|rank| format!("rank {rank}")).collect(),
        thresholds,
        notes,
    };
    Ok(build::without_times(about, &messages.sent))
}

/// The rank whose file it is, as in `prof.3.prof` and `phase_1_3.prof`.
fn note_rank<'a>(own: &mut BTreeMap<u32, &'a Path>, file: &'a Path) -> Result<(), Failure> {
    let stem = file
        .file_stem()
        .and_then(|stem| stem.to_str())
        .unwrap_or_default();
    let digits = stem.rsplit(['.', '_']).next().unwrap_or_default();
    let Ok(rank) = digits.parse::<u32>() else {
        return Ok(());
    };
    if rank as usize >= TASKS_MAX {
        let text = format!(
            "`{}` is of rank {rank}; at most {TASKS_MAX} ranks are read",
            file.display()
        );
        return Err(Failure::new(ErrorKind::Usage, text).remedy("profile fewer ranks"));
    }
    let phases = stem.starts_with("phase_");
    if own.insert(rank, file).is_some() && !phases {
        let text = format!("`{}` is the second file of rank {rank}", file.display());
        return Err(Failure::new(ErrorKind::Usage, text).remedy("name the files of one run"));
    }
    Ok(())
}

fn of_table(text: &str, file: &Path, thresholds: Thresholds) -> Result<Profile, Failure> {
    let table = Table::parse(text).map_err(|error| wrong(file, &error, "a matrix"))?;
    let mut sent = BTreeMap::new();
    for (from, row) in (0_u32..).zip(&table.rows) {
        for (to, &bytes) in (0_u32..).zip(row) {
            if bytes > 0 {
                sent.insert((from, to), (bytes, 1));
            }
        }
    }
    let about = About {
        made_by: made_by(),
        source: file.display().to_string(),
        level: Level::Message,
        tasks: table.names,
        thresholds,
        notes: vec!["a matrix has no times: one group, and each cell is one event".to_owned()],
    };
    Ok(build::without_times(about, &sent))
}

fn wrong(file: &Path, error: &MonitoringError, what: &str) -> Failure {
    let text = format!("`{}` as {what}: {error}", file.display());
    Failure::new(ErrorKind::Usage, text)
        .remedy("is it whole, and of a known version? see docs/profiles.md")
}

fn one_by_one(file: &Path) -> Failure {
    let text = format!(
        "`{}` is no file of pml_monitoring, and those alone are read together",
        file.display()
    );
    Failure::new(ErrorKind::Usage, text).remedy("name one recording or matrix at a time")
}

fn unknown(file: &Path) -> Failure {
    let text = format!(
        "`{}` is nothing that a profile can be made of",
        file.display()
    );
    Failure::new(ErrorKind::Usage, text)
        .remedy("name a recording, a file of perf, a matrix, or files of pml_monitoring")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_that_cannot_be_read_is_no_entry_that_is_not_there() {
        let entries = Path::new("/").read_dir().unwrap().take(1);
        assert_eq!(paths(entries).unwrap().len(), 1);
        let entries = Path::new("/").read_dir().unwrap().take(1);
        let broken = std::iter::once(Err(io::Error::from_raw_os_error(5)));
        assert_eq!(
            paths(entries.chain(broken)).unwrap_err().raw_os_error(),
            Some(5)
        );
    }
}
