//! The rows of the reference's table, and what holds for any samples.

use proptest::prelude::*;

use super::*;
use crate::tables::spaces::LocalSpace;

/// A small generator of the tests' own (`SplitMix64`), so that they depend on no library's stream.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

/// Who uses which memory; nothing begins at a round address.
#[derive(Clone, Copy, Debug)]
enum Pattern {
    /// Each thread its own.
    Slices,
    /// Two threads each, by chance which.
    Pairs,
    /// Slices whose twentieth at each end the neighbour uses too.
    Stencil,
    /// Pieces of 16 pages, dealt out in turn.
    Strided,
}

/// A pattern with so many threads on so many nodes, each with so many pages.
struct Work {
    pattern: Pattern,
    threads: u64,
    nodes: u64,
    per: u64,
    /// Threads in the order of the memory that they use.
    order: Vec<u64>,
    place: Vec<u64>,
}

impl Work {
    fn new(pattern: Pattern, (threads, nodes): (u64, u64), per: u64, dice: &mut Dice) -> Self {
        let mut order: Vec<u64> = (0..threads).collect();
        for at in (1..order.len()).rev() {
            order.swap(at, dice.below(at as u64 + 1) as usize);
        }
        let mut place = vec![0; order.len()];
        (0..)
            .zip(&order)
            .for_each(|(at, &thread)| place[thread as usize] = at);
        Self {
            pattern,
            threads,
            nodes,
            per,
            order,
            place,
        }
    }

    const fn node(&self, thread: u64) -> usize {
        (thread * self.nodes / self.threads) as usize
    }

    /// A page and who uses it; one of ten is any page and any thread.
    fn draw(&self, dice: &mut Dice) -> (u64, u64) {
        let all = self.threads * self.per;
        let thread = dice.below(self.threads);
        if dice.below(10) == 0 {
            return (dice.below(all), thread);
        }
        let off = 12_345 % self.per;
        let page = match self.pattern {
            Pattern::Slices => thread * self.per + dice.below(self.per) + off,
            Pattern::Pairs => {
                self.place[thread as usize] / 2 * 2 * self.per + dice.below(2 * self.per) + off
            }
            Pattern::Stencil => {
                let halo = self.per / 20;
                let at = thread * self.per + dice.below(self.per + 2 * halo);
                at.saturating_sub(halo).min(all - 1)
            }
            Pattern::Strided => {
                (dice.below(self.per / 16) * self.threads + thread) * 16 + dice.below(16)
            }
        };
        (page, thread)
    }

    fn partner(&self, thread: u64) -> u64 {
        self.order[(self.place[thread as usize] ^ 1) as usize]
    }
}

fn tag(page: u64) -> Tag {
    Tag::new(1, page).unwrap()
}

/// What is found by so many samples: share of further accesses that are local if each page is where most of its block's
/// samples are from; share of threads whose strongest partner is theirs; number of blocks.
fn find(work: &Work, samples: usize, dice: &mut Dice) -> (f64, f64, usize) {
    let mut forest = Forest::default();
    for _ in 0..samples {
        let (page, thread) = work.draw(dice);
        forest.note(tag(page), thread as Seat);
    }
    let blocks = forest.blocks(work.threads as usize);
    let firsts: Vec<u64> = blocks
        .iter()
        .map(|block| match block.points.start.checked_sub(1) {
            None => 0,
            Some(before) => {
                let [low, high] =
                    [before, block.points.start].map(|at| forest.points[at].tag.page());
                border(low, high)
            }
        })
        .collect();
    let homes: Vec<usize> = blocks
        .iter()
        .map(|block| {
            let mut nodes = vec![0; work.nodes as usize];
            for user in block.users {
                nodes[work.node(u64::from(user.seat))] += user.all;
            }
            let most = nodes.iter().max().unwrap();
            nodes.iter().position(|count| count == most).unwrap()
        })
        .collect();
    let mut local = 0;
    for _ in 0..20_000 {
        let (page, thread) = work.draw(dice);
        let block = firsts
            .partition_point(|&first| first <= page)
            .saturating_sub(1);
        local += usize::from(homes[block] == work.node(thread));
    }
    let side = work.threads as usize;
    let mut talk = vec![0.0; side * side];
    for block in blocks.iter() {
        let all = block.samples() as f64;
        for one in block.users {
            for other in block.users.iter().filter(|other| other.seat != one.seat) {
                let amount = f64::from(one.all) * f64::from(other.all) / all;
                talk[usize::from(one.seat) * side + usize::from(other.seat)] += amount;
            }
        }
    }
    let right = (0..side).filter(|&thread| {
        let row = &talk[thread * side..][..side];
        let most = row.iter().copied().fold(0.0, f64::max);
        most > 0.0
            && row.iter().position(|&amount| amount >= most)
                == Some(work.partner(thread as u64) as usize)
    });
    (
        local as f64 / 20_000.0,
        right.count() as f64 / side as f64,
        blocks.len(),
    )
}

