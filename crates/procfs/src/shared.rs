//! Which of the memory that a process maps others can map too, by `/proc/PID/maps`.

use std::collections::BTreeSet;
use std::fs;
use std::ops::Range;

use topology::Pid;

use crate::error::{ParseError, Presence, ReadError};
use crate::maps::{Mapping, ends, lines, parse_line};
use crate::reader::Reader;

/// The number of a device, major and minor.
pub type Device = (u32, u32);

/// What processes share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SharedKind {
    /// Memory and nothing else: without a name, or a file of a file system that is in memory.
    Memory,
    /// A System V segment, whose inode is its number in a namespace.
    SystemV {
        /// The namespace's own number.
        namespace: u32,
    },
    /// A file.
    File,
}

/// The shared mappings of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SharedMaps {
    /// They, ascending, as far as they were asked for.
    pub mappings: Vec<Mapping>,
    /// Addresses where no page is the process's alone, in as few ranges as can be, ascending:
    /// shared mappings, files that are only read, as programs and libraries are, and holes: where
    /// nothing is mapped, or nothing that may be used. At most [`SHARED_MAX`].
    pub foreign: Vec<Range<u64>>,
    /// Lines of the whole file, which is what reading it costs.
    pub lines: usize,
    /// Devices of file systems that are in memory, as far as mappings are of such.
    memory: Vec<Device>,
    /// Devices that only the kernel gives its own memory.
    kernel: Vec<Device>,
    /// In which numbers of System V segments are counted, if there are any.
    namespace: Option<u32>,
}

/// Most shared mappings of one process that are kept, the lowest, and ranges.
pub const SHARED_MAX: usize = 4096;

/// Holes beside memory of the process that are less wide are not told: there is one at each stack
/// of a thread, and who takes it for memory is wrong by a few pages. Half and double were not
/// tried.
const HOLE_MIN: u64 = 64 << 10;

impl Reader {
    /// What a process maps that others can map too. What is mapped from one of the devices of
    /// `kernel` is memory: those that the kernel alone has for memory without a file.
    ///
    /// A path does not tell what memory is, for a process can mount what it likes anywhere.
    ///
    /// # Errors
    /// When it exists and cannot be read or understood.
    pub fn shared_maps(
        &self,
        pid: Pid,
        kernel: &[Device],
    ) -> Result<Presence<SharedMaps>, ReadError> {
        let mut left = 0..SHARED_MAX;
        self.some_shared_maps(pid, kernel, |_| left.next().is_some())
    }

    /// The same of what has one of these devices and inodes, of each object one mapping: however
    /// many it has, none is left out.
    ///
    /// # Errors
    /// When it exists and cannot be read or understood.
    pub fn shared_maps_among(
        &self,
        pid: Pid,
        kernel: &[Device],
        wanted: &BTreeSet<(Device, u64)>,
    ) -> Result<Presence<SharedMaps>, ReadError> {
        let mut found = BTreeSet::new();
        self.some_shared_maps(pid, kernel, |mapping| {
            let place = (mapping.device, mapping.inode);
            // A segment and other memory of the kernel's may have one number.
            wanted.contains(&place) && found.insert((place, is_system_v(mapping)))
        })
    }

    fn some_shared_maps(
        &self,
        pid: Pid,
        kernel: &[Device],
        is_kept: impl FnMut(&Mapping) -> bool,
    ) -> Result<Presence<SharedMaps>, ReadError> {
        let parse = |maps: &[u8]| parse_shared(maps, is_kept);
        let mut found = match self.parsed(format!("proc/{pid}/maps"), parse)? {
            Presence::Here(found) => found,
            Presence::Gone => return Ok(Presence::Gone),
        };
        kernel.clone_into(&mut found.kernel);
        let is_of_kernel = |mapping: &&Mapping| kernel.contains(&mapping.device);
        let (own, files): (Vec<&Mapping>, Vec<&Mapping>) =
            found.mappings.iter().partition(is_of_kernel);
        // Devices without hardware behind them have major number 0.
        let maybe_memory = |mapping: &&Mapping| mapping.device.0 == 0 && mapping.is_of_file();
        if files.iter().any(maybe_memory) {
            let mounts = self.parsed(format!("proc/{pid}/mountinfo"), |mounts| {
                Ok(memory_mounts(mounts))
            });
            found.memory = mounts.ok().and_then(Presence::here).unwrap_or_default();
        }
        if own.iter().any(|mapping| is_system_v(mapping)) {
            found.namespace = self.ipc_namespace(pid);
        }
        Ok(Presence::Here(found))
    }

