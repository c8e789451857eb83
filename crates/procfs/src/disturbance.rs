//! What disturbs programs from outside, as running totals: pressure, time that a hypervisor takes, pages that the kernel
//! moves by itself.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use topology::Pid;

use crate::error::{Presence, ReadError};
use crate::reader::Reader;

/// Control groups that are looked at as neighbours of one.
const NEIGHBOURS_MAX: usize = 64;

impl Reader {
    /// How long, since the start of the machine, some thread waited for memory; gone where the kernel does not tell.
    ///
    /// # Errors
    /// When it exists and cannot be read.
    pub fn memory_pressure(&self) -> Result<Presence<Duration>, ReadError> {
        self.pressure(Path::new("proc/pressure/memory"))
    }

    /// Time that a hypervisor gave to others, and all processor time, in ticks; gone where the kernel does not tell.
    ///
    /// # Errors
    /// When it exists and cannot be read.
    pub fn stolen(&self) -> Result<Presence<(u64, u64)>, ReadError> {
        let text = self.text("proc/stat")?;
        Ok(match text.here().and_then(|text| stolen(&text)) {
            Some(found) => Presence::Here(found),
            None => Presence::Gone,
        })
    }

    /// Pages that the kernel's own balancing has moved; gone where it has none.
    ///
    /// # Errors
    /// When it exists and cannot be read.
    pub fn balanced_pages(&self) -> Result<Presence<u64>, ReadError> {
        let text = self.text("proc/vmstat")?.here().unwrap_or_default();
        let mut lines = text.lines();
        let line = lines.find_map(|line| line.strip_prefix("numa_pages_migrated "));
        Ok(match line.and_then(|number| number.trim().parse().ok()) {
            Some(pages) => Presence::Here(pages),
            None => Presence::Gone,
        })
    }

    /// The control groups beside that of a process, and beside those above it, each with how long some thread in it waited
    /// for a processor, and for memory. Empty where the kernel does not tell; at most 64.
    #[must_use]
    pub fn neighbours(&self, pid: Pid) -> BTreeMap<PathBuf, [Duration; 2]> {
        let mut found = BTreeMap::new();
        for directory in self.beside(pid) {
            let waited = |file: &str| self.pressure(&directory.join(file)).ok()?.here();
            if let (Some(cpu), Some(memory)) = (waited("cpu.pressure"), waited("memory.pressure")) {
                found.insert(directory, [cpu, memory]);
            }
            if found.len() >= NEIGHBOURS_MAX {
                break;
            }
        }
        found
    }

    /// Directories of these groups, the nearest first.
    fn beside(&self, pid: Pid) -> Vec<PathBuf> {
        let Some((top, mut within)) = self.unified_group(pid) else {
            return Vec::new();
        };
        let mut found = Vec::new();
        while let Some(own) = within.file_name().map(ToOwned::to_owned) {
            within.pop();
            let above = top.join(&within);
            let Ok(entries) = fs::read_dir(self.path(&above)) else {
                continue;
            };
            let directories = entries
                .take(NEIGHBOURS_MAX * 4)
                .flatten()
                .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
                .map(|entry| entry.file_name())
                .filter(|name| *name != own);
            let mut directories: Vec<PathBuf> = directories.map(|name| above.join(name)).collect();
            directories.sort();
            found.append(&mut directories);
        }
        found
    }

    /// The total of `some` in a file of pressure.
    pub(crate) fn pressure(&self, path: &Path) -> Result<Presence<Duration>, ReadError> {
        let Presence::Here(text) = self.text(path)? else {
            return Ok(Presence::Gone);
        };
        let some = text.lines().find_map(|line| line.strip_prefix("some "));
        let total = some.and_then(|some| some.rsplit_once("total="));
        let micros = total.and_then(|(_, total)| total.trim().parse().ok());
        micros
            .map(|micros| Presence::Here(Duration::from_micros(micros)))
            .ok_or_else(|| self.damaged(path, &text, "tells no total of `some`"))
    }
}

/// Of the first line of `/proc/stat`: user, nice, system, idle, iowait, irq, softirq, steal.
fn stolen(text: &str) -> Option<(u64, u64)> {
    let line = text.lines().next()?.strip_prefix("cpu ")?;
    let ticks: Option<Vec<u64>> = line
        .split_ascii_whitespace()
        .take(8)
        .map(|word| word.parse().ok())
        .collect();
    let ticks = ticks.filter(|ticks| ticks.len() == 8)?;
    let all = ticks
        .iter()
        .fold(0_u64, |sum, &one| sum.saturating_add(one));
    Some((ticks[7], all))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::Tree;

    #[test]
    fn stolen_time_and_balanced_pages_are_read() {
        let tree = Tree::new("disturbance");
        assert_eq!(tree.reader().stolen().unwrap(), Presence::Gone);
        assert_eq!(tree.reader().balanced_pages().unwrap(), Presence::Gone);
        tree.file("proc/stat", "cpu  1 2 3 4 5 6 7 8 9 10\ncpu0 1 1 1 1\n");
        tree.file("proc/vmstat", "numa_hit 5\nnuma_pages_migrated 70\n");
        assert_eq!(tree.reader().stolen().unwrap(), Presence::Here((8, 36)));
        assert_eq!(tree.reader().balanced_pages().unwrap(), Presence::Here(70));
        tree.file("proc/stat", "cpu  1 2 x\n");
        assert_eq!(tree.reader().stolen().unwrap(), Presence::Gone);
    }

    #[test]
    fn neighbours_are_the_groups_beside() {
        let tree = Tree::new("neighbours");
        assert!(tree.reader().neighbours(Pid(7)).is_empty());
        tree.file("proc/7/cgroup", "0::/a.slice/b.service\n");
        tree.file(
            "proc/self/mountinfo",
            "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
        );
        let pressure =
            |micros: u32| format!("some avg10=0.00 avg60=0.00 avg300=0.00 total={micros}\n");
        for (group, micros) in [
            ("a.slice", 1),
            ("a.slice/b.service", 2),
            ("a.slice/c.service", 3),
            ("d.slice", 4),
        ] {
            for file in ["cpu.pressure", "memory.pressure"] {
                tree.file(&format!("sys/fs/cgroup/{group}/{file}"), &pressure(micros));
            }
        }
        tree.file("sys/fs/cgroup/silent.slice/cgroup.procs", "");
        let found = tree.reader().neighbours(Pid(7));
        let micros: Vec<u128> = found.values().map(|waited| waited[0].as_micros()).collect();
        assert_eq!(micros, [3, 4], "{found:?}");
    }
}
