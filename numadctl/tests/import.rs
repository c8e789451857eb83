//! `numadctl import`, rightly and wrongly.

#![cfg(test)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use sampler::recording::{self, Ending, Entry};

/// A folder of one test, with a file of perf of six records and a cut one in it.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder =
            std::env::temp_dir().join(format!("numadctl-import-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus/perf_data");
        fs::copy(seeds.join("file"), folder.join("perf.data")).unwrap();
        fs::copy(seeds.join("bad-cut"), folder.join("cut.data")).unwrap();
        fs::copy(seeds.join("compressed"), folder.join("piped.data")).unwrap();
        Self(folder)
    }

    /// Exit code, answer, complaint.
    fn run(&self, arguments: &str, input: Stdio) -> (i32, String, String) {
        let output = Command::new(env!("CARGO_BIN_EXE_numadctl"))
            .current_dir(&self.0)
            .arg("import")
            .args(arguments.split(' '))
            .stdin(input)
            .output()
            .unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (
            output.status.code().unwrap(),
            text(output.stdout),
            text(output.stderr),
        )
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    fn samples(&self, name: &str) -> usize {
        let (_, entries, ending) = recording::read(&fs::read(self.0.join(name)).unwrap()).unwrap();
        assert_eq!(ending, Ending::Complete);
        let sample = |entry: &&Entry| matches!(entry, Entry::Record(numad_core::Record::Sample(_)));
        entries.iter().filter(sample).count()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

#[test]
fn a_file_becomes_a_recording_of_its_owner() {
    let folder = Folder::new("right");
    let (code, answer, complaint) = folder.run("perf.data -o out.rec", Stdio::null());
    assert_eq!((code, complaint.as_str()), (0, ""));
    let size = fs::metadata(folder.0.join("out.rec")).unwrap().len();
    assert_eq!(
        answer,
        format!(
            "samples   2 over 30 ns in `out.rec`, {size} B\n\
             event     `type 4 config 0x1cd`: 2 samples\n\
             threads   seen to come, go or take a name 3 times\n\
             machine   not in the file\n\
             note      perf lost 5 records\n"
        )
    );
    assert_eq!(folder.samples("out.rec"), 2);
    let mode = fs::metadata(folder.0.join("out.rec"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(
        folder.names(),
        ["cut.data", "out.rec", "perf.data", "piped.data"]
    );
}

#[test]
fn standard_input_may_be_a_pipe_or_a_file() {
    let folder = Folder::new("stdin");
    let piped = fs::File::open(folder.0.join("piped.data")).unwrap();
    let (code, answer, _) = folder.run("- -o a.rec --json", piped.into());
    assert_eq!(code, 0);
    let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
    assert_eq!(
        (&answer["samples"], &answer["late"]),
        (&9.into(), &0.into())
    );
    assert_eq!(folder.samples("a.rec"), 9);
    let mut cat = Command::new("cat")
        .arg(folder.0.join("perf.data"))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (code, answer, _) = folder.run("- -o b.rec", cat.stdout.take().unwrap().into());
    cat.wait().unwrap();
    assert_eq!(code, 0);
    assert!(answer.contains("where a pipe cannot look"), "{answer}");
    assert_eq!(folder.samples("b.rec"), 2);
}

#[test]
fn what_goes_wrong_is_one_line_and_leaves_nothing() {
    let folder = Folder::new("wrong");
    fs::write(folder.0.join("there.rec"), "mine").unwrap();
    fs::write(folder.0.join("text"), "not from perf").unwrap();
    let before = folder.names();
    for (arguments, code, text) in [
        (
            "no.data -o out.rec",
            6,
            "cannot read `no.data`: no such file or directory",
        ),
        (
            "text -o out.rec",
            2,
            "`text`: not a file of perf: it does not begin with `PERFILE2` at offset 0",
        ),
        (
            "cut.data -o out.rec",
            2,
            "`cut.data`: damaged at offset 534: the file ends in the middle",
        ),
        (
            "perf.data -o there.rec",
            7,
            "`there.rec` is there already; remove it, or name another file",
        ),
        (
            "perf.data -o no/out.rec",
            6,
            "cannot write `no/out.rec`: no such file or directory",
        ),
        ("perf.data -o .. --force", 7, "`..` is no ordinary file"),
        (
            "perf.data -o /dev/null --force",
            7,
            "`/dev/null` is no ordinary file",
        ),
        (
            "perf.data -o -",
            2,
            "a recording cannot go to standard output; name a file",
        ),
        (
            ". -o out.rec",
            2,
            "`.` is a directory, as `perf record --threads` makes them",
        ),
        ("- -o out.rec", 2, "standard input: not a file of perf"),
        ("perf.data", 2, "--output <FILE>"),
    ] {
        let (found, answer, complaint) = folder.run(arguments, Stdio::null());
        assert_eq!(found, code, "{arguments}: {complaint}");
        assert_eq!(answer, "");
        assert!(complaint.starts_with("numadctl: "), "{complaint}");
        assert!(complaint.contains(text), "{arguments}: {complaint}");
        assert_eq!(complaint.lines().count(), 1, "{complaint}");
        assert_eq!(folder.names(), before, "{arguments}");
    }
    assert_eq!(
        fs::read_to_string(folder.0.join("there.rec")).unwrap(),
        "mine"
    );
    let (code, _, _) = folder.run("perf.data -o there.rec --force", Stdio::null());
    assert_eq!((code, folder.samples("there.rec")), (0, 2));
    // A broken file does not cost the recording that it would have replaced.
    let (code, _, _) = folder.run("cut.data -o there.rec --force", Stdio::null());
    assert_eq!((code, folder.samples("there.rec")), (2, 2));
    assert_eq!(folder.names(), before);
}
