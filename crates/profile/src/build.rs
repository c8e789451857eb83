//! A profile out of what was gathered.

use std::collections::BTreeMap;

use control::profile::{FORMAT, Group, Level, Profile, Thresholds};

use crate::metrics::{Evidence, Volume, class, class_if_mapping_helps, metrics, unknown};
use crate::timeline::{Timeline, pair};

/// What is known beside the events.
#[derive(Clone, Debug)]
pub struct About {
    /// The program that makes the profile, with its version.
    pub made_by: String,
    /// What it is made from.
    pub source: String,
    /// What was seen as communication.
    pub level: Level,
    /// Names of the tasks.
    pub tasks: Vec<String>,
    /// Where classes begin.
    pub thresholds: Thresholds,
    /// What else is to be known.
    pub notes: Vec<String>,
}

/// A profile of events in time.
#[must_use]
pub fn in_time(about: About, timeline: &Timeline, volume: Volume) -> Profile {
    let mut profile = plain(about, timeline.groups());
    profile.length_s = Some(timeline.length_ns() as f64 / 1e9);
    profile.moments = timeline.moments();
    judge(profile, volume, Some(timeline.changes()))
}

/// A profile of amounts without times, by who sent to whom: bytes and events.
#[must_use]
pub fn without_times(about: About, sent: &BTreeMap<(u32, u32), (u64, u64)>) -> Profile {
    let mut sums: BTreeMap<(u32, u32), (u64, u64)> = BTreeMap::new();
    for (&(from, to), &(bytes, events)) in sent {
        if from != to {
            let sum = sums.entry((from.min(to), from.max(to))).or_default();
            sum.0 = sum.0.saturating_add(bytes);
            sum.1 = sum.1.saturating_add(events);
        }
    }
    let pairs: Vec<_> = sums.into_iter().map(pair).collect();
    let group = Group {
        from_s: None,
        to_s: None,
        pairs,
    };
    let groups = if group.pairs.is_empty() {
        Vec::new()
    } else {
        vec![group]
    };
    judge(plain(about, groups), Volume::default(), None)
}

fn plain(about: About, groups: Vec<Group>) -> Profile {
    Profile {
        numad_profile: FORMAT,
        made_by: about.made_by,
        source: about.source,
        level: about.level,
        tasks: about.tasks,
        length_s: None,
        metrics: control::profile::Metrics::default(),
        thresholds: about.thresholds,
        samples: None,
        class: None,
        class_unknown: None,
        class_if_mapping_helps: None,
        unknown: Vec::new(),
        groups,
        moments: Vec::new(),
        notes: about.notes,
    }
}

fn judge(mut profile: Profile, volume: Volume, changes: Option<u64>) -> Profile {
    profile.metrics = metrics(&profile.matrix(), &profile.groups, volume, changes);
    profile.samples = volume.samples;
    profile.unknown = unknown(&profile.metrics, profile.level, changes.is_some());
    let thresholds = profile.thresholds;
    by_thresholds(profile, thresholds)
}

/// The same profile with its class by these thresholds.
#[must_use]
pub fn by_thresholds(mut profile: Profile, thresholds: Thresholds) -> Profile {
    let pairs = profile.groups.iter().flat_map(|group| &group.pairs);
    let evidence = Evidence {
        samples: profile.samples,
        events: pairs.map(|pair| pair.events).fold(0, u64::saturating_add),
        length_s: profile.length_s.unwrap_or(0.0),
    };
    profile.thresholds = thresholds;
    (profile.class, profile.class_unknown) = match class(&profile.metrics, &thresholds, evidence) {
        Ok(class) => (Some(class), None),
        Err(why) => (None, Some(why)),
    };
    profile.class_if_mapping_helps =
        class_if_mapping_helps(&profile.metrics, &thresholds, evidence);
    profile
}
