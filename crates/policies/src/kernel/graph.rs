//! Who talks to whom, as compressed rows.

use numad_core::CommMatrix;

/// Most that one row of [`Edges`] may sum up to; larger matrices are scaled down as a whole.
///
/// Leaves room for a distance of two digits in 64-bit sums over any number of tasks.
const ROW_SUM_MAX: u64 = 1 << 31;

/// Position of a task, a node or an entry as it is stored.
#[expect(
    clippy::cast_possible_truncation,
    reason = "every position is below 2^32: `Edges` and `Problem` refuse more"
)]
#[inline]
pub(super) const fn id(position: usize) -> u32 {
    position as u32
}

/// Makes a list that keeps its memory so many times a value.
pub(super) fn reset<T: Clone>(list: &mut Vec<T>, count: usize, value: T) {
    list.clear();
    list.resize(count, value);
}

/// Makes a list that keeps its memory these items.
pub(super) fn replace<T>(list: &mut Vec<T>, items: impl IntoIterator<Item = T>) {
    list.clear();
    list.extend(items);
}

/// Who talks to whom and how much: symmetric, no diagonal, each row by ascending partner.
///
/// A value of this type is valid by construction. Keep one and [`Self::refill`] it: it keeps its
/// memory. Amounts are `u32`; if a row would sum up to 2^31 or more, all amounts are halved until
/// none does ([`Self::shift`] times), but none that was there becomes zero.
#[derive(Clone, Debug, Default)]
pub struct Edges {
    starts: Vec<u32>,
    partners: Vec<u32>,
    weights: Vec<u32>,
    shift: u32,
    /// The largest row sum.
    pub(super) heaviest: u64,
    cursor: Vec<u32>,
    sums: Vec<u64>,
    entries: Vec<(u32, u64)>,
}

impl Edges {
    /// The communication of a matrix.
    #[must_use]
    pub fn from_matrix(matrix: &CommMatrix) -> Self {
        let pairs = matrix.pairs();
        let pairs = pairs.map(|(one, other, amount)| (id(one), id(other), amount));
        Self::from_pairs(matrix.count(), &pairs.collect::<Vec<_>>())
    }

    /// The communication of pairs `(one, other, amount)` among `tasks` tasks.
    ///
    /// Amounts of a pair that is named twice, in either order, add up. Pairs of a task with itself,
    /// of amount zero, or with a position that is not below `tasks` are ignored.
    #[must_use]
    pub fn from_pairs(tasks: usize, pairs: &[(u32, u32, u64)]) -> Self {
        let mut edges = Self::default();
        edges.refill(tasks, pairs);
        edges
    }

    /// As [`Self::from_pairs`], keeping the memory of what was here.
    pub fn refill(&mut self, tasks: usize, pairs: &[(u32, u32, u64)]) {
        let sane = |&&(one, other, amount): &&(u32, u32, u64)| {
            one != other && amount > 0 && (one as usize) < tasks && (other as usize) < tasks
        };
        reset(&mut self.sums, tasks, 0);
        reset(&mut self.cursor, tasks + 1, 0);
        for &(one, other, amount) in pairs.iter().filter(sane) {
            for task in [one as usize, other as usize] {
                self.sums[task] = self.sums[task].saturating_add(amount);
                self.cursor[task + 1] += 1;
            }
        }
        let largest = self.sums.iter().copied().max().unwrap_or(0);
        self.begin(tasks, largest);
        for task in 0..tasks {
            self.cursor[task + 1] += self.cursor[task];
        }
        let entries = self.cursor[tasks] as usize;
        let mut rows = std::mem::take(&mut self.entries);
        reset(&mut rows, entries, (0, 0));
        for &(one, other, amount) in pairs.iter().filter(sane) {
            for (task, partner) in [(one, other), (other, one)] {
                let place = &mut self.cursor[task as usize];
                rows[*place as usize] = (partner, amount);
                *place += 1;
            }
        }
        let mut from = 0;
        for task in 0..tasks {
            let to = self.cursor[task] as usize;
            self.push_row(&mut rows[from..to]);
            from = to;
        }
        self.entries = rows;
    }

    fn push_row(&mut self, row: &mut [(u32, u64)]) {
        row.sort_unstable();
        for same in row.chunk_by(|one, other| one.0 == other.0) {
            let amount = same
                .iter()
                .fold(0_u64, |sum, one| sum.saturating_add(one.1));
            let weight = self.scaled(amount);
            self.partners.push(same[0].0);
            self.weights.push(weight);
        }
        self.end_row();
    }

    fn end_row(&mut self) {
        let from = self.starts.last().map_or(0, |&start| start as usize);
        let sum = self.weights[from..]
            .iter()
            .map(|&weight| u64::from(weight))
            .sum();
        self.heaviest = self.heaviest.max(sum);
        self.starts.push(id(self.partners.len()));
    }