/// Rows of the reference's table: threads, nodes, pages of each thread, samples, local share and share of right
/// partners that it reached. Another generator draws other samples, so that a row may miss by what they differ by.
#[test]
fn the_rows_of_the_reference_are_reached() {
    use Pattern::{Pairs, Slices, Stencil, Strided};
    let rows = [
        (Slices, 8, 4, 1024, 200, 0.907, 0.0),
        (Slices, 8, 4, 1024, 2000, 0.917, 0.0),
        (Slices, 8, 4, 1 << 21, 200, 0.923, 0.0),
        (Pairs, 8, 4, 1 << 21, 2000, 0.0, 1.0),
        (Stencil, 8, 4, 1024, 200, 0.895, 0.0),
        (Stencil, 8, 4, 1 << 21, 2000, 0.893, 0.0),
        (Strided, 8, 4, 1024, 2000, 0.912, 0.0),
        (Slices, 64, 8, 1 << 17, 2000, 0.904, 0.0),
        (Pairs, 64, 8, 1 << 17, 2000, 0.0, 1.0),
        (Slices, 256, 16, 1 << 17, 2000, 0.898, 0.0),
        (Pairs, 256, 16, 1 << 17, 2000, 0.0, 0.98),
        (Stencil, 256, 16, 1 << 17, 2000, 0.893, 0.0),
    ];
    for (pattern, threads, nodes, per, samples, local, partners) in rows {
        let seeds = 1..4;
        let found: Vec<(f64, f64, usize)> = seeds
            .map(|seed| {
                let mut dice = Dice(seed);
                let work = Work::new(pattern, (threads, nodes), per, &mut dice);
                find(&work, samples, &mut dice)
            })
            .collect();
        let mean = |figure: fn(&(f64, f64, usize)) -> f64| {
            found.iter().map(figure).sum::<f64>() / found.len() as f64
        };
        let row = format!(
            "{pattern:?} {threads} threads, {per} pages each, {samples} samples, seeds 1 to 3: {found:?}"
        );
        println!("{row}");
        assert!(mean(|one| one.0) >= local - 0.012, "{row}");
        assert!(mean(|one| one.1) >= partners - 0.025, "{row}");
    }
}

/// The grain of each stretch of memory.
fn grains(blocks: &Blocks) -> Vec<Option<u32>> {
    blocks
        .grains
        .0
        .iter()
        .map(|(_, grain)| grain.bits)
        .collect()
}

/// The same by so many samples of a pattern.
fn grains_of(work: &Work, samples: usize, dice: &mut Dice) -> Vec<Option<u32>> {
    let mut forest = Forest::default();
    for _ in 0..samples {
        let (page, thread) = work.draw(dice);
        forest.note(tag(page), thread as Seat);
    }
    grains(&forest.blocks(work.threads as usize))
}

/// 4,096 pieces of 16 pages, one sample of ten being anybody's; less than one of each in a window.
#[test]
fn memory_dealt_out_in_chunks_is_known_by_few_samples_that_have_faded() {
    for seed in 1..4 {
        let mut dice = Dice(seed);
        let work = Work::new(Pattern::Strided, (32, 4), 2048, &mut dice);
        let mut forest = Forest::default();
        for _ in 0..6 {
            forest.fade();
            for _ in 0..2048 {
                let (page, thread) = work.draw(&mut dice);
                forest.note(tag(page), thread as Seat);
            }
        }
        let blocks = forest.blocks(32);
        assert_eq!(grains(&blocks), [Some(4)], "seed {seed}");
        assert!(blocks.len() > 2000, "seed {seed}: {}", blocks.len());
        let of_one = blocks.iter().filter(|block| block.users.len() == 1);
        assert!(of_one.count() * 4 > blocks.len() * 3, "seed {seed}");
    }
}

/// Half of all samples are of pieces of 16 pages, half of memory that everyone uses.
#[test]
fn memory_dealt_out_beside_memory_that_all_share_is_known() {
    for seed in 1..4 {
        let mut dice = Dice(seed);
        let work = Work::new(Pattern::Strided, (32, 4), 2048, &mut dice);
        let mut forest = Forest::default();
        for _ in 0..2048 {
            let (page, thread) = work.draw(&mut dice);
            forest.note(tag(page), thread as Seat);
            forest.note(tag((1 << 20) + dice.below(4096)), dice.below(32) as Seat);
        }
        let blocks = forest.blocks(32);
        assert_eq!(blocks.grains.at(tag(32_768)).bits, Some(4), "seed {seed}");
        assert_eq!(
            blocks.grains.at(tag((1 << 20) + 4095)).bits,
            None,
            "seed {seed}"
        );
        let last = blocks.iter().last().unwrap();
        assert!(last.users.len() > 8, "seed {seed}: {last:?}");
    }
}

