//! An experiment as one page: nothing runs in it and nothing is loaded, so it opens anywhere and can be sent by mail.
//! All it shows is in the file of the experiment; under each picture its numbers stand as a table.

use control::experiment::{Arm, Experiment, Metric, Slice};
use picture::colours::{SERIES, series};
use picture::page::{figure as figure_of, numbers, table, whole};
use picture::{Drawing, escaped};

use super::experiment::{
    ending, figure, notes, noun, percent, primary, result_rows, sentence, signed,
};
use super::sight;
use experiment::results;

/// Size of a picture, in pixels.
const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 260.0;

/// Room at the left for numbers, and below for the axis.
const LEFT: f64 = 80.0;
const BELOW: f64 = 34.0;

/// The page.
#[must_use]
pub fn page(experiment: &Experiment) -> String {
    let title = format!(
        "{}: {}",
        arm_names(experiment),
        experiment.subject.join(" ")
    );
    let mut html = String::new();
    for row in primary(experiment) {
        let class = match super::experiment::word(row.verdict) {
            word @ ("better" | "worse") => word,
            _ => "open",
        };
        html.push_str(&format!(
            "<p class=\"verdict {class}\">{}</p>\n",
            escaped(&sentence(experiment, row))
        ));
    }
    html.push_str(&format!("<p>{}.</p>\n", escaped(&ending(experiment))));
    html.push_str(&facts(experiment));
    for note in notes(experiment) {
        html.push_str(&format!("<p>Note: {}.</p>\n", escaped(&note)));
    }
    html.push_str("<h2>Differences from the control</h2>\n");
    for arm in 1..experiment.arms.len() {
        html.push_str(&differences(experiment, arm));
    }
    let head = [
        "policy",
        "metric",
        "pairs",
        "gain",
        "bounds",
        "p, adjusted",
        "verdict",
    ];
    html.push_str(&table(&head, &result_rows(&experiment.results)));
    for metric in 0..experiment.metrics.len() {
        let name = escaped(&experiment.metrics[metric].name);
        html.push_str(&format!("<h2>{name}</h2>\n"));
        html.push_str(&in_time(experiment, metric));
        html.push_str(&distribution(experiment, metric));
    }
    html.push_str(&sights(experiment));
    html.push_str(&raw(experiment));
    whole(&title, &html)
}

/// The program under each policy, as it was at the end of the policy's last slice.
fn sights(experiment: &Experiment) -> String {
    let mut html = String::new();
    for sight in &experiment.sights {
        let arm = experiment.arms.get(sight.arm as usize);
        let name = escaped(arm.map_or("", |arm| &arm.name));
        let accesses = sight::accesses(&sight.accesses);
        let matrix = sight.matrix.as_ref().and_then(sight::matrix);
        for (what, picture) in [
            ("accesses of each node", accesses),
            ("who shared memory with whom", matrix),
        ] {
            if let Some(picture) = picture {
                html.push_str(&format!("<h2>Under {name} at last: {what}</h2>\n{picture}"));
            }
        }
    }
    html
}

fn arm_names(experiment: &Experiment) -> String {
    let names: Vec<&str> = experiment
        .arms
        .iter()
        .map(|arm| arm.name.as_str())
        .collect();
    let (control, others) = names.split_first().unwrap_or((&"", &[]));
    format!("{} against {control}", others.join(", "))
}

fn facts(experiment: &Experiment) -> String {
    let settings = |arm: &Arm| {
        let set: Vec<String> = arm
            .set
            .iter()
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        let policy = arm
            .policy
            .as_deref()
            .unwrap_or("numad does not touch the program");
        let set = if set.is_empty() {
            String::new()
        } else {
            format!(" ({})", set.join(", "))
        };
        format!("{}: {policy}{set}", arm.name)
    };
    let arms: Vec<String> = experiment.arms.iter().map(settings).collect();
    let rows = [
        ("program", experiment.subject.join(" ")),
        ("machine", experiment.machine.clone()),
        ("policies", arms.join("; ")),
        ("primary metric", experiment.metrics[0].name.clone()),
        ("smallest effect that counts", percent(experiment.margin)),
        ("written by", experiment.made_by.clone()),
    ];
    let rows: Vec<Vec<String>> = rows
        .into_iter()
        .map(|(name, value)| vec![name.to_owned(), value])
        .collect();
    table(&["", ""], &rows)
}

