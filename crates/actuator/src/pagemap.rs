//! What `/proc/PID/pagemap` tells of single pages, whoever has them.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use topology::Pid;

use crate::sys;

/// See [`crate::Kernel::of_files`]. Changes nothing.
pub(crate) fn of_files(pid: Pid, pages: &[u64]) -> Vec<Option<bool>> {
    let (pagemap, page_bytes) = (
        File::open(format!("/proc/{pid}/pagemap")),
        sys::page_bytes(),
    );
    let entry = |page: u64| -> io::Result<u64> {
        let mut entry = [0; ENTRY_BYTES];
        let pagemap = pagemap.as_ref().map_err(io::Error::kind)?;
        pagemap.read_exact_at(&mut entry, page / page_bytes * ENTRY_BYTES as u64)?;
        Ok(u64::from_ne_bytes(entry))
    };
    let there = |page: u64| entry(page).ok().filter(|bits| bits & PRESENT != 0);
    let of_file = |&page: &u64| there(page).map(|bits| bits & OF_FILE != 0);
    pages.iter().map(of_file).collect()
}

const ENTRY_BYTES: usize = size_of::<u64>();
const PRESENT: u64 = 1 << 63;
/// Of a file, or of memory that is shared by its name.
const OF_FILE: u64 = 1 << 61;

#[cfg(test)]
mod tests {
    use std::hint::black_box;

    use super::*;

    #[test]
    fn memory_of_ones_own_is_told_from_a_file_s() {
        let own = Pid(std::process::id());
        let written = black_box(vec![1_u8; 1 << 20]);
        let inside = written.as_ptr().addr() as u64 + (1 << 19);
        // Its code is its file's, and was run by now.
        let code = of_files as *const () as u64;
        // Where nothing is mapped, and where nothing can be.
        let nowhere = [0, u64::MAX];
        let asked = [inside, code, nowhere[0], nowhere[1]];
        let told = of_files(own, &asked);
        assert_eq!(told, [Some(false), Some(true), None, None]);
        assert_eq!(of_files(Pid(u32::MAX >> 1), &[inside]), [None]);
        drop(black_box(written));
    }
}
