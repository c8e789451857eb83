//! Settings files rightly and wrongly, with policies made up for the purpose.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use numad_core::published::Made;
use numad_core::{
    IntervalLaw, Policy, PolicyFactory, Program, Proposal, SettingKind, SettingSpec, SettingValue,
    Settings, SettingsError, Time,
};
use proptest::prelude::*;

use crate::error::ConfigError;
use crate::read::Reader;
use crate::schema::{Entry, Rule, SECTIONS};
use crate::typed::Values;
use crate::{
    Config, Effect, IntervalKind, LogLevel, Paths, Provoke, Users, check_bytes, documented, load,
    render_default, render_effective, render_markdown, schema,
};

#[derive(Debug)]
struct Silent;

impl Policy for Silent {
    fn propose(&mut self, _now: Time, _program: &Program<'_>, _out: &mut Vec<Proposal>) {}
}

static FAKES: &[&PolicyFactory] = &[
    &fake(
        "deloc",
        &[
            SettingSpec {
                name: "strict",
                kind: SettingKind::Bool(false),
                help: "Whether it is strict.",
            },
            SettingSpec {
                name: "patience",
                kind: SettingKind::Integer((0, 9), 3),
                help: "How patient it is.",
            },
        ],
        |settings, _seed| {
            if settings.bool("strict") && settings.integer("patience") > 5 {
                let reason = "must not exceed 5 with `strict`";
                return Err(SettingsError::new("patience", reason));
            }
            Ok(Box::new(Silent))
        },
    ),
    &fake("none", &[], |_settings, _seed| Ok(Box::new(Silent))),
];

const fn fake(
    name: &'static str,
    settings: &'static [SettingSpec],
    build: fn(&Settings, u64) -> Made,
) -> PolicyFactory {
    PolicyFactory {
        name,
        summary: "Made up.",
        settings,
        seeks_gain: true,
        goes_by_order: false,
        published: None,
        build,
    }
}

fn read(texts: &[&str]) -> Result<Config, ConfigError> {
    let paths: Vec<PathBuf> = (0..texts.len())
        .map(|n| PathBuf::from(format!("f{n}")))
        .collect();
    let mut reader = Reader::new(FAKES);
    for (path, text) in paths.iter().zip(texts) {
        reader.read(path, text);
    }
    reader.finish()
}

#[track_caller]
fn refused(text: &str, problems: &str) {
    let error = read(&[text]).unwrap_err();
    assert_eq!(error.to_string(), problems);
}

#[test]
fn nothing_given_is_all_defaults() {
    let config = read(&[]).unwrap();
    assert_eq!(config.daemon.socket, Path::new("/run/numad/numad.sock"));
    assert_eq!(config.daemon.log_level, LogLevel::Info);
    assert_eq!(config.access.admin_group.as_deref(), Some("numad"));
    assert_eq!(config.sampling.provoke, Provoke::Auto);
    assert!((config.sampling.clear_budget - 0.005).abs() < 1e-12);
    assert!((config.overhead.budget - 0.01).abs() < 1e-12);
    assert_eq!(
        (config.sampling.period, config.sampling.load_latency_min),
        (0, 30)
    );
    assert!((config.engine.busy_min - 0.05).abs() < 1e-12);
    assert_eq!(config.policy("deloc").unwrap().integer("patience"), 3);
    assert_eq!(config.policy("missing"), None);
    assert_eq!(config.attach_options().interval, IntervalLaw::CALM);
    assert_eq!(config.engine_options(4096).page_slots, 65_536);
}

#[test]
fn every_setting_is_read() {
    // Each setting alone takes another value than its default, and the typed value follows.
    let defaults = read(&[]).unwrap();
    for section in SECTIONS {
        // This one is refused alone, see `what_must_fit_together_is_blamed_on_a_line`.
        let alone = |entry: &&Entry| entry.spec.name != "balancing";
        for entry in section.entries.iter().filter(alone) {
            let other = match entry.spec.kind {
                SettingKind::Bool(default) => (!default).to_string(),
                SettingKind::Integer(_, default) if entry.rule == Rule::PowerOfTwo => {
                    (default * 2).to_string()
                }
                SettingKind::Integer(_, default) => (default + 1).to_string(),
                SettingKind::Float((_, max), default) if default + 0.25 > max => {
                    (default - 0.25).to_string()
                }
                SettingKind::Float(_, default) => (default + 0.25).to_string(),
                SettingKind::Choice(of, default) => {
                    format!("{:?}", of.iter().find(|word| **word != default).unwrap())
                }
                SettingKind::Text(_) if entry.rule == Rule::PolicyName => "'none'".to_owned(),
                SettingKind::Text(_) => "'/elsewhere'".to_owned(),
            };
            let text = format!("[{}]\n{} = {other}\n", section.name, entry.spec.name);
            let config = read(&[&text]).unwrap_or_else(|error| panic!("{text}: {error}"));
            let same = config.daemon == defaults.daemon
                && config.engine == defaults.engine
                && config.evidence == defaults.evidence
                && config.access == defaults.access
                && config.limits == defaults.limits
                && config.overhead == defaults.overhead
                && config.external == defaults.external
                && config.sampling == defaults.sampling;
            // `auto` is what the source `faults` resolves to as well, but it is another choice.
            assert!(!same, "{text}: the typed settings do not change");
            let differences = Config::differences(&defaults, &config);
            assert_eq!(differences.len(), 1);
            assert_eq!(differences[0].effect, entry.effect);
        }
    }
}

#[test]
fn later_files_win_setting_by_setting() {
    let config = read(&[
        "[engine]\nhold_ms = 1\nbind = 'core'\n[policy.deloc]\nstrict = true",
        "engine.hold_ms = 7\n[access]\nusers='none'\nadmin_group=''",
    ])
    .unwrap();
    assert_eq!(config.engine.hold, Duration::from_millis(7));
    assert!(
        config.engine.bind == numad_core::Bind::Core
            && config.policy("deloc").unwrap().bool("strict")
    );
    assert_eq!(
        (config.access.users, config.access.admin_group),
        (Users::None, None)
    );
}

#[test]
fn lapt_starts_within_its_bounds() {
    let law = |text| match read(&[text]).unwrap().attach_options().interval {
        IntervalLaw::Lapt { start, .. } => start.as_millis(),
        other => panic!("{other:?}"),
    };
    assert_eq!(law("[engine]\ninterval='lapt'"), 300);
    assert_eq!(law("[engine]\ninterval='lapt'\ninterval_min_ms=500"), 500);
    assert_eq!(
        law("[engine]\ninterval='lapt'\ninterval_min_ms=50\ninterval_max_ms=500"),
        300
    );
    assert_eq!(
        law("[engine]\ninterval='lapt'\ninterval_min_ms=50\ninterval_max_ms=200"),
        200
    );
    assert_eq!(
        read(&["[engine]\ninterval='lapt'"])
            .unwrap()
            .engine
            .interval,
        IntervalKind::Lapt
    );
}

#[test]
fn unknown_names_get_the_nearest_known_one() {
    refused(
        "[engine]\nhold_ns = 1\n",
        "f0:2: setting `hold_ns` is not known in `[engine]`; did you mean `hold_ms`?",
    );
    refused(
        "[daemon]\n\nhold_ms = 1\n",
        "f0:3: setting `hold_ms` is not known in `[daemon]`; it belongs into `[engine]`",
    );
    refused(
        "[access]\ncolour = 1\n",
        "f0:2: setting `colour` is not known in `[access]`; there are users, admin_group",
    );
    refused(
        "socket = '/s'\n",
        "f0:1: setting `socket` stands outside of any section; it belongs into `[daemon]`",
    );
    refused(
        "zzz = 1\n",
        "f0:1: setting `zzz` stands outside of any section",
    );
    refused(
        "# x\n[engin]\n",
        "f0:2: section `[engin]` is not known; did you mean `[engine]`?",
    );
    refused(
        "[deloc]\n",
        "f0:1: section `[deloc]` is not known; did you mean `[policy.deloc]`?",
    );
    refused(
        "[x.y]\n",
        "f0:1: section `[x]` is not known; there are daemon, overhead, sampling, engine, evidence, access, limits, external, policy",
    );
    refused(
        "[policy.delok]\n",
        "f0:1: policy `delok` is not known; did you mean `deloc`?",
    );
    refused(
        "[policy.wonder]\n",
        "f0:1: policy `wonder` is not known; there are deloc, none",
    );
    refused(
        "[policy.deloc]\nstrickt = true\n",
        "f0:2: setting `strickt` is not known in `[policy.deloc]`; did you mean `strict`?",
    );
    refused(
        "[policy.none]\nx = 1\n",
        "f0:2: setting `x` is not known in `[policy.none]`; it has no settings",
    );
    refused(
        "[engine]\npatience = 1\n",
        "f0:2: setting `patience` is not known in `[engine]`; it belongs into `[policy.deloc]`",
    );
}

#[test]
fn wrong_values_are_refused_with_what_would_be_right() {
    refused(
        "[engine]\nhold_ms = 'long'\n",
        "f0:2: setting `engine.hold_ms` is `long`, must be a whole number from 0 to 3600000",
    );
    refused(
        "[engine]\nbind = []\n",
        "f0:2: setting `engine.bind` is a list, must be one of node, cache, core",
    );
    refused(
        "[engine]\ninterval_factor = nan\n",
        "f0:2: setting `engine.interval_factor` is `nan`, must be a number from 1.05 to 16",
    );
    refused(
        "[engine]\nhold_ms = 99999999999999999999\n",
        "f0:2: setting `engine.hold_ms` is `99999999999999999999`, must be a whole number from 0 to 3600000",
    );
    refused(
        "[sampling]\nring_pages = 0x30\n",
        "f0:2: setting `sampling.ring_pages` is `48`, must be a whole number from 1 to 4096, a power of two",
    );
    refused(
        "[daemon]\nsocket = 'here'\n",
        "f0:2: setting `daemon.socket` is `here`, must be a text, an absolute path of at most 107 bytes",
    );
    refused(
        "[daemon]\ndefault_policy = 'deloq'\n",
        "f0:2: setting `daemon.default_policy`: policy `deloq` is not known; did you mean `deloc`?",
    );
    refused(
        "engine = 3\n",
        "f0:1: `engine` must be a section: `[engine]`",
    );
    refused(
        "policy.deloc = 3\n",
        "f0:1: `policy.deloc` must be a section: `[policy.deloc]`",
    );
    refused(
        "[daemon]\nlog_level = \"a\\nb\"\n",
        "f0:2: setting `daemon.log_level` is `a?b`, must be one of error, warn, info, debug",
    );
}

#[test]
fn a_text_where_a_number_belongs_is_told_of_its_quotation_marks() {
    refused(
        "[engine]\nhold_ms = '5'\n",
        "f0:2: setting `engine.hold_ms` is the text `\"5\"`, must be a whole number from 0 to 3600000; \
         leave the quotation marks out",
    );
    refused(
        "[engine]\nmove_pages = 'true'\n",
        "f0:2: setting `engine.move_pages` is the text `\"true\"`, must be true or false; \
         leave the quotation marks out",
    );
    refused(
        "[daemon]\nlog_level = true\n",
        "f0:2: setting `daemon.log_level` is `true`, must be one of error, warn, info, debug",
    );
}

#[test]
fn a_number_is_shown_as_it_is_written() {
    refused(
        "[engine]\nhold_ms = 5.0\n[limits]\nuser_connections_max = 1e3\n",
        "f0:2: setting `engine.hold_ms` is `5.0`, must be a whole number from 0 to 3600000\n\
         f0:4: setting `limits.user_connections_max` is `1e3`, must be a whole number from 1 to 1024",
    );
    refused(
        "policy = 5\n",
        "f0:1: `policy` must be sections: `[policy.NAME]`",
    );
}

#[test]
fn what_cannot_be_set_for_one_program_is_told_with_what_to_write() {
    let told = |name: &str| {
        let given = [(name, "1")];
        let error = Config::default().attach_options_with(given).unwrap_err();
        error.to_string()
    };
    for name in ["policy.deloc.refine", "deloc.refine"] {
        let expected = format!("setting `{name}` is one of policy `deloc`; write `refine`");
        assert_eq!(told(name), expected);
    }
    let others = "cannot be set for one program; most of `engine.` and `evidence.` can, and settings of its policy \
                  by their short names";
    for name in [
        "external.answer_ms",
        "daemon.socket",
        "policy.wonder.x",
        "engine.tasks_max",
    ] {
        assert_eq!(told(name), format!("setting `{name}` {others}"));
    }
}

#[test]
fn what_must_fit_together_is_blamed_on_a_line() {
    refused(
        "[engine]\ninterval_min_ms = 9000\n",
        "f0:2: setting `engine.interval_max_ms` is `8000`, must not be below `engine.interval_min_ms`, which is `9000`",
    );
    refused(
        "[engine]\nbalancing = 'cooperate'\n",
        "f0:2: setting `engine.balancing` is `cooperate`, which changes a switch of the whole machine; allow it \
         with `daemon.allow_global = true`",
    );
    let allowed = "[daemon]\nallow_global = true\n[engine]\nbalancing = 'cooperate'\n";
    assert!(read(&[allowed]).unwrap().engine.cooperate);
    let error = read(&[
        "[policy.deloc]\nstrict = true\n",
        "\n[policy.deloc]\npatience = 6\n",
    ])
    .unwrap_err();
    assert_eq!(
        error.to_string(),
        "f1:3: setting `policy.deloc.patience` must not exceed 5 with `strict`"
    );
}

#[test]
fn several_problems_come_together_by_line() {
    refused(
        "[engine]\nhold_ns = 1\n[access]\nusers = 'some'\n",
        "f0:2: setting `hold_ns` is not known in `[engine]`; did you mean `hold_ms`?\n\
         f0:4: setting `access.users` is `some`, must be one of own, none",
    );
    let many: String = (0..50).map(|n| format!("key{n} = 1\n")).collect();
    let error = read(&[&many]).unwrap_err();
    assert_eq!((error.problems.len(), error.more), (20, 30));
    assert!(error.to_string().ends_with("\nand 30 more"));
}

#[test]
fn broken_toml_names_the_line() {
    for (text, line) in [
        ("[engine]\nhold_ms = \n", 2),
        ("[engine\n", 1),
        ("[engine]\nhold_ms = 1\nhold_ms = 2\n", 3),
        ("a = \"open\n", 1),
    ] {
        let error = read(&[text]).unwrap_err();
        assert_eq!(error.problems[0].line, Some(line), "{text:?}: {error}");
        assert!(
            error.problems[0].text.starts_with("is no valid TOML: "),
            "{error}"
        );
    }
}

#[test]
fn what_was_named_and_is_not_there_is_absent() {
    let base = std::env::temp_dir().join(format!("numad-config-absent-{}", std::process::id()));
    let drop_ins = base.join("numad.toml.d");
    fs::create_dir_all(&drop_ins).unwrap();
    assert!(Paths::named(&base.join("absent.toml")).are_absent());
    assert!(Paths::named(&base).are_absent(), "no file and no drop-in");
    // As at a reload, when it was there before.
    load(&Paths::named(&base)).unwrap_err();
    fs::write(drop_ins.join("1.toml"), "").unwrap();
    assert!(!Paths::named(&base).are_absent(), "a drop-in is enough");
    fs::remove_dir_all(base).unwrap();
}

#[test]
fn files_are_found_and_named() {
    let base = std::env::temp_dir().join(format!("numad-config-test-{}", std::process::id()));
    let dir = base.join("numad.toml.d");
    fs::create_dir_all(&dir).unwrap();
    fs::write(base.join("numad.toml"), "[engine]\nhold_ms = 1\n").unwrap();
    fs::write(dir.join("20-b.toml"), "[engine]\nhold_ms = 20\n").unwrap();
    fs::write(
        dir.join("10-a.toml"),
        "[engine]\nhold_ms = 10\nheadroom_percent = 7\n",
    )
    .unwrap();
    fs::write(dir.join(".hidden.toml"), "nonsense").unwrap();
    fs::write(dir.join("30-c.toml.bak"), "nonsense").unwrap();
    for named in [base.clone(), base.join("numad.toml")] {
        let loaded = load(&Paths::named(&named)).unwrap();
        assert_eq!(loaded.config.engine.hold, Duration::from_millis(20));
        assert!((loaded.config.engine.headroom - 0.07).abs() < 1e-12);
        let names: Vec<_> = loaded
            .files
            .iter()
            .map(|file| file.file_name().unwrap())
            .collect();
        assert_eq!(names, ["numad.toml", "10-a.toml", "20-b.toml"]);
    }
    fs::write(dir.join("15-bad.toml"), [b'\n', 0xff]).unwrap();
    fs::create_dir(dir.join("16-folder.toml")).unwrap();
    // Nobody ever writes into this one; opened, it would be waited for without end.
    let pipe = std::process::Command::new("mkfifo")
        .arg(dir.join("18-pipe.toml"))
        .status();
    assert!(pipe.unwrap().success());
    fs::write(dir.join("17-wrong.toml"), "[engine]\nx = 1\n").unwrap();
    let error = load(&Paths::named(&base)).unwrap_err();
    let lines: Vec<String> = error
        .problems
        .iter()
        .map(|problem| {
            format!(
                "{} {:?} {}",
                problem.file.file_name().unwrap().display(),
                problem.line,
                problem.text
            )
        })
        .collect();
    assert_eq!(
        lines[0],
        "15-bad.toml None cannot be read: is no UTF-8 text (line 2)"
    );
    assert_eq!(
        lines[1],
        "16-folder.toml None cannot be read: is no regular file"
    );
    let pipe = "18-pipe.toml None cannot be read: is no regular file";
    assert!(lines.iter().any(|line| line == pipe), "{lines:?}");
    let wrong = "17-wrong.toml Some(2) setting `x` is not known";
    assert!(
        lines.iter().any(|line| line.starts_with(wrong)),
        "{lines:?}"
    );
    let error = load(&Paths::named(&base.join("absent.toml"))).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("absent.toml: cannot be read: No such file"),
        "{error}"
    );
    fs::remove_dir_all(&base).unwrap();
}

