//! `/proc/PID/status` and `/proc/PID/task/TID/status`: who owns it and where it may run.

use topology::{CpuSet, NodeSet, Pid};

use crate::error::ParseError;

/// What the kernel tells of a process or thread in many lines; those that are needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The process it belongs to.
    pub pid: Pid,
    /// Users on whose behalf it acts.
    pub uids: Ids,
    /// The same for groups; none where the kernel does not say.
    pub gids: Option<Ids>,
    /// Capabilities that it has or can take, a bit each; none where the kernel does not say.
    pub capabilities: Option<u64>,
    /// Threads of its process; 0 where the kernel does not say.
    pub threads: u32,
    /// Processors it may run on: its affinity within its cpuset, those offline included.
    pub cpus_allowed: CpuSet,
    /// Nodes it may allocate on: its cpuset's.
    pub mems_allowed: NodeSet,
    /// Memory of its process that is there and no file's.
    pub resident: Resident,
}

/// Memory that is there; 0 where the kernel does not say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resident {
    /// Bytes that are its own.
    pub own_bytes: u64,
    /// Bytes that others may share.
    pub shared_bytes: u64,
}

impl Resident {
    /// Takes in another process of the same program. What is shared is taken for one memory, of which the largest of
    /// them has all.
    pub fn join(&mut self, other: Self) {
        self.own_bytes = self.own_bytes.saturating_add(other.own_bytes);
        self.shared_bytes = self.shared_bytes.max(other.shared_bytes);
    }

    /// All of it.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        self.own_bytes.saturating_add(self.shared_bytes)
    }
}

/// On whose behalf a process acts: users, or groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ids {
    /// Who started it.
    pub real: u32,
    /// Whose rights it has.
    pub effective: u32,
    /// Whose rights it can take again.
    pub saved: u32,
}

impl Ids {
    /// Whether it is this one's alone: no set-id program that has, or can take, another's rights.
    #[must_use]
    pub const fn all(self, id: u32) -> bool {
        self.real == id && self.effective == id && self.saved == id
    }
}

impl From<[u32; 3]> for Ids {
    fn from([real, effective, saved]: [u32; 3]) -> Self {
        Self {
            real,
            effective,
            saved,
        }
    }
}