    /// The number of the namespace in which a process's System V segments are numbered.
    fn ipc_namespace(&self, pid: Pid) -> Option<u32> {
        let link = fs::read_link(self.path(format!("proc/{pid}/ns/ipc"))).ok()?;
        let number = link.to_str()?.strip_prefix("ipc:[")?.strip_suffix(']')?;
        number.parse().ok()
    }
}

impl SharedMaps {
    /// What a mapping shares with others, if it is memory or a file that others can map: not
    /// devices, whose addresses are no memory.
    #[must_use]
    pub fn kind(&self, mapping: &Mapping) -> Option<SharedKind> {
        if self.kernel.contains(&mapping.device) {
            return match is_system_v(mapping) {
                true => self
                    .namespace
                    .map(|namespace| SharedKind::SystemV { namespace }),
                false => Some(SharedKind::Memory),
            };
        }
        let kind = match self.memory.contains(&mapping.device) {
            true => SharedKind::Memory,
            false => SharedKind::File,
        };
        mapping.is_of_file().then_some(kind)
    }

    /// Adds a range, if it goes on from the one before or is as wide as this.
    fn add_foreign(&mut self, range: Range<u64>, least: u64) {
        let before = self.foreign.last_mut();
        if let Some(before) = before.filter(|before| before.end == range.start) {
            before.end = range.end.max(before.end);
        } else if range.end.saturating_sub(range.start) > least && self.foreign.len() < SHARED_MAX {
            self.foreign.push(range);
        }
    }
}

impl Mapping {
    /// Whether a file is behind it that others can map, and no device.
    fn is_of_file(&self) -> bool {
        let name = self.name.as_str();
        let is_device = ["/dev/", "/sys/", "/proc/"]
            .iter()
            .any(|folder| name.starts_with(folder));
        self.inode != 0 && name.starts_with('/') && (!is_device || name.starts_with("/dev/shm/"))
    }

    /// Whether an MPI library passes messages through it and nothing else, by the names that such
    /// libraries give: Open MPI 4 and 5, and PSM2. Those of others, MPICH among them, have the same
    /// names as memory that ranks share by themselves.
    #[must_use]
    pub fn carries_messages(&self) -> bool {
        let file = self.name.rsplit('/').next().unwrap_or_default();
        let begins = ["vader_segment.", "sm_segment.", "psm2_shm."];
        begins.iter().any(|begin| file.starts_with(begin))
    }
}

/// Whether memory of the kernel's is a System V segment: it gives the names there itself.
fn is_system_v(mapping: &Mapping) -> bool {
    mapping.name.starts_with("/SYSV")
}

/// Devices of the file systems in memory among the mounts of a process.
fn memory_mounts(mounts: &[u8]) -> Vec<Device> {
    let device = |line: &str| {
        let (before, after) = line.split_once(" - ")?;
        let kind = after.split(' ').next()?;
        let (major, minor) = before.split(' ').nth(2)?.split_once(':')?;
        let device = (major.parse().ok()?, minor.parse().ok()?);
        matches!(kind, "tmpfs" | "hugetlbfs").then_some(device)
    };
    String::from_utf8_lossy(mounts)
        .lines()
        .filter_map(device)
        .collect()
}

