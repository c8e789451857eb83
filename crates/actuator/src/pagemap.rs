//! What `/proc/PID/pagemap` tells of single pages, whoever has them.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use topology::Pid;

use crate::sys;

/// See [`crate::Kernel::of_no_file`]. Changes nothing.
pub(crate) fn of_no_file(pid: Pid, pages: &[u64]) -> Vec<bool> {
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
    let own = |&page: &u64| entry(page).is_ok_and(|bits| bits & (PRESENT | OF_FILE) == PRESENT);
    pages.iter().map(own).collect()
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
        let code = of_no_file as *const () as u64;
        // Where nothing is mapped, and where nothing can be.
        let nowhere = [0, u64::MAX];
        let asked = [inside, code, nowhere[0], nowhere[1]];
        assert_eq!(of_no_file(own, &asked), [true, false, false, false]);
        assert_eq!(of_no_file(Pid(u32::MAX >> 1), &[inside]), [false]);
        drop(black_box(written));
    }
}
