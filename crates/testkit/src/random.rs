//! Scenes from a seed: odd machines, narrow masks, full nodes, every kind of communication.

use numad_core::{Accessor, CommMatrix, Page, PageKey, SpaceId};

use crate::{Dice, Scene, Shape, machine};

/// Most tasks of a random scene; few enough that a failing one can be read.
const TASKS_MAX: usize = 20;

/// Most pages of a random scene.
const PAGES_MAX: usize = 24;

impl Scene {
    /// A scene that follows from the dice alone.
    #[must_use]
    pub fn random(dice: &mut Dice) -> Self {
        let mut scene = Self::on(random_machine(dice));
        scene.renew_tasks(dice);
        scene
    }

    /// Other tasks, with other masks, talk and pages, on the same machine.
    pub fn renew_tasks(&mut self, dice: &mut Dice) {
        let nodes = self.topology.nodes().len();
        let homes = self.nodes_with_cpus();
        let places: Vec<Option<usize>> = (0..dice.below(TASKS_MAX + 1))
            .map(|_| Some(dice.below(nodes)).filter(|&node| homes[node] && !dice.chance(10)))
            .collect();
        let mut scene = std::mem::replace(self, Self::new("1x1")).with_tasks(&places);
        for task in &mut scene.tasks {
            if dice.chance(15) {
                for allowed in &mut task.allowed {
                    *allowed = *allowed && dice.chance(50);
                }
            }
        }
        *self = scene;
        self.renew_limits(dice);
        self.renew_talk(dice);
        self.renew_pages(dice);
    }

    /// Other programs come and go: capacities and free memory change.
    pub fn renew_limits(&mut self, dice: &mut Dice) {
        self.fit_capacity();
        if dice.chance(25) {
            let all = dice.chance(20);
            for capacity in &mut self.capacity {
                *capacity -= if all {
                    *capacity
                } else {
                    dice.below(*capacity + 1)
                };
            }
        }
        let nodes = self.topology.nodes();
        for (free, node) in self.free_bytes.iter_mut().zip(nodes) {
            let few = u64::try_from(dice.below(4)).unwrap_or(0) << 16;
            *free = if dice.chance(20) { few } else { 1 << 30 }.min(node.memory_bytes);
        }
    }

    /// Other partners: nobody, pairs, groups, all alike, or all at random.
    pub fn renew_talk(&mut self, dice: &mut Dice) {
        let count = self.tasks.len();
        let kind = dice.below(5);
        let mut order: Vec<usize> = (0..count).collect();
        dice.shuffle(&mut order);
        self.live = CommMatrix::new(count);
        self.decayed = CommMatrix::new(count);
        for (place, &one) in order.iter().enumerate() {
            for (other_place, &other) in order.iter().enumerate().skip(place + 1) {
                let amount = match kind {
                    0 => 0,
                    1 if place / 2 == other_place / 2 => 100,
                    2 if place / 4 == other_place / 4 => 50,
                    3 => 10,
                    4 if dice.chance(40) => 1 + dice.below(100),
                    _ => 0,
                };
                let amount = u64::try_from(amount).unwrap_or(0);
                self.live.add(one, other, amount);
                let earlier = u64::try_from(dice.below(3)).unwrap_or(0);
                self.decayed.add(one, other, amount + earlier);
            }
        }
        // Some sources tell what answered an access; of those others' caches answer some.
        self.handed = kind.is_multiple_of(2).then(|| self.live.clone());
    }

    /// Lets some pairs talk, no two of them the same amount, and everyone with two others at least: so
    /// nobody says as much as another in all, if there are three.
    pub fn tell_apart(&mut self, dice: &mut Dice) {
        let count = self.tasks.len();
        self.live = CommMatrix::new(count);
        for one in 0..count {
            for other in one + 1..count {
                let next = other == one + 1 || (one == 0 && other == count - 1);
                if next || dice.chance(40) {
                    self.live.add(one, other, 1 + (dice.roll() >> 40));
                }
            }
        }
        self.decayed = self.live.clone();
        self.handed = self.handed.as_ref().map(|_| self.live.clone());
        // No two uses of a page weigh the same either.
        for page in &mut self.pages {
            for accessor in &mut page.recent {
                accessor.weight = u32::try_from(1 + (dice.roll() >> 44)).unwrap_or(1);
            }
        }
    }