/// From values to heights and back.
struct Scale {
    least: f64,
    most: f64,
}

impl Scale {
    fn of(values: impl Iterator<Item = f64>) -> Self {
        let (least, most) = values.fold(
            (f64::INFINITY, f64::NEG_INFINITY),
            |(least, most), value| (least.min(value), most.max(value)),
        );
        if !(least.is_finite() && most.is_finite()) {
            return Self {
                least: 0.0,
                most: 1.0,
            };
        }
        // Equal values need some room too, or the scale shows one number over and over.
        let room = ((most - least) * 0.08)
            .max(most.abs() * 5e-3)
            .max(f64::MIN_POSITIVE);
        Self {
            least: least - room,
            most: most + room,
        }
    }

    /// Where a value stands between the ends, 0 to 1.
    fn share(&self, value: f64) -> f64 {
        ((value - self.least) / (self.most - self.least)).clamp(0.0, 1.0)
    }

    /// The value that stands there.
    fn at(&self, share: f64) -> f64 {
        self.least + (self.most - self.least) * share
    }

    fn y(&self, value: f64) -> f64 {
        (1.0 - self.share(value)) * (HEIGHT - BELOW - 10.0) + 10.0
    }

    /// Five lines with their values.
    fn draw(&self, drawing: &mut Drawing, name: &dyn Fn(f64) -> String) {
        for step in 0..5 {
            let value = self.at(f64::from(step) / 4.0);
            let y = self.y(value);
            drawing.line((LEFT, y), (WIDTH, y), "class=\"axis\"");
            drawing.text((LEFT - 6.0, y + 4.0), "text-anchor=\"end\"", &name(value));
        }
    }
}

/// Where the piece of this index stands among so many.
fn x(index: usize, count: usize) -> f64 {
    LEFT + 12.0 + (WIDTH - LEFT - 24.0) * (index as f64 + 0.5) / count.max(1) as f64
}

/// The difference of each pair, the estimate and its bounds.
fn differences(experiment: &Experiment, arm: usize) -> String {
    let pairs = results::differences(experiment, arm, 0);
    let row = &primary(experiment).get(arm - 1);
    let shares: Vec<f64> = pairs
        .iter()
        .map(|(_, difference)| difference.exp_m1())
        .collect();
    let bounds = row.and_then(|row| Some((row.low?, row.high?)));
    let ends = bounds.into_iter().flat_map(|(low, high)| [low, high]);
    // At least from 1 % worse to 1 % better, so that nothing looks like much.
    let scale = Scale::of(shares.iter().copied().chain(ends).chain([-0.01, 0.01]));
    let name = &experiment.arms[arm].name;
    let title = format!("{name} minus {}, pair by pair", experiment.arms[0].name);
    let description = format!(
        "{} pairs; above the dashed line {name} is better. The band is where the true effect lies.",
        pairs.len()
    );
    let mut drawing = Drawing::inline((WIDTH, HEIGHT), &title, &description);
    if let Some((low, high)) = bounds {
        let (top, bottom) = (scale.y(high), scale.y(low));
        let size = (WIDTH - LEFT, bottom - top);
        let style = format!("class=\"a{} band\"", arm % SERIES);
        drawing.rect((LEFT, top), size, &style);
    }
    scale.draw(&mut drawing, &signed);
    drawing.line(
        (LEFT, scale.y(0.0)),
        (WIDTH, scale.y(0.0)),
        "class=\"zero\"",
    );
    if let Some(gain) = row.and_then(|row| row.gain) {
        drawing.line((LEFT, scale.y(gain)), (WIDTH, scale.y(gain)), &series(arm));
    }
    for (index, share) in shares.iter().enumerate() {
        let name = format!("pair {}: {}", pairs[index].0 + 1, signed(*share));
        drawing.mark(
            arm,
            (x(index, shares.len()), scale.y(*share)),
            &series(arm),
            &name,
        );
    }
    drawing.text((LEFT, HEIGHT - 8.0), "", "pairs in order of time");
    let rows: Vec<Vec<String>> = pairs
        .iter()
        .zip(&shares)
        .map(|((block, difference), share)| {
            vec![
                (block + 1).to_string(),
                signed(*share),
                format!("{difference:.6}"),
            ]
        })
        .collect();
    let head = ["pair", "gain", "difference of logarithms"];
    figure_of(&drawing.finish(), &title) + &numbers(&table(&head, &rows))
}

