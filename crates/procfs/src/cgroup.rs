//! Control groups, version 1, version 2, and both at once.

use std::fmt;
use std::fs;
use std::path::{Component, Path, PathBuf};

use topology::{CpuSet, NodeSet, Pid, Tid};

use crate::error::{ParseError, Presence, ReadError};
use crate::numa_maps::unescape;
use crate::reader::{Reader, failed, presence};
use crate::status::list;

/// Where a task may run and allocate, as far as control groups decide it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cpuset {
    /// Processors, online ones only. Empty means: not limited.
    pub cpus: CpuSet,
    /// Nodes. Empty means: not limited.
    pub mems: NodeSet,
}

/// Why a control group or unit gives no processes.
#[derive(Debug)]
pub enum CgroupError {
    /// There is no such group or unit.
    NotFound(String),
    /// The path leads out of the control group file system.
    NotAPath(String),
    /// There are more groups or processes than are looked at.
    TooMany(String),
    /// Something could not be read.
    Read(ReadError),
}

impl fmt::Display for CgroupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound(name) => write!(f, "there is no control group or unit `{name}`"),
            Self::NotAPath(name) => write!(f, "`{name}` is not a path under the control groups"),
            Self::TooMany(name) => write!(
                f,
                "`{name}` holds more than {GROUPS_MAX} groups or {MEMBERS_MAX} processes; name a smaller one"
            ),
            Self::Read(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for CgroupError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Read(error) => error.source(),
            _ => None,
        }
    }
}

impl From<ReadError> for CgroupError {
    fn from(error: ReadError) -> Self {
        Self::Read(error)
    }
}

/// One line of `/proc/PID/cgroup`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Membership {
    /// Controllers of a version 1 hierarchy; empty for version 2.
    pub controllers: Vec<String>,
    /// Path within the hierarchy, beginning with `/`.
    pub path: String,
}

/// A mounted hierarchy, from `/proc/self/mountinfo`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// Directory of the hierarchy that is mounted; `/` unless in a container.
    pub inner: String,
    /// Where.
    pub at: String,
    /// Whether it is version 2.
    pub unified: bool,
    /// Options of the hierarchy; controllers are among them in version 1.
    pub options: Vec<String>,
}

impl Reader {
    /// Where a thread may run and allocate, as far as its control groups decide it.
    ///
    /// Reads the effective sets: what remains when all groups above and the processors online are
    /// taken into account. Falls back to the set as written where the kernel has no effective one
    /// (before 3.16), and to "not limited" where no group above has a cpuset.
    ///
    /// `mounts` are where groups were mounted the last time, if anybody asked before. That is long to
    /// read, so it is done only when no cpuset is found there: that a hierarchy was mounted or
    /// unmounted shows in what a thread is a member of.
    ///
    /// # Errors
    /// Names the file that cannot be read or understood.
    pub fn cpuset(
        &self,
        mounts: &mut Vec<Mount>,
        pid: Pid,
        tid: Tid,
    ) -> Result<Presence<Cpuset>, ReadError> {
        let path = format!("proc/{pid}/task/{tid}/cgroup");
        let Presence::Here(memberships) = self.record(path, parse_memberships)? else {
            return Ok(Presence::Gone);
        };
        let known = self.cpuset_of(&memberships, mounts).unwrap_or_default();
        if known != Cpuset::default() {
            return Ok(Presence::Here(known));
        }
        *mounts = self.cgroup_mounts()?;
        self.cpuset_of(&memberships, mounts).map(Presence::Here)
    }

