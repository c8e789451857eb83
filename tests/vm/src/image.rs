//! The guest's file system: programs of this machine with the libraries they need, busybox for the rest.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

use crate::cpio::Archive;
use crate::kit::Kit;

/// Which file system a guest has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Image {
    /// Our own programs and what scenarios need.
    Usual,
    /// These, redis and PostgreSQL.
    Services,
    /// Our programs under systemd, with our unit.
    Systemd,
    /// Our programs, Open MPI and a program of its.
    Mpi,
}

impl Image {
    /// The image of this name.
    pub(crate) fn named(name: &str) -> Result<Self> {
        match name {
            "usual" => Ok(Self::Usual),
            "services" => Ok(Self::Services),
            "systemd" => Ok(Self::Systemd),
            "mpi" => Ok(Self::Mpi),
            _ => bail!("there is no image `{name}`; there are usual, services, systemd, mpi"),
        }
    }
}

/// Packs an image unless one with the same content is there, and says where it is.
pub(crate) fn of(kit: &Kit, image: Image) -> Result<PathBuf> {
    let mut items = programs(kit)?;
    match image {
        Image::Usual => build(kit, "scenarios.img", &items),
        Image::Services => {
            items.extend(services(kit)?);
            build(kit, "services.img", &items)
        }
        Image::Systemd => {
            items.extend(systemd(kit)?);
            build(kit, "systemd.img", &items)
        }
        Image::Mpi => {
            items.extend(mpi(kit)?);
            build(kit, "mpi.img", &items)
        }
    }
}

/// What every guest has.
fn programs(kit: &Kit) -> Result<Vec<Item>> {
    let mut items = vec![
        Item::program(find("numactl")?),
        Item::program(find("migratepages")?),
        Item::program(find("setpriv")?),
        Item::program(find("chrt")?),
        Item::program(kit.path("build/tell-cpus")),
        Item::program(kit.path("build/mark")),
        Item::program(kit.path("build/page-nodes")),
        Item::program(kit.path("build/huge-slices")),
        Item::program(kit.path("build/feeder")),
        Item::new(kit.path("build/mark.so"), "/lib/mark.so"),
        Item::new(kit.path("build/profile.so"), "/lib/profile.so"),
        Item::new(
            kit.path("distribution/usr/bin/numad"),
            "/opt/distribution/numad",
        ),
    ];
    for program in ["numad", "numadctl", "numad-workload"] {
        items.push(Item::program(kit.stripped(program)?));
    }
    // Where somebody built it.
    let scheduler = kit.path("scx/bin/scx_rusty");
    if scheduler.exists() {
        items.push(Item::new(scheduler, "/opt/scx/scx_rusty"));
    }
    for (name, file) in own_programs()? {
        items.push(Item::new(file, &format!("{PROGRAMS}/{name}")));
    }
    Ok(items)
}

/// Where the guest has the user's own programs.
pub(crate) const PROGRAMS: &str = "/opt/programs";

/// The user's own programs, by name: the files in the folder that `NUMAD_VM_PROGRAMS` names.
pub(crate) fn own_programs() -> Result<Vec<(String, PathBuf)>> {
    let Some(folder) = std::env::var_os("NUMAD_VM_PROGRAMS") else {
        return Ok(Vec::new());
    };
    programs_in(Path::new(&folder))
}

fn programs_in(folder: &Path) -> Result<Vec<(String, PathBuf)>> {
    let entries = fs::read_dir(folder)
        .with_context(|| format!("cannot look for programs in `{}`", folder.display()))?;
    let mut files = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_file() && read(&path)?.starts_with(b"\x7fELF") {
            files.push((name.into_owned(), path));
        }
    }
    files.sort();
    if files.is_empty() {
        bail!(
            "there is no program in `{}`; put binaries for x86-64 Linux there",
            folder.display()
        );
    }
    Ok(files)
}