/// Every value in the order in which it was measured.
fn in_time(experiment: &Experiment, metric: usize) -> String {
    let value = |slice: &Slice| slice.values.get(metric).copied().flatten();
    let slices = &experiment.slices;
    let scale = Scale::of(slices.iter().filter_map(value));
    let Metric { name, unit, .. } = &experiment.metrics[metric];
    let title = format!(
        "{name} of each of the {}, in order of time",
        noun(experiment)
    );
    let description =
        "Each policy has its own shape and colour; the line of a policy is its median.";
    let mut drawing = Drawing::inline((WIDTH, HEIGHT), &title, description);
    scale.draw(&mut drawing, &figure);
    for (index, slice) in slices.iter().enumerate() {
        let (Some(value), Ok(arm)) = (value(slice), usize::try_from(slice.arm)) else {
            continue;
        };
        let told = format!(
            "{} {}: {} {unit}",
            experiment.arms[arm].name,
            slice.block + 1,
            figure(value)
        );
        drawing.mark(
            arm,
            (x(index, slices.len()), scale.y(value)),
            &series(arm),
            &told,
        );
    }
    let mut left = LEFT;
    for (arm, named) in experiment.arms.iter().enumerate() {
        drawing.mark(arm, (left + 6.0, HEIGHT - 12.0), &series(arm), &named.name);
        drawing.text((left + 16.0, HEIGHT - 8.0), "", &named.name);
        left += 40.0 + 7.5 * named.name.chars().count() as f64;
        let values = results::arm_values(experiment, arm, metric);
        if !values.is_empty() {
            let y = scale.y(experiment::bootstrap::quantile(&values, 0.5));
            drawing.line((LEFT, y), (WIDTH, y), &series(arm));
        }
    }
    let rows: Vec<Vec<String>> = slices
        .iter()
        .map(|slice| {
            vec![
                format!("{:.1}", slice.at_s),
                (slice.block + 1).to_string(),
                arm_of(experiment, slice),
                value(slice).map_or_else(|| "-".to_owned(), figure),
            ]
        })
        .collect();
    let head = ["at, s", "block", "policy", "value"];
    figure_of(&drawing.finish(), &title) + &numbers(&table(&head, &rows))
}

/// How the values of each policy lie: a mark for each, a box around the middle half, a line at the median.
fn distribution(experiment: &Experiment, metric: usize) -> String {
    const ROW: f64 = 44.0;
    const NAMES: f64 = 150.0;
    let Metric { name, unit, .. } = &experiment.metrics[metric];
    let values: Vec<Vec<f64>> = (0..experiment.arms.len())
        .map(|arm| results::arm_values(experiment, arm, metric))
        .collect();
    let scale = Scale::of(values.iter().flatten().copied());
    let across = |value: f64| NAMES + (WIDTH - NAMES - 30.0) * scale.share(value);
    let height = ROW * values.len() as f64 + BELOW;
    let title = format!("How {name} is distributed under each policy");
    let description =
        "A mark for each value; the box holds the middle half, the line in it is the median.";
    let mut drawing = Drawing::inline((WIDTH, height), &title, description);
    for step in 0..5 {
        let value = scale.at(f64::from(step) / 4.0);
        let x = across(value);
        drawing.line((x, 0.0), (x, height - BELOW), "class=\"axis\"");
        let style = "text-anchor=\"middle\"";
        drawing.text((x, height - BELOW + 16.0), style, &figure(value));
    }
    let mut rows = Vec::new();
    for (arm, values) in values.iter().enumerate() {
        let named = &experiment.arms[arm].name;
        let middle = ROW * (arm as f64 + 0.5);
        drawing.text((0.0, middle + 4.0), "", &shortened(named));
        let at = |share| experiment::bootstrap::quantile(values, share);
        let mut row = vec![named.clone(), values.len().to_string()];
        row.extend([0.0, 0.25, 0.5, 0.75, 1.0].map(|share| figure(at(share))));
        row.push(unit.clone());
        rows.push(row);
        if values.is_empty() {
            continue;
        }
        let (low, high) = (across(at(0.25)), across(at(0.75)));
        let style = format!("class=\"a{} band\"", arm % SERIES);
        drawing.rect((low, middle - 14.0), (high - low, 28.0), &style);
        let median = across(at(0.5));
        let (top, bottom) = ((median, middle - 14.0), (median, middle + 14.0));
        drawing.line(top, bottom, &format!("{} stroke-width=\"2\"", series(arm)));
        for (index, value) in values.iter().enumerate() {
            // Above and below the middle in turns, so that equal values are seen.
            let y = middle + [-6.0, 0.0, 6.0][index % 3];
            drawing.mark(arm, (across(*value), y), &series(arm), &figure(*value));
        }
    }
    let head = [
        "policy",
        "n",
        "least",
        "quarter",
        "median",
        "three quarters",
        "most",
        "unit",
    ];
    figure_of(&drawing.finish(), &title) + &table(&head, &rows)
}

