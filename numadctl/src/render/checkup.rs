//! Whether memory placement matters for a program, in three sentences.

use serde_json::{Value, json};

use super::units::{count, seconds};
use super::wrap::wrapped;

/// What was found of a program.
#[derive(Clone, Debug, PartialEq)]
pub struct Checkup {
    /// Its name and a process of it.
    pub command: String,
    /// A process of it.
    pub pid: u32,
    /// How long was looked, in seconds.
    pub looked_s: f64,
    /// Samples in that time.
    pub samples: u64,
    /// Share of accesses that were remote in each window that tells.
    pub remote: Vec<f64>,
    /// How many times a local access a remote one costs, by the distances of the machine.
    pub penalty: f64,
    /// Policies with the share of remote accesses that each would take away on paper, largest first; none where the recording
    /// does not tell.
    pub shadows: Vec<(String, f64)>,
}

/// Gains on paper below this are none: a share of all accesses.
const GAIN_MIN: f64 = 0.02;

/// Windows that tell, below which nothing is claimed.
const WINDOWS_MIN: usize = 3;

/// The answer, in lines of at most `width`.
#[must_use]
pub fn text(checkup: &Checkup, width: usize) -> String {
    let lines = sentences(checkup).into_iter();
    let lines = lines.flat_map(|sentence| wrapped(&sentence, width));
    lines.map(|line| line + "\n").collect()
}

/// The same with its figures, where they were measured.
#[must_use]
pub fn value(checkup: &Checkup) -> Value {
    let gains = checkup.shadows.iter();
    let gains: Vec<Value> = gains
        .map(|(policy, gain)| json!({ "policy": policy, "gain": gain }))
        .collect();
    let remote = remote_share(&checkup.remote);
    json!({
        "command": checkup.command,
        "pid": checkup.pid,
        "looked_s": checkup.looked_s,
        "samples": checkup.samples,
        "windows": checkup.remote.len(),
        "remote_share": remote.map(|[share, low, high]| json!({ "mean": share, "low": low, "high": high })),
        "penalty": checkup.penalty,
        "gains": gains,
        "sentences": sentences(checkup),
    })
}

/// The mean and its bounds; none where too few windows tell.
fn remote_share(windows: &[f64]) -> Option<[f64; 3]> {
    (windows.len() >= WINDOWS_MIN).then(|| {
        let spread = experiment::student::spread(windows);
        let bound = |sign: f64| (spread.mean + sign * spread.margin).clamp(0.0, 1.0);
        [spread.mean, bound(-1.0), bound(1.0)]
    })
}

/// Nothing that was not measured is given as a number.
fn sentences(checkup: &Checkup) -> [String; 3] {
    let Checkup {
        command,
        looked_s,
        samples,
        remote,
        penalty,
        ..
    } = checkup;
    let looked = format!(
        "{} of {command} in {}",
        count(*samples, "sample"),
        seconds(*looked_s)
    );
    let Some([share, low, high]) = remote_share(remote) else {
        return [
            format!("{looked} do not tell which share of its accesses is remote."),
            "So what remote accesses cost is not known.".to_owned(),
            "Look for longer with --for 5m while it works; `numadctl doctor` tells what limits sampling here."
                .to_owned(),
        ];
    };
    let percent = |share: f64| format!("{:.1} %", share * 100.0);
    let seen = format!(
        "{looked}: {} of its accesses are remote ({} to {}, by {}).",
        percent(share),
        percent(low),
        percent(high),
        count(u64::try_from(remote.len()).unwrap_or(u64::MAX), "window")
    );
    let cost = |share: f64| format!("{:.2}", 1.0 + share * (penalty - 1.0));
    let costs = format!(
        "A remote access costs {penalty:.1} local ones by the distances of this machine, so its accesses take {} times as \
         long as if all were local ({} to {}; a model, not a measurement).",
        cost(share),
        cost(low),
        cost(high)
    );
    [seen, costs, next(checkup)]
}