    /// The same scene with its tasks listed in another order: the task at each place is the one that was at
    /// this position. Thread numbers go by place, as everywhere.
    #[must_use]
    pub fn in_order(&self, order: &[usize]) -> Self {
        let mut listed = self.clone();
        let mut place_of = vec![0; order.len()];
        for (place, &position) in order.iter().enumerate() {
            place_of[position] = place;
            let key = listed.tasks[place].key;
            listed.tasks[place] = self.tasks[position].clone();
            listed.tasks[place].key = key;
        }
        let relist = |matrix: &CommMatrix| {
            let mut relisted = CommMatrix::new(matrix.count());
            for (one, other, amount) in matrix.pairs() {
                relisted.add(place_of[one], place_of[other], amount);
            }
            relisted
        };
        listed.live = relist(&self.live);
        listed.decayed = relist(&self.decayed);
        listed.handed = self.handed.as_ref().map(relist);
        for page in &mut listed.pages {
            let count = usize::from(page.accessor_count).min(page.recent.len());
            for accessor in &mut page.recent[..count] {
                let place = place_of.get(accessor.task as usize).copied();
                accessor.task = place
                    .and_then(|place| u32::try_from(place).ok())
                    .unwrap_or(0);
            }
        }
        listed
    }

    /// Other pages, some of them in slots that others had.
    pub fn renew_pages(&mut self, dice: &mut Dice) {
        let nodes = self.topology.nodes().len();
        let memory: Vec<bool> = self
            .topology
            .nodes()
            .iter()
            .map(|node| node.memory_bytes > 0)
            .collect();
        let count = if self.tasks.is_empty() {
            0
        } else {
            dice.below(PAGES_MAX)
        };
        let numbers = u64::try_from(dice.below(3) * 100).unwrap_or(0);
        self.pages = (0..count).map(|_| random_page(dice, self)).collect();
        for (slot, page) in (0..).zip(&mut self.pages) {
            page.slot = slot;
            page.key.page = numbers + u64::from(slot);
            let home = Some(dice.below(nodes)).filter(|&node| memory[node] && !dice.chance(15));
            page.home = home.and_then(|node| u16::try_from(node).ok());
        }
    }
}

/// A page with chance accessors; the caller gives it its number and home.
fn random_page(dice: &mut Dice, scene: &Scene) -> Page {
    let mut order: Vec<usize> = (0..scene.tasks.len()).collect();
    dice.shuffle(&mut order);
    let mut recent = [Accessor::default(); numad_core::policy::ACCESSORS_MAX];
    order.truncate(1 + dice.below(recent.len()));
    for (place, &task) in recent.iter_mut().zip(&order) {
        *place = Accessor {
            task: u32::try_from(task).unwrap_or_default(),
            weight: u32::try_from(dice.below(6)).unwrap_or_default(),
        };
    }
    Page {
        key: PageKey {
            space: SpaceId(u32::from(dice.chance(20))),
            page: 0,
        },
        slot: 0,
        home: None,
        recent,
        accessor_count: u8::try_from(order.len()).unwrap_or_default(),
        samples: u32::try_from(dice.below(50)).unwrap_or_default(),
        forgotten: 0,
        span: 1,
    }
}

/// One to six nodes; now and then memory or processors alone, and gaps in the numbers.
fn random_machine(dice: &mut Dice) -> topology::Topology {
    let count = 1 + dice.below(6);
    let mut id = 0;
    let shapes: Vec<Shape> = (0..count)
        .map(|place| {
            id += u32::from(dice.chance(30)) + u32::from(place > 0);
            // The first node is whole, so that there are processors and memory at all.
            let cores = if place > 0 && dice.chance(15) {
                0
            } else {
                1 + dice.below(4)
            };
            let bare = place > 0 && cores > 0 && dice.chance(10);
            Shape {
                id,
                cores: u32::try_from(cores).unwrap_or(1),
                memory_bytes: if bare { 0 } else { 16 << 30 },
            }
        })
        .collect();
    machine(&shapes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_one_scene_and_seeds_give_all_kinds() {
        let scenes: Vec<Scene> = (0..200)
            .map(|seed| Scene::random(&mut Dice::new(seed)))
            .collect();
        assert_eq!(scenes[7], Scene::random(&mut Dice::new(7)));
        let any = |test: &dyn Fn(&Scene) -> bool| assert!(scenes.iter().any(test));
        any(&|scene| scene.tasks.is_empty());
        any(&|scene| scene.nodes_with_cpus().contains(&false));
        any(&|scene| {
            scene
                .topology
                .nodes()
                .iter()
                .any(|node| node.memory_bytes == 0)
        });
        any(&|scene| scene.tasks.iter().any(|task| !task.allowed.contains(&true)));
        any(&|scene| scene.capacity.iter().all(|&capacity| capacity == 0));
        any(&|scene| scene.tasks.len() > 1 && scene.live.pairs().next().is_none());
        any(&|scene| scene.pages.iter().any(|page| page.home.is_none()));
    }
}
