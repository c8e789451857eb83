//! Samples of the plugin's sampler, held against every access that they were taken from.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, bail};
use numad_core::Record;
use sampler::recording::Entry;

use crate::accuracy::{Matrix, PAGE_BITS, Uses, float_of, share};
use crate::machine::Machine;

/// Samples held against every access that they were taken from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Held {
    /// Samples of pages that their thread did use.
    pub(crate) threads: f64,
    /// Samples whose processor is of the node where their thread was, and whose physical address is of the node
    /// where the kernel says that the page is.
    pub(crate) nodes: f64,
    /// Pages with as many samples as chance allows, where it may be otherwise for one page of all once in a hundred
    /// runs.
    pub(crate) pages: f64,
    /// Samples that somebody lost on their way.
    pub(crate) lost: u64,
}

/// The node of every page that `page-nodes` told.
pub(crate) fn homes(text: &str) -> Result<BTreeMap<u64, usize>> {
    text.lines()
        .map(|line| {
            let mut words = line.split(' ').skip(1);
            let address = u64::from_str_radix(words.next()?, 16).ok()?;
            Some((address >> PAGE_BITS, words.next()?.parse().ok()?))
        })
        .collect::<Option<_>>()
        .context("`page-nodes` said what is no page")
}

/// See [`Held`]. Nothing moves meanwhile.
pub(crate) fn hold(
    entries: &[Entry],
    matrix: &Matrix,
    truth: &Uses,
    homes: &BTreeMap<u64, usize>,
    machine: &Machine,
) -> Held {
    let samples = || {
        entries.iter().filter_map(|entry| match entry {
            Entry::Record(Record::Sample(sample)) => Some(sample),
            _ => None,
        })
    };
    let count = samples().count();
    let node_bytes = (machine.node_mib as u64) << 20;
    let (mut threads, mut nodes) = (0, 0);
    let mut taken: BTreeMap<u64, f64> = BTreeMap::new();
    for sample in samples() {
        let page = sample.address >> PAGE_BITS;
        threads += usize::from(truth.contains_key(&(sample.tid.0, page)));
        let home = usize::try_from(sample.physical / node_bytes).ok();
        let cpu_node = sample.cpu.0 as usize / machine.cpus_per_node;
        let thread_node = matrix.node_of(sample.tid.0).map(|node| node as usize);
        // Of pages that are gone by now, nobody knows the node.
        let at_home = homes.get(&page).is_none_or(|is| Some(*is) == home);
        nodes += usize::from(at_home && thread_node.is_none_or(|is| is == cpu_node));
        *taken.entry(page).or_default() += 1.0;
    }
    let mut counted: BTreeMap<u64, f64> = BTreeMap::new();
    for ((_, page), accesses) in truth {
        *counted.entry(*page).or_default() += accesses;
    }
    let all: f64 = counted.values().sum();
    let unlikely = 0.01 / float_of(counted.len().max(1));
    let as_expected = counted.iter().filter(|(page, accesses)| {
        let expected = float_of(count) * **accesses / all.max(1.0);
        chance(expected, taken.get(page).copied().unwrap_or_default()) >= unlikely
    });
    Held {
        threads: share(threads, count),
        nodes: share(nodes, count),
        pages: share(as_expected.count(), counted.len()),
        lost: entries
            .iter()
            .map(|entry| match entry {
                Entry::Record(Record::Lost(lost)) => *lost,
                _ => 0,
            })
            .sum(),
    }
}

/// How likely it is at most that so many samples or more extreme ones come where some are expected, one by one and
/// rarely: Chernoff's bound.
fn chance(expected: f64, found: f64) -> f64 {
    if found <= 0.0 {
        return (-expected).exp();
    }
    (found - expected + found * (expected / found).ln()).exp()
}