#[test]
fn a_file_that_is_far_too_large_is_refused() {
    let error = check_bytes(&vec![b'#'; (1 << 20) + 1]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "settings: cannot be read: is larger than 1024 KiB, which no settings file is"
    );
}

#[test]
fn the_default_file_is_the_defaults_dead_and_alive() {
    let text = render_default();
    assert_eq!(check_bytes(text.as_bytes()).unwrap(), Config::default());
    let alive: String = text
        .lines()
        .map(|line| match line.strip_prefix('#') {
            Some(rest) if !rest.starts_with(' ') => format!("{rest}\n"),
            _ => format!("{line}\n"),
        })
        .collect();
    assert!(alive.contains("\nhold_ms = 125\n"), "{alive}");
    assert_eq!(check_bytes(alive.as_bytes()).unwrap(), Config::default());
    assert!(text.lines().all(|line| line.len() <= 120), "{text}");
}

#[test]
fn settings_in_force_read_back_the_same() {
    let given = "[engine]\ninterval_factor = 3\nbind='core'\n[access]\nadmin_group='a\"b\\'\n";
    let config = check_bytes(given.as_bytes()).unwrap();
    let text = render_effective(&config);
    assert!(text.contains("interval_factor = 3.0\n"), "{text}");
    assert_eq!(check_bytes(text.as_bytes()).unwrap(), config);
}