    fn cpuset_of(&self, groups: &[Membership], mounts: &[Mount]) -> Result<Cpuset, ReadError> {
        // A controller is in one hierarchy only: version 1 if it is mounted there, else version 2.
        for membership in groups {
            if membership.controllers.iter().any(|name| name == "cpuset") {
                let mount = mounts
                    .iter()
                    .find(|mount| mount.options.iter().any(|option| option == "cpuset"));
                let found = mount.map(|mount| self.cpuset_at(mount, &membership.path, &VERSION_1));
                return Ok(found.transpose()?.unwrap_or_default());
            }
        }
        let unified = groups
            .iter()
            .find(|membership| membership.controllers.is_empty());
        let mount = mounts.iter().find(|mount| mount.unified);
        match (unified, mount) {
            (Some(membership), Some(mount)) => self.cpuset_at(mount, &membership.path, &VERSION_2),
            _ => Ok(Cpuset::default()),
        }
    }

    /// Processors that a thread may be given: its cpuset's, or all online where it has none.
    ///
    /// # Errors
    /// As of [`Self::cpuset`].
    pub fn allowed(
        &self,
        mounts: &mut Vec<Mount>,
        pid: Pid,
        tid: Tid,
    ) -> Result<Presence<CpuSet>, ReadError> {
        Ok(match self.cpuset(mounts, pid, tid)? {
            Presence::Gone => Presence::Gone,
            Presence::Here(set) if set.cpus.is_empty() => {
                Presence::Here(self.online()?.here().unwrap_or_default())
            }
            Presence::Here(set) => Presence::Here(set.cpus),
        })
    }

    /// Every process in a control group and below, by ascending number.
    ///
    /// The path is under the control group file system, as in `/system.slice/solver.service`, and is
    /// looked for in version 2 first, then in each version 1 hierarchy. An empty group is an empty list.
    ///
    /// # Errors
    /// When there is no such group, it is too large, or cannot be read.
    pub fn cgroup_pids(&self, path: &str) -> Result<Vec<Pid>, CgroupError> {
        let inside = inside(path)?;
        let mut found = false;
        for mount in self.cgroup_mounts()? {
            let directory = self.path(&mount.at).join(&inside);
            if directory.is_dir() {
                found = true;
                let pids = members(&directory, path)?;
                if !pids.is_empty() {
                    return Ok(pids);
                }
            }
        }
        if found {
            Ok(Vec::new())
        } else {
            Err(CgroupError::NotFound(path.to_owned()))
        }
    }

    /// The control group of a systemd unit, by its path under the control group file system.
    ///
    /// A name without a suffix is a service. Found by looking for the directory of that name, the
    /// one nearest to the top, so that no message to systemd is needed.
    ///
    /// # Errors
    /// When the name is no name, there is no such unit running, or there are too many groups to look through.
    pub fn unit_cgroup(&self, unit: &str) -> Result<String, CgroupError> {
        if unit.is_empty() || unit.contains('/') || unit.starts_with('.') {
            return Err(CgroupError::NotAPath(unit.to_owned()));
        }
        let suffixed = UNIT_SUFFIXES.iter().any(|suffix| unit.ends_with(suffix));
        let name = if suffixed {
            unit.to_owned()
        } else {
            format!("{unit}.service")
        };
        for mount in self.cgroup_mounts()? {
            let top = self.path(&mount.at);
            let systemd = mount.unified || mount.options.iter().any(|o| o == "name=systemd");
            if systemd && let Some(found) = find(&top, &name)? {
                return Ok(format!("/{}", found.display()));
            }
        }
        Err(CgroupError::NotFound(name))
    }

    /// Where the groups of version 2 are mounted, and the group of a process below that.
    pub(crate) fn unified_group(&self, pid: Pid) -> Option<(PathBuf, PathBuf)> {
        let path = format!("proc/{pid}/cgroup");
        let memberships = self.parsed(path, parse_memberships).ok()?.here()?;
        let own = memberships.iter().find(|one| one.controllers.is_empty())?;
        let mounts = self.cgroup_mounts().ok()?;
        let mount = mounts.iter().find(|mount| mount.unified)?;
        let within = own.path.strip_prefix(mount.inner.as_str());
        let within = PathBuf::from(within.unwrap_or(&own.path).trim_start_matches('/'));
        let below = within
            .components()
            .all(|part| matches!(part, Component::Normal(_)));
        below.then(|| (PathBuf::from(&mount.at), within))
    }

