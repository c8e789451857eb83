//! Random: a seeded shuffle of the tasks, then packed.
//!
//! Each task draws a number, in the order of the list, from a generator that begins at the seed (`SplitMix64`: Steele,
//! Lea and Flood 2014), and the numbers give the order. So every window shuffles alike, and a task that comes last
//! draws without disturbing what the others drew, as it would with a shuffle by exchanges.

use numad_core::{
    Policy, PolicyFactory, Program, Proposal, Reason, SettingKind, SettingSpec, Time,
};

use crate::kernel::Dice;
use crate::packed;

const SEED: SettingSpec = SettingSpec {
    name: "seed",
    kind: SettingKind::Integer((0, 1_000_000_000), 0),
    help: "Where the shuffle comes from; 0 takes the process number, or the seed of the simulator.",
};

/// Makes the policy `random`.
pub(crate) static RANDOM: PolicyFactory = PolicyFactory {
    name: "random",
    summary: "Shuffles threads over the nodes once, by seed: shows whether placement matters to \
              a program at all.",
    settings: &[SEED],
    seeks_gain: false,
    goes_by_order: true,
    published: None,
    build: |settings, seed| {
        let seed = match settings.integer(SEED.name).unsigned_abs() {
            0 => seed,
            given => given,
        };
        Ok(Box::new(Shuffled { seed }))
    },
};

/// The policy `random` with its seed.
#[derive(Clone, Copy, Debug)]
struct Shuffled {
    seed: u64,
}

impl Policy for Shuffled {
    fn propose(&mut self, _now: Time, program: &Program<'_>, out: &mut Vec<Proposal>) {
        let mut dice = Dice::new(self.seed);
        let tasks = 0..program.tasks.len();
        let mut order: Vec<(u64, usize)> = tasks.map(|task| (dice.roll(), task)).collect();
        order.sort_unstable();
        let order = order.into_iter().map(|(_, task)| task);
        packed::fill(program, order, |_| 0, (&Reason::Shuffle, out));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use testkit::Scene;

    use super::*;

    fn places(seed: u64, scene: &Scene) -> Vec<Option<usize>> {
        let mut scene = scene.clone();
        let mut out = Vec::new();
        Shuffled { seed }.propose(Time(0), &scene.as_program(), &mut out);
        scene.apply(&out);
        scene.placement()
    }

    #[test]
    fn draws_are_those_of_the_published_generator() {
        // The first three outputs of SplitMix64 from seed 1234567, as commonly used to check it.
        let mut dice = Dice::new(1_234_567);
        let drawn = [0, 1, 2].map(|_| dice.roll());
        assert_eq!(
            drawn,
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423
            ]
        );
    }

    #[test]
    fn the_seed_alone_decides() {
        let scene = Scene::new("4x4").with_tasks(&[None; 16]);
        assert_eq!(
            places(3, &scene),
            places(3, &scene.clone().with_tasks_on(&[2; 16]))
        );
        let distinct: BTreeSet<_> = (0..50).map(|seed| places(seed, &scene)).collect();
        assert!(distinct.len() > 45, "{} of 50 differ", distinct.len());
    }

    #[test]
    fn a_seed_that_is_given_replaces_the_hosts() {
        let scene = Scene::new("4x4").with_tasks(&[None; 16]);
        let given =
            |seed: &str| crate::tests::nodes_after_with("random", &[("seed", seed)], &scene);
        assert_eq!(given("7"), places(7, &scene));
        assert_eq!(
            given("0"),
            places(1, &scene),
            "the host of the tests gives 1"
        );
    }

    #[test]
    fn every_task_has_every_node_about_as_often() {
        let scene = Scene::new("2x2").with_tasks(&[None; 4]);
        let mut counts = [0_i32; 4];
        for seed in 0..1000 {
            for (count, node) in counts.iter_mut().zip(places(seed, &scene)) {
                *count += i32::from(node == Some(0));
            }
        }
        // 500 expected; a standard deviation is 16.
        assert!(
            counts.iter().all(|count| (count - 500).abs() < 80),
            "{counts:?}"
        );
    }
}
