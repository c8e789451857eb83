//! Which pages the kernel maps as part of larger ones.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::AsFd as _;

use topology::Pid;

use crate::sys;

/// For each of these pages of a process, whether it is part of a larger one. No for all where the
/// kernel does not tell, as before Linux 6.7, and where we may not look. Changes nothing.
#[must_use]
pub fn are_large(pid: Pid, pages: &[u64], page_bytes: u64) -> Vec<bool> {
    // A large page takes the place of a table of small ones, which has a word for each.
    let large_bytes = page_bytes * (page_bytes / size_of::<u64>() as u64);
    let mut known = BTreeMap::new();
    let mut pagemap = File::open(format!("/proc/{pid}/pagemap")).ok();
    let is_large = |&page: &u64| {
        *known.entry(page / large_bytes).or_insert_with(|| {
            let asked = pagemap.as_ref();
            let told = asked.map(|map| sys::is_large(map.as_fd(), page..page + page_bytes));
            // Who does not answer once is not asked again.
            pagemap.take_if(|_| matches!(told, Some(Err(_))));
            matches!(told, Some(Ok(true)))
        })
    };
    pages.iter().map(is_large).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_maps_as_one_is_large() {
        let own = Pid(std::process::id());
        // Large pages lie in it, if there are any, and small ones before the first.
        let block = vec![1_u8; 16 << 20];
        let first = block.as_ptr() as u64 & !0xfff;
        let pages: Vec<u64> = (0..4096).map(|page| first + (page << 12)).collect();
        let large = are_large(own, &pages, 4096);
        let smaps = std::fs::read_to_string("/proc/self/smaps_rollup").unwrap_or_default();
        let words = smaps
            .lines()
            .find_map(|line| line.strip_prefix("AnonHugePages:"));
        let kib = words.and_then(|words| words.trim().trim_end_matches(" kB").parse().ok());
        let told = large.iter().filter(|large| **large).count() as u64 * 4;
        assert!(told <= kib.unwrap_or(0_u64), "{told} KiB of {smaps}");
        if told == 0 {
            println!("skipped: the kernel has no large pages here, or does not tell");
            return;
        }
        assert!(told >= 8 << 10, "{told} KiB of 16 MiB");
    }

    #[test]
    fn nobody_has_large_pages_at_the_end_of_the_stack_and_the_gone_have_none() {
        let here = 0_u8;
        let page = &raw const here as u64 & !0xfff;
        let own = Pid(std::process::id());
        assert_eq!(are_large(own, &[page, page], 4096), [false; 2]);
        assert_eq!(are_large(Pid(u32::MAX >> 1), &[page], 4096), [false]);
        assert!(are_large(own, &[], 4096).is_empty());
    }
}