    /// Mounted hierarchies, version 2 first.
    fn cgroup_mounts(&self) -> Result<Vec<Mount>, ReadError> {
        let mounts = self.parsed("proc/self/mountinfo", |bytes| Ok(parse_mounts(bytes)))?;
        let mut mounts = mounts.here().unwrap_or_default();
        mounts.sort_by_key(|mount| !mount.unified);
        Ok(mounts)
    }

    /// The nearest cpuset at or above a group.
    fn cpuset_at(&self, mount: &Mount, path: &str, names: &Names) -> Result<Cpuset, ReadError> {
        let within = path.strip_prefix(mount.inner.as_str()).unwrap_or(path);
        let mut within = PathBuf::from(within.trim_start_matches('/'));
        if within.components().any(|part| part == Component::ParentDir) {
            // The group lies outside of what this mount shows; the mount's own top is the nearest.
            within = PathBuf::new();
        }
        let top = Path::new(&mount.at);
        for _ in 0..=DEPTH_MAX {
            let directory = top.join(&within);
            let cpus = self.first_list(&directory, names.cpus, CpuSet::parse_list)?;
            let mems = self.first_list(&directory, names.mems, NodeSet::parse_list)?;
            if cpus.is_some() || mems.is_some() {
                return Ok(Cpuset {
                    cpus: cpus.unwrap_or_default(),
                    mems: mems.unwrap_or_default(),
                });
            }
            if !within.pop() {
                break;
            }
        }
        Ok(Cpuset::default())
    }

    fn first_list<T, E>(
        &self,
        directory: &Path,
        names: &[&str],
        parse: impl Fn(&str) -> Result<T, E>,
    ) -> Result<Option<T>, ReadError> {
        for name in names {
            let read = self.record(directory.join(name), |bytes| {
                list(1, bytes.trim_ascii(), &parse)
            })?;
            if let Presence::Here(set) = read {
                return Ok(Some(set));
            }
        }
        Ok(None)
    }
}

/// Reads `/proc/PID/cgroup`.
///
/// # Errors
/// Names the line that is not `number:controllers:path`.
pub fn parse_memberships(bytes: &[u8]) -> Result<Vec<Membership>, ParseError> {
    bytes
        .split(|&byte| byte == b'\n')
        .zip(1..)
        .filter(|(line, _)| !line.is_empty())
        .map(|(line, number)| {
            let mut parts = line.splitn(3, |&byte| byte == b':').skip(1);
            match (parts.next(), parts.next()) {
                (Some(controllers), Some(path)) if path.first() == Some(&b'/') => Ok(Membership {
                    controllers: String::from_utf8_lossy(controllers)
                        .split(',')
                        .filter(|name| !name.is_empty())
                        .map(str::to_owned)
                        .collect(),
                    path: String::from_utf8_lossy(path).into_owned(),
                }),
                _ => Err(ParseError::new(
                    number,
                    line,
                    "is not `number:controllers:path`",
                )),
            }
        })
        .collect()
}

/// Reads the control group mounts of `/proc/PID/mountinfo`; lines of anything else, or in no known form, are skipped.
#[must_use]
pub fn parse_mounts(bytes: &[u8]) -> Vec<Mount> {
    let text = String::from_utf8_lossy(bytes);
    text.lines().filter_map(parse_mount).collect()
}

fn parse_mount(line: &str) -> Option<Mount> {
    let (before, after) = line.split_once(" - ")?;
    let mut before = before.split(' ').skip(3);
    let (inner, at) = (before.next()?, before.next()?);
    let mut after = after.split(' ');
    let kind = after.next()?;
    let options = after.nth(1)?;
    (kind == "cgroup" || kind == "cgroup2").then(|| Mount {
        inner: unescape(inner.as_bytes()),
        at: unescape(at.as_bytes()),
        unified: kind == "cgroup2",
        options: options.split(',').map(str::to_owned).collect(),
    })
}