#[test]
fn the_page_of_settings_holds_each_of_them() {
    let page = render_markdown();
    for section in documented() {
        assert!(page.contains(&format!("\n## `[{}]`\n", section.name)));
        for setting in section.settings {
            assert!(
                page.contains(&format!("| `{}` |", setting.name)),
                "{}",
                setting.name
            );
            assert!(
                setting.help.ends_with('.') && !setting.help.contains('\n'),
                "{}",
                setting.help
            );
        }
    }
}

#[test]
fn differences_tell_when_they_take_effect() {
    let old = read(&[]).unwrap();
    let new =
        read(&["[daemon]\nsocket='/s'\nlog_level='debug'\n[policy.deloc]\nstrict=true"]).unwrap();
    let shown: Vec<(String, Effect)> = Config::differences(&old, &new)
        .iter()
        .map(|difference| (difference.to_string(), difference.effect))
        .collect();
    assert_eq!(
        shown,
        [
            ("daemon.log_level: info -> debug".to_owned(), Effect::AtOnce),
            (
                "daemon.socket: /run/numad/numad.sock -> /s".to_owned(),
                Effect::Restart
            ),
            (
                "policy.deloc.strict: false -> true".to_owned(),
                Effect::NextAttach
            ),
        ]
    );
    assert_eq!(Config::differences(&old, &old), []);
}