/// A name that fits beside a picture.
fn shortened(name: &str) -> String {
    const MOST: usize = 20;
    match name.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}...", &name[..end]),
        None => name.to_owned(),
    }
}

/// What each slice was and did: only columns that something is known of.
fn raw(experiment: &Experiment) -> String {
    type Column = (&'static str, fn(&Slice) -> Option<String>);
    let columns: [Column; 5] = [
        ("exit code", |it| it.exit_code.map(|code| code.to_string())),
        ("waiting for processors", |it| it.pressure.map(percent)),
        ("threads bound", |it| {
            it.moved.map(|it| it.threads.to_string())
        }),
        ("pages moved", |it| it.moved.map(|it| it.pages.to_string())),
        ("undo, ms", |it| it.moved?.undo_ms.map(|ms| ms.to_string())),
    ];
    let slices = &experiment.slices;
    let known = |column: &&Column| slices.iter().any(|slice| (column.1)(slice).is_some());
    let known: Vec<&Column> = columns.iter().filter(known).collect();
    let mut head = vec!["block", "policy", "at, s", "length, s"];
    head.extend(known.iter().map(|column| column.0));
    let row = |slice: &Slice| {
        let mut cells = vec![
            (slice.block + 1).to_string(),
            arm_of(experiment, slice),
            format!("{:.1}", slice.at_s),
            format!("{:.2}", slice.length_s),
        ];
        let values = known.iter().map(|column| (column.1)(slice));
        cells.extend(values.map(|value| value.unwrap_or_else(|| "-".to_owned())));
        cells
    };
    let rows: Vec<Vec<String>> = slices.iter().map(row).collect();
    format!(
        "<h2>Order, and what each policy did</h2>\n<p>Seed {}; the seed decides the order within each block. Waiting \
         for processors: the share of time in which some thread of the machine did.</p>\n{}",
        experiment.seed,
        table(&head, &rows)
    ) + &disturbed(experiment)
}

/// Name of a slice's policy.
fn arm_of(experiment: &Experiment, slice: &Slice) -> String {
    let arm = usize::try_from(slice.arm).ok();
    let arm = arm.and_then(|arm| experiment.arms.get(arm));
    arm.map_or_else(String::new, |arm| arm.name.clone())
}

/// What else went on under each policy.
fn disturbed(experiment: &Experiment) -> String {
    let Some((head, rows)) = super::experiment::disturbed(experiment) else {
        return String::new();
    };
    let head: Vec<String> = head.iter().map(|name| name.to_lowercase()).collect();
    let head: Vec<&str> = head.iter().map(String::as_str).collect();
    format!(
        "<h2>Beside the policies</h2>\n<p>Means over each policy's slices, switching included. Neighbour: of the control \
         groups beside the program's, the one that waited most. Kernel moved: pages that its own balancing moved.</p>\n{}",
        table(&head, &rows)
    )
}