/// A path that stays inside.
fn inside(path: &str) -> Result<PathBuf, CgroupError> {
    let inside = PathBuf::from(path.trim_start_matches('/'));
    let plain = inside
        .components()
        .all(|part| matches!(part, Component::Normal(_)));
    if plain {
        Ok(inside)
    } else {
        Err(CgroupError::NotAPath(path.to_owned()))
    }
}

fn members(top: &Path, name: &str) -> Result<Vec<Pid>, CgroupError> {
    let mut pids = Vec::new();
    let mut waiting = vec![top.to_path_buf()];
    for _ in 0..GROUPS_MAX {
        let Some(directory) = waiting.pop() else {
            pids.sort_unstable();
            pids.dedup();
            return Ok(pids);
        };
        // A threaded group lists no processes (EOPNOTSUPP); the group above it does.
        let text = fs::read_to_string(directory.join("cgroup.procs")).unwrap_or_default();
        pids.extend(text.lines().filter_map(|line| line.parse().ok()).map(Pid));
        if pids.len() > MEMBERS_MAX {
            return Err(CgroupError::TooMany(name.to_owned()));
        }
        waiting.extend(subdirectories(&directory)?);
    }
    Err(CgroupError::TooMany(name.to_owned()))
}

/// Breadth first, each level in order of names, so that the answer does not depend on the directory's order.
fn find(top: &Path, name: &str) -> Result<Option<PathBuf>, CgroupError> {
    let mut level = vec![top.to_path_buf()];
    let mut seen = 0;
    while !level.is_empty() {
        let mut below = Vec::new();
        for directory in level {
            seen += 1;
            if seen > GROUPS_MAX {
                return Err(CgroupError::TooMany(top.display().to_string()));
            }
            below.extend(subdirectories(&directory)?);
        }
        below.sort();
        let found = below
            .iter()
            .find(|path| path.file_name().is_some_and(|file| file == name));
        if let Some(found) = found {
            return Ok(found.strip_prefix(top).ok().map(Path::to_path_buf));
        }
        level = below;
    }
    Ok(None)
}

fn subdirectories(directory: &Path) -> Result<Vec<PathBuf>, CgroupError> {
    let list = || -> std::io::Result<Vec<PathBuf>> {
        let mut found = Vec::new();
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                found.push(entry.path());
            }
        }
        Ok(found)
    };
    match presence(list()) {
        Ok(found) => Ok(found.here().unwrap_or_default()),
        Err(source) => Err(CgroupError::Read(failed(directory.to_owned(), source))),
    }
}

/// File names of a version, best first.
struct Names {
    cpus: &'static [&'static str],
    mems: &'static [&'static str],
}

/// The last of each is for hierarchies mounted with `noprefix`, as Android does.
const VERSION_1: Names = Names {
    cpus: &["cpuset.effective_cpus", "cpuset.cpus", "cpus"],
    mems: &["cpuset.effective_mems", "cpuset.mems", "mems"],
};
const VERSION_2: Names = Names {
    cpus: &["cpuset.cpus.effective"],
    mems: &["cpuset.mems.effective"],
};

const UNIT_SUFFIXES: [&str; 3] = [".service", ".scope", ".slice"];
/// Most groups that are looked through. A large Kubernetes node has about 3,000.
const GROUPS_MAX: usize = 20_000;
/// Most processes of one group.
const MEMBERS_MAX: usize = 131_072;
/// Deepest nesting that is climbed; far above what the kernel's path limit allows in practice.
const DEPTH_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::Tree;

    const HYBRID: &str = "\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