#[test]
fn defaults_obey_their_own_rules() {
    for (name, value) in &Values::defaults(schema::policies()).0 {
        let text = match value {
            SettingValue::Text(text) => format!("{name} = {text:?}"),
            // TOML wants a point in what is no whole number, and takes one in what is.
            other => format!("{name} = {other}"),
        };
        check_bytes(text.as_bytes()).unwrap_or_else(|error| panic!("{text}: {error}"));
    }
}

#[test]
fn the_corpus_gives_settings_or_problems() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/config_file");
    let mut files = 0;
    for entry in fs::read_dir(corpus).unwrap() {
        let bytes = fs::read(entry.unwrap().path()).unwrap();
        hostile(&bytes);
        for cut in (0..bytes.len()).step_by(7) {
            hostile(&bytes[..cut]);
        }
        for at in (0..bytes.len()).step_by(11) {
            let mut flipped = bytes.clone();
            flipped[at] ^= 1 << (at % 8);
            hostile(&flipped);
        }
        files += 1;
    }
    assert!(files >= 4, "the corpus has {files} files");
}

/// Whatever is read: no panic, and problems of one line each, or settings that read back the same.
fn hostile(bytes: &[u8]) {
    match check_bytes(bytes) {
        Ok(config) => assert_eq!(
            check_bytes(render_effective(&config).as_bytes()),
            Ok(config)
        ),
        Err(error) => {
            assert!((1..=20).contains(&error.problems.len()));
            assert!(
                error
                    .problems
                    .iter()
                    .all(|problem| !problem.to_string().contains('\n'))
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn any_text_gives_settings_or_problems(text in "(\\[|\\]|=|\"|'|\\.|,|#|\n|engine|policy|deloc|hold_ms|bind|[0-9]{1,3}|\\PC){0,40}") {
        hostile(text.as_bytes());
    }

    #[test]
    fn any_bytes_give_settings_or_problems(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        hostile(&bytes);
    }
}