/// What each policy would gain, and what to try.
fn next(checkup: &Checkup) -> String {
    let (best, others) = match checkup.shadows.split_first() {
        Some(((name, gain), others)) if *gain >= GAIN_MIN => ((name, gain), others),
        Some(_) => {
            return "On paper no policy makes noticeably fewer of them remote: leave it as it is."
                .to_owned();
        }
        None => {
            return format!(
                "What policies would gain could not be told; `numadctl ab {} --policies linux,auto --metric local` measures it.",
                checkup.pid
            );
        }
    };
    let points = |gain: f64| format!("{:.0} points", gain * 100.0);
    let others: Vec<String> = others
        .iter()
        .filter(|(_, gain)| *gain >= GAIN_MIN)
        .take(3)
        .map(|(name, gain)| format!("{name} {}", points(*gain)))
        .collect();
    let others = match others.is_empty() {
        true => String::new(),
        false => format!(" ({})", others.join(", ")),
    };
    format!(
        "On paper {} would make {} of its accesses local{others}; try `numadctl ab {} --policies linux,{} --metric local`.",
        best.0,
        points(*best.1),
        checkup.pid,
        best.0
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checkup() -> Checkup {
        Checkup {
            command: "solver".to_owned(),
            pid: 42,
            looked_s: 30.0,
            samples: 12_000,
            remote: vec![0.4, 0.42, 0.38, 0.4],
            penalty: 2.1,
            shadows: vec![
                ("deloc".to_owned(), 0.35),
                ("ptb".to_owned(), 0.2),
                ("lapt".to_owned(), 0.0),
            ],
        }
    }

    #[track_caller]
    fn says(checkup: &Checkup, parts: &[&str], never: &str) {
        let told = text(checkup, 10_000);
        assert_eq!(told.lines().count(), 3, "{told}");
        for part in parts {
            assert!(told.contains(part), "{part}: {told}");
        }
        assert!(never.is_empty() || !told.contains(never), "{told}");
    }

    #[test]
    fn three_sentences_with_numbers() {
        says(
            &checkup(),
            &[
                "40.0 % of its accesses are remote (37.4 % to 42.6 %, by 4 windows)",
                "take 1.44 times as long as if all were local (1.41 to 1.47;",
                "deloc would make 35 points of its accesses local (ptb 20 points)",
                "`numadctl ab 42 --policies linux,deloc --metric local`",
            ],
            "lapt",
        );
    }

    #[test]
    fn json_has_the_sentences_and_their_figures() {
        let told = value(&checkup());
        assert_eq!((&told["pid"], &told["windows"]), (&42.into(), &4.into()));
        let remote = &told["remote_share"];
        let figure = |name: &str| remote[name].as_f64().unwrap();
        assert!((figure("mean") - 0.4).abs() < 1e-9, "{remote}");
        assert!(figure("low") < 0.4 && figure("high") > 0.4, "{remote}");
        assert_eq!(told["gains"][0], json!({ "policy": "deloc", "gain": 0.35 }));
        let lines: Vec<&str> = told["sentences"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(Value::as_str)
            .collect();
        assert_eq!(lines.join("\n") + "\n", text(&checkup(), 10_000));
    }

    #[test]
    fn what_was_not_measured_is_no_zero() {
        let blind = Checkup {
            remote: vec![0.0],
            ..checkup()
        };
        says(&blind, &["do not tell", "not known"], "%");
        assert_eq!(value(&blind)["remote_share"], Value::Null);
        let unrecorded = Checkup {
            shadows: Vec::new(),
            ..checkup()
        };
        says(&unrecorded, &["could not be told"], "points");
    }

    #[test]
    fn who_gains_nothing_is_left_alone() {
        let settled = Checkup {
            shadows: vec![("deloc".to_owned(), 0.01)],
            ..checkup()
        };
        says(&settled, &["leave it as it is"], "try");
    }
}
