//! Where things are: what `scripts/vm-setup` fetched and built, and our own programs.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use anyhow::{Context as _, Result, bail};

/// The folder of the virtual machine's parts.
#[derive(Debug)]
pub(crate) struct Kit {
    root: PathBuf,
    workspace: PathBuf,
    /// Held by who makes something that is kept in it.
    pub(crate) making: Mutex<()>,
}

impl Kit {
    /// Finds the folder, which `scripts/vm-setup` fills: `NUMAD_VM_DIR`, or `vm` among what cargo builds.
    pub(crate) fn open() -> Result<Self> {
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR"))
            .ancestors()
            .nth(2)
            .context("this package lies two folders below the workspace")?
            .to_owned();
        let root = std::env::var_os("NUMAD_VM_DIR")
            .map_or_else(|| target(&workspace).join("vm"), PathBuf::from);
        if !root.join("build/numatruth.so").exists() {
            bail!("`{}` is not set up; run scripts/vm-setup", root.display());
        }
        Ok(Self {
            root,
            workspace,
            making: Mutex::new(()),
        })
    }

    /// A file or folder of the kit.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// A file or folder of this package.
    pub(crate) fn source(&self, name: &str) -> PathBuf {
        self.workspace.join("tests/vm").join(name)
    }

    /// A file that is installed as it is in the sources.
    pub(crate) fn shipped(&self, name: &str) -> PathBuf {
        self.workspace.join(name)
    }

    /// QEMU with the folders of its own data.
    pub(crate) fn qemu(&self) -> Vec<OsString> {
        let share = self.path("qemu/usr/share");
        vec![
            self.path("qemu/usr/bin/qemu-system-x86_64").into(),
            "-L".into(),
            share.join("qemu").into(),
            "-L".into(),
            share.join("seabios").into(),
        ]
    }

    /// The guest's kernel: the usual one, or that of the version which `NUMAD_VM_KERNEL` names.
    pub(crate) fn kernel(&self) -> Result<PathBuf> {
        let boot = match other_kernel() {
            Some(version) => self.path(&format!("kernel-{version}")),
            None => self.path("kernel/boot"),
        };
        let mut kernels: Vec<PathBuf> = fs::read_dir(&boot)
            .with_context(|| {
                format!(
                    "cannot look for a kernel in `{}`; run scripts/vm-setup with the same NUMAD_VM_KERNEL",
                    boot.display()
                )
            })?
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| {
                let name = path.file_name().and_then(|name| name.to_str());
                name.is_some_and(|name| name.starts_with("vmlinuz"))
            })
            .collect();
        kernels.sort();
        kernels.pop().with_context(|| {
            format!(
                "there is no kernel in `{}`; run scripts/vm-setup",
                boot.display()
            )
        })
    }

    /// One of our programs, as built for release.
    pub(crate) fn built(&self, program: &str) -> PathBuf {
        target(&self.workspace).join("release").join(program)
    }

    /// The same without what only a debugger reads.
    pub(crate) fn stripped(&self, program: &str) -> Result<PathBuf> {
        let from = self.built(program);
        if !from.exists() {
            bail!("`{}` is not built; run make release", from.display());
        }
        let to = self.path("build").join(program);
        let done = Command::new("strip")
            .arg("-o")
            .args([&to, &from])
            .status()
            .context("cannot run `strip`; install binutils")?;
        if !done.success() {
            bail!("`strip` cannot read `{}`", from.display());
        }
        Ok(to)
    }
}

/// The version that `NUMAD_VM_KERNEL` names, of a kernel beside the usual one.
pub(crate) fn other_kernel() -> Option<String> {
    std::env::var("NUMAD_VM_KERNEL")
        .ok()
        .filter(|version| !version.is_empty())
}

/// Where cargo puts what it builds.
fn target(workspace: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace.join("target"), PathBuf::from)
}