/// redis and PostgreSQL with a database to read, as scripts/vm-setup has them.
fn services(kit: &Kit) -> Result<Vec<Item>> {
    let redis = kit.path("services/usr/bin");
    let mut items = vec![
        // One binary, which goes by its name.
        Item::new(redis.join("redis-check-rdb"), "/bin/redis-server"),
        Item::program(redis.join("redis-cli")),
        Item::program(redis.join("redis-benchmark")),
        Item::new(kit.path("services/database"), "/opt/database"),
    ];
    let versions = kit.path("services/usr/lib/postgresql");
    let entry = fs::read_dir(&versions)
        .with_context(|| {
            format!(
                "cannot look into `{}`; run scripts/vm-setup",
                versions.display()
            )
        })?
        .next()
        .with_context(|| format!("`{}` is empty; run scripts/vm-setup", versions.display()))??;
    let version = entry.file_name().to_string_lossy().into_owned();
    let guest = format!("/usr/lib/postgresql/{version}");
    for program in ["postgres", "pgbench", "psql"] {
        let host = entry.path().join("bin").join(program);
        items.push(Item::new(host, &format!("{guest}/bin/{program}")));
    }
    let library = entry.path().join("lib/plpgsql.so");
    items.push(Item::new(library, &format!("{guest}/lib/plpgsql.so")));
    let share = format!("usr/share/postgresql/{version}");
    items.push(Item::new(
        kit.path(&format!("services/{share}/timezonesets")),
        &format!("/{share}/timezonesets"),
    ));
    Ok(items)
}

/// systemd as scripts/vm-setup has it, with what a start needs, and our unit.
fn systemd(kit: &Kit) -> Result<Vec<Item>> {
    const PROGRAMS: [&str; 6] = [
        "lib/systemd/systemd",
        "lib/systemd/systemd-journald",
        "bin/systemctl",
        "bin/journalctl",
        "bin/systemd-sysusers",
        "bin/systemd-tmpfiles",
    ];
    const UNITS: [&str; 9] = [
        "sysinit.target",
        "shutdown.target",
        "umount.target",
        "local-fs.target",
        "sockets.target",
        "systemd-journald.service",
        "systemd-journald.socket",
        "systemd-tmpfiles-setup.service",
        "system.slice",
    ];
    let units = UNITS.map(|unit| format!("lib/systemd/system/{unit}"));
    let mut items = Vec::new();
    for file in PROGRAMS.into_iter().chain(units.iter().map(String::as_str)) {
        let host = kit.path("systemd").join(file);
        // Some versions have none of some, and do without.
        if host.exists() || PROGRAMS.contains(&file) {
            items.push(Item::new(host, &format!("/{file}")));
        }
    }
    for (file, guest) in [
        ("systemd/numad.service", "lib/systemd/system/numad.service"),
        (
            "systemd/numad-characterize.service",
            "lib/systemd/system/numad-characterize.service",
        ),
        ("systemd/numad.sysusers", "usr/lib/sysusers.d/numad.conf"),
        ("systemd/numad.tmpfiles", "usr/lib/tmpfiles.d/numad.conf"),
        ("packaging/numad.toml", "etc/numad/numad.toml"),
        (
            "systemd/numad.service.d/external-policies.conf",
            "usr/share/numad/external-policies.conf",
        ),
    ] {
        items.push(Item::new(kit.shipped(file), &format!("/{guest}")));
    }
    for unit in ["default.target", "scenario.service"] {
        let host = kit.source("guest/systemd").join(unit);
        items.push(Item::new(host, &format!("/etc/systemd/system/{unit}")));
    }
    for program in ["numad", "numadctl"] {
        let guest = format!("/usr/bin/{program}");
        items.push(Item::new(kit.stripped(program)?, &guest));
    }
    Ok(items)
}