34 31 0:31 / /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset
40 31 0:37 / /sys/fs/cgroup/systemd rw,relatime shared:5 - cgroup cgroup rw,name=systemd
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
";
    const UNIFIED: &str =
        "30 24 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,memory_recursiveprot\n";

    fn sets(tree: &Tree) -> (String, String) {
        let set = tree.reader().cpuset(&mut Vec::new(), Pid(5), Tid(6));
        let set = set.unwrap().here().unwrap();
        (set.cpus.to_string(), set.mems.to_string())
    }

    fn pair(cpus: &str, mems: &str) -> (String, String) {
        (cpus.to_owned(), mems.to_owned())
    }

    #[test]
    fn version_1_reads_the_effective_set_of_the_thread() {
        let tree = Tree::new("cgroup-v1");
        tree.file("proc/self/mountinfo", HYBRID);
        tree.file("proc/5/task/6/cgroup", "3:cpuset:/a/b\n0::/x\n");
        tree.file("sys/fs/cgroup/cpuset/a/b/cpuset.effective_cpus", "2-3\n");
        tree.file("sys/fs/cgroup/cpuset/a/b/cpuset.cpus", "2-9\n");
        tree.file("sys/fs/cgroup/cpuset/a/b/cpuset.mems", "1\n");
        assert_eq!(sets(&tree), pair("2-3", "1"));
    }

    #[test]
    fn mounts_may_have_blanks_in_their_names() {
        let tree = Tree::new("cgroup-blanks");
        let mount = "30 24 0:26 /a\\040b /sys/fs/c\\040d rw - cgroup2 cgroup2 rw\n";
        tree.file("proc/self/mountinfo", mount);
        tree.file("proc/5/task/6/cgroup", "0::/a b/e\n");
        tree.file("sys/fs/c d/e/cpuset.cpus.effective", "2-3\n");
        tree.file("sys/fs/c d/e/cpuset.mems.effective", "1\n");
        assert_eq!(sets(&tree), pair("2-3", "1"));
    }

    #[test]
    fn version_2_climbs_to_the_nearest_group_with_a_cpuset() {
        let tree = Tree::new("cgroup-v2");
        tree.file("proc/self/mountinfo", UNIFIED);
        tree.file("proc/5/task/6/cgroup", "0::/system.slice/a.service\n");
        tree.file("sys/fs/cgroup/system.slice/a.service/cgroup.procs", "");
        assert_eq!(sets(&tree), pair("", ""));
        tree.file("sys/fs/cgroup/cpuset.cpus.effective", "0-7\n");
        tree.file("sys/fs/cgroup/cpuset.mems.effective", "0-1\n");
        assert_eq!(sets(&tree), pair("0-7", "0-1"));
        tree.file("sys/fs/cgroup/system.slice/cpuset.cpus.effective", "4-7\n");
        assert_eq!(sets(&tree), pair("4-7", ""));
    }

    #[test]
    fn known_mounts_are_read_anew_where_they_lead_nowhere() {
        let tree = Tree::new("cgroup-known");
        tree.file("proc/5/task/6/cgroup", "0::/a\n");
        let mut mounts = Vec::new();
        let mut cpus = |tree: &Tree| {
            let set = tree.reader().cpuset(&mut mounts, Pid(5), Tid(6));
            set.unwrap().here().unwrap().cpus.to_string()
        };
        tree.file("proc/self/mountinfo", UNIFIED);
        tree.file("sys/fs/cgroup/a/cpuset.cpus.effective", "4-7\n");
        assert_eq!(cpus(&tree), "4-7");
        tree.file("proc/self/mountinfo", HYBRID);
        tree.file("sys/fs/cgroup/a/cpuset.cpus.effective", "4-6\n");
        assert_eq!(cpus(&tree), "4-6");
        tree.file("sys/fs/cgroup/cpuset/a/cpuset.cpus", "2-3\n");
        tree.file("proc/5/task/6/cgroup", "3:cpuset:/a\n0::/a\n");
        assert_eq!(cpus(&tree), "2-3");
    }

    #[test]
    fn a_group_outside_of_the_mount_is_limited_by_its_top() {
        let tree = Tree::new("cgroup-outside");
        tree.file("proc/self/mountinfo", UNIFIED);
        tree.file("proc/5/task/6/cgroup", "0::/../../other\n");
        tree.file("sys/fs/cgroup/cpuset.cpus.effective", "0-3\n");
        assert_eq!(sets(&tree), pair("0-3", ""));
    }

    #[test]
    fn a_container_s_mount_shows_its_own_part() {
        let tree = Tree::new("cgroup-container");
        tree.file(
            "proc/self/mountinfo",
            "9 8 0:31 /docker/c1 /sys/fs/cgroup/cpuset ro - cgroup cpuset rw,cpuset\n",
        );
        tree.file("proc/5/task/6/cgroup", "3:cpuset:/docker/c1/job\n");
        tree.file("sys/fs/cgroup/cpuset/job/cpuset.cpus", "1\n");
        assert_eq!(sets(&tree), pair("1", ""));
    }

    #[test]
    fn a_vanished_thread_is_gone_and_no_cgroups_means_no_limit() {
        let tree = Tree::new("cgroup-none");
        let reader = tree.reader();
        let allowed = || reader.allowed(&mut Vec::new(), Pid(5), Tid(6)).unwrap();
        assert_eq!(allowed(), Presence::Gone);
        tree.file("proc/5/task/6/cgroup", "0::/\n");
        assert_eq!(sets(&tree), pair("", ""));
        tree.file("sys/devices/system/cpu/online", "0-5\n");
        assert_eq!(allowed().here().unwrap().to_string(), "0-5");
    }

    fn units() -> Tree {
        let tree = Tree::new("cgroup-units");
        tree.file("proc/self/mountinfo", UNIFIED);
        let top = "sys/fs/cgroup/";
        tree.file(
            &format!("{top}system.slice/solver.service/cgroup.procs"),
            "30\n7\n",
        );
        tree.file(
            &format!("{top}system.slice/solver.service/sub/cgroup.procs"),
            "9\n",
        );
        tree.file(
            &format!("{top}user.slice/u/solver.service/cgroup.procs"),
            "99\n",
        );
        tree.file(&format!("{top}empty/cgroup.procs"), "");
        tree
    }

    #[test]
    fn units_and_groups_give_their_processes() {
        let tree = units();
        let reader = tree.reader();
        let path = reader.unit_cgroup("solver").unwrap();
        assert_eq!(path, "/system.slice/solver.service");
        let pids = reader.cgroup_pids(&path).unwrap();
        assert_eq!(pids, [Pid(7), Pid(9), Pid(30)]);
        assert_eq!(reader.cgroup_pids("empty").unwrap(), []);
        assert_eq!(reader.unit_cgroup("user.slice").unwrap(), "/user.slice");
    }

    #[test]
    fn what_is_not_there_or_leads_out_is_refused() {
        let tree = units();
        let reader = tree.reader();
        for (path, found) in [("/nothing", "no control group"), ("/../etc", "not a path")] {
            let error = reader.cgroup_pids(path).unwrap_err().to_string();
            assert!(error.contains(found) && error.contains(path), "{error}");
        }
        for unit in ["nothing", "../x", "", "a/b.service"] {
            reader.unit_cgroup(unit).unwrap_err();
        }
    }

    #[test]
    fn memberships_read_and_damage_is_named() {
        let read = parse_memberships(b"4:memory,cpuset:/a:b\n1:name=systemd:/\n0::/\n").unwrap();
        assert_eq!(read[0].controllers, ["memory", "cpuset"]);
        assert_eq!(read[0].path, "/a:b");
        assert!(read[2].controllers.is_empty());
        for damaged in ["x", "1:2", "1:cpuset:relative"] {
            let error = parse_memberships(damaged.as_bytes()).unwrap_err();
            assert_eq!(error.part, damaged);
        }
    }

    #[test]
    fn this_machine_reads() {
        let own = std::process::id();
        let set = Reader::new("/").cpuset(&mut Vec::new(), Pid(own), Tid(own));
        set.unwrap().here().unwrap();
    }
}
