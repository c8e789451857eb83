//! Writes an archive that Linux unpacks as its first file system (`newc` cpio).

use std::collections::BTreeSet;

/// Type bits of a mode, as `stat` has them.
const DIRECTORY: u32 = 0o040_000;
const REGULAR: u32 = 0o100_000;
const LINK: u32 = 0o120_000;
const CHARACTER_DEVICE: u32 = 0o020_000;

/// An archive that is being written. Names are absolute or relative to the root, as one likes; one that
/// exists already is left as it is.
#[derive(Debug, Default)]
pub(crate) struct Archive {
    bytes: Vec<u8>,
    entries: u32,
    names: BTreeSet<String>,
}

impl Archive {
    /// Adds a directory and those above it.
    pub(crate) fn directory(&mut self, path: &str) {
        let path = path.trim_matches('/');
        let ends = path.match_indices('/').map(|(at, _)| at);
        for end in ends.chain([path.len()]) {
            self.entry(&path[..end], DIRECTORY | 0o755, &[], (0, 0));
        }
    }

    /// Adds a file that may be executed.
    pub(crate) fn program(&mut self, path: &str, content: &[u8]) {
        self.within(path);
        self.entry(path, REGULAR | 0o755, content, (0, 0));
    }

    /// Adds a file that may be read.
    pub(crate) fn file(&mut self, path: &str, content: &[u8]) {
        self.within(path);
        self.entry(path, REGULAR | 0o644, content, (0, 0));
    }

    /// Adds a symbolic link.
    pub(crate) fn link(&mut self, path: &str, target: &str) {
        self.within(path);
        self.entry(path, LINK | 0o777, target.as_bytes(), (0, 0));
    }

    /// Adds a character device that everybody may use.
    pub(crate) fn device(&mut self, path: &str, major: u32, minor: u32) {
        self.within(path);
        self.entry(path, CHARACTER_DEVICE | 0o666, &[], (major, minor));
    }

    /// The whole archive.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, &[], (0, 0));
        self.pad_to(512);
        self.bytes
    }

    fn within(&mut self, path: &str) {
        if let Some((directory, _)) = path.trim_matches('/').rsplit_once('/') {
            self.directory(directory);
        }
    }

    fn entry(&mut self, path: &str, mode: u32, content: &[u8], device: (u32, u32)) {
        let name = path.trim_matches('/');
        if name.is_empty() || !self.names.insert(name.to_owned()) {
            return;
        }
        self.entries += 1;
        let length = |bytes: usize| u32::try_from(bytes).expect("files of an image are small");
        let fields = [
            self.entries,
            mode,
            0, // user
            0, // group
            1, // links
            0, // time
            length(content.len()),
            0,
            0,
            device.0,
            device.1,
            length(name.len() + 1),
            0, // no checksum
        ];
        self.bytes.extend(b"070701");
        for field in fields {
            self.bytes.extend(format!("{field:08X}").bytes());
        }
        self.bytes.extend(name.as_bytes());
        self.bytes.push(0);
        self.pad_to(4);
        self.bytes.extend(content);
        self.pad_to(4);
    }

    fn pad_to(&mut self, alignment: usize) {
        let length = self.bytes.len().next_multiple_of(alignment);
        self.bytes.resize(length, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_has_its_entries_once_and_whole_blocks() {
        let mut archive = Archive::default();
        archive.program("/bin/tool", b"abc");
        archive.file("bin/tool", b"not this one");
        archive.link("bin/other", "tool");
        let bytes = archive.finish();
        assert_eq!(bytes.len() % 512, 0);
        let text = String::from_utf8_lossy(&bytes);
        assert_eq!(
            text.matches("070701").count(),
            4,
            "bin, tool, other, trailer"
        );
        assert_eq!(text.matches("bin/tool\0").count(), 1);
        assert!(text.contains("abc") && !text.contains("not this one"));
    }
}
