//! `mpi`, and what `run --mpi` gives a program.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use control::{ErrorKind, Failure, MPI_SOCKET_VARIABLE};

use crate::cli::{Mpi, What};
use crate::output::Output;

/// Names the library, where it is not beside the programs.
const SHIM_VARIABLE: &str = "NUMAD_MPI_SHIM";

/// Has the dynamic linker load it.
const PRELOAD: &str = "LD_PRELOAD";

pub(super) fn mpi(socket: &Path, arguments: Mpi, out: &mut Output<'_>) -> Result<(), Failure> {
    let What::Env = arguments.what;
    for (name, value) in environment(socket)? {
        let value = value.to_string_lossy().replace('\'', r"'\''");
        out.text(&format!("export {name}='{value}'\n"))?;
    }
    Ok(())
}

/// The variables with which MPI programs count.
pub(super) fn environment(socket: &Path) -> Result<[(&'static str, OsString); 2], Failure> {
    let mut preload = shim()?.into_os_string();
    if let Some(others) = std::env::var_os(PRELOAD).filter(|others| !others.is_empty()) {
        preload.push(":");
        preload.push(others);
    }
    // The program may go elsewhere before it connects.
    let socket = std::path::absolute(socket).unwrap_or_else(|_no_folder| socket.to_owned());
    let socket = control::mpi_socket(&socket).into_os_string();
    Ok([(PRELOAD, preload), (MPI_SOCKET_VARIABLE, socket)])
}

/// The library: where the variable says, where `make install` puts it, or where cargo does.
fn shim() -> Result<PathBuf, Failure> {
    let missing = |path: &Path| {
        let message = format!("the library `{}` is missing", path.display());
        Failure::new(ErrorKind::NotFound, message)
            .remedy(format!("install it, or name it in `{SHIM_VARIABLE}`"))
    };
    let found = match std::env::var_os(SHIM_VARIABLE).map(PathBuf::from) {
        // As the linker would take it for a name to search for.
        Some(named) if !named.is_absolute() || !named.is_file() => return Err(missing(&named)),
        Some(named) => named,
        None => {
            let own = std::env::current_exe().unwrap_or_default();
            let folder = own.parent().unwrap_or(Path::new("/"));
            let installed = folder.join("../lib/numad/libnumad-mpi.so");
            let places = [folder.join("libnumad_mpi.so"), installed.clone()];
            let found = places.into_iter().find(|path| path.is_file());
            let found = found.and_then(|path| path.canonicalize().ok());
            found.ok_or_else(|| missing(&installed))?
        }
    };
    // The linker takes both for the end of a name, and has no way to say otherwise.
    match found
        .as_os_str()
        .as_encoded_bytes()
        .iter()
        .any(|byte| b" :".contains(byte))
    {
        true => Err(Failure::new(
            ErrorKind::Usage,
            format!("the path of `{}` has a space or a colon", found.display()),
        )
        .remedy(format!("name a copy elsewhere in `{SHIM_VARIABLE}`"))),
        false => Ok(found),
    }
}