    fn begin(&mut self, tasks: usize, largest_row_sum: u64) {
        self.starts.clear();
        self.partners.clear();
        self.weights.clear();
        self.starts.reserve(tasks + 1);
        self.starts.push(0);
        self.heaviest = 0;
        // Half of the room: rounding up what would vanish may add one for each partner.
        let fits = |shift: &u32| largest_row_sum >> shift < ROW_SUM_MAX / 2;
        self.shift = (0..u64::BITS).find(fits).unwrap_or(0);
    }

    fn scaled(&self, amount: u64) -> u32 {
        u32::try_from(amount >> self.shift)
            .unwrap_or(u32::MAX >> 1)
            .max(1)
    }

    /// How many tasks there are.
    #[must_use]
    pub const fn tasks(&self) -> usize {
        self.starts.len().saturating_sub(1)
    }

    /// How often all amounts were halved to fit.
    #[must_use]
    pub const fn shift(&self) -> u32 {
        self.shift
    }

    /// The partners of a task and how much it talks with each, by ascending partner.
    pub fn partners(&self, task: usize) -> impl Iterator<Item = (usize, u32)> + '_ {
        self.rows()
            .row(task)
            .map(|(other, weight)| (other, weight.cast_unsigned()))
    }

    pub(super) fn rows(&self) -> Csr<'_> {
        Csr {
            starts: &self.starts,
            partners: &self.partners,
            weights: &self.weights,
        }
    }

    /// Halves all amounts until no row sums up to more than `most`; none becomes zero.
    pub(super) fn limit(&mut self, most: u64) {
        let fits = |shift: &u32| self.heaviest >> shift <= most / 2;
        let shift = (0..u64::BITS).find(fits).unwrap_or(0);
        for weight in &mut self.weights {
            *weight = (*weight >> shift).max(1);
        }
    }

    /// Becomes `rows` with the tasks renamed by `rank` (`order` is its inverse), each weight
    /// shifted right but not to zero. Rows come out sorted, because they are filled by
    /// ascending partner.
    pub(super) fn rename(&mut self, rows: Csr<'_>, names: &Canon, shift: u32) {
        let tasks = rows.tasks();
        self.begin(tasks, 0);
        self.cursor.clear();
        for &old in &names.order {
            let start = self.starts[self.cursor.len()];
            self.cursor.push(start);
            self.starts.push(start + id(rows.range(old as usize).len()));
        }
        self.partners.resize(rows.entries(), 0);
        self.weights.resize(rows.entries(), 0);
        for (new, &old) in (0..).zip(&names.order) {
            let range = rows.range(old as usize);
            let row = rows.partners[range.clone()]
                .iter()
                .zip(&rows.weights[range]);
            for (&other, &weight) in row {
                let place = &mut self.cursor[names.rank[other as usize] as usize];
                self.partners[*place as usize] = new;
                self.weights[*place as usize] = (weight >> shift).max(1);
                *place += 1;
            }
        }
    }
}

/// Rows borrowed from wherever they are kept. Weights are below 2^31.
#[derive(Clone, Copy, Debug)]
pub(super) struct Csr<'a> {
    pub(super) starts: &'a [u32],
    pub(super) partners: &'a [u32],
    pub(super) weights: &'a [u32],
}

impl<'a> Csr<'a> {
    pub(super) const fn tasks(self) -> usize {
        self.starts.len().saturating_sub(1)
    }

    pub(super) const fn entries(self) -> usize {
        self.partners.len()
    }

    #[inline]
    pub(super) fn range(self, task: usize) -> std::ops::Range<usize> {
        self.starts[task] as usize..self.starts[task + 1] as usize
    }

    #[inline]
    pub(super) fn row(self, task: usize) -> impl Iterator<Item = (usize, i32)> + 'a {
        let range = self.range(task);
        let partners = &self.partners[range.clone()];
        let weights = &self.weights[range];
        let pairs = partners.iter().zip(weights);
        pairs.map(|(&other, &weight)| (other as usize, weight.cast_signed()))
    }

    /// Each pair of tasks that talk once, the lower first, and what they say to each other.
    pub(super) fn pairs(self) -> impl Iterator<Item = (u32, u32, u64)> + 'a {
        (0..self.tasks()).flat_map(move |task| {
            let above = self.row(task).filter(move |&(other, _)| other > task);
            above.map(move |(other, weight)| (id(task), id(other), weight.cast_unsigned().into()))
        })
    }

    /// What two tasks say to each other.
    #[inline]
    pub(super) fn between(self, one: usize, other: usize) -> i32 {
        let range = self.range(one);
        let row = &self.partners[range.clone()];
        // Short rows need not be sorted.
        if row.len() <= 8 {
            let place = row.iter().position(|&partner| partner as usize == other);
            return place.map_or(0, |place| self.weights[range.start + place].cast_signed());
        }
        if row.len() + 1 == self.tasks() {
            // A full row: the position is known.
            let place = range.start + other - usize::from(other > one);
            return self.weights[place].cast_signed();
        }
        row.binary_search(&id(other))
            .map_or(0, |place| self.weights[range.start + place].cast_signed())
    }
}

