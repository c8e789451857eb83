//! `make install`, `make uninstall` and `make demo` as scripts: what they refuse, and what they leave.
//!
//! Programs are copies of `/bin/true` here: nothing is compiled.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A folder with built programs in it, and a root to install below.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        let folder =
            std::env::temp_dir().join(format!("numad-install-{name}-{}", std::process::id()));
        let built = folder.join("target/release");
        fs::create_dir_all(&built).expect("a folder");
        fs::create_dir(folder.join("root")).expect("a folder");
        for name in ["numad", "numadctl", "numad-sim", "libnumad_mpi.so"] {
            fs::copy("/bin/true", built.join(name)).expect("a program");
        }
        Self(folder)
    }

    fn root(&self) -> PathBuf {
        self.0.join("root")
    }

    /// Runs a script with these words, for this root.
    fn run(&self, script: &str, words: &[&str], variables: &[(&str, &str)]) -> Output {
        Command::new("bash")
            .arg(
                Path::new(env!("CARGO_MANIFEST_DIR"))
                    .join("../scripts")
                    .join(script),
            )
            .args(words)
            .env_remove("PREFIX")
            .env("DESTDIR", self.root())
            .env("CARGO_TARGET_DIR", self.0.join("target"))
            .envs(variables.iter().copied())
            .output()
            .expect("bash runs")
    }

    /// The single line with which a script refuses.
    #[track_caller]
    fn refused(
        &self,
        code: i32,
        script: &str,
        words: &[&str],
        variables: &[(&str, &str)],
    ) -> String {
        let output = self.run(script, words, variables);
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(
            output.status.code(),
            Some(code),
            "{script} {words:?}: {told}"
        );
        assert_eq!(told.lines().count(), 1, "{told}");
        assert!(output.stdout.is_empty(), "{output:?}");
        told
    }

    #[track_caller]
    fn done(&self, words: &[&str], variables: &[(&str, &str)]) -> String {
        let output = self.run("install", words, variables);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Everything below the root.
    fn content(&self) -> BTreeSet<PathBuf> {
        let mut found = BTreeSet::new();
        let mut folders = vec![self.root()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).expect("a folder") {
                let path = entry.expect("an entry").path();
                if path.is_dir() {
                    folders.push(path.clone());
                }
                found.insert(path);
            }
        }
        found
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let removed = fs::remove_dir_all(&self.0);
        assert!(removed.is_ok() || std::thread::panicking(), "{removed:?}");
    }
}

#[test]
fn wrong_uses_of_the_scripts_are_told_in_one_line() {
    let place = Place::new("wrong");
    let told = place.refused(2, "install", &["--unistall"], &[]);
    assert!(told.contains("`--unistall`"), "{told}");
    let told = place.refused(2, "install", &[], &[("PREFIX", "usr")]);
    assert!(told.contains("PREFIX=usr"), "{told}");
    let told = place.refused(6, "install", &["--uninstall"], &[]);
    assert!(told.contains("nothing of `make install`"), "{told}");
    let told = place.refused(2, "demo", &["--loud"], &[]);
    assert!(told.contains("`--loud`"), "{told}");
    let told = place.refused(6, "demo", &[], &[]);
    assert!(told.contains("run `make demo`"), "{told}");
    fs::remove_file(place.0.join("target/release/numad-sim")).expect("it is there");
    let told = place.refused(6, "install", &[], &[]);
    assert!(
        told.contains("numad-sim` is missing; run `make build`"),
        "{told}"
    );
    assert!(place.content().is_empty());
}

#[test]
fn what_is_installed_can_be_uninstalled() {
    for prefix in ["/usr", "/usr/local"] {
        let place = Place::new(&prefix.replace('/', "-"));
        let variables = [("PREFIX", prefix)];
        // Of somebody else; it stays, and so do the folders it is in.
        let foreign = place.root().join("etc/other/settings");
        fs::create_dir_all(foreign.parent().expect("a folder")).expect("a folder");
        fs::write(&foreign, "mine").expect("a file");
        let before = place.content();
        place.done(&[], &variables);
        for file in [
            "bin/numadctl",
            "share/doc/numad/README.md",
            "share/man/man1/numad-sim.1",
        ] {
            assert!(
                place.root().join(&prefix[1..]).join(file).exists(),
                "{file}"
            );
        }
        // A second install changes nothing of what is known to be ours.
        place.done(&[], &variables);
        place.done(&["--uninstall"], &variables);
        assert_eq!(place.content(), before);
    }
}

#[test]
fn a_root_that_is_not_there_is_made_and_removed() {
    let place = Place::new("fresh");
    let fresh = place.root().join("fresh");
    let variables = [("DESTDIR", fresh.to_str().expect("a path in ASCII"))];
    place.done(&[], &variables);
    assert!(fresh.join("usr/bin/numad").exists());
    place.done(&["--uninstall"], &variables);
    assert!(place.content().is_empty(), "{:?}", place.content());
    fs::write(&fresh, "").expect("a file");
    let told = place.refused(7, "install", &[], &variables);
    assert!(told.contains("fresh` is no folder"), "{told}");
}

