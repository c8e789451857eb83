//! The guest's file system: programs of this machine with the libraries they need, busybox for the rest.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

use crate::cpio::Archive;
use crate::kit::Kit;

/// A program or folder of this machine and its path in the guest.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    pub(crate) host: PathBuf,
    pub(crate) guest: String,
}

impl Item {
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

/// Packs the image unless one with the same content is there, and says where it is.
pub(crate) fn build(kit: &Kit, name: &str, items: &[Item]) -> Result<PathBuf> {
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
    archive.file("lib/scenario.sh", &read(&kit.source("guest/scenario.sh"))?);
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
pub(crate) fn find(program: &str) -> Result<PathBuf> {
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
fn libraries(program: &Path) -> Result<Vec<PathBuf>> {
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
