//! Instructions and cycles that another program counts, told by a file that it keeps up to date.
//!
//! For machines whose counters only a hypervisor or a vendor's tool can read, and for tests/vm, whose guest has none:
//! there a model counts. The file has a line for each process,
//!
//! ```text
//! process PID instructions NUMBER cycles NUMBER
//! ```
//!
//! with numbers that only grow; what follows on a line, and other lines, is not read. A new file takes the place of the
//! old one by its name, so that a reader sees one of them whole. Everything else is counted by the kernel.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use topology::Tid;

use super::open::{Counter, CounterOpener, CounterRefused, CounterSpec, EventCode, Whom};
use super::reading::Reading;
use crate::feed;

/// Most bytes of the file: some thousand processes.
const FILE_BYTES_MAX: u64 = 256 << 10;

/// Opens what the file tells, and the rest by another opener.
#[derive(Debug)]
pub struct FedCounters {
    path: PathBuf,
    rest: Box<dyn CounterOpener>,
}

impl FedCounters {
    /// The file at a path; what is not in it is opened by `rest`.
    #[must_use]
    pub fn new(path: &Path, rest: Box<dyn CounterOpener>) -> Self {
        Self {
            path: path.to_owned(),
            rest,
        }
    }
}

impl CounterOpener for FedCounters {
    fn open(&mut self, spec: &CounterSpec) -> Result<Box<dyn Counter>, CounterRefused> {
        let column = if spec.event == EventCode::instructions(0) {
            "instructions"
        } else if spec.event == EventCode::cycles(0) {
            "cycles"
        } else {
            return self.rest.open(spec);
        };
        let Whom::Task(task) = spec.whom else {
            return self.rest.open(spec);
        };
        let refused = |why| CounterRefused::NoFeed { why };
        let found = fs::symlink_metadata(&self.path)
            .map_err(|_missing| refused("there is no file of this name"))?;
        if !found.is_file() {
            return Err(refused("it is no plain file"));
        }
        if !feed::is_trusted(&found) {
            return Err(refused("others than root or numad may write there"));
        }
        let mut counter = Fed {
            path: self.path.clone(),
            column,
            task,
        };
        // One that cannot be read now would only fail later.
        counter
            .read()
            .map_err(|_unreadable| refused("it cannot be read"))?;
        Ok(Box::new(counter))
    }
}

/// A column of a process's line. The thread that the process is named by has all of it, the others nothing, so that
/// the sum over threads is the process's.
#[derive(Debug)]
struct Fed {
    path: PathBuf,
    column: &'static str,
    task: Tid,
}

impl Counter for Fed {
    fn read(&mut self) -> io::Result<Reading> {
        let mut text = String::new();
        File::open(&self.path)?
            .take(FILE_BYTES_MAX + 1)
            .read_to_string(&mut text)?;
        if text.len() as u64 > FILE_BYTES_MAX {
            // The process's line may be behind, and half a number is another number.
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let value = find(&text, self.task, self.column)?;
        // It is counted all the time; how long that is, nobody asks where nothing takes turns.
        Ok(Reading {
            value,
            enabled_ns: value,
            running_ns: value,
        })
    }
}

/// The number behind a word on the line of a process; 0 where the process has no line.
fn find(text: &str, task: Tid, column: &str) -> io::Result<u64> {
    for line in text.lines() {
        let mut words = line.split_ascii_whitespace();
        if words.next() != Some("process") {
            continue;
        }
        if words.next().and_then(|pid| pid.parse().ok()) != Some(task.0) {
            continue;
        }
        while let (Some(name), Some(number)) = (words.next(), words.next()) {
            if name == column {
                return number.parse().map_err(io::Error::other);
            }
        }
        return Err(io::ErrorKind::InvalidData.into());
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::super::fake::FakeOpener;
    use super::*;

    const TEXT: &str = "process 7 instructions 500 cycles 900 stalled 3\ncontroller 0 lines 9\n\
                        process 8 instructions many\nprocess 9 cycles 4\n";

    #[test]
    fn a_process_has_its_line_and_others_nothing() {
        assert_eq!(find(TEXT, Tid(7), "instructions").unwrap(), 500);
        assert_eq!(find(TEXT, Tid(7), "cycles").unwrap(), 900);
        assert_eq!(find(TEXT, Tid(70), "cycles").unwrap(), 0);
        assert_eq!(find("", Tid(7), "cycles").unwrap(), 0);
        find(TEXT, Tid(8), "instructions").unwrap_err();
        find(TEXT, Tid(9), "instructions").unwrap_err();
    }

    #[test]
    fn a_file_that_is_too_long_tells_nothing() {
        let path = std::env::temp_dir().join(format!("numad-fed-long-{}", std::process::id()));
        let last = "process 7 instructions 123456\n";
        let before = usize::try_from(FILE_BYTES_MAX).unwrap() - last.len() - 1;
        let mut text = "x".repeat(before) + "\n" + last;
        let mut counter = Fed {
            path: path.clone(),
            column: "instructions",
            task: Tid(7),
        };
        fs::write(&path, &text).unwrap();
        assert_eq!(counter.read().unwrap().value, 123_456);
        text.push('\n');
        fs::write(&path, &text).unwrap();
        let read = counter.read();
        fs::remove_file(&path).unwrap();
        assert_eq!(read.unwrap_err().kind(), io::ErrorKind::FileTooLarge);
    }

    #[test]
    fn the_file_is_read_anew_and_must_be_trusted() {
        let path = std::env::temp_dir().join(format!("numad-fed-{}", std::process::id()));
        let mut opener = FedCounters::new(&path, Box::new(FakeOpener::default()));
        let mut open = |event, task| {
            let whom = Whom::Task(Tid(task));
            opener.open(&CounterSpec {
                event,
                whom,
                user_only: true,
            })
        };
        let refused = |why| Err(CounterRefused::NoFeed { why });
        let missing = open(EventCode::cycles(0), 7).map(drop);
        assert_eq!(missing, refused("there is no file of this name"));
        fs::write(&path, TEXT).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
        let open_to_all = open(EventCode::cycles(0), 7).map(drop);
        assert_eq!(
            open_to_all,
            refused("others than root or numad may write there")
        );
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        let mut cycles = open(EventCode::cycles(0), 7).unwrap();
        let before = cycles.read().unwrap();
        fs::write(&path, TEXT.replace("900", "1300")).unwrap();
        let counted = cycles.read().unwrap().since(before).unwrap();
        assert_eq!(counted.scaled(), Some(400.0));
        // What the file does not tell is the kernel's.
        open(EventCode::PAGE_FAULTS, 7).unwrap();
        fs::remove_file(&path).unwrap();
        cycles.read().unwrap_err();
    }
}