/// A hundred threads on one page, and nothing else.
#[test]
fn one_page_has_no_grain() {
    let mut forest = Forest::default();
    (0..100).for_each(|seat| forest.note(tag(7), seat));
    let blocks = forest.blocks(100);
    assert_eq!((blocks.len(), grains(&blocks)), (1, vec![None]));
}

#[test]
fn what_threads_share_has_no_grain_and_slices_have_their_size() {
    for seed in 1..4 {
        let mut dice = Dice(seed);
        let mut all_are = |pattern, may: fn(Option<u32>) -> bool| {
            let work = Work::new(pattern, (32, 4), 2048, &mut dice);
            let found = grains_of(&work, 8192, &mut dice);
            assert!(
                found.iter().all(|&bits| may(bits)),
                "seed {seed}: {found:?}"
            );
        };
        all_are(Pattern::Pairs, |bits| bits.is_none());
        all_are(Pattern::Slices, |bits| bits.is_none_or(|bits| bits >= 10));
    }
}

/// Two threads sweep the same memory, and by chance one goes on where the other stopped.
#[test]
fn memory_swept_in_runs_has_no_grain() {
    for seed in 1..20 {
        let mut dice = Dice(seed);
        let mut forest = Forest::default();
        let (mut seat, mut left) = (0, 0);
        for page in 0..16_384 {
            if left == 0 {
                (seat, left) = (1 - seat, 16 + dice.below(64));
            }
            left -= 1;
            if dice.below(32) == 0 {
                forest.note(tag(page), seat + 2 * (page / 4096) as Seat);
            }
        }
        let found = grains(&forest.blocks(8));
        assert!(found.iter().all(Option::is_none), "seed {seed}: {found:?}");
    }
}

#[test]
fn a_piece_reaches_from_border_to_border() {
    let mut forest = Forest::default();
    for page in 0..2048 {
        forest.note(tag(page), (page / 16 % 4) as Seat);
    }
    let grain = forest.blocks(4).grains.at(tag(33));
    assert_eq!(grain.around(33), Some(32..48));
    assert_eq!(Grain::default().around(33), None);
}

#[test]
fn a_slice_is_known_by_ten_samples() {
    let mut forest = Forest::default();
    // Of 32 MiB each.
    for (seat, first) in [(0, 3 << 20), (1, (3 << 20) + 8192)] {
        for sample in 0..10 {
            forest.note(tag(first + sample * 777), seat);
        }
    }
    let blocks = forest.blocks(8);
    let users: Vec<Vec<Seat>> = blocks
        .iter()
        .map(|block| block.users.iter().map(|user| user.seat).collect())
        .collect();
    assert_eq!(users, [[0], [1]]);
}

#[test]
fn what_is_not_sampled_any_more_is_forgotten_and_what_is_void_at_once() {
    let mut forest = Forest::default();
    forest.note(tag(5), 0);
    forest.note(tag(5), 1);
    for _ in 0..4 {
        forest.fade();
    }
    assert_eq!(forest.points.len(), 2);
    let mut seats = Bits::new(8);
    seats.insert(1);
    forest.forget(&seats, &Bits::new(8));
    assert_eq!(forest.points.len(), 1);
    forest.fade();
    assert_eq!(forest.points, []);
}

#[test]
fn what_has_faded_most_makes_room() {
    let mut forest = Forest::default();
    let most = POINTS_MAX as u64 / 2;
    for window in 1..6u64 {
        forest.fade();
        for page in 0..most {
            forest.note(tag(window << 20 | page), 0);
        }
        assert!(forest.blocks(4).len() <= POINTS_MAX && forest.points.len() <= POINTS_MAX);
        let of_this = |point: &&Point| point.tag.page() >> 20 == window;
        assert_eq!(forest.points.iter().filter(of_this).count() as u64, most);
    }
}

#[test]
fn of_windows_that_were_joined_there_are_no_fewer_samples_than_of_one() {
    let mut forest = Forest::default();
    // Two threads in turns on pages of their own, and in no window more than there is room for.
    for window in 0..5_u64 {
        for page in 0..POINTS_MAX as u64 / 2 {
            forest.note(tag(window << 20 | page), (page % 2) as Seat);
        }
        forest.blocks(2);
        let least = POINTS_MAX.min((window as usize + 1) * POINTS_MAX / 2);
        assert_eq!(forest.points.len(), least, "window {window}");
    }
    // Each is kept with the same chance, whose it is and when it came.
    let of = |is: &dyn Fn(&Point) -> bool| forest.points.iter().filter(|one| is(one)).count();
    let (one, early) = (
        of(&|one| one.seat == 0),
        of(&|one| one.tag.page() < 1 << 20),
    );
    assert!(one.abs_diff(POINTS_MAX / 2) < POINTS_MAX / 20, "{one}");
    assert!(early.abs_diff(POINTS_MAX / 5) < POINTS_MAX / 20, "{early}");
    assert!(forest.points.is_sorted_by_key(|one| (one.tag, one.seat)));
}