/// Reads the lines.
///
/// `Cpus_allowed_list` and `Mems_allowed_list` may be missing (kernels without cpusets); they are
/// empty then, which means: not limited.
///
/// # Errors
/// Names the line that makes no sense, or says which is missing.
pub fn parse(bytes: &[u8]) -> Result<Status, ParseError> {
    let mut pid = None;
    let (mut uids, mut gids, mut capabilities) = (None, None, None);
    let mut threads = 0;
    let mut cpus_allowed = CpuSet::new();
    let mut mems_allowed = NodeSet::new();
    let mut resident = Resident::default();
    for (line, number) in bytes.split(|&byte| byte == b'\n').zip(1..) {
        let Some(colon) = line.iter().position(|&byte| byte == b':') else {
            continue;
        };
        let (key, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        // The name is written with its line feeds escaped, so that no name can pose as another line.
        match key {
            b"Tgid" => pid = Some(Pid(numbers::<1>(number, value)?[0])),
            b"Uid" => uids = Some(numbers::<3>(number, value)?),
            b"Gid" => gids = Some(numbers::<3>(number, value)?),
            b"Threads" => threads = numbers::<1>(number, value)?[0],
            b"CapPrm" => capabilities = Some(hexadecimal(number, value)?),
            b"Cpus_allowed_list" => cpus_allowed = list(number, value, CpuSet::parse_list)?,
            b"Mems_allowed_list" => mems_allowed = list(number, value, NodeSet::parse_list)?,
            b"RssAnon" => resident.own_bytes = kibibytes(number, value)?,
            b"RssShmem" => resident.shared_bytes = kibibytes(number, value)?,
            _ => {}
        }
    }
    let (Some(pid), Some(uids)) = (pid, uids) else {
        return Err(ParseError::new(1, bytes, "has no `Tgid` or no `Uid`"));
    };
    Ok(Status {
        pid,
        uids: uids.into(),
        gids: gids.map(Into::into),
        capabilities,
        threads,
        cpus_allowed,
        mems_allowed,
        resident,
    })
}

/// Reads [`Status::cpus_allowed`] alone, which is near the end.
pub(crate) fn parse_affinity(bytes: &[u8]) -> Result<CpuSet, ParseError> {
    let mut lines = bytes.rsplit(|&byte| byte == b'\n');
    let value = lines.find_map(|line| line.strip_prefix(b"Cpus_allowed_list:"));
    list(
        1,
        value.unwrap_or_default().trim_ascii(),
        CpuSet::parse_list,
    )
}

/// Reads the effective capabilities.
///
/// # Errors
/// Says that the line is missing or no hexadecimal number.
pub(crate) fn parse_capabilities(bytes: &[u8]) -> Result<u64, ParseError> {
    bytes
        .split(|&byte| byte == b'\n')
        .find_map(|line| line.strip_prefix(b"CapEff:"))
        .and_then(|value| std::str::from_utf8(value).ok())
        .and_then(|value| u64::from_str_radix(value.trim(), 16).ok())
        .ok_or_else(|| ParseError::new(1, bytes, "has no `CapEff` that is a number"))
}

fn hexadecimal(line: usize, value: &[u8]) -> Result<u64, ParseError> {
    std::str::from_utf8(value)
        .ok()
        .and_then(|text| u64::from_str_radix(text, 16).ok())
        .ok_or_else(|| ParseError::new(line, value, "is no hexadecimal number"))
}

/// As in `1234 kB`.
fn kibibytes(line: usize, value: &[u8]) -> Result<u64, ParseError> {
    let text = value.strip_suffix(b" kB").unwrap_or(value);
    let number = std::str::from_utf8(text)
        .ok()
        .and_then(|text| text.trim().parse::<u64>().ok());
    let number = number.ok_or_else(|| ParseError::new(line, value, "is no size"))?;
    Ok(number.saturating_mul(1024))
}

fn numbers<const N: usize>(line: usize, value: &[u8]) -> Result<[u32; N], ParseError> {
    let mut found = [0; N];
    let mut fields = value
        .split(u8::is_ascii_whitespace)
        .filter(|field| !field.is_empty());
    for slot in &mut found {
        *slot = fields
            .next()
            .and_then(|field| std::str::from_utf8(field).ok())
            .and_then(|field| field.parse().ok())
            .ok_or_else(|| ParseError::new(line, value, "is not as many numbers as needed"))?;
    }
    Ok(found)
}

pub(crate) fn list<T, E>(
    line: usize,
    value: &[u8],
    parse: impl FnOnce(&str) -> Result<T, E>,
) -> Result<T, ParseError> {
    std::str::from_utf8(value)
        .ok()
        .and_then(|text| parse(text).ok())
        .ok_or_else(|| ParseError::new(line, value, "is not a list of numbers and ranges"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const REAL: &[u8] = include_bytes!("../fixtures/dash.status");

    #[test]
    fn real_lines_read() {
        let status = parse(REAL).unwrap();
        assert_eq!(status.pid, Pid(22931));
        assert!(status.uids.all(0) && !status.uids.all(1000));
        assert!(status.gids.unwrap().all(0) && status.threads == 1);
        assert_eq!(status.capabilities, Some(0x1ff_feff_ffff));
        assert_eq!(status.cpus_allowed.to_string(), "0-1");
        assert_eq!(parse_affinity(REAL).unwrap(), status.cpus_allowed);
        assert_eq!(status.mems_allowed.to_string(), "0");
        let mut resident = status.resident;
        assert_eq!((resident.own_bytes, resident.shared_bytes), (112 << 10, 0));
        resident.join(Resident {
            own_bytes: u64::MAX,
            shared_bytes: 7,
        });
        assert_eq!(resident.bytes(), u64::MAX);
        let wrong = parse(b"Tgid:\t1\nUid:\t0\t0\t0\t0\nRssAnon:\tmany kB\n");
        assert_eq!(wrong.unwrap_err().part, "many kB");
    }

    #[test]
    fn capabilities_read() {
        assert_eq!(parse_capabilities(REAL).unwrap(), 0x1ff_feff_ffff);
        parse_capabilities(b"CapEff:\tx\n").unwrap_err();
        parse_capabilities(b"").unwrap_err();
    }

    #[test]
    fn a_set_user_id_program_is_nobody_s_alone() {
        let status = parse(b"Tgid:\t1\nUid:\t1000\t0\t0\t0\n").unwrap();
        assert!(!status.uids.all(1000) && !status.uids.all(0));
    }

    #[test]
    fn lists_may_be_missing_but_not_wrong() {
        let status = parse(b"Tgid:\t1\nUid:\t0\t0\t0\t0\n").unwrap();
        assert!(status.cpus_allowed.is_empty() && status.uids.all(0));
        let error = parse(b"Tgid:\t1\nUid:\t0\t0\t0\nCpus_allowed_list:\t3-1\n").unwrap_err();
        assert_eq!((error.line, error.part.as_str()), (3, "3-1"));
        parse(b"Tgid:\t1\n").unwrap_err();
        parse(b"Tgid:\t1\nUid:\t0\t0\n").unwrap_err();
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]
        #[test]
        fn never_panics(cut in 0..REAL.len(), at in 0..REAL.len(), byte: u8) {
            let mut bytes = REAL.to_vec();
            bytes[at] = byte;
            drop(parse(&bytes[..cut]));
        }
    }
}