/// Open MPI as this machine has it, without what needs a network, our library, and a program that they are tried on.
fn mpi(kit: &Kit) -> Result<Vec<Item>> {
    const LIBRARIES: &str = "/usr/lib/x86_64-linux-gnu";
    // Components for networks and files: their libraries are larger than all the rest.
    const LEFT_OUT: [&str; 10] = [
        "ofi",
        "openib",
        "psm",
        "ucx",
        "memheap",
        "scoll",
        "spml",
        "sshmem",
        "treematch",
        "pml_cm",
    ];
    let mut items = vec![
        Item::new(find("mpirun.openmpi")?, "/usr/bin/mpirun"),
        Item::new("/usr/share/openmpi".into(), "/usr/share/openmpi"),
        Item::new("/etc/openmpi".into(), "/etc/openmpi"),
        Item::program(kit.path("build/cg")),
        Item::new(
            kit.stripped("libnumad_mpi.so")?,
            "/lib/numad/libnumad-mpi.so",
        ),
    ];
    for folder in ["openmpi/lib/openmpi3", "pmix2/lib/pmix", "pmix2/share"] {
        let folder = format!("{LIBRARIES}/{folder}");
        let entries = fs::read_dir(&folder)
            .with_context(|| format!("cannot look into `{folder}`; run scripts/vm-setup"))?;
        for entry in entries {
            let host = entry?.path();
            let name = host.file_name().unwrap_or_default().to_string_lossy();
            if !LEFT_OUT.iter().any(|part| name.contains(part)) {
                let guest = format!("{folder}/{name}");
                items.push(Item::new(host, &guest));
            }
        }
    }
    items.sort_by(|one, other| one.guest.cmp(&other.guest));
    Ok(items)
}

/// A program or folder of this machine and its path in the guest.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    pub(crate) host: PathBuf,
    pub(crate) guest: String,
}

impl Item {
    /// A file or folder, and where the guest has it.
    pub(crate) fn new(host: PathBuf, guest: &str) -> Self {
        Self {
            host,
            guest: guest.to_owned(),
        }
    }

    /// A program that keeps its name, in `/bin`.
    pub(crate) fn program(host: impl Into<PathBuf>) -> Self {
        let host = host.into();
        let name = host.file_name().unwrap_or_default().to_string_lossy();
        Self {
            guest: format!("/bin/{name}"),
            host,
        }
    }
}

fn build(kit: &Kit, name: &str, items: &[Item]) -> Result<PathBuf> {
    let mut archive = Archive::default();
    for directory in [
        "proc", "sys", "dev", "tmp", "root", "bin", "sbin", "lib64", "run", "var/log", "var/lib",
    ] {
        archive.directory(directory);
    }
    archive.device("dev/console", 5, 1);
    archive.device("dev/null", 1, 3);
    for item in items {
        add(&mut archive, &item.host, &item.guest)?;
    }
    let busybox = find("busybox")?;
    archive.program("bin/busybox", &read(&busybox)?);
    for applet in output(Command::new(&busybox).arg("--list"))?.lines() {
        archive.link(&format!("bin/{applet}"), "/bin/busybox");
    }
    archive.program("init", &read(&kit.source("guest/init"))?);
    archive.program(
        "lib/run-scenario",
        &read(&kit.source("guest/run-scenario"))?,
    );
    for file in ["scenario.sh", "mpi.sh", "ports.sh"] {
        let content = read(&kit.source("guest").join(file))?;
        archive.file(&format!("lib/{file}"), &content);
    }
    archive.file("etc/passwd", b"root:x:0:0:root:/root:/bin/sh\nguest:x:1000:1000:guest:/tmp:/bin/sh\nother:x:1001:1001:other:/tmp:/bin/sh\n");
    archive.file(
        "etc/group",
        b"root:x:0:\nguest:x:1000:\nother:x:1001:\nnumad:x:900:\n",
    );
    let bytes = archive.finish();
    let image = kit.path(name);
    let raw = kit.path(&format!("{name}.raw"));
    if fs::read(&raw).is_ok_and(|old| old == bytes) && image.exists() {
        return Ok(image);
    }
    fs::write(&raw, &bytes).with_context(|| format!("cannot write `{}`", raw.display()))?;
    compress(&bytes, &image)?;
    Ok(image)
}

