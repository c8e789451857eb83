//! What one page is asked for, as far as samples tell.

use numad_core::Page;
use numad_core::policy::ACCESSORS_MAX;

/// Where a task is whose node is not known.
pub(super) const NOWHERE: u16 = u16::MAX;

/// What one page is asked for, small because there are many: GB/s for each node it is used from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    /// Position of the page in the program.
    pub(super) at: u32,
    pub(super) home: u16,
    count: u16,
    nodes: [u16; ACCESSORS_MAX],
    gbps: [f32; ACCESSORS_MAX],
    /// What those ask for who use the page and are not remembered. Of a page that many use those who are
    /// remembered are there by chance: that all of them are on one node does not say that the others are.
    pub(super) others: f32,
}

impl Asked {
    /// By the node of each task and what one unit of its weight asks for; users whose node is not known do not
    /// count. None if it is not known where the page is.
    #[inline]
    pub(super) fn of(
        (at, page): (u32, &Page),
        nodes: usize,
        users: &[(u16, f32)],
        chance: Chance,
    ) -> Option<Self> {
        let (own, others) = chance.parts(page);
        let mut asked = Self {
            at,
            home: page.home.filter(|&home| usize::from(home) < nodes)?,
            count: 0,
            nodes: [0; ACCESSORS_MAX],
            gbps: [0.0; ACCESSORS_MAX],
            others: 0.0,
        };
        for accessor in page.accessors() {
            let user = users.get(accessor.task as usize).copied();
            let Some((node, each)) = user.filter(|&(node, _)| node != NOWHERE) else {
                continue;
            };
            #[expect(clippy::cast_precision_loss, reason = "a share of an estimate")]
            let gbps = accessor.weight as f32 * each;
            asked.others += gbps * others;
            let count = usize::from(asked.count);
            let place = (0..count).find(|&place| asked.nodes[place] == node);
            let place = place.unwrap_or_else(|| {
                asked.count += 1;
                asked.nodes[count] = node;
                count
            });
            asked.gbps[place] += gbps * own;
        }
        Some(asked)
    }

    /// Nodes of those who are remembered, and what they ask for.
    pub(super) fn users(&self) -> impl Iterator<Item = (usize, f64)> + '_ {
        let both = self.nodes.iter().zip(&self.gbps);
        both.take(usize::from(self.count))
            .map(|(&node, &gbps)| (usize::from(node), f64::from(gbps)))
    }
}

/// How much of the difference between pages is chance.
///
/// Pages with most accesses come first, and of many that are used alike these are the ones that a few
/// samples happened to see more often. Taken at their word, moving two in five of them seems to move half of all
/// accesses. So a page is taken to be used as much as the mean, and of what it was seen to be used more or less
/// only that part counts by which pages differ more than sums of so few samples do by chance, whose variance is
/// their mean times what a sample weighs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chance {
    mean: f64,
    /// Part of a difference that counts, 0 to 1.
    real: f64,
}

impl Chance {
    pub(super) fn of(pages: &[Page]) -> Self {
        let (mut count, mut samples, mut sum, mut squares) = (0.0, 0.0, 0.0, 0.0);
        for page in pages {
            let weight = page.weight() as f64;
            if weight > 0.0 {
                count += 1.0;
                samples += f64::from(page.samples);
                sum += weight;
                squares += weight * weight;
            }
        }
        let mean = sum / f64::max(count, 1.0);
        let variance = squares / f64::max(count, 1.0) - mean * mean;
        let by_chance = mean * sum / f64::max(samples, 1.0);
        let real = if variance > by_chance {
            1.0 - by_chance / variance
        } else {
            0.0
        };
        Self { mean, real }
    }

    /// How often a use of this page counts, by those who are remembered and by others.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "an estimate")]
    fn parts(self, page: &Page) -> (f32, f32) {
        let weight = (page.weight() as f64).max(1.0);
        let factor = self.real + (1.0 - self.real) * self.mean / weight;
        let own = page.remembered();
        ((factor * own) as f32, (factor * (1.0 - own)) as f32)
    }
}