/// Rows that are owned, with what coarser and smaller graphs need beside them. Keeps its memory.
#[derive(Debug, Default)]
pub(super) struct Level {
    pub(super) starts: Vec<u32>,
    pub(super) partners: Vec<u32>,
    pub(super) weights: Vec<u32>,
    /// How many tasks a vertex stands for.
    pub(super) size: Vec<u32>,
    /// Cost of a vertex on side 0 less its cost on side 1, from what lies outside the graph.
    pub(super) bias: Vec<i32>,
    /// The vertex of the next coarser graph that a vertex of this one became a part of.
    pub(super) coarse: Vec<u32>,
}

impl Level {
    pub(super) fn clear(&mut self) {
        self.starts.clear();
        self.starts.push(0);
        self.partners.clear();
        self.weights.clear();
        self.size.clear();
        self.bias.clear();
        self.coarse.clear();
    }

    pub(super) fn end_row(&mut self) {
        self.starts.push(id(self.partners.len()));
    }

    pub(super) const fn count(&self) -> usize {
        self.starts.len().saturating_sub(1)
    }

    pub(super) fn rows(&self) -> Csr<'_> {
        Csr {
            starts: &self.starts,
            partners: &self.partners,
            weights: &self.weights,
        }
    }
}

/// Finds an order of the tasks that depends on who talks to whom, not on how the tasks are
/// numbered: two names for each, the caller's and ours.
#[derive(Debug, Default)]
pub(super) struct Canon {
    /// The caller's name by ours.
    pub(super) order: Vec<u32>,
    /// Our name by the caller's.
    pub(super) rank: Vec<u32>,
    colour: Vec<u64>,
    next: Vec<u64>,
    keyed: Vec<(u64, u32)>,
}

impl Canon {
    /// Colour refinement: a task's colour is made of its partners' colours and the amounts, `rounds`
    /// times; tasks are then sorted by colour. What is still equal after that keeps the caller's
    /// order: only such ties can make the answer depend on it.
    pub(super) fn sort(&mut self, rows: Csr<'_>, rounds: usize) {
        let tasks = rows.tasks();
        reset(&mut self.colour, tasks, 1);
        for _ in 0..rounds {
            self.next.clear();
            for task in 0..tasks {
                let mut sum = mix(self.colour[task]);
                for (other, weight) in rows.row(task) {
                    let weight = u64::from(weight.cast_unsigned());
                    sum = sum.wrapping_add(stir(self.colour[other] ^ (weight << 17)));
                }
                self.next.push(mix(sum));
            }
            std::mem::swap(&mut self.colour, &mut self.next);
        }
        replace(
            &mut self.keyed,
            (0..tasks).map(|task| (self.colour[task], id(task))),
        );
        self.keyed.sort_unstable();
        replace(&mut self.order, self.keyed.iter().map(|keyed| keyed.1));
        reset(&mut self.rank, tasks, 0);
        for (new, &old) in self.order.iter().enumerate() {
            self.rank[old as usize] = id(new);
        }
    }

    /// A mapping of our tasks as one of the caller's.
    pub(super) fn hand_back(&self, ours: &[u16], theirs: &mut Vec<u16>) {
        reset(theirs, ours.len(), 0);
        for (&old, &node) in self.order.iter().zip(ours) {
            theirs[old as usize] = node;
        }
    }
}

/// Spreads a number over all bits (the finaliser of splitmix64).
pub(super) const fn mix(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    number ^ (number >> 31)
}

/// As [`mix`], cheaper: it runs once for each entry of the matrix.
#[inline]
const fn stir(number: u64) -> u64 {
    let number = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (number ^ (number >> 32)).wrapping_mul(0xD6E8_FEB8_6659_FD93)
}

/// Numbers that look random and are always the same (splitmix64).
#[derive(Clone, Debug)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    #[inline]
    pub(crate) const fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(self.0)
    }

    /// A number below `end`, which is not zero.
    #[inline]
    pub(super) const fn below(&mut self, end: usize) -> usize {
        (((self.roll() >> 32) * end as u64) >> 32) as usize
    }

    pub(super) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }
}

/// How much work is still allowed. A step is about one task looked at, or one partner told.
#[derive(Clone, Debug)]
pub(super) struct Steps {
    pub(super) left: u64,
}

impl Steps {
    pub(super) const fn new(max: u64) -> Self {
        Self { left: max }
    }

    /// Takes steps off what is left. False when nothing is left: stop at the next safe point.
    #[inline]
    pub(super) const fn spend(&mut self, steps: usize) -> bool {
        self.left = self.left.saturating_sub(steps as u64);
        self.left > 0
    }

    pub(super) const fn is_out(&self) -> bool {
        self.left == 0
    }
}
