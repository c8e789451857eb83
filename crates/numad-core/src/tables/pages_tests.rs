//! What the table of pages keeps and forgets.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

fn tag(page: u64) -> Tag {
    Tag::new(1, page).unwrap()
}

fn none() -> Bits {
    Bits::new(1)
}

#[test]
fn lapt_golden_case() {
    let others = |table: &mut PageTable, seat| {
        let sharers = table.touch(tag(9), seat, 5);
        let shared = sharers.amounts(5).filter(|&(_, amount)| amount == 5);
        shared.map(|(seat, _)| seat).collect::<Vec<_>>()
    };
    let mut table = PageTable::new(64);
    for seat in [4, 1, 2, 0] {
        table.touch(tag(9), seat, 1);
    }
    assert_eq!(table.entry(tag(9)).unwrap().1.seats, [0, 2, 1, 4]);
    assert_eq!(others(&mut table, 3), [0, 2, 1, 4]);
    assert_eq!(table.entry(tag(9)).unwrap().1.seats, [3, 0, 2, 1]);
    // One that is in the vector already moves to the front. Who used the page before it did
    // does not count again.
    assert_eq!(others(&mut table, 2), [3, 0]);
    let entry = table.entry(tag(9)).unwrap().1;
    assert_eq!((entry.seats, entry.weights), ([2, 3, 0, 1], [6, 5, 1, 1]));
    assert_eq!(others(&mut table, 2), []);
}

#[track_caller]
fn vector(accesses: &[Seat], expected: &[Seat]) {
    let mut table = PageTable::new(8);
    for &seat in accesses {
        table.touch(tag(1), seat, 1);
    }
    let entry = table.entry(tag(1)).unwrap().1;
    assert_eq!(&entry.seats[..entry.count()], expected);
}

#[test]
fn those_without_a_home_are_looked_up_beside_the_hottest() {
    let mut table = PageTable::new(64);
    for page in 1..=10 {
        for _ in 0..page {
            table.touch(tag(page), 1, 1);
        }
    }
    let asked = |table: &PageTable, max| -> Vec<u64> {
        let wanted = table.to_look_up(max).into_iter();
        let mut pages: Vec<u64> = wanted.map(Tag::page).collect();
        pages.sort_unstable_by(|one, other| other.cmp(one));
        pages
    };
    assert_eq!(asked(&table, 4), [10, 9, 8, 7]);
    (7..=10).for_each(|page| table.set_home(tag(page), Some(0)));
    assert_eq!(asked(&table, 4), [10, 9, 6, 5]);
    assert_eq!(asked(&table, 1), [6]);
    // One that was looked up and has none is asked for as long as it is used.
    table.set_home(tag(6), None);
    assert_eq!(asked(&table, 4), [10, 9, 6, 5]);
    (1..=6).for_each(|page| table.set_home(tag(page), Some(1)));
    assert_eq!(asked(&table, 4), [10, 9, 8, 7]);
    assert_eq!(asked(&table, 10).len(), 10);
    assert_eq!(asked(&table, 0), [0; 0]);
    // Of the next window nothing is seen but what one page is used for; another has no home.
    let nobody = Bits::new(1);
    table.sweep(&nobody, &nobody, Some(64));
    table.touch(tag(3), 1, 1);
    table.set_home(tag(4), None);
    assert_eq!(asked(&table, 10), [10, 9, 8, 7, 6, 5, 4, 3, 2]);
    table.sweep(&nobody, &nobody, Some(64));
    assert_eq!(asked(&table, 10), [10, 9, 8, 7, 6, 5, 4, 3]);
}

#[test]
fn the_vector_holds_the_last_four() {
    vector(&[1, 1, 1], &[1]);
    vector(&[5, 6, 7, 6], &[6, 7, 5]);
    vector(&[1, 2, 3, 1, 4], &[4, 1, 3, 2]);
    vector(&[1, 2, 3, 4, 5, 3], &[3, 5, 4, 2]);
}

#[test]
fn the_least_touched_page_of_a_full_set_is_dropped_and_counted() {
    let mut table = PageTable::new(8);
    for page in 0..8 {
        for _ in 0..=page {
            table.touch(tag(page), 1, 1);
        }
    }
    table.touch(tag(99), 1, 1);
    assert_eq!((table.used(), table.dropped), (8, 1));
    assert!(table.entry(tag(0)).is_none() && table.entry(tag(99)).is_some());
    assert_eq!(
        table
            .hottest(3)
            .iter()
            .map(|page| page.1.page())
            .collect::<Vec<_>>(),
        [7, 6, 5]
    );
}

