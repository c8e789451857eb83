//! Packs what the reader reads of a root directory into one text, the form of the fixtures in
//! `tests/fixtures/topology/trees`:
//!
//! ```text
//! tar xjf MACHINE.tar.bz2
//! cargo run -p topology --example pack_tree -- MACHINE > MACHINE.tree
//! ```
//!
//! `@DIR` begins a directory; `NAME=CONTENT` is a file in it, with `\n`, `\0`, `\\` and `\xHH` for what
//! would break the line; `NAME/` is a directory (or a link to one) that matters by its name alone.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

fn main() -> io::Result<()> {
    let Some(root) = std::env::args_os().nth(1).map(PathBuf::from) else {
        return Err(io::Error::other("expected the directory to pack"));
    };
    let mut text = String::from("# file tree 1\n");
    file_lines(&root, "proc", &["meminfo"], &mut text)?;
    let cpu = "sys/devices/system/cpu";
    file_lines(&root, cpu, &["online", "isolated", "nohz_full"], &mut text)?;
    for name in names(&root.join(cpu), "cpu")? {
        cpu_lines(&root, &format!("{cpu}/{name}"), &mut text)?;
    }
    let node = "sys/devices/system/node";
    file_lines(&root, node, &["online", "possible"], &mut text)?;
    for name in names(&root.join(node), "node")? {
        node_lines(&root, &format!("{node}/{name}"), &mut text)?;
    }
    io::stdout().lock().write_all(text.as_bytes())
}

fn cpu_lines(root: &Path, dir: &str, text: &mut String) -> io::Result<()> {
    file_lines(root, dir, &["online"], text)?;
    for link in names(&root.join(dir), "node")? {
        text.push_str(&format!("{link}/\n"));
    }
    let siblings = list_or_mask(
        root,
        dir,
        "topology/thread_siblings_list",
        "topology/thread_siblings",
    );
    let topology = format!("{dir}/topology");
    let sibling_file = siblings.trim_start_matches("topology/");
    file_lines(
        root,
        &topology,
        &["physical_package_id", sibling_file],
        text,
    )?;
    let cache = format!("{dir}/cache");
    for index in names(&root.join(&cache), "index")? {
        let dir = format!("{cache}/{index}");
        let shared = list_or_mask(root, &dir, "shared_cpu_list", "shared_cpu_map");
        file_lines(root, &dir, &["level", "type", "size", shared], text)?;
    }
    Ok(())
}

fn node_lines(root: &Path, dir: &str, text: &mut String) -> io::Result<()> {
    let cpus = list_or_mask(root, dir, "cpulist", "cpumap");
    file_lines(root, dir, &[cpus, "distance", "meminfo"], text)?;
    for class in ["access0", "access1"] {
        let dir = format!("{dir}/{class}/initiators");
        let figures = [
            "read_bandwidth",
            "write_bandwidth",
            "read_latency",
            "write_latency",
        ];
        file_lines(root, &dir, &figures, text)?;
        for link in names(&root.join(&dir), "node")? {
            text.push_str(&format!("{link}/\n"));
        }
    }
    Ok(())
}

fn list_or_mask(root: &Path, dir: &str, list: &'static str, mask: &'static str) -> &'static str {
    if root.join(dir).join(list).exists() {
        list
    } else {
        mask
    }
}

/// Entries named `prefix` and a number, by that number.
fn names(dir: &Path, prefix: &str) -> io::Result<Vec<String>> {
    let mut numbers: Vec<u32> = Vec::new();
    match std::fs::read_dir(dir) {
        Ok(entries) => {
            for entry in entries {
                let name = entry?.file_name();
                let digits = name.to_str().and_then(|name| name.strip_prefix(prefix));
                numbers.extend(digits.and_then(|digits| digits.parse::<u32>().ok()));
            }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    numbers.sort_unstable();
    Ok(numbers
        .iter()
        .map(|number| format!("{prefix}{number}"))
        .collect())
}

fn file_lines(root: &Path, dir: &str, files: &[&str], text: &mut String) -> io::Result<()> {
    if !root.join(dir).is_dir() {
        return Ok(());
    }
    text.push_str(&format!("@{dir}\n"));
    for file in files {
        match std::fs::read(root.join(dir).join(file)) {
            Ok(bytes) => {
                text.push_str(file);
                text.push('=');
                // Of these files the reader wants one line.
                let shown = if file.ends_with("meminfo") {
                    first_line_with(&bytes, b"MemTotal")
                } else {
                    &bytes
                };
                escape(shown, text);
                text.push('\n');
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn first_line_with<'a>(bytes: &'a [u8], word: &[u8]) -> &'a [u8] {
    let mut lines = bytes.split_inclusive(|&byte| byte == b'\n');
    let has_word = |line: &&[u8]| line.windows(word.len()).any(|window| window == word);
    lines.find(has_word).unwrap_or_default()
}

fn escape(bytes: &[u8], text: &mut String) {
    for &byte in bytes {
        match byte {
            b'\n' => text.push_str("\\n"),
            0 => text.push_str("\\0"),
            b'\\' => text.push_str("\\\\"),
            b' '..=b'~' => text.push(char::from(byte)),
            other => {
                let written = write!(text, "\\x{other:02x}");
                written.expect("a String takes every write");
            }
        }
    }
}
