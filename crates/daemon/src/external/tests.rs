//! Programs that behave and programs that do not, as shell scripts. A script in place of the daemon starts them: the
//! binary of these tests is none.

use std::time::Instant;

use numad_core::cost::{MachineModel, Prices};

use super::*;
use crate::scratch::Scratch;

/// One question is put and answered, or not.
struct Stage {
    _scratch: Scratch,
    questions: SyncSender<Asked>,
    answers: Receiver<Option<Wanted>>,
    tally: Tally,
}

fn script(scratch: &Scratch, name: &str, text: &str) -> PathBuf {
    let path = scratch.path().join(name);
    fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

impl Stage {
    fn of(name: &str, text: &str, answer: Duration) -> Self {
        let scratch = Scratch::new(&format!("external-{name}"));
        let daemon = script(&scratch, "daemon", "exec \"$5\"");
        let launch = Launch {
            program: script(&scratch, "policy", text),
            uid: 1,
            gid: 1,
            memory_bytes: 0,
            answer,
        };
        let greeting = Greeting {
            schema: SCHEMA,
            numad: String::new(),
            seed: 1,
            answer_ms: 1,
            page_bytes: 4096,
            nodes: Vec::new(),
            distances: Vec::new(),
        };
        let tally = Tally::default();
        let (questions, asked) = sync_channel(1);
        let (answered, answers) = sync_channel(1);
        let positions = BTreeMap::from([(0, 0), (2, 1)]);
        let talk = Talk::new(launch, greeting, positions, tally.clone()).by(daemon);
        std::thread::spawn(move || talk.run(&asked, &answered));
        Self {
            _scratch: scratch,
            questions,
            answers,
            tally,
        }
    }

    fn ask(&self, window: u64) -> Option<Wanted> {
        let task = TaskKey {
            pid: topology::Pid(40),
            tid: topology::Tid(42),
            start: topology::StartTicks(1),
        };
        let page = PageKey {
            space: numad_core::SpaceId(1),
            page: 99,
        };
        let question = Question {
            window,
            length_ms: 100,
            samples: 5,
            room: Vec::new(),
            threads: Vec::new(),
            shares: Vec::new(),
            pages: Vec::new(),
            fates: BTreeMap::new(),
        };
        let asked = Asked {
            question,
            tasks: BTreeMap::from([(42, task)]),
            pages: BTreeMap::from([(7, page)]),
        };
        self.questions.send(asked).unwrap();
        self.answers.recv().unwrap()
    }
}

const GREET: &str = "read greeting; echo '{\"schema\":1,\"name\":\"test\"}'; read question;";
const PATIENT: Duration = Duration::from_secs(60);

#[test]
fn an_answer_becomes_proposals() {
    let says = "echo '{\"window\":1,\"threads\":[[42,2]],\"pages\":[[7,0]]}'; read more";
    let stage = Stage::of("well", &format!("{GREET} {says}"), PATIENT);
    let wanted = stage.ask(1).unwrap();
    assert_eq!(wanted.tasks.len(), 1);
    assert_eq!(wanted.tasks[0].1, 1, "node 2 is the second");
    assert_eq!(wanted.pages[0].0.page, 99);
    let row = stage.tally.row();
    assert_eq!(row.state, "at work as test");
    assert_eq!((row.asked, row.answered, row.starts), (1, 1, 1));
}

/// What a program that does this is counted as: crashes, garbage, silences; and what is told of it.
#[track_caller]
fn fails(name: &str, does: &str, answer: Duration, counts: [u64; 3], told: &str) {
    let stage = Stage::of(name, does, answer);
    assert!(stage.ask(1).is_none());
    let row = stage.tally.row();
    assert_eq!([row.crashes, row.garbage, row.silences], counts, "{row:?}");
    let fault = row.last_fault.unwrap();
    assert!(fault.contains(told), "{fault}");
    assert!(row.state.starts_with("failed, and is started again"));
    // It is out for a while: the next window is passed over at once.
    assert!(stage.ask(2).is_none());
    assert!(stage.tally.row().passed_over >= 1);
}

#[test]
fn whatever_is_no_answer_is_none_and_counted() {
    let after = |says: &str| format!("{GREET} {says}");
    fails("end", &after("exit 3"), PATIENT, [1, 0, 0], "exit code 3");
    fails("kill", &after("kill -9 $$"), PATIENT, [1, 0, 0], "SIGKILL");
    fails("start", "exit 121", PATIENT, [1, 0, 0], "rights");
    fails(
        "text",
        &after("echo hello; read x"),
        PATIENT,
        [0, 1, 0],
        "no answer",
    );
    let schema = "read greeting; echo '{\"schema\":2}'; read x";
    fails("schema", schema, PATIENT, [0, 1, 0], "schema 2");
    for (name, says, told) in [
        ("old", "{\"window\":9}", "window 9"),
        ("thread", "{\"window\":1,\"threads\":[[43,0]]}", "thread 43"),
        ("node", "{\"window\":1,\"threads\":[[42,1]]}", "node 1"),
        ("page", "{\"window\":1,\"pages\":[[8,0]]}", "page 8"),
    ] {
        fails(
            name,
            &after(&format!("echo '{says}'; read x")),
            PATIENT,
            [0, 1, 0],
            told,
        );
    }
    let long = after("head -c 300000 /dev/zero | tr '\\0' ' '; read x");
    fails("long", &long, PATIENT, [0, 1, 0], "longer");
    let short = Duration::from_millis(50);
    fails("silent", &after("read x"), short, [0, 0, 1], "within 50 ms");
    // Ends without a line, and leaves a child that holds its output.
    fails(
        "orphan",
        &after("sleep 60 & exit 0"),
        short,
        [0, 0, 1],
        "within 50 ms",
    );
}

#[test]
fn the_engine_never_waits() {
    let stage = Stage::of("slow", &format!("{GREET} read x"), PATIENT);
    let mut policy = External {
        questions: stage.questions,
        answers: stage.answers,
        waiting: false,
        window: 0,
        fates: BTreeMap::new(),
        tally: stage.tally.clone(),
    };
    let topology = topology::load("2x2").unwrap();
    let empty = numad_core::CommMatrix::new(0);
    let program = Program {
        topology: &topology,
        model: &MachineModel::new(&topology),
        tasks: &[],
        capacity: &[2, 2],
        free_bytes: &[0, 0],
        live: &empty,
        decayed: &empty,
        pages: &[],
        page_bytes: 4096,
        window: Duration::from_millis(100),
        samples: 0,
        prices: Prices::default(),
        handed: None,
        ipc: None,
        memory_per_weight: 1.0,
        era: 0,
        records: &[],
    };
    let began = Instant::now();
    let mut out = Vec::new();
    for _window in 0..5 {
        policy.propose(Time(0), &program, &mut out);
    }
    assert!(out.is_empty());
    // One question waits for its minute; the others found it waiting.
    assert!(began.elapsed() < PATIENT / 2);
    assert_eq!(stage.tally.row().passed_over, 4);
}

#[test]
fn no_user_takes_all_places() {
    let running = Running::default();
    let take = |payer, most: usize| {
        let taken: Vec<Place> = (0..10).map_while(|_| running.take(payer)).collect();
        assert_eq!(taken.len(), most, "{payer:?}");
        taken
    };
    let first = take(Some(7), USER_MAX);
    let _second = take(Some(8), USERS_MAX - USER_MAX);
    let _root = take(None, AT_ONCE_MAX - USERS_MAX);
    drop(first);
    drop(take(Some(9), USER_MAX));
    drop(take(None, USER_MAX));
}

#[test]
fn only_programs_of_the_directory_may_be_policies() {
    let scratch = Scratch::new("external-allowed");
    let programs = scratch.path().join("programs");
    fs::create_dir(&programs).unwrap();
    let policy = programs.join("policy");
    fs::write(&policy, "#!/bin/sh\n").unwrap();
    let refused = |path: &Path| allowed(path, &programs).unwrap_err().to_string();
    assert!(refused(&policy).contains("no program that can"));
    fs::set_permissions(&policy, fs::Permissions::from_mode(0o755)).unwrap();
    allowed(&policy, &programs).unwrap();
    fs::set_permissions(&policy, fs::Permissions::from_mode(0o757)).unwrap();
    assert!(refused(&policy).contains("everyone"));
    fs::set_permissions(&policy, fs::Permissions::from_mode(0o755)).unwrap();
    assert!(refused(Path::new("/bin/sh")).contains("is not in"));
    assert!(refused(&programs.join("../programs/policy")).contains("is not in"));
    assert!(refused(Path::new("policy")).contains("no absolute path"));
    assert!(refused(&programs.join("other")).contains("there is no program"));
    std::os::unix::fs::symlink("/bin/sh", programs.join("link")).unwrap();
    assert!(refused(&programs.join("link")).contains("is not in"));
    let off = Launch::find("exec:/bin/sh", &config::Config::default().external).unwrap_err();
    assert_eq!(off.kind, ErrorKind::Configuration);
}