/// Reads the lines of shared mappings, of others no more than whose memory it is.
pub(crate) fn parse_shared(
    bytes: &[u8],
    mut is_kept: impl FnMut(&Mapping) -> bool,
) -> Result<SharedMaps, ParseError> {
    let mut found = SharedMaps::default();
    let mut hole = 0;
    for (line, number) in lines(bytes).zip(1..) {
        if line.is_empty() {
            continue;
        }
        found.lines += 1;
        let no_range = || {
            let range = line.split(|&byte| byte == b' ').next().unwrap_or_default();
            ParseError::new(number, range, "is not a range")
        };
        let ((start, end), rest) = ends(line).ok_or_else(no_range)?;
        let permissions = rest.get(1..5).unwrap_or_default();
        let is_shared = permissions.get(3) == Some(&b's');
        if is_shared {
            let mapping = parse_line(line, number)?;
            if is_kept(&mapping) {
                found.mappings.push(mapping);
            }
        }
        if permissions == b"---p" {
            continue;
        }
        found.add_foreign(hole..start, HOLE_MIN);
        if is_shared || permissions.get(1) == Some(&b'-') && line.contains(&b'/') {
            found.add_foreign(start..end, 0);
        }
        hole = end;
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::maps::{KINDS, parse};
    use crate::tree::Tree;

    const KERNEL: [Device; 1] = [(0, 1)];
    const MOUNTS: &str = "\
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
23 22 0:25 / /dev/shm rw,nosuid,nodev shared:3 - tmpfs tmpfs rw,inode64
24 22 0:40 / /home rw,relatime shared:9 - btrfs /dev/vdb rw
25 22 0:41 / /dev/hugepages rw - hugetlbfs hugetlbfs rw,pagesize=2M
damaged - tmpfs
";

    /// What a process with this line in its maps is seen to share.
    fn seen(rest: &str) -> SharedMaps {
        let tree = Tree::new("shared");
        tree.file(
            "proc/7/maps",
            &format!("7f0e20000000-7f0e20003000 {rest}\n"),
        );
        tree.file("proc/7/mountinfo", MOUNTS);
        tree.link("proc/7/ns/ipc", "ipc:[4026531839]");
        let found = tree.reader().shared_maps(Pid(7), &KERNEL).unwrap();
        found.here().unwrap()
    }

    #[track_caller]
    fn check_kind(rest: &str, expected: Option<SharedKind>) {
        let maps = seen(rest);
        let kind = maps.mappings.first().and_then(|mapping| maps.kind(mapping));
        assert_eq!(kind, expected, "{rest}");
    }

    #[test]
    fn what_is_shared_is_told_by_its_device() {
        let memory = Some(SharedKind::Memory);
        let segment = Some(SharedKind::SystemV {
            namespace: 4_026_531_839,
        });
        check_kind("rw-s 00000000 00:01 2066  /dev/zero (deleted)", memory);
        check_kind("rw-s 00001000 00:01 12  /memfd:a b (deleted)", memory);
        check_kind("rw-s 00000000 00:01 3  /SYSV00000000 (deleted)", segment);
        check_kind("rw-s 00000000 00:01 0  /SYSV00000000 (deleted)", segment);
        check_kind("r--s 00000000 00:19 7  /dev/shm/pg (deleted)", memory);
        check_kind("rw-s 00000000 00:19 7  /tmp/pg", memory);
        check_kind("rw-s 00000000 00:29 7  /dev/hugepages/a", None);
        check_kind("rw-s 00000000 00:29 7  /huge/a", memory);
        check_kind("rw-s 00000000 00:05 9  /dev/nvidia0", None);
        check_kind("rw-s 00000000 00:0e 9  anon_inode:[perf_event]", None);
        check_kind("rw-p 00000000 fe:01 77  /var/lib/db/data", None);
        check_kind("rw-p 00000000 00:00 0", None);
    }

    #[test]
    fn a_file_that_goes_by_the_name_of_memory_is_a_file() {
        let file = Some(SharedKind::File);
        check_kind("rw-s 00000000 fe:01 77  /var/lib/db/data", file);
        for name in [
            "/dev/shm/x",
            "/memfd:x (deleted)",
            "/SYSV00000000 (deleted)",
        ] {
            check_kind(&format!("r--s 00000000 fe:00 5  {name}"), file);
            check_kind(&format!("r--s 00000000 00:28 5  {name}"), file);
        }
    }

    #[test]
    fn what_cannot_be_told_is_not_memory() {
        let tree = Tree::new("shared-unknown");
        tree.file(
            "proc/7/maps",
            "1000-2000 rw-s 0 00:19 7  /dev/shm/pg\n2000-3000 rw-s 0 00:01 3  /SYSV0\n",
        );
        let found = tree.reader().shared_maps(Pid(7), &KERNEL).unwrap();
        let found = found.here().unwrap();
        let kinds: Vec<_> = found.mappings.iter().map(|each| found.kind(each)).collect();
        assert_eq!(kinds, [Some(SharedKind::File), None]);
        assert_eq!(
            tree.reader().shared_maps(Pid(8), &KERNEL).unwrap(),
            Presence::Gone
        );
    }

    #[test]
    fn of_more_mappings_than_are_kept_those_that_are_asked_for_are_found() {
        let tree = Tree::new("shared-many");
        let lines = |inode: u32| format!("1000-2000 rw-s 0 00:01 {inode}  /dev/zero\n");
        let segment = "3000-4000 rw-s 0 00:01 8  /SYSV00000000 (deleted)\n";
        let maps = lines(7).repeat(SHARED_MAX + 1) + &lines(8).repeat(2) + segment;
        tree.file("proc/7/maps", &maps);
        let found = tree.reader().shared_maps(Pid(7), &KERNEL).unwrap();
        assert_eq!(found.here().unwrap().mappings.len(), SHARED_MAX);
        let wanted = BTreeSet::from([(KERNEL[0], 8), (KERNEL[0], 9), ((0, 2), 7)]);
        let found = tree.reader().shared_maps_among(Pid(7), &KERNEL, &wanted);
        let found = found.unwrap().here().unwrap();
        let inodes: Vec<u64> = found.mappings.iter().map(|each| each.inode).collect();
        assert_eq!(inodes, [8, 8]);
        assert_eq!(found.kind(&found.mappings[0]), Some(SharedKind::Memory));
        assert_eq!(found.mappings[1].start, 0x3000, "another object");
    }

    #[test]
    fn memory_of_messages_is_known_by_its_name() {
        let carries =
            |name: &str| seen(&format!("rw-s 0 00:19 7  {name}")).mappings[0].carries_messages();
        assert!(carries("/dev/shm/vader_segment.host.0.1.0"));
        assert!(carries("/tmp/ompi.host.0/sm_segment.host.0.1.0 (deleted)"));
        assert!(!carries("/dev/shm/mpich_shar_tmpMCilHL (deleted)"));
        assert!(!carries("/dev/shm/vader_segment.d/other"));
    }

    #[test]
    fn what_is_not_the_process_s_alone_is_told() {
        let foreign = |text: &str| parse_shared(text.as_bytes(), |_| true).unwrap().foreign;
        let heap = 0x55b1_d0f5_c000..0x55b1_d105_7000;
        let mapped = 0x7f0e_1c00_0000..0x7f0e_1c02_1000;
        let [before, between] = [0..heap.start, heap.end..mapped.start];
        let after = mapped.end..0xffff_ffff_ff60_0000;
        assert_eq!(foreign(KINDS), [before, between, after]);
        // What malloc keeps for a thread, of which little is in use, and the guard of a stack.
        let arena = "\
7f0e1c000000-7f0e1c021000 rw-p 00000000 00:00 0
7f0e1c021000-7f0e20000000 ---p 00000000 00:00 0
7f0e20000000-7f0e20001000 ---p 00000000 00:00 0
7f0e20001000-7f0e20801000 rw-p 00000000 00:00 0
7f0e20801000-7f0e20802000 ---p 00000000 00:00 0
7f0e20802000-7f0e21002000 rw-p 00000000 00:00 0
";
        let reserve = 0x7f0e_1c02_1000..0x7f0e_2000_1000;
        assert_eq!(foreign(arena), [0..0x7f0e_1c00_0000, reserve]);
    }

    #[test]
    fn only_shared_mappings_are_kept() {
        let found = parse_shared(KINDS.as_bytes(), |_| true).unwrap();
        assert_eq!(found.mappings, [parse(KINDS.as_bytes()).unwrap().remove(4)]);
        assert_eq!(found.lines, 6);
    }
}