#[test]
fn of_samples_that_are_too_many_those_stay_that_are_wanted() {
    let mut forest = Forest::default();
    (0..100).for_each(|page| forest.note(tag(page), 0));
    let mut turn = 0;
    let gone = forest.thin(|| {
        turn += 1;
        turn % 2 == 0
    });
    assert_eq!(gone, 50);
    forest.blocks(4);
    assert_eq!(forest.points.len(), 50);
    assert!(forest.points.iter().all(|point| point.tag.page() % 2 == 1));
}

#[test]
fn the_gamma_function_is_that_of_the_tables() {
    for (number, expected) in [
        (0.25, 1.288_022_524_698_077),
        (1.0, 0.0),
        (1.5, -0.120_782_237_635_245_2),
        (1.0 / 4096.0, 8.317_625_293_943_18),
        (10.0, 12.801_827_480_081_47),
        (1000.5, 5_908.674_175_848_678),
    ] {
        let found = ln_gamma(number);
        assert!(
            (found - expected).abs() < 1e-8,
            "{number}: {found} != {expected}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn blocks_part_all_samples_and_each_lies_in_one_space(
        samples in prop::collection::vec((1u16..4, 0u32..45, 0u64..1 << 20, 0u16..12), 0..300),
        fades in 0usize..3,
    ) {
        let mut forest = Forest::default();
        for (at, &(space, high, low, seat)) in samples.iter().enumerate() {
            // With 57 bits of address a page number has 45.
            let page = (1u64 << high | low) & ((1 << 45) - 1);
            forest.note(Tag::new(LocalSpace::from(space), page).unwrap(), seat);
            if at % 100 == 99 && at / 100 < fades {
                forest.fade();
            }
        }
        let blocks = forest.blocks(12);
        let mut at = 0;
        for block in blocks.iter() {
            prop_assert_eq!(block.points.start, at);
            prop_assert!(!block.points.is_empty());
            at = block.points.end;
            let points = &forest.points[block.points.clone()];
            let spaces: Vec<LocalSpace> = points.iter().map(|point| point.tag.space()).collect();
            prop_assert!(spaces.iter().all(|&space| space == spaces[0]));
            let all: u64 = points.iter().map(|point| u64::from(point.samples())).sum();
            prop_assert_eq!(block.samples(), all);
        }
        prop_assert_eq!(at, forest.points.len());
        prop_assert!(forest.points.is_sorted_by_key(|point| (point.tag, point.seat)));
        let again = forest.blocks(12);
        prop_assert_eq!(again, blocks);
    }
}

/// Memory of one thread stays known when another era begins, and of what threads share only what they use now.
#[test]
fn an_era_begins_with_what_is_used_now_and_what_is_somebodys_own() {
    let mut forest = Forest::default();
    for page in 0..64 {
        forest.note(tag(page), 1);
        forest.note(tag(4096 + page), 2 + u16::from(page % 2 == 0));
    }
    forest.fade();
    for page in 0..32 {
        forest.note(tag(4096 + page), 4);
    }
    let changed = forest.begin_anew(8);
    let pages = |seat| {
        let points = forest.points.iter().filter(|point| point.seat == seat);
        points.map(|point| point.tag.page()).collect::<Vec<u64>>()
    };
    assert_eq!(pages(1), (0..64).collect::<Vec<u64>>());
    assert_eq!(pages(4), (4096..4128).collect::<Vec<u64>>());
    assert_eq!((pages(2), pages(3)), (vec![], vec![]));
    assert!(changed.iter().all(|(first, _)| first.page() >= 4096));
    assert!(forest.is_used(tag(4100), 4) && !forest.is_used(tag(4100), 2));
    assert!(!forest.is_used(tag(3), 1), "not in this window");
    assert_eq!(
        forest.shared().filter(|(_, users)| users.len() > 1).count(),
        0
    );
}

#[test]
fn a_thread_is_known_among_the_samples_around_a_page() {
    let mut forest = Forest::default();
    (0..20).for_each(|at| forest.note(tag(100 + 10 * at), 0));
    forest.note(tag(101), 1);
    assert!(!forest.knows(tag(150), 0), "all of this window");
    forest.settle();
    assert!(forest.knows(tag(155), 0) && forest.knows(tag(95), 0));
    assert!(forest.knows(tag(155), 1), "six samples away");
    assert!(!forest.knows(tag(255), 1), "sixteen samples away");
    let elsewhere = Tag::new(2, 155).unwrap();
    assert!(!forest.knows(elsewhere, 0), "other memory");
}