#[test]
fn what_fades_away_is_not_tracked_any_more() {
    let mut table = PageTable::new(8);
    table.touch(tag(1), 1, 64);
    table.set_home(tag(1), Some(0));
    table.set_home(tag(2), Some(0));
    for round in 0..5 {
        let entry = table.entry(tag(1)).unwrap().1;
        assert_eq!((entry.samples(), entry.home()), (1, Some(0)));
        assert_eq!(entry.weights[0], 64 >> round);
        table.sweep(&none(), &none(), Some(64));
    }
    assert_eq!(
        (table.used(), table.entry(tag(1)), table.hottest(9).len()),
        (0, None, 0)
    );
}

#[test]
fn what_has_fewest_samples_makes_room() {
    let mut table = PageTable::new(4096);
    for page in 0..1000 {
        for _ in 0..if page < 100 { 3 } else { 1 } {
            table.touch(tag(page), 1, 1);
        }
    }
    table.sweep(&none(), &none(), Some(1000));
    assert_eq!(table.used(), 1000);
    table.sweep(&none(), &none(), Some(500));
    assert!((400..600).contains(&table.used()), "{}", table.used());
    assert!((0..100).all(|page| table.entry(tag(page)).is_some()));
    table.sweep(&none(), &none(), Some(100));
    assert_eq!(table.used(), 100);
}

#[test]
fn void_seats_and_spaces_leave_no_trace() {
    let mut table = PageTable::new(64);
    let other = Tag::new(2, 7).unwrap();
    for seat in [1, 2, 3] {
        table.touch(tag(7), seat, 1);
        table.touch(other, seat, 1);
    }
    let (mut seats, mut spaces) = (Bits::new(8), Bits::new(8));
    seats.insert(2);
    spaces.insert(2);
    table.sweep(&seats, &spaces, None);
    let entry = table.entry(tag(7)).unwrap().1;
    assert_eq!(
        (&entry.seats[..entry.count()], entry.samples()),
        (&[3, 1][..], 3)
    );
    assert_eq!((table.entry(other), table.used()), (None, 1));
}

#[test]
fn entries_survive_packing() {
    let entry = Entry {
        weights: [u32::MAX, 0, 7, 1 << 31],
        seats: [u16::MAX, 1, 0, 0x8000],
        sixteenths: u32::MAX - 1,
        home_plus_one: 65,
        count: 4,
    };
    let mut words = [0; ENTRY_WORDS];
    entry.write(&mut words);
    assert_eq!(Entry::read(&words), entry);
    assert_eq!(Tag::new(0, 1), None);
    assert_eq!(Tag::new(1, 1 << PAGE_BITS), None);
    let tag = Tag::new(4095, (1 << PAGE_BITS) - 1).unwrap();
    assert_eq!((tag.space(), tag.page()), (4095, (1 << PAGE_BITS) - 1));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    // As long as nothing is dropped, the table is a map from pages to plain LAPT vectors.
    #[test]
    fn agrees_with_a_plain_model(accesses in prop::collection::vec((0u64..40, 0u16..6), 0..400)) {
        let mut table = PageTable::new(1024);
        let mut model: BTreeMap<u64, Vec<Seat>> = BTreeMap::new();
        for (page, seat) in accesses {
            let vector = model.entry(page).or_default();
            let since = vector.iter().take_while(|&&held| held != seat);
            let since: Vec<(Seat, u32)> = since.map(|&held| (held, 1)).collect();
            let mut sharers: Vec<(Seat, u32)> = table.touch(tag(page), seat, 1).amounts(1).collect();
            sharers.retain(|&(_, amount)| amount > 0);
            prop_assert_eq!(&sharers, &since);
            let mut others = vector.clone();
            others.retain(|&held| held != seat);
            others.insert(0, seat);
            others.truncate(4);
            *vector = others;
        }
        prop_assert_eq!(table.dropped, 0);
        prop_assert_eq!(table.used(), model.len());
        for (page, vector) in model {
            let entry = table.entry(tag(page)).unwrap().1;
            prop_assert_eq!(&entry.seats[..entry.count()], &vector[..]);
        }
    }
}