/// A program's own path, from the search path.
fn find(program: &str) -> Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    folders.extend(["/usr/sbin", "/sbin"].map(PathBuf::from));
    folders
        .into_iter()
        .map(|folder| folder.join(program))
        .find(|candidate| candidate.is_file())
        .with_context(|| format!("there is no `{program}` here; run scripts/vm-setup"))
}

fn add(archive: &mut Archive, host: &Path, guest: &str) -> Result<()> {
    if host.is_dir() {
        archive.directory(guest);
        let mut entries: Vec<_> = fs::read_dir(host)?.collect::<Result<_, _>>()?;
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let name = entry.file_name();
            add(
                archive,
                &entry.path(),
                &format!("{guest}/{}", name.to_string_lossy()),
            )?;
        }
        return Ok(());
    }
    archive.program(guest, &read(host)?);
    for library in libraries(host)? {
        archive.program(&library.to_string_lossy(), &read(&library)?);
    }
    Ok(())
}

/// The shared libraries a program names, and theirs.
pub(crate) fn libraries(program: &Path) -> Result<Vec<PathBuf>> {
    if !read(program)?.starts_with(b"\x7fELF") {
        return Ok(Vec::new());
    }
    // Fails on programs without any, and says nothing on standard output then.
    let listed = Command::new("ldd")
        .arg(program)
        .output()
        .context("cannot run `ldd`")?;
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    Ok(listed
        .lines()
        .filter_map(|line| line.split_whitespace().find(|word| word.starts_with('/')))
        .map(PathBuf::from)
        .collect())
}

/// A file in an archive that a guest left.
pub(crate) fn unpacked(archive: &[u8], name: &str) -> Result<String> {
    let mut tar = Command::new("tar")
        .args(["-xOf", "-", name])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .context("cannot run `tar`")?;
    let mut input = tar.stdin.take().context("tar has no input")?;
    std::thread::scope(|scope| {
        // It answers while it reads, and would wait for us if we only wrote.
        let writer = scope.spawn(move || input.write_all(archive));
        let said = tar.wait_with_output()?;
        if !matches!(writer.join(), Ok(Ok(()))) || !said.status.success() {
            bail!("there is no `{name}` in what the guest left");
        }
        Ok(String::from_utf8_lossy(&said.stdout).into_owned())
    })
}

fn compress(bytes: &[u8], to: &Path) -> Result<()> {
    let file = fs::File::create(to).with_context(|| format!("cannot write `{}`", to.display()))?;
    let mut gzip = Command::new("gzip")
        .arg("-1")
        .stdin(Stdio::piped())
        .stdout(file)
        .spawn()
        .context("cannot run `gzip`")?;
    gzip.stdin
        .take()
        .context("gzip has no input")?
        .write_all(bytes)?;
    if !gzip.wait()?.success() {
        bail!("gzip failed on `{}`", to.display());
    }
    Ok(())
}

fn output(command: &mut Command) -> Result<String> {
    let done = command
        .output()
        .with_context(|| format!("cannot run {command:?}"))?;
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("cannot read `{}`", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_what_can_be_run() {
        let folder = std::env::temp_dir().join(format!("numad-vm-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("README"), "no program").unwrap();
        let error = programs_in(&folder).unwrap_err();
        assert!(error.to_string().contains("no program in"), "{error}");
        for name in ["mg.S.x", "cg.S.x"] {
            fs::write(folder.join(name), b"\x7fELF and so on").unwrap();
        }
        let found = programs_in(&folder).unwrap();
        let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["cg.S.x", "mg.S.x"]);
        fs::remove_dir_all(&folder).unwrap();
        programs_in(&folder).unwrap_err();
    }
}