#[test]
fn settings_that_were_changed_stay() {
    let place = Place::new("settings");
    place.done(&[], &[]);
    let settings = place.root().join("etc/numad/numad.toml");
    fs::write(&settings, "# changed\n").expect("it can be written");
    place.done(&[], &[]);
    let told = place.done(&["--uninstall"], &[]);
    assert!(told.contains("which was changed"), "{told}");
    assert_eq!(
        fs::read_to_string(&settings).expect("it stays"),
        "# changed\n"
    );
}

/// An earlier version had other files, and other settings as shipped.
#[test]
fn what_an_earlier_version_installed_can_be_uninstalled() {
    let place = Place::new("earlier");
    place.done(&[], &[]);
    let list = place.root().join("usr/share/doc/numad/installed");
    let settings = place.root().join("etc/numad/numad.toml");
    let gone = place.root().join("usr/share/doc/numad/docs/gone.md");
    let shipped = fs::read_to_string(&settings).expect("settings");
    fs::write(&settings, "# earlier\n").expect("a file");
    fs::write(&gone, "# earlier\n").expect("a file");
    let sum = Command::new("sha256sum")
        .arg(&gone)
        .output()
        .expect("a sum");
    let sum = String::from_utf8_lossy(&sum.stdout)[..64].to_owned();
    let lines = fs::read_to_string(&list).expect("a list");
    let others = lines.lines().filter(|line| !line.ends_with("numad.toml"));
    let mut lines: Vec<String> = others.map(str::to_owned).collect();
    lines.push(format!("{sum} /usr/share/doc/numad/docs/gone.md"));
    lines.push(format!("{sum} /etc/numad/numad.toml\n"));
    fs::write(&list, lines.join("\n")).expect("a list");
    place.done(&[], &[]);
    let now = fs::read_to_string(&settings).expect("settings");
    assert_eq!(now, shipped, "nobody had changed them");
    let told = place.done(&["--uninstall"], &[]);
    assert!(!told.contains("kept"), "{told}");
    assert!(place.content().is_empty(), "{:?}", place.content());
}

#[test]
fn nothing_is_done_where_a_package_or_a_folder_is_in_the_way() {
    let place = Place::new("owned");
    let database = place.root().join("var/lib/dpkg/info");
    fs::create_dir_all(&database).expect("a folder");
    fs::write(database.join("numad.list"), "/usr/bin/numad\n").expect("a file");
    fs::write(
        place.root().join("var/lib/dpkg/status"),
        "Package: numad\nStatus: install ok installed\nMaintainer: x <x@example.org>\n\
         Architecture: amd64\nVersion: 0.5\nDescription: another numad\n\n",
    )
    .expect("a file");
    let before = place.content();
    if Command::new("dpkg-query").arg("--version").output().is_ok() {
        let told = place.refused(7, "install", &[], &[]);
        assert!(
            told.contains("belongs to the package numad") && told.contains("PREFIX"),
            "{told}"
        );
        assert_eq!(place.content(), before);
    } else {
        println!("skipped: there is no dpkg-query here");
    }
    fs::create_dir_all(place.root().join("usr/local/bin/numadctl")).expect("a folder");
    let told = place.refused(7, "install", &[], &[("PREFIX", "/usr/local")]);
    assert!(told.contains("numadctl` is a folder"), "{told}");
}

/// What is typed, and a word that must be among those offered for its end.
const COMPLETED: &[(&str, &str)] = &[
    ("numadctl att", "attach"),
    ("numadctl attach 1 --policy ", "deloc"),
    ("numadctl doctor --verb", "--verbose"),
    ("numad --und", "--undo"),
    ("numad-sim --policy de", "deloc"),
];

/// Fish is asked as well where it is installed.
#[test]
fn shells_complete_commands_flags_and_policies() {
    const BASH: &str = r#"read -ra COMP_WORDS <<<"$1"; [ "${1: -1}" != " " ] || COMP_WORDS+=("")
        COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); source "$2/${COMP_WORDS[0]}.bash"
        "_${COMP_WORDS[0]//-/__}" "${COMP_WORDS[0]}" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
        printf '%s\n' "${COMPREPLY[@]}""#;
    const FISH: &str =
        r#"source "$argv[2]/"(string split ' ' $argv[1])[1].fish; complete -C $argv[1]"#;
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging/completions");
    for (shell, script) in [
        (["bash", "-c", BASH, "bash"], "bash"),
        (["fish", "--no-config", "-c", FISH], "fish"),
    ] {
        for (typed, wanted) in COMPLETED {
            let output = Command::new(shell[0])
                .args(&shell[1..])
                .arg(typed)
                .arg(&folder)
                .output();
            let Ok(output) = output else {
                println!("skipped: there is no {script} here");
                break;
            };
            let offered = String::from_utf8_lossy(&output.stdout).into_owned();
            let words = offered
                .lines()
                .map(|line| line.split('\t').next().unwrap_or(""));
            assert!(
                words.clone().any(|word| word == *wanted),
                "{script}, {typed:?}: {output:?}"
            );
        }
    }
}
