use super::fake::FakeEvents;
use super::*;
use crate::faults::fault_attr;

fn wanted(attr: EventAttr) -> Wanted {
    Wanted {
        attr,
        leader: None,
        cpus: None,
        kind: AccessKind::Unknown,
        times: 1,
        low_bit: 0,
    }
}

fn full() -> EventAttr {
    EventAttr {
        precise: 3,
        read_format: attr::READ_ID | attr::READ_LOST,
        ..EventAttr::default()
    }
    .with(Field::Identifier, true)
    .with(Field::WeightStruct, true)
    .with(Field::PhysAddr, true)
}

fn plan(events: &[EventAttr]) -> Plan {
    let wanted = events.iter().copied().map(wanted).collect();
    Plan::new("things", wanted, 4, KernelSettings::default())
}

/// What a kernel that refuses so is asked for in the end.
#[track_caller]
fn check(refuses: fake::Refuses, expected: Result<EventAttr, Refused>) {
    let mut kernel = FakeEvents::new(refuses);
    let mut plan = plan(&[full()]);
    let opened = plan.open(&mut kernel, CpuId(2), 4).map(|events| {
        assert_eq!(events.unwrap().cpu, CpuId(2));
        kernel.state().opened.last().unwrap().0
    });
    assert_eq!(opened.map_err(|error| error.refused), expected);
}

#[test]
fn what_an_older_kernel_does_not_know_is_left_out() {
    check(|_, _| None, Ok(full()));
    let without_lost = EventAttr {
        read_format: attr::READ_ID,
        ..full()
    };
    check(
        |attr, _| (attr.read_format & attr::READ_LOST != 0).then_some(libc::EINVAL),
        Ok(without_lost),
    );
    let old = without_lost
        .with(Field::WeightStruct, false)
        .with(Field::Weight, true);
    check(
        |attr, _| attr.carries(Field::WeightStruct).then_some(libc::EINVAL),
        Ok(old),
    );
    check(
        |attr, _| attr.carries(Field::PhysAddr).then_some(libc::EACCES),
        Ok(full().with(Field::PhysAddr, false)),
    );
    check(
        |attr, _| (attr.precise > 1).then_some(libc::EOPNOTSUPP),
        Ok(EventAttr {
            precise: 1,
            ..full()
        }),
    );
    check(|_, _| Some(libc::EOPNOTSUPP), Err(Refused::NoSuchEvent));
    check(|_, _| Some(libc::EINVAL), Err(Refused::NotUnderstood));
    check(|_, _| Some(libc::ENODATA), Err(Refused::NotUnderstood));
    check(
        |_, _| Some(libc::EACCES),
        Err(Refused::NotPermitted { paranoid: None }),
    );
    check(|_, _| Some(libc::EBUSY), Err(Refused::Exhausted));
    check(|_, _| Some(libc::ENOSPC), Err(Refused::Exhausted));
    check(|_, _| Some(libc::EMFILE), Err(Refused::TooManyFiles));
    check(|_, _| Some(libc::ENODEV), Err(Refused::CpuOffline));
}

/// Fields are the same for all events that are open: a later refusal does not change them.
#[test]
fn fields_stay_once_something_is_open() {
    let mut kernel = FakeEvents::new(|_, cpu| (cpu.0 == 1).then_some(libc::EINVAL));
    let mut plan = plan(&[full()]);
    plan.open(&mut kernel, CpuId(0), 4).unwrap();
    let refused = plan.open(&mut kernel, CpuId(1), 4).unwrap_err();
    assert_eq!(refused.refused, Refused::NotUnderstood);
    assert!(plan.carries(Field::WeightStruct));
}

#[test]
fn events_of_a_processor_share_the_ring_of_the_first() {
    let mut kernel = FakeEvents::new(|_, _| None);
    let mut plan = plan(&[full(), full(), full()]);
    plan.wanted[1].leader = Some(EventAttr::default());
    plan.wanted[2].cpus = Some([CpuId(7)].into_iter().collect());
    (plan.wanted[1].times, plan.wanted[1].low_bit) = (64, 1);
    plan.set_period(1_000);
    let events = plan.open(&mut kernel, CpuId(0), 4).unwrap().unwrap();
    // Opened: the first, the leader, the second. The third is for another processor.
    let joined: Vec<bool> = kernel
        .state()
        .opened
        .iter()
        .map(|opened| opened.2)
        .collect();
    assert_eq!(joined, [false, false, true]);
    assert_eq!(kernel.state().orders, [(2, "output to 0".to_owned())]);
    let ids: Vec<u64> = events.members.iter().map(|member| member.id).collect();
    assert_eq!(ids, [FakeEvents::id(0), FakeEvents::id(2)]);
    kernel.state().orders.clear();
    events.enable(&kernel).unwrap();
    events.follow(&kernel, &plan).unwrap();
    let said: Vec<String> = kernel
        .state()
        .orders
        .iter()
        .map(|(at, text)| format!("{at} {text}"))
        .collect();
    assert_eq!(
        said,
        [
            "1 enable",
            "0 enable",
            "2 enable",
            "0 period 1000",
            "2 period 64001"
        ]
    );
    plan.wanted
        .iter_mut()
        .for_each(|wanted| wanted.cpus = Some(CpuSet::new()));
    assert!(plan.open(&mut kernel, CpuId(0), 4).unwrap().is_none());
}

/// The crate asks the kernel for exactly what the attribute says; anything else is not for it.
#[test]
fn the_crate_is_used_for_what_it_can_express() {
    assert!(for_the_crate(&fault_attr()).is_some());
    assert!(
        for_the_crate(&EventAttr {
            period: 9,
            ..fault_attr()
        })
        .is_some()
    );
    assert!(for_the_crate(&fault_attr().with(Field::Identifier, true)).is_none());
    assert!(
        for_the_crate(&EventAttr {
            precise: 1,
            ..fault_attr()
        })
        .is_none()
    );
}
