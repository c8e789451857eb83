use proptest::prelude::*;

use super::*;
use crate::pmu::Alias;

/// The core of a Skylake, as far as it matters here.
fn cpu() -> Pmu {
    let formats = [
        ("cmask", "config:24-31"),
        ("edge", "config:18"),
        ("event", "config:0-7"),
        ("event_ext", "config:0-7,21"),
        ("far", "config:0-7,32-35"),
        ("ldlat", "config1:0-15"),
        ("offcore_rsp", "config1:0-63"),
        ("umask", "config:8-15"),
        ("wide", "config3:0-63"),
    ];
    let aliases = [
        ("mem-loads", "event=0xcd,umask=0x1,ldlat=3"),
        ("mem-stores", "event=0xd0,umask=0x82"),
        ("parametric", "event=0x1,umask=?"),
        ("sampled", "event=0x1,period=1000"),
        ("chained", "mem-loads"),
    ];
    Pmu {
        name: "cpu".to_owned(),
        kind: 4,
        formats: formats
            .into_iter()
            .map(|(name, text)| (name.to_owned(), Format::parse(text).unwrap()))
            .collect(),
        aliases: aliases
            .into_iter()
            .map(|(name, terms)| {
                let terms = terms.to_owned();
                (
                    name.to_owned(),
                    Alias {
                        terms,
                        ..Alias::default()
                    },
                )
            })
            .collect(),
        ..Pmu::default()
    }
}

#[track_caller]
fn check(description: &str, config: [u64; WORDS]) {
    assert_eq!(cpu().encode(description), Ok(EventConfig { config }));
}

#[track_caller]
fn refused(description: &str, wanted: &str) {
    let error = cpu().encode(description).unwrap_err().to_string();
    assert_eq!(error, wanted);
    assert!(!error.contains('\n') && !error.ends_with('.'));
}

#[test]
fn descriptions_become_words() {
    check("", [0; 4]);
    check(" event=0xcd , umask=0x1,ldlat=30 ", [0x1cd, 30, 0, 0]);
    check("event=205,umask=1", [0x1cd, 0, 0, 0]);
    check("mem-loads", [0x1cd, 3, 0, 0]);
    check("mem-stores", [0x82d0, 0, 0, 0]);
    check("far=0x5cd", [0x5_0000_00cd, 0, 0, 0]);
    check("event=0x3c,cmask=1,edge", [0x104_003c, 0, 0, 0]);
    check("edge=0", [0; 4]);
    check("wide=0xffffffffffffffff", [0, 0, 0, u64::MAX]);
}

#[test]
fn the_users_terms_take_the_place_of_the_aliases() {
    check("mem-loads,ldlat=50", [0x1cd, 50, 0, 0]);
    check("ldlat=50,mem-loads", [0x1cd, 50, 0, 0]);
    check("mem-loads,umask=0", [0xcd, 3, 0, 0]);
    check("mem-loads,edge", [0x4_01cd, 3, 0, 0]);
    check("parametric,umask=7", [0x701, 0, 0, 0]);
    check("ldlat=1,ldlat=2", [0, 2, 0, 0]);
}

#[test]
fn terms_may_share_bits() {
    check("event=0x01,event_ext=0x102", [0x20_0003, 0, 0, 0]);
    check("ldlat=1,offcore_rsp=0x10", [0, 0x11, 0, 0]);
    check(
        "config=0x1cd,config1=0x1f,config2=2,config3=3",
        [0x1cd, 0x1f, 2, 3],
    );
}

#[test]
fn wrong_descriptions_say_what_is_wrong() {
    refused(
        "event=0x100",
        "`event=0x100` is too large for `cpu`: the largest is 0xff",
    );
    refused(
        "edge=2",
        "`edge=0x2` is too large for `cpu`: the largest is 0x1",
    );
    refused(
        "mem-lods",
        "`cpu` has neither a term nor an event `mem-lods`; did you mean `mem-loads`",
    );
    refused(
        "umsk=1",
        "`cpu` has neither a term nor an event `umsk`; did you mean `umask`",
    );
    refused("zzzzzz=1", "`cpu` has neither a term nor an event `zzzzzz`");
    refused(
        "event=1,period=1000",
        "`period` is not part of an event of `cpu`: the source of samples decides it",
    );
    refused(
        "mem-loads,freq=100",
        "`freq` is not part of an event of `cpu`: the source of samples decides it",
    );
    refused(
        "sampled",
        "`period` is not part of an event of `cpu`: the source of samples decides it",
    );
    refused(
        "mem-loads,mem-stores",
        "`mem-stores` is a second event of `cpu`; give one",
    );
    refused(
        "parametric",
        "`umask` of `cpu` wants a value: `umask=NUMBER`",
    );
    refused(
        "chained",
        "`mem-loads` is an event of `cpu`, and stands where a term should",
    );
    refused(
        "mem-loads=1",
        "`mem-loads` is an event of `cpu`, and stands where a term should",
    );
    refused(
        "event=1,,umask=2",
        "an event of `cpu` has an empty term after `event`",
    );
    refused(
        "event=1,",
        "an event of `cpu` has an empty term after `event`",
    );
    refused("=1", "an event of `cpu` has an empty term after ``");
}

#[test]
fn values_are_numbers() {
    for value in [
        "",
        "x",
        "0x",
        "+1",
        "-1",
        "1e3",
        "0x1g",
        "0x10000000000000000",
        "1\n2",
    ] {
        let error = cpu().encode(&format!("event={value}")).unwrap_err();
        assert!(
            matches!(error.problem, Problem::NotANumber { .. }),
            "{error}"
        );
        assert!(!error.to_string().contains('\n'));
    }
}

#[test]
fn descriptions_are_bounded() {
    let long = "edge,".repeat(1000);
    let error = cpu().encode(&long).unwrap_err();
    assert_eq!(error.problem, Problem::TooLong);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn any_text_is_answered(text in ".{0,200}") {
        drop(cpu().encode(&text));
        drop(encode_text(&text));
    }

    #[test]
    fn values_come_back(event: u8, umask: u8, ldlat: u16, cmask: u8, edge: bool) {
        let edge = u64::from(edge);
        let text = format!("event={event:#x},umask={umask},ldlat={ldlat},cmask={cmask},edge={edge}");
        let config = cpu().encode(&text).unwrap().config;
        let of = |name: &str| {
            let format = cpu().formats[name];
            format.take(config[format.word])
        };
        prop_assert_eq!(of("event"), u64::from(event));
        prop_assert_eq!(of("umask"), u64::from(umask));
        prop_assert_eq!(of("ldlat"), u64::from(ldlat));
        prop_assert_eq!(of("cmask"), u64::from(cmask));
        prop_assert_eq!(of("edge"), edge);
    }
}