impl Held {
    /// With what the feeder lost, by its last words.
    pub(crate) fn and_lost(self, said: &str) -> Result<Self> {
        let words: Vec<&str> = said.split_whitespace().collect();
        let ["feeder:", _, "samples,", lost, "lost"] = words[..] else {
            bail!("the feeder said: {said}");
        };
        let lost: u64 = lost.parse()?;
        Ok(Self {
            lost: self.lost.max(lost),
            ..self
        })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;
    use std::process::Command;

    use super::*;
    use crate::accuracy::tests::world;
    use crate::accuracy::true_uses;

    #[test]
    fn samples_are_held_against_what_they_were_taken_from() {
        use numad_core::{AccessKind, Sample, ServedBy, Time};
        use topology::{CpuId, Pid, Tid};

        let (matrix, truth) = world();
        let machine = crate::machine::find("ring4").unwrap();
        let homes = homes("9 5000 0\n9 6000 1\n").unwrap();
        let sample = |tid, page: u64, node: u64| {
            Entry::Record(Record::Sample(Sample {
                time: Time(1),
                pid: Pid(9),
                tid: Tid(tid),
                address: page << PAGE_BITS | 8,
                physical: (node << 28) + 64,
                cpu: CpuId(if tid == 13 { 2 } else { 0 }),
                kind: AccessKind::Load,
                served: ServedBy::Unknown,
                weight: 0,
                period: 10,
            }))
        };
        let right = [sample(11, 5, 0), sample(12, 5, 0), sample(13, 6, 1)];
        let held = hold(&right, &matrix, &truth, &homes, &machine);
        assert_eq!((held.threads, held.nodes, held.lost), (1.0, 1.0, 0));
        let wrong = [sample(13, 5, 1), Entry::Record(Record::Lost(3))];
        let held = hold(&wrong, &matrix, &truth, &homes, &machine);
        assert_eq!((held.threads, held.nodes, held.lost), (0.0, 0.0, 3));
        let held = held.and_lost("feeder: 7 samples, 4 lost\n").unwrap();
        assert_eq!(held.lost, 4);
        held.and_lost("feeder: no memory for the ring").unwrap_err();
        assert!(chance(100.0, 100.0) > 0.99 && chance(100.0, 160.0) < 1e-6);
        assert!(chance(100.0, 50.0) < 1e-6 && chance(0.1, 0.0) > 0.9);
    }

    /// The sampler and the feeder without QEMU, in a second: every access is known there, too.
    #[cfg(target_arch = "x86_64")]
    #[test]
    fn the_samplers_samples_are_right_and_none_is_lost() {
        let folder = std::env::temp_dir().join(format!("numad-check-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("plugin");
        let program = folder.join("check");
        let built = Command::new("cc")
            .args(["-O2", "-fomit-frame-pointer", "-o"])
            .args([
                &program,
                &sources.join("check.c"),
                &sources.join("check_qemu.c"),
            ])
            .status();
        if !built.is_ok_and(|built| built.success()) {
            println!("skipped: there is no C compiler here");
            return;
        }
        let (first, said) = checked(&program, &folder, ["300", "200"]);
        let truth = fs::read_to_string(folder.join("truth.json")).unwrap();
        let truth = true_uses(&serde_json::from_str(&truth).unwrap()).unwrap();
        let machine = crate::machine::find("ring4").unwrap();
        let none = Matrix::default();
        // Thread 500 has its memory on node 0, 501 on node 1, and so on.
        let homes = (1..9)
            .flat_map(|thread| (0..256).map(move |page| (thread << 12 | page, thread)))
            .map(|(page, thread)| (page, usize::try_from(thread - 1).unwrap() % 4))
            .collect();
        let held = hold(&first, &none, &truth, &homes, &machine)
            .and_lost(&said)
            .unwrap();
        assert_eq!(
            (held.threads, held.nodes, held.pages, held.lost),
            (1.0, 1.0, 1.0, 0)
        );
        assert!((31_000..33_000).contains(&first.len()), "{}", first.len());
        // The same period and seed, the same samples; times are the host's here.
        let (second, _) = checked(&program, &folder, ["300", "200"]);
        let timeless = |entries: &[Entry]| -> Vec<Entry> {
            let mut entries = entries.to_vec();
            for entry in &mut entries {
                if let Entry::Record(Record::Sample(sample)) = entry {
                    sample.time = numad_core::Time(0);
                }
            }
            entries
        };
        assert!(timeless(&first) == timeless(&second));
        // More than the ring holds between two readings is lost, and counted.
        let (few, said) = checked(&program, &folder, ["1", "4"]);
        let lost = hold(&few, &none, &truth, &homes, &machine)
            .and_lost(&said)
            .unwrap()
            .lost;
        assert!(lost > 100_000, "{lost}");
        let counters = fs::read_to_string(folder.join("counters")).unwrap();
        assert!(
            counters.starts_with("process 499 instructions "),
            "{counters}"
        );
        fs::remove_dir_all(&folder).unwrap();
    }

    #[cfg(target_arch = "x86_64")]
    fn checked(program: &Path, folder: &Path, arguments: [&str; 2]) -> (Vec<Entry>, String) {
        let ran = Command::new(program)
            .arg(folder)
            .args(arguments)
            .output()
            .unwrap();
        assert!(ran.status.success(), "{ran:?}");
        let recording = fs::read(folder.join("recording")).unwrap();
        let (_, entries, _) = sampler::recording::read(&recording).unwrap();
        (entries, String::from_utf8(ran.stderr).unwrap())
    }
}
